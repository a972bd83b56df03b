/* SPDX-License-Identifier: Apache-2.0
 * The wire header inside device code: its static assertions hold for the device compiler, and a kernel
 * can name its fields and constants. Compiled by test_abi_cuda.sh, never run. */
#include <tidegate/abi.h>

__global__ void abi_probe(struct tg_slot *ring, struct tg_control *control, uint32_t *out)
{
    struct tg_slot *slot = &ring[blockIdx.x];
    if (slot->status == TG_SLOT_PUBLISHED && slot->opcode == TG_OP_BATCH_FENCE) {
        control->epoch += 1;
        out[TG_CONTROL_OBSERVABLE_BASE] = slot->args[1];
    }
    out[0] = (uint32_t)sizeof(struct tg_slot) + TG_OP_PACKED_SLOT;
}

static_assert(sizeof(struct tg_slot) == 64 && alignof(struct tg_slot) == 64, "one aligned cache line");
