/* SPDX-License-Identifier: Apache-2.0
 *
 * The host half of an engine whose workers are on a device: its state, the link to the device, and what the
 * device_*.c files offer each other and the rest of the engine. The rest asks e->device at the few places
 * where the two kinds of engine differ; slots, handles, free queues, resize and the records of ends are the
 * same.
 */
#ifndef TG_ENGINE_DEVICE_HOST_H
#define TG_ENGINE_DEVICE_HOST_H

#include "engine/device.h"
#include "engine/internal.h"

#define TG_MAX_CALLERS 64u

/* How a device is reached; cuda_driver.c is one, the emulator of the tests another. All memory lives until
 * close. */
struct tg_link {
    /* -ENODEV no device or driver, -ENOTSUP built without it; *ret_why says so in words (static). */
    int (*open)(const struct tg_engine_options *o, void **ret_state, const char **ret_why);
    /* Zeroed; host memory has the same address on both sides. NULL: none left. */
    void *(*host_memory)(void *state, size_t bytes);
    void *(*device_memory)(void *state, size_t bytes);
    int (*upload)(void *state, void *to, const void *from, size_t bytes);
    /* Where the device finds memory of the caller, which stays until close. NULL: it cannot. */
    void *(*adopt)(void *state, void *memory, size_t bytes);
    /* Worker warps that can be resident, wanted being the blocks asked for (0: the link decides). */
    uint32_t (*workers)(void *state, uint32_t wanted);
    int (*start)(void *state, struct tg_device_params *params);
    /* 1 it runs, 0 it has ended, -errno it died. */
    int (*look)(void *state);
    /* After look said -errno: the driver's number for why, and its words. NULL: it never dies. */
    int (*error)(void *state, char *text, size_t bytes);
    void (*close)(void *state);
};

extern const struct tg_link tg_link_cuda;

struct tg_device_foreign;

struct tg_device {
    const struct tg_link *link;
    void *state;
    struct tg_device_params params;
    uint32_t *kinds;      /* the opcode of each kind that the image runs */
    uint32_t *inner_kind; /* and the kind of each opcode below 256 */
    uint32_t dead;        /* 1: the device died; nothing is asked of it any more */
    /* Looks for bodies that do not return, four a limit. */
    uint32_t body_limit_ms; /* 0: none */
    uint32_t watch_stop;    /* its futex */
    bool watches;
    pthread_t watcher;
    struct {
        TG_ALIGNED(64) uint64_t tail; /* positions taken by publishers */
        struct tg_line *lines;
        uint32_t shift;
    } ring[TG_LINE_RINGS];
    struct tg_index free[TG_PRIORITY_LEVELS], calls, io; /* filled by the device, emptied here */
    pthread_mutex_t command_lock;                        /* positions of the command ring, in order */
    pthread_mutex_t callers_lock; /* starting the threads; folding in of samples and counters */
    pthread_mutex_t end_lock; /* what is left of a device that is gone; taken last, also under the others */
    uint64_t samples_read[TG_PRIORITY_LEVELS];
    uint64_t late_handed_back;         /* published too late for the drain */
    struct tg_device_foreign *foreign; /* buffers of the caller; NULL: none */
    /* Threads that run handlers of tg_engine_register: workers 1 .. */
    uint32_t callers, callers_started, callers_stop;
    TG_ALIGNED(64)
    uint32_t call_event;     /* futex: rises when an item for them is published and one may sleep */
    uint32_t calls_out;      /* items of class HOST that are not over */
    uint32_t callers_asleep; /* or in a pause */
};

/* ---- device.c ---- */
int tg_device_open(struct tg_engine *e, const struct tg_engine_options *o, const struct tg_link *link);
void tg_device_free(struct tg_engine *e);
/* True when the device is gone; then everything outstanding was ended. */
bool tg_device_check(struct tg_engine *e);

/* ---- device_bodies.c ---- */
/* The kernel of the options fits a device; its image is the one to start. */
int tg_device_bodies_check(struct tg_engine_options *o);
/* Before the start: gives the device the words that the kernel's bodies run on. */
int tg_device_bodies_lay(struct tg_engine *e, const struct tg_engine_options *o);
/* After it: registers their opcodes. */
int tg_device_bodies_register(struct tg_engine *e, struct tg_kernel *kernel);

/* ---- device_item.c ---- */
bool tg_device_take(struct tg_engine *e, uint32_t level, uint32_t n, uint32_t *slots);
/* Publishes n items in the first n of the slots that were taken, as one run of the level. fence: their
 * batch's, or TG_NO_SLOT. */
