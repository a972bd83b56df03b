/* SPDX-License-Identifier: Apache-2.0
 * Random buffers of the wire for the differential test: every opcode and status, packed slots, bad ids,
 * tenants that may not run, quotas that end, fences, a log that fills, and two opcodes of the user as nodes
 * and as handlers. */
#ifndef TG_TESTS_IR_RINGS_H
#define TG_TESTS_IR_RINGS_H

#include <errno.h>
#include <string.h>

#include <tidegate/compile.h>
#include <tidegate/partition.h>

#include "check.h"

#define RING_SLOTS_MAX 24u
#define OBSERVABLES 96u
#define CONTROL_WORDS (TG_CONTROL_MIN_WORDS + OBSERVABLES)
#define LOG_WORDS (1u + 5u * TG_DEBUG_RECORD_WORDS)
#define DFA_STATES 3u
#define OP_TICKET 8u /* observable[a0] = observable[95]++: who runs when */
#define OP_TIMES 40u /* REQUEUE until observable[a0] reaches a1 */

struct buffers {
    _Alignas(64) uint32_t ring[RING_SLOTS_MAX * TG_SLOT_WORDS];
    uint32_t control[CONTROL_WORDS];
    uint32_t log[LOG_WORDS];
};

struct shape {
    uint32_t slots;
    uint32_t stride;
    bool unrestricted;
};

struct dice {
    uint64_t state;
};

static inline uint32_t roll(struct dice *d, uint32_t n)
{
    d->state = d->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(d->state >> 33) % n;
}

/* Words that an item may not see or touch here, because the two sides differ in when they write them:
 * counters, which the engine posts in steps, and the words that belong to one side. */
static inline bool differs(uint32_t word)
{
    return word == TG_CONTROL_DONE_COUNT ||
           (word >= TG_CONTROL_TENANT_FAIRNESS_BASE && word < TG_CONTROL_EPOCH) ||
           (word >= TG_CONTROL_PRIORITY_STARVATION_COUNTER && word < TG_CONTROL_EXTENSION_BASE) ||
           (word >= TG_CONTROL_EXTENSION_BASE + 4 && word < TG_CONTROL_OBSERVABLE_BASE);
}

/* The first of count words: mostly observables, sometimes anything. */
static inline uint32_t some_words(struct dice *d, uint32_t count)
{
    uint32_t r = roll(d, 20);
    uint32_t word = r == 0   ? roll(d, CONTROL_WORDS + 40)
                    : r == 1 ? 0xFFFFFF00u + roll(d, 256)
                             : TG_CONTROL_OBSERVABLE_BASE + roll(d, OBSERVABLES - 1);
    for (uint32_t i = 0; i < count && i < 16; i++)
        if (differs(word + i))
            return TG_CONTROL_OBSERVABLE_BASE + 3;
    return word;
}

static inline uint32_t some_word(struct dice *d)
{
    return some_words(d, 1);
}

static inline uint32_t some_opcode(struct dice *d, bool inner)
{
    static const uint32_t rare[] = {TG_OP_LOAD_MISS, 9, 0x7FFFFFFF, 0x80000005, 0xFFF5};
    uint32_t r = roll(d, 16);
    if (r < 8)
        return r;
    if (r < 10)
        return OP_TICKET;
    if (r == 10)
        return OP_TIMES;
    if (r == 11)
        return inner ? 200 : rare[roll(d, 5)];
    return inner ? roll(d, 8) : r == 12 ? TG_OP_SHUTDOWN : r == 13 ? TG_OP_PACKED_SLOT : TG_OP_PRINTF;
}

