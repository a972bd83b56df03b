/* SPDX-License-Identifier: Apache-2.0
 *
 * A bench that starts others leaves nobody behind, however it ends: by itself, by an error in the middle, by
 * `timeout`. bench_guard forks; the child is the bench from then on, and the parent waits for its end, ends
 * it when it is told to end, and then kills all that is left and removes the bench's place. It is the
 * subreaper of all of them, so that what its own parent left, a broker and the commands of a dead wrapper,
 * becomes its child too. Killed by SIGKILL it cannot do that: the bench then dies with it, and those that see
 * to it themselves; the broker ends when nobody is left that holds or waits.
 *
 * Call it before there are threads or children.
 */
#ifndef TG_BENCH_GUARD_H
#define TG_BENCH_GUARD_H

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BENCH_PLACE_BYTES = 128, BENCH_SWEEPS = 10000 };

static char *bench_guarded_place; /* shared with the guard */
static volatile sig_atomic_t bench_told;

static inline void bench_on_signal(int sig)
{
    if (sig != SIGCHLD)
        bench_told = sig;
}

/* Kills the children there are now: none of them has been reaped, so no number is anybody else's. False:
 * there are none. */
static inline bool bench_kill_children(void)
{
    char path[64];
    int pid;
    bool any = false;
    snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
    FILE *f = fopen(path, "re");
    while (f && fscanf(f, "%d", &pid) == 1) {
        if (pid > 1)
            kill(pid, SIGKILL);
        any = true;
    }
    if (f)
        fclose(f);
    return any;
}

static inline void bench_remove_place(void)
{
    extern char **environ;
    char rm[] = "rm", all[] = "-rf", end[] = "--";
    char *argv[] = {rm, all, end, bench_guarded_place, NULL};
    pid_t pid;
    if (bench_guarded_place[0] == '/' && posix_spawnp(&pid, rm, NULL, NULL, argv, environ) == 0)
        waitpid(pid, NULL, 0);
}

static inline _Noreturn void bench_mind(pid_t bench, const sigset_t *before)
{
    int status = 0, told = 0;
    for (bool over = false; !over;) { /* signals are taken in sigsuspend alone */
        pid_t pid;
        int s;
        while ((pid = waitpid(-1, &s, WNOHANG)) > 0) {
            over |= pid == bench;
            status = pid == bench ? s : status;
        }
        if (bench_told && !told && !over) {
            told = bench_told;
            kill(bench, SIGKILL);
        }
        if (!over)
            sigsuspend(before);
    }
    /* Whose parent is killed becomes a child, so again until there is none. */
    for (int i = 0; i < BENCH_SWEEPS && bench_kill_children(); i++) {
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        usleep(1000);
    }
    bench_remove_place();
    _exit(told ? 128 + told : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

/* Returns in the child alone. */
static inline void bench_guard(void)
{
    static const int told_by[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGCHLD};
    sigset_t all, before;
    void *p = mmap(NULL, BENCH_PLACE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        fprintf(stderr, "no memory for a guard: %s\n", strerror(errno));
        exit(1);
    }
    bench_guarded_place = p;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid_t guard = getpid();
    pid_t bench = fork();
    if (bench < 0) {
        fprintf(stderr, "cannot fork: %s\n", strerror(errno));
        exit(1);
    }
    if (bench == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != guard)
            _exit(1);
        sigprocmask(SIG_SETMASK, &before, NULL);
        return;
    }
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    for (size_t i = 0; i < sizeof(told_by) / sizeof(told_by[0]); i++) {
        struct sigaction act = {.sa_handler = bench_on_signal};
        sigaction(told_by[i], &act, NULL);
        sigdelset(&before, told_by[i]);
    }
    bench_mind(bench, &before);
}

/* The folder that goes with the bench, an absolute path. */
static inline void bench_guard_place(const char *place)
{
    snprintf(bench_guarded_place, BENCH_PLACE_BYTES, "%s", place);
}

#endif
