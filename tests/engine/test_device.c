/* SPDX-License-Identifier: Apache-2.0
 * What only an engine on a device (TG_TEST_BACKEND; else skipped) has: an image, why it cannot be opened. */
#include <dlfcn.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/device.h"
#include "engine_test.h"

#define OP_DEVICE_ADD 0x101u
#define OP_DEVICE_FAIL 0x102u
#define OP_DEVICE_AGAIN 0x103u
#define OP_DEVICE_WARP 0x104u
#define OP_DEVICE_SPIN 0x100u
#define OP_DEVICE_BLOCK 0x106u
#define OP_DEVICE_UNTIL 0x107u
#define OP_DEVICE_WILD 0x108u
#define OP_DEVICE_INNER 0x20u
#define OP_DEVICE_INNER_FAIL 0x21u
#define OP_DEVICE_NONE 0x1FFu

#ifdef TG_TEST_IMAGE
extern const unsigned char tg_test_image[], tg_test_image_end[];
#endif

static int on_the_card(void)
{
    return strncmp(test_backend(), "cuda", 4) == 0;
}

static struct tg_engine_options image_options(uint32_t slots)
{
    struct tg_engine_options o = test_options(slots, 1);
#ifdef TG_TEST_IMAGE
    o.device_image = tg_test_image;
    o.device_image_bytes = (size_t)(tg_test_image_end - tg_test_image);
#endif
    return o;
}

static void register_all(struct tg_engine *e)
{
    for (uint32_t op = OP_DEVICE_ADD; op <= OP_DEVICE_AGAIN; op++)
        CHECK_EQ(tg_engine_register_device(e, op, TG_DEVICE_LANE), 0);
    CHECK_EQ(tg_engine_register_device(e, OP_DEVICE_WARP, TG_DEVICE_WARP), 0);
    CHECK_EQ(tg_engine_register_device(e, OP_DEVICE_SPIN, TG_DEVICE_LANE), 0);
    CHECK_EQ(tg_engine_register_device(e, OP_DEVICE_WILD, TG_DEVICE_LANE), 0);
    CHECK_EQ(tg_engine_register_device(e, OP_DEVICE_UNTIL, TG_DEVICE_WARP), 0);
    CHECK_EQ(tg_engine_register_device(e, OP_DEVICE_BLOCK, TG_DEVICE_BLOCK), 0);
    CHECK_EQ(tg_engine_register_device(e, OP_DEVICE_NONE, TG_DEVICE_LANE), 0);
    CHECK_EQ(tg_engine_register_device(e, 3, TG_DEVICE_LANE), -EINVAL);
    CHECK_EQ(tg_engine_register_device(e, OP_DEVICE_ADD, (enum tg_device_shape)2), -EINVAL);
}

static struct tg_engine *open_with_image(uint32_t slots)
{
    struct tg_engine_options o = image_options(slots);
    struct tg_engine *e = test_open(&o);
    register_all(e);
    return e;
}

static int run(struct tg_engine *e, uint32_t opcode, uint32_t a0, uint32_t a1, struct tg_item *t)
{
    const uint32_t args[2] = {a0, a1};
    return run_ticket(e, 2, opcode, args, 2, t);
}

