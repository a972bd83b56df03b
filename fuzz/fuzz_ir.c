/* SPDX-License-Identifier: Apache-2.0
 *
 * Properties of the kernel IR over any bytes: whatever is built or parsed, the validator answers and names a
 * path; what it accepts prints, is read back as the same program, runs, and touches no word outside its
 * buffers, and is lowered; a kernel with any accepted body is accepted. Nothing is read or written outside
 * the arena.
 *
 * The first byte of an input says how the rest makes a program: as text, as words of the language, or as
 * calls of the builders with handles that may be wrong. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidegate/lower.h>

#include "input.h"

static uint32_t take_number(struct input *in)
{
    uint32_t b = take8(in);
    if (b < 250)
        return b % 40;
    return b << 24 | take8(in) << 16 | take8(in) << 8 | take8(in);
}

static const char *const words[] = {"x",
                                    "y",
                                    "a0",
                                    "a11",
                                    "slot",
                                    "ring",
                                    "control",
                                    "observable",
                                    "log",
                                    "dfa",
                                    "mine",
                                    "own",
                                    "nobody",
                                    "_",
                                    "0",
                                    "1",
                                    "4294967295",
                                    "0x10",
                                    "7",
                                    "let",
                                    "assign",
                                    "store",
                                    "load",
                                    "if",
                                    "loop",
                                    "forever",
                                    "block",
                                    "call",
                                    "call_user",
                                    "return",
                                    "fault",
                                    "break",
                                    "pause",
                                    "length",
                                    "select",
                                    "lane",
                                    "lanes",
                                    "add",
                                    "sub",
                                    "div",
                                    "rem",
                                    "shl",
                                    "and",
                                    "or",
                                    "not",
                                    "ctz",
                                    "relaxed",
                                    "acquire",
                                    "release",
                                    "acq_rel",
                                    "buffer",
                                    "opcode",
                                    "atomic_add",
                                    "atomic_cas",
                                    "atomic_load",
                                    "atomic_store",
                                    "atomic_exchange",
                                    "atomic_and",
                                    "atomic_or",
                                    ";",
                                    "\n",
                                    "\"",
                                    "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"};
#define WORDS (sizeof(words) / sizeof(words[0]))

static const char *take_name(struct input *in)
{
    uint32_t b = take8(in);
    return b == 255 ? NULL : b == 254 ? "9" : words[b % 20 % 13];
}

/* ---- Programs from builders ---- */

static struct tg_ir_expr expressions[256];
static struct tg_ir_node nodes[256];
static uint32_t expression_count, node_count;

static struct tg_ir_expr take_expression(struct input *in)
{
    uint32_t b = take8(in);
    if (b == 255)
        return (struct tg_ir_expr){take_number(in)};
    return expression_count ? expressions[expression_count - 1 - b % 8 % expression_count]
                            : (struct tg_ir_expr){0};
}

static struct tg_ir_node take_node(struct input *in)
{
    uint32_t b = take8(in);
    if (b == 255)
        return (struct tg_ir_node){take_number(in)};
    return node_count ? nodes[node_count - 1 - b % 8 % node_count] : (struct tg_ir_node){0};
}

static struct tg_ir_expr build_expression(struct tg_ir *ir, struct input *in)
{
    switch (take8(in) % 8) {
    case 0:
        return tg_ir_u32(ir, take_number(in));
    case 1:
        return tg_ir_var(ir, take_name(in));
    case 2:
        return tg_ir_load(ir, take_name(in), take_expression(in));
    case 3:
        return tg_ir_length(ir, take_name(in));
    case 4:
        return tg_ir_unary(ir, (enum tg_ir_unary)(take8(in) % 4), take_expression(in));
    case 5:
        return tg_ir_select(ir, take_expression(in), take_expression(in), take_expression(in));
    case 6:
        return tg_ir_place(ir, (enum tg_ir_place)(take8(in) % 5));
    default: {
        struct tg_ir_expr a = take_expression(in);
        return tg_ir_binary(ir, (enum tg_ir_op)(take8(in) % (TG_IR_OP_COUNT + 1)), a, take_expression(in));
    }
    }
}

static struct tg_ir_node build_atomic(struct tg_ir *ir, struct input *in)
{
    const char *result = take8(in) & 1 ? take_name(in) : NULL;
    const char *of = take_name(in);
    enum tg_ir_order order = (enum tg_ir_order)(take8(in) % 5);
    struct tg_ir_expr i = take_expression(in);
    switch (take8(in) % 7) {
    case 0:
        return tg_ir_atomic_load(ir, result, of, i, order);
    case 1:
        return tg_ir_atomic_store(ir, of, i, take_expression(in), order);
    case 2:
        return tg_ir_atomic_add(ir, result, of, i, take_expression(in), order);
    case 3:
        return tg_ir_atomic_exchange(ir, result, of, i, take_expression(in), order);
    case 4:
        return tg_ir_atomic_and(ir, result, of, i, take_expression(in), order);
    case 5:
        return tg_ir_atomic_or(ir, result, of, i, take_expression(in), order);
    default:
        return tg_ir_atomic_cas(ir, result, of, i, take_expression(in), take_expression(in), order);
    }
}

