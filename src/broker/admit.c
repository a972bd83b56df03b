/* SPDX-License-Identifier: Apache-2.0
 *
 * The decision (A1, A2, A3, A10): what is in use, one pass of the policy over the waiters, the grants booked
 * in the store, the answers. It runs after events, never on its own; only while somebody waits for load or
 * memory, which change without an event, a timer asks again (100 ms, growing to 1 s).
 *
 * Reservations: a holder counts with what it was promised and has not grown into yet. As long as nobody is
 * refused for memory, it counts as not grown at all, which costs nothing to find out; only then the process
 * trees are measured and the pass is made again.
 */
#include "broker/broker.h"

#include <errno.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/clock.h"
#include "broker/busy.h"
#include "broker/explain.h"
#include "broker/growth.h"
#include "broker/survivors.h"
#include "machine/load.h"
#include "machine/memory.h"
#include "proto/fields.h"

#define RECHECK_FIRST_MS 100u
#define RECHECK_MAX_MS 1000u
#define RECHECK_LOAD_MS 250u
#define SIZE_FRESH_MS 1000u
#define TAIL_FRESH_MS 100u
#define AGE_PAUSE_MS 50u /* thousands may age one after the other */

struct plan {
    struct tg_pass pass;
    size_t n;             /* grants */
    bool telemetry;       /* somebody is held back by what changes without an event */
    bool load;            /* and by the load, which changes quickly */
    bool measuring_helps; /* somebody would fit if the holders had grown into their promises */
    size_t n_before;      /* grants decided before the first of those */
};

struct tg_gates tg_admit_gates(struct tg_broker *b)
{
    uint64_t now = tg_broker_now_ms(b);
    if (b->cores == 0 || now - b->size_read_ms >= SIZE_FRESH_MS) {
        struct tg_memory memory;
        b->cores = tg_usable_cores(&b->root);
        b->total_mb = tg_memory_read(&b->root, b->config.zfs_arc, &memory) == 0 ? memory.total_mb : 0;
        b->size_read_ms = now;
    }
    return tg_config_gates(&b->config, b->cores);
}

void tg_admit_usage(struct tg_broker *b, const struct tg_gates *gates, bool measured, struct tg_usage *ret)
{
    const struct tg_queue *q = &b->queue;
    struct tg_usage u = {.slots_held = q->slots_held,
                         .heavy_holders = q->heavy_holders,
                         .booked_mb = q->promised_mb,
                         .reserved_mb = tg_growth_reserved_mb(q, measured)};
    tg_busy_usage(b, gates, &u);
    struct tg_memory memory;
    if (tg_memory_read(&b->root, b->config.zfs_arc, &memory) == 0) {
        u.mem_known = true;
        u.mem_available_mb = memory.available_mb;
        u.mem_total_mb = memory.total_mb;
    }
    *ret = u;
}

void tg_admit_measure_if_due(struct tg_broker *b)
{
    if (tg_growth_wait_ms(b) == 0)
        tg_growth_measure(b);
}

static bool is_telemetry(enum tg_why why)
{
    return why == TG_WHY_MEMORY || why == TG_WHY_MEMORY_UNKNOWN || why == TG_WHY_LOAD ||
           why == TG_WHY_LOAD_UNKNOWN || why == TG_WHY_PRESSURE_MEMORY || why == TG_WHY_PRESSURE_CPU ||
           why == TG_WHY_PRESSURE_UNKNOWN;
}

static int push_grant(struct tg_broker *b, struct plan *plan, struct tg_grant grant)
{
    if (plan->n == b->grants_room) {
        size_t room = b->grants_room ? b->grants_room * 2 : 64;
        struct tg_grant *grown = realloc(b->grants, room * sizeof(*grown));
        if (!grown)
            return -ENOMEM;
        b->grants = grown;
        b->grants_room = room;
    }
    b->grants[plan->n++] = grant;
    return 0;
}

static void note_refusal(struct plan *plan, const struct tg_gates *gates, const struct tg_usage *usage,
                         const struct tg_verdict *v)
{
    plan->telemetry |= is_telemetry(v->why);
    plan->load |= v->why == TG_WHY_LOAD;
    if (v->why != TG_WHY_MEMORY || plan->measuring_helps || usage->reserved_mb == 0)
        return;
    /* It would have room, or, whoever has a reservation, that must not come too late for what holders have
     * grown into already. */
    if (!v->start_known && tg_sat_add_u64(v->need, gates->floor_mb) > usage->mem_available_mb)
        return;
    plan->measuring_helps = true;
    plan->n_before = plan->n;
}

