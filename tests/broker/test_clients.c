/* SPDX-License-Identifier: Apache-2.0
 * Clients that die half way, speak another version, send garbage or flood. Rows L4, U10, U11 of the cases. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "harness.h"

static size_t descriptors_of(pid_t pid)
{
    char path[64];
    size_t n = 0;
    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    DIR *d = opendir(path);
    CHECK(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static int64_t connections_of(const struct place *p)
{
    json_t *s = status_of(p);
    int64_t n = number_at(s, "broker.connections");
    json_decref(s);
    return n;
}

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
    json_t *s = status_of(&p);
    CHECK_EQ(json_array_size(at(s, "waiters")) + json_array_size(at(s, "holders")), 0);
    json_decref(s);
    CHECK_EQ(place_stop(&p, SIGTERM), 0);
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
    size_t sent = 0;
    uint64_t end = now_ms() + 1000;
    unsigned stuck = 0;
    while (now_ms() < end && stuck < 100) {
        ssize_t n = send(flood.fd, many + sent % len, used - sent % len, MSG_NOSIGNAL);
        if (n > 0) {
            sent += (size_t)n;
            stuck = 0;
        } else {
            stuck++;
            pause_ms(1);
        }
        if (stuck % 10 == 0) {
            uint64_t begin = now_ms();
            CHECK_EQ(holders_of(&p), 0);
            CHECK(now_ms() - begin < 500);
        }
    }
    CHECK(stuck >= 100); /* at last it is not read from any more */
    client_close(&flood);
    CHECK_EQ(place_stop(&p, SIGTERM), 0);
}

int main(void)
{
    RUN(l4_five_hundred_clients_that_die_leave_nothing);
    RUN(u10_another_version_is_told);
    RUN(u11_garbage_never_hurts);
    RUN(a_flood_starves_nobody);
    return 0;
}
