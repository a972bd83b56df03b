/* SPDX-License-Identifier: Apache-2.0
 * What the tests of the served engine share: an engine that is served in a folder of its own, clients that
 * are real processes, and a user opcode with a known result. */
#ifndef TG_TESTS_SERVE_TEST_H
#define TG_TESTS_SERVE_TEST_H

#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tidegate/attach.h>
#include <tidegate/serve.h>

#include "engine_test.h"

#define OP_MIX 11u

static char serve_folder[] = "/tmp/tg-serve-XXXXXX";
static char serve_path[64];

static inline void serve_path_make(void)
{
    snprintf(serve_path, sizeof(serve_path), "%s/engine", serve_folder);
}

static inline void serve_folder_make(void)
{
    CHECK(mkdtemp(serve_folder));
    CHECK(chmod(serve_folder, 0755) == 0);
    serve_path_make();
}

static inline void serve_folder_remove(void)
{
    CHECK_EQ(rmdir(serve_folder), 0); /* and so the socket is gone */
}

static inline uint32_t mixed(uint32_t x)
{
    x ^= x >> 16;
    x *= 0x7FEB352Du;
    return x ^ x >> 15;
}

/* result[0] = mixed(arg 0), result[1] = tenant, result[2] = priority, result[3] = arg 11. */
static inline int mix_handler(void *context, struct tg_op *op)
{
    uint32_t *runs = context;
    if (runs)
        tg_add_relaxed_u32(runs, 1);
    op->result[0] = mixed(op->args[0]);
    op->result[1] = op->tenant;
    op->result[2] = op->priority;
    op->result[3] = op->args[11];
    return op->args[1] == 0xDEAD ? -EDOM : TG_OP_FINISHED;
}

struct served {
    struct tg_engine *engine;
    struct tg_server *server;
    struct gate gate;
    uint32_t runs;
};

static inline void serve_options(struct tg_serve_options *o)
{
    tg_serve_options_init(o);
    o->clients_per_uid = 32;
    o->slots = 64;
}

static inline void serve_start(struct served *s, struct tg_engine *e, const struct tg_serve_options *o)
{
    struct tg_serve_options own;
    serve_options(&own);
    *s = (struct served){.engine = e};
    CHECK_EQ(tg_engine_register(e, OP_MIX, mix_handler, &s->runs), 0);
    sem_init(&s->gate.reached, 0, 0);
    sem_init(&s->gate.open, 0, 0);
    CHECK_EQ(tg_engine_register(e, OP_GATE, gate_handler, &s->gate), 0);
    CHECK_EQ(tg_engine_serve(e, serve_path, o ? o : &own, &s->server), 0);
}

static inline void serve_end(struct served *s)
{
    CHECK_EQ(tg_server_stop(s->server, LIMIT), 0);
    CHECK_EQ(tg_engine_settle(s->engine, LIMIT), 0); /* every slot is free again */
    test_close(s->engine);
}

static inline struct tg_serve_stats serve_stats(struct served *s)
{
    struct tg_serve_stats stats;
    tg_server_stats(s->server, &stats);
    return stats;
}

/* Slots of a level in use. */
static inline uint32_t outstanding(struct served *s, uint32_t level)
{
    struct tg_engine_stats stats;
    tg_engine_stats(s->engine, &stats);
    return stats.level[level].outstanding;
}

static inline void pause_ms(unsigned ms)
{
    struct timespec ts = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
    nanosleep(&ts, NULL);
}

/* Waits until the condition over the server's statistics holds. */
#define AWAIT(condition)                                                                                     \
    do {                                                                                                     \
        uint64_t await_end = tg_clock_mono_ns() + LIMIT;                                                     \
        while (!(condition)) {                                                                               \
            CHECK(tg_clock_mono_ns() < await_end);                                                           \
            pause_ms(1);                                                                                     \
        }                                                                                                    \
    } while (0)

static inline struct tg_attached *attach_now(void)
{
    struct tg_attach_options o;
    struct tg_attached *a = NULL;
    tg_attach_options_init(&o);
    o.timeout_ns = LIMIT;
    CHECK_EQ(tg_engine_attach(serve_path, &o, &a), 0);
    return a;
}

static inline uint64_t put(struct tg_attached *a, uint32_t level, uint32_t opcode, const uint32_t *args,
                           uint32_t n)
{
    uint64_t item;
    int r;
    while ((r = tg_attached_submit(a, level, opcode, args, n, &item)) == -EAGAIN)
        CHECK_EQ(tg_attached_wait_space(a, LIMIT), 0);
    CHECK_EQ(r, 0);
    return item;
}

static inline uint64_t put_mix(struct tg_attached *a, uint32_t level, uint32_t value)
{
    return put(a, level, OP_MIX, &value, 1);
}

/* A process that runs the function and exits 0 if it returns. It is this program started anew: fork() alone
 * would copy a process whose other threads may hold locks (of the allocator, of a sanitizer) that nobody in
 * the copy ever gives back. The function is named by its distance from child_main, because the new process
 * lies elsewhere; the argument is a number. */
extern char **environ;

static inline void child_main(int argc, char **argv);

static inline pid_t child_start(void (*fn)(uintptr_t), uintptr_t arg)
{
    char name[] = "child", words[4][32];
    snprintf(words[0], sizeof(words[0]), "%jd", (intmax_t)((intptr_t)fn - (intptr_t)child_main));
    snprintf(words[1], sizeof(words[1]), "%ju", (uintmax_t)arg);
    snprintf(words[2], sizeof(words[2]), "%ld", (long)getpid());
    snprintf(words[3], sizeof(words[3]), "%u", test_flags);
    char *argv[] = {name, words[0], words[1], words[2], words[3], serve_folder, NULL};
    pid_t pid;
    CHECK_EQ(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ), 0);
    return pid;
}

/* First in main: runs the function and does not return, if this process is a child. */
static inline void child_main(int argc, char **argv)
{
    if (argc != 6 || strcmp(argv[0], "child") != 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test leaves nothing running */
    if (getppid() != (pid_t)strtol(argv[3], NULL, 10))
        exit(1);
    test_flags = (uint32_t)strtoul(argv[4], NULL, 10);
    memcpy(serve_folder, argv[5], sizeof(serve_folder));
    serve_path_make();
    void (*fn)(uintptr_t) =
        (void (*)(uintptr_t))((intptr_t)child_main + (intptr_t)strtoimax(argv[1], NULL, 10));
    fn((uintptr_t)strtoumax(argv[2], NULL, 10));
    exit(0);
}

static inline int child_wait(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) != pid)
        CHECK_EQ(errno, EINTR);
    return status;
}

static inline void child_passed(pid_t pid)
{
    CHECK_EQ(child_wait(pid), 0);
}

#endif
