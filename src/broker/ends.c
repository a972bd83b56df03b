/* SPDX-License-Identifier: Apache-2.0
 * See ends.h. */
#include "broker/ends.h"

#include <stdlib.h>
#include <string.h>

/* Hardly anybody ends in the very millisecond he said, and a reservation that went the moment he is late
 * would be worth little. One who is late is believed a while longer, LATE_MS or half his time again,
 * whichever is more, to end within SOON_MS; only then nobody knows. */
#define LATE_MS 2000u
#define SOON_MS 1000u

#define FORECAST_RUNNING 1024u
#define PASS_GRANTS 256u /* of one pass whose ends it can know before there is a front */

static bool is_believed(const struct tg_queue *q, const struct tg_release *late, uint64_t now_ms)
{
    const struct tg_ticket *t = tg_queue_by_id(q, late->id);
    uint64_t longer = t && t->time_ms / 2 > LATE_MS ? t->time_ms / 2 : LATE_MS;
    return now_ms - (uint64_t)late->end < longer;
}

void tg_ends_take(struct tg_ends *e, const struct tg_queue *q, uint64_t now_ms, size_t more)
{
    const struct tg_timeline *all = &q->running;
    size_t past = 0;
    while (past < all->n && all->entry[past].end <= (int64_t)now_ms)
        past++;
    size_t n = all->n - past;
    if (all->n + more > e->room) {
        size_t room = all->n + more > 2 * e->room ? all->n + more : 2 * e->room;
        struct tg_release *grown = realloc(e->entry, room * sizeof(*grown));
        if (!grown) {
            e->running = (struct tg_timeline){.entry = NULL};
            return;
        }
        e->entry = grown;
        e->room = room;
    }
    if (n > 0)
        memcpy(e->entry, all->entry + past, n * sizeof(*e->entry));
    e->running = (struct tg_timeline){.entry = e->entry, .n = n, .cap = e->room};
    for (size_t i = past; i-- > 0;) {
        const struct tg_release *late = &all->entry[i];
        if (is_believed(q, late, now_ms) && e->running.n < e->room)
            (void)tg_timeline_add(&e->running, (int64_t)(now_ms + SOON_MS), late->id, &late->amount);
    }
}

void tg_ends_done(struct tg_ends *e)
{
    free(e->entry);
    *e = (struct tg_ends){0};
}

void tg_ends_pass(struct tg_ends *e, const struct tg_queue *q, uint64_t now_ms, const struct tg_gates *gates,
                  const struct tg_usage *usage, struct tg_pass *ret)
{
    tg_ends_take(e, q, now_ms, PASS_GRANTS);
    tg_pass_begin(ret, gates, usage);
    tg_pass_times(ret, &e->running, (int64_t)now_ms);
}

uint64_t tg_ends_look_again_ms(const struct tg_pass *pass)
{
    return pass->front_known ? (uint64_t)(pass->front.start - pass->now) + 1 : UINT64_MAX;
}

void tg_expect_begin(struct tg_expect *x, const struct tg_queue *q, uint64_t now_ms,
                     const struct tg_gates *gates, const struct tg_usage *usage)
{
    struct tg_amount free;
    struct tg_amount owed;
    *x = (struct tg_expect){.now = (int64_t)now_ms};
    /* Each start is sorted in: the number of those that run at a time is bounded, whatever it is. */
    tg_ends_take(&x->ends, q, now_ms, q->n_waiters < FORECAST_RUNNING ? q->n_waiters : FORECAST_RUNNING);
    tg_gates_room(gates, usage, &free, &owed);
    tg_forecast_begin(&x->forecast, &x->ends.running, &free, &owed, x->now);
}

void tg_expect_next(struct tg_expect *x, const struct tg_ticket *t, struct tg_verdict *v)
{
    const struct tg_amount need = {.of = {[TG_RES_SLOTS] = t->slots, [TG_RES_MEMORY] = t->est_mb}};
    int64_t start;
    switch (v->why) {
    case TG_WHY_NEVER_FITS_MEMORY: /* nobody waits for these */
    case TG_WHY_NEVER_FITS_SLOTS:
    case TG_WHY_NEVER_FITS_BUDGET:
    case TG_WHY_MAX_CONC:
        return;
    case TG_WHY_LOAD: /* nobody knows when this ends, and nobody starts before */
    case TG_WHY_LOAD_UNKNOWN:
    case TG_WHY_MEMORY_UNKNOWN:
    case TG_WHY_PRESSURE_MEMORY:
    case TG_WHY_PRESSURE_CPU:
    case TG_WHY_PRESSURE_UNKNOWN:
        x->forecast.lost = true;
        return;
    default:
        break;
    }
    if (tg_forecast_next(&x->forecast, &need, t->time_ms ? (int64_t)t->time_ms : TG_NEVER, &start) != 0)
        return;
    v->start_known = true;
    v->start_in_ms = (uint64_t)(start - x->now);
}

void tg_expect_done(struct tg_expect *x)
{
    tg_ends_done(&x->ends);
}
