/* SPDX-License-Identifier: Apache-2.0
 * Messages and exit codes; see cli.h. */
#include "cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool tg_prototype;

const char *tg_line_prefix(void)
{
    return tg_prototype ? "SWARM-QUEUE " : "";
}

const char *tg_shown(const char *text)
{
    static char buffers[4][128];
    static unsigned next;
    char *out = buffers[next++ % 4];
    char *shown = tg_display_text(text, sizeof(buffers[0]) - 16);
    snprintf(out, sizeof(buffers[0]), "'%s'", shown ? shown : "?");
    free(shown);
    return out;
}

static void complain(const char *verb, const char *format, va_list ap)
{
    char line[TG_CLIENT_TEXT_BYTES + 256];
    int n = snprintf(line, sizeof(line), "tidegate: %s%s", verb ? verb : "", verb ? ": " : "");
    vsnprintf(line + n, sizeof(line) - (size_t)n - 1, format, ap);
    size_t len = strlen(line);
    line[len++] = '\n';
    /* One write, so that lines of several processes do not mix; nothing is to be done when it fails. */
    if (write(STDERR_FILENO, line, len) < 0)
        return;
}

void tg_complain(const char *verb, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    complain(verb, format, ap);
    va_end(ap);
}

int tg_usage_error(const char *verb, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    complain(verb, format, ap);
    va_end(ap);
    return TG_EXIT_USAGE;
}

bool tg_open_client(const char *verb, struct tg_client *c, bool may_start)
{
    if (tg_client_init(c, may_start) == 0)
        return true;
    tg_complain(verb, "%s", c->text);
    return false;
}

int tg_ask(const char *verb, struct tg_client *c, json_t *request, json_t **ret)
{
    int err = request ? tg_client_call(c, request, ret) : tg_client_fail(c, -ENOMEM, "no memory");
    json_decref(request);
    return err ? tg_report(verb, c, err) : TG_EXIT_OK;
}

int tg_report(const char *verb, const struct tg_client *c, int err)
{
    /* The broker begins with the operation's name, and that is the verb's, which already stands in front. */
    const char *text = c->text;
    size_t n = strlen(verb);
    if (strncmp(text, verb, n) == 0 && strncmp(text + n, ": ", 2) == 0)
        text += n + 2;
    tg_complain(verb, "%s", text[0] ? text : strerror(-err));
    if (err == -EINVAL)
        return TG_EXIT_USAGE;
    return err == -EFBIG ? TG_EXIT_NEVER_FITS : TG_EXIT_FAILED;
}

void tg_format_duration(char *to, size_t size, uint64_t ms)
{
    uint64_t s = ms / 1000;
    if (s < 60)
        snprintf(to, size, "%" PRIu64 ".%" PRIu64 "s", s, ms % 1000 / 100);
    else if (s < 3600)
        snprintf(to, size, "%" PRIu64 "m%02" PRIu64 "s", s / 60, s % 60);
    else
        snprintf(to, size, "%" PRIu64 "h%02" PRIu64 "m", s / 3600, s % 3600 / 60);
}

uint64_t tg_number_field(const json_t *object, const char *key)
{
    uint64_t n = 0;
    (void)tg_field_u64(object, key, 0, INT64_MAX, &n);
    return n;
}

const char *tg_shown_field(const json_t *object, const char *key)
{
    static char buffers[4][1100];
    static unsigned next;
    const char *text = "-";
    (void)tg_field_string(object, key, TG_PATH_BYTES, &text);
    char *shown = tg_display_text(text, sizeof(buffers[0]) - 8);
    char *out = buffers[next++ % 4];
    snprintf(out, sizeof(buffers[0]), "%s", shown ? shown : "?");
    free(shown);
    return out;
}

int tg_print_json(const char *verb, json_t *reply)
{
    json_object_del(reply, "ok");
    char *text = json_dumps(reply, JSON_INDENT(2) | TG_JSON_REALS);
    if (!text) {
        tg_complain(verb, "no memory");
        return TG_EXIT_FAILED;
    }
    puts(text);
    free(text);
    return TG_EXIT_OK;
}

int tg_flushed(const char *verb, int ok)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return ok;
    /* Without errno an earlier write failed, and its reason is gone. */
    if (errno)
        tg_complain(verb, "cannot write to standard output: %s", strerror(errno));
    else
        tg_complain(verb, "cannot write to standard output");
    return TG_EXIT_FAILED;
}

int tg_ask_and_show(const char *verb, json_t *request, bool json, void (*show)(const json_t *reply))
{
    struct tg_client c;
    json_t *reply;
    if (!tg_open_client(verb, &c, true)) {
        json_decref(request);
        return TG_EXIT_FAILED;
    }
    int code = tg_ask(verb, &c, request, &reply);
    if (code == TG_EXIT_OK) {
        if (json)
            code = tg_print_json(verb, reply);
        else
            show(reply);
        code = tg_flushed(verb, code);
        json_decref(reply);
    }
    tg_client_done(&c);
    return code;
}
