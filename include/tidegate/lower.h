/* SPDX-License-Identifier: Apache-2.0
 *
 * Lowering: a checked program of ir.h as one self-contained translation unit, in C11 or in CUDA C. Both come
 * from the same nodes in the same way; what differs is the prelude (how a word is loaded, how a lane knows
 * its number). This header compiles nothing and runs nothing: tg_engine_compile (compile.h) does.
 *
 * What the text keeps
 *   - Every operation is defined: wrapping words, checked indices, shifts and divisions as ir.h says. It
 *     compiles without a warning under -Wall -Wextra, with gcc, clang and nvcc.
 *   - A name of the program's author is never a word of its own: variables are v<number>_<name>, with names
 *     that the validator let pass (letters, digits and _, at most 63), and labels stand in comments.
 *   - It includes <stddef.h> and <stdint.h> and calls no library.
 *
 * The entry points of the C text (struct tg_kernel_env is below, and again in the text):
 *     uint32_t tg_kernel_lane(const struct tg_kernel_env *env);
 *         Runs one lane, env->lane of env->lanes, from the start of the program to its end; returns its
 * value. Call it from as many threads as there are lanes, each with an env of its own over the same words.
 *     uint32_t tg_kernel_item(const struct tg_kernel_env *env);
 *         Only when options name an item program: runs that one, private buffers zero at its start.
 * OBSERVABLE must be bound too: making it would cost time here. const uint32_t tg_kernel_abi[4];
 *         TG_KERNEL_ABI, sizeof(struct tg_kernel_env), words of a lane's private buffers, which buffers are
 *         shared (bit i: buffer i).
 * Those of the CUDA text:
 *     extern "C" __global__ void tg_kernel(struct tg_kernel_env env, uint32_t *values);
 *         One lane a thread; blocks are groups. values (may be NULL) gets each lane's value, by
 *         blockIdx.x * blockDim.x + threadIdx.x. Words are accessed at system scope: they may be the host's.
 *         lane, lanes, group, groups, private_words and pause of env are not looked at.
 * Or, when options name an item program and there is no root ({0}), of a unit for another kernel:
 *     static __device__ u32 tg_kernel_item(const struct tg_kernel_env *env);
 *         As that of C. Before the unit the macro TG_WROTE(env, index) must be defined: it stands behind
 * every write of word index of OBSERVABLE. private_words and pause of env are not looked at. A kernel of
 * tg_ir_kernel looks at as many slots as it was built for; its ring must have them. (On a shorter one it
 * touches nothing outside, and never finds an end.)
 *
 * Errors are 0 or -errno. Thread safe on a program that nobody changes.
 */
#ifndef TIDEGATE_LOWER_H
#define TIDEGATE_LOWER_H

#include <tidegate/ir.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TG_KERNEL_ABI 1u

/* What a lane runs on; the layout is the same in the emitted text, which asserts it. */
struct tg_kernel_env {
    uint32_t size;                       /* sizeof(struct tg_kernel_env) */
    uint32_t lane, lanes, group, groups; /* as tg_ir_place; lanes and groups are not 0 */
    uint32_t count[TG_IR_MAX_BUFFERS];   /* words of each shared buffer */
    uint32_t *words[TG_IR_MAX_BUFFERS];  /* 4-byte aligned; tg_kernel_lane makes OBSERVABLE of CONTROL */
    uint32_t *private_words;             /* the text sets it itself, for its functions */
    void (*pause)(void *context);        /* called at a tg_ir_pause; NULL: the lane spins on */
    void *context;
};

enum tg_ir_language { TG_IR_C11, TG_IR_CUDA_C };

struct tg_ir_lower_options {
    uint32_t language;      /* enum tg_ir_language */
    uint32_t flags;         /* 0 or TG_IR_UNRESTRICTED, for tg_ir_validate */
    uint32_t plain;         /* bit i: nobody else touches buffer i while the lane runs: no atomics */
    struct tg_ir_node item; /* the program of tg_kernel_item; {0}: none */
};

/* Validates root (and item) and writes them out. *ret_text, which the caller frees, ends with a 0 that
 * *ret_bytes does not count. options NULL: C11. error may be NULL.
 * The errors of tg_ir_validate; -EINVAL also for a language that is none, or an item beside a root in CUDA C
 * -EFBIG   the text would be larger than 64 MB
 * -ENOMEM */
int tg_ir_lower(const struct tg_ir *ir, struct tg_ir_node root, const struct tg_ir_lower_options *options,
                char **ret_text, size_t *ret_bytes, struct tg_ir_error *error);

#ifdef __cplusplus
}
#endif

#endif
