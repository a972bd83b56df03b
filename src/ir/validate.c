/* SPDX-License-Identifier: Apache-2.0
 *
 * Is this a program? Every handle, name, place and bound is checked before anything runs or lowers it. What
 * it lets through has no cycle, is small enough to walk, uses no variable before it is made, names no buffer
 * it may not, and ends, but for a forever at the outermost level (E6: a user's body reaches observable words
 * only).
 *
 * It allocates nothing and recurses at most TG_IR_MAX_DEPTH deep. */
#include <errno.h>

#include "ir/node.h"

#define TABLE 4096u /* slots of the variables' hash table */
#define NOBODY 0xFFFFu

struct variable {
    uint32_t name;
    uint32_t call; /* which call it belongs to: those of others are not seen */
    bool constant;
    uint16_t at; /* place in the table */
};

struct walk {
    const struct tg_ir *ir;
    struct tg_ir_error *error;
    uint32_t visited;
    uint32_t depth;
    bool unrestricted;
    bool user;      /* within a user's body */
    bool inner;     /* within something but blocks */
    bool in_loop;   /* within a loop of this call */
    uint32_t call;  /* number of the innermost call; 0: none */
    uint32_t calls; /* how many so far, at most TG_IR_MAX_WEIGHT: a number is never used again */
    uint32_t count; /* of variables */
    uint32_t path[TG_IR_MAX_DEPTH + 2];
    struct variable variable[TG_IR_MAX_VARIABLES];
    uint16_t table[TABLE];
};

static int statement(struct walk *w, uint32_t parent, uint32_t id, uint64_t *work);

#define REFUSE(w, code, ...) tg_ir_refuse((w)->ir, (w)->error, code, (w)->path, (w)->depth, __VA_ARGS__)

/* ---- Variables ---- */

static uint32_t place_of(const struct walk *w, uint32_t name)
{
    uint32_t at = (name * 2654435761u ^ w->call * 40503u) % TABLE;
    while (w->table[at] != NOBODY) {
        const struct variable *v = &w->variable[w->table[at]];
        if (v->name == name && v->call == w->call)
            break;
        at = (at + 1) % TABLE;
    }
    return at;
}

static const struct variable *seen(const struct walk *w, uint32_t name)
{
    uint32_t at = place_of(w, name);
    return w->table[at] == NOBODY ? NULL : &w->variable[w->table[at]];
}

static int define(struct walk *w, uint32_t name, bool constant)
{
    uint32_t at = place_of(w, name);
    if (w->table[at] != NOBODY)
        return REFUSE(w, -EEXIST, "variable %s is visible already", tg_ir_text(w->ir, name));
    if (w->count >= TG_IR_MAX_VARIABLES)
        return REFUSE(w, -E2BIG, "more than %u variables", TG_IR_MAX_VARIABLES);
    w->table[at] = (uint16_t)w->count;
    w->variable[w->count++] = (struct variable){name, w->call, constant, (uint16_t)at};
    return 0;
}

/* Last in, first out: whoever was put after them in the table is gone. */
static void forget(struct walk *w, uint32_t count)
{
    while (w->count > count)
        w->table[w->variable[--w->count].at] = NOBODY;
}

/* ---- Nodes ---- */

static uint64_t plus(uint64_t a, uint64_t b)
{
    return a + b < a ? UINT64_MAX : a + b;
}

