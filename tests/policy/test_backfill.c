/* SPDX-License-Identifier: Apache-2.0
 * Rule A3 in the pass that decides: reservations by known run times (rows O1, O2), the overtaking bound
 * without them (S5), mixtures of both, and that a pass comes to an end (O8). Units and properties over the
 * pure functions. */
#include <tidegate/policy.h>

#include "check.h"

enum { ROOM = 64 };

static const struct tg_gates gates = {.slots = 4,
                                      .overtake_bound = TG_DEFAULT_OVERTAKE_BOUND,
                                      .load_limit_milli = TG_LOAD_OFF,
                                      .floor_mb = 0,
                                      .backfill_mb = TG_DEFAULT_BACKFILL_MB,
                                      .budget_mb = TG_NO_BUDGET};

static struct tg_candidate job(uint64_t seq, uint32_t slots, uint64_t est_mb, uint64_t time_ms)
{
    return (struct tg_candidate){
        .seq = seq, .slots = slots, .est_mb = est_mb, .time_ms = time_ms, .max_conc = TG_UNLIMITED};
}

/* Holders with known ends, and what they use. */
struct box {
    struct tg_release room[ROOM];
    struct tg_timeline running;
    struct tg_usage usage;
};

static void box_open(struct box *b)
{
    *b = (struct box){.running = {.entry = b->room, .cap = ROOM},
                      .usage = {.mem_known = true, .mem_available_mb = 10000, .mem_total_mb = 10000}};
}

/* end 0: nobody knows. */
static void box_hold(struct box *b, uint64_t slots, uint64_t est_mb, int64_t end)
{
    struct tg_amount a = {.of = {slots, est_mb}};
    b->usage.slots_held += slots;
    b->usage.reserved_mb += est_mb;
    b->usage.booked_mb += est_mb;
    if (end)
        CHECK_EQ(tg_timeline_add(&b->running, end, 1000, &a), 0);
}

static void box_pass(struct box *b, struct tg_pass *p, const struct tg_gates *g, int64_t now)
{
    tg_pass_begin(p, g, &b->usage);
    tg_pass_times(p, &b->running, now);
}

static void a3_who_ends_before_or_fits_beside_passes_in_any_number(void)
{
    struct box b;
    struct tg_pass p;
    box_open(&b);
    box_hold(&b, 1, 100, 5000);
    box_hold(&b, 1, 100, 9000);
    struct tg_candidate front = job(1, 3, 100, 0);
    front.overtaken = TG_DEFAULT_OVERTAKE_BOUND; /* closed for those without a known time */
    box_pass(&b, &p, &gates, 1000);
    struct tg_verdict v = tg_pass_next(&p, &front);
    CHECK(v.why == TG_WHY_SLOTS && v.start_known && v.start_in_ms == 4000);
    struct tg_candidate longer = job(2, 1, 100, 4001), unknown = job(3, 1, 100, 0), none = job(4, 0, 10, 0);
    v = tg_pass_next(&p, &longer);
    CHECK(v.why == TG_WHY_RESERVED && v.blocker == 1 && v.need == 4001 && v.have == 4000);
    v = tg_pass_next(&p, &unknown);
    CHECK(v.why == TG_WHY_RESERVED && v.need == 0);
    CHECK_EQ(tg_pass_next(&p, &none).kind, TG_GRANT_BACKFILL); /* beside: it takes no slot */
    for (uint64_t i = 0; i < 2; i++) {
        struct tg_candidate brief = job(10 + i, 1, 100, 4000);
        v = tg_pass_next(&p, &brief);
        CHECK(v.kind == TG_GRANT_BACKFILL && !v.overtakes);
    }
    struct tg_candidate late = job(20, 1, 100, 1);
    CHECK_EQ(tg_pass_next(&p, &late).why, TG_WHY_SLOTS);
}

