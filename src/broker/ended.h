/* SPDX-License-Identifier: Apache-2.0
 *
 * Tickets that have ended and whose rows have not been moved to the history yet. Their slots are free,
 * whoever was next has been granted; the rows follow, those of a busy moment in one transaction, so that the
 * work of the store does not meet the next start. What waits here the broker after this one finds by itself
 * (A8):
 *   - an end whose word is kept (proto/words.h) waits for LATER_MS at most: how it ended is in the words;
 *   - one that awaits its wrapper's word, for a moment, so that one row does for both;
 *   - any other only until the decision that it set in motion has been made;
 *   - all, while the store refuses.
 * Whoever reads the store's history writes them first, but for what a command used, which tg_ended_learn
 * adds.
 */
#ifndef TG_BROKER_ENDED_H
#define TG_BROKER_ENDED_H

#include "broker/broker.h"

struct tg_ended {
    struct tg_store_ending end; /* owns the ticket */
    bool kept;                  /* its word is */
    uint64_t since_ms;          /* loop time */
    TAILQ_ENTRY(tg_ended) link;
};

/* Takes the ticket over, as it stands, in no queue. false: no memory, and it has not. */
bool tg_ended_push(struct tg_broker *b, struct tg_ticket *t, enum tg_outcome outcome);
/* That of a ticket, or NULL. */
struct tg_ended *tg_ended_find(struct tg_broker *b, uint64_t id);
/* The wrapper's word on one that has none yet. */
void tg_ended_word(struct tg_broker *b, struct tg_ended *e, int64_t status, enum tg_outcome outcome,
                   uint64_t peak_mb, bool kept);
/* Writes those that are due, or all. 0, or -errno: the store refuses, and is asked again later. */
int tg_ended_write(struct tg_broker *b, bool all);
/* What runs of a command that are not written yet used, latest first. */
void tg_ended_learn(struct tg_broker *b, uid_t uid, const char *cmd, const char *cwd, const char *key,
                    struct tg_learned *io);
/* Forgets them. */
void tg_ended_drop(struct tg_broker *b);

#endif
