/* SPDX-License-Identifier: Apache-2.0
 * See demo_jobs.h. */
#include "cli/demo_jobs.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "client/tool.h"

/* In order of arrival, on purpose not in order of priority. The big one asks for nine tenths of the budget;
 * the two last arrive while the queue is at work. */
static const struct {
    const char *name, *level;
    unsigned units;
    int64_t prio;
} table[TG_DEMO_JOBS] = {
    {"compress", "low", 2, 1},      {"hash", "idle", 1, 0},       {"sort", "normal", 2, 2},
    {"big sort", "high", 9, 3},     {"compress", "normal", 2, 2}, {"hash", "low", 1, 1},
    {"compress", "critical", 2, 4}, {"sort", "low", 1, 1},        {"hash", "normal", 1, 2},
    {"compress", "idle", 1, 0},     {"hash", "critical", 1, 4},   {"compress", "normal", 2, 2},
    {"sort", "idle", 1, 0},         {"compress", "low", 2, 1},    {"hash", "critical", 1, 4},
    {"sort", "normal", 1, 2},
};

void tg_demo_board_init(struct tg_demo_board *b, const struct tg_demo *demo, uint64_t budget_mb)
{
    memset(b, 0, sizeof(*b));
    b->unit_mb = budget_mb / 10;
    b->limits = (struct tg_demo_limits){.slots = 3, .budget_mb = b->unit_mb * 10, .overtake_bound = 4};
    snprintf(b->record_path, sizeof(b->record_path), "%s/records", demo->dir);
    for (unsigned i = 0; i < TG_DEMO_JOBS; i++) {
        struct tg_demo_task *t = &b->task[i];
        t->name = table[i].name;
        t->level = table[i].level;
        t->units = table[i].units;
        t->job.prio = table[i].prio;
        t->job.est_mb = table[i].units * b->unit_mb;
    }
}

enum { ARGS_MAX = 3000, SLICE_BYTES = 6 << 20 };

/* The command of job i over its share of the files: about SLICE_BYTES, at least one file. */
static void command_of(const struct tg_demo *demo, unsigned i, char **argv, unsigned used)
{
    static char gzip[] = "gzip", gzip_c[] = "-c", sort[] = "sort", sha[] = "sha256sum", dashes[] = "--";
    const char *name = table[i].name;
    if (strcmp(name, "compress") == 0) {
        argv[used++] = gzip;
        argv[used++] = gzip_c;
    } else {
        argv[used++] = strcmp(name, "hash") == 0 ? sha : sort;
    }
    argv[used++] = dashes;
    const struct tg_demo_files *f = &demo->files;
    size_t at = f->count * i / TG_DEMO_JOBS;
    uint64_t bytes = 0, want = (uint64_t)SLICE_BYTES * (table[i].units > 2 ? 3 : 1);
    for (size_t n = 0; n < f->count && used < ARGS_MAX - 1 && (n == 0 || bytes < want); n++) {
        argv[used++] = f->paths[(at + n) % f->count];
        bytes += f->sizes[(at + n) % f->count];
    }
    argv[used] = NULL;
}

int tg_demo_start_job(struct tg_demo_board *b, const struct tg_demo *demo, unsigned i)
{
    static char run[] = "run", q[] = "-q", p[] = "-p", m[] = "-m", dashes[] = "--", verb[] = "demo";
    struct tg_demo_task *t = &b->task[i];
    char record[32], size[32];
    char *argv[ARGS_MAX] = {(char *)demo->exe, run,  q,      p,
                            (char *)t->level,  m,    size,   dashes,
                            (char *)demo->exe, verb, record, b->record_path};
    snprintf(record, sizeof(record), "--record=%u", i);
    snprintf(size, sizeof(size), "%" PRIu64, t->job.est_mb);
    command_of(demo, i, argv, 12);
    t->job.seq = ++b->arrivals;
    pid_t pid = tg_tool_start(argv, -1, -1);
    if (pid < 0)
        return pid;
    t->pid = pid;
    t->state = TG_DEMO_NEW;
    return 0;
}

static struct tg_demo_task *task_of(struct tg_demo_board *b, const json_t *row)
{
    const char *cmd = json_string_value(json_object_get(row, "cmd"));
    const char *mark = cmd ? strstr(cmd, "--record=") : NULL;
    unsigned long i = mark ? strtoul(mark + 9, NULL, 10) : TG_DEMO_JOBS;
    return i < TG_DEMO_JOBS ? &b->task[i] : NULL;
}

unsigned tg_demo_take_status(struct tg_demo_board *b, const json_t *status)
{
    unsigned waiting = 0;
    size_t k;
    json_t *row;
    json_array_foreach(json_object_get(status, "waiters"), k, row)
    {
        struct tg_demo_task *t = task_of(b, row);
        if (!t || t->state == TG_DEMO_ENDED)
            continue;
        waiting++;
        if (t->state == TG_DEMO_NEW)
            t->job.queued_ns = tg_clock_read_ns(CLOCK_BOOTTIME);
        t->state = TG_DEMO_WAITING;
        const char *text = json_string_value(json_object_get(row, "text"));
        snprintf(t->why, sizeof(t->why), "%s", text ? text : "");
    }
    json_array_foreach(json_object_get(status, "holders"), k, row)
    {
        struct tg_demo_task *t = task_of(b, row);
        if (t && t->state != TG_DEMO_ENDED)
            t->state = TG_DEMO_RUNNING;
    }
    return waiting;
}

unsigned tg_demo_reap(struct tg_demo_board *b)
{
    unsigned left = 0;
    for (unsigned i = 0; i < TG_DEMO_JOBS; i++) {
        struct tg_demo_task *t = &b->task[i];
        int status;
        if (t->pid <= 0)
            continue;
        if (waitpid(t->pid, &status, WNOHANG) == t->pid) {
            t->job.exit_ns = tg_clock_read_ns(CLOCK_BOOTTIME);
            t->exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
            t->state = TG_DEMO_ENDED;
            t->pid = 0;
        } else {
            left++;
        }
    }
    return left;
}

void tg_demo_kill_all(struct tg_demo_board *b)
{
    for (unsigned i = 0; i < TG_DEMO_JOBS; i++) {
        if (b->task[i].pid > 0)
            tg_tool_signal(b->task[i].pid, SIGTERM);
    }
    for (unsigned i = 0; i < TG_DEMO_JOBS; i++) {
        while (b->task[i].pid > 0 && waitpid(b->task[i].pid, NULL, 0) < 0 && errno == EINTR)
            ;
        b->task[i].pid = 0;
    }
}

unsigned tg_demo_read_records(struct tg_demo_board *b)
{
    FILE *f = fopen(b->record_path, "re");
    unsigned i, n = 0;
    uint64_t granted, start, end;
    int code;
    if (!f)
        return 0;
    while (fscanf(f, "%u %" SCNu64 " %" SCNu64 " %" SCNu64 " %d", &i, &granted, &start, &end, &code) == 5) {
        if (i >= TG_DEMO_JOBS || b->task[i].recorded)
            continue;
        struct tg_demo_task *t = &b->task[i];
        t->job.granted_ns = granted;
        if (t->job.queued_ns == 0) /* granted before anybody saw it wait */
            t->job.queued_ns = granted;
        t->job.start_ns = start;
        t->job.end_ns = end;
        t->recorded_code = code;
        t->recorded = true;
        n++;
    }
    fclose(f);
    return n;
}
