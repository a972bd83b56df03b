/* SPDX-License-Identifier: Apache-2.0
 * The history through a real broker: order of the ends, pages, a long one costs nobody anything (row P5 of
 * the cases). */
#include <signal.h>
#include <sqlite3.h>
#include <unistd.h>

#include "harness.h"

static void sql(const struct place *p, const char *text)
{
    sqlite3 *db;
    char *err = NULL;
    CHECK(sqlite3_open(p->store, &db) == SQLITE_OK);
    if (sqlite3_exec(db, text, NULL, NULL, &err) != SQLITE_OK) {
        fprintf(stderr, "%s\n", err);
        exit(1);
    }
    sqlite3_close(db);
}

static json_t *page(struct client *c, int64_t before, int64_t limit, int64_t since)
{
    json_t *m = json_pack("{s:s}", "op", "history");
    json_object_set_new(m, "before", before < 0 ? json_null() : json_integer(before));
    json_object_set_new(m, "limit", limit < 0 ? json_null() : json_integer(limit));
    json_object_set_new(m, "since_wall_ms", since < 0 ? json_null() : json_integer(since));
    return client_ask(c, m);
}

/* Three that end in another order than they came in, by exit, signal and cancellation. */
static void the_last_to_end_comes_first(void)
{
    struct place p;
    struct client c[3], asking;
    pid_t pid[3];
    uint64_t ticket[3];
    static const int order[] = {1, 2, 0};
    static const int status[] = {0x0300, 9, 0};
    place_make(&p);
    place_ready(&p, 2);
    for (int i = 0; i < 3; i++) {
        client_open(&c[i], &p);
        pid[i] = owner_make();
        CHECK_TEXT(admit(&c[i], "run", pid[i], i - 1, 10, &ticket[i]), i < 2 ? "HOLD" : "WAIT");
    }
    client_open(&asking, &p);
    json_decref(client_ask(&asking, json_pack("{s:s,s:I}", "op", "cancel", "ticket", (json_int_t)ticket[2])));
    for (int k = 0; k < 3; k++) {
        int i = order[k];
        owner_kill(pid[i]);
        if (i < 2)
            tell(&p, json_pack("{s:s,s:I,s:i}", "op", "done", "ticket", (json_int_t)ticket[i], "status",
                               status[i]));
        client_close(&c[i]);
    }
    EVENTUALLY(holders_of(&p) == 0);
    json_t *r = page(&asking, -1, -1, -1);
    CHECK_EQ(json_array_size(at(r, "rows")), 3);
    CHECK_EQ(number_at(r, "rows.0.ticket"), (int64_t)ticket[0]);
    CHECK_EQ(number_at(r, "rows.1.ticket"), (int64_t)ticket[1]);
    CHECK_EQ(number_at(r, "rows.2.ticket"), (int64_t)ticket[2]);
    CHECK_EQ(number_at(r, "rows.0.exit"), 3);
    CHECK(json_is_null(at(r, "rows.0.signal")));
    CHECK_EQ(number_at(r, "rows.1.signal"), 9);
    CHECK_TEXT(text_at(r, "rows.1.outcome"), "killed");
    CHECK_TEXT(text_at(r, "rows.2.outcome"), "cancelled");
    CHECK(json_is_null(at(r, "rows.2.held_wall_ms")) && json_is_null(at(r, "rows.2.ran_ms")));
    CHECK_EQ(number_at(r, "rows.0.prio"), -1);
    CHECK(json_is_null(at(r, "next")));
    json_decref(r);
    client_close(&asking);
    place_stop(&p, SIGTERM);
}

#define LONG 100000

static void fill(struct place *p)
{
    CHECK_TEXT(place_start(p), "ready");
    place_stop(p, SIGTERM);
    sql(p,
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<100000) INSERT INTO "
        "history(id,pid,uid,kind,prio,est_mb,slots,verdict,tenant,cmd,cwd,asked_wall_ms,held_wall_ms,"
        "ended_wall_ms,waited_ms,ran_ms,outcome,status,job_key,est_source,time_ms,peak_mb,detached) SELECT "
        "i,2,0,1,0,0,1,1,'t','make -j8','/somewhere',i,i,1000*i,5,7,'done',0,'',1,0,0,0 FROM n");
}

