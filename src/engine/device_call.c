/* SPDX-License-Identifier: Apache-2.0
 *
 * Handlers of tg_engine_register on a device engine: C functions cannot run there, so the dispatcher claims
 * such an item by the same rules, when a thread of the host is free for it, and hands it to that thread. The
 * thread runs the handler as a CPU worker would (run.c) and tells the dispatcher how it ended. Threads sleep
 * while no such item is in the engine; while there is one they pause between looks, and each new one ends
 * that.
 *
 * The argument (nobody sleeps beside an item): a publisher writes the line, then raises CALLS_OUT (Y20), then
 * reads CALLERS_ASLEEP; a thread raises CALLERS_ASLEEP (Y21), then reads CALLS_OUT, all seq_cst.
 */
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "engine/device_host.h"
#include "engine/futex.h"

#define LOOKS_BEFORE_PAUSE 256u

bool tg_device_execute(struct tg_engine *e, uint32_t opcode, const uint32_t *args, struct tg_fault *fault)
{
    struct tg_answer a;
    uint32_t inner = fault->inner_op;
    int r = tg_device_ask(e, TG_COMMAND_EXECUTE, opcode, args, TG_ARGS_PER_SLOT, &a);
    if (r == 0 && a.result == 0)
        return true;
    *fault = (struct tg_fault){TG_FAULT_HANDLER, (uint32_t)r, inner};
    if (r == 0)
        *fault = (struct tg_fault){a.fault[0], a.fault[1], inner};
    return false;
}

static void tell_ended(struct tg_worker *w, const struct tg_claimed *c, int result,
                       const struct tg_fault *fault)
{
    struct tg_engine *e = w->engine;
    const uint32_t args[4] = {(uint32_t)result, fault->reason, fault->detail, fault->inner_op};
    bool over = result != TG_OP_REQUEUE && result != TG_OP_WAIT_IO;
    if (result == TG_OP_WAIT_IO) {
        pthread_mutex_lock(&e->io.lock);
        e->io.resource[(size_t)c->slot * 2] = c->payload.args[0];
        e->io.resource[(size_t)c->slot * 2 + 1] = 0;
        pthread_mutex_unlock(&e->io.lock);
    }
    if (over)
        tg_sub_seqcst_u32(&e->device->calls_out, 1); /* Y20 */
    tg_device_tell(e, TG_COMMAND_ENDED, c->slot, args, 4);
}

/* Runs when a handler left by pthread_exit: its item faults, a new thread takes over. */
static void *caller_main(void *worker);
static void handler_left(void *worker)
{
    struct tg_worker *w = worker;
    struct tg_fault fault = {TG_FAULT_WORKER_DIED, 0, 0};
    w->busy = false;
    tell_ended(w, &w->current, TG_RAN_FAULT, &fault);
    pthread_detach(pthread_self());
    w->started = pthread_create(&w->thread, NULL, caller_main, w) == 0;
}

static void run_call(struct tg_worker *w, uint32_t slot)
{
    struct tg_engine *e = w->engine;
    struct tg_claimed *c = &w->current;
    struct tg_fault fault = {0};
    memset(c, 0, sizeof(*c));
    tg_slot_read_payload(&e->ring[slot], &c->payload);
    c->slot = slot;
    c->level = c->payload.priority;
    c->tenant = c->payload.tenant;
    c->from = TG_SLOT_PUBLISHED;
    w->busy = true;
    int r = tg_run(w, c, &fault);
    w->busy = false;
    tell_ended(w, c, r, &fault);
}

/* True when an item was published meanwhile: it comes back over the bus in some microseconds. */
static bool pause_for_calls(struct tg_worker *w, uint32_t *step)
{
    struct tg_device *d = w->engine->device;
    uint32_t seen = tg_load_seqcst_u32(&d->call_event);
    tg_add_seqcst_u32(&d->callers_asleep, 1); /* Y21 seq_cst: pairs with Y20 */
    uint32_t out = tg_load_seqcst_u32(&d->calls_out);
    if (!tg_load_seqcst_u32(&d->callers_stop)) {
        if (out != 0) { /* items are on their way, or wait for their tenants */
            tg_device_pause_host(&d->call_event, seen, step, UINT64_MAX);
        } else {
            tg_count(&w->counts.sleeps);
            tg_futex_wait(&d->call_event, seen, UINT64_C(10000000000));
        }
    }
    tg_sub_seqcst_u32(&d->callers_asleep, 1);
    return tg_load_seqcst_u32(&d->call_event) != seen;
}

static void call_until_stopped(struct tg_worker *w)
{
    struct tg_device *d = w->engine->device;
    for (uint32_t looks = 0, step = 0;;) {
        uint32_t cell;
        if (tg_index_pop_mc(&d->calls, &cell)) { /* pairs with N4 */
            run_call(w, cell & TG_CELL_SLOT);
            looks = step = 0;
            continue;
        }
        if (tg_load_seqcst_u32(&d->callers_stop))
            return;
        if (++looks < LOOKS_BEFORE_PAUSE) {
            if (looks % 16 == 0)
                sched_yield();
            tg_cpu_relax();
        } else if (pause_for_calls(w, &step)) {
            looks = step = 0;
        }
    }
}

static void *caller_main(void *worker)
{
    pthread_cleanup_push(handler_left, worker);
    call_until_stopped(worker);
    pthread_cleanup_pop(0);
    return NULL;
}

int tg_device_callers_start(struct tg_engine *e)
{
    struct tg_device *d = e->device;
    int r = 0;
    pthread_mutex_lock(&d->callers_lock);
    for (uint32_t i = 1; !d->callers_started && !r && i <= d->callers; i++) {
        r = -pthread_create(&e->workers[i].thread, NULL, caller_main, &e->workers[i]);
        e->workers[i].started = r == 0;
    }
    uint32_t credit = d->callers_started ? 0 : d->callers;
    if (!r)
        d->callers_started = 1;
    pthread_mutex_unlock(&d->callers_lock);
    return r || credit == 0 ? r : tg_device_tell(e, TG_COMMAND_CREDIT, 0, &credit, 1);
}

void tg_device_callers_stop(struct tg_engine *e)
{
    struct tg_device *d = e->device;
    tg_store_seqcst_u32(&d->callers_stop, 1); /* Y22 seq_cst: before the event; pairs with Y21 */
    tg_add_seqcst_u32(&d->call_event, 1);
    tg_futex_wake_all(&d->call_event);
    tg_workers_join(e);
}
