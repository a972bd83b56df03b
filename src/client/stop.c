/* SPDX-License-Identifier: Apache-2.0
 *
 * Stopping the broker: its word that it will, and then the end of its process, which is an event of a pidfd.
 * One that does not answer (it is stopped, or hangs) can be killed: it is crash-only, nothing is lost (A8).
 */
#include "client/client.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "machine/proc.h"

/* How long one that is to be ended by force may take to answer, and to end. */
#define FORCE_MS 5000u

static const struct tg_root machine = {.prefix = ""};

/* The broker's process as the other end of the connection. */
struct other_end {
    struct tg_owner
        owner; /* pid 0: it cannot be told (it has just ended, or lives in another pid namespace) */
    int pidfd; /* readable when it has ended; -1 likewise */
};

static void look_at_peer(const struct tg_client *c, struct other_end *ret)
{
    *ret = (struct other_end){.pidfd = -1};
    if (tg_owner_of(&machine, tg_client_broker_pid(c), &ret->owner) != 0 ||
        tg_owner_pidfd(&machine, &ret->owner, &ret->pidfd) != 0)
        *ret = (struct other_end){.pidfd = -1};
}

static int await_end(struct tg_client *c, const struct other_end *broker, uint64_t ms)
{
    uint64_t deadline = tg_deadline_ns(ms);
    struct pollfd p = {.fd = broker->pidfd >= 0 ? broker->pidfd : c->fd, .events = POLLIN};
    int n;
    do
        n = poll(&p, 1, tg_deadline_poll_ms(deadline));
    while ((n < 0 && errno == EINTR) || (n == 0 && tg_deadline_poll_ms(deadline) > 0));
    if (n > 0)
        return 0;
    return tg_client_fail(c, -ETIMEDOUT, "the broker on %s (process %d) has not ended", c->socket,
                          (int)broker->owner.pid);
}

/* Only the very process that listens there, and only when it is a broker. */
static int kill_broker(struct tg_client *c, const struct other_end *broker)
{
    char name[32];
    tg_client_name_process(broker->owner.pid, name, sizeof(name));
    if (broker->owner.pid <= 1 || strcmp(name, "tidegate-broker") != 0)
        return tg_client_fail(c, -ETIMEDOUT,
                              "the broker on %s does not answer, and which process it is cannot be told",
                              c->socket);
    int err = tg_owner_signal(&machine, &broker->owner, SIGKILL, false);
    if (err && err != -ESRCH)
        return tg_client_fail(c, err, "the broker (process %d) does not answer and cannot be killed: %s",
                              (int)broker->owner.pid, strerror(-err));
    return await_end(c, broker, FORCE_MS);
}

static int ask_to_stop(struct tg_client *c, bool force, const struct other_end *broker)
{
    json_t *reply;
    json_t *request = json_pack("{s:s,s:b}", "op", "stop", "force", force);
    int err = request ? tg_client_send(c, request) : tg_client_fail(c, -ENOMEM, "no memory");
    json_decref(request);
    if (!err)
        err = tg_client_recv(c, tg_deadline_ns(force ? FORCE_MS : TG_CLIENT_START_MS), &reply);
    if (err)
        return err;
    json_decref(reply);
    return await_end(c, broker, force ? FORCE_MS : TG_CLIENT_START_MS);
}

int tg_client_stop_broker(struct tg_client *c, bool force, int *ret_killed)
{
    struct other_end broker;
    bool may_start = c->may_start;
    c->may_start = false;
    int err = tg_client_connect(c);
    c->may_start = may_start;
    if (err)
        return err;
    int killed = 0;
    look_at_peer(c, &broker);
    err = ask_to_stop(c, force, &broker);
    if (err == -ETIMEDOUT && force) {
        err = kill_broker(c, &broker);
        killed = err ? 0 : (int)broker.owner.pid;
    } else if (err == -ETIMEDOUT) {
        tg_client_fail(c, err, "the broker on %s (process %d) does not answer: stop --force kills it",
                       c->socket, (int)broker.owner.pid);
    }
    if (broker.pidfd >= 0)
        close(broker.pidfd);
    tg_client_disconnect(c);
    if (!err)
        *ret_killed = killed;
    return err;
}
