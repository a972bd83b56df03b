/* SPDX-License-Identifier: Apache-2.0
 *
 * Items of a client: into the ring, and waiting for their ends. share.h tells the protocol.
 *
 * Several producers (each slot has one publisher at a time)
 *   A slot is free for item s when USE says that item s - N was published there (W2) and its STATUS is no
 *   longer PUBLISHED. Who then swaps NEXT from s to s + 1 (W1) owns it: USE becomes s * 2 (W3) before the
 *   payload, so that a reader of item s - N notices, and s * 2 + 1 (W4) when it is published. Without the
 *   first condition a slow publisher of s - N, seen from one lap later, would look like a free slot.
 *   A reader of an answer reads USE before and after (W5).
 *
 * Sleeping: see SLEEPER in share.h. The server wakes one sleeper, so one thread, the leader, sleeps there;
 * when it wakes it tells the others under the lock, and each of them looked under the lock. A server that was
 * killed wakes nobody: a thread that waits for the end of the connection does (tg_attached_watch). Only where
 * that thread could not be started the leader looks at the connection every DEATH_LOOK_NS.
 */
#include <errno.h>
#include <sched.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/attach.h"
#include "engine/futex.h"

#define DEATH_LOOK_NS UINT64_C(250000000)
#define LOOKS 64u
#define LAZY_LOOKS 64u /* before a call rings: about as long as ringing takes */
#define YIELD_EVERY 32u
#define POLLS_PER_CHECK 256u
#define MAX_NS UINT64_C(3600000000000000)

/* ---- Publishing ---------------------------------------------------------------------------------------- */

static int check_item(uint32_t priority, uint32_t opcode, const uint32_t *args, size_t arg_count)
{
    if (priority >= TG_PRIORITY_LEVELS || arg_count > TG_ARGS_PER_SLOT || (arg_count != 0 && !args))
        return -EINVAL;
    if (!tg_opcode_is_publishable(opcode))
        return -EINVAL;
    return opcode == TG_OP_BATCH_FENCE && arg_count != 0 && args[0] != 0 ? -EINVAL : 0;
}

static bool slot_is_free(struct tg_attached *a, uint64_t item)
{
    uint32_t i = (uint32_t)item & a->mask;
    /* W2 acquire: pairs with W4. Then U5: the server has left the slot; pairs with U3. */
    return tg_load_acquire_u64(&a->use[i]) == (item - a->slots) * 2 + 1 &&
           tg_load_seqcst_u32(&a->share->slot[i].status) != TG_SLOT_PUBLISHED;
}

/* The last one first: it was used last and ends last, mostly. */
static bool slots_are_free(struct tg_attached *a, uint64_t item, uint32_t count)
{
    while (count > 0 && slot_is_free(a, item + count - 1))
        count--;
    return count == 0;
}

/* Takes the slots of the next count items, or none. */
static int reserve(struct tg_attached *a, uint32_t count, uint64_t *ret_item)
{
    uint64_t item = tg_load_acquire_u64(&a->next); /* W1 */
    for (;;) {
        if (slots_are_free(a, item, count)) {
            if (tg_cas_acqrel_u64(&a->next, &item, item + count)) /* W1 acq_rel: pairs with itself */
                break;
            continue; /* item is the new one */
        }
        uint64_t now = tg_load_acquire_u64(&a->next);
        if (now == item)
            return -EAGAIN;
        item = now;
    }
    *ret_item = item;
    return 0;
}

static void publish(struct tg_attached *a, uint64_t item, uint32_t priority, uint32_t opcode,
                    const uint32_t *args, size_t arg_count)
{
    uint32_t i = (uint32_t)item & a->mask;
    struct tg_slot *slot = &a->share->slot[i];
    tg_store_release_u64(&a->use[i], item * 2); /* W3: before the payload (U6); pairs with W5 */
    /* U6 release: each after W3, so that a reader of the old answer notices. */
    tg_store_release_u32(&slot->opcode, opcode);
    tg_store_release_u32(&slot->priority, priority);
    for (uint32_t k = 0; k < TG_ARGS_PER_SLOT; k++)
        tg_store_release_u32(&slot->args[k], k < arg_count ? args[k] : 0);
    /* U1 seq_cst: publishes the payload, pairs with U2; before the look at PARKED (V3). */
    tg_store_seqcst_u32(&slot->status, TG_SLOT_PUBLISHED);
    tg_store_release_u64(&a->use[i], item * 2 + 1); /* W4 release: pairs with W2 and W5 */
}

