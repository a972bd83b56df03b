/* SPDX-License-Identifier: Apache-2.0
 *
 * Items that bodies publish (tg_device_submit): their rings in device memory. Filled by the lanes of workers,
 * emptied by workers, each the part of a ring that the decider gave it (dispatch_born.h); the decider itself
 * reads how many positions are taken and never touches a cell.
 *
 * Why a cell is free when it is written. USED of a ring counts the items that wait or run, and is at most the
 * cells of the ring; an item that runs again keeps its count. So when position p is taken, at most that many
 * positions up to p were not given to a worker yet, and the worker that was given position p - cells has it
 * or is just reading it: K1 waits for that and for nothing else. A worker waits in K3 for lanes that have
 * taken their position and write. Both waits go to lower positions, so they never form a circle.
 *
 *   K1 acquire: the cell was read a lap ago                                       pairs with K4 release
 *   K2 release of the cell's state, after the item                                pairs with K3 acquire
 *   K5 relaxed TAIL, USED: counts; seen by the look after their author's worker came home (K7, Q3)
 *   K8 relaxed, an opcode's entry: all of it is one word
 *
 * Rules kept: E1 (a position is one item, of one worker), E6 (the ring is that of the body's own tenant),
 * E11.
 */
#ifndef TG_ENGINE_DEVICE_BORN_H
#define TG_ENGINE_DEVICE_BORN_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include <tidegate/abi.h>
#include <tidegate/hd.h>

#include "base/atomic.h"
#include "engine/device.h"

TG_DEVICE uint32_t tg_born_ring(uint32_t level, uint32_t tenant, uint32_t shape)
{
    return (shape * TG_PRIORITY_LEVELS + level) * 32u + tenant;
}

TG_DEVICE uint32_t tg_born_free(const struct tg_device_params *p, uint32_t position)
{
    return position >> p->born_shift << 1;
}

TG_DEVICE struct tg_born *tg_born_cell(const struct tg_device_params *p, uint32_t ring, uint32_t position)
{
    return p->born + ((uint64_t)ring << p->born_shift) + (position & ((1u << p->born_shift) - 1u));
}

/* One lane: its item goes to a position that it has taken. */
TG_DEVICE void tg_born_write(const struct tg_device_params *p, uint32_t ring, uint32_t position,
                             uint32_t opcode, uint32_t kind, const uint32_t *args, uint32_t count)
{
    struct tg_born *c = tg_born_cell(p, ring, position);
    uint32_t a[TG_ARGS_PER_SLOT];
    TG_UNROLL
    for (uint32_t i = 0; i < TG_ARGS_PER_SLOT; i++)
        a[i] = i < count ? args[i] : 0;
    while (tg_load_acquire_u32(&c->state) != tg_born_free(p, position)) /* K1 */
        tg_device_pause(0);
    c->opcode = opcode;
    c->kind = kind;
    TG_UNROLL
    for (uint32_t i = 0; i < TG_ARGS_PER_SLOT; i += 4)
        tg_quarter_store(&c->args[i], &a[i]);
    tg_store_release_u32(&c->state, tg_born_free(p, position) | 1u); /* K2 */
}

/* One lane: the item at a position that its worker was given. */
TG_DEVICE void tg_born_read(const struct tg_device_params *p, uint32_t ring, uint32_t position,
                            uint32_t *ret_opcode, uint32_t *ret_kind, uint32_t ret_args[TG_ARGS_PER_SLOT])
{
    const struct tg_born *c = tg_born_cell(p, ring, position);
    while (tg_load_acquire_u32(&c->state) != (tg_born_free(p, position) | 1u)) /* K3 */
        tg_device_pause(0);
    *ret_opcode = c->opcode;
    *ret_kind = c->kind;
    TG_UNROLL
    for (uint32_t i = 0; i < TG_ARGS_PER_SLOT; i += 4)
        tg_quarter_load(&ret_args[i], &c->args[i]);
}

/* One lane: it was read, by all who read it. */
TG_DEVICE void tg_born_taken(const struct tg_device_params *p, uint32_t ring, uint32_t position)
{
    tg_store_release_u32(&tg_born_cell(p, ring, position)->state,
                         tg_born_free(p, position + (1u << p->born_shift))); /* K4 */
}

