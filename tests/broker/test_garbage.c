/* SPDX-License-Identifier: Apache-2.0
 * U11: a broker is fed a million messages over its socket, by several processes at once: well-formed ones
 * with random ops and fields, mutated ones, halves. It answers or hangs up, leaks nothing, and serves on.
 *
 * TG_FUZZ_MESSAGES says how many (a million by default, 50,000 under a sanitizer), TG_FUZZ_SEED which; how
 * those of the feeders meet is not the seed's. After LIMIT_MS they stop and say how many it were, on a
 * machine that is slow or busy. Never sent: stop and idle-exit, which would end the broker rightly, and pids
 * other than this test's own children and numbers that no process has, since cancel signals. */
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "machine/kept.h"

#define BATCH 200
#define OWNERS 6
#define FEEDERS 3
#define LIMIT_MS 70000
#define READ_IN_FULL 16   /* one answer of so many; of the others the frame and the beginning are looked at */
#define NO_PID 1900000000 /* above any pid_max */

static uint64_t seed = 20251129;

/* Between this test and its feeders: each number has one writer. */
static struct {
    volatile pid_t owners[OWNERS];
    struct feeder {
        volatile uint64_t sent;
        volatile uint64_t answered;
        volatile uint64_t connections;
    } feeders[FEEDERS];
} * shared;

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
        n = below(3) ? (uint64_t)shared->owners[below(OWNERS)] : NO_PID + below(1000);
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
    static const char *const ops[] = {"admit",  "admit",  "ack",  "park",     "park", "done", "hold",
                                      "resume", "resize", "prio", "nonsense", "",     "wait", "release"};
    static const char *const long_ops[] = {"why", "config", "history", "metrics"};
    static const char *const keys[] = {
        "pid",     "pid",    "kind",          "prio",      "est_mb",  "max_conc",  "slots",
        "time_ms", "strict", "tenant",        "cmd",       "cwd",     "parent",    "ticket",
        "ticket",  "store",  "key",           "if_exists", "reaper",  "detached",  "status",
        "peak_mb", "left",   "oom",           "grace_ms",  "tickets", "now",       "all",
        "before",  "limit",  "since_wall_ms", "value",     "force",   "unheard-of"};
    const char *op = below(16) == 0 ? ONE_OF(long_ops) : ONE_OF(ops);
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

/* Whole answers at the beginning of the bytes; *ret_used are theirs. */
static unsigned take_answers(const uint8_t *at, size_t n, size_t *ret_used)
{
    static const char begins[] = "{\"ok\":";
    unsigned answers = 0;
    uint32_t len;
    size_t used = 0;
    while (n - used >= TG_FRAME_HEADER_BYTES) {
        const uint8_t *body = at + used + TG_FRAME_HEADER_BYTES;
        CHECK_EQ(tg_frame_parse_header(at + used, TG_REPLY_MAX_BYTES, &len), 0);
        if (n - used - TG_FRAME_HEADER_BYTES < len)
            break;
        CHECK(len > sizeof(begins) && memcmp(body, begins, sizeof(begins) - 1) == 0 && body[len - 1] == '}');
        if (++answers % READ_IN_FULL == 0) {
            json_t *m = json_loadb((const char *)body, len, JSON_REJECT_DUPLICATES, NULL);
            CHECK(m && json_is_boolean(json_object_get(m, "ok")));
            json_decref(m);
        }
        used += TG_FRAME_HEADER_BYTES + len;
    }
    *ret_used = used;
    return answers;
}

/* Reads to the end of the connection; how many answers came. The broker hangs up, it is not stuck. */
static unsigned drain(const struct client *c)
{
    static uint8_t in[1 << 20];
    struct timeval patience = {.tv_sec = 20};
    size_t used, have = 0;
    ssize_t n;
    unsigned answers = 0;
    CHECK(setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0);
    while ((n = recv(c->fd, in + have, sizeof(in) - have, 0)) > 0) {
        have += (size_t)n;
        answers += take_answers(in, have, &used);
        have -= used;
        memmove(in, in + used, have);
        CHECK(have < sizeof(in)); /* no answer here is so long */
    }
    CHECK(n == 0 || errno == ECONNRESET);
    return answers;
}

/* Whoever a cancel has ended is followed by another. */
static void mind_owners(void)
{
    for (int i = 0; i < OWNERS; i++) {
        if (shared->owners[i] != 0 && waitpid(shared->owners[i], NULL, WNOHANG) == 0)
            continue;
        shared->owners[i] = owner_make();
    }
}

/* One connection: a batch, then the end of our half of it. */
static void feed_once(const struct place *p, struct feeder *f)
{
    static uint8_t batch[BATCH * 2048];
    struct client c;
    unsigned messages;
    size_t n = make_batch(batch, sizeof(batch), &messages);
    client_open(&c, p);
    /* It may hang up in the middle: then the rest is not taken. */
    for (size_t at = 0; at < n;) {
        ssize_t got = send(c.fd, batch + at, n - at, MSG_NOSIGNAL);
        if (got <= 0)
            break;
        at += (size_t)got;
    }
    shutdown(c.fd, SHUT_WR);
    f->answered += drain(&c);
    client_close(&c);
    f->sent += messages;
    f->connections++;
}

static pid_t make_feeder(const struct place *p, unsigned number, uint64_t want)
{
    pid_t parent = getpid();
    uint64_t end = now_ms() + LIMIT_MS;
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid != 0)
        return pid;
    end_with_parent(parent);
    seed += number;
    while (shared->feeders[number].sent < want && now_ms() < end)
        feed_once(p, &shared->feeders[number]);
    _exit(0);
}

static struct feeder sum(void)
{
    struct feeder all = {0};
    for (int i = 0; i < FEEDERS; i++) {
        all.sent += shared->feeders[i].sent;
        all.answered += shared->feeders[i].answered;
        all.connections += shared->feeders[i].connections;
    }
    return all;
}

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

static void u11_a_million_messages(void)
{
    struct place p;
    struct client c;
    pid_t feeder[FEEDERS];
    uint64_t want = setting("TG_FUZZ_MESSAGES", SANITIZED ? 50000 : 1000000);
    uint64_t rss_before = 0;
    seed = setting("TG_FUZZ_SEED", seed);
    place_make(&p);
    p.idle_exit = "0";
    place_ready(&p, 2);
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    size_t open_before = descriptors_of(p.broker);
    uint64_t begin = now_ms();
    mind_owners();
    for (unsigned i = 0; i < FEEDERS; i++)
        feeder[i] = make_feeder(&p, i, want / FEEDERS + 1);
    for (int left = FEEDERS; left > 0;) {
        mind_owners();
        for (int i = 0; i < FEEDERS; i++) {
            int status;
            if (feeder[i] == 0 || waitpid(feeder[i], &status, WNOHANG) == 0)
                continue;
            CHECK_EQ(status, 0);
            feeder[i] = 0;
            left--;
        }
        if (rss_before == 0 && sum().connections >= 100)
            rss_before = rss_kb_of(p.broker);
        pause_ms(2);
    }
    struct feeder all = sum();
    printf("%llu messages, %llu answers, in %llu connections, %llu ms\n", (unsigned long long)all.sent,
           (unsigned long long)all.answered, (unsigned long long)all.connections,
           (unsigned long long)(now_ms() - begin));
    CHECK(all.sent >= want || all.sent >= 5000);
    CHECK(all.answered > all.sent / 2); /* they were read, not cut off */
    for (int i = 0; i < OWNERS; i++)
        owner_kill(shared->owners[i]);
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
