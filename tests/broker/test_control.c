/* SPDX-License-Identifier: Apache-2.0
 * What people may do to tickets of any state, through a real broker: hold and resume, prio, drain (rows O11,
 * V5 of the cases). */
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"

struct job {
    struct client c;
    pid_t pid;
    uint64_t ticket;
};

static const char *ask(struct job *j, const struct place *p, const char *kind, int64_t prio, int64_t est_mb)
{
    client_open(&j->c, p);
    if (j->pid == 0)
        j->pid = owner_make();
    return admit(&j->c, kind, j->pid, prio, est_mb, &j->ticket);
}

static void end(struct job *j)
{
    owner_kill(j->pid);
    client_close(&j->c);
}

/* The answer to {"op":OP,"ticket":N}: its state, or the code of its error. */
static const char *order(const struct place *p, const char *op, uint64_t ticket)
{
    static char text[64];
    struct client c;
    client_open(&c, p);
    json_t *r = client_ask(&c, json_pack("{s:s,s:I}", "op", op, "ticket", (json_int_t)ticket));
    bool ok = json_is_true(json_object_get(r, "ok"));
    snprintf(text, sizeof(text), "%s", text_at(r, ok ? "state" : "error.code"));
    json_decref(r);
    client_close(&c);
    return text;
}

static void reprio(const struct place *p, uint64_t ticket, int64_t prio)
{
    tell(p, json_pack("{s:s,s:I,s:I}", "op", "prio", "ticket", (json_int_t)ticket, "prio", (json_int_t)prio));
}

/* A waiter of status, by its ticket: one of its texts or numbers. */
static const char *waiter_text(const struct place *p, uint64_t ticket, const char *key)
{
    static char text[512];
    json_t *s = status_of(p);
    json_t *list = at(s, "waiters"), *w;
    size_t i;
    snprintf(text, sizeof(text), "(no such waiter)");
    json_array_foreach(list, i, w)
    {
        if ((uint64_t)number_at(w, "ticket") == ticket)
            snprintf(text, sizeof(text), "%s", text_at(w, key));
    }
    json_decref(s);
    return text;
}

/* The front of the queue on hold: the next one goes, and it has its place again when it is resumed. */
static void v5_hold_keeps_the_place_and_blocks_nobody(void)
{
    struct place p;
    struct job h = {0}, front = {0}, second = {0}, third = {0};
    place_make(&p);
    place_ready(&p, 1);
    CHECK_TEXT(ask(&h, &p, "run", 0, 10), "HOLD");
    CHECK_TEXT(ask(&front, &p, "run", 0, 10), "WAIT");
    CHECK_TEXT(ask(&second, &p, "run", 0, 10), "WAIT");
    CHECK_TEXT(ask(&third, &p, "run", 0, 10), "WAIT");
    CHECK_TEXT(order(&p, "hold", front.ticket), "WAIT");
    CHECK_TEXT(order(&p, "hold", front.ticket), "WAIT"); /* harmless when repeated */
    CHECK_TEXT(waiter_text(&p, front.ticket, "why"), "hold");
    end(&h);
    CHECK_TEXT(next_state(&second.c), "HOLD");
    CHECK_TEXT(order(&p, "resume", front.ticket), "WAIT");
    CHECK_TEXT(waiter_text(&p, front.ticket, "why"), "slots");
    end(&second);
    CHECK_TEXT(next_state(&front.c), "HOLD");
    CHECK(client_quiet(&third.c, 0));
    end(&front);
    CHECK_TEXT(next_state(&third.c), "HOLD");
    end(&third);
    place_stop(&p, SIGTERM);
}

/* Alone in the queue, with a free slot: on hold it stays, resumed it starts at once. */
static void resume_starts_what_has_room(void)
{
    struct place p;
    struct job h = {0}, w = {0};
    place_make(&p);
    place_ready(&p, 1);
    CHECK_TEXT(ask(&h, &p, "run", 0, 10), "HOLD");
    CHECK_TEXT(ask(&w, &p, "run", 0, 10), "WAIT");
    CHECK_TEXT(order(&p, "hold", w.ticket), "WAIT");
    end(&h);
    EVENTUALLY(holders_of(&p) == 0);
    CHECK(client_quiet(&w.c, 30));
    CHECK_TEXT(order(&p, "resume", w.ticket), "WAIT");
    CHECK_TEXT(next_state(&w.c), "HOLD");
    end(&w);
    place_stop(&p, SIGTERM);
}

