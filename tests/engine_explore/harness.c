/* SPDX-License-Identifier: Apache-2.0
 * The scheduler of explore.h. */
#include "explore.h"

#include <sys/mman.h>
#include <ucontext.h>

#include "base/clock.h"
#include "engine/futex.h"
#include "engine/open.h"

#define MOST_THREADS 8u
#define MOST_STEPS 20000u
#define STACK_BYTES (256u * 1024u)
#define TIMED_WAIT_NS                                                                                        \
    1000000u /* a wait this short is a look that repeats: it gives way instead of sleeping */
#define MOST_SCHEDULES 3000000u

enum state { READY, ASLEEP, ENDED };

static struct thread {
    ucontext_t context;
    char *stack;
    enum state state;
    const uint32_t *word; /* slept on */
    uint64_t asleep_since;
    void (*fn)(struct tg_engine *);
    struct tg_worker *worker;
} threads[MOST_THREADS];

/* One decision: which of the threads that could go on did. */
struct choice {
    uint8_t taken, options;
};

static struct {
    bool active; /* a thread of the scenario runs */
    const struct explore_scenario *scenario;
    struct tg_engine *engine;
    uint32_t count, current, preemptions, steps;
    uint64_t sleeps;
    struct choice *path;
    uint32_t depth, known; /* choices made in this schedule; those that are given */
    ucontext_t home;
} x;

/* ---- Choices ------------------------------------------------------------------------------------------- */

static uint32_t choose(uint32_t options)
{
    if (options <= 1)
        return 0;
    CHECK(x.depth < MOST_STEPS);
    struct choice *c = &x.path[x.depth];
    if (x.depth >= x.known) {
        *c = (struct choice){0, (uint8_t)options};
        x.known = x.depth + 1;
    }
    CHECK_EQ(c->options, options); /* the same start and the same choices lead to the same place */
    x.depth++;
    return c->taken;
}

/* The next schedule: the last choice that has another option takes it. False when there is none. */
static bool next_schedule(void)
{
    while (x.known > 0) {
        struct choice *c = &x.path[x.known - 1];
        if (c->taken + 1 < c->options) {
            c->taken++;
            return true;
        }
        x.known--;
    }
    return false;
}

static uint32_t others_ready(uint32_t *list)
{
    uint32_t n = 0;
    for (uint32_t i = 1; i < x.count; i++) { /* from the current one on, so that giving way goes round */
        uint32_t t = (x.current + i) % x.count;
        if (threads[t].state == READY)
            list[n++] = t;
    }
    return n;
}

static void go(uint32_t to)
{
    uint32_t from = x.current;
    if (to == from)
        return;
    x.current = to;
    swapcontext(&threads[from].context, &threads[to].context);
}

void tg_explore_point(void)
{
    uint32_t list[MOST_THREADS];
    if (!x.active)
        return;
    CHECK(++x.steps < MOST_STEPS); /* else a schedule does not end */
    if (x.preemptions >= x.scenario->bound)
        return;
    uint32_t n = others_ready(list);
    uint32_t taken = choose(n + 1);
    if (taken == 0)
        return;
    x.preemptions++;
    go(list[taken - 1]);
}

/* Gives way to the next one, without a choice: who spins makes no progress by itself. */
void tg_explore_yield(void)
{
    uint32_t list[MOST_THREADS];
    if (!x.active)
        return;
    CHECK(++x.steps < MOST_STEPS);
    if (others_ready(list) > 0)
        go(list[0]);
}

uint32_t tg_explore_thread(void)
{
    return x.current;
}

/* The current thread cannot go on: another one does, or the schedule has ended. */
static void leave(void)
{
    uint32_t list[MOST_THREADS];
    uint32_t n = others_ready(list);
    if (n == 0) {
        x.active = false;
        swapcontext(&threads[x.current].context, &x.home);
        return;
    }
    go(list[choose(n)]);
}

void tg_futex_wait(const uint32_t *word, uint32_t expected, uint64_t limit_ns)
{
    if (!x.active) /* a real thread, before the engine's own have ended */
        return;
    if (__extension__ * (const volatile uint32_t *)word != expected)
        return;
    if (limit_ns <= TIMED_WAIT_NS) {
        tg_explore_yield();
        return;
    }
    struct thread *t = &threads[x.current];
    t->state = ASLEEP;
    t->word = word;
    t->asleep_since = ++x.sleeps;
    leave();
}

void tg_futex_wake(const uint32_t *word, int count)
{
    if (!x.active)
        return;
    for (; count > 0; count--) {
        struct thread *first = NULL;
        for (uint32_t i = 0; i < x.count; i++) {
            struct thread *t = &threads[i];
            if (t->state == ASLEEP && t->word == word && (!first || t->asleep_since < first->asleep_since))
                first = t;
        }
        if (!first)
            return;
        first->state = READY;
    }
}

static void thread_main(void)
{
    struct thread *t = &threads[x.current];
    if (t->worker)
        tg_worker_main(t->worker);
    else
        t->fn(x.engine);
    t->state = ENDED;
    leave();
    abort(); /* an ended thread does not go on */
}

/* ---- The same start ------------------------------------------------------------------------------------ */

/* All that the engine writes, and a copy of it. */
static struct region {
    void *at;
    size_t bytes;
    void *copy;
} regions[48];
static uint32_t region_count;

static void keep(void *at, size_t bytes)
{
    if (!at || bytes == 0)
        return;
    CHECK(region_count < 48);
    struct region *r = &regions[region_count++];
    *r = (struct region){at, bytes, malloc(bytes)};
    CHECK(r->copy);
    memcpy(r->copy, at, bytes);
}

