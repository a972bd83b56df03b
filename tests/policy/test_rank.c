/* SPDX-License-Identifier: Apache-2.0
 * Rule A1, turns of the tenants (O10) and ageing, as units and properties over the pure functions. */
#include <tidegate/rank.h>

#include "check.h"

static void a1_priority_then_arrival(void)
{
    CHECK(tg_rank_compare(2, 9, 1, 1) < 0);
    CHECK(tg_rank_compare(1, 1, 2, 9) > 0);
    CHECK(tg_rank_compare(1, 1, 1, 2) < 0);
    CHECK(tg_rank_compare(-5, 1, 0, 2) > 0); /* S8: one order from every side */
    CHECK(tg_rank_compare(0, 2, -5, 1) < 0);
    CHECK(tg_rank_compare(INT64_MIN, 1, INT64_MAX, 1) > 0);
    CHECK_EQ(tg_rank_compare(3, 3, 3, 3), 0);
}

static void a1_priority_then_round_then_arrival(void)
{
    const struct tg_rank sorted[] = {{3, 9, 9}, {0, 1, 8}, {0, 2, 3}, {0, 2, 4}, {0, 3, 1}, {-5, 0, 2}};
    for (int a = 0; a < 6; a++)
        for (int b = 0; b < 6; b++) {
            int c = tg_rank_order(&sorted[a], &sorted[b]);
            CHECK((c > 0) - (c < 0) == (a > b) - (a < b));
        }
}

static void ageing_adds_a_level_each_time_and_never_wraps(void)
{
    CHECK_EQ(tg_rank_aged(2, 1000, 0), 2);
    CHECK_EQ(tg_rank_aged(2, 999, 1000), 2);
    CHECK_EQ(tg_rank_aged(2, 1000, 1000), 3);
    CHECK_EQ(tg_rank_aged(-5, 7999, 1000), 2);
    CHECK_EQ(tg_rank_aged(INT64_MAX, 1000, 1), INT64_MAX);
    CHECK_EQ(tg_rank_aged(INT64_MAX - 1, UINT64_MAX, 1), INT64_MAX);
    CHECK_EQ(tg_rank_aged(INT64_MIN, 3, 1), INT64_MIN + 3);
    CHECK_EQ(tg_rank_ages_at(0, 0), UINT64_MAX);
    CHECK_EQ(tg_rank_ages_at(0, 10), 10);
    CHECK_EQ(tg_rank_ages_at(19, 10), 20);
    CHECK_EQ(tg_rank_ages_at(20, 10), 30);
    CHECK_EQ(tg_rank_ages_at(UINT64_MAX, 2), UINT64_MAX);
}

static void o10_who_joins_comes_next_or_second(void)
{
    CHECK_EQ(tg_rank_round(0, 0, 0), 1);   /* an empty level */
    CHECK_EQ(tg_rank_round(0, 1, 1), 2);   /* the second of the same tenant */
    CHECK_EQ(tg_rank_round(0, 1, 0), 1);   /* another tenant, nobody has been served: the same round */
    CHECK_EQ(tg_rank_round(7, 8, 0), 8);   /* round 7 has been served, 8 not begun */
    CHECK_EQ(tg_rank_round(7, 7, 0), 8);   /* round 7 is being served */
    CHECK_EQ(tg_rank_round(7, 50, 0), 50); /* those between were cancelled */
    CHECK_EQ(tg_rank_round(7, 7, 90), 91); /* it has had its turns up to 90 */
    CHECK_EQ(tg_rank_round(7, 0, 3), 8);
}

int main(void)
{
    RUN(a1_priority_then_arrival);
    RUN(a1_priority_then_round_then_arrival);
    RUN(ageing_adds_a_level_each_time_and_never_wraps);
    RUN(o10_who_joins_comes_next_or_second);
    return 0;
}
