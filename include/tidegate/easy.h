/* SPDX-License-Identifier: Apache-2.0
 *
 * Backfill when run times are known (A3), and the start order of the policy `tidegate`. Pure functions like
 * those of policy.h: no clock, no I/O, no allocation; storage is the caller's. The broker's pass (policy.h)
 * and the simulator call the same EASY functions; the policy `tidegate` is the simulator's.
 *
 * Caveats first. Times are int64_t in one unit of the caller's choice (the simulator: seconds; the broker:
 * milliseconds) since any origin; TG_NEVER stands for an unknown run time or end. The guarantees hold as
 * long as no job runs longer than its run time was said to be; one that ends early only helps. Amounts of a
 * resource are what is usable (after the floor, the gates). A function touches its arguments alone; two
 * threads must not share a timeline or a pass.
 *
 * EASY: the job at the front gets a reservation, the earliest time at which the known ends of running jobs
 * free what it needs. Another may start now when it ends before that time, or fits beside the front at that
 * time. So the front's start is never later than its reservation, whatever stream of jobs arrives (O1, O2),
 * and the reservation never moves to a later time.
 *
 * Policy `tidegate`, in full:
 *   1. The front is the waiter of the highest priority, among these the oldest (A1). It gets a promise: its
 *      EASY reservation plus a patience, by default once its own run time. A promise once given
 *      stands; when jobs end early, it becomes earlier.
 *   2. Waiters are looked at in start order: priority; then express jobs (run time up to `express`) by
 *      expansion factor, most slowed down first; then wide ones; then the rest; each by age.
 *   3. One that fits starts unless that breaks the promise. The patience pays for two things: short jobs
 *      need not wait for a drained machine, and wide jobs can follow each other while it is drained.
 *   4. The first that does not fit, and for which draining the machine would idle little compared with its
 * own work, is pulled forward: it gets a reservation too, which those after it respect.
 */
#ifndef TIDEGATE_EASY_H
#define TIDEGATE_EASY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TG_NEVER INT64_MAX

enum tg_resource {
    TG_RES_SLOTS = 0,
    TG_RES_MEMORY = 1, /* MB */
    TG_RESOURCES = 2,
};

/* An amount of each resource: a need, what is free, or a whole machine. */
struct tg_amount {
    uint64_t of[TG_RESOURCES];
};

/* Whether need fits into free, in every resource. */
bool tg_amount_fits(const struct tg_amount *need, const struct tg_amount *free);
/* a + b and a - b for each resource; the sum saturates, the difference stops at 0. */
void tg_amount_add(struct tg_amount *a, const struct tg_amount *b);
void tg_amount_sub(struct tg_amount *a, const struct tg_amount *b);

/* ---- the running jobs, by expected end ---- */

struct tg_release {
    int64_t end; /* expected, TG_NEVER when unknown */
    uint64_t id;
    struct tg_amount amount;
};

/* Sorted by end, then in order of insertion. The array is the caller's; it may set n = 0 at any time. */
struct tg_timeline {
    struct tg_release *entry;
    size_t n, cap;
};

/* Adds a running job. O(n) moves, O(log n) comparisons. -ENOSPC when n == cap. */
int tg_timeline_add(struct tg_timeline *tl, int64_t end, uint64_t id, const struct tg_amount *amount);
/* Takes out the job (end as it was added). -ENOENT when it is not there. */
int tg_timeline_remove(struct tg_timeline *tl, int64_t end, uint64_t id);

/* ---- EASY ---- */

struct tg_reservation {
    int64_t start;           /* when the job can start at the latest */
    struct tg_amount beside; /* what is left for others at that time, once it has started */
};

/* The earliest time, not before not_before (and now), at which need is free if nothing else starts. A
 * running job whose expected end has passed counts as ending now. O(n).
 * Returns 0 and *ret, or -ENODATA when the known ends do not free enough (an end it needs is unknown, or
 * the job is larger than the machine). */
int tg_easy_reserve(const struct tg_timeline *running, const struct tg_amount *free,
                    const struct tg_amount *need, int64_t now, int64_t not_before,
                    struct tg_reservation *ret);

enum tg_easy_fit {
    TG_EASY_NO = 0,
    TG_EASY_BEFORE = 1, /* it ends before the reserved start, or at it */
    TG_EASY_BESIDE = 2, /* it fits beside the reserved job */
};

/* Whether a job that fits now may start now without moving the reservation. run may be TG_NEVER. */
enum tg_easy_fit tg_easy_may_pass(const struct tg_reservation *res, int64_t now, const struct tg_amount *need,
                                  int64_t run);
/* Books such a start: one that runs past the reserved start takes its need from what is left beside. */
void tg_easy_book(struct tg_reservation *res, int64_t now, const struct tg_amount *need, int64_t run);

/* ---- when those behind the front start ---- */

