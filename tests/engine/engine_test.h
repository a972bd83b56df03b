/* SPDX-License-Identifier: Apache-2.0
 * What the engine's tests share: opening with few words, a handler that holds its worker at a gate, and one
 * that writes down what ran in which order. */
#ifndef TG_TESTS_ENGINE_TEST_H
#define TG_TESTS_ENGINE_TEST_H

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <unistd.h>

#include <tidegate/engine.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "check.h"

#define SECOND UINT64_C(1000000000)
#define LIMIT (120 * SECOND) /* for what must come, on a machine that others keep busy too */
#define OP_GATE 8u
#define OP_NOTE 9u
#define OP_COUNT 10u

/* Every test runs in the index way and in the scan way. */
static uint32_t test_flags;

/* TG_TEST_BACKEND runs the tests on another backend ("cuda", "emulated"), where there is no scan way. */
static inline const char *test_backend(void)
{
    const char *name = getenv("TG_TEST_BACKEND");
    return name && name[0] ? name : NULL;
}

/* TG_TEST_OWN_PROCESS: the device is owned by a child, which is this program again. */
__attribute__((constructor)) static void test_device_main(int argc, char **argv)
{
    int code = tg_engine_device_main(argc, argv);
    if (code >= 0)
        _exit(code);
}

/* All warps of the emulator share one thread: what makes rings wrap elsewhere takes minutes there. */
static inline bool test_emulated(void)
{
    const char *name = test_backend();
    return name && strcmp(name, "emulated") == 0;
}

static inline struct tg_engine_options test_options(uint32_t slots, uint32_t workers)
{
    struct tg_engine_options o;
    tg_engine_options_init(&o);
    o.slots = slots;
    o.workers = workers;
    o.flags = test_flags;
    o.latency_every = 1;
    o.backend = test_backend();
    o.device_process = o.backend && getenv("TG_TEST_OWN_PROCESS") ? "/proc/self/exe" : NULL;
    /* No fault of ours may keep the card. The emulator is slow, and keeps nothing. */
    o.device_limit_ms = o.backend && strcmp(o.backend, "cuda") != 0 ? 240000 : 60000;
    return o;
}

static inline struct tg_engine *test_open(const struct tg_engine_options *o)
{
    struct tg_engine *e = NULL;
    int r = tg_engine_open(o, &e);
    if (o->backend && (r == -ENODEV || r == -ENOTSUP)) {
        fprintf(stderr, "SKIPPED: backend %s: %s\n", o->backend, tg_engine_open_reason());
        exit(77);
    }
    if (r)
        fprintf(stderr, "open: %s\n", tg_engine_open_reason());
    CHECK_EQ(r, 0);
    return e;
}

static inline struct tg_engine *test_engine(uint32_t slots, uint32_t workers)
{
    struct tg_engine_options o = test_options(slots, workers);
    return test_open(&o);
}

static inline void test_close(struct tg_engine *e)
{
    CHECK_EQ(tg_engine_close(e, LIMIT, NULL), 0);
}

static inline const uint32_t *test_control(struct tg_engine *e)
{
    const void *control;
    tg_engine_buffers(e, NULL, NULL, &control, NULL, NULL, NULL);
    return control;
}

static inline uint32_t test_word(struct tg_engine *e, uint32_t word)
{
    return tg_load_acquire_u32(&test_control(e)[word]);
}

static inline uint32_t test_status(struct tg_engine *e, uint32_t slot)
{
    const void *ring;
    tg_engine_buffers(e, &ring, NULL, NULL, NULL, NULL, NULL);
    return tg_load_acquire_u32((const uint32_t *)ring + (size_t)slot * TG_SLOT_WORDS);
}

/* A slot is free again a moment after its item is DONE, which is long where whoever frees it was put off its
 * core just then: whether it pays to try again after -EAGAIN. */
static inline bool room_soon(struct tg_engine *e, uint32_t level, uint64_t *end)
{
    uint64_t now = tg_clock_mono_ns();
    if (*end == 0)
        *end = now + LIMIT;
    CHECK_EQ(tg_engine_wait_space(e, level, LIMIT), 0);
    sched_yield();
    return now < *end;
}

