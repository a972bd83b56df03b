/* SPDX-License-Identifier: Apache-2.0
 *
 * The work-item half of the demo: every 4 KiB block of the files through the resident engine, as items of
 * three tenants at three priorities, in batches that end in a fence (E1, E2, E5, E7 seen from outside). One
 * tenant sends small batches and waits for each, as a service would; two flood. The results are compared with
 * a plain loop over the same blocks.
 */
#include "cli/demo_launch.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidegate/engine.h>

#include "base/atomic.h"
#include "base/clock.h"

enum {
    OPCODE_CRC = 8, /* the first that belongs to the user */
    TENANTS = 3,
    ITEMS_WANTED = 60000,
    ROUNDS_MAX = 64,
    BATCH_MAX = 64,
};

#define LIMIT_NS UINT64_C(60000000000)

static const struct {
    const char *name;
    uint32_t priority;
    uint32_t batch;
    bool waits; /* for each batch before the next */
} tenants[TENANTS] = {
    {"service", TG_PRIORITY_HIGH, 8, true},
    {"build", TG_PRIORITY_NORMAL, BATCH_MAX, false},
    {"scrub", TG_PRIORITY_LOW, BATCH_MAX, false},
};

struct work {
    const struct tg_demo_files *files;
    struct tg_engine *engine;
    uint32_t rounds;
    uint32_t *crc;  /* [round][block], written by the handler */
    uint32_t *runs; /* [round][block], how often it ran */
    uint64_t wall_ns;
};

struct producer {
    struct work *work;
    uint32_t tenant;
    uint64_t items;
    uint64_t batches;
    int err;
    pthread_t thread;
};

/* Args: block, round. */
static int run_crc(void *context, struct tg_op *op)
{
    struct work *w = context;
    uint64_t block = op->args[0], round = op->args[1];
    if (block >= w->files->blocks || round >= w->rounds)
        return -EINVAL;
    size_t at = round * w->files->blocks + block;
    w->crc[at] = tg_crc32c(w->files->bytes + block * TG_DEMO_BLOCK_BYTES, w->files->block_bytes[block]);
    tg_add_relaxed_u32(&w->runs[at], 1); /* D1 relaxed: a count, read after the engine has been drained */
    return TG_OP_FINISHED;
}

/* Publishes one batch, waiting for room as long as needed; *ret_fence is its fence. */
static int publish(struct producer *p, const struct tg_batch_item *items, uint32_t n,
                   struct tg_item *ret_fence)
{
    for (;;) {
        int err = tg_engine_submit_batch(p->work->engine, p->tenant, tenants[p->tenant].priority, items, n,
                                         (uint32_t)p->batches, ret_fence);
        if (err != -EAGAIN)
            return err;
        err = tg_engine_wait_space(p->work->engine, tenants[p->tenant].priority, LIMIT_NS);
        if (err)
            return err;
    }
}

/* This tenant's blocks: the service has one in eight, the others share the rest. */
static bool is_mine(uint32_t tenant, size_t block)
{
    return tenant == 0 ? block % 8 == 0 : block % 8 != 0 && block % 2 == tenant - 1;
}

static void *produce(void *context)
{
    struct producer *p = context;
    struct work *w = p->work;
    uint32_t args[BATCH_MAX][2], n = 0;
    struct tg_batch_item items[BATCH_MAX];
    struct tg_item fence = {0};
    for (uint64_t i = 0; i < (uint64_t)w->rounds * w->files->blocks && !p->err; i++) {
        size_t block = i % w->files->blocks;
        bool last = i + 1 == (uint64_t)w->rounds * w->files->blocks;
        if (is_mine(p->tenant, block)) {
            args[n][0] = (uint32_t)block;
            args[n][1] = (uint32_t)(i / w->files->blocks);
            items[n] = (struct tg_batch_item){.opcode = OPCODE_CRC, .args = args[n], .arg_count = 2};
            n++;
        }
        if (n == 0 || (n < tenants[p->tenant].batch && !last))
            continue;
        p->err = publish(p, items, n, &fence);
        if (!p->err && tenants[p->tenant].waits)
            p->err = tg_engine_wait(w->engine, &fence, LIMIT_NS);
        p->items += n;
        p->batches++;
        n = 0;
    }
    if (!p->err && p->batches)
        p->err = tg_engine_wait(w->engine, &fence, LIMIT_NS);
    return NULL;
}

static int run_producers(struct work *w, struct producer p[TENANTS])
{
    int err = 0;
    uint32_t started = 0;
    uint64_t began = tg_clock_mono_ns();
    for (; started < TENANTS && !err; started++) {
        p[started] = (struct producer){.work = w, .tenant = started};
        err = -pthread_create(&p[started].thread, NULL, produce, &p[started]);
        if (err)
            break;
    }
    for (uint32_t t = 0; t < started; t++) {
        pthread_join(p[t].thread, NULL);
        err = err ? err : p[t].err;
    }
    /* The fence of a level may pass items of another: wait for all. */
    if (!err)
        err = tg_engine_settle(w->engine, LIMIT_NS);
    w->wall_ns = tg_clock_mono_ns() - began;
    return err;
}

