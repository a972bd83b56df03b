/* SPDX-License-Identifier: Apache-2.0
 * See admit.h. */
#include "client/admit.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "client/lost.h"
#include "proto/fields.h"

#define SHOW_BYTES 400u /* of a command or directory */
/* How long the broker may take to answer at all, whatever the caller's limit says of the turn. */
#define ANSWER_MIN_MS 1000u
#define ANSWER_ONE_TRY_MS 5000u /* with a limit of 0: one attempt, which is not a matter of time */

bool tg_ticket_env_valid(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    if (digits < 1 || digits > 19 || text[digits] != ':')
        return false;
    const char *uuid = text + digits + 1;
    size_t n = strspn(uuid, "0123456789abcdef-");
    return n >= 1 && n <= 64 && uuid[n] == '\0';
}

static json_t *shown_or_null(const char *text, size_t max_bytes)
{
    if (!text)
        return json_null();
    char *shown = tg_display_text(text, max_bytes);
    json_t *value = shown ? json_string(shown) : NULL;
    free(shown);
    return value;
}

static json_t *number_or_null(uint64_t n)
{
    return n > INT64_MAX ? json_null() : json_integer((json_int_t)n);
}

json_t *tg_admit_message(const struct tg_admit_ask *ask)
{
    const char *parent = ask->parent && tg_ticket_env_valid(ask->parent) ? ask->parent : NULL;
    json_t *request = json_pack(
        "{s:s,s:s,s:i,s:I,s:o,s:o,s:o,s:o,s:o,s:o,s:s?,s:s*,s:s*}", "op", "admit", "kind", ask->kind, "pid",
        (int)ask->pid, "prio", (json_int_t)ask->prio, "est_mb", number_or_null(ask->est_mb), "max_conc",
        number_or_null(ask->max_conc), "slots", number_or_null(ask->slots), "tenant",
        shown_or_null(ask->tenant, SHOW_BYTES), "cmd", shown_or_null(ask->cmd ? ask->cmd : "", SHOW_BYTES),
        "cwd", shown_or_null(ask->cwd, SHOW_BYTES), "parent", parent, "key", ask->key, "if_exists",
        ask->key && ask->tell_existing ? "tell" : NULL);
    if (request && ask->time_ms <= INT64_MAX)
        json_object_set_new(request, "time_ms", number_or_null(ask->time_ms));
    if (request && ask->step)
        json_object_set_new(request, "step", json_integer((json_int_t)ask->step));
    if (request && ask->strict)
        json_object_set_new(request, "strict", json_true());
    if (request && ask->reaper)
        json_object_set_new(request, "reaper", json_true());
    if (request && ask->detached)
        json_object_set_new(request, "detached", json_true());
    return request;
}

/* Copies a field as printable text, clipped. */
static void copy_shown(char *to, size_t size, const json_t *message, const char *key)
{
    const char *text = "";
    (void)tg_field_string(message, key, 4096, &text);
    char *shown = tg_display_text(text, size - 8);
    size_t n = shown ? strlen(shown) : 0;
    memcpy(to, shown ? shown : "", n);
    to[n] = '\0';
    free(shown);
}

/* Strictly: a HOLD without a ticket or a well-formed env is no grant. */
int tg_admit_read(struct tg_client *c, const json_t *message, struct tg_admit_answer *ret)
{
    struct tg_admit_answer a = {0};
    const char *state = "", *env = "";
    char existing[16];
    (void)tg_field_string(message, "state", 16, &state);
    if (strcmp(state, "PARKED") == 0) {
        a.state = TG_ADMIT_PARKED;
        *ret = a;
        return 0;
    }
    a.state = strcmp(state, "WAIT") == 0     ? TG_ADMIT_WAIT
              : strcmp(state, "EXISTS") == 0 ? TG_ADMIT_EXISTS
                                             : TG_ADMIT_HOLD;
    if (a.state == TG_ADMIT_HOLD && strcmp(state, "HOLD") != 0)
        return tg_client_fail(c, -EPROTO, "the broker's answer has no state that this command knows");
    if (tg_field_u64(message, "ticket", 1, INT64_MAX, &a.ticket))
        return tg_client_fail(c, -EPROTO, "the broker's answer names no ticket");
    (void)tg_field_u64(message, "ahead", 0, INT64_MAX, &a.ahead);
    copy_shown(a.text, sizeof(a.text), message, "text");
    copy_shown(existing, sizeof(existing), message, "existing");
    a.existing_runs = strcmp(existing, "HOLD") == 0;
    copy_shown(a.verdict, sizeof(a.verdict), message, "verdict");
    if (a.state == TG_ADMIT_HOLD) {
        (void)tg_field_string(message, "env", sizeof(a.env) - 1, &env);
        if (!tg_ticket_env_valid(env))
            return tg_client_fail(c, -EPROTO, "the broker's grant carries no well-formed env");
        memcpy(a.env, env, strlen(env) + 1);
        (void)tg_field_u64(message, "granted_boot_ns", 0, INT64_MAX, &a.granted_boot_ns);
    }
    *ret = a;
    return 0;
}

