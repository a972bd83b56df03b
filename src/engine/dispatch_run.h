/* SPDX-License-Identifier: Apache-2.0
 *
 * The bodies of built-in opcodes: most run in the lanes side by side, the rare ones (fence, packed, debug
 * log, SHUTDOWN, LOAD_MISS) one after another. Part of the dispatcher (dispatch.h), for its ender, or its
 * decider while it holds the ender; run.c is the same for CPU workers.
 *
 * Only that warp changes observable words, so a lane writes the device's word, and after all lanes have run
 * each copies the words it touched to the host's buffer: lanes that touched the same word copy the same
 * value. Words that steer the engine change only where the decider runs the body (control_floor 0) or obeys a
 * command.
 */
#ifndef TG_ENGINE_DISPATCH_RUN_H
#define TG_ENGINE_DISPATCH_RUN_H

#include "engine/dispatch_end.h"
#include "ring/legal.h"
#include "ring/packed.h"

#define TG_WIDE_COPY 16u /* words; a longer MEMCPY is done by the whole warp */

enum tg_ran { TG_DEVICE_DONE, TG_DEVICE_FAULT, TG_DEVICE_YIELD, TG_DEVICE_WAIT_IO };

TG_DEVICE void tg_args_of(const uint32_t *word, uint32_t *args)
{
    for (uint32_t quarter = 0; quarter < TG_LINE_QUARTERS; quarter++)
        for (uint32_t i = 0; i < 3; i++)
            args[3 * quarter + i] = word[4 * quarter + 1 + i];
}

TG_DEVICE void tg_args_load(const struct tg_device_params *p, uint32_t slot, uint32_t *args)
{
    tg_args_of(p->items[slot].word, args);
}

TG_DEVICE struct tg_view tg_view_of(void)
{
    struct tg_view v = {tg_params()->control, tg_params()->control_words, tg_params()->control_floor,
                        &tg_state()->dfa};
    return v;
}

/* The word (or two) that an opcode 1..6 writes, its range for MEMCPY. */
TG_DEVICE void tg_touched(uint32_t opcode, const uint32_t *a, uint32_t *word, uint32_t *second)
{
    *word = *second = TG_NO_WORD;
    if (opcode == TG_OP_STORE_U32 || opcode == TG_OP_ATOMIC_ADD)
        *word = a[1];
    else if (opcode == TG_OP_LOAD_U32)
        *word = TG_CONTROL_OBSERVABLE_BASE + a[1];
    else if (opcode == TG_OP_COMPARE_SWAP) {
        *word = a[0];
        *second = TG_CONTROL_OBSERVABLE_BASE + a[0];
    } else if (opcode == TG_OP_DFA_STEP)
        *word = TG_CONTROL_OBSERVABLE_BASE + a[2];
}

TG_DEVICE void tg_copy_out(const struct tg_device_params *p, uint32_t word)
{
    /* M1 again. */
    if (word != TG_NO_WORD)
        tg_sys_store_relaxed_u32(&p->mirror[word], tg_load_relaxed_u32(&p->control[word]));
}

/* One lane: words that steer the engine may have changed. */
TG_DEVICE void tg_steering_changed(void)
{
    tg_authority_read(tg_params(), tg_state());
    if (tg_load_relaxed_u32(&tg_params()->control[TG_CONTROL_SHUTDOWN]) != 0)
        tg_state()->draining = 1;
}

/* One lane: a built-in opcode with its copies. */
TG_DEVICE bool tg_builtin_alone(uint32_t opcode, const uint32_t *args, struct tg_fault *fault)
{
    struct tg_view view = tg_view_of();
    if (!tg_op_builtin(&view, opcode, args, fault))
        return false;
    uint32_t word;
    uint32_t second;
    tg_touched(opcode, args, &word, &second);
    tg_copy_out(tg_params(), word);
    tg_copy_out(tg_params(), second);
    if (opcode == TG_OP_MEMCPY)
        for (uint32_t i = 0; i < args[2]; i++)
            tg_copy_out(tg_params(), args[1] + i);
    if (tg_params()->control_floor == 0)
        tg_steering_changed();
    return true;
}

