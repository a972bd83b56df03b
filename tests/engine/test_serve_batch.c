/* SPDX-License-Identifier: Apache-2.0
 * Clients of a served engine publish runs and batches, and take items back. */
#include "serve_test.h"

enum { CLIENTS = 3, BATCHES = 120, MOST = 40 };

static int hold_handler(void *context, struct tg_op *op)
{
    (void)context;
    op->io_resource = op->args[0];
    return TG_OP_WAIT_IO;
}

#define OP_HOLD 20u

static void start(struct served *s, uint32_t slots, uint32_t spin_us)
{
    struct tg_serve_options o;
    struct tg_engine_options eo = test_options(slots, 1);
    serve_options(&o);
    o.spin_us = eo.spin_us = spin_us;
    serve_start(s, test_open(&eo), &o);
    CHECK_EQ(tg_engine_register(s->engine, OP_HOLD, hold_handler, NULL), 0);
}

/* A fence waits for its items whatever becomes of them, is not early, and holds up nothing behind it. */
static void e5_a_fence_is_last_and_in_nobodys_way(void)
{
    struct served s;
    struct tg_io_request request;
    uint64_t item[4], fence, lone, behind;
    const uint32_t seven = 7;
    const struct tg_batch_item batch[4] = {
        {OP_MIX, &seven, 1}, {OP_HOLD, NULL, 0}, {4711, NULL, 0}, {OP_HOLD, NULL, 0}};
    start(&s, 40, 20);
    struct tg_attached *a = attach_now();
    CHECK_EQ(tg_attached_submit_batch(a, 2, batch, 4, 77, item, &fence), 0);
    CHECK_EQ(fence, item[3] + 1);
    CHECK_EQ(tg_attached_wait(a, item[0], LIMIT, NULL), 0);
    CHECK_EQ(tg_attached_wait(a, item[2], LIMIT, NULL), -EIO);
    /* No item behind it waits, no fence behind it, and no slot of the engine is its own. */
    behind = put_mix(a, 2, 1);
    CHECK_EQ(tg_attached_wait(a, behind, LIMIT, NULL), 0);
    CHECK_EQ(tg_attached_submit_batch(a, 2, NULL, 0, 5, NULL, &lone), 0);
    CHECK_EQ(tg_attached_wait(a, lone, LIMIT, NULL), 0);
    CHECK_EQ(test_word(s.engine, TG_CONTROL_OBSERVABLE_BASE), 5);
    CHECK_EQ(test_word(s.engine, TG_CONTROL_EPOCH), 1);
    CHECK_EQ(tg_engine_io_next(s.engine, LIMIT, &request), 0);
    CHECK_EQ(tg_engine_io_complete(s.engine, &request.item, -EIO), 0);
    CHECK_EQ(tg_attached_wait(a, item[1], LIMIT, NULL), -EIO);
    pause_ms(2);
    CHECK_EQ(tg_attached_poll(a, fence, NULL), -EINPROGRESS);
    CHECK_EQ(outstanding(&s, 2), 1); /* the one that is held */
    CHECK_EQ(tg_attached_cancel(a, item[3]), 0);
    CHECK_EQ(tg_attached_wait(a, fence, LIMIT, NULL), 0);
    CHECK_EQ(tg_attached_poll(a, item[3], NULL), -ECANCELED);
    CHECK_EQ(test_word(s.engine, TG_CONTROL_OBSERVABLE_BASE), 77);
    CHECK_EQ(test_word(s.engine, TG_CONTROL_EPOCH), 2);
    tg_attached_detach(a);
    serve_end(&s);
}

/* The last item is ended by another thread than the server's, which sleeps: it is woken for the fence. */
static void e10_a_sleeping_server_hears_of_a_complete_batch(void)
{
    struct served s;
    const struct tg_batch_item hold = {OP_HOLD, NULL, 0};
    start(&s, 40, 0);
    struct tg_attached *a = attach_now();
    for (uint32_t i = 0; i < 30; i++) {
        struct tg_io_request request;
        uint64_t fence;
        CHECK_EQ(tg_attached_submit_batch(a, i % 5, &hold, 1, i, NULL, &fence), 0);
        CHECK_EQ(tg_engine_io_next(s.engine, LIMIT, &request), 0);
        if (i % 3 == 0)
            pause_ms(2);
        CHECK_EQ(tg_engine_io_complete(s.engine, &request.item, -EIO), 0);
        CHECK_EQ(tg_attached_wait(a, fence, LIMIT, NULL), 0);
        CHECK_EQ(test_word(s.engine, TG_CONTROL_OBSERVABLE_BASE), i);
    }
    tg_attached_detach(a);
    serve_end(&s);
}

