/* SPDX-License-Identifier: Apache-2.0
 * Workers stopped at bad points between their look and their claim: no level loses the overtakings it has
 * suffered (E3), and no worker sleeps beside what it could run while another keeps busy (E3, E4). Every
 * schedule of few threads with at most two preemptions (explore.h). */
#include "scenario.h"

#include "engine/futex.h"

#define OP_NEEDS 9u /* ends when item 1 has run */

static int run_and_tell(void *context, struct tg_op *op)
{
    run(context, op);
    tg_futex_wake(&runs[1], 1);
    return TG_OP_FINISHED;
}

static int needs_item_1(void *context, struct tg_op *op)
{
    (void)context;
    runs[op->args[0]]++;
    while (runs[1] == 0)
        tg_futex_wait(&runs[1], 0, LIMIT);
    return TG_OP_FINISHED;
}

static void publish_needing(struct tg_engine *e, uint32_t tenant, uint32_t level, uint32_t number)
{
    CHECK_EQ(tg_engine_submit(e, tenant, level, OP_NEEDS, &number, 1, &ticket[number]), 0);
}

static void with_needs(struct tg_engine *e)
{
    nothing_ran(e);
    CHECK_EQ(tg_engine_register(e, OP_RUN, run_and_tell, NULL), 0);
    CHECK_EQ(tg_engine_register(e, OP_NEEDS, needs_item_1, NULL), 0);
}

/* ---- A mark that is cleared and set again ---------------------------------------------------------------
 */

/* Tenant 1's queue is marked and empty, and whoever meets that next tidies. Item 0 waits for item 1. */
static void a_stale_mark(struct tg_engine *e)
{
    with_needs(e);
    publish_needing(e, 0, TG_PRIORITY_NORMAL, 0);
    tg_ready_set(e, 0, TG_PRIORITY_CRITICAL, 1);
    e->workers[0].stale = 7;
}

/* Worker 1 found nothing before all that, and goes to sleep now. */
static void falls_asleep(struct tg_engine *e)
{
    tg_worker_sleep(&e->workers[1], LIMIT);
    tg_worker_main(&e->workers[1]);
}

static void publishes_item_1(struct tg_engine *e)
{
    publish(e, 1, TG_PRIORITY_CRITICAL, 1);
}

static void e3_tidying_hides_no_item_from_who_falls_asleep(void)
{
    struct explore_scenario s = scenario(__func__, 5, 2, 2);
    s.workers = 1;
    s.thread[0] = publishes_item_1;
    s.thread[1] = falls_asleep;
    s.check = both_ran_once; /* else one sleeps beside item 1 while the other waits for it */
    s.reset = a_stale_mark;
    explore(&s);
}

/* ---- A claim that is given back -------------------------------------------------------------------------
 */

/* Tenant 1 may claim once; before item 1 stands a cancelled one, so who meets that gives the claim back.
 * Item 0, of tenant 2, waits for item 1. */
static void one_claim_left(struct tg_engine *e)
{
    with_needs(e);
    e->control[TG_CONTROL_TENANT_QUOTA_BASE + 1] = 1;
    publish(e, 1, TG_PRIORITY_NORMAL, 2);
    publish(e, 1, TG_PRIORITY_NORMAL, 1);
    CHECK_EQ(tg_engine_cancel(e, &ticket[2]), 0);
    publish_needing(e, 2, TG_PRIORITY_NORMAL, 0);
    /* Tenant 1's turn is at its end once the cancelled one is met. */
    e->workers[0].turn[TG_PRIORITY_NORMAL] = (struct tg_tenant_turn){1, e->workers[0].quantum - 1};
}

static void both_ran(struct tg_engine *e, const bool *ended)
{
    (void)ended;
    CHECK_EQ(runs[0], 1);
    CHECK_EQ(runs[1], 1);
    CHECK_EQ(e->control[TG_CONTROL_TENANT_QUOTA_BASE + 1], 0);
    all_over(e);
}

static void e4_a_claim_given_back_wakes_who_missed_it(void)
{
    struct explore_scenario s = scenario(__func__, 20, 2, 2);
    s.workers = 1;
    s.thread[0] = falls_asleep;
    s.check = both_ran;
    s.reset = one_claim_left;
    explore(&s);
}

/* ---- A look that has grown old --------------------------------------------------------------------------
 */

enum { FLOOD = 24 };
static bool low_waits, low_ran;
static uint32_t overtaken, overtaken_by_others;

static int overtakes(void *context, struct tg_op *op)
{
    (void)context;
    if (op->priority == TG_PRIORITY_LOW)
        low_ran = true, low_waits = false;
    else if (low_waits)
        overtaken++;
    return TG_OP_FINISHED;
}

static void a_flood(struct tg_engine *e)
{
    nothing_ran(e);
    low_waits = low_ran = false;
    overtaken = overtaken_by_others = 0;
    CHECK_EQ(tg_engine_register(e, OP_RUN, overtakes, NULL), 0);
    for (uint32_t i = 0; i < FLOOD; i++)
        CHECK_EQ(tg_engine_submit(e, 0, TG_PRIORITY_CRITICAL, OP_RUN, NULL, 0, NULL), 0);
    /* Something to look at behind LOW, for who scans. */
    e->control[TG_CONTROL_TENANT_MASKS + 5] = TG_TENANT_MASK_NONE;
    CHECK_EQ(tg_engine_submit(e, 5, TG_PRIORITY_IDLE, OP_RUN, NULL, 0, NULL), 0);
}

/* LOW gets an item, and the other workers, whose claims are made here, go on at CRITICAL until it is due. */
static void low_comes_and_is_overtaken(struct tg_engine *e)
{
    const uint32_t work = 1u << TG_PRIORITY_CRITICAL | 1u << TG_PRIORITY_LOW;
    CHECK_EQ(tg_engine_submit(e, 0, TG_PRIORITY_LOW, OP_RUN, NULL, 0, NULL), 0);
    low_waits = !low_ran;
    while (low_waits && overtaken_by_others < 15) {
        uint64_t state = tg_load_relaxed_u64(&e->levels);
        /* The run of claims at CRITICAL ends when somebody decides for LOW. */
        if (tg_levels_choose(state, work) != TG_PRIORITY_CRITICAL || tg_levels_run(state) != 0)
            break;
        if (tg_levels_advance(e, state, work, TG_PRIORITY_CRITICAL) && low_waits)
            overtaken_by_others++;
    }
    CHECK_EQ(tg_engine_set_tenant(e, 5, 1), 0);
}

/* One more for the worker, and one for the others. */
static void bound_held(struct tg_engine *e, const bool *ended)
{
    CHECK(ended[0]);
    CHECK(low_ran);
    CHECK(overtaken + overtaken_by_others <= TG_OVERTAKING_BOUND + 2);
    all_over(e);
}

static void e3_an_old_look_forgets_no_overtakings(void)
{
    struct explore_scenario s = scenario(__func__, 5 * FLOOD, 2, 2);
    s.workers = 1;
    s.thread[0] = low_comes_and_is_overtaken;
    s.check = bound_held;
    s.reset = a_flood;
    explore(&s);
    s.options.flags = TG_ENGINE_SCAN;
    explore(&s);
}

int main(void)
{
    RUN(e3_tidying_hides_no_item_from_who_falls_asleep);
    RUN(e4_a_claim_given_back_wakes_who_missed_it);
    RUN(e3_an_old_look_forgets_no_overtakings);
    return 0;
}
