/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening an engine: options and the caller's buffers are input and checked here, memory is laid out, the
 * free queues filled, the workers started; and the freeing of all that. It takes part in no item's way.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <tidegate/compile.h>
#include <tidegate/partition.h>

#include "engine/device_process.h"
#include "engine/internal.h"
#include "engine/open.h"

#define MAX_SLOTS TG_MAX_ENCODED_RING_SLOTS
#define BLOCK_SHIFT 4u /* slots of one shard in a row: 16, so that no line beside the ring is shared */
#define APART 16u      /* words between the cells of two queues: a line */
#define ANY_RESIZE_SLOTS 65536u /* up to this, each queue has room for the whole ring */

static _Thread_local const char *open_reason = "";

int tg_open_because(int error, const char *why)
{
    open_reason = why;
    return error;
}

const char *tg_engine_open_reason(void)
{
    return open_reason;
}

void tg_engine_options_init(struct tg_engine_options *o)
{
    memset(o, 0, sizeof(*o));
    o->size = sizeof(*o);
    o->slots = 4096;
    o->tenants = TG_TENANTS;
    o->quota = TG_TENANT_QUOTA_UNLIMITED;
    o->observables = 256;
    o->log_records = TG_DEBUG_RECORD_CAPACITY;
    o->spin_us = 20;
    o->latency_every = 64;
    o->poll_us = 1000;
    o->device_items = 1024;
}

static uint32_t usable_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        return 1;
    int n = CPU_COUNT(&set);
    return n < 1 ? 1 : n > (int)TG_MAX_WORKERS ? TG_MAX_WORKERS : (uint32_t)n;
}

/* A known prefix of the caller's options over the defaults. */
static int take_options(const struct tg_engine_options *given, struct tg_engine_options *o)
{
    tg_engine_options_init(o);
    if (given) {
        if (given->size < offsetof(struct tg_engine_options, ring) || given->size > sizeof(*o))
            return -EINVAL;
        memcpy(o, given, given->size);
        o->size = sizeof(*o);
    }
    if (o->ring) {
        if ((uintptr_t)o->ring % TG_SLOT_BYTES || o->ring_bytes % TG_SLOT_BYTES ||
            o->ring_bytes / TG_SLOT_BYTES > MAX_SLOTS)
            return -EINVAL;
        o->slots = (uint32_t)(o->ring_bytes / TG_SLOT_BYTES);
    }
    if (o->workers == 0)
        o->workers = usable_cores();
    bool ok = o->slots >= TG_PRIORITY_LEVELS && o->slots <= MAX_SLOTS && o->workers <= TG_MAX_WORKERS &&
              o->tenants <= TG_TENANTS && o->observables >= 1 &&
              o->observables <= TG_MAX_ENCODED_OBSERVABLE_SLOTS &&
              o->log_records <= TG_MAX_ENCODED_DEBUG_RECORDS &&
              !(o->flags & ~(uint32_t)(TG_ENGINE_UNRESTRICTED | TG_ENGINE_SCAN)) &&
              (o->cpus == NULL) == (o->cpu_count == 0) && o->poll_us >= 1 &&
              (o->device_body_limit_ms == 0 || o->device_body_limit_ms >= 4);
    if (o->device_items > 1u << TG_BORN_SHIFT_MOST)
        return tg_open_because(-EINVAL, "device_items is more than 1,048,576");
    return ok ? 0 : -EINVAL;
}

int tg_open_given_control(const struct tg_engine_options *o)
{
    const uint32_t *control = o->control;
    if (!control)
        return 0;
    if ((uintptr_t)control % TG_WORD_BYTES || o->control_bytes % TG_WORD_BYTES ||
        o->control_bytes <= TG_CONTROL_MIN_BYTES || o->control_bytes / TG_WORD_BYTES > UINT32_MAX ||
        control[TG_CONTROL_TENANT_BASE] != TG_CONTROL_TENANT_MASKS)
        return -EINVAL;
    return control[TG_CONTROL_SHUTDOWN] != 0 ? -ESHUTDOWN : 0;
}

