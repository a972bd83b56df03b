/* SPDX-License-Identifier: Apache-2.0
 *
 * The server's life and its one thread: it looks at the rings of guests that are busy, parks those that are
 * not, and sleeps in epoll when all are parked (E10: an idle server costs nothing). Connections are
 * serve_guest.c, items serve_item.c.
 *
 * Sleeping
 *   Reasons to wake are file descriptors: the listener, the guests' sockets and doorbells, and one eventfd of
 *   the engine's own for whoever ends an item, frees a slot or completes a batch while the server waits for
 * just that. The last is armed (Y3: WANTS of a tenant at its bound, STARVED when the engine was full) only
 * before a sleep, then the pending items are tried once more, all seq_cst; so an end is either seen by the
 * try or wakes. A server that is awake costs those who end items one load.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/futex.h"
#include "engine/serve.h"
#include "engine/serve_events.h"

#define EVENTS 64
#define LOOKS 64u /* passes between two looks at the clock and the descriptors */
#define YIELD_EVERY 16u
#define MAX_RULES 1024u
#define RINGS_SPARE 64u

void tg_serve_wake(struct tg_engine *e)
{
    const uint64_t one = 1;
    (void)!write(e->serve_wake, &one,
                 sizeof(one)); /* ours alone and non-blocking; full means already awake */
}

/* ---- The thread ---------------------------------------------------------------------------------------- */

/* A client rings at most once for an item; one that does it much more often only burns our time. */
static void bell_rang(struct tg_guest *g)
{
    tg_serve_count(&g->server->stats.rings);
    if (++g->rings > g->taken + g->next_cancel + g->mask + RINGS_SPARE)
        tg_guest_drop(g, EPROTO);
    else
        tg_guest_activate(g);
}

static void handle(struct tg_server *s, uint64_t event)
{
    uint32_t kind = event & 3u;
    struct tg_guest *g = kind >= TG_EVENT_SOCKET ? s->guest[event >> 2] : NULL;
    uint64_t count;
    if (kind == TG_EVENT_LISTENER)
        tg_guest_accept(s);
    else if (kind == TG_EVENT_WAKE)
        (void)!read(s->engine->serve_wake, &count, sizeof(count));
    else if (g && !g->leaving && kind == TG_EVENT_SOCKET)
        tg_guest_drop(g, ESHUTDOWN);
    else if (g && !g->leaving)
        bell_rang(g);
}

/* Freed places are not used again before all events that may name them are handled. */
static bool events(struct tg_server *s, int timeout_ms)
{
    struct epoll_event event[EVENTS];
    if (timeout_ms != 0)
        pthread_mutex_unlock(&s->engine->serve_lock); /* workers may look while we sleep */
    int n = epoll_wait(s->epoll, event, EVENTS, timeout_ms);
    if (timeout_ms != 0)
        pthread_mutex_lock(&s->engine->serve_lock);
    for (int i = 0; i < n; i++)
        handle(s, event[i].data.u64);
    if (s->stats.leaving)
        tg_guests_reap(s);
    return n > 0;
}

/* Parks the guests that published nothing for the spin time. False: one has work after all. */
static bool park_idle(struct tg_server *s)
{
    bool none = true;
    for (uint32_t k = s->actives; k-- > 0;) {
        struct tg_guest *g = s->active[k];
        if (g->last_ns == 0)
            g->last_ns = s->now_ns;
        if (s->now_ns - g->last_ns >= s->spin_ns && !tg_guest_park(g))
            none = false;
    }
    return none;
}

static void disarm(struct tg_server *s, uint32_t wanted, bool full)
{
    for (uint32_t m = wanted; m; m &= m - 1)
        tg_store_relaxed_u32(&s->engine->serve_wants[tg_levels_first(m)],
                             0); /* a wake too many is harmless */
    if (!full)
        return;
    tg_store_seqcst_u32(&s->engine->serve_starved, 0);
    tg_attention_leave(s->engine);
}

