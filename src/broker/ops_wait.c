/* SPDX-License-Identifier: Apache-2.0
 *
 * The message wait, see waits.h. A command's death and its wrapper's word on how it ended are two events, the
 * word a moment later: an end without a status is told after STATUS_WAIT_MS at the latest.
 */
#include "broker/ended.h"
#include "broker/ops.h"

#include <errno.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/clock.h"
#include "broker/waits.h"

#define TICKETS_MAX 1000u
#define STATUS_WAIT_MS 5000u

enum stage {
    RUNNING, /* waits, holds, is parked */
    ENDED,   /* its status may still come */
    KNOWN,   /* nothing more will */
};

struct one {
    uint64_t ticket;
    enum stage stage;
    enum tg_outcome outcome;
    int64_t status;
    uint64_t give_up_ms; /* loop time; ENDED alone */
};

struct tg_wait {
    struct tg_peer *peer;
    TAILQ_ENTRY(tg_wait) link;
    size_t n;
    size_t left; /* not KNOWN yet */
    struct one **by_ticket;
    struct one all[]; /* as they were asked for */
};

static void free_wait(struct tg_wait *w)
{
    free(w->by_ticket);
    free(w);
}

void tg_waits_drop(struct tg_peer *peer)
{
    struct tg_wait *w = peer->wait;
    if (!w)
        return;
    peer->wait = NULL;
    TAILQ_REMOVE(&peer->broker->waits, w, link);
    free_wait(w);
}

static json_t *ended_reply(const struct tg_wait *w)
{
    json_t *list = json_array();
    for (size_t i = 0; i < w->n; i++) {
        const struct one *o = &w->all[i];
        json_t *entry = json_pack("{s:I,s:s,s:o}", "ticket", (json_int_t)o->ticket, "outcome",
                                  tg_outcome_name(o->outcome), "status",
                                  o->status >= 0 ? json_integer((json_int_t)o->status) : json_null());
        json_array_append_new(list, entry);
    }
    return json_pack("{s:b,s:o}", "ok", 1, "ended", list);
}

/* When nothing is left to wait for: the answer. */
static void answer_if_over(struct tg_wait *w)
{
    struct tg_peer *peer = w->peer;
    if (w->left > 0)
        return;
    json_t *reply = ended_reply(w);
    tg_waits_drop(peer);
    tg_peer_reply(peer, reply);
    tg_peer_unblock(peer);
}

static void settle(struct tg_wait *w, struct one *o, int64_t status)
{
    if (o->stage == KNOWN)
        return;
    o->stage = KNOWN;
    o->status = status;
    w->left--;
}

static void arm(struct tg_broker *b, uint64_t at_ms)
{
    uint64_t now = tg_broker_now_ms(b);
    uint64_t in = at_ms > now ? at_ms - now : 0;
    if (!uv_is_active((uv_handle_t *)&b->waits_timer) || uv_timer_get_due_in(&b->waits_timer) > in)
        tg_broker_arm(b, &b->waits_timer, in);
}

/* Whether the wrapper of a command may still say how it ended. */
static bool word_may_come(enum tg_ticket_kind kind, enum tg_outcome outcome, bool was_admitted)
{
    return kind == TG_KIND_RUN && was_admitted &&
           (outcome == TG_OUTCOME_OWNER_DIED || outcome == TG_OUTCOME_CANCELLED ||
            outcome == TG_OUTCOME_LOST);
}

static int compare(const void *a, const void *b)
{
    const struct one *x = *(struct one *const *)a, *y = *(struct one *const *)b;
    return x->ticket < y->ticket ? -1 : x->ticket > y->ticket;
}

/* The first entry of a ticket in by_ticket, or NULL; the others of the same ticket follow it. */
static struct one **find(const struct tg_wait *w, uint64_t ticket)
{
    size_t low = 0;
    size_t high = w->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (w->by_ticket[middle]->ticket < ticket)
            low = middle + 1;
        else
            high = middle;
    }
    return low < w->n && w->by_ticket[low]->ticket == ticket ? w->by_ticket + low : NULL;
}

void tg_waits_ended(struct tg_broker *b, const struct tg_ticket *t, enum tg_outcome outcome, int64_t status)
{
    bool later = status < 0 && word_may_come(t->kind, outcome, t->held_boot_ms > 0);
    if (later)
        b->recent[b->n_recent++ % TG_RECENT] =
            (struct tg_recent){t->id, tg_broker_now_ms(b) + STATUS_WAIT_MS};
    struct tg_wait *next;
    for (struct tg_wait *w = TAILQ_FIRST(&b->waits); w; w = next) {
        next = TAILQ_NEXT(w, link);
        struct one **at = find(w, t->id);
        for (; at && at < w->by_ticket + w->n && (*at)->ticket == t->id; at++) {
            (*at)->outcome = outcome;
            (*at)->stage = later ? ENDED : RUNNING;
            (*at)->give_up_ms = tg_broker_now_ms(b) + STATUS_WAIT_MS;
            if (!later)
                settle(w, *at, status);
            else
                arm(b, (*at)->give_up_ms);
        }
        answer_if_over(w);
    }
}

