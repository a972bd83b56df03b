/* SPDX-License-Identifier: Apache-2.0
 * The opcodes of gemv.cu, compiled together with the engine's kernel. */
#include <errno.h>

#include <tidegate/device.cuh>

#include "gemv.h"
#include "sha256.h"

/* A warp: each row's products are spread over the lanes, then added up. */
TG_DEVICE int multiply_rows(const struct tg_device_op *op)
{
    const struct task *t = (const struct task *)((uint64_t)op->args[1] << 32 | op->args[0]);
    uint32_t first = op->args[2], lane = op->lane;
    if (first > SIDE - ROWS)
        return -EINVAL; /* becomes a FAULT */
    float x[SIDE / 32];
    for (uint32_t k = 0; k < SIDE / 32; k++)
        x[k] = ((const volatile float *)t->in)[32 * k + lane]; /* another one each time: never from a cache */
    float mine = 0;
    for (uint32_t r = 0; r < ROWS; r++) {
        const float *row = t->matrix + (size_t)(first + r) * SIDE;
        float sum = 0;
        for (uint32_t k = 0; k < SIDE / 32; k++)
            sum += row[32 * k + lane] * x[k];
        for (uint32_t at = 16; at > 0; at /= 2)
            sum += __shfl_xor_sync(0xFFFFFFFFu, sum, at);
        if (lane == r)
            mine = sum;
    }
    t->out[first + lane] = mine;
    return TG_OP_FINISHED;
}

TG_DEVICE int sum_piece(const struct tg_device_op *op)
{
    const struct task *t = (const struct task *)((uint64_t)op->args[1] << 32 | op->args[0]);
    uint32_t digest[8], i = op->args[2];
    if (i >= PIECES)
        return -EINVAL;
    sha256(t->pieces + (size_t)i * (PIECE_BYTES / 4), PIECE_BYTES, digest);
    for (int w = 0; w < 8; w++)
        t->digest[i][w] = digest[w];
    return TG_OP_FINISHED;
}

TG_DEVICE int tg_device_run(struct tg_device_op *op)
{
    switch (op->opcode) {
    case OP_ROWS:
        return multiply_rows(op);
    case OP_PIECE:
        return sum_piece(op);
    default:
        return TG_DEVICE_UNKNOWN;
    }
}
