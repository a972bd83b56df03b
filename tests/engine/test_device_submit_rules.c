/* SPDX-License-Identifier: Apache-2.0
 * E2, E3, E4 and E8 for items that items of a device publish, among each other and beside items of the host.
 *
 * The witness of an order is a counter: an item takes the next number and writes down who it is. A worker has
 * one task at a time, so of what was claimed before an item at most what the other workers hold comes after
 * it; the bounds below are exact for that. Skips (77) without a device; TG_TEST_BACKEND names it. */
#include "device_submit.h"

enum {
    COUNTER = 0, /* observable words */
    REPORT = 1,
    STOP = 5,
    ADDED = 6,
    RECORDS = 16,
    WORKERS = 4, /* warps of one block */
};

static struct tg_engine *open_recording(uint32_t records)
{
    struct tg_engine_options o = options(8000);
    o.observables = RECORDS + records;
    o.device_blocks = 1;
    o.device_items = 1024;
    return open_with(&o);
}

/* Starts `chains` items at a level that put themselves there again and again. */
static void start_chains(struct tg_engine *e, uint32_t opcode, uint32_t tenant, uint32_t level,
                         uint32_t chains, uint32_t records)
{
    const uint32_t args[4] = {COUNTER, RECORDS, records, 1};
    for (uint32_t i = 0; i < chains; i++)
        host_submits(e, tenant, level, opcode, args, 4);
}

static uint32_t level_of(struct tg_engine *e, uint32_t record)
{
    return observable(e, RECORDS + record) >> 16;
}

static uint32_t mark_of(struct tg_engine *e, uint32_t record)
{
    return observable(e, RECORDS + record) & 0xFFu;
}

static uint32_t tenant_of(struct tg_engine *e, uint32_t record)
{
    return observable(e, RECORDS + record) >> 8 & 0xFFu;
}

/* Waits until these claims of the tenant have been made. */
static void until_claims(struct tg_engine *e, uint32_t tenant, uint64_t claims)
{
    uint64_t end = tg_clock_mono_ns() + LIMIT;
    while (stats_of(e).tenant[tenant].claims < claims) {
        CHECK(tg_clock_mono_ns() < end);
        usleep(1000);
    }
}

/* ---- E2, E3 ---------------------------------------------------------------------------------------------
 */

/* All wait before the first may run, published in no order, while every worker is held. Behind the first of a
 * less urgent level comes no more of a more urgent one than the other workers hold; and within a level
 * likewise in the order of publication. */
static void e2_the_most_urgent_is_next_and_the_first_of_a_level(void)
{
    enum { EACH = 3, ALL = EACH * TG_PRIORITY_LEVELS }; /* so few that none is overdue (E3) */
    struct tg_engine *e = open_recording(ALL);
    uint32_t held = 0;
    uint64_t end = tg_clock_mono_ns() + LIMIT;
    for (uint32_t i = 0; i < WORKERS; i++) { /* the last publishes, when nobody is left to run it at once */
        host_submits(e, i, i, OP_HOLD,
                     (uint32_t[]){STOP, OP_RECORD, i == WORKERS - 1 ? EACH : 0, COUNTER, RECORDS, ALL}, 6);
        while (held < i + 1) {
            CHECK_EQ(tg_engine_observable_add(e, STOP + 1, 0, &held), 0);
            CHECK(tg_clock_mono_ns() < end);
        }
    }
    CHECK_EQ(stats_of(e).device_waiting, ALL);
    CHECK_EQ(tg_engine_observable_store(e, STOP, 1), 0);
    CHECK_EQ(settled(e).device_submitted, ALL);
    for (uint32_t i = 0; i < ALL; i++) {
        uint32_t late = 0, passed = 0;
        for (uint32_t k = i + 1; k < ALL; k++) {
            late += level_of(e, k) < level_of(e, i);
            passed += level_of(e, k) == level_of(e, i) && mark_of(e, k) < mark_of(e, i);
        }
        CHECK(late < WORKERS && passed < WORKERS);
    }
    test_close(e);
}

