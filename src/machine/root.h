/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the operating system's files are read. Tests put a fixture directory in place of "/"; with a
 * fixture, what cannot be asked of files (pidfds, affinity) still concerns the real machine.
 */
#ifndef TG_MACHINE_ROOT_H
#define TG_MACHINE_ROOT_H

#include <stddef.h>

struct tg_kept;

struct tg_root {
    const char *prefix;   /* "" for the real machine; "/tmp/fixture" reads /tmp/fixture/proc/... */
    struct tg_kept *kept; /* kept.h: for who reads the same files again and again; NULL: nothing is kept */
};

/* Reads a small file (at most size - 1 bytes) whole and NUL-terminates it. The length, or -errno;
 * -EFBIG when it does not fit. */
long tg_root_read(const struct tg_root *root, const char *path, char *buf, size_t size);

#endif
