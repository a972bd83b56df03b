/* SPDX-License-Identifier: Apache-2.0
 * Rules A2, A3, A10 as unit and property tests over the pure functions (also rows S5, S6, S9, O4, O5). */
#include <tidegate/policy.h>

#include "check.h"

static const struct tg_gates gates = {.slots = 4,
                                      .overtake_bound = TG_DEFAULT_OVERTAKE_BOUND,
                                      .load_limit_milli = 4000,
                                      .floor_mb = TG_DEFAULT_FLOOR_MB,
                                      .backfill_mb = TG_DEFAULT_BACKFILL_MB,
                                      .budget_mb = TG_NO_BUDGET};

static struct tg_usage idle(void)
{
    struct tg_usage u = {
        .load_known = true, .mem_known = true, .mem_available_mb = 16384, .mem_total_mb = 24000};
    return u;
}

static struct tg_candidate job(uint64_t seq, uint64_t est_mb)
{
    struct tg_candidate c = {.seq = seq, .est_mb = est_mb, .slots = 1, .max_conc = TG_UNLIMITED};
    return c;
}

static void a2_each_gate_refuses_by_name(void)
{
    struct tg_verdict v = {0};
    struct tg_candidate j = job(1, 1000);
    struct tg_usage u = idle();
    CHECK_EQ(tg_gates_refuse(&gates, &u, &j, &v), TG_WHY_NONE);
    u.slots_held = 4;
    CHECK_EQ(tg_gates_refuse(&gates, &u, &j, &v), TG_WHY_SLOTS);
    CHECK(v.need == 1 && v.have == 4 && v.limit == 4);
    u = idle();
    u.load_milli = 4000;
    CHECK_EQ(tg_gates_refuse(&gates, &u, &j, &v), TG_WHY_LOAD);
    u.load_milli = 3999;
    CHECK_EQ(tg_gates_refuse(&gates, &u, &j, &v), TG_WHY_NONE);
    u.reserved_mb = 16384 - 2048 - 999;
    CHECK_EQ(tg_gates_refuse(&gates, &u, &j, &v), TG_WHY_MEMORY);
    CHECK(v.need == 1000 && v.have == 999);
    u.reserved_mb--;
    CHECK_EQ(tg_gates_refuse(&gates, &u, &j, &v), TG_WHY_NONE);
    j.est_mb = UINT64_MAX; /* N4: nothing wraps */
    CHECK_EQ(tg_gates_refuse(&gates, &u, &j, &v), TG_WHY_MEMORY);
    u.mem_available_mb = 2047; /* below the floor nobody starts, not even an estimate of 0 */
    u.reserved_mb = 0;
    j.est_mb = 0;
    CHECK_EQ(tg_gates_refuse(&gates, &u, &j, &v), TG_WHY_MEMORY);
}

static void a10_budget_caps_the_estimates_of_all_holders(void)
{
    struct tg_gates g = gates;
    g.budget_mb = 1000;
    struct tg_usage u = idle();
    struct tg_verdict v = {0};
    struct tg_candidate j = job(1, 400);
    u.booked_mb = 600; /* grown into or not: reserved_mb is 0 here */
    CHECK_EQ(tg_gates_refuse(&g, &u, &j, &v), TG_WHY_NONE);
    u.booked_mb = 601;
    CHECK_EQ(tg_gates_refuse(&g, &u, &j, &v), TG_WHY_BUDGET);
    CHECK(v.need == 400 && v.have == 601 && v.limit == 1000);
    j.est_mb = 1001;
    CHECK_EQ(tg_never_fits(&g, &u, &j, &v), TG_WHY_NEVER_FITS_BUDGET);
    CHECK(v.need == 1001 && v.limit == 1000);
    /* When it is too large for both, the tighter is named. */
    j.est_mb = UINT64_MAX;
    CHECK_EQ(tg_never_fits(&g, &u, &j, &v), TG_WHY_NEVER_FITS_BUDGET);
    u.mem_total_mb = g.floor_mb + 999;
    CHECK_EQ(tg_never_fits(&g, &u, &j, &v), TG_WHY_NEVER_FITS_MEMORY);
    CHECK_EQ(v.limit, 999);
}

