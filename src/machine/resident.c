/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that process trees use: see memory.h. Keeps A2 (what cannot be measured has not grown, so that its
 * reservation stays booked). No swap figure is read (M13), and no file pages: the kernel drops those.
 */
#include "machine/memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/checked.h"
#include "machine/shared.h"
#include "machine/text.h"

/* One process of the pass; sum_kb grows by the children's sums. */
struct process {
    pid_t pid;
    pid_t parent;
    uint64_t threads;
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
    const char *threads = tg_text_line(buf, "Threads:\t");
    if (!threads || tg_text_u64(&threads, &p.threads))
        p.threads = 0;
    p.parent = (pid_t)parent;
    p.sum_kb = anon + shmem;
    *ret = p;
    return true;
}

static int read_all(const struct tg_root *root, struct table *t)
{
    DIR *dir;
    int err = tg_root_opendir(root, "/proc", &dir);
    if (err)
        return err;
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

/* Every process of the machine in one pass. */
static int scan_all(const struct tg_root *root, const pid_t *roots, size_t n, uint64_t *ret_mb)
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

/* ---- the trees alone, where the kernel lists children */

#define WALK_ROOTS 256u
#define WALK_MOST 100000u /* of one tree: more is a cycle, or a case for the pass over all */

#define WALK_BUDGET_KB (UINT64_C(512) << 10) /* of pages looked at one by one: some milliseconds */

struct node {
    struct tg_shown shown; /* kb is known once it has been visited */
    size_t up;             /* index of the parent */
};

struct walk {
    int proc_fd;
    uint64_t budget_kb;
    size_t now; /* index of the one being visited */
    struct node *at;
    size_t used;
    size_t room;
};

static int walk_add(struct walk *w, pid_t pid)
{
    if (w->used >= WALK_MOST)
        return -E2BIG;
    if (w->used == w->room) {
        size_t room = w->room ? w->room * 2 : 64;
        struct node *at = reallocarray(w->at, room, sizeof *at);
        if (!at)
            return -ENOMEM;
        w->at = at;
        w->room = room;
    }
    w->at[w->used++] = (struct node){.shown = {.pid = pid}, .up = w->now};
    return 0;
}

/* The children that one thread started: "12 13 ". -ENOENT: it is gone, or this kernel does not list them. */
static int add_children(struct walk *w, pid_t pid, const char *thread)
{
    char path[64], buf[16384];
    int n = snprintf(path, sizeof path, "%d/task/%.20s/children", (int)pid, thread);
    if (n < 0 || (size_t)n >= sizeof path)
        return -EBADMSG;
    long got = tg_text_read_at(w->proc_fd, path, buf, sizeof buf);
    if (got < 0)
        return got == -ESRCH ? -ENOENT : (int)got;
    for (const char *p = buf; *p;) {
        uint64_t child;
        if (tg_text_u64(&p, &child) || child < 1 || child > INT32_MAX)
            return -EBADMSG;
        int err = walk_add(w, (pid_t)child);
        if (err)
            return err;
        p += *p == ' ' || *p == '\n';
    }
    return 0;
}

/* The other threads' children; threads that end meanwhile are no error. */
static int add_of_threads(struct walk *w, pid_t pid)
{
    char path[32];
    snprintf(path, sizeof path, "%d/task", (int)pid);
    int fd = openat(w->proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        int err = -errno;
        if (fd >= 0)
            close(fd);
        return err == -ENOENT || err == -ESRCH ? 0 : err;
    }
    int err = 0;
    const struct dirent *e;
    while (!err && (e = readdir(dir)) != NULL) {
        pid_t tid = name_to_pid(e->d_name);
        if (tid == 0 || tid == pid)
            continue;
        err = add_children(w, pid, e->d_name);
        err = err == -ENOENT ? 0 : err;
    }
    closedir(dir);
    return err;
}

/* Takes in one process and lists its children. -ENOSYS: children are not listed here. */
static int visit(struct walk *w, uint64_t *kb)
{
    struct node *node = &w->at[w->now];
    char name[16];
    struct process p;
    snprintf(name, sizeof name, "%d", (int)node->shown.pid);
    if (!read_process(w->proc_fd, name, &p))
        return 0;
    node->shown.kb = p.sum_kb;
    if (node->up != w->now)
        p.sum_kb = tg_shared_own_kb(w->proc_fd, &node->shown, &w->at[node->up].shown, &w->budget_kb);
    *kb = tg_sat_add_u64(*kb, p.sum_kb);
    int err = add_children(w, p.pid, name);
    if (err == -ENOENT)
        err = read_process(w->proc_fd, name, &p) ? -ENOSYS : 0; /* or it has just ended */
    return !err && p.threads > 1 ? add_of_threads(w, p.pid) : err;
}

static int walk_tree(struct walk *w, pid_t root, uint64_t *ret_kb)
{
    uint64_t kb = 0;
    w->used = 0;
    w->now = 0;
    int err = walk_add(w, root);
    for (; w->now < w->used && !err; w->now++)
        err = visit(w, &kb);
    if (!err)
        *ret_kb = kb;
    return err;
}

static int walk_all(const struct tg_root *root, const pid_t *roots, size_t n, uint64_t *ret_mb)
{
    char path[PATH_MAX];
    struct walk w = {.proc_fd = -1, .budget_kb = WALK_BUDGET_KB};
    int err = tg_root_path(root, "/proc", path, sizeof path);
    if (err)
        return err;
    w.proc_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (w.proc_fd < 0)
        return -errno;
    for (size_t i = 0; i < n && !err; i++) {
        uint64_t kb = 0;
        err = roots[i] > 0 ? walk_tree(&w, roots[i], &kb) : 0;
        ret_mb[i] = kb / 1024;
    }
    close(w.proc_fd);
    free(w.at);
    return err;
}

/* A tree costs what it has; a pass costs what the machine has, and is made when trees cannot be walked, or so
 * many are asked for that it is the cheaper way. */
int tg_trees_resident_mb(const struct tg_root *root, const pid_t *roots, size_t n, uint64_t *ret_mb)
{
    if (n <= WALK_ROOTS && walk_all(root, roots, n, ret_mb) == 0)
        return 0;
    return scan_all(root, roots, n, ret_mb);
}
