/* SPDX-License-Identifier: Apache-2.0
 *
 * The messages that end a ticket: done (the wrapper's word), release, cancel. What they set in motion where
 * processes are concerned is in survivors.c and cancel.c.
 */
#include "broker/ops.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "broker/ended.h"
#include "broker/growth.h"
#include "broker/survivors.h"
#include "broker/waits.h"

#define GRACE_MS 5000u
#define GRACE_MAX_MS UINT64_C(86400000)

static json_t *released_reply(unsigned n)
{
    return json_pack("{s:b,s:i}", "ok", 1, "released", (int)n);
}

/* The answer to done; a job that used far more than it said is told so (M14). */
static json_t *done_reply(unsigned n, uint64_t peak_mb, uint64_t est_mb)
{
    char note[200];
    json_t *reply = released_reply(n);
    if (tg_growth_is_over(peak_mb, est_mb)) {
        snprintf(note, sizeof(note), "it used %llu MB, its estimate was %llu MB", (unsigned long long)peak_mb,
                 (unsigned long long)est_mb);
        json_object_set_new(reply, "note", json_string(note));
    }
    return reply;
}

struct word {
    uint64_t id;
    uint64_t status;
    uint64_t peak_mb;
    uint64_t left;
    bool left_known;
    bool oom;
    bool kept;
    bool quiet;
};

static const char *read_word(const json_t *m, struct word *w)
{
    if (tg_field_u64(m, "ticket", 1, INT64_MAX, &w->id))
        return "ticket must be the number of a ticket";
    if (tg_field_u64(m, "status", 0, INT32_MAX, &w->status))
        return "status must be a wait status";
    if (tg_field_u64(m, "peak_mb", 0, TG_EST_MAX_MB, &w->peak_mb) == -EINVAL)
        return "peak_mb must be a size in MB, or null";
    int err = tg_field_u64(m, "left", 0, 1, &w->left);
    if (err == -EINVAL || tg_field_bool(m, "oom", &w->oom) == -EINVAL)
        return "left must be 0 or 1 and oom true or false, where they are given";
    w->left_known = err == 0;
    if (tg_field_bool(m, "kept", &w->kept) == -EINVAL || tg_field_bool(m, "quiet", &w->quiet) == -EINVAL)
        return "kept and quiet must be true or false, where they are given";
    return NULL;
}

static json_t *not_yours(uint64_t id, uid_t uid)
{
    return tg_error_reply(TG_ERR_DENIED, "ticket %llu belongs to user %u", (unsigned long long)id,
                          (unsigned)uid);
}

/* It has ended already: the pidfd was quicker. */
static json_t *done_late(struct tg_broker *b, const struct tg_peer *peer, const struct word *w)
{
    struct tg_filled filled;
    enum tg_outcome outcome = tg_outcome_of_status((int64_t)w->status, w->oom);
    struct tg_ended *e = tg_ended_find(b, w->id);
    if (e && !tg_ops_may_touch(peer, e->end.ticket))
        return not_yours(w->id, e->end.ticket->uid);
    if (e && e->end.status < 0) {
        tg_ended_word(b, e, (int64_t)w->status, outcome, w->peak_mb, w->kept);
        tg_waits_status(b, w->id, outcome, (int64_t)w->status);
        return done_reply(0, e->end.ticket->peak_mb, e->end.ticket->est_mb);
    }
    if (e)
        return done_reply(0, 0, 0);
    int err =
        tg_store_fill_status(b->store, w->id, peer->uid, (int64_t)w->status, outcome, w->peak_mb, &filled);
    if (err == -EPERM)
        return not_yours(w->id, filled.uid);
    if (err)
        return tg_ops_store_refused(b);
    if (filled.found)
        tg_waits_status(b, w->id, outcome, (int64_t)w->status);
    return done_reply(0, filled.peak_mb, filled.est_mb);
}

static json_t *done(struct tg_broker *b, struct tg_peer *peer, const struct word *word)
{
    const struct word w = *word;
    struct tg_ticket *t = tg_queue_by_id(&b->queue, w.id);
    if (!t)
        return done_late(b, peer, &w);
    if (!tg_ops_may_touch(peer, t))
        return not_yours(w.id, t->uid);
    /* The word of a nested wrapper, or of somebody confused, must not free what still runs. */
    if (!t->main_ended && !tg_watch_is_dead(b, t))
        return tg_error_reply(TG_ERR_BUSY, "the owner of ticket %llu, process %d, has not ended",
                              (unsigned long long)w.id, (int)t->owner.pid);
    bool first = t->main_status < 0;
    if (first) {
        t->main_status = (int32_t)w.status;
        t->main_oom = w.oom;
        t->word_kept = w.kept;
    }
    tg_growth_saw(b, t, w.peak_mb);
    uint64_t peak_mb = t->peak_mb;
    uint64_t est_mb = t->est_mb;
    if (t->main_ended && !t->awaits_word && first)
        tg_life_touch(b, t);
    else
        tg_survivors_main_ended(b, t, w.left_known ? (int)w.left : -1);
    t = tg_queue_by_id(&b->queue, w.id);
    if (t && t->main_ended && t->look != TG_LOOK_NO) /* the answer says whether the ticket goes on */
        tg_survivors_settle(b, t);
    return done_reply(tg_queue_by_id(&b->queue, w.id) ? 0 : 1, peak_mb, est_mb);
}