static uint64_t times(uint64_t a, uint64_t b)
{
    return b != 0 && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

static int names(struct walk *w, const struct tg_ir_data *d)
{
    const char *of =
        tg_ir_text(w->ir, d->flags & (TG_IR_F_NAME_LONG | TG_IR_F_NAME_BAD) ? d->name : d->name2);
    if (d->flags & (TG_IR_F_NAME_LONG | TG_IR_F_NAME2_LONG))
        return REFUSE(w, -ENAMETOOLONG, "a name that begins with %.32s has more than %u bytes", of,
                      TG_IR_MAX_NAME);
    if (d->flags & (TG_IR_F_NAME_BAD | TG_IR_F_NAME2_BAD))
        return REFUSE(w, -EINVAL, "\"%.63s\" is no name: a letter or _, then letters, digits and _", of);
    if (d->flags & TG_IR_F_LIST_LONG || (d->kind == TG_IR_K_CALL && d->value > TG_IR_MAX_PARAMS))
        return REFUSE(w, -E2BIG, "more than %u parameters", TG_IR_MAX_PARAMS);
    return 0;
}

static bool is_name(const struct walk *w, uint32_t name)
{
    const char *text = tg_ir_text(w->ir, name);
    return tg_ir_is_name(text, strnlen(text, TG_IR_MAX_NAME + 1));
}

static bool is_label_or_none(const struct walk *w, uint32_t name)
{
    const char *text = tg_ir_text(w->ir, name);
    return name == 0 || tg_ir_is_label(text, strnlen(text, TG_IR_MAX_NAME + 1));
}

/* What builders see to by themselves: names and lists lie in the arena. Its memory is the caller's. */
static bool whole(const struct walk *w, const struct tg_ir_data *d)
{
    switch (d->kind) {
    case TG_IR_K_VAR:
    case TG_IR_K_LET:
    case TG_IR_K_ASSIGN:
    case TG_IR_K_LOOP:
        return is_name(w, d->name);
    case TG_IR_K_ATOMIC:
        return (d->name == 0 || is_name(w, d->name)) && is_name(w, d->name2);
    case TG_IR_K_LOAD:
    case TG_IR_K_LENGTH:
    case TG_IR_K_STORE:
        return is_name(w, d->name2);
    case TG_IR_K_BLOCK:
        return is_label_or_none(w, d->name) && tg_ir_list_sound(w->ir, d->list, d->value);
    case TG_IR_K_CALL:
        if (!is_name(w, d->name) || !is_label_or_none(w, d->name2) ||
            !tg_ir_list_sound(w->ir, d->list, 2 * (uint64_t)d->value))
            return false;
        for (uint32_t i = 0; i < d->value; i++)
            if (!is_name(w, tg_ir_list(w->ir, d)[2 * i]))
                return false;
        return true;
    default:
        return true;
    }
}

/* Comes to a node: sound, older than its parent, not too deep, not too many. */
static int enter(struct walk *w, uint32_t parent, uint32_t id, bool expression, const struct tg_ir_data **ret)
{
    if (!tg_ir_sound(w->ir, id) || (parent != 0 && id >= parent))
        return REFUSE(w, -EINVAL, "%s is missing or belongs to another arena",
                      expression ? "an expression" : "a statement");
    const struct tg_ir_data *d = tg_ir_at(w->ir, id);
    w->path[w->depth++] = id;
    if (tg_ir_is_expr(d->kind) != expression)
        return REFUSE(w, -EINVAL,
                      expression ? "a statement where a value is wanted"
                                 : "a value where a statement is wanted");
    if (w->depth > TG_IR_MAX_DEPTH)
        return REFUSE(w, -ELOOP, "nested deeper than %u", TG_IR_MAX_DEPTH);
    if (++w->visited > TG_IR_MAX_WEIGHT)
        return REFUSE(w, -E2BIG, "more than %u nodes", TG_IR_MAX_WEIGHT);
    *ret = d;
    int r = names(w, d);
    if (r == 0 && !whole(w, d))
        r = REFUSE(w, -EINVAL, "the node is damaged: a name or a list that is not in the arena");
    return r;
}

/* May this body name the buffer, and do that to it? */
static int buffer(struct walk *w, const struct tg_ir_data *d, bool write, bool atomic)
{
    const char *name = tg_ir_text(w->ir, d->name2);
    if (d->buffer >= w->ir->buffer_count || w->ir->buffer[d->buffer].name != d->name2)
        return REFUSE(w, -ENOENT, "buffer %s is not declared", name);
    uint32_t words = w->ir->buffer[d->buffer].words;
    if (write && d->buffer == TG_IR_DFA)
        return REFUSE(w, -EINVAL, "buffer dfa is read only");
    if (atomic && words != 0)
        return REFUSE(w, -EINVAL, "buffer %s is private: atomics are for shared ones", name);
    if (!w->user)
        return 0;
    bool open =
        d->buffer == TG_IR_OBSERVABLE || d->buffer == TG_IR_DFA || d->buffer >= TG_IR_FIRST_USER_BUFFER;
    if ((!open && !w->unrestricted) || strncmp(name, "worker_", 7) == 0)
        return REFUSE(w, -EACCES, "the body of a user's opcode may not name buffer %s", name);
    return 0;
}

static int expression(struct walk *w, uint32_t parent, uint32_t id, uint64_t *work)
{
    const struct tg_ir_data *d = NULL;
    int r = enter(w, parent, id, true, &d);
    if (r != 0)
        return r;
    *work = plus(*work, 1);
    uint32_t operands = 0;
    switch (d->kind) {
    case TG_IR_K_U32:
        break;
    case TG_IR_K_PLACE:
        if (d->op >= TG_IR_PLACE_COUNT)
            r = REFUSE(w, -EINVAL, "place %u is none", d->op);
        break;
    case TG_IR_K_VAR:
        if (!seen(w, d->name))
            r = REFUSE(w, -ENOENT, "variable %s is not visible here", tg_ir_text(w->ir, d->name));
        break;
    case TG_IR_K_LOAD:
        r = buffer(w, d, false, false);
        operands = 1;
        break;
    case TG_IR_K_LENGTH:
        r = buffer(w, d, false, false);
        break;
    case TG_IR_K_UNARY:
        if (d->op >= TG_IR_UNARY_COUNT)
            r = REFUSE(w, -EINVAL, "operator %u is none", d->op);
        operands = 1;
        break;
    case TG_IR_K_BINARY:
        if (d->op >= TG_IR_OP_COUNT)
            r = REFUSE(w, -EINVAL, "operator %u is none", d->op);
        operands = 2;
        break;
    default:
        operands = 3;
        break;
    }
    const uint32_t operand[3] = {d->a, d->b, d->c};
    for (uint32_t i = 0; r == 0 && i < operands; i++)
        r = expression(w, id, operand[i], work);
    if (r == 0)
        w->depth--;
    return r;
}

/* A branch, a loop's or a call's body: what it makes is gone at its end. */
static int scope(struct walk *w, uint32_t parent, uint32_t id, uint64_t *work)
{
    uint32_t count = w->count;
    bool inner = w->inner;
    w->inner = true;
    int r = statement(w, parent, id, work);
    w->inner = inner;
    forget(w, count);
    return r;
}

static int loop(struct walk *w, uint32_t id, const struct tg_ir_data *d, uint64_t *work)
{
    uint32_t count = w->count;
    uint64_t turn = 1;
    int r;
    if (d->value > TG_IR_MAX_TRIPS)
        return REFUSE(w, -E2BIG, "a loop of up to %u turns: at most %u", d->value, TG_IR_MAX_TRIPS);
    if ((r = expression(w, id, d->a, work)) != 0 || (r = expression(w, id, d->b, work)) != 0 ||
        (r = define(w, d->name, true)) != 0)
        return r;
    bool in_loop = w->in_loop;
    w->in_loop = true;
    r = scope(w, id, d->c, &turn);
    w->in_loop = in_loop;
    forget(w, count);
    if (r != 0)
        return r;
    *work = plus(*work, times(turn, d->value));
    if (*work > TG_IR_MAX_WORK)
        return REFUSE(w, -E2BIG, "loops within loops: more than 2^63 nodes would run");
    return 0;
}

static int forever(struct walk *w, uint32_t id, const struct tg_ir_data *d, uint64_t *work)
{
    if (w->inner)
        return REFUSE(w, -EINVAL, "forever is legal at the outermost level only");
    w->in_loop = true;
    int r = scope(w, id, d->a, work);
    w->in_loop = false;
    return r;
}

static int atomic(struct walk *w, uint32_t id, const struct tg_ir_data *d, uint64_t *work)
{
    static const uint8_t operands[TG_IR_A_COUNT] = {1, 2, 2, 2, 3, 2, 2};
    if (d->op >= TG_IR_A_COUNT)
        return REFUSE(w, -EINVAL, "atomic %u is none", d->op);
    bool load = d->op == TG_IR_A_LOAD;
    if (d->order >= TG_IR_ORDER_COUNT || (load && d->order > TG_IR_ACQUIRE) ||
        (d->op == TG_IR_A_STORE && d->order != TG_IR_RELAXED && d->order != TG_IR_RELEASE))
        return REFUSE(w, -EINVAL, "order %s is none of an %s",
                      d->order < TG_IR_ORDER_COUNT ? tg_ir_order_names[d->order] : "unknown",
                      tg_ir_atomic_names[d->op]);
    if (load && d->name == 0)
        return REFUSE(w, -EINVAL, "an atomic_load needs a result");
    if (d->op == TG_IR_A_STORE && d->name != 0)
        return REFUSE(w, -EINVAL, "an atomic_store has no result");
    int r = buffer(w, d, !load, true);
    const uint32_t operand[3] = {d->a, d->b, d->c};
    for (uint32_t i = 0; r == 0 && i < operands[d->op]; i++)
        r = expression(w, id, operand[i], work);
    return r == 0 && d->name != 0 ? define(w, d->name, false) : r;
}

static int call(struct walk *w, uint32_t id, const struct tg_ir_data *d, uint64_t *work)
{
    const uint32_t *pair = tg_ir_list(w->ir, d);
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < d->value; i++)
        r = expression(w, id, pair[2 * i + 1], work);
    if (r != 0)
        return r;
    uint32_t count = w->count;
    uint32_t outer = w->call;
    bool in_loop = w->in_loop, user = w->user;
    w->call = ++w->calls;
    w->in_loop = false;
    w->user = user || (d->flags & TG_IR_F_USER) != 0;
    for (uint32_t i = 0; r == 0 && i < d->value; i++)
        r = define(w, pair[2 * i], true);
    if (r == 0)
        r = scope(w, id, d->a, work);
    forget(w, count);
    w->call = outer;
    w->in_loop = in_loop;
    w->user = user;
    return r == 0 ? define(w, d->name, false) : r;
}

