/* SPDX-License-Identifier: Apache-2.0
 *
 * How the index of a ring lies in its buffer: which slots wait, a tree of bits for each level and tenant, so
 * that finding one takes as many loads as the tree is high (at most 4 and the root), however large the ring
 * is (E11). For the scan that uses it (index_look.c) and for the host (index_host.c). Not a public header.
 *
 * Words 0 .. 4 are a level each: bit t, the tree of tenant t has something. In word 5, bit 0 is that of the
 * strangers.
 *
 * From word 16 on lie the trees, QUEUES of them, each the leaves first (bit s: slot s), then a bit a word of
 * those, and so on.
 *
 * Then for each slot the fence that waits for it, + 1; then for each fence the next one of that list, + 1.
 */
#ifndef TG_IR_INDEX_H
#define TG_IR_INDEX_H

#include <tidegate/ir.h>

#define TG_INDEX_STRANGERS                                                                                   \
    (TG_PRIORITY_LEVELS * TG_CONTROL_TENANT_MASK_SLOTS) /* slots of no level or tenant */
#define TG_INDEX_QUEUES (TG_INDEX_STRANGERS + 1)
#define TG_INDEX_MAX_HEIGHT 4u
#define TG_INDEX_TREES_AT 16u

struct tg_index_shape {
    uint32_t slots;
    uint32_t height;                     /* levels of words in a tree */
    uint32_t at[TG_INDEX_MAX_HEIGHT];    /* where those of a height begin in it, the leaves being height 0 */
    uint32_t count[TG_INDEX_MAX_HEIGHT]; /* how many there are */
    uint32_t tree;                       /* words of a tree */
    uint32_t fences, nexts, words;       /* where the lists begin, and the end */
};

/* slots is 1 .. TG_MAX_ENCODED_RING_SLOTS. */
static inline struct tg_index_shape tg_index_shape_of(uint32_t slots)
{
    struct tg_index_shape s = {.slots = slots};
    uint32_t words = slots;
    do {
        words = (words + 31) / 32;
        s.at[s.height] = s.tree;
        s.count[s.height++] = words;
        s.tree += words;
    } while (words > 1);
    s.fences = TG_INDEX_TREES_AT + TG_INDEX_QUEUES * s.tree;
    s.nexts = s.fences + slots;
    s.words = s.nexts + slots;
    return s;
}

#endif
