/* SPDX-License-Identifier: Apache-2.0
 *
 * Latency-critical work beside a background batch, on one resident engine on a GPU. The urgent work is a
 * small matrix-vector product, 512 x 512: sixteen CRITICAL items, a warp and 32 rows each, that end in a
 * fence; the vector lies in pinned memory of the host and so does the result. The batch is SHA-256 of many
 * pieces of a buffer as LOW items, a lane each, which never lets a worker rest. All products and all sums are
 * compared with the CPU's.
 *
 *     example_gpu_gemv [PRODUCTS]       default 2000
 *
 * Prints how long a product takes alone and beside the batch. Exit 0: all agree; 1: one does not, or
 * something failed; 2: usage; 77: there is no GPU here. */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tidegate/engine.h>

#include <cuda_runtime.h>

#include "gemv.h"
#include "sha256.h"

enum {
    ITEMS = SIDE / ROWS,
    BATCH = 64,
};
/* The opcodes with the engine's kernel, as nvcc made them of gemv_device.cu (CMakeLists.txt). */
extern "C" const unsigned char gemv_image[], gemv_image_end[];
static const uint64_t second = 1000000000;

/* ---- What lies where ----------------------------------------------------------------------------------- */

struct place {
    float *matrix, *in, *out; /* the host's */
    uint32_t *pieces, (*digest)[8];
    struct task *task; /* on the device */
};

/* All memory of the device is had before the engine opens: freeing waits for every kernel, and its never
 * ends. */
static cudaError_t make_place(struct place *p)
{
    struct task t;
    size_t matrix_bytes = sizeof(float) * SIDE * SIDE, piece_bytes = (size_t)PIECES * PIECE_BYTES;
    p->matrix = (float *)malloc(matrix_bytes);
    p->pieces = (uint32_t *)malloc(piece_bytes);
    if (!p->matrix || !p->pieces)
        return cudaErrorMemoryAllocation;
    for (uint32_t i = 0, x = 1; i < SIDE * SIDE; i++)
        p->matrix[i] = (float)(int32_t)(x = x * 1664525u + 1013904223u) / 2147483648.0f;
    for (uint32_t i = 0, x = 2; i < piece_bytes / 4; i++)
        p->pieces[i] = x = x * 1664525u + 1013904223u;
    cudaError_t e = cudaHostAlloc((void **)&p->in, sizeof(float) * SIDE, cudaHostAllocMapped);
    e = e ? e : cudaHostAlloc((void **)&p->out, sizeof(float) * SIDE, cudaHostAllocMapped);
    e = e ? e : cudaHostAlloc((void **)&p->digest, (size_t)PIECES * 32, cudaHostAllocMapped);
    e = e ? e : cudaHostGetDevicePointer((void **)&t.in, p->in, 0);
    e = e ? e : cudaHostGetDevicePointer((void **)&t.out, p->out, 0);
    e = e ? e : cudaHostGetDevicePointer((void **)&t.digest, p->digest, 0);
    e = e ? e : cudaMalloc((void **)&t.matrix, matrix_bytes);
    e = e ? e : cudaMalloc((void **)&t.pieces, piece_bytes);
    e = e ? e : cudaMalloc((void **)&p->task, sizeof(t));
    e = e ? e : cudaMemcpy((void *)t.matrix, p->matrix, matrix_bytes, cudaMemcpyHostToDevice);
    e = e ? e : cudaMemcpy((void *)t.pieces, p->pieces, piece_bytes, cudaMemcpyHostToDevice);
    return e ? e : cudaMemcpy(p->task, &t, sizeof(t), cudaMemcpyHostToDevice);
}

static void fill_args(uint32_t args[3], const struct place *p, uint32_t third)
{
    args[0] = (uint32_t)(uintptr_t)p->task;
    args[1] = (uint32_t)((uint64_t)(uintptr_t)p->task >> 32);
    args[2] = third;
}

/* ---- The urgent work ----------------------------------------------------------------------------------- */

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

