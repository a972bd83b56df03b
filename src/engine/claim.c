/* SPDX-License-Identifier: Apache-2.0
 *
 * What a worker takes next: the level (E2, E3), the tenant within it (E4), the shard (whose submitters'
 * queue), the oldest entry of that queue, and then the slot itself by compare-and-swap (E1). Every step costs
 * the same at any ring size (E11). It runs nothing; it wakes somebody only for what it hid a moment ago.
 *
 * Most looks end where the last one did. So several claims are decided at once (levels.h), and while the
 * marks, the turn and the decision stand as they were they follow one another without a new look
 * (claim_again).
 *
 * READY bits are hints that may be stale on the side of "has work": a queue that was found empty keeps its
 * bit while there is nothing else to do, because the next item for an idle engine most likely comes there,
 * and then neither side writes the word. Likewise while the next item of a busy level is on its way. The bit
 * goes when the worker met TIDY_EVERY such beside other work, or falls asleep.
 */
#include <string.h>

#include "engine/internal.h"

/* How far ahead the slots of a queue are fetched: far enough to hide the other core's cache (up to half a
 * microsecond where the cores share none), where the queue is long enough for that. */
#define PREFETCH_FAR 16u
#define PREFETCH_NEAR 2u
#define TIDY_EVERY 8u   /* looks at an empty queue beside other work */
#define AHEAD 8u        /* claims at one level that a worker decides at once */
#define AHEAD_ALONE 16u /* the same of an only worker, who counts them one by one */
#define HOME_CLAIMS 64u /* of one level and tenant, before a worker looks at other shards */
#define VISIT_CLAIMS 8u /* at a shard that has fallen behind */

/* Of a tenant whose claims are counted, or who may not claim. */
static __attribute__((noinline)) bool take_counted(struct tg_engine *e, uint32_t tenant)
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

static inline bool authority_take(struct tg_engine *e, uint32_t tenant)
{
    /* A1 again. */
    return (tg_load_seqcst_u32(&e->control[TG_CONTROL_TENANT_MASKS + tenant]) == TG_TENANT_MASK_ALL &&
            tg_load_seqcst_u32(&e->control[TG_CONTROL_TENANT_QUOTA_BASE + tenant]) ==
                TG_TENANT_QUOTA_UNLIMITED) ||
           take_counted(e, tenant);
}

bool tg_authority_take(struct tg_engine *e, uint32_t tenant)
{
    return authority_take(e, tenant);
}

void tg_authority_return(struct tg_engine *e, uint32_t tenant)
{
    uint32_t *quota = &e->control[TG_CONTROL_TENANT_QUOTA_BASE + tenant];
    uint32_t left = tg_load_relaxed_u32(quota);
    do {
        if (left >= TG_TENANT_QUOTA_UNLIMITED - 1)
            return;
        /* A3 seq_cst: it was the last claim, and who looked meanwhile found the tenant blocked: as A2. */
    } while (!tg_cas_seqcst_u32(quota, &left, left + 1));
    if (left == 0)
        tg_tenant_changed(e);
}

void tg_ready_tidy(struct tg_engine *e, uint32_t shard, uint32_t level, uint32_t tenants)
{
    uint32_t *ready = &e->ready[shard].level[level];
    for (; tenants; tenants &= tenants - 1) {
        uint32_t t = tg_levels_first(tenants);
        uint32_t ignored;
        if (tg_index_peek(tg_queue(e, shard, level, t), &ignored))
            continue;
        /* K2 seq_cst: before the look at the entries; pairs with K1. */
        tg_and_seqcst_u32(ready, ~(1u << t));
        if (tg_index_peek(tg_queue(e, shard, level, t), &ignored)) {
            /* Who looked in between fell asleep beside the entry: its publisher saw nobody asleep yet. */
            tg_or_seqcst_u32(ready, 1u << t); /* K1 again */
            tg_wake_one(e);
        }
    }
}

static inline bool levels_advance(struct tg_engine *e, uint64_t state, uint32_t work, uint32_t level)
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

