/* SPDX-License-Identifier: Apache-2.0
 *
 * tidegate engine run: work items as JSON lines through a resident engine of its own, results as JSON lines.
 * Here are the options, the opening and the end; engine_run.h says how it goes in between. */
#include "cli/engine_run.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/parse.h"
#include "cli/cli.h"
#include "cli/gpu.h"

#define VERB "engine run"
#define DRAIN_NS UINT64_C(60000000000)
#define IO_SLICE_NS UINT64_C(1000000000)
#define DFA_BYTES_MAX (1024u * 1048576u) /* a million states */

/* ---- Options ------------------------------------------------------------------------------------------ */

enum {
    OPT_SLOTS,
    OPT_WORKERS,
    OPT_TENANTS,
    OPT_QUOTA,
    OPT_OBSERVABLES,
    OPT_LOG_RECORDS,
    OPT_SPIN_US,
    OPT_SM,
    OPT_BACKEND,
    OPT_ORDER,
    OPT_KEEP_GOING,
    OPT_UNRESTRICTED,
    OPT_SCAN,
    OPT_PIN,
    OPT_DFA,
    OPT_BODY,
    OPT_CUDA,
    OPT_OP,
    OPT_IO,
    OPT_SUMMARY,
    OPT_STALL,
    OPT_SAVE_RING,
    OPT_SAVE_CONTROL,
    OPT_SAVE_LOG,
};

static const struct tg_option table[] = {
    [OPT_SLOTS] = {0, "slots", true},
    [OPT_WORKERS] = {'w', "workers", true},
    [OPT_TENANTS] = {0, "tenants", true},
    [OPT_QUOTA] = {0, "quota", true},
    [OPT_OBSERVABLES] = {0, "observables", true},
    [OPT_LOG_RECORDS] = {0, "log-records", true},
    [OPT_SPIN_US] = {0, "spin-us", true},
    [OPT_SM] = {0, "sm", true},
    [OPT_BACKEND] = {0, "backend", true},
    [OPT_ORDER] = {0, "order", true},
    [OPT_KEEP_GOING] = {'k', "keep-going", false},
    [OPT_UNRESTRICTED] = {0, "unrestricted", false},
    [OPT_SCAN] = {0, "scan", false},
    [OPT_PIN] = {0, "pin", true},
    [OPT_DFA] = {0, "dfa", true},
    [OPT_BODY] = {'b', "body", true},
    [OPT_CUDA] = {0, "cuda", true},
    [OPT_OP] = {0, "op", true},
    [OPT_IO] = {0, "io", true},
    [OPT_SUMMARY] = {0, "summary", true},
    [OPT_STALL] = {0, "stall", true},
    [OPT_SAVE_RING] = {0, "save-ring", true},
    [OPT_SAVE_CONTROL] = {0, "save-control", true},
    [OPT_SAVE_LOG] = {0, "save-log", true},
    {0, NULL, false},
};

static bool number(const char *what, const char *text, uint32_t min, uint32_t max, uint32_t *ret)
{
    uint64_t value;
    if (!tg_arg_u64(VERB, what, text, min, max, &value))
        return false;
    *ret = (uint32_t)value;
    return true;
}

static bool choice(const char *what, const char *text, const char *const *names, int *ret)
{
    char all[64] = "";
    for (int i = 0; names[i]; i++) {
        if (strcmp(names[i], text) == 0) {
            *ret = i;
            return true;
        }
        size_t used = strlen(all);
        snprintf(all + used, sizeof(all) - used, "%s%s", i ? ", " : "", names[i]);
    }
    tg_usage_error(VERB, "%s is %s, but must be one of %s", what, tg_shown(text), all);
    return false;
}

/* "0,1,3" */
static bool pin(struct tg_run *run, const char *text)
{
    struct tg_engine_options *o = &run->engine_options;
    for (const char *at = text;; at++) {
        char one[16];
        size_t n = strcspn(at, ",");
        snprintf(one, sizeof(one), "%.*s", n < sizeof(one) ? (int)n : 15, at);
        if (o->cpu_count == sizeof(run->cpus) / sizeof(run->cpus[0])) {
            tg_usage_error(VERB, "--pin names more than %zu processors",
                           sizeof(run->cpus) / sizeof(run->cpus[0]));
            return false;
        }
        if (!number("a processor of --pin", one, 0, 1023, &run->cpus[o->cpu_count]))
            return false;
        o->cpu_count++;
        at += n;
        if (*at == '\0')
            break;
    }
    o->cpus = run->cpus;
    return true;
}

