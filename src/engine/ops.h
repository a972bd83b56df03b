/* SPDX-License-Identifier: Apache-2.0
 *
 * The bodies of the built-in opcodes 0..6 and the check of what they may touch: the part of a worker that
 * CPU threads and GPU warps share. Pure functions over the control words; they know no slot, no tenant table
 * and no engine. Arguments came from a slot and are input.
 *
 * Rules kept: E6 (observable words only, unless the floor was lowered; every index is checked before the
 * first effect), E7 (relaxed words; the DONE store that follows publishes them).
 */
#ifndef TG_ENGINE_OPS_H
#define TG_ENGINE_OPS_H

#include <stdbool.h>
#include <stdint.h>

#include <tidegate/abi.h>
#include <tidegate/engine.h>
#include <tidegate/hd.h>

#include "base/atomic.h"

/* The registered table; immutable once published. */
struct tg_dfa {
    const uint32_t *table;
    uint32_t states;
    struct tg_dfa *replaced;
};

/* What a body may touch: control words [floor, words). */
struct tg_view {
    uint32_t *control;
    uint32_t words;
    uint32_t floor;
    const struct tg_dfa *dfa;
};

TG_HD static inline bool tg_op_fault(struct tg_fault *fault, uint32_t reason, uint64_t detail)
{
    fault->reason = reason;
    fault->detail = detail > 0xFFFFFFFFu ? 0xFFFFFFFFu : (uint32_t)detail;
    return false;
}

/* May words [first, first + count) be touched? count > 0. */
TG_HD static inline bool tg_view_reach(const struct tg_view *v, uint64_t first, uint64_t count,
                                       struct tg_fault *fault)
{
    if (first >= v->words)
        return tg_op_fault(fault, TG_FAULT_OUT_OF_BOUNDS, first);
    if (count > v->words - first)
        return tg_op_fault(fault, TG_FAULT_OUT_OF_BOUNDS, v->words);
    if (first < v->floor)
        return tg_op_fault(fault, TG_FAULT_CONTROL_DENIED, first);
    return true;
}

/* O1 relaxed, here and below: data words; S3 (DONE, release) publishes them, S6 reads. */
TG_HD static inline bool tg_op_copy(const struct tg_view *v, const uint32_t *a, struct tg_fault *fault)
{
    if (a[2] == 0)
        return true;
    if (!tg_view_reach(v, a[0], a[2], fault) || !tg_view_reach(v, a[1], a[2], fault))
        return false;
    for (uint32_t i = 0; i < a[2]; i++)
        tg_store_relaxed_u32(&v->control[a[1] + i], tg_load_relaxed_u32(&v->control[a[0] + i]));
    return true;
}

TG_HD static inline bool tg_op_compare_swap(const struct tg_view *v, const uint32_t *a,
                                            struct tg_fault *fault)
{
    uint64_t out = (uint64_t)TG_CONTROL_OBSERVABLE_BASE + a[0];
    if (!tg_view_reach(v, a[0], 1, fault) || !tg_view_reach(v, out, 1, fault))
        return false;
    uint32_t found = a[1];
    tg_cas_acqrel_u32(&v->control[a[0]], &found, a[2]); /* O2 acq_rel: items may build locks of it */
    tg_store_relaxed_u32(&v->control[out], found);
    return true;
}

/* The next state goes to observable word a2 (0 when the publisher gave two arguments). */
TG_HD static inline bool tg_op_dfa_step(const struct tg_view *v, const uint32_t *a, struct tg_fault *fault)
{
    if (!v->dfa || !v->dfa->table)
        return tg_op_fault(fault, TG_FAULT_NO_DFA, 0);
    if (a[0] >= v->dfa->states)
        return tg_op_fault(fault, TG_FAULT_DFA, a[0]);
    if (a[1] >= TG_DFA_COLUMNS)
        return tg_op_fault(fault, TG_FAULT_DFA, a[1]);
    uint64_t out = (uint64_t)TG_CONTROL_OBSERVABLE_BASE + a[2];
    if (!tg_view_reach(v, out, 1, fault))
        return false;
    tg_store_relaxed_u32(&v->control[out], v->dfa->table[(uint64_t)a[0] * TG_DFA_COLUMNS + a[1]]);
    return true;
}

/* Opcodes 0..6 with 12 argument words, those not given zero. False: *fault says why, nothing was touched. */
TG_HD static inline bool tg_op_builtin(const struct tg_view *v, uint32_t opcode, const uint32_t *a,
                                       struct tg_fault *fault)
{
    uint64_t out = (uint64_t)TG_CONTROL_OBSERVABLE_BASE + a[1];
    switch (opcode) {
    case TG_OP_NOP:
        return true;
    case TG_OP_STORE_U32:
        if (!tg_view_reach(v, a[1], 1, fault))
            return false;
        tg_store_relaxed_u32(&v->control[a[1]], a[0]);
        return true;
    case TG_OP_ATOMIC_ADD:
        if (!tg_view_reach(v, a[1], 1, fault))
            return false;
        tg_add_relaxed_u32(&v->control[a[1]], a[0]);
        return true;
    case TG_OP_LOAD_U32:
        if (!tg_view_reach(v, a[0], 1, fault) || !tg_view_reach(v, out, 1, fault))
            return false;
        tg_store_relaxed_u32(&v->control[out], tg_load_relaxed_u32(&v->control[a[0]]));
        return true;
    case TG_OP_COMPARE_SWAP:
        return tg_op_compare_swap(v, a, fault);
    case TG_OP_MEMCPY:
        return tg_op_copy(v, a, fault);
    case TG_OP_DFA_STEP:
        return tg_op_dfa_step(v, a, fault);
    default:
        return tg_op_fault(fault, TG_FAULT_UNKNOWN_OPCODE, opcode);
    }
}

#endif
