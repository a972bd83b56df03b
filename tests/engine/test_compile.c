/* SPDX-License-Identifier: Apache-2.0
 * tg_engine_compile and what becomes of a kernel: in an engine (every opcode, packed slots, faults, several
 * workers, the rules around it), alone with a host that publishes while it runs, without a compiler, with
 * compilers that refuse, hang, write nonsense, or are no program; and nothing stays behind in the file
 * system. */
#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tidegate/compile.h>

#include "engine/engine_test.h"

#include "ring/slot.h"

#define OP_SQUARE 8u
#define OP_ODD 9u
#define SLOTS 20u

static char dir[] = "/tmp/tg-compile-XXXXXX";
static char why[TG_COMPILE_WHY_BYTES];
static uint64_t memory[1 << 16];

/* ---- Kernels ------------------------------------------------------------------------------------------- */

/* observable[a1] += a0 * a0 */
static struct tg_ir_node square(struct tg_ir *ir)
{
    struct tg_ir_expr a0 = tg_ir_var(ir, "a0");
    return tg_ir_atomic_add(ir, NULL, "observable", tg_ir_var(ir, "a1"), tg_ir_mul(ir, a0, a0),
                            TG_IR_RELAXED);
}

/* Returns a0, whatever that is; private word 0 counts the calls of a lane. */
static struct tg_ir_node odd(struct tg_ir *ir)
{
    struct tg_ir_expr zero = tg_ir_u32(ir, 0);
    struct tg_ir_node n[3] = {
        tg_ir_store(ir, "own", zero, tg_ir_add(ir, tg_ir_load(ir, "own", zero), tg_ir_u32(ir, 1))),
        tg_ir_store(ir, "shared", zero, tg_ir_load(ir, "own", zero)), tg_ir_return(ir, tg_ir_var(ir, "a0"))};
    return tg_ir_block(ir, NULL, n, 3);
}

static int try_compile(const struct tg_compile_options *o, uint32_t kernel_flags, struct tg_kernel **ret)
{
    struct tg_ir ir;
    tg_ir_init(&ir, memory, sizeof(memory));
    tg_ir_buffer(&ir, "own", 4);
    tg_ir_buffer(&ir, "shared", 0);
    struct tg_ir_opcode opcodes[2] = {{OP_SQUARE, square(&ir)}, {OP_ODD, odd(&ir)}};
    struct tg_ir_kernel k = {.slots = SLOTS, .flags = kernel_flags, .opcodes = opcodes, .opcode_count = 2};
    return tg_engine_compile(&ir, &k, o, ret, why, sizeof(why));
}

static struct tg_kernel *kernel_of(uint32_t flags, uint32_t kernel_flags)
{
    struct tg_kernel *k = NULL;
    struct tg_compile_options o = {.size = sizeof(o), .flags = flags};
    int r = try_compile(&o, kernel_flags, &k);
    if (r)
        fprintf(stderr, "%s\n", why);
    CHECK_EQ(r, 0);
    CHECK(tg_kernel_is_compiled(k) || why[0]);
    return k;
}

/* ---- In an engine -------------------------------------------------------------------------------------- */

static int run(struct tg_engine *e, uint32_t opcode, uint32_t a0, uint32_t a1, uint32_t a2,
               struct tg_fault *fault)
{
    struct tg_item t;
    uint32_t args[3] = {a0, a1, a2};
    *fault = (struct tg_fault){0};
    int r = run_ticket(e, 0, opcode, args, 3, &t);
    if (r == -EIO)
        CHECK_EQ(tg_engine_fault(e, &t, fault), 0);
    return r;
}

