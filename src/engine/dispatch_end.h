/* SPDX-License-Identifier: Apache-2.0
 *
 * How items end on the device: records of bad ends, fences (E5), STATUS (E7), counters, the way of a slot
 * back to the submitters. Part of the dispatcher (dispatch.h): for its ender, or its decider while it holds
 * the ender.
 *
 * What keeps a slot its publisher's: the host publishes it only after it popped the slot's free cell and saw
 * its STATUS at an end (N8 of device_item.c), in whatever order the two stores arrive. Free cells are written
 * some items later, many at a time; where somebody may ask what is free, behind an order of all stores (N3).
 */
#ifndef TG_ENGINE_DISPATCH_END_H
#define TG_ENGINE_DISPATCH_END_H

#include "engine/dispatch_pass.h"

/* As tg_index_lap, for cells that the device fills. */
TG_DEVICE uint32_t tg_cell_lap(uint64_t position, uint32_t shift)
{
    return (uint32_t)(~(position >> shift) << 31);
}

/* Writes the free cells of all slots that ended since the last time. ordered: who finds all slots free finds
 * every STATUS too. It waits for all stores under way, so not while work goes on. */
TG_DEVICE_CALL void tg_free_flush(struct tg_warp w, bool ordered)
{
    struct tg_shared *s = tg_state();
    uint32_t count = s->freed_count;
    tg_warp_sync();
    if (count == 0)
        return;
    if (ordered)
        tg_sys_order_stores(); /* N3: after the slots' STATUS, in all lanes */
    tg_warp_sync();
    uint32_t at = TG_PRIORITY_LEVELS; /* the level whose queue and tail are at hand: mostly all have one */
    uint64_t tail = 0;
    struct tg_cells q = {0, 0, 0};
    for (uint32_t i = 0; i < count; i += TG_LANES) {
        bool have = i + w.lane < count;
        uint32_t entry = have ? s->freed[i + w.lane] : TG_PRIORITY_LEVELS << 20;
        uint32_t level = entry >> 20;
        for (uint32_t rest = tg_warp_ballot(have); rest;) {
            uint32_t of = tg_warp_shfl(level, tg_levels_first(rest));
            uint32_t peers = tg_warp_ballot(level == of);
            if (of != at) {
                if (w.lane == 0 && at != TG_PRIORITY_LEVELS)
                    s->free_tail[at] = tail;
                tg_warp_sync();
                at = of;
                tail = s->free_tail[of];
                q = tg_params()->free[of];
            }
            uint64_t position = tail + tg_rank(w, peers);
            if (level == of)
                /* N3 relaxed; pairs with I4 in index.h. The slot itself is handed over by its STATUS. */
                tg_sys_store_relaxed_u32(&q.cells[position & q.mask],
                                         (entry & 0xFFFFFu) | tg_cell_lap(position, q.shift));
            tail += tg_bits(peers);
            rest &= ~peers;
        }
    }
    tg_warp_sync();
    if (w.lane == 0) {
        s->free_tail[at] = tail;
        s->freed_count = 0;
    }
    tg_warp_sync();
}

/* Lanes whose slot is nobody's any more, and what is kept of it. */
TG_DEVICE void tg_free(struct tg_warp w, bool frees, uint32_t slot, uint32_t kept)
{
    struct tg_shared *s = tg_state();
    uint32_t lanes = tg_warp_ballot(frees);
    if (lanes == 0)
        return;
    if (s->freed_count + TG_LANES > TG_FREED_ROOM)
        tg_free_flush(w, false);
    uint32_t at = s->freed_count + tg_rank(w, lanes);
    tg_warp_sync();
    if (frees) {
        s->freed[at] = slot | tg_level_of(kept) << 20;
        tg_params()->kept[slot] = kept & ~TG_KEPT_HELD;
    }
    if (w.lane == 0)
        s->freed_count += tg_bits(lanes);
    tg_warp_sync();
}

/* One lane: a fault, in the words that announce it. */
TG_DEVICE void tg_announce_fault(const struct tg_device_params *p, uint32_t slot, uint32_t reason)
{
    /* X1: the count last, so that a change of it announces one. */
    tg_word_store(p, TG_CONTROL_EXTENSION_BASE + 1, slot);
    tg_word_store(p, TG_CONTROL_EXTENSION_BASE + 2, reason);
    tg_word_store(p, TG_CONTROL_EXTENSION_BASE,
                  tg_load_relaxed_u32(&p->control[TG_CONTROL_EXTENSION_BASE]) + 1);
}

