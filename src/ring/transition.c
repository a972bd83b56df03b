/* SPDX-License-Identifier: Apache-2.0
 * Slot transitions over bytes, and counting what is DONE; see <tidegate/ring.h>. Rule E1: an illegal
 * transition changes nothing. The transitions workers make are in slot.h. */
#include <tidegate/ring.h>

#include "base/checked.h"
#include "ring/bytes.h"
#include "ring/legal.h"

static const struct {
    unsigned from;
    uint32_t to;
} table[TG_TRANSITION_COUNT] = {
    [TG_TRANSITION_PUBLISH] = {TG_FROM_PUBLISH, TG_SLOT_PUBLISHED},
    [TG_TRANSITION_CLAIM] = {TG_FROM_CLAIM, TG_SLOT_CLAIMED},
    [TG_TRANSITION_DONE] = {TG_FROM_DONE, TG_SLOT_DONE},
    [TG_TRANSITION_FAULT] = {TG_FROM_FAULT, TG_SLOT_FAULT},
    [TG_TRANSITION_CANCEL] = {TG_FROM_CANCEL, TG_SLOT_EMPTY},
};

bool tg_slot_transition_target(uint32_t status, enum tg_slot_transition transition, uint32_t *ret_to)
{
    if ((unsigned)transition >= TG_TRANSITION_COUNT || !tg_status_in(status, table[transition].from))
        return false;
    *ret_to = table[transition].to;
    return true;
}

int tg_transition_slot_status(void *ring, size_t ring_bytes, uint32_t slot,
                              enum tg_slot_transition transition, uint32_t *ret_previous)
{
    if (transition == TG_TRANSITION_PUBLISH)
        return TG_QUEUE_FULL;
    unsigned char *bytes = tg_slot_at(ring, ring_bytes, slot);
    if (!bytes)
        return TG_QUEUE_FULL;
    uint32_t found = tg_status_get(bytes), to;
    /* A lost race shows what was found instead, and that is judged anew: some other change succeeded. */
    do {
        if (!tg_slot_transition_target(found, transition, &to))
            return TG_QUEUE_FULL;
    } while (!tg_status_swap(bytes, &found, to));
    *ret_previous = found;
    return 0;
}

/* DONE slots among the first item_count, which are there. */
static uint64_t count_done(const unsigned char *ring, uint64_t item_count)
{
    uint64_t done = 0;
    for (uint64_t i = 0; i < item_count; i++)
        done += tg_status_get(ring + i * TG_SLOT_BYTES) == TG_SLOT_DONE;
    return done;
}

int tg_protocol_try_count_done_ring_slots(const void *ring, size_t ring_bytes, uint64_t item_count,
                                          uint64_t *ret_done)
{
    uint64_t need;
    if (item_count > 0) {
        if (ring_bytes % TG_WORD_BYTES != 0)
            return TG_MISALIGNED_BYTE_LENGTH;
        if (!tg_mul_u64(item_count, TG_SLOT_BYTES, &need))
            return TG_BYTE_LENGTH_OVERFLOW;
        if (ring_bytes < need)
            return TG_MISSING_WORD;
    }
    *ret_done = count_done(ring, item_count);
    return 0;
}

bool tg_count_done_ring_slots(const void *ring, size_t ring_bytes, uint64_t item_count, uint64_t *ret_done)
{
    if (item_count == 0 || item_count > ring_bytes / TG_SLOT_BYTES)
        return false;
    *ret_done = count_done(ring, item_count);
    return true;
}
