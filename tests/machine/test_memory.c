/* SPDX-License-Identifier: Apache-2.0
 * Memory that may be given away (A2; M1, M2, M4, M7, M8, M13, N4, S4) on fixtures of every control group
 * layout. The trees of processes are in test_trees.c. */
#include <errno.h>
#include <sys/mman.h>

#include "machine/fixture.h"
#include "machine/memory.h"

static const struct tg_root machine = {.prefix = ""};

#define GB (UINT64_C(1) << 30)
#define V1_UNLIMITED "9223372036854771712\n"

/* A host of 64 GB with 40 GB available, of which most is page cache; 8 GB of swap are free. */
static void put_host(const struct fixture *f)
{
    fixture_put(f, "/proc/meminfo",
                "MemTotal:       67108864 kB\nMemFree:         1048576 kB\nMemAvailable:   41943040 kB\n"
                "Buffers:          524288 kB\nCached:         50331648 kB\nSwapCached:      1048576 kB\n"
                "Shmem:           8388608 kB\nSwapTotal:       8388608 kB\nSwapFree:        8388608 kB\n");
}

static void put_number(const struct fixture *f, const char *dir, const char *file, uint64_t v)
{
    char path[256], text[32];
    snprintf(path, sizeof path, "%s/%s", dir, file);
    snprintf(text, sizeof text, "%" PRIu64 "\n", v);
    fixture_put(f, path, text);
}

static void put_v2(const struct fixture *f, const char *dir, uint64_t limit, uint64_t usage,
                   uint64_t inactive)
{
    char path[256], text[256];
    put_number(f, dir, "memory.max", limit);
    put_number(f, dir, "memory.current", usage);
    put_number(f, dir, "memory.swap.max", 900 * GB);
    put_number(f, dir, "memory.swap.current", 0);
    snprintf(path, sizeof path, "%s/memory.stat", dir);
    snprintf(text, sizeof text,
             "anon 1\nfile 99999999999\nactive_file 99999999999\ninactive_file %" PRIu64 "\n", inactive);
    fixture_put(f, path, text);
}

static void put_v1(const struct fixture *f, const char *dir, uint64_t limit, uint64_t usage,
                   uint64_t inactive)
{
    char path[256], text[256];
    put_number(f, dir, "memory.limit_in_bytes", limit);
    put_number(f, dir, "memory.usage_in_bytes", usage);
    put_number(f, dir, "memory.memsw.limit_in_bytes", 900 * GB);
    snprintf(path, sizeof path, "%s/memory.stat", dir);
    snprintf(text, sizeof text,
             "cache 99999999999\ninactive_file 5\ntotal_cache 99999999999\n"
             "total_inactive_file %" PRIu64 "\n",
             inactive);
    fixture_put(f, path, text);
}

static void check(const struct fixture *f, uint64_t total_mb, uint64_t available_mb)
{
    struct tg_memory m;
    CHECK_EQ(tg_memory_read(&f->root, false, &m), 0);
    CHECK_EQ(m.total_mb, total_mb);
    CHECK_EQ(m.available_mb, available_mb);
}

static void s4_no_meminfo_no_reading(void)
{
    struct fixture f;
    struct tg_memory m = {.total_mb = 7};
    fixture_open(&f);
    CHECK_EQ(tg_memory_read(&f.root, false, &m), -ENOENT);
    static const char *const bad[] = {
        "",
        "MemTotal: 1024 kB\n",
        "MemAvailable: 1024 kB\n",
        "MemTotal: 1024 kB\nMemFree: 1024 kB\n", /* MemFree does not stand in for it (M4) */
        "MemTotal: 0 kB\nMemAvailable: 0 kB\n",
        "MemTotal: 1024\nMemAvailable: 1024 kB\n",
        "MemTotal: 1024 MB\nMemAvailable: 1024 kB\n",
        "MemTotal: 1024 kBx\nMemAvailable: 1024 kB\n",
        "MemTotal: -1 kB\nMemAvailable: 1024 kB\n",
        "MemTotal: 1024 kB\nMemAvailable: 0x10 kB\n",
        "MemTotal: 1024 kB\nMemAvailable: 1e3 kB\n",
        "MemTotal: 1024 kB\nMemAvailable: 99999999999999999999 kB\n", /* N4: more than 64 bits */
        "MemTotal: 18446744073709551615 kB\nMemAvailable: 1024 kB\n", /* times 1024 is more than 64 bits */
        "MemTotal: 18014398509481984 kB\nMemAvailable: 1024 kB\n",    /* times 1024 is 2^64 */
        "MemTotal: 1024 kB\nMemAvailable: 2048 kB\n",                 /* more than there is */
        "MemTotal: 1024 kB\nMemAvailable: 2048 kB\nMemFree: 4096 kB\n",
        " MemTotal: 1024 kB\nMemAvailable: 1024 kB\n",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fixture_put(&f, "/proc/meminfo", bad[i]);
        CHECK_EQ(tg_memory_read(&f.root, false, &m), -EBADMSG);
    }
    CHECK_EQ(m.total_mb, 7);
    fixture_close(&f);
}

