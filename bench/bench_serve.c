/* SPDX-License-Identifier: Apache-2.0
 *
 * A client in another process of a served engine, against the same engine in process and against asking over
 * a Unix socket, in one run: round trips (p50, p99), awake and asleep, and throughput. Also what the ways to
 * wake another process cost here, which is what the choice of doorbell and futex stands on (docs/serve.md).
 * Items are NOPs. The parent is the engine and the server; the client is a forked process.
 * Usage: bench_serve [scale], 1.0 takes about 5 s. Pinned: client, worker and server each on a core of its
 * own; where there are only two cores, the server shares the client's, and the figures are those of three
 * threads on two cores.
 */
#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tidegate/attach.h>
#include <tidegate/serve.h>

#include "base/atomic.h"
#include "bench.h"

#define BENCH "serve"
#define LIMIT UINT64_C(10000000000)
#define PATH_BYTES 64

#define CLIENT_CPU 0u
#define WORKER_CPU 1u

static double scale = 1.0;
static unsigned server_cpu, second_cpu; /* of the server's thread, of a second client */
static char path[PATH_BYTES];

static void must(int error)
{
    if (error) {
        fprintf(stderr, "bench_serve: error %d\n", error);
        exit(1);
    }
}

static size_t rounds_of(double n)
{
    return n * scale < 200 ? 200 : (size_t)(n * scale);
}

/* p50 and p99 of a sample; returns p50. */
static double report(const char *name, uint64_t *sample, size_t n, double floor)
{
    char label[96];
    bench_sort(sample, n);
    snprintf(label, sizeof(label), "%s_p50", name);
    bench_print(BENCH, label, (double)bench_quantile(sample, n, 0.5), "ns", floor);
    snprintf(label, sizeof(label), "%s_p99", name);
    bench_print(BENCH, label, (double)bench_quantile(sample, n, 0.99), "ns", floor);
    return (double)bench_quantile(sample, n, 0.5);
}

/* ---- Ways to wake another process -----------------------------------------------------------------------
 */

struct lines {
    _Alignas(128) uint32_t there;
    _Alignas(128) uint32_t back;
};

struct waker {
    const char *name;
    void (*ask)(void), (*hear)(void), (*answer)(void), (*get)(void);
};

static struct lines *shared;
static int bell_there, bell_back, bell_epoll, pair[2];

