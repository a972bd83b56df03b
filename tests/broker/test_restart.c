/* SPDX-License-Identifier: Apache-2.0
 * The broker is killed and the next one goes on: holders adopted, waiters in their old place, the dead of
 * other boots dropped, order from the store's numbers and never from a clock (A1, A8; rows S10, L5, L7, L11,
 * U13, U14 of the cases). */
#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "proto/words.h"

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

struct job {
    struct client c;
    pid_t pid;
    uint64_t ticket;
};

static const char *ask(struct job *j, const struct place *p, const char *kind, int64_t prio)
{
    client_open(&j->c, p);
    if (j->pid == 0)
        j->pid = owner_make();
    return admit(&j->c, kind, j->pid, prio, 10, &j->ticket);
}

/* Ends its process and its connection. */
static void end(struct job *j)
{
    owner_kill(j->pid);
    client_close(&j->c);
}

static void next_broker(struct place *p)
{
    place_stop(p, SIGKILL);
    CHECK_TEXT(place_start(p), "ready");
}

/* Slots and settings are kept, the holder keeps its slot, waiters that come back keep their place, whatever
 * order they come in, and nobody new goes first. */
static void a8_a_killed_broker_is_followed_by_one_that_knows(void)
{
    struct place p;
    struct job h = {0}, w[3] = {0}, late = {0};
    static const int back[] = {2, 0, 1};
    place_make(&p);
    p.adopt = "60000"; /* it ends with the last that comes back */
    place_ready(&p, 1);
    CHECK_TEXT(ask(&h, &p, "run", 0), "HOLD");
    for (int i = 0; i < 3; i++)
        CHECK_TEXT(ask(&w[i], &p, i == 1 ? "wait-admit" : "run", 0), "WAIT");
    uint64_t ticket[3] = {w[0].ticket, w[1].ticket, w[2].ticket};
    next_broker(&p);
    CHECK_EQ(holders_of(&p), 1);
    CHECK_TEXT(ask(&late, &p, "run", 0), "WAIT");
    json_t *s = status_of(&p);
    CHECK_TEXT(text_at(s, "waiters.0.why"), "restart");
    json_decref(s);
    owner_kill(h.pid); /* a slot is free, but those who waited have not come back yet */
    EVENTUALLY(holders_of(&p) == 0);
    CHECK(client_quiet(&late.c, 50));
    for (int i = 0; i < 3; i++) {
        client_close(&w[back[i]].c);
        CHECK_TEXT(ask(&w[back[i]], &p, "run", 0), "WAIT");
        CHECK_EQ(w[back[i]].ticket, ticket[back[i]]);
    }
    for (int i = 0; i < 3; i++) {
        CHECK_TEXT(next_state(&w[i].c), "HOLD");
        end(&w[i]);
    }
    CHECK_TEXT(next_state(&late.c), "HOLD");
    end(&late);
    client_close(&h.c);
    place_stop(&p, SIGTERM);
}

/* The tickets of waiters that are parked, or not. */
static size_t parked_in(const json_t *status)
{
    size_t n = 0, i;
    const json_t *w;
    json_array_foreach(at(status, "waiters"), i, w)
    {
        n += strcmp(text_at(w, "state"), "PARKED") == 0;
    }
    return n;
}

/* A1: a broker that stands still cannot hear who comes back, so that time does not count. True when the
 * machine left us the time to show it. */
static bool try_stopped(void)
{
    struct place p;
    struct job h = {0}, w = {0};
    struct client c;
    place_make(&p);
    place_ready(&p, 1);
    CHECK_TEXT(ask(&h, &p, "run", 0), "HOLD");
    CHECK_TEXT(ask(&w, &p, "run", 0), "WAIT");
    place_stop(&p, SIGKILL);
    uint64_t begin = now_ms();
    CHECK_TEXT(place_start(&p), "ready");
    CHECK(kill(p.broker, SIGSTOP) == 0);
    bool in_time = now_ms() - begin < 300;
    client_open(&c, &p);
    client_send(&c, json_pack("{s:s}", "op", "status"));
    pause_ms(1000);
    CHECK(kill(p.broker, SIGCONT) == 0);
    json_t *s = client_recv(&c);
    if (in_time)
        CHECK_EQ(parked_in(s), 0);
    json_decref(s);
    client_close(&c);
    end(&h);
    end(&w);
    place_stop(&p, SIGTERM);
    return in_time;
}

