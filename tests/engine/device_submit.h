/* SPDX-License-Identifier: Apache-2.0
 * What the tests of items that items publish share: the opcodes of engine_emulated/device_ops.h, which says
 * what their arguments are, and a look at all counters. */
#ifndef TG_TESTS_DEVICE_SUBMIT_H
#define TG_TESTS_DEVICE_SUBMIT_H

#include "engine_test.h"

#define OBS TG_CONTROL_OBSERVABLE_BASE
#define OP_ADD 0x101u
#define OP_FAIL 0x102u
#define OP_AGAIN 0x103u
#define OP_WARP 0x104u
#define OP_BLOCK 0x106u
#define OP_UNTIL 0x107u
#define OP_NONE 0x1FFu
#define OP_SUBMIT 0x110u
#define OP_SUBMIT_WARP 0x111u
#define OP_SUBMIT_ODD 0x112u
#define OP_INNER_SUBMIT 0x22u
#define OP_FAN 0x113u
#define OP_CHAIN 0x114u
#define OP_TREE 0x115u
#define OP_RECORD 0x116u
#define OP_ARGS 0x117u
#define OP_SUBMIT_BLOCK 0x118u
#define OP_RECORD_LANE 0x119u
#define OP_FLOOD 0x11Au
#define OP_HOLD 0x11Bu
#define OP_SUBMIT_ONE 0x11Cu
#define OP_MASKED 0x11Du
#define OP_SPIN 0x100u
#define OP_HANDLER 0x120u

#ifdef TG_TEST_IMAGE
extern const unsigned char tg_test_image[], tg_test_image_end[];
#endif

/* All cases once more with a limit for bodies: then the dispatcher ends what a worker loses. */
static uint32_t test_body_limit_ms;

static inline struct tg_engine_options options(uint32_t slots)
{
    struct tg_engine_options o = test_options(slots, 1);
    o.device_body_limit_ms = test_body_limit_ms;
#ifdef TG_TEST_IMAGE
    o.device_image = tg_test_image;
    o.device_image_bytes = (size_t)(tg_test_image_end - tg_test_image);
#endif
    return o;
}

static inline int nothing(void *context, struct tg_op *op)
{
    (void)context;
    (void)op;
    return TG_OP_FINISHED;
}

static inline struct tg_engine *open_with(const struct tg_engine_options *o)
{
    static const struct {
        uint32_t opcode;
        enum tg_device_shape shape;
    } ops[] = {{OP_ADD, TG_DEVICE_LANE},           {OP_FAIL, TG_DEVICE_LANE},
               {OP_AGAIN, TG_DEVICE_LANE},         {OP_WARP, TG_DEVICE_WARP},
               {OP_BLOCK, TG_DEVICE_BLOCK},        {OP_UNTIL, TG_DEVICE_WARP},
               {OP_SUBMIT, TG_DEVICE_LANE},        {OP_SUBMIT_WARP, TG_DEVICE_WARP},
               {OP_SUBMIT_ODD, TG_DEVICE_WARP},    {OP_FAN, TG_DEVICE_LANE},
               {OP_CHAIN, TG_DEVICE_LANE},         {OP_TREE, TG_DEVICE_LANE},
               {OP_RECORD, TG_DEVICE_WARP},        {OP_ARGS, TG_DEVICE_LANE},
               {OP_SUBMIT_BLOCK, TG_DEVICE_BLOCK}, {OP_NONE, TG_DEVICE_LANE},
               {OP_RECORD_LANE, TG_DEVICE_LANE},   {OP_FLOOD, TG_DEVICE_LANE},
               {OP_SPIN, TG_DEVICE_LANE},          {OP_HOLD, TG_DEVICE_WARP},
               {OP_SUBMIT_ONE, TG_DEVICE_WARP},    {OP_INNER_SUBMIT, TG_DEVICE_LANE},
               {OP_MASKED, TG_DEVICE_LANE}};
    struct tg_engine *e = test_open(o);
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
        CHECK_EQ(tg_engine_register_device(e, ops[i].opcode, ops[i].shape), 0);
    CHECK_EQ(tg_engine_register(e, OP_HANDLER, nothing, NULL), 0);
    return e;
}

