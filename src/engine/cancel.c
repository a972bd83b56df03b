/* SPDX-License-Identifier: Apache-2.0
 *
 * Taking an item back before it runs (E1: it is run or cancelled, never both).
 *
 * The argument (never somebody else's item)
 *   The slot might finish, be freed and be published anew between the look at the generation and the swap of
 *   the status. So the canceller enters ATTENTION (N1) and holds the slot (H1) before it looks. If it then
 *   reads a claimable status with its ticket's generation, this use was not over yet; whoever ends it stores
 *   the status first and then sees the attention and the hold (N2, H2), and leaves the slot unfreed to the
 *   canceller. So until H3 the slot is not published again, and the swap takes this use or fails.
 * A cancelled slot keeps its place in the queue as an entry without work; the worker that meets it frees the
 * slot.
 */
#include <errno.h>

#include "engine/device_host.h"
#include "engine/internal.h"

static void hold(struct tg_engine *e, uint32_t slot)
{
    tg_attention_enter(e);
    tg_add_seqcst_u32(&e->attention_of[slot], 1); /* H1 seq_cst: pairs with H2 */
}

static void let_go(struct tg_engine *e, uint32_t slot)
{
    uint32_t att = tg_load_seqcst_u32(&e->attention_of[slot]); /* H3 seq_cst: pairs with H2 */
    uint32_t next;
    do {
        next = att - 1;
        if ((next & TG_ATT_HOLDS) == 0)
            next &= ~TG_ATT_PENDING;
    } while (!tg_cas_seqcst_u32(&e->attention_of[slot], &att, next));
    bool free_it = (att & TG_ATT_PENDING) != 0 && (att & TG_ATT_HOLDS) == 1;
    if (free_it)
        tg_slot_release(e, NULL, slot);
    tg_attention_leave(e);
}

/* Its fence and its waiter learn of the end. */
static void cancelled(struct tg_engine *e, uint32_t slot)
{
    uint32_t route = tg_load_relaxed_u32(&e->side[slot].route); /* P1 */
    tg_bad_end_write(e, slot, TG_SLOT_EMPTY, NULL);
    tg_add_relaxed_u64(&e->cancelled, 1); /* C3 */
    if (route & TG_CELL_SERVED)
        tg_served_end(e, slot, TG_SLOT_EMPTY, NULL, NULL);
    if (route & TG_CELL_BATCHED)
        tg_fence_item_ended(e, e->side[slot].fence);
    tg_waiters_wake(e, slot);
}

/* One try under the hold; -EAGAIN when the status changed between look and swap. */
static int try_cancel(struct tg_engine *e, const struct tg_item *t)
{
    struct tg_slot *slot = &e->ring[t->slot];
    uint32_t status = tg_load_seqcst_u32(&slot->status); /* S6 */
    /* T2: after the status. */
    if (tg_load_acquire_u64(&e->side[t->slot].generation) != t->generation)
        return -EALREADY;
    if (status == TG_SLOT_CLAIMED)
        return -EBUSY;
    if (status == TG_SLOT_WAIT_IO) {
        if (!tg_io_cancel(e, t->slot, t->generation))
            return -EAGAIN;
        cancelled(e, t->slot);
        tg_slot_release(e, NULL, t->slot); /* no queue entry to wait for; H2 hands it to let_go */
        return 0;
    }
    if (!tg_status_in(status, TG_FROM_CLAIM))
        return -EALREADY;
    /* S5 acq_rel: ends this use; pairs with S2. */
    if (!tg_cas_acqrel_u32(&slot->status, &status, TG_SLOT_EMPTY))
        return -EAGAIN;
    cancelled(e, t->slot);
    if (e->flags & TG_ENGINE_SCAN) {
        tg_cancelled_popped(e, NULL, t->slot); /* no entry to meet */
    } else {
        /* A tenant that may not run has no worker coming by: one is sent (prune in claim.c). A4. */
        tg_add_seqcst_u32(&e->recheck, 1);
        tg_wake_one(e);
    }
    return 0;
}

int tg_engine_cancel(struct tg_engine *e, const struct tg_item *t)
{
    if (!tg_item_known(e, t) || (tg_load_relaxed_u32(&e->side[t->slot].route) & TG_CELL_FOREIGN)) /* P1 */
        return -EINVAL;
    if (e->device)
        return tg_device_cancel(e, t);
    int r;
    hold(e, t->slot);
    do
        r = try_cancel(e, t);
    while (r == -EAGAIN);
    let_go(e, t->slot);
    return r;
}