void tg_waits_status(struct tg_broker *b, uint64_t ticket, enum tg_outcome outcome, int64_t status)
{
    struct tg_wait *next;
    for (struct tg_wait *w = TAILQ_FIRST(&b->waits); w; w = next) {
        next = TAILQ_NEXT(w, link);
        struct one **at = find(w, ticket);
        for (; at && at < w->by_ticket + w->n && (*at)->ticket == ticket; at++) {
            if ((*at)->stage == ENDED && (*at)->outcome != TG_OUTCOME_CANCELLED)
                (*at)->outcome = outcome;
            settle(w, *at, status);
        }
        answer_if_over(w);
    }
}

void tg_waits_due(struct tg_broker *b)
{
    uint64_t now = tg_broker_now_ms(b);
    uint64_t soonest = UINT64_MAX;
    struct tg_wait *next;
    for (struct tg_wait *w = TAILQ_FIRST(&b->waits); w; w = next) {
        next = TAILQ_NEXT(w, link);
        for (size_t i = 0; i < w->n; i++) {
            struct one *o = &w->all[i];
            if (o->stage == ENDED && o->give_up_ms <= now)
                settle(w, o, -1);
            else if (o->stage == ENDED && o->give_up_ms < soonest)
                soonest = o->give_up_ms;
        }
        answer_if_over(w);
    }
    if (soonest != UINT64_MAX)
        tg_broker_arm(b, &b->waits_timer, soonest - now);
}

/* ---- the request */

struct from_history {
    struct tg_broker *broker;
    struct one *one;
};

/* Until when the word on a ticket that has ended is awaited, in loop time. How long ago it ended this broker
 * knows itself, by a clock that nobody sets (U13). What ended under a former one ended before this one
 * started. */
static uint64_t give_up_ms(struct tg_broker *b, uint64_t ticket)
{
    size_t n = b->n_recent < TG_RECENT ? b->n_recent : TG_RECENT;
    for (size_t i = 1; i <= n; i++) {
        const struct tg_recent *r = &b->recent[(b->n_recent - i) % TG_RECENT];
        if (r->ticket == ticket)
            return r->give_up_ms;
    }
    uint64_t age_ms = tg_sat_sub_u64(tg_clock_boot_ms(), b->started_ms);
    return tg_broker_now_ms(b) + tg_sat_sub_u64(STATUS_WAIT_MS, age_ms);
}

static bool take_row(void *ctx, const struct tg_history *h)
{
    struct from_history *f = ctx;
    bool may_come = h->status < 0 && word_may_come(h->kind, h->outcome, h->held_wall_ms > 0);
    f->one->give_up_ms = may_come ? give_up_ms(f->broker, h->id) : 0;
    f->one->outcome = h->outcome;
    f->one->status = h->status;
    f->one->stage = f->one->give_up_ms > tg_broker_now_ms(f->broker) ? ENDED : KNOWN;
    return false;
}

/* An end that the store has not taken yet; its status may be on its way, as with one that it has. */
static bool in_arrears(struct tg_broker *b, struct one *o)
{
    const struct tg_ended *e = tg_ended_find(b, o->ticket);
    if (!e)
        return false;
    const struct tg_ticket *t = e->end.ticket;
    bool may_come = e->end.status < 0 && word_may_come(t->kind, e->end.outcome, t->held_boot_ms > 0);
    o->give_up_ms = may_come ? give_up_ms(b, o->ticket) : 0;
    o->outcome = e->end.outcome;
    o->status = e->end.status;
    o->stage = o->give_up_ms > tg_broker_now_ms(b) ? ENDED : KNOWN;
    return true;
}

/* What is known of a ticket now. NULL, or the refusal. */
static json_t *look_up(struct tg_broker *b, struct one *o)
{
    struct from_history f = {b, o};
    const struct tg_ticket *t = tg_queue_by_id(&b->queue, o->ticket);
    if ((t && t->saved) || in_arrears(b, o))
        return NULL;
    int err = tg_store_history_find(b->store, o->ticket, take_row, &f);
    if (err == -ENOENT || (!err && o->stage == RUNNING))
        return tg_error_reply(TG_ERR_GONE, "there is no ticket %llu, and the history does not know it",
                              (unsigned long long)o->ticket);
    return err ? tg_error_reply(TG_ERR_STORE, "the history cannot be read (%s)", tg_store_why(b->store))
               : NULL;
}

struct above {
    struct tg_broker *broker;
    const struct tg_wait *wait; /* NULL: any will do */
    uint64_t except;
    bool found;
};

