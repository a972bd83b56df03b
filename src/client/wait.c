/* SPDX-License-Identifier: Apache-2.0
 * See wait.h. */
#include "client/wait.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "client/lost.h"

#define AT_ONCE 1000u /* tickets in one question */

static json_t *build(const uint64_t *tickets, size_t n, bool now)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_integer((json_int_t)tickets[i]));
    return json_pack("{s:s,s:o,s:b}", "op", "wait", "tickets", list, "now", now);
}

/* Strictly: an answer that does not tell of exactly the tickets asked for is none. */
static int read_ended(struct tg_client *c, const json_t *reply, const uint64_t *tickets, size_t n,
                      struct tg_ended *ret)
{
    const json_t *list = json_object_get(reply, "ended");
    uint64_t left = 0;
    if (tg_field_u64(reply, "left", 1, INT64_MAX, &left) == 0)
        return tg_client_fail(c, -ETIMEDOUT, "%llu have not ended", (unsigned long long)left);
    if (json_array_size(list) != n)
        return tg_client_fail(c, -EPROTO, "the broker's answer does not tell of all tickets");
    for (size_t i = 0; i < n; i++) {
        const json_t *o = json_array_get(list, i);
        struct tg_ended e = {0};
        const char *outcome = "";
        uint64_t status;
        if (tg_field_u64(o, "ticket", 1, INT64_MAX, &e.ticket) || e.ticket != tickets[i] ||
            tg_field_string(o, "outcome", sizeof(e.outcome) - 1, &outcome))
            return tg_client_fail(c, -EPROTO, "the broker's answer tells of other tickets");
        memcpy(e.outcome, outcome, strlen(outcome) + 1);
        e.known = tg_field_u64(o, "status", 0, INT32_MAX, &status) == 0;
        if (e.known)
            e.status = (int)status;
        ret[i] = e;
    }
    return 0;
}

static int ask_once(struct tg_client *c, const json_t *request, uint64_t deadline_ns, json_t **ret)
{
    int err = tg_client_connect(c);
    if (!err)
        err = tg_client_send(c, request);
    return err ? err : tg_client_recv(c, deadline_ns, ret);
}

/* Asks until the tickets have ended. The answer may be a long time coming, so after a loss it is first asked
 * how they stand, which shows that somebody is there. */
static int ask_until_ended(struct tg_client *c, const json_t *wait, const json_t *look, uint64_t deadline_ns,
                           json_t **ret)
{
    struct tg_lost lost = {0};
    int err;
    do {
        err = 0;
        *ret = NULL;
        if (lost.tries > 0 || !wait) {
            err = ask_once(c, look, tg_deadline_ns(TG_CLIENT_REPLY_MS), ret);
            if (!err)
                tg_lost_answered(&lost);
        }
        if (!err && wait && (!*ret || json_object_get(*ret, "left"))) {
            json_decref(*ret);
            *ret = NULL;
            err = ask_once(c, wait, deadline_ns, ret);
            if (err == -ETIMEDOUT) /* of the broker nothing else was to be expected */
                tg_client_fail(c, err, "waited too long");
        }
    } while (err && tg_lost_try_again(c, &lost, err, deadline_ns));
    return err;
}

static int wait_some(struct tg_client *c, const uint64_t *tickets, size_t n, uint64_t deadline_ns,
                     struct tg_ended *ret)
{
    bool now = tg_deadline_poll_ms(deadline_ns) == 0; /* the time is up: how it stands, at once */
    json_t *wait = now ? NULL : build(tickets, n, false);
    json_t *look = build(tickets, n, true);
    json_t *reply = NULL;
    int err = look && (now || wait) ? ask_until_ended(c, wait, look, deadline_ns, &reply)
                                    : tg_client_fail(c, -ENOMEM, "no memory for the request");
    json_decref(wait);
    json_decref(look);
    if (err) {
        tg_client_disconnect(c); /* a late answer must not meet the next request */
        return err;
    }
    err = read_ended(c, reply, tickets, n, ret);
    json_decref(reply);
    return err;
}

int tg_client_wait(struct tg_client *c, const uint64_t *tickets, size_t n, uint64_t deadline_ns,
                   struct tg_ended *ret)
{
    struct tg_ended *ended = calloc(n ? n : 1, sizeof(*ended));
    int err = 0;
    if (!ended)
        return tg_client_fail(c, -ENOMEM, "no memory");
    for (size_t i = 0; i < n && !err; i += AT_ONCE)
        err = wait_some(c, tickets + i, n - i < AT_ONCE ? n - i : AT_ONCE, deadline_ns, ended + i);
    if (!err && n > 0)
        memcpy(ret, ended, n * sizeof(*ended));
    free(ended);
    return err;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

int tg_client_wait_list(struct tg_client *c, uint64_t **ret, size_t *ret_n)
{
    json_t *request = json_pack("{s:s,s:b}", "op", "wait", "all", 1);
    json_t *reply;
    int err = request ? tg_client_call(c, request, &reply) : tg_client_fail(c, -ENOMEM, "no memory");
    json_decref(request);
    if (err)
        return err;
    const json_t *list = json_object_get(reply, "tickets");
    size_t n = json_array_size(list);
    uint64_t *tickets = calloc(n + 1, sizeof(*tickets));
    for (size_t i = 0; i < n && tickets; i++)
        tickets[i] = (uint64_t)json_integer_value(json_array_get(list, i));
    json_decref(reply);
    if (!tickets)
        return tg_client_fail(c, -ENOMEM, "no memory");
    qsort(tickets, n, sizeof(*tickets), compare);
    *ret = tickets;
    *ret_n = n;
    return 0;
}

int tg_ended_code(const struct tg_ended *e)
{
    if (!e->known)
        return strcmp(e->outcome, "released") == 0 ? 0 : 125;
    return WIFEXITED(e->status) ? WEXITSTATUS(e->status) : 128 + WTERMSIG(e->status);
}
