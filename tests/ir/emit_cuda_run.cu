// SPDX-License-Identifier: Apache-2.0
// Runs the kernel that engine emit printed on a GPU: KERNEL is its CUDA C, for 24 slots and --until-idle; its
// C11 is linked as tg_kernel_lane. One GPU lane leaves the same words as one lane of the processor on random
// rings; many lanes run every item once (E1) with the right sums. Used by test_emit_cuda.sh. Exit 77: no GPU.
#include KERNEL

#include <cstdio>
#include <cstdlib>
#include <cstring>

#define SLOTS 24u
#define CONTROL 256u
#define WORDS (SLOTS * 16u + CONTROL + 21u)

extern "C" uint32_t tg_kernel_lane(const struct tg_kernel_env *env);

static uint64_t state;

static uint32_t roll(uint32_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % n;
}

static void must(cudaError_t error, const char *what)
{
    if (error != cudaSuccess) {
        fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
        exit(1);
    }
}

static struct tg_kernel_env bind(u32 *words)
{
    struct tg_kernel_env env;
    memset(&env, 0, sizeof(env));
    env.size = sizeof(env);
    env.lanes = env.groups = 1;
    env.words[0] = words;
    env.count[0] = SLOTS * 16u;
    env.words[1] = words + SLOTS * 16u;
    env.count[1] = CONTROL;
    env.words[3] = words + SLOTS * 16u + CONTROL;
    env.count[3] = 21u;
    return env;
}

// Items of opcodes 0..7, 99 and PRINTF for four tenants and five levels; ordered: those whose order matters
// too.
static void fill(u32 *words, bool ordered)
{
    u32 *control = words + SLOTS * 16u;
    memset(words, 0, WORDS * sizeof(u32));
    control[2] = 3;
    for (u32 t = 0; t < 4; t++) {
        control[3 + t] = 0xFFFFFFFFu;
        control[32 + t] = roll(4) && ordered ? roll(6) : 1000000u;
    }
    for (u32 s = 0; s < SLOTS; s++) {
        u32 *slot = words + s * 16u;
        slot[0] = 1;
        slot[1] = ordered ? (roll(9) == 8 ? 0xFFFEu : roll(12) ? roll(8) : 99u) : 2u;
        slot[2] = roll(4);
        slot[3] = roll(5);
        slot[4] = ordered && slot[1] != 2 ? 160 + roll(96) : 1;
        slot[5] = 160 + roll(96);
        slot[6] = roll(5);
        if (slot[1] == 7)
            slot[4] = roll(s + 1);
    }
}

int main()
{
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)
        return 77;
    u32 *gpu, before[WORDS], cpu[WORDS];
    must(cudaMallocManaged(&gpu, sizeof(before)), "cudaMallocManaged");
    for (u32 i = 0; i < 2000; i++) {
        state = i * 977u + 5u;
        fill(before, true);
        memcpy(gpu, before, sizeof(before));
        memcpy(cpu, before, sizeof(before));
        struct tg_kernel_env host = bind(cpu);
        uint32_t value = tg_kernel_lane(&host);
        tg_kernel<<<1, 1>>>(bind(gpu), nullptr);
        must(cudaDeviceSynchronize(), "one lane");
        if (value != 0 || memcmp(gpu, cpu, sizeof(before)) != 0) {
            for (u32 w = 0; w < WORDS; w++)
                if (gpu[w] != cpu[w])
                    fprintf(stderr, "ring %u, word %u: %08x on the GPU, %08x\n", i, w, gpu[w], cpu[w]);
            return 1;
        }
    }
    for (u32 i = 0; i < 200; i++) {
        state = i * 31u + 1u;
        fill(before, false);
        memcpy(gpu, before, sizeof(before));
        tg_kernel<<<4, 64>>>(bind(gpu), nullptr);
        must(cudaDeviceSynchronize(), "many lanes");
        u32 sum = 0;
        for (u32 w = 160; w < CONTROL; w++)
            sum += gpu[SLOTS * 16u + w];
        for (u32 s = 0; s < SLOTS; s++)
            if (gpu[s * 16u] != 3u || sum != SLOTS || gpu[SLOTS * 16u + 1] != SLOTS)
                return fprintf(stderr, "E1: ring %u: slot %u is %u, sum %u\n", i, s, gpu[s * 16u], sum), 1;
    }
    printf("2000 rings by one lane as on the processor, 200 by 256 lanes each item once\n");
    return 0;
}
