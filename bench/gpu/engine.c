/* SPDX-License-Identifier: Apache-2.0
 *
 * L, T, P, D and I of the engine, through its public API. Nothing here knows the backend, but for what it is
 * opened with and how its opcodes are given to it (gpu/opcodes.*). The rules' parts, S and F, are in
 * engine_rules.c.
 */
#include "gpu/engine.h"

#include <errno.h>
#include <string.h>

#include "base/atomic.h"
#include "bench.h"

/* The device's opcodes with the engine's kernel: opcodes_device.cu, as nvcc made it (CMakeLists.txt). */
extern const unsigned char bench_gpu_image[], bench_gpu_image_end[];

enum { WARPS_A_BLOCK = 4 };

void gpu_engine_must(int error, const char *what)
{
    if (!error)
        return;
    fprintf(stderr, "bench_gpu: %s: %s\n", what, strerror(-error));
    exit(1);
}

/* ---- Opening ------------------------------------------------------------------------------------------- */

static void burn_for(uint32_t us)
{
    for (uint64_t end = tg_clock_mono_ns() + us * UINT64_C(1000); tg_clock_mono_ns() < end;)
        tg_cpu_relax();
}

static int empty_on_cpu(void *context, struct tg_op *op)
{
    (void)context;
    (void)op;
    return TG_OP_FINISHED;
}

static int burn_on_cpu(void *context, struct tg_op *op)
{
    uint32_t stop = 0;
    (void)context;
    burn_for(op->args[0]);
    int r = tg_engine_observable_load(op->engine, GPU_STOP_WORD, &stop);
    return r ? r : op->args[1] && !stop ? TG_OP_REQUEUE : TG_OP_FINISHED;
}

/* Its successor; where there is no room it goes back itself. */
static int publish_on_cpu(struct tg_op *op, bool again)
{
    uint32_t stop = 0;
    int r = tg_engine_observable_load(op->engine, GPU_STOP_WORD, &stop);
    if (r || !again || stop)
        return r;
    r = tg_engine_submit(op->engine, op->tenant, op->priority, op->opcode, op->args, 3, NULL);
    return r == -EAGAIN ? TG_OP_REQUEUE : r;
}

static int next_on_cpu(void *context, struct tg_op *op)
{
    (void)context;
    return publish_on_cpu(op, true);
}

static int burn_next_on_cpu(void *context, struct tg_op *op)
{
    (void)context;
    burn_for(op->args[0]);
    return publish_on_cpu(op, op->args[1]);
}

static int again_on_cpu(void *context, struct tg_op *op)
{
    uint32_t stop = 0;
    (void)context;
    int r = tg_engine_observable_load(op->engine, GPU_STOP_WORD, &stop);
    return r ? r : stop ? TG_OP_FINISHED : TG_OP_REQUEUE;
}

bool gpu_engine_on_device(void)
{
    return strcmp(gpu.backend, "cuda") == 0;
}

uint32_t gpu_engine_workers(const struct tg_engine_options *o)
{
    return gpu_engine_on_device() ? o->device_blocks * WARPS_A_BLOCK : o->workers;
}

void gpu_engine_options(struct tg_engine_options *ret, uint32_t slots)
{
    static char backend[24];
    tg_engine_options_init(ret);
    ret->slots = slots;
    ret->backend = gpu.backend;
    ret->workers = 1;
    ret->spin_us = 1000;
    if (!gpu_engine_on_device())
        return;
    snprintf(backend, sizeof(backend), "cuda:%d", gpu.device);
    ret->backend = backend;
    ret->device_blocks = gpu.multiprocessors - 1;
    ret->device_limit_ms = 120000; /* a bench that hangs leaves the card after this time */
    ret->device_image = bench_gpu_image;
    ret->device_image_bytes = (size_t)(bench_gpu_image_end - bench_gpu_image);
}