static bool body(struct tg_run *run, const char *name)
{
    static struct tg_bodies bodies;
    run->bodies = &bodies;
    return tg_bodies_name(VERB, &bodies, name);
}

static bool take_number_option(struct tg_run *run, int option, const char *value)
{
    struct tg_engine_options *o = &run->engine_options;
    switch (option) {
    case OPT_SLOTS:
        return number("--slots", value, TG_PRIORITY_LEVELS, TG_MAX_ENCODED_RING_SLOTS, &o->slots);
    case OPT_WORKERS:
        return number("--workers", value, 1, 256, &o->workers);
    case OPT_TENANTS:
        return number("--tenants", value, 0, TG_TENANTS, &o->tenants);
    case OPT_QUOTA:
        return number("--quota", value, 0, TG_TENANT_QUOTA_UNLIMITED - 1, &o->quota);
    case OPT_OBSERVABLES:
        return number("--observables", value, 1, TG_MAX_ENCODED_OBSERVABLE_SLOTS, &o->observables);
    case OPT_LOG_RECORDS:
        return number("--log-records", value, 0, TG_MAX_ENCODED_DEBUG_RECORDS, &o->log_records);
    case OPT_SM: /* one of them is the dispatcher's */
        if (!number("--sm", value, 2, 512, &o->device_blocks))
            return false;
        o->device_blocks--;
        return true;
    default:
        return number("--spin-us", value, 0, 1000000, &o->spin_us);
    }
}

static bool take_option(struct tg_run *run, int option, const char *value)
{
    static const char *const orders[] = {"input", "completion", NULL};
    static const char *const summaries[] = {"text", "json", "none", NULL};
    int chosen = 0;
    switch (option) {
    case OPT_BACKEND:
        run->engine_options.backend = value;
        return true;
    case OPT_ORDER:
        if (!choice("--order", value, orders, &chosen))
            return false;
        run->in_completion_order = chosen == 1;
        return true;
    case OPT_KEEP_GOING:
        return run->keep_going = true;
    case OPT_UNRESTRICTED:
        run->engine_options.flags |= TG_ENGINE_UNRESTRICTED;
        return true;
    case OPT_SCAN:
        run->engine_options.flags |= TG_ENGINE_SCAN;
        return true;
    case OPT_PIN:
        return pin(run, value);
    case OPT_BODY:
        return body(run, value);
    case OPT_OP:
        return tg_cli_text_op(VERB, &run->text, value);
    case OPT_SUMMARY:
        if (!choice("--summary", value, summaries, &chosen))
            return false;
        run->summary = (unsigned)chosen;
        return true;
    case OPT_STALL:
        if (tg_parse_duration_ms(value, &run->stall_ms) == 0 && run->stall_ms <= 86400000)
            return true;
        tg_usage_error(VERB, "--stall is %s, but must be a duration up to a day, as 10s or 500ms",
                       tg_shown(value));
        return false;
    default:
        return take_number_option(run, option, value);
    }
}

/* Options that name a file or folder. */
static const char **path_option(struct tg_run *run, int option)
{
    switch (option) {
    case OPT_DFA:
        return &run->dfa_file;
    case OPT_CUDA:
        return &run->text.file;
    case OPT_IO:
        return &run->io_dir;
    case OPT_SAVE_RING:
        return &run->save_ring;
    case OPT_SAVE_CONTROL:
        return &run->save_control;
    case OPT_SAVE_LOG:
        return &run->save_log;
    default:
        return NULL;
    }
}

static bool parse(struct tg_run *run, int argc, char **argv)
{
    struct tg_options o = {.verb = VERB, .table = table, .argc = argc, .argv = argv};
    for (;;) {
        int option = tg_next_option(&o);
        if (option == TG_OPTIONS_ERROR)
            return false;
        if (option == TG_OPTIONS_END) {
            if (o.at >= argc)
                return true;
            if (run->file) {
                tg_usage_error(VERB, "one file at a time; %s is one too many", tg_shown(argv[o.at]));
                return false;
            }
            run->file = argv[o.at++]; /* options may follow it */
            continue;
        }
        const char **path = path_option(run, option);
        if (path)
            *path = o.value;
        else if (!take_option(run, option, o.value))
            return false;
    }
}

