/* SPDX-License-Identifier: Apache-2.0
 * See store.h. Keeps A1 (numbers of arrival), A8 (one transaction a transition), U7, U8, U10. */
#include "broker/store_inner.h"

#include "broker/store_file.h"
#include "broker/store_learn.h"
#include "broker/store_rows.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "proto/fields.h"

static const char SCHEMA[] =
    "CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE config(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;"
    /* seq is the order of the ends: what is shown and pruned goes by it, never by a clock. */
    "CREATE TABLE history(seq INTEGER PRIMARY KEY, id INTEGER NOT NULL UNIQUE, pid INTEGER NOT NULL, uid "
    "INTEGER NOT NULL, kind INTEGER"
    " NOT NULL, prio INTEGER NOT NULL, est_mb INTEGER NOT NULL, slots INTEGER NOT NULL, verdict INTEGER NOT"
    " NULL, tenant TEXT NOT NULL, cmd TEXT NOT NULL, cwd TEXT NOT NULL, asked_wall_ms INTEGER NOT NULL,"
    " held_wall_ms INTEGER NOT NULL, ended_wall_ms INTEGER NOT NULL, waited_ms INTEGER, ran_ms INTEGER,"
    " outcome TEXT NOT NULL, status INTEGER, job_key TEXT NOT NULL, est_source INTEGER NOT NULL, time_ms "
    "INTEGER"
    " NOT NULL, peak_mb INTEGER NOT NULL, detached INTEGER NOT NULL);"
    /* Estimates are learned from the last runs of the same thing. */
    "CREATE INDEX history_same ON history(cmd, cwd, job_key, id);";

/* Those of the ticket's row are made by store_rows.c. */
static const char *const SQL[N_STATEMENTS] = {
    [BEGIN] = "BEGIN IMMEDIATE",
    [COMMIT] = "COMMIT",
    [ROLLBACK] = "ROLLBACK",
    [OVERTAKEN] = "UPDATE ticket SET overtaken=?2 WHERE id=?1",
    [DELETE] = "DELETE FROM ticket WHERE id=?1",
    [ARCHIVE] = "INSERT OR REPLACE INTO history(id,pid,uid,kind,prio,est_mb,slots,verdict,tenant,cmd,cwd,"
                "asked_wall_ms,held_wall_ms,ended_wall_ms,waited_ms,ran_ms,outcome,status,job_key,est_source,"
                "time_ms,peak_mb,detached)"
                " VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,?19,?20,?21,?22,?23)",
    /* Two for one: a history that is too long shrinks, in steps nobody notices (P8). */
    [PRUNE] = "DELETE FROM history WHERE seq IN (SELECT seq FROM history ORDER BY seq LIMIT 2)",
    [FILL] = "UPDATE history SET status=?2,outcome=CASE outcome WHEN 'cancelled' THEN outcome ELSE ?4 END,"
             "peak_mb=max(peak_mb,?3) WHERE id=?1 AND status IS NULL AND outcome IN ('owner "
             "died','lost','cancelled')",
    [USED] = "SELECT est_mb,peak_mb,uid FROM history WHERE id=?1",
    [SAME] = "SELECT uid,peak_mb,ran_ms,outcome,status FROM history WHERE cmd=?1 AND cwd=?2 AND job_key=?3"
             " ORDER BY id DESC LIMIT ?4",
    [CONFIG_SET] = "INSERT OR REPLACE INTO config(key,value) VALUES(?1,?2)",
    [CONFIG_ALL] = "SELECT key,value FROM config ORDER BY key",
};

const char *tg_store_uuid(const struct tg_store *s)
{
    return s->uuid;
}

const char *tg_store_path(const struct tg_store *s)
{
    return s->path;
}

const char *tg_store_why(const struct tg_store *s)
{
    return s->why;
}

uint64_t tg_store_next_id(const struct tg_store *s)
{
    return s->next_id;
}

