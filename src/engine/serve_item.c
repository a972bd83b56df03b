/* SPDX-License-Identifier: Apache-2.0
 *
 * Items from a guest's ring into the engine, and their ends back. What is read from the ring is input: each
 * slot is copied once, word by word, and only the copy is looked at; the tenant is the guest's, whatever the
 * slot says; priority and opcode are checked here and again by the engine.
 *
 * Why a guest harms only itself
 *   - The server counts the guest's slots itself. It takes the next slot when its STATUS is PUBLISHED and its
 *     own record of that slot is FREE; so at most N items are on their way, whatever the guest writes, and
 *     answers have a place that no other item needs: a guest that never reads them stops nobody.
 *   - A pass takes at most BURST items of one guest, then looks at the next.
 *   - Items the engine has no slot for wait in the guest's own list of that level: urgent ones do not stand
 *     behind them (E2).
 *   - A guest, and all guests of one tenant together, hold at most as many slots of a level as are free
 *     (tg_serve_may_hold): of a level of n, one that never finishes gets n / 2, two get n / 3 each (E4).
 *   - Nothing here blocks on memory or a descriptor the guest holds: the doorbell is never read or written by
 *     us (the guest could make that block), and the guest is woken through a futex.
 *
 * Who looks: the server's thread, or a worker that has nothing to do and looks around before it sleeps
 * (tg_serve_help): then an item goes from the client's ring to the worker without a third thread. That is a
 * short cut and no duty: the doorbell says what it says whether or not anybody helps.
 *
 * The end of an item (no touch after it may be freed)
 *   Who ends an item stores LANDING, answers, counts, reads CLOSING, and stores FREE as its last touch. The
 *   server stores CLOSING, then reads the states, all seq_cst: an item it sees FLYING will wake it; LANDING
 *   is a few instructions from FREE. An honest client publishes into the slot again only after it saw the
 *   answer, so the server never takes PUBLISHED beside FLYING for work to wait for, and always does beside
 *   LANDING.
 */
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "base/clock.h"
#include "engine/futex.h"
#include "engine/serve.h"

#define BURST 32u

/* ---- The way back -------------------------------------------------------------------------------------- */

void tg_guest_wake(struct tg_guest *g)
{
    uint32_t *word = &g->share->sleeper;
    /* V6 seq_cst: after STATUS (U3) or CLOSED (V7); pairs with V4. One is woken: a handle has one sleeper. */
    uint32_t value = tg_load_seqcst_u32(word);
    if ((value & 1u) && tg_cas_seqcst_u32(word, &value, value + 1))
        tg_futex_wake_shared(word, 1);
}

void tg_item_answer(struct tg_served *it, uint32_t status, const struct tg_fault *fault,
                    const uint32_t *result)
{
    struct tg_slot *slot = &it->guest->share->slot[it->index];
    /* U4 relaxed: before STATUS (U3); pairs with U5 in attach_item.c. */
    if (status == TG_SLOT_FAULT && fault) {
        tg_store_relaxed_u32(&slot->args[TG_ANSWER_REASON], fault->reason);
        tg_store_relaxed_u32(&slot->args[TG_ANSWER_DETAIL], fault->detail);
        tg_store_relaxed_u32(&slot->args[TG_ANSWER_INNER], fault->inner_op);
    } else if (status == TG_SLOT_DONE) {
        for (uint32_t i = 0; i < TG_OP_RESULTS; i++)
            tg_store_relaxed_u32(&slot->args[TG_ANSWER_VALUE + i], result ? result[i] : 0);
    }
    /* U3 seq_cst: the answer; pairs with U5, and before V6. */
    tg_store_seqcst_u32(&slot->status, status);
    tg_guest_wake(it->guest);
    tg_fence_count(it); /* E5: after the answer */
}

