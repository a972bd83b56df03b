/* SPDX-License-Identifier: Apache-2.0
 *
 * Which tenant of a level is served next, and who may be served at all. Pure decisions shared by CPU
 * workers, GPU warps and the simulator: no clock, no memory, no allocation. It does not find work and does
 * not choose levels (levels.h).
 *
 * Rule kept: E4. A tenant id outside the table of 29 is never authorised. A tenant runs while its mask word
 * is all ones and its quota word is not 0; any other mask value is not authorised (closed by default).
 * Backlogged tenants take turns in the order of their ids, up to a quantum of claims each; a tenant yields
 * after its quantum when others wait, and never when nobody else does.
 *
 * Why the turns share evenly: while a set of tenants stays backlogged, each turn of one of them is a full
 * quantum, and a round visits each once; so after k rounds all have k quanta, and they differ by one
 * quantum at most. With W workers each keeps its own turn of tg_tenants_quantum(W) claims, so that together
 * they take at most TG_TENANT_FAIRNESS_THRESHOLD = 64 claims of one tenant an epoch (W above 64: one each).
 */
#ifndef TIDEGATE_TENANTS_H
#define TIDEGATE_TENANTS_H

#include <stdbool.h>
#include <stdint.h>

#include <tidegate/abi.h>
#include <tidegate/hd.h>
#include <tidegate/levels.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TG_TENANTS TG_CONTROL_TENANT_MASK_SLOTS
#define TG_TENANTS_ALL ((1u << TG_TENANTS) - 1u)

/* A quota word of all ones is not counted down: the tenant may claim without limit. */
#define TG_TENANT_QUOTA_UNLIMITED 0xFFFFFFFFu

/* Whose turn it is at one level. All zero is a fresh turn of tenant 0. */
struct tg_tenant_turn {
    uint32_t tenant; /* who was served last, < 29 */
    uint32_t used;   /* claims of this turn */
};

/* Is the id inside the table? */
TG_HD static inline bool tg_tenant_in_table(uint32_t tenant)
{
    return tenant < TG_TENANTS;
}

/* May a tenant of the table claim, given its mask and quota words? */
TG_HD static inline bool tg_tenant_may_claim(uint32_t mask_word, uint32_t quota_word)
{
    return mask_word == TG_TENANT_MASK_ALL && quota_word != 0;
}

/* Claims one worker gives a tenant before it yields, with this many workers (0 counts as 1). */
TG_HD static inline uint32_t tg_tenants_quantum(uint32_t workers)
{
    if (workers <= 1)
        return TG_TENANT_FAIRNESS_THRESHOLD;
    return workers >= TG_TENANT_FAIRNESS_THRESHOLD ? 1u : TG_TENANT_FAIRNESS_THRESHOLD / workers;
}

/* The tenant to serve next among those in waiting (bit t: tenant t has claimable work), or TG_TENANTS when
 * waiting is empty. The turn is updated for a claim of that tenant. A turn that was never served may name a
 * tenant that has no work; it then starts with the next one that has. */
TG_HD static inline uint32_t tg_tenants_choose(struct tg_tenant_turn *turn, uint32_t waiting,
                                               uint32_t quantum)
{
    waiting &= TG_TENANTS_ALL;
    if (waiting == 0)
        return TG_TENANTS;
    uint32_t self = 1u << (turn->tenant % 32u);
    if (waiting & self) {
        if (turn->used < quantum) {
            turn->used++;
            return turn->tenant;
        }
        if (waiting == self)
            return turn->tenant;
    }
    uint32_t after = waiting & ~(self | (self - 1u));
    turn->tenant = tg_levels_first(after ? after : waiting);
    turn->used = 1;
    return turn->tenant;
}

/* Jain's index of the shares, in millionths: (sum)^2 / (n * sum of squares); 1,000,000 when all are equal or
 * when nothing was shared. n is at most 32. */
uint32_t tg_tenants_jain_ppm(const uint64_t *shares, uint32_t n);

#ifdef __cplusplus
}
#endif

#endif
