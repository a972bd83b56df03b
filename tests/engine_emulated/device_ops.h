/* SPDX-License-Identifier: Apache-2.0
 * Opcodes of a device image, for tests and benches: the same text is compiled for the card and for the
 * emulator.
 */
#ifndef TG_TESTS_DEVICE_OPS_H
#define TG_TESTS_DEVICE_OPS_H

#include "engine/device_op.h"

#define OP_DEVICE_SPIN 0x100u  /* a0: ns, a1: seconds */
#define OP_DEVICE_ADD 0x101u   /* observable a0 += a1 */
#define OP_DEVICE_FAIL 0x102u  /* returns a0 as it is */
#define OP_DEVICE_AGAIN 0x103u /* observable a0 counts its runs; ends with run a1 */
#define OP_DEVICE_WARP 0x104u  /* a whole warp: lane i adds 1 to observable a0 */
#define OP_DEVICE_EMPTY 0x105u
/* A whole block: each lane adds 1 to observable a0, twice; a0 + 1 counts who saw less than all the first
 * time. */
#define OP_DEVICE_BLOCK 0x106u
#define OP_DEVICE_WILD 0x108u      /* stores to nobody's memory; in the emulator that ends the process */
#define OP_DEVICE_INNER 0x20u      /* observable a0 += a1 * 10 + the number of its arguments that are not 0 */
#define OP_DEVICE_INNER_FAIL 0x21u /* returns a0 as it is; a number that packed slots can have */
#define OP_DEVICE_UNTIL 0x107u     /* again and again until observable a0 is not 0 */

/* Items that publish items. */
#define OP_DEVICE_SUBMIT 0x110u      /* see test_submit; by a lane, */
#define OP_DEVICE_SUBMIT_WARP 0x111u /* by each lane of a warp, */
#define OP_DEVICE_SUBMIT_ODD 0x112u  /* by every second one */
#define OP_DEVICE_INNER_SUBMIT                                                                               \
    0x22u                       /* publishes a0 times 1 to observable a1 += 1: an operation of packed slots */
#define OP_DEVICE_FAN 0x113u    /* see test_fan */
#define OP_DEVICE_CHAIN 0x114u  /* see test_chain */
#define OP_DEVICE_TREE 0x115u   /* see test_tree */
#define OP_DEVICE_RECORD 0x116u /* see test_record; a whole warp */
#define OP_DEVICE_ARGS 0x117u   /* see test_args */
#define OP_DEVICE_RECORD_LANE 0x119u
#define OP_DEVICE_FLOOD 0x11Au        /* see test_flood */
#define OP_DEVICE_HOLD 0x11Bu         /* see test_hold */
#define OP_DEVICE_SUBMIT_ONE 0x11Cu   /* see test_submit_one */
#define OP_DEVICE_MASKED 0x11Du       /* see test_masked */
#define OP_DEVICE_SUBMIT_BLOCK 0x118u /* as OP_DEVICE_SUBMIT, by each lane of a block */

/* Argument i of an item that OP_DEVICE_SUBMIT publishes, from the third on. */
#define TEST_ARGUMENT(i) (0x01010101u * (i))

/* Publishes a3 items of opcode a1 at level a0, with a2 arguments: a5, a6, and TEST_ARGUMENT. Observable a4
 * counts those that were taken; the first that was not ends it, a4 + 1 counts that and a4 + 2 is its error.
 */
TG_DEVICE int test_submit(struct tg_device_op *op)
{
    uint32_t args[TG_ARGS_PER_SLOT], before, taken = 0;
    int r = 0;
    for (uint32_t i = 0; i < TG_ARGS_PER_SLOT; i++)
        args[i] = i < 2 ? op->args[5 + i] : TEST_ARGUMENT(i);
    for (; taken < op->args[3]; taken++) {
        r = tg_device_submit(op, op->args[0], op->args[1], args, op->args[2]);
        if (r)
            break;
    }
    bool there = tg_device_add(op, op->args[4], taken, &before);
    if (r)
        there = there && tg_device_add(op, op->args[4] + 1, 1, &before) &&
                tg_device_store(op, op->args[4] + 2, (uint32_t)-r);
    return there ? TG_OP_FINISHED : -14;
}

/* Lane a0 of a warp publishes one item, which adds 1 to observable a1; it writes nothing itself. */
TG_DEVICE int test_submit_one(struct tg_device_op *op)
{
    const uint32_t args[2] = {op->args[1], 1};
    return op->lane == op->args[0] ? tg_device_submit(op, op->priority, OP_DEVICE_ADD, args, 2)
                                   : TG_OP_FINISHED;
}

/* Says that it is tenant a0, and publishes one item, which adds 1 to observable a1. */
TG_DEVICE int test_masked(struct tg_device_op *op)
{
    const uint32_t args[2] = {op->args[1], 1};
    op->tenant = op->args[0];
    return tg_device_submit(op, op->priority, OP_DEVICE_ADD, args, 2);
}

