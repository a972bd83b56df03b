/* SPDX-License-Identifier: Apache-2.0
 * Files that are kept open show what is there now; what cannot be kept is read all the same. A pidfd and an
 * identity that are asked for together mean the same process (A4, S2). */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "machine/child.h"
#include "machine/fixture.h"
#include "machine/kept.h"
#include "machine/load.h"
#include "machine/memory.h"
#include "machine/proc.h"

static struct tg_kept kept;
static const struct tg_root keeping = {.prefix = "", .kept = &kept};

static void a_second_look_opens_nothing_and_sees_the_present(void)
{
    char before[8192], after[8192];
    CHECK(tg_kept_read(&kept, "/proc/meminfo", before, sizeof before) > 0);
    CHECK_EQ(kept.n_files, 1);
    int fd = kept.file[0].fd;
    size_t bytes = 64u << 20;
    char *held = malloc(bytes);
    CHECK(held);
    volatile char *touched = held; /* a compiler may leave out stores that nobody reads */
    bool changed = false;
    for (int i = 0; i < 50 && !changed; i++) { /* the kernel counts in batches */
        for (size_t at = 0; at < bytes; at += 4096)
            touched[at] = (char)(i + 1);
        CHECK(tg_kept_read(&kept, "/proc/meminfo", after, sizeof after) > 0);
        changed = strcmp(before, after) != 0;
    }
    CHECK(changed);
    free(held);
    CHECK_EQ(kept.n_files, 1);
    CHECK_EQ(kept.file[0].fd, fd);
    tg_kept_done(&kept);
    CHECK_EQ(kept.n_files, 0);
}

static void it_reads_what_plain_reading_reads(void)
{
    static const struct tg_root plain = {.prefix = ""};
    struct tg_memory a, b;
    int err = tg_memory_read(&plain, false, &a);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(tg_memory_read(&keeping, false, &b), err);
        if (!err)
            CHECK_EQ(b.total_mb, a.total_mb);
        CHECK_EQ(tg_usable_cores(&keeping), tg_usable_cores(&plain));
    }
    tg_kept_done(&kept);
}

static void a_file_that_does_not_fit_or_is_no_such_file_is_not_kept(void)
{
    char small[16], buf[8192];
    CHECK_EQ(tg_kept_read(&kept, "/proc/meminfo", small, sizeof small), -ENOTSUP);
    CHECK_EQ(tg_kept_read(&kept, "/proc/self/stat", buf, sizeof buf), -ENOTSUP);
    CHECK_EQ(tg_kept_read(&kept, "/sys/fs/cgroup/there/is/none", buf, sizeof buf), -ENOENT);
    CHECK_EQ(kept.n_files, 0);
    CHECK_EQ(tg_root_read(&keeping, "/proc/meminfo", small, sizeof small), -EFBIG);
    CHECK(tg_root_read(&keeping, "/proc/self/stat", buf, sizeof buf) > 0);
}

/* The group that a kept file belonged to has gone: its descriptor says so, and the name is asked again. */
static void a_descriptor_that_has_become_useless_is_opened_anew(void)
{
    char buf[8192];
    CHECK(tg_kept_read(&kept, "/proc/meminfo", buf, sizeof buf) > 0);
    int dead = open("/", O_RDONLY | O_CLOEXEC); /* reading it fails */
    CHECK(dead >= 0);
    close(kept.file[0].fd);
    kept.file[0].fd = dead;
    CHECK(tg_kept_read(&kept, "/proc/meminfo", buf, sizeof buf) > 0);
    CHECK(strncmp(buf, "MemTotal:", 9) == 0);
    CHECK_EQ(kept.n_files, 1);
    kept.opened_ms = 0; /* and all of them after a while */
    CHECK(tg_kept_read(&kept, "/proc/loadavg", buf, sizeof buf) > 0);
    CHECK_EQ(kept.n_files, 1);
    tg_kept_done(&kept);
}

static void groups_are_remembered_for_a_second(void)
{
    struct tg_cgroup g = {.version = 2, .dir = "/sys/fs/cgroup/a"}, got = {.version = 7};
    int err = 7;
    CHECK(!tg_kept_group_get(&kept, "memory", &err, &got));
    tg_kept_group_put(&kept, "memory", 0, &g);
    tg_kept_group_put(&kept, "cpu", -ENOENT, NULL);
    CHECK(tg_kept_group_get(&kept, "memory", &err, &got));
    CHECK(err == 0 && strcmp(got.dir, g.dir) == 0);
    CHECK(tg_kept_group_get(&kept, "cpu", &err, &got));
    CHECK_EQ(err, -ENOENT);
    kept.placed_ms -= TG_KEPT_PLACE_MS;
    CHECK(!tg_kept_group_get(&kept, "memory", &err, &got));
    for (unsigned i = 0; i < TG_KEPT_GROUPS + 2; i++) {
        char name[16];
        snprintf(name, sizeof name, "c%u", i);
        tg_kept_group_put(&kept, name, 0, &g);
    }
    CHECK_EQ(kept.n_groups, TG_KEPT_GROUPS);
    tg_kept_done(&kept);
}

static void a_fixture_is_never_kept(void)
{
    struct fixture f;
    char buf[64];
    fixture_open(&f);
    f.root.kept = &kept;
    fixture_put(&f, "/proc/loadavg", "one\n");
    CHECK(tg_root_read(&f.root, "/proc/loadavg", buf, sizeof buf) == 4);
    fixture_put(&f, "/proc/loadavg", "two\n");
    CHECK(tg_root_read(&f.root, "/proc/loadavg", buf, sizeof buf) == 4 && strcmp(buf, "two\n") == 0);
    CHECK_EQ(kept.n_files, 0);
    fixture_close(&f);
}

static void s2_identity_and_pidfd_mean_one_process(void)
{
    struct tg_owner a, b;
    struct tg_kin kin;
    int fd = -1;
    pid_t pid = spawn(NULL);
    CHECK_EQ(tg_owner_open(&keeping, pid, &a, &kin, &fd), 0);
    CHECK_EQ(tg_owner_of(&keeping, pid, &b), 0);
    CHECK(memcmp(&a, &b, sizeof a) == 0 && kin.parent == getpid());
    struct pollfd p = {.fd = fd, .events = POLLIN};
    if (fd >= 0) /* a kernel without pidfds has none */
        CHECK_EQ(poll(&p, 1, 0), 0);
    kill(pid, SIGKILL);
    if (fd >= 0)
        CHECK_EQ(poll(&p, 1, 60000), 1);
    close(fd);
    fd = -7;
    siginfo_t info;
    CHECK(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0);
    CHECK_EQ(tg_owner_open(&keeping, pid, &a, &kin, &fd), -ESRCH); /* it waits to be reaped */
    reap(pid);
    CHECK_EQ(tg_owner_open(&keeping, 0, &a, &kin, &fd), -EINVAL);
    CHECK_EQ(fd, -7);
}

int main(void)
{
    RUN(a_second_look_opens_nothing_and_sees_the_present);
    RUN(it_reads_what_plain_reading_reads);
    RUN(a_file_that_does_not_fit_or_is_no_such_file_is_not_kept);
    RUN(a_descriptor_that_has_become_useless_is_opened_anew);
    RUN(groups_are_remembered_for_a_second);
    RUN(a_fixture_is_never_kept);
    RUN(s2_identity_and_pidfd_mean_one_process);
    return 0;
}
