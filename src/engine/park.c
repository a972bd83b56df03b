/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers fall asleep and are woken (E10). A publisher wakes at most one worker, and none while another
 * awake worker is searching: the searcher will find the item, and the last searcher that finds work wakes
 * the next one if more is there. It does not find work and knows no slots.
 *
 * The argument (nothing is published beside a sleeper)
 *   Words: IDLE = sleeping | searching << 16; GRANTS = wake-ups given and not yet taken. sleeping + GRANTS is
 *   the number of workers between K4 and their return.
 *   1. A publisher stores the entry (I2), then reads READY (K1), then IDLE (K3), all seq_cst. A worker
 *      announces sleep in IDLE (K4), then looks at READY and the entries once more (K5), all seq_cst. In the
 *      one order of those, either the publisher's K3 follows K4 and sees a sleeper, or the worker's K5
 *      follows I2 and sees the entry.
 *   2. A publisher that sees a searcher leaves the item to it. A searcher stops being one by K4 (then 1
 *      holds for it) or because it found work, K6; after K6 it looks at the queues and wakes another for
 *      what it sees. An item published before K6 is seen there; one published after K6 finds no searcher.
 *   3. A waker moves one sleeper to searcher in IDLE (one swap, so two publishers cannot wake the same),
 *      adds a grant and wakes the futex. The worker that takes the grant is already counted as searching.
 *   4. Who hides for a moment what could be claimed wakes one when it is to be seen again: a mark cleared and
 *      set anew (K2, K1), a quota's last claim taken and given back (A3). Its publisher was there before, and
 *      who fell asleep in between did not see it.
 *   In scan mode there are no queues: PUBLISHED (S1) is followed by a seq_cst look as well, because the
 *   announcement reads IDLE after a seq_cst exchange on the ready word.
 */
#include "base/clock.h"
#include "engine/futex.h"
#include "engine/internal.h"

#define SLEEPING 0xFFFFu
#define SEARCHER 0x10000u

void tg_wake_one(struct tg_engine *e)
{
    uint32_t idle;
    if (e->flags & TG_ENGINE_SCAN)
        /* K3 as a read-modify-write: the scanner's statuses are release stores (S1) only. */
        idle = tg_add_seqcst_u32(&e->idle, 0);
    else
        /* K3 seq_cst: pairs with K4. */
        idle = tg_load_seqcst_u32(&e->idle);
    do {
        if ((idle & SLEEPING) == 0 || idle >= SEARCHER)
            return;
        /* K7 seq_cst: takes one sleeper for this wake-up. */
    } while (!tg_cas_seqcst_u32(&e->idle, &idle, idle - 1 + SEARCHER));
    /* K8 seq_cst: the grant; pairs with K9. */
    tg_add_seqcst_u32(&e->grants, 1);
    tg_add_relaxed_u64(&e->wakeups, 1); /* C3 relaxed: statistics */
    tg_futex_wake(&e->grants, 1);
}

void tg_wake_all(struct tg_engine *e)
{
    /* K7, K8 again, for everybody asleep. */
    uint32_t idle = tg_load_seqcst_u32(&e->idle);
    uint32_t n;
    do {
        n = idle & SLEEPING;
        if (n == 0)
            return;
    } while (!tg_cas_seqcst_u32(&e->idle, &idle, idle - n + n * SEARCHER));
    tg_add_seqcst_u32(&e->grants, n);
    tg_futex_wake(&e->grants, INT_MAX);
}

void tg_worker_search(struct tg_worker *w)
{
    if (w->searching)
        return;
    w->searching = true;
    tg_add_seqcst_u32(&w->engine->idle, SEARCHER); /* K6 seq_cst: see 2 above */
}

void tg_worker_found(struct tg_worker *w)
{
    struct tg_engine *e = w->engine;
    if (!w->searching)
        return;
    w->searching = false;
    /* K6 seq_cst: before the look that follows; pairs with K3. */
    uint32_t idle = tg_sub_seqcst_u32(&e->idle, SEARCHER);
    if (idle >> 16 == 1 && (idle & SLEEPING) != 0 && tg_claimable(w))
        tg_wake_one(e);
}

/* Takes a grant if there is one. */
static bool take_grant(struct tg_engine *e)
{
    uint32_t g = tg_load_seqcst_u32(&e->grants); /* K9 seq_cst: pairs with K8 */
    while (g != 0)
        if (tg_cas_seqcst_u32(&e->grants, &g, g - 1))
            return true;
    return false;
}

/* Not woken, but up: leaves the sleepers by itself. False when a waker has taken it out already. */
static bool leave_sleep(struct tg_engine *e)
{
    uint32_t idle = tg_load_seqcst_u32(&e->idle);
    while ((idle & SLEEPING) != 0)
        if (tg_cas_seqcst_u32(&e->idle, &idle, idle - 1 + SEARCHER)) /* K7 again */
            return true;
    return false;
}

void tg_worker_sleep(struct tg_worker *w, uint64_t limit_ns)
{
    struct tg_engine *e = w->engine;
    tg_worker_search(w);
    /* K4 seq_cst: announces sleep; pairs with K3. */
    tg_add_seqcst_u32(&e->idle, 1u - SEARCHER);
    /* K5: the last look, seq_cst inside; also at SHUTDOWN, whose writer wakes all after it (K10). */
    bool stay = tg_claimable(w) || tg_load_seqcst_u32(&e->control[TG_CONTROL_SHUTDOWN]) != 0;
    uint64_t end = tg_clock_mono_ns() + limit_ns;
    if (!stay)
        tg_count(&w->counts.sleeps);
    for (;;) {
        if (take_grant(e))
            return;
        uint64_t now = stay ? end : tg_clock_mono_ns();
        if (now >= end) {
            if (leave_sleep(e))
                return;
            /* Somebody granted in between; the grant is on its way and a few instructions off. */
            tg_cpu_relax();
            continue;
        }
        tg_futex_wait(&e->grants, 0, end - now);
    }
}

void tg_settle_bump(struct tg_engine *e)
{
    tg_add_seqcst_u32(&e->settle_event, 1); /* L1 seq_cst: after what it announces; pairs with L2 */
    tg_futex_wake(&e->settle_event, INT_MAX);
}
