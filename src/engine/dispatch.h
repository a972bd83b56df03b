/* SPDX-License-Identifier: Apache-2.0
 *
 * The dispatcher: four warps of one block that never stop, each with one part.
 *   the poller   looks for lines over the bus and puts what it found into the inboxes of the levels
 *                (dispatch_poll.h)
 *   the decider  files items under level and tenant, decides who is next (E2, E3, E4), up to 32 items a
 *                round, and hands them on; it obeys the host (dispatch_command.h)
 *   the ender    runs built-in opcodes, ends items, also those of workers, gives slots back, counts
 *                (dispatch_run.h, dispatch_end.h)
 *   the scout    looks for what bodies have published and for the workers that come home from it
 *                (dispatch_born.h)
 * One warp decides at a time, so the decisions follow one another and the bound of levels.h holds exactly:
 * the decider, or, for what comes alone while nothing waits, the poller (dispatch_grant.h).
 *
 * Between them lie queues in the block's shared memory (dispatch_pass.h). A field of struct tg_shared has one
 * warp that writes it. What is rare and needs both halves (commands, cancelled items, opcodes that may steer
 * the engine) the decider does alone while the ender stands still (tg_hold).
 *
 * Written for a warp of 32 lanes in uniform control flow: every call of a tg_warp_ function is reached by all
 * lanes. cuda_warp.cuh provides those, and tg_params() and tg_state(); so does tests/engine_emulated, which
 * runs this very code on a CPU with a fiber a lane. State in struct tg_shared is written by one lane between
 * two tg_warp_sync().
 */
#ifndef TG_ENGINE_DISPATCH_H
#define TG_ENGINE_DISPATCH_H

#include <tidegate/engine.h>

#include "engine/device.h"
#include "engine/ops.h"

#define TG_LANES 32u
#define TG_ALL_LANES 0xFFFFFFFFu
#define TG_FREED_ROOM 320u
#define TG_MAX_TASKS 2048u
/* Powers of two: entries of the queues between the warps. What lies in PASS is claimed and not yet run, and
 * what is urgent comes behind it, so it is short. */
#define TG_INBOX 256u
#define TG_PASS 64u
#define TG_BACK 128u
#define TG_RUN_PARTS 6u /* of 32 lines each: a long look is of 192 lines of one level */
#define TG_PART_LOADS 4u

#define TG_HOME 128u
#define TG_GRANTS 128u /* in a round */

enum tg_role { TG_DECIDER, TG_POLLER, TG_ENDER, TG_SCOUT, TG_ROLES };

/* Lines as loaded, a lane a quarter, so that a lane can take a whole one: quarter q of line i is piece[q][i].
 * The odd length keeps the banks apart. */
struct tg_stage {
    struct {
        TG_ALIGNED(16) uint32_t word[4];
    } piece[TG_LINE_QUARTERS][TG_LANES + 2];
};