/* A forecast over a queue in its order: each job starts as early as it can, but not before the one ahead of
 * it. That is the front's reservation, and for those behind it a time that passing others can only better, as
 * long as the order of the queue stays and nobody runs longer than said. */
struct tg_forecast {
    struct tg_timeline running; /* the entries are the caller's, and are used up */
    struct tg_amount free;
    struct tg_amount owed;
    int64_t at; /* when the last one starts */
    bool lost;  /* from here on nothing is known */
};

/* running: the known ends of running jobs, later than now; its array must have room for those fed, and
 * belongs to the forecast. owed (NULL: nothing) is what must become free before anything counts. */
void tg_forecast_begin(struct tg_forecast *f, const struct tg_timeline *running, const struct tg_amount *free,
                       const struct tg_amount *owed, int64_t now);
/* The next in the queue; run may be TG_NEVER. 0 and *ret_start, or -ENODATA for it and all after it. O(log n)
 * comparisons, O(n) moves. */
int tg_forecast_next(struct tg_forecast *f, const struct tg_amount *need, int64_t run, int64_t *ret_start);

/* ---- the policy `tidegate` ---- */

/* Fractions are in 1024ths. */
struct tg_tide_settings {
    int64_t express;        /* run times up to this are express */
    int64_t tau;            /* shorter run times count as this in the expansion factor (bounded slowdown) */
    uint32_t wide_1024;     /* a need above this share of some resource is wide */
    uint32_t patience_1024; /* of its own run time that the front may wait beyond its reservation */
    uint32_t pull_1024;     /* of its own work that may idle when a job is pulled forward; 0: never */
    uint32_t pull_looks;    /* how many jobs a pass considers for that: bounds its cost */
};

/* The default settings; second is one second in the caller's unit (1 or 1000, ...): express up to 300 s, tau
 * 10 s, wide above half the machine, patience 1, pull up to 3/32, 32 looks. Chosen on one workload and
 * checked on others, see docs/replay.md. */
struct tg_tide_settings tg_tide_defaults(int64_t second);

struct tg_tide_job {
    int64_t prio;    /* larger is more urgent */
    uint64_t seq;    /* arrival, as the store numbered it */
    int64_t arrived; /* when; only for the expansion factor, never for the front (A1) */
    int64_t run;     /* requested or learned run time, or TG_NEVER */
    struct tg_amount need;
};

/* The promise given to a front; kept by the caller from pass to pass (all zero at first). */
struct tg_promise {
    bool given;
    uint64_t seq; /* whose */
    int64_t start;
};

enum tg_tide_verdict {
    TG_TIDE_START = 0,   /* start it now; it is booked in the pass and in its timeline */
    TG_TIDE_NO_ROOM,     /* a resource is short */
    TG_TIDE_PULLED,      /* a resource is short, but the machine now drains for it */
    TG_TIDE_FOR_FRONT,   /* it would break the promise of the front */
    TG_TIDE_FOR_PULLED,  /* it would delay the one pulled forward */
    TG_TIDE_NO_PROMISE,  /* the front's start cannot be known: let the overtaking bound decide (policy.h) */
    TG_TIDE_NO_TIMELINE, /* it fits, but the timeline is full */
};

struct tg_tide_pass {
    struct tg_tide_settings set;
    struct tg_amount capacity;
    struct tg_amount free;       /* shrinks with each start */
    struct tg_timeline *running; /* grows with each start */
    int64_t now;
    uint64_t front_seq;
    uint64_t pulled_seq;
    struct tg_reservation front;
    struct tg_reservation pulled;
    uint32_t looks;
    bool has_front, front_known, has_pulled;
};

/* Which of two waiters is looked at first at this time: negative for a, positive for b; 0 for the same one. A
 * total order for distinct seq. */
int tg_tide_compare(const struct tg_tide_settings *set, const struct tg_amount *capacity, int64_t now,
                    const struct tg_tide_job *a, const struct tg_tide_job *b);

/* Begins a pass. front is the first waiter by tg_rank_compare, NULL when none waits; *promise is renewed
 * when it belongs to another, and moves to an earlier time when one can be kept. running must hold every
 * running job and have room for those that start. O(n) in the running jobs. */
void tg_tide_begin(struct tg_tide_pass *pass, const struct tg_tide_settings *set,
                   const struct tg_amount *capacity, const struct tg_amount *free,
                   struct tg_timeline *running, int64_t now, const struct tg_tide_job *front,
                   struct tg_promise *promise);

/* The verdict on the next waiter, fed in the order of tg_tide_compare (the front is among them). O(1) plus
 * O(n) for a start or a look. When the front itself starts, begin again with the next front (pass->free is
 * what is free then) and feed those still waiting once more. */
enum tg_tide_verdict tg_tide_next(struct tg_tide_pass *pass, const struct tg_tide_job *job);

/* The verdict as a short English phrase, never NULL. */
const char *tg_tide_name(enum tg_tide_verdict verdict);

#ifdef __cplusplus
}
#endif
#endif
