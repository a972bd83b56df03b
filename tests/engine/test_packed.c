/* SPDX-License-Identifier: Apache-2.0
 * Packed slots of every legal shape run each inner op with its own arguments; E9: the debug log. */
#include "engine_test.h"

#define OBS TG_CONTROL_OBSERVABLE_BASE

static struct tg_engine *e;
static uint32_t heard[64][TG_ARGS_PER_SLOT + 1], heard_count;

static int listen(void *context, struct tg_op *op)
{
    (void)context;
    memcpy(heard[heard_count], op->args, sizeof(uint32_t) * TG_ARGS_PER_SLOT);
    heard[heard_count++][TG_ARGS_PER_SLOT] = op->arg_count;
    return TG_OP_FINISHED;
}

static int run_packed(const struct tg_packed_op *ops, size_t n, struct tg_item *t)
{
    uint32_t args[TG_ARGS_PER_SLOT];
    CHECK_EQ(tg_packed_encode(ops, n, args), 0);
    return run_ticket(e, 0, TG_OP_PACKED_SLOT, args, TG_ARGS_PER_SLOT, t);
}

/* Six ops: the arguments start at word 4, not at word 3 as the prototype read them. */
static void packed_six_ops_own_arguments(void)
{
    uint32_t values[6] = {11, 12, 13, 14, 15, 16};
    struct tg_packed_op ops[6];
    struct tg_item t;
    for (int i = 0; i < 6; i++)
        ops[i] = (struct tg_packed_op){20, &values[i], 1};
    CHECK_EQ(tg_engine_register(e, 20, listen, NULL), 0);
    heard_count = 0;
    CHECK_EQ(run_packed(ops, 6, &t), 0);
    CHECK_EQ(heard_count, 6);
    for (uint32_t i = 0; i < 6; i++) {
        CHECK_EQ(heard[i][0], values[i]);
        CHECK_EQ(heard[i][1], 0); /* not its neighbour's */
        CHECK_EQ(heard[i][TG_ARGS_PER_SLOT], 1);
    }
}

static void packed_every_legal_shape(void)
{
    uint64_t seed = 5;
    for (int round = 0; round < 3000; round++) {
        uint32_t values[TG_ARGS_PER_SLOT];
        struct tg_packed_op ops[TG_PACKED_MAX_OPS];
        struct tg_item t;
        uint32_t n = round < 24 ? (uint32_t)round : (uint32_t)check_random(&seed) % (TG_PACKED_MAX_OPS + 1);
        uint32_t room = TG_ARGS_PER_SLOT - (2 + 2 * n + 3) / 4;
        uint32_t used = 0;
        for (uint32_t i = 0; i < n; i++) {
            uint32_t words = (uint32_t)check_random(&seed) % (room - used + 1);
            ops[i] = (struct tg_packed_op){20, &values[used], words};
            for (uint32_t k = 0; k < words; k++)
                values[used + k] = (uint32_t)check_random(&seed) | 1;
            used += words;
        }
        heard_count = 0;
        CHECK_EQ(run_packed(ops, n, &t), 0);
        CHECK_EQ(heard_count, n);
        for (uint32_t i = 0; i < n; i++) {
            CHECK_EQ(heard[i][TG_ARGS_PER_SLOT], ops[i].arg_count);
            for (uint32_t k = 0; k < TG_ARGS_PER_SLOT; k++)
                CHECK_EQ(heard[i][k], k < ops[i].arg_count ? ops[i].args[k] : 0);
        }
    }
}

