/* SPDX-License-Identifier: Apache-2.0
 * The list of contenders; the three that need no library: Vyukov's bounded MPMC ring, a mutex with condition
 * variables, and the same with a list a priority. */
#include "engine/queues.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"

void (*bench_idle)(void) = tg_cpu_relax;

/* ---- Vyukov: a sequence number a cell ----------------------------------------------------------------- */

static struct {
    _Alignas(128) uint64_t tail;
    _Alignas(128) uint64_t head;
    struct {
        _Alignas(64) uint64_t sequence;
        struct bench_item item;
    } cell[BENCH_CELLS];
} vyukov;

static void vyukov_open(void)
{
    vyukov.tail = vyukov.head = 0;
    for (uint64_t i = 0; i < BENCH_CELLS; i++)
        vyukov.cell[i].sequence = i;
}

static void nothing(void) {}

static void vyukov_push(const struct bench_item *item)
{
    uint64_t pos = tg_load_relaxed_u64(&vyukov.tail);
    for (;;) {
        uint64_t seq = tg_load_acquire_u64(&vyukov.cell[pos % BENCH_CELLS].sequence); /* pairs with pop */
        if (seq == pos) {
            if (tg_cas_relaxed_u64(&vyukov.tail, &pos, pos + 1))
                break;
        } else {
            if (seq < pos)
                bench_idle();
            pos = tg_load_relaxed_u64(&vyukov.tail);
        }
    }
    vyukov.cell[pos % BENCH_CELLS].item = *item;
    tg_store_release_u64(&vyukov.cell[pos % BENCH_CELLS].sequence, pos + 1); /* pairs with pop */
}

static void vyukov_pop(struct bench_item *item)
{
    uint64_t pos = tg_load_relaxed_u64(&vyukov.head);
    for (;;) {
        uint64_t seq = tg_load_acquire_u64(&vyukov.cell[pos % BENCH_CELLS].sequence); /* pairs with push */
        if (seq == pos + 1) {
            if (tg_cas_relaxed_u64(&vyukov.head, &pos, pos + 1))
                break;
        } else {
            if (seq < pos + 1)
                bench_idle();
            pos = tg_load_relaxed_u64(&vyukov.head);
        }
    }
    *item = vyukov.cell[pos % BENCH_CELLS].item;
    tg_store_release_u64(&vyukov.cell[pos % BENCH_CELLS].sequence, pos + BENCH_CELLS); /* pairs with push */
}

const struct bench_queue bench_vyukov = {"vyukov_mpmc", false,   false,       1,
                                         vyukov_open,   nothing, vyukov_push, vyukov_pop};

/* ---- A mutex and two condition variables, one list or five -------------------------------------------- */

#define LEVELS 5u

static struct {
    pthread_mutex_t lock;
    pthread_cond_t filled, emptied;
    uint32_t total, levels;
    struct {
        uint32_t head, count;
        struct bench_item items[BENCH_CELLS];
    } level[LEVELS];
} locked = {.lock = PTHREAD_MUTEX_INITIALIZER,
            .filled = PTHREAD_COND_INITIALIZER,
            .emptied = PTHREAD_COND_INITIALIZER};

static void locked_open(void)
{
    locked.total = 0;
    locked.levels = 1;
    for (uint32_t l = 0; l < LEVELS; l++)
        locked.level[l].head = locked.level[l].count = 0;
}

static void locked_open_levels(void)
{
    locked_open();
    locked.levels = LEVELS;
}

static void locked_push(const struct bench_item *item)
{
    pthread_mutex_lock(&locked.lock);
    uint32_t l = item->words[3] % locked.levels;
    while (locked.total == BENCH_CELLS)
        pthread_cond_wait(&locked.emptied, &locked.lock);
    locked.level[l].items[(locked.level[l].head + locked.level[l].count++) % BENCH_CELLS] = *item;
    locked.total++;
    pthread_cond_signal(&locked.filled);
    pthread_mutex_unlock(&locked.lock);
}

static void locked_pop(struct bench_item *item)
{
    uint32_t l = 0;
    pthread_mutex_lock(&locked.lock);
    while (locked.total == 0)
        pthread_cond_wait(&locked.filled, &locked.lock);
    while (locked.level[l].count == 0)
        l++;
    *item = locked.level[l].items[locked.level[l].head];
    locked.level[l].head = (locked.level[l].head + 1) % BENCH_CELLS;
    locked.level[l].count--;
    locked.total--;
    pthread_cond_signal(&locked.emptied);
    pthread_mutex_unlock(&locked.lock);
}

const struct bench_queue bench_mutex = {"mutex_condvar", false,   false,       0.15,
                                        locked_open,     nothing, locked_push, locked_pop};
const struct bench_queue bench_mutex_levels = {"mutex_condvar_5_lists", true,    false,       0.15,
                                               locked_open_levels,      nothing, locked_push, locked_pop};

/* ---- All ---------------------------------------------------------------------------------------------- */

const struct bench_queue *const bench_queues[] = {&bench_vyukov,
#ifdef BENCH_CK
                                                  &bench_ck_spsc,     &bench_ck_mpmc,
#endif
#ifdef BENCH_DPDK
                                                  &bench_rte_spsc,    &bench_rte_mpmc,
#endif
#ifdef BENCH_TBB
                                                  &bench_tbb_bounded, &bench_tbb_priority,
#endif
#ifdef BENCH_GLIB
                                                  &bench_gasync,
#endif
                                                  &bench_mutex,       &bench_mutex_levels, NULL};
