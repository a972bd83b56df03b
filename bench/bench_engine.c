/* SPDX-License-Identifier: Apache-2.0
 *
 * The resident engine against what one would use instead, in one run on two pinned cores:
 *   - a cache line passed to and fro (the floor of latency),
 *   - a bounded MPMC ring with a sequence number a cell (Vyukov), 64-byte items: the fastest plain ring,
 *   - a mutex and condition variable queue, 64-byte items.
 * Items are NOPs: what is measured is the hand-over. Usage: bench_engine [scale], 1.0 takes about 15 s.
 */
#include <pthread.h>
#include <errno.h>

#include <tidegate/engine.h>

#include "base/atomic.h"
#include "bench.h"

#define BENCH "engine"
static const unsigned producer_cpu = 0, worker_cpu = 1;
static double scale = 1.0;

static uint64_t rounds_of(double n)
{
    double r = n * scale;
    return r < 1000 ? 1000 : (uint64_t)r;
}

struct line {
    _Alignas(128) uint64_t word;
};

/* ---- The floor: one cache line, two cores -------------------------------------------------------------- */

static struct line ping, pong;
static uint64_t pingpong_rounds;

static void *pingpong_peer(void *unused)
{
    (void)unused;
    bench_pin(worker_cpu);
    for (uint64_t i = 1; i <= pingpong_rounds; i++) {
        while (tg_load_acquire_u64(&ping.word) != i)
            tg_cpu_relax();
        tg_store_release_u64(&pong.word, i);
    }
    return NULL;
}

static uint64_t floor_round_trip(uint64_t *sample, size_t n)
{
    pthread_t peer;
    pingpong_rounds = n;
    ping.word = pong.word = 0;
    if (pthread_create(&peer, NULL, pingpong_peer, NULL) != 0)
        exit(1);
    for (uint64_t i = 1; i <= n; i++) {
        uint64_t start = tg_clock_mono_ns();
        tg_store_release_u64(&ping.word, i);
        while (tg_load_acquire_u64(&pong.word) != i)
            tg_cpu_relax();
        sample[i - 1] = tg_clock_mono_ns() - start;
    }
    pthread_join(peer, NULL);
    bench_sort(sample, n);
    return bench_quantile(sample, n, 0.5);
}

/* ---- Contenders -----------------------------------------------------------------------------------------
 */

struct item {
    uint32_t words[16];
};

struct contender {
    const char *name;
    void (*push)(const struct item *);
    void (*pop)(struct item *);
};

#define CELLS 1024u
static struct {
    _Alignas(128) uint64_t tail;
    _Alignas(128) uint64_t head;
    struct {
        _Alignas(64) uint64_t sequence;
        struct item item;
    } cell[CELLS];
} vyukov;

static void yield_core(void)
{
    sched_yield();
}

static inline __attribute__((always_inline)) void vyukov_push_with(const struct item *item,
                                                                   void (*pause)(void))
{
    uint64_t pos = tg_load_relaxed_u64(&vyukov.tail);
    for (;;) {
        uint64_t seq = tg_load_acquire_u64(&vyukov.cell[pos % CELLS].sequence);
        if (seq == pos) {
            if (tg_cas_relaxed_u64(&vyukov.tail, &pos, pos + 1))
                break;
        } else {
            if (seq < pos)
                pause();
            pos = tg_load_relaxed_u64(&vyukov.tail);
        }
    }
    vyukov.cell[pos % CELLS].item = *item;
    tg_store_release_u64(&vyukov.cell[pos % CELLS].sequence, pos + 1);
}

static void vyukov_push(const struct item *item)
{
    vyukov_push_with(item, tg_cpu_relax);
}

static void vyukov_push_yielding(const struct item *item)
{
    vyukov_push_with(item, yield_core);
}

static inline __attribute__((always_inline)) void vyukov_pop_with(struct item *item, void (*pause)(void))
{
    uint64_t pos = tg_load_relaxed_u64(&vyukov.head);
    for (;;) {
        uint64_t seq = tg_load_acquire_u64(&vyukov.cell[pos % CELLS].sequence);
        if (seq == pos + 1) {
            if (tg_cas_relaxed_u64(&vyukov.head, &pos, pos + 1))
                break;
        } else {
            if (seq < pos + 1)
                pause();
            pos = tg_load_relaxed_u64(&vyukov.head);
        }
    }
    *item = vyukov.cell[pos % CELLS].item;
    tg_store_release_u64(&vyukov.cell[pos % CELLS].sequence, pos + CELLS);
}

static void vyukov_pop(struct item *item)
{
    vyukov_pop_with(item, tg_cpu_relax);
}

