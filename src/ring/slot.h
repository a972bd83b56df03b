/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a slot in memory that several threads, programs or processors look at: aligned words, one
 * atomic STATUS. For engines; bytes at any address are ring.h's matter.
 *
 * What it does not do: find a free slot, choose which slot to claim, count, wake, or wait.
 * Rules kept: E1 (once), E7 (results before DONE).
 *
 * The argument
 *   Assumptions. (a) One publisher at a time owns a slot whose STATUS is EMPTY or DONE; whoever hands slots
 *   to publishers sees to that (the wire has no "reserved" status). (b) Everybody changes STATUS through this
 *   file or its equal elsewhere.
 *   1. Payload words are written only by the owning publisher, before S1. A worker reads them after S2 took
 *      a value that S1 (or S4, which is later in the same release sequence of hand-overs) stored. So the
 *      worker sees the whole payload.
 *   2. STATUS leaves PUBLISHED, YIELD and REQUEUE only by compare-and-swap (S2, S5), and each success
 *      consumes the value it found. So of any number of claimers, cancellers and faulters exactly one wins
 *      each publication: it runs once, or is cancelled, or ends FAULT.
 *      Schedule: workers W1, W2 and a canceller C all read PUBLISHED; W1's swap succeeds; W2's and C's fail
 *      and show them CLAIMED, from which neither claim nor cancel is legal. All three know the outcome.
 *   3. Results are written before S3; whoever reads DONE with S6 sees them, and so does the next publisher,
 *      which must read DONE with S6 before it overwrites the payload.
 *   4. A CLAIMED slot can become FAULT under its worker (a watchdog that gives up on a dead worker). S3 is
 *      therefore a compare-and-swap: a worker that comes back late cannot turn FAULT, or the slot's next
 *      life, into DONE. Exception: STATUS may have come back to CLAIMED for another worker in between. An
 *      engine that faults slots of workers which may still be alive must tell those apart itself.
 */
#ifndef TG_RING_SLOT_H
#define TG_RING_SLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidegate/abi.h>

#include "base/atomic.h"
#include "ring/legal.h"

TG_STATIC_ASSERT(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "live rings hold little-endian words in place");

/* What a publisher wrote, copied out by the worker that claimed the slot. */
struct tg_slot_payload {
    uint32_t opcode;
    uint32_t tenant;
    uint32_t priority;
    uint32_t args[TG_ARGS_PER_SLOT];
};

/* STATUS, with what was written before it. */
static inline uint32_t tg_slot_status(const struct tg_slot *slot)
{
    /* S6 acquire: results and payload behind the status found; pairs with S1, S3, S4, S5. */
    return tg_load_acquire_u32(&slot->status);
}

/* May the caller, who owns the slot if this is true, write a payload into it? EMPTY or DONE. */
static inline bool tg_slot_is_publishable(const struct tg_slot *slot)
{
    return tg_status_in(tg_slot_status(slot), TG_FROM_PUBLISH);
}

/* Is it waiting for a worker? PUBLISHED, YIELD or REQUEUE. A hint: somebody may be faster. */
static inline bool tg_slot_is_claimable(const struct tg_slot *slot)
{
    /* S7 relaxed: a hint only; S2 decides. */
    return tg_status_in(tg_load_relaxed_u32(&slot->status), TG_FROM_CLAIM);
}

/* Writes the payload of a slot the caller owns; unused arguments become 0. arg_count is at most 12. Relaxed
 * atomic words, because a scanning worker may peek at TENANT or PRIORITY of a slot it does not own. */
static inline void tg_slot_write_payload(struct tg_slot *slot, uint32_t opcode, uint32_t tenant,
                                         uint32_t priority, const uint32_t *args, size_t arg_count)
{
    /* P1 relaxed: ordered by S1, which follows; pairs with P2. */
    tg_store_relaxed_u32(&slot->opcode, opcode);
    tg_store_relaxed_pair(&slot->tenant, tenant, priority);
    /* Most items have few arguments: all are cleared without a branch, then those are written. */
    TG_UNROLL
    for (size_t i = 0; i < TG_ARGS_PER_SLOT; i += 2)
        tg_store_relaxed_pair(&slot->args[i], 0, 0);
    for (size_t i = 0; i < arg_count; i++)
        tg_store_relaxed_u32(&slot->args[i], args[i]);
}

/* Hands the slot over. The caller wrote the payload and must not touch the slot again. */
static inline void tg_slot_publish(struct tg_slot *slot)
{
    /* S1 release: publishes the payload (P1); pairs with S2 and S6. */
    tg_store_release_u32(&slot->status, TG_SLOT_PUBLISHED);
}

