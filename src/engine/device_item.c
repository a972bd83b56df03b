/* SPDX-License-Identifier: Apache-2.0
 *
 * Items on their way to the device and slots on their way back: lines of the line rings, cells of the free
 * queues (device.h has the argument). Called by submit.c in place of the CPU's index.
 *
 * Rules kept: E1 (a slot comes out of one free queue), E2 (the ring of lines is that of the level), E11.
 */
#include <sched.h>

#include "engine/device_host.h"
#include "engine/futex.h"
#include "ring/packed.h"

#define LINES_AHEAD 8u /* fetched for writing: the device has read them since */
#define SLOTS_AHEAD 12u
#define LOOKS_WHEN_FULL 256u
#define LOOKS_PER_YIELD 16u

/* N1: each quarter at once, or its lap last with release order; pairs with N2 in dispatch.h. */
void tg_device_write_line(struct tg_line *line, uint32_t lap, const uint32_t value[TG_LINE_QUARTERS],
                          const uint32_t args[TG_ARGS_PER_SLOT])
{
    for (uint32_t q = 0; q < TG_LINE_QUARTERS; q++)
        tg_sys_store_quarter(&line->word[4 * q], lap | value[q] << TG_LINE_VALUE_SHIFT, &args[3 * q]);
}

/* Has the slot's last item ended? The device writes free cells and STATUS in no order. */
static inline bool has_ended(const struct tg_engine *e, uint32_t slot)
{
    /* N8 acquire: STATUS at an end is the device's last store to the slot; pairs with S3, S5. */
    uint32_t status = tg_load_acquire_u32(&e->ring[slot].status);
    return status == TG_SLOT_DONE || status == TG_SLOT_EMPTY || status == TG_SLOT_FAULT;
}

/* Until the slot's last item has ended; a microsecond at most. */
static void await_end(struct tg_engine *e, uint32_t slot)
{
    for (uint32_t looks = 1; !has_ended(e, slot); looks++) {
        tg_cpu_relax();
        if (looks % LOOKS_WHEN_FULL == 0) {
            sched_yield();
            tg_device_check(e); /* a device that died ends everything */
        }
    }
}

/* A packed slot goes to the host when one of its operations is a handler's, to a lane of a worker when one is
 * of the image, and for a lane. */
static enum tg_class class_of_packed(struct tg_engine *e, const uint32_t *args)
{
    struct tg_packed_view v;
    const struct tg_handler *h;
    enum tg_class cls = TG_CLASS_INLINE;
    if (!tg_packed_look(args, &v))
        return cls;
    for (uint32_t i = 0; i < v.op_count; i++) {
        tg_opcode_kind(e, v.op_id[i], &h);
        if (h && h->call)
            return TG_CLASS_HOST;
        if (h && h->device_class != TG_CLASS_LANE)
            return TG_CLASS_INLINE; /* where it is unknown: one lane cannot run it */
        if (h)
            cls = TG_CLASS_LANE;
    }
    return cls;
}

static enum tg_class class_of(struct tg_engine *e, uint32_t opcode, const uint32_t *args, uint32_t *ret_kind)
{
    const struct tg_handler *h;
    *ret_kind = tg_opcode_kind(e, opcode, &h);
    if (h)
        return h->call ? TG_CLASS_HOST : (enum tg_class)h->device_class;
    return *ret_kind == TG_KIND_PACKED ? class_of_packed(e, args) : TG_CLASS_INLINE;
}

bool tg_device_is_call(struct tg_engine *e, uint32_t slot)
{
    uint32_t kind;
    const struct tg_slot *s = &e->ring[slot];
    return class_of(e, tg_load_relaxed_u32(&s->opcode), s->args, &kind) == TG_CLASS_HOST; /* P2 */
}

static void announce_call(struct tg_device *d)
{
    /* Y20 seq_cst: after the line; pairs with Y21 in device_call.c. */
    tg_add_seqcst_u32(&d->calls_out, 1);
    if (tg_load_seqcst_u32(&d->callers_asleep) != 0) {
        tg_add_seqcst_u32(&d->call_event, 1);
        tg_futex_wake_all(&d->call_event);
    }
}