static void the_built_in_opcodes(struct tg_engine *e)
{
    struct tg_fault f;
    static uint32_t table[2 * TG_DFA_COLUMNS];
    uint32_t value;
    table[TG_DFA_COLUMNS + 5] = 42;
    CHECK_EQ(run(e, TG_OP_NOP, 0, 0, 0, &f), 0);
    CHECK_EQ(run(e, TG_OP_STORE_U32, 7, 170, 0, &f), 0);
    CHECK_EQ(run(e, TG_OP_ATOMIC_ADD, 5, 170, 0, &f), 0);
    CHECK_EQ(run(e, TG_OP_LOAD_U32, 170, 1, 0, &f), 0);
    CHECK_EQ(run(e, TG_OP_MEMCPY, 170, 180, 1, &f), 0);
    CHECK_EQ(test_word(e, 170), 12);
    CHECK_EQ(test_word(e, 161), 12);
    CHECK_EQ(test_word(e, 180), 12);
    CHECK_EQ(run(e, TG_OP_DFA_STEP, 1, 5, 2, &f), -EIO);
    CHECK_EQ(f.reason, TG_FAULT_NO_DFA);
    CHECK_EQ(tg_engine_set_dfa(e, table, 2), 0);
    CHECK_EQ(run(e, TG_OP_DFA_STEP, 1, 5, 2, &f), 0);
    CHECK_EQ(tg_engine_observable_load(e, 2, &value), 0);
    CHECK_EQ(value, 42);
    CHECK_EQ(run(e, TG_OP_DFA_STEP, 2, 5, 2, &f), -EIO);
    CHECK_EQ(f.reason, TG_FAULT_DFA);
    CHECK_EQ(run(e, TG_OP_STORE_U32, 1, 0, 0, &f), -EIO);
    CHECK_EQ(f.reason, TG_FAULT_CONTROL_DENIED);
    CHECK_EQ(run(e, TG_OP_STORE_U32, 1, 0xFFFFFFFF, 0, &f), -EIO);
    CHECK_EQ(f.reason, TG_FAULT_OUT_OF_BOUNDS);
    CHECK_EQ(test_word(e, TG_CONTROL_METRICS_BASE + TG_OP_NOP) <= 1, 1);
}

static void the_users_opcodes(struct tg_engine *e, const uint32_t *shared)
{
    struct tg_fault f;
    CHECK_EQ(run(e, OP_SQUARE, 9, 30, 0, &f), 0);
    CHECK_EQ(test_word(e, 190), 81);
    CHECK_EQ(run(e, OP_SQUARE, 9, 0x80000000, 0, &f), -EIO);
    CHECK_EQ(f.reason, TG_FAULT_OUT_OF_BOUNDS);
    CHECK_EQ(run(e, OP_ODD, 0, 0, 0, &f), 0);
    CHECK_EQ(run(e, OP_ODD, 0, 0, 0, &f), 0);
    CHECK_EQ(tg_load_acquire_u32(shared), 1); /* private words are zero at every item */
    static const uint32_t values[] = {3, 99, 100, 0x80000000, TG_IR_FAULT | TG_FAULT_DFA, 0xFFFFFFFF};
    for (uint32_t i = 0; i < 6; i++) {
        CHECK_EQ(run(e, OP_ODD, values[i], 0, 0, &f), -EIO);
        CHECK_EQ(f.reason, TG_FAULT_HANDLER);
        CHECK_EQ(f.detail, values[i]);
    }
    CHECK_EQ(run(e, 10, 0, 0, 0, &f), -EIO);
    CHECK_EQ(f.reason, TG_FAULT_UNKNOWN_OPCODE);
}

/* WAIT_IO of resource a0: the host completes it, and the body runs again, so it never ends but by a fault. */
static void a_body_that_waits(struct tg_engine *e)
{
    struct tg_item t;
    struct tg_io_request request;
    uint32_t args[1] = {TG_IR_WAIT_IO};
    CHECK_EQ(submit_soon(e, 0, TG_PRIORITY_HIGH, OP_ODD, args, 1, &t), 0);
    CHECK_EQ(tg_engine_io_next(e, LIMIT, &request), 0);
    CHECK_EQ(request.resource, TG_IR_WAIT_IO);
    CHECK_EQ(tg_engine_io_complete(e, &request.item, -ENOENT), 0);
    CHECK_EQ(tg_engine_wait(e, &t, LIMIT), -EIO);
}

