/* SPDX-License-Identifier: Apache-2.0
 * Clients and servers die at any instruction: the other side goes on, and nothing stays behind. */
#include <dirent.h>

#include "serve_test.h"

enum { DEATHS = 50 };

static uint32_t open_descriptors(void)
{
    uint32_t n = 0;
    DIR *folder = opendir("/proc/self/fd");
    CHECK(folder);
    while (readdir(folder))
        n++;
    closedir(folder);
    return n;
}

/* Mappings of rings in this process. */
static uint32_t mapped_rings(void)
{
    char line[512];
    uint32_t n = 0;
    FILE *f = fopen("/proc/self/maps", "r");
    CHECK(f);
    while (fgets(line, sizeof(line), f))
        n += strstr(line, "tidegate-ring") ? 1u : 0u;
    fclose(f);
    return n;
}

/* Publishes as fast as it can until it is killed. */
static void doomed_client(uintptr_t pipe_end)
{
    struct tg_attached *a = attach_now();
    CHECK(write((int)pipe_end, "x", 1) == 1);
    for (uint32_t i = 0;; i++) {
        uint64_t item;
        if (tg_attached_submit(a, i % 5, OP_MIX, &i, 1, &item) == -EAGAIN)
            tg_attached_wait_space(a, SECOND);
    }
}

static void e1_clients_killed_in_flight_leave_nothing(void)
{
    struct served s;
    struct tg_engine_stats stats;
    int ends[2];
    uint64_t state = 4711;
    CHECK_EQ(pipe(ends), 0);
    serve_start(&s, test_engine(320, 1), NULL);
    uint32_t descriptors = open_descriptors();
    for (uint32_t i = 0; i < DEATHS; i++) {
        char byte;
        pid_t pid = child_start(doomed_client, (uintptr_t)ends[1]);
        CHECK(read(ends[0], &byte, 1) == 1);
        /* Somewhere in the first two milliseconds. */
        struct timespec ts = {0, (long)(check_random(&state) % 2000000)};
        nanosleep(&ts, NULL);
        kill(pid, SIGKILL);
        CHECK(WIFSIGNALED(child_wait(pid)));
    }
    AWAIT(serve_stats(&s).gone == DEATHS && serve_stats(&s).leaving == 0);
    CHECK_EQ(tg_engine_settle(s.engine, LIMIT), 0);
    CHECK_EQ(open_descriptors(), descriptors);
    CHECK_EQ(mapped_rings(), 0);
    tg_engine_stats(s.engine, &stats);
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
        CHECK_EQ(stats.level[l].outstanding, 0);
    /* Every item taken was run or cancelled (E1). */
    struct tg_serve_stats serve = serve_stats(&s);
    CHECK_EQ(serve.taken, tg_load_relaxed_u32(&s.runs) + serve.lost + serve.invalid);
    CHECK_EQ(serve.invalid, 0);
    fprintf(stderr, "  %llu items, %llu of them cancelled\n", (unsigned long long)serve.taken,
            (unsigned long long)serve.lost);
    struct tg_attached *a = attach_now();
    CHECK_EQ(tg_attached_wait(a, put_mix(a, 4, 1), LIMIT, NULL), 0);
    tg_attached_detach(a);
    serve_end(&s);
    close(ends[0]);
    close(ends[1]);
}

static void one_gate(uintptr_t unused)
{
    (void)unused;
    struct tg_attached *a = attach_now();
    put(a, 0, OP_GATE, NULL, 0);
    for (uint32_t i = 0; i < 20; i++)
        put_mix(a, 2, i);
    pause();
}

/* An item that runs when its client dies keeps what it needs until it ends. */
static void e1_an_item_outlives_its_client(void)
{
    struct served s;
    struct tg_server *server;
    serve_start(&s, test_engine(320, 1), NULL);
    pid_t pid = child_start(one_gate, 0);
    while (sem_wait(&s.gate.reached) != 0)
        ;
    AWAIT(serve_stats(&s).taken == 21);
    kill(pid, SIGKILL);
    CHECK(WIFSIGNALED(child_wait(pid)));
    AWAIT(serve_stats(&s).gone == 1);
    CHECK_EQ(serve_stats(&s).leaving, 1);
    CHECK_EQ(serve_stats(&s).lost, 20);
    CHECK_EQ(mapped_rings(), 1);
    server = s.server;
    CHECK_EQ(tg_server_stop(server, 20000000), -ETIMEDOUT);
    gate_open(&s.gate);
    serve_end(&s);
    CHECK_EQ(mapped_rings(), 0);
    CHECK_EQ(tg_load_relaxed_u32(&s.runs), 0);
}

static int again_handler(void *runs, struct tg_op *op)
{
    struct timespec ts = {0, 100000};
    (void)op;
    tg_add_relaxed_u32(runs, 1);
    nanosleep(&ts, NULL);
    return TG_OP_REQUEUE;
}

