/* SPDX-License-Identifier: Apache-2.0
 *
 * The launch-plane half of the demo (A1, A2, A3, A10 seen from outside): sixteen real commands at mixed
 * priorities, three slots, a memory budget, one job that is too big to start at once. See demo_launch.h.
 */
#include "cli/demo_launch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/demo_jobs.h"
#include "client/tool.h"
#include "cli/demo_view.h"

/* The limits are for what hangs: it takes seconds, and minutes on a machine that others keep busy. */
enum { TICK_MS = 100, TOOL_LIMIT_MS = 60000, PLANE_LIMIT_MS = 240000, BUDGET_MB = 1000 };

void tg_demo_check(struct tg_demo *demo, bool held, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    printf("  %s  ", held ? "ok    " : "FAILED");
    vprintf(format, ap);
    printf("\n");
    va_end(ap);
    fflush(stdout);
    demo->failed += !held;
}

static int set_config(const struct tg_demo *demo, const char *key, uint64_t value)
{
    static char verb[] = "config";
    char text[32];
    snprintf(text, sizeof(text), "%" PRIu64, value);
    char *argv[] = {(char *)demo->exe, verb, (char *)key, value == UINT64_MAX ? (char *)"off" : text, NULL};
    int rc = tg_tool_run(argv, TOOL_LIMIT_MS, NULL);
    if (rc != 0)
        fprintf(stderr, "tidegate demo: `config %s` failed (%d)\n", key, rc);
    return rc == 0 ? 0 : -EIO;
}

/* The queue's own word, or NULL. */
static json_t *read_status(const struct tg_demo *demo)
{
    static char verb[] = "status", json[] = "--json";
    char *argv[] = {(char *)demo->exe, verb, json, NULL};
    char *text = NULL;
    json_t *status = NULL;
    if (tg_tool_run(argv, TOOL_LIMIT_MS, &text) == 0 && text)
        status = json_loads(text, 0, NULL);
    free(text);
    return status;
}

/* A budget that this machine, however busy, has to spare: then only our own jobs decide who fits. */
static uint64_t choose_budget(const struct tg_demo *demo)
{
    json_t *status = read_status(demo);
    json_t *memory = json_object_get(json_object_get(status, "gates"), "memory");
    json_int_t available = json_integer_value(json_object_get(memory, "available_mb"));
    json_decref(status);
    if (available <= 0)
        return 0;
    return available / 4 > BUDGET_MB ? BUDGET_MB : (uint64_t)available / 4;
}

static int configure(const struct tg_demo *demo, struct tg_demo_board *b)
{
    uint64_t budget = choose_budget(demo);
    if (budget < 10) {
        fprintf(stderr, "tidegate demo: this machine has less than 40 MB of memory available\n");
        return -ENOMEM;
    }
    tg_demo_board_init(b, demo, budget);
    int err = set_config(demo, "slots", 0); /* nobody starts before all are there */
    err = err ? err : set_config(demo, "load", UINT64_MAX);
    err = err ? err : set_config(demo, "floor-mb", 0);
    err = err ? err : set_config(demo, "budget-mb", b->limits.budget_mb);
    err = err ? err : set_config(demo, "backfill-mb", 3 * b->unit_mb);
    return err ? err : set_config(demo, "overtake-bound", b->limits.overtake_bound);
}

/* Looks at the queue, shows it, and waits one tick. The number of waiters, or -1 without an answer. */
static int look(struct tg_demo *demo, struct tg_demo_board *b, uint64_t since_ns)
{
    json_t *status = read_status(demo);
    int waiting = status ? (int)tg_demo_take_status(b, status) : -1;
    json_decref(status);
    tg_demo_view_progress(demo, b, since_ns);
    return waiting;
}

static int enqueue_early(struct tg_demo *demo, struct tg_demo_board *b, uint64_t since_ns, uint64_t limit_ns)
{
    int waiting = 0;
    for (unsigned i = 0; i < TG_DEMO_EARLY_JOBS; i++) {
        int err = tg_demo_start_job(b, demo, i);
        if (err)
            return err;
        /* One after the other, so that the order of arrival is known from outside. */
        do {
            waiting = look(demo, b, since_ns);
            if (tg_demo_interrupted() || tg_clock_mono_ns() > limit_ns)
                return -ETIMEDOUT;
        } while (waiting < (int)i + 1 && tg_demo_reap(b) == i + 1);
        if (waiting < (int)i + 1)
            return -EIO;
    }
    return 0;
}

