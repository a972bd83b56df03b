/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers are never given twice (S10). A living ticket's is in its row, that of one that has ended in the
 * history, which keeps the newest. Only where rows go in another way must the file say up to where numbers
 * were given: when rows that break a rule are dropped, when old rows of the history are pruned (a checkpoint
 * comes long before all of them are), and for whoever empties the history of a closed store. SQLite's
 * AUTOINCREMENT, which schema 1 used, says it at each insert, and so writes a second page for each grant.
 */
#include "broker/store_inner.h"

#include "broker/store_rows.h"

#include <errno.h>
#include <stdio.h>

static int exec(struct tg_store *s, const char *sql)
{
    int rc = sqlite3_exec(s->db, sql, NULL, NULL, NULL);
    int err = tg_store_fail(s, rc);
    /* A table or column that is missing: nobody but this program writes the file. */
    return (rc & 0xff) == SQLITE_ERROR ? -EBADMSG : err;
}

int tg_store_keep_numbers(struct tg_store *s)
{
    char sql[128];
    if (s->next_id <= s->kept_id)
        return 0;
    snprintf(sql, sizeof(sql), "INSERT OR REPLACE INTO meta(key,value) VALUES('given','%llu')",
             (unsigned long long)s->next_id - 1);
    int err = exec(s, sql);
    if (!err)
        s->kept_id = s->next_id;
    return err;
}

/* The columns of both are the same, in the same order. */
int tg_store_step_1(struct tg_store *s)
{
    char sql[TG_STORE_SQL_BYTES];
    int err = exec(s, "BEGIN IMMEDIATE");
    if (err)
        return err;
    err =
        exec(s, "INSERT OR REPLACE INTO meta(key,value) SELECT 'given',CAST(seq AS TEXT) FROM sqlite_sequence"
                " WHERE name='ticket'; ALTER TABLE ticket RENAME TO ticket_1");
    tg_rows_create_sql(sql, sizeof(sql));
    if (!err)
        err = exec(s, sql);
    if (!err)
        err =
            exec(s, "INSERT INTO ticket SELECT * FROM ticket_1; DROP TABLE ticket_1; PRAGMA user_version=2; "
                    "COMMIT");
    if (err && !sqlite3_get_autocommit(s->db))
        sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    return err;
}
