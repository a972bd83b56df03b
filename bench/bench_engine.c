/* SPDX-License-Identifier: Apache-2.0
 *
 * The resident engine against what one would use instead, in one run, 64-byte items, pinned threads: rings
 * without priorities (Vyukov, ck_ring, rte_ring), queues with them (oneTBB's, a mutex with a list a level),
 * and what most programs have (a mutex and condition variables, GAsyncQueue, oneTBB's bounded queue). Those
 * whose library is not here are left out (engine/queues.h).
 *
 * Items are NOPs: what is measured is the hand-over. The contenders' consumers only say how far they are (one
 * store an item); the engine checks tenants, quotas and bounds, orders five levels fairly and keeps a state
 * an item. The host may move or slow the cores at any time, so the cases take turns and each figure is the
 * median of ROUNDS. Usage: bench_engine [scale [latency|1to1|2to2]], 1.0 takes about a minute.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include <tidegate/engine.h>

#include "base/atomic.h"
#include "bench.h"
#include "engine/queues.h"

#define BENCH "engine"
#define ROUNDS 5
#define MAX_QUEUES 16
#define LIMIT UINT64_C(20000000000)
static double scale = 1.0;

static uint64_t count_of(double n)
{
    double r = n * scale;
    return r < 1000 ? 1000 : (uint64_t)r;
}

struct line {
    _Alignas(128) uint64_t word;
};

static void must(int error)
{
    if (error) {
        fprintf(stderr, "bench_engine: error %d\n", error);
        exit(1);
    }
}

static double median(const double *of)
{
    double v[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        int k = i;
        for (; k > 0 && v[k - 1] > of[i]; k--)
            v[k] = v[k - 1];
        v[k] = of[i];
    }
    return v[ROUNDS / 2];
}

static void yield_core(void)
{
    sched_yield();
}

/* ---- The floor: one cache line, two cores -------------------------------------------------------------- */

static struct line ping, pong;

static void *pingpong_peer(void *rounds)
{
    bench_pin(1);
    for (uint64_t i = 1; i <= *(uint64_t *)rounds; i++) {
        while (tg_load_acquire_u64(&ping.word) != i)
            tg_cpu_relax();
        tg_store_release_u64(&pong.word, i);
    }
    return NULL;
}

static double quantile(uint64_t *sample, size_t n, double q)
{
    bench_sort(sample, n);
    return (double)bench_quantile(sample, n, q);
}

static double floor_round_trip(uint64_t *sample, uint64_t n)
{
    pthread_t peer;
    ping.word = pong.word = 0;
    must(pthread_create(&peer, NULL, pingpong_peer, &n));
    for (uint64_t i = 1; i <= n; i++) {
        uint64_t start = tg_clock_mono_ns();
        tg_store_release_u64(&ping.word, i);
        while (tg_load_acquire_u64(&pong.word) != i)
            tg_cpu_relax();
        sample[i - 1] = tg_clock_mono_ns() - start;
    }
    pthread_join(peer, NULL);
    return quantile(sample, n, 0.5);
}

/* ---- Contenders ---------------------------------------------------------------------------------------- */

struct job {
    const struct bench_queue *queue;
    uint64_t count;
    unsigned cpu;
    bool mixed; /* items of five priorities in turn */
    struct line *answered;
};

static void *consume(void *context)
{
    const struct job *job = context;
    struct bench_item item;
    bench_pin(job->cpu);
    for (uint64_t i = 0; i < job->count; i++) {
        job->queue->pop(&item);
        tg_store_release_u64(&job->answered->word, i + 1);
    }
    return NULL;
}

static void *produce(void *context)
{
    const struct job *job = context;
    struct bench_item item = {{1}};
    bench_pin(job->cpu);
    for (uint64_t i = 0; i < job->count; i++) {
        item.words[3] = job->mixed ? (uint32_t)(i % 5) : 2;
        job->queue->push(&item);
    }
    return NULL;
}

/* Million items a second through the queue, by `pairs` producers and as many consumers. */
static double queue_rate(const struct bench_queue *queue, unsigned pairs, uint64_t n, bool mixed)
{
    static struct line answered[2];
    struct job job[4];
    pthread_t thread[4];
    bench_idle = pairs == 1 ? tg_cpu_relax : yield_core; /* four threads on two cores */
    queue->open();
    uint64_t start = tg_clock_mono_ns();
    for (unsigned i = 0; i < 2 * pairs; i++) {
        job[i] = (struct job){queue, n / pairs, pairs == 1 ? 1 - i : i % 2, mixed, &answered[i % pairs]};
        must(pthread_create(&thread[i], NULL, i < pairs ? consume : produce, &job[i]));
    }
    for (unsigned i = 0; i < 2 * pairs; i++)
        pthread_join(thread[i], NULL);
    double rate = (double)n * 1e3 / (double)(tg_clock_mono_ns() - start);
    queue->close();
    return rate;
}

