/* SPDX-License-Identifier: Apache-2.0
 *
 * What a decision costs with ten thousand waiters: the whole pass of src/policy (a front that is blocked, and
 * everybody behind it judged against its reservation, the overtaking bound, or refused for slots), and the
 * forecast of every start. The floor is a plain walk over the same waiters, so the ratio says what judging
 * one costs more than looking at it.
 */
#include <tidegate/policy.h>

#include <string.h>

#include "bench.h"

enum { WAITERS = 10000, HOLDERS = 64, ROUNDS = 200 };

static struct tg_candidate waiter[WAITERS];
static struct tg_release holders[HOLDERS], scratch[HOLDERS + WAITERS];
static double took[ROUNDS];
static volatile uint64_t sink;

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(void)
{
    qsort(took, ROUNDS, sizeof(took[0]), compare);
    return took[ROUNDS / 2];
}

static const struct tg_gates gates = {.slots = 2 * HOLDERS,
                                      .overtake_bound = TG_DEFAULT_OVERTAKE_BOUND,
                                      .load_limit_milli = TG_LOAD_OFF,
                                      .backfill_mb = TG_DEFAULT_BACKFILL_MB,
                                      .budget_mb = TG_NO_BUDGET};
static const struct tg_usage usage = {
    .slots_held = HOLDERS, .mem_known = true, .mem_available_mb = 1000000, .mem_total_mb = 1000000};

static void walk(void)
{
    uint64_t sum = 0;
    for (int i = 0; i < WAITERS; i++)
        sum += waiter[i].est_mb;
    sink = sum;
}

static void pass(size_t known)
{
    struct tg_pass p;
    struct tg_timeline running = {.entry = scratch, .n = known, .cap = HOLDERS + 1};
    memcpy(scratch, holders, sizeof(holders));
    tg_pass_begin(&p, &gates, &usage);
    tg_pass_times(&p, &running, 0);
    for (int i = 0; i < WAITERS; i++)
        sink = tg_pass_next(&p, &waiter[i]).why;
}

static void forecast(void)
{
    struct tg_forecast f;
    struct tg_amount free = {.of = {HOLDERS, 1000000}};
    struct tg_timeline running = {.entry = scratch, .n = HOLDERS, .cap = HOLDERS + WAITERS};
    int64_t start = 0;
    memcpy(scratch, holders, sizeof(holders));
    tg_forecast_begin(&f, &running, &free, NULL, 0);
    for (int i = 0; i < WAITERS; i++) {
        struct tg_amount need = {.of = {waiter[i].slots, waiter[i].est_mb}};
        (void)tg_forecast_next(&f, &need, (int64_t)waiter[i].time_ms, &start);
    }
    sink = (uint64_t)start;
}

static double measure(int what)
{
    for (int r = 0; r < ROUNDS; r++) {
        uint64_t begin = tg_clock_mono_ns();
        if (what == 0)
            walk();
        else if (what == 3)
            forecast();
        else
            pass(what == 1 ? HOLDERS : 0);
        took[r] = (double)(tg_clock_mono_ns() - begin) / 1e3;
    }
    return median();
}

int main(void)
{
    for (int i = 0; i < HOLDERS; i++)
        holders[i] = (struct tg_release){.end = 1000 * (i + 1), .id = (uint64_t)i, .amount = {{1, 100}}};
    for (int i = 0; i < WAITERS; i++)
        waiter[i] = (struct tg_candidate){.seq = (uint64_t)i + 1,
                                          .slots = i == 0 ? 2 * HOLDERS : 1,
                                          .est_mb = 10,
                                          .max_conc = TG_UNLIMITED,
                                          .time_ms = 100000 + (uint64_t)i};
    double floor_us = measure(0);
    bench_print("policy", "walk over 10,000 waiters", floor_us, "us", 0);
    bench_print("policy", "pass, front with a reservation", measure(1), "us", floor_us);
    bench_print("policy", "pass, overtaking bound", measure(2), "us", floor_us);
    bench_print("policy", "forecast of 10,000 starts", measure(3), "us", floor_us);
    return 0;
}
