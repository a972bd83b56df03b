/* SPDX-License-Identifier: Apache-2.0
 * Clients that die, lie, flood or are somebody else. Rows L4, L10, L13, U1, U10, U11 of the cases. */
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

#define NOBODY 65534

/* L4: clients that connect, send a part of something and go. */
static void l4_five_hundred_clients_that_die_leave_nothing(void)
{
    struct place p;
    uint64_t seed = 4;
    place_make(&p);
    place_ready(&p, 1);
    pid_t owner = owner_make();
    json_t *m = admit_message("run", owner, 0, 10, -1);
    uint8_t *frame;
    size_t len;
    CHECK_EQ(tg_frame_encode(m, &frame, &len), 0);
    json_decref(m);
    tell(&p, json_pack("{s:s}", "op", "status"));
    size_t before = descriptors_of(p.broker);
    for (int i = 0; i < 500; i++) {
        struct client c;
        client_open(&c, &p);
        client_send_bytes(&c, frame, check_random(&seed) % (len + 1));
        client_close(&c);
    }
    free(frame);
    owner_kill(owner);
    EVENTUALLY(connections_of(&p) == 1);
    EVENTUALLY(descriptors_of(p.broker) <= before);
    EVENTUALLY(holders_of(&p) + waiters_of(&p) == 0); /* that the owner died is news of its own */
    CHECK_EQ(place_stop(&p, SIGTERM), 0);
}

/* L13: numbers that would mean "everybody" or the broker are refused everywhere; N1 on the socket. */
static void l13_numbers_that_are_no_owner_are_refused(void)
{
    static const char *const bad[] = {
        "{\"op\":\"admit\",\"kind\":\"run\",\"pid\":0,\"prio\":0}",
        "{\"op\":\"admit\",\"kind\":\"run\",\"pid\":1,\"prio\":0}",
        "{\"op\":\"admit\",\"kind\":\"run\",\"pid\":-1,\"prio\":0}",
        "{\"op\":\"admit\",\"kind\":\"run\",\"pid\":4294967297,\"prio\":0}",
        "{\"op\":\"admit\",\"kind\":\"run\",\"pid\":\"7\",\"prio\":0}",
        "{\"op\":\"admit\",\"kind\":\"run\",\"pid\":7.5,\"prio\":0}",
        "{\"op\":\"admit\",\"kind\":\"run\",\"prio\":0}",
        "{\"op\":\"admit\",\"kind\":\"walk\",\"pid\":PID,\"prio\":0}",
        "{\"op\":\"admit\",\"kind\":\"run\",\"pid\":PID}",
        "{\"op\":\"admit\",\"kind\":\"run\",\"pid\":PID,\"prio\":\"high\"}",
        "{\"op\":\"admit\",\"kind\":\"run\",\"pid\":PID,\"prio\":0,\"est_mb\":-1}",
        "{\"op\":\"admit\",\"kind\":\"run\",\"pid\":PID,\"prio\":0,\"est_mb\":9223372036854775807}",
        "{\"op\":\"admit\",\"kind\":\"run\",\"pid\":PID,\"prio\":0,\"max_conc\":0}",
        "{\"op\":\"admit\",\"kind\":\"run\",\"pid\":PID,\"prio\":0,\"max_conc\":4294967296}",
        "{\"op\":\"admit\",\"kind\":\"run\",\"pid\":PID,\"prio\":0,\"slots\":-1}",
        "{\"op\":\"admit\",\"kind\":\"run\",\"pid\":PID,\"prio\":0,\"slots\":1000001}",
        "{\"op\":\"admit\",\"kind\":\"run\",\"pid\":PID,\"prio\":0,\"tenant\":\"\"}",
        "{\"op\":\"admit\",\"kind\":\"run\",\"pid\":PID,\"prio\":0,\"cmd\":[]}",
        "{\"op\":\"admit\",\"kind\":\"run\",\"pid\":PID,\"prio\":0,\"parent\":7}",
        "{\"op\":\"admit\",\"kind\":\"run\",\"pid\":PID,\"prio\":0,\"ticket\":\"1\"}",
        "{\"op\":\"release\",\"pid\":0}",
        "{\"op\":\"release\",\"pid\":-1}",
        "{\"op\":\"release\",\"pid\":1}",
        "{\"op\":\"release\"}",
        "{\"op\":\"done\",\"ticket\":1}",
        "{\"op\":\"done\",\"ticket\":0,\"status\":0}",
        "{\"op\":\"done\",\"ticket\":1,\"status\":-1}",
        "{\"op\":\"cancel\",\"ticket\":\"all\"}",
        "{\"op\":\"prio\",\"ticket\":1}",
        "{\"op\":\"config\",\"key\":\"slots\",\"value\":\"-1\"}",
        "{\"op\":\"config\",\"key\":\"slots\",\"value\":2}",
        "{\"op\":\"config\",\"key\":\"nothing\"}",
        "{\"op\":\"config\",\"value\":\"2\"}",
        "{\"op\":\"stop\",\"force\":1}",
        "{\"op\":7}",
        "{\"op\":\"fly\"}",
        "{}"};
    struct place p;
    struct client c;
    char text[512];
    place_make(&p);
    place_ready(&p, 1);
    client_open(&c, &p);
    for (int round = 0; round < 2; round++) {
        pid_t pid = round == 0 ? owner_make() : p.broker; /* the broker itself is nobody's owner either */
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
            const char *mark = strstr(bad[i], "PID");
            if (mark)
                snprintf(text, sizeof(text), "%.*s%d%s", (int)(mark - bad[i]), bad[i], (int)pid, mark + 3);
            else
                snprintf(text, sizeof(text), "%s", bad[i]);
            json_t *m = client_ask(&c, json_loads(text, 0, NULL));
            if (json_is_true(json_object_get(m, "ok")) || strcmp(text_at(m, "error.code"), "usage") != 0) {
                fprintf(stderr, "not refused: %s\n", text);
                exit(1);
            }
            json_decref(m);
        }
        if (round == 0)
            owner_kill(pid);
    }
    CHECK_TEXT(admit(&c, "run", p.broker, 0, 1, NULL), "usage");
    json_t *s = status_of(&p);
    CHECK_EQ(json_array_size(at(s, "waiters")) + json_array_size(at(s, "holders")), 0);
    json_decref(s);
    client_close(&c);
    place_stop(&p, SIGTERM);
}

