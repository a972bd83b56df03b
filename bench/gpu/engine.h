/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine's side of bench_gpu: opening it on the chosen backend with the bench's own opcodes, and the
 * parts.
 */
#ifndef TG_BENCH_GPU_ENGINE_H
#define TG_BENCH_GPU_ENGINE_H

#include <tidegate/engine.h>

#include "gpu/gpu.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    GPU_OP_EMPTY = 8, /* nothing, but by a worker and not by whoever finds it */
    GPU_OP_BURN =
        9, /* args: microseconds, again, the device's cycles a microsecond: with again it goes behind what
            * waits and runs once more, until  observable word GPU_STOP_WORD is not zero */
    GPU_OP_AGAIN =
        10, /* nothing, again and again until then: what the queue alone can do with items of its own */
    GPU_OP_NEXT = 11, /* publishes itself, until then */
    GPU_OP_BURN_NEXT =
        12, /* args as GPU_OP_BURN: the same, but publishes its successor instead of going back */
    GPU_STOP_WORD = 0,
};
#define GPU_LIMIT_NS UINT64_C(20000000000)

/* Ends the program when error is one: the figures of such a run are none. */
void gpu_engine_must(int error, const char *what);
/* Options for the backend in gpu.backend. */
void gpu_engine_options(struct tg_engine_options *ret, uint32_t slots);
bool gpu_engine_on_device(void);
/* Workers that run bodies of ours, as many as the options ask for. */
uint32_t gpu_engine_workers(const struct tg_engine_options *o);
/* Opens it and registers the opcodes above. */
struct tg_engine *gpu_engine_open(const struct tg_engine_options *options);
void gpu_engine_close(struct tg_engine *e);
/* Submits one item, waiting for room. */
void gpu_engine_submit(struct tg_engine *e, uint32_t tenant, uint32_t level, uint32_t opcode,
                       const uint32_t *args, uint32_t count, struct tg_item *ret_item);
/* Publish to DONE seen by the host, one outstanding; pauses of up to pause_ns before each. */
struct gpu_quantiles gpu_engine_round_trips(struct tg_engine *e, uint32_t level, uint32_t opcode,
                                            uint32_t pause_ns);

/* Million empty items a second from one thread, published `batch` at a time, over `levels` priorities in
 * turn, by an engine with these options. */
double gpu_engine_rate(const struct tg_engine_options *o, uint32_t batch, uint32_t levels);

void gpu_engine_latency(void);
void gpu_engine_throughput(void);
void gpu_engine_priority(void);
void gpu_engine_device_produced(void);
void gpu_engine_overtaking(void);
void gpu_engine_fairness(void);
void gpu_engine_idle(void);
void gpu_engine_ways(void);

#ifdef __cplusplus
}
#endif

#endif
