/* SPDX-License-Identifier: Apache-2.0
 *
 * The socket file: bound privately, watched, and bound again when somebody removes it or its directory while
 * the broker lives (a cleaner of temporary files, a person). Who is connected notices nothing of that.
 */
#ifndef TG_BROKER_SOCKET_H
#define TG_BROKER_SOCKET_H

#include "broker/broker.h"

/* The handles; before anything else of this file, once. */
void tg_socket_init(struct tg_broker *b);
/* Binds b->socket_path, listens and watches. 0; -EALREADY: some broker answers there; -EEXIST: something that
 * is no socket lies there; or -errno. */
int tg_socket_open(struct tg_broker *b);
/* Removes the file if it is still ours. */
void tg_socket_remove(struct tg_broker *b);

#endif
