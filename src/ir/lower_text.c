/* SPDX-License-Identifier: Apache-2.0
 * A text that grows and remembers the first thing that went wrong, so that who writes need not look. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lower.h"

static bool has_room(struct tg_text *t, size_t more)
{
    if (t->error)
        return false;
    if (more >= TG_TEXT_MAX - t->length) {
        t->error = -EFBIG;
        return false;
    }
    if (t->length + more < t->room)
        return true;
    size_t room = t->room ? t->room : 120;
    while (room <= t->length + more)
        room *= 2;
    char *bytes = realloc(t->bytes, room);
    if (!bytes) {
        t->error = -ENOMEM;
        return false;
    }
    t->bytes = bytes;
    t->room = room;
    return true;
}

void tg_text_add(struct tg_text *t, const char *bytes, size_t length)
{
    if (!has_room(t, length))
        return;
    memcpy(t->bytes + t->length, bytes, length);
    t->length += length;
    t->bytes[t->length] = 0;
}

void tg_text_put(struct tg_text *t, const char *text)
{
    tg_text_add(t, text, strlen(text));
}

void tg_text_printf(struct tg_text *t, const char *format, ...)
{
    char line[512];
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(line, sizeof(line), format, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= sizeof(line)) {
        if (!t->error)
            t->error = -EFBIG; /* no caller writes such a piece */
        return;
    }
    tg_text_add(t, line, (size_t)n);
}

void tg_text_join(struct tg_text *t, const struct tg_text *from)
{
    if (from->error && !t->error)
        t->error = from->error;
    if (from->length)
        tg_text_add(t, from->bytes, from->length);
}

void tg_text_free(struct tg_text *t)
{
    free(t->bytes);
    *t = (struct tg_text){0};
}
