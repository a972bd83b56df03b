/* SPDX-License-Identifier: Apache-2.0
 * Readers of control buffer and debug log over buffers of every length and any content: the strict form says
 * what is wrong, the soft form gives what is there, and neither reads a byte too many (each buffer is a block
 * of its own, for the sanitizers). Rules E2 (partition table), E9 (log). */
#include <tidegate/ring.h>

#include "check.h"

/* A block of exactly length random bytes behind shift others. */
struct block {
    unsigned char *base, *bytes;
};

static struct block random_block(size_t length, size_t shift, uint64_t *seed)
{
    struct block b = {.base = malloc(length + shift + (length + shift == 0))};
    CHECK(b.base);
    b.bytes = b.base + shift;
    for (size_t i = 0; i < length; i++)
        b.bytes[i] = (unsigned char)(check_random(seed) >> 40);
    return b;
}

static uint32_t word(const unsigned char *bytes, size_t index)
{
    const unsigned char *b = bytes + index * 4;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static void put(unsigned char *bytes, size_t index, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++)
        bytes[index * 4 + i] = (unsigned char)(value >> 8 * i);
}

/* The finer error a strict reader of that word owes. */
static int owed(size_t length, uint64_t index)
{
    if (length % 4 != 0)
        return TG_MISALIGNED_BYTE_LENGTH;
    return index < length / 4 ? 0 : TG_MISSING_WORD;
}

static void control_words_at_every_length(void)
{
    uint64_t seed = 3;
    for (size_t length = 0; length <= 660; length++) {
        const struct block b = random_block(length, length % 3, &seed);
        uint32_t v = 0;
        int r = tg_protocol_try_read_done_count(b.bytes, length, &v);
        CHECK_EQ(r, owed(length, 1));
        CHECK_EQ(tg_try_read_done_count(b.bytes, length, &v), tg_error_class(r));
        CHECK_EQ(tg_read_done_count(b.bytes, length), r == 0 ? word(b.bytes, 1) : 0);
        r = tg_protocol_try_read_epoch(b.bytes, length, &v);
        CHECK_EQ(r, owed(length, 128));
        CHECK_EQ(tg_try_read_epoch(b.bytes, length, &v), tg_error_class(r));
        CHECK_EQ(tg_read_epoch(b.bytes, length), r == 0 ? word(b.bytes, 128) : 0);
        for (uint32_t i = 0; i < 6; i++) {
            r = tg_protocol_try_read_observable(b.bytes, length, i, &v);
            CHECK_EQ(r, owed(length, 160 + i));
            CHECK_EQ(tg_try_read_observable(b.bytes, length, i, &v), tg_error_class(r));
            CHECK_EQ(tg_read_observable(b.bytes, length, i), r == 0 ? word(b.bytes, 160 + i) : 0);
        }
        free(b.base);
    }
}

static void observable_index_overflow_is_found_first(void)
{
    unsigned char control[641] = {0};
    uint32_t v = 4711;
    CHECK_EQ(tg_try_read_observable(control, 641, TG_MAX_OBSERVABLE_SLOTS + 1, &v), TG_QUEUE_FULL);
    CHECK_EQ(tg_protocol_try_read_observable(control, 641, UINT32_MAX, &v), TG_BYTE_LENGTH_OVERFLOW);
    CHECK_EQ(tg_protocol_try_read_observable(control, 641, TG_MAX_OBSERVABLE_SLOTS, &v),
             TG_MISALIGNED_BYTE_LENGTH);
    CHECK_EQ(tg_protocol_try_read_observable(control, 640, TG_MAX_OBSERVABLE_SLOTS, &v), TG_MISSING_WORD);
    CHECK_EQ(v, 4711);
}

static void metrics_at_every_length(void)
{
    uint64_t seed = 4;
    for (size_t length = 370; length <= 530; length++) {
        const struct block b = random_block(length, length % 4, &seed);
        for (size_t w = 96; w < 128 && w < length / 4; w += 3)
            put(b.bytes, w, 0); /* opcodes that never ran */
        struct tg_metric soft[TG_CONTROL_METRICS_SLOTS], strict[TG_CONTROL_METRICS_SLOTS];
        const size_t n = tg_read_metrics(b.bytes, length, soft);
        size_t count = 4711, found = 0;
        for (uint32_t i = 0; i < 32 && 96 + i < length / 4; i++)
            if (word(b.bytes, 96 + i) != 0) {
                CHECK(soft[found].opcode == i && soft[found].count == word(b.bytes, 96 + i));
                found++;
            }
        CHECK_EQ(n, found);
        const int r = tg_protocol_try_read_metrics(b.bytes, length, strict, &count);
        CHECK_EQ(r, owed(length, 127));
        CHECK_EQ(count, r == 0 ? n : r == TG_MISALIGNED_BYTE_LENGTH ? 4711 : 0);
        CHECK_EQ(tg_try_read_metrics(b.bytes, length, strict, &count), tg_error_class(r));
        CHECK(r < 0 || memcmp(soft, strict, n * sizeof *soft) == 0);
        free(b.base);
    }
}

/* ---- Debug log ---------------------------------------------------------------------------------------- */

