/* SPDX-License-Identifier: Apache-2.0
 *
 * How busy the processor is, and how much of it is ours to use.
 */
#ifndef TG_MACHINE_LOAD_H
#define TG_MACHINE_LOAD_H

#include <stdint.h>

#include "machine/root.h"

/* Usable cores: the affinity mask, cut by the cgroup's cpu quota (v2 cpu.max, v1 cfs_quota) rounded up;
 * at least 1. A quota that is there but cannot be read or parsed counts as one core. */
unsigned tg_usable_cores(const struct tg_root *root);

struct tg_load {
    uint64_t one_minute_milli; /* the one-minute load average */
    uint64_t runnable;         /* processes runnable at this instant, without the caller */
    uint64_t effective_milli;  /* the smaller of the two: a machine that has just become idle is idle */
};

/* Reads /proc/loadavg strictly. 0; -ENOENT and other -errno when it cannot be read; -EBADMSG when it does
 * not parse: then nobody may be admitted by the load gate (S4). */
int tg_load_read(const struct tg_root *root, struct tg_load *ret);

#endif