/* Everybody is parked: sleeps until a descriptor says something. */
static void sleep_long(struct tg_server *s)
{
    uint32_t wanted = s->wanted;
    bool full = s->full != 0;
    /* Y3 seq_cst: before the try; pairs with Y2 and Y4. */
    for (uint32_t m = wanted; m; m &= m - 1)
        tg_store_seqcst_u32(&s->engine->serve_wants[tg_levels_first(m)], 1);
    if (full) {
        tg_attention_enter(s->engine); /* so that a freed slot is told at once */
        tg_store_seqcst_u32(&s->engine->serve_starved, 1);
    }
    tg_store_seqcst_u32(&s->engine->serve_dozing, 1); /* Y17 seq_cst: before the look; pairs with Y18 */
    bool moved = tg_load_seqcst_u32(&s->engine->serve_ready) != 0;
    moved |= s->waitings != 0 && tg_serve_submit(s);
    /* What the try met anew was not armed for: try again instead. */
    if (!moved && (s->wanted & ~wanted) == 0 && (full || !s->full)) {
        tg_serve_count(&s->stats.sleeps);
        events(s, -1);
    }
    tg_store_relaxed_u32(&s->engine->serve_dozing, 0); /* a wake too many is harmless */
    disarm(s, wanted, full);
}

static void tick(struct tg_server *s, bool idle)
{
    s->now_ns = tg_clock_mono_ns();
    bool quiet = park_idle(s);
    if (idle && quiet && s->actives == 0) {
        sleep_long(s);
        return;
    }
    events(s, 0);
    if (idle)
        sched_yield(); /* see look_around */
}

/* Until all guests have left. */
static void leave(struct tg_server *s)
{
    for (uint32_t i = 0; i < s->places; i++)
        if (s->guest[i])
            tg_guest_drop(s->guest[i], ESHUTDOWN);
    tg_guests_reap(s);
    while (s->guests != 0)
        events(s, -1); /* whoever ends an item of a guest that leaves wakes us (Y5) */
}

/* One pass, unless a worker is at it. True when anything moved. */
static bool pass(struct tg_server *s, uint32_t *looks)
{
    pthread_mutex_t *lock = &s->engine->serve_lock;
    if (pthread_mutex_trylock(lock) != 0)
        return false;
    bool moved = tg_serve_pass(s);
    if (moved && ++*looks % LOOKS == 0)
        tick(s, false);
    pthread_mutex_unlock(lock);
    return moved;
}

/* The lock is free between two looks: where a worker looks for work too, it may be the quicker one, and then
 * this thread finds nothing, parks its guests and sleeps. */
static void look_around(struct tg_server *s)
{
    uint32_t looks = 0;
    while (!tg_load_acquire_u32(&s->stop)) { /* Y10 acquire: pairs with Y11 */
        if (pass(s, &looks))
            continue;
        if (s->spin_ns == 0 || ++looks % LOOKS == 0) {
            pthread_mutex_lock(&s->engine->serve_lock);
            tick(s, true);
            pthread_mutex_unlock(&s->engine->serve_lock);
        } else if (looks % YIELD_EVERY == 0) {
            sched_yield(); /* whoever would publish next may be waiting for this very core */
        }
        tg_cpu_relax();
    }
}

static void *server_main(void *server)
{
    struct tg_server *s = server;
    struct tg_engine *e = s->engine;
    pthread_mutex_lock(&e->serve_lock);
    e->helped = s;
    pthread_mutex_unlock(&e->serve_lock);
    tg_store_relaxed_u32(&e->has_server, 1); /* Y15 */
    look_around(s);
    tg_store_relaxed_u32(&e->has_server, 0); /* Y15 */
    pthread_mutex_lock(&e->serve_lock);
    e->helped = NULL;
    epoll_ctl(s->epoll, EPOLL_CTL_DEL, s->listener, NULL);
    leave(s);
    pthread_mutex_unlock(&e->serve_lock);
    tg_store_seqcst_u32(&s->finished, 1); /* Y12 */
    tg_futex_wake_all(&s->finished);
    return NULL;
}

/* ---- Starting ------------------------------------------------------------------------------------------ */

void tg_serve_options_init(struct tg_serve_options *o)
{
    memset(o, 0, sizeof(*o));
    o->size = sizeof(*o);
    o->mode = 0600;
    o->max_clients = 64;
    o->slots = 256;
    o->spin_us = 20;
    o->cpu = -1;
}

static int check_rules(const struct tg_serve_options *o)
{
    if (o->rule_count > MAX_RULES || (o->rule_count != 0 && !o->rules))
        return -EINVAL;
    for (uint32_t i = 0; i < o->rule_count; i++) {
        const struct tg_serve_rule *r = &o->rules[i];
        if (!tg_tenant_in_table(r->tenant) || r->set_quota > 1)
            return -EINVAL;
        for (uint32_t k = 0; k < i; k++)
            if (o->rules[k].tenant == r->tenant && o->rules[k].set_quota && r->set_quota &&
                o->rules[k].quota != r->quota)
                return -EINVAL;
    }
    return 0;
}