static int register_all(struct tg_engine *e)
{
    static const struct {
        uint32_t opcode;
        tg_op_handler on_cpu;
        enum tg_device_shape shape;
    } ops[] = {{GPU_OP_EMPTY, empty_on_cpu, TG_DEVICE_LANE},
               {GPU_OP_BURN, burn_on_cpu, TG_DEVICE_WARP},
               {GPU_OP_AGAIN, again_on_cpu, TG_DEVICE_LANE},
               {GPU_OP_NEXT, next_on_cpu, TG_DEVICE_LANE},
               {GPU_OP_BURN_NEXT, burn_next_on_cpu, TG_DEVICE_WARP}};
    int r = 0;
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]) && !r; i++)
        r = gpu_engine_on_device() ? tg_engine_register_device(e, ops[i].opcode, ops[i].shape)
                                   : tg_engine_register(e, ops[i].opcode, ops[i].on_cpu, NULL);
    return r;
}

struct tg_engine *gpu_engine_open(const struct tg_engine_options *options)
{
    struct tg_engine *e;
    gpu_stand_aside(true); /* threads of the engine do not inherit the measurer's processor */
    int r = tg_engine_open(options, &e);
    if (r)
        fprintf(stderr, "bench_gpu: no engine: %s\n", tg_engine_open_reason());
    gpu_engine_must(r, "cannot open an engine");
    gpu_stand_aside(false);
    gpu_engine_must(register_all(e), "register");
    return e;
}

void gpu_engine_close(struct tg_engine *e)
{
    gpu_engine_must(tg_engine_close(e, GPU_LIMIT_NS, NULL), "close");
}

void gpu_engine_submit(struct tg_engine *e, uint32_t tenant, uint32_t level, uint32_t opcode,
                       const uint32_t *args, uint32_t count, struct tg_item *ret_item)
{
    int r;
    while ((r = tg_engine_submit(e, tenant, level, opcode, args, count, ret_item)) == -EAGAIN)
        tg_cpu_relax();
    gpu_engine_must(r, "submit");
}

/* ---- L ------------------------------------------------------------------------------------------------- */

struct gpu_quantiles gpu_engine_round_trips(struct tg_engine *e, uint32_t level, uint32_t opcode,
                                            uint32_t pause_ns)
{
    struct gpu_sample sample;
    uint64_t end = gpu_until(0.4), start = 0, gap = 1;
    gpu_sample_begin(&sample);
    for (uint32_t i = 0; start < end; i++) {
        struct tg_item item;
        int r;
        gap = gap * UINT64_C(6364136223846793005) + 1;
        if (pause_ns)
            for (uint64_t until = tg_clock_mono_ns() + (gap >> 32) % pause_ns; tg_clock_mono_ns() < until;)
                tg_cpu_relax();
        start = tg_clock_mono_ns();
        gpu_engine_must(tg_engine_submit(e, 0, level, opcode, NULL, 0, &item), "submit");
        while ((r = tg_engine_poll(e, &item)) == -EINPROGRESS)
            if (tg_clock_mono_ns() > end + GPU_LIMIT_NS)
                gpu_engine_must(-ETIMEDOUT, "an item never ends");
        gpu_engine_must(r, "an item ended otherwise than DONE");
        if (i > 100)
            gpu_sample_add(&sample, tg_clock_mono_ns() - start);
    }
    return gpu_sample_end(&sample);
}

static void report_latency(uint32_t slots, const char *how, const struct gpu_quantiles *q, const char *wanted)
{
    char name[96];
    double floor = gpu_floors.flag.p50;
    snprintf(name, sizeof(name), "engine_%s_%u_slots_p50", how, slots);
    gpu_row("L", name, q->p50, "ns", floor, wanted);
    snprintf(name, sizeof(name), "engine_%s_%u_slots_p99", how, slots);
    gpu_row("L", name, q->p99, "ns", floor, "<= 3");
    snprintf(name, sizeof(name), "engine_%s_%u_slots_p999", how, slots);
    gpu_row("L", name, q->p999, "ns", floor, NULL);
}

