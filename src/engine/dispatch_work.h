/* SPDX-License-Identifier: Apache-2.0
 *
 * The workers, which run opcodes of the device image: a message box a worker (struct tg_task), and one ring
 * in which they say that they have finished. Part of the dispatcher (dispatch.h).
 *
 * A worker makes DONE visible itself when its item wrote no observable word (the dispatcher need not be
 * waited for); otherwise the ender copies the words and stores the status. The ender does the books of both.
 * With a limit for bodies the dispatcher writes all other STATUS too (dispatch_watch.h).
 *
 * Q1 release of SEQ, after the task and the items' lines (or a line whose quarters each say that they are
 * there) pairs with Q2 acquire.
 *
 * Q3 release of a cell of the finished, after the answer and STATUS, pairs with Q4.
 */
#ifndef TG_ENGINE_DISPATCH_WORK_H
#define TG_ENGINE_DISPATCH_WORK_H

#include "engine/dispatch_born_run.h"

#define TG_WORKER_PAUSE_NS 40u       /* between looks for a task, at first */
#define TG_WORKER_PAUSE_MOST_NS 320u /* ... and after TG_WORKER_LOOKS */
#define TG_WORKER_LOOKS 4096u

/* One item on this lane (or, for a whole warp or block, on all lanes with the same arguments). alone: its
 * worker got the line alone. Returns enum tg_finished of a task of this one item. */
TG_DEVICE uint32_t tg_work(const struct tg_device_params *p, struct tg_device_op *op, struct tg_task *task,
                           uint32_t i, bool whole, bool block, bool alone)
{
    uint32_t slot = op->slot;
    uint32_t inner;
    bool packed = op->opcode == TG_OP_PACKED_SLOT; /* its operations are to be counted: never short */
    op->reason = op->published = 0;
    for (uint32_t k = 0; k < TG_TASK_WORDS; k++)
        op->word[k] = TG_NO_WORD;
    if (!p->watch && !block && (!whole || op->lane == 0)) /* S4 relaxed: before DONE, by the same lane */
        tg_sys_store_relaxed_u32(&p->ring[slot].status, TG_SLOT_CLAIMED);
    int r = tg_device_run_item(op, &inner);
    /* What all lanes wrote, before DONE. */
    if (block) {
        if (tg_block_any(op->word[0] != TG_NO_WORD))
            op->word[0] = TG_ALL_WORDS;
    } else if (whole) {
        tg_words_of_warp(op);
    }
    if (whole && !block && tg_warp_ballot(op->published != 0)) /* a block's end is looked into anyway */
        op->published = 1;
    if (whole && op->lane != 0)
        return TG_FINISHED_ONE;
    uint32_t result = (uint32_t)(r == TG_OP_FINISHED      ? TG_WORKED_TOLD
                                 : r == TG_OP_REQUEUE     ? TG_WORKED_REQUEUE
                                 : r == TG_DEVICE_UNKNOWN ? TG_WORKED_UNKNOWN
                                                          : TG_WORKED_FAULT);
    if (op->reason)
        result =
            (uint32_t)TG_WORKED_FAULT | op->reason << TG_WORKED_REASON_SHIFT | inner << TG_WORKED_INNER_SHIFT;
    bool wrote = op->word[0] != TG_NO_WORD;
    if (result == TG_WORKED_TOLD && (wrote || p->control_floor == 0))
        result = TG_WORKED_DONE;
    bool told = result == TG_WORKED_TOLD;
    bool again = result == TG_WORKED_REQUEUE;
    if (told && !p->watch) /* before the rest, so that the release has nothing of ours to wait for */
        tg_sys_store_release_u32(&p->ring[slot].status, TG_SLOT_DONE); /* S3 */
    else if (again && !p->watch) /* S4 relaxed: a host that sees it reads nothing behind it */
        tg_sys_store_relaxed_u32(&p->ring[slot].status, TG_SLOT_REQUEUE);
    if ((told || again) && !wrote && !p->watch && alone && !packed && !op->published)
        return told ? TG_FINISHED_TOLD : TG_FINISHED_AGAIN;
    for (uint32_t k = 0; k < TG_TASK_WORDS && wrote; k++)
        tg_store_relaxed_u32(&task->word[k][i], op->word[k]);
    result |= wrote ? TG_WORKED_WROTE : 0;
    tg_store_relaxed_u32(&task->result[i], result);
    tg_store_relaxed_u32(&task->detail[i], r == TG_DEVICE_UNKNOWN && !op->reason ? op->opcode : (uint32_t)r);
    if (!p->watch || tg_add_acqrel_u64(&task->owner, UINT64_C(1) << i) & TG_ABANDONED)
        return TG_FINISHED_ONE; /* W1: the dispatcher has ended it */
    if (told)
        tg_sys_store_release_u32(&p->ring[slot].status, TG_SLOT_DONE); /* S3 */
    return TG_FINISHED_ONE;
}

