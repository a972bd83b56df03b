/* SPDX-License-Identifier: Apache-2.0
 *
 * S and F of the engine: overtaking against E3's bound and Jain's index over backlogged tenants (E4), on any
 * backend. The witness is the debug log: every item is a PRINTF, whose record is written where it ran, so the
 * log's order is the order in which items ran. They are published before the first may be claimed: their
 * tenants are off until then.
 */
#include <errno.h>
#include <string.h>

#include "bench.h"
#include "gpu/engine.h"

enum { LOG_MAX = 200000 };

/* The log's records, of the engine's own buffer; *ret_n of them. Each is {format id, a1, a2, slot word}. */
static const uint32_t *log_of(struct tg_engine *e, uint32_t *ret_n)
{
    const void *log;
    size_t bytes;
    tg_engine_buffers(e, NULL, NULL, NULL, NULL, &log, &bytes);
    const uint32_t *words = log;
    *ret_n = words[0] / 4;
    if (*ret_n > bytes / 16)
        gpu_engine_must(-EBADMSG, "the debug log");
    return words + 1;
}

static void publish(struct tg_engine *e, uint32_t tenant, uint32_t level, uint32_t count, uint32_t mark)
{
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t args[3] = {mark, i, level};
        gpu_engine_submit(e, tenant, level, TG_OP_PRINTF, args, 3, NULL);
    }
}

static struct tg_engine *open_with_log(uint32_t slots, const uint32_t *offsets, uint32_t flags)
{
    struct tg_engine_options o;
    gpu_engine_options(&o, slots);
    o.log_records = LOG_MAX;
    o.flags = flags;
    memcpy(o.offsets, offsets, sizeof(o.offsets));
    return gpu_engine_open(&o);
}

static void let_tenants(struct tg_engine *e, uint32_t tenants, int on)
{
    for (uint32_t t = 0; t < tenants; t++)
        gpu_engine_must(tg_engine_set_tenant(e, t, on), "set_tenant");
}

/* ---- S ------------------------------------------------------------------------------------------------- */

/* The longest run of records of other levels before one of `level`, while that level has work. */
static uint32_t longest_run(const uint32_t *records, uint32_t n, uint32_t level, uint32_t count)
{
    uint32_t run = 0, longest = 0, seen = 0;
    for (uint32_t i = 0; i < n && seen < count; i++) {
        if (records[4 * i] != level) {
            run++;
            continue;
        }
        longest = run > longest ? run : longest;
        run = 0;
        seen++;
    }
    return longest;
}

/* One mix of floods; every level in waiting has `waiting` items, every flooding one enough for the bound to
 * bite. */
static void overtaking_under(uint32_t floods, uint32_t waiting_levels, bool at_once, const char *what)
{
    enum { WAITING = 500, FLOOD = 40000, ROOM = 50000 };
    const uint32_t offsets[TG_CONTROL_PRIORITY_OFFSETS_SLOTS] = {0,        ROOM,     2 * ROOM,
                                                                 3 * ROOM, 4 * ROOM, 5 * ROOM};
    static struct tg_engine_stats stats;
    char name[96];
    struct tg_engine *e = open_with_log(5 * ROOM, offsets, 0);
    let_tenants(e, 1, 0);
    uint32_t n = 0, published = 0;
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++) {
        uint32_t count = floods >> l & 1u ? FLOOD : waiting_levels >> l & 1u ? WAITING : 0;
        publish(e, 0, l, count, l);
        published += count;
    }
    /* A device finds what is published a little later: unless at_once, it has found all before it may claim.
     */
    const struct timespec nap = {0, 200000000};
    if (!at_once)
        nanosleep(&nap, NULL);
    let_tenants(e, 1, 1);
    gpu_engine_must(tg_engine_settle(e, GPU_LIMIT_NS), "settle");
    /* On a device one dispatcher claims for all workers. */
    tg_engine_stats(e, &stats);
    uint32_t bound = TG_OVERTAKING_BOUND + (gpu_engine_on_device() ? 1 : stats.workers);
    const uint32_t *records = log_of(e, &n);
    if (n != published)
        gpu_engine_must(-EBADMSG, "not every item left a record");
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++) {
        if (!(waiting_levels >> l & 1u))
            continue;
        snprintf(name, sizeof(name), "level_%u_%s_longest_overtaking", l, what);
        gpu_row("S", name, longest_run(records, n, l, WAITING), "claims", bound, "<= 1");
    }
    gpu_engine_close(e);
}

