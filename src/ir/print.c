/* SPDX-License-Identifier: Apache-2.0
 *
 * A program as text: S-expressions, one statement a line. parse.c reads them back. */
#include <stdarg.h>
#include <stdio.h>

#include "ir/node.h"

struct out {
    const struct tg_ir *ir;
    char *text;
    size_t size;
    size_t have;
    uint32_t depth;
};

static void put(struct out *o, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(struct out *o, const char *format, ...)
{
    va_list list;
    size_t room = o->have < o->size ? o->size - o->have : 0;
    va_start(list, format);
    int n = vsnprintf(room ? o->text + o->have : NULL, room, format, list);
    va_end(list);
    o->have += n > 0 ? (size_t)n : 0;
}

static const char *or_none(const struct out *o, uint32_t name)
{
    return name == 0 ? "_" : tg_ir_text(o->ir, name);
}

/* A handle that is none, or too deep a tree (not validated), is written as what no program may contain. */
static const struct tg_ir_data *node_of(struct out *o, uint32_t id, bool expression)
{
    if (o->depth <= TG_IR_MAX_DEPTH && tg_ir_sound(o->ir, id) &&
        tg_ir_is_expr(tg_ir_at(o->ir, id)->kind) == expression)
        return tg_ir_at(o->ir, id);
    put(o, "(refused)");
    return NULL;
}

static void expression(struct out *o, uint32_t id)
{
    const struct tg_ir_data *d = node_of(o, id, true);
    if (!d)
        return;
    o->depth++;
    const uint32_t operand[3] = {d->a, d->b, d->c};
    uint32_t operands = 0;
    switch (d->kind) {
    case TG_IR_K_U32:
        put(o, d->value < 65536 ? "%u" : "0x%x", d->value);
        break;
    case TG_IR_K_VAR:
        put(o, "%s", tg_ir_text(o->ir, d->name));
        break;
    case TG_IR_K_LENGTH:
        put(o, "(length %s)", tg_ir_text(o->ir, d->name2));
        break;
    case TG_IR_K_PLACE:
        put(o, "(%s)", d->op < TG_IR_PLACE_COUNT ? tg_ir_place_names[d->op] : "refused");
        break;
    case TG_IR_K_LOAD:
        put(o, "(load %s", tg_ir_text(o->ir, d->name2));
        operands = 1;
        break;
    case TG_IR_K_UNARY:
        put(o, "(%s", d->op < TG_IR_UNARY_COUNT ? tg_ir_unary_names[d->op] : "refused");
        operands = 1;
        break;
    case TG_IR_K_BINARY:
        put(o, "(%s", d->op < TG_IR_OP_COUNT ? tg_ir_op_names[d->op] : "refused");
        operands = 2;
        break;
    default:
        put(o, "(select");
        operands = 3;
        break;
    }
    for (uint32_t i = 0; i < operands; i++) {
        put(o, " ");
        expression(o, operand[i]);
    }
    put(o, operands ? ")" : "");
    o->depth--;
}

static void operands(struct out *o, const uint32_t *operand, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        put(o, " ");
        expression(o, operand[i]);
    }
}

static void statement(struct out *o, uint32_t id, uint32_t indent);

static void inside(struct out *o, uint32_t id, uint32_t indent)
{
    put(o, "\n");
    statement(o, id, indent + 1);
}

static void atomic(struct out *o, const struct tg_ir_data *d)
{
    static const uint8_t count[TG_IR_A_COUNT] = {1, 2, 2, 2, 3, 2, 2};
    const uint32_t operand[3] = {d->a, d->b, d->c};
    if (d->op >= TG_IR_A_COUNT || d->order >= TG_IR_ORDER_COUNT) {
        put(o, "(refused");
        return;
    }
    put(o, "(%s", tg_ir_atomic_names[d->op]);
    if (d->op != TG_IR_A_STORE)
        put(o, " %s", or_none(o, d->name));
    put(o, " %s", tg_ir_text(o->ir, d->name2));
    operands(o, operand, count[d->op]);
    put(o, " %s", tg_ir_order_names[d->order]);
}

static void call(struct out *o, const struct tg_ir_data *d, uint32_t indent)
{
    const uint32_t *pair = tg_ir_list(o->ir, d);
    put(o, "(%s %s %s (", d->flags & TG_IR_F_USER ? "call_user" : "call", tg_ir_text(o->ir, d->name),
        or_none(o, d->name2));
    for (uint32_t i = 0; i < d->value; i++) {
        put(o, "%s(%s ", i ? " " : "", tg_ir_text(o->ir, pair[2 * i]));
        expression(o, pair[2 * i + 1]);
        put(o, ")");
    }
    put(o, ")");
    inside(o, d->a, indent);
}

static void statement(struct out *o, uint32_t id, uint32_t indent)
{
    put(o, "%*s", (int)(2 * indent), "");
    const struct tg_ir_data *d = node_of(o, id, false);
    if (!d)
        return;
    o->depth++;
    const uint32_t operand[2] = {d->a, d->b};
    const char *name = tg_ir_text(o->ir, d->name);
    switch (d->kind) {
    case TG_IR_K_LET:
    case TG_IR_K_ASSIGN:
        put(o, "(%s %s", d->kind == TG_IR_K_LET ? "let" : "assign", name);
        operands(o, operand, 1);
        break;
    case TG_IR_K_STORE:
        put(o, "(store %s", tg_ir_text(o->ir, d->name2));
        operands(o, operand, 2);
        break;
    case TG_IR_K_ATOMIC:
        atomic(o, d);
        break;
    case TG_IR_K_IF:
        put(o, "(if");
        operands(o, operand, 1);
        inside(o, d->b, indent);
        if (d->c != 0)
            inside(o, d->c, indent);
        break;
    case TG_IR_K_LOOP:
        put(o, "(loop %s", name);
        operands(o, operand, 2);
        put(o, " %u", d->value);
        inside(o, d->c, indent);
        break;
    case TG_IR_K_FOREVER:
        put(o, "(forever");
        inside(o, d->a, indent);
        break;
    case TG_IR_K_BLOCK:
        put(o, "(block %s", or_none(o, d->name));
        for (uint32_t i = 0; i < d->value; i++)
            inside(o, tg_ir_list(o->ir, d)[i], indent);
        break;
    case TG_IR_K_RETURN:
        put(o, "(return");
        operands(o, operand, 1);
        break;
    case TG_IR_K_CALL:
        call(o, d, indent);
        break;
    default:
        put(o, "(%s", d->kind == TG_IR_K_BREAK ? "break" : d->kind == TG_IR_K_PAUSE ? "pause" : "refused");
        break;
    }
    put(o, ")");
    o->depth--;
}

size_t tg_ir_print(const struct tg_ir *ir, struct tg_ir_node root, char *out, size_t size)
{
    struct out o = {.ir = ir, .text = out, .size = size};
    if (size > 0)
        out[0] = 0;
    for (uint32_t i = TG_IR_FIRST_USER_BUFFER; i < ir->buffer_count; i++)
        put(&o, "(buffer %s %u)\n", tg_ir_text(ir, ir->buffer[i].name), ir->buffer[i].words);
    statement(&o, root.id, 0);
    put(&o, "\n");
    return o.have;
}
