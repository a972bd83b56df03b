/* SPDX-License-Identifier: Apache-2.0
 *
 * What the broker alone costs, seen from its socket.
 *   death to grant   from SIGKILL of the holder to HOLD in the hands of the waiter, one slot; the floor is a
 *                    process that polls a pidfd and writes to a socket when it fires
 *   done             the wrapper's report that follows each death, request to answer
 *   enqueue          one admit that has to wait, request to answer
 * each with next to nobody and with many others queued. A private broker, stopped at the end.
 *   bench_broker [WAITERS [ROUNDS]]
 */
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/parse.h"
#include "bench.h"
#include "broker/harness.h"
#include "guard.h"

enum { MAX_ROUNDS = 2000, MAX_WAITERS = 12000 };

static uint64_t samples[MAX_ROUNDS];
static pid_t crowd[MAX_WAITERS];

/* Kill to byte, through a process that does nothing else. */
static double floor_us(size_t rounds)
{
    for (size_t i = 0; i < rounds; i++) {
        int pair[2];
        char byte;
        pid_t victim = owner_make();
        CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
        pid_t watcher = fork();
        CHECK(watcher >= 0);
        if (watcher == 0) {
            struct pollfd p = {.fd = (int)syscall(SYS_pidfd_open, victim, 0), .events = POLLIN};
            if (write(pair[1], "r", 1) != 1 || poll(&p, 1, PATIENCE_MS) != 1 || write(pair[1], "x", 1) != 1)
                _exit(1);
            _exit(0);
        }
        CHECK(read(pair[0], &byte, 1) == 1);
        pause_ms(1);
        uint64_t begin = tg_clock_mono_ns();
        kill(victim, SIGKILL);
        CHECK(read(pair[0], &byte, 1) == 1);
        samples[i] = tg_clock_mono_ns() - begin;
        waitpid(victim, NULL, 0);
        waitpid(watcher, NULL, 0);
        close(pair[0]);
        close(pair[1]);
    }
    bench_sort(samples, rounds);
    return (double)bench_quantile(samples, rounds, 0.5) / 1000;
}

static void report(const char *what, size_t waiters, size_t rounds, double floor)
{
    char name[80];
    bench_sort(samples, rounds);
    snprintf(name, sizeof(name), "%s_%zu_waiting_p50", what, waiters);
    bench_print("broker", name, (double)bench_quantile(samples, rounds, 0.5) / 1000, "us", floor);
    snprintf(name, sizeof(name), "%s_%zu_waiting_p99", what, waiters);
    bench_print("broker", name, (double)bench_quantile(samples, rounds, 0.99) / 1000, "us", floor);
}

/* Asks as tidegate run does. */
static const char *admit_wrapped(struct client *c, pid_t pid, int64_t prio, uint64_t *ret_item)
{
    json_t *m = admit_message("run", pid, prio, 1, -1);
    json_object_set_new(m, "reaper", json_true());
    m = client_ask(c, m);
    const char *state = strcmp(text_at(m, "state"), "HOLD") == 0 ? "HOLD" : "WAIT";
    *ret_item = (uint64_t)number_at(m, "ticket");
    json_decref(m);
    return state;
}

struct holder {
    pid_t pid;
    pid_t wrapper;
    uint64_t ticket;
};

/* One holder after the other, each followed by one that is asked for more urgently than the crowd. The last
 * one holds on. */
