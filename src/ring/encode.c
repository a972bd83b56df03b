/* SPDX-License-Identifier: Apache-2.0
 * Encoders of fresh buffers: control, ring, debug log, load miss; see <tidegate/ring.h>. Sizes are checked
 * before the first byte is written. */
#include <tidegate/ring.h>

#include "ring/bytes.h"

/* Zeroes the bytes a fresh buffer needs, or says that they are not there. */
static int fresh(void *dst, size_t capacity, uint64_t need, size_t *ret_bytes)
{
    if (need > capacity)
        return TG_MISSING_WORD;
    if (need > 0)
        memset(dst, 0, (size_t)need);
    if (ret_bytes)
        *ret_bytes = (size_t)need;
    return 0;
}

static void fill_words(unsigned char *bytes, size_t first, uint32_t count, uint32_t limit, uint32_t value)
{
    for (uint32_t i = 0; i < count && i < limit; i++)
        tg_put_word(bytes, first + i, value);
}

int tg_protocol_encode_control(bool shutdown, uint32_t tenants, uint32_t observable_slots, void *dst,
                               size_t capacity, size_t *ret_bytes)
{
    uint64_t need;
    if (observable_slots > TG_MAX_ENCODED_OBSERVABLE_SLOTS ||
        tg_control_byte_len(observable_slots, &need) < 0)
        return TG_BYTE_LENGTH_OVERFLOW;
    const int r = fresh(dst, capacity, need, ret_bytes);
    if (r < 0)
        return r;
    tg_put_word(dst, TG_CONTROL_SHUTDOWN, shutdown ? 1 : 0);
    tg_put_word(dst, TG_CONTROL_TENANT_BASE, TG_CONTROL_TENANT_MASKS);
    fill_words(dst, TG_CONTROL_TENANT_MASKS, tenants, TG_CONTROL_TENANT_MASK_SLOTS, TG_TENANT_MASK_ALL);
    fill_words(dst, TG_CONTROL_TENANT_QUOTA_BASE, tenants, TG_CONTROL_TENANT_QUOTA_SLOTS,
               TG_TENANT_QUOTA_INITIAL);
    return 0;
}

int tg_protocol_encode_empty_ring(uint32_t slots, void *dst, size_t capacity, size_t *ret_bytes)
{
    uint64_t need;
    if (slots > TG_MAX_ENCODED_RING_SLOTS || tg_ring_byte_len(slots, &need) < 0)
        return TG_BYTE_LENGTH_OVERFLOW;
    return fresh(dst, capacity, need, ret_bytes);
}

int tg_protocol_encode_empty_debug_log(uint32_t records, void *dst, size_t capacity, size_t *ret_bytes)
{
    uint64_t need;
    if (records > TG_MAX_ENCODED_DEBUG_RECORDS || tg_debug_log_byte_len(records, &need) < 0)
        return TG_BYTE_LENGTH_OVERFLOW;
    return fresh(dst, capacity, need, ret_bytes);
}

int tg_protocol_encode_load_miss(uint32_t resource, bool prefetch, void *dst, size_t capacity,
                                 size_t *ret_bytes)
{
    if (capacity < TG_SLOT_BYTES)
        return TG_MISSING_WORD;
    const uint32_t args[2] = {resource, prefetch ? 1 : 0};
    tg_slot_fill(dst, TG_OP_LOAD_MISS, 0, TG_PRIORITY_CRITICAL, args, 2);
    if (ret_bytes)
        *ret_bytes = TG_SLOT_BYTES;
    return 0;
}