static void a1_a_broker_that_stood_still_still_waits_for_them(void)
{
    for (int i = 0; i < 20; i++) {
        if (try_stopped())
            return;
    }
    not_shown("this machine never starts a broker in 300 ms");
}

/* A1: as long as they keep coming back, nobody new goes first. False when the machine stood still for too
 * long. */
static bool try_coming_back(void)
{
    uint64_t last = 0, gap = 0;
    struct place p;
    struct job h = {0}, w[4] = {0}, late = {0};
    place_make(&p);
    p.adopt = "3000";
    place_ready(&p, 1);
    CHECK_TEXT(ask(&h, &p, "run", 0), "HOLD");
    for (int i = 0; i < 4; i++)
        CHECK_TEXT(ask(&w[i], &p, "run", 0), "WAIT");
    last = now_ms();
    next_broker(&p);
    CHECK_TEXT(ask(&late, &p, "run", 0), "WAIT");
    end(&h);
    for (int i = 3; i >= 0 && gap < 3000; i--) { /* the first comes last, beyond the limit from the start */
        pause_ms(i > 0 ? 1100 : 0);
        json_t *s = status_of(&p);
        size_t parked = parked_in(s);
        json_decref(s);
        client_close(&w[i].c);
        const char *state = ask(&w[i], &p, "run", 0);
        uint64_t now = now_ms();
        gap = now - last > gap ? now - last : gap;
        last = now;
        CHECK(gap >= 3000 || (parked == 0 && strcmp(state, "WAIT") == 0));
    }
    for (int i = 0; i < 4; i++) {
        if (gap < 3000)
            CHECK_TEXT(next_state(&w[i].c), "HOLD");
        end(&w[i]);
    }
    if (gap < 3000)
        CHECK_TEXT(next_state(&late.c), "HOLD");
    end(&late);
    place_stop(&p, SIGTERM);
    return gap < 3000;
}

static void a1_the_limit_counts_from_the_last_that_came_back(void)
{
    for (int i = 0; i < 10; i++) {
        if (try_coming_back())
            return;
    }
    not_shown("this machine stands still for seconds");
}

/* Who does not come back in half a second is parked, blocks nobody, and still has its place. */
static void who_does_not_come_back_is_parked(void)
{
    struct place p;
    struct job h = {0}, gone = {0}, next = {0};
    place_make(&p);
    place_ready(&p, 1);
    CHECK_TEXT(ask(&h, &p, "run", 0), "HOLD");
    CHECK_TEXT(ask(&gone, &p, "wait-admit", 5), "WAIT");
    uint64_t ticket = gone.ticket;
    next_broker(&p);
    CHECK_TEXT(ask(&next, &p, "run", 0), "WAIT");
    end(&h);
    uint64_t begin = now_ms();
    CHECK_TEXT(next_state(&next.c), "HOLD");
    CHECK(now_ms() - begin < SOON_MS);
    json_t *s = status_of(&p);
    CHECK_TEXT(text_at(s, "waiters.0.state"), "PARKED");
    json_decref(s);
    client_close(&gone.c);
    CHECK_TEXT(ask(&gone, &p, "wait-admit", 5), "WAIT");
    CHECK_EQ(gone.ticket, ticket);
    end(&next);
    CHECK_TEXT(next_state(&gone.c), "HOLD");
    end(&gone);
    place_stop(&p, SIGTERM);
}

/* As metrics has it: a short answer. */
static bool are_parked(const struct place *p, int n)
{
    struct client c;
    char line[40];
    snprintf(line, sizeof(line), "\ntidegate_parked %d\n", n);
    client_open(&c, p);
    json_t *m = client_ask(&c, json_pack("{s:s}", "op", "metrics"));
    bool found = strstr(text_at(m, "text"), line) != NULL;
    json_decref(m);
    client_close(&c);
    return found;
}

