/* SPDX-License-Identifier: Apache-2.0
 *
 * The builders of single nodes. They store what they are given; what is wrong with it is marked in the node
 * and refused by the validator, which knows the path. */
#include "ir/node.h"

static struct tg_ir_expr expr(uint32_t id)
{
    return (struct tg_ir_expr){id};
}

static struct tg_ir_node node(uint32_t id)
{
    return (struct tg_ir_node){id};
}

/* A name or label of a node; a wrong one is kept as far as it can be shown, and marked. */
static uint32_t named(struct tg_ir *ir, const char *name, bool label, uint32_t long_mark, uint32_t bad_mark,
                      uint32_t *flags)
{
    size_t size = name ? strnlen(name, TG_IR_MAX_NAME + 1) : 0;
    if (size > TG_IR_MAX_NAME) {
        size = TG_IR_MAX_NAME;
        *flags |= long_mark;
    }
    bool good = name && (label ? tg_ir_is_label(name, size) : tg_ir_is_name(name, size));
    if (!good)
        *flags |= bad_mark;
    return size == 0 ? 0 : tg_ir_intern(ir, name, size);
}

static uint32_t name_of(struct tg_ir *ir, const char *name, uint32_t *flags)
{
    return named(ir, name, false, TG_IR_F_NAME_LONG, TG_IR_F_NAME_BAD, flags);
}

static uint32_t label_of(struct tg_ir *ir, const char *label, uint32_t long_mark, uint32_t bad_mark,
                         uint32_t *flags)
{
    return label ? named(ir, label, true, long_mark, bad_mark, flags) : 0;
}

/* The node gets its strings first: they may fill the arena. */
static uint32_t make(struct tg_ir *ir, const struct tg_ir_data *from)
{
    uint32_t id = tg_ir_new(ir, (enum tg_ir_kind)from->kind);
    if (id != 0)
        *tg_ir_at(ir, id) = *from;
    return id;
}

static void set_name(struct tg_ir *ir, struct tg_ir_data *d, const char *name)
{
    uint32_t flags = d->flags;
    d->name = name_of(ir, name, &flags);
    d->flags = (uint8_t)flags;
}

static void set_buffer(struct tg_ir *ir, struct tg_ir_data *d, const char *name)
{
    uint32_t flags = d->flags;
    d->name2 = named(ir, name, false, TG_IR_F_NAME2_LONG, TG_IR_F_NAME2_BAD, &flags);
    d->flags = (uint8_t)flags;
    d->buffer = TG_IR_NO_BUFFER;
    for (uint32_t i = 0; d->name2 != 0 && i < ir->buffer_count; i++)
        if (ir->buffer[i].name == d->name2)
            d->buffer = (uint8_t)i;
}

struct tg_ir_expr tg_ir_u32(struct tg_ir *ir, uint32_t value)
{
    return expr(make(ir, &(struct tg_ir_data){.kind = TG_IR_K_U32, .value = value}));
}

struct tg_ir_expr tg_ir_var(struct tg_ir *ir, const char *name)
{
    struct tg_ir_data d = {.kind = TG_IR_K_VAR};
    set_name(ir, &d, name);
    return expr(make(ir, &d));
}

struct tg_ir_expr tg_ir_load(struct tg_ir *ir, const char *buffer, struct tg_ir_expr index)
{
    struct tg_ir_data d = {.kind = TG_IR_K_LOAD, .a = index.id};
    set_buffer(ir, &d, buffer);
    return expr(make(ir, &d));
}

struct tg_ir_expr tg_ir_length(struct tg_ir *ir, const char *buffer)
{
    struct tg_ir_data d = {.kind = TG_IR_K_LENGTH};
    set_buffer(ir, &d, buffer);
    return expr(make(ir, &d));
}

/* An enumerator of the caller as a byte: one that is too large stays too large. */
static uint8_t small(unsigned value)
{
    return value > 0xFFu ? 0xFFu : (uint8_t)value;
}

struct tg_ir_expr tg_ir_binary(struct tg_ir *ir, enum tg_ir_op op, struct tg_ir_expr a, struct tg_ir_expr b)
{
    return expr(
        make(ir, &(struct tg_ir_data){.kind = TG_IR_K_BINARY, .op = small(op), .a = a.id, .b = b.id}));
}