static int io_handler(void *context, struct tg_op *op)
{
    (void)context;
    op->io_resource = 5;
    return TG_OP_WAIT_IO;
}

/* Items that never end by themselves are cancelled with their client. */
static void e1_endless_items_end_with_their_client(void)
{
    struct served s;
    uint32_t runs = 0;
    serve_start(&s, test_engine(320, 1), NULL);
    CHECK_EQ(tg_engine_register(s.engine, 20, again_handler, &runs), 0);
    CHECK_EQ(tg_engine_register(s.engine, 21, io_handler, NULL), 0);
    struct tg_attached *a = attach_now();
    put(a, 2, 20, NULL, 0);
    put(a, 2, 21, NULL, 0);
    AWAIT(tg_load_relaxed_u32(&runs) >= 3);
    tg_attached_detach(a);
    AWAIT(serve_stats(&s).gone == 1 && serve_stats(&s).leaving == 0);
    CHECK_EQ(serve_stats(&s).lost, 2);
    serve_end(&s);
}

static struct tg_attached *shared_handle;

/* ---- Servers ------------------------------------------------------------------------------------------- */

struct pipes {
    int up[2], down[2];
};

/* ends: where it says that it is up, and where it hears what to do. */
static void doomed_server(uintptr_t ends)
{
    const int up = (int)(ends >> 16), down = (int)(ends & 0xFFFFu);
    struct served s;
    char byte;
    serve_start(&s, test_engine(320, 1), NULL);
    CHECK(write(up, "x", 1) == 1);
    CHECK(read(down, &byte, 1) == 1);
    if (byte == 's') {
        while (sem_wait(&s.gate.reached) != 0)
            ;
        CHECK_EQ(tg_server_stop(s.server, 20000000), -ETIMEDOUT); /* the gate is closed */
        AWAIT(serve_stats(&s).lost == 1); /* what stands behind it: its thread may get to that later */
        gate_open(&s.gate);
        CHECK_EQ(tg_server_stop(s.server, LIMIT), 0);
        test_close(s.engine);
        _exit(0);
    }
    pause();
}

static pid_t start_server(struct pipes *p)
{
    char byte;
    CHECK_EQ(pipe(p->up), 0);
    CHECK_EQ(pipe(p->down), 0);
    pid_t pid = child_start(doomed_server, (uintptr_t)p->up[1] << 16 | (uintptr_t)p->down[0]);
    CHECK(read(p->up[0], &byte, 1) == 1);
    return pid;
}

static void close_pipes(struct pipes *p)
{
    for (int i = 0; i < 2; i++) {
        close(p->up[i]);
        close(p->down[i]);
    }
}

static void e8_a_killed_server_hangs_nobody(void)
{
    struct pipes p;
    uint64_t item;
    pid_t pid = start_server(&p);
    struct tg_attached *a = attach_now();
    uint64_t done = put_mix(a, 2, 9);
    CHECK_EQ(tg_attached_wait(a, done, LIMIT, NULL), 0);
    uint64_t gate = put(a, 0, OP_GATE, NULL, 0);
    CHECK_EQ(tg_attached_wait(a, gate, 20000000, NULL), -ETIMEDOUT);
    kill(pid, SIGKILL);
    CHECK(WIFSIGNALED(child_wait(pid)));
    CHECK_EQ(tg_attached_wait(a, gate, LIMIT, NULL), -EPIPE);
    CHECK_EQ(tg_attached_wait(a, done, LIMIT, NULL), 0); /* what had ended stands */
    CHECK_EQ(tg_attached_poll(a, gate, NULL), -EPIPE);
    CHECK_EQ(tg_attached_submit(a, 0, TG_OP_NOP, NULL, 0, &item), -EPIPE);
    CHECK_EQ(tg_attached_wait_space(a, LIMIT), -EPIPE);
    tg_attached_detach(a);
    close_pipes(&p);
    /* One that only polls. */
    pid = start_server(&p); /* and the dead one's socket is in its way */
    a = attach_now();
    gate = put(a, 0, OP_GATE, NULL, 0);
    kill(pid, SIGKILL);
    CHECK(WIFSIGNALED(child_wait(pid)));
    int r;
    for (uint32_t i = 0; (r = tg_attached_poll(a, gate, NULL)) == -EINPROGRESS; i++)
        CHECK(i < 1000);
    CHECK_EQ(r, -EPIPE);
    tg_attached_detach(a);
    close_pipes(&p);
    CHECK_EQ(unlink(serve_path), 0);
}

