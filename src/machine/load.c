/* SPDX-License-Identifier: Apache-2.0
 *
 * Load and usable cores: see load.h (A2; cases S4, M1). Reads /proc/loadavg, the affinity mask and the
 * cgroup's processor quota; decides nothing. */
#include "machine/load.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#include "base/checked.h"
#include "machine/cgroup.h"
#include "machine/text.h"

#define MAX_CPUS (1u << 16)
#define MAX_TASKS (UINT64_C(1) << 22) /* the kernel's own limit on pids: no load can be above it */

/* The cores this process may run on. The kernel refuses a mask that is too small, so it is grown. */
static unsigned affinity_cores(void)
{
    unsigned found = 1;
    for (unsigned cpus = 1024; cpus <= MAX_CPUS; cpus *= 2) {
        cpu_set_t *set = CPU_ALLOC(cpus);
        if (!set)
            break;
        size_t bytes = CPU_ALLOC_SIZE(cpus);
        int rc = sched_getaffinity(0, bytes, set);
        int err = errno;
        if (rc == 0)
            found = (unsigned)CPU_COUNT_S(bytes, set);
        CPU_FREE(set);
        if (rc == 0 || err != EINVAL)
            break;
    }
    return found ? found : 1;
}

/* "QUOTA PERIOD" in microseconds, or "max PERIOD". 0, -EBADMSG. */
static int parse_cpu_max(const char *text, uint64_t *quota, uint64_t *period)
{
    if (strncmp(text, "max", 3) == 0) {
        text += 3;
        *quota = UINT64_MAX;
    } else if (tg_text_u64(&text, quota)) {
        return -EBADMSG;
    }
    return *text == ' ' ? tg_text_number(text + 1, period) : -EBADMSG;
}

/* One group's quota. 0; -ENOENT: it has none of these files; -errno, -EBADMSG. */
static int read_quota(const struct tg_root *root, const struct tg_cgroup *g, uint64_t *quota,
                      uint64_t *period)
{
    char buf[64];
    if (g->version == 2) {
        int err = tg_cgroup_read(root, g, "cpu.max", buf, sizeof buf);
        return err ? err : parse_cpu_max(buf, quota, period);
    }
    int err = tg_cgroup_read(root, g, "cpu.cfs_quota_us", buf, sizeof buf);
    if (err)
        return err;
    if (strcmp(buf, "-1\n") == 0 || strcmp(buf, "-1") == 0)
        *quota = UINT64_MAX;
    else if (tg_text_number(buf, quota))
        return -EBADMSG;
    err = tg_cgroup_read(root, g, "cpu.cfs_period_us", buf, sizeof buf);
    return err ? err : tg_text_number(buf, period);
}

/* The cores that one group's quota is worth, rounded up; at most `most`. A quota that is there but cannot
 * be read counts as one core: too little work is the safe mistake. */
static unsigned group_cores(const struct tg_root *root, const struct tg_cgroup *g, unsigned most)
{
    uint64_t quota, period;
    int err = read_quota(root, g, &quota, &period);
    if (err == -ENOENT)
        return most;
    if (err || period == 0)
        return 1;
    uint64_t cores = tg_ceil_div_u64(quota, period);
    return quota == UINT64_MAX || cores >= most ? most : cores ? (unsigned)cores : 1;
}

unsigned tg_usable_cores(const struct tg_root *root)
{
    unsigned cores = affinity_cores();
    struct tg_cgroup group;
    int err = tg_cgroup_find(root, "cpu", &group);
    if (err)
        return err == -ENOENT ? cores : 1;
    do
        cores = group_cores(root, &group, cores);
    while (tg_cgroup_up(&group));
    return cores;
}

/* "12.34" in thousandths. The kernel writes two digits after the point, always. */
static int parse_load(const char **p, uint64_t *ret_milli)
{
    uint64_t whole, cents;
    if (tg_text_u64(p, &whole) || whole > MAX_TASKS || **p != '.')
        return -EBADMSG;
    const char *start = ++*p;
    if (tg_text_u64(p, &cents) || *p - start != 2 || **p != ' ')
        return -EBADMSG;
    ++*p;
    *ret_milli = whole * 1000 + cents * 10;
    return 0;
}

/* "RUNNABLE/TASKS LASTPID". */
static int parse_tasks(const char *p, uint64_t *ret_runnable)
{
    uint64_t runnable, tasks, last;
    if (tg_text_u64(&p, &runnable) || runnable > MAX_TASKS || *p++ != '/')
        return -EBADMSG;
    if (tg_text_u64(&p, &tasks) || tasks > MAX_TASKS || *p++ != ' ' || tg_text_number(p, &last))
        return -EBADMSG;
    *ret_runnable = runnable;
    return 0;
}

int tg_load_read(const struct tg_root *root, struct tg_load *ret)
{
    char buf[256];
    uint64_t one, five, fifteen, runnable;
    int err = tg_text_read(root, "/proc/loadavg", buf, sizeof buf);
    if (err)
        return err == -EFBIG ? -EBADMSG : err;
    const char *p = buf;
    if (parse_load(&p, &one) || parse_load(&p, &five) || parse_load(&p, &fifteen) ||
        parse_tasks(p, &runnable))
        return -EBADMSG;
    runnable = tg_sat_sub_u64(runnable, 1); /* the caller, who is running */
    uint64_t now_milli = runnable * 1000;
    *ret = (struct tg_load){
        .one_minute_milli = one, .runnable = runnable, .effective_milli = now_milli < one ? now_milli : one};
    return 0;
}
