/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts the broker, which inherits nothing of the client: here it gets its own session, no descriptors but
 * the ready pipe, an empty environment and "/" as its directory; signals, limits and processors it puts right
 * itself, however it was started.
 */
#ifndef TG_CLIENT_START_H
#define TG_CLIENT_START_H

#include "client/client.h"

/* Starts a broker and waits (at most TG_CLIENT_START_MS) until it says that it listens, or that another one
 * serves the store: then c->socket is where that one listens (R2). 0; -ECONNRESET: it ended without a word;
 * or another error; c->text says more. */
int tg_start_broker(struct tg_client *c);

/* An executable of ours: beside this program or at ../libexec/tidegate from it, else likewise from the
 * tidegate of PATH, else where it is installed by default. 0, or -ENOENT (path is then the last place looked
 * at). */
int tg_find_own_program(const char *name, char path[TG_PATH_BYTES]);

#endif
