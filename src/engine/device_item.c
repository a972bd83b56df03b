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
#define LOOKS_WHEN_FULL 256u
#define LOOKS_PER_YIELD 16u

/* N1: each quarter at once, or its lap last with release order; pairs with N2 in dispatch.h. */
void tg_device_write_line(struct tg_line *line, uint32_t lap, const uint32_t value[TG_LINE_QUARTERS],
                          const uint32_t args[TG_ARGS_PER_SLOT])
{
    for (uint32_t q = 0; q < TG_LINE_QUARTERS; q++)
        tg_sys_store_quarter(&line->word[4 * q], lap | value[q] << TG_LINE_VALUE_SHIFT, &args[3 * q]);
}

void tg_device_await_end(struct tg_engine *e, uint32_t slot)
{
    for (uint32_t looks = 1; !tg_device_ended(e, slot); looks++) {
        tg_cpu_relax();
        if (looks % LOOKS_WHEN_FULL == 0) {
            sched_yield();
            tg_device_check(e); /* a device that died ends everything */
        }
    }
}

uint64_t tg_device_reserve(struct tg_engine *e, uint32_t level, uint32_t n)
{
    /* N7 relaxed: a position each; the line itself publishes. */
    return tg_add_relaxed_u64(&e->device->ring[level].tail, n);
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

void tg_device_line(struct tg_engine *e, uint32_t level, uint64_t position, uint32_t slot, uint32_t tenant,
                    uint32_t opcode, const uint32_t *args, size_t arg_count, uint32_t fence, bool sampled)
{
    struct tg_device *d = e->device;
    uint32_t all[TG_ARGS_PER_SLOT] = {0};
    uint32_t kind = opcode;
    enum tg_class cls = TG_CLASS_INLINE;
    for (size_t i = 0; i < arg_count; i++)
        all[i] = args[i];
    if (opcode >= TG_OP_FIRST_USER)
        cls = class_of(e, opcode, all, &kind);
    if (kind == TG_KIND_UNKNOWN)
        all[0] = opcode;
    const uint32_t value[TG_LINE_QUARTERS] = {
        slot,
        tenant | (fence != TG_NO_SLOT ? TG_LINE_BATCHED : 0) | (sampled ? TG_LINE_SAMPLED : 0) |
            (uint32_t)cls << TG_LINE_CLASS_SHIFT,
        fence == TG_NO_SLOT ? 0 : fence,
        kind,
    };
    uint32_t shift = d->ring[level].shift;
    uint64_t mask = (UINT64_C(1) << shift) - 1u;
    struct tg_line *line = &d->ring[level].lines[position & mask];
    tg_prefetch_write(&d->ring[level].lines[(position + LINES_AHEAD) & mask]);
    tg_device_write_line(line, tg_line_lap(position, shift), value, all);
    if (cls == TG_CLASS_HOST)
        announce_call(d);
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
