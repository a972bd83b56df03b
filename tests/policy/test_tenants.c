/* SPDX-License-Identifier: Apache-2.0
 * E4: who may claim, and turns that share a level evenly. */
#include <tidegate/tenants.h>

#include "check.h"

static void e4_tenant_29_157_ffffffff_not_in_table(void)
{
    CHECK(tg_tenant_in_table(0) && tg_tenant_in_table(28));
    CHECK(!tg_tenant_in_table(29) && !tg_tenant_in_table(157) && !tg_tenant_in_table(0xFFFFFFFFu));
}

static void e4_mask_and_quota_are_closed_by_default(void)
{
    CHECK(tg_tenant_may_claim(TG_TENANT_MASK_ALL, 1));
    CHECK(tg_tenant_may_claim(TG_TENANT_MASK_ALL, TG_TENANT_QUOTA_UNLIMITED));
    CHECK(!tg_tenant_may_claim(TG_TENANT_MASK_ALL, 0));
    CHECK(!tg_tenant_may_claim(0, 5));
    CHECK(!tg_tenant_may_claim(1, 5));
}

static void e4_yields_after_64_and_only_to_others(void)
{
    struct tg_tenant_turn turn = {0};
    for (int i = 0; i < 1000; i++)
        CHECK_EQ(tg_tenants_choose(&turn, 1u << 0, 64), 0);
    /* Nobody waited, so the turn is used up: the first other one is served at once. */
    CHECK_EQ(tg_tenants_choose(&turn, 1u << 0 | 1u << 7, 64), 7);
    for (int i = 1; i < 64; i++)
        CHECK_EQ(tg_tenants_choose(&turn, 1u << 0 | 1u << 7, 64), 7);
    CHECK_EQ(tg_tenants_choose(&turn, 1u << 0 | 1u << 7, 64), 0);
    CHECK_EQ(tg_tenants_choose(&turn, 0, 64), TG_TENANTS);
}

static void e4_backlogged_tenants_share_evenly(void)
{
    for (uint32_t workers = 1; workers <= 80; workers += 13) {
        struct tg_tenant_turn turn = {0};
        uint64_t served[TG_TENANTS] = {0};
        uint32_t quantum = tg_tenants_quantum(workers);
        CHECK(quantum >= 1 && quantum * (workers < 64 ? workers : 1) <= TG_TENANT_FAIRNESS_THRESHOLD);
        for (int i = 0; i < 200000; i++)
            served[tg_tenants_choose(&turn, TG_TENANTS_ALL, quantum)]++;
        CHECK(tg_tenants_jain_ppm(served, TG_TENANTS) > 999000);
    }
}

/* Tenants come and go; whoever waits is served within one round of everybody's quantum. */
static void e4_every_waiting_tenant_has_its_turn(void)
{
    uint64_t seed = 4711;
    struct tg_tenant_turn turn = {0};
    uint32_t waiting = 0;
    uint32_t waited[TG_TENANTS] = {0};
    for (int i = 0; i < 500000; i++) {
        waiting |= (uint32_t)check_random(&seed) & TG_TENANTS_ALL;
        if (i % 3 == 0)
            waiting &= (uint32_t)check_random(&seed) | 1u << 28;
        uint32_t t = tg_tenants_choose(&turn, waiting, 64);
        CHECK(t == TG_TENANTS ? waiting == 0 : (waiting >> t & 1u) != 0);
        for (uint32_t o = 0; o < TG_TENANTS; o++) {
            waited[o] = o == t || !(waiting >> o & 1u) ? 0 : waited[o] + 1;
            CHECK(waited[o] <= (TG_TENANTS - 1) * 64);
        }
    }
}

static void jain_index_of_known_shares(void)
{
    uint64_t equal[4] = {5, 5, 5, 5};
    uint64_t one[4] = {20, 0, 0, 0};
    CHECK_EQ(tg_tenants_jain_ppm(equal, 4), 1000000);
    CHECK_EQ(tg_tenants_jain_ppm(one, 4), 250000);
    CHECK_EQ(tg_tenants_jain_ppm(one, 0), 1000000);
}

int main(void)
{
    RUN(e4_tenant_29_157_ffffffff_not_in_table);
    RUN(e4_mask_and_quota_are_closed_by_default);
    RUN(e4_yields_after_64_and_only_to_others);
    RUN(e4_backlogged_tenants_share_evenly);
    RUN(e4_every_waiting_tenant_has_its_turn);
    RUN(jain_index_of_known_shares);
    return 0;
}
