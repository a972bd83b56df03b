/* SPDX-License-Identifier: Apache-2.0
 *
 * Lowering of a checked program: statements to C, calls to functions, and the entry points around them. It
 * trusts the validator for everything that makes a program legal, and runs it first.
 *
 * How the two sides agree
 *   - A call sees its parameters only, so it is a function of its own; a fault in it is a return. A body that
 * is called from several places is written once.
 *   - A variable lives to the end of the innermost branch, loop or call, which are the braces of C. Blocks
 * are not borders, and leave no braces.
 *   - Every variable has a number in front of its name, so no name of the author is a word of the language.
 */
#include "ir/lower.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAULT_OUT_OF_BOUNDS (TG_IR_FAULT | 2u) /* TG_FAULT_OUT_OF_BOUNDS of engine.h */

static void statement(struct tg_lower *l, uint32_t id);

void tg_lower_line(struct tg_lower *l, const char *format, ...)
{
    char line[256];
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(line, sizeof(line), format, ap);
    va_end(ap);
    tg_text_put(l->body, "\n");
    for (uint32_t i = 0; i < l->indent && i < 24; i++)
        tg_text_put(l->body, "    ");
    if (n < 0 || (size_t)n >= sizeof(line))
        l->body->error = l->body->error ? l->body->error : -EFBIG;
    else
        tg_text_add(l->body, line, (size_t)n);
}

/* ---- Variables ---------------------------------------------------------------------------------------- */

static uint32_t *bound_of(struct tg_lower *l, uint32_t name)
{
    return &l->bound[(name - l->ir->text_start) / 4];
}

void tg_lower_name(struct tg_lower *l, uint32_t name, bool read, struct tg_text *out)
{
    uint32_t at = *bound_of(l, name);
    if (at == 0) { /* the validator would have refused it */
        out->error = out->error ? out->error : -EINVAL;
        return;
    }
    struct tg_lower_var *v = &l->vars[at - 1];
    v->reads += read;
    tg_text_printf(out, "v%u_%.63s", v->number, tg_ir_text(l->ir, name));
}

/* A new variable that is visible from now on. */
static void declare(struct tg_lower *l, uint32_t name)
{
    if (l->var_count == l->var_room) {
        uint32_t room = l->var_room ? l->var_room * 2 : 64;
        struct tg_lower_var *vars = realloc(l->vars, room * sizeof(*vars));
        if (!vars) {
            l->body->error = l->body->error ? l->body->error : -ENOMEM;
            return;
        }
        l->vars = vars;
        l->var_room = room;
    }
    uint32_t *bound = bound_of(l, name);
    l->vars[l->var_count] =
        (struct tg_lower_var){.name = name, .number = ++l->numbers, .reads = 0, .covered = *bound};
    *bound = ++l->var_count;
}

/* Ends the scope that began with so many variables. */
static void leave(struct tg_lower *l, uint32_t count)
{
    while (l->var_count > count) {
        struct tg_lower_var *v = &l->vars[l->var_count - 1];
        if (v->reads == 0)
            tg_lower_line(l, "(void)v%u_%.63s;", v->number, tg_ir_text(l->ir, v->name));
        *bound_of(l, v->name) = v->covered;
        l->var_count--;
    }
}

/* ---- Statements --------------------------------------------------------------------------------------- */

/* Who compiles a unit into another kernel hears of each observable word that was written: TG_WROTE. */
static void note(struct tg_lower *l, uint32_t buffer, const struct tg_text *index)
{
    if (!l->within || buffer != TG_IR_OBSERVABLE)
        return;
    tg_lower_line(l, "TG_WROTE(k, ");
    tg_text_join(l->body, index);
    tg_text_put(l->body, ");");
}

/* "HEAD value;" where value is the expression; what it needs comes in lines before. */
static void with_value(struct tg_lower *l, const char *head, uint32_t id, const char *tail)
{
    struct tg_text value = {0};
    tg_lower_expr(l, id, &value);
    tg_lower_line(l, "%s", head);
    tg_text_join(l->body, &value);
    tg_text_put(l->body, tail);
    tg_text_free(&value);
}

/* The declaration of a variable whose value text is there. */
static void let_text(struct tg_lower *l, uint32_t name, const struct tg_text *value)
{
    uint32_t before = l->var_count;
    declare(l, name);
    if (l->var_count == before)
        return;
    tg_lower_line(l, "u32 v%u_%.63s = ", l->vars[before].number, tg_ir_text(l->ir, name));
    tg_text_join(l->body, value);
    tg_text_put(l->body, ";");
}