static bool is_cuda(const char *backend)
{
    return backend && strncmp(backend, "cuda", 4) == 0 && (backend[4] == '\0' || backend[4] == ':');
}

/* What can be judged only when all options are known. */
static bool fits_together(const struct tg_run *run)
{
    const char *backend = run->engine_options.backend;
    uint64_t gpu;
    if (is_cuda(backend) && backend[4] == ':' && tg_parse_u64(backend + 5, 0, 1023, &gpu) != 0)
        tg_usage_error(VERB, "--backend is %s, but the GPU of cuda:N must be a whole number from 0 to 1023",
                       tg_shown(backend));
    else if (run->engine_options.device_blocks != 0 && !is_cuda(backend))
        tg_usage_error(VERB, "--sm is for a GPU: say --backend cuda");
    else
        return true;
    return false;
}

/* ---- Opening ------------------------------------------------------------------------------------------ */

static int failed(const char *what, const char *name, int error)
{
    tg_complain(VERB, "%s %.200s: %s", what, name, strerror(-error));
    return TG_EXIT_FAILED;
}

/* The table of DFA_STEP: little-endian words, 256 a state. */
static int load_dfa(struct tg_run *run)
{
    struct stat st;
    int fd = open(run->dfa_file, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0) {
        int error = -errno;
        if (fd >= 0)
            close(fd);
        return failed("cannot read", run->dfa_file, error);
    }
    const size_t row = TG_DFA_COLUMNS * TG_WORD_BYTES;
    if (!S_ISREG(st.st_mode) || st.st_size <= 0 || st.st_size > DFA_BYTES_MAX ||
        (size_t)st.st_size % row != 0) {
        close(fd);
        return tg_usage_error(VERB,
                              "--dfa %.200s is not a table: a file of 1 to 1,048,576 states of 1,024 bytes",
                              run->dfa_file);
    }
    size_t bytes = (size_t)st.st_size, have = 0;
    run->dfa = malloc(bytes);
    ssize_t n = 1;
    while (run->dfa && have < bytes && n > 0) {
        n = read(fd, (char *)run->dfa + have, bytes - have);
        have += n > 0 ? (size_t)n : 0;
    }
    close(fd);
    if (!run->dfa || have < bytes)
        return failed("cannot read", run->dfa_file, run->dfa ? -EIO : -ENOMEM);
    int r = tg_engine_set_dfa(run->engine, run->dfa, (uint32_t)(bytes / row));
    return r ? failed("cannot use", run->dfa_file, r) : TG_EXIT_OK;
}

static int spin(void *context, struct tg_op *op)
{
    (void)context;
    if (op->args[0] > TG_CLI_SPIN_US_MAX)
        return -EINVAL;
    uint64_t end = tg_clock_mono_ns() + op->args[0] * UINT64_C(1000);
    while (tg_clock_mono_ns() < end)
        ;
    return TG_OP_FINISHED;
}

static void set_windows(struct tg_run *run)
{
    static struct tg_engine_stats stats;
    tg_engine_stats(run->engine, &stats);
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++) {
        uint32_t window = (uint32_t)((uint64_t)stats.level[l].slots * 7 / 16);
        run->window[l] = window ? window : 1;
    }
}

/* Why there is no engine, and what would help. */
static int not_opened(const char *backend, int error)
{
    const char *reason = tg_engine_open_reason();
    bool said = reason[0] != '\0';
    if (error == -ENOTSUP && is_cuda(backend) && (!said || strncmp(reason, "built without", 13) == 0))
        return tg_usage_error(VERB,
                              "the backend cuda is not in this build: no nvcc was there when it was built");
    if (error == -ENOTSUP && is_cuda(backend))
        return tg_usage_error(VERB, "the backend cuda cannot do this: %s", reason);
    if (error == -ENOTSUP)
        return tg_usage_error(VERB, "there is no backend %s; there are: cpu, cuda", tg_shown(backend));
    if (error == -EINVAL && said)
        return tg_usage_error(VERB, "--backend is %s: %s", tg_shown(backend), reason);
    if (error == -ENODEV)
        tg_complain(VERB, "the backend cuda needs a GPU and its driver: %s", said ? reason : "none here");
    else
        tg_complain(VERB, "cannot open an engine: %s%s%s", strerror(-error), said ? ": " : "", reason);
    return TG_EXIT_FAILED;
}

