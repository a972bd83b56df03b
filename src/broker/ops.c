/* SPDX-License-Identifier: Apache-2.0
 *
 * One handler a message (docs/protocol.md). Messages are input: every field is checked before anything
 * happens, and a refused request has changed nothing. admit has a file of its own.
 */
#include "broker/ops.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "broker/ended.h"
#include "broker/growth.h"
#include "broker/log.h"
#include "broker/outputs.h"
#include "broker/waits.h"

json_t *tg_ops_usage(const char *op, const char *rule)
{
    return tg_error_reply(TG_ERR_USAGE, "%s: %s", op, rule);
}

json_t *tg_ops_store_refused(struct tg_broker *b)
{
    return tg_error_reply(TG_ERR_STORE, "nothing has changed: the store refused (%s)",
                          tg_store_why(b->store));
}

json_t *tg_ops_state_reply(const char *state)
{
    return json_pack("{s:b,s:s}", "ok", 1, "state", state);
}

bool tg_ops_may_touch(const struct tg_peer *peer, const struct tg_ticket *t)
{
    return peer->uid == 0 || peer->uid == t->uid;
}

struct tg_ticket *tg_ops_named(struct tg_broker *b, const struct tg_peer *peer, const json_t *m,
                               const char *op, json_t **ret_error)
{
    uint64_t id;
    if (tg_field_u64(m, "ticket", 1, INT64_MAX, &id)) {
        *ret_error = tg_ops_usage(op, "ticket must be the number of a ticket");
        return NULL;
    }
    struct tg_ticket *t = tg_queue_by_id(&b->queue, id);
    if (!t) {
        *ret_error = tg_error_reply(TG_ERR_GONE, "there is no ticket %llu", (unsigned long long)id);
        return NULL;
    }
    if (!tg_ops_may_touch(peer, t)) {
        *ret_error = tg_error_reply(TG_ERR_DENIED, "ticket %llu belongs to user %u", (unsigned long long)id,
                                    (unsigned)t->uid);
        return NULL;
    }
    return t;
}

static json_t *op_ack(struct tg_broker *b, struct tg_peer *peer, const json_t *m)
{
    json_t *error = NULL;
    struct tg_ticket *t = tg_ops_named(b, peer, m, "ack", &error);
    json_decref(error); /* there is no reply to ack */
    if (!t || t->state != TG_HOLD || t->acked)
        return NULL;
    tg_fault_point("ack.before"); /* the client has sent it, and nothing has come of it */
    t->acked = true;
    if (t->peer == peer)
        tg_peer_detach(t);
    tg_life_touch(b, t);
    return NULL;
}

/* Perhaps because it was stopped when its turn came: then it gives up by itself now. */
static json_t *parked_already(struct tg_ticket *t, const struct tg_peer *peer)
{
    if (t->stopped && t->peer == peer) {
        t->stopped = false;
        tg_peer_detach(t);
    }
    return tg_ops_state_reply("PARKED");
}

static json_t *op_park(struct tg_broker *b, struct tg_peer *peer, const json_t *m)
{
    json_t *error = NULL;
    struct tg_ticket *t = tg_ops_named(b, peer, m, "park", &error);
    if (!t)
        return error;
    /* Another connection waits for it now: this one's giving up concerns nobody else. */
    if (t->state == TG_PARKED || (t->peer && t->peer != peer))
        return parked_already(t, peer);
    if (t->state == TG_HOLD)
        return tg_ops_hold_reply(b, t, NULL);
    if (tg_life_park(b, t) != 0)
        return tg_ops_store_refused(b);
    tg_peer_detach(t);
    return tg_ops_state_reply("PARKED");
}

static json_t *op_prio(struct tg_broker *b, struct tg_peer *peer, const json_t *m)
{
    json_t *error = NULL;
    int64_t prio;
    if (tg_field_i64(m, "prio", INT64_MIN, INT64_MAX, &prio))
        return tg_ops_usage("prio", "prio must be a whole number");
    struct tg_ticket *t = tg_ops_named(b, peer, m, "prio", &error);
    if (!t)
        return error;
    struct tg_ticket row = *t;
    row.prio = prio;
    if (t->saved && tg_store_update(b->store, &row) != 0) {
        tg_broker_store_failed(b);
        return tg_ops_store_refused(b);
    }
    tg_queue_set_request(&b->queue, t, prio, t->est_mb, t->slots);
    b->pass_due = true;
    return tg_ops_state_reply(tg_ticket_state_name(t->state));
}

/* ---- config */

static json_t *config_reply(const struct tg_config *config, const char *only)
{
    json_t *values = json_object();
    for (unsigned i = 0; i < TG_CONFIG_KEYS; i++) {
        char value[TG_CONFIG_VALUE_BYTES];
        if (only && strcmp(only, tg_config_key(i)) != 0)
            continue;
        tg_config_get(config, tg_config_key(i), value, sizeof(value));
        json_object_set_new(values, tg_config_key(i), json_string(value));
    }
    return json_pack("{s:b,s:o}", "ok", 1, "config", values);
}

