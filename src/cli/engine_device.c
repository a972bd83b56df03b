/* SPDX-License-Identifier: Apache-2.0
 *
 * tidegate engine device: the process that owns a GPU for a program whose engine has options.device_process =
 * "tidegate". The library does the work; the static command becomes the one that can load a driver first. */
#include <errno.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/engine.h"
#include "cli/gpu.h"

int tg_verb_engine_device(int argc, char **argv)
{
    char name[] = "tidegate", verb[] = "engine", word[] = "device", *words[] = {name, verb, word, NULL};
    if (argc > 1)
        return tg_usage_error("engine device", "it takes no arguments, and %s is one", tg_shown(argv[1]));
    int r = tg_gpu_become();
    if (r && r != -ENOENT) {
        tg_complain("engine device", "cannot become tidegate-gpu: %s", strerror(-r));
        return TG_EXIT_FAILED;
    }
    return tg_engine_device_main(3, words); /* without its twin it says to the parent what it lacks */
}
