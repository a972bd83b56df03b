/* SPDX-License-Identifier: Apache-2.0
 *
 * What a launch costs.
 *   hand-off   from the end of A to the start of B, B waiting, one slot, 500 times; the floor is a process
 *              that sleeps on a futex, is waked by A's last act and calls posix_spawn
 *   serial     posix_spawn and waitpid of "/bin/true" through each wrapper; the floor is none at all
 * Contenders take turns, so that the machine's drift meets all alike. A private broker, stopped at the end.
 *   bench_launch [ROUNDS]
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include <stddef.h>

#include "bench.h"

extern char **environ;

struct job {
    uint64_t start_ns; /* written by the job */
    uint64_t end_ns;   /* written by the job */
    uint32_t started;  /* futex; by the job (S1) */
    uint32_t go;       /* futex; by the bench (G1) */
    uint32_t ended;    /* futex; by the job, its last act (E1) */
};

enum { MAX_ROUNDS = 2000, LIMIT_S = 10 };

static char self[4096], tidegate[4096], place[64], page_path[128], lock_path[128];

static void die(const char *what)
{
    fprintf(stderr, "bench_launch: %s: %s\n", what, strerror(errno));
    exit(1);
}

static struct job *map_page(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(struct job) * MAX_ROUNDS))
        die(path);
    void *p = mmap(NULL, sizeof(struct job) * MAX_ROUNDS, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        die("mmap");
    close(fd);
    return p;
}

