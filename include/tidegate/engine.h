/* SPDX-License-Identifier: Apache-2.0
 *
 * The resident engine: worker threads that never stop take 64-byte work items from a ring, most urgent
 * first, and run them. Publish an item in well under a microsecond, from any thread, without a lock.
 *
 *     struct tg_engine *engine;
 *     struct tg_item item;
 *     tg_engine_open(NULL, &engine);
 *     tg_engine_register(engine, 8, my_handler, my_context);
 *     tg_engine_submit(engine, 0, TG_PRIORITY_HIGH, 8, (uint32_t[]){1, 2}, 2, &item);
 *     int result = tg_engine_wait(engine, &item, 1000000000);
 *     tg_engine_close(engine, 1000000000, NULL);
 *
 * Caveats first.
 * - A handler runs on a worker thread. While it runs, that worker serves nobody else: there is no
 *   preemption, and a handler that never returns keeps its worker (drain and close then say -ETIMEDOUT).
 * - A slot is used again after its item finished. A handle notices: see tg_engine_wait about -ESTALE.
 * - Items that one thread submits at one level for one tenant START in the order of their submission; with
 *   several workers they may finish in another order. Between threads that order holds with one worker only:
 *   with more, threads submit by several ways (at most 8, and at most one a worker), served side by side. A
 *   worker looks at one of the others after 64 claims of the level and tenant, in turn, and serves it when it
 *   has fallen behind since the look before: at the latest after some 64 claims for each way, twice.
 * - Submitting takes no lock, but a thread that the system stops in the middle of it (a few dozen
 *   instructions) hides what is submitted behind it, by the same way at the same level for the same tenant,
 *   until it goes on: for as long as the system keeps it from its core, so give threads that submit at one
 *   level and tenant like priorities. Other levels and tenants do not notice, and calls that wait keep their
 *   limits.
 * - An item that parks (TG_OP_WAIT_IO) or writes to the debug log takes a lock for a few stores.
 * - Counters in the control buffer are published by the workers in steps of at most 256 items each and
 *   become exact when the engine is idle (tg_engine_settle waits for that). tg_engine_stats is exact always.
 *
 * Rules kept: E1 to E11 of DESIGN.md. The wire (slots, opcodes, control words) is docs/abi.md.
 *
 * Errors are 0 or -errno. ret_ outputs are written only on success unless a function says otherwise. Every
 * function may be called from any thread at any time, except: open before everything, close after
 * everything; and from inside a handler everything but drain, close, settle and resize.
 */
#ifndef TIDEGATE_ENGINE_H
#define TIDEGATE_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#include <tidegate/abi.h>
#include <tidegate/levels.h>
#include <tidegate/ring.h>
#include <tidegate/tenants.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tg_engine;
struct tg_kernel;
struct tg_ir_memory;
struct tg_item;

/* ---- Opening ------------------------------------------------------------------------------------------ */

enum {
    /* Opcodes may touch every control word and SHUTDOWN is obeyed; without it (E6) they touch observable
     * words only and SHUTDOWN faults. */
    TG_ENGINE_UNRESTRICTED = 1u << 0,
    /* Find work by scanning the slots of a level instead of the index: the reference mode. Its cost grows
     * with the ring and it keeps no order within a level; everything else is the same. */
    TG_ENGINE_SCAN = 1u << 1,
};

/* In foreign_slots: the whole partition. */
#define TG_ENGINE_ALL_SLOTS 0xFFFFFFFFu

/* Fill with tg_engine_options_init, then change what you want. Fields are only ever added at the end; size
 * tells the library which ones the caller knows. */
