/* SPDX-License-Identifier: Apache-2.0
 * Counters of one worker. Each has one writer, so an increment is a load and a store; readers sum over the
 * workers. No item touches a counter that workers share. */
#ifndef TG_ENGINE_COUNTS_H
#define TG_ENGINE_COUNTS_H

#include <stdint.h>

#include <tidegate/abi.h>
#include <tidegate/tenants.h>

#include "base/atomic.h"

/* Counter indices of opcodes: 0..7 themselves, then these, then the registered handlers. */
enum {
    TG_KIND_PACKED = 8,
    TG_KIND_PRINTF,
    TG_KIND_SHUTDOWN,
    TG_KIND_LOAD_MISS,
    TG_KIND_UNKNOWN,
    TG_KIND_FIRST_HANDLER,
    TG_KINDS = TG_KIND_FIRST_HANDLER + 256
};

struct tg_counts {
    uint64_t done, requeues, yields, sleeps;
    uint64_t urgent; /* claims at CRITICAL or HIGH in the present run */
    uint64_t level_claims[TG_PRIORITY_LEVELS];
    uint64_t level_done[TG_PRIORITY_LEVELS];
    uint64_t level_faults[TG_PRIORITY_LEVELS];
    uint64_t tenant_claims[TG_TENANTS];
    uint64_t tenant_done[TG_TENANTS];
    uint64_t tenant_faults[TG_TENANTS];
    uint64_t executions[TG_KINDS];
    uint64_t faults[TG_KINDS];
};

/* C1 relaxed: one writer; pairs with C2. The host that saw DONE (S3, S6) sees the counts behind it. */
static inline void tg_count(uint64_t *counter)
{
    tg_store_relaxed_u64(counter, *counter + 1);
}

struct tg_worker;
struct tg_engine;

/* Publishes what changed since the last time into the control buffer. */
void tg_counts_post(struct tg_worker *w);
/* Records publish to done of a sampled item. */
void tg_latency_record(struct tg_worker *w, uint32_t level, uint32_t tenant, uint32_t kind, uint64_t ns);

#endif
