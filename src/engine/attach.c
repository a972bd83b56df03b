/* SPDX-License-Identifier: Apache-2.0
 *
 * A client comes and goes: connects, checks what it is given (the server is another program), maps it; and
 * learns whether the server still lives. It publishes nothing (attach_item.c).
 */
#include "engine/attach.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <tidegate/serve.h>

#include "base/clock.h"
#include "engine/futex.h"

#define MAX_NS UINT64_C(3600000000000)

void tg_attach_options_init(struct tg_attach_options *o)
{
    memset(o, 0, sizeof(*o));
    o->size = sizeof(*o);
    o->spin_us = 20;
    o->timeout_ns = UINT64_C(5000000000);
}

static int dial(const char *path, uint64_t timeout_ns, int *ret_socket)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(path);
    if (length == 0)
        return -EINVAL;
    if (length >= sizeof(address.sun_path))
        return -ENAMETOOLONG;
    memcpy(address.sun_path, path, length);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    /* connect() waits while the server's queue is full, at most this long. */
    struct timeval tv = {.tv_sec = (time_t)(timeout_ns / 1000000000),
                         .tv_usec = (suseconds_t)(timeout_ns % 1000000000 / 1000 + 1)};
    int r = setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)) == 0 ? 0 : -errno;
    while (r == 0 && connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0)
        if (errno != EINTR)
            r = errno == EAGAIN ? -ETIMEDOUT : -errno;
    if (r)
        close(fd);
    else
        *ret_socket = fd;
    return r;
}

/* The welcome, with its descriptors (-1 when there are none). */
static int receive(int socket, struct tg_welcome *message, int fds[2])
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control;
    struct iovec iov = {.iov_base = message, .iov_len = sizeof(*message)};
    struct msghdr header = {.msg_iov = &iov,
                            .msg_iovlen = 1,
                            .msg_control = control.bytes,
                            .msg_controllen = sizeof(control.bytes)};
    ssize_t n = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0)
        return -errno;
    struct cmsghdr *c = CMSG_FIRSTHDR(&header);
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
        c->cmsg_len == CMSG_LEN(2 * sizeof(int)))
        memcpy(fds, CMSG_DATA(c), 2 * sizeof(int));
    if (n == 0)
        return -ECONNREFUSED; /* it went away before it said anything */
    return n == (ssize_t)sizeof(*message) ? 0 : -EPROTO;
}

static int await_welcome(int socket, uint64_t end_ns, struct tg_welcome *message, int fds[2])
{
    for (;;) {
        uint64_t now = tg_clock_mono_ns();
        uint64_t left = now < end_ns ? end_ns - now : 0;
        struct timespec ts = {.tv_sec = (time_t)(left / 1000000000), .tv_nsec = (long)(left % 1000000000)};
        struct pollfd pfd = {.fd = socket, .events = POLLIN};
        int n = ppoll(&pfd, 1, &ts, NULL);
        if (n == 0)
            return -ETIMEDOUT;
        if (n < 0 && errno != EINTR)
            return -errno;
        if (n < 0)
            continue;
        int r = receive(socket, message, fds);
        if (r != -EAGAIN && r != -EINTR)
            return r;
    }
}

static int check(const struct tg_welcome *m, const int fds[2])
{
    if (m->magic != TG_SHARE_MAGIC || m->version != TG_SHARE_VERSION)
        return -EPROTO;
    if (m->error)
        return m->error < 0 && m->error > -4096 ? m->error : -EPROTO;
    if (m->slots < 1 || m->slots > TG_SERVE_MAX_SLOTS || (m->slots & (m->slots - 1)) != 0 || fds[0] < 0)
        return -EPROTO;
    /* The server must not be able to shrink it under us either. */
    struct stat st;
    int seals = fcntl(fds[0], F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fds[0], &st) != 0 ||
        (uint64_t)st.st_size < tg_share_bytes(m->slots))
        return -EPROTO;
    return 0;
}

static int lay(struct tg_attached *a, const struct tg_welcome *m, int memory)
{
    a->slots = m->slots;
    a->mask = m->slots - 1;
    a->tenant = m->tenant;
    a->share_bytes = tg_share_bytes(m->slots);
    a->use = malloc(m->slots * sizeof(*a->use));
    if (!a->use)
        return -ENOMEM;
    /* Items are numbered from N on, so that there is an earlier use of every slot: published, long over. */
    a->next = m->slots;
    for (uint32_t i = 0; i < m->slots; i++)
        a->use[i] = (uint64_t)i * 2 + 1;
    void *share = mmap(NULL, a->share_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    if (share == MAP_FAILED)
        return -errno;
    a->share = share;
    return 0;
}

static struct tg_attached *make_handle(void)
{
    struct tg_attached *a = aligned_alloc(64, sizeof(*a));
    if (!a)
        return NULL;
    memset(a, 0, sizeof(*a));
    a->socket = a->bell = -1;
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&a->lock, NULL);
    pthread_mutex_init(&a->cancel_lock, NULL);
    pthread_cond_init(&a->changed, &attr);
    pthread_condattr_destroy(&attr);
    return a;
}

