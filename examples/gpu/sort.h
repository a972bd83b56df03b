/* SPDX-License-Identifier: Apache-2.0
 * What sort.cu and the opcode in sort_device.cu share. */
#ifndef EXAMPLE_SORT_H
#define EXAMPLE_SORT_H

#include <stdint.h>

#include <tidegate/hd.h>

enum {
    OP_SORT = 8, /* a warp; args: where the struct text lies (low, high word), first line, end, which array */
    LARGE = 2048, /* lines: a part of more is more urgent, because it becomes many */
};

struct line {
    uint64_t key; /* its first eight bytes, the first one on top */
    uint32_t begin, size;
};

struct text {
    const uint8_t *bytes;
    struct line *lines[2]; /* of the same length; what is sorted ends in the first */
};

/* As strcmp, but a line may have any byte: less than 0, 0, greater than 0. */
TG_HD static inline int compare_lines(const uint8_t *bytes, const struct line *a, const struct line *b)
{
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    uint32_t size = a->size < b->size ? a->size : b->size;
    for (uint32_t i = 8; i < size; i++) {
        int x = bytes[a->begin + i], y = bytes[b->begin + i];
        if (x != y)
            return x - y;
    }
    return a->size < b->size ? -1 : a->size > b->size;
}

#endif
