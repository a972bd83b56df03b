/* SPDX-License-Identifier: Apache-2.0
 *
 * X: what it costs when a device is owned by a process of its own (options.device_process), and when items
 * are published by a foreign host, straight into the slots of a ring of its own. Latency and throughput, each
 * against the engine without, in turns.
 */
#include <errno.h>
#include <string.h>

#include "base/atomic.h"
#include "bench.h"
#include "gpu/engine.h"
#include "ring/slot.h"

enum { SLOTS = 65536, SLOTS_OF_RATES = 262144 };

static void report(const char *what, const struct gpu_quantiles *q, const struct gpu_quantiles *plain)
{
    char name[96];
    snprintf(name, sizeof(name), "%s_p50", what);
    gpu_row("X", name, q->p50, "ns", plain ? plain->p50 : gpu_floors.flag.p50, NULL);
    snprintf(name, sizeof(name), "%s_p99", what);
    gpu_row("X", name, q->p99, "ns", plain ? plain->p99 : gpu_floors.flag.p50, NULL);
}

/* ---- A process that owns the device ---------------------------------------------------------------------
 */

/* The same of both: NOPs and empty bodies, one outstanding, and as many a second as one thread publishes. */
struct ways {
    struct gpu_quantiles nop, worker;
    double rate;
};

static void measure(struct ways *ret, const char *device_process)
{
    struct tg_engine_options o;
    gpu_engine_options(&o, SLOTS);
    o.device_process = device_process;
    struct tg_engine *e = gpu_engine_open(&o);
    ret->nop = gpu_engine_round_trips(e, TG_PRIORITY_NORMAL, TG_OP_NOP, 0);
    ret->worker = gpu_engine_round_trips(e, TG_PRIORITY_NORMAL, GPU_OP_EMPTY, 0);
    gpu_engine_close(e);
    o.slots = SLOTS_OF_RATES;
    ret->rate = gpu_engine_rate(&o, 1024, 1);
}

static void own_process(const struct ways *plain)
{
    struct ways own;
    measure(&own, "/proc/self/exe");
    report("engine_of_own_process_lane_to_plain", &own.nop, &plain->nop);
    report("engine_of_own_process_worker_to_plain", &own.worker, &plain->worker);
    gpu_row("X", "engine_of_own_process_batches_of_1024_to_plain", own.rate, "M/s", plain->rate, NULL);
}

/* ---- Slots of a foreign host ----------------------------------------------------------------------------
 */

enum { OTHER_SLOTS = 64, RING_MAX = 16384 };

/* All of NORMAL's partition is foreign, `slots` many; the first of them is returned. */
static struct tg_engine *open_foreign(uint32_t slots, struct tg_slot **ret_first)
{
    static _Alignas(64) struct tg_slot ring[RING_MAX];
    struct tg_engine_options o;
    size_t bytes;
    uint32_t n = 4 * OTHER_SLOTS + slots;
    gpu_engine_must(tg_encode_empty_ring(n, ring, sizeof(ring), &bytes), "encode a ring");
    gpu_engine_options(&o, 0);
    o.ring = ring;
    o.ring_bytes = bytes;
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
        o.offsets[l + 1] = o.offsets[l] + (l == TG_PRIORITY_NORMAL ? slots : OTHER_SLOTS);
    o.foreign_slots[TG_PRIORITY_NORMAL] = TG_ENGINE_ALL_SLOTS;
    *ret_first = &ring[o.offsets[TG_PRIORITY_NORMAL]];
    return gpu_engine_open(&o);
}

static void publish(struct tg_slot *slot)
{
    tg_slot_write_payload(slot, TG_OP_NOP, 0, TG_PRIORITY_NORMAL, NULL, 0);
    tg_slot_publish(slot);
}

static void await(const struct tg_slot *slot, uint64_t end)
{
    while (!tg_slot_is_publishable(slot))
        if (tg_clock_mono_ns() > end + GPU_LIMIT_NS)
            gpu_engine_must(-ETIMEDOUT, "a foreign item never ends");
}

/* Publish to DONE in the host's own slot, one outstanding. kick: the engine is told of each. */
static struct gpu_quantiles foreign_trips(struct tg_engine *e, struct tg_slot *slot, bool kick)
{
    struct gpu_sample sample;
    uint64_t end = gpu_until(0.4), start = 0;
    gpu_sample_begin(&sample);
    for (uint32_t i = 0; start < end; i++) {
        start = tg_clock_mono_ns();
        publish(slot);
        if (kick)
            tg_engine_kick(e);
        await(slot, end);
        if (i > 20)
            gpu_sample_add(&sample, tg_clock_mono_ns() - start);
    }
    return gpu_sample_end(&sample);
}

/* Million items a second from one thread that fills every slot again as soon as it can. */
static double foreign_rate(struct tg_slot *slot, uint32_t slots)
{
    uint64_t n = 0, start = tg_clock_mono_ns(), end = gpu_until(0.5);
    while (tg_clock_mono_ns() < end)
        for (uint32_t i = 0; i < slots; i++)
            if (tg_slot_is_publishable(&slot[i])) {
                publish(&slot[i]);
                n++;
            }
    for (uint32_t i = 0; i < slots; i++)
        await(&slot[i], end);
    return (double)n * 1e3 / (double)(tg_clock_mono_ns() - start);
}

static void foreign(uint32_t slots, const struct ways *plain)
{
    struct tg_slot *first;
    char name[96];
    struct tg_engine *e = open_foreign(slots, &first);
    struct gpu_quantiles q = foreign_trips(e, first, false);
    snprintf(name, sizeof(name), "engine_foreign_of_%u_slots_to_own", slots);
    report(name, &q, &plain->nop);
    q = foreign_trips(e, first, true);
    snprintf(name, sizeof(name), "engine_foreign_of_%u_slots_kicked_to_own", slots);
    report(name, &q, &plain->nop);
    snprintf(name, sizeof(name), "engine_foreign_of_%u_slots_to_own_batches_of_1024", slots);
    gpu_row("X", name, foreign_rate(first, slots), "M/s", plain->rate, NULL);
    gpu_engine_close(e);
}

void gpu_engine_ways(void)
{
    struct ways plain;
    measure(&plain, NULL);
    report("engine_plain_lane", &plain.nop, NULL);
    report("engine_plain_worker", &plain.worker, NULL);
    gpu_row("X", "engine_plain_batches_of_1024", plain.rate, "M/s", 0, NULL);
    if (gpu_engine_on_device())
        own_process(&plain);
    foreign(64, &plain);
    foreign(8192, &plain);
}
