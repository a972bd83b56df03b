/* SPDX-License-Identifier: Apache-2.0
 *
 * Where socket and store lie, and directories that nobody else can write: see paths.h (R2, U4, U5).
 *
 * A directory is found component by component, each opened below the one before it, so that what was
 * checked is what is used. It does not open socket or store; it never changes a directory that was there.
 */
#include "proto/paths.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

__attribute__((format(printf, 4, 5))) static int refuse(int err, char *why, size_t size, const char *format,
                                                        ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(why, size, format, args);
    va_end(args);
    return err;
}

/* The path's length; what does not fit is cut off. */
__attribute__((format(printf, 3, 4))) static size_t join(char *out, size_t size, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(out, size, format, args);
    va_end(args);
    return n < 0 ? SIZE_MAX : (size_t)n;
}

/* The variable's value, or NULL when it is unset or empty (which the XDG rules count as unset). */
static int absolute(const char *name, const char **ret, char *why, size_t size)
{
    const char *v = getenv(name);
    if (v && v[0] == '\0')
        v = NULL;
    if (v && v[0] != '/')
        return refuse(-EINVAL, why, size, "%s is '%.200s': it must be an absolute path", name, v);
    *ret = v;
    return 0;
}

static int too_long(const char *name, char *why, size_t size)
{
    return refuse(-ENAMETOOLONG, why, size, "%s: the path is longer than %u bytes", name, TG_PATH_BYTES - 1);
}

