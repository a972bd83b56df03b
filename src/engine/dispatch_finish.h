/* SPDX-License-Identifier: Apache-2.0
 *
 * What the ender does when workers have finished: it takes their tasks out of the ring of the finished,
 * copies what the items wrote to the host (E7), and keeps the books. Part of the dispatcher (dispatch.h).
 */
#ifndef TG_ENGINE_DISPATCH_FINISH_H
#define TG_ENGINE_DISPATCH_FINISH_H

#include "engine/dispatch_decide.h"
#include "engine/dispatch_work.h"

/* What the items of a task wrote goes to the buffer that the host reads. */
TG_DEVICE_CALL void tg_copy_words(struct tg_warp w, const struct tg_task *task, uint32_t at, bool wrote)
{
    const struct tg_device_params *p = tg_params();
    bool all = false;
    if (tg_warp_ballot(wrote) == 0)
        return;
    for (uint32_t i = 0; i < TG_TASK_WORDS && wrote; i++) {
        uint32_t word = tg_load_relaxed_u32(&task->word[i][at]);
        if (word == TG_ALL_WORDS)
            all = true;
        else
            tg_copy_out(p, word);
    }
    if (tg_warp_ballot(all) == 0)
        return;
    for (uint32_t word = TG_CONTROL_OBSERVABLE_BASE + w.lane; word < p->control_words; word += TG_LANES)
        tg_copy_out(p, word);
}

/* The books of finished tasks: one with its items, a lane each, or up to 32 of one item. Of the items in over
 * by their answers, of others FAULT with the reason why. */
TG_DEVICE_CALL void tg_tasks_finished(struct tg_warp w, uint32_t worker, uint32_t tasks, bool together,
                                      uint32_t over, uint32_t why)
{
    const struct tg_device_params *p = tg_params();
    struct tg_shared *s = tg_state();
    struct tg_task *task = &p->tasks[worker];
    uint32_t at = together ? w.lane : 0;
    uint32_t count = together ? task->count : 1;
    if (count > TG_TASK_ITEMS)
        count = count == TG_TASK_HELPS ? 0 : 1;
    bool have = w.lane < (together ? count : tasks);
    struct tg_taken t = {0, 0, 0, 0, 0, have};
    uint32_t result = TG_WORKED_TOLD;
    struct tg_fault fault = {TG_FAULT_HANDLER, 0, 0};
    bool answered = have && (!together || (over >> w.lane & 1u));
    if (have) {
        t.slot = task->slot[at];
        t.kept = task->kept[at];
    }
    if (answered) {
        result = tg_load_relaxed_u32(&task->result[at]);
        fault.detail = tg_load_relaxed_u32(&task->detail[at]);
    } else if (have) {
        result = TG_WORKED_FAULT | why << TG_WORKED_REASON_SHIFT;
    }
    t.level = tg_level_of(t.kept);
    t.tenant = tg_tenant_of(t.kept);
    t.cls = tg_class_of(t.kept);
    uint32_t kind = tg_kind_of(t.kept);
    bool told = result == TG_WORKED_TOLD && why == 0;
    uint32_t reason = result >> TG_WORKED_REASON_SHIFT & 0xFFu;
    fault.inner_op = result >> TG_WORKED_INNER_SHIFT;
    bool wrote = have && (result & TG_WORKED_WROTE) != 0;
    result &= TG_WORKED_WROTE - 1u;
    tg_copy_words(w, task, at, wrote);
    if (have && kind == TG_KIND_PACKED && (result == TG_WORKED_TOLD || result == TG_WORKED_DONE))
        tg_count_inner(p->items[t.slot].word);
    if (reason)
        fault.reason = reason;
    if (result == TG_WORKED_UNKNOWN)
        fault.reason = TG_FAULT_UNKNOWN_OPCODE;
    /* All of the tasks was read: the workers may have others. */
    bool speaks = together ? w.lane == 0 : have;
    if (speaks && p->watch && why == 0)
        tg_store_relaxed_u64(&task->owner, 0); /* before the next Q1 */
    if (w.role == TG_ENDER)
        tg_back(w, speaks, worker | count << TG_BACK_COUNT_SHIFT | TG_BACK_WORKER | TG_BACK_SLOW, 0, false);
    else if (w.lane == 0) { /* one, that is given up */
        tg_worker_free(s, worker);
        s->flights -= count;
    }
    tg_warp_sync();
    bool again = have && result == TG_WORKED_REQUEUE;
    bool done = have && (result == TG_WORKED_TOLD || result == TG_WORKED_DONE);
    uint32_t agains = tg_warp_ballot(again);
    if (agains) {
        uint32_t kept = tg_with_status(t.kept, TG_SLOT_REQUEUE);
        if (again &&
            p->watch) /* else its worker did. S4 relaxed: a host that sees it reads nothing behind it */
            tg_sys_store_relaxed_u32(&p->ring[t.slot].status, TG_SLOT_REQUEUE);
        if (w.lane == 0)
            tg_bump_relaxed_u64(&p->counts->requeues, tg_bits(agains));
        tg_push(w, again, t.slot, kept);
    }
    if (done)
        tg_bump_relaxed_u64(&p->counts->executions[kind], 1);
    tg_end(w, done || (have && result >= TG_WORKED_FAULT), &t, !done, &fault, kind, told, wrote);
}

