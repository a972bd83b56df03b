/* SPDX-License-Identifier: Apache-2.0
 * What the property functions of fuzz/ share: a reader over the fuzzer's bytes that never runs past them (it
 * gives zeros then), and a check that ends the program. Keeps no rule; the functions that include it say
 * theirs. */
#ifndef TG_FUZZ_INPUT_H
#define TG_FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(cond)                                                                                           \
    do {                                                                                                     \
        if (!(cond))                                                                                         \
            abort();                                                                                         \
    } while (0)

struct input {
    const uint8_t *data;
    size_t left;
};

static inline uint32_t take8(struct input *in)
{
    if (in->left == 0)
        return 0;
    in->left--;
    return *in->data++;
}

#endif
