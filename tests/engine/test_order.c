/* SPDX-License-Identifier: Apache-2.0
 * E2, E3, E4: who runs next, seen from outside: one worker stands at a gate while the work is published, and
 * what it then runs is written down. */
#include <pthread.h>
#include <sched.h>

#include "base/clock.h"
#include "engine_test.h"

static void e2_most_urgent_first_and_fifo_within(void)
{
    struct tg_engine *e = test_engine(320, 1);
    struct gate g;
    struct notes n;
    notes_start(&n, e, 64);
    gate_close(&g, e, 0);
    /* 15 items, so that no level is overdue (E3) before its turn. */
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t level = TG_PRIORITY_LEVELS; level-- > 0;)
            note_submit(e, 0, level, i);
    gate_open(&g);
    CHECK_EQ(tg_engine_settle(e, LIMIT), 0);
    CHECK_EQ(n.count, 15);
    for (uint32_t i = 0; i < 15; i++) {
        uint32_t level = n.note[i] >> 24;
        if (i > 0)
            CHECK(level >= n.note[i - 1] >> 24);
        if (i > 0 && level == n.note[i - 1] >> 24 && !test_flags)
            CHECK((n.note[i] & 0xFFFF) > (n.note[i - 1] & 0xFFFF));
    }
    free(n.note);
    test_close(e);
}

/* Floods every level above with what fits, and looks at the longest wait of each level. */
static void flood(uint32_t levels, uint32_t bound)
{
    struct tg_engine *e = test_engine(test_flags ? 320 : 2560, 1);
    struct gate g;
    struct notes n;
    uint32_t each = test_flags ? 60 : test_emulated() ? 150 : 500, kinds = 0;
    notes_start(&n, e, each * TG_PRIORITY_LEVELS);
    gate_close(&g, e, TG_PRIORITY_CRITICAL);
    for (uint32_t level = 0; level < TG_PRIORITY_LEVELS; level++) {
        if (!(levels >> level & 1u))
            continue;
        kinds++;
        for (uint32_t i = 0; i < each; i++)
            note_submit(e, 0, level, i);
    }
    gate_open(&g);
    CHECK_EQ(tg_engine_settle(e, LIMIT), 0);
    CHECK_EQ(n.count, each * kinds);
    uint32_t waited[TG_PRIORITY_LEVELS] = {0}, left[TG_PRIORITY_LEVELS], worst = 0;
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
        left[l] = levels >> l & 1u ? each : 0;
    for (uint32_t i = 0; i < n.count; i++) {
        uint32_t level = n.note[i] >> 24;
        left[level]--;
        for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++) {
            waited[l] = l == level || left[l] == 0 ? 0 : waited[l] + 1;
            worst = waited[l] > worst ? waited[l] : worst;
        }
    }
    CHECK(worst <= bound);
    free(n.note);
    test_close(e);
}

static void e3_low_not_starved_under_normal(void)
{
    flood(1u << TG_PRIORITY_NORMAL | 1u << TG_PRIORITY_LOW, TG_STARVATION_THRESHOLD);
    flood(1u << TG_PRIORITY_NORMAL | 1u << TG_PRIORITY_IDLE, TG_STARVATION_THRESHOLD);
}

static void e3_only_critical_and_high_does_not_stall(void)
{
    flood(1u << TG_PRIORITY_CRITICAL | 1u << TG_PRIORITY_HIGH, TG_STARVATION_THRESHOLD);
}

static void e3_bound_holds_for_every_flood(void)
{
    for (uint32_t levels = 1; levels <= TG_LEVELS_ALL; levels++)
        flood(levels, TG_OVERTAKING_BOUND);
}

/* A handler that submits an urgent item at every third note. */
static int comes_between(void *context, struct tg_op *op)
{
    if (op->args[0] % 3 == 2)
        note_submit(op->engine, 1, TG_PRIORITY_CRITICAL, op->args[0]);
    return note_handler(context, op);
}

