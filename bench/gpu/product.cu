/* SPDX-License-Identifier: Apache-2.0
 *
 * I without an engine: an 8192^3 bf16 matrix product by cuBLAS, which is opened at run time (none: the part
 * says so), on random operands; blocks that only hold as much of the multiprocessors as an engine does,
 * asleep, so that the price of the place is told from the price of the engine; and the card's power through
 * NVML, opened likewise. cuBLAS is told how many multiprocessors it may count on, as a neighbour of an engine
 * ought to tell it: its kernels divide the work evenly by that number beforehand.
 */
#include <dlfcn.h>
#include <vector>

#include "bench.h"
#include "gpu/gpu.h"

enum { SIDE = 8192, PRODUCTS = 12 };

/* ---- The product --------------------------------------------------------------------------------------- */

/* The few entries of cuBLAS that are needed, as its manual has them. */
struct gpu_product {
    void *library, *handle;
    int (*create)(void **);
    int (*destroy)(void *);
    int (*set_stream)(void *, cudaStream_t);
    int (*set_multiprocessors)(void *, int);
    int (*multiply)(void *, int, int, int, int, int, const void *, const void *, int, int, const void *, int,
                    int, const void *, void *, int, int, int, int);
    cudaStream_t stream;
    uint16_t *a, *b, *c;
};

enum { BLAS_NO_TRANSPOSE = 0, TYPE_BF16 = 14, COMPUTE_32F = 68, ALGO_DEFAULT = -1 };

/* bf16 values in (-1, 1) from a counter. */
__global__ void fill(uint16_t *out, uint32_t seed)
{
    for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < (uint64_t)SIDE * SIDE;
         i += gridDim.x * blockDim.x) {
        uint32_t x = (uint32_t)i * 2654435761u + seed;
        x = (x ^ x >> 15) * 2246822519u;
        x = (x ^ x >> 13) * 3266489917u;
        float v = (float)(int32_t)(x ^ x >> 16) * (1.0f / 2147483648.0f);
        out[i] = (uint16_t)(__float_as_uint(v) >> 16);
    }
}

static bool find_entries(struct gpu_product *p)
{
    const char *names[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so"};
    for (int i = 0; i < 3 && !p->library; i++)
        p->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!p->library)
        return false;
    *(void **)&p->create = dlsym(p->library, "cublasCreate_v2");
    *(void **)&p->destroy = dlsym(p->library, "cublasDestroy_v2");
    *(void **)&p->set_stream = dlsym(p->library, "cublasSetStream_v2");
    *(void **)&p->set_multiprocessors = dlsym(p->library, "cublasSetSmCountTarget");
    *(void **)&p->multiply = dlsym(p->library, "cublasGemmEx");
    return p->create && p->destroy && p->set_stream && p->multiply && p->create(&p->handle) == 0;
}

struct gpu_product *gpu_product_open(void)
{
    struct gpu_product *p = (struct gpu_product *)calloc(1, sizeof(*p));
    if (!p || !find_entries(p)) {
        gpu_skip("I", "no cuBLAS could be opened, so nothing runs beside the idle engine");
        free(p);
        return NULL;
    }
    const size_t bytes = (size_t)SIDE * SIDE * sizeof(uint16_t);
    GPU_MUST(cudaStreamCreateWithFlags(&p->stream, cudaStreamNonBlocking));
    GPU_MUST(cudaMalloc((void **)&p->a, bytes));
    GPU_MUST(cudaMalloc((void **)&p->b, bytes));
    GPU_MUST(cudaMalloc((void **)&p->c, bytes));
    fill<<<1024, 256, 0, p->stream>>>(p->a, 1);
    fill<<<1024, 256, 0, p->stream>>>(p->b, 2);
    GPU_MUST(cudaStreamSynchronize(p->stream));
    p->set_stream(p->handle, p->stream);
    gpu_product_ms(p, 0); /* warm: modules loaded, workspace there */
    return p;
}

static void multiply(struct gpu_product *p)
{
    const float one = 1, zero = 0;
    int r =
        p->multiply(p->handle, BLAS_NO_TRANSPOSE, BLAS_NO_TRANSPOSE, SIDE, SIDE, SIDE, &one, p->a, TYPE_BF16,
                    SIDE, p->b, TYPE_BF16, SIDE, &zero, p->c, TYPE_BF16, SIDE, COMPUTE_32F, ALGO_DEFAULT);
    if (r != 0) {
        fprintf(stderr, "bench_gpu: cublasGemmEx: status %d\n", r);
        exit(1);
    }
}

double gpu_product_ms(struct gpu_product *p, uint32_t multiprocessors)
{
    std::vector<cudaEvent_t> event(PRODUCTS + 1);
    uint64_t us[PRODUCTS];
    if (p->set_multiprocessors)
        p->set_multiprocessors(p->handle, (int)multiprocessors);
    for (auto &e : event)
        GPU_MUST(cudaEventCreate(&e));
    multiply(p);
    GPU_MUST(cudaEventRecord(event[0], p->stream));
    for (int i = 0; i < PRODUCTS; i++) {
        multiply(p);
        GPU_MUST(cudaEventRecord(event[i + 1], p->stream));
    }
    GPU_MUST(cudaStreamSynchronize(p->stream));
    for (int i = 0; i < PRODUCTS; i++) {
        float ms = 0;
        GPU_MUST(cudaEventElapsedTime(&ms, event[i], event[i + 1]));
        us[i] = (uint64_t)((double)ms * 1e6);
    }
    for (auto &e : event)
        GPU_MUST(cudaEventDestroy(e));
    bench_sort(us, PRODUCTS);
    return (double)bench_quantile(us, PRODUCTS, 0.5) / 1e6;
}