/* One pass over the waiters. It stops when nobody could be granted any more and the front is known. */
static void make_plan(struct tg_broker *b, const struct tg_gates *gates, const struct tg_usage *usage,
                      struct plan *plan)
{
    const struct tg_queue *q = &b->queue;
    struct tg_ticket *front = NULL;
    *plan = (struct plan){0};
    b->pass_no++;
    tg_ends_pass(&b->ends, q, tg_clock_boot_ms(), gates, usage, &plan->pass);
    size_t i = 0;
    for (; i < q->n_waiters; i++) {
        bool settled = plan->pass.has_front && !plan->pass.all_self_limited;
        if (settled && tg_pass_exhausted(&plan->pass, q->zero_slot_waiters > 0))
            break;
        struct tg_ticket *t = q->waiters[i];
        struct tg_candidate c = tg_ticket_candidate(t);
        struct tg_verdict v = tg_pass_next(&plan->pass, &c);
        t->judged = v;
        t->pass_no = b->pass_no;
        if (!front && plan->pass.has_front)
            front = t;
        if (v.kind == TG_QUEUE)
            note_refusal(plan, gates, usage, &v);
        else if (push_grant(b, plan, (struct tg_grant){t, v.overtakes ? front : NULL, v.kind}) != 0)
            break; /* out of memory: the next pass goes on */
    }
    plan->pass.ahead += q->n_waiters - i;
}

static void answer_grant(struct tg_broker *b, struct tg_ticket *t)
{
    struct tg_peer *peer = t->peer;
    tg_peer_reply(peer, tg_ops_hold_reply(b, t, NULL));
    tg_admit_forget(b, t);
    if (peer)
        tg_peer_unblock(peer);
    if (!t->acked)
        tg_stopped_await_ack(b);
    if (t->acked) /* a run: its process becomes the command now; nothing more is said here */
        tg_peer_detach(t);
}

/* Books grants [0, n) one by one; false when the store refused, or somebody was passed over. */
static bool book(struct tg_broker *b, size_t n)
{
    bool whole = true;
    for (size_t i = 0; i < n; i++) {
        struct tg_grant *g = &b->grants[i];
        if (g->front && !g->front->saved && tg_life_save(b, g->front) != 0)
            return false;
        if (tg_stopped_passed_over(b, g->ticket)) { /* the rest fits all the more */
            whole = false;
            continue;
        }
        if (tg_life_grant(b, g) != 0)
            return false;
        answer_grant(b, g->ticket);
    }
    return whole;
}

static void arm_recheck(struct tg_broker *b, uint64_t ms)
{
    if (!uv_is_active((uv_handle_t *)&b->recheck_timer) || uv_timer_get_due_in(&b->recheck_timer) > ms)
        tg_broker_arm(b, &b->recheck_timer, ms);
}

/* What is in use, for a decision. With every slot taken the machine need not be asked: slots refuse first. */
static void usage_for_pass(struct tg_broker *b, const struct tg_gates *gates, struct tg_usage *ret)
{
    const struct tg_queue *q = &b->queue;
    if (q->slots_held < gates->slots || q->zero_slot_waiters > 0) {
        tg_admit_usage(b, gates, false, ret);
        return;
    }
    *ret = (struct tg_usage){.slots_held = q->slots_held,
                             .heavy_holders = q->heavy_holders,
                             .booked_mb = q->promised_mb,
                             .reserved_mb = q->promised_mb,
                             .mem_total_mb = b->total_mb,
                             .mem_available_mb = UINT64_MAX,
                             .mem_known = true,
                             .load_known = true};
}

/* When to look again although nothing has happened; UINT64_MAX: never. */
static uint64_t look_again_ms(const struct tg_broker *b, const struct plan *plan, uint64_t measure_in)
{
    uint64_t in = UINT64_MAX;
    if (plan->telemetry)
        in = plan->load && b->recheck_ms > RECHECK_LOAD_MS ? RECHECK_LOAD_MS : b->recheck_ms;
    if (measure_in > 0)
        in = measure_in;
    uint64_t late = tg_ends_look_again_ms(&plan->pass);
    uint64_t age = b->queue.n_waiters > 1 ? tg_queue_age_in_ms(&b->queue) : UINT64_MAX;
    if (age < AGE_PAUSE_MS)
        age = AGE_PAUSE_MS;
    if (age < in)
        in = age;
    return late < in ? late : in;
}

