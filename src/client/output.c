/* SPDX-License-Identifier: Apache-2.0
 * See output.h. */
#include "client/output.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static int make_path(struct tg_client *c, char *to, const char *name)
{
    int n = snprintf(to, TG_PATH_BYTES, "%s/output%s%s", c->paths.state_dir, *name ? "/" : "", name);
    if (n > 0 && n < (int)TG_PATH_BYTES)
        return 0;
    return tg_client_fail(c, -ENAMETOOLONG, "the path of the output is longer than %u bytes", TG_PATH_BYTES);
}

static int numbered_path(struct tg_client *c, char *to, uint64_t ticket)
{
    char name[24];
    snprintf(name, sizeof(name), "%" PRIu64, ticket);
    return make_path(c, to, name);
}

int tg_output_make(struct tg_client *c, char unnamed[TG_PATH_BYTES])
{
    char name[48];
    int err = make_path(c, unnamed, "");
    if (!err)
        err = tg_private_dir(unnamed, c->text, sizeof(c->text));
    snprintf(name, sizeof(name), ".new-%d", (int)getpid());
    if (!err)
        err = make_path(c, unnamed, name);
    if (err)
        return err;
    unlink(unnamed); /* of a process that had this number and was killed here */
    int fd = open(unnamed, O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return tg_client_fail(c, -errno, "cannot make the output %s: %s", unnamed, strerror(errno));
    fd = tg_fd_above_stdio(fd);
    if (fd < 0)
        return tg_client_fail(c, fd, "cannot make the output %s: %s", unnamed, strerror(-fd));
    if (fchmod(fd, 0600) || flock(fd, LOCK_EX | LOCK_NB)) {
        err = tg_client_fail(c, -errno, "cannot lock the output %s: %s", unnamed, strerror(errno));
        unlink(unnamed);
        close(fd);
        return err;
    }
    return fd;
}

int tg_output_name(struct tg_client *c, const char *unnamed, uint64_t ticket)
{
    char path[TG_PATH_BYTES];
    int err = numbered_path(c, path, ticket);
    if (!err && rename(unnamed, path))
        err = tg_client_fail(c, -errno, "cannot name the output %s: %s", path, strerror(errno));
    return err;
}

int tg_output_open(struct tg_client *c, uint64_t ticket)
{
    char path[TG_PATH_BYTES];
    int err = numbered_path(c, path, ticket);
    if (err)
        return err;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0)
        return fd;
    if (errno == ENOENT)
        return tg_client_fail(c, -ENOENT,
                              "no output of ticket %" PRIu64
                              " is kept: it was not run with --detach, or is too long ago",
                              ticket);
    return tg_client_fail(c, -errno, "cannot open %s: %s", path, strerror(errno));
}
