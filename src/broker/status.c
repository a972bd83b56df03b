/* SPDX-License-Identifier: Apache-2.0
 *
 * What a person sees: the gates with their numbers, every holder and every waiter (S11), and of each waiter
 * why it waits, from the function that decides (A9). Changes nothing.
 */
#include "broker/broker.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"
#include "broker/explain.h"
#include "machine/load.h"

#define STATUS_VERSION 1

static void set(json_t *object, const char *key, json_t *value)
{
    json_object_set_new_nocheck(object, key, value);
}

static void set_number(json_t *object, const char *key, uint64_t value)
{
    set(object, key, json_integer((json_int_t)value));
}

/* The texts of a ticket are valid UTF-8: they were made so when they came in. */
static void set_text(json_t *object, const char *key, const char *text)
{
    set(object, key, json_string_nocheck(text));
}

static void set_number_or_null(json_t *object, const char *key, uint64_t value, bool known)
{
    set(object, key, known ? json_integer((json_int_t)value) : json_null());
}

static json_t *level(int64_t prio)
{
    static const char *const names[] = {"idle", "low", "normal", "high", "critical"};
    return prio >= 0 && prio <= 4 ? json_string_nocheck(names[prio]) : json_null();
}

static json_t *milli(uint64_t value, bool known)
{
    return known ? json_real((double)value / 1000.0) : json_null();
}

/* The load that the gate goes by; with the gate off, that of the machine. */
static json_t *load_object(struct tg_broker *b, const struct tg_gates *g, const struct tg_usage *u)
{
    json_t *load = json_object();
    struct tg_load now;
    bool on = g->load_limit_milli != TG_LOAD_OFF;
    bool known = tg_load_read(&b->root, &now) == 0;
    set(load, "limit", milli(g->load_limit_milli, on));
    if (on)
        set(load, "now", milli(u->load_milli, u->load_known));
    else
        set(load, "now", milli(known ? now.effective_milli : 0, known));
    set(load, "one_minute", milli(known ? now.one_minute_milli : 0, known));
    set(load, "closed", json_boolean(on && u->load_closed));
    set_number(load, "least_slots", g->load_least_slots);
    set(load, "opens_below", milli(tg_sat_sub_u64(g->load_limit_milli, g->load_margin_milli), on));
    return load;
}

/* Percentages of the last 10 s; null where the gate is off or nothing can be read. */
static json_t *pressure_object(uint32_t limit, uint32_t now, bool unknown)
{
    json_t *o = json_object();
    set(o, "limit", limit > 0 ? json_real(limit / 100.0) : json_null());
    set(o, "now", limit > 0 && !unknown ? json_real(now / 100.0) : json_null());
    return o;
}

static json_t *memory_object(const struct tg_gates *g, const struct tg_usage *u)
{
    json_t *memory = json_object();
    set_number(memory, "floor_mb", g->floor_mb);
    set_number_or_null(memory, "available_mb", u->mem_available_mb, u->mem_known);
    set_number_or_null(memory, "total_mb", u->mem_total_mb, u->mem_known);
    set_number(memory, "reserved_mb", u->reserved_mb);
    set_number(memory, "booked_mb", u->booked_mb);
    set_number_or_null(memory, "budget_mb", g->budget_mb, g->budget_mb != TG_NO_BUDGET);
    return memory;
}

json_t *tg_status_gates(struct tg_broker *b, const struct tg_gates *g, const struct tg_usage *u)
{
    json_t *slots = json_object();
    set_number(slots, "limit", g->slots);
    set_number(slots, "held", u->slots_held);
    json_t *pressure = json_object();
    set(pressure, "memory", pressure_object(g->pressure_memory, u->pressure_memory, u->pressure_unknown));
    set(pressure, "cpu", pressure_object(g->pressure_cpu, u->pressure_cpu, u->pressure_unknown));
    json_t *gates = json_object();
    set(gates, "slots", slots);
    set(gates, "load", load_object(b, g, u));
    set(gates, "memory", memory_object(g, u));
    set(gates, "pressure", pressure);
    set_number(gates, "backfill_mb", g->backfill_mb);
    set_number(gates, "overtake_bound", g->overtake_bound);
    set(gates, "strict", json_boolean(g->strict));
    set_number_or_null(gates, "ageing_ms", b->config.ageing_ms, b->config.ageing_ms > 0);
    set(gates, "draining", json_boolean(b->config.drain));
    return gates;
}

