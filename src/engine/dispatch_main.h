/* SPDX-License-Identifier: Apache-2.0
 *
 * The loops of the decider and the ender, and the hand-over to workers (dispatch_work.h is theirs).
 */
#ifndef TG_ENGINE_DISPATCH_MAIN_H
#define TG_ENGINE_DISPATCH_MAIN_H

#include "engine/dispatch_finish.h"
#include "engine/dispatch_poll.h"
#include "engine/dispatch_watch.h"
#include "engine/dispatch_work.h"

/* Of the decider: looks at its queues without anything. */
#define TG_LOOKS_UNTIL_LEAVE 4u /* looks of the poller without anything before a drain is over */
#define TG_LOOKS_UNTIL_NAP 8192u
/* Of the ender. */
#define TG_ENDS_UNTIL_FREE 16u  /* empty looks before free cells are written */
#define TG_FEW_SLOTS 3u         /* of a free batch: below it free cells are written at once */
#define TG_ENDS_UNTIL_POST 512u /* ... before the counters are */
#define TG_POST_EVERY 65536u
#define TG_NAP_NS 200u

TG_DEVICE_CALL void tg_hand_to_workers(struct tg_warp w, bool hands, struct tg_taken t, bool together)
{
    const struct tg_device_params *p = tg_params();
    struct tg_shared *s = tg_state();
    uint32_t lanes = tg_warp_ballot(hands);
    if (lanes == 0)
        return;
    uint32_t tasks = together ? 1 : tg_bits(lanes);
    uint32_t place = tg_rank(w, lanes); /* of the item in its task, or of its task */
    uint32_t idle = s->idle_count - 1;
    uint32_t worker = s->idle[hands && !together ? idle - place : idle];
    struct tg_task *task = &p->tasks[worker];
    uint32_t at = together ? place : 0;
    bool first = hands && (!together || place == 0);
    uint32_t seq = s->seq[worker] % 254u + 1u;
    if (hands) {
        p->kept[t.slot] = tg_with_status(t.kept, TG_SLOT_CLAIMED);
        if (p->watch) /* else its worker does: here it would be waited for */
            tg_sys_store_relaxed_u32(&p->ring[t.slot].status, TG_SLOT_CLAIMED); /* S4 */
        task->slot[at] = t.slot;
        task->kept[at] = t.kept;
        if (first)
            task->count = together ? tg_bits(lanes) : 1;
    }
    tg_warp_sync();
    if (first)
        /* Q1 release: the task and the items' lines; pairs with Q2. */
        tg_store_release_u32(&task->seq, seq);
    tg_warp_sync();
    if (first)
        s->seq[worker] = (uint8_t)seq;
    if (w.lane == 0) {
        s->idle_count -= tasks;
        s->flights += tg_bits(lanes);
        tg_block_store_relaxed_u32(&s->tasks_given, s->tasks_given + tasks); /* H3 */
    }
    tg_warp_sync();
}

/* Many NOPs of one level and tenant: what tg_run_mixed does, without what they do not need. stamped: the
 * lane's latency begins at ns, the low half. */
TG_DEVICE void tg_end_nops(struct tg_warp w, uint32_t n, uint32_t slot, uint32_t kept, bool told,
                           bool stamped, uint32_t ns)
{
    const struct tg_device_params *p = tg_params();
    struct tg_shared *s = tg_state();
    bool have = w.lane < n;
    if (have && !told) /* S3 relaxed: they have no effects */
        tg_sys_store_relaxed_u32(&p->ring[slot].status, TG_SLOT_DONE);
    uint32_t freed = s->freed_count; /* the ender's words, all in one wait */
    uint32_t nops_of = s->nops_of;
    uint32_t nops = s->nops;
    uint32_t unposted = s->unposted;
    uint32_t of = tg_warp_shfl(kept, 0) & TG_KEPT_QUEUE;
    uint32_t level = tg_level_of(of);
    bool sampled = have && (kept & TG_KEPT_SAMPLED);
    uint32_t samples = tg_warp_ballot(sampled);
    if (nops_of != of) {
        tg_count_nops(w);
        nops = 0;
    }
    if (freed + TG_LANES > TG_FREED_ROOM) {
        tg_free_flush(w, false);
        freed = 0;
    }
    if (samples) {
        uint64_t first = s->samples[level];
        if (sampled) {
            uint64_t now = tg_device_ns();
            tg_write_sample(level, first + tg_rank(w, samples), tg_tenant_of(kept), TG_OP_NOP,
                            stamped ? (uint32_t)now - ns : now - p->stamp[slot]);
        }
        tg_warp_sync();
        if (w.lane == 0)
            s->samples[level] = first + tg_bits(samples);
    }
    if (have) {
        s->freed[freed + w.lane] = slot | level << 20;
        p->kept[slot] = tg_with_status(kept, TG_SLOT_DONE) & ~TG_KEPT_HELD;
    }
    freed += n;
    if (w.lane == 0) {
        s->nops_of = of;
        s->nops = nops + n;
        s->unposted = unposted + n;
        s->freed_count = freed;
    }
    tg_warp_sync();
    if (freed > p->free_batch)
        tg_free_flush(w, false);
}

