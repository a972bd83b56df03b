/* SPDX-License-Identifier: Apache-2.0
 *
 * The two kinds of warp: the dispatcher's loop, and the workers that run opcodes of the device image. Also
 * the hand-over between them: a message box a worker, and one ring in which workers say that they are ready.
 *
 * A worker makes DONE visible itself when its item wrote no observable word (the dispatcher need not be
 * waited for); otherwise the dispatcher copies the words and stores the status. The dispatcher does the books
 * of both.
 */
#ifndef TG_ENGINE_DISPATCH_MAIN_H
#define TG_ENGINE_DISPATCH_MAIN_H

#include "engine/dispatch_block.h"
#include "engine/dispatch_watch.h"
#include "engine/device_op.h"

#define TG_LOOKS_UNTIL_IDLE 4u     /* empty looks before free cells are written */
#define TG_FEW_SLOTS 3u            /* of a free batch: below it free cells are written at once */
#define TG_LOOKS_UNTIL_POST 64u    /* ... before the counters are */
#define TG_LOOKS_UNTIL_PAUSE 4096u /* ... before the dispatcher pauses between looks */
#define TG_POST_EVERY 65536u
#define TG_WORKER_PAUSE_NS 40u       /* of a worker that looks for a task, at first */
#define TG_WORKER_PAUSE_MOST_NS 320u /* ... and after TG_WORKER_LOOKS */
#define TG_WORKER_LOOKS 4096u
/* Tasks whose books are done between two looks. Their workers wait for it, but so does what is more urgent.
 */
#define TG_COLLECT_MOST 1u

TG_DEVICE_CALL void tg_hand_to_workers(struct tg_warp *w, bool hands, const struct tg_taken *t, bool together)
{
    const struct tg_device_params *p = tg_params();
    struct tg_shared *s = tg_state();
    uint32_t lanes = tg_warp_ballot(hands);
    if (lanes == 0)
        return;
    uint32_t tasks = together ? 1 : tg_bits(lanes);
    uint32_t place = tg_rank(w, lanes); /* of the item in its task, or of its task */
    uint32_t idle = s->idle_count - 1;
    struct tg_task *task = &p->tasks[s->idle[hands && !together ? idle - place : idle]];
    uint32_t at = together ? place : 0;
    if (hands) {
        p->kept[t->slot] = tg_with_status(t->kept, TG_SLOT_CLAIMED);
        tg_sys_store_relaxed_u32(&p->ring[t->slot].status, TG_SLOT_CLAIMED); /* S4 */
        task->slot[at] = t->slot;
        task->kept[at] = t->kept;
        if (!together || place == 0)
            task->count = together ? tg_bits(lanes) : 1;
    }
    tg_warp_sync();
    if (hands && (!together || place == 0))
        /* Q1 release: the task and the items' lines; pairs with Q2. */
        tg_store_release_u32(&task->seq, tg_load_relaxed_u32(&task->seq) + 1);
    tg_warp_sync();
    if (w->lane == 0) {
        s->idle_count -= tasks;
        s->flights += tg_bits(lanes);
    }
    tg_warp_sync();
}

/* What the items of a task wrote goes to the buffer that the host reads. */
TG_DEVICE_CALL void tg_copy_words(struct tg_warp *w, const struct tg_task *task, bool wrote)
{
    const struct tg_device_params *p = tg_params();
    bool all = false;
    if (tg_warp_ballot(wrote) == 0)
        return;
    for (uint32_t i = 0; i < TG_TASK_WORDS && wrote; i++) {
        uint32_t word = tg_load_relaxed_u32(&task->word[i][w->lane]);
        if (word == TG_ALL_WORDS)
            all = true;
        else
            tg_copy_out(p, word);
    }
    if (tg_warp_ballot(all) == 0)
        return;
    for (uint32_t word = TG_CONTROL_OBSERVABLE_BASE + w->lane; word < p->control_words; word += TG_LANES)
        tg_copy_out(p, word);
}

