/* SPDX-License-Identifier: Apache-2.0
 * See queue.h. The waiters are a sorted array: the place of a ticket is a binary search, a pass over the
 * queue is a walk over an array, and the memmove of an insertion costs less than the store's write beside
 * it (80 kB for 10,000 waiters). */
#include "broker/queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

size_t tg_queue_count(const struct tg_queue *q)
{
    return q->n_waiters + q->n_holders + q->n_parked + q->n_aside;
}

/* How many waiters go before a place. */
static size_t before(const struct tg_queue *q, const struct tg_rank *place)
{
    size_t low = 0;
    size_t high = q->n_waiters;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct tg_rank rank = tg_ticket_rank(q->waiters[middle]);
        if (tg_rank_order(&rank, place) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

size_t tg_queue_ahead(const struct tg_queue *q, const struct tg_ticket *t)
{
    const struct tg_rank place = tg_ticket_rank(t);
    return before(q, &place);
}

static int by_rank(const void *a, const void *b)
{
    const struct tg_rank x = tg_ticket_rank(*(struct tg_ticket *const *)a);
    const struct tg_rank y = tg_ticket_rank(*(struct tg_ticket *const *)b);
    return tg_rank_order(&x, &y);
}

static int by_arrival(const void *a, const void *b)
{
    const struct tg_ticket *x = *(struct tg_ticket *const *)a;
    const struct tg_ticket *y = *(struct tg_ticket *const *)b;
    return x->id < y->id ? -1 : x->id > y->id;
}

static void sort(struct tg_queue *q, int (*compare)(const void *a, const void *b))
{
    if (q->n_waiters > 1)
        qsort(q->waiters, q->n_waiters, sizeof(struct tg_ticket *), compare);
}

/* The round of the first waiter of a level, or 0. */
static uint64_t first_round(const struct tg_queue *q, int64_t level)
{
    const struct tg_rank least = {.level = level};
    size_t at = before(q, &least);
    return at < q->n_waiters && q->waiters[at]->level == level ? q->waiters[at]->round : 0;
}

/* Where ageing has brought it, and when it is to be looked at again. */
static void age(struct tg_queue *q, struct tg_ticket *t)
{
    uint64_t waited = tg_sat_sub_u64(q->now_ms, t->asked_boot_ms);
    uint64_t next = tg_sat_add_u64(t->asked_boot_ms, tg_rank_ages_at(waited, q->ageing_ms));
    int64_t level = tg_rank_aged(t->prio, waited, q->ageing_ms);
    if (next < q->next_age_ms)
        q->next_age_ms = next;
    if (level == t->level)
        return;
    t->level = level;
    t->round = 0; /* that was another level's */
}

static void waiters_insert(struct tg_queue *q, struct tg_ticket *t)
{
    if (tg_turns_settle_for(&q->turns, t))
        sort(q, by_rank);
    tg_turns_enter(&q->turns, t, first_round(q, t->level));
    size_t at = tg_queue_ahead(q, t);
    memmove(q->waiters + at + 1, q->waiters + at, (q->n_waiters - at) * sizeof(*q->waiters));
    q->waiters[at] = t;
    q->n_waiters++;
    q->zero_slot_waiters += t->slots == 0;
}

static void waiters_remove(struct tg_queue *q, struct tg_ticket *t, bool starts)
{
    size_t at = tg_queue_ahead(q, t);
    bool was_first = at == 0 || q->waiters[at - 1]->level != t->level;
    q->n_waiters--;
    memmove(q->waiters + at, q->waiters + at + 1, (q->n_waiters - at) * sizeof(*q->waiters));
    q->zero_slot_waiters -= t->slots == 0;
    tg_turns_leave(&q->turns, t, starts, was_first);
}

/* Those who have gained a level stand in another one from now on. */
static bool age_all(struct tg_queue *q)
{
    bool changed = false;
    struct tg_ticket_list risen = TAILQ_HEAD_INITIALIZER(risen);
    struct tg_ticket *t;
    q->next_age_ms = UINT64_MAX;
    for (size_t i = 0; i < q->n_waiters;) {
        t = q->waiters[i];
        uint64_t waited = tg_sat_sub_u64(q->now_ms, t->asked_boot_ms);
        if (tg_rank_aged(t->prio, waited, q->ageing_ms) == t->level) {
            age(q, t);
            i++;
            continue;
        }
        waiters_remove(q, t, false);
        TAILQ_INSERT_TAIL(&risen, t, in_line);
    }
    while ((t = TAILQ_FIRST(&risen)) != NULL) {
        TAILQ_REMOVE(&risen, t, in_line);
        age(q, t);
        waiters_insert(q, t);
        changed = true;
    }
    return changed;
}

bool tg_queue_settle(struct tg_queue *q, uint64_t now_ms)
{
    bool aged = false;
    q->now_ms = now_ms;
    if (q->ageing_ms > 0 && now_ms >= q->next_age_ms)
        aged = age_all(q);
    bool moved = tg_turns_settle(&q->turns);
    if (moved)
        sort(q, by_rank);
    return aged || moved;
}

uint64_t tg_queue_age_in_ms(const struct tg_queue *q)
{
    if (q->ageing_ms == 0 || q->next_age_ms == UINT64_MAX)
        return UINT64_MAX;
    return tg_sat_sub_u64(q->next_age_ms, q->now_ms);
}

void tg_queue_set_order(struct tg_queue *q, bool strict, uint64_t ageing_ms)
{
    if (q->turns.strict == strict && q->ageing_ms == ageing_ms)
        return;
    size_t n = q->n_waiters;
    while (q->n_waiters > 0) /* from behind: the array keeps them all */
        waiters_remove(q, q->waiters[q->n_waiters - 1], false);
    q->turns.strict = strict;
    q->ageing_ms = ageing_ms;
    q->next_age_ms = UINT64_MAX;
    q->n_waiters = n;
    sort(q, by_arrival);
    q->n_waiters = 0;
    for (size_t i = 0; i < n; i++) { /* what is written is never behind what was read */
        q->waiters[i]->round = 0;
        age(q, q->waiters[i]);
        waiters_insert(q, q->waiters[i]);
    }
}

static void bag_insert(struct tg_ticket **bag, size_t *n, struct tg_ticket *t)
{
    t->place = *n;
    bag[(*n)++] = t;
}

static void bag_remove(struct tg_ticket **bag, size_t *n, struct tg_ticket *t)
{
    struct tg_ticket *last = bag[--*n];
    bag[t->place] = last;
    last->place = t->place;
}

/* When a holder should end: when it was granted, and how long it said it runs. There is room for every
 * ticket. */
static void time_begins(struct tg_queue *q, struct tg_ticket *t)
{
    const struct tg_amount amount = {.of = {[TG_RES_SLOTS] = t->slots, [TG_RES_MEMORY] = t->est_mb}};
    uint64_t end = tg_sat_add_u64(t->held_boot_ms, t->time_ms);
    bool known = t->time_ms > 0 && end < (uint64_t)TG_NEVER &&
                 tg_timeline_add(&q->running, (int64_t)end, t->id, &amount) == 0;
    t->ends_ms = known ? (int64_t)end : TG_NEVER;
}

static void time_ends(struct tg_queue *q, struct tg_ticket *t)
{
    if (t->ends_ms != TG_NEVER)
        (void)tg_timeline_remove(&q->running, t->ends_ms, t->id);
}

static void enter(struct tg_queue *q, struct tg_ticket *t)
{
    switch (t->state) {
    case TG_WAIT:
        age(q, t);
        if (t->on_hold)
            bag_insert(q->aside, &q->n_aside, t);
        else
            waiters_insert(q, t);
        break;
    case TG_PARKED:
        age(q, t); /* where it would stand */
        bag_insert(q->parked, &q->n_parked, t);
        break;
    case TG_HOLD:
        bag_insert(q->holders, &q->n_holders, t);
        q->slots_held += t->slots;
        q->promised_mb += t->est_mb;
        q->heavy_holders += t->est_mb > q->heavy_above_mb;
        time_begins(q, t);
        break;
    }
}

static void leave(struct tg_queue *q, struct tg_ticket *t, bool starts)
{
    switch (t->state) {
    case TG_WAIT:
        if (t->on_hold)
            bag_remove(q->aside, &q->n_aside, t);
        else
            waiters_remove(q, t, starts);
        break;
    case TG_PARKED:
        bag_remove(q->parked, &q->n_parked, t);
        break;
    case TG_HOLD:
        bag_remove(q->holders, &q->n_holders, t);
        q->slots_held -= t->slots;
        q->promised_mb -= t->est_mb;
        q->heavy_holders -= t->est_mb > q->heavy_above_mb;
        time_ends(q, t);
        break;
    }
}

static int grow(struct tg_ticket ***list, size_t room)
{
    struct tg_ticket **grown = realloc(*list, room * sizeof(*grown));
    if (!grown)
        return -ENOMEM;
    *list = grown;
    return 0;
}

static int grow_running(struct tg_timeline *running, size_t room)
{
    struct tg_release *grown = realloc(running->entry, room * sizeof(*grown));
    if (!grown)
        return -ENOMEM;
    running->entry = grown;
    running->cap = room;
    return 0;
}

static int make_room(struct tg_queue *q, size_t n)
{
    int err = tg_map_reserve(&q->by_id, n);
    if (!err)
        err = tg_map_reserve(&q->by_pid, n);
    if (!err)
        err = tg_map_reserve(&q->by_step, n);
    if (!err)
        err = tg_turns_reserve(&q->turns, n);
    if (err || n <= q->room)
        return err;
    size_t room = q->room ? q->room * 2 : 64;
    err = grow(&q->waiters, room);
    if (!err)
        err = grow(&q->holders, room);
    if (!err)
        err = grow(&q->parked, room);
    if (!err)
        err = grow(&q->aside, room);
    if (!err)
        err = grow_running(&q->running, room);
    if (!err)
        q->room = room;
    return err;
}

/* Where a ticket is found by its owner: the only one by the process, a step by its own number. */
static struct tg_map *owners(struct tg_queue *q, const struct tg_ticket *t, uint64_t *ret_key)
{
    *ret_key = t->step ? t->step : (uint64_t)t->owner.pid;
    return t->step ? &q->by_step : &q->by_pid;
}

struct tg_ticket *tg_queue_same_owner(struct tg_queue *q, const struct tg_ticket *t)
{
    uint64_t key;
    const struct tg_map *map = owners(q, t, &key);
    return tg_map_get(map, key);
}

static void forget_owner(struct tg_queue *q, const struct tg_ticket *t)
{
    uint64_t key;
    struct tg_map *map = owners(q, t, &key);
    if (!t->main_ended)
        tg_map_remove(map, key);
}

int tg_queue_add(struct tg_queue *q, struct tg_ticket *t)
{
    uint64_t key;
    struct tg_map *map = owners(q, t, &key);
    if (tg_queue_by_id(q, t->id) || (!t->main_ended && tg_map_get(map, key)))
        return -EEXIST;
    int err = make_room(q, tg_queue_count(q) + 1);
    if (!err)
        err = tg_map_put(&q->by_id, t->id, t);
    if (err)
        return err;
    if (!t->main_ended)
        err = tg_map_put(map, key, t);
    if (!err)
        err = tg_keys_add(&q->by_key, t);
    if (err) {
        forget_owner(q, t);
        tg_map_remove(&q->by_id, t->id);
        return err;
    }
    enter(q, t);
    return 0;
}

void tg_queue_remove(struct tg_queue *q, struct tg_ticket *t)
{
    leave(q, t, false);
    tg_map_remove(&q->by_id, t->id);
    forget_owner(q, t);
    tg_keys_remove(&q->by_key, t);
}

void tg_queue_main_ended(struct tg_queue *q, struct tg_ticket *t)
{
    forget_owner(q, t);
    t->main_ended = true;
}

void tg_queue_set_state(struct tg_queue *q, struct tg_ticket *t, enum tg_ticket_state state)
{
    leave(q, t, state == TG_HOLD);
    t->state = state;
    enter(q, t);
}

void tg_queue_set_request(struct tg_queue *q, struct tg_ticket *t, int64_t prio, uint64_t est_mb,
                          uint32_t slots)
{
    if (t->state == TG_WAIT && !t->on_hold && t->prio == prio) { /* its place is the same */
        q->zero_slot_waiters += slots == 0;
        q->zero_slot_waiters -= t->slots == 0;
        t->est_mb = est_mb;
        t->slots = slots;
        return;
    }
    leave(q, t, false);
    t->prio = prio;
    t->est_mb = est_mb;
    t->slots = slots;
    enter(q, t);
}

void tg_queue_set_hold(struct tg_queue *q, struct tg_ticket *t, bool on_hold)
{
    leave(q, t, false);
    t->on_hold = on_hold;
    enter(q, t);
}

void tg_queue_set_heavy(struct tg_queue *q, uint64_t heavy_above_mb)
{
    q->heavy_above_mb = heavy_above_mb;
    q->heavy_holders = 0;
    for (size_t i = 0; i < q->n_holders; i++)
        q->heavy_holders += q->holders[i]->est_mb > heavy_above_mb;
}

struct tg_ticket *tg_queue_by_id(const struct tg_queue *q, uint64_t id)
{
    return tg_map_get(&q->by_id, id);
}

struct tg_ticket *tg_queue_by_pid(const struct tg_queue *q, pid_t pid)
{
    return pid > 0 ? tg_map_get(&q->by_pid, (uint64_t)pid) : NULL;
}

struct tg_ticket *tg_queue_by_step(const struct tg_queue *q, uint64_t step)
{
    return step > 0 ? tg_map_get(&q->by_step, step) : NULL;
}

static void free_all(struct tg_ticket **list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        tg_ticket_free(list[i]);
    free(list);
}

void tg_queue_done(struct tg_queue *q)
{
    free_all(q->waiters, q->n_waiters);
    free_all(q->holders, q->n_holders);
    free_all(q->parked, q->n_parked);
    tg_turns_done(&q->turns);
    free(q->running.entry);
    free_all(q->aside, q->n_aside);
    tg_map_done(&q->by_id);
    tg_map_done(&q->by_pid);
    tg_map_done(&q->by_step);
    tg_keys_done(&q->by_key);
    *q = (struct tg_queue){0};
}