void tg_served_end(struct tg_engine *e, uint32_t slot, uint32_t status, const struct tg_fault *fault,
                   const uint32_t *result)
{
    struct tg_served *it = e->served[slot];
    struct tg_guest *g = it->guest;
    uint32_t tenant = g->tenant;
    tg_store_seqcst_u32(&it->state, TG_ITEM_LANDING); /* Y1 seq_cst: before the answer; see the argument */
    tg_item_answer(it, status, fault, result);
    tg_add_seqcst_u32(&g->ended[it->level], 1); /* Y2 seq_cst: before the look at WANTS; pairs with Y3 */
    /* Y3 seq_cst: pairs with arm() in serve.c. */
    bool wake =
        tg_load_seqcst_u32(&e->serve_wants[tenant]) && tg_exchange_seqcst_u32(&e->serve_wants[tenant], 0);
    if (tg_load_seqcst_u32(&g->closing)) /* Y5 seq_cst: after Y1; pairs with Y6 */
        wake = true;
    if (wake)
        tg_serve_wake(e);
    tg_store_release_u32(&it->state, TG_ITEM_FREE); /* Y7 release: the last touch; pairs with Y8 */
}

/* ---- Taking -------------------------------------------------------------------------------------------- */

bool tg_guest_has_item(const struct tg_guest *g)
{
    uint32_t i = g->next & g->mask;
    if (tg_guest_has_cancel(g))
        return true;
    /* V2 seq_cst: after PARKED (V1); pairs with U1. Then Y8 acquire: pairs with Y7. In this order: PUBLISHED
     * by an honest client means that its slot's last item is LANDING at least. One look too many does no
     * harm. */
    if (tg_load_seqcst_u32(&g->share->slot[i].status) != TG_SLOT_PUBLISHED)
        return false;
    uint32_t state = tg_load_acquire_u32(&g->item[i].state);
    return state == TG_ITEM_FREE || state == TG_ITEM_LANDING;
}

void tg_item_append(struct tg_guest *g, struct tg_served *it)
{
    struct tg_pending *list = &g->pending[it->level];
    it->next = it->prev = TG_NO_ITEM;
    if (list->first == TG_NO_ITEM) {
        list->first = it->index;
    } else {
        it->prev = list->last;
        g->item[list->last].next = it->index;
    }
    list->last = it->index;
    g->pendings++;
    if (!g->waits) {
        g->waits = true;
        g->server->waiting[g->server->waitings++] = g;
    }
}

void tg_item_unlink(struct tg_guest *g, struct tg_served *it)
{
    struct tg_pending *list = &g->pending[it->level];
    *(it->prev == TG_NO_ITEM ? &list->first : &g->item[it->prev].next) = it->next;
    *(it->next == TG_NO_ITEM ? &list->last : &g->item[it->next].prev) = it->prev;
    g->pendings--;
}

static void refuse(struct tg_served *it, uint32_t reason, uint32_t detail)
{
    struct tg_fault fault = {reason, detail, 0};
    tg_serve_count(&it->guest->server->stats.invalid);
    tg_store_relaxed_u32(&it->state, TG_ITEM_FREE); /* this thread's own: it never flew */
    tg_item_answer(it, TG_SLOT_FAULT, &fault, NULL);
}

/* A slot's payload, each word read once. */
static void copy(struct tg_served *it, const struct tg_slot *slot, uint32_t *priority)
{
    struct tg_slot_payload payload;
    tg_slot_read_payload(slot, &payload);
    it->opcode = payload.opcode;
    *priority = payload.priority;
    memcpy(it->args, payload.args, sizeof(it->args));
}

