/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the text form of a program (tg_ir(3)). The text is input: every word is checked, nothing is skipped
 * but blanks and comments (; to the end of the line), and the depth is bounded. It builds with the public
 * builders and leaves the meaning to the validator. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "ir/node.h"

struct parse {
    struct tg_ir *ir;
    const char *at, *end;
    uint32_t line;
    struct tg_ir_error *error;
    int failed;
    uint32_t depth;
    const char *head[TG_IR_MAX_DEPTH + 4]; /* where each list that is open begins, after its parenthesis */
};

struct word {
    char text[TG_IR_MAX_NAME + 1];
};

static struct tg_ir_node statement(struct parse *p);

/* ---- Errors ---- */

static size_t word_size(const char *at, const char *end)
{
    size_t n = 0;
    while (at + n < end && at[n] > ' ' && at[n] <= '~' && !strchr("();\"", at[n]))
        n++;
    return n;
}

/* The first two words of every open list. */
static void write_path(const struct parse *p, char *out, size_t size)
{
    size_t have = 0;
    out[0] = 0;
    for (uint32_t i = 0; i < p->depth && have + 40 < size; i++) {
        size_t first = word_size(p->head[i], p->end);
        const char *next = p->head[i] + first;
        size_t second = next < p->end && *next == ' ' ? word_size(next + 1, p->end) : 0;
        have += (size_t)snprintf(out + have, size - have, "%s%.*s%s%.*s", i ? "/" : "",
                                 (int)(first < 15 ? first : 15), p->head[i], second ? " " : "",
                                 (int)(second < 20 ? second : 20), next + 1);
    }
}

