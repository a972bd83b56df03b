/* SPDX-License-Identifier: Apache-2.0
 * Encoders and lengths: the wire maxima and one beyond, capacities one byte too small, and that what is
 * refused stays as it was. Rule E4 (tenant tables). */
#include <tidegate/ring.h>

#include "check.h"

static uint32_t word(const unsigned char *bytes, size_t index)
{
    const unsigned char *b = bytes + index * 4;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static void lengths_at_the_wire_maxima(void)
{
    uint64_t n = 99;
    CHECK(tg_ring_byte_len(TG_MAX_RING_SLOTS, &n) == 0 && n == UINT64_C(17179869120));
    CHECK(tg_control_byte_len(TG_MAX_OBSERVABLE_SLOTS, &n) == 0 && n == UINT64_C(17179869180));
    CHECK(tg_debug_log_byte_len(TG_MAX_DEBUG_RECORDS, &n) == 0 && n == UINT64_C(17179869172));
    n = 99;
    CHECK_EQ(tg_ring_byte_len(TG_MAX_RING_SLOTS + 1, &n), TG_QUEUE_FULL);
    CHECK_EQ(tg_control_byte_len(TG_MAX_OBSERVABLE_SLOTS + 1, &n), TG_QUEUE_FULL);
    CHECK_EQ(tg_debug_log_byte_len(TG_MAX_DEBUG_RECORDS + 1, &n), TG_QUEUE_FULL);
    CHECK_EQ(tg_ring_byte_len(UINT32_MAX, &n), TG_QUEUE_FULL);
    CHECK_EQ(tg_control_byte_len(UINT32_MAX, &n), TG_QUEUE_FULL);
    CHECK_EQ(tg_debug_log_byte_len(UINT32_MAX, &n), TG_QUEUE_FULL);
    CHECK_EQ(n, 99);
    CHECK(tg_control_byte_len(0, &n) == 0 && n == 640);
    CHECK(tg_debug_log_byte_len(TG_DEBUG_RECORD_CAPACITY, &n) == 0 && n == 4 * TG_DEBUG_BUFFER_WORDS);
}

static void word_indices_at_32_bits(void)
{
    uint32_t index = 4711;
    CHECK(tg_try_slot_word_index(TG_MAX_RING_SLOTS, 15, &index) == 0 && index == UINT32_MAX);
    CHECK(tg_try_slot_word_index(0, 15, &index) == 0 && index == 15);
    CHECK_EQ(tg_try_slot_word_index(TG_MAX_RING_SLOTS + 1, 0, &index), TG_QUEUE_FULL);
    CHECK_EQ(tg_protocol_try_slot_word_index(UINT32_MAX, 0, &index), TG_BYTE_LENGTH_OVERFLOW);
    CHECK_EQ(tg_protocol_try_slot_word_index(0, 16, &index), TG_BYTE_LENGTH_OVERFLOW);
    CHECK_EQ(tg_protocol_try_slot_word_index(0, UINT32_MAX, &index), TG_BYTE_LENGTH_OVERFLOW);
    CHECK_EQ(index, 15);
}

static void validated_lengths(void)
{
    CHECK_EQ(tg_validate_ring_bytes(0), 0);
    CHECK_EQ(tg_validate_ring_bytes(64), 0);
    CHECK_EQ(tg_validate_ring_bytes(63), TG_BACKEND);
    CHECK_EQ(tg_validate_control_bytes(640), 0);
    CHECK_EQ(tg_validate_control_bytes(644), 0);
    CHECK_EQ(tg_validate_control_bytes(636), TG_BACKEND);
    CHECK_EQ(tg_validate_control_bytes(642), TG_BACKEND);
    CHECK_EQ(tg_validate_debug_log_bytes(1028), 0);
    CHECK_EQ(tg_validate_debug_log_bytes(1024), TG_BACKEND);
    CHECK_EQ(tg_validate_debug_log_bytes(1044), TG_BACKEND);
}

/* One encoder call for the tests below: kind 0 control, 1 ring, 2 debug log. */
static int encode(int kind, uint32_t n, void *dst, size_t capacity, size_t *ret, bool fine)
{
    switch (kind) {
    case 0:
        return (fine ? tg_protocol_encode_control : tg_encode_control)(true, 3, n, dst, capacity, ret);
    case 1:
        return (fine ? tg_protocol_encode_empty_ring : tg_encode_empty_ring)(n, dst, capacity, ret);
    default:
        return (fine ? tg_protocol_encode_empty_debug_log : tg_encode_empty_debug_log)(n, dst, capacity, ret);
    }
}

static void what_does_not_fit_changes_nothing(void)
{
    static const size_t need[3] = {644, 64, 20}; /* for one observable, slot, record */
    for (int kind = 0; kind < 3; kind++) {
        unsigned char dst[700], before[700];
        size_t length = 4711;
        memset(dst, 0xCD, sizeof dst);
        memcpy(before, dst, sizeof dst);
        CHECK_EQ(encode(kind, 1, dst, need[kind] - 1, &length, false), TG_BACKEND);
        CHECK_EQ(encode(kind, 1, dst, need[kind] - 1, &length, true), TG_MISSING_WORD);
        static const uint32_t over[] = {1048577, 268435456, 1073741824, 4294967136u, UINT32_MAX};
        for (size_t i = 0; i < sizeof over / sizeof *over; i++) {
            CHECK_EQ(encode(kind, over[i], dst, sizeof dst, &length, false), TG_QUEUE_FULL);
            CHECK_EQ(encode(kind, over[i], dst, sizeof dst, &length, true), TG_BYTE_LENGTH_OVERFLOW);
        }
        /* Legal in number, but there is no such room: the size is judged, not written. */
        CHECK_EQ(encode(kind, 1048576, dst, sizeof dst, &length, false), TG_BACKEND);
        CHECK_EQ(length, 4711);
        CHECK(memcmp(dst, before, sizeof dst) == 0);
        CHECK_EQ(encode(kind, 1, dst, sizeof dst, &length, false), 0);
        CHECK_EQ(length, need[kind]);
        CHECK(memcmp(dst + length, before + length, sizeof dst - length) == 0);
        CHECK_EQ(encode(kind, 1, dst, sizeof dst, NULL, false), 0);
    }
    CHECK_EQ(tg_encode_empty_ring(0, NULL, 0, NULL), 0);
}

static void e4_tenant_tables(void)
{
    static const uint32_t tenants[] = {0, 1, 28, 29, 30, 31, 32, 33, 1000, UINT32_MAX};
    for (size_t t = 0; t < sizeof tenants / sizeof *tenants; t++) {
        unsigned char control[640];
        CHECK_EQ(tg_encode_control(false, tenants[t], 0, control, sizeof control, NULL), 0);
        for (uint32_t w = 0; w < TG_CONTROL_MIN_WORDS; w++) {
            uint32_t expect = w == TG_CONTROL_TENANT_BASE ? 3 : 0;
            if (w >= 3 && w < 32 && w - 3 < tenants[t])
                expect = UINT32_MAX;
            if (w >= 32 && w < 64 && w - 32 < tenants[t])
                expect = 1000000;
            CHECK_EQ(word(control, w), expect);
        }
    }
}

static void load_miss_round_trip(void)
{
    static const uint32_t resources[] = {0, 1, 0x80000000u, UINT32_MAX};
    for (size_t i = 0; i < 8; i++) {
        const uint32_t resource = resources[i / 2];
        unsigned char ring[128] = {0};
        uint32_t got = 1;
        bool prefetch = i % 2 == 0;
        size_t length;
        CHECK_EQ(tg_encode_load_miss(resource, i % 2 != 0, ring + 64, 64, &length), 0);
        CHECK(length == 64 && word(ring + 64, 0) == TG_SLOT_PUBLISHED &&
              word(ring + 64, 1) == TG_OP_LOAD_MISS);
        CHECK(word(ring + 64, 2) == 0 && word(ring + 64, 3) == 0);
        CHECK(tg_decode_load_miss(ring, 128, 1, &got, &prefetch));
        CHECK(got == resource && prefetch == (i % 2 != 0));
        CHECK(tg_decode_load_miss(ring, 64 + 24, 1, &got, &prefetch)); /* the words it needs are there */
        CHECK(!tg_decode_load_miss(ring, 64 + 23, 1, &got, &prefetch));
        CHECK(!tg_decode_load_miss(ring, 128, 0, &got, &prefetch)); /* a NOP */
        CHECK(!tg_decode_load_miss(ring, 128, 2, &got, &prefetch));
        CHECK(!tg_decode_load_miss(ring, 128, 0x10000001u, &got, &prefetch)); /* slot 1 after a 32-bit wrap */
        CHECK_EQ(tg_encode_load_miss(resource, true, ring, 63, &length), TG_BACKEND);
        CHECK_EQ(tg_protocol_encode_load_miss(resource, true, ring, 63, &length), TG_MISSING_WORD);
    }
}

int main(void)
{
    RUN(lengths_at_the_wire_maxima);
    RUN(word_indices_at_32_bits);
    RUN(validated_lengths);
    RUN(what_does_not_fit_changes_nothing);
    RUN(e4_tenant_tables);
    RUN(load_miss_round_trip);
    return 0;
}
