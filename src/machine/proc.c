/* SPDX-License-Identifier: Apache-2.0
 *
 * Identity, death and signals of processes: see proc.h. Keeps A4 (an owner is pid, start time, boot id).
 *
 * It reads only; it never reaps a child (L14). The two calls that send a signal stand at the end, and no
 * other file of the project sends one. "Dead" is said only when the process is known to be dead: a /proc
 * that cannot be read, or hides other users' processes, makes the answer unknown, never dead, because a
 * live job taken for dead would be run over.
 */
#include "machine/proc.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "machine/stat.h"
#include "machine/text.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
/* Linux 6.9: signals the group that the pidfd's process leads, without naming a number that may be reused. */
#ifndef PIDFD_SIGNAL_PROCESS_GROUP
#define PIDFD_SIGNAL_PROCESS_GROUP (1u << 2)
#endif

#define BOOT_ID_PATH "/proc/sys/kernel/random/boot_id"
#define WALK_STEPS 64u

/* 8-4-4-4-12 hexadecimal digits. */
static bool is_uuid(const char *s)
{
    for (size_t i = 0; i < TG_BOOT_ID_BYTES - 1; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        bool hex = (s[i] >= '0' && s[i] <= '9') || (s[i] >= 'a' && s[i] <= 'f');
        if (dash ? s[i] != '-' : !hex)
            return false;
    }
    return true;
}

int tg_boot_id(const struct tg_root *root, char ret[TG_BOOT_ID_BYTES])
{
    char buf[64];
    int err = tg_text_read(root, BOOT_ID_PATH, buf, sizeof buf);
    if (err)
        return err == -EFBIG ? -EBADMSG : err;
    size_t n = strlen(buf);
    if (n > 0 && buf[n - 1] == '\n')
        buf[--n] = '\0';
    if (n != TG_BOOT_ID_BYTES - 1 || !is_uuid(buf))
        return -EBADMSG;
    memcpy(ret, buf, TG_BOOT_ID_BYTES);
    return 0;
}

static pthread_once_t real_once = PTHREAD_ONCE_INIT;
static char real_boot_id[TG_BOOT_ID_BYTES]; /* "" when it could not be read */

static void read_real_boot_id(void)
{
    const struct tg_root machine = {.prefix = ""};
    if (tg_boot_id(&machine, real_boot_id))
        real_boot_id[0] = '\0';
}

/* The real machine's boot id does not change while we run: read once, it saves a file on every admission.
 * Whether /proc can be read at all is not asked here; reading the process says so. */
static int known_boot_id(const struct tg_root *root, char ret[TG_BOOT_ID_BYTES])
{
    if (root->prefix[0] != '\0')
        return tg_boot_id(root, ret);
    pthread_once(&real_once, read_real_boot_id);
    if (!real_boot_id[0])
        return tg_boot_id(root, ret);
    memcpy(ret, real_boot_id, TG_BOOT_ID_BYTES);
    return 0;
}

/* /proc/PID/... is not there: either the process is gone, or /proc is not there or hides it. */
static int why_missing(const struct tg_root *root, pid_t pid)
{
    char boot[TG_BOOT_ID_BYTES];
    int err = tg_boot_id(root, boot);
    if (err)
        return err;
    /* On the real machine the kernel is asked as well: hidepid shows other users' processes as missing. A
     * process that was born in between has this number for its own, so saying "unknown" once is right. */
    if (root->prefix[0] == '\0' && (kill(pid, 0) == 0 || errno != ESRCH))
        return -EACCES;
    return -ESRCH;
}

static int read_proc(const struct tg_root *root, pid_t pid, const char *name, char *buf, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    int err = tg_text_read(root, path, buf, size);
    return err == -ENOENT || err == -ESRCH ? why_missing(root, pid) : err;
}