struct tg_engine_options {
    uint32_t size;  /* sizeof(struct tg_engine_options), set by init */
    uint32_t flags; /* TG_ENGINE_... */
    /* "cpu" or NULL; "cuda" or "cuda:N": one GPU, by its index. See "A device" below. */
    const char *backend;
    uint32_t slots; /* 5 .. 1,048,576; default 4096; ignored when ring is given */
    /* First slot of each level's partition, then the slot count. All zero: the default cut (a fifth each,
     * the remainder to NORMAL), or what a given control buffer says. */
    uint32_t offsets[TG_CONTROL_PRIORITY_OFFSETS_SLOTS];
    uint32_t workers;       /* 1 .. 256; 0: one a usable core */
    uint32_t tenants;       /* tenants 0 .. tenants-1 are authorised, 0 .. 29; default 29 */
    uint32_t quota;         /* claims each of them has; default TG_TENANT_QUOTA_UNLIMITED; 0: none yet */
    uint32_t observables;   /* observable words, 1 .. 1,048,576; default 256 */
    uint32_t log_records;   /* debug log records, 0 .. 1,048,576; default 64 */
    uint32_t spin_us;       /* how long an idle worker looks before it sleeps; default 20 */
    uint32_t latency_every; /* measure publish to done of one in N items (N rounded up to a power of two); 1:
                             * all; 0: none, and no clock is read; default 64 */
    const uint32_t *cpus;   /* pin worker i to cpus[i % cpu_count]; NULL: not pinned; read by open only */
    uint32_t cpu_count;

    /* Buffers of the caller, for a foreign host that speaks the ABI; each may be NULL (then the engine has
     * its own). They must be encoded, stay valid until close, and are read and written by the workers.
     * ring: 64-byte aligned, a multiple of 64 bytes. control: 4-byte aligned, at least 160 words and one
     * observable; masks and quotas are used as found. log: 4-byte aligned. */
    void *ring;
    size_t ring_bytes;
    void *control;
    size_t control_bytes;
    void *log;
    size_t log_bytes;
    /* How many slots at the end of each level's partition are published by a foreign host, straight into
     * the ring; the rest belongs to tg_engine_submit. A poller thread finds foreign work. */
    uint32_t foreign_slots[TG_PRIORITY_LEVELS];
    /* The poller also runs when control is given, to notice what the host writes there.
     * The longest pause between two looks of the poller; default 1000. A foreign item waits at most this
     * long, plus one pass over the foreign slots (about 5 ns each), before it is claimable. */
    uint32_t poll_us;

    /* A device engine. Blocks of worker warps, one a multiprocessor; 0: all multiprocessors but one. */
    uint32_t device_blocks;
    uint32_t device_limit_ms; /* the kernel leaves after this time whatever happens (tests); 0: never */
    /* A fat binary with opcodes of the application, see <tidegate/device.cuh>; NULL: the built-in kernel. Not
     * used after open. */
    const void *device_image;
    size_t device_image_bytes;

    /* Bodies made at run time (compile.h), there from the start; for a device the only way. It was compiled
     * for the backend, and stays until close. kernel_memory as memory of tg_engine_use_kernel, read by open
     * only; a device reaches the words where they are, so they stay until close: memory of the host, which
     * open locks in place, or what cudaMalloc and cudaHostAlloc gave. NULL: none. */
    struct tg_kernel *kernel;
    const struct tg_ir_memory *kernel_memory;

    /* A device engine: longest time that one run of a body on a worker may take, 4 ms or more; 0: none. See
     * "A body that does not return" below. */
    uint32_t device_body_limit_ms;
    /* A context of the caller's own (a CUcontext) of the backend's device, in which the engine lives; it
     * stays until close. NULL: the primary context of the device, which is the one that the CUDA runtime
     * uses. */
    void *device_context;
    /* A device engine: the program of a process that owns the device for this one, see "A process of its own"
     * below: a path, or a name to look for in $PATH ("tidegate" where it is installed). NULL: the device is
     * this process's. Read by open only. */
    const char *device_process;
    /* A device engine: how many items of tg_device_submit (device.cuh) each level, tenant and shape may have
     * at a time, rounded up to a power of two, at most 1,048,576; 0: none may be published by bodies. Takes
     * 20,480 bytes of the device's memory each. Default 1024. One that runs counts until it has ended, so a
     * queue full of items that each wait for room in it (REQUEUE after -EAGAIN) goes on for ever. */
    uint32_t device_items;
};

