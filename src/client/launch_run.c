/* SPDX-License-Identifier: Apache-2.0
 *
 * tg_launch_run: a command under a ticket of its own, from a program that may have many threads. The child
 * that will be the command is forked first and owns the ticket (A4); it makes async-signal-safe calls alone:
 * it sleeps until this process says that its turn has come, or ends, and executes. This process asks on its
 * behalf. run.h does it the other way round, for a program with one thread.
 */
#include "client/turn.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "client/lookup.h"
#include "proto/words.h"

#define SHELL "/bin/sh"

/* What the child is told: run, with these two lines in the environment; granted is empty otherwise: end. */
struct go {
    char ticket[sizeof(TG_ENV_TICKET) + TG_TICKET_ENV_BYTES];
    char granted[sizeof(TG_ENV_GRANTED) + 24];
};

/* All that the child needs is made before the fork. */
struct job {
    char path[TG_PATH_BYTES];
    char *const *argv;
    char **by_shell; /* the same for a file that only the shell understands */
    char **env;      /* two lines free at the end for what go says */
    size_t n_env;
    struct go go;
    int ends[2]; /* a socket pair: ours, the child's */
    int parent;  /* a pidfd of this process */
    int *failed; /* shared: why execve failed, written by the child before it ends */
    sigset_t mask;
    pid_t child;
};

static bool is_ours(const char *line)
{
    return strncmp(line, TG_ENV_TICKET "=", sizeof(TG_ENV_TICKET)) == 0 ||
           strncmp(line, TG_ENV_GRANTED "=", sizeof(TG_ENV_GRANTED)) == 0;
}

static int copy_words(struct job *j)
{
    size_t n = 0;
    size_t n_argv = 0;
    while (environ && environ[n])
        n++;
    while (j->argv[n_argv])
        n_argv++;
    j->env = calloc(n + 3, sizeof(*j->env));
    j->by_shell = calloc(n_argv + 3, sizeof(*j->by_shell));
    if (!j->env || !j->by_shell)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        if (!is_ours(environ[i]))
            j->env[j->n_env++] = environ[i];
    }
    j->by_shell[0] = (char *)SHELL;
    j->by_shell[1] = j->path;
    for (size_t i = 1; i < n_argv; i++)
        j->by_shell[i + 1] = j->argv[i];
    return 0;
}

static int open_ends(struct job *j)
{
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, j->ends))
        return -errno;
    for (int i = 0; i < 2; i++) {
        j->ends[i] = tg_fd_above_stdio(j->ends[i]);
        if (j->ends[i] < 0)
            return j->ends[i];
    }
    j->parent = (int)syscall(SYS_pidfd_open, getpid(), 0); /* close-on-exec by itself */
    if (j->parent < 0)
        return -errno;
    j->parent = tg_fd_above_stdio(j->parent);
    void *shared = mmap(NULL, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (j->parent < 0 || shared == MAP_FAILED)
        return -ENOMEM;
    j->failed = shared;
    return 0;
}

