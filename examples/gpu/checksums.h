/* SPDX-License-Identifier: Apache-2.0
 * What checksums.cu and the opcode in checksums_device.cu share. */
#ifndef EXAMPLE_CHECKSUMS_H
#define EXAMPLE_CHECKSUMS_H

#include <stdint.h>

enum {
    OP_SHA256 = 8, /* a lane; args: where the struct files lies (low, high word), the file's number */
    ALIGN = 64,
};

/* What the device sees: everything lies in its memory, but the digests in pinned memory of the host. */
struct files {
    const uint8_t *bytes;
    const uint64_t *begin, *size; /* begin is a multiple of ALIGN */
    uint32_t (*digest)[8];
    uint32_t count;
};

#endif
