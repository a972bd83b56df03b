/* SPDX-License-Identifier: Apache-2.0
 * Clocks. Order and time limits use the monotonic clocks only (A1, U13): the wall clock is for showing. */
#ifndef TG_BASE_CLOCK_H
#define TG_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t tg_clock_read_ns(clockid_t id)
{
    struct timespec ts;
    clock_gettime(id, &ts);
    return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

/* CLOCK_MONOTONIC: for measuring and for limits within one process. */
static inline uint64_t tg_clock_mono_ns(void)
{
#ifdef TG_EXPLORE /* tests/engine_explore: time stands still within a schedule */
    return 1;
#endif
    return tg_clock_read_ns(CLOCK_MONOTONIC);
}

/* CLOCK_BOOTTIME: runs through suspend; comparable between processes of one boot. */
static inline uint64_t tg_clock_boot_ms(void)
{
    return tg_clock_read_ns(CLOCK_BOOTTIME) / 1000000;
}

/* CLOCK_REALTIME, for showing to people only. */
static inline uint64_t tg_clock_wall_ms(void)
{
    return tg_clock_read_ns(CLOCK_REALTIME) / 1000000;
}

#endif
