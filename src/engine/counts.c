/* SPDX-License-Identifier: Apache-2.0
 *
 * What readers see: the counters of the ABI in the control buffer, posted by each worker in steps, and exact
 * statistics summed over the workers. No item touches a shared counter. */
#include <stdlib.h>

#include "engine/device_host.h"
#include "engine/internal.h"

#define RUN_MASK 0x7FFFFFu /* bits of tg_levels_run */

/* Adds what is new in a counter to its word. X2 relaxed: counters of a reader that polls. */
static void post(uint32_t *word, const uint64_t *now, uint64_t *posted)
{
    uint64_t delta = *now - *posted;
    if (delta == 0)
        return;
    *posted = *now;
    tg_add_relaxed_u32(word, (uint32_t)delta);
}

/* PRIORITY_STARVATION_COUNTER: claims at CRITICAL or HIGH since the last one elsewhere. The sum of the
 * present run lies in urgent_sum, below the run's number. */
static void post_urgent(struct tg_worker *w)
{
    struct tg_engine *e = w->engine;
    uint32_t run = tg_levels_run(tg_load_relaxed_u64(&e->levels)); /* V1 */
    uint64_t mine = run == w->urgent_run ? w->counts.urgent : 0;
    uint64_t delta = run == w->urgent_posted_run ? mine - w->posted.urgent : mine;
    w->urgent_posted_run = run;
    w->posted.urgent = mine;
    uint64_t sum = tg_load_seqcst_u64(&e->urgent_sum);
    uint64_t next;
    do {
        uint32_t ahead = ((uint32_t)(sum >> 32) - run) & RUN_MASK;
        if (ahead != 0 && ahead <= RUN_MASK / 2)
            break; /* a later run began meanwhile */
        next = ahead == 0 ? sum + delta : (uint64_t)run << 32 | delta;
        /* V2 seq_cst: workers of one run add up, the first of a new run starts over. */
    } while (next != sum && !tg_cas_seqcst_u64(&e->urgent_sum, &sum, next));
    /* The word follows the sum, whoever stores last: V3 seq_cst, pairs with V2. */
    do {
        sum = tg_load_seqcst_u64(&e->urgent_sum);
        tg_store_seqcst_u32(&e->control[TG_CONTROL_PRIORITY_STARVATION_COUNTER], (uint32_t)sum);
    } while (tg_load_seqcst_u64(&e->urgent_sum) != sum);
}

void tg_counts_post(struct tg_worker *w)
{
    uint32_t *control = w->engine->control;
    struct tg_counts *now = &w->counts;
    struct tg_counts *posted = &w->posted;
    if (w->unposted == 0)
        return;
    w->unposted = 0;
    for (uint32_t i = 0; i < TG_TENANTS; i++)
        post(&control[TG_CONTROL_TENANT_FAIRNESS_BASE + i], &now->tenant_claims[i],
             &posted->tenant_claims[i]);
    for (uint32_t i = 0; i < TG_OP_FIRST_USER; i++)
        post(&control[TG_CONTROL_METRICS_BASE + i], &now->executions[i], &posted->executions[i]);
    /* R1 acquire: pairs with R2 in handlers.c. */
    uint32_t handlers = tg_load_acquire_u32(&w->engine->handlers.count);
    for (uint32_t i = 0; i < handlers; i++) {
        const struct tg_handler *h =
            tg_load_acquire_ptr((void *const *)(void *)&w->engine->handlers.by_kind[i]);
        uint32_t kind = TG_KIND_FIRST_HANDLER + i;
        if (h->opcode < TG_CONTROL_METRICS_SLOTS)
            post(&control[TG_CONTROL_METRICS_BASE + h->opcode], &now->executions[kind],
                 &posted->executions[kind]);
    }
    for (uint32_t i = 0; i < TG_PRIORITY_LEVELS; i++)
        post(&control[TG_CONTROL_PRIORITY_FAIRNESS_BASE + i], &now->level_claims[i],
             &posted->level_claims[i]);
    post_urgent(w);
    post(&control[TG_CONTROL_DONE_COUNT], &now->done, &posted->done);
}

void tg_latency_record(struct tg_worker *w, uint32_t level, uint32_t tenant, uint32_t kind, uint64_t ns)
{
    tg_hist_add_sp(&w->hists[level], ns);
    tg_hist_add_sp(&w->hists[TG_PRIORITY_LEVELS + tenant], ns);
    tg_hist_add_sp(&w->hists[TG_PRIORITY_LEVELS + TG_TENANTS + kind], ns);
}

static void latency_of(struct tg_engine *e, uint32_t hist, struct tg_hist *scratch, struct tg_latency *ret)
{
    tg_hist_reset(scratch);
    for (uint32_t i = 0; i < e->worker_count; i++) {
        /* H1 relaxed: an empty histogram stays untouched memory. */
        if (tg_load_relaxed_u64(&e->workers[i].hists[hist].count) != 0)
            tg_hist_merge(scratch, &e->workers[i].hists[hist]);
    }
    *ret = (struct tg_latency){.count = scratch->count,
                               .p50_ns = tg_hist_quantile(scratch, 0.5),
                               .p90_ns = tg_hist_quantile(scratch, 0.9),
                               .p99_ns = tg_hist_quantile(scratch, 0.99),
                               .p999_ns = tg_hist_quantile(scratch, 0.999),
                               .max_ns = scratch->max};
}

