/* SPDX-License-Identifier: Apache-2.0
 * What the validator refuses, with which code and at which path; and that the parts of the worker are
 * programs. */
#include <tidegate/lower.h>

#include <errno.h>

#include "check.h"

static uint64_t memory[1 << 17];
static struct tg_ir ir;
static struct tg_ir_error error;

static void start(void)
{
    tg_ir_init(&ir, memory, sizeof(memory));
}

static struct tg_ir_node block(const char *label, struct tg_ir_node a, struct tg_ir_node b)
{
    return tg_ir_block(&ir, label, (const struct tg_ir_node[]){a, b}, 2);
}

/* Refused with this code, at a path that ends so. */
static void refused(struct tg_ir_node root, int code, const char *end)
{
    int r = tg_ir_validate(&ir, root, 0, &error);
    size_t have = strlen(error.path), want = strlen(end);
    if (r != code || have < want || strcmp(error.path + have - want, end) != 0 || error.text[0] == 0) {
        fprintf(stderr, "%d (wanted %d) at \"%s\" (wanted \"%s\"): %s\n", r, code, error.path, end,
                error.text);
        exit(1);
    }
    CHECK_EQ(error.code, code);
}

static void kernels_are_valid(void)
{
    for (uint32_t rounds = 0; rounds < 3; rounds++)
        for (uint32_t stride = 0; stride < 9; stride++) {
            start();
            struct tg_ir_opcode twice = {
                8, tg_ir_store(&ir, "observable", tg_ir_var(&ir, "a1"),
                               tg_ir_mul(&ir, tg_ir_var(&ir, "a0"), tg_ir_u32(&ir, 2)))};
            struct tg_ir_kernel k = {.slots = 64 + stride,
                                     .stride = stride,
                                     .rounds = rounds,
                                     .flags = rounds,
                                     .opcodes = &twice,
                                     .opcode_count = 1};
            struct tg_ir_node kernel = tg_ir_kernel(&ir, &k);
            int r = tg_ir_validate(&ir, kernel, 0, &error);
            if (r != 0)
                fprintf(stderr, "%d %s: %s\n", r, error.path, error.text);
            CHECK_EQ(r, 0);
            CHECK(tg_ir_used(&ir) < 256 * 1024);
        }
}

/* As many opcodes as can be: the choice among them is a tree, not a chain. */
static void many_opcodes(void)
{
    static struct tg_ir_opcode op[TG_IR_MAX_OPCODES + 1];
    start();
    for (uint32_t i = 0; i <= TG_IR_MAX_OPCODES; i++)
        op[i] = (struct tg_ir_opcode){8 + i * 9973,
                                      tg_ir_store(&ir, "observable", tg_ir_u32(&ir, 0), tg_ir_u32(&ir, i))};
    struct tg_ir_kernel k = {.slots = 5, .opcodes = op, .opcode_count = TG_IR_MAX_OPCODES};
    int r = tg_ir_validate(&ir, tg_ir_kernel(&ir, &k), 0, &error);
    if (r != 0)
        fprintf(stderr, "%d %s: %s\n", r, error.path, error.text);
    CHECK_EQ(r, 0);
    k.opcode_count++;
    CHECK_EQ(tg_ir_validate(&ir, tg_ir_kernel(&ir, &k), 0, &error), -EINVAL);
}

/* The labels that tg_ir(3) names, and what tg_ir_without makes of them. */
static void labels(void)
{
    static const char *const label[] = {"claim.won", "finish.status", "levels.choose",   "levels.advance",
                                        "authority", "claim.settle",  "authority.count", "fence.wait",
                                        "reach",     "refuse"};
    start();
    struct tg_ir_kernel k = {.slots = 5};
    struct tg_ir_node kernel = tg_ir_kernel(&ir, &k);
    for (int i = 0; i < 10; i++) {
        struct tg_ir_node without = tg_ir_without(&ir, kernel, label[i]);
        CHECK(without.id != 0 && without.id != kernel.id);
        CHECK_EQ(tg_ir_validate(&ir, without, 0, &error), 0);
        CHECK_EQ(tg_ir_validate(&ir, kernel, 0, &error), 0);
    }
    CHECK_EQ(tg_ir_without(&ir, kernel, "nobody").id, 0);
    CHECK_EQ(tg_ir_without(&ir, kernel, NULL).id, 0);
    CHECK_EQ(tg_ir_without(&ir, (struct tg_ir_node){0}, "refuse").id, 0);
}

