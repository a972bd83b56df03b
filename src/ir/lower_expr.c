/* SPDX-License-Identifier: Apache-2.0
 *
 * Expressions as C. What has no load in it becomes one C expression of helper calls (they are inline, and say
 * no more than the operator: no warning about comparisons that are always true, no undefined shift). A load
 * is a line of its own, behind the line that checks its index, so that loads keep their order and a fault
 * leaves the function. The lazy operators with a load behind them become branches.
 */
#include <stdio.h>

#include "ir/lower.h"

/* AND and OR are lazy: no helper. */
static const char *const helper[TG_IR_OP_COUNT] = {"tg_add", "tg_sub", "tg_mul", "tg_div", "tg_rem", "tg_min",
                                                   "tg_max", "tg_and", "tg_or",  "tg_xor", "tg_shl", "tg_shr",
                                                   "tg_eq",  "tg_ne",  "tg_lt",  "tg_le",  "tg_gt",  "tg_ge"};
static const char *const unary[TG_IR_UNARY_COUNT] = {"tg_not", "tg_bit_not", "tg_ctz"};
static const char *const place[TG_IR_PLACE_COUNT] = {"k->lane", "k->lanes", "k->group", "k->groups"};

static uint32_t height_of(const struct tg_lower *l, uint32_t id)
{
    return id < l->ir->node_end ? l->height[id] : 0;
}

/* Children have lower handles: one pass. A node that would be too high is a temporary: height 0. */
void tg_lower_heights(struct tg_lower *l)
{
    for (uint32_t id = 1; id < l->ir->node_end; id++) {
        const struct tg_ir_data *d = tg_ir_at(l->ir, id);
        if (!tg_ir_is_expr(d->kind) || d->kind == TG_IR_K_U32 || d->kind == TG_IR_K_VAR)
            continue;
        uint32_t a = height_of(l, d->a), b = height_of(l, d->b), c = height_of(l, d->c);
        uint32_t impure = ((a | b | c) & TG_LOWER_IMPURE) | (d->kind == TG_IR_K_LOAD ? TG_LOWER_IMPURE : 0);
        uint32_t most = a & 0x7Fu;
        most = (b & 0x7Fu) > most ? b & 0x7Fu : most;
        most = (c & 0x7Fu) > most ? c & 0x7Fu : most;
        most = d->kind == TG_IR_K_LOAD || most >= TG_LOWER_MAX_HEIGHT ? 0 : most + 1;
        l->height[id] = (uint8_t)(most | impure);
    }
}

/* Was the node's height cut, so that it becomes a temporary? Loads do that themselves. */
static bool too_high(const struct tg_lower *l, uint32_t id, const struct tg_ir_data *d)
{
    return (d->kind == TG_IR_K_BINARY || d->kind == TG_IR_K_UNARY || d->kind == TG_IR_K_SELECT) &&
           (l->height[id] & 0x7Fu) == 0;
}

void tg_lower_word(struct tg_lower *l, uint32_t buffer, const char *index, struct tg_text *out)
{
    uint32_t words = l->ir->buffer[buffer].words;
    if (words) {
        tg_lower_line(l, "if (tg_ge(%s, %uu))", index, words);
        tg_text_printf(out, "k->private_words + %uu + %s", l->private_at[buffer], index);
        uint32_t top = l->private_at[buffer] + words;
        l->private_top = top > l->private_top ? top : l->private_top;
    } else {
        tg_lower_line(l, "if (tg_ge(%s, k->count[%u]))", index, buffer);
        tg_text_printf(out, "k->words[%u] + %s", buffer, index);
    }
    tg_lower_line(l, "    return TG_OUT_OF_BOUNDS;");
}

/* The value becomes a constant of its own, and out its name. Frees value. */
static void name_value(struct tg_lower *l, struct tg_text *value, struct tg_text *out)
{
    uint32_t number = ++l->numbers;
    tg_lower_line(l, "const u32 t%u = ", number);
    tg_text_join(l->body, value);
    tg_text_put(l->body, ";");
    tg_text_printf(out, "t%u", number);
    tg_text_free(value);
}

void tg_lower_operand(struct tg_lower *l, uint32_t id, struct tg_text *out)
{
    const struct tg_ir_data *d = tg_ir_at(l->ir, id);
    if (d->kind == TG_IR_K_U32 || d->kind == TG_IR_K_VAR || d->kind == TG_IR_K_PLACE) {
        tg_lower_expr(l, id, out);
        return;
    }
    struct tg_text value = {0};
    tg_lower_expr(l, id, &value);
    name_value(l, &value, out);
}

static void load(struct tg_lower *l, const struct tg_ir_data *d, struct tg_text *out)
{
    struct tg_text index = {0}, word = {0};
    tg_lower_operand(l, d->a, &index);
    tg_lower_word(l, d->buffer, index.bytes ? index.bytes : "", &word);
    uint32_t number = ++l->numbers;
    tg_lower_line(l,
                  tg_lower_is_plain(l, d->buffer) ? "const u32 t%u = *(" : "const u32 t%u = tg_load_relaxed(",
                  number);
    tg_text_join(l->body, &word);
    tg_text_put(l->body, ");");
    tg_text_printf(out, "t%u", number);
    tg_text_join(out, &(struct tg_text){.error = index.error ? index.error : word.error});
    tg_text_free(&index);
    tg_text_free(&word);
}

