/* SPDX-License-Identifier: Apache-2.0
 * DPDK's rte_ring with elements of 64 bytes. Its hot functions are all in its headers, so the ring lies in
 * plain memory and neither the EAL nor huge pages are needed; its fields are set as rte_ring_init sets them.
 */
#include <rte_ring_elem.h>
#include <string.h>

#include "engine/queues.h"

static struct {
    struct rte_ring ring;
    _Alignas(64) struct bench_item cells[BENCH_CELLS];
} room;

static void ring_init(enum rte_ring_sync_type type)
{
    memset(&room.ring, 0, sizeof(room.ring));
    room.ring.prod.sync_type = room.ring.cons.sync_type = type;
    room.ring.size = BENCH_CELLS;
    room.ring.mask = BENCH_CELLS - 1;
    room.ring.capacity = BENCH_CELLS - 1;
}

static void open_single(void)
{
    ring_init(RTE_RING_SYNC_ST);
}

static void open_multi(void)
{
    ring_init(RTE_RING_SYNC_MT);
}

static void ring_close(void) {}

static void push_sp(const struct bench_item *item)
{
    while (rte_ring_sp_enqueue_elem(&room.ring, (void *)(uintptr_t)item, sizeof(*item)) != 0)
        bench_idle();
}

static void pop_sc(struct bench_item *item)
{
    while (rte_ring_sc_dequeue_elem(&room.ring, item, sizeof(*item)) != 0)
        bench_idle();
}

static void push_mp(const struct bench_item *item)
{
    while (rte_ring_mp_enqueue_elem(&room.ring, (void *)(uintptr_t)item, sizeof(*item)) != 0)
        bench_idle();
}

static void pop_mc(struct bench_item *item)
{
    while (rte_ring_mc_dequeue_elem(&room.ring, item, sizeof(*item)) != 0)
        bench_idle();
}

const struct bench_queue bench_rte_spsc = {"rte_ring_spsc", false,      true,    1,
                                           open_single,     ring_close, push_sp, pop_sc};
const struct bench_queue bench_rte_mpmc = {"rte_ring_mpmc", false,      false,   0.7,
                                           open_multi,      ring_close, push_mp, pop_mc};
