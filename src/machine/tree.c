/* SPDX-License-Identifier: Apache-2.0
 *
 * The processes of tickets: see tree.h. Keeps A4.
 *
 * One pass reads the stat line of every process and the environment of those that are young enough; then each
 * process without a mark of its own takes over what its parent belongs to. The environment of a process is
 * memory that the process itself may overwrite: it says where a process wants to belong, and only a process
 * of the ticket's user, or root's, is believed.
 */
#include "machine/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "machine/mark.h"
#include "machine/stat.h"
#include "machine/text.h"

#define PASSES 4u
#define LIST_BYTES 4096u

/* To whom a process belongs: the index of a want, or: */
#define NOT_KNOWN SIZE_MAX       /* its parent's belonging is to be looked up */
#define NOBODY (SIZE_MAX - 1)    /* none of the wanted */
#define UNDER_WAY (SIZE_MAX - 2) /* on the path that is being looked up */

struct process {
    pid_t pid;
    pid_t parent;
    pid_t session;
    uint64_t start_ticks;
    size_t belongs;
    bool stopped;
};

struct pass {
    const char *uuid;
    const struct tg_tree_want *want;
    size_t n_wanted;
    uint64_t oldest; /* what is older belongs to nobody */
    pid_t except;
    struct process *at;
    size_t used;
    size_t room;
    bool unclear; /* something vanished or changed while it was read */
};

/* ---- the mark */

/* Reads "ID:UUID" as a ticket's number. 0 also for a ticket 0, which no ticket is. */
static bool read_mark(const char *value, const char *uuid, uint64_t *ret)
{
    return tg_text_u64(&value, ret) == 0 && *value == ':' && strcmp(value + 1, uuid) == 0;
}

static size_t belongs_by_mark(struct pass *p, int proc_fd, const char *name)
{
    char value[TG_MARK_BYTES];
    uint64_t id;
    uid_t uid;
    bool empty = false;
    if (!tg_mark_of(proc_fd, name, value, &uid, &empty) || !read_mark(value, p->uuid, &id)) {
        p->unclear |= empty;
        return NOT_KNOWN;
    }
    for (size_t i = 0; i < p->n_wanted; i++) {
        if (p->want[i].id == id)
            return uid == 0 || uid == p->want[i].uid ? i : NOT_KNOWN;
    }
    return NOBODY;
}

/* ---- one pass over /proc */

static int append(struct pass *p, const struct process *one)
{
    if (p->used == p->room) {
        size_t room = p->room ? p->room * 2 : 256;
        struct process *at = reallocarray(p->at, room, sizeof(*at));
        if (!at)
            return -ENOMEM;
        p->at = at;
        p->room = room;
    }
    p->at[p->used++] = *one;
    return 0;
}

static bool is_owner(const struct process *one, const struct tg_tree_want *w)
{
    return one->pid == w->owner && one->start_ticks == w->owner_start;
}

/* Later than the owner; numbers of one clock tick are given in order, but for the moment when they wrap. */
static bool is_younger(pid_t pid, uint64_t start_ticks, const struct tg_tree_want *w)
{
    return start_ticks > w->owner_start || (start_ticks == w->owner_start && pid > w->owner);
}

static size_t belongs_by_itself(struct pass *p, const struct process *one, int proc_fd, const char *name)
{
    if (one->pid == p->except || one->start_ticks < p->oldest)
        return NOBODY;
    for (size_t i = 0; i < p->n_wanted; i++) {
        if (is_owner(one, &p->want[i]))
            return i;
    }
    size_t mark = belongs_by_mark(p, proc_fd, name);
    for (size_t i = 0; i < p->n_wanted && mark == NOT_KNOWN; i++) {
        const struct tg_tree_want *w = &p->want[i];
        if (w->reaper > 1 && one->parent == w->reaper && is_younger(one->pid, one->start_ticks, w))
            return i;
    }
    if (mark < p->n_wanted && one->start_ticks < p->want[mark].owner_start)
        return NOBODY;
    return mark;
}

