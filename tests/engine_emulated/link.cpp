// SPDX-License-Identifier: Apache-2.0
// The backend "emulated": the engine's device code (dispatch_main.h) on threads of this process, a warp a
// thread. For tests where there is no card; it has the opcodes of device_ops.h.
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <pthread.h>
#include <sched.h>

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
};

void dispatcher_lane(void *argument, uint32_t lane)
{
    (void)argument;
    tg_dispatcher(lane);
}

void *dispatcher_thread(void *argument)
{
    auto *s = static_cast<Emulated *>(argument);
    this_params = &s->params;
    emulated_warp_run(dispatcher_lane, s);
    tg_sub_acqrel_u32(&s->running, 1);
    return nullptr;
}

struct WorkerLane {
    Emulated *s;
    uint32_t number;
};

void worker_lane(void *argument, uint32_t lane)
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
    emulated_warp_run(worker_lane, &w);
    return nullptr;
}

int open_it(const struct tg_engine_options *, void **ret, const char **)
{
    *ret = new Emulated;
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
    return tg_load_acquire_u32(&static_cast<Emulated *>(state)->running) != 0;
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
const struct tg_link_face tg_link_emulated = {open_it, memory, memory, upload,  adopt,
                                              workers, start,  look,   nullptr, close_it};
}
