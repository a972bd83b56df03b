/* SPDX-License-Identifier: Apache-2.0
 *
 * The look for work as a part of a program: the same decisions as src/engine/scan.c and claim.c, on nothing
 * but the words of ring and control, so that any number of lanes may share them.
 *
 * Rules kept
 *   E1  one compare-exchange on STATUS decides who has a slot ("claim.won").
 *   E2, E3  the level is chosen by what waits and how often it was overtaken; the decision is taken by a
 *       compare-exchange of the whole state ("levels.advance"), as in levels.h but with 6 bits a level:
 * counts stop at 32, and only "16 or more" is ever asked. E4  mask and quota are looked at and counted down
 * before the claim ("authority"), and once more for the tenant that the claimed slot names ("claim.settle").
 * Turns of a tenant are the lane's own, as in tenants.h. E5  a fence whose items are not over is not claimed.
 * A slot of a tenant outside the table, or of a priority above 4, becomes FAULT ("refuse").
 */
#include <tidegate/tenants.h>

#include "ir/look.h"

/* Tries to change a quota that others change too. */
#define QUOTA_TRIES 1024u

#define LEVEL_ONES 0x01041041u /* bits 0, 6, 12, 18, 24 */

static E slot_word(struct tg_ir *ir, E base, uint32_t word)
{
    return tg_ir_load(ir, "ring", add(ir, base, word));
}

E tg_look_word(struct tg_ir *ir, uint32_t table, E level)
{
    return tg_ir_load(ir, TG_IR_SCAN_BUFFER, add(ir, level, table));
}

N tg_look_set_word(struct tg_ir *ir, uint32_t table, E level, E value)
{
    return tg_ir_store(ir, TG_IR_SCAN_BUFFER, add(ir, level, table), value);
}

/* PUBLISHED, YIELD, REQUEUE -> FAULT for a slot that nobody may ever claim. */
static N refuse(struct tg_ir *ir, N refused)
{
    E reason = tg_ir_select(ir, tg_ir_ge(ir, var(ir, "tenant"), num(ir, TG_CONTROL_TENANT_MASK_SLOTS)),
                            num(ir, TG_FAULT_TENANT), num(ir, TG_FAULT_PRIORITY));
    N fault = tg_ir_fault_words(ir, var(ir, "i"), reason);
    return BLOCK(
        ir, "refuse",
        /* acq_rel: only this use; a publisher that changed the words meanwhile changed STATUS too. */
        tg_ir_atomic_cas(ir, "refused", "ring", var(ir, "base"), var(ir, "status"), num(ir, TG_SLOT_FAULT),
                         TG_IR_ACQ_REL),
        when(ir, tg_ir_eq(ir, var(ir, "refused"), var(ir, "status")),
             refused.id ? BLOCK(ir, NULL, fault, refused) : fault),
        give(ir, 0));
}

N tg_look_hint(struct tg_ir *ir, N waits, N refused)
{
    E foreign = tg_ir_or(ir, tg_ir_ge(ir, var(ir, "tenant"), num(ir, TG_CONTROL_TENANT_MASK_SLOTS)),
                         tg_ir_ge(ir, var(ir, "level"), num(ir, TG_PRIORITY_LEVELS)));
    E is_fence = tg_ir_and(ir, is(ir, var(ir, "status"), TG_SLOT_YIELD),
                           is(ir, slot_word(ir, var(ir, "base"), TG_SLOT_OPCODE_WORD), TG_OP_BATCH_FENCE));
    N fence =
        BLOCK(ir, "fence.skip", tg_ir_let(ir, "items", slot_word(ir, var(ir, "base"), TG_SLOT_ARG0_WORD)),
              when(ir, tg_ir_le(ir, var(ir, "items"), var(ir, "i")),
                   tg_ir_fence_look(ir, var(ir, "i"), var(ir, "items"), waits)));
    E found = tg_ir_bit_or(ir, tg_ir_shl(ir, var(ir, "level"), num(ir, 16)),
                           tg_ir_bit_or(ir, tg_ir_shl(ir, var(ir, "tenant"), num(ir, 8)), num(ir, 1)));
    return BLOCK(ir, NULL, tg_ir_let(ir, "base", tg_ir_mul(ir, var(ir, "i"), num(ir, TG_SLOT_WORDS))),
                 tg_ir_atomic_load(ir, "status", "ring", var(ir, "base"), TG_IR_ACQUIRE),
                 when(ir, tg_ir_not(ir, in_mask(ir, TG_CLAIMABLE, var(ir, "status"))), give(ir, 0)),
                 tg_ir_let(ir, "tenant", slot_word(ir, var(ir, "base"), TG_SLOT_TENANT_WORD)),
                 tg_ir_let(ir, "level", slot_word(ir, var(ir, "base"), TG_SLOT_PRIORITY_WORD)),
                 when(ir, foreign, refuse(ir, refused)), when(ir, is_fence, fence), tg_ir_return(ir, found));
}

