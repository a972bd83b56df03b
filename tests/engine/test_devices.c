/* SPDX-License-Identifier: Apache-2.0
 * What stands beside an engine on a device: another device with an engine of its own in the same process (in
 * the emulator each engine has its own anyway), and children that the process forks. */
#include <signal.h>
#include <sys/wait.h>

#include "engine_test.h"

enum { ITEMS = 5000 };

static void two_devices_have_an_engine_each(void)
{
    const char *backend = test_backend();
    struct tg_engine_options o;
    struct tg_engine *e[2] = {NULL, NULL};
    struct tg_engine_stats s;
    tg_engine_options_init(&o);
    o.slots = 640;
    o.device_limit_ms = 60000;
    o.backend = backend;
    e[0] = test_open(&o);
    o.backend = strcmp(backend, "cuda") == 0 ? "cuda:1" : backend;
    int r = tg_engine_open(&o, &e[1]);
    if (r == -ENODEV) {
        test_close(e[0]);
        SKIP("there is one device here");
    }
    CHECK_EQ(r, 0);
    for (uint32_t k = 0; k < ITEMS; k++)
        for (uint32_t i = 0; i < 2; i++)
            CHECK_EQ(submit_soon(e[i], k % 7, k % TG_PRIORITY_LEVELS, TG_OP_ATOMIC_ADD,
                                 (uint32_t[]){1, TG_CONTROL_OBSERVABLE_BASE + i}, 2, NULL),
                     0);
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t mine, other;
        CHECK_EQ(tg_engine_settle(e[i], 100 * SECOND), 0);
        CHECK_EQ(tg_engine_observable_load(e[i], i, &mine), 0);
        CHECK_EQ(tg_engine_observable_load(e[i], 1 - i, &other), 0);
        CHECK(mine == ITEMS && other == 0);
        tg_engine_stats(e[i], &s);
        CHECK(s.done == ITEMS && s.faults == 0);
    }
    test_close(e[0]); /* the other lives on */
    CHECK_EQ(submit_soon(e[1], 0, 0, TG_OP_NOP, NULL, 0, NULL), 0);
    CHECK_EQ(tg_engine_settle(e[1], 100 * SECOND), 0);
    test_close(e[1]);
}

/* Memory that a child has a copy of is copied at the first write, and then the device would read and write
 * the old one. */
static void children_of_the_process_change_nothing(void)
{
    enum { ROUNDS = 10 };
    struct tg_engine_options o = test_options(65536, 1);
    struct tg_engine *e = test_open(&o);
    uint32_t word;
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        pid_t child = fork();
        if (child == 0) {
            pause(); /* as it is, until it is ended */
            _exit(0);
        }
        CHECK(child > 0);
        for (uint32_t k = 0; k < ITEMS / ROUNDS; k++)
            CHECK_EQ(submit_soon(e, k % 7, k % TG_PRIORITY_LEVELS, TG_OP_ATOMIC_ADD,
                                 (uint32_t[]){1, TG_CONTROL_OBSERVABLE_BASE}, 2, NULL),
                     0);
        int r = tg_engine_settle(e, 100 * SECOND);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        CHECK_EQ(r, 0);
        CHECK_EQ(tg_engine_observable_load(e, 0, &word), 0);
        CHECK_EQ(word, round * (ITEMS / ROUNDS));
    }
    test_close(e);
}

int main(void)
{
    if (!test_backend())
        SKIP("TG_TEST_BACKEND names no device");
    RUN(children_of_the_process_change_nothing);
    RUN(two_devices_have_an_engine_each);
    return 0;
}
