/* SPDX-License-Identifier: Apache-2.0
 *
 * Asking for a turn under a key (V8): the same thing is not started twice. What waits or runs with that key
 * already is joined (its end is waited for), replaced (ended first), or a reason to refuse.
 */
#ifndef TG_CLIENT_KEY_H
#define TG_CLIENT_KEY_H

#include "client/admit.h"
#include "client/wait.h"

enum tg_if_exists { TG_IF_EXISTS_JOIN = 0, TG_IF_EXISTS_REFUSE, TG_IF_EXISTS_REPLACE };

struct tg_keyed_ask {
    enum tg_if_exists if_exists;
    void (*waiting)(void *ctx, const struct tg_admit_answer *now); /* as for tg_admit */
    /* Called when something with that key is there, before it is joined or ended; NULL: nobody cares. */
    void (*existing)(void *ctx, const struct tg_admit_answer *answer, enum tg_if_exists then);
    void *ctx;
};

/* tg_admit, with admit->key minded when there is one. 0 and *ret; when something was joined, its end is in
 * *ret_joined (how it ended is known) and *ret_was_joined is true: there is no turn then. -EEXIST: refused;
 * -ETIME: what was joined or replaced has not ended within admit->wait_ms; -ECANCELED: what was joined ended
 * without an exit status; or an error of tg_admit. */
int tg_admit_keyed(struct tg_client *c, const struct tg_admit_ask *admit, const struct tg_keyed_ask *ask,
                   struct tg_admit_answer *ret, struct tg_ended *ret_joined, bool *ret_was_joined);

#endif