static int errno_of(int rc)
{
    switch (rc & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE:
        return 0;
    case SQLITE_FULL:
        return -ENOSPC;
    case SQLITE_READONLY:
        return -EROFS;
    case SQLITE_NOMEM:
        return -ENOMEM;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return -EBUSY;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return -EBADMSG;
    case SQLITE_CANTOPEN:
        return -EACCES;
    default:
        return -EIO;
    }
}

int tg_store_fail(struct tg_store *s, int rc)
{
    int err = errno_of(rc);
    if (err)
        snprintf(s->why, sizeof(s->why), "%s: %s", s->path, s->db ? sqlite3_errmsg(s->db) : strerror(-err));
    return err;
}

int tg_store_step(struct tg_store *s, enum statement which)
{
    int rc = sqlite3_step(s->stmt[which]);
    int err = tg_store_fail(s, rc);
    sqlite3_reset(s->stmt[which]);
    return err;
}

int tg_store_begin(struct tg_store *s)
{
    return tg_store_step(s, BEGIN);
}

int tg_store_finish(struct tg_store *s, int err)
{
    tg_fault_point("commit.before");
    if (!err)
        err = tg_store_step(s, COMMIT);
    tg_fault_point("commit.after");
    if (err && !sqlite3_get_autocommit(s->db)) {
        char why[sizeof(s->why)];
        memcpy(why, s->why, sizeof(why));
        tg_store_step(s, ROLLBACK);
        memcpy(s->why, why, sizeof(why));
    }
    return err;
}

void tg_store_bind_int(sqlite3_stmt *st, int at, uint64_t v)
{
    sqlite3_bind_int64(st, at, (sqlite3_int64)v);
}

void tg_store_bind_text(sqlite3_stmt *st, int at, const char *text)
{
    sqlite3_bind_text(st, at, text, -1, SQLITE_STATIC);
}

static int put_insert(struct tg_store *s, const struct tg_ticket *t)
{
    tg_rows_bind_insert(s->stmt[INSERT], t);
    int err = tg_store_step(s, INSERT);
    if (!err && t->id >= s->next_id)
        s->next_id = t->id + 1;
    return err;
}

static int put_update(struct tg_store *s, const struct tg_ticket *t)
{
    tg_rows_bind_update(s->stmt[UPDATE], t);
    return tg_store_step(s, UPDATE);
}

int tg_store_insert(struct tg_store *s, const struct tg_ticket *t)
{
    return put_insert(s, t);
}

int tg_store_update(struct tg_store *s, const struct tg_ticket *t)
{
    return put_update(s, t);
}

int tg_store_update_all(struct tg_store *s, struct tg_ticket *const *t, size_t n)
{
    int err = tg_store_begin(s);
    if (err)
        return err;
    for (size_t i = 0; i < n && !err; i++)
        err = put_update(s, t[i]);
    return tg_store_finish(s, err);
}

int tg_store_grant(struct tg_store *s, const struct tg_ticket *t, bool insert, const struct tg_ticket *front)
{
    int err = tg_store_begin(s);
    if (err)
        return err;
    err = insert ? put_insert(s, t) : put_update(s, t);
    if (!err && front) {
        tg_store_bind_int(s->stmt[OVERTAKEN], 1, front->id);
        tg_store_bind_int(s->stmt[OVERTAKEN], 2, front->overtaken);
        err = tg_store_step(s, OVERTAKEN);
    }
    return tg_store_finish(s, err);
}

static const char *text_of(sqlite3_stmt *st, int column)
{
    const unsigned char *text = sqlite3_column_text(st, column);
    return text ? (const char *)text : "";
}