/* One lane: how a slot ended that did not end DONE (tg_bad_end_write of finish.c, on the device). */
TG_DEVICE_CALL void tg_write_bad_end(const struct tg_device_params *p, uint32_t slot, uint32_t status,
                                     const struct tg_fault *fault)
{
    struct tg_bad_end b = p->bad[slot];
    uint64_t now = tg_load_relaxed_u64(&p->generation[slot]);
    uint64_t since = now - b.generation;
    b.faulted = (since < 64 ? b.faulted << since : 0) | (status == TG_SLOT_FAULT ? 1u : 0u);
    b.cancelled = (since < 64 ? b.cancelled << since : 0) | (status == TG_SLOT_FAULT ? 0u : 1u);
    b.generation = now;
    b.status = status == TG_SLOT_FAULT ? status : TG_BAD_CANCELLED;
    b.reason = fault ? fault->reason : 0;
    b.detail = fault ? fault->detail : 0;
    b.inner_op = fault ? fault->inner_op : 0;
    p->bad[slot] = b;
    struct tg_bad_end *h = &p->host_bad[slot];
    /* B0, B1, B2 as in finish.c; pairs with B3 in wait.c. */
    tg_sys_store_release_u64(&h->generation, 0);
    tg_sys_store_release_u32(&h->status, b.status);
    tg_sys_store_relaxed_u32(&h->reason, b.reason);
    tg_sys_store_relaxed_u32(&h->detail, b.detail);
    tg_sys_store_relaxed_u32(&h->inner_op, b.inner_op);
    tg_sys_store_relaxed_u64(&h->faulted, b.faulted);
    tg_sys_store_relaxed_u64(&h->cancelled, b.cancelled);
    tg_sys_store_release_u64(&h->generation, now);
    if (status == TG_SLOT_FAULT)
        tg_announce_fault(p, slot, b.reason);
}

/* Lanes whose item of a batch ended tell the fence (E5). */
TG_DEVICE_CALL void tg_fence_count(struct tg_warp w, bool batched, uint32_t slot)
{
    const struct tg_device_params *p = tg_params();
    if (tg_warp_ballot(batched) == 0)
        return;
    uint32_t fence = batched ? p->items[slot].word[8] >> TG_LINE_VALUE_SHIFT : p->slots + w.lane;
    uint32_t peers = tg_warp_match(fence);
    bool over = false;
    uint32_t kept = 0;
    if (batched && tg_rank(w, peers) == 0) {
        int32_t left = p->fence_left[fence] - (int32_t)tg_bits(peers);
        p->fence_left[fence] = left;
        kept = p->kept[fence];
        over = left == 0 && (tg_status_of(kept) == TG_SLOT_YIELD || (kept & TG_KEPT_ORPHAN));
    }
    bool orphan = over && (kept & TG_KEPT_ORPHAN);
    tg_push(w, over && !orphan, fence, kept);
    tg_free(w, orphan, fence, kept & ~TG_KEPT_ORPHAN);
}

/* One lane: a latency, at a place of the level's ring. */
TG_DEVICE void tg_write_sample(uint32_t level, uint64_t at, uint32_t tenant, uint32_t kind, uint64_t ns)
{
    ns = ns < TG_SAMPLE_NS ? ns : TG_SAMPLE_NS;
    uint64_t place = (uint64_t)level << TG_SAMPLE_SHIFT | (at & ((1u << TG_SAMPLE_SHIFT) - 1u));
    /* M2 relaxed: one word; there once M3 counts it. */
    tg_sys_store_relaxed_u64(&tg_params()->samples[place],
                             (uint64_t)tenant << 46 | (uint64_t)kind << 37 | ns);
}

