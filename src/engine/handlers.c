/* SPDX-License-Identifier: Apache-2.0
 * The table of user opcodes and of the DFA, and the observable words handlers may touch. Workers look
 * without a lock; a replaced record is kept until close, because one may just be looking. */
#include <errno.h>
#include <stdlib.h>

#include "engine/device_host.h"
#include "engine/internal.h"

static int insert(struct tg_engine *e, struct tg_handler *h)
{
    struct tg_handlers *t = &e->handlers;
    uint32_t i = (h->opcode * 2654435761u) % TG_HANDLER_HASH;
    while (t->table[i] && t->table[i]->opcode != h->opcode)
        i = (i + 1) % TG_HANDLER_HASH;
    struct tg_handler *old = t->table[i];
    if (!old && t->count == TG_MAX_HANDLERS)
        return -ENOSPC;
    if (old) {
        h->kind = old->kind;
        old->next_replaced = t->replaced;
        t->replaced = old;
    } else {
        h->kind = TG_KIND_FIRST_HANDLER + t->count;
    }
    if (e->device) /* R3 relaxed: before any line that names the kind */
        tg_store_relaxed_u32(&e->device->kinds[h->kind], h->opcode);
    if (e->device && h->opcode < TG_INNER_OPCODES) /* R3 */
        tg_store_relaxed_u32(&e->device->inner_kind[h->opcode], h->kind);
    tg_store_release_ptr((void **)(void *)&t->by_kind[h->kind - TG_KIND_FIRST_HANDLER], h);
    /* R2 release: the record behind the pointer; pairs with R1 in run.c. */
    tg_store_release_ptr((void **)(void *)&t->table[i], h);
    if (!old)
        tg_store_release_u32(&t->count, t->count + 1); /* R2, for statistics */
    return 0;
}

static int add(struct tg_engine *e, uint32_t opcode, tg_op_handler handler, void *context, uint32_t cls)
{
    struct tg_handler *h = calloc(1, sizeof(*h));
    if (!h)
        return -ENOMEM;
    h->opcode = opcode;
    h->call = handler;
    h->context = context;
    h->device_class = cls;
    pthread_mutex_lock(&e->handlers.lock);
    int r = insert(e, h);
    if (!r && e->device) /* in the order of the registrations, also where two replace one at a time */
        tg_device_name_opcode(e, opcode, h->kind, cls);
    pthread_mutex_unlock(&e->handlers.lock);
    if (r)
        free(h);
    return r;
}

int tg_engine_register(struct tg_engine *e, uint32_t opcode, tg_op_handler handler, void *context)
{
    if (!handler || !tg_opcode_is_user(opcode))
        return -EINVAL;
    int started = e->device ? tg_device_callers_start(e) : 0;
    return started ? started : add(e, opcode, handler, context, TG_CLASS_HOST);
}

int tg_engine_register_device(struct tg_engine *e, uint32_t opcode, enum tg_device_shape shape)
{
    bool known = shape == TG_DEVICE_LANE || shape == TG_DEVICE_WARP || shape == TG_DEVICE_BLOCK;
    if (!tg_opcode_is_user(opcode) || !known)
        return -EINVAL;
    return e->device ? add(e, opcode, NULL, NULL, (uint32_t)shape) : -ENOTSUP;
}

int tg_engine_set_dfa(struct tg_engine *e, const uint32_t *table, uint32_t states)
{
    if ((table == NULL) != (states == 0))
        return -EINVAL;
    if (e->device)
        return tg_device_set_dfa(e, table, states);
    struct tg_dfa *dfa = calloc(1, sizeof(*dfa));
    if (!dfa)
        return -ENOMEM;
    dfa->table = table;
    dfa->states = states;
    pthread_mutex_lock(&e->handlers.lock);
    dfa->replaced = e->dfa;
    tg_store_release_ptr((void **)(void *)&e->dfa, dfa); /* R2 again */
    pthread_mutex_unlock(&e->handlers.lock);
    return 0;
}

static uint32_t *observable(struct tg_engine *e, uint32_t index)
{
    if (index >= e->control_words - TG_CONTROL_OBSERVABLE_BASE)
        return NULL;
    return &e->control[TG_CONTROL_OBSERVABLE_BASE + index];
}

int tg_engine_observable_load(struct tg_engine *e, uint32_t index, uint32_t *ret_value)
{
    uint32_t *word = observable(e, index);
    if (!word)
        return -EFAULT;
    *ret_value = tg_load_acquire_u32(word); /* O1; acquire for hosts that read EPOCH and its tag */
    return 0;
}

int tg_engine_observable_store(struct tg_engine *e, uint32_t index, uint32_t value)
{
    uint32_t *word = observable(e, index);
    if (!word)
        return -EFAULT;
    if (e->device)
        return tg_device_word(e, TG_CONTROL_OBSERVABLE_BASE + index, value);
    tg_store_release_u32(word, value); /* O1 */
    return 0;
}

int tg_engine_observable_add(struct tg_engine *e, uint32_t index, uint32_t value, uint32_t *ret_before)
{
    uint32_t *word = observable(e, index);
    if (!word)
        return -EFAULT;
    const uint32_t args[2] = {TG_CONTROL_OBSERVABLE_BASE + index, value};
    struct tg_answer a;
    int r = e->device ? tg_device_ask(e, TG_COMMAND_ADD, 0, args, 2, &a) : 0;
    if (r)
        return r;
    uint32_t before = e->device ? a.value : tg_add_acqrel_u32(word, value); /* O1 */
    if (ret_before)
        *ret_before = before;
    return 0;
}

void tg_handlers_close(struct tg_engine *e)
{
    for (uint32_t i = 0; i < e->handlers.count; i++)
        free(e->handlers.by_kind[i]);
    while (e->handlers.replaced) {
        struct tg_handler *next = e->handlers.replaced->next_replaced;
        free(e->handlers.replaced);
        e->handlers.replaced = next;
    }
    while (e->dfa) {
        struct tg_dfa *next = e->dfa->replaced;
        free(e->dfa);
        e->dfa = next;
    }
}