int tg_store_learn(struct tg_store *s, uid_t uid, const char *cmd, const char *cwd, const char *key,
                   struct tg_learned *io)
{
    sqlite3_stmt *st = s->stmt[SAME];
    struct tg_learned l = *io;
    int rc;
    tg_store_bind_text(st, 1, cmd);
    tg_store_bind_text(st, 2, cwd);
    tg_store_bind_text(st, 3, key);
    tg_store_bind_int(st, 4, TG_LEARN_ROWS);
    while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
        if (sqlite3_column_int64(st, 0) == (sqlite3_int64)uid)
            tg_learn_row(st, &l);
    }
    int err = tg_store_fail(s, rc);
    sqlite3_reset(st);
    if (!err)
        *io = l;
    return err;
}

int tg_store_config_set(struct tg_store *s, const char *key, const char *value)
{
    tg_store_bind_text(s->stmt[CONFIG_SET], 1, key);
    tg_store_bind_text(s->stmt[CONFIG_SET], 2, value);
    return tg_store_step(s, CONFIG_SET);
}

int tg_store_config_load(struct tg_store *s, void (*take)(void *ctx, const char *key, const char *value),
                         void *ctx)
{
    sqlite3_stmt *st = s->stmt[CONFIG_ALL];
    int rc;
    while ((rc = sqlite3_step(st)) == SQLITE_ROW)
        take(ctx, text_of(st, 0), text_of(st, 1));
    int err = tg_store_fail(s, rc);
    sqlite3_reset(st);
    return err;
}

static int drop_rows(struct tg_store *s, const int64_t *ids, size_t n)
{
    int err = n > 0 ? tg_store_keep_numbers(s) : 0; /* a number that only they have was given too */
    for (size_t i = 0; i < n && !err; i++) {
        sqlite3_bind_int64(s->stmt[DELETE], 1, ids[i]);
        err = tg_store_step(s, DELETE);
    }
    return err;
}

int tg_store_load(struct tg_store *s, struct tg_store_report *report,
                  void (*take)(void *ctx, struct tg_ticket *t), void *ctx)
{
    sqlite3_stmt *st = s->stmt[LOAD];
    int64_t bad_ids[256]; /* more than these are dropped at the next start */
    size_t n_bad = 0;
    int rc;
    while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
        struct tg_ticket *t = tg_rows_ticket(st);
        if (t) {
            take(ctx, t);
            continue;
        }
        report->dropped_rows++;
        if (n_bad < sizeof(bad_ids) / sizeof(bad_ids[0]))
            bad_ids[n_bad++] = sqlite3_column_int64(st, 0);
    }
    int err = tg_store_fail(s, rc);
    sqlite3_reset(st);
    return err ? err : drop_rows(s, bad_ids, n_bad);
}

int tg_store_log_pages(const struct tg_store *s)
{
    return s->log_pages;
}

void tg_store_checkpoint(struct tg_store *s)
{
    (void)tg_store_keep_numbers(s);
    /* A failure leaves the log as it was: nothing is lost, and the next call tries again. */
    sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    s->log_pages = 0;
}

static int on_log(void *ctx, sqlite3 *db, const char *name, int pages)
{
    (void)db;
    (void)name;
    ((struct tg_store *)ctx)->log_pages = pages;
    return SQLITE_OK;
}

static int exec(struct tg_store *s, const char *sql)
{
    return tg_store_fail(s, sqlite3_exec(s->db, sql, NULL, NULL, NULL));
}

/* The first column of the first row, as a number. -ENODATA when there is no row or it is NULL. */
static int ask_number(struct tg_store *s, const char *sql, int64_t *ret)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(s->db, sql, -1, &st, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(st);
    int err = rc == SQLITE_DONE ? -ENODATA : tg_store_fail(s, rc);
    if (!err && sqlite3_column_type(st, 0) != SQLITE_INTEGER)
        err = -ENODATA;
    if (!err)
        *ret = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    return err;
}

static int ask_text(struct tg_store *s, const char *sql, char *ret, size_t size)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(s->db, sql, -1, &st, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(st);
    int err = rc == SQLITE_DONE ? -ENODATA : tg_store_fail(s, rc);
    if (!err)
        snprintf(ret, size, "%s", text_of(st, 0));
    sqlite3_finalize(st);
    return err;
}