/* A worker decides several claims of a level at once; an urgent item that comes between is next all the same,
 * also where the level's mark still stood from the one before. */
static void e2_an_urgent_item_is_next_whatever_was_decided(void)
{
    if (test_flags || test_backend())
        return; /* no order within a level; no handlers */
    for (uint32_t workers = 1; workers <= 2; workers++) {
        struct tg_engine *e = test_engine(8000, workers);
        struct gate stays, g;
        struct notes n;
        notes_start(&n, e, 200);
        CHECK_EQ(tg_engine_register(e, OP_COUNT, comes_between, &n), 0);
        for (uint32_t i = 1; i < workers; i++)
            gate_close(&stays, e, 0);
        gate_close(&g, e, 0);
        for (uint32_t i = 0; i < 99; i++)
            CHECK_EQ(tg_engine_submit(e, 0, TG_PRIORITY_NORMAL, OP_COUNT, &i, 1, NULL), 0);
        gate_open(&g);
        uint64_t until = tg_clock_mono_ns() + LIMIT;
        while (tg_load_acquire_u32(&n.count) < 132 && tg_clock_mono_ns() < until)
            sched_yield();
        for (uint32_t i = 1; i < workers; i++)
            gate_open(&stays);
        CHECK_EQ(tg_engine_settle(e, LIMIT), 0);
        CHECK_EQ(n.count, 132);
        for (uint32_t i = 0; i < 132; i++) {
            bool urgent = i % 4 == 3; /* notes 0, 1, 2, the urgent one of 2, 3, 4, 5, that of 5, ... */
            CHECK_EQ(n.note[i] >> 24, urgent ? TG_PRIORITY_CRITICAL : TG_PRIORITY_NORMAL);
            CHECK_EQ(n.note[i] & 0xFFFFu, i / 4 * 3 + (urgent ? 2 : i % 4));
        }
        free(n.note);
        test_close(e);
    }
}

/* A turn ends after 64 claims, also where an urgent item came between and what is decided at once does not
 * divide it. */
static void e4_a_turn_is_no_longer_after_an_interruption(void)
{
    if (test_flags || test_backend())
        return;
    struct tg_engine *e = test_engine(8000, 1);
    struct gate g;
    struct notes n;
    const uint32_t interrupts = 2;
    notes_start(&n, e, 400);
    CHECK_EQ(tg_engine_register(e, OP_COUNT, comes_between, &n), 0);
    gate_close(&g, e, 0);
    for (uint32_t tenant = 0; tenant < 2; tenant++) {
        CHECK_EQ(tg_engine_submit(e, tenant, TG_PRIORITY_NORMAL, OP_COUNT, &interrupts, 1, NULL), 0);
        for (uint32_t i = 1; i < 128; i++)
            note_submit(e, tenant, TG_PRIORITY_NORMAL, i);
    }
    gate_open(&g);
    CHECK_EQ(tg_engine_settle(e, LIMIT), 0);
    CHECK_EQ(n.count, 2 * 128 + 2);
    for (uint32_t i = 0, normal = 0; i < n.count; i++)
        if (n.note[i] >> 24 == TG_PRIORITY_NORMAL)
            CHECK_EQ(n.note[i] >> 16 & 0xFFu, normal++ / 64 % 2);
    free(n.note);
    test_close(e);
}

static int floods(void *context, struct tg_op *op)
{
    for (uint32_t i = 0; i < 60; i++)
        note_submit(op->engine, 0, TG_PRIORITY_CRITICAL, i);
    return note_handler(context, op);
}

