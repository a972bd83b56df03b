/* SPDX-License-Identifier: Apache-2.0
 *
 * The start (A8): the store's tickets, whose owner still lives, go on. Holders are adopted with pidfds; the
 * dead, and those of another boot, are ended (L5, L11). Waiters keep their place, and nobody is granted
 * anything until they have asked again or ADOPT_MS have passed: then who did not come back is parked, and
 * so is a grant that nobody acknowledged.
 */
#include "broker/broker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "broker/growth.h"
#include "broker/log.h"

#define ADOPT_MS 500u

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

static int lose(struct tg_broker *b, struct tg_ticket *t)
{
    int err = tg_store_end(b->store, t, t->cancelled ? TG_OUTCOME_CANCELLED : TG_OUTCOME_LOST, -1);
    tg_life_free(b, t);
    return err;
}

static int adopt_one(struct tg_broker *b, struct tg_ticket *t)
{
    if (!same_boot(b, t) || tg_watch_start(b, t) == -ESRCH || tg_queue_by_pid(&b->queue, t->owner.pid))
        return lose(b, t);
    int err = tg_queue_add(&b->queue, t);
    if (err) {
        tg_life_free(b, t);
        return err;
    }
    t->over_estimate = tg_growth_is_over(t->peak_mb, t->est_mb); /* the former broker said so */
    if (t->state == TG_WAIT || (t->state == TG_HOLD && !t->acked)) {
        t->adopted = true;
        b->adopted_left++;
    }
    if (t->state == TG_HOLD && t->cancelled)
        tg_watch_cancel(b, t); /* the former broker began, this one finishes */
    return 0;
}

int tg_adopt(struct tg_broker *b)
{
    struct adoption a = {.broker = b};
    int err = tg_store_load(b->store, &b->store_report, take, &a);
    if (!err)
        err = a.err;
    size_t i = 0;
    for (; i < a.n && !err; i++)
        err = adopt_one(b, a.tickets[i]);
    for (; i < a.n; i++)
        tg_ticket_free(a.tickets[i]);
    free(a.tickets);
    if (b->store_report.dropped_rows > 0)
        tg_log("%s: dropped %llu tickets whose rows break a rule", tg_store_path(b->store),
               (unsigned long long)b->store_report.dropped_rows);
    if (err)
        return err;
    b->holding_back = b->adopted_left > 0;
    if (b->holding_back)
        tg_broker_arm(b, &b->adopt_timer, ADOPT_MS);
    return 0;
}

/* Backwards, since a parked ticket leaves the list. */
static void park_missing(struct tg_broker *b, struct tg_ticket *const *list, size_t n)
{
    for (size_t i = n; i-- > 0;) {
        if (list[i]->adopted)
            tg_life_parked(b, list[i]);
    }
}

void tg_adopt_over(struct tg_broker *b)
{
    if (!b->holding_back)
        return;
    b->holding_back = false;
    park_missing(b, b->queue.waiters, b->queue.n_waiters);
    park_missing(b, b->queue.holders, b->queue.n_holders);
    park_missing(b, b->queue.aside, b->queue.n_aside);
    b->pass_due = true;
}
