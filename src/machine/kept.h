/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of /proc and /sys that are read before every decision, kept open: reading one again costs one call in
 * place of four, and the control groups of this process are not searched for each time.
 *
 * What is read is always the present content: the kernel writes these files anew for each read at offset 0.
 * What may be old is where they lie: a process that is moved to another group, or a file system that is
 * mounted over, is noticed within TG_KEPT_PLACE_MS and TG_KEPT_OPEN_MS. For the real machine alone: a file
 * of a fixture may be replaced at any time. One thread.
 */
#ifndef TG_MACHINE_KEPT_H
#define TG_MACHINE_KEPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "machine/cgroup.h"

#define TG_KEPT_PLACE_MS 1000u
#define TG_KEPT_OPEN_MS 30000u
#define TG_KEPT_FILES 24u
#define TG_KEPT_PATH_BYTES 256u
#define TG_KEPT_GROUPS 4u

struct tg_kept {
    struct tg_kept_file {
        char path[TG_KEPT_PATH_BYTES];
        int fd;
    } file[TG_KEPT_FILES];
    size_t n_files;
    uint64_t opened_ms;
    struct tg_kept_group {
        char controller[16];
        int err; /* of the search */
        struct tg_cgroup group;
    } group[TG_KEPT_GROUPS];
    size_t n_groups;
    uint64_t placed_ms;
};

/* Closes all files and forgets all groups; NULL does nothing. The struct may be used again; zeroes are the
 * empty one. */
void tg_kept_done(struct tg_kept *kept);

/* tg_root_read of a file that may be kept: its length, or -errno. -ENOTSUP: it is none of those, or there is
 * no more room, or it does not fit: read it in the ordinary way. */
long tg_kept_read(struct tg_kept *kept, const char *path, char *buf, size_t size);

/* What a search for the controller's group has found within the last TG_KEPT_PLACE_MS: true, *ret_err and,
 * when that is 0, *ret. */
bool tg_kept_group_get(struct tg_kept *kept, const char *controller, int *ret_err, struct tg_cgroup *ret);
/* group is not looked at when err is not 0. */
void tg_kept_group_put(struct tg_kept *kept, const char *controller, int err, const struct tg_cgroup *group);

#endif
