/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffers of the caller beside a device engine: a foreign host publishes into its ring by the ABI, reads its
 * control buffer and its log, and writes there. A device can take part in none of that: no compare-and-swap
 * crosses the bus, and the control words it works on are its own. So these buffers are the host's alone, and
 * one thread stands between the two:
 *   - it claims foreign slots (S2) in place of the device, gives it the same slot number of the engine's own
 *     ring, and when that has ended writes the status into the caller's slot (S3);
 *   - it keeps control buffer and log in step with the engine's, before such a status (E7) and otherwise
 *     every poll_us. What it finds changed in the caller's control buffer since it last wrote there, the
 *     host has written, and it tells the device.
 *
 * Rules kept: E1 (a slot is claimed once, and looked at again only when device and engine have let go of it),
 * E2, E3 (by the dispatcher, among what was taken up), E4 (tenant and priority are read again from the
 * claimed slot; no more of a tenant is taken up than its quota, so what may not run stays PUBLISHED), E5, E7,
 * E8.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/device_host.h"
#include "engine/futex.h"
#include "engine/open.h"

#define FIRST_PAUSE_US 20u
#define LOOKS_BEFORE_PAUSE 64u
#define LOOKS_PER_CHECK 64u /* is the device still there? */

/* A foreign slot in the engine's hands. */
enum { AT_HOST = 0, AT_DEVICE, AT_IO };

struct tg_device_foreign {
    struct tg_slot *ring;         /* the caller's, or NULL */
    uint32_t *control, *log;      /* likewise */
    uint32_t log_words, log_from; /* words of the caller's log, and where its records began */
    uint32_t *seen;               /* of control, as both last were */
    uint8_t *at;                  /* of each slot: AT_... */
    uint32_t *freed;  /* of each slot: 1: the device has let go of it; by whoever pops its free cell */
    uint32_t *flying; /* slots that are not AT_HOST */
    uint32_t flights, parked, of_tenant[TG_TENANTS];
    bool told_shutdown;
    pthread_t thread;
    bool started;
    uint32_t finish; /* 1: take up what may run, wait for its end, then be done; 2: leave */
    uint32_t done;   /* its futex */
};

/* ---- Control buffer and log ---------------------------------------------------------------------------- */

static bool ends_a_step(uint32_t word)
{
    return word == TG_CONTROL_EPOCH || word == TG_EXT_FAULT_COUNT; /* after what they announce: O3, X1 */
}

static void sync_word(struct tg_engine *e, uint32_t word, uint32_t ours)
{
    struct tg_device_foreign *f = e->device->foreign;
    uint32_t theirs = tg_load_acquire_u32(&f->control[word]); /* G3 acquire: pairs with the host's store */
    if (theirs != f->seen[word]) {
        f->seen[word] = theirs; /* by the host */
        if (word != TG_CONTROL_SHUTDOWN)
            tg_device_word(e, word, theirs);
    } else if (ours != theirs && tg_cas_acqrel_u32(&f->control[word], &theirs, ours)) {
        f->seen[word] = ours;
    }
}

static void sync_control(struct tg_engine *e)
{
    struct tg_device_foreign *f = e->device->foreign;
    if (!f->control)
        return;
    /* G4 acquire: what they announce is there when the others are read. */
    uint32_t epoch = tg_load_acquire_u32(&e->control[TG_CONTROL_EPOCH]);
    uint32_t faults = tg_load_acquire_u32(&e->control[TG_EXT_FAULT_COUNT]);
    for (uint32_t i = 0; i < e->control_words; i++)
        if (!ends_a_step(i))
            sync_word(e, i, tg_load_relaxed_u32(&e->control[i])); /* G4 */
    sync_word(e, TG_EXT_FAULT_COUNT, faults);
    sync_word(e, TG_CONTROL_EPOCH, epoch);
}

