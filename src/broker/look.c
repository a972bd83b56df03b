/* SPDX-License-Identifier: Apache-2.0
 *
 * The look at all processes of the machine that the end of a command calls for where its wrapper cannot tell
 * whether anything is left (survivors.c), and each step of a cancellation (cancel.c). With thousands of
 * processes it takes long, so a thread does it and the loop goes on; one look is under way at a time, and
 * those who come meanwhile share the next. The ticket is held until it is over.
 *
 * The thread has a copy of what it is to look for and touches nothing else of the broker. A ticket may be
 * gone when it comes back: it is found again by its number, which is never given twice.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/survivors.h"

struct tg_look {
    uv_work_t req;
    struct tg_broker *broker;
    struct tg_root root;
    char uuid[80];
    struct tg_tree_want *want;
    size_t n;
    pid_t self;
    struct tg_tree tree;
    int err;
};

static void done(struct tg_look *l)
{
    tg_tree_done(&l->tree);
    free(l->want);
    free(l);
}

static void look(uv_work_t *req)
{
    struct tg_look *l = req->data;
    l->err = tg_tree_scan(&l->root, l->uuid, l->want, l->n, l->self, &l->tree);
}

static void looked(uv_work_t *req, int status)
{
    struct tg_look *l = req->data;
    struct tg_broker *b = l->broker;
    b->look = NULL;
    if (status)
        l->err = status;
    for (size_t i = 0; i < l->n && !b->stopping; i++) {
        struct tg_ticket *t = tg_queue_by_id(&b->queue, l->want[i].id);
        /* One that has been asked for again since is looked for again: what this look saw may be old. */
        if (t && t->look == TG_LOOK_UNDER_WAY)
            tg_survivors_seen(b, t, &l->tree, i, l->err);
    }
    done(l);
    tg_look_start(b);
}

static struct tg_look *make(struct tg_broker *b)
{
    const struct tg_queue *q = &b->queue;
    struct tg_look *l = calloc(1, sizeof(*l));
    struct tg_tree_want *want = calloc(q->n_holders + 1, sizeof(*want));
    if (!l || !want) {
        free(l);
        free(want);
        return NULL;
    }
    *l = (struct tg_look){.broker = b, .root = b->root, .want = want, .self = getpid()};
    l->root.kept = NULL; /* the loop's alone */
    l->req.data = l;
    strncpy(l->uuid, tg_store_uuid(b->store), sizeof(l->uuid) - 1);
    for (size_t i = 0; i < q->n_holders; i++) {
        if (q->holders[i]->look == TG_LOOK_NO)
            continue;
        q->holders[i]->look = TG_LOOK_UNDER_WAY;
        want[l->n++] = tg_survivors_want(q->holders[i]);
    }
    return l;
}

/* Without a thread, or memory for one: here and now. Backwards, since an ended ticket leaves its list. */
static void look_here(struct tg_broker *b)
{
    const struct tg_queue *q = &b->queue;
    for (size_t i = q->n_holders; i-- > 0;) {
        struct tg_ticket *t = i < q->n_holders ? q->holders[i] : NULL;
        if (t && t->look != TG_LOOK_NO)
            tg_survivors_look_now(b, t);
    }
}

void tg_look_start(struct tg_broker *b)
{
    if (b->look || b->looks_wanted == 0 || b->stopping)
        return;
    b->looks_wanted = 0;
    struct tg_look *l = make(b);
    if (l && l->n > 0 && uv_queue_work(&b->loop, &l->req, look, looked) == 0) {
        b->look = l;
        return;
    }
    if (l)
        done(l);
    look_here(b);
}

void tg_look_later(struct tg_broker *b, struct tg_ticket *t)
{
    t->look = TG_LOOK_WANTED;
    b->looks_wanted++; /* the loop starts it, for all that end in this iteration */
}

/* ThreadSanitizer knows a descriptor's number by who opened and closed it. The loop closes in libuv, which is
 * not instrumented, so a number that the thread then gets looks shared. What the scan itself touches is its
 * own: its arguments are copied before the thread begins, and nothing of the broker is reached from them. */
#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#endif
#endif
#ifdef UNDER_TSAN
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "race:tg_tree_scan\n";
}
#endif
