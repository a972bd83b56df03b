/* SPDX-License-Identifier: Apache-2.0
 * Who is admitted when: order, caps, memory, backfill, parking, nesting, over a real socket with real
 * processes as owners. Rows S1, S2, S5 to S9, R1, R7, R10, O11 of the cases; rules A1 to A7, A10. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

/* One waiter: a connection and a process. */
struct job {
    struct client c;
    pid_t pid;
    uint64_t ticket;
};

static const char *ask(struct job *j, const struct place *p, const char *kind, int64_t prio, int64_t est_mb)
{
    client_open(&j->c, p);
    j->pid = owner_make();
    return admit(&j->c, kind, j->pid, prio, est_mb, &j->ticket);
}

static void end(struct job *j)
{
    owner_kill(j->pid);
    client_close(&j->c);
}

static void ack(struct job *j)
{
    client_send(&j->c, json_pack("{s:s,s:I}", "op", "ack", "ticket", (json_int_t)j->ticket));
}

static json_t *message_of(const char *op, uint64_t ticket)
{
    return json_pack("{s:s,s:I}", "op", op, "ticket", (json_int_t)ticket);
}

static void s1_many_lives_later_the_cap_still_holds(void)
{
    struct place p;
    struct client c;
    place_make(&p);
    place_ready(&p, 2);
    client_open(&c, &p);
    for (int i = 0; i < 300; i++) {
        uint64_t ticket;
        pid_t pid = owner_make();
        CHECK_TEXT(admit(&c, "run", pid, 0, 10, &ticket), "HOLD");
        owner_kill(pid);
        json_t *reply = client_ask(
            &c, json_pack("{s:s,s:I,s:i}", "op", "done", "ticket", (json_int_t)ticket, "status", 0));
        CHECK(json_is_true(json_object_get(reply, "ok")));
        json_decref(reply);
    }
    struct job j[3];
    CHECK_TEXT(ask(&j[0], &p, "run", 0, 10), "HOLD");
    CHECK_TEXT(ask(&j[1], &p, "run", 0, 10), "HOLD");
    CHECK_TEXT(ask(&j[2], &p, "run", 0, 10), "WAIT");
    CHECK_EQ(holders_of(&p), 2);
    CHECK_EQ(waiters_of(&p), 1);
    end(&j[1]);
    CHECK_TEXT(next_state(&j[2].c), "HOLD");
    CHECK_EQ(holders_of(&p), 2);
    end(&j[0]);
    end(&j[2]);
    EVENTUALLY(holders_of(&p) == 0);
    client_close(&c);
    place_stop(&p, SIGTERM);
}

/* A new process with this very number, or one with another where the kernel's counter cannot be set. */
static pid_t owner_with_number(pid_t number)
{
    FILE *f = fopen("/proc/sys/kernel/ns_last_pid", "w");
    if (f) {
        fprintf(f, "%d", (int)number - 1);
        fclose(f);
    }
    pid_t pid = owner_make();
    if (pid != number)
        fprintf(stderr, "  (the number could not be made to come again: not tested in full)\n");
    return pid;
}

/* A record dies and its number goes to another process: it is somebody else, who has nothing. Once the death
 * has been seen before the other asks, and once both come at the same moment, the question first. */
static void s2_a_reused_pid_is_somebody_else(void)
{
    struct place p;
    struct job first;
    struct client c;
    place_make(&p);
    place_ready(&p, 1);
    client_open(&c, &p);
    for (int together = 0; together < 2; together++) {
        CHECK_TEXT(ask(&first, &p, "wait-admit", 0, 10), "HOLD");
        ack(&first);
        EVENTUALLY(holders_of(&p) == 1);
        if (together) {
            CHECK(kill(p.broker, SIGSTOP) == 0);
            client_send(&c, admit_message("wait-admit", first.pid, 0, 10, -1));
        }
        owner_kill(first.pid);
        pid_t second = owner_with_number(first.pid);
        if (together)
            CHECK(kill(p.broker, SIGCONT) == 0);
        else
            client_send(&c, admit_message("wait-admit", second, 0, 10, -1));
        json_t *m = client_recv(&c);
        if (second == first.pid || !together) {
            CHECK_TEXT(text_at(m, "state"), "HOLD");
            CHECK_TEXT(text_at(m, "verdict"), "ordered");
            CHECK(number_at(m, "ticket") != (int64_t)first.ticket);
            EVENTUALLY(holders_of(&p) == 1);
        }
        json_decref(m);
        owner_kill(second);
        EVENTUALLY(holders_of(&p) == 0);
        client_close(&first.c);
    }
    client_close(&c);
    place_stop(&p, SIGTERM);
}

