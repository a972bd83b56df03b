/* SPDX-License-Identifier: Apache-2.0
 * R1 and S1: many runs at once, measured by the jobs themselves in a page that they share. */
#include <sys/mman.h>

#include "base/atomic.h"
#include "cli_test.h"

struct page {
    uint32_t now;  /* written by all jobs (J1) */
    uint32_t high; /* likewise (J2) */
    uint32_t ran;
};

static struct page *map_page(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    CHECK_EQ(ftruncate(fd, sizeof(struct page)), 0);
    struct page *p = mmap(NULL, sizeof(*p), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(p != MAP_FAILED);
    close(fd);
    return p;
}

/* One job: counts itself in, stays until two have been there at once (with patience, so that a slow machine
 * does not look like a cap of one), counts itself out. */
static int job(const char *path)
{
    struct page *p = map_page(path);
    uint32_t now = tg_add_seqcst_u32(&p->now, 1) + 1; /* J1, pairs with the other jobs' J1 */
    uint32_t high = tg_load_seqcst_u32(&p->high);     /* J2, pairs with J2 below */
    while (now > high && !tg_cas_seqcst_u32(&p->high, &high, now))
        ;
    CLI_UNTIL(tg_load_seqcst_u32(&p->high) >= 2, 20000); /* J2 */
    poll(NULL, 0, 3);
    tg_add_seqcst_u32(&p->ran, 1);
    tg_sub_seqcst_u32(&p->now, 1); /* J1 */
    return 0;
}

static char page_path[128], self[4096];

static pid_t start_run(void)
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        execl(cli_command, cli_command, "run", "-q", "-m", "10", "--", self, "job", page_path, (char *)NULL);
        _exit(99);
    }
    return pid;
}

static void run_at_once(unsigned n, struct page *p)
{
    pid_t pids[64];
    CHECK(n <= 64);
    for (unsigned i = 0; i < n; i++)
        pids[i] = start_run();
    for (unsigned i = 0; i < n; i++) {
        int status;
        CHECK_EQ(waitpid(pids[i], &status, 0), pids[i]);
        CHECK(WIFEXITED(status));
        CHECK_EQ(WEXITSTATUS(status), 0);
    }
    CHECK_EQ(tg_load_seqcst_u32(&p->now), 0);
}

static void r1_64_at_once_with_two_slots(void)
{
    struct page *p = map_page(page_path);
    run_at_once(64, p);
    CHECK_EQ(p->ran, 64);
    CHECK_EQ(p->high, 2); /* never more, and not one at a time either */
    munmap(p, sizeof(*p));
}

static void s1_300_short_jobs_then_three(void)
{
    static struct cli_run r;
    struct page *p = map_page(page_path);
    /* Fewer where the machine is busy with other things. */
    uint64_t end = tg_clock_mono_ns() + UINT64_C(60000000000);
    unsigned rounds = 0;
    do
        run_at_once(30, p);
    while (++rounds < 10 && tg_clock_mono_ns() < end);
    CHECK_EQ(p->ran, 64 + 30 * rounds);
    tg_store_seqcst_u32(&p->high, 0); /* J2; no job runs */
    run_at_once(3, p);
    CHECK_EQ(p->high, 2);
    CLI(&r, CLI_PATIENCE_MS, "status");
    CHECK(strncmp(r.out, "holders=0 waiters=0\n", 20) == 0);
    munmap(p, sizeof(*p));
}

int main(int argc, char **argv)
{
    static struct cli_run r;
    if (argc == 3 && strcmp(argv[1], "job") == 0)
        return job(argv[2]);
    alarm(280);
    cli_setup();
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    CHECK(n > 0);
    snprintf(page_path, sizeof(page_path), "%s/page", cli_dir);
    CLI(&r, CLI_PATIENCE_MS, "config", "load", "off");
    CHECK_EXIT(&r, 0);
    CLI(&r, CLI_PATIENCE_MS, "config", "slots", "2");
    CHECK_EXIT(&r, 0);
    RUN(r1_64_at_once_with_two_slots);
    RUN(s1_300_short_jobs_then_three);
    return 0;
}
