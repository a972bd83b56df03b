/* SPDX-License-Identifier: Apache-2.0
 *
 * Every transition of a ticket, in memory and store together (A8).
 *
 * What takes something (a new ticket, a grant) is committed first and happens in memory only then: no store,
 * no grant (S3). What gives something back after the fact (an owner died, a client went away) happens in
 * memory at once; its row is written after the decision that it sets in motion (ended.h), so that whoever is
 * next does not wait for that, and later when the store would not take it. Should the broker die before, the
 * next one finds the same death by itself. Nobody reads the store in between.
 */
#include "broker/broker.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fault.h"
#include "broker/busy.h"
#include "broker/ended.h"
#include "broker/held.h"
#include "broker/outputs.h"
#include "broker/waits.h"
#include "proto/fields.h"

/* Something was given back, or the order changed: the next decision looks at the whole queue. */
static void decide_anew(struct tg_broker *b)
{
    b->pass_due = true;
    b->tail_valid = false;
}

/* A write went well: when nothing lags behind any more, the store works again. */
static void store_worked(struct tg_broker *b)
{
    if (!b->store_failing)
        return;
    if (b->n_dirty == 0 && TAILQ_EMPTY(&b->ended))
        b->store_failing = false;
    else
        tg_broker_arm(b, &b->store_timer, 0); /* what lags behind has its chance at once */
}

static void set_dirty(struct tg_broker *b, struct tg_ticket *t, bool dirty)
{
    b->n_dirty += dirty && !t->dirty;
    b->n_dirty -= !dirty && t->dirty;
    t->dirty = dirty;
}

int tg_life_grant(struct tg_broker *b, const struct tg_grant *grant)
{
    struct tg_ticket *t = grant->ticket;
    if (!tg_ticket_may_become(t, TG_HOLD))
        return -EINVAL;
    struct tg_ticket row = *t;
    row.state = TG_HOLD;
    row.verdict = grant->kind;
    row.acked = t->kind == TG_KIND_RUN;
    row.held_boot_ms = tg_clock_boot_ms();
    row.held_wall_ms = tg_clock_wall_ms();
    if (grant->front)
        grant->front->overtaken++;
    tg_fault_point("grant.before");
    int err = tg_store_grant(b->store, &row, !t->saved, grant->front);
    tg_fault_point("grant.after");
    if (err) {
        if (grant->front)
            grant->front->overtaken--;
        tg_broker_store_failed(b);
        return err;
    }
    t->verdict = row.verdict;
    b->metrics.admitted[row.verdict]++;
    t->acked = row.acked;
    t->held_boot_ms = row.held_boot_ms;
    t->held_wall_ms = row.held_wall_ms;
    t->saved = true;
    t->resident_mb = 0;
    b->holder_came = true;
    tg_busy_granted(b, t);
    set_dirty(b, t, false);
    store_worked(b);
    tg_queue_set_state(&b->queue, t, TG_HOLD);
    tg_held_write(b, t);
    if (t->detached)
        tg_outputs_mind(b);
    return 0;
}

int tg_life_save(struct tg_broker *b, struct tg_ticket *t)
{
    tg_fault_point("insert.before");
    int err = tg_store_insert(b->store, t);
    tg_fault_point("insert.after");
    if (err) {
        tg_broker_store_failed(b);
        return err;
    }
    t->saved = true;
    store_worked(b);
    return 0;
}

void tg_life_touch(struct tg_broker *b, struct tg_ticket *t)
{
    tg_fault_point("touch.before");
    int err = tg_store_update(b->store, t);
    tg_fault_point("touch.after");
    set_dirty(b, t, err != 0);
    if (err)
        tg_broker_store_failed(b);
}

void tg_life_came_back(struct tg_broker *b, struct tg_ticket *t)
{
    if (!t->adopted)
        return;
    t->adopted = false;
    b->adopted_left--;
    b->adopt_ticks = 0;
    if (b->adopted_left == 0 && b->holding_back)
        tg_broker_arm(b, &b->adopt_timer, 0);
}

/* Nobody concerned is watched any more, and who asked for its end is told. */
static void unwatch(struct tg_ticket *t)
{
    tg_watch_stop(t);
    tg_survivors_drop(t);
    tg_cancel_over(t);
}

void tg_life_free(struct tg_broker *b, struct tg_ticket *t)
{
    unwatch(t);
    tg_peer_detach(t);
    tg_admit_forget(b, t);
    set_dirty(b, t, false);
    tg_ticket_free(t);
}

/* Takes it out of the queue and tells the client that waits for it. */
static void leave(struct tg_broker *b, struct tg_ticket *t, const char *code, const char *text)
{
    tg_life_came_back(b, t);
    tg_queue_remove(&b->queue, t);
    if (t->state == TG_HOLD) {
        tg_busy_ended(b, t);
        tg_held_gone(b, t);
    }
    struct tg_peer *peer = t->peer;
    bool due = t->reply_due;
    /* A client that has read HOLD, and is about to acknowledge it, expects no more answers. */
    if (peer && (t->state != TG_HOLD || due))
        tg_peer_reply(peer, tg_error_reply(code, "ticket %llu: %s", (unsigned long long)t->id, text));
    unwatch(t);
    tg_peer_detach(t);
    tg_admit_forget(b, t);
    if (peer && due)
        tg_peer_unblock(peer);
    b->metrics.ended++;
    decide_anew(b);
}

