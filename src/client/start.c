/* SPDX-License-Identifier: Apache-2.0
 *
 * Starting the broker; see start.h. Between fork and exec only async-signal-safe calls are made, so a
 * program with threads may call this too.
 */
#include "client/start.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef TG_LIBEXECDIR
#define TG_LIBEXECDIR "/usr/local/libexec/tidegate"
#endif

#define BROKER_NAME "tidegate-broker"
#define READY_FD 3 /* where the broker finds its end of the ready pipe */

/* Beside what lies in that folder, as in a build, or where it is installed below the same prefix. */
static bool is_near(const char *folder, int n, const char *name, char path[TG_PATH_BYTES])
{
    static const char *const near[] = {"", "/../libexec/tidegate"};
    for (size_t i = 0; i < sizeof(near) / sizeof(near[0]); i++) {
        int len = snprintf(path, TG_PATH_BYTES, "%.*s%s/%s", n, folder, near[i], name);
        if (len < (int)TG_PATH_BYTES && access(path, X_OK) == 0)
            return true;
    }
    return false;
}

/* With the command of PATH, below whatever prefix. Relative entries name a folder that somebody else may have
 * chosen, and are passed over. */
static bool find_by_command(const char *name, char path[TG_PATH_BYTES])
{
    const char *entry = getenv("PATH");
    while (entry && *entry) {
        int n = (int)strcspn(entry, ":");
        if (entry[0] == '/') {
            int len = snprintf(path, TG_PATH_BYTES, "%.*s/tidegate", n, entry);
            if (len < (int)TG_PATH_BYTES && access(path, X_OK) == 0 && is_near(entry, n, name, path))
                return true;
        }
        entry += n;
        entry += *entry == ':';
    }
    return false;
}

int tg_find_own_program(const char *name, char path[TG_PATH_BYTES])
{
    char self[TG_PATH_BYTES];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (n > 0) {
        self[n] = '\0';
        if (is_near(self, (int)(strrchr(self, '/') - self), name, path))
            return 0;
    }
    if (find_by_command(name, path))
        return 0;
    snprintf(path, TG_PATH_BYTES, "%s/%s", TG_LIBEXECDIR, name);
    return access(path, X_OK) == 0 ? 0 : -ENOENT;
}

/* The broker's executable: named by TIDEGATE_BROKER, else beside this program, else with the command
 * of PATH, else where it is installed. */
static int find_broker(struct tg_client *c, char path[TG_PATH_BYTES])
{
    const char *named = getenv("TIDEGATE_BROKER");
    if (named && named[0] != '\0') {
        if (named[0] != '/' || strlen(named) >= TG_PATH_BYTES)
            return tg_client_fail(c, -ECONNREFUSED, "TIDEGATE_BROKER must be an absolute path: %s", named);
        memcpy(path, named, strlen(named) + 1);
        return 0;
    }
    if (tg_find_own_program(BROKER_NAME, path) == 0)
        return 0;
    return tg_client_fail(c, -ECONNREFUSED,
                          "no broker runs, and " BROKER_NAME
                          " is neither beside this program, nor with the tidegate of PATH, nor in %s",
                          TG_LIBEXECDIR);
}

static void say(int fd, const char *text)
{
    if (write(fd, text, strlen(text)) < 0)
        return; /* the client sees the end of the pipe instead */
}

/* The grandchild: becomes the broker, or says why not. */
static void become_broker(const char *path, char *const argv[], int ready)
{
    setpriority(PRIO_PROCESS, 0, 0); /* it serves everybody; where that is not allowed, it serves slowly */
    int null = open("/dev/null", O_RDWR);
    if (chdir("/") || null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0) {
        say(ready, "error cannot open / or /dev/null\n");
        _exit(127);
    }
    if (ready == READY_FD)
        fcntl(ready, F_SETFD, 0);
    else
        dup2(ready, READY_FD);
    close_range(READY_FD + 1, ~0u, 0);
    char *const empty[] = {NULL};
    execve(path, argv, empty);
    say(READY_FD, "error cannot execute ");
    say(READY_FD, path);
    say(READY_FD, errno == ENOENT ? ": it is not there\n" : ": it is not executable\n");
    _exit(127);
}

