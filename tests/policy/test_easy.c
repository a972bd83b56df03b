/* SPDX-License-Identifier: Apache-2.0
 * Rule A3 with known run times (rows O1, O2) and the policy `tidegate`, as unit and property tests over the
 * pure functions, with two resources. */
#include <tidegate/easy.h>

#include <errno.h>

#include "check.h"

enum { MAX_RUNNING = 64 };

static struct tg_amount amount(uint64_t slots, uint64_t mb)
{
    return (struct tg_amount){.of = {slots, mb}};
}

struct machine {
    struct tg_release room[MAX_RUNNING];
    struct tg_timeline running;
    struct tg_amount capacity, free;
};

static void open_machine(struct machine *m, uint64_t slots, uint64_t mb)
{
    m->running = (struct tg_timeline){.entry = m->room, .n = 0, .cap = MAX_RUNNING};
    m->capacity = m->free = amount(slots, mb);
}

static void run_job(struct machine *m, int64_t end, uint64_t id, struct tg_amount need)
{
    CHECK(tg_amount_fits(&need, &m->free));
    CHECK_EQ(tg_timeline_add(&m->running, end, id, &need), 0);
    tg_amount_sub(&m->free, &need);
}

/* Gives back what ends by now; returns how many jobs did. */
static int end_jobs(struct machine *m, int64_t now)
{
    int n = 0;
    while (m->running.n > 0 && m->running.entry[0].end <= now) {
        struct tg_release r = m->running.entry[0];
        tg_amount_add(&m->free, &r.amount);
        CHECK_EQ(tg_timeline_remove(&m->running, r.end, r.id), 0);
        n++;
    }
    return n;
}

static void timeline_is_sorted_and_bounded(void)
{
    struct tg_release room[3];
    struct tg_timeline tl = {.entry = room, .cap = 3};
    struct tg_amount a = amount(1, 10);
    CHECK_EQ(tg_timeline_add(&tl, 30, 1, &a), 0);
    CHECK_EQ(tg_timeline_add(&tl, 10, 2, &a), 0);
    CHECK_EQ(tg_timeline_add(&tl, 30, 3, &a), 0);
    CHECK_EQ(tg_timeline_add(&tl, 40, 4, &a), -ENOSPC);
    CHECK(room[0].id == 2 && room[1].id == 1 && room[2].id == 3);
    CHECK_EQ(tg_timeline_remove(&tl, 30, 9), -ENOENT);
    CHECK_EQ(tg_timeline_remove(&tl, 20, 1), -ENOENT);
    CHECK_EQ(tg_timeline_remove(&tl, 30, 3), 0);
    CHECK_EQ(tg_timeline_remove(&tl, 10, 2), 0);
    CHECK(tl.n == 1 && room[0].id == 1);
}

static void a3_reservation_counts_all_ends_of_its_instant(void)
{
    struct machine m;
    open_machine(&m, 8, 8000);
    run_job(&m, 50, 1, amount(3, 1000));
    run_job(&m, 20, 2, amount(2, 4000));
    run_job(&m, 50, 3, amount(2, 1000));
    struct tg_reservation r;
    struct tg_amount need = amount(1, 100);
    CHECK_EQ(tg_easy_reserve(&m.running, &m.free, &need, 0, 0, &r), 0);
    CHECK(r.start == 0 && r.beside.of[0] == 0 && r.beside.of[1] == 1900);
    need = amount(5, 100); /* 1 free, 3 at 20, all at 50 */
    CHECK_EQ(tg_easy_reserve(&m.running, &m.free, &need, 0, 0, &r), 0);
    CHECK(r.start == 50 && r.beside.of[0] == 3 && r.beside.of[1] == 7900);
    need = amount(1, 5000); /* memory is what it lacks */
    CHECK_EQ(tg_easy_reserve(&m.running, &m.free, &need, 0, 0, &r), 0);
    CHECK(r.start == 20 && r.beside.of[0] == 2 && r.beside.of[1] == 1000);
    CHECK_EQ(tg_easy_reserve(&m.running, &m.free, &need, 0, 35, &r), 0); /* not before 35 */
    CHECK(r.start == 35 && r.beside.of[0] == 2);
    CHECK_EQ(tg_easy_reserve(&m.running, &m.free, &need, 25, 0, &r), 0); /* overdue: it ends any moment */
    CHECK_EQ(r.start, 25);
}