/* What a warp has to do, as it found it in its box. */
struct tg_job {
    struct tg_quarter line; /* lanes 0 .. 3: of an item given as a line */
    uint32_t seq, seq_alone, seq_born;
    bool alone, born;
    uint32_t value, first; /* of what bodies published: GRANT */
};

/* Looks once. False: nothing new. */
TG_DEVICE bool tg_job_look(uint32_t lane, const struct tg_task *task, struct tg_job *j)
{
    uint32_t next = j->seq_alone % 254u + 1u;
    struct tg_quarter q = {{0, 0, 0, 0}};
    /* Q2 relaxed: a quarter of a line is one access and says that it is there; SEQ is read again. */
    uint32_t next_born = j->seq_born % 254u + 1u;
    if (lane <= TG_LINE_QUARTERS + 1)
        tg_load_quarter(lane < TG_LINE_QUARTERS    ? &task->line[4 * lane]
                        : lane == TG_LINE_QUARTERS ? &task->seq
                                                   : task->grant,
                        q.word);
    uint32_t here = tg_warp_ballot(lane != TG_LINE_QUARTERS && lane <= TG_LINE_QUARTERS + 1 &&
                                   (q.word[0] & TG_LINE_LAP) ==
                                       (TG_ALONE_LAP | (lane < TG_LINE_QUARTERS ? next : next_born)));
    j->alone = (here & ((1u << TG_LINE_QUARTERS) - 1u)) == (1u << TG_LINE_QUARTERS) - 1u;
    j->born = (here >> (TG_LINE_QUARTERS + 1) & 1u) != 0;
    if (j->born) {
        j->alone = false;
        j->seq_born = next_born;
        j->value = tg_warp_shfl(q.word[0], TG_LINE_QUARTERS + 1) >> TG_LINE_VALUE_SHIFT;
        j->first = tg_warp_shfl(q.word[1], TG_LINE_QUARTERS + 1);
        return true;
    }
    if (j->alone) {
        j->line = q;
        j->seq_alone = next;
        return true;
    }
    uint32_t seq = tg_warp_shfl(q.word[0], TG_LINE_QUARTERS);
    if (seq == j->seq)
        return false;
    /* Q2 acquire: the task and its items' lines; pairs with Q1. */
    j->seq = tg_warp_shfl(lane == 0 ? tg_load_acquire_u32(&task->seq) : 0, 0);
    return true;
}

/* Does it. Returns the low half (but for the lap) and in *ret_high the high half of what the ring of the
 * finished is told. */
