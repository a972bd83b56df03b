/* SPDX-License-Identifier: Apache-2.0
 * The load gate (O14): it does not lag, it does not swing, and on work that only computes it loses little
 * against a fixed number of jobs. In virtual time, through the functions that decide. */
#include <tidegate/policy.h>

#include "check.h"

static void o14_a_machine_that_has_just_become_idle_is_idle(void)
{
    struct tg_load_watch w = {0};
    CHECK(tg_load_is_stale(&w, 0));
    tg_load_see(&w, 1000, 8000);
    CHECK(!tg_load_is_stale(&w, 1000));
    tg_load_turn(&w, 2000, 250);
    CHECK(w.closed);
    /* After a while without anybody asking, the first measurement is the whole truth. */
    CHECK(tg_load_is_stale(&w, 1000 + TG_LOAD_STALE_MS));
    tg_load_see(&w, 1000 + TG_LOAD_STALE_MS, 0);
    CHECK_EQ(w.milli, 0);
    tg_load_turn(&w, 2000, 250);
    CHECK(!w.closed);
    /* And while somebody asks all the time, it takes less than a second. */
    w = (struct tg_load_watch){0};
    tg_load_see(&w, 5000, 8000);
    uint64_t now = 5000;
    for (; w.milli >= 1750 && now < 6000; now += 100)
        tg_load_see(&w, now, 0);
    CHECK(now < 6000);
}

static void o14_one_sample_decides_nothing(void)
{
    struct tg_load_watch w = {0};
    for (uint64_t now = 0; now < 2000; now += 100)
        tg_load_see(&w, now, 4000);
    CHECK_EQ(w.milli, 4000);
    tg_load_see(&w, 2000, 0); /* a moment in which all of them happened to sleep */
    CHECK(w.milli > 2500 && w.milli < 4000);
    tg_load_see(&w, 2000, 0); /* twice at the same time says nothing new */
    CHECK(w.milli > 2500);
}

static void o14_grants_and_ends_count_at_once(void)
{
    struct tg_load_watch w = {0};
    tg_load_see(&w, 0, 0);
    tg_load_granted(&w, 10, 1000);
    tg_load_granted(&w, 10, 1000);
    CHECK_EQ(w.milli, 2000);
    tg_load_turn(&w, 2000, 250);
    CHECK(w.closed);
    tg_load_ended(&w, 1000, UINT64_MAX);
    tg_load_turn(&w, 2000, 250);
    CHECK(!w.closed && w.milli == 1000);
    /* A job that was wider than it said: what is counted when it has ended says so. */
    tg_load_see(&w, 5000, 9000);
    tg_load_ended(&w, 1000, 500);
    CHECK_EQ(w.milli, 500);
    tg_load_ended(&w, 1000, 5000);
    CHECK_EQ(w.milli, 0);
    /* A grant that a long silence follows is not forgotten at once. */
    tg_load_see(&w, 20000, 0);
    tg_load_granted(&w, 22500, 3000);
    CHECK(!tg_load_is_stale(&w, 23500));
    tg_load_see(&w, UINT64_MAX, UINT64_MAX);
    tg_load_granted(&w, UINT64_MAX, 1);
    CHECK(w.milli == UINT64_MAX);
    tg_load_see(&w, UINT64_MAX, 0);
    tg_load_see(&w, 0, 0); /* a clock that stands or steps harms nothing */
}

static void o14_hysteresis(void)
{
    struct tg_load_watch w = {.known = true};
    static const uint64_t steps[][2] = {{1999, 0}, {2000, 1}, {1999, 1}, {1750, 1},
                                        {1749, 0}, {1999, 0}, {2001, 1}, {0, 0}};
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        w.milli = steps[i][0];
        tg_load_turn(&w, 2000, 250);
        CHECK_EQ(w.closed, steps[i][1]);
    }
    CHECK_EQ(tg_load_margin(2000), 250);
    CHECK_EQ(tg_load_margin(64000), 500);
    CHECK_EQ(tg_load_margin(100), 12);
}

/* In one pass: each grant counts before the next is looked at. */
static void o14_one_pass_fills_up_to_the_limit(void)
{
    struct tg_gates g = {
        .slots = 100, .overtake_bound = 16, .load_limit_milli = 3000, .load_margin_milli = 375};
    struct tg_usage u = {.load_known = true, .mem_known = true, .load_milli = 900};
    g.budget_mb = TG_NO_BUDGET;
    for (int closed = 0; closed < 2; closed++) {
        struct tg_pass pass;
        int granted = 0;
        u.load_closed = closed;
        tg_pass_begin(&pass, &g, &u);
        for (uint64_t seq = 1; seq <= 10; seq++) {
            struct tg_candidate c = {.seq = seq, .slots = 1, .max_conc = TG_UNLIMITED};
            granted += tg_pass_next(&pass, &c).kind != TG_QUEUE;
        }
        CHECK_EQ(granted, 3); /* 0.9, 1.9, 2.9 */
        CHECK(tg_pass_exhausted(&pass, true));
    }
    struct tg_verdict v;
    struct tg_candidate c = {.seq = 1, .slots = 1, .max_conc = TG_UNLIMITED};
    u.load_milli = 2700;
    u.load_closed = true;
    CHECK_EQ(tg_gates_refuse(&g, &u, &c, &v), TG_WHY_LOAD);
    CHECK(v.have == 2700 && v.limit == 2625 && v.need == 3000);
    u.load_closed = false;
    CHECK_EQ(tg_gates_refuse(&g, &u, &c, &v), TG_WHY_NONE);
}

