/* SPDX-License-Identifier: Apache-2.0
 * U11: a broker is fed a great many messages over its socket: well-formed ones with random ops and fields,
 * mutated ones, halves. It answers or hangs up, leaks nothing, and serves on.
 *
 * TG_FUZZ_MESSAGES says how many (200,000 by default, 50,000 under a sanitizer), TG_FUZZ_SEED which. After
 * a minute it stops and says how many it were. Never sent: stop and idle-exit, which would end the broker
 * rightly, and pids other than this test's own children and numbers that no process has, since cancel
 * signals. */
#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "machine/kept.h"

#define BATCH 200
#define OWNERS 6
#define LIMIT_MS 40000
#define NO_PID 1900000000 /* above any pid_max */

static uint64_t seed = 20251129;
static pid_t owners[OWNERS];

static uint64_t below(uint64_t n)
{
    return check_random(&seed) % n;
}

static const char *one_of(const char *const *list, size_t n)
{
    return list[below(n)];
}
#define ONE_OF(list) one_of(list, sizeof(list) / sizeof(list[0]))

/* A value that may or may not be what a field wants. */
static size_t put_value(char *to, size_t size, const char *key)
{
    static const char *const odd[] = {"null",
                                      "true",
                                      "false",
                                      "0",
                                      "-1",
                                      "1",
                                      "2",
                                      "9223372036854775807",
                                      "-9223372036854775808",
                                      "1e308",
                                      "0.5",
                                      "\"\"",
                                      "\"\\ud83d\\ude00\"",
                                      "[]",
                                      "{}",
                                      "[1,2,3]",
                                      "[[[[[[[[]]]]]]]]",
                                      "{\"a\":{\"b\":[]}}",
                                      "\"run\"",
                                      "\"1:0\"",
                                      "\"%n%s\""};
    static const char *const odd_pids[] = {"null", "0", "-1", "1", "[]", "\"7\"", "9223372036854775807"};
    static const char *const kinds[] = {"\"run\"", "\"wait-admit\""};
    static const char *const keys[] = {"\"slots\"",  "\"load\"",      "\"drain\"",    "\"strict\"",
                                       "\"ageing\"", "\"budget-mb\"", "\"floor-mb\"", "\"nonsense\""};
    static const char *const values[] = {"\"1\"", "\"2\"",   "\"off\"", "\"on\"", "\"auto\"",
                                         "\"0\"", "\"10s\"", "\"-7\"",  "\"x\""};
    uint64_t n = 0;
    const char *text = NULL;
    if (below(5) == 0) /* a pid 2 would be somebody's, who never ends */
        text = strcmp(key, "pid") == 0 ? ONE_OF(odd_pids) : ONE_OF(odd);
    else if (strcmp(key, "pid") == 0)
        n = below(3) ? (uint64_t)owners[below(OWNERS)] : NO_PID + below(1000);
    else if (strcmp(key, "kind") == 0)
        text = ONE_OF(kinds);
    else if (strcmp(key, "key") == 0)
        text = ONE_OF(keys);
    else if (strcmp(key, "value") == 0)
        text = ONE_OF(values);
    else if (strcmp(key, "tickets") == 0)
        text = "[1,2]";
    else
        n = below(strcmp(key, "limit") == 0 ? 4 : 300);
    return (size_t)(text ? snprintf(to, size, "%s", text)
                         : snprintf(to, size, "%llu", (unsigned long long)n));
}

/* {"op":..., a few fields}. */
static size_t put_object(char *to, size_t size)
{
    static const char *const ops[] = {"admit",   "admit",   "ack",      "park",   "park",   "done",
                                      "release", "why",     "hold",     "resume", "wait",   "prio",
                                      "config",  "history", "nonsense", "",       "metrics"};
    static const char *const keys[] = {
        "pid",     "pid",    "kind",          "prio",      "est_mb",  "max_conc",  "slots",
        "time_ms", "strict", "tenant",        "cmd",       "cwd",     "parent",    "ticket",
        "ticket",  "store",  "key",           "if_exists", "reaper",  "detached",  "status",
        "peak_mb", "left",   "oom",           "grace_ms",  "tickets", "now",       "all",
        "before",  "limit",  "since_wall_ms", "value",     "force",   "unheard-of"};
    const char *op = ONE_OF(ops);
    uint64_t rare = below(2000); /* these take time: all of /proc is read, or somebody's end awaited */
    if (rare <= 20)
        op = rare == 0 ? "cancel" : "status";
    size_t n = (size_t)snprintf(to, size, "{\"op\":\"%s\"", op);
    bool used[sizeof(keys) / sizeof(keys[0])] = {false};
    static const char *const needed[] = {"kind", "pid", "prio", "ticket", "limit", "now"};
    for (uint64_t i = 0, fields = below(9); i < fields + 6; i++) {
        const char *key = i < 6 ? needed[i] : ONE_OF(keys);
        if (i < 6 && below(8) == 0)
            continue;
        size_t at = 0;
        while (strcmp(keys[at], key) != 0)
            at++;
        if (used[at])
            continue; /* a doubled key breaks the stream: mutation does that */
        used[at] = true;
        n += (size_t)snprintf(to + n, size - n, ",\"%s\":", key);
        n += strcmp(key, "now") == 0 ? (size_t)snprintf(to + n, size - n, "true")
                                     : put_value(to + n, size - n, key);
    }
    return n + (size_t)snprintf(to + n, size - n, "}");
}