TG_DEVICE uint32_t tg_job_do(uint32_t number, uint32_t lane, struct tg_task *task, const struct tg_job *j,
                             uint32_t *kind, uint32_t *opcode, uint32_t *ret_high)
{
    const struct tg_device_params *p = tg_params();
    struct tg_device_op op;
    uint32_t count = j->alone ? 1 : task->count;
    uint32_t kept = 0;
    if (j->alone) {
        uint32_t word_4 = tg_warp_shfl(j->line.word[0], 1);
        uint32_t word_12 = tg_warp_shfl(j->line.word[0], 3);
        op.slot = tg_warp_shfl(j->line.word[0], 0) >> TG_LINE_VALUE_SHIFT;
        kept = tg_with_status(
            tg_kept_of(tg_warp_shfl(j->line.word[0], 2) >> TG_LINE_VALUE_SHIFT, word_4, word_12),
            TG_SLOT_CLAIMED);
        TG_UNROLL
        for (uint32_t quarter = 0; quarter < TG_LINE_QUARTERS; quarter++)
            for (uint32_t i = 0; i < 3; i++)
                op.args[3 * quarter + i] = tg_warp_shfl(j->line.word[1 + i], quarter);
    }
    uint32_t first = j->alone ? kept : task->kept[0];
    bool whole = count > TG_TASK_ITEMS || (count == 1 && tg_class_of(first) == TG_CLASS_WARP);
    uint32_t how = TG_FINISHED_MANY;
    if (whole || lane < count) {
        uint32_t i = whole ? 0 : lane;
        if (!j->alone) {
            kept = task->kept[i];
            op.slot = task->slot[i];
            tg_args_load(p, op.slot, op.args);
        }
        if (tg_kind_of(kept) !=
            *kind) { /* a read over the bus, so it is kept; a kind's opcode never changes */
            *kind = tg_kind_of(kept);
            *opcode = p->opcode_of[*kind];
        }
        bool block = tg_class_of(kept) == TG_CLASS_BLOCK;
        op.opcode = *opcode;
        op.tenant = op.of = tg_tenant_of(kept);
        op.priority = tg_level_of(kept);
        op.lane = block ? number % TG_BLOCK_WARPS * TG_LANES + lane : lane;
        op.known = op.known_kind = TG_OP_NOP;
        op.known_shape = TG_BORN_LANE;
        how = tg_work(p, &op, task, i, whole, block, count == 1);
    }
    tg_warp_sync();
    how = tg_warp_shfl(how, 0);
    *ret_high = 0;
    if (count != 1)
        return number << TG_FINISHED_WORKER_SHIFT;
    *ret_high = tg_with_status(kept, how);
    if (j->alone && lane < TG_LINE_QUARTERS) /* for a second run */
        tg_quarter_store(&p->items[op.slot].word[4 * lane], j->line.word);
    if (j->alone && lane == 0 && how == TG_FINISHED_ONE) {
        task->slot[0] = op.slot;
        task->kept[0] = kept;
        task->count = 1;
    }
    return op.slot | number << TG_FINISHED_WORKER_SHIFT;
}

TG_DEVICE void tg_worker_warp(uint32_t number, uint32_t lane)
{
    const struct tg_device_params *p = tg_params();
    struct tg_warp w = {lane, TG_ROLES};
    struct tg_task *task = &p->tasks[number];
    struct tg_job job = {{{0, 0, 0, 0}}, 0, 0, 0, false, false, 0, 0};
    uint64_t start = tg_device_ns();
    uint32_t kind = TG_NO_WORD;
    uint32_t opcode = 0;
    for (uint32_t looks = 0;; looks++) {
        if (!tg_job_look(lane, task, &job)) {
            tg_device_pause(looks < TG_WORKER_LOOKS ? TG_WORKER_PAUSE_NS : TG_WORKER_PAUSE_MOST_NS);
            /* The dispatcher has the same limit and says TG_TASK_LEAVE; this is for one that hangs. */
            if (p->limit_ns && looks % 1024 == 1023 &&
                tg_warp_shfl(tg_device_ns() - start > 2 * p->limit_ns ? 1u : 0u, 0))
                return;
            continue;
        }
        if (!job.alone && !job.born && job.seq == TG_TASK_LEAVE)
            return;
        looks = 0;
        uint32_t high = TG_FINISHED_BORN;
        uint32_t low = number << TG_FINISHED_WORKER_SHIFT;
        bool home = false;
        bool lost = false;
        if (job.born)
            home = tg_born_do(w, task, job.value, job.first, &lost);
        else
            low = tg_job_do(number, lane, task, &job, &kind, &opcode, &high);
        tg_warp_sync();
        if (lane == 0 && home && p->watch) /* W1 again: its number, behind its books */
            tg_store_release_u64(&task->owner, (uint64_t)job.seq_born << TG_OWNER_SHIFT);
        if (lane == 0 && home) {
            uint32_t at = tg_add_relaxed_u32(p->homes_tail, 1);
            tg_store_release_u32(&p->homes[at & ((1u << p->homes_shift) - 1u)],
                                 number | tg_cell_lap(at, p->homes_shift)); /* K9 */
        } else if (lane == 0 && !lost) {
            uint64_t at = tg_add_relaxed_u64(p->finished_tail, 1);
            /* Q3 release: the answer, and that STATUS was stored; pairs with Q4. */
            tg_store_release_u64(&p->finished[at & ((UINT64_C(1) << p->finished_shift) - 1u)],
                                 tg_cell(low | tg_cell_lap(at, p->finished_shift), high));
        }
        tg_warp_sync();
    }
}

#endif