/* The kernel's own buffers are private, whoever came first. */
static void taken_buffers(void)
{
    struct tg_ir_kernel k = {.slots = 5};
    start();
    CHECK(tg_ir_buffer(&ir, "worker_scan", 0) >= 0);
    refused(tg_ir_kernel(&ir, &k), -EINVAL, "refused");
    refused(tg_priority_scan_body(&ir, 5), -EINVAL, "refused");
    start();
    CHECK(tg_ir_buffer(&ir, "mine", TG_IR_MAX_PRIVATE_WORDS) >= 0);
    refused(tg_ir_kernel(&ir, &k), -EINVAL, "refused");
}

/* A body of depth 100 has room in a kernel. */
static void deep_body(void)
{
    start();
    struct tg_ir_expr e = tg_ir_u32(&ir, 1);
    for (int i = 0; i < 97; i++)
        e = tg_ir_add(&ir, e, tg_ir_u32(&ir, 1));
    struct tg_ir_opcode op = {8, tg_ir_store(&ir, "observable", tg_ir_u32(&ir, 0), e)};
    struct tg_ir_kernel k = {.slots = 5, .opcodes = &op, .opcode_count = 1};
    CHECK_EQ(tg_ir_validate(&ir, tg_ir_kernel(&ir, &k), 0, &error), 0);
}

static void kernels_options_are_checked(void)
{
    struct tg_ir_opcode op[2] = {{8, {0}}, {8, {0}}};
    struct tg_ir_kernel k = {.slots = 0};
    start();
    op[0].body = op[1].body = tg_ir_pause(&ir);
    refused(tg_ir_kernel(&ir, &k), -EINVAL, "round/refused");
    k.slots = 5;
    k.opcodes = op;
    k.opcode_count = 2;
    refused(tg_ir_kernel(&ir, &k), -EINVAL, "block/refused");
    op[1].opcode = 7;
    CHECK_EQ(tg_ir_validate(&ir, tg_ir_kernel(&ir, &k), 0, &error), -EINVAL);
    op[1].opcode = 0xFFF0;
    CHECK_EQ(tg_ir_validate(&ir, tg_ir_kernel(&ir, &k), 0, &error), -EINVAL);
    op[1].opcode = 0x80000001;
    CHECK_EQ(tg_ir_validate(&ir, tg_ir_kernel(&ir, &k), 0, &error), -EINVAL);
    op[1].opcode = 9;
    CHECK_EQ(tg_ir_validate(&ir, tg_ir_kernel(&ir, &k), 0, &error), 0);
    k.flags = 8;
    CHECK_EQ(tg_ir_validate(&ir, tg_ir_kernel(&ir, &k), 0, &error), -EINVAL);
    k.flags = 0;
    k.opcodes = NULL;
    CHECK_EQ(tg_ir_validate(&ir, tg_ir_kernel(&ir, &k), 0, &error), -EINVAL);
}

