/* SPDX-License-Identifier: Apache-2.0
 *
 * The message admit: who asks for what, and whether that owner has a ticket already (A7), passes under
 * another's (A6), can never be served, or queues. The answer to one that queues comes from the decision.
 */
#include "broker/broker.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/parse.h"
#include "broker/explain.h"
#include "broker/learn.h"
#include "broker/survivors.h"
#include "proto/fields.h"

struct request {
    enum tg_ticket_kind kind;
    pid_t pid;
    uint64_t step; /* which of several of that process; 0: its only one */
    int64_t prio;
    struct tg_estimate estimate;
    uint32_t max_conc;
    uint32_t slots;
    bool strict;
    char tenant[TG_TENANT_BYTES + 8];
    char *cmd; /* owned, like cwd */
    char *cwd;
    bool reaper; /* its parent adopts the orphans of its tree */
    bool detached;
    struct tg_kin kin;
    int owner_fd;       /* a pidfd of the owner, or -1 */
    const char *parent; /* borrowed from the message, or NULL */
    const char *key;    /* "": none */
    bool tell_existing; /* that key in use: say by whom, instead of refusing */
};

/* A refusal under way: nothing has been changed. */
static int refuse(json_t **ret_error, const char *code, const char *rule)
{
    *ret_error = tg_error_reply(code, "admit: %s", rule);
    return -EINVAL;
}

static int read_kind(const json_t *m, struct request *r, json_t **ret_error)
{
    const char *kind;
    if (tg_field_string(m, "kind", 16, &kind))
        return refuse(ret_error, TG_ERR_USAGE, "kind must be run or wait-admit");
    if (strcmp(kind, "run") == 0)
        r->kind = TG_KIND_RUN;
    else if (strcmp(kind, "wait-admit") == 0)
        r->kind = TG_KIND_WAIT_ADMIT;
    else
        return refuse(ret_error, TG_ERR_USAGE, "kind must be run or wait-admit");
    return 0;
}

/* An optional number: absent or null leaves *value. */
static int read_number(const json_t *m, const char *key, uint64_t min, uint64_t max, uint64_t *value,
                       json_t **ret_error)
{
    int err = tg_field_u64(m, key, min, max, value);
    if (err != -EINVAL)
        return 0;
    *ret_error = tg_error_reply(TG_ERR_USAGE, "admit: %s must be a number from %llu to %llu, or null", key,
                                (unsigned long long)min, (unsigned long long)max);
    return -EINVAL;
}

static int read_numbers(const json_t *m, struct request *r, json_t **ret_error)
{
    int64_t pid;
    uint64_t ticket = 0;
    uint64_t est = UINT64_MAX;
    uint64_t max_conc = TG_UNLIMITED;
    uint64_t slots = 1;
    uint64_t time_ms = UINT64_MAX;
    if (tg_field_i64(m, "pid", 2, INT32_MAX, &pid) || pid == getpid())
        return refuse(
            ret_error, TG_ERR_USAGE,
            "pid must be the number of a process of yours (0, 1, negative ones and the broker's own "
            "are refused)");
    if (tg_field_i64(m, "prio", INT64_MIN, INT64_MAX, &r->prio))
        return refuse(ret_error, TG_ERR_USAGE, "prio must be a whole number");
    int err = read_number(m, "est_mb", 0, TG_EST_MAX_MB, &est, ret_error);
    if (!err)
        err = read_number(m, "max_conc", 1, UINT32_MAX, &max_conc, ret_error);
    if (!err)
        err = read_number(m, "slots", 0, TG_SLOTS_MAX, &slots, ret_error);
    if (!err)
        err = read_number(m, "time_ms", 0, TG_TIME_MAX_MS, &time_ms, ret_error);
    if (!err)
        err = read_number(m, "step", 1, INT64_MAX, &r->step, ret_error);
    if (!err)
        err = read_number(m, "ticket", 0, INT64_MAX, &ticket, ret_error); /* a hint; the owner decides */
    if (err)
        return err;
    if (r->step && r->kind != TG_KIND_WAIT_ADMIT)
        return refuse(ret_error, TG_ERR_USAGE, "step goes with the kind wait-admit alone");
    r->pid = (pid_t)pid;
    r->estimate.est_source = est != UINT64_MAX ? TG_SOURCE_STATED : TG_SOURCE_DEFAULT;
    r->estimate.est_mb = est != UINT64_MAX ? est : 0;
    r->max_conc = (uint32_t)max_conc;
    r->slots = (uint32_t)slots;
    r->estimate.time_source = time_ms != UINT64_MAX ? TG_SOURCE_STATED : TG_SOURCE_NONE;
    r->estimate.time_ms = time_ms != UINT64_MAX ? time_ms : 0;
    return 0;
}