/* Levels in `floods` have more chains than workers, those in `below` too: nobody ever lacks work. Of any 20
 * claims in a row each has one, and so of any 20 records, but for what other workers hold. */
static void flood(uint32_t opcode, uint32_t floods, uint32_t below)
{
    const uint32_t held = opcode == OP_RECORD_LANE ? 32 * WORKERS : WORKERS, a_turn = TG_OVERTAKING_BOUND + 1;
    uint32_t records = opcode == OP_RECORD_LANE ? 6000 : 1200, count[TG_PRIORITY_LEVELS] = {0},
             last[TG_PRIORITY_LEVELS] = {0}, worst = 0;
    records *= test_emulated() ? 1 : 10;
    struct tg_engine *e = open_recording(records);
    CHECK_EQ(tg_engine_set_tenant(e, 0, 0), 0);
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
        if ((floods | below) >> l & 1u)
            start_chains(e, opcode, 0, l, held + held / 2, records);
    CHECK_EQ(tg_engine_set_tenant(e, 0, 1), 0);
    settled(e);
    for (uint32_t i = 0; i < records; i++) {
        uint32_t level = level_of(e, i);
        CHECK(level < TG_PRIORITY_LEVELS && (floods | below) >> level & 1u);
        worst = below >> level & 1u && i - last[level] > worst ? i - last[level] : worst;
        count[level]++;
        last[level] = i;
    }
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
        if (below >> l & 1u) {
            worst = records - last[l] > worst ? records - last[l] : worst;
            fprintf(stderr, "  level %u: %u of %u\n", l, count[l], records);
            CHECK(count[l] + held + 1 >= records / a_turn);
        }
    fprintf(stderr, "  longest wait %u records\n", worst);
    CHECK(worst <= (held + 1) * a_turn + held);
    test_close(e);
}

static void e3_floods_of_such_items_starve_nobody(void)
{
    const uint32_t critical = 1u << TG_PRIORITY_CRITICAL, normal = 1u << TG_PRIORITY_NORMAL,
                   low = 1u << TG_PRIORITY_LOW, idle = 1u << TG_PRIORITY_IDLE;
    flood(OP_RECORD, critical, low);
    flood(OP_RECORD, critical | normal, low | idle);
    flood(OP_RECORD_LANE, critical, low);
    flood(OP_RECORD_LANE, critical | normal, low | idle);
}

/* ---- E4 -------------------------------------------------------------------------------------------------
 */

/* Three tenants whose items never end, one with three times as many of them: even shares. */
static void even_shares(uint32_t opcode, uint32_t records)
{
    const uint32_t held = opcode == OP_RECORD_LANE ? 32 * WORKERS : WORKERS;
    uint32_t count[TG_TENANTS] = {0};
    records *= test_emulated() ? 1 : 10;
    struct tg_engine *e = open_recording(records);
    for (uint32_t t = 3; t < 6; t++) {
        CHECK_EQ(tg_engine_set_tenant(e, t, 0), 0);
        start_chains(e, opcode, t, TG_PRIORITY_NORMAL, (t == 3 ? 3 : 1) * (held + held / 2), records);
    }
    for (uint32_t t = 3; t < 6; t++)
        CHECK_EQ(tg_engine_set_tenant(e, t, 1), 0);
    settled(e);
    uint32_t first = 0; /* the first of the last tenant: they were let in one after the other */
    for (; first < records && tenant_of(e, first) != 5; first++)
        ;
    for (uint32_t i = first; i < records; i++)
        count[tenant_of(e, i)]++;
    fprintf(stderr, "  of %u: %u, %u, %u\n", records - first, count[3], count[4], count[5]);
    for (uint32_t t = 3; t < 6; t++)
        CHECK(count[t] + 2 * TG_TENANT_FAIRNESS_THRESHOLD + held >= (records - first) / 3);
    test_close(e);
}

static void e4_tenants_share_evenly(void)
{
    even_shares(OP_RECORD, 1500);
    even_shares(OP_RECORD_LANE, 6000);
}

