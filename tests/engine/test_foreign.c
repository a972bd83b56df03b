/* SPDX-License-Identifier: Apache-2.0
 * An engine on the caller's buffers: a host that knows nothing but the ABI publishes with the codec, and
 * reads results, counters and the log from the bytes. */
#include <tidegate/partition.h>

#include "engine_test.h"
#include "ring/slot.h"

#define SLOTS 200u
#define OBSERVABLES 400u

static _Alignas(64) unsigned char ring[SLOTS * TG_SLOT_BYTES];
static _Alignas(64) uint32_t control[TG_CONTROL_MIN_WORDS + OBSERVABLES];
static uint32_t debug_log[TG_DEBUG_BUFFER_WORDS];

static struct tg_engine_options buffers(uint32_t tenants)
{
    struct tg_engine_options o = test_options(0, 2);
    size_t bytes;
    CHECK_EQ(tg_encode_empty_ring(SLOTS, ring, sizeof(ring), &bytes), 0);
    CHECK_EQ(tg_encode_control(false, tenants, OBSERVABLES, control, sizeof(control), &bytes), 0);
    CHECK_EQ(tg_encode_empty_debug_log(TG_DEBUG_RECORD_CAPACITY, debug_log, sizeof(debug_log), &bytes), 0);
    o.ring = ring;
    o.ring_bytes = sizeof(ring);
    o.control = control;
    o.control_bytes = sizeof(control);
    o.log = debug_log;
    o.log_bytes = sizeof(debug_log);
    o.poll_us = 500;
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
        o.foreign_slots[l] = TG_ENGINE_ALL_SLOTS;
    return o;
}

/* Publishes with the codec, or, where somebody may look at the slot's words meanwhile (scanning workers, a
 * slot taken back from under the poller), with the live calls: the codec writes plain bytes. */
static int publish(bool live, uint32_t slot, uint32_t tenant, uint32_t priority, uint32_t opcode,
                   const uint32_t *args, uint32_t n)
{
    if (!live && !test_flags)
        return tg_publish_slot_with_priority(ring, sizeof(ring), slot, tenant, priority, opcode, args, n);
    struct tg_slot *s = (struct tg_slot *)(void *)ring + slot;
    CHECK(tg_slot_is_publishable(s));
    tg_slot_write_payload(s, opcode, tenant, priority, args, n);
    tg_slot_publish(s);
    return 0;
}

static uint32_t status_of(uint32_t slot)
{
    return tg_load_acquire_u32((uint32_t *)(void *)ring + (size_t)slot * TG_SLOT_WORDS);
}

static void until(uint32_t slot, uint32_t status)
{
    uint64_t end = tg_clock_mono_ns() + LIMIT;
    while (status_of(slot) != status)
        CHECK(tg_clock_mono_ns() < end);
}

static void until_word(uint32_t word, uint32_t value)
{
    uint64_t end = tg_clock_mono_ns() + LIMIT;
    while (tg_load_acquire_u32(&control[word]) != value)
        CHECK(tg_clock_mono_ns() < end);
}

static void foreign_items_run_and_slots_are_the_hosts_again(void)
{
    struct tg_engine_options o = buffers(4);
    struct tg_engine *e = test_open(&o);
    for (uint32_t round = 0; round < 5; round++) {
        for (uint32_t s = 0; s < SLOTS; s++) {
            uint32_t args[2] = {1, TG_CONTROL_OBSERVABLE_BASE + s};
            CHECK_EQ(publish(false, s, s % 4, s / 40, TG_OP_ATOMIC_ADD, args, 2), 0);
        }
        for (uint32_t s = 0; s < SLOTS; s++)
            until(s, TG_SLOT_DONE);
        for (uint32_t s = 0; s < SLOTS; s++)
            CHECK_EQ(tg_load_acquire_u32(&control[TG_CONTROL_OBSERVABLE_BASE + s]), round + 1);
    }
    until_word(TG_CONTROL_DONE_COUNT, 5 * SLOTS);
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
        until_word(TG_CONTROL_PRIORITY_FAIRNESS_BASE + l, 5 * SLOTS / 5);
    for (uint32_t t = 0; t < 4; t++) {
        until_word(TG_CONTROL_TENANT_FAIRNESS_BASE + t, 5 * SLOTS / 4);
        until_word(TG_CONTROL_TENANT_QUOTA_BASE + t, TG_TENANT_QUOTA_INITIAL - 5 * SLOTS / 4);
    }
    until_word(TG_CONTROL_METRICS_BASE + TG_OP_ATOMIC_ADD, 5 * SLOTS);
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
        CHECK_EQ(control[TG_CONTROL_EXTENSION_BASE + 5 + l], l * 40 + 1);
    CHECK_EQ(tg_engine_submit(e, 0, 0, TG_OP_NOP, NULL, 0, NULL), -ENOSPC);
    test_close(e);
    CHECK_EQ(control[TG_CONTROL_SHUTDOWN], 1);
}