TG_DEVICE_CALL void tg_sample(struct tg_warp w, bool sampled, const struct tg_taken *t, uint32_t kind)
{
    uint32_t lanes = tg_warp_ballot(sampled);
    if (lanes == 0)
        return;
    struct tg_shared *s = tg_state();
    uint32_t level = sampled ? t->level : TG_PRIORITY_LEVELS + w.lane;
    uint32_t peers = tg_warp_match(level);
    uint64_t at = sampled ? s->samples[level] + tg_rank(w, peers) : 0;
    if (sampled)
        tg_write_sample(t->level, at, t->tenant, kind, tg_device_ns() - tg_params()->stamp[t->slot]);
    tg_warp_sync();
    if (sampled && tg_rank(w, peers) == 0)
        s->samples[level] += tg_bits(peers);
    tg_warp_sync();
}

/* Are all of these lanes of the kind, with the same key? */
TG_DEVICE bool tg_alike(bool kind, uint32_t lanes, uint32_t key)
{
    uint32_t first = tg_warp_shfl(key, tg_levels_first(lanes));
    return (tg_warp_ballot(kind && key == first) & lanes) == lanes;
}

/* Lanes whose item ended, DONE or FAULT. written: its STATUS is there already (a worker did it). effects:
 * some lane wrote what the host may read. */
TG_DEVICE_CALL void tg_end(struct tg_warp w, bool ends, const struct tg_taken *t, bool faulted,
                           const struct tg_fault *fault, uint32_t kind, bool written, bool effects)
{
    const struct tg_device_params *p = tg_params();
    struct tg_shared *s = tg_state();
    uint32_t lanes = tg_warp_ballot(ends);
    if (lanes == 0)
        return;
    for (uint32_t m = tg_warp_ballot(ends && faulted); m; m &= m - 1) { /* one by one: they count in a word */
        if (w.lane == tg_levels_first(m))
            tg_write_bad_end(p, t->slot, TG_SLOT_FAULT, fault);
        tg_warp_sync();
    }
    bool release = tg_warp_ballot(ends && (effects || faulted)) != 0;
    uint32_t status = faulted ? TG_SLOT_FAULT : TG_SLOT_DONE;
    if (ends && !written) {
        /* S3: results, records and words before the status; pairs with S6. */
        if (release)
            tg_sys_store_release_u32(&p->ring[t->slot].status, status);
        else
            tg_sys_store_relaxed_u32(&p->ring[t->slot].status, status);
    }
    if (s->freed_count > p->free_batch)
        tg_free_flush(w, false); /* of batches before; behind the stores that somebody may wait for */
    bool alike = tg_alike(ends && !faulted, lanes, t->level * TG_TENANTS + t->tenant);
    if (ends && alike) {
        if (tg_rank(w, lanes) == 0) { /* one for all */
            tg_bump_relaxed_u64(&p->counts->level_done[t->level], tg_bits(lanes));
            tg_bump_relaxed_u64(&p->counts->tenant_done[t->tenant], tg_bits(lanes));
        }
    } else if (ends) {
        /* C4 relaxed: read by this warp alone. */
        if (faulted) {
            tg_bump_relaxed_u64(&p->counts->level_faults[t->level], 1);
            tg_bump_relaxed_u64(&p->counts->tenant_faults[t->tenant], 1);
            tg_bump_relaxed_u64(&p->counts->faults[kind], 1);
        } else {
            tg_bump_relaxed_u64(&p->counts->level_done[t->level], 1);
            tg_bump_relaxed_u64(&p->counts->tenant_done[t->tenant], 1);
        }
    }
    uint32_t done = tg_bits(tg_warp_ballot(ends && !faulted));
    if (w.lane == 0) {
        tg_bump_relaxed_u64(&p->counts->done, done);
        tg_state()->unposted += tg_bits(lanes);
    }
    tg_sample(w, ends && (t->kept & TG_KEPT_SAMPLED), t, kind);
    tg_fence_count(w, ends && (t->kept & TG_KEPT_BATCHED), t->slot);
    tg_free(w, ends, t->slot, tg_with_status(t->kept, status));
}

/* A counter: of the ender and decider, and of the workers for what bodies published. */
TG_DEVICE uint64_t tg_counted(const struct tg_device_params *p, const uint64_t *now)
{
    uint64_t value = tg_load_relaxed_u64(now);
    size_t at = (size_t)(now - (const uint64_t *)(const void *)p->counts);
    if (p->born)
        value += tg_load_relaxed_u64((const uint64_t *)(const void *)p->born_counts + at); /* C4 */
    return value;
}