/* Waiting items of these kinds, 50 each: published by an item that has the last of its tenant's quota. */
static void leave_waiting(struct tg_engine *e, uint32_t tenant, uint32_t opcode, uint32_t word)
{
    publish_and_wait(e, tenant, 3, opcode, 50, word, 1, 2, REPORT);
    CHECK_EQ(tg_engine_settle(e, SECOND / 20), -ETIMEDOUT);
    CHECK(stats_of(e).tenant[tenant].claims == 1 && stats_of(e).tenant[tenant].quota == 0);
}

static void e4_quota_is_counted_down_at_the_claim(void)
{
    static const uint32_t opcodes[] = {OP_ADD, OP_WARP, TG_OP_NOP};
    struct tg_engine *e = open_recording(0);
    for (uint32_t i = 0; i < 3; i++)
        leave_waiting(e, 20 + i, opcodes[i], ADDED + i);
    struct tg_engine_stats s = stats_of(e);
    CHECK(s.device_waiting == 150 && s.device_submitted == 150);
    for (uint32_t t = 20; t < 23; t++)
        CHECK_EQ(tg_engine_set_quota(e, t, 10), 0);
    for (uint32_t t = 20; t < 23; t++)
        until_claims(e, t, 11);
    CHECK_EQ(tg_engine_settle(e, SECOND / 5), -ETIMEDOUT);
    s = stats_of(e);
    CHECK_EQ(s.device_waiting, 120);
    for (uint32_t t = 20; t < 23; t++) {
        CHECK(s.tenant[t].claims == 11 && s.tenant[t].quota == 0);
        CHECK_EQ(test_word(e, TG_CONTROL_TENANT_QUOTA_BASE + t), 0);
    }
    /* Off: what quota it has does not matter; and others go on. */
    for (uint32_t t = 20; t < 23; t++) {
        CHECK_EQ(tg_engine_set_tenant(e, t, 0), 0);
        CHECK_EQ(tg_engine_set_quota(e, t, TG_TENANT_QUOTA_UNLIMITED), 0);
    }
    struct tg_item item;
    CHECK_EQ(run_ticket(e, 1, OP_SUBMIT, (uint32_t[]){0, OP_ADD, 2, 20, REPORT, ADDED + 3, 1}, 7, &item), 0);
    until_claims(e, 1, 21);
    CHECK_EQ(tg_engine_settle(e, SECOND / 5), -ETIMEDOUT);
    CHECK_EQ(stats_of(e).device_waiting, 120);
    for (uint32_t t = 20; t < 23; t++)
        CHECK_EQ(tg_engine_set_tenant(e, t, 1), 0);
    s = settled(e);
    CHECK(observable(e, ADDED) == 50 && observable(e, ADDED + 1) == 50 * 32 &&
          observable(e, ADDED + 3) == 20);
    CHECK(s.tenant[20].done == 51 && s.tenant[21].done == 51 && s.tenant[22].done == 51);
    test_close(e);
}

/* ---- Beside items of the host ---------------------------------------------------------------------------
 */

static uint32_t now_of(struct tg_engine *e, uint32_t index)
{
    uint32_t value;
    CHECK_EQ(tg_engine_observable_add(e, index, 0, &value), 0);
    return value;
}

/* The same level and tenant: a flood of either lets the other through. */
static void a_flood_of_items_lets_those_of_the_host_through(void)
{
    struct tg_engine *e = open_recording(0);
    const uint32_t flood_args[2] = {STOP, 0}, add[2] = {ADDED, 1};
    struct tg_item item[40];
    for (uint32_t i = 0; i < 60; i++)
        host_submits(e, 2, 2, OP_FLOOD, flood_args, 2);
    until_claims(e, 2, 200);
    for (uint32_t i = 0; i < 40; i++)
        CHECK_EQ(submit_soon(e, 2, 2,
                             i % 4 == 0   ? OP_WARP
                             : i % 4 == 1 ? TG_OP_NOP
                                          : OP_ADD,
                             add, 2, &item[i]),
                 0);
    for (uint32_t i = 0; i < 40; i++)
        CHECK_EQ(tg_engine_wait(e, &item[i], LIMIT), 0);
    CHECK_EQ(now_of(e, STOP), 0);
    CHECK_EQ(tg_engine_observable_store(e, STOP, 1), 0);
    struct tg_engine_stats s = settled(e);
    CHECK_EQ(observable(e, ADDED), 20 + 10 * 32);
    CHECK_EQ(s.done, s.device_submitted + 100);
    test_close(e);
}

