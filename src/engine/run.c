/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs one claimed item: built-in bodies (ops.h), packed slots, fences, the debug log, LOAD_MISS, handlers.
 * It says how the body ended; finish.c makes that visible. It neither claims nor frees.
 *
 * Rules kept: E5 (fence), E6 (isolation; a reason for every fault), E9 (log).
 */
#include <string.h>

#include "engine/device_host.h"
#include "engine/internal.h"

static int fault_of(struct tg_fault *fault, uint32_t reason, uint32_t detail)
{
    tg_op_fault(fault, reason, detail);
    return TG_RAN_FAULT;
}

const struct tg_handler *tg_handler_find(struct tg_engine *e, uint32_t opcode)
{
    uint32_t i = (opcode * 2654435761u) % TG_HANDLER_HASH;
    for (;;) {
        /* R1 acquire: the handler behind the pointer; pairs with R2 in handlers.c. */
        const struct tg_handler *h = tg_load_acquire_ptr((void *const *)(void *)&e->handlers.table[i]);
        if (!h || h->opcode == opcode)
            return h;
        i = (i + 1) % TG_HANDLER_HASH;
    }
}

uint32_t tg_opcode_kind(struct tg_engine *e, uint32_t opcode, const struct tg_handler **ret_handler)
{
    *ret_handler = NULL;
    if (opcode < TG_OP_FIRST_USER)
        return opcode;
    switch (opcode) {
    case TG_OP_PACKED_SLOT:
        return TG_KIND_PACKED;
    case TG_OP_PRINTF:
        return TG_KIND_PRINTF;
    case TG_OP_SHUTDOWN:
        return TG_KIND_SHUTDOWN;
    case TG_OP_LOAD_MISS:
        return TG_KIND_LOAD_MISS;
    default:
        *ret_handler = tg_handler_find(e, opcode);
        return *ret_handler ? (*ret_handler)->kind : TG_KIND_UNKNOWN;
    }
}

/* Are the items in the slots before a foreign fence finished? */
bool tg_foreign_fence_done(struct tg_engine *e, uint32_t slot, uint32_t items)
{
    for (uint32_t i = slot - items; i < slot; i++) {
        /* S6: results of the item before the fence's effect. */
        uint32_t status = tg_slot_status(&e->ring[i]);
        if (status != TG_SLOT_DONE && status != TG_SLOT_FAULT && status != TG_SLOT_EMPTY)
            return false;
    }
    return true;
}

static int run_fence(struct tg_worker *w, struct tg_claimed *c, struct tg_fault *fault)
{
    struct tg_engine *e = w->engine;
    uint32_t items = c->payload.args[0];
    if (c->flags & TG_CELL_FOREIGN) {
        if (items > c->slot)
            return fault_of(fault, TG_FAULT_FENCE, items);
        if (!tg_foreign_fence_done(e, c->slot, items))
            return TG_RAN_YIELD;
    } else if ((tg_load_acquire_u32(&e->fence_of[c->slot]) & TG_FENCE_COUNT) != 0) {
        /* F3 acquire: the items' results before the fence's effect; pairs with F2. */
        return TG_RAN_YIELD;
    }
    tg_store_relaxed_u32(&e->control[TG_CONTROL_OBSERVABLE_BASE], c->payload.args[1]); /* O1 */
    /* O3 acq_rel: the tag before the epoch; a host reads EPOCH with acquire. */
    tg_add_acqrel_u32(&e->control[TG_CONTROL_EPOCH], 1);
    return TG_OP_FINISHED;
}

/* E9: a full log keeps what it has. The cursor is input: the host may move it.
 * Why a lock: readers take all before the cursor for whole, and a record is to be there when its item is DONE
 * (E7). So a writer cannot be let past one that stopped in the middle, with whatever means; and this is the
 * debug log. Under the lock are five stores. */
static void run_printf(struct tg_engine *e, const struct tg_claimed *c)
{
    const uint32_t record[TG_DEBUG_RECORD_WORDS] = {c->payload.args[0], c->payload.args[1],
                                                    c->payload.args[2], c->slot * TG_SLOT_WORDS};
    pthread_mutex_lock(&e->log_lock);
    uint32_t cursor = e->log_words ? tg_load_acquire_u32(&e->log[TG_DEBUG_CURSOR_WORD]) : 0;
    uint32_t room = e->log_words ? e->log_words - TG_DEBUG_RECORDS_BASE : 0;
    if (cursor > room || room - cursor < TG_DEBUG_RECORD_WORDS || cursor % TG_DEBUG_RECORD_WORDS != 0) {
        tg_add_relaxed_u64(&e->log_dropped, 1); /* C3 */
        tg_add_relaxed_u32(&e->control[TG_EXT_LOG_DROPPED], 1);
    } else {
        for (uint32_t i = 0; i < TG_DEBUG_RECORD_WORDS; i++)
            tg_store_relaxed_u32(&e->log[TG_DEBUG_RECORDS_BASE + cursor + i], record[i]);
        /* O4 release: the record before the cursor; a reader of the log acquires it. */
        tg_store_release_u32(&e->log[TG_DEBUG_CURSOR_WORD], cursor + TG_DEBUG_RECORD_WORDS);
    }
    pthread_mutex_unlock(&e->log_lock);
}