/* Records are appended to those that the caller's log had. */
static void sync_log(struct tg_engine *e)
{
    struct tg_device_foreign *f = e->device->foreign;
    if (!f->log)
        return;
    uint32_t end = tg_load_acquire_u32(&e->log[TG_DEBUG_CURSOR_WORD]); /* O4 acquire: the records before it */
    uint32_t at = tg_load_relaxed_u32(&f->log[TG_DEBUG_CURSOR_WORD]) - f->log_from;
    if (at >= end)
        return; /* nothing new, or moved by the host */
    for (; at < end; at++)
        tg_store_relaxed_u32(&f->log[TG_DEBUG_RECORDS_BASE + f->log_from + at],
                             tg_load_relaxed_u32(&e->log[TG_DEBUG_RECORDS_BASE + at]));
    tg_store_release_u32(&f->log[TG_DEBUG_CURSOR_WORD], f->log_from + end); /* O4 again */
}

/* ---- Slots --------------------------------------------------------------------------------------------- */

bool tg_device_foreign_freed(struct tg_engine *e, uint32_t slot)
{
    if (!tg_is_foreign(e, slot))
        return false;
    tg_store_release_u32(&e->device->foreign->freed[slot], 1); /* J1 again: pairs with J2 in ended */
    return true;
}

void tg_device_foreign_parks(struct tg_engine *e, uint32_t slot)
{
    if (tg_is_foreign(e, slot))
        tg_slot_try_hand_back(&e->device->foreign->ring[slot], TG_SLOT_WAIT_IO);
}

/* The words of a fault that never reached the device. */
static void fault_here(struct tg_engine *e, uint32_t slot, uint32_t reason)
{
    const uint32_t one[2] = {TG_EXT_FAULT_COUNT, 1};
    struct tg_answer a;
    tg_device_word(e, TG_EXT_FAULT_SLOT, slot);
    tg_device_word(e, TG_EXT_FAULT_REASON, reason);
    tg_device_ask(e, TG_COMMAND_ADD, 0, one, 2, &a);
    tg_add_relaxed_u64(&e->outside_faults, 1); /* C3 */
    sync_control(e);
}

/* A tenant outside the table, a priority above 4: never claimed. */
static bool refuse(struct tg_engine *e, uint32_t slot)
{
    struct tg_slot *s = &e->device->foreign->ring[slot];
    uint32_t status = tg_slot_status(s); /* S6 */
    uint32_t reason = !tg_tenant_in_table(tg_load_relaxed_u32(&s->tenant))      ? TG_FAULT_TENANT
                      : tg_load_relaxed_u32(&s->priority) >= TG_PRIORITY_LEVELS ? TG_FAULT_PRIORITY
                                                                                : 0; /* P2 */
    if (reason == 0)
        return false;
    /* S5: only this use. */
    if (tg_status_in(status, TG_FROM_CLAIM) && tg_cas_acqrel_u32(&s->status, &status, TG_SLOT_FAULT))
        fault_here(e, slot, reason);
    return true;
}

/* Of what the device knows, which learnt what the host has written. */
static bool may_claim(const struct tg_engine *e, uint32_t tenant)
{
    uint32_t quota = tg_load_relaxed_u32(&e->control[TG_CONTROL_TENANT_QUOTA_BASE + tenant]); /* A2 */
    uint32_t mask = tg_load_relaxed_u32(&e->control[TG_CONTROL_TENANT_MASKS + tenant]);
    return tg_tenant_may_claim(mask, quota) &&
           (quota == TG_TENANT_QUOTA_UNLIMITED || e->device->foreign->of_tenant[tenant] < quota);
}

/* A fence is taken up when the slots before it have ended; until then it yields. */
static bool fence_waits(struct tg_engine *e, uint32_t slot, uint32_t items)
{
    const struct tg_device_foreign *f = e->device->foreign;
    for (uint32_t i = slot - items; i < slot; i++) {
        uint32_t status = tg_slot_status(&f->ring[i]); /* S6: results of the item before the fence's effect */
        if (status != TG_SLOT_DONE && status != TG_SLOT_FAULT && status != TG_SLOT_EMPTY)
            return true;
    }
    return false;
}

