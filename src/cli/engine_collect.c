/* SPDX-License-Identifier: Apache-2.0
 *
 * `tidegate engine run`, the collector: takes entries in the order of their lines, waits until they ended,
 * prints one JSON object a line, in the order of the input or of completion. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "cli/engine_run.h"

/* How long one wait is: in input order only progress is shown in between; in completion order it bounds how
 * long another item's end goes unnoticed while the oldest one runs. */
#define SLICE_NS UINT64_C(200000000)
#define LOOK_NS UINT64_C(1000000)
#define PROGRESS_NS UINT64_C(200000000)

static const char *const end_names[TG_RUN_ENDS] = {"open", "done", "fault", "handed_back", "refused"};

/* Reads how the parts of an entry ended, those that did. */
static void look(struct tg_run *run, struct tg_run_entry *entry)
{
    for (uint32_t i = 0; i < entry->count && entry->open > 0; i++) {
        struct tg_run_part *part = &entry->part[i];
        if (part->end != TG_RUN_OPEN)
            continue;
        int r = tg_engine_poll(run->engine, &part->ticket);
        if (r == -EINPROGRESS)
            continue;
        part->end = r == 0 ? TG_RUN_DONE : r == -EIO ? TG_RUN_FAULT : TG_RUN_HANDED_BACK;
        if (r == -EIO)
            tg_engine_fault(run->engine, &part->ticket, &part->fault);
        entry->open--;
        if (entry->open == 0) {
            pthread_mutex_lock(&run->lock);
            run->waiting_of[entry->tenant]--;
            pthread_mutex_unlock(&run->lock);
        }
    }
}

static void print_end(const struct tg_run_part *part)
{
    printf("\"status\": \"%s\"", end_names[part->end]);
    if (part->end == TG_RUN_FAULT)
        printf(", \"reason\": \"%s\", \"reason_code\": %" PRIu32 ", \"detail\": %" PRIu32
               ", \"inner_op\": %" PRIu32,
               tg_fault_text(part->fault.reason), part->fault.reason, part->fault.detail,
               part->fault.inner_op);
}

static void print_entry(const struct tg_run_entry *entry)
{
    printf("{\"line\": %" PRIu64, entry->line);
    if (entry->id)
        printf(", \"id\": %s", entry->id);
    if (entry->word) {
        json_t *why = json_string(entry->why);
        char *text = why ? json_dumps(why, JSON_ENCODE_ANY) : NULL;
        printf(", \"status\": \"%s\", \"reason\": %s}\n", entry->word, text ? text : "null");
        free(text);
        json_decref(why);
        return;
    }
    printf(", ");
    print_end(&entry->part[entry->count - 1]);
    if (entry->batch) {
        printf(", \"items\": [");
        for (uint32_t i = 0; i + 1 < entry->count; i++) {
            printf(i ? ", {" : "{");
            print_end(&entry->part[i]);
            printf("}");
        }
        printf("]");
    }
    printf("}\n");
}

static void count(struct tg_run *run, const struct tg_run_entry *entry)
{
    run->lines++;
    if (entry->word) {
        if (entry->word[0] == 'm')
            run->malformed++;
        else
            run->ends[TG_RUN_REFUSED]++;
        return;
    }
    for (uint32_t i = 0; i < entry->count; i++)
        run->ends[entry->part[i].end]++;
    run->items += entry->count;
}

/* Why the output fails, right after it did. */
static int write_error(void)
{
    if (!ferror(stdout))
        return 0;
    return errno ? errno : EIO;
}

static void flush(struct tg_run *run)
{
    errno = 0;
    fflush(stdout);
    int error = write_error();
    pthread_mutex_lock(&run->lock);
    if (!run->failed)
        run->failed = error;
    pthread_mutex_unlock(&run->lock);
}

static void collected(struct tg_run *run, struct tg_run_entry *entry)
{
    errno = 0;
    print_entry(entry);
    int error = write_error();
    count(run, entry);
    pthread_mutex_lock(&run->lock);
    run->queued--;
    run->collected++;
    run->in_use[entry->level] -= entry->count;
    if (!run->failed)
        run->failed = error;
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->lock);
    if (entry->part != &entry->one)
        free(entry->part);
    free(entry->id);
    free(entry->why);
    free(entry);
}

/* Moves what the feeder queued behind the collector's own list; false when there is nothing at all and
 * nothing will come. */
static bool take(struct tg_run *run, struct tg_run_entry ***last, bool may_wait)
{
    pthread_mutex_lock(&run->lock);
    if (may_wait && !run->first) {
        errno = 0;
        fflush(stdout); /* whoever feeds us may wait for this answer */
        if (!run->failed)
            run->failed = write_error();
        while (!run->first && !run->fed)
            pthread_cond_wait(&run->changed, &run->lock);
    }
    bool got = run->first != NULL;
    if (got) {
        **last = run->first;
        *last = run->last;
        run->first = NULL;
        run->last = &run->first;
    }
    pthread_mutex_unlock(&run->lock);
    return got;
}

/* One pass over the list, which holds what was there when it began; prints what ended. In input order an
 * entry is printed only when all before it were; stuck says to look at those behind it all the same. Returns
 * how many were printed. */
static uint32_t pass(struct tg_run *run, struct tg_run_entry **list, struct tg_run_entry ***last, bool stuck)
{
    bool printing = true;
    uint32_t n = 0;
    struct tg_run_entry **at = list;
    while (*at) {
        struct tg_run_entry *entry = *at;
        look(run, entry);
        if (entry->open > 0 && !run->in_completion_order)
            printing = false;
        if (!printing && !stuck)
            break;
        if (entry->open > 0 || !printing) {
            at = &entry->next;
            continue;
        }
        *at = entry->next;
        if (*last == &entry->next)
            *last = at;
        collected(run, entry);
        n++;
    }
    return n;
}

static void wait_for(struct tg_run *run, const struct tg_run_entry *entry, uint64_t ns)
{
    for (uint32_t i = 0; i < entry->count; i++) {
        if (entry->part[i].end == TG_RUN_OPEN) {
            flush(run);
            tg_engine_wait(run->engine, &entry->part[i].ticket, ns);
            return;
        }
    }
}

void *tg_run_collect(void *context)
{
    struct tg_run *run = context;
    struct tg_run_entry *list = NULL, **last = &list;
    uint64_t shown = 0;
    bool stuck = false;
    while (take(run, &last, list == NULL) || list) {
        bool moved = pass(run, &list, &last, stuck) > 0;
        uint64_t now = run->progress ? tg_clock_mono_ns() : 0;
        if (run->progress && now - shown >= PROGRESS_NS) {
            shown = now;
            tg_run_progress(run);
        }
        stuck = !moved && list;
        if (stuck)
            wait_for(run, list, run->in_completion_order ? LOOK_NS : SLICE_NS);
    }
    flush(run);
    return NULL;
}