struct tg_ir_expr tg_ir_unary(struct tg_ir *ir, enum tg_ir_unary op, struct tg_ir_expr a)
{
    return expr(make(ir, &(struct tg_ir_data){.kind = TG_IR_K_UNARY, .op = small(op), .a = a.id}));
}

struct tg_ir_expr tg_ir_select(struct tg_ir *ir, struct tg_ir_expr condition, struct tg_ir_expr yes,
                               struct tg_ir_expr no)
{
    return expr(
        make(ir, &(struct tg_ir_data){.kind = TG_IR_K_SELECT, .a = condition.id, .b = yes.id, .c = no.id}));
}

struct tg_ir_expr tg_ir_place(struct tg_ir *ir, enum tg_ir_place place)
{
    return expr(make(ir, &(struct tg_ir_data){.kind = TG_IR_K_PLACE, .op = small(place)}));
}

struct tg_ir_node tg_ir_let(struct tg_ir *ir, const char *name, struct tg_ir_expr value)
{
    struct tg_ir_data d = {.kind = TG_IR_K_LET, .a = value.id};
    set_name(ir, &d, name);
    return node(make(ir, &d));
}

struct tg_ir_node tg_ir_assign(struct tg_ir *ir, const char *name, struct tg_ir_expr value)
{
    struct tg_ir_data d = {.kind = TG_IR_K_ASSIGN, .a = value.id};
    set_name(ir, &d, name);
    return node(make(ir, &d));
}

struct tg_ir_node tg_ir_store(struct tg_ir *ir, const char *buffer, struct tg_ir_expr index,
                              struct tg_ir_expr value)
{
    struct tg_ir_data d = {.kind = TG_IR_K_STORE, .a = index.id, .b = value.id};
    set_buffer(ir, &d, buffer);
    return node(make(ir, &d));
}

/* shape has op, order and the operands. */
static struct tg_ir_node atomic(struct tg_ir *ir, const char *result, const char *buffer,
                                const struct tg_ir_data *shape)
{
    struct tg_ir_data d = *shape;
    d.kind = TG_IR_K_ATOMIC;
    if (result)
        set_name(ir, &d, result);
    set_buffer(ir, &d, buffer);
    return node(make(ir, &d));
}

/* Those that take one value. */
static struct tg_ir_node atomic_change(struct tg_ir *ir, uint8_t op, const char *result, const char *buffer,
                                       struct tg_ir_expr index, struct tg_ir_expr value,
                                       enum tg_ir_order order)
{
    return atomic(ir, result, buffer,
                  &(struct tg_ir_data){.op = op, .order = small(order), .a = index.id, .b = value.id});
}

struct tg_ir_node tg_ir_atomic_load(struct tg_ir *ir, const char *result, const char *buffer,
                                    struct tg_ir_expr index, enum tg_ir_order order)
{
    return atomic(ir, result, buffer,
                  &(struct tg_ir_data){.op = TG_IR_A_LOAD, .order = small(order), .a = index.id});
}

struct tg_ir_node tg_ir_atomic_store(struct tg_ir *ir, const char *buffer, struct tg_ir_expr index,
                                     struct tg_ir_expr value, enum tg_ir_order order)
{
    return atomic_change(ir, TG_IR_A_STORE, NULL, buffer, index, value, order);
}

struct tg_ir_node tg_ir_atomic_add(struct tg_ir *ir, const char *result, const char *buffer,
                                   struct tg_ir_expr index, struct tg_ir_expr value, enum tg_ir_order order)
{
    return atomic_change(ir, TG_IR_A_ADD, result, buffer, index, value, order);
}

struct tg_ir_node tg_ir_atomic_exchange(struct tg_ir *ir, const char *result, const char *buffer,
                                        struct tg_ir_expr index, struct tg_ir_expr value,
                                        enum tg_ir_order order)
{
    return atomic_change(ir, TG_IR_A_EXCHANGE, result, buffer, index, value, order);
}

struct tg_ir_node tg_ir_atomic_cas(struct tg_ir *ir, const char *result, const char *buffer,
                                   struct tg_ir_expr index, struct tg_ir_expr expected,
                                   struct tg_ir_expr desired, enum tg_ir_order order)
{
    return atomic(
        ir, result, buffer,
        &(struct tg_ir_data){
            .op = TG_IR_A_CAS, .order = small(order), .a = index.id, .b = expected.id, .c = desired.id});
}

