/* SPDX-License-Identifier: Apache-2.0
 *
 * The persistent loop of a worker: scan, run what was claimed, make its end visible, for ever. The same
 * results in ring, control and log as the engine's own worker with TG_ENGINE_SCAN on a foreign ring.
 *
 * Rules kept: E1, E6 (what is not DONE on purpose is FAULT), E7 (counters and results, then STATUS:
 * "finish"), E8 (a lane leaves only when SHUTDOWN was set before a look that found nothing claimable). */
#include <stdlib.h>

#include "ir/short.h"

static E slot_word(struct tg_ir *ir, E word)
{
    return tg_ir_load(ir, "ring", tg_ir_add(ir, var(ir, "claimed_slot_base"), word));
}

static E arg(struct tg_ir *ir, uint32_t i)
{
    return tg_ir_load(ir, TG_IR_ARGS_BUFFER, num(ir, i));
}

/* ---- Packed slots ---- */

/* Byte i of the arguments of the claimed slot. */
static E payload_byte(struct tg_ir *ir, E i)
{
    E word = slot_word(ir, add(ir, tg_ir_shr(ir, i, num(ir, 2)), TG_SLOT_ARG0_WORD));
    E shift = tg_ir_shl(ir, tg_ir_bit_and(ir, i, num(ir, 3)), num(ir, 3));
    return tg_ir_bit_and(ir, tg_ir_shr(ir, word, shift), num(ir, 0xFF));
}

/* Words of metadata before the arguments: ceil((2 + 2 ops) / 4). */
static E meta_words(struct tg_ir *ir)
{
    return tg_ir_shr(ir, add(ir, tg_ir_mul(ir, var(ir, "ops"), num(ir, 2)), 5), num(ir, 2));
}

/* Where op i's arguments begin; the end of all of them for the one past the last. */
static E packed_first(struct tg_ir *ir, E i)
{
    return tg_ir_select(ir, tg_ir_lt(ir, i, var(ir, "ops")),
                        payload_byte(ir, add(ir, tg_ir_mul(ir, i, num(ir, 2)), 3)), var(ir, "arg_words"));
}

/* The shape, as tg_packed_decode wants it: sizes fit, offsets rise from 0 and stay inside. */
static N check_packed(struct tg_ir *ir)
{
    E most = tg_ir_sub(ir, num(ir, TG_ARGS_PER_SLOT), var(ir, "meta"));
    N bad = BLOCK(ir, NULL, tg_ir_assign(ir, "outcome", num(ir, TG_IR_FAULT | TG_FAULT_PACKED)),
                  tg_ir_assign(ir, "ops", num(ir, 0)));
    E too_big = tg_ir_or(ir, tg_ir_gt(ir, var(ir, "meta"), num(ir, TG_ARGS_PER_SLOT)),
                         tg_ir_gt(ir, var(ir, "arg_words"), most));
    N look = BLOCK(ir, NULL, tg_ir_let(ir, "next_first", packed_first(ir, add(ir, var(ir, "shape"), 1))),
                   tg_ir_let(ir, "this_first", packed_first(ir, var(ir, "shape"))),
                   when(ir,
                        tg_ir_or(ir, tg_ir_gt(ir, var(ir, "this_first"), var(ir, "next_first")),
                                 tg_ir_gt(ir, var(ir, "next_first"), var(ir, "arg_words"))),
                        BLOCK(ir, NULL, bad, tg_ir_break(ir))));
    return BLOCK(ir, "packed.check", tg_ir_assign(ir, "ops", payload_byte(ir, num(ir, 0))),
                 tg_ir_assign(ir, "arg_words", payload_byte(ir, num(ir, 1))),
                 tg_ir_assign(ir, "meta", meta_words(ir)),
                 tg_ir_if(ir, too_big, bad, tg_ir_loop(ir, "shape", num(ir, 0), var(ir, "ops"), 255, look)));
}

