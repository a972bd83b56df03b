/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of tickets: their rows move to the history, any number of them in one transaction (A8), which
 * shrinks by two for each that comes where it is too long (P8). And the word on one that has ended before.
 */
#include "broker/store_inner.h"

#include <errno.h>

#include "base/clock.h"
#include "base/fault.h"

/* A duration of the boot clock; unknown when the clock is another boot's or the record is nonsense. */
static void bind_span(sqlite3_stmt *st, int at, uint64_t from, uint64_t to, bool known)
{
    if (known && from <= to)
        tg_store_bind_int(st, at, to - from);
    else
        sqlite3_bind_null(st, at);
}

static int put_archive(struct tg_store *s, const struct tg_store_ending *e)
{
    sqlite3_stmt *st = s->stmt[ARCHIVE];
    const struct tg_ticket *t = e->ticket;
    const uint64_t v[] = {
        t->id, (uint64_t)t->owner.pid, t->uid, t->kind, (uint64_t)t->prio, t->est_mb, t->slots, t->verdict};
    for (int i = 0; i < 8; i++)
        tg_store_bind_int(st, 1 + i, v[i]);
    tg_store_bind_text(st, 9, t->tenant);
    tg_store_bind_text(st, 10, t->cmd);
    tg_store_bind_text(st, 11, t->cwd);
    tg_store_bind_int(st, 12, t->asked_wall_ms);
    tg_store_bind_int(st, 13, t->held_wall_ms);
    tg_store_bind_int(st, 14, e->wall_ms);
    bool held = t->held_boot_ms > 0;
    bool known = e->boot_ms > 0;
    bind_span(st, 15, t->asked_boot_ms, held ? t->held_boot_ms : e->boot_ms, known || held);
    bind_span(st, 16, t->held_boot_ms, e->boot_ms, known && held);
    tg_store_bind_text(st, 17, tg_outcome_name(e->outcome));
    if (e->status >= 0)
        sqlite3_bind_int64(st, 18, e->status);
    else
        sqlite3_bind_null(st, 18);
    tg_store_bind_text(st, 19, t->key);
    tg_store_bind_int(st, 20, t->est_source);
    tg_store_bind_int(st, 21, t->time_ms);
    tg_store_bind_int(st, 22, t->peak_mb);
    tg_store_bind_int(st, 23, t->detached);
    return tg_store_step(s, ARCHIVE);
}

static int put_ending(struct tg_store *s, const struct tg_store_ending *e, uint64_t *rows)
{
    tg_store_bind_int(s->stmt[DELETE], 1, e->ticket->id);
    int err = tg_store_step(s, DELETE);
    if (!err)
        err = put_archive(s, e);
    *rows += 1;
    if (!err && *rows > TG_HISTORY_ROWS) {
        err = tg_store_step(s, PRUNE);
        *rows -= *rows > 2 ? 2 : *rows;
    }
    return err;
}

int tg_store_ends(struct tg_store *s, const struct tg_store_ending *endings, size_t n)
{
    uint64_t rows = s->history_rows;
    int err = tg_store_begin(s);
    if (err)
        return err;
    for (size_t i = 0; i < n && !err; i++)
        err = put_ending(s, &endings[i], &rows);
    err = tg_store_finish(s, err);
    if (!err)
        s->history_rows = rows;
    return err;
}

int tg_store_end(struct tg_store *s, const struct tg_ticket *t, enum tg_outcome outcome, int64_t status)
{
    /* The lost ended some time ago, perhaps in another boot. */
    const struct tg_store_ending e = {.ticket = t,
                                      .outcome = outcome,
                                      .status = status,
                                      .boot_ms = outcome == TG_OUTCOME_LOST ? 0 : tg_clock_boot_ms(),
                                      .wall_ms = tg_clock_wall_ms()};
    return tg_store_ends(s, &e, 1);
}

/* Whose row that is, and its numbers. */
static void read_used(struct tg_store *s, uint64_t id, struct tg_filled *ret)
{
    sqlite3_stmt *st = s->stmt[USED];
    tg_store_bind_int(st, 1, id);
    if (sqlite3_step(st) == SQLITE_ROW) {
        ret->found = true;
        ret->est_mb = (uint64_t)sqlite3_column_int64(st, 0);
        ret->peak_mb = (uint64_t)sqlite3_column_int64(st, 1);
        ret->uid = (uid_t)sqlite3_column_int64(st, 2);
    }
    sqlite3_reset(st);
}

int tg_store_fill_status(struct tg_store *s, uint64_t id, uid_t by, int64_t status, enum tg_outcome outcome,
                         uint64_t peak_mb, struct tg_filled *ret)
{
    struct tg_filled filled = {0};
    read_used(s, id, &filled);
    if (filled.found && by != 0 && filled.uid != by) {
        *ret = filled;
        return -EPERM;
    }
    tg_store_bind_int(s->stmt[FILL], 1, id);
    sqlite3_bind_int64(s->stmt[FILL], 2, status);
    tg_store_bind_int(s->stmt[FILL], 3, peak_mb);
    tg_store_bind_text(s->stmt[FILL], 4, tg_outcome_name(outcome));
    int err = filled.found ? tg_store_step(s, FILL) : 0;
    if (err)
        return err;
    if (filled.found && sqlite3_changes(s->db) > 0)
        filled.peak_mb = peak_mb > filled.peak_mb ? peak_mb : filled.peak_mb;
    else
        filled = (struct tg_filled){0};
    *ret = filled;
    return 0;
}