/* What was decided for a level whose item turns out to be cancelled is void once another was decided for. */
static void e3_a_cancelled_item_leaves_no_decision_behind(void)
{
    if (test_flags || test_backend())
        return;
    struct tg_engine *e = test_engine(8000, 1);
    struct gate g;
    struct notes n;
    struct tg_item t;
    notes_start(&n, e, 200);
    CHECK_EQ(tg_engine_register(e, OP_COUNT, floods, &n), 0);
    gate_close(&g, e, TG_PRIORITY_HIGH);
    CHECK_EQ(tg_engine_submit(e, 0, TG_PRIORITY_CRITICAL, TG_OP_NOP, NULL, 0, &t), 0);
    CHECK_EQ(tg_engine_submit(e, 0, TG_PRIORITY_NORMAL, OP_COUNT, NULL, 0, NULL), 0);
    for (uint32_t i = 0; i < 8; i++)
        note_submit(e, 0, TG_PRIORITY_NORMAL, i);
    CHECK_EQ(tg_engine_cancel(e, &t), 0);
    gate_open(&g);
    CHECK_EQ(tg_engine_settle(e, LIMIT), 0);
    CHECK_EQ(n.count, 69);
    for (uint32_t i = 0, overtaken = 0, left = 9; i < n.count && left > 0; i++) {
        bool normal = n.note[i] >> 24 == TG_PRIORITY_NORMAL;
        overtaken = normal ? 0 : overtaken + 1;
        left -= normal ? 1 : 0;
        CHECK(overtaken <= TG_STARVATION_THRESHOLD);
    }
    free(n.note);
    test_close(e);
}

static void words_tell_claims_by_level(void)
{
    struct tg_engine *e = test_engine(320, 1);
    struct gate g;
    struct notes n;
    notes_start(&n, e, 64);
    for (uint32_t round = 0; round < 2; round++) {
        gate_close(&g, e, TG_PRIORITY_NORMAL);
        for (uint32_t i = 0; i < 7; i++)
            note_submit(e, 0, i % 2, i);
        gate_open(&g);
        CHECK_EQ(tg_engine_settle(e, LIMIT), 0);
        /* Seven claims at CRITICAL or HIGH since the gate, which was NORMAL. */
        CHECK_EQ(test_word(e, TG_CONTROL_PRIORITY_STARVATION_COUNTER), 7);
    }
    note_submit(e, 0, TG_PRIORITY_LOW, 0);
    CHECK_EQ(tg_engine_settle(e, LIMIT), 0);
    CHECK_EQ(test_word(e, TG_CONTROL_PRIORITY_STARVATION_COUNTER), 0);
    CHECK_EQ(test_word(e, TG_CONTROL_PRIORITY_FAIRNESS_BASE + 0), 8);
    CHECK_EQ(test_word(e, TG_CONTROL_PRIORITY_FAIRNESS_BASE + 1), 6);
    CHECK_EQ(test_word(e, TG_CONTROL_PRIORITY_FAIRNESS_BASE + 2), 2);
    CHECK_EQ(test_word(e, TG_CONTROL_PRIORITY_FAIRNESS_BASE + 3), 1);
    free(n.note);
    test_close(e);
}

static void e4_backlogged_tenants_share_evenly_at_100_to_1(void)
{
    struct tg_engine *e = test_engine(test_flags ? 1600 : 20000, 1);
    struct gate g;
    struct notes n;
    /* Tenant 0 wants 100 times as much as the other 28. */
    uint32_t light = test_flags ? 7 : 70, heavy = light * (test_flags ? 16 : 20);
    notes_start(&n, e, heavy + 28 * light);
    gate_close(&g, e, TG_PRIORITY_CRITICAL);
    for (uint32_t i = 0; i < heavy; i++)
        note_submit(e, 0, TG_PRIORITY_NORMAL, i);
    for (uint32_t t = 1; t < TG_TENANTS; t++)
        for (uint32_t i = 0; i < light; i++)
            note_submit(e, t, TG_PRIORITY_NORMAL, i);
    /* A device shares among those of whom it knows, and takes in an item of a quiet level at each look; an
     * answer takes a look. */
    struct tg_engine_stats stats;
    for (uint32_t i = 0; test_backend() && i < heavy + 28 * light; i++)
        tg_engine_stats(e, &stats);
    gate_open(&g);
    CHECK_EQ(tg_engine_settle(e, LIMIT), 0);
    /* While all are backlogged (the first round of turns) nobody has more than one turn of 64. */
    uint64_t share[TG_TENANTS] = {0};
    uint32_t turn = light < 64 ? light : 64;
    for (uint32_t i = 0; i < turn * 28 + 64; i++)
        share[n.note[i] >> 16 & 0xFF]++;
    for (uint32_t t = 1; t < TG_TENANTS; t++)
        CHECK_EQ(share[t], turn);
    CHECK_EQ(share[0], 64);
    free(n.note);
    test_close(e);
}

