/* SPDX-License-Identifier: Apache-2.0
 * The short way of writing a request says the same as the general one, or nothing. */
#include "client/plain.h"

#include <string.h>

#include "check.h"

static const struct tg_admit_ask usual = {.kind = "run",
                                          .pid = 4711,
                                          .prio = 2,
                                          .est_mb = TG_NOT_STATED,
                                          .max_conc = TG_NOT_STATED,
                                          .slots = TG_NOT_STATED,
                                          .time_ms = TG_NOT_STATED,
                                          .cmd = "cc -c a.c",
                                          .cwd = "/tmp/a b",
                                          .reaper = true};

static void says_the_same(const struct tg_admit_ask *ask)
{
    uint8_t bytes[TG_PLAIN_BYTES];
    struct tg_frames in = {.max_bytes = TG_REQUEST_MAX_BYTES};
    json_t *plain = NULL;
    size_t n = tg_plain_admit(ask, "/home/u/store.db", bytes);
    CHECK(n > 0);
    CHECK_EQ(tg_frames_feed(&in, bytes, n), 0);
    CHECK_EQ(tg_frames_next(&in, &plain), 1);
    json_t *general = tg_admit_message(ask);
    CHECK(general && json_object_set_new(general, "store", json_string("/home/u/store.db")) == 0);
    CHECK(json_equal(plain, general));
    json_decref(plain);
    json_decref(general);
    tg_frames_done(&in);
}

static void done_says_the_same(void)
{
    struct tg_done done = {.ticket = 1, .peak_mb = 3};
    for (int i = 0; i < 64; i++) {
        uint8_t bytes[TG_PLAIN_BYTES];
        struct tg_frames in = {.max_bytes = TG_REQUEST_MAX_BYTES};
        json_t *plain = NULL;
        done.ticket = i % 2 ? INT64_MAX : 17;
        done.status = i % 2 ? INT32_MAX : 0;
        done.left_known = i & 2;
        done.left = i & 4;
        done.oom = i & 8;
        done.kept = i & 16;
        done.quiet = i & 32;
        size_t n = tg_plain_done(&done, "/home/u/store.db", bytes);
        CHECK(n > 0);
        CHECK_EQ(tg_frames_feed(&in, bytes, n), 0);
        CHECK_EQ(tg_frames_next(&in, &plain), 1);
        json_t *general = tg_done_message(&done);
        CHECK(general && json_object_set_new(general, "store", json_string("/home/u/store.db")) == 0);
        CHECK(json_equal(plain, general));
        json_decref(plain);
        json_decref(general);
        tg_frames_done(&in);
        CHECK_EQ(tg_plain_done(&done, "/home/\xff/store.db", bytes), 0);
    }
}

static void both_say_the_same(void)
{
    struct tg_admit_ask a = usual;
    says_the_same(&a);
    a.est_mb = 0;
    a.slots = 0;
    a.max_conc = 9;
    a.prio = INT64_MAX;
    a.time_ms = 0;
    says_the_same(&a);
    a.time_ms = INT64_MAX;
    a.tenant = "a.b";
    a.detached = true;
    a.reaper = false;
    a.parent = "17:0123abcd-0123";
    says_the_same(&a);
    a.parent = "nonsense"; /* left out by both */
    a.cwd = NULL;
    a.cmd = NULL;
    says_the_same(&a);
    char longest[401];
    memset(longest, 'x', 400);
    longest[400] = '\0';
    a.cmd = longest;
    says_the_same(&a);
}

static void what_is_not_plain_is_left_to_the_general_way(void)
{
    static const char *const odd[] = {"a\"b", "a\\b", "a\nb", "a\x7f", "\xc3\xa4", "\xff"};
    uint8_t bytes[TG_PLAIN_BYTES];
    char longer[402];
    memset(longer, 'x', 401);
    longer[401] = '\0';
    struct tg_admit_ask a = usual;
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        a = usual;
        a.cmd = odd[i];
        CHECK_EQ(tg_plain_admit(&a, "/s", bytes), 0);
        a = usual;
        a.cwd = odd[i];
        CHECK_EQ(tg_plain_admit(&a, "/s", bytes), 0);
        CHECK_EQ(tg_plain_admit(&usual, odd[i], bytes), 0);
    }
    a = usual;
    a.cmd = longer;
    CHECK_EQ(tg_plain_admit(&a, "/s", bytes), 0);
    a = usual;
    a.key = "k";
    CHECK_EQ(tg_plain_admit(&a, "/s", bytes), 0);
    a = usual;
    a.strict = true;
    CHECK_EQ(tg_plain_admit(&a, "/s", bytes), 0);
    a = usual;
    a.step = 3;
    CHECK_EQ(tg_plain_admit(&a, "/s", bytes), 0);
    a = usual;
    a.prio = -1;
    CHECK_EQ(tg_plain_admit(&a, "/s", bytes), 0);
}

int main(void)
{
    RUN(both_say_the_same);
    RUN(done_says_the_same);
    RUN(what_is_not_plain_is_left_to_the_general_way);
    return 0;
}
