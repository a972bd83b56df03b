/* SPDX-License-Identifier: Apache-2.0
 * See load_gate.h. */
#include <tidegate/load_gate.h>

#include "base/checked.h"

#define MARGIN_MOST UINT64_C(500)

bool tg_load_is_stale(const struct tg_load_watch *w, uint64_t now_ms)
{
    return !w->known || tg_sat_sub_u64(now_ms, w->moved_ms) >= TG_LOAD_STALE_MS;
}

/* estimate + (measured - estimate) * dt / (dt + window): for a dt far above the window it is the measured. */
void tg_load_see(struct tg_load_watch *w, uint64_t now_ms, uint64_t milli)
{
    uint64_t dt = tg_sat_sub_u64(now_ms, w->seen_ms);
    if (tg_load_is_stale(w, now_ms)) {
        w->milli = milli;
    } else {
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
    w->moved_ms = now_ms;
}

void tg_load_ended(struct tg_load_watch *w, uint64_t milli, uint64_t at_most)
{
    w->milli = tg_sat_sub_u64(w->milli, milli);
    if (w->milli > at_most)
        w->milli = at_most;
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
