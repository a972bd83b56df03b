/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding the broker. A socket that nobody listens on means that there is none: one is started. What
 * answers must run as this user or root, whoever made the directory.
 */
#include "client/client.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "client/start.h"
#include "machine/root.h"

#define LINE_MIN_MS 1000 /* however little time is left: to ask at all takes that */
#define KILLED_MAX 3     /* brokers in a row that ended before they said a word */
#define LOOK_MAX_MS 256  /* between two looks at a socket that somebody else is about to open */

int tg_client_fail(struct tg_client *c, int err, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    vsnprintf(c->text, sizeof(c->text), format, ap);
    va_end(ap);
    return err;
}

void tg_client_name_process(int pid, char *ret, size_t size)
{
    static const struct tg_root machine = {.prefix = ""};
    char path[40];
    snprintf(path, sizeof(path), "/proc/%d/comm", pid);
    long n = tg_root_read(&machine, path, ret, size);
    ret[n > 0 ? strcspn(ret, "\n") : 0] = '\0';
}

uint64_t tg_deadline_ns(uint64_t ms)
{
    if (ms > UINT64_MAX / 2000000)
        return TG_NO_DEADLINE;
    return tg_clock_mono_ns() + ms * 1000000;
}

int tg_deadline_poll_ms(uint64_t deadline_ns)
{
    if (deadline_ns == TG_NO_DEADLINE)
        return -1;
    uint64_t now = tg_clock_mono_ns();
    if (now >= deadline_ns)
        return 0;
    uint64_t ms = (deadline_ns - now + 999999) / 1000000;
    return ms > INT_MAX ? INT_MAX : (int)ms;
}

int tg_fd_above_stdio(int fd)
{
    if (fd > STDERR_FILENO)
        return fd;
    int high = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    int err = -errno;
    close(fd);
    return high < 0 ? err : high;
}

int tg_client_broker_pid(const struct tg_client *c)
{
    struct ucred peer = {0};
    socklen_t len = sizeof(peer);
    return c->fd >= 0 && getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 ? peer.pid : 0;
}

int tg_client_init(struct tg_client *c, bool may_start)
{
    c->text[0] = c->socket[0] = '\0';
    c->in = (struct tg_frames){.max_bytes = TG_REPLY_MAX_BYTES};
    c->fd = -1;
    c->may_start = may_start;
    c->connect_by_ns = TG_NO_DEADLINE;
    int err = tg_paths_resolve(&c->paths, c->text, sizeof(c->text));
    if (err)
        return err;
    memcpy(c->socket, c->paths.socket, strlen(c->paths.socket) + 1);
    return 0;
}

void tg_client_disconnect(struct tg_client *c)
{
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
    c->in.used = 0;
}

void tg_client_done(struct tg_client *c)
{
    if (!c)
        return;
    tg_client_disconnect(c);
    tg_frames_done(&c->in);
}

/* A full backlog: wait in the kernel, bounded, until there is room. */
static int connect_in_line(const struct tg_client *c, int fd, const struct sockaddr_un *addr, socklen_t len)
{
    int ms = tg_deadline_poll_ms(c->connect_by_ns);
    if (ms < 0 || ms > (int)TG_CLIENT_START_MS)
        ms = TG_CLIENT_START_MS;
    if (ms < LINE_MIN_MS)
        ms = LINE_MIN_MS;
    struct timeval limit = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) ||
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)))
        return -errno;
    if (connect(fd, (const struct sockaddr *)addr, len))
        return errno == EAGAIN ? -ETIMEDOUT : -errno;
    return fcntl(fd, F_SETFL, flags) ? -errno : 0;
}

/* Whoever listens there must be this user or root. */
static int check_peer(struct tg_client *c, int fd)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len))
        return tg_client_fail(c, -errno, "cannot tell who listens on %s: %s", c->socket, strerror(errno));
    if (peer.uid != 0 && peer.uid != geteuid())
        return tg_client_fail(c, -EPERM, "the broker on %s runs as user %u, neither this user nor root",
                              c->socket, (unsigned)peer.uid);
    return 0;
}