/* What a client gets back of a built-in item: the word it wrote, as it stands right after. */
static void built_in_result(struct tg_engine *e, struct tg_claimed *c)
{
    const uint32_t *a = c->payload.args;
    uint64_t word = TG_CONTROL_OBSERVABLE_BASE;
    if (c->kind == TG_OP_STORE_U32 || c->kind == TG_OP_ATOMIC_ADD)
        word = a[1];
    else if (c->kind == TG_OP_LOAD_U32)
        word += a[1];
    else if (c->kind == TG_OP_COMPARE_SWAP)
        word += a[0];
    else if (c->kind == TG_OP_DFA_STEP)
        word += a[2];
    else
        return;
    /* The body checked the same index; O1. */
    if (word >= e->control_floor && word < e->control_words)
        c->result[0] = tg_load_relaxed_u32(&e->control[word]);
}

/* Bodies made at run time, NULL: none. */
static struct tg_kernel_worker *kernel_of(struct tg_worker *w)
{
    /* U4 acquire: pairs with U3 in kernel.c. */
    return tg_load_acquire_ptr((void *const *)(void *)&w->kernel);
}

/* Its body of an opcode; an inner op of a packed slot is shown to it as an item of its own. */
static int run_kernel(struct tg_kernel_worker *kernel, const struct tg_claimed *c, uint32_t opcode,
                      const uint32_t *args, const struct tg_dfa *dfa, struct tg_fault *fault)
{
    if (args == c->payload.args)
        return tg_kernel_op(kernel, c, dfa, fault);
    struct tg_claimed inner = *c;
    inner.payload.opcode = opcode;
    memcpy(inner.payload.args, args, sizeof(inner.payload.args));
    return tg_kernel_op(kernel, &inner, dfa, fault);
}

static int run_handler(struct tg_worker *w, struct tg_claimed *c, const struct tg_handler *h,
                       const uint32_t *args, uint32_t arg_count, uint32_t *ret_resource,
                       struct tg_fault *fault)
{
    if (h->call == tg_kernel_handler) {
        const struct tg_dfa *dfa = tg_load_acquire_ptr((void *const *)(void *)&w->engine->dfa); /* R1 again */
        *ret_resource = args[0];
        return run_kernel(kernel_of(w), c, h->opcode, args, dfa, fault);
    }
    struct tg_op op = {.opcode = h->opcode,
                       .tenant = c->tenant,
                       .priority = c->level,
                       .slot = c->slot,
                       .worker = w->id,
                       .arg_count = arg_count,
                       .args = args,
                       .engine = w->engine};
    int r = h->call(h->context, &op);
    if (r < 0 || r > TG_OP_WAIT_IO)
        return fault_of(fault, TG_FAULT_HANDLER, (uint32_t)r);
    *ret_resource = op.io_resource;
    if (c->flags & TG_CELL_SERVED)
        memcpy(c->result, op.result, sizeof(c->result));
    return r;
}

static inline struct tg_view view_of(struct tg_engine *e)
{
    return (struct tg_view){e->control, e->control_words, e->control_floor,
                            tg_load_acquire_ptr((void *const *)(void *)&e->dfa)}; /* R1 again */
}

/* A body of opcodes 0 to 6. */
static inline bool run_built_in(struct tg_worker *w, struct tg_claimed *c, const struct tg_view *v,
                                uint32_t opcode, const uint32_t *args, struct tg_fault *fault)
{
    struct tg_kernel_worker *kernel = kernel_of(w);
    if (!kernel || opcode >= TG_OP_BATCH_FENCE)
        return tg_op_builtin(v, opcode, args, fault);
    return run_kernel(kernel, c, opcode, args, v->dfa, fault) == TG_OP_FINISHED;
}

