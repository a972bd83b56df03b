/* SPDX-License-Identifier: Apache-2.0
 *
 * The index of a ring (index.h) from the host's side: what has become claimable is marked, what ended without
 * a worker wakes the fences that waited for it. The same steps as those of the kernel in index_look.c.
 *
 * Rules kept: E1 (marks are set from the leaf to the root, so that whoever clears a word above sees the
 * leaf), E11. */
#include <errno.h>
#include <string.h>

#include "base/atomic.h"
#include "ir/index.h"

size_t tg_ir_index_words(uint32_t slots)
{
    return slots == 0 || slots > TG_MAX_ENCODED_RING_SLOTS ? 0 : tg_index_shape_of(slots).words;
}

static bool is_sound(const struct tg_ir_index *x, uint32_t slot)
{
    return x->words && x->ring && slot < x->slots && x->slots <= TG_MAX_ENCODED_RING_SLOTS;
}

static void mark(const struct tg_ir_index *x, const struct tg_index_shape *s, uint32_t slot)
{
    uint32_t tenant =
        tg_load_relaxed_u32(&x->ring[slot].tenant); /* who published it told us, or did it itself */
    uint32_t level = tg_load_relaxed_u32(&x->ring[slot].priority);
    uint32_t queue = tenant < TG_CONTROL_TENANT_MASK_SLOTS && level < TG_PRIORITY_LEVELS
                         ? level * TG_CONTROL_TENANT_MASK_SLOTS + tenant
                         : TG_INDEX_STRANGERS;
    uint32_t *tree = x->words + TG_INDEX_TREES_AT + queue * s->tree;
    uint32_t at = slot;
    /* X1 acq_rel: the slot's STATUS before the leaf, each word before the one above; pairs with "index.clear"
     * in index_look.c. */
    for (uint32_t h = 0; h < s->height; h++, at >>= 5)
        (void)tg_or_acqrel_u32(&tree[s->at[h] + (at >> 5)], 1u << (at & 31u));
    (void)tg_or_acqrel_u32(&x->words[queue / TG_CONTROL_TENANT_MASK_SLOTS],
                           1u << queue % TG_CONTROL_TENANT_MASK_SLOTS);
}

int tg_ir_index_publish(const struct tg_ir_index *x, uint32_t slot)
{
    if (!is_sound(x, slot))
        return -EINVAL;
    const struct tg_index_shape s = tg_index_shape_of(x->slots);
    mark(x, &s, slot);
    return 0;
}

int tg_ir_index_over(const struct tg_ir_index *x, uint32_t slot)
{
    if (!is_sound(x, slot))
        return -EINVAL;
    const struct tg_index_shape s = tg_index_shape_of(x->slots);
    /* X2 acq_rel: STATUS before it, the list after it; pairs with "index.park" in index_look.c. */
    uint32_t fence = tg_exchange_acqrel_u32(&x->words[s.fences + slot], 0);
    for (uint32_t i = 0; i < x->slots && fence != 0 && fence <= x->slots; i++) {
        uint32_t this = fence - 1;
        fence = tg_load_relaxed_u32(&x->words[s.nexts + this]); /* X2 handed it over */
        mark(x, &s, this);
    }
    return 0;
}

int tg_ir_index_build(const struct tg_ir_index *x)
{
    if (!is_sound(x, 0))
        return -EINVAL;
    const struct tg_index_shape s = tg_index_shape_of(x->slots);
    memset(x->words, 0, s.words * sizeof(uint32_t));
    for (uint32_t slot = 0; slot < x->slots; slot++) {
        uint32_t status = tg_load_acquire_u32(&x->ring[slot].status); /* X3: pairs with who published it */
        if (status == TG_SLOT_PUBLISHED || status == TG_SLOT_YIELD || status == TG_SLOT_REQUEUE)
            mark(x, &s, slot);
    }
    return 0;
}
