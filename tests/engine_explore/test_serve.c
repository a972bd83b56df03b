/* SPDX-License-Identifier: Apache-2.0
 * The narrow windows of a served engine (serve_item.c): the end of a client's item against the server that
 * takes the next one from the same slot, falls asleep, or lets the client go. The client's ring is real, its
 * connection is not. Every schedule of few threads with few preemptions (explore.h); then, without choices,
 * what a worker that helps must and must not do. */
#include "scenario.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/serve.h"

enum { SLOTS = 2, POISON = 0xA5 };

static _Alignas(64) unsigned char memory[4096];
static struct tg_share *const share = (struct tg_share *)(void *)memory;
static struct tg_server server;
static struct tg_guest guest;
static struct tg_guest *places[1], *active[1], *waiting[1];
static struct tg_served item[SLOTS], *of_slot[64];
static uint32_t bell, finished, gone;
static int wake = -1;

static bool woken(void)
{
    uint64_t n;
    return read(wake, &n, sizeof(n)) == (ssize_t)sizeof(n);
}

/* A guest of `slots` slots that the server looks at. */
static void fresh(struct tg_engine *e, uint32_t slots)
{
    with_handler(e);
    if (wake < 0)
        wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    CHECK(wake >= 0);
    woken();
    memset(memory, 0, sizeof(memory));
    memset(&server, 0, sizeof(server));
    memset(&guest, 0, sizeof(guest));
    memset(item, 0, sizeof(item));
    bell = finished = gone = 0;
    e->served = of_slot;
    e->serve_wake = wake;
    guest.server = &server;
    guest.share = share;
    guest.item = item;
    guest.mask = slots - 1;
    guest.active = true;
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
        guest.pending[l].first = TG_NO_ITEM;
    for (uint32_t i = 0; i < slots; i++)
        item[i] = (struct tg_served){.guest = &guest, .index = i, .fence = TG_NO_ITEM};
    places[0] = active[0] = &guest;
    server.engine = e;
    server.guest = places;
    server.active = active;
    server.waiting = waiting;
    server.places = server.guests = server.top = server.actives = 1;
}

/* The client's half of share.h: U1, then V3. */
static void client_publishes(uint32_t slot, uint32_t opcode, uint32_t arg)
{
    tg_slot_write_payload(&share->slot[slot], opcode, 0, TG_PRIORITY_NORMAL, &arg, 1);
    tg_store_seqcst_u32(&share->slot[slot].status, TG_SLOT_PUBLISHED);
    if (tg_load_seqcst_u32(&share->parked) && tg_exchange_seqcst_u32(&share->parked, 0))
        tg_store_seqcst_u32(&bell, 1);
}

static void client_waits(uint32_t slot)
{
    while (tg_load_seqcst_u32(&share->slot[slot].status) != TG_SLOT_DONE)
        tg_explore_yield();
}

/* The server's thread: passes; with nothing to do it parks the guest and sleeps. A sleep that nobody ends
 * shows as a schedule that does not end. */
static void serves(struct tg_engine *e)
{
    (void)e;
    while (!tg_load_seqcst_u32(&finished)) {
        if (tg_serve_pass(&server))
            continue;
        if (guest.active && !tg_guest_park(&guest)) {
            tg_cpu_relax(); /* LANDING: its worker needs a moment */
            continue;
        }
        while (!tg_load_seqcst_u32(&finished) && !woken() && !tg_exchange_seqcst_u32(&bell, 0))
            tg_explore_yield();
        tg_guest_activate(&guest);
    }
}

/* ---- A slot that is used again at once ------------------------------------------------------------------
 */

/* The first item is in the engine. */
static void taken_already(struct tg_engine *e)
{
    fresh(e, 1);
    client_publishes(0, OP_RUN, 0);
    CHECK(tg_serve_pass(&server));
}

static void client_of_a_second(struct tg_engine *e)
{
    (void)e;
    client_waits(0);
    client_publishes(0, OP_RUN, 1);
    client_waits(0);
    tg_store_seqcst_u32(&finished, 1);
}

static void each_ran_once(struct tg_engine *e, const bool *ended)
{
    CHECK(ended[1]);
    both_ran_once(e, ended);
    CHECK_EQ(server.stats.taken, 2);
}

static void e1_a_slot_used_again_is_seen_and_taken_once(void)
{
    struct explore_scenario s = scenario(__func__, 10, 1, 1);
    s.thread[0] = client_of_a_second;
    s.thread[1] = serves;
    s.check = each_ran_once;
    s.reset = taken_already;
    explore(&s);
}

/* ---- A client that leaves while its item runs -----------------------------------------------------------
 */

/* As tg_guest_drop and tg_guests_reap, with poison in place of free memory. */
static void lets_go(struct tg_engine *e)
{
    guest.leaving = true;
    tg_add_seqcst_u32(&e->serve_closing, 1);
    for (;;) {
        tg_guest_cancel_items(&guest);
        if (tg_guest_landed(&guest))
            break;
        while (!woken())
            tg_explore_yield();
    }
    memset(memory, POISON, sizeof(memory));
    memset(&guest, POISON, sizeof(guest));
    memset(item, POISON, sizeof(item));
    gone = 1;
}