int tg_engine_attach(const char *path, const struct tg_attach_options *options, struct tg_attached **ret)
{
    struct tg_attach_options o;
    struct tg_welcome message = {0};
    int fds[2] = {-1, -1};
    tg_attach_options_init(&o);
    if (options) {
        if (options->size < sizeof(uint32_t) * 2 || options->size > sizeof(o))
            return -EINVAL;
        memcpy(&o, options, options->size);
    }
    if (o.timeout_ns > MAX_NS)
        o.timeout_ns = MAX_NS;
    uint64_t end_ns = tg_clock_mono_ns() + o.timeout_ns;
    struct tg_attached *a = make_handle();
    if (!a)
        return -ENOMEM;
    a->spin_us = o.spin_us;
    int r = dial(path, o.timeout_ns, &a->socket);
    if (!r)
        r = await_welcome(a->socket, end_ns, &message, fds);
    if (!r)
        r = check(&message, fds);
    if (!r)
        r = lay(a, &message, fds[0]);
    if (fds[0] >= 0)
        close(fds[0]);
    a->bell = fds[1];
    if (r)
        tg_attached_detach(a);
    else
        *ret = a;
    return r;
}

void tg_attached_detach(struct tg_attached *a)
{
    if (!a)
        return;
    if (a->watched) {
        shutdown(a->socket, SHUT_RDWR); /* what the watcher waits for */
        pthread_join(a->watcher, NULL);
    }
    if (a->share)
        munmap(a->share, a->share_bytes);
    if (a->bell >= 0)
        close(a->bell);
    if (a->socket >= 0)
        close(a->socket);
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->lock);
    pthread_mutex_destroy(&a->cancel_lock);
    free(a->use);
    free(a);
}

uint32_t tg_attached_slots(const struct tg_attached *a)
{
    return a->slots;
}

uint32_t tg_attached_tenant(const struct tg_attached *a)
{
    return a->tenant;
}

bool tg_attached_check_dead(struct tg_attached *a)
{
    char byte;
    ssize_t n = recv(a->socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    /* The server says nothing after its welcome: whatever comes is the end. */
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    tg_store_seqcst_u32(&a->dead, 1); /* W6 seq_cst: before the look at SLEEPER (V4); pairs with W7 */
    return true;
}

/* The connection's end, or the death of the process at its other end (a child of the server may hold the
 * connection open). */
static void *watch(void *attached)
{
    struct tg_attached *a = attached;
    struct ucred peer = {0};
    socklen_t length = sizeof(peer);
    int pidfd = -1;
    /* While it is known to live its number is its own. */
    if (getsockopt(a->socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.pid > 0)
        pidfd = (int)syscall(SYS_pidfd_open, peer.pid, 0);
    struct pollfd pfd[2] = {{.fd = a->socket, .events = POLLIN}, {.fd = pidfd, .events = POLLIN}};
    while (poll(pfd, 2, -1) < 0 && errno == EINTR)
        ;
    if (pidfd >= 0)
        close(pidfd);
    tg_store_seqcst_u32(&a->dead, 1); /* W6 */
    uint32_t *word = &a->share->sleeper;
    uint32_t value = tg_load_seqcst_u32(word); /* V6 */
    while (value & 1u)
        if (tg_cas_seqcst_u32(word, &value, value + 1)) {
            tg_futex_wake_shared(word, 1);
            break;
        }
    return NULL;
}

bool tg_attached_watch(struct tg_attached *a)
{
    if (a->tried)
        return a->watched;
    a->tried = true;
    pthread_attr_t attr;
    sigset_t all;
    sigfillset(&all);
    if (pthread_attr_init(&attr) != 0)
        return false;
    pthread_attr_setstacksize(&attr, 256u << 10);
    /* The application's signals are not this thread's. */
    a->watched =
        pthread_attr_setsigmask_np(&attr, &all) == 0 && pthread_create(&a->watcher, &attr, watch, a) == 0;
    pthread_attr_destroy(&attr);
    return a->watched;
}

int tg_attached_ended(struct tg_attached *a)
{
    uint32_t closed = tg_load_seqcst_u32(&a->share->closed); /* V5 seq_cst: after V4; pairs with V7 */
    if (closed)
        return closed == EPROTO ? -EPROTO : -ESHUTDOWN;
    return tg_load_seqcst_u32(&a->dead) ? -EPIPE : 0; /* W7 seq_cst: after V4; pairs with W6 */
}
