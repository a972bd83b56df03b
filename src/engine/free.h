/* SPDX-License-Identifier: Apache-2.0
 *
 * The slots that a submitter may take: for each level a few shards, so that submitters do not meet at one
 * word; the queues of what they publish lie in the same shards. A slot belongs to one shard for ever (by its
 * number, in blocks, so that what lies beside the ring shares no cache line between shards either); a
 * submitter begins at the shard of its thread and looks at the others when that is empty, so no slot is out
 * of reach. It publishes nothing.
 *
 * Each shard is two queues (index.h). HOT is filled first, up to TG_HOT_SLOTS, and taken from first: a ring
 * with little work uses few slots again and again, whose lines are in the caches, however large it is.
 *
 * The argument of index.h holds for each queue alone: a slot is in one of them at most once, and each has
 * cells for all slots of its shard. Who looks for a free slot reads both queues of all shards; one that comes
 * back behind that look is announced (D1) as ever.
 */
#ifndef TG_ENGINE_FREE_H
#define TG_ENGINE_FREE_H

#include "engine/index.h"

#define TG_SHARDS 8u      /* at most */
#define TG_HOT_SLOTS 128u /* about; a hint to who gives back */

struct tg_free {
    struct tg_index hot, cold;
};

/* Gives n slots back, the last with the order of tg_index_fill. */
static inline void tg_free_push_many(struct tg_free *f, const uint32_t *slots, uint32_t n)
{
    /* A small shard is all hot: not even a look at the takers' head, which would cost them their line. */
    bool hot = f->hot.mask < 2 * TG_HOT_SLOTS || tg_index_count(&f->hot) + n <= TG_HOT_SLOTS;
    struct tg_index *q = hot ? &f->hot : &f->cold;
    uint64_t position = tg_index_reserve_mp(q, n);
    for (uint32_t i = 0; i + 1 < n; i++)
        tg_index_fill_early(q, position + i, slots[i]);
    tg_index_fill(q, position + n - 1, slots[n - 1]);
}

/* Takes one; *ret_from is where the next ones stand. */
static inline bool tg_free_pop(struct tg_free *f, uint32_t *ret_slot, const struct tg_index **ret_from)
{
    *ret_from = &f->hot;
    if (tg_index_pop_mc(&f->hot, ret_slot))
        return true;
    *ret_from = &f->cold;
    return tg_index_pop_mc(&f->cold, ret_slot);
}

static inline bool tg_free_any(const struct tg_free *f)
{
    uint32_t ignored;
    return tg_index_peek(&f->hot, &ignored) || tg_index_peek(&f->cold, &ignored);
}

#endif
