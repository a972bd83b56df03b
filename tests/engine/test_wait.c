/* SPDX-License-Identifier: Apache-2.0
 * Tickets: waiting with a limit, results before DONE (E7), cancelling, noticing that a slot was used again,
 * REQUEUE, and the IO side. */
#include "engine_test.h"

static void wait_has_a_limit_and_tickets_are_checked(void)
{
    struct tg_engine *e = test_engine(64, 1);
    struct tg_item t, wrong = {0};
    CHECK_EQ(tg_engine_set_tenant(e, 1, 0), 0);
    CHECK_EQ(submit_soon(e, 1, 0, TG_OP_NOP, NULL, 0, &t), 0);
    uint64_t start = tg_clock_mono_ns();
    CHECK_EQ(tg_engine_wait(e, &t, 30 * SECOND / 1000), -ETIMEDOUT);
    CHECK(tg_clock_mono_ns() - start >= 30 * SECOND / 1000);
    CHECK_EQ(tg_engine_wait(e, &t, 0), -ETIMEDOUT);
    CHECK_EQ(tg_engine_wait(e, &wrong, 0), -EINVAL);
    wrong = (struct tg_item){1, 64, 0};
    CHECK_EQ(tg_engine_wait(e, &wrong, 0), -EINVAL);
    wrong = (struct tg_item){99, t.slot, 0};
    CHECK_EQ(tg_engine_poll(e, &wrong), -EINVAL);
    CHECK_EQ(tg_engine_cancel(e, &wrong), -EINVAL);
    test_close(e);
}

/* The slot is used again and again; each ticket still knows how its item ended. */
static void tickets_notice_reuse(void)
{
    struct tg_engine *e = test_engine(5, 1);
    struct tg_item first, t[50], bad;
    CHECK_EQ(run_ticket(e, 0, 0x777, NULL, 0, &first), -EIO);
    for (int i = 0; i < 50; i++)
        CHECK_EQ(run_ticket(e, 0, TG_OP_NOP, NULL, 0, &t[i]), 0);
    CHECK_EQ(t[49].slot, first.slot);
    struct tg_fault f;
    CHECK_EQ(tg_engine_poll(e, &first), -EIO);
    CHECK_EQ(tg_engine_fault(e, &first, &f), 0);
    CHECK_EQ(f.detail, 0x777);
    for (int i = 0; i < 50; i++) {
        CHECK_EQ(tg_engine_poll(e, &t[i]), 0);
        CHECK_EQ(tg_engine_fault(e, &t[i], &f), -ENOENT);
    }
    CHECK_EQ(run_ticket(e, 0, 0x778, NULL, 0, &bad), -EIO);
    CHECK_EQ(run_ticket(e, 0, TG_OP_NOP, NULL, 0, &t[0]), 0);
    CHECK_EQ(tg_engine_poll(e, &bad), -EIO);
    /* How it ended is still known among the last 64 uses, its reason is not; then neither. */
    CHECK_EQ(tg_engine_poll(e, &first), -EIO);
    CHECK_EQ(tg_engine_fault(e, &first, &f), -ENOENT);
    CHECK_EQ(tg_engine_poll(e, &t[49]), 0);
    CHECK_EQ(tg_engine_poll(e, &t[0]), 0);
    for (int i = 0; i < 20; i++)
        CHECK_EQ(run_ticket(e, 0, 0x779, NULL, 0, &bad), -EIO);
    CHECK_EQ(tg_engine_poll(e, &first), -ESTALE);
    CHECK_EQ(tg_engine_poll(e, &bad), -EIO);
    test_close(e);
}

static int write_result(void *context, struct tg_op *op)
{
    uint32_t *result = context;
    for (uint32_t i = 0; i < 64; i++)
        result[i] = op->args[0] + i; /* plain stores: DONE publishes them */
    return TG_OP_FINISHED;
}

static void e7_results_are_visible_before_done(void)
{
    struct tg_engine *e = test_engine(320, 2);
    uint32_t result[64];
    CHECK_EQ(tg_engine_register(e, OP_COUNT, write_result, result), 0);
    for (uint32_t i = 0; i < 3000; i++) {
        struct tg_item t;
        uint32_t v = i * 3;
        CHECK_EQ(run_ticket(e, 0, OP_COUNT, &v, 1, &t), 0);
        for (uint32_t k = 0; k < 64; k++)
            CHECK_EQ(result[k], v + k);
    }
    test_close(e);
}

