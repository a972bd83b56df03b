/* SPDX-License-Identifier: Apache-2.0
 * cancel ends the whole tree, in every state, and says what survived (V5; rows L17, L19, W5). */
#include <dirent.h>
#include <sys/stat.h>

#include "jobs.h"

#define SAY(name) "echo $! >$D/" name ".t; mv $D/" name ".t $D/" name "; "

static json_t *cancel_now(const struct place *p, uint64_t ticket, uint64_t grace_ms)
{
    struct client c;
    client_open(&c, p);
    client_send(&c, cancel_message(ticket, grace_ms));
    json_t *m = client_recv(&c);
    client_close(&c);
    return m;
}

static void must_be_done(json_t *m)
{
    CHECK_TEXT(text_at(m, "state"), "DONE");
    CHECK(!json_object_get(m, "survivors"));
    json_decref(m);
}

/* L17, L19: children, grandchildren, one that ignores TERM, a daemon that forked twice and opened a session,
 * one with an empty environment: nobody is left when the answer comes. */
static void l17_l19_cancel_ends_the_whole_tree(void)
{
    static const char *const names[] = {"child", "deaf", "daemon", "bare"};
    struct place p;
    struct tree_job a;
    place_make(&p);
    place_ready(&p, 1);
    tree_job_run(&a, &p,
                 "sleep 300 & " SAY("child") "(trap '' TERM; sleep 300; sleep 300) & " SAY(
                     "deaf") "(setsid bash -c '(sleep 300 & " SAY("daemon") ")' &); env -i /bin/sleep 300 "
                                                                            "& " SAY("bare") "wait");
    for (size_t i = 0; i < 4; i++)
        CHECK(lives(await_pid(&p, names[i])));
    must_be_done(cancel_now(&p, a.ticket, 100));
    for (size_t i = 0; i < 4; i++)
        CHECK(!lives(pid_in(&p, names[i])));
    CHECK(!lives(a.pid));
    CHECK_EQ(waitpid(a.pid, NULL, 0), a.pid);
    CHECK_EQ(holders_of(&p), 0);
    client_close(&a.c);
    place_stop(&p, SIGTERM);
}

