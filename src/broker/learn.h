/* SPDX-License-Identifier: Apache-2.0
 *
 * Estimates that a request does not state, from this command's own history: the same command, directory and
 * key of the same user. Memory is the largest of the last peaks and a margin, time the mean of the last two
 * runs. What was stated is never changed. Decides nothing.
 */
#ifndef TG_BROKER_LEARN_H
#define TG_BROKER_LEARN_H

#include <stdint.h>
#include <sys/types.h>

#include "broker/store.h"

struct tg_estimate {
    uint64_t est_mb; /* when est_source is STATED or LEARNED */
    enum tg_source est_source;
    uint64_t time_ms; /* 0: not known */
    enum tg_source time_source;
};

struct tg_broker;

/* Fills in what is not stated and was learned. A store that cannot be read teaches nothing. */
void tg_learn(struct tg_broker *b, uid_t uid, const char *cmd, const char *cwd, const char *key,
              struct tg_estimate *e);

/* The estimate that a peak teaches: a fifth more, and at least 64 MB more. */
uint64_t tg_learned_est_mb(uint64_t peak_mb);

#endif