static void opcodes_of_the_image_run_and_fault(void)
{
    struct tg_engine *e = open_with_image(64);
    struct tg_item t;
    struct tg_fault f;
    uint32_t v;
    for (uint32_t i = 1; i <= 200; i++) {
        CHECK_EQ(run(e, OP_DEVICE_ADD, 7, 3, &t), 0);
        CHECK_EQ(tg_engine_observable_load(e, 7, &v), 0); /* E7 */
        CHECK_EQ(v, 3 * i);
    }
    CHECK_EQ(run(e, OP_DEVICE_ADD, 256, 1, &t), -EIO);
    CHECK_EQ(run(e, OP_DEVICE_FAIL, (uint32_t)-5, 0, &t), -EIO);
    CHECK_EQ(tg_engine_fault(e, &t, &f), 0);
    CHECK(f.reason == TG_FAULT_HANDLER && (int32_t)f.detail == -5);
    CHECK_EQ(run(e, OP_DEVICE_NONE, 0, 0, &t), -EIO);
    CHECK_EQ(tg_engine_fault(e, &t, &f), 0);
    CHECK(f.reason == TG_FAULT_UNKNOWN_OPCODE && f.detail == OP_DEVICE_NONE);
    CHECK_EQ(run(e, OP_DEVICE_AGAIN, 8, 5, &t), 0);
    CHECK_EQ(tg_engine_observable_load(e, 8, &v), 0);
    CHECK_EQ(v, 5);
    CHECK_EQ(run(e, OP_DEVICE_WARP, 9, 0, &t), 0);
    CHECK_EQ(tg_engine_observable_load(e, 9, &v), 0);
    CHECK_EQ(v, 32);
    struct tg_engine_stats s;
    tg_engine_stats(e, &s);
    CHECK_EQ(s.requeues, 4);
    CHECK_EQ(s.faults, 3);
    CHECK_EQ(s.done, 202);
    test_close(e);
}

/* Many at once at every level, with a fence over them: each runs once. */
static void e5_fences_count_items_of_workers(void)
{
    struct tg_engine *e = open_with_image(1000);
    uint32_t args[2] = {11, 1}, total = 0, v;
    struct tg_batch_item items[100];
    for (int i = 0; i < 100; i++)
        items[i] = (struct tg_batch_item){i % 10 == 9 ? OP_DEVICE_WARP : OP_DEVICE_ADD, args, 2};
    for (uint32_t round = 0; round < 20; round++) {
        struct tg_item fence;
        CHECK_EQ(submit_batch_soon(e, round % 29, round % 5, items, 100, round, &fence), 0);
        total += 90 + 10 * 32;
        CHECK_EQ(tg_engine_wait(e, &fence, LIMIT), 0);
        CHECK_EQ(tg_engine_observable_load(e, 11, &v), 0);
        CHECK_EQ(v, total);
        CHECK_EQ(test_word(e, TG_CONTROL_EPOCH), round + 1);
    }
    CHECK_EQ(tg_engine_settle(e, LIMIT), 0);
    test_close(e);
}

/* Faults that end side by side, in lanes of one warp, are each counted in the word of the wire. */
static void faults_side_by_side_are_all_counted(void)
{
    struct tg_engine *e = open_with_image(200);
    const uint32_t denied[2] = {1, 3}, fails[1] = {(uint32_t)-5};
    struct tg_batch_item items[30];
    for (uint32_t i = 0; i < 30; i++)
        items[i] = i % 2 ? (struct tg_batch_item){TG_OP_STORE_U32, denied, 2}
                         : (struct tg_batch_item){OP_DEVICE_FAIL, fails, 1};
    for (uint32_t round = 1; round <= 20; round++) {
        CHECK_EQ(tg_engine_submit_many(e, 0, 2, items, 30, NULL), 0);
        CHECK_EQ(tg_engine_settle(e, LIMIT), 0);
        CHECK_EQ(test_word(e, TG_CONTROL_FAULT_COUNT), 30 * round);
    }
    test_close(e);
}

static uint32_t reason_of_packed(struct tg_engine *e, const struct tg_packed_op *ops, size_t n,
                                 uint32_t *inner)
{
    uint32_t args[TG_ARGS_PER_SLOT];
    struct tg_item t;
    struct tg_fault f;
    CHECK_EQ(tg_packed_encode(ops, n, args), 0);
    int r = run_ticket(e, 1, TG_OP_PACKED_SLOT, args, TG_ARGS_PER_SLOT, &t);
    if (r == 0)
        return 0;
    CHECK_EQ(r, -EIO);
    CHECK_EQ(tg_engine_fault(e, &t, &f), 0);
    *inner = f.inner_op;
    return f.reason;
}

