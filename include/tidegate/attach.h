/* SPDX-License-Identifier: Apache-2.0
 *
 * Using an engine that another process serves (serve.h): publish items into a ring of shared memory, wait for
 * their ends. No system call on the way while both sides are busy.
 *
 *     struct tg_attached *engine;
 *     uint64_t item;
 *     tg_engine_attach("/run/user/1000/engine", NULL, &engine);
 *     tg_attached_submit(engine, TG_PRIORITY_HIGH, 8, (uint32_t[]){1, 2}, 2, &item);
 *     int result = tg_attached_wait(engine, item, 1000000000, NULL);
 *     tg_attached_detach(engine);
 *
 * Caveats first.
 * - Items are numbered by 64-bit sequence numbers; a slot of the ring is used again N items later (N:
 *   tg_attached_slots), when its item has ended, whether or not anybody asked how: then -ESTALE.
 * - The ring is used in order: an item that runs very long holds up the N-th item after it (-EAGAIN).
 * - The server may die. Items that had ended are still known; for others every call says so. The kernel tells
 *   a thread of this handle, which is started when a wait sleeps for the first time and wakes those that
 * wait.
 * - A handle belongs to the process that made it: after fork() the child must not use it, and should attach
 *   anew.
 *
 * Errors are 0 or -errno. ret_ outputs are written only on success unless a function says otherwise. Every
 * function may be called from any number of threads at any time, except detach: after everything.
 */
#ifndef TIDEGATE_ATTACH_H
#define TIDEGATE_ATTACH_H

#include <stdint.h>

#include <tidegate/engine.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tg_attached;

/* Fill with tg_attach_options_init, then change what you want. Fields are only ever added at the end. */
struct tg_attach_options {
    uint32_t size;       /* sizeof(struct tg_attach_options), set by init */
    uint32_t spin_us;    /* how long a wait looks before it sleeps; default 20 */
    uint64_t timeout_ns; /* for connecting and being welcomed; default 5 s */
};

void tg_attach_options_init(struct tg_attach_options *options);

/* Connects and maps a ring. options NULL means the defaults.
 * -ENOENT, -ECONNREFUSED nobody serves at path
 * -EACCES    the socket's permissions, or the server has no tenant for this uid
 * -EUSERS    the server has as many clients as it takes, or as it takes of this uid
 * -EPROTO    what answers is no server of this version
 * -ETIMEDOUT, -EINVAL, -ENAMETOOLONG, -ENOMEM, -EMFILE, and what connect(2) returns */
int tg_engine_attach(const char *path, const struct tg_attach_options *options,
                     struct tg_attached **ret_attached);

/* Slots of this handle's ring: how many items may be on their way. */
uint32_t tg_attached_slots(const struct tg_attached *attached);

/* Which tenant the server made us. */
uint32_t tg_attached_tenant(const struct tg_attached *attached);

/* Publishes one item; lock-free, one system call only when the server sleeps.
 * -EINVAL    priority above 4, opcode not publishable, more than 12 arguments, a BATCH_FENCE with a0 != 0
 * -EAGAIN    the ring is full (tg_attached_wait_space)
 * -ESHUTDOWN the server stopped; -EPROTO it ended this connection; -EPIPE it died */
int tg_attached_submit(struct tg_attached *attached, uint32_t priority, uint32_t opcode, const uint32_t *args,
                       uint32_t arg_count, uint64_t *ret_item);

/* Publishes count items in one go, all or none, one after the other in the ring. ret_items may be NULL, or
 * has room for count. Errors as submit, and -ENOSPC    more than the ring has slots -EAGAIN    not that many
 * slots are free now (tg_attached_wait_slots) */
int tg_attached_submit_many(struct tg_attached *attached, uint32_t priority,
                            const struct tg_batch_item *items, uint32_t count, uint64_t *ret_items);

/* The same, and a fence: when all of them are DONE, FAULT or cancelled, and not before, observable word 0
 * becomes tag, EPOCH rises by one and the fence is DONE (E5). Takes count + 1 slots. count may be 0. A fence
 * that waits occupies no worker and no slot of the engine. ret_items and ret_fence may be NULL. */
int tg_attached_submit_batch(struct tg_attached *attached, uint32_t priority,
                             const struct tg_batch_item *items, uint32_t count, uint32_t tag,
                             uint64_t *ret_items, uint64_t *ret_fence);

/* Asks the server to take an item back if it does not run yet. That this returned 0 says nothing about the
 * item: tg_attached_wait tells whether it was cancelled (-ECANCELED) or ran. Works while the ring is full. A
 * fence that is cancelled ends when its items have ended, without its effect.
 * -EALREADY  it ended
 * -EAGAIN    too many such wishes that the server has not looked at yet
 * -EINVAL, -ESTALE, -ESHUTDOWN, -EPROTO, -EPIPE as tg_attached_wait */
int tg_attached_cancel(struct tg_attached *attached, uint64_t item);

/* What an item left behind. */
struct tg_outcome {
    /* DONE: what the handler put into tg_op.result; for STORE_U32, ATOMIC_ADD, LOAD_U32, COMPARE_SWAP and
     * DFA_STEP, value[0] is the word they wrote (COMPARE_SWAP: the previous value), read right after. */
    uint32_t value[TG_OP_RESULTS];
    struct tg_fault fault; /* FAULT: why */
};

/* Waits until the item ended, at most timeout_ns (0: only looks). ret_outcome may be NULL; it is written with
 * 0 and -EIO.
 * 0          DONE
 * -EIO       FAULT
 * -ECANCELED it did not run: it was cancelled, the engine drained, or the server stopped first
 * -ESTALE    it ended, and its slot was used again
 * -ETIMEDOUT not ended yet (a tenant without quota waits for it)
 * -EINVAL    not an item of this handle
 * -ESHUTDOWN, -EPROTO, -EPIPE as above: how it ended will not be known */
int tg_attached_wait(struct tg_attached *attached, uint64_t item, uint64_t timeout_ns,
                     struct tg_outcome *ret_outcome);

/* tg_attached_wait that only looks: -EINPROGRESS in place of -ETIMEDOUT. */
int tg_attached_poll(struct tg_attached *attached, uint64_t item, struct tg_outcome *ret_outcome);

/* Publishes one item and waits for its end: submit and wait in one, and quicker where nothing else is on its
 * way, since a server that sleeps is not waked when a worker finds the item first. Returns as
 * tg_attached_wait, or as tg_attached_submit when nothing was published (-EINVAL, -EAGAIN, ...). With
 * -ETIMEDOUT the item stays published, and how it ends is not told. */
int tg_attached_call(struct tg_attached *attached, uint32_t priority, uint32_t opcode, const uint32_t *args,
                     uint32_t arg_count, uint64_t timeout_ns, struct tg_outcome *ret_outcome);

/* Waits until the next item has a slot, at most timeout_ns. -ETIMEDOUT, -ESHUTDOWN, -EPROTO, -EPIPE. */
int tg_attached_wait_space(struct tg_attached *attached, uint64_t timeout_ns);

/* The same for the next count items. -ENOSPC: the ring is smaller. */
int tg_attached_wait_slots(struct tg_attached *attached, uint32_t count, uint64_t timeout_ns);

/* Leaves. Items on their way are cancelled, or finish and are forgotten. NULL is fine. */
void tg_attached_detach(struct tg_attached *attached);

#ifdef __cplusplus
}
#endif

#endif
