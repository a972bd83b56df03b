/* SPDX-License-Identifier: Apache-2.0
 * Bodies of ir.h compiled at run time for a GPU (TG_COMPILE_DEVICE). That they compile, and who refuses them,
 * needs no card; with TG_TEST_BACKEND=cuda they run on it. Skips (77) where there is no NVRTC. */
#include <tidegate/compile.h>

#include "engine/engine_test.h"

#define OP_SQUARE 32u
#define OP_MANY 33u
#define OP_ODD 34u
#define OP_STEP 35u
#define MANY 20u

static uint8_t memory[1 << 20];
static char why[TG_COMPILE_WHY_BYTES];

/* observable[a1] += a0 * a0; shared[a0] = a0 */
static struct tg_ir_node square(struct tg_ir *ir)
{
    struct tg_ir_expr a0 = tg_ir_var(ir, "a0");
    struct tg_ir_node n[2] = {
        tg_ir_atomic_add(ir, NULL, "observable", tg_ir_var(ir, "a1"), tg_ir_mul(ir, a0, a0), TG_IR_RELAXED),
        tg_ir_store(ir, "shared", a0, a0)};
    return tg_ir_block(ir, NULL, n, 2);
}

/* More words than an item usually writes: observable[i] = a0 + i. */
static struct tg_ir_node many(struct tg_ir *ir)
{
    struct tg_ir_expr i = tg_ir_var(ir, "i");
    return tg_ir_loop(ir, "i", tg_ir_u32(ir, 0), tg_ir_u32(ir, MANY), MANY,
                      tg_ir_store(ir, "observable", i, tg_ir_add(ir, tg_ir_var(ir, "a0"), i)));
}

/* Returns a0; private word 0 counts the calls of a lane, and is zero at every item. */
static struct tg_ir_node odd(struct tg_ir *ir)
{
    struct tg_ir_expr zero = tg_ir_u32(ir, 0);
    struct tg_ir_node n[3] = {
        tg_ir_store(ir, "own", zero, tg_ir_add(ir, tg_ir_load(ir, "own", zero), tg_ir_u32(ir, 1))),
        tg_ir_store(ir, "shared", zero, tg_ir_load(ir, "own", zero)), tg_ir_return(ir, tg_ir_var(ir, "a0"))};
    return tg_ir_block(ir, NULL, n, 3);
}

/* observable[a1] = dfa[a0] */
static struct tg_ir_node step(struct tg_ir *ir)
{
    return tg_ir_store(ir, "observable", tg_ir_var(ir, "a1"), tg_ir_load(ir, "dfa", tg_ir_var(ir, "a0")));
}

static int try_compile(const char *arch, uint32_t kernel_flags, struct tg_kernel **ret)
{
    struct tg_ir ir;
    struct tg_device_compile_options device = {
        .size = sizeof(device), .arch = arch, .backend = arch ? NULL : test_backend()};
    struct tg_compile_options o = {.size = sizeof(o), .flags = TG_COMPILE_DEVICE, .device = &device};
    tg_ir_init(&ir, memory, sizeof(memory));
    tg_ir_buffer(&ir, "own", 4);
    CHECK_EQ(tg_ir_buffer(&ir, "shared", 0), TG_IR_FIRST_USER_BUFFER + 1);
    struct tg_ir_opcode opcodes[4] = {
        {OP_SQUARE, square(&ir)}, {OP_MANY, many(&ir)}, {OP_ODD, odd(&ir)}, {OP_STEP, step(&ir)}};
    struct tg_ir_kernel k = {.slots = 64, .flags = kernel_flags, .opcodes = opcodes, .opcode_count = 4};
    int r = tg_engine_compile(&ir, &k, &o, ret, why, sizeof(why));
    if (r == -ENOENT || (r == -ENODEV && !arch)) {
        fprintf(stderr, "SKIPPED: %s\n", why);
        exit(77);
    }
    return r;
}

static struct tg_kernel *compiled(const char *arch)
{
    struct tg_kernel *k = NULL;
    int r = try_compile(arch, 0, &k);
    if (r)
        fprintf(stderr, "%s\n", why);
    CHECK_EQ(r, 0);
    CHECK_EQ(tg_kernel_is_compiled(k), 1);
    return k;
}

/* A CPU's engine and the loop alone have no use for it, and say so; E6: it is never unrestricted. */
static void what_is_for_a_device_is_refused_elsewhere(const struct tg_kernel *k)
{
    struct tg_engine_options o;
    struct tg_engine *e = NULL;
    struct tg_kernel *kernel = (struct tg_kernel *)(uintptr_t)k, *none = NULL;
    struct tg_kernel_env env = {.size = sizeof(env), .lanes = 1, .groups = 1};
    uint32_t value;
    tg_engine_options_init(&o);
    o.workers = 1;
    CHECK_EQ(tg_engine_open(&o, &e), 0);
    CHECK_EQ(tg_engine_use_kernel(e, kernel, NULL), -EINVAL);
    CHECK_EQ(tg_engine_close(e, LIMIT, NULL), 0);
    o.kernel = kernel;
    CHECK_EQ(tg_engine_open(&o, &e), -EINVAL);
    CHECK(strstr(tg_engine_open_reason(), "GPU"));
    CHECK_EQ(tg_kernel_lane(kernel, &env, &value), -EINVAL);
    CHECK_EQ(try_compile("sm_90", TG_IR_UNRESTRICTED, &none), -ENOTSUP);
    CHECK(strstr(why, "unrestricted"));
}