void tg_engine_options_init(struct tg_engine_options *options);

/* Opens an engine and starts its workers. options NULL means the defaults.
 * -EINVAL    an option or a buffer is outside what is written above
 * -ENOTSUP   unknown backend, or one that the library was built without
 * -ENODEV    no driver or no such device
 * -ESHUTDOWN the given control buffer has its SHUTDOWN word set
 * -EBUSY     a slot of a given ring that is not foreign is neither EMPTY nor DONE; an engine of this process
 *            is open on that GPU (in that context)
 * -ENOTRECOVERABLE a kernel of this process faulted on that GPU before
 * -EPROTO    device_process is no program that owns a device, or is of another version; -ELOOP: it is this
 *            very program, which does not call tg_engine_device_main; -EFBIG: RLIMIT_FSIZE is too small for
 *            it; else what posix_spawn(3) says
 * -EPERM     the kernel is unrestricted and the engine is not (E6)
 * -ENOMEM, -EAGAIN: no memory, no threads */
int tg_engine_open(const struct tg_engine_options *options, struct tg_engine **ret_engine);

/* Why the last tg_engine_open of this thread failed, in words; "" when there is nothing to add to its error.
 */
const char *tg_engine_open_reason(void);

/* ---- A device -------------------------------------------------------------------------------------------
 *
 * With backend "cuda" one persistent kernel serves the same ring by the same rules. Built-in opcodes run on
 * the GPU. A handler of tg_engine_register is C and runs on a thread of the host: the device claims its item
 * in turn, when one of `workers` threads (at most 16) is free for it. Opcodes of a device image run on worker
 * warps. What differs from the CPU's workers:
 * - there is no scan and no serving of other processes (-ENOTSUP). A ring of the caller's is there for its
 *   foreign slots alone (-ENOTSUP without any, and these need it): items of tg_engine_submit do not lie in
 *   it. Its ring, control buffer and log are not the device's: a thread of the host looks at them at least
 *   every poll_us, publishes there in place of the workers, and tells the device what the host has written;
 *   so a word of the host's counts from then on, and of a word that both write at once either may stay. A
 *   pass reads all of the control buffer. A foreign slot is CLAIMED from when it is taken up, at most as many
 *   of a tenant as it has quota;
 * - a finished item wakes nobody: tg_engine_wait looks for spin_us, then pauses between looks, a sixteenth of
 *   what it has waited, 20 us to 1 ms;
 * - latencies of tg_engine_stats are from the item's arrival on the device to its end there; of a level's
 * items that were measured between two calls the last 4,096 count;
 * - tg_engine_stats, set_tenant, set_quota, cancel, set_dfa, observable_store and _add are round trips over
 * the bus;
 * - a DFA table is copied to the device when it is set;
 * - when the device faults, what ran is FAULT with reason TG_FAULT_DEVICE, what did not is handed back, the
 *   engine takes no more work, and this process opens no other on that GPU, unless a process of its own owned
 *   the device. */

/* A body that does not return. A kernel cannot stop one of its warps. With device_body_limit_ms the engine
 * notices, within a quarter more than the limit, that a body is past it, and ends: the items of such bodies
 * are FAULT with reason TG_FAULT_TIMEOUT, what else ran is FAULT with TG_FAULT_DEVICE, what did not is handed
 * back, nothing more is accepted (-ESHUTDOWN). An item that is REQUEUEd begins anew. Close then returns
 * after some seconds; while the body goes on it keeps its multiprocessor, the engine's memory is not freed,
 * and this process opens no other engine there (-EBUSY). */