static void e9_every_length_and_cursor(void)
{
    uint64_t seed = 6;
    for (size_t length = 0; length <= 61; length++)
        for (uint32_t cursor = 0; cursor < 20; cursor++) {
            const struct block b = random_block(length, length % 2, &seed);
            if (length >= 4)
                put(b.bytes, 0, cursor < 18 ? cursor : cursor == 18 ? 0x80000000u : UINT32_MAX);
            struct tg_debug_record soft[16], strict[16];
            const uint64_t at = length >= 4 ? word(b.bytes, 0) : 0, room = length >= 4 ? length / 4 - 1 : 0;
            const size_t n = tg_read_debug_log(b.bytes, length, soft, 16);
            CHECK_EQ(n, (at < room ? at : room) / 4);
            for (size_t i = 0; i < n; i++)
                CHECK(soft[i].fmt_id == word(b.bytes, 1 + 4 * i) &&
                      soft[i].args[0] == word(b.bytes, 2 + 4 * i) &&
                      soft[i].args[1] == word(b.bytes, 3 + 4 * i) &&
                      soft[i].args[2] == word(b.bytes, 4 + 4 * i));
            size_t count = 4711;
            int expect = owed(length, 0);
            if (expect == 0 && at > room)
                expect = TG_MISSING_WORD;
            else if (expect == 0 && at % 4 != 0)
                expect = TG_MISALIGNED_BYTE_LENGTH;
            CHECK_EQ(tg_protocol_try_read_debug_log(b.bytes, length, strict, 16, &count), expect);
            CHECK_EQ(count, expect == 0 ? n : 4711);
            CHECK(expect < 0 || memcmp(soft, strict, n * sizeof *soft) == 0);
            CHECK_EQ(tg_try_read_debug_log(b.bytes, length, strict, 16, &count), tg_error_class(expect));
            free(b.base);
        }
}

static void e9_room_for_fewer_records_than_there_are(void)
{
    unsigned char log[36] = {8};
    struct tg_debug_record records[2] = {{.fmt_id = 1}, {.fmt_id = 4711}};
    size_t count = 9;
    put(log, 1, 70), put(log, 5, 80);
    CHECK_EQ(tg_read_debug_log(log, sizeof log, records, 1), 2);
    CHECK(records[0].fmt_id == 70 && records[1].fmt_id == 4711);
    CHECK_EQ(tg_read_debug_log(log, sizeof log, NULL, 0), 2);
    records[0].fmt_id = 1;
    CHECK_EQ(tg_try_read_debug_log(log, sizeof log, records, 1, &count), TG_BACKEND);
    CHECK(count == 9 && records[0].fmt_id == 1);
}

/* ---- Partition table ---------------------------------------------------------------------------------- */

static void e2_partition_tables_are_checked_both_ways(void)
{
    static const uint32_t good[][6] = {
        {0, 0, 0, 0, 0, 0}, {0, 1, 2, 4, 5, 6}, {0, 0, 0, 7, 7, 7}, {0, 5, 5, 5, 5, TG_MAX_RING_SLOTS}};
    static const uint32_t bad[][6] = {{1, 1, 2, 4, 5, 6},
                                      {0, 2, 1, 4, 5, 6},
                                      {0, 1, 2, 4, 7, 6},
                                      {0, 1, 2, 4, UINT32_MAX, 6},
                                      {0, 0, 0, 0, 0, TG_MAX_RING_SLOTS + 1}};
    unsigned char control[640] = {0}, before[640];
    uint32_t offsets[6];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        CHECK_EQ(tg_write_priority_offsets(control, sizeof control, good[i]), 0);
        CHECK_EQ(tg_try_read_priority_offsets(control, sizeof control, good[i][5], offsets), 0);
        CHECK(memcmp(offsets, good[i], sizeof offsets) == 0);
        CHECK_EQ(tg_try_read_priority_offsets(control, sizeof control, good[i][5] + 1, offsets), TG_BACKEND);
    }
    memcpy(before, control, sizeof control);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_EQ(tg_write_priority_offsets(control, sizeof control, bad[i]), TG_QUEUE_FULL);
        CHECK(memcmp(control, before, sizeof control) == 0);
        if (bad[i][5] > TG_MAX_RING_SLOTS)
            continue; /* well formed, only too large */
        for (size_t w = 0; w < 6; w++)
            put(control, 129 + w, bad[i][w]);
        CHECK_EQ(tg_try_read_priority_offsets(control, sizeof control, bad[i][5], offsets), TG_BACKEND);
        memcpy(control, before, sizeof control);
    }
}

static void e2_default_offsets_need_whole_words_up_to_the_sentinel(void)
{
    for (size_t length = 500; length <= 560; length++) {
        unsigned char control[560], before[560];
        uint32_t offsets[6];
        memset(control, 0x77, sizeof control);
        memcpy(before, control, sizeof control);
        const bool good = length % 4 == 0 && length >= 540;
        CHECK_EQ(tg_write_default_priority_offsets(control, length, 9), good ? 0 : TG_QUEUE_FULL);
        CHECK_EQ(tg_try_read_priority_offsets(control, length, 9, offsets), good ? 0 : TG_BACKEND);
        if (good) {
            static const uint32_t nine[6] = {0, 1, 2, 7, 8, 9};
            CHECK(memcmp(offsets, nine, sizeof nine) == 0);
            CHECK(memcmp(control, before, 516) == 0 && memcmp(control + 540, before + 540, 20) == 0);
        } else {
            CHECK(memcmp(control, before, sizeof control) == 0);
        }
    }
}

int main(void)
{
    RUN(control_words_at_every_length);
    RUN(observable_index_overflow_is_found_first);
    RUN(metrics_at_every_length);
    RUN(e9_every_length_and_cursor);
    RUN(e9_room_for_fewer_records_than_there_are);
    RUN(e2_partition_tables_are_checked_both_ways);
    RUN(e2_default_offsets_need_whole_words_up_to_the_sentinel);
    return 0;
}
