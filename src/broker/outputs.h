/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps the folder of detached jobs' outputs (STATE_DIR/output) bounded: those of the newest `output-keep`
 * ended jobs stay, and none whose ticket has left the history. An output that is still written to stays in
 * any case. The files are made by the clients (client/output.h). Where `output-max-mb` is set, a file that
 * has grown beyond it is cut there, with a note, once a second and when its job ends.
 */
#ifndef TG_BROKER_OUTPUTS_H
#define TG_BROKER_OUTPUTS_H

#include "broker/broker.h"

/* Removes what need not stay; best effort. */
void tg_outputs_sweep(struct tg_broker *b);
/* A detached job has ended: sweeps, but not more than once a second. */
void tg_outputs_ended(struct tg_broker *b);
/* A detached job has been admitted, or the setting has changed: cuts what is too long from now on. */
void tg_outputs_mind(struct tg_broker *b);
void tg_outputs_due(struct tg_broker *b);
/* Cuts the output of this one, if it is too long; best effort. */
void tg_outputs_cut(const struct tg_broker *b, const struct tg_ticket *t);

#endif