static void variables(void)
{
    start();
    struct tg_ir_expr one = tg_ir_u32(&ir, 1);
    refused(tg_ir_return(&ir, tg_ir_var(&ir, "x")), -ENOENT, "return/var x");
    refused(tg_ir_assign(&ir, "x", one), -ENOENT, "assign x");
    struct tg_ir_node let = tg_ir_let(&ir, "x", one);
    refused(block("top", let, tg_ir_let(&ir, "x", one)), -EEXIST, "top/let x");
    /* A branch is a scope, a block is none. */
    struct tg_ir_node use = tg_ir_return(&ir, tg_ir_var(&ir, "x"));
    CHECK_EQ(tg_ir_validate(&ir, block("top", block("in", let, tg_ir_pause(&ir)), use), 0, &error), 0);
    refused(block("top", tg_ir_if(&ir, one, let, (struct tg_ir_node){0}), use), -ENOENT, "top/return/var x");
    refused(block("top", tg_ir_loop(&ir, "i", one, one, 4, let), use), -ENOENT, "top/return/var x");
    CHECK_EQ(tg_ir_validate(&ir, block("top", tg_ir_if(&ir, one, let, let), let), 0, &error), 0);
    refused(tg_ir_loop(&ir, "i", one, one, 4, tg_ir_assign(&ir, "i", one)), -EINVAL, "loop i/assign i");
    /* A variable is made after its value. */
    refused(tg_ir_let(&ir, "y", tg_ir_var(&ir, "y")), -ENOENT, "let y/var y");
    /* A call sees its parameters only, and what it makes is its own. */
    struct tg_ir_param p = {"p", one};
    refused(block(NULL, let, tg_ir_call(&ir, "r", "f", &p, 1, use)), -ENOENT, "block/call f/return/var x");
    CHECK_EQ(tg_ir_validate(&ir, block(NULL, let, tg_ir_call(&ir, "r", "f", &p, 1, let)), 0, &error), 0);
    refused(tg_ir_call(&ir, "r", "f", &p, 1, tg_ir_assign(&ir, "p", one)), -EINVAL, "call f/assign p");
    struct tg_ir_param twice[2] = {p, p};
    refused(tg_ir_call(&ir, "r", "f", twice, 2, use), -EEXIST, "call f");
    struct tg_ir_param many[25];
    for (int i = 0; i < 25; i++)
        many[i] = p;
    refused(tg_ir_call(&ir, "r", "f", many, 25, use), -E2BIG, "call f");
}

static void places(void)
{
    start();
    struct tg_ir_expr one = tg_ir_u32(&ir, 1);
    struct tg_ir_node leave = tg_ir_break(&ir);
    refused(leave, -EINVAL, "break");
    refused(tg_ir_loop(&ir, "i", one, one, 1, tg_ir_call(&ir, "r", "f", NULL, 0, leave)), -EINVAL,
            "call f/break");
    CHECK_EQ(tg_ir_validate(&ir, block("b", tg_ir_forever(&ir, leave), leave), 0, &error), -EINVAL);
    CHECK_EQ(tg_ir_validate(&ir, block("b", tg_ir_forever(&ir, leave), tg_ir_pause(&ir)), 0, &error), 0);
    struct tg_ir_node forever = tg_ir_forever(&ir, leave);
    refused(tg_ir_if(&ir, one, forever, (struct tg_ir_node){0}), -EINVAL, "if/forever");
    refused(tg_ir_forever(&ir, forever), -EINVAL, "forever/forever");
    refused(tg_ir_loop(&ir, "i", one, one, 1, forever), -EINVAL, "loop i/forever");
    CHECK_EQ(tg_ir_validate_body(&ir, forever, 0, &error), -EINVAL);
    refused(tg_ir_block(&ir, "hole", (const struct tg_ir_node[]){{0}}, 1), -EINVAL, "hole");
    refused((struct tg_ir_node){0}, -EINVAL, "");
    refused((struct tg_ir_node){0xFFFFFFFFu}, -EINVAL, "");
    refused((struct tg_ir_node){one.id}, -EINVAL, "1");
    refused(tg_ir_return(&ir, (struct tg_ir_expr){leave.id}), -EINVAL, "return/break");
    refused(tg_ir_return(&ir, (struct tg_ir_expr){0}), -EINVAL, "return");
    CHECK_EQ(tg_ir_validate(&ir, leave, 2, &error), -EINVAL);
}

