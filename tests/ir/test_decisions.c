/* SPDX-License-Identifier: Apache-2.0
 * The kernel decides as policy does: over thousands of claims from rings that fill and drain at random, level
 * and tenant of each claim are those of tg_levels_choose and tg_tenants_choose on what was claimable (E2, E3,
 * E4). And the small parts: where to begin, and who may claim. */
#include <tidegate/levels.h>
#include <tidegate/partition.h>
#include <tidegate/tenants.h>

#include "ir_test.h"

enum { SLOTS = 40, CLAIMS = 6000 };

static uint64_t memory[1 << 15];
static struct tg_ir ir;
static struct queue q;
static uint64_t seed;

static uint32_t below(uint32_t n)
{
    return (uint32_t)(check_random(&seed) >> 33) % n;
}

/* What is claimable: a bit a level, and of each level a bit a tenant. */
static uint32_t survey(uint32_t waiting[TG_PRIORITY_LEVELS])
{
    uint32_t work = 0;
    memset(waiting, 0, TG_PRIORITY_LEVELS * sizeof(waiting[0]));
    for (uint32_t i = 0; i < SLOTS; i++) {
        const struct tg_slot *s = &q.ring[i];
        if (s->status != TG_SLOT_PUBLISHED ||
            !tg_tenant_may_claim(q.control[TG_CONTROL_TENANT_MASKS + s->tenant],
                                 q.control[TG_CONTROL_TENANT_QUOTA_BASE + s->tenant]))
            continue;
        work |= 1u << s->priority;
        waiting[s->priority] |= 1u << s->tenant;
    }
    return work;
}

/* Phases: everything, a flood at one level, few items, one level with two tenants. */
static void publish_some(uint32_t claim)
{
    uint32_t phase = claim / 500 % 4;
    uint32_t count = phase == 2 ? below(2) : below(4);
    if (claim % 97 == 0)
        q.control[TG_CONTROL_TENANT_MASKS + below(6)] = below(3) ? TG_TENANT_MASK_ALL : 0;
    if (claim % 61 == 0)
        q.control[TG_CONTROL_TENANT_QUOTA_BASE + below(6)] = below(3) ? TG_TENANT_QUOTA_UNLIMITED : below(4);
    for (uint32_t n = 0; n < count + 1; n++) {
        uint32_t slot = below(SLOTS);
        uint32_t level = phase == 1 && below(4) ? 0 : phase == 3 ? 2 : below(5);
        if (q.ring[slot].status == TG_SLOT_EMPTY || q.ring[slot].status == TG_SLOT_DONE)
            PUBLISH(&q, slot, phase == 3 ? below(2) : below(6), level, TG_OP_NOP, 0);
    }
}

static uint32_t risen(const uint32_t *words, const uint32_t *before, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (words[i] != before[i])
            return i;
    return count;
}