static void e4_never_yields_when_nobody_else_waits(void)
{
    struct tg_engine *e = test_engine(1000, 1);
    struct notes n;
    notes_start(&n, e, 150);
    for (uint32_t i = 0; i < 150; i++)
        note_submit(e, 3, TG_PRIORITY_NORMAL, i);
    CHECK_EQ(tg_engine_settle(e, LIMIT), 0);
    CHECK_EQ(n.count, 150);
    CHECK_EQ(test_word(e, TG_CONTROL_TENANT_FAIRNESS_BASE + 3), 150);
    free(n.note);
    test_close(e);
}

enum { EACH = 400 };
struct submitter {
    struct tg_engine *engine;
    uint32_t first;
};

static void *submits(void *submitter)
{
    const struct submitter *s = submitter;
    for (uint32_t i = 0; i < EACH; i++)
        note_submit(s->engine, 0, TG_PRIORITY_NORMAL, s->first + i);
    return NULL;
}

/* Two threads submit at one level for one tenant, one after the other: the items of each start in its order,
 * and the second does not wait until all of the first are through. One of two workers stands at a gate, so
 * that the notes are in the order of the starts. */
static void each_thread_in_its_order_and_none_behind_another(void)
{
    if (test_flags || test_backend())
        return; /* no order within a level; one queue a level */
    struct tg_engine *e = test_engine(8000, 2);
    struct gate stays, opens;
    struct notes n;
    notes_start(&n, e, 2 * EACH);
    gate_close(&stays, e, 0);
    gate_close(&opens, e, 0);
    for (uint32_t t = 0; t < 2; t++) {
        struct submitter s = {e, t * EACH};
        pthread_t thread;
        CHECK_EQ(pthread_create(&thread, NULL, submits, &s), 0);
        CHECK_EQ(pthread_join(thread, NULL), 0);
    }
    gate_open(&opens);
    uint64_t until = tg_clock_mono_ns() + LIMIT;
    while (tg_load_acquire_u32(&n.count) < 2 * EACH && tg_clock_mono_ns() < until)
        sched_yield();
    CHECK_EQ(tg_load_acquire_u32(&n.count), 2 * EACH);
    gate_open(&stays);
    CHECK_EQ(tg_engine_settle(e, LIMIT), 0);
    uint32_t next[2] = {0, 0}, first[2] = {0, 0};
    for (uint32_t i = 0; i < 2 * EACH; i++) {
        uint32_t number = n.note[i] & 0xFFFF, t = number / EACH;
        CHECK_EQ(number % EACH, next[t]);
        if (next[t]++ == 0)
            first[t] = i;
    }
    CHECK(first[0] < EACH / 2 && first[1] < EACH / 2);
    free(n.note);
    test_close(e);
}

static void cases(void)
{
    RUN(e2_most_urgent_first_and_fifo_within);
    RUN(e3_low_not_starved_under_normal);
    RUN(e3_only_critical_and_high_does_not_stall);
    RUN(e3_bound_holds_for_every_flood);
    RUN(each_thread_in_its_order_and_none_behind_another);
    RUN(e2_an_urgent_item_is_next_whatever_was_decided);
    RUN(e4_a_turn_is_no_longer_after_an_interruption);
    RUN(e3_a_cancelled_item_leaves_no_decision_behind);
    RUN(words_tell_claims_by_level);
    RUN(e4_backlogged_tenants_share_evenly_at_100_to_1);
    RUN(e4_never_yields_when_nobody_else_waits);
}

int main(void)
{
    BOTH_WAYS(cases);
    return 0;
}
