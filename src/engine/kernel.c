/* SPDX-License-Identifier: Apache-2.0
 *
 * A kernel made at run time, at work: its bodies in the place of the engine's own (tg_engine_use_kernel), and
 * its whole loop alone (tg_kernel_lane). It compiles nothing and loads nothing.
 *
 * Rules kept: E6 (a restricted engine takes restricted kernels only; every index is checked in the text), and
 * the engine's own around it.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/internal.h"
#include "engine/kernel.h"

/* ---- Within an engine --------------------------------------------------------------------------------- */

int tg_kernel_handler(void *context, struct tg_op *op)
{
    (void)context;
    (void)op;
    return -ENOSYS; /* run.c sees whose it is and calls tg_kernel_op */
}

static void bind_dfa(struct tg_kernel_worker *k, const struct tg_dfa *dfa)
{
    uint64_t words = dfa && dfa->table ? (uint64_t)dfa->states * TG_DFA_COLUMNS : 0;
    /* The program only reads it: the validator refuses stores to dfa. */
    k->env.words[TG_IR_DFA] = words ? (uint32_t *)(uintptr_t)dfa->table : NULL;
    k->env.count[TG_IR_DFA] = words > UINT32_MAX ? UINT32_MAX : (uint32_t)words;
}

static int open_machine(const struct tg_kernel *kernel, struct tg_ir_node root,
                        const struct tg_kernel_env *env, struct tg_ir_machine **ret)
{
    struct tg_ir_memory memory = {{0}, {0}};
    memcpy(memory.words, env->words, sizeof(memory.words));
    memcpy(memory.count, env->count, sizeof(memory.count));
    struct tg_ir_machine_options o = {
        .lanes = env->lanes, .groups = env->groups, .memory = &memory, .concurrent = true};
    return tg_ir_machine_open(&kernel->ir, root, &o, ret);
}

/* The item program, interpreted. */
static uint32_t interpret(const struct tg_kernel *kernel, struct tg_kernel_worker *k)
{
    uint32_t value = TG_IR_FAULT | TG_FAULT_HANDLER;
    if (k->machine && k->machine_dfa != k->env.words[TG_IR_DFA]) {
        tg_ir_machine_close(k->machine);
        k->machine = NULL;
    }
    if (!k->machine && open_machine(kernel, kernel->item_root, &k->env, &k->machine) != 0) {
        k->machine = NULL;
        return value;
    }
    k->machine_dfa = k->env.words[TG_IR_DFA];
    tg_ir_machine_reset(k->machine);
    while (tg_ir_machine_step(k->machine, 0) > 0)
        ;
    tg_ir_machine_value(k->machine, 0, &value);
    return value;
}

static int ended(uint32_t value, bool user, struct tg_fault *fault)
{
    switch (value) {
    case TG_IR_REQUEUE:
        if (user)
            return TG_OP_REQUEUE;
        break;
    case TG_IR_WAIT_IO:
        if (user)
            return TG_OP_WAIT_IO;
        break;
    default:
        break;
    }
    uint32_t reason = value & ~TG_IR_FAULT;
    bool known = (value & TG_IR_FAULT) != 0 && reason > TG_FAULT_NONE && reason <= TG_FAULT_REFUSED;
    if (known && (!user || reason == TG_FAULT_OUT_OF_BOUNDS))
        tg_op_fault(fault, reason, 0);
    else
        tg_op_fault(fault, TG_FAULT_HANDLER, value);
    return TG_RAN_FAULT;
}

int tg_kernel_op(struct tg_kernel_worker *k, const struct tg_claimed *c, const struct tg_dfa *dfa,
                 struct tg_fault *fault)
{
    const struct tg_kernel *kernel = k->kernel;
    bool user = c->payload.opcode >= TG_OP_FIRST_USER;
    uint32_t value;
    if (user || c->payload.opcode == TG_OP_DFA_STEP)
        bind_dfa(k, dfa);
    if (kernel->item) {
        /* The program only reads it. */
        k->env.words[kernel->item_buffer] = (uint32_t *)(uintptr_t)c;
        value = kernel->item(&k->env);
    } else {
        k->item = *c;
        value = interpret(kernel, k);
    }
    return value == TG_IR_DONE ? TG_OP_FINISHED : ended(value, user, fault);
}

static struct tg_kernel_worker *worker_side(struct tg_engine *e, const struct tg_kernel *kernel, uint32_t id,
                                            const struct tg_ir_memory *memory)
{
    struct tg_kernel_worker *k = aligned_alloc(64, (sizeof(*k) + 63) / 64 * 64);
    if (!k)
        return NULL;
    memset(k, 0, sizeof(*k));
    k->kernel = kernel;
    struct tg_kernel_env *env = &k->env;
    env->size = sizeof(*env);
    env->lane = id;
    env->lanes = e->worker_count;
    env->groups = 1;
    for (uint32_t i = TG_IR_FIRST_USER_BUFFER; memory && i < TG_IR_MAX_BUFFERS; i++) {
        env->words[i] = memory->words[i];
        env->count[i] = memory->words[i] ? memory->count[i] : 0;
    }
    env->words[TG_IR_RING] = &e->ring[0].status;
    env->count[TG_IR_RING] = e->slots * TG_SLOT_WORDS;
    env->words[TG_IR_CONTROL] = e->control;
    env->count[TG_IR_CONTROL] = e->control_words;
    env->words[TG_IR_OBSERVABLE] = e->control + TG_CONTROL_OBSERVABLE_BASE;
    env->count[TG_IR_OBSERVABLE] = e->control_words - TG_CONTROL_OBSERVABLE_BASE;
    env->words[TG_IR_LOG] = e->log_words ? e->log : NULL;
    env->count[TG_IR_LOG] = e->log_words;
    env->words[kernel->item_buffer] = (uint32_t *)(void *)&k->item;
    env->count[kernel->item_buffer] = TG_ITEM_WORDS;
    return k;
}

