/* SPDX-License-Identifier: Apache-2.0
 *
 * How the wrapper of a command stands between its caller and the command: what a process sends to the
 * wrapper reaches the command, what the terminal sends to the whole process group is not doubled, and the
 * wrapper stops and goes on with the command. It stays in its process group and leaves the terminal's modes
 * alone. Signals are blocked and taken with sigwaitinfo: no handler, no disposition but SIGCHLD's changes.
 *
 * A sender of TERM that insists (a second one, a second or more after the first) does not wait for ever: the
 * command gets that one too, and KILL when it is still there after another two seconds (W5).
 *
 * For a program with one thread.
 */
#ifndef TG_CLIENT_FORWARD_H
#define TG_CLIENT_FORWARD_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct tg_forward {
    sigset_t mask_before;
    struct sigaction chld_before;
    bool chld_changed;
    int terminal;       /* a standard stream that is our controlling terminal, with us in front; -1: none */
    bool child_stopped; /* by a stop signal */
    int asked_to_stop;  /* the one that we got too, or 0 */
    bool adopts;        /* set it before waiting: every child is ours to reap */
    bool left;          /* children remain that have not ended; known when adopts and the wait is over */
    bool settled;       /* the first look at the counts below has been taken */
    bool oom_known;
    uint64_t oom_kills;       /* by the kernel, as of then */
    uint64_t asked_to_end_ns; /* the first TERM of a process came then; 0: none did */
    uint64_t kill_at_ns;      /* the command is killed then; 0: it is not */
};

/* Before the fork: blocks every signal and makes sure that the child can be waited for. */
void tg_forward_begin(struct tg_forward *f);
/* In the child: the mask and dispositions as they were at the start. */
void tg_forward_restore(const struct tg_forward *f);
/* Waits until the child has ended, forwarding meanwhile. Its wait status (as of waitpid); -1 when it cannot
 * be waited for. */
int tg_forward_wait(struct tg_forward *f, pid_t child);
/* Whether it was most likely killed for lack of memory: by KILL, while the count of such kills rose (E8,
 * E10). False for one that lived but a moment: then there is nothing to compare with. */
bool tg_forward_was_oom(const struct tg_forward *f, int status);
/* After its end: when the command led a process group of its own, put it in front of the terminal and died
 * there, the terminal goes back to ours (W7). Then the mask as it was. */
void tg_forward_end(struct tg_forward *f, pid_t child);

#endif