static void a1_priority_then_arrival(void)
{
    struct place p;
    struct job h, j[4];
    static const int64_t prio[] = {0, -5, 7, 0};
    static const int order[] = {2, 0, 3, 1};
    place_make(&p);
    place_ready(&p, 1);
    CHECK_TEXT(ask(&h, &p, "run", 0, 10), "HOLD");
    for (int i = 0; i < 4; i++)
        CHECK_TEXT(ask(&j[i], &p, "run", prio[i], 10), "WAIT");
    json_t *s = status_of(&p);
    for (int i = 0; i < 4; i++) {
        char path[32];
        snprintf(path, sizeof(path), "waiters.%d.ticket", i);
        CHECK_EQ(number_at(s, path), j[order[i]].ticket);
        snprintf(path, sizeof(path), "waiters.%d.ahead", i);
        CHECK_EQ(number_at(s, path), i);
        snprintf(path, sizeof(path), "waiters.%d.prio", i);
        CHECK_EQ(number_at(s, path), prio[order[i]]);
    }
    json_decref(s);
    end(&h);
    for (int i = 0; i < 4; i++) {
        CHECK_TEXT(next_state(&j[order[i]].c), "HOLD");
        for (int k = i + 1; k < 4; k++)
            CHECK(client_quiet(&j[order[k]].c, 0));
        end(&j[order[i]]);
    }
    place_stop(&p, SIGTERM);
}

/* S5, A3: a stream of small jobs passes a big waiter a bounded number of times. */
static void s5_small_jobs_do_not_starve_a_big_one(void)
{
    struct place p;
    struct job big, small[40];
    place_make(&p);
    place_ready(&p, 2);
    set_config(&p, "backfill-mb", "100");
    set_config(&p, "budget-mb", "1000");
    struct job h;
    CHECK_TEXT(ask(&h, &p, "run", 0, 900), "HOLD");
    CHECK_TEXT(ask(&big, &p, "run", 0, 950), "WAIT"); /* waits for the budget */
    int passed = 0;
    for (int i = 0; i < 40; i++) {
        const char *state = ask(&small[i], &p, "run", 0, 100);
        if (strcmp(state, "HOLD") != 0) {
            CHECK_TEXT(state, "WAIT");
            CHECK(passed == i);
            json_t *s = status_of(&p);
            CHECK_TEXT(text_at(s, "waiters.1.why"), "gate-closed");
            CHECK_EQ(number_at(s, "waiters.0.overtaken"), passed);
            json_decref(s);
            end(&h);
            CHECK_TEXT(next_state(&big.c), "HOLD");
            CHECK(client_quiet(&small[i].c, 50)); /* the budget is full again */
            end(&big);
            CHECK_TEXT(next_state(&small[i].c), "HOLD");
            end(&small[i]);
            break;
        }
        passed++;
        CHECK_EQ(holders_of(&p), 2); /* never above the cap */
        end(&small[i]);
        EVENTUALLY(holders_of(&p) == 1);
    }
    CHECK_EQ(passed, 16);
    place_stop(&p, SIGTERM);
}

/* S6, A2: ten jobs asked for at once, each would take a third of what is there: three are admitted, although
 * none of them has grown yet. */
