/* SPDX-License-Identifier: Apache-2.0
 * Whatever bytes the kernel's files held, nothing crashes, and what is called a success is possible: a
 * property test over random and mutated contents of every file that this room reads (S4, N4). */
#include <errno.h>

#include "machine/fixture.h"
#include "machine/load.h"
#include "machine/memory.h"
#include "machine/pressure.h"
#include "machine/proc.h"

#define ROUNDS 400

struct file {
    const char *path;
    const char *text;
};

static const struct file version_2[] = {
    {"/proc/loadavg", "0.01 0.04 0.01 1/90 14677\n"},
    {"/proc/meminfo", "MemTotal: 24684084 kB\nMemFree: 24146024 kB\nMemAvailable: 24316688 kB\n"},
    {"/proc/self/cgroup", "0::/a/b\n"},
    {"/proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n"},
    {"/proc/sys/kernel/random/boot_id", FIXTURE_BOOT "\n"},
    {"/proc/5/stat",
     "5 (x y) S 4 5 5 0 -1 4194560 1 2 3 4 5 6 7 8 20 -5 1 0 777 48349184 4159 18446744073709551615\n"},
    {"/proc/5/status", "Name:\tx\nPPid:\t4\nUid:\t1\t2\t3\t4\nRssAnon:\t  2048 kB\nRssShmem:\t  1024 kB\n"},
    {"/proc/4/stat",
     "4 (y) S 1 4 4 0 -1 4194560 1 2 3 4 5 6 7 8 20 -5 1 0 776 48349184 4159 18446744073709551615\n"},
    {"/proc/4/status", "Name:\ty\nPPid:\t1\nUid:\t1\t2\t3\t4\nRssAnon:\t  2048 kB\n"},
    {"/sys/fs/cgroup/cgroup.controllers", "cpu memory\n"},
    {"/sys/fs/cgroup/a/b/memory.max", "1073741824\n"},
    {"/sys/fs/cgroup/a/b/memory.current", "536870912\n"},
    {"/sys/fs/cgroup/a/b/memory.stat", "anon 5\ninactive_file 4096\nactive_file 7\n"},
    {"/sys/fs/cgroup/a/b/cpu.max", "150000 100000\n"},
    {"/sys/fs/cgroup/a/memory.max", "max\n"},
    {"/sys/fs/cgroup/a/memory.high", "max\n"},
    {"/sys/fs/cgroup/a/b/cpu.stat", "usage_usec 5\nuser_usec 5\n"},
    {"/sys/fs/cgroup/a/b/memory.pressure",
     "some avg10=1.00 avg60=0.00 avg300=0.00 total=5\nfull avg10=0.00\n"},
    {"/proc/spl/kstat/zfs/arcstats", "1 2\nname type data\nsize 4 123\nc_min 4 12\n"},
    {NULL, NULL}};

