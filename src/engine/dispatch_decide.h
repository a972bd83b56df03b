/* SPDX-License-Identifier: Apache-2.0
 *
 * The decider's way of an item: out of the inbox, by a short way where there is nothing to decide, else
 * through the queues; then on to the ender, to a worker, or to the host. Part of the dispatcher (dispatch.h).
 */
#ifndef TG_ENGINE_DISPATCH_DECIDE_H
#define TG_ENGINE_DISPATCH_DECIDE_H

#include "engine/dispatch_born_plan.h"
#include "engine/dispatch_run.h"

/* What has come, as one look at the words between the warps tells: each lane has its own counters. */
#define TG_NEWS_COMMAND TG_RING_COMMANDS
#define TG_NEWS_BACK (TG_LINE_RINGS)
#define TG_NEWS_HOME (TG_LINE_RINGS + 1u)
#define TG_NEWS_BORN (TG_LINE_RINGS + 2u)
#define TG_NEWS_PASSED (TG_LINE_RINGS + 3u) /* COUNT alone: entries in PASS */
#define TG_NEWS_MORE (TG_LINE_RINGS + 4u)   /* ... the mask MORE */
#define TG_NEWS_GRANT (TG_LINE_RINGS + 5u)  /* ... the tenants that the poller decides for */
#define TG_NEWS_FLIES (TG_LINE_RINGS + 6u)  /* TELL */
struct tg_news {
    uint32_t lanes; /* a bit a level, TG_NEWS_... */
    uint32_t count; /* in lane i: how many of the i-th */
    uint32_t taken; /* in lane i: how many before them */
    bool tell;      /* the scout is to be told what flies */
};

/* The two words of each lane, and whether their difference is the other way round. */
struct tg_ear {
    const uint32_t *come, *own;
    uint32_t back;
};

/* A lane's two words are chosen once, not branched to in each look: lanes that go different ways go one after
 * the other, and a look is waited for in every round. */
TG_DEVICE struct tg_ear tg_ear_of(struct tg_warp w)
{
    const struct tg_shared *s = tg_state();
    uint32_t level = w.lane < TG_PRIORITY_LEVELS ? w.lane : 0;
    struct tg_ear e = {&s->filed[level], &s->taken[level],
                       w.lane == TG_NEWS_PASSED ? TG_ALL_LANES : 0};  /* B2 */
    e.come = w.lane == TG_NEWS_COMMAND ? &s->commands_filed : e.come; /* B2 */
    e.own = w.lane == TG_NEWS_COMMAND ? &s->commands_taken : e.own;
    e.come = w.lane == TG_NEWS_BACK ? &s->back_filed : e.come; /* B6 */
    e.own = w.lane == TG_NEWS_BACK ? &s->back_taken : e.own;
    e.come = w.lane == TG_NEWS_HOME ? &s->home_filed : e.come; /* H2 */
    e.own = w.lane == TG_NEWS_HOME ? &s->home_taken : e.own;
    e.come = w.lane == TG_NEWS_BORN ? &s->born_news : e.come; /* H2 */
    e.own = w.lane == TG_NEWS_BORN ? &s->born_seen : e.own;
    e.come = w.lane == TG_NEWS_PASSED ? &s->pass_taken : e.come; /* B8; the other way round */
    e.own = w.lane == TG_NEWS_PASSED ? &s->passed : e.own;
    e.come = w.lane == TG_NEWS_MORE ? &s->more : e.come; /* B9 */
    e.own = w.lane == TG_NEWS_MORE ? &s->nothing : e.own;
    e.come = w.lane == TG_NEWS_GRANT ? &s->grant : e.come; /* asked again before it counts */
    e.own = w.lane == TG_NEWS_GRANT ? &s->nothing : e.own;
    e.come = w.lane == TG_NEWS_FLIES ? &s->flights : e.come;
    e.own = w.lane == TG_NEWS_FLIES ? &s->flights_told : e.own;
    return e;
}

TG_DEVICE struct tg_news tg_listen_by(struct tg_ear e)
{
    uint32_t word = tg_block_load_acquire_u32(e.come);
    uint32_t taken = *e.own;
    struct tg_news n = {0, ((word - taken) ^ e.back) - e.back, taken, false};
    n.lanes = tg_warp_ballot(n.count != 0);
    n.tell = (n.lanes >> TG_NEWS_FLIES & 1u) != 0;
    n.lanes &= (2u << TG_NEWS_BORN) - 1u;
    tg_warp_sync();
    return n;
}

