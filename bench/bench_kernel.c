/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel IR: what its compiled bodies cost in an engine, what its own loop costs beside the engine's
 * scanning worker, how long building, lowering and compiling take, and the interpreter's speed.
 *
 * Two measures of an engine. Throughput is bench_engine's: one producer, one worker, 5120 slots, by the
 * clock. Drain is the worker's own processor time an item for 1000 items that wait when it starts, which
 * other work on the machine disturbs less. The cases take turns; each figure is the median of ROUNDS, each
 * ratio the median of the ratios of one turn (so that a slow moment hits both). Usage: bench_kernel [scale].
 */
#include <errno.h>
#include <semaphore.h>
#include <string.h>
#include <time.h>

#include <tidegate/compile.h>

#include "base/atomic.h"
#include "bench.h"

#define BENCH "kernel"
#define ROUNDS 9
#define LIMIT UINT64_C(60000000000)
#define OP_GATE 20u
#define OP_USER 8u
#define BATCH 1000u
#define WARM 10u /* rounds of a drain that are not counted: pages are touched for the first time */
#define LOOP_SLOTS 1024u
#define LARGE_SLOTS 65536u /* for the loop with an index */

static double scale = 1.0;
static uint64_t arena[1 << 18];

static void must(int error, const char *what)
{
    if (error) {
        fprintf(stderr, "bench_kernel: %s: error %d\n", what, error);
        exit(1);
    }
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(const double *of)
{
    double v[ROUNDS];
    memcpy(v, of, sizeof(v));
    qsort(v, ROUNDS, sizeof(v[0]), compare);
    return v[ROUNDS / 2];
}

/* bench_print, with a ratio that was measured turn by turn. */
static void print_ratio(const char *name, const double *value, const double *floor, const char *unit)
{
    double ratio[ROUNDS];
    for (int i = 0; i < ROUNDS; i++)
        ratio[i] = value[i] / floor[i];
    printf("{\"bench\": \"%s\", \"case\": \"%s\", \"value\": %.6g, \"unit\": \"%s\", \"floor\": %.6g, "
           "\"ratio\": %.3f}\n",
           BENCH, name, median(value), unit, median(floor), median(ratio));
    fflush(stdout);
}

/* ---- Kernels ------------------------------------------------------------------------------------------- */

/* observable[a1] += a0 */
static struct tg_ir_node add_body(struct tg_ir *ir)
{
    return tg_ir_atomic_add(ir, NULL, "observable", tg_ir_var(ir, "a1"), tg_ir_var(ir, "a0"), TG_IR_RELAXED);
}

static int add_handler(void *context, struct tg_op *op)
{
    (void)context;
    return tg_engine_observable_add(op->engine, op->args[1], op->args[0], NULL);
}

static struct tg_kernel *kernel_of(uint32_t slots, uint32_t loop, uint32_t flags, double *ret_ms,
                                   uint32_t *ret_index)
{
    static char why[TG_COMPILE_WHY_BYTES];
    struct tg_ir ir;
    struct tg_kernel *k;
    uint64_t start = tg_clock_mono_ns();
    tg_ir_init(&ir, arena, sizeof(arena));
    struct tg_ir_opcode opcode = {OP_USER, add_body(&ir)};
    struct tg_ir_kernel o = {
        .slots = slots, .flags = TG_IR_UNTIL_IDLE | loop, .opcodes = &opcode, .opcode_count = 1};
    struct tg_compile_options co = {.size = sizeof(co), .flags = flags};
    int r = tg_engine_compile(&ir, &o, &co, &k, why, sizeof(why));
    if (r)
        fprintf(stderr, "%s\n", why);
    must(r, "tg_engine_compile");
    *ret_ms = (double)(tg_clock_mono_ns() - start) / 1e6;
    if (ret_index)
        *ret_index = (uint32_t)tg_ir_buffer_find(&ir, TG_IR_INDEX_BUFFER);
    return k;
}

static struct tg_kernel *kernel(uint32_t flags, double *ret_ms)
{
    return kernel_of(LOOP_SLOTS, 0, flags, ret_ms, NULL);
}

/* The whole kernel with its built-in opcodes: nodes, check, text. */
static double build_and_lower_ms(uint32_t language, uint32_t flags, size_t *ret_bytes)
{
    struct tg_ir ir;
    struct tg_ir_error error;
    char *text;
    uint64_t start = tg_clock_mono_ns();
    tg_ir_init(&ir, arena, sizeof(arena));
    struct tg_ir_kernel o = {.slots = 4096, .flags = flags};
    struct tg_ir_lower_options lo = {.language = language};
    must(tg_ir_lower(&ir, tg_ir_kernel(&ir, &o), &lo, &text, ret_bytes, &error), "tg_ir_lower");
    double ms = (double)(tg_clock_mono_ns() - start) / 1e6;
    free(text);
    return ms;
}

static void building(void)
{
    double c[ROUNDS], cuda[ROUNDS], indexed[ROUNDS], compile[ROUNDS];
    size_t bytes;
    for (int i = 0; i < ROUNDS; i++) {
        indexed[i] = build_and_lower_ms(TG_IR_C11, TG_IR_INDEXED, &bytes);
        c[i] = build_and_lower_ms(TG_IR_C11, 0, &bytes);
        cuda[i] = build_and_lower_ms(TG_IR_CUDA_C, 0, &bytes);
        must(tg_kernel_close(kernel(TG_COMPILE_NO_FALLBACK, &compile[i])), "tg_kernel_close");
    }
    bench_print(BENCH, "build_check_lower_c", median(c), "ms", 0);
    bench_print(BENCH, "build_check_lower_cuda", median(cuda), "ms", 0);
    bench_print(BENCH, "build_check_lower_c_indexed", median(indexed), "ms", 0);
    bench_print(BENCH, "text", (double)bytes, "bytes", 0);
    bench_print(BENCH, "tg_engine_compile", median(compile), "ms", 0);
}

/* ---- Bodies in an engine ---------------------------------------------------------------------------------
 */

struct gate {
    sem_t reached, open, ended;
    double start_ns, end_ns;
};

static double cpu_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

/* a0 0: wait here, then the time begins; 1: it ends. */
static int gate_handler(void *context, struct tg_op *op)
{
    struct gate *g = context;
    if (op->args[0] == 1) {
        g->end_ns = cpu_ns();
        sem_post(&g->ended);
        return TG_OP_FINISHED;
    }
    sem_post(&g->reached);
    while (sem_wait(&g->open) != 0)
        ;
    g->start_ns = cpu_ns();
    return TG_OP_FINISHED;
}

static struct tg_engine *open_engine(struct tg_kernel *k, struct gate *g)
{
    struct tg_engine_options o;
    struct tg_engine *e;
    const uint32_t cpu = 1;
    tg_engine_options_init(&o);
    o.slots = 5120;
    o.workers = 1;
    o.cpus = &cpu;
    o.cpu_count = 1;
    o.spin_us = 100000;
    must(tg_engine_open(&o, &e), "tg_engine_open");
    must(k ? tg_engine_use_kernel(e, k, NULL) : tg_engine_register(e, OP_USER, add_handler, NULL), "opcode");
    must(tg_engine_register(e, OP_GATE, gate_handler, g), "gate");
    return e;
}

static void submit(struct tg_engine *e, uint32_t level, uint32_t opcode, const uint32_t *args)
{
    int r;
    while ((r = tg_engine_submit(e, 0, level, opcode, args, 2, NULL)) == -EAGAIN)
        tg_cpu_relax();
    must(r, "submit");
}

static double throughput(struct tg_kernel *k, uint32_t opcode)
{
    struct tg_engine *e = open_engine(k, NULL);
    const uint32_t args[2] = {1, opcode == OP_USER ? 5 : TG_CONTROL_OBSERVABLE_BASE + 5};
    uint64_t n = (uint64_t)(1e6 * scale) + 1000, start = tg_clock_mono_ns();
    for (uint64_t i = 0; i < n; i++)
        submit(e, TG_PRIORITY_NORMAL, opcode, args);
    must(tg_engine_settle(e, LIMIT), "settle");
    double rate = (double)n * 1e3 / (double)(tg_clock_mono_ns() - start);
    must(tg_engine_close(e, LIMIT, NULL), "close");
    return rate;
}

static double drain(struct tg_kernel *k, uint32_t opcode)
{
    struct gate g = {.start_ns = 0};
    const uint32_t args[2] = {1, opcode == OP_USER ? 5 : TG_CONTROL_OBSERVABLE_BASE + 5}, zero[2] = {0},
                   one[2] = {1};
    uint32_t rounds = (uint32_t)(200 * scale) + WARM + 5;
    double sum = 0;
    sem_init(&g.reached, 0, 0);
    sem_init(&g.open, 0, 0);
    sem_init(&g.ended, 0, 0);
    struct tg_engine *e = open_engine(k, &g);
    for (uint32_t r = 0; r < rounds; r++) {
        submit(e, TG_PRIORITY_CRITICAL, OP_GATE, zero);
        while (sem_wait(&g.reached) != 0)
            ;
        for (uint32_t i = 0; i < BATCH; i++)
            submit(e, TG_PRIORITY_NORMAL, opcode, args);
        submit(e, TG_PRIORITY_NORMAL, OP_GATE, one);
        sem_post(&g.open);
        /* Not by the engine: who waits for an item has the worker look for waiters at every one. */
        while (sem_wait(&g.ended) != 0)
            ;
        must(tg_engine_settle(e, LIMIT), "settle");
        sum += r < WARM ? 0 : g.end_ns - g.start_ns;
    }
    must(tg_engine_close(e, LIMIT, NULL), "close");
    return sum / (rounds - WARM) / BATCH;
}

static void bodies(struct tg_kernel *k, struct tg_kernel *slow, uint32_t opcode, const char *name)
{
    double own[ROUNDS], compiled[ROUNDS], own_drain[ROUNDS], drained[ROUNDS], interpreted[ROUNDS];
    char text[80];
    for (int i = 0; i < ROUNDS; i++) {
        own[i] = throughput(NULL, opcode);
        compiled[i] = throughput(k, opcode);
        own_drain[i] = drain(NULL, opcode);
        drained[i] = drain(k, opcode);
        interpreted[i] = drain(slow, opcode);
    }
    snprintf(text, sizeof(text), "%s_1p1w_compiled_to_built_in", name);
    print_ratio(text, compiled, own, "M items/s");
    snprintf(text, sizeof(text), "%s_drain_compiled_to_built_in", name);
    print_ratio(text, drained, own_drain, "ns/item");
    snprintf(text, sizeof(text), "%s_drain_interpreted_to_built_in", name);
    print_ratio(text, interpreted, own_drain, "ns/item");
}

/* ---- The loop alone --------------------------------------------------------------------------------------
 */

static _Alignas(64) uint32_t ring[LARGE_SLOTS * TG_SLOT_WORDS];
static uint32_t control[TG_CONTROL_MIN_WORDS + 256];

static void fill_ring(uint32_t step)
{
    size_t bytes;
    must(tg_encode_control(false, 29, 256, control, sizeof(control), &bytes), "tg_encode_control");
    memset(ring, 0, sizeof(ring));
    for (uint32_t i = 0; i < LOOP_SLOTS; i++) {
        uint32_t s = i * step;
        ring[s * TG_SLOT_WORDS] = TG_SLOT_PUBLISHED;
        ring[s * TG_SLOT_WORDS + TG_SLOT_TENANT_WORD] = i % 29;
        ring[s * TG_SLOT_WORDS + TG_SLOT_PRIORITY_WORD] = i % 5;
    }
}

static double loop_ns(struct tg_kernel *k)
{
    struct tg_kernel_env env = {.size = sizeof(env), .lanes = 1, .groups = 1};
    uint32_t value;
    env.words[TG_IR_RING] = ring;
    env.count[TG_IR_RING] = LOOP_SLOTS * TG_SLOT_WORDS;
    env.words[TG_IR_CONTROL] = control;
    env.count[TG_IR_CONTROL] = sizeof(control) / TG_WORD_BYTES;
    fill_ring(1);
    double start = cpu_ns();
    must(tg_kernel_lane(k, &env, &value), "tg_kernel_lane");
    double ns = (cpu_ns() - start) / LOOP_SLOTS;
    must(control[TG_CONTROL_DONE_COUNT] != LOOP_SLOTS, "the loop left items");
    return ns;
}

/* As many items, spread over a ring of slots, found by an index: marking them counts too. */
static double indexed_ns(struct tg_kernel *k, uint32_t slots, uint32_t buffer, uint32_t *words)
{
    struct tg_kernel_env env = {.size = sizeof(env), .lanes = 1, .groups = 1};
    const struct tg_ir_index x = {words, (const struct tg_slot *)(const void *)ring, slots};
    uint32_t value, step = slots / LOOP_SLOTS;
    env.words[TG_IR_RING] = ring;
    env.count[TG_IR_RING] = slots * TG_SLOT_WORDS;
    env.words[TG_IR_CONTROL] = control;
    env.count[TG_IR_CONTROL] = sizeof(control) / TG_WORD_BYTES;
    env.words[buffer] = words;
    env.count[buffer] = (uint32_t)tg_ir_index_words(slots);
    fill_ring(step);
    double start = cpu_ns();
    for (uint32_t s = 0; s < LOOP_SLOTS; s++)
        must(tg_ir_index_publish(&x, s * step), "tg_ir_index_publish");
    must(tg_kernel_lane(k, &env, &value), "tg_kernel_lane");
    double ns = (cpu_ns() - start) / LOOP_SLOTS;
    must(control[TG_CONTROL_DONE_COUNT] != LOOP_SLOTS, "the loop left items");
    return ns;
}

/* The engine's scanning worker on the same ring; its processor time is the process's less this thread's. */
static double scan_ns(void)
{
    struct tg_engine_options o;
    struct tg_engine *e;
    struct timespec ts;
    fill_ring(1);
    tg_engine_options_init(&o);
    o.ring = ring;
    o.ring_bytes = LOOP_SLOTS * TG_SLOT_BYTES;
    o.control = control;
    o.control_bytes = sizeof(control);
    o.workers = 1;
    o.spin_us = 0;
    o.flags = TG_ENGINE_SCAN;
    o.poll_us = 1000000;
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
        o.foreign_slots[l] = TG_ENGINE_ALL_SLOTS;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    double start = (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec - cpu_ns();
    must(tg_engine_open(&o, &e), "tg_engine_open");
    for (uint32_t s = 0; s < LOOP_SLOTS; s++)
        while (tg_load_acquire_u32(&ring[s * TG_SLOT_WORDS]) != TG_SLOT_DONE)
            sched_yield(); /* drain would have the worker look for it at every item */
    must(tg_engine_drain(e, LIMIT, NULL), "drain");
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    double ns = ((double)ts.tv_sec * 1e9 + (double)ts.tv_nsec - cpu_ns() - start) / LOOP_SLOTS;
    must(control[TG_CONTROL_DONE_COUNT] != LOOP_SLOTS, "the engine left items");
    must(tg_engine_close(e, LIMIT, NULL), "close");
    return ns;
}

static void loops(struct tg_kernel *k)
{
    double own[ROUNDS], compiled[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        own[i] = scan_ns();
        compiled[i] = loop_ns(k);
    }
    print_ratio("loop_1024_slots_compiled_to_scanning_engine", compiled, own, "ns/item");
}

static void indexed_loops(struct tg_kernel *k)
{
    static const uint32_t slots[2] = {LOOP_SLOTS, LARGE_SLOTS};
    double scan[ROUNDS], indexed[2][ROUNDS], ms;
    struct tg_kernel *kernels[2];
    uint32_t buffer[2], *words[2];
    for (int n = 0; n < 2; n++) {
        kernels[n] = kernel_of(slots[n], TG_IR_INDEXED, TG_COMPILE_NO_FALLBACK, &ms, &buffer[n]);
        words[n] = calloc(tg_ir_index_words(slots[n]), sizeof(uint32_t));
        must(!words[n], "memory");
        indexed_ns(kernels[n], slots[n], buffer[n], words[n]); /* pages are touched for the first time */
    }
    for (int i = 0; i < ROUNDS; i++) {
        scan[i] = loop_ns(k);
        for (int n = 0; n < 2; n++)
            indexed[n][i] = indexed_ns(kernels[n], slots[n], buffer[n], words[n]);
    }
    print_ratio("loop_1024_slots_indexed_to_scanning", indexed[0], scan, "ns/item");
    print_ratio("loop_indexed_65536_slots_to_1024", indexed[1], indexed[0], "ns/item");
    for (int n = 0; n < 2; n++) {
        must(tg_kernel_close(kernels[n]), "tg_kernel_close");
        free(words[n]);
    }
}

int main(int argc, char **argv)
{
    double ms;
    if (argc > 1)
        scale = strtod(argv[1], NULL);
    if (bench_pin(0) != 0)
        fprintf(stderr, "bench_kernel: not pinned\n");
    building();
    struct tg_kernel *k = kernel(TG_COMPILE_NO_FALLBACK, &ms), *slow = kernel(TG_COMPILE_INTERPRET, &ms);
    bodies(k, slow, TG_OP_NOP, "nop");
    bodies(k, slow, TG_OP_ATOMIC_ADD, "atomic_add");
    bodies(k, slow, OP_USER, "user_opcode");
    loops(k);
    indexed_loops(k);
    must(tg_kernel_close(k), "tg_kernel_close");
    must(tg_kernel_close(slow), "tg_kernel_close");
    return 0;
}