static int resolve_runtime(struct tg_paths *p, char *why, size_t size)
{
    const char *source = "XDG_RUNTIME_DIR", *dir = NULL;
    int err = absolute(source, &dir, why, size);
    if (err)
        return err;
    unsigned uid = (unsigned)geteuid();
    char user[32];
    struct stat st;
    snprintf(user, sizeof user, "/run/user/%u", uid);
    if (!dir && lstat(user, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == uid)
        dir = user;
    char number[24] = "";
    if (!dir)
        snprintf(number, sizeof number, "-%u", uid);
    const char *parts[] = {dir ? dir : "/tmp", number};
    size_t n = join(p->runtime_dir, sizeof p->runtime_dir, "%s/tidegate%s", parts[0], parts[1]);
    if (n < sizeof p->runtime_dir)
        n = join(p->socket, sizeof p->socket, "%s/broker.sock", p->runtime_dir);
    else if (n < TG_PATH_BYTES)
        n += sizeof "/broker.sock" - 1;
    if (n >= TG_PATH_BYTES)
        return too_long(source, why, size);
    if (n > TG_SOCKET_PATH_BYTES)
        return refuse(
            -ENAMETOOLONG, why, size,
            "%s: the socket's path %.170s/tidegate%s/broker.sock has %zu bytes, a socket may have %u: use a "
            "shorter directory",
            source, parts[0], parts[1], n, TG_SOCKET_PATH_BYTES);
    return 0;
}

static int resolve_state(struct tg_paths *p, char *why, size_t size)
{
    const char *source = "XDG_STATE_HOME", *dir = NULL, *below = "";
    int err = absolute(source, &dir, why, size);
    if (err)
        return err;
    if (!dir) {
        source = "HOME";
        below = "/.local/state";
        err = absolute(source, &dir, why, size);
        if (err)
            return err;
    }
    if (!dir)
        return refuse(-EINVAL, why, size,
                      "neither XDG_STATE_HOME nor HOME is set: one must name an absolute path");
    size_t n = join(p->state_dir, sizeof p->state_dir, "%s%s/tidegate", dir, below);
    if (n < sizeof p->state_dir)
        n = join(p->store, sizeof p->store, "%s/store.db", p->state_dir);
    else if (n < TG_PATH_BYTES)
        n += sizeof "/store.db" - 1;
    if (n >= TG_PATH_BYTES)
        return too_long(source, why, size);
    if (n > TG_STORE_PATH_BYTES)
        return refuse(-ENAMETOOLONG, why, size,
                      "%s: the store's path has %zu bytes, it may have %u: use a shorter directory", source,
                      n, TG_STORE_PATH_BYTES);
    return 0;
}

int tg_paths_resolve(struct tg_paths *ret, char *why, size_t size)
{
    struct tg_paths p;
    int err = resolve_runtime(&p, why, size);
    if (!err)
        err = resolve_state(&p, why, size);
    if (!err)
        *ret = p;
    return err;
}

/* A walk down a path: what has been opened, and the part of the text that names it. */
struct walk {
    const char *path;
    int dir_fd;
    struct stat dir;
    char *why;
    size_t size;
};

#define OPEN_DIR (O_PATH | O_DIRECTORY | O_CLOEXEC)

/* Follows a link on the way. In a directory where anybody may make names it must have been made by us or
 * by the directory's owner: the kernel's own rule (fs.protected_symlinks), kept where it is switched off
 * too. The link itself is opened, so that the one that was checked is the one that is followed. A
 * descriptor, or -errno; -EPERM: another user's link. */
static int follow_link(const struct walk *w, const char *name)
{
    char target[TG_PATH_BYTES];
    struct stat st;
    int link = openat(w->dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (link < 0)
        return -errno;
    ssize_t n = -1;
    int err = 0;
    if (fstat(link, &st) < 0)
        err = -errno;
    else if (!S_ISLNK(st.st_mode))
        err = -ENOTDIR;
    else if ((w->dir.st_mode & S_IWOTH) && st.st_uid != geteuid() && st.st_uid != w->dir.st_uid)
        err = -EPERM;
    else if ((n = readlinkat(link, "", target, sizeof target)) < 0)
        err = -errno;
    close(link);
    if (err)
        return err;
    if ((size_t)n >= sizeof target)
        return -ENAMETOOLONG;
    target[n] = '\0';
    int fd = openat(w->dir_fd, target, OPEN_DIR);
    if (fd < 0) /* a link into nowhere is not filled up by making what it names */
        return errno == ENOENT ? -ELOOP : -errno;
    return fd;
}

/* Makes a missing directory. Somebody else may make the name first: then it is checked like any other. */
static int make_dir(const struct walk *w, const char *name)
{
    bool made = mkdirat(w->dir_fd, name, S_IRWXU) == 0;
    if (!made && errno != EEXIST)
        return -errno;
    int fd = openat(w->dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (made && fchmod(fd, S_IRWXU) < 0) { /* whatever the umask left of it (U4) */
        int err = -errno;
        close(fd);
        return err;
    }
    return fd;
}

/* Opens name below the walk's directory, making it when it is missing. Parents may be links, the last may
 * not. 0, or -errno with *why. */
static int open_below(const struct walk *w, const char *name, size_t shown, bool last, int *ret_fd)
{
    int fd = openat(w->dir_fd, name, OPEN_DIR | O_NOFOLLOW);
    if (fd < 0)
        fd = -errno;
    if (fd == -ENOENT)
        fd = make_dir(w, name);
    bool link = !last && (fd == -ENOTDIR || fd == -ELOOP);
    if (link)
        fd = follow_link(w, name);
    if (fd == -ENOTDIR || fd == -ELOOP)
        return refuse(-EPERM, w->why, w->size, "%.*s is a link or no directory: it must be a real directory",
                      (int)shown, w->path);
    if (fd == -EPERM && link)
        return refuse(-EPERM, w->why, w->size, "%.*s is a link that another user made: refused", (int)shown,
                      w->path);
    if (fd < 0) {
        errno = -fd;
        return refuse(fd, w->why, w->size, "%.*s: cannot be opened or made: %m", (int)shown, w->path);
    }
    *ret_fd = fd;
    return 0;
}

/* What a directory on the way must be: not one in which anybody may swap what lies in it. */
static int check_parent(const struct walk *w, size_t shown)
{
    if ((w->dir.st_mode & S_IWOTH) && !(w->dir.st_mode & S_ISVTX))
        return refuse(
            -EPERM, w->why, w->size,
            "%.*s can be written by everybody and is not sticky (mode %04o): nothing private can lie "
            "below it",
            (int)shown, w->path, (unsigned)(w->dir.st_mode & 07777));
    return 0;
}

static int check_last(const struct walk *w)
{
    if (w->dir.st_uid != geteuid())
        return refuse(-EPERM, w->why, w->size, "%s belongs to uid %u: it must be owned by uid %u", w->path,
                      (unsigned)w->dir.st_uid, (unsigned)geteuid());
    if (w->dir.st_mode & (S_IWGRP | S_IWOTH))
        return refuse(-EPERM, w->why, w->size, "%s has mode %04o: group and others must not be able to write",
                      w->path, (unsigned)(w->dir.st_mode & 07777));
    return 0;
}

/* Goes one component down and looks at what was opened. */
static int step(struct walk *w, const char *name, size_t shown, bool last)
{
    int fd = -1;
    int err = open_below(w, name, shown, last, &fd);
    if (err)
        return err;
    close(w->dir_fd);
    w->dir_fd = fd;
    if (fstat(fd, &w->dir) < 0) {
        err = -errno;
        return refuse(err, w->why, w->size, "%.*s: %m", (int)shown, w->path);
    }
    return last ? check_last(w) : check_parent(w, shown);
}

int tg_private_dir(const char *path, char *why, size_t size)
{
    char copy[TG_PATH_BYTES];
    size_t length = strlen(path);
    while (length > 0 && path[length - 1] == '/')
        length--;
    if (path[0] != '/' || length == 0)
        return refuse(-EINVAL, why, size, "'%.200s' must be an absolute path below /", path);
    if (length >= sizeof copy)
        return too_long("directory", why, size);
    memcpy(copy, path, length);
    copy[length] = '\0';

    struct walk w = {
        .path = path, .dir_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), .why = why, .size = size};
    int err = 0;
    if (w.dir_fd < 0 || fstat(w.dir_fd, &w.dir) < 0)
        err = refuse(-errno, why, size, "/: %m");
    for (char *name = copy; !err && name;) {
        while (*name == '/')
            name++;
        char *end = strchr(name, '/');
        if (end)
            *end = '\0';
        err = step(&w, name, (size_t)(name - copy) + strlen(name), end == NULL);
        name = end ? end + 1 : NULL;
    }
    if (w.dir_fd >= 0)
        close(w.dir_fd);
    return err;
}
