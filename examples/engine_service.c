/* SPDX-License-Identifier: Apache-2.0
 * One engine, three processes: this one opens an engine with two opcodes of its own and serves it; a batch
 * process floods it with counting of primes, at LOW; a service process asks small questions at CRITICAL and
 * measures how long each takes, though the only worker is always busy. Both check every answer against plain
 * code. Exits 0 when all are right. Usage: engine_service [questions] */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tidegate/attach.h>
#include <tidegate/serve.h>

enum { OP_PRIMES = 8, OP_DIGEST = 9, RANGE = 400, WINDOW = 32, MAX_QUESTIONS = 100000 };

static const uint64_t second = 1000000000;
static char path[64];
static uint32_t questions = 500;
static uint64_t took[MAX_QUESTIONS];

/* ---- The work, as plain code -----------------------------------------------------------------------------
 */

static uint32_t primes_from(uint32_t first)
{
    uint32_t count = 0;
    for (uint32_t n = first; n < first + RANGE; n++) {
        bool prime = n > 1;
        for (uint32_t d = 2; prime && d * d <= n; d++)
            prime = n % d != 0;
        count += prime;
    }
    return count;
}

static uint32_t digest(const uint32_t *words, uint32_t n)
{
    uint32_t h = 2166136261u;
    for (uint32_t i = 0; i < n; i++)
        h = (h ^ words[i]) * 16777619u;
    return h;
}

/* ---- The engine's side -----------------------------------------------------------------------------------
 */

static int primes_handler(void *context, struct tg_op *op)
{
    (void)context;
    op->result[0] = primes_from(op->args[0]);
    return TG_OP_FINISHED;
}

static int digest_handler(void *context, struct tg_op *op)
{
    (void)context;
    op->result[0] = digest(op->args, op->arg_count);
    return TG_OP_FINISHED;
}

/* ---- The clients' side -----------------------------------------------------------------------------------
 */

/* Keeps a window of items on their way until the pipe is closed: the service is done. */
static int batch_process(struct tg_attached *engine, int done)
{
    uint64_t item[WINDOW];
    uint32_t sent = 0, right = 0;
    char byte;
    for (bool more = true; more || right < sent;) {
        if (more && sent - right < WINDOW) {
            uint32_t first = sent % 1000 * RANGE;
            if (tg_attached_submit(engine, TG_PRIORITY_LOW, OP_PRIMES, &first, 1, &item[sent % WINDOW]) != 0)
                return 1;
            sent++;
            continue;
        }
        struct tg_outcome answer;
        if (tg_attached_wait(engine, item[right % WINDOW], 20 * second, &answer) != 0 ||
            answer.value[0] != primes_from(right % 1000 * RANGE))
            return 1;
        right++;
        more = more && !(read(done, &byte, 1) == 0);
    }
    printf("batch: %u ranges of %d numbers, all right\n", right, RANGE);
    return 0;
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static uint64_t now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * second + (uint64_t)ts.tv_nsec;
}

static int service_process(struct tg_attached *engine)
{
    for (uint32_t i = 0; i < questions; i++) {
        uint32_t words[12];
        struct tg_outcome answer;
        for (uint32_t k = 0; k < 12; k++)
            words[k] = i * 12 + k;
        uint64_t start = now_ns();
        if (tg_attached_call(engine, TG_PRIORITY_CRITICAL, OP_DIGEST, words, 12, 20 * second, &answer) != 0 ||
            answer.value[0] != digest(words, 12))
            return 1;
        took[i] = now_ns() - start;
        struct timespec between = {0, 500000}; /* a request now and then */
        nanosleep(&between, NULL);
    }
    qsort(took, questions, sizeof(took[0]), by_size);
    printf("service: %u answers beside it, all right: p50 %.1f us, p99 %.1f us\n", questions,
           (double)took[questions / 2] / 1e3, (double)took[questions * 99 / 100] / 1e3);
    return 0;
}

/* Forked before there are threads; begins when the engine is served. */
static pid_t start_client(bool batch, const int ready[2], const int done[2])
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    struct tg_attached *engine = NULL;
    char byte;
    close(ready[1]);
    if (batch)
        close(done[1]);
    int bad = read(ready[0], &byte, 1) != 1 || tg_engine_attach(path, NULL, &engine) != 0;
    if (!bad)
        bad = batch ? batch_process(engine, done[0]) : service_process(engine);
    tg_attached_detach(engine);
    fflush(stdout);
    _exit(bad);
}

static int serve(struct tg_server **ret_server, struct tg_engine **ret_engine)
{
    struct tg_engine_options o;
    tg_engine_options_init(&o);
    o.workers = 1;
    int error = tg_engine_open(&o, ret_engine);
    if (!error)
        error = tg_engine_register(*ret_engine, OP_PRIMES, primes_handler, NULL);
    if (!error)
        error = tg_engine_register(*ret_engine, OP_DIGEST, digest_handler, NULL);
    return error ? error : tg_engine_serve(*ret_engine, path, NULL, ret_server);
}

static int exit_of(pid_t pid)
{
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

int main(int argc, char **argv)
{
    char folder[] = "/tmp/tidegate-example-XXXXXX";
    struct tg_engine *engine;
    struct tg_server *server;
    int ready[2], done[2];
    if (argc > 1)
        questions = (uint32_t)strtoul(argv[1], NULL, 10);
    if (questions < 1 || questions > MAX_QUESTIONS || !mkdtemp(folder) || pipe(ready) != 0 ||
        pipe(done) != 0 || fcntl(done[0], F_SETFL, O_NONBLOCK) != 0)
        return 2;
    snprintf(path, sizeof(path), "%s/engine", folder);
    pid_t batch = start_client(true, ready, done);
    pid_t service = start_client(false, ready, done);
    int error = batch < 0 || service < 0 ? -EAGAIN : serve(&server, &engine);
    if (!error && write(ready[1], "xx", 2) != 2)
        error = -EIO;
    close(ready[1]); /* on an error the clients read its end and leave */
    int bad = exit_of(service);
    close(done[1]);
    bad |= exit_of(batch);
    if (!error)
        error = tg_server_stop(server, 5 * second);
    if (!error)
        error = tg_engine_close(engine, 5 * second, NULL);
    rmdir(folder);
    printf("%s (error %d)\n", error || bad ? "something went wrong" : "all right", error);
    return error || bad ? 1 : 0;
}