void tg_device_publish(struct tg_engine *e, uint32_t tenant, uint32_t level,
                       const struct tg_batch_item *items, uint32_t n, const uint32_t *slots, uint32_t taken,
                       uint32_t fence, struct tg_item *ret_items);
/* The same of one item of a foreign host, whose slot is held for it. */
void tg_device_publish_foreign(struct tg_engine *e, uint32_t slot, const struct tg_slot_payload *payload);
/* Lets slots that the device has freed go through the host's hands: resize, settle, those who wait. */
void tg_device_reap(struct tg_engine *e);
void tg_device_write_line(struct tg_line *line, uint32_t lap, const uint32_t value[TG_LINE_QUARTERS],
                          const uint32_t args[TG_ARGS_PER_SLOT]);
bool tg_device_is_call(struct tg_engine *e, uint32_t slot);

/* ---- device_command.c ---- */
struct tg_answer {
    int32_t result;
    uint32_t value, fault[3];
};
/* Sends a command and waits for the answer. -EIO: the device is gone. */
int tg_device_ask(struct tg_engine *e, enum tg_command command, uint32_t slot, const uint32_t *args,
                  uint32_t arg_count, struct tg_answer *ret);
/* The same without waiting. */
int tg_device_tell(struct tg_engine *e, enum tg_command command, uint32_t slot, const uint32_t *args,
                   uint32_t arg_count);
/* Tells the device of an opcode that was registered, for bodies that publish items of it. */
void tg_device_name_opcode(struct tg_engine *e, uint32_t opcode, uint32_t kind, uint32_t cls);
/* Items of bodies, as of the last sync. */
void tg_device_born(struct tg_engine *e, uint64_t *ret_submitted, uint64_t *ret_waiting);
void tg_device_sync(struct tg_engine *e);
int tg_device_word(struct tg_engine *e, uint32_t word, uint32_t value);
int tg_device_cancel(struct tg_engine *e, const struct tg_item *t);
int tg_device_set_dfa(struct tg_engine *e, const uint32_t *table, uint32_t states);
int tg_device_io_complete(struct tg_engine *e, const struct tg_item *t, int error);
/* Lists what has come to wait for IO; under io.lock. */
void tg_device_io_reap(struct tg_engine *e);

/* ---- device_foreign.c ---- */
/* After the engine's own memory was laid: the caller's beside it. */
int tg_device_foreign_lay(struct tg_engine *e, const struct tg_engine_options *o);
int tg_device_foreign_start(struct tg_engine *e);
/* The device has let go of a slot: true when it is a foreign one, which no submitter gets. */
bool tg_device_foreign_freed(struct tg_engine *e, uint32_t slot);
/* A slot waits for IO: its host sees that before anybody is asked for it. */
void tg_device_foreign_parks(struct tg_engine *e, uint32_t slot);
/* Before the drain of the device: what may run has run. -ETIMEDOUT */
int tg_device_foreign_finish(struct tg_engine *e, uint64_t start, uint64_t timeout_ns);
/* After it: the rest is handed back. Returns how many slots. */
uint32_t tg_device_foreign_end(struct tg_engine *e);
void tg_device_foreign_free(struct tg_engine *e);
/* The caller's buffers where there are such; others are left as they are. */
void tg_device_foreign_buffers(const struct tg_engine *e, const void **ring, const void **control,
                               const void **log, size_t *log_bytes);

/* ---- device_wait.c ---- */
/* A pause of somebody who waits for the device, the step-th: a sixteenth of all before it, 20 us to 1 ms;
 * event: a futex that may end it. */
void tg_device_pause_host(uint32_t *event, uint32_t seen, uint32_t *step, uint64_t left_ns);
int tg_device_wait(struct tg_engine *e, const struct tg_item *t, uint64_t timeout_ns);
int tg_device_settle(struct tg_engine *e, uint64_t timeout_ns);
int tg_device_drain(struct tg_engine *e, uint64_t start, uint64_t timeout_ns);

/* ---- device_watch.c ---- */
int tg_device_watch_start(struct tg_engine *e);
/* Also when it was not started. */
void tg_device_watch_stop(struct tg_engine *e);

/* ---- device_call.c ---- */
int tg_device_callers_start(struct tg_engine *e);
void tg_device_callers_stop(struct tg_engine *e);
/* A built-in inner operation of a packed slot that a host thread runs. */
bool tg_device_execute(struct tg_engine *e, uint32_t opcode, const uint32_t *args, struct tg_fault *fault);

#endif