static void packed_and_fenced(struct tg_engine *e)
{
    uint32_t two[2] = {2, 31}, three[2] = {3, 31}, far[2] = {1, 0xFFFF}, args[TG_ARGS_PER_SLOT];
    struct tg_packed_op ops[2] = {{OP_SQUARE, two, 2}, {OP_SQUARE, three, 2}};
    struct tg_fault f = {0};
    struct tg_item t;
    CHECK_EQ(tg_packed_encode(ops, 2, args), 0);
    CHECK_EQ(run_ticket(e, 0, TG_OP_PACKED_SLOT, args, TG_ARGS_PER_SLOT, &t), 0);
    CHECK_EQ(test_word(e, 191), 13);
    ops[1].args = far;
    CHECK_EQ(tg_packed_encode(ops, 2, args), 0);
    CHECK_EQ(run_ticket(e, 0, TG_OP_PACKED_SLOT, args, TG_ARGS_PER_SLOT, &t), -EIO);
    CHECK_EQ(tg_engine_fault(e, &t, &f), 0);
    CHECK(f.reason == TG_FAULT_OUT_OF_BOUNDS && f.inner_op == 1);
    CHECK_EQ(test_word(e, 191), 17);
    struct tg_batch_item items[3] = {{OP_SQUARE, two, 2}, {TG_OP_NOP, NULL, 0}, {OP_SQUARE, three, 2}};
    CHECK_EQ(submit_batch_soon(e, 0, TG_PRIORITY_LOW, items, 3, 77, &t), 0);
    CHECK_EQ(tg_engine_wait(e, &t, LIMIT), 0);
    CHECK_EQ(test_word(e, 191), 30);
    CHECK_EQ(test_word(e, TG_CONTROL_OBSERVABLE_BASE), 77);
}

static void in_an_engine(uint32_t flags)
{
    static uint32_t shared[4];
    struct tg_kernel *k = kernel_of(flags, 0);
    struct tg_engine *e = test_engine(200, 2);
    struct tg_ir_memory m = {{0}, {0}};
    m.words[TG_IR_FIRST_USER_BUFFER + 1] = shared; /* own is private, and takes a number too */
    m.count[TG_IR_FIRST_USER_BUFFER + 1] = 4;
    CHECK_EQ(tg_engine_use_kernel(e, k, &m), 0);
    CHECK_EQ(tg_engine_use_kernel(e, k, &m), -EBUSY);
    CHECK_EQ(tg_kernel_close(k), -EBUSY);
    the_built_in_opcodes(e);
    the_users_opcodes(e, shared);
    a_body_that_waits(e);
    packed_and_fenced(e);
    struct tg_engine_stats s;
    tg_engine_stats(e, &s);
    CHECK_EQ(s.yields <= 1, 1);
    test_close(e);
    CHECK_EQ(tg_kernel_close(k), 0);
}

static void compiled_bodies_in_an_engine(void)
{
    in_an_engine(0);
}

static void interpreted_bodies_in_an_engine(void)
{
    in_an_engine(TG_COMPILE_INTERPRET);
}

/* Four workers, all levels and tenants, 20000 items: each once (E1). */
static void many_items(uint32_t flags, uint32_t items)
{
    struct tg_kernel *k = kernel_of(flags, 0);
    struct tg_engine *e = test_engine(500, 4);
    uint32_t sum = 0;
    CHECK_EQ(tg_engine_use_kernel(e, k, NULL), 0);
    for (uint32_t i = 0; i < items; i++) {
        uint32_t args[2] = {i % 7, 40}, level = i % 5;
        int r;
        while ((r = tg_engine_submit(e, i % 29, level, OP_SQUARE, args, 2, NULL)) == -EAGAIN)
            CHECK_EQ(tg_engine_wait_space(e, level, LIMIT), 0);
        CHECK_EQ(r, 0);
        sum += args[0] * args[0];
    }
    CHECK_EQ(tg_engine_settle(e, LIMIT), 0);
    CHECK_EQ(test_word(e, 200), sum);
    CHECK_EQ(test_word(e, TG_CONTROL_METRICS_BASE + OP_SQUARE), items);
    CHECK_EQ(test_word(e, TG_CONTROL_DONE_COUNT), items);
    test_close(e);
    CHECK_EQ(tg_kernel_close(k), 0);
}

static void e1_many_items_by_compiled_bodies(void)
{
    many_items(0, 20000);
}

/* Four machines add to one word: a step of a machine is atomic. */
static void e1_many_items_by_interpreted_bodies(void)
{
    many_items(TG_COMPILE_INTERPRET, 20000);
}