static void a3_unknown_ends_give_no_reservation(void)
{
    struct machine m;
    open_machine(&m, 4, 4000);
    run_job(&m, TG_NEVER, 1, amount(2, 0));
    run_job(&m, 10, 2, amount(2, 0));
    struct tg_reservation r = {.start = -7};
    struct tg_amount two = amount(2, 0), three = amount(3, 0), five = amount(5, 0);
    CHECK_EQ(tg_easy_reserve(&m.running, &m.free, &three, 0, 0, &r), -ENODATA);
    CHECK_EQ(r.start, -7);
    CHECK_EQ(tg_easy_reserve(&m.running, &m.free, &two, 0, 0, &r), 0);
    CHECK_EQ(r.start, 10);
    m.running.n = 0;
    m.free = m.capacity;
    CHECK_EQ(tg_easy_reserve(&m.running, &m.free, &five, 0, 0, &r), -ENODATA);
}

static void a3_before_or_beside_or_not(void)
{
    struct tg_reservation r = {.start = 100, .beside = {.of = {2, 500}}};
    struct tg_amount small = amount(1, 100), wide = amount(3, 100), fat = amount(1, 501);
    CHECK_EQ(tg_easy_may_pass(&r, 40, &wide, 60), TG_EASY_BEFORE);
    CHECK_EQ(tg_easy_may_pass(&r, 41, &wide, 60), TG_EASY_NO);
    CHECK_EQ(tg_easy_may_pass(&r, 41, &fat, 60), TG_EASY_NO);
    CHECK_EQ(tg_easy_may_pass(&r, 41, &small, 60), TG_EASY_BESIDE);
    CHECK_EQ(tg_easy_may_pass(&r, 41, &small, TG_NEVER), TG_EASY_BESIDE);
    CHECK_EQ(tg_easy_may_pass(&r, 41, &wide, TG_NEVER), TG_EASY_NO);
    CHECK_EQ(tg_easy_may_pass(&r, 41, &wide, TG_NEVER - 1), TG_EASY_NO); /* the sum overflows */
    tg_easy_book(&r, 40, &wide, 60);
    CHECK(r.beside.of[0] == 2 && r.beside.of[1] == 500);
    tg_easy_book(&r, 41, &small, 60);
    CHECK(r.beside.of[0] == 1 && r.beside.of[1] == 400);
}

static struct tg_amount random_need(uint64_t *seed, const struct tg_amount *most)
{
    struct tg_amount a;
    for (int r = 0; r < TG_RESOURCES; r++)
        a.of[r] = check_random(seed) % (most->of[r] + 1);
    return a;
}

/* What is free at a time if nothing else starts. */
static struct tg_amount free_at(const struct machine *m, int64_t t)
{
    struct tg_amount f = m->free;
    for (size_t k = 0; k < m->running.n; k++)
        if (m->running.entry[k].end <= t)
            tg_amount_add(&f, &m->running.entry[k].amount);
    return f;
}

static void property_reservation_is_the_earliest_time(void)
{
    uint64_t seed = 11;
    for (int round = 0; round < 3000; round++) {
        struct machine m;
        open_machine(&m, 1 + check_random(&seed) % 16, check_random(&seed) % 100);
        for (uint64_t id = 0; id < check_random(&seed) % 12; id++) {
            struct tg_amount need = random_need(&seed, &m.free);
            run_job(&m, 1 + (int64_t)(check_random(&seed) % 30), id, need);
        }
        struct tg_amount need = random_need(&seed, &m.capacity);
        int64_t not_before = (int64_t)(check_random(&seed) % 40);
        struct tg_reservation r;
        CHECK_EQ(tg_easy_reserve(&m.running, &m.free, &need, 0, not_before, &r), 0);
        int64_t t = not_before;
        for (struct tg_amount f = free_at(&m, t); !tg_amount_fits(&need, &f); f = free_at(&m, t))
            t++;
        CHECK_EQ(r.start, t);
        struct tg_amount left = free_at(&m, t);
        tg_amount_sub(&left, &need);
        CHECK(memcmp(&left, &r.beside, sizeof(left)) == 0);
    }
}

