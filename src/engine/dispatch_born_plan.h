/* SPDX-License-Identifier: Apache-2.0
 *
 * Which items of bodies are given to free workers now. Part of the dispatcher (dispatch.h), the decider's.
 *
 * The decisions are those of levels.h and tenants.h, one after the other. Where nothing of the host waits and
 * nothing else may come between, many of them are taken in one step, which leaves what so many single
 * decisions would have left (tests/engine_emulated/test_born_plan):
 *   - of a level that waits alone: its tenants' turns, whole rounds of them at a time (tg_plan_level);
 *   - of several levels: the turns of the levels until their state is what it was, as often as there are
 *     items and workers for all of it (tg_plan_cycle).
 * All that is claimed in a round is given to workers at once, so the order within it is nobody's wait.
 *
 * Rules kept: E2, E3, E4.
 */
#ifndef TG_ENGINE_DISPATCH_BORN_PLAN_H
#define TG_ENGINE_DISPATCH_BORN_PLAN_H

#include "engine/dispatch_born.h"

#define TG_CYCLE_DECISIONS 12u

/* What is planned for this round. */
struct tg_plan {
    uint32_t room;  /* workers there are for it */
    uint32_t count; /* grants, in GRANTS */
};

TG_DEVICE uint32_t tg_grant_value(uint32_t ring, uint32_t count)
{
    return ring | count << TG_GRANT_COUNT_SHIFT;
}

/* A worker takes 1 << this many items. */
TG_DEVICE uint32_t tg_a_worker_shift(uint32_t shape)
{
    return shape == TG_BORN_LANE ? 5 : 0;
}

TG_DEVICE uint32_t tg_workers_for(uint32_t items, uint32_t shift)
{
    return (items + (1u << shift) - 1u) >> shift;
}

TG_DEVICE uint32_t tg_sum_before(struct tg_warp w, uint32_t value)
{
    uint32_t sum = value;
    TG_UNROLL
    for (uint32_t step = 1; step < TG_LANES; step *= 2) {
        uint32_t below = tg_warp_shfl(sum, w.lane - step);
        sum += w.lane >= step ? below : 0;
    }
    return sum - value;
}

/* A grant a worker for this lane's claims: so many from this position of a ring. The caller knows that there
 * is room for those of all lanes. */
TG_DEVICE void tg_plan_put(struct tg_warp w, struct tg_plan *plan, uint32_t ring, uint32_t first,
                           uint32_t take)
{
    struct tg_shared *s = tg_state();
    uint32_t of = tg_warp_ballot(take != 0);
    uint32_t step = 1;
    uint32_t i = 0;
    uint32_t at = plan->count;
    if (!(of & (of - 1))) { /* those of one lane are written by all */
        uint32_t lane = (uint32_t)tg_levels_first(of);
        ring = tg_warp_shfl(ring, lane);
        first = tg_warp_shfl(first, lane);
        take = tg_warp_shfl(take, lane);
        step = TG_LANES;
        i = w.lane;
    }
    uint32_t shift = tg_a_worker_shift(TG_BORN_SHAPE(ring));
    uint32_t grants = tg_workers_for(take, shift);
    if (step == 1) {
        at += tg_sum_before(w, grants);
        plan->count += tg_warp_sum(grants);
    } else {
        plan->count += grants;
    }
    for (; i < grants; i += step) {
        uint32_t left = take - (i << shift);
        s->grants[at + i].value = tg_grant_value(ring, left < 1u << shift ? left : 1u << shift);
        s->grants[at + i].first = first + (i << shift);
    }
}

/* Claims of one level, by the turns of its tenants, as many as amount, the room and what is there allow.
 * waiting: its tenants that wait, whose items have all this shape, without a quota. Returns how many; LEVELS
 * is the caller's. A lane is a tenant, the one whose turn it is first; a step of the loop is the rest of a
 * round of turns, or several rounds, or the rest of all when one tenant waits alone. */
