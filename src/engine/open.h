/* SPDX-License-Identifier: Apache-2.0
 * Steps of opening that both kinds of engine take (open.c), and why an open failed. */
#ifndef TG_ENGINE_OPEN_H
#define TG_ENGINE_OPEN_H

#include "engine/internal.h"

struct tg_link;

/* Remembers the reason for this thread (tg_engine_open_reason) and returns the error. why is static. */
int tg_open_because(int error, const char *why);
/* The link of a backend; NULL: CPU workers. -ENOTSUP */
int tg_open_find_link(const char *backend, const struct tg_link **ret_link);
/* Are the caller's control buffer and log, if any, usable? -EINVAL, -ESHUTDOWN */
int tg_open_given_control(const struct tg_engine_options *o);
int tg_open_given_log(const struct tg_engine_options *o);
int tg_open_partitions(struct tg_engine *e, const struct tg_engine_options *o);
/* Cells of each queue, from the partitions. */
uint32_t tg_open_queue_cells(const struct tg_engine *e);
int tg_open_queues(struct tg_engine *e, uint32_t shards);
void tg_open_queues_free(struct tg_engine *e);
int tg_open_sides(struct tg_engine *e);
/* Fills e->workers, which has e->worker_count zeroed elements. */
int tg_open_workers(struct tg_engine *e);
void tg_open_workers_free(struct tg_engine *e);

#endif
