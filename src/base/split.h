/* SPDX-License-Identifier: Apache-2.0
 * The default cut of a ring into five partitions. It stands here because the ring codec and the policy both
 * need it and may not include each other. Rule E2. */
#ifndef TG_BASE_SPLIT_H
#define TG_BASE_SPLIT_H

#include <stdint.h>

/* offsets[p] = first slot of partition p, offsets[5] = total: a fifth each, the remainder to the third. */
static inline void tg_split_partitions(uint32_t total, uint32_t offsets[6])
{
    const uint32_t fifth = total / 5;
    offsets[0] = 0;
    offsets[1] = fifth;
    offsets[2] = 2 * fifth;
    offsets[3] = total - 2 * fifth;
    offsets[4] = total - fifth;
    offsets[5] = total;
}

#endif
