/* SPDX-License-Identifier: Apache-2.0
 * Three executions of the worker agree: the engine's own (scan.c, run.c, finish.c; TG_ENGINE_SCAN, one
 * worker, a foreign ring), the kernel of nodes interpreted, and the same kernel lowered to C and compiled.
 * Each gets the same random buffers (ir_rings.h), and leaves the same ring, log and control words: results,
 * metrics, claims, quotas, faults and their reasons, EPOCH. On every fourth ring all items tell when they
 * ran, and the order is the one that E2 and E3 demand.
 *
 * The engine's worker is called by the test, after its own threads ended, so that thousands of rings fit into
 * seconds; the last part is the same with an engine that runs by itself.
 * TG_IR_RINGS sets how many; 10,000 unless said (1,000 under a sanitizer). */
#include <stdlib.h>

#include "engine/engine_test.h"

#include "engine/internal.h"
#include "engine/ir_rings.h"
#include "engine/kernel.h"

#define ARENA (2u << 20)

static const struct shape shapes[] = {{24, 0, false}, {11, 0, true}, {5, 0, false}, {16, 0, true}};
/* With a stride a lane looks at the slots of a level in another order than the engine's worker. */
static const struct shape strided = {13, 3, true};
#define SHAPES (sizeof(shapes) / sizeof(shapes[0]))
static uint32_t dfa[DFA_STATES * TG_DFA_COLUMNS];

/* One shape, ready to run. */
struct bench {
    struct shape shape;
    struct buffers start, built_in, compiled, interpreted;
    struct tg_engine *engine;
    struct tg_kernel *kernel, *slow;
    struct tg_ir_machine *machine;
    struct tg_kernel_env env;
};

/* ---- The engine's own worker --------------------------------------------------------------------------- */

static struct tg_engine_options options(struct bench *b)
{
    struct tg_engine_options o = test_options(0, 1);
    o.flags = TG_ENGINE_SCAN | (b->shape.unrestricted ? TG_ENGINE_UNRESTRICTED : 0u);
    o.latency_every = 0;
    o.poll_us = 100;
    o.ring = b->built_in.ring;
    o.ring_bytes = b->shape.slots * TG_SLOT_BYTES;
    o.control = b->built_in.control;
    o.control_bytes = sizeof(b->built_in.control);
    o.log = b->built_in.log;
    o.log_bytes = sizeof(b->built_in.log);
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
        o.foreign_slots[l] = TG_ENGINE_ALL_SLOTS;
    return o;
}

static void add_handlers(struct bench *b)
{
    CHECK_EQ(tg_engine_register(b->engine, OP_TICKET, ticket_handler, b->built_in.control), 0);
    CHECK_EQ(tg_engine_register(b->engine, OP_TIMES, times_handler, b->built_in.control), 0);
    CHECK_EQ(tg_engine_set_dfa(b->engine, dfa, DFA_STATES), 0);
}

static void forget(struct bench *b)
{
    struct tg_engine *e = b->engine;
    struct tg_worker *w = &e->workers[0];
    memset(w->turn, 0, sizeof(w->turn));
    memset(w->scan_from, 0, sizeof(w->scan_from));
    memset(&w->counts, 0, sizeof(w->counts));
    memset(&w->posted, 0, sizeof(w->posted));
    w->blocked = w->unposted = w->urgent_run = w->urgent_posted_run = 0;
    e->levels = e->urgent_sum = 0;
    memset(e->io.listed, 0, e->slots);
    e->io.head = e->io.tail = TG_NO_SLOT;
    memset(e->indexed, 0, e->slots * sizeof(*e->indexed));
}

/* worker.c's run_current, until nothing is found. */
static void run_built_in(struct bench *b)
{
    struct tg_worker *w = &b->engine->workers[0];
    forget(b);
    b->built_in = b->start;
    while (tg_claim_scan(w, &w->current)) {
        struct tg_fault fault = {0};
        tg_count_claim(w, &w->current);
        int r = tg_run(w, &w->current, &fault);
        tg_finish(w, &w->current, r, &fault);
    }
    tg_counts_post(w);
}