static int nap(void *context, struct tg_op *op)
{
    struct timespec ts = {0, 3000000};
    (void)context;
    (void)op;
    nanosleep(&ts, NULL);
    return TG_OP_FINISHED;
}

static struct tg_engine *shared;

static void *waiter(void *ticket)
{
    CHECK_EQ(tg_engine_wait(shared, ticket, LIMIT), 0);
    return NULL;
}

/* Items long enough that every waiter sleeps, several on one ticket. */
static void sleeping_waiters_are_woken(void)
{
    pthread_t thread[8];
    struct tg_item t[4];
    shared = test_engine(64, 1);
    CHECK_EQ(tg_engine_register(shared, OP_COUNT, nap, NULL), 0);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(submit_soon(shared, 0, 1, OP_COUNT, NULL, 0, &t[i]), 0);
    for (int i = 0; i < 8; i++)
        CHECK_EQ(pthread_create(&thread[i], NULL, waiter, &t[i / 2]), 0);
    for (int i = 0; i < 8; i++)
        pthread_join(thread[i], NULL);
    test_close(shared);
}

static void cancel_takes_back_what_does_not_run(void)
{
    struct tg_engine *e = test_engine(25, 1); /* five slots a level */
    struct gate g;
    struct notes n;
    struct tg_item t[5], done;
    struct tg_engine_stats s;
    notes_start(&n, e, 10);
    CHECK_EQ(run_ticket(e, 0, TG_OP_NOP, NULL, 0, &done), 0);
    CHECK_EQ(tg_engine_cancel(e, &done), -EALREADY);
    gate_close(&g, e, TG_PRIORITY_CRITICAL);
    for (uint32_t i = 0; i < 5; i++)
        CHECK_EQ(submit_soon(e, 0, TG_PRIORITY_LOW, OP_NOTE, &i, 1, &t[i]), 0);
    for (int i = 0; i < 5; i += 2) {
        CHECK_EQ(tg_engine_cancel(e, &t[i]), 0);
        CHECK_EQ(test_status(e, t[i].slot), TG_SLOT_EMPTY);
        CHECK_EQ(tg_engine_wait(e, &t[i], LIMIT), -ECANCELED);
    }
    gate_open(&g);
    CHECK_EQ(tg_engine_wait(e, &t[1], LIMIT), 0);
    CHECK_EQ(tg_engine_wait(e, &t[3], LIMIT), 0);
    CHECK_EQ(tg_engine_settle(e, LIMIT), 0);
    CHECK_EQ(n.count, 2);
    tg_engine_stats(e, &s);
    CHECK_EQ(s.cancelled, 3);
    for (int i = 0; i < 5; i++) /* all slots are back */
        CHECK_EQ(submit_soon(e, 0, TG_PRIORITY_LOW, TG_OP_NOP, NULL, 0, NULL), 0);
    free(n.note);
    test_close(e);
}

enum { USES = 1 << 18 };
static uint64_t live_generation;
static uint32_t live_slot, canceller_stop;
static uint8_t killed[USES], seen[USES];

/* Cancels the latest ticket at any moment of its life: waiting, running, finished, the slot used again. */
static void *canceller(void *unused)
{
    (void)unused;
    while (!tg_load_acquire_u32(&canceller_stop)) {
        struct tg_item t = {tg_load_acquire_u64(&live_generation), tg_load_acquire_u32(&live_slot), 0};
        if (t.generation != 0 && tg_engine_cancel(shared, &t) == 0)
            killed[t.generation] = 1;
    }
    return NULL;
}

