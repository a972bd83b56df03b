/* SPDX-License-Identifier: Apache-2.0
 *
 * `tidegate engine run`, the feeder: lines from a file or standard input, decoded and published, never more
 * at a time than engine_run.h allows. Bad lines are named with file, line and rule. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "cli/cli.h"
#include "cli/engine_run.h"

#define VERB "engine run"
#define TICK_NS UINT64_C(100000000)
#define READ_BYTES 65536u
#define DRAIN_NS UINT64_C(60000000000)

/* ---- Lines -------------------------------------------------------------------------------------------- */

struct reader {
    int fd;
    const char *name;
    char *buffer; /* TG_RUN_LINE_MAX + READ_BYTES */
    size_t from, to;
    bool ended;
    uint64_t line;
};

static int reader_open(struct reader *r, const char *file)
{
    bool standard = strcmp(file, "-") == 0;
    *r = (struct reader){.name = standard ? "standard input" : file};
    r->fd = standard ? STDIN_FILENO : open(file, O_RDONLY | O_CLOEXEC);
    if (r->fd < 0)
        return -errno;
    r->buffer = malloc(TG_RUN_LINE_MAX + READ_BYTES);
    return r->buffer ? 0 : -ENOMEM;
}

static void reader_close(struct reader *r)
{
    if (r->fd > STDIN_FILENO)
        close(r->fd);
    free(r->buffer);
}

static int reader_fill(struct reader *r)
{
    memmove(r->buffer, r->buffer + r->from, r->to - r->from);
    r->to -= r->from;
    r->from = 0;
    ssize_t n;
    do
        n = read(r->fd, r->buffer + r->to, READ_BYTES);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    r->ended = n == 0;
    r->to += (size_t)n;
    return 0;
}

/* The next line without its end: 1 and *ret, 0 at the end of the input, -E2BIG for a line that is too long
 * (it is passed over), or an error of read. */
static int reader_next(struct reader *r, const char **ret, size_t *ret_len)
{
    size_t looked = 0;
    bool too_long = false;
    for (;;) {
        char *end = memchr(r->buffer + r->from + looked, '\n', r->to - r->from - looked);
        if (end || (r->ended && r->to > r->from)) {
            *ret = r->buffer + r->from;
            *ret_len = end ? (size_t)(end - *ret) : r->to - r->from;
            r->from += *ret_len + (end ? 1 : 0);
            r->line++;
            return too_long || *ret_len > TG_RUN_LINE_MAX ? -E2BIG : 1;
        }
        if (r->ended) {
            r->line += too_long ? 1 : 0;
            return too_long ? -E2BIG : 0;
        }
        if (r->to - r->from > TG_RUN_LINE_MAX) {
            too_long = true;
            r->from = r->to;
        }
        looked = r->to - r->from;
        int error = reader_fill(r);
        if (error)
            return error;
    }
}

static bool is_blank(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r')
            return false;
    return true;
}

/* ---- Room --------------------------------------------------------------------------------------------- */

static void tick(struct tg_run *run)
{
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    uint64_t ns = (uint64_t)end.tv_nsec + TICK_NS;
    end.tv_sec += (time_t)(ns / 1000000000);
    end.tv_nsec = (long)(ns % 1000000000);
    pthread_cond_timedwait(&run->changed, &run->lock, &end);
}

/* Is every entry that is not collected one of a tenant that may not run? Under the lock. */
static bool only_blocked(struct tg_run *run)
{
    static struct tg_engine_stats stats;
    tg_engine_stats(run->engine, &stats);
    for (uint32_t t = 0; t < TG_TENANTS; t++)
        if (run->waiting_of[t] != 0 && stats.tenant[t].authorised && stats.tenant[t].quota != 0)
            return false;
    return true;
}

/* Was the engine shut down? Then what is published from now on is refused, and what was may be handed back.
 */
static bool is_stopped(const struct tg_run *run)
{
    const void *control;
    tg_engine_buffers(run->engine, NULL, NULL, &control, NULL, NULL, NULL);
    return tg_load_acquire_u32((const uint32_t *)control + TG_CONTROL_SHUTDOWN) != 0; /* K10 */
}

/* Sleeps until done(run, ...) holds (true). False: nothing moves any more, or the output is gone. Under the
 * lock. */
