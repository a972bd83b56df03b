/* SPDX-License-Identifier: Apache-2.0
 *
 * Death as an event (A4): a pidfd for every owner, in the loop. Where no descriptor can be had, the owner is
 * asked for once a second, and after --liveness-limit without an answer it is given up (L10). What an owner
 * leaves behind is not known here. Nothing here reaps (L14).
 *
 * The pidfds are in a set of their own, which is one descriptor in the loop: to watch one more is one call,
 * to watch no more is its close, and a waiter needs no handle of the loop.
 */
#include "broker/broker.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "broker/log.h"

#define UNKNOWN_CHECK_MS 1000u

#define AT_ONCE 512

struct tg_watch {
    int fd;
};

/* The events name tickets, not memory: what one death sets in motion may end another's watch. */
static void on_deaths(uv_poll_t *poll, int status, int events)
{
    struct tg_broker *b = poll->data;
    struct epoll_event dead[AT_ONCE];
    (void)status;
    (void)events;
    b->served_ms = tg_broker_now_ms(b);
    int n;
    do { /* all of them before the one decision that follows (S6) */
        n = epoll_wait(b->deaths_fd, dead, AT_ONCE, 0);
        for (int i = 0; i < n; i++) {
            struct tg_ticket *t = tg_queue_by_id(&b->queue, dead[i].data.u64);
            if (t && t->watch && (i == 0 || tg_watch_is_dead(b, t)))
                tg_survivors_main_ended(b, t, -1);
        }
    } while (n == AT_ONCE);
}

int tg_watch_init(struct tg_broker *b)
{
    b->deaths_fd = epoll_create1(EPOLL_CLOEXEC);
    if (b->deaths_fd < 0)
        return -errno;
    int err = uv_poll_init(&b->loop, &b->deaths, b->deaths_fd);
    if (err)
        return err;
    b->deaths.data = b;
    return uv_poll_start(&b->deaths, UV_READABLE, on_deaths);
}

static int add_to_set(struct tg_broker *b, struct tg_ticket *t, int fd)
{
    struct epoll_event death = {.events = EPOLLIN, .data = {.u64 = t->id}};
    struct tg_watch *w = malloc(sizeof(*w));
    if (!w)
        return -ENOMEM;
    if (epoll_ctl(b->deaths_fd, EPOLL_CTL_ADD, fd, &death)) {
        int err = -errno;
        free(w);
        return err;
    }
    w->fd = fd;
    t->watch = w;
    return 0;
}

static void ask_at_intervals(struct tg_broker *b, struct tg_ticket *t)
{
    if (t->unknown_since_ms == 0)
        t->unknown_since_ms = tg_broker_now_ms(b) + 1;
    if (!uv_is_active((uv_handle_t *)&b->liveness_timer))
        tg_broker_arm(b, &b->liveness_timer, UNKNOWN_CHECK_MS);
}

int tg_watch_take(struct tg_broker *b, struct tg_ticket *t, int fd)
{
    if (add_to_set(b, t, fd) != 0) {
        close(fd);
        ask_at_intervals(b, t);
    } else {
        t->unknown_since_ms = 0;
    }
    return 0;
}

int tg_watch_start(struct tg_broker *b, struct tg_ticket *t)
{
    int fd;
    int err = tg_owner_pidfd(&b->root, &t->owner, &fd);
    if (err == -ESRCH)
        return err;
    if (!err)
        return tg_watch_take(b, t, fd);
    ask_at_intervals(b, t);
    return 0;
}

void tg_watch_stop(struct tg_ticket *t)
{
    struct tg_watch *w = t->watch;
    if (!w)
        return;
    t->watch = NULL;
    close(w->fd); /* nobody else has it, so it leaves the set too */
    free(w);
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
