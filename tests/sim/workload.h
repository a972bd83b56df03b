/* SPDX-License-Identifier: Apache-2.0
 *
 * A synthetic workload for tests, unlike the traces a policy may have been tuned on: arrivals with
 * a daily cycle, widths that favour powers of two, run times that are short or long with little in
 * between, and requested times that are up to five times too long. Integer arithmetic only, so that it is
 * the same everywhere.
 */
#ifndef TG_TESTS_SIM_WORKLOAD_H
#define TG_TESTS_SIM_WORKLOAD_H

#include "check.h"
#include "sim/swf.h"

/* About 2^(low..high), evenly in the exponent. */
static inline int64_t workload_log_uniform(uint64_t *seed, unsigned low, unsigned high)
{
    unsigned k = low + (unsigned)(check_random(seed) % (high - low));
    return (INT64_C(1) << k) + (int64_t)(check_random(seed) % (UINT64_C(1) << k));
}

static inline int64_t workload_procs(uint64_t *seed, int64_t procs)
{
    uint64_t kind = check_random(seed) % 100;
    if (kind < 25)
        return 1;
    if (kind < 80) { /* a power of two, up to the machine */
        int64_t p = INT64_C(1) << (check_random(seed) % 8);
        return p < procs ? p : procs;
    }
    int64_t most = kind < 97 ? procs / 2 : procs;
    return 1 + (int64_t)(check_random(seed) % (uint64_t)most);
}

static inline int64_t workload_run(uint64_t *seed)
{
    return check_random(seed) % 100 < 55 ? workload_log_uniform(seed, 1, 9)
                                         : workload_log_uniform(seed, 10, 16);
}

/* n jobs (job has room for them) for a machine of that many processors, about load_percent busy. The gap
 * after a job pays for the work of another, drawn alike, and is shorter by day. */
static inline void workload_make(struct tg_swf_job *job, size_t n, int64_t procs, int64_t load_percent,
                                 int exact_requests, uint64_t seed)
{
    int64_t t = 0;
    for (size_t k = 0; k < n; k++) {
        int64_t run = workload_run(&seed);
        job[k] = (struct tg_swf_job){.number = (int64_t)k + 1,
                                     .submit_s = t,
                                     .run_s = run,
                                     .request_s = -1,
                                     .procs = workload_procs(&seed, procs)};
        if (!exact_requests)
            job[k].request_s = run + run * (int64_t)(check_random(&seed) % 400) / 100;
        int64_t gap = workload_run(&seed) * workload_procs(&seed, procs) * 100 / (procs * load_percent);
        int64_t hour = t / 3600 % 24;
        t += hour >= 8 && hour < 18 ? gap * 3 / 4 : gap * 5 / 4;
    }
}

#endif