bool tg_levels_advance(struct tg_engine *e, uint64_t state, uint32_t work, uint32_t level)
{
    return levels_advance(e, state, work, level);
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
    tg_store_relaxed_u32(&side->route, tg_route(0, c->level, c->tenant, c->flags)); /* P1 */
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

/* The rare ends of claim_slot. */
static __attribute__((noinline)) bool claim_failed(struct tg_worker *w, uint32_t slot, uint32_t tenant)
{
    struct tg_engine *e = w->engine;
    tg_authority_return(e, tenant);
    if (!(e->flags & TG_ENGINE_SCAN))
        tg_cancelled_popped(e, w, slot);
    return false;
}

static __attribute__((noinline)) bool claimed_other(struct tg_worker *w, struct tg_claimed *c,
                                                    uint32_t tenant)
{
    struct tg_engine *e = w->engine;
    if (e->flags & TG_ENGINE_SCAN) /* the flags of this use, not of the one that was looked at; P1 */
        c->flags = tg_is_foreign(e, c->slot) ? TG_CELL_FOREIGN
                                             : tg_load_relaxed_u32(&e->side[c->slot].route) & TG_ROUTE_FLAGS;
    if ((c->flags & TG_CELL_FOREIGN) || (e->flags & TG_ENGINE_SCAN))
        return settle_changed(w, c, tenant);
    struct tg_fault fault = {TG_FAULT_TAMPERED, c->payload.tenant, 0};
    c->kind = TG_KIND_UNKNOWN;
    tg_finish(w, c, TG_RAN_FAULT, &fault);
    return false;
}

static inline bool claim_slot(struct tg_worker *w, uint32_t cell, uint32_t level, uint32_t tenant,
                              struct tg_claimed *c)
{
    struct tg_engine *e = w->engine;
    struct tg_slot *slot = &e->ring[cell & TG_CELL_SLOT];
    c->slot = cell & TG_CELL_SLOT;
    c->flags = cell & TG_ROUTE_FLAGS;
    if (!tg_slot_try_claim(slot, &c->from))
        return claim_failed(w, c->slot, tenant);
    tg_slot_read_payload(slot, &c->payload);
    c->tenant = tenant;
    c->level = level;
    if ((c->flags & TG_CELL_FOREIGN) || (e->flags & TG_ENGINE_SCAN) || c->payload.tenant != tenant ||
        c->payload.priority != level)
        return claimed_other(w, c, tenant);
    return true;
}

bool tg_claim_slot(struct tg_worker *w, uint32_t cell, uint32_t level, uint32_t tenant, struct tg_claimed *c)
{
    return claim_slot(w, cell, level, tenant, c);
}

static inline void prefetch_next(struct tg_engine *e, struct tg_index *q)
{
    uint32_t next;
    if (tg_index_ahead(q, PREFETCH_FAR, &next) || tg_index_ahead(q, PREFETCH_NEAR, &next))
        tg_prefetch_write(&e->ring[next]);
}

/* Takes the entry that was seen at this head. */
static inline bool take(struct tg_engine *e, struct tg_index *q, uint64_t head)
{
    if (e->worker_count == 1) {
        tg_index_take_sc(q, head);
        return true;
    }
    return tg_index_take_mc(q, head);
}

/* What waits where, less what this worker knows to be blocked or empty. */
struct look {
    uint32_t waiting[TG_SHARDS][TG_PRIORITY_LEVELS]; /* tenants */
    uint32_t any[TG_PRIORITY_LEVELS];                /* in any shard */
    uint32_t work;                                   /* levels */
    uint32_t forgotten;                              /* as they were before all that */
    uint64_t state;
};

static inline void look(const struct tg_worker *w, struct look *k, uint32_t shards)
{
    const struct tg_engine *e = w->engine;
    uint32_t allowed = ~w->blocked;
    k->work = 0;
    /* V5 acquire: before the state; pairs with V4, so that who sees a count forgotten sees this too. */
    k->forgotten = tg_load_acquire_u32(&e->forgotten);
    /* V1 acquire: before the look, so that a decision on an old look fails: it would take a level that got
     * work meanwhile for one without, and forget how often that was overtaken. */
    k->state = tg_load_acquire_u64(&e->levels);
    TG_UNROLL
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
        k->any[l] = k->waiting[0][l] = tg_load_seqcst_u32(&e->ready[0].level[l]) & allowed; /* K5 again */
    for (uint32_t s = 1; s < shards; s++) {
        TG_UNROLL
        for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++) {
            /* K5 seq_cst: pairs with K1. */
            k->waiting[s][l] = tg_load_seqcst_u32(&e->ready[s].level[l]) & allowed;
            k->any[l] |= k->waiting[s][l];
        }
    }
    TG_UNROLL
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
        k->work |= (k->any[l] != 0 ? 1u : 0u) << l;
}

