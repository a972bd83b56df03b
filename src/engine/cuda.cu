/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine's kernel: block 0 is the dispatcher (a warp a role), the others are workers. It never ends until
 * the dispatcher leaves. The host half loads it through the driver (cuda_driver.c). An application that has
 * opcodes of its own for the device compiles this file's content with them: <tidegate/device.cuh>.
 */
#include "engine/cuda_warp.cuh"
#include "engine/dispatch_main.h"

static __shared__ struct tg_shared tg_block_state;

static __device__ __forceinline__ struct tg_shared *tg_state(void)
{
    return &tg_block_state;
}

#ifndef TG_DEVICE_OPCODES
static __device__ int tg_device_run(struct tg_device_op *op)
{
    (void)op;
    return TG_DEVICE_UNKNOWN;
}
#endif

extern "C" __global__ void __launch_bounds__(TG_BLOCK_LANES, 1) tg_engine_kernel(void)
{
    uint32_t warp = threadIdx.x / TG_LANES;
    uint32_t lane = threadIdx.x % TG_LANES;
    if (blockIdx.x == 0) {
        tg_block_start(tg_state(), threadIdx.x, TG_BLOCK_LANES);
        __syncthreads();
        tg_dispatcher(warp, lane);
        return;
    }
    if (threadIdx.x == 0)
        tg_add_acqrel_u32(tg_params()->arrivals, 1u); /* A2 acq_rel: pairs with A1 */
    uint32_t number = (blockIdx.x - 1) * (TG_BLOCK_LANES / TG_LANES) + warp;
    if (number < tg_params()->workers)
        tg_worker_warp(number, lane);
}
