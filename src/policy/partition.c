/* SPDX-License-Identifier: Apache-2.0
 * Partition arithmetic; see <tidegate/partition.h>. Rules E2, E3. */
#include <tidegate/partition.h>

#include "base/split.h"

static uint32_t width_of(uint32_t worker_width)
{
    return worker_width == 0 ? 1 : worker_width;
}

uint32_t tg_partition_active_lanes(uint32_t partition_slots, uint32_t worker_width)
{
    const uint32_t width = width_of(worker_width);
    return partition_slots < width ? partition_slots : width;
}

uint32_t tg_partition_probe_count(uint32_t partition_slots, uint32_t worker_width)
{
    const uint32_t width = width_of(worker_width);
    return partition_slots / width + (partition_slots % width != 0);
}

uint32_t tg_partition_probe_budget(uint32_t partition_slots, uint32_t worker_width)
{
    const uint64_t budget = (uint64_t)tg_partition_active_lanes(partition_slots, worker_width) *
                            tg_partition_probe_count(partition_slots, worker_width);
    return budget > UINT32_MAX ? UINT32_MAX : (uint32_t)budget;
}

void tg_partition_default_offsets(uint32_t total_slots,
                                  uint32_t ret_offsets[TG_CONTROL_PRIORITY_OFFSETS_SLOTS])
{
    tg_split_partitions(total_slots, ret_offsets);
}