static void s6_two_grants_never_see_the_same_memory(void)
{
    struct place p;
    struct job j[10];
    place_make(&p);
    place_ready(&p, 100);
    json_t *s = status_of(&p);
    int64_t room = number_at(s, "gates.memory.available_mb") - number_at(s, "gates.memory.floor_mb");
    json_decref(s);
    if (room < 400)
        SKIP("this machine has only %lld MB above the floor", (long long)room);
    int64_t est = room * 29 / 100; /* 3 fit, 4 do not, and what happens elsewhere meanwhile may be 10 % */
    int held = 0;
    for (int i = 0; i < 10; i++) {
        client_open(&j[i].c, &p);
        j[i].pid = owner_make();
        client_send(&j[i].c, admit_message("run", j[i].pid, 0, est, -1));
    }
    for (int i = 0; i < 10; i++)
        held += strcmp(next_state(&j[i].c), "HOLD") == 0;
    CHECK_EQ(held, 3);
    s = status_of(&p);
    CHECK_TEXT(text_at(s, "waiters.0.why"), "memory");
    CHECK(number_at(s, "gates.memory.reserved_mb") > 3 * est - 100);
    json_decref(s);
    pause_ms(250); /* re-checks do not let in more */
    CHECK_EQ(holders_of(&p), 3);
    for (int i = 0; i < 10; i++)
        end(&j[i]);
    place_stop(&p, SIGTERM);
}

/* S7, A7: who gave up keeps its place but blocks nobody, and resumes. */
static void s7_a_waiter_that_left_blocks_nobody(void)
{
    struct place p;
    struct job h, a, b;
    place_make(&p);
    place_ready(&p, 1);
    CHECK_TEXT(ask(&h, &p, "run", 0, 10), "HOLD");
    CHECK_TEXT(ask(&a, &p, "wait-admit", 0, 10), "WAIT");
    CHECK_TEXT(ask(&b, &p, "wait-admit", 0, 10), "WAIT");
    json_t *reply = client_ask(&a.c, message_of("park", a.ticket));
    CHECK_TEXT(text_at(reply, "state"), "PARKED");
    json_decref(reply);
    client_close(&a.c);
    end(&h);
    CHECK_TEXT(next_state(&b.c), "HOLD");
    ack(&b);
    uint64_t again;
    client_open(&a.c, &p);
    CHECK_TEXT(admit(&a.c, "wait-admit", a.pid, 0, 10, &again), "WAIT");
    CHECK_EQ(again, a.ticket);
    struct job c;
    CHECK_TEXT(ask(&c, &p, "run", 0, 10), "WAIT");
    json_t *s = status_of(&p);
    CHECK_EQ(number_at(s, "waiters.0.ticket"), a.ticket); /* its old place */
    json_decref(s);
    client_close(&a.c); /* a connection that ends parks too */
    EVENTUALLY(({
        json_t *now = status_of(&p);
        bool parked = strcmp(text_at(now, "waiters.1.state"), "PARKED") == 0;
        json_decref(now);
        parked;
    }));
    end(&b);
    CHECK_TEXT(next_state(&c.c), "HOLD");
    owner_kill(a.pid); /* a parked ticket goes with its owner */
    EVENTUALLY(waiters_of(&p) == 0);
    end(&c);
    place_stop(&p, SIGTERM);
}

/* S9, A10: two callers with caps of their own, 1 and 8: each caps the heavy holders it accepts beside itself;
 * the broker's slots cap everybody. */
static void s9_a_callers_cap_concerns_itself(void)
{
    struct place p;
    struct job h;
    struct client one, eight;
    place_make(&p);
    place_ready(&p, 4);
    set_config(&p, "backfill-mb", "50");
    CHECK_TEXT(ask(&h, &p, "run", 0, 60), "HOLD");
    pid_t a = owner_make(), b = owner_make();
    client_open(&one, &p);
    client_open(&eight, &p);
    json_t *m = client_ask(&one, admit_message("wait-admit", a, 0, 60, 1));
    CHECK_TEXT(text_at(m, "state"), "WAIT");
    CHECK_TEXT(text_at(m, "why"), "max-conc");
    json_decref(m);
    m = client_ask(&eight, admit_message("wait-admit", b, 0, 60, 8));
    CHECK_TEXT(text_at(m, "state"), "HOLD"); /* not blocked by the cap of another */
    CHECK_TEXT(text_at(m, "verdict"), "ordered");
    json_decref(m);
    owner_kill(b);
    CHECK(client_quiet(&one, 50));
    end(&h);
    CHECK_TEXT(next_state(&one), "HOLD");
    owner_kill(a);
    client_close(&one);
    client_close(&eight);
    place_stop(&p, SIGTERM);
}

