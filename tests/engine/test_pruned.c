/* SPDX-License-Identifier: Apache-2.0
 * Slots of items that were cancelled while their tenant may not run come back before the worker that met them
 * sleeps, not when it wakes. */
#include <time.h>

#include "engine_test.h"

static void e8_no_worker_sleeps_on_freed_slots(void)
{
    struct tg_engine_options o = test_options(320, 1);
    o.spin_us = 200;
    struct tg_engine *e = test_open(&o);
    uint64_t state = 17;
    CHECK_EQ(tg_engine_set_tenant(e, 4, 0), 0);
    for (uint32_t i = 0; i < 100; i++) {
        struct tg_item t[3];
        for (uint32_t k = 0; k < 3; k++)
            CHECK_EQ(submit_soon(e, 4, 2, TG_OP_NOP, NULL, 0, &t[k]), 0);
        /* The first wakes the worker; the others come while it looks. */
        for (uint32_t k = 0; k < 3; k++) {
            CHECK_EQ(tg_engine_cancel(e, &t[k]), 0);
            uint64_t until = tg_clock_mono_ns() + check_random(&state) % 150000;
            while (tg_clock_mono_ns() < until)
                tg_cpu_relax();
        }
        struct timespec ts = {0, 600000}; /* it sleeps again */
        nanosleep(&ts, NULL);
        /* An unlucky worker slept for 10 s. One that has only lost its core has it again while this thread
         * has had its own a hundred times. */
        for (int looks = 0; tg_engine_settle(e, SECOND / 20) != 0; looks++)
            CHECK(looks < 100);
    }
    test_close(e);
}

static void cases(void)
{
    RUN(e8_no_worker_sleeps_on_freed_slots);
}

int main(void)
{
    BOTH_WAYS(cases);
    return 0;
}
