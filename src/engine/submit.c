/* SPDX-License-Identifier: Apache-2.0
 *
 * The way in: take a free slot of the level, write the payload, publish, put the slot into its tenant's
 * queue, wake a worker if one is needed. Lock-free, from any number of threads. It never waits (wait.c) and
 * never runs anything.
 *
 * Rules kept: E1 (a slot has one publisher at a time: it came out of the free queue), E2 (the engine finds
 * the slot, so PRIORITY and partition agree), E4 (ids outside the table are refused), E5 (batches), E10 (wake
 * no more than needed), E11.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "base/clock.h"
#include "engine/device_host.h"
#include "engine/internal.h"

#define PREFETCH_AHEAD 12 /* slots; see PREFETCH_FAR in claim.c */

static inline int check_item(uint32_t opcode, const uint32_t *args, uint64_t arg_count)
{
    if (arg_count > TG_ARGS_PER_SLOT || (arg_count != 0 && !args))
        return -EINVAL;
    if (opcode >= TG_OP_FIRST_USER && !tg_opcode_is_publishable(opcode))
        return -EINVAL;
    if (opcode == TG_OP_BATCH_FENCE && arg_count > 0 && args[0] != 0)
        return -EINVAL;
    return 0;
}

static inline int check_call(const struct tg_engine *e, uint32_t tenant, uint32_t priority)
{
    (void)e;
    if (!tg_tenant_in_table(tenant))
        return -EPERM;
    return priority < TG_PRIORITY_LEVELS ? 0 : -EINVAL;
}

/* Gives slots back that were taken and not used. */
static void give_back(struct tg_engine *e, const uint32_t *slots, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        tg_slot_release(e, NULL, slots[i]);
}

/* Takes up to n free slots, from this thread's shard first. */
static uint32_t pop_slots(struct tg_engine *e, uint32_t level, uint32_t n, uint32_t *slots,
                          const struct tg_index **ret_from)
{
    struct tg_free *free = e->level[level].free;
    uint32_t home = tg_submitter_shard(e);
    uint32_t got = 0;
    for (uint32_t s = 0; s < e->shards; s++)
        while (tg_free_pop(&free[(home + s) & (e->shards - 1)], &slots[got], ret_from))
            if (++got == n)
                return n;
    return got;
}

/* What is to be seen after slots were taken: the engine accepts, and they do not move. 0, or they were given
 * back. */
static int look_after(struct tg_engine *e, uint32_t n, uint32_t *slots)
{
    /* G2 seq_cst: after the pop (I5). A drain that did not see the slot missing stored 0 before (G1), so
     * that this reads it. */
    if (!tg_load_seqcst_u32(&e->accepting)) {
        give_back(e, slots, n);
        return -ESHUTDOWN;
    }
    /* G3 acquire: a SHUTDOWN that the device obeyed. */
    if (e->device && tg_load_acquire_u32(&e->control[TG_CONTROL_SHUTDOWN])) {
        tg_store_seqcst_u32(&e->accepting, 0); /* G1 */
        give_back(e, slots, n);
        return -ESHUTDOWN;
    }
    /* Z2 acquire: pairs with Z1 in resize.c. */
    if (tg_load_acquire_u32(&e->resizing)) {
        uint32_t kept = 0;
        for (uint32_t i = 0; i < n; i++)
            if (!tg_resize_collect(e, slots[i]))
                slots[kept++] = slots[i];
        if (kept < n) {
            give_back(e, slots, kept);
            return -EAGAIN;
        }
    }
    return 0;
}

/* Fetches a slot that is soon to be taken from this queue. */
static inline void prefetch_free(struct tg_engine *e, const struct tg_index *q)
{
    uint32_t next;
    if (tg_index_ahead(q, PREFETCH_AHEAD, &next)) {
        tg_prefetch_write(&e->ring[next]);
        tg_prefetch_write(&e->side[next]);
    }
}

/* Takes n free slots of the level, or none. */
static int take_slots(struct tg_engine *e, uint32_t level, uint32_t n, uint32_t *slots)
{
    const struct tg_index *q = NULL;
    uint32_t got = 0;
    if (e->device)
        got = tg_device_take(e, level, n, slots) ? n : 0;
    /* Who wants several looks first: slots that are taken and given back are missed by others meanwhile. */
    else if (n == 1 || tg_free_count(e, level) >= n)
        got = pop_slots(e, level, n, slots, &q);
    if (got < n) {
        if (!e->device)
            give_back(e, slots, got);
        /* G2 again, so that a closed engine is not reported as a full one. */
        if (!tg_load_seqcst_u32(&e->accepting))
            return -ESHUTDOWN;
        /* P0 relaxed: a size for an error code. */
        return tg_load_relaxed_u32(&e->level[level].own) < n ? -ENOSPC : -EAGAIN;
    }
    int r = look_after(e, n, slots);
    if (!r)
        prefetch_free(e, e->device ? &e->device->free[level] : q);
    return r;
}

