/* SPDX-License-Identifier: Apache-2.0
 * The verb `replay`, for the table of verbs in main.c. */
#ifndef TG_CLI_REPLAY_H
#define TG_CLI_REPLAY_H

/* tidegate replay TRACE.swf --procs N [--policy fifo|easy|tidegate] [--json]; argv[0] is the verb. Returns
 * the exit code: 0, 2 for a wrong argument, 125 when the trace cannot be read or replayed. */
int tg_cmd_replay(int argc, char **argv);

#endif