TG_DEVICE struct tg_news tg_listen(struct tg_warp w)
{
    return tg_listen_by(tg_ear_of(w));
}

/* The decider has done with so many entries of an inbox. */
TG_DEVICE void tg_taken_in(struct tg_warp w, uint32_t level, uint32_t n)
{
    struct tg_shared *s = tg_state();
    tg_warp_sync();
    if (w.lane == 0)
        tg_block_store_behind_u32(&s->taken[level], s->taken[level] + n); /* B3 */
    tg_warp_sync();
}

/* The first entry of an inbox may have its line in FIRST: who runs the item later finds it in ITEMS. low: the
 * low half of lane 0's cell. */
TG_DEVICE void tg_keep_first(struct tg_warp w, uint32_t level, uint32_t low)
{
    low = tg_warp_shfl(low, 0);
    if ((low & TG_FILED_HERE) && w.lane < TG_LINE_QUARTERS)
        tg_quarter_store(&tg_params()->items[low & TG_ENTRY_SLOT].word[4 * w.lane],
                         &tg_state()->first[level].word[4 * w.lane]);
}

/* Files everything of these levels. */
TG_DEVICE void tg_file(struct tg_warp w, const struct tg_news *news, uint32_t levels)
{
    const struct tg_device_params *p = tg_params();
    const struct tg_shared *s = tg_state();
    for (uint32_t m = levels; m; m &= m - 1) {
        uint32_t level = tg_levels_first(m);
        uint32_t count = tg_warp_shfl(news->count, level);
        for (uint32_t i = 0; i < count; i += TG_LANES) {
            bool have = i + w.lane < count;
            uint64_t cell = have ? s->inbox[level][(s->taken[level] + i + w.lane) & (TG_INBOX - 1u)] : 0;
            uint32_t slot = (uint32_t)cell & TG_ENTRY_SLOT;
            uint32_t kept = (uint32_t)(cell >> 32);
            if (i == 0)
                tg_keep_first(w, level, (uint32_t)cell);
            if (have) {
                p->kept[slot] = kept;
                tg_bump_relaxed_u64(&p->generation[slot], 1); /* as the publisher counted: T1 */
                if (kept & TG_KEPT_SAMPLED)
                    p->stamp[slot] = tg_device_ns();
            }
            tg_queue(w, have, slot, kept);
        }
        tg_taken_in(w, level, count);
    }
}

/* Has the ender nothing to do, and no worker either? Then observable words are the caller's. */
TG_DEVICE bool tg_all_settled(struct tg_warp w)
{
    struct tg_shared *s = tg_state();
    return s->flights == 0 && tg_heard(w, &s->settled) == s->passed; /* H2 */
}

TG_DEVICE uint32_t tg_stamped(uint32_t kept)
{
    return kept & TG_KEPT_SAMPLED ? TG_PASS_STAMPED : 0;
}

/* A built-in opcode of three arguments. */
TG_DEVICE bool tg_express_builtin(struct tg_warp w, uint32_t slot, uint32_t kept, const uint32_t *words)
{
    const struct tg_device_params *p = tg_params();
    uint32_t kind = tg_kind_of(kept);
    uint32_t done = 0;
    if (kind != TG_OP_NOP && !tg_all_settled(w))
        return false;
    if (w.lane == 0) {
        struct tg_fault fault = {0, 0, 0};
        uint32_t args[TG_ARGS_PER_SLOT] = {0};
        for (uint32_t i = 0; i < 3; i++)
            args[i] = words[1 + i];
        done = kind == TG_OP_NOP || tg_builtin_alone(kind, args, &fault);
        if (done && kind == TG_OP_NOP) /* S3 */
            tg_sys_store_relaxed_u32(&p->ring[slot].status, TG_SLOT_DONE);
        else if (done)
            tg_sys_store_release_u32(&p->ring[slot].status, TG_SLOT_DONE);
    }
    if (!tg_warp_shfl(done, 0))
        return false;
    tg_pass(w, w.lane == 0, slot | TG_PASS_TOLD | TG_PASS_FRESH | tg_stamped(kept), kept, kind == TG_OP_NOP);
    return true;
}

