/* SPDX-License-Identifier: Apache-2.0
 *
 * The dispatcher: one warp that never stops. It polls the line rings, files items under level and tenant,
 * decides who is next (E2, E3, E4) and takes up to 32 items a round; dispatch_run.h runs and ends them,
 * dispatch_command.h obeys the host. It is the only one that decides, so the decisions follow one another and
 * the bound of levels.h holds exactly.
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
#define TG_MORE_LOADS 8u /* of 8 lines each, the longest look at one level */
#define TG_COMMAND_LANE (4u * TG_RING_COMMANDS)
#define TG_BACKLOG 128u /* queued items beyond which the long look is short */
#define TG_FREED_ROOM 320u
#define TG_MAX_TASKS 2048u

/* The dispatcher's own state, in the fast memory of its block. */
struct tg_shared {
    uint64_t position[TG_LINE_RINGS]; /* next line of each ring */
    uint64_t free_tail[TG_PRIORITY_LEVELS], samples[TG_PRIORITY_LEVELS], calls_tail, io_tail;
    uint64_t levels; /* state of tg_levels_choose */
    uint64_t finished_head;
    uint64_t started, commands, handed_back, cancelled, log_dropped, outside_faults;
    uint32_t head[TG_DEVICE_QUEUES], tail[TG_DEVICE_QUEUES];
    uint32_t ready[TG_PRIORITY_LEVELS];   /* bit t: the queue of level and tenant t is not empty; exact */
    uint32_t stalled[TG_PRIORITY_LEVELS]; /* this round: the first item needs what is not free */
    struct tg_tenant_turn turn[TG_PRIORITY_LEVELS];
    uint32_t quota[TG_TENANTS];
    uint32_t allowed; /* tenants that may claim */
    uint32_t credit;  /* threads of the host that are free for handlers */
    uint32_t flights; /* items in the hands of the host or of workers */
    uint32_t urgent;  /* claims at CRITICAL or HIGH since the last one elsewhere */
    uint32_t unposted, draining, cursor;
    uint32_t overrun;     /* a body is past its limit: the end */
    uint32_t warm, loads; /* the level that had lines last; loads of 8 lines in its long look */
    uint32_t queued;      /* items in all queues */
    uint32_t dead;        /* cancelled items that still stand in a queue */
    uint32_t freed_count;
    uint32_t freed[TG_FREED_ROOM]; /* slot | level << 20 */
    uint32_t idle_count;
    uint16_t idle[TG_MAX_TASKS]; /* worker warps without a task, but for those of the kept block */
    uint32_t block_kept;         /* 1 + the worker block that is kept for an item; 0: none */
    uint32_t block_warps;        /* those of its warps that are free */
    uint32_t block_queue;        /* level * TG_TENANTS + tenant of the item */
    uint32_t block_tally[TG_MAX_TASKS / TG_BLOCK_WARPS];
    struct tg_dfa dfa;
    struct tg_counts posted;
};

