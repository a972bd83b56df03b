/* SPDX-License-Identifier: Apache-2.0
 * The kernel under the interpreter: every opcode's effect, fault and counters, and that lanes under random
 * schedules finish everything once (E1 to E6, E9). */
#include "ir_test.h"

static struct queue q;

static void run(uint32_t lanes, uint32_t flags)
{
    run_kernel(&q, &(struct tg_ir_kernel){.slots = q.slots, .flags = flags | TG_IR_UNTIL_IDLE}, lanes, 7);
}

/* The slot faulted for this reason. */
static void faulted(uint32_t slot, uint32_t reason)
{
    CHECK_EQ(q.ring[slot].status, TG_SLOT_FAULT);
    CHECK_EQ(q.control[TG_CONTROL_FAULT_SLOT], slot);
    CHECK_EQ(q.control[TG_CONTROL_FAULT_REASON], reason);
}

static void opcodes(void)
{
    queue_init(&q, 8);
    PUBLISH(&q, 0, 1, 2, TG_OP_NOP, 0);
    PUBLISH(&q, 1, 1, 2, TG_OP_STORE_U32, 77, 160);
    PUBLISH(&q, 2, 2, 1, TG_OP_ATOMIC_ADD, 5, 161);
    run(1, 0);
    CHECK_EQ(observable(&q, 0), 77);
    CHECK_EQ(observable(&q, 1), 5);
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_EQ(q.ring[i].status, TG_SLOT_DONE);
        CHECK_EQ(q.control[TG_CONTROL_METRICS_BASE + i], 1);
    }
    CHECK_EQ(q.control[TG_CONTROL_DONE_COUNT], 3);
    CHECK_EQ(q.control[TG_CONTROL_TENANT_FAIRNESS_BASE + 1], 2);
    CHECK_EQ(q.control[TG_CONTROL_TENANT_FAIRNESS_BASE + 2], 1);
    CHECK_EQ(q.control[TG_CONTROL_PRIORITY_FAIRNESS_BASE + 1], 1);
    CHECK_EQ(q.control[TG_CONTROL_PRIORITY_FAIRNESS_BASE + 2], 2);
    CHECK_EQ(q.control[TG_CONTROL_PRIORITY_STARVATION_COUNTER], 0);

    PUBLISH(&q, 0, 1, 0, TG_OP_LOAD_U32, 160, 3);
    PUBLISH(&q, 1, 1, 1, TG_OP_COMPARE_SWAP, 161, 5, 9); /* out: 160 + 161, past the end */
    run(1, 0);
    CHECK_EQ(observable(&q, 3), 77);
    faulted(1, TG_FAULT_OUT_OF_BOUNDS);
    CHECK_EQ(observable(&q, 1), 5);
    CHECK_EQ(q.control[TG_CONTROL_PRIORITY_STARVATION_COUNTER], 2);
    PUBLISH(&q, 2, 1, 0, TG_OP_COMPARE_SWAP, 1, 4, 9); /* control[1] is DONE_COUNT: 4 by now */
    run(1, TG_IR_UNRESTRICTED);
    CHECK_EQ(observable(&q, 1), 4);
    CHECK_EQ(q.control[TG_CONTROL_DONE_COUNT], 10);

    q.control[160] = 1;
    q.control[161] = 2;
    PUBLISH(&q, 3, 1, 0, TG_OP_MEMCPY, 160, 161, 3); /* overlapping ranges spread */
    run(1, 0);
    for (uint32_t i = 0; i < 4; i++)
        CHECK_EQ(observable(&q, i), 1);
    PUBLISH(&q, 3, 1, 0, TG_OP_MEMCPY, 1, 2, 0); /* nothing */
    run(1, 0);
    CHECK_EQ(q.ring[3].status, TG_SLOT_DONE);
}