/* An opcode of the image: the line goes to a free worker, a quarter a lane (0 .. 3), without a wait. */
TG_DEVICE void tg_start_alone(struct tg_warp w, uint32_t worker, uint32_t level, uint32_t quarter,
                              const uint32_t word[4])
{
    struct tg_shared *s = tg_state();
    uint32_t seq = s->seq_alone[worker] % 254u + 1u;
    if (quarter < TG_LINE_QUARTERS) {
        uint32_t value = quarter == 2 ? level : word[0] >> TG_LINE_VALUE_SHIFT;
        uint32_t v[4] = {value << TG_LINE_VALUE_SHIFT | TG_ALONE_LAP | seq, word[1], word[2], word[3]};
        tg_store_quarter(&tg_params()->tasks[worker].line[4 * quarter], v); /* Q1: each is whole by itself */
    }
    tg_warp_sync();
    if (w.lane == 0)
        s->seq_alone[worker] = (uint8_t)seq;
    tg_warp_sync();
}

/* One lane: what is kept of it, and the counts of its claim. */
TG_DEVICE void tg_book_alone(uint32_t slot, uint32_t kept)
{
    const struct tg_device_params *p = tg_params();
    p->kept[slot] = kept;
    if (kept & TG_KEPT_SAMPLED)
        p->stamp[slot] = tg_device_ns();
    tg_bump_relaxed_u64(&p->generation[slot], 1);                        /* T1 */
    tg_bump_relaxed_u64(&p->counts->level_claims[tg_level_of(kept)], 1); /* C4 */
    tg_bump_relaxed_u64(&p->counts->tenant_claims[tg_tenant_of(kept)], 1);
}

/* One lane: a worker has it; the decider's. */
TG_DEVICE void tg_flies_alone(struct tg_shared *s)
{
    s->flights++;
    tg_block_store_release_u32(&s->tasks_given, s->tasks_given + 1); /* H3 release: what was kept of it */
}

/* May the first item of an inbox, and what follows of its tenant, be claimed the moment it comes? Its level
 * has nothing else, and the rule names that level (E2, E3), so the decision is the one tg_claim would take,
 * without a queue between. A quota takes the long way. others: levels that have work too, by this look. */
TG_DEVICE bool tg_may_pass(struct tg_warp w, const struct tg_news *news, uint32_t level, uint32_t tenant,
                           uint32_t others, uint32_t *ret_work)
{
    const struct tg_shared *s = tg_state();
    uint32_t allowed = s->allowed; /* all at once: one wait instead of five */
    uint32_t ready = w.lane < TG_PRIORITY_LEVELS ? s->ready[w.lane] : 0;
    uint32_t own = s->ready[level];
    if (s->born_some) {
        ready |= w.lane < TG_PRIORITY_LEVELS ? tg_born_waiting(s, w.lane) : 0;
        own |= tg_born_waiting(s, level);
    }
    ready &= allowed;
    uint32_t quota = s->quota[tenant];
    uint64_t state = s->levels;
    uint32_t more = tg_warp_shfl(news->count, TG_NEWS_MORE);
    uint32_t work = tg_warp_ballot(ready != 0) | others | more | 1u << level;
    *ret_work = work;
    bool may = own == 0 && (allowed >> tenant & 1u) != 0 && quota == TG_TENANT_QUOTA_UNLIMITED &&
               tg_params()->control_floor != 0;
    return may && (work == 1u << level || tg_levels_choose(state, work) == level);
}

/* The books of n claims that went a short way, of a tenant without a quota: what changes in them. */
struct tg_books {
    struct tg_tenant_turn turn;
    uint64_t levels;
    uint32_t urgent;
};

TG_DEVICE struct tg_books tg_short_books(uint32_t work, uint32_t level, uint32_t tenant, uint32_t n)
{
    const struct tg_shared *s = tg_state();
    struct tg_books b = {s->turn[level], s->levels, s->urgent};
    tg_tenants_choose(&b.turn, 1u << tenant, TG_TENANT_FAIRNESS_THRESHOLD);
    tg_run_length(work, level, 1u << tenant, n, &b.turn, &b.levels);
    b.urgent = tg_urgent_after(b.urgent, level, n);
    return b;
}

/* One lane, after all have read them. */
TG_DEVICE void tg_write_books(uint32_t level, const struct tg_books *b)
{
    struct tg_shared *s = tg_state();
    s->turn[level] = b->turn;
    s->levels = b->levels;
    tg_block_store_relaxed_u32(&s->urgent, b->urgent); /* C6 */
}

TG_DEVICE void tg_keep_books(struct tg_warp w, uint32_t work, uint32_t level, uint32_t tenant)
{
    struct tg_books b = tg_short_books(work, level, tenant, 1);
    tg_warp_sync();
    if (w.lane == 0)
        tg_write_books(level, &b);
    tg_warp_sync();
}

