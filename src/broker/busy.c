/* SPDX-License-Identifier: Apache-2.0
 * See busy.h.
 *
 * Why a decision does not simply count runnable tasks: it is made when something has just happened, and then
 * those to whom it happened are runnable, the clients and the command that ends. So counts come in at moments
 * that timers choose; in between, the estimate moves by what is known: grants and ends. Only two counts made
 * at events are used: the first after a long time (the smaller of it and the one-minute load, so that a
 * machine that has just become idle admits at once), and one after an end, when it is lower than expected.
 */
#include "broker/busy.h"

#include <errno.h>

#include "base/checked.h"
#include "base/clock.h"
#include "machine/load.h"
#include "machine/pressure.h"

#define SPAN_LEAST_US UINT64_C(20000) /* a rate over less than this says little */

/* One reading. */
struct reading {
    bool contained;
    uint64_t now_milli;  /* runnable now; of a group, at work since the last reading */
    uint64_t idle_milli; /* the least that it may be after a long time without readings */
    bool is_rate_good;
};

/* Of the group alone: what others on the machine wait for is no work of its own (M2, M11). */
static uint64_t waited_us(struct tg_broker *b, uint32_t *ret_avg10)
{
    struct tg_pressure p;
    *ret_avg10 = 0;
    if (tg_contained_pressure(&b->root, "cpu", &p) != 0)
        return 0;
    *ret_avg10 = p.some_avg10;
    return p.some_us;
}

/* In a group: the cores' worth of work done since the last reading, and the share of that time in which some
 * task waited for a processor. */
static void read_group(struct tg_broker *b, uint64_t used_us, struct reading *r)
{
    uint32_t avg10;
    uint64_t waited = waited_us(b, &avg10);
    uint64_t now_us = tg_clock_mono_ns() / 1000;
    uint64_t span = now_us - b->group_read_us;
    r->contained = true;
    r->idle_milli = (uint64_t)b->cores * avg10 / 10;
    r->is_rate_good = b->group_read_us > 0 && span >= SPAN_LEAST_US && used_us >= b->group_used_us;
    if (r->is_rate_good) {
        uint64_t stood = tg_sat_sub_u64(waited, b->group_waited_us);
        stood = stood < span ? stood : span;
        uint64_t used = used_us - b->group_used_us;
        used = used < UINT64_MAX / 2000 ? used : UINT64_MAX / 2000;
        r->now_milli = (used + stood) * 1000 / span;
    } else if (b->group_read_us > 0 && span < SPAN_LEAST_US) {
        return; /* the old reading stays the one to compare with */
    }
    b->group_read_us = now_us;
    b->group_used_us = used_us;
    b->group_waited_us = waited;
}

static int read_now(struct tg_broker *b, struct reading *ret)
{
    struct reading r = {0};
    struct tg_load load;
    uint64_t used_us;
    int err = tg_contained_cpu_us(&b->root, &used_us);
    if (err == 0) {
        read_group(b, used_us, &r);
    } else if (err == -ENOENT) {
        err = tg_load_read(&b->root, &load);
        r.now_milli = load.runnable * 1000;
        r.idle_milli = load.effective_milli;
        r.is_rate_good = true;
    }
    if (!err)
        *ret = r;
    return err;
}

static void take_in(struct tg_broker *b, uint64_t now_ms, const struct reading *r, bool is_tick)
{
    struct tg_load_watch *w = &b->load_watch;
    if (tg_load_is_stale(w, now_ms)) {
        tg_load_see(w, now_ms, r->idle_milli);
    } else {
        if (b->load_ended)
            tg_load_ended(w, 0, r->contained ? UINT64_MAX : r->now_milli);
        if (is_tick && r->is_rate_good)
            tg_load_see(w, now_ms, r->now_milli);
    }
    b->load_ended = false;
}

/* One reading taken in; what cannot be read is unknown. */
static void look(struct tg_broker *b, const struct tg_gates *gates, bool is_tick)
{
    struct reading r;
    if (read_now(b, &r) != 0) {
        b->load_watch.known = false;
        return;
    }
    take_in(b, tg_broker_now_ms(b), &r, is_tick);
    tg_load_turn(&b->load_watch, gates->load_limit_milli, gates->load_margin_milli);
}

static uint32_t pressure_of(struct tg_broker *b, const char *resource, struct tg_usage *u)
{
    struct tg_pressure p;
    int err = tg_pressure_read(&b->root, resource, &p);
    if (err == 0)
        return p.some_avg10;
    u->pressure_unknown |= err != -ENOENT;
    return 0;
}

void tg_busy_usage(struct tg_broker *b, const struct tg_gates *gates, struct tg_usage *u)
{
    if (gates->pressure_memory > 0)
        u->pressure_memory = pressure_of(b, "memory", u);
    if (gates->pressure_cpu > 0)
        u->pressure_cpu = pressure_of(b, "cpu", u);
    if (gates->load_limit_milli == TG_LOAD_OFF)
        return;
    look(b, gates, false);
    u->load_known = b->load_watch.known;
    u->load_milli = b->load_watch.milli;
    u->load_closed = b->load_watch.closed;
}

void tg_busy_tick(struct tg_broker *b)
{
    struct tg_gates gates = tg_admit_gates(b);
    if (gates.load_limit_milli != TG_LOAD_OFF)
        look(b, &gates, true);
}

void tg_busy_granted(struct tg_broker *b, const struct tg_ticket *t)
{
    tg_load_granted(&b->load_watch, tg_broker_now_ms(b), (uint64_t)t->slots * 1000);
}

void tg_busy_ended(struct tg_broker *b, const struct tg_ticket *t)
{
    tg_load_ended(&b->load_watch, (uint64_t)t->slots * 1000, UINT64_MAX);
    b->load_ended = true;
}