static inline struct tg_engine *open_plain(void)
{
    struct tg_engine_options o = options(1000);
    return open_with(&o);
}

static inline uint32_t observable(struct tg_engine *e, uint32_t index)
{
    return test_word(e, OBS + index); /* the copy that the host has */
}

static inline void host_submits(struct tg_engine *e, uint32_t tenant, uint32_t level, uint32_t opcode,
                                const uint32_t *args, uint32_t count)
{
    CHECK_EQ(submit_soon(e, tenant, level, opcode, args, count, NULL), 0);
}

static inline struct tg_engine_stats stats_of(struct tg_engine *e)
{
    struct tg_engine_stats s;
    tg_engine_stats(e, &s);
    return s;
}

/* All over: every claim ended once, and the sums of levels, tenants and opcodes and the words of the wire are
 * the same. */
static inline struct tg_engine_stats settled(struct tg_engine *e)
{
    static struct tg_opcode_stats op[300];
    uint64_t levels[3] = {0}, tenants[3] = {0}, executions = 0, faults = 0;
    CHECK_EQ(tg_engine_settle(e, LIMIT), 0);
    struct tg_engine_stats s = stats_of(e);
    CHECK_EQ(s.claims, s.done + s.faults + s.requeues + s.yields);
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++) {
        levels[0] += s.level[l].claims;
        levels[1] += s.level[l].done;
        levels[2] += s.level[l].faults;
        CHECK_EQ(test_word(e, TG_CONTROL_PRIORITY_FAIRNESS_BASE + l), s.level[l].claims);
    }
    for (uint32_t t = 0; t < TG_TENANTS; t++) {
        tenants[0] += s.tenant[t].claims;
        tenants[1] += s.tenant[t].done;
        tenants[2] += s.tenant[t].faults;
        CHECK_EQ(test_word(e, TG_CONTROL_TENANT_FAIRNESS_BASE + t), s.tenant[t].claims);
    }
    CHECK(levels[0] == s.claims && levels[1] == s.done && levels[2] == s.faults);
    CHECK(tenants[0] == s.claims && tenants[1] == s.done && tenants[2] == s.faults);
    uint32_t n = tg_engine_opcode_stats(e, op, 300);
    for (uint32_t i = 0; i < n; i++) {
        executions += op[i].executions;
        faults += op[i].faults;
    }
    CHECK_EQ(executions, s.done); /* as on the CPU: those that ended DONE */
    CHECK_EQ(faults, s.faults);
    CHECK_EQ(test_word(e, TG_CONTROL_DONE_COUNT), s.done);
    CHECK_EQ(s.device_waiting, 0);
    return s;
}

static inline uint64_t executions_of(struct tg_engine *e, uint32_t opcode)
{
    static struct tg_opcode_stats op[300];
    uint32_t n = tg_engine_opcode_stats(e, op, 300);
    for (uint32_t i = 0; i < n; i++)
        if (op[i].opcode == opcode)
            return op[i].executions;
    return 0;
}

/* A tenant's items are published by one that has the last of its quota, so they wait until it gets more. */
static inline void publish_and_wait(struct tg_engine *e, uint32_t tenant, uint32_t level, uint32_t opcode,
                                    uint32_t how_many, uint32_t a0, uint32_t a1, uint32_t count,
                                    uint32_t report)
{
    const uint32_t args[7] = {level, opcode, count, how_many, report, a0, a1};
    struct tg_item t;
    CHECK_EQ(tg_engine_set_quota(e, tenant, 1), 0);
    CHECK_EQ(submit_soon(e, tenant, TG_PRIORITY_NORMAL, OP_SUBMIT, args, 7, &t), 0);
    CHECK_EQ(tg_engine_wait(e, &t, LIMIT), 0);
}

#endif
