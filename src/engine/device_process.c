/* SPDX-License-Identifier: Apache-2.0
 *
 * The link to a device that a child process owns, seen from the parent: it makes the memory that both map at
 * one address, starts the child (device_child.c), and passes on what the engine asks of a link. Everything
 * else of the engine is as it is with the device in this process.
 *
 * The end of the child is the end of the device: first it has ended, so that nothing is written any more,
 * then that is said. Nobody is signalled from here (L13): the child ends by itself when its end of the pair
 * says that this one is closed.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tidegate/compile.h>

#include "base/clock.h"
#include "engine/device_process.h"
#include "engine/futex.h"

#define PAGE UINT64_C(4096)
#define ADDRESSES 8u /* tried one after the other */
#define FIRST_ADDRESS UINT64_C(0x300000000000)
#define NEXT_ADDRESS UINT64_C(0x010000000000)
#define SECOND UINT64_C(1000000000)
#define HELLO_NS (30 * SECOND)
#define OPEN_NS (180 * SECOND) /* a driver that starts, or translates PTX */
#define CALL_NS (60 * SECOND)
#define END_NS (20 * SECOND)

struct process {
    pthread_mutex_t lock; /* one call at a time; all below */
    int socket, file, pidfd;
    pid_t pid;   /* 0: none */
    bool broken; /* it answers no more */
    bool over;   /* it has ended */
    int status;  /* then: as of waitpid, -1: not known */
    char *memory;
    size_t bytes, used;
};

static _Thread_local char reason[240];

static int because(int error, const char *why, const char **ret_why)
{
    snprintf(reason, sizeof(reason), "%s", why);
    *ret_why = reason;
    return error;
}

/* ---- The child's end ----------------------------------------------------------------------------------- */

/* Waits until it has ended. Somebody else may reap it (SIGCHLD ignored, a wait for any child). */
static bool await_end(struct process *p, uint64_t limit_ns)
{
    uint64_t start = tg_clock_mono_ns();
    uint32_t nobody = 0, step = 0;
    for (uint64_t spent = 0; !p->over && p->pid > 0; spent = tg_clock_mono_ns() - start) {
        pid_t got = waitpid(p->pid, &p->status, WNOHANG);
        p->over = got == p->pid || (got < 0 && errno == ECHILD);
        if (got < 0)
            p->status = -1;
        if (p->over || spent >= limit_ns)
            break;
        struct pollfd one = {.fd = p->pidfd, .events = POLLIN};
        if (p->pidfd < 0)
            tg_device_pause_host(&nobody, 0, &step, limit_ns);
        else
            poll(&one, 1, (int)((limit_ns - spent) / 1000000) + 1);
    }
    return p->over || p->pid == 0;
}

static void died(struct process *p)
{
    p->broken = true;
    shutdown(p->socket, SHUT_RDWR); /* so it ends, if it has not */
    await_end(p, END_NS);
}

static void say_end(const struct process *p, char *text, size_t bytes)
{
    if (p->over && p->status >= 0 && WIFSIGNALED(p->status))
        snprintf(text, bytes, "the process that owned the device was ended by signal %d",
                 WTERMSIG(p->status));
    else if (p->over && p->status >= 0)
        snprintf(text, bytes, "the process that owned the device ended with %d", WEXITSTATUS(p->status));
    else
        snprintf(text, bytes, "the process that owned the device %s", p->over ? "ended" : "does not answer");
}

/* ---- Calls --------------------------------------------------------------------------------------------- */

static bool receive(struct process *p, struct tg_process_answer *a, uint64_t limit_ns)
{
    uint64_t start = tg_clock_mono_ns();
    for (;;) {
        uint64_t spent = tg_clock_mono_ns() - start;
        struct pollfd one = {.fd = p->socket, .events = POLLIN};
        if (spent >= limit_ns)
            return false;
        int n = poll(&one, 1, (int)((limit_ns - spent) / 1000000) + 1);
        if (n < 0 && errno != EINTR)
            return false;
        if (n > 0)
            return recv(p->socket, a, sizeof(*a), MSG_DONTWAIT) == (ssize_t)sizeof(*a);
    }
}

