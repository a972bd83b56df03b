/* SPDX-License-Identifier: Apache-2.0
 *
 * Which file a command's name means, before anything is enqueued, and executing it as execvp would.
 */
#ifndef TG_CLIENT_LOOKUP_H
#define TG_CLIENT_LOOKUP_H

#include <stddef.h>

/* The executable for a name: itself when it has a slash, else the first of $PATH (unset: /bin:/usr/bin; an
 * empty element is the working directory). 0 and the path; -ENOENT: not found; -EACCES: found, but not
 * executable (a directory, or no permission); -ENAMETOOLONG. Reads the environment: not while another
 * thread changes it. */
int tg_lookup_command(const char *name, char *ret_path, size_t size);

/* Executes path with argv as they are; a script without "#!" goes to /bin/sh as its file argument, as
 * execvp does: no word of argv is ever parsed (W11). Returns only on failure: -errno. */
int tg_exec(const char *path, char *const argv[]);

#endif
