/* SPDX-License-Identifier: Apache-2.0
 * What a device makes different for buffers of the caller (test_foreign.c is the rest, the same for all
 * backends): a thread of the host keeps them in step with the device. Skips (77) without one;
 * TG_TEST_BACKEND names it. */
#include <signal.h>

#include "engine_test.h"
#include "ring/slot.h"

#define SLOTS 100u
#define OBS TG_CONTROL_OBSERVABLE_BASE
#define OP_HELD 12u

static _Alignas(64) struct tg_slot ring[SLOTS];
static uint32_t control[TG_CONTROL_MIN_WORDS + 64], debug_log[TG_DEBUG_RECORDS_BASE + 4 * 10];

/* Of each level's 20 slots the last 10 are foreign. */
static struct tg_engine_options options(void)
{
    struct tg_engine_options o = test_options(0, 2);
    size_t bytes;
    CHECK_EQ(tg_encode_empty_ring(SLOTS, ring, sizeof(ring), &bytes), 0);
    CHECK_EQ(tg_encode_control(false, 29, 64, control, sizeof(control), &bytes), 0);
    CHECK_EQ(tg_encode_empty_debug_log(10, debug_log, sizeof(debug_log), &bytes), 0);
    o.ring = ring;
    o.ring_bytes = sizeof(ring);
    o.control = control;
    o.control_bytes = sizeof(control);
    o.log = debug_log;
    o.log_bytes = sizeof(debug_log);
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
        o.foreign_slots[l] = 10;
    return o;
}

static void publish(uint32_t slot, uint32_t tenant, uint32_t opcode, uint32_t a0, uint32_t a1)
{
    const uint32_t args[2] = {a0, a1};
    CHECK(tg_slot_is_publishable(&ring[slot]));
    tg_slot_write_payload(&ring[slot], opcode, tenant, slot / 20, args, 2);
    tg_slot_publish(&ring[slot]);
}

static void until(const uint32_t *word, uint32_t value)
{
    uint64_t end = tg_clock_mono_ns() + LIMIT;
    while (tg_load_acquire_u32(word) != value) {
        CHECK(tg_clock_mono_ns() < end);
        usleep(100);
    }
}

static void until_engine_has(struct tg_engine *e, uint32_t index, uint32_t value)
{
    uint64_t end = tg_clock_mono_ns() + LIMIT;
    for (uint32_t v = ~value; v != value; usleep(100)) {
        CHECK_EQ(tg_engine_observable_load(e, index, &v), 0);
        CHECK(tg_clock_mono_ns() < end);
    }
}

static void what_either_side_writes_the_other_sees(void)
{
    struct tg_engine_options o = options();
    struct tg_engine *e = test_open(&o);
    struct tg_item t;
    /* The engine's own slots work beside, and do not lie in the caller's ring. */
    CHECK_EQ(run_ticket(e, 0, TG_OP_STORE_U32, (uint32_t[]){41, OBS + 3}, 2, &t), 0);
    until(&control[OBS + 3], 41);
    for (uint32_t s = 0; s < SLOTS; s++)
        CHECK_EQ(ring[s].status, TG_SLOT_EMPTY);
    /* The host writes an observable word, and an item reads it. */
    tg_store_release_u32(&control[OBS + 7], 1234);
    until_engine_has(e, 7, 1234);
    publish(55, 1, TG_OP_LOAD_U32, OBS + 7, 8);
    until(&ring[55].status, TG_SLOT_DONE);
    CHECK_EQ(control[OBS + 8], 1234); /* E7 */
    /* A quota of the host's: lower, and higher again. */
    uint32_t before = tg_load_acquire_u32(&control[TG_CONTROL_TENANT_QUOTA_BASE + 2]);
    tg_store_release_u32(&control[TG_CONTROL_TENANT_QUOTA_BASE + 2], 0);
    tg_store_release_u32(&control[OBS + 9], 1);
    until_engine_has(e, 9, 1);
    publish(56, 2, TG_OP_NOP, 0, 0);
    publish(57, 1, TG_OP_NOP, 0, 0);
    until(&ring[57].status, TG_SLOT_DONE);
    CHECK_EQ(tg_slot_status(&ring[56]), TG_SLOT_PUBLISHED);
    CHECK(before > 0);
    tg_store_release_u32(&control[TG_CONTROL_TENANT_QUOTA_BASE + 2], 5);
    until(&ring[56].status, TG_SLOT_DONE);
    until(&control[TG_CONTROL_TENANT_QUOTA_BASE + 2], 4);
    test_close(e);
    CHECK_EQ(control[TG_CONTROL_SHUTDOWN], 1);
}

