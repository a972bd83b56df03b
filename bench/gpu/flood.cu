/* SPDX-License-Identifier: Apache-2.0
 *
 * P and D without an engine. P: a tiny kernel in a high-priority stream while a low-priority stream keeps
 * every multiprocessor full of blocks that burn 2 or 20 us; the host waits by synchronising, and, which is
 * quicker, by watching a flag that the kernel sets in pinned memory. D: all threads drain a ring of 65,536
 * slots in device memory with one compare-and-swap and one store a slot, nothing else: no order, no levels,
 * no tenants.
 */
#include <pthread.h>

#include "bench.h"
#include "gpu/gpu.h"

/* ---- P ------------------------------------------------------------------------------------------------- */

__global__ void burn(long long cycles)
{
    long long start = clock64();
    while (clock64() - start < cycles)
        ;
}

__global__ void raise_flag(volatile uint32_t *flag, uint32_t value)
{
    if (threadIdx.x == 0)
        *flag = value;
}

static struct {
    volatile bool on;
    long long cycles;
    uint32_t blocks; /* a launch: about 2 ms of work for the whole card */
} flood;

/* Keeps a few launches under way; its own calls are rare so that they do not stand in the measurer's way. */
static void *keep_full(void *unused)
{
    enum { DEEP = 3 };
    cudaEvent_t done[DEEP];
    cudaStream_t stream;
    int lowest, highest;
    (void)unused;
    gpu_stand_aside(true);
    GPU_MUST(cudaSetDevice(gpu.device));
    GPU_MUST(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
    GPU_MUST(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, lowest));
    for (int i = 0; i < DEEP; i++)
        GPU_MUST(cudaEventCreateWithFlags(&done[i], cudaEventDisableTiming | cudaEventBlockingSync));
    for (uint64_t i = 0; flood.on; i++) {
        if (i >= DEEP)
            GPU_MUST(cudaEventSynchronize(done[i % DEEP]));
        burn<<<flood.blocks, GPU_BURN_THREADS, 0, stream>>>(flood.cycles);
        GPU_MUST(cudaGetLastError());
        GPU_MUST(cudaEventRecord(done[i % DEEP], stream));
    }
    GPU_MUST(cudaStreamSynchronize(stream));
    for (int i = 0; i < DEEP; i++)
        GPU_MUST(cudaEventDestroy(done[i]));
    GPU_MUST(cudaStreamDestroy(stream));
    return NULL;
}

/* Latency of the tiny kernel; pauses of up to 8 us between them, so that they meet the bodies anywhere. */
static struct gpu_quantiles tiny_kernels(bool by_flag)
{
    struct gpu_sample sample;
    cudaStream_t stream;
    uint32_t *flag, *device_flag;
    int lowest, highest;
    uint64_t gap = 1, end = gpu_until(0.5), start = 0;
    GPU_MUST(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
    GPU_MUST(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, highest));
    GPU_MUST(cudaHostAlloc((void **)&flag, 64, cudaHostAllocMapped));
    GPU_MUST(cudaHostGetDevicePointer((void **)&device_flag, flag, 0));
    *flag = 0;
    gpu_sample_begin(&sample);
    for (uint32_t i = 1; start < end; i++) {
        gap = gap * UINT64_C(6364136223846793005) + 1;
        for (uint64_t until = tg_clock_mono_ns() + (gap >> 32) % 8192; tg_clock_mono_ns() < until;)
            ;
        start = tg_clock_mono_ns();
        raise_flag<<<1, 32, 0, stream>>>(device_flag, i);
        if (by_flag)
            while (*(volatile uint32_t *)flag != i && tg_clock_mono_ns() < end + 5000000000u)
                ;
        else
            GPU_MUST(cudaStreamSynchronize(stream));
        if (i > 100)
            gpu_sample_add(&sample, tg_clock_mono_ns() - start);
    }
    GPU_MUST(cudaStreamSynchronize(stream));
    GPU_MUST(cudaStreamDestroy(stream));
    GPU_MUST(cudaFreeHost(flag));
    return gpu_sample_end(&sample);
}

