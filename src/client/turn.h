/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the C API (launch.h) share: the handle, the words of the last error, and a turn: one
 * request on its way through the queue, over a connection of its own, that can be looked at without blocking.
 * admit.h does the same for a command that only waits.
 */
#ifndef TG_CLIENT_TURN_H
#define TG_CLIENT_TURN_H

#include <tidegate/launch.h>

#include "client/admit.h"
#include "client/lost.h"

/* Written by tg_launch_open alone. */
struct tg_launch {
    struct tg_client model; /* copied for each connection; itself never connected */
    char parent[TG_TICKET_ENV_BYTES];
    char name[64]; /* of the program */
};

enum tg_turn_state { TG_TURN_WAITS, TG_TURN_HAS, TG_TURN_ENDED };

struct tg_turn {
    struct tg_client c;
    json_t *request;
    enum tg_turn_state state;
    int err; /* ENDED: why */
    struct tg_lost lost;
    bool acknowledges;
    struct tg_admit_answer answer; /* the last */
    void (*connected)(void *ctx, int fd);
    void *ctx;
};

/* Keeps the words for tg_launch_error; returns err. text NULL or "": those of errno. */
int tg_launch_failed(int err, const char *text);
/* The request in options; kind, pid and step are the caller's. */
int tg_launch_ask(const struct tg_launch *launch, const struct tg_launch_options *options, const char *cmd,
                  struct tg_admit_ask *ret);

/* Asks, and takes the first answer. On error nothing is queued and t needs no tg_turn_done. connected (or
 * NULL) is told of each new connection. */
int tg_turn_begin(struct tg_turn *t, const struct tg_launch *launch, const struct tg_admit_ask *ask,
                  void (*connected)(void *ctx, int fd), void *ctx);
/* Waits until deadline_ns (0: only looks): 0, -ETIMEDOUT, or an error of launch.h. */
int tg_turn_wait(struct tg_turn *t, uint64_t deadline_ns);
void tg_turn_done(struct tg_turn *t);

#endif
