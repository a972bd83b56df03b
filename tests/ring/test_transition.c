/* SPDX-License-Identifier: Apache-2.0
 * Slot transitions over bytes: the whole table, with statuses above 7, out of order rings and slots, at every
 * alignment; and counting DONE. Rule E1. */
#include <tidegate/ring.h>

#include "check.h"

/* The table of abi.md, written out: legal[transition][status]. */
static const bool legal[TG_TRANSITION_COUNT][TG_SLOT_STATUS_COUNT] = {
    /*                         EMPTY  PUBL   CLAIM  DONE   WAIT   YIELD  REQ    FAULT */
    [TG_TRANSITION_PUBLISH] = {true, false, false, true, false, false, false, false},
    [TG_TRANSITION_CLAIM] = {false, true, false, false, false, true, true, false},
    [TG_TRANSITION_DONE] = {false, false, true, false, false, false, false, false},
    [TG_TRANSITION_FAULT] = {false, true, true, false, true, true, true, false},
    [TG_TRANSITION_CANCEL] = {false, true, false, false, true, true, true, false},
};
static const uint32_t leads_to[TG_TRANSITION_COUNT] = {TG_SLOT_PUBLISHED, TG_SLOT_CLAIMED, TG_SLOT_DONE,
                                                       TG_SLOT_FAULT, TG_SLOT_EMPTY};
/* 8 and above match nothing, also where a shift by them would wrap to a legal bit. */
static const uint32_t foreign[] = {8,  9,  31,  32,  33,         34,          35,         37,
                                   38, 64, 255, 256, 0x01000000, 0x80000001u, 0xFFFFFF01, UINT32_MAX};

static void set_status(unsigned char *slot, uint32_t status)
{
    for (unsigned i = 0; i < 4; i++)
        slot[i] = (unsigned char)(status >> 8 * i);
}

/* One transition on the middle one of three slots, at one alignment: result and bytes. */
static void check_one(uint32_t status, unsigned transition, bool expect, size_t shift)
{
    unsigned char block[3 * 64 + 4], before[3 * 64];
    unsigned char *ring = block + shift;
    memset(ring, 0xA5, 3 * 64);
    set_status(ring + 64, status);
    memcpy(before, ring, sizeof before);
    uint32_t previous = 4711;
    const int r =
        tg_transition_slot_status(ring, sizeof before, 1, (enum tg_slot_transition)transition, &previous);
    CHECK_EQ(r, expect ? 0 : TG_QUEUE_FULL);
    CHECK_EQ(previous, expect ? status : 4711);
    if (expect)
        set_status(before + 64, leads_to[transition]);
    CHECK(memcmp(ring, before, sizeof before) == 0);
}

static void e1_the_whole_table_and_nothing_else(void)
{
    for (size_t shift = 0; shift < 4; shift++)
        for (unsigned t = 0; t < TG_TRANSITION_COUNT + 2; t++) {
            for (uint32_t s = 0; s < TG_SLOT_STATUS_COUNT; s++)
                check_one(s, t, t < TG_TRANSITION_COUNT && t != TG_TRANSITION_PUBLISH && legal[t][s], shift);
            for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
                check_one(foreign[i], t, false, shift);
        }
}

static void e1_the_pure_table_agrees(void)
{
    for (unsigned t = 0; t < TG_TRANSITION_COUNT; t++) {
        uint32_t to;
        for (uint32_t s = 0; s < TG_SLOT_STATUS_COUNT; s++) {
            to = 99;
            CHECK(tg_slot_transition_target(s, (enum tg_slot_transition)t, &to) == legal[t][s]);
            CHECK_EQ(to, legal[t][s] ? leads_to[t] : 99);
        }
        for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
            CHECK(!tg_slot_transition_target(foreign[i], (enum tg_slot_transition)t, &to));
    }
    uint32_t to;
    CHECK(!tg_slot_transition_target(1, (enum tg_slot_transition)5, &to));
}

