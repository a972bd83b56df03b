/* SPDX-License-Identifier: Apache-2.0
 *
 * Owners of tickets wait here: a short look, then a futex. Nobody polls, every wait has a limit. It changes
 * no slot.
 *
 * The argument (no finish is missed)
 *   A waiter enters ATTENTION (N1), reads its bucket's event word, marks the slot (W1) and looks at the slot
 *   once more (T2), then sleeps on the event word. Who ends an item stores the status (S3), then reads
 *   ATTENTION (N2), then the mark (W2), all seq_cst. If the waiter's last look missed S3, then N2 and W2
 *   follow N1 and W1 and see them, and the event word changes before or after the waiter sleeps; both wake
 * it. The slot is not used again before W2 (it is freed afterwards), so W2 never takes a later user's mark.
 * How a ticket ended is known from the status and the generation; once the slot was used again, from the
 * record of the last use that did not end DONE and the 63 uses before it. A later use than that ended DONE.
 */
#include <errno.h>
#include <sched.h>

#include "base/clock.h"
#include "engine/device_host.h"
#include "engine/futex.h"
#include "engine/internal.h"

#define SPIN_LOOKS 1000u
#define YIELD_EVERY 128u
#define RECORD_LOOKS 1000u

bool tg_item_known(struct tg_engine *e, const struct tg_item *t)
{
    return t && t->slot < e->slots && t->generation != 0 &&
           t->generation <= tg_load_acquire_u64(&e->side[t->slot].generation);
}

/* The ticket's use is over and the slot was used again. */
static int past_end(struct tg_engine *e, const struct tg_item *t)
{
    const struct tg_bad_end *bad = &e->bad[t->slot];
    for (uint32_t i = 0; i < RECORD_LOOKS; i++, tg_cpu_relax()) {
        /* B3 acquire: pairs with B2. A generation of 0 beside a status is a record in the making. */
        uint64_t generation = tg_load_acquire_u64(&bad->generation);
        if (generation == 0 && tg_load_relaxed_u32(&bad->status) != 0)
            continue;
        if (generation < t->generation)
            return 0;
        uint64_t faulted = tg_load_acquire_u64(&bad->faulted);
        uint64_t cancelled = tg_load_acquire_u64(&bad->cancelled);
        /* B3 again: the record was not replaced meanwhile. */
        if (tg_load_acquire_u64(&bad->generation) != generation)
            continue;
        uint64_t back = generation - t->generation;
        if (back >= 64)
            return -ESTALE;
        if (faulted >> back & 1u)
            return -EIO;
        return cancelled >> back & 1u ? -ECANCELED : 0;
    }
    return -ESTALE;
}

int tg_engine_poll(struct tg_engine *e, const struct tg_item *t)
{
    if (!tg_item_known(e, t))
        return -EINVAL;
    /* S6, then T2 acquire: a status of a later use comes with its generation (T1). */
    uint32_t status = tg_load_seqcst_u32(&e->ring[t->slot].status);
    uint64_t generation = tg_load_acquire_u64(&e->side[t->slot].generation);
    if (generation != t->generation)
        return past_end(e, t);
    switch (status) {
    case TG_SLOT_DONE:
        return 0;
    case TG_SLOT_FAULT:
        return -EIO;
    case TG_SLOT_EMPTY:
        /* Cancelled; or a ring that was empty is being published right now, which only this ticket's
         * submitter could ask about, and it has no ticket yet. */
        return -ECANCELED;
    default:
        return -EINPROGRESS;
    }
}

void tg_waiters_wake(struct tg_engine *e, uint32_t slot)
{
    /* W2 seq_cst: pairs with W1. */
    if (!(tg_load_seqcst_u32(&e->attention_of[slot]) & TG_ATT_WAITER))
        return;
    tg_and_seqcst_u32(&e->attention_of[slot], ~TG_ATT_WAITER);
    uint32_t *event = &e->wait_bucket[slot % TG_WAIT_BUCKETS].event;
    tg_add_seqcst_u32(event, 1); /* W3 seq_cst: pairs with W4 */
    tg_futex_wake_all(event);
}

