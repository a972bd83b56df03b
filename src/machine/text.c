/* SPDX-License-Identifier: Apache-2.0
 * See text.h. */
#include "machine/text.h"

#include <errno.h>
#include <string.h>

#include "base/checked.h"

int tg_text_read(const struct tg_root *root, const char *path, char *buf, size_t size)
{
    long n = tg_root_read(root, path, buf, size);
    if (n < 0)
        return (int)n;
    return strlen(buf) == (size_t)n ? 0 : -EBADMSG;
}

int tg_text_u64(const char **p, uint64_t *ret)
{
    uint64_t v = 0;
    const char *c = *p;
    for (; *c >= '0' && *c <= '9'; c++) {
        if (!tg_mul_u64(v, 10, &v) || !tg_add_u64(v, (uint64_t)(*c - '0'), &v))
            return -EBADMSG;
    }
    if (c == *p)
        return -EBADMSG;
    *p = c;
    *ret = v;
    return 0;
}

int tg_text_number(const char *text, uint64_t *ret)
{
    uint64_t v;
    int err = tg_text_u64(&text, &v);
    if (err)
        return err;
    if (*text == '\n')
        text++;
    if (*text != '\0')
        return -EBADMSG;
    *ret = v;
    return 0;
}

const char *tg_text_line(const char *text, const char *key)
{
    size_t n = strlen(key);
    while (text && *text) {
        if (strncmp(text, key, n) == 0)
            return text + n;
        text = strchr(text, '\n');
        if (text)
            text++;
    }
    return NULL;
}

int tg_text_kb(const char *text, const char *key, uint64_t *ret)
{
    const char *p = tg_text_line(text, key);
    if (!p)
        return -ENOENT;
    while (*p == ' ' || *p == '\t')
        p++;
    uint64_t v;
    int err = tg_text_u64(&p, &v);
    if (err)
        return err;
    if (strncmp(p, " kB", 3) != 0 || (p[3] != '\n' && p[3] != '\0') || v > TG_TEXT_MAX_KB)
        return -EBADMSG;
    *ret = v;
    return 0;
}
