/* SPDX-License-Identifier: Apache-2.0
 * wait, through a real broker: the ends of tickets as events, whether they come later, came earlier, or the
 * status comes after the end; over a restart (row V7 of the cases; A5, A8). */
#include <signal.h>
#include <unistd.h>

#include "harness.h"

struct job {
    struct client c;
    pid_t pid;
    uint64_t ticket;
};

static const char *ask(struct job *j, const struct place *p, const char *kind)
{
    client_open(&j->c, p);
    j->pid = owner_make();
    return admit(&j->c, kind, j->pid, 0, 10, &j->ticket);
}

static void end(struct job *j)
{
    owner_kill(j->pid);
    client_close(&j->c);
}

static void done(const struct place *p, uint64_t ticket, int status)
{
    tell(p, json_pack("{s:s,s:I,s:i}", "op", "done", "ticket", (json_int_t)ticket, "status", status));
}

static json_t *request(const uint64_t *tickets, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_integer((json_int_t)tickets[i]));
    return json_pack("{s:s,s:o}", "op", "wait", "tickets", list);
}

/* The code of the refusal. */
static const char *refusal(const struct place *p, json_t *message)
{
    static char text[32];
    struct client c;
    client_open(&c, p);
    json_t *r = client_ask(&c, message);
    snprintf(text, sizeof(text), "%s", text_at(r, "error.code"));
    json_decref(r);
    client_close(&c);
    return text;
}

static void v7_answers_when_the_last_has_ended(void)
{
    struct place p;
    struct job a = {0}, b = {0}, w = {0};
    struct client c, other;
    place_make(&p);
    place_ready(&p, 2);
    CHECK_TEXT(ask(&a, &p, "run"), "HOLD");
    CHECK_TEXT(ask(&b, &p, "run"), "HOLD");
    CHECK_TEXT(ask(&w, &p, "run"), "WAIT");
    uint64_t tickets[] = {b.ticket, w.ticket, a.ticket, b.ticket}; /* in any order, also twice */
    client_open(&c, &p);
    client_open(&other, &p);
    client_send(&c, request(tickets, 4));
    client_send(&other, request(&a.ticket, 1));
    CHECK(client_quiet(&c, 20) && client_quiet(&other, 0));
    end(&a);
    done(&p, a.ticket, 0x0700);
    json_t *r = client_recv(&other);
    CHECK_EQ(number_at(r, "ended.0.ticket"), (int64_t)a.ticket);
    CHECK_EQ(number_at(r, "ended.0.status"), 0x0700);
    CHECK_TEXT(text_at(r, "ended.0.outcome"), "done");
    json_decref(r);
    CHECK_TEXT(next_state(&w.c), "HOLD");
    end(&w);
    done(&p, w.ticket, 0);
    CHECK(client_quiet(&c, 20));
    end(&b);
    done(&p, b.ticket, 9);
    r = client_recv(&c);
    CHECK_EQ(json_array_size(at(r, "ended")), 4);
    CHECK_EQ(number_at(r, "ended.0.status"), 9);
    CHECK_EQ(number_at(r, "ended.1.status"), 0);
    CHECK_EQ(number_at(r, "ended.2.status"), 0x0700);
    CHECK_EQ(number_at(r, "ended.3.ticket"), (int64_t)b.ticket);
    json_decref(r);
    r = client_ask(&c, request(tickets, 4)); /* all of it is history now */
    CHECK_EQ(number_at(r, "ended.2.status"), 0x0700);
    json_decref(r);
    client_close(&c);
    client_close(&other);
    place_stop(&p, SIGTERM);
}

/* An end and its status are two events: the answer has both. */
static void the_status_that_comes_after_the_end_is_waited_for(void)
{
    struct place p;
    struct job a = {0}, b = {0};
    struct client c, late;
    place_make(&p);
    place_ready(&p, 2);
    CHECK_TEXT(ask(&a, &p, "run"), "HOLD");
    CHECK_TEXT(ask(&b, &p, "run"), "HOLD");
    client_open(&c, &p);
    client_open(&late, &p);
    client_send(&c, request(&a.ticket, 1));
    end(&a);
    EVENTUALLY(holders_of(&p) == 1);
    CHECK(client_quiet(&c, 20));
    client_send(&late, request(&a.ticket, 1)); /* asked between the two */
    CHECK(client_quiet(&late, 20));
    done(&p, a.ticket, 0x0100);
    json_t *r = client_recv(&c);
    CHECK_EQ(number_at(r, "ended.0.status"), 0x0100);
    json_decref(r);
    r = client_recv(&late);
    CHECK_EQ(number_at(r, "ended.0.status"), 0x0100);
    json_decref(r);
    /* Cancelled and then told: both stand in the answer. */
    client_send(&c, request(&b.ticket, 1));
    tell(&p, json_pack("{s:s,s:I}", "op", "cancel", "ticket", (json_int_t)b.ticket));
    end(&b);
    EVENTUALLY(holders_of(&p) == 0);
    done(&p, b.ticket, 15);
    r = client_recv(&c);
    CHECK_EQ(number_at(r, "ended.0.status"), 15);
    CHECK_TEXT(text_at(r, "ended.0.outcome"), "cancelled");
    json_decref(r);
    client_close(&c);
    client_close(&late);
    place_stop(&p, SIGTERM);
}

