/* SPDX-License-Identifier: Apache-2.0
 *
 * One worker thread: claim, run, finish, for ever; look for a while when there is nothing, then sleep; leave
 * when the SHUTDOWN word is set and nothing claimable is left (E8: a stopped engine abandons nothing). A
 * handler that ends its own thread faults its item and the thread starts anew (E1).
 */
#include <sched.h>

#include "base/clock.h"
#include "engine/internal.h"

#define POST_EVERY 256u       /* items between two publications of the counters */
#define LOOKS_BEFORE_FLUSH 8u /* empty looks before freed slots go back: few large returns are cheaper */
#define LOOKS_BEFORE_POST 64u /* empty looks before the counters are published and the worker searches */
#define RECHECK_EVERY 64u     /* items between two looks at tenants found blocked */
#define SLEEP_LIMIT_NS UINT64_C(10000000000)

static void became_idle(struct tg_worker *w)
{
    struct tg_engine *e = w->engine;
    tg_counts_post(w);
    /* L3 seq_cst: counters posted, slots free; pairs with L2 in drain.c. */
    tg_store_seqcst_u32(&w->clean, 1);
    if (tg_attention(e))
        tg_settle_bump(e);
}

/* Serves first the shard whose submitters run where this worker runs, if it can change places for that. */
static void settle_in(struct tg_worker *w)
{
#ifndef TG_EXPLORE /* whose schedules know no cores */
    struct tg_engine *e = w->engine;
    if (e->shards == 1)
        return;
    /* U5, U6 relaxed: hints; HOME is changed under home_lock. */
    uint32_t cpu = (uint32_t)sched_getcpu() + 1;
    tg_store_relaxed_u32(&w->cpu, cpu);
    if (tg_load_relaxed_u32(&e->ready[tg_load_relaxed_u32(&w->home)].cpu) == cpu ||
        pthread_mutex_trylock(&e->home_lock) != 0)
        return;
    for (uint32_t i = 0; i < e->worker_count; i++) {
        struct tg_worker *other = &e->workers[i];
        uint32_t there = tg_load_relaxed_u32(&other->home);
        if (tg_load_relaxed_u32(&e->ready[there].cpu) != cpu || tg_load_relaxed_u32(&other->cpu) == cpu)
            continue;
        /* Homes are changed for each other, so each shard stays somebody's. */
        tg_store_relaxed_u32(&other->home, tg_load_relaxed_u32(&w->home));
        tg_store_relaxed_u32(&w->home, there);
        break;
    }
    pthread_mutex_unlock(&e->home_lock);
#else
    (void)w;
#endif
}

static bool claim(struct tg_worker *w)
{
    bool got =
        w->engine->flags & TG_ENGINE_SCAN ? tg_claim_scan(w, &w->current) : tg_claim_next(w, &w->current);
    if (got && w->clean)
        tg_store_seqcst_u32(&w->clean, 0); /* L3: the item's slot is not free, so settle waits either way */
    return got;
}

static void run_current(struct tg_worker *w)
{
    struct tg_fault fault = {0};
    w->busy = true;
    tg_count_claim(w, &w->current);
    int r = tg_run(w, &w->current, &fault);
    w->busy = false;
    tg_finish(w, &w->current, r, &fault);
    if (w->unposted % RECHECK_EVERY == 0)
        w->blocked = 0;
    if (w->unposted >= POST_EVERY) {
        tg_counts_post(w);
        settle_in(w);
    }
}

/* Looks until there is something (true) or the spin time is over (false). */
static bool look_for_work(struct tg_worker *w)
{
    struct tg_engine *e = w->engine;
    uint64_t end = 0;
    bool flushed = false;
    for (uint32_t looks = 1;; looks++) {
        if (!flushed && (looks > LOOKS_BEFORE_FLUSH || e->spin_us == 0 || tg_attention(e))) {
            flushed = true;
            tg_freed_flush(w);
            if (tg_attention(e))
                became_idle(w);
        }
        if (claim(w))
            return true;
        /* Y15 relaxed: a hint. */
        if (tg_load_relaxed_u32(&e->has_server) && tg_serve_help(e) && claim(w))
            return true;
        if (looks < LOOKS_BEFORE_POST && e->spin_us != 0) {
            tg_cpu_relax();
            continue;
        }
        if (looks % LOOKS_BEFORE_POST == 0 || e->spin_us == 0) {
            w->blocked = 0;
            if (end == 0) {
                end = tg_clock_mono_ns() + e->spin_us * UINT64_C(1000);
                became_idle(w);
                tg_worker_search(w);
            } else if (tg_attention(e)) {
                became_idle(w);
            }
            if (tg_load_acquire_u32(&e->control[TG_CONTROL_SHUTDOWN]) != 0 || tg_clock_mono_ns() >= end)
                return false;
            /* Whoever would publish the next item may be waiting for this very core. */
            sched_yield();
        }
        tg_cpu_relax();
    }
}

static bool leaving(struct tg_worker *w)
{
    /* K10 seq_cst: the word is set before the sleepers are woken. */
    if (tg_load_seqcst_u32(&w->engine->control[TG_CONTROL_SHUTDOWN]) == 0)
        return false;
    /* What a foreign host published by now counts as published (E8). */
    if (w->engine->has_foreign)
        tg_foreign_pass(w->engine);
    return !tg_claimable(w);
}

static void work(struct tg_worker *w)
{
    struct tg_engine *e = w->engine;
    for (;;) {
        if (claim(w) || look_for_work(w)) {
            if (w->searching)
                tg_worker_found(w);
            run_current(w);
            continue;
        }
        /* What was freed while looking (cancelled entries, prune in claim.c): nobody waits beside a sleeper.
         */
        tg_freed_flush(w);
        if (leaving(w))
            return;
        if (tg_attention(e))
            became_idle(w);
        for (uint32_t s = 0; s < e->shards; s++)
            for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
                tg_ready_tidy(e, s, l, tg_load_seqcst_u32(&e->ready[s].level[l])); /* K2 */
        tg_worker_sleep(w, SLEEP_LIMIT_NS);
    }
}

static void finished(struct tg_worker *w)
{
    struct tg_engine *e = w->engine;
    tg_worker_found(w);
    /* Other workers may sleep beside a SHUTDOWN word that an opcode set. */
    tg_wake_all(e);
    became_idle(w);
    tg_add_seqcst_u32(&e->exited, 1); /* L4 seq_cst: pairs with L2 */
    tg_settle_bump(e);
}

/* Runs when a handler left by pthread_exit or cancellation: its item faults, a new thread takes over. */
static void handler_left(void *worker)
{
    struct tg_worker *w = worker;
    struct tg_fault fault = {TG_FAULT_WORKER_DIED, 0, 0};
    w->busy = false;
    tg_finish(w, &w->current, TG_RAN_FAULT, &fault);
    pthread_detach(pthread_self());
    if (pthread_create(&w->thread, NULL, tg_worker_main, w) != 0) {
        w->started = false;
        finished(w);
    }
}

void *tg_worker_main(void *worker)
{
    struct tg_worker *w = worker;
    pthread_cleanup_push(handler_left, w);
    work(w);
    pthread_cleanup_pop(0);
    finished(w);
    return NULL;
}