static void ring(struct tg_attached *a)
{
    /* V3 seq_cst: pairs with V1. */
    if (tg_load_seqcst_u32(&a->share->parked) && tg_exchange_seqcst_u32(&a->share->parked, 0)) {
        const uint64_t one = 1;
        (void)!write(a->bell, &one, sizeof(one)); /* non-blocking; a server that is gone shows elsewhere */
    }
}

/* Publishes one item; the server may still sleep. */
static int publish_one(struct tg_attached *a, uint32_t priority, uint32_t opcode, const uint32_t *args,
                       uint32_t arg_count, uint64_t *ret_item)
{
    uint64_t item;
    int r = check_item(priority, opcode, args, arg_count);
    if (!r)
        r = tg_attached_ended(a);
    if (!r)
        r = reserve(a, 1, &item);
    if (r)
        return r;
    publish(a, item, priority, opcode, args, arg_count);
    *ret_item = item;
    return 0;
}

int tg_attached_submit(struct tg_attached *a, uint32_t priority, uint32_t opcode, const uint32_t *args,
                       uint32_t arg_count, uint64_t *ret_item)
{
    int r = publish_one(a, priority, opcode, args, arg_count, ret_item);
    if (!r)
        ring(a);
    return r;
}

static int submit_run(struct tg_attached *a, uint32_t priority, const struct tg_batch_item *items,
                      uint32_t count, const uint32_t *fence_args, uint64_t *ret_items, uint64_t *ret_fence)
{
    uint64_t first;
    if (count != 0 && !items)
        return -EINVAL;
    for (uint32_t i = 0; i < count; i++) {
        int r = check_item(priority, items[i].opcode, items[i].args, items[i].arg_count);
        if (r)
            return r;
    }
    if (count > a->slots - (fence_args ? 1 : 0))
        return -ENOSPC;
    int r = tg_attached_ended(a);
    if (!r)
        r = reserve(a, count + (fence_args ? 1 : 0), &first);
    if (r)
        return r;
    for (uint32_t i = 0; i < count; i++) {
        publish(a, first + i, priority, items[i].opcode, items[i].args, items[i].arg_count);
        if (ret_items)
            ret_items[i] = first + i;
    }
    if (fence_args)
        publish(a, first + count, priority, TG_OP_BATCH_FENCE, fence_args, 2);
    if (fence_args && ret_fence)
        *ret_fence = first + count;
    ring(a);
    return 0;
}

int tg_attached_submit_many(struct tg_attached *a, uint32_t priority, const struct tg_batch_item *items,
                            uint32_t count, uint64_t *ret_items)
{
    if (priority >= TG_PRIORITY_LEVELS)
        return -EINVAL;
    return count == 0 ? tg_attached_ended(a) : submit_run(a, priority, items, count, NULL, ret_items, NULL);
}

int tg_attached_submit_batch(struct tg_attached *a, uint32_t priority, const struct tg_batch_item *items,
                             uint32_t count, uint32_t tag, uint64_t *ret_items, uint64_t *ret_fence)
{
    if (priority >= TG_PRIORITY_LEVELS)
        return -EINVAL;
    return submit_run(a, priority, items, count, (const uint32_t[]){count, tag}, ret_items, ret_fence);
}

/* ---- Looking ------------------------------------------------------------------------------------------- */

