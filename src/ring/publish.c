/* SPDX-License-Identifier: Apache-2.0
 * Publishers of one slot and of a batch with its fence; see <tidegate/ring.h>. Everything is checked before
 * the first write, and STATUS is the last word written. Rules E1, E2, E5. */
#include <tidegate/ring.h>

#include "ring/bytes.h"
#include "ring/publish.h"

int tg_publish_slot_with_priority(void *ring, size_t ring_bytes, uint32_t slot, uint32_t tenant,
                                  uint32_t priority, uint32_t opcode, const uint32_t *args, size_t arg_count)
{
    if (arg_count > TG_ARGS_PER_SLOT || priority >= TG_PRIORITY_LEVELS || !tg_opcode_is_publishable(opcode))
        return TG_QUEUE_FULL;
    if (!tg_slots_publishable(ring, ring_bytes, slot, 1))
        return TG_QUEUE_FULL;
    tg_slot_fill((unsigned char *)ring + (size_t)slot * TG_SLOT_BYTES, opcode, tenant, priority, args,
                 arg_count);
    return 0;
}

int tg_publish_slot(void *ring, size_t ring_bytes, uint32_t slot, uint32_t tenant, uint32_t opcode,
                    const uint32_t *args, size_t arg_count)
{
    return tg_publish_slot_with_priority(ring, ring_bytes, slot, tenant, TG_PRIORITY_NORMAL, opcode, args,
                                         arg_count);
}

static bool batch_publishable(const struct tg_batch_item *items, size_t item_count)
{
    for (size_t i = 0; i < item_count; i++)
        if (items[i].arg_count > TG_ARGS_PER_SLOT || !tg_opcode_is_publishable(items[i].opcode))
            return false;
    return true;
}

int tg_batch_publish_with_priority(void *ring, size_t ring_bytes, uint32_t start, uint32_t tenant,
                                   uint32_t priority, const struct tg_batch_item *items, size_t item_count,
                                   uint32_t tag, uint32_t *ret_published)
{
    /* An item_count of SIZE_MAX has no room for its fence; the bound also keeps the loop below short. */
    if (item_count > TG_MAX_RING_SLOTS || priority >= TG_PRIORITY_LEVELS)
        return TG_QUEUE_FULL;
    if (!tg_slots_publishable(ring, ring_bytes, start, item_count + 1) ||
        !batch_publishable(items, item_count))
        return TG_QUEUE_FULL;
    unsigned char *slot = (unsigned char *)ring + (size_t)start * TG_SLOT_BYTES;
    for (size_t i = 0; i < item_count; i++, slot += TG_SLOT_BYTES)
        tg_slot_fill(slot, items[i].opcode, tenant, priority, items[i].args, items[i].arg_count);
    const uint32_t fence[2] = {(uint32_t)item_count, tag};
    tg_slot_fill(slot, TG_OP_BATCH_FENCE, tenant, priority, fence, 2);
    *ret_published = (uint32_t)item_count + 1;
    return 0;
}

int tg_batch_publish(void *ring, size_t ring_bytes, uint32_t start, uint32_t tenant,
                     const struct tg_batch_item *items, size_t item_count, uint32_t tag,
                     uint32_t *ret_published)
{
    return tg_batch_publish_with_priority(ring, ring_bytes, start, tenant, TG_PRIORITY_NORMAL, items,
                                          item_count, tag, ret_published);
}
