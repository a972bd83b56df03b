/* SPDX-License-Identifier: Apache-2.0
 * The tickets in memory: rank order, indexes and sums, against a plain model (A1, S8, O13). */
#include <sys/types.h>

#include "broker/queue.h"
#include "check.h"

static struct tg_ticket *ticket(uint64_t id, int64_t prio, enum tg_ticket_state state)
{
    struct tg_ticket *t = tg_ticket_new("tenant", "cmd", "/", "");
    CHECK(t);
    t->id = id;
    t->owner.pid = (pid_t)(1000 + id);
    t->prio = prio;
    t->state = state;
    t->slots = 1;
    return t;
}

static void map_finds_what_was_put(void)
{
    struct tg_map m = {0};
    uint64_t seed = 7;
    static int there[4096];
    memset(there, 0, sizeof(there));
    CHECK_EQ(tg_map_put(&m, 0, &m), -22);
    CHECK(!tg_map_get(&m, 5));
    for (int i = 0; i < 200000; i++) {
        uint64_t key = check_random(&seed) % 4095 + 1;
        if (check_random(&seed) % 2) {
            CHECK_EQ(tg_map_put(&m, key, &there[key]), 0);
            there[key] = 1;
        } else {
            tg_map_remove(&m, key);
            there[key] = 0;
        }
        uint64_t look = check_random(&seed) % 4095 + 1;
        CHECK(tg_map_get(&m, look) == (there[look] ? &there[look] : NULL));
    }
    size_t n = 0;
    for (int i = 0; i < 4096; i++)
        n += (size_t)there[i];
    CHECK_EQ(m.used, n);
    tg_map_done(&m);
}

static void s8_negative_priorities_keep_their_sign(void)
{
    struct tg_queue q = {0};
    struct tg_ticket *zero = ticket(1, 0, TG_WAIT);
    struct tg_ticket *minus = ticket(2, -5, TG_WAIT);
    struct tg_ticket *five = ticket(3, 5, TG_WAIT);
    struct tg_ticket *least = ticket(4, INT64_MIN, TG_WAIT);
    struct tg_ticket *most = ticket(5, INT64_MAX, TG_WAIT);
    struct tg_ticket *all[] = {zero, minus, five, least, most};
    for (int i = 0; i < 5; i++)
        CHECK_EQ(tg_queue_add(&q, all[i]), 0);
    CHECK(q.waiters[0] == most && q.waiters[1] == five && q.waiters[2] == zero && q.waiters[3] == minus &&
          q.waiters[4] == least);
    tg_queue_done(&q);
}

static void one_ticket_an_owner_and_an_id(void)
{
    struct tg_queue q = {0};
    struct tg_ticket *a = ticket(1, 0, TG_WAIT);
    struct tg_ticket *same_id = ticket(1, 0, TG_HOLD);
    struct tg_ticket *same_pid = ticket(2, 0, TG_HOLD);
    same_id->owner.pid = 77;
    same_pid->owner.pid = a->owner.pid;
    CHECK_EQ(tg_queue_add(&q, a), 0);
    CHECK_EQ(tg_queue_add(&q, same_id), -17);
    CHECK_EQ(tg_queue_add(&q, same_pid), -17);
    CHECK_EQ(tg_queue_count(&q), 1);
    CHECK(!tg_queue_by_pid(&q, 0) && !tg_queue_by_pid(&q, -1) && !tg_queue_by_id(&q, 0));
    tg_ticket_free(same_id);
    tg_ticket_free(same_pid);
    tg_queue_done(&q);
}

#define N 300

