/* SPDX-License-Identifier: Apache-2.0
 *
 * L and T without an engine: the bare flag round trip host -> GPU -> host through mapped pinned memory, which
 * is the least any engine can do; launch and synchronise; one kernel a task on 1 and 16 streams; a CUDA graph
 * of 2,048 nodes; and one kernel over an uploaded array of items, which writes a word a task back to the host
 * as an engine does. The array has no priorities and no tenants and wins large uniform batches. The resident
 * kernel stops by its own clock too.
 */
#include "bench.h"
#include "gpu/gpu.h"

#define LIMIT_CYCLES 60000000000ll /* half a minute and more: a resident kernel is never left behind */

/* ---- Kernels ------------------------------------------------------------------------------------------- */

/* One flag to and fro. Words lie 128 bytes apart; each is written by one side. STOP ends it. */
#define STOP 0xFFFFFFFFu

__global__ void echo(const volatile uint32_t *ping, volatile uint32_t *pong, long long limit_cycles)
{
    long long start = clock64();
    for (uint32_t seen = 0; seen != STOP && clock64() - start < limit_cycles;) {
        uint32_t now = *ping;
        if (now == seen)
            continue;
        seen = now;
        *pong = now;
    }
}

__global__ void empty(const uint32_t *item)
{
    (void)item;
}

struct item {
    uint32_t words[16];
};

/* One thread a task: reads its item, says done. */
__global__ void run_array(const struct item *items, uint32_t n, uint32_t *done)
{
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        done[i] = items[i].words[0] + 2u;
}

/* ---- Latency ------------------------------------------------------------------------------------------- */

static struct gpu_quantiles flag_round_trip(void)
{
    uint32_t *words, *device_words;
    struct gpu_sample sample;
    GPU_MUST(cudaHostAlloc((void **)&words, 4096, cudaHostAllocMapped));
    GPU_MUST(cudaHostGetDevicePointer((void **)&device_words, words, 0));
    volatile uint32_t *ping = words, *pong = words + 64;
    *ping = *pong = 0;
    echo<<<1, 1>>>(device_words, device_words + 64, LIMIT_CYCLES);
    GPU_MUST(cudaGetLastError());
    gpu_sample_begin(&sample);
    uint64_t end = gpu_until(0.5), start = 0;
    for (uint32_t i = 1; start < end; i++) {
        start = tg_clock_mono_ns();
        *ping = i;
        while (*pong != i)
            if (tg_clock_mono_ns() > end + 5000000000u) {
                fprintf(stderr, "bench_gpu: the flag does not come back\n");
                exit(1);
            }
        if (i > 1000)
            gpu_sample_add(&sample, tg_clock_mono_ns() - start);
    }
    *ping = STOP;
    GPU_MUST(cudaDeviceSynchronize());
    GPU_MUST(cudaFreeHost(words));
    return gpu_sample_end(&sample);
}

static struct gpu_quantiles launch_and_synchronise(void)
{
    struct gpu_sample sample;
    cudaStream_t stream;
    GPU_MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    gpu_sample_begin(&sample);
    uint64_t end = gpu_until(0.5), start = 0;
    for (uint32_t i = 0; start < end; i++) {
        start = tg_clock_mono_ns();
        empty<<<1, 32, 0, stream>>>(NULL);
        GPU_MUST(cudaStreamSynchronize(stream));
        if (i > 1000)
            gpu_sample_add(&sample, tg_clock_mono_ns() - start);
    }
    GPU_MUST(cudaStreamDestroy(stream));
    return gpu_sample_end(&sample);
}

void gpu_contend_latency(void)
{
    struct gpu_quantiles *f = &gpu_floors.flag, *l = &gpu_floors.launch;
    *f = flag_round_trip();
    *l = launch_and_synchronise();
    gpu_row("L", "flag_round_trip_p50", f->p50, "ns", 0, NULL);
    gpu_row("L", "flag_round_trip_p99", f->p99, "ns", f->p50, NULL);
    gpu_row("L", "flag_round_trip_p999", f->p999, "ns", f->p50, NULL);
    gpu_row("L", "launch_and_synchronise_p50", l->p50, "ns", f->p50, NULL);
    gpu_row("L", "launch_and_synchronise_p99", l->p99, "ns", f->p50, NULL);
    gpu_row("L", "launch_and_synchronise_p999", l->p999, "ns", f->p50, NULL);
}

/* ---- Throughput ---------------------------------------------------------------------------------------- */

static double rate(uint64_t tasks, uint64_t start)
{
    return (double)tasks * 1e3 / (double)(tg_clock_mono_ns() - start);
}

/* One kernel a task, in turn over the streams, by one thread. */
static double launches(int streams)
{
    cudaStream_t stream[16];
    uint64_t n = 0;
    for (int i = 0; i < streams; i++)
        GPU_MUST(cudaStreamCreateWithFlags(&stream[i], cudaStreamNonBlocking));
    empty<<<1, 32, 0, stream[0]>>>(NULL);
    GPU_MUST(cudaDeviceSynchronize());
    uint64_t start = tg_clock_mono_ns(), end = gpu_until(0.5);
    while (tg_clock_mono_ns() < end)
        for (int i = 0; i < 1024; i++, n++)
            empty<<<1, 32, 0, stream[n % (unsigned)streams]>>>(NULL);
    GPU_MUST(cudaGetLastError());
    GPU_MUST(cudaDeviceSynchronize());
    double r = rate(n, start);
    for (int i = 0; i < streams; i++)
        GPU_MUST(cudaStreamDestroy(stream[i]));
    return r;
}

