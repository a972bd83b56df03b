/* SPDX-License-Identifier: Apache-2.0
 *
 * The line of /proc/PID/stat, for this folder only. It is input: a line that is not of its form is refused.
 */
#ifndef TG_MACHINE_STAT_H
#define TG_MACHINE_STAT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct tg_stat_line {
    char state;
    pid_t parent;
    pid_t group;
    pid_t session;
    uint64_t threads;
    uint64_t start_ticks;
};

/* The line of process pid. 0; -EBADMSG: not one. */
int tg_stat_parse(const char *text, pid_t pid, struct tg_stat_line *ret);

/* It has ended, though it may wait to be reaped. A process whose first thread has ended while others run on
 * shows Z too, and lives: its pidfd is not readable before the last thread has gone. */
bool tg_stat_has_ended(const struct tg_stat_line *line);

/* A directory name below /proc that is a pid, or 0. */
pid_t tg_stat_pid(const char *name);

#endif