/* Everything the queue says, from the tickets alone. */
static void validate(const struct tg_queue *q, struct tg_ticket *const *all)
{
    uint64_t slots = 0, promised = 0, heavy = 0, zero = 0;
    size_t waiting = 0, holding = 0, parked = 0, aside = 0;
    for (int i = 0; i < N; i++) {
        const struct tg_ticket *t = all[i];
        if (!t)
            continue;
        CHECK(tg_queue_by_id(q, t->id) == t && tg_queue_by_pid(q, t->owner.pid) == t);
        waiting += t->state == TG_WAIT && !t->on_hold;
        aside += t->state == TG_WAIT && t->on_hold;
        parked += t->state == TG_PARKED;
        holding += t->state == TG_HOLD;
        if (t->state == TG_HOLD) {
            slots += t->slots;
            promised += t->est_mb;
            heavy += t->est_mb > q->heavy_above_mb;
            CHECK(q->holders[t->place] == t);
        }
        if (t->state == TG_PARKED)
            CHECK(q->parked[t->place] == t);
        if (t->state == TG_WAIT && t->on_hold)
            CHECK(q->aside[t->place] == t);
        if (t->state == TG_WAIT && !t->on_hold) {
            zero += t->slots == 0;
            CHECK(q->waiters[tg_queue_ahead(q, t)] == t);
        }
    }
    CHECK(q->n_waiters == waiting && q->n_holders == holding && q->n_parked == parked && q->n_aside == aside);
    CHECK_EQ(tg_queue_count(q), waiting + aside + holding + parked);
    CHECK(q->slots_held == slots && q->promised_mb == promised && q->heavy_holders == heavy &&
          q->zero_slot_waiters == zero);
    for (size_t i = 1; i < q->n_waiters; i++) {
        const struct tg_ticket *a = q->waiters[i - 1], *b = q->waiters[i];
        CHECK(tg_rank_compare(a->prio, a->id, b->prio, b->id) < 0);
    }
}

static void o13_any_history_keeps_order_and_sums(void)
{
    struct tg_queue q = {0};
    static struct tg_ticket *all[N];
    uint64_t seed = 99;
    tg_queue_set_heavy(&q, 6000);
    for (int i = 0; i < 20000; i++) {
        uint64_t r = check_random(&seed);
        uint64_t k = r % N;
        enum tg_ticket_state state = (enum tg_ticket_state)(1 + (r >> 20) % 3);
        if (!all[k]) {
            all[k] = ticket(k + 1, (int64_t)((r >> 32) % 5) - 2, state);
            all[k]->est_mb = (r >> 24) % 9000;
            all[k]->slots = (uint32_t)((r >> 40) % 3);
            CHECK_EQ(tg_queue_add(&q, all[k]), 0);
        } else if ((r >> 16) % 4 == 0) {
            tg_queue_remove(&q, all[k]);
            tg_ticket_free(all[k]);
            all[k] = NULL;
        } else if ((r >> 16) % 4 == 1) {
            tg_queue_set_request(&q, all[k], (int64_t)((r >> 32) % 5) - 2, (r >> 24) % 9000, all[k]->slots);
        } else if ((r >> 16) % 4 == 2) {
            tg_queue_set_hold(&q, all[k], (r >> 44) % 2);
        } else {
            tg_queue_set_state(&q, all[k], state);
        }
        if (i % 1000 == 0)
            tg_queue_set_heavy(&q, (r >> 30) % 9000);
        if (i % 50 == 0)
            validate(&q, all);
    }
    validate(&q, all);
    tg_queue_done(&q);
}

/* The arrows of ticket.h and no others; what is on hold is never admitted. */
static void o13_no_other_transitions(void)
{
    static const enum tg_ticket_state states[] = {TG_WAIT, TG_PARKED, TG_HOLD};
    struct tg_ticket *t = ticket(1, 0, TG_WAIT);
    for (int i = 0; i < 3 * 3 * 4; i++) {
        t->state = states[i % 3];
        enum tg_ticket_state to = states[i / 3 % 3];
        t->acked = i / 9 % 2;
        t->on_hold = i / 18;
        bool allowed = (t->state == TG_WAIT && to == TG_PARKED) || (t->state == TG_PARKED && to == TG_WAIT) ||
                       (t->state == TG_WAIT && to == TG_HOLD && !t->on_hold) ||
                       (t->state == TG_HOLD && to == TG_PARKED && !t->acked);
        CHECK_EQ(tg_ticket_may_become(t, to), allowed);
    }
    tg_ticket_free(t);
}

int main(void)
{
    RUN(map_finds_what_was_put);
    RUN(s8_negative_priorities_keep_their_sign);
    RUN(one_ticket_an_owner_and_an_id);
    RUN(o13_any_history_keeps_order_and_sums);
    RUN(o13_no_other_transitions);
    return 0;
}