static void buffers(void)
{
    start();
    struct tg_ir_expr one = tg_ir_u32(&ir, 1);
    CHECK_EQ(tg_ir_buffer(&ir, "mine", 0), TG_IR_FIRST_USER_BUFFER);
    CHECK_EQ(tg_ir_buffer(&ir, "own", 4), TG_IR_FIRST_USER_BUFFER + 1);
    CHECK_EQ(tg_ir_buffer(&ir, "own", 4), -1);
    CHECK_EQ(tg_ir_buffer(&ir, "ring", 4), -1);
    CHECK_EQ(tg_ir_buffer(&ir, "9", 4), -1);
    CHECK_EQ(tg_ir_buffer(&ir, NULL, 4), -1);
    CHECK_EQ(tg_ir_buffer(&ir, "big", TG_IR_MAX_PRIVATE_WORDS), -1);
    CHECK_EQ(tg_ir_buffer_find(&ir, "own"), TG_IR_FIRST_USER_BUFFER + 1);
    CHECK_EQ(tg_ir_buffer_find(&ir, "other"), -1);
    refused(tg_ir_store(&ir, "other", one, one), -ENOENT, "store other");
    refused(tg_ir_return(&ir, tg_ir_length(&ir, "other")), -ENOENT, "return/length other");
    refused(tg_ir_return(&ir, tg_ir_load(&ir, NULL, one)), -EINVAL, "return/load");
    refused(tg_ir_store(&ir, "dfa", one, one), -EINVAL, "store dfa");
    refused(tg_ir_atomic_add(&ir, NULL, "dfa", one, one, TG_IR_RELAXED), -EINVAL, "atomic_add dfa");
    refused(tg_ir_atomic_add(&ir, NULL, "own", one, one, TG_IR_RELAXED), -EINVAL, "atomic_add own");
    refused(tg_ir_atomic_load(&ir, NULL, "ring", one, TG_IR_RELAXED), -EINVAL, "atomic_load ring");
    refused(tg_ir_atomic_load(&ir, "x", "ring", one, TG_IR_RELEASE), -EINVAL, "atomic_load ring");
    refused(tg_ir_atomic_store(&ir, "ring", one, one, TG_IR_ACQUIRE), -EINVAL, "atomic_store ring");
    refused(tg_ir_atomic_add(&ir, NULL, "ring", one, one, (enum tg_ir_order)99), -EINVAL, "atomic_add ring");
    refused(tg_ir_return(&ir, tg_ir_binary(&ir, (enum tg_ir_op)99, one, one)), -EINVAL, "return/unknown");
    CHECK_EQ(tg_ir_validate(&ir,
                            block("b", tg_ir_store(&ir, "mine", one, one), tg_ir_store(&ir, "own", one, one)),
                            0, &error),
             0);
}

static void e6_a_users_body_reaches_observable_words_only(void)
{
    start();
    struct tg_ir_expr one = tg_ir_u32(&ir, 1);
    static const char *const closed[] = {"ring", "control", "log"};
    for (int i = 0; i < 3; i++) {
        struct tg_ir_opcode op = {9, tg_ir_store(&ir, closed[i], one, one)};
        CHECK_EQ(tg_ir_validate_body(&ir, op.body, 0, &error), -EACCES);
        CHECK_EQ(tg_ir_validate_body(&ir, op.body, TG_IR_UNRESTRICTED, &error), 0);
        struct tg_ir_kernel k = {.slots = 5, .opcodes = &op, .opcode_count = 1};
        CHECK_EQ(tg_ir_validate(&ir, tg_ir_kernel(&ir, &k), 0, &error), -EACCES);
        CHECK(strstr(error.path, "user"));
        CHECK_EQ(tg_ir_validate(&ir, tg_ir_kernel(&ir, &k), TG_IR_UNRESTRICTED, &error), 0);
    }
    /* Also within a call of its own, and never the worker's private words. */
    struct tg_ir_node call = tg_ir_call(&ir, "r", "f", NULL, 0, tg_ir_store(&ir, "control", one, one));
    CHECK_EQ(tg_ir_validate_body(&ir, call, 0, &error), -EACCES);
    CHECK_EQ(tg_ir_validate_body(&ir, tg_ir_store(&ir, "worker_args", one, one), TG_IR_UNRESTRICTED, &error),
             -EACCES);
    CHECK_EQ(tg_ir_validate_body(&ir, tg_ir_store(&ir, "observable", tg_ir_var(&ir, "a11"), one), 0, &error),
             0);
    CHECK_EQ(tg_ir_validate_body(&ir, tg_ir_return(&ir, tg_ir_var(&ir, "inner")), 0, &error), -ENOENT);
}