void gpu_engine_latency(void)
{
    static const uint32_t rings[] = {64, 1024, 8192, 65536, 1048576};
    for (size_t i = 0; i < sizeof(rings) / sizeof(rings[0]); i++) {
        struct tg_engine_options o;
        gpu_engine_options(&o, rings[i]);
        struct tg_engine *e = gpu_engine_open(&o);
        struct gpu_quantiles q = gpu_engine_round_trips(e, TG_PRIORITY_NORMAL, TG_OP_NOP, 0);
        report_latency(rings[i], "lane", &q, "<= 1.5");
        q = gpu_engine_round_trips(e, TG_PRIORITY_NORMAL, GPU_OP_EMPTY, 0);
        report_latency(rings[i], "worker", &q, "<= 2");
        gpu_engine_close(e);
    }
}

/* ---- T ------------------------------------------------------------------------------------------------- */

double gpu_engine_rate(const struct tg_engine_options *o, uint32_t batch, uint32_t levels)
{
    static struct tg_batch_item items[8192];
    static const uint32_t args[3] = {1, 2, 3};
    struct tg_engine *e = gpu_engine_open(o);
    for (uint32_t i = 0; i < batch; i++)
        items[i] = (struct tg_batch_item){TG_OP_NOP, args, 3};
    uint64_t n = 0, round = 0, start = tg_clock_mono_ns(), end = gpu_until(0.5);
    for (; (round & 15) || tg_clock_mono_ns() < end; n += batch, round++) {
        uint32_t level = levels == 1 ? TG_PRIORITY_NORMAL : (uint32_t)(round % levels);
        int r;
        while ((r = batch == 1 ? tg_engine_submit(e, 0, level, TG_OP_NOP, args, 3, NULL)
                               : tg_engine_submit_many(e, 0, level, items, batch, NULL)) == -EAGAIN)
            if (tg_clock_mono_ns() > end + GPU_LIMIT_NS)
                gpu_engine_must(-ETIMEDOUT, "no slot becomes free");
        gpu_engine_must(r, "submit");
    }
    gpu_engine_must(tg_engine_settle(e, GPU_LIMIT_NS), "settle");
    double rate = (double)n * 1e3 / (double)(tg_clock_mono_ns() - start);
    gpu_engine_close(e);
    return rate;
}

void gpu_engine_throughput(void)
{
    char name[96];
    struct tg_engine_options o;
    gpu_engine_options(&o, 262144);
    const struct gpu_floors *f = &gpu_floors;
    for (int i = 0; i < GPU_BATCHES; i++) {
        double r = gpu_engine_rate(&o, gpu_batch[i], 1);
        snprintf(name, sizeof(name), "engine_batches_of_%u_to_launches", gpu_batch[i]);
        gpu_row("T", name, r, "M/s", f->launches_1,
                gpu_batch[i] == 1      ? ">= 5"
                : gpu_batch[i] == 1024 ? ">= 100"
                                       : NULL);
        snprintf(name, sizeof(name), "engine_batches_of_%u_to_graph", gpu_batch[i]);
        gpu_row("T", name, r, "M/s", f->graph, gpu_batch[i] == 1024 ? ">= 5" : NULL);
        snprintf(name, sizeof(name), "engine_batches_of_%u_to_uploaded_array", gpu_batch[i]);
        gpu_row("T", name, r, "M/s", f->array[i], NULL);
        if (gpu_batch[i] == 1024)
            gpu_row("T", "engine_batches_of_1024_to_30_million", r, "M/s", 30, ">= 1");
    }
    gpu_row("T", "engine_batches_of_1024_five_levels", gpu_engine_rate(&o, 1024, 5), "M/s", f->launches_1,
            NULL);
}

/* ---- P ------------------------------------------------------------------------------------------------- */