static void full_pass(struct tg_broker *b)
{
    struct tg_gates gates = tg_admit_gates(b);
    struct tg_usage usage;
    struct plan plan;
    uint64_t wait = 0;
    usage_for_pass(b, &gates, &usage);
    make_plan(b, &gates, &usage, &plan);
    size_t n = plan.n;
    if (plan.measuring_helps) {
        wait = tg_growth_wait_ms(b);
        if (wait == 0 && tg_growth_measure(b) == 0) {
            tg_admit_usage(b, &gates, true, &usage);
            make_plan(b, &gates, &usage, &plan);
            n = plan.n;
        } else {
            n = plan.n_before;
        }
    }
    bool booked = book(b, n);
    b->tail = plan.pass;
    b->tail_valid = booked && n == plan.n;
    b->tail_ms = tg_broker_now_ms(b);
    if (n > 0)
        b->recheck_ms = RECHECK_FIRST_MS;
    uint64_t again = look_again_ms(b, &plan, wait);
    if (again == UINT64_MAX)
        uv_timer_stop(&b->recheck_timer);
    else
        arm_recheck(b,
                    again); /* one that is due sooner stays: passes in a row must not put it off for ever */
}

/* The verdict on a waiter that the pass did not reach: nobody behind the front could be granted, so it is
 * judged as the next in line. */
static void judge_behind(struct tg_broker *b, struct tg_ticket *t)
{
    struct tg_pass pass = b->tail;
    struct tg_candidate c = tg_ticket_candidate(t);
    t->judged = tg_pass_next(&pass, &c);
    t->pass_no = b->pass_no;
}

/* Newcomers who queue behind everybody need no new pass: they are fed to the last one. True when all of
 * them stay; otherwise the caller makes a whole pass. */
static bool append_to_tail(struct tg_broker *b)
{
    struct tg_queue *q = &b->queue;
    if (!b->tail_valid || b->n_fresh > q->n_waiters)
        return false;
    for (size_t i = q->n_waiters - b->n_fresh; i < q->n_waiters; i++) {
        if (!q->waiters[i]->reply_due)
            return false;
    }
    bool old = tg_broker_now_ms(b) - b->tail_ms > TAIL_FRESH_MS;
    for (size_t i = q->n_waiters - b->n_fresh; i < q->n_waiters; i++) {
        struct tg_candidate c = tg_ticket_candidate(q->waiters[i]);
        struct tg_verdict v = tg_pass_next(&b->tail, &c);
        if (v.kind != TG_QUEUE || (old && is_telemetry(v.why)))
            return false;
        if (is_telemetry(v.why))
            arm_recheck(b, b->recheck_ms);
        if (tg_queue_age_in_ms(q) != UINT64_MAX)
            return false;  /* the pass sees when the order changes next */
        if (v.start_known) /* it is the front: see look_again_ms */
            arm_recheck(b, tg_ends_look_again_ms(&b->tail));
        q->waiters[i]->judged = v;
        q->waiters[i]->pass_no = b->pass_no;
    }
    return true;
}

void tg_admit_each(struct tg_broker *b, const struct tg_gates *gates, const struct tg_usage *usage,
                   bool (*visit)(void *ctx, struct tg_ticket *t, const struct tg_verdict *v, size_t ahead),
                   void *ctx)
{
    const struct tg_queue *q = &b->queue;
    uint64_t now_ms = tg_clock_boot_ms();
    struct tg_pass pass;
    struct tg_ends ends = {0};
    struct tg_expect expect;
    if (tg_queue_settle(&b->queue, now_ms))
        b->pass_due = true;
    tg_ends_pass(&ends, q, now_ms, gates, usage, &pass);
    tg_expect_begin(&expect, q, now_ms, gates, usage);
    bool go_on = true;
    for (size_t i = 0; i < q->n_waiters && go_on; i++) {
        struct tg_candidate c = tg_ticket_candidate(q->waiters[i]);
        struct tg_verdict v = tg_pass_next(&pass, &c);
        tg_expect_next(&expect, q->waiters[i], &v);
        go_on = visit(ctx, q->waiters[i], &v, i);
    }
    tg_expect_done(&expect);
    tg_ends_done(&ends);
}

