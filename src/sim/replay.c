/* SPDX-License-Identifier: Apache-2.0
 * See replay.h. The engine: events, queue, accounts. Who may start is decided in src/policy alone. */
#include "sim/replay.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "sim/events.h"

enum { TAU_S = 10 };

struct job {
    struct tg_tide_job p; /* seq: the index in order of arrival */
    int64_t run_s;        /* what it will really take */
    int64_t start_s;      /* -1: not yet */
    int64_t reserved_s;
    size_t at; /* in the trace */
};

struct sim {
    struct tg_replay_options opt;
    struct job *job; /* in order of arrival */
    size_t n;
    uint32_t *queue; /* waiting, in order of arrival: from head to tail */
    size_t head, tail;
    uint32_t *order; /* waiting, in the start order of the last pass, then those that came since */
    size_t ordered, n_order;
    struct tg_events ends;
    struct tg_timeline running;
    struct tg_amount capacity, free;
    struct tg_promise promise;
    int64_t now;
};

static struct job *front(const struct sim *s)
{
    return s->head < s->tail ? &s->job[s->queue[s->head]] : NULL;
}

/* The accounts of a start; the timeline is the policy's. */
static void started(struct sim *s, struct job *j)
{
    j->start_s = s->now;
    tg_events_push(&s->ends, (struct tg_event){.at = s->now + j->run_s, .job = (uint32_t)j->p.seq});
    tg_amount_sub(&s->free, &j->p.need);
}

static void start(struct sim *s, struct job *j)
{
    tg_timeline_add(&s->running, s->now + j->p.run, j->p.seq, &j->p.need);
    started(s, j);
}

/* Takes those that started out of list[from..to); returns where it ends now. */
static size_t compact(const struct sim *s, uint32_t *list, size_t from, size_t to)
{
    size_t kept = from;
    for (size_t k = from; k < to; k++)
        if (s->job[list[k]].start_s < 0)
            list[kept++] = list[k];
    return kept;
}

static void start_in_order(struct sim *s)
{
    for (struct job *j = front(s); j && tg_amount_fits(&j->p.need, &s->free); j = front(s)) {
        start(s, j);
        s->head++;
    }
}

static void note_reservation(struct job *j, int64_t start_s)
{
    if (j->reserved_s < 0)
        j->reserved_s = start_s;
}

static void schedule_easy(struct sim *s)
{
    start_in_order(s);
    struct job *f = front(s);
    struct tg_reservation res;
    if (!f || tg_easy_reserve(&s->running, &s->free, &f->p.need, s->now, s->now, &res) != 0)
        return;
    note_reservation(f, res.start);
    bool any = false;
    for (size_t k = s->head + 1; k < s->tail && s->free.of[TG_RES_SLOTS] > 0; k++) {
        struct job *j = &s->job[s->queue[k]];
        if (!tg_amount_fits(&j->p.need, &s->free) ||
            tg_easy_may_pass(&res, s->now, &j->p.need, j->p.run) == TG_EASY_NO)
            continue;
        tg_easy_book(&res, s->now, &j->p.need, j->p.run);
        start(s, j);
        any = true;
    }
    if (any)
        s->tail = compact(s, s->queue, s->head, s->tail);
}

static int in_start_order(const void *a, const void *b, void *context)
{
    const struct sim *s = context;
    return tg_tide_compare(&s->opt.tide, &s->capacity, s->now, &s->job[*(const uint32_t *)a].p,
                           &s->job[*(const uint32_t *)b].p);
}

static bool any_fits(const struct sim *s)
{
    for (size_t k = s->head; k < s->tail; k++)
        if (tg_amount_fits(&s->job[s->queue[k]].p.need, &s->free))
            return true;
    return false;
}

/* Puts order[] into start order. The order of the last pass is nearly right: only expansion factors have
 * moved, and few have come since. */
static void sort_order(struct sim *s)
{
    enum { FEW = 64 };
    if (s->n_order - s->ordered > FEW) {
        qsort_r(s->order, s->n_order, sizeof(*s->order), in_start_order, s);
    } else {
        for (size_t k = 1; k < s->n_order; k++) {
            uint32_t moving = s->order[k];
            size_t to = k;
            for (; to > 0 && in_start_order(&moving, &s->order[to - 1], s) < 0; to--)
                s->order[to] = s->order[to - 1];
            s->order[to] = moving;
        }
    }
    s->ordered = s->n_order;
}

