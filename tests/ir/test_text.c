/* SPDX-License-Identifier: Apache-2.0
 * The text form: what is printed is read back as the same program, and what is malformed is refused with the
 * line and path of it. */
#include <errno.h>

#include "ir_test.h"

static uint64_t memory[1 << 16], memory2[1 << 16];
static struct tg_ir ir, ir2;
static struct tg_ir_error error;
static char text[1 << 18], again[1 << 18];

static void round_trip(struct tg_ir_node root)
{
    struct tg_ir_node back;
    size_t size = tg_ir_print(&ir, root, text, sizeof(text));
    CHECK(size < sizeof(text));
    CHECK_EQ(strlen(text), size);
    tg_ir_init(&ir2, memory2, sizeof(memory2));
    int r = tg_ir_parse(&ir2, text, size, &back, &error);
    if (r != 0)
        fprintf(stderr, "%u: %s: %s\n", error.line, error.path, error.text);
    CHECK_EQ(r, 0);
    CHECK_EQ(tg_ir_print(&ir2, back, again, sizeof(again)), size);
    CHECK(strcmp(text, again) == 0);
    CHECK_EQ(tg_ir_validate(&ir2, back, TG_IR_UNRESTRICTED, &error),
             tg_ir_validate(&ir, root, TG_IR_UNRESTRICTED, NULL));
}

static void kernels(void)
{
    for (uint32_t i = 0; i < 4; i++) {
        tg_ir_init(&ir, memory, sizeof(memory));
        struct tg_ir_opcode op = {8, {0}};
        static const char body[] = "(buffer table 0) (opcode 8 (store observable a0 (load table a1)))";
        CHECK_EQ(tg_ir_parse_opcode(&ir, body, sizeof(body) - 1, 0, &op, &error), 0);
        struct tg_ir_kernel k = {
            .slots = 64, .stride = i, .rounds = i, .flags = i, .opcodes = &op, .opcode_count = 1};
        round_trip(tg_ir_kernel(&ir, &k));
        CHECK(strstr(text, "(buffer table 0)\n"));
        CHECK(strstr(text, "(call_user returned user ((a0 "));
    }
}

/* Everything that can be written, at least once. */
static void every_node(void)
{
    static const char all[] =
        "; a comment ( with ) everything\n"
        "(buffer shared 0)\n(buffer own 0x10)\n"
        "(block top.level\n"
        "  (let x 4294967295) (assign x (add x 0xFFFFFFFF))\n"
        "  (store own 3 (load shared (length shared)))\n"
        "  (atomic_load l shared 0 acquire) (atomic_store shared 0 l release)\n"
        "  (atomic_add _ shared 0 1 relaxed) (atomic_exchange e shared 0 e2 acq_rel)\n"
        "  (atomic_cas c shared 0 1 2 acq_rel)\n"
        "  (atomic_and f shared 0 7 release) (atomic_or _ shared 0 8 acquire)\n"
        "  (if (not x) (pause)) (if (bit_not x) (pause) (block _))\n"
        "  (loop i 0 (lanes) 16 (if (eq i (lane)) (break)) (let y (ctz i)))\n"
        "  (call r name ((p x) (q (sub (mul x 2) (div x 0)))) (return (rem p q)))\n"
        "  (call s _ () (fault 12))\n"
        "  (forever (let z (select (group) (groups) 1)) (return (min z (max z 1))))\n"
        "  (return (bit_or (bit_and 1 2) (bit_xor (shl 1 2) (shr 3 4))))\n"
        "  (return (and (or (ne 1 2) (lt 1 2)) (and (le 1 2) (or (gt 1 2) (ge 1 2))))))\n";
    struct tg_ir_node root;
    tg_ir_init(&ir, memory, sizeof(memory));
    int r = tg_ir_parse(&ir, all, sizeof(all) - 1, &root, &error);
    if (r != 0)
        fprintf(stderr, "%u: %s: %s\n", error.line, error.path, error.text);
    CHECK_EQ(r, 0);
    CHECK_EQ(tg_ir_validate(&ir, root, 0, &error), -ENOENT); /* e2 */
    CHECK(strstr(error.path, "top.level/atomic_exchange shared/var e2"));
    CHECK_EQ(error.line, 8);
    round_trip(root);
}

