/* SPDX-License-Identifier: Apache-2.0
 *
 * The message resize: a ticket's estimate changes while it waits or runs. Giving back is always granted.
 * More, of one that holds, is booked at once or refused: what it adds must fit beside all that is in use
 * (A2), by the function that decides about newcomers, so growing never oversubscribes. It asks for memory
 * alone: slots, load and pressure are about starting. Whoever waits does not come first: what runs and cannot
 * go on would keep what it has all the same.
 */
#include "broker/held.h"
#include "broker/ops.h"

#include "broker/explain.h"

/* Memory alone: the other gates open. */
static enum tg_why refuse_more(struct tg_broker *b, uint64_t more_mb, bool measured, struct tg_verdict *v)
{
    struct tg_gates gates = tg_admit_gates(b);
    struct tg_usage usage;
    const struct tg_candidate more = {.est_mb = more_mb, .max_conc = TG_UNLIMITED};
    tg_admit_usage(b, &gates, measured, &usage);
    gates.load_limit_milli = TG_LOAD_OFF;
    gates.pressure_memory = gates.pressure_cpu = 0;
    gates.slots = UINT32_MAX;
    return tg_gates_refuse(&gates, &usage, &more, v);
}

static json_t *no_room(struct tg_broker *b, const struct tg_ticket *t, uint64_t est_mb)
{
    struct tg_verdict v = {0};
    char text[300];
    uint64_t more = est_mb - t->est_mb;
    if (refuse_more(b, more, false, &v) == TG_WHY_NONE)
        return NULL;
    tg_admit_measure_if_due(b);
    v = (struct tg_verdict){0};
    if (refuse_more(b, more, true, &v) == TG_WHY_NONE)
        return NULL;
    tg_explain_wait(&v, 0, text, sizeof(text));
    return tg_error_reply(TG_ERR_NO_ROOM, "%llu MB more do not fit now: %s", (unsigned long long)more, text);
}

static json_t *never_fits(struct tg_broker *b, const struct tg_ticket *t, uint64_t est_mb)
{
    struct tg_gates gates = tg_admit_gates(b);
    const struct tg_usage usage = {.mem_total_mb = b->total_mb};
    const struct tg_candidate c = {.est_mb = est_mb, .slots = t->slots, .max_conc = TG_UNLIMITED};
    struct tg_verdict v = {0};
    char text[300];
    enum tg_why why = tg_never_fits(&gates, &usage, &c, &v);
    if (why != TG_WHY_NEVER_FITS_MEMORY && why != TG_WHY_NEVER_FITS_BUDGET)
        return NULL;
    tg_explain_never(&v, text, sizeof(text));
    return tg_error_reply(TG_ERR_NEVER_FITS, "can never fit here: %s", text);
}

json_t *tg_op_resize(struct tg_broker *b, struct tg_peer *peer, const json_t *m)
{
    json_t *error = NULL;
    uint64_t est_mb;
    if (tg_field_u64(m, "est_mb", 0, TG_EST_MAX_MB, &est_mb))
        return tg_ops_usage("resize", "est_mb must be a size in MB");
    struct tg_ticket *t = tg_ops_named(b, peer, m, "resize", &error);
    if (!t)
        return error;
    if (est_mb > t->est_mb)
        error = never_fits(b, t, est_mb);
    if (!error && est_mb > t->est_mb && t->state == TG_HOLD)
        error = no_room(b, t, est_mb);
    if (error)
        return error;
    struct tg_ticket row = *t;
    row.est_mb = est_mb;
    row.est_source = TG_SOURCE_STATED;
    if (t->saved && tg_store_update(b->store, &row) != 0) {
        tg_broker_store_failed(b);
        return tg_ops_store_refused(b);
    }
    t->est_source = TG_SOURCE_STATED;
    tg_queue_set_request(&b->queue, t, t->prio, est_mb, t->slots);
    if (t->state == TG_HOLD)
        tg_held_write(b, t);
    b->tail_valid = false;
    b->pass_due = true;
    return json_pack("{s:b,s:s,s:I}", "ok", 1, "state", tg_ticket_state_name(t->state), "est_mb",
                     (json_int_t)est_mb);
}
