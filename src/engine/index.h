/* SPDX-License-Identifier: Apache-2.0
 *
 * A bounded queue of slot numbers, for any number of producers and consumers: the tickets of what is
 * claimable (one queue a level, tenant and shard) and of what is free. FIFO. Finding the next entry
 * costs the same at any size (E11). It does not wait, wake, or know what a slot is.
 *
 * The argument
 *   Assumption (the owner's duty): a number is in the queue at most once, and there are at most as many
 *   different numbers as cells. Then the queue is never full, and a producer need not ask.
 *   1. Positions are 64 bits and only grow; position p lies in cell p mod cells, in lap p / cells. A cell
 *      holds a number, the owner's flags and the parity of its lap (1 in the first, so that zeroed memory
 *      holds nothing).
 *   2. A producer takes position p by fetch-and-add (I1) and then stores the cell (I2). That overwrites
 *      position p - cells, which must be consumed. Among the cells + 1 pushes p - cells .. p some number was
 *      pushed twice, at j < k, both in that range; the second push came after the first was popped (a number
 *      leaves before it comes again), pops are in order, so everything up to j >= p - cells was popped before
 *      push k took its position, and I1 (acq_rel) carries that on to p.
 *   3. A consumer reads head h (I3), then the cell (I4). If the parity is not that of h's lap, position h is
 *      not there yet: empty. Otherwise it swaps head h -> h + 1 (I5). The cell it read belongs to h: it could
 *      be overwritten only by h + cells, which by 2 needs head > h, and then the swap fails.
 *   4. So each number pushed is popped by exactly one consumer, in the order of I1.
 *   Schedule to keep in mind: a producer stopped between I1 and I2 hides what was pushed behind it in this
 *   queue until it goes on. That is why the payload is written first or the gap is a few stores, and why
 *   tenants do not share a queue.
 *   _sc forms: the caller is the only consumer; I5 is then a store.
 */
#ifndef TG_ENGINE_INDEX_H
#define TG_ENGINE_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"

#define TG_CELL_LAP (1u << 31)     /* parity of the lap */
#define TG_CELL_FOREIGN (1u << 30) /* a foreign host published this slot */
#define TG_CELL_BATCHED (1u << 29) /* a fence counts this item */
#define TG_CELL_SAMPLED (1u << 28) /* its publication time was recorded */
#define TG_CELL_SERVED (1u << 27)  /* a client in another process published it */
#define TG_CELL_SLOT ((1u << 27) - 1u)

#define TG_CELLS_A_LINE 16u /* of the processor's caches */
#define TG_CELLS_AHEAD 96u  /* fetched before they are popped, where many are */

struct tg_index {
    /* Producers' line: tail is written by producers only. */
    _Alignas(64) uint64_t tail;
    uint32_t *cells;
    uint32_t mask;
    uint32_t shift;
    /* Consumers' line: head is written by consumers only. The rest repeats, so that each side needs one. */
    _Alignas(64) uint64_t head;
    uint32_t *head_cells;
    uint32_t head_mask;
    uint32_t head_shift;
};

/* cells: 2^shift zeroed words of the caller. start: where the positions begin (a multiple of two laps other
 * than 0 is for tests of wrap-around). */
static inline void tg_index_init(struct tg_index *q, uint32_t *cells, uint32_t shift, uint64_t start)
{
    q->tail = q->head = start;
    q->cells = q->head_cells = cells;
    q->mask = q->head_mask = (uint32_t)((UINT64_C(1) << shift) - 1);
    q->shift = q->head_shift = shift;
}

static inline uint32_t tg_index_lap(uint64_t position, uint32_t shift)
{
    return (uint32_t)(~(position >> shift) << 31);
}

/* Takes n positions; each must be filled at once. */
static inline uint64_t tg_index_reserve_mp(struct tg_index *q, uint32_t n)
{
    /* I1 acq_rel: carries "what I popped is popped" to later positions; pairs with itself. */
    return tg_add_acqrel_u64(&q->tail, n);
}

/* Fills a position and orders it before a later look at who sleeps. */
static inline void tg_index_fill(struct tg_index *q, uint64_t position, uint32_t value)
{
    /* I2 seq_cst: publishes the entry, pairs with I4; and the sleeper's Dekker, pairs with K2 in park.c. */
    tg_store_seqcst_u32(&q->cells[position & q->mask], value | tg_index_lap(position, q->shift));
}