/* The books of one finished task: of the items in over by their answers, of others FAULT with that reason. */
TG_DEVICE_CALL void tg_task_finished(struct tg_warp *w, uint32_t worker, uint32_t over, uint32_t why)
{
    const struct tg_device_params *p = tg_params();
    struct tg_shared *s = tg_state();
    const struct tg_task *task = &p->tasks[worker];
    uint32_t count = task->count;
    if (count > TG_TASK_ITEMS)
        count = count == TG_TASK_HELPS ? 0 : 1;
    bool have = w->lane < count;
    struct tg_taken t = tg_held(p, have ? task->slot[w->lane] : 0);
    uint32_t result = TG_WORKED_TOLD;
    if (have && (over >> w->lane & 1u))
        result = tg_load_relaxed_u32(&task->result[w->lane]);
    else if (have)
        result = TG_WORKED_FAULT | why << TG_WORKED_REASON_SHIFT;
    bool told = result == TG_WORKED_TOLD && why == 0;
    uint32_t kind = tg_kind_of(t.kept);
    struct tg_fault fault = {TG_FAULT_HANDLER, 0, 0};
    uint32_t reason = result >> TG_WORKED_REASON_SHIFT;
    bool wrote = (result & TG_WORKED_WROTE) != 0;
    result &= TG_WORKED_WROTE - 1u;
    tg_copy_words(w, task, wrote);
    if (have && result >= TG_WORKED_FAULT) {
        fault.detail = over >> w->lane & 1u ? tg_load_relaxed_u32(&task->detail[w->lane]) : 0;
        if (reason)
            fault.reason = reason;
        if (result == TG_WORKED_UNKNOWN)
            fault.reason = TG_FAULT_UNKNOWN_OPCODE;
    }
    tg_warp_sync();
    if (w->lane == 0) {
        if (p->watch && why == 0)
            tg_store_relaxed_u64(&p->tasks[worker].owner, 0); /* before the next Q1 */
        tg_worker_free(s, worker);
        s->flights -= count;
    }
    tg_warp_sync();
    bool done = have && (result == TG_WORKED_TOLD || result == TG_WORKED_DONE);
    if (done)
        tg_bump_relaxed_u64(&p->counts->executions[kind], 1);
    tg_end(w, done || (have && result >= TG_WORKED_FAULT), &t, !done, &fault, kind, told, wrote);
    for (uint32_t m = tg_warp_ballot(have && result == TG_WORKED_REQUEUE); m; m &= m - 1) {
        if (w->lane == tg_levels_first(m)) {
            tg_bump_relaxed_u64(&p->counts->requeues, 1);
            p->kept[t.slot] = tg_with_status(t.kept, TG_SLOT_REQUEUE);
            tg_sys_store_release_u32(&p->ring[t.slot].status, TG_SLOT_REQUEUE); /* S4 */
            tg_push(t.slot);
        }
        tg_warp_sync();
    }
}

/* Takes in what workers have finished. */
TG_DEVICE uint32_t tg_collect(struct tg_warp *w)
{
    const struct tg_device_params *p = tg_params();
    struct tg_shared *s = tg_state();
    if (s->idle_count == p->workers)
        return 0;
    uint64_t at = s->finished_head + w->lane;
    /* Q4 acquire: the answer behind the cell; pairs with Q3. */
    uint32_t cell = tg_load_acquire_u32(&p->finished[at & ((UINT64_C(1) << p->finished_shift) - 1u)]);
    uint32_t fresh = tg_warp_ballot(((cell ^ tg_cell_lap(at, p->finished_shift)) & 1u << 31) == 0);
    uint32_t n = ~fresh ? tg_levels_first(~fresh) : TG_LANES;
    n = n < TG_COLLECT_MOST ? n : TG_COLLECT_MOST;
    for (uint32_t i = 0; i < n; i++)
        tg_task_finished(w, tg_warp_shfl(cell, i) & ~(1u << 31), TG_ALL_LANES, 0);
    tg_warp_sync();
    if (w->lane == 0)
        s->finished_head += n;
    tg_warp_sync();
    return n;
}

/* False: it is given up, and nobody else is here. */
TG_DEVICE bool tg_dispatcher_start(struct tg_warp *w)
{
    const struct tg_device_params *p = tg_params();
    struct tg_shared *s = tg_state();
    uint32_t *word = (uint32_t *)(void *)s;
    for (uint32_t i = w->lane; i < sizeof(*s) / sizeof(uint32_t); i += TG_LANES)
        word[i] = 0;
    tg_warp_sync();
    if (w->lane == 0) {
        s->warm = TG_LINE_RINGS; /* none */
        s->started = tg_device_ns();
        s->idle_count = p->workers;
        tg_authority_read(p, s);
    }
    for (uint32_t i = w->lane; i < p->workers; i += TG_LANES)
        s->idle[i] = (uint16_t)(p->workers - 1 - i);
    tg_warp_sync();
    /* A1 acquire: blocks count themselves in; the host gives up on us after a while (device.c). */
    while (tg_warp_ballot(tg_load_acquire_u32(p->arrivals) < p->blocks) != 0) {
        if (p->limit_ns && tg_warp_shfl(tg_device_ns() - s->started > p->limit_ns ? 1u : 0u, 0))
            break;
        /* A6 relaxed: nothing is read behind it; pairs with A5. */
        if (tg_warp_shfl(w->lane == 0 ? tg_sys_load_relaxed_u32(&p->answers->given_up) : 0, 0))
            return false;
    }
    if (w->lane == 0)
        tg_sys_store_release_u32(&p->answers->arrived, 1); /* N5 */
    return true;
}

