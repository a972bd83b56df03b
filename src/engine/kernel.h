/* SPDX-License-Identifier: Apache-2.0
 *
 * A kernel made at run time, as the engine's workers see it. compile.c makes it, kernel.c runs it. Apart from
 * compile.c so that a program that compiles nothing links no loader. Not a public header. */
#ifndef TG_ENGINE_KERNEL_H
#define TG_ENGINE_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

#include <tidegate/compile.h>

#include "engine/internal.h"

/* The words of buffer tg_item are those of struct tg_claimed, so that compiled bodies read the worker's own
 * copy of the item where it lies. */
#define TG_ITEM_WORD(field) ((uint32_t)(offsetof(struct tg_claimed, field) / TG_WORD_BYTES))
#define TG_ITEM_WORDS ((uint32_t)(sizeof(struct tg_claimed) / TG_WORD_BYTES))
TG_STATIC_ASSERT(sizeof(struct tg_claimed) % TG_WORD_BYTES == 0, "words and nothing else");

typedef uint32_t (*tg_kernel_entry)(const struct tg_kernel_env *env);

struct tg_kernel {
    uint32_t users; /* engines; atomic */
    bool unrestricted;
    uint32_t slots;             /* of the ring that the loop is for */
    uint32_t item_buffer;       /* number of tg_item */
    uint32_t buffers;           /* declared: the wire's and the user's, tg_item excluded */
    tg_kernel_entry lane, item; /* NULL: interpreted */
    void *library;
    void *image; /* for a device: its whole kernel, with the bodies; then there is nothing else */
    size_t image_bytes;
    struct tg_ir ir; /* interpreted: a copy of the arena */
    struct tg_ir_node lane_root, item_root;
    uint32_t opcode_count;
    uint32_t opcodes[TG_IR_MAX_OPCODES];
};

/* One worker's side of it. */
struct tg_kernel_worker {
    _Alignas(64) struct tg_kernel_env env;
    const struct tg_kernel *kernel;
    struct tg_ir_machine *machine; /* interpreted */
    const uint32_t *machine_dfa;   /* the table it was opened with */
    struct tg_claimed item;        /* where the machine finds it */
};

/* compile_device.c: the image of the kernel whose item program is built. */
int tg_compile_device(struct tg_kernel *t, const struct tg_ir *ir, const struct tg_compile_options *o,
                      char *why, size_t why_bytes);

#endif