static void a3_memory_is_reserved_like_slots(void)
{
    struct box b;
    struct tg_pass p;
    box_open(&b);
    box_hold(&b, 1, 7000, 2000);
    struct tg_candidate big = job(1, 1, 5000, 0), fits = job(2, 1, 3000, 0), too_much = job(3, 1, 2500, 0);
    box_pass(&b, &p, &gates, 0);
    struct tg_verdict v = tg_pass_next(&p, &big);
    CHECK(v.why == TG_WHY_MEMORY && v.start_known && v.start_in_ms == 2000);
    CHECK_EQ(tg_pass_next(&p, &fits).kind, TG_GRANT_BACKFILL); /* of the 5000 beside the front at 2000 */
    CHECK_EQ(tg_pass_next(&p, &too_much).why, TG_WHY_MEMORY);
    struct tg_gates budget = gates;
    budget.budget_mb = 8000; /* the tighter one counts: 1000 free, 3000 beside the front at 2000 */
    box_pass(&b, &p, &budget, 0);
    v = tg_pass_next(&p, &big);
    CHECK(v.why == TG_WHY_BUDGET || v.why == TG_WHY_MEMORY);
    CHECK(v.start_known && p.front.beside.of[TG_RES_MEMORY] == 3000);
    struct tg_gates lowered = gates;
    lowered.budget_mb = 6000; /* 1000 more are booked than allowed now: they come off what the end frees */
    box_pass(&b, &p, &lowered, 0);
    CHECK(tg_pass_next(&p, &big).start_known);
    CHECK_EQ(p.front.beside.of[TG_RES_MEMORY], 1000);
}

static void a3_a_grant_of_the_same_pass_ends_too(void)
{
    struct box b;
    struct tg_pass p;
    box_open(&b);
    struct tg_candidate first = job(1, 3, 0, 700), front = job(2, 4, 0, 0);
    box_pass(&b, &p, &gates, 100);
    CHECK_EQ(tg_pass_next(&p, &first).kind, TG_GRANT_ORDERED);
    struct tg_verdict v = tg_pass_next(&p, &front);
    CHECK(v.start_known && v.start_in_ms == 700);
    first.time_ms = 0;
    b.running.n = 0;
    box_pass(&b, &p, &gates, 100);
    CHECK_EQ(tg_pass_next(&p, &first).kind, TG_GRANT_ORDERED);
    CHECK(!tg_pass_next(&p, &front).start_known);
    first.time_ms = 700; /* no room for its end: as if nobody knew it */
    b.running.cap = 0;
    box_pass(&b, &p, &gates, 100);
    CHECK_EQ(tg_pass_next(&p, &first).kind, TG_GRANT_ORDERED);
    CHECK(!tg_pass_next(&p, &front).start_known);
}

/* Also of a holder that runs longer than it said: the caller leaves it out. */
static void a3_unknown_ends_leave_it_to_the_bound(void)
{
    struct box b;
    struct tg_pass p;
    box_open(&b);
    box_hold(&b, 3, 0, 0);
    struct tg_candidate front = job(1, 2, 0, 0);
    uint32_t passed = 0;
    for (uint64_t i = 0; i < 30; i++) {
        struct tg_candidate brief = job(2 + i, 1, 0, 1);
        box_pass(&b, &p, &gates, 0);
        CHECK(!tg_pass_next(&p, &front).start_known);
        struct tg_verdict v = tg_pass_next(&p, &brief);
        passed += v.overtakes;
        front.overtaken += v.overtakes;
        CHECK(v.kind == TG_GRANT_BACKFILL || v.why == TG_WHY_GATE_CLOSED);
    }
    CHECK_EQ(passed, TG_DEFAULT_OVERTAKE_BOUND);
    box_hold(&b, 1, 0, 60); /* the other's end is known, and enough for who needs one slot */
    struct tg_candidate one = job(1, 1, 0, 0);
    box_pass(&b, &p, &gates, 0);
    CHECK(tg_pass_next(&p, &one).start_known);
}

static void a3_no_reservation_for_what_no_end_frees(void)
{
    struct box b;
    struct tg_pass p;
    box_open(&b);
    box_hold(&b, 1, 0, 500);
    struct tg_gates paused = gates;
    paused.slots = 0;
    struct tg_candidate any = job(1, 1, 0, 0), capped = job(2, 1, 7000, 0);
    box_pass(&b, &p, &paused, 0);
    CHECK(!tg_pass_next(&p, &any).start_known);
    capped.max_conc = 1;
    b.usage.heavy_holders = 1;
    box_pass(&b, &p, &gates, 0);
    struct tg_verdict v = tg_pass_next(&p, &capped);
    CHECK(v.why == TG_WHY_MAX_CONC && !v.start_known);
    b.usage.mem_known = false;
    box_pass(&b, &p, &gates, 0);
    CHECK(!tg_pass_next(&p, &any).start_known);
}

/* ---- a machine in virtual time */

enum { JOBS = 60 };

struct life {
    struct tg_candidate c;
    int64_t arrives, starts, ends; /* starts -1: waits; ends: when it really does */
    int64_t promised;              /* the first reservation it got, -1: none */
    bool over;
};