static void m4_m7_m13_available_is_what_the_kernel_says(void)
{
    struct fixture f;
    fixture_open(&f);
    put_host(&f);
    /* 40 GB although only 1 GB is free (M4: cache is no refusal); not the 48 GB of Cached, 8 GB of which are
     * shared memory (M7); and none of the 8 GB of swap (M13). */
    check(&f, 65536, 40960);
    /* A container that shows its own total and free beside the host's available. */
    fixture_put(&f, "/proc/meminfo", "MemTotal: 1048576 kB\nMemFree: 524288 kB\nMemAvailable: 41943040 kB\n");
    check(&f, 1024, 512);
    fixture_close(&f);
}

static void m7_real_shared_memory_is_not_available(void)
{
    struct tg_memory before, after;
    const size_t bytes = 512u << 20;
    uint64_t most = 0;
    /* The machine is shared: other work may end meanwhile, so the fall is looked for a few times. And the
     * kernel keeps freed pages per processor, which its figure leaves out: a quarter of the fall is enough.
     */
    for (int i = 0; i < 20 && most < 128; i++) {
        int fd = memfd_create("tidegate-test", MFD_CLOEXEC);
        CHECK(fd >= 0);
        CHECK(ftruncate(fd, (off_t)bytes) == 0);
        CHECK_EQ(tg_memory_read(&machine, false, &before), 0);
        if (before.available_mb < 2048) {
            close(fd);
            fprintf(stderr, "SKIPPED: less than 2 GB is available\n");
            return;
        }
        char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
        CHECK(p != MAP_FAILED);
        CHECK_EQ(tg_memory_read(&machine, false, &after), 0);
        munmap(p, bytes);
        close(fd);
        if (before.available_mb > after.available_mb && before.available_mb - after.available_mb > most)
            most = before.available_mb - after.available_mb;
    }
    CHECK(most >= 128);
}

