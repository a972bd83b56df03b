/* SPDX-License-Identifier: Apache-2.0
 * What gemv.cu and the opcodes in gemv_device.cu share. */
#ifndef EXAMPLE_GEMV_H
#define EXAMPLE_GEMV_H

#include <stdint.h>

enum {
    OP_ROWS = 8,  /* a warp; args: where the struct task lies (low, high word), the first row */
    OP_PIECE = 9, /* a lane; args: where the struct task lies (low, high word), the piece's number */
    SIDE = 512,
    ROWS = 32, /* an item */
    PIECES = 65536,
    PIECE_BYTES = 512,
};

struct task {
    const float *matrix; /* row by row */
    const float *in;     /* pinned */
    float *out;          /* pinned */
    const uint32_t *pieces;
    uint32_t (*digest)[8];
};

#endif
