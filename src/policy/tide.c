/* SPDX-License-Identifier: Apache-2.0
 *
 * The policy `tidegate` for jobs of known run time: who is looked at first, what the front is promised, who
 * may start now (A1, A3). Pure. The four rules stand in <tidegate/easy.h>.
 *
 * Why the front starts by its promise P even though others are pulled forward. Every start is checked
 * against the reservation at P, so at P the front fits (see easy.c). It could only be held back by a pulled
 * job x. x is accepted when it can start at an end t of a running job and (a) is over by P or (b) fits
 * beside the front at P. Then t <= P or x needs nothing that the front lacks, so another pass comes no later
 * than P. Let e be the last pass by P. No job ends after e and by P, so (a) cannot be, and (b) would mean
 * that x fits at e already, and one that fits is not pulled. So at e nothing holds the front back.
 */
#include <tidegate/easy.h>
#include <tidegate/policy.h>

#include "base/checked.h"

__extension__ typedef unsigned __int128 tg_wide_u;

struct tg_tide_settings tg_tide_defaults(int64_t second)
{
    return (struct tg_tide_settings){.express = 300 * second,
                                     .tau = 10 * second,
                                     .wide_1024 = 512,
                                     .patience_1024 = 1024,
                                     .pull_1024 = 96,
                                     .pull_looks = 32};
}

static bool is_express(const struct tg_tide_settings *set, const struct tg_tide_job *job)
{
    return job->run != TG_NEVER && job->run <= set->express;
}

static bool is_wide(const struct tg_tide_settings *set, const struct tg_amount *capacity,
                    const struct tg_tide_job *job)
{
    for (int r = 0; r < TG_RESOURCES; r++)
        if ((tg_wide_u)job->need.of[r] * 1024 > (tg_wide_u)capacity->of[r] * set->wide_1024)
            return true;
    return false;
}

static int class_of(const struct tg_tide_settings *set, const struct tg_amount *capacity,
                    const struct tg_tide_job *job)
{
    if (is_express(set, job))
        return 0;
    return is_wide(set, capacity, job) ? 1 : 2;
}

/* The longer of the run time and tau, never 0. */
static uint64_t bounded_run(const struct tg_tide_settings *set, const struct tg_tide_job *job)
{
    int64_t run = job->run > set->tau ? job->run : set->tau;
    return run > 0 ? (uint64_t)run : 1;
}

static uint64_t waited(const struct tg_tide_job *job, int64_t now)
{
    return now > job->arrived ? (uint64_t)now - (uint64_t)job->arrived : 0;
}

int tg_tide_compare(const struct tg_tide_settings *set, const struct tg_amount *capacity, int64_t now,
                    const struct tg_tide_job *a, const struct tg_tide_job *b)
{
    if (a->prio == b->prio) {
        int class_a = class_of(set, capacity, a), class_b = class_of(set, capacity, b);
        if (class_a != class_b)
            return class_a - class_b;
        if (class_a == 0) {
            /* (wait + run) / run: the larger first. Only wait / run differs. */
            tg_wide_u slow_a = (tg_wide_u)waited(a, now) * bounded_run(set, b);
            tg_wide_u slow_b = (tg_wide_u)waited(b, now) * bounded_run(set, a);
            if (slow_a != slow_b)
                return slow_a > slow_b ? -1 : 1;
        }
    }
    return tg_rank_compare(a->prio, a->seq, b->prio, b->seq);
}

/* base + run * patience, or the end of time; a run time that is unknown buys no patience. */
static int64_t with_patience(int64_t base, int64_t run, uint32_t patience_1024)
{
    if (run == TG_NEVER || run <= 0)
        return base;
    tg_wide_u more = (tg_wide_u)(uint64_t)run * patience_1024 / 1024;
    int64_t sum;
    if (more >= (tg_wide_u)INT64_MAX || !tg_add_i64(base, (int64_t)more, &sum))
        return TG_NEVER - 1;
    return sum;
}

void tg_tide_begin(struct tg_tide_pass *pass, const struct tg_tide_settings *set,
                   const struct tg_amount *capacity, const struct tg_amount *free,
                   struct tg_timeline *running, int64_t now, const struct tg_tide_job *front,
                   struct tg_promise *promise)
{
    *pass = (struct tg_tide_pass){
        .set = *set, .capacity = *capacity, .free = *free, .running = running, .now = now};
    if (!front)
        return;
    pass->has_front = true;
    pass->front_seq = front->seq;
    struct tg_reservation earliest;
    if (promise->given && promise->seq != front->seq)
        promise->given = false;
    if (tg_easy_reserve(running, free, &front->need, now, now, &earliest) != 0)
        return;
    /* Jobs that ended early make it better, nothing makes it worse. */
    int64_t start = with_patience(earliest.start, front->run, set->patience_1024);
    if (!promise->given || start < promise->start)
        *promise = (struct tg_promise){.given = true, .seq = front->seq, .start = start};
    pass->front_known = tg_easy_reserve(running, free, &front->need, now, promise->start, &pass->front) == 0;
}

