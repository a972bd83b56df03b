/* SPDX-License-Identifier: Apache-2.0
 *
 * Work that a foreign host publishes straight into the ring: it speaks the ABI and nothing else, so there is
 * no event to wait for. One poller thread looks at the foreign slots and puts what it finds into the queues.
 * It backs off from 20 us to poll_us (its promise of latency, plus one pass); after a pass that found
 * something it looks again at once. It claims nothing and runs nothing.
 *
 * The rules of what it finds
 *   - PRIORITY decides the level (E2: the priority named at publication is never ignored), also where the
 *     publisher chose a slot of another partition. Above 4: FAULT.
 *   - A tenant outside the table can never be claimed: PUBLISHED -> FAULT (E4).
 *   - A fence covers the a0 slots before it; while it waits it is YIELD and in no queue (E5).
 *   - What was looked at here may change before it is claimed; the claim reads it again (E4).
 */
#include <string.h>

#include "base/clock.h"
#include "engine/futex.h"
#include "engine/internal.h"

#define FIRST_PAUSE_US 20u

bool tg_is_foreign(const struct tg_engine *e, uint32_t slot)
{
    if (!e->has_foreign)
        return false;
    const struct tg_level *lv = &e->level[tg_home(e, slot)];
    return slot >= lv->first + lv->own;
}

void tg_foreign_forget(struct tg_engine *e, uint32_t slot)
{
    /* J1 release: before the status changes; pairs with J2. */
    tg_store_release_u32(&e->indexed[slot], 0);
}

bool tg_foreign_refuse(struct tg_engine *e, uint32_t slot)
{
    struct tg_slot *s = &e->ring[slot];
    uint32_t status = tg_slot_status(s); /* S6 */
    uint32_t tenant = tg_load_relaxed_u32(&s->tenant);
    uint32_t priority = tg_load_relaxed_u32(&s->priority); /* P2 */
    struct tg_fault fault = {0};
    if (!tg_tenant_in_table(tenant))
        fault = (struct tg_fault){TG_FAULT_TENANT, tenant, 0};
    else if (priority >= TG_PRIORITY_LEVELS)
        fault = (struct tg_fault){TG_FAULT_PRIORITY, priority, 0};
    else
        return false;
    /* S5: only this use; a publisher that changed the words meanwhile changed the status too. */
    if (tg_status_in(status, TG_FROM_CLAIM) && tg_cas_acqrel_u32(&s->status, &status, TG_SLOT_FAULT)) {
        tg_fault_words(e, slot, fault.reason);
        tg_add_relaxed_u64(&e->outside_faults, 1); /* C3 */
    }
    return true;
}

/* A yielded fence is worth a claim only when its items are done. */
static bool still_yields(struct tg_engine *e, uint32_t slot)
{
    struct tg_slot *s = &e->ring[slot];
    if (tg_slot_status(s) != TG_SLOT_YIELD || tg_load_relaxed_u32(&s->opcode) != TG_OP_BATCH_FENCE)
        return false;
    uint32_t items = tg_load_relaxed_u32(&s->args[0]); /* P2 */
    return items <= slot && !tg_foreign_fence_done(e, slot, items);
}

static void take_up(struct tg_engine *e, uint32_t slot)
{
    struct tg_slot *s = &e->ring[slot];
    uint32_t level =
        tg_load_relaxed_u32(&s->priority); /* P2; checked by tg_foreign_refuse, read again here */
    uint32_t tenant = tg_load_relaxed_u32(&s->tenant);
    if (level >= TG_PRIORITY_LEVELS || !tg_tenant_in_table(tenant))
        return; /* changed under our eyes; the next pass decides */
    uint32_t flags = TG_CELL_FOREIGN;
    uint32_t mine = 0;
    /* J2 acq_rel: taken up once (the poller and leaving workers both look); not looked at again until J1. */
    if (!tg_cas_acqrel_u32(&e->indexed[slot], &mine, 1))
        return;
    struct tg_side *side = &e->side[slot];
    if (e->sampling && !(side->generation & e->sample_mask)) {
        flags |= TG_CELL_SAMPLED;
        e->stamp[slot] = tg_clock_mono_ns();
    }
    tg_store_relaxed_u64(&side->generation, side->generation + 1); /* T1 */
    tg_store_relaxed_u32(&side->route, tg_route(0, level, tenant, flags));
    tg_index_push_mp(tg_queue(e, 0, level, tenant), slot | flags);
    tg_ready_set(e, 0, level, tenant);
    tg_wake_one(e);
}

