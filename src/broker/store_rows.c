/* SPDX-License-Identifier: Apache-2.0
 * See store_rows.h. What comes out of a row is input and is checked against the column's bounds. */
#include "broker/store_rows.h"

#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/fields.h"

enum column_kind {
    NUMBER,  /* bool, enum, 32 or 64 bits, by size */
    TEXT,    /* char *, owned by the ticket */
    BOOT_ID, /* char array of fixed length */
};

struct column {
    const char *name;
    enum column_kind kind;
    bool changes; /* written by an update too */
    size_t offset;
    size_t size;      /* of the field */
    int64_t min, max; /* of a number */
    size_t text_max;  /* of a text, bytes */
};

#define FIELD(f) offsetof(struct tg_ticket, f), sizeof(((struct tg_ticket *)0)->f)
#define FIXED(name, f, min, max)                                                                             \
    {                                                                                                        \
        name, NUMBER, false, FIELD(f), min, max, 0                                                           \
    }
#define CHANGES(name, f, min, max)                                                                           \
    {                                                                                                        \
        name, NUMBER, true, FIELD(f), min, max, 0                                                            \
    }
#define A_TEXT(name, f, max)                                                                                 \
    {                                                                                                        \
        name, TEXT, false, FIELD(f), 0, 0, max                                                               \
    }

static const struct column columns[] = {
    FIXED("id", id, 1, TG_STORE_ID_MAX),
    CHANGES("pid", owner.pid, 2, INT_MAX),
    CHANGES("start_ticks", owner.start_ticks, 0, INT64_MAX),
    {"boot_id", BOOT_ID, false, FIELD(owner.boot_id), 0, 0, TG_BOOT_ID_BYTES - 1},
    FIXED("step", step, 0, INT64_MAX),
    FIXED("uid", uid, 0, UINT32_MAX),
    FIXED("kind", kind, TG_KIND_RUN, TG_KIND_WAIT_ADMIT),
    CHANGES("state", state, TG_WAIT, TG_HOLD),
    CHANGES("prio", prio, INT64_MIN, INT64_MAX),
    CHANGES("est_mb", est_mb, 0, (int64_t)TG_EST_MAX_MB),
    CHANGES("est_source", est_source, TG_SOURCE_NONE, TG_SOURCE_DEFAULT),
    CHANGES("time_ms", time_ms, 0, (int64_t)TG_TIME_MAX_MS),
    CHANGES("time_source", time_source, TG_SOURCE_NONE, TG_SOURCE_DEFAULT),
    CHANGES("strict", strict, 0, 1),
    CHANGES("slots", slots, 0, TG_SLOTS_MAX),
    CHANGES("max_conc", max_conc, 1, UINT32_MAX),
    CHANGES("overtaken", overtaken, 0, UINT32_MAX),
    CHANGES("verdict", verdict, TG_QUEUE, TG_GRANT_BACKFILL),
    CHANGES("acked", acked, 0, 1),
    CHANGES("cancelled", cancelled, 0, 1),
    CHANGES("on_hold", on_hold, 0, 1),
    FIXED("detached", detached, 0, 1),
    CHANGES("session", session, 0, INT_MAX),
    CHANGES("reaper", reaper, 0, INT_MAX),
    CHANGES("main_ended", main_ended, 0, 1),
    CHANGES("main_status", main_status, -1, INT_MAX),
    CHANGES("peak_mb", peak_mb, 0, (int64_t)TG_EST_MAX_MB),
    A_TEXT("tenant", tenant, TG_TENANT_BYTES),
    A_TEXT("cmd", cmd, TG_CMD_BYTES),
    A_TEXT("cwd", cwd, TG_CWD_BYTES),
    A_TEXT("job_key", key, TG_KEY_BYTES),
    FIXED("asked_boot_ms", asked_boot_ms, 0, INT64_MAX),
    FIXED("asked_wall_ms", asked_wall_ms, 0, INT64_MAX),
    CHANGES("held_boot_ms", held_boot_ms, 0, INT64_MAX),
    CHANGES("held_wall_ms", held_wall_ms, 0, INT64_MAX),
};

enum { COLUMNS = sizeof(columns) / sizeof(columns[0]) };

/* Text that grows in a buffer of fixed size. */
struct sql {
    char *at;
    size_t left;
};

static void put(struct sql *s, const char *text)
{
    size_t n = strlen(text);
    if (n >= s->left)
        n = s->left - 1;
    memcpy(s->at, text, n);
    s->at += n;
    s->left -= n;
    *s->at = '\0';
}

static void put_names(struct sql *s)
{
    for (int i = 0; i < COLUMNS; i++) {
        put(s, i ? "," : "");
        put(s, columns[i].name);
    }
}

