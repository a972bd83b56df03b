/* SPDX-License-Identifier: Apache-2.0
 * E4 where it is raced: a foreign host publishes, cancels and publishes anew while poller and worker look,
 * claim and give back. Every schedule with at most two preemptions (explore.h). */
#include "explore.h"

#define OP_RUN 8u
#define SLOT 14u /* the last of IDLE's three */

static uint32_t ran[TG_TENANTS], wrong, cancelled;

static int run(void *context, struct tg_op *op)
{
    (void)context;
    ran[op->tenant]++;
    wrong += op->tenant != op->args[0];
    return TG_OP_FINISHED;
}

static void reset(struct tg_engine *e)
{
    memset(ran, 0, sizeof(ran));
    wrong = cancelled = 0;
    CHECK_EQ(tg_engine_register(e, OP_RUN, run, NULL), 0);
    /* Counted quotas, so that an authority that was taken and not given back shows. */
    for (uint32_t t = 0; t < TG_TENANTS; t++)
        e->control[TG_CONTROL_TENANT_QUOTA_BASE + t] = 10;
    e->control[TG_CONTROL_TENANT_MASKS + 5] = 0; /* tenant 5 may not run */
}

static void publish(struct tg_engine *e, uint32_t tenant)
{
    struct tg_slot *slot = &e->ring[SLOT];
    tg_slot_write_payload(slot, OP_RUN, tenant, TG_PRIORITY_IDLE, &tenant, 1);
    tg_slot_publish(slot);
}

/* Publishes for tenant 3, which may run; takes it back, if it still can; publishes for tenant 5. */
static void host(struct tg_engine *e)
{
    uint32_t from;
    publish(e, 3);
    if (!tg_slot_try_cancel(&e->ring[SLOT], &from)) {
        while (tg_slot_status(&e->ring[SLOT]) != TG_SLOT_DONE) {
            if (tg_slot_try_cancel(&e->ring[SLOT], &from)) { /* claimed in vain and put back */
                cancelled = 1;
                break;
            }
            tg_cpu_relax();
        }
    } else {
        cancelled = 1;
    }
    publish(e, 5);
}

/* The poller's passes; the last one after the host's last word, as the real one comes again. */
static void poller(struct tg_engine *e)
{
    for (int i = 0; i < 2; i++)
        tg_foreign_pass(e);
}

static void revoked_stays_published(struct tg_engine *e, const bool *ended)
{
    CHECK(ended[0] && ended[1]);
    CHECK_EQ(wrong, 0);
    CHECK_EQ(ran[5], 0);
    CHECK_EQ(ran[3], cancelled ? 0 : 1);
    CHECK_EQ(e->ring[SLOT].status, TG_SLOT_PUBLISHED); /* never left CLAIMED, never run */
    CHECK_EQ(e->control[TG_CONTROL_TENANT_QUOTA_BASE + 3], 10 - ran[3]);
    CHECK_EQ(e->control[TG_CONTROL_TENANT_QUOTA_BASE + 5], 10);
}

static struct explore_scenario scenario(const char *name, uint32_t flags)
{
    struct explore_scenario s = {.name = name, .workers = 1, .bound = 2, .reset = reset};
    tg_engine_options_init(&s.options);
    s.options.slots = 15;
    s.options.workers = 1;
    s.options.spin_us = 0;
    s.options.latency_every = 0;
    s.options.observables = 1;
    s.options.log_records = 0;
    s.options.flags = flags;
    s.options.foreign_slots[TG_PRIORITY_IDLE] = 1;
    return s;
}

static void e4_revoked_slot_is_not_left_claimed(void)
{
    struct explore_scenario s = scenario(__func__, 0);
    s.thread[0] = host;
    s.thread[1] = poller;
    s.check = revoked_stays_published;
    explore(&s);
}

static void e4_the_same_scanning(void)
{
    struct explore_scenario s = scenario(__func__, TG_ENGINE_SCAN);
    s.thread[0] = host;
    s.thread[1] = poller;
    s.check = revoked_stays_published;
    explore(&s);
}

/* Publishes for tenant 3, takes it back, publishes for tenant 4: whoever runs, runs as itself. */
static void host_of_two(struct tg_engine *e)
{
    uint32_t from;
    publish(e, 3);
    cancelled = tg_slot_try_cancel(&e->ring[SLOT], &from);
    while (!cancelled && tg_slot_status(&e->ring[SLOT]) != TG_SLOT_DONE)
        tg_cpu_relax();
    publish(e, 4);
}

static void each_ran_as_itself(struct tg_engine *e, const bool *ended)
{
    CHECK(ended[0] && ended[1]);
    CHECK_EQ(wrong, 0);
    CHECK_EQ(ran[3], cancelled ? 0 : 1);
    CHECK(ran[4] <= 1); /* 0: published after the poller's last pass */
    CHECK_EQ(e->ring[SLOT].status, ran[4] ? TG_SLOT_DONE : TG_SLOT_PUBLISHED);
    CHECK_EQ(e->control[TG_CONTROL_TENANT_QUOTA_BASE + 3], 10 - ran[3]);
    CHECK_EQ(e->control[TG_CONTROL_TENANT_QUOTA_BASE + 4], 10 - ran[4]);
}

static void e4_reused_slot_runs_under_its_own_authority(void)
{
    struct explore_scenario s = scenario(__func__, 0);
    s.thread[0] = host_of_two;
    s.thread[1] = poller;
    s.check = each_ran_as_itself;
    explore(&s);
}

int main(void)
{
    RUN(e4_revoked_slot_is_not_left_claimed);
    RUN(e4_the_same_scanning);
    RUN(e4_reused_slot_runs_under_its_own_authority);
    return 0;
}
