/* SPDX-License-Identifier: Apache-2.0
 *
 * Bodies that do not return (device_body_limit_ms). The host looks four times a limit (TG_COMMAND_BODIES): a
 * worker that has had the same task at five looks in a row is past the limit. A kernel cannot stop one of its
 * warps, so the engine ends: what workers still run is FAULT, the stuck ones with reason TG_FAULT_TIMEOUT,
 * the rest is handed back, and the dispatcher leaves. Part of the dispatcher (dispatch.h).
 *
 * Who says how an item ended. A worker that returns after that must not touch its slot any more. OWNER of a
 * task decides: the lane of each item adds its bit when it has an answer, the dispatcher adds TG_ABANDONED;
 * who comes second finds the other's (W1, acq_rel, one word). A grant (dispatch_born_run.h) has one bit, and
 * leaves its number when its worker is on its way home.
 */
#ifndef TG_ENGINE_DISPATCH_WATCH_H
#define TG_ENGINE_DISPATCH_WATCH_H

#include "engine/dispatch_command.h"

TG_DEVICE_CALL void tg_born_finished(struct tg_warp w, uint32_t worker, uint32_t why);
TG_DEVICE_CALL void tg_tasks_finished(struct tg_warp w, uint32_t worker, uint32_t tasks, bool together,
                                      uint32_t over, uint32_t why);

/* Marks the workers that have a task: WATCH_BUSY. */
TG_DEVICE void tg_watch_busy(struct tg_warp w)
{
    const struct tg_device_params *p = tg_params();
    const struct tg_shared *s = tg_state();
    for (uint32_t i = w.lane; i < p->workers; i += TG_LANES)
        p->watch[i].busy = 1;
    tg_warp_sync();
    for (uint32_t i = w.lane; i < s->idle_count; i += TG_LANES)
        p->watch[s->idle[i]].busy = 0;
    if (s->block_kept && w.lane < TG_BLOCK_WARPS && (s->block_warps >> w.lane & 1u))
        p->watch[(s->block_kept - 1) * TG_BLOCK_WARPS + w.lane].busy = 0;
    tg_warp_sync();
}

/* One look; returns how many workers had their task at so many looks before this one. */
TG_DEVICE_CALL uint32_t tg_watch(struct tg_warp w, uint32_t looks)
{
    const struct tg_device_params *p = tg_params();
    uint32_t past = 0;
    tg_watch_busy(w);
    for (uint32_t from = 0; from < p->workers; from += TG_LANES) {
        uint32_t i = from + w.lane;
        bool stuck = false;
        if (i < p->workers) {
            struct tg_watch *watch = &p->watch[i];
            uint32_t seq = /* of either kind of task */
                tg_load_relaxed_u32(&p->tasks[i].seq) + (tg_load_relaxed_u32(&p->tasks[i].grant[0]) << 8);
            watch->looks = watch->busy && watch->seq == seq ? watch->looks + 1 : 0;
            watch->seq = seq;
            stuck = watch->looks >= looks;
        }
        past += tg_bits(tg_warp_ballot(stuck));
    }
    return past;
}

/* Ends everything that workers have. */
TG_DEVICE_CALL void tg_abandon_all(struct tg_warp w, uint32_t looks)
{
    const struct tg_device_params *p = tg_params();
    for (uint32_t i = 0; i < p->workers; i++) {
        uint32_t busy = tg_warp_shfl(w.lane == 0 ? p->watch[i].busy : 0, 0);
        if (!busy)
            continue;
        uint32_t stuck = tg_warp_shfl(w.lane == 0 ? p->watch[i].looks >= looks : 0, 0);
        uint64_t before = 0;
        if (w.lane == 0)
            before = tg_add_acqrel_u64(&p->tasks[i].owner, TG_ABANDONED); /* W1 */
        uint32_t why = stuck ? TG_FAULT_TIMEOUT : TG_FAULT_DEVICE;
        uint32_t home = tg_warp_shfl((uint32_t)(before >> TG_OWNER_SHIFT), 0);
        before = tg_warp_shfl((uint32_t)before, 0);
        if (p->tasks[i].count >= TG_TASK_BORN && home == tg_state()->seq_born[i])
            continue; /* done, and on its way home */
        if (p->tasks[i].count >= TG_TASK_BORN)
            tg_born_finished(w, i, before ? 0 : why);
        else
            tg_tasks_finished(w, i, 1, true, (uint32_t)before, why);
    }
    /* No slot is used again before the host has seen how it ended: it frees them all (device.c). */
    if (w.lane == 0)
        tg_state()->freed_count = 0;
    tg_warp_sync();
}

#endif
