/* SPDX-License-Identifier: Apache-2.0
 * Claim, sleep and wait: every schedule of few threads with at most two preemptions (explore.h). */
#include "scenario.h"

/* ---- E1, E10: one producer, two workers ---------------------------------------------------------------- */

static void publishes_two(struct tg_engine *e)
{
    publish(e, 0, TG_PRIORITY_NORMAL, 0);
    publish(e, 1, TG_PRIORITY_HIGH, 1);
}

static void e10_no_item_beside_sleepers(void)
{
    struct explore_scenario s = scenario(__func__, 5, 2, 2);
    s.thread[0] = publishes_two;
    s.check = both_ran_once;
    s.reset = with_handler;
    explore(&s);
}

static void publishes_first(struct tg_engine *e)
{
    publish(e, 0, TG_PRIORITY_NORMAL, 0);
}

static void publishes_second(struct tg_engine *e)
{
    publish(e, 0, TG_PRIORITY_NORMAL, 1);
}

static void both_producers_done(struct tg_engine *e, const bool *ended)
{
    CHECK(ended[1]);
    both_ran_once(e, ended);
}

static void e1_two_producers_of_one_queue(void)
{
    struct explore_scenario s = scenario(__func__, 10, 1, 2);
    s.thread[0] = publishes_first;
    s.thread[1] = publishes_second;
    s.check = both_producers_done;
    s.reset = with_handler;
    explore(&s);
}

/* A queue a submitter, and two workers that each serve one of them first. */
static void e1_two_shards(void)
{
    struct explore_scenario s = scenario(__func__, 10, 2, 1);
    s.shards = 2;
    s.thread[0] = publishes_first;
    s.thread[1] = publishes_second;
    s.check = both_producers_done;
    s.reset = with_handler;
    explore(&s);
    s.bound = 2;
    s.workers = 1; /* a worker alone looks at both */
    explore(&s);
}

/* ---- E8: the end ----------------------------------------------------------------------------------------
 */

static void publishes_then_stops(struct tg_engine *e)
{
    publish(e, 0, TG_PRIORITY_NORMAL, 0);
    tg_store_seqcst_u32(&e->accepting, 0);
    tg_store_seqcst_u32(&e->control[TG_CONTROL_SHUTDOWN], 1);
    tg_wake_all(e);
}

static void ran_and_left(struct tg_engine *e, const bool *ended)
{
    CHECK(ended[0] && ended[1] && ended[2]); /* no worker sleeps beside the word */
    CHECK_EQ(runs[0], 1);
    all_over(e);
}

static void e8_a_stop_abandons_nothing(void)
{
    struct explore_scenario s = scenario(__func__, 5, 2, 2);
    s.thread[0] = publishes_then_stops;
    s.check = ran_and_left;
    s.reset = with_handler;
    explore(&s);
}

/* ---- Waiters --------------------------------------------------------------------------------------------
 */

static void publishes_and_waits(struct tg_engine *e)
{
    publish(e, 0, TG_PRIORITY_NORMAL, 0);
    outcome = tg_engine_wait(e, &ticket[0], LIMIT);
}

static void waiter_heard(struct tg_engine *e, const bool *ended)
{
    CHECK(ended[0]); /* else it sleeps beside a finished item */
    CHECK_EQ(outcome, 0);
    CHECK_EQ(runs[0], 1);
    all_over(e);
}

static void e7_no_waiter_sleeps_beside_its_end(void)
{
    struct explore_scenario s = scenario(__func__, 5, 1, 2);
    s.thread[0] = publishes_and_waits;
    s.check = waiter_heard;
    s.reset = with_handler;
    explore(&s);
}

static void nobody_waits_for_space_that_is_there(void)
{
    struct explore_scenario s = scenario(__func__, 5, 1, 2);
    s.thread[0] = waits_for_space;
    s.check = both_ran_once;
    s.reset = with_handler;
    explore(&s);
}

/* ---- Tenants --------------------------------------------------------------------------------------------
 */

static void switches_off_and_on(struct tg_engine *e)
{
    CHECK_EQ(tg_engine_set_tenant(e, 1, 0), 0);
    CHECK_EQ(tg_engine_set_tenant(e, 1, 1), 0);
}

static void publishes_for_tenant_1(struct tg_engine *e)
{
    publish(e, 1, TG_PRIORITY_NORMAL, 0);
}

static void first_ran(struct tg_engine *e, const bool *ended)
{
    CHECK(ended[0] && ended[1]);
    CHECK_EQ(runs[0], 1);
    all_over(e);
}

static void e4_switched_on_again_it_runs(void)
{
    struct explore_scenario s = scenario(__func__, 5, 1, 2);
    s.thread[0] = publishes_for_tenant_1;
    s.thread[1] = switches_off_and_on;
    s.check = first_ran;
    s.reset = with_handler;
    explore(&s);
}

/* Two workers after two items of a tenant that may claim twice: who comes too late gives its claim back. */
static void publishes_two_of_a_tenant(struct tg_engine *e)
{
    e->control[TG_CONTROL_TENANT_QUOTA_BASE + 1] = 2;
    publish(e, 1, TG_PRIORITY_NORMAL, 0);
    publish(e, 1, TG_PRIORITY_NORMAL, 1);
}

static void quota_is_used_up(struct tg_engine *e, const bool *ended)
{
    both_ran_once(e, ended);
    CHECK_EQ(e->control[TG_CONTROL_TENANT_QUOTA_BASE + 1], 0);
}

static void e4_no_claim_of_a_quota_is_lost(void)
{
    struct explore_scenario s = scenario(__func__, 10, 2, 2);
    s.thread[0] = publishes_two_of_a_tenant;
    s.check = quota_is_used_up;
    s.reset = with_handler;
    explore(&s);
}

int main(void)
{
    RUN(e10_no_item_beside_sleepers);
    RUN(e1_two_producers_of_one_queue);
    RUN(e1_two_shards);
    RUN(e8_a_stop_abandons_nothing);
    RUN(e7_no_waiter_sleeps_beside_its_end);
    RUN(nobody_waits_for_space_that_is_there);
    RUN(e4_switched_on_again_it_runs);
    RUN(e4_no_claim_of_a_quota_is_lost);
    return 0;
}
