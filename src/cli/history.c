/* SPDX-License-Identifier: Apache-2.0
 *
 * tidegate history: what has ended, newest last: when, after what wait, for how long, and how. The broker
 * hands it out in pages, newest first; a row is turned into its line at once. With --swf it is a workload
 * trace.
 */
#include "cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/parse.h"
#include "cli/history.h"

#define DEFAULT_LIMIT 50u
#define LIMIT_MAX 100000000u

static const char verb[] = "history";

struct ask {
    bool json;
    bool swf;
    bool limit_given;
    uint64_t limit;
    uint64_t since_ms; /* wall clock; 0: from the beginning */
    /* What came, newest first. */
    char **lines;
    size_t n;
    size_t room;
    struct tg_trace trace;
};

static void format_duration(char *to, size_t size, const json_t *row, const char *key)
{
    uint64_t ms;
    if (tg_field_u64(row, key, 0, INT64_MAX, &ms)) {
        snprintf(to, size, "-");
        return;
    }
    tg_format_duration(to, size, ms);
}

static void format_time(char *to, size_t size, const json_t *row)
{
    uint64_t ms = 0;
    struct tm tm;
    (void)tg_field_u64(row, "ended_wall_ms", 0, INT64_MAX, &ms);
    time_t s = (time_t)(ms / 1000);
    if (!localtime_r(&s, &tm) || strftime(to, size, "%Y-%m-%d %H:%M:%S", &tm) == 0)
        snprintf(to, size, "?");
}

/* "exit 0", "signal 9", or why there is neither. */
static void format_result(char *to, size_t size, const json_t *row)
{
    uint64_t n;
    const char *outcome = "?";
    (void)tg_field_string(row, "outcome", 32, &outcome);
    if (strcmp(outcome, "oom") == 0)
        snprintf(to, size, "oom");
    else if (strcmp(outcome, "cancelled") != 0 && tg_field_u64(row, "exit", 0, 255, &n) == 0)
        snprintf(to, size, "exit %" PRIu64, n);
    else if (strcmp(outcome, "cancelled") != 0 && tg_field_u64(row, "signal", 1, 127, &n) == 0)
        snprintf(to, size, "signal %" PRIu64, n);
    else
        snprintf(to, size, "%s", outcome);
}

static char *text_line(const json_t *row)
{
    char ended[40], waited[32], ran[32], result[40], peak[32] = "-";
    uint64_t ticket = 0, mb;
    const char *cmd = "";
    char *line = NULL;
    (void)tg_field_u64(row, "ticket", 0, INT64_MAX, &ticket);
    (void)tg_field_string(row, "cmd", TG_REQUEST_MAX_BYTES, &cmd);
    if (tg_field_u64(row, "peak_mb", 0, INT64_MAX, &mb) == 0)
        snprintf(peak, sizeof(peak), "%" PRIu64 "M", mb);
    format_time(ended, sizeof(ended), row);
    format_duration(waited, sizeof(waited), row, "waited_ms");
    format_duration(ran, sizeof(ran), row, "ran_ms");
    format_result(result, sizeof(result), row);
    char *shown = tg_display_text(cmd, 1024);
    if (shown && asprintf(&line, "%6" PRIu64 "  %-19s %8s %8s %8s  %-12s %s", ticket, ended, waited, ran,
                          peak, result, shown) < 0)
        line = NULL;
    free(shown);
    return line;
}

static int take_line(struct ask *a, const json_t *row)
{
    if (a->n == a->room) {
        size_t room = a->room ? a->room * 2 : 256;
        char **grown = reallocarray(a->lines, room, sizeof(*grown));
        if (!grown)
            return -ENOMEM;
        a->lines = grown;
        a->room = room;
    }
    char *line = a->json ? json_dumps(row, JSON_COMPACT | TG_JSON_REALS) : text_line(row);
    if (!line)
        return -ENOMEM;
    a->lines[a->n++] = line;
    return 0;
}

