/* SPDX-License-Identifier: Apache-2.0
 *
 * The messages hold and resume: a person keeps a ticket back. It keeps its place, no pass sees it, so it
 * blocks nobody; that it is on hold is kept in the store, over restarts and timeouts (A7, A8). What runs
 * cannot be kept back.
 */
#include "broker/ops.h"

static json_t *set_hold(struct tg_broker *b, const struct tg_peer *peer, const json_t *m, const char *op,
                        bool on_hold)
{
    json_t *error = NULL;
    struct tg_ticket *t = tg_ops_named(b, peer, m, op, &error);
    if (!t)
        return error;
    if (t->state == TG_HOLD)
        return tg_error_reply(
            TG_ERR_BUSY,
            "ticket %llu has been admitted already: only what waits is put on hold or resumed "
            "(cancel would end it)",
            (unsigned long long)t->id);
    if (t->on_hold == on_hold)
        return tg_ops_state_reply(tg_ticket_state_name(t->state));
    struct tg_ticket row = *t;
    row.on_hold = on_hold;
    if (t->saved && tg_store_update(b->store, &row) != 0) {
        tg_broker_store_failed(b);
        return tg_ops_store_refused(b);
    }
    tg_queue_set_hold(&b->queue, t, on_hold);
    b->tail_valid = false;
    b->pass_due = true;
    return tg_ops_state_reply(tg_ticket_state_name(t->state));
}

json_t *tg_op_hold(struct tg_broker *b, struct tg_peer *peer, const json_t *m)
{
    return set_hold(b, peer, m, "hold", true);
}

json_t *tg_op_resume(struct tg_broker *b, struct tg_peer *peer, const json_t *m)
{
    return set_hold(b, peer, m, "resume", false);
}