void gpu_product_close(struct gpu_product *p)
{
    if (!p)
        return;
    p->destroy(p->handle);
    GPU_MUST(cudaFree(p->a));
    GPU_MUST(cudaFree(p->b));
    GPU_MUST(cudaFree(p->c));
    GPU_MUST(cudaStreamDestroy(p->stream));
    dlclose(p->library);
    free(p);
}

/* ---- Holding a place ----------------------------------------------------------------------------------- */

/* Asleep but for a look every 20 us by one thread a block; leaves when told, or by its own clock. */
__global__ void hold(const volatile uint32_t *leave, long long limit_cycles)
{
    long long start = clock64();
    if (threadIdx.x == 0)
        while (*leave == 0 && clock64() - start < limit_cycles)
            __nanosleep(20000);
    __syncthreads();
}

static struct {
    cudaStream_t stream;
    uint32_t *leave;
} held;

bool gpu_hold(uint32_t blocks, uint32_t threads, size_t shared_bytes)
{
    GPU_MUST(cudaFuncSetAttribute(hold, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes));
    GPU_MUST(cudaStreamCreateWithFlags(&held.stream, cudaStreamNonBlocking));
    GPU_MUST(cudaMalloc((void **)&held.leave, sizeof(*held.leave)));
    GPU_MUST(cudaMemset(held.leave, 0, sizeof(*held.leave)));
    hold<<<blocks, threads, shared_bytes, held.stream>>>(held.leave, (long long)(60e9 * gpu.clock_ghz));
    return cudaGetLastError() == cudaSuccess;
}

void gpu_let_go(void)
{
    static const uint32_t one = 1;
    cudaStream_t side;
    GPU_MUST(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
    GPU_MUST(cudaMemcpyAsync(held.leave, &one, sizeof(one), cudaMemcpyHostToDevice, side));
    GPU_MUST(cudaStreamSynchronize(held.stream));
    GPU_MUST(cudaStreamSynchronize(side));
    GPU_MUST(cudaStreamDestroy(side));
    GPU_MUST(cudaStreamDestroy(held.stream));
    GPU_MUST(cudaFree(held.leave));
}

/* What the place alone costs: the product told of fewer multiprocessors, alone and beside blocks that hold
 * them. */
void gpu_contend_idle(void)
{
    static const uint32_t taken[] = {1, 4, 8, 16};
    char name[80];
    struct gpu_product *p = gpu_product_open();
    if (!p)
        return;
    double all = gpu_product_ms(p, 0);
    gpu_row("I", "product_alone", all, "ms", 0, NULL);
    gpu_row("I", "product_alone_again", gpu_product_ms(p, 0), "ms", all, NULL);
    gpu_row("I", "product_alone_rate", 2.0 * SIDE * SIDE * SIDE / (all * 1e9), "TFLOP/s", 0, NULL);
    for (uint32_t n : taken) {
        if (n >= gpu.multiprocessors)
            continue;
        double fewer = gpu_product_ms(p, gpu.multiprocessors - n);
        snprintf(name, sizeof(name), "product_told_of_%u_fewer", n);
        gpu_row("I", name, fewer, "ms", all, NULL);
        gpu_hold(n, 1024, 0);
        snprintf(name, sizeof(name), "product_not_told_beside_%u_sleeping_blocks", n);
        gpu_row("I", name, gpu_product_ms(p, 0), "ms", all, NULL);
        snprintf(name, sizeof(name), "product_told_beside_%u_sleeping_blocks", n);
        gpu_row("I", name, gpu_product_ms(p, gpu.multiprocessors - n), "ms", fewer, NULL);
        gpu_let_go();
    }
    gpu_product_close(p);
}

/* ---- Power --------------------------------------------------------------------------------------------- */

double gpu_watts(double seconds)
{
    static void *library, *device;
    static int (*power)(void *, unsigned *);
    if (!library) {
        char bus[32];
        library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
        if (!library)
            return 0;
        int (*init)(void), (*by_bus)(const char *, void **);
        *(void **)&init = dlsym(library, "nvmlInit_v2");
        *(void **)&by_bus = dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2");
        *(void **)&power = dlsym(library, "nvmlDeviceGetPowerUsage");
        if (!init || !by_bus || !power || init() != 0 ||
            cudaDeviceGetPCIBusId(bus, sizeof(bus), gpu.device) != cudaSuccess || by_bus(bus, &device) != 0)
            power = NULL;
    }
    double sum = 0;
    unsigned n = 0, milliwatts;
    struct timespec nap = {0, 20000000};
    for (uint64_t end = gpu_until(seconds); power && tg_clock_mono_ns() < end; nanosleep(&nap, NULL))
        if (power(device, &milliwatts) == 0) {
            sum += milliwatts / 1e3;
            n++;
        }
    return n ? sum / n : 0;
}
