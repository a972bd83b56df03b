/* SPDX-License-Identifier: Apache-2.0
 *
 * What a launch costs, against others that queue commands; those that are not installed are left out.
 *   hand-off   from the end of A to the start of B, B waiting, one at a time; the floor is a process
 *              that sleeps on a futex, is waked by A's last act and calls posix_spawn
 *   serial     posix_spawn and waitpid of "/bin/true" through each wrapper; the floor is none at all
 *   1000 jobs  of "/bin/true", one at a time, eight asked for at once, per job
 * and, with WAITERS, tidegate alone beside so many that wait: a thousand more queued, the memory of each, the
 * processor time while nothing happens, the hand-off. With CONNECTIONS the crowd is so many tickets of few
 * processes. `bench_launch pair [ROUNDS]`: the first two alone, and of the others flock. Contenders take
 * turns, in serial after ten commands, so that the machine's drift meets all alike. Each has a private place.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/parse.h"
#include "bench.h"
#include "client/client.h"
#include "client/tool.h"
#include "guard.h"
#include "tidegate/launch.h"
#include "machine/root.h"

extern char **environ;

struct job {
    uint64_t start_ns; /* written by the job */
    uint64_t end_ns;   /* written by the job */
    uint32_t started;  /* futex; by the job (S1) */
    uint32_t go;       /* futex; by the bench (G1) */
    uint32_t ended;    /* futex; by the job, its last act (E1) */
};

enum { MAX_ROUNDS = 2000, MAX_WAITERS = 12000, LIMIT_S = 10, IDLE_S = 10 };

static char self[4096], tidegate[4096], place[64], page_path[128], lock_path[128];
static pid_t waiters[MAX_WAITERS];

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
    const char *wrap[10]; /* its words before the command's; none: the floor */
    const char *await[4]; /* it returns at once: what returns when the job has ended */
    unsigned slow;        /* so many times fewer rounds */
    bool no_handoff;
    bool absent;
    unsigned handoffs;
    unsigned serials;
    uint64_t handoff[MAX_ROUNDS];
    uint64_t serial[MAX_ROUNDS];
    double each_us;
};

