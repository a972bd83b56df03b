/* SPDX-License-Identifier: Apache-2.0
 * Pressure and the work of one's own group (M4, M10, M11) on fixtures of every layout and on the real
 * machine.
 */
#include <errno.h>

#include "machine/fixture.h"
#include "machine/pressure.h"

static const struct tg_root machine = {.prefix = ""};

#define PSI(avg10, total)                                                                                    \
    "some avg10=" avg10 " avg60=0.33 avg300=0.64 total=" total "\n"                                          \
    "full avg10=99.00 avg60=0.21 avg300=0.28 total=999\n"

static int read_memory(const struct fixture *f, struct tg_pressure *ret)
{
    return tg_pressure_read(&f->root, "memory", ret);
}

static void m10_some_of_the_last_ten_seconds(void)
{
    struct fixture f;
    struct tg_pressure p = {.some_us = 7};
    fixture_open(&f);
    CHECK_EQ(read_memory(&f, &p), -ENOENT); /* a kernel that counts none */
    fixture_put(&f, "/proc/pressure/memory", PSI("24.48", "472708670"));
    CHECK_EQ(read_memory(&f, &p), 0);
    CHECK_EQ(p.some_avg10, 2448);
    CHECK_EQ(p.some_us, 472708670);
    fixture_put(&f, "/proc/pressure/memory", PSI("100.00", "0"));
    CHECK_EQ(read_memory(&f, &p), 0);
    CHECK_EQ(p.some_avg10, 10000);
    static const char *const bad[] = {"",
                                      "full avg10=1.00 avg60=0.21 avg300=0.28 total=999\n",
                                      PSI("", "0"),
                                      PSI("1", "0"),
                                      PSI("1.0", "0"),
                                      PSI("-1.00", "0"),
                                      PSI("100.01", "0"),
                                      PSI("nan", "0"),
                                      PSI("99999999999999999999.00", "0"),
                                      PSI("1.00", "99999999999999999999"),
                                      PSI("1.00", "x"),
                                      PSI("1.00", "-1"),
                                      "some avg10=1.00\nfull total=5\n",
                                      "some avg10=1.00"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fixture_put(&f, "/proc/pressure/memory", bad[i]);
        CHECK_EQ(read_memory(&f, &p), -EBADMSG);
    }
    CHECK_EQ(p.some_avg10, 10000); /* written on success only */
    fixture_close(&f);
}

