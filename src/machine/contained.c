/* SPDX-License-Identifier: Apache-2.0
 * See contained.h. */
#include "machine/contained.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "machine/text.h"

static bool has_file(const struct tg_root *root, const struct tg_cgroup *g, const char *file)
{
    char buf[4096];
    int err = tg_cgroup_read(root, g, file, buf, sizeof buf);
    return err == 0 || err == -EFBIG;
}

static bool starts_with(const struct tg_root *root, const struct tg_cgroup *g, const char *file,
                        const char *text)
{
    char buf[64];
    return tg_cgroup_read(root, g, file, buf, sizeof buf) == 0 && strncmp(buf, text, strlen(text)) == 0;
}

/* A limit that is there and not "none". Version 1 writes no limit on memory as a number that no machine has,
 * and its groups have no pressure to read: only the processor's quota matters there. */
static bool is_limited(const struct tg_root *root, const struct tg_cgroup *g, const char *controller)
{
    bool cpu = strcmp(controller, "cpu") == 0;
    if (g->version == 1)
        return cpu && has_file(root, g, "cpu.cfs_quota_us") &&
               !starts_with(root, g, "cpu.cfs_quota_us", "-1");
    const char *file = cpu ? "cpu.max" : "memory.max";
    return has_file(root, g, file) && !starts_with(root, g, file, "max");
}

/* The machine's own topmost group of version 2 has no events; that of a container has. */
static bool is_machines_own(const struct tg_root *root, const struct tg_cgroup *top)
{
    return top->version == 1 || !has_file(root, top, "cgroup.events");
}

int tg_contained_group(const struct tg_root *root, const char *controller, struct tg_cgroup *ret)
{
    struct tg_cgroup group, top;
    bool found = false;
    int err = tg_cgroup_find(root, controller, &group);
    if (err)
        return err;
    do {
        top = group;
        if (is_limited(root, &group, controller)) {
            *ret = group;
            found = true;
        }
    } while (tg_cgroup_up(&group));
    if (found)
        return 0;
    if (is_machines_own(root, &top))
        return -ENOENT;
    *ret = top;
    return 0;
}