void tg_rows_create_sql(char *ret, size_t size)
{
    struct sql s = {ret, size};
    put(&s, "CREATE TABLE ticket(");
    for (int i = 0; i < COLUMNS; i++) {
        put(&s, i ? "," : "");
        put(&s, columns[i].name);
        /* No AUTOINCREMENT, which would write a page more at each insert: store_number.c. */
        put(&s, i == 0                      ? " INTEGER PRIMARY KEY"
                : columns[i].kind == NUMBER ? " INTEGER NOT NULL"
                                            : " TEXT NOT NULL");
    }
    put(&s, ");");
}

void tg_rows_insert_sql(char *ret, size_t size)
{
    struct sql s = {ret, size};
    put(&s, "INSERT INTO ticket(");
    put_names(&s);
    put(&s, ") VALUES(");
    for (int i = 0; i < COLUMNS; i++)
        put(&s, i ? ",?" : "?");
    put(&s, ")");
}

void tg_rows_update_sql(char *ret, size_t size)
{
    struct sql s = {ret, size};
    const char *lead = "UPDATE ticket SET ";
    for (int i = 0; i < COLUMNS; i++) {
        if (!columns[i].changes)
            continue;
        put(&s, lead);
        put(&s, columns[i].name);
        put(&s, "=?");
        lead = ",";
    }
    put(&s, " WHERE id=?");
}

void tg_rows_load_sql(char *ret, size_t size)
{
    struct sql s = {ret, size};
    put(&s, "SELECT ");
    put_names(&s);
    put(&s, " FROM ticket ORDER BY id");
}

static int64_t number_in(const struct tg_ticket *t, const struct column *c)
{
    const char *at = (const char *)t + c->offset;
    int64_t wide;
    uint32_t word;
    switch (c->size) {
    case 1:
        return *(const bool *)at;
    case 4:
        memcpy(&word, at, 4);
        /* Of the 32-bit fields main_status alone can be negative. */
        return c->min < 0 ? (int64_t)(int32_t)word : (int64_t)word;
    default:
        memcpy(&wide, at, 8);
        return wide;
    }
}

static void set_number(struct tg_ticket *t, const struct column *c, int64_t v)
{
    char *at = (char *)t + c->offset;
    uint32_t word = (uint32_t)v;
    switch (c->size) {
    case 1:
        *(bool *)at = v != 0;
        break;
    case 4:
        memcpy(at, &word, 4);
        break;
    default:
        memcpy(at, &v, 8);
    }
}

static const char *text_in(const struct tg_ticket *t, const struct column *c)
{
    const char *at = (const char *)t + c->offset;
    if (c->kind == BOOT_ID)
        return at;
    char *text;
    memcpy(&text, at, sizeof(text));
    return text ? text : "";
}

static void bind(sqlite3_stmt *st, int at, const struct tg_ticket *t, const struct column *c)
{
    if (c->kind == NUMBER)
        sqlite3_bind_int64(st, at, number_in(t, c));
    else
        sqlite3_bind_text(st, at, text_in(t, c), -1, SQLITE_STATIC);
}

void tg_rows_bind_insert(sqlite3_stmt *st, const struct tg_ticket *t)
{
    for (int i = 0; i < COLUMNS; i++)
        bind(st, 1 + i, t, &columns[i]);
}

void tg_rows_bind_update(sqlite3_stmt *st, const struct tg_ticket *t)
{
    int at = 1;
    for (int i = 0; i < COLUMNS; i++) {
        if (columns[i].changes)
            bind(st, at++, t, &columns[i]);
    }
    bind(st, at, t, &columns[0]);
}

/* Takes one column over; false when it breaks its bound. */
static bool take(sqlite3_stmt *st, int at, const struct column *c, struct tg_ticket *t)
{
    if (c->kind == NUMBER) {
        int64_t v = sqlite3_column_int64(st, at);
        if (sqlite3_column_type(st, at) != SQLITE_INTEGER || v < c->min || v > c->max)
            return false;
        set_number(t, c, v);
        return true;
    }
    const char *text = (const char *)sqlite3_column_text(st, at);
    if (!text)
        return false;
    if (c->kind == BOOT_ID) {
        snprintf((char *)t + c->offset, c->size, "%s", text);
        return strlen(text) == c->text_max;
    }
    /* For showing: made harmless whatever the row says. */
    char *shown = tg_display_text(text, c->text_max);
    memcpy((char *)t + c->offset, &shown, sizeof(shown));
    return shown != NULL;
}

struct tg_ticket *tg_rows_ticket(sqlite3_stmt *st)
{
    struct tg_ticket *t = calloc(1, sizeof(*t));
    bool good = t != NULL;
    for (int i = 0; i < COLUMNS && good; i++)
        good = take(st, i, &columns[i], t);
    if (!good) {
        tg_ticket_free(t);
        return NULL;
    }
    t->saved = true;
    return t;
}
