/* SPDX-License-Identifier: Apache-2.0
 *
 * What a worker takes next: the level (E2, E3), the tenant within it (E4), the oldest entry of that queue,
 * and then the slot itself by compare-and-swap (E1). Every step costs the same at any ring size (E11). It
 * runs nothing and wakes nobody.
 *
 * READY bits are hints that may be stale on the side of "has work": a queue that was found empty keeps its
 * bit while there is nothing else to do, because the next item for an idle engine most likely comes there,
 * and then neither side writes the word. Likewise while the next item of a busy level is on its way. The bit
 * goes when the worker met TIDY_EVERY such beside other work, or falls asleep.
 */
#include "engine/internal.h"

/* How far ahead the slots of a queue are fetched: far enough to hide the other core's cache (up to half a
 * microsecond where the cores share none), where the queue is long enough for that. */
#define PREFETCH_FAR 16u
#define PREFETCH_NEAR 2u
#define TIDY_EVERY 32u /* looks at an empty queue beside other work */

bool tg_authority_take(struct tg_engine *e, uint32_t tenant)
{
    uint32_t *quota = &e->control[TG_CONTROL_TENANT_QUOTA_BASE + tenant];
    /* A1 seq_cst: the sleeper's last look; pairs with A2, the host's change of mask or quota. */
    uint32_t mask = tg_load_seqcst_u32(&e->control[TG_CONTROL_TENANT_MASKS + tenant]);
    uint32_t left = tg_load_seqcst_u32(quota);
    while (tg_tenant_may_claim(mask, left)) {
        if (left == TG_TENANT_QUOTA_UNLIMITED)
            return true;
        /* A3 acq_rel: one claim less; atomic against other workers and the host. */
        if (tg_cas_acqrel_u32(quota, &left, left - 1))
            return true;
    }
    return false;
}

void tg_authority_return(struct tg_engine *e, uint32_t tenant)
{
    uint32_t *quota = &e->control[TG_CONTROL_TENANT_QUOTA_BASE + tenant];
    uint32_t left = tg_load_relaxed_u32(quota); /* A3 again */
    do {
        if (left >= TG_TENANT_QUOTA_UNLIMITED - 1)
            return;
    } while (!tg_cas_acqrel_u32(quota, &left, left + 1));
}

void tg_ready_tidy(struct tg_engine *e, uint32_t level, uint32_t tenants)
{
    for (; tenants; tenants &= tenants - 1) {
        uint32_t t = tg_levels_first(tenants);
        uint32_t ignored;
        if (tg_index_peek(tg_queue(e, level, t), &ignored))
            continue;
        /* K2 seq_cst: before the look at the entries; pairs with K1. */
        tg_and_seqcst_u32(&e->ready[level], ~(1u << t));
        if (tg_index_peek(tg_queue(e, level, t), &ignored))
            tg_or_seqcst_u32(&e->ready[level], 1u << t);
    }
}

bool tg_levels_advance(struct tg_engine *e, uint64_t state, uint32_t work, uint32_t level)
{
    uint64_t next = tg_levels_claimed(state, work, level);
    /* V1 relaxed: the state is a decision, it hands nothing over. An unchanged state is not written: a
     * single busy level costs no shared write. */
    if (next == state)
        return true;
    if (e->worker_count == 1) {
        tg_store_relaxed_u64(&e->levels, next);
        return true;
    }
    return tg_cas_relaxed_u64(&e->levels, &state, next);
}

void tg_count_claim(struct tg_worker *w, struct tg_claimed *c)
{
    tg_count(&w->counts.level_claims[c->level]);
    tg_count(&w->counts.tenant_claims[c->tenant]);
    if (c->level <= TG_PRIORITY_HIGH) {
        uint32_t run = tg_levels_run(tg_load_relaxed_u64(&w->engine->levels)); /* V1 again */
        if (run != w->urgent_run) {
            w->urgent_run = run;
            tg_store_relaxed_u64(&w->counts.urgent, 0); /* C1 */
        }
        tg_count(&w->counts.urgent);
    }
}