static bool wait_until(struct tg_run *run, bool (*done)(const struct tg_run *, uint32_t, uint32_t),
                       uint32_t level, uint32_t slots)
{
    uint64_t seen = run->collected, since = tg_clock_mono_ns();
    while (!done(run, level, slots)) {
        if (run->failed)
            return false;
        tick(run);
        uint64_t now = tg_clock_mono_ns();
        if (run->collected != seen || run->io_busy) {
            seen = run->collected;
            since = now;
        } else if (now - since >= run->stall_ms * 1000000 ||
                   (now - since >= TICK_NS && (is_stopped(run) || only_blocked(run)))) {
            return false;
        }
    }
    return true;
}

static bool has_room(const struct tg_run *run, uint32_t level, uint32_t slots)
{
    return run->queued < TG_RUN_QUEUE_MAX && run->in_use[level] + slots <= run->window[level];
}

static bool all_collected(const struct tg_run *run, uint32_t level, uint32_t slots)
{
    (void)level;
    (void)slots;
    return run->queued == 0;
}

bool tg_run_wait_collected(struct tg_run *run)
{
    pthread_mutex_lock(&run->lock);
    bool ok = wait_until(run, all_collected, 0, 0);
    pthread_mutex_unlock(&run->lock);
    return ok;
}

/* Room for these slots of the level (0: only a place in the queue). */
static int make_room(struct tg_run *run, uint32_t level, uint32_t slots)
{
    pthread_mutex_lock(&run->lock);
    bool ok = wait_until(run, has_room, level, slots), failed = run->failed;
    if (ok)
        run->in_use[level] += slots;
    pthread_mutex_unlock(&run->lock);
    if (ok || failed)
        return ok ? 0 : -EPIPE;
    if (is_stopped(run))
        return -ESHUTDOWN;
    tg_complain(
        VERB,
        "stopped reading: nothing has finished for a while and the %s level has no slot left (tenants "
        "that may not run keep theirs)",
        tg_cli_level_name(level));
    return -ETIMEDOUT;
}

static void enqueue(struct tg_run *run, struct tg_run_entry *entry)
{
    pthread_mutex_lock(&run->lock);
    run->queued++;
    if (!entry->word)
        run->waiting_of[entry->tenant]++;
    *run->last = entry;
    run->last = &entry->next;
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->lock);
}

/* ---- Publishing --------------------------------------------------------------------------------------- */

/* An entry that was not published. */
static int enqueue_word(struct tg_run *run, uint64_t line, const char *word, const char *why, char *id)
{
    struct tg_run_entry *entry = calloc(1, sizeof(*entry));
    char *copy = strdup(why);
    int r = entry && copy ? make_room(run, 0, 0) : -ENOMEM;
    if (r) {
        free(entry);
        free(copy);
        free(id);
        return r;
    }
    entry->line = line;
    entry->word = word;
    entry->why = copy;
    entry->id = id;
    entry->part = &entry->one;
    enqueue(run, entry);
    return 0;
}

static int submit(struct tg_run *run, const struct tg_cli_line *in, struct tg_run_entry *entry)
{
    struct tg_engine *e = run->engine;
    if (in->batch) {
        struct tg_item *tickets = calloc(in->count + 1, sizeof(*tickets));
        if (!tickets)
            return -ENOMEM;
        int r = tg_engine_submit_batch_items(e, in->tenant, in->priority, in->item, in->count, in->tag,
                                             tickets, &tickets[in->count]);
        for (uint32_t i = 0; i <= in->count; i++)
            entry->part[i].ticket = tickets[i];
        free(tickets);
        return r;
    }
    if (in->load_miss)
        return tg_engine_submit_load_miss(e, in->item->args[0], in->item->args[1], &entry->one.ticket);
    return tg_engine_submit(e, in->tenant, in->priority, in->item->opcode, in->item->args,
                            (uint32_t)in->item->arg_count, &entry->one.ticket);
}

/* Publishes; a level whose slots are all free but not yet handed back by the workers answers -EAGAIN for a
 * moment. */
static int publish(struct tg_run *run, const struct tg_cli_line *in, struct tg_run_entry *entry)
{
    for (;;) {
        int r = submit(run, in, entry);
        if (r != -EAGAIN)
            return r;
        r = tg_engine_wait_space(run->engine, in->priority, TICK_NS);
        if (r && r != -ETIMEDOUT)
            return r;
    }
}

static struct tg_run_entry *entry_for(const struct tg_cli_line *in, uint64_t line)
{
    struct tg_run_entry *entry = calloc(1, sizeof(*entry));
    if (!entry)
        return NULL;
    *entry = (struct tg_run_entry){.line = line, .level = in->priority, .tenant = in->tenant};
    entry->batch = in->batch;
    entry->count = entry->open = in->count + (in->batch ? 1 : 0);
    entry->part = in->batch ? calloc(entry->count, sizeof(*entry->part)) : &entry->one;
    if (!entry->part) {
        free(entry);
        return NULL;
    }
    return entry;
}

