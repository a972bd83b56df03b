/* SPDX-License-Identifier: Apache-2.0
 * Packed slots: several inner operations in the 12 argument words of one; see <tidegate/ring.h>. */
#include <tidegate/ring.h>

#include "ring/bytes.h"
#include "ring/packed.h"

#define PAYLOAD_BYTES (TG_ARGS_PER_SLOT * TG_WORD_BYTES)

/* Do the operations fit one slot? *ret_arg_words is what their arguments take together. */
static bool fits(const struct tg_packed_op *ops, size_t op_count, size_t *ret_arg_words)
{
    if (op_count > TG_PACKED_MAX_OPS)
        return false;
    const size_t room = TG_ARGS_PER_SLOT - tg_packed_metadata_words((uint32_t)op_count);
    size_t arg_words = 0;
    for (size_t i = 0; i < op_count; i++) {
        if (ops[i].arg_count > room - arg_words)
            return false;
        arg_words += ops[i].arg_count;
    }
    *ret_arg_words = arg_words;
    return true;
}

int tg_packed_encode(const struct tg_packed_op *ops, size_t op_count, uint32_t ret_args[TG_ARGS_PER_SLOT])
{
    size_t arg_words;
    if (!fits(ops, op_count, &arg_words))
        return TG_QUEUE_FULL;
    unsigned char payload[PAYLOAD_BYTES] = {0};
    payload[TG_PACKED_COUNT_BYTE] = (unsigned char)op_count;
    payload[TG_PACKED_ARG_WORDS_BYTE] = (unsigned char)arg_words;
    const size_t base = tg_packed_metadata_words((uint32_t)op_count);
    size_t offset = 0;
    for (size_t i = 0; i < op_count; i++) {
        unsigned char *entry = payload + TG_PACKED_HEADER_BYTES + TG_PACKED_OP_BYTES * i;
        entry[0] = ops[i].op_id;
        entry[1] = (unsigned char)offset;
        for (size_t a = 0; a < ops[i].arg_count; a++)
            tg_put_word(payload, base + offset++, ops[i].args[a]);
    }
    for (size_t i = 0; i < TG_ARGS_PER_SLOT; i++)
        ret_args[i] = tg_get_word(payload, i);
    return 0;
}

int tg_packed_decode(const uint32_t args[TG_ARGS_PER_SLOT], struct tg_packed_view *ret_view)
{
    struct tg_packed_view view = {0};
    if (!tg_packed_look(args, &view))
        return TG_BACKEND;
    *ret_view = view;
    return 0;
}

int tg_publish_packed_slot_with_priority(void *ring, size_t ring_bytes, uint32_t slot, uint32_t tenant,
                                         uint32_t priority, const struct tg_packed_op *ops, size_t op_count)
{
    uint32_t args[TG_ARGS_PER_SLOT];
    const int r = tg_packed_encode(ops, op_count, args);
    if (r < 0)
        return r;
    return tg_publish_slot_with_priority(ring, ring_bytes, slot, tenant, priority, TG_OP_PACKED_SLOT, args,
                                         TG_ARGS_PER_SLOT);
}

int tg_publish_packed_slot(void *ring, size_t ring_bytes, uint32_t slot, uint32_t tenant,
                           const struct tg_packed_op *ops, size_t op_count)
{
    return tg_publish_packed_slot_with_priority(ring, ring_bytes, slot, tenant, TG_PRIORITY_NORMAL, ops,
                                                op_count);
}