static void priority_under(int body)
{
    pthread_t thread;
    char name[80];
    int a_multiprocessor;
    struct timespec nap = {0, 20000000};
    uint32_t us = gpu_body_us[body];
    GPU_MUST(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&a_multiprocessor, burn, GPU_BURN_THREADS, 0));
    flood.on = true;
    flood.cycles = (long long)((double)us * 1e3 * gpu.clock_ghz);
    flood.blocks = gpu.multiprocessors * (uint32_t)a_multiprocessor * (2000 / us);
    if (pthread_create(&thread, NULL, keep_full, NULL) != 0)
        exit(1);
    nanosleep(&nap, NULL);
    struct gpu_quantiles *s = &gpu_floors.high[body], *f = &gpu_floors.high_flag[body];
    *s = tiny_kernels(false);
    *f = tiny_kernels(true);
    flood.on = false;
    pthread_join(thread, NULL);
    snprintf(name, sizeof(name), "high_priority_stream_synchronised_p50_under_%u_us", us);
    gpu_row("P", name, s->p50, "ns", gpu_floors.flag.p50, NULL);
    snprintf(name, sizeof(name), "high_priority_stream_synchronised_p99_under_%u_us", us);
    gpu_row("P", name, s->p99, "ns", gpu_floors.flag.p50, NULL);
    snprintf(name, sizeof(name), "high_priority_stream_flag_p50_under_%u_us", us);
    gpu_row("P", name, f->p50, "ns", gpu_floors.flag.p50, NULL);
    snprintf(name, sizeof(name), "high_priority_stream_flag_p99_under_%u_us", us);
    gpu_row("P", name, f->p99, "ns", gpu_floors.flag.p50, NULL);
}

void gpu_contend_priority(void)
{
    for (int i = 0; i < GPU_BODIES; i++)
        priority_under(i);
}

/* ---- D ------------------------------------------------------------------------------------------------- */

enum { DRAIN_SLOTS = 65536, DRAIN_THREADS = 256, DRAIN_PASSES = 200 };

struct slot {
    uint32_t status, rest[15];
};

/* PUBLISHED -> CLAIMED by compare-and-swap, then DONE, which for the next pass of anybody is PUBLISHED again
 * where again is set. Each thread tries one slot a pass, always another one. count: slots taken. */
__global__ void drain(struct slot *ring, uint32_t passes, bool again, unsigned long long *count)
{
    uint32_t me = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned long long mine = 0;
    for (uint32_t pass = 0; pass < passes; pass++) {
        uint32_t *status = &ring[(me + pass * 997u) % DRAIN_SLOTS].status;
        if (atomicCAS(status, 1, 2) == 1) {
            *(volatile uint32_t *)status = again ? 1 : 3;
            mine++;
        }
    }
    for (int at = 16; at > 0; at /= 2)
        mine += __shfl_down_sync(0xFFFFFFFFu, mine, at);
    if (threadIdx.x % 32 == 0)
        atomicAdd(count, mine);
}

__global__ void publish_all(struct slot *ring)
{
    ring[blockIdx.x * blockDim.x + threadIdx.x].status = 1;
}

/* Slots a second, in thousand millions, of one launch over a ring full of work. */
static double drained(struct slot *ring, unsigned long long *count, uint32_t blocks, uint32_t passes,
                      bool again)
{
    cudaEvent_t event[2];
    unsigned long long taken = 0;
    float ms = 0;
    GPU_MUST(cudaEventCreate(&event[0]));
    GPU_MUST(cudaEventCreate(&event[1]));
    GPU_MUST(cudaMemset(count, 0, sizeof(*count)));
    publish_all<<<DRAIN_SLOTS / DRAIN_THREADS, DRAIN_THREADS>>>(ring);
    GPU_MUST(cudaEventRecord(event[0], 0));
    drain<<<blocks, DRAIN_THREADS>>>(ring, passes, again, count);
    GPU_MUST(cudaEventRecord(event[1], 0));
    GPU_MUST(cudaEventSynchronize(event[1]));
    GPU_MUST(cudaEventElapsedTime(&ms, event[0], event[1]));
    GPU_MUST(cudaMemcpy(&taken, count, sizeof(taken), cudaMemcpyDeviceToHost));
    GPU_MUST(cudaEventDestroy(event[0]));
    GPU_MUST(cudaEventDestroy(event[1]));
    return (double)taken / ((double)ms * 1e6);
}

void gpu_contend_drain(void)
{
    struct slot *ring;
    unsigned long long *count;
    double once = 0, passes = 0;
    GPU_MUST(cudaMalloc((void **)&ring, DRAIN_SLOTS * sizeof(*ring)));
    GPU_MUST(cudaMalloc((void **)&count, sizeof(*count)));
    for (int i = 0; i < 9; i++) {
        double r = drained(ring, count, DRAIN_SLOTS / DRAIN_THREADS, 1, false);
        once = r > once ? r : once;
        r = drained(ring, count, gpu.multiprocessors * (2048 / DRAIN_THREADS), DRAIN_PASSES, true);
        passes = r > passes ? r : passes;
    }
    gpu_floors.drain = passes > once ? passes : once;
    gpu_row("D", "plain_cas_drain_once_best_of_9", once, "G/s", 0, NULL);
    gpu_row("D", "plain_cas_drain_again_and_again_best_of_9", passes, "G/s", 0, NULL);
    GPU_MUST(cudaFree(count));
    GPU_MUST(cudaFree(ring));
}
