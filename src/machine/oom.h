/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether the kernel killed for lack of memory (E8, E10). Only counts are to be had: a process that was
 * killed by SIGKILL while the count of its control group rose was most likely killed by the kernel.
 */
#ifndef TG_MACHINE_OOM_H
#define TG_MACHINE_OOM_H

#include <stdint.h>

#include "machine/root.h"

/* How many processes of this process's memory group, and of the groups below, the kernel has killed for lack
 * of memory; where the group does not say, of the whole machine. 0 and *ret; -ENOENT: neither says; -EBADMSG;
 * -errno. */
int tg_oom_kills(const struct tg_root *root, uint64_t *ret);

/* Makes this process, and whom it starts, likelier to be chosen when memory runs out than its parent: the
 * score rises by step, at most to 1000. Best effort. */
void tg_oom_volunteer(const struct tg_root *root, int step);

#endif