/* The inner op's number and its own arguments; those it was not given are 0. */
static N load_inner(struct tg_ir *ir)
{
    E at = add(ir, tg_ir_add(ir, tg_ir_add(ir, var(ir, "meta"), var(ir, "first")), var(ir, "k")),
               TG_SLOT_ARG0_WORD);
    E own = tg_ir_and(ir, tg_ir_lt(ir, tg_ir_add(ir, var(ir, "first"), var(ir, "k")), var(ir, "end")),
                      /* Also when somebody writes into a claimed slot: never past it. */
                      tg_ir_lt(ir, at, num(ir, TG_SLOT_WORDS)));
    N copy = tg_ir_store(ir, TG_IR_ARGS_BUFFER, var(ir, "k"),
                         tg_ir_select(ir, own, slot_word(ir, at), num(ir, 0)));
    return BLOCK(
        ir, "packed.op",
        tg_ir_assign(ir, "op", payload_byte(ir, add(ir, tg_ir_mul(ir, var(ir, "n"), num(ir, 2)), 2))),
        tg_ir_let(ir, "first", packed_first(ir, var(ir, "n"))),
        tg_ir_let(ir, "end", packed_first(ir, add(ir, var(ir, "n"), 1))),
        tg_ir_loop(ir, "k", num(ir, 0), num(ir, TG_ARGS_PER_SLOT), TG_ARGS_PER_SLOT, copy));
}

static N load_args(struct tg_ir *ir)
{
    N copy[TG_ARGS_PER_SLOT];
    for (uint32_t i = 0; i < TG_ARGS_PER_SLOT; i++)
        copy[i] =
            tg_ir_store(ir, TG_IR_ARGS_BUFFER, num(ir, i), slot_word(ir, num(ir, TG_SLOT_ARG0_WORD + i)));
    return tg_ir_block(ir, "args", copy, TG_ARGS_PER_SLOT);
}

/* ---- Dispatch ---- */

struct leaf {
    uint32_t opcode;
    N body;
    bool user;
};

static N call_body(struct tg_ir *ir, const struct leaf *leaf)
{
    struct tg_ir_param p[TG_IR_BODY_PARAMS];
    uint32_t count = leaf->user ? TG_IR_USER_PARAMS : TG_IR_BODY_PARAMS;
    const E rest[] = {var(ir, "op"),   var(ir, "claimed_tenant"), var(ir, "claimed_priority"),
                      var(ir, "slot"), var(ir, "claimed_from"),   var(ir, "packed")};
    for (uint32_t i = 0; i < count; i++)
        p[i] = (struct tg_ir_param){tg_ir_body_params[i],
                                    i < TG_ARGS_PER_SLOT ? arg(ir, i) : rest[i - TG_ARGS_PER_SLOT]};
    N call = tg_ir_call(ir, "returned", leaf->user ? "user" : "builtin", p, count, leaf->body);
    if (!leaf->user || call.id == 0)
        return BLOCK(ir, NULL, call, tg_ir_assign(ir, "outcome", var(ir, "returned")));
    tg_ir_at(ir, call.id)->flags |= TG_IR_F_USER;
    E good = tg_ir_or(ir, tg_ir_le(ir, var(ir, "returned"), num(ir, TG_IR_WAIT_IO)),
                      is(ir, var(ir, "returned"), TG_IR_FAULT | TG_FAULT_OUT_OF_BOUNDS));
    return BLOCK(
        ir, NULL, call,
        tg_ir_assign(ir, "outcome",
                     tg_ir_select(ir, good, var(ir, "returned"), num(ir, TG_IR_FAULT | TG_FAULT_HANDLER))));
}

/* A decision tree over the opcodes, which are in order. */
static N tree(struct tg_ir *ir, const struct leaf *leaf, uint32_t count)
{
    if (count == 1)
        return when(ir, is(ir, var(ir, "op"), leaf[0].opcode), call_body(ir, &leaf[0]));
    uint32_t half = count / 2;
    N low = tree(ir, leaf, half);
    N high = tree(ir, leaf + half, count - half);
    return tg_ir_if(ir, tg_ir_lt(ir, var(ir, "op"), num(ir, leaf[half].opcode)), low, high);
}

static int by_opcode(const void *a, const void *b)
{
    uint32_t x = ((const struct leaf *)a)->opcode, y = ((const struct leaf *)b)->opcode;
    return x < y ? -1 : x > y;
}

static const uint32_t builtins[] = {TG_OP_NOP,          TG_OP_STORE_U32, TG_OP_ATOMIC_ADD, TG_OP_LOAD_U32,
                                    TG_OP_COMPARE_SWAP, TG_OP_MEMCPY,    TG_OP_DFA_STEP,   TG_OP_BATCH_FENCE,
                                    TG_OP_LOAD_MISS,    TG_OP_PRINTF,    TG_OP_SHUTDOWN};
