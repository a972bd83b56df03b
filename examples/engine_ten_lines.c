/* SPDX-License-Identifier: Apache-2.0
 * The resident engine in about ten lines: open, register an opcode, submit, wait, close. Prints the sum that
 * a hundred items computed; exits 0 when it is right. */
#include <stdio.h>

#include <tidegate/engine.h>

/* Adds the item's argument to observable word 0. */
static int add(void *context, struct tg_op *op)
{
    (void)context;
    return tg_engine_observable_add(op->engine, 0, op->args[0], NULL);
}

int main(void)
{
    const uint64_t second = 1000000000;
    struct tg_engine *engine;
    struct tg_item item[100];
    uint32_t sum = 0;
    int error = tg_engine_open(NULL, &engine);
    if (!error)
        error = tg_engine_register(engine, 8, add, NULL);
    for (uint32_t i = 0; i < 100 && !error; i++)
        error = tg_engine_submit(engine, 0, i % 5, 8, (uint32_t[]){i + 1}, 1, &item[i]);
    for (uint32_t i = 0; i < 100 && !error; i++)
        error = tg_engine_wait(engine, &item[i], 5 * second);
    if (!error)
        error = tg_engine_observable_load(engine, 0, &sum);
    if (!error)
        error = tg_engine_close(engine, 5 * second, NULL);
    printf("1 + 2 + ... + 100 = %u (error %d)\n", sum, error);
    return error == 0 && sum == 5050 ? 0 : 1;
}
