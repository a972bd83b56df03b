/* SPDX-License-Identifier: Apache-2.0
 *
 * The process that owns a device for its parent (device_process.h): it opens the real link, shows the
 * parent's memory to the device, starts the kernel, and says how it is when asked. No item passes here.
 *
 * It ends when the parent closes the engine or has ended, whatever it is doing then, and with it everything
 * that CUDA keeps for a process: a fault, a body that does not return. That is what it is for.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/cuda.h"
#include "engine/device_process.h"
#include "engine/open.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

struct child {
    char *memory;
    size_t bytes;
    const struct tg_link *link;
    void *state;
    bool opened, started;
    struct tg_device_params params;
};

static uint64_t add_bytes(uint64_t sum, const char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sum = (sum ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001B3);
    return sum;
}

uint64_t tg_process_check(void)
{
    uint64_t sum = add_bytes(UINT64_C(0xCBF29CE484222325), TG_VERSION, sizeof(TG_VERSION));
    for (const struct tg_device_source *s = tg_device_sources; s->name; s++)
        sum = add_bytes(sum, s->text, strlen(s->text));
    return sum + sizeof(struct tg_device_params);
}

/* ---- Its end ------------------------------------------------------------------------------------------- */

/* The parent's end of the pair is closed, or the parent has ended (a child of it may hold the pair open). The
 * main thread may be in a call of the driver that does not come back. */
static void *watch(void *unused)
{
    struct ucred parent = {0};
    socklen_t length = sizeof(parent);
    int pidfd = -1;
    if (getsockopt(TG_PROCESS_SOCKET, SOL_SOCKET, SO_PEERCRED, &parent, &length) == 0 && parent.pid > 0)
        pidfd = (int)syscall(SYS_pidfd_open, parent.pid, 0);
    struct pollfd p[2] = {{.fd = TG_PROCESS_SOCKET}, {.fd = pidfd, .events = POLLIN}};
    while (poll(p, 2, -1) < 0 && errno == EINTR)
        ;
    (void)unused;
    _exit(1);
}

