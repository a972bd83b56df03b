/* SPDX-License-Identifier: Apache-2.0
 * The rows of tidegate history, and writing them as a workload trace. */
#ifndef TG_CLI_HISTORY_H
#define TG_CLI_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>

/* What a trace needs of a row; -1: not known. */
struct tg_trace_row {
    uint64_t ticket;
    int64_t asked_ms; /* wall clock */
    int64_t waited_ms;
    int64_t ran_ms;
    int64_t slots;
    int64_t peak_mb;
    int64_t est_mb;
    int64_t time_ms; /* how long it was to run */
    int64_t prio;
    int status; /* as the format has it: 1 completed, 0 failed, 5 cancelled, -1 */
    char *tenant;
    char *cmd;
};

struct tg_trace {
    struct tg_trace_row *rows;
    size_t n;
    size_t room;
};

/* Takes a row of the broker's answer over. 0 or -ENOMEM. */
int tg_trace_add(struct tg_trace *t, const json_t *row);
/* Writes it to standard output in the Standard Workload Format, in the order of the submissions. 0 or
 * -ENOMEM. */
int tg_trace_print(struct tg_trace *t);
void tg_trace_done(struct tg_trace *t);

#endif