/* A process of its own. CUDA keeps a fault until the process ends, and cannot stop a body that does not
 * return. With device_process the device belongs to a child process, and nothing else changes: items go
 * through memory that both share, handlers run here, and what is said above holds. When the device faults, a
 * body is past its limit, or the child is killed, close ends the child, and the next open of this process
 * works. Each such engine has its own child, so several of a process may share a device.
 * The child is the program device_process, run with the words "engine device"; tidegate is one, and so is
 * every program of which main begins with
 *     int code = tg_engine_device_main(argc, argv);
 *     if (code >= 0)
 *         return code;
 * which may then name itself: "/proc/self/exe". It must be of this library's version. It ends with its
 * parent, however that ends; it ignores SIGINT, SIGQUIT, SIGHUP and SIGTERM. A parent that waits for any
 * child, or ignores SIGCHLD, may reap it.
 * What is not there: device_context (-EINVAL), and buffers in kernel_memory (-ENOTSUP), which are of this
 * process. */

/* -1: these are not the words that a child is started with. Else it was one, has ended, and this is its exit
 * code. To be called before anything else. */
int tg_engine_device_main(int argc, char **argv);

enum tg_device_state {
    TG_DEVICE_RUNS = 0,
    TG_DEVICE_ENDED,   /* by drain */
    TG_DEVICE_FAULTED, /* a fault of the device, mostly of a body; error and text say which */
    TG_DEVICE_OVERRAN, /* a body is past device_body_limit_ms */
    TG_DEVICE_EXPIRED, /* device_limit_ms is over */
};

struct tg_device_report {
    uint32_t state;     /* enum tg_device_state */
    int32_t error;      /* of TG_DEVICE_FAULTED: the driver's number, for instance 700; -ECHILD: the process
                         * that owned the device has ended */
    uint32_t in_flight; /* items that ran when it faulted or overran; tg_engine_fault tells their reasons */
    char text[128];     /* the driver's name and words for error, or "" */
};

/* How the device is, and which items ran when it ended: the first capacity of them go to ret_items (NULL with
 * 0).
 * -ENOTSUP no device engine */
int tg_engine_device_report(struct tg_engine *engine, struct tg_device_report *ret_report,
                            struct tg_item *ret_items, uint32_t capacity);

/* How an opcode of the device image is run. */
enum tg_device_shape {
    TG_DEVICE_LANE = 1,  /* by one lane, beside up to 31 other items */
    TG_DEVICE_WARP = 3,  /* by 32 lanes, each called with the same item */
    TG_DEVICE_BLOCK = 4, /* by the 128 lanes of a worker block, likewise; tg_device_block_sync is theirs */
};

/* Names an opcode of the image. -EINVAL reserved opcode or no such shape; -ENOTSUP no device engine; -ENOSPC
 */
int tg_engine_register_device(struct tg_engine *engine, uint32_t opcode, enum tg_device_shape shape);

/* ---- Handlers ------------------------------------------------------------------------------------------ */

#define TG_OP_RESULTS 4u

/* What a handler sees of its item. The pointer is valid during the call only. */
struct tg_op {
    uint32_t opcode;
    uint32_t tenant; /* as read from the slot after it was claimed */
    uint32_t priority;
    uint32_t slot;        /* index in the ring */
    uint32_t worker;      /* which worker runs it */
    uint32_t arg_count;   /* 12, or the inner op's own number in a packed slot */
    const uint32_t *args; /* a private copy of 12 words; those past arg_count are zero */
    struct tg_engine *engine;
    uint32_t io_resource; /* a handler that returns TG_OP_WAIT_IO names what it waits for */
    /* What a client in another process gets back with DONE (attach.h); zero at first, else unused. */
    uint32_t result[TG_OP_RESULTS];
};

/* What a handler returns. A negative value is a fault with that errno; any other value is a fault too. */
enum {
    TG_OP_FINISHED = 0, /* becomes DONE */
    TG_OP_REQUEUE = 1,  /* run me again, behind what waits now (status REQUEUE) */
    TG_OP_WAIT_IO = 2,  /* waits for tg_engine_io_complete of io_resource, then runs again */
};