/* Bytes that a process has written; -1 where the kernel does not tell. */
static int64_t written_by(pid_t pid)
{
    char path[40];
    char line[80];
    int64_t n = -1;
    snprintf(path, sizeof(path), "/proc/%d/io", (int)pid);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof(line), f))
        (void)sscanf(line, "wchar: %" SCNd64, &n);
    if (f)
        fclose(f);
    return n;
}

/* Of a thousand nobody comes back: they are parked in one transaction, not in one each, which would be as
 * many pages of the store and more. */
static void many_who_do_not_come_back_are_one_transaction(void)
{
    enum { MANY = 1000 };
    struct place p;
    struct job h = {0};
    struct client c[MANY / 100];
    place_make(&p);
    p.adopt = "100";
    place_ready(&p, 1);
    CHECK_TEXT(ask(&h, &p, "run", 0), "HOLD");
    pid_t waits = owner_make();
    for (int i = 0; i < MANY / 100; i++) {
        client_open(&c[i], &p);
        for (int k = 0; k < 100; k++) {
            json_t *m = admit_message("wait-admit", waits, 0, 10, -1);
            json_object_set_new(m, "step", json_integer(1 + i * 100 + k));
            client_send(&c[i], m);
        }
        for (int k = 0; k < 100; k++)
            CHECK_TEXT(next_state(&c[i]), "WAIT");
    }
    next_broker(&p);
    EVENTUALLY(are_parked(&p, MANY));
    int64_t bytes = written_by(p.broker);
    fprintf(stderr, "  %" PRId64 " bytes\n", bytes);
    CHECK(bytes < MANY * INT64_C(4096)); /* the answers to the test are among them */
    for (int i = 0; i < MANY / 100; i++)
        client_close(&c[i]);
    owner_kill(waits);
    EVENTUALLY(waiters_of(&p) == 0);
    end(&h);
    place_stop(&p, SIGTERM);
}

/* A grant that was committed but not acknowledged when the broker died: asked for again it stands, else it is
 * parked. */
static void a_grant_on_its_way_is_not_lost_and_not_doubled(void)
{
    struct place p;
    struct job a = {0}, b = {0};
    place_make(&p);
    p.adopt = "60000"; /* it ends with the last that comes back */
    place_ready(&p, 1);
    CHECK_TEXT(ask(&a, &p, "wait-admit", 0), "HOLD");
    CHECK_TEXT(ask(&b, &p, "wait-admit", 0), "WAIT");
    next_broker(&p);
    CHECK_EQ(holders_of(&p), 1);
    client_close(&a.c);
    CHECK_TEXT(ask(&a, &p, "wait-admit", 0), "HOLD");
    client_close(&b.c);
    CHECK_TEXT(ask(&b, &p, "wait-admit", 0), "WAIT");
    CHECK_EQ(holders_of(&p), 1);
    p.adopt = "1000";
    next_broker(&p); /* this time a does not come back */
    client_close(&b.c);
    if (strcmp(ask(&b, &p, "wait-admit", 0), "WAIT") == 0)
        CHECK_TEXT(next_state(&b.c), "HOLD");
    CHECK_EQ(holders_of(&p), 1);
    end(&a);
    end(&b);
    place_stop(&p, SIGTERM);
}