static void let(struct tg_lower *l, const struct tg_ir_data *d)
{
    struct tg_text value = {0};
    tg_lower_expr(l, d->a, &value);
    let_text(l, d->name, &value);
    tg_text_free(&value);
}

static void assign(struct tg_lower *l, const struct tg_ir_data *d)
{
    struct tg_text name = {0}, value = {0};
    tg_lower_expr(l, d->a, &value);
    tg_lower_name(l, d->name, false, &name);
    /* A variable given to itself is a warning; a sum with 0 is none. */
    bool plain = tg_ir_at(l->ir, d->a)->kind == TG_IR_K_VAR;
    tg_lower_line(l, "%s", "");
    tg_text_join(l->body, &name);
    tg_text_put(l->body, " = ");
    tg_text_join(l->body, &value);
    tg_text_put(l->body, plain ? " + 0u;" : ";");
    tg_text_free(&name);
    tg_text_free(&value);
}

static void store(struct tg_lower *l, const struct tg_ir_data *d)
{
    struct tg_text index = {0}, value = {0}, word = {0};
    tg_lower_operand(l, d->a, &index);
    tg_lower_expr(l, d->b, &value);
    tg_lower_word(l, d->buffer, index.bytes ? index.bytes : "", &word);
    bool plain = tg_lower_is_plain(l, d->buffer);
    tg_lower_line(l, "%s", plain ? "*(" : "tg_store_relaxed(");
    tg_text_join(l->body, &word);
    tg_text_put(l->body, plain ? ") = " : ", ");
    tg_text_join(l->body, &value);
    tg_text_put(l->body, plain ? ";" : ");");
    note(l, d->buffer, &index);
    tg_text_join(l->body, &(struct tg_text){.error = index.error});
    tg_text_free(&index);
    tg_text_free(&value);
    tg_text_free(&word);
}

static void atomic(struct tg_lower *l, const struct tg_ir_data *d)
{
    static const char *const verb[TG_IR_A_COUNT] = {"load", "store", "add", "exchange", "cas", "and", "or"};
    /* By the operator, not by what is there: a handle that it does not use was not looked at before. */
    static const uint8_t operands[TG_IR_A_COUNT] = {1, 2, 2, 2, 3, 2, 2};
    const bool has_one = operands[d->op] > 1, has_two = operands[d->op] > 2;
    struct tg_text index = {0}, one = {0}, two = {0}, word = {0}, step = {0};
    tg_lower_operand(l, d->a, &index);
    if (has_one)
        tg_lower_operand(l, d->b, &one);
    if (has_two)
        tg_lower_operand(l, d->c, &two);
    tg_lower_word(l, d->buffer, index.bytes ? index.bytes : "", &word);
    tg_text_printf(&step, "tg_%s_%s(", verb[d->op], tg_ir_order_names[d->order]);
    tg_text_join(&step, &word);
    if (has_one) {
        tg_text_put(&step, ", ");
        tg_text_join(&step, &one);
    }
    if (has_two) {
        tg_text_put(&step, ", ");
        tg_text_join(&step, &two);
    }
    tg_text_put(&step, ")");
    if (d->name) {
        let_text(l, d->name, &step);
    } else {
        tg_lower_line(l, "%s", d->op == TG_IR_A_STORE ? "" : "(void)");
        tg_text_join(l->body, &step);
        tg_text_put(l->body, ";");
    }
    if (d->op != TG_IR_A_LOAD)
        note(l, d->buffer, &index);
    tg_text_join(l->body, &(struct tg_text){.error = index.error});
    tg_text_free(&index);
    tg_text_free(&one);
    tg_text_free(&two);
    tg_text_free(&word);
    tg_text_free(&step);
}

/* A statement with a scope of its own, between braces that the caller writes. */
static void scoped(struct tg_lower *l, uint32_t id)
{
    uint32_t count = l->var_count;
    l->indent++;
    statement(l, id);
    leave(l, count);
    l->indent--;
}

static void branch(struct tg_lower *l, const struct tg_ir_data *d)
{
    with_value(l, "if (tg_true(", d->a, ")) {");
    scoped(l, d->b);
    if (d->c) {
        tg_lower_line(l, "} else {");
        scoped(l, d->c);
    }
    tg_lower_line(l, "}");
}

