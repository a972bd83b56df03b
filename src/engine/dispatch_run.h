/* SPDX-License-Identifier: Apache-2.0
 *
 * The bodies of a round: built-in opcodes run in the lanes side by side, the rare ones (fence, packed, debug
 * log, SHUTDOWN, LOAD_MISS) one after another, handlers and device opcodes are handed on. Part of the
 * dispatcher (dispatch.h); run.c is the same for CPU workers.
 *
 * Only this warp changes control words, so a lane writes the device's word, and after all lanes have run each
 * copies the words it touched to the host's buffer: lanes that touched the same word copy the same value.
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
TG_DEVICE_CALL bool tg_copy_wide(struct tg_warp *w, uint32_t from, uint32_t to, uint32_t count,
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
        uint32_t at = i + w->lane;
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
    if (p->control_floor == 0 && w->lane == 0)
        tg_steering_changed();
    tg_warp_sync();
    return true;
}

/* One lane: the books of a claim that went the short way. */
TG_DEVICE void tg_express_books(uint32_t slot, uint32_t level, uint32_t tenant, uint32_t work, uint32_t kept)
{
    const struct tg_device_params *p = tg_params();
    struct tg_shared *s = tg_state();
    p->kept[slot] = kept;
    tg_bump_relaxed_u64(&p->generation[slot], 1);            /* T1 */
    tg_bump_relaxed_u64(&p->counts->level_claims[level], 1); /* C4 */
    tg_bump_relaxed_u64(&p->counts->tenant_claims[tenant], 1);
    struct tg_tenant_turn turn = s->turn[level];
    tg_tenants_choose(&turn, 1u << tenant, TG_TENANT_FAIRNESS_THRESHOLD);
    s->turn[level] = turn;
    s->levels = tg_levels_claimed(s->levels, work, level);
    s->urgent = level <= TG_PRIORITY_HIGH ? s->urgent + 1 : 0;
}

/* A built-in opcode of three arguments. */
TG_DEVICE bool tg_express_builtin(struct tg_warp *w, uint32_t slot, uint32_t level, uint32_t tenant,
                                  uint32_t work, uint32_t kind, const uint32_t *args)
{
    const struct tg_device_params *p = tg_params();
    struct tg_shared *s = tg_state();
    uint32_t done = 0;
    if (w->lane == 0) {
        struct tg_fault fault = {0, 0, 0};
        done = kind == TG_OP_NOP || tg_builtin_alone(kind, args, &fault);
        if (done && kind == TG_OP_NOP) /* S3 */
            tg_sys_store_relaxed_u32(&p->ring[slot].status, TG_SLOT_DONE);
        else if (done)
            tg_sys_store_release_u32(&p->ring[slot].status, TG_SLOT_DONE);
    }
    if (!tg_warp_shfl(done, 0))
        return false;
    if (w->lane == 0) {
        tg_express_books(slot, level, tenant, work,
                         TG_SLOT_DONE | level << TG_KEPT_LEVEL_SHIFT | tenant << TG_KEPT_TENANT_SHIFT |
                             kind << TG_KEPT_KIND_SHIFT);
        tg_bump_relaxed_u64(&p->counts->level_done[level], 1);
        tg_bump_relaxed_u64(&p->counts->tenant_done[tenant], 1);
        tg_bump_relaxed_u64(&p->counts->executions[kind], 1);
        tg_bump_relaxed_u64(&p->counts->done, 1);
        s->unposted++;
    }
    tg_free(w, w->lane == 0, slot, level);
    if (s->freed_count > p->free_batch)
        tg_free_flush(w);
    return true;
}

/* An opcode of the image: the line goes into the box of a free worker. */
TG_DEVICE void tg_express_task(struct tg_warp *w, uint32_t slot, uint32_t level, uint32_t tenant,
                               uint32_t work, uint32_t kept, const struct tg_quarter *v)
{
    const struct tg_device_params *p = tg_params();
    struct tg_shared *s = tg_state();
    struct tg_task *task = &p->tasks[s->idle[s->idle_count - 1]];
    if (w->lane >> 2 == level) {
        tg_quarter_store(&task->line[4 * (w->lane & 3u)], v->word);
        tg_quarter_store(&p->items[slot].word[4 * (w->lane & 3u)], v->word); /* for a second run */
    }
    if (w->lane == 0) {
        task->slot[0] = slot;
        task->kept[0] = kept;
        task->count = TG_TASK_ALONE;
        tg_sys_store_relaxed_u32(&p->ring[slot].status, TG_SLOT_CLAIMED); /* S4 */
    }
    tg_warp_sync();
    if (w->lane == 0) {
        tg_store_release_u32(&task->seq, tg_load_relaxed_u32(&task->seq) + 1); /* Q1 */
        tg_express_books(slot, level, tenant, work, kept);
        s->idle_count--;
        s->flights++;
    }
    tg_warp_sync();
}

