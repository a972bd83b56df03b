/* SPDX-License-Identifier: Apache-2.0
 *
 * The processes of a ticket that the broker watches besides its owner: what a command left behind (A4), and
 * whom a cancellation must end. survivors.c finds and watches them, cancel.c signals them; both are woken by
 * deaths and by one timer.
 */
#ifndef TG_BROKER_SURVIVORS_H
#define TG_BROKER_SURVIVORS_H

#include "broker/broker.h"
#include "machine/tree.h"

struct tg_survivor {
    uv_poll_t poll;
    struct tg_ticket *ticket;
    struct tg_survivor *next;
    struct tg_survivor *prev;
    int fd; /* pidfd; -1: none could be had */
    pid_t pid;
    uint64_t start_ticks;
    bool keeps;   /* the ticket: it has not left the session */
    bool told;    /* to end */
    bool seen;    /* by the look that is being taken in */
    bool stopped; /* when last looked at */
};

struct tg_owner tg_survivor_identity(const struct tg_broker *b, const struct tg_survivor *s);

/* What tree.h is asked for a ticket. */
struct tg_tree_want tg_survivors_want(const struct tg_ticket *t);
/* Looks at all processes and watches those of the ticket: all of them while a cancellation runs, else those
 * that keep it. 0 or -errno. */
int tg_survivors_look(struct tg_broker *b, struct tg_ticket *t);
/* The same with what a look has found for several tickets. */
int tg_survivors_take(struct tg_broker *b, struct tg_ticket *t, const struct tg_tree *tree, size_t want);
/* The reaper of one whose owner has ended while nobody waited, and whose wrapper has not spoken yet: asked
 * now. The ticket may be gone after it. And those of all. */
void tg_survivors_ask(struct tg_broker *b, struct tg_ticket *t);
void tg_survivors_ask_all(struct tg_broker *b);
/* The owner has ended and nobody known is left: looks again; ends the ticket when that finds nobody. */
void tg_survivors_settle(struct tg_broker *b, struct tg_ticket *t);
/* What a look is for, here and now: the ticket is settled, or, while its command runs, whom a cancellation
 * has not told yet is told. The ticket may be gone after it. */
void tg_survivors_look_now(struct tg_broker *b, struct tg_ticket *t);
/* The same, but a thread looks, and the rest follows when that is over. */
void tg_look_later(struct tg_broker *b, struct tg_ticket *t);
/* What the look has found for it; err: it has failed. The ticket may be gone after it. */
void tg_survivors_seen(struct tg_broker *b, struct tg_ticket *t, const struct tg_tree *tree, size_t want,
                       int err);
/* Calls tg_survivors_due in so many milliseconds, or sooner. */
void tg_survivors_wake(struct tg_broker *b, uint64_t ms);

/* Signals whom the cancellation has not told yet, or everybody once it kills. */
void tg_cancel_tell(struct tg_broker *b, struct tg_ticket *t);
/* Somebody of the tree has died: while a cancellation kills, that is progress. */
void tg_cancel_death(struct tg_broker *b, struct tg_ticket *t);
/* When the next step of a cancellation is due (monotonic), and the step. The ticket may be gone after it. */
uint64_t tg_cancel_due_ms(const struct tg_ticket *t);
void tg_cancel_due(struct tg_broker *b, struct tg_ticket *t);

#endif
