/* SPDX-License-Identifier: Apache-2.0
 * E5: a fence completes after every item of its batch and never before, occupies no worker, and batches that
 * interleave do not confuse it. */
#include "engine_test.h"

static int add(void *context, struct tg_op *op)
{
    tg_add_relaxed_u32((uint32_t *)context + op->args[0], 1);
    return op->args[1] ? -EDOM : TG_OP_FINISHED;
}

static void e5_fence_not_early_and_occupies_no_worker(void)
{
    struct tg_engine *e = test_engine(320, 2);
    struct gate g;
    sem_init(&g.reached, 0, 0);
    sem_init(&g.open, 0, 0);
    CHECK_EQ(tg_engine_register(e, OP_GATE, gate_handler, &g), 0);
    struct tg_batch_item items[3] = {{TG_OP_NOP, NULL, 0}, {OP_GATE, NULL, 0}, {TG_OP_NOP, NULL, 0}};
    struct tg_item fence, other;
    CHECK_EQ(submit_batch_soon(e, 1, TG_PRIORITY_NORMAL, items, 3, 4242, &fence), 0);
    while (sem_wait(&g.reached) != 0)
        ;
    /* One worker stands in the batch; the other serves everybody else meanwhile. */
    for (int i = 0; i < 500; i++)
        CHECK_EQ(run_ticket(e, 0, TG_OP_NOP, NULL, 0, &other), 0);
    CHECK_EQ(test_status(e, fence.slot), TG_SLOT_YIELD);
    CHECK_EQ(tg_engine_poll(e, &fence), -EINPROGRESS);
    CHECK_EQ(test_word(e, TG_CONTROL_EPOCH), 0);
    CHECK_EQ(test_word(e, TG_CONTROL_OBSERVABLE_BASE), 0);
    gate_open(&g);
    CHECK_EQ(tg_engine_wait(e, &fence, LIMIT), 0);
    CHECK_EQ(test_word(e, TG_CONTROL_EPOCH), 1);
    CHECK_EQ(test_word(e, TG_CONTROL_OBSERVABLE_BASE), 4242);
    test_close(e);
}

static void e5_lone_fence_completes_at_once(void)
{
    struct tg_engine *e = test_engine(64, 1);
    struct tg_item fence;
    CHECK_EQ(submit_batch_soon(e, 0, 0, NULL, 0, 7, &fence), 0);
    CHECK_EQ(tg_engine_wait(e, &fence, LIMIT), 0);
    CHECK_EQ(test_word(e, TG_CONTROL_OBSERVABLE_BASE), 7);
    uint32_t args[2] = {0, 8};
    CHECK_EQ(run_ticket(e, 0, TG_OP_BATCH_FENCE, args, 2, &fence), 0);
    CHECK_EQ(test_word(e, TG_CONTROL_OBSERVABLE_BASE), 8);
    CHECK_EQ(test_word(e, TG_CONTROL_EPOCH), 2);
    test_close(e);
}

enum { PRODUCERS = 3, BATCHES = 300, MOST = 12 };
static struct tg_engine *shared;
static uint32_t counted[PRODUCERS * BATCHES];

/* Each batch has its own counter; when its fence is done the counter is complete. Some items fault. */
static void *producer(void *id)
{
    uint32_t me = (uint32_t)(uintptr_t)id;
    uint64_t seed = me + 1;
    for (uint32_t b = 0; b < BATCHES; b++) {
        uint32_t n = (uint32_t)check_random(&seed) % (MOST + 1);
        uint32_t args[MOST][2];
        struct tg_batch_item items[MOST];
        struct tg_item fence;
        uint32_t batch = me * BATCHES + b;
        for (uint32_t i = 0; i < n; i++) {
            args[i][0] = batch;
            args[i][1] = check_random(&seed) % 4 == 0;
            items[i] = (struct tg_batch_item){OP_COUNT, args[i], 2};
        }
        int r;
        uint32_t level = (uint32_t)check_random(&seed) % TG_PRIORITY_LEVELS;
        uint32_t tenant = (uint32_t)check_random(&seed) % TG_TENANTS;
        do
            r = tg_engine_submit_batch(shared, tenant, level, items, n, batch, &fence);
        while (r == -EAGAIN && tg_engine_wait_space(shared, level, SECOND / 1000) != -ESHUTDOWN);
        CHECK_EQ(r, 0);
        CHECK_EQ(tg_engine_wait(shared, &fence, LIMIT), 0);
        CHECK_EQ(tg_load_relaxed_u32(&counted[batch]), n);
    }
    return NULL;
}

static void e5_interleaved_batches_each_wait_for_their_own(void)
{
    pthread_t thread[PRODUCERS];
    shared = test_engine(150, 3);
    memset(counted, 0, sizeof(counted));
    CHECK_EQ(tg_engine_register(shared, OP_COUNT, add, counted), 0);
    for (uintptr_t i = 0; i < PRODUCERS; i++)
        CHECK_EQ(pthread_create(&thread[i], NULL, producer, (void *)i), 0);
    for (int i = 0; i < PRODUCERS; i++)
        pthread_join(thread[i], NULL);
    CHECK_EQ(test_word(shared, TG_CONTROL_EPOCH), PRODUCERS * BATCHES);
    test_close(shared);
}