TG_DEVICE int test_inner_submit(struct tg_device_op *op)
{
    const uint32_t args[2] = {op->args[1], 1};
    int r = 0;
    for (uint32_t i = 0; i < op->args[0] && r == 0; i++)
        r = tg_device_submit(op, (op->priority + i) % TG_PRIORITY_LEVELS, OP_DEVICE_ADD, args, 2);
    return r;
}

/* Publishes a2 items of opcode a1 at level a0, with a4 and a5. Where there is no room it goes behind what
 * waits and goes on then: observable a3 says how many are out, a3 + 1 counts how often. Any other error
 * faults it. */
TG_DEVICE int test_fan(struct tg_device_op *op)
{
    uint32_t out = 0, before;
    if (!tg_device_load(op, op->args[3], &out))
        return -14;
    for (; out < op->args[2]; out++) {
        int r = tg_device_submit(op, op->args[0], op->args[1], &op->args[4], 2);
        if (r == -11) {
            tg_device_store(op, op->args[3], out);
            tg_device_add(op, op->args[3] + 1, 1, &before);
            return TG_OP_REQUEUE;
        }
        if (r)
            return r;
    }
    tg_device_store(op, op->args[3], out);
    return TG_OP_FINISHED;
}

/* Publishes itself with a0 - 1, a2 levels further, until a0 is 0; observable a1 counts. Where there is no
 * room it goes behind what waits and tries again. */
TG_DEVICE int test_chain(struct tg_device_op *op)
{
    const uint32_t args[3] = {op->args[0] - 1, op->args[1], op->args[2]};
    uint32_t before;
    int r = 0;
    if (op->args[0] != 0)
        r = tg_device_submit(op, (op->priority + op->args[2]) % TG_PRIORITY_LEVELS, op->opcode, args, 3);
    if (r)
        return r == -11 ? TG_OP_REQUEUE : r;
    return tg_device_add(op, op->args[1], 1, &before) ? TG_OP_FINISHED : -14;
}

/* Node a0 (the root is 1) of a tree of a1 more levels: observable a2 + a0 counts its runs, its children are
 * items, a3 levels further. For one that finds no room this item does the work (observable a2 counts them).
 */
TG_DEVICE int test_tree(struct tg_device_op *op)
{
    uint32_t node[32], deep[32], n = 1, before;
    node[0] = op->args[0];
    deep[0] = op->args[1];
    while (n > 0) {
        n--;
        uint32_t me = node[n], below = deep[n];
        if (!tg_device_add(op, op->args[2] + me, 1, &before))
            return -14;
        for (uint32_t i = 0; i < 2 && below > 0; i++) {
            const uint32_t args[4] = {2 * me + i, below - 1, op->args[2], op->args[3]};
            int r =
                tg_device_submit(op, (op->priority + op->args[3]) % TG_PRIORITY_LEVELS, op->opcode, args, 4);
            if (r != 0 && r != -11)
                return r;
            if (r == 0)
                continue;
            tg_device_add(op, op->args[2], 1, &before);
            node[n] = args[0];
            deep[n++] = args[1];
        }
    }
    return TG_OP_FINISHED;
}

/* Takes the next number from observable a0 and, while that is below a2, writes who it is at observable a1 +
 * number: level << 16 | tenant << 8 | a4. With a3 it then publishes itself again. By a lane, or a whole warp.
 */
TG_DEVICE int test_record(struct tg_device_op *op, bool warp)
{
    uint32_t number = 0;
    bool first = !warp || op->lane == 0;
    if (first && !tg_device_add(op, op->args[0], 1, &number))
        return -14;
    if (!first) /* all lanes say the same, so that no more than that is copied */
        tg_device_wrote(op, TG_CONTROL_OBSERVABLE_BASE + op->args[0]);
    if (warp)
        number = tg_warp_shfl(number, 0);
    if (number >= op->args[2])
        return TG_OP_FINISHED;
    if (!tg_device_store(op, op->args[1] + number, op->priority << 16 | op->tenant << 8 | op->args[4]))
        return -14;
    return first && op->args[3] ? tg_device_submit(op, op->priority, op->opcode, op->args, 5)
                                : TG_OP_FINISHED;
}

/* Publishes itself again, a1 levels further, until observable a0 is not 0. */
TG_DEVICE int test_flood(struct tg_device_op *op)
{
    uint32_t stop = 0;
    if (!tg_device_load(op, op->args[0], &stop))
        return -14;
    if (stop)
        return TG_OP_FINISHED;
    return tg_device_submit(op, (op->priority + op->args[1]) % TG_PRIORITY_LEVELS, op->opcode, op->args, 2);
}

/* Publishes a2 items of opcode a1 at each level, with a3, a4, a5, 0 and its number, counts itself in
 * observable a0 + 1, and holds its worker until observable a0 is not 0. A whole warp. */
