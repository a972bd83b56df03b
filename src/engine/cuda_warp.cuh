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
static __device__ __forceinline__ uint32_t tg_warp_sum(uint32_t value)
{
    return __reduce_add_sync(0xFFFFFFFFu, value);
}
static __device__ __forceinline__ void tg_warp_sync(void)
{
    __syncwarp();
}
/* Where lanes may have gone different ways: those that are here together with the same key, and a value of
 * one of them. */
static __device__ __forceinline__ uint32_t tg_lanes_here(uint32_t lane, uint32_t key)
{
    (void)lane;
    return __match_any_sync(__activemask(), key);
}
static __device__ __forceinline__ uint32_t tg_lanes_shfl(uint32_t lanes, uint32_t value, uint32_t lane)
{
    return __shfl_sync(lanes, value, (int)lane);
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
static __device__ __forceinline__ void tg_quarter_load(uint32_t v[4], const uint32_t *from)
{
    uint4 q = *reinterpret_cast<const uint4 *>(from);
    v[0] = q.x;
    v[1] = q.y;
    v[2] = q.z;
    v[3] = q.w;
}
/* The processor's own clock, for short waits. */
static __device__ __forceinline__ uint32_t tg_device_ticks(void)
{
    uint32_t ticks;
    asm volatile("mov.u32 %0, %%clock;" : "=r"(ticks));
    return ticks;
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
