/* SPDX-License-Identifier: Apache-2.0
 *
 * Pressure as the kernel counts it (PSI): for how long some task stood still for want of memory or of a
 * processor. Of one's own group where this process lives in a part of the machine (M11), else of all.
 */
#ifndef TG_MACHINE_PRESSURE_H
#define TG_MACHINE_PRESSURE_H

#include <stdint.h>

#include "machine/root.h"

struct tg_pressure {
    uint32_t some_avg10; /* of the last 10 s, in hundredths of a percent: at most 10000 */
    uint64_t some_us;    /* since the start */
};

/* resource is "memory" or "cpu". 0; -ENOENT: this kernel, or this group, counts none; -errno, -EBADMSG: it
 * does and cannot be read. */
int tg_pressure_read(const struct tg_root *root, const char *resource, struct tg_pressure *ret);

/* The same of the group that stands for this part of the machine, and of nothing else: -ENOENT also where
 * there is no such group, or one of version 1, whose pressure no kernel counts. */
int tg_contained_pressure(const struct tg_root *root, const char *resource, struct tg_pressure *ret);

/* The work of the group that stands for this part of the machine: processor time used, in us since some
 * start. 0; -ENOENT: this is no part, the machine's own load counts; -errno, -EBADMSG. */
int tg_contained_cpu_us(const struct tg_root *root, uint64_t *ret_used_us);

#endif
