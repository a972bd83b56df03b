/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands to the dispatcher and their answers, and the calls of the engine that are one: tenants, words,
 * cancellation, the IO side, the DFA table, counters. Rare ways; each costs a round trip over the bus.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "engine/device_host.h"
#include "engine/futex.h"

#define LOOKS_BEFORE_PAUSE 2000u
#define ANSWER_LIMIT_NS UINT64_C(30000000000)
#define RING (1u << TG_COMMAND_SHIFT)

static uint64_t answered(const struct tg_device *d)
{
    /* N6 acquire: the effects and results of what was answered; pairs with N5 in dispatch_command.h. */
    return tg_load_acquire_u64(&d->params.answers->commands);
}

/* Waits until that many commands were answered; false: the device is gone, or its dispatcher has not come to
 * it for longer than any item of its own may take (a copy of a whole control buffer is the longest). */
static bool await_answer(struct tg_engine *e, uint64_t number)
{
    struct tg_device *d = e->device;
    uint64_t begin = 0;
    uint32_t step = 0;
    for (uint32_t looks = 0; answered(d) < number; looks++) {
        if (looks < LOOKS_BEFORE_PAUSE) {
            tg_cpu_relax();
            continue;
        }
        if (begin == 0)
            begin = tg_clock_mono_ns();
        else if (tg_clock_mono_ns() - begin > ANSWER_LIMIT_NS)
            return false;
        uint32_t nobody = 0;
        tg_device_pause_host(&nobody, 0, &step, UINT64_MAX);
        if (step > 64 && tg_device_check(e))
            return false;
        /* Its last act: a command sent to a dispatcher that has left stays unanswered. A3 acquire. */
        if (tg_load_acquire_u32(&d->params.answers->left) != 0 && answered(d) < number)
            return false;
    }
    return true;
}

/* command_lock is held. */
static uint64_t send(struct tg_engine *e, enum tg_command command, uint32_t slot, const uint32_t *args,
                     uint32_t arg_count)
{
    struct tg_device *d = e->device;
    uint64_t number = d->ring[TG_RING_COMMANDS].tail++;
    uint32_t all[TG_ARGS_PER_SLOT] = {0};
    const uint32_t value[TG_LINE_QUARTERS] = {slot, 0, 0, (uint32_t)command};
    if (arg_count)
        memcpy(all, args, arg_count * sizeof(uint32_t));
    tg_device_write_line(&d->ring[TG_RING_COMMANDS].lines[number % RING],
                         tg_line_lap(number, TG_COMMAND_SHIFT), value, all);
    return number;
}

static bool gone(struct tg_engine *e)
{
    struct tg_device *d = e->device;
    return tg_load_acquire_u32(&d->dead) || tg_load_acquire_u32(&d->params.answers->left) != 0; /* A3 */
}

int tg_device_tell(struct tg_engine *e, enum tg_command command, uint32_t slot, const uint32_t *args,
                   uint32_t arg_count)
{
    struct tg_device *d = e->device;
    int r = 0;
    pthread_mutex_lock(&d->command_lock);
    uint64_t tail = d->ring[TG_RING_COMMANDS].tail;
    if (gone(e) || (tail >= RING && !await_answer(e, tail - RING + 1)))
        r = -EIO;
    else
        send(e, command, slot, args, arg_count);
    pthread_mutex_unlock(&d->command_lock);
    return r;
}

int tg_device_ask(struct tg_engine *e, enum tg_command command, uint32_t slot, const uint32_t *args,
                  uint32_t arg_count, struct tg_answer *ret)
{
    struct tg_device *d = e->device;
    int r = -EIO;
    pthread_mutex_lock(&d->command_lock);
    uint64_t tail = d->ring[TG_RING_COMMANDS].tail;
    if (!gone(e) && (tail < RING || await_answer(e, tail - RING + 1))) {
        uint64_t number = send(e, command, slot, args, arg_count);
        if (await_answer(e, number + 1)) {
            /* Under the lock, so that its place is not answered anew meanwhile. */
            memcpy(ret, &d->params.answers->of[number % RING], sizeof(*ret));
            r = 0;
        }
    }
    pthread_mutex_unlock(&d->command_lock);
    return r;
}

/* A control word: the device's own and the host's view of it. */
int tg_device_word(struct tg_engine *e, uint32_t word, uint32_t value)
{
    const uint32_t args[2] = {word, value};
    struct tg_answer a;
    return tg_device_ask(e, TG_COMMAND_WORD, 0, args, 2, &a);
}

void tg_device_name_opcode(struct tg_engine *e, uint32_t opcode, uint32_t kind, uint32_t cls)
{
    const uint32_t args[3] = {opcode, kind, cls};
    struct tg_answer a;
    /* A device that is gone has no bodies that might publish it. */
    if (e->device->params.born)
        (void)tg_device_ask(e, TG_COMMAND_OPCODE, 0, args, 3, &a);
}

void tg_device_born(struct tg_engine *e, uint64_t *ret_submitted, uint64_t *ret_waiting)
{
    const struct tg_answers *answers = e->device->params.answers;
    *ret_submitted = tg_load_relaxed_u64(&answers->born);
    *ret_waiting = tg_load_relaxed_u64(&answers->born_waiting);
}

/* Latencies the device measured since the last time; of more than the ring holds the latest. callers_lock is
 * held. */
