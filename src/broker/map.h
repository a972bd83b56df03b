/* SPDX-License-Identifier: Apache-2.0
 *
 * A hash map from a number other than 0 to a pointer, for the indexes of the queue. Open addressing; grows;
 * no deletion marks, so it never degrades.
 */
#ifndef TG_BROKER_MAP_H
#define TG_BROKER_MAP_H

#include <stddef.h>
#include <stdint.h>

struct tg_map_entry {
    uint64_t key; /* 0: empty */
    void *value;
};

/* Zero-initialise; free with tg_map_done. */
struct tg_map {
    struct tg_map_entry *entries;
    size_t size; /* a power of two, or 0 */
    size_t used;
};

/* Makes sure that n entries in all fit, so that the next puts cannot fail. 0 or -ENOMEM. */
int tg_map_reserve(struct tg_map *map, size_t n);
/* Adds or replaces; replacing needs no room and cannot fail. 0, -EINVAL for key 0, or -ENOMEM. */
int tg_map_put(struct tg_map *map, uint64_t key, void *value);
/* The value, or NULL. */
void *tg_map_get(const struct tg_map *map, uint64_t key);
/* Removes the key when it is there. */
void tg_map_remove(struct tg_map *map, uint64_t key);
void tg_map_done(struct tg_map *map);

#endif