/* E1: what the canceller was told and what the owner saw agree for every single use of the slot. */
static void e1_cancel_never_takes_a_later_item_of_the_slot(void)
{
    pthread_t thread;
    shared = test_engine(5, 1); /* one slot a level */
    canceller_stop = 0;
    live_generation = 0;
    memset(killed, 0, sizeof(killed));
    memset(seen, 0, sizeof(seen));
    CHECK_EQ(pthread_create(&thread, NULL, canceller, NULL), 0);
    uint64_t end = tg_clock_mono_ns() + SECOND / 4;
    struct tg_item t = {0};
    while (tg_clock_mono_ns() < end && t.generation < USES - 1) {
        int r;
        while ((r = tg_engine_submit(shared, 0, 1, TG_OP_NOP, NULL, 0, &t)) == -EAGAIN)
            tg_cpu_relax();
        CHECK_EQ(r, 0);
        tg_store_release_u32(&live_slot, t.slot);
        tg_store_release_u64(&live_generation, t.generation);
        r = tg_engine_wait(shared, &t, LIMIT);
        CHECK(r == 0 || r == -ECANCELED);
        seen[t.generation] = r == -ECANCELED;
    }
    tg_store_release_u32(&canceller_stop, 1);
    pthread_join(thread, NULL);
    CHECK(memcmp(killed, seen, sizeof(seen)) == 0);
    test_close(shared);
}

static void cancelling_what_runs_is_busy(void)
{
    struct tg_engine *e = test_engine(25, 1);
    struct gate g;
    struct tg_item t;
    sem_init(&g.reached, 0, 0);
    sem_init(&g.open, 0, 0);
    CHECK_EQ(tg_engine_register(e, OP_GATE, gate_handler, &g), 0);
    CHECK_EQ(submit_soon(e, 0, 0, OP_GATE, NULL, 0, &t), 0);
    while (sem_wait(&g.reached) != 0)
        ;
    CHECK_EQ(tg_engine_cancel(e, &t), -EBUSY);
    gate_open(&g);
    CHECK_EQ(tg_engine_wait(e, &t, LIMIT), 0);
    test_close(e);
}

static int again(void *context, struct tg_op *op)
{
    uint32_t *left = context;
    (void)op;
    return --*left == 0 ? TG_OP_FINISHED : TG_OP_REQUEUE;
}

static void requeue_runs_again(void)
{
    struct tg_engine *e = test_engine(64, 1);
    uint32_t left = 100;
    struct tg_item t;
    struct tg_engine_stats s;
    CHECK_EQ(tg_engine_register(e, OP_COUNT, again, &left), 0);
    CHECK_EQ(run_ticket(e, 2, OP_COUNT, NULL, 0, &t), 0);
    tg_engine_stats(e, &s);
    CHECK_EQ(left, 0);
    CHECK_EQ(s.requeues, 99);
    CHECK_EQ(s.tenant[2].claims, 100);
    CHECK_EQ(s.done, 1);
    test_close(e);
}

static int needs_io(void *context, struct tg_op *op)
{
    uint32_t *times = context;
    op->io_resource = 55;
    return (*times)++ == 0 ? TG_OP_WAIT_IO : TG_OP_FINISHED;
}

static void io_side_serves_load_miss_and_handlers(void)
{
    struct tg_engine *e = test_engine(64, 1);
    struct tg_item t, u;
    struct tg_io_request r;
    struct tg_fault f;
    uint32_t times = 0;
    CHECK_EQ(tg_engine_io_next(e, SECOND / 100, &r), -ETIMEDOUT);
    CHECK_EQ(tg_engine_submit_load_miss(e, 0xABCD, 1, &t), 0);
    CHECK_EQ(tg_engine_io_next(e, LIMIT, &r), 0);
    CHECK(r.resource == 0xABCD && r.prefetch == 1 && r.tenant == 0 && r.item.slot == t.slot);
    CHECK_EQ(test_status(e, t.slot), TG_SLOT_WAIT_IO);
    CHECK_EQ(tg_engine_poll(e, &t), -EINPROGRESS);
    CHECK_EQ(tg_engine_io_complete(e, &r.item, 0), 0);
    CHECK_EQ(tg_engine_wait(e, &t, LIMIT), 0);
    CHECK_EQ(tg_engine_io_complete(e, &r.item, 0), -EALREADY);
    /* A failing one faults. */
    CHECK_EQ(tg_engine_submit_load_miss(e, 1, 0, &t), 0);
    CHECK_EQ(tg_engine_io_next(e, LIMIT, &r), 0);
    CHECK_EQ(tg_engine_io_complete(e, &r.item, -EIO), 0);
    CHECK_EQ(tg_engine_wait(e, &t, LIMIT), -EIO);
    CHECK_EQ(tg_engine_fault(e, &t, &f), 0);
    CHECK(f.reason == TG_FAULT_IO && (int32_t)f.detail == -EIO);
    /* A cancelled one leaves the list; the next request is the next item's. */
    CHECK_EQ(tg_engine_submit_load_miss(e, 2, 0, &t), 0);
    while (test_status(e, t.slot) != TG_SLOT_WAIT_IO)
        ;
    CHECK_EQ(tg_engine_cancel(e, &t), 0);
    CHECK_EQ(tg_engine_wait(e, &t, LIMIT), -ECANCELED);
    CHECK_EQ(tg_engine_register(e, OP_COUNT, needs_io, &times), 0);
    CHECK_EQ(submit_soon(e, 3, TG_PRIORITY_LOW, OP_COUNT, NULL, 0, &u), 0);
    CHECK_EQ(tg_engine_io_next(e, LIMIT, &r), 0);
    CHECK(r.resource == 55 && r.tenant == 3);
    CHECK_EQ(tg_engine_io_complete(e, &r.item, 0), 0);
    CHECK_EQ(tg_engine_wait(e, &u, LIMIT), 0);
    CHECK_EQ(times, 2);
    CHECK_EQ(tg_engine_settle(e, LIMIT), 0);
    test_close(e);
}