/* The same for several claims at once: the state is the workers' most contended word, and who has decided
 * needs no new look (claim_again). */
static inline bool levels_ahead(struct tg_worker *w, const struct look *k, uint32_t level)
{
    struct tg_engine *e = w->engine;
    uint64_t next, state = k->state;
    uint32_t forgotten = k->forgotten, work = k->work;
    uint32_t n = tg_levels_ahead(state, work, level, e->worker_count == 1 ? AHEAD_ALONE : AHEAD, &next);
    w->ahead.left = n - 1;
    if (e->worker_count == 1) {
        /* Counted one by one, in claim_again: nobody else decides, and what is not used is not counted. */
        w->ahead.step = tg_levels_spread(work & ~(1u << level));
        w->ahead.work = 0;
        return levels_advance(e, state, work, level);
    }
    w->ahead.left = 0;
    if (next != state) {
        /* V4 acq_rel: before the state changes; pairs with V5. */
        if (tg_levels_forgets(state, next) && tg_add_acqrel_u32(&e->forgotten, 1) == forgotten)
            forgotten++; /* its own step hides nobody else's */
        /* V1, V4 again. */
        if (!tg_cas_acqrel_u64(&e->levels, &state, next))
            return false;
    }
    w->ahead.run = (uint32_t)(next >> 40);
    w->ahead.forgotten = forgotten;
    w->ahead.work = work;
    w->ahead.level = level;
    w->ahead.left = n - 1;
    return true;
}

/* Was the next claim decided ahead, and does that still hold (levels.h)? */
static inline bool decided(const struct tg_worker *w, const struct look *k)
{
    return w->ahead.left != 0 && w->ahead.work == k->work && w->ahead.forgotten == k->forgotten &&
           w->ahead.run == (uint32_t)(k->state >> 40);
}

static bool waits(const struct look *k, uint32_t shard, uint32_t level, uint32_t tenant)
{
    return k->waiting[shard][level] >> tenant & 1u;
}

/* The queue was found empty. */
static inline void strike(struct look *k, uint32_t shards, uint32_t shard, uint32_t level, uint32_t tenant)
{
    k->waiting[shard][level] &= ~(1u << tenant);
    k->any[level] = 0;
    for (uint32_t s = 0; s < shards; s++)
        k->any[level] |= k->waiting[s][level];
    if (k->any[level] == 0)
        k->work &= ~(1u << level);
}

/* Which of the other shards with work is next after the one visited last, and for how many claims: none while
 * somebody else serves it as fast. */
static void look_around(struct tg_worker *w, const struct look *k, uint32_t level, uint32_t tenant,
                        struct tg_visit *visit, uint32_t home)
{
    struct tg_engine *e = w->engine;
    for (uint32_t i = 1; i <= e->shards; i++) {
        uint32_t s = (visit->shard + i) & (e->shards - 1);
        if (s == home || !waits(k, s, level, tenant))
            continue;
        uint32_t now = (uint32_t)tg_load_relaxed_u64(&tg_queue(e, s, level, tenant)->head); /* I6: a guess */
        uint32_t moved = now - visit->seen[s];
        visit->seen[s] = now;
        visit->shard = (uint8_t)s;
        visit->left = moved >= HOME_CLAIMS ? 0 : VISIT_CLAIMS;
        return;
    }
}

/* Whose submitters' queue of this level and tenant is served: those of the worker's home first, because their
 * lines are in this core's cache; after HOME_CLAIMS a few of another one that has fallen behind. Who has no
 * work at home serves the others in turn, as many of each. */