/* The same sums in a plain loop; returns how many results differ and the loop's time. */
static uint64_t compare(const struct work *w, uint64_t *ret_wrong_runs, uint64_t *ret_loop_ns)
{
    uint64_t wrong = 0, wrong_runs = 0, began = tg_clock_mono_ns();
    uint32_t *plain = calloc(w->files->blocks, sizeof(*plain));
    if (!plain)
        return UINT64_MAX;
    for (size_t b = 0; b < w->files->blocks; b++)
        plain[b] = tg_crc32c(w->files->bytes + b * TG_DEMO_BLOCK_BYTES, w->files->block_bytes[b]);
    *ret_loop_ns = tg_clock_mono_ns() - began;
    for (size_t i = 0; i < w->files->blocks * w->rounds; i++) {
        wrong += w->crc[i] != plain[i % w->files->blocks];
        wrong_runs += w->runs[i] != 1;
    }
    free(plain);
    *ret_wrong_runs = wrong_runs;
    return wrong;
}

static void report(struct tg_demo *demo, const struct work *w, const struct producer p[TENANTS],
                   const struct tg_engine_stats *stats, const struct tg_drain_report *drained, uint32_t epoch)
{
    uint64_t items = 0, batches = 0, wrong_runs = 0, loop_ns = 1, by_tenant = 0;
    uint64_t wrong = compare(w, &wrong_runs, &loop_ns);
    for (uint32_t t = 0; t < TENANTS; t++) {
        items += p[t].items;
        batches += p[t].batches;
        by_tenant += stats->tenant[t].done == p[t].items + p[t].batches; /* a fence is an item too */
    }
    double seconds = (double)w->wall_ns / 1e9;
    printf("  %" PRIu64 " items of 4 KiB in %.2f s: %.0f items/s, %.2f of a plain loop on one core\n", items,
           seconds, (double)items / seconds, (double)loop_ns * w->rounds / (double)w->wall_ns);
    for (uint32_t t = 0; t < TENANTS; t++) {
        const struct tg_latency *l = &stats->level[tenants[t].priority].latency;
        static const char *const levels[] = {"critical", "high", "normal", "low", "idle"};
        printf("  %-8s %-7s %7" PRIu64 " items, batches of %2u: publish to done p50 %8.1f us, p99 %8.1f us\n",
               tenants[t].name, levels[tenants[t].priority], p[t].items, tenants[t].batch,
               (double)l->p50_ns / 1e3, (double)l->p99_ns / 1e3);
    }
    printf("\n");
    tg_demo_check(demo, tg_crc32c((const uint8_t *)"123456789", 9) == 0xE3069283u, "CRC-32C check value");
    tg_demo_check(demo, wrong == 0, "%" PRIu64 " results of %" PRIu64 " differ from the plain loop", wrong,
                  items);
    tg_demo_check(demo, wrong_runs == 0, "every item ran exactly once: %" PRIu64 " did not", wrong_runs);
    tg_demo_check(demo, by_tenant == TENANTS, "items done per tenant as published: %" PRIu64 " of %u tenants",
                  by_tenant, TENANTS);
    tg_demo_check(demo, epoch == batches, "%u fences completed for %" PRIu64 " batches", epoch, batches);
    tg_demo_check(demo, stats->faults == 0 && drained->handed_back == 0 && drained->running == 0,
                  "drained: %" PRIu64 " faults, %" PRIu64 " handed back, %u running", stats->faults,
                  drained->handed_back, drained->running);
}

static int run_engine(struct tg_demo *demo, struct work *w)
{
    struct tg_engine_options options;
    tg_engine_options_init(&options);
    options.tenants = TENANTS;
    options.latency_every = 1;
    int err = tg_engine_open(&options, &w->engine);
    if (err)
        return err;
    struct producer p[TENANTS];
    memset(p, 0, sizeof(p));
    err = tg_engine_register(w->engine, OPCODE_CRC, run_crc, w);
    if (!err)
        err = run_producers(w, p);
    static struct tg_engine_stats stats;
    tg_engine_stats(w->engine, &stats);
    printf("\nwork-item plane: %zu blocks, %u rounds, %u workers\n", w->files->blocks, w->rounds,
           stats.workers);
    const void *control = NULL;
    size_t control_bytes = 0;
    uint32_t epoch = 0;
    tg_engine_buffers(w->engine, NULL, NULL, &control, &control_bytes, NULL, NULL);
    int read_err = tg_try_read_epoch(control, control_bytes, &epoch);
    struct tg_drain_report drained = {0};
    int drain_err = tg_engine_drain(w->engine, LIMIT_NS, &drained);
    err = err ? err : read_err ? read_err : drain_err;
    if (!err)
        report(demo, w, p, &stats, &drained, epoch);
    int close_err = tg_engine_close(w->engine, LIMIT_NS, NULL);
    return err ? err : close_err;
}

int tg_demo_items(struct tg_demo *demo)
{
    struct work w = {.files = &demo->files};
    uint64_t rounds = ITEMS_WANTED / demo->files.blocks + 1;
    w.rounds = (uint32_t)(rounds < ROUNDS_MAX ? rounds : ROUNDS_MAX);
    w.crc = calloc((size_t)w.rounds * demo->files.blocks, sizeof(*w.crc));
    w.runs = calloc((size_t)w.rounds * demo->files.blocks, sizeof(*w.runs));
    int err = w.crc && w.runs ? run_engine(demo, &w) : -ENOMEM;
    free(w.crc);
    free(w.runs);
    return err;
}
