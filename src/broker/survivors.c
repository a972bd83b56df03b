/* SPDX-License-Identifier: Apache-2.0
 *
 * What a command leaves behind (A4). The ticket of a run belongs to the command and to the processes that it
 * started and that stay in its session; it is held until the last of them has ended. Who opens a session of
 * its own (setsid) has detached on purpose and is let go: it keeps no ticket, status counts it, and only a
 * cancellation concerns it.
 *
 * When a command ends, the children of its reaper tell at once, and cheaply, that nothing is left, which is
 * nearly always so; where they cannot be asked any more, the word that the wrapper sends is awaited for a
 * moment. Otherwise all processes are looked at once, and those that keep the ticket are watched: their
 * deaths are events. After the last one all are looked at again, for what it may have started meanwhile.
 */
#include "broker/broker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/log.h"
#include "broker/survivors.h"

#define UNSURE_MS 20u      /* somebody ended while all were looked at: once more */
#define WORD_MS 200u       /* the wrapper has ended too: its word is on its way, unless it was killed */
#define UNWATCHED_MS 1000u /* no descriptor for somebody's death: asked for at intervals */

/* A daemon opens its session a moment after it was started, perhaps after the command that started it has
 * ended; no event tells. So who is left is looked at a few times more, ever later, and then no more. */
static const uint32_t LATER_MS[] = {50, 250, 1000, 5000, 30000};
#define LOOKS (sizeof(LATER_MS) / sizeof(LATER_MS[0]))

static void on_closed(uv_handle_t *handle)
{
    struct tg_survivor *s = handle->data;
    close(s->fd);
    free(s);
}

/* Takes it out of the list; its memory goes with the watch. */
static void forget(struct tg_survivor *s)
{
    struct tg_ticket *t = s->ticket;
    if (s->prev)
        s->prev->next = s->next;
    else
        t->survivors = s->next;
    if (s->next)
        s->next->prev = s->prev;
    t->n_survivors -= s->keeps;
    if (s->fd < 0) {
        free(s);
        return;
    }
    uv_poll_stop(&s->poll);
    uv_close((uv_handle_t *)&s->poll, on_closed);
}

void tg_survivors_drop(struct tg_ticket *t)
{
    while (t->survivors)
        forget(t->survivors);
}

static void on_death(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    struct tg_survivor *s = poll->data;
    struct tg_ticket *t = s->ticket;
    forget(s);
    tg_cancel_death(poll->loop->data, t);
    if (!t->survivors && t->main_ended)
        tg_look_later(poll->loop->data, t);
}

static void look_again(struct tg_broker *b, struct tg_ticket *t, uint64_t ms)
{
    uint64_t at = tg_broker_now_ms(b) + ms;
    if (t->look_again_ms == 0 || at < t->look_again_ms)
        t->look_again_ms = at;
    tg_survivors_wake(b, ms);
}

static struct tg_survivor *add(struct tg_ticket *t, const struct tg_tree_process *p, bool keeps)
{
    struct tg_survivor *s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    *s = (struct tg_survivor){.ticket = t,
                              .fd = -1,
                              .pid = p->pid,
                              .start_ticks = p->start_ticks,
                              .keeps = keeps,
                              .next = t->survivors};
    if (s->next)
        s->next->prev = s;
    t->survivors = s;
    t->n_survivors += keeps;
    return s;
}

struct tg_owner tg_survivor_identity(const struct tg_broker *b, const struct tg_survivor *s)
{
    struct tg_owner o = {.pid = s->pid, .start_ticks = s->start_ticks};
    memcpy(o.boot_id, b->boot_id, sizeof(o.boot_id));
    return o;
}

/* Makes its death an event, or a question at intervals. */
static void watch(struct tg_broker *b, struct tg_survivor *s)
{
    int fd;
    struct tg_owner o = tg_survivor_identity(b, s);
    int err = tg_owner_pidfd(&b->root, &o, &fd);
    if (err == -ESRCH) { /* it may have started others */
        look_again(b, s->ticket, UNSURE_MS);
        tg_cancel_death(b, s->ticket);
        forget(s);
        return;
    }
    if (!err && uv_poll_init(&b->loop, &s->poll, fd) != 0) {
        close(fd);
        err = -ENOMEM;
    }
    if (err) {
        look_again(b, s->ticket, UNWATCHED_MS);
        return;
    }
    s->fd = fd;
    s->poll.data = s;
    uv_poll_start(&s->poll, UV_READABLE, on_death);
}

/* Those that were there at the former look, in order of pid, so that they are found fast. */
static int by_pid(const void *a, const void *b)
{
    const struct tg_survivor *x = *(struct tg_survivor *const *)a, *y = *(struct tg_survivor *const *)b;
    return (x->pid > y->pid) - (x->pid < y->pid);
}