/* Nobody of ours published a foreign slot, so its side is written by who claimed it. Returns true. */
static bool foreign_taken(struct tg_engine *e, const struct tg_claimed *c)
{
    struct tg_side *side = &e->side[c->slot];
    if (!(c->flags & TG_CELL_FOREIGN))
        return true;
    if ((e->flags & TG_ENGINE_SCAN) && c->from == TG_SLOT_PUBLISHED)   /* the poller counts otherwise */
        tg_store_release_u64(&side->generation, side->generation + 1); /* T1 */
    tg_store_relaxed_u32(&side->route, tg_route(c->level, c->tenant, c->flags)); /* P1 */
    return true;
}

/* A foreign slot, or any slot in scan mode, may have been published anew between look and claim: what counts
 * is what the claimed slot says now (E4). w claimed it; routed is whose authority was taken. */
static bool settle_changed(struct tg_worker *w, struct tg_claimed *c, uint32_t routed)
{
    struct tg_engine *e = w->engine;
    c->tenant = c->payload.tenant;
    c->level = c->payload.priority;
    if (c->tenant == routed && c->level < TG_PRIORITY_LEVELS)
        return foreign_taken(e, c);
    tg_authority_return(e, routed);
    struct tg_fault fault = {0};
    if (!tg_tenant_in_table(c->tenant))
        fault = (struct tg_fault){TG_FAULT_TENANT, c->tenant, 0};
    else if (c->level >= TG_PRIORITY_LEVELS)
        fault = (struct tg_fault){TG_FAULT_PRIORITY, c->level, 0};
    if (fault.reason) {
        c->tenant = routed;
        c->level = TG_PRIORITY_IDLE;
        c->kind = TG_KIND_UNKNOWN;
        tg_finish(w, c, TG_RAN_FAULT, &fault);
        return false;
    }
    if (tg_authority_take(e, c->tenant))
        return foreign_taken(e, c);
    /* Not allowed: it goes back as it was, and the poller routes it to its own tenant's queue. S4. */
    if (c->flags & TG_CELL_FOREIGN)
        tg_foreign_forget(e, c->slot);
    tg_slot_try_hand_back(&e->ring[c->slot], (enum tg_slot_status)c->from);
    return false;
}

bool tg_claim_slot(struct tg_worker *w, uint32_t cell, uint32_t level, uint32_t tenant, struct tg_claimed *c)
{
    struct tg_engine *e = w->engine;
    c->slot = cell & TG_CELL_SLOT;
    c->flags = cell & TG_ROUTE_FLAGS;
    struct tg_slot *slot = &e->ring[c->slot];
    if (!tg_slot_try_claim(slot, &c->from)) {
        tg_authority_return(e, tenant);
        if (!(e->flags & TG_ENGINE_SCAN))
            tg_cancelled_popped(e, w, c->slot);
        return false;
    }
    tg_slot_read_payload(slot, &c->payload);
    c->tenant = tenant;
    c->level = level;
    if (e->flags & TG_ENGINE_SCAN) /* the flags of this use, not of the one that was looked at; P1 */
        c->flags = tg_is_foreign(e, c->slot) ? TG_CELL_FOREIGN
                                             : tg_load_relaxed_u32(&e->side[c->slot].route) & TG_ROUTE_FLAGS;
    if ((c->flags & TG_CELL_FOREIGN) || (e->flags & TG_ENGINE_SCAN))
        return settle_changed(w, c, tenant);
    if (c->payload.tenant != tenant || c->payload.priority != level) {
        struct tg_fault fault = {TG_FAULT_TAMPERED, c->payload.tenant, 0};
        c->kind = TG_KIND_UNKNOWN;
        tg_finish(w, c, TG_RAN_FAULT, &fault);
        return false;
    }
    return true;
}

static void prefetch_next(struct tg_engine *e, struct tg_index *q)
{
    uint32_t next;
    if (tg_index_ahead(q, PREFETCH_FAR, &next) || tg_index_ahead(q, PREFETCH_NEAR, &next))
        tg_prefetch_write(&e->ring[next]);
}

static bool pop(struct tg_engine *e, struct tg_index *q, uint32_t *cell)
{
    return e->worker_count == 1 ? tg_index_pop_sc(q, cell) : tg_index_pop_mc(q, cell);
}