static void nobody_touched_it(struct tg_engine *e, const bool *ended)
{
    CHECK(ended[0]);
    CHECK_EQ(gone, 1);
    CHECK(runs[0] <= 1);
    const unsigned char *bytes[] = {memory, (const unsigned char *)&guest, (const unsigned char *)item};
    const size_t length[] = {sizeof(memory), sizeof(guest), sizeof(item)};
    for (uint32_t k = 0; k < 3; k++)
        for (size_t i = 0; i < length[k]; i++)
            CHECK_EQ(bytes[k][i], POISON);
    all_over(e);
}

static void e1_a_guest_is_freed_after_the_last_touch(void)
{
    struct explore_scenario s = scenario(__func__, 5, 1, 2);
    s.thread[0] = lets_go;
    s.check = nobody_touched_it;
    s.reset = taken_already;
    explore(&s);
}

/* ---- Without choices ------------------------------------------------------------------------------------
 */

static void (*plain)(struct tg_engine *);

static void runs_plain(struct tg_engine *e)
{
    fresh(e, SLOTS);
    e->helped = &server;
    plain(e);
}

static void plain_ended(struct tg_engine *e, const bool *ended)
{
    (void)e;
    CHECK(ended[0]);
}

/* No worker takes part: what is submitted stays where it is. */
static void without_choices(const char *name, void (*fn)(struct tg_engine *))
{
    struct explore_scenario s = scenario(name, 5, 1, 0);
    s.workers = 0;
    plain = fn;
    s.thread[0] = runs_plain;
    s.check = plain_ended;
    explore(&s);
}

static void leaving_guest(struct tg_engine *e)
{
    guest.leaving = true;
    client_publishes(0, OP_RUN, 0);
    CHECK(!tg_serve_help(e));
    CHECK_EQ(server.stats.taken, 0);
}

static void e1_nothing_more_is_taken_from_who_leaves(void)
{
    without_choices(__func__, leaving_guest);
}

/* The level's only slot is in use. */
static void full_level(struct tg_engine *e)
{
    publish(e, 0, TG_PRIORITY_NORMAL, 1);
    client_publishes(0, OP_RUN, 0);
    CHECK(tg_serve_help(e));
    CHECK_EQ(item[0].state, TG_ITEM_PENDING);
    CHECK_EQ(server.waitings, 1);
    CHECK_EQ(server.full, 1);
    CHECK(woken()); /* the server's thread, which waits for a free slot */
}

static void e1_what_a_helper_cannot_submit_the_server_waits_for(void)
{
    without_choices(__func__, full_level);
}

static void wish_before_item(struct tg_engine *e)
{
    client_publishes(0, OP_RUN, 0);
    CHECK(tg_serve_help(e));
    CHECK_EQ(item[0].state, TG_ITEM_FLYING);
    tg_store_seqcst_u32(&tg_share_cancels(share, SLOTS)[0], 1);
    client_publishes(1, OP_RUN, 1);
    CHECK(tg_serve_help(e));
    CHECK_EQ(share->slot[0].status, TG_SLOT_EMPTY);
    CHECK_EQ(server.stats.cancelled, 1);
}

static void e1_a_helper_does_what_was_wished_before(void)
{
    without_choices(__func__, wish_before_item);
}

/* A client that publishes over its own item in flight keeps nobody awake; one that does not sleep is not
 * woken. */
static void over_its_own(struct tg_engine *e)
{
    client_publishes(0, OP_RUN, 0);
    CHECK(tg_serve_help(e));
    guest.next = 0;
    client_publishes(0, OP_RUN, 0);
    CHECK(!tg_guest_has_item(&guest));
    share->sleeper = 4;
    tg_guest_wake(&guest);
    CHECK_EQ(share->sleeper, 4);
}

static void e10_a_slot_in_flight_is_no_item(void)
{
    without_choices(__func__, over_its_own);
}

/* The fence's place was used by one that its client took back. */
static void fence_after_cancelled(struct tg_engine *e)
{
    item[1].cancelled = true;
    client_publishes(0, OP_RUN, 0);
    client_publishes(1, TG_OP_BATCH_FENCE, 1);
    CHECK(tg_serve_help(e));
    CHECK_EQ(item[1].state, TG_ITEM_WAITING);
    CHECK(!item[1].cancelled);
}

static void e5_a_fence_is_not_taken_back_with_the_one_before(void)
{
    without_choices(__func__, fence_after_cancelled);
}

int main(void)
{
    RUN(e1_a_slot_used_again_is_seen_and_taken_once);
    RUN(e1_a_guest_is_freed_after_the_last_touch);
    RUN(e1_nothing_more_is_taken_from_who_leaves);
    RUN(e1_what_a_helper_cannot_submit_the_server_waits_for);
    RUN(e1_a_helper_does_what_was_wished_before);
    RUN(e10_a_slot_in_flight_is_no_item);
    RUN(e5_a_fence_is_not_taken_back_with_the_one_before);
    return 0;
}
