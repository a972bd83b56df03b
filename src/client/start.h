/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts the broker. It inherits nothing of the client: its own session, no descriptors but the ready pipe,
 * an empty environment, "/" as its directory, default signals, every usable processor and the hard limits.
 */
#ifndef TG_CLIENT_START_H
#define TG_CLIENT_START_H

#include "client/client.h"

/* Starts a broker and waits (at most TG_CLIENT_START_MS) until it says that it listens, or that another one
 * serves the store: then c->socket is where that one listens (R2). 0, or an error with c->text. */
int tg_start_broker(struct tg_client *c);

#endif
