/* SPDX-License-Identifier: Apache-2.0
 * One opcode written as nodes, and run by all three: interpreted, compiled, and beside a handler that says
 * the same in C. It adds the square of its argument to observable word 0. Exits 0 when all sums are right. */
#include <stdio.h>

#include <tidegate/compile.h>

#define LIMIT_NS UINT64_C(5000000000)

static struct tg_ir_node square(struct tg_ir *ir)
{
    struct tg_ir_expr a0 = tg_ir_var(ir, "a0"), zero = tg_ir_u32(ir, 0);
    return tg_ir_atomic_add(ir, NULL, "observable", zero, tg_ir_mul(ir, a0, a0), TG_IR_RELAXED);
}

static int square_in_c(void *context, struct tg_op *op)
{
    (void)context;
    return tg_engine_observable_add(op->engine, 0, op->args[0] * op->args[0], NULL);
}

/* 1 + 4 + ... + 100 by an engine with this kernel, or with the handler. */
static uint32_t sum(struct tg_kernel *kernel)
{
    struct tg_engine *e;
    uint32_t result = 0;
    int error = tg_engine_open(NULL, &e);
    if (error)
        return 0;
    error = kernel ? tg_engine_use_kernel(e, kernel, NULL) : tg_engine_register(e, 8, square_in_c, NULL);
    for (uint32_t i = 1; i <= 10 && !error; i++)
        error = tg_engine_submit(e, 0, TG_PRIORITY_NORMAL, 8, &i, 1, NULL);
    if (!error && tg_engine_settle(e, LIMIT_NS) == 0)
        tg_engine_observable_load(e, 0, &result);
    tg_engine_close(e, LIMIT_NS, NULL);
    return result;
}

int main(void)
{
    static uint64_t memory[1 << 16];
    char why[TG_COMPILE_WHY_BYTES];
    uint32_t right = sum(NULL) == 385;
    for (uint32_t flags = 0; flags <= TG_COMPILE_INTERPRET; flags++) {
        struct tg_compile_options o = {.size = sizeof(o), .flags = flags};
        struct tg_kernel *kernel = NULL;
        struct tg_ir ir;
        tg_ir_init(&ir, memory, sizeof(memory));
        struct tg_ir_opcode opcode = {8, square(&ir)};
        struct tg_ir_kernel k = {.slots = 4096, .opcodes = &opcode, .opcode_count = 1};
        right += tg_engine_compile(&ir, &k, &o, &kernel, why, sizeof(why)) == 0 && sum(kernel) == 385;
        printf("compiled %d %s\n", kernel && tg_kernel_is_compiled(kernel), why);
        tg_kernel_close(kernel);
    }
    return right == 3 ? 0 : 1;
}
