/* SPDX-License-Identifier: Apache-2.0
 * Options of an engine mean what they say: workers, pinning, the way work is found; and the words and
 * statistics that tell of faults and latency name the right slot, tenant and level. */
#include <sched.h>

#include "engine/internal.h"
#include "engine_test.h"

enum { WORKERS = 3 };

struct meeting {
    struct gate gate;
    uint32_t seen; /* bit w: worker w was there */
    cpu_set_t allowed[WORKERS];
};

static int meets(void *context, struct tg_op *op)
{
    struct meeting *m = context;
    CHECK(op->worker < WORKERS);
    tg_or_seqcst_u32(&m->seen, 1u << op->worker);
    CHECK_EQ(sched_getaffinity(0, sizeof(cpu_set_t), &m->allowed[op->worker]), 0);
    return gate_handler(&m->gate, op);
}

/* As many workers as were asked for stand at the gate at once; returns who was there. */
static void meet(const struct tg_engine_options *o, struct meeting *m)
{
    struct tg_engine *e = test_open(o);
    memset(m, 0, sizeof(*m));
    sem_init(&m->gate.reached, 0, 0);
    sem_init(&m->gate.open, 0, 0);
    CHECK_EQ(tg_engine_register(e, OP_GATE, meets, m), 0);
    for (uint32_t i = 0; i < WORKERS + 1; i++)
        CHECK_EQ(submit_soon(e, 0, 1, OP_GATE, NULL, 0, NULL), 0);
    for (uint32_t i = 0; i < WORKERS; i++)
        while (sem_wait(&m->gate.reached) != 0)
            ;
    CHECK(sem_trywait(&m->gate.reached) != 0); /* and not one more */
    CHECK_EQ(m->seen, (1u << WORKERS) - 1);
    for (uint32_t i = 0; i < WORKERS + 1; i++)
        gate_open(&m->gate);
    test_close(e);
}

static void workers_are_as_many_as_asked_and_pinned_where_asked(void)
{
    struct tg_engine_options o = test_options(64, WORKERS);
    struct meeting m;
    cpu_set_t mine;
    uint32_t cpus[2], n = 0;
    CHECK_EQ(sched_getaffinity(0, sizeof(mine), &mine), 0);
    for (uint32_t c = CPU_SETSIZE; c-- > 0 && n < 2;)
        if (CPU_ISSET(c, &mine))
            cpus[n++] = c;
    meet(&o, &m);
    for (uint32_t w = 0; w < WORKERS; w++)
        CHECK(CPU_EQUAL(&m.allowed[w], &mine));
    if (CPU_COUNT(&mine) == 1)
        return; /* nothing to tell apart */
    o.cpus = cpus;
    o.cpu_count = n;
    meet(&o, &m);
    for (uint32_t w = 0; w < WORKERS; w++)
        CHECK(CPU_COUNT(&m.allowed[w]) == 1 && CPU_ISSET(cpus[w % n], &m.allowed[w]));
}

static void bad_options_are_refused(void)
{
    const uint32_t cpu[] = {0, CPU_SETSIZE};
    struct tg_engine *e;
    for (uint32_t i = 0; i < 7; i++) {
        struct tg_engine_options o = test_options(64, 1);
        if (i == 0)
            o.slots = 0;
        else if (i == 1)
            o.slots = TG_MAX_ENCODED_RING_SLOTS + 1;
        else if (i == 2)
            o.workers = 257;
        else if (i == 3)
            o.cpus = cpu; /* without a count */
        else if (i == 4)
            o.cpu_count = 1; /* without a list */
        else if (i == 5)
            o.size = sizeof(o) + 1;
        else
            o.tenants = 30;
        CHECK(tg_engine_open(&o, &e) < 0);
    }
}

/* The reference way finds slots by looking at them, the other by entries. */
static void the_way_of_finding_work_is_the_one_asked_for(void)
{
    struct tg_engine *e = test_engine(64, 1);
    struct tg_item t;
    uint32_t cell;
    CHECK_EQ(tg_engine_set_tenant(e, 3, 0), 0);
    CHECK_EQ(submit_soon(e, 3, 2, TG_OP_NOP, NULL, 0, &t), 0);
    CHECK_EQ(tg_index_peek(tg_queue(e, 0, 2, 3), &cell), test_flags == 0);
    CHECK_EQ(tg_engine_set_tenant(e, 3, 1), 0);
    CHECK_EQ(tg_engine_wait(e, &t, LIMIT), 0);
    test_close(e);
}

static void faults_and_latency_are_told_of_whom_they_are(void)
{
    struct tg_engine *e = test_engine(320, 1);
    struct tg_engine_stats s;
    struct tg_opcode_stats ops[64];
    struct tg_item t;
    uint32_t runs = 0, n;
    struct notes notes;
    notes_start(&notes, e, 16);
    for (uint32_t tenant = 0; tenant < TG_TENANTS; tenant++)
        for (uint32_t i = 0; i < tenant % 3 + 1; i++, runs++) {
            uint32_t value = i;
            CHECK_EQ(submit_soon(e, tenant, tenant % 5, OP_NOTE, &value, 1, &t), 0);
        }
    CHECK_EQ(submit_soon(e, 17, TG_PRIORITY_HIGH, 0x777, NULL, 0, &t), 0);
    CHECK_EQ(tg_engine_wait(e, &t, LIMIT), -EIO);
    CHECK_EQ(tg_engine_settle(e, LIMIT), 0);
    CHECK_EQ(test_word(e, TG_EXT_FAULT_COUNT), 1);
    CHECK_EQ(test_word(e, TG_EXT_FAULT_SLOT), t.slot);
    CHECK_EQ(test_word(e, TG_EXT_FAULT_REASON), TG_FAULT_UNKNOWN_OPCODE);
    tg_engine_stats(e, &s);
    for (uint32_t tenant = 0; tenant < TG_TENANTS; tenant++) {
        uint32_t faults = tenant == 17 ? 1 : 0;
        CHECK_EQ(s.tenant[tenant].done, tenant % 3 + 1);
        CHECK_EQ(s.tenant[tenant].faults, faults);
        CHECK_EQ(s.tenant[tenant].claims, tenant % 3 + 1 + faults);
        CHECK_EQ(s.tenant[tenant].latency.count, tenant % 3 + 1 + faults);
        CHECK(s.tenant[tenant].latency.p50_ns > 0);
        CHECK(s.tenant[tenant].latency.p50_ns <= s.tenant[tenant].latency.max_ns);
    }
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++) {
        CHECK_EQ(s.level[l].faults, l == TG_PRIORITY_HIGH ? 1 : 0);
        CHECK_EQ(s.level[l].latency.count, s.level[l].done + s.level[l].faults);
    }
    n = tg_engine_opcode_stats(e, ops, 64);
    CHECK_EQ(ops[n - 1].opcode, OP_NOTE);
    CHECK_EQ(ops[n - 1].executions, runs);
    CHECK_EQ(ops[n - 1].latency.count, runs);
    CHECK_EQ(test_word(e, TG_CONTROL_METRICS_BASE + OP_NOTE), runs); /* the word of a user opcode */
    free(notes.note);
    test_close(e);
}

static void cases(void)
{
    RUN(workers_are_as_many_as_asked_and_pinned_where_asked);
    RUN(the_way_of_finding_work_is_the_one_asked_for);
    RUN(faults_and_latency_are_told_of_whom_they_are);
}

int main(void)
{
    RUN(bad_options_are_refused);
    BOTH_WAYS(cases);
    return 0;
}