#define BUILTINS (sizeof(builtins) / sizeof(builtins[0]))

static N dispatch(struct tg_ir *ir, const struct tg_ir_kernel *k)
{
    struct leaf leaf[BUILTINS + TG_IR_MAX_OPCODES];
    uint32_t count = 0;
    uint32_t floor = k->flags & TG_IR_UNRESTRICTED ? 0 : TG_CONTROL_OBSERVABLE_BASE;
    for (; count < BUILTINS; count++)
        leaf[count] = (struct leaf){builtins[count], tg_ir_opcode_body(ir, builtins[count], floor), false};
    for (uint32_t i = 0; i < k->opcode_count; i++) {
        if (!tg_ir_is_user_opcode(k->opcodes[i].opcode))
            return tg_ir_refused(ir,
                                 "opcode %u is reserved: a user's is 8 or more, below 2^31, and not in "
                                 "65520..65535",
                                 k->opcodes[i].opcode);
        leaf[count++] = (struct leaf){k->opcodes[i].opcode, k->opcodes[i].body, true};
    }
    qsort(leaf, count, sizeof(leaf[0]), by_opcode);
    for (uint32_t i = 1; i < count; i++)
        if (leaf[i].opcode == leaf[i - 1].opcode)
            return tg_ir_refused(ir, "opcode %u has two bodies", leaf[i].opcode);
    return BLOCK(ir, "dispatch", tg_ir_assign(ir, "outcome", num(ir, TG_IR_FAULT | TG_FAULT_UNKNOWN_OPCODE)),
                 tree(ir, leaf, count));
}

/* One slot is one op, a packed one several: a loop over ops either way. */
static N run(struct tg_ir *ir, const struct tg_ir_kernel *k)
{
    E waits = tg_ir_and(ir, tg_ir_ne(ir, var(ir, "outcome"), num(ir, TG_IR_DONE)),
                        tg_ir_lt(ir, var(ir, "outcome"), num(ir, TG_IR_FAULT)));
    N count = when(ir, tg_ir_lt(ir, var(ir, "op"), num(ir, TG_CONTROL_METRICS_SLOTS)),
                   tg_ir_count(ir, add(ir, var(ir, "op"), TG_CONTROL_METRICS_BASE)));
    N one = BLOCK(ir, NULL, tg_ir_if(ir, var(ir, "packed"), load_inner(ir), load_args(ir)), dispatch(ir, k),
                  /* An inner op cannot run again alone. */
                  when(ir, tg_ir_and(ir, var(ir, "packed"), waits),
                       tg_ir_assign(ir, "outcome", num(ir, TG_IR_FAULT | TG_FAULT_PACKED))),
                  when(ir, tg_ir_ne(ir, var(ir, "outcome"), num(ir, TG_IR_DONE)), tg_ir_break(ir)),
                  BLOCK(ir, "count.metrics", count));
    return BLOCK(
        ir, "run", tg_ir_let(ir, "slot", tg_ir_div(ir, var(ir, "claimed_slot_base"), num(ir, TG_SLOT_WORDS))),
        tg_ir_let(ir, "op", slot_word(ir, num(ir, TG_SLOT_OPCODE_WORD))),
        tg_ir_let(ir, "packed", is(ir, var(ir, "op"), TG_OP_PACKED_SLOT)), tg_ir_let(ir, "ops", num(ir, 1)),
        tg_ir_let(ir, "arg_words", num(ir, 0)), tg_ir_let(ir, "meta", num(ir, 0)),
        tg_ir_let(ir, "outcome", num(ir, TG_IR_DONE)), when(ir, var(ir, "packed"), check_packed(ir)),
        tg_ir_loop(ir, "n", num(ir, 0), var(ir, "ops"), 255, one));
}

/* ---- What the host sees ---- */

static N count_claim(struct tg_ir *ir)
{
    E urgent = tg_ir_le(ir, var(ir, "claimed_priority"), num(ir, TG_PRIORITY_HIGH));
    E word = num(ir, TG_CONTROL_PRIORITY_STARVATION_COUNTER);
    return BLOCK(ir, "count.claim",
                 tg_ir_count(ir, add(ir, var(ir, "claimed_tenant"), TG_CONTROL_TENANT_FAIRNESS_BASE)),
                 tg_ir_count(ir, add(ir, var(ir, "claimed_priority"), TG_CONTROL_PRIORITY_FAIRNESS_BASE)),
                 tg_ir_if(ir, urgent, tg_ir_count(ir, word), tg_ir_store(ir, "control", word, num(ir, 0))));
}