static void a_flood_of_the_host_lets_such_items_through(void)
{
    struct tg_engine *e = open_recording(0);
    const uint32_t length = 30, add[2] = {ADDED, 1};
    uint64_t end = tg_clock_mono_ns() + LIMIT;
    uint32_t n = 0;
    bool started = false;
    while (now_of(e, ADDED + 1) <= length) {
        CHECK(tg_clock_mono_ns() < end);
        for (uint32_t i = 0; i < 100; i++)
            n += tg_engine_submit(e, 2, 2, OP_ADD, add, 2, NULL) == 0;
        if (!started) /* behind the first of them */
            host_submits(e, 2, 2, OP_CHAIN, (uint32_t[]){length, ADDED + 1, 0}, 3);
        started = true;
    }
    fprintf(stderr, "  %u items of the host beside a chain of %u\n", n, length);
    settled(e);
    CHECK(observable(e, ADDED) == n && observable(e, ADDED + 1) == length + 1);
    test_close(e);
}

/* What an item has published does not wait for the item's own end, also where nothing else goes on. */
static void e2_they_run_beside_what_published_them(void)
{
    struct tg_engine *e = open_recording(0);
    for (uint32_t i = 0; i < 20; i++) {
        const uint64_t end = tg_clock_mono_ns() + LIMIT;
        host_submits(e, i, i % 5, OP_HOLD, (uint32_t[]){STOP, i % 2 ? OP_WARP : OP_ADD, 3, ADDED + 1, 1, 0},
                     6);
        while (observable(e, ADDED + 1) != (i % 2 ? 15 * 32 : 15)) {
            CHECK(tg_clock_mono_ns() < end);
            usleep(1000);
        }
        CHECK_EQ(tg_engine_observable_store(e, STOP, 1), 0);
        settled(e);
        CHECK_EQ(tg_engine_observable_store(e, STOP, 0), 0);
        CHECK_EQ(tg_engine_observable_store(e, ADDED + 1, 0), 0);
        usleep(5000); /* idle: what comes next comes alone */
    }
    test_close(e);
}

/* Everything at once: both kinds at all levels, tenants that are switched off and on, short queues. */
static void e1_a_storm_of_both_kinds_loses_nothing(void)
{
    struct tg_engine_options o = options(2000);
    const uint32_t rounds = test_emulated() ? 25 : 400;
    uint64_t seed = 7;
    uint32_t expected[4] = {0}, n = 0;
    o.device_items = 16;
    struct tg_engine *e = open_with(&o);
    for (uint32_t round = 0; round < rounds; round++) {
        for (uint32_t i = 0; i < 12; i++) {
            uint32_t dice = (uint32_t)check_random(&seed), tenant = dice % TG_TENANTS, level = dice >> 8 & 3u,
                     many = dice >> 12 & 31u, kind = dice >> 24 & 3u;
            const uint32_t opcode[4] = {OP_ADD, OP_WARP, TG_OP_ATOMIC_ADD, TG_OP_NOP};
            uint32_t to = 40 + kind, a4 = kind == 2 ? 1 : to, a5 = kind == 2 ? OBS + to : 1;
            /* Each has a word of its own for how far it is: round by round the same ones. */
            host_submits(e, tenant, level + (dice >> 30 & 1u), OP_FAN,
                         (uint32_t[]){level, opcode[kind], many, 60 + 2 * i, a4, a5}, 6);
            expected[kind] += many * (kind == 1 ? 32 : 1);
            n += many;
            if (dice >> 28 == 3)
                host_submits(e, tenant, level, OP_HANDLER, NULL, 0);
            if (dice >> 28 == 4) {
                CHECK_EQ(tg_engine_set_tenant(e, tenant, 0), 0);
                host_submits(e, tenant, level, TG_OP_NOP, NULL, 0);
                CHECK_EQ(tg_engine_set_tenant(e, tenant, 1), 0);
            }
        }
        CHECK_EQ(tg_engine_settle(e, LIMIT), 0);
        for (uint32_t i = 0; i < 12; i++)
            CHECK_EQ(tg_engine_observable_store(e, 60 + 2 * i, 0), 0);
    }
    CHECK_EQ(settled(e).device_submitted, n);
    for (uint32_t k = 0; k < 3; k++)
        CHECK_EQ(observable(e, 40 + k), expected[k]);
    CHECK_EQ(observable(e, 43), 0);
    test_close(e);
}

