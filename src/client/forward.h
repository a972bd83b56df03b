/* SPDX-License-Identifier: Apache-2.0
 *
 * How the wrapper of a command stands between its caller and the command: what a process sends to the
 * wrapper reaches the command, what the terminal sends to the whole process group is not doubled, and the
 * wrapper stops and goes on with the command. It stays in its process group and leaves the terminal's modes
 * alone. Signals are blocked and taken with sigwaitinfo: no handler, no disposition but SIGCHLD's changes.
 *
 * For a program with one thread.
 */
#ifndef TG_CLIENT_FORWARD_H
#define TG_CLIENT_FORWARD_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

struct tg_forward {
    sigset_t mask_before;
    struct sigaction chld_before;
    bool chld_changed;
    int terminal;       /* a standard stream that is our controlling terminal, with us in front; -1: none */
    bool child_stopped; /* by a stop signal */
    int asked_to_stop;  /* the one that we got too, or 0 */
};

/* Before the fork: blocks every signal and makes sure that the child can be waited for. */
void tg_forward_begin(struct tg_forward *f);
/* In the child: the mask and dispositions as they were at the start. */
void tg_forward_restore(const struct tg_forward *f);
/* Waits until the child has ended, forwarding meanwhile. Its wait status (as of waitpid); -1 when it cannot
 * be waited for. */
int tg_forward_wait(struct tg_forward *f, pid_t child);
/* After its end: when the command led a process group of its own, put it in front of the terminal and died
 * there, the terminal goes back to ours (W7). Then the mask as it was. */
void tg_forward_end(struct tg_forward *f, pid_t child);

#endif