/* Runs and ends what the decider passed, up to 32 of n, from that place on. */
TG_DEVICE void tg_end_passed(struct tg_warp w, uint32_t at, uint32_t n)
{
    struct tg_shared *s = tg_state();
    n = n < TG_LANES ? n : TG_LANES;
    bool have = w.lane < n;
    uint64_t cell = have ? s->pass[(at + w.lane) & (TG_PASS - 1u)] : 0;
    uint32_t ns = s->pass_ns[(at + w.lane) & (TG_PASS - 1u)];
    uint32_t slot = (uint32_t)cell & TG_ENTRY_SLOT;
    uint32_t kept = (uint32_t)(cell >> 32);
    bool told = ((uint32_t)cell & TG_PASS_TOLD) != 0;
    bool ordered = ((uint32_t)cell & TG_PASS_ORDERED) != 0;
    bool stamped = ((uint32_t)cell & TG_PASS_STAMPED) != 0;
    if ((uint32_t)cell & TG_PASS_FRESH)
        tg_bump_relaxed_u64(&tg_params()->generation[slot], 1); /* as the publisher counted: T1 */
    const uint32_t differs = TG_KEPT_STATUS | TG_KEPT_COUNTED | TG_KEPT_SAMPLED;
    uint32_t same = tg_warp_shfl(kept & ~differs, 0);
    bool nop = have && !ordered && (kept & ~differs) == same && tg_kind_of(kept) == TG_OP_NOP &&
               !(kept & TG_KEPT_BATCHED);
    uint32_t nops = tg_warp_ballot(nop);
    if (w.lane == 0)
        tg_block_store_behind_u32(&s->pass_taken, at + n); /* B7 */
    if (tg_bits(nops) == n) {
        tg_end_nops(w, n, slot, kept, told, stamped, ns);
    } else {
        if (stamped) { /* by this lane's clock; it alone reads it again */
            uint64_t now = tg_device_ns();
            tg_params()->stamp[slot] = now - ((uint32_t)now - ns);
        }
        struct tg_taken t = {slot, tg_level_of(kept), tg_tenant_of(kept), tg_class_of(kept), kept, have};
        tg_run_mixed(w, t, told, ordered);
    }
    tg_warp_sync();
    if (w.lane == 0)
        s->ended = at + n;
    tg_warp_sync();
}

/* The decider's until it lets go. */
TG_DEVICE void tg_stand_still(struct tg_warp w, uint32_t turn)
{
    struct tg_shared *s = tg_state();
    if (w.lane == 0)
        tg_block_store_release_u32(&s->held, turn); /* H1 */
    tg_warp_sync();
    while (tg_heard(w, &s->hold) == turn && !tg_heard(w, &s->leaving)) /* H2 */
        tg_warp_idle();
}