static void s4_unknown_telemetry_refuses(void)
{
    struct tg_verdict v = {0};
    struct tg_candidate j = job(1, 0);
    struct tg_usage u = idle();
    u.load_known = false;
    CHECK_EQ(tg_gates_refuse(&gates, &u, &j, &v), TG_WHY_LOAD_UNKNOWN);
    struct tg_gates off = gates;
    off.load_limit_milli = TG_LOAD_OFF;
    CHECK_EQ(tg_gates_refuse(&off, &u, &j, &v), TG_WHY_NONE);
    u.mem_known = false;
    CHECK_EQ(tg_gates_refuse(&off, &u, &j, &v), TG_WHY_MEMORY_UNKNOWN);
}

static void s6_two_grants_of_a_pass_do_not_share_room(void)
{
    struct tg_gates g = gates;
    g.slots = 100;
    struct tg_usage u = idle();
    struct tg_pass p;
    tg_pass_begin(&p, &g, &u);
    int n = 0;
    for (uint64_t i = 1; i <= 10; i++) {
        struct tg_candidate j = job(i, 4096);
        n += tg_pass_next(&p, &j).kind != TG_QUEUE;
    }
    CHECK_EQ(n, 3); /* (16384 - 2048) / 4096 */
}

static void a3_small_passes_a_blocked_front_sixteen_times(void)
{
    struct tg_usage u = idle();
    u.reserved_mb = 8000; /* a big holder; 6336 MB are free */
    u.slots_held = 1;
    u.heavy_holders = 1;
    struct tg_candidate big = job(1, 9000);
    int grants = 0;
    for (uint64_t i = 0; i < 40; i++) { /* each small one comes, runs and ends: S5's endless stream */
        struct tg_pass p;
        tg_pass_begin(&p, &gates, &u);
        struct tg_verdict v = tg_pass_next(&p, &big);
        CHECK(v.kind == TG_QUEUE && v.why == TG_WHY_MEMORY);
        struct tg_candidate small = job(2 + i, 100);
        v = tg_pass_next(&p, &small);
        if (v.kind == TG_GRANT_BACKFILL) {
            CHECK(v.overtakes);
            CHECK_EQ(p.front_seq, 1);
            big.overtaken++;
            grants++;
        } else {
            CHECK_EQ(v.why, TG_WHY_GATE_CLOSED);
            CHECK_EQ(v.blocker, 1);
        }
    }
    CHECK_EQ(grants, TG_DEFAULT_OVERTAKE_BOUND);
    u.reserved_mb = 0; /* the holder ends: the front starts, the gate opens */
    struct tg_pass p;
    tg_pass_begin(&p, &gates, &u);
    CHECK_EQ(tg_pass_next(&p, &big).kind, TG_GRANT_ORDERED);
    struct tg_candidate small = job(99, 100);
    CHECK_EQ(tg_pass_next(&p, &small).kind, TG_GRANT_ORDERED);
}

static void a3_heavy_never_passes(void)
{
    struct tg_usage u = idle();
    u.reserved_mb = 6000;
    struct tg_pass p;
    tg_pass_begin(&p, &gates, &u);
    struct tg_candidate big = job(1, 9000), heavy = job(2, 6001), small = job(3, 6000);
    CHECK_EQ(tg_pass_next(&p, &big).why, TG_WHY_MEMORY);
    struct tg_verdict v = tg_pass_next(&p, &heavy);
    CHECK(v.kind == TG_QUEUE && v.why == TG_WHY_ORDER && v.blocker == 1);
    CHECK_EQ(tg_pass_next(&p, &small).kind, TG_GRANT_BACKFILL);
}

static void a3_free_of_the_front_resource_passes_uncounted(void)
{
    struct tg_usage u = idle();
    u.reserved_mb = 10000;
    struct tg_candidate big = job(1, 9000), light = job(2, 0);
    big.overtaken = TG_DEFAULT_OVERTAKE_BOUND; /* the gate is closed for whoever needs memory */
    struct tg_pass p;
    tg_pass_begin(&p, &gates, &u);
    tg_pass_next(&p, &big);
    struct tg_verdict v = tg_pass_next(&p, &light);
    CHECK(v.kind == TG_GRANT_BACKFILL && !v.overtakes);
    u.slots_held = 3; /* but never on the last slot, which the front will need */
    tg_pass_begin(&p, &gates, &u);
    tg_pass_next(&p, &big);
    CHECK_EQ(tg_pass_next(&p, &light).why, TG_WHY_GATE_CLOSED);
}

