/* SPDX-License-Identifier: Apache-2.0
 *
 * What the benchmarks share: one JSON line a figure, with the floor that was measured in the same run and the
 * ratio to it; exact quantiles of samples.
 */
#ifndef TG_BENCH_BENCH_H
#define TG_BENCH_BENCH_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* floor 0: there is none. */
static inline void bench_line(const char *bench, const char *name, double value, const char *unit,
                              double floor)
{
    printf("{\"bench\":\"%s\",\"case\":\"%s\",\"value\":%.3f,\"unit\":\"%s\",", bench, name, value, unit);
    if (floor > 0)
        printf("\"floor\":%.3f,\"ratio\":%.3f}\n", floor, value / floor);
    else
        printf("\"floor\":null,\"ratio\":null}\n");
    fflush(stdout);
}

static inline int bench_compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Sorts the samples; the value at quantile q in [0, 1] (nearest rank). 0 when there are none. */
static inline uint64_t bench_quantile(uint64_t *samples, size_t n, double q)
{
    if (n == 0)
        return 0;
    qsort(samples, n, sizeof(*samples), bench_compare);
    size_t i = (size_t)(q * (double)n);
    return samples[i < n ? i : n - 1];
}

#endif