TG_DEVICE void tg_ender(uint32_t lane)
{
    const struct tg_device_params *p = tg_params();
    struct tg_shared *s = tg_state();
    struct tg_warp w = {lane, TG_ENDER};
    for (uint32_t looks = 0;;) {
        /* All that it listens to in one wait: H2, B6, H3 and H7 (relaxed: the cells of the finished say
         * more). */
        const uint32_t *word = w.lane == 0   ? &s->hold
                               : w.lane == 1 ? &s->passed
                               : w.lane == 2 ? &s->tasks_given
                                             : &s->born_watch;
        uint32_t heard = tg_block_load_acquire_u32(word);
        uint32_t at = s->ended;
        uint32_t tasks_ended = s->tasks_ended;
        uint32_t turn = tg_warp_shfl(heard, 0);
        uint32_t n = tg_warp_shfl(heard, 1) - at;
        uint32_t given = tg_warp_shfl(heard, 2);
        uint32_t watch = tg_warp_shfl(heard, 3);
        uint32_t collected = 0;
        if (n)
            tg_end_passed(w, at, n);
        if (given != tasks_ended || watch) {
            collected = tg_collect(w);
            if (w.lane == 0 && watch) /* workers may have counted */
                s->unposted |= 1u;
            tg_warp_sync();
        }
        if (s->unposted >= TG_POST_EVERY)
            tg_counts_publish(w, false);
        if (n == 0 && s->settled != s->ended && w.lane == 0)
            tg_block_store_release_u32(&s->settled, s->ended); /* H1, when that is all: it waits for stores */
        tg_warp_sync();
        if (n || collected) {
            looks = 0;
        } else if (turn & 1u) {
            if (tg_heard(w, &s->passed) != at) /* B6: what was passed before HOLD was stored comes first */
                continue;
            tg_stand_still(w, turn);
            if (tg_heard(w, &s->leaving)) /* H2 */
                return;
            looks = 0; /* slots may have ended meanwhile */
        } else {
            tg_warp_idle();
            looks = looks + 1 ? looks + 1 : looks;
            if (looks == (p->free_batch < TG_FEW_SLOTS ? 1 : TG_ENDS_UNTIL_FREE))
                tg_free_flush(w, true);
            if (looks % TG_ENDS_UNTIL_POST == 0 && s->unposted)
                tg_counts_publish(w, false);
            if (looks > TG_LOOKS_UNTIL_NAP)
                tg_device_pause(TG_NAP_NS);
        }
    }
}

/* False: it is given up, and nobody else is here. */
TG_DEVICE bool tg_dispatcher_start(struct tg_warp w)
{
    const struct tg_device_params *p = tg_params();
    struct tg_shared *s = tg_state();
    if (w.lane == 0) {
        s->started = tg_device_ns();
        s->idle_count = p->workers;
        tg_authority_read(p, s);
    }
    for (uint32_t i = w.lane; i < p->workers; i += TG_LANES)
        s->idle[i] = (uint16_t)(p->workers - 1 - i);
    tg_warp_sync();
    /* A1 acquire: blocks count themselves in; the host gives up on us after a while (device.c). */
    while (tg_warp_ballot(tg_load_acquire_u32(p->arrivals) < p->blocks) != 0) {
        if (p->limit_ns && tg_warp_shfl(tg_device_ns() - s->started > p->limit_ns ? 1u : 0u, 0))
            break;
        /* A6 relaxed: nothing is read behind it; pairs with A5. */
        if (tg_warp_shfl(w.lane == 0 ? tg_sys_load_relaxed_u32(&p->answers->given_up) : 0, 0))
            return false;
        tg_warp_idle();
    }
    if (w.lane == 0)
        tg_sys_store_release_u32(&p->answers->arrived, 1); /* N5 */
    return true;
}

/* The ender is held. */
TG_DEVICE_CALL void tg_dispatcher_leave(struct tg_warp w, uint32_t why)
{
    const struct tg_device_params *p = tg_params();
    struct tg_shared *s = tg_state();
    if (w.lane == 0)
        tg_block_store_release_u32(&s->leaving, 1); /* H1 */
    tg_warp_sync();
    while (!tg_heard(w, &s->poller_left)) /* H2 */
        tg_warp_idle();
    if (why == TG_LEFT_DRAINED || why == TG_LEFT_OVERRUN)
        tg_hand_back_all(w);
    tg_free_flush(w, true);
    tg_born_publish(w);
    tg_counts_publish(w, true);
    for (uint32_t i = w.lane; i < p->workers; i += TG_LANES)
        tg_store_release_u32(&p->tasks[i].seq, TG_TASK_LEAVE); /* Q1 */
    if (w.lane < TG_LINE_RINGS)
        tg_sys_store_relaxed_u64(&p->answers->consumed[w.lane], s->position[w.lane]);
    tg_warp_sync();
    if (w.lane == 0)
        tg_sys_store_release_u32(&p->answers->left, 1 + why); /* N5 */
}

/* Nothing came and nothing could be claimed for so many looks; the poller had counted LOOKS at the last news.
 * True: it is over. */
TG_DEVICE bool tg_idle(struct tg_warp w, uint32_t looks, uint32_t since)
{
    struct tg_shared *s = tg_state();
    if (s->draining && s->flights == 0 && looks >= 2 && tg_born_settled(w) &&
        tg_heard(w, &s->looks) - since > TG_LOOKS_UNTIL_LEAVE) { /* H2 */
        uint32_t queued = s->queued;
        tg_hold(w);
        if (s->queued == queued && tg_listen(w).lanes == 0) {
            tg_dispatcher_leave(w, TG_LEFT_DRAINED);
            return true;
        }
        tg_let_go(w);
    }
    tg_warp_idle();
    if (looks > TG_LOOKS_UNTIL_NAP)
        tg_device_pause(TG_NAP_NS);
    return false;
}

