/* SPDX-License-Identifier: Apache-2.0
 *
 * How every bench program prints: one JSON object a line, {"bench", "case", "value", "unit", "floor",
 * "ratio"}. floor is what the machine or the plain way can do in the same run (null when there is none);
 * ratio is value / floor. And the few helpers benches share: pinning, a sorted sample, the clock.
 */
#ifndef TG_BENCH_H
#define TG_BENCH_H

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"

/* floor_value 0: none. */
static inline void bench_print(const char *bench, const char *name, double value, const char *unit,
                               double floor_value)
{
    printf("{\"bench\": \"%s\", \"case\": \"%s\", \"value\": %.6g, \"unit\": \"%s\", ", bench, name, value,
           unit);
    if (floor_value != 0 && isfinite(value / floor_value))
        printf("\"floor\": %.6g, \"ratio\": %.3f}\n", floor_value, value / floor_value);
    else
        printf("\"floor\": null, \"ratio\": null}\n");
    fflush(stdout);
}

/* Pins the calling thread; returns 0 or an error number (then the figures are of an unpinned run). */
static inline int bench_pin(unsigned cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

static inline int bench_compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static inline void bench_sort(uint64_t *sample, size_t n)
{
    qsort(sample, n, sizeof(*sample), bench_compare_u64);
}

/* The value at quantile q of a sorted sample. */
static inline uint64_t bench_quantile(const uint64_t *sorted, size_t n, double q)
{
    return n == 0 ? 0 : sorted[(size_t)(q * (double)(n - 1))];
}

/* The mean of a sorted sample without its largest tenth, which is what a machine that does other things did
 * to it. */
static inline double bench_trimmed_mean(const uint64_t *sorted, size_t n)
{
    double sum = 0;
    size_t kept = n - n / 10;
    for (size_t i = 0; i < kept; i++)
        sum += (double)sorted[i];
    return kept == 0 ? 0 : sum / (double)kept;
}

#endif
