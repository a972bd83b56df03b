/* SPDX-License-Identifier: Apache-2.0
 *
 * Waiting for the end of tickets. The caller sleeps on its connection until the broker says so (A5); when the
 * broker dies the next one is asked (A8). Never prints.
 */
#ifndef TG_CLIENT_WAIT_H
#define TG_CLIENT_WAIT_H

#include "client/client.h"

struct tg_ended {
    uint64_t ticket;
    bool known;       /* how it ended is known */
    int status;       /* then: as of waitpid */
    char outcome[24]; /* "done", "owner died", "released", "cancelled", "lost", ... */
};

/* Waits until all n tickets have ended, in as many questions as it takes; those that ended earlier count. ret
 * has room for n, in their order. deadline_ns is of CLOCK_MONOTONIC, TG_NO_DEADLINE for none. 0; -ETIMEDOUT:
 * not all of them in time; -ESRCH: nobody knows one of them; -EINVAL: one of them is the caller's own; or
 * another error of client.h. ret is written on success alone. */
int tg_client_wait(struct tg_client *c, const uint64_t *tickets, size_t n, uint64_t deadline_ns,
                   struct tg_ended *ret);

/* All tickets that hold or wait now, but those that the caller runs under: in the order of their numbers, to
 * be freed. 0 or an error of client.h. */
int tg_client_wait_list(struct tg_client *c, uint64_t **ret, size_t *ret_n);

/* What a shell would say: its exit code, 128 + n for signal n; 0 for one that was released; 125 when how it
 * ended is not known. */
int tg_ended_code(const struct tg_ended *e);

#endif
