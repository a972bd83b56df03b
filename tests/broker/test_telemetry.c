/* SPDX-License-Identifier: Apache-2.0
 * What the operating system tells, and does not: admission on a fixture in place of /proc, and memory that is
 * booked once. Rows S2, S4, S6 of the cases; rule A2. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "machine.h"

/* S4: what cannot be read refuses. */
static void s4_missing_telemetry_admits_nobody(void)
{
    struct place p;
    struct client c;
    char machine[200];
    place_make(&p);
    make_machine(&p, machine, sizeof(machine));
    p.machine_root = machine;
    put_file(machine, "proc/loadavg", "0.10 0.20 0.30 1/100 1234\n");
    place_ready(&p, 2);
    set_config(&p, "load", "2");
    client_open(&c, &p);
    pid_t a = owner_make();
    show_process(machine, a);
    CHECK_TEXT(admit(&c, "run", a, 0, 10, NULL), "HOLD");
    owner_kill(a);
    EVENTUALLY(holders_of(&p) == 0);
    static const char *const hidden[][3] = {{"proc/loadavg", NULL, "load-unknown"},
                                            {"proc/loadavg", "garbage\n", "load-unknown"},
                                            {"proc/meminfo", NULL, "memory-unknown"},
                                            {"proc/meminfo", "MemTotal: many kB\n", "memory-unknown"}};
    char good[4096] = "";
    for (size_t i = 0; i < 4; i++) {
        char path[300];
        snprintf(path, sizeof(path), "%s/%s", machine, hidden[i][0]);
        FILE *f = fopen(path, "r");
        CHECK(f);
        size_t n = fread(good, 1, sizeof(good) - 1, f);
        good[n] = '\0';
        fclose(f);
        put_file(machine, hidden[i][0], hidden[i][1]);
        pid_t b = owner_make();
        show_process(machine, b);
        json_t *m = client_ask(&c, admit_message("run", b, 0, 10, -1));
        CHECK_TEXT(text_at(m, "state"), "WAIT");
        CHECK_TEXT(text_at(m, "why"), hidden[i][2]);
        json_decref(m);
        CHECK(client_quiet(&c, 150));
        put_file(machine, hidden[i][0], good);
        CHECK_TEXT(next_state(&c), "HOLD"); /* no event tells: the re-check does */
        owner_kill(b);
        EVENTUALLY(holders_of(&p) == 0);
    }
    client_close(&c);
    place_stop(&p, SIGTERM);
}

static int64_t resident_of(const struct place *p, pid_t pid)
{
    json_t *s = status_of(p);
    int64_t mb = -1;
    size_t i;
    json_t *h;
    json_array_foreach(at(s, "holders"), i, h)
    {
        if (number_at(h, "pid") == pid)
            mb = number_at(h, "resident_mb");
    }
    json_decref(s);
    return mb;
}

/* A2: a holder counts with what it has not grown into yet; what it has grown into is missing from what is
 * available already, and is not booked a second time. */
static void a2_each_byte_is_booked_once(void)
{
    struct place p;
    struct client c;
    char machine[200];
    place_make(&p);
    make_machine(&p, machine, sizeof(machine));
    p.machine_root = machine;
    place_ready(&p, 10);
    set_config(&p, "floor-mb", "100");
    say_memory(machine, 1100); /* 1000 to give */
    client_open(&c, &p);
    pid_t a = growing_owner(150), b = owner_make();
    show_process(machine, a);
    show_process(machine, b);
    CHECK_TEXT(admit(&c, "run", a, 0, 200, NULL), "HOLD");
    json_t *m = client_ask(&c, admit_message("run", b, 0, 900, -1));
    CHECK_TEXT(text_at(m, "state"), "WAIT"); /* 1000 - 200 promised */
    CHECK_TEXT(text_at(m, "why"), "memory");
    json_decref(m);
    /* It grows by 150 and the machine shows so: 850 to give, 50 promised, 800 left as before. */
    say_memory(machine, 950);
    kill(a, SIGUSR1);
    EVENTUALLY(resident_of(&p, a) >= 150);
    CHECK(client_quiet(&c, 1300));
    json_t *s = status_of(&p);
    int64_t reserved = number_at(s, "gates.memory.reserved_mb");
    CHECK(reserved > 30 && reserved <= 50);
    CHECK_EQ(number_at(s, "gates.memory.booked_mb"), 200);
    json_decref(s);
    /* Somebody else gives 150 back: 1000 to give, 50 promised. */
    say_memory(machine, 1100);
    CHECK_TEXT(next_state(&c), "HOLD");
    owner_kill(a);
    owner_kill(b);
    client_close(&c);
    place_stop(&p, SIGTERM);
}

/* A holder below a holder: the inner one's bytes are its own, not the outer one's too. */
static void a2_trees_within_trees_count_once(void)
{
    struct place p;
    struct client c;
    int fds[2];
    pid_t inner;
    place_make(&p);
    place_ready(&p, 10);
    client_open(&c, &p);
    CHECK(pipe(fds) == 0);
    pid_t test = getpid(), outer = fork();
    CHECK(outer >= 0);
    if (outer == 0) {
        end_with_parent(test);
        pid_t child = growing_owner(60);
        if (write(fds[1], &child, sizeof(child)) != sizeof(child))
            _exit(1);
        for (;;)
            pause();
    }
    CHECK(read(fds[0], &inner, sizeof(inner)) == sizeof(inner));
    close(fds[0]);
    close(fds[1]);
    CHECK_TEXT(admit(&c, "run", inner, 0, 100, NULL), "HOLD");
    CHECK_TEXT(admit(&c, "wait-admit", outer, 0, 100, NULL), "HOLD"); /* asked later: no nesting */
    kill(inner, SIGUSR1);
    EVENTUALLY(resident_of(&p, inner) >= 60);
    CHECK(resident_of(&p, outer) < 30);
    owner_kill(outer);
    client_close(&c);
    place_stop(&p, SIGTERM);
}