static pid_t spawn_wrapped(const struct contender *c, const char *const words[])
{
    const char *argv[16];
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

/* Ends a process that has not been waited for. */
static void end_by(pid_t pid, int sig)
{
    tg_tool_signal(pid, sig);
    waitpid(pid, NULL, 0);
}

/* A chain of n + 1 jobs: each is let go when the next one waits behind it. holder, if not 0, has the turn and
 * is ended when the first one waits. */
static void measure_handoff(struct contender *c, struct job *page, unsigned n, uint64_t *samples,
                            pid_t holder)
{
    memset(page, 0, sizeof(*page) * (n + 1));
    pid_t pid = spawn_job(c, 0), next = -1;
    if (holder > 0) {
        poll(NULL, 0, 500);
        end_by(holder, SIGTERM); /* its wrapper passes it on */
    }
    futex_await(&page[0].started, c->name);
    for (unsigned i = 0; i < n; i++) {
        if (c->wrap[0]) {
            next = spawn_job(c, i + 1);
            poll(NULL, 0, c->slow ? 500 : 5); /* let it reach the queue and sleep there */
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

static void await_all(const struct contender *c)
{
    if (c->await[0])
        reap(spawn(c->await));
}

static const char *const nothing[] = {"/bin/true", NULL};

static void measure_serial(struct contender *c, uint64_t *ret_ns)
{
    uint64_t begin = tg_clock_mono_ns();
    reap(spawn_wrapped(c, nothing));
    await_all(c);
    *ret_ns = tg_clock_mono_ns() - begin;
}

static void measure_many(struct contender *c, unsigned n)
{
    pid_t at_once[8];
    uint64_t begin = tg_clock_mono_ns();
    for (unsigned i = 0; i < n + 8; i++) {
        if (i >= 8)
            reap(at_once[i % 8]);
        if (i < n)
            at_once[i % 8] = spawn_wrapped(c, nothing);
    }
    await_all(c);
    c->each_us = (double)(tg_clock_mono_ns() - begin) / 1000 / n;
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
    static char broker[4200];
    snprintf(broker, sizeof(broker), "%s-broker", tidegate);
    if (access(tidegate, X_OK) || setenv("TIDEGATE_BROKER", broker, 1))
        die(tidegate);
    snprintf(place, sizeof(place), "/tmp/tg-bench-XXXXXX");
    if (!mkdtemp(place) || setenv("HOME", place, 1) || setenv("XDG_RUNTIME_DIR", place, 1) ||
        unsetenv("TIDEGATE_TICKET"))
        die(place);
    bench_guard_place(place);
    snprintf(page_path, sizeof(page_path), "%s/page", place);
    snprintf(lock_path, sizeof(lock_path), "%s/lock", place);
    /* Two folders, as in a home: the broker watches that of its socket. */
    char state[80], socket[80];
    snprintf(state, sizeof(state), "%s/state", place);
    snprintf(socket, sizeof(socket), "%s/tsp", place);
    if (setenv("XDG_STATE_HOME", state, 1) || setenv("TS_SOCKET", socket, 1) || setenv("NQDIR", place, 1))
        die(place);
    command("config", "slots", "1");
    command("config", "load", "off");
}

static void teardown(void)
{
    command("stop", "--force", NULL);
    const char *const end_tsp[] = {"/usr/bin/tsp", "-K", NULL};
    if (access(end_tsp[0], X_OK) == 0)
        reap(spawn(end_tsp));
    const char *const rm[] = {"/bin/rm", "-rf", place, NULL};
    reap(spawn(rm));
}

static struct contender contenders[] = {
    {.name = "floor"},
    {.name = "tidegate run", .wrap = {tidegate, "run", "-q", "-m", "10", "--"}},
    {.name = "flock", .wrap = {"/usr/bin/flock", lock_path}},
    {.name = "flock -F", .wrap = {"/usr/bin/flock", "-F", lock_path}},
    {.name = "tsp -f", .wrap = {"/usr/bin/tsp", "-n", "-f"}},
    {.name = "nq", .wrap = {"/usr/bin/nq", "-q"}, .await = {"/usr/bin/nq", "-w", "-q"}},
    {.name = "sem --fg", .wrap = {"/usr/bin/sem", "--will-cite", "--fg", "-j1"}, .slow = 25},
    {.name = "sh -c", .wrap = {"/bin/sh", "-c", "\"$0\"; exit $?"}, .no_handoff = true},
};
enum { CONTENDERS = sizeof(contenders) / sizeof(contenders[0]), BLOCK = 50, TENS = 10, JOBS = 1000 };

static void print_quantile(struct contender *c, const char *what, uint64_t *samples, unsigned n, double q,
                           double floor)
{
    char name[128];
    bench_sort(samples, n);
    snprintf(name, sizeof(name), "%s %s p%.0f", what, c->name, q * 100);
    bench_print("launch", name, (double)bench_quantile(samples, n, q) / 1000, "us", floor);
}

static void report(bool handoff, double q)
{
    double floor = 0;
    for (size_t i = 0; i < CONTENDERS; i++) {
        struct contender *c = &contenders[i];
        uint64_t *samples = handoff ? c->handoff : c->serial;
        unsigned n = handoff ? c->handoffs : c->serials;
        if (c->absent || n == 0 || (q > 0.9 && n < 100))
            continue;
        print_quantile(c, handoff ? "hand-off" : "serial", samples, n, q, floor);
        if (i == 0)
            floor = (double)bench_quantile(samples, n, q) / 1000;
    }
}

static void block_of_handoffs(struct contender *c, struct job *page)
{
    unsigned n = c->slow ? BLOCK / c->slow : BLOCK;
    if (c->absent || c->no_handoff)
        return;
    measure_handoff(c, page, n, c->handoff + c->handoffs, 0);
    c->handoffs += n;
}

/* Ten of one after the other, so that each but the first follows one of its own, and bears what that leaves
 * to be done; to and fro, since on a busy machine it matters who follows whom. */
static void ten_serials(struct contender *c, unsigned round)
{
    for (unsigned i = round; i < round + TENS && !c->absent; i++) {
        if (!c->slow || i % c->slow == 0)
            measure_serial(c, c->serial + c->serials++);
    }
}

/* ---- the crowd */

/* A gauge of the broker's; waiters are counted in the broker, not guessed. */
static uint64_t gauge(struct tg_client *client, const char *name)
{
    json_t *reply = NULL;
    const char *text = "";
    json_t *ask = json_pack("{s:s}", "op", "metrics");
    if (!ask || tg_client_call(client, ask, &reply) != 0 ||
        tg_field_string(reply, "text", 1u << 20, &text) != 0)
        die(client->text);
    char line[80];
    snprintf(line, sizeof(line), "\n%s ", name);
    const char *at = strstr(text, line);
    uint64_t value = at ? strtoull(at + strlen(line), NULL, 10) : 0;
    json_decref(ask);
    json_decref(reply);
    return value;
}

static void await_gauge(struct tg_client *client, const char *name, uint64_t least, unsigned pause_ms)
{
    for (unsigned ms = 0; gauge(client, name) < least; ms += pause_ms) {
        if (ms > 120000)
            die(name);
        poll(NULL, 0, (int)pause_ms);
    }
}

static uint64_t number_in(const char *path, const char *key)
{
    char text[8192];
    static const struct tg_root machine = {.prefix = ""};
    if (tg_root_read(&machine, path, text, sizeof(text)) < 0)
        return 0;
    const char *at = strstr(text, key);
    return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

static uint64_t of_process(pid_t pid, const char *file, const char *key)
{
    char path[128];
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
    return number_in(path, key);
}

/* The child of a wrapper. */
static pid_t child_of(pid_t pid)
{
    char file[48];
    snprintf(file, sizeof(file), "task/%d/children", (int)pid);
    return (pid_t)of_process(pid, file, "");
}

/* Nanoseconds on a processor. */
static uint64_t busy_ns(pid_t pid)
{
    return of_process(pid, "schedstat", "");
}

static void print_memory(pid_t broker, uint64_t broker_before_kb, unsigned n)
{
    uint64_t kb = 0;
    enum { SAMPLE = 100 };
    for (unsigned i = 0; i < SAMPLE; i++) {
        pid_t wrapper = waiters[(size_t)i * n / SAMPLE];
        kb += of_process(wrapper, "smaps_rollup", "\nPss:");
        kb += of_process(child_of(wrapper), "smaps_rollup", "\nPss:");
    }
    bench_print("launch", "memory of a waiting client (Pss, two processes)", (double)kb / SAMPLE, "kB", 0);
    uint64_t now_kb = of_process(broker, "status", "\nVmRSS:");
    bench_print("launch", "memory of the broker for a waiter",
                (double)(now_kb > broker_before_kb ? now_kb - broker_before_kb : 0) / n, "kB", 0);
}

static void print_idle(pid_t broker, unsigned n)
{
    static pid_t children[MAX_WAITERS];
    uint64_t before[2] = {0}, after[2] = {0};
    for (unsigned i = 0; i < n; i++)
        children[i] = child_of(waiters[i]);
    uint64_t begin = 0;
    for (int round = 0; round < 2; round++) {
        uint64_t *to = round ? after : before;
        to[0] = busy_ns(broker);
        for (unsigned i = 0; i < n; i++)
            to[1] += busy_ns(waiters[i]) + busy_ns(children[i]);
        if (round == 0) {
            begin = tg_clock_mono_ns();
            poll(NULL, 0, IDLE_S * 1000);
        }
    }
    double percent = 100.0 / (double)(tg_clock_mono_ns() - begin);
    bench_print("launch", "idle crowd, broker", (double)(after[0] - before[0]) * percent, "% of a core", 0);
    bench_print("launch", "idle crowd, clients", (double)(after[1] - before[1]) * percent, "% of a core", 0);
}

/* So many tickets that wait, each over its own connection; until it is killed. */
static _Noreturn void waiting_main(const char *count)
{
    struct tg_launch *launch;
    struct tg_launch_options o = TG_LAUNCH_OPTIONS;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    o.prio = 0;
    o.est_mb = 10;
    if (tg_launch_open(true, &launch) != 0)
        die(tg_launch_error());
    for (unsigned long n = strtoul(count, NULL, 10); n > 0; n--) {
        struct tg_launch_ticket *ticket;
        if (tg_launch_request(launch, &o, &ticket) != 0)
            die(tg_launch_error());
    }
    for (;;)
        pause();
}

/* The hand-off alone, beside the floor, while nobody, and then n connections, wait. */
static void measure_connections(struct job *page, unsigned n, unsigned rounds)
{
    enum { PROCESSES = 20 };
    static struct contender floor = {.name = "floor"};
    static struct contender urgent = {.name = "tidegate run",
                                      .wrap = {tidegate, "run", "-q", "-p", "critical", "-m", "10", "--"}};
    static struct tg_client client;
    char each[16], what[64];
    pid_t pids[PROCESSES];
    snprintf(each, sizeof(each), "%u", n / PROCESSES);
    const char *const crowd[] = {self, "waiting", each, NULL};
    const char *const sleeper[] = {"/bin/sleep", "1000", NULL};
    if (tg_client_init(&client, true) || tg_client_connect(&client))
        die(client.text);
    for (int full = 0; full < 2; full++) {
        pid_t first = spawn_wrapped(&urgent, sleeper);
        await_gauge(&client, "tidegate_holders", 1, 5);
        for (int i = 0; full && i < PROCESSES; i++)
            pids[i] = spawn(crowd);
        if (full)
            await_gauge(&client, "tidegate_pending", n / PROCESSES * PROCESSES, 20);
        poll(NULL, 0, 1000);
        /* In one chain, since the crowd has its turn when that ends; the floor before and after it. */
        measure_handoff(&floor, page, rounds / 2, floor.handoff, 0);
        measure_handoff(&urgent, page, rounds, urgent.handoff, first);
        measure_handoff(&floor, page, rounds / 2, floor.handoff + rounds / 2, 0);
        snprintf(what, sizeof(what), "hand-off beside %u connections", full ? n / PROCESSES * PROCESSES : 0);
        for (int i = 0; i < 2; i++) {
            double q = i ? 0.99 : 0.5;
            print_quantile(&floor, what, floor.handoff, rounds, q, 0);
            print_quantile(&urgent, what, urgent.handoff, rounds, q,
                           (double)bench_quantile(floor.handoff, rounds, q) / 1000);
        }
    }
    for (int i = 0; i < PROCESSES; i++)
        end_by(pids[i], SIGKILL);
    tg_client_done(&client);
}

static void measure_crowd(struct job *page, unsigned n, unsigned rounds)
{
    static struct tg_client client;
    static struct contender urgent = {.name = "tidegate run beside a crowd",
                                      .wrap = {tidegate, "run", "-q", "-p", "critical", "-m", "10", "--"}};
    static struct contender floor = {.name = "floor beside a crowd"};
    const char *const waiter[] = {tidegate, "run", "-q", "-p", "idle", "-m", "10", "--", "/bin/true", NULL};
    if (tg_client_init(&client, true) || tg_client_connect(&client))
        die(client.text);
    pid_t broker = tg_client_broker_pid(&client);
    const char *const sleeper[] = {"/bin/sleep", "1000", NULL};
    pid_t first = spawn_wrapped(&urgent, sleeper);
    await_gauge(&client, "tidegate_holders", 1, 5);
    uint64_t broker_kb = of_process(broker, "status", "\nVmRSS:");
    double first_ms = 0;
    for (unsigned k = 0; k < n; k += 1000) {
        uint64_t begin = tg_clock_mono_ns();
        for (unsigned i = k; i < k + 1000; i++)
            waiters[i] = spawn(waiter);
        await_gauge(&client, "tidegate_pending", k + 1000, 5);
        double ms = (double)(tg_clock_mono_ns() - begin) / 1e6;
        if (k == 0)
            first_ms = ms;
        if (k == 0 || k + 1000 == n)
            bench_print("launch", k ? "queueing the last 1000" : "queueing the first 1000", ms, "ms",
                        k ? first_ms : 0);
    }
    print_memory(broker, broker_kb, n);
    print_idle(broker, n);
    measure_handoff(&floor, page, rounds, floor.handoff, 0);
    measure_handoff(&urgent, page, rounds, urgent.handoff, first);
    for (int i = 0; i < 2; i++) {
        double q = i ? 0.99 : 0.5;
        print_quantile(&floor, "hand-off", floor.handoff, rounds, q, 0);
        print_quantile(&urgent, "hand-off", urgent.handoff, rounds, q,
                       (double)bench_quantile(floor.handoff, rounds, q) / 1000);
    }
    for (unsigned i = 0; i < n; i++)
        end_by(waiters[i], SIGKILL);
    tg_client_done(&client);
}

static void report_pair(void)
{
    struct contender *ours = &contenders[1], *flock = &contenders[2];
    bench_print("launch", "serial tidegate run to flock, p50",
                (double)bench_quantile(ours->serial, ours->serials, 0.5) / 1000, "us",
                (double)bench_quantile(flock->serial, flock->serials, 0.5) / 1000);
    bench_print("launch", "serial tidegate run to flock, mean of the quickest nine tenths",
                bench_trimmed_mean(ours->serial, ours->serials) / 1000, "us",
                bench_trimmed_mean(flock->serial, flock->serials) / 1000);
}

static void measure_all(struct job *page, unsigned rounds, bool pair)
{
    for (unsigned done = 0; done < rounds; done += BLOCK) {
        for (size_t i = 0; i < CONTENDERS; i++)
            block_of_handoffs(&contenders[i], page);
        for (unsigned round = 0; round < BLOCK; round += TENS)
            for (size_t i = 0; i < CONTENDERS; i++)
                ten_serials(&contenders[round / TENS % 2 ? CONTENDERS - 1 - i : i], round);
    }
    for (size_t i = 1; i < CONTENDERS && !pair; i++) {
        if (!contenders[i].absent)
            measure_many(&contenders[i], contenders[i].slow ? JOBS / contenders[i].slow : JOBS);
    }
    report(true, 0.5);
    report(true, 0.99);
    report(false, 0.5);
    report(false, 0.99);
    if (pair)
        report_pair();
    for (size_t i = 1; i < CONTENDERS && !pair; i++) {
        char name[80];
        snprintf(name, sizeof(name), "1000 jobs %s, each", contenders[i].name);
        if (!contenders[i].absent)
            bench_print("launch", name, contenders[i].each_us, "us", contenders[1].each_us);
    }
}

int main(int argc, char **argv)
{
    bool pair = argc > 1 && strcmp(argv[1], "pair") == 0;
    argc -= pair;
    argv += pair;
    uint64_t rounds = 500, n_waiters = 0, n_connections = 0;
    if (argc == 3 && strcmp(argv[1], "waiting") == 0)
        waiting_main(argv[2]);
    if (argc == 4 && strcmp(argv[1], "job") == 0)
        return job_main(argv[2], argv[3]);
    if ((argc > 1 && tg_parse_u64(argv[1], 0, MAX_ROUNDS, &rounds)) ||
        (argc > 2 && tg_parse_u64(argv[2], 0, MAX_WAITERS, &n_waiters)) ||
        (argc > 3 && tg_parse_u64(argv[3], 0, MAX_WAITERS, &n_connections))) {
        fprintf(stderr, "usage: bench_launch [pair] [ROUNDS 0..%d [WAITERS 0..%d [CONNECTIONS 0..%d]]]\n",
                MAX_ROUNDS, MAX_WAITERS, MAX_WAITERS);
        return 2;
    }
    rounds = rounds / BLOCK * BLOCK;
    n_waiters = n_waiters / 1000 * 1000;
    bench_guard();
    setup();
    struct job *page = map_page(page_path);
    for (size_t i = 2; i < CONTENDERS; i++)
        contenders[i].absent = (pair && i > 2) || access(contenders[i].wrap[0], X_OK) != 0;
    if (n_connections > 0)
        measure_connections(page, (unsigned)n_connections, rounds ? (unsigned)rounds : 4 * BLOCK);
    else if (rounds > 0)
        measure_all(page, (unsigned)rounds, pair && !contenders[2].absent);
    if (n_waiters > 0)
        measure_crowd(page, (unsigned)n_waiters, rounds ? (unsigned)rounds : 4 * BLOCK);
    teardown();
    return 0;
}
