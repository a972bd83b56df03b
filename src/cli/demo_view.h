/* SPDX-License-Identifier: Apache-2.0
 * What the demo shows: a live board on a terminal, plain lines when piped, and the timeline afterwards. */
#ifndef TG_CLI_DEMO_VIEW_H
#define TG_CLI_DEMO_VIEW_H

#include "cli/demo_jobs.h"

/* Shows the board as it is now: redraws on a terminal, prints what changed otherwise. */
void tg_demo_view_progress(const struct tg_demo *demo, const struct tg_demo_board *board, uint64_t since_ns);
/* Ends the live board (the cursor stands below it). */
void tg_demo_view_end(const struct tg_demo *demo, const struct tg_demo_board *board);
/* Who waited, ran and passed whom, from the records. */
void tg_demo_view_timeline(const struct tg_demo_board *board, uint64_t since_ns);

#endif