static int block(struct walk *w, uint32_t id, const struct tg_ir_data *d, uint64_t *work)
{
    const uint32_t *child = tg_ir_list(w->ir, d);
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < d->value; i++)
        r = statement(w, id, child[i], work);
    return r;
}

static int assign(struct walk *w, uint32_t id, const struct tg_ir_data *d, uint64_t *work)
{
    const struct variable *v = seen(w, d->name);
    if (!v)
        return REFUSE(w, -ENOENT, "variable %s is not visible here", tg_ir_text(w->ir, d->name));
    if (v->constant)
        return REFUSE(w, -EINVAL, "%s is constant: a parameter or a loop's counter",
                      tg_ir_text(w->ir, d->name));
    return expression(w, id, d->a, work);
}

static int statement(struct walk *w, uint32_t parent, uint32_t id, uint64_t *work)
{
    const struct tg_ir_data *d = NULL;
    int r = enter(w, parent, id, false, &d);
    if (r != 0)
        return r;
    *work = plus(*work, 1);
    switch (d->kind) {
    case TG_IR_K_LET:
        r = expression(w, id, d->a, work);
        if (r == 0)
            r = define(w, d->name, false);
        break;
    case TG_IR_K_ASSIGN:
        r = assign(w, id, d, work);
        break;
    case TG_IR_K_STORE:
        r = buffer(w, d, true, false);
        if (r == 0 && (r = expression(w, id, d->a, work)) == 0)
            r = expression(w, id, d->b, work);
        break;
    case TG_IR_K_ATOMIC:
        r = atomic(w, id, d, work);
        break;
    case TG_IR_K_IF:
        if ((r = expression(w, id, d->a, work)) == 0 && (r = scope(w, id, d->b, work)) == 0 && d->c != 0)
            r = scope(w, id, d->c, work);
        break;
    case TG_IR_K_LOOP:
        r = loop(w, id, d, work);
        break;
    case TG_IR_K_FOREVER:
        r = forever(w, id, d, work);
        break;
    case TG_IR_K_BREAK:
        if (!w->in_loop)
            r = REFUSE(w, -EINVAL, "break outside of a loop");
        break;
    case TG_IR_K_RETURN:
        r = expression(w, id, d->a, work);
        break;
    case TG_IR_K_CALL:
        r = call(w, id, d, work);
        break;
    case TG_IR_K_BLOCK:
        r = block(w, id, d, work);
        break;
    case TG_IR_K_REFUSED:
        r = REFUSE(w, -EINVAL, "%s", tg_ir_text(w->ir, d->name));
        break;
    default:
        break;
    }
    if (r == 0)
        w->depth--;
    return r;
}