/* Batches larger than the level they run in, from several clients of one tenant. */
static void batch_client(uintptr_t seed)
{
    struct tg_attached *a = attach_now();
    uint64_t state = seed * 7919 + 1, items[MOST], fence;
    struct tg_batch_item batch[MOST];
    uint32_t values[MOST];
    for (uint32_t n = 0; n < BATCHES; n++) {
        uint32_t count = (uint32_t)check_random(&state) % MOST;
        int r;
        for (uint32_t i = 0; i < count; i++) {
            values[i] = (uint32_t)check_random(&state);
            batch[i] = (struct tg_batch_item){values[i] % 8 == 0 ? 4711 : OP_MIX, &values[i], 1};
        }
        while ((r = tg_attached_submit_batch(a, n % 5, batch, count, n, items, &fence)) == -EAGAIN)
            CHECK_EQ(tg_attached_wait_slots(a, count + 1, LIMIT), 0);
        CHECK_EQ(r, 0);
        if (n % 2)
            continue; /* and the next one on top */
        CHECK_EQ(tg_attached_wait(a, fence, LIMIT, NULL), 0);
        for (uint32_t i = 0; i < count; i++) {
            struct tg_outcome o;
            CHECK_EQ(tg_attached_poll(a, items[i], &o), values[i] % 8 == 0 ? -EIO : 0);
            if (values[i] % 8 != 0)
                CHECK_EQ(o.value[0], mixed(values[i]));
        }
    }
    /* The last fence is not all: a batch of another level may end after it. */
    CHECK_EQ(tg_attached_wait(a, fence, LIMIT, NULL), 0);
    CHECK_EQ(tg_attached_wait_slots(a, 64, LIMIT), 0);
    tg_attached_detach(a);
}

static void e5_batches_larger_than_their_level(void)
{
    struct served s;
    pid_t pid[CLIENTS];
    start(&s, 40, 20);
    for (uintptr_t i = 0; i < CLIENTS; i++)
        pid[i] = child_start(batch_client, i + 1);
    for (int i = 0; i < CLIENTS; i++)
        child_passed(pid[i]);
    AWAIT(serve_stats(&s).gone == CLIENTS && serve_stats(&s).leaving == 0);
    CHECK_EQ(serve_stats(&s).invalid, 0);
    CHECK_EQ(serve_stats(&s).lost, 0);
    CHECK_EQ(serve_stats(&s).cancelled, 0);
    CHECK_EQ(tg_engine_settle(s.engine, LIMIT), 0);
    CHECK_EQ(test_word(s.engine, TG_CONTROL_EPOCH), CLIENTS * BATCHES);
    serve_end(&s);
}

