/* SPDX-License-Identifier: Apache-2.0
 *
 * How a ticket lies in a row: one table of columns, from which the statements, the binding and the reading
 * follow. A new field of struct tg_ticket that is kept needs one line in store_rows.c and nothing else. For
 * store.c alone.
 */
#ifndef TG_BROKER_STORE_ROWS_H
#define TG_BROKER_STORE_ROWS_H

#include <sqlite3.h>

#include "broker/ticket.h"

/* Each writes one statement's text; size is large enough when it is TG_STORE_SQL_BYTES. */
#define TG_STORE_SQL_BYTES 4096u
void tg_rows_create_sql(char *ret, size_t size);
void tg_rows_insert_sql(char *ret, size_t size);
void tg_rows_update_sql(char *ret, size_t size);
void tg_rows_load_sql(char *ret, size_t size);

/* Bind a ticket to the statement of that text. Texts are borrowed until the statement is reset. */
void tg_rows_bind_insert(sqlite3_stmt *st, const struct tg_ticket *t);
void tg_rows_bind_update(sqlite3_stmt *st, const struct tg_ticket *t);

/* The ticket of the current row of the load statement; NULL when it breaks a bound of ticket.h, or memory is
 * short. The caller owns it. */
struct tg_ticket *tg_rows_ticket(sqlite3_stmt *st);

#endif
