/* SPDX-License-Identifier: Apache-2.0
 * Packed slots: every number of operations with every number of argument words, encoded, looked at byte by
 * byte, and decoded again; and payloads that no encoder wrote. Rule E6 (a bad payload is found, not run). */
#include <tidegate/ring.h>

#include "check.h"

static const uint32_t values[16] = {100, 101, 102, 103, 104, 105, 106, 107,
                                    108, 109, 110, 111, 112, 113, 114, 115};

/* Spreads arg_words over op_count operations in one of several shapes. */
static void shape_ops(struct tg_packed_op *ops, size_t op_count, size_t arg_words, unsigned shape)
{
    size_t left = arg_words, used = 0;
    for (size_t i = 0; i < op_count; i++) {
        size_t n = 0;
        if (i + 1 == op_count)
            n = left; /* shape 0: all at the last one */
        else if (shape == 1 && i == 0)
            n = left; /* all at the first */
        else if (shape == 2)
            n = left > 0 ? 1 : 0; /* one each, from the front */
        else if (shape == 3)
            n = (i + 1) % 2 * (left < 3 ? left : 3); /* three at every other */
        ops[i] = (struct tg_packed_op){(uint8_t)(250 - i), values + used, n};
        used += n;
        left -= n;
    }
}

static void check_payload(const struct tg_packed_op *ops, size_t op_count, size_t arg_words,
                          const uint32_t args[TG_ARGS_PER_SLOT])
{
    unsigned char b[48];
    for (size_t i = 0; i < 48; i++)
        b[i] = (unsigned char)(args[i / 4] >> 8 * (i % 4));
    const size_t meta = (2 + 2 * op_count + 3) / 4;
    CHECK_EQ(b[0], op_count);
    CHECK_EQ(b[1], arg_words);
    size_t at = 0;
    for (size_t i = 0; i < op_count; i++) {
        CHECK_EQ(b[2 + 2 * i], ops[i].op_id);
        CHECK_EQ(b[3 + 2 * i], at);
        for (size_t a = 0; a < ops[i].arg_count; a++)
            CHECK_EQ(args[meta + at + a], ops[i].args[a]);
        at += ops[i].arg_count;
    }
    for (size_t i = 2 + 2 * op_count; i < 4 * meta; i++)
        CHECK_EQ(b[i], 0); /* padding of the metadata */
    for (size_t i = meta + arg_words; i < TG_ARGS_PER_SLOT; i++)
        CHECK_EQ(args[i], 0);
}

static void check_view(const struct tg_packed_op *ops, size_t op_count, const uint32_t args[TG_ARGS_PER_SLOT])
{
    struct tg_packed_view view;
    CHECK_EQ(tg_packed_decode(args, &view), 0);
    CHECK_EQ(view.op_count, op_count);
    for (size_t i = 0; i < op_count; i++) {
        CHECK_EQ(view.op_id[i], ops[i].op_id);
        CHECK_EQ(view.words[i], ops[i].arg_count);
        for (size_t a = 0; a < ops[i].arg_count; a++)
            CHECK_EQ(args[view.first[i] + a], ops[i].args[a]);
    }
}

static void every_shape_that_fits_and_none_else(void)
{
    unsigned fitting = 0;
    for (size_t n = 0; n <= 26; n++)
        for (size_t words = 0; words <= (n ? 13u : 0u); words++)
            for (unsigned shape = 0; shape < 4; shape++) {
                struct tg_packed_op ops[26];
                uint32_t args[TG_ARGS_PER_SLOT] = {4711};
                shape_ops(ops, n, words, shape);
                const bool fits = (2 + 2 * n + 3) / 4 + words <= 12;
                CHECK_EQ(tg_packed_encode(ops, n, args), fits ? 0 : TG_QUEUE_FULL);
                if (!fits) {
                    CHECK_EQ(args[0], 4711);
                    continue;
                }
                check_payload(ops, n, words, args);
                check_view(ops, n, args);
                fitting++;
            }
    CHECK(fitting > 400);
}

