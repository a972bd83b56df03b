/* SPDX-License-Identifier: Apache-2.0
 *
 * The message history: what has ended, a page at a time, newest first. One page is what the broker does in
 * one go, and no more of the history is ever in memory (P5).
 */
#include "broker/ops.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>

#define PAGE_ROWS 500u

static void set(json_t *object, const char *key, json_t *value)
{
    json_object_set_new_nocheck(object, key, value);
}

static json_t *number(uint64_t n)
{
    return json_integer((json_int_t)n);
}

static json_t *number_or_null(uint64_t n, bool known)
{
    return known ? number(n) : json_null();
}

/* How a command ended, in the two forms of a shell: its exit code, or the signal. */
static void set_status(json_t *o, int64_t status)
{
    int s = (int)status;
    bool known = status >= 0;
    set(o, "status", known ? json_integer(status) : json_null());
    set(o, "exit", known && WIFEXITED(s) ? json_integer(WEXITSTATUS(s)) : json_null());
    set(o, "signal", known && WIFSIGNALED(s) ? json_integer(WTERMSIG(s)) : json_null());
}

json_t *tg_ops_history_row(const struct tg_history *h)
{
    json_t *o = json_object();
    bool held = h->held_wall_ms > 0;
    set(o, "ticket", number(h->id));
    set(o, "pid", number(h->pid));
    set(o, "uid", number(h->uid));
    set(o, "kind", json_string_nocheck(tg_ticket_kind_name(h->kind)));
    set(o, "prio", json_integer(h->prio));
    set(o, "tenant", json_string_nocheck(h->tenant));
    set(o, "key", h->key[0] ? json_string_nocheck(h->key) : json_null());
    set(o, "cmd", json_string_nocheck(h->cmd));
    set(o, "cwd", json_string_nocheck(h->cwd));
    set(o, "slots", number(h->slots));
    set(o, "est_mb", number(h->est_mb));
    set(o, "estimate", json_string_nocheck(tg_source_name(h->est_source)));
    set(o, "peak_mb", number_or_null(h->peak_mb, h->peak_mb > 0));
    set(o, "time_ms", number_or_null(h->time_ms, h->time_ms > 0));
    set(o, "verdict", held ? json_string_nocheck(tg_verdict_kind_name(h->verdict)) : json_null());
    set(o, "detached", json_boolean(h->detached));
    set(o, "asked_wall_ms", number(h->asked_wall_ms));
    set(o, "held_wall_ms", number_or_null(h->held_wall_ms, held));
    set(o, "ended_wall_ms", number(h->ended_wall_ms));
    set(o, "waited_ms", number_or_null(h->waited_ms, h->waited_ms != UINT64_MAX));
    set(o, "ran_ms", number_or_null(h->ran_ms, h->ran_ms != UINT64_MAX));
    set(o, "outcome", json_string_nocheck(tg_outcome_name(h->outcome)));
    set_status(o, h->status);
    return o;
}

struct page {
    struct tg_frame_writer w;
    uint64_t since_ms;
    size_t rows;
};

static bool put_row(void *ctx, const struct tg_history *h)
{
    struct page *p = ctx;
    if (h->ended_wall_ms < p->since_ms)
        return false;
    if (p->rows++ > 0)
        tg_frame_put_text(&p->w, ",");
    tg_frame_put_json(&p->w, tg_ops_history_row(h));
    return true;
}

json_t *tg_op_history(struct tg_broker *b, struct tg_peer *peer, const json_t *m)
{
    uint64_t before = UINT64_MAX;
    uint64_t limit = PAGE_ROWS;
    uint64_t last = 0;
    struct page page = {.since_ms = 0};
    uint8_t *bytes;
    size_t len;
    if (tg_field_u64(m, "before", 1, INT64_MAX, &before) == -EINVAL)
        return tg_ops_usage("history", "before must be the number of a row above 0, or null");
    if (tg_field_u64(m, "limit", 1, UINT32_MAX, &limit) == -EINVAL)
        return tg_ops_usage("history", "limit must be a number from 1 to 4294967295, or null");
    if (tg_field_u64(m, "since_wall_ms", 0, INT64_MAX, &page.since_ms) == -EINVAL)
        return tg_ops_usage("history", "since_wall_ms must be a time in ms, or null");
    if (limit > PAGE_ROWS)
        limit = PAGE_ROWS;
    tg_frame_put_text(&page.w, "{\"ok\":true,\"rows\":[");
    int err = tg_store_history_page(b->store, before, (uint32_t)limit, put_row, &page, &last);
    tg_frame_put_text(&page.w, "],\"next\":");
    tg_frame_put_json(&page.w, last > 0 ? number(last) : json_null());
    tg_frame_put_text(&page.w, "}");
    int unsent = tg_frame_finish(&page.w, &bytes, &len);
    if (!err && !unsent) {
        tg_peer_send_frame(peer, bytes, len);
        return NULL;
    }
    if (!unsent)
        free(bytes);
    return err ? tg_error_reply(TG_ERR_STORE, "the history cannot be read (%s)", tg_store_why(b->store))
               : tg_error_reply(TG_ERR_STORE, "out of memory");
}