static void e1_runs_are_all_or_nothing(void)
{
    struct served s;
    struct tg_batch_item run[65];
    uint32_t values[65];
    uint64_t items[65];
    start(&s, 640, 20);
    struct tg_attached *a = attach_now();
    for (uint32_t i = 0; i < 65; i++) {
        values[i] = i;
        run[i] = (struct tg_batch_item){OP_MIX, &values[i], 1};
    }
    CHECK_EQ(tg_attached_submit_many(a, 1, run, 65, items), -ENOSPC);
    CHECK_EQ(tg_attached_submit_batch(a, 1, run, 64, 0, NULL, NULL), -ENOSPC);
    CHECK_EQ(tg_attached_wait_slots(a, 65, 0), -ENOSPC);
    CHECK_EQ(tg_attached_submit_many(a, 5, run, 1, items), -EINVAL);
    CHECK_EQ(tg_attached_submit_many(a, 1, NULL, 1, items), -EINVAL);
    CHECK_EQ(tg_attached_submit_many(a, 1, run, 0, NULL), 0);
    run[63].opcode = TG_OP_LOAD_MISS; /* the last one is wrong: none is published */
    CHECK_EQ(tg_attached_submit_many(a, 1, run, 64, items), -EINVAL);
    run[63].opcode = OP_MIX;
    run[63].arg_count = (size_t)1 << 32;
    CHECK_EQ(tg_attached_submit_many(a, 1, run, 64, items), -EINVAL);
    run[63].arg_count = 1;
    CHECK_EQ(tg_attached_submit_many(a, 1, run, 64, items), 0);
    for (uint32_t i = 0; i < 64; i++) {
        struct tg_outcome o;
        CHECK_EQ(tg_attached_wait(a, items[i], LIMIT, &o), 0);
        CHECK_EQ(o.value[0], mixed(i));
    }
    uint64_t gate = put(a, 0, OP_GATE, NULL, 0);
    CHECK_EQ(tg_attached_submit_many(a, 1, run, 64, items), -EAGAIN);
    CHECK_EQ(tg_attached_wait_slots(a, 64, 1000000), -ETIMEDOUT);
    CHECK_EQ(tg_attached_wait_slots(a, 63, LIMIT), 0);
    CHECK_EQ(tg_attached_submit_many(a, 1, run, 63, items), 0);
    gate_open(&s.gate);
    CHECK_EQ(tg_attached_wait_slots(a, 64, LIMIT), 0);
    CHECK_EQ(tg_attached_wait(a, gate, LIMIT, NULL), 0);
    CHECK_EQ(tg_load_relaxed_u32(&s.runs), 64 + 63);
    tg_attached_detach(a);
    serve_end(&s);
}

/* A client whose tenant may not run has filled its ring: in the engine, and in the server's lists behind the
 * tenant's share of the level. It takes all of it back. */
static void e1_items_are_taken_back(void)
{
    struct served s;
    uint64_t item[64];
    start(&s, 40, 20);
    struct tg_attached *a = attach_now(), *b = attach_now();
    for (uint32_t round = 0; round < 3; round++) {
        CHECK_EQ(tg_engine_set_tenant(s.engine, 0, 0), 0);
        for (uint32_t i = 0; i < 64; i++)
            item[i] = put_mix(a, i % 2 + 1, i);
        AWAIT(serve_stats(&s).taken == 64 * (round + 1));
        CHECK_EQ(tg_attached_submit(a, 0, TG_OP_NOP, NULL, 0, &(uint64_t){0}), -EAGAIN);
        /* From the middle, so that the lists are taken apart inside. */
        for (uint32_t i = 0; i < 64; i++)
            CHECK_EQ(tg_attached_cancel(a, item[(i * 13 + 5) % 64]), 0);
        for (uint32_t i = 0; i < 64; i++)
            CHECK_EQ(tg_attached_wait(a, item[i], LIMIT, NULL), -ECANCELED);
        CHECK_EQ(tg_attached_cancel(a, item[3]), -EALREADY);
        CHECK_EQ(serve_stats(&s).cancelled, 64 * (round + 1));
        CHECK_EQ(tg_engine_set_tenant(s.engine, 0, 1), 0);
    }
    CHECK_EQ(tg_load_relaxed_u32(&s.runs), 0);
    CHECK_EQ(tg_attached_cancel(a, 0), -EINVAL);
    CHECK_EQ(tg_attached_cancel(a, item[63] + 1), -EINVAL);
    /* What runs is not interrupted, and says so when it ends. */
    uint64_t gate = put(b, 0, OP_GATE, NULL, 0);
    while (sem_wait(&s.gate.reached) != 0)
        ;
    CHECK_EQ(tg_attached_cancel(b, gate), 0);
    uint64_t other = put_mix(b, 0, 1);
    CHECK_EQ(tg_attached_cancel(b, other), 0);
    CHECK_EQ(tg_attached_wait(b, other, LIMIT, NULL), -ECANCELED);
    CHECK_EQ(tg_attached_poll(b, gate, NULL), -EINPROGRESS);
    gate_open(&s.gate);
    CHECK_EQ(tg_attached_wait(b, gate, LIMIT, NULL), 0);
    for (uint32_t i = 0; i < 64; i++)
        put_mix(b, 1, i);
    CHECK_EQ(tg_attached_cancel(b, other), -ESTALE);
    CHECK_EQ(tg_attached_wait_slots(b, 64, LIMIT), 0);
    tg_attached_detach(a);
    tg_attached_detach(b);
    serve_end(&s);
}

