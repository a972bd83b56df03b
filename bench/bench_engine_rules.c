/* SPDX-License-Identifier: Apache-2.0
 *
 * What the engine promises, measured: the cost of a claim does not grow with the ring (E11), a CRITICAL item
 * under a flood of LOW ones waits for one body (E2), no level is overtaken more often than the bound (E3),
 * backlogged tenants share evenly (E4), an idle engine is quiet and wakes quickly (E10). floor is the limit
 * or the smaller case, ratio what was reached of it. Usage: bench_engine_rules [scale], 1.0 takes about 10 s.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include <tidegate/engine.h>

#include "bench.h"
#include "engine/internal.h"

#define BENCH "engine_rules"
#define LIMIT UINT64_C(20000000000)
#define OP_BODY 8u
static double scale = 1.0;

static uint64_t count_of(double n)
{
    double r = n * scale;
    return r < 1000 ? 1000 : (uint64_t)r;
}

static void must(int error)
{
    if (error) {
        fprintf(stderr, "bench_engine_rules: error %d\n", error);
        exit(1);
    }
}

static struct tg_engine *open_engine(uint32_t slots, uint32_t workers, uint32_t spin_us)
{
    struct tg_engine_options o;
    struct tg_engine *e;
    const uint32_t cpus[] = {1, 0};
    tg_engine_options_init(&o);
    o.slots = slots;
    o.workers = workers;
    o.cpus = cpus;
    o.cpu_count = 2;
    o.spin_us = spin_us;
    must(tg_engine_open(&o, &e));
    return e;
}

static void pause_ns(uint64_t ns)
{
    struct timespec ts = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    nanosleep(&ts, NULL);
}

/* ---- The cost of a claim ------------------------------------------------------------------------------- */

/* The engine's own steps on this thread: the worker is gone, the engine accepts again. One published slot
 * among all of them; ns of tg_claim_next alone, clock included, and of the item from submit to DONE. */
static void claim_cost(uint32_t slots, uint64_t *sample, uint64_t n, double *ret_claim, double *ret_item)
{
    struct tg_engine *e = open_engine(slots, 1, 20);
    struct tg_worker *w = &e->workers[0];
    must(tg_engine_drain(e, LIMIT, NULL));
    e->accepting = 1;
    e->control[TG_CONTROL_SHUTDOWN] = 0;
    uint64_t all = tg_clock_mono_ns();
    for (uint64_t i = 0; i < n; i++) {
        struct tg_fault fault = {0};
        must(tg_engine_submit(e, (uint32_t)(i % TG_TENANTS), (uint32_t)(i % 5), TG_OP_NOP, NULL, 0, NULL));
        uint64_t start = tg_clock_mono_ns();
        bool got = tg_claim_next(w, &w->current);
        sample[i] = tg_clock_mono_ns() - start;
        must(got ? 0 : -ENOENT);
        tg_count_claim(w, &w->current);
        tg_finish(w, &w->current, tg_run(w, &w->current, &fault), &fault);
    }
    *ret_item = (double)(tg_clock_mono_ns() - all) / (double)n;
    tg_freed_flush(w);
    bench_sort(sample, n);
    *ret_claim = (double)bench_quantile(sample, n, 0.5);
    must(tg_engine_close(e, LIMIT, NULL));
}

static void flat(uint64_t *sample, uint64_t n)
{
    double claim[2], item[2];
    for (int i = 0; i < 2; i++) /* the first time warms up */
        claim_cost(64, sample, n, &claim[0], &item[0]);
    claim_cost(1048576, sample, n, &claim[1], &item[1]);
    bench_print(BENCH, "claim_among_64_slots_p50", claim[0], "ns", 0);
    bench_print(BENCH, "claim_among_1048576_slots_p50", claim[1], "ns", claim[0]);
    bench_print(BENCH, "item_on_one_core_64_slots", item[0], "ns", 0);
    bench_print(BENCH, "item_on_one_core_1048576_slots", item[1], "ns", item[0]);
}

/* ---- CRITICAL under a flood of LOW --------------------------------------------------------------------- */

enum { BODY_NS = 20000 };
static uint32_t flooding;

/* Burns 20 us, then publishes itself again: the worker always has LOW work. */
static int flood_body(void *context, struct tg_op *op)
{
    (void)context;
    uint64_t end = tg_clock_mono_ns() + BODY_NS;
    while (tg_clock_mono_ns() < end)
        ;
    if (tg_load_relaxed_u32(&flooding))
        tg_engine_submit(op->engine, op->tenant, op->priority, OP_BODY, NULL, 0, NULL);
    return TG_OP_FINISHED;
}

