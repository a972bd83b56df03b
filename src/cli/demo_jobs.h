/* SPDX-License-Identifier: Apache-2.0
 *
 * The demo's jobs: what they are, starting them as `tidegate run`, what the queue says of them while they
 * wait, and what they recorded. No printing here.
 */
#ifndef TG_CLI_DEMO_JOBS_H
#define TG_CLI_DEMO_JOBS_H

#include <jansson.h>

#include "cli/demo_check.h"
#include "cli/demo_launch.h"

#define TG_DEMO_JOBS 16u
#define TG_DEMO_EARLY_JOBS 14u /* these wait together before the first may start; the others come later */
#define TG_DEMO_WHY_BYTES 120u

enum tg_demo_state { TG_DEMO_NEW, TG_DEMO_WAITING, TG_DEMO_RUNNING, TG_DEMO_ENDED };

struct tg_demo_task {
    const char *name;
    const char *level;
    unsigned units; /* tenths of the memory budget */
    enum tg_demo_state state;
    pid_t pid;     /* the `tidegate run` wrapper */
    int exit_code; /* of the wrapper */
    bool recorded;
    int recorded_code;
    char why[TG_DEMO_WHY_BYTES]; /* what the queue last said */
    struct tg_demo_job job;
};

struct tg_demo_board {
    struct tg_demo_task task[TG_DEMO_JOBS];
    uint64_t unit_mb;
    struct tg_demo_limits limits;
    uint64_t arrivals;
    char record_path[160];
};

/* Fills in the table. */
void tg_demo_board_init(struct tg_demo_board *board, const struct tg_demo *demo, uint64_t budget_mb);
/* Starts the wrapper of job i, which queues it. 0 or -errno. */
int tg_demo_start_job(struct tg_demo_board *board, const struct tg_demo *demo, unsigned i);
/* Takes over what `status --json` said; returns the number of waiters among our jobs. */
unsigned tg_demo_take_status(struct tg_demo_board *board, const json_t *status);
/* Collects ended wrappers without blocking; returns how many are still there. */
unsigned tg_demo_reap(struct tg_demo_board *board);
/* Kills what is left, after a failure. */
void tg_demo_kill_all(struct tg_demo_board *board);
/* Reads the records; returns how many jobs have one. */
unsigned tg_demo_read_records(struct tg_demo_board *board);

#endif
