/* SPDX-License-Identifier: Apache-2.0
 *
 * A worker's part of a ring of items that bodies published: it fetches them, runs them and keeps their books.
 * Nobody on the host waits for one of them, so there is no STATUS to write; the counters are one for all
 * workers (BORN_COUNTS). Observable words that they wrote and faults go by way of the ender, which alone
 * copies words to the host; else the worker just says that it is home. Part of the dispatcher (dispatch.h).
 *
 *   K9 release of a home, behind all of it: what the bodies published, and the counts   pairs with K7 acquire
 *
 * Rules kept: E1 (an item that is to run again goes back with its place), E6, E7.
 */
#ifndef TG_ENGINE_DISPATCH_BORN_RUN_H
#define TG_ENGINE_DISPATCH_BORN_RUN_H

#include "engine/device_packed.h"
#include "engine/dispatch_run.h"

/* Runs one, as tg_device_run; a built-in one too. */
TG_DEVICE int tg_born_body(struct tg_device_op *op)
{
    struct tg_fault fault = {0, 0, 0};
    if (op->opcode >= TG_OP_FIRST_USER)
        return tg_device_run(op);
    if (op->opcode == TG_OP_NOP || tg_device_builtin(op, &fault))
        return TG_OP_FINISHED;
    op->reason = fault.reason;
    return (int)fault.detail;
}

/* All lanes of a warp that ran one item: what they wrote, in lane 0's; all words, if it was not the same. */
TG_DEVICE void tg_words_of_warp(struct tg_device_op *op)
{
    bool same = true;
    if (tg_warp_ballot(op->word[0] != TG_NO_WORD) == 0)
        return;
    for (uint32_t k = 0; k < TG_TASK_WORDS; k++)
        same &= op->word[k] == tg_warp_shfl(op->word[k], 0);
    if (tg_warp_ballot(!same))
        op->word[0] = TG_ALL_WORDS;
}

/* One counter for lanes that may have different kinds. */
TG_DEVICE void tg_born_count_kinds(struct tg_warp w, bool counts, uint32_t kind, uint64_t *of_kinds)
{
    uint32_t lanes = tg_warp_ballot(counts);
    if (lanes == 0)
        return;
    uint32_t first = tg_warp_shfl(kind, (uint32_t)tg_levels_first(lanes));
    if (tg_warp_ballot(counts && kind != first) == 0) {
        if (w.lane == 0)
            tg_bump_relaxed_u64(&of_kinds[first], tg_bits(lanes));
    } else if (counts) {
        tg_bump_relaxed_u64(&of_kinds[kind], 1);
    }
}

/* The counts of so many items of one level and tenant, a lane a counter. */
TG_DEVICE void tg_born_count(struct tg_warp w, uint32_t level, uint32_t tenant, uint32_t claims,
                             uint32_t done, uint32_t again)
{
    struct tg_counts *c = tg_params()->born_counts;
    uint64_t *count = w.lane == 0   ? &c->level_claims[level]
                      : w.lane == 1 ? &c->tenant_claims[tenant]
                      : w.lane == 2 ? &c->level_done[level]
                      : w.lane == 3 ? &c->tenant_done[tenant]
                      : w.lane == 4 ? &c->done
                                    : &c->requeues;
    uint32_t n = w.lane < 2 ? claims : w.lane < 5 ? done : w.lane == 5 ? again : 0;
    if (n)
        tg_bump_relaxed_u64(count, n); /* C4 relaxed: behind a home (K9), or the ring of the finished (Q3) */
}

/* Lanes whose item runs again: behind what waits, with the place that it has in USED. */
TG_DEVICE void tg_born_again(struct tg_warp w, bool again, uint32_t ring, const struct tg_device_op *op,
                             uint32_t kind, const uint32_t *args)
{
    const struct tg_device_params *p = tg_params();
    uint32_t lanes = tg_warp_ballot(again);
    if (lanes == 0)
        return;
    uint32_t first =
        tg_warp_shfl(w.lane == 0 ? tg_add_relaxed_u32(&p->born_tail[ring], tg_bits(lanes)) : 0, 0); /* K5 */
    if (again)
        tg_born_write(p, ring, first + tg_rank(w, lanes), op->opcode, kind, args, TG_ARGS_PER_SLOT);
    tg_warp_sync();
}

/* What the ender is to copy or to fault goes into the task. */
TG_DEVICE void tg_born_tell_ender(struct tg_task *task, uint32_t i, uint32_t ring, uint32_t kind,
                                  const struct tg_device_op *op, bool faulted, uint32_t detail)
{
    uint32_t result = TG_WORKED_TOLD;
    bool wrote = op->word[0] != TG_NO_WORD;
    if (faulted)
        result = (detail == TG_DEVICE_UNKNOWN && !op->reason ? TG_WORKED_UNKNOWN : TG_WORKED_FAULT) |
                 op->reason << TG_WORKED_REASON_SHIFT;
    for (uint32_t k = 0; k < TG_TASK_WORDS && wrote; k++)
        tg_store_relaxed_u32(&task->word[k][i], op->word[k]);
    tg_store_relaxed_u32(&task->result[i], result | (wrote ? TG_WORKED_WROTE : 0));
    tg_store_relaxed_u32(&task->detail[i], detail == TG_DEVICE_UNKNOWN && !op->reason ? op->opcode : detail);
    task->kept[i] = TG_BORN_LEVEL(ring) << TG_KEPT_LEVEL_SHIFT |
                    TG_BORN_TENANT(ring) << TG_KEPT_TENANT_SHIFT | kind << TG_KEPT_KIND_SHIFT;
}