static void fly(struct tg_engine *e, uint32_t slot, const struct tg_slot_payload *p)
{
    struct tg_device_foreign *f = e->device->foreign;
    f->at[slot] = AT_DEVICE;
    f->flying[f->flights++] = slot;
    f->of_tenant[p->tenant]++;
    tg_store_relaxed_u32(&f->freed[slot], 0); /* before the line (N1) */
    tg_device_publish_foreign(e, slot, p);
}

/* True when it was taken up, or ended here. */
static bool take_up(struct tg_engine *e, uint32_t slot)
{
    struct tg_device_foreign *f = e->device->foreign;
    struct tg_slot *s = &f->ring[slot];
    struct tg_slot_payload p;
    uint32_t from;
    if (refuse(e, slot))
        return true;
    uint32_t tenant = tg_load_relaxed_u32(&s->tenant); /* P2; read again below */
    if (!tg_tenant_in_table(tenant) || !may_claim(e, tenant))
        return false;
    if (tg_load_relaxed_u32(&s->opcode) == TG_OP_BATCH_FENCE && tg_slot_status(s) == TG_SLOT_YIELD) {
        uint32_t items = tg_load_relaxed_u32(&s->args[0]);
        if (items <= slot && fence_waits(e, slot, items))
            return false;
    }
    if (!tg_slot_try_claim(s, &from))
        return false;
    tg_slot_read_payload(s, &p);
    if (!tg_tenant_in_table(p.tenant) || p.priority >= TG_PRIORITY_LEVELS || !may_claim(e, p.tenant)) {
        tg_slot_try_hand_back(s, TG_SLOT_REQUEUE); /* published anew meanwhile: the next pass decides */
        return false;
    }
    if (p.opcode == TG_OP_BATCH_FENCE && p.args[0] > slot) {
        uint32_t claimed = TG_SLOT_CLAIMED;
        fault_here(e, slot, TG_FAULT_FENCE);
        return tg_cas_seqcst_u32(&s->status, &claimed, TG_SLOT_FAULT);
    }
    if (p.opcode == TG_OP_BATCH_FENCE && fence_waits(e, slot, p.args[0])) {
        tg_slot_try_hand_back(s, TG_SLOT_YIELD);
        return false;
    }
    if (p.opcode == TG_OP_BATCH_FENCE)
        p.args[0] = 0; /* its items have ended */
    fly(e, slot, &p);
    return true;
}

static uint32_t take_up_all(struct tg_engine *e)
{
    const struct tg_device_foreign *f = e->device->foreign;
    uint32_t found = 0;
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++) {
        uint32_t first = e->level[l].first + e->level[l].own;
        for (uint32_t slot = first; slot < first + e->foreign_slots[l]; slot++)
            if (f->at[slot] == AT_HOST && tg_slot_is_claimable(&f->ring[slot]))
                found += take_up(e, slot);
    }
    return found;
}

/* The caller's slot becomes what the engine's is. True: it is the host's again. */
static bool bring_back(struct tg_engine *e, uint32_t slot)
{
    struct tg_device_foreign *f = e->device->foreign;
    struct tg_slot *s = &f->ring[slot];
    uint32_t status = tg_slot_status(&e->ring[slot]); /* S6 */
    uint32_t claimed = TG_SLOT_CLAIMED, waits = TG_SLOT_WAIT_IO;
    if (status == TG_SLOT_WAIT_IO && f->at[slot] == AT_DEVICE) {
        tg_device_foreign_parks(e, slot);
        f->at[slot] = AT_IO;
        f->parked++;
    }
    bool ended = status == TG_SLOT_DONE || status == TG_SLOT_FAULT || status == TG_SLOT_EMPTY;
    /* J2 acquire: nobody else has it in hand; pairs with J1. A device that died has nothing in hand. */
    if (!ended || (!tg_load_acquire_u32(&f->freed[slot]) && !tg_load_acquire_u32(&e->device->dead) &&
                   !tg_load_acquire_u32(&e->device->params.answers->left))) /* A3, A4 */
        return false;
    if (f->at[slot] == AT_IO)
        f->parked--;
    f->at[slot] = AT_HOST;
    f->of_tenant[tg_load_relaxed_u32(&e->ring[slot].tenant)]--;
    /* S3; the host may have cancelled or faulted it, or published it anew, and nobody else claims here. */
    if (!tg_cas_seqcst_u32(&s->status, &claimed, status))
        tg_cas_seqcst_u32(&s->status, &waits, status);
    return true;
}