static size_t put_frame(uint8_t *to, size_t size)
{
    size_t n = put_object((char *)to + 8, size - 8);
    const uint8_t head[8] = {'T', 'G', 1, 0, (uint8_t)n, (uint8_t)(n >> 8), 0, 0};
    memcpy(to, head, 8);
    return n + 8;
}

static void mutate(uint8_t *frame, size_t n)
{
    for (uint64_t i = 1 + below(4); i > 0; i--)
        frame[below(2) ? below(n) : 8 + below(n - 8)] =
            below(2) ? (uint8_t)below(256) : (uint8_t) "\"{}[],:\\0"[below(9)];
}

/* The last message of a batch is whole, mutated, or half; then our half of the connection ends. */
static size_t make_batch(uint8_t *to, size_t size, unsigned *ret_messages)
{
    size_t used = 0;
    unsigned n = 1 + (unsigned)below(BATCH);
    for (unsigned i = 0; i < n; i++) {
        size_t len = put_frame(to + used, size - used);
        if (i + 1 == n && below(3) > 0) {
            if (below(2))
                mutate(to + used, len);
            else
                len = below(len);
        }
        used += len;
    }
    *ret_messages = n;
    return used;
}

/* Reads to the end of the connection; how many answers came. The broker hangs up, it is not stuck. */
static unsigned drain(struct client *c)
{
    static char sink[1 << 18];
    struct timeval patience = {.tv_sec = 20};
    ssize_t n;
    unsigned answers = 0;
    json_t *m;
    CHECK(setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0);
    while ((n = recv(c->fd, sink, sizeof(sink), 0)) > 0) {
        CHECK(tg_frames_feed(&c->in, sink, (size_t)n) == 0);
        while (tg_frames_next(&c->in, &m) == 1) {
            CHECK(json_is_boolean(json_object_get(m, "ok")));
            json_decref(m);
            answers++;
        }
    }
    CHECK(n == 0 || errno == ECONNRESET);
    return answers;
}

/* Whoever a cancel has ended is followed by another. */
static void mind_owners(void)
{
    for (int i = 0; i < OWNERS; i++) {
        if (owners[i] != 0 && waitpid(owners[i], NULL, WNOHANG) == 0)
            continue;
        owners[i] = owner_make();
    }
}

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

static void u11_a_million_messages(void)
{
    static uint8_t batch[BATCH * 2048];
    struct place p;
    struct client c;
    uint64_t want = setting("TG_FUZZ_MESSAGES", SANITIZED ? 50000 : 200000);
    uint64_t sent = 0, begin = now_ms(), connections = 0, answered = 0;
    seed = setting("TG_FUZZ_SEED", seed);
    place_make(&p);
    p.idle_exit = "0";
    place_ready(&p, 2);
    size_t open_before = descriptors_of(p.broker);
    uint64_t rss_before = 0;
    while (sent < want && now_ms() - begin < LIMIT_MS) {
        unsigned messages;
        mind_owners();
        size_t n = make_batch(batch, sizeof(batch), &messages);
        client_open(&c, &p);
        /* It may hang up in the middle: then the rest is not taken. */
        for (size_t at = 0; at < n;) {
            ssize_t got = send(c.fd, batch + at, n - at, MSG_NOSIGNAL);
            if (got <= 0)
                break;
            at += (size_t)got;
        }
        shutdown(c.fd, SHUT_WR);
        answered += drain(&c);
        client_close(&c);
        sent += messages;
        if (++connections == 100)
            rss_before = rss_kb_of(p.broker);
    }
    printf("%llu messages, %llu answers, in %llu connections, %llu ms\n", (unsigned long long)sent,
           (unsigned long long)answered, (unsigned long long)connections,
           (unsigned long long)(now_ms() - begin));
    CHECK(sent >= want || sent >= 5000);
    CHECK(answered > sent / 2); /* they were read, not cut off */
    for (int i = 0; i < OWNERS; i++)
        owner_kill(owners[i]);
    EVENTUALLY(holders_of(&p) == 0 && waiters_of(&p) == 0);
    EVENTUALLY(connections_of(&p) == 1);
    EVENTUALLY(descriptors_of(p.broker) <= open_before + 4 + TG_KEPT_FILES);
    uint64_t rss = rss_kb_of(p.broker);
    CHECK(SANITIZED || rss < rss_before + 32768);
    set_config(&p, "drain", "off");
    set_config(&p, "load", "off");
    set_config(&p, "slots", "1");
    set_config(&p, "budget-mb", "off");
    set_config(&p, "floor-mb", "0");
    client_open(&c, &p);
    pid_t owner = owner_make();
    CHECK_TEXT(admit(&c, "run", owner, 0, 1, NULL), "HOLD");
    owner_kill(owner);
    client_close(&c);
    CHECK_EQ(place_stop(&p, SIGTERM), 0);
}

int main(void)
{
    RUN(u11_a_million_messages);
    return 0;
}