/* Pages until there are no more, or enough. 0, or the exit code. */
static int fetch(struct ask *a, struct tg_client *c)
{
    json_t *reply;
    json_t *row;
    size_t i;
    uint64_t before = 0, left = a->limit;
    while (left > 0) {
        json_t *request = json_pack("{s:s,s:I,s:o,s:I}", "op", verb, "limit", (json_int_t)left, "before",
                                    before ? json_integer((json_int_t)before) : json_null(), "since_wall_ms",
                                    (json_int_t)a->since_ms);
        int code = tg_ask(verb, c, request, &reply);
        if (code != TG_EXIT_OK)
            return code;
        const json_t *rows = json_object_get(reply, "rows");
        int err = 0;
        json_array_foreach(rows, i, row)
        {
            if (!err)
                err = a->swf ? tg_trace_add(&a->trace, row) : take_line(a, row);
        }
        size_t n = json_array_size(rows);
        bool more = tg_field_u64(reply, "next", 1, INT64_MAX, &before) == 0;
        json_decref(reply);
        if (err) {
            tg_complain(verb, "no memory");
            return TG_EXIT_FAILED;
        }
        left -= n < left ? n : left;
        if (!more)
            break;
    }
    return TG_EXIT_OK;
}

static int print(struct ask *a)
{
    if (a->swf) {
        if (tg_trace_print(&a->trace) == 0)
            return TG_EXIT_OK;
        tg_complain(verb, "no memory");
        return TG_EXIT_FAILED;
    }
    if (a->json)
        printf("{\"history_version\": 1,\n\"history\": [\n");
    else
        printf("%6s  %-19s %8s %8s %8s  %-12s %s\n", "ID", "ENDED", "WAITED", "RAN", "PEAK", "RESULT",
               "COMMAND");
    for (size_t i = a->n; i-- > 0;)
        printf("%s%s\n", a->lines[i], a->json && i > 0 ? "," : "");
    if (a->json)
        puts("]}");
    return TG_EXIT_OK;
}

static bool take_since(struct ask *a, const char *text)
{
    uint64_t ms;
    if (!tg_arg_duration(verb, "--since", text, &ms))
        return false;
    uint64_t now = tg_clock_wall_ms();
    a->since_ms = now > ms ? now - ms : 0;
    return true;
}

enum { OPT_JSON, OPT_SWF, OPT_LIMIT, OPT_SINCE };

static int prepare(struct ask *a, int argc, char **argv)
{
    static const struct tg_option options[] = {
        {'j', "json", false}, {0, "swf", false}, {'n', "limit", true}, {0, "since", true}, {0, NULL, false}};
    struct tg_options o = {.verb = verb, .table = options, .argc = argc, .argv = argv};
    int option;
    while ((option = tg_next_option(&o)) >= 0) {
        a->json |= option == OPT_JSON;
        a->swf |= option == OPT_SWF;
        a->limit_given |= option == OPT_LIMIT;
        if (option == OPT_LIMIT && !tg_arg_u64(verb, "--limit", o.value, 1, LIMIT_MAX, &a->limit))
            return TG_EXIT_USAGE;
        if (option == OPT_SINCE && !take_since(a, o.value))
            return TG_EXIT_USAGE;
    }
    if (option == TG_OPTIONS_ERROR)
        return TG_EXIT_USAGE;
    if (o.at < argc)
        return tg_usage_error(verb, "takes no argument, but got %s", tg_shown(argv[o.at]));
    if (a->json && a->swf)
        return tg_usage_error(verb, "--json and --swf are two forms of the same thing: give one of them");
    if (!a->limit_given)
        a->limit = a->swf || a->since_ms > 0 ? LIMIT_MAX : DEFAULT_LIMIT;
    return TG_EXIT_OK;
}

int tg_verb_history(int argc, char **argv)
{
    struct ask a = {.limit = 0};
    struct tg_client c;
    int code = prepare(&a, argc, argv);
    if (code != TG_EXIT_OK)
        return code;
    if (!tg_open_client(verb, &c, true))
        return TG_EXIT_FAILED;
    code = fetch(&a, &c);
    if (code == TG_EXIT_OK)
        code = tg_flushed(verb, print(&a));
    for (size_t i = 0; i < a.n; i++)
        free(a.lines[i]);
    free(a.lines);
    tg_trace_done(&a.trace);
    tg_client_done(&c);
    return code;
}