static bool take_one(struct tg_guest *g)
{
    uint32_t i = g->next & g->mask, priority;
    struct tg_served *it = &g->item[i];
    struct tg_slot *slot = &g->share->slot[i];
    /* Y8 acquire first: FREE comes after the answer (U3), so that the PUBLISHED read then is a new one. The
     * other way round the item that just ended would be taken twice. U2 acquire: the payload; pairs with U1.
     */
    if (tg_load_acquire_u32(&it->state) != TG_ITEM_FREE ||
        tg_load_acquire_u32(&slot->status) != TG_SLOT_PUBLISHED)
        return false;
    copy(it, slot, &priority);
    g->next++;
    g->taken++;
    tg_store_relaxed_u32(&it->fence, TG_NO_ITEM); /* Y16 relaxed: nobody else has the item yet */
    it->cancelled = false;
    bool covers = it->opcode == TG_OP_BATCH_FENCE && it->args[0] != 0;
    if (!covers && g->uncovered < g->mask)
        g->uncovered++;
    tg_serve_count(&g->server->stats.taken);
    if (priority >= TG_PRIORITY_LEVELS) {
        refuse(it, TG_FAULT_PRIORITY, priority);
    } else if (!tg_opcode_is_publishable(it->opcode)) {
        refuse(it, TG_FAULT_UNKNOWN_OPCODE, it->opcode);
    } else {
        it->level = priority;
        if (covers && !tg_fence_take(g, it)) {
            refuse(it, TG_FAULT_FENCE, it->args[0]);
        } else if (!covers) {
            tg_store_relaxed_u32(&it->state, TG_ITEM_PENDING); /* this thread's own until it flies */
            tg_item_append(g, it);
        }
    }
    return true;
}

/* ---- Submitting ---------------------------------------------------------------------------------------- */

static uint32_t held_by(const struct tg_guest *g, uint32_t level)
{
    /* Y9 seq_cst: after WANTS (Y3); pairs with Y2. Items in the engine, at least. */
    return g->sent[level] - tg_load_seqcst_u32(&g->ended[level]);
}

static uint32_t held_by_tenant(struct tg_server *s, uint32_t tenant, uint32_t level)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->places; i++)
        if (s->guest[i] && s->guest[i]->tenant == tenant)
            n += held_by(s->guest[i], level);
    return n;
}

/* May the guest's tenant take one more slot of the level? The count is an upper bound, made exact when it
 * matters. A guest is bounded with its tenant, and within it by its own ring and its turn. */
static bool has_room(struct tg_guest *g, uint32_t level)
{
    struct tg_server *s = g->server;
    const struct tg_level *lv = &s->engine->level[level];
    uint32_t own = tg_load_relaxed_u32(&lv->own); /* P0 relaxed: a bound, not an address */
    uint32_t *held = &s->held[g->tenant][level];
    if (*held < own / 32 + 1)
        return true;
    uint32_t left = (uint32_t)tg_free_count(s->engine, level);
    if (tg_serve_may_hold(*held, left, own))
        return true;
    *held = held_by_tenant(s, g->tenant, level);
    return tg_serve_may_hold(*held, left, own);
}

/* The first pending item of the level into the engine. False: not now. */
static bool submit_one(struct tg_guest *g, uint32_t level)
{
    struct tg_server *s = g->server;
    struct tg_pending *list = &g->pending[level];
    struct tg_served *it = &g->item[list->first];
    if (!has_room(g, level)) {
        s->wanted |= 1u << g->tenant;
        return false;
    }
    tg_store_relaxed_u32(&it->state, TG_ITEM_FLYING); /* before S1, which publishes it to who ends it */
    int r = tg_submit_served(s->engine, g->place, g->tenant, level, it->opcode, it->args, it, &it->ticket);
    if (r == -EAGAIN) {
        tg_store_relaxed_u32(&it->state, TG_ITEM_PENDING);
        s->full = 1;
        return false;
    }
    tg_item_unlink(g, it);
    if (r == 0) {
        g->sent[level]++;
        s->held[g->tenant][level]++;
    } else if (r == -ESHUTDOWN) {
        tg_store_relaxed_u32(&it->state, TG_ITEM_FREE);
        tg_item_answer(it, TG_SLOT_EMPTY, NULL, NULL);
    } else {
        refuse(it, TG_FAULT_REFUSED, (uint32_t)r);
    }
    return true;
}

