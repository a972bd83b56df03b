/* SPDX-License-Identifier: Apache-2.0
 *
 * What happens to an item after its body: DONE, FAULT, YIELD, REQUEUE or WAIT_IO becomes visible, its fence
 * counts it, its waiter wakes, and its slot goes back to the submitters.
 *
 * Rules kept: E1, E5, E6, E7 (counts and results first, then the status), E8 (nothing is forgotten).
 */
#include "base/clock.h"
#include "engine/futex.h"
#include "engine/internal.h"

/* B1, B2 release: fields, then the generation that makes them valid; pairs with B3 in wait.c. The fields are
 * release stores too, so that a reader of a new field also sees that the old generation is gone (B0). */
void tg_bad_end_write(struct tg_engine *e, uint32_t slot, uint32_t status, const struct tg_fault *fault)
{
    struct tg_bad_end *bad = &e->bad[slot];
    uint64_t now = tg_load_relaxed_u64(&e->side[slot].generation);
    uint64_t since = now - tg_load_relaxed_u64(&bad->generation);
    uint64_t faulted = since < 64 ? tg_load_relaxed_u64(&bad->faulted) << since : 0;
    uint64_t cancelled = since < 64 ? tg_load_relaxed_u64(&bad->cancelled) << since : 0;
    /* B0 release: while the fields change the record names no generation. */
    tg_store_release_u64(&bad->generation, 0);
    tg_store_release_u32(&bad->status, status == TG_SLOT_FAULT ? status : TG_BAD_CANCELLED);
    tg_store_release_u32(&bad->reason, fault ? fault->reason : 0);
    tg_store_release_u32(&bad->detail, fault ? fault->detail : 0);
    tg_store_release_u32(&bad->inner_op, fault ? fault->inner_op : 0);
    tg_store_release_u64(&bad->faulted, faulted | (status == TG_SLOT_FAULT ? 1u : 0u));
    tg_store_release_u64(&bad->cancelled, cancelled | (status == TG_SLOT_FAULT ? 0u : 1u));
    tg_store_release_u64(&bad->generation, now);
}

void tg_fault_words(struct tg_engine *e, uint32_t slot, uint32_t reason)
{
    /* X1 relaxed: one of the latest faults; the count last, so that a change of it announces one. */
    tg_store_relaxed_u32(&e->control[TG_EXT_FAULT_SLOT], slot);
    tg_store_relaxed_u32(&e->control[TG_EXT_FAULT_REASON], reason);
    tg_add_acqrel_u32(&e->control[TG_EXT_FAULT_COUNT], 1);
}

static void freed_wake(struct tg_engine *e)
{
    tg_add_seqcst_u32(&e->space_event, 1); /* D1 seq_cst: after the free entry; pairs with D2 in wait.c */
    tg_futex_wake_all(&e->space_event);
    /* Y4 seq_cst: after the free entry; pairs with Y3 in serve.c. */
    if (tg_load_seqcst_u32(&e->serve_starved) && tg_exchange_seqcst_u32(&e->serve_starved, 0))
        tg_serve_wake(e);
}

static void flush_shard(struct tg_worker *w, uint32_t level, uint32_t shard)
{
    uint32_t n = w->freed_count[level][shard];
    if (n == 0)
        return;
    w->freed_count[level][shard] = 0;
    tg_free_push_many(&w->engine->level[level].free[shard], w->freed[level][shard], n);
}

void tg_freed_flush(struct tg_worker *w)
{
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
        for (uint32_t s = 0; s < w->engine->shards; s++)
            flush_shard(w, l, s);
    if (tg_attention(w->engine))
        freed_wake(w->engine);
}

