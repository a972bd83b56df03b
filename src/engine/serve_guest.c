/* SPDX-License-Identifier: Apache-2.0
 *
 * Connections come and go: who may connect and as which tenant, the memory and doorbell a client gets, what
 * happens when it is gone. It reads nothing from a connection: a client has nothing to say there, and a byte
 * from it, or its end, ends the connection.
 *
 * Rules kept: E4 (tenant by the uid the kernel names; no uid takes the last place), E8.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/serve.h"
#include "engine/serve_events.h"

/* ---- Who may ------------------------------------------------------------------------------------------- */

static uint32_t guests_of(const struct tg_server *s, uint32_t uid)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->places; i++)
        n += s->guest[i] && s->guest[i]->uid == uid ? 1u : 0u;
    return n;
}

/* 0 and the tenant, or why not. */
static int admit(const struct tg_server *s, int socket, uint32_t *uid, uint32_t *tenant)
{
    struct ucred peer;
    socklen_t length = sizeof(peer);
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0)
        return -errno;
    *uid = peer.uid;
    const struct tg_serve_rule *rule = NULL;
    for (uint32_t i = 0; i < s->options.rule_count && !rule; i++)
        if (s->rules[i].uid == peer.uid || s->rules[i].uid == TG_SERVE_ANY_UID)
            rule = &s->rules[i];
    if (!rule)
        return -EACCES;
    *tenant = rule->tenant;
    uint32_t held = guests_of(s, peer.uid);
    uint32_t left = s->places - s->guests;
    if (left == 0)
        return -EUSERS;
    if (s->options.clients_per_uid)
        return held < s->options.clients_per_uid ? 0 : -EUSERS;
    return tg_serve_may_hold(held, left, s->places) ? 0 : -EUSERS;
}

/* ---- What it gets -------------------------------------------------------------------------------------- */

/* Shared memory that neither side can shrink under the other. */
static int make_share(struct tg_guest *g, uint32_t slots, int *ret_memory)
{
    g->share_bytes = tg_share_bytes(slots);
    int fd = memfd_create("tidegate-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -errno;
    void *memory = MAP_FAILED;
    /* The pages are taken here, so that memory that is short is found here. */
    int r = posix_fallocate(fd, 0, (off_t)g->share_bytes);
    if (r == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        r = errno;
    if (r == 0) {
        memory = mmap(NULL, g->share_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        r = memory == MAP_FAILED ? errno : 0;
    }
    if (r) {
        close(fd);
        return -r;
    }
    g->share = memory;
    g->share->magic = TG_SHARE_MAGIC; /* before the client has it */
    g->share->version = TG_SHARE_VERSION;
    g->share->slots = slots;
    g->share->tenant = g->tenant;
    *ret_memory = fd;
    return 0;
}

static void guest_free(struct tg_guest *g)
{
    if (!g)
        return;
    if (g->share)
        munmap(g->share, g->share_bytes);
    if (g->bell >= 0)
        close(g->bell);
    if (g->socket >= 0)
        close(g->socket);
    free(g->item);
    free(g);
}

static int make_guest(struct tg_server *s, uint32_t uid, uint32_t tenant, struct tg_guest **ret,
                      int *ret_memory)
{
    uint32_t slots = s->options.slots;
    struct tg_guest *g = aligned_alloc(64, sizeof(*g));
    if (!g)
        return -ENOMEM;
    memset(g, 0, sizeof(*g));
    g->server = s;
    g->socket = -1;
    g->uid = uid;
    g->tenant = tenant;
    g->mask = slots - 1;
    g->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int r = g->bell < 0 ? -errno : 0;
    g->item = calloc(slots, sizeof(*g->item));
    if (!r)
        r = g->item ? make_share(g, slots, ret_memory) : -ENOMEM;
    if (r) {
        guest_free(g);
        return r;
    }
    for (uint32_t i = 0; i < slots; i++) {
        g->item[i].guest = g;
        g->item[i].index = i;
        g->item[i].fence = TG_ITEM_OVER;
    }
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
        g->pending[l].first = TG_NO_ITEM;
    *ret = g;
    return 0;
}

/* The one message. A fresh connection always has room for it; a client that is gone already shows later. */
static void welcome(int socket, const struct tg_welcome *message, int memory, int bell)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control;
    struct iovec iov = {.iov_base = (void *)(uintptr_t)message, .iov_len = sizeof(*message)};
    struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};
    memset(&control, 0, sizeof(control));
    if (message->error == 0) {
        const int fds[2] = {memory, bell};
        header.msg_control = control.bytes;
        header.msg_controllen = sizeof(control.bytes);
        struct cmsghdr *c = CMSG_FIRSTHDR(&header);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(fds));
        memcpy(CMSG_DATA(c), fds, sizeof(fds));
    }
    (void)!sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* ---- Coming -------------------------------------------------------------------------------------------- */

static int settle_in(struct tg_server *s, struct tg_guest *g)
{
    uint32_t place = 0;
    while (s->guest[place])
        place++; /* admit saw that one is left */
    g->place = place;
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.u64 = tg_event(TG_EVENT_SOCKET, place)};
    if (epoll_ctl(s->epoll, EPOLL_CTL_ADD, g->socket, &event) != 0)
        return -errno;
    /* Edge-triggered: each ring is an event, and nobody needs to read the count. */
    event = (struct epoll_event){.events = EPOLLIN | EPOLLET, .data.u64 = tg_event(TG_EVENT_BELL, place)};
    if (epoll_ctl(s->epoll, EPOLL_CTL_ADD, g->bell, &event) != 0)
        return -errno;
    s->guest[place] = g;
    s->top = place >= s->top ? place + 1 : s->top;
    s->guests++;
    tg_serve_set(&s->stats.clients, s->stats.clients + 1);
    return 0;
}

