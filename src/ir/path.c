/* SPDX-License-Identifier: Apache-2.0
 *
 * How nodes are called in paths and in text, and how a refusal is written. */
#include <stdarg.h>
#include <stdio.h>

#include "ir/node.h"

const char *const tg_ir_op_names[TG_IR_OP_COUNT] = {
    "add", "sub", "mul", "div", "rem", "min", "max", "bit_and", "bit_or", "bit_xor",
    "shl", "shr", "eq",  "ne",  "lt",  "le",  "gt",  "ge",      "and",    "or"};
const char *const tg_ir_unary_names[TG_IR_UNARY_COUNT] = {"not", "bit_not", "ctz"};
const char *const tg_ir_place_names[TG_IR_PLACE_COUNT] = {"lane", "lanes", "group", "groups"};
const char *const tg_ir_order_names[TG_IR_ORDER_COUNT] = {"relaxed", "acquire", "release", "acq_rel"};
const char *const tg_ir_atomic_names[TG_IR_A_COUNT] = {
    "atomic_load", "atomic_store", "atomic_add", "atomic_exchange", "atomic_cas", "atomic_and", "atomic_or"};
const char *const tg_ir_body_params[TG_IR_BODY_PARAMS] = {
    "a0", "a1",  "a2",  "a3",     "a4",     "a5",       "a6",   "a7",   "a8",
    "a9", "a10", "a11", "opcode", "tenant", "priority", "slot", "from", "inner"};

static const char *const kind_names[TG_IR_K_COUNT] = {
    "none",  "u32",    "var", "load", "length",  "binary", "unary", "select", "place", "let",  "assign",
    "store", "atomic", "if",  "loop", "forever", "break",  "block", "return", "pause", "call", "refused"};

static const char *one_of(const char *const *names, uint32_t count, uint32_t i)
{
    return i < count ? names[i] : "unknown";
}

void tg_ir_describe(const struct tg_ir *ir, uint32_t id, char *out, size_t size)
{
    if (!tg_ir_sound(ir, id)) {
        snprintf(out, size, "nothing");
        return;
    }
    const struct tg_ir_data *d = tg_ir_at(ir, id);
    const char *name = kind_names[d->kind];
    const char *of = tg_ir_text(ir, d->name);
    switch (d->kind) {
    case TG_IR_K_U32:
        snprintf(out, size, "%u", d->value);
        return;
    case TG_IR_K_BINARY:
        name = one_of(tg_ir_op_names, TG_IR_OP_COUNT, d->op);
        break;
    case TG_IR_K_UNARY:
        name = one_of(tg_ir_unary_names, TG_IR_UNARY_COUNT, d->op);
        break;
    case TG_IR_K_PLACE:
        name = one_of(tg_ir_place_names, TG_IR_PLACE_COUNT, d->op);
        break;
    case TG_IR_K_ATOMIC:
        name = one_of(tg_ir_atomic_names, TG_IR_A_COUNT, d->op);
        of = tg_ir_text(ir, d->name2);
        break;
    case TG_IR_K_LOAD:
    case TG_IR_K_LENGTH:
    case TG_IR_K_STORE:
    case TG_IR_K_CALL:
        of = tg_ir_text(ir, d->name2);
        break;
    case TG_IR_K_REFUSED:
        of = "";
        break;
    case TG_IR_K_BLOCK:
        if (d->name != 0) {
            snprintf(out, size, "%s", of);
            return;
        }
        break;
    default:
        break;
    }
    snprintf(out, size, "%s%s%s", name, of[0] ? " " : "", of);
}

/* The whole path when it fits; else its beginning, "..." and as much of its end as there is room for. */
static void write_path(const struct tg_ir *ir, char *out, size_t size, const uint32_t *path, size_t depth)
{
    char all[(TG_IR_MAX_DEPTH + 2) * (TG_IR_MAX_NAME + 24)];
    size_t have = 0;
    all[0] = 0;
    for (size_t i = 0; i < depth && i < TG_IR_MAX_DEPTH + 2; i++) {
        if (i > 0)
            all[have++] = '/';
        tg_ir_describe(ir, path[i], all + have, TG_IR_MAX_NAME + 23);
        have += strlen(all + have);
    }
    if (have < size) {
        memcpy(out, all, have + 1);
        return;
    }
    size_t head = size / 3, tail = have - (size - head - 5);
    while (head > 0 && all[head] != '/')
        head--;
    while (tail < have && all[tail] != '/')
        tail++;
    snprintf(out, size, "%.*s/...%s", (int)head, all, all + tail);
}

int tg_ir_refuse(const struct tg_ir *ir, struct tg_ir_error *error, int code, const uint32_t *path,
                 size_t depth, const char *format, ...)
{
    if (!error)
        return code;
    memset(error, 0, sizeof(*error));
    error->code = code;
    if (depth > 0) {
        error->node = path[depth - 1];
        for (size_t i = depth; i-- > 0 && error->line == 0;)
            if (tg_ir_sound(ir, path[i]))
                error->line = tg_ir_at(ir, path[i])->line;
    }
    write_path(ir, error->path, sizeof(error->path), path, depth);
    va_list list;
    va_start(list, format);
    vsnprintf(error->text, sizeof(error->text), format, list);
    va_end(list);
    return code;
}
