/* SPDX-License-Identifier: Apache-2.0
 * Partition arithmetic: every small pair against its definition, the edges of 32 bits, and random pairs
 * against properties. Rules E2, E3. */
#include <tidegate/partition.h>

#include "check.h"

static void check_pair(uint32_t slots, uint32_t width)
{
    const uint64_t w = width ? width : 1;
    const uint64_t lanes = slots < w ? slots : w, probes = (slots + w - 1) / w;
    CHECK_EQ(tg_partition_active_lanes(slots, width), lanes);
    CHECK_EQ(tg_partition_probe_count(slots, width), probes);
    const uint64_t budget = tg_partition_probe_budget(slots, width);
    CHECK_EQ(budget, lanes * probes > UINT32_MAX ? UINT32_MAX : lanes * probes);
    /* A scan covers the partition and wastes less than one look a worker. */
    CHECK(budget >= slots && (budget == UINT32_MAX || budget < slots + w));
}

static void e3_every_small_pair(void)
{
    for (uint32_t slots = 0; slots <= 300; slots++)
        for (uint32_t width = 0; width <= 70; width++)
            check_pair(slots, width);
}

static void e3_edges_and_random_pairs(void)
{
    static const uint32_t edges[] = {0, 1, 2, 65535, 65536, 0x7FFFFFFF, 0x80000000u, 0xFFFFFFFEu, UINT32_MAX};
    const size_t n = sizeof edges / sizeof *edges;
    for (size_t i = 0; i < n * n; i++)
        check_pair(edges[i / n], edges[i % n]);
    uint64_t seed = 17;
    for (int i = 0; i < 200000; i++) {
        const uint64_t r = check_random(&seed), s = check_random(&seed);
        check_pair((uint32_t)(r >> (s & 31)), (uint32_t)(r >> 32 >> (s >> 5 & 31)));
    }
}

static void check_offsets(uint32_t total)
{
    uint32_t o[6];
    tg_partition_default_offsets(total, o);
    CHECK(o[0] == 0 && o[5] == total);
    for (int p = 0; p < 5; p++)
        CHECK(o[p] <= o[p + 1]);
    for (int p = 0; p < 5; p++)
        CHECK_EQ(o[p + 1] - o[p], p == TG_PRIORITY_NORMAL ? total / 5 + total % 5 : total / 5);
}

static void e2_default_cut(void)
{
    for (uint32_t total = 0; total <= 5000; total++)
        check_offsets(total);
    for (uint32_t d = 0; d < 20; d++) {
        check_offsets(UINT32_MAX - d);
        check_offsets(0x80000000u - 10 + d);
    }
}

int main(void)
{
    RUN(e3_every_small_pair);
    RUN(e3_edges_and_random_pairs);
    RUN(e2_default_cut);
    return 0;
}
