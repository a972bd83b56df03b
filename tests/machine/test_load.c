/* SPDX-License-Identifier: Apache-2.0
 * Load and usable cores (S4, M1, M2) on fixtures of every control group layout and on the real machine. */
#include <errno.h>
#include <sched.h>
#include <sys/wait.h>

#include "machine/fixture.h"
#include "machine/load.h"

static const struct tg_root machine = {.prefix = ""};

static void s4_no_load_no_reading(void)
{
    struct fixture f;
    struct tg_load l = {.runnable = 77};
    fixture_open(&f);
    CHECK_EQ(tg_load_read(&f.root, &l), -ENOENT);
    static const char *const bad[] = {
        "",
        "\n",
        "0.01",
        "0.01 0.04 0.01",
        "0.01 0.04 0.01 1/90",
        "0.01 0.04 0.01 1/90 ",
        "0.01 0.04 0.01 1/90 14677x",
        "0.01 0.04 0.01 1/90 14677\n\n",
        "0.01 0.04 0.01 /90 14677\n",
        "0.01 0.04 0.01 1 14677\n",
        "0,01 0,04 0,01 1/90 14677\n",
        "0.1 0.04 0.01 1/90 14677\n",
        "0.001 0.04 0.01 1/90 14677\n",
        "-0.01 0.04 0.01 1/90 14677\n",
        " 0.01 0.04 0.01 1/90 14677\n",
        "nan 0.04 0.01 1/90 14677\n",
        "0x1.00 0.04 0.01 1/90 14677\n",
        "1e3 0.04 0.01 1/90 14677\n",
        "99999999999999999999.00 0.04 0.01 1/90 14677\n", /* N4: 20 digits */
        "18446744073709551615.00 0.04 0.01 1/90 14677\n",
        "0.01 0.04 0.01 99999999999999999999/90 14677\n",
        "0.01 0.04 0.01 4294967296/90 14677\n",
        "0.01 0.04 0.01 1/90 99999999999999999999\n",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fixture_put(&f, "/proc/loadavg", bad[i]);
        CHECK_EQ(tg_load_read(&f.root, &l), -EBADMSG);
    }
    fixture_put_bytes(&f, "/proc/loadavg", "0.01 0.04 0.01 1/90 14677\0x", 27);
    CHECK_EQ(tg_load_read(&f.root, &l), -EBADMSG);
    char big[600];
    memset(big, '1', sizeof big);
    fixture_put_bytes(&f, "/proc/loadavg", big, sizeof big);
    CHECK_EQ(tg_load_read(&f.root, &l), -EBADMSG);
    CHECK_EQ(l.runnable, 77); /* written only on success */
    fixture_close(&f);
}

static void the_smaller_of_average_and_instant_counts(void)
{
    struct fixture f;
    struct tg_load l;
    fixture_open(&f);
    fixture_put(&f, "/proc/loadavg", "12.34 0.04 0.01 3/90 14677\n");
    CHECK_EQ(tg_load_read(&f.root, &l), 0);
    CHECK_EQ(l.one_minute_milli, 12340);
    CHECK_EQ(l.runnable, 2);
    CHECK_EQ(l.effective_milli, 2000); /* just become idle */
    fixture_put(&f, "/proc/loadavg", "1.05 0.04 0.01 9/90 14677\n");
    CHECK_EQ(tg_load_read(&f.root, &l), 0);
    CHECK_EQ(l.effective_milli, 1050); /* a moment's crowd */
    fixture_put(&f, "/proc/loadavg", "0.00 0.00 0.00 0/1 1");
    CHECK_EQ(tg_load_read(&f.root, &l), 0);
    CHECK_EQ(l.runnable, 0);
    CHECK_EQ(l.effective_milli, 0);
    fixture_close(&f);
    CHECK_EQ(tg_load_read(&machine, &l), 0);
}

/* A child that may run on one core only sees one. */
static void cores_follow_the_affinity_mask(void)
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        cpu_set_t set;
        if (sched_getaffinity(0, sizeof set, &set))
            _exit(77);
        size_t cpu = 0;
        while (!CPU_ISSET(cpu, &set))
            cpu++;
        CPU_ZERO(&set);
        CPU_SET(cpu, &set);
        if (sched_setaffinity(0, sizeof set, &set))
            _exit(77);
        _exit(tg_usable_cores(&machine) == 1 ? 0 : 1);
    }
    int status;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77);
}

static unsigned with_quota(struct fixture *f, const char *cpu_max)
{
    fixture_put(f, "/sys/fs/cgroup/a/b/cpu.max", cpu_max);
    return tg_usable_cores(&f->root);
}