static void e6_an_unrestricted_kernel_needs_an_unrestricted_engine(void)
{
    struct tg_kernel *k = kernel_of(0, TG_IR_UNRESTRICTED);
    struct tg_engine *e = test_engine(50, 1);
    struct tg_fault f;
    CHECK_EQ(tg_engine_use_kernel(e, k, NULL), -EPERM);
    test_close(e);
    struct tg_engine_options o = test_options(50, 1);
    o.flags = TG_ENGINE_UNRESTRICTED;
    e = test_open(&o);
    CHECK_EQ(tg_engine_use_kernel(e, k, NULL), 0);
    CHECK_EQ(run(e, TG_OP_STORE_U32, 4, 150, 0, &f), 0);
    CHECK_EQ(test_word(e, 150), 4);
    test_close(e);
    CHECK_EQ(tg_kernel_close(k), 0);
}

/* ---- Alone, beside a host that publishes ----------------------------------------------------------------
 */

static _Alignas(64) struct tg_slot ring[SLOTS];
static uint32_t control[TG_CONTROL_MIN_WORDS + 64];
static struct tg_kernel *lone;

static void *lane_main(void *lane)
{
    struct tg_kernel_env env = {.size = sizeof(env), .lane = *(uint32_t *)lane, .lanes = 2, .groups = 1};
    uint32_t value = 1;
    env.words[TG_IR_RING] = &ring[0].status;
    env.count[TG_IR_RING] = SLOTS * TG_SLOT_WORDS;
    env.words[TG_IR_CONTROL] = control;
    env.count[TG_IR_CONTROL] = sizeof(control) / TG_WORD_BYTES;
    CHECK_EQ(tg_kernel_lane(lone, &env, &value), 0);
    CHECK_EQ(value, 0);
    return NULL;
}

static void alone_with_two_lanes_and_a_host(void)
{
    pthread_t thread[2];
    uint32_t number[2] = {0, 1}, sum = 0;
    size_t bytes;
    lone = kernel_of(0, 0);
    memset(ring, 0, sizeof(ring));
    CHECK_EQ(tg_encode_control(false, 3, 64, control, sizeof(control), &bytes), 0);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&thread[i], NULL, lane_main, &number[i]), 0);
    uint64_t end = tg_clock_mono_ns() + LIMIT;
    for (uint32_t i = 0; i < 3000; i++) {
        struct tg_slot *s = &ring[i * 7 % SLOTS];
        uint32_t args[2] = {i % 11, 5};
        while (!tg_slot_is_publishable(s))
            CHECK(tg_clock_mono_ns() < end);
        tg_slot_write_payload(s, OP_SQUARE, i % 3, i % 5, args, 2);
        tg_slot_publish(s);
        sum += args[0] * args[0];
    }
    tg_store_seqcst_u32(&control[TG_CONTROL_SHUTDOWN], 1); /* what was published before it runs (E8) */
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    CHECK_EQ(control[165], sum);
    CHECK_EQ(control[TG_CONTROL_DONE_COUNT], 3000);
    for (uint32_t i = 0; i < SLOTS; i++)
        CHECK_EQ(ring[i].status, TG_SLOT_DONE);
    CHECK_EQ(tg_kernel_close(lone), 0);
}

static void a_wrong_env_is_refused(void)
{
    struct tg_kernel *k = kernel_of(TG_COMPILE_INTERPRET, TG_IR_UNTIL_IDLE);
    struct tg_kernel_env good = {.size = sizeof(good), .lanes = 1, .groups = 1}, env;
    uint32_t value;
    good.words[TG_IR_RING] = &ring[0].status;
    good.count[TG_IR_RING] = SLOTS * TG_SLOT_WORDS;
    good.words[TG_IR_CONTROL] = control;
    good.count[TG_IR_CONTROL] = TG_CONTROL_MIN_WORDS;
    CHECK_EQ(tg_kernel_lane(k, &good, &value), 0);
    CHECK_EQ(value, 0);
    env = good, env.size = 8;
    CHECK_EQ(tg_kernel_lane(k, &env, &value), -EINVAL);
    env = good, env.lane = 1;
    CHECK_EQ(tg_kernel_lane(k, &env, &value), -EINVAL);
    env = good, env.groups = 0;
    CHECK_EQ(tg_kernel_lane(k, &env, &value), -EINVAL);
    env = good, env.count[TG_IR_RING] = SLOTS * TG_SLOT_WORDS - 1;
    CHECK_EQ(tg_kernel_lane(k, &env, &value), -EINVAL);
    env = good, env.words[TG_IR_RING] = NULL;
    CHECK_EQ(tg_kernel_lane(k, &env, &value), -EINVAL);
    env = good, env.count[TG_IR_CONTROL] = 159;
    CHECK_EQ(tg_kernel_lane(k, &env, &value), -EINVAL);
    CHECK_EQ(tg_kernel_close(k), 0);
    CHECK_EQ(tg_kernel_close(NULL), 0);
}

