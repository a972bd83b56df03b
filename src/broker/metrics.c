/* SPDX-License-Identifier: Apache-2.0
 * See metrics.h. */
#include "broker/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/clock.h"
#include "broker/ops.h"
#include "broker/waits.h"

/* Upper edges, in ns: 50 us to 1 s. */
static const uint64_t edges[TG_METRICS_BUCKETS] = {50000,    100000,   250000,    500000,
                                                   1000000,  2500000,  5000000,   10000000,
                                                   25000000, 50000000, 250000000, 1000000000};

void tg_metrics_cycle(struct tg_metrics *m, uint64_t took_ns)
{
    unsigned i = 0;
    while (i < TG_METRICS_BUCKETS && took_ns > edges[i])
        i++;
    m->bucket[i]++;
    m->cycles++;
    m->cycles_ns += took_ns;
}

static void put_head(FILE *out, const char *name, const char *type, const char *help)
{
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_gauge(FILE *out, const char *name, const char *help, uint64_t value)
{
    put_head(out, name, "gauge", help);
    fprintf(out, "%s %" PRIu64 "\n", name, value);
}

static void put_seconds(FILE *out, uint64_t ns)
{
    fprintf(out, "%" PRIu64 ".%09" PRIu64, ns / 1000000000, ns % 1000000000);
}

static void put_cycles(FILE *out, const struct tg_metrics *m)
{
    static const char name[] = "tidegate_cycle_seconds";
    uint64_t sum = 0;
    put_head(out, name, "histogram", "How long one decision over the whole queue took.");
    for (unsigned i = 0; i < TG_METRICS_BUCKETS; i++) {
        sum += m->bucket[i];
        fprintf(out, "%s_bucket{le=\"", name);
        put_seconds(out, edges[i]);
        fprintf(out, "\"} %" PRIu64 "\n", sum);
    }
    fprintf(out, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n%s_sum ", name, m->cycles, name);
    put_seconds(out, m->cycles_ns);
    fprintf(out, "\n%s_count %" PRIu64 "\n", name, m->cycles);
}

static void put_admitted(FILE *out, const struct tg_metrics *m)
{
    static const char name[] = "tidegate_admitted_total";
    put_head(out, name, "counter", "Tickets admitted since this broker started.");
    for (int i = TG_GRANT_ORDERED; i <= TG_GRANT_BACKFILL; i++)
        fprintf(out, "%s{verdict=\"%s\"} %" PRIu64 "\n", name, tg_verdict_kind_name((enum tg_verdict_kind)i),
                m->admitted[i]);
}

static void put_head_wait(FILE *out, const struct tg_queue *q)
{
    static const char name[] = "tidegate_head_wait_seconds";
    uint64_t ms = 0;
    if (q->n_waiters > 0)
        ms = tg_sat_sub_u64(tg_clock_boot_ms(), q->waiters[0]->asked_boot_ms);
    put_head(out, name, "gauge", "How long the front of the queue has waited; 0 when nobody waits.");
    fprintf(out, "%s %" PRIu64 ".%03" PRIu64 "\n", name, ms / 1000, ms % 1000);
}

char *tg_metrics_text(const struct tg_broker *b)
{
    const struct tg_queue *q = &b->queue;
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    put_gauge(out, "tidegate_pending", "Tickets that wait for admission.", q->n_waiters);
    put_gauge(out, "tidegate_on_hold", "Tickets that wait and are on hold.", q->n_aside);
    put_gauge(out, "tidegate_parked", "Tickets whose client gave up for now.", q->n_parked);
    put_gauge(out, "tidegate_holders", "Tickets that are admitted and have not ended.", q->n_holders);
    put_gauge(out, "tidegate_waits", "Calls that wait for others' tickets to end.", tg_waits_count(b));
    put_admitted(out, &b->metrics);
    put_head(out, "tidegate_ended_total", "counter", "Tickets that ended since this broker started.");
    fprintf(out, "tidegate_ended_total %" PRIu64 "\n", b->metrics.ended);
    put_cycles(out, &b->metrics);
    put_head_wait(out, q);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

json_t *tg_op_metrics(struct tg_broker *b, struct tg_peer *peer, const json_t *m)
{
    (void)peer;
    (void)m;
    char *text = tg_metrics_text(b);
    json_t *reply =
        text ? json_pack("{s:b,s:s}", "ok", 1, "text", text) : tg_error_reply(TG_ERR_STORE, "out of memory");
    free(text);
    return reply;
}