static void hand_off(const struct place *p, struct holder *h, size_t waiters, size_t rounds, double floor,
                     bool by_done)
{
    struct client tell_done;
    client_open(&tell_done, p);
    for (size_t i = 0; i < rounds; i++) {
        struct client c;
        struct holder next = {0};
        next.pid = owner_make_wrapped(&next.wrapper, true);
        client_open(&c, p);
        CHECK_TEXT(admit_wrapped(&c, next.pid, 9, &next.ticket), "WAIT");
        pause_ms(1);
        uint64_t begin = tg_clock_mono_ns();
        kill(h->pid, SIGKILL);
        json_t *m = client_recv(&c);
        samples[i] = tg_clock_mono_ns() - begin;
        CHECK_TEXT(text_at(m, "state"), "HOLD");
        json_decref(m);
        owner_kill(h->wrapper);
        if (by_done) { /* how long the broker is busy with the message that follows each death */
            begin = tg_clock_mono_ns();
            m = client_ask(&tell_done, json_pack("{s:s,s:I,s:i}", "op", "done", "ticket",
                                                 (json_int_t)h->ticket, "status", 9));
            samples[i] = tg_clock_mono_ns() - begin;
            json_decref(m);
        }
        client_close(&c);
        *h = next;
    }
    client_close(&tell_done);
    report(by_done ? "done_after_death" : "death_to_grant", waiters, rounds, by_done ? 0 : floor);
}

static void enqueue(struct client *c, size_t from, size_t n, size_t shown)
{
    size_t kept = 0;
    for (size_t i = from; i < from + n; i++) {
        uint64_t begin = tg_clock_mono_ns();
        CHECK_TEXT(admit(c, "run", crowd[i], 0, 1, NULL), "WAIT");
        if (i >= from + n - shown)
            samples[kept++] = tg_clock_mono_ns() - begin;
    }
    if (kept > 0)
        report("enqueue", from + n - shown, kept, 0);
}

static pid_t make_crowd(size_t n)
{
    int fds[2];
    CHECK(pipe(fds) == 0);
    pid_t parent = fork();
    CHECK(parent >= 0);
    if (parent == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (size_t i = 0; i < n; i++) {
            pid_t pid = owner_make();
            if (write(fds[1], &pid, sizeof(pid)) != sizeof(pid))
                _exit(1);
        }
        for (;;)
            pause();
    }
    close(fds[1]);
    for (size_t i = 0; i < n; i++)
        CHECK(read(fds[0], &crowd[i], sizeof(crowd[i])) == sizeof(crowd[i]));
    close(fds[0]);
    return parent;
}

int main(int argc, char **argv)
{
    uint64_t waiters = 5000, rounds = 500;
    if ((argc > 1 && tg_parse_u64(argv[1], 500, MAX_WAITERS, &waiters)) ||
        (argc > 2 && tg_parse_u64(argv[2], 10, MAX_ROUNDS, &rounds))) {
        fprintf(stderr, "usage: bench_broker [WAITERS 500..%d [ROUNDS 10..%d]]\n", MAX_WAITERS, MAX_ROUNDS);
        return 2;
    }
    struct place p;
    struct client c;
    bench_guard();
    place_make(&p);
    bench_guard_place(p.dir);
    place_ready(&p, 1);
    double floor = floor_us(rounds);
    bench_print("broker", "floor_p50", floor, "us", 0);
    struct holder h = {0};
    h.pid = owner_make_wrapped(&h.wrapper, true);
    client_open(&c, &p);
    CHECK_TEXT(admit_wrapped(&c, h.pid, 9, &h.ticket), "HOLD");
    hand_off(&p, &h, 0, rounds, floor, false);
    hand_off(&p, &h, 0, rounds, floor, true);
    pid_t parent = make_crowd(waiters);
    enqueue(&c, 0, 200, 200);
    enqueue(&c, 200, waiters - 400, 0);
    enqueue(&c, waiters - 200, 200, 200);
    uint64_t begin = tg_clock_mono_ns();
    json_t *s = status_of(&p);
    bench_print("broker", "status_all_waiting", (double)(tg_clock_mono_ns() - begin) / 1e6, "ms", 0);
    json_decref(s);
    floor = floor_us(rounds); /* so many processes make the kernel's part dearer too */
    bench_print("broker", "floor_with_the_crowd_p50", floor, "us", 0);
    hand_off(&p, &h, waiters, rounds, floor, false);
    kill(parent, SIGKILL);
    waitpid(parent, NULL, 0);
    kill(h.pid, SIGKILL);
    owner_kill(h.wrapper);
    client_close(&c);
    place_stop(&p, SIGTERM);
    return 0;
}
