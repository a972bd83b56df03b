/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a request is meant for this broker's store (R2). Two settings of the environment can lead to one
 * socket and two stores; then nothing is done to the wrong one, and status does not show it. A path is not
 * compared by its letters alone: /x/ and /x, and a link on the way, are the same directory.
 */
#include "broker/ops.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/fields.h"
#include "proto/paths.h"

/* Whether two paths name the same entry of the same directory. */
static bool same_entry(const char *a, const char *b)
{
    const char *name_a = strrchr(a, '/');
    const char *name_b = strrchr(b, '/');
    char dir[TG_PATH_BYTES];
    struct stat st_a;
    struct stat st_b;
    if (!name_a || !name_b || strcmp(name_a, name_b) != 0 || a[0] != '/')
        return false;
    if ((size_t)(name_a - a) >= sizeof(dir) || (size_t)(name_b - b) >= sizeof(dir))
        return false;
    snprintf(dir, sizeof(dir), "%.*s", (int)(name_a - a), a);
    if (stat(dir, &st_a) != 0)
        return false;
    snprintf(dir, sizeof(dir), "%.*s", (int)(name_b - b), b);
    return stat(dir, &st_b) == 0 && st_a.st_dev == st_b.st_dev && st_a.st_ino == st_b.st_ino;
}

/* A path that is not UTF-8 is sent as it is shown. */
static bool shown_the_same(const char *named, const char *ours)
{
    char *shown = tg_display_text(ours, TG_PATH_BYTES);
    bool same = shown && strcmp(named, shown) == 0;
    free(shown);
    return same;
}

json_t *tg_ops_other_store(const struct tg_broker *b, const json_t *message)
{
    const char *named = NULL;
    const char *ours = tg_store_path(b->store);
    if (tg_field_string(message, "store", TG_REQUEST_MAX_BYTES, &named) == -EINVAL)
        return tg_error_reply(TG_ERR_USAGE, "store must be a text, or null");
    if (!named || strcmp(named, ours) == 0 || shown_the_same(named, ours) || same_entry(named, ours))
        return NULL;
    return tg_error_reply(TG_ERR_OTHER_STORE, "this broker (process %d) serves the store %s, not %.500s",
                          (int)getpid(), ours, named);
}
