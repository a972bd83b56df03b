/* SPDX-License-Identifier: Apache-2.0
 * See keys.h. */
#include "broker/keys.h"

#include <string.h>

/* FNV-1a; never 0, which the map keeps for itself. */
static uint64_t hash(uid_t uid, const char *key)
{
    uint64_t h = UINT64_C(14695981039346656037) ^ uid;
    for (const unsigned char *p = (const unsigned char *)key; *p; p++)
        h = (h ^ *p) * UINT64_C(1099511628211);
    return h ? h : 1;
}

int tg_keys_add(struct tg_keys *keys, struct tg_ticket *t)
{
    if (!t->key[0])
        return 0;
    uint64_t h = hash(t->uid, t->key);
    t->key_next = tg_map_get(&keys->by_hash, h);
    return tg_map_put(&keys->by_hash, h, t);
}

void tg_keys_remove(struct tg_keys *keys, struct tg_ticket *t)
{
    if (!t->key[0])
        return;
    uint64_t h = hash(t->uid, t->key);
    struct tg_ticket *first = tg_map_get(&keys->by_hash, h);
    if (first != t) {
        while (first && first->key_next != t)
            first = first->key_next;
        if (first)
            first->key_next = t->key_next;
    } else if (t->key_next) {
        (void)tg_map_put(&keys->by_hash, h, t->key_next); /* replaces: needs no room */
    } else {
        tg_map_remove(&keys->by_hash, h);
    }
    t->key_next = NULL;
}

struct tg_ticket *tg_keys_find(const struct tg_keys *keys, uid_t uid, const char *key)
{
    struct tg_ticket *t = key[0] ? tg_map_get(&keys->by_hash, hash(uid, key)) : NULL;
    while (t && (t->uid != uid || strcmp(t->key, key) != 0))
        t = t->key_next;
    return t;
}

void tg_keys_done(struct tg_keys *keys)
{
    tg_map_done(&keys->by_hash);
}