static void foreign_batch_fence_waits_for_its_items(void)
{
    struct tg_engine_options o = buffers(2);
    struct tg_engine *e = test_open(&o);
    struct tg_batch_item items[4] = {
        {TG_OP_NOP, NULL, 0}, {OP_GATE, NULL, 0}, {TG_OP_NOP, NULL, 0}, {TG_OP_NOP, NULL, 0}};
    struct gate g;
    uint32_t published;
    sem_init(&g.reached, 0, 0);
    sem_init(&g.open, 0, 0);
    CHECK_EQ(tg_engine_register(e, OP_GATE, gate_handler, &g), 0);
    CHECK_EQ(tg_batch_publish(ring, sizeof(ring), 90, 1, items, 4, 321, &published), 0);
    while (sem_wait(&g.reached) != 0)
        ;
    until(93, TG_SLOT_DONE);
    until(94, TG_SLOT_YIELD);
    CHECK_EQ(tg_load_acquire_u32(&control[TG_CONTROL_EPOCH]), 0);
    gate_open(&g);
    until(94, TG_SLOT_DONE);
    CHECK_EQ(tg_load_acquire_u32(&control[TG_CONTROL_EPOCH]), 1);
    CHECK_EQ(control[TG_CONTROL_OBSERVABLE_BASE], 321);
    /* A fence over more slots than lie before it. */
    uint32_t args[2] = {6, 1};
    CHECK_EQ(publish(false, 5, 1, TG_PRIORITY_NORMAL, TG_OP_BATCH_FENCE, args, 2), 0);
    until(5, TG_SLOT_FAULT);
    test_close(e);
}

static void e4_foreign_tenant_outside_the_table_is_fault_and_never_claimed(void)
{
    struct tg_engine_options o = buffers(29);
    struct tg_engine *e = test_open(&o);
    const uint32_t outside[] = {29, 157, 0xFFFFFFFFu};
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_EQ(publish(false, 80 + i, outside[i], TG_PRIORITY_NORMAL, TG_OP_NOP, NULL, 0), 0);
        until(80 + i, TG_SLOT_FAULT);
    }
    until_word(TG_CONTROL_EXTENSION_BASE, 3);
    CHECK_EQ(control[TG_CONTROL_EXTENSION_BASE + 2], TG_FAULT_TENANT);
    struct tg_engine_stats s;
    tg_engine_stats(e, &s);
    CHECK_EQ(s.claims, 0);
    CHECK_EQ(s.faults, 3);
    /* A priority that does not exist is a fault too. */
    CHECK_EQ(publish(true, 83, 0, 5, TG_OP_NOP, NULL, 0), 0);
    until(83, TG_SLOT_FAULT);
    test_close(e);
}

/* E2: the priority named at publication counts, wherever the slot lies. */
static void e2_foreign_priority_word_decides(void)
{
    struct tg_engine_options o = buffers(2);
    o.workers = 1;
    struct tg_engine *e = test_open(&o);
    struct notes n;
    struct gate g;
    notes_start(&n, e, 8);
    sem_init(&g.reached, 0, 0);
    sem_init(&g.open, 0, 0);
    CHECK_EQ(tg_engine_register(e, OP_GATE, gate_handler, &g), 0);
    CHECK_EQ(publish(false, 100, 0, TG_PRIORITY_NORMAL, OP_GATE, NULL, 0), 0);
    while (sem_wait(&g.reached) != 0)
        ;
    for (uint32_t p = 0; p < 5; p++) /* IDLE in the first slot, CRITICAL in the last */
        CHECK_EQ(publish(false, p, 0, 4 - p, OP_NOTE, &p, 1), 0);
    /* The poller passes upwards: when it has refused the last slot it has seen the others. */
    CHECK_EQ(publish(false, SLOTS - 1, 157, TG_PRIORITY_IDLE, TG_OP_NOP, NULL, 0), 0);
    until(SLOTS - 1, TG_SLOT_FAULT);
    gate_open(&g);
    for (uint32_t p = 0; p < 5; p++)
        until(p, TG_SLOT_DONE);
    for (uint32_t i = 0; i < 5; i++)
        CHECK_EQ(n.note[i] >> 24, i);
    free(n.note);
    test_close(e);
}