static void vyukov_pop_yielding(struct item *item)
{
    vyukov_pop_with(item, yield_core);
}

static struct {
    pthread_mutex_t lock;
    pthread_cond_t filled, emptied;
    uint64_t head, tail;
    struct item items[CELLS];
} locked = {.lock = PTHREAD_MUTEX_INITIALIZER,
            .filled = PTHREAD_COND_INITIALIZER,
            .emptied = PTHREAD_COND_INITIALIZER};

static void locked_push(const struct item *item)
{
    pthread_mutex_lock(&locked.lock);
    while (locked.tail - locked.head == CELLS)
        pthread_cond_wait(&locked.emptied, &locked.lock);
    locked.items[locked.tail++ % CELLS] = *item;
    pthread_cond_signal(&locked.filled);
    pthread_mutex_unlock(&locked.lock);
}

static void locked_pop(struct item *item)
{
    pthread_mutex_lock(&locked.lock);
    while (locked.tail == locked.head)
        pthread_cond_wait(&locked.filled, &locked.lock);
    *item = locked.items[locked.head++ % CELLS];
    pthread_cond_signal(&locked.emptied);
    pthread_mutex_unlock(&locked.lock);
}

static struct line answered;
static uint64_t consume_count;

static void *consumer(void *contender)
{
    const struct contender *c = contender;
    struct item item;
    bench_pin(worker_cpu);
    for (uint64_t i = 0; i < consume_count; i++) {
        c->pop(&item);
        /* What an engine does per item beside the hand-over: say that it is done. */
        tg_store_release_u64(&answered.word, i + 1);
    }
    return NULL;
}

static double contender_rate(const struct contender *c, uint64_t n)
{
    pthread_t thread;
    struct item item = {{1}};
    consume_count = n;
    answered.word = 0;
    if (pthread_create(&thread, NULL, consumer, (void *)(uintptr_t)c) != 0)
        exit(1);
    uint64_t start = tg_clock_mono_ns();
    for (uint64_t i = 0; i < n; i++)
        c->push(&item);
    pthread_join(thread, NULL);
    return (double)n * 1e3 / (double)(tg_clock_mono_ns() - start);
}

static uint64_t contender_round_trip(const struct contender *c, uint64_t *sample, size_t n)
{
    pthread_t thread;
    struct item item = {{1}};
    consume_count = n;
    answered.word = 0;
    if (pthread_create(&thread, NULL, consumer, (void *)(uintptr_t)c) != 0)
        exit(1);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t start = tg_clock_mono_ns();
        c->push(&item);
        while (tg_load_acquire_u64(&answered.word) != i + 1)
            tg_cpu_relax();
        sample[i] = tg_clock_mono_ns() - start;
    }
    pthread_join(thread, NULL);
    bench_sort(sample, n);
    return bench_quantile(sample, n, 0.5);
}

/* ---- The engine -----------------------------------------------------------------------------------------
 */

static struct tg_engine *open_engine(uint32_t slots, uint32_t flags)
{
    struct tg_engine_options o;
    struct tg_engine *e;
    uint32_t cpus[] = {worker_cpu};
    tg_engine_options_init(&o);
    o.slots = slots;
    o.flags = flags;
    o.workers = 1;
    o.cpus = cpus;
    o.cpu_count = 1;
    o.spin_us = 100000;
    if (tg_engine_open(&o, &e) != 0)
        exit(1);
    return e;
}

static void must(int error)
{
    if (error) {
        fprintf(stderr, "bench_engine: error %d\n", error);
        exit(1);
    }
}

static double engine_rate(uint64_t n, uint32_t levels)
{
    struct tg_engine *e = open_engine(5120, 0);
    uint32_t args[3] = {1, 2, 3};
    uint64_t start = tg_clock_mono_ns();
    for (uint64_t i = 0; i < n; i++) {
        uint32_t level = levels == 1 ? TG_PRIORITY_NORMAL : (uint32_t)(i % levels);
        int r;
        while ((r = tg_engine_submit(e, 0, level, TG_OP_NOP, args, 3, NULL)) == -EAGAIN)
            tg_cpu_relax();
        must(r);
    }
    must(tg_engine_settle(e, UINT64_C(10000000000)));
    double rate = (double)n * 1e3 / (double)(tg_clock_mono_ns() - start);
    must(tg_engine_close(e, UINT64_C(10000000000), NULL));
    return rate;
}

static double engine_batch_rate(uint64_t n)
{
    enum { BATCH = 64 };
    struct tg_engine *e = open_engine(5120, 0);
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
    must(tg_engine_settle(e, UINT64_C(10000000000)));
    double rate = (double)n * 1e3 / (double)(tg_clock_mono_ns() - start);
    must(tg_engine_close(e, UINT64_C(10000000000), NULL));
    return rate;
}

