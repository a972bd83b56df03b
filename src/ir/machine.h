/* SPDX-License-Identifier: Apache-2.0
 *
 * The interpreter's program and state: a validated tree, assembled to register code once (assemble.c), run
 * lane by lane (machine.c), and through every interleaving (explore.c). Not a public header.
 *
 * A lane is a row of words: variables and temporaries, its place, constants, its private buffers, then where
 * it is. Calls are put in line, so a lane has no stack. */
#ifndef TG_IR_MACHINE_H
#define TG_IR_MACHINE_H

#include "ir/node.h"

enum tg_ir_code_op {
    /* The first TG_IR_OP_COUNT are enum tg_ir_op (but AND and OR, which are jumps): r[d] = r[a] op r[b]. */
    TG_IR_C_NOT = TG_IR_OP_COUNT, /* r[d] = op r[a] */
    TG_IR_C_BIT_NOT,
    TG_IR_C_CTZ,
    TG_IR_C_MOVE,      /* r[d] = r[a] */
    TG_IR_C_CLEAR,     /* r[d] .. r[d + c) = 0 */
    TG_IR_C_JUMP,      /* to c */
    TG_IR_C_JUMP_ZERO, /* to c when r[a] is 0 */
    TG_IR_C_LOOP,      /* counter r[d], end r[a], most r[b]: to c when there is no turn; may fault */
    TG_IR_C_NEXT,      /* r[d] += 1, to c while it is below r[a] */
    TG_IR_C_OWN_LOAD,  /* r[d] = private[c + r[a]], c + b is the end */
    TG_IR_C_OWN_STORE, /* private[c + r[a]] = r[d], likewise */
    TG_IR_C_PAUSE,
    TG_IR_C_END, /* the lane's value is r[a] */
    /* Shared steps. buffer; r[a] is the index. */
    TG_IR_C_LOAD,     /* r[d] = */
    TG_IR_C_STORE,    /* = r[b] */
    TG_IR_C_ADD,      /* r[d] = before; += r[b] */
    TG_IR_C_EXCHANGE, /* r[d] = before; = r[b] */
    TG_IR_C_CAS,      /* r[d] = before; = r[c] if it was r[b] */
    TG_IR_C_AND,      /* r[d] = before; &= r[b] */
    TG_IR_C_OR,       /* r[d] = before; |= r[b] */
    TG_IR_C_COUNT
};

/* On a fault the lane goes on at trap. */
struct tg_ir_code {
    uint8_t op;
    uint8_t buffer;
    uint8_t blind; /* an ADD whose result nobody asked for */
    uint8_t order; /* enum tg_ir_order, for the observer */
    uint32_t d, a, b, c;
    uint32_t trap;
    uint32_t node;
};

/* Words of a lane behind its private ones. */
enum { TG_IR_L_PC, TG_IR_L_STATE, TG_IR_L_VALUE, TG_IR_L_DIRTY, TG_IR_L_WORDS };
enum { TG_IR_RUNS, TG_IR_PAUSED, TG_IR_ENDED };

struct tg_ir_machine {
    struct tg_ir_code *code;
    uint32_t code_count, code_room;
    uint32_t *constant;
    uint32_t constant_count, constant_room;
    uint32_t registers; /* variables and temporaries; then come TG_IR_PLACE_COUNT places, then constants */
    uint32_t private_words;
    uint32_t private_at[TG_IR_MAX_BUFFERS]; /* where a private buffer begins among them */
    uint32_t private_of[TG_IR_MAX_BUFFERS]; /* its words; 0: shared */

    bool concurrent;
    uint32_t lanes, groups, lane_count;
    uint32_t stride; /* words of a lane */
    uint32_t *lane;  /* lane_count rows */
    struct tg_ir_memory memory;
    tg_ir_observer observer;
    void *context;
    uint64_t steps;
};

/* Assembles into m->code, constant, registers, private_*; 0 or -ENOMEM. The program is valid. */
int tg_ir_assemble(struct tg_ir_machine *m, const struct tg_ir *ir, uint32_t root);

static inline uint32_t *tg_ir_lane(const struct tg_ir_machine *m, uint32_t lane)
{
    return m->lane + (size_t)lane * m->stride;
}
/* The private words of a lane, and behind them the TG_IR_L_ ones. */
static inline uint32_t *tg_ir_lane_own(const struct tg_ir_machine *m, uint32_t *row)
{
    return row + m->registers + TG_IR_PLACE_COUNT + m->constant_count;
}
static inline uint32_t *tg_ir_lane_state(const struct tg_ir_machine *m, uint32_t *row)
{
    return tg_ir_lane_own(m, row) + m->private_words;
}

/* Runs the lane up to its next shared step (not included), pause or end. Returns the code at which it stands;
 * NULL when it has ended, or ran TG_IR_LOCAL_STEPS without any. */
const struct tg_ir_code *tg_ir_run_local(struct tg_ir_machine *m, uint32_t lane);
#define TG_IR_LOCAL_STEPS (1u << 17)
/* The word that a shared step would touch (observable is control); false: outside. */
bool tg_ir_step_place(const struct tg_ir_machine *m, const uint32_t *row, const struct tg_ir_code *c,
                      struct tg_ir_word *ret);
/* Does the shared step at which the lane stands, or faults. Returns what the observer said; *ret_changed: a
 * word has another value now. */
int tg_ir_run_shared(struct tg_ir_machine *m, uint32_t lane, bool *ret_changed);

#endif
