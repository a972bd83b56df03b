/* SPDX-License-Identifier: Apache-2.0
 * GLib's GAsyncQueue. It holds pointers and has no bound: each item is allocated by its producer and freed by
 * its consumer, and a producer waits while BENCH_CELLS are on their way. */
#include <glib.h>

#include "engine/queues.h"

static GAsyncQueue *queue;
static _Alignas(64) guint taken;
static _Alignas(64) guint done;

static void open_queue(void)
{
    queue = g_async_queue_new();
    taken = done = 0;
}

static void close_queue(void)
{
    g_async_queue_unref(queue);
}

static void push(const struct bench_item *item)
{
    guint at = (guint)g_atomic_int_add(&taken, 1);
    while ((gint)(at - (guint)g_atomic_int_get(&done)) >= (gint)BENCH_CELLS)
        bench_idle();
    struct bench_item *copy = g_new(struct bench_item, 1);
    *copy = *item;
    g_async_queue_push(queue, copy);
}

static void pop(struct bench_item *item)
{
    struct bench_item *copy = g_async_queue_pop(queue);
    *item = *copy;
    g_free(copy);
    g_atomic_int_inc(&done);
}

const struct bench_queue bench_gasync = {"g_async_queue", false,       false, 0.15,
                                         open_queue,      close_queue, push,  pop};