/* One lane: the effect of a fence. */
TG_DEVICE void tg_fence_effect(const struct tg_device_params *p, uint32_t tag)
{
    tg_word_store(p, TG_CONTROL_OBSERVABLE_BASE, tag);
    uint32_t epoch = tg_load_relaxed_u32(&p->control[TG_CONTROL_EPOCH]) + 1;
    tg_store_relaxed_u32(&p->control[TG_CONTROL_EPOCH], epoch);
    /* O3 release: the tag before the epoch. */
    tg_sys_store_release_u32(&p->mirror[TG_CONTROL_EPOCH], epoch);
}

TG_DEVICE enum tg_ran tg_run_fence(const struct tg_taken *t, const uint32_t *args)
{
    int32_t left = tg_params()->fence_left[t->slot];
    if (tg_status_of(t->kept) == TG_SLOT_PUBLISHED) {
        left += (int32_t)args[0];
        tg_params()->fence_left[t->slot] = left;
    }
    if (left != 0)
        return TG_DEVICE_YIELD;
    tg_fence_effect(tg_params(), args[1]);
    return TG_DEVICE_DONE;
}

TG_DEVICE enum tg_ran tg_run_packed(const uint32_t *all, struct tg_fault *fault)
{
    struct tg_packed_view packed;
    if (!tg_packed_look(all, &packed)) {
        tg_op_fault(fault, TG_FAULT_PACKED, 0);
        return TG_DEVICE_FAULT;
    }
    for (uint32_t i = 0; i < packed.op_count; i++) {
        uint32_t args[TG_ARGS_PER_SLOT];
        uint32_t opcode = packed.op_id[i];
        for (uint32_t a = 0; a < TG_ARGS_PER_SLOT; a++)
            args[a] = a < packed.words[i] ? all[packed.first[i] + a] : 0;
        fault->inner_op = i;
        if (opcode == TG_OP_BATCH_FENCE && args[0] == 0) {
            tg_fence_effect(tg_params(), args[1]);
        } else if (opcode == TG_OP_BATCH_FENCE) {
            tg_op_fault(fault, TG_FAULT_FENCE, args[0]);
            return TG_DEVICE_FAULT;
        } else if (!tg_builtin_alone(opcode, args, fault)) {
            return TG_DEVICE_FAULT;
        }
        tg_bump_relaxed_u64(&tg_params()->counts->executions[opcode], 1);
    }
    fault->inner_op = 0;
    return TG_DEVICE_DONE;
}

/* E9: a full log keeps what it has. */
TG_DEVICE void tg_run_printf(const struct tg_taken *t, const uint32_t *args)
{
    const struct tg_device_params *p = tg_params();
    uint32_t cursor = tg_state()->cursor;
    uint32_t room = p->log_words - TG_DEBUG_RECORDS_BASE;
    const uint32_t dropped = TG_CONTROL_EXTENSION_BASE + 3;
    if (room < TG_DEBUG_RECORD_WORDS || cursor > room - TG_DEBUG_RECORD_WORDS) {
        tg_state()->log_dropped++;
        tg_word_store(p, dropped, tg_load_relaxed_u32(&p->control[dropped]) + 1);
        return;
    }
    uint32_t *record = &p->log[TG_DEBUG_RECORDS_BASE + cursor];
    for (uint32_t i = 0; i < 3; i++)
        tg_sys_store_relaxed_u32(&record[i], args[i]);
    tg_sys_store_relaxed_u32(&record[3], t->slot * TG_SLOT_WORDS);
    tg_state()->cursor = cursor + TG_DEBUG_RECORD_WORDS;
    /* O4 release: the record before the cursor. */
    tg_sys_store_release_u32(&p->log[TG_DEBUG_CURSOR_WORD], tg_state()->cursor);
}