/* The bodies of --body, compiled for the backend. */
static int compile_bodies(struct tg_run *run)
{
    struct tg_bodies *b = run->bodies;
    const char *backend = run->engine_options.backend;
    b->kernel.slots = run->engine_options.slots;
    b->kernel.flags = run->engine_options.flags & TG_ENGINE_UNRESTRICTED ? TG_IR_UNRESTRICTED : 0;
    int code = tg_bodies_read(VERB, b);
    if (code == TG_EXIT_OK)
        code = tg_bodies_compile(VERB, b, is_cuda(backend) ? backend : NULL, &run->kernel);
    tg_bodies_free(b);
    run->engine_options.kernel = run->kernel;
    return code;
}

static int compile_opcodes(struct tg_run *run)
{
    if (run->text.file)
        return tg_cli_text_compile(VERB, &run->text, &run->engine_options);
    return run->bodies ? compile_bodies(run) : TG_EXIT_OK;
}

/* What --cuda names, and the command's own opcode unless the user has one of that number. */
static int register_opcodes(struct tg_run *run)
{
    int code = tg_cli_text_register(VERB, &run->text, run->engine);
    if (code != TG_EXIT_OK || tg_cli_text_has(&run->text, TG_CLI_OP_SPIN_US) ||
        (run->bodies && tg_bodies_have(run->bodies, TG_CLI_OP_SPIN_US)))
        return code;
    int r = tg_engine_register(run->engine, TG_CLI_OP_SPIN_US, spin, NULL);
    if (r)
        tg_complain(VERB, "cannot register SPIN_US: %s", strerror(-r));
    return r ? TG_EXIT_FAILED : TG_EXIT_OK;
}