typedef int (*tg_op_handler)(void *context, struct tg_op *op);

/* Registers a handler for a user opcode (tg_opcode_is_user), or replaces it. At most 256 opcodes.
 * -EINVAL reserved opcode or no handler; -ENOSPC table full */
int tg_engine_register(struct tg_engine *engine, uint32_t opcode, tg_op_handler handler, void *context);

/* The observable words as a handler (or the host) may touch them: index 0 is control word 160. Each is
 * atomic. -EFAULT when the index is outside. A handler that passes the error on faults its item. */
int tg_engine_observable_load(struct tg_engine *engine, uint32_t index, uint32_t *ret_value);
int tg_engine_observable_store(struct tg_engine *engine, uint32_t index, uint32_t value);
int tg_engine_observable_add(struct tg_engine *engine, uint32_t index, uint32_t value, uint32_t *ret_before);

/* The table of DFA_STEP: states rows of 256 next states each, owned by the caller, unchanged until it is
 * replaced and no DFA_STEP is in flight, or the engine closed. NULL and 0 remove it. */
int tg_engine_set_dfa(struct tg_engine *engine, const uint32_t *table, uint32_t states);

/* ---- Publishing ---------------------------------------------------------------------------------------- */

/* Names one item: the slot and how often the slot was used before. Plain data; copy it freely. */
struct tg_item {
    uint64_t generation;
    uint32_t slot;
    uint32_t reserved;
};

/* Publishes one item. Lock-free; does not allocate; wakes at most one sleeping worker. ret_item may be
 * NULL.
 * -EPERM     tenant is not in the table of 29 (E4). A tenant that is switched off or has no quota is
 *            accepted; its item stays PUBLISHED until it may run.
 * -EINVAL    priority above 4, opcode not publishable, more than 12 arguments, or a BATCH_FENCE with
 *            a0 != 0 (use tg_engine_submit_batch)
 * -EAGAIN    the level's slots are all in use, or on their way back: one is free a moment after its item is
 * DONE, later where the thread that frees it was put off its core just then (tg_engine_wait_space) -ENOSPC
 * the level's partition has no slots for this call -ESHUTDOWN the engine drains or was shut down */
int tg_engine_submit(struct tg_engine *engine, uint32_t tenant, uint32_t priority, uint32_t opcode,
                     const uint32_t *args, uint32_t arg_count, struct tg_item *ret_item);

/* Publishes count items in order: all of them or, with the errors above, none. ret_items may be NULL or
 * has room for count. */
int tg_engine_submit_many(struct tg_engine *engine, uint32_t tenant, uint32_t priority,
                          const struct tg_batch_item *items, uint32_t count, struct tg_item *ret_items);

/* The same, followed by a BATCH_FENCE of these items with this tag: when all of them are DONE, FAULT or
 * cancelled, and not before, observable word 0 becomes tag, EPOCH rises by one and the fence is DONE (E5).
 * ret_fence is the fence itself. */
int tg_engine_submit_batch(struct tg_engine *engine, uint32_t tenant, uint32_t priority,
                           const struct tg_batch_item *items, uint32_t count, uint32_t tag,
                           struct tg_item *ret_fence);

/* The same, and the handles of the items: ret_items has room for count. Either may be NULL. */
int tg_engine_submit_batch_items(struct tg_engine *engine, uint32_t tenant, uint32_t priority,
                                 const struct tg_batch_item *items, uint32_t count, uint32_t tag,
                                 struct tg_item *ret_items, struct tg_item *ret_fence);

/* LOAD_MISS: asks the host's IO side for a resource, as tenant 0 at CRITICAL. The item is WAIT_IO until
 * tg_engine_io_complete. Errors as submit. */
int tg_engine_submit_load_miss(struct tg_engine *engine, uint32_t resource, uint32_t prefetch,
                               struct tg_item *ret_item);

