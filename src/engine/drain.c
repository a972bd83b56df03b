/* SPDX-License-Identifier: Apache-2.0
 *
 * The end, and the pauses: settle waits until nothing is in flight, drain finishes or hands back everything
 * that was published (E8), close frees.
 *
 * How drain knows that nothing is left: every slot of ours is in a free queue, or in somebody's hands. A
 * submitter takes its slot before it looks at ACCEPTING (G2), so either it sees that the engine drains and
 * gives the slot back, or its slot is missing from the free queues until its item has ended.
 */
#include <errno.h>

#include "base/clock.h"
#include "engine/device_host.h"
#include "engine/futex.h"
#include "engine/internal.h"

static bool settled(struct tg_engine *e)
{
    if (!tg_free_all(e))
        return false;
    for (uint32_t i = 0; i < e->worker_count; i++)
        if (!tg_load_seqcst_u32(&e->workers[i].clean)) /* L2 seq_cst: pairs with L3 */
            return false;
    return true;
}

static bool all_left(struct tg_engine *e)
{
    return tg_load_seqcst_u32(&e->exited) == e->worker_count; /* L2 seq_cst: pairs with L4 */
}

/* Sleeps on the settle event until the condition holds. */
static bool await(struct tg_engine *e, bool (*condition)(struct tg_engine *), uint64_t start,
                  uint64_t timeout_ns)
{
    for (;;) {
        uint32_t seen = tg_load_seqcst_u32(&e->settle_event); /* L2: before the look; pairs with L1 */
        if (condition(e))
            return true;
        uint64_t spent = tg_clock_mono_ns() - start;
        if (spent >= timeout_ns)
            return false;
        tg_futex_wait(&e->settle_event, seen, timeout_ns - spent);
    }
}

int tg_engine_settle(struct tg_engine *e, uint64_t timeout_ns)
{
    if (e->device)
        return tg_device_settle(e, timeout_ns);
    tg_attention_enter(e);
    bool ok = await(e, settled, tg_clock_mono_ns(), timeout_ns);
    tg_attention_leave(e);
    return ok ? 0 : -ETIMEDOUT;
}

static void stop_accepting(struct tg_engine *e)
{
    tg_store_seqcst_u32(&e->accepting, 0); /* G1 seq_cst: pairs with G2 */
    tg_store_seqcst_u32(&e->control[TG_CONTROL_SHUTDOWN],
                        1); /* K10 seq_cst: before the wake-up; pairs with K5 */
    tg_wake_all(e);
    tg_add_seqcst_u32(&e->io.event, 1); /* Q1, D1: whoever waits there learns that it is over */
    tg_futex_wake_all(&e->io.event);
    tg_add_seqcst_u32(&e->space_event, 1);
    tg_futex_wake_all(&e->space_event);
}

/* What everybody learns who waits for an item that did not run. */
static void tell_handed_back(struct tg_engine *e, uint32_t slot)
{
    tg_add_relaxed_u64(&e->handed_back, 1); /* C3 */
    tg_bad_end_write(e, slot, TG_SLOT_EMPTY, NULL);
    if (tg_load_relaxed_u32(&e->side[slot].route) & TG_CELL_SERVED) /* P1 */
        tg_served_end(e, slot, TG_SLOT_EMPTY, NULL, NULL);
    tg_waiters_wake(e, slot);
}

/* One slot that did not run. The workers are gone. */
static void hand_back(struct tg_engine *e, uint32_t slot)
{
    uint32_t from;
    if (!tg_slot_try_cancel(&e->ring[slot], &from))
        return;
    tell_handed_back(e, slot);
    if (!tg_is_foreign(e, slot))
        tg_slot_release(e, NULL, slot);
}

static void hand_back_queue(struct tg_engine *e, struct tg_index *q)
{
    uint32_t cell;
    while (tg_index_pop_mc(q, &cell)) {
        uint32_t slot = cell & TG_CELL_SLOT;
        if (tg_slot_is_claimable(&e->ring[slot]))
            hand_back(e, slot);
        else if (!(cell & TG_CELL_FOREIGN))
            tg_slot_release(e, NULL, slot); /* cancelled by its owner */
    }
}

