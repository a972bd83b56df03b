/* SPDX-License-Identifier: Apache-2.0
 *
 * tidegate engine bench: what this machine's engine does, in a few seconds; one JSON object a line, as
 * the programs of bench/ print them. It measures one producer and one worker; contenders are bench_engine's
 * matter. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/hist.h"
#include "cli/cli.h"
#include "cli/engine.h"

#define VERB "engine bench"
#define LIMIT_NS UINT64_C(20000000000)
#define SECOND UINT64_C(1000000000)

struct bench {
    uint64_t part_ns; /* time for one measure */
    uint32_t slots;
    uint32_t cpu[2]; /* producer, worker */
    bool pinned;
    struct tg_hist hist;
};

static void print(const char *name, double value, const char *unit, double floor)
{
    printf("{\"bench\": \"engine\", \"case\": \"%s\", \"value\": %.6g, \"unit\": \"%s\", ", name, value,
           unit);
    if (floor > 0)
        printf("\"floor\": %.6g, \"ratio\": %.3f}\n", floor, value / floor);
    else
        printf("\"floor\": null, \"ratio\": null}\n");
    fflush(stdout);
}

/* Two of the usable processors, this thread on the first; with fewer than two nothing is pinned. */
static void choose_cpus(struct bench *b)
{
    cpu_set_t usable, mine;
    uint32_t n = 0;
    if (sched_getaffinity(0, sizeof(usable), &usable) != 0)
        return;
    for (uint32_t c = 0; c < CPU_SETSIZE && n < 2; c++)
        if (CPU_ISSET(c, &usable))
            b->cpu[n++] = c;
    CPU_ZERO(&mine);
    CPU_SET(b->cpu[0], &mine);
    b->pinned = n == 2 && sched_setaffinity(0, sizeof(mine), &mine) == 0;
}

static int open_engine(struct bench *b, uint32_t slots, uint32_t spin_us, struct tg_engine **ret)
{
    struct tg_engine_options o;
    tg_engine_options_init(&o);
    o.slots = slots;
    o.workers = 1;
    o.spin_us = spin_us;
    if (b->pinned) {
        o.cpus = &b->cpu[1];
        o.cpu_count = 1;
    }
    return tg_engine_open(&o, ret);
}

/* ---- A cache line to and fro -------------------------------------------------------------------------- */

static struct {
    _Alignas(128) uint64_t ping;
    _Alignas(128) uint64_t pong;
} line;

#define END UINT64_MAX

static void *echo(void *unused)
{
    (void)unused;
    for (uint64_t seen = 0, looks = 0; seen != END;) {
        uint64_t now = tg_load_acquire_u64(&line.ping); /* B1 acquire: pairs with B2 */
        if (now == seen) {
            if (++looks % 4096 == 0)
                sched_yield();
            tg_cpu_relax();
            continue;
        }
        seen = now;
        tg_store_release_u64(&line.pong, seen); /* B2 release: pairs with B1 */
    }
    return NULL;
}

static int measure_line(struct bench *b, double *ret_p50)
{
    pthread_t peer;
    pthread_attr_t attr;
    cpu_set_t there;
    int r = -pthread_attr_init(&attr);
    if (r)
        return r;
    CPU_ZERO(&there);
    CPU_SET(b->cpu[1], &there);
    line.ping = line.pong = 0;
    r = b->pinned ? -pthread_attr_setaffinity_np(&attr, sizeof(there), &there) : 0;
    r = r ? r : -pthread_create(&peer, &attr, echo, NULL);
    pthread_attr_destroy(&attr);
    if (r)
        return r;
    tg_hist_reset(&b->hist);
    uint64_t end = tg_clock_mono_ns() + b->part_ns, start;
    for (uint64_t i = 1; (start = tg_clock_mono_ns()) < end; i++) {
        tg_store_release_u64(&line.ping, i);                                      /* B2 */
        for (uint64_t looks = 1; tg_load_acquire_u64(&line.pong) != i; looks++) { /* B1 */
            if (looks % 4096 == 0)
                sched_yield();
            tg_cpu_relax();
        }
        tg_hist_add_sp(&b->hist, tg_clock_mono_ns() - start);
    }
    tg_store_release_u64(&line.ping, END); /* B2 */
    pthread_join(peer, NULL);
    *ret_p50 = (double)tg_hist_quantile(&b->hist, 0.5);
    print("cache_line_round_trip_p50", *ret_p50, "ns", 0);
    return 0;
}

/* ---- The engine --------------------------------------------------------------------------------------- */