static struct tg_survivor **list_known(const struct tg_ticket *t, size_t *ret_n)
{
    size_t n = 0;
    for (struct tg_survivor *s = t->survivors; s; s = s->next) {
        s->seen = false;
        n++;
    }
    struct tg_survivor **known = calloc(n + 1, sizeof(*known));
    if (!known)
        return NULL;
    n = 0;
    for (struct tg_survivor *s = t->survivors; s; s = s->next)
        known[n++] = s;
    qsort(known, n, sizeof(*known), by_pid);
    *ret_n = n;
    return known;
}

static struct tg_survivor *find_known(struct tg_survivor **known, size_t n, const struct tg_tree_process *p)
{
    struct tg_survivor key = {.pid = p->pid};
    struct tg_survivor *wanted = &key;
    struct tg_survivor **found = bsearch(&wanted, known, n, sizeof(*known), by_pid);
    return found && (*found)->start_ticks == p->start_ticks ? *found : NULL;
}

/* Those without a descriptor: who was not seen any more has died (or detached), the others are tried again.
 */
static void watch_all(struct tg_broker *b, struct tg_ticket *t)
{
    struct tg_survivor *next;
    for (struct tg_survivor *s = t->survivors; s; s = next) {
        next = s->next;
        if (s->fd >= 0)
            continue;
        if (s->seen) {
            watch(b, s);
            continue;
        }
        forget(s);
        tg_cancel_death(b, t);
    }
}

static bool is_owner(const struct tg_ticket *t, const struct tg_tree_process *p)
{
    return p->pid == t->owner.pid && p->start_ticks == t->owner.start_ticks;
}

int tg_survivors_take(struct tg_broker *b, struct tg_ticket *t, const struct tg_tree *tree, size_t want)
{
    size_t n = 0;
    struct tg_survivor **known = list_known(t, &n);
    if (!known)
        return -ENOMEM;
    t->n_let_go = 0;
    t->look_again_ms = 0;
    for (size_t i = 0; i < tree->used; i++) {
        const struct tg_tree_process *p = &tree->at[i];
        if (p->want != want)
            continue;
        if (is_owner(t, p)) {
            t->owner_stopped = p->stopped;
            continue;
        }
        bool keeps = p->session == t->session; /* 0 is one too: that of a parent outside the PID namespace */
        t->n_let_go += !keeps;
        struct tg_survivor *s = find_known(known, n, p);
        if (!keeps && !t->cancel) {
            if (s && s->fd >= 0) /* it has detached since */
                forget(s);
            continue;
        }
        if (!s)
            s = add(t, p, keeps);
        if (!s) {
            free(known);
            return -ENOMEM;
        }
        s->stopped = p->stopped;
        s->seen = true;
    }
    free(known);
    watch_all(b, t);
    return 0;
}

struct tg_tree_want tg_survivors_want(const struct tg_ticket *t)
{
    return (struct tg_tree_want){.id = t->id,
                                 .uid = t->uid,
                                 .owner = t->owner.pid,
                                 .owner_start = t->owner.start_ticks,
                                 .reaper = t->reaper};
}

/* What a look has found, if it has not failed. */
static int take_or_say(struct tg_broker *b, struct tg_ticket *t, const struct tg_tree *tree, size_t want,
                       int err)
{
    if (!err)
        err = tg_survivors_take(b, t, tree, want);
    if (err)
        tg_log("ticket %llu: its processes cannot be looked for: %s", (unsigned long long)t->id,
               strerror(-err));
    return err;
}

int tg_survivors_look(struct tg_broker *b, struct tg_ticket *t)
{
    struct tg_tree tree = {0};
    struct tg_tree_want want = tg_survivors_want(t);
    int err = tg_tree_scan(&b->root, tg_store_uuid(b->store), &want, 1, getpid(), &tree);
    err = take_or_say(b, t, &tree, 0, err);
    tg_tree_done(&tree);
    return err;
}

static void finish(struct tg_broker *b, struct tg_ticket *t)
{
    tg_life_ended(b, t, TG_OUTCOME_OWNER_DIED, "its owner has ended");
}

static void settle(struct tg_broker *b, struct tg_ticket *t, int err)
{
    bool first = !t->main_kept;
    t->awaits_word = false;
    t->unasked = false;
    t->look = TG_LOOK_NO;
    if (!err && t->cancel)
        tg_cancel_tell(b, t);
    /* What nobody can find holds nothing. */
    if (!t->survivors && (err || t->look_again_ms == 0)) {
        finish(b, t);
        return;
    }
    t->main_kept = true;
    if (!t->cancel && t->n_looks < LOOKS)
        look_again(b, t, LATER_MS[t->n_looks++]);
    if (first)
        tg_life_touch(b, t);
}

void tg_survivors_settle(struct tg_broker *b, struct tg_ticket *t)
{
    settle(b, t, tg_survivors_look(b, t));
}

