/* SPDX-License-Identifier: Apache-2.0
 * Warps of 32 lanes on one thread: a fiber a lane, switched at every warp operation. So the engine's device
 * code runs here as it is. An operation that not all lanes of a warp reach together is an error of that code
 * and ends the program. The warps of a block take turns: where one has nothing to do, and, by a seed, between
 * any two lanes at a warp operation.
 */
#ifndef TG_TESTS_EMULATED_WARP_H
#define TG_TESTS_EMULATED_WARP_H

#include <stdbool.h>
#include <stdint.h>

#define EMULATED_MOST_WARPS 4u

/* Runs body(argument, warp, lane) on 32 lanes of each of so many warps until all have returned. */
void emulated_block_run(uint32_t warps, void (*body)(void *argument, uint32_t warp, uint32_t lane),
                        void *argument, uint64_t seed);

/* Four warps, each on a thread of its own, that meet in tg_block_any. */
struct emulated_block;
struct emulated_block *emulated_block_new(void);
void emulated_block_free(struct emulated_block *block);
void emulated_block_join(
    struct emulated_block *block); /* by each of the four threads, before its warp runs */

/* The operations of cuda_warp.cuh. */
static inline uint32_t tg_bits(uint32_t mask)
{
    return (uint32_t)__builtin_popcount(mask);
}
uint32_t tg_warp_ballot(bool value);
uint32_t tg_warp_shfl(uint32_t value, uint32_t lane);
uint32_t tg_warp_match(uint32_t value);
uint32_t tg_warp_sum(uint32_t value);
void tg_warp_sync(void);
/* Here each lane goes its way alone. */
static inline uint32_t tg_lanes_here(uint32_t lane, uint32_t key)
{
    (void)key;
    return 1u << lane;
}
static inline uint32_t tg_lanes_shfl(uint32_t lanes, uint32_t value, uint32_t lane)
{
    (void)lanes;
    (void)lane;
    return value;
}
bool tg_block_any(bool value);
void tg_shared_or(uint32_t *word, uint32_t bits);
void tg_quarter_store(uint32_t *to, const uint32_t v[4]);
void tg_quarter_load(uint32_t v[4], const uint32_t *from);
uint64_t tg_device_ns(void);
uint32_t tg_device_ticks(void);
void tg_warp_idle(void);
void tg_device_pause(uint32_t ns);

#endif