/* Nobody tells how it ended: the answer says that, in bounded time. */
static void an_end_without_a_word_is_told_in_the_end(void)
{
    struct place p;
    struct job a = {0}, given = {0};
    struct client c;
    place_make(&p);
    place_ready(&p, 2);
    CHECK_TEXT(ask(&a, &p, "run"), "HOLD");
    CHECK_TEXT(ask(&given, &p, "wait-admit"), "HOLD");
    uint64_t tickets[] = {given.ticket, a.ticket};
    client_open(&c, &p);
    client_send(&c, request(tickets, 2));
    end(&a);
    tell(&p, json_pack("{s:s,s:i}", "op", "release", "pid", (int)given.pid));
    pause_ms(4000); /* of the 5 s that the status may take; client_recv has patience for the rest */
    json_t *r = client_recv(&c);
    CHECK_TEXT(text_at(r, "ended.0.outcome"), "released");
    CHECK_TEXT(text_at(r, "ended.1.outcome"), "owner died");
    CHECK(json_is_null(at(r, "ended.1.status")));
    json_decref(r);
    end(&given);
    client_close(&c);
    place_stop(&p, SIGTERM);
}

static void v7_goes_on_at_the_next_broker(void)
{
    struct place p;
    struct job a = {0};
    struct client c;
    place_make(&p);
    place_ready(&p, 1);
    CHECK_TEXT(ask(&a, &p, "run"), "HOLD");
    client_open(&c, &p);
    client_send(&c, request(&a.ticket, 1));
    place_stop(&p, SIGKILL);
    CHECK(client_is_closed(&c));
    client_close(&c);
    CHECK_TEXT(place_start(&p), "ready");
    client_open(&c, &p);
    client_send(&c, request(&a.ticket, 1));
    CHECK(client_quiet(&c, 20));
    end(&a);
    done(&p, a.ticket, 0x0200);
    json_t *r = client_recv(&c);
    CHECK_EQ(number_at(r, "ended.0.status"), 0x0200);
    json_decref(r);
    client_close(&c);
    place_stop(&p, SIGTERM);
}

/* all: everybody who holds or waits, but not the parked, nor the ticket that the caller itself runs under. */
static void v7_all_are_those_that_ask_for_something(void)
{
    struct place p;
    struct job h = {0}, w = {0}, held_back = {0}, parked = {0};
    struct client c, own;
    uint64_t own_ticket = 0;
    place_make(&p);
    place_ready(&p, 2);
    CHECK_TEXT(ask(&h, &p, "run"), "HOLD");
    client_open(&own, &p);
    CHECK_TEXT(admit(&own, "run", getpid(), 0, 10, &own_ticket), "HOLD");
    owner_kill(h.pid);
    EVENTUALLY(holders_of(&p) == 1);
    client_open(&c, &p);
    json_t *r = client_ask(&c, json_pack("{s:s,s:b}", "op", "wait", "all", 1));
    CHECK_EQ(json_array_size(at(r, "tickets")), 0);
    json_decref(r);
    CHECK_TEXT(refusal(&p, request(&own_ticket, 1)), "usage");
    tell(&p, json_pack("{s:s,s:i}", "op", "release", "pid", (int)getpid()));
    /* Nor steps of its own, which only its own end or its own word would end. */
    json_t *step = admit_message("wait-admit", getpid(), 0, 10, -1);
    json_object_set_new(step, "step", json_integer(77));
    r = client_ask(&own, step);
    CHECK_TEXT(text_at(r, "state"), "HOLD");
    own_ticket = (uint64_t)number_at(r, "ticket");
    json_decref(r);
    client_send(&own, json_pack("{s:s,s:I}", "op", "ack", "ticket", (json_int_t)own_ticket));
    r = client_ask(&c, json_pack("{s:s,s:b}", "op", "wait", "all", 1));
    CHECK_EQ(json_array_size(at(r, "tickets")), 0);
    json_decref(r);
    tell(&p, json_pack("{s:s,s:I}", "op", "release", "ticket", (json_int_t)own_ticket));
    set_config(&p, "slots", "1");
    client_close(&h.c);
    CHECK_TEXT(ask(&h, &p, "run"), "HOLD");
    CHECK_TEXT(ask(&w, &p, "run"), "WAIT");
    CHECK_TEXT(ask(&held_back, &p, "run"), "WAIT");
    CHECK_TEXT(ask(&parked, &p, "wait-admit"), "WAIT");
    client_send(&parked.c, json_pack("{s:s,s:I}", "op", "park", "ticket", (json_int_t)parked.ticket));
    CHECK_TEXT(next_state(&parked.c), "PARKED");
    tell(&p, json_pack("{s:s,s:I}", "op", "hold", "ticket", (json_int_t)held_back.ticket));
    r = client_ask(&c, json_pack("{s:s,s:b}", "op", "wait", "all", 1));
    CHECK_EQ(json_array_size(at(r, "tickets")), 3);
    CHECK_EQ(number_at(r, "tickets.0"), (int64_t)h.ticket);
    CHECK_EQ(number_at(r, "tickets.1"), (int64_t)w.ticket);
    CHECK_EQ(number_at(r, "tickets.2"), (int64_t)held_back.ticket);
    json_decref(r);
    end(&parked);
    end(&held_back);
    end(&w);
    end(&h);
    client_close(&own);
    client_close(&c);
    place_stop(&p, SIGTERM);
}

