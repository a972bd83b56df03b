/* SPDX-License-Identifier: Apache-2.0
 *
 * Waiting for a device. It cannot wake anybody: those who wait look for a while and then pause, a sixteenth
 * of what they have waited, but 20 us at least and 1 ms at most, so a wait is late by that. Settle and drain
 * (E8) of such an engine are here too.
 */
#include <errno.h>
#include <sched.h>

#include "base/clock.h"
#include "engine/device_host.h"
#include "engine/futex.h"

#define SPIN_NS_PER_US UINT64_C(1000)
#define FIRST_PAUSE_NS UINT64_C(20000)
#define LAST_PAUSE_NS UINT64_C(1000000)
#define LOOKS_PER_CLOCK 32u

void tg_device_pause_host(uint32_t *event, uint32_t seen, uint32_t *step, uint64_t left_ns)
{
    uint32_t doubled = *step / 16 < 6 ? *step / 16 : 6;
    uint64_t ns = FIRST_PAUSE_NS << doubled;
    ++*step;
    ns = ns < LAST_PAUSE_NS ? ns : LAST_PAUSE_NS;
    tg_futex_wait(event, seen, ns < left_ns ? ns : left_ns);
}

int tg_device_wait(struct tg_engine *e, const struct tg_item *t, uint64_t timeout_ns)
{
    uint64_t start = tg_clock_mono_ns();
    uint64_t spent = 0;
    uint32_t *event = &e->wait_bucket[t->slot % TG_WAIT_BUCKETS].event;
    for (uint32_t looks = 1, step = 0;; looks++) {
        uint32_t seen = tg_load_seqcst_u32(event); /* W4 */
        int r = tg_engine_poll(e, t);
        if (r != -EINPROGRESS)
            return r;
        if (spent >= timeout_ns)
            return -ETIMEDOUT;
        if (spent < e->spin_us * SPIN_NS_PER_US) {
            tg_cpu_relax();
            if (looks % LOOKS_PER_CLOCK == 0)
                sched_yield(); /* a thread that runs a handler may want this core */
            if (looks % LOOKS_PER_CLOCK == 0)
                spent = tg_clock_mono_ns() - start;
            continue;
        }
        tg_device_pause_host(event, seen, &step, timeout_ns - spent);
        spent = tg_clock_mono_ns() - start;
        if (step % 64 == 63)
            tg_device_check(e);
    }
}

static bool all_free(struct tg_engine *e)
{
    tg_device_reap(e);
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
        if (tg_free_count(e, l) != tg_load_relaxed_u32(&e->level[l].own)) /* P0 */
            return false;
    return true;
}

int tg_device_settle(struct tg_engine *e, uint64_t timeout_ns)
{
    uint64_t start = tg_clock_mono_ns();
    for (uint32_t looks = 0, step = 0;; looks++) {
        uint32_t seen = tg_load_seqcst_u32(&e->settle_event); /* L2 */
        if (all_free(e)) {
            tg_device_sync(e);
            /* What bodies have published has no slot. M3: behind an answer (N5). */
            if (tg_load_acquire_u32(&e->device->dead) ||
                tg_load_relaxed_u32(&e->device->params.answers->born_left) == 0)
                return 0;
        }
        uint64_t spent = tg_clock_mono_ns() - start;
        if (spent >= timeout_ns || tg_load_acquire_u32(&e->device->dead))
            return -ETIMEDOUT;
        if (looks < 64)
            sched_yield();
        else
            tg_device_pause_host(&e->settle_event, seen, &step, timeout_ns - spent);
        if (step % 64 == 63)
            tg_device_check(e);
    }
}

/* Items whose line the dispatcher did not take any more: their submitters were between slot and line when the
 * drain began. It has left, so the slots are the host's. */
static bool hand_back_late(struct tg_engine *e, uint32_t level)
{
    struct tg_device *d = e->device;
    uint32_t shift = d->ring[level].shift;
    uint64_t *next = &d->params.answers->consumed[level];
    for (; *next < tg_load_relaxed_u64(&d->ring[level].tail); ++*next) { /* N7 */
        const struct tg_line *line = &d->ring[level].lines[*next & ((UINT64_C(1) << shift) - 1u)];
        for (uint32_t q = 0; q < TG_LINE_QUARTERS; q++)
            if ((tg_load_acquire_u32(&line->word[4 * q]) & TG_LINE_LAP) != tg_line_lap(*next, shift)) /* N1 */
                return false; /* it is being written */
        uint32_t slot = tg_load_relaxed_u32(&line->word[0]) >> TG_LINE_VALUE_SHIFT;
        uint32_t from;
        if (!tg_slot_try_cancel(&e->ring[slot], &from))
            continue;
        tg_add_relaxed_u64(&d->late_handed_back, 1);
        tg_bad_end_write(e, slot, TG_SLOT_EMPTY, NULL);
        if (!tg_device_foreign_freed(e, slot))
            tg_slot_release(e, NULL, slot);
    }
    return true;
}

int tg_device_drain(struct tg_engine *e, uint64_t start, uint64_t timeout_ns)
{
    struct tg_device *d = e->device;
    struct tg_answer a;
    int r = tg_device_foreign_finish(e, start, timeout_ns);
    if (r)
        return r;
    if (!tg_load_acquire_u32(&d->params.answers->left) && !tg_load_acquire_u32(&d->dead)) /* A3 */
        tg_device_ask(e, TG_COMMAND_DRAIN, 0, NULL, 0, &a);
    for (uint32_t looks = 0, step = 0;; looks++) {
        bool left = tg_load_acquire_u32(&d->params.answers->left) != 0; /* A3 acquire: pairs with N5 */
        if (left || (step % 64 == 63 && tg_device_check(e)))
            break;
        uint64_t spent = tg_clock_mono_ns() - start;
        if (spent >= timeout_ns)
            return -ETIMEDOUT;
        if (looks < 64)
            sched_yield();
        else
            tg_device_pause_host(&e->settle_event, tg_load_seqcst_u32(&e->settle_event), &step,
                                 timeout_ns - spent);
    }
    tg_device_callers_stop(e);
    tg_device_watch_stop(e);
    tg_device_sync(e);
    if (tg_load_acquire_u32(&d->params.answers->left) != 1 + TG_LEFT_DRAINED)
        tg_device_check(e);
    for (;;) {
        bool late = false;
        for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
            late |= !hand_back_late(e, l);
        if (!late && all_free(e))
            break;
        if (tg_clock_mono_ns() - start >= timeout_ns)
            return -ETIMEDOUT;
        sched_yield();
    }
    tg_add_relaxed_u64(&d->late_handed_back, tg_device_foreign_end(e)); /* C3 */
    tg_device_sync(e);
    return 0;
}