/* ---- The kernel ---------------------------------------------------------------------------------------- */

static void bind(struct tg_kernel_env *env, struct buffers *m, uint32_t slots)
{
    *env = (struct tg_kernel_env){.size = sizeof(*env), .lanes = 1, .groups = 1};
    env->words[TG_IR_RING] = m->ring;
    env->count[TG_IR_RING] = slots * TG_SLOT_WORDS;
    env->words[TG_IR_CONTROL] = m->control;
    env->count[TG_IR_CONTROL] = CONTROL_WORDS;
    env->words[TG_IR_LOG] = m->log;
    env->count[TG_IR_LOG] = LOG_WORDS;
    env->words[TG_IR_DFA] = dfa;
    env->count[TG_IR_DFA] = DFA_STATES * TG_DFA_COLUMNS;
}

static struct tg_kernel *make(const struct shape *s, uint32_t flags)
{
    static char why[TG_COMPILE_WHY_BYTES];
    struct tg_ir ir;
    struct tg_kernel *kernel = NULL;
    struct tg_compile_options o = {.size = sizeof(o), .flags = flags};
    void *arena = malloc(ARENA);
    CHECK(arena);
    tg_ir_init(&ir, arena, ARENA);
    struct tg_ir_opcode opcodes[2] = {{OP_TICKET, ticket_body(&ir)}, {OP_TIMES, times_body(&ir)}};
    struct tg_ir_kernel k = {.slots = s->slots,
                             .stride = s->stride,
                             .flags = TG_IR_UNTIL_IDLE | (s->unrestricted ? TG_IR_UNRESTRICTED : 0u),
                             .opcodes = opcodes,
                             .opcode_count = 2};
    int r = tg_engine_compile(&ir, &k, &o, &kernel, why, sizeof(why));
    if (r)
        fprintf(stderr, "%s\n", why);
    CHECK_EQ(r, 0);
    free(arena);
    return kernel;
}

static void open_bench(struct bench *b, const struct shape *s)
{
    struct tg_kernel_env slow;
    memset(b, 0, sizeof(*b));
    b->shape = *s;
    empty_buffers(&b->built_in, s->slots);
    struct tg_engine_options o = options(b);
    b->engine = test_open(&o);
    add_handlers(b);
    CHECK_EQ(tg_engine_drain(b->engine, LIMIT, NULL), 0); /* its threads are gone, its worker is ours */
    b->kernel = make(s, 0);
    b->slow = make(s, TG_COMPILE_INTERPRET);
    CHECK(!tg_kernel_is_compiled(b->slow));
    bind(&b->env, &b->compiled, s->slots);
    bind(&slow, &b->interpreted, s->slots);
    struct tg_ir_memory memory;
    memcpy(memory.words, slow.words, sizeof(memory.words));
    memcpy(memory.count, slow.count, sizeof(memory.count));
    struct tg_ir_machine_options mo = {.lanes = 1, .groups = 1, .memory = &memory};
    CHECK_EQ(tg_ir_machine_open(&b->slow->ir, b->slow->lane_root, &mo, &b->machine), 0);
}

static void close_bench(struct bench *b)
{
    tg_ir_machine_close(b->machine);
    CHECK_EQ(tg_kernel_close(b->kernel), 0);
    CHECK_EQ(tg_kernel_close(b->slow), 0);
    test_close(b->engine);
}

static void run_kernels(struct bench *b)
{
    uint32_t value = 99;
    b->compiled = b->interpreted = b->start;
    CHECK_EQ(tg_kernel_lane(b->kernel, &b->env, &value), 0);
    CHECK_EQ(value, 0);
    tg_ir_machine_reset(b->machine);
    CHECK_EQ(tg_ir_machine_run(b->machine, 1, UINT64_MAX), 0);
    CHECK_EQ(tg_ir_machine_value(b->machine, 0, &value), 0);
    CHECK_EQ(value, 0);
}

/* ---- Comparing ----------------------------------------------------------------------------------------- */

