/* SPDX-License-Identifier: Apache-2.0
 *
 * The work-item half of the demo once more, on a GPU where there is one: the words of the files, four an
 * item, are added up by packed slots of ATOMIC_ADD that the GPU's resident kernel runs, as items of three
 * tenants at three priorities, in batches that end in a fence. Only what every engine has is used, so that
 * the check is of the engine and not of an opcode of ours. Each tenant's four sums are compared with a plain
 * loop over the same words: an item lost or run twice shows (E1), and so does a result not visible with DONE
 * (E7).
 */
#include "cli/demo_launch.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <tidegate/engine.h>

#include "base/clock.h"
#include "cli/gpu.h"

enum { TENANTS = 3, ADDS = 4, BATCH_MAX = 64, ITEMS_EACH = 40000, ITEM_WORDS = 11 };

#define LIMIT_NS UINT64_C(60000000000)

static const struct {
    const char *name, *level;
    uint32_t priority, batch, part; /* part: of ITEMS_EACH, in eighths */
    bool waits;
} tenants[TENANTS] = {
    {"service", "high", TG_PRIORITY_HIGH, 8, 1, true},
    {"build", "normal", TG_PRIORITY_NORMAL, BATCH_MAX, 8, false},
    {"scrub", "low", TG_PRIORITY_LOW, BATCH_MAX, 8, false},
};

struct producer {
    const struct tg_demo_files *files;
    struct tg_engine *engine;
    uint32_t tenant;
    uint64_t batches;
    uint32_t sum[ADDS]; /* the plain loop's, over what was published */
    int err;
    pthread_t thread;
};

/* The word at a place in the files, which wraps round; what lies past a file's end counts as 0. */
static uint32_t word_of(const struct tg_demo_files *f, uint64_t place)
{
    size_t block = place / (TG_DEMO_BLOCK_BYTES / 4) % f->blocks, at = place % (TG_DEMO_BLOCK_BYTES / 4) * 4;
    uint32_t word = 0;
    if (at + 4 <= f->block_bytes[block])
        memcpy(&word, f->bytes + block * TG_DEMO_BLOCK_BYTES + at, sizeof(word));
    return word;
}

/* A packed slot: four times ATOMIC_ADD of a word of the files to an observable word of the tenant's. */
static void fill_item(struct producer *p, uint64_t item, uint32_t words[ITEM_WORDS])
{
    words[0] = ADDS | 2 * ADDS << 8 | TG_OP_ATOMIC_ADD << 16;
    words[1] = TG_OP_ATOMIC_ADD | 2u << 8 | TG_OP_ATOMIC_ADD << 16 | 4u << 24;
    words[2] = TG_OP_ATOMIC_ADD | 6u << 8;
    for (uint32_t k = 0; k < ADDS; k++) {
        uint32_t value = word_of(p->files, (item * TENANTS + p->tenant) * ADDS + k);
        words[3 + 2 * k] = value;
        words[4 + 2 * k] =
            TG_CONTROL_OBSERVABLE_BASE + 1 + p->tenant * ADDS + k; /* the first is the fences' */
        p->sum[k] += value;
    }
}

static int publish(struct producer *p, const struct tg_batch_item *items, uint32_t n,
                   struct tg_item *ret_fence)
{
    uint32_t level = tenants[p->tenant].priority;
    for (;;) {
        int err =
            tg_engine_submit_batch(p->engine, p->tenant, level, items, n, (uint32_t)p->batches, ret_fence);
        if (err != -EAGAIN)
            return err;
        err = tg_engine_wait_space(p->engine, level, LIMIT_NS);
        if (err)
            return err;
    }
}

static void *produce(void *context)
{
    struct producer *p = context;
    uint32_t words[BATCH_MAX][ITEM_WORDS], size = tenants[p->tenant].batch;
    struct tg_batch_item items[BATCH_MAX];
    struct tg_item fence = {0};
    for (uint64_t i = 0; i < ITEMS_EACH / 8 * tenants[p->tenant].part && !p->err; i += size) {
        for (uint32_t k = 0; k < size; k++) {
            fill_item(p, i + k, words[k]);
            items[k] = (struct tg_batch_item){TG_OP_PACKED_SLOT, words[k], ITEM_WORDS};
        }
        p->err = publish(p, items, size, &fence);
        if (!p->err && tenants[p->tenant].waits)
            p->err = tg_engine_wait(p->engine, &fence, LIMIT_NS);
        p->batches++;
    }
    if (!p->err)
        p->err = tg_engine_wait(p->engine, &fence, LIMIT_NS);
    return NULL;
}