/* TERM first: who handles it ends in his own way, also when he was stopped (TERM and CONT). */
static void w5_term_comes_before_kill_and_wakes_the_stopped(void)
{
    struct place p;
    struct tree_job a;
    int status;
    place_make(&p);
    place_ready(&p, 1);
    tree_job_run(&a, &p, "trap 'exit 41' TERM; sleep 0.01 & " SAY("up") "while :; do sleep 0.02; done");
    await_pid(&p, "up");
    kill(a.pid, SIGSTOP);
    CHECK_EQ(waitpid(a.pid, &status, WUNTRACED), a.pid);
    must_be_done(cancel_now(&p, a.ticket, 50000));
    CHECK_EQ(waitpid(a.pid, &status, 0), a.pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 41);
    client_close(&a.c);

    tree_job_run(&a, &p, "trap '' TERM; sleep 0.01 & " SAY("deaf") "while :; do sleep 0.02; done");
    await_pid(&p, "deaf");
    must_be_done(cancel_now(&p, a.ticket, 0)); /* no grace: KILL at once */
    CHECK_EQ(waitpid(a.pid, &status, 0), a.pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    client_close(&a.c);
    place_stop(&p, SIGTERM);
}

/* V5: one call for every state. */
static void v5_cancel_in_every_state(void)
{
    struct place p;
    struct tree_job run, waiter;
    struct client c;
    uint64_t shell, parked;
    place_make(&p);
    place_ready(&p, 2);
    client_open(&c, &p);
    pid_t sh = owner_make(), gave_up = owner_make();
    CHECK_TEXT(admit(&c, "wait-admit", sh, 0, 1, &shell), "HOLD");
    client_send(&c, json_pack("{s:s,s:I}", "op", "ack", "ticket", (json_int_t)shell));
    tree_job_run(&run, &p, "sleep 300 & " SAY("child") "exit 0");
    CHECK_EQ(waitpid(run.pid, NULL, 0), run.pid);
    pid_t child = await_pid(&p, "child");
    tree_job_make(&waiter, &p, "exit 0");
    CHECK_TEXT(tree_job_ask(&waiter), "WAIT");
    CHECK_TEXT(admit(&c, "wait-admit", gave_up, 0, 1, &parked), "WAIT");
    json_t *m = client_ask(&c, json_pack("{s:s,s:I}", "op", "park", "ticket", (json_int_t)parked));
    CHECK_TEXT(text_at(m, "state"), "PARKED");
    json_decref(m);

    must_be_done(cancel_now(&p, parked, 1000));
    must_be_done(cancel_now(&p, waiter.ticket, 1000));
    CHECK_TEXT(next_state(&waiter.c), "cancelled");
    must_be_done(cancel_now(&p, shell, 1000));
    CHECK(lives(sh)); /* the owner of wait-admit may be a shell that does other things */
    CHECK(lives(child));
    must_be_done(cancel_now(&p, run.ticket, 1000)); /* its command has ended, what it left has not */
    CHECK(!lives(child));
    m = cancel_now(&p, run.ticket, 1000);
    CHECK_TEXT(text_at(m, "error.code"), "gone");
    json_decref(m);
    m = client_ask(&c, json_pack("{s:s,s:I,s:s}", "op", "cancel", "ticket", (json_int_t)1, "grace_ms", "x"));
    CHECK_TEXT(text_at(m, "error.code"), "usage");
    json_decref(m);
    CHECK_EQ(holders_of(&p), 0);
    CHECK_EQ(waiters_of(&p), 0);
    owner_kill(sh);
    owner_kill(gave_up);
    owner_kill(waiter.pid);
    client_close(&c);
    client_close(&run.c);
    client_close(&waiter.c);
    place_stop(&p, SIGTERM);
}

/* A tree that grows while it is ended: at most 400 children, one after the other, each in a session of its
 * own. */
static void l19_a_tree_that_forks_all_the_time_is_emptied(void)
{
    struct place p;
    struct tree_job a;
    place_make(&p);
    place_ready(&p, 1);
    tree_job_run(
        &a, &p,
        "trap '' TERM; for i in {1..400}; do (trap '' TERM; exec setsid sleep 300) & [ $i = 20 ] && { " SAY(
            "some") "}; done; wait");
    pid_t some = await_pid(&p, "some");
    /* A machine on which that takes longer than the broker tries says who is left, and is asked again. */
    json_t *m = cancel_now(&p, a.ticket, 20);
    for (int i = 0; i < 20 && strcmp(text_at(m, "state"), "HOLD") == 0; i++) {
        CHECK(json_array_size(at(m, "survivors")) > 0);
        json_decref(m);
        m = cancel_now(&p, a.ticket, 0);
    }
    must_be_done(m);
    CHECK(!lives(some));
    CHECK_EQ(waitpid(a.pid, NULL, 0), a.pid);
    char command[160];
    snprintf(command, sizeof(command), "TIDEGATE_TICKET=%s", a.env);
    pid_t grep = fork();
    if (grep == 0) {
        execl("/bin/sh", "sh", "-c",
              "! grep -lsaF -- \"$0\" /proc/[0-9]*/environ | grep -v \"/$$/\" | grep -q .", command,
              (char *)NULL);
        _exit(99);
    }
    int status;
    CHECK_EQ(waitpid(grep, &status, 0), grep);
    CHECK_EQ(status, 0);
    client_close(&a.c);
    place_stop(&p, SIGTERM);
}

/* Two ask, one of them goes away, one asks for less grace: whoever is still there is answered once. */
static void everybody_who_asked_is_answered(void)
{
    struct place p;
    struct tree_job a;
    struct client c[3];
    place_make(&p);
    place_ready(&p, 1);
    tree_job_run(&a, &p, "trap '' TERM; sleep 0.01 & " SAY("deaf") "while :; do sleep 0.02; done");
    await_pid(&p, "deaf");
    for (int i = 0; i < 3; i++) {
        client_open(&c[i], &p);
        client_send(&c[i], cancel_message(a.ticket, 60000));
    }
    client_send(&c[0], json_pack("{s:s}", "op", "status")); /* answers keep their order */
    CHECK(client_quiet(&c[0], 50));
    json_t *s = status_of(&p);
    CHECK(json_is_true(at(s, "holders.0.cancelled")));
    json_decref(s);
    client_close(&c[1]);
    must_be_done(cancel_now(&p, a.ticket, 0));
    must_be_done(client_recv(&c[0]));
    s = client_recv(&c[0]);
    CHECK_EQ(json_array_size(at(s, "holders")), 0);
    json_decref(s);
    must_be_done(client_recv(&c[2]));
    CHECK_EQ(waitpid(a.pid, NULL, 0), a.pid);
    client_close(&c[0]);
    client_close(&c[2]);
    client_close(&a.c);
    place_stop(&p, SIGTERM);
}

enum { NOBODY = 65534, DEAF_MAX = 40 };

/* Sleeps until the test, which has the other end, is gone. */
static void sleep_deaf(int life)
{
    char byte;
    while (read(life, &byte, 1) < 0)
        ;
    _exit(0);
}

/* Under a broker that is not root: a holder with n children that belong to root, which the broker cannot end.
 * False where the test is not root. */
static bool deaf_tree(struct place *p, const char *cancel_limit, struct tree_job *ret, size_t n,
                      pid_t children[DEAF_MAX])
{
    static int life[2] = {-1, -1}; /* the writing end is the test's alone */
    int fds[2];
    if (geteuid() != 0) {
        fprintf(stderr, "  left out: only root can make a child that its user cannot end\n");
        return false;
    }
    place_make(p);
    p->run_as = NOBODY;
    p->cancel = cancel_limit;
    CHECK(chmod(p->dir, 0755) == 0);
    CHECK(mkdir(p->runtime, 0700) == 0 && chown(p->runtime, NOBODY, NOBODY) == 0);
    CHECK(mkdir(p->state, 0700) == 0 && chown(p->state, NOBODY, NOBODY) == 0);
    place_ready(p, 1);
    close(life[0]);
    close(life[1]);
    CHECK(pipe2(life, O_CLOEXEC) == 0 && pipe2(fds, O_CLOEXEC) == 0);
    *ret = (struct tree_job){0};
    ret->pid = fork();
    if (ret->pid == 0) {
        pid_t made[DEAF_MAX] = {0};
        close(life[1]);
        for (size_t i = 0; i < n; i++) {
            made[i] = fork();
            if (made[i] == 0)
                sleep_deaf(life[0]);
        }
        CHECK(setuid(NOBODY) == 0);
        CHECK(write(fds[1], made, sizeof(made)) == sizeof(made));
        for (;;)
            pause();
    }
    CHECK(read(fds[0], children, DEAF_MAX * sizeof(pid_t)) == DEAF_MAX * sizeof(pid_t));
    close(fds[0]);
    close(fds[1]);
    client_open(&ret->c, p);
    CHECK_TEXT(tree_job_ask(ret), "HOLD");
    return true;
}

/* What cannot be ended is named. */
static void what_survives_is_named(void)
{
    struct place p;
    struct tree_job a;
    pid_t children[DEAF_MAX];
    if (!deaf_tree(&p, "300", &a, 1, children))
        return;
    json_t *m = cancel_now(&p, a.ticket, 0);
    CHECK_TEXT(text_at(m, "state"), "HOLD");
    CHECK_EQ(json_array_size(at(m, "survivors")), 1);
    CHECK_EQ(number_at(m, "survivors.0"), children[0]);
    json_decref(m);
    CHECK_EQ(waitpid(a.pid, NULL, 0), a.pid);
    end_pid(children[0]);
    EVENTUALLY(holders_of(&p) == 0);
    client_close(&a.c);
    place_stop(&p, SIGTERM);
}

/* Who dies slowly is not given up: the limit counts from the last death. One dies a second here, of six,
 * under a limit of three. On a machine that stands still for longer than that nothing is shown. */
static void l19_a_tree_that_dies_slowly_is_waited_for(void)
{
    enum { TREE = 6, EACH_MS = 1000, TIMES = 5 };
    bool late = true;
    for (int round = 0; round < TIMES && late; round++) {
        struct place p;
        struct tree_job a;
        struct client c;
        pid_t children[DEAF_MAX];
        if (!deaf_tree(&p, "3000", &a, TREE, children))
            return;
        client_open(&c, &p);
        client_send(&c, cancel_message(a.ticket, 0));
        late = false;
        for (int i = 0; i < TREE; i++) {
            uint64_t before = now_ms();
            pause_ms(EACH_MS);
            end_pid(children[i]);
            late |= now_ms() - before > 2 * EACH_MS;
        }
        json_t *m = client_recv(&c);
        if (late)
            json_decref(m);
        else
            must_be_done(m);
        CHECK_EQ(waitpid(a.pid, NULL, 0), a.pid);
        EVENTUALLY(holders_of(&p) == 0);
        client_close(&c);
        client_close(&a.c);
        place_stop(&p, SIGTERM);
    }
    if (late)
        not_shown("this machine stands still for seconds");
}

/* But not for ever, as a tree that replaces its dead would have it: here one dies every 120 ms, which is
 * progress under a limit of 200, for twice as long as twelve limits. */
static void l19_a_tree_that_dies_for_ever_has_a_bound(void)
{
    enum { EACH_MS = 120, TIMES = 3 };
    bool answered = false;
    for (int round = 0; round < TIMES && !answered; round++) {
        struct place p;
        struct tree_job a;
        struct client c;
        pid_t children[DEAF_MAX];
        size_t dead = 0;
        if (!deaf_tree(&p, "200", &a, DEAF_MAX, children))
            return;
        client_open(&c, &p);
        client_send(&c, cancel_message(a.ticket, 0));
        while (dead < DEAF_MAX && client_quiet(&c, EACH_MS))
            end_pid(children[dead++]);
        json_t *m = client_recv(&c);
        answered = strcmp(text_at(m, "state"), "HOLD") == 0;
        fprintf(stderr, "  answered after %zu deaths\n", dead);
        json_decref(m);
        while (dead < DEAF_MAX)
            end_pid(children[dead++]);
        CHECK_EQ(waitpid(a.pid, NULL, 0), a.pid);
        EVENTUALLY(holders_of(&p) == 0);
        client_close(&c);
        client_close(&a.c);
        place_stop(&p, SIGTERM);
    }
    CHECK(answered);
}

/* Processor time of all threads of a process, or of its first one alone, in ns; 0 where that is not counted.
 */
static uint64_t run_ns(pid_t pid, bool first)
{
    char path[64];
    uint64_t sum = 0;
    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    DIR *dir = opendir(path);
    for (const struct dirent *e; dir && (e = readdir(dir)) != NULL;) {
        uint64_t ns = 0;
        char name[320];
        if (e->d_name[0] == '.' || (first && strtol(e->d_name, NULL, 10) != pid))
            continue;
        snprintf(name, sizeof(name), "%s/%.20s/schedstat", path, e->d_name);
        FILE *f = fopen(name, "r");
        if (f && fscanf(f, "%" SCNu64, &ns) == 1)
            sum += ns;
        if (f)
            fclose(f);
    }
    if (dir)
        closedir(dir);
    return sum;
}

/* Whom a cancellation concerns is found beside the loop: with many processes on the machine it is a thread
 * that works, not the loop. */
static void the_loop_does_not_look(void)
{
    enum { MANY = 150, TIMES = 10 };
    static pid_t others[MANY];
    struct place p;
    struct client c;
    place_make(&p);
    place_ready(&p, TIMES);
    pid_t parent = owners_make_many(others, MANY);
    pid_t jobs[TIMES];
    uint64_t tickets[TIMES];
    client_open(&c, &p);
    for (int i = 0; i < TIMES; i++) {
        jobs[i] = owner_make();
        CHECK_TEXT(admit(&c, "run", jobs[i], 0, 1, &tickets[i]), "HOLD");
    }
    uint64_t loop_ns = run_ns(p.broker, true), all_ns = run_ns(p.broker, false);
    for (int i = 0; i < TIMES; i++)
        must_be_done(cancel_now(&p, tickets[i], 5000));
    loop_ns = run_ns(p.broker, true) - loop_ns;
    all_ns = run_ns(p.broker, false) - all_ns;
    fprintf(stderr, "  the loop worked %.1f ms of %.1f\n", (double)loop_ns / 1e6, (double)all_ns / 1e6);
    CHECK(all_ns == 0 || loop_ns * 2 < all_ns);
    for (int i = 0; i < TIMES; i++)
        CHECK_EQ(waitpid(jobs[i], NULL, 0), jobs[i]);
    kill(parent, SIGKILL);
    CHECK_EQ(waitpid(parent, NULL, 0), parent);
    client_close(&c);
    place_stop(&p, SIGTERM);
}

int main(void)
{
    RUN(l17_l19_cancel_ends_the_whole_tree);
    RUN(w5_term_comes_before_kill_and_wakes_the_stopped);
    RUN(v5_cancel_in_every_state);
    RUN(l19_a_tree_that_forks_all_the_time_is_emptied);
    RUN(everybody_who_asked_is_answered);
    RUN(what_survives_is_named);
    RUN(l19_a_tree_that_dies_slowly_is_waited_for);
    RUN(l19_a_tree_that_dies_for_ever_has_a_bound);
    RUN(the_loop_does_not_look);
    return shown_all();
}
