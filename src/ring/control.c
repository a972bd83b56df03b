/* SPDX-License-Identifier: Apache-2.0
 * Readers of the control buffer, its partition table, and the load-miss slot; see <tidegate/ring.h>. */
#include <tidegate/ring.h>

#include "base/split.h"
#include "ring/bytes.h"

/* A word of a buffer that must be whole words. */
static int read_word(const void *bytes, size_t length, uint32_t word, uint32_t *ret_value)
{
    if (length % TG_WORD_BYTES != 0)
        return TG_MISALIGNED_BYTE_LENGTH;
    if (word >= length / TG_WORD_BYTES)
        return TG_MISSING_WORD;
    *ret_value = tg_get_word(bytes, word);
    return 0;
}

int tg_protocol_try_read_done_count(const void *control, size_t control_bytes, uint32_t *ret_count)
{
    return read_word(control, control_bytes, TG_CONTROL_DONE_COUNT, ret_count);
}

uint32_t tg_read_done_count(const void *control, size_t control_bytes)
{
    uint32_t count = 0;
    (void)tg_protocol_try_read_done_count(control, control_bytes, &count);
    return count;
}

int tg_protocol_try_read_epoch(const void *control, size_t control_bytes, uint32_t *ret_epoch)
{
    return read_word(control, control_bytes, TG_CONTROL_EPOCH, ret_epoch);
}

uint32_t tg_read_epoch(const void *control, size_t control_bytes)
{
    uint32_t epoch = 0;
    (void)tg_protocol_try_read_epoch(control, control_bytes, &epoch);
    return epoch;
}

int tg_protocol_try_read_observable(const void *control, size_t control_bytes, uint32_t index,
                                    uint32_t *ret_value)
{
    if (index > UINT32_MAX - TG_CONTROL_OBSERVABLE_BASE)
        return TG_BYTE_LENGTH_OVERFLOW;
    return read_word(control, control_bytes, TG_CONTROL_OBSERVABLE_BASE + index, ret_value);
}

uint32_t tg_read_observable(const void *control, size_t control_bytes, uint32_t index)
{
    uint32_t value = 0;
    (void)tg_protocol_try_read_observable(control, control_bytes, index, &value);
    return value;
}

size_t tg_read_metrics(const void *control, size_t control_bytes,
                       struct tg_metric entries[TG_CONTROL_METRICS_SLOTS])
{
    const size_t words = control_bytes / TG_WORD_BYTES;
    size_t count = 0;
    for (uint32_t i = 0; i < TG_CONTROL_METRICS_SLOTS && TG_CONTROL_METRICS_BASE + i < words; i++) {
        const uint32_t executions = tg_get_word(control, TG_CONTROL_METRICS_BASE + i);
        if (executions != 0)
            entries[count++] = (struct tg_metric){.opcode = i, .count = executions};
    }
    return count;
}

int tg_protocol_try_read_metrics(const void *control, size_t control_bytes,
                                 struct tg_metric entries[TG_CONTROL_METRICS_SLOTS], size_t *count)
{
    if (control_bytes % TG_WORD_BYTES != 0)
        return TG_MISALIGNED_BYTE_LENGTH;
    *count = 0;
    if (control_bytes / TG_WORD_BYTES < TG_CONTROL_METRICS_BASE + TG_CONTROL_METRICS_SLOTS)
        return TG_MISSING_WORD;
    *count = tg_read_metrics(control, control_bytes, entries);
    return 0;
}

/* Does the buffer hold the partition table, in whole words? */
static bool has_offsets(size_t control_bytes)
{
    return control_bytes % TG_WORD_BYTES == 0 &&
           control_bytes / TG_WORD_BYTES >=
               TG_CONTROL_PRIORITY_OFFSETS_BASE + TG_CONTROL_PRIORITY_OFFSETS_SLOTS;
}

/* Does the table cut [0, offsets[5]) into five partitions in order? */
static bool offsets_ascend(const uint32_t offsets[TG_CONTROL_PRIORITY_OFFSETS_SLOTS])
{
    if (offsets[0] != 0)
        return false;
    for (size_t i = 1; i < TG_CONTROL_PRIORITY_OFFSETS_SLOTS; i++)
        if (offsets[i] < offsets[i - 1])
            return false;
    return true;
}

static void put_offsets(void *control, const uint32_t offsets[TG_CONTROL_PRIORITY_OFFSETS_SLOTS])
{
    for (size_t i = 0; i < TG_CONTROL_PRIORITY_OFFSETS_SLOTS; i++)
        tg_put_word(control, TG_CONTROL_PRIORITY_OFFSETS_BASE + i, offsets[i]);
}

int tg_write_default_priority_offsets(void *control, size_t control_bytes, uint32_t total_slots)
{
    uint32_t offsets[TG_CONTROL_PRIORITY_OFFSETS_SLOTS];
    if (!has_offsets(control_bytes))
        return TG_QUEUE_FULL;
    tg_split_partitions(total_slots, offsets);
    put_offsets(control, offsets);
    return 0;
}

int tg_write_priority_offsets(void *control, size_t control_bytes,
                              const uint32_t offsets[TG_CONTROL_PRIORITY_OFFSETS_SLOTS])
{
    if (!has_offsets(control_bytes) || !offsets_ascend(offsets) ||
        offsets[TG_PRIORITY_LEVELS] > TG_MAX_RING_SLOTS)
        return TG_QUEUE_FULL;
    put_offsets(control, offsets);
    return 0;
}

int tg_try_read_priority_offsets(const void *control, size_t control_bytes, uint32_t total_slots,
                                 uint32_t ret_offsets[TG_CONTROL_PRIORITY_OFFSETS_SLOTS])
{
    uint32_t offsets[TG_CONTROL_PRIORITY_OFFSETS_SLOTS];
    if (!has_offsets(control_bytes))
        return TG_BACKEND;
    for (size_t i = 0; i < TG_CONTROL_PRIORITY_OFFSETS_SLOTS; i++)
        offsets[i] = tg_get_word(control, TG_CONTROL_PRIORITY_OFFSETS_BASE + i);
    if (!offsets_ascend(offsets) || offsets[TG_PRIORITY_LEVELS] != total_slots)
        return TG_BACKEND;
    memcpy(ret_offsets, offsets, sizeof offsets);
    return 0;
}

bool tg_decode_load_miss(const void *ring, size_t ring_bytes, uint32_t slot, uint32_t *ret_resource,
                         bool *ret_prefetch)
{
    uint32_t prefetch_word;
    if (tg_try_slot_word_index(slot, TG_SLOT_ARG0_WORD + 1, &prefetch_word) < 0)
        return false;
    if (prefetch_word >= ring_bytes / TG_WORD_BYTES)
        return false; /* the other words lie before it */
    const unsigned char *bytes = (const unsigned char *)ring + (size_t)slot * TG_SLOT_BYTES;
    if (tg_get_word(bytes, TG_SLOT_OPCODE_WORD) != TG_OP_LOAD_MISS)
        return false;
    *ret_resource = tg_get_word(bytes, TG_SLOT_ARG0_WORD);
    *ret_prefetch = tg_get_word(bytes, TG_SLOT_ARG0_WORD + 1) != 0;
    return true;
}