/* Every inner op runs with its own arguments; what is malformed faults before the first one runs. */
static int run_packed(struct tg_worker *w, struct tg_claimed *c, struct tg_fault *fault)
{
    const struct tg_view view = view_of(w->engine);
    struct tg_packed_view packed;
    if (tg_packed_decode(c->payload.args, &packed) != 0)
        return fault_of(fault, TG_FAULT_PACKED, 0);
    for (uint32_t i = 0; i < packed.op_count; i++) {
        uint32_t args[TG_ARGS_PER_SLOT] = {0};
        const struct tg_handler *h;
        uint32_t opcode = packed.op_id[i];
        uint32_t ignored;
        for (uint32_t a = 0; a < packed.words[i]; a++)
            args[a] = c->payload.args[packed.first[i] + a];
        fault->inner_op = i;
        uint32_t kind = tg_opcode_kind(w->engine, opcode, &h);
        if (h && !h->call) /* of the device image; its operations and handlers of the host do not meet */
            return fault_of(fault, TG_FAULT_UNKNOWN_OPCODE, opcode);
        if (h) {
            int r = run_handler(w, c, h, args, packed.words[i], &ignored, fault);
            if (r == TG_RAN_FAULT)
                return r;
            /* An inner op cannot run again alone. */
            if (r != TG_OP_FINISHED)
                return fault_of(fault, TG_FAULT_PACKED, i);
        } else if (w->engine->device && (opcode != TG_OP_BATCH_FENCE || args[0] == 0)) {
            if (!tg_device_execute(w->engine, opcode, args, fault))
                return TG_RAN_FAULT;
        } else if (opcode == TG_OP_BATCH_FENCE && args[0] == 0) {
            tg_store_relaxed_u32(&w->engine->control[TG_CONTROL_OBSERVABLE_BASE], args[1]); /* O1 */
            tg_add_acqrel_u32(&w->engine->control[TG_CONTROL_EPOCH], 1);                    /* O3 */
        } else if (opcode == TG_OP_BATCH_FENCE) {
            return fault_of(fault, TG_FAULT_FENCE, args[0]); /* it would have to wait inside the slot */
        } else if (!run_built_in(w, c, &view, opcode, args, fault)) {
            return TG_RAN_FAULT;
        }
        tg_count(&w->counts.executions[kind]);
    }
    fault->inner_op = 0;
    return TG_OP_FINISHED;
}

static int run_other(struct tg_worker *w, struct tg_claimed *c, const struct tg_handler *h,
                     struct tg_fault *fault)
{
    struct tg_engine *e = w->engine;
    switch (c->kind) {
    case TG_OP_BATCH_FENCE:
        return run_fence(w, c, fault);
    case TG_KIND_PACKED:
        return run_packed(w, c, fault);
    case TG_KIND_PRINTF:
        run_printf(e, c);
        return TG_OP_FINISHED;
    case TG_KIND_SHUTDOWN:
        if (e->control_floor != 0)
            return fault_of(fault, TG_FAULT_CONTROL_DENIED, TG_CONTROL_SHUTDOWN);
        tg_store_seqcst_u32(&e->accepting, 0);                    /* G1 */
        tg_store_seqcst_u32(&e->control[TG_CONTROL_SHUTDOWN], 1); /* K10 */
        return TG_OP_FINISHED;
    case TG_KIND_LOAD_MISS:
        /* Claimed from REQUEUE: the IO side has delivered. */
        return c->from == TG_SLOT_REQUEUE ? TG_OP_FINISHED : TG_OP_WAIT_IO;
    case TG_KIND_UNKNOWN:
        return fault_of(fault, TG_FAULT_UNKNOWN_OPCODE, c->payload.opcode);
    default:
        break;
    }
    uint32_t resource = 0;
    int r = run_handler(w, c, h, c->payload.args, TG_ARGS_PER_SLOT, &resource, fault);
    if (r == TG_OP_WAIT_IO) {
        /* Only the engine's own copy is changed: where tg_io_park finds it. */
        c->payload.args[0] = resource;
        c->payload.args[1] = 0;
    }
    return r;
}

int tg_run(struct tg_worker *w, struct tg_claimed *c, struct tg_fault *fault)
{
    struct tg_engine *e = w->engine;
    int r;
    if (c->flags & TG_CELL_SERVED)
        memset(c->result, 0, sizeof(c->result));
    if (c->payload.opcode < TG_OP_BATCH_FENCE) {
        struct tg_view view = view_of(e);
        c->kind = c->payload.opcode;
        r = run_built_in(w, c, &view, c->kind, c->payload.args, fault) ? TG_OP_FINISHED : TG_RAN_FAULT;
    } else {
        const struct tg_handler *h;
        c->kind = tg_opcode_kind(e, c->payload.opcode, &h);
        r = run_other(w, c, h, fault);
    }
    if (r == TG_OP_FINISHED) {
        tg_count(&w->counts.executions[c->kind]);
        if (c->flags & TG_CELL_SERVED)
            built_in_result(e, c);
    }
    return r;
}