/* Of the first TG_STATUS_LOOKS of an answer; of the others it is not known: ten thousand looks take long. */
static json_t *stopped(struct tg_broker *b, const struct tg_ticket *t)
{
    if (t->stopped)
        return json_true();
    if (b->looks_left == 0)
        return json_null();
    b->looks_left--;
    return json_boolean(tg_stopped_is(b, t));
}

/* What holders and waiters have in common. */
static json_t *ticket_object(struct tg_broker *b, const struct tg_ticket *t)
{
    json_t *o = json_object();
    set_number(o, "ticket", t->id);
    set_number(o, "pid", (uint64_t)t->owner.pid);
    set_number(o, "uid", t->uid);
    set_text(o, "kind", tg_ticket_kind_name(t->kind));
    set(o, "prio", json_integer(t->prio));
    set(o, "level", level(t->prio));
    set_text(o, "tenant", t->tenant);
    set_number(o, "est_mb", t->est_mb);
    set_text(o, "estimate", tg_source_name(t->est_source));
    set_number_or_null(o, "time_ms", t->time_ms, t->time_ms > 0);
    set_text(o, "time_source", tg_source_name(t->time_source));
    set_number(o, "slots", t->slots);
    set(o, "strict", json_boolean(t->strict));
    set_number_or_null(o, "max_conc", t->max_conc, t->max_conc != TG_UNLIMITED);
    set_text(o, "cmd", t->cmd);
    set_text(o, "cwd", t->cwd);
    set(o, "key", t->key[0] ? json_string_nocheck(t->key) : json_null());
    set_number(o, "asked_wall_ms", t->asked_wall_ms);
    set(o, "stopped", stopped(b, t));
    set_text(o, "liveness", t->watch || t->main_ended ? "known" : "unknown");
    return o;
}

static json_t *holder_object(struct tg_broker *b, const struct tg_ticket *t, uint64_t now_ms)
{
    json_t *o = ticket_object(b, t);
    set_number(o, "held_ms", tg_sat_sub_u64(now_ms, t->held_boot_ms));
    set_number(o, "waited_ms", tg_sat_sub_u64(t->held_boot_ms, t->asked_boot_ms));
    set_number(o, "resident_mb", t->resident_mb);
    set_number(o, "peak_mb", t->peak_mb);
    set(o, "over_estimate", json_boolean(t->over_estimate));
    set_text(o, "verdict", tg_verdict_kind_name(t->verdict));
    set(o, "cancelled", json_boolean(t->cancelled));
    set(o, "detached", json_boolean(t->detached));
    set(o, "main_ended", json_boolean(t->main_ended));
    set_number_or_null(o, "main_status", (uint64_t)t->main_status, t->main_status >= 0);
    set_number(o, "survivors", t->main_ended ? t->n_survivors : 0);
    set_number(o, "let_go", t->n_let_go);
    return o;
}

static json_t *waiter_object(struct tg_broker *b, const struct tg_ticket *t, uint64_t now_ms)
{
    json_t *o = ticket_object(b, t);
    set_text(o, "state", tg_ticket_state_name(t->state));
    set_number(o, "waited_ms", tg_sat_sub_u64(now_ms, t->asked_boot_ms));
    set_number(o, "overtaken", t->overtaken);
    set(o, "prio_now", json_integer(t->level));
    set(o, "on_hold", json_boolean(t->on_hold));
    return o;
}

json_t *tg_status_ticket(struct tg_broker *b, const struct tg_ticket *t, uint64_t now_ms)
{
    return t->state == TG_HOLD ? holder_object(b, t, now_ms) : waiter_object(b, t, now_ms);
}

/* v: the verdict on it, when the policy is asked about it. */
static void set_why(const struct tg_broker *b, json_t *o, const struct tg_ticket *t,
                    const struct tg_verdict *v, size_t ahead)
{
    char verdict[400];
    const char *text = verdict;
    const char *why = tg_admit_not_asked(b, t, &text);
    if (!why) {
        why = tg_why_name(v->why);
        tg_explain_wait(v, ahead, verdict, sizeof(verdict));
    }
    set_number_or_null(o, "expected_start_ms", v->start_in_ms,
                       v->start_known && !tg_admit_not_asked(b, t, NULL));
    set_number(o, "position", ahead + 1);
    set_number(o, "ahead", ahead);
    set_text(o, "why", why);
    set_text(o, "text", text);
}

/* Between the elements of a list. */
static void put_element(struct tg_frame_writer *w, bool first, json_t *o)
{
    if (!first)
        tg_frame_put_text(w, ",");
    tg_frame_put_json(w, o);
}

