/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of the IR share: a queue in memory (ring, control, log) for kernels that the interpreter
 * runs. */
#ifndef TG_TESTS_IR_TEST_H
#define TG_TESTS_IR_TEST_H

#include <tidegate/ir.h>
#include <tidegate/ring.h>

#include "check.h"

enum { Q_SLOTS = 64, Q_OBSERVABLES = 16, Q_RECORDS = 4, Q_CONTROL = TG_CONTROL_MIN_WORDS + Q_OBSERVABLES };

struct queue {
    struct tg_slot ring[Q_SLOTS];
    uint32_t control[Q_CONTROL];
    uint32_t log[1 + 4 * Q_RECORDS];
    uint32_t slots;
    struct tg_ir_memory memory;
};

/* A queue of this many slots; all 29 tenants may claim without end. */
static inline void queue_init(struct queue *q, uint32_t slots)
{
    memset(q, 0, sizeof(*q));
    q->slots = slots;
    CHECK_EQ(tg_encode_control(false, 29, Q_OBSERVABLES, q->control, sizeof(q->control), &(size_t){0}), 0);
    for (uint32_t t = 0; t < 29; t++)
        q->control[TG_CONTROL_TENANT_QUOTA_BASE + t] = 0xFFFFFFFFu;
    q->memory.words[TG_IR_RING] = &q->ring[0].status;
    q->memory.count[TG_IR_RING] = slots * TG_SLOT_WORDS;
    q->memory.words[TG_IR_CONTROL] = q->control;
    q->memory.count[TG_IR_CONTROL] = Q_CONTROL;
    q->memory.words[TG_IR_LOG] = q->log;
    q->memory.count[TG_IR_LOG] = 1 + 4 * Q_RECORDS;
}

#define PUBLISH(q, slot, tenant, priority, opcode, ...)                                                      \
    CHECK_EQ(tg_publish_slot_with_priority((q)->ring, (q)->slots *TG_SLOT_BYTES, slot, tenant, priority,     \
                                           opcode, (const uint32_t[]){__VA_ARGS__},                          \
                                           sizeof((const uint32_t[]){__VA_ARGS__}) / 4),                     \
             0)

static inline uint32_t observable(const struct queue *q, uint32_t i)
{
    return q->control[TG_CONTROL_OBSERVABLE_BASE + i];
}

/* A machine of this program over the queue; it must be valid. */
static inline struct tg_ir_machine *machine_of(const struct tg_ir *ir, struct tg_ir_node root,
                                               struct queue *q, uint32_t lanes)
{
    struct tg_ir_error error;
    struct tg_ir_machine *m = NULL;
    struct tg_ir_machine_options o = {.lanes = lanes, .memory = &q->memory};
    if (tg_ir_validate(ir, root, TG_IR_UNRESTRICTED, &error) != 0) {
        fprintf(stderr, "%s: %s\n", error.path, error.text);
        exit(1);
    }
    CHECK_EQ(tg_ir_machine_open(ir, root, &o, &m), 0);
    return m;
}

/* Builds a kernel and runs it until all lanes have left. */
static inline void run_kernel(struct queue *q, const struct tg_ir_kernel *k, uint32_t lanes, uint64_t seed)
{
    static uint64_t memory[1 << 15];
    struct tg_ir ir;
    tg_ir_init(&ir, memory, sizeof(memory));
    struct tg_ir_machine *m = machine_of(&ir, tg_ir_kernel(&ir, k), q, lanes);
    CHECK_EQ(tg_ir_machine_run(m, seed, 100000000), 0);
    for (uint32_t i = 0; i < lanes; i++) {
        uint32_t value = 1;
        CHECK_EQ(tg_ir_machine_value(m, i, &value), 0);
        CHECK_EQ(value, 0);
    }
    tg_ir_machine_close(m);
}

#endif
