/* SPDX-License-Identifier: Apache-2.0
 * See socket.h. It keeps U5 (the file is nobody else's, not for a moment) and does not read connections. */
#include "broker/socket.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "broker/lock.h"
#include "broker/log.h"
#include "proto/paths.h"

#define LISTEN_BACKLOG 1024
#define SETTLE_MS 100u /* whoever removes a directory is not met half way */
#define AGAIN_MS 1000u

/* ---- binding */

/* Whether some broker answers at our address although the lock is ours: another store's. */
static bool answers(const struct sockaddr_un *addr)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return false;
    bool yes = connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) == 0 || errno == EAGAIN;
    close(fd);
    return yes;
}

/* Bound under a umask, not changed afterwards: the file never is anybody else's, not for a moment (U5). */
static int bind_socket(struct tg_broker *b, int *ret_fd)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    struct stat st;
    memcpy(addr.sun_path, b->socket_path, strlen(b->socket_path) + 1);
    if (answers(&addr))
        return -EALREADY;
    if (lstat(b->socket_path, &st) == 0 && !S_ISSOCK(st.st_mode))
        return -EEXIST;
    if (unlink(b->socket_path) != 0 && errno != ENOENT)
        return -errno;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    mode_t old = umask(0177);
    int rc = bind(fd, (const struct sockaddr *)&addr, sizeof(addr));
    int err = rc == 0 && lstat(b->socket_path, &st) == 0 ? 0 : -errno;
    umask(old);
    if (err) {
        close(fd);
        return err;
    }
    b->socket_dev = st.st_dev;
    b->socket_ino = st.st_ino;
    b->socket_bound = true;
    *ret_fd = fd;
    return 0;
}

static void on_connection(uv_stream_t *listener, int status)
{
    if (status == 0)
        tg_peer_accept(listener->data);
}

/* ---- watching */

static bool is_ours(const struct tg_broker *b)
{
    struct stat st;
    return b->socket_bound && lstat(b->socket_path, &st) == 0 && st.st_dev == b->socket_dev &&
           st.st_ino == b->socket_ino;
}

static void directory_of(const char *path, char *ret, size_t size)
{
    const char *slash = strrchr(path, '/');
    snprintf(ret, size, "%.*s", slash ? (int)(slash - path) : 0, path);
}

static void bind_again(uv_handle_t *closed);

static void on_again(uv_timer_t *timer)
{
    struct tg_broker *b = timer->data;
    char state[TG_PATH_BYTES];
    char lock[TG_PATH_BYTES + 16];
    if (b->stopping || is_ours(b) || uv_is_closing((uv_handle_t *)&b->listener))
        return;
    directory_of(tg_store_path(b->store), state, sizeof(state));
    snprintf(lock, sizeof(lock), "%s/broker.lock", state);
    if (!tg_lock_is_named(b->lock_fd, lock)) {
        tg_log("%s has gone, and %s with it: nobody can come here any more", b->socket_path, state);
        tg_broker_stop(b);
        return;
    }
    b->socket_bound = false;
    uv_close((uv_handle_t *)&b->listener, bind_again);
}

static void on_event(uv_fs_event_t *watch, const char *name, int events, int status)
{
    struct tg_broker *b = watch->data;
    (void)name;
    (void)events;
    if (status == 0 && !b->stopping && !is_ours(b) && !uv_is_active((uv_handle_t *)&b->socket_timer))
        uv_timer_start(&b->socket_timer, on_again, SETTLE_MS, 0);
}

static void bind_again(uv_handle_t *closed)
{
    struct tg_broker *b = closed->data;
    char dir[TG_PATH_BYTES];
    char why[512] = "";
    if (b->stopping)
        return;
    uv_pipe_init(&b->loop, &b->listener, 0);
    b->listener.data = b;
    directory_of(b->socket_path, dir, sizeof(dir));
    int err = tg_private_dir(dir, why, sizeof(why));
    if (!err)
        err = tg_socket_open(b);
    if (!err) {
        tg_log("%s had gone: bound again", b->socket_path);
        b->socket_complained = false;
        return;
    }
    if (!b->socket_complained)
        tg_log("%s has gone and cannot be bound again: %s", b->socket_path, why[0] ? why : strerror(-err));
    b->socket_complained = true;
    uv_timer_start(&b->socket_timer, on_again, AGAIN_MS, 0);
}

/* ---- for others */

void tg_socket_init(struct tg_broker *b)
{
    uv_pipe_init(&b->loop, &b->listener, 0);
    uv_fs_event_init(&b->loop, &b->socket_watch);
    uv_timer_init(&b->loop, &b->socket_timer);
    b->listener.data = b->socket_watch.data = b->socket_timer.data = b;
}

int tg_socket_open(struct tg_broker *b)
{
    char dir[TG_PATH_BYTES];
    int fd = -1;
    int err = bind_socket(b, &fd);
    if (err)
        return err;
    err = uv_pipe_open(&b->listener, fd);
    if (err) {
        close(fd);
        return err;
    }
    err = uv_listen((uv_stream_t *)&b->listener, LISTEN_BACKLOG, on_connection);
    if (err)
        return err;
    directory_of(b->socket_path, dir, sizeof(dir));
    uv_fs_event_stop(&b->socket_watch);
    int rc = uv_fs_event_start(&b->socket_watch, on_event, dir, 0);
    if (rc) /* it serves all the same; a socket that is removed is missing until the next broker */
        tg_log("%s cannot be watched: %s", dir, strerror(-rc));
    return 0;
}

void tg_socket_remove(struct tg_broker *b)
{
    if (is_ours(b))
        unlink(b->socket_path);
    b->socket_bound = false;
}
