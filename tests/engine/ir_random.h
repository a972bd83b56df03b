/* SPDX-License-Identifier: Apache-2.0
 * Random programs of the kernel IR, all of them valid: every node, every operator, every scope, indices that
 * are mostly inside. */
#ifndef TG_TESTS_IR_RANDOM_H
#define TG_TESTS_IR_RANDOM_H

#include <stdio.h>
#include <string.h>

#include <tidegate/ir.h>

#define RANDOM_NAMES 10u

struct random_ir {
    struct tg_ir *ir;
    uint64_t state;
    int budget; /* nodes still to make, about */
    uint32_t loops;
    uint32_t visible;             /* bit i: name ni is visible */
    uint32_t constant;            /* bit i: and may not be assigned */
    const char *shared, *private; /* buffers of the user */
    struct tg_ir_node body;       /* of an earlier call, and the names of its parameters */
    uint32_t params;
};

static inline uint32_t random_u32(struct random_ir *g)
{
    g->state = g->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(g->state >> 33 ^ g->state >> 17);
}

static inline uint32_t random_below(struct random_ir *g, uint32_t n)
{
    return random_u32(g) % n;
}

static inline const char *random_name(uint32_t i)
{
    /* Words of C and CUDA, names of the emitted text: they must do no harm. */
    static const char *const names[RANDOM_NAMES] = {"int", "k",   "return", "tg_load_relaxed", "v1_int",
                                                    "u32", "env", "_a",     "words",           "x"};
    return names[i];
}

static inline const char *random_buffer(struct random_ir *g, bool write)
{
    const char *all[] = {"control", "ring", "log", "observable", g->shared, g->private, "dfa"};
    return all[random_below(g, write ? 6 : 7)];
}

/* One of the names in mask, which is not 0. */
static inline uint32_t random_of(struct random_ir *g, uint32_t mask)
{
    for (;;) {
        uint32_t i = random_below(g, RANDOM_NAMES);
        if (mask >> i & 1u)
            return i;
    }
}

static inline struct tg_ir_expr random_expr(struct random_ir *g, uint32_t depth);

static inline struct tg_ir_expr random_index(struct random_ir *g, const char *buffer, uint32_t depth)
{
    struct tg_ir_expr e = random_expr(g, depth + 1);
    return random_below(g, 12) == 0 ? e : tg_ir_rem(g->ir, e, tg_ir_length(g->ir, buffer));
}

static inline struct tg_ir_expr random_leaf(struct random_ir *g)
{
    static const uint32_t odd[] = {0, 1, 2, 31, 32, 33, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 65535};
    switch (random_below(g, 5)) {
    case 0:
        return tg_ir_u32(g->ir, random_u32(g));
    case 1:
        return tg_ir_place(g->ir, (enum tg_ir_place)random_below(g, TG_IR_PLACE_COUNT));
    case 2:
        return tg_ir_length(g->ir, random_buffer(g, false));
    case 3:
        if (g->visible)
            return tg_ir_var(g->ir, random_name(random_of(g, g->visible)));
        /* fall through */
    default:
        return tg_ir_u32(g->ir, odd[random_below(g, 10)]);
    }
}

static inline struct tg_ir_expr random_expr(struct random_ir *g, uint32_t depth)
{
    g->budget--;
    if (depth > 30 || g->budget <= 0 || random_below(g, 3) == 0)
        return random_leaf(g);
    uint32_t kind = random_below(g, 10);
    if (kind < 2) {
        const char *buffer = random_buffer(g, false);
        return tg_ir_load(g->ir, buffer, random_index(g, buffer, depth));
    }
    struct tg_ir_expr a = random_expr(g, depth + 1);
    if (kind == 2)
        return tg_ir_unary(g->ir, (enum tg_ir_unary)random_below(g, TG_IR_UNARY_COUNT), a);
    struct tg_ir_expr b = random_below(g, 8) == 0 ? a : random_expr(g, depth + 1); /* nodes may be shared */
    if (kind == 3)
        return tg_ir_select(g->ir, a, b, random_expr(g, depth + 1));
    return tg_ir_binary(g->ir, (enum tg_ir_op)random_below(g, TG_IR_OP_COUNT), a, b);
}

static inline struct tg_ir_node random_block(struct random_ir *g, uint32_t depth, uint32_t most);

/* A branch or loop: its variables end with it. */
static inline struct tg_ir_node random_scope(struct random_ir *g, uint32_t depth)
{
    uint32_t visible = g->visible, constant = g->constant;
    struct tg_ir_node n = random_block(g, depth, 4);
    g->visible = visible;
    g->constant = constant;
    return n;
}

static inline struct tg_ir_node random_atomic(struct random_ir *g, const char *result)
{
    static const char *const wire[] = {"control", "ring", "log", "observable"};
    const char *buffer = random_below(g, 3) ? wire[random_below(g, 4)] : g->shared;
    struct tg_ir_expr at = random_index(g, buffer, 20);
    enum tg_ir_order order = (enum tg_ir_order)random_below(g, TG_IR_ORDER_COUNT);
    struct tg_ir_expr a = random_expr(g, 20);
    switch (random_below(g, 7)) {
    case 0:
        return tg_ir_atomic_load(g->ir, result ? result : "result", buffer, at,
                                 random_below(g, 2) ? TG_IR_RELAXED : TG_IR_ACQUIRE);
    case 1:
        return tg_ir_atomic_add(g->ir, result, buffer, at, a, order);
    case 2:
        return tg_ir_atomic_exchange(g->ir, result, buffer, at, a, order);
    case 3:
        return tg_ir_atomic_and(g->ir, result, buffer, at, a, order);
    case 4:
        return tg_ir_atomic_or(g->ir, result, buffer, at, a, order);
    default:
        return tg_ir_atomic_cas(g->ir, result, buffer, at,
                                random_below(g, 2) ? tg_ir_load(g->ir, buffer, at) : a, random_expr(g, 20),
                                order);
    }
}