static void claims_are_policys(uint32_t stride)
{
    struct tg_ir_kernel k = {.slots = SLOTS, .stride = stride};
    struct tg_tenant_turn turn[TG_PRIORITY_LEVELS] = {{0}};
    uint64_t state = 0;
    uint32_t starvation = 0, levels_seen = 0, longest = 0, run = 0, last = 99;
    tg_ir_init(&ir, memory, sizeof(memory));
    queue_init(&q, SLOTS);
    struct tg_ir_machine *m = machine_of(&ir, tg_ir_kernel(&ir, &k), &q, 1);
    seed = 11;
    for (uint32_t claim = 0; claim < CLAIMS; claim++) {
        struct queue before;
        uint32_t waiting[TG_PRIORITY_LEVELS];
        publish_some(claim);
        while (survey(waiting) == 0) {
            q.control[TG_CONTROL_TENANT_MASKS] = TG_TENANT_MASK_ALL;
            q.control[TG_CONTROL_TENANT_QUOTA_BASE] = TG_TENANT_QUOTA_UNLIMITED;
            q.ring[below(SLOTS)] = (struct tg_slot){TG_SLOT_PUBLISHED, TG_OP_NOP, 0, below(5), {0}};
        }
        uint32_t work = survey(waiting);
        uint32_t level = tg_levels_choose(state, work);
        state = tg_levels_claimed(state, work, level);
        uint32_t tenant = tg_tenants_choose(&turn[level], waiting[level], tg_tenants_quantum(1));
        starvation = level <= TG_PRIORITY_HIGH ? starvation + 1 : 0;
        before = q;
        /* The step that ends the item leaves the lane right before its next look. */
        while (q.control[TG_CONTROL_DONE_COUNT] == claim)
            CHECK_EQ(tg_ir_machine_step(m, 0), 1);
        CHECK_EQ(tg_ir_machine_step(m, 0), 1);
        const uint32_t *now = q.control, *then = before.control;
        uint32_t slot = 0;
        while (slot < SLOTS && q.ring[slot].status == before.ring[slot].status)
            slot++;
        CHECK(slot < SLOTS);
        CHECK_EQ(q.ring[slot].status, TG_SLOT_DONE);
        CHECK_EQ(risen(now + TG_CONTROL_PRIORITY_FAIRNESS_BASE, then + TG_CONTROL_PRIORITY_FAIRNESS_BASE, 5),
                 level);
        CHECK_EQ(risen(now + TG_CONTROL_TENANT_FAIRNESS_BASE, then + TG_CONTROL_TENANT_FAIRNESS_BASE, 32),
                 tenant);
        CHECK_EQ(q.ring[slot].priority, level);
        CHECK_EQ(q.ring[slot].tenant, tenant);
        CHECK_EQ(now[TG_CONTROL_PRIORITY_STARVATION_COUNTER], starvation);
        for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++) {
            uint32_t mine = now[TG_CONTROL_LEVELS] >> 6 * l & 63, theirs = tg_levels_overtaken(state, l);
            CHECK_EQ(mine, theirs < 32 ? theirs : 32);
        }
        levels_seen |= 1u << level;
        run = tenant == last ? run + 1 : 1;
        last = tenant;
        longest = run > longest ? run : longest;
    }
    CHECK_EQ(levels_seen, TG_LEVELS_ALL);
    CHECK(longest >= 10);
    tg_ir_machine_close(m);
}

static void decisions(void)
{
    claims_are_policys(0);
    claims_are_policys(7);
}

/* The value of an expression, with two observable words to play with. */
static uint32_t value_of(struct tg_ir_expr e)
{
    uint32_t value = 0;
    struct tg_ir_machine *m = machine_of(&ir, tg_ir_return(&ir, e), &q, 1);
    CHECK_EQ(tg_ir_machine_run(m, 1, 1000), 0);
    CHECK_EQ(tg_ir_machine_value(m, 0, &value), 0);
    tg_ir_machine_close(m);
    return value;
}

static struct tg_ir_expr n(uint32_t value)
{
    return tg_ir_u32(&ir, value);
}

static void offset_start(void)
{
    tg_ir_init(&ir, memory, sizeof(memory));
    queue_init(&q, 5);
    CHECK_EQ(value_of(tg_policy_offset_start(&ir, n(10), n(14), n(0))), 10);
    CHECK_EQ(value_of(tg_policy_offset_start(&ir, n(10), n(14), n(7))), 13);
    CHECK_EQ(value_of(tg_policy_offset_start(&ir, n(10), n(10), n(7))), 10);
    CHECK_EQ(value_of(tg_policy_offset_start(&ir, n(10), n(9), n(7))), 10);
    CHECK_EQ(value_of(tg_policy_offset_start(&ir, n(0), n(0xFFFFFFFF), n(0xFFFFFFFF))), 0);
    /* With as many lanes as a partition has active ones, all begin at different slots. */
    uint32_t seen = 0, lanes = tg_partition_active_lanes(13, 32);
    for (uint32_t lane = 0; lane < lanes; lane++)
        seen |= 1u << value_of(tg_policy_offset_start(&ir, n(3), n(16), n(lane)));
    CHECK_EQ(seen, 0xFFF8);
}

