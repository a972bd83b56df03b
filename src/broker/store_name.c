/* SPDX-License-Identifier: Apache-2.0
 *
 * A store that takes the place of one that was lost, or of which the end was lost: its name, so that the
 * marks of running commands stay good, and numbers that were not given before (S10). marks.c decides when.
 */
#include "broker/store_inner.h"

#include "broker/store_rows.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int tg_store_continue(struct tg_store *s, const char *uuid, uint64_t next_id)
{
    if (strlen(uuid) != TG_STORE_UUID_BYTES - 1 || strspn(uuid, "0123456789abcdef-") != strlen(uuid))
        return -EINVAL;
    if (next_id <= 1 || next_id >= TG_STORE_ID_MAX)
        return -EINVAL;
    char *sql = sqlite3_mprintf("BEGIN IMMEDIATE;"
                                "UPDATE meta SET value='%q' WHERE key='uuid';"
                                "INSERT OR REPLACE INTO meta(key,value) VALUES('given','%lld');"
                                "COMMIT",
                                uuid, (long long)next_id - 1);
    if (!sql)
        return -ENOMEM;
    int err = tg_store_fail(s, sqlite3_exec(s->db, sql, NULL, NULL, NULL));
    sqlite3_free(sql);
    if (err && !sqlite3_get_autocommit(s->db))
        sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    if (err)
        return err;
    memcpy(s->uuid, uuid, TG_STORE_UUID_BYTES);
    s->next_id = s->kept_id = next_id;
    return 0;
}

static bool found(void *ctx, const struct tg_history *row)
{
    (void)row;
    *(bool *)ctx = true;
    return false;
}

bool tg_store_has_ended(struct tg_store *s, uint64_t id)
{
    bool known = false;
    uint64_t pruned;
    tg_store_history_find(s, id, found, &known);
    if (!known && s->history_rows + 2 >= TG_HISTORY_ROWS && tg_store_pruned(s, &pruned) == 0)
        known = id < pruned;
    return known;
}
