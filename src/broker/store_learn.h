/* SPDX-License-Identifier: Apache-2.0
 *
 * What one row of the history teaches about its command. For store.c alone, which asks for the rows.
 */
#ifndef TG_BROKER_STORE_LEARN_H
#define TG_BROKER_STORE_LEARN_H

#include <sqlite3.h>

#include "broker/store.h"

/* The columns of the row: uid, peak_mb, ran_ms, outcome, status; the newest run comes first. */
void tg_learn_row(sqlite3_stmt *st, struct tg_learned *l);

#endif
