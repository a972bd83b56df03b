/* SPDX-License-Identifier: Apache-2.0
 *
 * How busy the processors are, for the load gate: an estimate that follows measurements over a short window,
 * and that is moved at once by what is known without measuring: a grant adds what the job will take, an end
 * takes it away (O14: no lag, no swinging between full and idle). A count of runnable tasks catches those too
 * that run for a moment (a shell, a wrapper, the end of a process), and a build is full of them; so what
 * counts is the least of the last few, each moved by the grants and ends since: work that stays is in all
 * of them, and an idle moment counts at once. Pure like policy.h, which includes it: time
 * comes as an argument. Loads are in thousandths of a core's worth of work.
 */
#ifndef TIDEGATE_LOAD_GATE_H
#define TIDEGATE_LOAD_GATE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The window over which measurements are smoothed, and the age from which an estimate says nothing more. */
#define TG_LOAD_WINDOW_MS UINT64_C(250)
#define TG_LOAD_STALE_MS UINT64_C(3000)
/* How many measurements the least is taken of, and how far apart they are at least. */
#define TG_LOAD_LEAST_OF 3
#define TG_LOAD_APART_MS UINT64_C(50)

/* Zero-initialise. The owner is one thread's. */
struct tg_load_watch {
    uint64_t milli;                      /* the estimate */
    uint64_t past[TG_LOAD_LEAST_OF - 1]; /* measurements before the last, newest first */
    uint64_t last;                       /* the last one */
    uint64_t last_ms;                    /* when it was made */
    uint64_t seen_ms;                    /* of the last measurement taken in */
    uint64_t moved_ms;                   /* of the last grant or measurement */
    bool known;
    bool closed; /* the gate: it opens below its limit less a margin */
};

/* Whether the estimate is too old to decide by, or was never made. */
bool tg_load_is_stale(const struct tg_load_watch *w, uint64_t now_ms);
/* A measurement: begins anew when stale, else is taken in by its share of the window. */
void tg_load_see(struct tg_load_watch *w, uint64_t now_ms, uint64_t milli);
/* A job was granted that will take so much. */
void tg_load_granted(struct tg_load_watch *w, uint64_t now_ms, uint64_t milli);
/* A job that took so much has ended, and a count at this moment shows at_most (UINT64_MAX: none was made). */
void tg_load_ended(struct tg_load_watch *w, uint64_t milli, uint64_t at_most);
/* Brings the gate up to date: closes it at the limit, opens it below limit - margin. */
void tg_load_turn(struct tg_load_watch *w, uint64_t limit_milli, uint64_t margin_milli);
/* The margin for a limit: an eighth of it, at most half a core. */
uint64_t tg_load_margin(uint64_t limit_milli);

#ifdef __cplusplus
}
#endif
#endif
