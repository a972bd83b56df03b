/* SPDX-License-Identifier: Apache-2.0
 *
 * One broker a store: an flock on STATE_DIR/broker.lock. The kernel drops it with the process, so that a file
 * left by a crash or before a reboot, whatever stands in it, never stops the next broker (L5, L7). The
 * content (pid and socket) only tells others where to ask.
 */
#ifndef TG_BROKER_LOCK_H
#define TG_BROKER_LOCK_H

#include <stdbool.h>
#include <stddef.h>

/* Takes the lock and writes who has it. 0 and *ret_fd (the lock lasts until it is closed); -EALREADY: another
 * broker has it, whose socket is written to other (size bytes; "" when it has not said yet); or -errno. */
int tg_lock_take(const char *path, const char *socket_path, int *ret_fd, char *other, size_t size);
/* Whether the path still names the file that was locked. */
bool tg_lock_is_named(int fd, const char *path);

#endif