static double queue_round_trip(const struct bench_queue *queue, uint64_t *sample, uint64_t n)
{
    static struct line answered;
    struct job job = {queue, n, 1, false, &answered};
    struct bench_item item = {{1}};
    pthread_t thread;
    bench_idle = tg_cpu_relax;
    answered.word = 0;
    queue->open();
    must(pthread_create(&thread, NULL, consume, &job));
    for (uint64_t i = 0; i < n; i++) {
        uint64_t start = tg_clock_mono_ns();
        queue->push(&item);
        while (tg_load_acquire_u64(&answered.word) != i + 1)
            tg_cpu_relax();
        sample[i] = tg_clock_mono_ns() - start;
    }
    pthread_join(thread, NULL);
    queue->close();
    return quantile(sample, n, 0.5);
}

/* ---- The engine ---------------------------------------------------------------------------------------- */

static struct tg_engine *open_engine(uint32_t slots, uint32_t workers, uint32_t spin_us, uint32_t flags)
{
    struct tg_engine_options o;
    struct tg_engine *e;
    const uint32_t cpus[] = {1, 0};
    tg_engine_options_init(&o);
    o.slots = slots;
    o.flags = flags;
    o.workers = workers;
    o.cpus = cpus;
    o.cpu_count = 2;
    o.spin_us = spin_us;
    must(tg_engine_open(&o, &e));
    return e;
}

static void close_engine(struct tg_engine *e)
{
    must(tg_engine_close(e, LIMIT, NULL));
}

struct feed {
    struct tg_engine *engine;
    uint64_t count;
    unsigned cpu;
    uint32_t levels;
};

static void *feed(void *context)
{
    const struct feed *f = context;
    const uint32_t args[3] = {1, 2, 3};
    bench_pin(f->cpu);
    for (uint64_t i = 0; i < f->count; i++) {
        uint32_t level = f->levels == 1 ? TG_PRIORITY_NORMAL : (uint32_t)(i % f->levels);
        int r;
        while ((r = tg_engine_submit(f->engine, 0, level, TG_OP_NOP, args, 3, NULL)) == -EAGAIN)
            bench_idle();
        must(r);
    }
    return NULL;
}

static double engine_rate(unsigned pairs, uint64_t n, uint32_t levels)
{
    struct tg_engine *e = open_engine(5120, pairs, pairs == 1 ? 100000 : 20, 0);
    struct feed f[2];
    pthread_t thread[2];
    bench_idle = pairs == 1 ? tg_cpu_relax : yield_core;
    uint64_t start = tg_clock_mono_ns();
    for (unsigned i = 0; i < pairs; i++) {
        f[i] = (struct feed){e, n / pairs, i, levels};
        must(pthread_create(&thread[i], NULL, feed, &f[i]));
    }
    for (unsigned i = 0; i < pairs; i++)
        pthread_join(thread[i], NULL);
    must(tg_engine_settle(e, LIMIT));
    double rate = (double)n * 1e3 / (double)(tg_clock_mono_ns() - start);
    close_engine(e);
    return rate;
}

static double engine_batch_rate(uint64_t n)
{
    enum { BATCH = 64 };
    struct tg_engine *e = open_engine(5120, 1, 100000, 0);
    struct tg_batch_item items[BATCH];
    uint32_t args[3] = {1, 2, 3};
    for (int i = 0; i < BATCH; i++)
        items[i] = (struct tg_batch_item){TG_OP_NOP, args, 3};
    uint64_t start = tg_clock_mono_ns();
    for (uint64_t i = 0; i < n; i += BATCH) {
        int r;
        while ((r = tg_engine_submit_many(e, 0, TG_PRIORITY_NORMAL, items, BATCH, NULL)) == -EAGAIN)
            tg_cpu_relax();
        must(r);
    }
    must(tg_engine_settle(e, LIMIT));
    double rate = (double)n * 1e3 / (double)(tg_clock_mono_ns() - start);
    close_engine(e);
    return rate;
}

static double engine_round_trip(uint32_t slots, uint32_t flags, uint64_t *sample, uint64_t n)
{
    struct tg_engine *e = open_engine(slots, 1, 100000, flags);
    const uint32_t args[3] = {1, 2, 3};
    struct tg_item t;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t start = tg_clock_mono_ns();
        must(tg_engine_submit(e, 0, TG_PRIORITY_NORMAL, TG_OP_NOP, args, 3, &t));
        must(tg_engine_wait(e, &t, LIMIT));
        sample[i] = tg_clock_mono_ns() - start;
    }
    close_engine(e);
    return quantile(sample, n, 0.5);
}

/* ---- The cases, in turns --------------------------------------------------------------------------------
 */

