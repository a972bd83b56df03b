/* SPDX-License-Identifier: Apache-2.0
 * Where submitters and workers share cores, each worker comes to serve the shard of its own core, whichever
 * it had at the start, and each shard stays some worker's home. */
#include <pthread.h>
#include <sched.h>

#include "base/clock.h"
#include "engine/internal.h"
#include "engine_test.h"

static uint32_t core[2]; /* two that this process may use */

static bool two_cores(void)
{
    cpu_set_t set;
    uint32_t n = 0;
    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        return false;
    for (uint32_t c = 0; c < CPU_SETSIZE && n < 2; c++)
        if (CPU_ISSET(c, &set))
            core[n++] = c;
    return n == 2;
}

struct submitter {
    struct tg_engine *engine;
    uint32_t cpu, stop;
};

static void *submits(void *submitter)
{
    struct submitter *s = submitter;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(s->cpu, &set);
    CHECK_EQ(pthread_setaffinity_np(pthread_self(), sizeof(set), &set), 0);
    while (!tg_load_acquire_u32(&s->stop)) {
        int r = tg_engine_submit(s->engine, 0, TG_PRIORITY_NORMAL, TG_OP_NOP, NULL, 0, NULL);
        CHECK(r == 0 || r == -EAGAIN);
        if (r)
            sched_yield();
    }
    return NULL;
}

/* Is every worker where the submitters of its home are? Hints all: read as they are written. */
static bool all_at_home(struct tg_engine *e)
{
    for (uint32_t i = 0; i < 2; i++) {
        const struct tg_worker *w = &e->workers[i];
        uint32_t cpu = tg_load_relaxed_u32(&w->cpu);
        if (cpu == 0 || tg_load_relaxed_u32(&e->ready[tg_load_relaxed_u32(&w->home)].cpu) != cpu)
            return false;
    }
    return true;
}

/* crossed: the first worker's core is that of the second submitter. */
static void workers_come_home(bool crossed)
{
    struct tg_engine_options o = test_options(5120, 2);
    const uint32_t cpus[2] = {core[crossed ? 1 : 0], core[crossed ? 0 : 1]};
    o.cpus = cpus;
    o.cpu_count = 2;
    struct tg_engine *e = test_open(&o);
    struct submitter s[2];
    pthread_t thread[2];
    CHECK_EQ(e->shards, 2);
    for (uint32_t i = 0; i < 2; i++) {
        s[i] = (struct submitter){e, core[i], 0};
        CHECK_EQ(pthread_create(&thread[i], NULL, submits, &s[i]), 0);
    }
    uint64_t until = tg_clock_mono_ns() + LIMIT;
    while (!all_at_home(e) && tg_clock_mono_ns() < until)
        sched_yield();
    bool home = all_at_home(e);
    for (uint32_t i = 0; i < 2; i++) {
        tg_store_release_u32(&s[i].stop, 1);
        CHECK_EQ(pthread_join(thread[i], NULL), 0);
    }
    CHECK(home);
    CHECK_EQ(tg_engine_settle(e, LIMIT), 0);
    CHECK_EQ(tg_load_relaxed_u32(&e->workers[0].home) ^ tg_load_relaxed_u32(&e->workers[1].home), 1);
    test_close(e);
}

static void workers_change_homes(void)
{
    workers_come_home(false);
    workers_come_home(true);
}

int main(void)
{
    if (!two_cores()) {
        fprintf(stderr, "skipped: fewer than two cores\n");
        return 77;
    }
    RUN(workers_change_homes);
    return 0;
}