/* R1: 64 at once, cap 2. The high-water mark is what the broker granted and had not taken back. */
static void r1_sixty_four_at_once_two_at_a_time(void)
{
    struct place p;
    static struct job j[64];
    place_make(&p);
    place_ready(&p, 2);
    for (int i = 0; i < 64; i++) {
        client_open(&j[i].c, &p);
        j[i].pid = owner_make();
    }
    for (int i = 0; i < 64; i++)
        client_send(&j[i].c, admit_message("run", j[i].pid, 0, 1, -1));
    int holding[2];
    int held = 0;
    bool was_held[64] = {false};
    for (int i = 0; i < 64; i++) {
        if (strcmp(next_state(&j[i].c), "HOLD") != 0)
            continue;
        CHECK(held < 2);
        holding[held++] = i;
        was_held[i] = true;
    }
    CHECK_EQ(held, 2);
    /* One leaves, exactly one comes, always in order of arrival. */
    for (int next = 0; next < 64; next++) {
        while (next < 64 && was_held[next])
            next++;
        end(&j[holding[next % 2]]);
        if (next == 64)
            break;
        CHECK_TEXT(next_state(&j[next].c), "HOLD");
        if (next + 1 < 64 && !was_held[next + 1])
            CHECK(client_quiet(&j[next + 1].c, 0));
        holding[next % 2] = next;
        was_held[next] = true;
        CHECK_EQ(holders_of(&p), 2);
    }
    place_stop(&p, SIGTERM);
}

/* R7: giving up is never a grant; R10: who waits holds nothing. */
static void r7_r10_waiting_and_giving_up_hold_nothing(void)
{
    struct place p;
    struct job h, a;
    place_make(&p);
    place_ready(&p, 3);
    set_config(&p, "budget-mb", "100");
    CHECK_TEXT(ask(&h, &p, "run", 0, 90), "HOLD");
    CHECK_TEXT(ask(&a, &p, "wait-admit", 0, 90), "WAIT");
    json_t *s = status_of(&p);
    CHECK_EQ(number_at(s, "gates.slots.held"), 1);
    CHECK_TEXT(text_at(s, "waiters.0.why"), "budget");
    json_decref(s);
    json_t *reply = client_ask(&a.c, message_of("park", a.ticket));
    CHECK_TEXT(text_at(reply, "state"), "PARKED");
    json_decref(reply);
    end(&h);
    CHECK(client_quiet(&a.c, 100)); /* parked: not granted behind its back */
    EVENTUALLY(holders_of(&p) == 0);
    end(&a);
    place_stop(&p, SIGTERM);
}

static void o11_a_new_priority_changes_the_order_at_once(void)
{
    struct place p;
    struct job h, a, b;
    place_make(&p);
    place_ready(&p, 1);
    CHECK_TEXT(ask(&h, &p, "run", 0, 10), "HOLD");
    CHECK_TEXT(ask(&a, &p, "run", 0, 10), "WAIT");
    CHECK_TEXT(ask(&b, &p, "run", 0, 10), "WAIT");
    tell(&p, json_pack("{s:s,s:I,s:i}", "op", "prio", "ticket", (json_int_t)b.ticket, "prio", 3));
    json_t *s = status_of(&p);
    CHECK_EQ(number_at(s, "waiters.0.ticket"), b.ticket);
    CHECK_TEXT(text_at(s, "waiters.0.level"), "high");
    json_decref(s);
    end(&h);
    CHECK_TEXT(next_state(&b.c), "HOLD");
    CHECK(client_quiet(&a.c, 20));
    end(&b);
    CHECK_TEXT(next_state(&a.c), "HOLD");
    end(&a);
    place_stop(&p, SIGTERM);
}

