/* SPDX-License-Identifier: Apache-2.0
 *
 * A verdict in words (A9): one sentence that names the gate and its numbers. The verdict comes from the
 * function that decides; nothing here looks at anything else.
 */
#ifndef TG_BROKER_EXPLAIN_H
#define TG_BROKER_EXPLAIN_H

#include <stddef.h>
#include <stdint.h>
#include <tidegate/policy.h>

/* "waits for memory: needs 9000 MB, 6336 MB are free; 2 ahead". */
void tg_explain_wait(const struct tg_verdict *v, uint64_t ahead, char *ret, size_t size);

/* "needs 9000 MB, this machine can give at most 5900 MB", for a job that is refused. */
void tg_explain_never(const struct tg_verdict *v, char *ret, size_t size);

#endif
