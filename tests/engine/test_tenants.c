/* SPDX-License-Identifier: Apache-2.0
 * E4: the table, quotas, switching off and on; and that nothing of one tenant leaks to another. */
#include "engine_test.h"

static void e4_tenant_29_157_ffffffff_refused(void)
{
    struct tg_engine *e = test_engine(64, 1);
    const uint32_t outside[] = {29, 31, 32, 157, 0xFFFFFFFFu};
    struct tg_batch_item item = {TG_OP_NOP, NULL, 0};
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(tg_engine_submit(e, outside[i], 0, TG_OP_NOP, NULL, 0, NULL), -EPERM);
        CHECK_EQ(tg_engine_submit_many(e, outside[i], 0, &item, 1, NULL), -EPERM);
        CHECK_EQ(tg_engine_submit_batch(e, outside[i], 0, &item, 1, 0, NULL), -EPERM);
        CHECK_EQ(tg_engine_set_tenant(e, outside[i], 1), -EINVAL);
        CHECK_EQ(tg_engine_set_quota(e, outside[i], 1), -EINVAL);
    }
    CHECK_EQ(submit_soon(e, 28, 0, TG_OP_NOP, NULL, 0, NULL), 0);
    test_close(e);
}

static void e4_switched_off_stays_published_and_blocks_nobody(void)
{
    struct tg_engine *e = test_engine(64, 2);
    struct tg_item off[5], on;
    CHECK_EQ(tg_engine_set_tenant(e, 3, 0), 0);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(submit_soon(e, 3, TG_PRIORITY_CRITICAL, TG_OP_NOP, NULL, 0, &off[i]), 0);
    for (int i = 0; i < 300; i++) {
        CHECK_EQ(submit_soon(e, 4, TG_PRIORITY_IDLE, TG_OP_NOP, NULL, 0, &on), 0);
        CHECK_EQ(tg_engine_wait(e, &on, LIMIT), 0);
    }
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(test_status(e, off[i].slot), TG_SLOT_PUBLISHED);
        CHECK_EQ(tg_engine_poll(e, &off[i]), -EINPROGRESS);
    }
    CHECK_EQ(tg_engine_wait(e, &off[0], SECOND / 50), -ETIMEDOUT);
    CHECK_EQ(tg_engine_set_tenant(e, 3, 1), 0);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(tg_engine_wait(e, &off[i], LIMIT), 0);
    test_close(e);
}

static void e4_quota_counts_down_at_the_claim(void)
{
    struct tg_engine_options o = test_options(320, 2);
    struct tg_item t[20];
    o.tenants = 2;
    o.quota = TG_TENANT_QUOTA_INITIAL;
    struct tg_engine *e = test_open(&o);
    CHECK_EQ(test_word(e, TG_CONTROL_TENANT_QUOTA_BASE + 1), 1000000);
    CHECK_EQ(test_word(e, TG_CONTROL_TENANT_MASKS + 1), 0xFFFFFFFFu);
    CHECK_EQ(test_word(e, TG_CONTROL_TENANT_MASKS + 2), 0);
    CHECK_EQ(tg_engine_set_quota(e, 1, 7), 0);
    for (int i = 0; i < 20; i++)
        CHECK_EQ(submit_soon(e, 1, TG_PRIORITY_HIGH, TG_OP_NOP, NULL, 0, &t[i]), 0);
    struct tg_engine_stats s;
    uint64_t end = tg_clock_mono_ns() + LIMIT;
    do
        tg_engine_stats(e, &s);
    while (s.tenant[1].done < 7 && tg_clock_mono_ns() < end);
    CHECK_EQ(tg_engine_wait(e, &t[19], SECOND / 50), -ETIMEDOUT);
    tg_engine_stats(e, &s);
    CHECK_EQ(s.tenant[1].done, 7);
    CHECK_EQ(s.tenant[1].quota, 0);
    int published = 0;
    for (int i = 0; i < 20; i++)
        published += test_status(e, t[i].slot) == TG_SLOT_PUBLISHED;
    CHECK_EQ(published, 13);
    CHECK_EQ(tg_engine_set_quota(e, 1, 100), 0);
    for (int i = 0; i < 20; i++)
        CHECK_EQ(tg_engine_wait(e, &t[i], LIMIT), 0);
    CHECK_EQ(test_word(e, TG_CONTROL_TENANT_QUOTA_BASE + 1), 87);
    test_close(e);
}

/* A tenant that is off can give its slots back: they do not wait until it is on again. */
static void e4_cancelled_slots_of_a_switched_off_tenant_are_free_again(void)
{
    struct tg_engine *e = test_engine(25, 1); /* five slots a level */
    struct tg_item t[5];
    CHECK_EQ(tg_engine_set_tenant(e, 3, 0), 0);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 5; i++)
            CHECK_EQ(submit_soon(e, 3, TG_PRIORITY_LOW, TG_OP_NOP, NULL, 0, &t[i]), 0);
        CHECK_EQ(tg_engine_submit(e, 0, TG_PRIORITY_LOW, TG_OP_NOP, NULL, 0, NULL), -EAGAIN);
        for (int i = 5; i-- > 0;)
            CHECK_EQ(tg_engine_cancel(e, &t[i]), 0);
        CHECK_EQ(tg_engine_settle(e, LIMIT), 0);
    }
    test_close(e);
}

