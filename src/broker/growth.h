/* SPDX-License-Identifier: Apache-2.0
 *
 * How far each holder has grown (A2): what of a promise is still to come, the peak that its history keeps,
 * and the one warning of a job that uses far more than it said (M14). It measures, it decides nothing.
 *
 * A sampler runs while somebody holds and stops with the last holder. Its period follows its own cost: it
 * takes less than 1/500 of a core. A decision that would refuse for memory measures beforehand, too.
 */
#ifndef TG_BROKER_GROWTH_H
#define TG_BROKER_GROWTH_H

#include "broker/broker.h"

/* Starts the sampler when there are holders, and lets it end when there are none. Cheap; called after every
 * iteration. */
void tg_growth_mind(struct tg_broker *b);
/* How long to wait before a decision may measure again, 0: now. Measuring is bounded in time. */
uint64_t tg_growth_wait_ms(struct tg_broker *b);
/* Measures every holder. 0 or -errno: then what was known stays. */
int tg_growth_measure(struct tg_broker *b);
/* What the holders were promised and have not grown into: as if nobody had grown at all, or as measured. */
uint64_t tg_growth_reserved_mb(const struct tg_queue *q, bool measured);
/* Somebody has seen so much in use by a ticket's processes: the peak, and whether that is far too much. */
void tg_growth_saw(struct tg_broker *b, struct tg_ticket *t, uint64_t mb);
/* Whether so much is far above an estimate: more than half again, and some MB. */
bool tg_growth_is_over(uint64_t peak_mb, uint64_t est_mb);

#endif