static int read_flags(const json_t *m, struct request *r, json_t **ret_error)
{
    if (tg_field_bool(m, "reaper", &r->reaper) == -EINVAL ||
        tg_field_bool(m, "detached", &r->detached) == -EINVAL)
        return refuse(ret_error, TG_ERR_USAGE, "reaper and detached must be true or false, or null");
    return 0;
}

static int read_key(const json_t *m, struct request *r, json_t **ret_error)
{
    const char *then = "refuse";
    r->key = "";
    if (tg_field_string(m, "key", TG_KEY_BYTES, &r->key) == -EINVAL || !tg_key_valid(r->key))
        return refuse(ret_error, TG_ERR_USAGE,
                      "key must be a text of at most 256 bytes without control characters, or null");
    if (tg_field_string(m, "if_exists", 16, &then) == -EINVAL ||
        (strcmp(then, "refuse") != 0 && strcmp(then, "tell") != 0))
        return refuse(ret_error, TG_ERR_USAGE, "if_exists must be refuse or tell, or null");
    r->tell_existing = strcmp(then, "tell") == 0;
    return 0;
}

static int read_texts(const json_t *m, struct request *r, uid_t uid, json_t **ret_error)
{
    const char *tenant = NULL;
    const char *cmd = "";
    const char *cwd = "";
    if (tg_field_bool(m, "strict", &r->strict) == -EINVAL)
        return refuse(ret_error, TG_ERR_USAGE, "strict must be true or false, or null");
    if (tg_field_string(m, "tenant", TG_TENANT_BYTES, &tenant) == -EINVAL || (tenant && !tenant[0]))
        return refuse(ret_error, TG_ERR_USAGE, "tenant must be a text of 1 to 256 bytes, or null");
    if (tg_field_string(m, "cmd", TG_REQUEST_MAX_BYTES, &cmd) == -EINVAL ||
        tg_field_string(m, "cwd", TG_REQUEST_MAX_BYTES, &cwd) == -EINVAL)
        return refuse(ret_error, TG_ERR_USAGE, "cmd and cwd must be texts, or null");
    if (tg_field_string(m, "parent", TG_PARENT_BYTES, &r->parent) == -EINVAL)
        return refuse(ret_error, TG_ERR_USAGE, "parent must be a text, or null");
    int err = read_key(m, r, ret_error);
    if (err)
        return err;
    if (tenant) {
        char *shown = tg_display_text(tenant, TG_TENANT_BYTES);
        snprintf(r->tenant, sizeof(r->tenant), "%s", shown ? shown : "");
        free(shown);
    } else {
        snprintf(r->tenant, sizeof(r->tenant), "uid:%u", (unsigned)uid);
    }
    r->cmd = tg_display_text(cmd, TG_CMD_BYTES);
    r->cwd = tg_display_text(cwd, TG_CWD_BYTES);
    return r->cmd && r->cwd ? 0 : refuse(ret_error, TG_ERR_STORE, "out of memory");
}

static void request_done(struct request *r)
{
    free(r->cmd);
    free(r->cwd);
    if (r->owner_fd >= 0)
        close(r->owner_fd);
}

/* The owner's identity, and that it is the caller's to name. */
static int find_owner(struct tg_broker *b, const struct tg_peer *peer, struct request *r,
                      struct tg_owner *ret, json_t **ret_error)
{
    uid_t uid;
    int err = tg_owner_open(&b->root, r->pid, ret, &r->kin, &r->owner_fd);
    if (!err && geteuid() != 0 && peer->uid != 0)
        err = tg_proc_uid(&b->root, r->pid, &uid) ? -ESRCH : uid == peer->uid ? 0 : -EPERM;
    if (!err)
        return 0;
    if (err == -EPERM)
        *ret_error = tg_error_reply(TG_ERR_USAGE, "admit: process %d belongs to another user", (int)r->pid);
    else if (err == -ESRCH)
        *ret_error = tg_error_reply(TG_ERR_USAGE, "admit: there is no process %d", (int)r->pid);
    else
        *ret_error = tg_error_reply(TG_ERR_USAGE, "admit: process %d cannot be identified: %s", (int)r->pid,
                                    strerror(-err));
    return err;
}

