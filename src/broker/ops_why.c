/* SPDX-License-Identifier: Apache-2.0
 *
 * The message why (V2, A9): the gate that keeps a ticket waiting, its numbers, who is ahead and who holds
 * what it waits for. The verdict is the decision's own, made by the same pass over the same numbers; nothing
 * here judges. Lists are cut at LIST_MAX, their true lengths stand beside them.
 */
#include "broker/ops.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "base/checked.h"
#include "base/clock.h"
#include "broker/explain.h"

#define LIST_MAX 100u
#define WHY_VERSION 1

static void set(json_t *object, const char *key, json_t *value)
{
    json_object_set_new_nocheck(object, key, value);
}

static void set_number(json_t *object, const char *key, uint64_t value)
{
    set(object, key, json_integer((json_int_t)value));
}

/* One look over the queue, as the decision has it. */
struct look {
    struct tg_broker *broker;
    const struct tg_ticket *wanted;
    struct tg_verdict verdict;
    size_t ahead;
    json_t *list; /* of those ahead; NULL: not asked for */
    uint64_t now_ms;
};

static bool visit(void *ctx, struct tg_ticket *t, const struct tg_verdict *v, size_t ahead)
{
    struct look *l = ctx;
    if (t != l->wanted) {
        if (l->list && json_array_size(l->list) < LIST_MAX)
            json_array_append_new(l->list, tg_status_ticket(l->broker, t, l->now_ms));
        return true;
    }
    l->verdict = *v;
    l->ahead = ahead;
    return false;
}

/* In what unit need, have and limit of a verdict are; NULL: it has none. */
static const char *unit_of(enum tg_why why)
{
    switch (why) {
    case TG_WHY_SLOTS:
    case TG_WHY_NEVER_FITS_SLOTS:
        return "slots";
    case TG_WHY_MEMORY:
    case TG_WHY_BUDGET:
    case TG_WHY_NEVER_FITS_MEMORY:
    case TG_WHY_NEVER_FITS_BUDGET:
        return "MB";
    case TG_WHY_LOAD:
        return "load/1000";
    case TG_WHY_MAX_CONC:
        return "tickets";
    case TG_WHY_GATE_CLOSED:
        return "overtakings";
    case TG_WHY_RESERVED:
        return "ms";
    default:
        return NULL;
    }
}

static json_t *numbers(const struct tg_verdict *v)
{
    const char *unit = unit_of(v->why);
    if (!unit)
        return json_null();
    json_t *o = json_object();
    set(o, "unit", json_string_nocheck(unit));
    set_number(o, "need", v->need);
    set_number(o, "have", v->have);
    set_number(o, "limit", v->limit);
    return o;
}

/* ---- who holds it */

/* How much of what is short a holder has; 0: nothing. */
static uint64_t share(const struct tg_ticket *t, enum tg_why why, const struct tg_gates *gates)
{
    switch (why) {
    case TG_WHY_SLOTS:
        return t->slots;
    case TG_WHY_BUDGET: /* counts what was booked, whatever is in use */
        return t->est_mb;
    case TG_WHY_MEMORY:
        return t->est_mb > t->resident_mb ? t->est_mb : t->resident_mb;
    case TG_WHY_LOAD:
        return t->slots > 0 ? t->slots : 1;
    case TG_WHY_MAX_CONC:
        return t->est_mb > gates->backfill_mb ? t->est_mb : 0;
    default:
        return 0;
    }
}

struct holder {
    const struct tg_ticket *ticket;
    uint64_t share;
};

static int by_share(const void *a, const void *b)
{
    const struct holder *x = a, *y = b;
    if (x->share != y->share)
        return x->share > y->share ? -1 : 1;
    return x->ticket->id < y->ticket->id ? -1 : 1;
}

/* Those who hold what is short, the largest first. */
static int set_holders(struct tg_broker *b, json_t *reply, enum tg_why why, const struct tg_gates *gates,
                       uint64_t now_ms)
{
    const struct tg_queue *q = &b->queue;
    struct holder *all = calloc(q->n_holders + 1, sizeof(*all));
    json_t *list = json_array();
    size_t n = 0;
    if (!all) {
        json_decref(list);
        return -ENOMEM;
    }
    for (size_t i = 0; i < q->n_holders; i++) {
        uint64_t s = share(q->holders[i], why, gates);
        if (s > 0)
            all[n++] = (struct holder){q->holders[i], s};
    }
    qsort(all, n, sizeof(*all), by_share);
    for (size_t i = 0; i < n && i < LIST_MAX; i++)
        json_array_append_new(list, tg_status_ticket(b, all[i].ticket, now_ms));
    free(all);
    set(reply, "holders", list);
    set_number(reply, "n_holders", n);
    return 0;
}

/* ---- the three kinds of answers */

static json_t *begin(uint64_t id, const char *state, const char *why, const char *text)
{
    return json_pack("{s:b,s:i,s:I,s:s,s:s,s:s}", "ok", 1, "why_version", WHY_VERSION, "ticket",
                     (json_int_t)id, "state", state, "why", why, "text", text);
}