/* Fills a position when another tg_index_fill of the same producer follows. */
static inline void tg_index_fill_early(struct tg_index *q, uint64_t position, uint32_t value)
{
    /* I2 release: publishes the entry; pairs with I4. */
    tg_store_release_u32(&q->cells[position & q->mask], value | tg_index_lap(position, q->shift));
}

static inline void tg_index_push_mp(struct tg_index *q, uint32_t value)
{
    tg_index_fill(q, tg_index_reserve_mp(q, 1), value);
}

/* Is there an entry at this position? */
static inline bool tg_index_look(const struct tg_index *q, uint64_t position, uint32_t *ret_value)
{
    /* I4 seq_cst: the entry with what was written before it; pairs with I2 and, as a sleeper's last look,
     * with the producers' K1. */
    uint32_t cell = tg_load_seqcst_u32(&q->head_cells[position & q->head_mask]);
    if ((cell ^ tg_index_lap(position, q->head_shift)) & TG_CELL_LAP)
        return false;
    *ret_value = cell & ~TG_CELL_LAP;
    return true;
}

/* The first entry, if there is one. A hint to everybody but the only consumer. */
static inline bool tg_index_peek(const struct tg_index *q, uint32_t *ret_value)
{
    /* I3 acquire: not older than the last pop this thread knows of; pairs with I5. */
    return tg_index_look(q, tg_load_acquire_u64(&q->head), ret_value);
}

/* The number that stands n entries behind the head, if there is one by now; only for prefetching. */
static inline bool tg_index_ahead(const struct tg_index *q, uint32_t n, uint32_t *ret_number)
{
    /* I6 relaxed: a guess. */
    uint64_t h = tg_load_relaxed_u64(&q->head) + n;
    uint32_t cell = tg_load_relaxed_u32(&q->head_cells[h & q->head_mask]);
    *ret_number = cell & TG_CELL_SLOT;
    return !((cell ^ tg_index_lap(h, q->head_shift)) & TG_CELL_LAP);
}

/* Takes the entry at head, which was seen there. False: somebody else has it. */
static inline bool tg_index_take_mc(struct tg_index *q, uint64_t head)
{
    /* I5 seq_cst (acq_rel is enough here): takes the entry; pairs with I1 by way of the slot's life.
     * seq_cst orders it against the look at ACCEPTING in submit.c, G2. */
    return tg_cas_seqcst_u64(&q->head, &head, head + 1);
}
static inline void tg_index_take_sc(struct tg_index *q, uint64_t head)
{
    tg_store_release_u64(&q->head, head + 1); /* I5 release: as above */
}

static inline bool tg_index_pop_mc(struct tg_index *q, uint32_t *ret_value)
{
    /* I3 again. */
    uint64_t h = tg_load_acquire_u64(&q->head);
    uint32_t value;
    do {
        if (!tg_index_look(q, h, &value))
            return false;
        /* I5 seq_cst (acq_rel is enough here): takes the entry; pairs with I1 by way of the slot's life.
         * seq_cst orders it against the look at ACCEPTING in submit.c, G2. */
    } while (!tg_cas_seqcst_u64(&q->head, &h, h + 1));
    *ret_value = value;
    return true;
}

static inline bool tg_index_pop_sc(struct tg_index *q, uint32_t *ret_value)
{
    /* I3 relaxed: only this thread writes head. */
    uint64_t h = tg_load_relaxed_u64(&q->head);
    if (!tg_index_look(q, h, ret_value))
        return false;
    tg_index_take_sc(q, h);
    return true;
}

/* Takes n entries or none. Their positions are *ret_first ..; read them with tg_index_look at once. */
static inline bool tg_index_pop_many_mc(struct tg_index *q, uint32_t n, uint32_t *ret_values)
{
    /* I3 again. */
    uint64_t h = tg_load_acquire_u64(&q->head);
    do {
        for (uint32_t i = 0; i < n; i++) {
            if ((h + i) % TG_CELLS_A_LINE == 0 && i + TG_CELLS_AHEAD < n)
                tg_prefetch_read(&q->head_cells[(h + i + TG_CELLS_AHEAD) & q->head_mask]);
            if (!tg_index_look(q, h + i, &ret_values[i]))
                return false;
        }
        /* I5 again. */
    } while (!tg_cas_seqcst_u64(&q->head, &h, h + n));
    return true;
}

/* How many entries it has; exact when nobody pushes or pops. */
static inline uint64_t tg_index_count(const struct tg_index *q)
{
    /* I7 seq_cst: head first, so that the difference is never negative; pairs with I1 and I5. */
    uint64_t head = tg_load_seqcst_u64(&q->head);
    return tg_load_seqcst_u64(&q->tail) - head;
}

#endif
