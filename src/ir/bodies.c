/* SPDX-License-Identifier: Apache-2.0
 *
 * The bodies of the built-in opcodes as parts of a program: the same effects, checks and reasons as
 * src/engine/ops.h and run.c. Their variables are the arguments a0 .. a11 and opcode, slot, from, inner.
 *
 * Rules kept: E5 (a fence that waits returns YIELD: "fence.wait"), E6 (every index is checked before the
 * first effect: "reach"), E9 (a full log keeps what it has and counts what it dropped). */
#include "ir/short.h"

/* Tries to reserve a record while others reserve theirs. */
#define LOG_TRIES 4096u

static N fault(struct tg_ir *ir, uint32_t reason)
{
    return give(ir, TG_IR_FAULT | reason);
}

/* Goes on only when control words [first, first + count) may be touched. */
static N reach(struct tg_ir *ir, E first, E count, uint32_t floor)
{
    E words = tg_ir_length(ir, "control");
    E outside = tg_ir_or(ir, tg_ir_ge(ir, first, words), tg_ir_gt(ir, count, tg_ir_sub(ir, words, first)));
    N low = when(ir, tg_ir_lt(ir, first, num(ir, floor)), fault(ir, TG_FAULT_CONTROL_DENIED));
    N bounds = when(ir, outside, fault(ir, TG_FAULT_OUT_OF_BOUNDS));
    return floor == 0 ? bounds : BLOCK(ir, "reach", bounds, low);
}

/* Goes on only when observable word a exists. */
static N reach_observable(struct tg_ir *ir, E index)
{
    return when(ir, tg_ir_ge(ir, index, tg_ir_length(ir, "observable")), fault(ir, TG_FAULT_OUT_OF_BOUNDS));
}

static N store_u32(struct tg_ir *ir, uint32_t floor)
{
    return BLOCK(ir, "STORE_U32", reach(ir, var(ir, "a1"), num(ir, 1), floor),
                 tg_ir_store(ir, "control", var(ir, "a1"), var(ir, "a0")));
}

static N atomic_add(struct tg_ir *ir, uint32_t floor)
{
    return BLOCK(ir, "ATOMIC_ADD", reach(ir, var(ir, "a1"), num(ir, 1), floor),
                 tg_ir_atomic_add(ir, NULL, "control", var(ir, "a1"), var(ir, "a0"), TG_IR_RELAXED));
}

static N load_u32(struct tg_ir *ir, uint32_t floor)
{
    return BLOCK(ir, "LOAD_U32", reach(ir, var(ir, "a0"), num(ir, 1), floor),
                 reach_observable(ir, var(ir, "a1")),
                 tg_ir_store(ir, "observable", var(ir, "a1"), tg_ir_load(ir, "control", var(ir, "a0"))));
}

static N compare_swap(struct tg_ir *ir, uint32_t floor)
{
    return BLOCK(
        ir, "COMPARE_SWAP", reach(ir, var(ir, "a0"), num(ir, 1), floor), reach_observable(ir, var(ir, "a0")),
        /* acq_rel: items may build locks of it. */
        tg_ir_atomic_cas(ir, "found", "control", var(ir, "a0"), var(ir, "a1"), var(ir, "a2"), TG_IR_ACQ_REL),
        tg_ir_store(ir, "observable", var(ir, "a0"), var(ir, "found")));
}

static N memcpy_words(struct tg_ir *ir, uint32_t floor)
{
    E from = tg_ir_add(ir, var(ir, "a0"), var(ir, "k"));
    E to = tg_ir_add(ir, var(ir, "a1"), var(ir, "k"));
    N copy = tg_ir_store(ir, "control", to, tg_ir_load(ir, "control", from));
    return BLOCK(ir, "MEMCPY", when(ir, is(ir, var(ir, "a2"), 0), give(ir, TG_IR_DONE)),
                 reach(ir, var(ir, "a0"), var(ir, "a2"), floor),
                 reach(ir, var(ir, "a1"), var(ir, "a2"), floor),
                 tg_ir_loop(ir, "k", num(ir, 0), var(ir, "a2"), TG_IR_MAX_TRIPS, copy));
}

static N dfa_step(struct tg_ir *ir)
{
    E states = tg_ir_div(ir, tg_ir_length(ir, "dfa"), num(ir, TG_DFA_COLUMNS));
    E index = tg_ir_add(ir, tg_ir_mul(ir, var(ir, "a0"), num(ir, TG_DFA_COLUMNS)), var(ir, "a1"));
    return BLOCK(ir, "DFA_STEP", tg_ir_let(ir, "states", states),
                 when(ir, is(ir, var(ir, "states"), 0), fault(ir, TG_FAULT_NO_DFA)),
                 when(ir, tg_ir_ge(ir, var(ir, "a0"), var(ir, "states")), fault(ir, TG_FAULT_DFA)),
                 when(ir, tg_ir_ge(ir, var(ir, "a1"), num(ir, TG_DFA_COLUMNS)), fault(ir, TG_FAULT_DFA)),
                 reach_observable(ir, var(ir, "a2")),
                 tg_ir_store(ir, "observable", var(ir, "a2"), tg_ir_load(ir, "dfa", index)));
}

