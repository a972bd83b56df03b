/* SPDX-License-Identifier: Apache-2.0
 *
 * Connections: who may connect, frames in, replies out. Every resource a client controls is bounded: messages
 * handled in one go, bytes half received and not taken, of one peer and of all together, and the time it
 * may stay in the middle of either (L4, U11). What the messages mean is not known here.
 */
#include "broker/broker.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fault.h"
#include "broker/log.h"
#include "broker/waits.h"
#include "proto/fields.h"

#define MESSAGES_AT_ONCE 16u
#define WORK_MAX_NS UINT64_C(2000000) /* of one peer in one go */
#define OUT_PAUSE_BYTES (256u << 10)  /* a peer that has not taken so much is not read from */
#define OUT_ALL_BYTES (256u << 20)
#define IN_ALL_BYTES (64u << 20)
#define IN_BLOCKED_BYTES (64u << 10) /* that a peer may send while its admit awaits the decision */
#define STUCK_MS 30000u
#define SWEEP_MS 5000u

struct write_req {
    uv_write_t req;
    uint8_t *bytes;
    size_t len;
};

static void mind_reading(struct tg_peer *peer);

static void start_sweep(struct tg_broker *b)
{
    if (!uv_is_active((uv_handle_t *)&b->sweep_timer))
        tg_broker_arm(b, &b->sweep_timer, SWEEP_MS);
}

/* ---- the end of a connection */

static void on_closed(uv_handle_t *handle)
{
    struct tg_peer *peer = handle->data;
    struct tg_broker *b = peer->broker;
    b->n_peers--;
    free(peer);
    tg_broker_mind_idle(b);
}

static void unqueue(struct tg_peer *peer)
{
    if (peer->queued)
        TAILQ_REMOVE(&peer->broker->more, peer, queue_link);
    peer->queued = false;
}

static void enqueue(struct tg_peer *peer)
{
    struct tg_broker *b = peer->broker;
    if (!peer->queued && !peer->closing)
        TAILQ_INSERT_TAIL(&b->more, peer, queue_link);
    peer->queued = !peer->closing;
}

/* Nothing more comes from this client: its tickets are told. */
static void let_go(struct tg_peer *peer)
{
    tg_cancel_peer_gone(peer);
    while (peer->tickets) {
        struct tg_ticket *t = peer->tickets;
        tg_peer_detach(t);
        tg_life_client_gone(peer->broker, t);
    }
    tg_waits_drop(peer);
}

static void drop_input(struct tg_peer *peer)
{
    peer->broker->in_bytes -= peer->in.size;
    tg_frames_done(&peer->in);
}

void tg_peer_close(struct tg_peer *peer)
{
    if (peer->closing)
        return;
    unqueue(peer);
    peer->closing = true;
    TAILQ_REMOVE(&peer->broker->peers, peer, link);
    drop_input(peer);
    uv_close((uv_handle_t *)&peer->pipe, on_closed);
    let_go(peer);
}

static void close_when_drained(struct tg_peer *peer)
{
    if (peer->closing)
        return;
    if (peer->out_bytes == 0) {
        tg_peer_close(peer);
        return;
    }
    peer->closes_when_drained = true;
    unqueue(peer);
    drop_input(peer);
    mind_reading(peer);
    let_go(peer);
}

/* ---- replies */

static void on_written(uv_write_t *req, int status)
{
    struct write_req *w = (struct write_req *)req;
    struct tg_peer *peer = req->handle->data;
    peer->out_bytes -= w->len;
    peer->broker->out_bytes -= w->len;
    peer->moved_ms = tg_broker_now_ms(peer->broker);
    free(w->bytes);
    free(w);
    if (peer->closing)
        return;
    if (status < 0 || (peer->closes_when_drained && peer->out_bytes == 0)) {
        tg_peer_close(peer);
        return;
    }
    if (peer->in.used > 0 && !peer->blocked)
        enqueue(peer);
    mind_reading(peer);
}

static int send_bytes(struct tg_peer *peer, uint8_t *bytes, size_t len)
{
    struct tg_broker *b = peer->broker;
    uv_buf_t buf = uv_buf_init((char *)bytes, (unsigned)len);
    if (peer->out_bytes == 0) {
        int n = uv_try_write((uv_stream_t *)&peer->pipe, &buf, 1);
        if (n < 0 && n != UV_EAGAIN)
            return n;
        if (n == (int)len) {
            free(bytes);
            return 0;
        }
        if (n > 0) {
            buf.base += n;
            buf.len -= (size_t)n;
        }
    }
    if (b->out_bytes + buf.len > OUT_ALL_BYTES)
        return -ENOBUFS;
    struct write_req *w = calloc(1, sizeof(*w));
    if (!w)
        return -ENOMEM;
    w->bytes = bytes;
    w->len = buf.len;
    int err = uv_write(&w->req, (uv_stream_t *)&peer->pipe, &buf, 1, on_written);
    if (err) {
        free(w);
        return err;
    }
    peer->out_bytes += w->len;
    b->out_bytes += w->len;
    peer->moved_ms = tg_broker_now_ms(b);
    start_sweep(b);
    return 0;
}

