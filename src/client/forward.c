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

#include "machine/proc.h"

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

/* Takes what has become of the child: true and its status when it has ended (taken once, L14). */
static bool look_at_child(struct tg_forward *f, pid_t child, int *status)
{
    int now;
    pid_t got;
    while ((got = waitpid(child, &now, WNOHANG | WUNTRACED | WCONTINUED)) == child) {
        if (!WIFSTOPPED(now) && !WIFCONTINUED(now)) {
            *status = now;
            return true;
        }
        /* SIGSTOP was meant for that very process: whoever sent it will continue that very process. */
        f->child_stopped = WIFSTOPPED(now) && WSTOPSIG(now) != SIGSTOP;
    }
    if (got < 0 && errno != EINTR) {
        *status = -1;
        return true;
    }
    return false;
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

static void take(struct tg_forward *f, pid_t child, const siginfo_t *info)
{
    switch (info->si_signo) {
    case SIGCHLD:
        return;
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

int tg_forward_wait(struct tg_forward *f, pid_t child)
{
    sigset_t all;
    siginfo_t info;
    int status;
    sigfillset(&all);
    for (;;) {
        bool got = sigwaitinfo(&all, &info) > 0;
        if (look_at_child(f, child, &status))
            return status;
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
