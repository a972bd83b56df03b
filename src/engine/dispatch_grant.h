/* SPDX-License-Identifier: Apache-2.0
 *
 * What happens to an item that comes alone while nothing else waits: the poller decides it itself, without a
 * hand-over between warps. Part of the dispatcher (dispatch.h).
 *
 * When the decider has nothing to decide it grants the decisions to the poller (GRANT: the tenants that it
 * may serve). From then on the poller is the only one that decides, until it stores 0: with the first thing
 * it finds that is not one small item alone, or when the decider asks (RECALL). All that comes, comes by way
 * of the poller, but for what the ender gives back; so the decider seldom has to ask. So at any time one warp
 * decides, and the decisions follow one another as ever: the queues and inboxes are empty while the poller
 * decides, so its choice is the one tg_claim would take.
 *
 *   H4 GRANT: with the decider's fields, by the decider; with the poller's changes to them and what it did
 *      with the worker put aside, by the poller. Stored behind                      pairs with H5 acquire
 *   H6 RECALL, relaxed: a wish, looked at once a look
 * Meanwhile the poller's: LEVELS, TURN, URGENT, PASSED with the entries. The decider's still:
 * the workers that come back, IDLE and FLIGHTS.
 *
 * ASIDE is a worker that the decider has put aside for the one item of an opcode of the image that the poller
 * may start before it hands the decisions back.
 */
#ifndef TG_ENGINE_DISPATCH_GRANT_H
#define TG_ENGINE_DISPATCH_GRANT_H

#include "engine/dispatch_decide.h"

/* ---- The decider. ---- */

/* Nothing waits: the poller may decide. */
TG_DEVICE void tg_grant(struct tg_warp w)
{
    const struct tg_device_params *p = tg_params();
    struct tg_shared *s = tg_state();
    bool may =
        w.lane < TG_TENANTS && (s->allowed >> w.lane & 1u) && s->quota[w.lane] == TG_TENANT_QUOTA_UNLIMITED;
    uint32_t tenants = tg_warp_ballot(may);
    if (tenants == 0 || s->queued || tg_born_any(w) || s->draining || s->block_kept || p->control_floor == 0)
        return;
    if (w.lane == 0) {
        if (s->aside == 0 && s->idle_count != 0 && !p->watch)
            s->aside = 1u + s->idle[--s->idle_count];
        s->granted = 1;
    }
    tg_warp_sync();
    if (w.lane == 0)
        tg_block_store_behind_u32(&s->grant, tenants); /* H4 */
    tg_warp_sync();
}

/* The decider has the decisions again when it returns. */
TG_DEVICE void tg_take_over(struct tg_warp w)
{
    struct tg_shared *s = tg_state();
    if (tg_heard(w, &s->grant)) { /* H5 */
        if (w.lane == 0)
            tg_block_store_relaxed_u32(&s->recall, 1); /* H6 */
        tg_warp_sync();
        while (tg_heard(w, &s->grant)) /* H5 */
            tg_warp_idle();
        if (w.lane == 0)
            tg_block_store_relaxed_u32(&s->recall, 0); /* H6 */
    }
    uint32_t aside = s->aside;
    bool used = s->aside_used != 0;
    tg_warp_sync();
    if (w.lane == 0) {
        if (used)
            tg_flies_alone(s);
        else if (aside)
            tg_worker_free(s, aside - 1);
        s->aside = s->aside_used = s->granted = 0;
    }
    tg_warp_sync();
}

/* ---- The poller. ---- */

TG_DEVICE void tg_give_over(struct tg_warp w)
{
    struct tg_shared *s = tg_state();
    tg_warp_sync();
    if (w.lane == 0)
        tg_block_store_behind_u32(&s->grant, 0); /* H4 */
    tg_warp_sync();
}

/* The item whose line is in the HEAD of the four lanes of a level, alone. lane: the first of them; slot,
 * kept: in all lanes. True: it is decided and on its way. */
TG_DEVICE bool tg_decide_alone(struct tg_warp w, uint32_t lane, uint32_t slot, uint32_t kept,
                               const struct tg_quarter *head)
{
    const struct tg_device_params *p = tg_params();
    struct tg_shared *s = tg_state();
    uint32_t cls = tg_class_of(kept);
    uint32_t level = lane >> 2;
    /* An inbox may have something that was filed before the decider granted this. B4; the decider's own look
     * is behind it. */
    bool waits =
        w.lane < TG_PRIORITY_LEVELS && s->filed[w.lane] != tg_block_load_relaxed_u32(&s->taken[w.lane]);
    if (tg_warp_ballot(waits) || (kept & TG_KEPT_BATCHED))
        return false;
    if (cls == TG_CLASS_INLINE) {
        if (tg_kind_of(kept) != TG_OP_NOP || tg_pass_room(w) == 0)
            return false;
        if (w.lane == lane) /* S3 relaxed: it has no effects */
            tg_sys_store_relaxed_u32(&p->ring[slot].status, TG_SLOT_DONE);
        tg_pass(w, w.lane == lane, slot | TG_PASS_TOLD | TG_PASS_FRESH | tg_stamped(kept), kept, true);
        tg_keep_books(w, 1u << level, level, tg_tenant_of(kept));
        return true;
    }
    uint32_t aside = s->aside;
    if ((cls != TG_CLASS_LANE && cls != TG_CLASS_WARP) || aside == 0)
        return false;
    tg_start_alone(w, aside - 1, level, w.lane - lane, head->word);
    tg_keep_books(w, 1u << level, level, tg_tenant_of(kept));
    if (w.lane == 0) {
        tg_book_alone(slot, tg_with_status(kept, TG_SLOT_CLAIMED));
        s->aside_used = 1;
    }
    tg_give_over(w); /* another worker is to be put aside */
    return true;
}

#endif
