/* SPDX-License-Identifier: Apache-2.0
 * What process trees use (A2: a reservation shrinks as its tree grows), on fixtures and on real trees. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "machine/fixture.h"
#include "machine/memory.h"

static const struct tg_root machine = {""};

static void a_tree_is_summed_from_one_pass(void)
{
    struct fixture f;
    const pid_t roots[] = {10, 20, 11, 99, 0, -1, 10};
    uint64_t mb[7];
    fixture_open(&f);
    CHECK_EQ(tg_trees_resident_mb(&f.root, roots, 7, mb), -ENOENT);
    fixture_put_boot(&f);
    CHECK_EQ(tg_trees_resident_mb(&f.root, roots, 7, mb), 0); /* nobody lives */
    CHECK_EQ(mb[0], 0);
    fixture_put_status(&f, 10, 1, 1024, 512);
    fixture_put_status(&f, 11, 10, 2048, 0);
    fixture_put_status(&f, 12, 11, 0, 4096 + 512);
    fixture_put_status(&f, 9, 12, 1024, 0); /* a child with a smaller number: they wrap */
    fixture_put_status(&f, 20, 1, 3072, 0);
    fixture_put_status(&f, 21, 20, -1, 0); /* a zombie or a kernel thread */
    fixture_put_status(&f, 22, 21, 1024, 0);
    fixture_put(&f, "/proc/uptime", "1 1\n");
    fixture_put(&f, "/proc/0/status", "PPid:\t10\nRssAnon: 102400 kB\n");
    fixture_put(&f, "/proc/010/status", "PPid:\t10\nRssAnon: 102400 kB\n");
    fixture_put(&f, "/proc/13x/status", "PPid:\t10\nRssAnon: 102400 kB\n");
    fixture_put(&f, "/proc/99999999999999999999/status", "PPid:\t10\nRssAnon: 102400 kB\n");
    CHECK_EQ(tg_trees_resident_mb(&f.root, roots, 7, mb), 0);
    CHECK_EQ(mb[0], 9); /* 1.5 + 2 + 4.5 + 1; neither VmRSS, RssFile nor VmSwap (M13) */
    CHECK_EQ(mb[1], 4);
    CHECK_EQ(mb[2], 7); /* a root below another root */
    CHECK_EQ(mb[3], 0);
    CHECK_EQ(mb[4], 0);
    CHECK_EQ(mb[5], 0);
    CHECK_EQ(mb[6], 9);
    fixture_close(&f);
}

static void what_cannot_be_measured_has_not_grown(void)
{
    static const char *const bad[] = {
        "RssAnon:\t1024 kB\n",                            /* whose child? */
        "PPid:\tx\nRssAnon:\t1024 kB\n",                  /* */
        "PPid:\t-10\nRssAnon:\t1024 kB\n",                /* */
        "PPid:\t4294967306\nRssAnon:\t1024 kB\n",         /* 10 in 32 bits */
        "PPid:\t10\nRssAnon:\t99999999999999999999 kB\n", /* N4 */
        "PPid:\t10\nRssAnon:\t9007199254740992 kB\n",     /* more than any machine has */
        "PPid:\t10\nRssAnon:\t1024\n",
        "PPid:\t10\nRssAnon:\t1024 kB\nRssShmem:\t-1 kB\n",
        "",
    };
    struct fixture f;
    const pid_t root = 10;
    uint64_t mb;
    fixture_open(&f);
    fixture_put_status(&f, 10, 1, 5120, 0);
    char full[1024];
    CHECK(mkdir(fixture_path(&f, "/proc/12", full), 0700) == 0); /* gone between listing and reading */
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fixture_put(&f, "/proc/11/status", bad[i]);
        CHECK_EQ(tg_trees_resident_mb(&f.root, &root, 1, &mb), 0);
        CHECK_EQ(mb, 5);
    }
    fixture_close(&f);
}