/* The load gate, on a machine that becomes idle without telling anybody. */
static void waiting_for_load_ends_when_the_load_does(void)
{
    struct place p;
    struct client c;
    char machine[200];
    place_make(&p);
    make_machine(&p, machine, sizeof(machine));
    p.machine_root = machine;
    put_file(machine, "proc/loadavg", "9.50 5.00 2.00 12/100 1234\n");
    place_ready(&p, 2);
    set_config(&p, "load", "1.5");
    client_open(&c, &p);
    pid_t a = owner_make();
    show_process(machine, a);
    json_t *m = client_ask(&c, admit_message("run", a, 0, 1, -1));
    CHECK_TEXT(text_at(m, "why"), "load");
    CHECK(strstr(text_at(m, "text"), "9.50 now, must be below 1.31 (the gate closed at 1.50)"));
    json_decref(m);
    CHECK(client_quiet(&c, 200));
    put_file(machine, "proc/loadavg", "0.50 4.00 2.00 1/100 1234\n");
    uint64_t begin = now_ms();
    CHECK_TEXT(next_state(&c), "HOLD");
    CHECK(now_ms() - begin < SOON_MS);
    owner_kill(a);
    client_close(&c);
    place_stop(&p, SIGTERM);
}

/* L10: whether the owner lives cannot be told any more, and never will be: status says so, and after a while
 * its slot is free. */
static void l10_an_owner_of_whom_nobody_can_tell_is_given_up(void)
{
    struct place p;
    struct client c;
    char machine[200], link[300], stat_name[64];
    place_make(&p);
    make_machine(&p, machine, sizeof(machine));
    p.machine_root = machine;
    p.liveness = "1";
    place_ready(&p, 1);
    client_open(&c, &p);
    pid_t a = owner_make(), b = owner_make();
    show_process(machine, a);
    show_process(machine, b);
    CHECK_TEXT(admit(&c, "run", a, 0, 10, NULL), "HOLD");
    place_stop(&p, SIGKILL);
    client_close(&c);
    snprintf(link, sizeof(link), "%s/proc/%d", machine, (int)a);
    CHECK(unlink(link) == 0 && mkdir(link, 0700) == 0);
    snprintf(stat_name, sizeof(stat_name), "proc/%d/stat", (int)a);
    put_file(machine, stat_name, "no answer\n");
    CHECK_TEXT(place_start(&p), "ready");
    json_t *s = status_of(&p);
    CHECK_TEXT(text_at(s, "holders.0.liveness"), "unknown");
    json_decref(s);
    client_open(&c, &p);
    CHECK_TEXT(admit(&c, "run", b, 0, 10, NULL), "WAIT");
    CHECK_TEXT(next_state(&c), "HOLD");
    s = client_ask(&c, json_pack("{s:s}", "op", "history"));
    CHECK_TEXT(text_at(s, "rows.0.outcome"), "liveness unknown");
    json_decref(s);
    owner_kill(b);
    owner_kill(a);
    client_close(&c);
    place_stop(&p, SIGTERM);
}

/* S2: a pid that has come again is told by its start time, also while some descriptor says that a process of
 * that number lives. */
static void s2_another_start_time_is_another_process(void)
{
    struct place p;
    struct client c;
    char machine[200];
    uint64_t first, again, other;
    place_make(&p);
    make_machine(&p, machine, sizeof(machine));
    p.machine_root = machine;
    place_ready(&p, 2);
    set_config(&p, "floor-mb", "0");
    client_open(&c, &p);
    pid_t pid = owner_make();
    show_process_started_later(machine, pid, 0);
    CHECK_TEXT(admit(&c, "run", pid, 0, 10, &first), "HOLD");
    json_t *m = client_ask(&c, admit_message("run", pid, 0, 10, -1));
    CHECK_TEXT(text_at(m, "verdict"), "already");
    again = (uint64_t)number_at(m, "ticket");
    CHECK_EQ(again, first);
    json_decref(m);
    show_process_started_later(machine, pid, 500);
    m = client_ask(&c, admit_message("run", pid, 0, 10, -1));
    CHECK_TEXT(text_at(m, "state"), "HOLD");
    CHECK_TEXT(text_at(m, "verdict"), "ordered"); /* a ticket of its own, not that of the dead */
    other = (uint64_t)number_at(m, "ticket");
    CHECK(other > first);
    json_decref(m);
    /* That of the dead goes when a look beside the loop has found nobody who belongs to it. */
    EVENTUALLY(holders_of(&p) == 1);
    json_t *s = status_of(&p);
    CHECK_EQ(number_at(s, "holders.0.ticket"), other);
    json_decref(s);
    owner_kill(pid);
    EVENTUALLY(holders_of(&p) == 0);
    client_close(&c);
    place_stop(&p, SIGTERM);
}

int main(void)
{
    RUN(s2_another_start_time_is_another_process);
    RUN(s4_missing_telemetry_admits_nobody);
    RUN(l10_an_owner_of_whom_nobody_can_tell_is_given_up);
    RUN(a2_each_byte_is_booked_once);
    RUN(a2_trees_within_trees_count_once);
    RUN(waiting_for_load_ends_when_the_load_does);
    return 0;
}