/* Frees a slot of the level without looking who holds it. */
static inline void free_now(struct tg_engine *e, struct tg_worker *w, uint32_t level, uint32_t slot)
{
    /* Z2 acquire: pairs with Z1 in resize.c. */
    if (tg_load_acquire_u32(&e->resizing) && tg_resize_collect(e, slot))
        return;
    if (!w) {
        tg_free_push_many(tg_free_of(e, level, slot), &slot, 1);
        if (tg_attention(e))
            freed_wake(e);
        return;
    }
    uint32_t shard = tg_shard(e, slot);
    w->freed[level][shard][w->freed_count[level][shard]++] = slot;
    if (w->freed_count[level][shard] >= tg_load_relaxed_u32(&e->freed_batch[level])) /* P0 */
        flush_shard(w, level, shard);
}

void tg_slot_release(struct tg_engine *e, struct tg_worker *w, uint32_t slot)
{
    if (tg_attention(e)) {
        /* H2 seq_cst: hand the duty over if somebody holds the slot; pairs with H1 in cancel.c. */
        uint32_t att = tg_load_seqcst_u32(&e->attention_of[slot]);
        while ((att & TG_ATT_HOLDS) != 0)
            if (tg_cas_seqcst_u32(&e->attention_of[slot], &att, att | TG_ATT_PENDING))
                return;
        free_now(e, w, tg_home(e, slot), slot);
        if (w)
            tg_freed_flush(w);
        return;
    }
    free_now(e, w, tg_home(e, slot), slot);
}

void tg_cancelled_popped(struct tg_engine *e, struct tg_worker *w, uint32_t slot)
{
    uint32_t route = tg_load_relaxed_u32(&e->side[slot].route); /* P1 */
    if (route & TG_CELL_FOREIGN) {
        tg_foreign_forget(e, slot);
        return;
    }
    /* A cancelled fence keeps its slot until its items ended: they count down its word. F4 acq_rel. */
    if ((tg_load_acquire_u32(&e->fence_of[slot]) & TG_FENCE_COUNT) != 0 &&
        !tg_load_seqcst_u32(&e->hand_back)) {
        uint32_t before = tg_or_acqrel_u32(&e->fence_of[slot], TG_FENCE_PARKED);
        if ((before & TG_FENCE_COUNT) != 0)
            return;
    }
    tg_slot_release(e, w, slot);
}

void tg_fence_item_ended(struct tg_engine *e, uint32_t fence_slot)
{
    if (tg_load_seqcst_u32(&e->hand_back)) /* M1: everything is handed back, fences too; pairs with M2 */
        return;
    /* F2 acq_rel: the item's results before the fence; pairs with F3 and F4. */
    uint32_t before = tg_sub_acqrel_u32(&e->fence_of[fence_slot], 1);
    bool scan = (e->flags & TG_ENGINE_SCAN) != 0;
    if (before == (TG_FENCE_PARKED | 1u)) {
        tg_store_release_u32(&e->fence_of[fence_slot], 0); /* F5 release: ours alone until it is queued */
        if (scan)
            tg_slot_release(e, NULL, fence_slot); /* cancelled: see tg_cancelled_popped */
        else
            tg_requeue(e, fence_slot);
    } else if (before == 1 && scan) {
        tg_wake_one(e); /* a scanning worker sees the count itself */
    }
}

/* YIELD: the status first, then the word that lets the last item queue the fence again. */
static void park_fence(struct tg_worker *w, struct tg_claimed *c)
{
    struct tg_engine *e = w->engine;
    tg_count(&w->counts.yields);
    if (c->flags & TG_CELL_FOREIGN) {
        tg_foreign_forget(e, c->slot);
        tg_slot_try_hand_back(&e->ring[c->slot], TG_SLOT_YIELD);
        return;
    }
    tg_store_seqcst_u32(&e->ring[c->slot].status, TG_SLOT_YIELD); /* S4; nobody else changes CLAIMED here */
    if (e->flags & TG_ENGINE_SCAN)
        return; /* from here on the fence is any scanning worker's; only a cancelled one is PARKED */
    /* F4 acq_rel: pairs with F2. */
    uint32_t before = tg_or_acqrel_u32(&e->fence_of[c->slot], TG_FENCE_PARKED);
    if ((before & TG_FENCE_COUNT) == 0) {
        tg_store_release_u32(&e->fence_of[c->slot], 0); /* F5 */
        tg_requeue(e, c->slot);
    }
}

