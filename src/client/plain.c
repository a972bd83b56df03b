/* SPDX-License-Identifier: Apache-2.0
 * See plain.h. Must say what tg_admit_message says; tests/client/test_plain.c compares them. */
#include "client/plain.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "proto/frame.h"

#define TEXT_MAX_BYTES 400u /* as in admit.c: longer ones are shortened there */

struct line {
    char *bytes;
    size_t used;
    size_t size;
    bool is_plain;
};

static void put(struct line *l, const char *text, size_t n)
{
    if (n >= l->size - l->used)
        l->is_plain = false;
    if (!l->is_plain)
        return;
    memcpy(l->bytes + l->used, text, n);
    l->used += n;
}

static void put_word(struct line *l, const char *text)
{
    put(l, text, strlen(text));
}

static void put_number(struct line *l, const char *name, uint64_t n)
{
    char text[24];
    size_t at = sizeof(text);
    put_word(l, name);
    if (n > INT64_MAX) {
        put_word(l, "null");
        return;
    }
    do
        text[--at] = (char)('0' + n % 10);
    while ((n /= 10) > 0);
    put(l, text + at, sizeof(text) - at);
}

static void put_text(struct line *l, const char *name, const char *text)
{
    put_word(l, name);
    if (!text) {
        put_word(l, "null");
        return;
    }
    size_t n = 0;
    for (; text[n]; n++) {
        if (text[n] < ' ' || text[n] > '~' || text[n] == '"' || text[n] == '\\')
            l->is_plain = false;
    }
    if (n > TEXT_MAX_BYTES)
        l->is_plain = false;
    put_word(l, "\"");
    put(l, text, n);
    put_word(l, "\"");
}

/* The end that every request has, and the header. */
static size_t finish(struct line *l, const char *store, uint8_t ret[TG_PLAIN_BYTES])
{
    put_text(l, ",\"store\":", store);
    put_word(l, "}");
    if (!l->is_plain)
        return 0;
    size_t n = l->used - TG_FRAME_HEADER_BYTES;
    const uint8_t header[TG_FRAME_HEADER_BYTES] = {
        'T', 'G', TG_PROTO_VERSION, 0, (uint8_t)n, (uint8_t)(n >> 8), (uint8_t)(n >> 16), (uint8_t)(n >> 24)};
    memcpy(ret, header, sizeof(header));
    return l->used;
}

size_t tg_plain_admit(const struct tg_admit_ask *ask, const char *store, uint8_t ret[TG_PLAIN_BYTES])
{
    struct line l = {.bytes = (char *)ret,
                     .used = TG_FRAME_HEADER_BYTES,
                     .size = TG_PLAIN_BYTES,
                     .is_plain = !ask->key && !ask->step && !ask->strict && ask->prio >= 0};
    put_text(&l, "{\"op\":\"admit\",\"kind\":", ask->kind);
    put_number(&l, ",\"pid\":", (uint64_t)ask->pid);
    put_number(&l, ",\"prio\":", (uint64_t)ask->prio);
    put_number(&l, ",\"est_mb\":", ask->est_mb);
    put_number(&l, ",\"max_conc\":", ask->max_conc);
    put_number(&l, ",\"slots\":", ask->slots);
    put_text(&l, ",\"tenant\":", ask->tenant);
    put_text(&l, ",\"cmd\":", ask->cmd ? ask->cmd : "");
    put_text(&l, ",\"cwd\":", ask->cwd);
    put_text(&l, ",\"parent\":", ask->parent && tg_ticket_env_valid(ask->parent) ? ask->parent : NULL);
    if (ask->time_ms <= INT64_MAX)
        put_number(&l, ",\"time_ms\":", ask->time_ms);
    if (ask->reaper)
        put_word(&l, ",\"reaper\":true");
    if (ask->detached)
        put_word(&l, ",\"detached\":true");
    return finish(&l, store, ret);
}

size_t tg_plain_done(const struct tg_done *done, const char *store, uint8_t ret[TG_PLAIN_BYTES])
{
    struct line l = {.bytes = (char *)ret,
                     .used = TG_FRAME_HEADER_BYTES,
                     .size = TG_PLAIN_BYTES,
                     .is_plain = done->status >= 0};
    put_number(&l, "{\"op\":\"done\",\"ticket\":", done->ticket);
    put_number(&l, ",\"status\":", (uint64_t)done->status);
    put_number(&l, ",\"peak_mb\":", done->peak_mb);
    if (done->left_known)
        put_number(&l, ",\"left\":", done->left);
    if (done->oom)
        put_word(&l, ",\"oom\":true");
    if (done->kept)
        put_word(&l, ",\"kept\":true");
    if (done->quiet)
        put_word(&l, ",\"quiet\":true");
    return finish(&l, store, ret);
}

json_t *tg_done_message(const struct tg_done *done)
{
    json_t *m = json_pack("{s:s,s:I,s:i,s:I}", "op", "done", "ticket", (json_int_t)done->ticket, "status",
                          done->status, "peak_mb", (json_int_t)done->peak_mb);
    if (m && done->left_known)
        json_object_set_new(m, "left", json_integer(done->left));
    if (m && done->oom)
        json_object_set_new(m, "oom", json_true());
    if (m && done->kept)
        json_object_set_new(m, "kept", json_true());
    if (m && done->quiet)
        json_object_set_new(m, "quiet", json_true());
    return m;
}