/* After a look, whatever it found. */
static void looked(struct tg_broker *b, struct tg_ticket *t, int err)
{
    if (t->main_ended) {
        settle(b, t, err);
        return;
    }
    t->look = TG_LOOK_NO;
    if (t->cancel) /* the owner at the least */
        tg_cancel_tell(b, t);
}

void tg_survivors_look_now(struct tg_broker *b, struct tg_ticket *t)
{
    looked(b, t, tg_survivors_look(b, t));
}

void tg_survivors_seen(struct tg_broker *b, struct tg_ticket *t, const struct tg_tree *tree, size_t want,
                       int err)
{
    looked(b, t, take_or_say(b, t, tree, want, err));
}

static int ask_reaper(struct tg_broker *b, struct tg_ticket *t)
{
    struct tg_tree_want want = tg_survivors_want(t);
    t->unasked = false;
    return tg_tree_any_left(&b->root, &want, getpid());
}

void tg_survivors_ask(struct tg_broker *b, struct tg_ticket *t)
{
    if (!t->unasked)
        return;
    int left = ask_reaper(b, t);
    if (left == 0)
        finish(b, t);
    else if (left > 0)
        tg_survivors_settle(b, t);
}

/* Backwards, since an ended ticket leaves its list. */
void tg_survivors_ask_all(struct tg_broker *b)
{
    const struct tg_queue *q = &b->queue;
    b->any_unasked = false;
    for (size_t i = q->n_holders; i-- > 0;) {
        if (i < q->n_holders)
            tg_survivors_ask(b, q->holders[i]);
    }
}

void tg_survivors_main_ended(struct tg_broker *b, struct tg_ticket *t, int left)
{
    if (t->state != TG_HOLD || t->kind != TG_KIND_RUN) {
        finish(b, t);
        return;
    }
    if (t->main_ended && !(t->awaits_word && left >= 0))
        return;
    /* While nobody waits for what it holds, its wrapper's word comes soon enough and costs nothing. */
    bool unasked = left < 0 && t->reaper > 1 && !t->cancel && b->queue.n_waiters == 0;
    if (left < 0 && t->reaper > 1 && !unasked)
        left = ask_reaper(b, t);
    if (left == 0) {
        finish(b, t);
        return;
    }
    tg_watch_stop(t);
    tg_cancel_death(b, t);
    tg_queue_main_ended(&b->queue, t);
    if (left < 0 && t->reaper > 1 && !t->cancel) {
        t->awaits_word = true;
        t->unasked = unasked;
        b->any_unasked |= unasked;
        look_again(b, t, WORD_MS);
    } else if (left > 0 && !t->cancel) { /* its wrapper stays for the answer, and is part of it */
        tg_survivors_settle(b, t);
    } else {
        tg_look_later(b, t);
    }
}

/* ---- the timer that cancellations share */

void tg_survivors_wake(struct tg_broker *b, uint64_t ms)
{
    if (!uv_is_active((uv_handle_t *)&b->kill_timer) || uv_timer_get_due_in(&b->kill_timer) > ms)
        tg_broker_arm(b, &b->kill_timer, ms);
}

/* One holder; true when it is still there. */
static bool one_due(struct tg_broker *b, struct tg_ticket *t, uint64_t now)
{
    uint64_t id = t->id;
    if (t->cancel && tg_cancel_due_ms(t) <= now)
        tg_cancel_due(b, t);
    if (tg_queue_by_id(&b->queue, id) != t)
        return false;
    if (t->look_again_ms != 0 && t->look_again_ms <= now) {
        t->look_again_ms = 0;
        bool unasked = t->unasked;
        tg_survivors_ask(b, t);
        if (tg_queue_by_id(&b->queue, id) != t)
            return false;
        if (unasked && !t->awaits_word) /* that has just looked */
            return true;
        if (t->main_ended || t->cancel)
            tg_look_later(b, t);
    }
    return tg_queue_by_id(&b->queue, id) == t;
}

/* Backwards, since an ended ticket leaves its list. */
void tg_survivors_due(struct tg_broker *b)
{
    struct tg_queue *q = &b->queue;
    uint64_t now = tg_broker_now_ms(b);
    uint64_t next = UINT64_MAX;
    for (size_t i = q->n_holders; i-- > 0;) {
        struct tg_ticket *t = i < q->n_holders ? q->holders[i] : NULL;
        if (!t || !one_due(b, t, now))
            continue;
        if (t->look_again_ms != 0 && t->look_again_ms < next)
            next = t->look_again_ms;
        if (t->cancel && tg_cancel_due_ms(t) < next)
            next = tg_cancel_due_ms(t);
    }
    if (next != UINT64_MAX)
        tg_survivors_wake(b, next > now ? next - now : 1);
}
