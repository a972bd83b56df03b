/* SPDX-License-Identifier: Apache-2.0
 * Every built-in opcode does what the ABI says, and E6: what it may not do is a FAULT with a reason. */
#include "engine_test.h"

#define OBS TG_CONTROL_OBSERVABLE_BASE

static struct tg_engine *e;

static int op(uint32_t opcode, uint32_t n, uint32_t a0, uint32_t a1, uint32_t a2)
{
    uint32_t args[3] = {a0, a1, a2};
    struct tg_item t;
    return run_ticket(e, 0, opcode, args, n, &t);
}

static uint32_t faulted(uint32_t opcode, uint32_t n, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t *detail)
{
    uint32_t args[3] = {a0, a1, a2};
    struct tg_item t;
    struct tg_fault f;
    CHECK_EQ(run_ticket(e, 0, opcode, args, n, &t), -EIO);
    CHECK_EQ(test_status(e, t.slot), TG_SLOT_FAULT);
    CHECK_EQ(tg_engine_fault(e, &t, &f), 0);
    CHECK(tg_fault_text(f.reason)[0] != '\0');
    CHECK_EQ(test_word(e, TG_CONTROL_EXTENSION_BASE + 1), t.slot);
    CHECK_EQ(test_word(e, TG_CONTROL_EXTENSION_BASE + 2), f.reason);
    if (detail)
        *detail = f.detail;
    return f.reason;
}

static uint32_t obs(uint32_t i)
{
    uint32_t v;
    CHECK_EQ(tg_engine_observable_load(e, i, &v), 0);
    return v;
}

static void simple_opcodes(void)
{
    CHECK_EQ(op(TG_OP_NOP, 0, 0, 0, 0), 0);
    CHECK_EQ(op(TG_OP_STORE_U32, 2, 77, OBS + 3, 0), 0);
    CHECK_EQ(obs(3), 77);
    CHECK_EQ(op(TG_OP_ATOMIC_ADD, 2, 0xFFFFFFFF, OBS + 3, 0), 0);
    CHECK_EQ(obs(3), 76);
    CHECK_EQ(op(TG_OP_LOAD_U32, 2, OBS + 3, 9, 0), 0);
    CHECK_EQ(obs(9), 76);
    /* Swaps: the previous value goes to OBSERVABLE_BASE + a0, which is observable word 160 + i. */
    CHECK_EQ(op(TG_OP_COMPARE_SWAP, 3, OBS + 3, 76, 5), 0);
    CHECK_EQ(obs(3), 5);
    CHECK_EQ(obs(OBS + 3), 76);
    CHECK_EQ(op(TG_OP_COMPARE_SWAP, 3, OBS + 3, 76, 6), 0);
    CHECK_EQ(obs(3), 5);
    CHECK_EQ(obs(OBS + 3), 5);
}

static void memcpy_is_ascending(void)
{
    for (uint32_t i = 0; i < 8; i++)
        CHECK_EQ(op(TG_OP_STORE_U32, 2, i + 1, OBS + 20 + i, 0), 0);
    CHECK_EQ(op(TG_OP_MEMCPY, 3, OBS + 20, OBS + 21, 7), 0);
    for (uint32_t i = 0; i < 8; i++)
        CHECK_EQ(obs(20 + i), 1); /* word by word upwards, so the first word spreads */
    CHECK_EQ(op(TG_OP_MEMCPY, 3, 0xFFFFFFFF, 0xFFFFFFFF, 0), 0);
}

static void dfa_step_follows_the_table(void)
{
    static uint32_t table[3 * TG_DFA_COLUMNS];
    for (uint32_t i = 0; i < 3 * TG_DFA_COLUMNS; i++)
        table[i] = i * 7 % 3;
    CHECK_EQ(faulted(TG_OP_DFA_STEP, 2, 0, 0, 0, NULL), TG_FAULT_NO_DFA);
    CHECK_EQ(tg_engine_set_dfa(e, table, 0), -EINVAL);
    CHECK_EQ(tg_engine_set_dfa(e, table, 3), 0);
    uint32_t state = 0;
    for (uint32_t i = 0; i < 50; i++) {
        CHECK_EQ(op(TG_OP_DFA_STEP, 3, state, i * 5 % 256, 30), 0);
        state = table[state * TG_DFA_COLUMNS + i * 5 % 256];
        CHECK_EQ(obs(30), state);
    }
    uint32_t detail;
    CHECK_EQ(faulted(TG_OP_DFA_STEP, 2, 3, 0, 0, &detail), TG_FAULT_DFA);
    CHECK_EQ(detail, 3);
    CHECK_EQ(faulted(TG_OP_DFA_STEP, 2, 0, 256, 0, NULL), TG_FAULT_DFA);
    CHECK_EQ(tg_engine_set_dfa(e, NULL, 0), 0);
}