/* Takes in what is no item. */
TG_DEVICE void tg_take_rest(struct tg_warp w, const struct tg_news *news)
{
    if (news->lanes >> TG_NEWS_BACK & 1u)
        tg_take_back(w, tg_warp_shfl(news->count, TG_NEWS_BACK));
    if (news->lanes >> TG_NEWS_HOME & 1u)
        tg_take_home(w, tg_warp_shfl(news->count, TG_NEWS_HOME));
    if (news->lanes >> TG_NEWS_BORN & 1u)
        tg_born_listen(w, tg_warp_shfl(news->count, TG_NEWS_BORN));
    if (news->lanes >> TG_NEWS_COMMAND & 1u)
        tg_command(w);
}

/* Claims and hands on what may be now. Returns how many, of bodies' items how many workers got some. */
TG_DEVICE uint32_t tg_claim_some(struct tg_warp w)
{
    const struct tg_device_params *p = tg_params();
    struct tg_shared *s = tg_state();
    uint32_t claimed = 0;
    bool born = tg_born_any(w);
    if ((s->queued || born) && s->granted)
        tg_take_over(w);
    if (s->queued) {
        struct tg_taken mine;
        claimed = tg_claim(w, &mine, p->control_floor ? tg_pass_room(w) : TG_LANES, &born);
        if (claimed)
            tg_round(w, &mine);
    }
    if (born && s->idle_count)
        claimed += tg_born_round(w);
    return claimed;
}

TG_DEVICE void tg_decider(uint32_t lane)
{
    const struct tg_device_params *p = tg_params();
    struct tg_shared *s = tg_state();
    struct tg_warp w = {lane, TG_DECIDER};
    uint32_t since = 0;
    if (!tg_dispatcher_start(w)) {
        tg_hold(w);
        tg_dispatcher_leave(w, TG_LEFT_ABSENT);
        return;
    }
    struct tg_ear ear = tg_ear_of(w);
    for (uint32_t looks = 0, rounds = 0;; rounds++) {
        uint32_t granted = s->granted; /* waited for with the news */
        struct tg_news news = tg_listen_by(ear);
        uint32_t claimed = 0;
        if (granted && ((news.lanes & ~(1u << TG_NEWS_BACK | 1u << TG_NEWS_HOME)) || s->queued ||
                        tg_warp_shfl(news.count, TG_NEWS_GRANT) == 0)) {
            tg_take_over(w);
            news = tg_listen(w);
        }
        bool only = tg_take_in(w, &news);
        if (only) { /* many in a row: nothing else to look at */
            claimed = TG_LANES;
        } else {
            if (news.lanes)
                tg_take_rest(w, &news);
            if (s->overrun) { /* the ender is held */
                tg_dispatcher_leave(w, TG_LEFT_OVERRUN);
                return;
            }
            claimed = tg_claim_some(w);
        }
        if (news.tell)
            tg_born_tell(w);
        if (news.lanes || claimed) {
            looks = 0;
            if (s->draining)
                since = tg_heard(w, &s->looks); /* H2 */
        } else {
            looks = looks + 1 ? looks + 1 : looks;
            if (!s->granted)
                tg_grant(w);
            if (tg_idle(w, looks, since))
                return;
        }
        if (p->limit_ns && rounds % 4096 == 4095 &&
            tg_warp_shfl(tg_device_ns() - s->started > p->limit_ns ? 1u : 0u, 0)) {
            if (s->granted)
                tg_take_over(w);
            tg_hold(w);
            tg_dispatcher_leave(w, TG_LEFT_LIMIT);
            return;
        }
    }
}

/* All warps of the dispatcher's block, once: its state. A barrier of the block follows. */
TG_DEVICE void tg_block_start(struct tg_shared *s, uint32_t thread, uint32_t threads)
{
    uint32_t *word = (uint32_t *)(void *)s;
    for (uint32_t i = thread; i < sizeof(*s) / sizeof(uint32_t); i += threads)
        word[i] = 0;
}

/* A warp of the dispatcher's block. */
TG_DEVICE void tg_dispatcher(uint32_t role, uint32_t lane)
{
    if (role == TG_DECIDER)
        tg_decider(lane);
    else if (role == TG_POLLER)
        tg_poller(lane);
    else if (role == TG_ENDER)
        tg_ender(lane);
    else if (role == TG_SCOUT)
        tg_scout(lane);
}

#endif