/* lock is held. -ECHILD: it has ended, or does not answer; else what it answered. */
static int call(struct process *p, enum tg_process_what what, uint64_t a, uint64_t b,
                struct tg_process_answer *ret, uint64_t limit_ns)
{
    struct tg_process_call c = {
        .what = what, .a = a, .b = b, .check = what == TG_PROCESS_HELLO ? tg_process_check() : 0};
    memset(ret, 0, sizeof(*ret));
    if (!p->broken &&
        (send(p->socket, &c, sizeof(c), MSG_NOSIGNAL) != (ssize_t)sizeof(c) || !receive(p, ret, limit_ns)))
        died(p);
    ret->text[sizeof(ret->text) - 1] = '\0';
    return p->broken ? -ECHILD : ret->result;
}

static int locked_call(struct process *p, enum tg_process_what what, uint64_t a, uint64_t b,
                       struct tg_process_answer *ret)
{
    pthread_mutex_lock(&p->lock);
    int r = call(p, what, a, b, ret, CALL_NS);
    pthread_mutex_unlock(&p->lock);
    return r;
}

/* ---- Opening ------------------------------------------------------------------------------------------- */

static size_t whole_pages(size_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

/* At least what tg_device_open lays out in memory that host and device share. What is not used costs nothing.
 */
static size_t bytes_for(const struct tg_engine_options *o)
{
    size_t lines =
        2 * TG_LINE_RINGS * sizeof(struct tg_line) + 4 * (TG_PRIORITY_LEVELS + 2) * sizeof(uint32_t);
    size_t words = TG_CONTROL_MIN_WORDS + (size_t)o->observables + TG_DEBUG_RECORDS_BASE +
                   (size_t)o->log_records * TG_DEBUG_RECORD_WORDS;
    size_t fixed = sizeof(struct tg_answers) +
                   ((size_t)TG_PRIORITY_LEVELS << TG_SAMPLE_SHIFT) * sizeof(uint64_t) +
                   (sizeof(struct tg_line) << TG_COMMAND_SHIFT) +
                   (1 + TG_MAX_CALLERS) * sizeof(struct tg_worker) + TG_KINDS * sizeof(uint32_t);
    return whole_pages(TG_PROCESS_ROOM + o->device_image_bytes + o->control_bytes + o->log_bytes + fixed +
                       words * TG_WORD_BYTES +
                       o->slots * (TG_SLOT_BYTES + sizeof(struct tg_bad_end) + 2 * lines) + 64 * PAGE);
}

static int make_memory(struct process *p, const struct tg_engine_options *o, const char **ret_why)
{
    struct rlimit limit;
    p->bytes = bytes_for(o);
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < p->bytes)
        return because(-EFBIG,
                       "the limit on the size of files (ulimit -f) is below what host and device share",
                       ret_why);
    p->file = (int)syscall(SYS_memfd_create, "tidegate-device", 1u /* close on exec */);
    if (p->file < 0 || ftruncate(p->file, (off_t)p->bytes) != 0)
        return because(-errno, "no memory that can be shared with another process", ret_why);
    return 0;
}

/* Not 0 to 4, which the child's are dup'ed to. */
static int move_up(int *fd)
{
    int to = fcntl(*fd, F_DUPFD_CLOEXEC, 10);
    if (to < 0)
        return -errno;
    close(*fd);
    *fd = to;
    return 0;
}

static char **environment(size_t *ret_count)
{
    static char mark[] = TG_PROCESS_ENV "=1";
    size_t n = 0;
    while (environ && environ[n])
        n++;
    char **with = malloc((n + 2) * sizeof(*with));
    if (!with)
        return NULL;
    for (size_t i = 0; i < n; i++)
        with[i] = environ[i];
    with[n] = mark;
    with[n + 1] = NULL;
    *ret_count = n + 1;
    return with;
}

static int spawn(struct process *p, const char *program, int socket)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    size_t count;
    char word_1[] = TG_PROCESS_WORD_1, word_2[] = TG_PROCESS_WORD_2;
    char *argv[] = {(char *)(uintptr_t)program, word_1, word_2, NULL};
    char **with = environment(&count);
    if (!with)
        return -ENOMEM;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
    int r = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    r = r ? r : posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
    r = r ? r : posix_spawn_file_actions_adddup2(&files, socket, TG_PROCESS_SOCKET);
    r = r ? r : posix_spawn_file_actions_adddup2(&files, p->file, TG_PROCESS_MEMORY);
    r = r ? r : posix_spawnattr_setsigmask(&attributes, &none);
    r = r ? r : posix_spawnattr_setsigdefault(&attributes, &all);
    r = r ? r : posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    r = r ? r : posix_spawnp(&p->pid, program, &files, &attributes, argv, with);
    if (r)
        p->pid = 0;
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    free(with);
    return -r;
}

