/* SPDX-License-Identifier: Apache-2.0
 * Work items: into a live ring, or as a fresh ring of their own; see <tidegate/ring.h>. Everything is checked
 * before the first write. Rules E1, E2. */
#include <tidegate/ring.h>

#include "ring/bytes.h"
#include "ring/publish.h"

static bool items_publishable(const struct tg_work_item *items, size_t item_count)
{
    for (size_t i = 0; i < item_count; i++)
        if (!tg_opcode_is_publishable(items[i].op_handle))
            return false;
    return true;
}

static void fill_item(unsigned char *slot, uint32_t tenant, uint32_t priority,
                      const struct tg_work_item *item)
{
    const uint32_t args[3] = {item->input_handle, item->output_handle, item->param};
    tg_slot_fill(slot, item->op_handle, tenant, priority, args, 3);
}

int tg_publish_work_items_with_priority(void *ring, size_t ring_bytes, uint32_t start, uint32_t tenant,
                                        uint32_t priority, const struct tg_work_item *items,
                                        size_t item_count, uint32_t *ret_published)
{
    if (priority >= TG_PRIORITY_LEVELS || !items_publishable(items, item_count))
        return TG_QUEUE_FULL;
    if (!tg_slots_publishable(ring, ring_bytes, start, item_count))
        return TG_QUEUE_FULL;
    for (size_t i = 0; i < item_count; i++)
        fill_item((unsigned char *)ring + (start + i) * TG_SLOT_BYTES, tenant, priority, &items[i]);
    *ret_published = (uint32_t)item_count;
    return 0;
}

int tg_publish_work_items(void *ring, size_t ring_bytes, uint32_t start, uint32_t tenant,
                          const struct tg_work_item *items, size_t item_count, uint32_t *ret_published)
{
    return tg_publish_work_items_with_priority(ring, ring_bytes, start, tenant, TG_PRIORITY_NORMAL, items,
                                               item_count, ret_published);
}

int tg_encode_work_items_ring_with_priority(uint32_t slots, uint32_t tenant, uint32_t priority,
                                            const struct tg_work_item *items, size_t item_count, void *dst,
                                            size_t capacity, size_t *ret_bytes)
{
    if (item_count > slots || priority >= TG_PRIORITY_LEVELS || !items_publishable(items, item_count))
        return TG_QUEUE_FULL;
    const int r = tg_encode_empty_ring(slots, dst, capacity, ret_bytes);
    if (r < 0)
        return r;
    for (size_t i = 0; i < item_count; i++)
        fill_item((unsigned char *)dst + i * TG_SLOT_BYTES, tenant, priority, &items[i]);
    return 0;
}

int tg_encode_work_items_ring(uint32_t slots, uint32_t tenant, const struct tg_work_item *items,
                              size_t item_count, void *dst, size_t capacity, size_t *ret_bytes)
{
    return tg_encode_work_items_ring_with_priority(slots, tenant, TG_PRIORITY_NORMAL, items, item_count, dst,
                                                   capacity, ret_bytes);
}

int tg_encode_work_items_ring_words_with_priority(uint32_t slots, uint32_t tenant, uint32_t priority,
                                                  const struct tg_work_item *items, size_t item_count,
                                                  uint32_t *dst, size_t capacity_words, size_t *ret_words)
{
    /* No ring is longer than SIZE_MAX bytes, so words past that count for nothing. */
    const size_t most = SIZE_MAX / TG_WORD_BYTES;
    const size_t capacity = (capacity_words < most ? capacity_words : most) * TG_WORD_BYTES;
    size_t bytes;
    const int r = tg_encode_work_items_ring_with_priority(slots, tenant, priority, items, item_count, dst,
                                                          capacity, &bytes);
    if (r == 0 && ret_words)
        *ret_words = bytes / TG_WORD_BYTES;
    return r;
}

int tg_encode_work_items_ring_words(uint32_t slots, uint32_t tenant, const struct tg_work_item *items,
                                    size_t item_count, uint32_t *dst, size_t capacity_words,
                                    size_t *ret_words)
{
    return tg_encode_work_items_ring_words_with_priority(slots, tenant, TG_PRIORITY_NORMAL, items, item_count,
                                                         dst, capacity_words, ret_words);
}
