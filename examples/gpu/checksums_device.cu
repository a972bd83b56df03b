/* SPDX-License-Identifier: Apache-2.0
 * The opcode of checksums.cu, compiled together with the engine's kernel. */
#include <errno.h>

#include <tidegate/device.cuh>

#include "checksums.h"
#include "sha256.h"

TG_DEVICE int sum_file(const struct tg_device_op *op)
{
    const struct files *f = (const struct files *)((uint64_t)op->args[1] << 32 | op->args[0]);
    uint32_t digest[8], i = op->args[2];
    if (i >= f->count)
        return -EINVAL; /* becomes a FAULT */
    sha256((const uint32_t *)(f->bytes + f->begin[i]), f->size[i], digest);
    for (int w = 0; w < 8; w++)
        f->digest[i][w] = digest[w];
    return TG_OP_FINISHED;
}

TG_DEVICE int tg_device_run(struct tg_device_op *op)
{
    return op->opcode == OP_SHA256 ? sum_file(op) : TG_DEVICE_UNKNOWN;
}