/* U10: another protocol version gets a clear answer in ours, and the end of the connection. */
static void u10_another_version_is_told(void)
{
    struct place p;
    struct client c;
    place_make(&p);
    place_ready(&p, 1);
    client_open(&c, &p);
    static const uint8_t frame[] = {'T', 'G', 9, 0, 2, 0, 0, 0, '{', '}'};
    client_send_bytes(&c, frame, sizeof(frame));
    json_t *m = client_recv(&c);
    CHECK_TEXT(text_at(m, "error.code"), "version");
    CHECK(strstr(text_at(m, "error.text"), "9") && strstr(text_at(m, "error.text"), "1"));
    json_decref(m);
    CHECK(client_is_closed(&c));
    client_close(&c);
    place_stop(&p, SIGTERM);
}

/* U11: bytes of all kinds; each connection is answered or closed, and the broker serves on. */
static void u11_garbage_never_hurts(void)
{
    struct place p;
    uint64_t seed = 11;
    uint8_t bytes[600];
    static const char *const seeds[] = {
        "{\"op\":\"status\"}", "{\"op\":\"admit\",\"kind\":\"run\",\"pid\":2,\"prio\":1}",
        "{\"op\":\"config\",\"key\":\"slots\",\"value\":\"2\"}", "{\"op\":\"park\",\"ticket\":1}"};
    place_make(&p);
    place_ready(&p, 1);
    for (int i = 0; i < 3000; i++) {
        struct client c;
        const char *text = seeds[check_random(&seed) % 4];
        size_t len = strlen(text);
        uint8_t head[8] = {'T', 'G', 1, 0, (uint8_t)len};
        memcpy(bytes, head, 8);
        memcpy(bytes + 8, text, len);
        for (uint64_t n = check_random(&seed) % 4; n > 0; n--)
            bytes[check_random(&seed) % (len + 8)] = (uint8_t)check_random(&seed);
        client_open(&c, &p);
        client_send_bytes(&c, bytes, check_random(&seed) % (len + 9));
        client_close(&c);
    }
    /* Lengths beyond the limit, texts that are no object, broken UTF-8, doubled keys: told, then closed. */
    static const char *const broken[] = {
        "[]", "7", "{\"op\":\"status\",\"op\":\"stop\"}", "{\"op\":\"\xff\"}", "{", ""};
    for (size_t i = 0; i <= sizeof(broken) / sizeof(broken[0]); i++) {
        struct client c;
        client_open(&c, &p);
        if (i == sizeof(broken) / sizeof(broken[0])) {
            static const uint8_t huge[] = {'T', 'G', 1, 0, 0xff, 0xff, 0xff, 0x7f};
            client_send_bytes(&c, huge, sizeof(huge));
        } else {
            const uint8_t head[8] = {'T', 'G', 1, 0, (uint8_t)strlen(broken[i])};
            client_send_bytes(&c, head, 8);
            client_send_bytes(&c, broken[i], strlen(broken[i]));
        }
        json_t *m = client_recv(&c);
        CHECK_TEXT(text_at(m, "error.code"), "usage");
        json_decref(m);
        CHECK(client_is_closed(&c));
        client_close(&c);
    }
    json_decref(status_of(&p)); /* it serves on */
    CHECK_EQ(place_stop(&p, SIGTERM), 0);
}