/* O1, O2: a big job waits at the front while a stream of others, each fitted as tightly as can be, is
 * backfilled at every step. Its reservation never moves later, and it starts by it. */
static void o1_o2_no_stream_delays_the_front(void)
{
    uint64_t seed = 5;
    for (int round = 0; round < 400; round++) {
        struct machine m;
        open_machine(&m, 8, 1000);
        uint64_t id = 0;
        for (int k = 0; k < 4; k++)
            run_job(&m, 1 + (int64_t)(check_random(&seed) % 60), id++, random_need(&seed, &m.free));
        struct tg_amount big = random_need(&seed, &m.capacity);
        int64_t promised = INT64_MAX, now = 0;
        for (;; now++) {
            end_jobs(&m, now);
            struct tg_reservation r;
            CHECK_EQ(tg_easy_reserve(&m.running, &m.free, &big, now, now, &r), 0);
            CHECK(r.start <= promised);
            promised = r.start;
            if (tg_amount_fits(&big, &m.free))
                break;
            for (int k = 0; k < 6 && m.running.n < MAX_RUNNING; k++) {
                struct tg_amount need = random_need(&seed, &m.free);
                int64_t run = (int64_t)(check_random(&seed) % 80);
                if (tg_easy_may_pass(&r, now, &need, run) == TG_EASY_NO)
                    continue;
                tg_easy_book(&r, now, &need, run);
                run_job(&m, now + run, id++, need);
            }
        }
        CHECK(now <= promised);
    }
}

/* The forecast of a queue is what happens when nobody passes and every job runs as long as it said. */
static void property_forecast_is_what_fifo_does(void)
{
    uint64_t seed = 13;
    for (int round = 0; round < 2000; round++) {
        struct machine m;
        open_machine(&m, 1 + check_random(&seed) % 8, check_random(&seed) % 100);
        for (uint64_t id = 0; id < check_random(&seed) % 6; id++)
            run_job(&m, 1 + (int64_t)(check_random(&seed) % 30), id, random_need(&seed, &m.free));
        struct tg_amount need[20];
        int64_t run[20], start[20];
        struct tg_forecast f;
        struct tg_release room[MAX_RUNNING];
        struct tg_timeline copy = {.entry = room, .n = m.running.n, .cap = MAX_RUNNING};
        memcpy(room, m.room, sizeof(room));
        tg_forecast_begin(&f, &copy, &m.free, NULL, 0);
        for (int k = 0; k < 20; k++) {
            need[k] = random_need(&seed, &m.capacity);
            run[k] = 1 + (int64_t)(check_random(&seed) % 20);
            CHECK_EQ(tg_forecast_next(&f, &need[k], run[k], &start[k]), 0);
        }
        int next = 0;
        for (int64_t now = 0; next < 20; now++) {
            end_jobs(&m, now);
            for (; next < 20 && tg_amount_fits(&need[next], &m.free); next++) {
                CHECK_EQ(start[next], now);
                run_job(&m, now + run[next], 100 + (uint64_t)next, need[next]);
            }
        }
    }
}

static void forecast_ends_where_nothing_is_known(void)
{
    struct machine m;
    open_machine(&m, 4, 0);
    run_job(&m, 50, 1, amount(3, 0));
    struct tg_amount two = amount(2, 0), four = amount(4, 0), owed = amount(1, 0);
    struct tg_forecast f;
    int64_t start = -1;
    m.free = amount(0, 0);
    tg_forecast_begin(&f, &m.running, &m.free, &owed, 7); /* the cap was lowered to 2: one comes off */
    CHECK_EQ(tg_forecast_next(&f, &two, TG_NEVER, &start), 0);
    CHECK_EQ(start, 50);
    CHECK_EQ(tg_forecast_next(&f, &four, 5, &start), -ENODATA);
    CHECK_EQ(tg_forecast_next(&f, &two, 5, &start), -ENODATA);
    CHECK_EQ(start, 50);
}