static void loop(struct tg_lower *l, const struct tg_ir_data *d)
{
    struct tg_text from = {0}, to = {0};
    uint32_t count = l->var_count;
    tg_lower_operand(l, d->a, &from);
    tg_lower_expr(l, d->b, &to);
    uint32_t number = ++l->numbers;
    tg_lower_line(l, "const u32 t%u = ", number);
    tg_text_join(l->body, &to);
    tg_text_put(l->body, ";");
    tg_lower_line(l, "if (tg_too_often(");
    tg_text_join(l->body, &from);
    tg_text_printf(l->body, ", t%u, %uu))", number, d->value);
    tg_lower_line(l, "    return TG_OUT_OF_BOUNDS;");
    declare(l, d->name);
    if (l->var_count > count) {
        struct tg_lower_var *v = &l->vars[count];
        v->reads = 1; /* the condition reads it */
        const char *name = tg_ir_text(l->ir, d->name);
        tg_lower_line(l, "for (u32 v%u_%.63s = ", v->number, name);
        tg_text_join(l->body, &from);
        tg_text_printf(l->body, "; v%u_%.63s < t%u; v%u_%.63s++) {", v->number, name, number, v->number,
                       name);
        scoped(l, d->c);
        tg_lower_line(l, "}");
    }
    leave(l, count);
    tg_text_free(&from);
    tg_text_free(&to);
}

/* ---- Calls -------------------------------------------------------------------------------------------- */

static void comment(struct tg_lower *l, uint32_t label)
{
    /* A label holds no slash, so it cannot end the comment. */
    if (label)
        tg_lower_line(l, "/* %.63s */", tg_ir_text(l->ir, label));
}

/* Writes a function around body: parameters are pairs of (name, expression). */
static void function(struct tg_lower *l, uint32_t number, uint32_t label, const uint32_t *pairs,
                     uint32_t params, uint32_t body)
{
    struct tg_text text = {0}, *outer = l->body;
    uint32_t count = l->var_count, indent = l->indent;
    l->body = &text;
    l->indent = 0;
    tg_lower_line(l, "%s", "");
    comment(l, label);
    tg_lower_line(l, "TG_PART u32 f%u(const struct tg_kernel_env *k", number);
    for (uint32_t i = 0; i < params; i++) {
        declare(l, pairs[2 * i]);
        tg_text_printf(&text, ", u32 v%u_%.63s", l->numbers, tg_ir_text(l->ir, pairs[2 * i]));
    }
    tg_text_put(&text, ")");
    tg_lower_line(l, "{");
    l->indent = 1;
    tg_lower_line(l, "(void)k;");
    statement(l, body);
    leave(l, count);
    tg_lower_line(l, "return 0u;");
    l->indent = 0;
    tg_lower_line(l, "}");
    tg_text_join(&l->functions, &text);
    tg_text_free(&text);
    l->body = outer;
    l->indent = indent;
}

/* Do two calls give their parameters the same names in the same order? */
static bool same_names(const struct tg_ir *ir, const struct tg_ir_data *a, const struct tg_ir_data *b)
{
    for (uint32_t i = 0; a->value == b->value && i < a->value; i++)
        if (tg_ir_list(ir, a)[2 * i] != tg_ir_list(ir, b)[2 * i])
            return false;
    return a->value == b->value;
}

/* The number of the function of a call. */
static uint32_t function_of(struct tg_lower *l, uint32_t id, const struct tg_ir_data *d)
{
    struct tg_lower_call *first = &l->call[d->a];
    if (first->node && same_names(l->ir, tg_ir_at(l->ir, first->node), d))
        return first->number;
    uint32_t number = ++l->numbers;
    function(l, number, d->name2, d->value ? tg_ir_list(l->ir, d) : NULL, d->value, d->a);
    if (!first->node)
        *first = (struct tg_lower_call){id, number};
    return number;
}

static void call(struct tg_lower *l, uint32_t id, const struct tg_ir_data *d)
{
    const uint32_t *pairs = d->value ? tg_ir_list(l->ir, d) : NULL;
    struct tg_text step = {0};
    tg_text_printf(&step, "f%u(k", function_of(l, id, d));
    for (uint32_t i = 0; i < d->value; i++) {
        tg_text_put(&step, ", ");
        tg_lower_expr(l, pairs[2 * i + 1], &step);
    }
    tg_text_put(&step, ")");
    let_text(l, d->name, &step);
    tg_text_free(&step);
}