int tg_store_oldest(struct tg_store *s, uint64_t *ret)
{
    int64_t id = 0;
    int err = ask_number(s, "SELECT coalesce((SELECT min(id) FROM history),9223372036854775807)", &id);
    if (!err)
        *ret = (uint64_t)id;
    return err;
}

/* Rows go in the order of the ends. Who is older than one of those that go next, and is not there, has gone
 * before. One row alone does not tell: what ran for long has a small number. */
int tg_store_pruned(struct tg_store *s, uint64_t *ret)
{
    int64_t id = 0;
    int err =
        ask_number(s, "SELECT coalesce(max(id),0) FROM (SELECT id FROM history ORDER BY seq LIMIT 100)", &id);
    if (!err)
        *ret = (uint64_t)id;
    return err;
}

/* Tables and the store's name, in one transaction: a store exists whole or not at all. */
static int create_schema(struct tg_store *s)
{
    char uuid[TG_STORE_UUID_BYTES];
    char sql[TG_STORE_SQL_BYTES];
    int err = tg_store_new_uuid(uuid);
    if (!err)
        err = exec(s, "BEGIN IMMEDIATE");
    if (err)
        return err;
    err = exec(s, SCHEMA);
    tg_rows_create_sql(sql, sizeof(sql));
    if (!err)
        err = exec(s, sql);
    snprintf(sql, sizeof(sql), "INSERT INTO meta VALUES('uuid','%s'); PRAGMA user_version=%d", uuid,
             TG_STORE_SCHEMA);
    if (!err)
        err = exec(s, sql);
    if (!err)
        err = exec(s, "COMMIT");
    if (err && !sqlite3_get_autocommit(s->db))
        sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    return err;
}

/* -EBADMSG when the pages do not hang together. */
static int check_pages(struct tg_store *s)
{
    char verdict[256] = "";
    int err = ask_text(s, "PRAGMA quick_check(1)", verdict, sizeof(verdict));
    if (err == -ENODATA || (!err && strcmp(verdict, "ok") != 0)) {
        snprintf(s->why, sizeof(s->why), "%s: %.200s", s->path, verdict);
        return -EBADMSG;
    }
    return err;
}

/* Statements, the name and the counters of a store whose schema is ours. A table or column that is missing is
 * corruption too: nobody but this program writes the file. */
static int prepare(struct tg_store *s)
{
    char row_sql[3][TG_STORE_SQL_BYTES];
    tg_rows_insert_sql(row_sql[0], sizeof(row_sql[0]));
    tg_rows_update_sql(row_sql[1], sizeof(row_sql[1]));
    tg_rows_load_sql(row_sql[2], sizeof(row_sql[2]));
    for (int i = 0; i < N_STATEMENTS; i++) {
        const char *sql = i == INSERT         ? row_sql[0]
                          : i == UPDATE       ? row_sql[1]
                          : i == LOAD         ? row_sql[2]
                          : i == HISTORY_PAGE ? TG_STORE_HISTORY_PAGE_SQL
                          : i == HISTORY_ONE  ? TG_STORE_HISTORY_ONE_SQL
                                              : SQL[i];
        int rc = sqlite3_prepare_v3(s->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &s->stmt[i], NULL);
        if (rc != SQLITE_OK)
            return (rc & 0xff) == SQLITE_ERROR ? (tg_store_fail(s, rc), -EBADMSG) : tg_store_fail(s, rc);
    }
    int err = ask_text(s, "SELECT value FROM meta WHERE key='uuid'", s->uuid, sizeof(s->uuid));
    if (!err && strlen(s->uuid) != TG_STORE_UUID_BYTES - 1)
        err = -EBADMSG;
    int64_t kept = 0;
    int64_t last = 0;
    int64_t rows = 0;
    if (!err)
        err = ask_number(s, "SELECT coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE key='given'),0)",
                         &kept);
    if (!err)
        err = ask_number(s,
                         "SELECT max(coalesce((SELECT max(id) FROM ticket),0),"
                         "coalesce((SELECT max(id) FROM history),0))",
                         &last);
    last = kept > last ? kept : last;
    if (!err)
        err = ask_number(s, "SELECT count(*) FROM history", &rows);
    if (err == -ENODATA || (!err && (last < 0 || last >= TG_STORE_ID_MAX)))
        err = -EBADMSG;
    if (err)
        return err;
    s->next_id = (uint64_t)last + 1;
    s->kept_id = kept > 0 ? (uint64_t)kept + 1 : 1;
    s->history_rows = (uint64_t)rows;
    return 0;
}