/* The dispatcher's state, in the fast memory of its block. */
struct tg_shared {
    /* The decider's. */
    uint64_t calls_tail;
    uint64_t levels; /* state of tg_levels_choose */
    uint64_t started, commands, handed_back, cancelled;
    uint32_t head[TG_DEVICE_QUEUES], tail[TG_DEVICE_QUEUES];
    uint32_t ready[TG_PRIORITY_LEVELS];   /* bit t: the queue of level and tenant t is not empty; exact */
    uint32_t stalled[TG_PRIORITY_LEVELS]; /* this round: the first item needs what is not free */
    struct tg_tenant_turn turn[TG_PRIORITY_LEVELS];
    uint32_t quota[TG_TENANTS];
    uint32_t allowed; /* tenants that may claim */
    uint32_t credit;  /* threads of the host that are free for handlers */
    uint32_t flights; /* items in the hands of the host or of workers */
    uint32_t draining;
    uint32_t overrun; /* a body is past its limit: the end */
    uint32_t queued;  /* items in all queues */
    uint32_t dead;    /* cancelled items that still stand in a queue */
    uint32_t idle_count;
    uint16_t idle[TG_MAX_TASKS]; /* worker warps without a task, but for those of the kept block */
    uint32_t block_kept;         /* 1 + the worker block that is kept for an item; 0: none */
    uint32_t block_warps;        /* those of its warps that are free */
    uint32_t block_queue;        /* level * TG_TENANTS + tenant of the item */
    uint32_t block_tally[TG_MAX_TASKS / TG_BLOCK_WARPS];
    uint8_t seq[TG_MAX_TASKS];         /* of each worker's last task */
    uint8_t seq_alone[TG_MAX_TASKS];   /* likewise, of those given as a line */
    uint8_t seq_born[TG_MAX_TASKS];    /* likewise, of those given as a part of a ring */
    uint32_t born_head[TG_BORN_RINGS]; /* of what bodies published: positions that were given to workers */
    uint32_t born_ready[TG_BORN_SHAPES]
                       [TG_PRIORITY_LEVELS]; /* bit t: the ring is not empty, as far as known */
    uint8_t source[TG_DEVICE_QUEUES];        /* enum tg_source of the last claim of a level and tenant */
    uint32_t born_seen;                      /* of BORN_NEWS */
    uint32_t nothing;                        /* 0 */
    uint32_t flights_told; /* what FLIGHTS was when the scout was told last; or to be told */
    uint32_t born_some;    /* 0: all rings are empty, as far as known */
    uint32_t born_dirty;   /* a worker came home that may have published, and no look was asked for */
    uint32_t granted;      /* it has granted the decisions to the poller (dispatch_grant.h) */
    uint32_t aside;        /* 1 + the worker put aside for that; 0: none */
    struct tg_dfa dfa;
    /* The ender's; the decider's while it holds the ender. */
    uint64_t free_tail[TG_PRIORITY_LEVELS], samples[TG_PRIORITY_LEVELS], io_tail, finished_head, log_dropped,
        outside_faults;
    uint32_t unposted, cursor, freed_count, tasks_ended;
    uint32_t ended;                /* entries of PASS */
    uint32_t freed[TG_FREED_ROOM]; /* slot | level << 20 */
    uint32_t nops, nops_of;        /* ended and not yet in the counters; what is kept of them */
    struct tg_counts posted;
    /* The poller's. */
    uint64_t position[TG_LINE_RINGS]; /* next line of each ring */
    struct tg_stage heads, run;
    /* Words between the warps; who writes them and why stands at their labels in dispatch_pass.h. */
    uint32_t filed[TG_PRIORITY_LEVELS], taken[TG_PRIORITY_LEVELS];
    uint32_t commands_filed, commands_taken;
    uint32_t more, looks;
    uint32_t passed, pass_taken, settled;
    uint32_t back_filed, back_taken;
    uint32_t hold, held, leaving, poller_left;
    uint32_t tasks_given, urgent;
    uint32_t grant, recall;
    uint32_t born_news, born_watch, born_ask, born_answer;
    uint32_t home_filed, home_taken;
    uint32_t born_tail[TG_BORN_RINGS]; /* of what bodies published: positions that are taken */
    uint16_t home[TG_HOME];
    struct { /* the decider's: parts of rings for workers, until they are given */
        uint32_t value, first;
    } grants[TG_GRANTS];
    uint32_t aside_used;                          /* the poller's, with GRANT */
    uint64_t inbox[TG_PRIORITY_LEVELS][TG_INBOX]; /* cells; the low half with TG_FILED_... */
    struct tg_line first[TG_PRIORITY_LEVELS], command;
    uint64_t pass[TG_PASS];    /* cells; the low half with TG_PASS_... */
    uint32_t pass_ns[TG_PASS]; /* of those with TG_PASS_STAMPED: when it was passed, the low half */
    uint64_t back[TG_BACK];    /* cells; the low half with TG_BACK_... */
};

/* What every lane has at hand, besides tg_params() and tg_state() of the block. */
struct tg_warp {
    uint32_t lane, role;
};

struct tg_quarter {
    uint32_t word[4];
};

TG_DEVICE const struct tg_device_params *tg_params(void);
TG_DEVICE struct tg_shared *tg_state(void);

/* An item in a lane's hands. */
struct tg_taken {
    uint32_t slot, level, tenant, cls, kept;
    bool have;
};

/* How many of the mask's lanes come before this one. */
TG_DEVICE uint32_t tg_rank(const struct tg_warp w, uint32_t mask)
{
    return tg_bits(mask & ((1u << w.lane) - 1u));
}

