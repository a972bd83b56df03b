/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening and freeing an engine whose workers are on a device: memory that both sides see, the parameters of
 * the kernel, its start and its arrival. What the death of a device means is here too.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/device_host.h"
#include "engine/open.h"

#define ARRIVAL_NS UINT64_C(10000000000)
#define MOST_CALLERS 16u

static uint32_t shift_for(uint32_t cells)
{
    uint32_t shift = 1;
    while ((UINT64_C(1) << shift) < cells)
        shift++;
    return shift;
}

static void *host(struct tg_device *d, size_t count, size_t bytes)
{
    return d->link->host_memory(d->state, count * bytes);
}

static void *device(struct tg_device *d, size_t count, size_t bytes)
{
    return d->link->device_memory(d->state, count * bytes);
}

/* A queue of slot numbers that the device fills and the host empties. */
static bool lay_cells(struct tg_device *d, uint32_t shift, struct tg_cells *cells, struct tg_index *index)
{
    cells->cells = host(d, (size_t)1 << shift, sizeof(uint32_t));
    cells->mask = (1u << shift) - 1u;
    cells->shift = shift;
    if (!cells->cells)
        return false;
    tg_index_init(index, cells->cells, shift, 0);
    return true;
}

/* Words of a log of the engine's own that has as many records as the caller's has room for. */
static uint32_t log_room(const struct tg_engine_options *o)
{
    uint32_t room = (uint32_t)(o->log_bytes / TG_WORD_BYTES) - TG_DEBUG_RECORDS_BASE;
    uint32_t cursor = ((const uint32_t *)o->log)[TG_DEBUG_CURSOR_WORD];
    bool usable = cursor <= room && cursor % TG_DEBUG_RECORD_WORDS == 0; /* as run_printf of run.c */
    return TG_DEBUG_RECORDS_BASE + (usable ? room - cursor : 0);
}

static int lay_host(struct tg_engine *e, const struct tg_engine_options *o)
{
    struct tg_device *d = e->device;
    struct tg_device_params *p = &d->params;
    size_t bytes;
    e->slots = o->slots;
    e->ring = p->ring = host(d, e->slots, TG_SLOT_BYTES);
    e->control_words =
        o->control ? (uint32_t)(o->control_bytes / TG_WORD_BYTES) : TG_CONTROL_MIN_WORDS + o->observables;
    e->control = p->mirror = host(d, e->control_words, TG_WORD_BYTES);
    e->log_words = o->log ? log_room(o) : TG_DEBUG_RECORDS_BASE + o->log_records * TG_DEBUG_RECORD_WORDS;
    e->log = p->log = host(d, e->log_words, TG_WORD_BYTES);
    p->host_bad = host(d, e->slots, sizeof(*p->host_bad));
    p->answers = host(d, 1, sizeof(*p->answers));
    p->samples = host(d, (size_t)TG_PRIORITY_LEVELS << TG_SAMPLE_SHIFT, sizeof(uint64_t));
    d->kinds = host(d, TG_KINDS, sizeof(uint32_t));
    d->inner_kind = host(d, TG_INNER_OPCODES, sizeof(uint32_t));
    p->opcode_of = d->kinds;
    p->inner_kind = d->inner_kind;
    if (!e->ring || !e->control || !e->log || !p->host_bad || !p->answers || !p->samples || !d->kinds ||
        !d->inner_kind)
        return -ENOMEM;
    d->kinds[TG_KIND_PACKED] = TG_OP_PACKED_SLOT;
    for (uint32_t i = 0; i < TG_INNER_OPCODES; i++)
        d->inner_kind[i] = TG_KIND_UNKNOWN;
    int r = o->control ? 0
                       : tg_encode_control(false, o->tenants, o->observables, e->control,
                                           (size_t)e->control_words * TG_WORD_BYTES, &bytes);
    if (o->control)
        memcpy(e->control, o->control, (size_t)e->control_words * TG_WORD_BYTES);
    for (uint32_t t = 0; !o->control && t < o->tenants; t++)
        e->control[TG_CONTROL_TENANT_QUOTA_BASE + t] = o->quota;
    if (o->ring) /* whose slots are looked at */
        e->ring = o->ring;
    if (!r)
        r = tg_open_partitions(e, o);
    e->ring = p->ring;
    if (r)
        return r == -EBUSY ? r : -EINVAL;
    e->queue_cells = tg_open_queue_cells(e);
    uint32_t shift = shift_for(e->queue_cells);
    bool ok = true;
    for (uint32_t i = 0; i < TG_LINE_RINGS; i++) {
        uint32_t lines = i == TG_RING_COMMANDS ? TG_COMMAND_SHIFT : shift;
        d->ring[i].shift = p->line_shift[i] = lines;
        d->ring[i].lines = host(d, (size_t)1 << lines, sizeof(struct tg_line));
        p->lines[i] = d->ring[i].lines;
        ok &= d->ring[i].lines != NULL;
    }
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
        ok &= lay_cells(d, shift, &p->free[l], &d->free[l]);
    uint32_t all = shift_for(e->slots);
    ok &= lay_cells(d, all, &p->calls, &d->calls) && lay_cells(d, all, &p->io, &d->io);
    return ok ? 0 : -ENOMEM;
}

