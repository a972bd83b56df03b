/* SPDX-License-Identifier: Apache-2.0
 * Frames: what arrives whole, in pieces, of another version (U10) or hostile. */
#include <errno.h>

#include "proto/fields.h"
#include "proto/frame.h"
#include "check.h"

static void whole_and_byte_by_byte(void)
{
    json_t *m = json_pack("{s:s,s:i}", "op", "status", "n", 7);
    uint8_t *bytes;
    size_t len;
    CHECK_EQ(tg_frame_encode(m, &bytes, &len), 0);
    struct tg_frames f = {.max_bytes = TG_REQUEST_MAX_BYTES};
    json_t *got = NULL;
    for (int twice = 0; twice < 2; twice++) {
        for (size_t i = 0; i < len; i++) {
            CHECK_EQ(tg_frames_next(&f, &got), 0);
            CHECK_EQ(tg_frames_feed(&f, bytes + i, 1), 0);
        }
        CHECK_EQ(tg_frames_next(&f, &got), 1);
        CHECK(json_equal(m, got));
        json_decref(got);
    }
    CHECK_EQ(tg_frames_feed(&f, bytes, len), 0);
    CHECK_EQ(tg_frames_feed(&f, bytes, len), 0);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(tg_frames_next(&f, &got), 1);
        json_decref(got);
    }
    CHECK_EQ(tg_frames_next(&f, &got), 0);
    tg_frames_done(&f);
    free(bytes);
    json_decref(m);
}

static void a_frame_in_pieces_is_the_same_frame(void)
{
    struct tg_frame_writer w = {NULL, 0, 0, 0};
    uint8_t *whole, *pieces;
    size_t a, b;
    json_t *m = json_pack("{s:[i,i],s:s}", "list", 1, 2, "text", "\xc3\xa4");
    CHECK_EQ(tg_frame_encode(m, &whole, &a), 0);
    tg_frame_put_text(&w, "{\"list\":[");
    tg_frame_put_json(&w, json_integer(1));
    tg_frame_put_text(&w, ",");
    tg_frame_put_json(&w, json_integer(2));
    tg_frame_put_text(&w, "],\"text\":");
    tg_frame_put_json(&w, json_string("\xc3\xa4"));
    tg_frame_put_text(&w, "}");
    CHECK_EQ(tg_frame_finish(&w, &pieces, &b), 0);
    CHECK(a == b && memcmp(whole, pieces, a) == 0);
    free(pieces);
    free(whole);
    json_decref(m);
    tg_frame_put_text(&w, "{");
    tg_frame_put_json(&w, NULL);
    tg_frame_put_text(&w, "}");
    CHECK_EQ(tg_frame_finish(&w, &pieces, &b), -ENOMEM);
    CHECK_EQ(tg_frame_finish(&w, &pieces, &b), -ENOMEM);
}

static int feed_once(const void *bytes, size_t n)
{
    struct tg_frames f = {.max_bytes = 4096};
    json_t *got = NULL;
    CHECK_EQ(tg_frames_feed(&f, bytes, n), 0);
    int r = tg_frames_next(&f, &got);
    if (r == 1)
        json_decref(got);
    tg_frames_done(&f);
    return r;
}

static void u10_another_version_is_told_apart(void)
{
    CHECK_EQ(feed_once("TG\x02\x00\x02\x00\x00\x00{}", 10), -EPROTONOSUPPORT);
    CHECK_EQ(feed_once("TG\x01\x00\x02\x00\x00\x00{}", 10), 1);
}

static void u11_hostile_frames_are_errors(void)
{
    CHECK_EQ(feed_once("GET / HTTP/1.1\r\n", 16), -EPROTO);
    CHECK_EQ(feed_once("TX\x01\x00\x02\x00\x00\x00{}", 10), -EPROTO);
    CHECK_EQ(feed_once("TG\x01\x00\xff\xff\xff\xff", 8), -EMSGSIZE);
    CHECK_EQ(feed_once("TG\x01\x00\x02\x00\x00\x00[]", 10), -EBADMSG);
    CHECK_EQ(feed_once("TG\x01\x00\x00\x00\x00\x00", 8), -EBADMSG);
    CHECK_EQ(feed_once("TG\x01\x00\x0d\x00\x00\x00{\"a\":1,\"a\":2}", 21), -EBADMSG);
    CHECK_EQ(feed_once("TG\x01\x00\x09\x00\x00\x00{\"a\":\"\xff\"}", 17), -EBADMSG);
    uint64_t seed = 3;
    for (int i = 0; i < 50000; i++) {
        uint8_t b[64] = {'T', 'G', 1, 0, 20, 0, 0, 0};
        for (size_t k = check_random(&seed) % 9; k < sizeof(b); k++)
            b[k] = (uint8_t)check_random(&seed);
        feed_once(b, check_random(&seed) % sizeof(b));
    }
}

static void fields_are_strict(void)
{
    json_t *m = json_pack("{s:i,s:s,s:b,s:n,s:f}", "n", 5, "s", "abc", "b", 1, "z", "r", 1.5);
    uint64_t u = 9;
    int64_t s = 9;
    bool b = false;
    const char *text = NULL;
    CHECK_EQ(tg_field_u64(m, "n", 0, 10, &u), 0);
    CHECK_EQ(u, 5);
    CHECK_EQ(tg_field_u64(m, "n", 6, 10, &u), -EINVAL);
    CHECK_EQ(tg_field_u64(m, "s", 0, 10, &u), -EINVAL);
    CHECK_EQ(tg_field_u64(m, "r", 0, 10, &u), -EINVAL);
    CHECK_EQ(tg_field_u64(m, "z", 0, 10, &u), -ENOENT);
    CHECK_EQ(tg_field_i64(m, "missing", 0, 10, &s), -ENOENT);
    CHECK_EQ(tg_field_bool(m, "b", &b), 0);
    CHECK_EQ(tg_field_bool(m, "n", &b), -EINVAL);
    CHECK_EQ(tg_field_string(m, "s", 2, &text), -EINVAL);
    CHECK_EQ(tg_field_string(m, "s", 3, &text), 0);
    json_decref(m);
}

static void display_text_is_always_utf8(void)
{
    char *t = tg_display_text("a\xff\n\xc3\xa4\xed\xa0\x80z", 100);
    CHECK(strcmp(t, "a\\xff\\x0a\xc3\xa4\\xed\\xa0\\x80z") == 0);
    free(t);
    t = tg_display_text("abcdefgh", 4);
    CHECK(strcmp(t, "abcd...") == 0);
    free(t);
    uint64_t seed = 5;
    for (int i = 0; i < 20000; i++) {
        char raw[24] = {0};
        for (int k = 0; k < 23; k++)
            raw[k] = (char)(check_random(&seed) | 1);
        t = tg_display_text(raw, 60);
        json_t *j = json_string(t);
        CHECK(j != NULL); /* jansson takes valid UTF-8 only */
        json_decref(j);
        free(t);
    }
}

int main(void)
{
    RUN(whole_and_byte_by_byte);
    RUN(a_frame_in_pieces_is_the_same_frame);
    RUN(u10_another_version_is_told_apart);
    RUN(u11_hostile_frames_are_errors);
    RUN(fields_are_strict);
    RUN(display_text_is_always_utf8);
    return 0;
}
