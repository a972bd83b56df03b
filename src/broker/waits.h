/* SPDX-License-Identifier: Apache-2.0
 *
 * Who waits for the end of tickets (the message wait): one request a connection, answered when all its
 * tickets have ended and it is known how, or known that nobody will tell. The end of a ticket is the event
 * (A5).
 */
#ifndef TG_BROKER_WAITS_H
#define TG_BROKER_WAITS_H

#include "broker/broker.h"

/* A ticket ends: life.c says so, before the ticket is freed. status < 0: not known (yet). */
void tg_waits_ended(struct tg_broker *b, const struct tg_ticket *t, enum tg_outcome outcome, int64_t status);
/* The wrapper of a command that had ended before tells its status. */
void tg_waits_status(struct tg_broker *b, uint64_t ticket, enum tg_outcome outcome, int64_t status);
/* The client is gone. */
void tg_waits_drop(struct tg_peer *peer);
/* Nobody told a status in time: answers without it. */
void tg_waits_due(struct tg_broker *b);
/* How many calls wait now. */
size_t tg_waits_count(const struct tg_broker *b);

#endif