static bool submit_level(struct tg_server *s, uint32_t level)
{
    bool moved = false;
    for (uint32_t k = 0; k < s->waitings; k++) {
        struct tg_guest *g = s->waiting[(s->turn + k) % s->waitings];
        for (uint32_t n = 0; n < BURST && g->pending[level].first != TG_NO_ITEM && submit_one(g, level); n++)
            moved = true;
    }
    return moved;
}

bool tg_serve_submit(struct tg_server *s)
{
    bool moved = false;
    s->full = 0;
    s->wanted = 0;
    if (s->waitings == 0)
        return false;
    s->turn++;
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
        moved |= submit_level(s, l);
    for (uint32_t k = 0; k < s->waitings;) {
        struct tg_guest *g = s->waiting[k];
        if (g->pendings != 0) {
            k++;
            continue;
        }
        g->waits = false;
        s->waiting[k] = s->waiting[--s->waitings];
    }
    return moved;
}

bool tg_serve_pass(struct tg_server *s)
{
    bool moved = tg_fences_collect(s);
    for (uint32_t k = 0; k < s->actives; k++) {
        struct tg_guest *g = s->active[k];
        uint32_t n = 0;
        while (n < BURST && take_one(g))
            n++;
        if (tg_guest_cancels(g) || n != 0) {
            g->last_ns = 0; /* the next look at the clock sets it */
            moved = true;
        }
    }
    return tg_serve_submit(s) || moved;
}

bool tg_serve_help(struct tg_engine *e)
{
    uint32_t taken = 0;
    if (pthread_mutex_trylock(&e->serve_lock) != 0)
        return false;
    struct tg_server *s = e->helped;
    if (s && tg_fences_collect(s))
        taken++;
    /* At most a burst, and from another guest on each time: while it takes, the worker counts as one that
     * looks for work, and publishers wake no other. */
    for (uint32_t i = 0; s && i < s->top && taken < BURST; i++) {
        struct tg_guest *g = s->guest[s->help_from++ % s->top];
        if (!g || g->leaving)
            continue;
        while (taken < BURST && take_one(g))
            taken++;
        /* What the guest wished before it published an item is done before that item. */
        if (tg_guest_cancels(g))
            taken++;
    }
    if (taken != 0) {
        tg_serve_submit(s);
        /* What could not be submitted is waited for by the server's thread. */
        if (s->waitings != 0)
            tg_serve_wake(e);
    }
    pthread_mutex_unlock(&e->serve_lock);
    return taken != 0;
}

/* ---- Leaving ------------------------------------------------------------------------------------------- */

void tg_guest_cancel_items(struct tg_guest *g)
{
    struct tg_server *s = g->server;
    tg_store_seqcst_u32(&g->closing, 1); /* Y6 seq_cst: before the look at the states; pairs with Y5 */
    for (uint32_t i = 0; i <= g->mask; i++) {
        struct tg_served *it = &g->item[i];
        uint32_t state = tg_load_seqcst_u32(&it->state); /* Y6 again */
        if (state == TG_ITEM_PENDING || state == TG_ITEM_WAITING) {
            tg_serve_count(&s->stats.lost);
            tg_store_relaxed_u32(&it->state, TG_ITEM_FREE);
            tg_item_answer(it, TG_SLOT_EMPTY, NULL, NULL);
        } else if (state == TG_ITEM_FLYING && tg_engine_cancel(s->engine, &it->ticket) == 0) {
            tg_serve_count(&s->stats.lost);
        }
    }
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
        g->pending[l].first = TG_NO_ITEM;
    g->pendings = 0;
}

bool tg_guest_landed(const struct tg_guest *g)
{
    for (uint32_t i = 0; i <= g->mask; i++) {
        uint32_t state;
        /* Y8 acquire: pairs with Y7. LANDING is a few instructions of a running thread. */
        while ((state = tg_load_seqcst_u32(&g->item[i].state)) == TG_ITEM_LANDING) {
            tg_cpu_relax();
            sched_yield();
        }
        if (state != TG_ITEM_FREE)
            return false;
    }
    return true;
}