/* The resource of which the job needs the largest share. */
static int dominant(const struct tg_amount *capacity, const struct tg_amount *need)
{
    int best = 0;
    for (int r = 1; r < TG_RESOURCES; r++)
        if ((tg_wide_u)need->of[r] * capacity->of[best] > (tg_wide_u)need->of[best] * capacity->of[r])
            best = r;
    return best;
}

/* Amount x time of one resource that stays idle if nothing starts until then. */
static tg_wide_u idle_until(const struct tg_tide_pass *pass, int resource, int64_t until)
{
    tg_wide_u idle = (tg_wide_u)pass->free.of[resource] * (uint64_t)(until - pass->now);
    for (size_t k = 0; k < pass->running->n && pass->running->entry[k].end < until; k++) {
        const struct tg_release *r = &pass->running->entry[k];
        int64_t end = r->end > pass->now ? r->end : pass->now;
        idle += (tg_wide_u)r->amount.of[resource] * (uint64_t)(until - end);
    }
    return idle;
}

/* Rule 4: worth draining for, and no harm to the front. */
static bool pull(struct tg_tide_pass *pass, const struct tg_tide_job *job)
{
    if (pass->has_pulled || pass->looks >= pass->set.pull_looks || pass->set.pull_1024 == 0)
        return false;
    if (is_express(&pass->set, job) || job->run == TG_NEVER)
        return false;
    pass->looks++;
    struct tg_reservation res;
    if (tg_easy_reserve(pass->running, &pass->free, &job->need, pass->now, pass->now, &res) != 0)
        return false;
    if (job->seq != pass->front_seq &&
        tg_easy_may_pass(&pass->front, res.start, &job->need, job->run) == TG_EASY_NO)
        return false;
    int r = dominant(&pass->capacity, &job->need);
    tg_wide_u work = (tg_wide_u)job->need.of[r] * (uint64_t)job->run;
    tg_wide_u allowed = work / 1024 * pass->set.pull_1024 + work % 1024 * pass->set.pull_1024 / 1024;
    if (idle_until(pass, r, res.start) > allowed)
        return false;
    pass->pulled = res;
    pass->pulled_seq = job->seq;
    pass->has_pulled = true;
    return true;
}

static void start(struct tg_tide_pass *pass, const struct tg_tide_job *job, bool is_front)
{
    if (!is_front)
        tg_easy_book(&pass->front, pass->now, &job->need, job->run);
    if (pass->has_pulled)
        tg_easy_book(&pass->pulled, pass->now, &job->need, job->run);
    tg_amount_sub(&pass->free, &job->need);
}

enum tg_tide_verdict tg_tide_next(struct tg_tide_pass *pass, const struct tg_tide_job *job)
{
    bool is_front = pass->has_front && job->seq == pass->front_seq;
    if (!tg_amount_fits(&job->need, &pass->free)) {
        if (!pass->front_known)
            return TG_TIDE_NO_ROOM;
        return pull(pass, job) ? TG_TIDE_PULLED : TG_TIDE_NO_ROOM;
    }
    if (!is_front) {
        if (!pass->front_known)
            return TG_TIDE_NO_PROMISE;
        if (tg_easy_may_pass(&pass->front, pass->now, &job->need, job->run) == TG_EASY_NO)
            return TG_TIDE_FOR_FRONT;
    }
    if (pass->has_pulled && tg_easy_may_pass(&pass->pulled, pass->now, &job->need, job->run) == TG_EASY_NO)
        return TG_TIDE_FOR_PULLED;
    int64_t end;
    if (job->run == TG_NEVER || !tg_add_i64(pass->now, job->run, &end))
        end = TG_NEVER;
    if (tg_timeline_add(pass->running, end, job->seq, &job->need) != 0)
        return TG_TIDE_NO_TIMELINE;
    start(pass, job, is_front);
    return TG_TIDE_START;
}

const char *tg_tide_name(enum tg_tide_verdict verdict)
{
    switch (verdict) {
    case TG_TIDE_START:
        return "start";
    case TG_TIDE_NO_ROOM:
        return "no-room";
    case TG_TIDE_PULLED:
        return "pulled";
    case TG_TIDE_FOR_FRONT:
        return "for-front";
    case TG_TIDE_FOR_PULLED:
        return "for-pulled";
    case TG_TIDE_NO_PROMISE:
        return "no-promise";
    case TG_TIDE_NO_TIMELINE:
        return "no-timeline";
    }
    return "unknown";
}