/* O5: slots and memory are counted apart; who needs none of what is short is not held up, however large. */
static void o5_blocked_on_slots_lets_pass_who_takes_none(void)
{
    struct tg_usage u = idle();
    u.slots_held = 4;
    struct tg_candidate wide = job(1, 4000), none = job(2, 9000), hungry = job(3, 5000);
    wide.overtaken = TG_DEFAULT_OVERTAKE_BOUND;
    none.slots = hungry.slots = 0;
    struct tg_pass p;
    tg_pass_begin(&p, &gates, &u); /* 14336 MB are free */
    CHECK_EQ(tg_pass_next(&p, &wide).why, TG_WHY_SLOTS);
    struct tg_verdict v = tg_pass_next(&p, &none); /* heavy, but it leaves the front its 4000 MB */
    CHECK(v.kind == TG_GRANT_BACKFILL && !v.overtakes);
    CHECK_EQ(tg_pass_next(&p, &hungry).why, TG_WHY_GATE_CLOSED); /* it fits, and would take from those */
}

static void strict_lets_nobody_pass(void)
{
    struct tg_usage u = idle();
    u.reserved_mb = 8000;
    struct tg_candidate big = job(1, 9000), small = job(2, 100), self = job(3, 7000);
    struct tg_gates strict = gates;
    strict.strict = true;
    struct tg_pass p;
    tg_pass_begin(&p, &strict, &u);
    tg_pass_next(&p, &big);
    CHECK(tg_pass_exhausted(&p, true));
    struct tg_verdict v = tg_pass_next(&p, &small);
    CHECK(v.why == TG_WHY_ORDER && v.blocker == 1);
    small.strict = true; /* its own wish concerns itself alone */
    struct tg_candidate other = job(4, 100);
    tg_pass_begin(&p, &gates, &u);
    tg_pass_next(&p, &big);
    CHECK_EQ(tg_pass_next(&p, &small).why, TG_WHY_ORDER);
    CHECK_EQ(tg_pass_next(&p, &other).kind, TG_GRANT_BACKFILL);
    u = idle();
    u.heavy_holders = 1;
    self.max_conc = 1;
    tg_pass_begin(&p, &gates, &u);
    CHECK_EQ(tg_pass_next(&p, &self).why, TG_WHY_MAX_CONC);
    v = tg_pass_next(&p, &small);
    CHECK(v.why == TG_WHY_ORDER && v.blocker == 3);
}

static void a10_max_conc_counts_heavy_holders_and_waiters_ahead(void)
{
    struct tg_gates g = gates;
    g.slots = 8;
    struct tg_usage u = idle();
    u.heavy_holders = 1;
    u.slots_held = 1;
    struct tg_candidate strict = job(1, 7000), loose = job(2, 7000), small = job(3, 100);
    strict.max_conc = 1;
    loose.max_conc = 8; /* S9: caps 1 and 8 side by side */
    small.max_conc = 1;
    struct tg_pass p;
    tg_pass_begin(&p, &g, &u);
    struct tg_verdict v = tg_pass_next(&p, &strict);
    CHECK(v.why == TG_WHY_MAX_CONC && v.have == 1 && v.limit == 1);
    v = tg_pass_next(&p, &loose);
    CHECK(v.kind == TG_GRANT_ORDERED && v.overtakes);
    CHECK_EQ(tg_pass_next(&p, &small).kind, TG_GRANT_BACKFILL);
    struct tg_candidate two = job(4, 7000);
    two.max_conc = 2; /* 1 waiter ahead + 2 heavy holders */
    CHECK_EQ(tg_pass_next(&p, &two).why, TG_WHY_MAX_CONC);
}

static void never_fits_blocks_nobody(void)
{
    struct tg_usage u = idle();
    struct tg_pass p;
    tg_pass_begin(&p, &gates, &u);
    struct tg_candidate huge = job(1, 30000), wide = job(2, 1), heavy = job(3, 7000);
    wide.slots = 5;
    CHECK_EQ(tg_pass_next(&p, &huge).why, TG_WHY_NEVER_FITS_MEMORY);
    CHECK_EQ(tg_pass_next(&p, &wide).why, TG_WHY_NEVER_FITS_SLOTS);
    CHECK_EQ(tg_pass_next(&p, &heavy).kind, TG_GRANT_ORDERED);
    struct tg_gates paused = gates;
    paused.slots = 0;
    tg_pass_begin(&p, &paused, &u);
    CHECK_EQ(tg_pass_next(&p, &heavy).why, TG_WHY_SLOTS);
}

