/* SPDX-License-Identifier: Apache-2.0
 *
 * Which priority level is served next. Pure decisions on one 64-bit state word, shared by CPU workers, GPU
 * warps and the simulator: no clock, no memory, no allocation. This header does not find work (the caller
 * says which levels have some) and does not know tenants (tenants.h).
 *
 * Rules kept: E2 (the most urgent level that has work) and E3 (bounded overtaking).
 *
 * The state word
 *   bits 8l .. 8l+7   how often level l was overtaken: claims at other levels since it last was served or
 *                     last had no work
 *   bit  40           a claim at CRITICAL or HIGH happened since the last one at another level
 *   bits 41 .. 63     how many such runs ended (modulo 2^23); only compared for equality
 * The all-zero word is the state of a queue that has served nothing. Any word is a legal input.
 *
 * The decision. A level is overdue when it has work and was overtaken at least TG_STARVATION_THRESHOLD (16)
 * times. If any level is overdue, the most urgent of the overdue ones is next; otherwise the most urgent
 * level with work. A claim adds one to every other level that has work, and zeroes the level claimed and all
 * levels without work.
 *
 * The bound, in prose. Let decisions follow one another (one worker, or several that replace the state word
 * by compare-and-swap). Look at a level x from the moment it has work until it is served.
 *   1. Each decision that does not serve x adds exactly one to x, so x is overdue after 16 of them.
 *   2. From then on only overdue levels are served. A served level falls to 0 and needs 16 further
 *      overtakings to be overdue again.
 *   3. Let the 16th overtaking of x serve level y. Then y stands at 0 and x at 16. Besides x and y there are
 *      TG_PRIORITY_LEVELS - 2 = 3 levels. Each of them can be served before x at most once while x waits
 *      overdue: after its service it would need 16 more claims, and by then x was served, because
 *   4. the overdue levels other than x are at most those 3, each served once: at most 3 claims later x is
 *      the most urgent overdue level, or the only one.
 * Hence x is overtaken at most 16 + 5 - 2 = 19 times (TG_OVERTAKING_BOUND), whatever floods, at every level.
 * Where several workers decide, each reads the state first and then looks at the work: a decision on an older
 * look would take x, which got work meanwhile, for a level without, and zero its count.
 * Claims already decided by other workers before x had work add one each at most (rule E3). A level that the
 * caller believed to have work and finds empty is decided again without its bit: the failed look changed at
 * most counts of levels that wait, and only upwards, which makes them due earlier.
 */
#ifndef TIDEGATE_LEVELS_H
#define TIDEGATE_LEVELS_H

#include <stdbool.h>
#include <stdint.h>

#include <tidegate/abi.h>
#include <tidegate/hd.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TG_OVERTAKING_BOUND (TG_STARVATION_THRESHOLD + TG_PRIORITY_LEVELS - 2u)
#define TG_LEVELS_ALL ((1u << TG_PRIORITY_LEVELS) - 1u)

/* A count stops here instead of running into its neighbour; it is far above the bound. */
#define TG_LEVELS_COUNT_MAX 128u

#define TG_LEVELS_ONES UINT64_C(0x0101010101)
#define TG_LEVELS_COUNTS UINT64_C(0xFFFFFFFFFF)
#define TG_LEVELS_URGENT_BIT (UINT64_C(1) << 40)
#define TG_LEVELS_RUN_ONE (UINT64_C(1) << 41)

TG_STATIC_ASSERT(TG_STARVATION_THRESHOLD == 16, "the overdue test below looks at bits 4..7 of a count");
TG_STATIC_ASSERT(TG_PRIORITY_LEVELS == 5, "the state word has five counts");

/* Bit l of a level mask to bit 8l: the product places bit i at i + 7k, k = 0..4, without carries, and 8i is
 * hit by k = i alone. */
TG_HD static inline uint64_t tg_levels_spread(uint32_t mask)
{
    return (uint64_t)(mask & TG_LEVELS_ALL) * UINT64_C(0x10204081) & TG_LEVELS_ONES;
}