TG_DEVICE uint32_t tg_plan_level(struct tg_warp w, struct tg_plan *plan, uint32_t level, uint32_t shape,
                                 uint32_t waiting, uint32_t amount)
{
    struct tg_shared *s = tg_state();
    const uint32_t quantum = TG_TENANT_FAIRNESS_THRESHOLD;
    uint32_t shift = tg_a_worker_shift(shape);
    struct tg_tenant_turn turn = s->turn[level];
    uint32_t tenant = (turn.tenant + w.lane) % TG_TENANTS;
    bool mine = w.lane < TG_TENANTS && (waiting >> tenant & 1u);
    uint32_t ring = tg_born_ring(level, tenant, shape);
    uint32_t head = s->born_head[ring];
    uint32_t left = mine ? tg_block_load_relaxed_u32(&s->born_tail[ring]) - head : 0; /* B10 */
    uint32_t all = left;
    uint32_t rest = w.lane == 0 ? quantum - (turn.used < quantum ? turn.used : quantum) : quantum;
    uint32_t last = 0;
    uint32_t used = turn.used;
    uint32_t claims = 0;
    while (amount && plan->count < plan->room) {
        uint32_t room = plan->room - plan->count;
        uint32_t active = tg_warp_ballot(left != 0);
        if (active == 0)
            break;
        uint32_t turns = tg_bits(active);
        uint32_t whole = turns * quantum; /* of one round of turns */
        uint32_t most = room << shift < amount ? room << shift : amount;
        uint32_t rounds = turns != 1 && most >= 2 * whole ? most / whole : 0;
        uint32_t k;
        if (turns == 1) {
            k = left < most ? left : most;
        } else if (rounds && tg_warp_ballot(left != 0 && (rest != quantum || left < rounds * quantum)) == 0) {
            k = left ? rounds * quantum : 0;
        } else {
            k = left < rest ? left : rest;
            uint32_t before = tg_sum_before(w, tg_workers_for(k, shift));
            most = before < room ? (room - before) << shift : 0;
            k = k < most ? k : most;
            if (amount < whole) { /* what was cut above lies behind what is cut here, or ends the round */
                before = tg_sum_before(w, k);
                most = before < amount ? amount - before : 0;
                k = k < most ? k : most;
            }
        }
        uint32_t served = tg_warp_ballot(k != 0);
        uint32_t n = tg_warp_sum(k);
        tg_plan_put(w, plan, ring, head + (all - left), k);
        left -= k;
        amount -= n;
        claims += n;
        uint32_t to = tg_hd_last_bit(served);
        uint32_t took = tg_warp_shfl(k, to);
        uint32_t first_rest = tg_warp_shfl(rest, 0);
        bool goes_on = to == last && (turns == 1 || (to == 0 && first_rest != quantum));
        used = goes_on ? used + took : took;
        used = used < quantum ? used : quantum;
        last = to;
        rest = quantum;
    }
    tg_warp_sync();
    if (all != left) {
        s->born_head[ring] = head + (all - left);
        s->source[level * TG_TENANTS + tenant] = (uint8_t)(shape + TG_FROM_LANES);
    }
    uint32_t empty = tg_warp_ballot(mine && left == 0 && all != 0);
    last = tg_warp_shfl(tenant, last);
    uint32_t gone = 0;
    for (; empty; empty &= empty - 1)
        gone |= 1u << (turn.tenant + (uint32_t)tg_levels_first(empty)) % TG_TENANTS;
    if (w.lane == 0) {
        s->born_ready[shape][level] &= ~gone;
        if (claims) {
            s->turn[level].tenant = last;
            s->turn[level].used = used;
            /* C6 relaxed: the ender publishes it. */
            tg_block_store_relaxed_u32(&s->urgent, tg_urgent_after(s->urgent, level, claims));
        }
    }
    tg_warp_sync();
    return claims;
}

/* What of this level's items (lanes 0 .. 4) waits. */
struct tg_levels_left {
    uint32_t waiting; /* tenants */
    uint32_t shape;
    uint32_t left;   /* items */
    uint32_t active; /* how many tenants, */
    uint32_t dry;    /* and those with less than a turn */
};

/* Several levels: the decisions until their state is what it was, as often as it goes. Returns the claims; 0:
 * one decision at a time is what remains. */
