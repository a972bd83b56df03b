/* SPDX-License-Identifier: Apache-2.0
 *
 * Items that a whole block of workers runs (TG_DEVICE_BLOCK): its four warps at once, so they must all be
 * free. Part of the dispatcher (dispatch.h).
 *
 * When it is such an item's turn and no block is free, the turn is taken all the same: the block with most
 * free warps is kept for the item, gets no new task, and its warps are put aside as they come back. Then the
 * item starts, before anything else is decided. So no flood of small items keeps it from starting, and it
 * waits no longer than the bodies that ran when its turn came (E3: they are the workers already claiming).
 * One block is kept at a time; the blocks of other such items come in their turn, after small items have had
 * theirs. The block is given up when the item cannot start any more (it was cancelled, its tenant was
 * switched off).
 */
#ifndef TG_ENGINE_DISPATCH_BLOCK_H
#define TG_ENGINE_DISPATCH_BLOCK_H

#include "engine/dispatch.h"

#define TG_BLOCK_ALL ((1u << TG_BLOCK_WARPS) - 1u)

/* One lane: a worker has nothing to do any more. */
TG_DEVICE void tg_worker_free(struct tg_shared *s, uint32_t worker)
{
    if (s->block_kept == worker / TG_BLOCK_WARPS + 1)
        s->block_warps |= 1u << worker % TG_BLOCK_WARPS;
    else
        s->idle[s->idle_count++] = (uint16_t)worker;
}

/* One lane: the kept block's warps go back to all others. */
TG_DEVICE void tg_block_give_up(struct tg_shared *s)
{
    uint32_t first = (s->block_kept - 1) * TG_BLOCK_WARPS;
    s->block_kept = 0;
    for (uint32_t i = 0; i < TG_BLOCK_WARPS; i++)
        if (s->block_warps >> i & 1u)
            s->idle[s->idle_count++] = (uint16_t)(first + i);
}

/* Keeps a block for the first item of a queue. */
TG_DEVICE_CALL void tg_block_keep(const struct tg_warp *w, uint32_t q)
{
    struct tg_shared *s = tg_state();
    uint32_t blocks = tg_params()->workers / TG_BLOCK_WARPS;
    for (uint32_t b = w->lane; b < blocks; b += TG_LANES)
        s->block_tally[b] = 0;
    tg_warp_sync();
    for (uint32_t i = w->lane; i < s->idle_count; i += TG_LANES)
        tg_shared_or(&s->block_tally[s->idle[i] / TG_BLOCK_WARPS], 1u << s->idle[i] % TG_BLOCK_WARPS);
    tg_warp_sync();
    uint32_t best = 0; /* free warps << 16 | block + 1 */
    for (uint32_t b = w->lane; b < blocks; b += TG_LANES) {
        uint32_t mine = tg_bits(s->block_tally[b]) << 16 | (b + 1);
        best = mine > best ? mine : best;
    }
    for (uint32_t step = 1; step < TG_LANES; step *= 2) {
        uint32_t other = tg_warp_shfl(best, w->lane ^ step);
        best = other > best ? other : best;
    }
    uint32_t block = (best & 0xFFFFu) - 1;
    uint32_t left = 0;
    uint32_t count = s->idle_count;
    for (uint32_t i = 0; i < count; i += TG_LANES) {
        uint16_t worker = i + w->lane < count ? s->idle[i + w->lane] : 0;
        bool stays = i + w->lane < count && worker / TG_BLOCK_WARPS != block;
        uint32_t lanes = tg_warp_ballot(stays);
        if (stays)
            s->idle[left + tg_rank(w, lanes)] = worker;
        left += tg_bits(lanes);
        tg_warp_sync();
    }
    if (w->lane == 0) {
        s->idle_count = left;
        s->block_kept = block + 1;
        s->block_warps = s->block_tally[block];
        s->block_queue = q;
    }
    tg_warp_sync();
}

/* The queue whose first item starts now, because its turn was and its block is free; TG_DEVICE_QUEUES: none.
 */
TG_DEVICE uint32_t tg_block_due(const struct tg_warp *w)
{
    const struct tg_device_params *p = tg_params();
    struct tg_shared *s = tg_state();
    if (s->block_kept == 0)
        return TG_DEVICE_QUEUES;
    uint32_t q = s->block_queue;
    uint32_t tenant = q % TG_TENANTS;
    bool wants = s->ready[q / TG_TENANTS] & s->allowed & 1u << tenant;
    uint64_t cell = wants ? p->cells[((uint64_t)q << p->queue_shift) + (s->head[q] & p->queue_mask)] : 0;
    wants = wants && tg_class_of((uint32_t)(cell >> 32)) == TG_CLASS_BLOCK;
    bool whole = s->block_warps == TG_BLOCK_ALL;
    tg_warp_sync();
    if (!wants && w->lane == 0)
        tg_block_give_up(s);
    tg_warp_sync();
    return wants && whole ? q : TG_DEVICE_QUEUES;
}

/* It is the turn of a queue whose first item needs a block: 1 when it has one. *ret_kept: one is kept for it
 * from now on, and its turn was. */
TG_DEVICE uint32_t tg_block_room(const struct tg_warp *w, uint32_t q, bool *ret_kept)
{
    const struct tg_shared *s = tg_state();
    bool fresh = s->block_kept == 0;
    tg_warp_sync();
    if (fresh)
        tg_block_keep(w, q);
    bool whole = s->block_queue == q && s->block_warps == TG_BLOCK_ALL;
    *ret_kept = fresh && !whole;
    tg_warp_sync();
    return whole ? 1 : 0;
}

/* The item (of one lane at most) goes to the four warps of the kept block. */
TG_DEVICE_CALL void tg_hand_to_block(const struct tg_warp *w, bool hands, const struct tg_taken *t)
{
    const struct tg_device_params *p = tg_params();
    struct tg_shared *s = tg_state();
    uint32_t lanes = tg_warp_ballot(hands);
    if (lanes == 0)
        return;
    uint32_t from = tg_levels_first(lanes);
    uint32_t slot = tg_warp_shfl(t->slot, from);
    uint32_t kept = tg_warp_shfl(t->kept, from);
    uint32_t first = (s->block_kept - 1) * TG_BLOCK_WARPS;
    struct tg_task *task = &p->tasks[first + w->lane % TG_BLOCK_WARPS];
    if (hands) {
        p->kept[slot] = tg_with_status(kept, TG_SLOT_CLAIMED);
        tg_sys_store_relaxed_u32(&p->ring[slot].status, TG_SLOT_CLAIMED); /* S4 */
    }
    if (w->lane < TG_BLOCK_WARPS) {
        task->slot[0] = slot;
        task->kept[0] = kept;
        task->count = w->lane == 0 ? TG_TASK_BLOCK : TG_TASK_HELPS;
    }
    tg_warp_sync();
    if (w->lane < TG_BLOCK_WARPS)
        tg_store_release_u32(&task->seq, tg_load_relaxed_u32(&task->seq) + 1); /* Q1 */
    if (w->lane == 0) {
        s->block_kept = 0;
        s->flights++;
    }
    tg_warp_sync();
}

#endif
