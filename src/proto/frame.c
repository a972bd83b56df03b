/* SPDX-License-Identifier: Apache-2.0
 * See frame.h. */
#include "proto/frame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int tg_frame_parse_header(const uint8_t header[TG_FRAME_HEADER_BYTES], uint32_t max_bytes, uint32_t *ret_len)
{
    if (header[0] != 'T' || header[1] != 'G')
        return -EPROTO;
    if (header[2] != TG_PROTO_VERSION)
        return -EPROTONOSUPPORT;
    if (header[3] != 0)
        return -EPROTO;
    uint32_t len = (uint32_t)header[4] | (uint32_t)header[5] << 8 | (uint32_t)header[6] << 16 |
                   (uint32_t)header[7] << 24;
    if (len > max_bytes)
        return -EMSGSIZE;
    *ret_len = len;
    return 0;
}

int tg_frames_feed(struct tg_frames *f, const void *bytes, size_t n)
{
    if (n > f->size - f->used) {
        size_t size = f->size ? f->size : 512;
        while (size - f->used < n) {
            if (size > SIZE_MAX / 2)
                return -ENOMEM;
            size *= 2;
        }
        uint8_t *grown = realloc(f->buf, size);
        if (!grown)
            return -ENOMEM;
        f->buf = grown;
        f->size = size;
    }
    if (n > 0)
        memcpy(f->buf + f->used, bytes, n);
    f->used += n;
    return 0;
}

int tg_frames_next(struct tg_frames *f, json_t **ret_message)
{
    /* A wrong first byte is told at once, before a peer that waits for our answer has sent a header. */
    if (f->used > 0 && f->buf[0] != 'T')
        return -EPROTO;
    if (f->used < TG_FRAME_HEADER_BYTES)
        return 0;
    uint32_t len;
    int err = tg_frame_parse_header(f->buf, f->max_bytes, &len);
    if (err)
        return err;
    size_t whole = (size_t)TG_FRAME_HEADER_BYTES + len;
    if (f->used < whole)
        return 0;
    json_t *message =
        json_loadb((const char *)f->buf + TG_FRAME_HEADER_BYTES, len, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(message)) {
        json_decref(message);
        return -EBADMSG;
    }
    memmove(f->buf, f->buf + whole, f->used - whole);
    f->used -= whole;
    *ret_message = message;
    return 1;
}

void tg_frames_done(struct tg_frames *f)
{
    free(f->buf);
    f->buf = NULL;
    f->used = f->size = 0;
}

static int append(const char *part, size_t n, void *ctx)
{
    struct tg_frame_writer *w = ctx;
    if (w->err)
        return -1;
    size_t need = n + (w->used == 0 ? TG_FRAME_HEADER_BYTES : 0);
    if (need > w->size - w->used) {
        size_t size = w->size ? w->size : 512;
        while (size - w->used < need)
            size *= 2; /* the part is in memory already: this cannot run away */
        uint8_t *grown = realloc(w->bytes, size);
        if (!grown) {
            w->err = -ENOMEM;
            return -1;
        }
        w->bytes = grown;
        w->size = size;
    }
    if (w->used == 0)
        w->used = TG_FRAME_HEADER_BYTES; /* filled in at the end */
    memcpy(w->bytes + w->used, part, n);
    w->used += n;
    return 0;
}

void tg_frame_put_text(struct tg_frame_writer *w, const char *text)
{
    append(text, strlen(text), w);
}

void tg_frame_put_json(struct tg_frame_writer *w, json_t *value)
{
    if (!w->err &&
        (!value || json_dump_callback(value, append, w, JSON_COMPACT | JSON_ENCODE_ANY | TG_JSON_REALS) != 0))
        w->err = -ENOMEM;
    json_decref(value);
}

int tg_frame_finish(struct tg_frame_writer *w, uint8_t **ret_bytes, size_t *ret_len)
{
    const struct tg_frame_writer done = *w;
    *w = (struct tg_frame_writer){NULL, 0, 0, 0};
    int err = done.err;
    if (!err && done.used <= TG_FRAME_HEADER_BYTES)
        err = -ENOMEM; /* nothing was put */
    size_t len = done.used - TG_FRAME_HEADER_BYTES;
    if (!err && len > TG_REPLY_MAX_BYTES)
        err = -EMSGSIZE;
    if (err) {
        free(done.bytes);
        return err;
    }
    const uint8_t header[4] = {'T', 'G', TG_PROTO_VERSION, 0};
    memcpy(done.bytes, header, sizeof(header));
    for (unsigned i = 0; i < 4; i++)
        done.bytes[4 + i] = (uint8_t)(len >> (8 * i));
    *ret_bytes = done.bytes;
    *ret_len = done.used;
    return 0;
}

int tg_frame_encode(const json_t *message, uint8_t **ret_bytes, size_t *ret_len)
{
    struct tg_frame_writer w = {NULL, 0, 0, 0};
    if (json_dump_callback(message, append, &w, JSON_COMPACT | TG_JSON_REALS) != 0 && !w.err)
        w.err = -ENOMEM;
    return tg_frame_finish(&w, ret_bytes, ret_len);
}
