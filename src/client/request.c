/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests and their answers over a connection. What arrives is input: a frame that is none, another
 * version, or an answer without "ok" ends the connection with an error in words.
 */
#include "client/client.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "proto/fields.h"

int tg_client_code_errno(const char *code)
{
    static const struct {
        const char *code;
        int err;
    } codes[] = {
        {TG_ERR_USAGE, -EINVAL},  {TG_ERR_NEVER_FITS, -EFBIG}, {TG_ERR_CANCELLED, -ECANCELED},
        {TG_ERR_GONE, -ESRCH},    {TG_ERR_STORE, -EIO},        {TG_ERR_VERSION, -EPROTONOSUPPORT},
        {TG_ERR_BUSY, -EBUSY},    {TG_ERR_DENIED, -EPERM},     {TG_ERR_OTHER_STORE, -EXDEV},
        {TG_ERR_EXISTS, -EEXIST}, {TG_ERR_NO_ROOM, -EAGAIN},
    };
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        if (strcmp(codes[i].code, code) == 0)
            return codes[i].err;
    }
    return -EPROTO;
}

static int lost(struct tg_client *c, int err, const char *what)
{
    tg_client_disconnect(c);
    return tg_client_fail(c, err, "%s (broker on %s)", what, c->socket);
}

/* Waits for events on the connection. 0, or -ETIMEDOUT. */
static int wait_for(struct tg_client *c, short events, uint64_t deadline_ns)
{
    struct pollfd p = {.fd = c->fd, .events = events};
    for (;;) {
        int n = poll(&p, 1, tg_deadline_poll_ms(deadline_ns));
        if (n > 0)
            return 0;
        if (n == 0 && tg_deadline_poll_ms(deadline_ns) == 0)
            return -ETIMEDOUT;
        if (n < 0 && errno != EINTR)
            return -errno;
    }
}

static int send_bytes(struct tg_client *c, const uint8_t *bytes, size_t n, uint64_t deadline)
{
    while (n > 0) {
        ssize_t sent = send(c->fd, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent >= 0) {
            bytes += sent;
            n -= (size_t)sent;
        } else if (errno == EAGAIN) {
            if (wait_for(c, POLLOUT, deadline))
                return lost(c, -ETIMEDOUT, "the broker takes no more requests");
        } else if (errno != EINTR) {
            return lost(c, -ECONNRESET, "the broker has gone");
        }
    }
    return 0;
}

/* Every request names the store it is meant for (R2): whoever listens at this socket may serve another. */
static int encode(const struct tg_client *c, const json_t *request, uint8_t **ret_bytes, size_t *ret_n)
{
    json_t *named = json_copy((json_t *)(uintptr_t)request);
    char *store = tg_display_text(c->paths.store, TG_PATH_BYTES);
    int err = -ENOMEM;
    if (named && store && json_object_set_new(named, "store", json_string(store)) == 0)
        err = tg_frame_encode(named, ret_bytes, ret_n);
    free(store);
    json_decref(named);
    return err;
}

int tg_client_send_frame(struct tg_client *c, const uint8_t *bytes, size_t n)
{
    return send_bytes(c, bytes, n, tg_deadline_ns(TG_CLIENT_REPLY_MS));
}

static int send_within(struct tg_client *c, const json_t *request, uint64_t ms)
{
    uint8_t *bytes;
    size_t n;
    if (c->fd < 0)
        return tg_client_fail(c, -ECONNRESET, "not connected to a broker");
    int err = encode(c, request, &bytes, &n);
    if (err)
        return tg_client_fail(c, err, "cannot write the request: %s", strerror(-err));
    err = n - TG_FRAME_HEADER_BYTES > TG_REQUEST_MAX_BYTES
              ? tg_client_fail(c, -EINVAL, "the request is longer than %u bytes", TG_REQUEST_MAX_BYTES)
              : send_bytes(c, bytes, n, tg_deadline_ns(ms));
    free(bytes);
    return err;
}

