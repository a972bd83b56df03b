/* SPDX-License-Identifier: Apache-2.0
 * An engine whose device a child process owns (options.device_process): what runs, runs as within this
 * process; and whatever becomes of the child or its device, this process opens the next engine. Skips (77)
 * without a device; TG_TEST_BACKEND names one. */
#include <dirent.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine_test.h"
#include "ring/slot.h"

#define OP_DEVICE_SPIN 0x100u
#define OP_DEVICE_ADD 0x101u
#define OP_DEVICE_WILD 0x108u
#define OP_HANDLED 11u

#ifdef TG_TEST_IMAGE
extern const unsigned char tg_test_image[], tg_test_image_end[];
#endif

#if defined(__SANITIZE_THREAD__)
static const bool thread_sanitizer = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
static const bool thread_sanitizer = true;
#else
static const bool thread_sanitizer = false;
#endif
#else
static const bool thread_sanitizer = false;
#endif

static struct tg_engine_options options(uint32_t slots)
{
    struct tg_engine_options o = test_options(slots, 1);
#ifdef TG_TEST_IMAGE
    o.device_image = tg_test_image;
    o.device_image_bytes = (size_t)(tg_test_image_end - tg_test_image);
#endif
    o.device_process = "/proc/self/exe";
    o.device_blocks = 2;
    return o;
}

static int handled(void *context, struct tg_op *op)
{
    CHECK_EQ(getpid(), *(pid_t *)context); /* handlers stay in this process */
    return tg_engine_observable_store(op->engine, op->args[0], 77) ? -EFAULT : TG_OP_FINISHED;
}

static struct tg_engine *open_with(const struct tg_engine_options *o)
{
    static pid_t self;
    struct tg_engine *e = test_open(o);
    self = getpid();
    CHECK_EQ(tg_engine_register_device(e, OP_DEVICE_SPIN, TG_DEVICE_LANE), 0);
    CHECK_EQ(tg_engine_register_device(e, OP_DEVICE_ADD, TG_DEVICE_LANE), 0);
    CHECK_EQ(tg_engine_register_device(e, OP_DEVICE_WILD, TG_DEVICE_LANE), 0);
    CHECK_EQ(tg_engine_register(e, OP_HANDLED, handled, &self), 0);
    return e;
}

static int run(struct tg_engine *e, uint32_t opcode, uint32_t a0, uint32_t a1, struct tg_item *t)
{
    const uint32_t args[2] = {a0, a1};
    return run_ticket(e, 2, opcode, args, 2, t);
}

/* An item of every kind: built in, the image's, a handler's, in a batch. */
static void works(struct tg_engine *e)
{
    static const uint32_t dfa[2 * 256] = {[256 + 5] = 9};
    const uint32_t add[2] = {20, 1};
    struct tg_batch_item items[10];
    struct tg_item t;
    uint32_t epoch = test_word(e, TG_CONTROL_EPOCH), before = test_word(e, 180);
    CHECK_EQ(run(e, TG_OP_STORE_U32, 41, 161, &t), 0);
    CHECK_EQ(test_word(e, 161), 41);
    CHECK_EQ(run(e, OP_HANDLED, 3, 0, &t), 0);
    CHECK_EQ(test_word(e, 163), 77);
    for (int i = 0; i < 10; i++)
        items[i] = (struct tg_batch_item){OP_DEVICE_ADD, add, 2};
    CHECK_EQ(tg_engine_submit_batch(e, 1, 3, items, 10, 5, &t), 0);
    CHECK_EQ(tg_engine_wait(e, &t, LIMIT), 0);
    CHECK_EQ(test_word(e, 180), before + 10);
    CHECK_EQ(test_word(e, TG_CONTROL_EPOCH), epoch + 1);
    CHECK_EQ(tg_engine_set_dfa(e, dfa, 2), 0);
    CHECK_EQ(tg_engine_submit(e, 0, 1, TG_OP_DFA_STEP, (uint32_t[]){1, 5, 4}, 3, &t), 0);
    CHECK_EQ(tg_engine_wait(e, &t, LIMIT), 0);
    CHECK_EQ(test_word(e, 164), 9);
    CHECK_EQ(tg_engine_settle(e, LIMIT), 0);
}