static int take_options(const struct tg_serve_options *given, struct tg_serve_options *o)
{
    tg_serve_options_init(o);
    if (given) {
        if (given->size < sizeof(uint32_t) * 2 || given->size > sizeof(*o))
            return -EINVAL;
        memcpy(o, given, given->size);
        o->size = sizeof(*o);
    }
    bool ok = o->mode <= 0777 && o->max_clients >= 1 && o->max_clients <= TG_SERVE_MAX_CLIENTS &&
              o->slots >= 1 && o->slots <= TG_SERVE_MAX_SLOTS && (o->slots & (o->slots - 1)) == 0 &&
              o->cpu >= -1 && o->cpu < CPU_SETSIZE;
    return ok ? check_rules(o) : -EINVAL;
}

/* Nobody answers behind a socket file: it was left behind by one that died. */
static int remove_stale(const struct sockaddr_un *address)
{
    struct stat st;
    if (lstat(address->sun_path, &st) != 0)
        return errno == ENOENT ? 0 : -errno;
    if (!S_ISSOCK(st.st_mode))
        return -EADDRINUSE;
    int probe = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (probe < 0)
        return -errno;
    int r = connect(probe, (const struct sockaddr *)address, sizeof(*address)) == 0 ? 0 : errno;
    close(probe);
    if (r != ECONNREFUSED)
        return -EADDRINUSE;
    return unlink(address->sun_path) == 0 || errno == ENOENT ? 0 : -errno;
}

static int open_listener(struct tg_server *s)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat st;
    size_t length = strlen(s->path);
    if (length == 0)
        return -EINVAL;
    if (length >= sizeof(address.sun_path))
        return -ENAMETOOLONG;
    memcpy(address.sun_path, s->path, length);
    int r = remove_stale(&address);
    if (r)
        return r;
    s->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s->listener < 0)
        return -errno;
    /* The file is made with the socket's mode: at no moment may more connect than should. */
    if (fchmod(s->listener, 0600) != 0 ||
        bind(s->listener, (const struct sockaddr *)&address, sizeof(address)) != 0)
        return -errno;
    if (lstat(s->path, &st) != 0)
        return -errno;
    s->path_dev = st.st_dev;
    s->path_ino = st.st_ino;
    if (chmod(s->path, s->options.mode) != 0 || listen(s->listener, 128) != 0)
        return -errno;
    return 0;
}

static int open_epoll(struct tg_server *s)
{
    s->epoll = epoll_create1(EPOLL_CLOEXEC);
    s->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    struct epoll_event listener = {.events = EPOLLIN, .data.u64 = tg_event(TG_EVENT_LISTENER, 0)};
    struct epoll_event wake = {.events = EPOLLIN, .data.u64 = tg_event(TG_EVENT_WAKE, 0)};
    if (s->epoll < 0 || s->spare < 0 || epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->listener, &listener) != 0 ||
        epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->engine->serve_wake, &wake) != 0)
        return -errno;
    return 0;
}

/* What stays with the engine: its items may end after a server is gone. */
static int prepare_engine(struct tg_engine *e)
{
    if (e->flags & TG_ENGINE_UNRESTRICTED)
        return -EPERM;
    if (e->server)
        return -EBUSY;
    if (!e->served)
        e->served = calloc(e->slots, sizeof(struct tg_served *));
    if (e->serve_wake < 0)
        e->serve_wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (!e->served)
        return -ENOMEM;
    return e->serve_wake < 0 ? -errno : 0;
}

static int copy_rules(struct tg_server *s)
{
    const struct tg_serve_rule own = {.uid = geteuid(), .tenant = 0};
    const struct tg_serve_rule *from = s->options.rule_count ? s->options.rules : &own;
    if (!s->options.rule_count)
        s->options.rule_count = 1;
    s->rules = malloc(s->options.rule_count * sizeof(*s->rules));
    if (!s->rules)
        return -ENOMEM;
    memcpy(s->rules, from, s->options.rule_count * sizeof(*s->rules));
    s->options.rules = s->rules;
    return 0;
}