static uint64_t engine_round_trip(uint32_t slots, uint32_t flags, uint64_t *sample, size_t n)
{
    struct tg_engine *e = open_engine(slots, flags);
    uint32_t args[3] = {1, 2, 3};
    struct tg_ticket t;
    for (size_t i = 0; i < n; i++) {
        uint64_t start = tg_clock_mono_ns();
        must(tg_engine_submit(e, 0, TG_PRIORITY_NORMAL, TG_OP_NOP, args, 3, &t));
        must(tg_engine_wait(e, &t, UINT64_C(1000000000)));
        sample[i] = tg_clock_mono_ns() - start;
    }
    must(tg_engine_close(e, UINT64_C(10000000000), NULL));
    bench_sort(sample, n);
    return bench_quantile(sample, n, 0.5);
}

/* ---- Two producers, two workers -------------------------------------------------------------------------
 */

static struct tg_engine *shared;
static uint64_t per_thread;

static void *engine_producer(void *cpu)
{
    uint32_t args[3] = {1, 2, 3};
    bench_pin((unsigned)(uintptr_t)cpu);
    for (uint64_t i = 0; i < per_thread; i++) {
        int r;
        while ((r = tg_engine_submit(shared, 0, TG_PRIORITY_NORMAL, TG_OP_NOP, args, 3, NULL)) == -EAGAIN)
            sched_yield();
        must(r);
    }
    return NULL;
}

static void *ring_producer(void *cpu)
{
    struct item item = {{1}};
    bench_pin((unsigned)(uintptr_t)cpu);
    for (uint64_t i = 0; i < per_thread; i++)
        vyukov_push_yielding(&item);
    return NULL;
}

static void *ring_consumer(void *cpu)
{
    struct item item;
    bench_pin((unsigned)(uintptr_t)cpu);
    for (uint64_t i = 0; i < per_thread; i++)
        vyukov_pop_yielding(&item);
    return NULL;
}

/* Four threads on two cores: whoever cannot go on yields the core. */
static double ring_rate_2p2c(uint64_t n)
{
    pthread_t thread[4];
    per_thread = n / 2;
    uint64_t start = tg_clock_mono_ns();
    for (uintptr_t i = 0; i < 4; i++)
        must(pthread_create(&thread[i], NULL, i < 2 ? ring_producer : ring_consumer, (void *)(i % 2)));
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    return (double)n * 1e3 / (double)(tg_clock_mono_ns() - start);
}

static double engine_rate_2p2w(uint64_t n)
{
    struct tg_engine_options o;
    uint32_t cpus[] = {producer_cpu, worker_cpu};
    pthread_t thread[2];
    tg_engine_options_init(&o);
    o.slots = 5120;
    o.workers = 2;
    o.cpus = cpus;
    o.cpu_count = 2;
    must(tg_engine_open(&o, &shared));
    per_thread = n / 2;
    uint64_t start = tg_clock_mono_ns();
    for (uintptr_t i = 0; i < 2; i++)
        must(pthread_create(&thread[i], NULL, engine_producer, (void *)i));
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    must(tg_engine_settle(shared, UINT64_C(10000000000)));
    double rate = (double)n * 1e3 / (double)(tg_clock_mono_ns() - start);
    must(tg_engine_close(shared, UINT64_C(10000000000), NULL));
    return rate;
}

/* One item for an engine that fell asleep: what a wake-up costs. */
static void engine_wake_up(uint64_t *sample, size_t n, double line)
{
    struct tg_engine_options o;
    struct tg_engine *e;
    uint32_t cpus[] = {worker_cpu};
    tg_engine_options_init(&o);
    o.workers = 1;
    o.cpus = cpus;
    o.cpu_count = 1;
    o.spin_us = 0;
    must(tg_engine_open(&o, &e));
    for (size_t i = 0; i < n; i++) {
        struct timespec ts = {0, 200000};
        struct tg_ticket t;
        nanosleep(&ts, NULL);
        uint64_t start = tg_clock_mono_ns();
        must(tg_engine_submit(e, 0, TG_PRIORITY_NORMAL, TG_OP_NOP, NULL, 0, &t));
        int r;
        while ((r = tg_engine_poll(e, &t)) == -EINPROGRESS)
            tg_cpu_relax();
        must(r);
        sample[i] = tg_clock_mono_ns() - start;
    }
    must(tg_engine_close(e, UINT64_C(10000000000), NULL));
    bench_sort(sample, n);
    bench_print(BENCH, "engine_asleep_submit_to_done_p50", (double)bench_quantile(sample, n, 0.5), "ns",
                line);
    bench_print(BENCH, "engine_asleep_submit_to_done_p99", (double)bench_quantile(sample, n, 0.99), "ns",
                line);
}