static struct tg_tide_job tide_job(uint64_t seq, int64_t arrived, int64_t run, struct tg_amount need)
{
    return (struct tg_tide_job){.seq = seq, .arrived = arrived, .run = run, .need = need};
}

static void tide_order_priority_express_wide_age(void)
{
    struct tg_tide_settings set = tg_tide_defaults(1);
    struct tg_amount cap = amount(8, 8000);
    struct tg_tide_job old = tide_job(1, 0, 5000, amount(1, 0)), young = tide_job(2, 50, 5000, amount(1, 0));
    struct tg_tide_job wide = tide_job(3, 60, 5000, amount(5, 0)),
                       fat = tide_job(4, 61, 5000, amount(1, 4001));
    struct tg_tide_job express = tide_job(5, 90, 300, amount(1, 0)),
                       quick = tide_job(6, 95, 10, amount(1, 0));
    struct tg_tide_job urgent = tide_job(7, 99, 9000, amount(1, 0)), unknown = tide_job(8, 99, TG_NEVER, cap);
    urgent.prio = 1;
    const struct tg_tide_job *expect[] = {&urgent, &quick, &express, &wide, &fat, &unknown, &old, &young};
    for (int a = 0; a < 8; a++)
        for (int b = 0; b < 8; b++) {
            int c = tg_tide_compare(&set, &cap, 100, expect[a], expect[b]);
            CHECK((c > 0) - (c < 0) == (a > b) - (a < b));
        }
    /* tau: 1 s and 10 s count alike, so age decides; no run time divides by 0 */
    struct tg_tide_job nothing = tide_job(9, 95, 0, amount(1, 0));
    CHECK(tg_tide_compare(&set, &cap, 100, &quick, &nothing) < 0);
    set.tau = 0;
    CHECK(tg_tide_compare(&set, &cap, 100, &quick, &nothing) > 0);
}

static void tide_promise_is_reservation_plus_patience(void)
{
    struct machine m;
    open_machine(&m, 4, 0);
    struct tg_tide_settings set = tg_tide_defaults(1);
    run_job(&m, 1000, 100, amount(3, 0));
    struct tg_tide_job front = tide_job(1, 0, 500, amount(4, 0)), other = tide_job(2, 0, 1400, amount(1, 0));
    struct tg_promise promise = {0};
    struct tg_tide_pass pass;
    tg_tide_begin(&pass, &set, &m.capacity, &m.free, &m.running, 0, &front, &promise);
    CHECK(promise.given && promise.seq == 1 && promise.start == 1500);
    set.pull_1024 = 0;
    tg_tide_begin(&pass, &set, &m.capacity, &m.free, &m.running, 0, &front, &promise);
    CHECK_EQ(tg_tide_next(&pass, &front), TG_TIDE_NO_ROOM);
    CHECK_EQ(tg_tide_next(&pass, &other), TG_TIDE_START); /* ends at 1400 */
    CHECK(pass.free.of[0] == 0 && m.running.n == 2);
    tg_tide_begin(&pass, &set, &m.capacity, &pass.free, &m.running, 1, &front, &promise);
    CHECK_EQ(promise.start, 1500); /* the earliest start is 1400 now, the promise stands */
    m.running.n = 0;               /* all ended early: what can be promised now is 101 + 500 */
    m.free = m.capacity;
    struct tg_tide_job late = tide_job(3, 0, 1400, amount(1, 0));
    tg_tide_begin(&pass, &set, &m.capacity, &m.free, &m.running, 101, &front, &promise);
    CHECK_EQ(promise.start, 601);
    CHECK_EQ(tg_tide_next(&pass, &late), TG_TIDE_FOR_FRONT);
    CHECK_EQ(tg_tide_next(&pass, &front), TG_TIDE_START);
}

