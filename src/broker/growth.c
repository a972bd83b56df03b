/* SPDX-License-Identifier: Apache-2.0
 * See growth.h. */
#include "broker/growth.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "broker/busy.h"
#include "broker/log.h"
#include "broker/survivors.h"
#include "machine/memory.h"

#define MEASURE_PAUSE_MS 50u
#define MEASURE_SHARE 100u /* for decisions, measuring takes at most this part of the time */
#define OVER_LEAST_MB 8u   /* a program is that large before it does anything */
#define SAMPLE_FIRST_MS 100u
#define SAMPLE_MAX_MS 1000u
#define SAMPLE_SHARE 500u    /* the sampler's part of a core */
#define KEEP_EVERY_MS 10000u /* a peak that grew is written this often; the end writes the last one */

uint64_t tg_growth_reserved_mb(const struct tg_queue *q, bool measured)
{
    if (!measured)
        return q->promised_mb;
    uint64_t sum = 0;
    for (size_t i = 0; i < q->n_holders; i++)
        sum += tg_sat_sub_u64(q->holders[i]->est_mb, q->holders[i]->resident_mb);
    return sum;
}

struct find_holder {
    struct tg_broker *broker;
    const struct tg_ticket *self;
    struct tg_ticket *found;
};

static bool is_other_holder(void *ctx, pid_t pid)
{
    struct find_holder *f = ctx;
    struct tg_ticket *t = tg_queue_by_pid(&f->broker->queue, pid);
    if (!t || t == f->self || t->state != TG_HOLD)
        return false;
    f->found = t;
    return true;
}

/* A holder below another holder (the outer one asked later) is in the outer one's tree: its bytes count once,
 * as its own. */
static int subtract_inner(struct tg_broker *b, uint64_t *resident)
{
    const struct tg_queue *q = &b->queue;
    uint64_t *inner = calloc(q->n_holders, sizeof(*inner));
    if (!inner)
        return -ENOMEM;
    for (size_t i = 0; i < q->n_holders; i++) {
        struct find_holder f = {.broker = b, .self = q->holders[i]};
        if (!q->holders[i]->main_ended && !q->holders[i]->step &&
            tg_proc_walk_up(&b->root, q->holders[i]->owner.pid, is_other_holder, &f))
            inner[f.found->place] += resident[i];
    }
    for (size_t i = 0; i < q->n_holders; i++)
        resident[i] = tg_sat_sub_u64(resident[i], inner[i]);
    free(inner);
    return 0;
}

/* The processes whose trees are measured, and for which holder. */
struct roots {
    pid_t *pids;
    size_t *holder;
    size_t used;
    size_t room;
};

static int add_root(struct roots *r, pid_t pid, size_t holder)
{
    if (r->used == r->room) {
        size_t room = r->room ? r->room * 2 : 64;
        pid_t *pids = reallocarray(r->pids, room, sizeof(*pids));
        if (pids)
            r->pids = pids;
        size_t *owners = pids ? reallocarray(r->holder, room, sizeof(*owners)) : NULL;
        if (!owners)
            return -ENOMEM;
        r->holder = owners;
        r->room = room;
    }
    r->pids[r->used] = pid;
    r->holder[r->used++] = holder;
    return 0;
}

static bool is_survivor(void *ctx, pid_t pid)
{
    const struct tg_survivor *self = ctx;
    for (const struct tg_survivor *s = self->ticket->survivors; s; s = s->next) {
        if (s->pid == pid && s != self)
            return true;
    }
    return false;
}

/* What a command left behind: those that are in no other one's tree. */
static int add_survivors(struct tg_broker *b, struct roots *r, size_t holder)
{
    int err = 0;
    for (struct tg_survivor *s = b->queue.holders[holder]->survivors; s && !err; s = s->next) {
        if (!tg_proc_walk_up(&b->root, s->pid, is_survivor, s))
            err = add_root(r, s->pid, holder);
    }
    return err;
}

/* The one place that says how much memory each holder's processes use now, in the order of the holders. Who
 * counts processes in another way (a control group, an environment mark) changes this function alone. */
