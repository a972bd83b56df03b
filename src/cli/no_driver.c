/* SPDX-License-Identifier: Apache-2.0
 *
 * In the static command alone, in place of the engine's way to a driver: a static program cannot load one,
 * and must not carry what tries to. It becomes tidegate-gpu before it would ask (gpu.h), so nobody comes here
 * but a command whose twin is not there.
 */
#include <errno.h>

#include "engine/device_host.h"

static int no_open(const struct tg_engine_options *o, void **ret_state, const char **ret_why)
{
    (void)o;
    (void)ret_state;
    *ret_why = "the static command cannot load a driver, and tidegate-gpu is not beside it";
    return -ENOTSUP;
}

const struct tg_link tg_link_cuda = {.open = no_open};
