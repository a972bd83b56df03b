/* SPDX-License-Identifier: Apache-2.0
 *
 * Launch admission from C: a program asks for a turn before each heavy step, waits, works, gives the turn
 * back; or runs a command under a ticket of its own. The broker decides (and is started when none runs).
 *
 * Caveats first:
 * - A turn belongs to this process: the broker holds a pidfd of it, and when the process ends, in whatever
 *   way, all its turns are free that moment (A4). One process may have any number of them: the broker tells
 *   them apart by a random number that each request carries (docs/protocol.md, `step`). No helper process is
 *   forked for that: it would show up in the caller's wait(), and copy its memory on write.
 * - What a step uses cannot be told from what the rest of the process does: its estimate stays booked in full
 *   until it is released, also while the memory is in use already. Ask for what the step adds; a long step
 * that has taken its memory may lower the estimate to what is still to come (tg_launch_grow), which lets
 * others in sooner: what is in use is no longer available to anybody anyway.
 * - A program that itself runs under a ticket (tidegate run program) passes with every request at once, under
 *   that ticket (A6): tg_launch_nested says so.
 * - After fork() a ticket still is the parent's: the child may only tg_launch_release its copy, which frees
 *   memory and says nothing.
 *
 * Threads: a struct tg_launch may be used by any number of threads at once; a ticket by one at a time. These
 * functions read the environment (in tg_launch_open, and TIDEGATE_BROKER and PATH where needed): not while
 * another thread changes it. Nothing here prints, changes a signal's disposition, or keeps a thread.
 *
 * A broker that dies is looked for, or started, again: who waits asks again and keeps the place (A8), who
 * holds never notices.
 *
 * Errors are -errno; tg_launch_error has the words. Everywhere:
 *   -EINVAL          a value breaks a rule
 *   -ECONNREFUSED    no broker, and none could be (or was to be) started
 *   -ECONNRESET      brokers went away again and again
 *   -ETIMEDOUT       the broker did not answer within 30 s (in tg_launch_wait also: not its turn yet)
 *   -EPERM           not yours, or a directory or a broker that is not ours
 *   -EXDEV           the broker there serves another store
 *   -EPROTO, -EPROTONOSUPPORT   what answers makes no sense, or speaks another version
 *   -EIO             the broker's store refused; nothing was changed
 *   -ENOMEM, -EMFILE, ... of the operating system
 * and what each function names besides.
 */
#ifndef TIDEGATE_LAUNCH_H
#define TIDEGATE_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TG_LAUNCH_NOT_STATED UINT64_MAX /* of a number in the options */
#define TG_LAUNCH_FOREVER UINT64_MAX    /* of a time limit */

struct tg_launch;        /* the way to the broker */
struct tg_launch_ticket; /* one request: a place in the queue, then a turn */

/* What is asked. Start from TG_LAUNCH_OPTIONS. Texts are borrowed for the call and may be NULL. */
struct tg_launch_options {
    int64_t prio;       /* larger is more urgent; 2 is normal */
    uint64_t est_mb;    /* memory the step will add, MB; not stated: learned, or the broker's default */
    uint64_t time_ms;   /* how long it will take; not stated: learned; 0: not known */
    uint64_t slots;     /* not stated: 1; 0 is allowed */
    uint64_t max_conc;  /* heavy holders it accepts beside it, at least 1 */
    const char *tenant; /* NULL: the user */
    const char *key;    /* at most one thing with a key at a time: -EEXIST */
    const char *cmd;    /* for people, and to learn by; NULL: the program's name, or the command */
    bool strict;        /* passes nobody */
};
#define TG_LAUNCH_OPTIONS                                                                                    \
    {                                                                                                        \
        2, TG_LAUNCH_NOT_STATED, TG_LAUNCH_NOT_STATED, TG_LAUNCH_NOT_STATED, TG_LAUNCH_NOT_STATED, NULL,     \
            NULL, NULL, false                                                                                \
    }

/* Works out where the broker is; connects to nothing yet. may_start: start a broker when none runs. 0 and
 * *ret, to be given to tg_launch_close; -EINVAL, -ENAMETOOLONG (the environment names no usable place). */
int tg_launch_open(bool may_start, struct tg_launch **ret);
/* After the last ticket of it has been released. NULL is allowed. */
void tg_launch_close(struct tg_launch *launch);

/* What the last error of this thread was, in words; "" before the first. Valid until this thread's next call
 * of a function of this header. */