static void packed_built_in_ops(void)
{
    uint32_t store[2] = {40, OBS + 1}, add[2] = {2, OBS + 1}, load[2] = {OBS + 1, 2}, fence[2] = {0, 99};
    struct tg_packed_op three[3] = {
        {TG_OP_STORE_U32, store, 2}, {TG_OP_ATOMIC_ADD, add, 2}, {TG_OP_LOAD_U32, load, 2}};
    struct tg_packed_op lone[2] = {{TG_OP_NOP, NULL, 0}, {TG_OP_BATCH_FENCE, fence, 2}};
    struct tg_item t;
    uint32_t v, epoch = test_word(e, TG_CONTROL_EPOCH);
    CHECK_EQ(run_packed(three, 3, &t), 0);
    CHECK_EQ(tg_engine_observable_load(e, 2, &v), 0);
    CHECK_EQ(v, 42);
    CHECK_EQ(run_packed(lone, 2, &t), 0);
    CHECK_EQ(test_word(e, TG_CONTROL_EPOCH), epoch + 1);
    CHECK_EQ(test_word(e, OBS), 99);
}

#define WORDS 40u /* observable words of the model below */

/* One random built-in operation over them with at most so many words of arguments, and what it does to the
 * model. */
static uint32_t random_op(uint64_t *seed, uint32_t room, uint32_t *args, uint32_t *ret_words, uint32_t *model)
{
    uint32_t kind = (uint32_t)check_random(seed) % 7, a = (uint32_t)check_random(seed) % WORDS,
             b = (uint32_t)check_random(seed) % WORDS, value = (uint32_t)check_random(seed);
    uint32_t need = kind == TG_OP_NOP                                                              ? 0
                    : kind == TG_OP_COMPARE_SWAP || kind == TG_OP_MEMCPY || kind == TG_OP_DFA_STEP ? 3
                                                                                                   : 2;
    if (need > room)
        kind = TG_OP_NOP;
    *ret_words = need > room ? 0 : need;
    switch (kind) {
    case TG_OP_STORE_U32:
        args[0] = model[b] = value;
        args[1] = OBS + b;
        break;
    case TG_OP_ATOMIC_ADD:
        args[0] = value;
        args[1] = OBS + b;
        model[b] += value;
        break;
    case TG_OP_LOAD_U32:
        args[0] = OBS + a;
        args[1] = b;
        model[b] = model[a];
        break;
    case TG_OP_COMPARE_SWAP: /* of word a; what it was goes to word OBS + a of the observable ones */
        args[0] = OBS + a;
        args[1] = value % 2 ? model[a] : value;
        args[2] = value ^ 1;
        model[OBS + a] = model[a];
        model[a] = args[1] == model[a] ? args[2] : model[a];
        break;
    case TG_OP_MEMCPY:
        args[0] = OBS + a;
        args[1] = OBS + b;
        args[2] = value % 5;
        for (uint32_t i = 0; i < args[2]; i++)
            model[b + i] = model[a + i];
        break;
    case TG_OP_DFA_STEP:
        args[0] = value % 3;
        args[1] = a;
        args[2] = b;
        model[b] = args[0] * 1000 + a;
        break;
    default:
        break;
    }
    return kind;
}

/* Every built-in operation with its own arguments, in random shapes, against a model of the words. */
static void packed_built_in_ops_of_random_shapes(void)
{
    static uint32_t table[3 * TG_DFA_COLUMNS], model[512];
    struct tg_engine_options o = test_options(64, 1);
    uint64_t seed = 11;
    o.observables = 512;
    e = test_open(&o);
    for (uint32_t i = 0; i < 3 * TG_DFA_COLUMNS; i++)
        table[i] = i / TG_DFA_COLUMNS * 1000 + i % TG_DFA_COLUMNS;
    CHECK_EQ(tg_engine_set_dfa(e, table, 3), 0);
    memset(model, 0, sizeof(model));
    for (int round = 0; round < 1500; round++) {
        uint32_t values[TG_ARGS_PER_SLOT], used = 0, n = (uint32_t)check_random(&seed) % 8;
        uint32_t room = TG_ARGS_PER_SLOT - (2 + 2 * n + 3) / 4;
        struct tg_packed_op ops[8];
        struct tg_item t;
        for (uint32_t i = 0; i < n; i++) {
            uint32_t words = 0;
            uint32_t kind = random_op(&seed, room - used, &values[used], &words, model);
            ops[i] = (struct tg_packed_op){(uint8_t)kind, &values[used], words};
            used += words;
        }
        CHECK_EQ(run_packed(ops, n, &t), 0);
        if (round % 50 == 49)
            for (uint32_t i = 0; i < 512; i++)
                CHECK_EQ(test_word(e, OBS + i), model[i]);
    }
    test_close(e);
}