/* Records go behind those that were there, and a full log keeps what it has (E9). */
static void e9_records_are_appended_to_the_callers_log(void)
{
    struct tg_engine_options o = options();
    debug_log[TG_DEBUG_RECORDS_BASE] = 77;
    debug_log[TG_DEBUG_CURSOR_WORD] = TG_DEBUG_RECORD_WORDS;
    struct tg_engine *e = test_open(&o);
    for (uint32_t i = 0; i < 12; i++) {
        publish(50 + i % 10, 0, TG_OP_PRINTF, i, i);
        until(&ring[50 + i % 10].status, TG_SLOT_DONE);
    }
    CHECK_EQ(debug_log[TG_DEBUG_RECORDS_BASE], 77);
    for (uint32_t i = 0; i < 9; i++)
        CHECK_EQ(debug_log[TG_DEBUG_RECORDS_BASE + (i + 1) * TG_DEBUG_RECORD_WORDS], i);
    CHECK_EQ(debug_log[TG_DEBUG_CURSOR_WORD], 10 * TG_DEBUG_RECORD_WORDS);
    CHECK_EQ(control[TG_CONTROL_LOG_DROPPED], 3);
    test_close(e);
}

/* E1: own and foreign items side by side, slots of both used again and again. */
static void e1_own_and_foreign_items_side_by_side(void)
{
    struct tg_engine_options o = options();
    struct tg_engine *e = test_open(&o);
    const uint32_t add[2] = {1, OBS + 20};
    uint32_t own = 0, foreign = 0, limit = 1500;
    for (uint64_t end = tg_clock_mono_ns() + LIMIT; own < limit || foreign < limit;) {
        CHECK(tg_clock_mono_ns() < end);
        if (own < limit)
            own += tg_engine_submit(e, own % 29, own % 5, TG_OP_ATOMIC_ADD, add, 2, NULL) == 0;
        for (uint32_t s = 0; s < SLOTS && foreign < limit; s++)
            if (s % 20 >= 10 && tg_slot_is_publishable(&ring[s])) {
                publish(s, foreign % 29, TG_OP_ATOMIC_ADD, 1, OBS + 21);
                foreign++;
            }
    }
    struct tg_drain_report r;
    CHECK_EQ(tg_engine_drain(e, LIMIT, &r), 0);
    CHECK_EQ(r.done, 2 * limit);
    CHECK_EQ(r.handed_back + r.faults, 0);
    CHECK_EQ(control[OBS + 20], limit);
    CHECK_EQ(control[OBS + 21], limit);
    CHECK_EQ(control[TG_CONTROL_DONE_COUNT], 2 * limit);
    test_close(e);
}

/* E8: a tenant that may not run, a fence that waits, an item that waits for IO: handed back. A wait for space
 * is not held up by slots of the host. */