/* How the item ended, or -EINPROGRESS. */
static int look(struct tg_attached *a, uint64_t item, struct tg_outcome *ret)
{
    uint32_t i = (uint32_t)item & a->mask;
    struct tg_slot *slot = &a->share->slot[i];
    struct tg_outcome o = {.fault = {0}};
    if (item < a->slots || item >= tg_load_acquire_u64(&a->next)) /* W1 */
        return -EINVAL;
    /* W5 acquire: pairs with W3, W4. Not its own use: a later one, for an item that submit returned. */
    if (tg_load_acquire_u64(&a->use[i]) != item * 2 + 1)
        return -ESTALE;
    uint32_t status = tg_load_seqcst_u32(&slot->status); /* U5 seq_cst: the answer; pairs with U3. Also V5. */
    /* The answer's words are acquire loads, so that USE is read after them. */
    for (uint32_t k = 0; k < TG_OP_RESULTS && status == TG_SLOT_DONE; k++)
        o.value[k] = tg_load_acquire_u32(&slot->args[TG_ANSWER_VALUE + k]);
    if (status == TG_SLOT_FAULT) {
        o.fault.reason = tg_load_acquire_u32(&slot->args[TG_ANSWER_REASON]);
        o.fault.detail = tg_load_acquire_u32(&slot->args[TG_ANSWER_DETAIL]);
        o.fault.inner_op = tg_load_acquire_u32(&slot->args[TG_ANSWER_INNER]);
    }
    if (tg_load_acquire_u64(&a->use[i]) != item * 2 + 1) /* W5 */
        return -ESTALE;
    if (status != TG_SLOT_DONE && status != TG_SLOT_FAULT)
        return status == TG_SLOT_EMPTY ? -ECANCELED : -EINPROGRESS;
    if (ret)
        *ret = o;
    return status == TG_SLOT_DONE ? 0 : -EIO;
}

int tg_attached_cancel(struct tg_attached *a, uint64_t item)
{
    uint32_t *words = tg_share_cancels(a->share, a->slots);
    int r = look(a, item, NULL);
    if (r != -EINPROGRESS)
        return r == -EINVAL || r == -ESTALE ? r : -EALREADY;
    r = tg_attached_ended(a);
    if (r)
        return r;
    pthread_mutex_lock(&a->cancel_lock);
    uint32_t *word = &words[a->next_cancel & a->mask];
    if (tg_load_acquire_u32(word) != 0) { /* U8 acquire: the server is done with it; pairs with itself */
        r = -EAGAIN;
    } else {
        a->next_cancel++;
        /* U7 seq_cst: before the look at PARKED (V3); pairs with U8 and V2. The server counts from 0. */
        tg_store_seqcst_u32(word, (uint32_t)(item - a->slots) << 1 | 1u);
    }
    pthread_mutex_unlock(&a->cancel_lock);
    ring(a);
    return r;
}

/* look for an item, or (space not 0) for space for the next ones. */
struct awaited {
    uint32_t space;
    uint64_t item;
    struct tg_outcome *outcome;
};

static int look_for(struct tg_attached *a, const struct awaited *w)
{
    if (!w->space)
        return look(a, w->item, w->outcome);
    return slots_are_free(a, tg_load_acquire_u64(&a->next), w->space) ? 0 : -EINPROGRESS;
}

/* Once more after it was seen that the server is gone: what it had answered stands. */
static int look_or_ended(struct tg_attached *a, const struct awaited *w)
{
    int r = look_for(a, w);
    if (w->space && r == 0)
        return tg_attached_ended(a);
    if (r != -EINPROGRESS)
        return r;
    int ended = tg_attached_ended(a);
    if (!ended)
        return r;
    r = look_for(a, w);
    return r != -EINPROGRESS && !w->space ? r : ended;
}

int tg_attached_poll(struct tg_attached *a, uint64_t item, struct tg_outcome *ret)
{
    const struct awaited w = {0, item, ret};
    int r = look_or_ended(a, &w);
    if (r == -EINPROGRESS && tg_add_relaxed_u32(&a->polls, 1) % POLLS_PER_CHECK == POLLS_PER_CHECK - 1 &&
        tg_attached_check_dead(a))
        r = look_or_ended(a, &w);
    return r;
}

/* ---- Waiting ------------------------------------------------------------------------------------------- */

/* The time is over: is the server still there? */
static int timed_out(struct tg_attached *a, const struct awaited *w)
{
    if (!tg_attached_check_dead(a))
        return -ETIMEDOUT;
    int r = look_or_ended(a, w);
    return r == -EINPROGRESS ? -ETIMEDOUT : r;
}

static void sleep_on_condition(struct tg_attached *a, uint64_t end_ns)
{
    struct timespec ts = {.tv_sec = (time_t)(end_ns / 1000000000), .tv_nsec = (long)(end_ns % 1000000000)};
    pthread_cond_timedwait(&a->changed, &a->lock, &ts);
}