/* With a limit for bodies: was the grant given up, before it began or (answered: the answer is in the task)
 * when it has ended? What is there of an earlier grant is taken away. */
TG_DEVICE bool tg_born_is_lost(struct tg_warp w, struct tg_task *task, bool answered)
{
    uint32_t lost = 0;
    if (tg_params()->watch && w.lane == 0) {
        uint64_t earlier = tg_load_relaxed_u64(&task->owner) >> TG_OWNER_SHIFT << TG_OWNER_SHIFT;
        lost = (tg_add_acqrel_u64(&task->owner, answered ? 1 : 0 - earlier) & TG_ABANDONED) != 0; /* W1 */
    }
    return tg_warp_shfl(lost, 0) != 0;
}

/* Does a grant: its first word's value, and its first position. True: the worker is home; false: the ender
 * has something to do with the task first; *ret_lost: neither, it was given up (dispatch_watch.h). */
TG_DEVICE bool tg_born_do(struct tg_warp w, struct tg_task *task, uint32_t value, uint32_t first,
                          bool *ret_lost)
{
    const struct tg_device_params *p = tg_params();
    uint32_t ring = value & ((1u << TG_GRANT_COUNT_SHIFT) - 1u);
    uint32_t count = value >> TG_GRANT_COUNT_SHIFT;
    bool whole = TG_BORN_SHAPE(ring) == TG_BORN_WARP;
    uint32_t level = TG_BORN_LEVEL(ring);
    uint32_t tenant = TG_BORN_TENANT(ring);
    bool have = w.lane < count; /* an item is this lane's */
    bool runs = have || whole;  /* a lane of a body */
    uint32_t position = first + (whole ? 0 : w.lane);
    uint32_t kind = 0;
    uint32_t args[TG_ARGS_PER_SLOT];
    struct tg_device_op op;
    int r = TG_OP_FINISHED;
    *ret_lost = false;
    op.reason = op.published = 0;
    for (uint32_t k = 0; k < TG_TASK_WORDS; k++)
        op.word[k] = TG_NO_WORD;
    if (runs)
        tg_born_read(p, ring, position, &op.opcode, &kind, args);
    tg_warp_sync();
    if (have)
        tg_born_taken(p, ring, position);
    tg_warp_sync(); /* all of them, before a body of ours waits in K1 */
    tg_born_count(w, level, tenant, count, 0, 0);
    if (tg_born_is_lost(w, task, false)) {
        *ret_lost = true;
        return false;
    }
    if (runs) {
        op.slot = TG_NO_DEVICE_SLOT;
        op.tenant = op.of = tenant;
        op.priority = level;
        op.lane = w.lane;
        op.known = op.opcode;
        op.known_kind = kind;
        op.known_shape = TG_BORN_SHAPE(ring);
        TG_UNROLL
        for (uint32_t i = 0; i < TG_ARGS_PER_SLOT; i++)
            op.args[i] = args[i];
        uint32_t opcode = op.opcode;
        r = tg_born_body(&op);
        op.opcode = opcode;
    }
    tg_warp_sync();
    if (whole) {
        tg_words_of_warp(&op);
        r = (int)tg_warp_shfl((uint32_t)r, 0);
    }
    bool again = have && op.reason == 0 && r == TG_OP_REQUEUE;
    bool faulted = have && (op.reason != 0 || (r != TG_OP_REQUEUE && r != TG_OP_FINISHED));
    bool wrote = have && op.word[0] != TG_NO_WORD;
    bool done = have && !again && !faulted;
    bool home = tg_warp_ballot(faulted || wrote) == 0;
    if ((!home || p->watch) && have) /* who is abandoned with an answer is asked for it */
        tg_born_tell_ender(task, w.lane, ring, kind, &op, faulted, (uint32_t)r);
    if (!home && w.lane == 0)
        task->count = TG_TASK_BORN + count;
    tg_warp_sync();
    if (tg_born_is_lost(w, task, true)) {
        *ret_lost = true;
        return false;
    }
    tg_born_again(w, again, ring, &op, kind, args);
    uint32_t ended = tg_bits(tg_warp_ballot(done || faulted));
    tg_born_count(w, level, tenant, 0, tg_bits(tg_warp_ballot(done)), tg_bits(tg_warp_ballot(again)));
    tg_born_count_kinds(w, done, kind, p->born_counts->executions);
    if (w.lane == 0 && ended)
        tg_bump_relaxed_u32(&p->born_used[ring], 0u - ended); /* K5 */
    tg_warp_sync();
    return home;
}

#endif