/* Writes an item into its slot and its line. The slot is the caller's, with its item ended. */
static inline void write_item(struct tg_engine *e, uint32_t level, uint64_t position, uint32_t slot,
                              uint32_t tenant, uint32_t opcode, const uint32_t *args, size_t arg_count,
                              uint32_t fence, uint32_t flags)
{
    struct tg_device *d = e->device;
    struct tg_side *side = &e->side[slot];
    struct tg_slot *s = &e->ring[slot];
    uint32_t a[TG_ARGS_PER_SLOT];
    uint32_t kind = opcode;
    enum tg_class cls = TG_CLASS_INLINE;
    bool sampled = !(position & e->sample_mask) && e->sampling;
    flags |= (fence == TG_NO_SLOT ? 0 : TG_CELL_BATCHED) | (sampled ? TG_CELL_SAMPLED : 0);
    for (uint32_t i = 0; i < TG_ARGS_PER_SLOT; i++)
        a[i] = i < arg_count ? args[i] : 0;
    /* T1 relaxed: before the status (S1); pairs with T2 in wait.c. */
    tg_store_relaxed_u64(&side->generation, side->generation + 1);
    side->fence = fence;
    tg_store_relaxed_u32(&side->route, tg_route(0, level, tenant, flags));
    /* P1 relaxed: ordered by S1, which follows; pairs with P2. */
    tg_store_relaxed_u32(&s->opcode, opcode);
    tg_store_relaxed_pair(&s->tenant, tenant, level);
    TG_UNROLL
    for (uint32_t i = 0; i < TG_ARGS_PER_SLOT; i += 4)
        tg_store_relaxed_quarter(&s->args[i], a[i], a[i + 1], a[i + 2], a[i + 3]);
    tg_slot_publish(s);
    if (opcode >= TG_OP_FIRST_USER)
        cls = class_of(e, opcode, a, &kind);
    if (kind == TG_KIND_UNKNOWN)
        a[0] = opcode;
    uint32_t shift = d->ring[level].shift;
    uint32_t lap = tg_line_lap(position, shift);
    uint64_t mask = (UINT64_C(1) << shift) - 1u;
    struct tg_line *line = &d->ring[level].lines[position & mask];
    const uint32_t value[TG_LINE_QUARTERS] = {
        slot,
        tenant | (fence != TG_NO_SLOT ? TG_LINE_BATCHED : 0) | (sampled ? TG_LINE_SAMPLED : 0) |
            (uint32_t)cls << TG_LINE_CLASS_SHIFT,
        fence == TG_NO_SLOT ? 0 : fence,
        kind,
    };
    tg_prefetch_write(&d->ring[level].lines[(position + LINES_AHEAD) & mask]);
    TG_UNROLL
    for (uint32_t q = 0; q < TG_LINE_QUARTERS; q++) /* N1 */
        tg_sys_store_quarter(&line->word[4 * q], lap | value[q] << TG_LINE_VALUE_SHIFT, &a[3 * q]);
    if (cls == TG_CLASS_HOST)
        announce_call(d);
}

void tg_device_publish(struct tg_engine *e, uint32_t tenant, uint32_t level,
                       const struct tg_batch_item *items, uint32_t n, const uint32_t *slots, uint32_t taken,
                       uint32_t fence, struct tg_item *ret_items)
{
    /* N7 relaxed: a position each; the line itself publishes. */
    uint64_t position = tg_add_relaxed_u64(&e->device->ring[level].tail, n);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t slot = slots[i];
        if (i + SLOTS_AHEAD < taken) {
            tg_prefetch_write(&e->ring[slots[i + SLOTS_AHEAD]]);
            tg_prefetch_write(&e->side[slots[i + SLOTS_AHEAD]]);
        }
        if (!has_ended(e, slot))
            await_end(e, slot);
        if (ret_items)
            ret_items[i] = (struct tg_item){e->side[slot].generation + 1, slot, 0};
        /* The usual counts of arguments, so that their copying is unrolled. */
        if (items[i].arg_count == 0)
            write_item(e, level, position + i, slot, tenant, items[i].opcode, NULL, 0, fence, 0);
        else if (items[i].arg_count == 3)
            write_item(e, level, position + i, slot, tenant, items[i].opcode, items[i].args, 3, fence, 0);
        else
            write_item(e, level, position + i, slot, tenant, items[i].opcode, items[i].args,
                       items[i].arg_count, fence, 0);
    }
}

void tg_device_publish_foreign(struct tg_engine *e, uint32_t slot, const struct tg_slot_payload *p)
{
    /* N7 again. */
    uint64_t position = tg_add_relaxed_u64(&e->device->ring[p->priority].tail, 1);
    write_item(e, p->priority, position, slot, p->tenant, p->opcode, p->args, TG_ARGS_PER_SLOT, TG_NO_SLOT,
               TG_CELL_FOREIGN);
}

/* The device frees into one queue, the host (slots given back, resize) into another. */
static void reap_level(struct tg_engine *e, uint32_t level)
{
    uint32_t cell;
    for (uint32_t n = e->slots; n > 0 && tg_index_pop_mc(&e->device->free[level], &cell); n--)
        if (!tg_device_foreign_freed(e, cell))
            tg_slot_release(e, NULL, cell);
}

void tg_device_reap(struct tg_engine *e)
{
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
        reap_level(e, l);
}

/* Of the host's own: n or none. A device's engine has one shard. */
static bool take_own(struct tg_engine *e, uint32_t level, uint32_t n, uint32_t *slots)
{
    const struct tg_index *from;
    uint32_t got = 0;
    if (n > 1 && tg_free_count(e, level) < n)
        return false;
    while (got < n && tg_free_pop(e->level[level].free, &slots[got], &from))
        got++;
    for (uint32_t i = 0; got < n && i < got; i++)
        tg_slot_release(e, NULL, slots[i]);
    return got == n;
}

static bool take(struct tg_engine *e, uint32_t level, uint32_t n, uint32_t *slots)
{
    struct tg_index *back = &e->device->free[level];
    if (e->has_foreign) { /* not all that comes back is for submitters */
        reap_level(e, level);
        return take_own(e, level, n, slots);
    }
    if (n == 1)
        return take_own(e, level, 1, slots) || tg_index_pop_mc(back, slots);
    if (tg_index_pop_many_mc(back, n, slots) || take_own(e, level, n, slots))
        return true;
    reap_level(e, level); /* some here, some there */
    return take_own(e, level, n, slots);
}

/* The device frees a slot up to a few looks after its item is DONE: a level that seems full is looked at for
 * some microseconds before the caller hears so. */
bool tg_device_take(struct tg_engine *e, uint32_t level, uint32_t n, uint32_t *slots)
{
    for (uint32_t looks = 1; looks <= LOOKS_WHEN_FULL; looks++) {
        if (take(e, level, n, slots))
            return true;
        if (n > tg_load_relaxed_u32(&e->level[level].own)) /* P0 */
            return false;
        tg_cpu_relax();
        if (looks % LOOKS_PER_YIELD == 0)
            sched_yield();
    }
    return false;
}
