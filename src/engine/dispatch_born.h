/* SPDX-License-Identifier: Apache-2.0
 *
 * What bodies have published (device_born.h): how it is seen, decided and given to workers. Part of the
 * dispatcher (dispatch.h).
 *
 * The scout reads how many positions of each ring are taken, and which workers have come home. The decider
 * claims by the same rules as ever, and what it gives to a worker is a part of a ring, up to 32 items for a
 * lane each or one for the warp: one store of 16 bytes a worker, up to 128 workers a round. It decides only
 * for workers that are free, so nothing is claimed ahead. The worker fetches its items, runs them, and keeps
 * their books (dispatch_born_run.h).
 *
 *   K6 relaxed TAIL of each ring, read by the scout
 *   K7 acquire of a home, which was stored behind all that its worker did           pairs with K9 release
 *      so the next look sees all that its bodies published
 *   B10 relaxed BORN_TAIL, before BORN_NEWS
 *   H1 BORN_NEWS, HOME_FILED, HOME_TAKEN, stored behind; BORN_ASK, BORN_ANSWER      pair with H2
 *   H7 relaxed BORN_WATCH: somebody runs, so look; a wish
 *
 * Nothing is left over when no worker runs, and a look that was asked for after the last of them came home
 * (BORN_ASK) was answered and found nothing.
 *
 * Rules kept: E8 (by that), E10 (the scout looks while somebody runs, or was asked). E2 to E4 are those of
 * dispatch_born_plan.h.
 */
#ifndef TG_ENGINE_DISPATCH_BORN_H
#define TG_ENGINE_DISPATCH_BORN_H

#include "engine/device_born.h"
#include "engine/dispatch_block.h"
#include "engine/dispatch_end.h"

#define TG_SCOUT_LOOKS 64u /* without anything to look for, before it pauses between them */
#define TG_SCOUT_NAP_NS 200u

/* ---- The scout. ---- */

/* One look. *head: the next home. */
TG_DEVICE void tg_scout_look(struct tg_warp w, uint32_t *head)
{
    const struct tg_device_params *p = tg_params();
    struct tg_shared *s = tg_state();
    uint32_t mask = (1u << p->homes_shift) - 1u;
    uint32_t tail[TG_BORN_PARTS];
    uint32_t home[2];
    uint32_t stale[2];
    bool news = false;
    TG_UNROLL
    for (uint32_t i = 0; i < TG_BORN_PARTS; i++) {
        uint32_t ring = w.lane + TG_LANES * i;
        tail[i] = tg_load_relaxed_u32(&p->born_tail[ring]); /* K6 */
    }
    TG_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t at = *head + TG_LANES * i + w.lane;
        home[i] = tg_load_acquire_u32(&p->homes[at & mask]); /* K7 */
        stale[i] = tg_warp_ballot(((home[i] ^ tg_cell_lap(at, p->homes_shift)) & 1u << 31) != 0);
    }
    TG_UNROLL
    for (uint32_t i = 0; i < TG_BORN_PARTS; i++) {
        uint32_t ring = w.lane + TG_LANES * i;
        if (s->born_tail[ring] != tail[i]) {
            tg_block_store_relaxed_u32(&s->born_tail[ring], tail[i]); /* B10 */
            news = true;
        }
    }
    news = tg_warp_ballot(news) != 0;
    uint32_t n = stale[0] ? tg_levels_first(stale[0])
                          : TG_LANES + (stale[1] ? (uint32_t)tg_levels_first(stale[1]) : TG_LANES);
    uint32_t filed = s->home_filed;
    uint32_t room = TG_HOME - (filed - tg_heard(w, &s->home_taken)); /* H2 */
    n = n < room ? n : room;
    TG_UNROLL
    for (uint32_t i = 0; i < 2; i++)
        if (TG_LANES * i + w.lane < n)
            s->home[(filed + TG_LANES * i + w.lane) & (TG_HOME - 1u)] = (uint16_t)home[i];
    tg_warp_sync();
    if (w.lane == 0 && news)
        tg_block_store_behind_u32(&s->born_news, s->born_news + 1); /* H1 */
    if (w.lane == 0 && n)
        tg_block_store_behind_u32(&s->home_filed, filed + n); /* H1 */
    *head += n;
    tg_warp_sync();
}

TG_DEVICE void tg_scout(uint32_t lane)
{
    struct tg_shared *s = tg_state();
    struct tg_warp w = {lane, TG_SCOUT};
    uint32_t head = 0;
    uint32_t answered = 0;
    if (!tg_params()->born)
        return;
    for (uint32_t idle = 0; !tg_heard(w, &s->leaving);) { /* H2 */
        uint32_t ask = tg_heard(w, &s->born_ask);         /* H2 */
        uint32_t watch =
            tg_warp_shfl(w.lane == 0 ? tg_block_load_relaxed_u32(&s->born_watch) : 0, 0); /* H7 */
        if (!watch && ask == answered) {
            tg_warp_idle();
            idle = idle < TG_SCOUT_LOOKS ? idle + 1 : idle;
            if (idle == TG_SCOUT_LOOKS)
                tg_device_pause(TG_SCOUT_NAP_NS);
            continue;
        }
        idle = 0;
        tg_scout_look(w, &head);
        if (ask != answered && w.lane == 0)
            tg_block_store_release_u32(&s->born_answer, ask); /* H1 */
        answered = ask;
        tg_warp_sync();
        tg_warp_idle();
    }
}

