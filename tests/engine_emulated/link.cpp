// SPDX-License-Identifier: Apache-2.0
// The backend "emulated": the engine's device code (dispatch_main.h) on threads of this process: one for
// the dispatcher's block, whose warps take turns by a seed, and one for each worker warp. For tests where
// there is no card; it has the opcodes of device_ops.h.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <csignal>

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "warp.h"

#include "engine/dispatch_main.h"

static thread_local const struct tg_device_params *this_params;
static thread_local struct tg_shared this_state;

static inline const struct tg_device_params *tg_params(void)
{
    return this_params;
}

static inline struct tg_shared *tg_state(void)
{
    return &this_state;
}

#include "device_ops.h"

extern "C" {
struct tg_link_face { // the fields of struct tg_link (device_host.h is C)
    int (*open)(const struct tg_engine_options *, void **, const char **);
    void *(*host_memory)(void *, size_t);
    void *(*device_memory)(void *, size_t);
    int (*upload)(void *, void *, const void *, size_t);
    void *(*adopt)(void *, void *, size_t);
    uint32_t (*workers)(void *, uint32_t);
    int (*start)(void *, struct tg_device_params *);
    int (*look)(void *);
    int (*error)(void *, char *, size_t);
    void (*close)(void *);
};
}

namespace
{

constexpr uint32_t block_warps = TG_BLOCK_WARPS, most_blocks = 2;

struct Emulated {
    std::vector<void *> memory;
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    std::vector<pthread_t> threads;
    struct tg_device_params params;
    uint32_t running = 0, next_worker = 0, worker_warps = block_warps;
    struct emulated_block *blocks[most_blocks] = {};
    uint32_t stopped = 0, faulted = 0;
};

uint64_t next_seed;

// In a process that owns its device (device_process) a wild store is a fault of the device, as on a card: all
// of the device stops, for good, and then that can be seen. In another process it ends the process.
Emulated *the_one;

void stop_here(int)
{
    tg_add_acqrel_u32(&the_one->stopped, 1);
    for (;;)
        pause();
}

void fault_here(int)
{
    for (pthread_t t : the_one->threads)
        if (!pthread_equal(t, pthread_self()))
            pthread_kill(t, SIGUSR2);
    while (tg_load_acquire_u32(&the_one->stopped) + 1 < the_one->threads.size())
        sched_yield();
    tg_store_release_u32(&the_one->faulted, 1);
    for (;;)
        pause();
}

void catch_faults(Emulated *s)
{
    if (!getenv("TIDEGATE_OWNS_A_DEVICE"))
        return;
    the_one = s;
    signal(SIGUSR2, stop_here);
    signal(SIGSEGV, fault_here);
}

void dispatcher_lane(void *argument, uint32_t warp, uint32_t lane)
{
    (void)argument;
    tg_dispatcher(warp, lane);
}

void *dispatcher_thread(void *argument)
{
    auto *s = static_cast<Emulated *>(argument);
    this_params = &s->params;
    tg_block_start(&this_state, 0, 1);
    emulated_block_run(TG_ROLES, dispatcher_lane, s, tg_add_relaxed_u64(&next_seed, 1));
    tg_sub_acqrel_u32(&s->running, 1);
    return nullptr;
}

struct WorkerLane {
    Emulated *s;
    uint32_t number;
};

void worker_lane(void *argument, uint32_t, uint32_t lane)
{
    auto *w = static_cast<WorkerLane *>(argument);
    tg_worker_warp(w->number, lane);
}

void *worker_thread(void *argument)
{
    auto *s = static_cast<Emulated *>(argument);
    WorkerLane w = {s, tg_add_relaxed_u32(&s->next_worker, 1)};
    this_params = &s->params;
    emulated_block_join(s->blocks[w.number / block_warps]);
    emulated_block_run(1, worker_lane, &w, 0);
    return nullptr;
}

int open_it(const struct tg_engine_options *, void **ret, const char **)
{
    auto *s = new Emulated;
    *ret = s;
    catch_faults(s);
    return 0;
}

void *memory(void *state, size_t bytes)
{
    auto *s = static_cast<Emulated *>(state);
    bytes = (bytes + 4095) / 4096 * 4096;
    void *p = aligned_alloc(4096, bytes);
    if (!p)
        return nullptr;
    memset(p, 0, bytes);
    pthread_mutex_lock(&s->lock);
    s->memory.push_back(p);
    pthread_mutex_unlock(&s->lock);
    return p;
}

int upload(void *, void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
    return 0;
}

void *adopt(void *, void *memory, size_t)
{
    return memory;
}

uint32_t workers(void *state, uint32_t wanted)
{
    auto *s = static_cast<Emulated *>(state);
    if (wanted > 1)
        s->worker_warps = block_warps * (wanted < most_blocks ? wanted : most_blocks);
    return s->worker_warps;
}

int start(void *state, struct tg_device_params *params)
{
    auto *s = static_cast<Emulated *>(state);
    s->params = *params;
    s->running = 1;
    for (auto &b : s->blocks)
        b = emulated_block_new();
    s->threads.resize(1 + s->worker_warps);
    for (uint32_t i = 0; i <= s->worker_warps; i++)
        if (pthread_create(&s->threads[i], nullptr, i ? worker_thread : dispatcher_thread, s) != 0)
            abort();
    return 0;
}

int look(void *state)
{
    auto *s = static_cast<Emulated *>(state);
    if (tg_load_acquire_u32(&s->faulted))
        return -EIO;
    return tg_load_acquire_u32(&s->running) != 0;
}

int error(void *, char *text, size_t bytes)
{
    snprintf(text, bytes, "EMULATED_FAULT: a wild store");
    return 700;
}

void close_it(void *state)
{
    auto *s = static_cast<Emulated *>(state);
    for (pthread_t t : s->threads)
        pthread_join(t, nullptr);
    for (void *p : s->memory)
        free(p);
    for (auto *b : s->blocks)
        if (b)
            emulated_block_free(b);
    delete s;
}

} // namespace

extern "C" {
extern const struct tg_link_face tg_link_emulated;
const struct tg_link_face tg_link_emulated = {open_it, memory, memory, upload, adopt,
                                              workers, start,  look,   error,  close_it};
}