static int set_up(struct tg_store *s)
{
    int64_t version = 0;
    sqlite3_busy_timeout(s->db, 0);
    /* EXCLUSIVE before the first read: no shared-memory file, no lock calls per transaction. */
    int err = exec(s, "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
                      "PRAGMA wal_autocheckpoint=0; PRAGMA journal_size_limit=8388608; PRAGMA "
                      "temp_store=MEMORY; PRAGMA trusted_schema=OFF;"
                      "PRAGMA cell_size_check=ON");
    if (!err)
        err = check_pages(s);
    if (!err)
        err = ask_number(s, "PRAGMA user_version", &version);
    if (err)
        return err;
    if (version > TG_STORE_SCHEMA) {
        snprintf(s->why, sizeof(s->why),
                 "%s: the store has schema version %lld, this broker (" TG_VERSION
                 ") knows versions up to %d: "
                 "use the newer program",
                 s->path, (long long)version, TG_STORE_SCHEMA);
        return -EPROTONOSUPPORT;
    }
    sqlite3_wal_hook(s->db, on_log, s);
    if (version == 0) {
        int64_t tables = 0;
        err = ask_number(s, "SELECT count(*) FROM sqlite_master", &tables);
        if (!err)
            err = tables == 0 ? create_schema(s) : -EBADMSG;
        if (err)
            return err;
    }
    if (version == 1)
        err = tg_store_step_1(s);
    return err ? err : prepare(s);
}

void tg_store_close(struct tg_store *s)
{
    if (!s)
        return;
    if (s->next_id > 0)
        (void)tg_store_keep_numbers(s);
    for (int i = 0; i < N_STATEMENTS; i++)
        sqlite3_finalize(s->stmt[i]);
    sqlite3_close(s->db);
    free(s);
}

static int open_once(const char *path, struct tg_store **ret, char *why, size_t size)
{
    struct tg_store *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    snprintf(s->path, sizeof(s->path), "%s", path);
    if (tg_store_is_link(path)) {
        snprintf(why, size, "%s is a symbolic link: refused", path);
        tg_store_close(s);
        return -ELOOP;
    }
    int rc =
        sqlite3_open_v2(path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
    int err = rc == SQLITE_OK ? set_up(s) : tg_store_fail(s, rc);
    if (err) {
        snprintf(why, size, "%s", s->why[0] ? s->why : strerror(-err));
        tg_store_close(s);
        return err;
    }
    *ret = s;
    return 0;
}

int tg_store_open(const char *path, struct tg_store **ret, struct tg_store_report *report, char *why,
                  size_t size)
{
    *report = (struct tg_store_report){.unclean = tg_store_has_log(path)};
    int err = open_once(path, ret, why, size);
    if (err != -EBADMSG)
        return err;
    err = tg_store_quarantine(path, report->quarantined, sizeof(report->quarantined));
    if (err) {
        snprintf(why, size, "%s is corrupt and cannot be moved aside: %s", path, strerror(-err));
        return err;
    }
    return open_once(path, ret, why, size);
}