static int next_answer(struct tg_client *c, uint64_t deadline_ns, struct tg_admit_answer *ret)
{
    json_t *message;
    int err = tg_client_recv(c, deadline_ns, &message);
    if (err)
        return err;
    err = tg_admit_read(c, message, ret);
    json_decref(message);
    return err;
}

/* The time is up and the broker says nothing (it is stopped, perhaps): never a grant (R7). When it goes on,
 * it finds the end of this connection: a ticket is parked, and a request it has not read never becomes one.
 */
static int unanswered(struct tg_client *c, uint64_t ticket, struct tg_admit_answer *ret)
{
    *ret = (struct tg_admit_answer){.state = TG_ADMIT_PARKED, .ticket = ticket, .unanswered = true};
    int pid = tg_client_broker_pid(c);
    if (pid > 0) /* else it never let us in, and the text says that */
        tg_client_fail(c, 0, "the time is up, and the broker on %s (process %d) does not answer", c->socket,
                       pid);
    tg_client_disconnect(c);
    return 0;
}

/* The time is up: gives the turn up, unless the grant was already on its way (A7). */
static int park(struct tg_client *c, uint64_t ticket, struct tg_admit_answer *ret)
{
    json_t *request = json_pack("{s:s,s:I}", "op", "park", "ticket", (json_int_t)ticket);
    int err = request ? tg_client_send(c, request) : -ENOMEM;
    json_decref(request);
    uint64_t deadline = tg_deadline_ns(ANSWER_MIN_MS);
    do {
        if (!err)
            err = next_answer(c, deadline, ret);
    } while (!err && ret->state == TG_ADMIT_WAIT);
    if (err == -ETIMEDOUT)
        return unanswered(c, ticket, ret);
    if (!err && ret->state == TG_ADMIT_PARKED)
        ret->ticket = ticket;
    return err;
}

struct wait_state {
    const struct tg_admit_ask *ask;
    json_t *request; /* NULL until it is sent */
    bool asked;
    uint64_t deadline_ns;
    uint64_t answer_ms; /* how long a first answer is awaited beyond the deadline, of each connection */
    struct tg_lost lost;
    void (*waiting)(void *ctx, const struct tg_admit_answer *now);
    void *ctx;
};

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The first answer of a connection. */
static int first_answer(struct tg_client *c, struct wait_state *w, struct tg_admit_answer *ret)
{
    uint64_t limit = later(w->deadline_ns, tg_deadline_ns(w->answer_ms));
    uint64_t reply = tg_deadline_ns(TG_CLIENT_REPLY_MS);
    int err = next_answer(c, limit < reply ? limit : reply, ret);
    if (err == -ETIMEDOUT && limit < reply)
        return unanswered(c, 0, ret);
    if (!err)
        tg_lost_answered(&w->lost);
    return err;
}

static int connect_and_ask(struct tg_client *c, struct wait_state *w)
{
    int err = tg_client_connect(c);
    tg_fault_point("client.connected");
    if (!err && !w->request)
        w->request = tg_admit_message(w->ask);
    if (!err && !w->request)
        err = tg_client_fail(c, -ENOMEM, "no memory for the request");
    if (!err)
        err = tg_client_send(c, w->request);
    return err;
}

/* One connection's life: ask, then wait for the turn. */
static int ask_once(struct tg_client *c, struct wait_state *w, struct tg_admit_answer *ret)
{
    int err = w->asked ? 0 : connect_and_ask(c, w);
    w->asked = false; /* on this connection */
    tg_fault_point("client.asked");
    if (!err)
        err = first_answer(c, w, ret);
    tg_fault_point("client.answered");
    while (!err && ret->state == TG_ADMIT_WAIT) {
        uint64_t ticket = ret->ticket;
        if (w->waiting)
            w->waiting(w->ctx, ret);
        err = next_answer(c, w->deadline_ns, ret);
        if (err == -ETIMEDOUT)
            return park(c, ticket, ret);
    }
    return err;
}

int tg_admit(struct tg_client *c, const struct tg_admit_ask *ask,
             void (*waiting)(void *ctx, const struct tg_admit_answer *now), void *ctx,
             struct tg_admit_answer *ret)
{
    struct tg_admit_answer answer = {0};
    struct wait_state w = {.ask = ask,
                           .asked = ask->asked,
                           .deadline_ns = tg_deadline_ns(ask->wait_ms),
                           .answer_ms = ask->wait_ms == 0 ? ANSWER_ONE_TRY_MS : ANSWER_MIN_MS,
                           .waiting = waiting,
                           .ctx = ctx};
    int err;
    c->connect_by_ns = w.deadline_ns;
    do
        err = ask_once(c, &w, &answer);
    while (tg_lost_try_again(c, &w.lost, err, w.deadline_ns));
    c->connect_by_ns = TG_NO_DEADLINE;
    tg_fault_point("client.decided");
    json_decref(w.request);
    if (err == -ETIMEDOUT && tg_deadline_poll_ms(w.deadline_ns) == 0)
        err = unanswered(c, 0, &answer); /* it stood in line before the socket all the time */
    if (err)
        tg_client_disconnect(c); /* an answer that comes late must not be taken for a grant */
    else
        *ret = answer;
    return err;
}
