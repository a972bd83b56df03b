/* SPDX-License-Identifier: Apache-2.0
 *
 * A client's connection to the broker: find it, start it when it is not there, send a request, read the
 * answer. Never prints; every wait is bounded; never believes an answer it has not checked.
 *
 * Errors are -errno, the same for every function here, with c->text saying in words what and which rule:
 *   -EINVAL          a value breaks a rule (the broker's code `usage`, or a variable of the environment)
 *   -EFBIG           larger than the machine could ever give (`never-fits`)
 *   -ECANCELED       somebody cancelled the ticket (`cancelled`)
 *   -ESRCH           no such ticket or owner (`gone`)
 *   -EIO             the store refused; nothing was changed (`store`)
 *   -EPROTONOSUPPORT the other side speaks another protocol version (`version`, U10)
 *   -EBUSY           somebody holds or waits (`busy`)
 *   -EPERM           not yours (`denied`), or a directory or a broker that is not ours
 *   -EXDEV           that broker serves another store (`other-store`, R2)
 *   -EEXIST          something with that key waits or runs (`exists`, V8)
 *   -EAGAIN          it does not fit now (`no-room`)
 *   -ECONNREFUSED    no broker, and none could be (or was to be) started
 *   -ECONNRESET      the connection ended before the answer came
 *   -ETIMEDOUT       no answer in time
 *   -EPROTO          an answer that makes no sense
 *   -ENOMEM and other -errno of the operating system
 *
 * One struct tg_client belongs to one thread at a time.
 */
#ifndef TG_CLIENT_CLIENT_H
#define TG_CLIENT_CLIENT_H

#include <stdbool.h>
#include <stdint.h>
#include <jansson.h>

#include "proto/fields.h"
#include "proto/frame.h"
#include "proto/paths.h"

#define TG_CLIENT_TEXT_BYTES 1200u
/* How long an answer to a request may take, and how long a broker may take to start. */
#define TG_CLIENT_REPLY_MS 30000u
#define TG_CLIENT_START_MS 10000u
/* That to a cancellation, after its grace: the broker gives up a minute after its first KILL at the latest,
 * and may have much to do. */
#define TG_CLIENT_CANCEL_MS 120000u
/* How long a message that wants no answer may take to leave. */
#define TG_CLIENT_TELL_MS 200u
#define TG_NO_DEADLINE UINT64_MAX

struct tg_client {
    struct tg_paths paths;
    char socket[TG_SOCKET_PATH_BYTES +
                1]; /* where the broker listens; another than paths.socket after "locked" */
    char text[TG_CLIENT_TEXT_BYTES];
    struct tg_frames in;
    int fd;                 /* -1: not connected; close-on-exec, non-blocking, never 0, 1 or 2 */
    bool may_start;         /* start a broker when none answers */
    uint64_t connect_by_ns; /* how long to stand in a line before the socket; TG_NO_DEADLINE at first */
};

/* Works out where the broker is; connects to nothing yet. 0, or -EINVAL, -ENAMETOOLONG. On error too,
 * tg_client_done may be called. */
int tg_client_init(struct tg_client *c, bool may_start);
void tg_client_done(struct tg_client *c);

/* Connects unless connected, starting the broker if need be (and allowed). 0 or an error. */
int tg_client_connect(struct tg_client *c);
void tg_client_disconnect(struct tg_client *c);

/* Sends one request on the present connection. 0, -ECONNRESET (also when not connected), -ETIMEDOUT,
 * -ENOMEM. */
int tg_client_send(struct tg_client *c, const json_t *request);

/* The same for a frame that is made already; connected. */
int tg_client_send_frame(struct tg_client *c, const uint8_t *bytes, size_t n);

/* Reads one answer. deadline_ns is of CLOCK_MONOTONIC. 0 and *ret (the caller owns a reference) when it
 * says "ok": true; else an error. After anything but 0, -ETIMEDOUT and the errors that the broker itself
 * answered, the connection is closed. */
int tg_client_recv(struct tg_client *c, uint64_t deadline_ns, json_t **ret);

/* Connects, sends, reads the answer; when the broker dies in between, asks the next one, at most three
 * times: every request of the protocol is harmless when repeated. */
int tg_client_call(struct tg_client *c, const json_t *request, json_t **ret);
/* The same where an answer may take longer than others. */
int tg_client_call_within(struct tg_client *c, const json_t *request, uint64_t ms, json_t **ret);

/* Sends without waiting for any answer, on the present connection or, when that is dead, on a new one to a
 * broker that is there. Best effort: an error is not reported. */
void tg_client_tell(struct tg_client *c, const json_t *request);

/* The -errno for a code of the protocol; -EPROTO for a code this version does not know. */
int tg_client_code_errno(const char *code);

/* Sends a request to stop and waits (TG_CLIENT_START_MS) until the broker's process has ended, when it
 * agrees. With force one that does not answer within 5 s is killed, which loses nothing (A8): *ret_killed is
 * its pid then, else 0. 0, -ECONNREFUSED when none runs, or an error. */
int tg_client_stop_broker(struct tg_client *c, bool force, int *ret_killed);

/* Who listens at the other end of the connection, as the kernel knows it; 0: not known. */
int tg_client_broker_pid(const struct tg_client *c);

/* What a process is called (its comm), for showing; "" when that cannot be read. */
void tg_client_name_process(int pid, char *ret, size_t size);

/* Writes c->text; returns err. */
int tg_client_fail(struct tg_client *c, int err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Now + ms on CLOCK_MONOTONIC, in ns; TG_NO_DEADLINE for ms = UINT64_MAX or when it overflows. */
uint64_t tg_deadline_ns(uint64_t ms);
/* What poll() wants for a deadline: ms rounded up, 0 when it has passed, at most INT_MAX; -1 for none. */
int tg_deadline_poll_ms(uint64_t deadline_ns);

/* The same descriptor, or a close-on-exec copy at 3 or above (the old one is closed): a program that was
 * started with a standard stream closed must not find our socket there. -errno; then fd is closed. */
int tg_fd_above_stdio(int fd);

#endif
