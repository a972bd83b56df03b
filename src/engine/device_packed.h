/* SPDX-License-Identifier: Apache-2.0
 *
 * A packed slot that has an opcode of the device image among its operations: one lane of a worker runs them
 * all, each with its own arguments, as tg_run_packed does where all are built in. What the dispatcher alone
 * may do (the effect of a fence, words below the observable ones) is a fault here.
 */
#ifndef TG_ENGINE_DEVICE_PACKED_H
#define TG_ENGINE_DEVICE_PACKED_H

#include "engine/device_op.h"
#include "engine/dispatch_run.h"
#include "ring/packed.h"

/* A built-in operation; false after *fault. */
TG_DEVICE bool tg_device_builtin(struct tg_device_op *op, struct tg_fault *fault)
{
    const struct tg_device_params *p = tg_params();
    struct tg_dfa dfa = {0, 0, 0};
    uint32_t word;
    uint32_t second;
    if (op->opcode == TG_OP_DFA_STEP) {
        dfa.table = tg_device_dfa(&dfa.states);
        dfa.states /= TG_DFA_COLUMNS;
    }
    struct tg_view view = {p->control, p->control_words, TG_CONTROL_OBSERVABLE_BASE, &dfa};
    if (op->opcode == TG_OP_BATCH_FENCE)
        return tg_op_fault(fault, TG_FAULT_FENCE, op->args[0]);
    if (!tg_op_builtin(&view, op->opcode, op->args, fault))
        return false;
    tg_touched(op->opcode, op->args, &word, &second);
    if (word != TG_NO_WORD)
        tg_device_wrote(op, word);
    if (second != TG_NO_WORD)
        tg_device_wrote(op, second);
    for (uint32_t i = 0; op->opcode == TG_OP_MEMCPY && i < op->args[2] && op->word[0] != TG_ALL_WORDS; i++)
        tg_device_wrote(op, op->args[1] + i);
    return true;
}

/* One operation: TG_OP_FINISHED, or what the item's fault says, with op->reason. */
TG_DEVICE int tg_device_inner(struct tg_device_op *op)
{
    struct tg_fault fault = {0, 0, 0};
    if (op->opcode < TG_OP_FIRST_USER) {
        if (tg_device_builtin(op, &fault))
            return TG_OP_FINISHED;
        op->reason = fault.reason;
        return (int)fault.detail;
    }
    int r = tg_device_run(op);
    if (op->reason || r == TG_OP_FINISHED)
        return r;
    op->reason = r == TG_DEVICE_UNKNOWN ? TG_FAULT_UNKNOWN_OPCODE
                 : r == TG_OP_REQUEUE   ? TG_FAULT_PACKED /* it cannot run again alone */
                                        : TG_FAULT_HANDLER;
    return r == TG_DEVICE_UNKNOWN ? (int)op->opcode : r;
}

/* What tg_device_run is to one opcode, for an item: *ret_inner is the operation that faulted. */
TG_DEVICE int tg_device_run_item(struct tg_device_op *op, uint32_t *ret_inner)
{
    uint32_t all[TG_ARGS_PER_SLOT];
    struct tg_packed_view packed;
    int r = TG_OP_FINISHED;
    *ret_inner = 0;
    if (op->opcode != TG_OP_PACKED_SLOT)
        return tg_device_run(op);
    for (uint32_t a = 0; a < TG_ARGS_PER_SLOT; a++)
        all[a] = op->args[a];
    if (!tg_packed_look(all, &packed)) {
        op->reason = TG_FAULT_PACKED;
        return 0;
    }
    for (uint32_t i = 0; i < packed.op_count && op->reason == 0; i++) {
        op->opcode = packed.op_id[i];
        for (uint32_t a = 0; a < TG_ARGS_PER_SLOT; a++)
            op->args[a] = a < packed.words[i] ? all[packed.first[i] + a] : 0;
        r = tg_device_inner(op);
        *ret_inner = i;
    }
    return r;
}

/* One lane: the operations of a packed slot that a worker has run, for the statistics; by its line. */
TG_DEVICE_CALL void tg_count_inner(const uint32_t *line)
{
    const struct tg_device_params *p = tg_params();
    struct tg_packed_view packed;
    uint32_t all[TG_ARGS_PER_SLOT];
    tg_args_of(line, all);
    if (!tg_packed_look(all, &packed))
        return;
    for (uint32_t i = 0; i < packed.op_count; i++) {
        uint32_t opcode = packed.op_id[i];
        uint32_t kind = opcode < TG_OP_FIRST_USER ? opcode : p->inner_kind[opcode];
        tg_bump_relaxed_u64(&p->counts->executions[kind], 1);
    }
}

#endif
