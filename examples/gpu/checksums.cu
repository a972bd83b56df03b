/* SPDX-License-Identifier: Apache-2.0
 *
 * SHA-256 of many real files at once by the resident engine on a GPU: each file is one item, each item runs
 * on one lane, and the digests come back through pinned memory. Every digest is compared with the same sum
 * done by the CPU, and -p prints them as sha256sum does, so that `sha256sum -c` is a judge from outside.
 *
 *     example_gpu_checksums [-p] FILE...
 *
 * Exit 0: all agree; 1: one does not, or something failed; 2: usage; 77: there is no GPU here. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <tidegate/engine.h>

#include <cuda_runtime.h>

#include "checksums.h"
#include "sha256.h"

enum {
    BATCH = 64,
    FILES_MAX = 65536,
};
static const size_t bytes_max = (size_t)1 << 30;
/* The opcodes with the engine's kernel, as nvcc made them of checksums_device.cu (CMakeLists.txt). */
extern "C" const unsigned char checksums_image[], checksums_image_end[];
static const uint64_t second = 1000000000;

/* ---- Files --------------------------------------------------------------------------------------------- */

static uint8_t *bytes; /* of all files, each at a multiple of ALIGN */
static size_t used;
static uint64_t begins[FILES_MAX], sizes[FILES_MAX];
static const char *names[FILES_MAX];
static uint32_t count;

/* Takes in a regular file; what cannot be read, or is too much, is named and left out. */
static void take_file(const char *name)
{
    struct stat st;
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    const char *why = NULL;
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        why = "no regular file that can be read";
    else if (count == FILES_MAX || (size_t)st.st_size > bytes_max - used - ALIGN)
        why = "too much at once";
    size_t have = 0;
    ssize_t n = 1;
    while (!why && have < (size_t)st.st_size && n > 0) {
        n = read(fd, bytes + used + have, (size_t)st.st_size - have);
        have += n > 0 ? (size_t)n : 0;
    }
    if (!why && n < 0)
        why = strerror(errno);
    if (fd >= 0)
        close(fd);
    if (why) {
        fprintf(stderr, "%s: left out: %s\n", name, why);
        return;
    }
    names[count] = name;
    begins[count] = used;
    sizes[count++] = have;
    used = (used + have + ALIGN - 1) / ALIGN * ALIGN;
}

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* ---- With the engine ----------------------------------------------------------------------------------- */

/* All memory of the device is had before the engine opens: freeing waits for every kernel, and its never
 * ends. */
struct place {
    struct files files, *device_files;
    uint32_t (*digest)[8];
};

static cudaError_t upload(struct place *p)
{
    void *device[3] = {NULL, NULL, NULL};
    const void *host[3] = {bytes, begins, sizes};
    size_t size[3] = {used, count * sizeof(*begins), count * sizeof(*sizes)};
    cudaError_t e = cudaHostAlloc((void **)&p->digest, count * sizeof(*p->digest), cudaHostAllocMapped);
    for (int i = 0; i < 3 && !e; i++) {
        e = cudaMalloc(&device[i], size[i] ? size[i] : 1);
        e = e ? e : cudaMemcpy(device[i], host[i], size[i], cudaMemcpyHostToDevice);
    }
    p->files =
        (struct files){(uint8_t *)device[0], (uint64_t *)device[1], (uint64_t *)device[2], NULL, count};
    e = e ? e : cudaHostGetDevicePointer((void **)&p->files.digest, p->digest, 0);
    e = e ? e : cudaMalloc((void **)&p->device_files, sizeof(p->files));
    return e ? e : cudaMemcpy(p->device_files, &p->files, sizeof(p->files), cudaMemcpyHostToDevice);
}

static int submit_all(struct tg_engine *engine, const struct place *p)
{
    uint32_t args[BATCH][3];
    struct tg_batch_item items[BATCH];
    uint64_t where = (uint64_t)p->device_files;
    for (uint32_t i = 0; i < count;) {
        uint32_t n = 0;
        for (; n < BATCH && i + n < count; n++) {
            args[n][0] = (uint32_t)where;
            args[n][1] = (uint32_t)(where >> 32);
            args[n][2] = i + n;
            items[n] = (struct tg_batch_item){OP_SHA256, args[n], 3};
        }
        int error = tg_engine_submit_many(engine, 0, TG_PRIORITY_NORMAL, items, n, NULL);
        if (!error)
            i += n;
        else if (error == -EAGAIN)
            error = tg_engine_wait_space(engine, TG_PRIORITY_NORMAL, 60 * second);
        if (error)
            return error;
    }
    return tg_engine_settle(engine, 60 * second);
}

static int compare(const struct place *p, bool print)
{
    int wrong = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t plain[8];
        sha256((const uint32_t *)(bytes + begins[i]), sizes[i], plain);
        if (memcmp(plain, p->digest[i], sizeof(plain)) != 0) {
            fprintf(stderr, "%s: the GPU's sum is another than the CPU's\n", names[i]);
            wrong++;
        }
        for (int w = 0; w < 8 && print; w++)
            printf("%08x", p->digest[i][w]);
        if (print)
            printf("  %s\n", names[i]);
    }
    return wrong;
}

/* ---- All of it ----------------------------------------------------------------------------------------- */

static int open_engine(struct tg_engine **ret_engine)
{
    struct tg_engine_options options;
    tg_engine_options_init(&options);
    options.backend = "cuda";
    options.slots = 65536;
    options.device_image = checksums_image;
    options.device_image_bytes = (size_t)(checksums_image_end - checksums_image);
    int error = tg_engine_open(&options, ret_engine);
    if (error)
        fprintf(stderr, "no engine: %s\n", tg_engine_open_reason());
    return error ? error : tg_engine_register_device(*ret_engine, OP_SHA256, TG_DEVICE_LANE);
}

static int run(struct place *p, bool print)
{
    struct tg_engine *engine;
    static struct tg_engine_stats stats;
    int error = open_engine(&engine);
    if (error)
        return error;
    double start = now();
    error = submit_all(engine, p);
    double took = now() - start;
    tg_engine_stats(engine, &stats);
    int closed = tg_engine_close(engine, 60 * second, NULL);
    if (error || closed || stats.faults)
        return error ? error : closed ? closed : -EIO;
    start = now();
    int wrong = compare(p, print);
    double plain = now() - start;
    fprintf(stderr, "%u files, %.1f MB: %.3f s by the engine, %.3f s by one CPU thread; %d sums differ\n",
            count, (double)used / 1e6, took, plain, wrong);
    return wrong ? -EBADMSG : 0;
}

int main(int argc, char **argv)
{
    struct place place;
    int option, devices = 0, error;
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
    bytes = (uint8_t *)malloc(bytes_max); /* only what is used becomes memory */
    for (; bytes && optind < argc; optind++)
        take_file(argv[optind]);
    if (!bytes || count == 0)
        return 1;
    cudaError_t e = upload(&place);
    if (e)
        fprintf(stderr, "%s: %s\n", argv[0], cudaGetErrorString(e));
    error = e ? -EIO : run(&place, print);
    if (error && !e)
        fprintf(stderr, "%s: %s\n", argv[0], strerror(-error));
    return error ? 1 : 0;
}
