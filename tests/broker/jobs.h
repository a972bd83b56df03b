/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of process trees: an owner that asks for a ticket by a client of the test, and becomes a shell
 * script with the ticket's mark in its environment once it holds. */
#ifndef TG_TESTS_BROKER_JOBS_H
#define TG_TESTS_BROKER_JOBS_H

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

struct tree_job {
    struct client c;
    pid_t pid;
    uint64_t ticket;
    int go; /* its mark goes in here */
    char env[128];
};

/* The process: waits for its mark, then runs the script in a shell that knows the place's directory as $D. */
static inline void tree_job_make(struct tree_job *j, const struct place *p, const char *script)
{
    int fds[2];
    *j = (struct tree_job){0};
    CHECK(pipe2(fds, O_CLOEXEC) == 0);
    j->pid = fork();
    CHECK(j->pid >= 0);
    if (j->pid == 0) {
        char mark[128] = "";
        close(fds[1]);
        if (read(fds[0], mark, sizeof(mark) - 1) <= 0)
            _exit(0); /* the test has ended */
        setenv("TIDEGATE_TICKET", mark, 1);
        setenv("D", p->dir, 1);
        syscall(SYS_close_range, 3u, ~0u, 0);
        execl("/bin/bash", "bash", "-c", script, (char *)NULL);
        _exit(99);
    }
    close(fds[0]);
    j->go = fds[1];
    client_open(&j->c, p);
}

/* Asks; the state of the first answer. */
static inline const char *tree_job_ask(struct tree_job *j)
{
    static char state[64];
    json_t *m = client_ask(&j->c, admit_message("run", j->pid, 0, 10, -1));
    CHECK(json_is_true(json_object_get(m, "ok")));
    snprintf(state, sizeof(state), "%s", text_at(m, "state"));
    j->ticket = (uint64_t)number_at(m, "ticket");
    if (strcmp(state, "HOLD") == 0)
        snprintf(j->env, sizeof(j->env), "%s", text_at(m, "env"));
    json_decref(m);
    return state;
}

static inline void tree_job_go(struct tree_job *j)
{
    CHECK(j->env[0]);
    CHECK(write(j->go, j->env, strlen(j->env)) == (ssize_t)strlen(j->env));
    close(j->go);
    j->go = -1;
}

/* All of it: holds and runs. */
static inline void tree_job_run(struct tree_job *j, const struct place *p, const char *script)
{
    tree_job_make(j, p, script);
    CHECK_TEXT(tree_job_ask(j), "HOLD");
    tree_job_go(j);
}

/* The number a script wrote to a file of the place ("echo $! >$D/NAME.t; mv $D/NAME.t $D/NAME"). */
static inline pid_t pid_in(const struct place *p, const char *name)
{
    char path[256];
    int pid = 0;
    snprintf(path, sizeof(path), "%s/%s", p->dir, name);
    FILE *f = fopen(path, "re");
    if (!f)
        return 0;
    if (fscanf(f, "%d", &pid) != 1)
        pid = 0;
    fclose(f);
    return pid;
}

static inline pid_t await_pid(const struct place *p, const char *name)
{
    EVENTUALLY(pid_in(p, name) > 0);
    return pid_in(p, name);
}

/* Whether a process lives (a zombie does not). */
static inline bool lives(pid_t pid)
{
    char path[64], line[512], *state;
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    bool got = fgets(line, sizeof(line), f) != NULL;
    fclose(f);
    state = got ? strrchr(line, ')') : NULL;
    return state && state[2] != 'Z' && state[2] != 'X';
}

static inline void end_pid(pid_t pid)
{
    CHECK(pid > 1);
    kill(pid, SIGKILL);
}

static inline json_t *cancel_message(uint64_t ticket, uint64_t grace_ms)
{
    return json_pack("{s:s,s:I,s:I}", "op", "cancel", "ticket", (json_int_t)ticket, "grace_ms",
                     (json_int_t)grace_ms);
}

#endif
