/* SPDX-License-Identifier: Apache-2.0
 * E8: a stopped engine finishes or hands back everything published, says how many of each, and every wait has
 * a bound. */
#include "engine_test.h"

static void e8_drain_finishes_what_is_published(void)
{
    struct tg_engine *e = test_engine(2000, 2);
    struct tg_drain_report r;
    struct notes n;
    notes_start(&n, e, 1500);
    for (uint32_t i = 0; i < 1500; i++)
        note_submit(e, i % TG_TENANTS, i % TG_PRIORITY_LEVELS, i);
    CHECK_EQ(tg_engine_drain(e, LIMIT, &r), 0);
    CHECK_EQ(n.count, 1500);
    CHECK_EQ(r.done, 1500);
    CHECK(r.faults == 0 && r.cancelled == 0 && r.handed_back == 0 && r.running == 0);
    CHECK_EQ(test_word(e, TG_CONTROL_DONE_COUNT), 1500);
    CHECK_EQ(tg_engine_submit(e, 0, 0, 0, NULL, 0, NULL), -ESHUTDOWN);
    CHECK_EQ(tg_engine_wait_space(e, 0, LIMIT), -ESHUTDOWN);
    CHECK_EQ(tg_engine_drain(e, LIMIT, &r), 0); /* again: the same report */
    CHECK_EQ(r.done, 1500);
    free(n.note);
    test_close(e);
}

static void e8_drain_hands_back_what_may_not_run(void)
{
    struct tg_engine *e = test_engine(640, 2);
    struct tg_drain_report r;
    struct tg_item off[20], io[5], fence, dead_fence, gone;
    struct tg_batch_item items[3] = {{TG_OP_NOP, NULL, 0}, {TG_OP_NOP, NULL, 0}, {TG_OP_NOP, NULL, 0}};
    CHECK_EQ(tg_engine_set_tenant(e, 7, 0), 0);
    for (uint32_t i = 0; i < 20; i++)
        CHECK_EQ(submit_soon(e, 7, i % 5, TG_OP_NOP, NULL, 0, &off[i]), 0);
    CHECK_EQ(submit_soon(e, 7, 1, TG_OP_NOP, NULL, 0, &gone), 0);
    CHECK_EQ(tg_engine_cancel(e, &gone), 0);
    CHECK_EQ(submit_batch_soon(e, 7, 2, items, 3, 1, &fence), 0);
    CHECK_EQ(submit_batch_soon(e, 7, 2, items, 3, 1, &dead_fence), 0);
    CHECK_EQ(tg_engine_cancel(e, &dead_fence), 0);
    for (uint32_t i = 0; i < 5; i++)
        CHECK_EQ(tg_engine_submit_load_miss(e, i, 0, &io[i]), 0);
    for (uint32_t i = 0; i < 11; i++)
        CHECK_EQ(submit_soon(e, 0, 4, TG_OP_NOP, NULL, 0, NULL), 0);
    CHECK_EQ(submit_soon(e, 0, 4, 0x999, NULL, 0, NULL), 0);
    CHECK_EQ(tg_engine_drain(e, LIMIT, &r), 0);
    CHECK_EQ(r.done, 11);
    CHECK_EQ(r.faults, 1);
    CHECK_EQ(r.cancelled, 2);
    CHECK_EQ(r.handed_back, 20 + 4 + 3 + 5);
    for (uint32_t i = 0; i < 20; i++) {
        CHECK_EQ(tg_engine_wait(e, &off[i], 0), -ECANCELED);
        CHECK_EQ(test_status(e, off[i].slot), TG_SLOT_EMPTY);
    }
    CHECK_EQ(tg_engine_wait(e, &fence, 0), -ECANCELED);
    CHECK_EQ(tg_engine_wait(e, &io[4], 0), -ECANCELED);
    CHECK_EQ(test_word(e, TG_CONTROL_EPOCH), 0);
    test_close(e);
}

static void e8_drain_has_a_bound_and_can_be_repeated(void)
{
    struct tg_engine *e = test_engine(64, 2);
    struct tg_drain_report r;
    struct gate g;
    gate_close(&g, e, 0);
    CHECK_EQ(tg_engine_drain(e, SECOND / 50, &r), -ETIMEDOUT);
    CHECK_EQ(r.running, 1);
    CHECK_EQ(tg_engine_close(e, SECOND / 50, &r), -ETIMEDOUT);
    gate_open(&g);
    CHECK_EQ(tg_engine_drain(e, LIMIT, &r), 0);
    CHECK_EQ(r.done, 1);
    test_close(e);
    CHECK_EQ(tg_engine_close(NULL, 0, NULL), 0);
}

enum { PRODUCERS = 4 };
static struct tg_engine *shared;
static uint64_t accepted[PRODUCERS];

static void *producer(void *id)
{
    uintptr_t me = (uintptr_t)id;
    uint64_t seed = me + 1;
    for (;;) {
        uint32_t level = (uint32_t)check_random(&seed) % TG_PRIORITY_LEVELS;
        struct tg_batch_item items[3] = {{TG_OP_NOP, NULL, 0}, {0x888, NULL, 0}, {TG_OP_NOP, NULL, 0}};
        uint32_t tenant = (uint32_t)check_random(&seed) % TG_TENANTS;
        bool batch = check_random(&seed) % 4 == 0;
        int r = batch ? tg_engine_submit_batch(shared, tenant, level, items, 3, 0, NULL)
                      : tg_engine_submit(shared, tenant, level, TG_OP_NOP, NULL, 0, NULL);
        if (r == -ESHUTDOWN)
            return NULL;
        CHECK(r == 0 || r == -EAGAIN);
        if (r == 0)
            accepted[me] += batch ? 4 : 1;
    }
}

/* Closed while everybody submits and two tenants are off: what was accepted is all accounted for. */
static void e8_close_while_busy_accounts_for_everything(void)
{
    for (int round = 0; round < (test_flags ? 3 : 15); round++) {
        pthread_t thread[PRODUCERS];
        struct tg_drain_report r;
        uint64_t total = 0;
        shared = test_engine(test_flags ? 100 : 500, 2);
        CHECK_EQ(tg_engine_set_tenant(shared, 3, 0), 0);
        CHECK_EQ(tg_engine_set_quota(shared, 4, 10), 0);
        memset(accepted, 0, sizeof(accepted));
        for (uintptr_t i = 0; i < PRODUCERS; i++)
            CHECK_EQ(pthread_create(&thread[i], NULL, producer, (void *)i), 0);
        struct tg_engine_stats s;
        do
            tg_engine_stats(shared, &s);
        while (s.done < 100);
        CHECK_EQ(tg_engine_drain(shared, LIMIT, &r), 0);
        for (int i = 0; i < PRODUCERS; i++) {
            pthread_join(thread[i], NULL);
            total += accepted[i];
        }
        CHECK_EQ(r.done + r.faults + r.handed_back, total);
        CHECK(r.done > 0);
        test_close(shared);
    }
}

static void cases(void)
{
    RUN(e8_drain_finishes_what_is_published);
    RUN(e8_drain_hands_back_what_may_not_run);
    RUN(e8_drain_has_a_bound_and_can_be_repeated);
    RUN(e8_close_while_busy_accounts_for_everything);
}

int main(void)
{
    BOTH_WAYS(cases);
    return 0;
}