static void what_runs_is_not_put_on_hold(void)
{
    struct place p;
    struct job run = {0}, wait = {0};
    place_make(&p);
    place_ready(&p, 2);
    CHECK_TEXT(ask(&run, &p, "run", 0, 10), "HOLD");
    CHECK_TEXT(ask(&wait, &p, "wait-admit", 0, 10), "HOLD");
    CHECK_TEXT(order(&p, "hold", run.ticket), "busy");
    CHECK_TEXT(order(&p, "hold", wait.ticket), "busy");
    CHECK_TEXT(order(&p, "resume", run.ticket), "busy");
    CHECK_TEXT(order(&p, "hold", 99999), "gone");
    CHECK_EQ(holders_of(&p), 2);
    end(&run);
    end(&wait);
    place_stop(&p, SIGTERM);
}

/* On hold over a timeout, a kill of the broker, and its client's coming back; dead or cancelled it is gone.
 */
static void hold_outlives_the_broker_and_a_timeout(void)
{
    struct place p;
    struct job h = {0}, w = {0}, dead = {0}, cancelled = {0};
    place_make(&p);
    place_ready(&p, 1);
    CHECK_TEXT(ask(&h, &p, "run", 0, 10), "HOLD");
    CHECK_TEXT(ask(&w, &p, "wait-admit", 0, 10), "WAIT");
    CHECK_TEXT(order(&p, "hold", w.ticket), "WAIT");
    uint64_t ticket = w.ticket;
    place_stop(&p, SIGKILL);
    CHECK_TEXT(place_start(&p), "ready");
    client_close(&w.c);
    CHECK_TEXT(ask(&w, &p, "wait-admit", 0, 10), "WAIT");
    CHECK_EQ(w.ticket, ticket);
    end(&h);
    EVENTUALLY(holders_of(&p) == 0);
    CHECK_TEXT(waiter_text(&p, ticket, "why"), "hold");
    CHECK_TEXT(order(&p, "park", ticket), "PARKED"); /* of another connection: nothing changes */
    client_send(&w.c, json_pack("{s:s,s:I}", "op", "park", "ticket", (json_int_t)ticket));
    CHECK_TEXT(next_state(&w.c), "PARKED");
    CHECK_TEXT(waiter_text(&p, ticket, "why"), "hold");
    CHECK_TEXT(admit(&w.c, "wait-admit", w.pid, 0, 10, NULL), "WAIT");
    CHECK_TEXT(order(&p, "resume", ticket), "WAIT");
    CHECK_TEXT(next_state(&w.c), "HOLD");
    CHECK_TEXT(ask(&dead, &p, "run", 0, 10), "WAIT");
    CHECK_TEXT(ask(&cancelled, &p, "run", 0, 10), "WAIT");
    CHECK_TEXT(order(&p, "hold", dead.ticket), "WAIT");
    CHECK_TEXT(order(&p, "hold", cancelled.ticket), "WAIT");
    end(&dead);
    CHECK_TEXT(order(&p, "cancel", cancelled.ticket), "DONE");
    CHECK_TEXT(next_state(&cancelled.c), "cancelled");
    EVENTUALLY(waiters_of(&p) == 0);
    end(&cancelled);
    end(&w);
    place_stop(&p, SIGTERM);
}