/* Of a worker's items that bodies published: what they wrote, and their faults. why: it is given up, and all
 * of them are FAULT with this reason; else 0. */
TG_DEVICE_CALL void tg_born_finished(struct tg_warp w, uint32_t worker, uint32_t why)
{
    const struct tg_device_params *p = tg_params();
    struct tg_shared *s = tg_state();
    struct tg_task *task = &p->tasks[worker];
    uint32_t count = task->count - TG_TASK_BORN;
    bool have = w.lane < count;
    uint32_t at = why ? 0 : w.lane;
    uint32_t kept = have ? task->kept[at] : 0;
    uint32_t result = have && !why ? tg_load_relaxed_u32(&task->result[at]) : 0;
    uint32_t reason = result >> TG_WORKED_REASON_SHIFT & 0xFFu;
    if (reason == 0)
        reason = why ? why : (uint32_t)TG_FAULT_HANDLER;
    bool wrote = (result & TG_WORKED_WROTE) != 0;
    result &= TG_WORKED_WROTE - 1u;
    if (result == TG_WORKED_UNKNOWN)
        reason = TG_FAULT_UNKNOWN_OPCODE;
    tg_copy_words(w, task, at, wrote);
    uint32_t faults = tg_warp_ballot(have && (why || result >= TG_WORKED_FAULT));
    for (uint32_t m = faults; m; m &= m - 1) { /* one by one: they count in a word */
        if (w.lane == (uint32_t)tg_levels_first(m)) {
            tg_announce_fault(p, TG_NO_DEVICE_SLOT, reason);
            tg_bump_relaxed_u64(&p->counts->level_faults[tg_level_of(kept)], 1); /* C4 */
            tg_bump_relaxed_u64(&p->counts->tenant_faults[tg_tenant_of(kept)], 1);
            tg_bump_relaxed_u64(&p->counts->faults[tg_kind_of(kept)], 1);
        }
        tg_warp_sync();
    }
    if (w.lane == 0 && p->watch && !why)
        tg_store_relaxed_u64(&task->owner, 0); /* before the next grant */
    if (w.role == TG_ENDER)
        tg_back(w, w.lane == 0, worker | 1u << TG_BACK_COUNT_SHIFT | TG_BACK_WORKER | TG_BACK_SLOW, 0, false);
    else if (w.lane == 0) {
        tg_worker_free(s, worker);
        s->flights--;
    }
    tg_warp_sync();
    if (w.lane == 0)
        s->unposted += count;
    tg_warp_sync();
}

