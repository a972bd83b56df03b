/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a device that did not end well: a thread that has the dispatcher look for bodies which do not
 * return (options.device_body_limit_ms), and the report of what ran when a device faulted or was given up.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine/device_host.h"
#include "engine/futex.h"

#define LOOKS 4u /* a limit */
#define NS_PER_MS UINT64_C(1000000)

static void *watch_main(void *engine)
{
    struct tg_engine *e = engine;
    struct tg_device *d = e->device;
    const uint32_t args[1] = {LOOKS};
    while (!tg_load_seqcst_u32(&d->watch_stop)) {
        struct tg_answer a;
        tg_futex_wait(&d->watch_stop, 0, d->body_limit_ms * NS_PER_MS / LOOKS);
        if (tg_load_seqcst_u32(&d->watch_stop) || tg_device_ask(e, TG_COMMAND_BODIES, 0, args, 1, &a) != 0 ||
            a.value == 0)
            continue;
        for (uint32_t step = 0; !tg_device_check(e) && !tg_load_seqcst_u32(&d->watch_stop);)
            tg_device_pause_host(&d->watch_stop, 0, &step, UINT64_MAX);
    }
    return NULL;
}

int tg_device_watch_start(struct tg_engine *e)
{
    struct tg_device *d = e->device;
    if (d->body_limit_ms == 0)
        return 0;
    int r = -pthread_create(&d->watcher, NULL, watch_main, e);
    d->watches = r == 0;
    return r;
}

void tg_device_watch_stop(struct tg_engine *e)
{
    struct tg_device *d = e->device;
    if (!d->watches)
        return;
    tg_store_seqcst_u32(&d->watch_stop, 1); /* its futex */
    tg_futex_wake_all(&d->watch_stop);
    pthread_join(d->watcher, NULL);
    d->watches = false;
}

static uint32_t state_of(struct tg_device *d)
{
    uint32_t left = tg_load_acquire_u32(&d->params.answers->left); /* A3 */
    if (left == 1 + TG_LEFT_OVERRUN)
        return TG_DEVICE_OVERRAN;
    if (left == 1 + TG_LEFT_LIMIT)
        return TG_DEVICE_EXPIRED;
    if (left == 1 + TG_LEFT_DRAINED)
        return TG_DEVICE_ENDED;
    return tg_load_acquire_u32(&d->dead) ? TG_DEVICE_FAULTED : TG_DEVICE_RUNS; /* A4 */
}

int tg_engine_device_report(struct tg_engine *e, struct tg_device_report *ret, struct tg_item *ret_items,
                            uint32_t capacity)
{
    struct tg_device *d = e->device;
    if (!d)
        return -ENOTSUP;
    memset(ret, 0, sizeof(*ret));
    tg_device_check(e);
    ret->state = state_of(d);
    if (ret->state == TG_DEVICE_FAULTED)
        ret->error = d->link->error ? d->link->error(d->state, ret->text, sizeof(ret->text)) : -EIO;
    for (uint32_t s = 0; ret->state != TG_DEVICE_RUNS && s < e->slots; s++) {
        struct tg_item t = {tg_load_acquire_u64(&e->bad[s].generation), s, 0};
        struct tg_fault fault;
        if (t.generation == 0 || tg_engine_fault(e, &t, &fault) != 0 ||
            (fault.reason != TG_FAULT_DEVICE && fault.reason != TG_FAULT_TIMEOUT))
            continue;
        if (ret->in_flight < capacity)
            ret_items[ret->in_flight] = t;
        ret->in_flight++;
    }
    return 0;
}
