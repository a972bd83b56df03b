/* SPDX-License-Identifier: Apache-2.0
 * Partitions: any offsets, and moved while the engine runs. No item is lost, no slot is lost, PRIORITY and
 * partition agree at every moment (E2). */
#include "engine/device_host.h"
#include "engine/internal.h"
#include "engine_test.h"

#define SLOTS 200u

static const uint32_t cuts[][6] = {
    {0, 40, 80, 120, 160, 200},   {0, 1, 2, 198, 199, 200},    {0, 0, 0, 200, 200, 200},
    {0, 190, 192, 195, 198, 200}, {0, 10, 100, 110, 190, 200},
};
enum { CUTS = sizeof(cuts) / sizeof(cuts[0]) };

static void any_offsets_at_open(void)
{
    for (uint32_t c = 0; c < CUTS; c++) {
        struct tg_engine_options o = test_options(SLOTS, 1);
        memcpy(o.offsets, cuts[c], sizeof(o.offsets));
        struct tg_engine *e = test_open(&o);
        for (uint32_t level = 0; level < TG_PRIORITY_LEVELS; level++) {
            struct tg_item t;
            uint32_t size = cuts[c][level + 1] - cuts[c][level];
            int r = tg_engine_submit(e, 0, level, TG_OP_NOP, NULL, 0, &t);
            CHECK_EQ(r, size ? 0 : -ENOSPC);
            if (r)
                continue;
            CHECK_EQ(tg_engine_wait(e, &t, LIMIT), 0);
            CHECK(t.slot >= cuts[c][level] && t.slot < cuts[c][level + 1]);
        }
        for (uint32_t i = 0; i < 6; i++)
            CHECK_EQ(test_word(e, TG_CONTROL_PRIORITY_OFFSETS_BASE + i), cuts[c][i]);
        test_close(e);
    }
}

static void bad_offsets_change_nothing(void)
{
    struct tg_engine *e = test_engine(SLOTS, 1);
    const uint32_t bad[][6] = {{0, 40, 30, 120, 160, 200}, {1, 40, 80, 120, 160, 200}, {0, 1, 2, 3, 4, 199}};
    for (int i = 0; i < 3; i++)
        CHECK_EQ(tg_engine_resize(e, bad[i], SECOND), -EINVAL);
    CHECK_EQ(test_word(e, TG_CONTROL_EXTENSION_BASE + 4), 0);
    CHECK_EQ(test_word(e, TG_CONTROL_PRIORITY_OFFSETS_BASE + 1), 40);
    test_close(e);
}

static void resize_waits_for_slots_in_use_and_gives_up_cleanly(void)
{
    struct tg_engine *e = test_engine(SLOTS, 1);
    struct tg_item t[40];
    CHECK_EQ(tg_engine_set_tenant(e, 9, 0), 0);
    for (int i = 0; i < 40; i++)
        CHECK_EQ(submit_soon(e, 9, TG_PRIORITY_CRITICAL, TG_OP_NOP, NULL, 0, &t[i]), 0);
    CHECK_EQ(tg_engine_resize(e, cuts[1], SECOND / 50), -ETIMEDOUT);
    CHECK_EQ(test_word(e, TG_CONTROL_PRIORITY_OFFSETS_BASE + 1), 40);
    for (int i = 0; i < 40; i++)
        CHECK_EQ(tg_engine_cancel(e, &t[i]), 0);
    CHECK_EQ(tg_engine_set_tenant(e, 9, 1), 0);
    CHECK_EQ(tg_engine_settle(e, LIMIT), 0);
    for (int i = 0; i < 40; i++) /* all slots are back where they were */
        CHECK_EQ(submit_soon(e, 9, TG_PRIORITY_CRITICAL, TG_OP_NOP, NULL, 0, &t[i]), 0);
    CHECK_EQ(tg_engine_resize(e, cuts[1], LIMIT), 0);
    CHECK_EQ(test_word(e, TG_CONTROL_PRIORITY_OFFSETS_BASE + 1), 1);
    CHECK_EQ(test_word(e, TG_CONTROL_EXTENSION_BASE + 4), 2);
    test_close(e);
}

