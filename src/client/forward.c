/* SPDX-License-Identifier: Apache-2.0
 * See forward.h.
 *
 * Who sent a signal stands in si_code: a process (SI_USER, SI_QUEUE, ...: zero or negative) or the kernel on
 * behalf of the terminal (SI_KERNEL), which reaches the command by itself since it is in the same process
 * group. A process that signals the whole group reaches the command twice: the wrapper cannot tell, and
 * once too often is better than never.
 */
#include "client/forward.h"

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "machine/oom.h"
#include "machine/proc.h"

#define SETTLED_NS UINT64_C(50000000)   /* a shorter life costs no look at the counts */
#define INSISTS_NS UINT64_C(1000000000) /* TERMs closer together count as one: timeout(1) sends two */
#define KILL_AFTER_NS UINT64_C(2000000000)

static const struct tg_root machine = {.prefix = ""};

void tg_forward_begin(struct tg_forward *f)
{
    *f = (struct tg_forward){.terminal = -1};
    sigset_t all;
    sigfillset(&all); /* a real fault ends us all the same; one that was sent is passed on */
    sigprocmask(SIG_SETMASK, &all, &f->mask_before);

    /* Inherited SIG_IGN or SA_NOCLDWAIT would throw the command's wait status away. */
    struct sigaction normal = {.sa_handler = SIG_DFL};
    if (sigaction(SIGCHLD, NULL, &f->chld_before) == 0 &&
        (f->chld_before.sa_handler == SIG_IGN || (f->chld_before.sa_flags & SA_NOCLDWAIT)))
        f->chld_changed = sigaction(SIGCHLD, &normal, NULL) == 0;

    pid_t group = getpgrp();
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO && f->terminal < 0; fd++) {
        if (tcgetpgrp(fd) == group)
            f->terminal = fd;
    }
}

void tg_forward_restore(const struct tg_forward *f)
{
    if (f->chld_changed)
        sigaction(SIGCHLD, &f->chld_before, NULL);
    sigprocmask(SIG_SETMASK, &f->mask_before, NULL);
}

/* Takes what has become of the child, and of every orphan that we adopted: true and the child's status when
 * it has ended (taken once, L14); then all that have ended by now have been reaped. */
static bool look_at_children(struct tg_forward *f, pid_t child, int *status)
{
    bool ended = false;
    for (;;) {
        int now;
        pid_t got = waitpid(f->adopts ? -1 : child, &now, WNOHANG | WUNTRACED | WCONTINUED);
        if (got < 0 && errno == EINTR)
            continue;
        f->left = got == 0;
        if (got < 0 && !ended)
            *status = -1;
        if (got <= 0)
            return ended || got < 0;
        if (got != child)
            continue;
        /* SIGSTOP was meant for that very process: whoever sent it will continue that very process. */
        f->child_stopped = WIFSTOPPED(now) && WSTOPSIG(now) != SIGSTOP;
        if (WIFSTOPPED(now) || WIFCONTINUED(now))
            continue;
        *status = now;
        ended = true;
        if (!f->adopts)
            return true;
    }
}

static void forward(const struct tg_forward *f, pid_t child, const siginfo_t *info)
{
    int sig = info->si_signo;
    /* Not what the kernel or the terminal sent, nor what came from the command or from ourselves
     * (SIGPIPE of our own writes carries our pid). */
    if (info->si_code > 0 || info->si_pid == child || info->si_pid == getpid())
        return;
    if (sig == SIGCONT && !f->child_stopped)
        return; /* it went to the group, and the command goes on already */
    tg_child_signal(child, sig);
}

/* Somebody wants the command to end and does not get his way. */
static void mind_insisting(struct tg_forward *f, pid_t child, const siginfo_t *info)
{
    uint64_t now = tg_clock_mono_ns();
    if (info->si_code > 0 || info->si_pid == child)
        return;
    if (f->asked_to_end_ns == 0)
        f->asked_to_end_ns = now;
    else if (f->kill_at_ns == 0 && now - f->asked_to_end_ns >= INSISTS_NS)
        f->kill_at_ns = now + KILL_AFTER_NS;
}

static void take(struct tg_forward *f, pid_t child, const siginfo_t *info)
{
    switch (info->si_signo) {
    case SIGCHLD:
        return;
    case SIGTERM:
        mind_insisting(f, child, info);
        break;
    case SIGTSTP:
    case SIGTTIN:
    case SIGTTOU:
        f->asked_to_stop = info->si_signo;
        break;
    case SIGCONT:
        f->asked_to_stop = 0;
        break;
    }
    forward(f, child, info);
}

/* Both of us were asked to stop (by the terminal's key, or one by the other) and the command has: stop as
 * well, by the same signal, so that the shell sees its job stopped. SIGCONT is the next signal taken. */
static void stop_too(struct tg_forward *f)
{
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, f->asked_to_stop);
    raise(f->asked_to_stop);
    f->asked_to_stop = 0;
    sigprocmask(SIG_UNBLOCK, &one, NULL); /* here we stop, until somebody continues us */
    sigprocmask(SIG_BLOCK, &one, NULL);
}

/* The next signal, or the next thing to do: true and *info when a signal came. */
static bool await_signal(const struct tg_forward *f, uint64_t begin_ns, const sigset_t *set, siginfo_t *info)
{
    uint64_t until = f->kill_at_ns;
    if (!f->settled && (until == 0 || begin_ns + SETTLED_NS < until))
        until = begin_ns + SETTLED_NS;
    if (until == 0)
        return sigwaitinfo(set, info) > 0;
    uint64_t now = tg_clock_mono_ns();
    uint64_t left = until > now ? until - now : 0;
    struct timespec limit = {.tv_sec = (time_t)(left / 1000000000), .tv_nsec = (long)(left % 1000000000)};
    return sigtimedwait(set, info, &limit) > 0;
}

static void do_what_is_due(struct tg_forward *f, pid_t child, uint64_t begin_ns)
{
    uint64_t now = tg_clock_mono_ns();
    if (!f->settled && now >= begin_ns + SETTLED_NS) {
        f->settled = true;
        f->oom_known = tg_oom_kills(&machine, &f->oom_kills) == 0;
    }
    if (f->kill_at_ns != 0 && now >= f->kill_at_ns) {
        f->kill_at_ns = 0;
        tg_child_signal(child, SIGKILL);
    }
}

bool tg_forward_was_oom(const struct tg_forward *f, int status)
{
    uint64_t now;
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL || !f->oom_known)
        return false;
    return tg_oom_kills(&machine, &now) == 0 && now > f->oom_kills;
}

int tg_forward_wait(struct tg_forward *f, pid_t child)
{
    uint64_t begin_ns = tg_clock_mono_ns();
    sigset_t all;
    siginfo_t info;
    int status;
    sigfillset(&all);
    for (;;) {
        bool got = await_signal(f, begin_ns, &all, &info);
        if (look_at_children(f, child, &status))
            return status;
        do_what_is_due(f, child, begin_ns);
        if (got)
            take(f, child, &info);
        if (f->child_stopped && f->asked_to_stop)
            stop_too(f);
    }
}

void tg_forward_end(struct tg_forward *f, pid_t child)
{
    if (f->terminal >= 0 && tcgetpgrp(f->terminal) == child)
        tcsetpgrp(f->terminal, getpgrp());
    tg_forward_restore(f);
}