static int run_producers(struct producer p[TENANTS])
{
    uint32_t started = 0;
    int err = 0;
    while (started < TENANTS && !err) {
        err = -pthread_create(&p[started].thread, NULL, produce, &p[started]);
        started += err == 0;
    }
    for (uint32_t t = 0; t < started; t++) {
        pthread_join(p[t].thread, NULL);
        err = err ? err : p[t].err;
    }
    return err ? err : tg_engine_settle(p[0].engine, LIMIT_NS);
}

static int check(struct tg_demo *demo, const struct producer p[TENANTS], uint64_t took_ns)
{
    static struct tg_engine_stats stats;
    uint64_t items = 0, batches = 0, wrong = 0, as_published = 0;
    tg_engine_stats(p[0].engine, &stats);
    for (uint32_t t = 0; t < TENANTS; t++) {
        uint64_t mine = p[t].batches * tenants[t].batch;
        for (uint32_t k = 0; k < ADDS; k++) {
            uint32_t sum = 0;
            int err = tg_engine_observable_load(p[t].engine, 1 + t * ADDS + k, &sum);
            if (err)
                return err;
            wrong += sum != p[t].sum[k];
        }
        items += mine;
        batches += p[t].batches;
        as_published += stats.tenant[t].done == mine + p[t].batches;
    }
    printf("  %" PRIu64 " items, each adding 16 bytes of the files, in %.2f s: %.2f M items/s\n", items,
           (double)took_ns / 1e9, (double)items * 1e3 / (double)took_ns);
    for (uint32_t t = 0; t < TENANTS; t++) {
        const struct tg_latency *l = &stats.level[tenants[t].priority].latency;
        printf("  %-8s %-7s %7" PRIu64 " items, batches of %2u: publish to done p50 %8.1f us, p99 %8.1f us\n",
               tenants[t].name, tenants[t].level, p[t].batches * tenants[t].batch, tenants[t].batch,
               (double)l->p50_ns / 1e3, (double)l->p99_ns / 1e3);
    }
    printf("\n");
    tg_demo_check(demo, wrong == 0, "GPU: %" PRIu64 " of %d sums differ from the plain loop", wrong,
                  TENANTS * ADDS);
    tg_demo_check(demo, as_published == TENANTS, "GPU: items done per tenant as published: %" PRIu64 " of %d",
                  as_published, TENANTS);
    tg_demo_check(demo, stats.faults == 0, "GPU: %" PRIu64 " faults", stats.faults);
    const void *control = NULL;
    size_t bytes = 0;
    uint32_t epoch = 0;
    tg_engine_buffers(p[0].engine, NULL, NULL, &control, &bytes, NULL, NULL);
    int err = tg_try_read_epoch(control, bytes, &epoch);
    tg_demo_check(demo, epoch == batches, "GPU: %u fences completed for %" PRIu64 " batches", epoch, batches);
    return err;
}

/* Opens the engine; *ret_engine NULL: there is no GPU that can be used, which was said. */
static int open_engine(struct tg_engine **ret_engine)
{
    struct tg_engine_options options;
    *ret_engine = NULL;
    tg_engine_options_init(&options);
    options.backend = "cuda";
    options.tenants = TENANTS;
    options.latency_every = 1;
    int err = tg_engine_open(&options, ret_engine);
    if (!err)
        return 0;
    *ret_engine = NULL;
    if (err == -ENOTSUP || err == -ENODEV) {
        printf("\nwork-item plane on the GPU: left out: %s\n",
               err == -ENOTSUP ? "this build has no CUDA"
                               : "no GPU, or no driver for it, can be opened here");
        return 0;
    }
    return err;
}

int tg_demo_gpu(struct tg_demo *demo)
{
    struct producer p[TENANTS];
    struct tg_engine *engine;
    if (!tg_gpu_seems_here())
        return 0;
    int err = open_engine(&engine);
    if (err || !engine)
        return err;
    printf("\nwork-item plane on the GPU\n");
    memset(p, 0, sizeof(p));
    for (uint32_t t = 0; t < TENANTS; t++) {
        p[t].files = &demo->files;
        p[t].engine = engine;
        p[t].tenant = t;
    }
    uint64_t began = tg_clock_mono_ns();
    err = run_producers(p);
    if (!err)
        err = check(demo, p, tg_clock_mono_ns() - began);
    struct tg_drain_report drained = {0};
    int closed = tg_engine_close(engine, LIMIT_NS, &drained);
    if (!err && !closed)
        tg_demo_check(demo, drained.handed_back == 0 && drained.running == 0,
                      "GPU: drained: %" PRIu64 " handed back, %u running", drained.handed_back,
                      drained.running);
    return err ? err : closed;
}
