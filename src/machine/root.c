/* SPDX-License-Identifier: Apache-2.0
 * See root.h. No stdio: the broker reads several of these files before every decision. */
#include "machine/root.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "machine/kept.h"
#include "machine/text.h"

/* Fills buf until the end of the file. A file of /proc may hand itself out in pieces, so only a read of 0
 * bytes says that it has ended. */
static long read_whole(int fd, char *buf, size_t size)
{
    size_t used = 0;
    for (;;) {
        char extra;
        size_t room = size - 1 - used;
        ssize_t n = read(fd, room ? buf + used : &extra, room ? room : 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        if (room == 0)
            return -EFBIG;
        used += (size_t)n;
    }
    buf[used] = '\0';
    return (long)used;
}

long tg_text_read_at(int dir_fd, const char *path, char *buf, size_t size)
{
    if (size == 0)
        return -EINVAL;
    int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return -errno;
    long n = read_whole(fd, buf, size);
    close(fd);
    return n;
}

int tg_root_path(const struct tg_root *root, const char *path, char *buf, size_t size)
{
    size_t a = strlen(root->prefix), b = strlen(path);
    if (a >= size || b >= size - a)
        return -ENAMETOOLONG;
    memcpy(buf, root->prefix, a);
    memcpy(buf + a, path, b + 1);
    return 0;
}

int tg_root_opendir(const struct tg_root *root, const char *path, DIR **ret)
{
    char buf[PATH_MAX];
    int err = tg_root_path(root, path, buf, sizeof(buf));
    if (err)
        return err;
    DIR *dir = opendir(buf);
    if (!dir)
        return -errno;
    *ret = dir;
    return 0;
}

long tg_root_read(const struct tg_root *root, const char *path, char *buf, size_t size)
{
    if (root->prefix[0] == '\0') {
        long n = root->kept ? tg_kept_read(root->kept, path, buf, size) : -ENOTSUP;
        return n != -ENOTSUP ? n : tg_text_read_at(AT_FDCWD, path, buf, size);
    }
    char full[PATH_MAX];
    int err = tg_root_path(root, path, full, sizeof full);
    return err ? err : tg_text_read_at(AT_FDCWD, full, buf, size);
}