N tg_look_take(struct tg_ir *ir)
{
    E quota = add(ir, var(ir, "tenant"), TG_CONTROL_TENANT_QUOTA_BASE);
    N count = BLOCK(
        ir, "authority.count",
        tg_ir_atomic_cas(ir, "found", "control", quota, var(ir, "left"),
                         tg_ir_sub(ir, var(ir, "left"), num(ir, 1)), TG_IR_ACQ_REL),
        when(ir, tg_ir_ne(ir, var(ir, "found"), var(ir, "left")), tg_ir_assign(ir, "mine", num(ir, 0))));
    N try_once =
        BLOCK(ir, NULL,
              BLOCK(ir, "authority",
                    when(ir, tg_ir_not(ir, tg_check_tenant_fairness(ir, var(ir, "tenant"))), give(ir, 0))),
              tg_ir_let(ir, "left", tg_ir_load(ir, "control", quota)), tg_ir_let(ir, "mine", num(ir, 1)),
              /* All ones is not counted; 0: the last claim went while we looked. */
              when(ir, is(ir, var(ir, "left"), 0), give(ir, 0)),
              when(ir, tg_ir_ne(ir, var(ir, "left"), num(ir, TG_TENANT_QUOTA_UNLIMITED)), count),
              when(ir, var(ir, "mine"), give(ir, 1)));
    return tg_ir_loop(ir, "take_try", num(ir, 0), num(ir, QUOTA_TRIES), QUOTA_TRIES, try_once);
}

N tg_look_untake(struct tg_ir *ir)
{
    E quota = add(ir, var(ir, "tenant"), TG_CONTROL_TENANT_QUOTA_BASE);
    N try_once =
        BLOCK(ir, NULL, tg_ir_let(ir, "left", tg_ir_load(ir, "control", quota)),
              when(ir, tg_ir_ge(ir, var(ir, "left"), num(ir, TG_TENANT_QUOTA_UNLIMITED - 1)), give(ir, 0)),
              tg_ir_atomic_cas(ir, "found", "control", quota, var(ir, "left"), add(ir, var(ir, "left"), 1),
                               TG_IR_ACQ_REL),
              when(ir, tg_ir_eq(ir, var(ir, "found"), var(ir, "left")), give(ir, 0)));
    return tg_ir_loop(ir, "untake_try", num(ir, 0), num(ir, QUOTA_TRIES), QUOTA_TRIES, try_once);
}

N tg_look_call_hint(const struct tg_look *s, const char *result, const char *slot)
{
    return tg_ir_call(s->ir, result, "hint", &(struct tg_ir_param){"i", var(s->ir, slot)}, 1, s->hint);
}

N tg_look_call_take(const struct tg_look *s, const char *result, E tenant)
{
    return tg_ir_call(s->ir, result, "authority.take", &(struct tg_ir_param){"tenant", tenant}, 1, s->take);
}

N tg_look_call_untake(const struct tg_look *s, const char *result, E tenant)
{
    return tg_ir_call(s->ir, result, "authority.return", &(struct tg_ir_param){"tenant", tenant}, 1,
                      s->untake);
}

static E field(struct tg_ir *ir, const char *name, uint32_t shift)
{
    return tg_ir_bit_and(ir, tg_ir_shr(ir, var(ir, name), num(ir, shift)), num(ir, 0xFF));
}