const char *tg_admit_not_asked(const struct tg_broker *b, const struct tg_ticket *t, const char **ret_text)
{
    const char *why = NULL;
    const char *text = NULL;
    if (t && t->on_hold) {
        why = "hold";
        text = "is on hold: keeps its place until it is resumed";
    } else if (t && t->state == TG_PARKED && t->stopped) {
        why = "stopped";
        text = "its process is stopped: was passed over, keeps its place until it goes on";
    } else if (t && t->state == TG_PARKED) {
        why = "parked";
        text = "gave up waiting for now: keeps its place until it asks again";
    } else if (b->holding_back) {
        why = "restart";
        text = "the broker has just started: those who waited before come back first";
    } else if (b->config.drain) {
        why = "drain";
        text = "waits: the queue is drained, nobody is admitted until undrain";
    }
    if (why && ret_text)
        *ret_text = text;
    return why;
}

static json_t *wait_reply(struct tg_broker *b, const struct tg_ticket *t)
{
    size_t ahead = tg_queue_ahead(&b->queue, t);
    char verdict[400];
    const char *text = verdict;
    const char *why = tg_admit_not_asked(b, t, &text);
    if (!why) {
        why = tg_why_name(t->judged.why);
        tg_explain_wait(&t->judged, ahead, verdict, sizeof(verdict));
    }
    return json_pack("{s:b,s:s,s:I,s:I,s:s,s:s}", "ok", 1, "state", "WAIT", "ticket", (json_int_t)t->id,
                     "ahead", (json_int_t)ahead, "why", why, "text", text);
}

/* The first answer of one that stays: it is written, then told. */
static void answer_wait(struct tg_broker *b, struct tg_ticket *t)
{
    struct tg_peer *peer = t->peer;
    if (!t->saved && tg_life_save(b, t) != 0) {
        tg_peer_reply(peer, tg_error_reply(TG_ERR_STORE, "nothing was enqueued: the store refused (%s)",
                                           tg_store_why(b->store)));
        tg_queue_remove(&b->queue, t);
        tg_life_free(b, t);
        b->tail_valid = false;
        b->pass_due = true;
    } else {
        if (!tg_admit_not_asked(b, t, NULL) && t->pass_no != b->pass_no)
            judge_behind(b, t);
        tg_peer_reply(peer, wait_reply(b, t));
        tg_admit_forget(b, t);
    }
    if (peer)
        tg_peer_unblock(peer);
}

static void answer_the_rest(struct tg_broker *b)
{
    while (b->n_fresh > 0)
        answer_wait(b, b->fresh[0]);
}

void tg_admit_settle(struct tg_broker *b)
{
    if (b->any_unasked && b->queue.n_waiters > 0)
        tg_survivors_ask_all(b);
    if ((b->pass_due || b->n_fresh > 0) && tg_queue_settle(&b->queue, tg_clock_boot_ms()))
        b->pass_due = true;
    if (tg_admit_not_asked(b, NULL, NULL)) {
        b->pass_due = false; /* whoever ends this state makes it due */
        b->tail_valid = false;
        uv_timer_stop(&b->recheck_timer);
        answer_the_rest(b);
        return;
    }
    if (!b->pass_due && b->n_fresh > 0 && !append_to_tail(b))
        b->pass_due = true;
    if (b->pass_due) {
        b->pass_due = false;
        if (b->queue.n_waiters > 0) {
            uint64_t begin_ns = tg_clock_mono_ns();
            full_pass(b);
            tg_metrics_cycle(&b->metrics, tg_clock_mono_ns() - begin_ns);
        } else {
            uv_timer_stop(&b->recheck_timer);
        }
    }
    answer_the_rest(b);
}

int tg_admit_fresh(struct tg_broker *b, struct tg_ticket *t)
{
    if (b->n_fresh == b->fresh_room) {
        size_t room = b->fresh_room ? b->fresh_room * 2 : 64;
        struct tg_ticket **grown = realloc(b->fresh, room * sizeof(struct tg_ticket *));
        if (!grown)
            return -ENOMEM;
        b->fresh = grown;
        b->fresh_room = room;
    }
    b->fresh[b->n_fresh++] = t;
    t->reply_due = true;
    return 0;
}

void tg_admit_forget(struct tg_broker *b, struct tg_ticket *t)
{
    if (!t->reply_due)
        return;
    t->reply_due = false;
    for (size_t i = 0; i < b->n_fresh; i++) {
        if (b->fresh[i] == t) {
            b->fresh[i] = b->fresh[--b->n_fresh];
            return;
        }
    }
}