/* Where bodies publish items. */
static int lay_born(struct tg_device *d, uint32_t room)
{
    struct tg_device_params *p = &d->params;
    if (room == 0 || p->workers == 0)
        return 0;
    p->born_shift = shift_for(room);
    p->homes_shift = shift_for(p->workers + 1);
    p->born_tail = device(d, TG_BORN_RINGS, sizeof(uint32_t));
    p->born_used = device(d, TG_BORN_RINGS, sizeof(uint32_t));
    p->homes = device(d, (size_t)1 << p->homes_shift, sizeof(uint32_t));
    p->homes_tail = device(d, 1, sizeof(uint32_t));
    p->born_count = device(d, 1, sizeof(uint64_t));
    p->born_counts = device(d, 1, sizeof(struct tg_counts));
    p->born_opcodes = device(d, TG_BORN_OPCODES, sizeof(uint64_t));
    p->born = device(d, (size_t)TG_BORN_RINGS << p->born_shift, sizeof(struct tg_born));
    bool ok = p->born_tail && p->born_used && p->homes && p->homes_tail && p->born_count && p->born_counts &&
              p->born_opcodes && p->born;
    return ok ? 0 : -ENOMEM;
}

static int lay_device(struct tg_engine *e, const struct tg_engine_options *o)
{
    struct tg_device *d = e->device;
    struct tg_device_params *p = &d->params;
    uint32_t shift = shift_for(e->queue_cells);
    p->slots = e->slots;
    p->control_words = e->control_words;
    p->control_floor = e->control_floor;
    p->log_words = e->log_words;
    p->queue_shift = shift;
    p->queue_mask = (1u << shift) - 1u;
    p->poll_pause_ns = 500;
    p->free_batch = 256;
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
        if (e->level[l].own / 4 < p->free_batch)
            p->free_batch = e->level[l].own / 4;
    p->items = device(d, e->slots, sizeof(struct tg_line));
    p->kept = device(d, e->slots, sizeof(uint32_t));
    p->generation = device(d, e->slots, sizeof(uint64_t));
    p->stamp = device(d, e->slots, sizeof(uint64_t));
    p->fence_left = device(d, e->slots, sizeof(int32_t));
    p->bad = device(d, e->slots, sizeof(struct tg_bad_end));
    p->cells = device(d, (size_t)TG_DEVICE_QUEUES << shift, sizeof(uint64_t));
    p->control = device(d, e->control_words, sizeof(uint32_t));
    p->counts = device(d, 1, sizeof(struct tg_counts));
    p->tasks = device(d, p->workers ? p->workers : 1, sizeof(struct tg_task));
    p->finished_shift = shift_for(p->workers + 1);
    p->finished = device(d, (size_t)1 << p->finished_shift, sizeof(uint64_t));
    p->finished_tail = device(d, 2, sizeof(uint64_t));
    p->arrivals = device(d, 1, sizeof(uint32_t));
    p->dfa = device(d, 1, sizeof(uint64_t));
    p->watch = d->body_limit_ms ? device(d, p->workers, sizeof(struct tg_watch)) : NULL;
    if (!p->items || !p->kept || !p->generation || !p->stamp || !p->fence_left || !p->bad || !p->cells ||
        !p->control || !p->counts || !p->tasks || !p->finished || !p->finished_tail || !p->arrivals ||
        !p->dfa || (d->body_limit_ms && !p->watch))
        return -ENOMEM;
    int r = lay_born(d, o->device_items);
    if (r)
        return r;
    return d->link->upload(d->state, p->control, e->control, (size_t)e->control_words * TG_WORD_BYTES);
}

