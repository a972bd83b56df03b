/* SPDX-License-Identifier: Apache-2.0
 * The words of the wire (docs/abi.md) as people write them. */
#include <strings.h>

#include "cli/engine.h"

static const struct {
    const char *name;
    uint32_t opcode;
} opcodes[] = {
    {"NOP", TG_OP_NOP},           {"STORE_U32", TG_OP_STORE_U32},       {"ATOMIC_ADD", TG_OP_ATOMIC_ADD},
    {"LOAD_U32", TG_OP_LOAD_U32}, {"COMPARE_SWAP", TG_OP_COMPARE_SWAP}, {"MEMCPY", TG_OP_MEMCPY},
    {"DFA_STEP", TG_OP_DFA_STEP}, {"BATCH_FENCE", TG_OP_BATCH_FENCE},   {"LOAD_MISS", TG_OP_LOAD_MISS},
    {"PRINTF", TG_OP_PRINTF},     {"PACKED_SLOT", TG_OP_PACKED_SLOT},   {"SHUTDOWN", TG_OP_SHUTDOWN},
};

#define OPCODES (sizeof(opcodes) / sizeof(opcodes[0]))

const char *tg_cli_opcode_name(uint32_t opcode)
{
    for (size_t i = 0; i < OPCODES; i++)
        if (opcodes[i].opcode == opcode)
            return opcodes[i].name;
    return NULL;
}

bool tg_cli_opcode_parse(const char *name, uint32_t *ret_opcode)
{
    for (size_t i = 0; i < OPCODES; i++) {
        if (strcasecmp(opcodes[i].name, name) == 0) {
            *ret_opcode = opcodes[i].opcode;
            return true;
        }
    }
    if (strcasecmp(name, "SPIN_US") != 0) /* a user opcode: the command's own handler */
        return false;
    *ret_opcode = TG_CLI_OP_SPIN_US;
    return true;
}

static const char *const levels[TG_PRIORITY_LEVELS] = {"critical", "high", "normal", "low", "idle"};

const char *tg_cli_level_name(uint32_t level)
{
    return level < TG_PRIORITY_LEVELS ? levels[level] : "?";
}

bool tg_cli_level_parse(const char *name, uint32_t *ret_level)
{
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++) {
        if (strcasecmp(levels[l], name) == 0) {
            *ret_level = l;
            return true;
        }
    }
    return false;
}

const char *tg_cli_status_name(uint32_t status)
{
    static const char *const names[TG_SLOT_STATUS_COUNT] = {"EMPTY",   "PUBLISHED", "CLAIMED", "DONE",
                                                            "WAIT_IO", "YIELD",     "REQUEUE", "FAULT"};
    return status < TG_SLOT_STATUS_COUNT ? names[status] : NULL;
}