/* The line of a process that lives. 0; -ESRCH: none, or it has ended and only waits to be reaped. */
static int read_stat(const struct tg_root *root, pid_t pid, struct tg_stat_line *ret)
{
    char buf[2048];
    struct tg_stat_line s;
    int err = read_proc(root, pid, "stat", buf, sizeof buf);
    if (err)
        return err == -EFBIG ? -EBADMSG : err;
    err = tg_stat_parse(buf, pid, &s);
    if (err)
        return err;
    if (tg_stat_has_ended(&s))
        return -ESRCH;
    *ret = s;
    return 0;
}

int tg_owner_of(const struct tg_root *root, pid_t pid, struct tg_owner *ret)
{
    struct tg_kin kin;
    return tg_owner_and_kin(root, pid, ret, &kin);
}

int tg_owner_and_kin(const struct tg_root *root, pid_t pid, struct tg_owner *ret, struct tg_kin *ret_kin)
{
    if (pid < 1)
        return -EINVAL;
    struct tg_owner o = {.pid = pid};
    struct tg_stat_line s;
    int err = known_boot_id(root, o.boot_id);
    if (err)
        return err;
    err = read_stat(root, pid, &s);
    if (err)
        return err;
    o.start_ticks = s.start_ticks;
    *ret = o;
    *ret_kin = (struct tg_kin){.parent = s.parent, .session = s.session};
    return 0;
}

/* Opened before /proc is read, and alive after that: it had the number all the while, so both mean it. */
int tg_owner_open(const struct tg_root *root, pid_t pid, struct tg_owner *ret, struct tg_kin *ret_kin,
                  int *ret_fd)
{
    int fd = -1;
    if (pid >= 1 && root->prefix[0] == '\0')
        fd = (int)syscall(SYS_pidfd_open, pid, 0);
    int err = tg_owner_and_kin(root, pid, ret, ret_kin);
    if (err == -EMFILE && fd >= 0) { /* that was the last descriptor there is: the identity matters more */
        close(fd);
        fd = -1;
        err = tg_owner_and_kin(root, pid, ret, ret_kin);
    }
    struct pollfd p = {.fd = fd, .events = POLLIN};
    if (!err && fd >= 0 && poll(&p, 1, 0) != 0)
        err = -ESRCH;
    if (err) {
        if (fd >= 0)
            close(fd);
        return err;
    }
    *ret_fd = fd < 0 ? -1 : fd;
    return 0;
}

/* 0 and the line when the recorded process lives; -ESRCH: dead or somebody else; -errno: unknown. */
static int find_owner(const struct tg_root *root, const struct tg_owner *owner, struct tg_stat_line *ret)
{
    if (owner->pid < 1)
        return -ESRCH;
    char boot[TG_BOOT_ID_BYTES];
    struct tg_stat_line s;
    int err = known_boot_id(root, boot);
    if (err)
        return err;
    if (memcmp(boot, owner->boot_id, TG_BOOT_ID_BYTES) != 0)
        return -ESRCH;
    err = read_stat(root, owner->pid, &s);
    if (err)
        return err;
    if (s.start_ticks != owner->start_ticks)
        return -ESRCH;
    *ret = s;
    return 0;
}

enum tg_liveness tg_owner_alive(const struct tg_root *root, const struct tg_owner *owner)
{
    struct tg_stat_line s;
    int err = find_owner(root, owner, &s);
    if (err == 0)
        return TG_ALIVE;
    return err == -ESRCH ? TG_DEAD : TG_LIVENESS_UNKNOWN;
}

/* The pidfd first, the identity after: a number that was reused before the open shows another start time,
 * and after it the descriptor stays with the process it was opened on. */
static int open_owner(const struct tg_root *root, const struct tg_owner *owner, int *ret_fd,
                      struct tg_stat_line *ret_line)
{
    if (owner->pid < 1)
        return -ESRCH;
    int fd = (int)syscall(SYS_pidfd_open, owner->pid, 0);
    if (fd < 0)
        return -errno;
    int err = find_owner(root, owner, ret_line);
    if (err) {
        close(fd);
        return err;
    }
    *ret_fd = fd;
    return 0;
}

