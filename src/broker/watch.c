/* SPDX-License-Identifier: Apache-2.0
 *
 * Death as an event (A4): a pidfd for every owner, in the loop. Where no descriptor can be had, the owner is
 * asked for once a second, and after --liveness-limit without an answer it is given up (L10). What an owner
 * leaves behind is not known here. Nothing here reaps (L14).
 */
#include "broker/broker.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "broker/log.h"

#define UNKNOWN_CHECK_MS 1000u

struct tg_watch {
    uv_poll_t poll;
    int fd;
    struct tg_ticket *ticket;
};

static void on_death(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    struct tg_watch *w = poll->data;
    struct tg_broker *b = poll->loop->data;
    b->served_ms = tg_broker_now_ms(b);
    tg_survivors_main_ended(b, w->ticket, -1);
}

static void on_closed(uv_handle_t *handle)
{
    struct tg_watch *w = handle->data;
    close(w->fd);
    free(w);
}

static int start_poll(struct tg_broker *b, struct tg_ticket *t, int fd)
{
    struct tg_watch *w = calloc(1, sizeof(*w));
    if (!w)
        return -ENOMEM;
    w->fd = fd;
    w->ticket = t;
    int err = uv_poll_init(&b->loop, &w->poll, fd);
    if (err) {
        free(w);
        return err;
    }
    w->poll.data = w;
    t->watch = w;
    uv_poll_start(&w->poll, UV_READABLE, on_death);
    return 0;
}

int tg_watch_start(struct tg_broker *b, struct tg_ticket *t)
{
    int fd;
    int err = tg_owner_pidfd(&b->root, &t->owner, &fd);
    if (err == -ESRCH)
        return err;
    if (!err) {
        err = start_poll(b, t, fd);
        if (err)
            close(fd);
    }
    if (err) {
        if (t->unknown_since_ms == 0)
            t->unknown_since_ms = tg_broker_now_ms(b) + 1;
        if (!uv_is_active((uv_handle_t *)&b->liveness_timer))
            tg_broker_arm(b, &b->liveness_timer, UNKNOWN_CHECK_MS);
        return 0;
    }
    t->unknown_since_ms = 0;
    return 0;
}

void tg_watch_stop(struct tg_ticket *t)
{
    struct tg_watch *w = t->watch;
    if (!w)
        return;
    t->watch = NULL;
    uv_poll_stop(&w->poll);
    uv_close((uv_handle_t *)&w->poll, on_closed);
}

bool tg_watch_is_dead(struct tg_broker *b, const struct tg_ticket *t)
{
    if (!t->watch)
        return tg_owner_alive(&b->root, &t->owner) == TG_DEAD;
    struct pollfd p = {.fd = t->watch->fd, .events = POLLIN};
    return poll(&p, 1, 0) > 0;
}

/* One owner without a descriptor: tries to get one, or its death; true while it stays so. */
static bool still_unknown(struct tg_broker *b, struct tg_ticket *t)
{
    if (t->watch || t->main_ended)
        return false;
    if (tg_watch_start(b, t) == -ESRCH) {
        tg_survivors_main_ended(b, t, -1);
        return false;
    }
    if (t->watch)
        return false;
    if (tg_owner_alive(&b->root, &t->owner) == TG_ALIVE) {
        t->unknown_since_ms = tg_broker_now_ms(b) + 1;
        return true;
    }
    if (tg_broker_now_ms(b) < t->unknown_since_ms + b->liveness_ms)
        return true;
    tg_log("ticket %llu: nobody can tell whether process %d lives: given up", (unsigned long long)t->id,
           (int)t->owner.pid);
    tg_life_ended(b, t, TG_OUTCOME_UNKNOWN, "nobody can tell whether its owner lives");
    return false;
}

/* Backwards, since an ended ticket leaves its list. */
static bool check_list(struct tg_broker *b, struct tg_ticket *const *const *list, const size_t *n)
{
    bool left = false;
    for (size_t i = *n; i-- > 0;) {
        if (i < *n)
            left |= still_unknown(b, (*list)[i]);
    }
    return left;
}

void tg_watch_check_unknown(struct tg_broker *b)
{
    struct tg_queue *q = &b->queue;
    bool left = check_list(b, (struct tg_ticket *const *const *)&q->waiters, &q->n_waiters);
    left |= check_list(b, (struct tg_ticket *const *const *)&q->holders, &q->n_holders);
    left |= check_list(b, (struct tg_ticket *const *const *)&q->parked, &q->n_parked);
    left |= check_list(b, (struct tg_ticket *const *const *)&q->aside, &q->n_aside);
    if (left)
        tg_broker_arm(b, &b->liveness_timer, UNKNOWN_CHECK_MS);
}
