/* SPDX-License-Identifier: Apache-2.0
 * See demo_view.h. */
#include "cli/demo_view.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

static const char *state_name(enum tg_demo_state s)
{
    static const char *const names[] = {"", "waits", "runs", "done"};
    return names[s];
}

/* What the queue last said, for after the word "waits": its texts begin with that themselves. */
static const char *reason(const struct tg_demo_task *t)
{
    static const char word[] = "waits";
    const char *text = t->why;
    if (strncmp(text, word, sizeof(word) - 1) == 0 && strchr(" :;", text[sizeof(word) - 1]))
        text += sizeof(word) - 1;
    return text + strspn(text, " :;");
}

static double seconds(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? (double)(to_ns - from_ns) / 1e9 : 0;
}

static void draw_row(unsigned i, const struct tg_demo_task *t)
{
    printf("\033[K  #%-2u %-8s %-9s %5" PRIu64 " MB  %-5s  %.60s\n", i + 1, t->name, t->level, t->job.est_mb,
           state_name(t->state), t->state == TG_DEMO_WAITING ? reason(t) : "");
}

static bool board_drawn;

static void draw_board(const struct tg_demo_board *b, uint64_t since_ns)
{
    if (board_drawn)
        printf("\033[%uA", TG_DEMO_JOBS + 1);
    board_drawn = true;
    unsigned done = 0;
    for (unsigned i = 0; i < TG_DEMO_JOBS; i++)
        done += b->task[i].state == TG_DEMO_ENDED;
    printf("\033[K  %.1f s, %u of %u jobs done\n", seconds(since_ns, tg_clock_read_ns(CLOCK_BOOTTIME)), done,
           TG_DEMO_JOBS);
    for (unsigned i = 0; i < TG_DEMO_JOBS; i++)
        draw_row(i, &b->task[i]);
    fflush(stdout);
}

void tg_demo_view_progress(const struct tg_demo *demo, const struct tg_demo_board *b, uint64_t since_ns)
{
    static enum tg_demo_state shown[TG_DEMO_JOBS];
    if (demo->tty) {
        draw_board(b, since_ns);
        return;
    }
    for (unsigned i = 0; i < TG_DEMO_JOBS; i++) {
        const struct tg_demo_task *t = &b->task[i];
        if (t->state == shown[i] || t->state == TG_DEMO_NEW)
            continue;
        shown[i] = t->state;
        printf("  %6.2f s  #%-2u %-8s %-9s %-5s %s\n", seconds(since_ns, tg_clock_read_ns(CLOCK_BOOTTIME)),
               i + 1, t->name, t->level, state_name(t->state), t->state == TG_DEMO_WAITING ? reason(t) : "");
    }
    fflush(stdout);
}

void tg_demo_view_end(const struct tg_demo *demo, const struct tg_demo_board *b)
{
    if (demo->tty && board_drawn)
        draw_board(b, 0);
    board_drawn = false;
}

enum { COLUMNS = 56 };

static uint64_t last_end(const struct tg_demo_board *b)
{
    uint64_t last = 0;
    for (unsigned i = 0; i < TG_DEMO_JOBS; i++)
        last = b->task[i].job.end_ns > last ? b->task[i].job.end_ns : last;
    return last;
}

static unsigned column(uint64_t t, uint64_t from, uint64_t to)
{
    if (t <= from)
        return 0;
    double c = (double)(t - from) * COLUMNS / (double)(to - from);
    return c >= COLUMNS ? COLUMNS - 1 : (unsigned)c;
}

static void draw_bar(const struct tg_demo_job *j, uint64_t from, uint64_t to, char bar[COLUMNS + 1])
{
    memset(bar, ' ', COLUMNS);
    bar[COLUMNS] = '\0';
    unsigned q = column(j->queued_ns, from, to), s = column(j->start_ns, from, to),
             e = column(j->end_ns, from, to);
    for (unsigned c = q; c < s; c++)
        bar[c] = '.';
    for (unsigned c = s; c <= e; c++)
        bar[c] = '#';
}

/* The waiters this job passed, as "before #4". */
static void print_passed(const struct tg_demo_board *b, unsigned i)
{
    const struct tg_demo_job *j = &b->task[i].job;
    const char *lead = "  backfilled before";
    for (unsigned k = 0; k < TG_DEMO_JOBS; k++) {
        const struct tg_demo_job *w = &b->task[k].job;
        if (k == i || !tg_demo_outranks(w, j) || w->queued_ns >= j->granted_ns ||
            j->granted_ns >= w->granted_ns)
            continue;
        printf("%s #%u", lead, k + 1);
        lead = ",";
    }
}

void tg_demo_view_timeline(const struct tg_demo_board *b, uint64_t since_ns)
{
    unsigned order[TG_DEMO_JOBS];
    uint64_t end = last_end(b);
    for (unsigned i = 0; i < TG_DEMO_JOBS; i++) {
        unsigned at = i;
        for (; at > 0 && b->task[order[at - 1]].job.granted_ns > b->task[i].job.granted_ns; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    printf("\n  timeline, 0 to %.2f s, in order of start (. waits, # runs)\n", seconds(since_ns, end));
    for (unsigned k = 0; k < TG_DEMO_JOBS; k++) {
        const struct tg_demo_task *t = &b->task[order[k]];
        char bar[COLUMNS + 1];
        draw_bar(&t->job, since_ns, end > since_ns ? end : since_ns + 1, bar);
        printf("  #%-2u %-8s %-8s %4" PRIu64 " MB |%s|", order[k] + 1, t->name, t->level, t->job.est_mb, bar);
        print_passed(b, order[k]);
        printf("\n");
    }
    printf("\n  the last reason each one gave for waiting:\n");
    for (unsigned k = 0; k < TG_DEMO_JOBS; k++) {
        const struct tg_demo_task *t = &b->task[order[k]];
        printf("  #%-2u waited %5.2f s  %s\n", order[k] + 1, seconds(t->job.queued_ns, t->job.granted_ns),
               reason(t));
    }
}