void gpu_engine_overtaking(void)
{
    const uint32_t critical = 1u << TG_PRIORITY_CRITICAL, normal = 1u << TG_PRIORITY_NORMAL,
                   low = 1u << TG_PRIORITY_LOW, idle = 1u << TG_PRIORITY_IDLE;
    overtaking_under(critical, low | idle, false, "under_critical");
    overtaking_under(normal, low | idle, false, "under_normal");
    overtaking_under(critical | normal, low | idle, false, "under_both");
    overtaking_under(critical | normal, low | idle, true, "under_both_at_once");
}

/* ---- F ------------------------------------------------------------------------------------------------- */

/* All tenants begin at once: one of them, let in last, has a MEMCPY at CRITICAL that lets in all the others.
 */
static void let_all_in(struct tg_engine *e, uint32_t tenants)
{
    const uint32_t on[3] = {TG_CONTROL_OBSERVABLE_BASE, TG_CONTROL_TENANT_MASKS, tenants};
    const struct timespec nap = {0, 200000000};
    for (uint32_t t = 0; t < tenants; t++)
        gpu_engine_must(tg_engine_observable_store(e, t, UINT32_MAX), "observable_store");
    gpu_engine_submit(e, tenants - 1, TG_PRIORITY_CRITICAL, TG_OP_MEMCPY, on, 3, NULL);
    nanosleep(&nap, NULL); /* a device has found all that was published */
    gpu_engine_must(tg_engine_set_tenant(e, tenants - 1, 1), "set_tenant");
}

/* Jain's index over what ran until the first tenant had its last item; tenant 0 has `more` times as many as
 * each of the others. */
static double jain(uint32_t tenants, uint32_t more)
{
    enum { FEW = 1024, ROOM = 140000 };
    const uint32_t offsets[TG_CONTROL_PRIORITY_OFFSETS_SLOTS] = {0,           1000,        2000,
                                                                 2000 + ROOM, 3000 + ROOM, 4000 + ROOM};
    uint32_t left[TG_TENANTS], n = 0;
    uint64_t share[TG_TENANTS] = {0};
    struct tg_engine *e = open_with_log(4000 + ROOM, offsets, TG_ENGINE_UNRESTRICTED);
    let_tenants(e, tenants, 0);
    for (uint32_t t = 0; t < tenants; t++) {
        left[t] = t == 0 ? FEW * more : FEW;
        publish(e, t, TG_PRIORITY_NORMAL, left[t], t);
    }
    let_all_in(e, tenants);
    gpu_engine_must(tg_engine_settle(e, GPU_LIMIT_NS), "settle");
    const uint32_t *records = log_of(e, &n);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t t = records[4 * i];
        if (t >= tenants || left[t] == 0)
            gpu_engine_must(-EBADMSG, "a record that nobody published");
        share[t]++;
        if (--left[t] == 0)
            break;
    }
    gpu_engine_close(e);
    return (double)tg_tenants_jain_ppm(share, tenants) / 1e6;
}

void gpu_engine_fairness(void)
{
    static const uint32_t tenants[] = {2, 8, 29}, more[] = {1, 100};
    char name[64];
    for (int t = 0; t < 3; t++)
        for (int m = 0; m < 2; m++) {
            snprintf(name, sizeof(name), "jain_%u_tenants_demand_%u_to_1", tenants[t], more[m]);
            gpu_row("F", name, jain(tenants[t], more[m]), "", 1, ">= 0.99");
        }
}
