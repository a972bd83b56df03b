/* SPDX-License-Identifier: Apache-2.0
 * The plain form of the level decision (E2, E3). The packed form, which workers use, is levels.h; a property
 * test holds the two equal. */
#include <tidegate/levels.h>

uint32_t tg_levels_decide(uint32_t counts[TG_PRIORITY_LEVELS], uint32_t work)
{
    uint32_t first = TG_PRIORITY_LEVELS;
    uint32_t overdue = TG_PRIORITY_LEVELS;
    for (uint32_t level = TG_PRIORITY_LEVELS; level-- > 0;) {
        if (!(work >> level & 1u))
            continue;
        first = level;
        if (counts[level] >= TG_STARVATION_THRESHOLD)
            overdue = level;
    }
    uint32_t chosen = overdue < TG_PRIORITY_LEVELS ? overdue : first;
    if (chosen == TG_PRIORITY_LEVELS)
        return chosen;
    for (uint32_t level = 0; level < TG_PRIORITY_LEVELS; level++) {
        if (level == chosen || !(work >> level & 1u))
            counts[level] = 0;
        else if (counts[level] < TG_LEVELS_COUNT_MAX)
            counts[level]++;
    }
    return chosen;
}
