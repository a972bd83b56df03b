/* SPDX-License-Identifier: Apache-2.0
 *
 * In the static command alone, in place of the engine's way to a driver: a static program cannot load one,
 * and must not carry what tries to. It becomes tidegate-gpu before it would ask (gpu.h), so nobody comes here
 * but a command whose twin is not there.
 */
#include <errno.h>

#include <tidegate/compile.h>

#include "engine/device_host.h"

static int no_open(const struct tg_engine_options *o, void **ret_state, const char **ret_why)
{
    (void)o;
    (void)ret_state;
    *ret_why = "the static command cannot load a driver, and tidegate-gpu is not beside it";
    return -ENOTSUP;
}

const struct tg_link tg_link_cuda = {.open = no_open};

/* Compiled code is loaded too. */
int tg_engine_compile(struct tg_ir *ir, const struct tg_ir_kernel *kernel,
                      const struct tg_compile_options *options, struct tg_kernel **ret_kernel, char *why,
                      size_t why_bytes)
{
    (void)ir;
    (void)kernel;
    (void)options;
    (void)ret_kernel;
    if (why_bytes)
        why[0] = 0;
    return -ENOTSUP;
}

int tg_device_compile(const char *source, const struct tg_device_compile_options *options, void **ret_image,
                      size_t *ret_image_bytes, char *why, size_t why_bytes)
{
    (void)source;
    (void)options;
    (void)ret_image;
    (void)ret_image_bytes;
    if (why_bytes)
        why[0] = 0;
    return -ENOTSUP;
}

int tg_kernel_close(struct tg_kernel *kernel)
{
    (void)kernel;
    return 0;
}
