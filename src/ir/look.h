/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two looks for work share, the one over all slots (look.c) and the one with an index
 * (index_look.c): who may have a slot and which level and tenant is next is the same in both. Not a public
 * header. */
#ifndef TG_IR_LOOK_H
#define TG_IR_LOOK_H

#include "ir/short.h"

/* Looks that failed because others were faster, before the round is given up. */
#define TG_LOOKS 64u
/* Statuses that a claim takes. */
#define TG_CLAIMABLE (1u << TG_SLOT_PUBLISHED | 1u << TG_SLOT_YIELD | 1u << TG_SLOT_REQUEUE)

/* The parts of one scan: bodies that are called from several places. */
struct tg_look {
    struct tg_ir *ir;
    uint32_t slots;
    uint32_t stride;
    N hint, take, untake;
    /* What follows in tg_look_settle when a claim is given back, when it faults, and when it stands. */
    N back, fault, claimed;
};

/* A body with parameter i: 0, or 1 | tenant << 8 | level << 16 of a slot that is claimable now. waits runs
 * when it is a fence that waits for item; refused (may be none) after the slot was faulted. */
N tg_look_hint(struct tg_ir *ir, N waits, N refused);
/* A body with parameter tenant: 1 when it may claim, and one claim is counted down. */
N tg_look_take(struct tg_ir *ir);
/* A body with parameter tenant: a claim that did not come about costs nothing. */
N tg_look_untake(struct tg_ir *ir);
N tg_look_call_hint(const struct tg_look *s, const char *result, const char *slot);
N tg_look_call_take(const struct tg_look *s, const char *result, E tenant);
N tg_look_call_untake(const struct tg_look *s, const char *result, E tenant);

/* Words of the private tables. */
E tg_look_word(struct tg_ir *ir, uint32_t table, E level);
N tg_look_set_word(struct tg_ir *ir, uint32_t table, E level, E value);
/* The variables in which a scan says what it claimed, with nothing in them. */
N tg_look_results(struct tg_ir *ir);

/* Given work and WAITING: make level and decided (0: somebody else decided), then tenant. */
N tg_look_choose_level(const struct tg_look *s);
N tg_look_choose_tenant(const struct tg_look *s);
N tg_look_keep_turn(const struct tg_look *s);
/* The number of level and tenant among all. */
E tg_look_queue(struct tg_ir *ir);
/* What hint says of a slot of level and tenant. */
E tg_look_wanted(struct tg_ir *ir);
/* Given slot, tenant and level, a claim of tenant counted: swaps STATUS and looks the slot's own words over.
 */
N tg_look_swap(const struct tg_look *s);

#endif
