/* SPDX-License-Identifier: Apache-2.0
 *
 * The C API's handle and tickets; see launch.h. Never prints; keeps no thread. Running a command is in
 * launch_run.c, the way through the queue in turn.c.
 */
#include "client/turn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"

/* What tg_launch_fd hands out is an epoll descriptor: connections come and go below it. They are watched
 * edge-triggered: one that a forked child still has a copy of must not wake for ever. */
struct tg_launch_ticket {
    struct tg_launch *launch;
    struct tg_turn turn;
    pid_t pid; /* of the process that asked */
    int wake;  /* the epoll descriptor */
    int over;  /* an eventfd in it, readable once the answer is final */
};

static _Thread_local char last_error[TG_CLIENT_TEXT_BYTES];

const char *tg_launch_error(void)
{
    return last_error;
}

int tg_launch_failed(int err, const char *text)
{
    snprintf(last_error, sizeof(last_error), "%s", text && text[0] ? text : strerror(-err));
    return err;
}

/* ---- the handle */

int tg_launch_open(bool may_start, struct tg_launch **ret)
{
    struct tg_launch *launch = calloc(1, sizeof(*launch));
    if (!launch)
        return tg_launch_failed(-ENOMEM, NULL);
    int err = tg_client_init(&launch->model, may_start);
    if (err) {
        tg_launch_failed(err, launch->model.text);
        free(launch);
        return err;
    }
    const char *parent = getenv(TG_ENV_TICKET);
    if (parent && strlen(parent) < sizeof(launch->parent))
        memcpy(launch->parent, parent, strlen(parent) + 1);
    tg_client_name_process(getpid(), launch->name, sizeof(launch->name));
    *ret = launch;
    return 0;
}

void tg_launch_close(struct tg_launch *launch)
{
    if (launch)
        tg_client_done(&launch->model);
    free(launch);
}

int tg_launch_ask(const struct tg_launch *launch, const struct tg_launch_options *options, const char *cmd,
                  struct tg_admit_ask *ret)
{
    static const struct tg_launch_options defaults = TG_LAUNCH_OPTIONS;
    const struct tg_launch_options *o = options ? options : &defaults;
    if (o->key && (!tg_key_valid(o->key) || !o->key[0]))
        return tg_launch_failed(-EINVAL,
                                "key must be a text of 1 to 256 bytes of UTF-8 without control characters");
    if (o->tenant && !o->tenant[0])
        return tg_launch_failed(-EINVAL, "tenant must not be empty");
    *ret = (struct tg_admit_ask){
        .prio = o->prio,
        .est_mb = o->est_mb,
        .max_conc = o->max_conc,
        .slots = o->slots,
        .time_ms = o->time_ms,
        .strict = o->strict,
        .tenant = o->tenant,
        .key = o->key,
        .cmd = o->cmd ? o->cmd : cmd,
        .parent = launch->parent[0] ? launch->parent : NULL,
    };
    return 0;
}

/* ---- a ticket */

static void watch(void *ctx, int fd)
{
    struct tg_launch_ticket *t = ctx;
    struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET};
    /* Without it (no memory) a caller of tg_launch_wait is served all the same. */
    (void)epoll_ctl(t->wake, EPOLL_CTL_ADD, fd, &e);
}

static void wake_when_over(struct tg_launch_ticket *t)
{
    const uint64_t one = 1;
    if (t->turn.state != TG_TURN_WAITS && write(t->over, &one, sizeof(one)) < 0)
        return; /* it is readable already */
}

static int open_wake(struct tg_launch_ticket *t)
{
    struct epoll_event e = {.events = EPOLLIN};
    t->wake = epoll_create1(EPOLL_CLOEXEC);
    if (t->wake >= 0)
        t->wake = tg_fd_above_stdio(t->wake);
    t->over = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (t->over >= 0)
        t->over = tg_fd_above_stdio(t->over);
    if (t->wake >= 0 && t->over >= 0 && epoll_ctl(t->wake, EPOLL_CTL_ADD, t->over, &e) == 0)
        return 0;
    return tg_launch_failed(t->wake < 0 || t->over < 0 ? -EMFILE : -errno, NULL);
}

static void ticket_free(struct tg_launch_ticket *t)
{
    if (t->wake >= 0)
        close(t->wake);
    if (t->over >= 0)
        close(t->over);
    free(t);
}

/* A number that no other request has: 63 random bits. */
static int make_step(uint64_t *ret)
{
    uint64_t step = 0;
    while (step == 0) {
        if (getrandom(&step, sizeof(step), 0) != (ssize_t)sizeof(step))
            return -errno;
        step &= INT64_MAX;
    }
    *ret = step;
    return 0;
}