static uint32_t choose_shard(struct tg_worker *w, const struct look *k, uint32_t level, uint32_t tenant)
{
    struct tg_engine *e = w->engine;
    struct tg_visit *visit = &w->visit[level][tenant];
    uint32_t home = tg_load_relaxed_u32(&w->home); /* U6 relaxed: a preference */
    if (waits(k, home, level, tenant)) {
        if (visit->left && waits(k, visit->shard, level, tenant)) {
            visit->left--;
            return visit->shard;
        }
        visit->left = 0;
        if (++visit->used > HOME_CLAIMS) {
            visit->used = 0;
            look_around(w, k, level, tenant, visit, home);
        }
        return home;
    }
    visit->left = 0;
    if (waits(k, visit->shard, level, tenant) && ++visit->used <= HOME_CLAIMS)
        return visit->shard;
    visit->used = 0;
    do
        visit->shard = (uint8_t)((visit->shard + 1u) & (e->shards - 1));
    while (!waits(k, visit->shard, level, tenant));
    return visit->shard;
}

/* A worker with nothing at all at home leaves a queue to those who are at it: its head moved since the last
 * look, which is no longer ago than a few instructions. Two workers would only get into each other's way. */
static bool left_to_others(struct tg_worker *w, const struct look *k, uint32_t shard, uint32_t level,
                           uint32_t tenant, uint64_t head)
{
    uint32_t home = tg_load_relaxed_u32(&w->home); /* U6 */
    uint32_t there = 0;
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
        there |= k->waiting[home][l];
    if (shard == home || there != 0)
        return false;
    uint32_t *seen = &w->visit[level][tenant].seen[shard];
    bool moved = *seen != (uint32_t)head;
    *seen = (uint32_t)head + (moved ? 0 : 1);
    return moved;
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

/* Queues that were found empty beside other work lose their bits at times. */
static void tidy(struct tg_worker *w, const struct look *k, uint32_t stale)
{
    struct tg_engine *e = w->engine;
    w->stale += stale;
    if (w->stale < TIDY_EVERY)
        return;
    w->stale = 0;
    for (uint32_t s = 0; s < e->shards; s++)
        for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
            tg_ready_tidy(e, s, l,
                          tg_load_relaxed_u32(&e->ready[s].level[l]) & ~(k->waiting[s][l] | w->blocked));
}

/* How many claims may follow this one without a new look: decided ahead, of the same tenant's turn, and of
 * the home shard's. None where a queue was found empty: its mark stays, so the marks would not tell of a new
 * entry.
 */
static inline void note_again(struct tg_worker *w, const struct look *k, uint32_t shards, uint32_t shard,
                              uint32_t level, uint32_t tenant)
{
    uint32_t left = w->ahead.left;
    if (k->any[level] != 1u << tenant && w->quantum - w->turn[level].used < left)
        left = w->quantum - w->turn[level].used;
    if (shards > 1) {
        const struct tg_visit *visit = &w->visit[level][tenant];
        if (shard != tg_load_relaxed_u32(&w->home) || visit->left != 0) /* U6 */
            left = 0;
        else if (HOME_CLAIMS - visit->used < left)
            left = HOME_CLAIMS - visit->used;
    }
    w->again.left = left;
    w->again.level = level;
    w->again.tenant = tenant;
    w->again.shard = shard;
    for (uint32_t s = 0; s < shards; s++)
        memcpy(w->again.ready[s], k->waiting[s], sizeof(k->waiting[s]));
}

/* Is what waits where still what it was at the last look? */
static inline bool unchanged(const struct tg_worker *w, uint32_t shards)
{
    const struct tg_engine *e = w->engine;
    uint32_t changed = 0;
    for (uint32_t s = 0; s < shards; s++) {
        TG_UNROLL
        for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++) /* K5 again */
            changed |= (tg_load_seqcst_u32(&e->ready[s].level[l]) & ~w->blocked) ^ w->again.ready[s][l];
    }
    return changed == 0 && (e->worker_count == 1 ||
                            /* V5, V1: as decided() */
                            (tg_load_acquire_u32(&e->forgotten) == w->ahead.forgotten &&
                             (uint32_t)(tg_load_acquire_u64(&e->levels) >> 40) == w->ahead.run));
}

/* One more of the queue that the last claim came from, if that is what a new look would choose. False: look.
 */
