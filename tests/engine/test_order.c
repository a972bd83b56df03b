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
    RUN(words_tell_claims_by_level);
    RUN(e4_backlogged_tenants_share_evenly_at_100_to_1);
    RUN(e4_never_yields_when_nobody_else_waits);
}

int main(void)
{
    BOTH_WAYS(cases);
    return 0;
}
