/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns of the tenants (O10, see <tidegate/rank.h>): which round each waiter stands in. It keeps, for each
 * level (priority) that has waiters, one line for each tenant, oldest waiter first. No clock, no I/O; the
 * array that is in this order is queue.c's.
 *
 * A waiter that starts has used its round. One that leaves otherwise (cancelled, given up, kept back, another
 * priority) has not: those behind it in its line move up, and down again when it comes back. Moving is put
 * off until somebody asks for the order (tg_turns_settle), so that thousands can leave at once.
 *
 * A line is remembered while its level has waiters, so that a tenant that is served out of turn (backfill)
 * while others wait does not begin anew each time. Nothing here can fail but tg_turns_reserve: lines that are
 * only remembered are given up when room is short.
 */
#ifndef TG_BROKER_TURNS_H
#define TG_BROKER_TURNS_H

#include <sys/queue.h>

#include "broker/map.h"
#include "broker/ticket.h"

struct tg_line;
struct tg_level;
TAILQ_HEAD(tg_lines, tg_line);
TAILQ_HEAD(tg_levels, tg_level);

/* Zero-initialise; free with tg_turns_done. */
struct tg_turns {
    bool strict;             /* no turns: every round is 0 */
    bool ready;              /* the lists below have been made */
    struct tg_map by_level;  /* of struct tg_level */
    struct tg_map by_tenant; /* of struct tg_line, by a hash of level and tenant */
    struct tg_levels levels; /* those with waiters */
    struct tg_levels free_levels;
    struct tg_lines idle; /* remembered, longest first */
    struct tg_lines free_lines;
    size_t levels_made;
    size_t lines_made;
};

/* Room for so many waiters. 0 or -ENOMEM. */
int tg_turns_reserve(struct tg_turns *turns, size_t n);

/* Gives it its round and line; its level is set. first: the round of the first waiter of that level, 0: there
 * is none. t->round is the one that it had when it stood in this level before, else 0. Call
 * tg_turns_settle_for before. */
void tg_turns_enter(struct tg_turns *turns, struct tg_ticket *t, uint64_t first);
/* Takes it out. starts: it is granted; was_first: it stood at the front of its level. */
void tg_turns_leave(struct tg_turns *turns, struct tg_ticket *t, bool starts, bool was_first);

/* Carries out the moves that were put off, where they matter. True when rounds have changed: sort anew. */
bool tg_turns_settle(struct tg_turns *turns);
/* The same for the level that this ticket is about to join. */
bool tg_turns_settle_for(struct tg_turns *turns, const struct tg_ticket *t);

void tg_turns_done(struct tg_turns *turns);

static inline struct tg_rank tg_ticket_rank(const struct tg_ticket *t)
{
    return (struct tg_rank){.level = t->level, .round = t->round, .seq = t->id};
}

#endif
