/* SPDX-License-Identifier: Apache-2.0
 * Readers of the debug log; see <tidegate/ring.h>. Rule E9: what the log kept can be read, whatever the
 * cursor claims. */
#include <tidegate/ring.h>

#include "ring/bytes.h"

static void get_records(const void *log, struct tg_debug_record *records, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const size_t word = TG_DEBUG_RECORDS_BASE + i * TG_DEBUG_RECORD_WORDS;
        records[i].fmt_id = tg_get_word(log, word);
        for (size_t a = 0; a < 3; a++)
            records[i].args[a] = tg_get_word(log, word + 1 + a);
    }
}

int tg_protocol_try_read_debug_log(const void *log, size_t log_bytes, struct tg_debug_record *records,
                                   size_t capacity, size_t *ret_count)
{
    if (log_bytes % TG_WORD_BYTES != 0)
        return TG_MISALIGNED_BYTE_LENGTH;
    if (log_bytes < TG_WORD_BYTES)
        return TG_MISSING_WORD;
    const uint32_t cursor = tg_get_word(log, TG_DEBUG_CURSOR_WORD);
    if (cursor > log_bytes / TG_WORD_BYTES - TG_DEBUG_RECORDS_BASE)
        return TG_MISSING_WORD;
    if (cursor % TG_DEBUG_RECORD_WORDS != 0)
        return TG_MISALIGNED_BYTE_LENGTH;
    if (cursor / TG_DEBUG_RECORD_WORDS > capacity)
        return TG_MISSING_WORD;
    get_records(log, records, cursor / TG_DEBUG_RECORD_WORDS);
    *ret_count = cursor / TG_DEBUG_RECORD_WORDS;
    return 0;
}

size_t tg_read_debug_log(const void *log, size_t log_bytes, struct tg_debug_record *records, size_t capacity)
{
    if (log_bytes < TG_WORD_BYTES)
        return 0;
    const size_t written = tg_get_word(log, TG_DEBUG_CURSOR_WORD);
    const size_t room = log_bytes / TG_WORD_BYTES - TG_DEBUG_RECORDS_BASE;
    const size_t count = (written < room ? written : room) / TG_DEBUG_RECORD_WORDS;
    get_records(log, records, count < capacity ? count : capacity);
    return count;
}
