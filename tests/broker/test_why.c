/* SPDX-License-Identifier: Apache-2.0
 * why, through a real broker: the gate that binds, its numbers, who is ahead and who holds (row V2 of the
 * cases; A9), in agreement with status (V1). */
#include <signal.h>

#include "harness.h"

struct job {
    struct client c;
    pid_t pid;
    uint64_t ticket;
};

static const char *ask(struct job *j, const struct place *p, const char *kind, int64_t prio, int64_t est_mb,
                       int64_t slots)
{
    static char text[32];
    client_open(&j->c, p);
    j->pid = owner_make();
    json_t *m = admit_message(kind, j->pid, prio, est_mb, -1);
    json_object_set_new(m, "slots", json_integer(slots));
    json_t *r = client_ask(&j->c, m);
    snprintf(text, sizeof(text), "%s", text_at(r, "state"));
    j->ticket = (uint64_t)number_at(r, "ticket");
    json_decref(r);
    return text;
}

static void end(struct job *j)
{
    owner_kill(j->pid);
    client_close(&j->c);
}

static json_t *why(const struct place *p, uint64_t ticket)
{
    struct client c;
    client_open(&c, p);
    json_t *r = client_ask(&c, json_pack("{s:s,s:I}", "op", "why", "ticket", (json_int_t)ticket));
    client_close(&c);
    return r;
}

static void v2_slots_their_numbers_and_holders(void)
{
    struct place p;
    struct job big = {0}, small = {0}, none = {0}, first = {0}, second = {0};
    place_make(&p);
    place_ready(&p, 4);
    CHECK_TEXT(ask(&small, &p, "run", 0, 10, 1), "HOLD");
    CHECK_TEXT(ask(&big, &p, "run", 0, 20, 3), "HOLD");
    CHECK_TEXT(ask(&none, &p, "run", 0, 30, 0), "HOLD");
    CHECK_TEXT(ask(&first, &p, "run", 0, 10, 2), "WAIT");
    CHECK_TEXT(ask(&second, &p, "run", 0, 10, 1), "WAIT");
    json_t *r = why(&p, second.ticket);
    CHECK_EQ(number_at(r, "why_version"), 1);
    CHECK_TEXT(text_at(r, "state"), "WAIT");
    CHECK_TEXT(text_at(r, "why"), "slots");
    CHECK(strstr(text_at(r, "text"), "needs 1, 4 of 4 are held; 1 ahead"));
    CHECK_TEXT(text_at(r, "numbers.unit"), "slots");
    CHECK_EQ(number_at(r, "numbers.need"), 1);
    CHECK_EQ(number_at(r, "numbers.have"), 4);
    CHECK_EQ(number_at(r, "numbers.limit"), 4);
    CHECK_EQ(number_at(r, "position"), 2);
    CHECK_EQ(number_at(r, "ahead_tickets.0.ticket"), (int64_t)first.ticket);
    CHECK_EQ(json_array_size(at(r, "ahead_tickets")), 1);
    /* Those that hold slots, the largest first; who holds none is not in the way. */
    CHECK_EQ(number_at(r, "n_holders"), 2);
    CHECK_EQ(number_at(r, "holders.0.ticket"), (int64_t)big.ticket);
    CHECK_EQ(number_at(r, "holders.0.slots"), 3);
    CHECK_EQ(number_at(r, "holders.1.ticket"), (int64_t)small.ticket);
    CHECK_EQ(number_at(r, "job.ticket"), (int64_t)second.ticket);
    json_t *s = status_of(&p); /* the same words */
    CHECK_TEXT(text_at(s, "waiters.1.text"), text_at(r, "text"));
    json_decref(s);
    json_decref(r);
    end(&second);
    end(&first);
    end(&none);
    end(&small);
    end(&big);
    place_stop(&p, SIGTERM);
}

/* A big one waits for the budget; a big one behind it waits for its turn, and is told what the first needs.
 */
