/* SPDX-License-Identifier: Apache-2.0
 * The wire header as C11: the words lie where the constants say, and the constants have the values that
 * other implementations of the ABI use. (Vectors hold the same; here they stand without any codec.) */
#include <tidegate/abi.h>

#include "check.h"

static void slot_words_lie_where_the_constants_say(void)
{
    struct tg_slot slot = {.status = 0x10, .opcode = 0x11, .tenant = 0x12, .priority = 0x13};
    for (uint32_t i = 0; i < TG_ARGS_PER_SLOT; i++)
        slot.args[i] = 0x14 + i;
    uint32_t words[TG_SLOT_WORDS];
    memcpy(words, &slot, sizeof words);
    for (uint32_t i = 0; i < TG_SLOT_WORDS; i++)
        CHECK_EQ(words[i], 0x10 + i);
    CHECK_EQ(_Alignof(struct tg_slot), 64);
}

static void control_words_lie_where_the_constants_say(void)
{
    uint32_t words[TG_CONTROL_MIN_WORDS];
    for (uint32_t i = 0; i < TG_CONTROL_MIN_WORDS; i++)
        words[i] = i;
    struct tg_control control;
    memcpy(&control, words, sizeof control);
    CHECK_EQ(control.tenant_masks[28], 31);
    CHECK_EQ(control.tenant_quota[0], 32);
    CHECK_EQ(control.tenant_fairness[31], 95);
    CHECK_EQ(control.metrics[31], 127);
    CHECK_EQ(control.epoch, 128);
    CHECK_EQ(control.priority_offsets[5], 134);
    CHECK_EQ(control.priority_starvation, 135);
    CHECK_EQ(control.priority_fairness[4], 140);
    CHECK_EQ(control.extension[18], 159);
}

int main(void)
{
    RUN(slot_words_lie_where_the_constants_say);
    RUN(control_words_lie_where_the_constants_say);
    return 0;
}
