/* SPDX-License-Identifier: Apache-2.0
 *
 * Explores how the threads of the real engine can interleave: its sources are compiled once more with a
 * scheduler under their atomic operations (TG_EXPLORE in base/atomic.h). Threads are coroutines of one
 * thread; before every atomic step the scheduler may let another one go on. It tries every schedule with at
 * most `bound` such preemptions, depth first, each from the same start, and any number of switches where a
 * thread ends, sleeps or gives way. Most bugs of concurrency need no more than two preemptions.
 *
 * What it does not do: steps are sequentially consistent (weak memory is what labels, ThreadSanitizer and
 * the stress tests are for), and a sleeper has no timeout: when all sleep, the schedule has ended, and its
 * check says whether it may end so. That is how a lost wake-up is found.
 */
#ifndef TG_TESTS_EXPLORE_H
#define TG_TESTS_EXPLORE_H

#include <stdbool.h>
#include <stdint.h>

#include "check.h"
#include "engine/internal.h"

#define EXPLORE_THREADS 4u

struct explore_scenario {
    const char *name;
    struct tg_engine_options options;   /* small; workers in it run as threads of the scenario */
    void (*reset)(struct tg_engine *e); /* before each schedule; may be NULL */
    /* The threads beside the workers; NULL ends. */
    void (*thread[EXPLORE_THREADS])(struct tg_engine *e);
    /* After each schedule: asserts what must hold. ended[i]: thread i came to its end (else it sleeps). */
    void (*check)(struct tg_engine *e, const bool *ended);
    uint32_t workers; /* of the engine's workers, how many take part */
    uint32_t bound;   /* preemptions */
    uint32_t shards;  /* of queues and free slots, one slot a block; 0: as the engine opens. Thread i submits
                         at shard i */
};

/* Opens the engine, ends its own threads, and runs every schedule. Prints how many there were. */
void explore(const struct explore_scenario *scenario);

#endif
