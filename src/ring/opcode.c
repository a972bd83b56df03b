/* SPDX-License-Identifier: Apache-2.0
 * Opcode classes; see <tidegate/ring.h>. */
#include <tidegate/ring.h>

bool tg_opcode_is_reserved(uint32_t opcode)
{
    return (opcode & TG_OP_SYSTEM_MASK) != 0 ||
           (opcode >= TG_OP_RESERVED_MIN && opcode <= TG_OP_RESERVED_MAX) || opcode < TG_OP_FIRST_USER;
}

bool tg_opcode_is_builtin(uint32_t opcode)
{
    return opcode < TG_OP_FIRST_USER || opcode == TG_OP_PACKED_SLOT || opcode == TG_OP_PRINTF ||
           opcode == TG_OP_SHUTDOWN;
}

bool tg_opcode_is_user(uint32_t opcode)
{
    return !tg_opcode_is_reserved(opcode);
}

bool tg_opcode_is_publishable(uint32_t opcode)
{
    return tg_opcode_is_builtin(opcode) || tg_opcode_is_user(opcode);
}