static void tide_pulls_what_costs_little_to_drain_for(void)
{
    struct machine m;
    open_machine(&m, 8, 0);
    struct tg_tide_settings set = tg_tide_defaults(1);
    run_job(&m, 100, 100, amount(2, 0));
    struct tg_tide_job front = tide_job(1, 0, 90000, amount(8, 0)),
                       wide = tide_job(2, 0, 20000, amount(7, 0));
    struct tg_tide_job narrow = tide_job(3, 0, 400, amount(3, 0)), brief = tide_job(4, 0, 99, amount(3, 0));
    struct tg_tide_job beside = tide_job(5, 0, 400, amount(1, 0));
    struct tg_promise promise = {0};
    struct tg_tide_pass pass;
    tg_tide_begin(&pass, &set, &m.capacity, &m.free, &m.running, 0, &front, &promise);
    CHECK_EQ(tg_tide_next(&pass, &brief), TG_TIDE_START);
    CHECK_EQ(tg_tide_next(&pass, &wide), TG_TIDE_PULLED); /* idle: 3 * 100 + 3 * 1 of 140000 */
    CHECK_EQ(pass.pulled.start, 100);
    CHECK_EQ(tg_tide_next(&pass, &narrow), TG_TIDE_FOR_PULLED);
    CHECK_EQ(tg_tide_next(&pass, &beside), TG_TIDE_START);
    struct tg_tide_job dear = tide_job(6, 0, 600, amount(7, 0));
    m.running.n = 0;
    m.free = m.capacity;
    run_job(&m, 100, 101, amount(2, 0));
    tg_tide_begin(&pass, &set, &m.capacity, &m.free, &m.running, 0, &front, &promise);
    CHECK_EQ(tg_tide_next(&pass, &dear), TG_TIDE_NO_ROOM); /* idle 600 of 4200: more than 3/32 */
    CHECK_EQ(tg_tide_next(&pass, &narrow), TG_TIDE_START);
}

static void tide_without_known_ends_leaves_it_to_the_bound(void)
{
    struct machine m;
    open_machine(&m, 4, 0);
    struct tg_tide_settings set = tg_tide_defaults(1);
    run_job(&m, TG_NEVER, 100, amount(3, 0));
    struct tg_tide_job front = tide_job(1, 0, 500, amount(4, 0)), other = tide_job(2, 0, 10, amount(1, 0));
    struct tg_promise promise = {0};
    struct tg_tide_pass pass;
    tg_tide_begin(&pass, &set, &m.capacity, &m.free, &m.running, 0, &front, &promise);
    CHECK(!promise.given);
    CHECK_EQ(tg_tide_next(&pass, &front), TG_TIDE_NO_ROOM);
    CHECK_EQ(tg_tide_next(&pass, &other), TG_TIDE_NO_PROMISE);
    tg_tide_begin(&pass, &set, &m.capacity, &m.free, &m.running, 0, NULL, &promise);
    CHECK(!pass.has_front);
}

enum { JOBS = 60 };

struct history {
    struct tg_tide_job job[JOBS];
    int64_t took[JOBS], started[JOBS], promised[JOBS];
};

/* The first that waits in rank order (A1); its index, or -1. */
static int first_waiting(const struct history *h, int64_t now)
{
    int best = -1;
    for (int k = 0; k < JOBS; k++) {
        const struct tg_tide_job *j = &h->job[k];
        if (j->arrived <= now && h->started[k] < 0 && (best < 0 || j->prio > h->job[best].prio))
            best = k;
    }
    return best;
}

/* One pass; true when the front started. */
static bool one_pass(struct machine *m, struct history *h, const struct tg_tide_settings *set,
                     struct tg_promise *promise, int64_t now, int64_t *real_end)
{
    int f = first_waiting(h, now), order[JOBS], n = 0;
    if (f < 0)
        return false;
    for (int k = 0; k < JOBS; k++)
        if (h->job[k].arrived <= now && h->started[k] < 0) {
            int to = n++;
            for (; to > 0 && tg_tide_compare(set, &m->capacity, now, &h->job[k], &h->job[order[to - 1]]) < 0;
                 to--)
                order[to] = order[to - 1];
            order[to] = k;
        }
    struct tg_tide_pass pass;
    tg_tide_begin(&pass, set, &m->capacity, &m->free, &m->running, now, &h->job[f], promise);
    CHECK(promise->given && promise->seq == h->job[f].seq && pass.front_known);
    CHECK_EQ(pass.front.start, promise->start > now ? promise->start : now); /* it still holds */
    if (h->promised[f] < 0)
        h->promised[f] = promise->start;
    for (int k = 0; k < n; k++) {
        struct tg_tide_job *j = &h->job[order[k]];
        if (tg_tide_next(&pass, j) != TG_TIDE_START)
            continue;
        CHECK(tg_amount_fits(&j->need, &m->free)); /* A2 */
        tg_amount_sub(&m->free, &j->need);
        h->started[order[k]] = now;
        real_end[order[k]] = now + h->took[order[k]];
        if (order[k] == f)
            return true;
    }
    return false;
}