static void foreign_host_switches_tenants_in_the_words(void)
{
    struct tg_engine_options o = buffers(2);
    struct tg_engine *e = test_open(&o);
    struct timespec ts = {0, 10000000};
    CHECK_EQ(publish(false, 90, 5, TG_PRIORITY_NORMAL, TG_OP_NOP, NULL, 0), 0);
    CHECK_EQ(publish(false, 91, 1, TG_PRIORITY_NORMAL, TG_OP_NOP, NULL, 0), 0);
    until(91, TG_SLOT_DONE);
    nanosleep(&ts, NULL);
    CHECK_EQ(status_of(90), TG_SLOT_PUBLISHED);
    tg_store_seqcst_u32(&control[TG_CONTROL_TENANT_QUOTA_BASE + 5], 10);
    tg_store_seqcst_u32(&control[TG_CONTROL_TENANT_MASKS + 5], TG_TENANT_MASK_ALL);
    until(90, TG_SLOT_DONE);
    CHECK_EQ(tg_load_acquire_u32(&control[TG_CONTROL_TENANT_QUOTA_BASE + 5]), 9);
    test_close(e);
}

static void foreign_cancel_and_publish_anew_under_the_poller(void)
{
    struct tg_engine_options o = buffers(2);
    struct tg_engine *e = test_open(&o);
    uint32_t previous;
    tg_store_seqcst_u32(&control[TG_CONTROL_TENANT_QUOTA_BASE + 1], TG_TENANT_QUOTA_UNLIMITED);
    for (uint32_t i = 0; i < 20000; i++) {
        uint32_t args[2] = {1, TG_CONTROL_OBSERVABLE_BASE + 7};
        uint32_t slot = 85 + i % 3, status = status_of(slot);
        /* Tenant 1 may run, tenant 3 may not: the same slots change hands all the time. */
        if (status == TG_SLOT_PUBLISHED &&
            tg_transition_slot_status(ring, sizeof(ring), slot, TG_TRANSITION_CANCEL, &previous) == 0)
            status = TG_SLOT_EMPTY;
        if (status != TG_SLOT_EMPTY && status != TG_SLOT_DONE)
            continue;
        bool off = i / 3 % 2;
        CHECK_EQ(publish(true, slot, off ? 3 : 1, TG_PRIORITY_NORMAL, TG_OP_ATOMIC_ADD, args, 2), 0);
    }
    struct tg_drain_report r;
    CHECK_EQ(tg_engine_drain(e, LIMIT, &r), 0);
    struct tg_engine_stats s;
    tg_engine_stats(e, &s);
    CHECK_EQ(s.tenant[3].claims, 0);
    CHECK_EQ(s.tenant[1].done, control[TG_CONTROL_OBSERVABLE_BASE + 7]);
    CHECK(r.handed_back <= 3);
    test_close(e);
}

static void e9_foreign_log_is_kept_and_readable(void)
{
    struct tg_engine_options o = buffers(1);
    struct tg_engine *e = test_open(&o);
    struct tg_debug_record records[64];
    size_t count;
    for (uint32_t i = 0; i < 65; i++) {
        uint32_t args[3] = {i, 1, 2};
        CHECK_EQ(publish(false, 80 + i % 40, 0, TG_PRIORITY_NORMAL, TG_OP_PRINTF, args, 3), 0);
        until(80 + i % 40, TG_SLOT_DONE);
    }
    CHECK_EQ(tg_try_read_debug_log(debug_log, sizeof(debug_log), records, 64, &count), 0);
    CHECK_EQ(count, 64);
    CHECK(records[63].fmt_id == 63 && records[63].args[2] == (80 + 63 % 40) * TG_SLOT_WORDS);
    CHECK_EQ(control[TG_CONTROL_EXTENSION_BASE + 3], 1);
    test_close(e);
}

