/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels made at run time: a program of ir.h, lowered to C, compiled by the system's compiler, loaded, and
 * run in one of two ways.
 *
 *   1. Within an engine (tg_engine_use_kernel). The engine's workers go on to find, claim, count, wake, fence
 *      and log as they do; what they run for an item is the compiled body. Everything that engine.h promises
 *      holds (E1 to E11), because it is the same engine. This is how to put an opcode into a running one.
 *      A GPU's engine is opened with its bodies (TG_COMPILE_DEVICE).
 *   2. Alone (tg_kernel_lane). The whole persistent loop, with the IR's own scan, over the four buffers of
 * the wire that somebody else publishes into. It keeps E1 to E7 and E9 as ir.h says. What the engine's worker
 *      does and this one does not: an index (here finding work costs what the ring is long: no E11), sleeping
 *      on a futex (no E10 beyond the pause hook), handles, waiters, cancellation, a drain report, latencies
 *      and exact statistics (no E8 beyond finishing what is claimable). LOAD_MISS stays WAIT_IO until the
 *      host moves it.
 *
 * Where there is no compiler the same program is interpreted, many times slower, and the message says so.
 *
 * Errors are 0 or -errno. A kernel may be used by any number of threads; it is opened and closed by one.
 */
#ifndef TIDEGATE_COMPILE_H
#define TIDEGATE_COMPILE_H

#include <stddef.h>
#include <stdint.h>

#include <tidegate/engine.h>
#include <tidegate/ir.h>
#include <tidegate/lower.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tg_kernel;

enum {
    TG_COMPILE_INTERPRET = 1u << 0,   /* look for no compiler */
    TG_COMPILE_NO_FALLBACK = 1u << 1, /* no compiler: -ENOENT in place of the interpreter */
    TG_COMPILE_DEVICE = 1u << 2,      /* for a GPU, see below: for tg_engine_options.kernel alone */
};

struct tg_device_compile_options;

struct tg_compile_options {
    uint32_t size;       /* sizeof(struct tg_compile_options) */
    uint32_t flags;      /* TG_COMPILE_... */
    const char *cc;      /* compiler and first arguments, divided by blanks; NULL: $CC, then cc. No shell */
    uint64_t timeout_ns; /* for the compiler, in whole seconds; 0: 60 s */
    const struct tg_device_compile_options *device; /* with TG_COMPILE_DEVICE; NULL: the defaults */
};

/* A message of this size holds what compilers usually print. */
#define TG_COMPILE_WHY_BYTES 4096u

/* Builds the kernel (tg_ir_kernel) and its opcode bodies in the arena, checks, lowers, compiles and loads
 * them. The arena may go afterwards. options NULL: the defaults. why (may be NULL, then why_bytes is 0) gets
 * a message on an error and when the kernel is interpreted, else "". Files lie in a private folder below
 * TMPDIR (or /tmp) while the compiler runs and are gone when this returns. Takes about half a second. 0
 * *ret_kernel, compiled or (tg_kernel_is_compiled) interpreted -EINVAL      options; also the errors of
 * tg_ir_validate (-ENOSPC: the arena is too small, ...), with the path -EEXIST      the arena has a buffer of
 * the reserved name tg_item: one arena makes one kernel -EBADMSG     the compiler refused the text, or its
 * output cannot be loaded (noexec): the message has it all -ETIMEDOUT   the compiler did not end in time
 * -ENOENT      no compiler, and TG_COMPILE_NO_FALLBACK
 * -ENOTDIR     TMPDIR is no folder, or there is none of that name
 * -ENOMEM, -EIO, and the errors of creating files and processes */
int tg_engine_compile(struct tg_ir *ir, const struct tg_ir_kernel *kernel,
                      const struct tg_compile_options *options, struct tg_kernel **ret_kernel, char *why,
                      size_t why_bytes);

/* 1: machine code; 0: interpreted. */
int tg_kernel_is_compiled(const struct tg_kernel *kernel);

/* Unloads it. NULL is fine. -EBUSY while an engine uses it: close that first. */
int tg_kernel_close(struct tg_kernel *kernel);

