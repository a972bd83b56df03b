/* SPDX-License-Identifier: Apache-2.0
 * Opcodes of a device image, for tests and benches: the same text is compiled for the card and for the
 * emulator.
 */
#ifndef TG_TESTS_DEVICE_OPS_H
#define TG_TESTS_DEVICE_OPS_H

#include "engine/device_op.h"

#define OP_DEVICE_SPIN 0x100u  /* a0: ns, a1: seconds */
#define OP_DEVICE_ADD 0x101u   /* observable a0 += a1 */
#define OP_DEVICE_FAIL 0x102u  /* returns a0 as it is */
#define OP_DEVICE_AGAIN 0x103u /* observable a0 counts its runs; ends with run a1 */
#define OP_DEVICE_WARP 0x104u  /* a whole warp: lane i adds 1 to observable a0 */
#define OP_DEVICE_EMPTY 0x105u
/* A whole block: each lane adds 1 to observable a0, twice; a0 + 1 counts who saw less than all the first
 * time. */
#define OP_DEVICE_BLOCK 0x106u
#define OP_DEVICE_WILD 0x108u      /* stores to nobody's memory; in the emulator that ends the process */
#define OP_DEVICE_INNER 0x20u      /* observable a0 += a1 * 10 + the number of its arguments that are not 0 */
#define OP_DEVICE_INNER_FAIL 0x21u /* returns a0 as it is; a number that packed slots can have */
#define OP_DEVICE_UNTIL 0x107u     /* again and again until observable a0 is not 0 */

TG_DEVICE int tg_device_run(struct tg_device_op *op)
{
    uint32_t before = 0;
    switch (op->opcode) {
    case OP_DEVICE_EMPTY:
        return TG_OP_FINISHED;
    case OP_DEVICE_SPIN: {
        uint64_t end = tg_device_ns() + op->args[0] + op->args[1] * UINT64_C(1000000000);
        while (tg_device_ns() < end)
            ;
        return TG_OP_FINISHED;
    }
    case OP_DEVICE_ADD:
        return tg_device_add(op, op->args[0], op->args[1], &before) ? TG_OP_FINISHED : -14;
    case OP_DEVICE_FAIL:
    case OP_DEVICE_INNER_FAIL:
        return (int)op->args[0];
    case OP_DEVICE_INNER: {
        uint32_t given = 0;
        for (uint32_t i = 0; i < TG_ARGS_PER_SLOT; i++)
            given += op->args[i] != 0;
        return tg_device_add(op, op->args[0], op->args[1] * 10 + given, &before) ? TG_OP_FINISHED : -14;
    }
    case OP_DEVICE_AGAIN:
        if (!tg_device_add(op, op->args[0], 1, &before))
            return -14;
        return before + 1 >= op->args[1] ? TG_OP_FINISHED : TG_OP_REQUEUE;
    case OP_DEVICE_WARP:
        return tg_device_add(op, op->args[0], 1, &before) ? TG_OP_FINISHED : -14;
    case OP_DEVICE_BLOCK: {
        uint32_t seen = 0;
        tg_device_add(op, op->args[0], 1, &before);
        tg_device_block_sync();
        tg_device_load(op, op->args[0], &seen);
        if (seen < TG_BLOCK_LANES)
            tg_device_add(op, op->args[0] + 1, 1, &before);
        tg_device_block_sync();
        tg_device_add(op, op->args[0], 1, &before);
        return TG_OP_FINISHED;
    }
    case OP_DEVICE_WILD:
        *(volatile uint32_t *)(uintptr_t)(UINT64_C(1) << 46) = 1;
        return TG_OP_FINISHED;
    case OP_DEVICE_UNTIL:
        return tg_device_load(op, op->args[0], &before) && before ? TG_OP_FINISHED : TG_OP_REQUEUE;
    default:
        return TG_DEVICE_UNKNOWN;
    }
}

#endif