/* blocks: of workers on a device; 0: all. opcode: how the flood goes on, GPU_OP_BURN or GPU_OP_BURN_NEXT. */
static void priority_under(int body, uint32_t blocks, uint32_t opcode)
{
    static struct tg_engine_stats stats;
    struct tg_engine_options o;
    char name[96];
    uint32_t us = gpu_body_us[body], args[3] = {us, 1, (uint32_t)(gpu.clock_ghz * 1e3)};
    struct timespec nap = {0, 20000000};
    gpu_engine_options(&o, 65536);
    o.device_blocks = blocks ? blocks : o.device_blocks;
    o.device_items = 4096;
    struct tg_engine *e = gpu_engine_open(&o);
    struct gpu_quantiles quiet = gpu_engine_round_trips(e, TG_PRIORITY_CRITICAL, TG_OP_NOP, 8192);
    uint32_t workers = gpu_engine_workers(&o), flood = 2 * workers;
    for (uint32_t i = 0; i < flood; i++)
        gpu_engine_submit(e, 1, TG_PRIORITY_LOW, opcode, args, 3, NULL);
    nanosleep(&nap, NULL);
    tg_engine_stats(e, &stats);
    uint64_t before = stats.level[TG_PRIORITY_LOW].claims, began = tg_clock_mono_ns();
    struct gpu_quantiles busy = gpu_engine_round_trips(e, TG_PRIORITY_CRITICAL, TG_OP_NOP, 8192);
    struct gpu_quantiles worker = gpu_engine_round_trips(e, TG_PRIORITY_CRITICAL, GPU_OP_EMPTY, 8192);
    tg_engine_stats(e, &stats);
    double passed_us = (double)(tg_clock_mono_ns() - began) / 1e3;
    gpu_engine_must(tg_engine_observable_store(e, GPU_STOP_WORD, 1), "stop the flood");
    gpu_engine_must(tg_engine_settle(e, GPU_LIMIT_NS), "settle");
    gpu_engine_close(e);
    if (stats.faults)
        gpu_engine_must(-EIO, "an item of the flood");
    double best = gpu_floors.high[body].p99, best_p50 = gpu_floors.high[body].p50;
    if (gpu_floors.high_flag[body].p99 < best)
        best = gpu_floors.high_flag[body].p99;
    if (gpu_floors.high_flag[body].p50 < best_p50)
        best_p50 = gpu_floors.high_flag[body].p50;
    char under[48];
    snprintf(under, sizeof(under), "%u_us_%u_workers%s", us, workers,
             opcode == GPU_OP_BURN ? "_requeued" : "");
    snprintf(name, sizeof(name), "engine_critical_alone_p99_%s", under);
    gpu_row("P", name, quiet.p99, "ns", gpu_floors.flag.p50, NULL);
    snprintf(name, sizeof(name), "engine_critical_p50_under_%s_to_flag", under);
    gpu_row("P", name, busy.p50, "ns", gpu_floors.flag.p50, NULL);
    snprintf(name, sizeof(name), "engine_critical_p50_under_%s_to_stream", under);
    gpu_row("P", name, busy.p50, "ns", best_p50, NULL);
    snprintf(name, sizeof(name), "engine_critical_p99_under_%s_to_stream", under);
    gpu_row("P", name, busy.p99, "ns", best, us == 20 ? "<= 0.333" : NULL);
    snprintf(name, sizeof(name), "engine_critical_by_worker_p50_under_%s_to_stream", under);
    gpu_row("P", name, worker.p50, "ns", best_p50, NULL);
    snprintf(name, sizeof(name), "engine_critical_by_worker_p99_under_%s_to_stream", under);
    gpu_row("P", name, worker.p99, "ns", best, NULL);
    /* How many workers the flood kept busy: without this the figures above prove nothing. */
    snprintf(name, sizeof(name), "engine_flood_of_%s_busy", under);
    gpu_row("P", name, (double)(stats.level[TG_PRIORITY_LOW].claims - before) * us / passed_us, "", workers,
            NULL);
}

void gpu_engine_priority(void)
{
    static const uint32_t opcodes[] = {GPU_OP_BURN_NEXT, GPU_OP_BURN};
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < GPU_BODIES; i++)
            priority_under(i, 0, opcodes[k]);
        if (gpu_engine_on_device()) /* so few that one dispatcher can keep all of them busy */
            priority_under(GPU_BODIES - 1, 1, opcodes[k]);
    }
}

/* ---- D ------------------------------------------------------------------------------------------------- */