static int take_control(struct tg_engine *e, const struct tg_engine_options *o)
{
    if (o->control) {
        e->control = o->control;
        e->control_words = (uint32_t)(o->control_bytes / TG_WORD_BYTES);
        return tg_open_given_control(o);
    }
    size_t bytes;
    e->control_words = TG_CONTROL_MIN_WORDS + o->observables;
    e->own_control = calloc(e->control_words, TG_WORD_BYTES);
    if (!e->own_control)
        return -ENOMEM;
    e->control = e->own_control;
    int r = tg_encode_control(false, o->tenants, o->observables, e->control,
                              (size_t)e->control_words * TG_WORD_BYTES, &bytes);
    for (uint32_t t = 0; t < o->tenants; t++)
        e->control[TG_CONTROL_TENANT_QUOTA_BASE + t] = o->quota;
    return r ? -EINVAL : 0;
}

int tg_open_given_log(const struct tg_engine_options *o)
{
    bool bad = o->log && ((uintptr_t)o->log % TG_WORD_BYTES || o->log_bytes % TG_WORD_BYTES ||
                          o->log_bytes < TG_WORD_BYTES || o->log_bytes / TG_WORD_BYTES > UINT32_MAX);
    return bad ? -EINVAL : 0;
}

static int take_log(struct tg_engine *e, const struct tg_engine_options *o)
{
    if (o->log) {
        e->log = o->log;
        e->log_words = (uint32_t)(o->log_bytes / TG_WORD_BYTES);
        return tg_open_given_log(o);
    }
    e->log_words = TG_DEBUG_RECORDS_BASE + o->log_records * TG_DEBUG_RECORD_WORDS;
    e->log = e->own_log = calloc(e->log_words, TG_WORD_BYTES);
    return e->log ? 0 : -ENOMEM;
}

static bool all_zero(const uint32_t *words, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (words[i] != 0)
            return false;
    return true;
}

/* One worker is slower than any word that submitters share, and needs no more than one shard. Each shard is
 * some worker's home. */
static uint32_t shards_for(const struct tg_engine_options *o)
{
    uint32_t shards = 1;
    while (shards < TG_SHARDS && shards * 2 <= o->workers &&
           o->slots >= (shards * TG_PRIORITY_LEVELS) << (BLOCK_SHIFT + 2))
        shards *= 2;
    return shards;
}

int tg_open_partitions(struct tg_engine *e, const struct tg_engine_options *o)
{
    uint32_t *words = &e->control[TG_CONTROL_PRIORITY_OFFSETS_BASE];
    uint32_t offsets[TG_CONTROL_PRIORITY_OFFSETS_SLOTS];
    if (!all_zero(o->offsets, TG_CONTROL_PRIORITY_OFFSETS_SLOTS))
        memcpy(offsets, o->offsets, sizeof(offsets));
    else if (!all_zero(words, TG_CONTROL_PRIORITY_OFFSETS_SLOTS))
        memcpy(offsets, words, sizeof(offsets));
    else
        tg_partition_default_offsets(e->slots, offsets);
    if (offsets[0] != 0 || offsets[TG_PRIORITY_LEVELS] != e->slots)
        return -EINVAL;
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++) {
        if (offsets[l] > offsets[l + 1] || offsets[l + 1] > e->slots)
            return -EINVAL;
        uint32_t size = offsets[l + 1] - offsets[l];
        uint32_t foreign = o->foreign_slots[l] == TG_ENGINE_ALL_SLOTS ? size : o->foreign_slots[l];
        if (foreign > size)
            return -EINVAL;
        e->foreign_slots[l] = foreign;
        e->has_foreign |= foreign != 0;
        e->level[l].first = offsets[l];
        e->level[l].own = size - foreign;
        e->freed_batch[l] = tg_freed_batch(e->level[l].own, o->workers, shards_for(o));
    }
    if (!o->ring)
        return memcpy(words, offsets, sizeof(offsets)), 0;
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
        for (uint32_t s = 0; s < e->level[l].own; s++)
            if (!tg_slot_is_publishable(&e->ring[e->level[l].first + s]))
                return -EBUSY;
    return memcpy(words, offsets, sizeof(offsets)), 0;
}