static void e6_faults(void)
{
    static const struct {
        uint32_t opcode, a0, a1, a2, reason;
    } bad[] = {
        {TG_OP_STORE_U32, 1, 159, 0, TG_FAULT_CONTROL_DENIED},
        {TG_OP_STORE_U32, 1, Q_CONTROL, 0, TG_FAULT_OUT_OF_BOUNDS},
        {TG_OP_STORE_U32, 1, 0xFFFFFFFF, 0, TG_FAULT_OUT_OF_BOUNDS},
        {TG_OP_ATOMIC_ADD, 1, 0, 0, TG_FAULT_CONTROL_DENIED},
        {TG_OP_LOAD_U32, 3, 0, 0, TG_FAULT_CONTROL_DENIED},
        {TG_OP_LOAD_U32, 160, 0xFFFFFFFF, 0, TG_FAULT_OUT_OF_BOUNDS},
        {TG_OP_COMPARE_SWAP, 3, 0, 0, TG_FAULT_CONTROL_DENIED},
        {TG_OP_MEMCPY, 160, 161, Q_OBSERVABLES, TG_FAULT_OUT_OF_BOUNDS},
        {TG_OP_MEMCPY, 159, 161, 1, TG_FAULT_CONTROL_DENIED},
        {TG_OP_MEMCPY, 161, 160, 0xFFFFFFFF, TG_FAULT_OUT_OF_BOUNDS},
        {TG_OP_DFA_STEP, 0, 0, 0, TG_FAULT_NO_DFA},
        {TG_OP_BATCH_FENCE, 2, 0, 0, TG_FAULT_FENCE},
        {TG_OP_SHUTDOWN, 0, 0, 0, TG_FAULT_CONTROL_DENIED},
        {8, 0, 0, 0, TG_FAULT_UNKNOWN_OPCODE},
        {TG_OP_PACKED_SLOT, 24, 0, 0, TG_FAULT_PACKED},
        {TG_OP_PACKED_SLOT, 1 | 12 << 8, 0, 0, TG_FAULT_PACKED},
        {TG_OP_PACKED_SLOT, 1 | 1 << 8 | 2u << 24, 0, 0, TG_FAULT_PACKED},
        {TG_OP_PACKED_SLOT, 1 | 9 << 16, 0, 0, TG_FAULT_UNKNOWN_OPCODE},
        {TG_OP_PACKED_SLOT, 1 | 1 << 8 | TG_OP_BATCH_FENCE << 16, 1, 0, TG_FAULT_FENCE},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct queue before;
        queue_init(&q, 8);
        PUBLISH(&q, 0, 0, 0, TG_OP_NOP, 0);
        uint32_t args[3] = {bad[i].a0, bad[i].a1, bad[i].a2};
        q.ring[1] = (struct tg_slot){TG_SLOT_PUBLISHED, bad[i].opcode, 0, 0, {args[0], args[1], args[2]}};
        before = q;
        run(1, 0);
        faulted(1, bad[i].reason);
        CHECK_EQ(q.control[TG_CONTROL_FAULT_COUNT], 1);
        CHECK_EQ(q.control[TG_CONTROL_DONE_COUNT], 1);
        CHECK(memcmp(q.control + 160, before.control + 160, 4 * Q_OBSERVABLES) == 0);
        CHECK(memcmp(q.control, before.control, 4) == 0);
    }
}

static void packed(void)
{
    queue_init(&q, 8);
    uint32_t add[2] = {3, 160}, add2[2] = {4, 160}, store[2] = {9, 161}, fence[2] = {0, 8};
    struct tg_packed_op ops[] = {{.op_id = 2, .args = add, .arg_count = 2},
                                 {.op_id = 2, .args = add2, .arg_count = 2},
                                 {.op_id = 1, .args = store, .arg_count = 2},
                                 {.op_id = 0, .args = NULL, .arg_count = 0}};
    CHECK_EQ(tg_publish_packed_slot(q.ring, 8 * 64, 0, 0, ops, 4), 0);
    run(1, 0);
    CHECK_EQ(q.ring[0].status, TG_SLOT_DONE);
    CHECK_EQ(observable(&q, 0), 7);
    CHECK_EQ(observable(&q, 1), 9);
    CHECK_EQ(q.control[TG_CONTROL_METRICS_BASE + 0], 1);
    CHECK_EQ(q.control[TG_CONTROL_METRICS_BASE + 1], 1);
    CHECK_EQ(q.control[TG_CONTROL_METRICS_BASE + 2], 2);
    CHECK_EQ(q.control[TG_CONTROL_DONE_COUNT], 1);
    struct tg_packed_op inner = {.op_id = 7, .args = fence, .arg_count = 2};
    CHECK_EQ(tg_publish_packed_slot(q.ring, 8 * 64, 0, 0, &inner, 1), 0);
    CHECK_EQ(tg_publish_packed_slot(q.ring, 8 * 64, 1, 0, NULL, 0), 0);
    run(1, 0);
    CHECK_EQ(observable(&q, 0), 8);
    CHECK_EQ(q.control[TG_CONTROL_EPOCH], 1);
    CHECK_EQ(q.ring[1].status, TG_SLOT_DONE);
}