static double critical_p99(struct tg_engine *e, uint64_t *sample, uint64_t n)
{
    uint64_t gap = 1;
    for (uint64_t i = 0; i < n; i++) {
        struct tg_item t;
        gap = gap * UINT64_C(6364136223846793005) + 1;
        for (uint64_t end = tg_clock_mono_ns() + gap % 8192; tg_clock_mono_ns() < end;)
            tg_cpu_relax();
        uint64_t start = tg_clock_mono_ns();
        must(tg_engine_submit(e, 0, TG_PRIORITY_CRITICAL, TG_OP_NOP, NULL, 0, &t));
        int r;
        while ((r = tg_engine_poll(e, &t)) == -EINPROGRESS)
            tg_cpu_relax();
        must(r);
        sample[i] = tg_clock_mono_ns() - start;
    }
    bench_sort(sample, n);
    return (double)bench_quantile(sample, n, 0.99);
}

/* The least that could be done: a thread that burns bodies and looks at one word after each. What the machine
 * takes from either thread for itself lengthens this as it does the engine's. */
static struct {
    _Alignas(128) uint64_t asked;
    _Alignas(128) uint64_t answered;
    uint32_t stop;
} bare;

static void *bare_worker(void *unused)
{
    (void)unused;
    bench_pin(1);
    while (!tg_load_relaxed_u32(&bare.stop)) {
        for (uint64_t end = tg_clock_mono_ns() + BODY_NS; tg_clock_mono_ns() < end;)
            ;
        tg_store_release_u64(&bare.answered, tg_load_acquire_u64(&bare.asked));
    }
    return NULL;
}

static double bare_p99(uint64_t *sample, uint64_t n)
{
    pthread_t thread;
    uint64_t gap = 1;
    tg_store_relaxed_u32(&bare.stop, 0);
    must(pthread_create(&thread, NULL, bare_worker, NULL));
    for (uint64_t i = 0; i < n; i++) {
        gap = gap * UINT64_C(6364136223846793005) + 1;
        for (uint64_t end = tg_clock_mono_ns() + gap % 8192; tg_clock_mono_ns() < end;)
            tg_cpu_relax();
        uint64_t start = tg_clock_mono_ns(), mine = tg_load_relaxed_u64(&bare.asked) + 1;
        tg_store_release_u64(&bare.asked, mine);
        while (tg_load_acquire_u64(&bare.answered) != mine)
            tg_cpu_relax();
        sample[i] = tg_clock_mono_ns() - start;
    }
    tg_store_relaxed_u32(&bare.stop, 1);
    pthread_join(thread, NULL);
    bench_sort(sample, n);
    return (double)bench_quantile(sample, n, 0.99);
}

static void flood(uint64_t *sample, uint64_t n)
{
    struct tg_engine *e = open_engine(4096, 1, 1000);
    must(tg_engine_register(e, OP_BODY, flood_body, NULL));
    double idle = critical_p99(e, sample, n);
    tg_store_relaxed_u32(&flooding, 1);
    for (int i = 0; i < 64; i++)
        must(tg_engine_submit(e, 1, TG_PRIORITY_LOW, OP_BODY, NULL, 0, NULL));
    double busy = critical_p99(e, sample, n);
    double p50 = (double)bench_quantile(sample, n, 0.5);
    tg_store_relaxed_u32(&flooding, 0);
    must(tg_engine_close(e, LIMIT, NULL));
    double floor = bare_p99(sample, n);
    bench_print(BENCH, "critical_p99_idle", idle, "ns", 0);
    bench_print(BENCH, "critical_p50_under_low_flood", p50, "ns", BODY_NS);
    bench_print(BENCH, "critical_p99_under_low_flood_to_body_plus_2_idle_p99", busy, "ns",
                BODY_NS + 2 * idle);
    bench_print(BENCH, "critical_p99_under_low_flood_to_a_bare_word", busy, "ns", floor);
}

/* ---- Overtaking and fairness --------------------------------------------------------------------------- */

/* One worker, so the handler sees the claims in their order. Items publish themselves again: every level of
 * the mask always has work. */
static struct {
    uint64_t left, claims;
    uint32_t mask;
    uint32_t waited[TG_PRIORITY_LEVELS], worst;
} order;

static int order_body(void *context, struct tg_op *op)
{
    (void)context;
    if (order.left == 0)
        return TG_OP_FINISHED;
    order.left--;
    order.claims++;
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++) {
        if (!(order.mask >> l & 1u))
            continue;
        order.waited[l] = l == op->priority ? 0 : order.waited[l] + 1;
        if (order.waited[l] > order.worst)
            order.worst = order.waited[l];
    }
    return tg_engine_submit(op->engine, op->tenant, op->priority, OP_BODY, NULL, 0, NULL);
}

