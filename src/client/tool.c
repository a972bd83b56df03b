/* SPDX-License-Identifier: Apache-2.0
 * See tool.h. */
#include "client/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "machine/proc.h"

extern char **environ;

pid_t tg_tool_start(char *const argv[], int out_fd, int err_fd)
{
    posix_spawn_file_actions_t fa;
    pid_t pid;
    posix_spawn_file_actions_init(&fa);
    posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0);
    if (out_fd >= 0)
        posix_spawn_file_actions_adddup2(&fa, out_fd, 1);
    else
        posix_spawn_file_actions_addopen(&fa, 1, "/dev/null", O_WRONLY, 0);
    if (err_fd >= 0)
        posix_spawn_file_actions_adddup2(&fa, err_fd, 2);
    int err = posix_spawnp(&pid, argv[0], &fa, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&fa);
    return err ? -err : pid;
}

struct text {
    char *bytes;
    size_t used;
    size_t size;
};

/* Appends what can be read now; 1 at the end, 0 for more to come, -errno. */
static int take(int fd, struct text *t)
{
    if (t->size - t->used < 4096) {
        size_t size = t->size ? t->size * 2 : 16384;
        char *grown = realloc(t->bytes, size);
        if (!grown)
            return -ENOMEM;
        t->bytes = grown;
        t->size = size;
    }
    ssize_t r = read(fd, t->bytes + t->used, t->size - t->used - 1);
    if (r < 0)
        return errno == EINTR ? 0 : -errno;
    t->used += (size_t)r;
    t->bytes[t->used] = '\0';
    return r == 0;
}

static int collect(int fd, uint64_t deadline_ns, struct text *t)
{
    for (;;) {
        uint64_t now = tg_clock_mono_ns();
        if (now >= deadline_ns)
            return -ETIMEDOUT;
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int r = poll(&p, 1, (int)((deadline_ns - now) / 1000000) + 1);
        if (r < 0 && errno != EINTR)
            return -errno;
        if (r <= 0)
            continue;
        int end = take(fd, t);
        if (end)
            return end < 0 ? end : 0;
    }
}

int tg_tool_run(char *const argv[], int limit_ms, char **ret_out)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) < 0)
        return -errno;
    uint64_t deadline = tg_clock_mono_ns() + (uint64_t)limit_ms * 1000000;
    pid_t pid = tg_tool_start(argv, fds[1], -1);
    close(fds[1]);
    if (pid < 0) {
        close(fds[0]);
        return pid;
    }
    struct text t = {0};
    int err = collect(fds[0], deadline, &t);
    close(fds[0]);
    if (err)
        tg_child_signal(pid, SIGKILL);
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (err || !ret_out) {
        free(t.bytes);
        if (err)
            return err;
    } else {
        *ret_out = t.bytes;
    }
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int tg_tool_signal(pid_t child, int sig)
{
    return tg_child_signal(child, sig);
}