/* The host may move or slow the cores at any time, so the cases take turns and each figure is the median of
 * ROUNDS. */
#define ROUNDS 5

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

static const struct contender ring = {"vyukov_mpmc", vyukov_push, vyukov_pop};
static const struct contender mutex = {"mutex_condvar", locked_push, locked_pop};

/* What every latency below contains, the floor's too: reading the clock twice. */
static void clock_cost(uint64_t *sample, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t start = tg_clock_mono_ns();
        sample[i] = tg_clock_mono_ns() - start;
    }
    bench_sort(sample, n);
    bench_print(BENCH, "clock_read_p50", (double)bench_quantile(sample, n, 0.5), "ns", 0);
}

static void latencies(uint64_t *sample, size_t n)
{
    double line[ROUNDS], plain[ROUNDS], p50[ROUNDS], p99[ROUNDS], cond[ROUNDS], small[ROUNDS], large[ROUNDS],
        scan[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        line[i] = (double)floor_round_trip(sample, n);
        plain[i] = (double)contender_round_trip(&ring, sample, n);
        p50[i] = (double)engine_round_trip(5120, 0, sample, n);
        p99[i] = (double)bench_quantile(sample, n, 0.99);
        cond[i] = (double)contender_round_trip(&mutex, sample, n / 4);
        small[i] = (double)engine_round_trip(64, 0, sample, n);
        large[i] = (double)engine_round_trip(1048576, 0, sample, n);
        scan[i] = (double)engine_round_trip(4096, TG_ENGINE_SCAN, sample, n / 40);
    }
    double floor = median(line);
    bench_print(BENCH, "cache_line_round_trip_p50", floor, "ns", 0);
    bench_print(BENCH, "mpmc_ring_round_trip_p50", median(plain), "ns", floor);
    bench_print(BENCH, "engine_submit_to_done_p50", median(p50), "ns", floor);
    bench_print(BENCH, "engine_submit_to_done_p99", median(p99), "ns", floor);
    bench_print(BENCH, "mutex_condvar_round_trip_p50", median(cond), "ns", floor);
    bench_print(BENCH, "engine_one_item_64_slots_p50", median(small), "ns", floor);
    bench_print(BENCH, "engine_one_item_1048576_slots_p50", median(large), "ns", median(small));
    bench_print(BENCH, "engine_one_item_4096_slots_scanning_p50", median(scan), "ns", median(small));
    engine_wake_up(sample, n / 40, floor);
}

static void rates(void)
{
    double plain[ROUNDS], one[ROUNDS], five[ROUNDS], batch[ROUNDS], cond[ROUNDS], plain2[ROUNDS], two[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        plain[i] = contender_rate(&ring, rounds_of(6e6));
        one[i] = engine_rate(rounds_of(6e6), 1);
        five[i] = engine_rate(rounds_of(3e6), 5);
        batch[i] = engine_batch_rate(rounds_of(6e6));
        cond[i] = contender_rate(&mutex, rounds_of(1e6));
        plain2[i] = ring_rate_2p2c(rounds_of(2e6));
        two[i] = engine_rate_2p2w(rounds_of(2e6));
    }
    double floor = median(plain);
    bench_print(BENCH, "mpmc_ring_1p1c", floor, "M items/s", 0);
    bench_print(BENCH, "engine_1p1w", median(one), "M items/s", floor);
    bench_print(BENCH, "engine_1p1w_five_levels", median(five), "M items/s", floor);
    bench_print(BENCH, "engine_1p1w_batches_of_64", median(batch), "M items/s", floor);
    bench_print(BENCH, "mutex_condvar_1p1c", median(cond), "M items/s", floor);
    bench_print(BENCH, "mpmc_ring_2p2c", median(plain2), "M items/s", 0);
    bench_print(BENCH, "engine_2p2w", median(two), "M items/s", median(plain2));
}

int main(int argc, char **argv)
{
    if (argc > 1)
        scale = strtod(argv[1], NULL);
    if (bench_pin(producer_cpu) != 0)
        fprintf(stderr, "bench_engine: not pinned\n");
    for (uint64_t i = 0; i < CELLS; i++)
        vyukov.cell[i].sequence = i;
    size_t n = rounds_of(40000);
    uint64_t *sample = malloc(n * sizeof(*sample));
    if (!sample)
        return 1;
    clock_cost(sample, n);
    latencies(sample, n);
    rates();
    free(sample);
    return 0;
}
