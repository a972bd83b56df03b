/* SPDX-License-Identifier: Apache-2.0
 *
 * The queues between three warps of the dispatcher (dispatch.h): the inboxes (poller to decider), PASS
 * (decider to ender), BACK (ender to decider), and how the decider makes the ender stand still. Each queue
 * has one warp that fills and one that empties it; all lie in shared memory, all waits are short.
 *
 *   B1 FILED, after the entries and what the poller stored of the items           pairs with B2 acquire
 *   B3 TAKEN, after the entries were read                                         pairs with B4 acquire
 *   B5 PASSED, BACK_FILED, after the entries                                      pairs with B6 acquire
 *   B7 PASS_TAKEN, BACK_TAKEN, after they were read                               pairs with B8 acquire
 *      Where all that the reader needs lies in shared memory, these are stored by tg_block_store_behind_u32,
 *      else with release.
 *   B9 relaxed MORE: levels whose last look found lines and no end of them; a hint whose age is one look
 *   H1 release HOLD (odd: stand still), HELD, LEAVING, SETTLED                    pairs with H2 acquire
 *      LOOKS, counted when all that a look found is filed, is stored behind it
 *
 * Nobody waits in a circle: the ender may wait for room in BACK, which the decider empties wherever it waits;
 * the decider passes no more than fits.
 */
#ifndef TG_ENGINE_DISPATCH_PASS_H
#define TG_ENGINE_DISPATCH_PASS_H

#include "engine/dispatch.h"

/* Beside the slot's number in the low half of an entry. */
#define TG_ENTRY_SLOT 0xFFFFFu
#define TG_FILED_HERE (1u << 31)   /* inbox: the item's line is in FIRST, and nowhere else */
#define TG_PASS_TOLD (1u << 31)    /* it is over and its STATUS is stored: only the books */
#define TG_PASS_FRESH (1u << 29)   /* it was never in a queue: its generation is to be counted */
#define TG_PASS_ORDERED (1u << 30) /* a word was stored that belongs before its STATUS */
#define TG_PASS_STAMPED (1u << 28) /* it is sampled, and its time begins in PASS_NS */
#define TG_BACK_WORKER (1u << 31)  /* not a slot for the queues: a worker that is free again, */
#define TG_BACK_COUNT_SHIFT 20u    /* ... and how many items it had, ... */
#define TG_BACK_SLOW (1u << 30)    /* ... whose bodies may have published others */
/* An entry without TG_BACK_WORKER whose high half is not HELD is both: a slot, and in bits 20 .. the worker.
 */

/* One word, read by one lane for all, so that all go the same way. */
TG_DEVICE uint32_t tg_heard(struct tg_warp w, const uint32_t *word)
{
    uint32_t v = w.lane == 0 ? tg_block_load_acquire_u32(word) : 0;
    v = tg_warp_shfl(v, 0);
    tg_warp_sync();
    return v;
}

/* ---- Decider to ender. ---- */

TG_DEVICE uint32_t tg_pass_room(struct tg_warp w)
{
    struct tg_shared *s = tg_state();
    return TG_PASS - (s->passed - tg_heard(w, &s->pass_taken)); /* B8 */
}

/* A lane's entry, at a place that is free. */
TG_DEVICE void tg_pass_entry(uint32_t at, uint32_t slot, uint32_t kept)
{
    struct tg_shared *s = tg_state();
    uint32_t place = at & (TG_PASS - 1u);
    s->pass[place] = tg_cell(slot, kept);
    if (slot & TG_PASS_STAMPED)
        s->pass_ns[place] = (uint32_t)tg_device_ns();
}

/* One lane, after all entries up to there were written. alone: the ender needs nothing but them, NOPs. */
TG_DEVICE void tg_passed(uint32_t at, bool alone)
{
    struct tg_shared *s = tg_state();
    if (alone)
        tg_block_store_behind_u32(&s->passed, at); /* B5 */
    else
        tg_block_store_release_u32(&s->passed, at); /* B5 */
}

/* The caller knows that there is room. */
TG_DEVICE void tg_pass(struct tg_warp w, bool gives, uint32_t slot, uint32_t kept, bool alone)
{
    struct tg_shared *s = tg_state();
    uint32_t lanes = tg_warp_ballot(gives);
    uint32_t at = s->passed;
    if (gives)
        tg_pass_entry(at + tg_rank(w, lanes), slot, kept);
    tg_warp_sync();
    if (w.lane == 0)
        tg_passed(at + tg_bits(lanes), alone);
    tg_warp_sync();
}

/* ---- Ender to decider. ---- */