/* What waits where: work gets a bit a level, WAITING of each level a bit a tenant. */
static N survey(const struct tg_look *s)
{
    struct tg_ir *ir = s->ir;
    E tenant = var(ir, "seen_tenant"), level = var(ir, "seen_level");
    E is_new = tg_ir_not(
        ir, tg_ir_bit_and(ir, tg_ir_shr(ir, tg_look_word(ir, TG_IR_WAITING, level), tenant), num(ir, 1)));
    N note =
        BLOCK(ir, NULL,
              tg_look_set_word(ir, TG_IR_WAITING, level,
                               tg_ir_bit_or(ir, tg_look_word(ir, TG_IR_WAITING, level), bit(ir, tenant))),
              tg_ir_assign(ir, "work", tg_ir_bit_or(ir, var(ir, "work"), bit(ir, level))));
    N look = BLOCK(ir, NULL, tg_look_call_hint(s, "seen", "survey_slot"),
                   when(ir, var(ir, "seen"),
                        BLOCK(ir, NULL, tg_ir_let(ir, "seen_tenant", field(ir, "seen", 8)),
                              tg_ir_let(ir, "seen_level", field(ir, "seen", 16)),
                              when(ir, tg_ir_and(ir, is_new, tg_check_tenant_fairness(ir, tenant)), note))));
    N clear[TG_PRIORITY_LEVELS];
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
        clear[l] = tg_look_set_word(ir, TG_IR_WAITING, num(ir, l), num(ir, 0));
    return BLOCK(ir, "survey", tg_ir_block(ir, NULL, clear, TG_PRIORITY_LEVELS),
                 tg_ir_let(ir, "work", num(ir, 0)),
                 tg_ir_loop(ir, "survey_slot", num(ir, 0), num(ir, s->slots), s->slots, look));
}

/* tg_levels_choose, then the next state: others with work are overtaken once more, the rest start over. */
N tg_look_choose_level(const struct tg_look *s)
{
    struct tg_ir *ir = s->ir;
    N pick[TG_PRIORITY_LEVELS];
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
        pick[l] = when(ir, tg_check_priority_fairness(ir, num(ir, l)), tg_ir_assign(ir, "level", num(ir, l)));
    E others = tg_ir_bit_and(ir, var(ir, "work"), tg_ir_unary(ir, TG_IR_BIT_NOT, bit(ir, var(ir, "level"))));
    E spread = tg_ir_bit_and(ir, var(ir, "others"), num(ir, 1));
    for (uint32_t l = 1; l < TG_PRIORITY_LEVELS; l++)
        spread = tg_ir_bit_or(
            ir, spread,
            tg_ir_shl(ir, tg_ir_bit_and(ir, var(ir, "others"), num(ir, 1u << l)), num(ir, 5 * l)));
    E counts = tg_ir_bit_and(ir, var(ir, "levels"), tg_ir_mul(ir, var(ir, "spread"), num(ir, 63)));
    E full = tg_ir_bit_and(ir, tg_ir_shr(ir, var(ir, "counts"), num(ir, 5)), num(ir, LEVEL_ONES));
    E next = tg_ir_add(ir, var(ir, "counts"),
                       tg_ir_bit_and(ir, var(ir, "spread"), tg_ir_unary(ir, TG_IR_BIT_NOT, full)));
    /* relaxed: the state is a decision, it hands nothing over. Unchanged, it is not written. */
    N swap = BLOCK(ir, NULL,
                   tg_ir_atomic_cas(ir, "levels_found", "control", num(ir, TG_CONTROL_LEVELS),
                                    var(ir, "levels"), var(ir, "next"), TG_IR_RELAXED),
                   tg_ir_assign(ir, "decided", tg_ir_eq(ir, var(ir, "levels_found"), var(ir, "levels"))));
    return BLOCK(
        ir, "levels", tg_ir_let(ir, "levels", tg_ir_load(ir, "control", num(ir, TG_CONTROL_LEVELS))),
        tg_ir_let(ir, "level", num(ir, 0)), tg_ir_block(ir, "levels.choose", pick, TG_PRIORITY_LEVELS),
        tg_ir_let(ir, "others", others), tg_ir_let(ir, "spread", spread), tg_ir_let(ir, "counts", counts),
        tg_ir_let(ir, "next", next), tg_ir_let(ir, "decided", num(ir, 1)),
        BLOCK(ir, "levels.advance", when(ir, tg_ir_ne(ir, var(ir, "next"), var(ir, "levels")), swap)));
}