/* Begins a pass for the first that still waits. */
static struct job *tide_begin(struct sim *s, struct tg_tide_pass *pass)
{
    while (s->head < s->tail && front(s)->start_s >= 0)
        s->head++;
    struct job *f = front(s);
    if (!f)
        return NULL;
    tg_tide_begin(pass, &s->opt.tide, &s->capacity, &s->free, &s->running, s->now, &f->p, &s->promise);
    if (s->promise.given)
        note_reservation(f, s->promise.start);
    return f;
}

/* Feeds those that still wait. True when the front started: another pass is due. */
static bool tide_pass(struct sim *s)
{
    struct tg_tide_pass pass;
    struct job *f = tide_begin(s, &pass);
    for (size_t k = 0; f && k < s->ordered && s->free.of[TG_RES_SLOTS] > 0; k++) {
        struct job *j = &s->job[s->order[k]];
        if (j->start_s >= 0 || tg_tide_next(&pass, &j->p) != TG_TIDE_START)
            continue;
        started(s, j);
        if (j == f)
            return true;
    }
    return false;
}

static void schedule_tidegate(struct sim *s)
{
    if (!any_fits(s)) {
        struct tg_tide_pass pass;
        tide_begin(s, &pass); /* the front is promised its start as soon as it is the front */
        return;
    }
    sort_order(s);
    while (tide_pass(s))
        ;
    s->tail = compact(s, s->queue, s->head, s->tail);
    s->n_order = s->ordered = compact(s, s->order, 0, s->n_order);
}

static void schedule(struct sim *s)
{
    switch (s->opt.policy) {
    case TG_REPLAY_FIFO:
        start_in_order(s);
        break;
    case TG_REPLAY_EASY:
        schedule_easy(s);
        break;
    case TG_REPLAY_TIDEGATE:
        schedule_tidegate(s);
        break;
    }
}

static void finish(struct sim *s)
{
    const struct job *j = &s->job[tg_events_pop(&s->ends).job];
    tg_timeline_remove(&s->running, j->start_s + j->p.run, j->p.seq);
    tg_amount_add(&s->free, &j->p.need);
}

static void run(struct sim *s)
{
    size_t next = 0; /* to arrive */
    while (next < s->n || s->ends.n > 0) {
        bool arrival = next < s->n && (s->ends.n == 0 || s->job[next].p.arrived < s->ends.heap[0].at);
        s->now = arrival ? s->job[next].p.arrived : s->ends.heap[0].at;
        while (s->ends.n > 0 && s->ends.heap[0].at <= s->now)
            finish(s);
        for (; next < s->n && s->job[next].p.arrived <= s->now; next++) {
            s->queue[s->tail++] = (uint32_t)next;
            s->order[s->n_order++] = (uint32_t)next;
        }
        schedule(s);
    }
}

static double bounded_slowdown(int64_t wait_s, int64_t run_s)
{
    double s = ((double)wait_s + (double)run_s) / (double)(run_s > TAU_S ? run_s : TAU_S);
    return s > 1.0 ? s : 1.0;
}

static void sum_up(const struct sim *s, uint64_t skipped, struct tg_replay_result *ret)
{
    struct tg_replay_result r = {.jobs = s->n, .skipped = skipped};
    double wait = 0, slowdown = 0, area = 0;
    int64_t last = 0;
    for (size_t k = 0; k < s->n; k++) {
        const struct job *j = &s->job[k];
        int64_t waited = j->start_s - j->p.arrived, end = j->start_s + j->run_s;
        wait += (double)waited;
        slowdown += bounded_slowdown(waited, j->run_s);
        area += (double)j->run_s * (double)j->p.need.of[TG_RES_SLOTS];
        r.max_wait_s = waited > r.max_wait_s ? waited : r.max_wait_s;
        last = end > last ? end : last;
    }
    if (s->n > 0) {
        r.makespan_s = last - s->job[0].p.arrived;
        r.avg_wait_s = wait / (double)s->n;
        r.avg_bsld = slowdown / (double)s->n;
    }
    if (r.makespan_s > 0)
        r.utilisation = area / ((double)r.makespan_s * (double)s->opt.procs);
    *ret = r;
}

static bool can_replay(const struct tg_swf_job *j, int64_t procs)
{
    return j->submit_s >= 0 && j->run_s >= 0 && j->procs > 0 && j->procs <= procs;
}

