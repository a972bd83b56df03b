/* SPDX-License-Identifier: Apache-2.0
 * See lock.h. */
#include "broker/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOCK_TRIES 16

bool tg_lock_is_named(int fd, const char *path)
{
    struct stat a;
    struct stat b;
    return fstat(fd, &a) == 0 && stat(path, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* "PID SOCKET\n". Only an absolute path on a whole line is believed. */
static void read_other(int fd, char *other, size_t size)
{
    char text[4200];
    other[0] = '\0';
    ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
    if (n <= 0 || text[n - 1] != '\n' || memchr(text, '\0', (size_t)n))
        return;
    text[n - 1] = '\0';
    const char *path = strchr(text, ' ');
    if (path && path[1] == '/' && !strchr(path, '\n'))
        snprintf(other, size, "%s", path + 1);
}

static int write_self(int fd, const char *socket_path)
{
    char text[4200];
    int n = snprintf(text, sizeof(text), "%d %s\n", (int)getpid(), socket_path);
    if (n < 0 || (size_t)n >= sizeof(text))
        return -ENAMETOOLONG;
    if (ftruncate(fd, 0) != 0)
        return -errno;
    ssize_t written = pwrite(fd, text, (size_t)n, 0);
    return written == n ? 0 : written < 0 ? -errno : -ENOSPC;
}

int tg_lock_take(const char *path, const char *socket_path, int *ret_fd, char *other, size_t size)
{
    for (int i = 0; i < LOCK_TRIES; i++) {
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
            return -errno;
        if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
            int err = errno == EWOULDBLOCK ? -EALREADY : -errno;
            read_other(fd, other, size);
            close(fd);
            return err;
        }
        if (tg_lock_is_named(fd, path)) {
            int err = write_self(fd, socket_path);
            if (err) {
                close(fd);
                return err;
            }
            *ret_fd = fd;
            return 0;
        }
        close(fd);
    }
    return -EAGAIN;
}
