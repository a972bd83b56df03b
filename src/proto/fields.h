/* SPDX-License-Identifier: Apache-2.0
 *
 * Strict reading of a message's fields. Each returns 0 and writes *ret, or -ENOENT (absent, or null), or
 * -EINVAL (wrong type or outside the range); the error replies both sides build from them stand here too,
 * so that a code is spelled once.
 */
#ifndef TG_PROTO_FIELDS_H
#define TG_PROTO_FIELDS_H

#include <stdbool.h>
#include <stdint.h>
#include <jansson.h>

/* Error codes of a reply {"ok":false,"error":{"code":..,"text":..}}. */
#define TG_ERR_USAGE "usage"             /* the request is malformed or a value breaks a rule: exit 2 */
#define TG_ERR_NEVER_FITS "never-fits"   /* exit 123 */
#define TG_ERR_CANCELLED "cancelled"     /* somebody cancelled the ticket: exit 125 */
#define TG_ERR_GONE "gone"               /* no such ticket, or its owner is dead */
#define TG_ERR_STORE "store"             /* the store refused (disk full, ...): nothing was changed */
#define TG_ERR_VERSION "version"         /* the other side speaks another protocol version */
#define TG_ERR_BUSY "busy"               /* stop: somebody holds or waits */
#define TG_ERR_DENIED "denied"           /* not yours */
#define TG_ERR_EXISTS "exists"           /* admit: something with that key waits or runs: exit 125 */
#define TG_ERR_NO_ROOM "no-room"         /* resize: it does not fit now */
#define TG_ERR_OTHER_STORE "other-store" /* this broker serves another store (R2) */

#define TG_KEY_MAX_BYTES 256u

int tg_field_u64(const json_t *object, const char *key, uint64_t min, uint64_t max, uint64_t *ret);
int tg_field_i64(const json_t *object, const char *key, int64_t min, int64_t max, int64_t *ret);
int tg_field_bool(const json_t *object, const char *key, bool *ret);
/* Borrowed from the message; without embedded NUL; at most max_bytes long. */
int tg_field_string(const json_t *object, const char *key, size_t max_bytes, const char **ret);

/* New error reply; the text is clipped at 1000 bytes. NULL on lack of memory. */
json_t *tg_error_reply(const char *code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Whether a text may be a key: at most 256 bytes of UTF-8 without control characters ("": no key). */
bool tg_key_valid(const char *text);

/* A copy of arbitrary bytes (argv, paths) as valid UTF-8 for showing: bytes that are not are written
 * \xNN, control characters too, and what is longer than max_bytes ends in "...". The caller frees it. */
char *tg_display_text(const char *bytes, size_t max_bytes);

#endif
