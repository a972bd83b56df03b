/* SPDX-License-Identifier: Apache-2.0
 *
 * Stopped processes (SIGSTOP, Ctrl-Z). Who is stopped when the turn comes would take a slot and do nothing
 * with it, for as long as it pleases: it is passed over and parked, keeps its place, and is a waiter again
 * when it goes on (A7). The same with a grant that wait-admit has not acknowledged and cannot, being stopped:
 * its connection is ended, so that it asks anew. What holds keeps its slot, stopped or not: it has its memory
 * and may go on at any time; status says that it is stopped.
 *
 * That a process goes on is no event for anybody but its parent, so those that were passed over are looked at
 * RECHECK_MS apart, while there are any (A5: what changes without an event).
 */
#include "broker/broker.h"

#include "machine/proc.h"

#define RECHECK_MS 250u
#define HEARD_MS 1000u

/* Whose answer is awaited: the owner of a run, the caller of wait-admit, or 0. */
static pid_t who_waits(const struct tg_ticket *t)
{
    if (t->kind == TG_KIND_RUN)
        return t->owner.pid;
    return t->peer ? t->peer->pid : 0;
}

bool tg_stopped_is(const struct tg_broker *b, const struct tg_ticket *t)
{
    pid_t pid = t->state == TG_HOLD && t->acked ? t->owner.pid : who_waits(t);
    if (t->main_ended)
        return false;
    return tg_proc_is_stopped(&b->root, pid ? pid : t->owner.pid);
}

static void wake(struct tg_broker *b, uint64_t ms)
{
    if (!uv_is_active((uv_handle_t *)&b->stopped_timer) || uv_timer_get_due_in(&b->stopped_timer) > ms)
        tg_broker_arm(b, &b->stopped_timer, ms);
}

bool tg_stopped_passed_over(struct tg_broker *b, struct tg_ticket *t)
{
    if (t->reply_due) /* it has asked in this very moment */
        return false;
    pid_t pid = who_waits(t);
    if (!pid || !tg_proc_is_stopped(&b->root, pid))
        return false;
    tg_life_parked(b, t);
    t->stopped = true;
    wake(b, RECHECK_MS);
    return true;
}

void tg_stopped_await_ack(struct tg_broker *b)
{
    wake(b, HEARD_MS);
}

/* Backwards, since who goes on leaves the list. */
static bool look_at_parked(struct tg_broker *b)
{
    const struct tg_queue *q = &b->queue;
    bool left = false;
    for (size_t i = q->n_parked; i-- > 0;) {
        struct tg_ticket *t = q->parked[i];
        if (!t->stopped)
            continue;
        if (!t->peer) { /* its connection has ended: parked like any other */
            t->stopped = false;
        } else if (tg_proc_is_stopped(&b->root, who_waits(t))) {
            left = true;
        } else {
            tg_life_unpark(b, t);
        }
    }
    return left;
}

static bool look_at_unheard(struct tg_broker *b)
{
    const struct tg_queue *q = &b->queue;
    bool left = false;
    for (size_t i = q->n_holders; i-- > 0;) {
        struct tg_ticket *t = i < q->n_holders ? q->holders[i] : NULL;
        if (!t || t->acked || !t->peer)
            continue;
        if (tg_proc_is_stopped(&b->root, who_waits(t)))
            tg_peer_close(t->peer);
        else
            left = true;
    }
    return left;
}

void tg_stopped_due(struct tg_broker *b)
{
    if (look_at_parked(b))
        wake(b, RECHECK_MS);
    if (look_at_unheard(b))
        wake(b, HEARD_MS);
}
