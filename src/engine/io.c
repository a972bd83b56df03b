/* SPDX-License-Identifier: Apache-2.0
 *
 * The IO side: items that wait for data (WAIT_IO), their requests in the order of arrival, and their end by
 * the host. Whoever moves a slot out of WAIT_IO holds the one lock, and so a generation checked under it
 * stays. A worker takes it once for an item that parks: the one lock on an item's way, and that item is about
 * to wait for a device. Under it are a few stores, no call to the system and nothing of the application's.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "engine/device_host.h"
#include "engine/futex.h"
#include "engine/internal.h"

int tg_io_open(struct tg_engine *e)
{
    struct tg_io *io = &e->io;
    io->next = calloc(e->slots, sizeof(*io->next));
    io->prev = calloc(e->slots, sizeof(*io->prev));
    io->resource = calloc((size_t)e->slots * 2, sizeof(*io->resource));
    io->listed = calloc(e->slots, 1);
    io->head = io->tail = TG_NO_SLOT;
    return io->next && io->prev && io->resource && io->listed ? 0 : -ENOMEM;
}

void tg_io_close(struct tg_engine *e)
{
    free(e->io.next);
    free(e->io.prev);
    free(e->io.resource);
    free(e->io.listed);
}

static void append(struct tg_io *io, uint32_t slot)
{
    io->next[slot] = TG_NO_SLOT;
    io->prev[slot] = io->tail;
    if (io->tail == TG_NO_SLOT)
        io->head = slot;
    else
        io->next[io->tail] = slot;
    io->tail = slot;
    io->listed[slot] = 1;
}

static void unlist(struct tg_io *io, uint32_t slot)
{
    if (!io->listed[slot])
        return;
    uint32_t next = io->next[slot];
    uint32_t prev = io->prev[slot];
    *(prev == TG_NO_SLOT ? &io->head : &io->next[prev]) = next;
    *(next == TG_NO_SLOT ? &io->tail : &io->prev[next]) = prev;
    io->listed[slot] = 0;
}

void tg_io_park(struct tg_engine *e, struct tg_claimed *c, uint32_t resource)
{
    struct tg_io *io = &e->io;
    pthread_mutex_lock(&io->lock);
    if (tg_slot_try_hand_back(&e->ring[c->slot], TG_SLOT_WAIT_IO)) {
        io->resource[(size_t)c->slot * 2] = resource;
        io->resource[(size_t)c->slot * 2 + 1] = c->payload.args[1];
        append(io, c->slot);
    } else if (c->flags & TG_CELL_FOREIGN) { /* its host faulted it while it ran */
        tg_foreign_forget(e, c->slot);
    }
    tg_add_seqcst_u32(&io->event, 1); /* Q1 seq_cst: after the entry; pairs with Q2 */
    pthread_mutex_unlock(&io->lock);
    tg_futex_wake(&io->event, 1);
}

void tg_device_io_reap(struct tg_engine *e)
{
    struct tg_io *io = &e->io;
    uint32_t cell;
    while (tg_index_pop_mc(&e->device->io, &cell)) { /* pairs with N4 */
        uint32_t slot = cell & TG_CELL_SLOT;
        const struct tg_slot *s = &e->ring[slot];
        unlist(io, slot); /* of a use that was cancelled */
        if (tg_slot_status(s) != TG_SLOT_WAIT_IO)
            continue;
        if (tg_load_relaxed_u32(&s->opcode) == TG_OP_LOAD_MISS) { /* P2 */
            io->resource[(size_t)slot * 2] = tg_load_relaxed_u32(&s->args[0]);
            io->resource[(size_t)slot * 2 + 1] = tg_load_relaxed_u32(&s->args[1]);
        }
        tg_device_foreign_parks(e, slot);
        append(io, slot);
    }
    /* Cancelled while they were listed. */
    while (io->head != TG_NO_SLOT && tg_slot_status(&e->ring[io->head]) != TG_SLOT_WAIT_IO)
        unlist(io, io->head);
}

static bool take_request(struct tg_engine *e, struct tg_io_request *ret)
{
    struct tg_io *io = &e->io;
    pthread_mutex_lock(&io->lock);
    if (e->device)
        tg_device_io_reap(e);
    uint32_t slot = io->head;
    if (slot != TG_NO_SLOT) {
        unlist(io, slot);
        uint32_t route = tg_load_relaxed_u32(&e->side[slot].route); /* P1 */
        *ret = (struct tg_io_request){
            .item = {tg_load_relaxed_u64(&e->side[slot].generation), slot, 0},
            .resource = io->resource[(size_t)slot * 2],
            .prefetch = io->resource[(size_t)slot * 2 + 1],
            .tenant = tg_route_tenant(route),
        };
    }
    pthread_mutex_unlock(&io->lock);
    return slot != TG_NO_SLOT;
}