static void statement(struct tg_lower *l, uint32_t id)
{
    const struct tg_ir_data *d = tg_ir_at(l->ir, id);
    switch (d->kind) {
    case TG_IR_K_LET:
        let(l, d);
        return;
    case TG_IR_K_ASSIGN:
        assign(l, d);
        return;
    case TG_IR_K_STORE:
        store(l, d);
        return;
    case TG_IR_K_ATOMIC:
        atomic(l, d);
        return;
    case TG_IR_K_IF:
        branch(l, d);
        return;
    case TG_IR_K_LOOP:
        loop(l, d);
        return;
    case TG_IR_K_FOREVER:
        tg_lower_line(l, "for (;;) {");
        scoped(l, d->a);
        tg_lower_line(l, "}");
        return;
    case TG_IR_K_BREAK:
        tg_lower_line(l, "break;");
        return;
    case TG_IR_K_BLOCK:
        comment(l, d->name);
        for (uint32_t i = 0; i < d->value; i++)
            statement(l, tg_ir_list(l->ir, d)[i]);
        return;
    case TG_IR_K_RETURN:
        with_value(l, "return ", d->a, ";");
        return;
    case TG_IR_K_PAUSE:
        tg_lower_line(l, "tg_pause(k);");
        return;
    case TG_IR_K_CALL:
        call(l, id, d);
        return;
    default:
        l->body->error = l->body->error ? l->body->error : -EINVAL;
    }
}

/* ---- The unit ----------------------------------------------------------------------------------------- */

/* A program to be entered from outside. */
struct entry {
    uint32_t number;   /* of its function; 0: none */
    uint32_t privates; /* words of private memory it needs */
};

static struct entry entry_function(struct tg_lower *l, uint32_t root)
{
    uint32_t number = ++l->numbers;
    l->private_top = 0;
    memset(l->call, 0, l->ir->node_end * sizeof(*l->call)); /* so that private_top sees what calls touch */
    function(l, number, 0, NULL, 0, root);
    return (struct entry){number, l->private_top};
}

static void call_c(struct tg_text *t, const char *name, struct entry e, bool bind)
{
    tg_text_printf(t, "u32 %s(const struct tg_kernel_env *env)\n{\n", name);
    if (!bind && !e.privates) {
        tg_text_printf(t, "    return f%u(env);\n}\n", e.number);
        return;
    }
    tg_text_printf(t,
                   "    u32 words[%u] = {0};\n"
                   "    struct tg_kernel_env k = *env;\n"
                   "    k.private_words = words;\n",
                   e.privates ? e.privates : 1);
    tg_text_printf(t, "%s    return f%u(&k);\n}\n", bind ? "    tg_bind(&k);\n" : "", e.number);
}

static void entry_c(struct tg_lower *l, struct tg_text *t, struct entry lane, struct entry item)
{
    tg_text_put(t, "\n\n/* ---- Entry points (tidegate/lower.h) ---- */\n\n"
                   "extern const u32 tg_kernel_abi[4];\n"
                   "u32 tg_kernel_lane(const struct tg_kernel_env *env);\n");
    if (item.number)
        tg_text_put(t, "u32 tg_kernel_item(const struct tg_kernel_env *env);\n");
    uint32_t shared = 0;
    for (uint32_t i = 0; i < l->ir->buffer_count; i++)
        shared |= (l->ir->buffer[i].words == 0 ? 1u : 0u) << i;
    tg_text_printf(t,
                   "\nconst u32 tg_kernel_abi[4] = {TG_KERNEL_ABI, (u32)sizeof(struct tg_kernel_env), %uu,"
                   " 0x%Xu};\n",
                   lane.privates, shared);
    tg_text_put(t, "\n");
    call_c(t, "tg_kernel_lane", lane, true);
    if (item.number) {
        tg_text_put(t, "\n");
        call_c(t, "tg_kernel_item", item, false);
    }
}

static void entry_cuda(struct tg_text *t, struct entry lane, struct entry item)
{
    tg_text_put(t, "\n\n/* ---- The entry point (tidegate/lower.h) ---- */\n");
    if (item.number) {
        tg_text_put(t, "\nTG_PART ");
        call_c(t, "tg_kernel_item", item, false);
        return;
    }
    tg_text_printf(t,
                   "\nextern \"C\" __global__ void tg_kernel(struct tg_kernel_env k, u32 *values)\n{\n"
                   "    u32 words[%u] = {0};\n"
                   "    k.lane = threadIdx.x;\n"
                   "    k.lanes = blockDim.x;\n"
                   "    k.group = blockIdx.x;\n"
                   "    k.groups = gridDim.x;\n"
                   "    k.private_words = words;\n"
                   "    tg_bind(&k);\n"
                   "    u32 value = f%u(&k);\n"
                   "    if (values)\n"
                   "        values[k.group * k.lanes + k.lane] = value;\n}\n",
                   lane.privates ? lane.privates : 1, lane.number);
}