/* The usual ends of tasks of one item, up to 32: all that is to be known is in the cells. */
TG_DEVICE void tg_ends_quick(struct tg_warp w, uint32_t n, uint64_t cell)
{
    const struct tg_device_params *p = tg_params();
    bool have = w.lane < n;
    uint32_t slot = (uint32_t)cell & TG_ENTRY_SLOT;
    uint32_t worker = (uint32_t)cell >> TG_FINISHED_WORKER_SHIFT & (TG_MAX_TASKS - 1u);
    uint32_t how = (uint32_t)(cell >> 32) & TG_KEPT_STATUS;
    uint32_t kept = tg_with_status((uint32_t)(cell >> 32), TG_SLOT_REQUEUE);
    bool again = have && how == TG_FINISHED_AGAIN;
    bool done = have && !again;
    tg_back(w, have,
            again ? slot | worker << TG_FINISHED_WORKER_SHIFT
                  : worker | 1u << TG_BACK_COUNT_SHIFT | TG_BACK_WORKER,
            again ? kept & ~TG_KEPT_HELD : 0, true);
    uint32_t agains = tg_bits(tg_warp_ballot(again));
    if (w.lane == 0 && agains)
        tg_bump_relaxed_u64(&p->counts->requeues, agains);
    if (tg_warp_ballot(done) == 0)
        return;
    struct tg_fault none = {0, 0, 0};
    struct tg_taken t = {slot, tg_level_of(kept), tg_tenant_of(kept), tg_class_of(kept), kept, have};
    if (done)
        tg_bump_relaxed_u64(&p->counts->executions[tg_kind_of(kept)], 1);
    tg_end(w, done, &t, false, &none, tg_kind_of(kept), true, false);
}

/* Takes in what workers have finished. Returns how many tasks. */
TG_DEVICE uint32_t tg_collect(struct tg_warp w)
{
    const struct tg_device_params *p = tg_params();
    struct tg_shared *s = tg_state();
    uint64_t at = s->finished_head + w.lane;
    const uint64_t *place = &p->finished[at & ((UINT64_C(1) << p->finished_shift) - 1u)];
    /* Q4 relaxed: the cell says all, or it is read again. */
    uint64_t cell = tg_load_relaxed_u64(place);
    bool fresh = (((uint32_t)cell ^ tg_cell_lap(at, p->finished_shift)) & 1u << 31) == 0;
    uint32_t how = (uint32_t)(cell >> 32) & TG_KEPT_STATUS;
    uint32_t stale = tg_warp_ballot(!fresh);
    uint32_t slow = tg_warp_ballot(!fresh || how < TG_FINISHED_TOLD || how == TG_FINISHED_BORN);
    bool born = (tg_warp_ballot(how == TG_FINISHED_BORN) & 1u) != 0;
    uint32_t many = tg_warp_ballot(!fresh || how != TG_FINISHED_ONE);
    uint32_t n = slow ? tg_levels_first(slow) : TG_LANES;
    if (stale & 1u)
        return 0;
    if (n != 0) {
        tg_ends_quick(w, n, cell);
        born = false;
    } else if (born) {
        cell = tg_load_acquire_u64(place); /* Q4 acquire, as below */
        tg_warp_sync();                    /* for what all lanes read behind it */
        n = 1;
        tg_born_finished(w, tg_warp_shfl((uint32_t)cell >> TG_FINISHED_WORKER_SHIFT & (TG_MAX_TASKS - 1u), 0),
                         0);
    } else {
        cell = tg_load_acquire_u64(place); /* Q4 acquire: the task behind the cell; pairs with Q3 */
        tg_warp_sync();                    /* for what all lanes read behind it */
        uint32_t worker = (uint32_t)cell >> TG_FINISHED_WORKER_SHIFT & (TG_MAX_TASKS - 1u);
        n = many ? tg_levels_first(many) : TG_LANES;
        bool together = n == 0;
        n = together ? 1 : n;
        tg_tasks_finished(w,
                          together     ? tg_warp_shfl(worker, 0)
                          : w.lane < n ? worker
                                       : 0,
                          n, together, TG_ALL_LANES, 0);
    }
    tg_warp_sync();
    if (w.lane == 0) {
        s->finished_head += n;
        s->tasks_ended += born ? 0 : n; /* a grant is none of the tasks that are counted */
    }
    tg_warp_sync();
    return n;
}

#endif