enum { NODES = 2048, WIDE = 32 };

/* 2,048 nodes in 32 chains. */
static double graph_rate(void)
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaGraphNode_t node[NODES];
    cudaStream_t stream;
    const uint32_t *nothing = NULL;
    void *args[] = {(void *)&nothing};
    cudaKernelNodeParams params = {};
    params.func = (void *)empty;
    params.gridDim = dim3(1);
    params.blockDim = dim3(32);
    params.kernelParams = args;
    GPU_MUST(cudaGraphCreate(&graph, 0));
    for (int i = 0; i < NODES; i++)
        GPU_MUST(cudaGraphAddKernelNode(&node[i], graph, i < WIDE ? NULL : &node[i - WIDE], i < WIDE ? 0 : 1,
                                        &params));
    GPU_MUST(cudaGraphInstantiate(&exec, graph, 0));
    GPU_MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    GPU_MUST(cudaGraphLaunch(exec, stream));
    GPU_MUST(cudaStreamSynchronize(stream));
    uint64_t n = 0, start = tg_clock_mono_ns(), end = gpu_until(0.5);
    while (tg_clock_mono_ns() < end) {
        for (int i = 0; i < 4; i++, n += NODES)
            GPU_MUST(cudaGraphLaunch(exec, stream));
        GPU_MUST(cudaStreamSynchronize(stream));
    }
    double r = rate(n, start);
    GPU_MUST(cudaStreamDestroy(stream));
    GPU_MUST(cudaGraphExecDestroy(exec));
    GPU_MUST(cudaGraphDestroy(graph));
    return r;
}

/* Batches of tasks as an array of 64-byte items: upload, one kernel, a word a task back in pinned memory.
 * Several batches are under way; each buffer is written anew by the host, as an engine's slots are, before it
 * goes up. */
static double array_rate(uint32_t batch)
{
    enum { WAYS = 4 };
    cudaStream_t stream[WAYS];
    struct item *host[WAYS], *device[WAYS];
    uint32_t *done[WAYS];
    for (int i = 0; i < WAYS; i++) {
        GPU_MUST(cudaStreamCreateWithFlags(&stream[i], cudaStreamNonBlocking));
        GPU_MUST(cudaHostAlloc((void **)&host[i], batch * sizeof(**host), cudaHostAllocDefault));
        GPU_MUST(cudaHostAlloc((void **)&done[i], batch * sizeof(**done), cudaHostAllocMapped));
        GPU_MUST(cudaMalloc((void **)&device[i], batch * sizeof(**device)));
    }
    uint64_t n = 0, wrong = 0, round = 0, start = tg_clock_mono_ns(), end = gpu_until(0.5);
    for (; tg_clock_mono_ns() < end; round++, n += batch) {
        int i = (int)(round % WAYS);
        GPU_MUST(cudaStreamSynchronize(stream[i]));
        if (round >= WAYS) /* the host looks at what came back */
            for (uint32_t k = 0; k < batch; k++)
                wrong += done[i][k] != (uint32_t)(round - WAYS) + 2u;
        for (uint32_t k = 0; k < batch; k++)
            for (int w = 0; w < 16; w++)
                host[i][k].words[w] = (uint32_t)round;
        GPU_MUST(
            cudaMemcpyAsync(device[i], host[i], batch * sizeof(**device), cudaMemcpyHostToDevice, stream[i]));
        run_array<<<(batch + 255) / 256, 256, 0, stream[i]>>>(device[i], batch, done[i]);
        GPU_MUST(cudaGetLastError());
    }
    GPU_MUST(cudaDeviceSynchronize());
    double r = rate(n, start);
    for (int i = 0; i < WAYS; i++) {
        GPU_MUST(cudaStreamDestroy(stream[i]));
        GPU_MUST(cudaFreeHost(host[i]));
        GPU_MUST(cudaFreeHost(done[i]));
        GPU_MUST(cudaFree(device[i]));
    }
    if (wrong) {
        fprintf(stderr, "bench_gpu: %llu results of the array are wrong\n", (unsigned long long)wrong);
        exit(1);
    }
    return r;
}

void gpu_contend_throughput(void)
{
    char name[64];
    struct gpu_floors *f = &gpu_floors;
    f->launches_1 = launches(1);
    f->launches_16 = launches(16);
    f->graph = graph_rate();
    gpu_row("T", "one_kernel_a_task_1_stream", f->launches_1, "M/s", 0, NULL);
    gpu_row("T", "one_kernel_a_task_16_streams", f->launches_16, "M/s", f->launches_1, NULL);
    gpu_row("T", "graph_of_2048_nodes", f->graph, "M/s", f->launches_1, NULL);
    for (int i = 0; i < GPU_BATCHES; i++) {
        f->array[i] = array_rate(gpu_batch[i]);
        snprintf(name, sizeof(name), "uploaded_array_of_%u", gpu_batch[i]);
        gpu_row("T", name, f->array[i], "M/s", f->launches_1, NULL);
    }
}