struct tg_ir_node tg_ir_atomic_and(struct tg_ir *ir, const char *result, const char *buffer,
                                   struct tg_ir_expr index, struct tg_ir_expr value, enum tg_ir_order order)
{
    return atomic_change(ir, TG_IR_A_AND, result, buffer, index, value, order);
}

struct tg_ir_node tg_ir_atomic_or(struct tg_ir *ir, const char *result, const char *buffer,
                                  struct tg_ir_expr index, struct tg_ir_expr value, enum tg_ir_order order)
{
    return atomic_change(ir, TG_IR_A_OR, result, buffer, index, value, order);
}

struct tg_ir_node tg_ir_if(struct tg_ir *ir, struct tg_ir_expr condition, struct tg_ir_node yes,
                           struct tg_ir_node no)
{
    return node(
        make(ir, &(struct tg_ir_data){.kind = TG_IR_K_IF, .a = condition.id, .b = yes.id, .c = no.id}));
}

struct tg_ir_node tg_ir_loop(struct tg_ir *ir, const char *counter, struct tg_ir_expr from,
                             struct tg_ir_expr to, uint32_t most, struct tg_ir_node body)
{
    struct tg_ir_data d = {.kind = TG_IR_K_LOOP, .a = from.id, .b = to.id, .c = body.id, .value = most};
    set_name(ir, &d, counter);
    return node(make(ir, &d));
}

struct tg_ir_node tg_ir_forever(struct tg_ir *ir, struct tg_ir_node body)
{
    return node(make(ir, &(struct tg_ir_data){.kind = TG_IR_K_FOREVER, .a = body.id}));
}

struct tg_ir_node tg_ir_break(struct tg_ir *ir)
{
    return node(make(ir, &(struct tg_ir_data){.kind = TG_IR_K_BREAK}));
}

struct tg_ir_node tg_ir_block_of(struct tg_ir *ir, const char *label, uint32_t list, size_t count)
{
    struct tg_ir_data d = {.kind = TG_IR_K_BLOCK, .list = list, .value = list != 0 ? (uint32_t)count : 0};
    uint32_t flags = 0;
    d.name = label_of(ir, label, TG_IR_F_NAME_LONG, TG_IR_F_NAME_BAD, &flags);
    d.flags = (uint8_t)flags;
    return node(make(ir, &d));
}

struct tg_ir_node tg_ir_block(struct tg_ir *ir, const char *label, const struct tg_ir_node *nodes,
                              size_t count)
{
    uint32_t list = count > 0 ? tg_ir_new_list(ir, count) : 0;
    for (size_t i = 0; list != 0 && i < count; i++)
        memcpy(ir->memory + list + i * 4, &nodes[i].id, 4);
    return tg_ir_block_of(ir, label, list, count);
}

struct tg_ir_node tg_ir_return(struct tg_ir *ir, struct tg_ir_expr value)
{
    return node(make(ir, &(struct tg_ir_data){.kind = TG_IR_K_RETURN, .a = value.id}));
}

struct tg_ir_node tg_ir_pause(struct tg_ir *ir)
{
    return node(make(ir, &(struct tg_ir_data){.kind = TG_IR_K_PAUSE}));
}

struct tg_ir_node tg_ir_call(struct tg_ir *ir, const char *result, const char *label,
                             const struct tg_ir_param *params, size_t param_count, struct tg_ir_node body)
{
    struct tg_ir_data d = {.kind = TG_IR_K_CALL, .a = body.id};
    set_name(ir, &d, result);
    uint32_t flags = d.flags;
    d.name2 = label_of(ir, label, TG_IR_F_NAME2_LONG, TG_IR_F_NAME2_BAD, &flags);
    if (param_count > TG_IR_MAX_PARAMS) {
        flags |= TG_IR_F_LIST_LONG;
        param_count = 0;
    }
    uint32_t pairs[TG_IR_MAX_PARAMS][2];
    for (size_t i = 0; i < param_count; i++) {
        pairs[i][0] = name_of(ir, params[i].name, &flags);
        pairs[i][1] = params[i].value.id;
    }
    if (param_count > 0) {
        d.list = tg_ir_new_list(ir, 2 * param_count);
        if (d.list != 0)
            memcpy(ir->memory + d.list, pairs, param_count * sizeof(pairs[0]));
        d.value = d.list != 0 ? (uint32_t)param_count : 0;
    }
    d.flags = (uint8_t)flags;
    return node(make(ir, &d));
}
