/* SPDX-License-Identifier: Apache-2.0
 *
 * Copying a kept output, and following it while it grows: growth is an event of inotify, the end one of the
 * lock that its writers hold (output.h). Nothing is asked at intervals.
 */
#include "client/output.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "machine/proc.h"

static int write_all(int to, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t sent = write(to, bytes, n);
        if (sent < 0 && errno != EINTR)
            return -errno;
        if (sent > 0) {
            bytes += sent;
            n -= (size_t)sent;
        }
    }
    return 0;
}

int tg_output_copy(int fd, int to)
{
    char chunk[65536];
    for (;;) {
        ssize_t n = read(fd, chunk, sizeof(chunk));
        if (n == 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return -errno;
        int err = n > 0 ? write_all(to, chunk, (size_t)n) : 0;
        if (err)
            return err;
    }
}

static int name_of(int fd, char *path, size_t size)
{
    int n = snprintf(path, size, "/proc/self/fd/%d", fd);
    return n > 0 && (size_t)n < size ? 0 : -ENAMETOOLONG;
}

/* A child of ours sleeps until the lock is to be had, and ends: the end of its pipe is the event. */
static int watch_end(int fd, pid_t *ret_child)
{
    int ends[2];
    char path[40];
    int err = name_of(fd, path, sizeof(path));
    if (err || pipe2(ends, O_CLOEXEC))
        return err ? err : -errno;
    pid_t parent = getpid();
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        int own = open(path, O_RDONLY | O_CLOEXEC); /* a description of its own, so a lock of its own */
        while (own >= 0 && flock(own, LOCK_SH) && errno == EINTR)
            ;
        _exit(0);
    }
    err = -errno;
    close(ends[1]);
    if (child < 0) {
        close(ends[0]);
        return err;
    }
    *ret_child = child;
    return ends[0];
}

static void unwatch(int watch, pid_t child)
{
    close(watch);
    tg_child_signal(child, SIGKILL);
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
}

static int watch_growth(int fd)
{
    char path[40];
    int err = name_of(fd, path, sizeof(path));
    int growth = err ? err : inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (growth < 0)
        return err ? err : -errno;
    if (inotify_add_watch(growth, path, IN_MODIFY) < 0) {
        err = -errno;
        close(growth);
        return err;
    }
    return growth;
}

static void drain(int fd)
{
    char events[4096];
    while (read(fd, events, sizeof(events)) > 0)
        ;
}

/* Until nobody writes any more, or nobody reads. */
static int follow(int fd, int to, int growth, int end)
{
    struct pollfd p[] = {
        {.fd = growth, .events = POLLIN}, {.fd = end, .events = POLLIN}, {.fd = to, .events = 0}};
    bool over = false;
    for (;;) {
        int err = tg_output_copy(fd, to);
        if (err || over)
            return err;
        if (poll(p, 3, -1) < 0 && errno != EINTR)
            return -errno;
        if (p[2].revents & (POLLERR | POLLNVAL))
            return -EPIPE;
        drain(growth);
        over = p[1].revents != 0; /* then what is there now is all */
    }
}

int tg_output_follow(int fd, int to)
{
    pid_t child = -1;
    int growth = watch_growth(fd);
    if (growth < 0)
        return growth;
    int end = watch_end(fd, &child);
    int err = end < 0 ? end : follow(fd, to, growth, end);
    if (end >= 0)
        unwatch(end, child);
    close(growth);
    return err;
}