static const struct file version_1[] = {
    {"/proc/loadavg", "4000.99 0.04 0.01 99/900 14677\n"},
    {"/proc/meminfo", "MemTotal: 1048576 kB\nMemFree: 524288 kB\nMemAvailable: 41943040 kB\n"},
    {"/proc/self/cgroup", "9:name=systemd:/\n4:memory:/docker/a\n2:cpu,cpuacct:/docker/a\n0::/\n"},
    {"/proc/self/mountinfo",
     "31 23 0:28 /docker /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"},
    {"/proc/sys/kernel/random/boot_id", FIXTURE_BOOT "\n"},
    {"/proc/5/stat", "5 () R) Z 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 777 1\n"},
    {"/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1073741824\n"},
    {"/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "936870912\n"},
    {"/sys/fs/cgroup/memory/a/memory.stat", "cache 5\ntotal_inactive_file 4096\n"},
    {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"},
    {"/sys/fs/cgroup/cpu/docker/a/cpu.cfs_quota_us", "-1\n"},
    {"/sys/fs/cgroup/cpu/docker/a/cpu.cfs_period_us", "100000\n"},
    {NULL, NULL}};

/* New bytes, or the old ones with some bytes changed, cut, doubled or put in. */
static size_t mutate(uint64_t *seed, const char *text, char *out, size_t size)
{
    static const char likely[] = "0123456789 \n\t:/.)(-,maxkB\0\xff";
    size_t n = strlen(text);
    if (check_random(seed) % 4 == 0) {
        n = check_random(seed) % 300;
        for (size_t i = 0; i < n; i++)
            out[i] = (char)check_random(seed);
        return n;
    }
    memcpy(out, text, n);
    for (uint64_t edits = 1 + check_random(seed) % 4; edits > 0; edits--) {
        size_t at = n ? check_random(seed) % n : 0;
        size_t run = 1 + check_random(seed) % 24;
        switch (check_random(seed) % 4) {
        case 0:
            if (n)
                out[at] = likely[check_random(seed) % (sizeof likely - 1)];
            break;
        case 1:
            n = at;
            break;
        case 2: /* a run of digits: numbers of up to 24 more */
            if (n + run < size) {
                memmove(out + at + run, out + at, n - at);
                memset(out + at, '0' + (int)(check_random(seed) % 10), run);
                n += run;
            }
            break;
        default:
            if (n * 2 < size) {
                memcpy(out + n, out, n);
                n *= 2;
            }
        }
    }
    return n;
}

static void check_memory(const struct tg_root *root)
{
    struct tg_memory m;
    int err = tg_memory_read(root, true, &m);
    CHECK(err <= 0);
    if (err == 0)
        CHECK(m.available_mb <= m.total_mb && m.total_mb <= UINT64_C(1) << 32);
    const pid_t roots[] = {5, 4, 1};
    uint64_t mb[3];
    CHECK_EQ(tg_trees_resident_mb(root, roots, 3, mb), 0);
    CHECK(mb[0] <= UINT64_C(4) << 32 && mb[1] <= UINT64_C(4) << 32 && mb[2] == 0);
}

static void check_load(const struct tg_root *root, unsigned all)
{
    struct tg_load l;
    int err = tg_load_read(root, &l);
    CHECK(err <= 0);
    if (err == 0) {
        CHECK(l.effective_milli <= l.one_minute_milli && l.effective_milli <= l.runnable * 1000);
        CHECK(l.one_minute_milli <= UINT64_C(5000000000) && l.runnable <= 5000000);
    }
    struct tg_pressure p;
    uint64_t us;
    CHECK(tg_contained_cpu_us(root, &us) <= 0);
    err = tg_pressure_read(root, "memory", &p);
    CHECK(err < 0 || (err == 0 && p.some_avg10 <= 10000));
    unsigned cores = tg_usable_cores(root);
    CHECK(cores >= 1 && cores <= all);
}

static void check_process(const struct tg_root *root)
{
    struct tg_owner o = {.pid = 99};
    uid_t uid = 12345;
    int err = tg_owner_of(root, 5, &o);
    CHECK(err <= 0);
    CHECK(err == 0 ? o.pid == 5 && strlen(o.boot_id) == TG_BOOT_ID_BYTES - 1 : o.pid == 99);
    if (err == 0)
        CHECK_EQ(tg_owner_alive(root, &o), TG_ALIVE);
    memcpy(o.boot_id, FIXTURE_BOOT, TG_BOOT_ID_BYTES);
    o.pid = 5;
    o.start_ticks = 777;
    CHECK(tg_owner_alive(root, &o) <= TG_ALIVE);
    err = tg_proc_uid(root, 5, &uid);
    CHECK(err < 0 ? uid == 12345 : err == 0);
    (void)tg_proc_descends(root, 5, 4);
}

static void every_file_may_hold_anything(const struct file *files, uint64_t seed)
{
    struct fixture f;
    char bytes[4096];
    fixture_open(&f);
    unsigned all = tg_usable_cores(&f.root);
    for (const struct file *t = files; t->path; t++)
        fixture_put(&f, t->path, t->text);
    for (const struct file *t = files; t->path; t++) {
        for (int i = 0; i < ROUNDS; i++) {
            fixture_put_bytes(&f, t->path, bytes, mutate(&seed, t->text, bytes, sizeof bytes));
            check_memory(&f.root);
            check_load(&f.root, all);
            check_process(&f.root);
        }
        fixture_put(&f, t->path, t->text);
    }
    fixture_close(&f);
}

static void s4_hostile_version_2(void)
{
    every_file_may_hold_anything(version_2, 20240607);
}

static void s4_hostile_version_1(void)
{
    every_file_may_hold_anything(version_1, 777);
}

static void files_that_are_no_files(void)
{
    struct fixture f;
    char full[1024], buf[16];
    fixture_open(&f);
    for (const struct file *t = version_2; t->path; t++)
        CHECK(mkdir(fixture_path(&f, t->path, full), 0700) == 0);
    struct tg_memory m;
    struct tg_load l;
    struct tg_owner o;
    CHECK_EQ(tg_memory_read(&f.root, false, &m), -EISDIR);
    CHECK_EQ(tg_load_read(&f.root, &l), -EISDIR);
    CHECK_EQ(tg_owner_of(&f.root, 5, &o), -EISDIR);
    CHECK_EQ(tg_usable_cores(&f.root), 1);
    fixture_clear(&f);
    fixture_put(&f, "/x", "0123456789abcde");
    CHECK_EQ(tg_root_read(&f.root, "/x", buf, 16), 15);
    CHECK_EQ(buf[15], 0);
    CHECK_EQ(tg_root_read(&f.root, "/x", buf, 15), -EFBIG);
    CHECK_EQ(tg_root_read(&f.root, "/x", buf, 0), -EINVAL);
    CHECK_EQ(tg_root_read(&f.root, "/y", buf, 16), -ENOENT);
    char *far = malloc(8000);
    CHECK(far != NULL);
    memset(far, '/', 7999);
    far[7999] = '\0';
    CHECK_EQ(tg_root_read(&f.root, far, buf, 16), -ENAMETOOLONG);
    free(far);
    fixture_close(&f);
}

int main(void)
{
    RUN(files_that_are_no_files);
    RUN(s4_hostile_version_2);
    RUN(s4_hostile_version_1);
    return 0;
}