/* How often the level was overtaken. level < 5. */
TG_HD static inline uint32_t tg_levels_overtaken(uint64_t state, uint32_t level)
{
    return (uint32_t)(state >> (8 * level)) & 0xFFu;
}

/* The number of the lowest set bit; mask is not 0. */
TG_HD static inline uint32_t tg_levels_first(uint64_t mask)
{
    return tg_hd_first_bit(mask);
}

/* The level to serve next. work: bit l set when level l has something claimable. TG_PRIORITY_LEVELS when
 * work names no level. */
TG_HD static inline uint32_t tg_levels_choose(uint64_t state, uint32_t work)
{
    work &= TG_LEVELS_ALL;
    if (work == 0)
        return TG_PRIORITY_LEVELS;
    uint64_t overdue = state & (tg_levels_spread(work) * 0xF0u);
    return overdue ? tg_levels_first(overdue) / 8 : tg_levels_first(work);
}

/* The state after a claim at this level, with the same work mask that was decided on. */
TG_HD static inline uint64_t tg_levels_claimed(uint64_t state, uint32_t work, uint32_t level)
{
    uint64_t waiting = tg_levels_spread(work & ~(1u << level));
    uint64_t counts = state & (waiting * 0xFFu);
    uint64_t full = counts >> 7 & TG_LEVELS_ONES;
    uint64_t run = state & ~TG_LEVELS_COUNTS;
    if (level <= TG_PRIORITY_HIGH)
        run |= TG_LEVELS_URGENT_BIT;
    else if (run & TG_LEVELS_URGENT_BIT)
        run = (run & ~TG_LEVELS_URGENT_BIT) + TG_LEVELS_RUN_ONE;
    return run | (counts + (waiting & ~full));
}

/* Several decisions at once: how many claims in a row, at most most (1 to 16), go to this level, which
 * tg_levels_choose named for this state and work, while the work stays the same; *ret_state is the state
 * after them. At least 1.
 *
 * Who takes them as its own may use them one by one, as long as the work is the same and no count was
 * forgotten meanwhile (tg_levels_forgets): then each stands where it was counted, before the next service of
 * every level that waits, and the bound above holds. What it does not use makes others due earlier, never
 * later: an unused count cannot come between two services of a level while another is overdue, because then
 * runs are of length 1. */
TG_HD static inline uint32_t tg_levels_ahead(uint64_t state, uint32_t work, uint32_t level, uint32_t most,
                                             uint64_t *ret_state)
{
    uint64_t next = tg_levels_claimed(state, work, level);
    uint64_t waiting = tg_levels_spread(work & ~(1u << level));
    uint32_t n = 1;
    /* A more urgent one with work is next if this one was overdue; else, until one that waits is. */
    if (!(work & ((1u << level) - 1u)))
        for (; n < most && !(next & (waiting * 0xF0u)); n++)
            next += waiting;
    *ret_state = next;
    return n;
}

/* Does a step from one state to the next set a count to 0 that was not? */
TG_HD static inline bool tg_levels_forgets(uint64_t state, uint64_t next)
{
    const uint64_t low = TG_LEVELS_ONES * 0x7Fu, high = TG_LEVELS_ONES * 0x80u;
    uint64_t was = ((state & low) + low) | state;
    uint64_t is = ((next & low) + low) | next;
    return (was & ~is & high) != 0;
}

/* Two states with the same run number belong to one run of claims at CRITICAL or HIGH. */
TG_HD static inline uint32_t tg_levels_run(uint64_t state)
{
    return (uint32_t)(state >> 41);
}

/* The same decision on plain counters, the form a reader can check by eye; the reference in tests and the
 * form for callers that keep counters in memory. Updates counts and returns the level, or
 * TG_PRIORITY_LEVELS (counts unchanged) when work names none. */
uint32_t tg_levels_decide(uint32_t counts[TG_PRIORITY_LEVELS], uint32_t work);

#ifdef __cplusplus
}
#endif

#endif