int tg_engine_wait(struct tg_engine *e, const struct tg_item *t, uint64_t timeout_ns)
{
    int r = tg_engine_poll(e, t);
    if (r != -EINPROGRESS)
        return r;
    if (e->device)
        return tg_device_wait(e, t, timeout_ns);
    for (uint32_t i = 0; i < SPIN_LOOKS && timeout_ns != 0 && e->spin_us != 0; i++) {
        if (i % YIELD_EVERY == YIELD_EVERY - 1)
            sched_yield(); /* the worker may be waiting for this very core */
        tg_cpu_relax();
        r = tg_engine_poll(e, t);
        if (r != -EINPROGRESS)
            return r;
    }
    uint64_t start = tg_clock_mono_ns();
    uint32_t *event = &e->wait_bucket[t->slot % TG_WAIT_BUCKETS].event;
    tg_attention_enter(e);
    for (;;) {
        uint32_t seen = tg_load_seqcst_u32(event);                  /* W4 */
        tg_or_seqcst_u32(&e->attention_of[t->slot], TG_ATT_WAITER); /* W1 */
        r = tg_engine_poll(e, t);
        if (r != -EINPROGRESS)
            break;
        uint64_t spent = tg_clock_mono_ns() - start;
        if (spent >= timeout_ns) {
            r = -ETIMEDOUT;
            break;
        }
        tg_futex_wait(event, seen, timeout_ns - spent);
    }
    tg_attention_leave(e);
    return r;
}

int tg_engine_wait_space(struct tg_engine *e, uint32_t priority, uint64_t timeout_ns)
{
    if (priority >= TG_PRIORITY_LEVELS)
        return -EINVAL;
    uint64_t start = tg_clock_mono_ns();
    int r;
    tg_attention_enter(e);
    for (uint32_t step = 0;;) {
        uint32_t ignored;
        uint32_t seen = tg_load_seqcst_u32(&e->space_event); /* D2 seq_cst: before the look; pairs with D1 */
        if (!tg_load_seqcst_u32(&e->accepting))
            r = -ESHUTDOWN; /* G2 */
        else if (tg_free_some(e, priority) ||
                 (e->device && tg_index_peek(&e->device->free[priority], &ignored)))
            r = 0;
        else if (tg_load_relaxed_u32(&e->level[priority].own) == 0)
            r = -ENOSPC; /* P0 */
        else if (tg_clock_mono_ns() - start >= timeout_ns)
            r = -ETIMEDOUT;
        else {
            uint64_t spent = tg_clock_mono_ns() - start;
            uint64_t left = spent < timeout_ns ? timeout_ns - spent : 0;
            if (e->device)
                tg_device_pause_host(&e->space_event, seen, &step, left);
            else
                tg_futex_wait(&e->space_event, seen, left);
            continue;
        }
        break;
    }
    tg_attention_leave(e);
    return r;
}

int tg_engine_fault(struct tg_engine *e, const struct tg_item *t, struct tg_fault *ret)
{
    if (!tg_item_known(e, t))
        return -EINVAL;
    const struct tg_bad_end *bad = &e->bad[t->slot];
    /* B3 again, around the fields. */
    if (tg_load_acquire_u64(&bad->generation) != t->generation)
        return -ENOENT;
    struct tg_fault f = {tg_load_acquire_u32(&bad->reason), tg_load_acquire_u32(&bad->detail),
                         tg_load_acquire_u32(&bad->inner_op)};
    uint32_t status = tg_load_acquire_u32(&bad->status);
    if (tg_load_acquire_u64(&bad->generation) != t->generation || status != TG_SLOT_FAULT)
        return -ENOENT;
    *ret = f;
    return 0;
}

const char *tg_fault_text(uint32_t reason)
{
    static const char *const text[] = {
        "no fault",
        "unknown opcode: no handler is registered for it",
        "out of bounds: the control buffer has no such word",
        "denied: only observable words may be touched",
        "the handler returned an error",
        "tenant id outside the table of 29",
        "priority above 4",
        "malformed packed slot",
        "no DFA table is registered",
        "DFA state or symbol outside the table",
        "fence over slots that do not exist, or one that would wait inside a packed slot",
        "the IO side failed",
        "the slot's tenant or priority changed after publication",
        "the handler ended its thread",
        "the server did not take the client's item",
        "the device died while the item ran",
        "the body ran longer than device_body_limit_ms",
    };
    return reason < sizeof(text) / sizeof(text[0]) ? text[reason] : "unknown reason";
}
