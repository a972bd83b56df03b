/* SPDX-License-Identifier: Apache-2.0
 * A warp of 32 lanes on one thread: a fiber a lane, switched at every warp operation. So the engine's device
 * code runs here as it is. An operation that not all lanes reach together is an error of that code and ends
 * the program.
 */
#ifndef TG_TESTS_EMULATED_WARP_H
#define TG_TESTS_EMULATED_WARP_H

#include <stdbool.h>
#include <stdint.h>

/* Runs body(argument, lane) on 32 lanes of the calling thread until all have returned. */
void emulated_warp_run(void (*body)(void *argument, uint32_t lane), void *argument);

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
void tg_warp_sync(void);
bool tg_block_any(bool value);
void tg_shared_or(uint32_t *word, uint32_t bits);
void tg_quarter_store(uint32_t *to, const uint32_t v[4]);
uint64_t tg_device_ns(void);
void tg_warp_idle(void);
void tg_device_pause(uint32_t ns);

#endif
