/* SPDX-License-Identifier: Apache-2.0
 *
 * What an opcode of a device image sees of its item, and what it may do. Public as <tidegate/device.cuh>,
 * where its use is described; here for the engine's own kernel.
 */
#ifndef TG_ENGINE_DEVICE_OP_H
#define TG_ENGINE_DEVICE_OP_H

#include <stdint.h>

#include <tidegate/abi.h>
#include <tidegate/engine.h>
#include <tidegate/hd.h>

#include "base/atomic.h"
#include "engine/device.h"
#include "engine/device_born.h"

/* What tg_device_run returns for an opcode that the image does not have. */
#define TG_DEVICE_UNKNOWN 0x7FFFFFFF

struct tg_device_op {
    uint32_t opcode, tenant, priority, slot;
    /* 0..31; an opcode of a whole warp runs on all of them, of a block on 0..127, with the same item. */
    uint32_t lane;
    uint32_t args[TG_ARGS_PER_SLOT];
    uint32_t word[TG_TASK_WORDS]; /* the engine's: control words it wrote */
    uint32_t reason;              /* the engine's: of a fault, or 0 */
    /* The engine's: the last opcode that it published, what it knows of it, and whether it published. */
    uint32_t known, known_kind, known_shape, published;
    uint32_t of; /* the engine's: the tenant of what it publishes (E6), whatever a body does to TENANT */
};

/* A body's slot where its item has none: it was published by a body. */
#define TG_NO_DEVICE_SLOT 0xFFFFFFFFu

TG_DEVICE const struct tg_device_params *tg_params(void);

/* The bodies of the image: returns TG_OP_FINISHED, TG_OP_REQUEUE, TG_DEVICE_UNKNOWN, or an error (FAULT). */
TG_DEVICE int tg_device_run(struct tg_device_op *op);

/* All 128 lanes of a block come here before one goes on, and see what the others wrote: in the body of an
 * opcode of a whole block (TG_DEVICE_BLOCK) only, and by all of its lanes. */
TG_DEVICE void tg_device_block_sync(void)
{
    tg_block_any(false);
}

/* This item wrote that control word: the dispatcher copies it to the host's buffer, or, after more than
 * TG_TASK_WORDS different ones, all observable words. */
TG_DEVICE void tg_device_wrote(struct tg_device_op *op, uint32_t word)
{
    for (uint32_t i = 0; i < TG_TASK_WORDS; i++) {
        if (op->word[i] == word)
            return;
        if (op->word[i] == TG_NO_WORD) {
            op->word[i] = word;
            return;
        }
    }
    op->word[0] = TG_ALL_WORDS;
}

/* Is there an observable word of that index? */
TG_DEVICE bool tg_device_has(uint32_t index)
{
    return index < tg_params()->control_words - TG_CONTROL_OBSERVABLE_BASE;
}

/* The observable words, index 0 is control word 160. False when there is no such word. The host sees what was
 * written when it sees DONE. An item that writes more than four different ones costs more: all observable
 * words are copied then. */
TG_DEVICE bool tg_device_load(const struct tg_device_op *op, uint32_t index, uint32_t *ret_value)
{
    (void)op;
    if (!tg_device_has(index))
        return false;
    *ret_value = tg_load_relaxed_u32(&tg_params()->control[TG_CONTROL_OBSERVABLE_BASE + index]);
    return true;
}

TG_DEVICE bool tg_device_store(struct tg_device_op *op, uint32_t index, uint32_t value)
{
    if (!tg_device_has(index))
        return false;
    tg_device_wrote(op, TG_CONTROL_OBSERVABLE_BASE + index);
    tg_store_relaxed_u32(&tg_params()->control[TG_CONTROL_OBSERVABLE_BASE + index], value);
    return true;
}

TG_DEVICE bool tg_device_add(struct tg_device_op *op, uint32_t index, uint32_t value, uint32_t *ret_before)
{
    if (!tg_device_has(index))
        return false;
    tg_device_wrote(op, TG_CONTROL_OBSERVABLE_BASE + index);
    *ret_before = tg_add_relaxed_u32(&tg_params()->control[TG_CONTROL_OBSERVABLE_BASE + index], value);
    return true;
}

/* Publishes an item of the same tenant, from a body, whatever becomes of the body's own item: an opcode of
 * the image that a lane or a warp runs, or a built-in one but for fences and packed slots, with count (0 ..
 * 12) arguments, the others 0. Each lane that calls publishes one, so in a body of a whole warp or block it
 * is for one lane, or for an item each. It is claimed, counted and run like any other, but has no slot
 * (TG_NO_DEVICE_SLOT), no handle and no part in a fence of its author's batch, and nobody can cancel it.
 * Items of a level, tenant and shape begin in their order of publication. 0, -EAGAIN  the queue of that
 * level, tenant and shape is full (device_items of the options) -EINVAL  no such level, more than 12
 * arguments, a fence, a packed slot or another opcode of the host's -ENOENT  the opcode is not registered
 *    -ENOTSUP it is a handler of the host or for a whole block, or device_items is 0 */
TG_DEVICE int tg_device_submit(struct tg_device_op *op, uint32_t level, uint32_t opcode, const uint32_t *args,
                               uint32_t count)
{
    const struct tg_device_params *p = tg_params();
    uint32_t position;
    if (level >= TG_PRIORITY_LEVELS || count > TG_ARGS_PER_SLOT)
        return -EINVAL;
    if (!p->born)
        return -ENOTSUP;
    if (opcode != op->known) {
        uint32_t kind;
        uint32_t shape;
        int r = tg_born_opcode(p, opcode, &kind, &shape);
        if (r)
            return r;
        op->known = opcode;
        op->known_kind = kind;
        op->known_shape = shape;
    }
    uint32_t ring = tg_born_ring(level, op->of, op->known_shape);
    if (!tg_born_take_place(p, op->lane & 31u, ring, &position))
        return -EAGAIN;
    tg_born_write(p, ring, position, opcode, op->known_kind, args, count);
    op->published = 1;
    return 0;
}

/* The table of DFA_STEP, or NULL; its words. The row before it says how many states it has. */
TG_DEVICE const uint32_t *tg_device_dfa(uint32_t *ret_words)
{
    /* D2 acquire: the table behind it; pairs with D1 in dispatch_command.h. */
    uint64_t at = tg_load_acquire_u64(tg_params()->dfa);
    const uint32_t *table = (const uint32_t *)(uintptr_t)at;
    *ret_words = at ? table[0 - (int)TG_DFA_COLUMNS] * TG_DFA_COLUMNS : 0;
    return table;
}

/* How a body of ir.h ended, by the value it returned. */
TG_DEVICE int tg_device_ended(struct tg_device_op *op, uint32_t value)
{
    const uint32_t bounds = 0x80000000u | TG_FAULT_OUT_OF_BOUNDS; /* TG_IR_FAULT */
    if (value == (uint32_t)TG_OP_FINISHED || value == (uint32_t)TG_OP_REQUEUE)
        return (int)value;
    op->reason = value == bounds ? TG_FAULT_OUT_OF_BOUNDS : TG_FAULT_HANDLER;
    return value == bounds ? 0 : (int)value;
}

#endif