/* One item at a time. pause_ns: let the worker fall asleep before each. */
static int round_trips(struct bench *b, uint32_t slots, uint32_t spin_us, long pause_ns, const char *name,
                       double floor)
{
    struct tg_engine *e;
    char text[64];
    int r = open_engine(b, slots, spin_us, &e);
    if (r)
        return r;
    tg_hist_reset(&b->hist);
    for (uint64_t end = tg_clock_mono_ns() + b->part_ns; !r && tg_clock_mono_ns() < end;) {
        struct timespec pause = {0, pause_ns};
        struct tg_item t;
        if (pause_ns)
            nanosleep(&pause, NULL);
        uint64_t start = tg_clock_mono_ns();
        r = tg_engine_submit(e, 0, TG_PRIORITY_NORMAL, TG_OP_NOP, NULL, 0, &t);
        r = r ? r : tg_engine_wait(e, &t, LIMIT_NS);
        if (!r)
            tg_hist_add_sp(&b->hist, tg_clock_mono_ns() - start);
    }
    int closed = tg_engine_close(e, LIMIT_NS, NULL);
    if (r || closed)
        return r ? r : closed;
    snprintf(text, sizeof(text), "%s_p50", name);
    print(text, (double)tg_hist_quantile(&b->hist, 0.5), "ns", floor);
    snprintf(text, sizeof(text), "%s_p99", name);
    print(text, (double)tg_hist_quantile(&b->hist, 0.99), "ns", floor);
    return 0;
}

static int throughput(struct bench *b, uint32_t levels, const char *name)
{
    struct tg_engine *e;
    const uint32_t args[3] = {1, 2, 3};
    int r = open_engine(b, b->slots, 20, &e);
    if (r)
        return r;
    uint64_t n = 0, start = tg_clock_mono_ns(), end = start + b->part_ns, now = start;
    while (!r && now < end) {
        for (int i = 0; i < 1000 && !r; i++, n++) {
            uint32_t level = levels == 1 ? TG_PRIORITY_NORMAL : (uint32_t)(n % levels);
            while ((r = tg_engine_submit(e, 0, level, TG_OP_NOP, args, 3, NULL)) == -EAGAIN)
                b->pinned ? tg_cpu_relax() : (void)sched_yield();
        }
        now = tg_clock_mono_ns();
    }
    r = r ? r : tg_engine_settle(e, LIMIT_NS);
    double seconds = (double)(tg_clock_mono_ns() - start) / 1e9;
    int closed = tg_engine_close(e, LIMIT_NS, NULL);
    if (!r && !closed)
        print(name, (double)n / seconds / 1e6, "M items/s", 0);
    return r ? r : closed;
}

static int idle(struct bench *b)
{
    struct tg_engine *e;
    struct timespec nap = {0, 20000000};
    int r = open_engine(b, b->slots, 20, &e);
    if (r)
        return r;
    nanosleep(&nap, NULL); /* the worker's last look */
    nap = (struct timespec){(time_t)(b->part_ns / SECOND), (long)(b->part_ns % SECOND)};
    uint64_t cpu = tg_clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
    nanosleep(&nap, NULL);
    cpu = tg_clock_read_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    print("idle_share_of_a_core", (double)cpu / (double)b->part_ns * 100, "%", 0);
    return tg_engine_close(e, LIMIT_NS, NULL);
}

static int measure(struct bench *b)
{
    double floor;
    int r = measure_line(b, &floor);
    if (!r)
        r = round_trips(b, b->slots, 1000, 0, "submit_to_done", floor);
    if (!r)
        r = round_trips(b, 64, 1000, 0, "submit_to_done_64_slots", floor);
    if (!r)
        r = round_trips(b, TG_MAX_ENCODED_RING_SLOTS, 1000, 0, "submit_to_done_1048576_slots", floor);
    if (!r)
        r = round_trips(b, b->slots, 0, 200000, "asleep_submit_to_done", floor);
    if (!r)
        r = throughput(b, 1, "one_level");
    if (!r)
        r = throughput(b, TG_PRIORITY_LEVELS, "five_levels");
    return r ? r : idle(b);
}

int tg_verb_engine_bench(int argc, char **argv)
{
    enum { SECONDS, SLOTS };
    static const struct tg_option table[] = {
        [SECONDS] = {0, "seconds", true}, [SLOTS] = {0, "slots", true}, {0, NULL, false}};
    static struct bench b;
    struct tg_options o = {.verb = VERB, .table = table, .argc = argc, .argv = argv};
    uint64_t seconds = 2, slots = 4096;
    int option;
    while ((option = tg_next_option(&o)) != TG_OPTIONS_END) {
        if (option == TG_OPTIONS_ERROR)
            return TG_EXIT_USAGE;
        bool ok = option == SECONDS
                      ? tg_arg_u64(VERB, "--seconds", o.value, 1, 3600, &seconds)
                      : tg_arg_u64(VERB, "--slots", o.value, 5, TG_MAX_ENCODED_RING_SLOTS, &slots);
        if (!ok)
            return TG_EXIT_USAGE;
    }
    if (o.at < argc)
        return tg_usage_error(VERB, "it takes no argument, got %s", tg_shown(argv[o.at]));
    b.part_ns = seconds * SECOND / 8;
    b.slots = (uint32_t)slots;
    choose_cpus(&b);
    if (!b.pinned)
        tg_complain(VERB, "fewer than two processors to pin to: the figures say little");
    int r = measure(&b);
    if (r) {
        tg_complain(VERB, "stopped: %s", strerror(-r));
        return TG_EXIT_FAILED;
    }
    return tg_flushed(VERB, TG_EXIT_OK);
}