/* What every lane has at hand, besides tg_params() and tg_state() of the block. */
struct tg_warp {
    uint32_t lane;
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
TG_DEVICE uint32_t tg_rank(const struct tg_warp *w, uint32_t mask)
{
    return tg_bits(mask & ((1u << w->lane) - 1u));
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

/* A cell of the device's own queues: the slot, and what was kept of it when it was queued. Of that only the
 * status may change while it waits, when it is cancelled (DEAD counts those). */
TG_DEVICE uint64_t tg_cell(uint32_t slot, uint32_t kept)
{
    return (uint64_t)kept << 32 | slot;
}

/* One lane: a slot goes to the end of its queue. */
TG_DEVICE void tg_push(uint32_t slot)
{
    uint32_t kept = tg_params()->kept[slot];
    uint32_t level = tg_level_of(kept);
    uint32_t tenant = tg_tenant_of(kept);
    uint32_t q = level * TG_TENANTS + tenant;
    uint64_t *cells = tg_params()->cells + ((uint64_t)q << tg_params()->queue_shift);
    cells[tg_state()->tail[q]++ & tg_params()->queue_mask] = tg_cell(slot, kept);
    tg_state()->ready[level] |= 1u << tenant;
    tg_state()->queued++;
}

/* Files the items whose lines the groups of four lanes hold: lane 4g + i has quarter i. */
TG_DEVICE_CALL void tg_file(struct tg_warp *w, bool valid, uint32_t level, struct tg_quarter v)
{
    const struct tg_device_params *p = tg_params();
    struct tg_shared *s = tg_state();
    uint32_t group = w->lane & ~3u;
    uint32_t value = v.word[0] >> TG_LINE_VALUE_SHIFT;
    uint32_t slot = tg_warp_shfl(value, group);
    uint32_t route = tg_warp_shfl(value, group + 1);
    uint32_t kind = tg_warp_shfl(value, group + 3);
    uint32_t tenant = route & TG_LINE_TENANT;
    valid = valid && slot < p->slots && tenant < TG_TENANTS;
    if (valid)
        tg_quarter_store(&p->items[slot].word[4 * (w->lane & 3u)], v.word);
    bool leads = valid && group == w->lane;
    uint32_t q = leads ? level * TG_TENANTS + tenant : TG_DEVICE_QUEUES + w->lane;
    uint32_t peers = tg_warp_match(q);
    uint32_t position = 0;
    if (leads) {
        uint32_t cls = route >> TG_LINE_CLASS_SHIFT & TG_LINE_CLASS;
        position = s->tail[q] + tg_rank(w, peers);
        uint32_t kept = TG_KEPT_HELD | TG_SLOT_PUBLISHED | level << TG_KEPT_LEVEL_SHIFT |
                        tenant << TG_KEPT_TENANT_SHIFT | cls << TG_KEPT_CLASS_SHIFT |
                        kind << TG_KEPT_KIND_SHIFT | (route & TG_LINE_BATCHED ? TG_KEPT_BATCHED : 0) |
                        (route & TG_LINE_SAMPLED ? TG_KEPT_SAMPLED : 0);
        p->cells[((uint64_t)q << p->queue_shift) + (position & p->queue_mask)] = tg_cell(slot, kept);
        p->kept[slot] = kept;
        tg_bump_relaxed_u64(&p->generation[slot], 1); /* as the publisher counted: T1 */
        if (route & TG_LINE_SAMPLED)
            p->stamp[slot] = tg_device_ns();
    }
    tg_warp_sync();
    if (leads && peers >> w->lane == 1u) /* the last of its queue */
        s->tail[q] = position + 1;
    if (leads)
        tg_shared_or(&s->ready[level], 1u << tenant);
    uint32_t filed = tg_bits(tg_warp_ballot(leads));
    if (w->lane == 0)
        s->queued += filed;
    tg_warp_sync();
}

/* Begins to read this lane's quarter of the line at a position. */
TG_DEVICE struct tg_quarter tg_look(const struct tg_device_params *p, uint32_t ring, uint64_t position,
                                    uint32_t quarter)
{
    const struct tg_line *line = &p->lines[ring][position & ((UINT64_C(1) << p->line_shift[ring]) - 1u)];
    struct tg_quarter v;
    /* N2: one access; pairs with N1 of device_item.c. */
    tg_sys_load_quarter(&line->word[4 * quarter], v.word);
    return v;
}

/* Is it of that position's lap? */
TG_DEVICE bool tg_fits(const struct tg_device_params *p, uint32_t ring, uint64_t position,
                       const struct tg_quarter *v)
{
    return (v->word[0] & TG_LINE_LAP) == tg_line_lap(position, p->line_shift[ring]);
}

/* Which groups of four lanes have a whole line. */
TG_DEVICE uint32_t tg_whole(uint32_t lanes)
{
    uint32_t m = lanes & lanes >> 1;
    m &= m >> 2;
    return m & 0x11111111u; /* a bit a group, at its first lane */
}

/* An item whose turn it is the moment it comes; false: it takes the long way. others: levels that have work
 * too. */
TG_DEVICE bool tg_express(struct tg_warp *w, uint32_t level, uint32_t others, struct tg_quarter v);

/* What a look found. */
struct tg_found {
    uint32_t lines;
    bool commanded; /* a command: its quarters lie in lanes TG_COMMAND_LANE .. of line */
    struct tg_quarter line;
};

/* One look at everything: the next line of each of so many rings (all, or all but the commands), of the level
 * that had a line last time (warm) two more, and while that had many, up to 64 after those. All loads are
 * under way before the first is looked at. A read over the bus costs by its bytes, so the long look grows
 * from 8 lines only while all of it is full. */
TG_DEVICE struct tg_found tg_poll(struct tg_warp *w, uint32_t rings)
{
    const struct tg_device_params *p = tg_params();
    struct tg_shared *s = tg_state();
    uint32_t group = w->lane >> 2;
    uint32_t warm = s->warm;
    uint32_t loads = warm < TG_PRIORITY_LEVELS ? s->loads : 0;
    if (s->queued > TG_BACKLOG) /* there is enough to do: what is urgent is looked for more often */
        loads = loads < 1 ? loads : 1;
    uint32_t ring = group < TG_LINE_RINGS ? group : warm;
    struct tg_quarter more[TG_MORE_LOADS];
    struct tg_found found;
    bool looks = ring < rings;
    uint64_t mine = looks ? s->position[ring] + (group < TG_LINE_RINGS ? 0 : group - TG_LINE_RINGS + 1) : 0;
    uint64_t from = loads ? s->position[warm] + 3 + group : 0;
    found.line.word[0] = 0;
    if (looks)
        found.line = tg_look(p, ring, mine, w->lane & 3u);
    TG_UNROLL
    for (uint32_t j = 0; j < TG_MORE_LOADS; j++)
        if (j < loads)
            more[j] = tg_look(p, warm, from + 8 * j, w->lane & 3u);
    uint32_t whole = tg_whole(tg_warp_ballot(looks && tg_fits(p, ring, mine, &found.line)));
    uint32_t items = whole & 0x000FFFFFu;
    found.commanded = whole >> TG_COMMAND_LANE & 1u;
    found.lines = tg_bits(whole & 0x00FFFFFFu);
    /* The two more of the warm level count only behind its first. */
    uint32_t extra = 0;
    if (warm < TG_PRIORITY_LEVELS && (items >> (4 * warm) & 1u) && (whole >> 24 & 1u))
        extra = whole >> 28 & 1u ? 2 : 1;
    uint32_t left = items;
    if (items && !found.commanded && rings == TG_LINE_RINGS) {
        uint32_t first = tg_levels_first(items) / 4;
        uint32_t others = 0; /* levels that have work besides, by this look */
        for (uint32_t l = first + 1; l < TG_PRIORITY_LEVELS; l++)
            others |= (items >> (4 * l) & 1u) << l;
        if (!(extra && first == warm) && tg_express(w, first, others, found.line))
            left &= left - 1;
    }
    if (left)
        tg_file(w, group < TG_PRIORITY_LEVELS && (left >> (4 * group) & 1u), ring, found.line);
    if (extra)
        tg_file(w, group >= TG_LINE_RINGS && group - TG_LINE_RINGS < extra, ring, found.line);
    uint32_t run = 0; /* lines of the long look */
    bool full = extra == 2;
    TG_UNROLL
    for (uint32_t j = 0; j < TG_MORE_LOADS; j++) {
        if (full && j < loads) {
            uint32_t lanes = tg_warp_ballot(tg_fits(p, warm, from + 8 * j, &more[j]));
            uint32_t gap = ~tg_whole(lanes) & 0x11111111u;
            uint32_t lines = gap ? tg_levels_first(gap) / 4 : 8;
            if (lines)
                tg_file(w, group < lines, warm, more[j]);
            run += lines;
            full = lines == 8;
        }
    }
    tg_warp_sync();
    if (w->lane == 0) {
        for (uint32_t r = 0; r < TG_LINE_RINGS; r++)
            s->position[r] += whole >> (4 * r) & 1u;
        if (warm < TG_PRIORITY_LEVELS)
            s->position[warm] += extra + run;
        if (full)
            s->loads = loads == 0 ? 1 : loads * 2 < TG_MORE_LOADS ? loads * 2 : TG_MORE_LOADS;
        else
            s->loads = (run + 7) / 8;
        /* Stays with the level that has most behind it. */
        if (items && !(warm < TG_PRIORITY_LEVELS && (items >> (4 * warm) & 1u))) {
            s->warm = tg_levels_first(items) / 4;
            s->loads = 0;
        }
    }
    tg_warp_sync();
    found.lines += extra + run;
    return found;
}

/* How many claims in a row, at most most, go to this level and tenant; the state after them. */
TG_DEVICE uint32_t tg_run_length(struct tg_warp *w, const uint32_t *waiting, uint32_t work, uint32_t level,
                                 uint32_t tenant, uint32_t most, struct tg_tenant_turn *turn,
                                 uint64_t *levels)
{
    uint64_t state = *levels;
    uint32_t n = 1;
    (void)w;
    state = tg_levels_claimed(state, work, level);
    if (work == 1u << level && waiting[level] == 1u << tenant) {
        /* Nobody else waits: the same decision again and again. */
        uint32_t used = turn->used + (most - 1);
        turn->used = used < TG_TENANT_FAIRNESS_THRESHOLD ? used : TG_TENANT_FAIRNESS_THRESHOLD;
        *levels = state;
        return most;
    }
    for (; n < most; n++) {
        struct tg_tenant_turn next = *turn;
        if (tg_levels_choose(state, work) != level ||
            tg_tenants_choose(&next, waiting[level], TG_TENANT_FAIRNESS_THRESHOLD) != tenant)
            break;
        *turn = next;
        state = tg_levels_claimed(state, work, level);
    }
    *levels = state;
    return n;
}

/* How many of class cls may be handed on now, when warps workers were given away in this round. */
TG_DEVICE uint32_t tg_room(const struct tg_shared *s, uint32_t cls, uint32_t warps)
{
    if (cls == TG_CLASS_HOST)
        return s->credit;
    if (cls == TG_CLASS_LANE)
        return s->idle_count ? TG_LANES : 0;
    if (cls == TG_CLASS_WARP)
        return s->idle_count - warps;
    return TG_LANES;
}

/* dispatch_block.h */
TG_DEVICE uint32_t tg_block_due(const struct tg_warp *w);
TG_DEVICE uint32_t tg_block_room(const struct tg_warp *w, uint32_t q, bool *ret_kept);

/* Takes up to 32 items, in the order of the rules; lane i gets the i-th. Returns how many. */
TG_DEVICE uint32_t tg_claim(struct tg_warp *w, struct tg_taken *mine)
{
    const struct tg_device_params *p = tg_params();
    struct tg_shared *s = tg_state();
    uint32_t n = 0;
    uint32_t warps = 0;
    uint32_t of_class = TG_CLASS_INLINE; /* a round has one class besides INLINE */
    mine->have = false;
    mine->slot = mine->level = mine->tenant = mine->cls = mine->kept = 0;
    if (w->lane < TG_PRIORITY_LEVELS)
        s->stalled[w->lane] = 0;
    tg_warp_sync();
    uint32_t due = tg_block_due(w); /* of the first claim of the round */
    while (n < TG_LANES) {
        uint32_t waiting[TG_PRIORITY_LEVELS];
        uint32_t work = 0;
        for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++) {
            waiting[l] = s->ready[l] & s->allowed & ~s->stalled[l];
            work |= (waiting[l] ? 1u : 0u) << l;
        }
        if (work == 0)
            break;
        uint64_t levels = s->levels;
        bool decided = due != TG_DEVICE_QUEUES;
        uint32_t level = decided ? due / TG_TENANTS : tg_levels_choose(levels, work);
        struct tg_tenant_turn turn = s->turn[level];
        uint32_t tenant = decided ? due % TG_TENANTS
                                  : tg_tenants_choose(&turn, waiting[level], TG_TENANT_FAIRNESS_THRESHOLD);
        uint32_t q = level * TG_TENANTS + tenant;
        due = TG_DEVICE_QUEUES;
        uint32_t head = s->head[q];
        uint32_t most = s->tail[q] - head;
        most = most < TG_LANES - n ? most : TG_LANES - n;
        const uint64_t *cells = p->cells + ((uint64_t)q << p->queue_shift);
        uint64_t cell = w->lane < most ? cells[(head + w->lane) & p->queue_mask] : 0;
        uint32_t kept = (uint32_t)(cell >> 32);
        uint32_t cls = tg_class_of(tg_warp_shfl(kept, 0));
        uint32_t other = tg_warp_ballot(w->lane >= most || tg_class_of(kept) != cls);
        most = other ? tg_levels_first(other) : TG_LANES;
        uint32_t room = tg_room(s, cls, warps);
        bool keeps = false;
        if (cls != TG_CLASS_INLINE && of_class != TG_CLASS_INLINE && cls != of_class)
            room = 0;
        else if (cls == TG_CLASS_BLOCK)
            room = of_class == TG_CLASS_BLOCK ? 0 : tg_block_room(w, q, &keeps);
        most = most < room ? most : room;
        uint32_t quota = s->quota[tenant];
        most = most < quota ? most : quota;
        uint32_t k = 0;
        if (decided) /* its turn was counted then */
            k = 1;
        else if (most != 0 || keeps)
            k = tg_run_length(w, waiting, work, level, tenant, keeps ? 1 : most, &turn, &levels);
        if (keeps)
            k = 0;
        uint32_t moved = tg_warp_shfl((uint32_t)cell, (w->lane - n) & 31u);
        uint32_t moved_kept = tg_warp_shfl(kept, (w->lane - n) & 31u);
        if (w->lane >= n && w->lane < n + k) {
            mine->have = true;
            mine->slot = moved;
            mine->kept = moved_kept;
            mine->level = level;
            mine->tenant = tenant;
            mine->cls = cls;
        }
        tg_warp_sync();
        if (w->lane == 0 && k == 0) {
            s->stalled[level] |= 1u << tenant;
            if (keeps) {
                s->turn[level] = turn;
                s->levels = levels;
            }
        } else if (w->lane == 0) {
            s->head[q] = head + k;
            s->queued -= k;
            if (s->head[q] == s->tail[q])
                s->ready[level] &= ~(1u << tenant);
            s->turn[level] = turn;
            s->levels = levels;
            s->urgent = level <= TG_PRIORITY_HIGH ? s->urgent + k : 0;
            if (quota != TG_TENANT_QUOTA_UNLIMITED) {
                s->quota[tenant] = quota - k;
                tg_word_store(p, TG_CONTROL_TENANT_QUOTA_BASE + tenant, quota - k);
                if (quota == k)
                    s->allowed &= ~(1u << tenant);
            }
            if (cls == TG_CLASS_HOST)
                s->credit -= k;
        }
        tg_warp_sync();
        if (k != 0 && cls != TG_CLASS_INLINE)
            of_class = cls;
        if (cls == TG_CLASS_WARP)
            warps += k;
        n += k;
    }
    if (s->dead && mine->have)
        mine->kept = p->kept[mine->slot];
    return n;
}

#endif