/* Revoked while its work waits and others run: nothing of it stays CLAIMED. */
static void e4_revoked_tenants_slot_is_not_left_claimed(void)
{
    struct tg_engine *e = test_engine(320, 2);
    struct tg_item t[40];
    for (int round = 0; round < 12; round++) {
        for (int i = 0; i < 40; i++)
            CHECK_EQ(submit_soon(e, 5, TG_PRIORITY_NORMAL, TG_OP_NOP, NULL, 0, &t[i]), 0);
        CHECK_EQ(tg_engine_set_tenant(e, 5, 0), 0);
        for (int i = 0; i < 40; i++) {
            int r = tg_engine_wait(e, &t[i], SECOND / 1000);
            /* Claimed before the tenant was switched off: its worker may have lost its core. */
            if (r != 0 && test_status(e, t[i].slot) != TG_SLOT_PUBLISHED)
                r = tg_engine_wait(e, &t[i], LIMIT);
            CHECK(r == 0 ||
                  test_status(e, t[i].slot) == TG_SLOT_PUBLISHED); /* 0: the slot may be used again */
        }
        CHECK_EQ(tg_engine_set_tenant(e, 5, 1), 0);
        for (int i = 0; i < 40; i++)
            CHECK_EQ(tg_engine_wait(e, &t[i], LIMIT), 0);
    }
    test_close(e);
}

static void e4_old_arguments_are_not_left_in_a_reused_slot(void)
{
    struct tg_engine *e = test_engine(5, 1);
    uint32_t secret[TG_ARGS_PER_SLOT];
    const void *ring;
    struct tg_item t;
    memset(secret, 0xA5, sizeof(secret));
    CHECK_EQ(run_ticket(e, 1, TG_OP_NOP, secret, TG_ARGS_PER_SLOT, &t), 0);
    CHECK_EQ(tg_engine_set_tenant(e, 2, 0), 0);
    CHECK_EQ(tg_engine_settle(e, LIMIT), 0);
    CHECK_EQ(submit_soon(e, 2, TG_PRIORITY_NORMAL, TG_OP_NOP, secret, 1, &t), 0);
    tg_engine_buffers(e, &ring, NULL, NULL, NULL, NULL, NULL);
    const struct tg_slot *slot = (const struct tg_slot *)ring + t.slot;
    CHECK(slot->tenant == 2 && slot->args[0] == secret[0]);
    for (int i = 1; i < (int)TG_ARGS_PER_SLOT; i++)
        CHECK_EQ(slot->args[i], 0);
    test_close(e);
}

static int whose(void *context, struct tg_op *op)
{
    uint32_t *wrong = context;
    if (op->tenant != op->args[0])
        tg_add_relaxed_u32(wrong, 1);
    return TG_OP_FINISHED;
}

/* Slots change tenants all the time while one tenant is switched off and on: each item runs as its own. */
static void e4_authority_is_read_from_the_claimed_slot(void)
{
    struct tg_engine *e = test_engine(20, 2);
    uint32_t wrong = 0;
    CHECK_EQ(tg_engine_register(e, OP_COUNT, whose, &wrong), 0);
    for (uint32_t i = 0; i < 20000; i++) {
        uint32_t tenant = i % 7;
        int r = tg_engine_submit(e, tenant, TG_PRIORITY_LOW, OP_COUNT, &tenant, 1, NULL);
        CHECK(r == 0 || r == -EAGAIN);
        if (i % 50 == 0)
            CHECK_EQ(tg_engine_set_tenant(e, 3, i / 50 % 2 == 0), 0);
    }
    CHECK_EQ(tg_engine_set_tenant(e, 3, 1), 0);
    CHECK_EQ(tg_engine_settle(e, LIMIT), 0);
    CHECK_EQ(wrong, 0);
    test_close(e);
}

/* A worker that is busy looks at a tenant it found blocked again as soon as the tenant was changed: the
 * urgent item goes before 20 others that wait, not after the worker's next look round. */
static void e4_a_change_counts_at_the_next_claim(void)
{
    for (int by_quota = 0; by_quota < 2; by_quota++) {
        struct tg_engine *e = test_engine(320, 1);
        struct notes n;
        struct gate g;
        notes_start(&n, e, 32);
        CHECK_EQ(by_quota ? tg_engine_set_quota(e, 3, 0) : tg_engine_set_tenant(e, 3, 0), 0);
        note_submit(e, 3, TG_PRIORITY_CRITICAL, 7);
        gate_close(&g, e, TG_PRIORITY_IDLE); /* passes the item of tenant 3 */
        for (uint32_t i = 0; i < 20; i++)
            note_submit(e, 0, TG_PRIORITY_NORMAL, i);
        CHECK_EQ(by_quota ? tg_engine_set_quota(e, 3, 1) : tg_engine_set_tenant(e, 3, 1), 0);
        gate_open(&g);
        CHECK_EQ(tg_engine_settle(e, LIMIT), 0);
        CHECK_EQ(n.count, 21);
        CHECK_EQ(n.note[0], TG_PRIORITY_CRITICAL << 24 | 3u << 16 | 7);
        free(n.note);
        test_close(e);
    }
}

static void cases(void)
{
    RUN(e4_tenant_29_157_ffffffff_refused);
    RUN(e4_switched_off_stays_published_and_blocks_nobody);
    RUN(e4_quota_counts_down_at_the_claim);
    RUN(e4_cancelled_slots_of_a_switched_off_tenant_are_free_again);
    RUN(e4_revoked_tenants_slot_is_not_left_claimed);
    RUN(e4_old_arguments_are_not_left_in_a_reused_slot);
    RUN(e4_authority_is_read_from_the_claimed_slot);
    RUN(e4_a_change_counts_at_the_next_claim);
}

int main(void)
{
    BOTH_WAYS(cases);
    return 0;
}