static int start_child(struct process *p, const char *program, const char **ret_why)
{
    int pair[2];
    if (getenv(TG_PROCESS_ENV))
        return because(-ELOOP,
                       "this process was started to own a device: its main has to call tg_engine_device_main",
                       ret_why);
    if (getauxval(AT_SECURE) && !strchr(program, '/'))
        return because(-EPERM, "a program with raised rights names device_process by a path", ret_why);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return because(-errno, "no pair of sockets", ret_why);
    p->socket = pair[0];
    int r = move_up(&pair[1]);
    if (!r)
        r = move_up(&p->file);
    if (!r)
        r = spawn(p, program, pair[1]);
    close(pair[1]);
    if (r)
        return because(r, "the program of device_process cannot be started", ret_why);
    p->pidfd = (int)syscall(SYS_pidfd_open, p->pid, 0);
    return 0;
}

/* The memory, at an address that is free in both. */
static int agree(struct process *p, const char **ret_why)
{
    struct tg_process_answer a;
    int r = -EEXIST;
    for (uint32_t i = 0; r == -EEXIST && i < ADDRESSES; i++) {
        void *hint = (void *)(uintptr_t)(FIRST_ADDRESS + i * NEXT_ADDRESS);
        void *got = mmap(hint, p->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, p->file, 0);
        if (got == MAP_FAILED)
            return because(-ENOMEM, "no memory that can be shared with another process", ret_why);
        r = call(p, TG_PROCESS_HELLO, (uint64_t)(uintptr_t)got, p->bytes, &a, HELLO_NS);
        if (r)
            munmap(got, p->bytes);
        else
            p->memory = got;
    }
    if (r == -ECHILD || r == -EPROTO)
        return because(-EPROTO,
                       "the program of device_process owns no device (it calls no tg_engine_device_main), or "
                       "is of another version",
                       ret_why);
    return r ? because(r, "no address is free in this process and the one that owns the device", ret_why) : 0;
}

static void *take(struct process *p, size_t bytes)
{
    bytes = whole_pages(bytes);
    if (bytes > p->bytes - p->used)
        return NULL;
    void *at = p->memory + p->used;
    p->used += bytes;
    return at;
}

static int open_there(struct process *p, const struct tg_engine_options *o, const char **ret_why)
{
    struct tg_process_open wanted = {.image = 0};
    struct tg_process_answer a;
    p->used = TG_PROCESS_ROOM;
    snprintf(wanted.backend, sizeof(wanted.backend), "%s", o->backend);
    if (o->device_image) {
        void *image = take(p, o->device_image_bytes);
        if (!image)
            return because(-ENOMEM, "no memory for the image", ret_why);
        memcpy(image, o->device_image, o->device_image_bytes);
        wanted.image = (uint64_t)(uintptr_t)image;
        wanted.image_bytes = o->device_image_bytes;
    }
    memcpy(p->memory, &wanted, sizeof(wanted));
    int r = call(p, TG_PROCESS_OPEN, 0, 0, &a, OPEN_NS);
    if (r == -ECHILD)
        say_end(p, a.text, sizeof(a.text));
    return r ? because(r, a.text, ret_why) : 0;
}

static int check(const struct tg_engine_options *o, const char **ret_why)
{
    if (o->device_context)
        return because(-EINVAL, "device_context is of this process, and device_process names another",
                       ret_why);
    if (o->device_image && o->device_image_bytes == 0)
        return because(-EINVAL, "device_process needs the size of device_image", ret_why);
    if (strlen(o->backend) >= sizeof(((struct tg_process_open *)0)->backend))
        return because(-EINVAL, "the name of the backend is too long", ret_why);
    for (uint32_t i = TG_IR_FIRST_USER_BUFFER; o->kernel && o->kernel_memory && i < TG_BODY_BUFFERS; i++)
        if (o->kernel_memory->words[i] && o->kernel_memory->count[i])
            return because(
                -ENOTSUP,
                "the kernel's buffers lie in memory of this process, which device_process does not "
                "see",
                ret_why);
    return 0;
}

static void process_close(void *state);

