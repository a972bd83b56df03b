/* SPDX-License-Identifier: Apache-2.0
 * The demo's judge must be able to say no: planted faults of every kind are found, honest runs are not. */
#include "cli/demo_check.h"
#include "check.h"

static const struct tg_demo_limits limits = {.slots = 2, .budget_mb = 1000, .overtake_bound = 16};

static struct tg_demo_job ran(int64_t prio, uint64_t seq, uint64_t est_mb, uint64_t from, uint64_t to)
{
    struct tg_demo_job j = {.prio = prio,
                            .seq = seq,
                            .est_mb = est_mb,
                            .queued_ns = 1,
                            .granted_ns = from,
                            .start_ns = from + 1,
                            .end_ns = to,
                            .exit_ns = to + 5};
    return j;
}

static void counts_what_ran_at_once(void)
{
    struct tg_demo_job j[] = {ran(2, 1, 400, 100, 200), ran(2, 2, 400, 150, 300), ran(2, 3, 300, 160, 170)};
    CHECK_EQ(tg_demo_most_at_once(j, 2), 2);
    CHECK_EQ(tg_demo_most_at_once(j, 3), 3);
    CHECK_EQ(tg_demo_most_memory(j, 2), 800);
    CHECK_EQ(tg_demo_most_memory(j, 3), 1100);
}

static void a1_honest_order_is_accepted(void)
{
    struct tg_demo_job j[] = {ran(4, 3, 100, 100, 200), ran(2, 1, 100, 101, 300), ran(2, 2, 100, 203, 400)};
    size_t a, b;
    CHECK_EQ(tg_demo_order_faults(j, 3, &limits, &a, &b), 0);
}

static void a1_a_lower_rank_first_is_found(void)
{
    struct tg_demo_job j[] = {ran(2, 1, 100, 100, 200), ran(2, 2, 100, 101, 300), ran(0, 3, 100, 203, 400),
                              ran(3, 4, 100, 303, 500)};
    size_t a = 9, b = 9;
    CHECK(tg_demo_order_faults(j, 4, &limits, &a, &b) > 0);
    CHECK_EQ(a, 3);
    CHECK(b < 3);
    j[3].queued_ns = 250; /* it came after the other had been granted: no fault */
    CHECK_EQ(tg_demo_order_faults(j, 4, &limits, &a, &b), 0);
}

static void a3_backfill_is_right_only_while_the_big_one_does_not_fit(void)
{
    /* 900 MB waits beside 400 MB; 100 MB may pass while the 400 MB run, and not after. */
    struct tg_demo_job j[] = {ran(4, 1, 400, 100, 500), ran(3, 2, 900, 600, 700), ran(2, 3, 100, 150, 250)};
    size_t a, b;
    CHECK_EQ(tg_demo_order_faults(j, 3, &limits, &a, &b), 0);
    CHECK_EQ(tg_demo_times_passed(j, 3, 1), 1);
    j[2] = ran(2, 3, 100, 550, 580); /* the 400 MB had ended and were gone: the big one fitted */
    CHECK_EQ(tg_demo_order_faults(j, 3, &limits, &a, &b), 1);
    CHECK(a == 1 && b == 2);
    j[2] = ran(2, 3, 100, 503, 580); /* ended at 500, wrapper gone at 505: the accused is believed */
    CHECK_EQ(tg_demo_order_faults(j, 3, &limits, &a, &b), 0);
}

int main(void)
{
    RUN(counts_what_ran_at_once);
    RUN(a1_honest_order_is_accepted);
    RUN(a1_a_lower_rank_first_is_found);
    RUN(a3_backfill_is_right_only_while_the_big_one_does_not_fit);
    return 0;
}
