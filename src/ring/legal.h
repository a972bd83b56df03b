/* SPDX-License-Identifier: Apache-2.0
 * The table of legal slot transitions: the one place that knows it. Bit s of a mask stands for status s, so
 * statuses above 7 match nothing. */
#ifndef TG_RING_LEGAL_H
#define TG_RING_LEGAL_H

#include <stdbool.h>
#include <stdint.h>

#include <tidegate/abi.h>

#define TG_FROM(status) (1u << (status))

enum {
    TG_FROM_PUBLISH = TG_FROM(TG_SLOT_EMPTY) | TG_FROM(TG_SLOT_DONE),
    TG_FROM_CLAIM = TG_FROM(TG_SLOT_PUBLISHED) | TG_FROM(TG_SLOT_YIELD) | TG_FROM(TG_SLOT_REQUEUE),
    TG_FROM_DONE = TG_FROM(TG_SLOT_CLAIMED),
    TG_FROM_FAULT = TG_FROM(TG_SLOT_PUBLISHED) | TG_FROM(TG_SLOT_CLAIMED) | TG_FROM(TG_SLOT_WAIT_IO) |
                    TG_FROM(TG_SLOT_YIELD) | TG_FROM(TG_SLOT_REQUEUE),
    TG_FROM_CANCEL = TG_FROM(TG_SLOT_PUBLISHED) | TG_FROM(TG_SLOT_WAIT_IO) | TG_FROM(TG_SLOT_YIELD) |
                     TG_FROM(TG_SLOT_REQUEUE)
};

#undef TG_FROM

/* Is this status one of those in the mask? */
static inline bool tg_status_in(uint32_t status, unsigned mask)
{
    return status < TG_SLOT_STATUS_COUNT && (mask >> status & 1u) != 0;
}

#endif
