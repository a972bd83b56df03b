/* SPDX-License-Identifier: Apache-2.0
 * See hist.h. Bucket i below 64 holds the value i; above, 32 buckets a power of two. */
#include "base/hist.h"

#include <string.h>

#include "base/atomic.h"

static uint32_t bucket_of(uint64_t v)
{
    if (v < TG_HIST_SUB * 2)
        return (uint32_t)v;
    uint32_t shift = 63u - (uint32_t)__builtin_clzll(v) - 5u;
    return shift * TG_HIST_SUB + (uint32_t)(v >> shift);
}

static uint64_t upper_edge(uint32_t b)
{
    if (b < TG_HIST_SUB * 2)
        return b;
    uint32_t shift = b / TG_HIST_SUB - 1;
    uint64_t mantissa = b % TG_HIST_SUB + TG_HIST_SUB;
    return ((mantissa + 1) << shift) - 1;
}

void tg_hist_reset(struct tg_hist *h)
{
    memset(h, 0, sizeof(*h));
}

/* H1 relaxed: one writer; a reader that merges meanwhile may miss the latest value, never see a torn one. */
static void bump(uint64_t *word, uint64_t by)
{
    tg_store_relaxed_u64(word, *word + by);
}

void tg_hist_add_sp(struct tg_hist *h, uint64_t value)
{
    bump(&h->bucket[bucket_of(value)], 1);
    bump(&h->count, 1);
    bump(&h->sum, value);
    if (value > h->max)
        tg_store_relaxed_u64(&h->max, value);
}

void tg_hist_merge(struct tg_hist *into, const struct tg_hist *from)
{
    /* H1 relaxed again: from may have its writer at work. The count is taken from the buckets, so that the
     * two agree. */
    for (uint32_t i = 0; i < TG_HIST_BUCKETS; i++) {
        uint64_t n = tg_load_relaxed_u64(&from->bucket[i]);
        into->bucket[i] += n;
        into->count += n;
    }
    into->sum += tg_load_relaxed_u64(&from->sum);
    uint64_t max = tg_load_relaxed_u64(&from->max);
    if (max > into->max)
        into->max = max;
}

uint64_t tg_hist_quantile(const struct tg_hist *h, double q)
{
    if (h->count == 0)
        return 0;
    uint64_t rank = (uint64_t)(q * (double)(h->count - 1)) + 1;
    uint64_t seen = 0;
    for (uint32_t i = 0; i < TG_HIST_BUCKETS; i++) {
        seen += h->bucket[i];
        if (seen >= rank) {
            uint64_t edge = upper_edge(i);
            return edge < h->max ? edge : h->max;
        }
    }
    return h->max;
}