static struct tg_ir_node build_statement(struct tg_ir *ir, struct input *in)
{
    switch (take8(in) % 12) {
    case 0:
        return tg_ir_let(ir, take_name(in), take_expression(in));
    case 1:
        return tg_ir_assign(ir, take_name(in), take_expression(in));
    case 2:
        return tg_ir_store(ir, take_name(in), take_expression(in), take_expression(in));
    case 3:
        return build_atomic(ir, in);
    case 4:
        return tg_ir_if(ir, take_expression(in), take_node(in),
                        take8(in) & 1 ? take_node(in) : (struct tg_ir_node){0});
    case 5: {
        struct tg_ir_expr from = take_expression(in), to = take_expression(in);
        return tg_ir_loop(ir, take_name(in), from, to, take_number(in), take_node(in));
    }
    case 6:
        return tg_ir_forever(ir, take_node(in));
    case 7:
        return take8(in) & 1 ? tg_ir_break(ir) : tg_ir_pause(ir);
    case 8:
        return tg_ir_return(ir, take_expression(in));
    case 9: {
        struct tg_ir_param p[2] = {{take_name(in), take_expression(in)},
                                   {take_name(in), take_expression(in)}};
        return tg_ir_call(ir, take_name(in), take8(in) & 1 ? "f" : NULL, p, take8(in) % 3, take_node(in));
    }
    default: {
        struct tg_ir_node n[4];
        size_t count = take8(in) % 5;
        for (size_t i = 0; i < count; i++)
            n[i] = take_node(in);
        return tg_ir_block(ir, take8(in) & 1 ? "b" : take_name(in), n, count);
    }
    }
}

static struct tg_ir_node build(struct tg_ir *ir, struct input *in)
{
    expression_count = node_count = 0;
    while (in->left > 0) {
        if (take8(in) & 1 && expression_count < 256)
            expressions[expression_count++] = build_expression(ir, in);
        else if (node_count < 256)
            nodes[node_count++] = build_statement(ir, in);
        else
            break;
    }
    return node_count ? nodes[node_count - 1] : (struct tg_ir_node){0};
}

/* A program whose arena somebody wrote into: bytes of its nodes are other bytes. */
static void damage(const struct tg_ir *ir, unsigned char *memory, struct input *in)
{
    size_t nodes_end = (size_t)ir->node_end * 44;
    for (uint32_t n = take8(in) % 8; n > 0 && nodes_end > 88; n--) {
        size_t at = 44 + (take8(in) << 8 | take8(in)) % (nodes_end - 44);
        memory[at] = (unsigned char)take8(in);
    }
}

/* ---- Properties ---- */

/* Words before and after a buffer that nothing may change. */
enum {
    GUARD = 16,
    RING = 64,
    CONTROL = 176,
    LOG = 9,
    MINE = 4,
    ALL = RING + CONTROL + LOG + MINE + 5 * GUARD
};

static void runs(const struct tg_ir *ir, struct tg_ir_node root, uint32_t lanes)
{
    static uint32_t all[ALL];
    static const uint32_t size[] = {RING, CONTROL, LOG, MINE};
    static const uint32_t buffer[] = {TG_IR_RING, TG_IR_CONTROL, TG_IR_LOG, TG_IR_FIRST_USER_BUFFER};
    struct tg_ir_memory memory = {{NULL}, {0}};
    struct tg_ir_machine *m;
    uint32_t at = GUARD;
    memset(all, 0, sizeof(all));
    for (int i = 0; i < 4; i++) {
        for (uint32_t g = 0; g < GUARD; g++)
            all[at - GUARD + g] = 0xA5A5A5A5;
        memory.words[buffer[i]] = all + at;
        memory.count[buffer[i]] = size[i];
        at += size[i] + GUARD;
    }
    for (uint32_t g = 0; g < GUARD; g++)
        all[at - GUARD + g] = 0xA5A5A5A5;
    struct tg_ir_machine_options o = {.lanes = lanes, .memory = &memory};
    MUST(tg_ir_machine_open(ir, root, &o, &m) == 0);
    for (uint32_t n = 0; n < 600 && tg_ir_machine_steps(m) < 50000; n++)
        MUST(tg_ir_machine_step(m, n % lanes) >= 0);
    bool quick = tg_ir_machine_steps(m) < 5000;
    if (quick) {
        struct tg_ir_explored found;
        struct tg_ir_explore_options x = {.max_states = 60};
        int r = tg_ir_explore(m, &x, &found);
        MUST(r == 0 && found.states <= 61);
    }
    tg_ir_machine_close(m);
    at = GUARD;
    for (int i = 0; i < 5; i++) {
        for (uint32_t g = 0; g < GUARD; g++)
            MUST(all[at - GUARD + g] == 0xA5A5A5A5);
        at += (i < 4 ? size[i] : 0) + GUARD;
    }
}