/* How long a wait takes that begins beside a dead server: the shortest of some. No clock decides it. */
static void e8_the_death_of_a_server_is_an_event(void)
{
    uint64_t shortest = UINT64_MAX;
    for (int i = 0; i < 5; i++) {
        struct pipes p;
        pid_t pid = start_server(&p);
        struct tg_attached *a = attach_now();
        uint64_t gate = put(a, 0, OP_GATE, NULL, 0);
        /* Once asleep before it dies, else afterwards. */
        if (i == 0)
            CHECK_EQ(tg_attached_wait(a, gate, 300000000, NULL), -ETIMEDOUT);
        kill(pid, SIGKILL);
        CHECK(WIFSIGNALED(child_wait(pid)));
        uint64_t start = tg_clock_mono_ns();
        CHECK_EQ(tg_attached_wait(a, gate, LIMIT, NULL), -EPIPE);
        uint64_t took = tg_clock_mono_ns() - start;
        shortest = took < shortest ? took : shortest;
        tg_attached_detach(a);
        close_pipes(&p);
        CHECK_EQ(unlink(serve_path), 0);
    }
    fprintf(stderr, "  noticed after %.1f ms\n", (double)shortest / 1e6);
    CHECK(shortest < 200000000);
}

static void *dies_soon(void *pid)
{
    pause_ms(100);
    kill(*(pid_t *)pid, SIGKILL);
    return NULL;
}

/* All threads that sleep on a handle learn of it: the leader and those behind it. */
static void *waits_for_gate(void *item)
{
    CHECK_EQ(tg_attached_wait(shared_handle, *(uint64_t *)item, LIMIT, NULL), -EPIPE);
    return NULL;
}

static void e8_every_sleeper_hears_of_it(void)
{
    struct pipes p;
    pthread_t thread[4];
    pid_t pid = start_server(&p);
    shared_handle = attach_now();
    uint64_t gate = put(shared_handle, 0, OP_GATE, NULL, 0);
    CHECK_EQ(pthread_create(&thread[0], NULL, dies_soon, &pid), 0);
    for (int i = 1; i < 4; i++)
        CHECK_EQ(pthread_create(&thread[i], NULL, waits_for_gate, &gate), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    CHECK(WIFSIGNALED(child_wait(pid)));
    tg_attached_detach(shared_handle);
    close_pipes(&p);
    CHECK_EQ(unlink(serve_path), 0);
}

static void e8_a_stopped_server_tells(void)
{
    struct pipes p;
    uint64_t item;
    pid_t pid = start_server(&p);
    struct tg_attached *a = attach_now();
    uint64_t gate = put(a, 0, OP_GATE, NULL, 0), behind = put_mix(a, 0, 1);
    CHECK_EQ(tg_attached_wait(a, behind, 20000000, NULL), -ETIMEDOUT);
    CHECK(write(p.down[1], "s", 1) == 1);
    CHECK_EQ(tg_attached_wait(a, behind, LIMIT, NULL), -ECANCELED);
    child_passed(pid);
    CHECK_EQ(tg_attached_wait(a, gate, LIMIT, NULL), 0); /* it ran, and was waited for */
    CHECK_EQ(tg_attached_submit(a, 0, TG_OP_NOP, NULL, 0, &item), -ESHUTDOWN);
    CHECK_EQ(tg_attached_wait_space(a, LIMIT), -ESHUTDOWN);
    tg_attached_detach(a);
    close_pipes(&p);
}

/* A drained engine cancels what its clients still send. */
static void e8_a_drained_engine_cancels(void)
{
    struct served s;
    struct tg_drain_report report;
    serve_start(&s, test_engine(320, 1), NULL);
    struct tg_attached *a = attach_now();
    CHECK_EQ(tg_engine_set_quota(s.engine, 0, 0), 0);
    uint64_t before = put_mix(a, 1, 1);
    AWAIT(outstanding(&s, 1) == 1);
    CHECK_EQ(tg_engine_drain(s.engine, LIMIT, &report), 0);
    CHECK_EQ(tg_attached_wait(a, before, LIMIT, NULL), -ECANCELED);
    CHECK_EQ(tg_attached_wait(a, put_mix(a, 1, 1), LIMIT, NULL), -ECANCELED);
    tg_attached_detach(a);
    CHECK_EQ(tg_server_stop(s.server, LIMIT), 0);
    CHECK_EQ(report.handed_back, 1);
    test_close(s.engine);
}

int main(int argc, char **argv)
{
    child_main(argc, argv);
    serve_folder_make();
    RUN(e8_a_killed_server_hangs_nobody);
    RUN(e8_the_death_of_a_server_is_an_event);
    RUN(e8_every_sleeper_hears_of_it);
    RUN(e8_a_stopped_server_tells);
    RUN(e1_clients_killed_in_flight_leave_nothing);
    RUN(e1_an_item_outlives_its_client);
    RUN(e1_endless_items_end_with_their_client);
    RUN(e8_a_drained_engine_cancels);
    serve_folder_remove();
    return 0;
}