/* ---- E8 -------------------------------------------------------------------------------------------------
 */

/* What may run is finished, with all that it publishes. */
static void e8_drain_finishes_what_they_publish(void)
{
    const uint32_t depth = test_emulated() ? 6 : 11, nodes = (2u << depth) - 1;
    struct tg_engine_options o = options(1000);
    struct tg_drain_report r;
    o.observables = 2u << depth;
    struct tg_engine *e = open_with(&o);
    host_submits(e, 3, 4, OP_TREE, (uint32_t[]){1, depth, 0, 1}, 4);
    CHECK_EQ(tg_engine_drain(e, LIMIT, &r), 0);
    CHECK_EQ(r.done + observable(e, 0), nodes);
    CHECK(r.handed_back == 0 && r.faults == 0);
    for (uint32_t node = 1; node <= nodes; node++)
        CHECK_EQ(observable(e, node), 1);
    test_close(e);
}

/* What may not is handed back and counted: of a tenant that is off, of one without quota. */
static void e8_drain_hands_back_what_may_not_run(void)
{
    struct tg_engine *e = open_recording(0);
    struct tg_drain_report r;
    leave_waiting(e, 8, OP_ADD, ADDED);
    leave_waiting(e, 9, OP_WARP, ADDED + 1);
    leave_waiting(e, 10, TG_OP_NOP, ADDED);
    CHECK_EQ(tg_engine_set_tenant(e, 8, 0), 0);
    CHECK_EQ(tg_engine_set_quota(e, 8, 1000), 0);
    CHECK_EQ(tg_engine_set_quota(e, 9, 20), 0);
    CHECK_EQ(tg_engine_drain(e, LIMIT, &r), 0);
    CHECK_EQ(r.handed_back, 50 + 30 + 50);
    CHECK_EQ(r.done, 3 + 20);
    CHECK(observable(e, ADDED) == 0 && observable(e, ADDED + 1) == 20 * 32);
    struct tg_engine_stats s = stats_of(e);
    CHECK_EQ(s.handed_back, 130);
    CHECK_EQ(s.done, 23);
    CHECK_EQ(s.device_waiting, 0);
    CHECK_EQ(tg_engine_settle(e, LIMIT), 0);
    test_close(e);
}

/* One that runs is waited for, at most so long; the drain goes on when it is asked again. */
static void e8_drain_waits_for_one_that_runs(void)
{
    struct tg_engine *e = open_recording(0);
    const uint32_t hold[7] = {1, OP_HOLD, 2, 1, REPORT, STOP, TG_OP_NOP};
    struct tg_drain_report r;
    uint64_t end = tg_clock_mono_ns() + LIMIT;
    host_submits(e, 1, 2, OP_SUBMIT, hold, 7);
    while (now_of(e, STOP + 1) == 0)
        CHECK(tg_clock_mono_ns() < end);
    CHECK_EQ(tg_engine_drain(e, SECOND / 20, &r), -ETIMEDOUT);
    CHECK_EQ(tg_engine_observable_store(e, STOP, 1), 0);
    CHECK_EQ(tg_engine_drain(e, LIMIT, &r), 0);
    CHECK(r.done == 2 && r.faults == 0 && r.handed_back == 0);
    CHECK_EQ(tg_engine_settle(e, LIMIT), 0); /* nothing is left of a drained engine */
    test_close(e);
}

