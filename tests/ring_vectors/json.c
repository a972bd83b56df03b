/* SPDX-License-Identifier: Apache-2.0
 * Lines, numbers and hex for the vector replayer.
 *
 * jansson keeps integers in 63 bits and refuses larger ones. Before parsing, each integer above 2^63 - 1 and
 * up to 2^64 - 1 outside strings is therefore written as a string that begins with U+0001; lines that hold
 * that character themselves are refused, so the two cannot be confused and no digit is lost. */
#include "vectors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"

#define MARK "\\u0001"

static bool is_number_char(char c)
{
    return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

/* Is this number token a plain integer from 2^63 to 2^64 - 1? */
static bool needs_mark(const char *token, size_t length)
{
    static const char low[] = "9223372036854775808", high[] = "18446744073709551615";
    for (size_t i = 0; i < length; i++)
        if (token[i] < '0' || token[i] > '9')
            return false;
    if (length == sizeof low - 1)
        return memcmp(token, low, length) >= 0;
    return length == sizeof high - 1 && token[0] != '0' && memcmp(token, high, length) <= 0;
}

static size_t append(char *out, size_t at, const char *text, size_t length)
{
    memcpy(out + at, text, length);
    return at + length;
}

/* The line with large integers marked; to be freed. */
static char *mark_large(const char *line)
{
    const size_t length = strlen(line);
    char *out = malloc(length * 2 + 64); /* a marked token of 19 digits grows by 8 */
    size_t n = 0;
    bool in_string = false;
    for (size_t i = 0; out && i < length;) {
        size_t token = 0;
        while (!in_string && i + token < length && is_number_char(line[i + token]))
            token++;
        if (token > 0) {
            const bool mark = needs_mark(line + i, token);
            if (mark)
                n = append(out, n, "\"" MARK, sizeof MARK);
            n = append(out, n, line + i, token);
            if (mark)
                out[n++] = '"';
            i += token;
            continue;
        }
        if (line[i] == '\\' && in_string && i + 1 < length)
            out[n++] = line[i++];
        else if (line[i] == '"')
            in_string = !in_string;
        out[n++] = line[i++];
    }
    if (out)
        out[n] = 0;
    return out;
}

json_t *line_parse(const char *line, char *ret_reason, size_t reason_size)
{
    if (strstr(line, MARK)) {
        snprintf(ret_reason, reason_size, "holds U+0001");
        return NULL;
    }
    char *marked = mark_large(line);
    if (!marked) {
        snprintf(ret_reason, reason_size, "out of memory");
        return NULL;
    }
    json_error_t error;
    json_t *json = json_loads(marked, JSON_REJECT_DUPLICATES, &error);
    if (!json)
        snprintf(ret_reason, reason_size, "not JSON: %s", error.text);
    free(marked);
    return json;
}

json_t *json_u64(uint64_t value)
{
    char text[32];
    if (value <= INT64_MAX)
        return json_integer((json_int_t)value);
    snprintf(text, sizeof text, "\x01%llu", (unsigned long long)value);
    return json_string(text);
}

bool json_get_u64(const json_t *value, uint64_t *ret)
{
    if (json_is_integer(value) && json_integer_value(value) >= 0) {
        *ret = (uint64_t)json_integer_value(value);
        return true;
    }
    const char *text = json_string_value(value);
    return text && text[0] == 1 && tg_parse_u64(text + 1, 0, UINT64_MAX, ret) == 0;
}

bool json_get_u32(const json_t *value, uint32_t *ret)
{
    uint64_t wide;
    if (!json_get_u64(value, &wide) || wide > UINT32_MAX)
        return false;
    *ret = (uint32_t)wide;
    return true;
}

json_t *json_hex(const void *bytes, size_t length)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *b = bytes;
    char *text = malloc(length * 2 + 1);
    if (!text)
        return NULL;
    for (size_t i = 0; i < length; i++) {
        text[2 * i] = digits[b[i] >> 4];
        text[2 * i + 1] = digits[b[i] & 15];
    }
    json_t *json = json_stringn(text, length * 2);
    free(text);
    return json;
}

/* ---- Inputs ------------------------------------------------------------------------------------------- */

