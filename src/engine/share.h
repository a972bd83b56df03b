/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory that a served engine and one client share, and the one message that hands it over. Both sides
 * write here; neither trusts the other. docs/serve.md tells it to other implementations.
 *
 * The ring is that of the ABI (64-byte slots), used in order by both sides, each counting for itself: there
 * are no shared indices that could lie. The life of a slot, by its STATUS word:
 *     EMPTY, DONE, FAULT  the client may write words 1 and 3..15, then STATUS = PUBLISHED (U1)
 *     PUBLISHED           the server copies it when its own count comes to it (U2)
 *     DONE, FAULT, EMPTY  the server answers (U3): EMPTY says cancelled; else ARG0.. hold the answer
 * TENANT (word 2) is ignored. The answer lies in the slot itself so that a round trip moves one cache line.
 * A BATCH_FENCE with ARG0 = n covers the n slots before it, which must not be covered by an earlier one.
 *
 * Taking items back: N cancel words behind the slots, used in order by both sides like the ring. The client
 * stores item << 1 | 1 (modulo 2^32) into the next word when that is 0 (U7), the server looks at it and
 * stores 0 (U8). It is a wish: how the item ended is told in its slot, as always.
 *
 * Sleeping
 *   PARKED   the server stores 1 (V1), then looks at the next slot once more (V2), then sleeps until the
 *            doorbell (an eventfd) rings. The client stores PUBLISHED (U1), then reads PARKED (V3), and rings
 *            if it exchanges a 1. All seq_cst: either V3 sees the 1 or V2 sees the item.
 *   SLEEPER  odd: the client sleeps. It makes an even value odd (V4), looks at its slot once more (V5),
 * sleeps while the word has that value. The server stores STATUS (U3), then reads SLEEPER (V6); an odd value
 * it makes even, by one more, and wakes. All seq_cst. (A count and no flag, because threads of the client
 * share it: one that sets a flag again would hide from another that it was taken.) CLOSED   the server stores
 * why it ended the connection (V7), then wakes as V6.
 */
#ifndef TG_ENGINE_SHARE_H
#define TG_ENGINE_SHARE_H

#include <stdalign.h>
#include <stddef.h>
#include <stdint.h>

#include <tidegate/abi.h>
#include <tidegate/engine.h>

#include "base/atomic.h"

#define TG_SHARE_MAGIC 0x54475348u
#define TG_SHARE_VERSION 2u

struct tg_share {
    /* Written by the server, before it hands the memory over; CLOSED once more. */
    _Alignas(64) uint32_t magic;
    uint32_t version;
    uint32_t slots;
    uint32_t tenant;
    uint32_t closed; /* errno */
    /* 1: the server sleeps and wants to be rung. Stored by the server, taken (0) by the client. */
    _Alignas(64) uint32_t parked;
    /* Odd: the client sleeps here (a futex). Made odd by the client, even by the server; only grows. */
    _Alignas(64) uint32_t sleeper;
    _Alignas(64) struct tg_slot slot[];
};

TG_STATIC_ASSERT(offsetof(struct tg_share, parked) == 64, "PARKED has its own cache line");
TG_STATIC_ASSERT(offsetof(struct tg_share, sleeper) == 128, "SLEEPER has its own cache line");
TG_STATIC_ASSERT(offsetof(struct tg_share, slot) == 192, "the slots follow");

/* Where the answer lies in the slot's arguments. */
enum {
    TG_ANSWER_REASON = 0, /* FAULT: enum tg_fault_reason, then detail and inner op */
    TG_ANSWER_DETAIL = 1,
    TG_ANSWER_INNER = 2,
    TG_ANSWER_VALUE = 4, /* DONE: TG_OP_RESULTS words */
};

/* The server's first and only message; with error 0 it carries two descriptors, the memory and the doorbell.
 */
struct tg_welcome {
    uint32_t magic;
    uint32_t version;
    int32_t error; /* 0 or -errno; then the connection ends */
    uint32_t slots;
    uint32_t tenant;
    uint32_t reserved[3];
};

static inline uint32_t *tg_share_cancels(struct tg_share *share, uint32_t slots)
{
    return (uint32_t *)(void *)(share->slot + slots);
}

static inline size_t tg_share_bytes(uint32_t slots)
{
    const size_t page = 4096;
    size_t bytes = sizeof(struct tg_share) + (size_t)slots * (sizeof(struct tg_slot) + sizeof(uint32_t));
    return (bytes + page - 1) / page * page;
}

#endif