static uint32_t pass_level(struct tg_engine *e, uint32_t level)
{
    uint32_t found = 0;
    uint32_t first = e->level[level].first + e->level[level].own;
    for (uint32_t slot = first; slot < first + e->foreign_slots[level]; slot++) {
        /* J2 acquire first: a slot in the engine's hands is not looked at. */
        if (tg_load_acquire_u32(&e->indexed[slot]) || !tg_slot_is_claimable(&e->ring[slot]))
            continue;
        if (tg_foreign_refuse(e, slot) || still_yields(e, slot))
            continue;
        found++;
        if (e->flags & TG_ENGINE_SCAN)
            tg_wake_one(e); /* scanning workers find it themselves */
        else
            take_up(e, slot);
    }
    return found;
}

uint32_t tg_foreign_pass(struct tg_engine *e)
{
    uint32_t found = 0;
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
        found += pass_level(e, l);
    return found;
}

/* The host may have written SHUTDOWN, a mask or a quota, and has no way to say so. */
static void notice_words(struct tg_engine *e, uint32_t *seen)
{
    const uint32_t first = TG_CONTROL_TENANT_MASKS;
    bool changed = false;
    for (uint32_t i = 0; i < TG_TENANTS; i++) {
        uint32_t quota = tg_load_relaxed_u32(&e->control[TG_CONTROL_TENANT_QUOTA_BASE + i]);
        uint32_t now = tg_tenant_may_claim(tg_load_relaxed_u32(&e->control[first + i]), quota) ? 1u : 0u;
        changed |= now > seen[i];
        seen[i] = now;
    }
    if (changed) {
        tg_add_seqcst_u32(&e->recheck, 1); /* A4 */
        tg_wake_one(e);
    }
    if (tg_load_acquire_u32(&e->control[TG_CONTROL_SHUTDOWN]) != 0) {
        tg_store_seqcst_u32(&e->accepting, 0); /* G1 */
        tg_wake_all(e);
    }
}

static void *poller_main(void *engine)
{
    struct tg_engine *e = engine;
    uint32_t seen[TG_TENANTS] = {0};
    uint32_t pause_us = FIRST_PAUSE_US;
    for (;;) {
        uint32_t event = tg_load_seqcst_u32(&e->poller_event); /* E1 seq_cst: pairs with E2 */
        if (tg_load_seqcst_u32(&e->poller_stop))
            break;
        uint32_t found = tg_foreign_pass(e);
        notice_words(e, seen);
        if (found) {
            pause_us = FIRST_PAUSE_US;
            continue;
        }
        tg_futex_wait(&e->poller_event, event, pause_us * UINT64_C(1000));
        pause_us = pause_us * 2 < e->poll_us ? pause_us * 2 : e->poll_us;
    }
    return NULL;
}

void tg_engine_kick(struct tg_engine *e)
{
    tg_add_seqcst_u32(&e->poller_event, 1); /* E2 seq_cst: pairs with E1 */
    tg_futex_wake(&e->poller_event, 1);
}

int tg_poller_start(struct tg_engine *e)
{
    int r = pthread_create(&e->poller, NULL, poller_main, e);
    e->poller_started = r == 0;
    return -r;
}

void tg_poller_stop(struct tg_engine *e)
{
    if (!e->poller_started)
        return;
    tg_store_seqcst_u32(&e->poller_stop, 1);
    tg_engine_kick(e);
    pthread_join(e->poller, NULL);
    e->poller_started = false;
}