static void e9_log(void)
{
    queue_init(&q, 8);
    for (uint32_t i = 0; i < 6; i++)
        PUBLISH(&q, i, 0, 2, TG_OP_PRINTF, i, i + 10, i + 20);
    run(2, 0);
    struct tg_debug_record r[6];
    CHECK_EQ(tg_read_debug_log(q.log, sizeof(q.log), r, 6), 4);
    CHECK_EQ(q.control[TG_CONTROL_LOG_DROPPED], 2);
    for (uint32_t i = 0; i < 4; i++) {
        CHECK_EQ(r[i].args[0], r[i].fmt_id + 10);
        CHECK_EQ(r[i].args[1], r[i].fmt_id + 20);
        CHECK_EQ(r[i].args[2], r[i].fmt_id * 16);
    }
    CHECK_EQ(q.control[TG_CONTROL_DONE_COUNT], 6);
    q.log[0] = 5; /* a cursor within a record: dropped, not written */
    PUBLISH(&q, 0, 0, 2, TG_OP_PRINTF, 1, 2, 3);
    run(1, 0);
    CHECK_EQ(q.log[0], 5);
    CHECK_EQ(q.control[TG_CONTROL_LOG_DROPPED], 3);
    q.memory.count[TG_IR_LOG] = 0;
    PUBLISH(&q, 0, 0, 2, TG_OP_PRINTF, 1, 2, 3);
    run(1, 0);
    CHECK_EQ(q.control[TG_CONTROL_LOG_DROPPED], 4);
    CHECK_EQ(q.ring[0].status, TG_SLOT_DONE);
}

static void waiting_states(void)
{
    queue_init(&q, 8);
    size_t bytes;
    CHECK_EQ(tg_encode_load_miss(3, false, q.ring, 64, &bytes), 0);
    run(1, 0);
    CHECK_EQ(q.ring[0].status, TG_SLOT_WAIT_IO);
    CHECK_EQ(q.control[TG_CONTROL_DONE_COUNT], 0);
    q.ring[0].status = TG_SLOT_REQUEUE;
    run(1, 0);
    CHECK_EQ(q.ring[0].status, TG_SLOT_DONE);
    CHECK_EQ(q.control[TG_CONTROL_PRIORITY_FAIRNESS_BASE], 2);
    /* E5: a fence before its items end waits as YIELD, and is not looked at again. */
    PUBLISH(&q, 1, 0, 2, TG_OP_NOP, 0);
    q.ring[1].status = TG_SLOT_WAIT_IO;
    PUBLISH(&q, 2, 0, 0, TG_OP_BATCH_FENCE, 1, 55);
    run(1, 0);
    CHECK_EQ(q.ring[2].status, TG_SLOT_YIELD);
    CHECK_EQ(q.control[TG_CONTROL_EPOCH], 0);
    uint32_t claims = q.control[TG_CONTROL_PRIORITY_FAIRNESS_BASE];
    run(2, 0);
    CHECK_EQ(q.control[TG_CONTROL_PRIORITY_FAIRNESS_BASE], claims);
    q.ring[1].status = TG_SLOT_REQUEUE;
    run(2, 0);
    CHECK_EQ(q.ring[2].status, TG_SLOT_DONE);
    CHECK_EQ(q.control[TG_CONTROL_EPOCH], 1);
    CHECK_EQ(observable(&q, 0), 55);
}

static void e8_shutdown(void)
{
    queue_init(&q, 8);
    PUBLISH(&q, 0, 0, 0, TG_OP_SHUTDOWN, 0);
    PUBLISH(&q, 1, 0, 4, TG_OP_STORE_U32, 1, 160);
    run_kernel(&q, &(struct tg_ir_kernel){.slots = 8, .flags = TG_IR_UNRESTRICTED}, 2, 3);
    CHECK_EQ(q.control[TG_CONTROL_SHUTDOWN], 1);
    CHECK_EQ(observable(&q, 0), 1); /* nothing is abandoned */
}