TG_DEVICE uint32_t tg_status_of(uint32_t kept)
{
    return kept & TG_KEPT_STATUS;
}
TG_DEVICE uint32_t tg_level_of(uint32_t kept)
{
    return kept >> TG_KEPT_LEVEL_SHIFT & 7u;
}
TG_DEVICE uint32_t tg_tenant_of(uint32_t kept)
{
    return kept >> TG_KEPT_TENANT_SHIFT & 31u;
}
TG_DEVICE uint32_t tg_class_of(uint32_t kept)
{
    return kept >> TG_KEPT_CLASS_SHIFT & TG_KEPT_CLASS;
}
TG_DEVICE uint32_t tg_kind_of(uint32_t kept)
{
    return kept >> TG_KEPT_KIND_SHIFT & 511u;
}
TG_DEVICE uint32_t tg_with_status(uint32_t kept, uint32_t status)
{
    return (kept & ~TG_KEPT_STATUS) | status;
}

/* A word of the control buffer: the device's own, and the copy that the host reads. One caller at a time. */
TG_DEVICE void tg_word_store(const struct tg_device_params *p, uint32_t word, uint32_t value)
{
    tg_store_relaxed_u32(&p->control[word], value);
    tg_sys_store_relaxed_u32(&p->mirror[word],
                             value); /* M1 relaxed: before a status (S3) or an answer (N5) */
}

/* One lane: what changed in masks and quotas. */
TG_DEVICE_CALL void tg_authority_read(const struct tg_device_params *p, struct tg_shared *s)
{
    uint32_t allowed = 0;
    for (uint32_t t = 0; t < TG_TENANTS; t++) {
        s->quota[t] = tg_load_relaxed_u32(&p->control[TG_CONTROL_TENANT_QUOTA_BASE + t]);
        if (tg_tenant_may_claim(tg_load_relaxed_u32(&p->control[TG_CONTROL_TENANT_MASKS + t]), s->quota[t]))
            allowed |= 1u << t;
    }
    s->allowed = allowed;
}

/* What is kept of an item, from words 4 and 12 of its line. */
TG_DEVICE uint32_t tg_kept_of(uint32_t level, uint32_t word_4, uint32_t word_12)
{
    uint32_t route = word_4 >> TG_LINE_VALUE_SHIFT;
    return TG_KEPT_HELD | TG_SLOT_PUBLISHED | level << TG_KEPT_LEVEL_SHIFT |
           (route & TG_LINE_TENANT) << TG_KEPT_TENANT_SHIFT |
           (route >> TG_LINE_CLASS_SHIFT & TG_LINE_CLASS) << TG_KEPT_CLASS_SHIFT |
           word_12 >> TG_LINE_VALUE_SHIFT << TG_KEPT_KIND_SHIFT |
           (route & TG_LINE_BATCHED ? TG_KEPT_BATCHED : 0) | (route & TG_LINE_SAMPLED ? TG_KEPT_SAMPLED : 0);
}

/* A cell of the device's own queues: the slot, and what was kept of it when it was queued. Of that only the
 * status may change while it waits, when it is cancelled (DEAD counts those). */
TG_DEVICE uint64_t tg_cell(uint32_t slot, uint32_t kept)
{
    return (uint64_t)kept << 32 | slot;
}

/* Lanes' slots go to the end of their queues, in the order of the lanes. The decider's. */
TG_DEVICE void tg_queue(struct tg_warp w, bool have, uint32_t slot, uint32_t kept)
{
    const struct tg_device_params *p = tg_params();
    struct tg_shared *s = tg_state();
    uint32_t level = tg_level_of(kept);
    uint32_t tenant = tg_tenant_of(kept);
    uint32_t q = have ? level * TG_TENANTS + tenant : TG_DEVICE_QUEUES + w.lane;
    uint32_t peers = tg_warp_match(q);
    uint32_t position = 0;
    if (have) {
        position = s->tail[q] + tg_rank(w, peers);
        p->cells[((uint64_t)q << p->queue_shift) + (position & p->queue_mask)] = tg_cell(slot, kept);
    }
    uint32_t n = tg_bits(tg_warp_ballot(have));
    tg_warp_sync();
    if (have && peers >> w.lane == 1u) { /* the last of its queue */
        s->tail[q] = position + 1;
        tg_shared_or(&s->ready[level], 1u << tenant);
    }
    if (w.lane == 0)
        s->queued += n;
    tg_warp_sync();
}