static int by_arrival(const void *a, const void *b, void *context)
{
    const struct tg_swf *trace = context;
    const struct job *x = a, *y = b;
    int64_t number_x = trace->job[x->at].number, number_y = trace->job[y->at].number;
    if (x->p.arrived != y->p.arrived)
        return x->p.arrived < y->p.arrived ? -1 : 1;
    if (number_x != number_y)
        return number_x < number_y ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* Fills s->job. No sum of times that the replay can form may overflow: the latest of them is the last
 * submit plus all run and requested times. */
static int take_jobs(struct sim *s, const struct tg_swf *trace)
{
    int64_t sum = TG_SWF_MAX_TIME;
    for (size_t k = 0; k < trace->n; k++) {
        const struct tg_swf_job *t = &trace->job[k];
        if (!can_replay(t, s->opt.procs))
            continue;
        int64_t request = t->request_s > 0 ? t->request_s : t->run_s;
        if (t->submit_s > TG_SWF_MAX_TIME || !tg_add_i64(sum, t->run_s, &sum) ||
            !tg_add_i64(sum, request, &sum))
            return -EOVERFLOW;
        s->job[s->n++] = (struct job){.p = {.arrived = t->submit_s,
                                            .run = request,
                                            .need = {.of = {[TG_RES_SLOTS] = (uint64_t)t->procs}}},
                                      .run_s = t->run_s,
                                      .start_s = -1,
                                      .reserved_s = -1,
                                      .at = k};
    }
    qsort_r(s->job, s->n, sizeof(*s->job), by_arrival, (void *)(uintptr_t)trace);
    for (size_t k = 0; k < s->n; k++)
        s->job[k].p.seq = k;
    return 0;
}

static void write_log(const struct sim *s, size_t n, const struct tg_replay_log *log)
{
    for (size_t k = 0; k < n; k++) {
        if (log->start_s)
            log->start_s[k] = -1;
        if (log->reserved_s)
            log->reserved_s[k] = -1;
    }
    for (size_t k = 0; k < s->n; k++) {
        if (log->start_s)
            log->start_s[s->job[k].at] = s->job[k].start_s;
        if (log->reserved_s)
            log->reserved_s[s->job[k].at] = s->job[k].reserved_s;
    }
}

static int allocate(struct sim *s, size_t n)
{
    size_t room = n > 0 ? n : 1;
    s->job = calloc(room, sizeof(*s->job));
    s->queue = calloc(room, sizeof(*s->queue));
    s->order = calloc(room, sizeof(*s->order));
    s->ends.heap = calloc(room, sizeof(*s->ends.heap));
    s->running = (struct tg_timeline){.entry = calloc(room, sizeof(*s->running.entry)), .cap = room};
    return s->job && s->queue && s->order && s->ends.heap && s->running.entry ? 0 : -ENOMEM;
}

static void release(struct sim *s)
{
    free(s->job);
    free(s->queue);
    free(s->order);
    free(s->ends.heap);
    free(s->running.entry);
}

int tg_replay(const struct tg_swf *trace, const struct tg_replay_options *options,
              struct tg_replay_result *ret, const struct tg_replay_log *log)
{
    if (options->procs < 1 || options->procs > TG_SWF_MAX_PROCS || trace->n > UINT32_MAX ||
        !tg_replay_policy_name(options->policy))
        return -EINVAL;
    struct sim s = {.opt = *options};
    s.capacity.of[TG_RES_SLOTS] = (uint64_t)options->procs;
    s.free = s.capacity;
    int rc = allocate(&s, trace->n);
    if (rc == 0)
        rc = take_jobs(&s, trace);
    if (rc == 0) {
        run(&s);
        sum_up(&s, trace->n - s.n, ret);
        if (log)
            write_log(&s, trace->n, log);
    }
    release(&s);
    return rc;
}

static const char *const names[] = {
    [TG_REPLAY_FIFO] = "fifo", [TG_REPLAY_EASY] = "easy", [TG_REPLAY_TIDEGATE] = "tidegate"};

int tg_replay_policy_parse(const char *name, enum tg_replay_policy *ret)
{
    for (unsigned k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
        if (strcmp(name, names[k]) == 0) {
            *ret = (enum tg_replay_policy)k;
            return 0;
        }
    }
    return -EINVAL;
}

const char *tg_replay_policy_name(enum tg_replay_policy policy)
{
    return (unsigned)policy < sizeof(names) / sizeof(names[0]) ? names[policy] : NULL;
}