/* prio in each state: a waiter, one on hold, a parked one, a holder. */
static void o11_prio_in_every_state(void)
{
    struct place p;
    struct job h = {0}, a = {0}, b = {0}, c = {0}, d = {0};
    place_make(&p);
    place_ready(&p, 1);
    CHECK_TEXT(ask(&h, &p, "run", 0, 10), "HOLD");
    CHECK_TEXT(ask(&a, &p, "run", 0, 10), "WAIT");
    CHECK_TEXT(ask(&b, &p, "run", 0, 10), "WAIT");
    CHECK_TEXT(ask(&c, &p, "run", 0, 10), "WAIT");
    CHECK_TEXT(ask(&d, &p, "wait-admit", 0, 10), "WAIT");
    client_send(&d.c, json_pack("{s:s,s:I}", "op", "park", "ticket", (json_int_t)d.ticket));
    CHECK_TEXT(next_state(&d.c), "PARKED");
    CHECK_TEXT(order(&p, "hold", c.ticket), "WAIT");
    reprio(&p, h.ticket, -9);
    reprio(&p, b.ticket, 5);
    reprio(&p, c.ticket, 7);
    reprio(&p, d.ticket, 6);
    json_t *s = status_of(&p);
    CHECK_EQ(number_at(s, "holders.0.prio"), -9);
    CHECK_EQ(number_at(s, "waiters.0.ticket"), (int64_t)b.ticket);
    CHECK_EQ(number_at(s, "waiters.1.ticket"), (int64_t)a.ticket);
    CHECK_EQ(number_at(s, "waiters.2.position"), 1); /* on hold, with the place it will have */
    CHECK_EQ(number_at(s, "waiters.3.position"), 1);
    json_decref(s);
    CHECK_TEXT(order(&p, "resume", c.ticket), "WAIT");
    end(&h);
    CHECK_TEXT(next_state(&c.c), "HOLD");
    end(&c);
    CHECK_TEXT(next_state(&b.c), "HOLD");
    end(&b);
    CHECK_TEXT(next_state(&a.c), "HOLD");
    end(&a);
    end(&d);
    place_stop(&p, SIGTERM);
}

/* CPU time of the broker so far. */
static uint64_t cpu_ns(const struct place *p)
{
    clockid_t clock;
    struct timespec ts;
    CHECK(clock_getcpuclockid(p->broker, &clock) == 0 && clock_gettime(clock, &ts) == 0);
    return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* Nobody is admitted, what runs goes on, places are kept, the next broker knows, a nested launch passes. */
static void drain_is_kept_and_undone(void)
{
    struct place p;
    struct job h = {0}, a = {0}, b = {0};
    place_make(&p);
    place_ready(&p, 1);
    CHECK_TEXT(ask(&h, &p, "run", 0, 10), "HOLD");
    CHECK_TEXT(ask(&a, &p, "run", 0, 10), "WAIT");
    set_config(&p, "drain", "on");
    set_config(&p, "slots", "9");
    CHECK_TEXT(ask(&b, &p, "run", 3, 10), "WAIT");
    CHECK_TEXT(waiter_text(&p, a.ticket, "why"), "drain");
    CHECK(client_quiet(&a.c, 30) && client_quiet(&b.c, 0));
    CHECK_EQ(holders_of(&p), 1);
    uint64_t used = UINT64_MAX;
    for (int i = 0; i < 10 && used >= 10000000; i++) { /* what it did before may not be over yet */
        uint64_t before = cpu_ns(&p);
        pause_ms(200);
        used = cpu_ns(&p) - before;
    }
    CHECK(used < 10000000); /* drained, it sleeps (A5) */
    place_stop(&p, SIGKILL);
    CHECK_TEXT(place_start(&p), "ready");
    client_close(&a.c);
    client_close(&b.c);
    CHECK_TEXT(ask(&a, &p, "run", 0, 10), "WAIT");
    CHECK_TEXT(ask(&b, &p, "run", 3, 10), "WAIT");
    json_t *s = status_of(&p);
    CHECK(json_is_true(at(s, "gates.draining")));
    CHECK_EQ(json_array_size(at(s, "holders")), 1);
    json_decref(s);
    end(&h);
    EVENTUALLY(holders_of(&p) == 0);
    CHECK(client_quiet(&a.c, 30) && client_quiet(&b.c, 0));
    set_config(&p, "slots", "1");
    set_config(&p, "drain", "off");
    CHECK_TEXT(next_state(&b.c), "HOLD");
    CHECK(client_quiet(&a.c, 0));
    end(&b);
    CHECK_TEXT(next_state(&a.c), "HOLD");
    end(&a);
    place_stop(&p, SIGTERM);
}

int main(void)
{
    RUN(v5_hold_keeps_the_place_and_blocks_nobody);
    RUN(resume_starts_what_has_room);
    RUN(what_runs_is_not_put_on_hold);
    RUN(hold_outlives_the_broker_and_a_timeout);
    RUN(o11_prio_in_every_state);
    RUN(drain_is_kept_and_undone);
    return 0;
}