/* How many claims in a row, most at most, go to this level (the caller has chosen it). work: levels that
 * wait, known or not; state: of levels.h, before them. As many single decisions of levels.h would give
 * (tests/engine/test_order.c). */
TG_DEVICE uint32_t tg_level_bound(uint32_t work, uint32_t level, uint32_t most, uint64_t state)
{
    uint32_t others = work & ~(1u << level);
    if (others == 0)
        return most;
    /* The most urgent level goes on until one of the others is overdue; an overdue one has one turn. A level
     * that is more urgent, but not known, does not end it: the caller chose among the known. */
    uint32_t oldest = 0;
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++) {
        uint32_t count = others >> l & 1u ? tg_levels_overtaken(state, l) : 0;
        oldest = count > oldest ? count : oldest;
    }
    bool plain =
        oldest < TG_STARVATION_THRESHOLD && tg_levels_overtaken(state, level) < TG_STARVATION_THRESHOLD;
    uint32_t bound = plain ? TG_STARVATION_THRESHOLD - oldest : 1;
    return most < bound ? most : bound;
}

/* The state after so many of them. */
TG_DEVICE uint64_t tg_level_after(uint32_t work, uint32_t level, uint32_t run, uint64_t state)
{
    return tg_levels_claimed(state, work, level) + tg_levels_spread(work & ~(1u << level)) * (run - 1);
}

/* Likewise go to this tenant of the level (the caller has chosen it, which turn says already), and both
 * states after them. waiting: tenants of level. */
TG_DEVICE uint32_t tg_run_length(uint32_t work, uint32_t level, uint32_t waiting, uint32_t most,
                                 struct tg_tenant_turn *turn, uint64_t *levels)
{
    most = tg_level_bound(work, level, most, *levels);
    uint32_t used = turn->used + (most - 1);
    if (used > TG_TENANT_FAIRNESS_THRESHOLD) {
        if (waiting != 1u << turn->tenant)
            most -= used - TG_TENANT_FAIRNESS_THRESHOLD;
        used = TG_TENANT_FAIRNESS_THRESHOLD;
    }
    turn->used = used;
    *levels = tg_level_after(work, level, most, *levels);
    return most;
}

/* Where the items of a level and tenant wait: in the queue of those that came over the bus, or in the ring of
 * those that bodies published for a lane or for a warp. */
enum tg_source { TG_FROM_QUEUE, TG_FROM_LANES, TG_FROM_WARPS, TG_SOURCES };

/* Tenants that have items of bodies at this level and may be given a worker; none while no worker is free. */
TG_DEVICE uint32_t tg_born_waiting(const struct tg_shared *s, uint32_t level)
{
    return s->idle_count ? s->born_ready[TG_BORN_LANE][level] | s->born_ready[TG_BORN_WARP][level] : 0;
}

/* Lanes 0 .. 4: tenants of the lane's level that may be claimed in this round. */
TG_DEVICE uint32_t tg_waiting(struct tg_warp w, const struct tg_shared *s)
{
    return w.lane < TG_PRIORITY_LEVELS
               ? ((s->ready[w.lane] & ~s->stalled[w.lane]) | tg_born_waiting(s, w.lane)) & s->allowed
               : 0;
}

/* Whose items are next of a level and tenant that waits: each source in its turn. */
TG_DEVICE uint32_t tg_next_source(const struct tg_shared *s, uint32_t level, uint32_t tenant)
{
    uint32_t have = s->ready[level] & ~s->stalled[level] & 1u << tenant ? 1u << TG_FROM_QUEUE : 0;
    if (s->idle_count && (s->born_ready[TG_BORN_LANE][level] >> tenant & 1u))
        have |= 1u << TG_FROM_LANES;
    if (s->idle_count && (s->born_ready[TG_BORN_WARP][level] >> tenant & 1u))
        have |= 1u << TG_FROM_WARPS;
    uint32_t after = have & ~((2u << s->source[level * TG_TENANTS + tenant]) - 1u);
    return (uint32_t)tg_levels_first(after ? after : have);
}

