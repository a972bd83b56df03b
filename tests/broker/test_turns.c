/* SPDX-License-Identifier: Apache-2.0
 * Turns of the tenants and ageing in the queue itself (O10, A1, U14), and over a real socket: units, and
 * properties against what <tidegate/rank.h> promises. */
#include <signal.h>
#include <unistd.h>

#include "base/clock.h"
#include "broker/queue.h"
#include "harness.h"

static uint64_t next_id = 1;

static struct tg_ticket *make(const char *tenant, int64_t prio)
{
    struct tg_ticket *t = tg_ticket_new(tenant, "cmd", "/", "");
    CHECK(t);
    t->id = next_id++;
    t->owner.pid = (pid_t)(1000 + t->id);
    t->prio = prio;
    t->state = TG_WAIT;
    t->slots = 1;
    return t;
}

static struct tg_ticket *add(struct tg_queue *q, const char *tenant, int64_t prio)
{
    struct tg_ticket *t = make(tenant, prio);
    CHECK_EQ(tg_queue_add(q, t), 0);
    return t;
}

static void drop(struct tg_queue *q, struct tg_ticket *t)
{
    tg_queue_remove(q, t);
    tg_ticket_free(t);
}

/* The waiter at this place starts, and ends. Its tenant's first letter. */
static char start(struct tg_queue *q, size_t at)
{
    struct tg_ticket *t = q->waiters[at];
    char who = t->tenant[0];
    tg_queue_set_state(q, t, TG_HOLD);
    drop(q, t);
    tg_queue_settle(q, 0);
    return who;
}

static void o10_of_a_thousand_and_one_the_one_is_second(void)
{
    struct tg_queue q = {0};
    for (int i = 0; i < 1000; i++)
        add(&q, "A", 0);
    struct tg_ticket *b = add(&q, "B", 0);
    CHECK_EQ(tg_queue_ahead(&q, b), 1);
    for (int i = 0; i < 500; i++) { /* whenever it comes */
        drop(&q, b);
        start(&q, 0);
        b = add(&q, "B", 0);
        tg_queue_settle(&q, 0);
        CHECK(tg_queue_ahead(&q, b) <= 1);
    }
    struct tg_ticket *low = add(&q, "C", -1), *high = add(&q, "A", 1);
    CHECK_EQ(tg_queue_ahead(&q, low), q.n_waiters - 1); /* turns are for the same priority only */
    CHECK_EQ(tg_queue_ahead(&q, high), 0);
    tg_queue_done(&q);
}

static void o10_backlogged_tenants_take_turns(void)
{
    struct tg_queue q = {0};
    int served[3] = {0};
    for (int i = 0; i < 300; i++)
        add(&q, "A", 0);
    for (int i = 0; i < 100; i++)
        add(&q, "B", 0);
    for (int i = 0; i < 100; i++)
        add(&q, "C", 0);
    for (int i = 1; i <= 300; i++) {
        served[start(&q, 0) - 'A']++;
        for (int k = 0; k < 3; k++)
            CHECK(served[k] >= i / 3 && served[k] <= (i + 2) / 3);
    }
    while (q.n_waiters > 0)
        CHECK_EQ(start(&q, 0), 'A');
    tg_queue_done(&q);
}

/* Started out of turn, again and again, while the front waits: who comes anew each time gets no more than one
 * who waits. */
static void o10_backfill_is_shared_too(void)
{
    struct tg_queue q = {0};
    int served[26] = {0};
    add(&q, "X", 0); /* cannot start */
    for (int i = 0; i < 300; i++)
        add(&q, "B", 0);
    add(&q, "D", 0);
    add(&q, "D", 0);
    for (int i = 0; i < 200; i++) {
        char who = start(&q, 1);
        served[who - 'A']++;
        if (who == 'D')
            add(&q, "D", 0);
        CHECK_EQ(q.waiters[0]->tenant[0], 'X');
    }
    CHECK(served['B' - 'A'] >= 99 && served['D' - 'A'] >= 99);
    tg_queue_done(&q);
}

/* Fresh tenants without end: those who wait have their turn all the same. */
static void o10_a_flood_of_new_tenants_starves_nobody(void)
{
    struct tg_queue q = {0};
    char name[16];
    int fresh = 0, started = 0;
    for (int i = 0; i < 5; i++)
        add(&q, "A", 0);
    for (int left = 5; left > 0; started++) {
        CHECK(started <= 5 * 5);
        while (q.n_waiters < (size_t)left + 4) {
            snprintf(name, sizeof(name), "z%d", fresh++);
            add(&q, name, 0);
        }
        left -= start(&q, 0) == 'A';
    }
    tg_queue_done(&q);
}