/* ---- A6 */

/* "ID:STORE-UUID" of a ticket of this store that is held; NULL otherwise (stale values are no error: the
 * launch queues like any other). */
static struct tg_ticket *named_parent(struct tg_broker *b, const char *parent)
{
    char id_text[24];
    uint64_t id;
    const char *colon = parent ? strchr(parent, ':') : NULL;
    if (!colon || (size_t)(colon - parent) >= sizeof(id_text) || strcmp(colon + 1, tg_store_uuid(b->store)))
        return NULL;
    memcpy(id_text, parent, (size_t)(colon - parent));
    id_text[colon - parent] = '\0';
    if (tg_parse_u64(id_text, 1, INT64_MAX, &id))
        return NULL;
    struct tg_ticket *t = tg_queue_by_id(&b->queue, id);
    if (!t || t->state != TG_HOLD)
        return NULL;
    /* Its command has just ended: does the caller's tree keep it? Who keeps a ticket must not wait for it. */
    if (!t->main_ended && tg_watch_is_dead(b, t))
        tg_survivors_main_ended(b, t, -1);
    t = tg_queue_by_id(&b->queue, id);
    if (t)
        tg_survivors_ask(b, t);
    t = tg_queue_by_id(&b->queue, id);
    if (t && t->main_ended && t->look != TG_LOOK_NO)
        tg_survivors_settle(b, t);
    return tg_queue_by_id(&b->queue, id);
}

struct ancestry {
    struct tg_broker *broker;
    struct tg_ticket *found;
};

static bool holds(void *ctx, pid_t pid)
{
    struct ancestry *a = ctx;
    struct tg_ticket *t = tg_queue_by_pid(&a->broker->queue, pid);
    if (!t || t->state != TG_HOLD || tg_watch_is_dead(a->broker, t))
        return false;
    a->found = t;
    return true;
}

static struct tg_ticket *held_parent(struct tg_broker *b, const struct request *r)
{
    struct tg_ticket *t = named_parent(b, r->parent);
    if (t || b->queue.n_holders == 0)
        return t;
    struct ancestry a = {.broker = b};
    tg_proc_walk_up(&b->root, r->pid, holds, &a);
    return a.found;
}

/* ---- estimates */

/* The most that a job may ask for here and still start some day. */
static uint64_t most_mb(const struct tg_broker *b, const struct tg_gates *gates)
{
    uint64_t most = b->total_mb ? tg_sat_sub_u64(b->total_mb, gates->floor_mb) : UINT64_MAX;
    return most < gates->budget_mb ? most : gates->budget_mb;
}

/* The estimate in force, and whether such a job could ever start; *ret_error says why not. */
static int fit(struct tg_broker *b, uid_t uid, struct request *r, json_t **ret_error)
{
    struct tg_gates gates = tg_admit_gates(b);
    struct tg_usage usage = {0};
    struct tg_verdict v = {0};
    usage.mem_total_mb = b->total_mb;
    struct tg_estimate *e = &r->estimate;
    tg_learn(b, uid, r->cmd, r->cwd, r->key, e);
    if (e->est_source == TG_SOURCE_DEFAULT)
        e->est_mb = b->config.default_mb;
    if (e->est_source != TG_SOURCE_STATED) { /* a job that states nothing is never too large */
        uint64_t most = most_mb(b, &gates);
        e->est_mb = e->est_mb < most ? e->est_mb : most;
    }
    struct tg_candidate c = {.est_mb = r->estimate.est_mb, .slots = r->slots};
    if (tg_never_fits(&gates, &usage, &c, &v) == TG_WHY_NONE)
        return 0;
    char text[200];
    tg_explain_never(&v, text, sizeof(text));
    *ret_error = tg_error_reply(TG_ERR_NEVER_FITS, "can never start here: %s", text);
    return -E2BIG;
}

/* ---- the answers */

json_t *tg_ops_hold_reply(const struct tg_broker *b, const struct tg_ticket *t, const char *verdict)
{
    char env[80];
    snprintf(env, sizeof(env), "%llu:%s", (unsigned long long)t->id, tg_store_uuid(b->store));
    return json_pack("{s:b,s:s,s:I,s:s,s:s,s:I}", "ok", 1, "state", "HOLD", "ticket", (json_int_t)t->id,
                     "verdict", verdict ? verdict : tg_verdict_kind_name(t->verdict), "env", env,
                     "granted_boot_ns", (json_int_t)tg_clock_read_ns(CLOCK_BOOTTIME));
}