/* C2 relaxed: sums of counters with one writer each; pairs with C1. */
#define SUM(e, field)                                                                                        \
    __extension__({                                                                                          \
        uint64_t sum_ = 0;                                                                                   \
        for (uint32_t w_ = 0; w_ < (e)->worker_count; w_++)                                                  \
            sum_ += tg_load_relaxed_u64(&(e)->workers[w_].counts.field);                                     \
        sum_;                                                                                                \
    })

static void level_stats(struct tg_engine *e, uint32_t l, struct tg_hist *scratch, struct tg_level_stats *ret)
{
    struct tg_level *lv = &e->level[l];
    uint32_t own = tg_load_relaxed_u32(&lv->own); /* P0 */
    uint64_t unused = tg_free_count(e, l);
    ret->claims = SUM(e, level_claims[l]);
    ret->done = SUM(e, level_done[l]);
    ret->faults = SUM(e, level_faults[l]);
    ret->slots = own + e->foreign_slots[l];
    ret->outstanding = unused < own ? own - (uint32_t)unused : 0;
    latency_of(e, l, scratch, &ret->latency);
}

static void tenant_stats(struct tg_engine *e, uint32_t t, struct tg_hist *scratch,
                         struct tg_tenant_stats *ret)
{
    ret->claims = SUM(e, tenant_claims[t]);
    ret->done = SUM(e, tenant_done[t]);
    ret->faults = SUM(e, tenant_faults[t]);
    ret->authorised = tg_load_acquire_u32(&e->control[TG_CONTROL_TENANT_MASKS + t]) == TG_TENANT_MASK_ALL
                          ? 1u
                          : 0u; /* A1 */
    ret->quota = tg_load_acquire_u32(&e->control[TG_CONTROL_TENANT_QUOTA_BASE + t]);
    latency_of(e, TG_PRIORITY_LEVELS + t, scratch, &ret->latency);
}

void tg_engine_stats(struct tg_engine *e, struct tg_engine_stats *ret)
{
    struct tg_hist scratch;
    struct tg_engine_stats s = {0};
    if (e->device) {
        tg_device_sync(e);
        tg_device_reap(e);
    }
    s.done = SUM(e, done);
    s.requeues = SUM(e, requeues);
    s.yields = SUM(e, yields);
    s.sleeps = SUM(e, sleeps);
    s.faults = tg_load_relaxed_u64(&e->outside_faults); /* C3, here and below */
    s.cancelled = tg_load_relaxed_u64(&e->cancelled);
    s.handed_back = tg_load_relaxed_u64(&e->handed_back);
    s.log_dropped = tg_load_relaxed_u64(&e->log_dropped);
    s.wakeups = tg_load_relaxed_u64(&e->wakeups);
    if (e->device) /* M3: behind an answer (N5) */
        tg_device_born(e, &s.device_submitted, &s.device_waiting);
    s.workers = e->worker_count;
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++) {
        level_stats(e, l, &scratch, &s.level[l]);
        s.claims += s.level[l].claims;
        s.faults += s.level[l].faults;
    }
    for (uint32_t t = 0; t < TG_TENANTS; t++)
        tenant_stats(e, t, &scratch, &s.tenant[t]);
    *ret = s;
}

static uint32_t opcode_of_kind(struct tg_engine *e, uint32_t kind)
{
    static const uint32_t named[] = {TG_OP_PACKED_SLOT, TG_OP_PRINTF, TG_OP_SHUTDOWN, TG_OP_LOAD_MISS};
    if (kind < TG_OP_FIRST_USER)
        return kind;
    if (kind < TG_KIND_UNKNOWN)
        return named[kind - TG_KIND_PACKED];
    /* R1 again. */
    const struct tg_handler *h =
        tg_load_acquire_ptr((void *const *)(void *)&e->handlers.by_kind[kind - TG_KIND_FIRST_HANDLER]);
    return h->opcode;
}

uint32_t tg_engine_opcode_stats(struct tg_engine *e, struct tg_opcode_stats *ret, uint32_t capacity)
{
    struct tg_hist scratch;
    uint32_t n = 0;
    if (e->device)
        tg_device_sync(e);
    uint32_t end = TG_KIND_FIRST_HANDLER + tg_load_acquire_u32(&e->handlers.count); /* R1 */
    for (uint32_t kind = 0; kind < end; kind++) {
        if (kind == TG_KIND_UNKNOWN)
            continue;
        if (n < capacity) {
            ret[n].opcode = opcode_of_kind(e, kind);
            ret[n].executions = SUM(e, executions[kind]);
            ret[n].faults = SUM(e, faults[kind]);
            latency_of(e, TG_PRIORITY_LEVELS + TG_TENANTS + kind, &scratch, &ret[n].latency);
        }
        n++;
    }
    return n;
}