/* The kind of an opcode and the shape it is run by. 0, -EINVAL, -ENOENT, -ENOTSUP as tg_device_submit. */
TG_DEVICE int tg_born_opcode(const struct tg_device_params *p, uint32_t opcode, uint32_t *ret_kind,
                             uint32_t *ret_shape)
{
    uint32_t i = opcode * 2654435761u % TG_BORN_OPCODES;
    *ret_kind = opcode;
    *ret_shape = TG_BORN_LANE;
    if (opcode < TG_OP_FIRST_USER)
        return opcode == TG_OP_BATCH_FENCE ? -EINVAL : 0;
    if (opcode == TG_OP_PACKED_SLOT || opcode == TG_OP_PRINTF || opcode == TG_OP_SHUTDOWN ||
        opcode == TG_OP_LOAD_MISS)
        return -EINVAL;
    for (;; i = (i + 1) % TG_BORN_OPCODES) {
        uint64_t entry = tg_load_relaxed_u64(&p->born_opcodes[i]); /* K8 */
        uint32_t what = (uint32_t)(entry >> 32);
        uint32_t cls = what >> TG_BORN_CLASS_SHIFT & TG_LINE_CLASS;
        if (what == 0)
            return -ENOENT;
        if ((uint32_t)entry != opcode)
            continue;
        *ret_kind = what & ((1u << TG_BORN_CLASS_SHIFT) - 1u);
        *ret_shape = cls == TG_CLASS_WARP ? TG_BORN_WARP : TG_BORN_LANE;
        return cls == TG_CLASS_LANE || cls == TG_CLASS_WARP ? 0 : -ENOTSUP;
    }
}

/* The decider: an opcode that the host has registered; a later one of the same number takes its place. */
TG_DEVICE void tg_born_register(const struct tg_device_params *p, uint32_t opcode, uint32_t kind,
                                uint32_t cls)
{
    uint32_t i = opcode * 2654435761u % TG_BORN_OPCODES;
    uint64_t entry = tg_load_relaxed_u64(&p->born_opcodes[i]); /* K8 */
    for (uint32_t tries = 0; entry != 0 && (uint32_t)entry != opcode && tries < TG_BORN_OPCODES; tries++) {
        i = (i + 1) % TG_BORN_OPCODES;
        entry = tg_load_relaxed_u64(&p->born_opcodes[i]); /* K8 */
    }
    tg_store_relaxed_u64(&p->born_opcodes[i], (uint64_t)(TG_BORN_KNOWN | cls << TG_BORN_CLASS_SHIFT | kind)
                                                      << 32 |
                                                  opcode); /* K8 */
}

/* Lanes that are here together take a position each in a ring. False: there is no room for this one's. */
TG_DEVICE bool tg_born_take_place(const struct tg_device_params *p, uint32_t lane, uint32_t ring,
                                  uint32_t *ret_position)
{
    const uint32_t cells = 1u << p->born_shift;
    uint32_t lanes = tg_lanes_here(lane, ring);
    uint32_t first = (uint32_t)tg_levels_first(lanes);
    uint32_t rank = tg_bits(lanes & ((1u << lane) - 1u));
    uint32_t fit = tg_bits(lanes);
    uint32_t position = 0;
    if (lane == first) {
        uint32_t wanted = fit;
        uint32_t before = tg_add_relaxed_u32(&p->born_used[ring], wanted); /* K5 */
        uint32_t room = before < cells ? cells - before : 0;
        fit = room < wanted ? room : wanted;
        if (fit < wanted)
            tg_bump_relaxed_u32(&p->born_used[ring], fit - wanted); /* K5 */
        if (fit) {
            position = tg_add_relaxed_u32(&p->born_tail[ring], fit); /* K5 */
            tg_bump_relaxed_u64(p->born_count, fit);
        }
    }
    fit = tg_lanes_shfl(lanes, fit, first);
    *ret_position = tg_lanes_shfl(lanes, position, first) + rank;
    return rank < fit;
}

#endif