TG_DEVICE int test_hold(struct tg_device_op *op)
{
    const uint32_t level[TG_PRIORITY_LEVELS] = {3, 0, 4, 1, 2};
    uint32_t stop = 0, before;
    if (op->lane != 0)
        return TG_OP_FINISHED;
    for (uint32_t i = 0; i < TG_PRIORITY_LEVELS * op->args[2]; i++) {
        const uint32_t args[5] = {op->args[3], op->args[4], op->args[5], 0, i};
        int r = tg_device_submit(op, level[i % TG_PRIORITY_LEVELS], op->args[1], args, 5);
        if (r)
            return r;
    }
    if (!tg_device_add(op, op->args[0] + 1, 1, &before))
        return -14;
    while (stop == 0) {
        tg_device_pause(1000);
        tg_device_load(op, op->args[0], &stop);
    }
    return TG_OP_FINISHED;
}

/* Published with a1 arguments by test_submit: observable a0 counts those that came as they were sent, a0 + 1
 * the others. */
TG_DEVICE int test_args(struct tg_device_op *op)
{
    uint32_t wrong = op->slot != TG_NO_DEVICE_SLOT, before;
    for (uint32_t i = 2; i < TG_ARGS_PER_SLOT; i++)
        wrong += op->args[i] != (i < op->args[1] ? TEST_ARGUMENT(i) : 0);
    return tg_device_add(op, op->args[0] + (wrong != 0), 1, &before) ? TG_OP_FINISHED : -14;
}

TG_DEVICE int tg_device_run(struct tg_device_op *op)
{
    uint32_t before = 0;
    switch (op->opcode) {
    case OP_DEVICE_EMPTY:
        return TG_OP_FINISHED;
    case OP_DEVICE_SPIN: {
        uint64_t end = tg_device_ns() + op->args[0] + op->args[1] * UINT64_C(1000000000);
        while (tg_device_ns() < end)
            ;
        return TG_OP_FINISHED;
    }
    case OP_DEVICE_ADD:
        return tg_device_add(op, op->args[0], op->args[1], &before) ? TG_OP_FINISHED : -14;
    case OP_DEVICE_FAIL:
    case OP_DEVICE_INNER_FAIL:
        return (int)op->args[0];
    case OP_DEVICE_INNER: {
        uint32_t given = 0;
        for (uint32_t i = 0; i < TG_ARGS_PER_SLOT; i++)
            given += op->args[i] != 0;
        return tg_device_add(op, op->args[0], op->args[1] * 10 + given, &before) ? TG_OP_FINISHED : -14;
    }
    case OP_DEVICE_AGAIN:
        if (!tg_device_add(op, op->args[0], 1, &before))
            return -14;
        return before + 1 >= op->args[1] ? TG_OP_FINISHED : TG_OP_REQUEUE;
    case OP_DEVICE_WARP:
        return tg_device_add(op, op->args[0], 1, &before) ? TG_OP_FINISHED : -14;
    case OP_DEVICE_BLOCK: {
        uint32_t seen = 0;
        tg_device_add(op, op->args[0], 1, &before);
        tg_device_block_sync();
        tg_device_load(op, op->args[0], &seen);
        if (seen < TG_BLOCK_LANES)
            tg_device_add(op, op->args[0] + 1, 1, &before);
        tg_device_block_sync();
        tg_device_add(op, op->args[0], 1, &before);
        return TG_OP_FINISHED;
    }
    case OP_DEVICE_WILD:
        *(volatile uint32_t *)(uintptr_t)(UINT64_C(1) << 46) = 1;
        return TG_OP_FINISHED;
    case OP_DEVICE_UNTIL:
        return tg_device_load(op, op->args[0], &before) && before ? TG_OP_FINISHED : TG_OP_REQUEUE;
    case OP_DEVICE_SUBMIT_ODD:
        return op->lane % 2 ? test_submit(op) : TG_OP_FINISHED;
    case OP_DEVICE_SUBMIT:
    case OP_DEVICE_SUBMIT_WARP:
    case OP_DEVICE_SUBMIT_BLOCK:
        return test_submit(op);
    case OP_DEVICE_SUBMIT_ONE:
        return test_submit_one(op);
    case OP_DEVICE_MASKED:
        return test_masked(op);
    case OP_DEVICE_INNER_SUBMIT:
        return test_inner_submit(op);
    case OP_DEVICE_FAN:
        return test_fan(op);
    case OP_DEVICE_CHAIN:
        return test_chain(op);
    case OP_DEVICE_TREE:
        return test_tree(op);
    case OP_DEVICE_RECORD:
        return test_record(op, true);
    case OP_DEVICE_RECORD_LANE:
        return test_record(op, false);
    case OP_DEVICE_FLOOD:
        return test_flood(op);
    case OP_DEVICE_HOLD:
        return test_hold(op);
    case OP_DEVICE_ARGS:
        return test_args(op);
    default:
        return TG_DEVICE_UNKNOWN;
    }
}

#endif
