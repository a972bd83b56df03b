/* SPDX-License-Identifier: Apache-2.0
 * `tidegate engine run`: progress on a terminal, and what it says at the end. */
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "cli/engine_run.h"

static double seconds(const struct tg_run *run)
{
    return (double)(tg_clock_mono_ns() - run->started_ns) / 1e9;
}

void tg_run_progress(const struct tg_run *run)
{
    double s = seconds(run);
    fprintf(stderr, "\r%" PRIu64 " items: %" PRIu64 " done, %" PRIu64 " faults, %.0f items/s \033[K",
            run->items, run->ends[TG_RUN_DONE], run->ends[TG_RUN_FAULT], (double)run->items / s);
}

static void print_text(const struct tg_run *run, const struct tg_engine_stats *stats)
{
    double s = seconds(run);
    if (run->progress)
        fputs("\r\033[K", stderr);
    fprintf(stderr,
            "%" PRIu64 " lines, %" PRIu64 " items: %" PRIu64 " done, %" PRIu64 " faults, %" PRIu64
            " handed back, %" PRIu64 " refused, %" PRIu64 " malformed; %.3f s, %.0f items/s, %" PRIu32
            " workers\n",
            run->lines, run->items, run->ends[TG_RUN_DONE], run->ends[TG_RUN_FAULT],
            run->ends[TG_RUN_HANDED_BACK], run->ends[TG_RUN_REFUSED], run->malformed, s,
            (double)run->items / s, stats->workers);
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++) {
        const struct tg_level_stats *v = &stats->level[l];
        if (v->claims == 0)
            continue;
        fprintf(stderr, "  %-8s %8" PRIu64 " claims %8" PRIu64 " done %6" PRIu64 " faults",
                tg_cli_level_name(l), v->claims, v->done, v->faults);
        if (v->latency.count) /* items that bodies published are not measured */
            fprintf(stderr, "   publish to done p50 %.1f us, p99 %.1f us", (double)v->latency.p50_ns / 1e3,
                    (double)v->latency.p99_ns / 1e3);
        fputc('\n', stderr);
    }
    for (uint32_t t = 0; t < TG_TENANTS; t++) {
        const struct tg_tenant_stats *v = &stats->tenant[t];
        if (v->claims != 0 && v->claims != stats->claims)
            fprintf(stderr,
                    "  tenant %2" PRIu32 " %7" PRIu64 " claims %8" PRIu64 " done %6" PRIu64 " faults\n", t,
                    v->claims, v->done, v->faults);
    }
    if (stats->device_submitted)
        fprintf(stderr, "  bodies published %" PRIu64 " items more\n", stats->device_submitted);
    if (stats->log_dropped)
        fprintf(stderr, "  debug log: %" PRIu64 " records found it full\n", stats->log_dropped);
}

static void print_latency(const struct tg_latency *l)
{
    if (l->count == 0) {
        printf("\"p50_ns\": null, \"p99_ns\": null, \"max_ns\": null");
        return;
    }
    printf("\"p50_ns\": %" PRIu64 ", \"p99_ns\": %" PRIu64 ", \"max_ns\": %" PRIu64, l->p50_ns, l->p99_ns,
           l->max_ns);
}

static void print_observables(struct tg_engine *engine)
{
    const void *control;
    size_t bytes;
    bool first = true;
    tg_engine_buffers(engine, NULL, NULL, &control, &bytes, NULL, NULL);
    printf("\"observables\": {");
    for (uint32_t i = 0; i < bytes / TG_WORD_BYTES - TG_CONTROL_OBSERVABLE_BASE; i++) {
        uint32_t value = 0;
        if (tg_engine_observable_load(engine, i, &value) != 0 || value == 0)
            continue;
        printf("%s\"%" PRIu32 "\": %" PRIu32, first ? "" : ", ", i, value);
        first = false;
    }
    printf("}");
}

static void print_json(const struct tg_run *run, const struct tg_engine_stats *stats)
{
    const void *control;
    size_t bytes;
    tg_engine_buffers(run->engine, NULL, NULL, &control, &bytes, NULL, NULL);
    printf("{\"summary\": {\"lines\": %" PRIu64 ", \"items\": %" PRIu64 ", \"done\": %" PRIu64
           ", \"faults\": %" PRIu64 ", \"handed_back\": %" PRIu64 ", \"refused\": %" PRIu64
           ", \"malformed\": %" PRIu64 ", \"seconds\": %.6f, \"workers\": %" PRIu32 ", \"epoch\": %" PRIu32
           ", \"log_dropped\": %" PRIu64 ", \"device_submitted\": %" PRIu64 ", \"levels\": {",
           run->lines, run->items, run->ends[TG_RUN_DONE], run->ends[TG_RUN_FAULT],
           run->ends[TG_RUN_HANDED_BACK], run->ends[TG_RUN_REFUSED], run->malformed, seconds(run),
           stats->workers, tg_read_epoch(control, bytes), stats->log_dropped, stats->device_submitted);
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++) {
        const struct tg_level_stats *v = &stats->level[l];
        printf("%s\"%s\": {\"claims\": %" PRIu64 ", \"done\": %" PRIu64 ", \"faults\": %" PRIu64 ", ",
               l ? ", " : "", tg_cli_level_name(l), v->claims, v->done, v->faults);
        print_latency(&v->latency);
        printf("}");
    }
    printf("}, \"tenants\": {");
    bool first = true;
    for (uint32_t t = 0; t < TG_TENANTS; t++) {
        const struct tg_tenant_stats *v = &stats->tenant[t];
        if (v->claims == 0)
            continue;
        printf("%s\"%" PRIu32 "\": {\"claims\": %" PRIu64 ", \"done\": %" PRIu64 ", \"faults\": %" PRIu64 "}",
               first ? "" : ", ", t, v->claims, v->done, v->faults);
        first = false;
    }
    printf("}, ");
    print_observables(run->engine);
    printf("}}\n");
}

void tg_run_print_summary(struct tg_run *run)
{
    static struct tg_engine_stats stats;
    tg_engine_stats(run->engine, &stats);
    if (run->summary == TG_SUMMARY_TEXT)
        print_text(run, &stats);
    else if (run->progress)
        fputs("\r\033[K", stderr);
    if (run->summary == TG_SUMMARY_JSON)
        print_json(run, &stats);
}
