/* SPDX-License-Identifier: Apache-2.0
 * oneTBB's bounded queue, and its priority queue, which has no bound and cannot wait: a producer idles while
 * it holds BENCH_CELLS items, a consumer while it is empty. */
#include <oneapi/tbb/concurrent_priority_queue.h>
#include <oneapi/tbb/concurrent_queue.h>

#include "engine/queues.h"

namespace
{

struct less_urgent {
    bool operator()(const bench_item &a, const bench_item &b) const { return a.words[3] > b.words[3]; }
};

tbb::concurrent_bounded_queue<bench_item> *bounded;
tbb::concurrent_priority_queue<bench_item, less_urgent> *ordered;

void bounded_open()
{
    bounded = new tbb::concurrent_bounded_queue<bench_item>;
    bounded->set_capacity(BENCH_CELLS);
}

void bounded_close()
{
    delete bounded;
}

void bounded_push(const bench_item *item)
{
    bounded->push(*item);
}

void bounded_pop(bench_item *item)
{
    bounded->pop(*item);
}

void ordered_open()
{
    ordered = new tbb::concurrent_priority_queue<bench_item, less_urgent>(BENCH_CELLS * 2);
}

void ordered_close()
{
    delete ordered;
}

void ordered_push(const bench_item *item)
{
    while (ordered->size() >= BENCH_CELLS)
        bench_idle();
    ordered->push(*item);
}

void ordered_pop(bench_item *item)
{
    while (!ordered->try_pop(*item))
        bench_idle();
}

} // namespace

extern "C" {
const struct bench_queue bench_tbb_bounded = {"tbb_concurrent_bounded_queue",
                                              false,
                                              false,
                                              0.2,
                                              bounded_open,
                                              bounded_close,
                                              bounded_push,
                                              bounded_pop};
const struct bench_queue bench_tbb_priority = {"tbb_concurrent_priority_queue",
                                               true,
                                               false,
                                               0.15,
                                               ordered_open,
                                               ordered_close,
                                               ordered_push,
                                               ordered_pop};
}
