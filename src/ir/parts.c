/* SPDX-License-Identifier: Apache-2.0
 *
 * Small parts of the worker that the bigger ones are made of: where to begin, who may claim (E4), which level
 * is next (E2, E3), fault words, the look over a fence's items (E5). Expressions and statements; no program.
 */
#include <stdio.h>

#include "ir/short.h"

E tg_policy_offset_start(struct tg_ir *ir, E start, E end, E lane)
{
    /* An end before the start is an empty partition too; rem by 0 is 0. */
    E size = tg_ir_select(ir, tg_ir_gt(ir, end, start), tg_ir_sub(ir, end, start), num(ir, 0));
    return tg_ir_add(ir, start, tg_ir_rem(ir, lane, size));
}

E tg_check_tenant_fairness(struct tg_ir *ir, E tenant)
{
    E mask = tg_ir_load(ir, "control", add(ir, tenant, TG_CONTROL_TENANT_MASKS));
    E quota = tg_ir_load(ir, "control", add(ir, tenant, TG_CONTROL_TENANT_QUOTA_BASE));
    E known = tg_ir_lt(ir, tenant, num(ir, TG_CONTROL_TENANT_MASK_SLOTS));
    E on = is(ir, mask, TG_TENANT_MASK_ALL);
    return tg_ir_and(ir, known, tg_ir_and(ir, on, tg_ir_ne(ir, quota, num(ir, 0))));
}

/* A level is overdue at 16 overtakings: one of the two upper bits of its six. Bit 6l of x to bit l. */
static E overdue(struct tg_ir *ir)
{
    E x = tg_ir_bit_or(ir, tg_ir_shr(ir, var(ir, "levels"), num(ir, 4)),
                       tg_ir_shr(ir, var(ir, "levels"), num(ir, 5)));
    E all = tg_ir_bit_and(ir, x, num(ir, 1));
    for (uint32_t l = 1; l < TG_PRIORITY_LEVELS; l++)
        all = tg_ir_bit_or(ir, all, tg_ir_bit_and(ir, tg_ir_shr(ir, x, num(ir, 5 * l)), num(ir, 1u << l)));
    return tg_ir_bit_and(ir, all, var(ir, "work"));
}

E tg_check_priority_fairness(struct tg_ir *ir, E priority)
{
    E late = overdue(ir);
    return tg_ir_eq(ir, priority, tg_ir_unary(ir, TG_IR_CTZ, tg_ir_select(ir, late, late, var(ir, "work"))));
}

static bool has_private(struct tg_ir *ir, const char *name, uint32_t words)
{
    int at = tg_ir_buffer_find(ir, name);
    if (at < 0)
        at = tg_ir_buffer(ir, name, words);
    return at >= 0 && ir->buffer[at].words == words;
}

bool tg_ir_worker_buffers(struct tg_ir *ir)
{
    return has_private(ir, TG_IR_SCAN_BUFFER, TG_IR_SCAN_WORDS) &&
           has_private(ir, TG_IR_ARGS_BUFFER, TG_ARGS_PER_SLOT);
}

N tg_ir_no_buffers(struct tg_ir *ir)
{
    return tg_ir_refused(
        ir,
        "the kernel's private buffers (%u words) cannot be declared: their names are taken, or "
        "there are too many",
        TG_IR_SCAN_WORDS + TG_ARGS_PER_SLOT);
}

N tg_ir_fault_words(struct tg_ir *ir, E slot, E reason)
{
    /* The count last, so that a change of it announces the other two. */
    return BLOCK(
        ir, "fault.words", tg_ir_store(ir, "control", num(ir, TG_CONTROL_FAULT_SLOT), slot),
        tg_ir_store(ir, "control", num(ir, TG_CONTROL_FAULT_REASON), reason),
        tg_ir_atomic_add(ir, NULL, "control", num(ir, TG_CONTROL_FAULT_COUNT), num(ir, 1), TG_IR_ACQ_REL));
}

N tg_ir_count(struct tg_ir *ir, E word)
{
    return tg_ir_atomic_add(ir, NULL, "control", word, num(ir, 1), TG_IR_RELAXED);
}

N tg_ir_fence_look(struct tg_ir *ir, E slot, E items, N otherwise)
{
    const uint32_t over = 1u << TG_SLOT_EMPTY | 1u << TG_SLOT_DONE | 1u << TG_SLOT_FAULT;
    N look = BLOCK(ir, NULL,
                   /* acquire: results of the item before the fence's effect. */
                   tg_ir_atomic_load(ir, "item_status", "ring",
                                     tg_ir_mul(ir, var(ir, "item"), num(ir, TG_SLOT_WORDS)), TG_IR_ACQUIRE),
                   when(ir, tg_ir_not(ir, in_mask(ir, over, var(ir, "item_status"))), otherwise));
    return tg_ir_loop(ir, "item", tg_ir_sub(ir, slot, items), slot, TG_MAX_ENCODED_RING_SLOTS, look);
}

N tg_ir_refused(struct tg_ir *ir, const char *format, uint32_t value)
{
    char text[160];
    int size = snprintf(text, sizeof(text), format, value);
    uint32_t at = tg_ir_intern(ir, text, size > 0 && (size_t)size < sizeof(text) ? (size_t)size : 0);
    uint32_t id = tg_ir_new(ir, TG_IR_K_REFUSED);
    if (id != 0)
        tg_ir_at(ir, id)->name = at;
    return (N){id};
}