static int host_handler(void *context, struct tg_op *op)
{
    (void)context;
    (void)op;
    return TG_OP_FINISHED;
}

/* Packed slots with opcodes of the image, among built-in ones: each with its own arguments; the first that
 * faults ends the item and is named; all that ran are counted. */
static void packed_slots_run_opcodes_of_the_image(void)
{
    struct tg_engine *e = open_with_image(64);
    const uint32_t first[2] = {30, 5}, second[5] = {31, 7, 1, 1, 1}, add[2] = {100, 160 + 30},
                   copy[3] = {160 + 30, 160 + 32, 1}, many[3] = {160 + 30, 160 + 40, 3}, denied[2] = {1, 3},
                   fails[1] = {(uint32_t)-5}, fence[2] = {0, 9}, requeues[1] = {TG_OP_REQUEUE};
    uint32_t inner = 0, v = 0, args[TG_ARGS_PER_SLOT];
    struct tg_opcode_stats counts[64];
    struct tg_batch_item items[40];
    struct tg_item t;
    CHECK_EQ(tg_engine_register_device(e, OP_DEVICE_INNER, TG_DEVICE_LANE), 0);
    CHECK_EQ(tg_engine_register_device(e, OP_DEVICE_INNER_FAIL, TG_DEVICE_LANE), 0);
    CHECK_EQ(tg_engine_register_device(e, 0x22, TG_DEVICE_WARP), 0);
    CHECK_EQ(tg_engine_register(e, 0x23, host_handler, NULL), 0);
    const struct tg_packed_op good[3] = {
        {OP_DEVICE_INNER, first, 2}, {TG_OP_ATOMIC_ADD, add, 2}, {TG_OP_MEMCPY, copy, 3}};
    CHECK_EQ(reason_of_packed(e, good, 3, &inner), 0);
    CHECK_EQ(test_word(e, 160 + 30), 52 + 100); /* E7 */
    CHECK_EQ(test_word(e, 160 + 32), 52 + 100);
    const struct tg_packed_op more[2] = {{OP_DEVICE_INNER, second, 5}, {TG_OP_MEMCPY, many, 3}};
    CHECK_EQ(reason_of_packed(e, more, 2, &inner), 0);
    CHECK_EQ(test_word(e, 160 + 31), 75);
    CHECK_EQ(test_word(e, 160 + 41), 75);
    /* Many at once, side by side in the lanes of workers, and a fence over them. */
    const struct tg_packed_op twice[2] = {{OP_DEVICE_INNER, first, 2}, {OP_DEVICE_INNER, first, 2}};
    CHECK_EQ(tg_packed_encode(twice, 2, args), 0);
    for (int i = 0; i < 40; i++)
        items[i] = (struct tg_batch_item){TG_OP_PACKED_SLOT, args, TG_ARGS_PER_SLOT};
    for (int i = 0; i < 10; i++) {
        int r;
        while ((r = tg_engine_submit_batch(e, 2, TG_PRIORITY_NORMAL, items, 10, 1, &t)) == -EAGAIN)
            CHECK_EQ(tg_engine_wait_space(e, TG_PRIORITY_NORMAL, LIMIT), 0);
        CHECK_EQ(r, 0);
        CHECK_EQ(tg_engine_wait(e, &t, LIMIT), 0);
    }
    CHECK_EQ(tg_engine_observable_load(e, 30, &v), 0);
    CHECK_EQ(v, 152 + 10 * 10 * 2 * 52);
    /* What ends it, and which operation that was. */
    const struct tg_packed_op bad[][2] = {
        {{OP_DEVICE_INNER, first, 2}, {OP_DEVICE_INNER_FAIL, fails, 1}},
        {{OP_DEVICE_INNER, first, 2}, {TG_OP_STORE_U32, denied, 2}},
        {{OP_DEVICE_INNER, first, 2}, {TG_OP_BATCH_FENCE, fence, 2}},
        {{OP_DEVICE_INNER, first, 2}, {OP_DEVICE_INNER_FAIL, requeues, 1}},
        {{OP_DEVICE_INNER, first, 2}, {0x50, NULL, 0}},
        {{TG_OP_NOP, NULL, 0}, {0x22, NULL, 0}},        /* one lane cannot run it */
        {{0x23, NULL, 0}, {OP_DEVICE_INNER, first, 2}}, /* the host cannot */
    };
    const uint32_t reasons[] = {TG_FAULT_HANDLER,       TG_FAULT_CONTROL_DENIED, TG_FAULT_FENCE,
                                TG_FAULT_PACKED,        TG_FAULT_UNKNOWN_OPCODE, TG_FAULT_UNKNOWN_OPCODE,
                                TG_FAULT_UNKNOWN_OPCODE};
    for (uint32_t i = 0; i < 7; i++) {
        CHECK_EQ(reason_of_packed(e, bad[i], 2, &inner), reasons[i]);
        CHECK_EQ(inner, 1);
    }
    CHECK_EQ(test_word(e, 160 + 30), 152 + 10 * 10 * 2 * 52 + 5 * 52);
    uint32_t n = tg_engine_opcode_stats(e, counts, 64);
    for (uint32_t i = 0; i < n; i++)
        if (counts[i].opcode == OP_DEVICE_INNER)
            CHECK_EQ(counts[i].executions, 2 + 10 * 10 * 2);
    test_close(e);
}