/* A machine that strangers keep busy: it is said that it is they, and load_least_slots lets so many in. */
static void o14_so_many_slots_whatever_the_load(void)
{
    struct tg_gates g = {
        .slots = 9, .overtake_bound = 16, .load_limit_milli = 2000, .budget_mb = TG_NO_BUDGET};
    struct tg_usage u = {.load_known = true, .mem_known = true, .load_milli = 5000};
    struct tg_candidate c = {.seq = 1, .slots = 1, .max_conc = TG_UNLIMITED};
    struct tg_verdict v = {0};
    CHECK_EQ(tg_gates_refuse(&g, &u, &c, &v), TG_WHY_LOAD);
    CHECK(v.by_others);
    u.slots_held = 3;
    CHECK_EQ(tg_gates_refuse(&g, &u, &c, &v), TG_WHY_LOAD);
    CHECK(v.by_others); /* 5.0 less 3.0 is still 2.0 */
    u.slots_held = 4;
    CHECK_EQ(tg_gates_refuse(&g, &u, &c, &v), TG_WHY_LOAD);
    CHECK(!v.by_others);
    u.slots_held = 0;
    g.load_least_slots = 2;
    for (int closed = 0; closed < 2; closed++) {
        struct tg_pass pass;
        int granted = 0;
        u.load_closed = closed;
        tg_pass_begin(&pass, &g, &u);
        for (uint64_t seq = 1; seq <= 10; seq++) {
            c.seq = seq;
            CHECK_EQ(tg_pass_exhausted(&pass, true), granted == 2);
            granted += tg_pass_next(&pass, &c).kind != TG_QUEUE;
        }
        CHECK_EQ(granted, 2);
    }
    c.slots = 0; /* it would never count */
    CHECK_EQ(tg_gates_refuse(&g, &u, &c, &v), TG_WHY_LOAD);
    c.slots = 1;
    u.load_known = false; /* S4 */
    CHECK_EQ(tg_gates_refuse(&g, &u, &c, &v), TG_WHY_LOAD_UNKNOWN);
    u.load_known = true;
    g.slots = 1;
    u.slots_held = 1;
    CHECK_EQ(tg_gates_refuse(&g, &u, &c, &v), TG_WHY_SLOTS);
}

static void m10_pressure_holds_back(void)
{
    struct tg_gates g = {.slots = 4, .load_limit_milli = TG_LOAD_OFF, .budget_mb = TG_NO_BUDGET};
    struct tg_usage u = {.mem_known = true, .mem_available_mb = 90000, .mem_total_mb = 100000};
    struct tg_candidate c = {.seq = 1, .slots = 1, .max_conc = TG_UNLIMITED};
    struct tg_verdict v;
    u.pressure_memory = 9000;
    u.pressure_cpu = 9000;
    u.pressure_unknown = true;
    CHECK_EQ(tg_gates_refuse(&g, &u, &c, &v), TG_WHY_NONE); /* no gate */
    g.pressure_memory = 2000;
    CHECK_EQ(tg_gates_refuse(&g, &u, &c, &v), TG_WHY_PRESSURE_UNKNOWN);
    u.pressure_unknown = false;
    CHECK_EQ(tg_gates_refuse(&g, &u, &c, &v), TG_WHY_PRESSURE_MEMORY);
    CHECK(v.have == 9000 && v.limit == 2000);
    u.pressure_memory = 1999;
    CHECK_EQ(tg_gates_refuse(&g, &u, &c, &v), TG_WHY_NONE);
    g.pressure_cpu = 5000;
    CHECK_EQ(tg_gates_refuse(&g, &u, &c, &v), TG_WHY_PRESSURE_CPU);
    CHECK(strcmp(tg_why_name(TG_WHY_PRESSURE_CPU), "pressure-cpu") == 0);
}

/* ---- a machine of a few cores on which jobs do nothing but compute */

#define JOBS 400

/* What is run, and what a look at such a machine counts besides the jobs: in percent, one, two, four more. A
 * build of short jobs keeps make, shells, wrappers and ends of processes busy a part of the time. */
struct build {
    unsigned cores;
    unsigned shortest_ms;
    unsigned spread_ms;
    unsigned one_more;
    unsigned two_more;
    unsigned four_more;
    unsigned tick_ms;
};