/* Cancelled or run, never both and never neither, while items end by themselves. */
static void e1_cancelled_or_run_never_both(void)
{
    struct served s;
    uint32_t ran = 0, cancelled = 0;
    uint64_t state = 5;
    start(&s, 40, 20);
    struct tg_attached *a = attach_now();
    for (uint32_t i = 0; i < 3000; i++) {
        uint64_t item[2] = {put_mix(a, i % 5, i), put_mix(a, i % 5, i)};
        for (uint64_t spin = check_random(&state) % 300; spin > 0; spin--)
            tg_cpu_relax();
        int r = tg_attached_cancel(a, item[i % 2]);
        if (r != -EAGAIN) /* a server that others keep off its core has not looked at earlier wishes yet */
            CHECK(r == 0 || r == -EALREADY);
        for (int k = 0; k < 2; k++) {
            r = tg_attached_wait(a, item[k], LIMIT, NULL);
            CHECK(r == 0 || r == -ECANCELED);
            *(r == 0 ? &ran : &cancelled) += 1;
        }
    }
    fprintf(stderr, "  %u ran, %u cancelled\n", ran, cancelled);
    CHECK_EQ(ran, tg_load_relaxed_u32(&s.runs));
    CHECK_EQ(cancelled, serve_stats(&s).cancelled);
    tg_attached_detach(a);
    serve_end(&s);
}

/* A cancelled fence ends with its items and has no effect; a fence whose client leaves keeps nothing. */
static void e5_fences_that_are_not_wanted_any_more(void)
{
    struct served s;
    struct tg_io_request request;
    uint64_t fence;
    const struct tg_batch_item hold[2] = {{OP_HOLD, NULL, 0}, {TG_OP_NOP, NULL, 0}};
    start(&s, 40, 20);
    struct tg_attached *a = attach_now();
    CHECK_EQ(tg_attached_submit_batch(a, 2, hold, 2, 9, NULL, &fence), 0);
    CHECK_EQ(tg_engine_io_next(s.engine, LIMIT, &request), 0);
    CHECK_EQ(tg_attached_cancel(a, fence), 0);
    CHECK_EQ(tg_attached_wait(a, put_mix(a, 2, 1), LIMIT, NULL), 0);
    CHECK_EQ(tg_attached_poll(a, fence, NULL), -EINPROGRESS);
    CHECK_EQ(tg_engine_io_complete(s.engine, &request.item, -EIO), 0);
    CHECK_EQ(tg_attached_wait(a, fence, LIMIT, NULL), -ECANCELED);
    CHECK_EQ(test_word(s.engine, TG_CONTROL_EPOCH), 0);
    CHECK_EQ(serve_stats(&s).cancelled, 1);
    for (uint32_t i = 0; i < 5; i++)
        CHECK_EQ(tg_attached_submit_batch(a, i, hold, 2, 9, NULL, NULL), 0);
    AWAIT(serve_stats(&s).taken == 2 + 1 + 1 + 15);
    tg_attached_detach(a);
    AWAIT(serve_stats(&s).clients == 0 && serve_stats(&s).leaving == 0);
    CHECK_EQ(test_word(s.engine, TG_CONTROL_EPOCH), 0);
    serve_end(&s);
}

static void cases(void)
{
    RUN(e5_a_fence_is_last_and_in_nobodys_way);
    RUN(e10_a_sleeping_server_hears_of_a_complete_batch);
    RUN(e5_batches_larger_than_their_level);
    RUN(e1_runs_are_all_or_nothing);
    RUN(e1_items_are_taken_back);
    RUN(e1_cancelled_or_run_never_both);
    RUN(e5_fences_that_are_not_wanted_any_more);
}

int main(int argc, char **argv)
{
    child_main(argc, argv);
    serve_folder_make();
    BOTH_WAYS(cases);
    serve_folder_remove();
    return 0;
}
