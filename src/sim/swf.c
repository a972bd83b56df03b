/* SPDX-License-Identifier: Apache-2.0
 * See swf.h. */
#include "sim/swf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIELDS = 18 };

/* Where a number stands in a line, from 0. */
enum { F_NUMBER = 0, F_SUBMIT = 1, F_RUN = 3, F_PROCS = 4, F_REQ_PROCS = 7, F_REQ_TIME = 8 };

static int fail(struct tg_swf_error *err, size_t line, int code, const char *what)
{
    *err = (struct tg_swf_error){.line = line, .what = what};
    return code;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* One number with an optional fraction (some logs give the processor time of field 6 so); the fraction is
 * only allowed where the replay does not look. Returns what follows, or NULL and *why. */
static const char *number(const char *p, const char *end, bool whole, int64_t *ret, const char **why)
{
    bool negative = p < end && *p == '-';
    p += negative;
    if (p == end || !is_digit(*p)) {
        *why = "not a number";
        return NULL;
    }
    int64_t v = 0;
    for (; p < end && is_digit(*p); p++) {
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *p - '0', &v)) {
            *why = "a number is out of range";
            return NULL;
        }
    }
    if (!whole && p < end && *p == '.') {
        for (p++; p < end && is_digit(*p);)
            p++;
    }
    if (p < end && !is_blank(*p)) {
        *why = whole && *p == '.' ? "a whole number is needed here" : "not a number";
        return NULL;
    }
    *ret = negative ? -v : v;
    return p;
}

static bool replay_looks_at(int field)
{
    return field == F_NUMBER || field == F_SUBMIT || field == F_RUN || field == F_PROCS ||
           field == F_REQ_PROCS || field == F_REQ_TIME;
}

/* Unknown, or from 0 to max. */
static bool known_or_within(int64_t v, int64_t max)
{
    return v >= -1 && v <= max;
}

static int check_ranges(const int64_t f[FIELDS], size_t line, struct tg_swf_error *err)
{
    if (f[F_NUMBER] < 0)
        return fail(err, line, -ERANGE, "field 1 (job number) is negative");
    if (!known_or_within(f[F_SUBMIT], TG_SWF_MAX_TIME))
        return fail(err, line, -ERANGE, "field 2 (submit time) is out of range");
    if (!known_or_within(f[F_RUN], TG_SWF_MAX_TIME))
        return fail(err, line, -ERANGE, "field 4 (run time) is out of range");
    if (!known_or_within(f[F_PROCS], TG_SWF_MAX_PROCS))
        return fail(err, line, -ERANGE, "field 5 (allocated processors) is out of range");
    if (!known_or_within(f[F_REQ_PROCS], TG_SWF_MAX_PROCS))
        return fail(err, line, -ERANGE, "field 8 (requested processors) is out of range");
    if (!known_or_within(f[F_REQ_TIME], TG_SWF_MAX_TIME))
        return fail(err, line, -ERANGE, "field 9 (requested time) is out of range");
    return 0;
}

/* One line without its end; *is_job is false for a comment or an empty line. */
static int parse_line(const char *p, const char *end, size_t line, struct tg_swf_job *job, bool *is_job,
                      struct tg_swf_error *err)
{
    while (p < end && is_blank(*p))
        p++;
    *is_job = p < end && *p != ';';
    if (!*is_job)
        return 0;
    int64_t f[FIELDS];
    int n = 0;
    for (; p < end; n++) {
        if (n == FIELDS)
            return fail(err, line, -EINVAL, "more than 18 fields");
        const char *why = NULL;
        p = number(p, end, replay_looks_at(n), &f[n], &why);
        if (!p)
            return fail(err, line, -EINVAL, why);
        while (p < end && is_blank(*p))
            p++;
    }
    if (n < FIELDS)
        return fail(err, line, -EINVAL, "fewer than 18 fields");
    *job = (struct tg_swf_job){.number = f[F_NUMBER],
                               .submit_s = f[F_SUBMIT],
                               .run_s = f[F_RUN],
                               .request_s = f[F_REQ_TIME],
                               .procs = f[F_PROCS] > 0 ? f[F_PROCS] : f[F_REQ_PROCS]};
    return check_ranges(f, line, err);
}

static int append(struct tg_swf *swf, size_t *cap, const struct tg_swf_job *job)
{
    if (swf->n == *cap) {
        size_t more = *cap ? *cap * 2 : 256;
        struct tg_swf_job *grown = reallocarray(swf->job, more, sizeof(*grown));
        if (!grown)
            return -ENOMEM;
        swf->job = grown;
        *cap = more;
    }
    swf->job[swf->n++] = *job;
    return 0;
}

int tg_swf_parse(const char *text, size_t len, struct tg_swf *ret, struct tg_swf_error *err)
{
    struct tg_swf swf = {NULL, 0};
    size_t cap = 0, line = 0;
    int rc = 0;
    for (size_t at = 0; at < len && rc == 0;) {
        const char *begin = text + at;
        const char *end = memchr(begin, '\n', len - at);
        size_t length = end ? (size_t)(end - begin) : len - at;
        at += length + 1;
        line++;
        struct tg_swf_job job;
        bool is_job = false;
        if (length > TG_SWF_MAX_LINE)
            rc = fail(err, line, -EINVAL, "the line is too long");
        else
            rc = parse_line(begin, begin + length, line, &job, &is_job, err);
        if (rc != 0 || !is_job)
            continue;
        if (swf.n >= (size_t)TG_SWF_MAX_JOBS)
            rc = fail(err, line, -E2BIG, "too many jobs");
        else if (append(&swf, &cap, &job) != 0)
            rc = fail(err, line, -ENOMEM, "out of memory");
    }
    if (rc != 0)
        tg_swf_free(&swf);
    else
        *ret = swf;
    return rc;
}

/* Everything that fd gives. */
static int slurp(int fd, char **ret, size_t *ret_len)
{
    char *text = NULL;
    size_t len = 0, cap = 0;
    for (;;) {
        if (len == cap) {
            size_t more = cap ? cap * 2 : (size_t)1 << 16;
            char *grown = more > TG_SWF_MAX_BYTES ? NULL : realloc(text, more);
            if (!grown) {
                free(text);
                return more > TG_SWF_MAX_BYTES ? -EFBIG : -ENOMEM;
            }
            text = grown;
            cap = more;
        }
        ssize_t got = read(fd, text + len, cap - len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            int rc = -errno;
            free(text);
            return rc;
        }
        if (got == 0)
            break;
        len += (size_t)got;
    }
    *ret = text;
    *ret_len = len;
    return 0;
}

int tg_swf_load(const char *path, struct tg_swf *ret, struct tg_swf_error *err)
{
    bool from_stdin = strcmp(path, "-") == 0;
    int fd = from_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fail(err, 0, -errno, "cannot open it");
    char *text = NULL;
    size_t len = 0;
    int rc = slurp(fd, &text, &len);
    if (!from_stdin)
        close(fd);
    if (rc != 0)
        return fail(err, 0, rc, "cannot read it");
    rc = tg_swf_parse(text, len, ret, err);
    free(text);
    return rc;
}

void tg_swf_free(struct tg_swf *swf)
{
    if (!swf)
        return;
    free(swf->job);
    *swf = (struct tg_swf){NULL, 0};
}
