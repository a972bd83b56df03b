/* SPDX-License-Identifier: Apache-2.0
 *
 * Moving the borders of the partitions while the engine runs. Workers never read the borders (they follow
 * queue entries), so none can be sent out of bounds; what must hold is E2: a slot's PRIORITY agrees with the
 * partition it lies in. So the slots that change their level are first collected while they are free: marked
 * in HOME, and whoever takes or frees a marked slot hands it over here. When all are here, the borders change
 * at once and the slots go to their new levels' submitters.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "engine/device_host.h"
#include "engine/futex.h"
#include "engine/internal.h"

bool tg_resize_collect(struct tg_engine *e, uint32_t slot)
{
    uint8_t home = tg_load_acquire_u8(&e->home[slot]);
    while (home & TG_HOME_MOVING) {
        /* Z3 acq_rel: hands the slot over with its last use, or fails because the resize was called off;
         * pairs with Z4. */
        if (tg_cas_acqrel_u8(&e->home[slot], &home, (uint8_t)(home | TG_HOME_GOT))) {
            tg_settle_bump(e);
            return true;
        }
    }
    return false;
}

static uint32_t level_at(const uint32_t *offsets, uint32_t slot)
{
    uint32_t l = 0;
    while (l + 1 < TG_PRIORITY_LEVELS && slot >= offsets[l + 1])
        l++;
    return l;
}

static int check(struct tg_engine *e, const uint32_t *offsets)
{
    if (e->has_foreign)
        return -ENOTSUP;
    if (!offsets || offsets[0] != 0 || offsets[TG_PRIORITY_LEVELS] != e->slots)
        return -EINVAL;
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++) {
        if (offsets[l] > offsets[l + 1])
            return -EINVAL;
        if (offsets[l + 1] - offsets[l] > e->queue_cells)
            return -ENOSPC;
    }
    return tg_load_seqcst_u32(&e->accepting) ? 0 : -ESHUTDOWN; /* G2 */
}

/* Z1 seq_cst: marks first, then the flag that makes others look at them; pairs with Z2. */
static void mark(struct tg_engine *e, const uint32_t *offsets)
{
    for (uint32_t s = 0; s < e->slots; s++) {
        uint8_t home = tg_load_relaxed_u8(&e->home[s]);
        if (level_at(offsets, s) != home)
            tg_store_release_u8(&e->home[s], (uint8_t)(home | TG_HOME_MOVING));
    }
    tg_store_seqcst_u32(&e->resizing, 1);
}

static bool all_here(struct tg_engine *e)
{
    for (uint32_t s = 0; s < e->slots; s++)
        /* Z4 acquire: pairs with Z3. */
        if ((tg_load_acquire_u8(&e->home[s]) & (TG_HOME_MOVING | TG_HOME_GOT)) == TG_HOME_MOVING)
            return false;
    return true;
}

static void sift_queue(struct tg_engine *e, struct tg_index *q)
{
    uint32_t slot;
    for (uint64_t n = tg_index_count(q); n > 0 && tg_index_pop_mc(q, &slot); n--)
        if (!tg_resize_collect(e, slot))
            tg_index_push_mp(q, slot);
}

/* Takes what lies in the free queues through the hands of this thread once. */
static void sift(struct tg_engine *e)
{
    if (e->device)
        tg_device_reap(e);
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
        for (uint32_t s = 0; s < e->shards; s++) {
            sift_queue(e, &e->level[l].free[s].hot);
            sift_queue(e, &e->level[l].free[s].cold);
        }
}

static bool collect(struct tg_engine *e, uint64_t timeout_ns)
{
    uint64_t start = tg_clock_mono_ns();
    for (;;) {
        uint32_t seen = tg_load_seqcst_u32(&e->settle_event); /* L2 */
        sift(e);
        if (all_here(e))
            return true;
        uint64_t spent = tg_clock_mono_ns() - start;
        if (spent >= timeout_ns)
            return false;
        /* A worker that had looked at RESIZING before it was set frees into the queue without an event, so
         * sift again after a moment. */
        uint64_t left = timeout_ns - spent;
        tg_futex_wait(&e->settle_event, seen, left < 1000000 ? left : 1000000);
    }
}

static void borders(struct tg_engine *e, const uint32_t *offsets)
{
    uint32_t *words = &e->control[TG_CONTROL_PRIORITY_OFFSETS_BASE];
    tg_add_seqcst_u32(&e->control[TG_EXT_PARTITION_SEQ], 1); /* X3 seq_cst: odd, before the words */
    for (uint32_t i = 0; i < TG_CONTROL_PRIORITY_OFFSETS_SLOTS; i++)
        tg_store_seqcst_u32(&words[i], offsets[i]);
    tg_add_seqcst_u32(&e->control[TG_EXT_PARTITION_SEQ], 1); /* X3: even, after them */
    for (uint32_t i = 0; e->device && i < TG_CONTROL_PRIORITY_OFFSETS_SLOTS; i++)
        tg_device_word(e, TG_CONTROL_PRIORITY_OFFSETS_BASE + i, offsets[i]); /* the same in its own copy */
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++) {
        tg_store_relaxed_u32(&e->level[l].first, offsets[l]); /* P0 */
        tg_store_relaxed_u32(&e->level[l].own, offsets[l + 1] - offsets[l]);
        if (!e->device)
            tg_store_relaxed_u32(&e->freed_batch[l],
                                 tg_freed_batch(offsets[l + 1] - offsets[l], e->worker_count, e->shards));
    }
}

/* Ends the resize: to the new levels, or (offsets NULL) called off. got has room for all slots. */
static void settle_slots(struct tg_engine *e, const uint32_t *offsets, uint32_t *got)
{
    uint32_t n = 0;
    for (uint32_t s = 0; s < e->slots; s++) {
        uint32_t home = tg_load_acquire_u8(&e->home[s]); /* Z4 */
        if (!(home & TG_HOME_MOVING))
            continue;
        uint32_t level = home & 0xFu;
        if (offsets) {
            /* Free, with the old level in PRIORITY: a fresh slot instead. P1, S1. */
            tg_slot_write_payload(&e->ring[s], 0, 0, 0, NULL, 0);
            tg_store_release_u32(&e->ring[s].status, TG_SLOT_EMPTY);
            level = level_at(offsets, s);
        }
        if (tg_exchange_acqrel_u8(&e->home[s], (uint8_t)level) &
            TG_HOME_GOT) /* Z4: ours, or theirs from now on */
            got[n++] = s;
    }
    tg_store_seqcst_u32(&e->resizing, 0); /* Z1 */
    for (uint32_t i = 0; i < n; i++)
        tg_slot_release(e, NULL, got[i]);
}

int tg_engine_resize(struct tg_engine *e, const uint32_t offsets[TG_CONTROL_PRIORITY_OFFSETS_SLOTS],
                     uint64_t timeout_ns)
{
    int r = check(e, offsets);
    if (r)
        return r;
    uint32_t *got = malloc(e->slots * sizeof(*got));
    if (!got)
        return -ENOMEM;
    if (pthread_mutex_trylock(&e->resize_lock) != 0) {
        free(got);
        return -EBUSY;
    }
    tg_attention_enter(e);
    mark(e, offsets);
    bool all = collect(e, timeout_ns);
    if (all)
        borders(e, offsets);
    settle_slots(e, all ? offsets : NULL, got);
    tg_attention_leave(e);
    pthread_mutex_unlock(&e->resize_lock);
    free(got);
    return all ? 0 : -ETIMEDOUT;
}