int tg_engine_io_next(struct tg_engine *e, uint64_t timeout_ns, struct tg_io_request *ret)
{
    uint64_t start = tg_clock_mono_ns();
    for (uint32_t step = 0;;) {
        uint32_t seen = tg_load_seqcst_u32(&e->io.event); /* Q2 seq_cst: before the look; pairs with Q1 */
        if (take_request(e, ret))
            return 0;
        if (!tg_load_seqcst_u32(&e->accepting)) /* G2; drain wakes after G1 */
            return -ESHUTDOWN;
        uint64_t spent = tg_clock_mono_ns() - start;
        if (spent >= timeout_ns)
            return -ETIMEDOUT;
        if (e->device)
            tg_device_pause_host(&e->io.event, seen, &step, timeout_ns - spent);
        else
            tg_futex_wait(&e->io.event, seen, timeout_ns - spent);
    }
}

/* WAIT_IO -> FAULT. The slot is free for nobody before its end is told. */
static void fault_waiting(struct tg_engine *e, uint32_t slot, uint32_t route, const struct tg_fault *fault)
{
    uint32_t from;
    tg_bad_end_write(e, slot, TG_SLOT_FAULT, fault);
    tg_fault_words(e, slot, fault->reason);
    tg_add_relaxed_u64(&e->outside_faults, 1); /* C3 */
    if (route & TG_CELL_FOREIGN)
        tg_foreign_forget(e, slot);
    tg_slot_try_move(&e->ring[slot], 1u << TG_SLOT_WAIT_IO, TG_SLOT_FAULT, &from);
}

/* Whoever waits for it learns of its end; without the lock, because this may wake others. */
static void fault_told(struct tg_engine *e, uint32_t slot, uint32_t route, const struct tg_fault *fault)
{
    if (route & TG_CELL_SERVED)
        tg_served_end(e, slot, TG_SLOT_FAULT, fault, NULL);
    if (route & TG_CELL_BATCHED)
        tg_fence_item_ended(e, e->side[slot].fence);
    tg_waiters_wake(e, slot);
    if (!(route & TG_CELL_FOREIGN))
        tg_slot_release(e, NULL, slot);
}

int tg_engine_io_complete(struct tg_engine *e, const struct tg_item *t, int error)
{
    if (!tg_item_known(e, t) || error > 0)
        return -EINVAL;
    if (e->device)
        return tg_device_io_complete(e, t, error);
    const struct tg_fault fault = {TG_FAULT_IO, (uint32_t)error, 0};
    uint32_t slot = t->slot, route = 0;
    bool ready = false;
    tg_attention_enter(e); /* so that waiters' marks are looked at below */
    pthread_mutex_lock(&e->io.lock);
    bool waits = tg_slot_status(&e->ring[slot]) == TG_SLOT_WAIT_IO &&
                 tg_load_acquire_u64(&e->side[slot].generation) == t->generation;
    if (waits) {
        route = tg_load_relaxed_u32(&e->side[slot].route); /* P1 */
        unlist(&e->io, slot);
        if (error != 0)
            fault_waiting(e, slot, route, &fault);
        else
            ready = tg_slot_try_io_ready(&e->ring[slot]);
    }
    pthread_mutex_unlock(&e->io.lock);
    if (waits && error != 0)
        fault_told(e, slot, route, &fault);
    else if (ready) /* cancelled meanwhile: then its entry is one without work (cancel.c) */
        tg_requeue(e, slot);
    tg_attention_leave(e);
    return waits ? 0 : -EALREADY;
}

bool tg_io_cancel(struct tg_engine *e, uint32_t slot, uint64_t generation)
{
    uint32_t from;
    pthread_mutex_lock(&e->io.lock);
    bool waits = tg_load_acquire_u64(&e->side[slot].generation) == generation &&
                 tg_slot_try_move(&e->ring[slot], 1u << TG_SLOT_WAIT_IO, TG_SLOT_EMPTY, &from);
    if (waits)
        unlist(&e->io, slot);
    pthread_mutex_unlock(&e->io.lock);
    return waits;
}