int tg_launch_request(struct tg_launch *launch, const struct tg_launch_options *options,
                      struct tg_launch_ticket **ret)
{
    struct tg_admit_ask ask;
    int err = tg_launch_ask(launch, options, launch->name, &ask);
    if (err)
        return err;
    struct tg_launch_ticket *t = calloc(1, sizeof(*t));
    if (!t)
        return tg_launch_failed(-ENOMEM, NULL);
    t->launch = launch;
    t->pid = getpid();
    ask.kind = "wait-admit";
    ask.pid = t->pid;
    err = make_step(&ask.step);
    if (err)
        tg_launch_failed(err, NULL);
    t->wake = t->over = -1;
    if (!err)
        err = open_wake(t);
    if (!err)
        err = tg_turn_begin(&t->turn, launch, &ask, watch, t);
    if (err) {
        ticket_free(t);
        return err;
    }
    wake_when_over(t);
    *ret = t;
    return 0;
}

int tg_launch_wait(struct tg_launch_ticket *t, uint64_t timeout_ms)
{
    struct epoll_event seen[2];
    if (t->pid != getpid())
        return tg_launch_failed(-EPERM, "the ticket belongs to the process that asked for it");
    /* What woke the caller is taken before the connection is read: what comes later wakes again. */
    (void)epoll_wait(t->wake, seen, 2, 0);
    int err = tg_turn_wait(&t->turn, timeout_ms == 0 ? 0 : tg_deadline_ns(timeout_ms));
    wake_when_over(t);
    return err;
}

int tg_launch_poll(struct tg_launch_ticket *t)
{
    int err = tg_launch_wait(t, 0);
    return err == -ETIMEDOUT ? -EAGAIN : err;
}

int tg_launch_fd(const struct tg_launch_ticket *t)
{
    return t->wake;
}

uint64_t tg_launch_id(const struct tg_launch_ticket *t)
{
    return t->turn.answer.ticket;
}

bool tg_launch_nested(const struct tg_launch_ticket *t)
{
    return t->turn.state == TG_TURN_HAS && strcmp(t->turn.answer.verdict, "nested") == 0;
}

const char *tg_launch_env(const struct tg_launch_ticket *t)
{
    return t->turn.state == TG_TURN_HAS ? t->turn.answer.env : "";
}

const char *tg_launch_text(const struct tg_launch_ticket *t)
{
    return t->turn.state == TG_TURN_WAITS ? t->turn.answer.text : "";
}

/* ---- requests with one answer */

/* Gives the reference to request up. */
static int call(const struct tg_launch *launch, json_t *request, json_t **ret)
{
    struct tg_client c = launch->model;
    int err = request ? tg_client_call(&c, request, ret) : tg_client_fail(&c, -ENOMEM, "no memory");
    json_decref(request);
    if (err)
        tg_launch_failed(err, c.text);
    tg_client_done(&c);
    return err;
}

int tg_launch_grow(struct tg_launch_ticket *t, uint64_t est_mb)
{
    json_t *reply;
    if (t->pid != getpid())
        return tg_launch_failed(-EPERM, "the ticket belongs to the process that asked for it");
    if (tg_launch_nested(t))
        return tg_launch_failed(-ENOTSUP, "it passes under another ticket");
    if (est_mb > INT64_MAX)
        return tg_launch_failed(-EINVAL, "est_mb is out of range");
    json_t *request = json_pack("{s:s,s:I,s:I}", "op", "resize", "ticket", (json_int_t)tg_launch_id(t),
                                "est_mb", (json_int_t)est_mb);
    int err = call(t->launch, request, &reply);
    if (err)
        return err;
    json_decref(reply);
    /* A request that has to be repeated asks for what holds now. */
    json_object_set_new(t->turn.request, "est_mb", json_integer((json_int_t)est_mb));
    return 0;
}

int tg_launch_release(struct tg_launch_ticket *t)
{
    int err = 0;
    if (!t)
        return 0;
    bool tells = t->pid == getpid() && t->turn.state != TG_TURN_ENDED && !tg_launch_nested(t);
    uint64_t id = tg_launch_id(t);
    struct tg_launch *launch = t->launch;
    tg_turn_done(&t->turn);
    ticket_free(t);
    if (tells) {
        json_t *reply;
        err = call(launch, json_pack("{s:s,s:I}", "op", "release", "ticket", (json_int_t)id), &reply);
        if (!err)
            json_decref(reply);
    }
    return err == -ESRCH ? 0 : err;
}

static int call_for_text(struct tg_launch *launch, json_t *request, char **ret)
{
    json_t *reply;
    int err = call(launch, request, &reply);
    if (err)
        return err;
    json_object_del(reply, "ok");
    char *text = json_dumps(reply, JSON_COMPACT | TG_JSON_REALS);
    json_decref(reply);
    if (!text)
        return tg_launch_failed(-ENOMEM, NULL);
    *ret = text;
    return 0;
}

int tg_launch_status_json(struct tg_launch *launch, char **ret)
{
    return call_for_text(launch, json_pack("{s:s}", "op", "status"), ret);
}

int tg_launch_why_json(struct tg_launch *launch, uint64_t ticket_id, char **ret)
{
    if (ticket_id < 1 || ticket_id > INT64_MAX)
        return tg_launch_failed(-EINVAL, "a ticket's number is 1 or more");
    return call_for_text(launch, json_pack("{s:s,s:I}", "op", "why", "ticket", (json_int_t)ticket_id), ret);
}