static void futex_set(uint32_t *word)
{
    tg_store_seqcst_u32(word, 1); /* S1, G1, E1: pairs with the load in futex_await */
    syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void futex_await(uint32_t *word, const char *what)
{
    struct timespec limit = {.tv_sec = LIMIT_S};
    while (tg_load_seqcst_u32(word) == 0) { /* pairs with S1, G1, E1 */
        if (syscall(SYS_futex, word, FUTEX_WAIT, 0, &limit, NULL, 0) && errno == ETIMEDOUT)
            die(what);
    }
}

/* One job: says when it started, waits to be let go, says when it ended. */
static int job_main(const char *path, const char *index)
{
    uint64_t now = tg_clock_mono_ns();
    struct job *j = map_page(path) + strtoul(index, NULL, 10);
    j->start_ns = now;
    futex_set(&j->started);
    futex_await(&j->go, "nobody lets the job go");
    j->end_ns = tg_clock_mono_ns();
    futex_set(&j->ended);
    _exit(0);
}

static pid_t spawn(const char *const argv[])
{
    pid_t pid;
    int err = posix_spawn(&pid, argv[0], NULL, NULL, (char *const *)argv, environ);
    if (err) {
        errno = err;
        die(argv[0]);
    }
    return pid;
}

static void reap(pid_t pid)
{
    int status;
    if (waitpid(pid, &status, 0) != pid || status != 0) {
        errno = ECHILD;
        die("a job failed");
    }
}

struct contender {
    const char *name;
    const char *wrap[8]; /* its words before the command's; none: the floor */
    uint64_t handoff[MAX_ROUNDS];
    uint64_t serial[MAX_ROUNDS];
    bool absent;
};

static pid_t spawn_wrapped(const struct contender *c, const char *const words[])
{
    const char *argv[12];
    size_t n = 0;
    for (size_t i = 0; c->wrap[i]; i++)
        argv[n++] = c->wrap[i];
    for (size_t i = 0; words[i]; i++)
        argv[n++] = words[i];
    argv[n] = NULL;
    return spawn(argv);
}

static pid_t spawn_job(const struct contender *c, unsigned index)
{
    char number[16];
    snprintf(number, sizeof(number), "%u", index);
    const char *const words[] = {self, "job", page_path, number, NULL};
    return spawn_wrapped(c, words);
}

/* A chain of n + 1 jobs: each is let go when the next one waits behind it. */
static void measure_handoff(struct contender *c, struct job *page, unsigned n, uint64_t *samples)
{
    memset(page, 0, sizeof(*page) * (n + 1));
    pid_t pid = spawn_job(c, 0), next = -1;
    futex_await(&page[0].started, c->name);
    for (unsigned i = 0; i < n; i++) {
        if (c->wrap[0]) {
            next = spawn_job(c, i + 1);
            poll(NULL, 0, 5); /* let it reach the queue and sleep there */
        }
        futex_set(&page[i].go);
        if (!c->wrap[0]) { /* the floor: asleep until A's last act, then a bare spawn */
            futex_await(&page[i].ended, c->name);
            next = spawn_job(c, i + 1);
        }
        futex_await(&page[i + 1].started, c->name);
        samples[i] = page[i + 1].start_ns - page[i].end_ns;
        reap(pid);
        pid = next;
    }
    futex_set(&page[n].go);
    reap(pid);
}

static void measure_serial(struct contender *c, unsigned n, uint64_t *samples)
{
    static const char *const words[] = {"/bin/true", NULL};
    for (unsigned i = 0; i < n; i++) {
        uint64_t begin = tg_clock_mono_ns();
        reap(spawn_wrapped(c, words));
        samples[i] = tg_clock_mono_ns() - begin;
    }
}

static void command(const char *a, const char *b, const char *d)
{
    const char *const argv[] = {tidegate, a, b, d, NULL};
    reap(spawn(argv));
}

static void setup(void)
{
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (n <= 0)
        die("/proc/self/exe");
    /* The build folder is above this program's, or TG_BUILD_DIR. */
    const char *build = getenv("TG_BUILD_DIR");
    char *slash = strrchr(self, '/');
    if (build)
        snprintf(tidegate, sizeof(tidegate), "%s/tidegate", build);
    else
        snprintf(tidegate, sizeof(tidegate), "%.*s/../tidegate", (int)(slash - self), self);
    if (access(tidegate, X_OK))
        die(tidegate);
    snprintf(place, sizeof(place), "/tmp/tg-bench-XXXXXX");
    if (!mkdtemp(place) || setenv("HOME", place, 1) || setenv("XDG_RUNTIME_DIR", place, 1) ||
        setenv("XDG_STATE_HOME", place, 1) || unsetenv("TIDEGATE_TICKET"))
        die(place);
    snprintf(page_path, sizeof(page_path), "%s/page", place);
    snprintf(lock_path, sizeof(lock_path), "%s/lock", place);
    command("config", "slots", "1");
    command("config", "load", "off");
}

static void teardown(void)
{
    command("stop", "--force", NULL);
    const char *const rm[] = {"/bin/rm", "-rf", place, NULL};
    reap(spawn(rm));
}

static struct contender contenders[] = {
    {.name = "floor"},
    {.name = "tidegate run", .wrap = {tidegate, "run", "-q", "-m", "10", "--"}},
    {.name = "flock", .wrap = {"/usr/bin/flock", lock_path}},
    {.name = "flock -F", .wrap = {"/usr/bin/flock", "-F", lock_path}},
    {.name = "sh -c", .wrap = {"/bin/sh", "-c", "\"$0\"; exit $?"}},
};
enum { CONTENDERS = sizeof(contenders) / sizeof(contenders[0]), SH = CONTENDERS - 1, BLOCK = 50 };

static void report(const char *what, unsigned n, double q, const char *shown, size_t offset)
{
    double floor = 0;
    for (size_t i = 0; i < CONTENDERS; i++) {
        struct contender *c = &contenders[i];
        char name[128];
        if (c->absent || (i == SH && strcmp(what, "hand-off") == 0))
            continue;
        uint64_t *samples = (uint64_t *)((char *)c + offset);
        bench_sort(samples, n);
        double us = (double)bench_quantile(samples, n, q) / 1000;
        snprintf(name, sizeof(name), "%s %s %s", what, c->name, shown);
        bench_print("launch", name, us, "us", floor);
        if (i == 0)
            floor = us;
    }
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "job") == 0)
        return job_main(argv[2], argv[3]);
    unsigned rounds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 500;
    rounds = rounds < BLOCK ? BLOCK : rounds > MAX_ROUNDS ? MAX_ROUNDS : rounds / BLOCK * BLOCK;
    setup();
    struct job *page = map_page(page_path);
    for (size_t i = 2; i < CONTENDERS; i++)
        contenders[i].absent = access(contenders[i].wrap[0], X_OK) != 0;
    for (unsigned done = 0; done < rounds; done += BLOCK) {
        for (size_t i = 0; i < CONTENDERS; i++) {
            if (contenders[i].absent)
                continue;
            if (i != SH)
                measure_handoff(&contenders[i], page, BLOCK, contenders[i].handoff + done);
            measure_serial(&contenders[i], BLOCK, contenders[i].serial + done);
        }
    }
    report("hand-off", rounds, 0.5, "p50", offsetof(struct contender, handoff));
    report("hand-off", rounds, 0.99, "p99", offsetof(struct contender, handoff));
    report("serial", rounds, 0.5, "p50", offsetof(struct contender, serial));
    report("serial", rounds, 0.99, "p99", offsetof(struct contender, serial));
    teardown();
    return 0;
}
