/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the control group of this process lies, and the groups above it. For this folder.
 *
 * The kernel says the group's path, which may be one that is not mounted here (containers see a part of
 * the tree): then the nearest group above it that is mounted stands for it, in the end the mount itself.
 */
#ifndef TG_MACHINE_CGROUP_H
#define TG_MACHINE_CGROUP_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "machine/root.h"

struct tg_cgroup {
    int version;        /* 1 or 2: which file names the controller has */
    size_t mount_bytes; /* dir is not shortened below this */
    char dir[PATH_MAX]; /* without the root's prefix */
};

/* The group that the controller ("memory", "cpu") works in for this process. 0; -ENOENT: no groups are
 * visible here; -EBADMSG: /proc/self/cgroup is not of its form; -errno. */
int tg_cgroup_find(const struct tg_root *root, const char *controller, struct tg_cgroup *ret);

/* Turns to the group above. False at the mount. */
bool tg_cgroup_up(struct tg_cgroup *group);

/* tg_text_read for a file of the group. */
int tg_cgroup_read(const struct tg_root *root, const struct tg_cgroup *group, const char *file, char *buf,
                   size_t size);

#endif
