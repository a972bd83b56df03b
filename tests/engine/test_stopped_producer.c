/* SPDX-License-Identifier: Apache-2.0
 * A producer that stops between taking its place in a queue and filling it (the scheduler took its core)
 * hides what is published behind it, in that level of that tenant only, until it goes on. Nothing else waits,
 * nobody burns a core, and calls that wait keep their limits. */
#include <time.h>

#include "engine/internal.h"
#include "engine_test.h"

#define LEVEL TG_PRIORITY_HIGH
#define TENANT 4u

static void a_stopped_producer_hides_its_own_queue_only(void)
{
    struct tg_engine *e = test_engine(320, 2);
    struct tg_engine_stats s;
    struct tg_item behind[3], beside;
    uint32_t shard = tg_submitter_shard(e); /* this thread is the one that stopped, and submits on */
    struct tg_index *q = tg_queue(e, shard, LEVEL, TENANT);
    uint32_t slot;
    /* What tg_engine_submit did when it was stopped: a slot, a place, no entry. */
    CHECK(tg_free_pop(&e->level[LEVEL].free[shard], &slot, &(const struct tg_index *){NULL}));
    uint64_t place = tg_index_reserve_mp(q, 1);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(submit_soon(e, TENANT, LEVEL, TG_OP_NOP, NULL, 0, &behind[i]), 0);
    for (uint32_t i = 0; i < 500; i++) {
        uint32_t level = i % TG_PRIORITY_LEVELS;
        CHECK_EQ(submit_soon(e, level == LEVEL ? i % 4 : TENANT, level, TG_OP_NOP, NULL, 0, &beside), 0);
        CHECK_EQ(tg_engine_wait(e, &beside, LIMIT), 0);
    }
    for (int i = 0; i < 3; i++)
        CHECK_EQ(tg_engine_poll(e, &behind[i]), -EINPROGRESS);
    CHECK_EQ(tg_engine_wait(e, &behind[2], SECOND / 50), -ETIMEDOUT);
    CHECK_EQ(tg_engine_settle(e, SECOND / 50), -ETIMEDOUT);
    tg_engine_stats(e, &s);
    CHECK(s.done == 500);
    uint64_t used = UINT64_MAX;
    for (int i = 0; i < 10 && used >= 100000000;
         i++) { /* on a busy machine they go to sleep a little later */
        uint64_t before = tg_clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
        nanosleep(&(struct timespec){0, 200000000}, NULL);
        used = tg_clock_read_ns(CLOCK_PROCESS_CPUTIME_ID) - before;
    }
    CHECK(used < 100000000); /* the workers sleep */
    /* Nothing is lost when the engine is to stop meanwhile: it says that it could not, and can be asked
     * again. */
    CHECK_EQ(tg_engine_drain(e, SECOND / 20, NULL), -ETIMEDOUT);
    /* It goes on. (Its slot holds no item here: an entry without work, as of a cancelled one.) */
    tg_index_fill(q, place, slot);
    tg_ready_set(e, shard, LEVEL, TENANT);
    tg_wake_one(e);
    struct tg_drain_report report;
    CHECK_EQ(tg_engine_drain(e, LIMIT, &report), 0);
    CHECK_EQ(report.done + report.handed_back, 503);
    for (int i = 0; i < 3; i++) {
        int r = tg_engine_poll(e, &behind[i]);
        CHECK(r == 0 || r == -ECANCELED);
    }
    test_close(e);
}

static void it_goes_on_and_everything_runs(void)
{
    struct tg_engine *e = test_engine(320, 2);
    struct tg_item behind;
    uint32_t shard = tg_submitter_shard(e); /* this thread is the one that stopped, and submits on */
    struct tg_index *q = tg_queue(e, shard, LEVEL, TENANT);
    uint32_t slot;
    CHECK(tg_free_pop(&e->level[LEVEL].free[shard], &slot, &(const struct tg_index *){NULL}));
    uint64_t place = tg_index_reserve_mp(q, 1);
    CHECK_EQ(submit_soon(e, TENANT, LEVEL, TG_OP_NOP, NULL, 0, &behind), 0);
    CHECK_EQ(tg_engine_wait(e, &behind, SECOND / 50), -ETIMEDOUT);
    tg_index_fill(q, place, slot);
    tg_ready_set(e, shard, LEVEL, TENANT);
    tg_wake_one(e);
    CHECK_EQ(tg_engine_wait(e, &behind, LIMIT), 0);
    CHECK_EQ(tg_engine_settle(e, LIMIT), 0);
    test_close(e);
}

int main(void)
{
    RUN(a_stopped_producer_hides_its_own_queue_only);
    RUN(it_goes_on_and_everything_runs);
    return 0;
}