/* One attempt. -ENOENT or -ECONNREFUSED: nobody listens there. */
static int connect_once(struct tg_client *c)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    size_t n = strlen(c->socket);
    if (n >= sizeof(addr.sun_path))
        return tg_client_fail(c, -ENAMETOOLONG, "the socket's path is longer than %zu bytes: %s",
                              sizeof(addr.sun_path) - 1, c->socket);
    memcpy(addr.sun_path, c->socket, n + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return tg_client_fail(c, -errno, "cannot make a socket: %s", strerror(errno));
    fd = tg_fd_above_stdio(fd);
    if (fd < 0)
        return tg_client_fail(c, fd, "cannot make a socket: %s", strerror(-fd));
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + 1);
    int err = connect(fd, (const struct sockaddr *)&addr, len) ? -errno : 0;
    if (err == -EAGAIN)
        err = connect_in_line(c, fd, &addr, len);
    if (err)
        tg_client_fail(c, err, "cannot connect to %s: %s", c->socket, strerror(-err));
    else
        err = check_peer(c, fd);
    if (err) {
        close(fd);
        return err;
    }
    c->fd = fd;
    c->in.used = 0;
    return 0;
}

static bool nobody_there(int err)
{
    return err == -ENOENT || err == -ECONNREFUSED;
}

/* After a start: the broker named may still be on its way to its socket (another client started it, or it
 * is about to end, or to bind it again). No event tells, so look again at growing intervals, half a second in
 * all. */
static int connect_soon(struct tg_client *c)
{
    int err = connect_once(c);
    for (int ms = 1; nobody_there(err) && ms <= LOOK_MAX_MS; ms *= 2) {
        poll(NULL, 0, ms);
        err = connect_once(c);
    }
    return err;
}

/* Of many who find nobody (ten thousand waiters whose broker was killed), one at a time starts a broker; the
 * others look for it meanwhile. 0: connected. Nobody there: it is our turn, until *ret_turn is closed; also
 * when the turn does not come in time, or where there is no lock to be had: then *ret_turn is -1. */
static int await_turn(struct tg_client *c, int *ret_turn)
{
    char path[TG_PATH_BYTES + 16];
    uint64_t deadline = tg_deadline_ns(TG_CLIENT_START_MS);
    *ret_turn = -1;
    int err = tg_private_dir(c->paths.runtime_dir, c->text, sizeof(c->text));
    if (err)
        return err;
    snprintf(path, sizeof(path), "%s/start.lock", c->paths.runtime_dir);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0)
        fd = tg_fd_above_stdio(fd);
    for (int ms = 1; fd >= 0; ms = ms < LOOK_MAX_MS ? ms * 2 : ms) {
        bool mine = flock(fd, LOCK_EX | LOCK_NB) == 0;
        err = connect_once(c);
        if (nobody_there(err) && mine) {
            *ret_turn = fd;
            return err;
        }
        if (!nobody_there(err) || tg_deadline_poll_ms(deadline) == 0) {
            close(fd);
            return err;
        }
        poll(NULL, 0, ms);
    }
    return -ECONNREFUSED;
}

/* Starts brokers until one answers, for some seconds: each may find that another one has the store, and that
 * one may be ending. One that was killed before it could say a word is followed by another. */
static int start_and_connect(struct tg_client *c)
{
    uint64_t deadline = tg_deadline_ns(TG_CLIENT_START_MS / 2);
    int killed = 0;
    int err;
    do {
        memcpy(c->socket, c->paths.socket, strlen(c->paths.socket) + 1);
        err = tg_start_broker(c);
        if (err == -ECONNREFUSED)
            return err;
        killed += err == -ECONNRESET;
        if (!err)
            err = connect_soon(c);
    } while ((nobody_there(err) || (err == -ECONNRESET && killed < KILLED_MAX)) &&
             tg_deadline_poll_ms(deadline) > 0);
    return nobody_there(err) || err == -ECONNRESET ? -ECONNREFUSED : err;
}

int tg_client_connect(struct tg_client *c)
{
    int turn = -1;
    if (c->fd >= 0)
        return 0;
    int err = connect_once(c);
    if (nobody_there(err) && !c->may_start)
        return tg_client_fail(c, -ECONNREFUSED, "no broker listens on %s", c->socket);
    if (nobody_there(err))
        err = await_turn(c, &turn);
    if (nobody_there(err))
        err = start_and_connect(c);
    if (turn >= 0)
        close(turn);
    return err;
}
