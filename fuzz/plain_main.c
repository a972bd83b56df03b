/* SPDX-License-Identifier: Apache-2.0
 * Runs a fuzz property without a fuzzer: over the files named, or over a random corpus that is the same each
 * time and bounded in number and in time. A property that fails aborts. */
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUTS = 60000, LARGEST = 3000 };
#define LIMIT_NS (UINT64_C(4) * 1000 * 1000 * 1000)

static uint64_t next_random(uint64_t *state)
{
    uint64_t x = *state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return x * UINT64_C(2685821657736338717);
}

/* Half of the bytes small, since most fields that matter are. */
static size_t random_input(uint64_t *state, uint8_t *data)
{
    const uint64_t shape = next_random(state);
    const size_t size = (size_t)(next_random(state) % (shape % 4 == 0 ? LARGEST : 300));
    for (size_t i = 0; i < size; i++) {
        const uint64_t r = next_random(state);
        data[i] = (uint8_t)(r >> 8 & (r & 1 ? 0xFF : shape & 2 ? 0x00 : 0x07));
    }
    return size;
}

static int replay(const char *path)
{
    static uint8_t data[1 << 20];
    FILE *file = fopen(path, "rb");
    if (!file) {
        fprintf(stderr, "%s: cannot be opened\n", path);
        return 2;
    }
    const size_t size = fread(data, 1, sizeof data, file);
    fclose(file);
    LLVMFuzzerTestOneInput(data, size);
    return 0;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (replay(argv[i]) != 0)
            return 2;
    if (argc > 1)
        return 0;
    uint64_t state = UINT64_C(0x9E3779B97F4A7C15);
    const uint64_t start = tg_clock_mono_ns();
    unsigned done = 0;
    while (done < INPUTS && tg_clock_mono_ns() - start < LIMIT_NS) {
        /* A block of exactly the input's size, so that a sanitizer sees the first byte too many. */
        uint8_t data[LARGEST];
        const size_t size = random_input(&state, data);
        uint8_t *block = malloc(size ? size : 1);
        if (!block)
            return 1;
        for (size_t i = 0; i < size; i++)
            block[i] = data[i];
        LLVMFuzzerTestOneInput(block, size);
        free(block);
        done++;
    }
    printf("%u inputs held\n", done);
    return done > 0 ? 0 : 1;
}