static void o4_one_pass_reaches_the_one_that_fits(void)
{
    struct tg_usage u = idle();
    u.reserved_mb = 8000;
    struct tg_pass p;
    tg_pass_begin(&p, &gates, &u);
    for (uint64_t i = 1; i <= 100; i++) {
        struct tg_candidate unfit = job(i, 9000);
        CHECK_EQ(tg_pass_next(&p, &unfit).kind, TG_QUEUE);
    }
    struct tg_candidate fit = job(101, 500);
    CHECK_EQ(tg_pass_next(&p, &fit).kind, TG_GRANT_BACKFILL);
}

/* Whatever the queue, a pass never books more than the gates allow, an exhausted pass grants nothing more,
 * and the front is never passed beyond the bound. */
static void property_random_queues_never_oversubscribe(void)
{
    uint64_t seed = 7;
    for (int round = 0; round < 20000; round++) {
        struct tg_gates g = {.slots = (uint32_t)(check_random(&seed) % 9),
                             .overtake_bound = (uint32_t)(check_random(&seed) % 20),
                             .load_limit_milli = check_random(&seed) % 3 ? TG_LOAD_OFF : 2000,
                             .floor_mb = check_random(&seed) % 4096,
                             .backfill_mb = check_random(&seed) % 8000,
                             .budget_mb =
                                 check_random(&seed) % 2 ? TG_NO_BUDGET : check_random(&seed) % 9000};
        struct tg_usage u = {.slots_held = check_random(&seed) % 9,
                             .heavy_holders = check_random(&seed) % 3,
                             .reserved_mb = check_random(&seed) % 9000,
                             .load_milli = check_random(&seed) % 3000,
                             .mem_available_mb = check_random(&seed) % 24000,
                             .mem_total_mb = 24000,
                             .load_known = check_random(&seed) % 8 != 0,
                             .mem_known = check_random(&seed) % 8 != 0};
        struct tg_pass p;
        tg_pass_begin(&p, &g, &u);
        uint32_t front_overtaken = 0;
        for (uint64_t i = 1; i <= 30; i++) {
            struct tg_candidate w = {
                .seq = i,
                .est_mb = check_random(&seed) % 12000,
                .slots = (uint32_t)(check_random(&seed) % 4),
                .max_conc = check_random(&seed) % 2 ? TG_UNLIMITED : (uint32_t)(check_random(&seed) % 5),
                .overtaken = (uint32_t)(check_random(&seed) % 20)};
            bool had_front = p.has_front, exhausted = tg_pass_exhausted(&p, true);
            struct tg_verdict v = tg_pass_next(&p, &w);
            if (!had_front && p.has_front)
                front_overtaken = w.overtaken;
            if (v.kind == TG_QUEUE) {
                CHECK(v.why != TG_WHY_NONE);
                continue;
            }
            CHECK(!exhausted && u.mem_known);
            CHECK(g.load_limit_milli == TG_LOAD_OFF || (u.load_known && u.load_milli < g.load_limit_milli));
            CHECK(w.slots == 0 || p.usage.slots_held <= g.slots);
            CHECK(p.usage.reserved_mb + g.floor_mb <= u.mem_available_mb);
            CHECK(p.usage.booked_mb <= g.budget_mb);
            if (v.overtakes)
                CHECK(++front_overtaken <= g.overtake_bound);
        }
    }
}

int main(void)
{
    RUN(a2_each_gate_refuses_by_name);
    RUN(a10_budget_caps_the_estimates_of_all_holders);
    RUN(s4_unknown_telemetry_refuses);
    RUN(s6_two_grants_of_a_pass_do_not_share_room);
    RUN(a3_small_passes_a_blocked_front_sixteen_times);
    RUN(a3_heavy_never_passes);
    RUN(a3_free_of_the_front_resource_passes_uncounted);
    RUN(o5_blocked_on_slots_lets_pass_who_takes_none);
    RUN(strict_lets_nobody_pass);
    RUN(a10_max_conc_counts_heavy_holders_and_waiters_ahead);
    RUN(never_fits_blocks_nobody);
    RUN(o4_one_pass_reaches_the_one_that_fits);
    RUN(property_random_queues_never_oversubscribe);
    return 0;
}
