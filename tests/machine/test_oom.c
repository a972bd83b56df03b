/* SPDX-License-Identifier: Apache-2.0
 * Counts of kills for lack of memory (E8, E10), from the group where it says, else from the machine. */
#include <errno.h>
#include <inttypes.h>

#include "machine/child.h"
#include "machine/fixture.h"
#include "machine/oom.h"

static const struct tg_root machine = {.prefix = ""};

static uint64_t kills(const struct fixture *f)
{
    uint64_t n = 12345;
    CHECK_EQ(tg_oom_kills(&f->root, &n), 0);
    return n;
}

static int refused(const struct fixture *f)
{
    uint64_t n = 12345;
    int err = tg_oom_kills(&f->root, &n);
    CHECK(err < 0);
    CHECK_EQ(n, 12345);
    return err;
}

static void e10_the_count_of_the_group_else_of_the_machine(void)
{
    struct fixture f;
    fixture_open(&f);
    CHECK_EQ(refused(&f), -ENOENT);
    fixture_put(&f, "/proc/vmstat", "nr_free_pages 5\noom_kill 9\nswap_ra 0\n");
    CHECK_EQ(kills(&f), 9);
    fixture_put(&f, "/proc/self/cgroup", "0::/job\n");
    fixture_put(&f, "/proc/self/mountinfo",
                "30 20 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n");
    fixture_put(&f, "/sys/fs/cgroup/cgroup.controllers", "memory\n");
    fixture_put(&f, "/sys/fs/cgroup/job/cgroup.controllers", "memory\n");
    CHECK_EQ(kills(&f), 9); /* the group has no such file */
    fixture_put(&f, "/sys/fs/cgroup/job/memory.events",
                "low 0\nhigh 0\nmax 5\noom 3\noom_kill 2\noom_group_kill 1\n");
    CHECK_EQ(kills(&f), 2);
    fixture_put(&f, "/sys/fs/cgroup/job/memory.events", "oom 3\noom_group_kill 7\n");
    CHECK_EQ(kills(&f), 9);
    fixture_put(&f, "/sys/fs/cgroup/job/memory.events", "oom_kill 99999999999999999999\n");
    CHECK_EQ(refused(&f), -EBADMSG);
    fixture_put(&f, "/sys/fs/cgroup/job/memory.events", "oom_kill -1\n");
    CHECK_EQ(refused(&f), -EBADMSG);
    fixture_close(&f);
}

static void e10_version_1_counts_too(void)
{
    struct fixture f;
    fixture_open(&f);
    fixture_put(&f, "/proc/self/cgroup", "5:memory:/job\n");
    fixture_put(&f, "/proc/self/mountinfo",
                "30 20 0:26 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory\n");
    fixture_put(&f, "/sys/fs/cgroup/memory/job/memory.oom_control",
                "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n");
    CHECK_EQ(kills(&f), 4);
    fixture_close(&f);
}

static void e10_this_machine_says(void)
{
    uint64_t n;
    CHECK_EQ(tg_oom_kills(&machine, &n), 0);
    fprintf(stderr, "  %" PRIu64 " kills so far\n", n);
}

static int own_score(void)
{
    int score = -5000;
    FILE *f = fopen("/proc/self/oom_score_adj", "re");
    CHECK(f && fscanf(f, "%d", &score) == 1);
    fclose(f);
    return score;
}

/* E8: a child that volunteers scores higher than its parent; never past the end of the scale. */
static void e8_a_child_scores_higher_than_its_parent(void)
{
    int before = own_score();
    pid_t pid = fork();
    if (pid == 0) {
        tg_oom_volunteer(&machine, 100);
        int higher = own_score();
        tg_oom_volunteer(&machine, 5000);
        _exit(higher == (before < 900 ? before + 100 : 1000) && own_score() == 1000 ? 0 : 1);
    }
    CHECK_EQ(reap(pid), 0);
    CHECK_EQ(own_score(), before);
}

int main(void)
{
    RUN(e10_the_count_of_the_group_else_of_the_machine);
    RUN(e10_version_1_counts_too);
    RUN(e10_this_machine_says);
    RUN(e8_a_child_scores_higher_than_its_parent);
    return 0;
}
