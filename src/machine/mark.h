/* SPDX-License-Identifier: Apache-2.0
 *
 * The mark TIDEGATE_TICKET=ID:UUID in the environment that a process was executed with: of one process, and
 * of all. Reads only; who may be believed is the caller's question.
 */
#ifndef TG_MACHINE_MARK_H
#define TG_MACHINE_MARK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "machine/root.h"

#define TG_MARK_BYTES 96u

/* The value of the variable in /proc/NAME/environ, and whose process that is. False: it has none, or cannot
 * be read; *ret_empty says that there is no environment at all, as in the middle of an exec. */
bool tg_mark_of(int proc_fd, const char *name, char ret[TG_MARK_BYTES], uid_t *ret_uid, bool *ret_empty);

struct tg_marked {
    pid_t pid;
    pid_t session;
    uint64_t start_ticks;
    uid_t uid;
    uint64_t id;
    char uuid[37];
};

/* Every living process with a well-formed mark, the oldest first, in memory that the caller frees. 0 or
 * -errno. */
int tg_marks_read(const struct tg_root *root, struct tg_marked **ret, size_t *ret_n);

#endif