static N finish(struct tg_ir *ir)
{
    E outcome = var(ir, "outcome");
    N fault =
        BLOCK(ir, NULL, tg_ir_assign(ir, "status", num(ir, TG_SLOT_FAULT)),
              tg_ir_fault_words(ir, var(ir, "slot"), tg_ir_bit_and(ir, outcome, num(ir, ~TG_IR_FAULT))));
    N done = BLOCK(ir, NULL, tg_ir_assign(ir, "status", num(ir, TG_SLOT_DONE)),
                   BLOCK(ir, "count.done", tg_ir_count(ir, num(ir, TG_CONTROL_DONE_COUNT))));
    N pending = tg_ir_assign(ir, "status",
                             tg_ir_select(ir, is(ir, outcome, TG_IR_REQUEUE), num(ir, TG_SLOT_REQUEUE),
                                          tg_ir_select(ir, is(ir, outcome, TG_IR_WAIT_IO),
                                                       num(ir, TG_SLOT_WAIT_IO), num(ir, TG_SLOT_YIELD))));
    return BLOCK(
        ir, "finish", tg_ir_let(ir, "status", num(ir, TG_SLOT_YIELD)),
        tg_ir_if(ir, is(ir, outcome, TG_IR_DONE), done,
                 tg_ir_if(ir, tg_ir_ge(ir, outcome, num(ir, TG_IR_FAULT)), fault, pending)),
        /* acq_rel, release is what counts: results before STATUS (E7). The host may have faulted it. */
        BLOCK(ir, "finish.status",
              tg_ir_atomic_cas(ir, NULL, "ring", var(ir, "claimed_slot_base"), num(ir, TG_SLOT_CLAIMED),
                               var(ir, "status"), TG_IR_ACQ_REL)));
}

N tg_ir_kernel(struct tg_ir *ir, const struct tg_ir_kernel *k)
{
    if (k->opcode_count > TG_IR_MAX_OPCODES)
        return tg_ir_refused(ir, "%u opcodes: at most 256", k->opcode_count);
    if (k->opcode_count > 0 && !k->opcodes)
        return tg_ir_refused(ir, "%u opcodes, and none is given", k->opcode_count);
    if (k->flags & ~(uint32_t)(TG_IR_UNRESTRICTED | TG_IR_UNTIL_IDLE | TG_IR_INDEXED))
        return tg_ir_refused(ir, "unknown flags 0x%x", k->flags);
    if (!tg_ir_worker_buffers(ir))
        return tg_ir_no_buffers(ir);
    /* E8: the word before the look, so that what was published before it was set is found. */
    N word = tg_ir_atomic_load(ir, "stop", "control", num(ir, TG_CONTROL_SHUTDOWN), TG_IR_ACQUIRE);
    E leave = is(ir, var(ir, "claimed_work"), 0);
    if (!(k->flags & TG_IR_UNTIL_IDLE))
        leave = tg_ir_and(ir, var(ir, "stop"), leave);
    N idle = BLOCK(ir, "idle", when(ir, leave, give(ir, 0)), tg_ir_pause(ir));
    bool indexed = (k->flags & TG_IR_INDEXED) != 0;
    if (indexed && k->stride > 1)
        return tg_ir_refused(ir, "a stride of %u: lanes with an index do not look at slots in turn",
                             k->stride);
    /* Declares buffers: before what names them. */
    N scan = indexed ? tg_priority_scan_body_indexed(ir, k->slots)
                     : tg_priority_scan_body_with_stride(ir, k->slots, k->stride);
    N item[4] = {count_claim(ir), run(ir, k), finish(ir)};
    if (indexed)
        item[3] = tg_ir_index_after(ir, k->slots);
    N work = tg_ir_block(ir, "work", item, indexed && item[3].id ? 4 : 3);
    N round =
        BLOCK(ir, "round", word, scan,
              tg_ir_if(ir, tg_ir_ne(ir, var(ir, "claimed_slot_base"), num(ir, TG_IR_NOTHING)), work, idle));
    N loop = k->rounds == 0 ? tg_ir_forever(ir, round)
                            : tg_ir_loop(ir, "rounds", num(ir, 0), num(ir, k->rounds), k->rounds, round);
    return BLOCK(ir, "kernel", loop, give(ir, 0));
}
