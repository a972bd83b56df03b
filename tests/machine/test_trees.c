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

static const struct tg_root machine = {.prefix = ""};

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

/* A worker forked from a large process has its pages, and not a byte of its own until it writes. */
static void shared_pages_count_once(void)
{
    enum { LARGE_MB = 96, OWN_MB = 40 };
    int ready[2], go[2];
    char c;
    uint64_t mb;
    if (SANITIZED || access("/proc/self/task", F_OK) != 0)
        SKIP("sizes mean nothing under a sanitizer");
    CHECK(pipe(ready) == 0 && pipe(go) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        use_memory(LARGE_MB);
        for (int i = 0; i < 3; i++) {
            if (fork() == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                if (write(ready[1], "r", 1) != 1 || read(go[0], &c, 1) != 1)
                    _exit(1);
                use_memory(OWN_MB);
                if (write(ready[1], "r", 1) != 1)
                    _exit(1);
                break;
            }
        }
        for (;;)
            pause();
    }
    for (int i = 0; i < 3; i++)
        CHECK(read(ready[0], &c, 1) == 1);
    CHECK_EQ(tg_trees_resident_mb(&machine, &child, 1, &mb), 0);
    CHECK(mb >= LARGE_MB && mb <= LARGE_MB + SLACK_MB);
    CHECK(write(go[1], "ggg", 3) == 3);
    for (int i = 0; i < 3; i++)
        CHECK(read(ready[0], &c, 1) == 1);
    CHECK_EQ(tg_trees_resident_mb(&machine, &child, 1, &mb), 0);
    CHECK(mb >= LARGE_MB + 3 * OWN_MB && mb <= LARGE_MB + 3 * OWN_MB + SLACK_MB);
    CHECK(kill(child, SIGKILL) == 0);
    CHECK(waitpid(child, NULL, 0) == child);
    for (int i = 0; i < 2; i++) {
        close(ready[i]);
        close(go[i]);
    }
}

/* A tree as the kernel lists it: /proc/PID/task/TID/children. */
static void put_children(const struct fixture *f, int pid, int tid, const char *children)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, tid);
    fixture_put(f, path, children);
}

static void a_tree_is_walked_by_its_children(void)
{
    struct fixture f;
    const pid_t roots[] = {10, 99, 11};
    uint64_t mb[3];
    fixture_open(&f);
    fixture_put_status(&f, 10, 1, 1024, 0);
    fixture_put_status(&f, 11, 10, 2048, 0);
    fixture_put_status(&f, 12, 11, 4096, 0);
    fixture_put_status(&f, 13, 10, 8192, 0);
    put_children(&f, 10, 10, "11 77 13 "); /* 77 has just ended */
    put_children(&f, 11, 11, "12 ");
    put_children(&f, 12, 12, "");
    put_children(&f, 13, 13, "");
    CHECK_EQ(tg_trees_resident_mb(&f.root, roots, 3, mb), 0);
    CHECK(mb[0] == 15 && mb[1] == 0 && mb[2] == 6);
    /* Whatever stands there, the pass over all gives an answer. */
    static const char *const bad[] = {"x", "-1 ", "0 ", "4294967307 ", "11 11 11 10 ", "12,13"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        put_children(&f, 12, 12, bad[i]);
        CHECK_EQ(tg_trees_resident_mb(&f.root, roots, 3, mb), 0);
        CHECK(mb[0] == 15 && mb[1] == 0 && mb[2] == 6);
    }
    fixture_close(&f);
}

static void put_image(const struct fixture *f, int pid, const char *code, const char *stack)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    snprintf(
        text, sizeof text,
        "%d (a ) b) S 1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 -5 1 0 777 48349184 4159 18446744073709551615 "
        "%s 2 %s 0 0 0 0 4096\n",
        pid, code, stack);
    fixture_put(f, path, text);
}

static uint64_t walked_mb(const struct fixture *f)
{
    const pid_t root = 10;
    uint64_t mb;
    CHECK_EQ(tg_trees_resident_mb(&f->root, &root, 1, &mb), 0);
    return mb;
}

static void forked_copies_count_what_is_their_own(void)
{
    struct fixture f;
    fixture_open(&f);
    fixture_put_status(&f, 10, 1, 100 << 10, 0);
    fixture_put_status(&f, 11, 10, 120 << 10, 0);
    put_children(&f, 10, 10, "11 ");
    put_children(&f, 11, 11, "");
    CHECK_EQ(walked_mb(&f), 220); /* nothing known about their programs */
    put_image(&f, 10, "5000", "7000");
    put_image(&f, 11, "5000", "7001");
    CHECK_EQ(walked_mb(&f), 220); /* it has executed something */
    put_image(&f, 11, "5000", "7000");
    CHECK_EQ(walked_mb(&f), 120); /* its pages cannot be seen: what it has more */
    fixture_put(&f, "/proc/11/smaps_rollup",
                "1-2 ---p 00000000 00:00 0 [rollup]\nRss: 122880 kB\nPss: 1 kB\nShared_Dirty: 1 kB\n"
                "Private_Clean: 1024 kB\nPrivate_Dirty: 40960 kB\n");
    CHECK_EQ(walked_mb(&f), 141);
    fixture_put(&f, "/proc/11/smaps_rollup", "Private_Clean: 1 kB\nPrivate_Dirty: many kB\n");
    CHECK_EQ(walked_mb(&f), 120);
    put_image(&f, 10, "5000", "0"); /* hidden */
    put_image(&f, 11, "5000", "0");
    CHECK_EQ(walked_mb(&f), 220);
    fixture_close(&f);
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
    RUN(a_tree_is_walked_by_its_children);
    RUN(forked_copies_count_what_is_their_own);
    RUN(a_real_tree_is_measured);
    RUN(processes_that_vanish_in_the_pass);
    RUN(shared_pages_count_once);
    return 0;
}
