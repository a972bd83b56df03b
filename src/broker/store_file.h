/* SPDX-License-Identifier: Apache-2.0
 *
 * What store.c needs and that is no SQL: names and the file itself.
 */
#ifndef TG_BROKER_STORE_FILE_H
#define TG_BROKER_STORE_FILE_H

#include <stdbool.h>

#include "broker/store.h"

/* A random (version 4) name for a new store. 0 or -EIO. */
int tg_store_new_uuid(char ret[TG_STORE_UUID_BYTES]);

/* Whether the path itself is a symbolic link. */
/* Whether there is a log beside it that was never moved into the file. */
bool tg_store_has_log(const char *path);
bool tg_store_is_link(const char *path);

/* Moves the file and its log to the first free PATH.corrupt-N; what has such a name already is never
 * overwritten. 0 and the new path, or -errno. */
int tg_store_quarantine(const char *path, char *ret, size_t size);

#endif