static void o10_who_cancels_moves_up(void)
{
    struct tg_queue q = {0};
    static struct tg_ticket *a[1000];
    for (int i = 0; i < 1000; i++)
        a[i] = add(&q, "A", 0);
    struct tg_ticket *b[3];
    for (int i = 0; i < 3; i++)
        b[i] = add(&q, "B", 0);
    for (int i = 1; i < 999; i++)
        drop(&q, a[i]);
    tg_queue_settle(&q, 0);
    CHECK(q.waiters[0] == a[0] && q.waiters[1] == b[0] && q.waiters[2] == a[999] && q.waiters[3] == b[1]);
    tg_queue_done(&q);
}

/* A7: who gave up for now comes back to its place, and not before the round that is served by then. */
static void a7_who_comes_back_has_its_old_place(void)
{
    struct tg_queue q = {0};
    struct tg_ticket *a[4], *b[4];
    for (int i = 0; i < 4; i++) {
        a[i] = add(&q, "A", 0);
        b[i] = add(&q, "B", 0);
    }
    tg_queue_set_state(&q, a[1], TG_PARKED);
    tg_queue_settle(&q, 0);
    CHECK(q.waiters[2] == a[2] || q.waiters[3] == a[2]);
    tg_queue_set_state(&q, a[1], TG_WAIT);
    tg_queue_settle(&q, 0);
    for (int i = 0; i < 4; i++)
        CHECK(q.waiters[2 * i] == a[i] && q.waiters[2 * i + 1] == b[i]);
    tg_queue_set_state(&q, a[0], TG_PARKED);
    tg_queue_set_state(&q, a[1], TG_PARKED);
    for (int i = 0; i < 4; i++) {
        tg_queue_settle(&q, 0);
        start(&q, 0);
    }
    tg_queue_set_state(&q, a[0], TG_WAIT);
    tg_queue_set_state(&q, a[1], TG_WAIT);
    tg_queue_settle(&q, 0);
    CHECK(q.waiters[0] == a[0]);
    size_t at = tg_queue_ahead(&q, a[1]);
    CHECK(at >= 1 && at <= 2);
    tg_queue_done(&q);
}

static void a1_strict_is_plain_fifo(void)
{
    struct tg_queue q = {0};
    struct tg_ticket *t[60];
    static const char *const who[] = {"A", "A", "A", "B", "C", "A"};
    for (int i = 0; i < 60; i++)
        t[i] = add(&q, who[i % 6], 0);
    CHECK(q.waiters[1] != t[1]);
    tg_queue_set_order(&q, true, 0);
    for (int i = 0; i < 60; i++)
        CHECK(q.waiters[i] == t[i]);
    tg_queue_set_state(&q, t[5], TG_PARKED);
    tg_queue_set_state(&q, t[5], TG_WAIT);
    CHECK_EQ(tg_queue_ahead(&q, t[5]), 5);
    tg_queue_set_order(&q, false, 0);
    CHECK(q.waiters[1] == t[3] && q.waiters[2] == t[4] && q.waiters[3] == t[1]);
    struct tg_ticket *s = make("D", 0);
    s->strict = true; /* its own wish: behind all who are there */
    CHECK_EQ(tg_queue_add(&q, s), 0);
    CHECK_EQ(tg_queue_ahead(&q, s), 60);
    struct tg_ticket *d = add(&q, "E", 0);
    CHECK_EQ(tg_queue_ahead(&q, d), 3);
    tg_queue_done(&q);
}

static void ageing_lifts_who_waits(void)
{
    struct tg_queue q = {0};
    struct tg_ticket *low = make("A", 0), *high = make("A", 1), *later = make("A", 1);
    tg_queue_set_order(&q, false, 1000);
    tg_queue_settle(&q, 5000);
    low->asked_boot_ms = 5000;
    high->asked_boot_ms = 5500;
    later->asked_boot_ms = 6200;
    CHECK_EQ(tg_queue_add(&q, low), 0);
    CHECK_EQ(tg_queue_age_in_ms(&q), 1000);
    tg_queue_settle(&q, 5500);
    CHECK_EQ(tg_queue_add(&q, high), 0);
    CHECK(q.waiters[0] == high);
    CHECK(!tg_queue_settle(&q, 5999));
    CHECK(q.waiters[0] == high);
    CHECK(tg_queue_settle(&q, 6000)); /* the same level now, and it came first */
    CHECK(q.waiters[0] == low);
    CHECK_EQ(tg_queue_age_in_ms(&q), 500);
    tg_queue_settle(&q, 6200);
    CHECK_EQ(tg_queue_add(&q, later), 0);
    CHECK(q.waiters[0] == low && q.waiters[1] == high && q.waiters[2] == later);
    tg_queue_settle(&q, 7100);
    CHECK(low->level == 2 && high->level == 2 && later->level == 1);
    tg_queue_set_order(&q, false, 0);
    CHECK(q.waiters[0] == high && q.waiters[1] == later && q.waiters[2] == low);
    CHECK_EQ(tg_queue_age_in_ms(&q), UINT64_MAX);
    tg_queue_done(&q);
}