static void tenants(void)
{
    tg_ir_init(&ir, memory, sizeof(memory));
    queue_init(&q, 5);
    q.control[TG_CONTROL_TENANT_MASKS + 1] = 1;
    q.control[TG_CONTROL_TENANT_QUOTA_BASE + 2] = 0;
    q.control[TG_CONTROL_TENANT_QUOTA_BASE + 3] = 1;
    static const struct {
        uint32_t tenant, may;
    } want[] = {{0, 1}, {1, 0}, {2, 0}, {3, 1}, {28, 1}, {29, 0}, {0xFFFFFFFF, 0}, {0xFFFFFFE0, 0}};
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++)
        CHECK_EQ(value_of(tg_check_tenant_fairness(&ir, n(want[i].tenant))), want[i].may);
}

static void operators(void)
{
    static const uint32_t words[] = {0, 1, 2, 3, 31, 32, 33, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF};
    tg_ir_init(&ir, memory, sizeof(memory));
    queue_init(&q, 5);
    for (size_t i = 0; i < 11; i++) {
        uint32_t a = words[i];
        CHECK_EQ(value_of(tg_ir_unary(&ir, TG_IR_NOT, n(a))), a == 0);
        CHECK_EQ(value_of(tg_ir_unary(&ir, TG_IR_BIT_NOT, n(a))), ~a);
        CHECK_EQ(value_of(tg_ir_unary(&ir, TG_IR_CTZ, n(a))), a ? __builtin_ctz(a) : 32);
        for (size_t k = 0; k < 11; k++) {
            uint32_t b = words[k];
            const uint32_t want[TG_IR_OP_COUNT] = {a + b,
                                                   a - b,
                                                   a * b,
                                                   b ? a / b : 0,
                                                   b ? a % b : 0,
                                                   a < b ? a : b,
                                                   a > b ? a : b,
                                                   a & b,
                                                   a | b,
                                                   a ^ b,
                                                   b < 32 ? a << b : 0,
                                                   b < 32 ? a >> b : 0,
                                                   a == b,
                                                   a != b,
                                                   a<b, a <= b, a>
                                                       b,
                                                   a >= b,
                                                   a && b,
                                                   a || b};
            if (ir.node_end * 44u > sizeof(memory) / 2)
                tg_ir_init(&ir, memory, sizeof(memory));
            for (uint32_t op = 0; op < TG_IR_OP_COUNT; op++)
                CHECK_EQ(value_of(tg_ir_binary(&ir, (enum tg_ir_op)op, n(a), n(b))), want[op]);
        }
    }
    /* What is not chosen is not evaluated: its fault does not happen. */
    struct tg_ir_expr bad = tg_ir_load(&ir, "observable", n(99));
    CHECK_EQ(value_of(tg_ir_and(&ir, n(0), bad)), 0);
    CHECK_EQ(value_of(tg_ir_or(&ir, n(7), bad)), 1);
    CHECK_EQ(value_of(tg_ir_select(&ir, n(1), n(5), bad)), 5);
    CHECK_EQ(value_of(tg_ir_select(&ir, n(0), bad, n(6))), 6);
    CHECK_EQ(value_of(tg_ir_and(&ir, n(1), bad)), TG_IR_FAULT | TG_FAULT_OUT_OF_BOUNDS);
    CHECK_EQ(value_of(tg_ir_length(&ir, "observable")), Q_OBSERVABLES);
    CHECK_EQ(value_of(tg_ir_length(&ir, "dfa")), 0);
}

int main(void)
{
    RUN(decisions);
    RUN(offset_start);
    RUN(tenants);
    RUN(operators);
    return 0;
}
