/* SPDX-License-Identifier: Apache-2.0
 * U11: whatever bytes come in whatever pieces, the frame reader hands out JSON objects or an error, never
 * reads beyond what came, and the field readers keep their bounds. The first byte chooses the pieces. What is
 * read is written and read again: the same. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/fields.h"
#include "proto/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int held)
{
    if (!held)
        abort();
}

static void read_fields(const json_t *m)
{
    static const char *const keys[] = {"op",  "kind",   "pid", "prio",    "est_mb", "cmd",
                                       "key", "ticket", "now", "tickets", "store",  ""};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        uint64_t u = 77;
        int64_t s = 77;
        bool b = false;
        const char *text = NULL;
        int err = tg_field_u64(m, keys[i], 1, 1000, &u);
        must(err ? u == 77 && (err == -ENOENT || err == -EINVAL) : u >= 1 && u <= 1000);
        err = tg_field_i64(m, keys[i], -5, 5, &s);
        must(err ? s == 77 : s >= -5 && s <= 5);
        err = tg_field_bool(m, keys[i], &b);
        must(!err || err == -ENOENT || err == -EINVAL);
        err = tg_field_string(m, keys[i], 20, &text);
        must(err ? text == NULL : strlen(text) <= 20);
        if (!err) {
            char *shown = tg_display_text(text, 8);
            must(shown != NULL);
            (void)tg_key_valid(text);
            free(shown);
        }
    }
}

static void write_again(const json_t *m)
{
    uint8_t *bytes = NULL;
    size_t len = 0;
    json_t *same = NULL;
    struct tg_frames f = {.max_bytes = TG_REPLY_MAX_BYTES};
    if (tg_frame_encode(m, &bytes, &len) != 0)
        return;
    must(tg_frames_feed(&f, bytes, len) == 0);
    if (tg_frames_next(&f, &same) == 1) { /* a real number may come back shorter */
        must(json_object_size(m) == json_object_size(same));
        json_decref(same);
    }
    tg_frames_done(&f);
    free(bytes);
}

static void feed(const uint8_t *data, size_t size, size_t piece)
{
    struct tg_frames f = {.max_bytes = 4096};
    int rc = 0;
    for (size_t at = 0; at < size && rc >= 0; at += piece) {
        must(tg_frames_feed(&f, data + at, size - at < piece ? size - at : piece) == 0);
        json_t *m = NULL;
        while ((rc = tg_frames_next(&f, &m)) == 1) {
            must(json_is_object(m));
            read_fields(m);
            write_again(m);
            json_decref(m);
        }
    }
    tg_frames_done(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    feed(data + 1, size - 1, 1 + data[0] % 97u);
    /* The same as the text of a well-formed frame, so that the JSON is reached. */
    size_t n = size - 1 < 4096 ? size - 1 : 4096;
    uint8_t *frame = malloc(n + TG_FRAME_HEADER_BYTES);
    must(frame != NULL);
    const uint8_t head[TG_FRAME_HEADER_BYTES] = {'T', 'G',        TG_PROTO_VERSION,
                                                 0,   (uint8_t)n, (uint8_t)(n >> 8)};
    memcpy(frame, head, sizeof(head));
    memcpy(frame + sizeof(head), data + 1, n);
    feed(frame, n + sizeof(head), 1 + data[0] % 97u);
    free(frame);
    return 0;
}