int tg_life_end(struct tg_broker *b, struct tg_ticket *t, enum tg_outcome outcome, int64_t status,
                const char *code, const char *text)
{
    tg_fault_point("end.before");
    int err = t->saved ? tg_store_end(b->store, t, outcome, status) : 0;
    tg_fault_point("end.after");
    if (err) {
        tg_broker_store_failed(b);
        return err;
    }
    bool detached = t->detached;
    tg_outputs_cut(b, t);
    leave(b, t, code, text);
    tg_waits_ended(b, t, outcome, status);
    tg_life_free(b, t);
    if (detached)
        tg_outputs_ended(b);
    tg_broker_mind_idle(b);
    return 0;
}

void tg_life_ended(struct tg_broker *b, struct tg_ticket *t, enum tg_outcome outcome, const char *text)
{
    if (outcome == TG_OUTCOME_OWNER_DIED && t->cancelled)
        outcome = TG_OUTCOME_CANCELLED;
    else if (outcome == TG_OUTCOME_OWNER_DIED && t->main_status >= 0)
        outcome = tg_outcome_of_status(t->main_status, t->main_oom);
    /* A death is found again by the broker after this one; that nobody could tell is written before it allows
     * another grant. */
    bool found_again = t->saved && !t->detached && outcome != TG_OUTCOME_UNKNOWN;
    if (!found_again && tg_life_end(b, t, outcome, t->main_status, TG_ERR_GONE, text) == 0)
        return;
    leave(b, t, TG_ERR_GONE, text);
    tg_waits_ended(b, t, outcome, t->main_status);
    set_dirty(b, t, false);
    if (!tg_ended_push(b, t, outcome)) /* the next broker finds the same */
        tg_life_free(b, t);
    tg_broker_mind_idle(b);
}

/* The ticket as parked. What a grant wrote goes, its place in the order stays. */
static void make_parked(struct tg_ticket *row)
{
    row->state = TG_PARKED;
    row->verdict = TG_QUEUE;
    row->acked = false;
    row->held_boot_ms = 0;
    row->held_wall_ms = 0;
}

static void apply_park(struct tg_broker *b, struct tg_ticket *t)
{
    tg_life_came_back(b, t);
    if (t->state == TG_HOLD)
        tg_held_gone(b, t);
    tg_queue_set_state(&b->queue, t, TG_PARKED);
    make_parked(t);
    decide_anew(b);
}

int tg_life_park(struct tg_broker *b, struct tg_ticket *t)
{
    if (!tg_ticket_may_become(t, TG_PARKED))
        return -EINVAL;
    struct tg_ticket row = *t;
    make_parked(&row);
    tg_fault_point("park.before");
    int err = tg_store_update(b->store, &row);
    tg_fault_point("park.after");
    if (err) {
        tg_broker_store_failed(b);
        return err;
    }
    set_dirty(b, t, false);
    apply_park(b, t);
    return 0;
}

void tg_life_parked(struct tg_broker *b, struct tg_ticket *t)
{
    if (!tg_ticket_may_become(t, TG_PARKED))
        return;
    apply_park(b, t);
    tg_life_touch(b, t);
}

void tg_life_parked_all(struct tg_broker *b, struct tg_ticket *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (tg_ticket_may_become(list[i], TG_PARKED))
            apply_park(b, list[i]);
    }
    tg_fault_point("touch.before");
    int err = n > 0 ? tg_store_update_all(b->store, list, n) : 0;
    tg_fault_point("touch.after");
    for (size_t i = 0; i < n; i++)
        set_dirty(b, list[i], err != 0);
    if (err)
        tg_broker_store_failed(b);
}

void tg_life_unpark(struct tg_broker *b, struct tg_ticket *t)
{
    if (!tg_ticket_may_become(t, TG_WAIT))
        return;
    t->stopped = false;
    tg_queue_set_state(&b->queue, t, TG_WAIT);
    decide_anew(b);
    tg_life_touch(b, t);
}

void tg_life_client_gone(struct tg_broker *b, struct tg_ticket *t)
{
    if (!t->saved) { /* nobody heard of it, the store neither */
        leave(b, t, TG_ERR_GONE, "");
        tg_life_free(b, t);
        return;
    }
    if (tg_watch_is_dead(b, t)) {
        tg_survivors_main_ended(b, t, -1);
        return;
    }
    tg_admit_forget(b, t);
    if (t->state == TG_WAIT || (t->state == TG_HOLD && !t->acked))
        tg_life_parked(b, t);
}

static void retry_list(struct tg_broker *b, struct tg_ticket *const *list, size_t n)
{
    for (size_t i = 0; i < n && b->n_dirty > 0; i++) {
        if (list[i]->dirty && tg_store_update(b->store, list[i]) == 0)
            set_dirty(b, list[i], false);
    }
}

void tg_life_retry(struct tg_broker *b)
{
    (void)tg_ended_write(b, true);
    retry_list(b, b->queue.waiters, b->queue.n_waiters);
    retry_list(b, b->queue.holders, b->queue.n_holders);
    retry_list(b, b->queue.parked, b->queue.n_parked);
    retry_list(b, b->queue.aside, b->queue.n_aside);
    decide_anew(b);
    if (!TAILQ_EMPTY(&b->ended) || b->n_dirty > 0)
        tg_broker_store_failed(b);
}