/* Items for whole warps at every level and of many tenants at once: no more of them in a round than workers.
 */
static void items_of_warps_share_the_workers(void)
{
    struct tg_engine *e = open_with_image(2000);
    struct tg_batch_item items[4];
    uint32_t args[2] = {13, 0}, v, n = 0;
    for (int i = 0; i < 4; i++)
        items[i] = (struct tg_batch_item){OP_DEVICE_WARP, args, 2};
    for (uint32_t tenant = 0; tenant < TG_TENANTS; tenant++)
        CHECK_EQ(tg_engine_set_tenant(e, tenant, 0), 0);
    for (uint32_t i = 0; i < 10 * TG_PRIORITY_LEVELS; i++, n += 4)
        CHECK_EQ(submit_many_soon(e, i % TG_TENANTS, i % TG_PRIORITY_LEVELS, items, 4, NULL), 0);
    for (uint32_t tenant = 0; tenant < TG_TENANTS; tenant++)
        CHECK_EQ(tg_engine_set_tenant(e, tenant, 1), 0);
    CHECK_EQ(tg_engine_settle(e, LIMIT), 0);
    CHECK_EQ(tg_engine_observable_load(e, 13, &v), 0);
    CHECK_EQ(v, 32 * n);
    test_close(e);
}

/* An item of a whole block: all of its lanes, which meet, and what each wrote is seen by the host. */
static void items_of_blocks_run_on_all_lanes(void)
{
    struct tg_engine *e = open_with_image(64);
    struct tg_item t;
    for (uint32_t i = 0; i < 20; i++) {
        CHECK_EQ(run(e, OP_DEVICE_BLOCK, 20 + 2 * i, 0, &t), 0);
        CHECK_EQ(test_word(e, 160 + 20 + 2 * i), 2 * TG_BLOCK_LANES);
        CHECK_EQ(test_word(e, 160 + 21 + 2 * i), 0);
    }
    CHECK_EQ(tg_engine_settle(e, LIMIT), 0);
    test_close(e);
}

/* E3: neither small items, more of them than workers, keep an item of a block from starting, nor the other
 * way round, at whatever levels; and a block that is kept for an item that goes away serves the others again.
 */