static void show(const char *what, const uint32_t *x, const uint32_t *y, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (x[i] != y[i])
            fprintf(stderr, "  %s %u: %08x, %08x\n", what, i, x[i], y[i]);
}

static bool same(const struct buffers *x, const struct buffers *y, uint32_t slots)
{
    return memcmp(x->ring, y->ring, slots * TG_SLOT_BYTES) == 0 &&
           memcmp(x->control, y->control, sizeof(x->control)) == 0 &&
           memcmp(x->log, y->log, sizeof(x->log)) == 0;
}

/* Words that belong to one side: the engine's first foreign slots, the kernel's state of the levels. */
static void own_words(struct buffers *m)
{
    for (uint32_t i = TG_CONTROL_EXTENSION_BASE + 5; i < TG_CONTROL_OBSERVABLE_BASE; i++)
        m->control[i] = 0;
}

static void compare(const struct bench *b, const struct buffers *x, const struct buffers *y, uint64_t ring,
                    const char *names)
{
    if (same(x, y, b->shape.slots))
        return;
    fprintf(stderr, "ring %llu of %u slots: %s\n", (unsigned long long)ring, b->shape.slots, names);
    show("ring word", x->ring, y->ring, b->shape.slots * TG_SLOT_WORDS);
    show("control word", x->control, y->control, CONTROL_WORDS);
    show("log word", x->log, y->log, LOG_WORDS);
    CHECK(same(x, y, b->shape.slots));
}

static void compare_all(struct bench *b, uint64_t ring)
{
    compare(b, &b->compiled, &b->interpreted, ring, "compiled, interpreted");
    own_words(&b->built_in);
    own_words(&b->compiled);
    if (b->shape.stride == 0)
        compare(b, &b->built_in, &b->compiled, ring, "built in, compiled");
}

/* E2, E3: the levels in the order of their tickets are what tg_levels_decide says, one after the other. */
static void check_order(const struct bench *b)
{
    uint32_t slots = b->shape.slots, counts[TG_PRIORITY_LEVELS] = {0}, left[TG_PRIORITY_LEVELS] = {0};
    uint32_t by_ticket[RING_SLOTS_MAX];
    const uint32_t *observable = b->compiled.control + TG_CONTROL_OBSERVABLE_BASE;
    for (uint32_t i = 0; i < slots; i++) {
        CHECK(observable[i] < slots);
        by_ticket[observable[i]] = i;
        left[b->start.ring[i * TG_SLOT_WORDS + TG_SLOT_PRIORITY_WORD]]++;
    }
    for (uint32_t t = 0; t < slots; t++) {
        uint32_t work = 0;
        for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
            work |= (left[l] ? 1u : 0u) << l;
        uint32_t level = b->start.ring[by_ticket[t] * TG_SLOT_WORDS + TG_SLOT_PRIORITY_WORD];
        CHECK_EQ(tg_levels_decide(counts, work), level);
        left[level]--;
        for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
            CHECK(counts[l] <= TG_OVERTAKING_BOUND);
    }
}

/* Under a sanitizer everything takes many times as long. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define RINGS 1000
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define RINGS 1000
#endif
#endif
#ifndef RINGS
#define RINGS 10000
#endif

static uint64_t rings_asked(void)
{
    const char *asked = getenv("TG_IR_RINGS");
    return asked ? strtoull(asked, NULL, 10) : RINGS;
}

struct sums {
    uint64_t rings, done, faults, fences;
};

static void rings_of(const struct shape *shape, uint64_t first, uint64_t rings, struct sums *sum)
{
    static struct bench b;
    open_bench(&b, shape);
    for (uint64_t i = first; i < first + rings; i++) {
        struct dice d = {i * 2654435761u + 1};
        bool tickets = i % 4 == 3;
        if (tickets)
            ticket_buffers(&b.start, &b.shape, &d);
        else
            random_buffers(&b.start, &b.shape, &d);
        run_built_in(&b);
        run_kernels(&b);
        compare_all(&b, i);
        if (tickets)
            check_order(&b);
        sum->rings++;
        sum->done += b.compiled.control[TG_CONTROL_DONE_COUNT];
        sum->faults += b.compiled.control[TG_CONTROL_FAULT_COUNT];
        sum->fences += b.compiled.control[TG_CONTROL_EPOCH];
    }
    close_bench(&b);
}

static void the_three_agree_on_random_rings(void)
{
    uint64_t rings = rings_asked();
    struct sums sum = {0};
    for (uint32_t s = 0; s < SHAPES; s++)
        rings_of(&shapes[s], s * rings / SHAPES, rings / SHAPES, &sum);
    fprintf(stderr, "%llu rings: %llu done, %llu faults, %llu fences\n", (unsigned long long)sum.rings,
            (unsigned long long)sum.done, (unsigned long long)sum.faults, (unsigned long long)sum.fences);
    CHECK(sum.done > sum.rings && sum.faults > sum.rings && sum.fences * 8 > sum.rings);
    rings_of(&strided, rings, rings / 10, &sum);
}

/* ---- With an engine that runs by itself ---------------------------------------------------------------- */

