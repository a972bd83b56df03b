/* SPDX-License-Identifier: Apache-2.0
 * See parse.h. */
#include "base/parse.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/checked.h"

/* Reads leading digits; returns what follows them, or NULL when there are none or they overflow. */
static const char *digits(const char *text, uint64_t *out, int *err)
{
    uint64_t v = 0;
    const char *p = text;
    for (; *p >= '0' && *p <= '9'; p++) {
        if (!tg_mul_u64(v, 10, &v) || !tg_add_u64(v, (uint64_t)(*p - '0'), &v)) {
            *err = -ERANGE;
            return NULL;
        }
    }
    if (p == text) {
        *err = -EINVAL;
        return NULL;
    }
    *out = v;
    return p;
}

/* "99999999999999999999x" is not a number before it is out of range. */
static int refine(const char *text, int err)
{
    if (err == -ERANGE && text[strspn(text, "0123456789")] != '\0')
        return -EINVAL;
    return err;
}

int tg_parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
    int err = 0;
    uint64_t v;
    const char *end = digits(text, &v, &err);
    if (!end)
        return refine(text, err);
    if (*end != '\0')
        return -EINVAL;
    if (v < min || v > max)
        return -ERANGE;
    *out = v;
    return 0;
}

int tg_parse_i64(const char *text, int64_t min, int64_t max, int64_t *out)
{
    uint64_t magnitude;
    int negative = text[0] == '-';
    uint64_t limit = negative ? (uint64_t)INT64_MAX + 1 : (uint64_t)INT64_MAX;
    int err = tg_parse_u64(text + negative, 0, limit, &magnitude);
    if (err)
        return err;
    int64_t v = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    if (v < min || v > max)
        return -ERANGE;
    *out = v;
    return 0;
}

struct unit {
    const char *suffix;
    uint64_t factor;
};

static int with_unit(const char *text, const struct unit *units, uint64_t *out)
{
    int err = 0;
    uint64_t v;
    const char *end = digits(text, &v, &err);
    if (!end)
        return err;
    for (const struct unit *u = units; u->suffix; u++) {
        if (strcmp(end, u->suffix) != 0)
            continue;
        if (!tg_mul_u64(v, u->factor, &v) || v > (uint64_t)INT64_MAX)
            return -ERANGE;
        *out = v;
        return 0;
    }
    return -EINVAL;
}

int tg_parse_size_mb(const char *text, uint64_t *out)
{
    static const struct unit units[] = {
        {"", 1},     {"M", 1},           {"MB", 1},           {"MiB", 1},
        {"m", 1},    {"G", 1024},        {"GB", 1024},        {"GiB", 1024},
        {"g", 1024}, {"T", 1024 * 1024}, {"TB", 1024 * 1024}, {"TiB", 1024 * 1024},
        {NULL, 0}};
    uint64_t v;
    int err = with_unit(text, units, &v);
    if (err)
        return err;
    /* 2^44 MB is 16 EiB: everything above cannot be bytes in 64 bits (N4). */
    if (v > (UINT64_C(1) << 43))
        return -ERANGE;
    *out = v;
    return 0;
}

int tg_parse_duration_ms(const char *text, uint64_t *out)
{
    static const struct unit units[] = {{"", 1000},     {"ms", 1},       {"s", 1000}, {"m", 60000},
                                        {"h", 3600000}, {"d", 86400000}, {NULL, 0}};
    return with_unit(text, units, out);
}