/* A wrapper that has no use for the answer ends, and so does its connection: no event of its own. */
json_t *tg_op_done(struct tg_broker *b, struct tg_peer *peer, const json_t *m)
{
    struct word w = {0};
    const char *wrong = read_word(m, &w);
    json_t *reply = wrong ? tg_ops_usage("done", wrong) : done(b, peer, &w);
    if (!w.quiet)
        return reply;
    json_decref(reply);
    tg_peer_close(peer);
    return NULL;
}

/* A step of a process has a number, and is released by it. */
static json_t *release_one(struct tg_broker *b, struct tg_peer *peer, const json_t *m)
{
    uint64_t id;
    json_t *error = NULL;
    if (tg_field_u64(m, "ticket", 1, INT64_MAX, &id) == 0 && !tg_queue_by_id(&b->queue, id))
        return released_reply(0);
    struct tg_ticket *t = tg_ops_named(b, peer, m, "release", &error);
    if (!t)
        return error;
    if (t->kind != TG_KIND_WAIT_ADMIT)
        return tg_error_reply(TG_ERR_BUSY, "ticket %llu is a command's: it ends with it",
                              (unsigned long long)t->id);
    if (tg_life_end(b, t, TG_OUTCOME_RELEASED, -1, TG_ERR_GONE, "it was released") != 0)
        return tg_ops_store_refused(b);
    return released_reply(1);
}

/* The command of that number has ended, what it started keeps its ticket: the number names nobody any more,
 * but whoever read it in status is told which ticket it is. */
static json_t *release_nobody(const struct tg_broker *b, pid_t pid)
{
    const struct tg_queue *q = &b->queue;
    json_t *reply = released_reply(0);
    for (size_t i = 0; i < q->n_holders; i++) {
        if (q->holders[i]->main_ended && q->holders[i]->owner.pid == pid)
            json_object_set_new(reply, "left", json_integer((json_int_t)q->holders[i]->id));
    }
    return reply;
}

json_t *tg_op_release(struct tg_broker *b, struct tg_peer *peer, const json_t *m)
{
    int64_t pid;
    if (json_object_get(m, "ticket"))
        return release_one(b, peer, m);
    if (tg_field_i64(m, "pid", 2, INT32_MAX, &pid))
        return tg_ops_usage("release", "pid must be a process number above 1");
    struct tg_ticket *t = tg_queue_by_pid(&b->queue, (pid_t)pid);
    if (!t)
        return release_nobody(b, (pid_t)pid);
    if (!tg_ops_may_touch(peer, t))
        return tg_error_reply(TG_ERR_DENIED, "the ticket of process %d belongs to user %u", (int)pid,
                              (unsigned)t->uid);
    if (tg_life_end(b, t, TG_OUTCOME_RELEASED, -1, TG_ERR_GONE, "it was released") != 0)
        return tg_ops_store_refused(b);
    return released_reply(1);
}

/* A run that holds is told to end, with all that it started; the answer comes when nobody is left. */
static json_t *cancel_run(struct tg_broker *b, struct tg_peer *peer, struct tg_ticket *t, uint64_t grace_ms)
{
    uint64_t id = t->id;
    bool before = t->cancelled;
    t->cancelled = true;
    int rc = tg_cancel_start(b, t, grace_ms);
    if (rc < 0) {
        t->cancelled = before;
        return tg_error_reply(TG_ERR_DENIED, "ticket %llu: process %d cannot be signalled: %s",
                              (unsigned long long)id, (int)t->owner.pid, strerror(-rc));
    }
    if (!before)
        tg_life_touch(b, t);
    tg_cancel_await(peer, t);
    return NULL;
}

json_t *tg_op_cancel(struct tg_broker *b, struct tg_peer *peer, const json_t *m)
{
    json_t *error = NULL;
    uint64_t grace_ms = GRACE_MS;
    if (tg_field_u64(m, "grace_ms", 0, GRACE_MAX_MS, &grace_ms) == -EINVAL)
        return tg_ops_usage("cancel", "grace_ms must be a number of milliseconds, at most a day");
    struct tg_ticket *t = tg_ops_named(b, peer, m, "cancel", &error);
    if (!t)
        return error;
    if (t->state == TG_HOLD && t->kind == TG_KIND_RUN)
        return cancel_run(b, peer, t, grace_ms);
    if (tg_life_end(b, t, TG_OUTCOME_CANCELLED, -1, TG_ERR_CANCELLED, "it was cancelled") != 0)
        return tg_ops_store_refused(b);
    return tg_ops_state_reply("DONE");
}