/* A grant that nobody acknowledged goes back into its place; an acknowledged one stays. */
static void a7_a_grant_nobody_heard_of_is_parked(void)
{
    struct place p;
    struct job a, b;
    place_make(&p);
    place_ready(&p, 1);
    CHECK_TEXT(ask(&a, &p, "wait-admit", 0, 10), "HOLD");
    CHECK_TEXT(ask(&b, &p, "wait-admit", 0, 10), "WAIT");
    client_close(&a.c);
    CHECK_TEXT(next_state(&b.c), "HOLD");
    ack(&b);
    client_close(&b.c);
    uint64_t ticket;
    client_open(&a.c, &p);
    CHECK_TEXT(admit(&a.c, "wait-admit", a.pid, 0, 10, &ticket), "WAIT");
    CHECK_EQ(ticket, a.ticket);
    CHECK_EQ(holders_of(&p), 1); /* b's stays although its connection ended */
    /* An owner that holds is told so, and takes no second slot. */
    client_open(&b.c, &p);
    json_t *m = client_ask(&b.c, admit_message("wait-admit", b.pid, 0, 10, -1));
    CHECK_TEXT(text_at(m, "verdict"), "already");
    CHECK_EQ(number_at(m, "ticket"), b.ticket);
    json_decref(m);
    CHECK_EQ(holders_of(&p), 1);
    tell(&p, json_pack("{s:s,s:i}", "op", "release", "pid", (int)b.pid));
    CHECK_TEXT(next_state(&a.c), "HOLD");
    /* Giving up when the grant is on its way: it stands. */
    json_t *reply = client_ask(&a.c, message_of("park", a.ticket));
    CHECK_TEXT(text_at(reply, "state"), "HOLD");
    json_decref(reply);
    end(&a);
    end(&b);
    place_stop(&p, SIGTERM);
}

/* A6: below a holder, by name or by descent, a launch passes; a stale name queues like anybody. */
static void a6_nested_launches_pass(void)
{
    struct place p;
    struct job h;
    struct client c;
    char env[128];
    place_make(&p);
    place_ready(&p, 1);
    client_open(&h.c, &p);
    h.pid = owner_make();
    json_t *m = client_ask(&h.c, admit_message("run", h.pid, 0, 10, -1));
    snprintf(env, sizeof(env), "%s", text_at(m, "env"));
    json_decref(m);

    client_open(&c, &p);
    pid_t other = owner_make();
    m = admit_message("run", other, 0, 10, -1);
    json_object_set_new(m, "parent", json_string(env));
    m = client_ask(&c, m);
    CHECK_TEXT(text_at(m, "verdict"), "nested");
    CHECK_TEXT(text_at(m, "env"), env);
    json_decref(m);
    static const char *const stale[] = {"999:00000000-0000-4000-8000-000000000000", "", ":", "x", "1:",
                                        "-1:00000000-0000-4000-8000-000000000000"};
    for (size_t i = 0; i < sizeof(stale) / sizeof(stale[0]); i++) {
        m = admit_message("run", other, 0, 10, -1);
        json_object_set_new(m, "parent", json_string(stale[i]));
        m = client_ask(&c, m);
        CHECK_TEXT(text_at(m, "state"), "WAIT");
        json_decref(m);
    }
    owner_kill(other);
    CHECK_TEXT(next_state(&c), "gone");

    /* By descent: a child of a holder. */
    int fds[2];
    pid_t grandchild;
    CHECK(pipe(fds) == 0);
    pid_t test = getpid(), holder = fork();
    CHECK(holder >= 0);
    if (holder == 0) {
        end_with_parent(test);
        pid_t child = owner_make();
        if (write(fds[1], &child, sizeof(child)) != sizeof(child))
            _exit(1);
        for (;;)
            pause();
    }
    CHECK(read(fds[0], &grandchild, sizeof(grandchild)) == sizeof(grandchild));
    close(fds[0]);
    close(fds[1]);
    end(&h);
    EVENTUALLY(holders_of(&p) == 0);
    CHECK_TEXT(admit(&c, "wait-admit", holder, 0, 10, NULL), "HOLD");
    m = client_ask(&c, admit_message("run", grandchild, 0, 10, -1));
    CHECK_TEXT(text_at(m, "verdict"), "nested");
    json_decref(m);
    CHECK_EQ(holders_of(&p), 1);
    /* A nested wrapper that reports an end does not end its parent. */
    json_t *s = status_of(&p);
    m = client_ask(&c, json_pack("{s:s,s:I,s:i}", "op", "done", "ticket",
                                 (json_int_t)number_at(s, "holders.0.ticket"), "status", 0));
    CHECK_TEXT(text_at(m, "error.code"), "busy");
    json_decref(m);
    json_decref(s);
    CHECK_EQ(holders_of(&p), 1);
    owner_kill(holder);
    client_close(&c);
    place_stop(&p, SIGTERM);
}

