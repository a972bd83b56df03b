/* SPDX-License-Identifier: Apache-2.0
 *
 * What the host asks of the dispatcher, one command a line of the command ring, carried out in order between
 * two rounds, while the ender stands still: tenants, words, cancellation, the ends of what host threads ran,
 * counters, the drain (E8). Part of the dispatcher (dispatch.h). Each command is answered; the answer comes
 * after its effects (N5).
 */
#ifndef TG_ENGINE_DISPATCH_COMMAND_H
#define TG_ENGINE_DISPATCH_COMMAND_H

#include "engine/dispatch_decide.h"

/* Errors of the answers; the numbers of Linux. */
#define TG_SAYS_BUSY (-16)
#define TG_SAYS_ALREADY (-114)
#define TG_SAYS_INVALID (-22)

#define TG_LOOKS_FOR_LINE 16u
#define TG_LOOKS_BEHIND 4u

struct tg_said {
    int32_t result;
    uint32_t value;
    struct tg_fault fault;
};

TG_DEVICE uint64_t tg_joined(uint32_t low, uint32_t high)
{
    return (uint64_t)high << 32 | low;
}

TG_DEVICE struct tg_taken tg_held(const struct tg_device_params *p, uint32_t slot)
{
    uint32_t kept = p->kept[slot];
    struct tg_taken t = {slot, tg_level_of(kept), tg_tenant_of(kept), tg_class_of(kept), kept, true};
    return t;
}

/* Takes cancelled items off the head of a queue whose tenant may not claim: nobody else comes by. */
TG_DEVICE void tg_prune(struct tg_warp w, uint32_t level, uint32_t tenant)
{
    const struct tg_device_params *p = tg_params();
    struct tg_shared *s = tg_state();
    uint32_t q = level * TG_TENANTS + tenant;
    const uint64_t *cells = p->cells + ((uint64_t)q << p->queue_shift);
    while (s->head[q] != s->tail[q]) {
        struct tg_taken t = tg_held(p, (uint32_t)cells[s->head[q] & p->queue_mask]);
        if (1u << tg_status_of(t.kept) & TG_FROM_CLAIM)
            return;
        tg_warp_sync();
        if (w.lane == 0) {
            s->head[q]++;
            s->queued--;
            if (s->head[q] == s->tail[q])
                s->ready[level] &= ~(1u << tenant);
            /* tg_drop_dead gives back what a claim took; nothing was taken here. */
            if (s->quota[tenant] < TG_TENANT_QUOTA_UNLIMITED - 1)
                s->quota[tenant]--;
            if (t.cls == TG_CLASS_HOST)
                s->credit--;
        }
        tg_warp_sync();
        tg_drop_dead(w, w.lane == 0, &t);
    }
}

/* Until the line of this use of a slot is in a queue; false: it does not come. */
TG_DEVICE bool tg_await_line(struct tg_warp w, uint32_t slot, uint64_t generation)
{
    struct tg_shared *s = tg_state();
    uint32_t seen = tg_heard(w, &s->looks); /* H2 */
    for (;;) {
        struct tg_news news = tg_listen(w);
        uint32_t levels = news.lanes & TG_LEVELS_ALL;
        tg_file(w, &news, levels);
        bool there =
            tg_warp_shfl(
                w.lane == 0 && tg_load_relaxed_u64(&tg_params()->generation[slot]) >= generation ? 1u : 0u,
                0) != 0;
        if (there)
            return true;
        uint32_t now = tg_heard(w, &s->looks);                                                  /* H2 */
        uint32_t more = tg_warp_shfl(w.lane == 0 ? tg_block_load_relaxed_u32(&s->more) : 0, 0); /* B9 */
        if (levels || more)
            seen = now;
        else if (now - seen > TG_LOOKS_FOR_LINE)
            return false;
        tg_warp_idle();
    }
}