static inline void some_args(struct dice *d, uint32_t opcode, uint32_t slot, uint32_t *a)
{
    for (uint32_t i = 0; i < TG_ARGS_PER_SLOT; i++)
        a[i] = roll(d, 1000);
    a[0] = opcode == TG_OP_LOAD_U32 || opcode == TG_OP_COMPARE_SWAP || opcode == TG_OP_MEMCPY ? some_word(d)
                                                                                              : a[0];
    if (opcode >= TG_OP_STORE_U32 && opcode <= TG_OP_ATOMIC_ADD)
        a[1] = some_word(d);
    if (opcode == TG_OP_LOAD_U32)
        a[1] = roll(d, OBSERVABLES + 5);
    if (opcode == TG_OP_COMPARE_SWAP && roll(d, 2))
        a[0] = roll(d, TG_CONTROL_TENANT_FAIRNESS_BASE - 2) + 2, a[1] = 0;
    if (opcode == TG_OP_MEMCPY) {
        a[2] = roll(d, 12) ? roll(d, 10) : 0xFFFFFFF0u;
        a[0] = some_words(d, a[2]);
        a[1] = some_words(d, a[2]);
    }
    if (opcode == TG_OP_DFA_STEP)
        a[0] = roll(d, DFA_STATES + 1), a[1] = roll(d, 260), a[2] = roll(d, OBSERVABLES + 3);
    if (opcode == TG_OP_BATCH_FENCE)
        a[0] = roll(d, 4) ? roll(d, slot + 1) : roll(d, 40);
    if (opcode == OP_TICKET)
        a[0] = roll(d, 30) ? slot : OBSERVABLES + roll(d, 9);
    if (opcode == OP_TIMES)
        a[0] = 60 + roll(d, 4), a[1] = roll(d, 5);
}

static inline void some_packed(struct dice *d, uint32_t slot, uint32_t *args)
{
    struct tg_packed_op op[3];
    uint32_t words[3][TG_ARGS_PER_SLOT];
    uint32_t n = roll(d, 4);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t id = some_opcode(d, true);
        some_args(d, id, slot, words[i]);
        op[i] = (struct tg_packed_op){(uint8_t)id, words[i], roll(d, 4)};
    }
    if (tg_packed_encode(op, n, args) != 0)
        memset(args, 0xFF, TG_ARGS_PER_SLOT * TG_WORD_BYTES);
    if (roll(d, 6) == 0)
        args[roll(d, 3)] ^= 1u << roll(d, 32); /* malformed, perhaps */
}

static inline void some_slot(struct dice *d, uint32_t slot, uint32_t *w)
{
    static const uint32_t other[] = {TG_SLOT_EMPTY, TG_SLOT_CLAIMED, TG_SLOT_DONE,    TG_SLOT_WAIT_IO,
                                     TG_SLOT_YIELD, TG_SLOT_REQUEUE, TG_SLOT_REQUEUE, TG_SLOT_FAULT};
    w[TG_SLOT_STATUS_WORD] = roll(d, 8) ? TG_SLOT_PUBLISHED : other[roll(d, 8)];
    w[TG_SLOT_OPCODE_WORD] = some_opcode(d, false);
    w[TG_SLOT_TENANT_WORD] = roll(d, 16) ? roll(d, 4) : roll(d, 2) ? roll(d, 40) : 0xFFFFFFFFu;
    w[TG_SLOT_PRIORITY_WORD] = roll(d, 24) ? roll(d, TG_PRIORITY_LEVELS) : 5 + roll(d, 3);
    some_args(d, w[TG_SLOT_OPCODE_WORD], slot, w + TG_SLOT_ARG0_WORD);
    if (w[TG_SLOT_OPCODE_WORD] == TG_OP_PACKED_SLOT)
        some_packed(d, slot, w + TG_SLOT_ARG0_WORD);
}

static inline void empty_buffers(struct buffers *b, uint32_t slots)
{
    size_t bytes;
    memset(b, 0, sizeof(*b));
    CHECK_EQ(tg_encode_control(false, 4, OBSERVABLES, b->control, sizeof(b->control), &bytes), 0);
    CHECK_EQ(tg_write_default_priority_offsets(b->control, sizeof(b->control), slots), 0);
}

