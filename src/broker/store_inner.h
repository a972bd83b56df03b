/* SPDX-License-Identifier: Apache-2.0
 *
 * The store as its own files see it (store*.c): the connection, the prepared statements, the last error. For
 * nobody else.
 */
#ifndef TG_BROKER_STORE_INNER_H
#define TG_BROKER_STORE_INNER_H

#include <sqlite3.h>

#include "broker/store.h"

enum statement {
    BEGIN,
    COMMIT,
    ROLLBACK,
    INSERT,
    UPDATE,
    OVERTAKEN,
    DELETE,
    ARCHIVE,
    PRUNE,
    FILL,
    USED,
    SAME,
    CONFIG_SET,
    CONFIG_ALL,
    LOAD,
    HISTORY_PAGE,
    HISTORY_ONE,
    N_STATEMENTS,
};

struct tg_store {
    sqlite3 *db;
    sqlite3_stmt *stmt[N_STATEMENTS];
    uint64_t next_id; /* above every number that a row has or had */
    uint64_t kept_id; /* what the file says of it */
    uint64_t history_rows;
    int log_pages;
    char uuid[TG_STORE_UUID_BYTES];
    char path[4096];
    char why[4096 + 512]; /* names the path */
};

/* Keeps the error of the connection as text; 0 for the codes that are none, else -errno. */
int tg_store_fail(struct tg_store *s, int rc);

/* Runs a statement that returns no rows and readies it for the next time. */
int tg_store_step(struct tg_store *s, enum statement which);
int tg_store_begin(struct tg_store *s);
/* Commits when all went well, else takes everything back; returns the first error. */
int tg_store_finish(struct tg_store *s, int err);
void tg_store_bind_int(sqlite3_stmt *st, int at, uint64_t v);
/* The text must stay until the statement has run. */
void tg_store_bind_text(sqlite3_stmt *st, int at, const char *text);

/* Of store_number.c: brings a file of schema 1 up to date, in one transaction; and the numbers below next_id
 * are noted as given, if that is not known from the file already. 0 or -errno, and the file is as before. */
int tg_store_step_1(struct tg_store *s);
int tg_store_keep_numbers(struct tg_store *s);

/* Of store.c: who has a smaller number and neither lives nor is in a full history has ended and was pruned. 0
 * or -errno. */
int tg_store_pruned(struct tg_store *s, uint64_t *ret);

/* Of store_history.c. */
extern const char TG_STORE_HISTORY_PAGE_SQL[];
extern const char TG_STORE_HISTORY_ONE_SQL[];

#endif
