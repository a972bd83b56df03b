/* SPDX-License-Identifier: Apache-2.0
 * See store_learn.h. Rows are input: what is out of bounds teaches nothing. */
#include "broker/store_learn.h"

#include <string.h>

/* A run that came to its own end: exited, not by a signal. */
static bool ran_through(sqlite3_stmt *st)
{
    const char *outcome = (const char *)sqlite3_column_text(st, 3);
    if (!outcome)
        return false;
    if (strcmp(outcome, tg_outcome_name(TG_OUTCOME_RELEASED)) == 0)
        return true;
    if (strcmp(outcome, tg_outcome_name(TG_OUTCOME_DONE)) != 0)
        return false;
    return sqlite3_column_type(st, 4) == SQLITE_INTEGER && (sqlite3_column_int64(st, 4) & 0x7f) == 0;
}

void tg_learn_row(sqlite3_stmt *st, struct tg_learned *l)
{
    int64_t peak = sqlite3_column_int64(st, 1);
    if (peak > 0 && peak <= (int64_t)TG_EST_MAX_MB && l->n_peaks < TG_LEARN_PEAKS) {
        l->n_peaks++;
        if ((uint64_t)peak > l->peak_mb)
            l->peak_mb = (uint64_t)peak;
    }
    if (sqlite3_column_type(st, 2) != SQLITE_INTEGER || l->n_times >= TG_LEARN_TIMES || !ran_through(st))
        return;
    int64_t ran = sqlite3_column_int64(st, 2);
    if (ran >= 0 && ran < INT64_MAX / 4) {
        l->n_times++;
        l->sum_ms += (uint64_t)ran;
    }
}