static inline bool claim_again(struct tg_worker *w, struct tg_claimed *c, uint32_t shards)
{
    struct tg_engine *e = w->engine;
    uint32_t level = w->again.level, tenant = w->again.tenant, cell;
    struct tg_index *q = tg_queue(e, w->again.shard, level, tenant);
    uint64_t head = tg_load_acquire_u64(&q->head); /* I3 */
    uint32_t left = w->again.left;
    w->again.left = 0;
    if (!unchanged(w, shards) || !tg_index_look(q, head, &cell) || !authority_take(e, tenant))
        return false;
    if (!take(e, q, head)) {
        tg_authority_return(e, tenant);
        return false;
    }
    w->again.left = left - 1;
    w->ahead.left--;
    if (e->worker_count == 1 && w->ahead.step != 0)
        tg_store_relaxed_u64(&e->levels, tg_load_relaxed_u64(&e->levels) + w->ahead.step); /* V1 */
    w->turn[level].used += w->turn[level].used < w->quantum ? 1 : 0;
    if (shards > 1)
        w->visit[level][tenant].used++;
    prefetch_next(e, q);
    return claim_slot(w, cell, level, tenant, c);
}

/* shards is e->shards, or the constant of that value. */
static inline __attribute__((always_inline)) bool claim_among(struct tg_worker *w, struct tg_claimed *c,
                                                              uint32_t shards)
{
    struct tg_engine *e = w->engine;
    struct look k;
    uint32_t stale = 0;
    look(w, &k, shards);
    while (k.work != 0) {
        w->again.left = 0; /* it hangs on the decision, and here comes another */
        bool ahead = decided(w, &k);
        uint32_t level = ahead ? w->ahead.level : tg_levels_choose(k.state, k.work);
        struct tg_tenant_turn turn = w->turn[level];
        uint32_t tenant = tg_tenants_choose(&turn, k.any[level], w->quantum);
        uint32_t shard = shards == 1 ? 0 : choose_shard(w, &k, level, tenant);
        struct tg_index *q = tg_queue(e, shard, level, tenant);
        uint64_t head = tg_load_acquire_u64(&q->head); /* I3 */
        uint32_t cell;
        if (!tg_index_look(q, head, &cell)) {
            strike(&k, shards, shard, level, tenant);
            stale++;
            continue;
        }
        if (shards > 1 && left_to_others(w, &k, shard, level, tenant, head))
            return false;
        if (!authority_take(e, tenant)) {
            prune(w, q);
            w->blocked |= 1u << tenant;
            look(w, &k, shards);
            continue;
        }
        if (ahead)
            w->ahead.left--;
        if (!(ahead || levels_ahead(w, &k, level)) || !take(e, q, head)) {
            tg_authority_return(e, tenant);
            look(w, &k, shards);
            continue;
        }
        w->turn[level] = turn;
        prefetch_next(e, q);
        if (stale)
            tidy(w, &k, stale);
        else
            note_again(w, &k, shards, shard, level, tenant);
        stale = 0;
        if (claim_slot(w, cell, level, tenant, c))
            return true;
        look(w, &k, shards);
    }
    return false;
}

bool tg_claim_next(struct tg_worker *w, struct tg_claimed *c)
{
    struct tg_engine *e = w->engine;
    uint32_t recheck = tg_load_acquire_u32(&e->recheck); /* A5 acquire: pairs with A4 in tenant.c */
    if (recheck != w->recheck) {
        w->recheck = recheck;
        w->blocked = 0;
    }
    if (e->shards == 1)
        return (w->again.left && claim_again(w, c, 1)) || claim_among(w, c, 1);
    return (w->again.left && claim_again(w, c, e->shards)) || claim_among(w, c, e->shards);
}

bool tg_claimable(struct tg_worker *w)
{
    struct tg_engine *e = w->engine;
    if (e->flags & TG_ENGINE_SCAN)
        return tg_scan_claimable(w);
    w->blocked = 0;
    for (uint32_t i = 0; i < e->shards * TG_PRIORITY_LEVELS; i++) {
        uint32_t s = i / TG_PRIORITY_LEVELS, l = i % TG_PRIORITY_LEVELS;
        /* K5 again. */
        for (uint32_t m = tg_load_seqcst_u32(&e->ready[s].level[l]); m; m &= m - 1) {
            uint32_t t = tg_levels_first(m);
            uint32_t cell;
            if (!tg_index_peek(tg_queue(e, s, l, t), &cell))
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