static void items_run_as_within_this_process(void)
{
    struct tg_engine_options o = options(100);
    struct tg_drain_report report;
    struct tg_engine *e = open_with(&o);
    works(e);
    works(e);
    CHECK_EQ(tg_engine_close(e, LIMIT, &report), 0);
    CHECK_EQ(report.done, 28);
    CHECK_EQ(report.faults + report.handed_back, 0);
}

/* Each has its own child, so there may be several, also on one device. */
static void two_engines_of_a_process_share_a_device(void)
{
    struct tg_engine_options o = options(100);
    struct tg_engine *first = open_with(&o), *second = open_with(&o);
    for (int i = 0; i < 3; i++) {
        works(first);
        works(second);
    }
    test_close(first);
    works(second);
    test_close(second);
}

/* ---- What becomes of the child --------------------------------------------------------------------------
 */

static pid_t parent_of(const char *pid)
{
    char path[300], line[512] = "";
    snprintf(path, sizeof(path), "/proc/%.200s/stat", pid);
    FILE *f = fopen(path, "r");
    if (!f)
        return 0;
    char *text = fgets(line, sizeof(line), f);
    fclose(f);
    text = text ? strrchr(line, ')') : NULL; /* "pid (name) state ppid" */
    return text && text[1] && text[2] != 'Z' ? (pid_t)strtol(text + 3, NULL, 10) : 0;
}

/* The one child of a process; 0: none. */
static pid_t child_of(pid_t parent)
{
    pid_t found = 0;
    DIR *proc = opendir("/proc");
    CHECK(proc);
    for (struct dirent *d; (d = readdir(proc)) != NULL;)
        if (d->d_name[0] >= '1' && d->d_name[0] <= '9' && parent_of(d->d_name) == parent)
            found = (pid_t)strtol(d->d_name, NULL, 10);
    closedir(proc);
    return found;
}

static void wait_until_gone(pid_t pid)
{
    char name[32];
    snprintf(name, sizeof(name), "%d", (int)pid);
    for (uint64_t end = tg_clock_mono_ns() + LIMIT; parent_of(name) != 0;) {
        CHECK(tg_clock_mono_ns() < end);
        usleep(10000);
    }
}

/* One item runs, one waits: the first is FAULT, the other handed back, and the report says what happened. */
static void ends_with(struct tg_engine *e, const struct tg_item *runs, const struct tg_item *waits,
                      uint32_t in_flight, uint32_t reason, struct tg_device_report *report)
{
    struct tg_item found[4];
    struct tg_fault f;
    CHECK_EQ(tg_engine_wait(e, runs, LIMIT), -EIO);
    CHECK_EQ(tg_engine_fault(e, runs, &f), 0);
    CHECK_EQ(f.reason, reason);
    CHECK_EQ(tg_engine_wait(e, waits, LIMIT), -ECANCELED);
    int r = 0; /* the item is told a moment before the engine takes no more */
    for (uint64_t end = tg_clock_mono_ns() + LIMIT; r != -ESHUTDOWN && tg_clock_mono_ns() < end;)
        r = tg_engine_submit(e, 0, 2, TG_OP_NOP, NULL, 0, NULL);
    CHECK_EQ(r, -ESHUTDOWN);
    CHECK_EQ(tg_engine_device_report(e, report, found, 4), 0);
    fprintf(stderr, "  %d %s, %u in flight\n", report->error, report->text, report->in_flight);
    CHECK_EQ(report->in_flight, in_flight);
    for (uint32_t i = 0; i < in_flight; i++)
        if (found[i].slot == runs->slot && found[i].generation == runs->generation)
            return;
    fprintf(stderr, "the report does not name the item\n");
    exit(1);
}