/* From here on the decision answers. */
static int await(struct tg_broker *b, struct tg_peer *peer, struct tg_ticket *t)
{
    int err = tg_admit_fresh(b, t);
    if (err)
        return err;
    tg_peer_attach(peer, t);
    peer->blocked = true;
    return 0;
}

/* Another connection takes over the wait for this owner. */
static void take_over(struct tg_broker *b, struct tg_peer *peer, struct tg_ticket *t)
{
    struct tg_peer *former = t->peer;
    bool due = t->reply_due;
    if (!former || former == peer)
        return;
    if (t->state != TG_HOLD) /* that one has its answer */
        tg_peer_reply(
            former, tg_error_reply(TG_ERR_GONE, "another call waits for process %d now", (int)t->owner.pid));
    tg_peer_detach(t);
    if (due) {
        tg_admit_forget(b, t);
        tg_peer_unblock(former);
    }
}

static void already_held(struct tg_broker *b, struct tg_peer *peer, struct tg_ticket *t)
{
    tg_life_came_back(b, t);
    take_over(b, peer, t);
    if (!t->acked)
        tg_peer_attach(peer, t); /* until it acknowledges */
    tg_peer_reply(peer, tg_ops_hold_reply(b, t, "already"));
}

/* Who belongs to it besides the owner (A4). */
static void set_family(struct tg_ticket *t, const struct request *r)
{
    t->session = r->kin.session;
    t->reaper = r->reaper ? r->kin.parent : 0;
}

/* A7: the old place. A changed request replaces the old one. */
static json_t *resume(struct tg_broker *b, struct tg_peer *peer, struct request *r, struct tg_ticket *t)
{
    json_t *error = NULL;
    if (fit(b, peer->uid, r, &error))
        return error;
    struct tg_ticket row = *t;
    row.state = TG_WAIT;
    row.prio = r->prio;
    row.est_mb = r->estimate.est_mb;
    row.est_source = r->estimate.est_source;
    row.time_ms = r->estimate.time_ms;
    row.time_source = r->estimate.time_source;
    row.slots = r->slots;
    row.max_conc = r->max_conc;
    row.strict = r->strict;
    set_family(&row, r);
    bool same = t->state == TG_WAIT && t->prio == r->prio && t->est_mb == r->estimate.est_mb &&
                t->slots == r->slots && t->max_conc == r->max_conc &&
                t->est_source == r->estimate.est_source && t->time_ms == r->estimate.time_ms &&
                t->time_source == r->estimate.time_source && t->session == row.session &&
                t->reaper == row.reaper && t->strict == r->strict;
    if (t->saved && !same && tg_store_update(b->store, &row) != 0) {
        tg_broker_store_failed(b);
        return tg_error_reply(TG_ERR_STORE, "the store refused (%s)", tg_store_why(b->store));
    }
    take_over(b, peer, t);
    if (await(b, peer, t))
        return tg_error_reply(TG_ERR_STORE, "out of memory");
    tg_life_came_back(b, t);
    t->est_source = row.est_source;
    t->time_ms = row.time_ms;
    t->time_source = row.time_source;
    t->max_conc = row.max_conc;
    t->strict = row.strict;
    set_family(t, r);
    t->stopped = false;
    tg_queue_set_request(&b->queue, t, r->prio, r->estimate.est_mb, r->slots);
    if (t->state != TG_WAIT)
        tg_queue_set_state(&b->queue, t, TG_WAIT);
    b->pass_due = true;
    return NULL;
}

