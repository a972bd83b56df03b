/* SPDX-License-Identifier: Apache-2.0
 *
 * Short names for those who write programs as calls of builders: the parts of the worker. Not a public
 * header.
 */
#ifndef TG_IR_SHORT_H
#define TG_IR_SHORT_H

#include "ir/node.h"

typedef struct tg_ir_expr E;
typedef struct tg_ir_node N;

static inline E num(struct tg_ir *ir, uint32_t value)
{
    return tg_ir_u32(ir, value);
}
static inline E var(struct tg_ir *ir, const char *name)
{
    return tg_ir_var(ir, name);
}
static inline E add(struct tg_ir *ir, E a, uint32_t b)
{
    return tg_ir_add(ir, a, tg_ir_u32(ir, b));
}
static inline E is(struct tg_ir *ir, E a, uint32_t b)
{
    return tg_ir_eq(ir, a, tg_ir_u32(ir, b));
}
/* Bit i of a literal mask; 0 for i of 32 and above. */
static inline E in_mask(struct tg_ir *ir, uint32_t mask, E i)
{
    return tg_ir_bit_and(ir, tg_ir_shr(ir, num(ir, mask), i), num(ir, 1));
}
static inline E bit(struct tg_ir *ir, E i)
{
    return tg_ir_shl(ir, num(ir, 1), i);
}
static inline N give(struct tg_ir *ir, uint32_t value)
{
    return tg_ir_return(ir, num(ir, value));
}
static inline N when(struct tg_ir *ir, E condition, N yes)
{
    return tg_ir_if(ir, condition, yes, (N){0});
}

/* BLOCK(ir, label, statements...) */
#define BLOCK(ir, label, ...)                                                                                \
    tg_ir_block(ir, label, (const N[]){__VA_ARGS__}, sizeof((const N[]){__VA_ARGS__}) / sizeof(N))

/* ---- What the parts share ---- */
#define TG_IR_SCAN_BUFFER "worker_scan" /* private: WAITING, TURN, USED, a word a level each; NEXT */
#define TG_IR_ARGS_BUFFER "worker_args" /* private: the arguments of the opcode that runs */
/* NEXT has a word a level and tenant, the slot after the last claim there: one for all tenants would let the
 * claims of another carry a lane past the same slots again and again. */
enum { TG_IR_WAITING = 0, TG_IR_TURN = 5, TG_IR_USED = 10, TG_IR_NEXT = 15, TG_IR_SCAN_WORDS = 160 };

/* What follows the end of an item, given status and slot, in a kernel with an index. */
N tg_ir_index_after(struct tg_ir *ir, uint32_t slots);

/* Declares the two, once; false: that cannot be, see tg_ir_no_buffers. */
bool tg_ir_worker_buffers(struct tg_ir *ir);
/* What a part that needs them is then. */
N tg_ir_no_buffers(struct tg_ir *ir);
/* FAULT_SLOT, FAULT_REASON, FAULT_COUNT. */
N tg_ir_fault_words(struct tg_ir *ir, E slot, E reason);
/* control[word] += 1, for those who count. */
N tg_ir_count(struct tg_ir *ir, E word);
/* Over slots [slot - items, slot): runs otherwise as soon as one of them is neither DONE, FAULT nor EMPTY. */
N tg_ir_fence_look(struct tg_ir *ir, E slot, E items, N otherwise);
/* A node that the validator refuses with this text. */
N tg_ir_refused(struct tg_ir *ir, const char *format, uint32_t value);

#endif