static void too_large_is_said_at_once_and_nothing_is_enqueued(void)
{
    struct place p;
    struct client c;
    place_make(&p);
    place_ready(&p, 2);
    client_open(&c, &p);
    pid_t pid = owner_make();
    CHECK_TEXT(admit(&c, "run", pid, 0, 1 << 30, NULL), "never-fits");
    json_t *m = admit_message("run", pid, 0, 1, -1);
    json_object_set_new(m, "slots", json_integer(3));
    m = client_ask(&c, m);
    CHECK_TEXT(text_at(m, "error.code"), "never-fits");
    json_decref(m);
    CHECK_EQ(waiters_of(&p), 0);
    /* A9: the rule that is named is the one that refuses. */
    set_config(&p, "budget-mb", "50");
    m = client_ask(&c, admit_message("run", pid, 0, 60, -1));
    CHECK_TEXT(text_at(m, "error.code"), "never-fits");
    CHECK(strstr(text_at(m, "error.text"), "budget") && strstr(text_at(m, "error.text"), "50 MB"));
    json_decref(m);
    set_config(&p, "budget-mb", "off");
    /* Without an estimate nothing is ever too large. */
    set_config(&p, "default-mb", "8T");
    m = client_ask(&c, admit_message("run", pid, 0, -1, -1));
    CHECK_TEXT(text_at(m, "state"), "WAIT"); /* all of the machine's memory is not free now */
    json_decref(m);
    json_t *s = status_of(&p);
    CHECK_TEXT(text_at(s, "waiters.0.estimate"), "default");
    json_decref(s);
    set_config(&p, "default-mb", "10");
    tell(&p, json_pack("{s:s,s:I}", "op", "cancel", "ticket", (json_int_t)1));
    CHECK_TEXT(next_state(&c), "cancelled");
    /* slots 0 is a pause: everybody waits, nobody is refused. */
    set_config(&p, "slots", "0");
    CHECK_TEXT(admit(&c, "run", pid, 0, 1, NULL), "WAIT");
    set_config(&p, "slots", "1");
    CHECK_TEXT(next_state(&c), "HOLD");
    owner_kill(pid);
    client_close(&c);
    place_stop(&p, SIGTERM);
}

/* A3: what needs nothing of what the front lacks goes by, uncounted; zero slots are allowed. */
static void being_blocked_on_one_resource_blocks_nobody_else(void)
{
    struct place p;
    struct job h, front, light;
    place_make(&p);
    place_ready(&p, 1);
    CHECK_TEXT(ask(&h, &p, "run", 0, 0), "HOLD");
    CHECK_TEXT(ask(&front, &p, "run", 0, 0), "WAIT");
    client_open(&light.c, &p);
    light.pid = owner_make();
    json_t *m = admit_message("run", light.pid, 0, 0, -1);
    json_object_set_new(m, "slots", json_integer(0));
    m = client_ask(&light.c, m);
    CHECK_TEXT(text_at(m, "state"), "HOLD");
    CHECK_TEXT(text_at(m, "verdict"), "backfill");
    json_decref(m);
    json_t *s = status_of(&p);
    CHECK_EQ(number_at(s, "waiters.0.overtaken"), 0);
    json_decref(s);
    end(&h);
    CHECK_TEXT(next_state(&front.c), "HOLD");
    end(&front);
    end(&light);
    place_stop(&p, SIGTERM);
}

int main(void)
{
    RUN(s1_many_lives_later_the_cap_still_holds);
    RUN(s2_a_reused_pid_is_somebody_else);
    RUN(a1_priority_then_arrival);
    RUN(s5_small_jobs_do_not_starve_a_big_one);
    RUN(s6_two_grants_never_see_the_same_memory);
    RUN(s7_a_waiter_that_left_blocks_nobody);
    RUN(s9_a_callers_cap_concerns_itself);
    RUN(r1_sixty_four_at_once_two_at_a_time);
    RUN(r7_r10_waiting_and_giving_up_hold_nothing);
    RUN(o11_a_new_priority_changes_the_order_at_once);
    RUN(a7_a_grant_nobody_heard_of_is_parked);
    RUN(a6_nested_launches_pass);
    RUN(too_large_is_said_at_once_and_nothing_is_enqueued);
    RUN(being_blocked_on_one_resource_blocks_nobody_else);
    return 0;
}