static void requeue(struct tg_worker *w, struct tg_claimed *c)
{
    struct tg_engine *e = w->engine;
    tg_count(&w->counts.requeues);
    if (c->flags & TG_CELL_FOREIGN) {
        tg_foreign_forget(e, c->slot);
        tg_slot_try_hand_back(&e->ring[c->slot], TG_SLOT_REQUEUE);
        return;
    }
    tg_store_seqcst_u32(&e->ring[c->slot].status, TG_SLOT_REQUEUE); /* S4 */
    tg_requeue(e, c->slot);
    if (c->flags & TG_CELL_SERVED)
        tg_served_back(e);
}

static void count_end(struct tg_worker *w, const struct tg_claimed *c, bool faulted)
{
    if (faulted) {
        tg_count(&w->counts.level_faults[c->level]);
        tg_count(&w->counts.tenant_faults[c->tenant]);
        tg_count(&w->counts.faults[c->kind]);
        return;
    }
    tg_count(&w->counts.done);
    tg_count(&w->counts.level_done[c->level]);
    tg_count(&w->counts.tenant_done[c->tenant]);
}

/* The last steps of a slot of ours: status, fence, waiter, free. */
static void end_own(struct tg_worker *w, struct tg_claimed *c, uint32_t status, const struct tg_fault *fault)
{
    struct tg_engine *e = w->engine;
    uint32_t fence = c->flags & TG_CELL_BATCHED ? e->side[c->slot].fence : TG_NO_SLOT;
    /* S3 seq_cst (release publishes the results, S6): also before the look at who waits (N2). */
    tg_store_seqcst_u32(&e->ring[c->slot].status, status);
    if (c->flags & TG_CELL_SERVED)
        tg_served_end(e, c->slot, status, fault, c->result);
    if (fence != TG_NO_SLOT)
        tg_fence_item_ended(e, fence);
    if (!tg_attention(e)) { /* nobody waits for it (W2) or holds it (H2) */
        free_now(e, w, c->level, c->slot);
        return;
    }
    tg_waiters_wake(e, c->slot);
    tg_slot_release(e, w, c->slot);
}

/* A foreign slot is free for its host the moment the status changes. */
static void end_foreign(struct tg_worker *w, struct tg_claimed *c, uint32_t status)
{
    struct tg_engine *e = w->engine;
    uint32_t claimed = TG_SLOT_CLAIMED;
    tg_foreign_forget(e, c->slot);
    tg_cas_seqcst_u32(&e->ring[c->slot].status, &claimed, status); /* S3; the host may have faulted it */
    if (tg_attention(e))
        tg_waiters_wake(e, c->slot);
}

void tg_finish(struct tg_worker *w, struct tg_claimed *c, int result, const struct tg_fault *fault)
{
    struct tg_engine *e = w->engine;
    w->unposted++;
    switch (result) {
    case TG_RAN_YIELD:
        park_fence(w, c);
        return;
    case TG_OP_REQUEUE:
        requeue(w, c);
        return;
    case TG_OP_WAIT_IO:
        tg_io_park(e, c, c->payload.args[0]);
        if (c->flags & TG_CELL_SERVED)
            tg_served_back(e);
        return;
    default:
        break;
    }
    bool faulted = result != TG_OP_FINISHED;
    count_end(w, c, faulted);
    if (c->flags & TG_CELL_SAMPLED)
        tg_latency_record(w, c->level, c->tenant, c->kind, tg_clock_mono_ns() - e->stamp[c->slot]);
    if (faulted) {
        tg_bad_end_write(e, c->slot, TG_SLOT_FAULT, fault);
        tg_fault_words(e, c->slot, fault->reason);
    }
    uint32_t status = faulted ? TG_SLOT_FAULT : TG_SLOT_DONE;
    if (c->flags & TG_CELL_FOREIGN)
        end_foreign(w, c, status);
    else
        end_own(w, c, status, fault);
}