/* Copies the payload of a slot the caller claimed. */
static inline void tg_slot_read_payload(const struct tg_slot *slot, struct tg_slot_payload *ret_payload)
{
    /* P2 relaxed: ordered by S2, which came before; pairs with P1. */
    ret_payload->opcode = tg_load_relaxed_u32(&slot->opcode);
    tg_load_relaxed_pair(&slot->tenant, &ret_payload->tenant, &ret_payload->priority);
    TG_UNROLL
    for (size_t i = 0; i < TG_ARGS_PER_SLOT; i += 2)
        tg_load_relaxed_pair(&slot->args[i], &ret_payload->args[i], &ret_payload->args[i + 1]);
}

/* Takes a PUBLISHED, YIELD or REQUEUE slot. True, and where it came from, for exactly one of all who try. */
static inline bool tg_slot_try_claim(struct tg_slot *slot, uint32_t *ret_from)
{
    /* S7 again. */
    uint32_t found = tg_load_relaxed_u32(&slot->status);
    while (tg_status_in(found, TG_FROM_CLAIM)) {
        /* S2 acquire: takes what S1, S4 or the codec's B2, B3 handed over. */
        if (tg_cas_acquire_u32(&slot->status, &found, TG_SLOT_CLAIMED)) {
            *ret_from = found;
            return true;
        }
    }
    return false;
}

/* DONE by the worker that claimed it. False when somebody made it FAULT meanwhile. */
static inline bool tg_slot_try_done(struct tg_slot *slot)
{
    uint32_t found = TG_SLOT_CLAIMED;
    /* S3 acq_rel (release is what counts): results before DONE; pairs with S6 and the codec's B1. */
    return tg_cas_acqrel_u32(&slot->status, &found, TG_SLOT_DONE);
}

/* The same without the swap, for an engine in which nobody else ever changes a CLAIMED slot. */
static inline void tg_slot_done_exclusive(struct tg_slot *slot)
{
    /* S3 release: results before DONE; pairs with S6 and the codec's B1. */
    tg_store_release_u32(&slot->status, TG_SLOT_DONE);
}

/* The worker gives a slot it claimed back, in state YIELD, REQUEUE or WAIT_IO. False when it became FAULT
 * meanwhile. These are the worker's own; the wire's transition call does not have them. */
static inline bool tg_slot_try_hand_back(struct tg_slot *slot, enum tg_slot_status to)
{
    uint32_t found = TG_SLOT_CLAIMED;
    /* S4 acq_rel: hands what the worker did so far to the next claimer; pairs with S2. */
    return tg_cas_acqrel_u32(&slot->status, &found, (uint32_t)to);
}

/* The IO side has the data: WAIT_IO -> REQUEUE. False when the slot waits for nothing. */
static inline bool tg_slot_try_io_ready(struct tg_slot *slot)
{
    uint32_t found = TG_SLOT_WAIT_IO;
    /* S4 acq_rel: the data before REQUEUE; pairs with S2. */
    return tg_cas_acqrel_u32(&slot->status, &found, TG_SLOT_REQUEUE);
}

/* Moves a slot from any status in the mask; false when it is in none of them. */
static inline bool tg_slot_try_move(struct tg_slot *slot, unsigned from_mask, enum tg_slot_status to,
                                    uint32_t *ret_from)
{
    uint32_t found = tg_slot_status(slot);
    while (tg_status_in(found, from_mask)) {
        /* S5 acq_rel: ends this life of the slot with what led to it; pairs with S6 and S2. */
        if (tg_cas_acqrel_u32(&slot->status, &found, (uint32_t)to)) {
            *ret_from = found;
            return true;
        }
    }
    return false;
}

/* PUBLISHED, CLAIMED, WAIT_IO, YIELD or REQUEUE -> FAULT. */
static inline bool tg_slot_try_fault(struct tg_slot *slot, uint32_t *ret_from)
{
    return tg_slot_try_move(slot, TG_FROM_FAULT, TG_SLOT_FAULT, ret_from);
}

/* PUBLISHED, WAIT_IO, YIELD or REQUEUE -> EMPTY. What is already claimed cannot be cancelled. */
static inline bool tg_slot_try_cancel(struct tg_slot *slot, uint32_t *ret_from)
{
    return tg_slot_try_move(slot, TG_FROM_CANCEL, TG_SLOT_EMPTY, ret_from);
}

/* FAULT -> EMPTY by the ring's owner, after the fault was reported. No transition of the wire: the same as
 * encoding that slot afresh. */
static inline bool tg_slot_try_clear_fault(struct tg_slot *slot)
{
    uint32_t from;
    return tg_slot_try_move(slot, 1u << TG_SLOT_FAULT, TG_SLOT_EMPTY, &from);
}

#endif