/* Signals of a terminal and of whoever ends a group are for the parent, which then closes its engine. */
static void be_quiet(void)
{
    signal(SIGINT, SIG_IGN);
    signal(SIGQUIT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    syscall(SYS_close_range, TG_PROCESS_MEMORY + 1u, ~0u, 0u); /* what the parent left open */
}

_Noreturn static void end(struct child *c)
{
    /* A kernel that has left is put away in order; one that runs on ends with the process. */
    if (c->opened && c->started && tg_load_acquire_u32(&c->params.answers->left) == 1 + TG_LEFT_DRAINED)
        c->link->close(c->state);
    _exit(0);
}

/* ---- Calls --------------------------------------------------------------------------------------------- */

static int hello(struct child *c, const struct tg_process_call *call)
{
    void *wanted = (void *)(uintptr_t)call->a;
    if (call->check != tg_process_check() || c->memory)
        return -EPROTO;
    void *got =
        mmap(wanted, call->b, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, TG_PROCESS_MEMORY, 0);
    if (got == MAP_FAILED)
        return errno == ENOMEM ? -ENOMEM : -EEXIST;
    if (got != wanted) { /* a kernel that does not know the flag takes the address for a wish */
        munmap(got, call->b);
        return -EEXIST;
    }
    c->memory = got;
    c->bytes = call->b;
    return 0;
}

static bool is_shared(const struct child *c, uint64_t at, uint64_t bytes)
{
    uint64_t first = (uint64_t)(uintptr_t)c->memory;
    return at >= first && bytes <= c->bytes && at - first <= c->bytes - bytes;
}

static int open_link(struct child *c, const char **ret_why)
{
    struct tg_process_open wanted;
    struct tg_engine_options o;
    memcpy(&wanted, c->memory, sizeof(wanted));
    wanted.backend[sizeof(wanted.backend) - 1] = '\0';
    tg_engine_options_init(&o);
    o.backend = wanted.backend;
    if (wanted.image && !is_shared(c, wanted.image, wanted.image_bytes))
        return -EINVAL;
    o.device_image = (const void *)(uintptr_t)wanted.image;
    o.device_image_bytes = wanted.image_bytes;
    int r = tg_open_find_link(o.backend, &c->link);
    if (!r && !c->link)
        r = -ENOTSUP;
    if (!r)
        r = c->link->open(&o, &c->state, ret_why);
    c->opened = r == 0;
    return r;
}

static int start(struct child *c)
{
    memcpy(&c->params, c->memory, sizeof(c->params));
    c->started = is_shared(c, (uint64_t)(uintptr_t)c->params.answers, sizeof(*c->params.answers));
    int r = c->started ? c->link->start(c->state, &c->params) : -EINVAL;
    memcpy(c->memory, &c->params, sizeof(c->params));
    return r;
}

static void answer_error(struct child *c, struct tg_process_answer *a)
{
    a->value = (uint64_t)(int64_t)-EIO;
    if (c->link->error)
        a->value = (uint64_t)(int64_t)c->link->error(c->state, a->text, sizeof(a->text));
}

static void answer_opened(struct child *c, const struct tg_process_call *call, struct tg_process_answer *a)
{
    void *at = (void *)(uintptr_t)call->a;
    switch (call->what) {
    case TG_PROCESS_SHARE:
        a->result =
            is_shared(c, call->a, call->b) && c->link->adopt(c->state, at, call->b) == at ? 0 : -EFAULT;
        break;
    case TG_PROCESS_DEVICE:
        a->value = (uint64_t)(uintptr_t)c->link->device_memory(c->state, call->b);
        break;
    case TG_PROCESS_UPLOAD:
        a->result = call->b <= TG_PROCESS_ROOM ? c->link->upload(c->state, at, c->memory, call->b) : -EINVAL;
        break;
    case TG_PROCESS_WORKERS:
        a->value = c->link->workers(c->state, (uint32_t)call->b);
        break;
    case TG_PROCESS_START:
        a->result = start(c);
        break;
    case TG_PROCESS_LOOK:
        a->result = c->link->look(c->state);
        break;
    case TG_PROCESS_ERROR:
        answer_error(c, a);
        break;
    default:
        a->result = -EPROTO;
    }
}

static void answer(struct child *c, const struct tg_process_call *call, struct tg_process_answer *a)
{
    const char *why = "";
    if (call->what == TG_PROCESS_HELLO)
        a->result = hello(c, call);
    else if (call->what == TG_PROCESS_CLOSE)
        end(c);
    else if (!c->memory || c->opened == (call->what == TG_PROCESS_OPEN))
        a->result = -EPROTO;
    else if (call->what != TG_PROCESS_OPEN)
        answer_opened(c, call, a);
    else if ((a->result = open_link(c, &why)) != 0)
        snprintf(a->text, sizeof(a->text), "%s", why);
}

int tg_device_child(void)
{
    static struct child c;
    struct tg_process_call call;
    pthread_t watcher;
    int type = 0;
    socklen_t length = sizeof(type);
    if (getsockopt(TG_PROCESS_SOCKET, SOL_SOCKET, SO_TYPE, &type, &length) != 0 || type != SOCK_SEQPACKET) {
        fputs("tidegate: this owns a GPU for another program, which starts it (options.device_process)\n",
              stderr);
        return 2;
    }
    be_quiet();
    if (pthread_create(&watcher, NULL, watch, NULL) != 0)
        return 1;
    for (;;) {
        struct tg_process_answer a = {0};
        ssize_t n = recv(TG_PROCESS_SOCKET, &call, sizeof(call), 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n != (ssize_t)sizeof(call))
            _exit(1);
        answer(&c, &call, &a);
        if (send(TG_PROCESS_SOCKET, &a, sizeof(a), MSG_NOSIGNAL) != (ssize_t)sizeof(a))
            _exit(1);
    }
}

int tg_engine_device_main(int argc, char **argv)
{
    if (argc != 3 || strcmp(argv[1], TG_PROCESS_WORD_1) != 0 || strcmp(argv[2], TG_PROCESS_WORD_2) != 0)
        return -1;
    return tg_device_child();
}