/* One lane: adds what is new in a counter to its control word. */
TG_DEVICE void tg_post(const struct tg_device_params *p, uint32_t word, const uint64_t *now, uint64_t *posted)
{
    uint64_t value = tg_counted(p, now);
    uint32_t delta = (uint32_t)(value - *posted);
    if (delta == 0)
        return;
    *posted = value;
    tg_word_store(p, word, tg_load_relaxed_u32(&p->control[word]) + delta);
}

/* NOPs that ended are counted when others come than before, and here. */
TG_DEVICE_CALL void tg_count_nops(struct tg_warp w)
{
    struct tg_shared *s = tg_state();
    struct tg_counts *c = tg_params()->counts;
    uint32_t n = s->nops;
    uint32_t level = tg_level_of(s->nops_of);
    uint32_t tenant = tg_tenant_of(s->nops_of);
    uint64_t *count = w.lane == 0   ? &c->level_claims[level]
                      : w.lane == 1 ? &c->tenant_claims[tenant]
                      : w.lane == 2 ? &c->executions[TG_OP_NOP]
                      : w.lane == 3 ? &c->level_done[level]
                      : w.lane == 4 ? &c->tenant_done[tenant]
                                    : &c->done;
    tg_warp_sync();
    if (n == 0)
        return;
    if (w.lane < 6) /* C4 */
        tg_bump_relaxed_u64(count, n);
    if (w.lane == 0)
        s->nops = 0;
    tg_warp_sync();
}

/* Publishes the counters: the control words of the ABI and, with all, the statistics. */
TG_DEVICE_CALL void tg_counts_publish(struct tg_warp w, bool all)
{
    const struct tg_device_params *p = tg_params();
    struct tg_counts *now = p->counts;
    struct tg_counts *posted = &tg_state()->posted;
    tg_warp_sync(); /* the caller looked at UNPOSTED */
    tg_count_nops(w);
    if (w.lane < TG_TENANTS)
        tg_post(p, TG_CONTROL_TENANT_FAIRNESS_BASE + w.lane, &now->tenant_claims[w.lane],
                &posted->tenant_claims[w.lane]);
    if (w.lane < TG_OP_FIRST_USER)
        tg_post(p, TG_CONTROL_METRICS_BASE + w.lane, &now->executions[w.lane], &posted->executions[w.lane]);
    if (w.lane < TG_PRIORITY_LEVELS)
        tg_post(p, TG_CONTROL_PRIORITY_FAIRNESS_BASE + w.lane, &now->level_claims[w.lane],
                &posted->level_claims[w.lane]);
    if (w.lane == 0) {
        tg_word_store(p, TG_CONTROL_PRIORITY_STARVATION_COUNTER,
                      tg_block_load_relaxed_u32(&tg_state()->urgent)); /* C6 */
        tg_post(p, TG_CONTROL_DONE_COUNT, &now->done, &posted->done);
        tg_state()->unposted = 0;
    }
    if (all) {
        const uint64_t *from = (const uint64_t *)(const void *)now;
        uint64_t *to = (uint64_t *)(void *)p->host_counts;
        /* C5 relaxed: before the answer (N5); pairs with C2 in counts.c. */
        for (uint32_t i = w.lane; i < sizeof(*now) / sizeof(uint64_t); i += TG_LANES)
            tg_sys_store_relaxed_u64(&to[i], tg_counted(p, &from[i]));
        if (w.lane < TG_PRIORITY_LEVELS) /* M3 relaxed: before the answer (N5) */
            tg_sys_store_relaxed_u64(&p->answers->samples[w.lane], tg_state()->samples[w.lane]);
        if (w.lane == 0) {
            tg_sys_store_relaxed_u64(&p->answers->cancelled, tg_state()->cancelled);
            tg_sys_store_relaxed_u64(&p->answers->handed_back, tg_state()->handed_back);
            tg_sys_store_relaxed_u64(&p->answers->log_dropped, tg_state()->log_dropped);
            tg_sys_store_relaxed_u64(&p->answers->outside_faults, tg_state()->outside_faults);
        }
    }
    tg_warp_sync();
}

#endif