static void e6_unknown_opcode_is_fault_not_done(void)
{
    uint32_t detail, done = 0;
    struct tg_engine_stats s;
    tg_engine_stats(e, &s);
    done = (uint32_t)s.done;
    CHECK_EQ(faulted(0x1234, 0, 0, 0, 0, &detail), TG_FAULT_UNKNOWN_OPCODE);
    CHECK_EQ(detail, 0x1234);
    tg_engine_stats(e, &s);
    CHECK_EQ(s.done, done);
}

static void e6_out_of_bounds_is_fault(void)
{
    uint32_t words = OBS + 256, detail;
    CHECK_EQ(faulted(TG_OP_STORE_U32, 2, 1, words, 0, &detail), TG_FAULT_OUT_OF_BOUNDS);
    CHECK_EQ(detail, words);
    CHECK_EQ(faulted(TG_OP_ATOMIC_ADD, 2, 1, 0xFFFFFFFF, 0, NULL), TG_FAULT_OUT_OF_BOUNDS);
    CHECK_EQ(faulted(TG_OP_LOAD_U32, 2, words, 0, 0, NULL), TG_FAULT_OUT_OF_BOUNDS);
    CHECK_EQ(faulted(TG_OP_LOAD_U32, 2, OBS, 0xFFFFFFFF, 0, NULL), TG_FAULT_OUT_OF_BOUNDS);
    CHECK_EQ(faulted(TG_OP_COMPARE_SWAP, 3, OBS + 200, 0, 1, NULL), TG_FAULT_OUT_OF_BOUNDS);
    CHECK_EQ(obs(200), 0); /* the place of the old value is checked before the swap */
    CHECK_EQ(faulted(TG_OP_MEMCPY, 3, OBS, OBS + 1, 0xFFFFFFFF, NULL), TG_FAULT_OUT_OF_BOUNDS);
    CHECK_EQ(faulted(TG_OP_MEMCPY, 3, OBS + 255, OBS, 2, NULL), TG_FAULT_OUT_OF_BOUNDS);
    CHECK_EQ(op(TG_OP_STORE_U32, 2, 1, words - 1, 0), 0);
}

static void e6_control_words_are_denied(void)
{
    uint32_t quota = test_word(e, TG_CONTROL_TENANT_QUOTA_BASE + 1);
    for (uint32_t word = 0; word < OBS; word++) {
        CHECK_EQ(faulted(TG_OP_STORE_U32, 2, 5, word, 0, NULL), TG_FAULT_CONTROL_DENIED);
        CHECK_EQ(faulted(TG_OP_ATOMIC_ADD, 2, 5, word, 0, NULL), TG_FAULT_CONTROL_DENIED);
        CHECK_EQ(faulted(TG_OP_LOAD_U32, 2, word, 0, 0, NULL), TG_FAULT_CONTROL_DENIED);
        CHECK_EQ(faulted(TG_OP_COMPARE_SWAP, 3, word, 0, 9, NULL), TG_FAULT_CONTROL_DENIED);
    }
    CHECK_EQ(faulted(TG_OP_MEMCPY, 3, OBS - 1, OBS, 2, NULL), TG_FAULT_CONTROL_DENIED);
    CHECK_EQ(faulted(TG_OP_MEMCPY, 3, OBS, 3, 2, NULL), TG_FAULT_CONTROL_DENIED);
    CHECK_EQ(faulted(TG_OP_SHUTDOWN, 0, 0, 0, 0, NULL), TG_FAULT_CONTROL_DENIED);
    CHECK_EQ(test_word(e, TG_CONTROL_SHUTDOWN), 0);
    CHECK_EQ(test_word(e, TG_CONTROL_TENANT_QUOTA_BASE + 1), quota);
}

static int fails(void *context, struct tg_op *o)
{
    (void)context;
    return o->args[0] == 0 ? -ENOENT : (int)o->args[0];
}

static void e6_handler_error_is_fault(void)
{
    uint32_t detail;
    CHECK_EQ(tg_engine_register(e, 40, fails, NULL), 0);
    CHECK_EQ(faulted(40, 1, 0, 0, 0, &detail), TG_FAULT_HANDLER);
    CHECK_EQ((int32_t)detail, -ENOENT);
    CHECK_EQ(faulted(40, 1, 3, 0, 0, NULL), TG_FAULT_HANDLER);
    CHECK_EQ(faulted(40, 1, 100, 0, 0, NULL), TG_FAULT_HANDLER);
}