/* Lets the queue work, and adds the late ones. */
static int run_all(struct tg_demo *demo, struct tg_demo_board *b, uint64_t since_ns, uint64_t limit_ns)
{
    unsigned late = TG_DEMO_EARLY_JOBS;
    int err = set_config(demo, "slots", b->limits.slots);
    while (!err) {
        unsigned left = tg_demo_reap(b);
        look(demo, b, since_ns);
        if (late < TG_DEMO_JOBS && left <= TG_DEMO_EARLY_JOBS - 3 * (late - TG_DEMO_EARLY_JOBS + 1))
            err = tg_demo_start_job(b, demo, late++);
        else if (left == 0 && late == TG_DEMO_JOBS)
            break;
        if (tg_demo_interrupted() || tg_clock_mono_ns() > limit_ns)
            return -ETIMEDOUT;
        poll(NULL, 0, demo->tty ? TICK_MS : TICK_MS / 4); /* the rate at which a person is shown news */
    }
    return err;
}

static void judge(struct tg_demo *demo, const struct tg_demo_board *b)
{
    struct tg_demo_job jobs[TG_DEMO_JOBS];
    unsigned bad = 0, big = 0;
    size_t x = 0, y = 0;
    for (unsigned i = 0; i < TG_DEMO_JOBS; i++) {
        jobs[i] = b->task[i].job;
        bad += b->task[i].recorded_code != 0 || b->task[i].exit_code != 0;
        if (b->task[i].units > b->task[big].units)
            big = i;
    }
    tg_demo_check(demo, bad == 0, "all %u commands ended with 0, and `run` exited as they did", TG_DEMO_JOBS);
    uint32_t most = tg_demo_most_at_once(jobs, TG_DEMO_JOBS);
    tg_demo_check(demo, most <= b->limits.slots, "at most %u at once: %u seen", b->limits.slots, most);
    uint64_t mb = tg_demo_most_memory(jobs, TG_DEMO_JOBS);
    tg_demo_check(demo, mb <= b->limits.budget_mb,
                  "memory budget %" PRIu64 " MB: at most %" PRIu64 " MB promised", b->limits.budget_mb, mb);
    size_t faults = tg_demo_order_faults(jobs, TG_DEMO_JOBS, &b->limits, &x, &y);
    tg_demo_check(demo, faults == 0, "priority, then arrival: %zu out of order", faults);
    if (faults)
        printf("          #%zu outranks #%zu, fitted, and was started later\n", x + 1, y + 1);
    uint32_t passed = tg_demo_times_passed(jobs, TG_DEMO_JOBS, big);
    tg_demo_check(demo, passed <= b->limits.overtake_bound,
                  "#%u (%" PRIu64 " MB) was passed %u times, bound %u", big + 1, jobs[big].est_mb, passed,
                  b->limits.overtake_bound);
}

int tg_demo_launch(struct tg_demo *demo)
{
    static struct tg_demo_board board;
    int err = configure(demo, &board);
    if (err)
        return err;
    int fd = open(board.record_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    close(fd);
    printf("launch plane: %u commands over %zu files, %u slots, %" PRIu64 " MB to give away, bound %u\n",
           TG_DEMO_JOBS, demo->files.count, board.limits.slots, board.limits.budget_mb,
           board.limits.overtake_bound);
    uint64_t since = tg_clock_read_ns(CLOCK_BOOTTIME);
    uint64_t limit = tg_clock_mono_ns() + (uint64_t)PLANE_LIMIT_MS * 1000000;
    err = enqueue_early(demo, &board, since, limit);
    if (!err)
        err = run_all(demo, &board, since, limit);
    tg_demo_view_end(demo, &board);
    if (err) {
        fprintf(stderr, "tidegate demo: the jobs did not come to their end: %s\n", strerror(-err));
        tg_demo_kill_all(&board);
        return err;
    }
    unsigned recorded = tg_demo_read_records(&board);
    tg_demo_check(demo, recorded == TG_DEMO_JOBS, "every job left its record: %u of %u", recorded,
                  TG_DEMO_JOBS);
    if (recorded == TG_DEMO_JOBS) {
        tg_demo_view_timeline(&board, since);
        printf("\n");
        judge(demo, &board);
    }
    return 0;
}
