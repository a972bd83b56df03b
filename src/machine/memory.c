/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that may be given away, and memory that process trees use: see memory.h. Keeps A2 (each byte
 * counts once; what cannot be read refuses) and the cases M1, M2, M4, M7, M8 and M13.
 *
 * MemAvailable is the kernel's own figure of what can be had without swapping: it counts page cache that
 * can be dropped and leaves out shared memory and tmpfs. Nothing here reads a swap figure.
 */
#include "machine/memory.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
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

/* One process of the pass; sum_kb grows by the children's sums. */
struct process {
    pid_t pid;
    pid_t parent;
    uint64_t sum_kb;
    size_t up;      /* index of the parent, or NONE */
    size_t waiting; /* children whose sums have not come yet */
};
#define NONE SIZE_MAX

struct table {
    struct process *at;
    size_t used;
    size_t size;
};

static int append(struct table *t, const struct process *p)
{
    if (t->used == t->size) {
        size_t size = t->size ? t->size * 2 : 256;
        struct process *at = reallocarray(t->at, size, sizeof *at);
        if (!at)
            return -ENOMEM;
        t->at = at;
        t->size = size;
    }
    t->at[t->used++] = *p;
    return 0;
}

/* A directory name that is a pid, or 0. */
static pid_t name_to_pid(const char *name)
{
    uint64_t v;
    if (*name < '1' || *name > '9' || tg_text_u64(&name, &v) || *name || v > INT32_MAX)
        return 0;
    return (pid_t)v;
}

/* Reads one process. False when it has gone or its file is not of the known form: what cannot be measured
 * has not grown, so its reservation stays booked. */
static bool read_process(int proc_fd, const char *name, struct process *ret)
{
    char path[300], buf[8192];
    struct process p = {.pid = name_to_pid(name), .up = NONE};
    if (p.pid == 0)
        return false;
    snprintf(path, sizeof path, "%s/status", name);
    if (tg_text_read_at(proc_fd, path, buf, sizeof buf) < 0)
        return false;
    const char *ppid = tg_text_line(buf, "PPid:\t");
    uint64_t parent, anon = 0, shmem = 0;
    if (!ppid || tg_text_u64(&ppid, &parent) || *ppid != '\n' || parent > INT32_MAX)
        return false;
    /* Kernel threads and zombies have no such lines. */
    int a = tg_text_kb(buf, "RssAnon:", &anon), b = tg_text_kb(buf, "RssShmem:", &shmem);
    if ((a && a != -ENOENT) || (b && b != -ENOENT))
        anon = shmem = 0;
    p.parent = (pid_t)parent;
    p.sum_kb = anon + shmem;
    *ret = p;
    return true;
}

static int read_all(const struct tg_root *root, struct table *t)
{
    char path[PATH_MAX];
    int err = tg_root_path(root, "/proc", path, sizeof path);
    if (err)
        return err;
    DIR *dir = opendir(path);
    if (!dir)
        return -errno;
    for (;;) {
        errno = 0;
        const struct dirent *e = readdir(dir);
        struct process p;
        if (!e) {
            err = -errno;
            break;
        }
        if (read_process(dirfd(dir), e->d_name, &p)) {
            err = append(t, &p);
            if (err)
                break;
        }
    }
    closedir(dir);
    return err;
}

static int by_pid(const void *a, const void *b)
{
    const struct process *x = a, *y = b;
    return (x->pid > y->pid) - (x->pid < y->pid);
}

static struct process *find(const struct table *t, pid_t pid)
{
    struct process key = {.pid = pid};
    return t->used ? bsearch(&key, t->at, t->used, sizeof key, by_pid) : NULL;
}

/* Carries each process's sum up to its parent once its own children's have come. A cycle, which only a
 * scan that was overtaken by reused pids can show, is never entered: its members keep their own. */
static void sum_trees(struct table *t)
{
    for (size_t i = 0; i < t->used; i++) {
        const struct process *up = find(t, t->at[i].parent);
        if (up) {
            t->at[i].up = (size_t)(up - t->at);
            t->at[t->at[i].up].waiting++;
        }
    }
    for (size_t i = 0; i < t->used; i++) {
        struct process *p = &t->at[i];
        while (p->waiting == 0) {
            p->waiting = NONE; /* carried */
            if (p->up == NONE)
                break;
            struct process *up = &t->at[p->up];
            up->sum_kb = tg_sat_add_u64(up->sum_kb, p->sum_kb);
            up->waiting--;
            p = up;
        }
    }
}

int tg_trees_resident_mb(const struct tg_root *root, const pid_t *roots, size_t n, uint64_t *ret_mb)
{
    struct table t = {NULL, 0, 0};
    int err = read_all(root, &t);
    if (!err) {
        if (t.used)
            qsort(t.at, t.used, sizeof *t.at, by_pid);
        sum_trees(&t);
        for (size_t i = 0; i < n; i++) {
            const struct process *p = roots[i] > 0 ? find(&t, roots[i]) : NULL;
            ret_mb[i] = p ? p->sum_kb / 1024 : 0;
        }
    }
    free(t.at);
    return err;
}
