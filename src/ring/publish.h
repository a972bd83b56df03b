/* SPDX-License-Identifier: Apache-2.0
 * The check that every publisher makes before its first write, for src/ring alone. */
#ifndef TG_RING_PUBLISH_H
#define TG_RING_PUBLISH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ring/bytes.h"
#include "ring/legal.h"

/* Is the ring well formed, do slots [start, start + count) lie in it, and is each EMPTY or DONE? With count 0
 * start may be the capacity. */
static inline bool tg_slots_publishable(const void *ring, size_t ring_bytes, uint32_t start, size_t count)
{
    size_t slots = ring_bytes / TG_SLOT_BYTES;
    if (ring_bytes % TG_SLOT_BYTES != 0)
        return false;
    if (slots > (size_t)TG_MAX_RING_SLOTS + 1)
        slots = (size_t)TG_MAX_RING_SLOTS + 1; /* what a 32-bit word index reaches */
    if (start > slots || count > slots - start)
        return false;
    if (count == 0)
        return true;
    const unsigned char *slot = (const unsigned char *)ring + (size_t)start * TG_SLOT_BYTES;
    for (size_t i = 0; i < count; i++, slot += TG_SLOT_BYTES)
        if (!tg_status_in(tg_status_get(slot), TG_FROM_PUBLISH))
            return false;
    return true;
}

#endif