static void e8_what_did_not_run_is_handed_back(void)
{
    struct tg_engine_options o = options();
    struct tg_engine *e = test_open(&o);
    struct tg_drain_report r;
    CHECK_EQ(tg_engine_set_tenant(e, 4, 0), 0);
    publish(50, 4, TG_OP_NOP, 0, 0);
    publish(51, 1, TG_OP_BATCH_FENCE, 1, 9);
    publish(10, 0, TG_OP_LOAD_MISS, 5, 0);
    until(&ring[51].status, TG_SLOT_YIELD);
    until(&ring[10].status, TG_SLOT_WAIT_IO);
    CHECK_EQ(tg_slot_status(&ring[50]), TG_SLOT_PUBLISHED);
    CHECK_EQ(tg_engine_drain(e, LIMIT, &r), 0);
    CHECK_EQ(r.handed_back, 3);
    CHECK_EQ(tg_slot_status(&ring[50]), TG_SLOT_EMPTY);
    CHECK_EQ(tg_slot_status(&ring[51]), TG_SLOT_EMPTY);
    CHECK_EQ(tg_slot_status(&ring[10]), TG_SLOT_EMPTY);
    CHECK_EQ(control[TG_CONTROL_EPOCH], 0);
    test_close(e);
}

static int held(void *context, struct tg_op *op)
{
    (void)op;
    sem_post(&((struct gate *)context)->reached);
    while (sem_wait(&((struct gate *)context)->open) != 0)
        ;
    return TG_OP_FINISHED;
}

/* A drain waits for what runs, has its limit, and may be repeated. */
static void e8_drain_waits_for_a_foreign_item(void)
{
    struct tg_engine_options o = options();
    struct tg_engine *e = test_open(&o);
    struct tg_drain_report r;
    struct gate g;
    sem_init(&g.reached, 0, 0);
    sem_init(&g.open, 0, 0);
    CHECK_EQ(tg_engine_register(e, OP_HELD, held, &g), 0);
    publish(30, 0, OP_HELD, 0, 0);
    while (sem_wait(&g.reached) != 0)
        ;
    CHECK_EQ(tg_engine_drain(e, SECOND / 20, &r), -ETIMEDOUT);
    CHECK_EQ(tg_slot_status(&ring[30]), TG_SLOT_CLAIMED);
    sem_post(&g.open);
    CHECK_EQ(tg_engine_drain(e, LIMIT, &r), 0);
    CHECK_EQ(tg_slot_status(&ring[30]), TG_SLOT_DONE);
    CHECK_EQ(r.done, 1);
    test_close(e);
}

static void what_does_not_fit_is_refused(void)
{
    struct tg_engine_options o = options();
    struct tg_engine *e = NULL;
    memset(o.foreign_slots, 0, sizeof(o.foreign_slots));
    CHECK_EQ(tg_engine_open(&o, &e), -ENOTSUP);
    CHECK(strstr(tg_engine_open_reason(), "foreign slots"));
    o = options();
    o.ring = NULL;
    o.ring_bytes = 0;
    o.slots = SLOTS;
    CHECK_EQ(tg_engine_open(&o, &e), -ENOTSUP);
    o = options();
    o.control_bytes = 8;
    CHECK_EQ(tg_engine_open(&o, &e), -EINVAL);
    /* Control buffer and log alone. */
    o = options();
    o.ring = NULL;
    o.ring_bytes = 0;
    o.slots = SLOTS;
    memset(o.foreign_slots, 0, sizeof(o.foreign_slots));
    e = test_open(&o);
    struct tg_item t;
    CHECK_EQ(run_ticket(e, 0, TG_OP_STORE_U32, (uint32_t[]){5, OBS + 1}, 2, &t), 0);
    until(&control[OBS + 1], 5);
    test_close(e);
}

int main(void)
{
    if (!test_backend())
        SKIP("TG_TEST_BACKEND names no device");
    RUN(what_does_not_fit_is_refused);
    RUN(what_either_side_writes_the_other_sees);
    RUN(e9_records_are_appended_to_the_callers_log);
    RUN(e1_own_and_foreign_items_side_by_side);
    RUN(e8_what_did_not_run_is_handed_back);
    RUN(e8_drain_waits_for_a_foreign_item);
    return 0;
}
