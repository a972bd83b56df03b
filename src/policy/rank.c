/* SPDX-License-Identifier: Apache-2.0
 *
 * Places in the queue: priority, turns of the tenants, arrival (A1, O10). Pure. Who keeps the rounds is
 * src/broker/turns.c. Contracts in <tidegate/rank.h>.
 */
#include <tidegate/rank.h>

#include "base/checked.h"

int tg_rank_compare(int64_t prio_a, uint64_t seq_a, int64_t prio_b, uint64_t seq_b)
{
    if (prio_a != prio_b)
        return prio_a > prio_b ? -1 : 1;
    if (seq_a != seq_b)
        return seq_a < seq_b ? -1 : 1;
    return 0;
}

int tg_rank_order(const struct tg_rank *a, const struct tg_rank *b)
{
    if (a->level == b->level && a->round != b->round)
        return a->round < b->round ? -1 : 1;
    return tg_rank_compare(a->level, a->seq, b->level, b->seq);
}

int64_t tg_rank_aged(int64_t prio, uint64_t waited, uint64_t ageing)
{
    if (ageing == 0)
        return prio;
    uint64_t gained = waited / ageing;
    int64_t level;
    if (gained > INT64_MAX || !tg_add_i64(prio, (int64_t)gained, &level))
        return INT64_MAX;
    return level;
}

uint64_t tg_rank_ages_at(uint64_t waited, uint64_t ageing)
{
    return ageing == 0 ? UINT64_MAX : tg_sat_add_u64(waited - waited % ageing, ageing);
}

uint64_t tg_rank_round(uint64_t served, uint64_t first, uint64_t last)
{
    /* The round being served: the last that was begun, or, when all of it have gone, the one before the
     * first that waits. */
    uint64_t now = first > served + 1 ? first - 1 : served;
    return (last > now ? last : now) + 1;
}