/* One item alone, small and without a fence, whose line is at hand. */
TG_DEVICE bool tg_express(struct tg_warp w, const struct tg_news *news, uint32_t level, uint32_t others,
                          uint64_t cell, uint32_t room)
{
    struct tg_shared *s = tg_state();
    const struct tg_line *line = &s->first[level];
    uint32_t slot = (uint32_t)cell & TG_ENTRY_SLOT;
    uint32_t kept = (uint32_t)(cell >> 32);
    uint32_t tenant = tg_tenant_of(kept);
    uint32_t cls = tg_class_of(kept);
    uint32_t kind = tg_kind_of(kept);
    uint32_t work;
    if ((kept & TG_KEPT_BATCHED) || !tg_may_pass(w, news, level, tenant, others, &work))
        return false;
    if (cls == TG_CLASS_INLINE) {
        if (room == 0 || kind >= TG_OP_BATCH_FENCE || kind == TG_OP_MEMCPY ||
            !tg_express_builtin(w, slot, kept, line->word))
            return false;
    } else if ((cls == TG_CLASS_LANE || cls == TG_CLASS_WARP) && s->idle_count != 0 && !tg_params()->watch) {
        tg_start_alone(w, s->idle[s->idle_count - 1], level, w.lane, &line->word[4 * (w.lane & 3u)]);
        if (w.lane == 0) {
            s->idle_count--;
            tg_book_alone(slot, tg_with_status(kept, TG_SLOT_CLAIMED));
            tg_flies_alone(s);
        }
        tg_warp_sync();
    } else {
        return false;
    }
    tg_keep_books(w, work, level, tenant);
    return true;
}

/* Many for the ender from one tenant, while nobody else waits. n: so many are in the inbox, taken: so many
 * were before, cell: the lane's. Returns how many; *ret_may: the first of them may go this way, as soon as
 * the ender has room. */
TG_DEVICE uint32_t tg_straight(struct tg_warp w, const struct tg_news *news, uint32_t level, uint32_t n,
                               uint32_t taken, uint64_t cell, uint32_t room, bool *ret_may)
{
    struct tg_shared *s = tg_state();
    n = n < room ? n : room ? room : n;
    n = n < TG_LANES ? n : TG_LANES;
    uint32_t kept = (uint32_t)(cell >> 32);
    uint32_t passed = s->passed;
    uint32_t tenant = tg_tenant_of(tg_warp_shfl(kept, 0));
    uint32_t other =
        ~tg_warp_ballot(w.lane < n && tg_tenant_of(kept) == tenant && tg_class_of(kept) == TG_CLASS_INLINE);
    n = other ? tg_levels_first(other) : TG_LANES;
    uint32_t work;
    *ret_may = tg_may_pass(w, news, level, tenant, 0, &work) && work == 1u << level && n != 0;
    if (!*ret_may || room < TG_LANES / 2)
        return 0;
    bool nops =
        tg_warp_ballot(w.lane < n && (tg_kind_of(kept) != TG_OP_NOP || (kept & TG_KEPT_BATCHED))) == 0;
    if (!nops)
        tg_keep_first(w, level, (uint32_t)cell);
    struct tg_books books = tg_short_books(work, level, tenant, n);
    if (w.lane < n)
        tg_pass_entry(passed + w.lane, ((uint32_t)cell & TG_ENTRY_SLOT) | TG_PASS_FRESH | tg_stamped(kept),
                      kept);
    tg_warp_sync();
    if (w.lane == 0) {
        tg_passed(passed + n, nops);
        tg_write_books(level, &books);
        tg_block_store_behind_u32(&s->taken[level], taken + n); /* B3 */
    }
    tg_warp_sync();
    return n;
}