static void submit_waiting(struct tg_engine *e, struct tg_item *waits)
{
    CHECK_EQ(tg_engine_set_tenant(e, 3, 0), 0);
    CHECK_EQ(tg_engine_submit(e, 3, 2, TG_OP_NOP, NULL, 0, waits), 0);
}

static void submit_spin(struct tg_engine *e, uint32_t seconds, struct tg_item *runs)
{
    CHECK_EQ(tg_engine_submit(e, 0, 2, OP_DEVICE_SPIN, (uint32_t[]){0, seconds}, 2, runs), 0);
    while (test_status(e, runs->slot) == TG_SLOT_PUBLISHED)
        usleep(1000);
}

static void after_the_child_was_killed_the_next_engine_opens(void)
{
    struct tg_engine_options o = options(64);
    struct tg_device_report report;
    struct tg_drain_report drained;
    struct tg_item runs, waits;
    for (int i = 0; i < 2; i++) {
        struct tg_engine *e = open_with(&o);
        works(e);
        submit_waiting(e, &waits);
        submit_spin(e, 600, &runs);
        pid_t child = child_of(getpid());
        CHECK(child > 1);
        CHECK_EQ(kill(child, SIGKILL), 0);
        ends_with(e, &runs, &waits, 1, TG_FAULT_DEVICE, &report);
        CHECK_EQ(report.state, TG_DEVICE_FAULTED);
        CHECK_EQ(report.error, -ECHILD);
        CHECK(strstr(report.text, "signal 9"));
        CHECK_EQ(tg_engine_close(e, LIMIT, &drained), 0);
        CHECK(drained.faults == 1 && drained.handed_back >= 1);
        CHECK_EQ(child_of(getpid()), 0);
    }
    struct tg_engine *e = open_with(&o);
    works(e);
    test_close(e);
}

/* Who asks a device that has just died, and is the first to notice, gets an answer. */
static void what_asks_a_dead_device_comes_back(void)
{
    struct tg_engine_options o = options(64);
    static struct tg_engine_stats s;
    struct tg_engine *e = open_with(&o);
    works(e);
    CHECK_EQ(kill(child_of(getpid()), SIGKILL), 0);
    int r = 0;
    for (uint32_t asked = 0; r == 0; asked++) { /* a device outlives its process by some moments */
        alarm(100);
        tg_engine_stats(e, &s);
        alarm(0);
        CHECK(s.done >= 14 && asked < 100000);
        r = tg_engine_submit(e, 0, 2, TG_OP_NOP, NULL, 0, NULL);
    }
    CHECK_EQ(r, -ESHUTDOWN);
    test_close(e);
}

/* A wild store. CUDA keeps that error for the process; in the emulator all of the device stops. */
static void after_a_fault_of_the_device_the_next_engine_opens(void)
{
    struct tg_engine_options o = options(64);
    struct tg_device_report report;
    struct tg_item beside, wild, waits;
    for (int i = 0; i < 2; i++) {
        struct tg_engine *e = open_with(&o);
        works(e);
        submit_waiting(e, &waits);
        submit_spin(e, 2, &beside);
        CHECK_EQ(tg_engine_submit(e, 0, 2, OP_DEVICE_WILD, NULL, 0, &wild), 0);
        ends_with(e, &wild, &waits, 2, TG_FAULT_DEVICE, &report);
        CHECK_EQ(tg_engine_wait(e, &beside, LIMIT), -EIO);
        CHECK_EQ(report.state, TG_DEVICE_FAULTED);
        CHECK(report.error > 0 && report.text[0]);
        test_close(e);
        uint64_t start = tg_clock_mono_ns();
        e = open_with(&o);
        fprintf(stderr, "  opened again in %" PRIu64 " ms\n", (tg_clock_mono_ns() - start) / 1000000);
        works(e);
        test_close(e);
    }
}

