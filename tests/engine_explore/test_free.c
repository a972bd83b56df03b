/* SPDX-License-Identifier: Apache-2.0
 * Free slots in shards (free.h): every schedule of few threads with at most two preemptions (explore.h). */
#include "scenario.h"

/* ---- E1, E8: a slot that is out is missed, whoever takes and gives back others --------------------------
 */

static bool complete;

/* One item is published and nobody will run it; nothing more is accepted. */
static void one_is_out(struct tg_engine *e)
{
    nothing_ran(e);
    publish(e, 0, TG_PRIORITY_NORMAL, 0);
    tg_store_seqcst_u32(&e->accepting, 0);
}

static void counts(struct tg_engine *e)
{
    complete = tg_free_all(e);
}

static void is_refused(struct tg_engine *e)
{
    uint32_t number = 1;
    outcome = tg_engine_submit(e, 0, TG_PRIORITY_NORMAL, OP_RUN, &number, 1, NULL);
}

static void was_missed(struct tg_engine *e, const bool *ended)
{
    CHECK(ended[0] && ended[1]);
    CHECK_EQ(outcome, -ESHUTDOWN);
    CHECK(!complete);
    CHECK_EQ(tg_free_count(e, TG_PRIORITY_NORMAL), e->level[TG_PRIORITY_NORMAL].own - 1);
}

static void e8_a_refused_submitter_hides_no_item(void)
{
    for (uint32_t shards = 1; shards <= 2; shards++) {
        struct explore_scenario s = scenario(__func__, 20, 1, 2);
        s.workers = 0;
        s.shards = shards;
        s.thread[0] = counts;
        s.thread[1] = is_refused;
        s.check = was_missed;
        s.reset = one_is_out;
        explore(&s);
    }
}

/* ---- Every slot is within everybody's reach -------------------------------------------------------------
 */

static void publishes_or_waits(struct tg_engine *e, uint32_t number)
{
    int r;
    while ((r = tg_engine_submit(e, 0, TG_PRIORITY_NORMAL, OP_RUN, &number, 1, &ticket[number])) == -EAGAIN)
        CHECK_EQ(tg_engine_wait_space(e, TG_PRIORITY_NORMAL, LIMIT), 0);
    CHECK_EQ(r, 0);
}

static void publishes_two(struct tg_engine *e)
{
    publishes_or_waits(e, 0);
    publishes_or_waits(e, 1);
}

static void publishes_third(struct tg_engine *e)
{
    publishes_or_waits(e, 2);
}

static void three_ran_once(struct tg_engine *e, const bool *ended)
{
    CHECK(ended[0] && ended[1]); /* else one sleeps beside a free slot of the other's shard */
    for (uint32_t i = 0; i < 3; i++)
        CHECK_EQ(runs[i], 1);
    all_over(e);
    CHECK(tg_free_all(e));
}

static void e1_two_submitters_share_two_shards(void)
{
    struct explore_scenario s = scenario(__func__, 10, 1, 2);
    s.shards = 2;
    s.thread[0] = publishes_two;
    s.thread[1] = publishes_third;
    s.check = three_ran_once;
    s.reset = with_handler;
    explore(&s);
}

/* ---- A run of slots across shards: all or nothing -------------------------------------------------------
 */

static void publishes_all(struct tg_engine *e)
{
    const uint32_t number[2] = {0, 1};
    const struct tg_batch_item items[2] = {{OP_RUN, &number[0], 1}, {OP_RUN, &number[1], 1}};
    outcome = tg_engine_submit_many(e, 0, TG_PRIORITY_NORMAL, items, 2, NULL);
}

static void all_or_nothing(struct tg_engine *e, const bool *ended)
{
    CHECK(ended[0] && ended[1]);
    CHECK(outcome == 0 || outcome == -EAGAIN);
    CHECK_EQ(runs[0], outcome == 0 ? 1 : 0);
    CHECK_EQ(runs[1], outcome == 0 ? 1 : 0);
    CHECK_EQ(runs[2], 1);
    all_over(e);
    CHECK(tg_free_all(e));
}

static void a_run_takes_all_its_slots_or_none(void)
{
    struct explore_scenario s = scenario(__func__, 10, 1, 2);
    s.shards = 2;
    s.thread[0] = publishes_all;
    s.thread[1] = publishes_third;
    s.check = all_or_nothing;
    s.reset = with_handler;
    explore(&s);
}

int main(void)
{
    RUN(e8_a_refused_submitter_hides_no_item);
    RUN(e1_two_submitters_share_two_shards);
    RUN(a_run_takes_all_its_slots_or_none);
    return 0;
}