/* alone: the decider needs nothing but the entries, and nothing of theirs is read any more. */
TG_DEVICE void tg_back(struct tg_warp w, bool gives, uint32_t number, uint32_t kept, bool alone)
{
    struct tg_shared *s = tg_state();
    uint32_t lanes = tg_warp_ballot(gives);
    if (lanes == 0)
        return;
    uint32_t at = s->back_filed;
    while (TG_BACK - (at - tg_heard(w, &s->back_taken)) < TG_LANES) /* B8 */
        tg_warp_idle();
    if (gives)
        s->back[(at + tg_rank(w, lanes)) & (TG_BACK - 1u)] = tg_cell(number, kept);
    tg_warp_sync();
    if (w.lane == 0 && alone)
        tg_block_store_behind_u32(&s->back_filed, at + tg_bits(lanes)); /* B5 */
    else if (w.lane == 0)
        tg_block_store_release_u32(&s->back_filed, at + tg_bits(lanes)); /* B5 */
    tg_warp_sync();
}

/* The decider takes up to 32 of n entries. */
TG_DEVICE void tg_take_back(struct tg_warp w, uint32_t n)
{
    struct tg_shared *s = tg_state();
    uint32_t at = s->back_taken;
    n = n < TG_LANES ? n : TG_LANES;
    bool have = w.lane < n;
    uint64_t cell = have ? s->back[(at + w.lane) & (TG_BACK - 1u)] : 0;
    uint32_t number = (uint32_t)cell;
    uint32_t kept = (uint32_t)(cell >> 32);
    uint32_t slot = number & TG_ENTRY_SLOT;
    bool queues = have && !(number & TG_BACK_WORKER);
    bool worker = have && (!queues || !(kept & TG_KEPT_HELD));
    uint32_t count = queues ? 1 : number >> TG_BACK_COUNT_SHIFT & 0x3Fu;
    number = queues ? number >> TG_FINISHED_WORKER_SHIFT : number & 0xFFFFu;
    uint32_t ended = tg_bits(tg_warp_ballot(worker));
    bool aside = worker && s->block_kept == number / TG_BLOCK_WARPS + 1; /* dispatch_block.h */
    uint32_t workers = tg_warp_ballot(worker && !aside);
    bool slow = tg_warp_ballot(have && !queues && (cell & TG_BACK_SLOW)) != 0;
    if (aside)
        tg_shared_or(&s->block_warps, 1u << number % TG_BLOCK_WARPS);
    else if (worker)
        s->idle[s->idle_count + tg_rank(w, workers)] = (uint16_t)number;
    for (uint32_t m = tg_warp_ballot(worker && count != 1); m; m &= m - 1)
        ended += tg_warp_shfl(count, tg_levels_first(m)) - 1;
    tg_warp_sync();
    if (w.lane == 0) {
        s->idle_count += tg_bits(workers);
        s->flights -= ended;
        if (slow) {
            s->born_dirty = 1;
            s->flights_told = TG_ALL_LANES;
        }
        tg_block_store_behind_u32(&s->back_taken, at + n); /* B7 */
    }
    tg_warp_sync();
    if (tg_warp_ballot(queues) == 0)
        return;
    kept |= TG_KEPT_HELD;
    if (queues)
        tg_params()->kept[slot] = kept;
    tg_queue(w, queues, slot, kept);
}

/* Everything that is there. */
TG_DEVICE bool tg_take_all_back(struct tg_warp w)
{
    struct tg_shared *s = tg_state();
    bool any = false;
    for (;;) {
        uint32_t n = tg_heard(w, &s->back_filed) - s->back_taken; /* B6 */
        if (n == 0)
            return any;
        tg_take_back(w, n);
        any = true;
    }
}

/* Slots go into the queues, whoever calls: the ender does it by way of the decider. */
TG_DEVICE void tg_push(struct tg_warp w, bool have, uint32_t slot, uint32_t kept)
{
    if (w.role == TG_DECIDER && have)
        tg_params()->kept[slot] = kept;
    if (w.role == TG_DECIDER)
        tg_queue(w, have, slot, kept);
    else
        tg_back(w, have, slot, kept, false);
}

/* ---- Standing still. ---- */

/* When it returns, the ender has done all that was passed, what it gave back is in the queues, and its fields
 * are the caller's. */
TG_DEVICE void tg_hold(struct tg_warp w)
{
    struct tg_shared *s = tg_state();
    uint32_t turn = s->hold + 1;
    tg_warp_sync();
    if (w.lane == 0)
        tg_block_store_release_u32(&s->hold, turn); /* H1 */
    tg_warp_sync();
    while (tg_heard(w, &s->held) != turn) { /* H2 */
        if (!tg_take_all_back(w))
            tg_warp_idle();
    }
    tg_take_all_back(w);
}

TG_DEVICE void tg_let_go(struct tg_warp w)
{
    struct tg_shared *s = tg_state();
    uint32_t turn = s->hold + 1;
    tg_warp_sync();
    if (w.lane == 0)
        tg_block_store_release_u32(&s->hold, turn); /* H1 */
    tg_warp_sync();
}

#endif
