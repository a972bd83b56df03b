/* SPDX-License-Identifier: Apache-2.0
 *
 * Brokers that go away while something is asked of them. The broker may be killed at any moment and as often
 * as somebody likes (A8): whoever waits goes to the next one, as long as there is one that answers.
 */
#ifndef TG_CLIENT_LOST_H
#define TG_CLIENT_LOST_H

#include "client/client.h"

/* For how long no broker at all may answer before a waiter gives up. */
#define TG_CLIENT_LOST_MS 10000u

/* Begins as {0}. All times are CLOCK_MONOTONIC. */
struct tg_lost {
    uint64_t since_ns; /* since when no broker has answered; 0: one has */
    uint64_t last_ns;  /* when the last one was lost */
    unsigned tries;    /* how many were lost one soon after the other, whether they had answered or not */
    unsigned late;     /* those of them after the deadline */
    bool answered;     /* some broker has */
};

/* A broker has answered. */
void tg_lost_answered(struct tg_lost *lost);

/* Whether to ask the next broker after err: when the connection ended (-ECONNRESET), and, for one who has
 * been answered before, also when none could be started (-ECONNREFUSED). Waits a little first, longer each
 * time. No more after TG_CLIENT_LOST_MS without any answer (c->text says so), and after deadline_ns only a
 * few times: whose time is up still wants to keep its place. */
bool tg_lost_try_again(struct tg_client *c, struct tg_lost *lost, int err, uint64_t deadline_ns);

#endif