struct world {
    struct life life[JOBS];
    int order[JOBS]; /* by priority, then arrival */
    struct tg_gates gates;
    uint64_t memory_mb;
    bool early; /* jobs may end before their time */
};

static void world_make(struct world *w, uint64_t *seed, bool prios, unsigned known_of_4)
{
    int64_t t = 0;
    w->gates = gates;
    w->gates.slots = 8;
    w->gates.overtake_bound = (uint32_t)(check_random(seed) % 6);
    w->gates.backfill_mb = check_random(seed) % 2 ? 10000 : check_random(seed) % 1000;
    w->memory_mb = 1000;
    for (int k = 0; k < JOBS; k++) {
        struct life *l = &w->life[k];
        t += (int64_t)(check_random(seed) % 12);
        uint64_t run = 1 + check_random(seed) % (check_random(seed) % 4 ? 20 : 120);
        *l = (struct life){.arrives = t, .starts = -1, .promised = -1};
        l->c = job((uint64_t)k + 1, (uint32_t)(check_random(seed) % 9), check_random(seed) % 1001,
                   check_random(seed) % 4 < known_of_4 ? run : 0);
        l->c.prio = prios ? (int64_t)(check_random(seed) % 3) : 2;
        l->ends = (int64_t)(check_random(seed) % 2 ? run : 1 + check_random(seed) % run); /* how long, yet */
        int to = k;
        for (; to > 0; to--) {
            const struct tg_candidate *before = &w->life[w->order[to - 1]].c;
            if (tg_rank_compare(before->prio, before->seq, l->c.prio, l->c.seq) < 0)
                break;
            w->order[to] = w->order[to - 1];
        }
        w->order[to] = k;
    }
}

/* What is in use. A job grows to its estimate half way. */
static struct tg_usage world_usage(const struct world *w, int64_t now, struct tg_timeline *running)
{
    struct tg_usage u = {.mem_known = true, .mem_available_mb = w->memory_mb, .mem_total_mb = w->memory_mb};
    for (int k = 0; k < JOBS; k++) {
        const struct life *l = &w->life[k];
        if (l->starts < 0 || l->over)
            continue;
        bool grown = now - l->starts > (l->ends - l->starts) / 2;
        u.slots_held += l->c.slots;
        u.booked_mb += l->c.est_mb;
        u.reserved_mb += grown ? 0 : l->c.est_mb;
        u.mem_available_mb -= grown ? l->c.est_mb : 0;
        u.heavy_holders += l->c.est_mb > w->gates.backfill_mb;
        struct tg_amount a = {.of = {l->c.slots, l->c.est_mb}};
        if (l->c.time_ms)
            CHECK_EQ(tg_timeline_add(running, l->starts + (int64_t)l->c.time_ms, l->c.seq, &a), 0);
    }
    CHECK(u.slots_held <= w->gates.slots && u.booked_mb <= w->memory_mb); /* A2 */
    return u;
}

static void world_pass(struct world *w, int64_t now)
{
    struct tg_release room[JOBS];
    struct tg_timeline running = {.entry = room, .cap = JOBS};
    struct tg_usage u = world_usage(w, now, &running);
    struct tg_pass p;
    struct life *front = NULL;
    tg_pass_begin(&p, &w->gates, &u);
    tg_pass_times(&p, &running, now);
    for (int k = 0; k < JOBS; k++) {
        struct life *l = &w->life[w->order[k]];
        if (l->arrives > now || l->starts >= 0)
            continue;
        struct tg_verdict v = tg_pass_next(&p, &l->c);
        if (!front && p.has_front) {
            front = l;
            CHECK_EQ(p.front_seq, l->c.seq);
            if (v.start_known && l->promised < 0)
                l->promised = now + (int64_t)v.start_in_ms;
        }
        if (v.kind == TG_QUEUE)
            continue;
        CHECK(!v.overtakes || (front && !p.front_known));
        if (v.overtakes)
            CHECK(++front->c.overtaken <= w->gates.overtake_bound);
        l->starts = now;
        l->ends += now;
    }
}

static void world_run(struct world *w)
{
    int left = JOBS;
    for (int64_t now = 0; left > 0; now++) {
        CHECK(now < 100000);
        for (int k = 0; k < JOBS; k++)
            if (w->life[k].starts >= 0 && !w->life[k].over && w->life[k].ends <= now) {
                w->life[k].over = true;
                left--;
            }
        world_pass(w, now);
    }
}