static void head(struct tg_lower *l, struct tg_text *t)
{
    tg_text_printf(t,
                   "/* A kernel of the resident work queue, written by tidegate %s as %s.\n"
                   " * One self-contained unit; <tidegate/lower.h> says how it is called.\n",
                   TG_VERSION, l->language == TG_IR_CUDA_C ? "CUDA C" : "C11");
    for (uint32_t i = 0; i < l->ir->buffer_count; i++) {
        const struct tg_ir_buffer_row *row = &l->ir->buffer[i];
        if (row->words)
            tg_text_printf(t, " * Private buffer %s: %u words at %u.\n", tg_ir_text(l->ir, row->name),
                           row->words, l->private_at[i]);
        else
            tg_text_printf(t, " * Buffer %u: %s.\n", i, tg_ir_text(l->ir, row->name));
    }
    tg_text_put(t, " */\n");
    tg_lower_prelude(t, l->language);
    tg_text_printf(t, "#define TG_OUT_OF_BOUNDS 0x%08Xu\n", FAULT_OUT_OF_BOUNDS);
    tg_text_put(t, "\n/* ---- The program ---- */\n");
}

static int write_unit(struct tg_lower *l, uint32_t root, uint32_t item, struct tg_text *t)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < l->ir->buffer_count; i++) {
        l->private_at[i] = at;
        at += l->ir->buffer[i].words;
    }
    tg_lower_heights(l);
    struct entry none = {0};
    struct entry lane = root ? entry_function(l, root) : none;
    struct entry called = item ? entry_function(l, item) : none;
    head(l, t);
    tg_text_join(t, &l->functions);
    if (l->language == TG_IR_CUDA_C)
        entry_cuda(t, lane, called);
    else
        entry_c(l, t, lane, called);
    return t->error;
}

static int lower(struct tg_lower *l, uint32_t root, uint32_t item, struct tg_text *t)
{
    const struct tg_ir *ir = l->ir;
    l->height = calloc(ir->node_end, 1);
    l->call = calloc(ir->node_end, sizeof(*l->call));
    l->bound = calloc((ir->bytes - ir->text_start) / 4 + 1, sizeof(*l->bound));
    int r = l->height && l->call && l->bound ? write_unit(l, root, item, t) : -ENOMEM;
    free(l->height);
    free(l->call);
    free(l->bound);
    free(l->vars);
    tg_text_free(&l->functions);
    return r;
}

static int refuse(struct tg_ir_error *error, int code, const char *text)
{
    if (error) {
        *error = (struct tg_ir_error){.code = code};
        snprintf(error->text, sizeof(error->text), "%s", text);
    }
    return code;
}

int tg_ir_lower(const struct tg_ir *ir, struct tg_ir_node root, const struct tg_ir_lower_options *options,
                char **ret_text, size_t *ret_bytes, struct tg_ir_error *error)
{
    const struct tg_ir_lower_options none = {.language = TG_IR_C11};
    const struct tg_ir_lower_options *o = options ? options : &none;
    if (o->language > TG_IR_CUDA_C)
        return refuse(error, -EINVAL, "there is no such language: C11 is 0 and CUDA C is 1");
    bool within = o->item.id && o->language == TG_IR_CUDA_C;
    if (within && root.id)
        return refuse(error, -EINVAL, "a unit of CUDA C has a loop or an item program, not both");
    int r = within ? 0 : tg_ir_validate(ir, root, o->flags, error);
    if (!r && o->item.id)
        r = tg_ir_validate(ir, o->item, o->flags, error);
    if (r)
        return r;
    struct tg_lower l = {.ir = ir, .language = o->language, .plain = o->plain, .within = within};
    struct tg_text t = {0};
    r = lower(&l, root.id, o->item.id, &t);
    if (r) {
        tg_text_free(&t);
        return refuse(error, r,
                      r == -EFBIG ? "the text would be larger than 64 MB" : "no memory for the text");
    }
    *ret_text = t.bytes;
    *ret_bytes = t.length;
    return 0;
}
