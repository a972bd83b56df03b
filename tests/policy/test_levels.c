/* SPDX-License-Identifier: Apache-2.0
 * E2 and E3: the level decision against its plain form, and the overtaking bound under floods of every
 * shape. */
#include <tidegate/levels.h>

#include "check.h"

static void e3_packed_equals_plain(void)
{
    uint64_t seed = 12345;
    uint64_t state = 0;
    uint32_t counts[TG_PRIORITY_LEVELS] = {0};
    for (int i = 0; i < 2000000; i++) {
        uint32_t work = (uint32_t)check_random(&seed) & TG_LEVELS_ALL;
        if (i % 7 < 5)
            work |= 1u << (i / 1000 % 5);
        uint32_t level = tg_levels_choose(state, work);
        CHECK_EQ(level, tg_levels_decide(counts, work));
        if (level == TG_PRIORITY_LEVELS)
            continue;
        state = tg_levels_claimed(state, work, level);
        for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
            CHECK_EQ(tg_levels_overtaken(state, l), counts[l]);
    }
}

/* From every state of counts that can be reached, any input is safe: counts never spill over. */
static void e3_any_word_is_a_legal_state(void)
{
    uint64_t seed = 99;
    for (int i = 0; i < 500000; i++) {
        uint64_t state = check_random(&seed);
        uint32_t work = (uint32_t)check_random(&seed) & TG_LEVELS_ALL;
        uint32_t level = tg_levels_choose(state, work);
        CHECK((level == TG_PRIORITY_LEVELS) == (work == 0));
        if (work == 0)
            continue;
        CHECK(work >> level & 1u);
        uint64_t next = tg_levels_claimed(state, work, level);
        for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++) {
            uint32_t was = tg_levels_overtaken(state, l);
            uint32_t now = tg_levels_overtaken(next, l);
            uint32_t want = l == level || !(work >> l & 1u) ? 0 : was >= 128 ? was : was + 1;
            CHECK_EQ(now, want);
        }
    }
}

static uint32_t longest[TG_PRIORITY_LEVELS];

/* One flood: the work masks come from next(); every level that waits is watched. */
static uint32_t flood(uint32_t (*next)(uint64_t *, uint32_t, uint32_t), uint32_t shape, int steps)
{
    uint64_t seed = shape * 2654435761u + 1;
    uint64_t state = 0;
    uint32_t waited[TG_PRIORITY_LEVELS] = {0};
    uint32_t worst = 0;
    uint32_t work = 0;
    for (int i = 0; i < steps; i++) {
        work = next(&seed, work, shape);
        uint32_t level = tg_levels_choose(state, work);
        if (level == TG_PRIORITY_LEVELS)
            continue;
        state = tg_levels_claimed(state, work, level);
        for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++) {
            waited[l] = l == level || !(work >> l & 1u) ? 0 : waited[l] + 1;
            worst = waited[l] > worst ? waited[l] : worst;
            longest[l] = waited[l] > longest[l] ? waited[l] : longest[l];
        }
    }
    CHECK(worst <= TG_OVERTAKING_BOUND);
    return worst;
}

/* shape: the levels that always have work. */
static uint32_t constant(uint64_t *seed, uint32_t work, uint32_t shape)
{
    (void)seed;
    (void)work;
    return shape;
}

/* shape: levels that always have work; the others come and go. */
static uint32_t flicker(uint64_t *seed, uint32_t work, uint32_t shape)
{
    uint32_t toggles = (uint32_t)(check_random(seed) & check_random(seed)) & TG_LEVELS_ALL;
    return (work ^ toggles) | (shape & TG_LEVELS_ALL);
}

/* Levels appear one after the other, timed so that several become overdue together. */
static uint32_t staged(uint64_t *seed, uint32_t work, uint32_t shape)
{
    uint32_t r = (uint32_t)check_random(seed);
    if (r % 4096 == 0)
        return 0;
    return work | (r % (5 + shape) == 0 ? 1u << (r / 64 % 5) : 1u << (shape % 5));
}

static void e3_no_level_is_overtaken_more_than_19_times(void)
{
    uint32_t worst = 0;
    for (uint32_t shape = 1; shape <= TG_LEVELS_ALL; shape++) {
        uint32_t w = flood(constant, shape, 20000);
        worst = w > worst ? w : worst;
        flood(flicker, shape, 100000);
        flood(staged, shape, 100000);
    }
    /* The bound is sharp: with all five levels flooded, IDLE really waits for 19 claims. */
    CHECK_EQ(worst, TG_OVERTAKING_BOUND);
    CHECK_EQ(longest[TG_PRIORITY_IDLE], TG_OVERTAKING_BOUND);
}

static void e3_low_and_idle_not_starved_under_normal(void)
{
    uint64_t state = 0;
    uint32_t work = 1u << TG_PRIORITY_NORMAL | 1u << TG_PRIORITY_LOW | 1u << TG_PRIORITY_IDLE;
    uint32_t served[TG_PRIORITY_LEVELS] = {0};
    for (int i = 0; i < 1800; i++) {
        uint32_t level = tg_levels_choose(state, work);
        state = tg_levels_claimed(state, work, level);
        served[level]++;
    }
    CHECK(served[TG_PRIORITY_LOW] >= 100 && served[TG_PRIORITY_IDLE] >= 100);
    CHECK(served[TG_PRIORITY_NORMAL] >= 1500);
}