/* tg_tenants_choose with this lane's turn at the level. */
N tg_look_choose_tenant(const struct tg_look *s)
{
    struct tg_ir *ir = s->ir;
    E lanes = tg_ir_mul(ir, tg_ir_place(ir, TG_IR_LANES), tg_ir_place(ir, TG_IR_GROUPS));
    E quantum = tg_ir_max(ir, num(ir, 1), tg_ir_div(ir, num(ir, TG_TENANT_FAIRNESS_THRESHOLD), lanes));
    E self = bit(ir, var(ir, "turn"));
    E waits = tg_ir_bit_and(ir, var(ir, "waiting"), self);
    E below = tg_ir_bit_or(ir, self, tg_ir_sub(ir, self, num(ir, 1)));
    E after = tg_ir_bit_and(ir, var(ir, "waiting"), tg_ir_unary(ir, TG_IR_BIT_NOT, below));
    E keep = tg_ir_and(ir, waits,
                       tg_ir_or(ir, tg_ir_lt(ir, var(ir, "used"), var(ir, "quantum")),
                                tg_ir_eq(ir, var(ir, "waiting"), self)));
    return BLOCK(ir, "tenants", tg_ir_let(ir, "waiting", tg_look_word(ir, TG_IR_WAITING, var(ir, "level"))),
                 tg_ir_let(ir, "turn", tg_look_word(ir, TG_IR_TURN, var(ir, "level"))),
                 tg_ir_let(ir, "used", tg_look_word(ir, TG_IR_USED, var(ir, "level"))),
                 tg_ir_let(ir, "quantum", quantum), tg_ir_let(ir, "keep", keep),
                 tg_ir_let(ir, "after", after),
                 tg_ir_let(ir, "tenant",
                           tg_ir_select(ir, var(ir, "keep"), var(ir, "turn"),
                                        tg_ir_unary(ir, TG_IR_CTZ,
                                                    tg_ir_select(ir, var(ir, "after"), var(ir, "after"),
                                                                 var(ir, "waiting"))))));
}

N tg_look_keep_turn(const struct tg_look *s)
{
    struct tg_ir *ir = s->ir;
    E used = tg_ir_select(
        ir, var(ir, "keep"),
        tg_ir_min(ir, add(ir, var(ir, "used"), 1), tg_ir_max(ir, var(ir, "used"), var(ir, "quantum"))),
        num(ir, 1));
    return BLOCK(ir, "tenants.turn", tg_look_set_word(ir, TG_IR_TURN, var(ir, "level"), var(ir, "tenant")),
                 tg_look_set_word(ir, TG_IR_USED, var(ir, "level"), used));
}

static N and_then(struct tg_ir *ir, N first, N then)
{
    return then.id ? BLOCK(ir, NULL, first, then) : first;
}

/* The claimed slot's own words count: it may have been published anew between look and claim. */
static N settle(const struct tg_look *s)
{
    struct tg_ir *ir = s->ir;
    E base = var(ir, "base");
    E unknown = tg_ir_ge(ir, var(ir, "own_tenant"), num(ir, TG_CONTROL_TENANT_MASK_SLOTS));
    N fault = BLOCK(
        ir, NULL,
        tg_ir_fault_words(ir, var(ir, "slot"),
                          tg_ir_select(ir, unknown, num(ir, TG_FAULT_TENANT), num(ir, TG_FAULT_PRIORITY))),
        tg_ir_atomic_cas(ir, NULL, "ring", base, num(ir, TG_SLOT_CLAIMED), num(ir, TG_SLOT_FAULT),
                         TG_IR_ACQ_REL),
        and_then(ir, tg_ir_assign(ir, "settled", num(ir, 0)), s->fault));
    N back = BLOCK(
        ir, NULL,
        tg_ir_atomic_cas(ir, NULL, "ring", base, num(ir, TG_SLOT_CLAIMED), var(ir, "status"), TG_IR_ACQ_REL),
        and_then(ir, tg_ir_assign(ir, "settled", num(ir, 0)), s->back));
    N other = BLOCK(
        ir, NULL, tg_look_call_untake(s, "untook_first", var(ir, "tenant")),
        tg_ir_if(ir, tg_ir_or(ir, unknown, tg_ir_ge(ir, var(ir, "own_level"), num(ir, TG_PRIORITY_LEVELS))),
                 fault,
                 BLOCK(ir, NULL, tg_look_call_take(s, "took_own", var(ir, "own_tenant")),
                       when(ir, tg_ir_not(ir, var(ir, "took_own")), back))));
    E changed = tg_ir_or(ir, tg_ir_ne(ir, var(ir, "own_tenant"), var(ir, "tenant")),
                         tg_ir_ge(ir, var(ir, "own_level"), num(ir, TG_PRIORITY_LEVELS)));
    N claimed = BLOCK(ir, NULL, tg_ir_assign(ir, "claimed_slot_base", base),
                      tg_ir_assign(ir, "claimed_priority", var(ir, "own_level")),
                      tg_ir_assign(ir, "claimed_tenant", var(ir, "own_tenant")),
                      tg_ir_assign(ir, "claimed_from", var(ir, "status")), s->claimed, tg_ir_break(ir));
    return BLOCK(ir, NULL, tg_ir_let(ir, "own_tenant", slot_word(ir, base, TG_SLOT_TENANT_WORD)),
                 tg_ir_let(ir, "own_level", slot_word(ir, base, TG_SLOT_PRIORITY_WORD)),
                 tg_ir_let(ir, "settled", num(ir, 1)), BLOCK(ir, "claim.settle", when(ir, changed, other)),
                 when(ir, var(ir, "settled"), claimed));
}