static int take_ring(struct tg_engine *e, const struct tg_engine_options *o)
{
    e->slots = o->slots;
    e->ring = o->ring;
    if (o->ring)
        return 0;
    e->own_ring_bytes = (size_t)o->slots * TG_SLOT_BYTES;
    void *memory = mmap(NULL, e->own_ring_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return -ENOMEM;
    if (e->own_ring_bytes >= 4u << 20)
        madvise(memory, e->own_ring_bytes, MADV_HUGEPAGE); /* a hint: fewer TLB misses in large rings */
    e->ring = e->own_ring = memory;
    return 0;
}

static uint32_t shift_for(uint32_t cells)
{
    uint32_t shift = 1;
    while ((UINT64_C(1) << shift) < cells)
        shift++;
    return shift;
}

uint32_t tg_open_queue_cells(const struct tg_engine *e)
{
    uint32_t need = e->slots;
    if (e->slots > ANY_RESIZE_SLOTS && !e->has_foreign) {
        need = 0;
        for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
            need = e->level[l].own > need ? e->level[l].own : need;
        need = need * 2 < e->slots ? need * 2 : e->slots;
    }
    return 1u << shift_for(need);
}

/* One block of cells for all queues: zero pages that cost memory only where a tenant was active. */
int tg_open_queues(struct tg_engine *e, uint32_t shards)
{
    e->shards = shards;
    e->queue_cells = tg_open_queue_cells(e);
    uint32_t shift = shift_for(e->queue_cells);
    const size_t queues = TG_PRIORITY_LEVELS * TG_TENANTS * e->shards;
    /* A line more than the cells: many queues of like length fill alike, and at a distance of a power of two
     * their present cells would all want the same few places of the cache. */
    const size_t stride = e->queue_cells + APART;
    e->queue_bytes = queues * stride * sizeof(uint32_t);
    e->queue_memory = mmap(NULL, e->queue_bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (e->queue_memory == MAP_FAILED) {
        e->queue_memory = NULL;
        return -ENOMEM;
    }
    uint32_t *cells = e->queue_memory;
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++) {
        e->level[l].queue = aligned_alloc(64, e->shards * TG_TENANTS * sizeof(struct tg_index));
        if (!e->level[l].queue)
            return -ENOMEM;
        for (uint32_t t = 0; t < e->shards * TG_TENANTS; t++, cells += stride)
            tg_index_init(&e->level[l].queue[t], cells, shift, 0);
    }
    return 0;
}

void tg_open_queues_free(struct tg_engine *e)
{
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
        free(e->level[l].queue);
    if (e->queue_memory)
        munmap(e->queue_memory, e->queue_bytes);
}

int tg_open_sides(struct tg_engine *e)
{
    e->side = calloc(e->slots, sizeof(*e->side));
    e->attention_of = calloc(e->slots, sizeof(*e->attention_of));
    e->fence_of = calloc(e->slots, sizeof(*e->fence_of));
    e->bad = calloc(e->slots, sizeof(*e->bad));
    e->stamp = calloc(e->slots, sizeof(*e->stamp));
    e->home = calloc(e->slots, 1);
    e->indexed = calloc(e->slots, sizeof(*e->indexed));
    if (!e->side || !e->attention_of || !e->fence_of || !e->bad || !e->stamp || !e->home || !e->indexed)
        return -ENOMEM;
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++) {
        struct tg_level *lv = &e->level[l];
        for (uint32_t s = 0; s < lv->own + e->foreign_slots[l]; s++)
            e->home[lv->first + s] = (uint8_t)l;
        if (e->foreign_slots[l])
            e->control[TG_EXT_FOREIGN_FIRST + l] = lv->first + lv->own + 1;
    }
    return tg_io_open(e);
}