static json_t *enqueue(struct tg_broker *b, struct tg_peer *peer, struct request *r,
                       const struct tg_owner *owner)
{
    json_t *error = NULL;
    if (fit(b, peer->uid, r, &error))
        return error;
    struct tg_ticket *t = tg_ticket_new(r->tenant, r->cmd, r->cwd, r->key);
    if (!t)
        return tg_error_reply(TG_ERR_STORE, "out of memory");
    t->id = b->next_id;
    t->owner = *owner;
    t->step = r->step;
    t->uid = peer->uid;
    t->kind = r->kind;
    t->state = TG_WAIT;
    t->prio = r->prio;
    t->est_mb = r->estimate.est_mb;
    t->est_source = r->estimate.est_source;
    t->time_ms = r->estimate.time_ms;
    t->time_source = r->estimate.time_source;
    t->slots = r->slots;
    t->max_conc = r->max_conc;
    t->strict = r->strict;
    t->detached = r->detached;
    set_family(t, r);
    t->asked_boot_ms = tg_clock_boot_ms();
    t->asked_wall_ms = tg_clock_wall_ms();
    int fd = r->owner_fd;
    r->owner_fd = -1;
    if (fd >= 0 ? tg_watch_take(b, t, fd) : tg_watch_start(b, t)) {
        tg_ticket_free(t);
        return tg_error_reply(TG_ERR_USAGE, "admit: process %d has just ended", (int)r->pid);
    }
    if (tg_queue_add(&b->queue, t) != 0) {
        tg_life_free(b, t);
        return tg_error_reply(TG_ERR_STORE, "out of memory");
    }
    b->next_id++;
    if (await(b, peer, t)) {
        tg_queue_remove(&b->queue, t);
        tg_life_free(b, t);
        return tg_error_reply(TG_ERR_STORE, "out of memory");
    }
    uv_timer_stop(&b->idle_timer);
    return NULL;
}

/* V8: the same thing waits or runs already. Nothing is enqueued. */
static json_t *exists(const struct request *r, const struct tg_ticket *t)
{
    const char *state = tg_ticket_state_name(t->state);
    if (r->tell_existing)
        return json_pack("{s:b,s:s,s:I,s:i,s:s,s:s}", "ok", 1, "state", "EXISTS", "ticket", (json_int_t)t->id,
                         "pid", (int)t->owner.pid, "existing", state, "cmd", t->cmd);
    return tg_error_reply(TG_ERR_EXISTS, "key '%s' is in use: ticket %llu %s (process %d: %.200s)", r->key,
                          (unsigned long long)t->id, t->state == TG_HOLD ? "runs" : "waits",
                          (int)t->owner.pid, t->cmd);
}

/* The ticket of this very process; one that a former process of the same number left ends here. Start times
 * are counted in hundredths of a second: a number that comes again within one is told apart by the pidfd,
 * which stays with the process it was opened on. */
static struct tg_ticket *ticket_of_owner(struct tg_broker *b, const struct tg_owner *owner, uint64_t step)
{
    struct tg_ticket *t = step ? tg_queue_by_step(&b->queue, step) : tg_queue_by_pid(&b->queue, owner->pid);
    if (!t || (t->owner.pid != owner->pid && !tg_watch_is_dead(b, t)) ||
        (t->owner.start_ticks == owner->start_ticks &&
         memcmp(t->owner.boot_id, owner->boot_id, sizeof(owner->boot_id)) == 0 && !tg_watch_is_dead(b, t)))
        return t;
    tg_survivors_main_ended(b, t, -1);
    return NULL;
}

static json_t *decide(struct tg_broker *b, struct tg_peer *peer, struct request *r)
{
    struct tg_owner owner;
    json_t *error = NULL;
    if (find_owner(b, peer, r, &owner, &error))
        return error;
    struct tg_ticket *t = ticket_of_owner(b, &owner, r->step);
    if (t && t->owner.pid != owner.pid)
        return tg_error_reply(TG_ERR_USAGE, "admit: that step is one of process %d", (int)t->owner.pid);
    if (t && t->state == TG_HOLD) {
        already_held(b, peer, t);
        return NULL;
    }
    /* What outlives its terminal outlives the ticket it was started under too. */
    struct tg_ticket *parent = r->detached ? NULL : held_parent(b, r);
    if (parent)
        return tg_ops_hold_reply(b, parent, "nested");
    if (t)
        return resume(b, peer, r, t);
    t = tg_keys_find(&b->queue.by_key, peer->uid, r->key);
    return t ? exists(r, t) : enqueue(b, peer, r, &owner);
}

void tg_ops_admit(struct tg_broker *b, struct tg_peer *peer, const json_t *message)
{
    struct request r = {.owner_fd = -1};
    json_t *reply = NULL;
    int err = read_kind(message, &r, &reply);
    if (!err)
        err = read_numbers(message, &r, &reply);
    if (!err)
        err = read_flags(message, &r, &reply);
    if (!err)
        err = read_texts(message, &r, peer->uid, &reply);
    if (!err)
        reply = decide(b, peer, &r);
    request_done(&r);
    if (reply)
        tg_peer_reply(peer, reply);
}
