/* SPDX-License-Identifier: Apache-2.0
 * See explain.h. */
#include "broker/explain.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"

void tg_explain_never(const struct tg_verdict *v, char *ret, size_t size)
{
    if (v->why == TG_WHY_NEVER_FITS_SLOTS)
        snprintf(ret, size, "needs %" PRIu64 " slots, there are only %" PRIu64, v->need, v->limit);
    else if (v->why == TG_WHY_NEVER_FITS_BUDGET)
        snprintf(ret, size,
                 "needs %" PRIu64 " MB, the budget of all jobs together (budget-mb) is %" PRIu64 " MB",
                 v->need, v->limit);
    else
        snprintf(ret, size,
                 "needs %" PRIu64 " MB, this machine can give at most %" PRIu64
                 " MB (its memory less the floor)",
                 v->need, v->limit);
}

/* "850 ms", "12.3 s", "4 min", "3 h", "2 days"; rounded up, so that nobody is told too early. */
static void duration(uint64_t ms, char *ret, size_t size)
{
    if (ms < 1000)
        snprintf(ret, size, "%" PRIu64 " ms", ms);
    else if (ms < 120000)
        snprintf(ret, size, "%" PRIu64 ".%" PRIu64 " s", (ms + 99) / 1000, (ms + 99) % 1000 / 100);
    else if (ms < 120 * 60000)
        snprintf(ret, size, "%" PRIu64 " min", tg_ceil_div_u64(ms, 60000));
    else if (ms < 48 * UINT64_C(3600000))
        snprintf(ret, size, "%" PRIu64 " h", tg_ceil_div_u64(ms, 3600000));
    else
        snprintf(ret, size, "%" PRIu64 " days", tg_ceil_div_u64(ms, 86400000));
}

static void reserved(const struct tg_verdict *v, char *ret, size_t size)
{
    char start[32];
    char run[32];
    duration(v->have, start, sizeof(start));
    duration(v->need, run, sizeof(run));
    if (v->need == 0)
        snprintf(ret, size,
                 "waits behind ticket %" PRIu64
                 ", which can start in %s: how long this one runs is not known (--time)",
                 v->blocker, start);
    else
        snprintf(ret, size, "waits behind ticket %" PRIu64 ", which can start in %s: this one would run %s",
                 v->blocker, start, run);
}

static void gate(const struct tg_verdict *v, char *ret, size_t size)
{
    switch (v->why) {
    case TG_WHY_NONE:
        snprintf(ret, size, "about to start");
        break;
    case TG_WHY_SLOTS:
        if (v->limit == 0) {
            snprintf(ret, size, "waits: admission is paused (slots is 0)");
            break;
        }
        snprintf(ret, size, "waits for slots: needs %" PRIu64 ", %" PRIu64 " of %" PRIu64 " are held",
                 v->need, v->have, v->limit);
        break;
    case TG_WHY_MEMORY:
        snprintf(ret, size, "waits for memory: needs %" PRIu64 " MB, %" PRIu64 " MB are free", v->need,
                 v->have);
        break;
    case TG_WHY_BUDGET:
        snprintf(ret, size,
                 "waits for the budget: needs %" PRIu64 " MB, %" PRIu64 " of %" PRIu64 " MB are booked",
                 v->need, v->have, v->limit);
        break;
    case TG_WHY_LOAD:
        snprintf(ret, size,
                 "waits for load: %" PRIu64 ".%02" PRIu64 " now, must be below %" PRIu64 ".%02" PRIu64,
                 v->have / 1000, v->have % 1000 / 10, v->limit / 1000, v->limit % 1000 / 10);
        if (v->need > v->limit) {
            size_t used = strlen(ret);
            snprintf(ret + used, size - used, " (the gate closed at %" PRIu64 ".%02" PRIu64 ")",
                     v->need / 1000, v->need % 1000 / 10);
        }
        if (v->by_others) {
            size_t used = strlen(ret);
            snprintf(
                ret + used, size - used,
                "; that is the work of others than those who hold (config load-least N: N slots whatever "
                "the load)");
        }
        break;
    case TG_WHY_PRESSURE_MEMORY:
    case TG_WHY_PRESSURE_CPU:
        snprintf(ret, size,
                 "waits for pressure on %s: tasks stood still for it %" PRIu64 ".%02" PRIu64
                 " %% of the last 10 s, must be below %" PRIu64 ".%02" PRIu64 " %%",
                 v->why == TG_WHY_PRESSURE_MEMORY ? "memory" : "processors", v->have / 100, v->have % 100,
                 v->limit / 100, v->limit % 100);
        break;
    case TG_WHY_PRESSURE_UNKNOWN:
        snprintf(ret, size, "waits for pressure: it cannot be read here, so nobody is admitted");
        break;
    case TG_WHY_MEMORY_UNKNOWN:
        snprintf(ret, size, "waits for memory: it cannot be read here, so nobody is admitted");
        break;
    case TG_WHY_LOAD_UNKNOWN:
        snprintf(ret, size, "waits for load: it cannot be read here, so nobody is admitted");
        break;
    case TG_WHY_MAX_CONC:
        snprintf(ret, size,
                 "waits for its own cap: %" PRIu64
                 " are ahead of it or heavy, it accepts fewer than %" PRIu64,
                 v->have, v->limit);
        break;
    case TG_WHY_ORDER:
        snprintf(ret, size, "waits its turn behind ticket %" PRIu64, v->blocker);
        break;
    case TG_WHY_GATE_CLOSED:
        snprintf(ret, size,
                 "waits behind ticket %" PRIu64 ", which has been passed %" PRIu64 " times (at most %" PRIu64
                 ")",
                 v->blocker, v->have, v->limit);
        break;
    case TG_WHY_RESERVED:
        reserved(v, ret, size);
        break;
    case TG_WHY_NEVER_FITS_MEMORY:
    case TG_WHY_NEVER_FITS_BUDGET:
    case TG_WHY_NEVER_FITS_SLOTS: {
        char never[160];
        tg_explain_never(v, never, sizeof(never));
        snprintf(ret, size, "cannot start with the present settings: %s", never);
        break;
    }
    }
}

void tg_explain_wait(const struct tg_verdict *v, uint64_t ahead, char *ret, size_t size)
{
    char text[320] = "waits";
    gate(v, text, sizeof(text));
    if (v->start_known) {
        char start[32];
        duration(v->start_in_ms, start, sizeof(start));
        snprintf(ret, size, "%s; can start in %s; %" PRIu64 " ahead", text, start, ahead);
        return;
    }
    snprintf(ret, size, "%s; %" PRIu64 " ahead", text, ahead);
}