/* What waits where, less what this worker knows to be blocked or empty. Returns the level mask. */
static uint32_t look(struct tg_worker *w, const uint32_t *empty, uint32_t *waiting)
{
    struct tg_engine *e = w->engine;
    uint32_t work = 0;
    TG_UNROLL
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++) {
        /* K5 seq_cst: pairs with K1. */
        waiting[l] = tg_load_seqcst_u32(&e->ready[l]) & ~(w->blocked | empty[l]);
        work |= (waiting[l] != 0 ? 1u : 0u) << l;
    }
    return work;
}

/* Is this entry's slot cancelled? Then it is only in the way. */
static bool is_cancelled(struct tg_engine *e, uint32_t cell)
{
    return tg_slot_status(&e->ring[cell & TG_CELL_SLOT]) == TG_SLOT_EMPTY; /* S6 */
}

/* Cancelled entries at the head of a queue whose tenant may not claim give their slots back. */
static void prune(struct tg_worker *w, struct tg_index *q)
{
    struct tg_engine *e = w->engine;
    uint32_t cell;
    for (;;) {
        uint64_t head = tg_load_acquire_u64(&q->head); /* I3 */
        if (!tg_index_look(q, head, &cell) || !is_cancelled(e, cell))
            return;
        if (tg_cas_seqcst_u64(&q->head, &head, head + 1)) /* I5: this very entry */
            tg_cancelled_popped(e, w, cell & TG_CELL_SLOT);
    }
}

bool tg_claim_next(struct tg_worker *w, struct tg_claimed *c)
{
    struct tg_engine *e = w->engine;
    uint32_t empty[TG_PRIORITY_LEVELS] = {0};
    uint32_t waiting[TG_PRIORITY_LEVELS];
    uint32_t stale = 0;
    uint32_t recheck = tg_load_acquire_u32(&e->recheck); /* A5 acquire: pairs with A4 in tenant.c */
    if (recheck != w->recheck) {
        w->recheck = recheck;
        w->blocked = 0;
    }
    for (;;) {
        uint32_t work = look(w, empty, waiting);
        if (work == 0)
            return false;
        uint64_t state = tg_load_relaxed_u64(&e->levels); /* V1 */
        uint32_t level = tg_levels_choose(state, work);
        struct tg_tenant_turn turn = w->turn[level];
        uint32_t tenant = tg_tenants_choose(&turn, waiting[level], w->quantum);
        struct tg_index *q = tg_queue(e, level, tenant);
        uint32_t cell;
        if (!tg_index_peek(q, &cell)) {
            empty[level] |= 1u << tenant;
            stale++;
            continue;
        }
        if (!tg_authority_take(e, tenant)) {
            prune(w, q);
            w->blocked |= 1u << tenant;
            continue;
        }
        if (!tg_levels_advance(e, state, work, level) || !pop(e, q, &cell)) {
            tg_authority_return(e, tenant);
            continue;
        }
        w->turn[level] = turn;
        prefetch_next(e, q);
        w->stale += stale;
        if (stale && w->stale >= TIDY_EVERY) {
            w->stale = 0;
            for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
                tg_ready_tidy(e, l, empty[l]);
        }
        stale = 0;
        if (tg_claim_slot(w, cell, level, tenant, c))
            return true;
    }
}

bool tg_claimable(struct tg_worker *w)
{
    struct tg_engine *e = w->engine;
    if (e->flags & TG_ENGINE_SCAN)
        return tg_scan_claimable(w);
    w->blocked = 0;
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++) {
        /* K5 again. */
        for (uint32_t m = tg_load_seqcst_u32(&e->ready[l]); m; m &= m - 1) {
            uint32_t t = tg_levels_first(m);
            uint32_t cell;
            if (!tg_index_peek(tg_queue(e, l, t), &cell))
                continue;
            if (is_cancelled(e, cell))
                return true;
            /* A1 again. */
            if (tg_tenant_may_claim(tg_load_seqcst_u32(&e->control[TG_CONTROL_TENANT_MASKS + t]),
                                    tg_load_seqcst_u32(&e->control[TG_CONTROL_TENANT_QUOTA_BASE + t])))
                return true;
            w->blocked |= 1u << t;
        }
    }
    return false;
}