/* ---- any history */

enum { N = 200 };

static void validate(const struct tg_queue *q, struct tg_ticket *const *all)
{
    size_t waiting = 0;
    for (int i = 0; i < N; i++) {
        if (!all[i] || all[i]->state != TG_WAIT || all[i]->on_hold)
            continue;
        waiting++;
        CHECK(q->waiters[tg_queue_ahead(q, all[i])] == all[i]);
    }
    CHECK_EQ(q->n_waiters, waiting);
    for (size_t i = 0; i < q->n_waiters; i++) {
        const struct tg_ticket *a = q->waiters[i];
        for (size_t k = i + 1; k < q->n_waiters; k++) {
            const struct tg_ticket *b = q->waiters[k];
            CHECK(a->level >= b->level); /* A1 */
            if (a->level == b->level && strcmp(a->tenant, b->tenant) == 0)
                CHECK(a->id < b->id); /* by arrival within a tenant */
        }
    }
}

static const struct tg_ticket *first_of(const struct tg_queue *q, int64_t level)
{
    for (size_t i = 0; i < q->n_waiters; i++) {
        if (q->waiters[i]->level == level)
            return q->waiters[i];
    }
    return NULL;
}

static void join(struct tg_queue *q, struct tg_ticket **slot, uint64_t r, uint64_t now)
{
    static const char *const names[] = {"A", "A", "A", "B", "B", "C", "D"};
    tg_queue_settle(q, now);
    struct tg_ticket *t = make(names[(r >> 24) % 7], (int64_t)((r >> 32) % 3));
    t->strict = (r >> 40) % 16 == 0;
    t->asked_boot_ms = now;
    const struct tg_ticket *front = first_of(q, t->prio);
    CHECK_EQ(tg_queue_add(q, t), 0);
    CHECK(!front || first_of(q, t->prio) == front); /* nobody who comes later goes before the front */
    *slot = t;
}

static void o13_any_history_keeps_the_order(void)
{
    struct tg_queue q = {0};
    static struct tg_ticket *all[N];
    uint64_t seed = 41, now = 1000;
    for (int i = 0; i < 40000; i++) {
        uint64_t r = check_random(&seed);
        struct tg_ticket **t = &all[r % N];
        uint64_t what = (r >> 16) % 16;
        if (i % 4000 == 2000)
            tg_queue_set_order(&q, (r >> 50) % 4 == 0, (r >> 52) % 2 ? 0 : 300);
        if (!*t) {
            join(&q, t, r, now);
        } else if (what < 4) {
            drop(&q, *t);
            *t = NULL;
        } else if (what < 8 && (*t)->state == TG_WAIT && !(*t)->on_hold) {
            tg_queue_settle(&q, now);
            tg_queue_set_state(&q, what == 4 ? *t : q.waiters[0], TG_HOLD); /* out of turn, or in order */
        } else if (what == 12 && (*t)->state != TG_HOLD) {
            tg_queue_set_hold(&q, *t, !(*t)->on_hold);
        } else if (what == 8) {
            tg_queue_set_request(&q, *t, (int64_t)((r >> 32) % 3), (*t)->est_mb, 1);
        } else if (what < 12) {
            tg_queue_set_state(&q, *t, (*t)->state == TG_WAIT ? TG_PARKED : TG_WAIT);
        }
        now += r >> 60;
        if (i % 40 == 0) {
            tg_queue_settle(&q, now);
            validate(&q, all);
        }
    }
    tg_queue_done(&q);
}

/* P1 and A4 with tenants: ten thousand join, half of them leave at once, one by one. Shown, and bounded by
 * far more than it takes. */
static void p1_many_tenants_many_leave(void)
{
    enum { MANY = 10000 };
    struct tg_queue q = {0};
    static struct tg_ticket *t[MANY];
    char name[16];
    uint64_t begin = tg_clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof(name), "t%d", i % 2 ? 0 : i % 1000);
        t[i] = add(&q, name, i % 3);
    }
    uint64_t joined = tg_clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 1; i < MANY; i += 2)
        drop(&q, t[i]);
    tg_queue_settle(&q, 0);
    uint64_t left = tg_clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
    fprintf(stderr, "  10,000 joined in %.1f ms, 5,000 left in %.1f ms\n", (double)(joined - begin) / 1e6,
            (double)(left - joined) / 1e6);
    CHECK(left - begin < UINT64_C(5000000000));
    tg_queue_done(&q);
}

/* ---- over a socket */