/* A line that could be decoded. */
static int take_line(struct tg_run *run, struct tg_cli_line *in, uint64_t line)
{
    struct tg_run_entry *entry = entry_for(in, line);
    int r = entry ? make_room(run, in->priority, entry->count) : -ENOMEM;
    if (!r) {
        r = publish(run, in, entry);
        if (!r) {
            entry->id = in->id;
            in->id = NULL;
            enqueue(run, entry);
            return 0;
        }
        pthread_mutex_lock(&run->lock);
        run->in_use[in->priority] -= entry->count;
        pthread_mutex_unlock(&run->lock);
    }
    if (entry && entry->part != &entry->one)
        free(entry->part);
    free(entry);
    if (r != -ESHUTDOWN && r != -ETIMEDOUT)
        return r;
    /* Nothing is dropped without a word: this line, and those that follow in a stopped engine. What was
     * published before ends now, so that all of it can be collected. */
    if (r == -ESHUTDOWN)
        tg_engine_drain(run->engine, DRAIN_NS, NULL);
    char *id = in->id;
    in->id = NULL;
    int told = enqueue_word(run, line, "refused",
                            r == -ESHUTDOWN ? "the engine was shut down" : "no slot became free", id);
    return told ? told : r == -ESHUTDOWN ? 0 : r;
}

static bool fits(const struct tg_run *run, const struct tg_cli_line *in, char *why)
{
    uint32_t need = in->count + (in->batch ? 1u : 0u);
    if (need <= run->window[in->priority])
        return true;
    snprintf(why, TG_CLI_WHY_BYTES,
             "it needs %" PRIu32 " slots of the %s level at once; with --slots %" PRIu32
             " that level can give %" PRIu32,
             need, tg_cli_level_name(in->priority), run->engine_options.slots, run->window[in->priority]);
    return false;
}

/* Names the line; with --keep-going it also becomes a result. */
static int malformed(struct tg_run *run, const struct reader *r, const char *why)
{
    tg_complain(VERB, "%.200s:%" PRIu64 ": %s", r->name, r->line, why);
    return run->keep_going ? enqueue_word(run, r->line, "malformed", why, NULL) : 0;
}

/* One line; *bad counts the malformed ones. */
static int feed_line(struct tg_run *run, const struct reader *r, const char *text, size_t len, uint64_t *bad)
{
    struct tg_cli_line in;
    char why[TG_CLI_WHY_BYTES];
    int error = tg_cli_line_parse(text, len, &in, why);
    if (error == 0 && !fits(run, &in, why)) {
        tg_cli_line_free(&in);
        error = -EINVAL;
    }
    if (error == -EINVAL) {
        ++*bad;
        return malformed(run, r, why);
    }
    if (!error) {
        error = take_line(run, &in, r->line);
        tg_cli_line_free(&in);
    }
    return error;
}

static int feed_all(struct tg_run *run, struct reader *r)
{
    uint64_t bad = 0;
    int error = 0;
    while (!error && (bad == 0 || run->keep_going)) {
        const char *text = NULL;
        size_t len = 0;
        int got = reader_next(r, &text, &len);
        if (got == 0)
            break;
        if (got == -E2BIG) {
            bad++;
            error = malformed(run, r, "the line is longer than 1 MiB");
        } else if (got < 0) {
            tg_complain(VERB, "cannot read %.200s: %s", r->name, strerror(-got));
            return TG_EXIT_FAILED;
        } else if (!is_blank(text, len)) {
            error = feed_line(run, r, text, len, &bad);
        }
    }
    if (error && error != -ETIMEDOUT && error != -EPIPE) /* those were told, or will be */
        tg_complain(VERB, "%.200s:%" PRIu64 ": %s", r->name, r->line, strerror(-error));
    return error ? TG_EXIT_FAILED : bad ? TG_EXIT_USAGE : TG_EXIT_OK;
}

int tg_run_feed(struct tg_run *run)
{
    struct reader r;
    int error = reader_open(&r, run->file);
    if (error)
        tg_complain(VERB, "cannot read %.200s: %s", r.name, strerror(-error));
    int code = error ? TG_EXIT_FAILED : feed_all(run, &r);
    reader_close(&r);
    return code;
}