/* The engine's workers run the kernel's bodies from now on: its user opcodes, which are registered, and the
 * built-in opcodes 0 to 6, also within packed slots. BATCH_FENCE, PRINTF, LOAD_MISS, SHUTDOWN and handlers
 * that are registered otherwise stay the engine's. memory has the words of the arena's shared buffers by
 * their numbers from TG_IR_FIRST_USER_BUFFER on (the wire's are ignored); NULL: none. The words must stay
 * until the engine is closed.
 *
 * What differs from the engine's own bodies: a fault has its reason and no detail (0; TG_FAULT_HANDLER: what
 * the body returned); a body that returns TG_IR_WAIT_IO waits for resource a0; a client of a served engine
 * gets no result words of a user's opcode. Private buffers are zero at the start of every item (in the loop
 * they live as long as the lane).
 * -EBUSY   the engine has a kernel already
 * -ENOTSUP the engine runs on a GPU, whose kernel never stops: open it with tg_engine_options.kernel
 * -EINVAL  the kernel was compiled for a GPU
 * -EPERM   the kernel is unrestricted and the engine is not (E6)
 * -ENOSPC  the engine's handlers and the kernel's opcodes are more than 256
 * -ENOMEM  when it comes from the registration of an opcode the kernel stays in use, without that one */
int tg_engine_use_kernel(struct tg_engine *engine, struct tg_kernel *kernel,
                         const struct tg_ir_memory *memory);

/* ---- On a GPU ------------------------------------------------------------------------------------------
 *
 * The kernel of a GPU is one program that never ends, so its bodies are chosen before it is opened: they are
 * compiled together with the kernel's own text, which this library carries, by NVRTC (libnvrtc.so, of the
 * CUDA toolkit), which is opened at run time. Neither nvcc nor the headers of this library are needed. It
 * takes some 10 seconds of one core. */

/* Bodies of ir.h: tg_engine_compile with TG_COMPILE_DEVICE compiles the user's opcodes (one lane an item)
 * into the kernel of a GPU, and tg_engine_open takes the result as options.kernel. There is no interpreter,
 * and no compiler but NVRTC is asked; cc and timeout_ns are not looked at. What differs from
 * tg_engine_use_kernel:
 * - the built-in opcodes stay the engine's;
 * - a body that returns TG_IR_WAIT_IO faults (TG_FAULT_HANDLER, detail TG_IR_WAIT_IO);
 * - the places of a lane are those of the grid: lane of 128 in its block, group the worker block;
 * - the kernel is never unrestricted (-ENOTSUP), and tg_kernel_lane refuses it (-EINVAL). */

/* All zero but size: the defaults. */
struct tg_device_compile_options {
    uint32_t size; /* sizeof(struct tg_device_compile_options) */
    uint32_t flag_count;
    const char *const *compiler_flags; /* more flags for NVRTC, as -I/usr/local/cuda/include; at most 64 */
    /* "sm_90": machine code of that processor; "compute_80": PTX, which the driver translates for that or a
     * newer one when it opens the engine (some seconds more, and it must not be older than NVRTC). NULL:
     * machine code for the device of backend; where there is no device, PTX of compute_80. */
    const char *arch;
    const char *backend; /* "cuda" or "cuda:N", for arch NULL; NULL: the first device, if there is one */
    const char *library; /* file of NVRTC; NULL: libnvrtc.so as the loader finds it, then below $CUDA_HOME,
                          * $CUDA_PATH and /usr/local/cuda */
};

/* Compiles CUDA C text into an image for tg_engine_options.device_image. The text includes
 * <tidegate/device.cuh> and defines tg_device_run, as described there; the integers of <stdint.h> are the
 * only other header there is, unless compiler_flags name folders. *ret_image is the caller's, to be freed
 * with free(). why (may be NULL, then why_bytes is 0) gets the compiler's log: on an error its errors, else
 * its warnings, or "". Any thread; one compiles at a time.
 * -EINVAL   options, or an arch that is none
 * -ENOENT   no NVRTC can be opened
 * -ENODEV   backend names a device, and there is no driver or no such device
 * -EBADMSG  NVRTC refuses the text, or does not know the arch: the log says why
 * -ENOMEM */
int tg_device_compile(const char *source, const struct tg_device_compile_options *options, void **ret_image,
                      size_t *ret_image_bytes, char *why, size_t why_bytes);

/* ---- Alone --------------------------------------------------------------------------------------------- */

/* Runs lane env->lane of the whole loop until the program ends it: at once when idle (TG_IR_UNTIL_IDLE),
 * after the kernel's rounds, or when SHUTDOWN is set and nothing is left. env->size, lanes and groups must be
 * set; RING and CONTROL bound, LOG and DFA where they exist. pause NULL: a spin that becomes a yield and then
 * a sleep of up to 100 us. An interpreted kernel runs here too. *ret_value is what the lane returned.
 * -EINVAL  env: lane or lanes, words that are not there or not aligned, a ring of fewer slots than the
 *          kernel's, a control buffer of less than 160 words
 * -ENOMEM */
int tg_kernel_lane(struct tg_kernel *kernel, const struct tg_kernel_env *env, uint32_t *ret_value);

#ifdef __cplusplus
}
#endif

#endif