const char *tg_launch_error(void);

/* Asks for a turn (options NULL: TG_LAUNCH_OPTIONS). Returns when the broker has answered, at the latest
 * after 40 s: 0 and *ret, which waits or has its turn already (ask tg_launch_poll), to be given to
 * tg_launch_release. -EFBIG: larger than the machine could ever give; -EEXIST: the key is in use. */
int tg_launch_request(struct tg_launch *launch, const struct tg_launch_options *options,
                      struct tg_launch_ticket **ret);

/* Waits for the turn, at most timeout_ms (0: only looks). 0: it has its turn, now and until released.
 * -ETIMEDOUT: not yet; the place in the queue stays, and so does a turn that comes while nobody looks: wait
 * again, or release. -ECANCELED: somebody cancelled it; -ESRCH: somebody released it; after these two it
 * stays so. -EPERM: in a forked child. After other errors the place stays, and another call may succeed. When
 * the broker has just died the search for the next one may take longer than timeout_ms, at most by 40 s. */
int tg_launch_wait(struct tg_launch_ticket *ticket, uint64_t timeout_ms);

/* Like tg_launch_wait with 0, but -EAGAIN: not yet. */
int tg_launch_poll(struct tg_launch_ticket *ticket);

/* A descriptor, the same for the ticket's whole life, that becomes readable (POLLIN) when tg_launch_poll
 * should be called; poll, select or epoll it, nothing else. From the moment that tg_launch_poll no longer
 * answers -EAGAIN it stays readable, unless the error was one that may pass: then call again later. It
 * belongs to the ticket. */
int tg_launch_fd(const struct tg_launch_ticket *ticket);

/* The ticket's number in the broker (status, why, cancel). A nested one's is the outer ticket's. */
uint64_t tg_launch_id(const struct tg_launch_ticket *ticket);
/* Whether it passes under a ticket that this process runs under. */
bool tg_launch_nested(const struct tg_launch_ticket *ticket);
/* With its turn: what TIDEGATE_TICKET must say in the environment of processes that belong to this step, so
 * that a launch in them passes under it; "" without. Valid until the release. */
const char *tg_launch_env(const struct tg_launch_ticket *ticket);
/* While it waits: why, in words, as of the last answer; else "". Valid until the next call with this ticket.
 */
const char *tg_launch_text(const struct tg_launch_ticket *ticket);

/* Changes the estimate of one that waits or has its turn. Less is always granted. More is booked at once, or
 * -EAGAIN: it does not fit now beside all that is in use, and what was booked stays; -EFBIG: it never could;
 * -ESRCH: the ticket has ended; -ENOTSUP: nested, the outer ticket's estimate is not this one's to change. */
int tg_launch_grow(struct tg_launch_ticket *ticket, uint64_t est_mb);

/* Gives the turn, or the place in the queue, back and frees the ticket, in every case. 0, also when it had
 * ended already; an error: the broker could not be told, and the ticket stands until this process ends. NULL
 * is allowed. */
int tg_launch_release(struct tg_launch_ticket *ticket);

/* Runs a command under a ticket of its own: waits for the turn, at most wait_ms, executes argv (argv[0]
 * looked up in PATH; no shell), waits for its end. 0 and *ret_status as of waitpid. The command is a child of
 * this process from the start: its streams, directory, mask and inheritable descriptors are the caller's at
 * the call, its handlers the default ones, its environment has TIDEGATE_TICKET besides. It ends with this
 * process while it waits; once it runs it goes on without it, with its ticket (A4). The child is forked
 * before the wait: descriptors of the caller stay open in it until then. Not for a program that reaps
 * children of others, or ignores SIGCHLD: -ECHILD. It never ran: -ETIME: not its turn in time, its place is
 * given up; -ECANCELED; -ESRCH: it was killed while it waited; -EFBIG, -EEXIST as above; -ENOENT, -EACCES,
 * -E2BIG, ...: argv[0] cannot be executed. */
int tg_launch_run(struct tg_launch *launch, const struct tg_launch_options *options, char *const argv[],
                  uint64_t wait_ms, int *ret_status);

/* The broker's status, and why a ticket waits, as JSON text (docs/status.md), to be freed with free().
 * -ESRCH: nobody knows that ticket. */
int tg_launch_status_json(struct tg_launch *launch, char **ret);
int tg_launch_why_json(struct tg_launch *launch, uint64_t ticket_id, char **ret);

#ifdef __cplusplus
}
#endif
#endif