static uint32_t reason_of(const uint32_t *args, uint32_t *inner)
{
    struct tg_item t;
    struct tg_fault f;
    CHECK_EQ(run_ticket(e, 0, TG_OP_PACKED_SLOT, args, TG_ARGS_PER_SLOT, &t), -EIO);
    CHECK_EQ(tg_engine_fault(e, &t, &f), 0);
    *inner = f.inner_op;
    return f.reason;
}

static void e6_packed_faults(void)
{
    uint32_t args[TG_ARGS_PER_SLOT] = {0}, inner;
    uint32_t bad[2] = {1, 3}, waits[2] = {2, 0};
    args[0] = 255; /* 255 ops cannot fit */
    CHECK_EQ(reason_of(args, &inner), TG_FAULT_PACKED);
    args[0] = 1 | 2u << 8 | 20u << 16 | 3u << 24; /* its arguments start behind what was packed */
    CHECK_EQ(reason_of(args, &inner), TG_FAULT_PACKED);
    struct tg_packed_op denied[2] = {{TG_OP_NOP, NULL, 0}, {TG_OP_STORE_U32, bad, 2}};
    CHECK_EQ(tg_packed_encode(denied, 2, args), 0);
    CHECK_EQ(reason_of(args, &inner), TG_FAULT_CONTROL_DENIED);
    CHECK_EQ(inner, 1);
    struct tg_packed_op unknown[1] = {{200, NULL, 0}};
    CHECK_EQ(tg_packed_encode(unknown, 1, args), 0);
    CHECK_EQ(reason_of(args, &inner), TG_FAULT_UNKNOWN_OPCODE);
    struct tg_packed_op fence[1] = {{TG_OP_BATCH_FENCE, waits, 2}};
    CHECK_EQ(tg_packed_encode(fence, 1, args), 0);
    CHECK_EQ(reason_of(args, &inner), TG_FAULT_FENCE);
}

static void e9_65th_record_keeps_64(void)
{
    const void *log;
    size_t bytes, count;
    for (uint32_t i = 0; i < 70; i++) {
        uint32_t args[3] = {i, i * 2, i * 3};
        struct tg_item t;
        CHECK_EQ(run_ticket(e, 0, TG_OP_PRINTF, args, 3, &t), 0);
    }
    tg_engine_buffers(e, NULL, NULL, NULL, NULL, &log, &bytes);
    struct tg_debug_record records[64];
    CHECK_EQ(tg_try_read_debug_log(log, bytes, records, 64, &count), 0);
    CHECK_EQ(count, 64);
    for (uint32_t i = 0; i < 64; i++)
        CHECK(records[i].fmt_id == i && records[i].args[0] == i * 2 && records[i].args[1] == i * 3 &&
              records[i].args[2] % TG_SLOT_WORDS == 0);
    struct tg_engine_stats s;
    tg_engine_stats(e, &s);
    CHECK_EQ(s.log_dropped, 6);
    CHECK_EQ(test_word(e, TG_CONTROL_EXTENSION_BASE + 3), 6);
}

static void cases(void)
{
    RUN(packed_built_in_ops_of_random_shapes);
    e = test_engine(64, 1);
    RUN(packed_six_ops_own_arguments);
    RUN(packed_every_legal_shape);
    RUN(packed_built_in_ops);
    RUN(e6_packed_faults);
    RUN(e9_65th_record_keeps_64);
    test_close(e);
}

int main(void)
{
    BOTH_WAYS(cases);
    return 0;
}