TG_DEVICE_CALL void tg_dispatcher_leave(struct tg_warp *w, uint32_t why)
{
    const struct tg_device_params *p = tg_params();
    struct tg_shared *s = tg_state();
    if (why == TG_LEFT_DRAINED || why == TG_LEFT_OVERRUN)
        tg_hand_back_all(w);
    tg_free_flush(w);
    tg_counts_publish(w, true);
    for (uint32_t i = w->lane; i < p->workers; i += TG_LANES)
        tg_store_release_u32(&p->tasks[i].seq, TG_TASK_LEAVE); /* Q1 */
    if (w->lane < TG_LINE_RINGS)
        tg_sys_store_relaxed_u64(&p->answers->consumed[w->lane], s->position[w->lane]);
    tg_warp_sync();
    if (w->lane == 0)
        tg_sys_store_release_u32(&p->answers->left, 1 + why); /* N5 */
}

/* After a look and a round without anything. True: it is over. */
TG_DEVICE bool tg_idle(struct tg_warp *w, uint32_t looks)
{
    const struct tg_device_params *p = tg_params();
    struct tg_shared *s = tg_state();
    if (s->draining && s->flights == 0 && looks >= 2) {
        tg_dispatcher_leave(w, TG_LEFT_DRAINED);
        return true;
    }
    tg_warp_idle();
    /* While a worker is being waited for, its end is likely next: later then. */
    uint32_t patience = s->flights ? 4 * TG_LOOKS_UNTIL_IDLE : TG_LOOKS_UNTIL_IDLE;
    if (p->free_batch < TG_FEW_SLOTS)
        patience = 1; /* somebody waits for the very slot */
    if (looks == patience)
        tg_free_flush(w);
    if (looks % TG_LOOKS_UNTIL_POST == 0 && s->unposted)
        tg_counts_publish(w, false);
    if (looks > TG_LOOKS_UNTIL_PAUSE)
        tg_device_pause(p->poll_pause_ns);
    return false;
}

TG_DEVICE void tg_dispatcher(uint32_t lane)
{
    const struct tg_device_params *p = tg_params();
    struct tg_shared *s = tg_state();
    struct tg_warp warp = {lane};
    struct tg_warp *w = &warp;
    if (!tg_dispatcher_start(w)) {
        tg_dispatcher_leave(w, TG_LEFT_ABSENT);
        return;
    }
    for (uint32_t looks = 0, rounds = 0;; rounds++) {
        struct tg_found found = tg_poll(w, TG_LINE_RINGS);
        uint32_t news = found.lines;
        if (found.commanded)
            tg_command(w, found.line);
        if (s->overrun) {
            tg_dispatcher_leave(w, TG_LEFT_OVERRUN);
            return;
        }
        uint32_t collected = tg_collect(w);
        news += collected;
        if (collected && s->queued) {
            /* That took a while: look again before the round, so that what is urgent waits for one of both.
             */
            struct tg_found again = tg_poll(w, TG_LINE_RINGS);
            news += again.lines;
            if (again.commanded)
                tg_command(w, again.line);
            if (s->overrun)
                continue;
        }
        struct tg_taken mine;
        uint32_t claimed = tg_claim(w, &mine);
        if (claimed)
            tg_round(w, &mine);
        looks = news + claimed ? 0 : looks + 1 ? looks + 1 : looks;
        if (looks && tg_idle(w, looks))
            return;
        if (s->unposted >= TG_POST_EVERY)
            tg_counts_publish(w, false);
        if (p->limit_ns && rounds % 256 == 255 &&
            tg_warp_shfl(tg_device_ns() - s->started > p->limit_ns ? 1u : 0u, 0)) {
            tg_dispatcher_leave(w, TG_LEFT_LIMIT);
            return;
        }
    }
}