static const struct build long_jobs = {4, 100, 400, 20, 0, 0, 250};
static const struct build a_build = {2, 35, 40, 30, 15, 5, 100};

struct host {
    unsigned cores;
    unsigned running;
    uint64_t left[JOBS]; /* work in ms x cores, shared out when there are more than cores */
};

/* One ms of work. Returns how many have ended. */
static unsigned work(struct host *h)
{
    unsigned ended = 0;
    uint64_t share = h->running <= h->cores ? h->cores : (uint64_t)h->cores * h->cores / h->running;
    for (unsigned i = 0; i < h->running;) {
        if (h->left[i] <= share) {
            h->left[i] = h->left[--h->running];
            ended++;
        } else {
            h->left[i++] -= share;
        }
    }
    return ended;
}

static uint64_t noise(const struct build *b, uint64_t *seed)
{
    uint64_t n = check_random(seed) % 100;
    if (n < b->four_more)
        return 4000;
    if (n < b->four_more + b->two_more)
        return 2000;
    return n < b->four_more + b->two_more + b->one_more ? 1000 : 0;
}

/* How long 400 jobs take when at most `most` are let in by the gate, or a fixed number without it, beside
 * `others`, which compute all the time and are counted but take nothing away. */
static uint64_t makespan(const struct build *b, bool gate, unsigned most, uint64_t others, uint64_t seed,
                         unsigned *ret_peak)
{
    static struct host h;
    struct tg_load_watch w = {0};
    unsigned asked = 0, done = 0;
    uint64_t now = 0, next_tick = 0;
    uint64_t lengths = 42;
    uint64_t limit = b->cores * 1000;
    h.cores = b->cores;
    h.running = 0;
    *ret_peak = 0;
    tg_load_see(&w, 0, others);
    for (; done < JOBS; now++) {
        unsigned ended = work(&h);
        uint64_t count = (uint64_t)h.running * 1000 + others + noise(b, &seed);
        done += ended;
        bool tick = now >= next_tick;
        for (; gate && ended > 0; ended--) {
            tg_load_ended(&w, 1000, UINT64_MAX);
            tg_load_ended(&w, 0, count + 1000); /* counted at an event: whoever waits for it is awake, too */
            tick |= ended == 1;                 /* an event is followed by a decision as a tick is */
        }
        if (gate && now >= next_tick) {
            tg_load_see(&w, now, count);
            next_tick = now + b->tick_ms;
        }
        if (gate)
            tg_load_turn(&w, limit, tg_load_margin(limit));
        while (asked < JOBS && h.running < most && (!gate || (tick && !w.closed))) {
            h.left[h.running++] = b->cores * (b->shortest_ms + check_random(&lengths) % b->spread_ms);
            asked++;
            tg_load_granted(&w, now, 1000);
            tg_load_turn(&w, limit, tg_load_margin(limit));
        }
        *ret_peak = h.running > *ret_peak ? h.running : *ret_peak;
        CHECK(now < 10000000);
    }
    return now;
}

static void within_a_tenth(const char *what, const struct build *b)
{
    unsigned peak;
    uint64_t fixed = makespan(b, false, b->cores, 0, 1, &peak);
    uint64_t worst = 0;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        uint64_t gated = makespan(b, true, JOBS, 0, seed, &peak);
        worst = gated > worst ? gated : worst;
        CHECK(peak <= b->cores + 1); /* and the gate does hold */
    }
    fprintf(stderr, "  %s: fixed %" PRIu64 " ms, gated at most %" PRIu64 " ms\n", what, fixed, worst);
    CHECK(worst * 10 <= fixed * 11);
}

static void o14_throughput_is_that_of_a_fixed_number_of_jobs(void)
{
    within_a_tenth("long jobs", &long_jobs);
    within_a_tenth("a build", &a_build);
}

/* Whoever computes all the time takes room away, however noisy the counts are. */
static void o14_others_at_work_are_seen(void)
{
    unsigned peak;
    uint64_t alone = makespan(&a_build, false, 1, 0, 1, &peak);
    for (uint64_t seed = 1; seed <= 20; seed++) {
        uint64_t beside = makespan(&a_build, true, JOBS, 1000, seed, &peak);
        CHECK(beside * 10 > alone * 8);
        CHECK(beside * 10 < alone * 15);
    }
}

int main(void)
{
    RUN(o14_a_machine_that_has_just_become_idle_is_idle);
    RUN(o14_one_sample_decides_nothing);
    RUN(o14_grants_and_ends_count_at_once);
    RUN(o14_hysteresis);
    RUN(o14_one_pass_fills_up_to_the_limit);
    RUN(o14_so_many_slots_whatever_the_load);
    RUN(m10_pressure_holds_back);
    RUN(o14_throughput_is_that_of_a_fixed_number_of_jobs);
    RUN(o14_others_at_work_are_seen);
    return 0;
}
