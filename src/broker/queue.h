/* SPDX-License-Identifier: Apache-2.0
 *
 * The living tickets in memory: waiters in rank order (A1, with turns of the tenants and ageing: rank.h),
 * holders, parked ones, those that a person keeps back, and three indexes (id, pid of the owner, key). The
 * sums that a decision needs are kept up to date, so that a decision does not add up the holders. No I/O, no
 * clock, no store; whoever changes a ticket's state, priority, estimate or slots does it through here.
 *
 * Room for every ticket in every list is made when it is added: a change of state never fails.
 */
#ifndef TG_BROKER_QUEUE_H
#define TG_BROKER_QUEUE_H

#include "broker/keys.h"
#include "broker/map.h"
#include "broker/ticket.h"
#include "broker/turns.h"

/* Zero-initialise; free with tg_queue_done. */
struct tg_queue {
    struct tg_ticket **waiters; /* state WAIT, in rank order: the array is the order, no list of indexes */
    struct tg_ticket **holders; /* in no order */
    struct tg_ticket **parked;
    struct tg_ticket **aside; /* state WAIT and on hold: no pass ever sees them */
    size_t n_waiters;
    size_t n_holders;
    size_t n_parked;
    size_t n_aside;
    size_t room;                /* of each array */
    struct tg_timeline running; /* of the holders those whose end is known, by that end */
    struct tg_map by_id;
    struct tg_map by_pid;  /* those that are their owner's only one */
    struct tg_map by_step; /* and those of whose owner there may be several */
    struct tg_keys by_key;
    struct tg_turns turns;
    uint64_t ageing_ms;   /* a waiter gains a level each time it has waited so long; 0: never */
    uint64_t now_ms;      /* as tg_queue_settle was told */
    uint64_t next_age_ms; /* when the next one gains a level, or before; UINT64_MAX: never */
    uint64_t zero_slot_waiters;
    uint64_t slots_held;
    uint64_t promised_mb;   /* estimates of all holders */
    uint64_t heavy_holders; /* estimate above heavy_above_mb */
    uint64_t heavy_above_mb;
};

/* Adds a ticket in the state it has. 0; -EEXIST: its id or its owner's pid is there already; -ENOMEM. */
int tg_queue_add(struct tg_queue *q, struct tg_ticket *t);
/* Takes it out; the caller owns it again. */
void tg_queue_remove(struct tg_queue *q, struct tg_ticket *t);
/* Its owner has ended, its tree has not: the number may be somebody else's from now on. */
void tg_queue_main_ended(struct tg_queue *q, struct tg_ticket *t);
void tg_queue_set_state(struct tg_queue *q, struct tg_ticket *t, enum tg_ticket_state state);
/* Priority, estimate and slots of a ticket in any state. */
void tg_queue_set_request(struct tg_queue *q, struct tg_ticket *t, int64_t prio, uint64_t est_mb,
                          uint32_t slots);
/* A person keeps it back, or no longer. It may be in any state; who waits leaves the waiters and comes back
 * to its place. */
void tg_queue_set_hold(struct tg_queue *q, struct tg_ticket *t, bool on_hold);
/* What counts as heavy (A10); recounts the holders. */
void tg_queue_set_heavy(struct tg_queue *q, uint64_t heavy_above_mb);

struct tg_ticket *tg_queue_by_id(const struct tg_queue *q, uint64_t id);
struct tg_ticket *tg_queue_by_pid(const struct tg_queue *q, pid_t pid);
struct tg_ticket *tg_queue_by_step(const struct tg_queue *q, uint64_t step);
/* The one that stands where this one, not in the queue yet, would: of the same owner, or step. */
struct tg_ticket *tg_queue_same_owner(struct tg_queue *q, const struct tg_ticket *t);
/* Brings the order up to date; call it before looking at the waiters. now: ms of CLOCK_BOOTTIME. True when
 * the order has changed. */
bool tg_queue_settle(struct tg_queue *q, uint64_t now_ms);
/* In how many ms somebody gains a level; UINT64_MAX: never. */
uint64_t tg_queue_age_in_ms(const struct tg_queue *q);
/* How the order is made: strict, by priority and arrival alone, or with turns; ageing_ms 0: no ageing. */
void tg_queue_set_order(struct tg_queue *q, bool strict, uint64_t ageing_ms);

/* How many waiters go before it (it need not be in the queue). */
size_t tg_queue_ahead(const struct tg_queue *q, const struct tg_ticket *t);
/* All tickets, whatever their state. */
size_t tg_queue_count(const struct tg_queue *q);

/* Frees every ticket and the lists. */
void tg_queue_done(struct tg_queue *q);

#endif