static void sizes(void)
{
    static char name[10241];
    memset(name, 'n', 10240);
    start();
    struct tg_ir_expr one = tg_ir_u32(&ir, 1);
    refused(block("top", tg_ir_pause(&ir), tg_ir_let(&ir, name, one)), -ENAMETOOLONG,
            "top/let nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn");
    refused(tg_ir_store(&ir, name, one, one), -ENAMETOOLONG, "n");
    refused(tg_ir_block(&ir, name, NULL, 0), -ENAMETOOLONG, "n");
    refused(tg_ir_return(&ir, tg_ir_var(&ir, name)), -ENAMETOOLONG, "n");
    refused(tg_ir_let(&ir, "a b", one), -EINVAL, "let a b");
    refused(tg_ir_let(&ir, "", one), -EINVAL, "let");
    refused(tg_ir_let(&ir, NULL, one), -EINVAL, "let");
    refused(tg_ir_block(&ir, "a/b", NULL, 0), -EINVAL, "a/b");

    struct tg_ir_expr e = one;
    for (uint32_t i = 0; i < 100000; i++)
        e = tg_ir_add(&ir, e, one);
    refused(tg_ir_return(&ir, e), -ENOSPC, "");
    start();
    e = one = tg_ir_u32(&ir, 1);
    for (uint32_t i = 0; i < 20000; i++)
        e = tg_ir_add(&ir, e, one);
    refused(tg_ir_return(&ir, e), -ELOOP, "add/add");
    struct tg_ir_node n = tg_ir_pause(&ir);
    for (uint32_t i = 0; i < 500; i++)
        n = tg_ir_block(&ir, "deep", &n, 1);
    CHECK_EQ(tg_ir_validate(&ir, n, 0, &error), -ELOOP);

    /* Shared nodes: 2^100 places without a depth to speak of. */
    start();
    e = one = tg_ir_u32(&ir, 1);
    for (int i = 0; i < 100; i++)
        e = tg_ir_add(&ir, e, e);
    CHECK_EQ(tg_ir_validate(&ir, tg_ir_return(&ir, e), 0, &error), -E2BIG);

    refused(tg_ir_loop(&ir, "i", one, one, TG_IR_MAX_TRIPS + 1, tg_ir_pause(&ir)), -E2BIG, "loop i");
    n = tg_ir_pause(&ir);
    for (int i = 0; i < 3; i++) {
        char counter[2] = {(char)('a' + i), 0};
        n = tg_ir_loop(&ir, counter, one, one, TG_IR_MAX_TRIPS, n);
        CHECK_EQ(tg_ir_validate(&ir, n, 0, &error), i < 2 ? 0 : -E2BIG);
    }

    static struct tg_ir_node let[1100];
    for (int i = 0; i < 1100; i++) {
        char x[16];
        snprintf(x, sizeof(x), "x%d", i);
        let[i] = tg_ir_let(&ir, x, one);
    }
    CHECK_EQ(tg_ir_validate(&ir, tg_ir_block(&ir, "b", let, 1024), 0, &error), 0);
    refused(tg_ir_block(&ir, "b", let, 1100), -E2BIG, "b/let x1024");
}

/* Every arena that is too small for a kernel is refused, and nothing is written beside it. */
static void small_arenas(void)
{
    static unsigned char small[200000];
    struct tg_ir_kernel k = {.slots = 5};
    for (size_t size = 0; size < 150000; size = size < 200 ? size + 1 : size + 997) {
        memset(small, 0xA5, sizeof(small));
        tg_ir_init(&ir, small + 1, size);
        struct tg_ir_node kernel = tg_ir_kernel(&ir, &k);
        int r = tg_ir_validate(&ir, kernel, 0, &error);
        CHECK(r == 0 || (r == -ENOSPC && strstr(error.text, "full")));
        CHECK(tg_ir_used(&ir) <= size);
        CHECK_EQ(small[0], 0xA5);
        for (size_t i = size + 1; i < size + 64; i++)
            CHECK_EQ(small[i], 0xA5);
        if (size > 140000)
            CHECK_EQ(r, 0);
    }
    tg_ir_init(&ir, NULL, 0);
    CHECK_EQ(tg_ir_validate(&ir, tg_ir_pause(&ir), 0, &error), -ENOSPC);
    CHECK_EQ(tg_ir_validate(&ir, (struct tg_ir_node){0}, 0, NULL), -ENOSPC);
}