static inline int submit_soon(struct tg_engine *e, uint32_t tenant, uint32_t level, uint32_t opcode,
                              const uint32_t *args, uint32_t n, struct tg_item *t)
{
    uint64_t end = 0;
    int r;
    while ((r = tg_engine_submit(e, tenant, level, opcode, args, n, t)) == -EAGAIN &&
           room_soon(e, level, &end))
        ;
    return r;
}

static inline int submit_many_soon(struct tg_engine *e, uint32_t tenant, uint32_t level,
                                   const struct tg_batch_item *items, uint32_t n, struct tg_item *t)
{
    uint64_t end = 0;
    int r;
    while ((r = tg_engine_submit_many(e, tenant, level, items, n, t)) == -EAGAIN && room_soon(e, level, &end))
        ;
    return r;
}

static inline int submit_batch_soon(struct tg_engine *e, uint32_t tenant, uint32_t level,
                                    const struct tg_batch_item *items, uint32_t n, uint32_t tag,
                                    struct tg_item *fence)
{
    uint64_t end = 0;
    int r;
    while ((r = tg_engine_submit_batch(e, tenant, level, items, n, tag, fence)) == -EAGAIN &&
           room_soon(e, level, &end))
        ;
    return r;
}

/* A gate holds the worker that meets it until it is opened. */
struct gate {
    sem_t reached, open;
};

static inline int gate_handler(void *context, struct tg_op *op)
{
    struct gate *g = context;
    (void)op;
    sem_post(&g->reached);
    while (sem_wait(&g->open) != 0)
        ;
    return TG_OP_FINISHED;
}

/* Publishes a gate and waits until a worker stands at it. */
static inline void gate_close(struct gate *g, struct tg_engine *e, uint32_t level)
{
    sem_init(&g->reached, 0, 0);
    sem_init(&g->open, 0, 0);
    CHECK_EQ(tg_engine_register(e, OP_GATE, gate_handler, g), 0);
    CHECK_EQ(submit_soon(e, 0, level, OP_GATE, NULL, 0, NULL), 0);
    while (sem_wait(&g->reached) != 0)
        ;
}

static inline void gate_open(struct gate *g)
{
    sem_post(&g->open);
}

/* What ran, in order: each note is level << 24 | tenant << 16 | arg0. */
struct notes {
    uint32_t count, capacity;
    uint32_t *note;
};

static inline int note_handler(void *context, struct tg_op *op)
{
    struct notes *n = context;
    uint32_t i = tg_add_relaxed_u32(&n->count, 1);
    if (i < n->capacity)
        tg_store_relaxed_u32(&n->note[i], op->priority << 24 | op->tenant << 16 | (op->args[0] & 0xFFFFu));
    return TG_OP_FINISHED;
}

static inline void notes_start(struct notes *n, struct tg_engine *e, uint32_t capacity)
{
    *n = (struct notes){0, capacity, calloc(capacity, sizeof(uint32_t))};
    CHECK(n->note);
    CHECK_EQ(tg_engine_register(e, OP_NOTE, note_handler, n), 0);
}

static inline void note_submit(struct tg_engine *e, uint32_t tenant, uint32_t level, uint32_t value)
{
    CHECK_EQ(submit_soon(e, tenant, level, OP_NOTE, &value, 1, NULL), 0);
}

static inline int run_ticket(struct tg_engine *e, uint32_t tenant, uint32_t opcode, const uint32_t *args,
                             uint32_t n, struct tg_item *t)
{
    CHECK_EQ(submit_soon(e, tenant, TG_PRIORITY_NORMAL, opcode, args, n, t), 0);
    return tg_engine_wait(e, t, LIMIT);
}

/* Runs a file's cases both ways of finding work. */
#define BOTH_WAYS(cases)                                                                                     \
    do {                                                                                                     \
        test_flags = 0;                                                                                      \
        cases();                                                                                             \
        if (test_backend())                                                                                  \
            break;                                                                                           \
        fprintf(stderr, "the same, scanning:\n");                                                            \
        test_flags = TG_ENGINE_SCAN;                                                                         \
        cases();                                                                                             \
    } while (0)

#endif
