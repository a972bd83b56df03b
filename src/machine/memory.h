/* SPDX-License-Identifier: Apache-2.0
 *
 * How much memory may be given away, and how much a process tree uses. Limit and usage always come from
 * the same level (M2): the tightest of the host and the cgroups above this process. Swap never counts.
 */
#ifndef TG_MACHINE_MEMORY_H
#define TG_MACHINE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "machine/root.h"

struct tg_memory {
    uint64_t total_mb;     /* MemTotal, or the cgroup's limit where that is smaller */
    uint64_t available_mb; /* MemAvailable, or limit - working set (usage - inactive_file) where smaller */
};

/* zfs_arc: the part of ZFS's cache that it gives back (size - c_min of arcstats) counts as available to the
 * host; it is in no figure of the kernel's (M5). Where there is no such file it makes no difference.
 * 0; -errno or -EBADMSG when what must be there cannot be read or parsed: then nobody is admitted. */
int tg_memory_read(const struct tg_root *root, bool zfs_arc, struct tg_memory *ret);

/* Resident memory of a process and all its descendants now, in MB (RssAnon + RssShmem of /proc/PID/status).
 * What a forked child shares with its parent counts once where children are listed, see shared.h; other
 * shared pages count once per process. Owners that share a tree are the caller's matter. Costs what the trees
 * have, or, where the kernel does not list children, one pass over /proc for all n. A dead root has 0. 0, or
 * -errno. */
int tg_trees_resident_mb(const struct tg_root *root, const pid_t *roots, size_t n, uint64_t *ret_mb);

#endif