static void submit_refuses_bad_calls(void)
{
    uint32_t args[13] = {0};
    CHECK_EQ(tg_engine_submit(e, 0, 5, 0, NULL, 0, NULL), -EINVAL);
    CHECK_EQ(tg_engine_submit(e, 0, 0, 0, args, 13, NULL), -EINVAL);
    CHECK_EQ(tg_engine_submit(e, 0, 0, 0, NULL, 1, NULL), -EINVAL);
    CHECK_EQ(tg_engine_submit(e, 0, 0, TG_OP_LOAD_MISS, args, 2, NULL), -EINVAL);
    CHECK_EQ(tg_engine_submit(e, 0, 0, 0x80000000u, NULL, 0, NULL), -EINVAL);
    CHECK_EQ(tg_engine_submit(e, 0, 0, 0xFFF0u, NULL, 0, NULL), -EINVAL);
    args[0] = 3;
    CHECK_EQ(tg_engine_submit(e, 0, 0, TG_OP_BATCH_FENCE, args, 2, NULL), -EINVAL);
    CHECK_EQ(tg_engine_register(e, 3, fails, NULL), -EINVAL);
    CHECK_EQ(tg_engine_register(e, TG_OP_PRINTF, fails, NULL), -EINVAL);
    CHECK_EQ(tg_engine_register(e, 50, NULL, NULL), -EINVAL);
}

static void metrics_count_executions(void)
{
    struct tg_opcode_stats ops[64];
    CHECK_EQ(tg_engine_settle(e, LIMIT), 0);
    uint32_t n = tg_engine_opcode_stats(e, ops, 64);
    CHECK(n > 12 && n < 64);
    for (uint32_t i = 0; i < n; i++)
        if (ops[i].opcode < TG_CONTROL_METRICS_SLOTS)
            CHECK_EQ(test_word(e, TG_CONTROL_METRICS_BASE + ops[i].opcode), ops[i].executions);
    CHECK(ops[TG_OP_STORE_U32].executions >= 10);
    CHECK(ops[TG_OP_STORE_U32].latency.count >= 10 && ops[TG_OP_STORE_U32].latency.p50_ns > 0);
    struct tg_engine_stats s;
    tg_engine_stats(e, &s);
    CHECK_EQ(test_word(e, TG_CONTROL_DONE_COUNT), s.done);
    CHECK_EQ(test_word(e, TG_CONTROL_EXTENSION_BASE), s.faults);
    CHECK_EQ(test_word(e, TG_CONTROL_TENANT_FAIRNESS_BASE), s.claims);
    CHECK_EQ(test_word(e, TG_CONTROL_PRIORITY_FAIRNESS_BASE + TG_PRIORITY_NORMAL), s.claims);
}

static void cases(void)
{
    e = test_engine(64, 1);
    RUN(simple_opcodes);
    RUN(memcpy_is_ascending);
    RUN(dfa_step_follows_the_table);
    RUN(e6_unknown_opcode_is_fault_not_done);
    RUN(e6_out_of_bounds_is_fault);
    RUN(e6_control_words_are_denied);
    RUN(e6_handler_error_is_fault);
    RUN(submit_refuses_bad_calls);
    RUN(metrics_count_executions);
    test_close(e);
}

static void unrestricted_may_touch_control_and_shut_down(void)
{
    struct tg_engine_options o = test_options(64, 2);
    struct tg_item t;
    o.flags |= TG_ENGINE_UNRESTRICTED;
    e = test_open(&o);
    CHECK_EQ(op(TG_OP_STORE_U32, 2, 9, 155, 0), 0);
    CHECK_EQ(test_word(e, 155), 9);
    CHECK_EQ(op(TG_OP_LOAD_U32, 2, TG_CONTROL_TENANT_BASE, 1, 0), 0);
    CHECK_EQ(obs(1), TG_CONTROL_TENANT_MASKS);
    CHECK_EQ(faulted(TG_OP_STORE_U32, 2, 1, 0xFFFFFFFF, 0, NULL), TG_FAULT_OUT_OF_BOUNDS);
    CHECK_EQ(run_ticket(e, 0, TG_OP_SHUTDOWN, NULL, 0, &t), 0);
    CHECK_EQ(test_word(e, TG_CONTROL_SHUTDOWN), 1);
    CHECK_EQ(tg_engine_submit(e, 0, 0, 0, NULL, 0, NULL), -ESHUTDOWN);
    test_close(e);
}

int main(void)
{
    BOTH_WAYS(cases);
    RUN(unrestricted_may_touch_control_and_shut_down);
    return 0;
}
