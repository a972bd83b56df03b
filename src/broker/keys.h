/* SPDX-License-Identifier: Apache-2.0
 *
 * Which living ticket of a user has which key (V8): found without a walk over the queue. Tickets without a
 * key are not in it.
 */
#ifndef TG_BROKER_KEYS_H
#define TG_BROKER_KEYS_H

#include "broker/map.h"
#include "broker/ticket.h"

/* Zero-initialise; free with tg_keys_done. */
struct tg_keys {
    struct tg_map by_hash; /* to the first of those with that hash */
};

/* 0 or -ENOMEM. */
int tg_keys_add(struct tg_keys *keys, struct tg_ticket *t);
void tg_keys_remove(struct tg_keys *keys, struct tg_ticket *t);
/* The ticket of that user with that key; NULL: there is none, or the key is "". */
struct tg_ticket *tg_keys_find(const struct tg_keys *keys, uid_t uid, const char *key);
void tg_keys_done(struct tg_keys *keys);

#endif