N tg_look_swap(const struct tg_look *s)
{
    struct tg_ir *ir = s->ir;
    E base = var(ir, "base");
    N swap = BLOCK(ir, NULL,
                   /* acquire: takes what the publisher or the last worker handed over. */
                   tg_ir_atomic_cas(ir, "found", "ring", base, var(ir, "status"), num(ir, TG_SLOT_CLAIMED),
                                    TG_IR_ACQUIRE),
                   BLOCK(ir, "claim.won",
                         when(ir, tg_ir_ne(ir, var(ir, "found"), var(ir, "status")),
                              tg_ir_assign(ir, "won", num(ir, 0)))));
    return BLOCK(
        ir, NULL, tg_ir_let(ir, "base", tg_ir_mul(ir, var(ir, "slot"), num(ir, TG_SLOT_WORDS))),
        tg_ir_let(ir, "status", tg_ir_load(ir, "ring", base)),
        tg_ir_let(ir, "won", in_mask(ir, TG_CLAIMABLE, var(ir, "status"))), when(ir, var(ir, "won"), swap),
        tg_ir_if(ir, var(ir, "won"), settle(s), tg_look_call_untake(s, "untook", var(ir, "tenant"))));
}

/* One slot that looks right: authority first, then the swap. */
static N claim(const struct tg_look *s)
{
    struct tg_ir *ir = s->ir;
    return BLOCK(ir, "claim", tg_look_call_take(s, "took", var(ir, "tenant")),
                 when(ir, tg_ir_not(ir, var(ir, "took")), tg_ir_break(ir)), tg_look_swap(s));
}

/* The slot of probe n. Without a stride: the one after the last, at first the lane's own. With one: a column
 * of the ring laid out in rows of stride slots, the lane's own first, each from the row of the last claim
 * of that level and tenant on.
 */
static E probe_slot(const struct tg_look *s)
{
    struct tg_ir *ir = s->ir;
    E n = var(ir, "probe");
    E first = tg_look_word(ir, TG_IR_NEXT, tg_look_queue(ir));
    E me = tg_ir_add(ir, tg_ir_place(ir, TG_IR_LANE),
                     tg_ir_mul(ir, tg_ir_place(ir, TG_IR_GROUP), tg_ir_place(ir, TG_IR_LANES)));
    if (s->stride <= 1) {
        E start =
            tg_ir_select(ir, first, first, tg_policy_offset_start(ir, num(ir, 0), num(ir, s->slots), me));
        return tg_ir_rem(ir, tg_ir_add(ir, start, n), num(ir, s->slots));
    }
    uint32_t rows = (s->slots + s->stride - 1) / s->stride;
    E column =
        tg_ir_rem(ir, tg_ir_add(ir, tg_ir_rem(ir, me, num(ir, s->stride)), tg_ir_div(ir, n, num(ir, rows))),
                  num(ir, s->stride));
    E row = tg_ir_rem(
        ir, tg_ir_add(ir, tg_ir_div(ir, first, num(ir, s->stride)), tg_ir_rem(ir, n, num(ir, rows))),
        num(ir, rows));
    return tg_ir_add(ir, tg_ir_mul(ir, row, num(ir, s->stride)), column);
}