static void cycles_end(void)
{
    struct fixture f;
    const pid_t roots[] = {10, 11, 30};
    uint64_t mb[3];
    fixture_open(&f);
    fixture_put_status(&f, 10, 11, 1024, 0);
    fixture_put_status(&f, 11, 10, 1024, 0);
    fixture_put_status(&f, 12, 11, 1024, 0);
    fixture_put_status(&f, 30, 30, 1024, 0);
    CHECK_EQ(tg_trees_resident_mb(&f.root, roots, 3, mb), 0);
    CHECK(mb[0] >= 1 && mb[0] <= 3 && mb[1] >= 1 && mb[1] <= 3);
    CHECK_EQ(mb[2], 1);
    fixture_close(&f);
}

/* Deep and wide, so that a cost that is not linear shows. */
static void two_thousand_processes_in_one_pass(void)
{
    struct fixture f;
    enum { N = 2000 };
    pid_t roots[N];
    static uint64_t mb[N];
    fixture_open(&f);
    for (int i = 0; i < N; i++) {
        fixture_put_status(&f, 1000 + i, i % 2 ? 1000 + i - 1 : i ? 1000 + i - 2 : 1, 1024, 0);
        roots[i] = 1000 + i;
    }
    uint64_t start = tg_clock_mono_ns();
    CHECK_EQ(tg_trees_resident_mb(&f.root, roots, N, mb), 0);
    fprintf(stderr, "  %d processes, %d roots: %" PRIu64 " us\n", N, N, (tg_clock_mono_ns() - start) / 1000);
    CHECK_EQ(mb[0], N);
    CHECK_EQ(mb[1], 1);
    CHECK_EQ(mb[2], N - 2);
    fixture_close(&f);
}

#define CHILD_MB 48
#define GRANDCHILD_MB 32
#ifdef __has_feature
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif
#define SLACK_MB (SANITIZED ? 4096u : 16u) /* sanitizers keep shadow memory */

static void use_memory(size_t mb)
{
    char *p = mmap(NULL, mb << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        _exit(1);
    memset(p, 1, mb << 20);
}

/* Two generations that fill memory, say so, and wait. */
static void grow(int ready)
{
    pid_t grandchild = fork();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    use_memory(grandchild == 0 ? GRANDCHILD_MB : CHILD_MB);
    if (grandchild < 0 || write(ready, "r", 1) != 1)
        _exit(1);
    for (;;)
        pause();
}

static void a_real_tree_is_measured(void)
{
    int ready[2];
    char c;
    CHECK(pipe(ready) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        grow(ready[1]);
    CHECK(read(ready[0], &c, 1) == 1);
    CHECK(read(ready[0], &c, 1) == 1);
    uint64_t mb;
    CHECK_EQ(tg_trees_resident_mb(&machine, &child, 1, &mb), 0);
    CHECK(mb >= CHILD_MB + GRANDCHILD_MB);
    CHECK(mb <= CHILD_MB + GRANDCHILD_MB + SLACK_MB);
    CHECK(kill(child, SIGKILL) == 0);
    CHECK(waitpid(child, NULL, 0) == child);
    CHECK_EQ(tg_trees_resident_mb(&machine, &child, 1, &mb), 0);
    CHECK_EQ(mb, 0);
    close(ready[0]);
    close(ready[1]);
}

static void processes_that_vanish_in_the_pass(void)
{
    const pid_t self = getpid();
    for (int i = 0; i < 20; i++) {
        for (int k = 0; k < 5; k++) {
            pid_t child = fork();
            CHECK(child >= 0);
            if (child == 0)
                _exit(0);
        }
        uint64_t mb;
        CHECK_EQ(tg_trees_resident_mb(&machine, &self, 1, &mb), 0);
        CHECK(mb < 1u << 20);
        while (waitpid(-1, NULL, 0) > 0)
            ;
    }
}

int main(void)
{
    RUN(a_tree_is_summed_from_one_pass);
    RUN(what_cannot_be_measured_has_not_grown);
    RUN(cycles_end);
    RUN(two_thousand_processes_in_one_pass);
    RUN(a_real_tree_is_measured);
    RUN(processes_that_vanish_in_the_pass);
    return 0;
}