/* One lane: the opcodes that are not run side by side. */
TG_DEVICE_CALL enum tg_ran tg_run_rare(const struct tg_taken *t, uint32_t kind, const uint32_t *args,
                                       struct tg_fault *fault)
{
    switch (kind) {
    case TG_OP_BATCH_FENCE:
        return tg_run_fence(t, args);
    case TG_KIND_PACKED:
        return tg_run_packed(args, fault);
    case TG_KIND_PRINTF:
        tg_run_printf(t, args);
        return TG_DEVICE_DONE;
    case TG_KIND_SHUTDOWN:
        if (tg_params()->control_floor != 0)
            break;
        tg_word_store(tg_params(), TG_CONTROL_SHUTDOWN, 1);
        tg_state()->draining = 1;
        return TG_DEVICE_DONE;
    case TG_KIND_LOAD_MISS:
        return tg_status_of(t->kept) == TG_SLOT_REQUEUE ? TG_DEVICE_DONE : TG_DEVICE_WAIT_IO;
    default:
        /* The host put the opcode where an unknown one cannot need it. */
        tg_op_fault(fault, TG_FAULT_UNKNOWN_OPCODE, args[0]);
        return TG_DEVICE_FAULT;
    }
    tg_op_fault(fault, TG_FAULT_CONTROL_DENIED, TG_CONTROL_SHUTDOWN);
    return TG_DEVICE_FAULT;
}

/* A long MEMCPY of one lane, done by all. Ascending copies that overlap repeat their beginning. */
TG_DEVICE_CALL bool tg_copy_wide(struct tg_warp w, uint32_t from, uint32_t to, uint32_t count,
                                 struct tg_fault *fault)
{
    const struct tg_device_params *p = tg_params();
    struct tg_view view = tg_view_of();
    if (!tg_view_reach(&view, from, count, fault) || !tg_view_reach(&view, to, count, fault))
        return false;
    uint32_t period = to > from && to - from < count ? to - from : count;
    /* Chunks of whole periods' prefixes: within the first period the source is untouched. Backward overlap
     * (to < from) is safe when a step is read before it is written. */
    for (uint32_t i = 0; i < count; i += TG_LANES) {
        uint32_t at = i + w.lane;
        uint32_t value = 0;
        if (at < count)
            value = tg_load_relaxed_u32(&p->control[from + at % period]);
        tg_warp_sync();
        if (at < count) {
            tg_store_relaxed_u32(&p->control[to + at], value);
            tg_sys_store_relaxed_u32(&p->mirror[to + at], value); /* M1 */
        }
        tg_warp_sync();
    }
    if (p->control_floor == 0 && w.lane == 0)
        tg_steering_changed();
    tg_warp_sync();
    return true;
}

/* Hands lanes' slots to the host: their STATUS, then a cell each (N4). */
TG_DEVICE_CALL void tg_hand_over(struct tg_warp w, bool hands, const struct tg_taken *t, uint32_t status,
                                 const struct tg_cells *q, uint64_t *tail)
{
    uint32_t lanes = tg_warp_ballot(hands);
    if (lanes == 0)
        return;
    uint64_t at = *tail + tg_rank(w, lanes);
    if (hands) {
        tg_params()->kept[t->slot] = tg_with_status(t->kept, status);
        tg_sys_store_relaxed_u32(&tg_params()->ring[t->slot].status, status); /* S4 */
        /* N4 release: after the status; pairs with I4 in index.h. */
        tg_sys_store_release_u32(&q->cells[at & q->mask], t->slot | tg_cell_lap(at, q->shift));
    }
    tg_warp_sync();
    if (w.lane == 0)
        *tail += tg_bits(lanes);
    tg_warp_sync();
}

/* One lane for many of the same kind: the claims of items, at their level and tenant. */
TG_DEVICE void tg_count_claims(struct tg_warp w, bool live, uint32_t lives, bool alike,
                               const struct tg_taken *t)
{
    const struct tg_device_params *p = tg_params();
    if (alike && live && tg_rank(w, lives) == 0) {
        tg_bump_relaxed_u64(&p->counts->level_claims[t->level], tg_bits(lives));
        tg_bump_relaxed_u64(&p->counts->tenant_claims[t->tenant], tg_bits(lives));
    } else if (live && !alike) { /* C4 */
        tg_bump_relaxed_u64(&p->counts->level_claims[t->level], 1);
        tg_bump_relaxed_u64(&p->counts->tenant_claims[t->tenant], 1);
    }
}

