/* SPDX-License-Identifier: Apache-2.0
 * See turn.h. Keeps A7 and A8 for whoever waits: the request that was lost with its broker is sent to the
 * next one, which knows it again. A grant counts when the broker has heard that it arrived (S3). */
#include "client/turn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

static bool is_final(int err)
{
    return err == -ECANCELED || err == -ESRCH || err == -EFBIG || err == -EEXIST || err == -EINVAL;
}

static int ended(struct tg_turn *t, int err)
{
    t->state = TG_TURN_ENDED;
    t->err = err;
    tg_client_disconnect(&t->c);
    return err;
}

static int next(struct tg_turn *t, uint64_t deadline_ns)
{
    json_t *message;
    int err = tg_client_recv(&t->c, deadline_ns, &message);
    if (err)
        return err;
    err = tg_admit_read(&t->c, message, &t->answer);
    json_decref(message);
    return err;
}

/* Sends the request over a new connection and takes the first answer. */
static int ask(struct tg_turn *t)
{
    int err = tg_client_connect(&t->c);
    if (!err && t->connected)
        t->connected(t->ctx, t->c.fd);
    if (!err)
        err = tg_client_send(&t->c, t->request);
    return err ? err : next(t, tg_deadline_ns(TG_CLIENT_REPLY_MS));
}

/* Says that the grant has arrived, and asks whether it stands: what the broker answers next it answers after
 * it has read that. 0; -ECANCELED: it has ended meanwhile; -ECONNRESET: ask anew. */
static int acknowledge(struct tg_turn *t)
{
    json_t *ack = json_pack("{s:s,s:I}", "op", "ack", "ticket", (json_int_t)t->answer.ticket);
    json_t *wait =
        json_pack("{s:s,s:[I],s:b}", "op", "wait", "tickets", (json_int_t)t->answer.ticket, "now", 1);
    json_t *reply = NULL;
    uint64_t left;
    int err = ack && wait ? tg_client_send(&t->c, ack) : tg_client_fail(&t->c, -ENOMEM, "no memory");
    if (!err)
        err = tg_client_send(&t->c, wait);
    if (!err)
        err = tg_client_recv(&t->c, tg_deadline_ns(TG_CLIENT_REPLY_MS), &reply);
    if (!err && tg_field_u64(reply, "left", 1, 1, &left))
        err = tg_client_fail(&t->c, -ECANCELED, "it was cancelled as its turn came");
    json_decref(reply);
    json_decref(ack);
    json_decref(wait);
    if (err)
        tg_client_disconnect(&t->c); /* asked anew, it is known again */
    return err;
}

static int granted(struct tg_turn *t)
{
    int err = 0;
    if (t->acknowledges && strcmp(t->answer.verdict, "nested") != 0)
        err = acknowledge(t);
    if (err)
        return err;
    t->state = TG_TURN_HAS;
    t->answer.text[0] = '\0';
    tg_client_disconnect(&t->c);
    return 0;
}

/* One step: an answer that is there, or the request anew. */
static int advance(struct tg_turn *t, uint64_t deadline_ns)
{
    int err = t->c.fd < 0 ? ask(t) : next(t, deadline_ns);
    if (!err && t->answer.state == TG_ADMIT_HOLD)
        return granted(t);
    if (!err && t->answer.state != TG_ADMIT_WAIT)
        err = tg_client_fail(&t->c, -EPROTO, "the broker's answer is none to this request");
    return err ? err : -EAGAIN;
}

static int failed(struct tg_turn *t, int err)
{
    tg_launch_failed(err, t->c.text);
    if (is_final(err))
        return ended(t, err);
    if (err != -ETIMEDOUT)
        tg_client_disconnect(&t->c);
    return err;
}

/* Goes on until there is an answer to go by, from whatever broker. -EAGAIN: it waits. */
static int advance_until(struct tg_turn *t, uint64_t deadline_ns)
{
    bool asks;
    int err;
    do {
        asks = t->c.fd < 0;
        err = advance(t, deadline_ns);
        if (!err || err == -EAGAIN)
            tg_lost_answered(&t->lost);
    } while (tg_lost_try_again(&t->c, &t->lost, err, deadline_ns));
    if (err == -ETIMEDOUT && asks)
        tg_client_disconnect(&t->c); /* a late answer must not meet the next request */
    return err;
}

int tg_turn_wait(struct tg_turn *t, uint64_t deadline_ns)
{
    while (t->state == TG_TURN_WAITS) {
        int err = advance_until(t, deadline_ns);
        if (err && err != -EAGAIN)
            return failed(t, err);
    }
    return t->state == TG_TURN_HAS ? 0 : tg_launch_failed(t->err, t->c.text);
}

int tg_turn_begin(struct tg_turn *t, const struct tg_launch *launch, const struct tg_admit_ask *asked,
                  void (*connected)(void *ctx, int fd), void *ctx)
{
    *t = (struct tg_turn){.c = launch->model, .connected = connected, .ctx = ctx};
    t->acknowledges = strcmp(asked->kind, "wait-admit") == 0;
    t->request = tg_admit_message(asked);
    if (!t->request)
        return tg_launch_failed(-ENOMEM, NULL);
    int err = advance_until(t, TG_NO_DEADLINE);
    if (!err || err == -EAGAIN)
        return 0;
    tg_launch_failed(err, t->c.text);
    tg_turn_done(t);
    return err;
}

void tg_turn_done(struct tg_turn *t)
{
    tg_client_done(&t->c);
    json_decref(t->request);
    t->request = NULL;
}