static int open_engine(struct tg_run *run)
{
    const char *backend = run->engine_options.backend;
    if (!tg_cli_text_check(VERB, &run->text, is_cuda(backend), run->bodies != NULL))
        return TG_EXIT_USAGE;
    int r = is_cuda(backend) || run->bodies ? tg_gpu_become() : 0;
    if (r && !is_cuda(backend)) {
        tg_complain(VERB, "--body needs tidegate-gpu, the command that can load compiled code: %s",
                    strerror(-r));
        return TG_EXIT_FAILED;
    }
    if (r)
        return not_opened(backend, r == -ENOENT ? -ENOTSUP : r);
    int code = compile_opcodes(run);
    if (code != TG_EXIT_OK)
        return code;
    r = tg_engine_open(&run->engine_options, &run->engine);
    if (r == -EINVAL && run->engine_options.cpu_count) {
        tg_complain(VERB, "cannot open an engine: a processor of --pin is not there, or may not be used");
        return TG_EXIT_FAILED;
    }
    if (r)
        return not_opened(backend, r);
    code = register_opcodes(run);
    if (code != TG_EXIT_OK)
        return code;
    set_windows(run);
    if (run->io_dir) {
        run->io_dir_fd = open(run->io_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (run->io_dir_fd < 0)
            return failed("cannot open", run->io_dir, -errno);
    }
    return run->dfa_file ? load_dfa(run) : TG_EXIT_OK;
}

/* ---- The IO side -------------------------------------------------------------------------------------- */

/* Resource N is the file N of the folder: it is read to its end. Without a folder every request succeeds. */
static int read_resource(struct tg_run *run, uint32_t resource)
{
    char name[16], buffer[65536];
    if (run->io_dir_fd < 0)
        return 0;
    snprintf(name, sizeof(name), "%" PRIu32, resource);
    int fd = openat(run->io_dir_fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    ssize_t n;
    do
        n = read(fd, buffer, sizeof(buffer));
    while (n > 0 || (n < 0 && errno == EINTR));
    int error = n < 0 ? -errno : 0;
    close(fd);
    return error;
}

static void set_io_busy(struct tg_run *run, bool busy)
{
    pthread_mutex_lock(&run->lock);
    run->io_busy = busy;
    pthread_mutex_unlock(&run->lock);
}

static void *serve_io(void *context)
{
    struct tg_run *run = context;
    for (;;) {
        struct tg_io_request request;
        int r = tg_engine_io_next(run->engine, IO_SLICE_NS, &request);
        if (r == -ETIMEDOUT)
            continue;
        if (r)
            return NULL;
        set_io_busy(run, true);
        tg_engine_io_complete(run->engine, &request.item, read_resource(run, request.resource));
        set_io_busy(run, false);
    }
}

/* ---- Running ------------------------------------------------------------------------------------------ */

static int save(const char *file, const void *bytes, size_t n)
{
    if (!file)
        return TG_EXIT_OK;
    int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    size_t done = 0;
    ssize_t w = fd < 0 ? -1 : 0;
    while (fd >= 0 && done < n && (w = write(fd, (const char *)bytes + done, n - done)) > 0)
        done += (size_t)w;
    int error = w < 0 ? -errno : 0;
    if (fd >= 0 && close(fd) != 0 && !error)
        error = -errno;
    return error ? failed("cannot write", file, error) : TG_EXIT_OK;
}

static int save_all(struct tg_run *run)
{
    const void *ring, *control, *log;
    size_t ring_bytes, control_bytes, log_bytes;
    tg_engine_buffers(run->engine, &ring, &ring_bytes, &control, &control_bytes, &log, &log_bytes);
    int code = save(run->save_ring, ring, ring_bytes);
    if (code == TG_EXIT_OK)
        code = save(run->save_control, control, control_bytes);
    return code == TG_EXIT_OK ? save(run->save_log, log, log_bytes) : code;
}

static void say_fed(struct tg_run *run)
{
    pthread_mutex_lock(&run->lock);
    run->fed = true;
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->lock);
}

/* Everything published ends or is handed back, and is printed. */
static int finish(struct tg_run *run)
{
    if (tg_run_wait_collected(run))
        tg_engine_settle(run->engine, IO_SLICE_NS); /* only so that the counters in the buffers are exact */
    int r = tg_engine_drain(run->engine, DRAIN_NS, NULL);
    if (r)
        tg_complain(VERB, "an item still runs; its result is not known");
    return r ? TG_EXIT_FAILED : TG_EXIT_OK;
}

static int run_threads(struct tg_run *run)
{
    pthread_t collector, io;
    int error = pthread_create(&collector, NULL, tg_run_collect, run);
    if (error)
        return failed("cannot start", "a thread", -error);
    error = pthread_create(&io, NULL, serve_io, run);
    int code = error ? failed("cannot start", "a thread", -error) : tg_run_feed(run);
    say_fed(run);
    int end = finish(run);
    if (end != TG_EXIT_OK)
        _exit(TG_EXIT_FAILED); /* the item's thread cannot be stopped */
    pthread_join(collector, NULL);
    if (!error)
        pthread_join(io, NULL);
    return code;
}

static int run_all(struct tg_run *run)
{
    int code = run_threads(run);
    tg_run_print_summary(run);
    int saved = save_all(run);
    if (run->failed)
        return failed("cannot write to", "standard output", -run->failed);
    if (tg_flushed(VERB, TG_EXIT_OK) != TG_EXIT_OK)
        return TG_EXIT_FAILED;
    if (code != TG_EXIT_OK || saved != TG_EXIT_OK)
        return code != TG_EXIT_OK ? code : saved;
    return run->ends[TG_RUN_FAULT] + run->ends[TG_RUN_HANDED_BACK] + run->ends[TG_RUN_REFUSED] > 0
               ? TG_EXIT_NOT_DONE
               : TG_EXIT_OK;
}

int tg_verb_engine_run(int argc, char **argv)
{
    static struct tg_run run;
    pthread_condattr_t attr;
    memset(&run, 0, sizeof(run));
    tg_engine_options_init(&run.engine_options);
    run.stall_ms = 10000;
    run.io_dir_fd = -1;
    run.last = &run.first;
    if (!parse(&run, argc, argv) || !fits_together(&run))
        return TG_EXIT_USAGE;
    if (!run.file)
        run.file = "-";
    pthread_mutex_init(&run.lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&run.changed, &attr);
    pthread_condattr_destroy(&attr);
    run.progress = isatty(STDERR_FILENO) == 1 && isatty(STDOUT_FILENO) == 0;
    run.started_ns = tg_clock_mono_ns();
    int code = open_engine(&run);
    if (code == TG_EXIT_OK)
        code = run_all(&run);
    tg_engine_close(run.engine, DRAIN_NS, NULL);
    tg_kernel_close(run.kernel);
    tg_cli_text_free(&run.text);
    if (run.io_dir_fd >= 0)
        close(run.io_dir_fd);
    free(run.dfa);
    pthread_cond_destroy(&run.changed);
    pthread_mutex_destroy(&run.lock);
    return code;
}
