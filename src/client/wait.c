/* SPDX-License-Identifier: Apache-2.0
 * See wait.h. */
#include "client/wait.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"

#define AT_ONCE 1000u /* tickets in one question */
/* A broker that dies is looked for this often in a row; a connection that lasted this long starts anew. */
#define LOST_LIMIT 8
#define LASTING_NS (UINT64_C(5) * 1000000000)

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

static int wait_some(struct tg_client *c, const uint64_t *tickets, size_t n, uint64_t deadline_ns,
                     struct tg_ended *ret)
{
    bool now = tg_deadline_poll_ms(deadline_ns) == 0; /* the time is up: how it stands, at once */
    json_t *request = build(tickets, n, now);
    json_t *reply = NULL;
    int lost = 0;
    int err;
    if (!request)
        return tg_client_fail(c, -ENOMEM, "no memory for the request");
    for (;;) {
        uint64_t begin = tg_clock_mono_ns();
        err = ask_once(c, request, now ? tg_deadline_ns(TG_CLIENT_REPLY_MS) : deadline_ns, &reply);
        if (err != -ECONNRESET)
            break;
        lost = tg_clock_mono_ns() - begin > LASTING_NS ? 1 : lost + 1;
        if (lost >= LOST_LIMIT) {
            tg_client_fail(c, err, "the broker on %s went away %d times in a row", c->socket, lost);
            break;
        }
    }
    json_decref(request);
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