int tg_open_workers(struct tg_engine *e)
{
    for (uint32_t i = 0; i < e->worker_count; i++) {
        struct tg_worker *w = &e->workers[i];
        w->engine = e;
        w->id = i;
        w->quantum = tg_tenants_quantum(e->worker_count);
        w->home = e->shards == 0 ? 0 : i & (e->shards - 1);
        /* Zero pages: only histograms that are used cost memory. */
        w->hists = mmap(NULL, TG_HISTS * sizeof(struct tg_hist), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (w->hists == MAP_FAILED) {
            w->hists = NULL;
            return -ENOMEM;
        }
    }
    return 0;
}

void tg_open_workers_free(struct tg_engine *e)
{
    for (uint32_t i = 0; e->workers && i < e->worker_count; i++)
        if (e->workers[i].hists)
            munmap(e->workers[i].hists, TG_HISTS * sizeof(struct tg_hist));
}

static int lay_workers(struct tg_engine *e)
{
    e->workers = aligned_alloc(64, e->worker_count * sizeof(*e->workers));
    if (!e->workers)
        return -ENOMEM;
    memset(e->workers, 0, e->worker_count * sizeof(*e->workers));
    return tg_open_workers(e);
}

static void set_sampling(struct tg_engine *e, uint32_t every)
{
    e->sampling = every != 0;
    e->sample_mask = 0;
    while (e->sampling && e->sample_mask + 1 < every && e->sample_mask < UINT32_MAX / 2)
        e->sample_mask = e->sample_mask * 2 + 1;
}

/* cpus NULL: anywhere. */
static int start_worker(struct tg_worker *w, const struct tg_engine_options *o)
{
    pthread_attr_t attr;
    int r = pthread_attr_init(&attr);
    if (r)
        return -r;
    if (o->cpus) {
        uint32_t cpu = o->cpus[w->id % o->cpu_count];
        cpu_set_t set;
        CPU_ZERO(&set);
        if (cpu < CPU_SETSIZE)
            CPU_SET(cpu, &set);
        r = pthread_attr_setaffinity_np(&attr, sizeof(set), &set);
    }
    if (!r)
        r = pthread_create(&w->thread, &attr, tg_worker_main, w);
    pthread_attr_destroy(&attr);
    w->started = r == 0;
    return -r;
}

void tg_workers_join(struct tg_engine *e)
{
    for (uint32_t i = 0; i < e->worker_count; i++) {
        if (e->workers[i].started)
            pthread_join(e->workers[i].thread, NULL);
        e->workers[i].started = false;
    }
}

void tg_engine_free(struct tg_engine *e)
{
    tg_engine_drop_kernel(e);
    tg_device_free(e);
    tg_open_workers_free(e);
    free(e->workers);
    tg_open_queues_free(e);
    tg_free_drop(e);
    if (e->own_ring)
        munmap(e->own_ring, e->own_ring_bytes);
    free(e->own_control);
    free(e->own_log);
    free(e->side);
    free(e->attention_of);
    free(e->fence_of);
    free(e->bad);
    free(e->stamp);
    free(e->home);
    free(e->indexed);
    free(e->served);
    if (e->serve_wake >= 0)
        close(e->serve_wake);
    tg_io_close(e);
    tg_handlers_close(e);
    pthread_mutex_destroy(&e->log_lock);
    pthread_mutex_destroy(&e->resize_lock);
    pthread_mutex_destroy(&e->home_lock);
    pthread_mutex_destroy(&e->drain_lock);
    pthread_mutex_destroy(&e->serve_lock);
    pthread_mutex_destroy(&e->io.lock);
    pthread_mutex_destroy(&e->handlers.lock);
    free(e);
}

static void build_base(struct tg_engine *e, const struct tg_engine_options *o)
{
    e->flags = o->flags;
    e->worker_count = o->workers;
    e->spin_us = o->spin_us;
    e->poll_us = o->poll_us;
    e->control_floor = o->flags & TG_ENGINE_UNRESTRICTED ? 0 : TG_CONTROL_OBSERVABLE_BASE;
    e->accepting = 1;
    e->serve_wake = -1;
    set_sampling(e, o->latency_every);
}

static int build(struct tg_engine *e, const struct tg_engine_options *o)
{
    int r = take_ring(e, o);
    if (!r)
        r = take_control(e, o);
    if (!r)
        r = take_log(e, o);
    if (!r)
        r = tg_open_partitions(e, o);
    if (!r)
        r = tg_open_queues(e, shards_for(o));
    if (!r)
        r = tg_free_lay(e, BLOCK_SHIFT);
    if (!r)
        r = tg_open_sides(e);
    return r ? r : lay_workers(e);
}

static int start(struct tg_engine *e, const struct tg_engine_options *o)
{
    /* A host that owns the control buffer may write SHUTDOWN, masks and quotas itself. */
    int r = e->has_foreign || o->control ? tg_poller_start(e) : 0;
    for (uint32_t i = 0; !r && i < e->worker_count; i++)
        r = start_worker(&e->workers[i], o);
    if (!r)
        return 0;
    /* Not all came up: end those that did. */
    tg_poller_stop(e);
    uint32_t was = e->control[TG_CONTROL_SHUTDOWN];
    tg_store_seqcst_u32(&e->control[TG_CONTROL_SHUTDOWN], 1); /* K10 */
    tg_wake_all(e);
    tg_workers_join(e);
    tg_store_seqcst_u32(&e->control[TG_CONTROL_SHUTDOWN], was);
    return r;
}

/* The links to devices there are; the emulator is linked into tests only. */
extern const struct tg_link tg_link_emulated __attribute__((weak));

int tg_open_find_link(const char *backend, const struct tg_link **ret_link)
{
    *ret_link = NULL;
    if (!backend || strcmp(backend, "cpu") == 0)
        return 0;
    if (strncmp(backend, "cuda", 4) == 0 && (backend[4] == '\0' || backend[4] == ':'))
        *ret_link = &tg_link_cuda;
    else if (strcmp(backend, "emulated") == 0 && &tg_link_emulated)
        *ret_link = &tg_link_emulated;
    return *ret_link ? 0 : tg_open_because(-ENOTSUP, "no such backend");
}

static int find_link(const struct tg_engine_options *o, const struct tg_link **ret_link)
{
    int r = tg_open_find_link(o->backend, ret_link);
    if (r || !o->device_process)
        return r;
    if (!*ret_link)
        return tg_open_because(-EINVAL, "device_process is for a device, and the backend is none");
    *ret_link = &tg_link_process;
    return 0;
}

/* Before anything is submitted; the workers are up. */
static int use_kernel(struct tg_engine *e, const struct tg_engine_options *o)
{
    int r = tg_engine_use_kernel(e, o->kernel, o->kernel_memory);
    if (r) {
        tg_engine_drain(e, UINT64_MAX, NULL);
        tg_open_because(r,
                        "the engine cannot use the kernel of the options: for a GPU, unrestricted, or large");
    }
    return r;
}

int tg_engine_open(const struct tg_engine_options *given, struct tg_engine **ret_engine)
{
    struct tg_engine_options o;
    const struct tg_link *link = NULL;
    open_reason = "";
    int r = take_options(given, &o);
    if (!r)
        r = find_link(&o, &link);
    if (r)
        return r;
    struct tg_engine *e = aligned_alloc(64, sizeof(*e));
    if (!e)
        return -ENOMEM;
    memset(e, 0, sizeof(*e));
    pthread_mutex_init(&e->log_lock, NULL);
    pthread_mutex_init(&e->resize_lock, NULL);
    pthread_mutex_init(&e->home_lock, NULL);
    pthread_mutex_init(&e->drain_lock, NULL);
    pthread_mutex_init(&e->serve_lock, NULL);
    pthread_mutex_init(&e->io.lock, NULL);
    pthread_mutex_init(&e->handlers.lock, NULL);
    build_base(e, &o);
    r = link ? tg_device_open(e, &o, link) : build(e, &o);
    if (!r && !link)
        r = start(e, &o);
    if (!r && !link && o.kernel)
        r = use_kernel(e, &o);
    if (r) {
        tg_engine_free(e);
        return r;
    }
    *ret_engine = e;
    return 0;
}

void tg_engine_buffers(struct tg_engine *e, const void **ret_ring, size_t *ret_ring_bytes,
                       const void **ret_control, size_t *ret_control_bytes, const void **ret_log,
                       size_t *ret_log_bytes)
{
    if (ret_ring)
        *ret_ring = e->ring;
    if (ret_ring_bytes)
        *ret_ring_bytes = (size_t)e->slots * TG_SLOT_BYTES;
    if (ret_control)
        *ret_control = e->control;
    if (ret_control_bytes)
        *ret_control_bytes = (size_t)e->control_words * TG_WORD_BYTES;
    if (ret_log)
        *ret_log = e->log;
    if (ret_log_bytes)
        *ret_log_bytes = (size_t)e->log_words * TG_WORD_BYTES;
    if (e->device)
        tg_device_foreign_buffers(e, ret_ring, ret_control, ret_log, ret_log_bytes);
}
