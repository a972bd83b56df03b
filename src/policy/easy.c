/* SPDX-License-Identifier: Apache-2.0
 *
 * EASY reservations over the known ends of running jobs (A3, rows O1 and O2). Pure. It does not order
 * anybody: see tide.c for the policy that calls it. Contracts in <tidegate/easy.h>.
 *
 * Why a reservation never moves later, and the front never starts after it. Let s be the reserved start and
 * F(s) what is free at s if nothing else starts. (1) A job that ends by s leaves F(s) as it was. (2) One that
 * runs past s took its need from F(s) - front, which stays >= 0 by the bookkeeping of `beside`. So at s the
 * front fits. Recomputing at a later time sees the same ends, or earlier ones, so it finds s or earlier.
 */
#include <tidegate/easy.h>

#include <errno.h>
#include <string.h>

#include "base/checked.h"

bool tg_amount_fits(const struct tg_amount *need, const struct tg_amount *free)
{
    for (int r = 0; r < TG_RESOURCES; r++)
        if (need->of[r] > free->of[r])
            return false;
    return true;
}

void tg_amount_add(struct tg_amount *a, const struct tg_amount *b)
{
    for (int r = 0; r < TG_RESOURCES; r++)
        a->of[r] = tg_sat_add_u64(a->of[r], b->of[r]);
}

void tg_amount_sub(struct tg_amount *a, const struct tg_amount *b)
{
    for (int r = 0; r < TG_RESOURCES; r++)
        a->of[r] = tg_sat_sub_u64(a->of[r], b->of[r]);
}

/* The first entry that ends at end or later (after: strictly later). */
static size_t lower(const struct tg_timeline *tl, int64_t end, bool after)
{
    size_t lo = 0, hi = tl->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (tl->entry[mid].end < end || (after && tl->entry[mid].end == end))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

int tg_timeline_add(struct tg_timeline *tl, int64_t end, uint64_t id, const struct tg_amount *amount)
{
    if (tl->n >= tl->cap)
        return -ENOSPC;
    size_t k = lower(tl, end, true);
    memmove(tl->entry + k + 1, tl->entry + k, (tl->n - k) * sizeof(*tl->entry));
    tl->entry[k] = (struct tg_release){.end = end, .id = id, .amount = *amount};
    tl->n++;
    return 0;
}

int tg_timeline_remove(struct tg_timeline *tl, int64_t end, uint64_t id)
{
    for (size_t k = lower(tl, end, false); k < tl->n && tl->entry[k].end == end; k++) {
        if (tl->entry[k].id != id)
            continue;
        tl->n--;
        memmove(tl->entry + k, tl->entry + k + 1, (tl->n - k) * sizeof(*tl->entry));
        return 0;
    }
    return -ENOENT;
}

int tg_easy_reserve(const struct tg_timeline *running, const struct tg_amount *free,
                    const struct tg_amount *need, int64_t now, int64_t not_before, struct tg_reservation *ret)
{
    struct tg_amount room = *free;
    int64_t start = not_before > now ? not_before : now;
    /* All that end by the start free their share, then as many ends as the need asks for, and all of the
     * same instant. */
    for (size_t k = 0; k < running->n; k++) {
        const struct tg_release *r = &running->entry[k];
        if (r->end > start) {
            if (tg_amount_fits(need, &room))
                break;
            if (r->end == TG_NEVER)
                return -ENODATA;
            start = r->end;
        }
        tg_amount_add(&room, &r->amount);
    }
    if (!tg_amount_fits(need, &room))
        return -ENODATA;
    tg_amount_sub(&room, need);
    *ret = (struct tg_reservation){.start = start, .beside = room};
    return 0;
}

/* A run of unknown length ends before nothing. */
static bool ends_by(int64_t now, int64_t run, int64_t start)
{
    int64_t end;
    return run != TG_NEVER && tg_add_i64(now, run, &end) && end <= start;
}

enum tg_easy_fit tg_easy_may_pass(const struct tg_reservation *res, int64_t now, const struct tg_amount *need,
                                  int64_t run)
{
    if (ends_by(now, run, res->start))
        return TG_EASY_BEFORE;
    return tg_amount_fits(need, &res->beside) ? TG_EASY_BESIDE : TG_EASY_NO;
}

void tg_easy_book(struct tg_reservation *res, int64_t now, const struct tg_amount *need, int64_t run)
{
    if (!ends_by(now, run, res->start))
        tg_amount_sub(&res->beside, need);
}

void tg_forecast_begin(struct tg_forecast *f, const struct tg_timeline *running, const struct tg_amount *free,
                       const struct tg_amount *owed, int64_t now)
{
    *f = (struct tg_forecast){.running = *running, .free = *free, .at = now};
    if (owed)
        f->owed = *owed;
}

/* What ends by the present time is part of what is free: the entries are not needed any more. */
static void forget_past(struct tg_forecast *f)
{
    size_t past = lower(&f->running, f->at, true);
    f->running.entry += past;
    f->running.n -= past;
    f->running.cap -= past;
}

int tg_forecast_next(struct tg_forecast *f, const struct tg_amount *need, int64_t run, int64_t *ret_start)
{
    struct tg_amount all = *need;
    struct tg_reservation res;
    int64_t end;
    tg_amount_add(&all, &f->owed);
    if (f->lost || tg_easy_reserve(&f->running, &f->free, &all, f->at, f->at, &res) != 0) {
        f->lost = true;
        return -ENODATA;
    }
    f->at = res.start;
    f->free = res.beside;
    f->owed = (struct tg_amount){{0}};
    forget_past(f);
    if (run != TG_NEVER && tg_add_i64(f->at, run, &end))
        (void)tg_timeline_add(&f->running, end, 0, need); /* full: as if its end were not known */
    *ret_start = f->at;
    return 0;
}