/* Everything that is not in a queue: items that wait for IO, fences that wait for their items. */
static void hand_back_rest(struct tg_engine *e)
{
    bool scan = (e->flags & TG_ENGINE_SCAN) != 0;
    for (uint32_t s = 0; s < e->slots; s++) {
        uint32_t status = tg_slot_status(&e->ring[s]);
        bool parked = (tg_load_acquire_u32(&e->fence_of[s]) & TG_FENCE_PARKED) != 0; /* F3 */
        if (tg_is_foreign(e, s)) {
            if (tg_status_in(status, TG_FROM_CANCEL) &&
                (status == TG_SLOT_WAIT_IO || !tg_foreign_refuse(e, s)))
                hand_back(e, s);
        } else if (status == TG_SLOT_WAIT_IO) {
            if (tg_io_cancel(e, s, tg_load_acquire_u64(&e->side[s].generation))) {
                tell_handed_back(e, s);
                tg_slot_release(e, NULL, s);
            }
        } else if (status == TG_SLOT_YIELD || (scan && tg_status_in(status, TG_FROM_CLAIM))) {
            hand_back(e, s);
        } else if (status == TG_SLOT_EMPTY && parked) {
            tg_slot_release(e, NULL, s); /* a fence its owner cancelled while it waited */
        }
        if (parked)
            tg_store_release_u32(&e->fence_of[s], 0); /* F5 */
    }
}

/* Until every slot is free again: a submitter that was about to publish may still do so. */
static bool hand_back_all(struct tg_engine *e, uint64_t start, uint64_t timeout_ns)
{
    tg_store_seqcst_u32(&e->hand_back, 1); /* M2 seq_cst: pairs with M1 */
    for (;;) {
        for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
            for (uint32_t t = 0; t < TG_TENANTS * e->shards; t++)
                hand_back_queue(e, &e->level[l].queue[t]);
        hand_back_rest(e);
        if (tg_free_all(e))
            return true;
        uint64_t spent = tg_clock_mono_ns() - start;
        if (spent >= timeout_ns)
            return false;
        /* Nothing announces a submitter between its slot and its entry; that is a few instructions. */
        uint64_t left = timeout_ns - spent;
        tg_futex_wait(&e->settle_event, tg_load_seqcst_u32(&e->settle_event), left < 100000 ? left : 100000);
    }
}

static void report(struct tg_engine *e, struct tg_drain_report *ret)
{
    if (!ret)
        return;
    struct tg_engine_stats stats;
    tg_engine_stats(e, &stats);
    *ret = (struct tg_drain_report){stats.done, stats.faults, stats.cancelled, stats.handed_back, 0};
    for (uint32_t s = 0; s < e->slots; s++)
        ret->running += tg_slot_status(&e->ring[s]) == TG_SLOT_CLAIMED ? 1u : 0u;
}

int tg_engine_drain(struct tg_engine *e, uint64_t timeout_ns, struct tg_drain_report *ret)
{
    uint64_t start = tg_clock_mono_ns();
    int r = 0;
    pthread_mutex_lock(&e->drain_lock);
    if (!e->drained) {
        stop_accepting(e);
        tg_attention_enter(e);
        if (e->device) {
            r = tg_device_drain(e, start, timeout_ns);
            e->drained = r == 0;
        } else if (!await(e, all_left, start, timeout_ns)) {
            r = -ETIMEDOUT;
        } else {
            tg_workers_join(e);
            tg_poller_stop(e);
            e->drained = hand_back_all(e, start, timeout_ns);
            r = e->drained ? 0 : -ETIMEDOUT;
        }
        tg_attention_leave(e);
    }
    report(e, ret);
    pthread_mutex_unlock(&e->drain_lock);
    return r;
}

int tg_engine_close(struct tg_engine *e, uint64_t timeout_ns, struct tg_drain_report *ret)
{
    if (!e)
        return 0;
    pthread_mutex_lock(&e->drain_lock);
    bool served = e->server != NULL;
    pthread_mutex_unlock(&e->drain_lock);
    if (served)
        return -EBUSY;
    int r = tg_engine_drain(e, timeout_ns, ret);
    if (r == 0)
        tg_engine_free(e);
    return r;
}
