/* SPDX-License-Identifier: Apache-2.0
 * See kept.h. */
#include "machine/kept.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

static void close_files(struct tg_kept *kept)
{
    for (size_t i = 0; i < kept->n_files; i++)
        close(kept->file[i].fd);
    kept->n_files = 0;
}

void tg_kept_done(struct tg_kept *kept)
{
    if (!kept)
        return;
    close_files(kept);
    kept->n_groups = 0;
}

static uint64_t now_ms(void)
{
    return tg_clock_mono_ns() / 1000000;
}

/* Those that the kernel hands out whole in one read, whatever process looks. */
static bool may_be_kept(const char *path)
{
    static const char *const begins[] = {"/sys/fs/cgroup/", "/proc/pressure/"};
    static const char *const files[] = {"/proc/meminfo", "/proc/loadavg", "/proc/self/cgroup"};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        if (strcmp(path, files[i]) == 0)
            return true;
    }
    for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
        if (strncmp(path, begins[i], strlen(begins[i])) == 0)
            return true;
    }
    return false;
}

/* One read; it is known to be whole when there is room left behind it. */
static long read_at_once(int fd, char *buf, size_t size)
{
    ssize_t n;
    do
        n = pread(fd, buf, size - 1, 0);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    if ((size_t)n == size - 1)
        return -ENOTSUP;
    buf[n] = '\0';
    return (long)n;
}

static long open_and_read(struct tg_kept *kept, const char *path, char *buf, size_t size)
{
    size_t bytes = strlen(path) + 1;
    if (kept->n_files == TG_KEPT_FILES || bytes > TG_KEPT_PATH_BYTES || !may_be_kept(path))
        return -ENOTSUP;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return -errno;
    long n = read_at_once(fd, buf, size);
    if (n < 0) {
        close(fd);
        return n;
    }
    struct tg_kept_file *f = &kept->file[kept->n_files++];
    memcpy(f->path, path, bytes);
    f->fd = fd;
    return n;
}

long tg_kept_read(struct tg_kept *kept, const char *path, char *buf, size_t size)
{
    uint64_t now = now_ms();
    if (size < 2)
        return -ENOTSUP;
    if (now - kept->opened_ms >= TG_KEPT_OPEN_MS) {
        close_files(kept);
        kept->opened_ms = now;
    }
    for (size_t i = 0; i < kept->n_files; i++) {
        struct tg_kept_file *f = &kept->file[i];
        if (strcmp(f->path, path) != 0)
            continue;
        long n = read_at_once(f->fd, buf, size);
        if (n >= 0 || n == -ENOTSUP)
            return n;
        close(f->fd); /* the group it belonged to has gone */
        *f = kept->file[--kept->n_files];
        break;
    }
    return open_and_read(kept, path, buf, size);
}

bool tg_kept_group_get(struct tg_kept *kept, const char *controller, int *ret_err, struct tg_cgroup *ret)
{
    uint64_t now = now_ms();
    if (now - kept->placed_ms >= TG_KEPT_PLACE_MS) {
        kept->n_groups = 0;
        kept->placed_ms = now;
    }
    for (size_t i = 0; i < kept->n_groups; i++) {
        const struct tg_kept_group *g = &kept->group[i];
        if (strcmp(g->controller, controller) != 0)
            continue;
        *ret_err = g->err;
        if (g->err == 0)
            *ret = g->group;
        return true;
    }
    return false;
}

void tg_kept_group_put(struct tg_kept *kept, const char *controller, int err, const struct tg_cgroup *group)
{
    size_t bytes = strlen(controller) + 1;
    if (kept->n_groups == TG_KEPT_GROUPS || bytes > sizeof(kept->group[0].controller))
        return;
    struct tg_kept_group *g = &kept->group[kept->n_groups++];
    memcpy(g->controller, controller, bytes);
    g->err = err;
    if (err == 0)
        g->group = *group;
}
