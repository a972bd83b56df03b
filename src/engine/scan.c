/* SPDX-License-Identifier: Apache-2.0
 *
 * The reference way of finding work: look at every slot. Same rules (E1 to E4), no index: the cost grows with
 * the ring, and there is no order within a level beyond "next after the last one". Selected with
 * TG_ENGINE_SCAN; tests hold the two ways equal.
 */
#include "engine/internal.h"

/* Is this slot claimable now, and for whom? A hint: the claim decides (settle in claim.c). */
static bool hint(struct tg_engine *e, uint32_t i, uint32_t *level, uint32_t *tenant)
{
    struct tg_slot *slot = &e->ring[i];
    if (!tg_slot_is_claimable(slot))
        return false;
    bool foreign = tg_is_foreign(e, i);
    if (foreign && tg_foreign_refuse(e, i))
        return false;
    /* S6, then P2: words of this use or a later one. */
    bool yielded = tg_slot_status(slot) == TG_SLOT_YIELD;
    *tenant = tg_load_relaxed_u32(&slot->tenant);
    *level = tg_load_relaxed_u32(&slot->priority);
    if (*tenant >= TG_TENANTS || *level >= TG_PRIORITY_LEVELS)
        return false;
    if (!yielded)
        return true;
    if (!foreign)
        return (tg_load_acquire_u32(&e->fence_of[i]) & TG_FENCE_COUNT) == 0; /* F3 */
    uint32_t items = tg_load_relaxed_u32(&slot->args[0]);
    return tg_load_relaxed_u32(&slot->opcode) != TG_OP_BATCH_FENCE || items > i ||
           tg_foreign_fence_done(e, i, items);
}

static bool may_claim(struct tg_engine *e, uint32_t tenant)
{
    /* A1 again. */
    return tg_tenant_may_claim(tg_load_seqcst_u32(&e->control[TG_CONTROL_TENANT_MASKS + tenant]),
                               tg_load_seqcst_u32(&e->control[TG_CONTROL_TENANT_QUOTA_BASE + tenant]));
}

static uint32_t survey(struct tg_engine *e, uint32_t waiting[TG_PRIORITY_LEVELS])
{
    uint32_t work = 0;
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
        waiting[l] = 0;
    for (uint32_t i = 0; i < e->slots; i++) {
        uint32_t level, tenant;
        if (!hint(e, i, &level, &tenant) || (waiting[level] >> tenant & 1u) || !may_claim(e, tenant))
            continue;
        waiting[level] |= 1u << tenant;
        work |= 1u << level;
    }
    return work;
}

static bool claim_of(struct tg_worker *w, uint32_t level, uint32_t tenant, struct tg_claimed *c)
{
    struct tg_engine *e = w->engine;
    uint32_t from = w->scan_from[level][tenant];
    for (uint32_t n = 0; n < e->slots; n++) {
        uint32_t i = from + n < e->slots ? from + n : from + n - e->slots;
        uint32_t l, t;
        if (!hint(e, i, &l, &t) || l != level || t != tenant)
            continue;
        if (!tg_authority_take(e, tenant))
            return false;
        if (tg_claim_slot(w, i, level, tenant, c)) {
            w->scan_from[level][tenant] = i + 1 < e->slots ? i + 1 : 0;
            return true;
        }
    }
    return false;
}

bool tg_claim_scan(struct tg_worker *w, struct tg_claimed *c)
{
    struct tg_engine *e = w->engine;
    uint32_t waiting[TG_PRIORITY_LEVELS];
    for (uint32_t tries = 0; tries < 64; tries++) {
        uint64_t state = tg_load_acquire_u64(&e->levels); /* V1 acquire: before the look, as in claim.c */
        uint32_t work = survey(e, waiting);
        if (work == 0)
            return false;
        uint32_t level = tg_levels_choose(state, work);
        struct tg_tenant_turn turn = w->turn[level];
        uint32_t tenant = tg_tenants_choose(&turn, waiting[level], w->quantum);
        if (!tg_levels_advance(e, state, work, level))
            continue;
        w->turn[level] = turn;
        if (claim_of(w, level, tenant, c))
            return true;
    }
    return false;
}

bool tg_scan_claimable(struct tg_worker *w)
{
    uint32_t waiting[TG_PRIORITY_LEVELS];
    return survey(w->engine, waiting) != 0;
}