static void keep_engine(struct tg_engine *e)
{
    region_count = 0;
    keep(e, sizeof(*e));
    keep(e->ring, (size_t)e->slots * TG_SLOT_BYTES);
    keep(e->control, (size_t)e->control_words * TG_WORD_BYTES);
    keep(e->log, (size_t)e->log_words * TG_WORD_BYTES);
    keep(e->side, e->slots * sizeof(*e->side));
    keep(e->attention_of, e->slots * sizeof(*e->attention_of));
    keep(e->fence_of, e->slots * sizeof(*e->fence_of));
    keep(e->bad, e->slots * sizeof(*e->bad));
    keep(e->home, e->slots);
    keep(e->indexed, e->slots * sizeof(*e->indexed));
    keep(e->workers, e->worker_count * sizeof(*e->workers));
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
        keep(e->level[l].queue, e->shards * TG_TENANTS * sizeof(struct tg_index));
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
        keep(e->level[l].free, e->shards * sizeof(struct tg_free));
    keep(e->free_memory, e->free_bytes);
    keep(e->queue_memory, e->queue_bytes);
}

static void restore(void)
{
    for (uint32_t i = 0; i < region_count; i++)
        memcpy(regions[i].at, regions[i].copy, regions[i].bytes);
}

/* An engine whose own threads have ended, as it was before they began. */
static struct tg_engine *open_still(const struct tg_engine_options *options)
{
    struct tg_engine *e;
    CHECK_EQ(tg_engine_open(options, &e), 0);
    tg_store_seqcst_u32(&e->control[TG_CONTROL_SHUTDOWN], 1);
    tg_wake_all(e);
    tg_workers_join(e);
    tg_poller_stop(e);
    e->control[TG_CONTROL_SHUTDOWN] = 0;
    e->accepting = 1;
    e->exited = e->idle = e->grants = 0;
    for (uint32_t i = 0; i < e->worker_count; i++)
        e->workers[i].clean = 0;
    return e;
}

static void start_thread(uint32_t i)
{
    struct thread *t = &threads[i];
    t->state = READY;
    CHECK_EQ(getcontext(&t->context), 0);
    t->context.uc_stack.ss_sp = t->stack;
    t->context.uc_stack.ss_size = STACK_BYTES;
    t->context.uc_link = NULL;
    makecontext(&t->context, thread_main, 0);
}

/* The scenario's threads first, then the workers. */
static void lay_threads(const struct explore_scenario *s)
{
    x.count = 0;
    for (uint32_t i = 0; i < EXPLORE_THREADS && s->thread[i]; i++, x.count++) {
        threads[x.count].fn = s->thread[i];
        threads[x.count].worker = NULL;
    }
    for (uint32_t i = 0; i < s->workers; i++, x.count++)
        threads[x.count].worker = &x.engine->workers[i];
    for (uint32_t i = 0; i < x.count; i++) {
        if (threads[i].stack)
            continue;
        threads[i].stack =
            mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(threads[i].stack != MAP_FAILED);
    }
}

static void run_schedule(const struct explore_scenario *s)
{
    bool ended[MOST_THREADS];
    uint32_t list[MOST_THREADS];
    restore();
    if (s->reset)
        s->reset(x.engine);
    x.depth = x.preemptions = x.steps = 0;
    x.sleeps = 0;
    for (uint32_t i = 0; i < x.count; i++)
        start_thread(i);
    x.current = x.count - 1;
    x.active = true;
    uint32_t n = others_ready(list);
    list[n++] = x.current;
    x.current = list[choose(n)]; /* any of them may be the first */
    swapcontext(&x.home, &threads[x.current].context);
    for (uint32_t i = 0; i < x.count; i++)
        ended[i] = threads[i].state == ENDED;
    s->check(x.engine, ended);
}

/* What was chosen, so that a failure can be told: the schedule's number is printed by the failed CHECK's
 * caller, and the choices follow at exit. */
static uint64_t schedules;
static const char *running;

static void tell(void)
{
    if (!running)
        return;
    fprintf(stderr, "in schedule %" PRIu64 " of %s; its choices other than 0:", schedules, running);
    for (uint32_t i = 0; i < x.depth; i++)
        if (x.path[i].taken)
            fprintf(stderr, " %u:%u/%u", i, x.path[i].taken, x.path[i].options);
    fprintf(stderr, "\n");
}

void explore(const struct explore_scenario *s)
{
    static bool told;
    if (!told)
        atexit(tell);
    told = true;
    x.path = calloc(MOST_STEPS, sizeof(*x.path));
    CHECK(x.path);
    x.scenario = s;
    x.engine = open_still(&s->options);
    if (s->shards) {
        tg_free_drop(x.engine);
        tg_open_queues_free(x.engine);
        CHECK_EQ(tg_open_queues(x.engine, s->shards), 0);
        CHECK_EQ(tg_free_lay(x.engine, 0), 0);
    }
    x.known = 0;
    keep_engine(x.engine);
    lay_threads(s);
    schedules = 0;
    running = s->name;
    uint64_t start = tg_clock_read_ns(CLOCK_MONOTONIC);
    do {
        CHECK(++schedules <= MOST_SCHEDULES);
        run_schedule(s);
    } while (next_schedule());
    running = NULL;
    fprintf(stderr, "  %s: %" PRIu64 " schedules, all with at most %" PRIu32 " preemptions, %.2f s\n",
            s->name, schedules, s->bound, (double)(tg_clock_read_ns(CLOCK_MONOTONIC) - start) / 1e9);
    restore();
    for (uint32_t i = 0; i < region_count; i++)
        free(regions[i].copy);
    tg_engine_free(x.engine);
    free(x.path);
}