E tg_look_queue(struct tg_ir *ir)
{
    return tg_ir_add(ir, tg_ir_mul(ir, var(ir, "level"), num(ir, TG_CONTROL_TENANT_MASK_SLOTS)),
                     var(ir, "tenant"));
}

E tg_look_wanted(struct tg_ir *ir)
{
    return tg_ir_bit_or(ir, tg_ir_shl(ir, var(ir, "level"), num(ir, 16)),
                        tg_ir_bit_or(ir, tg_ir_shl(ir, var(ir, "tenant"), num(ir, 8)), num(ir, 1)));
}

static N probes(const struct tg_look *s)
{
    struct tg_ir *ir = s->ir;
    uint32_t rows = s->stride <= 1 ? s->slots : (s->slots + s->stride - 1) / s->stride;
    uint32_t count = s->stride <= 1 ? s->slots : rows * s->stride;
    N at_slot = BLOCK(ir, NULL, tg_look_call_hint(s, "seen", "slot"),
                      when(ir, tg_ir_eq(ir, var(ir, "seen"), var(ir, "wanted")), claim(s)));
    N look = BLOCK(ir, NULL, tg_ir_let(ir, "slot", probe_slot(s)),
                   count == s->slots ? at_slot
                                     : when(ir, tg_ir_lt(ir, var(ir, "slot"), num(ir, s->slots)), at_slot));
    return BLOCK(ir, "probes", tg_ir_let(ir, "wanted", tg_look_wanted(ir)),
                 tg_ir_loop(ir, "probe", num(ir, 0), num(ir, count), count, look));
}

N tg_look_results(struct tg_ir *ir)
{
    return BLOCK(ir, NULL, tg_ir_let(ir, "claimed_slot_base", num(ir, TG_IR_NOTHING)),
                 tg_ir_let(ir, "claimed_priority", num(ir, TG_IR_NOTHING)),
                 tg_ir_let(ir, "claimed_tenant", num(ir, TG_IR_NOTHING)),
                 tg_ir_let(ir, "claimed_from", num(ir, TG_SLOT_EMPTY)),
                 tg_ir_let(ir, "claimed_work", num(ir, 0)));
}

N tg_priority_scan_body_with_stride(struct tg_ir *ir, uint32_t total_slots, uint32_t worker_stride)
{
    if (total_slots == 0 || total_slots > TG_MAX_ENCODED_RING_SLOTS)
        return tg_ir_refused(ir, "a ring of %u slots: 1 to 1048576", total_slots);
    if (worker_stride > total_slots)
        worker_stride = total_slots;
    if (!tg_ir_worker_buffers(ir))
        return tg_ir_no_buffers(ir);
    struct tg_look s = {.ir = ir,
                        .slots = total_slots,
                        .stride = worker_stride,
                        .hint = tg_look_hint(ir, give(ir, 0), (N){0}),
                        .take = tg_look_take(ir),
                        .untake = tg_look_untake(ir),
                        .claimed =
                            tg_look_set_word(ir, TG_IR_NEXT, tg_look_queue(ir), add(ir, var(ir, "slot"), 1))};
    N go_on =
        BLOCK(ir, NULL, tg_look_keep_turn(&s), probes(&s),
              when(ir, tg_ir_ne(ir, var(ir, "claimed_slot_base"), num(ir, TG_IR_NOTHING)), tg_ir_break(ir)));
    N look = BLOCK(ir, NULL, survey(&s), tg_ir_assign(ir, "claimed_work", var(ir, "work")),
                   when(ir, is(ir, var(ir, "work"), 0), tg_ir_break(ir)), tg_look_choose_level(&s),
                   tg_look_choose_tenant(&s), when(ir, var(ir, "decided"), go_on));
    return BLOCK(ir, "scan", tg_look_results(ir),
                 tg_ir_loop(ir, "look", num(ir, 0), num(ir, TG_LOOKS), TG_LOOKS, look));
}

N tg_priority_scan_body(struct tg_ir *ir, uint32_t total_slots)
{
    return tg_priority_scan_body_with_stride(ir, total_slots, 1);
}