/* A slot that is to move goes to the resize by whoever meets it first: a submitter does not publish into it,
 * and who frees it does not give it to the submitters again. Else a busy level might never be collected. */
static void e2_slots_on_the_move_are_handed_over_at_once(void)
{
    struct tg_engine *e = test_engine(SLOTS, 1);
    struct tg_item t[2];
    const uint32_t level = TG_PRIORITY_CRITICAL;
    CHECK_EQ(tg_engine_set_tenant(e, 9, 0), 0);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(submit_soon(e, 9, level, TG_OP_NOP, NULL, 0, &t[i]), 0);
    CHECK_EQ(tg_engine_settle(e, SECOND / 100), -ETIMEDOUT);
    /* As a resize in the middle of its way: these two and what is free is to move. */
    for (uint32_t s = 0; s < 40; s++)
        tg_store_release_u8(&e->home[s], (uint8_t)(level | TG_HOME_MOVING));
    tg_store_seqcst_u32(&e->resizing, 1);
    uint64_t free_slots = tg_free_count(e, level);
    CHECK_EQ(tg_engine_submit(e, 0, level, TG_OP_NOP, NULL, 0, NULL), -EAGAIN);
    CHECK_EQ(tg_free_count(e, level), free_slots - 1);
    CHECK_EQ(tg_engine_cancel(e, &t[0]), 0);
    CHECK_EQ(tg_engine_set_tenant(e, 9, 1), 0);
    CHECK_EQ(tg_engine_wait(e, &t[1], LIMIT), 0);
    for (int i = 0; i < 2; i++) {
        uint64_t end = tg_clock_mono_ns() + LIMIT;
        while (!(tg_load_acquire_u8(&e->home[t[i].slot]) & TG_HOME_GOT)) {
            if (e->device) /* what a device frees, the host meets when it looks */
                tg_device_reap(e);
            CHECK(tg_clock_mono_ns() < end);
        }
    }
    CHECK_EQ(tg_free_count(e, level), free_slots - 1);
    /* Called off. */
    tg_store_seqcst_u32(&e->resizing, 0);
    for (uint32_t s = 0; s < 40; s++)
        if (tg_exchange_acqrel_u8(&e->home[s], (uint8_t)level) & TG_HOME_GOT)
            tg_slot_release(e, NULL, s);
    CHECK_EQ(tg_engine_settle(e, LIMIT), 0);
    CHECK_EQ(tg_free_count(e, level), 40);
    test_close(e);
}

static uint32_t busy;

static int again_while_busy(void *context, struct tg_op *op)
{
    (void)context, (void)op;
    return tg_load_acquire_u32(&busy) ? TG_OP_REQUEUE : TG_OP_FINISHED;
}

/* What a worker keeps back of freed slots follows the level's size: else a level made small would lie in its
 * hands as a whole, while other levels give it no moment to return them. */
static void a_small_level_is_not_kept_by_a_busy_worker(void)
{
    if (test_flags || test_backend())
        return; /* scanning, 5,120 slots a look */
    struct tg_engine *e = test_engine(5120, 1);
    const uint32_t small[6] = {0, 1024, 2048, 5110, 5115, 5120};
    CHECK_EQ(tg_engine_resize(e, small, LIMIT), 0);
    CHECK_EQ(tg_engine_register(e, OP_COUNT, again_while_busy, NULL), 0);
    tg_store_release_u32(&busy, 1);
    CHECK_EQ(tg_engine_submit(e, 0, TG_PRIORITY_CRITICAL, OP_COUNT, NULL, 0, NULL), 0);
    uint64_t end = tg_clock_mono_ns() + LIMIT / 4;
    for (uint32_t n = 0; n < 100;) {
        n += tg_engine_submit(e, 0, TG_PRIORITY_LOW, TG_OP_NOP, NULL, 0, NULL) == 0 ? 1u : 0u;
        CHECK(tg_clock_mono_ns() < end); /* and nobody waits for space, which would call for them */
    }
    tg_store_release_u32(&busy, 0);
    CHECK_EQ(tg_engine_settle(e, LIMIT), 0);
    test_close(e);
}

