/* SPDX-License-Identifier: Apache-2.0
 *
 * The kept output of detached jobs: STATE_DIR/output/ID, mode 0600, made before anything is enqueued and
 * named once the ticket's number is known. The wrapper and everybody who can still write to it hold a lock on
 * it (one open file description, shared), so that the end of the output is an event: a shared lock is
 * granted.
 */
#ifndef TG_CLIENT_OUTPUT_H
#define TG_CLIENT_OUTPUT_H

#include <stdint.h>

#include "client/client.h"

/* A new file that has no number yet. The descriptor (close-on-exec, locked) and its path in unnamed, or an
 * error of client.h. */
int tg_output_make(struct tg_client *c, char unnamed[TG_PATH_BYTES]);
/* Gives it its number. 0 or an error. */
int tg_output_name(struct tg_client *c, const char *unnamed, uint64_t ticket);
/* Opens a job's output for reading. The descriptor, or -ENOENT (in words) or another error. */
int tg_output_open(struct tg_client *c, uint64_t ticket);
/* Copies from where the descriptor stands to its end. 0 or -errno. */
int tg_output_copy(int fd, int to);
/* The same, and what is added, until nobody can write to it any more: its wrapper and everybody who has it as
 * output has ended or closed it. 0, -EPIPE when nobody reads, or -errno. Forks: for a program with one
 * thread. */
int tg_output_follow(int fd, int to);

#endif