enum { DEVICE_ITEMS = 65536 };

/* n items that put themselves back into the queue (GPU_OP_AGAIN), or publish their successors (GPU_OP_NEXT),
 * by all rules, over so many tenants and levels in turn: thousand million claims a second, with no host in
 * it. */
static double claim_rate(uint32_t opcode, uint32_t n, uint32_t tenants, uint32_t levels)
{
    static struct tg_engine_stats stats;
    struct tg_engine_options o;
    gpu_engine_options(&o, 262144);
    o.device_items = opcode == GPU_OP_NEXT ? DEVICE_ITEMS : 0;
    struct timespec nap = {0, 300000000};
    struct tg_engine *e = gpu_engine_open(&o);
    for (uint32_t i = 0; i < n; i++)
        gpu_engine_submit(e, i % tenants, levels == 1 ? TG_PRIORITY_NORMAL : i % levels, opcode, NULL, 0,
                          NULL);
    tg_engine_stats(e, &stats);
    uint64_t before = stats.claims, start = tg_clock_mono_ns();
    nanosleep(&nap, NULL);
    tg_engine_stats(e, &stats);
    double rate = (double)(stats.claims - before) / (double)(tg_clock_mono_ns() - start);
    gpu_engine_must(tg_engine_observable_store(e, GPU_STOP_WORD, 1), "stop");
    gpu_engine_must(tg_engine_settle(e, GPU_LIMIT_NS), "settle");
    tg_engine_stats(e, &stats);
    if (stats.faults || (opcode == GPU_OP_NEXT && gpu_engine_on_device() && stats.done < n))
        gpu_engine_must(-EIO, "an item that publishes items");
    gpu_engine_close(e);
    return rate;
}

static void report_claims(const char *what, double rate)
{
    char name[96];
    snprintf(name, sizeof(name), "engine_device_submitted_%s_to_1_thousand_million", what);
    gpu_row("D", name, rate, "G/s", 1, ">= 1");
    snprintf(name, sizeof(name), "engine_device_submitted_%s_to_plain_drain", what);
    gpu_row("D", name, rate, "G/s", gpu_floors.drain, NULL);
}

void gpu_engine_device_produced(void)
{
    /* Items a worker. A warp runs 32 at once, and each that publishes counts beside its successor until it
     * has ended: more than these might find a full queue. */
    static const uint32_t sizes[] = {8, 32, 64, 90};
    struct tg_engine_options o;
    char what[64];
    gpu_engine_options(&o, 262144);
    uint32_t workers = gpu_engine_workers(&o), n = workers * 64 < 40000 ? workers * 64 : 40000;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        if (workers * (sizes[i] + 32) > DEVICE_ITEMS)
            continue;
        snprintf(what, sizeof(what), "1_tenant_%u_items", workers * sizes[i]);
        report_claims(what, claim_rate(GPU_OP_NEXT, workers * sizes[i], 1, 1));
    }
    report_claims("29_tenants", claim_rate(GPU_OP_NEXT, n, TG_TENANTS, 1));
    report_claims("five_levels", claim_rate(GPU_OP_NEXT, n, 1, TG_PRIORITY_LEVELS));
    report_claims("29_tenants_five_levels", claim_rate(GPU_OP_NEXT, n, TG_TENANTS, TG_PRIORITY_LEVELS));
    double one = claim_rate(GPU_OP_AGAIN, n, 1, 1), all = claim_rate(GPU_OP_AGAIN, n, TG_TENANTS, 1);
    gpu_row("D", "engine_requeued_1_tenant_to_1_thousand_million", one, "G/s", 1, ">= 1");
    gpu_row("D", "engine_requeued_1_tenant_to_plain_drain", one, "G/s", gpu_floors.drain, NULL);
    gpu_row("D", "engine_requeued_29_tenants_to_plain_drain", all, "G/s", gpu_floors.drain, NULL);
}

/* ---- I ------------------------------------------------------------------------------------------------- */

enum { IDLE_BLOCKS = 8, IDLE_ROUNDS = 3 };