/* Of those that the device is done with; control and log first. */
static bool bring_back_all(struct tg_engine *e)
{
    struct tg_device_foreign *f = e->device->foreign;
    bool any = false;
    uint32_t kept = 0;
    tg_device_reap(e);
    for (uint32_t i = 0; i < f->flights && !any; i++) {
        uint32_t status = tg_slot_status(&e->ring[f->flying[i]]);
        any = status != TG_SLOT_PUBLISHED && status != TG_SLOT_CLAIMED;
    }
    if (!any)
        return false;
    sync_log(e);
    sync_control(e);
    any = false;
    for (uint32_t i = 0; i < f->flights; i++) {
        if (bring_back(e, f->flying[i]))
            any = true;
        else
            f->flying[kept++] = f->flying[i];
    }
    f->flights = kept;
    return any;
}

/* ---- The thread ---------------------------------------------------------------------------------------- */

static bool host_says_shutdown(struct tg_engine *e)
{
    struct tg_device_foreign *f = e->device->foreign;
    if (!f->control || f->seen[TG_CONTROL_SHUTDOWN] == 0)
        return false;
    tg_store_seqcst_u32(&e->accepting, 0); /* G1 */
    return true;
}

static void foreign_pause(struct tg_engine *e, uint32_t event, uint32_t looks, uint32_t *pause_us)
{
    const struct tg_device_foreign *f = e->device->foreign;
    if (f->flights != f->parked && looks < LOOKS_BEFORE_PAUSE) {
        sched_yield();
        return;
    }
    tg_futex_wait(&e->poller_event, event, *pause_us * UINT64_C(1000));
    if (f->flights != f->parked && looks % LOOKS_PER_CHECK == 0)
        tg_device_check(e);
    *pause_us = *pause_us * 2 < e->poll_us ? *pause_us * 2 : e->poll_us;
}

static void *foreign_main(void *engine)
{
    struct tg_engine *e = engine;
    struct tg_device_foreign *f = e->device->foreign;
    uint32_t pause_us = FIRST_PAUSE_US;
    uint32_t looks = 0;
    for (;;) {
        uint32_t event = tg_load_seqcst_u32(&e->poller_event); /* E1 seq_cst: pairs with E2 */
        uint32_t finish = tg_load_seqcst_u32(&f->finish);
        bool shutdown = host_says_shutdown(e);
        bool dead = tg_load_acquire_u32(&e->device->dead) != 0;         /* A4 */
        bool takes = f->ring && !dead && !f->done && !f->told_shutdown; /* both are set here alone */
        bool moved = bring_back_all(e);
        moved |= takes && take_up_all(e) != 0;
        sync_log(e);
        sync_control(e);
        if (moved) {
            pause_us = FIRST_PAUSE_US;
            looks = 0;
            continue;
        }
        if (finish == 2)
            return NULL;
        bool over = f->flights == f->parked;
        if (over && shutdown && !f->told_shutdown) {
            f->told_shutdown = true;
            tg_device_tell(e, TG_COMMAND_DRAIN, 0, NULL, 0);
        }
        if (over && finish == 1 && !tg_load_seqcst_u32(&f->done)) {
            tg_store_seqcst_u32(&f->done, 1); /* its futex */
            tg_futex_wake_all(&f->done);
        }
        foreign_pause(e, event, ++looks, &pause_us);
    }
}

/* ---- Opening, ending ----------------------------------------------------------------------------------- */

