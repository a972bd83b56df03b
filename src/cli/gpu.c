/* SPDX-License-Identifier: Apache-2.0
 * See gpu.h. */
#include "cli/gpu.h"

#include <errno.h>
#include <unistd.h>

#include "client/start.h"

#define PROGRAM "tidegate-gpu"

char **tg_command_line;
bool tg_static_command;

bool tg_gpu_seems_here(void)
{
    return access("/dev/nvidiactl", F_OK) == 0 || access("/dev/dxg", F_OK) == 0;
}

int tg_gpu_become(void)
{
    static char path[TG_PATH_BYTES];
    if (!tg_static_command)
        return 0;
    int err = tg_find_own_program(PROGRAM, path);
    if (err)
        return err;
    execv(path, tg_command_line);
    return -errno;
}