/* ---- Compilers that do not do what they should ----------------------------------------------------------
 */

static void script(const char *name, const char *body, char *ret_path, size_t bytes)
{
    snprintf(ret_path, bytes, "%s/%s", dir, name);
    FILE *f = fopen(ret_path, "w");
    CHECK(f && fputs(body, f) >= 0 && fclose(f) == 0 && chmod(ret_path, 0700) == 0);
}

static int with(const char *cc, uint32_t flags, uint64_t timeout_ns)
{
    struct tg_kernel *k = NULL;
    struct tg_compile_options o = {.size = sizeof(o), .flags = flags, .cc = cc, .timeout_ns = timeout_ns};
    int r = try_compile(&o, 0, &k);
    if (r == 0 && !tg_kernel_is_compiled(k))
        r = 1;
    CHECK_EQ(tg_kernel_close(k), 0);
    return r;
}

static void bad_compilers_are_reported(void)
{
    char path[256];
    CHECK_EQ(with("/no/such/compiler -x", TG_COMPILE_NO_FALLBACK, 0), -ENOENT);
    CHECK(strstr(why, "/no/such/compiler"));
    CHECK_EQ(with("no-such-compiler-anywhere", 0, 0), 1);
    CHECK(strstr(why, "no-such-compiler-anywhere") && strstr(why, "interpreted"));
    CHECK_EQ(with(dir, TG_COMPILE_NO_FALLBACK, 0), -ENOENT); /* a folder may be "executed" */
    CHECK_EQ(with("   ", 0, 0), -EINVAL);
    CHECK_EQ(with("a b c d e f g h i j k l m n o p q", 0, 0), -EINVAL);
    script("refuses", "#!/bin/sh\necho this is not my language >&2\nexit 3\n", path, sizeof(path));
    CHECK_EQ(with(path, 0, 0), -EBADMSG);
    CHECK(strstr(why, "this is not my language") && strstr(why, "ended with 3"));
    script("nothing", "#!/bin/sh\nexit 0\n", path, sizeof(path));
    CHECK_EQ(with(path, 0, 0), -EBADMSG);
    script("nonsense", "#!/bin/sh\nwhile [ \"$1\" != -o ]; do shift; done\necho nonsense >\"$2\"\n", path,
           sizeof(path));
    CHECK_EQ(with(path, 0, 0), -EBADMSG);
    script("other",
           "#!/bin/sh\nwhile [ \"$1\" != -o ]; do shift; done\n"
           "echo 'int x;' >\"$3\"\nexec cc -shared -fPIC -o \"$2\" \"$3\"\n",
           path, sizeof(path));
    CHECK_EQ(with(path, 0, 0), -EBADMSG);
    CHECK(strstr(why, "not this kernel"));
    script("dies", "#!/bin/sh\nkill -SEGV $$\n", path, sizeof(path));
    CHECK_EQ(with(path, 0, 0), -EBADMSG);
    CHECK(strstr(why, "signal"));
}

/* A wrong TMPDIR is no missing compiler: no silent fall-back to the interpreter. */
static void a_tmpdir_that_is_not_there_is_reported(void)
{
    CHECK_EQ(setenv("TMPDIR", "/no/such/folder", 1), 0);
    CHECK_EQ(with("cc", 0, 0), -ENOTDIR);
    CHECK(strstr(why, "/no/such/folder"));
    CHECK_EQ(setenv("TMPDIR", dir, 1), 0);
}

static void a_compiler_that_hangs_is_left(void)
{
    char path[256];
    script("hangs", "#!/bin/sh\nexec sleep 1000\n", path, sizeof(path));
    uint64_t start = tg_clock_mono_ns();
    CHECK_EQ(with(path, 0, SECOND), -ETIMEDOUT);
    CHECK(tg_clock_mono_ns() - start < 60 * SECOND);
    script("spins", "#!/bin/sh\ntrap '' ALRM\nwhile :; do :; done\n", path, sizeof(path));
    CHECK_EQ(with(path, 0, SECOND), -ETIMEDOUT);
}