TG_DEVICE uint32_t tg_plan_cycle(struct tg_warp w, struct tg_plan *plan, uint32_t work,
                                 struct tg_levels_left *o)
{
    struct tg_shared *s = tg_state();
    uint64_t levels = s->levels;
    uint64_t from = levels & TG_LEVELS_COUNTS;
    uint32_t mine = 0; /* claims of this lane's level in a cycle */
    uint32_t decisions = 0;
    o->left = o->active = o->dry = 0;
    for (uint32_t m = work; m; m &= m - 1) {
        uint32_t level = (uint32_t)tg_levels_first(m);
        uint32_t waiting = tg_warp_shfl(o->waiting, level);
        uint32_t ring = tg_born_ring(level, w.lane, tg_warp_shfl(o->shape, level));
        bool have = w.lane < TG_TENANTS && (waiting >> w.lane & 1u);
        uint32_t left =
            have ? tg_block_load_relaxed_u32(&s->born_tail[ring]) - s->born_head[ring] : 0; /* B10 */
        uint32_t sum = tg_warp_sum(left);
        uint32_t dry = tg_bits(tg_warp_ballot(have && left < TG_TENANT_FAIRNESS_THRESHOLD));
        if (w.lane == level) {
            o->left = sum;
            o->active = tg_bits(waiting);
            o->dry = dry;
        }
    }
    do {
        uint32_t level = tg_levels_choose(levels, work);
        uint32_t run = tg_level_bound(work, level, TG_STARVATION_THRESHOLD, levels);
        levels = tg_level_after(work, level, run, levels);
        if (w.lane == level)
            mine += run;
    } while ((levels & TG_LEVELS_COUNTS) != from && ++decisions < TG_CYCLE_DECISIONS);
    bool returns = (levels & TG_LEVELS_COUNTS) == from;
    uint32_t room = plan->room - plan->count;
    uint32_t cycles = returns ? room * TG_LANES / tg_warp_sum(mine) : 1;
    for (; cycles; cycles /= 2) {
        uint32_t n = cycles * mine;
        uint32_t turns = n / TG_TENANT_FAIRNESS_THRESHOLD + 2;
        uint32_t least = tg_workers_for(n, tg_a_worker_shift(o->shape));
        uint32_t grants = least + (o->active < turns ? o->active : turns) + o->dry;
        grants = o->active == 1 ? least : grants < n ? grants : n;
        if (tg_warp_ballot(n > o->left) == 0 && tg_warp_sum(mine ? grants : 0) <= room)
            break;
    }
    if (cycles == 0)
        return 0;
    uint32_t claims = 0;
    for (uint32_t m = work; m; m &= m - 1) {
        uint32_t level = (uint32_t)tg_levels_first(m);
        claims += tg_plan_level(w, plan, level, tg_warp_shfl(o->shape, level),
                                tg_warp_shfl(o->waiting, level), cycles * tg_warp_shfl(mine, level));
    }
    /* One that has nothing left is not overtaken, also by those that were counted behind its last claim. */
    bool gone =
        w.lane < TG_PRIORITY_LEVELS &&
        ((s->born_ready[TG_BORN_LANE][w.lane] | s->born_ready[TG_BORN_WARP][w.lane]) & s->allowed) == 0;
    levels &= ~(tg_levels_spread(tg_warp_ballot(gone)) * 0xFFu);
    if (w.lane == 0)
        s->levels = levels;
    tg_warp_sync();
    return claims;
}

/* Many decisions at once, where that is possible. */
TG_DEVICE uint32_t tg_plan_many(struct tg_warp w, struct tg_plan *plan)
{
    struct tg_shared *s = tg_state();
    struct tg_levels_left o = {0, 0, 0, 0, 0};
    bool limited = w.lane < TG_TENANTS && s->quota[w.lane] != TG_TENANT_QUOTA_UNLIMITED;
    uint32_t quotas = tg_warp_ballot(limited);
    bool other = false;
    if (w.lane < TG_PRIORITY_LEVELS) {
        uint32_t lanes = s->born_ready[TG_BORN_LANE][w.lane] & s->allowed;
        uint32_t warps = s->born_ready[TG_BORN_WARP][w.lane] & s->allowed;
        o.waiting = lanes | warps;
        o.shape = warps ? TG_BORN_WARP : TG_BORN_LANE;
        other = (s->ready[w.lane] & s->allowed) != 0 || (lanes && warps) || (o.waiting & quotas) != 0;
    }
    uint32_t work = tg_warp_ballot(o.waiting != 0);
    if (work == 0 || tg_warp_ballot(other) != 0 || tg_more(w) != 0)
        return 0;
    if (work & (work - 1))
        return tg_plan_cycle(w, plan, work, &o);
    uint32_t level = (uint32_t)tg_levels_first(work);
    uint32_t claims = tg_plan_level(w, plan, level, tg_warp_shfl(o.shape, level),
                                    tg_warp_shfl(o.waiting, level), TG_ALL_LANES);
    if (w.lane == 0 && claims)
        s->levels = tg_levels_claimed(s->levels, work, level);
    tg_warp_sync();
    return claims;
}

