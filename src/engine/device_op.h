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

/* What tg_device_run returns for an opcode that the image does not have. */
#define TG_DEVICE_UNKNOWN 0x7FFFFFFF

struct tg_device_op {
    uint32_t opcode, tenant, priority, slot;
    uint32_t lane; /* 0..31; an opcode of a whole warp runs on all of them with the same item */
    uint32_t args[TG_ARGS_PER_SLOT];
    uint32_t word[TG_TASK_WORDS]; /* the engine's */
};

TG_DEVICE const struct tg_device_params *tg_params(void);

/* The bodies of the image: returns TG_OP_FINISHED, TG_OP_REQUEUE, TG_DEVICE_UNKNOWN, or an error (FAULT). */
TG_DEVICE int tg_device_run(struct tg_device_op *op);

/* Room for one more word that this item writes; false: too many. */
TG_DEVICE bool tg_device_notes(struct tg_device_op *op, uint32_t word)
{
    for (uint32_t i = 0; i < TG_TASK_WORDS; i++) {
        if (op->word[i] == word)
            return true;
        if (op->word[i] == TG_NO_WORD) {
            op->word[i] = word;
            return true;
        }
    }
    return false;
}

/* The observable words, index 0 is control word 160. False when there is no such word, or when the item
 * writes more than TG_TASK_WORDS different ones. The host sees what was written when it sees DONE. */
TG_DEVICE bool tg_device_load(const struct tg_device_op *op, uint32_t index, uint32_t *ret_value)
{
    (void)op;
    if (index >= tg_params()->control_words - TG_CONTROL_OBSERVABLE_BASE)
        return false;
    *ret_value = tg_load_relaxed_u32(&tg_params()->control[TG_CONTROL_OBSERVABLE_BASE + index]);
    return true;
}

TG_DEVICE bool tg_device_store(struct tg_device_op *op, uint32_t index, uint32_t value)
{
    if (index >= tg_params()->control_words - TG_CONTROL_OBSERVABLE_BASE ||
        !tg_device_notes(op, TG_CONTROL_OBSERVABLE_BASE + index))
        return false;
    tg_store_relaxed_u32(&tg_params()->control[TG_CONTROL_OBSERVABLE_BASE + index], value);
    return true;
}

TG_DEVICE bool tg_device_add(struct tg_device_op *op, uint32_t index, uint32_t value, uint32_t *ret_before)
{
    if (index >= tg_params()->control_words - TG_CONTROL_OBSERVABLE_BASE ||
        !tg_device_notes(op, TG_CONTROL_OBSERVABLE_BASE + index))
        return false;
    *ret_before = tg_add_relaxed_u32(&tg_params()->control[TG_CONTROL_OBSERVABLE_BASE + index], value);
    return true;
}

#endif
