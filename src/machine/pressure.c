/* SPDX-License-Identifier: Apache-2.0
 * See pressure.h (M4, M10, M11). Reads, decides nothing. */
#include "machine/pressure.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "machine/contained.h"
#include "machine/text.h"

/* "12.34" with two digits behind the point, as the kernel writes it. */
static int parse_percent(const char **p, uint32_t *ret)
{
    uint64_t whole, cents;
    if (tg_text_u64(p, &whole) || whole > 100 || **p != '.')
        return -EBADMSG;
    const char *start = ++*p;
    if (tg_text_u64(p, &cents) || *p - start != 2 || whole * 100 + cents > 10000)
        return -EBADMSG;
    *ret = (uint32_t)(whole * 100 + cents);
    return 0;
}

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=0" */
static int parse(const char *text, struct tg_pressure *ret)
{
    struct tg_pressure v;
    const char *p = tg_text_line(text, "some avg10=");
    if (!p || parse_percent(&p, &v.some_avg10) || *p != ' ')
        return -EBADMSG;
    const char *end = strchr(p, '\n');
    const char *total = strstr(p, " total=");
    if (!total || (end && total > end))
        return -EBADMSG;
    total += strlen(" total=");
    if (tg_text_u64(&total, &v.some_us) || (*total != '\n' && *total != '\0'))
        return -EBADMSG;
    *ret = v;
    return 0;
}

static int read_pressure(const struct tg_root *root, const char *resource, bool own, struct tg_pressure *ret)
{
    char buf[512], name[64];
    struct tg_cgroup group;
    int err = tg_contained_group(root, resource, &group);
    if (err == 0 && group.version == 2) {
        snprintf(name, sizeof name, "%s.pressure", resource);
        err = tg_cgroup_read(root, &group, name, buf, sizeof buf);
    } else if (!own && (err == 0 || err == -ENOENT)) {
        snprintf(name, sizeof name, "/proc/pressure/%s", resource);
        err = tg_text_read(root, name, buf, sizeof buf);
    } else if (err == 0) {
        err = -ENOENT;
    }
    /* A kernel that was told to count none has the files and refuses to open them. */
    if (err == -EOPNOTSUPP || err == -ENOTDIR)
        return -ENOENT;
    return err ? err : parse(buf, ret);
}

int tg_pressure_read(const struct tg_root *root, const char *resource, struct tg_pressure *ret)
{
    return read_pressure(root, resource, false, ret);
}

int tg_contained_pressure(const struct tg_root *root, const char *resource, struct tg_pressure *ret)
{
    return read_pressure(root, resource, true, ret);
}

/* Version 1 counts in a controller of its own, in ns. */
static int used_v1(const struct tg_root *root, uint64_t *ret_us)
{
    char buf[64];
    uint64_t ns;
    struct tg_cgroup group;
    int err = tg_cgroup_find(root, "cpuacct", &group);
    if (!err)
        err = tg_cgroup_read(root, &group, "cpuacct.usage", buf, sizeof buf);
    if (!err)
        err = tg_text_number(buf, &ns);
    if (!err)
        *ret_us = ns / 1000;
    return err;
}

int tg_contained_cpu_us(const struct tg_root *root, uint64_t *ret_used_us)
{
    char buf[4096];
    struct tg_cgroup group;
    int err = tg_contained_group(root, "cpu", &group);
    if (err)
        return err;
    if (group.version == 1)
        return used_v1(root, ret_used_us);
    err = tg_cgroup_read(root, &group, "cpu.stat", buf, sizeof buf);
    if (err)
        return err;
    const char *p = tg_text_line(buf, "usage_usec ");
    uint64_t used;
    if (!p || tg_text_u64(&p, &used) || (*p != '\n' && *p != '\0'))
        return -EBADMSG;
    *ret_used_us = used;
    return 0;
}