#define ITEMS 15u
static void e3_blocks_and_small_items_share_the_workers(void)
{
    struct tg_engine *e = open_with_image(2000);
    const uint32_t stop = 5, counter = 14, block_args[1] = {16}, stop_args[1] = {stop},
                   count_args[2] = {counter, 1};
    struct tg_item blocks[ITEMS], small[ITEMS], gone;
    for (uint32_t level = 0; level < TG_PRIORITY_LEVELS; level++)
        for (uint32_t i = 0; i < 20; i++)
            CHECK_EQ(submit_soon(e, 0, level, OP_DEVICE_UNTIL, stop_args, 1, NULL), 0);
    for (uint32_t i = 0; i < ITEMS; i++) {
        CHECK_EQ(submit_soon(e, 0, i % 5, OP_DEVICE_BLOCK, block_args, 1, &blocks[i]), 0);
        CHECK_EQ(submit_soon(e, 4, 4 - i % 5, OP_DEVICE_ADD, count_args, 2, &small[i]), 0);
    }
    for (uint32_t i = 0; i < ITEMS; i++) {
        CHECK_EQ(tg_engine_wait(e, &blocks[i], LIMIT), 0);
        CHECK_EQ(tg_engine_wait(e, &small[i], LIMIT), 0);
    }
    CHECK_EQ(test_word(e, 160 + 16), ITEMS * 2 * TG_BLOCK_LANES);
    CHECK_EQ(test_word(e, 160 + counter), ITEMS);
    /* Kept, and given up: the tenant is switched off, the item is cancelled. */
    for (uint32_t i = 0; i < 10; i++) {
        CHECK_EQ(submit_soon(e, 7, i % 5, OP_DEVICE_BLOCK, block_args, 1, &gone), 0);
        CHECK_EQ(tg_engine_set_tenant(e, 7, 0), 0);
        int r = tg_engine_cancel(e, &gone);
        CHECK(r == 0 || r == -EBUSY || r == -EALREADY);
        CHECK_EQ(run(e, OP_DEVICE_ADD, counter, 1, &gone), 0);
        CHECK_EQ(tg_engine_set_tenant(e, 7, 1), 0);
    }
    CHECK_EQ(test_word(e, 160 + counter), ITEMS + 10);
    CHECK_EQ(tg_engine_observable_store(e, stop, 1), 0);
    CHECK_EQ(tg_engine_settle(e, LIMIT), 0);
    /* A flood of blocks with small items below it. */
    uint32_t before = test_word(e, 160 + 16);
    for (uint32_t i = 0; i < 60; i++)
        CHECK_EQ(submit_soon(e, 0, 0, OP_DEVICE_BLOCK, block_args, 1, NULL), 0);
    for (uint32_t i = 0; i < ITEMS; i++)
        CHECK_EQ(submit_soon(e, 1, 3 + i % 2, OP_DEVICE_ADD, count_args, 2, &small[i]), 0);
    for (uint32_t i = 0; i < ITEMS; i++)
        CHECK_EQ(tg_engine_wait(e, &small[i], LIMIT), 0);
    CHECK_EQ(tg_engine_settle(e, LIMIT), 0);
    CHECK_EQ(test_word(e, 160 + 16), before + 60 * 2 * TG_BLOCK_LANES);
    test_close(e);
}

/* A body that does not return in time ends the engine: it is a FAULT with its reason, what waited is handed
 * back, and the report names what ran. One that is REQUEUEd again and again does return. */