static void free_side(struct tg_kernel_worker *k)
{
    if (k)
        tg_ir_machine_close(k->machine);
    free(k);
}

void tg_engine_drop_kernel(struct tg_engine *e)
{
    for (uint32_t i = 0; e->workers && i < e->worker_count; i++)
        free_side(e->workers[i].kernel);
    if (e->kernel)
        tg_sub_acqrel_u32(&e->kernel->users, 1); /* U1 acq_rel: the last use before it; pairs with U2 */
}

int tg_engine_use_kernel(struct tg_engine *e, struct tg_kernel *kernel, const struct tg_ir_memory *memory)
{
    if (e->device) /* its bodies run where the words are, and are there from the start */
        return -ENOTSUP;
    if (kernel->image)
        return -EINVAL;
    if (kernel->unrestricted && e->control_floor != 0)
        return -EPERM;
    /* R1 acquire: a count that only grows. One that is registered by now and replaced is counted twice. */
    if (tg_load_acquire_u32(&e->handlers.count) + kernel->opcode_count > TG_MAX_HANDLERS)
        return -ENOSPC;
    struct tg_kernel_worker **side = calloc(e->worker_count, sizeof(struct tg_kernel_worker *));
    int r = side ? 0 : -ENOMEM;
    for (uint32_t i = 0; !r && i < e->worker_count; i++) {
        side[i] = worker_side(e, kernel, i, memory);
        r = side[i] ? 0 : -ENOMEM;
    }
    pthread_mutex_lock(&e->resize_lock);
    if (!r && e->kernel)
        r = -EBUSY;
    if (!r) {
        tg_add_acqrel_u32(&kernel->users, 1); /* U1 */
        e->kernel = kernel;
        for (uint32_t i = 0; i < e->worker_count; i++) {
            /* U3 release: what is behind the pointer; pairs with U4 in run.c. */
            tg_store_release_ptr((void **)(void *)&e->workers[i].kernel, side[i]);
            side[i] = NULL;
        }
    }
    pthread_mutex_unlock(&e->resize_lock);
    for (uint32_t i = 0; side && i < e->worker_count; i++)
        free_side(side[i]);
    free(side);
    for (uint32_t i = 0; !r && i < kernel->opcode_count; i++)
        r = tg_engine_register(e, kernel->opcodes[i], tg_kernel_handler, kernel);
    return r;
}

/* ---- Alone -------------------------------------------------------------------------------------------- */

/* What the default pause remembers: claims seen, and pauses since they last changed. */
struct rest {
    const uint32_t *control;
    uint32_t claims, pauses;
};

static void rest(void *context)
{
    struct rest *s = context;
    uint32_t claims = 0;
    for (uint32_t i = 0; i < TG_CONTROL_PRIORITY_FAIRNESS_SLOTS; i++)
        claims += tg_load_relaxed_u32(&s->control[TG_CONTROL_PRIORITY_FAIRNESS_BASE + i]); /* X1 */
    s->pauses = claims == s->claims ? s->pauses + 1 : 0;
    s->claims = claims;
    if (s->pauses < 64) {
        tg_cpu_relax();
    } else if (s->pauses < 256) {
        sched_yield();
    } else {
        const struct timespec ts = {0, s->pauses < 1024 ? 20000 : 100000};
        nanosleep(&ts, NULL);
    }
}

static bool sound(const struct tg_kernel *kernel, const struct tg_kernel_env *env)
{
    if (env->size != sizeof(*env) || env->lanes == 0 || env->groups == 0 || env->lane >= env->lanes ||
        env->group >= env->groups || env->count[TG_IR_CONTROL] < TG_CONTROL_MIN_WORDS ||
        env->count[TG_IR_RING] / TG_SLOT_WORDS < kernel->slots)
        return false;
    for (uint32_t i = 0; i < TG_IR_MAX_BUFFERS; i++)
        if ((env->count[i] != 0 && !env->words[i]) || (uintptr_t)env->words[i] % sizeof(uint32_t))
            return false;
    return true;
}

int tg_kernel_lane(struct tg_kernel *kernel, const struct tg_kernel_env *given, uint32_t *ret_value)
{
    if (kernel->image || !sound(kernel, given))
        return -EINVAL;
    struct tg_kernel_env env = *given;
    struct rest idle = {env.words[TG_IR_CONTROL], 0, 0};
    if (!env.pause) {
        env.pause = rest;
        env.context = &idle;
    }
    if (kernel->lane) {
        *ret_value = kernel->lane(&env);
        return 0;
    }
    struct tg_ir_machine *machine;
    int r = open_machine(kernel, kernel->lane_root, &env, &machine);
    if (r)
        return r;
    uint32_t lane = env.group * env.lanes + env.lane;
    while (tg_ir_machine_step(machine, lane) > 0)
        ;
    r = tg_ir_machine_value(machine, lane, ret_value);
    tg_ir_machine_close(machine);
    return r;
}