/* The way round: a device refuses what was compiled for a CPU, before it looks for a card. */
static void what_is_for_a_cpu_is_refused_by_a_device(void)
{
    struct tg_ir ir;
    struct tg_kernel *k = NULL;
    struct tg_engine_options o;
    struct tg_engine *e = NULL;
    struct tg_compile_options co = {.size = sizeof(co), .flags = TG_COMPILE_INTERPRET};
    tg_ir_init(&ir, memory, sizeof(memory));
    struct tg_ir_kernel kernel = {.slots = 64};
    CHECK_EQ(tg_engine_compile(&ir, &kernel, &co, &k, why, sizeof(why)), 0);
    tg_engine_options_init(&o);
    o.backend = "cuda";
    o.kernel = k;
    CHECK_EQ(tg_engine_open(&o, &e), -EINVAL);
    CHECK(strlen(tg_engine_open_reason()) > 0);
    /* On a CPU the option is tg_engine_use_kernel from the start. */
    o.backend = NULL;
    o.workers = 2;
    CHECK_EQ(tg_engine_open(&o, &e), 0);
    CHECK_EQ(tg_engine_use_kernel(e, k, NULL), -EBUSY);
    struct tg_item t;
    uint32_t args[2] = {7, 170};
    CHECK_EQ(run_ticket(e, 0, TG_OP_STORE_U32, args, 2, &t), 0);
    CHECK_EQ(test_word(e, 170), 7);
    CHECK_EQ(tg_engine_close(e, LIMIT, NULL), 0);
    CHECK_EQ(tg_kernel_close(k), 0);
}

static int run(struct tg_engine *e, uint32_t opcode, uint32_t a0, uint32_t a1, struct tg_fault *fault)
{
    struct tg_item t;
    uint32_t args[2] = {a0, a1};
    *fault = (struct tg_fault){0};
    int r = run_ticket(e, 0, opcode, args, 2, &t);
    if (r == -EIO)
        CHECK_EQ(tg_engine_fault(e, &t, fault), 0);
    return r;
}

static void they_run_on_the_card(void)
{
    static uint32_t shared[16], table[2 * TG_DFA_COLUMNS];
    struct tg_kernel *k = compiled(NULL);
    struct tg_ir_memory m = {{0}, {0}};
    struct tg_engine_options o = test_options(64, 1);
    struct tg_fault f;
    uint32_t v;
    m.words[TG_IR_FIRST_USER_BUFFER + 1] = shared;
    m.count[TG_IR_FIRST_USER_BUFFER + 1] = 16;
    o.kernel = k;
    o.kernel_memory = &m;
    o.device_blocks = 2;
    struct tg_engine *e = test_open(&o);
    CHECK_EQ(tg_kernel_close(k), -EBUSY);
    for (uint32_t i = 1; i <= 3; i++)
        CHECK_EQ(run(e, OP_SQUARE, 9, 30, &f), 0);
    CHECK_EQ(test_word(e, 190), 3 * 81);
    CHECK_EQ(tg_load_acquire_u32(&shared[9]), 9);
    CHECK_EQ(run(e, OP_SQUARE, 16, 30, &f), -EIO); /* E6: outside of shared */
    CHECK_EQ(f.reason, TG_FAULT_OUT_OF_BOUNDS);
    CHECK_EQ(run(e, OP_SQUARE, 1, 256, &f), -EIO);
    CHECK_EQ(f.reason, TG_FAULT_OUT_OF_BOUNDS);
    CHECK_EQ(run(e, OP_MANY, 1000, 0, &f), 0);
    for (uint32_t i = 0; i < MANY; i++)
        CHECK_EQ(test_word(e, 160 + i), 1000 + i); /* E7 */
    CHECK_EQ(run(e, OP_ODD, 0, 0, &f), 0);
    CHECK_EQ(run(e, OP_ODD, 0, 0, &f), 0);
    CHECK_EQ(tg_load_acquire_u32(&shared[0]), 1);
    static const uint32_t values[] = {TG_IR_WAIT_IO, 3, 99, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF};
    for (uint32_t i = 0; i < 6; i++) {
        CHECK_EQ(run(e, OP_ODD, values[i], 0, &f), -EIO);
        CHECK_EQ(f.reason, TG_FAULT_HANDLER);
        CHECK_EQ(f.detail, values[i]);
    }
    CHECK_EQ(run(e, OP_STEP, 5, 3, &f), -EIO); /* no table yet */
    CHECK_EQ(f.reason, TG_FAULT_OUT_OF_BOUNDS);
    table[TG_DFA_COLUMNS + 5] = 42;
    CHECK_EQ(tg_engine_set_dfa(e, table, 2), 0);
    CHECK_EQ(run(e, OP_STEP, TG_DFA_COLUMNS + 5, 3, &f), 0);
    CHECK_EQ(tg_engine_observable_load(e, 3, &v), 0);
    CHECK_EQ(v, 42);
    CHECK_EQ(run(e, OP_STEP, 2 * TG_DFA_COLUMNS, 3, &f), -EIO);
    CHECK_EQ(tg_engine_use_kernel(e, k, NULL), -ENOTSUP);
    test_close(e);
    CHECK_EQ(tg_kernel_close(k), 0);
}

int main(void)
{
    RUN(what_is_for_a_cpu_is_refused_by_a_device);
    if (test_backend()) {
        RUN(they_run_on_the_card);
        return 0;
    }
    struct tg_kernel *k = compiled("sm_90");
    what_is_for_a_device_is_refused_elsewhere(k);
    CHECK_EQ(tg_kernel_close(k), 0);
    return 0;
}
