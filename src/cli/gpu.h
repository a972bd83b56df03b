/* SPDX-License-Identifier: Apache-2.0
 *
 * The command is linked statically where that can be done, because it is started for every job. A static
 * program can load neither the driver of a GPU nor code compiled at run time. So what does is run by the same
 * command linked dynamically, tidegate-gpu, which lies where the broker lies; the command becomes it.
 */
#ifndef TG_CLI_GPU_H
#define TG_CLI_GPU_H

#include <stdbool.h>

/* Set by main: the words it was called with, and whether it is the static one. */
extern char **tg_command_line;
extern bool tg_static_command;

/* Is there a device file of a GPU that the driver of NVIDIA made? */
bool tg_gpu_seems_here(void);

/* Returns at once in a command that can load a driver. The static one becomes the other and does not return;
 * or, when that one is not there or cannot be executed, -errno (-ENOENT: it is not there). Nothing has
 * been printed yet and no thread started when this is called. */
int tg_gpu_become(void);

#endif