/* Takes in what the poller found. True: that was all that there is to do in this round. */
TG_DEVICE bool tg_take_in(struct tg_warp w, const struct tg_news *news)
{
    struct tg_shared *s = tg_state();
    uint32_t levels = news->lanes & TG_LEVELS_ALL;
    if (levels == 0)
        return false;
    uint32_t level = tg_levels_first(levels);
    uint32_t count = tg_warp_shfl(news->count, level);
    uint32_t taken = tg_warp_shfl(news->taken, level);
    uint32_t others = levels & (levels - 1);
    uint32_t room = TG_PASS - tg_warp_shfl(news->count, TG_NEWS_PASSED);
    uint64_t cell = w.lane < count ? s->inbox[level][(taken + w.lane) & (TG_INBOX - 1u)] : 0;
    uint32_t queued = s->queued;
    uint32_t low = tg_warp_shfl((uint32_t)cell, 0);
    if (count == 1 && (low & TG_FILED_HERE)) {
        uint64_t first = tg_cell(low, tg_warp_shfl((uint32_t)(cell >> 32), 0));
        if (tg_express(w, news, level, others, first, room)) {
            tg_taken_in(w, level, 1);
            levels = others;
        }
    } else if (others == 0 && queued == 0) {
        bool may;
        uint32_t n = tg_straight(w, news, level, count, taken, cell, room, &may);
        if (n == count || n == TG_LANES || (may && room < TG_LANES))
            return news->lanes == levels; /* the rest is looked at again, or stays until the ender has room */
        struct tg_news rest = *news;
        rest.count -= n;
        tg_file(w, &rest, levels);
        return false;
    }
    tg_file(w, news, levels);
    return false;
}

/* Cancelled items that were still queued: their claim did not happen. The ender is held. */
TG_DEVICE_CALL void tg_drop_dead(struct tg_warp w, bool dead, const struct tg_taken *t)
{
    const struct tg_device_params *p = tg_params();
    struct tg_shared *s = tg_state();
    uint32_t lanes = tg_warp_ballot(dead);
    if (lanes == 0)
        return;
    for (uint32_t m = lanes; m; m &= m - 1) {
        if (w.lane == tg_levels_first(m)) {
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
    tg_free(w, frees, t->slot, t->kept);
}

TG_DEVICE_CALL void tg_hand_to_workers(struct tg_warp w, bool hands, struct tg_taken t, bool together);
TG_DEVICE_CALL void tg_hand_to_host(struct tg_warp w, bool hands, struct tg_taken t)
{
    struct tg_shared *s = tg_state();
    uint32_t calls = tg_warp_ballot(hands);
    tg_hand_over(w, hands, &t, TG_SLOT_CLAIMED, &tg_params()->calls, &s->calls_tail);
    if (w.lane == 0)
        s->flights += tg_bits(calls);
    tg_warp_sync();
}

/* What only the decider may do alone: cancelled items, and bodies that may steer the engine. */
TG_DEVICE_CALL void tg_round_alone(struct tg_warp w, struct tg_taken t, bool dead, bool runs)
{
    tg_hold(w);
    tg_drop_dead(w, dead, &t);
    if (tg_warp_ballot(runs)) {
        t.have = runs;
        tg_run_mixed(w, t, false, true);
    }
    tg_let_go(w);
}

/* Hands on what tg_claim took. */
TG_DEVICE void tg_round(struct tg_warp w, const struct tg_taken *t)
{
    struct tg_shared *s = tg_state();
    bool dead = t->have && !(1u << tg_status_of(t->kept) & TG_FROM_CLAIM);
    bool live = t->have && !dead;
    bool here = live && t->cls == TG_CLASS_INLINE;
    bool alone = tg_params()->control_floor == 0;
    if (tg_warp_ballot(dead || (alone && here)))
        tg_round_alone(w, *t, dead, alone && here);
    if (!alone && tg_warp_ballot(here))
        tg_pass(w, here,
                t->slot | (here && s->quota[t->tenant] != TG_TENANT_QUOTA_UNLIMITED ? TG_PASS_ORDERED : 0),
                t->kept, false);
    bool out = live && !here;
    uint32_t outs = tg_warp_ballot(out);
    if (outs == 0)
        return;
    tg_count_claims(w, out, outs, tg_alike(out, outs, t->level * TG_TENANTS + t->tenant), t);
    if (tg_warp_ballot(out && t->cls == TG_CLASS_HOST))
        tg_hand_to_host(w, out && t->cls == TG_CLASS_HOST, *t);
    if (tg_warp_ballot(out && t->cls == TG_CLASS_LANE))
        tg_hand_to_workers(w, out && t->cls == TG_CLASS_LANE, *t, true);
    if (tg_warp_ballot(out && t->cls == TG_CLASS_WARP))
        tg_hand_to_workers(w, out && t->cls == TG_CLASS_WARP, *t, false);
    if (tg_warp_ballot(out && t->cls == TG_CLASS_BLOCK))
        tg_hand_to_block(w, out && t->cls == TG_CLASS_BLOCK, t);
}

#endif
