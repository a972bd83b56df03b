/* SPDX-License-Identifier: Apache-2.0
 * See ended.h. */
#include "broker/ended.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "broker/words.h"

/* How long a row is not written because the wrapper's word is on its way. */
#define WORD_MS 20u
/* How long one whose word is kept may wait for others to share a transaction with. */
#define LATER_MS 300u
#define AT_ONCE 64u /* rows of one transaction */

/* Its wrapper says in a moment how it ended: one row for both. */
static bool awaits_word(const struct tg_ended *e)
{
    const struct tg_ticket *t = e->end.ticket;
    return t->kind == TG_KIND_RUN && e->end.status < 0 && t->held_boot_ms > 0;
}

/* For how long it may still wait, in ms. */
static uint64_t may_wait_ms(struct tg_broker *b, const struct tg_ended *e)
{
    uint64_t limit = awaits_word(e) ? WORD_MS : e->kept ? LATER_MS : 0;
    uint64_t age = tg_broker_now_ms(b) - e->since_ms;
    return age < limit ? limit - age : 0;
}

/* When the next one is due may have changed by this one. */
static void note(struct tg_broker *b, const struct tg_ended *e)
{
    uint64_t at = tg_broker_now_ms(b) + may_wait_ms(b, e);
    if (b->n_ended >= AT_ONCE || at < b->ended_due_ms)
        b->ended_due_ms = 0;
}

bool tg_ended_push(struct tg_broker *b, struct tg_ticket *t, enum tg_outcome outcome)
{
    struct tg_ended *e = calloc(1, sizeof(*e));
    if (!e)
        return false;
    *e = (struct tg_ended){.end = {.ticket = t,
                                   .outcome = outcome,
                                   .status = t->main_status,
                                   .boot_ms = tg_clock_boot_ms(),
                                   .wall_ms = tg_clock_wall_ms()},
                           .kept = t->word_kept,
                           .since_ms = tg_broker_now_ms(b)};
    TAILQ_INSERT_TAIL(&b->ended, e, link);
    b->n_ended++;
    note(b, e);
    return true;
}

struct tg_ended *tg_ended_find(struct tg_broker *b, uint64_t id)
{
    struct tg_ended *e;
    TAILQ_FOREACH_REVERSE(e, &b->ended, tg_ended_list, link)
    {
        if (e->end.ticket->id == id)
            return e;
    }
    return NULL;
}

void tg_ended_word(struct tg_broker *b, struct tg_ended *e, int64_t status, enum tg_outcome outcome,
                   uint64_t peak_mb, bool kept)
{
    struct tg_ticket *t = (struct tg_ticket *)(uintptr_t)e->end.ticket;
    e->end.status = status;
    if (e->end.outcome != TG_OUTCOME_CANCELLED)
        e->end.outcome = outcome;
    if (peak_mb > t->peak_mb)
        t->peak_mb = peak_mb;
    e->kept = kept;
    note(b, e);
}

static void forget(struct tg_broker *b, struct tg_ended *e)
{
    TAILQ_REMOVE(&b->ended, e, link);
    b->n_ended--;
    tg_life_free(b, (struct tg_ticket *)(uintptr_t)e->end.ticket);
    free(e);
}

/* Up to AT_ONCE of them in one transaction, the oldest first; *ret_n: how many that were. */
static int write_some(struct tg_broker *b, bool all, size_t *ret_n)
{
    struct tg_ended *chosen[AT_ONCE];
    struct tg_store_ending endings[AT_ONCE];
    size_t n = 0;
    struct tg_ended *e;
    TAILQ_FOREACH(e, &b->ended, link)
    {
        if (n == AT_ONCE)
            break;
        if (!all && awaits_word(e) && may_wait_ms(b, e) > 0)
            continue;
        tg_fault_point("end.before");
        endings[n] = e->end;
        chosen[n++] = e;
    }
    *ret_n = n;
    if (n == 0)
        return 0;
    int err = tg_store_ends(b->store, endings, n);
    for (size_t i = 0; i < n; i++) {
        tg_fault_point("end.after");
        if (!err)
            forget(b, chosen[i]);
    }
    if (err)
        tg_broker_store_failed(b);
    return err;
}

/* One that is due takes those along that need not wait; the timer comes for the next. While nothing has been
 * added and nothing is due they are not looked at. */
static bool any_due(struct tg_broker *b)
{
    uint64_t soonest = UINT64_MAX;
    struct tg_ended *e;
    if (tg_broker_now_ms(b) < b->ended_due_ms)
        return false;
    TAILQ_FOREACH(e, &b->ended, link)
    {
        uint64_t ms = may_wait_ms(b, e);
        if (ms == 0 || (b->n_ended >= AT_ONCE && !awaits_word(e)))
            return true;
        soonest = ms < soonest ? ms : soonest;
    }
    if (soonest != UINT64_MAX &&
        (!uv_is_active((uv_handle_t *)&b->ended_timer) || uv_timer_get_due_in(&b->ended_timer) > soonest))
        tg_broker_arm(b, &b->ended_timer, soonest);
    b->ended_due_ms = tg_broker_now_ms(b) + soonest;
    return false;
}

int tg_ended_write(struct tg_broker *b, bool all)
{
    size_t n = 1;
    int err = 0;
    bool any = false;
    while (!err && n > 0 && !TAILQ_EMPTY(&b->ended) && (all || any_due(b))) {
        err = write_some(b, all, &n);
        any |= n > 0;
    }
    if (any && !err && TAILQ_EMPTY(&b->ended))
        tg_words_written(b);
    return err;
}

void tg_ended_learn(struct tg_broker *b, uid_t uid, const char *cmd, const char *cwd, const char *key,
                    struct tg_learned *io)
{
    struct tg_ended *e;
    TAILQ_FOREACH_REVERSE(e, &b->ended, tg_ended_list, link)
    {
        const struct tg_ticket *t = e->end.ticket;
        if (t->uid != uid || strcmp(t->cmd, cmd) != 0 || strcmp(t->cwd, cwd) != 0 || strcmp(t->key, key) != 0)
            continue;
        bool held = t->held_boot_ms > 0 && t->held_boot_ms <= e->end.boot_ms;
        const struct tg_learn_run run = {.peak_mb = t->peak_mb,
                                         .ran_ms = held ? e->end.boot_ms - t->held_boot_ms : UINT64_MAX,
                                         .outcome = e->end.outcome,
                                         .status = e->end.status};
        tg_learn_run(io, &run);
    }
}

void tg_ended_drop(struct tg_broker *b)
{
    struct tg_ended *e;
    while ((e = TAILQ_FIRST(&b->ended)) != NULL) {
        TAILQ_REMOVE(&b->ended, e, link);
        tg_ticket_free((struct tg_ticket *)(uintptr_t)e->end.ticket);
        free(e);
    }
    b->n_ended = 0;
}