/* Waits until the level has a free slot again, at most timeout_ns. -ETIMEDOUT, -ENOSPC, -ESHUTDOWN. */
int tg_engine_wait_space(struct tg_engine *engine, uint32_t priority, uint64_t timeout_ns);

/* Says that a foreign host has published; the poller looks at once. */
void tg_engine_kick(struct tg_engine *engine);

/* ---- Waiting ------------------------------------------------------------------------------------------- */

/* Waits until the item finished, at most timeout_ns (0: only looks). Sleeps on a futex; results are visible
 * when it returns (E7).
 * 0          DONE
 * -EIO       FAULT; tg_engine_fault says why
 * -ECANCELED cancelled, or handed back by drain
 * -ESTALE    it finished, but how is no longer known: the slot was used again at least 64 times, the last of
 *            them by an item that faulted or was cancelled. (Uses that end DONE forget nothing.) An engine
 *            with little to do uses a few slots again and again, so this can be soon after the end.
 * -ETIMEDOUT not finished yet
 * -EINVAL    not an item of this engine */
int tg_engine_wait(struct tg_engine *engine, const struct tg_item *item, uint64_t timeout_ns);

/* tg_engine_wait that only looks: -EINPROGRESS in place of -ETIMEDOUT. */
int tg_engine_poll(struct tg_engine *engine, const struct tg_item *item);

/* Takes back an item that is not running. 0; -EBUSY it runs now; -EALREADY it has finished; -EINVAL. Its slot
 * is free again when it reaches the head of its tenant's queue (at once where the tenant's work runs). */
int tg_engine_cancel(struct tg_engine *engine, const struct tg_item *item);

/* Why an item faulted. */
struct tg_fault {
    uint32_t reason; /* enum tg_fault_reason */
    uint32_t detail;
    uint32_t inner_op; /* in a packed slot: which one; else 0 */
};

/* Why the item faulted. -ENOENT: it did not, or a later item of its slot did and took its place. */
int tg_engine_fault(struct tg_engine *engine, const struct tg_item *item, struct tg_fault *ret_fault);

/* The reason in words, without a final newline; never NULL. */
const char *tg_fault_text(uint32_t reason);

/* ---- The IO side --------------------------------------------------------------------------------------- */

struct tg_io_request {
    struct tg_item item;
    uint32_t resource;
    uint32_t prefetch;
    uint32_t tenant;
};

/* The next request nobody has taken, oldest first; waits at most timeout_ns. -ETIMEDOUT, -ESHUTDOWN. */
int tg_engine_io_next(struct tg_engine *engine, uint64_t timeout_ns, struct tg_io_request *ret_request);

/* Ends a request: error 0 lets the item go on (it is REQUEUEd, and a LOAD_MISS then is DONE), a negative
 * errno faults it. -EALREADY when the item no longer waits. */
int tg_engine_io_complete(struct tg_engine *engine, const struct tg_item *item, int error);

/* ---- Tenants and partitions, live -----------------------------------------------------------------------
 */

/* Switches a tenant on or off. Items it has published stay; they run when it is on again. -EINVAL */
int tg_engine_set_tenant(struct tg_engine *engine, uint32_t tenant, int on);

/* Sets the claims a tenant has left. -EINVAL */
int tg_engine_set_quota(struct tg_engine *engine, uint32_t tenant, uint32_t quota);

/* Moves the borders between the partitions. Slots that change their level must become free first: new items
 * avoid them, and the call waits for the old ones at most timeout_ns; then all six words change under
 * extension word PARTITION_SEQ (odd while they do). Nothing changes on an error.
 * -EINVAL    not a division of the ring
 * -ENOTSUP   the engine has foreign slots (their host chose the slots)
 * -ENOSPC    a level would outgrow its queue (rings above 65,536 slots: twice its size at open)
 * -ETIMEDOUT an item keeps its slot; -EBUSY another resize is under way; -ESHUTDOWN */