/* The body of an earlier call once more, its parameters in an order that may be another. */
static inline struct tg_ir_node random_again(struct random_ir *g, const char *result)
{
    struct tg_ir_param p[RANDOM_NAMES];
    uint32_t n = 0, first = random_below(g, RANDOM_NAMES);
    for (uint32_t i = first; i < first + RANDOM_NAMES; i++)
        if (g->params >> i % RANDOM_NAMES & 1u)
            p[n++] = (struct tg_ir_param){random_name(i % RANDOM_NAMES), random_expr(g, 20)};
    return tg_ir_call(g->ir, result, NULL, p, n, g->body);
}

static inline struct tg_ir_node random_call(struct random_ir *g, const char *result, uint32_t depth)
{
    struct tg_ir_param p[RANDOM_NAMES];
    uint32_t n = random_below(g, 5), mine = 0;
    if (g->body.id && random_below(g, 2))
        return random_again(g, result);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t name = random_of(g, ~mine);
        mine |= 1u << name;
        p[i] = (struct tg_ir_param){random_name(name), random_expr(g, 20)};
    }
    uint32_t visible = g->visible, constant = g->constant, loops = g->loops;
    g->visible = g->constant = mine;
    g->loops = 0;
    struct tg_ir_node body = random_block(g, depth + 1, 5);
    g->visible = visible;
    g->constant = constant;
    g->loops = loops;
    g->body = body;
    g->params = mine;
    return tg_ir_call(g->ir, result, random_below(g, 2) ? "part*" : NULL, p, n, body);
}

static inline struct tg_ir_node random_loop(struct random_ir *g, uint32_t depth)
{
    uint32_t hidden = ~g->visible & ((1u << RANDOM_NAMES) - 1);
    if (!hidden || depth > 12)
        return tg_ir_pause(g->ir);
    uint32_t visible = g->visible, constant = g->constant, name = random_of(g, hidden);
    struct tg_ir_expr from = random_below(g, 2) ? tg_ir_u32(g->ir, random_below(g, 5)) : random_expr(g, 25);
    struct tg_ir_expr to = random_below(g, 4) ? tg_ir_add(g->ir, from, tg_ir_u32(g->ir, random_below(g, 5)))
                                              : random_expr(g, 25);
    g->visible |= 1u << name;
    g->constant |= 1u << name;
    g->loops++;
    struct tg_ir_node body = random_scope(g, depth + 1);
    g->loops--;
    g->visible = visible;
    g->constant = constant;
    return tg_ir_loop(g->ir, random_name(name), from, to, 1 + random_below(g, 6), body);
}

static inline struct tg_ir_node random_statement(struct random_ir *g, uint32_t depth)
{
    uint32_t hidden = ~g->visible & ((1u << RANDOM_NAMES) - 1);
    uint32_t variable = g->visible & ~g->constant;
    uint32_t kind = g->budget <= 0 || depth > 14 ? random_below(g, 5) : random_below(g, 16);
    const char *buffer;
    g->budget--;
    if ((kind <= 1 || kind == 9 || kind == 10) && hidden) {
        uint32_t name = random_of(g, hidden);
        struct tg_ir_node n = kind <= 1   ? tg_ir_let(g->ir, random_name(name), random_expr(g, 0))
                              : kind == 9 ? random_atomic(g, random_name(name))
                                          : random_call(g, random_name(name), depth);
        g->visible |= 1u << name;
        g->constant &= ~(1u << name);
        return n;
    }
    switch (kind) {
    case 2:
        if (variable)
            return tg_ir_assign(g->ir, random_name(random_of(g, variable)), random_expr(g, 0));
        /* fall through */
    case 3:
    case 4:
        buffer = random_buffer(g, true);
        return tg_ir_store(g->ir, buffer, random_index(g, buffer, 0), random_expr(g, 0));
    case 5:
    case 6: {
        struct tg_ir_expr condition = random_expr(g, 0);
        struct tg_ir_node yes = random_scope(g, depth + 1);
        return tg_ir_if(g->ir, condition, yes,
                        random_below(g, 2) ? random_scope(g, depth + 1) : (struct tg_ir_node){0});
    }
    case 7:
    case 8:
        return random_loop(g, depth);
    case 11:
        return random_block(g, depth + 1, 3);
    case 12:
        return tg_ir_pause(g->ir);
    case 13:
        if (g->loops)
            return tg_ir_if(g->ir, random_expr(g, 10), tg_ir_break(g->ir), (struct tg_ir_node){0});
        /* fall through */
    case 14:
        return tg_ir_if(g->ir, tg_ir_eq(g->ir, random_expr(g, 20), random_expr(g, 20)),
                        tg_ir_return(g->ir, random_expr(g, 5)), (struct tg_ir_node){0});
    default:
        buffer = g->shared;
        return tg_ir_atomic_add(g->ir, NULL, buffer, random_index(g, buffer, 10), random_expr(g, 10),
                                TG_IR_RELAXED);
    }
}

static inline struct tg_ir_node random_block(struct random_ir *g, uint32_t depth, uint32_t most)
{
    struct tg_ir_node nodes[8];
    uint32_t n = random_below(g, most + 1);
    for (uint32_t i = 0; i < n; i++)
        nodes[i] = random_statement(g, depth);
    return tg_ir_block(g->ir, random_below(g, 3) ? NULL : "what->it*does", nodes, n);
}

#endif