/* Forks twice, so that nobody has to wait for the broker and it can never get a terminal. */
static int fork_twice(const char *path, char *const argv[], int ready)
{
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid_t child = fork();
    if (child == 0) {
        setsid();
        pid_t grandchild = fork();
        if (grandchild == 0)
            become_broker(path, argv, ready);
        if (grandchild < 0)
            say(ready, "error cannot fork\n");
        _exit(0);
    }
    int err = child < 0 ? -errno : 0;
    sigprocmask(SIG_SETMASK, &before, NULL);
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
    return err;
}

/* Reads the first line of the ready pipe. 0 and the line without its newline; -ETIMEDOUT; -EPIPE when the
 * pipe ended without one. */
static int read_line(int fd, char *line, size_t size)
{
    uint64_t deadline = tg_deadline_ns(TG_CLIENT_START_MS);
    size_t used = 0;
    while (used < size - 1) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int n = poll(&p, 1, tg_deadline_poll_ms(deadline));
        if (n == 0 && tg_deadline_poll_ms(deadline) == 0)
            return -ETIMEDOUT;
        if (n <= 0)
            continue;
        ssize_t got = read(fd, line + used, size - 1 - used);
        if (got < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (got <= 0)
            return -EPIPE;
        char *end = memchr(line + used, '\n', (size_t)got);
        used += (size_t)got;
        if (end) {
            *end = '\0';
            return 0;
        }
    }
    return -EPIPE;
}

/* What the broker said: "ready", "locked SOCKET" or "error TEXT". */
static int understand(struct tg_client *c, const char *path, const char *line)
{
    static const char locked[] = "locked ", error[] = "error ";
    if (strcmp(line, "ready") == 0)
        return 0;
    if (strncmp(line, locked, sizeof(locked) - 1) == 0) {
        const char *where = line + sizeof(locked) - 1;
        if (where[0] != '/' || strlen(where) >= sizeof(c->socket))
            return tg_client_fail(c, -EPROTO, "%s names no socket: %s", path, line);
        memcpy(c->socket, where, strlen(where) + 1);
        return 0;
    }
    if (strncmp(line, error, sizeof(error) - 1) == 0)
        return tg_client_fail(c, -ECONNREFUSED, "the broker did not start: %s", line + sizeof(error) - 1);
    return tg_client_fail(c, -EPROTO, "%s did not say that it is ready: %s", path, line);
}

static int await_ready(struct tg_client *c, const char *path, int fd)
{
    char line[TG_PATH_BYTES + 512];
    int err = read_line(fd, line, sizeof(line));
    if (err == -ETIMEDOUT)
        return tg_client_fail(c, err, "the broker %s is not ready after %u s", path,
                              TG_CLIENT_START_MS / 1000);
    if (err)
        return tg_client_fail(c, -ECONNRESET, "the broker %s ended before it was ready", path);
    return understand(c, path, line);
}

static int open_ready_pipe(struct tg_client *c, int ends[2])
{
    if (pipe2(ends, O_CLOEXEC))
        return tg_client_fail(c, -errno, "cannot make a pipe: %s", strerror(errno));
    ends[0] = tg_fd_above_stdio(ends[0]);
    ends[1] = tg_fd_above_stdio(ends[1]);
    if (ends[0] >= 0 && ends[1] >= 0)
        return 0;
    if (ends[0] >= 0)
        close(ends[0]);
    if (ends[1] >= 0)
        close(ends[1]);
    return tg_client_fail(c, -EMFILE, "cannot make a pipe: too many open files");
}

int tg_start_broker(struct tg_client *c)
{
    char path[TG_PATH_BYTES];
    int ends[2];
    int err = find_broker(c, path);
    if (err)
        return err;
    err = tg_private_dir(c->paths.runtime_dir, c->text, sizeof(c->text));
    if (!err)
        err = tg_private_dir(c->paths.state_dir, c->text, sizeof(c->text));
    if (err)
        return err;
    err = open_ready_pipe(c, ends);
    if (err)
        return err;
    char ready_fd[4];
    snprintf(ready_fd, sizeof(ready_fd), "%d", READY_FD);
    char *argv[] = {(char *)BROKER_NAME,
                    (char *)"--runtime-dir",
                    c->paths.runtime_dir,
                    (char *)"--state-dir",
                    c->paths.state_dir,
                    (char *)"--ready-fd",
                    ready_fd,
                    NULL};
    err = fork_twice(path, argv, ends[1]);
    close(ends[1]);
    err = err ? tg_client_fail(c, err, "cannot fork: %s", strerror(-err)) : await_ready(c, path, ends[0]);
    close(ends[0]);
    return err;
}
