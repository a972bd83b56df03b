/* SPDX-License-Identifier: Apache-2.0
 *
 * Partition arithmetic of the resident work queue: how a ring is cut into one partition a priority, and how
 * many slots a scan of one partition may look at. Pure functions: no state, no memory, any thread, no
 * errors. They decide nothing about who runs first (that is policy.h), and they read no buffer (ring.h).
 *
 * Rules kept: E2 (one partition a priority), E3 (the scan of a partition is bounded).
 */
#ifndef TIDEGATE_PARTITION_H
#define TIDEGATE_PARTITION_H

#include <stdint.h>

#include <tidegate/abi.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How many workers of worker_width have a slot to look at in a partition of partition_slots: the smaller of
 * the two. A width of 0 counts as 1. */
uint32_t tg_partition_active_lanes(uint32_t partition_slots, uint32_t worker_width);

/* How many slots each of them looks at to cover the partition: ceil(partition_slots / worker_width), 0 for an
 * empty partition. A width of 0 counts as 1. */
uint32_t tg_partition_probe_count(uint32_t partition_slots, uint32_t worker_width);

/* What one covering scan costs in slots looked at: lanes times probes, at most UINT32_MAX. It is at least
 * partition_slots and less than partition_slots + worker_width. */
uint32_t tg_partition_probe_budget(uint32_t partition_slots, uint32_t worker_width);

/* The default cut of total_slots: a fifth each (rounded down) in priority order, the remainder to NORMAL.
 * ret_offsets[p] is the first slot of partition p, ret_offsets[5] is total_slots. */
void tg_partition_default_offsets(uint32_t total_slots,
                                  uint32_t ret_offsets[TG_CONTROL_PRIORITY_OFFSETS_SLOTS]);

#ifdef __cplusplus
}
#endif

#endif
