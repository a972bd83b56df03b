/* SPDX-License-Identifier: Apache-2.0
 *
 * From a validated tree to register code. One pass; calls are put in line; a variable is a register of its
 * own while its scope lasts. Registers of a loop's turn or a call are cleared when it is over, so that states
 * that differ in nothing that is still visible are equal. */
#include <errno.h>
#include <stdlib.h>

#include "ir/machine.h"

#define FIXED 0x80000000u /* operand: a place or constant, numbered from the end of the registers */
#define NOWHERE 0xFFFFFFFFu

struct assembler {
    struct tg_ir_machine *m;
    const struct tg_ir *ir;
    uint32_t used; /* registers in use */
    struct {
        uint32_t name, at;
    } variable[TG_IR_MAX_VARIABLES];
    uint32_t variables, base; /* base: first variable of the innermost call */
    /* Jumps that wait for their target are chained through their c. */
    uint32_t breaks;  /* of the innermost loop */
    uint32_t returns; /* of the innermost call */
    uint32_t traps;   /* codes that fault, chained through trap */
    uint32_t result;  /* register of the innermost call's value, NOWHERE outside of any */
    bool failed;
};

static uint32_t expression(struct assembler *s, uint32_t id, uint32_t into);
static void statement(struct assembler *s, uint32_t id);

/* ---- Output ---- */

static uint32_t emit(struct assembler *s, struct tg_ir_code code)
{
    struct tg_ir_machine *m = s->m;
    if (m->code_count == m->code_room) {
        uint32_t room = m->code_room ? m->code_room * 2 : 256;
        struct tg_ir_code *more = realloc(m->code, room * sizeof(*more));
        if (!more) {
            s->failed = true;
            return 0;
        }
        m->code = more;
        m->code_room = room;
    }
    code.trap = NOWHERE;
    m->code[m->code_count] = code;
    return m->code_count++;
}

static uint32_t here(const struct assembler *s)
{
    return s->m->code_count;
}

static void aim(struct assembler *s, uint32_t at, uint32_t target)
{
    if (!s->failed)
        s->m->code[at].c = target;
}

/* A jump whose target is not known: c is the one before it in the chain. */
static void chain(struct assembler *s, uint32_t *head)
{
    uint32_t at = emit(s, (struct tg_ir_code){.op = TG_IR_C_JUMP, .c = *head});
    *head = at;
}

static void resolve(struct assembler *s, uint32_t head)
{
    while (!s->failed && head != NOWHERE) {
        uint32_t next = s->m->code[head].c;
        s->m->code[head].c = here(s);
        head = next;
    }
}

/* The code emitted last may fault. */
static void may_fault(struct assembler *s)
{
    if (s->failed)
        return;
    s->m->code[here(s) - 1].trap = s->traps;
    s->traps = here(s) - 1;
}

static void resolve_traps(struct assembler *s)
{
    while (!s->failed && s->traps != NOWHERE) {
        uint32_t next = s->m->code[s->traps].trap;
        s->m->code[s->traps].trap = here(s);
        s->traps = next;
    }
}

static uint32_t constant(struct assembler *s, uint32_t value)
{
    struct tg_ir_machine *m = s->m;
    uint32_t first = m->constant_count > 256 ? m->constant_count - 256 : 0;
    for (uint32_t i = first; i < m->constant_count; i++)
        if (m->constant[i] == value)
            return FIXED | (TG_IR_PLACE_COUNT + i);
    if (m->constant_count == m->constant_room) {
        uint32_t room = m->constant_room ? m->constant_room * 2 : 64;
        uint32_t *more = realloc(m->constant, room * sizeof(*more));
        if (!more) {
            s->failed = true;
            return FIXED;
        }
        m->constant = more;
        m->constant_room = room;
    }
    m->constant[m->constant_count] = value;
    return FIXED | (TG_IR_PLACE_COUNT + m->constant_count++);
}

static uint32_t fresh(struct assembler *s)
{
    uint32_t at = s->used++;
    if (s->used > s->m->registers)
        s->m->registers = s->used;
    return at;
}

/* ---- Variables ---- */

static uint32_t find(const struct assembler *s, uint32_t name)
{
    for (uint32_t i = s->variables; i-- > s->base;)
        if (s->variable[i].name == name)
            return s->variable[i].at;
    return 0; /* not in a valid program */
}

static void name_register(struct assembler *s, uint32_t name, uint32_t at)
{
    s->variable[s->variables].name = name;
    s->variable[s->variables++].at = at;
}

/* A scope as it was before. */
static void leave_scope(struct assembler *s, uint32_t variables, uint32_t used)
{
    s->variables = variables;
    s->used = used;
}