static int fail(struct parse *p, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The first error counts. */
static int fail(struct parse *p, int code, const char *format, ...)
{
    if (p->failed)
        return p->failed;
    p->failed = code;
    if (p->error) {
        memset(p->error, 0, sizeof(*p->error));
        p->error->code = code;
        p->error->line = p->line;
        write_path(p, p->error->path, sizeof(p->error->path));
        va_list list;
        va_start(list, format);
        vsnprintf(p->error->text, sizeof(p->error->text), format, list);
        va_end(list);
    }
    return code;
}

/* ---- Words ---- */

static void skip(struct parse *p)
{
    while (p->at < p->end) {
        if (*p->at == ';') {
            while (p->at < p->end && *p->at != '\n')
                p->at++;
            continue;
        }
        if (*p->at != ' ' && *p->at != '\t' && *p->at != '\r' && *p->at != '\n')
            return;
        p->line += *p->at == '\n' ? 1 : 0;
        p->at++;
    }
}

/* Is c next? */
static bool next_is(struct parse *p, char c)
{
    skip(p);
    return !p->failed && p->at < p->end && *p->at == c;
}

static bool expect(struct parse *p, char c)
{
    skip(p);
    if (p->failed)
        return false;
    if (p->at == p->end) {
        fail(p, -EINVAL, "the text ends where %c is wanted", c);
        return false;
    }
    if (*p->at != c) {
        fail(p, -EINVAL, "%c is wanted, not %.*s", c, (int)(p->end - p->at < 20 ? p->end - p->at : 20),
             p->at);
        return false;
    }
    p->at++;
    return true;
}

static bool open_list(struct parse *p)
{
    if (!expect(p, '('))
        return false;
    if (p->depth >= TG_IR_MAX_DEPTH + 2) { /* the list of a parameter is no node */
        fail(p, -ELOOP, "nested deeper than %u", TG_IR_MAX_DEPTH);
        return false;
    }
    skip(p);
    p->head[p->depth++] = p->at;
    return true;
}

static bool close_list(struct parse *p)
{
    if (!expect(p, ')'))
        return false;
    p->depth--;
    return true;
}

static struct word read_word(struct parse *p, const char *what)
{
    struct word w = {""};
    skip(p);
    size_t n = p->failed ? 0 : word_size(p->at, p->end);
    if (p->failed)
        return w;
    if (n == 0) {
        fail(p, -EINVAL, p->at == p->end ? "the text ends where %s is wanted" : "%s is wanted here", what);
        return w;
    }
    if (n > TG_IR_MAX_NAME) {
        fail(p, -ENAMETOOLONG, "%.32s... has %zu bytes: at most %u", p->at, n, TG_IR_MAX_NAME);
        return w;
    }
    memcpy(w.text, p->at, n);
    p->at += n;
    return w;
}

static struct word read_name(struct parse *p, const char *what)
{
    struct word w = read_word(p, what);
    if (!p->failed && !tg_ir_is_name(w.text, strlen(w.text)))
        fail(p, -EINVAL, "%s is wanted: %s is no name", what, w.text);
    return w;
}

/* A name or label, or _ for none (then NULL). */
static const char *or_none(struct parse *p, struct word *w, bool label)
{
    *w = read_word(p, label ? "a label or _" : "a name or _");
    if (p->failed || strcmp(w->text, "_") == 0)
        return NULL;
    size_t n = strlen(w->text);
    if (label ? !tg_ir_is_label(w->text, n) : !tg_ir_is_name(w->text, n))
        fail(p, -EINVAL, "%s is no %s", w->text, label ? "label" : "name");
    return w->text;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Decimal, or hexadecimal after 0x; false when the word is not one of at most 32 bits. */
static bool to_number(const char *text, uint32_t *ret)
{
    uint64_t value = 0;
    bool hex = text[0] == '0' && text[1] == 'x';
    const char *at = hex ? text + 2 : text;
    if (*at == 0)
        return false;
    for (; *at; at++) {
        uint32_t digit;
        if (is_digit(*at))
            digit = (uint32_t)(*at - '0');
        else if (hex && *at >= 'a' && *at <= 'f')
            digit = (uint32_t)(*at - 'a') + 10;
        else if (hex && *at >= 'A' && *at <= 'F')
            digit = (uint32_t)(*at - 'A') + 10;
        else
            return false;
        value = value * (hex ? 16 : 10) + digit;
        if (value > UINT32_MAX)
            return false;
    }
    *ret = (uint32_t)value;
    return true;
}

static uint32_t read_number(struct parse *p, const char *what)
{
    struct word w = read_word(p, what);
    uint32_t value = 0;
    if (!p->failed && !to_number(w.text, &value))
        fail(p, -EINVAL, "%s is wanted: %s is no number of 32 bits", what, w.text);
    return value;
}

/* The place of a word in a table, or count. */
static uint32_t find(const char *word, const char *const *table, uint32_t count)
{
    uint32_t i = 0;
    while (i < count && strcmp(word, table[i]) != 0)
        i++;
    return i;
}

static void at_line(struct parse *p, uint32_t id, uint32_t line)
{
    if (id != 0)
        tg_ir_at(p->ir, id)->line = line;
    else if (p->ir->full)
        fail(p, -ENOSPC, "the arena of %u bytes is full", p->ir->bytes);
}

/* ---- Expressions ---- */

static struct tg_ir_expr expression(struct parse *p);

static struct tg_ir_expr atom(struct parse *p)
{
    struct word w = read_word(p, "a value");
    uint32_t value;
    if (p->failed)
        return (struct tg_ir_expr){0};
    if (to_number(w.text, &value))
        return tg_ir_u32(p->ir, value);
    if (!tg_ir_is_name(w.text, strlen(w.text))) {
        fail(p, -EINVAL, "%s is neither a number of 32 bits nor a name", w.text);
        return (struct tg_ir_expr){0};
    }
    return tg_ir_var(p->ir, w.text);
}

static struct tg_ir_expr list_expression(struct parse *p)
{
    struct tg_ir_expr none = {0};
    struct word w = read_word(p, "an operator");
    if (p->failed)
        return none;
    if (strcmp(w.text, "load") == 0) {
        struct word of = read_name(p, "a buffer");
        struct tg_ir_expr index = expression(p);
        return p->failed ? none : tg_ir_load(p->ir, of.text, index);
    }
    if (strcmp(w.text, "length") == 0) {
        struct word of = read_name(p, "a buffer");
        return p->failed ? none : tg_ir_length(p->ir, of.text);
    }
    if (strcmp(w.text, "select") == 0) {
        struct tg_ir_expr c = expression(p), yes = expression(p), no = expression(p);
        return p->failed ? none : tg_ir_select(p->ir, c, yes, no);
    }
    uint32_t i = find(w.text, tg_ir_op_names, TG_IR_OP_COUNT);
    if (i < TG_IR_OP_COUNT) {
        struct tg_ir_expr a = expression(p), b = expression(p);
        return p->failed ? none : tg_ir_binary(p->ir, (enum tg_ir_op)i, a, b);
    }
    i = find(w.text, tg_ir_unary_names, TG_IR_UNARY_COUNT);
    if (i < TG_IR_UNARY_COUNT) {
        struct tg_ir_expr a = expression(p);
        return p->failed ? none : tg_ir_unary(p->ir, (enum tg_ir_unary)i, a);
    }
    i = find(w.text, tg_ir_place_names, TG_IR_PLACE_COUNT);
    if (i < TG_IR_PLACE_COUNT)
        return tg_ir_place(p->ir, (enum tg_ir_place)i);
    fail(p, -EINVAL, "%s is no operator", w.text);
    return none;
}

static struct tg_ir_expr expression(struct parse *p)
{
    struct tg_ir_expr none = {0}, e;
    skip(p);
    uint32_t line = p->line;
    if (!next_is(p, '(')) {
        e = atom(p);
    } else {
        if (!open_list(p))
            return none;
        e = list_expression(p);
        if (p->failed || !close_list(p))
            return none;
    }
    if (!p->failed)
        at_line(p, e.id, line);
    return p->failed ? none : e;
}

/* ---- Statements ---- */

/* How many lists follow up to the end of this one; not exact for a malformed text, which fails later. */
static size_t count_lists(const struct parse *p)
{
    size_t count = 0, open = 0;
    for (const char *at = p->at; at < p->end; at++) {
        if (*at == ';')
            while (at + 1 < p->end && at[1] != '\n')
                at++;
        else if (*at == '(')
            count += open++ == 0 ? 1 : 0;
        else if (*at == ')' && open-- == 0)
            break;
    }
    return count;
}

/* Statements to the end of the list, as a block; a single one without a label as it is. */
static struct tg_ir_node rest(struct parse *p, const char *label, bool bare)
{
    struct tg_ir_node none = {0};
    skip(p);
    size_t count = count_lists(p);
    if (bare && count == 1)
        return statement(p);
    uint32_t list = count ? tg_ir_new_list(p->ir, count) : 0;
    if (count && list == 0)
        fail(p, -ENOSPC, "the arena of %u bytes is full", p->ir->bytes);
    size_t i = 0;
    for (; !p->failed && i < count && next_is(p, '('); i++) {
        struct tg_ir_node n = statement(p);
        memcpy(p->ir->memory + list + i * 4, &n.id, 4);
    }
    return p->failed ? none : tg_ir_block_of(p->ir, label, list, i);
}

static struct tg_ir_node atomic(struct parse *p, uint32_t op)
{
    static const uint8_t operands[TG_IR_A_COUNT] = {1, 2, 2, 2, 3, 2, 2};
    struct tg_ir_node none = {0};
    struct tg_ir_expr e[3] = {{0}, {0}, {0}};
    struct word w;
    const char *result = op == TG_IR_A_STORE ? NULL : or_none(p, &w, false);
    struct word of = read_name(p, "a buffer");
    for (uint32_t i = 0; !p->failed && i < operands[op]; i++)
        e[i] = expression(p);
    struct word order = read_word(p, "a memory order");
    uint32_t o = find(order.text, tg_ir_order_names, TG_IR_ORDER_COUNT);
    if (!p->failed && o == TG_IR_ORDER_COUNT)
        fail(p, -EINVAL, "%s is no memory order: relaxed, acquire, release or acq_rel", order.text);
    if (p->failed)
        return none;
    enum tg_ir_order as = (enum tg_ir_order)o;
    switch (op) {
    case TG_IR_A_LOAD:
        return tg_ir_atomic_load(p->ir, result, of.text, e[0], as);
    case TG_IR_A_STORE:
        return tg_ir_atomic_store(p->ir, of.text, e[0], e[1], as);
    case TG_IR_A_ADD:
        return tg_ir_atomic_add(p->ir, result, of.text, e[0], e[1], as);
    case TG_IR_A_EXCHANGE:
        return tg_ir_atomic_exchange(p->ir, result, of.text, e[0], e[1], as);
    case TG_IR_A_AND:
        return tg_ir_atomic_and(p->ir, result, of.text, e[0], e[1], as);
    case TG_IR_A_OR:
        return tg_ir_atomic_or(p->ir, result, of.text, e[0], e[1], as);
    default:
        return tg_ir_atomic_cas(p->ir, result, of.text, e[0], e[1], e[2], as);
    }
}

static struct tg_ir_node call(struct parse *p, bool user)
{
    struct tg_ir_node none = {0};
    struct tg_ir_param param[TG_IR_MAX_PARAMS];
    struct word name[TG_IR_MAX_PARAMS];
    struct word label;
    size_t count = 0;
    struct word result = read_name(p, "a name");
    const char *of = or_none(p, &label, true);
    if (p->failed || !expect(p, '('))
        return none;
    while (next_is(p, '(')) {
        if (count == TG_IR_MAX_PARAMS) {
            fail(p, -E2BIG, "more than %u parameters", TG_IR_MAX_PARAMS);
            return none;
        }
        if (!open_list(p))
            return none;
        name[count] = read_name(p, "a parameter");
        param[count].name = name[count].text;
        param[count].value = expression(p);
        count++;
        if (p->failed || !close_list(p))
            return none;
    }
    if (!expect(p, ')'))
        return none;
    struct tg_ir_node body = rest(p, NULL, true);
    if (p->failed)
        return none;
    struct tg_ir_node n = tg_ir_call(p->ir, result.text, of, param, count, body);
    if (user && n.id != 0)
        tg_ir_at(p->ir, n.id)->flags |= TG_IR_F_USER;
    return n;
}

static struct tg_ir_node loop(struct parse *p)
{
    struct word counter = read_name(p, "a name");
    struct tg_ir_expr from = expression(p), to = expression(p);
    uint32_t most = read_number(p, "the most turns");
    struct tg_ir_node body = rest(p, NULL, true);
    return p->failed ? body : tg_ir_loop(p->ir, counter.text, from, to, most, body);
}

static struct tg_ir_node conditional(struct parse *p)
{
    struct tg_ir_expr c = expression(p);
    struct tg_ir_node yes = statement(p), no = {0};
    if (next_is(p, '('))
        no = statement(p);
    return p->failed ? no : tg_ir_if(p->ir, c, yes, no);
}

static struct tg_ir_node simple(struct parse *p, const char *word)
{
    struct tg_ir_node none = {0};
    struct tg_ir *ir = p->ir;
    bool let = strcmp(word, "let") == 0;
    if (let || strcmp(word, "assign") == 0) {
        struct word name = read_name(p, "a variable");
        struct tg_ir_expr value = expression(p);
        return p->failed ? none : let ? tg_ir_let(ir, name.text, value) : tg_ir_assign(ir, name.text, value);
    }
    if (strcmp(word, "store") == 0) {
        struct word of = read_name(p, "a buffer");
        struct tg_ir_expr index = expression(p), value = expression(p);
        return p->failed ? none : tg_ir_store(ir, of.text, index, value);
    }
    bool fault = strcmp(word, "fault") == 0;
    if (fault || strcmp(word, "return") == 0) {
        struct tg_ir_expr value = expression(p);
        if (p->failed)
            return none;
        return tg_ir_return(ir, fault ? tg_ir_bit_or(ir, tg_ir_u32(ir, TG_IR_FAULT), value) : value);
    }
    if (strcmp(word, "break") == 0)
        return tg_ir_break(ir);
    if (strcmp(word, "pause") == 0)
        return tg_ir_pause(ir);
    uint32_t op = find(word, tg_ir_atomic_names, TG_IR_A_COUNT);
    if (op < TG_IR_A_COUNT)
        return atomic(p, op);
    fail(p, -EINVAL, "%s is no statement", word);
    return none;
}

static struct tg_ir_node statement(struct parse *p)
{
    struct tg_ir_node none = {0}, n;
    skip(p);
    uint32_t line = p->line;
    if (p->failed || !open_list(p))
        return none;
    struct word w = read_word(p, "a statement");
    if (p->failed)
        return none;
    if (strcmp(w.text, "block") == 0) {
        struct word label;
        const char *of = or_none(p, &label, true);
        n = p->failed ? none : rest(p, of, false);
    } else if (strcmp(w.text, "if") == 0) {
        n = conditional(p);
    } else if (strcmp(w.text, "loop") == 0) {
        n = loop(p);
    } else if (strcmp(w.text, "forever") == 0) {
        n = rest(p, NULL, true);
        n = p->failed ? none : tg_ir_forever(p->ir, n);
    } else if (strcmp(w.text, "call") == 0 || strcmp(w.text, "call_user") == 0) {
        n = call(p, w.text[4] != 0);
    } else {
        n = simple(p, w.text);
    }
    if (p->failed || !close_list(p))
        return none;
    at_line(p, n.id, line);
    return p->failed ? none : n;
}

/* ---- The whole ---- */

/* (buffer NAME WORDS): a second time the same is no error. */
static void declare(struct parse *p, bool user)
{
    struct word name = read_name(p, "a buffer");
    uint32_t words = read_number(p, "a number of words");
    if (p->failed)
        return;
    if (user && strncmp(name.text, "worker_", 7) == 0) {
        fail(p, -EACCES, "buffer %s: names that begin with worker_ are the kernel's", name.text);
        return;
    }
    int at = tg_ir_buffer_find(p->ir, name.text);
    if (at >= TG_IR_FIRST_USER_BUFFER && p->ir->buffer[at].words == words)
        return;
    if (tg_ir_buffer(p->ir, name.text, words) < 0)
        fail(p, -EINVAL,
             "buffer %s of %u words cannot be declared: a name that is taken, more than %u buffers, "
             "or more than %u private words",
             name.text, words, TG_IR_MAX_BUFFERS, TG_IR_MAX_PRIVATE_WORDS);
}

/* Is the next list one of this word? */
static bool list_of(struct parse *p, const char *word)
{
    if (!next_is(p, '('))
        return false;
    const char *at = p->at + 1;
    while (at < p->end && (*at == ' ' || *at == '\t'))
        at++;
    size_t n = word_size(at, p->end);
    return n == strlen(word) && memcmp(at, word, n) == 0;
}

static void buffers(struct parse *p, bool user)
{
    while (list_of(p, "buffer") && open_list(p)) {
        (void)read_word(p, "buffer");
        declare(p, user);
        if (p->failed || !close_list(p))
            return;
    }
}

static int finish(struct parse *p)
{
    skip(p);
    if (!p->failed && p->at != p->end)
        fail(p, -EINVAL, "one statement is wanted, and then the end of the text");
    if (!p->failed && p->error)
        memset(p->error, 0, sizeof(*p->error));
    return p->failed;
}

int tg_ir_parse(struct tg_ir *ir, const char *text, size_t bytes, struct tg_ir_node *ret_root,
                struct tg_ir_error *error)
{
    struct parse p = {.ir = ir, .at = text, .end = text + bytes, .line = 1, .error = error};
    buffers(&p, false);
    struct tg_ir_node root = statement(&p);
    int r = finish(&p);
    if (r == 0)
        *ret_root = root;
    return r;
}

int tg_ir_parse_opcode(struct tg_ir *ir, const char *text, size_t bytes, uint32_t flags,
                       struct tg_ir_opcode *ret_opcode, struct tg_ir_error *error)
{
    struct parse p = {.ir = ir, .at = text, .end = text + bytes, .line = 1, .error = error};
    struct tg_ir_opcode op = {0, {0}};
    buffers(&p, true);
    if (!p.failed && open_list(&p)) {
        struct word w = read_word(&p, "opcode");
        if (!p.failed && strcmp(w.text, "opcode") != 0)
            fail(&p, -EINVAL, "(opcode NUMBER STATEMENT...) is wanted, not %s", w.text);
        op.opcode = read_number(&p, "the opcode's number");
        if (!p.failed && !tg_ir_is_user_opcode(op.opcode))
            fail(&p, -EINVAL,
                 "opcode %u is reserved: a user's is 8 or more, below 2^31, and not in 65520..65535",
                 op.opcode);
        op.body = rest(&p, NULL, true);
        if (!p.failed)
            close_list(&p);
    }
    int r = finish(&p);
    if (r == 0)
        r = tg_ir_validate_body(ir, op.body, flags, error);
    if (r == 0)
        *ret_opcode = op;
    return r;
}