static double middle(double *v)
{
    double low = v[0] < v[1] ? v[0] : v[1], high = v[0] < v[1] ? v[1] : v[0];
    return v[2] < low ? low : v[2] > high ? high : v[2];
}

/* A matrix product beside an idle engine of 8 blocks, in turns with one beside 8 blocks that sleep. */
static void beside_a_product(void)
{
    double alone[IDLE_ROUNDS], asleep[IDLE_ROUNDS], idle[IDLE_ROUNDS];
    uint32_t fewer = gpu.multiprocessors - IDLE_BLOCKS;
    struct timespec nap = {0, 20000000};
    struct tg_engine_options o;
    struct gpu_product *p = gpu_product_open();
    if (!p)
        return;
    gpu_engine_options(&o, 65536);
    o.device_blocks = IDLE_BLOCKS - 1; /* and the dispatcher's */
    for (int i = 0; i < IDLE_ROUNDS; i++) {
        alone[i] = gpu_product_ms(p, fewer);
        gpu_hold(IDLE_BLOCKS, 32 * WARPS_A_BLOCK, 0);
        asleep[i] = gpu_product_ms(p, fewer);
        gpu_let_go();
        struct tg_engine *e = gpu_engine_open(&o);
        gpu_engine_submit(e, 0, TG_PRIORITY_NORMAL, GPU_OP_EMPTY, NULL, 0, NULL);
        nanosleep(&nap, NULL);
        idle[i] = gpu_product_ms(p, fewer);
        gpu_engine_close(e);
    }
    gpu_product_close(p);
    gpu_row("I", "product_told_of_8_fewer_median", middle(alone), "ms", 0, NULL);
    gpu_row("I", "product_beside_8_sleeping_blocks_median", middle(asleep), "ms", middle(alone), NULL);
    gpu_row("I", "product_beside_idle_engine_of_8_blocks_to_sleeping", middle(idle), "ms", middle(asleep),
            "<= 1.02");
    gpu_row("I", "product_beside_idle_engine_of_8_blocks_to_alone", middle(idle), "ms", middle(alone), NULL);
}

/* What an idle engine takes from the host and from the mains. */
static void quiet(void)
{
    struct tg_engine_options o;
    struct timespec nap = {2, 0};
    if (gpu.card)
        nanosleep(&nap, NULL); /* what ran before still shows in the reading */
    double watts_before = gpu.card ? gpu_watts(0.5) : 0;
    gpu_engine_options(&o, 65536);
    struct tg_engine *e = gpu_engine_open(&o);
    gpu_engine_submit(e, 0, TG_PRIORITY_NORMAL, TG_OP_NOP, NULL, 0, NULL);
    nap = (struct timespec){0, 50000000};
    nanosleep(&nap, NULL);
    uint64_t wall = tg_clock_mono_ns(), cpu = tg_clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
    nap = (struct timespec){1, 0};
    nanosleep(&nap, NULL);
    cpu = tg_clock_read_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    wall = tg_clock_mono_ns() - wall;
    gpu_row("I", "idle_engine_host_cpu", (double)cpu / (double)wall * 100, "% core", 0, NULL);
    double watts = gpu.card ? gpu_watts(0.5) : 0;
    if (watts > 0)
        gpu_row("I", "idle_engine_power", watts, "W", watts_before, NULL);
    gpu_engine_close(e);
}

void gpu_engine_idle(void)
{
    if (gpu_engine_on_device())
        beside_a_product();
    quiet();
}

void gpu_engine_part(char part)
{
    static const struct {
        char letter;
        void (*run)(void);
    } parts[] = {{'L', gpu_engine_latency},  {'T', gpu_engine_throughput}, {'D', gpu_engine_device_produced},
                 {'P', gpu_engine_priority}, {'S', gpu_engine_overtaking}, {'F', gpu_engine_fairness},
                 {'I', gpu_engine_idle},     {'X', gpu_engine_ways}};
    for (size_t i = 0; gpu.backend && i < sizeof(parts) / sizeof(parts[0]); i++)
        if (parts[i].letter == part)
            parts[i].run();
}