TG_DEVICE_CALL int32_t tg_do_cancel(struct tg_warp w, uint32_t slot, uint64_t generation)
{
    const struct tg_device_params *p = tg_params();
    if (slot >= p->slots)
        return TG_SAYS_INVALID;
    /* The item's line was written before this command's, but one look reads the rings in no order. */
    if (!tg_await_line(w, slot, generation))
        return TG_SAYS_ALREADY; /* no such item */
    struct tg_taken t = tg_held(p, slot);
    uint32_t status = tg_status_of(t.kept);
    if (tg_load_relaxed_u64(&p->generation[slot]) != generation)
        return TG_SAYS_ALREADY;
    if (status == TG_SLOT_CLAIMED)
        return TG_SAYS_BUSY;
    if (!(1u << status & TG_FROM_CANCEL))
        return TG_SAYS_ALREADY;
    tg_warp_sync();
    bool queued = 1u << status & TG_FROM_CLAIM;
    bool parked = status == TG_SLOT_YIELD && p->fence_left[slot] != 0;
    if (w.lane == 0) {
        p->kept[slot] = tg_with_status(t.kept, TG_SLOT_EMPTY) | (parked ? TG_KEPT_ORPHAN : 0);
        tg_write_bad_end(p, slot, TG_SLOT_EMPTY, 0);
        tg_sys_store_release_u32(&p->ring[slot].status, TG_SLOT_EMPTY); /* S5 */
        tg_state()->cancelled++;
        if (queued && !parked)
            tg_state()->dead++;
    }
    tg_warp_sync();
    tg_fence_count(w, w.lane == 0 && (t.kept & TG_KEPT_BATCHED), slot);
    if (!queued)
        tg_free(w, w.lane == 0, slot, tg_with_status(t.kept, TG_SLOT_EMPTY));
    else if (!parked && !(tg_state()->allowed >> t.tenant & 1u))
        tg_prune(w, t.level, t.tenant);
    return 0;
}

TG_DEVICE void tg_requeue_taken(struct tg_warp w, const struct tg_taken *t)
{
    uint32_t kept = tg_with_status(t->kept, TG_SLOT_REQUEUE);
    if (w.lane == 0) {
        tg_params()->kept[t->slot] = kept;
        tg_sys_store_release_u32(&tg_params()->ring[t->slot].status, TG_SLOT_REQUEUE); /* S4 */
    }
    tg_queue(w, w.lane == 0, t->slot, kept);
}

/* Files what the host published before this command, as far as a few looks bring it: who opens a gate expects
 * that the most urgent of it is next. */
TG_DEVICE void tg_catch_up(struct tg_warp w)
{
    struct tg_shared *s = tg_state();
    uint32_t from = tg_heard(w, &s->looks); /* H2 */
    for (bool last = false;;) {
        struct tg_news news = tg_listen(w);
        tg_file(w, &news, news.lanes & TG_LEVELS_ALL);
        if (last)
            return;
        uint32_t looks = tg_heard(w, &s->looks) - from;                                         /* H2 */
        uint32_t more = tg_warp_shfl(w.lane == 0 ? tg_block_load_relaxed_u32(&s->more) : 0, 0); /* B9 */
        last = looks > TG_LOOKS_BEHIND && (more == 0 || looks > 2 * TG_LOOKS_BEHIND);
        if (!last)
            tg_warp_idle();
    }
}

/* A host thread has run an item: a0 result, a1..3 fault, a4 its opcode. */
TG_DEVICE_CALL int32_t tg_do_ended(struct tg_warp w, uint32_t slot, const uint32_t *a)
{
    if (slot >= tg_params()->slots)
        return TG_SAYS_INVALID;
    struct tg_taken t = tg_held(tg_params(), slot);
    struct tg_fault fault = {a[1], a[2], a[3]};
    uint32_t kind = tg_kind_of(t.kept);
    tg_catch_up(w);
    if (w.lane == 0) {
        tg_state()->credit++;
        tg_state()->flights--;
    }
    tg_warp_sync();
    if (a[0] == TG_OP_REQUEUE) {
        tg_bump_relaxed_u64(&tg_params()->counts->requeues, w.lane == 0 ? 1 : 0);
        tg_requeue_taken(w, &t);
    } else if (a[0] == TG_OP_WAIT_IO) {
        tg_hand_over(w, w.lane == 0, &t, TG_SLOT_WAIT_IO, &tg_params()->io, &tg_state()->io_tail);
    } else {
        tg_end(w, w.lane == 0, &t, a[0] != TG_OP_FINISHED, &fault, kind, false, true);
    }
    return 0;
}

