/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether this process lives in a part of the machine, for this folder: a container, or a group with a limit
 * of its own. Then the whole machine's load average and pressure are not about it (M11).
 */
#ifndef TG_MACHINE_CONTAINED_H
#define TG_MACHINE_CONTAINED_H

#include "machine/cgroup.h"

/* The group that stands for the part: the topmost one with a limit on the controller ("cpu", "memory"), or
 * the topmost one that is visible when that is not the machine's own. 0; -ENOENT: this is no part, or there
 * are no groups; -errno, -EBADMSG. */
int tg_contained_group(const struct tg_root *root, const char *controller, struct tg_cgroup *ret);

#endif