static void a_published_packed_slot_holds_the_payload(void)
{
    const struct tg_packed_op ops[2] = {{1, values, 3}, {255, values + 3, 1}};
    unsigned char ring[128] = {0};
    uint32_t args[TG_ARGS_PER_SLOT];
    CHECK_EQ(tg_publish_packed_slot(ring, sizeof ring, 1, 21, ops, 2), 0);
    CHECK_EQ(tg_packed_encode(ops, 2, args), 0);
    unsigned char same[128] = {0};
    CHECK_EQ(tg_publish_slot(same, sizeof same, 1, 21, TG_OP_PACKED_SLOT, args, TG_ARGS_PER_SLOT), 0);
    CHECK(memcmp(ring, same, sizeof ring) == 0);
    CHECK_EQ(tg_publish_packed_slot(ring, sizeof ring, 1, 21, ops, 2), TG_QUEUE_FULL); /* taken */
    CHECK(memcmp(ring, same, sizeof ring) == 0);
}

static void sizes_that_overflow_are_refused(void)
{
    const struct tg_packed_op huge[2] = {{1, values, 1}, {2, values, SIZE_MAX}};
    uint32_t args[TG_ARGS_PER_SLOT];
    CHECK_EQ(tg_packed_encode(huge, 2, args), TG_QUEUE_FULL);
    CHECK_EQ(tg_packed_encode(huge, SIZE_MAX, args), TG_QUEUE_FULL);
    CHECK_EQ(tg_packed_encode(huge, SIZE_MAX / 2, args), TG_QUEUE_FULL);
    CHECK_EQ(tg_packed_encode(huge, 256, args), TG_QUEUE_FULL);
}

/* Bytes: count, argument words, then pairs. */
static int decode_bytes(const unsigned char *bytes, size_t length, struct tg_packed_view *view)
{
    uint32_t args[TG_ARGS_PER_SLOT] = {0};
    for (size_t i = 0; i < length; i++)
        args[i / 4] |= (uint32_t)bytes[i] << 8 * (i % 4);
    return tg_packed_decode(args, view);
}

static void e6_foreign_payloads_are_checked(void)
{
    struct tg_packed_view view = {.op_count = 99};
    static const unsigned char too_many[] = {24, 0}, far_too_many[] = {255, 0}, too_long[] = {1, 12, 9, 0},
                               past_end[] = {1, 3, 9, 4}, descending[] = {2, 4, 9, 3, 9, 2},
                               last_past[] = {2, 2, 9, 0, 9, 3};
    CHECK_EQ(decode_bytes(too_many, 2, &view), TG_BACKEND);
    CHECK_EQ(decode_bytes(far_too_many, 2, &view), TG_BACKEND);
    CHECK_EQ(decode_bytes(too_long, 4, &view), TG_BACKEND);
    CHECK_EQ(decode_bytes(past_end, 4, &view), TG_BACKEND);
    CHECK_EQ(decode_bytes(descending, 6, &view), TG_BACKEND);
    CHECK_EQ(decode_bytes(last_past, 6, &view), TG_BACKEND);
    CHECK_EQ(view.op_count, 99);
    static const unsigned char at_end[] = {1, 3, 9, 3}, empty[] = {0, 0};
    CHECK(decode_bytes(at_end, 4, &view) == 0 && view.words[0] == 0 && view.first[0] == 4);
    CHECK(decode_bytes(empty, 2, &view) == 0 && view.op_count == 0);
}

static void e6_random_payloads_stay_inside_the_slot(void)
{
    uint64_t seed = 5;
    unsigned decoded = 0;
    for (int round = 0; round < 200000; round++) {
        uint32_t args[TG_ARGS_PER_SLOT];
        for (size_t i = 0; i < TG_ARGS_PER_SLOT; i++)
            args[i] = (uint32_t)check_random(&seed) & (round % 2 ? 0x0F0F0F0Fu : 0x03030303u);
        struct tg_packed_view view;
        if (tg_packed_decode(args, &view) < 0)
            continue;
        decoded++;
        for (uint32_t i = 0; i < view.op_count; i++)
            CHECK(view.first[i] + view.words[i] <= TG_ARGS_PER_SLOT);
    }
    CHECK(decoded > 1000);
}

int main(void)
{
    RUN(every_shape_that_fits_and_none_else);
    RUN(a_published_packed_slot_holds_the_payload);
    RUN(sizes_that_overflow_are_refused);
    RUN(e6_foreign_payloads_are_checked);
    RUN(e6_random_payloads_stay_inside_the_slot);
    return 0;
}