static void a_body_past_its_limit_ends_the_engine(void)
{
    struct tg_engine_options o = image_options(64);
    o.device_body_limit_ms = 3;
    struct tg_engine *e = NULL;
    CHECK_EQ(tg_engine_open(&o, &e), -EINVAL);
    o.device_body_limit_ms = 1500;
    e = test_open(&o);
    register_all(e);
    const uint32_t until[1] = {5}, stop[2] = {5, 1};
    struct tg_item again, stuck, waits, found[4];
    struct tg_fault f;
    struct tg_device_report report;
    CHECK_EQ(submit_soon(e, 0, 2, OP_DEVICE_UNTIL, until, 1, &again), 0);
    CHECK_EQ(tg_engine_wait(e, &again, 2 * SECOND), -ETIMEDOUT);
    CHECK_EQ(run(e, OP_DEVICE_ADD, stop[0], stop[1], &stuck), 0);
    CHECK_EQ(tg_engine_wait(e, &again, LIMIT), 0);
    CHECK_EQ(tg_engine_device_report(e, &report, NULL, 0), 0);
    CHECK(report.state == TG_DEVICE_RUNS && report.in_flight == 0);
    CHECK_EQ(tg_engine_set_tenant(e, 3, 0), 0);
    CHECK_EQ(submit_soon(e, 3, 2, TG_OP_NOP, NULL, 0, &waits), 0);
    int r = 0; /* a busy machine may let a short one end before it was looked at often enough */
    for (uint32_t seconds = 6; r == 0 && seconds < 100; seconds *= 2) {
        CHECK_EQ(submit_soon(e, 0, 2, OP_DEVICE_SPIN, (uint32_t[]){0, seconds}, 2, &stuck), 0);
        r = tg_engine_wait(e, &stuck, LIMIT);
    }
    CHECK_EQ(r, -EIO);
    CHECK_EQ(tg_engine_fault(e, &stuck, &f), 0);
    CHECK_EQ(f.reason, TG_FAULT_TIMEOUT);
    CHECK(strstr(tg_fault_text(f.reason), "limit"));
    CHECK_EQ(tg_engine_wait(e, &waits, LIMIT), -ECANCELED);
    r = 0;
    for (uint64_t end = tg_clock_mono_ns() + LIMIT; r != -ESHUTDOWN && tg_clock_mono_ns() < end;)
        r = tg_engine_submit(e, 0, 2, TG_OP_NOP, NULL, 0, NULL);
    CHECK_EQ(r, -ESHUTDOWN);
    CHECK_EQ(tg_engine_device_report(e, &report, found, 4), 0);
    CHECK_EQ(report.state, TG_DEVICE_OVERRAN);
    CHECK_EQ(report.in_flight, 1);
    CHECK(found[0].slot == stuck.slot && found[0].generation == stuck.generation);
    struct tg_drain_report drained;
    CHECK_EQ(tg_engine_close(e, LIMIT, &drained), 0);
    CHECK(drained.faults == 1 && drained.handed_back >= 1);
}

static void what_a_device_has_not_is_refused(void)
{
    struct tg_engine_options o = test_options(64, 1);
    struct tg_engine *e;
    o.flags = TG_ENGINE_SCAN;
    CHECK_EQ(tg_engine_open(&o, &e), -ENOTSUP);
    CHECK(strlen(tg_engine_open_reason()) > 0);
}

static void what_cannot_be_opened_says_why(void)
{
    struct tg_engine_options o = test_options(64, 1);
    struct tg_engine *e;
    o.backend = "cuda:x";
    int r = tg_engine_open(&o, &e);
    CHECK(r == -EINVAL || r == -ENODEV || r == -ENOTSUP);
    CHECK(strlen(tg_engine_open_reason()) > 0);
    o.backend = "abacus";
    CHECK_EQ(tg_engine_open(&o, &e), -ENOTSUP);
}

/* No level's latencies are lost to the items of another, of however many in a row. */
static void each_level_has_its_latencies(void)
{
    struct tg_engine *e = open_with_image(1000);
    static struct tg_batch_item items[100];
    struct tg_engine_stats s;
    for (uint32_t i = 0; i < 100; i++)
        items[i].opcode = TG_OP_NOP;
    for (uint32_t i = 0; i < 102; i++) {
        uint32_t level = i < 2 ? 3 + i : 0; /* few at LOW and IDLE, then 10,000 at CRITICAL */
        while (tg_engine_submit_many(e, level, level, items, 100, NULL) == -EAGAIN)
            CHECK_EQ(tg_engine_wait_space(e, level, LIMIT), 0);
    }
    CHECK_EQ(tg_engine_settle(e, LIMIT), 0);
    tg_engine_stats(e, &s);
    CHECK(s.level[3].latency.count == 100 && s.level[4].latency.count == 100);
    CHECK(s.level[0].latency.count >= 4096 && s.level[0].latency.count <= 10000);
    CHECK(s.level[3].latency.p50_ns > 0);
    test_close(e);
}