/* The same, and whatever was used within is zero: all registers that anybody used so far from there on. */
static void leave_clear(struct assembler *s, uint32_t variables, uint32_t used)
{
    if (s->m->registers > used)
        emit(s, (struct tg_ir_code){.op = TG_IR_C_CLEAR, .d = used, .c = s->m->registers - used});
    leave_scope(s, variables, used);
}

/* ---- Expressions ---- */

static uint32_t length_of(const struct assembler *s, uint32_t buffer)
{
    return s->m->private_of[buffer] ? s->m->private_of[buffer] : s->m->memory.count[buffer];
}

static void load(struct assembler *s, uint32_t id, const struct tg_ir_data *d, uint32_t index, uint32_t into)
{
    uint32_t own = s->m->private_of[d->buffer], at = s->m->private_at[d->buffer];
    if (own)
        emit(s, (struct tg_ir_code){.op = TG_IR_C_OWN_LOAD, .d = into, .a = index, .b = own, .c = at});
    else
        emit(s,
             (struct tg_ir_code){.op = TG_IR_C_LOAD, .buffer = d->buffer, .d = into, .a = index, .node = id});
    may_fault(s);
}

/* and, or: the right side only when it matters; select: one of two. */
static void lazy(struct assembler *s, const struct tg_ir_data *d, uint32_t into)
{
    uint32_t used = s->used;
    uint32_t left = expression(s, d->a, NOWHERE);
    uint32_t skip = emit(s, (struct tg_ir_code){.op = TG_IR_C_JUMP_ZERO, .a = left});
    uint32_t end;
    s->used = used;
    if (d->kind == TG_IR_K_SELECT) {
        expression(s, d->b, into);
        end = emit(s, (struct tg_ir_code){.op = TG_IR_C_JUMP});
        aim(s, skip, here(s));
        expression(s, d->c, into);
    } else {
        bool is_and = d->op == TG_IR_AND;
        uint32_t zero = constant(s, 0);
        if (is_and)
            emit(s, (struct tg_ir_code){
                        .op = TG_IR_NE, .d = into, .a = expression(s, d->b, NOWHERE), .b = zero});
        else
            emit(s, (struct tg_ir_code){.op = TG_IR_C_MOVE, .d = into, .a = constant(s, 1)});
        end = emit(s, (struct tg_ir_code){.op = TG_IR_C_JUMP});
        aim(s, skip, here(s));
        if (is_and)
            emit(s, (struct tg_ir_code){.op = TG_IR_C_MOVE, .d = into, .a = zero});
        else
            emit(s, (struct tg_ir_code){
                        .op = TG_IR_NE, .d = into, .a = expression(s, d->b, NOWHERE), .b = zero});
    }
    aim(s, end, here(s));
    s->used = used;
}

/* The operand that holds the value: into when it is given, else a constant, a variable or a new register,
 * which the caller gives back with used. */
static uint32_t expression(struct assembler *s, uint32_t id, uint32_t into)
{
    const struct tg_ir_data *d = tg_ir_at(s->ir, id);
    uint32_t plain = NOWHERE;
    if (d->kind == TG_IR_K_U32)
        plain = constant(s, d->value);
    else if (d->kind == TG_IR_K_VAR)
        plain = find(s, d->name);
    else if (d->kind == TG_IR_K_LENGTH)
        plain = constant(s, length_of(s, d->buffer));
    else if (d->kind == TG_IR_K_PLACE)
        plain = FIXED | d->op;
    if (plain != NOWHERE) {
        if (into != NOWHERE)
            emit(s, (struct tg_ir_code){.op = TG_IR_C_MOVE, .d = into, .a = plain});
        return into != NOWHERE ? into : plain;
    }
    if (into == NOWHERE)
        into = fresh(s);
    if (d->kind == TG_IR_K_SELECT ||
        (d->kind == TG_IR_K_BINARY && (d->op == TG_IR_AND || d->op == TG_IR_OR))) {
        /* into may be the variable that the operands read: only the last code of each way writes it. */
        lazy(s, d, into);
        return into;
    }
    uint32_t used = s->used;
    uint32_t a = expression(s, d->a, NOWHERE);
    if (d->kind == TG_IR_K_LOAD)
        load(s, id, d, a, into);
    else if (d->kind == TG_IR_K_UNARY)
        emit(s, (struct tg_ir_code){.op = (uint8_t)(TG_IR_C_NOT + d->op), .d = into, .a = a});
    else
        emit(s, (struct tg_ir_code){.op = d->op, .d = into, .a = a, .b = expression(s, d->b, NOWHERE)});
    s->used = used;
    return into;
}