/* A body that does not return: within one process it would keep the device. */
static void after_a_body_without_end_the_next_engine_opens(void)
{
    struct tg_engine_options o = options(64);
    struct tg_device_report report;
    struct tg_item runs, waits;
    o.device_body_limit_ms = 1500;
    struct tg_engine *e = open_with(&o);
    works(e);
    submit_waiting(e, &waits);
    submit_spin(e, 100000, &runs);
    ends_with(e, &runs, &waits, 1, TG_FAULT_TIMEOUT, &report);
    CHECK_EQ(report.state, TG_DEVICE_OVERRAN);
    test_close(e);
    CHECK_EQ(child_of(getpid()), 0);
    e = open_with(&o);
    works(e);
    test_close(e);
}

/* What a foreign host published: what ran is FAULT, what waited its own again. */
static void slots_of_a_foreign_host_end_with_the_device(void)
{
    static _Alignas(64) struct tg_slot ring[20];
    struct tg_engine_options o = options(20);
    const uint32_t spin[2] = {0, 600};
    o.ring = ring;
    o.ring_bytes = sizeof(ring);
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
        o.foreign_slots[l] = TG_ENGINE_ALL_SLOTS;
    struct tg_engine *e = open_with(&o);
    CHECK_EQ(tg_engine_set_tenant(e, 3, 0), 0);
    tg_slot_write_payload(&ring[8], OP_DEVICE_SPIN, 0, 2, spin, 2);
    tg_slot_publish(&ring[8]);
    tg_slot_write_payload(&ring[9], TG_OP_NOP, 3, 2, spin, 0);
    tg_slot_publish(&ring[9]);
    while (tg_slot_status(&ring[8]) == TG_SLOT_PUBLISHED)
        usleep(1000);
    usleep(50000); /* it runs; else it is handed back, which is right too */
    CHECK_EQ(kill(child_of(getpid()), SIGKILL), 0);
    for (uint64_t end = tg_clock_mono_ns() + LIMIT; tg_slot_status(&ring[8]) == TG_SLOT_CLAIMED;) {
        CHECK(tg_clock_mono_ns() < end);
        usleep(1000);
    }
    CHECK(tg_slot_status(&ring[8]) == TG_SLOT_FAULT || tg_slot_status(&ring[8]) == TG_SLOT_EMPTY);
    test_close(e);
    CHECK_EQ(tg_slot_status(&ring[9]), TG_SLOT_EMPTY);
}

/* The parent: opens an engine and waits for its end. */
static int parent(void)
{
    struct tg_engine_options o = options(64);
    struct tg_item runs;
    struct tg_engine *e = open_with(&o);
    submit_spin(e, 600, &runs);
    CHECK_EQ(write(1, "x", 1), 1);
    for (;;)
        pause();
}

static void the_child_ends_with_its_parent(void)
{
    char name[] = "test", word[] = "parent", *argv[] = {name, word, NULL}, byte;
    posix_spawn_file_actions_t files;
    int ends[2], status;
    pid_t pid;
    CHECK_EQ(pipe(ends), 0);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, ends[1], 1);
    CHECK_EQ(posix_spawn(&pid, "/proc/self/exe", &files, NULL, argv, environ), 0);
    posix_spawn_file_actions_destroy(&files);
    close(ends[1]);
    CHECK_EQ(read(ends[0], &byte, 1), 1);
    pid_t child = child_of(pid);
    CHECK(child > 1);
    CHECK_EQ(kill(child, SIGTERM), 0); /* is for the parent */
    CHECK_EQ(kill(pid, SIGKILL), 0);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    wait_until_gone(child);
    close(ends[0]);
}

