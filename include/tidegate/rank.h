/* SPDX-License-Identifier: Apache-2.0
 *
 * Who stands before whom in the queue (A1), and how tenants take turns within a priority (O10). Pure
 * functions: no clock, no I/O, no allocation; thread-safe, they touch their arguments alone.
 *
 * Turns. Within a priority every waiter stands in a round; rounds go one after the other, and within a round
 * the order is that of arrival. A tenant has one waiter in a round: its next one stands in the round after.
 * One who has nothing in the queue joins the round after the one that is being served. So of A, who
 * enqueues a thousand, and B, who enqueues one, B is next or second; with one tenant the order is plain FIFO.
 *
 * What follows (tests/broker/test_turns.c):
 *   - within a tenant the order is that of arrival;
 *   - nobody who comes later goes before the present front of that priority, so a reservation (easy.h) that
 *     the front got stands;
 *   - everybody's turn comes: in each round a tenant that waits is served once, and who comes when a round
 * has begun does not join it.
 */
#ifndef TIDEGATE_RANK_H
#define TIDEGATE_RANK_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Without turns: negative when a goes before b, positive when after, 0 for the same waiter. Higher priority
 * first, then the order of arrival. */
int tg_rank_compare(int64_t prio_a, uint64_t seq_a, int64_t prio_b, uint64_t seq_b);

/* A place in the queue. */
struct tg_rank {
    int64_t level;  /* the priority, with what waiting has added to it; larger goes first */
    uint64_t round; /* smaller goes first */
    uint64_t seq;   /* arrival, as the store numbered it */
};

/* With turns; a total order for distinct seq. */
int tg_rank_order(const struct tg_rank *a, const struct tg_rank *b);

/* The level of one who has waited so long: one more for every `ageing` waited, in any unit; 0: no ageing.
 * Stops at the largest level. */
int64_t tg_rank_aged(int64_t prio, uint64_t waited, uint64_t ageing);
/* How long it has waited when its level changes next; UINT64_MAX: never. */
uint64_t tg_rank_ages_at(uint64_t waited, uint64_t ageing);

/* The round of one who joins a level.
 *   served  the round of the last one that started from the front of this level, 0: none yet
 *   first   the round of the level's first waiter, 0: nobody waits
 *   last    the last round that its tenant has used there, waiting or started, 0: none */
uint64_t tg_rank_round(uint64_t served, uint64_t first, uint64_t last);

#ifdef __cplusplus
}
#endif

#endif
