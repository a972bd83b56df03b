/* SPDX-License-Identifier: Apache-2.0
 * Lengths and word indices of the four buffers, checked; see <tidegate/ring.h>. */
#include <tidegate/ring.h>

int tg_control_byte_len(uint32_t observable_slots, uint64_t *ret_bytes)
{
    if (observable_slots > TG_MAX_OBSERVABLE_SLOTS)
        return TG_QUEUE_FULL;
    *ret_bytes = ((uint64_t)TG_CONTROL_OBSERVABLE_BASE + observable_slots) * TG_WORD_BYTES;
    return 0;
}

int tg_ring_byte_len(uint32_t slots, uint64_t *ret_bytes)
{
    if (slots > TG_MAX_RING_SLOTS)
        return TG_QUEUE_FULL;
    *ret_bytes = (uint64_t)slots * TG_SLOT_BYTES;
    return 0;
}

int tg_debug_log_byte_len(uint32_t records, uint64_t *ret_bytes)
{
    if (records > TG_MAX_DEBUG_RECORDS)
        return TG_QUEUE_FULL;
    *ret_bytes = (TG_DEBUG_RECORDS_BASE + (uint64_t)records * TG_DEBUG_RECORD_WORDS) * TG_WORD_BYTES;
    return 0;
}

int tg_validate_ring_bytes(size_t ring_bytes)
{
    return ring_bytes % TG_SLOT_BYTES == 0 ? 0 : TG_BACKEND;
}

int tg_validate_control_bytes(size_t control_bytes)
{
    return control_bytes % TG_WORD_BYTES == 0 && control_bytes >= TG_CONTROL_MIN_BYTES ? 0 : TG_BACKEND;
}

int tg_validate_debug_log_bytes(size_t log_bytes)
{
    return log_bytes == (size_t)TG_DEBUG_BUFFER_WORDS * TG_WORD_BYTES ? 0 : TG_BACKEND;
}

int tg_protocol_try_slot_word_index(uint32_t slot, uint32_t word, uint32_t *ret_index)
{
    if (word >= TG_SLOT_WORDS || slot > UINT32_MAX / TG_SLOT_WORDS)
        return TG_BYTE_LENGTH_OVERFLOW;
    *ret_index = slot * TG_SLOT_WORDS + word;
    return 0;
}
