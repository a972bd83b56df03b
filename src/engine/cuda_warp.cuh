/* SPDX-License-Identifier: Apache-2.0
 * What the dispatcher and the workers need of a warp, on CUDA. All 32 lanes call each of these. */
#ifndef TG_ENGINE_CUDA_WARP_CUH
#define TG_ENGINE_CUDA_WARP_CUH

#include <stdint.h>

#include "engine/device.h"

/* What the engine was opened with; written by the host before the start. A module is loaded for each engine.
 */
extern "C" {
__constant__ struct tg_device_params tg_engine_params;
}

static __device__ __forceinline__ const struct tg_device_params *tg_params(void)
{
    return &tg_engine_params;
}

static __device__ __forceinline__ uint32_t tg_bits(uint32_t mask)
{
    return (uint32_t)__popc(mask);
}
static __device__ __forceinline__ uint32_t tg_warp_ballot(bool value)
{
    return __ballot_sync(0xFFFFFFFFu, value);
}
static __device__ __forceinline__ uint32_t tg_warp_shfl(uint32_t value, uint32_t lane)
{
    return __shfl_sync(0xFFFFFFFFu, value, (int)lane);
}
static __device__ __forceinline__ uint32_t tg_warp_match(uint32_t value)
{
    return __match_any_sync(0xFFFFFFFFu, value);
}
static __device__ __forceinline__ void tg_warp_sync(void)
{
    __syncwarp();
}
/* All lanes of the block; also orders what they wrote. */
static __device__ __forceinline__ bool tg_block_any(bool value)
{
    return __syncthreads_or(value) != 0;
}
static __device__ __forceinline__ void tg_shared_or(uint32_t *word, uint32_t bits)
{
    atomicOr_block(word, bits);
}
static __device__ __forceinline__ void tg_quarter_store(uint32_t *to, const uint32_t v[4])
{
    *reinterpret_cast<uint4 *>(to) = make_uint4(v[0], v[1], v[2], v[3]);
}
/* Nothing was found: on CUDA nobody else waits for this warp's processor. */
static __device__ __forceinline__ void tg_warp_idle(void) {}
static __device__ __forceinline__ uint64_t tg_device_ns(void)
{
    uint64_t ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}
static __device__ __forceinline__ void tg_device_pause(uint32_t ns)
{
    __nanosleep(ns);
}

#endif