static void random_history(struct history *h, uint64_t *seed, const struct tg_amount *capacity, bool prios)
{
    int64_t t = 0;
    for (int k = 0; k < JOBS; k++) {
        t += (int64_t)(check_random(seed) % 12);
        int64_t run = 1 + (int64_t)(check_random(seed) % (check_random(seed) % 4 ? 20 : 120));
        h->job[k] = tide_job((uint64_t)k, t, run, random_need(seed, capacity));
        h->job[k].prio = prios ? (int64_t)(check_random(seed) % 3) : 0;
        h->took[k] = check_random(seed) % 2 ? run : run - (int64_t)(check_random(seed) % (uint64_t)run);
        h->started[k] = h->promised[k] = -1;
    }
}

/* Whatever the workload, settings and early ends: nothing is oversubscribed, everybody starts, and with one
 * priority level the front starts by its promise. */
static void property_tide_keeps_its_promises(void)
{
    uint64_t seed = 3;
    for (int round = 0; round < 400; round++) {
        bool prios = round % 4 == 0;
        struct machine m;
        open_machine(&m, 8, 1000);
        struct tg_tide_settings set = {.express = (int64_t)(check_random(&seed) % 30),
                                       .tau = (int64_t)(check_random(&seed) % 10),
                                       .wide_1024 = (uint32_t)(check_random(&seed) % 1025),
                                       .patience_1024 = (uint32_t)(check_random(&seed) % 4096),
                                       .pull_1024 = (uint32_t)(check_random(&seed) % 1025),
                                       .pull_looks = (uint32_t)(check_random(&seed) % 40)};
        struct history h;
        random_history(&h, &seed, &m.capacity, prios);
        struct tg_promise promise = {0};
        int64_t real_end[JOBS];
        int left = JOBS;
        for (int64_t now = 0; left > 0; now++) {
            CHECK(now < 100000);
            bool due = false; /* a pass follows an event, as in the broker */
            for (int k = 0; k < JOBS; k++) {
                due |= h.job[k].arrived == now;
                if (h.started[k] < 0 || real_end[k] != now)
                    continue;
                due = true;
                real_end[k] = -1;
                CHECK_EQ(tg_timeline_remove(&m.running, h.started[k] + h.job[k].run, h.job[k].seq), 0);
                tg_amount_add(&m.free, &h.job[k].need);
                left--;
            }
            bool again = due;
            while (again)
                again = one_pass(&m, &h, &set, &promise, now, real_end);
        }
        for (int k = 0; k < JOBS && !prios; k++)
            CHECK(h.promised[k] < 0 || h.started[k] <= h.promised[k]);
    }
}

int main(void)
{
    RUN(timeline_is_sorted_and_bounded);
    RUN(a3_reservation_counts_all_ends_of_its_instant);
    RUN(a3_unknown_ends_give_no_reservation);
    RUN(a3_before_or_beside_or_not);
    RUN(property_reservation_is_the_earliest_time);
    RUN(o1_o2_no_stream_delays_the_front);
    RUN(property_forecast_is_what_fifo_does);
    RUN(forecast_ends_where_nothing_is_known);
    RUN(tide_order_priority_express_wide_age);
    RUN(tide_promise_is_reservation_plus_patience);
    RUN(tide_pulls_what_costs_little_to_drain_for);
    RUN(tide_without_known_ends_leaves_it_to_the_bound);
    RUN(property_tide_keeps_its_promises);
    return 0;
}