/* Those whom no pass sees, with the position they would have. */
static void put_others(struct tg_broker *b, struct tg_frame_writer *w, bool first,
                       struct tg_ticket *const *list, size_t n, uint64_t now_ms)
{
    static const struct tg_verdict none = {0};
    for (size_t i = 0; i < n; i++) {
        json_t *o = waiter_object(b, list[i], now_ms);
        set_why(b, o, list[i], &none, tg_queue_ahead(&b->queue, list[i]));
        put_element(w, first && i == 0, o);
    }
}

struct waiters {
    struct tg_broker *broker;
    struct tg_frame_writer *w;
    uint64_t now_ms;
};

static bool put_waiter(void *ctx, struct tg_ticket *t, const struct tg_verdict *v, size_t ahead)
{
    struct waiters *ws = ctx;
    if (v->kind != TG_QUEUE && !tg_admit_not_asked(ws->broker, t, NULL))
        ws->broker->pass_due = true; /* the machine has changed since the last decision */
    json_t *o = waiter_object(ws->broker, t, ws->now_ms);
    set_why(ws->broker, o, t, v, ahead);
    put_element(ws->w, ahead == 0, o);
    return true;
}

/* Every waiter judged by the policy's pass, to its end. Each is written and forgotten: ten thousand of them
 * as one tree of values would keep everybody waiting. */
static void put_waiters(struct tg_broker *b, struct tg_frame_writer *w, const struct tg_gates *gates,
                        const struct tg_usage *usage, uint64_t now_ms)
{
    const struct tg_queue *q = &b->queue;
    struct waiters ws = {b, w, now_ms};
    tg_admit_each(b, gates, usage, put_waiter, &ws);
    put_others(b, w, q->n_waiters == 0, q->aside, q->n_aside, now_ms);
    put_others(b, w, q->n_waiters + q->n_aside == 0, q->parked, q->n_parked, now_ms);
}

static json_t *broker_object(const struct tg_broker *b, uint64_t now_ms)
{
    json_t *o = json_object();
    set_number(o, "pid", (uint64_t)getpid());
    set_text(o, "version", TG_VERSION);
    set_number(o, "protocol", TG_PROTO_VERSION);
    set(o, "socket", json_string(b->socket_path));
    set_number(o, "uptime_ms", tg_sat_sub_u64(now_ms, b->started_ms));
    set_number(o, "connections", b->n_peers);
    return o;
}

static json_t *store_object(const struct tg_broker *b)
{
    json_t *o = json_object();
    set(o, "path", json_string(tg_store_path(b->store)));
    set(o, "uuid", json_string(tg_store_uuid(b->store)));
    const char *moved = b->store_report.quarantined;
    set(o, "quarantined", moved[0] ? json_string(moved) : json_null());
    set_number(o, "dropped_rows", b->store_report.dropped_rows);
    set_number(o, "recognised", b->store_report.recognised);
    set(o, "failing", b->store_failing ? json_string(tg_store_why(b->store)) : json_null());
    return o;
}

int tg_status_frame(struct tg_broker *b, uint8_t **ret_bytes, size_t *ret_len)
{
    struct tg_frame_writer w = {NULL, 0, 0, 0};
    uint64_t now_ms = tg_clock_boot_ms();
    struct tg_gates gates = tg_admit_gates(b);
    struct tg_usage usage;
    if (b->queue.n_holders > 0)
        tg_admit_measure_if_due(b);
    tg_admit_usage(b, &gates, true, &usage);
    b->looks_left = TG_STATUS_LOOKS;
    tg_frame_put_text(&w, "{\"ok\":true,\"status_version\":");
    tg_frame_put_json(&w, json_integer(STATUS_VERSION));
    tg_frame_put_text(&w, ",\"broker\":");
    tg_frame_put_json(&w, broker_object(b, now_ms));
    tg_frame_put_text(&w, ",\"store\":");
    tg_frame_put_json(&w, store_object(b));
    tg_frame_put_text(&w, ",\"gates\":");
    tg_frame_put_json(&w, tg_status_gates(b, &gates, &usage));
    tg_frame_put_text(&w, ",\"holders\":[");
    for (size_t i = 0; i < b->queue.n_holders; i++)
        put_element(&w, i == 0, holder_object(b, b->queue.holders[i], now_ms));
    tg_frame_put_text(&w, "],\"waiters\":[");
    put_waiters(b, &w, &gates, &usage, now_ms);
    tg_frame_put_text(&w, "]}");
    return tg_frame_finish(&w, ret_bytes, ret_len);
}