static void o10_over_a_socket(void)
{
    enum { A = 40 };
    struct place p;
    struct client holder, a[A], b;
    pid_t pid[A + 2];
    uint64_t ticket, first;
    place_make(&p);
    place_ready(&p, 1);
    client_open(&holder, &p);
    pid[A] = owner_make();
    CHECK_TEXT(admit(&holder, "run", pid[A], 0, 0, NULL), "HOLD");
    for (int i = 0; i < A; i++) {
        client_open(&a[i], &p);
        pid[i] = owner_make();
        CHECK_TEXT(admit(&a[i], "run", pid[i], 0, 0, i == 0 ? &first : NULL), "WAIT");
    }
    client_open(&b, &p);
    pid[A + 1] = owner_make();
    json_t *m = admit_message("run", pid[A + 1], 0, 0, -1);
    json_object_set_new(m, "tenant", json_string("other"));
    m = client_ask(&b, m);
    CHECK_EQ(number_at(m, "ahead"), 1);
    ticket = (uint64_t)number_at(m, "ticket");
    json_decref(m);
    json_t *s = status_of(&p);
    CHECK_EQ(number_at(s, "waiters.0.ticket"), first);
    CHECK_EQ(number_at(s, "waiters.1.ticket"), ticket);
    CHECK_EQ(number_at(s, "waiters.1.position"), 2);
    json_decref(s);
    set_config(&p, "strict", "on");
    s = status_of(&p);
    CHECK_EQ(number_at(s, "waiters.40.ticket"), ticket);
    json_decref(s);
    set_config(&p, "strict", "off");
    owner_kill(pid[A]);
    CHECK_TEXT(next_state(&a[0]), "HOLD");
    owner_kill(pid[0]);
    CHECK_TEXT(next_state(&b), "HOLD"); /* before 39 who came earlier */
    owner_kill(pid[A + 1]);
    CHECK_TEXT(next_state(&a[1]), "HOLD");
    place_stop(&p, SIGTERM);
    for (int i = 1; i < A; i++) {
        owner_kill(pid[i]);
        client_close(&a[i]);
    }
    client_close(&a[0]);
    client_close(&b);
    client_close(&holder);
}

/* The order changes although nothing happens, and whoever can start then does. */
static void ageing_over_a_socket(void)
{
    struct place p;
    struct client one, two, low, high;
    place_make(&p);
    place_ready(&p, 2);
    set_config(&p, "overtake-bound", "0");
    pid_t pid[4] = {owner_make(), owner_make(), owner_make(), owner_make()};
    client_open(&one, &p);
    client_open(&two, &p);
    client_open(&low, &p);
    client_open(&high, &p);
    CHECK_TEXT(admit(&one, "run", pid[0], 0, 0, NULL), "HOLD");
    CHECK_TEXT(admit(&two, "run", pid[1], 0, 0, NULL), "HOLD");
    CHECK_TEXT(admit(&low, "run", pid[2], 0, 0, NULL), "WAIT");
    pause_ms(150);
    json_t *m = admit_message("run", pid[3], 1, 0, -1);
    json_object_set_new(m, "slots", json_integer(2));
    m = client_ask(&high, m);
    CHECK_EQ(number_at(m, "ahead"), 0);
    json_decref(m);
    owner_kill(pid[1]);
    EVENTUALLY(holders_of(&p) == 1);
    CHECK(client_quiet(&low, 100)); /* it would fit, and may not pass */
    set_config(&p, "ageing", "300ms");
    CHECK_TEXT(next_state(&low), "HOLD"); /* a level higher than it was, and not yet the other */
    json_t *s = status_of(&p);
    CHECK_EQ(number_at(s, "waiters.0.prio"), 1);
    CHECK(number_at(s, "waiters.0.prio_now") >= 1);
    CHECK_EQ(number_at(s, "gates.ageing_ms"), 300);
    json_decref(s);
    owner_kill(pid[0]);
    owner_kill(pid[2]);
    CHECK_TEXT(next_state(&high), "HOLD");
    owner_kill(pid[3]);
    client_close(&one);
    client_close(&two);
    client_close(&low);
    client_close(&high);
    place_stop(&p, SIGTERM);
}

int main(void)
{
    RUN(o10_of_a_thousand_and_one_the_one_is_second);
    RUN(o10_backlogged_tenants_take_turns);
    RUN(o10_backfill_is_shared_too);
    RUN(o10_a_flood_of_new_tenants_starves_nobody);
    RUN(o10_who_cancels_moves_up);
    RUN(a7_who_comes_back_has_its_old_place);
    RUN(a1_strict_is_plain_fifo);
    RUN(ageing_lifts_who_waits);
    RUN(o13_any_history_keeps_the_order);
    RUN(p1_many_tenants_many_leave);
    RUN(o10_over_a_socket);
    RUN(ageing_over_a_socket);
    return 0;
}