/* Answers keep their order, so a connection that lost one is of no use. Closed by the loop, not here: the
 * caller may be in the middle of this peer's tickets. */
static void give_up(struct tg_peer *peer)
{
    peer->closes_when_drained = true;
    uv_read_stop((uv_stream_t *)&peer->pipe);
    peer->reading = false;
    enqueue(peer);
}

void tg_peer_send_frame(struct tg_peer *peer, uint8_t *bytes, size_t len)
{
    if (peer->closing || peer->closes_when_drained) {
        free(bytes);
    } else if (send_bytes(peer, bytes, len) != 0) {
        free(bytes);
        give_up(peer);
    }
}

void tg_peer_reply(struct tg_peer *peer, json_t *reply)
{
    uint8_t *bytes = NULL;
    size_t len = 0;
    if (peer && !peer->closing && !peer->closes_when_drained) {
        tg_fault_point("reply.before");
        if (reply && tg_frame_encode(reply, &bytes, &len) == 0)
            tg_peer_send_frame(peer, bytes, len);
        else
            give_up(peer);
        tg_fault_point("reply.after");
    }
    json_decref(reply);
}

/* ---- messages in */

static void refuse_stream(struct tg_peer *peer, int err)
{
    if (err == -EPROTONOSUPPORT)
        tg_peer_reply(peer, tg_error_reply(TG_ERR_VERSION,
                                           "this broker (" TG_VERSION ") speaks protocol version %d, the "
                                           "message has version %u",
                                           TG_PROTO_VERSION, peer->in.buf[2]));
    else if (err == -EMSGSIZE)
        tg_peer_reply(
            peer, tg_error_reply(TG_ERR_USAGE, "a message is at most %u bytes long", TG_REQUEST_MAX_BYTES));
    else
        tg_peer_reply(peer, tg_error_reply(TG_ERR_USAGE, "not a frame with one JSON object in UTF-8"));
    close_when_drained(peer);
}

/* Handles what is complete, a bounded amount; the rest waits for the next iteration. */
static void work(struct tg_peer *peer)
{
    uint64_t begin_ns = uv_hrtime();
    unsigned n = 0;
    while (!peer->closing && !peer->closes_when_drained && !peer->blocked) {
        if (peer->out_bytes > OUT_PAUSE_BYTES)
            return;
        json_t *message = NULL;
        size_t before = peer->in.size;
        int rc = tg_frames_next(&peer->in, &message);
        if (rc < 0) {
            refuse_stream(peer, rc);
            return;
        }
        if (rc == 0)
            break;
        if (peer->in.used == 0)
            tg_frames_done(&peer->in);
        peer->broker->in_bytes -= before - peer->in.size;
        tg_ops_handle(peer->broker, peer, message);
        json_decref(message);
        if (++n >= MESSAGES_AT_ONCE || uv_hrtime() - begin_ns > WORK_MAX_NS) {
            if (!peer->closing && peer->in.used > 0)
                enqueue(peer);
            break;
        }
    }
    if (peer->in.used > 0)
        start_sweep(peer->broker);
}

void tg_peers_work(struct tg_broker *b)
{
    size_t n = 0;
    struct tg_peer *peer;
    TAILQ_FOREACH(peer, &b->more, queue_link)
    n++;
    /* Once each: who still has messages left stands at the end again. */
    while (n-- > 0 && (peer = TAILQ_FIRST(&b->more)) != NULL) {
        unqueue(peer);
        if (peer->closes_when_drained) {
            tg_peer_close(peer);
            continue;
        }
        work(peer);
        if (!peer->closing)
            mind_reading(peer);
    }
}

void tg_peer_unblock(struct tg_peer *peer)
{
    if (!peer->blocked)
        return;
    peer->blocked = false;
    if (peer->in.used > 0)
        enqueue(peer);
    mind_reading(peer);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)suggested;
    struct tg_broker *b = ((struct tg_peer *)handle->data)->broker;
    *buf = uv_buf_init(b->read_buf, sizeof(b->read_buf)); /* used before anybody else reads */
}

static int take_bytes(struct tg_peer *peer, const char *bytes, size_t n)
{
    struct tg_broker *b = peer->broker;
    size_t before = peer->in.size;
    if (b->in_bytes + n > IN_ALL_BYTES)
        return -ENOBUFS;
    int err = tg_frames_feed(&peer->in, bytes, n);
    b->in_bytes += peer->in.size - before;
    return err;
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct tg_peer *peer = stream->data;
    if (n == 0)
        return;
    if (n < 0) {
        /* The client may have closed its half only: what it asked for is still sent. */
        if (n == UV_EOF)
            close_when_drained(peer);
        else
            tg_peer_close(peer);
        return;
    }
    peer->moved_ms = tg_broker_now_ms(peer->broker);
    if (take_bytes(peer, buf->base, (size_t)n) != 0) {
        tg_peer_close(peer);
        return;
    }
    work(peer);
    if (!peer->closing)
        mind_reading(peer);
}

