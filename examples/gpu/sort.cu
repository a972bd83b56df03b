/* SPDX-License-Identifier: Apache-2.0
 *
 * Items that publish items: the lines of real files, sorted by the resident engine on a GPU. The host
 * publishes one item for all lines; a warp divides them by one of them and publishes an item for what is less
 * and one for what is greater, and so on, until 32 lines are left. Nobody but the device knows how many items
 * there will be; tg_engine_settle waits for all of them. The order is compared with that of the CPU's qsort,
 * and -p prints the lines, so that `LC_ALL=C sort` is a judge from outside.
 *
 *     example_gpu_sort [-p] FILE...
 *
 * Exit 0: they agree; 1: they do not, or something failed; 2: usage; 77: there is no GPU here. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <tidegate/engine.h>

#include <cuda_runtime.h>

#include "sort.h"

enum { QUEUE = 4096 };
static const size_t bytes_max = (size_t)1 << 30, lines_max = (size_t)1 << 27;
/* The opcode with the engine's kernel, as nvcc made it of sort_device.cu (CMakeLists.txt). */
extern "C" const unsigned char sort_image[], sort_image_end[];
static const uint64_t second = 1000000000;

/* ---- Lines ----------------------------------------------------------------------------------------------
 */

static uint8_t *bytes;
static size_t used;
static struct line *lines;
static uint32_t count;

/* Takes in a file; what cannot be read, or is too much, is named and left out. */
static void take_file(const char *name)
{
    FILE *f = fopen(name, "rb");
    size_t have = f ? fread(bytes + used, 1, bytes_max - used, f) : 0;
    if (!f || ferror(f))
        fprintf(stderr, "%s: left out: %s\n", name, strerror(errno));
    else if (used + have == bytes_max)
        fprintf(stderr, "%s: left out: too much at once\n", name);
    else
        used += have;
    if (used > 0 && bytes[used - 1] != '\n')
        bytes[used++] = '\n';
    if (f)
        fclose(f);
}

static void find_lines(void)
{
    for (size_t at = 0; at < used && count < lines_max;) {
        const uint8_t *end = (const uint8_t *)memchr(bytes + at, '\n', used - at);
        size_t size = (size_t)(end - (bytes + at));
        struct line l = {0, (uint32_t)at, (uint32_t)size};
        for (size_t i = 0; i < 8; i++)
            l.key = l.key << 8 | (i < size ? bytes[at + i] : 0);
        lines[count++] = l;
        at += size + 1;
        if (count == lines_max && at < used)
            fprintf(stderr, "left out: what comes after %u lines\n", count);
    }
}

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* ---- With the engine ------------------------------------------------------------------------------------
 */

/* All memory of the device is had before the engine opens: freeing waits for every kernel, and its never
 * ends. */
static cudaError_t upload(struct text *t, struct text **ret_there)
{
    size_t size = count * sizeof(*lines);
    cudaError_t e = cudaMalloc((void **)&t->bytes, used);
    e = e ? e : cudaMalloc((void **)&t->lines[0], size);
    e = e ? e : cudaMalloc((void **)&t->lines[1], size);
    e = e ? e : cudaMalloc((void **)ret_there, sizeof(*t));
    e = e ? e : cudaMemcpy((void *)t->bytes, bytes, used, cudaMemcpyHostToDevice);
    e = e ? e : cudaMemcpy(t->lines[0], lines, size, cudaMemcpyHostToDevice);
    return e ? e : cudaMemcpy(*ret_there, t, sizeof(*t), cudaMemcpyHostToDevice);
}

static int open_engine(struct tg_engine **ret_engine)
{
    struct tg_engine_options options;
    tg_engine_options_init(&options);
    options.backend = "cuda";
    options.device_image = sort_image;
    options.device_image_bytes = (size_t)(sort_image_end - sort_image);
    options.device_items = QUEUE;
    int error = tg_engine_open(&options, ret_engine);
    if (error)
        fprintf(stderr, "no engine: %s\n", tg_engine_open_reason());
    return error ? error : tg_engine_register_device(*ret_engine, OP_SORT, TG_DEVICE_WARP);
}

