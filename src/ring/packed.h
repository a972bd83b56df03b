/* SPDX-License-Identifier: Apache-2.0
 * The decoding of a packed slot, for hosts and kernels: where each inner operation's arguments lie. Arguments
 * came from a slot and are input. */
#ifndef TG_RING_PACKED_H
#define TG_RING_PACKED_H

#include <stdbool.h>
#include <stdint.h>

#include <tidegate/hd.h>
#include <tidegate/ring.h>

/* Words taken by the metadata of n operations. */
TG_HD static inline uint32_t tg_packed_metadata_words(uint32_t op_count)
{
    return (TG_PACKED_HEADER_BYTES + TG_PACKED_OP_BYTES * op_count + TG_WORD_BYTES - 1) / TG_WORD_BYTES;
}

TG_HD static inline uint32_t tg_packed_byte(const uint32_t *args, uint32_t i)
{
    return args[i / TG_WORD_BYTES] >> (8 * (i % TG_WORD_BYTES)) & 0xFFu;
}

/* False: malformed, *view is not to be used. */
TG_HD static inline bool tg_packed_look(const uint32_t args[TG_ARGS_PER_SLOT], struct tg_packed_view *view)
{
    uint32_t op_count = tg_packed_byte(args, TG_PACKED_COUNT_BYTE);
    uint32_t end =
        tg_packed_byte(args, TG_PACKED_ARG_WORDS_BYTE); /* of operation i's arguments, going down */
    if (op_count > TG_PACKED_MAX_OPS)
        return false;
    uint32_t base = tg_packed_metadata_words(op_count);
    if (base + end > TG_ARGS_PER_SLOT)
        return false;
    view->op_count = op_count;
    for (uint32_t i = op_count; i-- > 0;) {
        uint32_t entry = TG_PACKED_HEADER_BYTES + TG_PACKED_OP_BYTES * i;
        uint32_t first = tg_packed_byte(args, entry + 1);
        if (first > end)
            return false;
        view->op_id[i] = (uint8_t)tg_packed_byte(args, entry);
        view->first[i] = (uint8_t)(base + first);
        view->words[i] = (uint8_t)(end - first);
        end = first;
    }
    return true;
}

#endif