/* Waits until the device is past the limit. */
static void overrun(struct tg_engine *e)
{
    struct tg_device_report report = {.state = TG_DEVICE_RUNS};
    for (uint32_t seconds = 6; seconds < 100 && report.state == TG_DEVICE_RUNS; seconds *= 2) {
        const uint64_t end = tg_clock_mono_ns() + (seconds + 2) * SECOND;
        host_submits(e, 1, 2, OP_SUBMIT, (uint32_t[]){2, OP_SPIN, 2, 1, REPORT, 0, seconds}, 7);
        while (report.state == TG_DEVICE_RUNS && tg_clock_mono_ns() < end) {
            CHECK_EQ(tg_engine_device_report(e, &report, NULL, 0), 0);
            usleep(10000);
        }
    }
    CHECK_EQ(report.state, TG_DEVICE_OVERRAN);
    CHECK_EQ(tg_engine_submit(e, 0, 2, TG_OP_NOP, NULL, 0, NULL), -ESHUTDOWN);
}

/* An item of an item that does not return ends the engine like any other. */
static void one_past_the_limit_ends_the_engine(void)
{
    struct tg_engine_options o = options(100);
    struct tg_drain_report drained;
    o.device_body_limit_ms = 1500;
    struct tg_engine *e = open_with(&o);
    publish_and_wait(e, 9, 3, OP_ADD, 5, ADDED, 1, 2, REPORT); /* these wait */
    overrun(e);
    CHECK_EQ(tg_engine_close(e, LIMIT, &drained), 0);
    CHECK(drained.faults == 1 && drained.handed_back == 5);
}

/* The same in a flood: nothing is counted twice, and of what was published only what bodies published after
 * that is counted nowhere. */
static void past_the_limit_each_item_is_counted_once(void)
{
    struct tg_engine_options o = options(1000);
    const uint32_t args[2] = {STOP, 0}, floods = 60;
    o.device_body_limit_ms = 1500;
    struct tg_engine *e = open_with(&o);
    for (uint32_t i = 0; i < floods; i++)
        host_submits(e, 2 + i % 2, i % 5, OP_FLOOD, args, 2);
    overrun(e);
    struct tg_engine_stats s = stats_of(e);
    uint64_t of_host = stats_of(e).tenant[1].done, published = s.device_submitted + floods + of_host;
    uint64_t counted = s.done + s.faults + s.handed_back;
    fprintf(stderr,
            "  %" PRIu64 " published: %" PRIu64 " done, %" PRIu64 " faults, %" PRIu64 " handed back\n",
            published, s.done, s.faults, s.handed_back);
    CHECK(counted <= published);
    CHECK(counted + 2 * floods >= published);
    test_close(e);
}

int main(void)
{
    if (!test_backend())
        SKIP("TG_TEST_BACKEND names no device");
    RUN(e2_the_most_urgent_is_next_and_the_first_of_a_level);
    RUN(e2_they_run_beside_what_published_them);
    RUN(e3_floods_of_such_items_starve_nobody);
    RUN(e4_tenants_share_evenly);
    RUN(e4_quota_is_counted_down_at_the_claim);
    RUN(a_flood_of_items_lets_those_of_the_host_through);
    RUN(a_flood_of_the_host_lets_such_items_through);
    RUN(e1_a_storm_of_both_kinds_loses_nothing);
    RUN(e8_drain_finishes_what_they_publish);
    RUN(e8_drain_hands_back_what_may_not_run);
    RUN(e8_drain_waits_for_one_that_runs);
    RUN(one_past_the_limit_ends_the_engine);
    RUN(past_the_limit_each_item_is_counted_once);
    return 0;
}