/* The quickest of a few: a busy machine makes some of them slow, a slow answer all. */
static uint64_t status_ms(const struct place *p)
{
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 10; i++) {
        uint64_t begin = now_ms();
        json_decref(status_of(p));
        uint64_t took = now_ms() - begin;
        best = took < best ? took : best;
    }
    return best;
}

static void p5_a_long_history_costs_status_nothing_and_comes_in_pages(void)
{
    struct place p;
    struct client c;
    place_make(&p);
    place_ready(&p, 1);
    uint64_t without_ms = status_ms(&p);
    place_stop(&p, SIGTERM);
    fill(&p);
    place_ready(&p, 1);
    CHECK(status_ms(&p) < 100 + 10 * without_ms);
    client_open(&c, &p);
    int64_t before = -1, seen = 0, expect = LONG;
    json_t *r;
    do { /* all of it, each row once */
        r = page(&c, before, 1000000, -1);
        json_t *rows = at(r, "rows"), *row;
        size_t i;
        CHECK(json_array_size(rows) <= 500);
        json_array_foreach(rows, i, row) CHECK_EQ(number_at(row, "ticket"), expect--);
        seen += (int64_t)json_array_size(rows);
        before = json_is_null(at(r, "next")) ? 0 : number_at(r, "next");
        json_decref(r);
    } while (before > 0 && seen <= 5000);
    CHECK(seen > 5000);
    r = page(&c, 3, 10, -1);
    CHECK_EQ(json_array_size(at(r, "rows")), 2);
    CHECK(json_is_null(at(r, "next")));
    json_decref(r);
    r = page(&c, -1, -1, 1000 * (LONG - 9));
    CHECK_EQ(json_array_size(at(r, "rows")), 10);
    CHECK(json_is_null(at(r, "next")));
    json_decref(r);
    client_close(&c);
    place_stop(&p, SIGTERM);
}

/* Rows are input: those that break a rule are left out, and the pages go on behind them. */
static void rows_that_break_a_rule_are_left_out(void)
{
    struct place p;
    struct client c;
    place_make(&p);
    fill(&p);
    sql(&p,
        "UPDATE history SET outcome='invented' WHERE seq=99999; UPDATE history SET pid=-7 WHERE seq=99998;"
        "UPDATE history SET est_mb='much' WHERE seq=99997; UPDATE history SET status=-1 WHERE seq=99996;"
        "UPDATE history SET cmd=x'ff0a1b', tenant='' WHERE seq=99995;"
        "DELETE FROM history WHERE seq<99000");
    CHECK_TEXT(place_start(&p), "ready");
    client_open(&c, &p);
    json_t *r = page(&c, -1, 4, -1);
    CHECK_EQ(json_array_size(at(r, "rows")), 1);
    CHECK_EQ(number_at(r, "next"), 99997);
    json_decref(r);
    r = page(&c, 99997, 2, -1);
    CHECK_EQ(json_array_size(at(r, "rows")), 1);
    CHECK_TEXT(text_at(r, "rows.0.cmd"), "\\xff\\x0a\\x1b");
    json_decref(r);
    client_close(&c);
    place_stop(&p, SIGTERM);
}

static void bad_questions_are_refused(void)
{
    struct place p;
    struct client c;
    static const int64_t bad[][3] = {{0, -1, -1}, {-1, 0, -1}, {-1, INT64_MAX, -1}};
    place_make(&p);
    CHECK_TEXT(place_start(&p), "ready");
    client_open(&c, &p);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        json_t *r = page(&c, bad[i][0], bad[i][1], bad[i][2]);
        CHECK_TEXT(text_at(r, "error.code"), "usage");
        json_decref(r);
    }
    json_t *r = client_ask(&c, json_pack("{s:s,s:s}", "op", "history", "limit", "many"));
    CHECK_TEXT(text_at(r, "error.code"), "usage");
    json_decref(r);
    r = page(&c, -1, -1, -1);
    CHECK_EQ(json_array_size(at(r, "rows")), 0);
    json_decref(r);
    client_close(&c);
    place_stop(&p, SIGTERM);
}

int main(void)
{
    RUN(the_last_to_end_comes_first);
    RUN(p5_a_long_history_costs_status_nothing_and_comes_in_pages);
    RUN(rows_that_break_a_rule_are_left_out);
    RUN(bad_questions_are_refused);
    return 0;
}