/* Whoever writes into the arena can make a cycle, or a node that points out of it: both are refused. */
static void damaged_arenas(void)
{
    for (uint32_t k = 0; k < 44; k++)
        for (uint32_t n = 1; n <= 8; n++)
            for (uint32_t value = 0; value < 256; value += 3) {
                start();
                struct tg_ir_expr one = tg_ir_u32(&ir, 1);
                struct tg_ir_node call = tg_ir_call(&ir, "r", "f", &(struct tg_ir_param){"p", one}, 1,
                                                    tg_ir_loop(&ir, "i", one, one, 3, tg_ir_pause(&ir)));
                struct tg_ir_node root = block("top", tg_ir_let(&ir, "x", one), call);
                CHECK(root.id <= 8);
                ((unsigned char *)memory)[n * 44 + k] = (unsigned char)value;
                (void)tg_ir_validate(&ir, root, 0, &error);
            }
    /* A handle that the node does not use is followed by nobody: operand b of a load. */
    start();
    struct tg_ir_node load = tg_ir_atomic_load(&ir, "x", "observable", tg_ir_u32(&ir, 0), TG_IR_ACQUIRE);
    for (uint32_t k = 0; k < 44; k += 4)
        for (uint32_t value = 0; value < 5; value++) {
            unsigned char kept[44], *at = (unsigned char *)memory + load.id * 44;
            memcpy(kept, at, 44);
            memcpy(at + k, &value, 4);
            if (tg_ir_validate(&ir, load, 0, &error) == 0) {
                char *text;
                CHECK_EQ(tg_ir_lower(&ir, load, NULL, &text, &(size_t){0}, &error), 0);
                free(text);
            }
            memcpy(at, kept, 44);
        }
    start();
    struct tg_ir_node inner = block("inner", tg_ir_pause(&ir), tg_ir_pause(&ir));
    struct tg_ir_node outer = tg_ir_forever(&ir, inner);
    CHECK_EQ(tg_ir_validate(&ir, outer, 0, &error), 0);
    unsigned char *words = (unsigned char *)memory;
    for (size_t i = ir.text_start; i + 4 <= ir.bytes; i += 4)
        if (memcmp(words + i, &(uint32_t){inner.id - 1}, 4) == 0)
            memcpy(words + i, &outer.id, 4);
    refused(outer, -EINVAL, "forever/inner");
}

/* A call sees its parameters and nothing else, also when it is the 65,536th: a user's body in a kernel must
 * not come to the kernel's variables by writing many calls before. */
static void e6_many_calls(void)
{
    enum { CALLS = 65536 };
    static struct tg_ir_node n[CALLS + 1];
    static uint64_t large[1 << 16];
    struct tg_ir_node none = {0};
    for (uint32_t before = CALLS - 3; before < CALLS + 2; before++) {
        tg_ir_init(&ir, large, sizeof(large));
        struct tg_ir_expr one = tg_ir_u32(&ir, 1);
        n[0] = tg_ir_let(&ir, "secret", one);
        n[1] = tg_ir_if(&ir, one, tg_ir_call(&ir, "r", NULL, NULL, 0, tg_ir_pause(&ir)), none);
        for (uint32_t i = 2; i < CALLS && i < before; i++)
            n[i] = n[1];
        uint32_t count = before < CALLS ? before : CALLS;
        struct tg_ir_node many = tg_ir_block(&ir, NULL, n, count), more = n[1];
        struct tg_ir_node last = tg_ir_call(&ir, "q", NULL, NULL, 0, tg_ir_assign(&ir, "secret", one));
        for (uint32_t i = count; i < before; i++)
            many = block("more", many, more);
        refused(block("top", many, last), -ENOENT, "top/call/assign secret");
    }
}

int main(void)
{
    RUN(e6_many_calls);
    RUN(kernels_are_valid);
    RUN(many_opcodes);
    RUN(deep_body);
    RUN(labels);
    RUN(taken_buffers);
    RUN(kernels_options_are_checked);
    RUN(variables);
    RUN(places);
    RUN(buffers);
    RUN(e6_a_users_body_reaches_observable_words_only);
    RUN(sizes);
    RUN(small_arenas);
    RUN(damaged_arenas);
    return 0;
}
