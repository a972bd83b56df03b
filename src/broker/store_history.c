/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading the history, a page at a time: what a request may ask for is bounded, so nobody's history, however
 * long, keeps a grant waiting (P5). A row is input: what breaks a rule is left out.
 */
#include "broker/store_inner.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "proto/fields.h"

#define COLUMNS                                                                                              \
    "seq,id,pid,uid,kind,prio,est_mb,est_source,slots,verdict,time_ms,peak_mb,asked_wall_ms,held_wall_ms,"   \
    "ended_wall_ms,waited_ms,ran_ms,status,detached,outcome,tenant,cmd,cwd,job_key"

const char TG_STORE_HISTORY_PAGE_SQL[] =
    "SELECT " COLUMNS " FROM history WHERE seq<?1 ORDER BY seq DESC LIMIT ?2";
const char TG_STORE_HISTORY_ONE_SQL[] = "SELECT " COLUMNS " FROM history WHERE id=?1";

/* A number within its bounds; NULL is allowed where nothing else is known. */
static bool number(sqlite3_stmt *st, int at, uint64_t max, uint64_t *ret)
{
    int64_t v = sqlite3_column_int64(st, at);
    *ret = (uint64_t)v;
    return sqlite3_column_type(st, at) == SQLITE_INTEGER && v >= 0 && (uint64_t)v <= max;
}

static bool number_or_null(sqlite3_stmt *st, int at, uint64_t *ret)
{
    if (sqlite3_column_type(st, at) != SQLITE_NULL)
        return number(st, at, INT64_MAX, ret);
    *ret = UINT64_MAX;
    return true;
}

static char *text(sqlite3_stmt *st, int at, size_t max)
{
    const char *t = (const char *)sqlite3_column_text(st, at);
    return tg_display_text(t ? t : "", max);
}

static bool outcome(sqlite3_stmt *st, int at, enum tg_outcome *ret)
{
    const char *t = (const char *)sqlite3_column_text(st, at);
    for (int i = TG_OUTCOME_DONE; t && i < TG_OUTCOMES; i++) {
        if (strcmp(t, tg_outcome_name((enum tg_outcome)i)) == 0) {
            *ret = (enum tg_outcome)i;
            return true;
        }
    }
    return false;
}

static bool read_numbers(sqlite3_stmt *st, struct tg_history *h)
{
    uint64_t kind, source, verdict, detached, status;
    bool good = number(st, 0, INT64_MAX, &h->seq) && number(st, 1, INT64_MAX, &h->id) &&
                number(st, 2, INT_MAX, &h->pid) && number(st, 3, UINT32_MAX, &h->uid) &&
                number(st, 4, TG_KIND_WAIT_ADMIT, &kind) && kind >= TG_KIND_RUN &&
                sqlite3_column_type(st, 5) == SQLITE_INTEGER && number(st, 6, TG_EST_MAX_MB, &h->est_mb) &&
                number(st, 7, TG_SOURCE_DEFAULT, &source) && number(st, 8, TG_SLOTS_MAX, &h->slots) &&
                number(st, 9, TG_GRANT_BACKFILL, &verdict) && number(st, 10, INT64_MAX, &h->time_ms) &&
                number(st, 11, TG_EST_MAX_MB, &h->peak_mb) && number(st, 12, INT64_MAX, &h->asked_wall_ms) &&
                number(st, 13, INT64_MAX, &h->held_wall_ms) && number(st, 14, INT64_MAX, &h->ended_wall_ms) &&
                number_or_null(st, 15, &h->waited_ms) && number_or_null(st, 16, &h->ran_ms) &&
                number_or_null(st, 17, &status) && number(st, 18, 1, &detached) &&
                outcome(st, 19, &h->outcome);
    if (!good || (status != UINT64_MAX && status > UINT32_MAX))
        return false;
    h->prio = sqlite3_column_int64(st, 5);
    h->kind = (enum tg_ticket_kind)kind;
    h->est_source = (enum tg_source)source;
    h->verdict = (enum tg_verdict_kind)verdict;
    h->status = status == UINT64_MAX ? -1 : (int64_t)status;
    h->detached = detached != 0;
    return true;
}

/* Hands the present row out. False: no more are wanted. */
static bool hand_out(sqlite3_stmt *st, bool (*take)(void *ctx, const struct tg_history *row), void *ctx)
{
    struct tg_history h;
    if (!read_numbers(st, &h))
        return true;
    char *texts[] = {text(st, 20, TG_TENANT_BYTES), text(st, 21, TG_CMD_BYTES), text(st, 22, TG_CWD_BYTES),
                     text(st, 23, TG_KEY_BYTES)};
    bool more = true;
    if (texts[0] && texts[1] && texts[2] && texts[3]) {
        h.tenant = texts[0];
        h.cmd = texts[1];
        h.cwd = texts[2];
        h.key = texts[3];
        more = take(ctx, &h);
    }
    for (int i = 0; i < 4; i++)
        free(texts[i]);
    return more;
}

int tg_store_history_page(struct tg_store *s, uint64_t before_seq, uint32_t limit,
                          bool (*take)(void *ctx, const struct tg_history *row), void *ctx,
                          uint64_t *ret_last)
{
    sqlite3_stmt *st = s->stmt[HISTORY_PAGE];
    uint64_t last = 0;
    uint32_t n = 0;
    bool more = true;
    int rc = SQLITE_DONE;
    sqlite3_bind_int64(st, 1, before_seq > INT64_MAX ? INT64_MAX : (sqlite3_int64)before_seq);
    sqlite3_bind_int64(st, 2, limit);
    while (more && (rc = sqlite3_step(st)) == SQLITE_ROW) {
        last = (uint64_t)sqlite3_column_int64(st, 0);
        n++;
        more = hand_out(st, take, ctx);
    }
    int err = tg_store_fail(s, rc);
    sqlite3_reset(st);
    if (!err)
        *ret_last = more && n == limit ? last : 0;
    return err;
}

int tg_store_history_find(struct tg_store *s, uint64_t id,
                          bool (*take)(void *ctx, const struct tg_history *row), void *ctx)
{
    sqlite3_stmt *st = s->stmt[HISTORY_ONE];
    struct tg_history h;
    sqlite3_bind_int64(st, 1, id > INT64_MAX ? -1 : (sqlite3_int64)id);
    int rc = sqlite3_step(st);
    int err = tg_store_fail(s, rc);
    if (!err && (rc != SQLITE_ROW || !read_numbers(st, &h)))
        err = -ENOENT;
    if (!err)
        hand_out(st, take, ctx);
    sqlite3_reset(st);
    return err;
}
