/* SPDX-License-Identifier: Apache-2.0
 * See log.h. One process, one thread: the file is a static of this room. */
#include "broker/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static int log_fd = STDERR_FILENO;
static off_t log_bytes;
static char log_path[4096];

int tg_log_open(const char *path)
{
    /* A pipe in its place is an error, and no reason to wait for a reader that never comes. */
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0)
        return -errno;
    if (log_fd != STDERR_FILENO)
        close(log_fd);
    log_fd = fd;
    log_bytes = lseek(fd, 0, SEEK_END);
    snprintf(log_path, sizeof(log_path), "%s", path);
    return 0;
}

static void roll(void)
{
    char old[sizeof(log_path) + 8];
    char path[sizeof(log_path)];
    snprintf(old, sizeof(old), "%s.old", log_path);
    snprintf(path, sizeof(path), "%s", log_path);
    if (rename(path, old) == 0)
        tg_log_open(path);
}

void tg_log(const char *format, ...)
{
    char line[1024];
    struct tm tm = {0};
    time_t now = time(NULL);
    gmtime_r(&now, &tm);
    size_t n = strftime(line, sizeof(line), "%Y-%m-%dT%H:%M:%SZ tidegate-broker: ", &tm);
    va_list ap;
    va_start(ap, format);
    int m = vsnprintf(line + n, sizeof(line) - n - 1, format, ap);
    va_end(ap);
    if (m > 0)
        n += (size_t)m < sizeof(line) - n - 1 ? (size_t)m : sizeof(line) - n - 2;
    line[n++] = '\n';
    if (log_fd != STDERR_FILENO && log_bytes >= TG_LOG_BYTES)
        roll();
    ssize_t written = write(log_fd, line, n); /* a log that cannot be written stops nobody */
    if (written > 0)
        log_bytes += written;
}