static int leaves(void *context, struct tg_op *op)
{
    (void)context;
    (void)op;
    pthread_exit(NULL);
}

static void e1_dying_worker_loses_nothing(void)
{
    struct tg_engine *e = test_engine(64, 2);
    CHECK_EQ(tg_engine_register(e, OP_COUNT, leaves, NULL), 0);
    for (int i = 0; i < 10; i++) {
        struct tg_item t, u;
        struct tg_fault f;
        CHECK_EQ(run_ticket(e, 0, OP_COUNT, NULL, 0, &t), -EIO);
        CHECK_EQ(tg_engine_fault(e, &t, &f), 0);
        CHECK_EQ(f.reason, TG_FAULT_WORKER_DIED);
        CHECK_EQ(run_ticket(e, 0, TG_OP_NOP, NULL, 0, &u), 0);
    }
    test_close(e);
}

static int nothing(void *context, struct tg_op *op)
{
    (void)context;
    (void)op;
    return TG_OP_FINISHED;
}

static void space_is_announced(void)
{
    struct tg_engine *e = test_engine(25, 1);
    struct gate g;
    gate_close(&g, e, TG_PRIORITY_CRITICAL);
    CHECK_EQ(tg_engine_register(e, OP_COUNT, nothing, NULL), 0);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(submit_soon(e, 0, TG_PRIORITY_LOW, OP_COUNT, NULL, 0, NULL), 0);
    CHECK_EQ(tg_engine_submit(e, 0, TG_PRIORITY_LOW, OP_COUNT, NULL, 0, NULL), -EAGAIN);
    CHECK_EQ(tg_engine_wait_space(e, TG_PRIORITY_LOW, SECOND / 100), -ETIMEDOUT);
    CHECK_EQ(tg_engine_wait_space(e, TG_PRIORITY_HIGH, SECOND / 100), 0);
    gate_open(&g);
    CHECK_EQ(tg_engine_wait_space(e, TG_PRIORITY_LOW, LIMIT), 0);
    CHECK_EQ(submit_soon(e, 0, TG_PRIORITY_LOW, OP_COUNT, NULL, 0, NULL), 0);
    test_close(e);
}

static void cases(void)
{
    RUN(wait_has_a_limit_and_tickets_are_checked);
    RUN(tickets_notice_reuse);
    RUN(e7_results_are_visible_before_done);
    RUN(sleeping_waiters_are_woken);
    RUN(cancel_takes_back_what_does_not_run);
    RUN(e1_cancel_never_takes_a_later_item_of_the_slot);
    RUN(cancelling_what_runs_is_busy);
    RUN(requeue_runs_again);
    RUN(io_side_serves_load_miss_and_handlers);
    RUN(e1_dying_worker_loses_nothing);
    RUN(space_is_announced);
}

int main(void)
{
    BOTH_WAYS(cases);
    return 0;
}
