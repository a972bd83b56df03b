/* SPDX-License-Identifier: Apache-2.0
 * See map.h. Linear probing with at most half of the table in use; removal shifts back what follows. */
#include "broker/map.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#define MAP_FIRST_SIZE 64u

static size_t home(const struct tg_map *map, uint64_t key)
{
    /* Fibonacci hashing: neighbouring ids and pids spread well. */
    return (size_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 20) & (map->size - 1);
}

/* The place of the key, or the free place where it would go. The table is never full. */
static size_t find(const struct tg_map *map, uint64_t key)
{
    size_t i = home(map, key);
    while (map->entries[i].key != 0 && map->entries[i].key != key)
        i = (i + 1) & (map->size - 1);
    return i;
}

int tg_map_reserve(struct tg_map *map, size_t n)
{
    size_t size = map->size ? map->size : MAP_FIRST_SIZE;
    while (size / 2 < n) {
        if (size > SIZE_MAX / 4)
            return -ENOMEM;
        size *= 2;
    }
    if (size == map->size)
        return 0;
    struct tg_map grown = {.entries = calloc(size, sizeof(struct tg_map_entry)), .size = size};
    if (!grown.entries)
        return -ENOMEM;
    for (size_t i = 0; i < map->size; i++) {
        if (map->entries[i].key != 0)
            grown.entries[find(&grown, map->entries[i].key)] = map->entries[i];
    }
    grown.used = map->used;
    free(map->entries);
    *map = grown;
    return 0;
}

int tg_map_put(struct tg_map *map, uint64_t key, void *value)
{
    if (key == 0)
        return -EINVAL;
    bool there = map->size > 0 && map->entries[find(map, key)].key == key;
    int err = there ? 0 : tg_map_reserve(map, map->used + 1);
    if (err)
        return err;
    size_t i = find(map, key);
    map->used += map->entries[i].key == 0;
    map->entries[i] = (struct tg_map_entry){key, value};
    return 0;
}

void *tg_map_get(const struct tg_map *map, uint64_t key)
{
    if (map->size == 0 || key == 0)
        return NULL;
    size_t i = find(map, key);
    return map->entries[i].key == key ? map->entries[i].value : NULL;
}

void tg_map_remove(struct tg_map *map, uint64_t key)
{
    if (map->size == 0 || key == 0)
        return;
    size_t mask = map->size - 1;
    size_t hole = find(map, key);
    if (map->entries[hole].key != key)
        return;
    map->used--;
    for (size_t i = (hole + 1) & mask; map->entries[i].key != 0; i = (i + 1) & mask) {
        /* An entry may move back to the hole unless its home lies cyclically in (hole, i]. */
        size_t h = home(map, map->entries[i].key);
        if (((i - h) & mask) >= ((i - hole) & mask)) {
            map->entries[hole] = map->entries[i];
            hole = i;
        }
    }
    map->entries[hole] = (struct tg_map_entry){0, NULL};
}

void tg_map_done(struct tg_map *map)
{
    free(map->entries);
    *map = (struct tg_map){0};
}
