/* SPDX-License-Identifier: Apache-2.0
 * What the explored scenarios share: an opcode that counts its runs, a small engine, what must hold at the
 * end of every schedule. */
#ifndef TG_TESTS_EXPLORE_SCENARIO_H
#define TG_TESTS_EXPLORE_SCENARIO_H

#include "explore.h"

#include <errno.h>

#define OP_RUN 8u
#define LIMIT UINT64_C(20000000000)

static struct tg_item ticket[4];
static int outcome;
static uint32_t runs[4], epoch_at[4];

static inline int run(void *context, struct tg_op *op)
{
    (void)context;
    runs[op->args[0]]++;
    epoch_at[op->args[0]] = op->engine->control[TG_CONTROL_EPOCH];
    return TG_OP_FINISHED;
}

static inline void nothing_ran(struct tg_engine *e)
{
    (void)e;
    memset(runs, 0, sizeof(runs));
    memset(ticket, 0, sizeof(ticket));
    outcome = 1;
}

static inline void publish(struct tg_engine *e, uint32_t tenant, uint32_t level, uint32_t number)
{
    CHECK_EQ(tg_engine_submit(e, tenant, level, OP_RUN, &number, 1, &ticket[number]), 0);
}

/* Nothing is published, claimed or parked any more; every slot is back; workers sleep or have left. */
static inline void all_over(struct tg_engine *e)
{
    for (uint32_t s = 0; s < e->slots; s++) {
        uint32_t status = e->ring[s].status;
        CHECK(status == TG_SLOT_EMPTY || status == TG_SLOT_DONE || status == TG_SLOT_FAULT);
        CHECK_EQ(e->attention_of[s] & TG_ATT_HOLDS, 0);
    }
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
        CHECK_EQ(tg_free_count(e, l), e->level[l].own);
    CHECK_EQ(e->grants, 0);
    CHECK_EQ(e->attention, 0);
}

static inline struct explore_scenario scenario(const char *name, uint32_t slots, uint32_t workers,
                                               uint32_t bound)
{
    struct explore_scenario s = {.name = name, .workers = workers, .bound = bound, .reset = nothing_ran};
    tg_engine_options_init(&s.options);
    s.options.slots = slots;
    s.options.workers = workers;
    s.options.spin_us = 0;
    s.options.latency_every = 0;
    s.options.observables = 1;
    s.options.log_records = 0;
    return s;
}

/* The handler table is outside the engine's state: registered by the first schedule's reset, kept by all. */
static inline void with_handler(struct tg_engine *e)
{
    nothing_ran(e);
    CHECK_EQ(tg_engine_register(e, OP_RUN, run, NULL), 0);
}

static inline void both_ran_once(struct tg_engine *e, const bool *ended)
{
    CHECK(ended[0]);
    CHECK_EQ(runs[0], 1);
    CHECK_EQ(runs[1], 1);
    all_over(e);
}

/* The level has one slot: the second submitter waits for it. */
static inline void waits_for_space(struct tg_engine *e)
{
    uint32_t number = 1;
    int r;
    publish(e, 0, TG_PRIORITY_NORMAL, 0);
    while ((r = tg_engine_submit(e, 0, TG_PRIORITY_NORMAL, OP_RUN, &number, 1, &ticket[1])) == -EAGAIN)
        CHECK_EQ(tg_engine_wait_space(e, TG_PRIORITY_NORMAL, LIMIT), 0);
    CHECK_EQ(r, 0);
}

#endif
