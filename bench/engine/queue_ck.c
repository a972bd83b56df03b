/* SPDX-License-Identifier: Apache-2.0
 * Concurrency Kit's ck_ring, items by value. */
#include <ck_ring.h>
#include <string.h>

#include "engine/queues.h"

struct bench_item;
CK_RING_PROTOTYPE(item, bench_item)

static ck_ring_t ring;
static struct bench_item cells[BENCH_CELLS];

static void ring_open(void)
{
    ck_ring_init(&ring, BENCH_CELLS);
}

static void ring_close(void) {}

static void push_sp(const struct bench_item *item)
{
    while (!CK_RING_ENQUEUE_SPSC(item, &ring, cells, (struct bench_item *)(uintptr_t)item))
        bench_idle();
}

static void pop_sc(struct bench_item *item)
{
    while (!CK_RING_DEQUEUE_SPSC(item, &ring, cells, item))
        bench_idle();
}

static void push_mp(const struct bench_item *item)
{
    while (!CK_RING_ENQUEUE_MPMC(item, &ring, cells, (struct bench_item *)(uintptr_t)item))
        bench_idle();
}

static void pop_mc(struct bench_item *item)
{
    while (!CK_RING_DEQUEUE_MPMC(item, &ring, cells, item))
        bench_idle();
}

const struct bench_queue bench_ck_spsc = {"ck_ring_spsc", false,      true,    1,
                                          ring_open,      ring_close, push_sp, pop_sc};
const struct bench_queue bench_ck_mpmc = {"ck_ring_mpmc", false,      false,   0.7,
                                          ring_open,      ring_close, push_mp, pop_mc};
