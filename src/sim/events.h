/* SPDX-License-Identifier: Apache-2.0
 *
 * The event heap of a replay: the ends of running jobs, earliest first, ties in order of job index. The
 * storage is the caller's.
 */
#ifndef TG_SIM_EVENTS_H
#define TG_SIM_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tg_event {
    int64_t at;
    uint32_t job;
};

struct tg_events {
    struct tg_event *heap; /* room for as many as can ever be inside */
    size_t n;
};

static inline bool tg_event_before(struct tg_event a, struct tg_event b)
{
    return a.at != b.at ? a.at < b.at : a.job < b.job;
}

static inline void tg_events_push(struct tg_events *q, struct tg_event e)
{
    size_t k = q->n++;
    for (; k > 0 && tg_event_before(e, q->heap[(k - 1) / 2]); k = (k - 1) / 2)
        q->heap[k] = q->heap[(k - 1) / 2];
    q->heap[k] = e;
}

/* The heap must not be empty. */
static inline struct tg_event tg_events_pop(struct tg_events *q)
{
    struct tg_event top = q->heap[0], last = q->heap[--q->n];
    size_t k = 0;
    for (;;) {
        size_t child = 2 * k + 1;
        if (child >= q->n)
            break;
        if (child + 1 < q->n && tg_event_before(q->heap[child + 1], q->heap[child]))
            child++;
        if (!tg_event_before(q->heap[child], last))
            break;
        q->heap[k] = q->heap[child];
        k = child;
    }
    q->heap[k] = last;
    return top;
}

#endif