static void server_free(struct tg_server *s)
{
    struct stat st;
    /* Only the file that we made. */
    if (s->path_ino != 0 && lstat(s->path, &st) == 0 && st.st_dev == s->path_dev && st.st_ino == s->path_ino)
        unlink(s->path);
    if (s->listener >= 0)
        close(s->listener);
    if (s->epoll >= 0)
        close(s->epoll);
    if (s->spare >= 0)
        close(s->spare);
    free(s->guest);
    free(s->active);
    free(s->waiting);
    free(s->rules);
    free(s->path);
    free(s);
}

static int build(struct tg_server *s, const char *path)
{
    s->listener = s->epoll = s->spare = -1;
    s->spin_ns = s->options.spin_us * UINT64_C(1000);
    s->places = s->options.max_clients;
    s->path = strdup(path);
    s->guest = calloc(s->places, sizeof(struct tg_guest *));
    s->active = calloc(s->places, sizeof(struct tg_guest *));
    s->waiting = calloc(s->places, sizeof(struct tg_guest *));
    if (!s->path || !s->guest || !s->active || !s->waiting)
        return -ENOMEM;
    int r = copy_rules(s);
    if (!r)
        r = open_listener(s);
    return r ? r : open_epoll(s);
}

static int start(struct tg_server *s)
{
    for (uint32_t i = 0; i < s->options.rule_count; i++)
        if (s->rules[i].set_quota)
            tg_engine_set_quota(s->engine, s->rules[i].tenant, s->rules[i].quota);
    pthread_attr_t attr;
    int r = pthread_attr_init(&attr);
    if (r)
        return -r;
    if (s->options.cpu >= 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET((unsigned)s->options.cpu, &set);
        r = pthread_attr_setaffinity_np(&attr, sizeof(set), &set);
    }
    if (!r)
        r = pthread_create(&s->thread, &attr, server_main, s);
    pthread_attr_destroy(&attr);
    s->started = r == 0;
    return -r;
}

int tg_engine_serve(struct tg_engine *e, const char *path, const struct tg_serve_options *options,
                    struct tg_server **ret_server)
{
    if (e->device)
        return -ENOTSUP;
    struct tg_server *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    s->engine = e;
    pthread_mutex_lock(&e->drain_lock);
    int r = take_options(options, &s->options);
    if (!r)
        r = prepare_engine(e);
    if (r) {
        free(s);
    } else {
        r = build(s, path);
        if (!r)
            r = start(s);
        if (r)
            server_free(s);
        else
            e->server = s;
    }
    pthread_mutex_unlock(&e->drain_lock);
    if (r == 0)
        *ret_server = s;
    return r;
}

/* ---- Looking, ending ----------------------------------------------------------------------------------- */

void tg_server_stats(struct tg_server *s, struct tg_serve_stats *ret)
{
    const struct tg_serve_stats *from = &s->stats;
    *ret = (struct tg_serve_stats){
        /* C4 relaxed: statistics. */
        .accepted = tg_load_relaxed_u64(&from->accepted), .refused = tg_load_relaxed_u64(&from->refused),
        .dropped = tg_load_relaxed_u64(&from->dropped),   .gone = tg_load_relaxed_u64(&from->gone),
        .taken = tg_load_relaxed_u64(&from->taken),       .invalid = tg_load_relaxed_u64(&from->invalid),
        .lost = tg_load_relaxed_u64(&from->lost),         .rings = tg_load_relaxed_u64(&from->rings),
        .sleeps = tg_load_relaxed_u64(&from->sleeps),     .clients = tg_load_relaxed_u32(&from->clients),
        .leaving = tg_load_relaxed_u32(&from->leaving),   .cancelled = tg_load_relaxed_u64(&from->cancelled),
    };
}

int tg_server_stop(struct tg_server *s, uint64_t timeout_ns)
{
    if (!s)
        return 0;
    struct tg_engine *e = s->engine;
    uint64_t start_ns = tg_clock_mono_ns();
    tg_store_release_u32(&s->stop, 1); /* Y11 release: pairs with Y10 */
    tg_serve_wake(e);
    while (!tg_load_seqcst_u32(&s->finished)) { /* Y12 seq_cst: pairs with itself */
        uint64_t spent = tg_clock_mono_ns() - start_ns;
        if (spent >= timeout_ns)
            return -ETIMEDOUT;
        tg_futex_wait(&s->finished, 0, timeout_ns - spent);
    }
    pthread_join(s->thread, NULL);
    pthread_mutex_lock(&e->drain_lock);
    e->server = NULL;
    pthread_mutex_unlock(&e->drain_lock);
    server_free(s);
    return 0;
}