/* One item on this lane (or, for a whole warp or block, on all lanes with the same arguments). */
TG_DEVICE void tg_work(const struct tg_device_params *p, uint32_t number, uint32_t i, uint32_t lane,
                       bool whole, bool alone)
{
    struct tg_device_op op;
    struct tg_task *task = &p->tasks[number];
    uint32_t slot = task->slot[i];
    uint32_t kept = task->kept[i];
    tg_args_of(alone ? task->line : p->items[slot].word, op.args);
    op.opcode = p->opcode_of[tg_kind_of(kept)];
    op.tenant = tg_tenant_of(kept);
    op.priority = tg_level_of(kept);
    op.slot = slot;
    bool block = tg_class_of(kept) == TG_CLASS_BLOCK;
    op.lane = block ? number % TG_BLOCK_WARPS * TG_LANES + lane : lane;
    op.reason = 0;
    for (uint32_t k = 0; k < TG_TASK_WORDS; k++)
        op.word[k] = TG_NO_WORD;
    int r = tg_device_run(&op);
    /* What all lanes wrote, before DONE. */
    if (block) {
        if (tg_block_any(op.word[0] != TG_NO_WORD))
            op.word[0] = TG_ALL_WORDS;
    } else if (whole && tg_warp_ballot(op.word[0] != TG_NO_WORD)) {
        bool same = true;
        for (uint32_t k = 0; k < TG_TASK_WORDS; k++)
            same &= op.word[k] == tg_warp_shfl(op.word[k], 0);
        if (tg_warp_ballot(!same))
            op.word[0] = TG_ALL_WORDS;
    }
    if (whole && op.lane != 0)
        return;
    uint32_t result = (uint32_t)(r == TG_OP_FINISHED      ? TG_WORKED_TOLD
                                 : r == TG_OP_REQUEUE     ? TG_WORKED_REQUEUE
                                 : r == TG_DEVICE_UNKNOWN ? TG_WORKED_UNKNOWN
                                                          : TG_WORKED_FAULT);
    if (op.reason)
        result = (uint32_t)TG_WORKED_FAULT | op.reason << TG_WORKED_REASON_SHIFT;
    bool wrote = op.word[0] != TG_NO_WORD;
    if (result == TG_WORKED_TOLD && (wrote || p->control_floor == 0))
        result = TG_WORKED_DONE;
    for (uint32_t k = 0; k < TG_TASK_WORDS && wrote; k++)
        tg_store_relaxed_u32(&task->word[k][i], op.word[k]);
    result |= wrote ? TG_WORKED_WROTE : 0;
    tg_store_relaxed_u32(&task->result[i], result);
    tg_store_relaxed_u32(&task->detail[i], r == TG_DEVICE_UNKNOWN && !op.reason ? op.opcode : (uint32_t)r);
    if (p->watch && tg_add_acqrel_u64(&task->owner, UINT64_C(1) << i) & TG_ABANDONED)
        return; /* W1: the dispatcher has ended it */
    if ((result & (TG_WORKED_WROTE - 1u)) == TG_WORKED_TOLD)
        tg_sys_store_release_u32(&p->ring[slot].status, TG_SLOT_DONE); /* S3 */
}

TG_DEVICE void tg_worker_warp(uint32_t number, uint32_t lane)
{
    const struct tg_device_params *p = tg_params();
    struct tg_task *task = &p->tasks[number];
    uint64_t start = tg_device_ns();
    uint32_t seen = 0;
    for (uint32_t looks = 0;; looks++) {
        /* Q2 acquire: pairs with Q1. One lane looks. */
        uint32_t seq = tg_warp_shfl(lane == 0 ? tg_load_acquire_u32(&task->seq) : 0, 0);
        if (seq == TG_TASK_LEAVE)
            return;
        if (seq == seen) {
            tg_device_pause(looks < TG_WORKER_LOOKS ? TG_WORKER_PAUSE_NS : TG_WORKER_PAUSE_MOST_NS);
            /* The dispatcher has the same limit and says TG_TASK_LEAVE; this is for one that hangs. */
            if (p->limit_ns && looks % 1024 == 1023 &&
                tg_warp_shfl(tg_device_ns() - start > 2 * p->limit_ns ? 1u : 0u, 0))
                return;
            continue;
        }
        seen = seq;
        looks = 0;
        bool alone = task->count == TG_TASK_ALONE;
        uint32_t count = alone ? 1 : task->count;
        bool whole = count > TG_TASK_ITEMS || (count == 1 && tg_class_of(task->kept[0]) == TG_CLASS_WARP);
        if (whole || lane < count)
            tg_work(p, number, whole ? 0 : lane, lane, whole, alone);
        tg_warp_sync();
        if (lane == 0) {
            uint64_t at = tg_add_relaxed_u64(p->finished_tail, 1);
            /* Q3 release: the answer, and that STATUS was stored; pairs with Q4. */
            tg_store_release_u32(&p->finished[at & ((UINT64_C(1) << p->finished_shift) - 1u)],
                                 number | tg_cell_lap(at, p->finished_shift));
        }
        tg_warp_sync();
    }
}

#endif
