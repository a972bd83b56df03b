/* SPDX-License-Identifier: Apache-2.0
 *
 * TG_HD marks a function that the host and a GPU kernel share: nothing for a C or C++ compiler, host and
 * device for a CUDA compiler. Such a function uses no library call, no allocation and no I/O. TG_DEVICE marks
 * one that belongs to the kernel alone; a C++ compiler sees it where the kernel is emulated (tests).
 */
#ifndef TIDEGATE_HD_H
#define TIDEGATE_HD_H

#ifdef __CUDACC__
#define TG_HD __host__ __device__
#define TG_DEVICE static __device__
#define TG_DEVICE_CALL static __device__ __noinline__ /* large or rare: not copied into its callers */
#else
#define TG_HD
#define TG_DEVICE static inline
#define TG_DEVICE_CALL static inline
#endif

/* Unrolls the loop that follows; compilers leave loops over atomics as they are. */
#if defined(__CUDACC__) || defined(__clang__)
#define TG_UNROLL _Pragma("unroll")
#else
#define TG_UNROLL _Pragma("GCC unroll 12")
#endif

#include <stdint.h>

/* The number of the lowest set bit; word is not 0. */
TG_HD static inline uint32_t tg_hd_first_bit(uint64_t word)
{
#ifdef __CUDA_ARCH__
    return (uint32_t)__ffsll((long long)word) - 1u;
#else
    return (uint32_t)__builtin_ctzll(word);
#endif
}

/* The number of the highest set bit; word is not 0. */
TG_HD static inline uint32_t tg_hd_last_bit(uint32_t word)
{
#ifdef __CUDA_ARCH__
    return 31u - (uint32_t)__clz((int)word);
#else
    return 31u - (uint32_t)__builtin_clz(word);
#endif
}

/* How many bits are set. */
TG_HD static inline uint32_t tg_hd_bits(uint32_t word)
{
#ifdef __CUDA_ARCH__
    return (uint32_t)__popc(word);
#else
    return (uint32_t)__builtin_popcount(word);
#endif
}

#endif