/* Who asks without reading is not read from; who floods does not keep others waiting. */
static void a_flood_starves_nobody(void)
{
    struct place p;
    struct client flood;
    place_make(&p);
    place_ready(&p, 1);
    client_open(&flood, &p);
    CHECK(fcntl(flood.fd, F_SETFL, O_NONBLOCK) == 0);
    static uint8_t many[1 << 16];
    uint8_t *frame;
    size_t len, used = 0;
    json_t *m = json_pack("{s:s}", "op", "status");
    CHECK_EQ(tg_frame_encode(m, &frame, &len), 0);
    json_decref(m);
    for (; used + len <= sizeof(many); used += len)
        memcpy(many + used, frame, len);
    free(frame);
    uint64_t rss = rss_kb_of(p.broker);
    size_t sent = 0;
    uint64_t end = now_ms() + PATIENCE_MS;
    unsigned stuck = 0;
    while (stuck < 100) {
        CHECK(now_ms() < end);
        ssize_t n = send(flood.fd, many + sent % len, used - sent % len, MSG_NOSIGNAL);
        if (n > 0) {
            sent += (size_t)n;
            stuck = 0;
        } else {
            stuck++;
            pause_ms(1);
        }
        /* Who is answered knows that the broker has looked at the other one too. */
        if (stuck % 10 == 0) {
            uint64_t begin = now_ms();
            CHECK_EQ(holders_of(&p), 0);
            CHECK(now_ms() - begin < SOON_MS);
        }
    }
    /* At last it is not read from any more, and no more answers are kept for it. */
    CHECK(send(flood.fd, many, 1, MSG_NOSIGNAL) < 0);
    CHECK(rss_kb_of(p.broker) < rss + 4096 || FREED_MEMORY_IS_KEPT);
    client_close(&flood);
    CHECK_EQ(place_stop(&p, SIGTERM), 0);
}

/* U1: another user's process is nobody's to name, and another user does not get in at all. */
static void u1_other_users_are_kept_out(void)
{
    struct place p;
    if (geteuid() != 0) {
        fprintf(stderr, "  (skipped: it takes root to be two users)\n");
        return;
    }
    place_make(&p);
    p.run_as = NOBODY;
    CHECK(chmod(p.dir, 0755) == 0 && chown(p.dir, NOBODY, NOBODY) == 0);
    place_ready(&p, 2); /* root may always */
    pid_t roots = owner_make();
    pid_t user = fork();
    CHECK(user >= 0);
    if (user == 0) {
        struct client c;
        CHECK(setuid(NOBODY) == 0);
        client_open(&c, &p);
        CHECK_TEXT(admit(&c, "wait-admit", roots, 0, 1, NULL), "usage");
        CHECK_TEXT(admit(&c, "run", getpid(), 0, 1, NULL), "HOLD");
        _exit(0);
    }
    int status;
    CHECK_EQ(waitpid(user, &status, 0), user);
    CHECK_EQ(status, 0);
    /* Even one whom the file modes would let in. */
    CHECK(chmod(p.runtime, 0755) == 0 && chmod(p.socket, 0666) == 0);
    user = fork();
    CHECK(user >= 0);
    if (user == 0) {
        struct client c;
        CHECK(setuid(NOBODY - 1) == 0);
        client_open(&c, &p);
        json_t *m = client_recv(&c);
        CHECK_TEXT(text_at(m, "error.code"), "denied");
        CHECK(client_is_closed(&c));
        _exit(0);
    }
    CHECK_EQ(waitpid(user, &status, 0), user);
    CHECK_EQ(status, 0);
    owner_kill(roots);
    CHECK_EQ(place_stop(&p, SIGTERM), 0);
}

