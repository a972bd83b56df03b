/* SPDX-License-Identifier: Apache-2.0
 *
 * What a monitoring system asks for (V4): how many wait, how many were admitted, how long a decision takes,
 * how long the front of the queue has waited. Counters begin anew with each broker, as such counters do.
 */
#ifndef TG_BROKER_METRICS_H
#define TG_BROKER_METRICS_H

#include <stddef.h>
#include <stdint.h>
#include <tidegate/policy.h>

#define TG_METRICS_BUCKETS 12u

struct tg_metrics {
    uint64_t admitted[TG_GRANT_BACKFILL + 1]; /* by kind of verdict */
    uint64_t ended;
    uint64_t cycles;
    uint64_t cycles_ns;
    uint64_t bucket[TG_METRICS_BUCKETS + 1]; /* cycles that took up to so long; the last: longer */
};

void tg_metrics_cycle(struct tg_metrics *m, uint64_t took_ns);

struct tg_broker;
/* In the Prometheus text format, to be freed; NULL on lack of memory. */
char *tg_metrics_text(const struct tg_broker *b);

#endif