/* Worker 0 stands for the device, the others are the threads that run handlers. */
static int lay_workers(struct tg_engine *e, const struct tg_engine_options *o)
{
    struct tg_device *d = e->device;
    d->callers = o->workers < MOST_CALLERS ? o->workers : MOST_CALLERS;
    e->worker_count = 1 + d->callers;
    e->workers = host(d, e->worker_count, sizeof(*e->workers));
    if (!e->workers)
        return -ENOMEM;
    int r = tg_open_workers(e);
    d->params.host_counts = &e->workers[0].counts;
    return r;
}

static int arrive(struct tg_engine *e)
{
    struct tg_device *d = e->device;
    uint64_t start = tg_clock_mono_ns();
    /* A3 acquire: the dispatcher says that all blocks are here. */
    while (tg_load_acquire_u32(&d->params.answers->arrived) == 0) {
        int r = d->link->look(d->state);
        if (r <= 0)
            return r < 0 ? r : -EIO;
        if (tg_clock_mono_ns() - start > ARRIVAL_NS) {
            tg_store_release_u32(&d->params.answers->given_up, 1); /* A5 release: pairs with A6 */
            return -ETIMEDOUT;
        }
        sched_yield();
    }
    return 0;
}

/* What is given has been checked as for threads. */
static int check_buffers(const struct tg_engine_options *o)
{
    bool foreign = false;
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
        foreign |= o->foreign_slots[l] != 0;
    if (o->flags & TG_ENGINE_SCAN)
        return tg_open_because(-ENOTSUP, "a device engine does not scan");
    if (foreign != (o->ring != NULL))
        return tg_open_because(
            -ENOTSUP, "with a device the caller's ring is there for its foreign slots alone, and they "
                      "for it");
    int r = tg_open_given_control(o);
    return r ? r : tg_open_given_log(o);
}

int tg_device_open(struct tg_engine *e, const struct tg_engine_options *o, const struct tg_link *link)
{
    const char *why = "";
    struct tg_engine_options with_kernel = *o;
    int r = check_buffers(o);
    if (!r)
        r = tg_device_bodies_check(&with_kernel);
    if (r)
        return r;
    o = &with_kernel;
    struct tg_device *d = aligned_alloc(64, sizeof(*d));
    if (!d)
        return -ENOMEM;
    memset(d, 0, sizeof(*d));
    pthread_mutex_init(&d->command_lock, NULL);
    pthread_mutex_init(&d->callers_lock, NULL);
    pthread_mutex_init(&d->end_lock, NULL);
    d->link = link;
    e->device = d;
    r = link->open(o, &d->state, &why);
    if (r)
        return tg_open_because(r, why);
    e->slots = o->slots;
    d->params.workers = link->workers(d->state, o->device_blocks);
    d->params.limit_ns = o->device_limit_ms * UINT64_C(1000000);
    d->body_limit_ms = o->device_body_limit_ms;
    r = lay_host(e, o);
    if (!r)
        r = lay_device(e, o);
    if (!r)
        r = tg_open_queues(e, 1);
    if (!r)
        r = tg_free_lay(e, 0);
    if (!r)
        r = tg_open_sides(e);
    if (!r)
        r = tg_device_foreign_lay(e, o);
    if (r == -EBUSY || r == -EINVAL)
        return r;
    if (r)
        return tg_open_because(r, "no memory that host and device share");
    r = tg_device_bodies_lay(e, o);
    if (r)
        return r;
    free(e->bad);
    e->bad = d->params.host_bad;
    r = lay_workers(e, o);
    if (!r)
        r = link->start(d->state, &d->params);
    if (!r)
        r = arrive(e);
    if (!r)
        r = tg_device_watch_start(e);
    if (!r && o->kernel)
        r = tg_device_bodies_register(e, o->kernel);
    if (!r)
        r = tg_device_foreign_start(e);
    return r ? tg_open_because(r, "the kernel did not start, or its blocks did not all find room on the GPU")
             : 0;
}