/* Takes one: nearly always there is one in the shard. */
static inline int take_slot(struct tg_engine *e, uint32_t level, uint32_t shard, uint32_t *slot)
{
    const struct tg_index *from;
    if (e->device || !tg_free_pop(&e->level[level].free[shard], slot, &from))
        return take_slots(e, level, 1, slot);
    /* G2, Z2 as in look_after. */
    if (!tg_load_seqcst_u32(&e->accepting) || tg_load_acquire_u32(&e->resizing)) {
        int r = look_after(e, 1, slot);
        if (r)
            return r;
    }
    prefetch_free(e, from);
    return 0;
}

void tg_ready_set(struct tg_engine *e, uint32_t shard, uint32_t level, uint32_t tenant)
{
    /* K1 seq_cst: after the entry (I2); pairs with K2 in tg_ready_tidy: either this sees the bit cleared and
     * sets it, or who cleared it sees the entry. */
    uint32_t *ready = &e->ready[shard].level[level];
    if (!(tg_load_seqcst_u32(ready) >> tenant & 1u))
        tg_or_seqcst_u32(ready, 1u << tenant);
}

/* Marks, then wakes: what every publication ends with. */
static inline void announce(struct tg_engine *e, uint32_t shard, uint32_t level, uint32_t tenant)
{
    if (!(e->flags & TG_ENGINE_SCAN))
        tg_ready_set(e, shard, level, tenant);
    tg_wake_one(e);
}

/* Fills a position that was reserved; scanning workers use no entries. */
static inline void enter(struct tg_engine *e, struct tg_index *q, uint64_t position, uint32_t cell)
{
    if (!(e->flags & TG_ENGINE_SCAN))
        tg_index_fill(q, position, cell);
}

/* Workers on the same core serve this shard first. */
static void note_cpu(struct tg_engine *e, uint32_t shard)
{
#ifndef TG_EXPLORE /* whose schedules know no cores */
    uint32_t cpu = (uint32_t)sched_getcpu() + 1;
    if (tg_load_relaxed_u32(&e->ready[shard].cpu) != cpu) /* U5 relaxed: a hint */
        tg_store_relaxed_u32(&e->ready[shard].cpu, cpu);
#else
    (void)e, (void)shard;
#endif
}

/* Positions of the queue that the items will stand in. */
static inline uint64_t reserve(struct tg_engine *e, struct tg_index *q, uint32_t shard, uint32_t n)
{
    uint64_t position = tg_index_reserve_mp(q, n);
    if (e->shards > 1 && (position ^ (position + n)) & ~UINT64_C(63))
        note_cpu(e, shard);
    return position;
}

/* Writes one slot and publishes it; the queue entry is the caller's. */
static inline __attribute__((always_inline)) uint32_t
write_slot(struct tg_engine *e, uint32_t slot, uint64_t position, uint32_t shard, uint32_t tenant,
           uint32_t level, uint32_t opcode, const uint32_t *args, size_t arg_count, uint32_t fence,
           struct tg_served *served)
{
    struct tg_side *side = &e->side[slot];
    uint32_t flags = fence == TG_NO_SLOT ? 0 : TG_CELL_BATCHED;
    if (served) {
        flags |= TG_CELL_SERVED;
        e->served[slot] = served; /* before the status (S1); read by who ends the item */
    }
    if (!(position & e->sample_mask) && e->sampling) {
        flags |= TG_CELL_SAMPLED;
        e->stamp[slot] = tg_clock_mono_ns();
    }
    /* T1 relaxed: before the status (S1); pairs with T2 in wait.c. */
    tg_store_relaxed_u64(&side->generation, side->generation + 1);
    side->fence = fence;
    tg_store_relaxed_u32(&side->route, tg_route(shard, level, tenant, flags));
    tg_slot_write_payload(&e->ring[slot], opcode, tenant, level, args, arg_count);
    tg_slot_publish(&e->ring[slot]);
    return slot | flags;
}

