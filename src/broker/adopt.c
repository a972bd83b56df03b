/* SPDX-License-Identifier: Apache-2.0
 *
 * The start (A8): the store's tickets, whose owner still lives, go on. Holders are adopted with pidfds; the
 * dead, and those of another boot, are ended (L5, L11), unless processes of theirs keep the ticket (A4, L20):
 * one look at all processes tells that for all of them. Waiters keep their place, and nobody is granted
 * anything until they have asked again or, for --adopt-limit (half a second), nobody has: then who did not
 * come back is parked, and so is a grant that nobody acknowledged. Only time in which this broker could have
 * heard them counts: it is counted in ticks, between which the loop looks at the socket, so that neither a
 * long start nor a machine on which the broker stands still uses it up; and as long as they keep coming,
 * thousands of them, it begins anew.
 */
#include "broker/survivors.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "broker/growth.h"
#include "broker/log.h"
#include "broker/words.h"

#define TICK_MS 50u
#define LONGEST 20u /* so many times the limit, however many come back */
#define GRACE_MS 5000u

struct adoption {
    struct tg_broker *broker;
    struct tg_ticket **tickets;
    size_t n;
    size_t room;
    int err;
};

/* First all rows are read: nothing is written while the reading statement is under way. */
static void take(void *ctx, struct tg_ticket *t)
{
    struct adoption *a = ctx;
    if (a->n == a->room) {
        size_t room = a->room ? a->room * 2 : 64;
        struct tg_ticket **grown = realloc(a->tickets, room * sizeof(*grown));
        if (!grown) {
            a->err = -ENOMEM;
            tg_ticket_free(t);
            return;
        }
        a->tickets = grown;
        a->room = room;
    }
    a->tickets[a->n++] = t;
}

static bool same_boot(const struct tg_broker *b, const struct tg_ticket *t)
{
    return memcmp(b->boot_id, t->owner.boot_id, sizeof(b->boot_id)) == 0;
}

/* It ended while nobody minded it: as the word of its wrapper says, if there is one. */
static int lose(struct tg_broker *b, struct tg_ticket *t)
{
    const struct tg_word *w = t->state == TG_HOLD ? tg_words_find(b, t->id) : NULL;
    struct tg_store_ending e = {
        .ticket = t, .outcome = TG_OUTCOME_LOST, .status = t->main_status, .wall_ms = tg_clock_wall_ms()};
    if (w && t->main_status < 0)
        e.status = w->status;
    if (w && w->peak_mb > t->peak_mb)
        t->peak_mb = w->peak_mb;
    if (t->cancelled)
        e.outcome = TG_OUTCOME_CANCELLED;
    else if (e.status >= 0)
        e.outcome = tg_outcome_of_status(e.status, w && w->oom);
    if (w) {
        e.boot_ms = w->ended_boot_ms;
        e.wall_ms = w->ended_wall_ms;
    }
    int err = tg_store_ends(b->store, &e, 1);
    tg_life_free(b, t);
    return err;
}

/* 0 and *t in the queue, or an error and it has been freed. */
static int enter(struct tg_broker *b, struct tg_ticket *t)
{
    int err = tg_queue_add(&b->queue, t);
    if (err)
        tg_life_free(b, t);
    return err;
}

/* A run that held and whose command has ended may have left somebody: it is kept for later, by *ret_dead. */
static int adopt_one(struct tg_broker *b, struct tg_ticket *t, bool *ret_dead)
{
    bool may_survive = same_boot(b, t) && t->state == TG_HOLD && t->kind == TG_KIND_RUN;
    if (!same_boot(b, t))
        return lose(b, t);
    t->over_estimate = tg_growth_is_over(t->peak_mb, t->est_mb); /* the former broker said so */
    if (t->main_ended || tg_watch_start(b, t) == -ESRCH) {
        *ret_dead = may_survive;
        return may_survive ? 0 : lose(b, t);
    }
    if (tg_queue_same_owner(&b->queue, t))
        return lose(b, t);
    int err = enter(b, t);
    if (err)
        return err;
    if (t->state == TG_WAIT || (t->state == TG_HOLD && !t->acked)) {
        t->adopted = true;
        b->adopted_left++;
    }
    if (t->state == TG_HOLD && t->cancelled)
        tg_cancel_start(b, t, GRACE_MS); /* the former broker began, this one finishes */
    return 0;
}

/* Those of the dead whose processes keep the ticket go on with them; a cancellation goes on with all of
 * them. Nobody left: it ends here. */