static bool is_waited_for(void *ctx, pid_t pid)
{
    struct above *a = ctx;
    const struct tg_ticket *t = tg_queue_by_pid(&a->broker->queue, pid);
    if (!t || !find(a->wait, t->id))
        return false;
    a->except = t->id;
    return true;
}

/* Its own end is what nobody can wait for. */
static json_t *refuse_own(struct tg_broker *b, const struct tg_peer *peer, const struct tg_wait *w)
{
    struct above a = {.broker = b, .wait = w};
    if (!tg_proc_walk_up(&b->root, peer->pid, is_waited_for, &a))
        return NULL;
    return tg_error_reply(TG_ERR_USAGE,
                          "wait: ticket %llu is the caller's own: it cannot end before this call",
                          (unsigned long long)a.except);
}

static json_t *begin_wait(struct tg_broker *b, struct tg_peer *peer, const json_t *ids, bool now)
{
    size_t n = json_array_size(ids);
    struct tg_wait *w = calloc(1, sizeof(*w) + n * sizeof(w->all[0]));
    json_t *error = NULL;
    if (w)
        w->by_ticket = calloc(n, sizeof(struct one *));
    if (!w || !w->by_ticket)
        error = tg_error_reply(TG_ERR_STORE, "out of memory");
    for (size_t i = 0; i < n && !error; i++) {
        struct one *o = &w->all[i];
        json_int_t id = json_integer_value(json_array_get(ids, i));
        if (id < 1)
            error = tg_ops_usage("wait", "tickets must be numbers of tickets");
        o->ticket = (uint64_t)id;
        o->status = -1;
        w->by_ticket[w->n++] = o;
        if (!error)
            error = look_up(b, o);
        w->left += o->stage != KNOWN;
        if (o->stage == ENDED)
            arm(b, o->give_up_ms);
    }
    if (!error) {
        qsort(w->by_ticket, w->n, sizeof(struct one *), compare);
        error = refuse_own(b, peer, w);
    }
    if (!error && now && w->left > 0)
        error = json_pack("{s:b,s:I}", "ok", 1, "left", (json_int_t)w->left);
    if (error) { /* or the answer */
        if (w)
            free_wait(w);
        return error;
    }
    w->peer = peer;
    peer->wait = w;
    peer->blocked = true; /* answers keep their order */
    TAILQ_INSERT_TAIL(&b->waits, w, link);
    answer_if_over(w);
    return NULL;
}

/* ---- everybody */

struct own {
    json_t *set; /* the caller and its ancestors */
};

static bool note_own(void *ctx, pid_t pid)
{
    struct own *o = ctx;
    json_array_append_new(o->set, json_integer(pid));
    return false;
}

static void put_tickets(json_t *list, const json_t *own, struct tg_ticket *const *tickets, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bool is_own = false;
        for (size_t k = 0; k < json_array_size(own); k++)
            is_own |= json_integer_value(json_array_get(own, k)) == tickets[i]->owner.pid &&
                      !tickets[i]->main_ended; /* then the number is somebody else's by now */
        if (tickets[i]->saved && !is_own)
            json_array_append_new(list, json_integer((json_int_t)tickets[i]->id));
    }
}

/* All that hold or wait, on hold or not; the parked ones ask for nothing at present, unless they were passed
 * over because they are stopped. */
static json_t *list_all(struct tg_broker *b, const struct tg_peer *peer)
{
    const struct tg_queue *q = &b->queue;
    struct own own = {json_array()};
    json_t *list = json_array();
    tg_proc_walk_up(&b->root, peer->pid, note_own, &own);
    put_tickets(list, own.set, q->holders, q->n_holders);
    put_tickets(list, own.set, q->waiters, q->n_waiters);
    put_tickets(list, own.set, q->aside, q->n_aside);
    for (size_t i = 0; i < q->n_parked; i++) {
        if (q->parked[i]->stopped)
            put_tickets(list, own.set, q->parked + i, 1);
    }
    json_decref(own.set);
    return json_pack("{s:b,s:o}", "ok", 1, "tickets", list);
}

json_t *tg_op_wait(struct tg_broker *b, struct tg_peer *peer, const json_t *m)
{
    bool all = false;
    bool now = false;
    const json_t *ids = json_object_get(m, "tickets");
    if (tg_field_bool(m, "all", &all) == -EINVAL || tg_field_bool(m, "now", &now) == -EINVAL)
        return tg_ops_usage("wait", "all and now must be true or false");
    if (all)
        return ids ? tg_ops_usage("wait", "either tickets or all") : list_all(b, peer);
    if (json_array_size(ids) < 1 || json_array_size(ids) > TICKETS_MAX)
        return tg_ops_usage("wait", "tickets must be a list of 1 to 1000 numbers of tickets");
    return begin_wait(b, peer, ids, now);
}

size_t tg_waits_count(const struct tg_broker *b)
{
    const struct tg_wait *w;
    size_t n = 0;
    TAILQ_FOREACH(w, &b->waits, link)
    n++;
    return n;
}