/* The parents of what did not fit were never made: the last node that was is the nearest there is. */
static int full(const struct tg_ir *ir, struct tg_ir_error *error)
{
    const uint32_t last = ir->node_end - 1;
    return tg_ir_refuse(ir, error, -ENOSPC, &last, last == 0 ? 0 : 1,
                        "the arena of %u bytes is full after %u nodes: no room for %s", ir->bytes, last,
                        ir->full <= TG_IR_K_COUNT ? "another node" : "a name or a list");
}

static int check(const struct tg_ir *ir, struct tg_ir_node root, uint32_t flags, bool user,
                 struct tg_ir_error *error)
{
    struct walk w = {.ir = ir, .error = error, .user = user, .inner = user};
    uint64_t work = 0;
    int r = 0;
    if (ir->full)
        return full(ir, error);
    if (flags & ~(uint32_t)TG_IR_UNRESTRICTED)
        return tg_ir_refuse(ir, error, -EINVAL, NULL, 0, "unknown flags 0x%x", flags);
    w.unrestricted = (flags & TG_IR_UNRESTRICTED) != 0;
    memset(w.table, 0xFF, sizeof(w.table));
    for (uint32_t i = 0; user && r == 0 && i < TG_IR_USER_PARAMS; i++) {
        /* A parameter that no node names needs no entry. */
        uint32_t name = tg_ir_lookup(ir, tg_ir_body_params[i], strlen(tg_ir_body_params[i]));
        if (name != 0)
            r = define(&w, name, true);
    }
    if (r == 0)
        r = statement(&w, 0, root.id, &work);
    if (r == 0 && error)
        memset(error, 0, sizeof(*error));
    return r;
}

int tg_ir_validate(const struct tg_ir *ir, struct tg_ir_node root, uint32_t flags, struct tg_ir_error *error)
{
    return check(ir, root, flags, false, error);
}

int tg_ir_validate_body(const struct tg_ir *ir, struct tg_ir_node body, uint32_t flags,
                        struct tg_ir_error *error)
{
    return check(ir, body, flags, true, error);
}
