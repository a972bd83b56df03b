/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps the folder of detached jobs' outputs (STATE_DIR/output) bounded: those of the newest `output-keep`
 * ended jobs stay, and none whose ticket has left the history. An output that is still written to stays in
 * any case. The files are made by the clients (client/output.h); how large one grows is its job's own affair.
 */
#ifndef TG_BROKER_OUTPUTS_H
#define TG_BROKER_OUTPUTS_H

#include "broker/broker.h"

/* Removes what need not stay; best effort. */
void tg_outputs_sweep(struct tg_broker *b);
/* A detached job has ended: sweeps, but not more than once a second. */
void tg_outputs_ended(struct tg_broker *b);

#endif