static void e4_tenants(void)
{
    queue_init(&q, 8);
    q.control[TG_CONTROL_TENANT_MASKS + 1] = 0;
    q.control[TG_CONTROL_TENANT_MASKS + 2] = 0x7FFFFFFF;
    q.control[TG_CONTROL_TENANT_QUOTA_BASE + 3] = 0;
    q.control[TG_CONTROL_TENANT_QUOTA_BASE + 4] = 1;
    for (uint32_t t = 0; t < 5; t++)
        PUBLISH(&q, t, t, 2, TG_OP_NOP, 0);
    PUBLISH(&q, 5, 4, 2, TG_OP_NOP, 0);
    PUBLISH(&q, 6, 29, 2, TG_OP_NOP, 0);
    PUBLISH(&q, 7, 0, 2, TG_OP_NOP, 0);
    q.ring[7].priority = 5;
    run(2, 0);
    CHECK_EQ(q.ring[0].status, TG_SLOT_DONE);
    for (uint32_t t = 1; t < 4; t++)
        CHECK_EQ(q.ring[t].status, TG_SLOT_PUBLISHED);
    CHECK_EQ(q.ring[4].status + q.ring[5].status, TG_SLOT_DONE + TG_SLOT_PUBLISHED);
    CHECK_EQ(q.control[TG_CONTROL_TENANT_QUOTA_BASE + 4], 0);
    CHECK_EQ(q.ring[6].status, TG_SLOT_FAULT);
    CHECK_EQ(q.ring[7].status, TG_SLOT_FAULT);
    CHECK_EQ(q.control[TG_CONTROL_FAULT_COUNT], 2);
    CHECK_EQ(q.control[TG_CONTROL_TENANT_FAIRNESS_BASE + 29], 0);
}

/* The order in which levels are served, by one lane that always has work at all of them. */
static uint32_t served[400];
static uint32_t served_count;

static void e3_bounded_overtaking(void)
{
    static uint64_t memory[1 << 15];
    struct tg_ir ir;
    tg_ir_init(&ir, memory, sizeof(memory));
    struct tg_ir_kernel k = {.slots = 5, .rounds = 1};
    queue_init(&q, 5);
    struct tg_ir_machine *m = machine_of(&ir, tg_ir_kernel(&ir, &k), &q, 1);
    uint32_t since[5] = {0};
    for (served_count = 0; served_count < 400; served_count++) {
        uint32_t before[5];
        for (uint32_t l = 0; l < 5; l++) {
            if (q.ring[l].status != TG_SLOT_PUBLISHED)
                PUBLISH(&q, l, 0, l, TG_OP_NOP, 0);
            before[l] = q.control[TG_CONTROL_PRIORITY_FAIRNESS_BASE + l];
        }
        tg_ir_machine_reset(m);
        CHECK_EQ(tg_ir_machine_run(m, 1, 100000), 0);
        uint32_t now = 5;
        for (uint32_t l = 0; l < 5; l++)
            if (q.control[TG_CONTROL_PRIORITY_FAIRNESS_BASE + l] != before[l])
                now = l;
        CHECK(now < 5);
        served[served_count] = now;
        for (uint32_t l = 0; l < 5; l++) {
            since[l] = l == now ? 0 : since[l] + 1;
            CHECK(since[l] <= 19);
        }
    }
    CHECK_EQ(served[0], 0);
    CHECK_EQ(served[15], 0);
    CHECK_EQ(served[16], 1);
    tg_ir_machine_close(m);
}

static struct tg_ir_opcode user(struct tg_ir *ir, uint32_t opcode, const char *text)
{
    struct tg_ir_opcode op = {0, {0}};
    struct tg_ir_error error;
    char all[512];
    snprintf(all, sizeof(all), "(opcode %u %s)", opcode, text);
    int r = tg_ir_parse_opcode(ir, all, strlen(all), 0, &op, &error);
    if (r != 0)
        fprintf(stderr, "%u: %s: %s\n", error.line, error.path, error.text);
    CHECK_EQ(r, 0);
    return op;
}