/* ---- Statements ---- */

static void let(struct assembler *s, const struct tg_ir_data *d)
{
    uint32_t at = fresh(s);
    expression(s, d->a, at);
    name_register(s, d->name, at);
}

static void store(struct assembler *s, uint32_t id, const struct tg_ir_data *d)
{
    uint32_t used = s->used;
    uint32_t own = s->m->private_of[d->buffer];
    uint32_t index = expression(s, d->a, NOWHERE);
    uint32_t value = expression(s, d->b, NOWHERE);
    if (own)
        emit(
            s,
            (struct tg_ir_code){
                .op = TG_IR_C_OWN_STORE, .d = value, .a = index, .b = own, .c = s->m->private_at[d->buffer]});
    else
        emit(s, (struct tg_ir_code){
                    .op = TG_IR_C_STORE, .buffer = d->buffer, .a = index, .b = value, .node = id});
    may_fault(s);
    s->used = used;
}

static void atomic(struct assembler *s, uint32_t id, const struct tg_ir_data *d)
{
    static const uint8_t ops[TG_IR_A_COUNT] = {TG_IR_C_LOAD, TG_IR_C_STORE, TG_IR_C_ADD, TG_IR_C_EXCHANGE,
                                               TG_IR_C_CAS,  TG_IR_C_AND,   TG_IR_C_OR};
    uint32_t result = fresh(s);
    uint32_t used = s->used;
    struct tg_ir_code c = {.op = ops[d->op],
                           .buffer = d->buffer,
                           .blind = d->op == TG_IR_A_ADD && d->name == 0,
                           .order = d->order,
                           .d = result,
                           .node = id};
    c.a = expression(s, d->a, NOWHERE);
    if (d->op != TG_IR_A_LOAD)
        c.b = expression(s, d->b, NOWHERE);
    if (d->op == TG_IR_A_CAS)
        c.c = expression(s, d->c, NOWHERE);
    emit(s, c);
    may_fault(s);
    s->used = used;
    if (d->name != 0)
        name_register(s, d->name, result);
    else
        s->used = result;
}

static void branch(struct assembler *s, uint32_t id)
{
    uint32_t variables = s->variables, used = s->used;
    statement(s, id);
    leave_scope(s, variables, used);
}

static void conditional(struct assembler *s, const struct tg_ir_data *d)
{
    uint32_t used = s->used;
    uint32_t c = expression(s, d->a, NOWHERE);
    uint32_t skip = emit(s, (struct tg_ir_code){.op = TG_IR_C_JUMP_ZERO, .a = c});
    s->used = used;
    branch(s, d->b);
    if (d->c == 0) {
        aim(s, skip, here(s));
        return;
    }
    uint32_t end = emit(s, (struct tg_ir_code){.op = TG_IR_C_JUMP});
    aim(s, skip, here(s));
    branch(s, d->c);
    aim(s, end, here(s));
}

static void loop(struct assembler *s, const struct tg_ir_data *d)
{
    uint32_t variables = s->variables, used = s->used, breaks = s->breaks;
    uint32_t counter = fresh(s), end = fresh(s);
    expression(s, d->a, counter);
    expression(s, d->b, end);
    uint32_t enter =
        emit(s, (struct tg_ir_code){.op = TG_IR_C_LOOP, .d = counter, .a = end, .b = constant(s, d->value)});
    may_fault(s);
    name_register(s, d->name, counter);
    uint32_t turn = here(s), inner = s->used, inner_variables = s->variables;
    s->breaks = NOWHERE;
    statement(s, d->c);
    leave_clear(s, inner_variables, inner);
    emit(s, (struct tg_ir_code){.op = TG_IR_C_NEXT, .d = counter, .a = end, .c = turn});
    resolve(s, s->breaks);
    aim(s, enter, here(s));
    s->breaks = breaks;
    leave_clear(s, variables, used); /* a break comes from within the turn */
}

static void forever(struct assembler *s, const struct tg_ir_data *d)
{
    uint32_t variables = s->variables, used = s->used, breaks = s->breaks;
    uint32_t turn = here(s);
    s->breaks = NOWHERE;
    statement(s, d->a);
    leave_clear(s, variables, used);
    emit(s, (struct tg_ir_code){.op = TG_IR_C_JUMP, .c = turn});
    resolve(s, s->breaks);
    s->breaks = breaks;
}

