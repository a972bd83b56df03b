/* SPDX-License-Identifier: Apache-2.0
 * Several tickets of one process (admit with step), release by number, resize: what the messages allow and
 * refuse, and what the next broker knows. Rules A2, A4, A7, A8. */
#include "harness.h"

#include <signal.h>

static json_t *step_message(pid_t pid, int64_t step)
{
    json_t *m = admit_message("wait-admit", pid, 2, 0, -1);
    json_object_set_new(m, "step", json_integer(step));
    return m;
}

/* The state of the first answer, and the ticket. */
static const char *ask_step(struct client *c, pid_t pid, int64_t step, uint64_t *ret_ticket)
{
    static char state[32];
    json_t *m = client_ask(c, step_message(pid, step));
    snprintf(state, sizeof(state), "%s",
             json_is_true(at(m, "ok")) ? text_at(m, "state") : text_at(m, "error.code"));
    if (ret_ticket && json_is_true(at(m, "ok")))
        *ret_ticket = (uint64_t)number_at(m, "ticket");
    json_decref(m);
    return state;
}

static void ack(struct client *c, uint64_t ticket)
{
    client_send(c, json_pack("{s:s,s:I}", "op", "ack", "ticket", (json_int_t)ticket));
}

static json_t *resize(uint64_t ticket, int64_t est_mb)
{
    return json_pack("{s:s,s:I,s:I}", "op", "resize", "ticket", (json_int_t)ticket, "est_mb",
                     (json_int_t)est_mb);
}

static void expect_error(struct client *c, json_t *message, const char *code)
{
    json_t *m = client_ask(c, message);
    CHECK_TEXT(text_at(m, "error.code"), code);
    json_decref(m);
}

static void a4_all_steps_of_a_process_end_with_it(void)
{
    struct place p;
    struct client c;
    uint64_t first, second;
    place_make(&p);
    place_ready(&p, 2);
    client_open(&c, &p);
    pid_t owner = owner_make();
    CHECK_TEXT(ask_step(&c, owner, 11, &first), "HOLD");
    ack(&c, first);
    CHECK_TEXT(ask_step(&c, owner, 12, &second), "HOLD");
    ack(&c, second);
    CHECK(first != second);
    CHECK_TEXT(ask_step(&c, owner, 13, NULL), "WAIT");
    CHECK_EQ(holders_of(&p), 2);
    owner_kill(owner);
    EVENTUALLY(holders_of(&p) == 0 && waiters_of(&p) == 0);
    client_close(&c);
    place_stop(&p, SIGTERM);
}

static void a8_a_step_is_known_again_by_its_number(void)
{
    struct place p;
    struct client c;
    uint64_t held, waits, again;
    place_make(&p);
    place_ready(&p, 1);
    client_open(&c, &p);
    pid_t owner = owner_make();
    CHECK_TEXT(ask_step(&c, owner, 21, &held), "HOLD");
    ack(&c, held);
    CHECK_TEXT(ask_step(&c, owner, 22, &waits), "WAIT");
    CHECK_EQ(holders_of(&p), 1);
    place_stop(&p, SIGKILL);
    client_close(&c);
    place_ready(&p, 1);
    client_open(&c, &p);
    CHECK_TEXT(ask_step(&c, owner, 21, &again), "HOLD");
    CHECK_EQ(again, held);
    CHECK_TEXT(ask_step(&c, owner, 22, &again), "WAIT");
    CHECK_EQ(again, waits);
    CHECK_EQ(holders_of(&p), 1);
    CHECK_EQ(waiters_of(&p), 1);
    tell(&p, json_pack("{s:s,s:I}", "op", "release", "ticket", (json_int_t)held));
    CHECK_TEXT(next_state(&c), "HOLD");
    client_close(&c); /* nobody acknowledged: it is a place in the queue again */
    EVENTUALLY(holders_of(&p) == 0);
    client_open(&c, &p);
    CHECK_TEXT(ask_step(&c, owner, 22, &again), "HOLD");
    CHECK_EQ(again, waits);
    client_close(&c);
    owner_kill(owner);
    place_stop(&p, SIGTERM);
}