static void fold_samples(struct tg_engine *e, uint32_t level)
{
    struct tg_device *d = e->device;
    const uint32_t room = 1u << TG_SAMPLE_SHIFT;
    const uint64_t *samples = d->params.samples + ((size_t)level << TG_SAMPLE_SHIFT);
    uint64_t end = tg_load_relaxed_u64(&d->params.answers->samples[level]); /* M3: behind an answer (N5) */
    if (end - d->samples_read[level] > room)
        d->samples_read[level] = end - room;
    for (; d->samples_read[level] < end; d->samples_read[level]++) {
        uint64_t s = tg_load_relaxed_u64(&samples[d->samples_read[level] % room]); /* M2 */
        uint32_t kind = (uint32_t)(s >> 37) & 511u;
        if (kind < TG_KINDS)
            tg_latency_record(&e->workers[0], level, (uint32_t)(s >> 46) & 31u, kind, s & TG_SAMPLE_NS);
    }
}

/* What host threads executed goes into the control words of the ABI. callers_lock is held. */
static void post_callers(struct tg_engine *e)
{
    uint32_t handlers = tg_load_acquire_u32(&e->handlers.count); /* R1 */
    for (uint32_t kind = 0; kind < TG_KIND_FIRST_HANDLER + handlers; kind++) {
        uint32_t opcode = kind;
        if (kind >= TG_KIND_FIRST_HANDLER)
            opcode = e->handlers.by_kind[kind - TG_KIND_FIRST_HANDLER]->opcode;
        else if (kind >= TG_OP_FIRST_USER)
            continue;
        if (opcode >= TG_CONTROL_METRICS_SLOTS)
            continue;
        uint64_t now = 0;
        uint32_t first = kind < TG_OP_FIRST_USER ? 1 : 0; /* built-in ones of worker 0 the device posts */
        for (uint32_t i = first; i < e->worker_count; i++)
            now += tg_load_relaxed_u64(&e->workers[i].counts.executions[kind]); /* C2 */
        uint64_t *posted = &e->workers[e->worker_count - 1].posted.executions[kind];
        const uint32_t args[2] = {TG_CONTROL_METRICS_BASE + opcode, (uint32_t)(now - *posted)};
        if (now == *posted)
            continue;
        *posted = now;
        tg_device_tell(e, TG_COMMAND_ADD, 0, args, 2);
    }
}

void tg_device_sync(struct tg_engine *e)
{
    struct tg_device *d = e->device;
    const struct tg_answers *answers = d->params.answers;
    struct tg_answer a;
    pthread_mutex_lock(&d->callers_lock);
    if (!gone(e) && tg_device_ask(e, TG_COMMAND_SYNC, 0, NULL, 0, &a) == 0) {
        post_callers(e);
        if (tg_device_ask(e, TG_COMMAND_SYNC, 0, NULL, 0, &a) != 0)
            tg_device_check(e);
    }
    for (uint32_t level = 0; level < TG_PRIORITY_LEVELS; level++)
        fold_samples(e, level);
    /* C3 relaxed: statistics, written by the device before its answer (N5). */
    tg_store_relaxed_u64(&e->cancelled, tg_load_relaxed_u64(&answers->cancelled));
    tg_store_relaxed_u64(&e->handed_back, tg_load_relaxed_u64(&answers->handed_back) +
                                              tg_load_relaxed_u64(&d->late_handed_back));
    tg_store_relaxed_u64(&e->log_dropped, tg_load_relaxed_u64(&answers->log_dropped));
    pthread_mutex_unlock(&d->callers_lock);
}

static void over(struct tg_engine *e, bool call)
{
    if (call)
        tg_sub_seqcst_u32(&e->device->calls_out, 1); /* Y20 again */
}

int tg_device_cancel(struct tg_engine *e, const struct tg_item *t)
{
    const uint32_t args[2] = {(uint32_t)t->generation, (uint32_t)(t->generation >> 32)};
    struct tg_answer a;
    bool call = tg_device_is_call(e, t->slot);
    int r = tg_device_ask(e, TG_COMMAND_CANCEL, t->slot, args, 2, &a);
    if (r)
        return tg_engine_poll(e, t) == -EINPROGRESS ? -EBUSY : -EALREADY;
    if (a.result == 0)
        over(e, call);
    return a.result;
}

int tg_device_set_dfa(struct tg_engine *e, const uint32_t *table, uint32_t states)
{
    struct tg_device *d = e->device;
    struct tg_answer a;
    uint32_t *copy = NULL;
    size_t bytes = (size_t)states * TG_DFA_COLUMNS * sizeof(uint32_t);
    if (states) {
        /* Before the table a row of which word 0 is the number of states: workers get both by one pointer. */
        const size_t row = TG_DFA_COLUMNS * sizeof(uint32_t);
        copy = d->link->device_memory(d->state, row + bytes);
        if (!copy)
            return -ENOMEM;
        int r = d->link->upload(d->state, copy, &states, sizeof(states));
        copy += TG_DFA_COLUMNS;
        if (!r)
            r = d->link->upload(d->state, copy, table, bytes);
        if (r)
            return r;
    }
    const uint32_t args[3] = {(uint32_t)(uintptr_t)copy, (uint32_t)((uint64_t)(uintptr_t)copy >> 32), states};
    return tg_device_ask(e, TG_COMMAND_DFA, 0, args, 3, &a);
}

int tg_device_io_complete(struct tg_engine *e, const struct tg_item *t, int error)
{
    const uint32_t args[3] = {(uint32_t)t->generation, (uint32_t)(t->generation >> 32), (uint32_t)error};
    struct tg_answer a;
    bool call = tg_device_is_call(e, t->slot);
    int r = tg_device_ask(e, TG_COMMAND_IO, t->slot, args, 3, &a);
    if (r)
        return -EALREADY;
    if (a.result == 0 && error != 0)
        over(e, call);
    return a.result;
}