/* What does not come back is a failure, and not a test that hangs: a resident kernel can stop any call of the
 * driver. */
#define CALL_SECONDS 60u
static const char *calling;

static void did_not_come_back(int signal_number)
{
    static const char says[] = "FAILED: it did not come back: ";
    (void)signal_number;
    (void)!write(2, says, sizeof(says) - 1);
    (void)!write(2, calling, strlen(calling));
    (void)!write(2, "\n", 1);
    _exit(1);
}

static void begin(const char *what)
{
    calling = what;
    signal(SIGALRM, did_not_come_back);
    alarm(CALL_SECONDS);
}

static void end(void)
{
    alarm(0);
}

/* Starts this program again as a process of its own; returns its exit code. */
static int in_a_child(char *word)
{
    char name[] = "test_engine_device", *argv[] = {name, word, NULL};
    pid_t child;
    int status = 0;
    CHECK_EQ(posix_spawn(&child, "/proc/self/exe", NULL, NULL, argv, environ), 0);
    CHECK_EQ(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int works(struct tg_engine *e)
{
    struct tg_item t;
    return run(e, OP_DEVICE_ADD, 7, 1, &t) == 0 && test_word(e, 167) != 0;
}

/* Two engines on one GPU: of one process the second is refused at once, of two processes both work. Emulated
 * ones are as many as wanted. */
static void a_device_has_one_engine_of_a_process(void)
{
    struct tg_engine_options o = image_options(64);
    o.device_blocks = 2;
    struct tg_engine *e = test_open(&o), *second = NULL;
    register_all(e);
    begin("the second open of a process");
    int r = tg_engine_open(&o, &second);
    end();
    CHECK_EQ(r, on_the_card() && !o.device_process ? -EBUSY : 0);
    if (r) {
        char word[] = "child";
        uint64_t start = tg_clock_mono_ns();
        CHECK(strstr(tg_engine_open_reason(), "process"));
        CHECK_EQ(in_a_child(word), 0);
        fprintf(stderr, "  in another process: %" PRIu64 " ms\n", (tg_clock_mono_ns() - start) / 1000000);
    } else {
        register_all(second);
        CHECK(works(second));
    }
    CHECK(works(e));
    CHECK_EQ(tg_engine_close(second, LIMIT, NULL), 0);
    CHECK(works(e));
    test_close(e);
    e = test_open(&o);
    register_all(e);
    CHECK(works(e));
    test_close(e);
}

/* ---- On the card: faults --------------------------------------------------------------------------------
 */

/* Opens an engine with these options, and lets a body of it store to nobody's memory. */
static void fault(struct tg_engine_options o)
{
    struct tg_engine *e = test_open(&o);
    const uint32_t spin[2] = {0, 2};
    struct tg_item wild, beside, waits, found[4];
    struct tg_device_report report;
    struct tg_fault f;
    register_all(e);
    CHECK(works(e));
    CHECK_EQ(tg_engine_set_tenant(e, 3, 0), 0);
    CHECK_EQ(submit_soon(e, 3, 2, TG_OP_NOP, NULL, 0, &waits), 0);
    CHECK_EQ(submit_soon(e, 0, 2, OP_DEVICE_SPIN, spin, 2, &beside), 0);
    CHECK_EQ(tg_engine_wait(e, &beside, SECOND / 10), -ETIMEDOUT);
    CHECK_EQ(submit_soon(e, 0, 2, OP_DEVICE_WILD, NULL, 0, &wild), 0);
    CHECK_EQ(tg_engine_wait(e, &wild, LIMIT), -EIO);
    CHECK_EQ(tg_engine_fault(e, &wild, &f), 0);
    CHECK_EQ(f.reason, TG_FAULT_DEVICE);
    CHECK_EQ(tg_engine_wait(e, &beside, LIMIT), -EIO);
    CHECK_EQ(tg_engine_wait(e, &waits, LIMIT), -ECANCELED);
    CHECK_EQ(tg_engine_submit(e, 0, 2, TG_OP_NOP, NULL, 0, NULL), -ESHUTDOWN);
    CHECK_EQ(tg_engine_device_report(e, &report, found, 4), 0);
    fprintf(stderr, "  %d %s, %u in flight\n", report.error, report.text, report.in_flight);
    CHECK_EQ(report.state, TG_DEVICE_FAULTED);
    CHECK(report.error > 0 && report.text[0] && report.in_flight == 2);
    test_close(e);
}

/* CUDA keeps the fault, and that is said. */
static void is_not_opened_again(const struct tg_engine_options *o)
{
    struct tg_engine *e = NULL;
    CHECK_EQ(tg_engine_open(o, &e), -ENOTRECOVERABLE);
    CHECK(strstr(tg_engine_open_reason(), "another process"));
}

typedef int (*context_create)(void **, unsigned, int);
typedef int (*context_call)(void *);

/* An engine in a context of the caller's own works; a fault of it is reported, and nothing of this process
 * works then. */
static int own_context(void)
{
    struct tg_engine_options o = image_options(64);
    void *driver = NULL, *create, *ignored;
    context_create new_context;
    context_call pop;
    o.device_blocks = 2;
    test_close(test_open(&o)); /* starts the driver */
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    CHECK(driver);
    create = dlsym(driver, "cuCtxCreate_v2");
    ignored = dlsym(driver, "cuCtxPopCurrent_v2");
    memcpy(&new_context, &create, sizeof(create));
    memcpy(&pop, &ignored, sizeof(ignored));
    CHECK_EQ(new_context(&o.device_context, 0, 0), 0);
    pop(&ignored);
    fault(o);
    is_not_opened_again(&o);
    return 0;
}

static int primary_fault(void)
{
    struct tg_engine_options o = image_options(64);
    o.device_blocks = 2;
    fault(o);
    is_not_opened_again(&o);
    return 0;
}

static int child(void)
{
    struct tg_engine_options o = image_options(64);
    o.device_blocks = 2;
    begin("an engine beside that of another process");
    struct tg_engine *e = test_open(&o);
    register_all(e);
    CHECK(works(e));
    test_close(e);
    end();
    return 0;
}

/* Each fault in a process of its own, which it ends for CUDA; the next one works. */
static void a_fault_is_reported_and_another_process_works(void)
{
    char own[] = "own-context", primary[] = "fault", plain[] = "child";
    CHECK_EQ(in_a_child(primary), 0);
    CHECK_EQ(in_a_child(plain), 0);
    CHECK_EQ(in_a_child(own), 0);
    CHECK_EQ(in_a_child(plain), 0);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "child") == 0)
        return child();
    if (argc > 1 && strcmp(argv[1], "own-context") == 0)
        return own_context();
    if (argc > 1 && strcmp(argv[1], "fault") == 0)
        return primary_fault();
    RUN(what_cannot_be_opened_says_why);
    if (!test_backend()) {
        fprintf(stderr, "SKIPPED: TG_TEST_BACKEND names no device\n");
        return 77;
    }
    RUN(what_a_device_has_not_is_refused);
    RUN(opcodes_of_the_image_run_and_fault);
    RUN(e5_fences_count_items_of_workers);
    RUN(faults_side_by_side_are_all_counted);
    RUN(packed_slots_run_opcodes_of_the_image);
    RUN(items_of_warps_share_the_workers);
    RUN(items_of_blocks_run_on_all_lanes);
    RUN(e3_blocks_and_small_items_share_the_workers);
    RUN(each_level_has_its_latencies);
    RUN(a_device_has_one_engine_of_a_process);
    RUN(a_body_past_its_limit_ends_the_engine);
    if (on_the_card() && !image_options(64).device_process) /* else: test_device_process.c */
        RUN(a_fault_is_reported_and_another_process_works);
    return 0;
}