static inline int submit_one(struct tg_engine *e, uint32_t shard, uint32_t tenant, uint32_t level,
                             uint32_t opcode, const uint32_t *args, uint32_t arg_count,
                             struct tg_served *served, struct tg_item *ret_item)
{
    uint32_t slot;
    int r = take_slot(e, level, shard, &slot);
    if (r)
        return r;
    if (e->device) {
        const struct tg_batch_item item = {opcode, args, arg_count};
        tg_device_publish(e, tenant, level, &item, 1, &slot, 1, TG_NO_SLOT, ret_item);
        return 0;
    }
    struct tg_index *q = tg_queue(e, shard, level, tenant);
    if (opcode == TG_OP_BATCH_FENCE)
        tg_store_relaxed_u32(&e->fence_of[slot], 0); /* F1 */
    uint64_t position = reserve(e, q, shard, 1);
    struct tg_item ticket = {e->side[slot].generation + 1, slot, 0};
    uint32_t cell =
        write_slot(e, slot, position, shard, tenant, level, opcode, args, arg_count, TG_NO_SLOT, served);
    enter(e, q, position, cell);
    announce(e, shard, level, tenant);
    if (ret_item)
        *ret_item = ticket;
    return 0;
}

int tg_engine_submit(struct tg_engine *e, uint32_t tenant, uint32_t priority, uint32_t opcode,
                     const uint32_t *args, uint32_t arg_count, struct tg_item *ret_item)
{
    int r = check_call(e, tenant, priority);
    if (!r)
        r = check_item(opcode, args, arg_count);
    if (r)
        return r;
    return submit_one(e, tg_submitter_shard(e), tenant, priority, opcode, args, arg_count, NULL, ret_item);
}

int tg_submit_served(struct tg_engine *e, uint32_t way, uint32_t tenant, uint32_t priority, uint32_t opcode,
                     const uint32_t *args, struct tg_served *item, struct tg_item *ret_item)
{
    int r = check_call(e, tenant, priority);
    if (!r)
        r = check_item(opcode, args, TG_ARGS_PER_SLOT);
    if (r)
        return r;
    return submit_one(e, way & (e->shards - 1), tenant, priority, opcode, args, TG_ARGS_PER_SLOT, item,
                      ret_item);
}

int tg_engine_submit_load_miss(struct tg_engine *e, uint32_t resource, uint32_t prefetch,
                               struct tg_item *ret_item)
{
    const uint32_t args[2] = {resource, prefetch != 0};
    return submit_one(e, tg_submitter_shard(e), 0, TG_PRIORITY_CRITICAL, TG_OP_LOAD_MISS, args, 2, NULL,
                      ret_item);
}

#define CHUNK 64u

/* Publishes n items as one run of positions, in the first n of the slots that are taken. */
static void publish_run(struct tg_engine *e, uint32_t tenant, uint32_t level,
                        const struct tg_batch_item *items, uint32_t n, const uint32_t *slots, uint32_t taken,
                        uint32_t fence, struct tg_item *ret_items)
{
    uint32_t shard = tg_submitter_shard(e);
    struct tg_index *q = tg_queue(e, shard, level, tenant);
    if (e->device) {
        tg_device_publish(e, tenant, level, items, n, slots, taken, fence, ret_items);
        return;
    }
    uint64_t position = reserve(e, q, shard, n);
    for (uint32_t i = 0; i < n; i++) {
        if (i + PREFETCH_AHEAD < taken)
            tg_prefetch_write(&e->ring[slots[i + PREFETCH_AHEAD]]);
        if (items[i].opcode == TG_OP_BATCH_FENCE)
            tg_store_relaxed_u32(&e->fence_of[slots[i]], 0); /* F1 */
        if (ret_items)
            ret_items[i] = (struct tg_item){e->side[slots[i]].generation + 1, slots[i], 0};
        uint32_t cell = write_slot(e, slots[i], position + i, shard, tenant, level, items[i].opcode,
                                   items[i].args, items[i].arg_count, fence, NULL);
        if (i + 1 < n && !(e->flags & TG_ENGINE_SCAN))
            tg_index_fill_early(q, position + i, cell);
        else
            enter(e, q, position + i, cell);
    }
    announce(e, shard, level, tenant);
}

