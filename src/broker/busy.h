/* SPDX-License-Identifier: Apache-2.0
 *
 * The load and pressure that a decision sees. Measurements come from the machine, or from the group that this
 * process lives in (M11); the estimate and the gate's hysteresis are of <tidegate/load_gate.h> (O14). It
 * decides nothing.
 */
#ifndef TG_BROKER_BUSY_H
#define TG_BROKER_BUSY_H

#include "broker/broker.h"

/* Fills in the load and pressure of *u for the gates in force. What cannot be read is unknown (S4). */
void tg_busy_usage(struct tg_broker *b, const struct tg_gates *gates, struct tg_usage *u);
/* A moment that has nothing to do with what has just happened, a timer's: a measurement is taken in. */
void tg_busy_tick(struct tg_broker *b);
/* A job was granted or has ended. */
void tg_busy_granted(struct tg_broker *b, const struct tg_ticket *t);
void tg_busy_ended(struct tg_broker *b, const struct tg_ticket *t);

#endif