/* What a host may leave, and what it may not. */
static inline void random_buffers(struct buffers *b, const struct shape *s, struct dice *d)
{
    empty_buffers(b, s->slots);
    for (uint32_t t = 0; t < 4; t++) {
        uint32_t r = roll(d, 8);
        b->control[TG_CONTROL_TENANT_QUOTA_BASE + t] = r == 0 ? roll(d, 4) : r == 1 ? 0xFFFFFFFFu : 1000000u;
        if (r == 2)
            b->control[TG_CONTROL_TENANT_MASKS + t] = roll(d, 2);
    }
    for (uint32_t i = 0; i < OBSERVABLES - 40; i++)
        b->control[TG_CONTROL_OBSERVABLE_BASE + i] = roll(d, 3) ? 0 : roll(d, 100);
    b->log[0] = roll(d, 6) ? roll(d, 3) * TG_DEBUG_RECORD_WORDS : roll(d, 2) ? roll(d, 30) : 0xFFFFFFFCu;
    for (uint32_t i = 0; i < s->slots; i++)
        some_slot(d, i, b->ring + i * TG_SLOT_WORDS);
}

/* Nothing but tickets that may run: the order can be told, and the rules of it checked. */
static inline void ticket_buffers(struct buffers *b, const struct shape *s, struct dice *d)
{
    empty_buffers(b, s->slots);
    for (uint32_t i = 0; i < s->slots; i++) {
        uint32_t *w = b->ring + i * TG_SLOT_WORDS;
        w[TG_SLOT_STATUS_WORD] = TG_SLOT_PUBLISHED;
        w[TG_SLOT_OPCODE_WORD] = OP_TICKET;
        w[TG_SLOT_TENANT_WORD] = roll(d, 4);
        w[TG_SLOT_PRIORITY_WORD] = roll(d, TG_PRIORITY_LEVELS);
        w[TG_SLOT_ARG0_WORD] = i;
    }
}

/* ---- The opcodes of the user, as nodes ------------------------------------------------------------------
 */

/* Of a handler the engine says TG_FAULT_HANDLER, whatever it was; so the nodes look at the index themselves.
 */
static inline struct tg_ir_node refuse_outside(struct tg_ir *ir)
{
    return tg_ir_if(ir, tg_ir_ge(ir, tg_ir_var(ir, "a0"), tg_ir_length(ir, "observable")),
                    tg_ir_return(ir, tg_ir_u32(ir, TG_IR_FAULT | TG_FAULT_HANDLER)), (struct tg_ir_node){0});
}

static inline struct tg_ir_node ticket_body(struct tg_ir *ir)
{
    struct tg_ir_node n[3] = {tg_ir_atomic_add(ir, "ticket", "observable", tg_ir_u32(ir, OBSERVABLES - 1),
                                               tg_ir_u32(ir, 1), TG_IR_RELAXED),
                              refuse_outside(ir),
                              tg_ir_store(ir, "observable", tg_ir_var(ir, "a0"), tg_ir_var(ir, "ticket"))};
    return tg_ir_block(ir, NULL, n, 3);
}

static inline struct tg_ir_node times_body(struct tg_ir *ir)
{
    struct tg_ir_node n[3] = {
        refuse_outside(ir),
        tg_ir_atomic_add(ir, "before", "observable", tg_ir_var(ir, "a0"), tg_ir_u32(ir, 1), TG_IR_RELAXED),
        tg_ir_return(ir, tg_ir_select(ir, tg_ir_lt(ir, tg_ir_var(ir, "before"), tg_ir_var(ir, "a1")),
                                      tg_ir_u32(ir, TG_IR_REQUEUE), tg_ir_u32(ir, TG_IR_DONE)))};
    return tg_ir_block(ir, NULL, n, 3);
}

/* ---- And as handlers of the engine: the context is the control buffer, which one thread touches ----------
 */

static inline int ticket_handler(void *context, struct tg_op *op)
{
    uint32_t *observable = (uint32_t *)context + TG_CONTROL_OBSERVABLE_BASE;
    uint32_t ticket = observable[OBSERVABLES - 1]++;
    if (op->args[0] >= OBSERVABLES)
        return -EFAULT;
    observable[op->args[0]] = ticket;
    return TG_OP_FINISHED;
}

static inline int times_handler(void *context, struct tg_op *op)
{
    uint32_t *observable = (uint32_t *)context + TG_CONTROL_OBSERVABLE_BASE;
    if (op->args[0] >= OBSERVABLES)
        return -EFAULT;
    return observable[op->args[0]]++ < op->args[1] ? TG_OP_REQUEUE : TG_OP_FINISHED;
}

#endif