/* O1, O2: whatever comes, of the same priority or lower ones, known or not, the front of the highest priority
 * starts by the first reservation it got; nothing is ever oversubscribed, nobody is passed by more than the
 * bound allows, and everybody starts. */
static void o1_o2_no_mixture_delays_the_front(void)
{
    uint64_t seed = 5;
    unsigned promises = 0;
    for (int round = 0; round < 600; round++) {
        struct world w;
        world_make(&w, &seed, round % 3 == 0, 1 + (unsigned)round % 4);
        world_run(&w);
        for (int k = 0; k < JOBS; k++) {
            const struct life *l = &w.life[k];
            promises += l->promised >= 0;
            CHECK(l->c.prio < 2 || l->promised < 0 || l->starts <= l->promised);
        }
    }
    CHECK(promises > 1000); /* the test tests something */
}

static void s5_without_times_the_bound_holds(void)
{
    uint64_t seed = 17;
    for (int round = 0; round < 200; round++) {
        struct world w;
        world_make(&w, &seed, round % 2 == 0, 0);
        world_run(&w);
        for (int k = 0; k < JOBS; k++)
            CHECK_EQ(w.life[k].promised, -1);
    }
}

/* O8: asked again, with what it has granted booked and nothing else changed, the policy grants nothing more
 * and takes nothing back (it has no verdict for that: O7). */
static void o8_a_pass_is_a_fixed_point(void)
{
    uint64_t seed = 23;
    for (int round = 0; round < 100000; round++) {
        struct tg_gates g = gates;
        struct box b;
        struct tg_pass p;
        struct tg_candidate q[8];
        g.slots = (uint32_t)(check_random(&seed) % 9);
        g.overtake_bound = (uint32_t)(check_random(&seed) % 4);
        g.backfill_mb = check_random(&seed) % 4000;
        g.strict = check_random(&seed) % 8 == 0;
        box_open(&b);
        b.usage.heavy_holders = check_random(&seed) % 2;
        for (uint64_t i = check_random(&seed) % 4; i > 0; i--)
            box_hold(&b, check_random(&seed) % 3, check_random(&seed) % 4000,
                     (int64_t)(check_random(&seed) % 9));
        for (uint64_t i = 0; i < 8; i++) {
            q[i] = job(i + 1, (uint32_t)(check_random(&seed) % 4), check_random(&seed) % 5000,
                       check_random(&seed) % 12);
            q[i].overtaken = (uint32_t)(check_random(&seed) % 4);
            q[i].max_conc = check_random(&seed) % 3 ? TG_UNLIMITED : 1 + (uint32_t)(check_random(&seed) % 3);
        }
        struct tg_release room[ROOM];
        struct tg_timeline scratch = {.entry = room, .n = b.running.n, .cap = ROOM};
        memcpy(room, b.room, sizeof(room));
        tg_pass_begin(&p, &g, &b.usage);
        tg_pass_times(&p, &scratch, 0);
        bool granted[8] = {false};
        for (int i = 0; i < 8; i++) {
            struct tg_verdict v = tg_pass_next(&p, &q[i]);
            granted[i] = v.kind != TG_QUEUE;
            if (granted[i] && q[i].time_ms)
                CHECK_EQ(tg_timeline_add(&b.running, (int64_t)q[i].time_ms, q[i].seq,
                                         &(struct tg_amount){.of = {q[i].slots, q[i].est_mb}}),
                         0);
        }
        for (int i = 0; i < 8; i++)
            if (q[i].seq == p.front_seq)
                q[i].overtaken = p.front_overtaken;
        b.usage = p.usage;
        box_pass(&b, &p, &g, 0);
        for (int i = 0; i < 8; i++)
            CHECK(granted[i] || tg_pass_next(&p, &q[i]).kind == TG_QUEUE);
    }
}

int main(void)
{
    RUN(a3_who_ends_before_or_fits_beside_passes_in_any_number);
    RUN(a3_memory_is_reserved_like_slots);
    RUN(a3_a_grant_of_the_same_pass_ends_too);
    RUN(a3_unknown_ends_leave_it_to_the_bound);
    RUN(a3_no_reservation_for_what_no_end_frees);
    RUN(o1_o2_no_mixture_delays_the_front);
    RUN(s5_without_times_the_bound_holds);
    RUN(o8_a_pass_is_a_fixed_point);
    return 0;
}