/* L5, L7, L11: tickets of another boot, of a reused pid and of the dead are dropped; nobody is signalled. */
static void l5_l7_l11_the_dead_are_not_adopted(void)
{
    struct place p;
    struct job j[4] = {0};
    char text[300];
    place_make(&p);
    place_ready(&p, 4);
    for (int i = 0; i < 4; i++)
        CHECK_TEXT(ask(&j[i], &p, "run", 0), "HOLD");
    place_stop(&p, SIGKILL);
    end(&j[0]);
    snprintf(text, sizeof(text),
             "UPDATE ticket SET boot_id='00000000-0000-0000-0000-000000000000' WHERE id=%llu;"
             "UPDATE ticket SET start_ticks=start_ticks+1, cancelled=1 WHERE id=%llu",
             (unsigned long long)j[1].ticket, (unsigned long long)j[2].ticket);
    sql(&p, text);
    CHECK_TEXT(place_start(&p), "ready");
    json_t *s = status_of(&p);
    CHECK_EQ(json_array_size(at(s, "holders")), 1);
    CHECK_EQ(number_at(s, "holders.0.pid"), j[3].pid);
    json_decref(s);
    CHECK(kill(j[1].pid, 0) == 0 && kill(j[2].pid, 0) == 0);
    pause_ms(20);
    CHECK_EQ(waitpid(j[2].pid, NULL, WNOHANG), 0); /* the record was cancelled; this process is another */
    for (int i = 1; i < 4; i++)
        end(&j[i]);
    EVENTUALLY(holders_of(&p) == 0);
    place_stop(&p, SIGTERM);
}

/* A8: the word on how a command ended is input, too. One with a peak that no ticket can have is none: its row
 * would break a rule, and nobody would read it again. */
static void a8_a_word_beyond_all_bounds_costs_no_ticket(void)
{
    struct place p;
    struct client c;
    struct tg_word w = {.status = 0, .peak_mb = INT64_MAX, .ended_boot_ms = 1, .ended_wall_ms = 1};
    place_make(&p);
    place_ready(&p, 1);
    client_open(&c, &p);
    pid_t pid = owner_make();
    json_t *m = client_ask(&c, admit_message("run", pid, 0, 10, -1));
    int64_t ticket = number_at(m, "ticket");
    CHECK_TEXT(text_at(m, "state"), "HOLD");
    place_stop(&p, SIGKILL);
    owner_kill(pid);
    client_close(&c);
    CHECK_EQ(tg_words_append(p.state, text_at(m, "env"), &w), 0);
    json_decref(m);
    CHECK_TEXT(place_start(&p), "ready");
    client_open(&c, &p);
    m = client_ask(&c, json_pack("{s:s}", "op", "history"));
    CHECK_EQ(json_array_size(at(m, "rows")), 1);
    CHECK_EQ(number_at(m, "rows.0.ticket"), ticket);
    json_decref(m);
    client_close(&c);
    place_stop(&p, SIGTERM);
}