static void close_end(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void job_done(struct job *j)
{
    close_end(&j->ends[0]);
    close_end(&j->ends[1]);
    close_end(&j->parent);
    if (j->failed)
        munmap(j->failed, sizeof(int));
    free(j->by_shell);
    free(j->env);
    free(j);
}

static int job_new(char *const argv[], struct job **ret)
{
    struct job *j = calloc(1, sizeof(*j));
    if (!j)
        return tg_launch_failed(-ENOMEM, NULL);
    j->ends[0] = j->ends[1] = j->parent = -1;
    j->argv = argv;
    int err = tg_lookup_command(argv[0], j->path, sizeof(j->path));
    if (!err)
        err = copy_words(j);
    if (!err)
        err = open_ends(j);
    if (err) {
        job_done(j);
        return tg_launch_failed(err, NULL);
    }
    *ret = j;
    return 0;
}

/* ---- the child: nothing but async-signal-safe calls from here */

/* Sleeps until it is told; true: to run. The parent's end may be open in other children of it: its death is
 * seen by the pidfd. */
static bool is_told_to_run(struct job *j)
{
    struct pollfd p[2] = {{.fd = j->ends[1], .events = POLLIN}, {.fd = j->parent, .events = POLLIN}};
    while (poll(p, 2, -1) < 0)
        ;
    if (p[0].revents == 0)
        return false;
    return recv(j->ends[1], &j->go, sizeof(j->go), MSG_DONTWAIT) == (ssize_t)sizeof(j->go) &&
           j->go.granted[0] != '\0';
}

static void become_command(struct job *j)
{
    struct sigaction action;
    const struct sigaction normal = {.sa_handler = SIG_DFL};
    for (int sig = 1; sig <= SIGRTMAX; sig++) { /* a handler of the program's must not run here */
        if (sigaction(sig, NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            (void)sigaction(sig, &normal, NULL);
    }
    (void)pthread_sigmask(SIG_SETMASK, &j->mask, NULL);
    if (!is_told_to_run(j))
        _exit(125);
    j->env[j->n_env] = j->go.ticket;
    j->env[j->n_env + 1] = j->go.granted;
    execve(j->path, j->argv, j->env);
    if (errno == ENOEXEC)
        execve(SHELL, j->by_shell, j->env);
    *j->failed = errno;
    _exit(127);
}

/* ---- the parent */

static int start(struct job *j)
{
    sigset_t all;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &j->mask);
    j->child = fork();
    if (j->child == 0)
        become_command(j);
    int err = j->child < 0 ? -errno : 0;
    (void)pthread_sigmask(SIG_SETMASK, &j->mask, NULL);
    close_end(&j->ends[1]);
    return err ? tg_launch_failed(err, NULL) : 0;
}

/* Tells the child to run, or, with an empty word, to end. */
static void tell(struct job *j, const struct go *go)
{
    /* When it cannot be told it is dead already, and its status says so. */
    while (send(j->ends[0], go, sizeof(*go), MSG_NOSIGNAL) < 0 && errno == EINTR)
        ;
}

static int reap(struct job *j, int *ret_status, uint64_t *ret_peak_mb)
{
    struct rusage used;
    while (wait4(j->child, ret_status, 0, &used) < 0) {
        if (errno != EINTR)
            return tg_launch_failed(-ECHILD, "somebody else has taken the command's wait status");
    }
    *ret_peak_mb = used.ru_maxrss > 0 ? (uint64_t)used.ru_maxrss / 1024 : 0;
    return 0;
}

/* The broker sees the end by itself; this adds how it was, also beside the store, for the next broker. */
static void report(const struct tg_launch *launch, const struct tg_admit_answer *answer, int status,
                   uint64_t peak_mb)
{
    struct tg_client c = launch->model;
    const struct tg_word word = {.status = status,
                                 .peak_mb = peak_mb,
                                 .ended_boot_ms = tg_clock_boot_ms(),
                                 .ended_wall_ms = tg_clock_wall_ms()};
    bool kept = tg_words_append(c.paths.state_dir, answer->env, &word) == 0;
    json_t *done = json_pack("{s:s,s:I,s:i,s:I,s:b,s:b}", "op", "done", "ticket", (json_int_t)answer->ticket,
                             "status", status, "peak_mb", (json_int_t)peak_mb, "kept", kept, "quiet", 1);
    c.may_start = false;
    if (done)
        tg_client_tell(&c, done);
    json_decref(done);
    tg_client_done(&c);
}

static int run(const struct tg_launch *launch, struct job *j, const struct tg_admit_answer *answer,
               int *ret_status)
{
    struct go go = {0};
    uint64_t peak_mb;
    int status;
    snprintf(go.ticket, sizeof(go.ticket), TG_ENV_TICKET "=%s", answer->env);
    snprintf(go.granted, sizeof(go.granted), TG_ENV_GRANTED "=%llu",
             (unsigned long long)answer->granted_boot_ns);
    tell(j, &go);
    int err = reap(j, &status, &peak_mb);
    if (err)
        return err;
    if (strcmp(answer->verdict, "nested") != 0)
        report(launch, answer, status, peak_mb);
    if (*j->failed)
        return tg_launch_failed(-*j->failed, NULL);
    *ret_status = status;
    return 0;
}

/* The child ends without having run. err stays the error. */
static int give_up(struct job *j, int err)
{
    static const struct go end = {.granted = ""};
    uint64_t peak_mb;
    int status;
    char text[TG_CLIENT_TEXT_BYTES];
    snprintf(text, sizeof(text), "%s", tg_launch_error());
    tell(j, &end);
    (void)reap(j, &status, &peak_mb);
    return tg_launch_failed(err, err == -ETIME ? "waited too long for its turn" : text);
}

static int run_job(struct tg_launch *launch, struct job *j, struct tg_admit_ask *ask, uint64_t wait_ms,
                   int *ret_status)
{
    struct tg_turn turn;
    ask->kind = "run";
    ask->pid = j->child;
    uint64_t deadline = wait_ms == 0 ? 0 : tg_deadline_ns(wait_ms);
    int err = tg_turn_begin(&turn, launch, ask, NULL, NULL);
    if (err)
        return give_up(j, err);
    err = tg_turn_wait(&turn, deadline);
    err = err ? give_up(j, err == -ETIMEDOUT ? -ETIME : err) : run(launch, j, &turn.answer, ret_status);
    tg_turn_done(&turn);
    return err;
}

/* The command in one line, for people and to learn by. */
static void join_words(char *const argv[], char *to, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; argv[i] && used < size - 1; i++) {
        int n = snprintf(to + used, size - used, "%s%s", i ? " " : "", argv[i]);
        used += n > 0 ? (size_t)n : 0;
    }
}

int tg_launch_run(struct tg_launch *launch, const struct tg_launch_options *options, char *const argv[],
                  uint64_t wait_ms, int *ret_status)
{
    struct tg_admit_ask ask;
    struct job *j = NULL;
    char cmd[512] = "";
    char cwd[TG_PATH_BYTES];
    if (!argv || !argv[0])
        return tg_launch_failed(-EINVAL, "argv has no command");
    join_words(argv, cmd, sizeof(cmd));
    int err = tg_launch_ask(launch, options, cmd, &ask);
    if (!err)
        err = job_new(argv, &j);
    if (err)
        return err;
    ask.cwd = getcwd(cwd, sizeof(cwd));
    err = start(j);
    if (!err)
        err = run_job(launch, j, &ask, wait_ms, ret_status);
    job_done(j);
    return err;
}