static void overtaking(uint64_t claims)
{
    uint32_t worst = 0;
    for (uint32_t mask = 1; mask <= TG_LEVELS_ALL; mask++) {
        struct tg_engine *e = open_engine(320, 1, 20);
        must(tg_engine_register(e, OP_BODY, order_body, NULL));
        memset(order.waited, 0, sizeof(order.waited));
        order.mask = mask;
        order.worst = 0;
        order.left = claims / TG_LEVELS_ALL + 1;
        /* The items lie ready before the first is claimed: the tenant is off meanwhile. */
        must(tg_engine_set_tenant(e, 0, 0));
        for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
            for (int i = 0; i < 8 && (mask >> l & 1u); i++)
                must(tg_engine_submit(e, 0, l, OP_BODY, NULL, 0, NULL));
        must(tg_engine_set_tenant(e, 0, 1));
        must(tg_engine_settle(e, LIMIT));
        must(tg_engine_close(e, LIMIT, NULL));
        worst = order.worst > worst ? order.worst : worst;
    }
    bench_print(BENCH, "claims_with_every_mix_of_levels", (double)order.claims, "claims", 0);
    bench_print(BENCH, "longest_overtaking_to_bound", worst, "claims", TG_OVERTAKING_BOUND);
}

static uint64_t share_left, share[2][TG_TENANTS]; /* by worker: no line is shared between them */

static int share_body(void *context, struct tg_op *op)
{
    (void)context;
    if ((int64_t)tg_load_relaxed_u64(&share_left) <= 0)
        return TG_OP_FINISHED;
    tg_sub_relaxed_u64(&share_left, 1);
    share[op->worker][op->tenant]++;
    return tg_engine_submit(op->engine, op->tenant, op->priority, OP_BODY, NULL, 0, NULL);
}

/* 29 tenants, all backlogged; tenant 0 has 100 times as many items waiting as each of the others. */
static void fairness(uint32_t workers, uint64_t claims)
{
    struct tg_engine *e = open_engine(64000, workers, 20);
    uint64_t sum[TG_TENANTS];
    char name[64];
    must(tg_engine_register(e, OP_BODY, share_body, NULL));
    memset(share, 0, sizeof(share));
    for (uint32_t t = 0; t < TG_TENANTS; t++)
        must(tg_engine_set_tenant(e, t, 0));
    for (uint32_t t = 0; t < TG_TENANTS; t++)
        for (int i = 0; i < (t == 0 ? 7000 : 70); i++)
            must(tg_engine_submit(e, t, TG_PRIORITY_NORMAL, OP_BODY, NULL, 0, NULL));
    tg_store_relaxed_u64(&share_left, claims);
    for (uint32_t t = 0; t < TG_TENANTS; t++)
        must(tg_engine_set_tenant(e, t, 1));
    must(tg_engine_settle(e, LIMIT));
    must(tg_engine_close(e, LIMIT, NULL));
    for (uint32_t t = 0; t < TG_TENANTS; t++)
        sum[t] = share[0][t] + share[1][t];
    snprintf(name, sizeof(name), "jain_29_tenants_demand_100_to_1_%u_worker%s", workers,
             workers > 1 ? "s" : "");
    bench_print(BENCH, name, (double)tg_tenants_jain_ppm(sum, TG_TENANTS) / 1e6, "", 1);
}

/* ---- Quiet --------------------------------------------------------------------------------------------- */

static void idle(void)
{
    struct tg_engine *e = open_engine(4096, 2, 20);
    uint64_t wall = UINT64_C(2000000000);
    pause_ns(50000000);
    uint64_t cpu = tg_clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
    pause_ns(wall);
    cpu = tg_clock_read_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    must(tg_engine_close(e, LIMIT, NULL));
    bench_print(BENCH, "idle_2_workers_cpu", (double)cpu / (double)wall * 100, "% of a core", 0.1);
}

/* One item for an engine that fell asleep. */
static void wake_up(uint64_t *sample, uint64_t n)
{
    struct tg_engine *e = open_engine(4096, 1, 0);
    for (uint64_t i = 0; i < n; i++) {
        struct tg_item t;
        int r;
        pause_ns(200000);
        uint64_t start = tg_clock_mono_ns();
        must(tg_engine_submit(e, 0, TG_PRIORITY_NORMAL, TG_OP_NOP, NULL, 0, &t));
        while ((r = tg_engine_poll(e, &t)) == -EINPROGRESS)
            tg_cpu_relax();
        must(r);
        sample[i] = tg_clock_mono_ns() - start;
    }
    must(tg_engine_close(e, LIMIT, NULL));
    bench_sort(sample, n);
    bench_print(BENCH, "asleep_submit_to_done_p50", (double)bench_quantile(sample, n, 0.5), "ns", 0);
    bench_print(BENCH, "asleep_submit_to_done_p99", (double)bench_quantile(sample, n, 0.99), "ns", 0);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        scale = strtod(argv[1], NULL);
    uint64_t n = count_of(200000);
    uint64_t *sample = malloc(n * sizeof(*sample));
    if (!sample)
        return 1;
    if (bench_pin(0) != 0)
        fprintf(stderr, "bench_engine_rules: not pinned\n");
    flat(sample, n);
    flood(sample, n / 10);
    overtaking(count_of(1e7));
    fairness(1, count_of(3e6));
    fairness(2, count_of(3e6));
    idle();
    wake_up(sample, n / 100);
    free(sample);
    return 0;
}