/* Whose turn it is. */
struct tg_pick {
    uint32_t work;    /* levels that wait, known or not */
    uint32_t level;   /* the one whose turn it is ... */
    uint32_t waiting; /* ... its tenants that wait ... */
    uint32_t tenant;  /* ... and the one of them */
    uint64_t levels;  /* the state of levels.h before this claim */
    struct tg_tenant_turn turn;
};

/* By the rules, among what is known to wait; more: levels that wait too, but of which is not known what. due:
 * the queue whose turn was counted already, or TG_DEVICE_QUEUES. False: nothing may be claimed now. */
TG_DEVICE bool tg_choose(struct tg_warp w, uint32_t more, uint32_t due, struct tg_pick *o)
{
    const struct tg_shared *s = tg_state();
    uint32_t waiting = tg_waiting(w, s);
    uint32_t known = tg_warp_ballot(waiting != 0);
    if (known == 0)
        return false;
    o->levels = s->levels;
    o->work = known | more;
    bool decided = due != TG_DEVICE_QUEUES;
    o->level = decided ? due / TG_TENANTS : tg_levels_choose(o->levels, o->work);
    if (!(known >> o->level & 1u)) {
        if (tg_levels_overtaken(o->levels, o->level) >= TG_STARVATION_THRESHOLD)
            return false;
        o->level = tg_levels_choose(o->levels, known);
    }
    o->waiting = tg_warp_shfl(waiting, o->level);
    o->turn = s->turn[o->level];
    o->tenant =
        decided ? due % TG_TENANTS : tg_tenants_choose(&o->turn, o->waiting, TG_TENANT_FAIRNESS_THRESHOLD);
    return true;
}

/* Levels of which lines are known to be there, but not which. */
TG_DEVICE uint32_t tg_more(struct tg_warp w)
{
    return tg_warp_shfl(w.lane == 0 ? tg_block_load_relaxed_u32(&tg_state()->more) : 0, 0); /* B9 */
}

/* How many of class cls may be handed on now, when so many were given away in this round. */
TG_DEVICE uint32_t tg_room(const struct tg_shared *s, uint32_t cls, uint32_t pass_room, uint32_t warps)
{
    if (cls == TG_CLASS_HOST)
        return s->credit;
    if (cls == TG_CLASS_LANE)
        return s->idle_count ? TG_LANES : 0;
    if (cls == TG_CLASS_WARP)
        return s->idle_count - warps;
    return pass_room;
}

/* STARVATION_COUNTER after k more claims at a level. */
TG_DEVICE uint32_t tg_urgent_after(uint32_t urgent, uint32_t level, uint32_t k)
{
    return level <= TG_PRIORITY_HIGH ? urgent + k : 0;
}

/* One lane: the books of k claims of a queue. */
TG_DEVICE void tg_claimed(const struct tg_device_params *p, struct tg_shared *s, uint32_t level,
                          uint32_t tenant, uint32_t k)
{
    /* C6 relaxed: the ender publishes it. */
    tg_block_store_relaxed_u32(&s->urgent, tg_urgent_after(s->urgent, level, k));
    uint32_t quota = s->quota[tenant];
    if (quota != TG_TENANT_QUOTA_UNLIMITED) {
        s->quota[tenant] = quota - k;
        tg_word_store(p, TG_CONTROL_TENANT_QUOTA_BASE + tenant, quota - k);
        if (quota == k)
            s->allowed &= ~(1u << tenant);
    }
}

/* dispatch_block.h */
TG_DEVICE uint32_t tg_block_due(struct tg_warp w);
TG_DEVICE uint32_t tg_block_room(struct tg_warp w, uint32_t q, bool *ret_kept);

/* Takes up to 32 items, in the order of the rules; lane i gets the i-th. Returns how many. pass_room: how
 * many the ender can take. A level of which lines are known to be there, but not which (MORE), waits too: it
 * is overtaken, and when it is due the round ends until the poller has brought them. So E3's bound holds from
 * the publication. *ret_born: it took none, because what is next was published by a body (dispatch_born.h).
 */