/* Says that somebody sleeps, until the word has another value. */
static uint32_t announce_sleep(struct tg_attached *a)
{
    uint32_t *word = &a->share->sleeper;
    uint32_t value = tg_load_seqcst_u32(word); /* V4 seq_cst: before the look (V5); pairs with V6 */
    while (!(value & 1u))
        if (tg_cas_seqcst_u32(word, &value, value + 1))
            return value + 1;
    return value;
}

/* The leader's sleep; the lock is not held meanwhile. */
static void sleep_as_leader(struct tg_attached *a, uint32_t sleeper, uint64_t limit_ns)
{
    bool whole = limit_ns >= DEATH_LOOK_NS && !tg_attached_watch(a);
    uint64_t start = tg_clock_mono_ns();
    a->has_leader = true;
    pthread_mutex_unlock(&a->lock);
    tg_futex_wait_shared(&a->share->sleeper, sleeper, whole ? DEATH_LOOK_NS : limit_ns);
    if (whole && tg_clock_mono_ns() - start >= DEATH_LOOK_NS)
        tg_attached_check_dead(a);
    pthread_mutex_lock(&a->lock);
    a->has_leader = false;
    pthread_cond_broadcast(&a->changed);
}

static int wait_asleep(struct tg_attached *a, const struct awaited *w, uint64_t end_ns)
{
    int r;
    pthread_mutex_lock(&a->lock);
    for (;;) {
        uint32_t sleeper = announce_sleep(a);
        r = look_or_ended(a, w);
        if (r != -EINPROGRESS)
            break;
        uint64_t now = tg_clock_mono_ns();
        if (now >= end_ns) {
            r = timed_out(a, w);
            break;
        }
        if (a->has_leader)
            sleep_on_condition(a, end_ns);
        else
            sleep_as_leader(a, sleeper, end_ns - now);
    }
    /* Without a leader another sleeper must become one. */
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
    return r;
}

/* A short look, then asleep. */
static int wait_for(struct tg_attached *a, const struct awaited *w, uint64_t timeout_ns)
{
    int r = look_or_ended(a, w);
    if (r != -EINPROGRESS)
        return r;
    if (timeout_ns == 0)
        return timed_out(a, w);
    uint64_t start = tg_clock_mono_ns();
    uint64_t end = start + (timeout_ns < MAX_NS ? timeout_ns : MAX_NS);
    uint64_t spin_end = start + a->spin_us * UINT64_C(1000);
    for (uint32_t looks = 1; a->spin_us != 0; looks++) {
        tg_cpu_relax();
        r = look_for(a, w);
        if (r != -EINPROGRESS)
            return look_or_ended(a, w);
        if (looks % LOOKS == 0) {
            uint64_t now = tg_clock_mono_ns();
            if (now >= spin_end || now >= end)
                break;
        }
        if (looks % YIELD_EVERY == 0)
            sched_yield(); /* the server may be waiting for this very core */
    }
    return wait_asleep(a, w, end);
}

int tg_attached_wait(struct tg_attached *a, uint64_t item, uint64_t timeout_ns, struct tg_outcome *ret)
{
    const struct awaited w = {0, item, ret};
    return wait_for(a, &w, timeout_ns);
}

int tg_attached_wait_space(struct tg_attached *a, uint64_t timeout_ns)
{
    return tg_attached_wait_slots(a, 1, timeout_ns);
}

int tg_attached_wait_slots(struct tg_attached *a, uint32_t count, uint64_t timeout_ns)
{
    const struct awaited w = {count, 0, NULL};
    if (count > a->slots)
        return -ENOSPC;
    return count == 0 ? tg_attached_ended(a) : wait_for(a, &w, timeout_ns);
}

int tg_attached_call(struct tg_attached *a, uint32_t priority, uint32_t opcode, const uint32_t *args,
                     uint32_t arg_count, uint64_t timeout_ns, struct tg_outcome *ret)
{
    uint64_t item;
    int r = publish_one(a, priority, opcode, args, arg_count, &item);
    if (r)
        return r;
    const struct awaited w = {0, item, ret};
    /* A worker that looks for work may take the item before a sleeping server could be waked. */
    for (uint32_t looks = 0; looks < LAZY_LOOKS && a->spin_us != 0; looks++) {
        r = look_for(a, &w);
        if (r != -EINPROGRESS)
            return look_or_ended(a, &w);
        tg_cpu_relax();
    }
    ring(a);
    return wait_for(a, &w, timeout_ns);
}
