/* SPDX-License-Identifier: Apache-2.0
 * See shared.h. */
#include "machine/shared.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "machine/text.h"

#define SMALL_KB (UINT64_C(32) << 10) /* below this a mistake does not matter */

/* Where its program and its stack begin: the same for a child that was forked and executed nothing since,
 * and, with addresses made up at each execution, for hardly anybody else. */
struct image {
    uint64_t code;
    uint64_t stack;
};

/* Fields 26 and 28 of /proc/PID/stat; false when they are hidden from us. */
static bool read_image(int proc_fd, pid_t pid, struct image *ret)
{
    char path[32], buf[2048];
    uint64_t v = 0;
    snprintf(path, sizeof path, "%d/stat", (int)pid);
    if (tg_text_read_at(proc_fd, path, buf, sizeof buf) < 0)
        return false;
    const char *p = strrchr(buf, ')');
    for (int field = 3; p && field <= 28; field++) {
        p = strchr(p, ' ');
        if (!p)
            break;
        p++;
        if (field != 26 && field != 28)
            continue;
        if (tg_text_u64(&p, &v))
            return false;
        if (field == 26)
            ret->code = v;
        else
            ret->stack = v;
    }
    return p && ret->stack != 0;
}

static bool is_forked_copy(int proc_fd, pid_t child, pid_t parent)
{
    struct image a, b;
    return read_image(proc_fd, child, &a) && read_image(proc_fd, parent, &b) && a.code == b.code &&
           a.stack == b.stack;
}

/* The pages that no other process has. */
static int read_private(int proc_fd, pid_t pid, uint64_t *ret_kb)
{
    char path[40], buf[4096];
    uint64_t clean, dirty;
    snprintf(path, sizeof path, "%d/smaps_rollup", (int)pid);
    long n = tg_text_read_at(proc_fd, path, buf, sizeof buf);
    int err = n < 0 ? (int)n : 0;
    if (!err)
        err = tg_text_kb(buf, "Private_Clean:", &clean);
    if (!err)
        err = tg_text_kb(buf, "Private_Dirty:", &dirty);
    if (!err)
        *ret_kb = tg_sat_add_u64(clean, dirty);
    return err;
}

uint64_t tg_shared_own_kb(int proc_fd, const struct tg_shown *child, const struct tg_shown *parent,
                          uint64_t *budget_kb)
{
    uint64_t own;
    if (child->kb < SMALL_KB || parent->kb < SMALL_KB || !is_forked_copy(proc_fd, child->pid, parent->pid))
        return child->kb;
    if (child->kb <= *budget_kb) {
        *budget_kb -= child->kb;
        if (read_private(proc_fd, child->pid, &own) == 0)
            return own < child->kb ? own : child->kb;
    }
    return tg_sat_sub_u64(child->kb, parent->kb);
}
