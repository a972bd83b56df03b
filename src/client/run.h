/* SPDX-License-Identifier: Apache-2.0
 *
 * Running a command under a ticket. The process that asks for the turn is the one that becomes the command,
 * so the owner of the ticket is the command itself (A4): a killed wrapper takes a queued command with it
 * and leaves a running one, with its ticket, alone; and no spawn lies between the grant and the command.
 * The command finds everything as the caller of tg_client_run had it: streams, signals, terminal, directory,
 * argv, limits; its environment has TIDEGATE_TICKET besides.
 *
 * For a program with one thread. Never prints.
 */
#ifndef TG_CLIENT_RUN_H
#define TG_CLIENT_RUN_H

#include "client/admit.h"
#include "client/key.h"

struct tg_run_ask {
    struct tg_admit_ask admit;   /* its kind and pid are filled in */
    const char *path;            /* the executable (see lookup.h) */
    char *const *argv;           /* NULL at the end */
    enum tg_if_exists if_exists; /* when admit has a key; the status is then that of what was joined */
    /* This process does nothing else: it becomes a child subreaper, so that it knows at the command's end
     * whether anything that the command started is left (A4), and every child of it may be reaped. */
    bool alone;
    bool detached; /* the job outlives its terminal: a ticket of its own, wherever it is started */
    /* Called in the process that waits; NULL: nobody cares. */
    void (*existing)(void *ctx, const struct tg_admit_answer *answer, enum tg_if_exists then);
    void (*waiting)(void *ctx, const struct tg_admit_answer *now);
    void (*granted)(void *ctx, const struct tg_admit_answer *answer);
    /* Called in the wrapper after the command's end, when the broker has a word for a person. */
    void (*noted)(void *ctx, uint64_t ticket, const char *text);
    void *ctx;
};

/* How it ended, besides the wait status. */
struct tg_run_end {
    uint64_t ticket; /* 0: it was another's */
    bool exec_failed;
    bool left_known; /* it was alone */
    bool left;       /* processes that the command started go on */
    bool oom;        /* the kernel killed it, most likely, for lack of memory */
};

/* Asks, waits, runs the command, waits for its end and tells the broker. 0 and the wait status (as of
 * waitpid) when the command ran, or was ended by a signal while it waited for its turn. Else it never ran:
 *   -ETIME   waited longer than admit.wait_ms
 *   -ENOEXEC, -EACCES, -ENOENT, ... of execve, with ret_end->exec_failed true
 *   an error of client.h. c->text says it in words. *ret_end is written in every case. */
int tg_client_run(struct tg_client *c, const struct tg_run_ask *ask, int *ret_status,
                  struct tg_run_end *ret_end);

#endif
