/* SPDX-License-Identifier: Apache-2.0
 * The bench's opcodes for a device, compiled together with the engine's kernel; engine.h says what they do.
 */
#include <tidegate/device.cuh>

#include "gpu/engine.h"

/* Its successor. Where there is no room it goes back itself, so that there are always as many. */
TG_DEVICE int publish(struct tg_device_op *op, uint32_t count)
{
    int r = tg_device_submit(op, op->priority, op->opcode, op->args, count);
    return r == -EAGAIN ? TG_OP_REQUEUE : r;
}

TG_DEVICE int burn(struct tg_device_op *op, bool next)
{
    uint32_t stop = 0;
    long long start = clock64();
    while (clock64() - start < (long long)op->args[0] * op->args[2])
        ;
    if (!tg_device_load(op, GPU_STOP_WORD, &stop))
        return -1;
    if (!op->args[1] || stop)
        return TG_OP_FINISHED;
    return !next ? TG_OP_REQUEUE : op->lane == 0 ? publish(op, 3) : TG_OP_FINISHED;
}

TG_DEVICE int next(struct tg_device_op *op)
{
    uint32_t stop = 1;
    if (!tg_device_load(op, GPU_STOP_WORD, &stop))
        return -1;
    return stop ? TG_OP_FINISHED : publish(op, 0);
}

TG_DEVICE int again(struct tg_device_op *op)
{
    uint32_t stop = 1;
    if (!tg_device_load(op, GPU_STOP_WORD, &stop))
        return -1;
    return stop ? TG_OP_FINISHED : TG_OP_REQUEUE;
}

TG_DEVICE int tg_device_run(struct tg_device_op *op)
{
    switch (op->opcode) {
    case GPU_OP_EMPTY:
        return TG_OP_FINISHED;
    case GPU_OP_BURN:
        return burn(op, false);
    case GPU_OP_BURN_NEXT:
        return burn(op, true);
    case GPU_OP_NEXT:
        return next(op);
    case GPU_OP_AGAIN:
        return again(op);
    default:
        return TG_DEVICE_UNKNOWN;
    }
}