void tg_device_free(struct tg_engine *e)
{
    struct tg_device *d = e->device;
    if (!d)
        return;
    tg_device_foreign_free(e);
    tg_device_watch_stop(e);
    if (e->workers)
        tg_open_workers_free(e);
    e->workers = NULL;
    if (e->bad == d->params.host_bad)
        e->bad = NULL;
    if (d->state)
        d->link->close(d->state);
    pthread_mutex_destroy(&d->command_lock);
    pthread_mutex_destroy(&d->callers_lock);
    pthread_mutex_destroy(&d->end_lock);
    free(d);
    e->device = NULL;
}

/* Nobody is on the other side any more: what ran is FAULT, the rest is handed back. */
static void end_outstanding(struct tg_engine *e)
{
    struct tg_device *d = e->device;
    struct tg_fault fault = {TG_FAULT_DEVICE, 0, 0};
    for (uint32_t s = 0; s < e->slots; s++) {
        uint32_t from;
        uint32_t status = tg_slot_status(&e->ring[s]);
        if (status == TG_SLOT_CLAIMED && tg_slot_try_fault(&e->ring[s], &from)) {
            tg_bad_end_write(e, s, TG_SLOT_FAULT, &fault);
            tg_add_relaxed_u64(&e->outside_faults, 1); /* C3 */
        } else if (tg_status_in(status, TG_FROM_CANCEL) && tg_slot_try_cancel(&e->ring[s], &from)) {
            tg_bad_end_write(e, s, TG_SLOT_EMPTY, NULL);
            tg_add_relaxed_u64(&d->late_handed_back, 1);
        }
    }
    /* Every slot is free; the queues say so again from the start. */
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++) {
        uint32_t cell;
        const struct tg_index *from;
        while (tg_free_pop(e->level[l].free, &cell, &from) || tg_index_pop_mc(&d->free[l], &cell))
            ;
        for (uint32_t s = 0; s < e->level[l].own; s++) {
            cell = e->level[l].first + s;
            tg_free_push_many(e->level[l].free, &cell, 1);
        }
        d->params.answers->consumed[l] = d->ring[l].tail;
    }
}

bool tg_device_check(struct tg_engine *e)
{
    struct tg_device *d = e->device;
    if (tg_load_acquire_u32(&d->dead))
        return true;
    uint32_t left = tg_load_acquire_u32(&d->params.answers->left); /* A3 */
    if (left == 1 + TG_LEFT_DRAINED || (left == 0 && d->link->look(d->state) > 0))
        return false;
    pthread_mutex_lock(&d->end_lock);
    if (!d->dead) {
        tg_store_seqcst_u32(&e->accepting, 0); /* G1 */
        end_outstanding(e);
        tg_store_release_u32(&d->dead, 1); /* A4 release: pairs with the acquires of DEAD */
    }
    pthread_mutex_unlock(&d->end_lock);
    return true;
}
