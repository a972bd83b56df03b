/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that may be given away: see memory.h. Keeps A2 (each byte
 * counts once; what cannot be read refuses) and the cases M1, M2, M4, M7, M8 and M13.
 *
 * MemAvailable is the kernel's own figure of what can be had without swapping: it counts page cache that
 * can be dropped and leaves out shared memory and tmpfs. Nothing here reads a swap figure.
 */
#include "machine/memory.h"

#include <errno.h>
#include <string.h>

#include "base/checked.h"
#include "machine/cgroup.h"
#include "machine/text.h"

struct bytes {
    uint64_t total;
    uint64_t available;
};

static int read_host(const struct tg_root *root, struct bytes *ret)
{
    char buf[8192];
    uint64_t total, available, free_now;
    int err = tg_text_read(root, "/proc/meminfo", buf, sizeof buf);
    if (err)
        return err;
    if (tg_text_kb(buf, "MemTotal:", &total) || tg_text_kb(buf, "MemAvailable:", &available) || total == 0)
        return -EBADMSG;
    /* Some containers show their own total beside the host's available; their MemFree is their own. */
    if (available > total) {
        if (tg_text_kb(buf, "MemFree:", &free_now) || free_now > total)
            return -EBADMSG;
        available = free_now;
    }
    *ret = (struct bytes){.total = total * 1024, .available = available * 1024};
    return 0;
}

struct names {
    const char *limit, *usage, *inactive;
};

static const struct names file_names[] = {
    {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "},
    {"memory.max", "memory.current", "inactive_file "},
};

static int read_number(const struct tg_root *root, const struct tg_cgroup *g, const char *file, bool limit,
                       uint64_t *ret)
{
    char buf[64];
    int err = tg_cgroup_read(root, g, file, buf, sizeof buf);
    if (err)
        return err == -EFBIG ? -EBADMSG : err;
    if (limit && g->version == 2 && (strcmp(buf, "max\n") == 0 || strcmp(buf, "max") == 0)) {
        *ret = UINT64_MAX;
        return 0;
    }
    return tg_text_number(buf, ret);
}

/* Page cache that the kernel drops before it calls the group full; 0 when the file does not say. */
static int read_inactive(const struct tg_root *root, const struct tg_cgroup *g, const char *key,
                         uint64_t *ret)
{
    char buf[16384];
    int err = tg_cgroup_read(root, g, "memory.stat", buf, sizeof buf);
    if (err)
        return err;
    const char *p = tg_text_line(buf, key);
    uint64_t v = 0;
    if (p && (tg_text_u64(&p, &v) || (*p != '\n' && *p != '\0')))
        return -EBADMSG;
    *ret = v;
    return 0;
}

/* The group's limit: of version 2 the lower of the hard one and the one above which everything is slowed down
 * for ever (memory.high). */
static int read_limit(const struct tg_root *root, const struct tg_cgroup *g, uint64_t *ret)
{
    uint64_t limit = 0, high;
    int err = read_number(root, g, file_names[g->version - 1].limit, true, &limit);
    if (err || g->version == 1) {
        *ret = limit;
        return err;
    }
    err = read_number(root, g, "memory.high", true, &high);
    if (err && err != -ENOENT)
        return err;
    *ret = !err && high < limit ? high : limit;
    return 0;
}

/* Lowers *m by one group's limit. Limit and usage are of that very group (M2). */
static int apply_group(const struct tg_root *root, const struct tg_cgroup *g, uint64_t host_total,
                       struct bytes *m)
{
    const struct names *names = &file_names[g->version - 1];
    uint64_t limit, usage, inactive;
    int err = read_limit(root, g, &limit);
    if (err == -ENOENT) /* the topmost group, or one that the controller does not reach */
        return 0;
    if (err || limit >= host_total) /* then the host itself is tighter */
        return err;
    err = read_number(root, g, names->usage, false, &usage);
    if (err)
        return err;
    if (limit < m->total)
        m->total = limit;
    if (tg_sat_sub_u64(limit, usage) >= m->available)
        return 0;
    err = read_inactive(root, g, names->inactive, &inactive);
    if (err)
        return err;
    uint64_t left = tg_sat_sub_u64(limit, tg_sat_sub_u64(usage, inactive));
    if (left < m->available)
        m->available = left;
    return 0;
}

/* A line "name type value" of the kernel's statistics. */
static int read_kstat(const char *text, const char *name, uint64_t *ret)
{
    uint64_t type;
    size_t n = strlen(name);
    for (const char *p = text; p; p = strchr(p, '\n')) {
        p += *p == '\n';
        if (strncmp(p, name, n) != 0 || p[n] != ' ')
            continue;
        p += n + strspn(p + n, " ");
        if (tg_text_u64(&p, &type) || *p != ' ')
            return -EBADMSG;
        p += strspn(p, " ");
        return tg_text_u64(&p, ret) || (*p != '\n' && *p != '\0') ? -EBADMSG : 0;
    }
    return -EBADMSG;
}

/* What ZFS's cache can shrink by. 0 where there is no ZFS. */
static int read_arc(const struct tg_root *root, uint64_t *ret)
{
    char buf[32768];
    uint64_t size, least;
    int err = tg_text_read(root, "/proc/spl/kstat/zfs/arcstats", buf, sizeof buf);
    *ret = 0;
    if (err)
        return err == -ENOENT || err == -ENOTDIR ? 0 : err;
    err = read_kstat(buf, "size", &size);
    if (!err)
        err = read_kstat(buf, "c_min", &least);
    if (!err)
        *ret = tg_sat_sub_u64(size, least);
    return err;
}

static int add_arc(const struct tg_root *root, struct bytes *m)
{
    uint64_t credit;
    int err = read_arc(root, &credit);
    if (err)
        return err;
    uint64_t sum = tg_sat_add_u64(m->available, credit);
    m->available = sum < m->total ? sum : m->total;
    return 0;
}

int tg_memory_read(const struct tg_root *root, bool zfs_arc, struct tg_memory *ret)
{
    struct bytes m;
    int err = read_host(root, &m);
    if (!err && zfs_arc)
        err = add_arc(root, &m);
    if (err)
        return err;
    uint64_t host_total = m.total;
    struct tg_cgroup group;
    err = tg_cgroup_find(root, "memory", &group);
    if (err && err != -ENOENT)
        return err;
    for (bool more = err == 0; more; more = tg_cgroup_up(&group)) {
        err = apply_group(root, &group, host_total, &m);
        if (err)
            return err;
    }
    *ret = (struct tg_memory){.total_mb = m.total >> 20, .available_mb = m.available >> 20};
    return 0;
}