static void m1_m2_version_2(void)
{
    struct fixture f;
    fixture_open(&f);
    put_host(&f);
    fixture_put(&f, "/proc/self/cgroup", "0::/user.slice/job\n");
    check(&f, 65536, 40960); /* none mounted */
    fixture_put(&f, "/sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
    fixture_put(&f, "/sys/fs/cgroup/user.slice/job/cgroup.procs", "1\n");
    check(&f, 65536, 40960); /* no memory controller there */
    fixture_put(&f, "/sys/fs/cgroup/user.slice/job/memory.max", "max\n");
    check(&f, 65536, 40960);
    put_v2(&f, "/sys/fs/cgroup/user.slice/job", GB, GB / 4, 0);
    check(&f, 1024, 768); /* limit and usage of the same group, not the host's used against its limit */
    put_v2(&f, "/sys/fs/cgroup/user.slice/job", GB, GB, GB / 2);
    check(&f, 1024, 512); /* M8: usage - inactive_file */
    put_v2(&f, "/sys/fs/cgroup/user.slice/job", GB, GB / 2, GB);
    check(&f, 1024, 1024); /* counters read a moment apart: never below 0 */
    put_v2(&f, "/sys/fs/cgroup/user.slice/job", GB, 2 * GB, 0);
    check(&f, 1024, 0); /* limit lowered below the usage */
    put_v2(&f, "/sys/fs/cgroup/user.slice/job", 60 * GB, 50 * GB, 0);
    check(&f, 61440, 10240);
    put_v2(&f, "/sys/fs/cgroup/user.slice/job", 60 * GB, GB, 0);
    check(&f, 61440, 40960); /* the host has less than the group would allow */
    put_v2(&f, "/sys/fs/cgroup/user.slice/job", 0, 0, 0);
    check(&f, 0, 0);
    fixture_close(&f);
}

static void m1_every_group_above_counts(void)
{
    struct fixture f;
    fixture_open(&f);
    put_host(&f);
    fixture_put(&f, "/proc/self/cgroup", "0::/a/b/c\n");
    fixture_put(&f, "/sys/fs/cgroup/cgroup.controllers", "memory\n");
    put_v2(&f, "/sys/fs/cgroup/a/b/c", 8 * GB, GB, 0);
    fixture_put(&f, "/sys/fs/cgroup/a/b/memory.max", "max\n");
    put_v2(&f, "/sys/fs/cgroup/a", 4 * GB, 3 * GB, 0);
    check(&f, 4096, 1024); /* limit and usage of /a */
    /* The larger limit above leaves less: others use it up. */
    put_v2(&f, "/sys/fs/cgroup/a", 16 * GB, 15 * GB + GB / 2, 0);
    check(&f, 8192, 512);
    /* The mount itself is the last, as in a container's own namespace. */
    fixture_put(&f, "/proc/self/cgroup", "0::/\n");
    put_v2(&f, "/sys/fs/cgroup", 2 * GB, GB, GB / 2);
    check(&f, 2048, 1536);
    fixture_close(&f);
}

static void m2_version_1_and_hybrid(void)
{
    static const char *const groups =
        "9:name=systemd:/\n8:pids:/\n4:memory:/api/0995\n2:cpu,cpuacct:/\n0::/\n";
    struct fixture f;
    fixture_open(&f);
    put_host(&f);
    fixture_put(&f, "/proc/self/cgroup", groups);
    fixture_put(&f, "/sys/fs/cgroup/memory/memory.limit_in_bytes", V1_UNLIMITED);
    fixture_put(&f, "/sys/fs/cgroup/memory/api/memory.limit_in_bytes", V1_UNLIMITED);
    fixture_put(&f, "/sys/fs/cgroup/memory/api/0995/memory.limit_in_bytes", V1_UNLIMITED);
    put_v2(&f, "/sys/fs/cgroup/unified", GB, GB, 0); /* version 1 has the controller: not asked */
    check(&f, 65536, 40960);
    put_v1(&f, "/sys/fs/cgroup/memory/api/0995", 3 * GB, 2 * GB, GB / 2);
    check(&f, 3072, 1536); /* total_inactive_file: with the groups below */
    put_v1(&f, "/sys/fs/cgroup/memory/api", 2 * GB, 2 * GB, 0);
    check(&f, 2048, 0);
    /* Memory moved to version 2 while other controllers stay: it lies at unified. */
    fixture_put(&f, "/proc/self/cgroup", "8:pids:/\n0::/\n");
    put_v2(&f, "/sys/fs/cgroup/unified", 5 * GB, GB, 0);
    check(&f, 5120, 4096);
    fixture_close(&f);
}

static void a_path_that_is_not_mounted_falls_back(void)
{
    static const char *const mount =
        "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
        "35 31 0:32 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
    struct fixture f;
    fixture_open(&f);
    put_host(&f);
    put_v1(&f, "/sys/fs/cgroup/memory", 4 * GB, GB, 0);
    put_v1(&f, "/sys/fs/cgroup/memory/sub", 2 * GB, GB, 0);
    fixture_put(&f, "/proc/self/cgroup", "4:memory:/docker/abc\n");
    check(&f, 4096, 3072); /* nothing of it is here: the mount */
    fixture_put(&f, "/proc/self/cgroup", "4:memory:/docker/abc/sub\n");
    check(&f, 4096, 3072);
    fixture_put(&f, "/proc/self/mountinfo", mount);
    check(&f, 2048, 1024); /* the mount is of /docker/abc, so this is its sub */
    fixture_put(&f, "/proc/self/cgroup", "4:memory:/docker/abcdef/sub\n");
    check(&f, 4096, 3072); /* another container's */
    fixture_put(&f, "/proc/self/cgroup", "4:memory:/sub/gone (deleted)\n");
    check(&f, 2048, 1024); /* the nearest group above that is left */
    /* A process outside its namespace: nothing above the mount is touched. */
    put_v1(&f, "/sys/fs/cgroup", 1, 1, 0);
    put_v1(&f, "/sys/fs", 1, 1, 0);
    fixture_put(&f, "/proc/self/cgroup", "4:memory:/../../sub\n");
    check(&f, 4096, 3072);
    fixture_put(&f, "/proc/self/cgroup", "4:memory:/..\n");
    check(&f, 4096, 3072);
    fixture_put(&f, "/proc/self/cgroup", "4:memory:/sub/..x/..\n");
    check(&f, 4096, 3072);
    fixture_close(&f);
}

static int read_with(const struct fixture *f, const char *path, const char *text)
{
    struct tg_memory m;
    fixture_put(f, path, text);
    return tg_memory_read(&f->root, false, &m);
}

static void s4_a_limit_that_cannot_be_read_refuses(void)
{
    static const char *const bad[] = {
        "", "x", "-1\n", "1G\n", "99999999999999999999\n", " 5\n", "5 \n", "max5", "MAX\n", "5\n\n", "0x5\n"};
    static const char *const dir = "/sys/fs/cgroup/a";
    struct fixture f;
    struct tg_memory m;
    fixture_open(&f);
    put_host(&f);
    fixture_put(&f, "/proc/self/cgroup", "0::/a\n");
    fixture_put(&f, "/sys/fs/cgroup/cgroup.controllers", "memory\n");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        put_v2(&f, dir, GB, GB / 2, 0);
        CHECK_EQ(read_with(&f, "/sys/fs/cgroup/a/memory.max", bad[i]), -EBADMSG);
        put_v2(&f, dir, GB, GB / 2, 0);
        CHECK_EQ(read_with(&f, "/sys/fs/cgroup/a/memory.current", bad[i]), -EBADMSG);
    }
    put_v2(&f, dir, GB, GB / 2, 0);
    CHECK_EQ(read_with(&f, "/sys/fs/cgroup/a/memory.stat", "inactive_file 99999999999999999999\n"), -EBADMSG);
    CHECK_EQ(read_with(&f, "/sys/fs/cgroup/a/memory.stat", "inactive_file -5\n"), -EBADMSG);
    CHECK_EQ(read_with(&f, "/sys/fs/cgroup/a/memory.stat", "anon 5\n"), 0); /* nothing to subtract then */
    fixture_drop(&f, "/sys/fs/cgroup/a/memory.stat");
    CHECK_EQ(tg_memory_read(&f.root, false, &m), -ENOENT);
    fixture_drop(&f, "/sys/fs/cgroup/a/memory.current");
    CHECK_EQ(tg_memory_read(&f.root, false, &m), -ENOENT); /* a limit without its usage says nothing */
    static const char *const lines[] = {"x\n", "0:\n", "0::\n", "0::a\n", ":memory:/\n", "\n", "0::/a\n\n"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        CHECK_EQ(read_with(&f, "/proc/self/cgroup", lines[i]), -EBADMSG);
    fixture_close(&f);
}

/* M8: what the kernel can drop at once is not in use; what it merely may write out or swap is. */
static void m8_working_set_is_usage_less_inactive_file(void)
{
    struct fixture f;
    fixture_open(&f);
    put_host(&f);
    fixture_put(&f, "/proc/self/cgroup", "0::/job\n");
    fixture_put(&f, "/sys/fs/cgroup/cgroup.controllers", "memory\n");
    put_v2(&f, "/sys/fs/cgroup/job", 4 * GB, 3 * GB, 0);
    fixture_put(
        &f, "/sys/fs/cgroup/job/memory.stat",
        "anon 1073741824\nfile 2147483648\nshmem 1073741824\nfile_dirty 4096\ninactive_anon 1073741824\n"
        "active_anon 1073741824\ninactive_file 536870912\nactive_file 536870912\nunevictable 0\n");
    check(&f, 4096, 1536); /* M7: the 1 GB of tmpfs in the group is in use */
    fixture_close(&f);
}

/* E4's cause: above memory.high everything stands still, so no more than that is there to give. */
static void m1_memory_high_is_a_limit(void)
{
    struct fixture f;
    struct tg_memory m;
    fixture_open(&f);
    put_host(&f);
    fixture_put(&f, "/proc/self/cgroup", "0::/job\n");
    fixture_put(&f, "/sys/fs/cgroup/cgroup.controllers", "memory\n");
    put_v2(&f, "/sys/fs/cgroup/job", 4 * GB, GB, 0);
    put_number(&f, "/sys/fs/cgroup/job", "memory.high", 2 * GB);
    check(&f, 2048, 1024);
    put_number(&f, "/sys/fs/cgroup/job", "memory.high", 8 * GB);
    check(&f, 4096, 3072);
    fixture_put(&f, "/sys/fs/cgroup/job/memory.high", "max\n");
    check(&f, 4096, 3072);
    fixture_put(&f, "/sys/fs/cgroup/job/memory.max", "max\n");
    put_number(&f, "/sys/fs/cgroup/job", "memory.high", 2 * GB);
    check(&f, 2048, 1024);
    fixture_put(&f, "/sys/fs/cgroup/job/memory.high", "lots\n");
    CHECK_EQ(tg_memory_read(&f.root, false, &m), -EBADMSG);
    fixture_close(&f);
}

#define ARC(size, c_min)                                                                                     \
    "13 1 0x01 123 33456 4093 98\nname                            type data\n"                               \
    "hits                            4    123\nc                               4    25769803776\n"           \
    "c_min                           4    " c_min "\nc_max                           4    33554432000\n"     \
    "size                            4    " size "\ncompressed_size                 4    999999999999\n"

static void check_arc(const struct fixture *f, const char *text, int err, uint64_t available_mb)
{
    struct tg_memory m;
    if (text)
        fixture_put(f, "/proc/spl/kstat/zfs/arcstats", text);
    CHECK_EQ(tg_memory_read(&f->root, true, &m), err);
    if (!err)
        CHECK_EQ(m.available_mb, available_mb);
}

static void m5_zfs_gives_back_what_is_above_its_least(void)
{
    struct fixture f;
    fixture_open(&f);
    put_host(&f);
    check_arc(&f, NULL, 0, 40960); /* no ZFS here */
    check_arc(&f, ARC("12884901888", "4294967296"), 0, 40960 + 8192);
    check(&f, 65536, 40960); /* only when asked for */
    check_arc(&f, ARC("1073741824", "4294967296"), 0, 40960);
    check_arc(&f, ARC("99999999999999", "0"), 0, 65536); /* no more than there is */
    check_arc(&f, ARC("99999999999999999999", "0"), -EBADMSG, 0);
    check_arc(&f, ARC("-5", "0"), -EBADMSG, 0);
    check_arc(&f, "size 4 5\n", -EBADMSG, 0);
    check_arc(&f, "size 4\nc_min 4 5\n", -EBADMSG, 0);
    check_arc(&f, "", -EBADMSG, 0);
    /* It is the host's: a group's limit is not widened by it. */
    fixture_put(&f, "/proc/self/cgroup", "0::/job\n");
    fixture_put(&f, "/sys/fs/cgroup/cgroup.controllers", "memory\n");
    put_v2(&f, "/sys/fs/cgroup/job", 4 * GB, GB, 0);
    check_arc(&f, ARC("12884901888", "4294967296"), 0, 3072);
    fixture_close(&f);
}

static void the_real_machine_has_memory(void)
{
    struct tg_memory m;
    CHECK_EQ(tg_memory_read(&machine, false, &m), 0);
    CHECK(m.total_mb > 0 && m.available_mb <= m.total_mb);
    CHECK(m.total_mb <= (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) >> 20);
}

int main(void)
{
    RUN(s4_no_meminfo_no_reading);
    RUN(m4_m7_m13_available_is_what_the_kernel_says);
    RUN(m1_m2_version_2);
    RUN(m1_every_group_above_counts);
    RUN(m2_version_1_and_hybrid);
    RUN(m8_working_set_is_usage_less_inactive_file);
    RUN(m1_memory_high_is_a_limit);
    RUN(m5_zfs_gives_back_what_is_above_its_least);
    RUN(a_path_that_is_not_mounted_falls_back);
    RUN(s4_a_limit_that_cannot_be_read_refuses);
    RUN(the_real_machine_has_memory);
    RUN(m7_real_shared_memory_is_not_available);
    return 0;
}
