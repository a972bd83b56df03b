/* SPDX-License-Identifier: Apache-2.0
 *
 * What the handlers of messages (ops*.c) share: the one form of a handler, the ticket that a message names,
 * and the refusals that several of them give. A refused message has changed nothing.
 */
#ifndef TG_BROKER_OPS_H
#define TG_BROKER_OPS_H

#include "broker/broker.h"
#include "proto/fields.h"

/* Returns the answer, or NULL: it has been sent, will be sent by a later event, or there is none. */
typedef json_t *tg_op(struct tg_broker *b, struct tg_peer *peer, const json_t *m);

tg_op tg_op_done; /* ops_end.c */
tg_op tg_op_release;
tg_op tg_op_cancel;
tg_op tg_op_hold;
tg_op tg_op_resume;
tg_op tg_op_history;
tg_op tg_op_why;
tg_op tg_op_wait;
tg_op tg_op_metrics;
tg_op tg_op_resize;

/* U1: everybody's own tickets; root's are everybody. */
bool tg_ops_may_touch(const struct tg_peer *peer, const struct tg_ticket *t);
/* The ticket a message names, which must be the caller's or the caller root (U1); NULL and the refusal. */
struct tg_ticket *tg_ops_named(struct tg_broker *b, const struct tg_peer *peer, const json_t *m,
                               const char *op, json_t **ret_error);
json_t *tg_ops_usage(const char *op, const char *rule);
/* After a failed write: says so, and that it is tried again. */
json_t *tg_ops_store_refused(struct tg_broker *b);
/* {"ok":true,"state":STATE} */
json_t *tg_ops_state_reply(const char *state);

/* The refusal of a request that is meant for another store than ours, or NULL. One that names none is meant
 * for whoever gets it. */
json_t *tg_ops_other_store(const struct tg_broker *b, const json_t *message);

/* A row of the history as an object. */
json_t *tg_ops_history_row(const struct tg_history *h);

#endif