static void futex_post(uint32_t *word)
{
    tg_add_seqcst_u32(word, 1);
    syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void futex_await(uint32_t *word)
{
    while (tg_load_seqcst_u32(word) == 0)
        syscall(SYS_futex, word, FUTEX_WAIT, 0, NULL, NULL, 0);
    tg_store_seqcst_u32(word, 0);
}

static void bytes(ssize_t n)
{
    must(n <= 0 ? EIO : 0);
}

static void futex_ask(void)
{
    futex_post(&shared->there);
}
static void futex_hear(void)
{
    futex_await(&shared->there);
}
static void futex_answer(void)
{
    futex_post(&shared->back);
}
static void futex_get(void)
{
    futex_await(&shared->back);
}
static void event_ask(void)
{
    const uint64_t one = 1;
    bytes(write(bell_there, &one, sizeof(one)));
}
static void event_hear(void)
{
    uint64_t count;
    bytes(read(bell_there, &count, sizeof(count)));
}
static void event_answer(void)
{
    const uint64_t one = 1;
    bytes(write(bell_back, &one, sizeof(one)));
}
static void event_get(void)
{
    uint64_t count;
    bytes(read(bell_back, &count, sizeof(count)));
}
static void epoll_hear(void)
{
    struct epoll_event event;
    bytes(epoll_wait(bell_epoll, &event, 1, -1));
}
static void socket_ask(void)
{
    char item[64] = {1};
    bytes(send(pair[0], item, sizeof(item), 0));
}
static void socket_hear(void)
{
    char item[64];
    bytes(recv(pair[1], item, sizeof(item), 0));
}
static void socket_answer(void)
{
    char item[64] = {1};
    bytes(send(pair[1], item, sizeof(item), 0));
}
static void socket_get(void)
{
    char item[64];
    bytes(recv(pair[0], item, sizeof(item), 0));
}

static pid_t fork_child(void)
{
    fflush(NULL);
    pid_t pid = fork();
    must(pid < 0 ? errno : 0);
    if (pid == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    return pid;
}

static void join_child(pid_t pid)
{
    int status;
    must(waitpid(pid, &status, 0) == pid && status == 0 ? 0 : ECHILD);
}

static double wake_up(const struct waker *w, uint64_t *sample, size_t n, double floor)
{
    pid_t pid = fork_child();
    if (pid == 0) {
        bench_pin(WORKER_CPU);
        for (size_t i = 0; i < n; i++) {
            w->hear();
            w->answer();
        }
        _exit(0);
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t start = tg_clock_mono_ns();
        w->ask();
        w->get();
        sample[i] = tg_clock_mono_ns() - start;
    }
    join_child(pid);
    return report(w->name, sample, n, floor);
}

static double wakers(uint64_t *sample, size_t n)
{
    static const struct waker socket_way = {"unix_socket_round_trip", socket_ask, socket_hear, socket_answer,
                                            socket_get};
    static const struct waker others[] = {
        {"futex_both_ways", futex_ask, futex_hear, futex_answer, futex_get},
        {"eventfd_both_ways", event_ask, event_hear, event_answer, event_get},
        {"eventfd_epoll_there_futex_back", event_ask, epoll_hear, futex_answer, futex_get},
        {"eventfd_epoll_there_socket_back", event_ask, epoll_hear, socket_answer, socket_get},
    };
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(shared == MAP_FAILED ? errno : 0);
    bell_there = eventfd(0, EFD_CLOEXEC);
    bell_back = eventfd(0, EFD_CLOEXEC);
    bell_epoll = epoll_create1(EPOLL_CLOEXEC);
    must(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) ? errno : 0);
    double floor = wake_up(&socket_way, sample, n, 0);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (i == 2)
            must(epoll_ctl(bell_epoll, EPOLL_CTL_ADD, bell_there, &event) ? errno : 0);
        wake_up(&others[i], sample, n, floor);
    }
    return floor;
}

/* ---- The engine, in process and attached -----------------------------------------------------------------
 */

static struct tg_engine *open_engine(uint32_t spin_us)
{
    struct tg_engine_options o;
    struct tg_engine *e;
    tg_engine_options_init(&o);
    o.slots = 5120;
    o.workers = 1;
    o.cpus = (const uint32_t[]){WORKER_CPU};
    o.cpu_count = 1;
    o.spin_us = spin_us;
    must(tg_engine_open(&o, &e));
    return e;
}

static double in_process(uint64_t *sample, size_t n, double floor, double *ret_rate)
{
    struct tg_engine *e = open_engine(50);
    struct tg_item t;
    for (size_t i = 0; i < n; i++) {
        uint64_t start = tg_clock_mono_ns();
        must(tg_engine_submit(e, 0, TG_PRIORITY_NORMAL, TG_OP_NOP, NULL, 0, &t));
        must(tg_engine_wait(e, &t, LIMIT));
        sample[i] = tg_clock_mono_ns() - start;
    }
    double p50 = report("in_process_round_trip", sample, n, floor);
    uint64_t start = tg_clock_mono_ns();
    for (size_t i = 0; i < n * 10; i++) {
        int r;
        while ((r = tg_engine_submit(e, 0, TG_PRIORITY_NORMAL, TG_OP_NOP, NULL, 0, &t)) == -EAGAIN)
            tg_cpu_relax();
        must(r);
    }
    must(tg_engine_settle(e, LIMIT));
    *ret_rate = (double)n * 1e4 / (double)(tg_clock_mono_ns() - start);
    bench_print(BENCH, "in_process_rate", *ret_rate, "M items/s", 0);
    must(tg_engine_close(e, LIMIT, NULL));
    return p50;
}

struct client {
    const char *name;
    uint32_t spin_us;
    uint64_t *sample;
    size_t n;
    double floor;
};

static void attached_round_trips(struct tg_attached *a, const struct client *c)
{
    for (size_t i = 0; i < c->n; i++) {
        uint64_t item, start = tg_clock_mono_ns();
        must(tg_attached_submit(a, TG_PRIORITY_NORMAL, TG_OP_NOP, NULL, 0, &item));
        must(tg_attached_wait(a, item, LIMIT, NULL));
        c->sample[i] = tg_clock_mono_ns() - start;
    }
    report(c->name, c->sample, c->n, c->floor);
}

