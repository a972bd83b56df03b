/* SPDX-License-Identifier: Apache-2.0
 *
 * Judges a launch-plane run from what the jobs themselves recorded: was the slot cap kept (A2), was the
 * memory budget kept (A10), did priority and arrival decide who went first (A1), was the one that had to
 * wait not passed too often (A3)? Pure: no files, no clock. It does not ask the broker.
 */
#ifndef TG_CLI_DEMO_CHECK_H
#define TG_CLI_DEMO_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One job's own record. Times are CLOCK_BOOTTIME ns. */
struct tg_demo_job {
    int64_t prio;
    uint64_t seq; /* arrival */
    uint64_t est_mb;
    uint64_t queued_ns;  /* known to wait from here on */
    uint64_t granted_ns; /* as the grant told it */
    uint64_t start_ns;   /* its command began */
    uint64_t end_ns;     /* its command ended */
    uint64_t exit_ns;    /* its wrapper was gone: the ticket is certainly released */
};

struct tg_demo_limits {
    uint32_t slots;
    uint64_t budget_mb;
    uint32_t overtake_bound;
};

/* Whether a goes before b. */
bool tg_demo_outranks(const struct tg_demo_job *a, const struct tg_demo_job *b);
/* Most jobs running at one moment, between their own start and end. */
uint32_t tg_demo_most_at_once(const struct tg_demo_job *jobs, size_t n);
/* Largest sum of estimates running at one moment. */
uint64_t tg_demo_most_memory(const struct tg_demo_job *jobs, size_t n);
/* Whether b, granted while a (which outranks it) waited, may have gone first: only when a did not fit beside
 * the others at that moment and b did. Holders whose command had ended but whose wrapper had not are taken
 * both ways, in favour of the accused. */
bool tg_demo_may_pass(const struct tg_demo_job *jobs, size_t n, size_t a, size_t b,
                      const struct tg_demo_limits *limits);
/* Pairs in which a lower-ranked job went first without the right to; the first one goes to *ret_a, *ret_b. */
size_t tg_demo_order_faults(const struct tg_demo_job *jobs, size_t n, const struct tg_demo_limits *limits,
                            size_t *ret_a, size_t *ret_b);
/* How often job a was passed by jobs of lower rank while it waited. */
uint32_t tg_demo_times_passed(const struct tg_demo_job *jobs, size_t n, size_t a);

#endif