static void foreign_load_miss_waits_for_the_io_side(void)
{
    struct tg_engine_options o = buffers(1);
    struct tg_engine *e = test_open(&o);
    struct tg_io_request r;
    size_t bytes;
    CHECK_EQ(tg_encode_load_miss(77, true, ring, TG_SLOT_BYTES, &bytes), 0);
    CHECK_EQ(tg_engine_io_next(e, LIMIT, &r), 0);
    CHECK(r.resource == 77 && r.prefetch == 1 && r.item.slot == 0);
    CHECK_EQ(status_of(0), TG_SLOT_WAIT_IO);
    CHECK_EQ(tg_engine_io_complete(e, &r.item, 0), 0);
    until(0, TG_SLOT_DONE);
    test_close(e);
}

static void foreign_shutdown_word_ends_the_workers_after_the_work(void)
{
    struct tg_engine_options o = buffers(1);
    struct tg_engine *e = test_open(&o);
    for (uint32_t s = 0; s < SLOTS; s++)
        CHECK_EQ(publish(false, s, 0, TG_PRIORITY_NORMAL, TG_OP_NOP, NULL, 0), 0);
    tg_store_seqcst_u32(&control[TG_CONTROL_SHUTDOWN], 1);
    for (uint32_t s = 0; s < SLOTS; s++)
        until(s, TG_SLOT_DONE);
    test_close(e);
    struct tg_engine *again;
    CHECK_EQ(tg_engine_open(&o, &again), -ESHUTDOWN);
}

static void bad_buffers_are_refused(void)
{
    struct tg_engine_options o = buffers(1);
    struct tg_engine *e;
    o.ring = ring + 4;
    CHECK_EQ(tg_engine_open(&o, &e), -EINVAL);
    o = buffers(1);
    o.ring_bytes = 65;
    CHECK_EQ(tg_engine_open(&o, &e), -EINVAL);
    o = buffers(1);
    o.control_bytes = TG_CONTROL_MIN_BYTES;
    CHECK_EQ(tg_engine_open(&o, &e), -EINVAL);
    o = buffers(1);
    control[TG_CONTROL_TENANT_BASE] = 0;
    CHECK_EQ(tg_engine_open(&o, &e), -EINVAL);
    o = buffers(1);
    control[TG_CONTROL_PRIORITY_OFFSETS_BASE + 1] = 7; /* not a division of the ring */
    CHECK_EQ(tg_engine_open(&o, &e), -EINVAL);
    o = buffers(1);
    o.foreign_slots[2] = SLOTS;
    CHECK_EQ(tg_engine_open(&o, &e), -EINVAL);
    o = buffers(1);
    o.foreign_slots[2] = 0;
    ring[90 * TG_SLOT_BYTES] = TG_SLOT_PUBLISHED;
    CHECK_EQ(tg_engine_open(&o, &e), -EBUSY);
    o = buffers(1);
    o.log_bytes = 2;
    CHECK_EQ(tg_engine_open(&o, &e), -EINVAL);
    o = buffers(1);
    o.size = 4;
    CHECK_EQ(tg_engine_open(&o, &e), -EINVAL);
    o = buffers(1);
    o.backend = "abacus";
    CHECK_EQ(tg_engine_open(&o, &e), -ENOTSUP);
    o = buffers(1);
    o.workers = 257;
    CHECK_EQ(tg_engine_open(&o, &e), -EINVAL);
}

static void cases(void)
{
    RUN(foreign_items_run_and_slots_are_the_hosts_again);
    RUN(foreign_batch_fence_waits_for_its_items);
    RUN(e4_foreign_tenant_outside_the_table_is_fault_and_never_claimed);
    RUN(e2_foreign_priority_word_decides);
    RUN(foreign_host_switches_tenants_in_the_words);
    RUN(foreign_cancel_and_publish_anew_under_the_poller);
    RUN(e9_foreign_log_is_kept_and_readable);
    RUN(foreign_load_miss_waits_for_the_io_side);
    RUN(foreign_shutdown_word_ends_the_workers_after_the_work);
    RUN(bad_buffers_are_refused);
}

int main(void)
{
    BOTH_WAYS(cases);
    return 0;
}