static int resident_of_holders(struct tg_broker *b, uint64_t *ret_mb)
{
    const struct tg_queue *q = &b->queue;
    struct roots r = {0};
    int err = 0;
    /* What a step of a process uses cannot be told from what its other steps and the process itself do: it
     * stays booked in full. */
    for (size_t i = 0; i < q->n_holders && !err; i++) {
        if (q->holders[i]->step)
            continue;
        err = q->holders[i]->main_ended ? add_survivors(b, &r, i) : add_root(&r, q->holders[i]->owner.pid, i);
    }
    uint64_t *each = err ? NULL : calloc(r.used + 1, sizeof(*each));
    if (!err)
        err = each ? tg_trees_resident_mb(&b->root, r.pids, r.used, each) : -ENOMEM;
    memset(ret_mb, 0, q->n_holders * sizeof(*ret_mb));
    for (size_t i = 0; i < r.used && !err; i++)
        ret_mb[r.holder[i]] += each[i];
    if (!err && q->n_holders > 1)
        err = subtract_inner(b, ret_mb);
    free(each);
    free(r.pids);
    free(r.holder);
    return err;
}

bool tg_growth_is_over(uint64_t peak_mb, uint64_t est_mb)
{
    return peak_mb > tg_sat_add_u64(tg_sat_add_u64(est_mb, est_mb / 2), OVER_LEAST_MB);
}

void tg_growth_saw(struct tg_broker *b, struct tg_ticket *t, uint64_t mb)
{
    if (mb <= t->peak_mb)
        return;
    bool far_above = !t->over_estimate && tg_growth_is_over(mb, t->est_mb);
    t->peak_mb = mb;
    if (far_above) {
        t->over_estimate = true;
        tg_log("ticket %llu uses %llu MB, its estimate was %llu MB (%s): %s", (unsigned long long)t->id,
               (unsigned long long)mb, (unsigned long long)t->est_mb, tg_source_name(t->est_source), t->cmd);
    }
    uint64_t now = tg_broker_now_ms(b);
    if (t->saved && (far_above || now - t->peak_kept_ms >= KEEP_EVERY_MS)) {
        t->peak_kept_ms = now;
        tg_life_touch(b, t);
    }
}

int tg_growth_measure(struct tg_broker *b)
{
    const struct tg_queue *q = &b->queue;
    if (q->n_holders == 0)
        return 0;
    uint64_t begin = tg_clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
    uint64_t *resident = calloc(q->n_holders, sizeof(*resident));
    int err = resident ? resident_of_holders(b, resident) : -ENOMEM;
    for (size_t i = 0; i < q->n_holders && !err; i++) {
        q->holders[i]->resident_mb = resident[i];
        tg_growth_saw(b, q->holders[i], resident[i]);
    }
    free(resident);
    b->measured_ms = tg_broker_now_ms(b);
    b->measure_cost_ns = tg_clock_read_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
    return err;
}

uint64_t tg_growth_wait_ms(struct tg_broker *b)
{
    uint64_t pause = b->measure_cost_ns * MEASURE_SHARE / 1000000;
    if (pause < MEASURE_PAUSE_MS)
        pause = MEASURE_PAUSE_MS;
    uint64_t since = tg_broker_now_ms(b) - b->measured_ms;
    return b->measured_ms == 0 || since >= pause ? 0 : pause - since;
}

/* ---- the sampler */

static uint64_t sample_pause_ms(const struct tg_broker *b)
{
    uint64_t least = b->measure_cost_ns * SAMPLE_SHARE / 1000000;
    return b->sample_ms > least ? b->sample_ms : least;
}

static void on_sample(uv_timer_t *timer)
{
    struct tg_broker *b = timer->data;
    if (b->queue.n_holders == 0)
        return;
    tg_growth_measure(b);
    tg_busy_tick(b);
    b->sample_ms = b->sample_ms * 2 < SAMPLE_MAX_MS ? b->sample_ms * 2 : SAMPLE_MAX_MS;
    uv_timer_start(timer, on_sample, sample_pause_ms(b), 0);
}

/* A new holder is looked at soon, whatever the pace for the others was. */
void tg_growth_mind(struct tg_broker *b)
{
    if (b->queue.n_holders == 0) {
        uv_timer_stop(&b->sample_timer);
        b->holder_came = false;
        return;
    }
    if (uv_is_active((uv_handle_t *)&b->sample_timer) && !b->holder_came)
        return;
    b->holder_came = false;
    b->sample_ms = SAMPLE_FIRST_MS;
    uint64_t pause = sample_pause_ms(b);
    if (!uv_is_active((uv_handle_t *)&b->sample_timer) || uv_timer_get_due_in(&b->sample_timer) > pause)
        uv_timer_start(&b->sample_timer, on_sample, pause, 0);
}