static void e5_cancelled_items_count_as_ended(void)
{
    struct tg_engine *e = test_engine(64, 1);
    struct tg_batch_item items[4] = {
        {TG_OP_NOP, NULL, 0}, {TG_OP_NOP, NULL, 0}, {TG_OP_NOP, NULL, 0}, {TG_OP_NOP, NULL, 0}};
    struct tg_item fence, item;
    CHECK_EQ(tg_engine_set_tenant(e, 1, 0), 0);
    CHECK_EQ(submit_batch_soon(e, 1, TG_PRIORITY_LOW, items, 4, 9, &fence), 0);
    /* The items' tickets: the fence's four neighbours in the partition, all in their first use. */
    for (uint32_t i = 1; i <= 4; i++) {
        item = (struct tg_item){1, fence.slot - i, 0};
        CHECK_EQ(tg_engine_cancel(e, &item), 0);
        CHECK_EQ(tg_engine_poll(e, &item), -ECANCELED);
        CHECK_EQ(tg_engine_cancel(e, &item), -EALREADY);
    }
    CHECK_EQ(tg_engine_set_tenant(e, 1, 1), 0);
    CHECK_EQ(tg_engine_wait(e, &fence, LIMIT), 0);
    CHECK_EQ(tg_engine_settle(e, LIMIT), 0);
    test_close(e);
}

/* A fence cancelled while its items run: its slot is not used again before they ended. */
static void e5_cancelled_fence_harms_nobody(void)
{
    struct tg_engine *e = test_engine(25, 2);
    struct gate g;
    for (int round = 0; round < 50; round++) {
        sem_init(&g.reached, 0, 0);
        sem_init(&g.open, 0, 0);
        CHECK_EQ(tg_engine_register(e, OP_GATE, gate_handler, &g), 0);
        struct tg_batch_item items[2] = {{OP_GATE, NULL, 0}, {TG_OP_NOP, NULL, 0}};
        struct tg_item fence, other;
        CHECK_EQ(submit_batch_soon(e, 0, TG_PRIORITY_HIGH, items, 2, 1, &fence), 0);
        while (sem_wait(&g.reached) != 0)
            ;
        int r = tg_engine_cancel(e, &fence);
        CHECK(r == 0 || r == -EBUSY);
        for (int i = 0; i < 20; i++) {
            CHECK_EQ(submit_soon(e, 0, TG_PRIORITY_HIGH, TG_OP_NOP, NULL, 0, &other), 0);
            CHECK(r != 0 || other.slot != fence.slot);
            CHECK_EQ(tg_engine_wait(e, &other, LIMIT), 0);
        }
        gate_open(&g);
        CHECK_EQ(tg_engine_settle(e, LIMIT), 0);
        CHECK_EQ(tg_engine_wait(e, &fence, LIMIT), r == 0 ? -ECANCELED : 0);
    }
    test_close(e);
}

static void batch_is_all_or_nothing(void)
{
    struct tg_engine *e = test_engine(50, 1); /* ten slots a level */
    struct tg_batch_item items[20];
    uint32_t bad[2] = {5, 0};
    for (int i = 0; i < 20; i++)
        items[i] = (struct tg_batch_item){TG_OP_NOP, NULL, 0};
    CHECK_EQ(tg_engine_set_tenant(e, 1, 0), 0);
    CHECK_EQ(tg_engine_submit_batch(e, 1, 0, items, 10, 0, NULL), -ENOSPC);
    CHECK_EQ(submit_batch_soon(e, 1, 0, items, 5, 0, NULL), 0);
    CHECK_EQ(tg_engine_submit_batch(e, 1, 0, items, 4, 0, NULL), -EAGAIN);
    CHECK_EQ(tg_engine_submit_many(e, 1, 0, items, 5, NULL), -EAGAIN);
    items[3] = (struct tg_batch_item){TG_OP_BATCH_FENCE, bad, 2};
    CHECK_EQ(tg_engine_submit_many(e, 1, 1, items, 4, NULL), -EINVAL);
    struct tg_engine_stats s;
    tg_engine_stats(e, &s);
    CHECK_EQ(s.level[0].outstanding, 6);
    CHECK_EQ(s.level[1].outstanding, 0);
    test_close(e);
}

static void cases(void)
{
    RUN(e5_fence_not_early_and_occupies_no_worker);
    RUN(e5_lone_fence_completes_at_once);
    RUN(e5_interleaved_batches_each_wait_for_their_own);
    RUN(e5_cancelled_items_count_as_ended);
    RUN(e5_cancelled_fence_harms_nobody);
    RUN(batch_is_all_or_nothing);
}

int main(void)
{
    BOTH_WAYS(cases);
    return 0;
}