static void explain_blocker(struct tg_broker *b, const struct tg_gates *gates, const struct tg_usage *usage,
                            json_t *reply, struct tg_verdict *v)
{
    struct look l = {.broker = b, .wanted = tg_queue_by_id(&b->queue, v->blocker)};
    char text[400];
    set(reply, "blocker", json_null());
    if (v->blocker == 0 || !l.wanted)
        return;
    tg_admit_each(b, gates, usage, visit, &l);
    tg_explain_wait(&l.verdict, l.ahead, text, sizeof(text));
    set(reply, "blocker",
        json_pack("{s:I,s:s,s:s,s:s}", "ticket", (json_int_t)v->blocker, "cmd", l.wanted->cmd, "why",
                  tg_why_name(l.verdict.why), "text", text));
    *v = l.verdict; /* what it waits for is what everybody behind it waits for */
}

/* One that waits, in whatever way. */
static json_t *waiting(struct tg_broker *b, const struct tg_ticket *t)
{
    struct tg_gates gates = tg_admit_gates(b);
    struct tg_usage usage;
    struct look l = {.broker = b, .wanted = t, .list = json_array(), .now_ms = tg_clock_boot_ms()};
    char verdict[400];
    const char *text = verdict;
    if (b->queue.n_holders > 0)
        tg_admit_measure_if_due(b);
    tg_admit_usage(b, &gates, true, &usage);
    const char *why = tg_admit_not_asked(b, t, &text);
    if (t->state == TG_WAIT && !t->on_hold) {
        tg_admit_each(b, &gates, &usage, visit, &l);
    } else {
        tg_queue_settle(&b->queue, l.now_ms);
        l.ahead = tg_queue_ahead(&b->queue, t);
        for (size_t i = 0; i < l.ahead && i < LIST_MAX; i++)
            json_array_append_new(l.list, tg_status_ticket(b, b->queue.waiters[i], l.now_ms));
    }
    struct tg_verdict v = why ? (struct tg_verdict){0} : l.verdict;
    if (!why) {
        why = tg_why_name(v.why);
        tg_explain_wait(&v, l.ahead, verdict, sizeof(verdict));
        if (v.kind != TG_QUEUE)
            b->pass_due = true; /* the machine has changed since the last decision */
    }
    const bool start_known = v.start_known;
    const uint64_t start_in_ms = v.start_in_ms;
    json_t *reply = begin(t->id, tg_ticket_state_name(t->state), why, text);
    set(reply, "numbers", numbers(&v));
    set_number(reply, "position", l.ahead + 1);
    set_number(reply, "ahead", l.ahead);
    set(reply, "ahead_tickets", l.list);
    explain_blocker(b, &gates, &usage, reply, &v);
    int err = set_holders(b, reply, v.why, &gates, l.now_ms);
    set(reply, "gates", tg_status_gates(b, &gates, &usage));
    json_t *job = tg_status_ticket(b, t, l.now_ms);
    set(job, "expected_start_ms", start_known ? json_integer((json_int_t)start_in_ms) : json_null());
    set(reply, "job", job);
    if (!err)
        return reply;
    json_decref(reply);
    return tg_error_reply(TG_ERR_STORE, "out of memory");
}

static json_t *admitted(struct tg_broker *b, const struct tg_ticket *t)
{
    char text[200];
    uint64_t now_ms = tg_clock_boot_ms();
    snprintf(text, sizeof(text),
             "does not wait: it was admitted %" PRIu64 " s ago (%s), after %" PRIu64 " ms",
             tg_sat_sub_u64(now_ms, t->held_boot_ms) / 1000, tg_verdict_kind_name(t->verdict),
             tg_sat_sub_u64(t->held_boot_ms, t->asked_boot_ms));
    json_t *reply = begin(t->id, "HOLD", "none", text);
    set(reply, "job", tg_status_ticket(b, t, now_ms));
    return reply;
}

static bool take_ended(void *ctx, const struct tg_history *h)
{
    json_t **reply = ctx;
    char text[200];
    int status = (int)h->status;
    if (h->status >= 0 && WIFEXITED(status))
        snprintf(text, sizeof(text), "does not wait: it has ended (%s, exit %d)", tg_outcome_name(h->outcome),
                 WEXITSTATUS(status));
    else if (h->status >= 0)
        snprintf(text, sizeof(text), "does not wait: it has ended (%s, signal %d)",
                 tg_outcome_name(h->outcome), WTERMSIG(status));
    else
        snprintf(text, sizeof(text), "does not wait: it has ended (%s)", tg_outcome_name(h->outcome));
    *reply = begin(h->id, "DONE", "none", text);
    set(*reply, "ended", tg_ops_history_row(h));
    return false;
}

json_t *tg_op_why(struct tg_broker *b, struct tg_peer *peer, const json_t *m)
{
    uint64_t id;
    json_t *reply = NULL;
    (void)peer;
    if (tg_field_u64(m, "ticket", 1, INT64_MAX, &id))
        return tg_ops_usage("why", "ticket must be the number of a ticket");
    const struct tg_ticket *t = tg_queue_by_id(&b->queue, id);
    b->looks_left = TG_STATUS_LOOKS;
    if (t)
        return t->state == TG_HOLD ? admitted(b, t) : waiting(b, t);
    int err = tg_store_history_find(b->store, id, take_ended, &reply);
    if (reply)
        return reply;
    if (err == -ENOENT || !err)
        return tg_error_reply(TG_ERR_GONE, "there is no ticket %llu", (unsigned long long)id);
    return tg_error_reply(TG_ERR_STORE, "the history cannot be read (%s)", tg_store_why(b->store));
}