int tg_engine_resize(struct tg_engine *engine, const uint32_t offsets[TG_CONTROL_PRIORITY_OFFSETS_SLOTS],
                     uint64_t timeout_ns);

/* ---- Looking ------------------------------------------------------------------------------------------- */

struct tg_latency {
    uint64_t count; /* items measured: see latency_every */
    uint64_t p50_ns, p90_ns, p99_ns, p999_ns, max_ns;
};

struct tg_level_stats {
    uint64_t claims, done, faults;
    uint32_t slots;            /* size of the partition */
    uint32_t outstanding;      /* slots in use by tg_engine_submit right now */
    struct tg_latency latency; /* publish to done */
};

struct tg_tenant_stats {
    uint64_t claims, done, faults;
    uint32_t authorised; /* 0 or 1 */
    uint32_t quota;
    struct tg_latency latency;
};

struct tg_engine_stats {
    uint64_t done, faults, cancelled, handed_back;
    uint64_t claims, requeues, yields;
    uint64_t log_dropped;      /* records that found the log full (E9) */
    uint64_t wakeups;          /* times a publisher woke a worker */
    uint64_t sleeps;           /* times a worker went to sleep */
    uint64_t device_submitted; /* items that bodies on a device have published, */
    uint64_t device_waiting;   /* and those of them that wait */
    uint32_t workers;
    struct tg_level_stats level[TG_PRIORITY_LEVELS];
    struct tg_tenant_stats tenant[TG_TENANTS];
};

void tg_engine_stats(struct tg_engine *engine, struct tg_engine_stats *ret_stats);

struct tg_opcode_stats {
    uint32_t opcode;
    uint64_t executions; /* inner ops of packed slots included */
    uint64_t faults;
    struct tg_latency latency; /* of handlers' and built-in bodies' items, publish to done */
};

/* Executions per opcode, built-in ones first. Writes at most capacity entries and returns how many there
 * are. */
uint32_t tg_engine_opcode_stats(struct tg_engine *engine, struct tg_opcode_stats *ret, uint32_t capacity);

/* The engine's buffers as a foreign reader would see them; valid until close. Read words with acquire. Any
 * of the outputs may be NULL. */
void tg_engine_buffers(struct tg_engine *engine, const void **ret_ring, size_t *ret_ring_bytes,
                       const void **ret_control, size_t *ret_control_bytes, const void **ret_log,
                       size_t *ret_log_bytes);

/* ---- Ending -------------------------------------------------------------------------------------------- */

/* Waits until no item of tg_engine_submit, and none that a body on a device has published, waits or runs and
 * all counters in the control buffer are exact; the engine goes on. -ETIMEDOUT */
int tg_engine_settle(struct tg_engine *engine, uint64_t timeout_ns);

struct tg_drain_report {
    uint64_t done;        /* finished over the engine's life */
    uint64_t faults;      /* ended FAULT over the engine's life */
    uint64_t cancelled;   /* cancelled by their owners over the engine's life */
    uint64_t handed_back; /* not run: their slots are EMPTY again */
    uint32_t running;     /* still CLAIMED; only with -ETIMEDOUT */
};

/* Stops taking work (also sets control[SHUTDOWN]), finishes everything claimable, hands back the rest
 * (tenants that may not run, items that wait for IO) and ends the workers. ret_report may be NULL and is
 * also written with -ETIMEDOUT, which says that an item still runs after timeout_ns: call again. Draining a
 * drained engine reports again. */
int tg_engine_drain(struct tg_engine *engine, uint64_t timeout_ns, struct tg_drain_report *ret_report);

/* Drains, then frees everything. engine NULL is fine. -ETIMEDOUT as drain, -EBUSY while it is served
 * (serve.h): nothing is freed then. */
int tg_engine_close(struct tg_engine *engine, uint64_t timeout_ns, struct tg_drain_report *ret_report);

#ifdef __cplusplus
}
#endif

#endif