static void v2_the_turn_of_another_and_what_that_waits_for(void)
{
    struct place p;
    struct job h = {0}, zero = {0}, front = {0}, behind = {0};
    place_make(&p);
    place_ready(&p, 8);
    set_config(&p, "floor-mb", "0");
    set_config(&p, "backfill-mb", "5");
    set_config(&p, "budget-mb", "100");
    CHECK_TEXT(ask(&h, &p, "run", 0, 60, 1), "HOLD");
    CHECK_TEXT(ask(&zero, &p, "run", 0, 0, 1), "HOLD");
    CHECK_TEXT(ask(&front, &p, "run", 0, 50, 1), "WAIT");
    CHECK_TEXT(ask(&behind, &p, "run", 0, 10, 1), "WAIT");
    json_t *r = why(&p, front.ticket);
    CHECK_TEXT(text_at(r, "why"), "budget");
    CHECK_EQ(number_at(r, "numbers.need"), 50);
    CHECK_EQ(number_at(r, "numbers.have"), 60);
    CHECK_EQ(number_at(r, "numbers.limit"), 100);
    CHECK(json_is_null(at(r, "blocker")));
    CHECK_EQ(number_at(r, "n_holders"), 1);
    CHECK_EQ(number_at(r, "holders.0.ticket"), (int64_t)h.ticket);
    json_decref(r);
    r = why(&p, behind.ticket);
    CHECK_TEXT(text_at(r, "why"), "order");
    CHECK(json_is_null(at(r, "numbers")));
    CHECK_EQ(number_at(r, "blocker.ticket"), (int64_t)front.ticket);
    CHECK_TEXT(text_at(r, "blocker.why"), "budget");
    CHECK_EQ(number_at(r, "holders.0.ticket"), (int64_t)h.ticket);
    json_decref(r);
    end(&behind);
    end(&front);
    end(&zero);
    end(&h);
    place_stop(&p, SIGTERM);
}

static void every_state_has_an_answer(void)
{
    struct place p;
    struct job h = {0}, w = {0}, parked = {0};
    place_make(&p);
    place_ready(&p, 1);
    CHECK_TEXT(ask(&h, &p, "run", 0, 10, 1), "HOLD");
    CHECK_TEXT(ask(&w, &p, "run", 0, 10, 1), "WAIT");
    CHECK_TEXT(ask(&parked, &p, "wait-admit", 0, 10, 1), "WAIT");
    client_close(&parked.c);
    json_t *r;
    EVENTUALLY(strcmp(text_at(r = why(&p, parked.ticket), "why"), "parked") == 0 || (json_decref(r), false));
    CHECK_TEXT(text_at(r, "state"), "PARKED");
    CHECK_EQ(number_at(r, "ahead"), 1);
    json_decref(r);
    tell(&p, json_pack("{s:s,s:I}", "op", "hold", "ticket", (json_int_t)w.ticket));
    r = why(&p, w.ticket);
    CHECK_TEXT(text_at(r, "why"), "hold");
    json_decref(r);
    tell(&p, json_pack("{s:s,s:I}", "op", "resume", "ticket", (json_int_t)w.ticket));
    set_config(&p, "drain", "on");
    r = why(&p, w.ticket);
    CHECK_TEXT(text_at(r, "why"), "drain");
    json_decref(r);
    set_config(&p, "drain", "off");
    r = why(&p, h.ticket);
    CHECK_TEXT(text_at(r, "state"), "HOLD");
    CHECK_TEXT(text_at(r, "why"), "none");
    json_decref(r);
    end(&h);
    CHECK_TEXT(next_state(&w.c), "HOLD");
    tell(&p, json_pack("{s:s,s:I,s:i}", "op", "done", "ticket", (json_int_t)h.ticket, "status", 0x0500));
    r = why(&p, h.ticket);
    CHECK_TEXT(text_at(r, "state"), "DONE");
    CHECK_EQ(number_at(r, "ended.exit"), 5);
    CHECK(strstr(text_at(r, "text"), "exit 5"));
    json_decref(r);
    r = why(&p, 4711);
    CHECK_TEXT(text_at(r, "error.code"), "gone");
    json_decref(r);
    end(&w);
    owner_kill(parked.pid);
    place_stop(&p, SIGTERM);
}

/* Many ahead: the list is cut, the number is not. */
static void v1_the_number_ahead_is_exact_however_many(void)
{
    enum { N = 130 };
    static struct job w[N];
    struct place p;
    struct job h = {0}, last = {0};
    place_make(&p);
    place_ready(&p, 1);
    CHECK_TEXT(ask(&h, &p, "run", 0, 10, 1), "HOLD");
    for (int i = 0; i < N; i++)
        CHECK_TEXT(ask(&w[i], &p, "run", 0, 10, 1), "WAIT");
    CHECK_TEXT(ask(&last, &p, "run", 0, 10, 1), "WAIT");
    json_t *r = why(&p, last.ticket);
    CHECK_EQ(number_at(r, "ahead"), N);
    CHECK_EQ(number_at(r, "position"), N + 1);
    CHECK_EQ(json_array_size(at(r, "ahead_tickets")), 100);
    json_decref(r);
    for (int i = 0; i < N; i++)
        end(&w[i]);
    end(&last);
    end(&h);
    place_stop(&p, SIGTERM);
}

int main(void)
{
    RUN(v2_slots_their_numbers_and_holders);
    RUN(v2_the_turn_of_another_and_what_that_waits_for);
    RUN(every_state_has_an_answer);
    RUN(v1_the_number_ahead_is_exact_however_many);
    return 0;
}
