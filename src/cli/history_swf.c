/* SPDX-License-Identifier: Apache-2.0
 *
 * The history as a workload trace in the Standard Workload Format (18 numbers a line, -1 for unknown, `;`
 * before a comment), such that tidegate replay reads it. Names stay at home: commands and tenants become
 * numbers. Times are whole seconds there; what ran for a moment counts as one second.
 */
#include "cli/history.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/client.h"

static int64_t number(const json_t *row, const char *key)
{
    int64_t n = -1;
    (void)tg_field_i64(row, key, 0, INT64_MAX, &n);
    return n;
}

static const char *text(const json_t *row, const char *key)
{
    const char *t = "";
    (void)tg_field_string(row, key, TG_REQUEST_MAX_BYTES, &t);
    return t;
}

static int status_of(const json_t *row)
{
    const char *outcome = text(row, "outcome");
    if (strcmp(outcome, "cancelled") == 0)
        return 5;
    if (strcmp(outcome, "released") == 0)
        return 1;
    if (number(row, "status") < 0)
        return -1;
    return number(row, "status") == 0;
}

int tg_trace_add(struct tg_trace *t, const json_t *row)
{
    if (t->n == t->room) {
        size_t room = t->room ? t->room * 2 : 256;
        struct tg_trace_row *grown = reallocarray(t->rows, room, sizeof(*grown));
        if (!grown)
            return -ENOMEM;
        t->rows = grown;
        t->room = room;
    }
    struct tg_trace_row r = {.ticket = (uint64_t)number(row, "ticket"),
                             .asked_ms = number(row, "asked_wall_ms"),
                             .waited_ms = number(row, "waited_ms"),
                             .ran_ms = number(row, "ran_ms"),
                             .slots = number(row, "slots"),
                             .peak_mb = number(row, "peak_mb"),
                             .est_mb = number(row, "est_mb"),
                             .time_ms = number(row, "time_ms"),
                             .prio = number(row, "prio"),
                             .status = status_of(row),
                             .tenant = strdup(text(row, "tenant")),
                             .cmd = strdup(text(row, "cmd"))};
    if (!r.tenant || !r.cmd) {
        free(r.tenant);
        free(r.cmd);
        return -ENOMEM;
    }
    t->rows[t->n++] = r;
    return 0;
}

void tg_trace_done(struct tg_trace *t)
{
    for (size_t i = 0; i < t->n; i++) {
        free(t->rows[i].tenant);
        free(t->rows[i].cmd);
    }
    free(t->rows);
    *t = (struct tg_trace){NULL, 0, 0};
}

static int by_submission(const void *a, const void *b)
{
    const struct tg_trace_row *x = a, *y = b;
    if (x->asked_ms != y->asked_ms)
        return x->asked_ms < y->asked_ms ? -1 : 1;
    return x->ticket < y->ticket ? -1 : x->ticket > y->ticket;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The distinct texts in order: the number of one is its place, from 1. */
static size_t distinct(char **texts, size_t n)
{
    size_t used = 0;
    qsort(texts, n, sizeof(*texts), by_text);
    for (size_t i = 0; i < n; i++) {
        if (used == 0 || strcmp(texts[used - 1], texts[i]) != 0)
            texts[used++] = texts[i];
    }
    return used;
}

static size_t number_of(char **texts, size_t n, const char *text_of_row)
{
    char **found = bsearch(&text_of_row, texts, n, sizeof(*texts), by_text);
    return found ? (size_t)(found - texts) + 1 : 0;
}

static int64_t seconds_up(int64_t ms)
{
    return ms < 0 ? -1 : ms / 1000 + (ms % 1000 > 0);
}

/* Per processor, as the format has memory; in KB. */
static int64_t memory_kb(int64_t mb, int64_t slots)
{
    return mb <= 0 || slots <= 0 ? -1 : mb * 1024 / slots;
}

static void print_header(const struct tg_trace *t)
{
    int64_t first = t->n > 0 ? t->rows[0].asked_ms : 0;
    int64_t widest = 0;
    for (size_t i = 0; i < t->n; i++)
        widest = t->rows[i].slots > widest ? t->rows[i].slots : widest;
    printf(
        "; Version: 2.2\n; Computer: written by tidegate history --swf\n; MaxJobs: %zu\n; MaxRecords: %zu\n",
        t->n, t->n);
    printf("; UnixStartTime: %" PRId64 "\n", first / 1000);
    printf("; Note: a processor is a slot; the widest job took %" PRId64 "\n", widest);
    puts("; Note: users are tenants, executables are commands, the queue is the priority (-1: below 0)\n"
         "; Note: run times are rounded up to seconds; what takes no slot, or never ran, has -1 there");
}

static void print_row(const struct tg_trace *t, size_t i, size_t user, size_t executable)
{
    const struct tg_trace_row *r = &t->rows[i];
    int64_t procs = r->slots > 0 ? r->slots : -1;
    int64_t waited = r->waited_ms < 0 ? -1 : (r->waited_ms + 500) / 1000;
    printf("%zu %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " -1 %" PRId64, i + 1,
           (r->asked_ms - t->rows[0].asked_ms) / 1000, waited, seconds_up(r->ran_ms),
           r->ran_ms < 0 ? -1 : procs, memory_kb(r->peak_mb, procs));
    printf(" %" PRId64 " %" PRId64 " %" PRId64 " %d %zu -1 %zu %" PRId64 " -1 -1 -1\n", procs,
           seconds_up(r->time_ms), memory_kb(r->est_mb, procs), r->status, user, executable, r->prio);
}

int tg_trace_print(struct tg_trace *t)
{
    char **users = calloc(t->n + 1, sizeof(*users));
    char **commands = calloc(t->n + 1, sizeof(*commands));
    int err = users && commands ? 0 : -ENOMEM;
    if (!err) {
        qsort(t->rows, t->n, sizeof(*t->rows), by_submission);
        for (size_t i = 0; i < t->n; i++) {
            users[i] = t->rows[i].tenant;
            commands[i] = t->rows[i].cmd;
        }
        size_t n_users = distinct(users, t->n), n_commands = distinct(commands, t->n);
        print_header(t);
        for (size_t i = 0; i < t->n; i++)
            print_row(t, i, number_of(users, n_users, t->rows[i].tenant),
                      number_of(commands, n_commands, t->rows[i].cmd));
    }
    free(users);
    free(commands);
    return err;
}