TG_DEVICE_CALL int32_t tg_do_io(struct tg_warp w, uint32_t slot, uint64_t generation, uint32_t error)
{
    if (slot >= tg_params()->slots)
        return TG_SAYS_INVALID;
    struct tg_taken t = tg_held(tg_params(), slot);
    if (tg_status_of(t.kept) != TG_SLOT_WAIT_IO ||
        tg_load_relaxed_u64(&tg_params()->generation[slot]) != generation)
        return TG_SAYS_ALREADY;
    tg_warp_sync();
    if (error == 0) {
        tg_requeue_taken(w, &t);
        return 0;
    }
    struct tg_fault fault = {TG_FAULT_IO, error, 0};
    tg_end(w, w.lane == 0, &t, true, &fault, tg_kind_of(t.kept), false, true);
    return 0;
}

/* One lane: the commands that touch words. */
TG_DEVICE_CALL void tg_do_word(uint32_t command, uint32_t opcode, const uint32_t *a, struct tg_said *said)
{
    const struct tg_device_params *p = tg_params();
    if (command == TG_COMMAND_EXECUTE) {
        if (opcode == TG_OP_BATCH_FENCE)
            tg_fence_effect(p, a[1]);
        else if (!tg_builtin_alone(opcode, a, &said->fault))
            said->result = -1;
        return;
    }
    if (a[0] >= p->control_words) {
        said->result = TG_SAYS_INVALID;
        return;
    }
    said->value = tg_load_relaxed_u32(&p->control[a[0]]);
    tg_word_store(p, a[0], command == TG_COMMAND_ADD ? said->value + a[1] : a[1]);
    if (a[0] < TG_CONTROL_TENANT_FAIRNESS_BASE)
        tg_authority_read(p, tg_state());
}

/* What the host may know of the items of bodies, of all that was published until now: before the answer (N5).
 */
TG_DEVICE_CALL void tg_born_publish(struct tg_warp w)
{
    const struct tg_device_params *p = tg_params();
    struct tg_shared *s = tg_state();
    if (!p->born)
        return;
    uint32_t ask = s->born_ask + 1;
    tg_warp_sync();
    if (w.lane == 0) {
        tg_block_store_release_u32(&s->born_ask, ask); /* H1 */
        s->born_dirty = s->flights ? s->born_dirty : 0;
    }
    tg_warp_sync();
    while (tg_heard(w, &s->born_answer) != ask &&
           !tg_heard(w, &s->leaving)) /* H2: the scout waits for nobody */
        tg_warp_idle();
    uint32_t news = tg_heard(w, &s->born_news) - s->born_seen; /* H2 */
    if (news)
        tg_born_listen(w, news);
    uint64_t waits = tg_born_left();
    /* At the end the scout has left, and nobody publishes any more who is home. */
    bool settled = tg_heard(w, &s->leaving) ? s->flights == 0 : tg_born_settled(w);      /* H2 */
    if (w.lane == 0) {                                                                   /* M3 relaxed, too */
        tg_sys_store_relaxed_u64(&p->answers->born, tg_load_relaxed_u64(p->born_count)); /* K5 */
        tg_sys_store_relaxed_u64(&p->answers->born_waiting, waits);
        tg_sys_store_relaxed_u32(&p->answers->born_left, waits || !settled ? 1 : 0);
    }
    tg_warp_sync();
}

/* dispatch_watch.h */
TG_DEVICE_CALL uint32_t tg_watch(struct tg_warp w, uint32_t looks);
TG_DEVICE_CALL void tg_abandon_all(struct tg_warp w, uint32_t looks);

