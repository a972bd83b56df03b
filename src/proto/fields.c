/* SPDX-License-Identifier: Apache-2.0
 * See fields.h. */
#include "proto/fields.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int tg_field_i64(const json_t *object, const char *key, int64_t min, int64_t max, int64_t *ret)
{
    const json_t *v = json_object_get(object, key);
    if (!v || json_is_null(v))
        return -ENOENT;
    if (!json_is_integer(v))
        return -EINVAL;
    json_int_t n = json_integer_value(v);
    if (n < min || n > max)
        return -EINVAL;
    *ret = n;
    return 0;
}

int tg_field_u64(const json_t *object, const char *key, uint64_t min, uint64_t max, uint64_t *ret)
{
    int64_t n;
    int err = tg_field_i64(object, key, 0, INT64_MAX, &n);
    if (err)
        return err;
    if ((uint64_t)n < min || (uint64_t)n > max)
        return -EINVAL;
    *ret = (uint64_t)n;
    return 0;
}

int tg_field_bool(const json_t *object, const char *key, bool *ret)
{
    const json_t *v = json_object_get(object, key);
    if (!v || json_is_null(v))
        return -ENOENT;
    if (!json_is_boolean(v))
        return -EINVAL;
    *ret = json_is_true(v);
    return 0;
}

int tg_field_string(const json_t *object, const char *key, size_t max_bytes, const char **ret)
{
    const json_t *v = json_object_get(object, key);
    if (!v || json_is_null(v))
        return -ENOENT;
    if (!json_is_string(v) || json_string_length(v) > max_bytes)
        return -EINVAL;
    *ret = json_string_value(v);
    return 0;
}

json_t *tg_error_reply(const char *code, const char *format, ...)
{
    char text[1001];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    char *shown = tg_display_text(text, sizeof(text));
    json_t *reply =
        json_pack("{s:b,s:{s:s,s:s}}", "ok", 0, "error", "code", code, "text", shown ? shown : code);
    free(shown);
    return reply;
}

/* Length of the valid UTF-8 sequence at p, or 0. Overlong forms, surrogates and values past U+10FFFF are
 * not valid. */
static size_t utf8_length(const unsigned char *p)
{
    if (p[0] >= 0x20 && p[0] < 0x7f)
        return 1;
    size_t n = p[0] >= 0xc2 && p[0] < 0xe0   ? 2
               : (p[0] & 0xf0) == 0xe0       ? 3
               : p[0] >= 0xf0 && p[0] < 0xf5 ? 4
                                             : 0;
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    }
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] >= 0xa0) || (p[0] == 0xf0 && p[1] < 0x90) ||
        (p[0] == 0xf4 && p[1] >= 0x90))
        return 0;
    if (p[0] == 0xc2 && p[1] < 0xa0)
        return 0; /* C1 controls */
    return n;
}

bool tg_key_valid(const char *text)
{
    size_t used = 0;
    while (text[used]) {
        size_t n = utf8_length((const unsigned char *)text + used);
        if (n == 0)
            return false;
        used += n;
    }
    return used <= TG_KEY_MAX_BYTES;
}

char *tg_display_text(const char *bytes, size_t max_bytes)
{
    const unsigned char *p = (const unsigned char *)bytes;
    char *out = malloc(max_bytes + 8);
    size_t used = 0;
    if (!out)
        return NULL;
    while (*p) {
        size_t n = utf8_length(p);
        size_t need = n ? n : 4;
        if (used + need > max_bytes) {
            memcpy(out + used, "...", 3);
            used += 3;
            break;
        }
        if (n) {
            memcpy(out + used, p, n);
            p += n;
        } else {
            static const char hex[] = "0123456789abcdef";
            const char esc[4] = {'\\', 'x', hex[*p >> 4], hex[*p & 15]};
            memcpy(out + used, esc, 4);
            p++;
        }
        used += need;
    }
    out[used] = '\0';
    return out;
}
