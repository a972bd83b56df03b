/* SPDX-License-Identifier: Apache-2.0
 *
 * Stopping the broker: its word that it will, and then the end of its process, which is an event of a pidfd.
 */
#include "client/client.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "machine/proc.h"

/* A descriptor that is readable when the process at the other end has ended; -errno when there is none to be
 * had (it has just ended, or lives in another pid namespace). */
static int peer_pidfd(const struct tg_client *c)
{
    static const struct tg_root machine = {.prefix = ""};
    struct ucred peer;
    struct tg_owner owner;
    socklen_t len = sizeof(peer);
    int fd;
    if (getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &peer, &len))
        return -errno;
    int err = tg_owner_of(&machine, peer.pid, &owner);
    if (!err)
        err = tg_owner_pidfd(&machine, &owner, &fd);
    return err ? err : fd;
}

static int await_end(struct tg_client *c, int pidfd)
{
    uint64_t deadline = tg_deadline_ns(TG_CLIENT_START_MS);
    struct pollfd p = {.fd = pidfd >= 0 ? pidfd : c->fd, .events = POLLIN};
    int n;
    do
        n = poll(&p, 1, tg_deadline_poll_ms(deadline));
    while ((n < 0 && errno == EINTR) || (n == 0 && tg_deadline_poll_ms(deadline) > 0));
    if (n > 0)
        return 0;
    return tg_client_fail(c, -ETIMEDOUT, "the broker on %s agreed to stop, but has not ended", c->socket);
}

int tg_client_stop_broker(struct tg_client *c, bool force)
{
    json_t *reply;
    bool may_start = c->may_start;
    c->may_start = false;
    int err = tg_client_connect(c);
    c->may_start = may_start;
    if (err)
        return err;
    int pidfd = peer_pidfd(c);
    json_t *request = json_pack("{s:s,s:b}", "op", "stop", "force", force);
    err = request ? tg_client_send(c, request) : tg_client_fail(c, -ENOMEM, "no memory");
    json_decref(request);
    if (!err)
        err = tg_client_recv(c, tg_deadline_ns(TG_CLIENT_REPLY_MS), &reply);
    if (!err) {
        json_decref(reply);
        err = await_end(c, pidfd);
    }
    if (pidfd >= 0)
        close(pidfd);
    tg_client_disconnect(c);
    return err;
}
