/* SPDX-License-Identifier: Apache-2.0
 * Sleeping on a word and waking its sleepers, within one process or (_shared) between two. Every wait has a
 * limit. */
#ifndef TG_ENGINE_FUTEX_H
#define TG_ENGINE_FUTEX_H

#include <limits.h>
#include <linux/futex.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifdef TG_EXPLORE
/* tests/engine_explore: its threads sleep and wake by its scheduler. */
void tg_futex_wait(const uint32_t *word, uint32_t expected, uint64_t limit_ns);
void tg_futex_wake(const uint32_t *word, int count);
#else
/* Sleeps while *word == expected, at most limit_ns. May return early; the caller looks again. */
static inline void tg_futex_wait(const uint32_t *word, uint32_t expected, uint64_t limit_ns)
{
    const uint64_t most = UINT64_C(3600000000000);
    uint64_t ns = limit_ns < most ? limit_ns : most;
    struct timespec ts = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, &ts, NULL, 0);
}

static inline void tg_futex_wake(const uint32_t *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}
#endif

/* The same between processes, on a word in shared memory. */
static inline void tg_futex_wait_shared(const uint32_t *word, uint32_t expected, uint64_t limit_ns)
{
    struct timespec ts = {.tv_sec = (time_t)(limit_ns / 1000000000),
                          .tv_nsec = (long)(limit_ns % 1000000000)};
    syscall(SYS_futex, word, FUTEX_WAIT, expected, &ts, NULL, 0);
}

static inline void tg_futex_wake_shared(const uint32_t *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE, count, NULL, NULL, 0);
}

static inline void tg_futex_wake_all(const uint32_t *word)
{
    tg_futex_wake(word, INT_MAX);
}

#endif
