/* SPDX-License-Identifier: Apache-2.0
 * See store_learn.h. Rows are input: what is out of bounds teaches nothing. */
#include "broker/store_learn.h"

#include <string.h>

void tg_learn_run(struct tg_learned *l, const struct tg_learn_run *run)
{
    if (run->peak_mb > 0 && run->peak_mb <= TG_EST_MAX_MB && l->n_peaks < TG_LEARN_PEAKS) {
        l->n_peaks++;
        if (run->peak_mb > l->peak_mb)
            l->peak_mb = run->peak_mb;
    }
    /* Of those that came to their own end: exited, not by a signal. */
    bool through = run->outcome == TG_OUTCOME_RELEASED ||
                   (run->outcome == TG_OUTCOME_DONE && run->status >= 0 && (run->status & 0x7f) == 0);
    if (through && run->ran_ms < INT64_MAX / 4 && l->n_times < TG_LEARN_TIMES) {
        l->n_times++;
        l->sum_ms += run->ran_ms;
    }
}

void tg_learn_row(sqlite3_stmt *st, struct tg_learned *l)
{
    struct tg_learn_run run = {.outcome = TG_OUTCOME_LOST, .status = -1, .ran_ms = UINT64_MAX};
    const char *outcome = (const char *)sqlite3_column_text(st, 3);
    int64_t peak = sqlite3_column_int64(st, 1);
    int64_t ran = sqlite3_column_int64(st, 2);
    if (peak > 0)
        run.peak_mb = (uint64_t)peak;
    if (sqlite3_column_type(st, 2) == SQLITE_INTEGER && ran >= 0)
        run.ran_ms = (uint64_t)ran;
    if (sqlite3_column_type(st, 4) == SQLITE_INTEGER)
        run.status = sqlite3_column_int64(st, 4);
    for (int i = TG_OUTCOME_DONE; outcome && i < TG_OUTCOMES; i++) {
        if (strcmp(outcome, tg_outcome_name((enum tg_outcome)i)) == 0)
            run.outcome = (enum tg_outcome)i;
    }
    tg_learn_run(l, &run);
}