/* No shell reads CC: what would be a command is an argument. CC of the environment is used. */
static void cc_is_divided_and_never_a_shell_line(void)
{
    char path[256], cc[600];
    struct stat st;
    script("counts", "#!/bin/sh\nprintf '%s\\n' \"$1\" \"$2\" \"$3\" >&2\nexit 1\n", path, sizeof(path));
    snprintf(cc, sizeof(cc), "%s  $(touch${IFS}%s/owned)\t;`id`|x 'a", path, dir);
    CHECK_EQ(setenv("CC", cc, 1), 0);
    CHECK_EQ(with(NULL, 0, 0), -EBADMSG);
    CHECK(strstr(why, "$(touch${IFS}") && strstr(why, ";`id`|x") && strstr(why, "'a"));
    snprintf(path, sizeof(path), "%s/owned", dir);
    CHECK(stat(path, &st) != 0);
    CHECK_EQ(unsetenv("CC"), 0);
}

static void bad_programs_are_refused_with_their_path(void)
{
    struct tg_ir ir;
    struct tg_kernel *k = NULL;
    tg_ir_init(&ir, memory, sizeof(memory));
    struct tg_ir_opcode bad = {8, tg_ir_let(&ir, "x", tg_ir_var(&ir, "nobody"))};
    struct tg_ir_kernel kernel = {.slots = 5, .opcodes = &bad, .opcode_count = 1};
    CHECK_EQ(tg_engine_compile(&ir, &kernel, NULL, &k, why, sizeof(why)), -ENOENT);
    CHECK(strstr(why, "nobody") && strstr(why, "let x"));
    CHECK_EQ(tg_engine_compile(&ir, &kernel, NULL, &k, NULL, 0), -EEXIST); /* tg_item is declared by now */
    tg_ir_init(&ir, memory, sizeof(memory));
    bad = (struct tg_ir_opcode){8, tg_ir_store(&ir, "control", tg_ir_u32(&ir, 0), tg_ir_u32(&ir, 1))};
    CHECK_EQ(tg_engine_compile(&ir, &kernel, NULL, &k, why, sizeof(why)), -EACCES);
    tg_ir_init(&ir, memory, sizeof(memory));
    bad = (struct tg_ir_opcode){5, tg_ir_pause(&ir)};
    CHECK_EQ(tg_engine_compile(&ir, &kernel, NULL, &k, why, sizeof(why)), -EINVAL);
    tg_ir_init(&ir, memory, 4000);
    bad = (struct tg_ir_opcode){8, tg_ir_pause(&ir)};
    CHECK_EQ(tg_engine_compile(&ir, &kernel, NULL, &k, why, sizeof(why)), -ENOSPC);
    struct tg_compile_options o = {.size = 3};
    CHECK_EQ(tg_engine_compile(&ir, &kernel, &o, &k, why, sizeof(why)), -EINVAL);
    CHECK(k == NULL);
}

int main(void)
{
    CHECK(mkdtemp(dir));
    CHECK_EQ(setenv("TMPDIR", dir, 1), 0);
    RUN(compiled_bodies_in_an_engine);
    RUN(interpreted_bodies_in_an_engine);
    RUN(e1_many_items_by_compiled_bodies);
    RUN(e1_many_items_by_interpreted_bodies);
    RUN(e6_an_unrestricted_kernel_needs_an_unrestricted_engine);
    RUN(alone_with_two_lanes_and_a_host);
    RUN(a_wrong_env_is_refused);
    RUN(bad_compilers_are_reported);
    RUN(a_tmpdir_that_is_not_there_is_reported);
    RUN(a_compiler_that_hangs_is_left);
    RUN(cc_is_divided_and_never_a_shell_line);
    RUN(bad_programs_are_refused_with_their_path);
    /* Only the scripts are left. */
    DIR *d = opendir(dir);
    CHECK(d);
    for (struct dirent *entry; (entry = readdir(d));) {
        char path[600];
        CHECK(strncmp(entry->d_name, "tidegate", 8) != 0);
        snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
        if (entry->d_name[0] != '.')
            CHECK_EQ(unlink(path), 0);
    }
    closedir(d);
    CHECK_EQ(rmdir(dir), 0);
    return 0;
}