static void a_step_beside_the_ticket_of_its_process(void)
{
    struct place p;
    struct client c;
    uint64_t own, step;
    place_make(&p);
    place_ready(&p, 1);
    client_open(&c, &p);
    pid_t owner = owner_make();
    CHECK_TEXT(ask_step(&c, owner, 31, &step), "HOLD");
    ack(&c, step);
    CHECK_TEXT(admit(&c, "wait-admit", owner, 2, 0, &own), "WAIT"); /* a step is no "already" */
    CHECK(own != step);
    tell(&p, json_pack("{s:s,s:i}", "op", "release", "pid", (int)owner));
    CHECK_TEXT(next_state(&c), "gone");
    CHECK_EQ(holders_of(&p), 1); /* the step stays */
    tell(&p, json_pack("{s:s,s:I}", "op", "release", "ticket", (json_int_t)step));
    CHECK_EQ(holders_of(&p), 0);
    CHECK_TEXT(admit(&c, "wait-admit", owner, 2, 0, &own), "HOLD");
    json_t *m = client_ask(&c, step_message(owner, 32));
    CHECK_TEXT(text_at(m, "verdict"), "nested");
    json_decref(m);
    client_close(&c);
    owner_kill(owner);
    place_stop(&p, SIGTERM);
}

static void what_a_step_may_not_be(void)
{
    struct place p;
    struct client c;
    uint64_t run, step;
    place_make(&p);
    place_ready(&p, 4);
    client_open(&c, &p);
    pid_t owner = owner_make();
    pid_t other = owner_make();
    expect_error(&c, step_message(owner, 0), "usage");
    expect_error(&c, step_message(owner, -1), "usage");
    json_t *m = admit_message("run", owner, 2, 0, -1);
    json_object_set_new(m, "step", json_integer(5));
    expect_error(&c, m, "usage");
    CHECK_TEXT(ask_step(&c, owner, 41, &step), "HOLD");
    ack(&c, step);
    expect_error(&c, step_message(other, 41), "usage"); /* somebody else's */
    CHECK_EQ(holders_of(&p), 1);
    CHECK_TEXT(admit(&c, "run", other, 2, 0, &run), "HOLD");
    expect_error(&c, json_pack("{s:s,s:I}", "op", "release", "ticket", (json_int_t)run), "busy");
    expect_error(&c, json_pack("{s:s,s:s}", "op", "release", "ticket", "41"), "usage");
    m = client_ask(&c, json_pack("{s:s,s:i}", "op", "release", "ticket", 999999));
    CHECK_EQ(number_at(m, "released"), 0);
    json_decref(m);
    CHECK_EQ(holders_of(&p), 2);
    client_close(&c);
    owner_kill(owner);
    owner_kill(other);
    place_stop(&p, SIGTERM);
}

static void a2_resize_books_what_fits_and_nothing_else(void)
{
    struct place p;
    struct client c;
    uint64_t a, b;
    place_make(&p);
    place_ready(&p, 4);
    set_config(&p, "floor-mb", "0");
    set_config(&p, "budget-mb", "100");
    client_open(&c, &p);
    pid_t one = owner_make();
    pid_t two = owner_make();
    CHECK_TEXT(admit(&c, "run", one, 2, 40, &a), "HOLD");
    CHECK_TEXT(admit(&c, "run", two, 2, 40, &b), "HOLD");
    expect_error(&c, resize(a, 61), "no-room");
    expect_error(&c, resize(a, 101), "never-fits");
    expect_error(&c, resize(a, -1), "usage");
    expect_error(&c, resize(999999, 1), "gone");
    expect_error(&c, json_pack("{s:s,s:I}", "op", "resize", "ticket", (json_int_t)a), "usage");
    tell(&p, resize(a, 60));
    expect_error(&c, resize(b, 41), "no-room");
    place_stop(&p, SIGKILL); /* as the store has it */
    client_close(&c);
    place_start(&p);
    client_open(&c, &p);
    expect_error(&c, resize(b, 41), "no-room");
    tell(&p, resize(a, 0));
    tell(&p, resize(b, 100));
    client_close(&c);
    owner_kill(one);
    owner_kill(two);
    place_stop(&p, SIGTERM);
}

int main(void)
{
    RUN(a4_all_steps_of_a_process_end_with_it);
    RUN(a8_a_step_is_known_again_by_its_number);
    RUN(a_step_beside_the_ticket_of_its_process);
    RUN(what_a_step_may_not_be);
    RUN(a2_resize_books_what_fits_and_nothing_else);
    return 0;
}
