/* SPDX-License-Identifier: Apache-2.0
 *
 * When holders end and waiters start, as far as run times are known (A3): what a decision is told about ends,
 * when the next one should look again, and the forecast that a person is shown. Reads the queue, changes
 * nothing.
 *
 * A holder that runs longer than it said is expected to end within a second, until it has been late for two
 * seconds or half its time, whichever is more; from then on its end counts as one that nobody knows.
 */
#ifndef TG_BROKER_ENDS_H
#define TG_BROKER_ENDS_H

#include "broker/queue.h"

/* A timeline of one's own, for a pass or a forecast to write into. Zero-initialise; free with tg_ends_done.
 */
struct tg_ends {
    struct tg_release *entry;
    size_t room;
    struct tg_timeline running;
};

/* Takes over the ends that are later than now (ms, CLOCK_BOOTTIME), with room for so many more. Without
 * memory none is known. */
void tg_ends_take(struct tg_ends *e, const struct tg_queue *q, uint64_t now_ms, size_t more);
void tg_ends_done(struct tg_ends *e);

/* Starts a pass that knows the ends; e must live as long as the pass. */
void tg_ends_pass(struct tg_ends *e, const struct tg_queue *q, uint64_t now_ms, const struct tg_gates *gates,
                  const struct tg_usage *usage, struct tg_pass *ret);

/* In how many ms a decision may differ from this pass although nothing happens: when the front should have
 * started, and has not, somebody runs longer than he said. UINT64_MAX: never. */
uint64_t tg_ends_look_again_ms(const struct tg_pass *pass);

/* When waiters start. Fed with every waiter in order, each with its verdict. */
struct tg_expect {
    struct tg_ends ends;
    struct tg_forecast forecast;
    int64_t now;
};

void tg_expect_begin(struct tg_expect *x, const struct tg_queue *q, uint64_t now_ms,
                     const struct tg_gates *gates, const struct tg_usage *usage);
/* Says in the verdict in how many ms this waiter can start at the latest, when that is known. */
void tg_expect_next(struct tg_expect *x, const struct tg_ticket *t, struct tg_verdict *v);
void tg_expect_done(struct tg_expect *x);

#endif