/* Sorts the lines on the device; *ret_took seconds from the first item to the end of the last. */
static int sort_there(const struct text *there, double *ret_took)
{
    static struct tg_engine_stats stats;
    struct tg_engine *engine;
    uint64_t where = (uint64_t)(uintptr_t)there;
    const uint32_t args[5] = {(uint32_t)where, (uint32_t)(where >> 32), 0, count, 0};
    int error = open_engine(&engine);
    if (error)
        return error;
    double start = now();
    error = tg_engine_submit(engine, 0, TG_PRIORITY_NORMAL, OP_SORT, args, 5, NULL);
    error = error ? error : tg_engine_settle(engine, 60 * second);
    *ret_took = now() - start;
    tg_engine_stats(engine, &stats);
    int closed = tg_engine_close(engine, 60 * second, NULL);
    if (error || closed || stats.faults)
        return error ? error : closed ? closed : -EIO;
    fprintf(stderr, "%llu items, of which one was the host's\n", (unsigned long long)stats.done);
    return 0;
}

static int by_text(const void *a, const void *b)
{
    return compare_lines(bytes, (const struct line *)a, (const struct line *)b);
}

static int run(const struct text *t, const struct text *there, bool print)
{
    double took = 0;
    uint32_t wrong = 0;
    int error = sort_there(there, &took);
    struct line *sorted = (struct line *)malloc(count * sizeof(*sorted));
    if (error || !sorted)
        return error ? error : -ENOMEM;
    if (cudaMemcpy(sorted, t->lines[0], count * sizeof(*sorted), cudaMemcpyDeviceToHost) != cudaSuccess)
        return -EIO;
    double start = now();
    qsort(lines, count, sizeof(*lines), by_text);
    double plain = now() - start;
    for (uint32_t i = 0; i < count; i++) /* lines of the same bytes may have changed places */
        wrong += sorted[i].begin >= used || by_text(&sorted[i], &lines[i]) != 0;
    for (uint32_t i = 0; i < count && print && !wrong; i++)
        fwrite(bytes + sorted[i].begin, 1, sorted[i].size + 1, stdout);
    fprintf(stderr, "%u lines, %.1f MB: %.4f s by the engine, %.3f s by one CPU thread; %u differ\n", count,
            (double)used / 1e6, took, plain, wrong);
    free(sorted);
    return wrong ? -EBADMSG : 0;
}

int main(int argc, char **argv)
{
    struct text text, *there = NULL;
    int option, devices = 0;
    bool print = false;
    while ((option = getopt(argc, argv, "p")) == 'p')
        print = true;
    if (option != -1 || optind >= argc) {
        fprintf(stderr, "usage: %s [-p] FILE...\n", argv[0]);
        return 2;
    }
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        fprintf(stderr, "SKIPPED: no GPU here\n");
        return 77;
    }
    bytes = (uint8_t *)malloc(bytes_max + 1); /* only what is used becomes memory */
    lines = (struct line *)malloc(lines_max * sizeof(*lines));
    for (; bytes && lines && optind < argc; optind++)
        take_file(argv[optind]);
    if (!bytes || !lines)
        return 1;
    find_lines();
    if (count == 0) {
        fprintf(stderr, "%s: no lines\n", argv[0]);
        return 1;
    }
    cudaError_t e = upload(&text, &there);
    if (e)
        fprintf(stderr, "%s: %s\n", argv[0], cudaGetErrorString(e));
    int error = e ? -EIO : run(&text, there, print);
    if (error && !e)
        fprintf(stderr, "%s: %s\n", argv[0], strerror(-error));
    return error ? 1 : 0;
}
