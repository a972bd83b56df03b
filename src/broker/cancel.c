/* SPDX-License-Identifier: Apache-2.0
 *
 * Cancelling what runs (V5, L17, L19): everybody of the ticket's tree is told to end (TERM, and CONT when it
 * is stopped), also who has left its session; who is still there after the grace is killed, again and again,
 * for there may be new ones every time. Whoever asked is answered when nobody is left, or with who survived
 * when nobody has died for the limit (--cancel-limit, 5 s) since the first kill: processes that the kernel
 * does not let end. A large tree on a busy machine may take longer to die than that, so each death gives it
 * the limit anew; one that replaces its dead for ever gets LONGEST limits. Who belongs to the tree a thread
 * finds out (look.c); they are told then.
 *
 * Signals go through tg_owner_signal alone, which checks the identity first (L8, L13).
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "broker/survivors.h"
#include "proto/fields.h"

#define AGAIN_MS 100u
#define LONGEST 12u    /* so many times the limit, whoever dies */
#define SHOWN_MAX 100u /* survivors that are named in the answer */

struct tg_cancel {
    uint64_t kill_at_ms; /* monotonic; then every AGAIN_MS */
    uint64_t give_up_ms; /* 0: it does not kill yet; put off by each death */
    uint64_t longest_ms; /* and not beyond this */
    bool owner_told;
    struct tg_peer *waiting; /* who asked, linked by awaits_next */
};

/* ---- who asked */

static void answer(struct tg_cancel *c, json_t *reply)
{
    struct tg_peer *next;
    for (struct tg_peer *peer = c->waiting; peer; peer = next) {
        next = peer->awaits_next;
        peer->awaits = NULL;
        peer->awaits_next = NULL;
        tg_peer_reply(peer, json_incref(reply));
        tg_peer_unblock(peer);
    }
    c->waiting = NULL;
    json_decref(reply);
}

void tg_cancel_await(struct tg_peer *peer, struct tg_ticket *t)
{
    peer->awaits = t;
    peer->awaits_next = t->cancel->waiting;
    t->cancel->waiting = peer;
    peer->blocked = true; /* answers keep their order */
}

void tg_cancel_peer_gone(struct tg_peer *peer)
{
    if (!peer->awaits)
        return;
    struct tg_peer **at = &peer->awaits->cancel->waiting;
    while (*at != peer)
        at = &(*at)->awaits_next;
    *at = peer->awaits_next;
    peer->awaits = NULL;
    peer->awaits_next = NULL;
}

void tg_cancel_death(struct tg_broker *b, struct tg_ticket *t)
{
    struct tg_cancel *c = t->cancel;
    if (!c || c->give_up_ms == 0)
        return;
    c->give_up_ms = tg_broker_now_ms(b) + b->cancel_ms;
    if (c->give_up_ms > c->longest_ms)
        c->give_up_ms = c->longest_ms;
}

void tg_cancel_over(struct tg_ticket *t)
{
    if (!t->cancel)
        return;
    answer(t->cancel, json_pack("{s:b,s:s}", "ok", 1, "state", "DONE"));
    free(t->cancel);
    t->cancel = NULL;
}

/* ---- signals */

static void tell(struct tg_broker *b, const struct tg_owner *who, bool kill_it, bool stopped)
{
    int err = tg_owner_signal(&b->root, who, kill_it ? SIGKILL : SIGTERM, false);
    if (!err && stopped && !kill_it)
        tg_owner_signal(&b->root, who, SIGCONT, false);
}

void tg_cancel_tell(struct tg_broker *b, struct tg_ticket *t)
{
    struct tg_cancel *c = t->cancel;
    bool kills = c->give_up_ms != 0;
    if (!t->main_ended && (kills || !c->owner_told)) {
        tell(b, &t->owner, kills, t->owner_stopped);
        c->owner_told = true;
    }
    for (struct tg_survivor *s = t->survivors; s; s = s->next) {
        struct tg_owner who = tg_survivor_identity(b, s);
        if (kills || !s->told)
            tell(b, &who, kills, s->stopped);
        s->told = true;
    }
}

/* ---- its steps */

uint64_t tg_cancel_due_ms(const struct tg_ticket *t)
{
    return t->cancel->kill_at_ms;
}

static json_t *survivors_reply(const struct tg_ticket *t)
{
    json_t *pids = json_array();
    if (!t->main_ended)
        json_array_append_new(pids, json_integer(t->owner.pid));
    for (const struct tg_survivor *s = t->survivors; s && json_array_size(pids) < SHOWN_MAX; s = s->next)
        json_array_append_new(pids, json_integer(s->pid));
    return json_pack("{s:b,s:s,s:o}", "ok", 1, "state", "HOLD", "survivors", pids);
}

/* They do not die. The ticket stays for those that keep it; whoever likes may cancel again. */
static void give_up(struct tg_broker *b, struct tg_ticket *t)
{
    answer(t->cancel, survivors_reply(t));
    free(t->cancel);
    t->cancel = NULL;
    tg_survivors_drop(t);
    if (t->main_ended)
        tg_look_later(b, t);
}

void tg_cancel_due(struct tg_broker *b, struct tg_ticket *t)
{
    struct tg_cancel *c = t->cancel;
    uint64_t now = tg_broker_now_ms(b);
    if (c->give_up_ms == 0) {
        c->give_up_ms = now + b->cancel_ms;
        c->longest_ms = now + b->cancel_ms * LONGEST;
    } else if (now >= c->give_up_ms) {
        give_up(b, t);
        return;
    }
    c->kill_at_ms = now + AGAIN_MS;
    if (t->look == TG_LOOK_NO) /* else one is under way, which tells them */
        tg_look_later(b, t);
}

int tg_cancel_start(struct tg_broker *b, struct tg_ticket *t, uint64_t grace_ms)
{
    uint64_t kill_at = tg_broker_now_ms(b) + grace_ms;
    bool first = !t->cancel;
    if (first && !(t->cancel = calloc(1, sizeof(*t->cancel))))
        return -ENOMEM;
    struct tg_cancel *c = t->cancel;
    if (first || (c->give_up_ms == 0 && kill_at < c->kill_at_ms))
        c->kill_at_ms = kill_at;
    tg_survivors_wake(b, grace_ms);
    int err = t->main_ended ? 0 : tg_owner_may_signal(&b->root, &t->owner);
    if (err == 0 || err == -ESRCH) { /* it has just ended: the event is on its way */
        /* All are told after it, the owner too: whom one that has ended leaves is not always found. */
        tg_look_later(b, t);
        return 0;
    }
    if (first) {
        tg_cancel_over(t);
        tg_survivors_drop(t);
    }
    return err;
}