TG_DEVICE_CALL void tg_command(struct tg_warp w)
{
    const struct tg_device_params *p = tg_params();
    struct tg_shared *s = tg_state();
    uint32_t a[TG_ARGS_PER_SLOT];
    struct tg_said said = {0, 0, {0, 0, 0}};
    tg_args_of(s->command.word, a);
    uint32_t slot = s->command.word[0] >> TG_LINE_VALUE_SHIFT;
    uint32_t command = s->command.word[12] >> TG_LINE_VALUE_SHIFT;
    uint64_t number = s->commands;
    tg_warp_sync();
    if (w.lane == 0) /* B3: the line was read */
        tg_block_store_release_u32(&s->commands_taken, s->commands_taken + 1);
    tg_hold(w);
    switch (command) {
    case TG_COMMAND_SYNC:
        tg_born_publish(w);
        tg_counts_publish(w, true);
        break;
    case TG_COMMAND_CANCEL:
        said.result = tg_do_cancel(w, slot, tg_joined(a[0], a[1]));
        break;
    case TG_COMMAND_ENDED:
        said.result = tg_do_ended(w, slot, a);
        break;
    case TG_COMMAND_IO:
        said.result = tg_do_io(w, slot, tg_joined(a[0], a[1]), a[2]);
        break;
    case TG_COMMAND_BODIES:
        said.value = p->watch ? tg_watch(w, a[0]) : 0;
        if (said.value)
            tg_abandon_all(w, a[0]);
        if (said.value && w.lane == 0)
            s->overrun = 1;
        break;
    default:
        if (w.lane == 0) {
            if (command == TG_COMMAND_CREDIT)
                s->credit += a[0];
            else if (command == TG_COMMAND_DRAIN)
                s->draining = 1;
            else if (command == TG_COMMAND_OPCODE)
                tg_born_register(p, a[0], a[1], a[2]);
            else if (command == TG_COMMAND_DFA) {
                s->dfa.table = (const uint32_t *)tg_joined(a[0], a[1]);
                s->dfa.states = a[2];
                tg_store_release_u64(p->dfa, tg_joined(a[0], a[1])); /* D1 release: pairs with D2 */
            } else
                tg_do_word(command, slot, a, &said);
        }
        break;
    }
    tg_warp_sync();
    tg_free_flush(w, true); /* so that who asks finds slots free that ended before */
    if (w.lane == 0) {
        uint32_t at = (uint32_t)number & ((1u << TG_COMMAND_SHIFT) - 1u);
        tg_sys_store_relaxed_u32((uint32_t *)&p->answers->of[at].result, (uint32_t)said.result);
        tg_sys_store_relaxed_u32(&p->answers->of[at].value, said.value);
        tg_sys_store_relaxed_u32(&p->answers->of[at].fault[0], said.fault.reason);
        tg_sys_store_relaxed_u32(&p->answers->of[at].fault[1], said.fault.detail);
        tg_sys_store_relaxed_u32(&p->answers->of[at].fault[2], said.fault.inner_op);
        s->commands = number + 1;
        /* N5 release: the command's effects; pairs with N6 in device_command.c. */
        tg_sys_store_release_u64(&p->answers->commands, number + 1);
    }
    tg_warp_sync();
    if (!s->overrun) /* else the decider leaves, and nothing more may end */
        tg_let_go(w);
}

/* Hands back everything that did not run: the last act of a drain. */
TG_DEVICE_CALL void tg_hand_back_all(struct tg_warp w)
{
    const struct tg_device_params *p = tg_params();
    for (uint32_t from = 0; from < p->slots; from += TG_LANES) {
        uint32_t slot = from + w.lane;
        uint32_t kept = slot < p->slots ? p->kept[slot] : 0;
        bool held = (kept & TG_KEPT_HELD) != 0; /* cancelled ones too, whose entry nobody has met */
        bool waits = held && 1u << tg_status_of(kept) & TG_FROM_CANCEL;
        if (waits) {
            kept = tg_with_status(kept, TG_SLOT_EMPTY) & ~TG_KEPT_ORPHAN;
            tg_write_bad_end(p, slot, TG_SLOT_EMPTY, 0);
            tg_sys_store_release_u32(&p->ring[slot].status, TG_SLOT_EMPTY); /* S5 */
        }
        uint32_t n = tg_bits(tg_warp_ballot(waits));
        if (w.lane == 0)
            tg_state()->handed_back += n;
        tg_free(w, held, slot, kept);
    }
    uint64_t born = p->born ? tg_born_left() : 0;
    if (w.lane == 0)
        tg_state()->handed_back += born;
    tg_warp_sync();
    for (uint32_t ring = w.lane; p->born && ring < TG_BORN_RINGS; ring += TG_LANES)
        tg_state()->born_head[ring] = tg_block_load_relaxed_u32(&tg_state()->born_tail[ring]); /* B10 */
    tg_warp_sync();
}

#endif