static json_t *set_config(struct tg_broker *b, const char *key, const char *value)
{
    char why[300];
    char text[TG_CONFIG_VALUE_BYTES];
    struct tg_config changed = b->config;
    if (tg_config_set(&changed, key, value, why, sizeof(why)) != 0)
        return tg_error_reply(TG_ERR_USAGE, "config: %s", why);
    tg_config_get(&changed, key, text, sizeof(text));
    if (tg_store_config_set(b->store, key, text) != 0) {
        tg_broker_store_failed(b);
        return tg_ops_store_refused(b);
    }
    b->config = changed;
    tg_queue_set_heavy(&b->queue, changed.backfill_mb);
    tg_queue_set_order(&b->queue, changed.strict, changed.ageing_ms);
    tg_outputs_mind(b);
    b->pass_due = true;
    return config_reply(&b->config, key);
}

static json_t *op_config(struct tg_broker *b, struct tg_peer *peer, const json_t *m)
{
    const char *key = NULL;
    const char *value = NULL;
    char text[TG_CONFIG_VALUE_BYTES];
    char why[300];
    struct tg_config scratch = b->config;
    if (tg_field_string(m, "key", 256, &key) == -EINVAL ||
        tg_field_string(m, "value", 256, &value) == -EINVAL)
        return tg_ops_usage("config", "key and value must be texts of at most 256 bytes");
    if (!key)
        return value ? tg_ops_usage("config", "a value needs a key") : config_reply(&b->config, NULL);
    if (tg_config_get(&b->config, key, text, sizeof(text)) != 0) {
        tg_config_set(&scratch, key, "", why, sizeof(why));
        return tg_error_reply(TG_ERR_USAGE, "config: %s", why);
    }
    if (!value)
        return config_reply(&b->config, key);
    if (peer->uid != 0 && peer->uid != geteuid())
        return tg_error_reply(TG_ERR_DENIED, "only the broker's own user changes its settings");
    return set_config(b, key, value);
}

static json_t *op_status(struct tg_broker *b, struct tg_peer *peer, const json_t *m)
{
    uint8_t *bytes;
    size_t len;
    (void)m;
    int err = tg_status_frame(b, &bytes, &len);
    if (err)
        return tg_error_reply(TG_ERR_STORE, "status: %s", strerror(-err));
    tg_peer_send_frame(peer, bytes, len);
    return NULL;
}

static json_t *op_stop(struct tg_broker *b, struct tg_peer *peer, const json_t *m)
{
    bool force = false;
    if (tg_field_bool(m, "force", &force) == -EINVAL)
        return tg_ops_usage("stop", "force must be true or false");
    if (peer->uid != 0 && peer->uid != geteuid())
        return tg_error_reply(TG_ERR_DENIED, "only the broker's own user stops it");
    size_t waiting = b->queue.n_waiters + b->queue.n_aside;
    if (waiting > 0 && !force)
        return tg_error_reply(TG_ERR_BUSY, "%zu wait for their turn and would start another broker at once",
                              waiting);
    tg_peer_reply(peer, json_pack("{s:b}", "ok", 1));
    tg_broker_stop(b);
    return NULL;
}

static const struct {
    const char *name;
    tg_op *handle;
} OPS[] = {
    {"ack", op_ack},       {"park", op_park},        {"done", tg_op_done},       {"release", tg_op_release},
    {"status", op_status}, {"cancel", tg_op_cancel}, {"prio", op_prio},          {"config", op_config},
    {"stop", op_stop},     {"hold", tg_op_hold},     {"resume", tg_op_resume},   {"history", tg_op_history},
    {"why", tg_op_why},    {"wait", tg_op_wait},     {"metrics", tg_op_metrics}, {"resize", tg_op_resize},
};

/* Whether it may ask the store for what has just ended. Those that come with every launch do not. */
static bool may_read_ends(const char *op)
{
    return strcmp(op, "admit") != 0 && strcmp(op, "done") != 0 && strcmp(op, "ack") != 0 &&
           strcmp(op, "park") != 0;
}

void tg_ops_handle(struct tg_broker *b, struct tg_peer *peer, const json_t *message)
{
    const char *op;
    b->served_ms = tg_broker_now_ms(b);
    if (tg_field_string(message, "op", 64, &op)) {
        tg_peer_reply(peer, tg_error_reply(TG_ERR_USAGE, "a message needs an op"));
        return;
    }
    if (!b->store_failing && may_read_ends(op))
        (void)tg_ended_write(b, true);
    json_t *error = tg_ops_other_store(b, message);
    if (error) {
        if (strcmp(op, "ack") == 0) /* which is never answered */
            json_decref(error);
        else
            tg_peer_reply(peer, error);
        return;
    }
    if (strcmp(op, "admit") == 0) {
        tg_ops_admit(b, peer, message);
        return;
    }
    for (size_t i = 0; i < sizeof(OPS) / sizeof(OPS[0]); i++) {
        if (strcmp(op, OPS[i].name) == 0) {
            json_t *reply = OPS[i].handle(b, peer, message);
            if (reply)
                tg_peer_reply(peer, reply);
            return;
        }
    }
    tg_peer_reply(peer, tg_error_reply(TG_ERR_USAGE, "there is no op '%.60s'", op));
}