/* 0 when every element is within what float rounding over SIDE terms allows. */
static int wrong_product(const struct place *p)
{
    for (uint32_t r = 0; r < SIDE; r++) {
        double sum = 0, size = 0;
        for (uint32_t k = 0; k < SIDE; k++) {
            double term = (double)p->matrix[r * SIDE + k] * p->in[k];
            sum += term;
            size += fabs(term);
        }
        if (!(fabs(p->out[r] - sum) <= size * 1e-5))
            return 1;
    }
    return 0;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Products one after the other; us of each, sorted. */
static int products(struct tg_engine *engine, struct place *p, uint32_t n, double *us)
{
    uint32_t args[ITEMS][3], x = 7;
    struct tg_batch_item items[ITEMS];
    for (uint32_t i = 0; i < ITEMS; i++) {
        fill_args(args[i], p, i * ROWS);
        items[i] = (struct tg_batch_item){OP_ROWS, args[i], 3};
    }
    for (uint32_t i = 0; i < n; i++) {
        struct tg_item fence;
        for (uint32_t k = 0; k < SIDE; k++) {
            p->in[k] = (float)(int32_t)(x = x * 1664525u + 1013904223u) / 2147483648.0f;
            p->out[k] = NAN;
        }
        double start = now();
        int error = tg_engine_submit_batch(engine, 0, TG_PRIORITY_CRITICAL, items, ITEMS, i, &fence);
        while (!error && (error = tg_engine_poll(engine, &fence)) == -EINPROGRESS)
            error = now() - start > 10e6 ? -ETIMEDOUT : 0;
        us[i] = now() - start;
        if (error)
            return error;
        if (wrong_product(p)) {
            fprintf(stderr, "product %u is wrong\n", i);
            return -EBADMSG;
        }
    }
    qsort(us, n, sizeof(*us), by_value);
    return 0;
}

/* ---- The batch ----------------------------------------------------------------------------------------- */

struct batch {
    struct tg_engine *engine;
    struct place *p;
    volatile bool stop;
    uint64_t done;
    int error;
};

/* Publishes pieces, round after round, until told to stop; always whole rounds. */
static void *feed(void *context)
{
    struct batch *b = (struct batch *)context;
    uint32_t args[BATCH][3];
    struct tg_batch_item items[BATCH];
    do {
        for (uint32_t i = 0; i < PIECES && !b->error;) {
            for (uint32_t k = 0; k < BATCH; k++) {
                fill_args(args[k], b->p, i + k);
                items[k] = (struct tg_batch_item){OP_PIECE, args[k], 3};
            }
            int r = tg_engine_submit_many(b->engine, 1, TG_PRIORITY_LOW, items, BATCH, NULL);
            if (!r)
                i += BATCH;
            else if (r == -EAGAIN)
                r = tg_engine_wait_space(b->engine, TG_PRIORITY_LOW, 60 * second);
            b->error = r;
        }
        b->done += PIECES;
    } while (!b->stop && !b->error);
    return NULL;
}

static uint32_t wrong_pieces(const struct place *p)
{
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < PIECES; i++) {
        uint32_t plain[8];
        sha256(p->pieces + (size_t)i * (PIECE_BYTES / 4), PIECE_BYTES, plain);
        wrong += memcmp(plain, p->digest[i], sizeof(plain)) != 0;
    }
    return wrong;
}

/* ---- All of it ----------------------------------------------------------------------------------------- */

static void report(const char *when, const double *us, uint32_t n)
{
    printf("product of %d x %d, %-21s p50 %7.1f us  p99 %7.1f us  longest %7.1f us\n", SIDE, SIDE, when,
           us[n / 2], us[(uint64_t)n * 99 / 100], us[n - 1]);
}

static int beside_the_batch(struct tg_engine *engine, struct place *p, uint32_t n, double *us)
{
    struct batch batch = {engine, p, false, 0, 0};
    pthread_t thread;
    struct timespec nap = {0, 20000000};
    int error = -pthread_create(&thread, NULL, feed, &batch);
    if (error)
        return error;
    nanosleep(&nap, NULL);
    double start = now();
    error = products(engine, p, n, us);
    batch.stop = true;
    pthread_join(thread, NULL);
    error = error ? error : batch.error;
    error = error ? error : tg_engine_settle(engine, 60 * second);
    double took = now() - start;
    if (error)
        return error;
    report("beside the batch:", us, n);
    uint32_t wrong = wrong_pieces(p);
    printf("batch: %.2f M sums of %d bytes a second; %u of %d differ from the CPU's\n",
           (double)batch.done / took, PIECE_BYTES, wrong, PIECES);
    return wrong ? -EBADMSG : 0;
}

static int open_engine(struct tg_engine **ret_engine)
{
    struct tg_engine_options options;
    tg_engine_options_init(&options);
    options.backend = "cuda";
    options.slots = 65536;
    options.device_image = gemv_image;
    options.device_image_bytes = (size_t)(gemv_image_end - gemv_image);
    int error = tg_engine_open(&options, ret_engine);
    if (error)
        fprintf(stderr, "no engine: %s\n", tg_engine_open_reason());
    error = error ? error : tg_engine_register_device(*ret_engine, OP_ROWS, TG_DEVICE_WARP);
    return error ? error : tg_engine_register_device(*ret_engine, OP_PIECE, TG_DEVICE_LANE);
}

static int run(struct place *p, uint32_t n, double *us)
{
    struct tg_engine *engine;
    int error = open_engine(&engine);
    if (error)
        return error;
    error = products(engine, p, n, us);
    if (!error) {
        report("alone:", us, n);
        error = beside_the_batch(engine, p, n, us);
    }
    int closed = tg_engine_close(engine, 60 * second, NULL);
    return error ? error : closed;
}

int main(int argc, char **argv)
{
    struct place place;
    char *end = NULL;
    int devices = 0;
    unsigned long n = argc > 1 ? strtoul(argv[1], &end, 10) : 2000;
    if (argc > 2 || n < 1 || n > 1000000 || (end && *end)) {
        fprintf(stderr, "usage: %s [PRODUCTS]   1 to 1000000\n", argv[0]);
        return 2;
    }
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        fprintf(stderr, "SKIPPED: no GPU here\n");
        return 77;
    }
    double *us = (double *)malloc(n * sizeof(*us));
    cudaError_t e = us ? make_place(&place) : cudaErrorMemoryAllocation;
    if (e)
        fprintf(stderr, "%s: %s\n", argv[0], cudaGetErrorString(e));
    int error = e ? -EIO : run(&place, (uint32_t)n, us);
    if (error && !e)
        fprintf(stderr, "%s: %s\n", argv[0], strerror(-error));
    free(us);
    return error ? 1 : 0;
}