static int adopt_survivors(struct tg_broker *b, struct tg_ticket *t, const struct tg_tree *tree, size_t want)
{
    bool any = false;
    for (size_t i = 0; i < tree->used; i++)
        any |= tree->at[i].want == want;
    if (!any)
        return lose(b, t);
    const struct tg_word *w = tg_words_find(b, t->id);
    if (w && t->main_status < 0) {
        t->main_status = w->status;
        t->main_oom = w->oom;
        t->peak_mb = w->peak_mb > t->peak_mb ? w->peak_mb : t->peak_mb;
    }
    t->main_ended = true;
    t->main_kept = true;
    int err = enter(b, t);
    if (err)
        return err;
    if (t->cancelled) {
        tg_cancel_start(b, t, GRACE_MS);
        return 0;
    }
    err = tg_survivors_take(b, t, tree, want);
    if (err)
        return err;
    if (t->survivors || t->look_again_ms != 0) {
        tg_life_touch(b, t);
        return 0;
    }
    tg_queue_remove(&b->queue, t);
    return lose(b, t);
}

static int adopt_dead(struct tg_broker *b, struct tg_ticket **dead, size_t n)
{
    struct tg_tree tree = {0};
    struct tg_tree_want *want = calloc(n + 1, sizeof(*want));
    int err = want ? 0 : -ENOMEM;
    for (size_t i = 0; i < n && !err; i++)
        want[i] = tg_survivors_want(dead[i]);
    if (!err && tg_tree_scan(&b->root, tg_store_uuid(b->store), want, n, getpid(), &tree) != 0)
        tree.used = 0; /* what nobody can find holds nothing */
    size_t i = 0;
    for (; i < n && !err; i++)
        err = adopt_survivors(b, dead[i], &tree, i);
    for (; i < n; i++)
        tg_ticket_free(dead[i]);
    tg_tree_done(&tree);
    free(want);
    return err;
}

/* Takes all of them over; those that are dead come last. */
static int adopt_all(struct tg_broker *b, struct tg_ticket **tickets, size_t n)
{
    size_t i = 0;
    size_t n_dead = 0;
    int err = 0;
    for (; i < n && !err; i++) {
        struct tg_ticket *t = tickets[i];
        bool dead = false;
        err = adopt_one(b, t, &dead);
        if (dead)
            tickets[n_dead++] = t;
    }
    for (; i < n; i++)
        tg_ticket_free(tickets[i]);
    if (!err)
        return adopt_dead(b, tickets, n_dead);
    for (i = 0; i < n_dead; i++)
        tg_ticket_free(tickets[i]);
    return err;
}

int tg_adopt(struct tg_broker *b)
{
    struct adoption a = {.broker = b};
    int err = tg_store_load(b->store, &b->store_report, take, &a);
    if (!err)
        err = a.err;
    if (!err)
        err = adopt_all(b, a.tickets, a.n);
    else
        for (size_t i = 0; i < a.n; i++)
            tg_ticket_free(a.tickets[i]);
    free(a.tickets);
    if (b->store_report.dropped_rows > 0)
        tg_log("%s: dropped %llu tickets whose rows break a rule", tg_store_path(b->store),
               (unsigned long long)b->store_report.dropped_rows);
    if (err)
        return err;
    b->holding_back = b->adopted_left > 0;
    if (b->holding_back)
        tg_broker_arm(b, &b->adopt_timer, TICK_MS);
    return 0;
}

static size_t add_missing(struct tg_ticket **missing, struct tg_ticket *const *list, size_t n)
{
    size_t found = 0;
    for (size_t i = 0; i < n; i++) {
        if (list[i]->adopted)
            missing[found++] = list[i];
    }
    return found;
}

/* Thousands of them are one transaction. */
static bool park_missing(struct tg_broker *b)
{
    const struct tg_queue *q = &b->queue;
    struct tg_ticket **missing = calloc(q->n_waiters + q->n_holders + q->n_aside + 1, sizeof(*missing));
    if (!missing)
        return false;
    size_t n = add_missing(missing, q->waiters, q->n_waiters);
    n += add_missing(missing + n, q->holders, q->n_holders);
    n += add_missing(missing + n, q->aside, q->n_aside);
    tg_life_parked_all(b, missing, n);
    free(missing);
    return true;
}

void tg_adopt_tick(struct tg_broker *b)
{
    uint64_t limit = (b->adopt_ms + TICK_MS - 1) / TICK_MS;
    if (!b->holding_back)
        return;
    if (b->adopted_left > 0 && ++b->adopt_ticks < limit && ++b->adopt_ticks_all < limit * LONGEST) {
        tg_broker_arm(b, &b->adopt_timer, TICK_MS);
        return;
    }
    if (!park_missing(b)) { /* no memory for that: nobody is granted anything until there is */
        tg_broker_arm(b, &b->adopt_timer, TICK_MS);
        return;
    }
    b->holding_back = false;
    b->pass_due = true;
}