/* The prototype's guard stalled when only CRITICAL and HIGH had work. */
static void e3_only_critical_and_high_goes_on(void)
{
    uint64_t state = 0;
    for (int i = 0; i < 10000; i++) {
        uint32_t level = tg_levels_choose(state, 3);
        CHECK(level <= TG_PRIORITY_HIGH);
        state = tg_levels_claimed(state, 3, level);
    }
}

static void e2_most_urgent_first_when_nobody_is_overdue(void)
{
    for (uint32_t work = 1; work <= TG_LEVELS_ALL; work++)
        CHECK_EQ(tg_levels_choose(0, work), (uint32_t)__builtin_ctz(work));
}

/* Deciding ahead gives the same claims as deciding one by one. */
static void ahead_equals_one_by_one(void)
{
    uint64_t seed = 4711;
    uint64_t state = 0;
    for (int i = 0; i < 500000; i++) {
        uint32_t work = 1u << i / 50 % 5 | ((uint32_t)check_random(&seed) & TG_LEVELS_ALL);
        uint32_t most = 1 + (uint32_t)check_random(&seed) % 16;
        uint32_t level = tg_levels_choose(state, work);
        uint64_t end;
        uint32_t n = tg_levels_ahead(state, work, level, most, &end);
        CHECK(n >= 1 && n <= most);
        for (uint32_t k = 0; k < n; k++) {
            CHECK_EQ(tg_levels_choose(state, work), level);
            uint64_t next = tg_levels_claimed(state, work, level);
            bool lost = false;
            for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
                lost |= tg_levels_overtaken(state, l) != 0 && tg_levels_overtaken(next, l) == 0;
            CHECK_EQ(tg_levels_forgets(state, next), lost);
            state = next;
        }
        CHECK_EQ(state, end);
        /* It ends because it must, or because that was all that was asked for. */
        CHECK(n == most || tg_levels_choose(state, work) != level || (work & ((1u << level) - 1u)));
    }
}

/* Several workers that each decide up to 8 claims ahead, in any order, while levels come and go: who waits is
 * overtaken as often as by workers that decide one by one, and no more. */
enum { AHEAD_WORKERS = 3, AHEAD_MOST = 8 };
static struct {
    uint32_t work, level, left, run, forgotten;
} ahead[AHEAD_WORKERS];

static void e3_bound_holds_for_workers_that_decide_ahead(void)
{
    uint64_t seed = 3;
    uint64_t state = 0;
    uint32_t forgotten = 0, worst = 0, used = 0;
    uint32_t waited[TG_PRIORITY_LEVELS] = {0};
    uint32_t work = TG_LEVELS_ALL;
    for (int i = 0; i < 4000000; i++) {
        uint64_t r = check_random(&seed);
        if (i % 1000000 == 0)
            work = TG_LEVELS_ALL;
        if (i >= 1000000 && r % 61 == 0) /* in the first quarter all have work all the time */
            work ^= 1u << r / 61 % 5;
        uint32_t who = r >> 32 & 1 ? 0 : (uint32_t)(r >> 33) % AHEAD_WORKERS; /* some are slow */
        if (work == 0)
            continue;
        for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
            if (!(work >> l & 1u))
                waited[l] = 0;
        uint32_t level = ahead[who].level;
        if (ahead[who].left != 0 && ahead[who].work == work && ahead[who].forgotten == forgotten &&
            ahead[who].run == (uint32_t)(state >> 40)) {
            ahead[who].left--;
            used++;
        } else {
            uint64_t next;
            level = tg_levels_choose(state, work);
            uint32_t n = tg_levels_ahead(state, work, level, AHEAD_MOST, &next);
            forgotten += tg_levels_forgets(state, next) ? 1u : 0u;
            ahead[who].work = work;
            ahead[who].level = level;
            ahead[who].left = n - 1;
            ahead[who].run = (uint32_t)(next >> 40);
            ahead[who].forgotten = forgotten;
            state = next;
        }
        for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++) {
            waited[l] = l == level || !(work >> l & 1u) ? 0 : waited[l] + 1;
            worst = waited[l] > worst ? waited[l] : worst;
        }
    }
    CHECK(used > 100000); /* it is deciding ahead that was tried */
    CHECK(worst >= TG_STARVATION_THRESHOLD && worst <= TG_OVERTAKING_BOUND);
}

static void urgent_runs_are_told_apart(void)
{
    uint64_t state = tg_levels_claimed(0, 5, 0);
    uint32_t run = tg_levels_run(state);
    state = tg_levels_claimed(state, 5, 1);
    CHECK_EQ(tg_levels_run(state), run);
    state = tg_levels_claimed(state, 5, 2);
    CHECK(tg_levels_run(state) != run);
    run = tg_levels_run(state);
    state = tg_levels_claimed(state, 5, 2);
    CHECK_EQ(tg_levels_run(state), run);
}

int main(void)
{
    RUN(e3_packed_equals_plain);
    RUN(e3_any_word_is_a_legal_state);
    RUN(e3_no_level_is_overtaken_more_than_19_times);
    RUN(e3_low_and_idle_not_starved_under_normal);
    RUN(e3_only_critical_and_high_goes_on);
    RUN(e2_most_urgent_first_when_nobody_is_overdue);
    RUN(ahead_equals_one_by_one);
    RUN(e3_bound_holds_for_workers_that_decide_ahead);
    RUN(urgent_runs_are_told_apart);
    return 0;
}
