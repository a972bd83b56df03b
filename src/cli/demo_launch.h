/* SPDX-License-Identifier: Apache-2.0
 *
 * The launch-plane half of the demo: real commands over real files through a real broker of its own.
 */
#ifndef TG_CLI_DEMO_LAUNCH_H
#define TG_CLI_DEMO_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/demo_files.h"

struct tg_demo {
    const char *exe; /* this very command, to run itself */
    char dir[128];   /* private directory; everything below it is removed at the end */
    struct tg_demo_files files;
    bool tty;
    unsigned failed; /* checks that did not hold */
};

/* Prints one check's outcome and counts a failed one. */
void tg_demo_check(struct tg_demo *demo, bool held, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Set by a signal: stop early, clean up, fail. */
bool tg_demo_interrupted(void);

/* Runs the jobs and prints timeline and checks. 0, or -errno when the plane could not be run at all (said on
 * stderr). Checks that fail are counted in demo->failed. */
int tg_demo_launch(struct tg_demo *demo);

/* The work-item half: every block through the resident engine. Likewise. */
int tg_demo_items(struct tg_demo *demo);

/* The work-item half on a GPU, where there is one: likewise; without one nothing is done, and 0. */
int tg_demo_gpu(struct tg_demo *demo);

/* The recorder that each job of the demo runs under: `tidegate demo --record=N FILE CMD...`. Appends its own
 * grant, start and end times and the command's status to FILE; exits as the command did. */
int tg_demo_record(unsigned job, const char *file, char **argv);

#endif
