/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames of the socket between clients and the broker: an 8-byte header, then one JSON object.
 *
 *   byte 0..1  'T' 'G'
 *   byte 2     TG_PROTO_VERSION of the sender (U10: another version is refused with a clear error)
 *   byte 3     0
 *   byte 4..7  length of the JSON text, little-endian u32
 *
 * What arrives is input: nothing here trusts it. docs/protocol.md has the messages. No function here does
 * I/O; all are thread-safe on distinct arguments.
 */
#ifndef TG_PROTO_FRAME_H
#define TG_PROTO_FRAME_H

#include <stddef.h>
#include <stdint.h>
#include <jansson.h>

/* How a number with a fraction is written: 5.76, not 5.7599999999999998. */
#define TG_JSON_REALS JSON_REAL_PRECISION(15)

#define TG_PROTO_VERSION 1
#define TG_FRAME_HEADER_BYTES 8u
#define TG_REQUEST_MAX_BYTES (1u << 20) /* what a broker accepts */
#define TG_REPLY_MAX_BYTES (64u << 20)  /* what a client accepts */

/* Checks a header. 0 and the length of the JSON text; -EPROTO: not a frame; -EPROTONOSUPPORT: another
 * version (*ret_len is not written); -EMSGSIZE: longer than max. */
int tg_frame_parse_header(const uint8_t header[TG_FRAME_HEADER_BYTES], uint32_t max_bytes, uint32_t *ret_len);

/* Collects bytes as they come and hands out whole messages. Zero-initialise; free with tg_frames_done. */
struct tg_frames {
    uint8_t *buf;
    size_t used;
    size_t size;
    uint32_t max_bytes; /* TG_REQUEST_MAX_BYTES or TG_REPLY_MAX_BYTES */
};

/* Appends bytes. 0, or -ENOMEM. */
int tg_frames_feed(struct tg_frames *f, const void *bytes, size_t n);
/* The next whole message: 1 and *ret_message (a JSON object; the caller owns a reference), 0 when more
 * bytes are needed, or the errors of tg_frame_parse_header, or -EBADMSG when the text is not one JSON
 * object in strict UTF-8. After an error the stream is lost: close it. */
int tg_frames_next(struct tg_frames *f, json_t **ret_message);
void tg_frames_done(struct tg_frames *f);

/* A frame written piece by piece, for messages too long to hold as one tree of values. Zero-initialise; the
 * first failure is kept and told by tg_frame_finish. */
struct tg_frame_writer {
    uint8_t *bytes;
    size_t used;
    size_t size;
    int err;
};

/* Text that is part of a JSON object as it stands. */
void tg_frame_put_text(struct tg_frame_writer *w, const char *text);
/* A value; gives up the reference (NULL: out of memory). */
void tg_frame_put_json(struct tg_frame_writer *w, json_t *value);
/* Ends the frame, in memory that the caller frees, and empties the writer. 0, -ENOMEM, or -EMSGSIZE. */
int tg_frame_finish(struct tg_frame_writer *w, uint8_t **ret_bytes, size_t *ret_len);

/* A whole frame for a JSON object, in memory that the caller frees. 0, -ENOMEM, or -EMSGSIZE. */
int tg_frame_encode(const json_t *message, uint8_t **ret_bytes, size_t *ret_len);

#endif