/* One decision after the other, as long as items of bodies are next. */
TG_DEVICE void tg_plan_singly(struct tg_warp w, struct tg_plan *plan)
{
    const struct tg_device_params *p = tg_params();
    struct tg_shared *s = tg_state();
    uint32_t more = tg_more(w);
    while (plan->count < plan->room) {
        struct tg_pick o;
        if (!tg_choose(w, more, TG_DEVICE_QUEUES, &o))
            break;
        uint32_t source = tg_next_source(s, o.level, o.tenant);
        if (source == TG_FROM_QUEUE)
            break;
        uint32_t shape = source - TG_FROM_LANES;
        uint32_t ring = tg_born_ring(o.level, o.tenant, shape);
        uint32_t head = s->born_head[ring];
        uint32_t left = tg_warp_shfl(tg_block_load_relaxed_u32(&s->born_tail[ring]) - head, 0); /* B10 */
        uint32_t room = (plan->room - plan->count) << tg_a_worker_shift(shape);
        uint32_t quota = s->quota[o.tenant];
        uint32_t k = left < room ? left : room;
        k = k < quota ? k : quota;
        k = tg_run_length(o.work, o.level, o.waiting, k, &o.turn, &o.levels);
        tg_plan_put(w, plan, ring, head, w.lane == 0 ? k : 0);
        tg_warp_sync();
        if (w.lane == 0) {
            s->born_head[ring] = head + k;
            if (k == left)
                s->born_ready[shape][o.level] &= ~(1u << o.tenant);
            s->source[o.level * TG_TENANTS + o.tenant] = (uint8_t)source;
            s->turn[o.level] = o.turn;
            s->levels = o.levels;
            tg_claimed(p, s, o.level, o.tenant, k);
        }
        tg_warp_sync();
    }
}

/* Gives what is planned to workers that are free. */
TG_DEVICE void tg_plan_hand(struct tg_warp w, const struct tg_plan *plan)
{
    const struct tg_device_params *p = tg_params();
    struct tg_shared *s = tg_state();
    tg_warp_sync();
    uint32_t idle = s->idle_count;
    uint32_t worker[TG_GRANTS / TG_LANES];
    uint32_t seq[TG_GRANTS / TG_LANES];
    TG_UNROLL
    for (uint32_t k = 0; k < TG_GRANTS / TG_LANES; k++) {
        uint32_t i = TG_LANES * k + w.lane;
        worker[k] = i < plan->count ? s->idle[idle - 1 - i] : 0;
    }
    TG_UNROLL
    for (uint32_t k = 0; k < TG_GRANTS / TG_LANES; k++)
        seq[k] = s->seq_born[worker[k]];
    TG_UNROLL
    for (uint32_t k = 0; k < TG_GRANTS / TG_LANES; k++) {
        uint32_t i = TG_LANES * k + w.lane;
        if (i >= plan->count)
            continue;
        uint32_t value = s->grants[i].value;
        uint32_t next = seq[k] % 254u + 1u;
        struct tg_task *task = &p->tasks[worker[k]];
        uint32_t v[4] = {value << TG_LINE_VALUE_SHIFT | TG_ALONE_LAP | next, s->grants[i].first, 0, 0};
        s->seq_born[worker[k]] = (uint8_t)next;
        if (p->watch) { /* who ends it there knows of it */
            uint32_t ring = value & ((1u << TG_GRANT_COUNT_SHIFT) - 1u);
            task->count = TG_TASK_BORN + (value >> TG_GRANT_COUNT_SHIFT);
            task->kept[0] = TG_BORN_LEVEL(ring) << TG_KEPT_LEVEL_SHIFT |
                            TG_BORN_TENANT(ring) << TG_KEPT_TENANT_SHIFT |
                            (uint32_t)TG_KIND_UNKNOWN << TG_KEPT_KIND_SHIFT;
        }
        tg_store_quarter(task->grant, v); /* Q1: it is whole by itself */
    }
    tg_warp_sync();
    if (w.lane == 0) {
        s->idle_count = idle - plan->count;
        s->flights += plan->count;
    }
    tg_warp_sync();
}

/* Claims of what bodies published, as long as it is their turn, for the workers that are free. Returns how
 * many workers got something. */
TG_DEVICE uint32_t tg_born_round(struct tg_warp w)
{
    struct tg_shared *s = tg_state();
    struct tg_plan plan = {s->idle_count < TG_GRANTS ? s->idle_count : TG_GRANTS, 0};
    if (tg_plan_many(w, &plan) == 0)
        tg_plan_singly(w, &plan);
    if (plan.count)
        tg_plan_hand(w, &plan);
    return plan.count;
}

#endif