enum { PRODUCERS = 2 };
static struct tg_engine *shared;
static uint32_t stop, wrong;
static uint64_t accepted[PRODUCERS];

static void *producer(void *id)
{
    uintptr_t me = (uintptr_t)id;
    uint64_t seed = me + 1;
    while (!tg_load_acquire_u32(&stop)) {
        uint32_t level = (uint32_t)check_random(&seed) % TG_PRIORITY_LEVELS;
        int r = tg_engine_submit(shared, 0, level, OP_COUNT, NULL, 0, NULL);
        CHECK(r == 0 || r == -EAGAIN || r == -ENOSPC);
        accepted[me] += r == 0;
    }
    return NULL;
}

/* Runs in the worker: does the slot lie in the partition of its PRIORITY, if the borders are not moving? */
static int agrees(void *context, struct tg_op *op)
{
    struct tg_engine *e = op->engine;
    (void)context;
    uint32_t seq = test_word(e, TG_CONTROL_EXTENSION_BASE + 4);
    uint32_t first = test_word(e, TG_CONTROL_PRIORITY_OFFSETS_BASE + op->priority);
    uint32_t end = test_word(e, TG_CONTROL_PRIORITY_OFFSETS_BASE + op->priority + 1);
    if (seq % 2 == 0 && seq == test_word(e, TG_CONTROL_EXTENSION_BASE + 4) &&
        (op->slot < first || op->slot >= end))
        tg_add_relaxed_u32(&wrong, 1);
    return TG_OP_FINISHED;
}

static void e2_resize_under_load_sends_nobody_out_of_bounds(void)
{
    pthread_t thread[PRODUCERS];
    uint64_t total = 0;
    shared = test_engine(SLOTS, 2);
    stop = wrong = 0;
    memset(accepted, 0, sizeof(accepted));
    CHECK_EQ(tg_engine_register(shared, OP_COUNT, agrees, NULL), 0);
    for (uintptr_t i = 0; i < PRODUCERS; i++)
        CHECK_EQ(pthread_create(&thread[i], NULL, producer, (void *)i), 0);
    int changed = 0;
    /* Some may be in vain on a machine that others keep busy too. */
    uint64_t end = tg_clock_mono_ns() + LIMIT;
    for (int i = 0; i < 100 && tg_clock_mono_ns() < end; i++)
        changed += tg_engine_resize(shared, cuts[i % CUTS], SECOND) == 0;
    tg_store_release_u32(&stop, 1);
    for (int i = 0; i < PRODUCERS; i++) {
        pthread_join(thread[i], NULL);
        total += accepted[i];
    }
    CHECK(changed > 20);
    CHECK_EQ(wrong, 0);
    CHECK_EQ(tg_engine_resize(shared, cuts[0], LIMIT), 0);
    CHECK_EQ(tg_engine_settle(shared, LIMIT), 0);
    CHECK_EQ(test_word(shared, TG_CONTROL_DONE_COUNT), (uint32_t)total);
    struct tg_engine_stats s;
    tg_engine_stats(shared, &s);
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
        CHECK(s.level[l].slots == 40 && s.level[l].outstanding == 0);
    test_close(shared);
}

static void cases(void)
{
    RUN(any_offsets_at_open);
    RUN(bad_offsets_change_nothing);
    RUN(resize_waits_for_slots_in_use_and_gives_up_cleanly);
    RUN(e2_slots_on_the_move_are_handed_over_at_once);
    RUN(a_small_level_is_not_kept_by_a_busy_worker);
    RUN(e2_resize_under_load_sends_nobody_out_of_bounds);
}

int main(void)
{
    BOTH_WAYS(cases);
    return 0;
}
