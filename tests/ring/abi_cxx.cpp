/* SPDX-License-Identifier: Apache-2.0
 * The wire headers as C++17: they compile without a warning, link as C, and a buffer laid out by the structs
 * has the words where the constants say. The C half of the same check is test_abi.c. */
#include <tidegate/abi.h>
#include <tidegate/partition.h>
#include <tidegate/ring.h>

#include <cstdio>
#include <cstring>

int main()
{
    static_assert(alignof(tg_slot) == 64, "a slot never straddles two cache lines");
    tg_slot slot{};
    slot.status = TG_SLOT_PUBLISHED;
    slot.priority = TG_PRIORITY_IDLE;
    slot.args[TG_ARGS_PER_SLOT - 1] = TG_OP_SHUTDOWN;
    std::uint32_t words[TG_SLOT_WORDS];
    std::memcpy(words, &slot, sizeof words);
    if (words[TG_SLOT_STATUS_WORD] != 1 || words[TG_SLOT_PRIORITY_WORD] != 4 || words[15] != 0xFFFFFFFFu) {
        std::fputs("a slot's words are not where the constants say\n", stderr);
        return 1;
    }
    tg_control control{};
    control.priority_offsets[5] = 7;
    std::uint32_t fixed[TG_CONTROL_MIN_WORDS];
    std::memcpy(fixed, &control, sizeof fixed);
    if (fixed[TG_CONTROL_PRIORITY_OFFSETS_BASE + 5] != 7) {
        std::fputs("the partition sentinel is not word 134\n", stderr);
        return 1;
    }
    unsigned char ring[TG_SLOT_BYTES] = {};
    std::uint32_t offsets[TG_CONTROL_PRIORITY_OFFSETS_SLOTS];
    tg_partition_default_offsets(6, offsets);
    if (tg_publish_slot(ring, sizeof ring, 0, 1, TG_OP_NOP, nullptr, 0) != 0 || ring[0] != 1 ||
        offsets[3] != 4) {
        std::fputs("the C functions do not work from C++\n", stderr);
        return 1;
    }
    return 0;
}