/* Takes one process in. 0 also when it has gone. */
static int take(struct pass *p, int proc_fd, const char *name)
{
    char path[300], buf[2048];
    struct tg_stat_line s;
    pid_t pid = tg_stat_pid(name);
    if (pid == 0)
        return 0;
    snprintf(path, sizeof(path), "%s/stat", name);
    long n = tg_text_read_at(proc_fd, path, buf, sizeof(buf));
    if (n < 0) {
        p->unclear |= n == -ENOENT || n == -ESRCH;
        return 0;
    }
    if (tg_stat_parse(buf, pid, &s) || tg_stat_has_ended(&s))
        return 0;
    struct process one = {.pid = pid,
                          .parent = s.parent,
                          .session = s.session,
                          .start_ticks = s.start_ticks,
                          .stopped = s.state == 'T' || s.state == 't'};
    one.belongs = belongs_by_itself(p, &one, proc_fd, name);
    return append(p, &one);
}

static int read_all(const struct tg_root *root, struct pass *p)
{
    DIR *dir;
    int err = tg_root_opendir(root, "/proc", &dir);
    if (err)
        return err;
    p->used = 0;
    p->unclear = false;
    while (!err) {
        errno = 0;
        const struct dirent *e = readdir(dir);
        if (!e) {
            err = -errno;
            break;
        }
        err = take(p, dirfd(dir), e->d_name);
    }
    closedir(dir);
    return err;
}

/* ---- descent */

static int by_pid(const void *a, const void *b)
{
    const struct process *x = a, *y = b;
    return (x->pid > y->pid) - (x->pid < y->pid);
}

/* The parent, unless that is a younger process which got the number of one that has gone. */
static struct process *parent_of(struct pass *p, const struct process *one)
{
    struct process key = {.pid = one->parent};
    struct process *up = bsearch(&key, p->at, p->used, sizeof(key), by_pid);
    return up && up->start_ticks <= one->start_ticks ? up : NULL;
}

/* Walks up until somebody's belonging is known; the whole path takes it over. A cycle, which only a pass that
 * was overtaken by reused numbers can show, belongs to nobody. */
static void look_up(struct pass *p, struct process *one)
{
    struct process *up = one;
    while (up && up->belongs == NOT_KNOWN) {
        up->belongs = UNDER_WAY;
        up = parent_of(p, up);
    }
    size_t found = up && up->belongs != UNDER_WAY ? up->belongs : NOBODY;
    for (up = one; up && up->belongs == UNDER_WAY; up = parent_of(p, up))
        up->belongs = found;
}

static int collect(struct pass *p, struct tg_tree *ret)
{
    if (p->used > 0)
        qsort(p->at, p->used, sizeof(*p->at), by_pid);
    for (size_t i = 0; i < p->used; i++)
        look_up(p, &p->at[i]);
    ret->used = 0;
    for (size_t i = 0; i < p->used; i++) {
        const struct process *one = &p->at[i];
        if (one->belongs >= p->n_wanted)
            continue;
        if (ret->used == ret->room) {
            size_t room = ret->room ? ret->room * 2 : 16;
            struct tg_tree_process *at = reallocarray(ret->at, room, sizeof(*at));
            if (!at)
                return -ENOMEM;
            ret->at = at;
            ret->room = room;
        }
        ret->at[ret->used++] = (struct tg_tree_process){.pid = one->pid,
                                                        .session = one->session,
                                                        .start_ticks = one->start_ticks,
                                                        .want = one->belongs,
                                                        .stopped = one->stopped};
    }
    return 0;
}

/* A process that forks and ends while the pass is between the two numbers could hide its child, and one that
 * just executes something has no mark for a moment; then the pass is made again. */