static void call(struct assembler *s, const struct tg_ir_data *d)
{
    const uint32_t *pair = tg_ir_list(s->ir, d);
    uint32_t result = fresh(s);
    uint32_t used = s->used, variables = s->variables, base = s->base;
    uint32_t breaks = s->breaks, returns = s->returns, traps = s->traps, outer = s->result;
    uint32_t param[TG_IR_MAX_PARAMS];
    for (uint32_t i = 0; i < d->value; i++) {
        param[i] = fresh(s);
        expression(s, pair[2 * i + 1], param[i]);
    }
    traps = s->traps; /* a parameter's fault is the surroundings' */
    s->base = s->variables;
    s->breaks = s->returns = s->traps = NOWHERE;
    s->result = result;
    for (uint32_t i = 0; i < d->value; i++)
        name_register(s, pair[2 * i], param[i]);
    statement(s, d->a);
    emit(s, (struct tg_ir_code){.op = TG_IR_C_MOVE, .d = result, .a = constant(s, 0)});
    uint32_t end = emit(s, (struct tg_ir_code){.op = TG_IR_C_JUMP});
    if (s->traps != NOWHERE) {
        resolve_traps(s);
        emit(s, (struct tg_ir_code){
                    .op = TG_IR_C_MOVE, .d = result, .a = constant(s, TG_IR_FAULT | TG_FAULT_OUT_OF_BOUNDS)});
    }
    aim(s, end, here(s));
    resolve(s, s->returns);
    s->base = base;
    s->breaks = breaks;
    s->returns = returns;
    s->traps = traps;
    s->result = outer;
    leave_clear(s, variables, used);
    name_register(s, d->name, result);
}

static void give(struct assembler *s, const struct tg_ir_data *d)
{
    uint32_t used = s->used;
    if (s->result == NOWHERE) {
        uint32_t value = expression(s, d->a, NOWHERE);
        emit(s, (struct tg_ir_code){.op = TG_IR_C_END, .a = value});
    } else {
        expression(s, d->a, s->result);
        chain(s, &s->returns);
    }
    s->used = used;
}

static void statement(struct assembler *s, uint32_t id)
{
    const struct tg_ir_data *d = tg_ir_at(s->ir, id);
    uint32_t used = s->used;
    switch (d->kind) {
    case TG_IR_K_LET:
        let(s, d);
        break;
    case TG_IR_K_ASSIGN:
        expression(s, d->a, find(s, d->name));
        s->used = used;
        break;
    case TG_IR_K_STORE:
        store(s, id, d);
        break;
    case TG_IR_K_ATOMIC:
        atomic(s, id, d);
        break;
    case TG_IR_K_IF:
        conditional(s, d);
        break;
    case TG_IR_K_LOOP:
        loop(s, d);
        break;
    case TG_IR_K_FOREVER:
        forever(s, d);
        break;
    case TG_IR_K_BREAK:
        chain(s, &s->breaks);
        break;
    case TG_IR_K_BLOCK:
        for (uint32_t i = 0; i < d->value && !s->failed; i++)
            statement(s, tg_ir_list(s->ir, d)[i]);
        break;
    case TG_IR_K_RETURN:
        give(s, d);
        break;
    case TG_IR_K_CALL:
        call(s, d);
        break;
    default:
        emit(s, (struct tg_ir_code){.op = TG_IR_C_PAUSE});
        break;
    }
}

/* Places and constants come behind the registers, whose number is known now. */
static void relocate(struct tg_ir_machine *m)
{
    for (uint32_t i = 0; i < m->code_count; i++) {
        uint32_t *operand[] = {&m->code[i].a, &m->code[i].b, &m->code[i].c, &m->code[i].d};
        for (int k = 0; k < 4; k++)
            if (*operand[k] & FIXED)
                *operand[k] = m->registers + (*operand[k] & ~FIXED);
    }
}

int tg_ir_assemble(struct tg_ir_machine *m, const struct tg_ir *ir, uint32_t root)
{
    struct assembler *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    *s = (struct assembler){
        .m = m, .ir = ir, .breaks = NOWHERE, .returns = NOWHERE, .traps = NOWHERE, .result = NOWHERE};
    for (uint32_t i = 0; i < ir->buffer_count; i++) {
        m->private_of[i] = ir->buffer[i].words;
        m->private_at[i] = m->private_words;
        m->private_words += ir->buffer[i].words;
    }
    statement(s, root);
    emit(s, (struct tg_ir_code){.op = TG_IR_C_END, .a = constant(s, 0)});
    resolve_traps(s);
    emit(s, (struct tg_ir_code){.op = TG_IR_C_END, .a = constant(s, TG_IR_FAULT | TG_FAULT_OUT_OF_BOUNDS)});
    bool failed = s->failed;
    free(s);
    if (failed)
        return -ENOMEM;
    relocate(m);
    return 0;
}
