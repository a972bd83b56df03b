/* SPDX-License-Identifier: Apache-2.0
 * See demo_check.h. n is a few dozen: plain loops over all pairs. */
#include "cli/demo_check.h"

static bool runs_at(const struct tg_demo_job *j, uint64_t t)
{
    return j->start_ns <= t && t < j->end_ns;
}

uint32_t tg_demo_most_at_once(const struct tg_demo_job *jobs, size_t n)
{
    uint32_t most = 0;
    for (size_t i = 0; i < n; i++) { /* the count can only rise at a start */
        uint32_t now = 0;
        for (size_t k = 0; k < n; k++)
            now += runs_at(&jobs[k], jobs[i].start_ns);
        most = now > most ? now : most;
    }
    return most;
}

uint64_t tg_demo_most_memory(const struct tg_demo_job *jobs, size_t n)
{
    uint64_t most = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t now = 0;
        for (size_t k = 0; k < n; k++)
            now += runs_at(&jobs[k], jobs[i].start_ns) ? jobs[k].est_mb : 0;
        most = now > most ? now : most;
    }
    return most;
}

/* A1 spelled out once more on purpose: the judge does not borrow the function it judges. */
bool tg_demo_outranks(const struct tg_demo_job *a, const struct tg_demo_job *b)
{
    return a->prio > b->prio || (a->prio == b->prio && a->seq < b->seq);
}

static bool waited_while_granted(const struct tg_demo_job *a, const struct tg_demo_job *b)
{
    return a->queued_ns < b->granted_ns && b->granted_ns < a->granted_ns;
}

/* Whether some set of the maybe-holders makes b fit and a not. */
static bool some_set_excuses(const struct tg_demo_job *jobs, const size_t *maybe, size_t n_maybe,
                             uint32_t held, uint64_t held_mb, const struct tg_demo_job *a,
                             const struct tg_demo_job *b, const struct tg_demo_limits *limits)
{
    for (uint32_t set = 0; set < 1u << n_maybe; set++) {
        uint32_t slots = held;
        uint64_t mb = held_mb;
        for (size_t i = 0; i < n_maybe; i++) {
            if (set >> i & 1) {
                slots++;
                mb += jobs[maybe[i]].est_mb;
            }
        }
        bool b_fits = slots < limits->slots && mb + b->est_mb <= limits->budget_mb;
        bool a_fits = slots < limits->slots && mb + a->est_mb <= limits->budget_mb;
        if (b_fits && !a_fits)
            return true;
    }
    return false;
}

bool tg_demo_may_pass(const struct tg_demo_job *jobs, size_t n, size_t a, size_t b,
                      const struct tg_demo_limits *limits)
{
    enum { MAYBE_MAX = 12 };
    size_t maybe[MAYBE_MAX], n_maybe = 0;
    uint32_t held = 0;
    uint64_t held_mb = 0, t = jobs[b].granted_ns;
    for (size_t i = 0; i < n; i++) {
        if (i == a || i == b || jobs[i].granted_ns >= t || jobs[i].exit_ns <= t)
            continue;
        if (jobs[i].end_ns > t || n_maybe == MAYBE_MAX) {
            held++;
            held_mb += jobs[i].est_mb;
        } else {
            maybe[n_maybe++] = i;
        }
    }
    return some_set_excuses(jobs, maybe, n_maybe, held, held_mb, &jobs[a], &jobs[b], limits);
}

size_t tg_demo_order_faults(const struct tg_demo_job *jobs, size_t n, const struct tg_demo_limits *limits,
                            size_t *ret_a, size_t *ret_b)
{
    size_t faults = 0;
    for (size_t a = 0; a < n; a++) {
        for (size_t b = 0; b < n; b++) {
            if (a == b || !tg_demo_outranks(&jobs[a], &jobs[b]) || !waited_while_granted(&jobs[a], &jobs[b]))
                continue;
            if (tg_demo_may_pass(jobs, n, a, b, limits))
                continue;
            if (faults++ == 0) {
                *ret_a = a;
                *ret_b = b;
            }
        }
    }
    return faults;
}

uint32_t tg_demo_times_passed(const struct tg_demo_job *jobs, size_t n, size_t a)
{
    uint32_t passed = 0;
    for (size_t b = 0; b < n; b++)
        passed += a != b && tg_demo_outranks(&jobs[a], &jobs[b]) && waited_while_granted(&jobs[a], &jobs[b]);
    return passed;
}