/* The short way of one small item that is next the moment it comes: its level has nothing else, and the rule
 * names that level (E2, E3), so the decision is the one tg_claim would take, without a queue between. What is
 * rare (a fence over it, a sample, a quota, a fault) takes the long way. */
TG_DEVICE bool tg_express(struct tg_warp *w, uint32_t level, uint32_t others, struct tg_quarter v)
{
    const struct tg_device_params *p = tg_params();
    struct tg_shared *s = tg_state();
    uint32_t value = v.word[0] >> TG_LINE_VALUE_SHIFT;
    uint32_t slot = tg_warp_shfl(value, 4 * level);
    uint32_t route = tg_warp_shfl(value, 4 * level + 1);
    uint32_t kind = tg_warp_shfl(value, 4 * level + 3);
    uint32_t args[TG_ARGS_PER_SLOT] = {0};
    for (uint32_t i = 0; i < 3; i++)
        args[i] = tg_warp_shfl(v.word[1 + i], 4 * level);
    uint32_t tenant = route & TG_LINE_TENANT;
    uint32_t cls = route >> TG_LINE_CLASS_SHIFT;
    uint32_t work = others | 1u << level;
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
        work |= (s->ready[l] & s->allowed ? 1u : 0u) << l;
    bool fits = s->ready[level] == 0 && tg_levels_choose(s->levels, work) == level &&
                (route & (TG_LINE_BATCHED | TG_LINE_SAMPLED)) == 0 && slot < p->slots &&
                tenant < TG_TENANTS && (s->allowed >> tenant & 1u) &&
                s->quota[tenant] == TG_TENANT_QUOTA_UNLIMITED && p->control_floor != 0;
    tg_warp_sync();
    if (!fits)
        return false;
    if (cls == TG_CLASS_INLINE && kind < TG_OP_BATCH_FENCE && kind != TG_OP_MEMCPY)
        return tg_express_builtin(w, slot, level, tenant, work, kind, args);
    if ((cls != TG_CLASS_LANE && cls != TG_CLASS_WARP) || s->idle_count == 0)
        return false;
    tg_express_task(w, slot, level, tenant, work,
                    TG_KEPT_HELD | TG_SLOT_CLAIMED | level << TG_KEPT_LEVEL_SHIFT |
                        tenant << TG_KEPT_TENANT_SHIFT | cls << TG_KEPT_CLASS_SHIFT |
                        kind << TG_KEPT_KIND_SHIFT,
                    &v);
    return true;
}

/* Hands lanes' slots to the host: their STATUS, then a cell each (N4). */
TG_DEVICE_CALL void tg_hand_over(struct tg_warp *w, bool hands, const struct tg_taken *t, uint32_t status,
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
    if (w->lane == 0)
        *tail += tg_bits(lanes);
    tg_warp_sync();
}

/* Cancelled items that were still queued: their claim did not happen. */
TG_DEVICE_CALL void tg_drop_dead(struct tg_warp *w, bool dead, const struct tg_taken *t)
{
    const struct tg_device_params *p = tg_params();
    struct tg_shared *s = tg_state();
    uint32_t lanes = tg_warp_ballot(dead);
    if (lanes == 0)
        return;
    for (uint32_t m = lanes; m; m &= m - 1) {
        if (w->lane == tg_levels_first(m)) {
            if (s->quota[t->tenant] < TG_TENANT_QUOTA_UNLIMITED - 1) {
                s->quota[t->tenant]++;
                tg_word_store(p, TG_CONTROL_TENANT_QUOTA_BASE + t->tenant, s->quota[t->tenant]);
                if (tg_tenant_may_claim(p->control[TG_CONTROL_TENANT_MASKS + t->tenant], s->quota[t->tenant]))
                    s->allowed |= 1u << t->tenant;
            }
            if (t->cls == TG_CLASS_HOST)
                s->credit++;
            s->dead--;
        }
        tg_warp_sync();
    }
    bool frees = dead;
    if (dead && tg_kind_of(t->kept) == TG_OP_BATCH_FENCE && !(t->kept & TG_KEPT_ORPHAN)) {
        uint32_t args[TG_ARGS_PER_SLOT];
        tg_args_load(p, t->slot, args);
        /* Cancelled before its first claim: only then its items are not counted in yet. */
        if (p->fence_left[t->slot] != 0 || args[0] != 0) {
            p->fence_left[t->slot] += (t->kept & TG_KEPT_COUNTED) ? 0 : (int32_t)args[0];
            frees = p->fence_left[t->slot] == 0;
            if (!frees)
                p->kept[t->slot] = t->kept | TG_KEPT_ORPHAN;
        }
    }
    tg_free(w, frees, t->slot, t->level);
}

TG_DEVICE_CALL void tg_hand_to_workers(struct tg_warp *w, bool hands, const struct tg_taken *t,
                                       bool together);
