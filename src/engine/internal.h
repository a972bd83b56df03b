/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the engine share: its state, who writes which part of it, and the few hot helpers. Not a
 * public header.
 *
 * The way of an item: submit.c (slot, payload, index) -> claim.c (which level, tenant, slot) -> run.c (the
 * opcode's body) -> finish.c (DONE or FAULT, fence, waiter, slot free again). park.c puts workers to sleep,
 * wait.c owners of tickets; io.c, cancel.c, resize.c, drain.c, foreign.c are the rarer ways; counts.c is
 * what readers see.
 */
#ifndef TG_ENGINE_INTERNAL_H
#define TG_ENGINE_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidegate/engine.h>

#include "base/atomic.h"
#include "base/hist.h"
#include "engine/counts.h"
#include "engine/device.h"
#include "engine/free.h"
#include "engine/index.h"
#include "engine/ops.h"
#include "ring/slot.h"

#define TG_NO_SLOT 0xFFFFFFFFu
#define TG_MAX_WORKERS 256u
#define TG_MAX_HANDLERS 256u
#define TG_WAIT_BUCKETS 64u
/* Slots a worker keeps back before it returns them in one go: four lines of cells. A submitter that finds the
 * level full looks at the very cells they come back in, so few large returns are far cheaper than many small.
 */
#define TG_FREED_BATCH 64u
#define TG_HISTS (TG_PRIORITY_LEVELS + TG_TENANTS + TG_KINDS)

/* Extension words of the control buffer. */
enum {
    TG_EXT_FAULT_COUNT = TG_CONTROL_FAULT_COUNT,
    TG_EXT_FAULT_SLOT = TG_CONTROL_FAULT_SLOT,
    TG_EXT_FAULT_REASON = TG_CONTROL_FAULT_REASON,
    TG_EXT_LOG_DROPPED = TG_CONTROL_LOG_DROPPED,
    TG_EXT_PARTITION_SEQ = TG_CONTROL_PARTITION_SEQ,
    TG_EXT_FOREIGN_FIRST = TG_CONTROL_FOREIGN_FIRST,
};

/* What the engine knows about a slot beside the ring, where no other program can write. */
struct tg_side {
    uint64_t generation; /* how often the slot was published; written by its publisher */
    uint32_t fence;      /* the fence slot that counts this item, or TG_NO_SLOT; by its publisher */
    uint32_t route;      /* level | tenant << 8 | shard << 16 | cell flags; by its publisher */
};

/* The attention word of a slot. */
#define TG_ATT_WAITER (1u << 30)  /* somebody sleeps until this slot finishes */
#define TG_ATT_PENDING (1u << 31) /* who lets go of the last hold frees the slot */
#define TG_ATT_HOLDS ((1u << 30) - 1u)

/* The count of a fence: items that are not finished yet, and whether the fence waits for the last one. */
#define TG_FENCE_PARKED (1u << 31)
#define TG_FENCE_COUNT ((1u << 30) - 1u)

struct tg_handler {
    uint32_t opcode;
    uint32_t kind;
    tg_op_handler call;    /* NULL: an opcode of the device image */
    uint32_t device_class; /* enum tg_class of that */
    void *context;
    struct tg_handler *next_replaced; /* kept until close: a worker may still look */
};

#define TG_HANDLER_HASH (TG_MAX_HANDLERS * 4u)
struct tg_handlers {
    pthread_mutex_t lock; /* registration only */
    uint32_t count;
    struct tg_handler *replaced;
    struct tg_handler *by_kind[TG_MAX_HANDLERS];
    struct tg_handler *table[TG_HANDLER_HASH]; /* open addressing, never removed; read without the lock */
};

struct tg_level {
    struct tg_free *free; /* slots of this level that a submitter may take; one a shard */
    uint32_t first;       /* own slots of the partition: first, first + own - 1; written by resize */
    uint32_t own;
    struct tg_index *queue; /* one a tenant of each shard */
};

/* What a shard's submitters tell the workers. Written rarely, read at every claim. */
struct tg_ready {
    _Alignas(64) uint32_t level[TG_PRIORITY_LEVELS]; /* bit t: tenant t may have entries at the level */
    uint32_t cpu;                                    /* where a submitter of it ran lately, plus one */
};

/* A worker among the shards of one level and tenant: see choose_shard in claim.c. */
struct tg_visit {
    uint8_t used;             /* claims at home since it looked around */
    uint8_t left;             /* claims to make at the shard it visits */
    uint8_t shard;            /* that it visits, or looked at last */
    uint32_t seen[TG_SHARDS]; /* how far each had come then */
};

/* An item in a worker's hands. */
struct tg_claimed {
    struct tg_slot_payload payload;
    uint32_t slot;
    uint32_t level;
    uint32_t tenant;
    uint32_t flags;                 /* cell flags */
    uint32_t from;                  /* status it was claimed from */
    uint32_t kind;                  /* index of its opcode's counters */
    uint32_t result[TG_OP_RESULTS]; /* of a served item that is DONE */
};

struct tg_worker {
    _Alignas(64) struct tg_engine *engine;
    uint32_t id;
    uint32_t quantum;
    uint32_t blocked;  /* tenants this worker found not allowed to claim */
    uint32_t recheck;  /* the engine's recheck count when blocked was last cleared */
    uint32_t stale;    /* bits of READY without work, met since it was tidied */
    uint32_t unposted; /* items since the counters were last published */
    uint32_t clean;    /* 1: idle and all counters published; read by settle */
    uint32_t urgent_run, urgent_posted_run;
    bool started;
    bool searching;
    bool busy;     /* holds current: for a handler that ends its thread */
    uint32_t home; /* the shard it serves first; under home_lock, read without */
    uint32_t cpu;  /* where it ran lately, plus one; likewise */
    struct tg_tenant_turn turn[TG_PRIORITY_LEVELS];
    struct {
        uint32_t work, level, left; /* claims decided and not made */
        uint32_t run, forgotten;    /* they hold while these are as they were */
        uint64_t step;              /* of an only worker: what each adds to the state */
    } ahead;
    struct {
        uint32_t left; /* claims that need no new look while nothing has changed: claim_again in claim.c */
        uint32_t level, tenant, shard;
        uint32_t ready[TG_SHARDS][TG_PRIORITY_LEVELS]; /* as they were at the look */
    } again;
    uint32_t scan_from[TG_PRIORITY_LEVELS]
                      [TG_TENANTS]; /* for each tenant, else one could starve another's slots */
    uint32_t freed_count[TG_PRIORITY_LEVELS][TG_SHARDS];
    uint32_t freed[TG_PRIORITY_LEVELS][TG_SHARDS][TG_FREED_BATCH];
    struct tg_claimed current;
    struct tg_visit visit[TG_PRIORITY_LEVELS][TG_TENANTS];
    pthread_t thread;
    struct tg_counts counts;         /* written by this worker, read by anybody */
    struct tg_counts posted;         /* what of it is in the control buffer; this worker only */
    struct tg_hist *hists;           /* level, then tenant, then opcode kind */
    struct tg_kernel_worker *kernel; /* bodies made at run time, or NULL; set once (kernel.c) */
};

struct tg_io {
    pthread_mutex_t lock;  /* whoever moves a slot out of WAIT_IO holds it */
    uint32_t *next, *prev; /* list of requests nobody has taken; TG_NO_SLOT ends it */
    uint32_t *resource;
    uint8_t *listed;
    uint32_t head, tail;
    uint32_t event;
};

struct tg_device;

struct tg_engine {
    struct tg_device *device; /* NULL: CPU workers */
    /* Set at open, read by everybody. */
    struct tg_slot *ring;
    uint32_t *control;
    uint32_t *log;
    uint32_t slots, control_words, log_words;
    uint32_t control_floor; /* the lowest control word an opcode may touch */
    uint32_t flags;
    uint32_t worker_count;
    uint32_t sample_mask; /* latency: positions with no bit of it; all ones: none */
    uint32_t spin_us, poll_us;
    bool has_foreign, sampling;
    uint32_t foreign_slots[TG_PRIORITY_LEVELS];
    uint32_t freed_batch[TG_PRIORITY_LEVELS]; /* written by resize: P0 */
    struct tg_side *side;
    uint32_t *attention_of; /* a word a slot: TG_ATT_... */
    uint32_t *fence_of;     /* a word a slot: TG_FENCE_... of a fence */
    struct tg_bad_end *bad;
    uint64_t *stamp;
    uint8_t *home;     /* level whose partition a slot is in; marks of resize.c above bit 3 */
    uint32_t *indexed; /* a word a slot: 1 while a foreign slot is in a queue or claimed */
    struct tg_worker *workers;
    struct tg_level level[TG_PRIORITY_LEVELS];
    void *queue_memory;
    size_t queue_bytes;
    uint32_t queue_cells;
    void *free_memory;
    size_t free_bytes;
    uint32_t shards, block_shift; /* of queues and free slots: free.h; a power of two */
    void *own_ring, *own_control, *own_log;
    size_t own_ring_bytes;
    struct tg_dfa *dfa; /* the table of DFA_STEP; replaced ones are kept until close */

    /* Read by everybody at every item, written rarely. */
    _Alignas(64) uint32_t accepting; /* 1: submit takes work */
    uint32_t attention;              /* how many wait, cancel, settle, resize: the rare ways */
    uint32_t recheck;                /* rises when a tenant's mask or quota was changed */
    uint32_t resizing;
    uint32_t hand_back; /* drain: cancel in place of running */

    /* Producers and workers. */
    struct tg_ready ready[TG_SHARDS];
    _Alignas(64) uint32_t idle; /* workers asleep | workers searching << 16 */

    /* Workers. */
    _Alignas(64) uint64_t levels; /* state of tg_levels_choose */
    uint32_t forgotten;           /* rises before a count in it is set to 0 */
    _Alignas(64) uint32_t grants; /* wake-ups nobody has taken; sleepers' futex */

    /* Rare. */
    _Alignas(64) uint32_t settle_event;
    uint32_t space_event;
    uint32_t exited;
    uint64_t cancelled, handed_back, log_dropped, wakeups;
    uint64_t outside_faults; /* not by a worker: the poller before any claim, the IO side */
    uint64_t urgent_sum;     /* run << 32 | claims of it posted: see post_urgent */
    struct {
        _Alignas(64) uint32_t event;
    } wait_bucket[TG_WAIT_BUCKETS];
    struct tg_handlers handlers;
    struct tg_kernel *kernel; /* under resize_lock; NULL: the engine's own bodies */
    struct tg_io io;
    pthread_mutex_t log_lock, resize_lock, drain_lock, home_lock;
    pthread_t poller;
    bool poller_started;
    uint32_t poller_event, poller_stop, poller_done;
    bool drained;

    /* Serving other processes (serve.c); they outlive any server, because ending items look at them. */
    struct tg_server *server;  /* under drain_lock */
    struct tg_served **served; /* a slot's item in a client's ring; by its publisher */
    /* Held by who looks at the clients' rings: the server's thread, or a worker that looks for work. */
    pthread_mutex_t serve_lock;
    struct tg_server *helped;         /* under serve_lock; NULL: no help wanted */
    uint32_t has_server;              /* a hint of the same */
    int serve_wake;                   /* eventfd of the server's thread; -1: never served */
    uint32_t serve_starved;           /* 1: it sleeps until any slot is free */
    uint32_t serve_ready;             /* 1: a fence of a guest has no item left to wait for */
    uint32_t serve_dozing;            /* 1: the server sleeps until that */
    uint32_t serve_closing;           /* guests that leave: items handed back may be cancelled now */
    uint32_t serve_wants[TG_TENANTS]; /* 1: it sleeps until an item of the tenant ends */
};

/* ---- claim.c, scan.c ---- */
bool tg_claim_next(struct tg_worker *w, struct tg_claimed *ret);
bool tg_claim_scan(struct tg_worker *w, struct tg_claimed *ret);
/* Is there anything this worker could claim? Sets blocked afresh. Exact after the caller announced sleep. */
bool tg_claimable(struct tg_worker *w);
bool tg_scan_claimable(struct tg_worker *w);
/* Clears ready bits of empty queues. */
void tg_ready_tidy(struct tg_engine *e, uint32_t shard, uint32_t level, uint32_t tenants);
bool tg_authority_take(struct tg_engine *e, uint32_t tenant);
void tg_authority_return(struct tg_engine *e, uint32_t tenant);
/* Decides the next level on the shared state; false when another worker decided meanwhile. */
bool tg_levels_advance(struct tg_engine *e, uint64_t state, uint32_t work, uint32_t level);
/* Claims the slot of an index entry whose tenant's authority was taken. */
bool tg_claim_slot(struct tg_worker *w, uint32_t cell, uint32_t level, uint32_t tenant,
                   struct tg_claimed *ret);
void tg_count_claim(struct tg_worker *w, struct tg_claimed *c);

/* ---- tenant.c ---- */
/* A tenant may claim that could not before: workers look at blocked ones again, and one is woken. */
void tg_tenant_changed(struct tg_engine *e);

/* ---- free.c ---- */
/* A number for the calling thread, to choose its shard by; 0: none yet. */
extern _Thread_local uint32_t tg_submitter_number;
uint32_t tg_submitter_first(void);
/* Lays the free slots of all levels out and fills them; drop frees that. */
int tg_free_lay(struct tg_engine *e, uint32_t block_shift);
void tg_free_drop(struct tg_engine *e);
/* How many slots of the level are free; exact while none is taken or given back. */
uint64_t tg_free_count(const struct tg_engine *e, uint32_t level);
/* Is one of the level free? Sees what was given back before. */
bool tg_free_some(const struct tg_engine *e, uint32_t level);
/* Were all slots of all levels free at once? */
bool tg_free_all(const struct tg_engine *e);

/* ---- submit.c ---- */
/* Puts a claimable slot (back) into its queue, by its route, and wakes who is needed. */
void tg_requeue(struct tg_engine *e, uint32_t slot);
void tg_ready_set(struct tg_engine *e, uint32_t shard, uint32_t level, uint32_t tenant);
/* tg_engine_submit for the server: 12 arguments, and tg_served_end is called for item when it ends. way: a
 * number a client, which keeps its items in order whichever thread submits them. */
int tg_submit_served(struct tg_engine *e, uint32_t way, uint32_t tenant, uint32_t priority, uint32_t opcode,
                     const uint32_t *args, struct tg_served *item, struct tg_item *ret_item);

/* ---- run.c ---- */
/* What a body ended with: an enum tg_op result, or one of these. */
enum { TG_RAN_FAULT = -1, TG_RAN_YIELD = 100 };
int tg_run(struct tg_worker *w, struct tg_claimed *c, struct tg_fault *fault);
const struct tg_handler *tg_handler_find(struct tg_engine *e, uint32_t opcode);
uint32_t tg_opcode_kind(struct tg_engine *e, uint32_t opcode, const struct tg_handler **ret_handler);
bool tg_foreign_fence_done(struct tg_engine *e, uint32_t slot, uint32_t items);

/* ---- kernel.c ---- */
struct tg_kernel_worker;
/* The mark of a handler whose body is the kernel's; never called. */
int tg_kernel_handler(void *context, struct tg_op *op);
/* Runs the kernel's body of the item's opcode (a built-in 0..6, or a user's of the kernel); returns as
 * tg_run. */
int tg_kernel_op(struct tg_kernel_worker *k, const struct tg_claimed *c, const struct tg_dfa *dfa,
                 struct tg_fault *fault);
/* For tg_engine_free. */
void tg_engine_drop_kernel(struct tg_engine *e);

/* ---- finish.c ---- */
void tg_finish(struct tg_worker *w, struct tg_claimed *c, int result, const struct tg_fault *fault);
/* An item of this fence ended. */
void tg_fence_item_ended(struct tg_engine *e, uint32_t fence_slot);
void tg_bad_end_write(struct tg_engine *e, uint32_t slot, uint32_t status, const struct tg_fault *fault);
void tg_fault_words(struct tg_engine *e, uint32_t slot, uint32_t reason);
/* A slot nobody needs any more goes back to the submitters; w may be NULL. */
void tg_slot_release(struct tg_engine *e, struct tg_worker *w, uint32_t slot);
void tg_freed_flush(struct tg_worker *w);
/* A cancelled slot whose entry was popped. */
void tg_cancelled_popped(struct tg_engine *e, struct tg_worker *w, uint32_t slot);

/* ---- park.c ---- */
void tg_wake_one(struct tg_engine *e);
void tg_wake_all(struct tg_engine *e);
void tg_worker_search(struct tg_worker *w);
void tg_worker_found(struct tg_worker *w);
void tg_worker_sleep(struct tg_worker *w, uint64_t limit_ns);
void tg_settle_bump(struct tg_engine *e);

/* ---- worker.c ---- */
void *tg_worker_main(void *worker);

/* ---- wait.c ---- */
void tg_waiters_wake(struct tg_engine *e, uint32_t slot);
bool tg_item_known(struct tg_engine *e, const struct tg_item *t);

/* ---- io.c ---- */
int tg_io_open(struct tg_engine *e);
void tg_io_close(struct tg_engine *e);
/* Moves a claimed slot to WAIT_IO and lists its request. */
void tg_io_park(struct tg_engine *e, struct tg_claimed *c, uint32_t resource);
/* WAIT_IO -> EMPTY; false when it does not wait. */
bool tg_io_cancel(struct tg_engine *e, uint32_t slot, uint64_t generation);

/* ---- foreign.c ---- */
int tg_poller_start(struct tg_engine *e);
void tg_poller_stop(struct tg_engine *e);
/* A foreign slot leaves the engine's hands; before its status changes, so that the poller takes it up again.
 */
void tg_foreign_forget(struct tg_engine *e, uint32_t slot);
/* Is the slot published by a foreign host? */
bool tg_is_foreign(const struct tg_engine *e, uint32_t slot);
/* Faults a foreign slot nobody may claim: tenant outside the table, priority above 4. True when it was one.
 */
bool tg_foreign_refuse(struct tg_engine *e, uint32_t slot);
/* One look at every foreign slot; returns how many it found. */
uint32_t tg_foreign_pass(struct tg_engine *e);

/* ---- serve_item.c ---- */
struct tg_served;
/* A served item ended: DONE with its results (NULL: none), FAULT with the reason, EMPTY when it was
 * cancelled. After its status and before its slot is released. */
void tg_served_end(struct tg_engine *e, uint32_t slot, uint32_t status, const struct tg_fault *fault,
                   const uint32_t *result);
/* Takes what clients published, if nobody else is at it. False: nothing. */
bool tg_serve_help(struct tg_engine *e);
/* Wakes the server's thread. */
void tg_serve_wake(struct tg_engine *e);
/* A served item was handed back (REQUEUE, WAIT_IO): a server that could not cancel it may try again. */
static inline void tg_served_back(struct tg_engine *e)
{
    /* Y13 seq_cst: after the status (S4); pairs with Y14 in serve_guest.c. */
    if (tg_load_seqcst_u32(&e->serve_closing) != 0)
        tg_serve_wake(e);
}

/* ---- open.c, handlers.c ---- */
void tg_workers_join(struct tg_engine *e);
void tg_engine_free(struct tg_engine *e);
void tg_handlers_close(struct tg_engine *e);

/* ---- resize.c ---- */
/* Marks in HOME: the slot changes its level, and is in the hands of the resize already. */
#define TG_HOME_MOVING 0x80u
#define TG_HOME_GOT 0x40u
/* True when the slot moves to another partition and was handed over. */
bool tg_resize_collect(struct tg_engine *e, uint32_t slot);

static inline struct tg_index *tg_queue(struct tg_engine *e, uint32_t shard, uint32_t level, uint32_t tenant)
{
    return &e->level[level].queue[shard * TG_TENANTS + tenant];
}

/* Where the calling thread submits: always the same, so that its items stay in order. */
static inline uint32_t tg_submitter_shard(const struct tg_engine *e)
{
    if (e->shards == 1)
        return 0;
#ifdef TG_EXPLORE
    return tg_explore_thread() & (e->shards - 1);
#else
    uint32_t n = tg_submitter_number;
    return (n ? n : tg_submitter_first()) & (e->shards - 1);
#endif
}

/* How many slots of a level a worker keeps back in each shard: all of them together a sixteenth. */
static inline uint32_t tg_freed_batch(uint32_t own, uint32_t workers, uint32_t shards)
{
    uint32_t batch = own / (16 * workers * shards);
    return batch < 1 ? 1 : batch > TG_FREED_BATCH ? TG_FREED_BATCH : batch;
}

static inline uint32_t tg_shard(const struct tg_engine *e, uint32_t slot)
{
    return slot >> e->block_shift & (e->shards - 1);
}
static inline struct tg_free *tg_free_of(struct tg_engine *e, uint32_t level, uint32_t slot)
{
    return &e->level[level].free[tg_shard(e, slot)];
}

/* P4 relaxed: the level of a slot in the caller's hands does not change; marks do. */
static inline uint32_t tg_home(const struct tg_engine *e, uint32_t slot)
{
    return tg_load_relaxed_u8(&e->home[slot]) & 0xFu;
}

static inline uint32_t tg_route(uint32_t shard, uint32_t level, uint32_t tenant, uint32_t cell_flags)
{
    return level | tenant << 8 | shard << 16 | cell_flags;
}
static inline uint32_t tg_route_shard(uint32_t route)
{
    return route >> 16 & (TG_SHARDS - 1u);
}
static inline uint32_t tg_route_level(uint32_t route)
{
    return route & 0xFFu;
}
static inline uint32_t tg_route_tenant(uint32_t route)
{
    return route >> 8 & 0xFFu;
}
#define TG_ROUTE_FLAGS (TG_CELL_FOREIGN | TG_CELL_BATCHED | TG_CELL_SAMPLED | TG_CELL_SERVED)

/* The rare ways (waiters, cancellers, settle, resize) announce themselves in one word. */
static inline bool tg_attention(const struct tg_engine *e)
{
    /* N2 seq_cst: after a status or free-queue store; pairs with N1 in tg_attention_enter. */
    return tg_load_seqcst_u32(&e->attention) != 0;
}
static inline void tg_attention_enter(struct tg_engine *e)
{
    /* N1 seq_cst: before the look at what is waited for; pairs with N2. */
    tg_add_seqcst_u32(&e->attention, 1);
}
static inline void tg_attention_leave(struct tg_engine *e)
{
    /* N3 seq_cst: no partner; an extra look of a worker costs nothing. */
    tg_sub_seqcst_u32(&e->attention, 1);
}

#endif
