/* SPDX-License-Identifier: Apache-2.0
 * The two error classes, and the calls that give only the class of what their tg_protocol_ form found; see
 * <tidegate/ring.h>. */
#include <tidegate/ring.h>

int tg_error_class(int error)
{
    switch (error) {
    case TG_BYTE_LENGTH_OVERFLOW:
        return TG_QUEUE_FULL;
    case TG_MISALIGNED_BYTE_LENGTH:
    case TG_MISSING_WORD:
        return TG_BACKEND;
    default:
        return error;
    }
}

int tg_try_slot_word_index(uint32_t slot, uint32_t word, uint32_t *ret_index)
{
    return tg_error_class(tg_protocol_try_slot_word_index(slot, word, ret_index));
}

int tg_encode_control(bool shutdown, uint32_t tenants, uint32_t observable_slots, void *dst, size_t capacity,
                      size_t *ret_bytes)
{
    return tg_error_class(
        tg_protocol_encode_control(shutdown, tenants, observable_slots, dst, capacity, ret_bytes));
}

int tg_encode_empty_ring(uint32_t slots, void *dst, size_t capacity, size_t *ret_bytes)
{
    return tg_error_class(tg_protocol_encode_empty_ring(slots, dst, capacity, ret_bytes));
}

int tg_encode_empty_debug_log(uint32_t records, void *dst, size_t capacity, size_t *ret_bytes)
{
    return tg_error_class(tg_protocol_encode_empty_debug_log(records, dst, capacity, ret_bytes));
}

int tg_encode_load_miss(uint32_t resource, bool prefetch, void *dst, size_t capacity, size_t *ret_bytes)
{
    return tg_error_class(tg_protocol_encode_load_miss(resource, prefetch, dst, capacity, ret_bytes));
}

int tg_try_count_done_ring_slots(const void *ring, size_t ring_bytes, uint64_t item_count, uint64_t *ret_done)
{
    return tg_error_class(tg_protocol_try_count_done_ring_slots(ring, ring_bytes, item_count, ret_done));
}

int tg_try_read_done_count(const void *control, size_t control_bytes, uint32_t *ret_count)
{
    return tg_error_class(tg_protocol_try_read_done_count(control, control_bytes, ret_count));
}

int tg_try_read_epoch(const void *control, size_t control_bytes, uint32_t *ret_epoch)
{
    return tg_error_class(tg_protocol_try_read_epoch(control, control_bytes, ret_epoch));
}

int tg_try_read_observable(const void *control, size_t control_bytes, uint32_t index, uint32_t *ret_value)
{
    return tg_error_class(tg_protocol_try_read_observable(control, control_bytes, index, ret_value));
}

int tg_try_read_metrics(const void *control, size_t control_bytes,
                        struct tg_metric entries[TG_CONTROL_METRICS_SLOTS], size_t *count)
{
    return tg_error_class(tg_protocol_try_read_metrics(control, control_bytes, entries, count));
}

int tg_try_read_debug_log(const void *log, size_t log_bytes, struct tg_debug_record *records, size_t capacity,
                          size_t *ret_count)
{
    return tg_error_class(tg_protocol_try_read_debug_log(log, log_bytes, records, capacity, ret_count));
}