static int process_open(const struct tg_engine_options *o, void **ret_state, const char **ret_why)
{
    int r = check(o, ret_why);
    if (r)
        return r;
    struct process *p = calloc(1, sizeof(*p));
    if (!p)
        return -ENOMEM;
    pthread_mutex_init(&p->lock, NULL);
    p->socket = p->file = p->pidfd = p->status = -1;
    r = make_memory(p, o, ret_why);
    if (!r)
        r = start_child(p, o->device_process, ret_why);
    if (!r)
        r = agree(p, ret_why);
    if (!r)
        r = open_there(p, o, ret_why);
    if (r)
        process_close(p);
    else
        *ret_state = p;
    return r;
}

/* ---- What the engine asks of a link ---------------------------------------------------------------------
 */

static void *host_memory(void *state, size_t bytes)
{
    struct process *p = state;
    struct tg_process_answer a;
    pthread_mutex_lock(&p->lock);
    void *at = take(p, bytes);
    if (at && call(p, TG_PROCESS_SHARE, (uint64_t)(uintptr_t)at, whole_pages(bytes), &a, CALL_NS) != 0)
        at = NULL;
    pthread_mutex_unlock(&p->lock);
    return at;
}

static void *device_memory(void *state, size_t bytes)
{
    struct tg_process_answer a;
    return locked_call(state, TG_PROCESS_DEVICE, 0, bytes, &a) == 0 ? (void *)(uintptr_t)a.value : NULL;
}

static int upload(void *state, void *to, const void *from, size_t bytes)
{
    struct process *p = state;
    struct tg_process_answer a;
    int r = 0;
    pthread_mutex_lock(&p->lock);
    for (size_t at = 0, n; !r && at < bytes; at += n) {
        n = bytes - at < TG_PROCESS_ROOM ? bytes - at : TG_PROCESS_ROOM;
        memcpy(p->memory, (const char *)from + at, n);
        r = call(p, TG_PROCESS_UPLOAD, (uint64_t)(uintptr_t)to + at, n, &a, CALL_NS);
    }
    pthread_mutex_unlock(&p->lock);
    return r ? -EIO : 0;
}

static void *adopt(void *state, void *memory, size_t bytes)
{
    (void)state;
    (void)memory;
    (void)bytes;
    return NULL; /* memory of this process alone */
}

static uint32_t workers(void *state, uint32_t wanted)
{
    struct tg_process_answer a;
    return locked_call(state, TG_PROCESS_WORKERS, 0, wanted, &a) == 0 ? (uint32_t)a.value : 0;
}

static int start(void *state, struct tg_device_params *params)
{
    struct process *p = state;
    struct tg_process_answer a;
    pthread_mutex_lock(&p->lock);
    memcpy(p->memory, params, sizeof(*params));
    int r = call(p, TG_PROCESS_START, 0, 0, &a, OPEN_NS);
    memcpy(params, p->memory, sizeof(*params)); /* what the link filled in */
    pthread_mutex_unlock(&p->lock);
    return r;
}

static int look(void *state)
{
    struct tg_process_answer a;
    return locked_call(state, TG_PROCESS_LOOK, 0, 0, &a);
}

static int error(void *state, char *text, size_t bytes)
{
    struct process *p = state;
    struct tg_process_answer a;
    int r = locked_call(p, TG_PROCESS_ERROR, 0, 0, &a);
    if (r) {
        pthread_mutex_lock(&p->lock);
        say_end(p, text, bytes);
        pthread_mutex_unlock(&p->lock);
        return r;
    }
    snprintf(text, bytes, "%s", a.text);
    return (int)(int64_t)a.value;
}

/* The child's memory is its own mapping, so this one goes whatever the child still does. */
static void process_close(void *state)
{
    struct process *p = state;
    const struct tg_process_call c = {.what = TG_PROCESS_CLOSE};
    if (p->pid > 0 && !p->over) {
        (void)!send(p->socket, &c, sizeof(c), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (!await_end(p, END_NS))
            died(p);
    }
    if (p->socket >= 0)
        close(p->socket);
    if (p->file >= 0)
        close(p->file);
    if (p->pidfd >= 0)
        close(p->pidfd);
    if (p->memory)
        munmap(p->memory, p->bytes);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

const struct tg_link tg_link_process = {
    .open = process_open,
    .host_memory = host_memory,
    .device_memory = device_memory,
    .upload = upload,
    .adopt = adopt,
    .workers = workers,
    .start = start,
    .look = look,
    .error = error,
    .close = process_close,
};