/* Reads as long as there is nothing else to do first: a peer that has messages left or does not take its
 * answers waits in its own socket buffer. The decision that an admit awaits comes in this very iteration, so
 * reading goes on for that while, a little. */
static void mind_reading(struct tg_peer *peer)
{
    bool want = !peer->closing && !peer->closes_when_drained && !peer->queued &&
                peer->out_bytes <= OUT_PAUSE_BYTES && !(peer->blocked && peer->in.used > IN_BLOCKED_BYTES);
    if (want == peer->reading || peer->closing)
        return;
    peer->reading = want;
    if (want)
        uv_read_start((uv_stream_t *)&peer->pipe, on_alloc, on_read);
    else
        uv_read_stop((uv_stream_t *)&peer->pipe);
}

bool tg_peers_sweep(struct tg_broker *b)
{
    uint64_t now = tg_broker_now_ms(b);
    bool left = false;
    struct tg_peer *peer;
    struct tg_peer *next;
    for (peer = TAILQ_FIRST(&b->peers); peer; peer = next) {
        next = TAILQ_NEXT(peer, link);
        if (peer->out_bytes == 0 && peer->in.used == 0)
            continue;
        if (now - peer->moved_ms < STUCK_MS || peer->queued || peer->awaits) {
            left = true;
            continue;
        }
        /* Ending its tickets may close other peers' answers, but never takes another peer off this list. */
        tg_peer_close(peer);
    }
    if (left)
        start_sweep(b);
    return left;
}

/* ---- tickets that await their answer here */

void tg_peer_attach(struct tg_peer *peer, struct tg_ticket *t)
{
    tg_peer_detach(t);
    t->peer = peer;
    t->peer_prev = NULL;
    t->peer_next = peer->tickets;
    if (peer->tickets)
        peer->tickets->peer_prev = t;
    peer->tickets = t;
}

void tg_peer_detach(struct tg_ticket *t)
{
    if (!t->peer)
        return;
    if (t->peer_prev)
        t->peer_prev->peer_next = t->peer_next;
    else
        t->peer->tickets = t->peer_next;
    if (t->peer_next)
        t->peer_next->peer_prev = t->peer_prev;
    t->peer = NULL;
    t->peer_next = t->peer_prev = NULL;
}

/* ---- a new connection */

/* Who is on the other side, as the kernel knows it. */
static int identify(struct tg_peer *peer)
{
    struct ucred cred;
    socklen_t len = sizeof(cred);
    uv_os_fd_t fd;
    int err = uv_fileno((uv_handle_t *)&peer->pipe, &fd);
    if (err)
        return err;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) != 0)
        return -errno;
    peer->uid = cred.uid;
    peer->pid = cred.pid;
    return 0;
}

static void on_turned_away(uv_handle_t *handle)
{
    struct tg_broker *b = handle->data;
    b->turning_away = false;
    if (b->accept_due && !b->stopping) {
        b->accept_due = false;
        tg_peer_accept(b);
    }
}

/* Without memory for it a connection is closed, not left standing: libuv stops listening until the one it
 * has brought is accepted. */
static void turn_away(struct tg_broker *b)
{
    if (b->turning_away) {
        b->accept_due = true;
        return;
    }
    b->turning_away = true;
    uv_pipe_init(&b->loop, &b->turned_away, 0);
    b->turned_away.data = b;
    uv_accept((uv_stream_t *)&b->listener, (uv_stream_t *)&b->turned_away);
    uv_close((uv_handle_t *)&b->turned_away, on_turned_away);
}

void tg_peer_accept(struct tg_broker *b)
{
    struct tg_peer *peer = calloc(1, sizeof(*peer));
    if (!peer) {
        turn_away(b);
        return;
    }
    peer->broker = b;
    peer->in.max_bytes = TG_REQUEST_MAX_BYTES;
    peer->moved_ms = tg_broker_now_ms(b);
    uv_pipe_init(&b->loop, &peer->pipe, 0);
    peer->pipe.data = peer;
    TAILQ_INSERT_TAIL(&b->peers, peer, link);
    b->n_peers++;
    uv_timer_stop(&b->idle_timer);
    if (uv_accept((uv_stream_t *)&b->listener, (uv_stream_t *)&peer->pipe) != 0 || identify(peer) != 0) {
        tg_peer_close(peer);
        return;
    }
    if (peer->uid != geteuid() && peer->uid != 0) {
        tg_peer_reply(peer, tg_error_reply(TG_ERR_DENIED, "this broker serves user %u, you are user %u",
                                           (unsigned)geteuid(), (unsigned)peer->uid));
        close_when_drained(peer);
        return;
    }
    mind_reading(peer);
}