/* ---- The decider. ---- */

/* Is there an item of a body that may be claimed, but for a free worker? BORN_SOME says quickly that there is
 * none, and is 0 again from the next look that finds all rings empty. */
TG_DEVICE bool tg_born_any(struct tg_warp w)
{
    const struct tg_shared *s = tg_state();
    if (s->born_some == 0)
        return false;
    bool any =
        w.lane < TG_PRIORITY_LEVELS &&
        ((s->born_ready[TG_BORN_LANE][w.lane] | s->born_ready[TG_BORN_WARP][w.lane]) & s->allowed) != 0;
    return tg_warp_ballot(any) != 0;
}

/* The scout has seen that rings grew. */
TG_DEVICE void tg_born_listen(struct tg_warp w, uint32_t news)
{
    struct tg_shared *s = tg_state();
    uint32_t tail[TG_BORN_PARTS];
    uint32_t head[TG_BORN_PARTS];
    uint32_t mine = 0;
    TG_UNROLL
    for (uint32_t i = 0; i < TG_BORN_PARTS; i++)
        tail[i] = tg_block_load_relaxed_u32(&s->born_tail[TG_LANES * i + w.lane]); /* B10 */
    TG_UNROLL
    for (uint32_t i = 0; i < TG_BORN_PARTS; i++)
        head[i] = s->born_head[TG_LANES * i + w.lane];
    TG_UNROLL
    for (uint32_t i = 0; i < TG_BORN_PARTS; i++) {
        uint32_t ready = tg_warp_ballot(tail[i] != head[i]);
        mine = w.lane == i ? ready : mine;
    }
    if (w.lane < TG_BORN_PARTS)
        s->born_ready[w.lane / TG_PRIORITY_LEVELS][w.lane % TG_PRIORITY_LEVELS] = mine;
    uint32_t any = tg_warp_ballot(mine != 0);
    tg_warp_sync();
    if (w.lane == 0) {
        s->born_seen += news;
        s->born_some = any;
    }
    tg_warp_sync();
}

/* Takes back n workers. */
TG_DEVICE void tg_take_home(struct tg_warp w, uint32_t n)
{
    struct tg_shared *s = tg_state();
    uint32_t at = s->home_taken;
    uint32_t idle = s->idle_count;
    uint32_t kept = s->block_kept;
    uint32_t worker[TG_HOME / TG_LANES];
    TG_UNROLL
    for (uint32_t i = 0; i < TG_HOME / TG_LANES; i++)
        worker[i] = s->home[(at + TG_LANES * i + w.lane) & (TG_HOME - 1u)];
    TG_UNROLL
    for (uint32_t i = 0; i < TG_HOME / TG_LANES; i++) {
        bool have = TG_LANES * i + w.lane < n;
        bool aside = have && kept == worker[i] / TG_BLOCK_WARPS + 1; /* dispatch_block.h */
        uint32_t lanes = tg_warp_ballot(have && !aside);
        if (aside)
            tg_shared_or(&s->block_warps, 1u << worker[i] % TG_BLOCK_WARPS);
        else if (have)
            s->idle[idle + tg_rank(w, lanes)] = (uint16_t)worker[i];
        idle += tg_bits(lanes);
    }
    tg_warp_sync();
    if (w.lane == 0) {
        s->idle_count = idle;
        s->flights -= n;
        s->born_dirty = 1;
        s->flights_told = TG_ALL_LANES;
        tg_block_store_behind_u32(&s->home_taken, at + n); /* H1 */
    }
    tg_warp_sync();
}

/* Tells the scout whether to look. */
TG_DEVICE void tg_born_tell(struct tg_warp w)
{
    struct tg_shared *s = tg_state();
    uint32_t watch = s->flights != 0;
    bool asks = watch == 0 && s->born_dirty;
    tg_warp_sync();
    if (w.lane == 0) {
        s->flights_told = s->flights;
        tg_block_store_relaxed_u32(&s->born_watch, watch); /* H7 */
        if (asks) {
            s->born_dirty = 0;
            tg_block_store_release_u32(&s->born_ask, s->born_ask + 1); /* H1 */
        }
    }
    tg_warp_sync();
}

/* Does nobody run, and is all known that was published? */
TG_DEVICE bool tg_born_settled(struct tg_warp w)
{
    const struct tg_shared *s = tg_state();
    return !tg_params()->born ||
           (s->flights == 0 && !s->born_dirty && tg_heard(w, &s->born_answer) == s->born_ask && /* H2 */
            tg_heard(w, &s->born_news) == s->born_seen);
}

/* How many wait, whoever they belong to. */
TG_DEVICE uint64_t tg_born_left(void)
{
    const struct tg_shared *s = tg_state();
    uint64_t left = 0;
    for (uint32_t ring = 0; ring < TG_BORN_RINGS; ring++)
        left += tg_block_load_relaxed_u32(&s->born_tail[ring]) - s->born_head[ring]; /* B10 */
    return left;
}

#endif
