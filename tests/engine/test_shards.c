/* SPDX-License-Identifier: Apache-2.0
 * Many ways in at once: eight workers, each with a shard of its own, more submitters than that, levels that
 * change their size, a tenant that is switched off and on, one with a quota that runs out. Each item runs
 * once, in its submitter's order (E1), none is left behind (E3), and a drain in the middle of it accounts for
 * all (E8). */
#include <pthread.h>
#include <sched.h>

#include "engine/internal.h"
#include "engine_test.h"

enum { SUBMITTERS = 10, WORKERS = 8, LEVELS = 3, MOST = 600, SLOTS = 2560 };
static const uint32_t levels[LEVELS] = {TG_PRIORITY_CRITICAL, TG_PRIORITY_NORMAL, TG_PRIORITY_IDLE};

static struct tg_engine *shared;
static uint32_t started[SUBMITTERS][LEVELS], late, stop;
static uint8_t ran[SUBMITTERS][LEVELS][MOST];

/* Whoever has an earlier item of the same submitter and level and has not come here yet is another worker,
 * and has one only. */
static int body(void *context, struct tg_op *op)
{
    (void)context;
    uint32_t s = op->args[0], l = op->args[1], n = op->args[2];
    if (n >= tg_add_relaxed_u32(&started[s][l], 1) + WORKERS)
        tg_add_relaxed_u32(&late, 1);
    tg_store_relaxed_u8(&ran[s][l][n], (uint8_t)(tg_load_relaxed_u8(&ran[s][l][n]) + 1));
    return TG_OP_FINISHED;
}

struct submitter {
    uint32_t number;
    uint32_t accepted[LEVELS];
};

/* Submits what it may, in turn at its levels, until it has enough or nothing more is taken. */
static void *submits(void *submitter)
{
    struct submitter *s = submitter;
    for (uint32_t i = 0; i < MOST * LEVELS; i++) {
        uint32_t l = i % LEVELS, args[3] = {s->number, l, i / LEVELS};
        int r;
        while ((r = tg_engine_submit(shared, s->number, levels[l], OP_COUNT, args, 3, NULL)) == -EAGAIN) {
            int waited = tg_engine_wait_space(shared, levels[l], LIMIT);
            CHECK(waited == 0 || waited == -ESHUTDOWN);
        }
        if (r == -ESHUTDOWN)
            break;
        CHECK_EQ(r, 0);
        s->accepted[l]++;
    }
    return NULL;
}

/* Tenant 1 off and on, tenant 2 with few claims at a time, the borders to and fro. */
static void *disturbs(void *unused)
{
    static const uint32_t cuts[2][6] = {{0, 512, 1024, 1536, 2048, 2560}, {0, 40, 1024, 2000, 2500, 2560}};
    (void)unused;
    for (uint32_t i = 0; !tg_load_acquire_u32(&stop); i++) {
        CHECK_EQ(tg_engine_set_tenant(shared, 1, i & 1), 0);
        CHECK_EQ(tg_engine_set_quota(shared, 2, 1 + i % 7), 0);
        int r = tg_engine_resize(shared, cuts[i / 4 % 2], SECOND / 1000);
        CHECK(r == 0 || r == -ETIMEDOUT || r == -ESHUTDOWN);
        sched_yield();
    }
    CHECK_EQ(tg_engine_set_tenant(shared, 1, 1), 0);
    CHECK_EQ(tg_engine_set_quota(shared, 2, TG_TENANT_QUOTA_UNLIMITED), 0);
    return NULL;
}

static uint32_t run_count(const struct submitter *s, uint32_t *ret_accepted)
{
    uint32_t runs = 0;
    for (uint32_t l = 0; l < LEVELS; l++) {
        *ret_accepted += s->accepted[l];
        for (uint32_t n = 0; n < MOST; n++) {
            CHECK(ran[s->number][l][n] <= (n < s->accepted[l] ? 1 : 0));
            runs += ran[s->number][l][n];
        }
    }
    return runs;
}

static void everything_at_once(bool drained)
{
    struct submitter s[SUBMITTERS];
    pthread_t thread[SUBMITTERS], other;
    struct tg_engine_options o = test_options(SLOTS, WORKERS);
    struct tg_drain_report report;
    shared = test_open(&o);
    CHECK_EQ(shared->shards, TG_SHARDS);
    CHECK_EQ(tg_engine_register(shared, OP_COUNT, body, NULL), 0);
    memset(started, 0, sizeof(started));
    memset(ran, 0, sizeof(ran));
    late = stop = 0;
    CHECK_EQ(pthread_create(&other, NULL, disturbs, NULL), 0);
    for (uint32_t i = 0; i < SUBMITTERS; i++) {
        s[i] = (struct submitter){i, {0}};
        CHECK_EQ(pthread_create(&thread[i], NULL, submits, &s[i]), 0);
    }
    while (drained && tg_load_relaxed_u32(&started[0][1]) < MOST / 4)
        sched_yield();
    if (drained)
        CHECK_EQ(tg_engine_drain(shared, LIMIT, &report), 0);
    for (uint32_t i = 0; i < SUBMITTERS; i++)
        CHECK_EQ(pthread_join(thread[i], NULL), 0);
    tg_store_release_u32(&stop, 1);
    CHECK_EQ(pthread_join(other, NULL), 0);
    if (!drained)
        CHECK_EQ(tg_engine_settle(shared, LIMIT), 0);
    CHECK_EQ(tg_engine_drain(shared, LIMIT, &report), 0);
    uint32_t runs = 0, accepted = 0;
    for (uint32_t i = 0; i < SUBMITTERS; i++)
        runs += run_count(&s[i], &accepted);
    CHECK_EQ(late, 0);
    CHECK_EQ(report.done, runs);
    CHECK_EQ(report.done + report.handed_back, accepted);
    CHECK(drained || runs == SUBMITTERS * LEVELS * MOST);
    CHECK(tg_free_all(shared));
    test_close(shared);
}

static void e1_each_once_and_in_its_submitters_order(void)
{
    everything_at_once(false);
}

static void e8_a_drain_in_the_middle_accounts_for_all(void)
{
    everything_at_once(true);
}

int main(void)
{
    RUN(e1_each_once_and_in_its_submitters_order);
    RUN(e8_a_drain_in_the_middle_accounts_for_all);
    return 0;
}
