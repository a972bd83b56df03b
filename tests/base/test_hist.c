/* SPDX-License-Identifier: Apache-2.0
 * Histogram: every quantile is within the promised 3.2 % of the exact one, over all magnitudes. */
#include <stdint.h>

#include "base/hist.h"
#include "check.h"

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void quantiles_are_close(void)
{
    enum { N = 20000 };
    static uint64_t v[N];
    static struct tg_hist h;
    uint64_t seed = 42;
    tg_hist_reset(&h);
    CHECK_EQ(tg_hist_quantile(&h, 0.5), 0);
    for (int i = 0; i < N; i++) {
        v[i] = check_random(&seed) >> (check_random(&seed) % 64);
        tg_hist_add_sp(&h, v[i]);
    }
    qsort(v, N, sizeof(v[0]), by_value);
    static const double qs[] = {0, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 1};
    for (size_t i = 0; i < sizeof(qs) / sizeof(qs[0]); i++) {
        double exact = (double)v[(size_t)(qs[i] * (N - 1))];
        double got = (double)tg_hist_quantile(&h, qs[i]);
        CHECK(got >= exact && got <= exact * 1.032 + 1);
    }
    CHECK(tg_hist_quantile(&h, 1) == v[N - 1]);
}

static void merge_adds(void)
{
    static struct tg_hist a, b;
    tg_hist_reset(&a);
    tg_hist_reset(&b);
    tg_hist_add_sp(&a, 10);
    tg_hist_add_sp(&b, UINT64_MAX);
    tg_hist_merge(&a, &b);
    CHECK_EQ(a.count, 2);
    CHECK(a.max == UINT64_MAX);
}

int main(void)
{
    RUN(quantiles_are_close);
    RUN(merge_adds);
    return 0;
}