/* Without handlers and without a table, which can be registered only when the workers run already. */
static void only_built_in(struct bench *b, bool tickets)
{
    for (uint32_t s = 0; s < b->shape.slots; s++) {
        uint32_t *w = &b->start.ring[s * TG_SLOT_WORDS];
        if (tickets) {
            w[TG_SLOT_OPCODE_WORD] = TG_OP_ATOMIC_ADD;
            w[TG_SLOT_ARG0_WORD + 1] = TG_CONTROL_OBSERVABLE_BASE + s;
        } else if (w[TG_SLOT_OPCODE_WORD] >= TG_OP_FIRST_USER || w[TG_SLOT_OPCODE_WORD] == TG_OP_DFA_STEP) {
            w[TG_SLOT_OPCODE_WORD] %= 6;
        }
    }
}

static void one_with_threads(struct bench *b)
{
    b->built_in = b->start;
    struct tg_engine_options o = options(b);
    struct tg_engine *e = test_open(&o);
    uint64_t end = tg_clock_mono_ns() + LIMIT;
    for (uint32_t s = 0; s < b->shape.slots; s++)
        while (tg_load_acquire_u32(&b->built_in.ring[s * TG_SLOT_WORDS]) !=
               b->compiled.ring[s * TG_SLOT_WORDS])
            CHECK(tg_clock_mono_ns() < end);
    /* Draining posts the counters; what may not run is handed back and counts as nothing. */
    test_close(e);
    const uint32_t *x = b->built_in.control, *y = b->compiled.control;
    uint32_t first = TG_CONTROL_DONE_COUNT, last = TG_CONTROL_EXTENSION_BASE,
             rest = TG_CONTROL_OBSERVABLE_BASE;
    show("control word", x + first, y + first, last - first);
    show("observable", x + rest, y + rest, OBSERVABLES);
    CHECK_EQ(memcmp(x + first, y + first, (last - first) * TG_WORD_BYTES), 0);
    CHECK_EQ(memcmp(x + rest, y + rest, OBSERVABLES * TG_WORD_BYTES), 0);
    CHECK_EQ(x[TG_CONTROL_FAULT_COUNT], y[TG_CONTROL_FAULT_COUNT]);
}

static void the_same_with_the_engines_threads(void)
{
    static struct bench b;
    uint64_t rings = rings_asked() / 100 + 1;
    open_bench(&b, &shapes[0]);
    for (uint64_t i = 0; i < rings; i++) {
        struct dice d = {i * 40503u + 7};
        bool tickets = i % 2 != 0;
        if (tickets)
            ticket_buffers(&b.start, &b.shape, &d);
        else
            random_buffers(&b.start, &b.shape, &d);
        only_built_in(&b, tickets);
        run_kernels(&b);
        one_with_threads(&b);
    }
    close_bench(&b);
}

int main(void)
{
    for (uint32_t i = 0; i < DFA_STATES * TG_DFA_COLUMNS; i++)
        dfa[i] = i * 7u % 11u;
    RUN(the_three_agree_on_random_rings);
    RUN(the_same_with_the_engines_threads);
    return 0;
}
