/* SPDX-License-Identifier: Apache-2.0
 *
 * Preloaded into a broker or a client (tests/cli/test_clock_steps.sh): the wall clock as the process sees it
 * is off by as many seconds as the file TG_TEST_CLOCK_FILE says at that moment. The clocks that nobody can
 * set are left alone, as the kernel leaves them alone when somebody sets the time. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static char path[4096];

/* Before main: a broker forgets its environment. */
__attribute__((constructor)) static void remember(void)
{
    const char *named = getenv("TG_TEST_CLOCK_FILE");
    snprintf(path, sizeof(path), "%s", named ? named : "");
}

static time_t offset_s(void)
{
    char text[32];
    int saved = errno;
    int fd = path[0] ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;
    if (fd >= 0)
        close(fd);
    errno = saved;
    if (n <= 0)
        return 0;
    text[n] = '\0';
    return (time_t)strtoll(text, NULL, 10);
}

int clock_gettime(clockid_t id, struct timespec *ts)
{
    if (syscall(SYS_clock_gettime, id, ts) != 0)
        return -1;
    if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)
        ts->tv_sec += offset_s();
    return 0;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
    struct timespec ts;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &ts) != 0)
        return -1;
    *tv = (struct timeval){ts.tv_sec, ts.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *ret)
{
    struct timespec ts;
    if (clock_gettime(CLOCK_REALTIME, &ts) != 0)
        return -1;
    if (ret)
        *ret = ts.tv_sec;
    return ts.tv_sec;
}
