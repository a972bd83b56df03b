/* SPDX-License-Identifier: Apache-2.0
 * Inside `tidegate engine dump`: a buffer that was read whole, and who shows which kind of it. */
#ifndef TG_CLI_ENGINE_DUMP_H
#define TG_CLI_ENGINE_DUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/engine.h"

struct tg_dump {
    const char *name; /* of the file */
    const uint8_t *bytes;
    size_t size;
    bool json, all;
    uint64_t odd; /* contents that no host and no worker of the wire would leave */
};

/* Word i of the buffer; words are little-endian at any address. */
static inline uint32_t tg_dump_word(const struct tg_dump *d, size_t i)
{
    const uint8_t *b = d->bytes + i * TG_WORD_BYTES;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/* Says what is odd, on standard error with the place; counts it. */
void tg_dump_odd(struct tg_dump *d, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Each shows its buffer, or says why it is none and returns TG_EXIT_USAGE. */
int tg_dump_ring(struct tg_dump *d);
int tg_dump_control(struct tg_dump *d);
int tg_dump_log(struct tg_dump *d);

#endif