static void refused(const char *program, int code, uint32_t line, const char *path)
{
    struct tg_ir_node root = {77};
    tg_ir_init(&ir, memory, sizeof(memory));
    int r = tg_ir_parse(&ir, program, strlen(program), &root, &error);
    if (r != code || error.line != line || strcmp(error.path, path) != 0 || root.id != 77 || !error.text[0]) {
        fprintf(stderr, "%.60s: %d (wanted %d), line %u (%u), \"%s\" (\"%s\"): %s\n", program, r, code,
                error.line, line, error.path, path, error.text);
        exit(1);
    }
}

static void malformed(void)
{
    refused("", -EINVAL, 1, "");
    refused("x", -EINVAL, 1, "");
    refused("(", -EINVAL, 1, "");
    refused("(let", -EINVAL, 1, "let");
    refused("(let x 1", -EINVAL, 1, "let x");
    refused("(let x 1) (pause)", -EINVAL, 1, "");
    refused("(let x 1))", -EINVAL, 1, "");
    refused("(let x 1 2)", -EINVAL, 1, "let x");
    refused("(let 9x 1)", -EINVAL, 1, "let 9x");
    refused("(let _ 1)", -EINVAL, 1, "let _");
    refused("(block b\n (let x 4294967296))", -EINVAL, 2, "block b/let x");
    refused("(block b\n (let x 0x))", -EINVAL, 2, "block b/let x");
    refused("(let x -1)", -EINVAL, 1, "let x");
    refused("(block b\n\n (let x (plus 1 2)))", -EINVAL, 3, "block b/let x/plus 1");
    refused("(let x (add 1))", -EINVAL, 1, "let x/add 1");
    refused("(let x (add 1 2 3))", -EINVAL, 1, "let x/add 1");
    refused("(let x \"y\")", -EINVAL, 1, "let x");
    refused("(atomic_load x ring 0 seq_cst)", -EINVAL, 1, "atomic_load x");
    refused("(loop i 0 1 x (pause))", -EINVAL, 1, "loop i");
    refused("(block a/b)", -EINVAL, 1, "block a/b");
    refused("(goto x)", -EINVAL, 1, "goto x");
    refused("(buffer ring 0) (pause)", -EINVAL, 1, "buffer ring");
    refused("(buffer b 5000) (pause)", -EINVAL, 1, "buffer b");
    refused("(buffer b 1) (buffer b 2) (pause)", -EINVAL, 1, "buffer b");
    refused("(call r _ ((a 1) (b)) (pause))", -EINVAL, 1, "call r/b");
    refused("(call r _ (a) (pause))", -EINVAL, 1, "call r");
    refused("(if 1)", -EINVAL, 1, "if 1");
    refused("(if 1 (pause) (pause) (pause))", -EINVAL, 1, "if 1");

    static char big[200000];
    memset(big, 'n', 10240);
    big[0] = '(';
    memcpy(big, "(let ", 5);
    big[10240] = 0;
    refused(big, -ENAMETOOLONG, 1, "let nnnnnnnnnnnnnnnnnnnn");
    memset(big, '(', sizeof(big) - 1);
    refused(big, -EINVAL, 1, "");
    for (size_t i = 0; i < sizeof(big) - 8; i += 9)
        memcpy(big + i, "(forever ", 9);
    CHECK_EQ(tg_ir_parse(&ir, big, sizeof(big) - 9, &(struct tg_ir_node){0}, &error), -ELOOP);
    CHECK_EQ(error.code, -ELOOP);
    /* A text may end anywhere, and needs no final 0. */
    static const char whole[] = "(block b (call r _ ((p (load ring 0))) (return (select p 1 2))))";
    for (size_t n = 0; n < sizeof(whole) - 1; n++) {
        char *copy = malloc(n + 1);
        memcpy(copy, whole, n);
        CHECK_EQ(tg_ir_parse(&ir, copy, n, &(struct tg_ir_node){0}, &error), -EINVAL);
        free(copy);
    }
    /* Names with bytes that are none. */
    refused("(let \x01 1)", -EINVAL, 1, "let");
    refused("(let x\xff 1)", -EINVAL, 1, "let x");
}

static int opcode_code(const char *program, uint32_t flags)
{
    struct tg_ir_opcode op;
    tg_ir_init(&ir, memory, sizeof(memory));
    return tg_ir_parse_opcode(&ir, program, strlen(program), flags, &op, &error);
}