static json_t *field(struct call *call, const char *name)
{
    json_t *value = json_object_get(call->in, name);
    if (value)
        call->fields_used++;
    else
        call->bad = name;
    return value;
}

bool in_has(const struct call *call, const char *name)
{
    return json_object_get(call->in, name) != NULL;
}

uint64_t in_u64(struct call *call, const char *name)
{
    uint64_t value = 0;
    if (!json_get_u64(field(call, name), &value))
        call->bad = name;
    return value;
}

uint32_t in_u32(struct call *call, const char *name)
{
    uint32_t value = 0;
    if (!json_get_u32(field(call, name), &value))
        call->bad = name;
    return value;
}

bool in_bool(struct call *call, const char *name)
{
    const json_t *value = field(call, name);
    if (!json_is_boolean(value))
        call->bad = name;
    return json_is_true(value);
}

json_t *in_array(struct call *call, const char *name)
{
    json_t *value = field(call, name);
    if (!json_is_array(value)) {
        call->bad = name;
        return NULL;
    }
    return value;
}

const char *in_string(struct call *call, const char *name)
{
    const char *value = json_string_value(field(call, name));
    if (!value)
        call->bad = name;
    return value;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

struct buffer in_bytes(struct call *call, const char *name, uint64_t capacity)
{
    struct buffer buffer = {0};
    const char *hex = in_string(call, name);
    const size_t digits = hex ? strlen(hex) : 0;
    if (digits % 2 != 0)
        call->bad = name;
    buffer.length = digits / 2;
    buffer.capacity = capacity > buffer.length ? (size_t)capacity : buffer.length;
    /* Exactly as large as it says, so that a sanitizer sees the first byte too many. */
    buffer.block = malloc(buffer.capacity + call->shift + (buffer.capacity + call->shift == 0));
    if (!buffer.block) {
        call->bad = name;
        return (struct buffer){0};
    }
    buffer.bytes = (unsigned char *)buffer.block + call->shift;
    memset(buffer.bytes, 0xCD, buffer.capacity);
    for (size_t i = 0; i < buffer.length; i++) {
        const int high = hex_digit(hex[2 * i]), low = hex_digit(hex[2 * i + 1]);
        if (high < 0 || low < 0)
            call->bad = name;
        else
            buffer.bytes[i] = (unsigned char)(high * 16 + low);
    }
    return buffer;
}

void buffer_free(struct buffer *buffer)
{
    free(buffer->block);
}

uint32_t *words_from_json(struct call *call, const json_t *array, size_t *ret_count)
{
    const size_t count = json_array_size(array);
    uint32_t *words = count > 0 ? malloc(count * sizeof *words) : NULL;
    if (!json_is_array(array) || (count > 0 && !words))
        call->bad = "words";
    for (size_t i = 0; words && i < count; i++)
        if (!json_get_u32(json_array_get(array, i), &words[i])) {
            call->bad = "words";
            words[i] = 0;
        }
    *ret_count = words ? count : 0;
    return words;
}

/* ---- Results ------------------------------------------------------------------------------------------ */

void out_ok(struct call *call, json_t *value)
{
    call->out = json_pack("{s:o}", "ok", value);
}

static const char *error_name(int error)
{
    switch (error) {
    case TG_QUEUE_FULL:
        return "QueueFull";
    case TG_BACKEND:
        return "Backend";
    case TG_BYTE_LENGTH_OVERFLOW:
        return "ByteLengthOverflow";
    case TG_MISALIGNED_BYTE_LENGTH:
        return "MisalignedByteLength";
    case TG_MISSING_WORD:
        return "MissingWord";
    default:
        return "an undocumented error";
    }
}

void out_err(struct call *call, int error)
{
    call->out = json_pack("{s:s}", "err", error_name(error));
}

void out_result(struct call *call, int r, json_t *value)
{
    if (r == 0) {
        out_ok(call, value);
        return;
    }
    json_decref(value);
    out_err(call, r);
}

void out_changed(struct call *call, json_t *before, const struct buffer *after)
{
    call->bytes_before = before;
    call->bytes_after = json_hex(after->bytes, after->length);
}

void call_clear(struct call *call)
{
    json_decref(call->out);
    json_decref(call->bytes_before);
    json_decref(call->bytes_after);
    json_decref(call->out_after);
}
