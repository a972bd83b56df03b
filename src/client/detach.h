/* SPDX-License-Identifier: Apache-2.0
 *
 * A job that outlives its terminal: its wrapper is a process of its own, in a session of its own, and the
 * caller only learns the ticket's number. Standard input is empty, standard output and error are kept
 * (output.h). It asks for a ticket of its own wherever it is started: under another ticket it would have to
 * end with that one.
 *
 * For a program with one thread. Never prints.
 */
#ifndef TG_CLIENT_DETACH_H
#define TG_CLIENT_DETACH_H

#include "client/run.h"

/* Starts the wrapper and waits until the job is enqueued. 0 and the ticket's number (with a key that is in
 * use and to be joined: that of the job that is there already); else nothing was started: an error of
 * client.h, or -ETIME when it waited longer than admit.wait_ms for its turn before it could be enqueued.
 * c->text says it in words. */
int tg_client_detach(struct tg_client *c, const struct tg_run_ask *ask, uint64_t *ret_ticket);

#endif
