/* SPDX-License-Identifier: Apache-2.0
 * Cancel and fences: every schedule of few threads with at most two preemptions (explore.h). */
#include "scenario.h"

/* ---- Cancel against claim -------------------------------------------------------------------------------
 */

static void publishes_and_cancels(struct tg_engine *e)
{
    publish(e, 0, TG_PRIORITY_NORMAL, 0);
    outcome = tg_engine_cancel(e, &ticket[0]);
}

static void ran_or_cancelled(struct tg_engine *e, const bool *ended)
{
    CHECK(ended[0]);
    CHECK(outcome == 0 || outcome == -EBUSY || outcome == -EALREADY);
    CHECK_EQ(runs[0], outcome == 0 ? 0 : 1);
    all_over(e);
}

static void e1_run_or_cancelled_never_both(void)
{
    struct explore_scenario s = scenario(__func__, 5, 2, 2);
    s.thread[0] = publishes_and_cancels;
    s.check = ran_or_cancelled;
    s.reset = with_handler;
    explore(&s);
}

/* The slot is used again while an owner of its former use cancels: the later item is not taken. */
static void cancels_the_first(struct tg_engine *e)
{
    if (ticket[0].generation)
        outcome = tg_engine_cancel(e, &ticket[0]);
}

static void later_item_ran(struct tg_engine *e, const bool *ended)
{
    CHECK(ended[0] && ended[1]);
    CHECK_EQ(runs[0], outcome == 0 ? 0 : 1);
    CHECK_EQ(runs[1], 1);
    all_over(e);
}

static void e1_cancel_never_takes_a_later_use(void)
{
    struct explore_scenario s = scenario(__func__, 5, 1, 2);
    s.thread[0] = waits_for_space;
    s.thread[1] = cancels_the_first;
    s.check = later_item_ran;
    s.reset = with_handler;
    explore(&s);
}

/* ---- Fences ---------------------------------------------------------------------------------------------
 */

static uint32_t batch_items;

static void publishes_a_batch(struct tg_engine *e)
{
    const uint32_t number[2] = {0, 1};
    const struct tg_batch_item items[2] = {{OP_RUN, &number[0], 1}, {OP_RUN, &number[1], 1}};
    CHECK_EQ(
        tg_engine_submit_batch_items(e, 0, TG_PRIORITY_NORMAL, items, batch_items, 7, ticket, &ticket[2]), 0);
}

static void batch_ran(struct tg_engine *e, const bool *ended)
{
    CHECK(ended[0]);
    for (uint32_t i = 0; i < batch_items; i++)
        CHECK(runs[i] == 1 && epoch_at[i] == 0);
    all_over(e);
}

static void fence_came_last(struct tg_engine *e, const bool *ended)
{
    batch_ran(e, ended);
    CHECK_EQ(e->control[TG_CONTROL_EPOCH], 1);
    CHECK_EQ(e->control[TG_CONTROL_OBSERVABLE_BASE], 7);
    CHECK_EQ(tg_engine_poll(e, &ticket[2]), 0);
}

/* Whoever sees the fence DONE sees its items ended, at every moment. */
static void publishes_and_looks(struct tg_engine *e)
{
    publishes_a_batch(e);
    if (tg_engine_poll(e, &ticket[2]) != 0)
        return;
    for (uint32_t i = 0; i < batch_items; i++)
        CHECK_EQ(tg_engine_poll(e, &ticket[i]), 0);
}

static void e5_the_fence_is_last_and_is_not_forgotten(void)
{
    for (batch_items = 1; batch_items <= 2; batch_items++) { /* two workers, then one */
        struct explore_scenario s = scenario(__func__, 20, 3 - batch_items, 2);
        s.thread[0] = publishes_and_looks;
        s.check = fence_came_last;
        s.reset = with_handler;
        explore(&s);
    }
}

static void cancels_the_fence(struct tg_engine *e)
{
    batch_items = 2;
    publishes_a_batch(e);
    outcome = tg_engine_cancel(e, &ticket[2]);
}

static void fence_ran_or_was_cancelled(struct tg_engine *e, const bool *ended)
{
    CHECK(ended[0]);
    CHECK(runs[0] == 1 && runs[1] == 1);
    all_over(e);
    CHECK_EQ(e->control[TG_CONTROL_EPOCH], outcome == 0 ? 0 : 1);
}

static void e5_a_cancelled_fence_gives_its_slot_back_once(void)
{
    struct explore_scenario s = scenario(__func__, 20, 1, 2);
    s.thread[0] = cancels_the_fence;
    s.check = fence_ran_or_was_cancelled;
    s.reset = with_handler;
    explore(&s);
}

int main(void)
{
    RUN(e1_run_or_cancelled_never_both);
    RUN(e1_cancel_never_takes_a_later_use);
    RUN(e5_the_fence_is_last_and_is_not_forgotten);
    RUN(e5_a_cancelled_fence_gives_its_slot_back_once);
    return 0;
}
