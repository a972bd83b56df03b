/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of bench_gpu share: the rows they report, the floors and contenders that the engine's
 * figures are set against, and how a CUDA call fails. Parts: L latency, T throughput, D device-produced, P
 * priority under a flood, S overtaking, F fairness, I idle, X the device in a process of its own and slots of
 * a foreign host. Every contender is measured in the same run as the engine; a part that cannot run (no card,
 * no library) says so in a row of its own and is not counted.
 */
#ifndef TG_BENCH_GPU_H
#define TG_BENCH_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { GPU_BATCHES = 5, GPU_BODIES = 2, GPU_BURN_THREADS = 128 };
extern const uint32_t gpu_batch[GPU_BATCHES];  /* 1, 8, 64, 1024, 8192 */
extern const uint32_t gpu_body_us[GPU_BODIES]; /* 2, 20 */

struct gpu_quantiles {
    double p50, p99, p999; /* ns */
};

/* Filled by the contenders, 0 where one was not measured. */
struct gpu_floors {
    struct gpu_quantiles flag, launch;
    double launches_1, launches_16;             /* million tasks a second */
    double graph;                               /* the same, 2,048 nodes a launch */
    double array[GPU_BATCHES];                  /* the same, one kernel over an uploaded array */
    struct gpu_quantiles high[GPU_BODIES];      /* high-priority stream under a flood, ns */
    struct gpu_quantiles high_flag[GPU_BODIES]; /* the same, seen by a flag instead of by synchronising */
    double drain;                               /* G slots a second */
};
extern struct gpu_floors gpu_floors;

struct gpu_settings {
    double scale;        /* of the time for each figure; 1: about half a second */
    int device;          /* CUDA's index */
    bool card;           /* there is one */
    const char *backend; /* the engine's: "cuda", "cpu"; NULL: contenders alone */
    uint32_t multiprocessors;
    double clock_ghz; /* of a multiprocessor at its highest */
};
extern struct gpu_settings gpu;

/* Reports a figure: a JSON line now, a line of the table at the end. floor 0: there is none. wanted is what
 * the ratio ought to be, for the table ("<= 1.5"), or NULL. */
void gpu_row(const char *part, const char *name, double value, const char *unit, double floor,
             const char *wanted);
/* Says why a part has no figure. */
void gpu_skip(const char *part, const char *why);

/* A sample of times; full when n == capacity. */
struct gpu_sample {
    uint64_t *ns;
    size_t n, capacity;
};
void gpu_sample_begin(struct gpu_sample *s);
void gpu_sample_add(struct gpu_sample *s, uint64_t ns);
struct gpu_quantiles gpu_sample_end(struct gpu_sample *s);
/* When a figure's time is over: now + scale x seconds, on the monotonic clock. */
uint64_t gpu_until(double seconds);

/* The measurer has a processor of its own. A thread started while it stands aside runs on the others; so does
 * the caller itself then. */
void gpu_stand_aside(bool aside);

/* The contenders; each fills its part of gpu_floors and reports it. */
void gpu_contend_latency(void);
void gpu_contend_throughput(void);
void gpu_contend_priority(void);
void gpu_contend_drain(void);
void gpu_contend_idle(void);

/* The matrix product beside which the engine idles: 8192^3, bf16, random operands. Opened with a share of
 * the multiprocessors (0: all). */
struct gpu_product;
struct gpu_product *gpu_product_open(void); /* NULL: no cuBLAS; it has said so */
double gpu_product_ms(struct gpu_product *p,
                      uint32_t multiprocessors); /* median of products one after the other */
void gpu_product_close(struct gpu_product *p);
/* Blocks that do nothing but hold their multiprocessors, as many as an engine has: what the place alone
 * costs. */
bool gpu_hold(uint32_t blocks, uint32_t threads, size_t shared_bytes);
void gpu_let_go(void);
double gpu_watts(double seconds); /* mean power of the card; 0: not to be had */

/* The engine's figures (gpu_engine.c, gpu_engine_rules.c); by letter. */
void gpu_engine_part(char part);

#ifdef __cplusplus
}

#include <cstdio>
#include <cstdlib>
#ifdef __CUDACC__
#include <cuda_runtime.h>

/* A call that fails ends the program: a figure of a run with an error is none. */
static inline void gpu_must_at(cudaError_t error, const char *what, int line)
{
    if (error == cudaSuccess)
        return;
    fprintf(stderr, "bench_gpu: line %d: %s: %s\n", line, what, cudaGetErrorString(error));
    exit(1);
}
#define GPU_MUST(call) gpu_must_at((call), #call, __LINE__)
#endif
#endif

#endif
