/* SPDX-License-Identifier: Apache-2.0
 *
 * What a guest may want beyond single items: fences over its batches (E5), and taking items back. Everything
 * here but tg_fence_count is called by who holds serve_lock.
 *
 * Fences
 *   A BATCH_FENCE with a0 = n counts the n items taken before it. It waits here and not in the engine: a
 *   fence in the engine would hold a slot of the level that its own items may need, and enough of them would
 *   hold all. It becomes an ordinary item, a fence over nothing, when the last of its items has ended.
 *   Each item has one word, FENCE, that two parties exchange: the server puts the fence in (Y16), who ends
 * the item puts OVER in (Y19). If the server is first, the ender finds the fence and counts it down;
 * otherwise the server finds OVER and counts itself. REMAINING starts one too high, for the server's own
 * counting, so that it reaches 0 once. Who brings it to 0 hands the fence to the server through the guest's
 * READY list. An item is counted by one fence at most, so a fence costs what its items cost, whatever the
 * guest writes.
 *
 * Taking back
 *   A cancel word names an item by the number of its slot's use. If that use is not taken yet the word stays
 *   until it is; if it is over the word is dropped. At most BURST words of a guest a pass.
 */
#include "engine/serve.h"

#define BURST 32u

/* ---- Fences -------------------------------------------------------------------------------------------- */

/* All items of the fence have ended: into the engine with it. */
static void settle_fence(struct tg_guest *g, struct tg_served *fence)
{
    if (fence->cancelled) {
        tg_serve_count(&g->server->stats.cancelled);
        tg_store_relaxed_u32(&fence->state, TG_ITEM_FREE); /* the lock holder's own: it never flew */
        tg_item_answer(fence, TG_SLOT_EMPTY, NULL, NULL);
        return;
    }
    tg_store_relaxed_u32(&fence->state, TG_ITEM_PENDING);
    tg_item_append(g, fence);
}

bool tg_fence_take(struct tg_guest *g, struct tg_served *fence)
{
    uint32_t n = fence->args[0], over = 1;
    if (n > g->uncovered)
        return false;
    g->uncovered = 0;
    fence->args[0] = 0;
    tg_store_relaxed_u32(&fence->remaining, n + 1); /* before Y16, which shows the fence to enders */
    tg_store_relaxed_u32(&fence->state, TG_ITEM_WAITING);
    for (uint32_t k = 1; k <= n; k++) {
        uint32_t none = TG_NO_ITEM;
        /* Y16 acq_rel: pairs with Y19. */
        if (!tg_cas_acqrel_u32(&g->item[(fence->index - k) & g->mask].fence, &none, fence->index))
            over++;
    }
    if (tg_sub_acqrel_u32(&fence->remaining, over) ==
        over) /* Y20 acq_rel: the items' ends before the fence */
        settle_fence(g, fence);
    return true;
}

void tg_fence_count(struct tg_served *it)
{
    struct tg_guest *g = it->guest;
    struct tg_engine *e = g->server->engine;
    uint32_t place = tg_exchange_acqrel_u32(&it->fence, TG_ITEM_OVER); /* Y19 acq_rel: pairs with Y16 */
    if (place > g->mask)
        return;
    struct tg_served *fence = &g->item[place];
    if (tg_sub_acqrel_u32(&fence->remaining, 1) != 1) /* Y20 */
        return;
    uint32_t first = tg_load_relaxed_u32(&g->ready);
    do
        tg_store_relaxed_u32(&fence->next_ready, first);
    while (!tg_cas_acqrel_u32(&g->ready, &first, place + 1)); /* Y21 acq_rel: the list; pairs with itself */
    tg_store_seqcst_u32(&e->serve_ready, 1); /* Y18 seq_cst: before the look; pairs with Y17 */
    if (tg_load_seqcst_u32(&e->serve_dozing) && tg_exchange_seqcst_u32(&e->serve_dozing, 0))
        tg_serve_wake(e);
}

static void collect(struct tg_guest *g)
{
    uint32_t place = tg_exchange_acqrel_u32(&g->ready, 0); /* Y21 */
    while (place != 0) {
        struct tg_served *fence = &g->item[place - 1];
        place = tg_load_relaxed_u32(&fence->next_ready);
        /* A guest that leaves has cancelled it. */
        if (!g->leaving && tg_load_relaxed_u32(&fence->state) == TG_ITEM_WAITING)
            settle_fence(g, fence);
    }
}

bool tg_fences_collect(struct tg_server *s)
{
    struct tg_engine *e = s->engine;
    /* Y18: the mark is taken before the lists are looked at. */
    if (!tg_load_seqcst_u32(&e->serve_ready) || !tg_exchange_seqcst_u32(&e->serve_ready, 0))
        return false;
    for (uint32_t i = 0; i < s->top; i++)
        if (s->guest[i] && tg_load_relaxed_u32(&s->guest[i]->ready))
            collect(s->guest[i]);
    return true;
}

/* ---- Taking back --------------------------------------------------------------------------------------- */

static uint32_t *cancel_word(const struct tg_guest *g)
{
    return tg_share_cancels(g->share, g->mask + 1) + (g->next_cancel & g->mask);
}

/* How many items ago was the one taken that the word names? 0 or less: it will be. */
static int32_t age(const struct tg_guest *g, uint32_t word)
{
    return (int32_t)((g->next << 1) - (word & ~1u)) / 2;
}

bool tg_guest_has_cancel(const struct tg_guest *g)
{
    uint32_t word = tg_load_seqcst_u32(cancel_word(g)); /* V2 seq_cst: after PARKED (V1); pairs with U7 */
    return word != 0 && age(g, word) > 0;
}

static void cancel(struct tg_guest *g, struct tg_served *it)
{
    struct tg_server *s = g->server;
    uint32_t state = tg_load_acquire_u32(&it->state); /* Y8 */
    if (state == TG_ITEM_PENDING) {
        tg_serve_count(&s->stats.cancelled);
        tg_item_unlink(g, it);
        tg_store_relaxed_u32(&it->state, TG_ITEM_FREE);
        tg_item_answer(it, TG_SLOT_EMPTY, NULL, NULL);
    } else if (state == TG_ITEM_WAITING) {
        it->cancelled = true; /* its items still name it */
    } else if (state == TG_ITEM_FLYING && tg_engine_cancel(s->engine, &it->ticket) == 0) {
        tg_serve_count(&s->stats.cancelled);
    }
}

bool tg_guest_cancels(struct tg_guest *g)
{
    bool moved = false;
    for (uint32_t n = 0; n < BURST; n++) {
        uint32_t *word = cancel_word(g);
        uint32_t value = tg_load_acquire_u32(word); /* U7 acquire: input; pairs with U7 */
        if (value == 0 || age(g, value) <= 0)
            break;
        if ((uint32_t)age(g, value) <= g->mask + 1)
            cancel(g, &g->item[value >> 1 & g->mask]);
        tg_store_release_u32(word, 0); /* U8 release: the word is the client's again */
        g->next_cancel++;
        moved = true;
    }
    return moved;
}