/* In a group with a limit, or in a container without one, its own pressure counts and not the host's. */
static void m11_pressure_of_ones_own_group(void)
{
    struct fixture f;
    struct tg_pressure p;
    fixture_open(&f);
    fixture_put(&f, "/proc/pressure/memory", PSI("50.00", "1"));
    fixture_put(&f, "/proc/self/cgroup", "0::/a/b\n");
    fixture_put(&f, "/sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
    fixture_put(&f, "/sys/fs/cgroup/a/b/memory.pressure", PSI("2.00", "1"));
    fixture_put(&f, "/sys/fs/cgroup/a/b/memory.max", "max\n");
    CHECK_EQ(read_memory(&f, &p), 0);
    CHECK_EQ(p.some_avg10, 5000); /* a session of a machine: all of it counts */
    fixture_put(&f, "/sys/fs/cgroup/a/b/memory.max", "1073741824\n");
    CHECK_EQ(read_memory(&f, &p), 0);
    CHECK_EQ(p.some_avg10, 200);
    fixture_put(&f, "/sys/fs/cgroup/a/memory.max", "1073741824\n");
    CHECK_EQ(read_memory(&f, &p), -ENOENT); /* the topmost limit; its pressure is not counted */
    fixture_put(&f, "/sys/fs/cgroup/a/memory.pressure", PSI("3.00", "1"));
    CHECK_EQ(read_memory(&f, &p), 0);
    CHECK_EQ(p.some_avg10, 300);
    fixture_clear(&f);
    /* A container: what it sees as the top is not the machine's. */
    fixture_put(&f, "/proc/pressure/memory", PSI("50.00", "1"));
    fixture_put(&f, "/proc/self/cgroup", "0::/\n");
    fixture_put(&f, "/sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
    fixture_put(&f, "/sys/fs/cgroup/cgroup.events", "populated 1\nfrozen 0\n");
    fixture_put(&f, "/sys/fs/cgroup/memory.pressure", PSI("4.00", "1"));
    CHECK_EQ(read_memory(&f, &p), 0);
    CHECK_EQ(p.some_avg10, 400);
    fixture_put(&f, "/proc/self/cgroup", "no colon\n");
    CHECK_EQ(read_memory(&f, &p), -EBADMSG);
    fixture_close(&f);
}

/* M2, M11: the machine's pressure beside a group's own work would count others' work as the group's. */
static void m11_a_group_without_pressure_has_none_of_the_machines(void)
{
    struct fixture f;
    struct tg_pressure p;
    fixture_open(&f);
    fixture_put(&f, "/proc/pressure/cpu", PSI("94.00", "1"));
    CHECK_EQ(tg_contained_pressure(&f.root, "cpu", &p), -ENOENT);
    fixture_put(&f, "/proc/self/cgroup", "3:cpuacct:/j\n2:cpu:/j\n");
    fixture_put(&f, "/sys/fs/cgroup/cpu/j/cpu.cfs_quota_us", "50000\n");
    CHECK_EQ(tg_contained_pressure(&f.root, "cpu", &p), -ENOENT);
    CHECK_EQ(tg_pressure_read(&f.root, "cpu", &p), 0); /* the gate that asks for the machine's has it */
    CHECK_EQ(p.some_avg10, 9400);
    fixture_clear(&f);
    fixture_put(&f, "/proc/self/cgroup", "0::/a\n");
    fixture_put(&f, "/sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
    fixture_put(&f, "/sys/fs/cgroup/a/cpu.max", "200000 100000\n");
    fixture_put(&f, "/sys/fs/cgroup/a/cpu.pressure", PSI("3.00", "5"));
    CHECK_EQ(tg_contained_pressure(&f.root, "cpu", &p), 0);
    CHECK(p.some_avg10 == 300 && p.some_us == 5);
    fixture_close(&f);
}

static void m11_work_of_ones_own_group(void)
{
    struct fixture f;
    uint64_t us = 7;
    fixture_open(&f);
    CHECK_EQ(tg_contained_cpu_us(&f.root, &us), -ENOENT);
    fixture_put(&f, "/proc/self/cgroup", "0::/a\n");
    fixture_put(&f, "/sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
    fixture_put(&f, "/sys/fs/cgroup/a/cpu.max", "max 100000\n");
    fixture_put(&f, "/sys/fs/cgroup/a/cpu.stat", "usage_usec 123456\nuser_usec 5\nsystem_usec 6\n");
    CHECK_EQ(tg_contained_cpu_us(&f.root, &us), -ENOENT); /* no part: the machine's load counts */
    fixture_put(&f, "/sys/fs/cgroup/a/cpu.max", "200000 100000\n");
    CHECK_EQ(tg_contained_cpu_us(&f.root, &us), 0);
    CHECK_EQ(us, 123456);
    static const char *const bad[] = {"",
                                      "usage_usec x\n",
                                      "usage_usec 99999999999999999999\n",
                                      "usage_usec -1\n",
                                      "usage_usec 1 2\n",
                                      "user_usec 5\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fixture_put(&f, "/sys/fs/cgroup/a/cpu.stat", bad[i]);
        CHECK_EQ(tg_contained_cpu_us(&f.root, &us), -EBADMSG);
    }
    fixture_clear(&f);
    fixture_put(&f, "/proc/self/cgroup", "3:cpuacct:/j\n2:cpu:/j\n");
    fixture_put(&f, "/sys/fs/cgroup/cpu/j/cpu.cfs_quota_us", "-1\n");
    fixture_put(&f, "/sys/fs/cgroup/cpuacct/j/cpuacct.usage", "5000000\n");
    CHECK_EQ(tg_contained_cpu_us(&f.root, &us), -ENOENT);
    fixture_put(&f, "/sys/fs/cgroup/cpu/j/cpu.cfs_quota_us", "50000\n");
    CHECK_EQ(tg_contained_cpu_us(&f.root, &us), 0);
    CHECK_EQ(us, 5000);
    fixture_close(&f);
}

static void the_real_machine_answers(void)
{
    struct tg_pressure p;
    uint64_t us;
    int err = tg_pressure_read(&machine, "cpu", &p);
    CHECK(err == 0 ? p.some_avg10 <= 10000 : err == -ENOENT);
    err = tg_contained_cpu_us(&machine, &us);
    CHECK(err == 0 || err == -ENOENT);
}

int main(void)
{
    RUN(m10_some_of_the_last_ten_seconds);
    RUN(m11_pressure_of_ones_own_group);
    RUN(m11_a_group_without_pressure_has_none_of_the_machines);
    RUN(m11_work_of_ones_own_group);
    RUN(the_real_machine_answers);
    return 0;
}