static void receive(struct tg_server *s, int socket)
{
    struct tg_welcome message = {.magic = TG_SHARE_MAGIC, .version = TG_SHARE_VERSION};
    struct tg_guest *g = NULL;
    uint32_t uid = 0;
    int memory = -1;
    message.error = admit(s, socket, &uid, &message.tenant);
    if (!message.error)
        message.error = make_guest(s, uid, message.tenant, &g, &memory);
    if (!message.error) {
        g->socket = socket;
        message.error = settle_in(s, g);
    }
    if (message.error) {
        tg_serve_count(&s->stats.refused);
        welcome(socket, &message, -1, -1);
        guest_free(g);
        if (!g)
            close(socket);
    } else {
        message.slots = s->options.slots;
        tg_serve_count(&s->stats.accepted);
        welcome(socket, &message, memory, g->bell);
        tg_guest_activate(g);
    }
    if (memory >= 0)
        close(memory);
}

void tg_guest_accept(struct tg_server *s)
{
    int socket = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket >= 0) {
        receive(s, socket);
    } else if ((errno == EMFILE || errno == ENFILE) && s->spare >= 0) {
        /* Out of descriptors: the spare one lets us turn the client away instead of looking at it for ever.
         */
        struct tg_welcome message = {.magic = TG_SHARE_MAGIC, .version = TG_SHARE_VERSION, .error = -EUSERS};
        close(s->spare);
        socket = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (socket >= 0) {
            tg_serve_count(&s->stats.refused);
            welcome(socket, &message, -1, -1);
            close(socket);
        }
        s->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
}

void tg_guest_activate(struct tg_guest *g)
{
    struct tg_server *s = g->server;
    if (g->active || g->leaving)
        return;
    g->active = true;
    g->last_ns = 0;
    tg_store_seqcst_u32(&g->share->parked, 0); /* V1: takes the wish back; a ring too many is harmless */
    s->active[s->actives++] = g;
}

static void remove_active(struct tg_guest *g)
{
    struct tg_server *s = g->server;
    for (uint32_t k = 0; g->active && k < s->actives; k++)
        if (s->active[k] == g) {
            s->active[k] = s->active[--s->actives];
            break;
        }
    g->active = false;
}

bool tg_guest_park(struct tg_guest *g)
{
    tg_store_seqcst_u32(&g->share->parked, 1); /* V1 seq_cst: before the look (V2); pairs with V3 */
    if (tg_guest_has_item(g)) {
        tg_store_seqcst_u32(&g->share->parked, 0);
        return false;
    }
    remove_active(g);
    return true;
}

/* ---- Going --------------------------------------------------------------------------------------------- */

void tg_guest_drop(struct tg_guest *g, int error)
{
    struct tg_server *s = g->server;
    if (g->leaving)
        return;
    g->leaving = true;
    tg_serve_set(&s->stats.leaving, s->stats.leaving + 1);
    tg_serve_set(&s->stats.clients, s->stats.clients - 1);
    remove_active(g);
    tg_add_seqcst_u32(&s->engine->serve_closing, 1); /* Y14 seq_cst: before the cancels; pairs with Y13 */
    tg_guest_cancel_items(g);
    if (error == EPROTO)
        tg_serve_count(&s->stats.dropped);
    tg_serve_count(&s->stats.gone);
    tg_store_seqcst_u32(&g->share->closed, (uint32_t)error); /* V7 seq_cst: before V6; pairs with V5 */
    tg_guest_wake(g);
    /* The client holds the same doorbell, so that closing ours would leave it in the set. */
    epoll_ctl(s->epoll, EPOLL_CTL_DEL, g->bell, NULL);
    epoll_ctl(s->epoll, EPOLL_CTL_DEL, g->socket, NULL);
    close(g->bell);
    close(g->socket);
    g->bell = g->socket = -1;
}

void tg_guests_reap(struct tg_server *s)
{
    for (uint32_t i = 0; s->stats.leaving != 0 && i < s->places; i++) {
        struct tg_guest *g = s->guest[i];
        if (!g || !g->leaving)
            continue;
        /* One that ran when its guest left may have been handed back since. */
        tg_guest_cancel_items(g);
        if (!tg_guest_landed(g))
            continue;
        for (uint32_t k = 0; g->waits && k < s->waitings; k++)
            if (s->waiting[k] == g) {
                s->waiting[k] = s->waiting[--s->waitings];
                break;
            }
        s->guest[i] = NULL;
        s->guests--;
        tg_serve_set(&s->stats.leaving, s->stats.leaving - 1);
        tg_sub_seqcst_u32(&s->engine->serve_closing, 1); /* Y14 */
        guest_free(g);
    }
    while (s->top != 0 && !s->guest[s->top - 1])
        s->top--;
}