static json_t *done_message(uint64_t ticket, int status)
{
    return json_pack("{s:s,s:I,s:i}", "op", "done", "ticket", (json_int_t)ticket, "status", status);
}

/* U1: nor does another user say how a command ended, however late. Here the ticket is root's, under a broker
 * that is not. */
static void u1_a_late_word_is_the_owners_alone(void)
{
    struct place p;
    struct client c;
    uint64_t ticket;
    if (geteuid() != 0) {
        fprintf(stderr, "  (skipped: it takes root to be two users)\n");
        return;
    }
    place_make(&p);
    p.run_as = NOBODY;
    CHECK(chmod(p.dir, 0755) == 0 && chown(p.dir, NOBODY, NOBODY) == 0);
    place_ready(&p, 2);
    for (int turn = 0; turn < 2; turn++) {
        pid_t roots = owner_make();
        client_open(&c, &p);
        CHECK_TEXT(admit(&c, "run", roots, 0, 1, &ticket), "HOLD");
        owner_kill(roots);
        EVENTUALLY(holders_of(&p) == 0); /* asking makes it write the row */
        pid_t user = fork();
        CHECK(user >= 0);
        if (user == 0) {
            CHECK(setuid(NOBODY) == 0);
            struct client other;
            client_open(&other, &p);
            json_t *m = client_ask(&other, done_message(ticket, 7 << 8));
            CHECK_TEXT(text_at(m, "error.code"), "denied");
            _exit(0);
        }
        int status;
        CHECK_EQ(waitpid(user, &status, 0), user);
        CHECK_EQ(status, 0);
        json_decref(client_ask(&c, done_message(ticket, 5 << 8)));
        json_t *m = client_ask(&c, json_pack("{s:s,s:I}", "op", "why", "ticket", (json_int_t)ticket));
        CHECK_EQ(number_at(m, "ended.exit"), 5);
        json_decref(m);
        client_close(&c);
    }
    CHECK_EQ(place_stop(&p, SIGTERM), 0);
}

/* L10: there is no memory for more connections: they are closed, not left standing, and once there is,
 * whoever comes is served. */
static void l10_without_memory_a_connection_is_closed(void)
{
    enum { FIRST = 1500, MORE = 500 };
    static struct client c[FIRST + MORE];
    struct rlimit files, none = {.rlim_cur = 4096, .rlim_max = RLIM_INFINITY};
    struct place p;
    if (SANITIZED || getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_max < FIRST + MORE + 50) {
        fprintf(stderr, "  (skipped: a sanitizer, or too few descriptors)\n");
        return;
    }
    files.rlim_cur = files.rlim_max;
    CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0);
    place_make(&p);
    place_ready(&p, 1);
    for (int i = 0; i < FIRST; i++) /* by now libuv has room for 2046 descriptors: it would end otherwise */
        client_open(&c[i], &p);
    EVENTUALLY(connections_of(&p) == FIRST + 1);
    CHECK(prlimit(p.broker, RLIMIT_AS, &none, NULL) == 0); /* less than it has: nothing more */
    for (int i = FIRST; i < FIRST + MORE; i++)
        client_open(&c[i], &p);
    CHECK(client_is_closed(&c[FIRST + MORE - 1]));
    CHECK(client_is_closed(&c[FIRST + MORE - 2]));
    none.rlim_cur = RLIM_INFINITY;
    CHECK(prlimit(p.broker, RLIMIT_AS, &none, NULL) == 0);
    CHECK(connections_of(&p) >= FIRST + 1 && connections_of(&p) < FIRST + MORE);
    for (int i = 0; i < FIRST + MORE; i++)
        client_close(&c[i]);
    EVENTUALLY(connections_of(&p) == 1);
    CHECK_EQ(place_stop(&p, SIGTERM), 0);
}

int main(void)
{
    RUN(l4_five_hundred_clients_that_die_leave_nothing);
    RUN(l13_numbers_that_are_no_owner_are_refused);
    RUN(u10_another_version_is_told);
    RUN(u11_garbage_never_hurts);
    RUN(a_flood_starves_nobody);
    RUN(u1_other_users_are_kept_out);
    RUN(u1_a_late_word_is_the_owners_alone);
    RUN(l10_without_memory_a_connection_is_closed);
    return 0;
}