/* The a0 slots before the fence's own; inside a packed slot it cannot wait. */
static N batch_fence(struct tg_ir *ir)
{
    E misplaced = tg_ir_or(ir, tg_ir_and(ir, var(ir, "inner"), var(ir, "a0")),
                           tg_ir_gt(ir, var(ir, "a0"), var(ir, "slot")));
    N look = tg_ir_fence_look(ir, var(ir, "slot"), var(ir, "a0"), give(ir, TG_IR_YIELD));
    return BLOCK(ir, "BATCH_FENCE", when(ir, misplaced, fault(ir, TG_FAULT_FENCE)),
                 BLOCK(ir, "fence.wait", look), tg_ir_store(ir, "observable", num(ir, 0), var(ir, "a1")),
                 /* acq_rel: the tag before the epoch. */
                 tg_ir_atomic_add(ir, NULL, "control", num(ir, TG_CONTROL_EPOCH), num(ir, 1), TG_IR_ACQ_REL));
}

/* The cursor is reserved first, so a record is whole when its item is DONE. The cursor is input: anybody may
 * have moved it. */
static N printf_record(struct tg_ir *ir)
{
    E cursor = var(ir, "cursor");
    E full = tg_ir_or(
        ir, tg_ir_gt(ir, cursor, var(ir, "room")),
        tg_ir_or(ir, tg_ir_lt(ir, tg_ir_sub(ir, var(ir, "room"), cursor), num(ir, TG_DEBUG_RECORD_WORDS)),
                 tg_ir_rem(ir, cursor, num(ir, TG_DEBUG_RECORD_WORDS))));
    N write[TG_DEBUG_RECORD_WORDS + 1];
    E word[TG_DEBUG_RECORD_WORDS] = {var(ir, "a0"), var(ir, "a1"), var(ir, "a2"),
                                     tg_ir_mul(ir, var(ir, "slot"), num(ir, TG_SLOT_WORDS))};
    for (uint32_t i = 0; i < TG_DEBUG_RECORD_WORDS; i++)
        write[i] = tg_ir_store(ir, "log", add(ir, cursor, TG_DEBUG_RECORDS_BASE + i), word[i]);
    write[TG_DEBUG_RECORD_WORDS] = give(ir, TG_IR_DONE);
    N reserve =
        BLOCK(ir, NULL, tg_ir_atomic_load(ir, "cursor", "log", num(ir, TG_DEBUG_CURSOR_WORD), TG_IR_ACQUIRE),
              when(ir, full, tg_ir_break(ir)),
              tg_ir_atomic_cas(ir, "found", "log", num(ir, TG_DEBUG_CURSOR_WORD), cursor,
                               add(ir, cursor, TG_DEBUG_RECORD_WORDS), TG_IR_ACQ_REL),
              when(ir, tg_ir_eq(ir, var(ir, "found"), cursor),
                   tg_ir_block(ir, NULL, write, TG_DEBUG_RECORD_WORDS + 1)));
    E room = tg_ir_sub(ir, tg_ir_max(ir, tg_ir_length(ir, "log"), num(ir, 1)), num(ir, 1));
    return BLOCK(ir, "PRINTF", tg_ir_let(ir, "room", room),
                 when(ir, tg_ir_length(ir, "log"),
                      tg_ir_loop(ir, "reserve_try", num(ir, 0), num(ir, LOG_TRIES), LOG_TRIES, reserve)),
                 tg_ir_count(ir, num(ir, TG_CONTROL_LOG_DROPPED)));
}

static N shut_down(struct tg_ir *ir, uint32_t floor)
{
    if (floor != 0)
        return BLOCK(ir, "SHUTDOWN", fault(ir, TG_FAULT_CONTROL_DENIED));
    return BLOCK(ir, "SHUTDOWN",
                 tg_ir_atomic_store(ir, "control", num(ir, TG_CONTROL_SHUTDOWN), num(ir, 1), TG_IR_RELEASE));
}

N tg_ir_opcode_body(struct tg_ir *ir, uint32_t opcode, uint32_t floor)
{
    switch (opcode) {
    case TG_OP_NOP:
        return tg_ir_block(ir, "NOP", NULL, 0);
    case TG_OP_STORE_U32:
        return store_u32(ir, floor);
    case TG_OP_ATOMIC_ADD:
        return atomic_add(ir, floor);
    case TG_OP_LOAD_U32:
        return load_u32(ir, floor);
    case TG_OP_COMPARE_SWAP:
        return compare_swap(ir, floor);
    case TG_OP_MEMCPY:
        return memcpy_words(ir, floor);
    case TG_OP_DFA_STEP:
        return dfa_step(ir);
    case TG_OP_BATCH_FENCE:
        return batch_fence(ir);
    case TG_OP_LOAD_MISS:
        /* Claimed from REQUEUE: the IO side has delivered. */
        return BLOCK(ir, "LOAD_MISS",
                     tg_ir_return(ir, tg_ir_select(ir, is(ir, var(ir, "from"), TG_SLOT_REQUEUE),
                                                   num(ir, TG_IR_DONE), num(ir, TG_IR_WAIT_IO))));
    case TG_OP_PRINTF:
        return printf_record(ir);
    case TG_OP_SHUTDOWN:
        return shut_down(ir, floor);
    default:
        return (N){0};
    }
}