static void say(struct tg_engine *e, uint32_t what)
{
    tg_store_seqcst_u32(&e->device->foreign->finish, what);
    tg_engine_kick(e);
}

int tg_device_foreign_finish(struct tg_engine *e, uint64_t start, uint64_t timeout_ns)
{
    struct tg_device_foreign *f = e->device->foreign;
    if (!f || !f->started)
        return 0;
    say(e, 1);
    while (!tg_load_seqcst_u32(&f->done)) {
        uint64_t spent = tg_clock_mono_ns() - start;
        if (spent >= timeout_ns)
            return -ETIMEDOUT;
        tg_futex_wait(&f->done, 0, timeout_ns - spent);
    }
    return 0;
}

static void foreign_stop(struct tg_engine *e)
{
    struct tg_device_foreign *f = e->device->foreign;
    if (!f || !f->started)
        return;
    say(e, 2);
    pthread_join(f->thread, NULL);
    f->started = false;
}

uint32_t tg_device_foreign_end(struct tg_engine *e)
{
    struct tg_device_foreign *f = e->device->foreign;
    uint32_t handed_back = 0;
    if (!f)
        return 0;
    foreign_stop(e); /* which brought back what waited for IO */
    for (uint32_t l = 0; f->ring && l < TG_PRIORITY_LEVELS; l++) {
        uint32_t first = e->level[l].first + e->level[l].own;
        for (uint32_t slot = first, from; slot < first + e->foreign_slots[l]; slot++)
            if (tg_status_in(tg_slot_status(&f->ring[slot]), TG_FROM_CANCEL) && !refuse(e, slot))
                handed_back += tg_slot_try_cancel(&f->ring[slot], &from);
    }
    sync_log(e);
    sync_control(e);
    return handed_back;
}

int tg_device_foreign_lay(struct tg_engine *e, const struct tg_engine_options *o)
{
    if (!o->ring && !o->control && !o->log)
        return 0;
    struct tg_device_foreign *f = calloc(1, sizeof(*f));
    if (!f)
        return -ENOMEM;
    e->device->foreign = f;
    f->ring = o->ring;
    f->control = o->control;
    f->log = o->log;
    f->at = calloc(e->slots, sizeof(*f->at));
    f->freed = calloc(e->slots, sizeof(*f->freed));
    f->flying = calloc(e->slots, sizeof(*f->flying));
    f->seen = calloc(e->control_words, sizeof(*f->seen));
    if (!f->at || !f->freed || !f->flying || !f->seen)
        return -ENOMEM;
    for (uint32_t i = 0; f->control && i < e->control_words; i++)
        f->seen[i] = tg_load_relaxed_u32(&f->control[i]);
    f->log_words = (uint32_t)(o->log_bytes / TG_WORD_BYTES);
    if (f->log)
        f->log_from = tg_load_relaxed_u32(&f->log[TG_DEBUG_CURSOR_WORD]);
    return 0;
}

int tg_device_foreign_start(struct tg_engine *e)
{
    struct tg_device_foreign *f = e->device->foreign;
    if (!f)
        return 0;
    sync_control(e); /* the cut of the partitions */
    int r = -pthread_create(&f->thread, NULL, foreign_main, e);
    f->started = r == 0;
    return r;
}

void tg_device_foreign_free(struct tg_engine *e)
{
    struct tg_device_foreign *f = e->device->foreign;
    if (!f)
        return;
    foreign_stop(e);
    free(f->at);
    free(f->freed);
    free(f->flying);
    free(f->seen);
    free(f);
    e->device->foreign = NULL;
}

void tg_device_foreign_buffers(const struct tg_engine *e, const void **ring, const void **control,
                               const void **log, size_t *log_bytes)
{
    const struct tg_device_foreign *f = e->device->foreign;
    if (!f)
        return;
    if (f->ring && ring)
        *ring = f->ring;
    if (f->control && control)
        *control = f->control;
    if (f->log && log)
        *log = f->log;
    if (f->log && log_bytes)
        *log_bytes = (size_t)f->log_words * TG_WORD_BYTES;
}