static void publish_fence(struct tg_engine *e, uint32_t tenant, uint32_t level, uint32_t slot, uint32_t count,
                          uint32_t tag, struct tg_item *ret_fence)
{
    const uint32_t args[2] = {count, tag};
    struct tg_item ticket = {e->side[slot].generation + 1, slot, 0};
    if (e->device) {
        const struct tg_batch_item item = {TG_OP_BATCH_FENCE, args, 2};
        tg_device_publish(e, tenant, level, &item, 1, &slot, 1, TG_NO_SLOT, NULL);
    } else {
        uint32_t shard = tg_submitter_shard(e);
        struct tg_index *q = tg_queue(e, shard, level, tenant);
        uint64_t position = reserve(e, q, shard, 1);
        uint32_t cell =
            write_slot(e, slot, position, shard, tenant, level, TG_OP_BATCH_FENCE, args, 2, TG_NO_SLOT, NULL);
        enter(e, q, position, cell);
        announce(e, shard, level, tenant);
    }
    if (ret_fence)
        *ret_fence = ticket;
}

/* Takes all slots first, so that it is all or nothing; small runs without allocation. */
static int with_slots(struct tg_engine *e, uint32_t tenant, uint32_t level, const struct tg_batch_item *items,
                      uint32_t count, bool fenced, uint32_t tag, struct tg_item *ret_items,
                      struct tg_item *ret_fence)
{
    uint32_t small[CHUNK + 1];
    uint32_t *slots = small;
    uint32_t need = count + (fenced ? 1 : 0);
    if (need > tg_load_relaxed_u32(&e->level[level].own)) /* P0 again */
        return -ENOSPC;
    if (need > CHUNK + 1) {
        slots = malloc(need * sizeof(*slots));
        if (!slots)
            return -ENOMEM;
    }
    int r = take_slots(e, level, need, slots);
    if (r == 0) {
        uint32_t fence = TG_NO_SLOT;
        if (fenced) {
            fence = slots[count];
            /* F1 relaxed: before the items are published (S1), which is before anybody counts down (F2). */
            tg_store_relaxed_u32(&e->fence_of[fence], count);
        }
        for (uint32_t i = 0; i < count; i += CHUNK) {
            uint32_t n = count - i < CHUNK ? count - i : CHUNK;
            publish_run(e, tenant, level, items + i, n, slots + i, count - i, fence,
                        ret_items ? ret_items + i : NULL);
        }
        if (fenced) {
            publish_fence(e, tenant, level, fence, count, tag, ret_fence);
        }
    }
    if (slots != small)
        free(slots);
    return r;
}

static int check_items(const struct tg_batch_item *items, uint32_t count)
{
    if (count != 0 && !items)
        return -EINVAL;
    for (uint32_t i = 0; i < count; i++) {
        int r = check_item(items[i].opcode, items[i].args, items[i].arg_count);
        if (r)
            return r;
    }
    return 0;
}

int tg_engine_submit_many(struct tg_engine *e, uint32_t tenant, uint32_t priority,
                          const struct tg_batch_item *items, uint32_t count, struct tg_item *ret_items)
{
    int r = check_call(e, tenant, priority);
    if (!r)
        r = check_items(items, count);
    if (r || count == 0)
        return r;
    return with_slots(e, tenant, priority, items, count, false, 0, ret_items, NULL);
}

int tg_engine_submit_batch_items(struct tg_engine *e, uint32_t tenant, uint32_t priority,
                                 const struct tg_batch_item *items, uint32_t count, uint32_t tag,
                                 struct tg_item *ret_items, struct tg_item *ret_fence)
{
    int r = check_call(e, tenant, priority);
    if (!r)
        r = check_items(items, count);
    if (!r && count >= TG_MAX_ENCODED_RING_SLOTS)
        r = -ENOSPC;
    return r ? r : with_slots(e, tenant, priority, items, count, true, tag, ret_items, ret_fence);
}

int tg_engine_submit_batch(struct tg_engine *e, uint32_t tenant, uint32_t priority,
                           const struct tg_batch_item *items, uint32_t count, uint32_t tag,
                           struct tg_item *ret_fence)
{
    return tg_engine_submit_batch_items(e, tenant, priority, items, count, tag, NULL, ret_fence);
}

void tg_requeue(struct tg_engine *e, uint32_t slot)
{
    /* P1 relaxed: written before the slot was published. */
    uint32_t route = tg_load_relaxed_u32(&e->side[slot].route);
    uint32_t level = tg_route_level(route);
    uint32_t tenant = tg_route_tenant(route);
    uint32_t shard = tg_route_shard(route);
    if (!(e->flags & TG_ENGINE_SCAN))
        tg_index_push_mp(tg_queue(e, shard, level, tenant), slot | (route & TG_ROUTE_FLAGS));
    announce(e, shard, level, tenant);
}