int tg_tree_scan(const struct tg_root *root, const char *uuid, const struct tg_tree_want *want, size_t n,
                 pid_t except, struct tg_tree *ret)
{
    struct pass p = {.uuid = uuid, .want = want, .n_wanted = n, .oldest = UINT64_MAX, .except = except};
    int err = 0;
    for (size_t i = 0; i < n; i++) {
        if (want[i].owner_start < p.oldest)
            p.oldest = want[i].owner_start;
    }
    ret->used = 0;
    for (unsigned i = 0; i < PASSES && n > 0; i++) {
        err = read_all(root, &p);
        if (!err)
            err = collect(&p, ret);
        if (err || ret->used > 0 || !p.unclear)
            break;
    }
    free(p.at);
    return err;
}

void tg_tree_done(struct tg_tree *t)
{
    free(t->at);
    *t = (struct tg_tree){NULL, 0, 0};
}

/* ---- whether anything is left */

static int read_line(const struct tg_root *root, pid_t pid, struct tg_stat_line *ret)
{
    char path[64], buf[2048];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    int err = tg_text_read(root, path, buf, sizeof(buf));
    if (!err)
        err = tg_stat_parse(buf, pid, ret);
    if (!err && tg_stat_has_ended(ret))
        err = -ESRCH;
    return err == -ENOENT ? -ESRCH : err;
}

static long read_list(int fd, char *buf)
{
    size_t used = 0;
    for (;;) {
        ssize_t n = pread(fd, buf + used, LIST_BYTES - used, (off_t)used);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        used += (size_t)n;
        if (n == 0 || used == LIST_BYTES)
            return (long)used;
    }
}

/* The numbers in /proc/PID/task/PID/children. The kernel may leave one out when another, that it has named
 * already, is reaped meanwhile: then that one is missing in the next reading. So what was read twice alike is
 * whole. The length; LIST_BYTES: too long, or never twice alike; -errno. */
static long read_children(const struct tg_root *root, pid_t pid, char *buf)
{
    char path[64], full[PATH_MAX], again[LIST_BYTES];
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
    int err = tg_root_path(root, path, full, sizeof(full));
    if (err)
        return err;
    int fd = open(full, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return -errno;
    long n = read_list(fd, buf);
    for (unsigned i = 0; i < PASSES && n >= 0 && n < (long)LIST_BYTES; i++) {
        long m = read_list(fd, again);
        if (m == n && memcmp(buf, again, (size_t)n) == 0) {
            close(fd);
            return n;
        }
        n = m;
        if (m > 0)
            memcpy(buf, again, (size_t)m);
    }
    close(fd);
    return n < 0 ? n : (long)LIST_BYTES;
}

int tg_tree_any_left(const struct tg_root *root, const struct tg_tree_want *want, pid_t except)
{
    char buf[LIST_BYTES + 1];
    struct tg_stat_line s;
    bool owner_is_there = false;
    if (want->reaper <= 1)
        return -ESRCH;
    long n = read_children(root, want->reaper, buf);
    if (n < 0)
        return (int)n;
    if (n == (long)LIST_BYTES)
        return 1;
    buf[n] = '\0';
    for (const char *p = buf; *p;) {
        uint64_t pid;
        if (tg_text_u64(&p, &pid) || pid > INT32_MAX || (*p && *p != ' '))
            return -EBADMSG;
        p += *p == ' ';
        if ((pid_t)pid == want->owner)
            owner_is_there = true;
        else if ((pid_t)pid != except && read_line(root, (pid_t)pid, &s) == 0 &&
                 is_younger((pid_t)pid, s.start_ticks, want))
            return 1;
    }
    /* The owner has been reaped. Somebody who got the reaper's number since is younger than the owner was. */
    if (!owner_is_there) {
        int err = read_line(root, want->reaper, &s);
        if (err || s.start_ticks > want->owner_start)
            return err ? err : -ESRCH;
    }
    return 0;
}
