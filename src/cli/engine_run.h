/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside `tidegate engine run`: the feeder (main thread) reads lines and publishes, the collector (a thread)
 * waits for what was published and prints, one IO thread serves LOAD_MISS. Between feeder and collector lies
 * a bounded queue, so memory does not grow with the input.
 *
 * Why no outcome is lost. A ticket's outcome is exact until its slot was used again, so no slot may be used
 * again before its outcome was read. The free slots of a level are a queue: a slot that was freed comes
 * again only after all that were free at that moment, and each of those was given to a line that is not
 * collected yet (the collector goes through its tickets oldest first, and those that are published during a
 * pass are not in it). The feeder lets at most 7/16 of a level's slots be uncollected, and workers keep at
 * most 1/16 of them back; so more than half of them are free at any moment, and more than 7/16 lines would
 * have to be uncollected before the slot comes again.
 */
#ifndef TG_CLI_ENGINE_RUN_H
#define TG_CLI_ENGINE_RUN_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/engine.h"
#include "cli/engine_body.h"
#include "cli/engine_text.h"

enum tg_run_end { TG_RUN_OPEN, TG_RUN_DONE, TG_RUN_FAULT, TG_RUN_HANDED_BACK, TG_RUN_REFUSED, TG_RUN_ENDS };

/* One published item and how it ended. */
struct tg_run_part {
    struct tg_item ticket;
    struct tg_fault fault;
    enum tg_run_end end;
};

/* One line of the input: its item, or the items of its batch and the fence. */
struct tg_run_entry {
    uint64_t line;
    char *id;         /* JSON text or NULL */
    const char *word; /* not NULL: it was not published; "refused" or "malformed" */
    char *why;        /* then: the reason */
    bool batch;
    uint32_t level, tenant;
    uint32_t count; /* parts; the fence is the last one of a batch */
    uint32_t open;  /* those whose end is not known */
    struct tg_run_part *part;
    struct tg_run_part one;
    struct tg_run_entry *next;
};

struct tg_run {
    /* Options. */
    const char *file;
    struct tg_engine_options engine_options;
    uint32_t cpus[64];
    bool in_completion_order, keep_going;
    const char *dfa_file, *io_dir;
    const char *save_ring, *save_control, *save_log;
    enum { TG_SUMMARY_TEXT, TG_SUMMARY_JSON, TG_SUMMARY_NONE } summary;
    uint64_t stall_ms;
    struct tg_bodies *bodies; /* NULL: no --body */
    struct tg_cli_text text;

    struct tg_kernel *kernel;
    struct tg_engine *engine;
    uint32_t *dfa;
    int io_dir_fd;
    bool progress; /* standard error is a terminal */
    uint64_t started_ns;
    uint32_t window[TG_PRIORITY_LEVELS]; /* slots of the level that may be uncollected */

    pthread_mutex_t lock;
    pthread_cond_t changed; /* anything below */
    struct tg_run_entry *first, **last;
    uint32_t queued; /* entries not collected */
    uint32_t in_use[TG_PRIORITY_LEVELS];
    uint64_t waiting_of[TG_TENANTS]; /* entries of a tenant whose end is not known */
    uint64_t collected;
    bool fed;   /* no entry will follow */
    int failed; /* errno: why standard output cannot be written; 0: it can */
    bool io_busy;

    /* The collector's, then the summary's. */
    uint64_t lines, items, ends[TG_RUN_ENDS], malformed;
};

#define TG_RUN_QUEUE_MAX 8192u
#define TG_RUN_LINE_MAX (1u << 20)

/* engine_feed.c: reads and publishes until the end of the input. TG_EXIT_OK, TG_EXIT_USAGE for malformed
 * input, TG_EXIT_FAILED; a complaint was made. */
int tg_run_feed(struct tg_run *run);
/* Waits until everything is collected (true), or nothing moves any more. */
bool tg_run_wait_collected(struct tg_run *run);

/* engine_collect.c: the collector's thread. */
void *tg_run_collect(void *run);

/* engine_summary.c */
void tg_run_progress(const struct tg_run *run);
void tg_run_print_summary(struct tg_run *run);

#endif