TG_DEVICE_CALL void tg_hand_to_block(const struct tg_warp *w, bool hands, const struct tg_taken *t);

/* Runs what tg_claim took. */
TG_DEVICE void tg_round(struct tg_warp *w, struct tg_taken *t)
{
    const struct tg_device_params *p = tg_params();
    struct tg_shared *s = tg_state();
    bool dead = t->have && !(1u << tg_status_of(t->kept) & TG_FROM_CLAIM);
    tg_drop_dead(w, dead, t);
    bool live = t->have && !dead;
    uint32_t kind = tg_kind_of(t->kept);
    uint32_t lives = tg_warp_ballot(live);
    bool alike = lives && tg_alike(live, lives, (t->level * TG_TENANTS + t->tenant) * 512u + kind);
    if (alike && live && tg_rank(w, lives) == 0) {
        tg_bump_relaxed_u64(&p->counts->level_claims[t->level], tg_bits(lives));
        tg_bump_relaxed_u64(&p->counts->tenant_claims[t->tenant], tg_bits(lives));
    } else if (live && !alike) { /* C4 */
        tg_bump_relaxed_u64(&p->counts->level_claims[t->level], 1);
        tg_bump_relaxed_u64(&p->counts->tenant_claims[t->tenant], 1);
    }
    uint32_t args[TG_ARGS_PER_SLOT];
    struct tg_fault fault = {0, 0, 0};
    bool here = live && t->cls == TG_CLASS_INLINE;
    enum tg_ran ran = TG_DEVICE_DONE;
    bool effects = here && kind != TG_OP_NOP;
    if (effects)
        tg_args_load(p, t->slot, args);
    bool wide = effects && kind == TG_OP_MEMCPY && args[2] > TG_WIDE_COPY;
    bool plain = effects && kind < TG_OP_BATCH_FENCE && !wide;
    if (tg_warp_ballot(plain)) {
        uint32_t word = TG_NO_WORD;
        uint32_t second = TG_NO_WORD;
        if (plain) {
            struct tg_view view = tg_view_of();
            if (!tg_op_builtin(&view, kind, args, &fault))
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
        if (p->control_floor == 0 && w->lane == 0)
            tg_steering_changed();
        tg_warp_sync();
    }
    for (uint32_t m = tg_warp_ballot(wide); m; m &= m - 1) {
        uint32_t lane = tg_levels_first(m);
        struct tg_fault of = {0, 0, 0};
        bool ok = tg_copy_wide(w, tg_warp_shfl(args[0], lane), tg_warp_shfl(args[1], lane),
                               tg_warp_shfl(args[2], lane), &of);
        if (w->lane == lane && !ok) {
            fault = of;
            ran = TG_DEVICE_FAULT;
        }
    }
    for (uint32_t m = tg_warp_ballot(effects && kind >= TG_OP_BATCH_FENCE); m; m &= m - 1) {
        if (w->lane == tg_levels_first(m))
            ran = tg_run_rare(t, kind, args, &fault);
        tg_warp_sync();
    }
    bool finished = here && ran == TG_DEVICE_DONE;
    uint32_t ready = tg_warp_ballot(finished);
    if (finished && (!alike || tg_rank(w, ready) == 0))
        tg_bump_relaxed_u64(&p->counts->executions[kind], alike ? tg_bits(ready) : 1);
    if (here && ran == TG_DEVICE_YIELD) { /* S4 */
        p->kept[t->slot] = tg_with_status(t->kept, TG_SLOT_YIELD) | TG_KEPT_COUNTED;
        tg_sys_store_relaxed_u32(&p->ring[t->slot].status, TG_SLOT_YIELD);
        tg_bump_relaxed_u64(&p->counts->yields, 1);
    }
    tg_end(w, finished || (here && ran == TG_DEVICE_FAULT), t, ran == TG_DEVICE_FAULT, &fault, kind, false,
           effects || s->quota[t->have ? t->tenant : 0] != TG_TENANT_QUOTA_UNLIMITED);
    tg_hand_over(w, here && ran == TG_DEVICE_WAIT_IO, t, TG_SLOT_WAIT_IO, &p->io, &s->io_tail);
    uint32_t calls = tg_warp_ballot(live && t->cls == TG_CLASS_HOST);
    tg_hand_over(w, live && t->cls == TG_CLASS_HOST, t, TG_SLOT_CLAIMED, &p->calls, &s->calls_tail);
    if (w->lane == 0)
        s->flights += tg_bits(calls);
    tg_warp_sync();
    tg_hand_to_workers(w, live && t->cls == TG_CLASS_LANE, t, true);
    tg_hand_to_workers(w, live && t->cls == TG_CLASS_WARP, t, false);
    tg_hand_to_block(w, live && t->cls == TG_CLASS_BLOCK, t);
}

#endif