static void m1_cores_are_cut_by_cpu_max(void)
{
    struct fixture f;
    fixture_open(&f);
    unsigned all = tg_usable_cores(&f.root); /* no control groups: the mask alone */
    CHECK(all >= 1);
    fixture_put(&f, "/proc/self/cgroup", "0::/a/b\n");
    CHECK_EQ(tg_usable_cores(&f.root), all); /* none mounted */
    fixture_put(&f, "/sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
    CHECK_EQ(with_quota(&f, "max 100000\n"), all);
    CHECK_EQ(with_quota(&f, "100000 100000\n"), 1);
    CHECK_EQ(with_quota(&f, "1000 100000\n"), 1); /* a hundredth of a core is one */
    CHECK_EQ(with_quota(&f, "0 100000\n"), 1);
    CHECK_EQ(with_quota(&f, "100001 100000\n"), all < 2 ? all : 2); /* rounded up */
    CHECK_EQ(with_quota(&f, "18446744073709551615 1\n"), all);
    static const char *const bad[] = {
        "",         "max",         "max ",           "100000",        "100000 0\n",
        "200000 x", "-1 100000\n", "max 100000 1\n", "maximum 100\n", "\xff\xfe"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_EQ(with_quota(&f, bad[i]), 1);
    /* The tightest of the groups on the way up counts. */
    CHECK_EQ(with_quota(&f, "max 100000\n"), all);
    fixture_put(&f, "/sys/fs/cgroup/a/cpu.max", "50000 100000\n");
    CHECK_EQ(tg_usable_cores(&f.root), 1);
    fixture_put(&f, "/proc/self/cgroup", "no colon\n");
    fixture_drop(&f, "/sys/fs/cgroup/a/cpu.max");
    CHECK_EQ(tg_usable_cores(&f.root), 1); /* unknown is little */
    fixture_close(&f);
}

static void m2_cores_on_version_1_and_hybrid(void)
{
    struct fixture f;
    fixture_open(&f);
    unsigned all = tg_usable_cores(&f.root);
    fixture_put(&f, "/proc/self/cgroup", "5:memory:/m\n4:cpu,cpuacct:/jobs/one\n1:name=systemd:/\n0::/\n");
    fixture_put(&f, "/sys/fs/cgroup/cpu,cpuacct/jobs/one/cpu.cfs_quota_us", "-1\n");
    fixture_put(&f, "/sys/fs/cgroup/cpu,cpuacct/jobs/one/cpu.cfs_period_us", "100000\n");
    fixture_put(&f, "/sys/fs/cgroup/unified/cgroup.procs", "1\n");
    CHECK_EQ(tg_usable_cores(&f.root), all);
    fixture_put(&f, "/sys/fs/cgroup/cpu,cpuacct/jobs/one/cpu.cfs_quota_us", "20000\n");
    CHECK_EQ(tg_usable_cores(&f.root), 1);
    fixture_put(&f, "/sys/fs/cgroup/cpu,cpuacct/jobs/one/cpu.cfs_quota_us", "-2\n");
    CHECK_EQ(tg_usable_cores(&f.root), 1);
    /* As on a machine that mounts each controller by its own name. */
    fixture_put(&f, "/sys/fs/cgroup/cpu/jobs/one/cpu.cfs_quota_us", "-1\n");
    fixture_put(&f, "/sys/fs/cgroup/cpu/jobs/one/cpu.cfs_period_us", "100000\n");
    CHECK_EQ(tg_usable_cores(&f.root), all);
    fixture_put(&f, "/sys/fs/cgroup/cpu/jobs/cpu.cfs_quota_us", "1\n");
    fixture_put(&f, "/sys/fs/cgroup/cpu/jobs/cpu.cfs_period_us", "0\n");
    CHECK_EQ(tg_usable_cores(&f.root), 1);
    fixture_close(&f);
}

static void the_real_machine_has_cores(void)
{
    long configured = sysconf(_SC_NPROCESSORS_CONF);
    unsigned cores = tg_usable_cores(&machine);
    CHECK(cores >= 1 && (long)cores <= configured);
}

int main(void)
{
    RUN(s4_no_load_no_reading);
    RUN(the_smaller_of_average_and_instant_counts);
    RUN(cores_follow_the_affinity_mask);
    RUN(m1_cores_are_cut_by_cpu_max);
    RUN(m2_cores_on_version_1_and_hybrid);
    RUN(the_real_machine_has_cores);
    return 0;
}
