/* SPDX-License-Identifier: Apache-2.0
 *
 * Little-endian words in byte buffers at any address, and the STATUS word of a slot, for src/ring alone.
 * Nothing here checks a bound: callers have done so.
 *
 * A STATUS word at a multiple of 4 may lie in memory that workers look at, so it is read and written with
 * the orders of base/atomic.h; at any other address no atomic access exists, and no worker uses such a ring.
 */
#ifndef TG_RING_BYTES_H
#define TG_RING_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <tidegate/abi.h>

#include "base/atomic.h"

/* Host order to little-endian, and back. */
static inline uint32_t tg_le32(uint32_t value)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return __builtin_bswap32(value);
#else
    return value;
#endif
}

static inline uint32_t tg_get_word(const unsigned char *bytes, size_t word)
{
    uint32_t raw;
    memcpy(&raw, bytes + word * TG_WORD_BYTES, sizeof raw);
    return tg_le32(raw);
}

static inline void tg_put_word(unsigned char *bytes, size_t word, uint32_t value)
{
    const uint32_t raw = tg_le32(value);
    memcpy(bytes + word * TG_WORD_BYTES, &raw, sizeof raw);
}

static inline bool tg_is_word_aligned(const void *p)
{
    return (uintptr_t)p % sizeof(uint32_t) == 0;
}

static inline uint32_t tg_status_get(const unsigned char *slot)
{
    if (!tg_is_word_aligned(slot))
        return tg_get_word(slot, TG_SLOT_STATUS_WORD);
    /* B1 acquire: what a worker wrote before DONE is read, not overtaken; pairs with S3 in slot.h. */
    return tg_le32(tg_load_acquire_u32((const uint32_t *)(const void *)slot));
}

/* The last write of a publisher. */
static inline void tg_status_put(unsigned char *slot, uint32_t status)
{
    if (!tg_is_word_aligned(slot)) {
        tg_put_word(slot, TG_SLOT_STATUS_WORD, status);
        return;
    }
    /* B2 release: publishes the payload; pairs with S2 in slot.h. */
    tg_store_release_u32((uint32_t *)(void *)slot, tg_le32(status));
}

/* Changes STATUS from *expected to desired. False, with what was found, when it was something else. */
static inline bool tg_status_swap(unsigned char *slot, uint32_t *expected, uint32_t desired)
{
    if (!tg_is_word_aligned(slot)) {
        tg_put_word(slot, TG_SLOT_STATUS_WORD, desired);
        return true;
    }
    uint32_t raw = tg_le32(*expected);
    /* B3 acq_rel: the host's transition; takes what B2, S1 published and hands on to B1, S2. */
    const bool swapped = tg_cas_acqrel_u32((uint32_t *)(void *)slot, &raw, tg_le32(desired));
    *expected = tg_le32(raw);
    return swapped;
}

/* The bytes of a slot, or NULL when the ring is malformed or the slot is not in it. */
static inline unsigned char *tg_slot_at(void *ring, size_t ring_bytes, uint32_t slot)
{
    if (ring_bytes % TG_SLOT_BYTES != 0 || slot >= ring_bytes / TG_SLOT_BYTES || slot > TG_MAX_RING_SLOTS)
        return NULL;
    return (unsigned char *)ring + (size_t)slot * TG_SLOT_BYTES;
}

/* A written slot: everything but STATUS, then STATUS. arg_count is at most 12. */
static inline void tg_slot_fill(unsigned char *slot, uint32_t opcode, uint32_t tenant, uint32_t priority,
                                const uint32_t *args, size_t arg_count)
{
    tg_put_word(slot, TG_SLOT_OPCODE_WORD, opcode);
    tg_put_word(slot, TG_SLOT_TENANT_WORD, tenant);
    tg_put_word(slot, TG_SLOT_PRIORITY_WORD, priority);
    for (size_t i = 0; i < TG_ARGS_PER_SLOT; i++)
        tg_put_word(slot, TG_SLOT_ARG0_WORD + i, i < arg_count ? args[i] : 0);
    tg_status_put(slot, TG_SLOT_PUBLISHED);
}

#endif