/* A parent that reaps all children, or none, hears less of the end and misses nothing else. */
static void a_child_that_others_reap_is_over_too(void)
{
    struct tg_engine_options o = options(64);
    struct tg_device_report report;
    struct tg_item runs, waits;
    signal(SIGCHLD, SIG_IGN);
    struct tg_engine *e = open_with(&o);
    submit_waiting(e, &waits);
    submit_spin(e, 600, &runs);
    CHECK_EQ(kill(child_of(getpid()), SIGKILL), 0);
    ends_with(e, &runs, &waits, 1, TG_FAULT_DEVICE, &report);
    CHECK_EQ(report.error, -ECHILD);
    CHECK(strstr(report.text, "ended"));
    test_close(e);
    e = open_with(&o);
    works(e);
    test_close(e);
    signal(SIGCHLD, SIG_DFL);
}

/* ---- What cannot be opened ------------------------------------------------------------------------------
 */

static void refused(const struct tg_engine_options *o, int error, const char *word)
{
    struct tg_engine *e = NULL;
    int r = tg_engine_open(o, &e);
    fprintf(stderr, "  %d %s\n", r, tg_engine_open_reason());
    CHECK_EQ(r, error);
    CHECK(!e && strstr(tg_engine_open_reason(), word));
    CHECK_EQ(child_of(getpid()), 0);
}

static void what_is_wrong_is_said(void)
{
    struct tg_engine_options o;
    struct rlimit limit, low;
    char program[4096];
    tg_engine_options_init(&o);
    o.device_process = "/proc/self/exe";
    refused(&o, -EINVAL, "device_process");
    o.backend = "cuda";
    o.device_context = &o;
    refused(&o, -EINVAL, "device_context");
    o.device_context = NULL;
    o.device_image = &o;
    refused(&o, -EINVAL, "size");
    o.device_image = NULL;
    o.device_process = "/nowhere/at/all";
    refused(&o, -ENOENT, "device_process");
    o.device_process = "true";
    refused(&o, -EPROTO, "tg_engine_device_main");
    CHECK_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
    low = limit;
    low.rlim_cur = 4096;
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
    refused(&o, -EFBIG, "ulimit");
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    CHECK_EQ(setenv("TIDEGATE_OWNS_A_DEVICE", "1", 1), 0);
    refused(&o, -ELOOP, "tg_engine_device_main");
    CHECK_EQ(unsetenv("TIDEGATE_OWNS_A_DEVICE"), 0);
    /* What the child says of its device reaches the parent, the command's too. */
    o.backend = "cuda:x";
    o.device_process = "/proc/self/exe";
    struct tg_engine *e = NULL;
    int r = tg_engine_open(&o, &e);
    if (r == -EEXIST && thread_sanitizer) /* it lets nobody choose an address outside its own ranges */
        return;
    CHECK(r == -EINVAL || r == -ENODEV || r == -ENOTSUP);
    CHECK(strlen(tg_engine_open_reason()) > 0);
    if (!getenv("TG_BUILD_DIR"))
        return;
    snprintf(program, sizeof(program), "%s/tidegate", getenv("TG_BUILD_DIR"));
    if (access(program, X_OK) != 0)
        return;
    o.device_process = program;
    o.backend = "cuda:1023";
    refused(&o, r == -ENOTSUP ? r : -ENODEV, "");
    fprintf(stderr, "  the command says: %s\n", tg_engine_open_reason());
    CHECK(strlen(tg_engine_open_reason()) > 0);
}

int main(int argc, char **argv)
{
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none); /* children end by signals here */
    if (argc > 1 && strcmp(argv[1], "parent") == 0)
        return parent();
    RUN(what_is_wrong_is_said);
    if (!test_backend())
        SKIP("TG_TEST_BACKEND names no device");
    RUN(items_run_as_within_this_process);
    RUN(after_the_child_was_killed_the_next_engine_opens);
    RUN(what_asks_a_dead_device_comes_back);
    RUN(after_a_fault_of_the_device_the_next_engine_opens);
    RUN(after_a_body_without_end_the_next_engine_opens);
    RUN(two_engines_of_a_process_share_a_device);
    RUN(slots_of_a_foreign_host_end_with_the_device);
    RUN(the_child_ends_with_its_parent);
    RUN(a_child_that_others_reap_is_over_too);
    return 0;
}