TG_DEVICE uint32_t tg_claim(struct tg_warp w, struct tg_taken *mine, uint32_t pass_room, bool *ret_born)
{
    const struct tg_device_params *p = tg_params();
    struct tg_shared *s = tg_state();
    uint32_t n = 0;
    uint32_t warps = 0;
    uint32_t of_class = TG_CLASS_INLINE; /* a round has one class besides INLINE */
    uint32_t more = tg_more(w);
    mine->have = false;
    mine->slot = mine->level = mine->tenant = mine->cls = mine->kept = 0;
    *ret_born = false;
    if (w.lane < TG_PRIORITY_LEVELS)
        s->stalled[w.lane] = 0;
    tg_warp_sync();
    uint32_t due = tg_block_due(w); /* of the first claim of the round */
    while (n < TG_LANES) {
        struct tg_pick o;
        if (!tg_choose(w, more, due, &o))
            break;
        bool decided = due != TG_DEVICE_QUEUES;
        uint32_t level = o.level;
        uint32_t tenant = o.tenant;
        uint32_t q = level * TG_TENANTS + tenant;
        if (!decided && tg_next_source(s, level, tenant) != TG_FROM_QUEUE) {
            *ret_born = n == 0;
            break;
        }
        due = TG_DEVICE_QUEUES;
        uint32_t head = s->head[q];
        uint32_t most = s->tail[q] - head;
        most = most < TG_LANES - n ? most : TG_LANES - n;
        const uint64_t *cells = p->cells + ((uint64_t)q << p->queue_shift);
        uint64_t cell = w.lane < most ? cells[(head + w.lane) & p->queue_mask] : 0;
        uint32_t kept = (uint32_t)(cell >> 32);
        uint32_t cls = tg_class_of(tg_warp_shfl(kept, 0));
        uint32_t other = tg_warp_ballot(w.lane >= most || tg_class_of(kept) != cls);
        most = other ? tg_levels_first(other) : TG_LANES;
        uint32_t room = tg_room(s, cls, pass_room, warps);
        bool keeps = false;
        if (cls != TG_CLASS_INLINE && of_class != TG_CLASS_INLINE &&
            (cls != of_class || cls == TG_CLASS_BLOCK))
            break; /* it is the first of the next round; passed over again and again it would starve */
        if (cls == TG_CLASS_BLOCK)
            room = tg_block_room(w, q, &keeps);
        most = most < room ? most : room;
        uint32_t quota = s->quota[tenant];
        most = most < quota ? most : quota;
        uint32_t k = 0;
        if (decided) /* its turn was counted then */
            k = 1;
        else if (most != 0 || keeps)
            k = tg_run_length(o.work, level, o.waiting, keeps ? 1 : most, &o.turn, &o.levels);
        if (keeps)
            k = 0;
        uint32_t moved = tg_warp_shfl((uint32_t)cell, (w.lane - n) & 31u);
        uint32_t moved_kept = tg_warp_shfl(kept, (w.lane - n) & 31u);
        if (w.lane >= n && w.lane < n + k) {
            mine->have = true;
            mine->slot = moved;
            mine->kept = moved_kept;
            mine->level = level;
            mine->tenant = tenant;
            mine->cls = cls;
        }
        tg_warp_sync();
        if (w.lane == 0 && k == 0) {
            s->stalled[level] |= 1u << tenant;
            if (keeps) {
                s->turn[level] = o.turn;
                s->levels = o.levels;
            }
        } else if (w.lane == 0) {
            s->head[q] = head + k;
            s->queued -= k;
            if (s->head[q] == s->tail[q])
                s->ready[level] &= ~(1u << tenant);
            s->turn[level] = o.turn;
            s->levels = o.levels;
            s->source[q] = TG_FROM_QUEUE;
            tg_claimed(p, s, level, tenant, k);
            if (cls == TG_CLASS_HOST)
                s->credit -= k;
        }
        tg_warp_sync();
        if (k != 0 && cls != TG_CLASS_INLINE)
            of_class = cls;
        if (cls == TG_CLASS_WARP)
            warps += k;
        else if (cls == TG_CLASS_INLINE)
            pass_room -= k;
        n += k;
    }
    if (s->dead && mine->have)
        mine->kept = p->kept[mine->slot];
    return n;
}

#endif