/* One arm of a lazy operator, as lines in braces that set temporary number. */
static void arm(struct tg_lower *l, uint32_t id, uint32_t number, bool truth)
{
    struct tg_text value = {0};
    l->indent++;
    tg_lower_expr(l, id, &value);
    tg_lower_line(l, truth ? "t%u = tg_bool(" : "t%u = (", number);
    tg_text_join(l->body, &value);
    tg_text_put(l->body, ");");
    l->indent--;
    tg_text_free(&value);
}

/* AND, OR, SELECT with a load in an arm. yes or no 0: the value is 0 or 1 there. */
static void branch(struct tg_lower *l, const struct tg_ir_data *d, struct tg_text *out)
{
    struct tg_text condition = {0};
    bool select = d->kind == TG_IR_K_SELECT;
    bool or = !select && d->op == TG_IR_OR;
    tg_lower_expr(l, d->a, &condition);
    uint32_t number = ++l->numbers;
    tg_lower_line(l, "u32 t%u = %s;", number, or ? "1u" : "0u");
    tg_lower_line(l, or ? "if (!tg_true(" : "if (tg_true(");
    tg_text_join(l->body, &condition);
    tg_text_put(l->body, ")) {");
    arm(l, d->b, number, !select);
    if (select) {
        tg_lower_line(l, "} else {");
        arm(l, d->c, number, false);
    }
    tg_lower_line(l, "}");
    tg_text_printf(out, "t%u", number);
    tg_text_free(&condition);
}

static void call(struct tg_lower *l, const char *name, uint32_t a, uint32_t b, struct tg_text *out)
{
    tg_text_printf(out, "%s(", name);
    tg_lower_expr(l, a, out);
    if (b) {
        tg_text_put(out, ", ");
        tg_lower_expr(l, b, out);
    }
    tg_text_put(out, ")");
}

static void inline_select(struct tg_lower *l, uint32_t a, uint32_t yes, bool truth, uint32_t no,
                          const char *constant, struct tg_text *out)
{
    tg_text_put(out, "(tg_true(");
    tg_lower_expr(l, a, out);
    tg_text_put(out, ") ? ");
    for (int i = 0; i < 2; i++) {
        uint32_t id = i == 0 ? yes : no;
        if (!id)
            tg_text_put(out, constant);
        else if (truth)
            call(l, "tg_bool", id, 0, out);
        else
            tg_lower_expr(l, id, out);
        tg_text_put(out, i == 0 ? " : " : ")");
    }
}

static void compound(struct tg_lower *l, const struct tg_ir_data *d, struct tg_text *out)
{
    bool lazy =
        d->kind == TG_IR_K_SELECT || (d->kind == TG_IR_K_BINARY && (d->op == TG_IR_AND || d->op == TG_IR_OR));
    if (lazy && ((height_of(l, d->b) | height_of(l, d->c)) & TG_LOWER_IMPURE)) {
        branch(l, d, out);
    } else if (d->kind == TG_IR_K_SELECT) {
        inline_select(l, d->a, d->b, false, d->c, "", out);
    } else if (d->kind == TG_IR_K_UNARY) {
        call(l, unary[d->op], d->a, 0, out);
    } else if (d->op == TG_IR_AND) {
        inline_select(l, d->a, d->b, true, 0, "0u", out);
    } else if (d->op == TG_IR_OR) {
        inline_select(l, d->a, 0, true, d->b, "1u", out);
    } else {
        call(l, helper[d->op], d->a, d->b, out);
    }
}

void tg_lower_expr(struct tg_lower *l, uint32_t id, struct tg_text *out)
{
    const struct tg_ir_data *d = tg_ir_at(l->ir, id);
    switch (d->kind) {
    case TG_IR_K_U32:
        tg_text_printf(out, d->value > 0xFFFFu ? "0x%08Xu" : "%uu", d->value);
        return;
    case TG_IR_K_VAR:
        tg_lower_name(l, d->name, true, out);
        return;
    case TG_IR_K_LOAD:
        load(l, d, out);
        return;
    case TG_IR_K_LENGTH:
        if (l->ir->buffer[d->buffer].words)
            tg_text_printf(out, "%uu", l->ir->buffer[d->buffer].words);
        else
            tg_text_printf(out, "k->count[%u]", d->buffer);
        return;
    case TG_IR_K_PLACE:
        tg_text_put(out, place[d->op]);
        return;
    default:
        break;
    }
    if (!too_high(l, id, d)) {
        compound(l, d, out);
        return;
    }
    struct tg_text value = {0};
    compound(l, d, &value);
    name_value(l, &value, out);
}
