/* SPDX-License-Identifier: Apache-2.0
 *
 * What a contender of the engine's benchmark is: a queue of 64-byte items between threads of one process.
 * Each is used as its makers mean it to be used: rings spin, the others sleep in their own way. A file whose
 * library is not here is not compiled; engine/queues.c knows which are. */
#ifndef TG_BENCH_QUEUES_H
#define TG_BENCH_QUEUES_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Word 3 is the priority, as in a slot. */
struct bench_item {
    uint32_t words[16];
};

/* A bounded queue has this many cells. */
#define BENCH_CELLS 1024u

struct bench_queue {
    const char *name;
    bool priorities;     /* takes the item with the lowest word 3 first */
    bool single;         /* one producer and one consumer at most */
    double weight;       /* of the usual number of items, so that slow ones take as long */
    void (*open)(void);  /* makes it empty */
    void (*close)(void); /* frees it; nobody uses it */
    void (*push)(const struct bench_item *item); /* waits for room */
    void (*pop)(struct bench_item *item);        /* waits for an item */
};

/* What a spinning thread does while it cannot go on: pause, or give its core away. */
extern void (*bench_idle)(void);

/* Those that were compiled in, NULL at the end. */
extern const struct bench_queue *const bench_queues[];

extern const struct bench_queue bench_vyukov, bench_mutex, bench_mutex_levels;
extern const struct bench_queue bench_ck_spsc, bench_ck_mpmc;
extern const struct bench_queue bench_rte_spsc, bench_rte_mpmc;
extern const struct bench_queue bench_tbb_bounded, bench_tbb_priority;
extern const struct bench_queue bench_gasync;

#ifdef __cplusplus
}
#endif

#endif