int tg_client_send(struct tg_client *c, const json_t *request)
{
    return send_within(c, request, TG_CLIENT_REPLY_MS);
}

/* Reads what has arrived. 0; -ETIMEDOUT; -ECONNRESET at the end of the stream. */
static int feed(struct tg_client *c, uint64_t deadline_ns)
{
    uint8_t chunk[4096];
    int err = wait_for(c, POLLIN, deadline_ns);
    if (err)
        return err;
    ssize_t n = recv(c->fd, chunk, sizeof(chunk), MSG_DONTWAIT);
    if (n > 0)
        return tg_frames_feed(&c->in, chunk, (size_t)n);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    return -ECONNRESET;
}

/* Turns a whole message into 0 and the message, or into the error that it tells. */
static int judge(struct tg_client *c, json_t *message, json_t **ret)
{
    bool ok;
    if (tg_field_bool(message, "ok", &ok)) {
        json_decref(message);
        return lost(c, -EPROTO, "the broker's answer does not say whether it is ok");
    }
    if (ok) {
        *ret = message;
        return 0;
    }
    const char *code = "", *text = "no reason given";
    const json_t *error = json_object_get(message, "error");
    (void)tg_field_string(error, "code", 64, &code);
    (void)tg_field_string(error, "text", TG_CLIENT_TEXT_BYTES - 100, &text);
    int err = tg_client_code_errno(code);
    char *shown = tg_display_text(text, TG_CLIENT_TEXT_BYTES - 100);
    tg_client_fail(c, err, "%s", shown ? shown : code);
    free(shown);
    json_decref(message);
    return err;
}

static int bad_frame(struct tg_client *c, int err)
{
    if (err == -EPROTONOSUPPORT) {
        unsigned theirs = c->in.buf[2];
        tg_client_disconnect(c);
        return tg_client_fail(c, err,
                              "the broker on %s speaks protocol version %u, this command version %u: stop it "
                              "with the command it came with",
                              c->socket, theirs, (unsigned)TG_PROTO_VERSION);
    }
    return lost(c, err == -ENOMEM ? err : -EPROTO, "what came from the socket is no answer of a broker");
}

int tg_client_recv(struct tg_client *c, uint64_t deadline_ns, json_t **ret)
{
    json_t *message;
    if (c->fd < 0)
        return tg_client_fail(c, -ECONNRESET, "not connected to a broker");
    for (;;) {
        int got = tg_frames_next(&c->in, &message);
        if (got == 1)
            return judge(c, message, ret);
        if (got < 0)
            return bad_frame(c, got);
        int err = feed(c, deadline_ns);
        if (err == -ETIMEDOUT)
            return tg_client_fail(c, err, "the broker on %s (process %d) does not answer", c->socket,
                                  tg_client_broker_pid(c));
        if (err)
            return lost(c, err, err == -ENOMEM ? "no memory for the answer" : "the broker has gone");
    }
}

int tg_client_call(struct tg_client *c, const json_t *request, json_t **ret)
{
    return tg_client_call_within(c, request, TG_CLIENT_REPLY_MS, ret);
}

int tg_client_call_within(struct tg_client *c, const json_t *request, uint64_t ms, json_t **ret)
{
    int err = -ECONNRESET;
    for (int attempt = 0; attempt < 3 && err == -ECONNRESET; attempt++) {
        err = tg_client_connect(c);
        if (!err)
            err = tg_client_send(c, request);
        if (!err)
            err = tg_client_recv(c, tg_deadline_ns(ms), ret);
    }
    if (err == -ETIMEDOUT)
        tg_client_disconnect(c); /* a late answer must not meet the next request */
    return err;
}

void tg_client_tell(struct tg_client *c, const json_t *request)
{
    if (send_within(c, request, TG_CLIENT_TELL_MS) == 0)
        return;
    c->may_start = false;
    if (tg_client_connect(c) == 0)
        (void)send_within(c, request, TG_CLIENT_TELL_MS);
}
