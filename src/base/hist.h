/* SPDX-License-Identifier: Apache-2.0
 *
 * Histogram of u64 values (latencies in ns): log-linear buckets, 32 per power of two, so a quantile is
 * within 3.2 % of the true value; 15 KiB, no allocation. One writer at a time (_sp); merge to combine,
 * also while the writer of the source goes on.
 */
#ifndef TG_BASE_HIST_H
#define TG_BASE_HIST_H

#include <stdint.h>

#define TG_HIST_SUB 32u
#define TG_HIST_BUCKETS (60u * TG_HIST_SUB)

struct tg_hist {
    uint64_t count;
    uint64_t max;
    uint64_t sum;
    uint64_t bucket[TG_HIST_BUCKETS];
};

void tg_hist_reset(struct tg_hist *h);
void tg_hist_add_sp(struct tg_hist *h, uint64_t value);
void tg_hist_merge(struct tg_hist *into, const struct tg_hist *from);
/* The value at quantile q in [0, 1], the upper edge of its bucket (never above the maximum); 0 when empty. */
uint64_t tg_hist_quantile(const struct tg_hist *h, double q);

#endif