static void attached_calls(struct tg_attached *a, const struct client *c)
{
    for (size_t i = 0; i < c->n; i++) {
        uint64_t start = tg_clock_mono_ns();
        must(tg_attached_call(a, TG_PRIORITY_NORMAL, TG_OP_NOP, NULL, 0, LIMIT, NULL));
        c->sample[i] = tg_clock_mono_ns() - start;
    }
    report(c->name, c->sample, c->n, c->floor);
}

static void attached_rate(struct tg_attached *a, const struct client *c)
{
    uint64_t item = 0, start = tg_clock_mono_ns();
    for (size_t i = 0; i < c->n; i++) {
        int r;
        while ((r = tg_attached_submit(a, TG_PRIORITY_NORMAL, TG_OP_NOP, NULL, 0, &item)) == -EAGAIN)
            must(tg_attached_wait_space(a, LIMIT));
        must(r);
    }
    must(tg_attached_wait(a, item, LIMIT, NULL));
    bench_print(BENCH, c->name, (double)c->n * 1e3 / (double)(tg_clock_mono_ns() - start), "M items/s",
                c->floor);
}

static void client_process(const struct client *c, unsigned cpu, int ready,
                           void (*measure)(struct tg_attached *, const struct client *))
{
    struct tg_attach_options o;
    struct tg_attached *a;
    char byte;
    bench_pin(cpu);
    tg_attach_options_init(&o);
    o.spin_us = c->spin_us;
    bytes(read(ready, &byte, 1));
    must(tg_engine_attach(path, &o, &a));
    measure(a, c);
    tg_attached_detach(a);
    exit(0);
}

/* The client is forked before this process has threads. */
static void attached(const struct client *c, uint32_t clients,
                     void (*measure)(struct tg_attached *, const struct client *))
{
    struct tg_serve_options o;
    struct tg_server *server;
    pid_t pid[2];
    int ready[2];
    must(pipe(ready) ? errno : 0);
    for (uint32_t i = 0; i < clients; i++)
        if ((pid[i] = fork_child()) == 0)
            client_process(c, i == 0 ? CLIENT_CPU : second_cpu, ready[0], measure);
    struct tg_engine *e = open_engine(c->spin_us);
    tg_serve_options_init(&o);
    o.spin_us = c->spin_us;
    o.slots = 1024;
    o.cpu = (int32_t)server_cpu;
    must(tg_engine_serve(e, path, &o, &server));
    bytes(write(ready[1], "xx", clients));
    for (uint32_t i = 0; i < clients; i++)
        join_child(pid[i]);
    must(tg_server_stop(server, LIMIT));
    must(tg_engine_close(e, LIMIT, NULL));
    close(ready[0]);
    close(ready[1]);
}

int main(int argc, char **argv)
{
    char folder[] = "/tmp/tg-bench-XXXXXX";
    if (argc > 1)
        scale = strtod(argv[1], NULL);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    server_cpu = cores > 2 ? 2 : CLIENT_CPU;
    second_cpu = cores > 3 ? 3 : CLIENT_CPU;
    bench_pin(CLIENT_CPU);
    must(mkdtemp(folder) ? 0 : errno);
    snprintf(path, sizeof(path), "%s/engine", folder);
    size_t n = rounds_of(20000);
    uint64_t *sample = malloc(n * sizeof(*sample));
    must(sample ? 0 : ENOMEM);
    double rate, floor = wakers(sample, n / 4);
    double here = in_process(sample, n, floor, &rate);
    attached(&(struct client){"attached_round_trip", 50, sample, n, here}, 1, attached_round_trips);
    attached(&(struct client){"attached_call", 50, sample, n, here}, 1, attached_calls);
    attached(&(struct client){"attached_all_asleep_round_trip", 0, sample, n / 4, floor}, 1,
             attached_round_trips);
    attached(&(struct client){"attached_rate", 50, sample, n * 10, rate}, 1, attached_rate);
    attached(&(struct client){"attached_rate_each_of_2", 50, sample, n * 5, rate}, 2, attached_rate);
    free(sample);
    must(rmdir(folder) ? errno : 0);
    return 0;
}