/* What is accepted is lowered to both languages: printable text whose braces and comments close. */
static void lowers(const struct tg_ir *ir, struct tg_ir_node root)
{
    for (uint32_t language = TG_IR_C11; language <= TG_IR_CUDA_C; language++) {
        struct tg_ir_lower_options o = {.language = language, .flags = TG_IR_UNRESTRICTED};
        struct tg_ir_error error;
        char *c = NULL;
        size_t bytes = 0;
        int64_t braces = 0, comments = 0;
        int r = tg_ir_lower(ir, root, &o, &c, &bytes, &error);
        MUST(r == 0 || r == -EFBIG);
        for (size_t i = 0; r == 0 && i < bytes; i++) {
            MUST((c[i] >= ' ' && c[i] <= '~') || c[i] == '\n');
            bool opens = c[i] == '/' && c[i + 1] == '*', closes = c[i] == '*' && c[i + 1] == '/';
            comments += opens ? 1 : closes ? -1 : 0;
            MUST(comments == 0 || comments == 1);
            braces += comments ? 0 : c[i] == '{' ? 1 : c[i] == '}' ? -1 : 0;
        }
        MUST(r != 0 || (braces == 0 && comments == 0 && strlen(c) == bytes));
        free(c);
    }
}

static char text[1 << 16], again[1 << 16];

static void reads_back(const struct tg_ir *ir, struct tg_ir_node root)
{
    static uint64_t memory[1 << 14];
    struct tg_ir copy;
    struct tg_ir_error error;
    struct tg_ir_node back;
    size_t size = tg_ir_print(ir, root, text, sizeof(text));
    if (size >= sizeof(text))
        return;
    tg_ir_init(&copy, memory, sizeof(memory));
    int r = tg_ir_parse(&copy, text, size, &back, &error);
    MUST(r == 0 || r == -ENOSPC); /* a shared node is printed at each place */
    if (r != 0)
        return;
    MUST(tg_ir_print(&copy, back, again, sizeof(again)) == size && strcmp(text, again) == 0);
    MUST(tg_ir_validate(&copy, back, TG_IR_UNRESTRICTED, &error) == 0);
}

static void check(struct tg_ir *ir, struct tg_ir_node root, uint32_t lanes)
{
    struct tg_ir_error error;
    memset(&error, 0xEE, sizeof(error));
    int body = tg_ir_validate_body(ir, root, 0, NULL);
    int r = tg_ir_validate(ir, root, TG_IR_UNRESTRICTED, &error);
    MUST(r <= 0 && error.code == r && memchr(error.path, 0, sizeof(error.path)) &&
         memchr(error.text, 0, sizeof(error.text)) && (r == 0 || error.text[0] != 0));
    if (r == 0) {
        runs(ir, root, lanes);
        lowers(ir, root);
        reads_back(ir, root);
    }
    if (body == 0) {
        struct tg_ir_opcode op = {8, root};
        struct tg_ir_kernel k = {.slots = 4, .flags = TG_IR_UNTIL_IDLE, .opcodes = &op, .opcode_count = 1};
        r = tg_ir_validate(ir, tg_ir_kernel(ir, &k), 0, &error);
        MUST(r == 0 || r == -ENOSPC || r == -ELOOP || r == -E2BIG);
    }
}

static size_t words_of(struct input *in)
{
    size_t have = 0;
    text[0] = 0;
    while (in->left > 0 && have + 80 < sizeof(text)) {
        uint32_t b = take8(in);
        const char *word = b >= 192 ? (b & 1 ? "(" : ")") : words[b % WORDS];
        have += (size_t)snprintf(text + have, sizeof(text) - have, "%s ", word);
    }
    return have;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    uint32_t how = take8(&in);
    size_t bytes = how & 0x40 ? 64 + take8(&in) * 16 : 1 << 16;
    unsigned char *memory = malloc(bytes);
    struct tg_ir ir;
    struct tg_ir_error error;
    struct tg_ir_node root = {0};
    struct tg_ir_opcode op;
    MUST(memory);
    tg_ir_init(&ir, memory, bytes);
    (void)tg_ir_buffer(&ir, "mine", 0);
    (void)tg_ir_buffer(&ir, "own", 3);
    if (how % 3 == 0) {
        root = build(&ir, &in);
    } else if (how % 3 == 1) {
        size_t n = words_of(&in);
        char *exact = malloc(n ? n : 1);
        MUST(exact);
        memcpy(exact, text, n);
        if (tg_ir_parse(&ir, exact, n, &root, &error) != 0)
            root.id = 0;
        free(exact);
    } else if (tg_ir_parse(&ir, (const char *)in.data, in.left, &root, &error) != 0 &&
               tg_ir_parse_opcode(&ir, (const char *)in.data, in.left, 0, &op, &error) == 0) {
        root = op.body;
    }
    if (how & 0x20) {
        in = (struct input){data, size};
        damage(&ir, memory, &in);
        if (tg_ir_validate(&ir, root, TG_IR_UNRESTRICTED, &error) == 0) {
            runs(&ir, root, 1);
            lowers(&ir, root);
        }
    } else {
        check(&ir, root, 1 + how % 2);
    }
    free(memory);
    return 0;
}