int tg_owner_pidfd(const struct tg_root *root, const struct tg_owner *owner, int *ret_fd)
{
    struct tg_stat_line s;
    return open_owner(root, owner, ret_fd, &s);
}

bool tg_proc_is_stopped(const struct tg_root *root, pid_t pid)
{
    struct tg_stat_line s;
    return pid > 0 && read_stat(root, pid, &s) == 0 && s.state == 'T';
}

int tg_proc_uid(const struct tg_root *root, pid_t pid, uid_t *ret)
{
    if (pid < 1)
        return -EINVAL;
    char buf[8192];
    int err = read_proc(root, pid, "status", buf, sizeof buf);
    if (err)
        return err;
    const char *p = tg_text_line(buf, "Uid:\t");
    uint64_t uid;
    if (!p || tg_text_u64(&p, &uid) || *p != '\t' || uid > UINT32_MAX)
        return -EBADMSG;
    *ret = (uid_t)uid;
    return 0;
}

bool tg_proc_walk_up(const struct tg_root *root, pid_t pid, bool (*visit)(void *ctx, pid_t pid), void *ctx)
{
    uint64_t child_start = UINT64_MAX;
    for (unsigned step = 0; step < WALK_STEPS && pid > 1; step++) {
        struct tg_stat_line s;
        /* A parent that is younger than its child is a number that was reused while we walked. */
        if (read_stat(root, pid, &s) || s.start_ticks > child_start)
            return false;
        if (visit(ctx, pid))
            return true;
        child_start = s.start_ticks;
        pid = s.parent;
    }
    return false;
}

static bool same_pid(void *ctx, pid_t pid)
{
    return *(const pid_t *)ctx == pid;
}

bool tg_proc_descends(const struct tg_root *root, pid_t pid, pid_t ancestor)
{
    return ancestor > 1 && tg_proc_walk_up(root, pid, same_pid, &ancestor);
}

static bool may_signal(pid_t pid, int sig)
{
    return pid > 1 && pid != getpid() && sig >= 1 && sig <= SIGRTMAX;
}

int tg_owner_signal(const struct tg_root *root, const struct tg_owner *owner, int sig, bool group)
{
    if (!may_signal(owner->pid, sig))
        return -EINVAL;
    struct tg_stat_line s;
    int fd = -1;
    int err = open_owner(root, owner, &fd, &s);
    if (err)
        return err;
    bool whole = group && s.group == owner->pid && s.group != getpgrp();
    unsigned flags = whole ? PIDFD_SIGNAL_PROCESS_GROUP : 0;
    long rc = syscall(SYS_pidfd_send_signal, fd, sig, NULL, flags);
    /* Before Linux 6.9 a group is named by its number. It was this process's a moment ago, and a number
     * that is still some process's group cannot be given to a new one. */
    if (rc < 0 && errno == EINVAL && whole)
        rc = kill(-owner->pid, sig);
    err = rc < 0 ? -errno : 0;
    close(fd);
    return err;
}

int tg_owner_may_signal(const struct tg_root *root, const struct tg_owner *owner)
{
    struct tg_stat_line s;
    int fd = -1;
    if (!may_signal(owner->pid, SIGTERM))
        return -EINVAL;
    int err = open_owner(root, owner, &fd, &s);
    if (err)
        return err;
    if (syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0) < 0)
        err = -errno;
    close(fd);
    return err;
}

int tg_child_signal(pid_t child, int sig)
{
    if (!may_signal(child, sig))
        return -EINVAL;
    int saved = errno; /* callers are signal handlers too */
    siginfo_t info;
    int err = 0;
    /* WNOWAIT leaves the child's end to be collected; ECHILD says that it is not ours (any more). */
    if (waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) < 0)
        err = errno == ECHILD ? -ESRCH : -errno;
    else if (kill(child, sig) < 0)
        err = -errno;
    errno = saved;
    return err;
}