static void latencies(uint64_t *sample, uint64_t n)
{
    double line[ROUNDS], p50[ROUNDS], p99[ROUNDS], small[ROUNDS], large[ROUNDS], scan[ROUNDS];
    double other[MAX_QUEUES][ROUNDS];
    char name[80];
    for (int i = 0; i < ROUNDS; i++) {
        line[i] = floor_round_trip(sample, n);
        p50[i] = engine_round_trip(5120, 0, sample, n);
        p99[i] = (double)bench_quantile(sample, n, 0.99);
        for (int q = 0; bench_queues[q]; q++)
            other[q][i] = queue_round_trip(bench_queues[q], sample,
                                           (uint64_t)((double)n * bench_queues[q]->weight) + 100);
        small[i] = engine_round_trip(64, 0, sample, n);
        large[i] = engine_round_trip(1048576, 0, sample, n);
        scan[i] = engine_round_trip(4096, TG_ENGINE_SCAN, sample, n / 40 + 100);
    }
    double floor = median(line);
    bench_print(BENCH, "cache_line_round_trip_p50", floor, "ns", 0);
    bench_print(BENCH, "engine_submit_to_done_p50", median(p50), "ns", floor);
    bench_print(BENCH, "engine_submit_to_done_p99", median(p99), "ns", floor);
    for (int q = 0; bench_queues[q]; q++) {
        snprintf(name, sizeof(name), "%s_round_trip_p50", bench_queues[q]->name);
        bench_print(BENCH, name, median(other[q]), "ns", floor);
    }
    bench_print(BENCH, "engine_one_item_64_slots_p50", median(small), "ns", floor);
    bench_print(BENCH, "engine_one_item_1048576_slots_p50", median(large), "ns", median(small));
    bench_print(BENCH, "engine_one_item_4096_slots_scanning_p50", median(scan), "ns", median(small));
}

/* The fastest of the queues with or without priorities; its name goes to *ret_name. */
static double fastest(bool priorities, const double medians[MAX_QUEUES], const char **ret_name)
{
    double best = 0;
    for (int q = 0; bench_queues[q]; q++) {
        if (bench_queues[q]->priorities != priorities || medians[q] <= best)
            continue;
        best = medians[q];
        *ret_name = bench_queues[q]->name;
    }
    return best;
}

static void print_rates(unsigned pairs, const double medians[MAX_QUEUES], double one, double five)
{
    const char *plain = "none", *ordered = "none";
    char name[160];
    double ring = fastest(false, medians, &plain), sorted = fastest(true, medians, &ordered);
    for (int q = 0; bench_queues[q]; q++) {
        if (pairs > 1 && bench_queues[q]->single)
            continue;
        snprintf(name, sizeof(name), "%s_%up%uc%s", bench_queues[q]->name, pairs, pairs,
                 bench_queues[q]->priorities ? "_five_levels" : "");
        bench_print(BENCH, name, medians[q], "M items/s", ring);
    }
    snprintf(name, sizeof(name), "engine_%up%uw_to_%s", pairs, pairs, plain);
    bench_print(BENCH, name, one, "M items/s", ring);
    snprintf(name, sizeof(name), "engine_%up%uw_five_levels_to_%s", pairs, pairs, ordered);
    bench_print(BENCH, name, five, "M items/s", sorted);
}

static void rates(unsigned pairs)
{
    static double other[MAX_QUEUES][ROUNDS];
    double one[ROUNDS], five[ROUNDS], batch[ROUNDS], medians[MAX_QUEUES] = {0};
    uint64_t n = count_of(pairs == 1 ? 3e6 : 1e6);
    for (int i = 0; i < ROUNDS; i++) {
        for (int q = 0; bench_queues[q]; q++) {
            const struct bench_queue *queue = bench_queues[q];
            if (pairs == 1 || !queue->single)
                other[q][i] = queue_rate(queue, pairs, (uint64_t)((double)n * queue->weight) / 10 * 10,
                                         queue->priorities);
        }
        one[i] = engine_rate(pairs, n, 1);
        five[i] = engine_rate(pairs, n, 5);
        batch[i] = pairs == 1 ? engine_batch_rate(n) : 0;
    }
    for (int q = 0; bench_queues[q]; q++)
        medians[q] = pairs == 1 || !bench_queues[q]->single ? median(other[q]) : 0;
    print_rates(pairs, medians, median(one), median(five));
    if (pairs == 1)
        bench_print(BENCH, "engine_1p1w_batches_of_64", median(batch), "M items/s", median(one));
}

int main(int argc, char **argv)
{
    if (argc > 1)
        scale = strtod(argv[1], NULL);
    const char *only = argc > 2 ? argv[2] : NULL;
    if (bench_pin(0) != 0)
        fprintf(stderr, "bench_engine: not pinned\n");
    uint64_t n = count_of(40000);
    uint64_t *sample = malloc((n + 100) * sizeof(*sample));
    if (!sample)
        return 1;
    if (!only || strcmp(only, "latency") == 0)
        latencies(sample, n);
    for (unsigned pairs = 1; pairs <= 2; pairs++)
        if (!only || strcmp(only, pairs == 1 ? "1to1" : "2to2") == 0)
            rates(pairs);
    free(sample);
    return 0;
}