/* Opcodes other than NOP of these lanes. Returns how the lane's ran. */
TG_DEVICE enum tg_ran tg_run_effects(struct tg_warp w, bool effects, const struct tg_taken *t, uint32_t kind,
                                     struct tg_fault *fault)
{
    const struct tg_device_params *p = tg_params();
    uint32_t args[TG_ARGS_PER_SLOT];
    enum tg_ran ran = TG_DEVICE_DONE;
    for (uint32_t i = 0; i < TG_ARGS_PER_SLOT; i++)
        args[i] = 0;
    if (effects)
        tg_args_load(p, t->slot, args);
    bool wide = effects && kind == TG_OP_MEMCPY && args[2] > TG_WIDE_COPY;
    bool plain = effects && kind < TG_OP_BATCH_FENCE && !wide;
    if (tg_warp_ballot(plain)) {
        uint32_t word = TG_NO_WORD;
        uint32_t second = TG_NO_WORD;
        if (plain) {
            struct tg_view view = tg_view_of();
            if (!tg_op_builtin(&view, kind, args, fault))
                ran = TG_DEVICE_FAULT;
            else
                tg_touched(kind, args, &word, &second);
        }
        tg_warp_sync();
        tg_copy_out(p, word);
        tg_copy_out(p, second);
        if (plain && ran == TG_DEVICE_DONE && kind == TG_OP_MEMCPY)
            for (uint32_t i = 0; i < args[2]; i++)
                tg_copy_out(p, args[1] + i);
        if (p->control_floor == 0 && w.lane == 0)
            tg_steering_changed();
        tg_warp_sync();
    }
    for (uint32_t m = tg_warp_ballot(wide); m; m &= m - 1) {
        uint32_t lane = tg_levels_first(m);
        struct tg_fault of = {0, 0, 0};
        bool ok = tg_copy_wide(w, tg_warp_shfl(args[0], lane), tg_warp_shfl(args[1], lane),
                               tg_warp_shfl(args[2], lane), &of);
        if (w.lane == lane && !ok) {
            *fault = of;
            ran = TG_DEVICE_FAULT;
        }
    }
    for (uint32_t m = tg_warp_ballot(effects && kind >= TG_OP_BATCH_FENCE); m; m &= m - 1) {
        if (w.lane == tg_levels_first(m))
            ran = tg_run_rare(t, kind, args, fault);
        tg_warp_sync();
    }
    return ran;
}

/* Runs and ends what was claimed and is for a lane here; not inlined, because what takes this way is not
 * many NOPs in a row. told: DONE already, with its STATUS. ordered: STATUS comes after what others stored. */
TG_DEVICE_CALL void tg_run_mixed(struct tg_warp w, struct tg_taken t, bool told, bool ordered)
{
    const struct tg_device_params *p = tg_params();
    struct tg_fault fault = {0, 0, 0};
    uint32_t kind = tg_kind_of(t.kept);
    uint32_t lives = tg_warp_ballot(t.have);
    bool alike = lives && tg_alike(t.have, lives, (t.level * TG_TENANTS + t.tenant) * 512u + kind);
    tg_count_claims(w, t.have, lives, alike, &t);
    bool effects = t.have && !told && kind != TG_OP_NOP;
    enum tg_ran ran = TG_DEVICE_DONE;
    if (tg_warp_ballot(effects))
        ran = tg_run_effects(w, effects, &t, kind, &fault);
    bool finished = t.have && ran == TG_DEVICE_DONE;
    uint32_t ready = tg_warp_ballot(finished);
    if (finished && (!alike || tg_rank(w, ready) == 0))
        tg_bump_relaxed_u64(&p->counts->executions[kind], alike ? tg_bits(ready) : 1);
    if (t.have && ran == TG_DEVICE_YIELD) { /* S4 */
        p->kept[t.slot] = tg_with_status(t.kept, TG_SLOT_YIELD) | TG_KEPT_COUNTED;
        tg_sys_store_relaxed_u32(&p->ring[t.slot].status, TG_SLOT_YIELD);
        tg_bump_relaxed_u64(&p->counts->yields, 1);
    }
    tg_end(w, finished || (t.have && ran == TG_DEVICE_FAULT), &t, ran == TG_DEVICE_FAULT, &fault, kind, told,
           effects || ordered);
    tg_hand_over(w, t.have && ran == TG_DEVICE_WAIT_IO, &t, TG_SLOT_WAIT_IO, &p->io, &tg_state()->io_tail);
}

#endif
