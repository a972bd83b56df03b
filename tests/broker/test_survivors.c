/* SPDX-License-Identifier: Apache-2.0
 * What a command leaves behind holds its ticket (A4; rows L14, L16, L20, W8), and who detached on purpose
 * does not; also when the broker dies in between. */
#include <sqlite3.h>

#include "jobs.h"

#define SAY(name) "echo $! >$D/" name ".t; mv $D/" name ".t $D/" name "; "

static bool holder_says(const struct place *p, const char *key, int64_t value)
{
    json_t *s = status_of(p);
    bool yes = json_array_size(at(s, "holders")) == 1;
    if (yes) {
        json_t *v = json_object_get(at(s, "holders.0"), key);
        yes = json_is_boolean(v) ? json_is_true(v) == (value != 0)
                                 : json_is_integer(v) && json_integer_value(v) == value;
    }
    json_decref(s);
    return yes;
}

/* For a script that waits for it: until [ -e $D/NAME ]; do sleep 0.01; done */
static void put_mark(const struct place *p, const char *name)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", p->dir, name);
    FILE *f = fopen(path, "we");
    CHECK(f && fclose(f) == 0);
}

static int64_t ask_store(const struct place *p, const char *query)
{
    sqlite3 *db;
    sqlite3_stmt *st;
    CHECK(sqlite3_open_v2(p->store, &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK);
    CHECK(sqlite3_prepare_v2(db, query, -1, &st, NULL) == SQLITE_OK);
    CHECK(sqlite3_step(st) == SQLITE_ROW);
    int64_t n = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    sqlite3_close(db);
    return n;
}

/* The command ends, a child of it does not: the ticket stays, and the next in line waits for that child. The
 * status that the wrapper told is in the history at the end. */
static void l16_a_child_that_outlives_the_command_keeps_the_ticket(void)
{
    struct place p;
    struct tree_job a, b;
    place_make(&p);
    place_ready(&p, 1);
    tree_job_run(&a, &p, "sleep 300 & " SAY("child") "exit 3");
    CHECK_EQ(waitpid(a.pid, NULL, 0), a.pid);
    pid_t child = await_pid(&p, "child");
    EVENTUALLY(holder_says(&p, "main_ended", 1));
    EVENTUALLY(holder_says(&p, "survivors", 1));
    CHECK(holder_says(&p, "let_go", 0));
    json_t *s = status_of(&p);
    CHECK_TEXT(text_at(s, "holders.0.liveness"), "known");
    json_decref(s);
    json_t *m = client_ask(&a.c, json_pack("{s:s,s:I,s:i,s:i}", "op", "done", "ticket", (json_int_t)a.ticket,
                                           "status", 3 << 8, "left", 1));
    CHECK_EQ(number_at(m, "released"), 0);
    json_decref(m);
    CHECK(holder_says(&p, "main_status", 3 << 8));
    tree_job_make(&b, &p, "exit 0");
    CHECK_TEXT(tree_job_ask(&b), "WAIT");
    CHECK(client_quiet(&b.c, 50));
    end_pid(child);
    CHECK_TEXT(next_state(&b.c), "HOLD");
    owner_kill(b.pid);
    EVENTUALLY(holders_of(&p) == 0);
    client_close(&a.c);
    client_close(&b.c);
    place_stop(&p, SIGTERM);
    CHECK_EQ(ask_store(&p, "SELECT status FROM history WHERE id=1 AND outcome='done'"), 3 << 8);
}

/* Who opened a session of its own has detached on purpose: it holds nothing, and lives on. Both shapes at
 * once: it is counted while another one keeps the ticket. */
static void l16_who_left_the_session_is_let_go(void)
{
    struct place p;
    struct tree_job a;
    place_make(&p);
    place_ready(&p, 1);
    tree_job_run(&a, &p, "setsid sleep 300 & " SAY("daemon") "exit 0");
    CHECK_EQ(waitpid(a.pid, NULL, 0), a.pid);
    EVENTUALLY(holders_of(&p) == 0);
    pid_t daemon = await_pid(&p, "daemon");
    CHECK(lives(daemon));
    end_pid(daemon);
    client_close(&a.c);

    /* It may take its time about it: the command has long ended. */
    tree_job_run(&a, &p,
                 "bash -c 'until [ -e $D/leave ]; do sleep 0.01; done; exec setsid sleep 300' & " SAY(
                     "late") "exit 0");
    CHECK_EQ(waitpid(a.pid, NULL, 0), a.pid);
    EVENTUALLY(holder_says(&p, "main_ended", 1));
    put_mark(&p, "leave");
    daemon = await_pid(&p, "late");
    EVENTUALLY(holders_of(&p) == 0);
    CHECK(lives(daemon));
    end_pid(daemon);
    client_close(&a.c);

    tree_job_run(
        &a, &p,
        "setsid bash -c 'echo >$D/in; sleep 300' & " SAY(
            "daemon2") "until [ -e $D/in ]; do sleep 0.01; done; sleep 300 & " SAY("child") "exit 0");
    CHECK_EQ(waitpid(a.pid, NULL, 0), a.pid);
    EVENTUALLY(holder_says(&p, "main_ended", 1));
    EVENTUALLY(holder_says(&p, "survivors", 1));
    json_t *s = status_of(&p);
    CHECK(number_at(s, "holders.0.let_go") >= 1); /* the shell and its sleep */
    json_decref(s);
    end_pid(await_pid(&p, "child"));
    EVENTUALLY(holders_of(&p) == 0);
    daemon = pid_in(&p, "daemon2");
    CHECK(lives(daemon));
    kill(-daemon, SIGKILL);
    client_close(&a.c);
    place_stop(&p, SIGTERM);
}

/* A survivor that starts another one and ends hands the ticket on, by mark or by descent (an empty
 * environment). */
static void a_survivors_child_is_found_before_the_ticket_goes(void)
{
    struct place p;
    struct tree_job a;
    place_make(&p);
    place_ready(&p, 1);
    tree_job_run(
        &a, &p,
        "(until [ -e $D/go ]; do sleep 0.01; done; sleep 300 & " SAY("second") ") & " SAY("first") "exit 0");
    CHECK_EQ(waitpid(a.pid, NULL, 0), a.pid);
    EVENTUALLY(holder_says(&p, "main_ended", 1));
    put_mark(&p, "go");
    pid_t second = await_pid(&p, "second");
    pid_t first = pid_in(&p, "first");
    EVENTUALLY(!lives(first));
    pause_ms(50);
    EVENTUALLY(holder_says(&p, "survivors", 1));
    end_pid(second);
    EVENTUALLY(holders_of(&p) == 0);
    client_close(&a.c);
    place_stop(&p, SIGTERM);
}

static void next_broker(struct place *p)
{
    place_stop(p, SIGKILL);
    CHECK_TEXT(place_start(p), "ready");
}

/* L20: the broker is killed while survivors hold: the next one adopts them. It is killed, the command ends
 * while nobody looks, and leaves somebody: likewise. What left nobody is gone. */
static void l20_survivors_are_adopted(void)
{
    struct place p;
    struct tree_job a, b, c;
    place_make(&p);
    place_ready(&p, 3);
    tree_job_run(&a, &p, "sleep 300 & " SAY("child") "exit 5");
    CHECK_EQ(waitpid(a.pid, NULL, 0), a.pid);
    EVENTUALLY(holder_says(&p, "main_ended", 1));
    json_t *m = client_ask(
        &a.c, json_pack("{s:s,s:I,s:i}", "op", "done", "ticket", (json_int_t)a.ticket, "status", 5 << 8));
    json_decref(m);
    next_broker(&p);
    CHECK(holder_says(&p, "main_ended", 1));
    EVENTUALLY(holder_says(&p, "survivors", 1));
    CHECK(holder_says(&p, "main_status", 5 << 8));
    end_pid(await_pid(&p, "child"));
    EVENTUALLY(holders_of(&p) == 0);

    tree_job_run(&b, &p, "exec sleep 300"); /* ended below, leaves nobody */
    tree_job_run(&c, &p, "sleep 300 & " SAY("left") "wait");
    pid_t left = await_pid(&p, "left");
    CHECK_EQ(holders_of(&p), 2);
    place_stop(&p, SIGKILL);
    owner_kill(b.pid);
    owner_kill(c.pid);
    CHECK_TEXT(place_start(&p), "ready");
    CHECK(holder_says(&p, "main_ended", 1));
    json_t *s = status_of(&p);
    CHECK_EQ(number_at(s, "holders.0.ticket"), c.ticket);
    json_decref(s);
    end_pid(left);
    EVENTUALLY(holders_of(&p) == 0);
    client_close(&a.c);
    client_close(&b.c);
    client_close(&c.c);
    place_stop(&p, SIGTERM);
    CHECK_EQ(ask_store(&p, "SELECT status FROM history WHERE id=1 AND outcome='done'"), 5 << 8);
    CHECK_EQ(ask_store(&p, "SELECT count(*) FROM history WHERE outcome='lost'"), 1);
}

/* The number of a command that has ended may be given to somebody else while its survivors hold: nothing of
 * the ticket concerns that one. L14: asked for as often as one likes, nothing is reaped. */
static void l14_the_owners_number_is_free_again(void)
{
    struct place p;
    struct tree_job a;
    place_make(&p);
    place_ready(&p, 2);
    tree_job_run(&a, &p, "sleep 300 & " SAY("child") "exit 0");
    await_pid(&p, "child");
    siginfo_t info;
    CHECK(waitid(P_PID, (id_t)a.pid, &info, WEXITED | WNOWAIT) == 0);
    EVENTUALLY(holder_says(&p, "main_ended", 1));
    for (int i = 0; i < 20; i++)
        json_decref(status_of(&p));
    json_t *m = client_ask(&a.c, json_pack("{s:s,s:i}", "op", "release", "pid", (int)a.pid));
    CHECK_EQ(number_at(m, "released"), 0); /* that process owns nothing */
    CHECK_EQ(number_at(m, "left"), (int64_t)a.ticket);
    json_decref(m);
    CHECK_EQ(holders_of(&p), 1);
    CHECK_EQ(waitpid(a.pid, NULL, 0), a.pid); /* still ours to reap */
    end_pid(pid_in(&p, "child"));
    EVENTUALLY(holders_of(&p) == 0);
    client_close(&a.c);
    place_stop(&p, SIGTERM);
}

/* A launch from inside the tree still passes under the ticket that its survivors hold (A6). */
static void a6_survivors_launch_under_their_ticket(void)
{
    struct place p;
    struct tree_job a;
    struct client c;
    place_make(&p);
    place_ready(&p, 1);
    tree_job_run(&a, &p, "sleep 300 & " SAY("child") "exit 0");
    CHECK_EQ(waitpid(a.pid, NULL, 0), a.pid);
    EVENTUALLY(holder_says(&p, "main_ended", 1));
    pid_t inner = owner_make();
    client_open(&c, &p);
    json_t *m = admit_message("run", inner, 0, 10, -1);
    json_object_set_new(m, "parent", json_string(a.env));
    m = client_ask(&c, m);
    CHECK_TEXT(text_at(m, "verdict"), "nested");
    json_decref(m);
    /* But a job that is to outlive it all has a ticket of its own. */
    m = admit_message("run", inner, 0, 10, -1);
    json_object_set_new(m, "parent", json_string(a.env));
    json_object_set_new(m, "detached", json_true());
    m = client_ask(&c, m);
    CHECK_TEXT(text_at(m, "state"), "WAIT");
    json_decref(m);
    end_pid(await_pid(&p, "child"));
    CHECK_TEXT(next_state(&c), "HOLD");
    owner_kill(inner);
    EVENTUALLY(holders_of(&p) == 0);
    client_close(&a.c);
    client_close(&c);
    place_stop(&p, SIGTERM);
}

static pid_t wrapped_holder(const struct place *p, struct client *c, pid_t *wrapper, uint64_t *ticket)
{
    pid_t owner = owner_make_wrapped(wrapper, false);
    client_open(c, p);
    json_t *m = admit_message("run", owner, 0, 10, -1);
    json_object_set_new(m, "reaper", json_true());
    m = client_ask(c, m);
    CHECK_TEXT(text_at(m, "state"), "HOLD");
    *ticket = (uint64_t)number_at(m, "ticket");
    json_decref(m);
    return owner;
}

/* The broker comes too late to ask the wrapper's children: it takes the wrapper's word, and does without one
 * that never comes. */
static void the_word_of_a_wrapper_that_has_ended(void)
{
    struct place p;
    struct client c;
    pid_t wrapper;
    uint64_t ticket;
    place_make(&p);
    place_ready(&p, 1);
    for (int word = 0; word < 3; word++) {
        pid_t owner = wrapped_holder(&p, &c, &wrapper, &ticket);
        kill(p.broker, SIGSTOP);
        end_pid(owner);
        CHECK_EQ(waitpid(wrapper, NULL, 0), wrapper);
        if (word < 2)
            client_send(&c, json_pack("{s:s,s:I,s:i,s:i}", "op", "done", "ticket", (json_int_t)ticket,
                                      "status", 9, "left", word));
        kill(p.broker, SIGCONT);
        if (word < 2) {
            json_t *m = client_recv(&c);
            CHECK_EQ(number_at(m, "released"), 1);
            json_decref(m);
            CHECK_EQ(holders_of(&p), 0);
        }
        EVENTUALLY(holders_of(&p) == 0);
        client_close(&c);
    }
    /* In time, nothing need be awaited. */
    pid_t owner = wrapped_holder(&p, &c, &wrapper, &ticket);
    kill(wrapper, SIGSTOP);
    end_pid(owner);
    EVENTUALLY(holders_of(&p) == 0);
    kill(wrapper, SIGCONT);
    CHECK_EQ(waitpid(wrapper, NULL, 0), wrapper);
    client_close(&c);
    place_stop(&p, SIGTERM);
}

int main(void)
{
    RUN(l16_a_child_that_outlives_the_command_keeps_the_ticket);
    RUN(l16_who_left_the_session_is_let_go);
    RUN(a_survivors_child_is_found_before_the_ticket_goes);
    RUN(l20_survivors_are_adopted);
    RUN(l14_the_owners_number_is_free_again);
    RUN(the_word_of_a_wrapper_that_has_ended);
    RUN(a6_survivors_launch_under_their_ticket);
    return 0;
}
