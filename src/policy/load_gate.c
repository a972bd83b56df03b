/* SPDX-License-Identifier: Apache-2.0
 * See load_gate.h. */
#include <tidegate/load_gate.h>

#include "base/checked.h"

#define MARGIN_MOST UINT64_C(500)

bool tg_load_is_stale(const struct tg_load_watch *w, uint64_t now_ms)
{
    return !w->known || tg_sat_sub_u64(now_ms, w->moved_ms) >= TG_LOAD_STALE_MS;
}

static void begin_anew(struct tg_load_watch *w, uint64_t now_ms, uint64_t milli)
{
    w->milli = w->last = milli;
    w->last_ms = now_ms;
    for (unsigned i = 0; i < TG_LOAD_LEAST_OF - 1; i++)
        w->past[i] = milli;
}

/* One more measurement; those that are made nearly at once are one, the least of them. Returns the least. */
static uint64_t keep(struct tg_load_watch *w, uint64_t now_ms, uint64_t milli)
{
    if (tg_sat_sub_u64(now_ms, w->last_ms) >= TG_LOAD_APART_MS) {
        for (unsigned i = TG_LOAD_LEAST_OF - 1; i-- > 1;)
            w->past[i] = w->past[i - 1];
        w->past[0] = w->last;
        w->last = milli;
        w->last_ms = now_ms;
    } else if (milli < w->last) {
        w->last = milli;
    }
    uint64_t least = w->last;
    for (unsigned i = 0; i < TG_LOAD_LEAST_OF - 1; i++)
        least = w->past[i] < least ? w->past[i] : least;
    return least;
}

/* estimate + (measured - estimate) * dt / (dt + window): for a dt far above the window it is the measured. */
void tg_load_see(struct tg_load_watch *w, uint64_t now_ms, uint64_t milli)
{
    uint64_t dt = tg_sat_sub_u64(now_ms, w->seen_ms);
    if (tg_load_is_stale(w, now_ms)) {
        begin_anew(w, now_ms, milli);
    } else {
        milli = keep(w, now_ms, milli);
        dt = dt < TG_LOAD_STALE_MS ? dt : TG_LOAD_STALE_MS;
        uint64_t far = milli > w->milli ? milli - w->milli : w->milli - milli;
        far = far < UINT32_MAX ? far : UINT32_MAX;
        uint64_t step = far * dt / (dt + TG_LOAD_WINDOW_MS);
        w->milli = milli > w->milli ? w->milli + step : w->milli - step;
    }
    w->known = true;
    w->seen_ms = now_ms;
    w->moved_ms = now_ms;
}

void tg_load_granted(struct tg_load_watch *w, uint64_t now_ms, uint64_t milli)
{
    w->milli = tg_sat_add_u64(w->milli, milli);
    w->last = tg_sat_add_u64(w->last, milli);
    for (unsigned i = 0; i < TG_LOAD_LEAST_OF - 1; i++)
        w->past[i] = tg_sat_add_u64(w->past[i], milli);
    w->moved_ms = now_ms;
}

void tg_load_ended(struct tg_load_watch *w, uint64_t milli, uint64_t at_most)
{
    w->milli = tg_sat_sub_u64(w->milli, milli);
    if (w->milli > at_most)
        w->milli = at_most;
    w->last = tg_sat_sub_u64(w->last, milli);
    for (unsigned i = 0; i < TG_LOAD_LEAST_OF - 1; i++)
        w->past[i] = tg_sat_sub_u64(w->past[i], milli);
}

void tg_load_turn(struct tg_load_watch *w, uint64_t limit_milli, uint64_t margin_milli)
{
    if (w->milli >= limit_milli)
        w->closed = true;
    else if (w->milli < tg_sat_sub_u64(limit_milli, margin_milli))
        w->closed = false;
}

uint64_t tg_load_margin(uint64_t limit_milli)
{
    return limit_milli / 8 < MARGIN_MOST ? limit_milli / 8 : MARGIN_MOST;
}