static void opcodes(void)
{
    CHECK_EQ(opcode_code("(opcode 8)", 0), 0);
    CHECK_EQ(opcode_code("(opcode 8 (let x a0) (store observable x slot))", 0), 0);
    CHECK_EQ(opcode_code("(opcode 7 (pause))", 0), -EINVAL);
    CHECK_EQ(opcode_code("(opcode 0xFFFD (pause))", 0), -EINVAL);
    CHECK_EQ(opcode_code("(opcode 0x80000000 (pause))", 0), -EINVAL);
    CHECK_EQ(opcode_code("(pause)", 0), -EINVAL);
    CHECK_EQ(opcode_code("(opcode 8 (pause)) (pause)", 0), -EINVAL);
    CHECK_EQ(opcode_code("(opcode 8 (store control 0 1))", 0), -EACCES);
    CHECK_EQ(opcode_code("(opcode 8 (store control 0 1))", TG_IR_UNRESTRICTED), 0);
    CHECK_EQ(opcode_code("(buffer worker_args 12) (opcode 8 (store worker_args 0 1))", 0), -EACCES);
    CHECK_EQ(opcode_code("(opcode 8 (forever (pause)))", 0), -EINVAL);
    CHECK_EQ(opcode_code("(opcode 8 (return a12))", 0), -ENOENT);
    CHECK_EQ(error.line, 1);
}

/* An arena that ends somewhere in the text is an error, never more. */
static void small_arenas(void)
{
    tg_ir_init(&ir, memory, sizeof(memory));
    struct tg_ir_node root = tg_ir_kernel(&ir, &(struct tg_ir_kernel){.slots = 9});
    size_t size = tg_ir_print(&ir, root, text, sizeof(text));
    for (size_t bytes = 0; bytes < 300000; bytes += 1 + bytes / 3) {
        tg_ir_init(&ir2, memory2, bytes);
        int r = tg_ir_parse(&ir2, text, size, &root, &error);
        CHECK(r == 0 || r == -ENOSPC || (r == -EINVAL && bytes < 1000));
    }
    /* Printing into too little room says how much it needs. */
    tg_ir_init(&ir, memory, sizeof(memory));
    root = tg_ir_kernel(&ir, &(struct tg_ir_kernel){.slots = 9});
    char little[100];
    memset(little, 'x', sizeof(little));
    CHECK_EQ(tg_ir_print(&ir, root, little, 50), size);
    CHECK_EQ(strlen(little), 49);
    CHECK_EQ(little[50], 'x');
    CHECK_EQ(tg_ir_print(&ir, root, NULL, 0), size);
}

/* The examples of tg_ir(3), and what the second computes. */
static void examples_of_the_manual(void)
{
    static const char sum[] = "(opcode 9\n      (let sum 0)\n      (loop i 0 a1 64\n"
                              "        (assign sum (add sum (load observable (add a0 i)))))\n"
                              "      (atomic_add _ observable a2 sum relaxed))";
    struct tg_ir_opcode op;
    struct queue q;
    CHECK_EQ(opcode_code("    (opcode 8 (store observable a1 (mul a0 2)))\n", 0), 0);
    tg_ir_init(&ir, memory, sizeof(memory));
    CHECK_EQ(tg_ir_parse_opcode(&ir, sum, sizeof(sum) - 1, 0, &op, &error), 0);
    struct tg_ir_kernel k = {.slots = 5, .flags = TG_IR_UNTIL_IDLE, .opcodes = &op, .opcode_count = 1};
    queue_init(&q, 5);
    for (uint32_t i = 0; i < 8; i++)
        q.control[TG_CONTROL_OBSERVABLE_BASE + i] = i;
    PUBLISH(&q, 2, 0, 2, 9, 2, 3, 9);
    PUBLISH(&q, 3, 0, 2, 9, 0, 65, 10);
    struct tg_ir_machine *m = machine_of(&ir, tg_ir_kernel(&ir, &k), &q, 2);
    CHECK_EQ(tg_ir_machine_run(m, 1, 100000), 0);
    tg_ir_machine_close(m);
    CHECK_EQ(observable(&q, 9), 2 + 3 + 4);
    CHECK_EQ(q.ring[3].status, TG_SLOT_FAULT);
    CHECK_EQ(observable(&q, 10), 0);
}

int main(void)
{
    RUN(kernels);
    RUN(every_node);
    RUN(malformed);
    RUN(opcodes);
    RUN(small_arenas);
    RUN(examples_of_the_manual);
    return 0;
}
