/* SPDX-License-Identifier: Apache-2.0
 * See stat.h. */
#include "machine/stat.h"

#include <errno.h>
#include <string.h>

#include "machine/text.h"

/* One number of the line and the blank before it. Some fields may be negative; none of those that are kept
 * is, and a value that does not fit is refused by the callers' ranges. */
static int next_field(const char **p, uint64_t *ret)
{
    if (**p != ' ')
        return -EBADMSG;
    (*p)++;
    if (**p == '-')
        (*p)++;
    return tg_text_u64(p, ret);
}

static int to_pid(uint64_t v, pid_t *ret)
{
    if (v > INT32_MAX)
        return -EBADMSG;
    *ret = (pid_t)v;
    return 0;
}

static int keep(struct tg_stat_line *s, int field, uint64_t v)
{
    switch (field) {
    case 4:
        return to_pid(v, &s->parent);
    case 5:
        return to_pid(v, &s->group);
    case 6:
        return to_pid(v, &s->session);
    case 20:
        s->threads = v;
        return 0;
    case 22:
        s->start_ticks = v;
        return 0;
    default:
        return 0;
    }
}

/* "PID (comm) S PPID PGRP SESSION ... THREADS 0 START ...". The comm is the program's own choice and may hold
 * blanks, parentheses and line ends, so the fields are counted from the last ')'. */
int tg_stat_parse(const char *text, pid_t pid, struct tg_stat_line *ret)
{
    struct tg_stat_line s = {0};
    uint64_t v;
    if (tg_text_u64(&text, &v) || v != (uint64_t)pid || strncmp(text, " (", 2) != 0)
        return -EBADMSG;
    const char *p = strrchr(text, ')');
    if (!p || p[1] != ' ' || p[2] == '\0')
        return -EBADMSG;
    s.state = p[2];
    p += 3;
    for (int field = 4; field <= 22; field++) {
        int err = next_field(&p, &v);
        if (!err)
            err = keep(&s, field, v);
        if (err)
            return err;
    }
    if (*p != ' ' && *p != '\n' && *p != '\0')
        return -EBADMSG;
    *ret = s;
    return 0;
}

bool tg_stat_has_ended(const struct tg_stat_line *line)
{
    return line->state == 'X' || line->state == 'x' || (line->state == 'Z' && line->threads <= 1);
}

pid_t tg_stat_pid(const char *name)
{
    uint64_t v;
    if (*name < '1' || *name > '9' || tg_text_u64(&name, &v) || *name || v > INT32_MAX)
        return 0;
    return (pid_t)v;
}