/* Answers keep their order, a client that goes away leaves nothing behind, `now` asks how it stands. */
static void waiting_connections_come_and_go(void)
{
    struct place p;
    struct job a = {0};
    struct client c[50], last;
    place_make(&p);
    place_ready(&p, 1);
    CHECK_TEXT(ask(&a, &p, "run"), "HOLD");
    for (int i = 0; i < 50; i++) {
        client_open(&c[i], &p);
        client_send(&c[i], request(&a.ticket, 1));
        if (i % 2)
            client_close(&c[i]);
    }
    client_open(&last, &p);
    json_t *m = request(&a.ticket, 1);
    json_object_set_new(m, "now", json_true());
    json_t *r = client_ask(&last, m);
    CHECK_EQ(number_at(r, "left"), 1);
    json_decref(r);
    client_send(&last, request(&a.ticket, 1));
    client_send(&last, json_pack("{s:s}", "op", "config"));
    CHECK(client_quiet(&last, 20));
    end(&a);
    done(&p, a.ticket, 0);
    r = client_recv(&last);
    CHECK_EQ(number_at(r, "ended.0.status"), 0);
    json_decref(r);
    r = client_recv(&last);
    CHECK(at(r, "config"));
    json_decref(r);
    for (int i = 0; i < 50; i += 2) {
        r = client_recv(&c[i]);
        CHECK_EQ(number_at(r, "ended.0.status"), 0);
        json_decref(r);
        client_close(&c[i]);
    }
    client_close(&last);
    place_stop(&p, SIGTERM);
}

static void bad_questions_are_refused(void)
{
    struct place p;
    uint64_t none = 4711;
    place_make(&p);
    CHECK_TEXT(place_start(&p), "ready");
    CHECK_TEXT(refusal(&p, request(&none, 1)), "gone");
    CHECK_TEXT(refusal(&p, request(&none, 0)), "usage");
    CHECK_TEXT(refusal(&p, json_pack("{s:s}", "op", "wait")), "usage");
    CHECK_TEXT(refusal(&p, json_pack("{s:s,s:i}", "op", "wait", "tickets", 7)), "usage");
    CHECK_TEXT(refusal(&p, json_pack("{s:s,s:[s]}", "op", "wait", "tickets", "7")), "usage");
    CHECK_TEXT(refusal(&p, json_pack("{s:s,s:[i]}", "op", "wait", "tickets", 0)), "usage");
    CHECK_TEXT(refusal(&p, json_pack("{s:s,s:[f]}", "op", "wait", "tickets", 1.5)), "usage");
    CHECK_TEXT(refusal(&p, json_pack("{s:s,s:[i],s:b}", "op", "wait", "tickets", 1, "all", 1)), "usage");
    CHECK_TEXT(refusal(&p, json_pack("{s:s,s:s}", "op", "wait", "all", "yes")), "usage");
    json_t *many = json_array();
    for (int i = 1; i <= 1001; i++)
        json_array_append_new(many, json_integer(i));
    CHECK_TEXT(refusal(&p, json_pack("{s:s,s:o}", "op", "wait", "tickets", many)), "usage");
    place_stop(&p, SIGTERM);
}

int main(void)
{
    RUN(v7_answers_when_the_last_has_ended);
    RUN(the_status_that_comes_after_the_end_is_waited_for);
    RUN(an_end_without_a_word_is_told_in_the_end);
    RUN(v7_goes_on_at_the_next_broker);
    RUN(v7_all_are_those_that_ask_for_something);
    RUN(waiting_connections_come_and_go);
    RUN(bad_questions_are_refused);
    return 0;
}
