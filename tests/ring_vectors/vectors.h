/* SPDX-License-Identifier: Apache-2.0
 *
 * What the replayer of wire vectors is made of: one JSON line is one call; a call reads its inputs, runs the
 * function of <tidegate/ring.h> or <tidegate/partition.h> that bears the name, and leaves what came out as
 * JSON, to be compared with what the line says.
 */
#ifndef TG_TESTS_VECTORS_H
#define TG_TESTS_VECTORS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidegate/ring.h>

/* Bytes of a buffer that a call is about. bytes has room for capacity, of which length are its content. */
struct buffer {
    void *block;
    unsigned char *bytes;
    size_t length;
    size_t capacity;
};

/* One call. Functions set bad when the inputs are not what their name takes; the line then fails. */
struct call {
    const json_t *line;   /* borrowed; the whole line, or one step of a sequence */
    json_t *in;           /* borrowed; its inputs */
    size_t fields_used;   /* inputs read; the line fails when it has others */
    bool free_form;       /* named protocol::, so errors carry the finer names */
    size_t shift;         /* how far from a word boundary buffers are laid */
    const char *bad;      /* first fault of the inputs */
    json_t *out;          /* {"ok": ..} or {"err": ..} */
    json_t *bytes_before; /* of the buffer that may change, hex; NULL when none can */
    json_t *bytes_after;
    json_t *out_after; /* a reader's vector afterwards; NULL when it has none */
};

typedef void (*call_fn)(struct call *);
/* The function of that name, or NULL. */
call_fn call_find(const char *name, bool *ret_free_form);
/* Releases what a call made. */
void call_clear(struct call *call);

/* ---- json.c: lines, numbers, hex ----------------------------------------------------------------------- */

/* Parses one line; numbers up to 2^64 - 1 are kept exactly. NULL with a reason. */
json_t *line_parse(const char *line, char *ret_reason, size_t reason_size);
/* A number of the form that line_parse makes. */
json_t *json_u64(uint64_t value);
bool json_get_u64(const json_t *value, uint64_t *ret);
bool json_get_u32(const json_t *value, uint32_t *ret);
json_t *json_hex(const void *bytes, size_t length);

/* Inputs by name. On a missing or unfit one they set call->bad and return 0, false, NULL or an empty buffer.
 */
uint64_t in_u64(struct call *call, const char *name);
uint32_t in_u32(struct call *call, const char *name);
bool in_bool(struct call *call, const char *name);
json_t *in_array(struct call *call, const char *name);
const char *in_string(struct call *call, const char *name);
bool in_has(const struct call *call, const char *name);
/* A hex input in a block of its own, with room for at least capacity bytes; those past its length hold CD. */
struct buffer in_bytes(struct call *call, const char *name, uint64_t capacity);
void buffer_free(struct buffer *buffer);
/* The input "items" as work items (NULL when empty). */
struct tg_work_item *work_items_in(struct call *call, size_t *ret_count);
/* An array of numbers as words, in a block of exactly that size (NULL when empty). */
uint32_t *words_from_json(struct call *call, const json_t *array, size_t *ret_count);

/* ---- Results ------------------------------------------------------------------------------------------ */

void out_ok(struct call *call, json_t *value); /* takes the reference */
void out_err(struct call *call, int error);
/* value when r is 0, else the error; takes the reference. */
void out_result(struct call *call, int r, json_t *value);
void out_changed(struct call *call, json_t *before, const struct buffer *after);

/* ---- The calls, by file ------------------------------------------------------------------------------- */

enum forms { CLASS_FORM, BOTH_FORMS /* as protocol::NAME too */ };
struct call_entry {
    const char *name;
    call_fn fn;
    enum forms forms;
};
/* Each ends with an entry without a name. */
extern const struct call_entry publish_calls[], encode_calls[], read_calls[];

#endif