/* L11: a holder that was adopted is released and cancelled like any other. */
static void l11_an_adopted_holder_can_be_released_and_cancelled(void)
{
    struct place p;
    struct job shell = {0}, run = {0};
    place_make(&p);
    place_ready(&p, 2);
    CHECK_TEXT(ask(&shell, &p, "wait-admit", 0), "HOLD");
    client_send(&shell.c, json_pack("{s:s,s:I}", "op", "ack", "ticket", (json_int_t)shell.ticket));
    CHECK_TEXT(ask(&run, &p, "run", 0), "HOLD");
    next_broker(&p);
    CHECK_EQ(holders_of(&p), 2);
    tell(&p, json_pack("{s:s,s:i}", "op", "release", "pid", (int)shell.pid));
    CHECK_EQ(holders_of(&p), 1);
    tell(&p, json_pack("{s:s,s:I}", "op", "cancel", "ticket", (json_int_t)run.ticket));
    int status;
    CHECK_EQ(waitpid(run.pid, &status, 0), run.pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    EVENTUALLY(holders_of(&p) == 0);
    end(&shell);
    client_close(&run.c);
    place_stop(&p, SIGTERM);
}

static bool is_cancelled(const struct place *p)
{
    json_t *s = status_of(p);
    bool yes = json_is_true(at(s, "holders.0.cancelled"));
    json_decref(s);
    return yes;
}

/* A cancelled command that ignores TERM is killed after the grace, also by the next broker. */
static void a_cancellation_outlives_its_broker(void)
{
    struct place p;
    struct client c;
    uint64_t ticket;
    int fds[2];
    char byte;
    place_make(&p);
    place_ready(&p, 1);
    CHECK(pipe(fds) == 0);
    pid_t test = getpid(), deaf = fork();
    CHECK(deaf >= 0);
    if (deaf == 0) {
        end_with_parent(test);
        signal(SIGTERM, SIG_IGN);
        CHECK(write(fds[1], "x", 1) == 1);
        close(fds[0]);
        close(fds[1]);
        for (;;)
            pause();
    }
    CHECK(read(fds[0], &byte, 1) == 1);
    client_open(&c, &p);
    CHECK_TEXT(admit(&c, "run", deaf, 0, 1, &ticket), "HOLD");
    client_send(&c, json_pack("{s:s,s:I}", "op", "cancel", "ticket", (json_int_t)ticket));
    EVENTUALLY(is_cancelled(&p));
    next_broker(&p);
    uint64_t begin = now_ms();
    int status;
    CHECK_EQ(waitpid(deaf, &status, 0), deaf);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    CHECK(now_ms() - begin < 5000 + SOON_MS);
    client_close(&c);
    place_stop(&p, SIGTERM);
}

/* S10, U13, U14: the recorded clocks say nonsense, the order stays; limits are not touched either. */
static void s10_u13_u14_order_comes_from_numbers_not_from_clocks(void)
{
    struct place p;
    struct job h = {0}, w[3] = {0};
    place_make(&p);
    place_ready(&p, 1);
    CHECK_TEXT(ask(&h, &p, "run", 0), "HOLD");
    for (int i = 0; i < 3; i++)
        CHECK_TEXT(ask(&w[i], &p, "run", 0), "WAIT");
    place_stop(&p, SIGKILL);
    sql(&p,
        "UPDATE ticket SET asked_boot_ms=9000000000000-id*3600000, asked_wall_ms=4000000000000-id*3600000,"
        "held_boot_ms=held_boot_ms*9, held_wall_ms=1");
    CHECK_TEXT(place_start(&p), "ready");
    for (int i = 2; i >= 0; i--) {
        client_close(&w[i].c);
        CHECK_TEXT(ask(&w[i], &p, "run", 0), "WAIT");
    }
    json_t *s = status_of(&p);
    for (int i = 0; i < 3; i++) {
        char path[32];
        snprintf(path, sizeof(path), "waiters.%d.ticket", i);
        CHECK_EQ(number_at(s, path), w[i].ticket);
        snprintf(path, sizeof(path), "waiters.%d.waited_ms", i);
        CHECK_EQ(number_at(s, path), 0); /* a clock that is ahead shows 0, not 2^64 */
    }
    json_decref(s);
    end(&h);
    for (int i = 0; i < 3; i++) {
        CHECK_TEXT(next_state(&w[i].c), "HOLD");
        end(&w[i]);
    }
    place_stop(&p, SIGTERM);
}

/* U7: a corrupt store is moved aside, said, and the queue starts. */
static void u7_a_corrupt_store_starts_an_empty_queue(void)
{
    struct place p;
    place_make(&p);
    place_ready(&p, 1);
    json_t *s = status_of(&p);
    char uuid[64];
    snprintf(uuid, sizeof(uuid), "%s", text_at(s, "store.uuid"));
    json_decref(s);
    place_stop(&p, SIGTERM);
    FILE *f = fopen(p.store, "r+");
    CHECK(f && fputs("this is no database, and has not been one for a while", f) >= 0 && fclose(f) == 0);
    CHECK_TEXT(place_start(&p), "ready");
    s = status_of(&p);
    CHECK(strstr(text_at(s, "store.quarantined"), "store.db.corrupt-1"));
    CHECK(strcmp(text_at(s, "store.uuid"), uuid) != 0);
    json_decref(s);
    place_stop(&p, SIGTERM);
    CHECK_TEXT(place_start(&p), "ready");
    s = status_of(&p);
    CHECK(json_is_null(at(s, "store.quarantined")));
    json_decref(s);
    place_stop(&p, SIGTERM);
    /* U10: a newer program's store is refused with words, and kept. */
    sql(&p, "PRAGMA user_version=7");
    CHECK(strstr(place_start(&p), "error ") == p.word && strstr(p.word, "version 7"));
    CHECK_EQ(waitpid(p.broker, NULL, 0), p.broker);
}

static json_t *named(json_t *m, const char *store)
{
    json_object_set_new(m, "store", json_string(store));
    return m;
}

/* A request names the store it expects (R2): whatever it asks, nothing is done to another one. */
static void r2_another_store_is_refused(void)
{
    struct place p;
    struct client c;
    char link[200], path[500];
    place_make(&p);
    place_ready(&p, 1);
    client_open(&c, &p);
    pid_t pid = owner_make();
    static const char *const wrong[] = {"/somewhere/else/store.db", "store.db", "", "/"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        json_t *asks[] = {
            admit_message("run", pid, 0, 1, -1),
            json_pack("{s:s}", "op", "status"),
            json_pack("{s:s,s:b}", "op", "stop", "force", 1),
            json_pack("{s:s,s:s,s:s}", "op", "config", "key", "slots", "value", "7"),
            json_pack("{s:s,s:i}", "op", "cancel", "ticket", 1),
            json_pack("{s:s,s:i,s:i}", "op", "prio", "ticket", 1, "prio", 3),
            json_pack("{s:s,s:i}", "op", "release", "pid", (int)pid),
            json_pack("{s:s,s:i,s:i}", "op", "done", "ticket", 1, "status", 0),
            json_pack("{s:s,s:b}", "op", "wait", "all", 1),
            json_pack("{s:s}", "op", "history"),
            json_pack("{s:s,s:i}", "op", "why", "ticket", 1),
        };
        for (size_t k = 0; k < sizeof(asks) / sizeof(asks[0]); k++) {
            json_t *m = client_ask(&c, named(asks[k], wrong[i]));
            CHECK_TEXT(text_at(m, "error.code"), "other-store");
            json_decref(m);
        }
    }
    client_send(&c, named(json_pack("{s:s,s:i}", "op", "ack", "ticket", 1), wrong[0])); /* never answered */
    json_t *m = client_ask(&c, named(json_pack("{s:s}", "op", "status"), p.store));
    CHECK_EQ(number_at(m, "gates.slots.limit"), 1);
    json_decref(m);
    /* The same directory by other names. */
    snprintf(link, sizeof(link), "%s/link", p.dir);
    CHECK(symlink(p.dir, link) == 0);
    static const char *const right[] = {"/state/store.db", "//state/store.db", "/./state//store.db",
                                        "/link/state/store.db"};
    for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
        snprintf(path, sizeof(path), "%s%s", p.dir, right[i]);
        m = client_ask(&c, named(json_pack("{s:s}", "op", "status"), path));
        CHECK(json_is_true(at(m, "ok")));
        json_decref(m);
    }
    snprintf(path, sizeof(path), "%s/state/other.db", p.dir);
    m = client_ask(&c, named(json_pack("{s:s}", "op", "status"), path));
    CHECK_TEXT(text_at(m, "error.code"), "other-store");
    json_decref(m);
    m = client_ask(&c, named(admit_message("run", pid, 0, 1, -1), p.store));
    CHECK_TEXT(text_at(m, "state"), "HOLD");
    json_decref(m);
    owner_kill(pid);
    client_close(&c);
    place_stop(&p, SIGTERM);
}

int main(void)
{
    RUN(a8_a_killed_broker_is_followed_by_one_that_knows);
    RUN(a1_a_broker_that_stood_still_still_waits_for_them);
    RUN(a1_the_limit_counts_from_the_last_that_came_back);
    RUN(who_does_not_come_back_is_parked);
    RUN(many_who_do_not_come_back_are_one_transaction);
    RUN(a_grant_on_its_way_is_not_lost_and_not_doubled);
    RUN(l5_l7_l11_the_dead_are_not_adopted);
    RUN(a8_a_word_beyond_all_bounds_costs_no_ticket);
    RUN(l11_an_adopted_holder_can_be_released_and_cancelled);
    RUN(a_cancellation_outlives_its_broker);
    RUN(s10_u13_u14_order_comes_from_numbers_not_from_clocks);
    RUN(u7_a_corrupt_store_starts_an_empty_queue);
    RUN(r2_another_store_is_refused);
    return shown_all();
}