/* FAULT is final and only the path through CLAIMED reaches DONE, whatever is tried from wherever. */
static void e1_random_walks_never_leave_fault(void)
{
    uint64_t seed = 11;
    for (int walk = 0; walk < 2000; walk++) {
        unsigned char ring[64] = {0};
        set_status(ring, (uint32_t)(check_random(&seed) % 8));
        uint32_t status = ring[0];
        for (int step = 0; step < 20; step++) {
            uint32_t previous;
            const unsigned t = (unsigned)(check_random(&seed) % 5);
            if (tg_transition_slot_status(ring, sizeof ring, 0, (enum tg_slot_transition)t, &previous) == 0) {
                CHECK_EQ(previous, status);
                CHECK(previous != TG_SLOT_FAULT && previous != TG_SLOT_DONE && previous != TG_SLOT_EMPTY);
                CHECK(ring[0] != TG_SLOT_DONE || previous == TG_SLOT_CLAIMED);
            }
            status = ring[0];
        }
    }
}

static void malformed_rings_and_slots_out_of_range_change_nothing(void)
{
    static const size_t lengths[] = {0, 1, 4, 63, 65, 100, 127};
    unsigned char ring[192], before[192];
    uint32_t previous = 4711;
    memset(ring, 0, sizeof ring);
    for (int slot = 0; slot < 3; slot++)
        set_status(ring + 64 * slot, TG_SLOT_PUBLISHED);
    memcpy(before, ring, sizeof ring);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        CHECK_EQ(tg_transition_slot_status(ring, lengths[i], 0, TG_TRANSITION_CLAIM, &previous),
                 TG_QUEUE_FULL);
    static const uint32_t out[] = {2, 3, 0x03FFFFFFu, 0x04000000u, 0x10000000u, UINT32_MAX};
    for (size_t i = 0; i < sizeof out / sizeof *out; i++)
        CHECK_EQ(tg_transition_slot_status(ring, 128, out[i], TG_TRANSITION_CLAIM, &previous), TG_QUEUE_FULL);
    CHECK_EQ(tg_transition_slot_status(NULL, 0, 0, TG_TRANSITION_CLAIM, &previous), TG_QUEUE_FULL);
    CHECK_EQ(previous, 4711);
    CHECK(memcmp(ring, before, sizeof ring) == 0);
}

static void counting_done_looks_at_whole_slots(void)
{
    unsigned char ring[4 * 64] = {0};
    uint64_t done = 99;
    set_status(ring + 64, TG_SLOT_DONE);
    set_status(ring + 192, TG_SLOT_DONE);
    CHECK(tg_try_count_done_ring_slots(ring, sizeof ring, 4, &done) == 0 && done == 2);
    CHECK(tg_try_count_done_ring_slots(ring, sizeof ring, 3, &done) == 0 && done == 1);
    CHECK(tg_count_done_ring_slots(ring, sizeof ring, 4, &done) && done == 2);
    done = 99;
    CHECK_EQ(tg_try_count_done_ring_slots(ring, 252, 4, &done), TG_BACKEND);
    CHECK_EQ(tg_protocol_try_count_done_ring_slots(ring, 252, 4, &done), TG_MISSING_WORD);
    CHECK_EQ(tg_protocol_try_count_done_ring_slots(ring, 255, 1, &done), TG_MISALIGNED_BYTE_LENGTH);
    const uint64_t over = UINT64_MAX / 64 + 1;
    CHECK_EQ(tg_protocol_try_count_done_ring_slots(ring, 256, over, &done), TG_BYTE_LENGTH_OVERFLOW);
    CHECK_EQ(tg_try_count_done_ring_slots(ring, 256, over, &done), TG_QUEUE_FULL);
    CHECK_EQ(tg_try_count_done_ring_slots(ring, 256, over - 1, &done), TG_BACKEND);
    CHECK_EQ(tg_try_count_done_ring_slots(ring, 255, UINT64_MAX, &done), TG_BACKEND); /* misaligned first */
    CHECK(!tg_count_done_ring_slots(ring, 256, UINT64_MAX, &done));
    CHECK(!tg_count_done_ring_slots(ring, 256, 0, &done));
    CHECK_EQ(done, 99);
    CHECK(tg_try_count_done_ring_slots(NULL, 3, 0, &done) == 0 && done == 0);
}

int main(void)
{
    RUN(e1_the_whole_table_and_nothing_else);
    RUN(e1_the_pure_table_agrees);
    RUN(e1_random_walks_never_leave_fault);
    RUN(malformed_rings_and_slots_out_of_range_change_nothing);
    RUN(counting_done_looks_at_whole_slots);
    return 0;
}