static void user_opcodes(void)
{
    static uint64_t memory[1 << 16];
    struct tg_ir ir;
    tg_ir_init(&ir, memory, sizeof(memory));
    struct tg_ir_opcode op[] = {
        user(&ir, 8, "(store observable a1 (mul a0 2))"),
        user(&ir, 9, "(fault 33)"),
        user(&ir, 10, "(store observable a0 1)"),
        user(&ir, 11, "(return 1)"),
        user(&ir, 12, "(return 7)"),
        user(&ir, 200, "(let sum 0) (loop i 0 a0 100 (assign sum (add sum i))) (store observable 1 sum)"),
        user(&ir, 201, "(loop i 0 a0 100 (pause))"),
    };
    struct tg_ir_kernel k = {.slots = 8, .opcodes = op, .opcode_count = 7, .rounds = 1};
    struct tg_ir_node kernel = tg_ir_kernel(&ir, &k);
    queue_init(&q, 8);
    struct tg_ir_machine *m = machine_of(&ir, kernel, &q, 1);
    static const struct {
        uint32_t opcode, a0, a1, status, reason;
    } want[] = {
        {8, 21, 0, TG_SLOT_DONE, 0},
        {9, 0, 0, TG_SLOT_FAULT, TG_FAULT_HANDLER},
        {10, 16, 0, TG_SLOT_FAULT, TG_FAULT_OUT_OF_BOUNDS},
        {11, 0, 0, TG_SLOT_REQUEUE, 0},
        {12, 0, 0, TG_SLOT_FAULT, TG_FAULT_HANDLER},
        {200, 10, 0, TG_SLOT_DONE, 0},
        {200, 101, 0, TG_SLOT_FAULT, TG_FAULT_OUT_OF_BOUNDS},
        {201, 100, 0, TG_SLOT_DONE, 0},
        {202, 0, 0, TG_SLOT_FAULT, TG_FAULT_UNKNOWN_OPCODE},
    };
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        q.ring[3] = (struct tg_slot){0};
        q.control[TG_CONTROL_FAULT_REASON] = 0;
        PUBLISH(&q, 3, 0, 2, want[i].opcode, want[i].a0, want[i].a1);
        tg_ir_machine_reset(m);
        CHECK_EQ(tg_ir_machine_run(m, 1, 1000000), 0);
        CHECK_EQ(q.ring[3].status, want[i].status);
        CHECK_EQ(q.control[TG_CONTROL_FAULT_REASON], want[i].reason);
    }
    CHECK_EQ(observable(&q, 0), 42);
    CHECK_EQ(observable(&q, 1), 45);
    CHECK_EQ(q.control[TG_CONTROL_METRICS_BASE + 8], 1);
    tg_ir_machine_close(m);
}

/* E1: whatever the schedule, lanes and stride, every item runs exactly once. */
static void e1_random_schedules(void)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        uint32_t slots = 5 + (uint32_t)(seed * 7 % 59);
        uint32_t count = 0;
        queue_init(&q, slots);
        for (uint32_t i = 0; i < slots; i++)
            if ((seed * 31 + i) % 3) {
                PUBLISH(&q, i, i % 5, (uint32_t)(seed + i) % 5, TG_OP_ATOMIC_ADD, 1, 160 + i % 16);
                count++;
            }
        run_kernel(
            &q,
            &(struct tg_ir_kernel){.slots = slots, .stride = (uint32_t)seed % 8, .flags = TG_IR_UNTIL_IDLE},
            1 + (uint32_t)seed % 7, seed);
        uint32_t sum = 0;
        for (uint32_t i = 0; i < 16; i++)
            sum += observable(&q, i);
        CHECK_EQ(sum, count);
        CHECK_EQ(q.control[TG_CONTROL_DONE_COUNT], count);
        CHECK_EQ(q.control[TG_CONTROL_METRICS_BASE + 2], count);
        for (uint32_t i = 0; i < slots; i++)
            CHECK(q.ring[i].status == TG_SLOT_DONE || q.ring[i].status == TG_SLOT_EMPTY);
    }
}

/* Tenants take turns, and no claim of one carries a lane past the slots of the other: slot 1 has its turn
 * although slot 2 is claimed between any two of its tenant's. Published again as soon as they are done. */
static void every_slot_has_its_turn(void)
{
    enum { LANES = 64, CLAIMS = 300 }; /* a turn is 64 / LANES claims */
    static uint64_t memory[1 << 15];
    struct tg_ir ir;
    struct tg_ir_kernel k = {.slots = 4};
    uint32_t done[4] = {0};
    queue_init(&q, 4);
    for (uint32_t i = 1; i < 4; i++)
        PUBLISH(&q, i, i != 2, 0, TG_OP_NOP, 0);
    tg_ir_init(&ir, memory, sizeof(memory));
    struct tg_ir_machine *m = machine_of(&ir, tg_ir_kernel(&ir, &k), &q, LANES);
    while (done[1] + done[2] + done[3] < CLAIMS) {
        CHECK_EQ(tg_ir_machine_step(m, 3), 1);
        for (uint32_t i = 1; i < 4; i++)
            if (q.ring[i].status == TG_SLOT_DONE) {
                done[i]++;
                PUBLISH(&q, i, i != 2, 0, TG_OP_NOP, 0);
            }
    }
    tg_ir_machine_close(m);
    CHECK(done[1] > CLAIMS / 5 && done[2] > CLAIMS / 5 && done[3] > CLAIMS / 5);
}

int main(void)
{
    RUN(every_slot_has_its_turn);
    RUN(opcodes);
    RUN(e6_faults);
    RUN(packed);
    RUN(e9_log);
    RUN(waiting_states);
    RUN(e8_shutdown);
    RUN(e4_tenants);
    RUN(e3_bounded_overtaking);
    RUN(user_opcodes);
    RUN(e1_random_schedules);
    return 0;
}
