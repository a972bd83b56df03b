/* SPDX-License-Identifier: Apache-2.0
 * Clients that break every rule: they harm their own ring only. They use the library's handle and then write
 * what they like into the memory behind it. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "engine/attach.h"
#include "serve_test.h"

#define FOR_NS (SECOND / 2)

enum { ITEMS = 1500, WINDOW = 16 };

static void honest(uintptr_t level)
{
    struct tg_attached *a = attach_now();
    uint64_t items[WINDOW];
    for (uint32_t i = 0; i < ITEMS + WINDOW; i++) {
        struct tg_outcome o;
        if (i >= WINDOW) {
            CHECK_EQ(tg_attached_wait(a, items[i % WINDOW], LIMIT, &o), 0);
            CHECK_EQ(o.value[0], mixed(i - WINDOW));
        }
        if (i < ITEMS)
            items[i % WINDOW] = put_mix(a, (uint32_t)level, i);
    }
    tg_attached_detach(a);
}

/* Honest clients beside a hostile one; afterwards a third as if nothing had been. */
static void beside(void (*hostile)(uintptr_t), uint32_t spin_us, struct tg_serve_stats *ret)
{
    struct served s;
    struct tg_serve_options o;
    struct tg_engine_stats stats;
    serve_options(&o);
    o.spin_us = spin_us;
    serve_start(&s, test_engine(160, 1), &o);
    /* No gate: a handler that holds the only worker is the application's own doing. */
    CHECK_EQ(tg_engine_register(s.engine, OP_GATE, mix_handler, &s.runs), 0);
    pid_t bad = child_start(hostile, 0);
    pid_t good[2] = {child_start(honest, 0), child_start(honest, 3)};
    child_passed(good[0]);
    child_passed(good[1]);
    child_passed(bad);
    honest(2);
    AWAIT(serve_stats(&s).clients == 0 && serve_stats(&s).leaving == 0);
    CHECK_EQ(tg_engine_settle(s.engine, LIMIT), 0);
    tg_engine_stats(s.engine, &stats);
    /* What reached the engine was whole: no slot with a priority or tenant that is none. */
    *ret = serve_stats(&s);
    uint64_t reached = stats.faults + stats.done + stats.cancelled;
    CHECK(reached + ret->invalid <= ret->taken);
    CHECK(reached + ret->invalid + ret->lost + ret->cancelled >= ret->taken);
    serve_end(&s);
}

static bool gone(struct tg_attached *a)
{
    return tg_attached_ended(a) != 0 || tg_attached_check_dead(a);
}

/* Random bytes over the whole mapping, again and again; attaches anew when it is thrown out. */
static void writes_garbage(uintptr_t unused)
{
    uint64_t state = 99, end = tg_clock_mono_ns() + FOR_NS;
    (void)unused;
    while (tg_clock_mono_ns() < end) {
        struct tg_attached *a = attach_now();
        uint64_t *words = (uint64_t *)(void *)a->share;
        for (uint32_t round = 0; tg_clock_mono_ns() < end && !(round % 16 == 0 && gone(a)); round++)
            for (size_t i = 0; i < a->share_bytes / 8; i++)
                tg_store_relaxed_u64(&words[i], check_random(&state));
        tg_attached_detach(a);
    }
}

/* Statuses that say PUBLISHED everywhere, with small random payloads: these are taken, as fast as it goes. */
static void publishes_garbage(uintptr_t unused)
{
    uint64_t state = 7, end = tg_clock_mono_ns() + FOR_NS;
    (void)unused;
    struct tg_attached *a = attach_now();
    while (tg_clock_mono_ns() < end) {
        for (uint32_t i = 0; i < a->slots; i++) {
            struct tg_slot *slot = &a->share->slot[i];
            uint32_t opcode = (uint32_t)check_random(&state) % 16;
            tg_store_relaxed_u32(&slot->opcode, opcode == 15 ? TG_OP_PACKED_SLOT : opcode);
            tg_store_relaxed_u32(&slot->tenant, (uint32_t)check_random(&state));
            tg_store_relaxed_u32(&slot->priority, (uint32_t)check_random(&state) % 8);
            tg_store_relaxed_u32(&slot->args[0], (uint32_t)check_random(&state) % 300);
            tg_store_relaxed_u32(&slot->args[1], (uint32_t)check_random(&state) % 300);
            tg_store_relaxed_u32(&slot->status, TG_SLOT_PUBLISHED);
        }
        const uint64_t one = 1;
        if (tg_exchange_seqcst_u32(&a->share->parked, 0))
            CHECK(write(a->bell, &one, sizeof(one)) == sizeof(one));
        tg_store_relaxed_u32(&a->share->sleeper, 1); /* and always "asleep" */
    }
    tg_attached_detach(a);
}

static void rings_for_ever(uintptr_t unused)
{
    uint64_t now, end = tg_clock_mono_ns() + FOR_NS, patience = end + LIMIT;
    bool dropped = false;
    (void)unused;
    while ((now = tg_clock_mono_ns()) < end || !dropped) { /* once at least, however slow the server */
        CHECK(now < patience);
        struct tg_attached *a = attach_now();
        const uint64_t one = 1;
        while (((now = tg_clock_mono_ns()) < end || !dropped) && now < patience && tg_attached_ended(a) == 0)
            CHECK(write(a->bell, &one, sizeof(one)) == sizeof(one));
        dropped |= tg_attached_ended(a) != 0;
        tg_attached_detach(a);
    }
}

/* Within what its uid may have: the others here are of the same uid. */
static void connects_for_ever(uintptr_t unused)
{
    uint64_t end = tg_clock_mono_ns() + FOR_NS;
    struct tg_attached *a[20] = {NULL};
    (void)unused;
    for (uint32_t i = 0; tg_clock_mono_ns() < end; i++) {
        tg_attached_detach(a[i % 20]);
        a[i % 20] = attach_now();
    }
    for (uint32_t i = 0; i < 20; i++)
        tg_attached_detach(a[i]);
}

/* Empties pages under the server, fills the doorbell, asks the kernel for what is sealed. */
static void pulls_the_rug(uintptr_t unused)
{
    uint64_t end = tg_clock_mono_ns() + FOR_NS;
    (void)unused;
    struct tg_attached *a = attach_now();
    const uint64_t most = UINT64_MAX - 1;
    CHECK(fcntl(a->bell, F_SETFL, 0) == 0); /* would block whoever writes to it */
    CHECK(write(a->bell, &most, sizeof(most)) == sizeof(most));
    /* It would block us now; from here on this end of the doorbell is one that always can be written. */
    CHECK(dup2(open("/dev/null", O_WRONLY), a->bell) == a->bell);
    /* The library closed the memory's descriptor; the mapping's file is the same. */
    char link[64];
    snprintf(link, sizeof(link), "/proc/self/map_files/%lx-%lx", (unsigned long)(uintptr_t)a->share,
             (unsigned long)(uintptr_t)a->share + a->share_bytes);
    int memory = open(link, O_RDWR);
    if (memory >= 0) {
        CHECK(ftruncate(memory, 0) != 0);
        CHECK(ftruncate(memory, (off_t)a->share_bytes * 2) != 0);
        CHECK(fcntl(memory, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) != 0);
        close(memory);
    }
    for (uint32_t i = 0; tg_clock_mono_ns() < end; i++) {
        uint64_t item;
        if (tg_attached_submit(a, i % 5, OP_MIX, &i, 1, &item) != 0)
            CHECK(madvise(a->share, a->share_bytes, MADV_REMOVE) == 0);
    }
    tg_attached_detach(a);
}

/* Says something where there is nothing to say. */
static void talks(uintptr_t unused)
{
    (void)unused;
    for (int i = 0; i < 20; i++) {
        struct tg_attached *a = attach_now();
        CHECK(send(a->socket, "hello", 5, MSG_NOSIGNAL) == 5);
        uint64_t end = tg_clock_mono_ns() + LIMIT;
        while (!gone(a))
            CHECK(tg_clock_mono_ns() < end);
        tg_attached_detach(a);
    }
}

static void e6_random_bytes(void)
{
    struct tg_serve_stats stats;
    beside(writes_garbage, 20, &stats);
}

static void e6_random_items(void)
{
    struct tg_serve_stats stats;
    /* Again, where others keep the server off its core as long as the hostile one lasts. */
    for (int tries = 0; tries < 20; tries++) {
        beside(publishes_garbage, 20, &stats);
        if (stats.invalid > 0)
            break;
    }
    CHECK(stats.invalid > 0);
}

static void e6_rings_without_end(void)
{
    struct tg_serve_stats stats;
    beside(rings_for_ever, 0, &stats);
    CHECK(stats.dropped > 0);
}

static void e6_connections_without_end(void)
{
    struct tg_serve_stats stats;
    beside(connects_for_ever, 20, &stats);
    CHECK(stats.gone == stats.accepted);
}

static void e6_memory_that_vanishes(void)
{
    struct tg_serve_stats stats;
    beside(pulls_the_rug, 20, &stats);
}

static void e6_words_on_the_socket(void)
{
    struct tg_serve_stats stats;
    beside(talks, 20, &stats);
}

/* The tenant in the slot is ignored: a client cannot be another. */
static void e4_the_slots_tenant_is_ignored(void)
{
    struct served s;
    serve_start(&s, test_engine(160, 1), NULL);
    struct tg_attached *a = attach_now();
    for (uint32_t i = 0; i < a->slots; i++)
        tg_store_relaxed_u32(&a->share->slot[i].tenant, 28);
    for (uint32_t i = 0; i < 200; i++) {
        struct tg_outcome o;
        CHECK_EQ(tg_attached_wait(a, put_mix(a, 2, i), LIMIT, &o), 0);
        CHECK_EQ(o.value[1], 0);
    }
    tg_attached_detach(a);
    serve_end(&s);
}

static uint32_t stop_flipping;

static void *flips(void *share)
{
    struct tg_share *sh = share;
    while (!tg_load_relaxed_u32(&stop_flipping)) {
        /* NORMAL and 2 + 2^31; OP_MIX and a reserved one: whoever reads twice is cheated. */
        tg_store_relaxed_u32(&sh->slot[0].priority, 0x80000002u);
        tg_store_relaxed_u32(&sh->slot[0].opcode, TG_OP_LOAD_MISS);
        tg_store_relaxed_u32(&sh->slot[0].priority, 2);
        tg_store_relaxed_u32(&sh->slot[0].opcode, OP_MIX);
    }
    return NULL;
}

static void e6_slots_that_change_while_they_are_read(void)
{
    struct served s;
    pthread_t thread;
    struct tg_engine_stats stats;
    struct tg_serve_options o;
    uint32_t done = 0, refused = 0;
    serve_options(&o);
    o.slots = 1;
    serve_start(&s, test_engine(160, 1), &o);
    struct tg_attached *a = attach_now();
    stop_flipping = 0;
    CHECK_EQ(pthread_create(&thread, NULL, flips, a->share), 0);
    uint64_t end = tg_clock_mono_ns() + FOR_NS;
    while (tg_clock_mono_ns() < end) {
        struct tg_outcome out;
        int r = tg_attached_wait(a, put_mix(a, 2, 1), LIMIT, &out);
        CHECK(r == 0 || r == -EIO);
        if (r == 0)
            done++;
        else
            refused++;
        CHECK(r == 0 || out.fault.reason == TG_FAULT_PRIORITY || out.fault.reason == TG_FAULT_UNKNOWN_OPCODE);
    }
    tg_store_relaxed_u32(&stop_flipping, 1);
    pthread_join(thread, NULL);
    tg_engine_stats(s.engine, &stats);
    fprintf(stderr, "  %u done, %u refused\n", done, refused);
    CHECK_EQ(stats.done, done);
    CHECK_EQ(stats.faults, 0); /* none reached the engine */
    CHECK_EQ(serve_stats(&s).invalid, refused);
    tg_attached_detach(a);
    serve_end(&s);
}

/* A fence may cover what was published since the last one, and nothing twice. Cancel words that name nothing,
 * or the same again and again, do nothing. */
static void e5_fences_over_what_they_may_not(void)
{
    struct served s;
    struct tg_outcome o;
    serve_start(&s, test_engine(160, 1), NULL);
    struct tg_attached *a = attach_now();
    const uint32_t covered[] = {0, 1, 64, 65, 0x7FFFFFFF, 0xFFFFFFFF};
    for (uint32_t i = 0; i < 6; i++) {
        uint64_t item;
        CHECK_EQ(tg_attached_wait(a, put_mix(a, 2, i), LIMIT, NULL), 0);
        /* As another implementation of the protocol would, past the library's own check. */
        CHECK_EQ(tg_attached_submit(a, 2, TG_OP_NOP, NULL, 0, &item), 0);
        CHECK_EQ(tg_attached_wait(a, item, LIMIT, NULL), 0);
        uint64_t next = tg_load_relaxed_u64(&a->next);
        struct tg_slot *slot = &a->share->slot[next & a->mask];
        tg_store_relaxed_u64(&a->use[next & a->mask], next * 2 + 1);
        tg_store_relaxed_u64(&a->next, next + 1);
        tg_store_relaxed_u32(&slot->opcode, TG_OP_BATCH_FENCE);
        tg_store_relaxed_u32(&slot->priority, 2);
        tg_store_relaxed_u32(&slot->args[0], covered[i]);
        tg_store_seqcst_u32(&slot->status, TG_SLOT_PUBLISHED);
        const uint64_t one = 1;
        CHECK(write(a->bell, &one, sizeof(one)) == sizeof(one));
        CHECK_EQ(tg_attached_wait(a, next, LIMIT, &o), i < 2 ? 0 : -EIO);
        CHECK(i < 2 || (o.fault.reason == TG_FAULT_FENCE && o.fault.detail == covered[i]));
    }
    uint32_t *words = tg_share_cancels(a->share, a->slots);
    for (uint32_t i = 0; i < 64; i++)
        tg_store_seqcst_u32(&words[i], i % 2 ? 1 : 5);
    for (uint32_t i = 0; i < 200; i++)
        CHECK_EQ(tg_attached_wait(a, put_mix(a, 2, i), LIMIT, NULL), 0);
    CHECK_EQ(serve_stats(&s).cancelled, 0);
    tg_attached_detach(a);
    serve_end(&s);
}

/* A client that never looks at its answers stops nobody, and cannot go on for ever either. */
static void e6_answers_nobody_reads(void)
{
    struct served s;
    uint64_t item;
    serve_start(&s, test_engine(160, 1), NULL);
    struct tg_attached *a = attach_now();
    for (uint32_t i = 0; i < 64; i++)
        put_mix(a, 0, i);
    AWAIT(tg_load_relaxed_u32(&s.runs) == 64);
    honest(0);
    CHECK_EQ(tg_attached_submit(a, 0, TG_OP_NOP, NULL, 0, &item), 0);
    tg_attached_detach(a);
    serve_end(&s);
}

int main(int argc, char **argv)
{
    child_main(argc, argv);
    serve_folder_make();
    RUN(e6_random_bytes);
    RUN(e6_random_items);
    RUN(e6_rings_without_end);
    RUN(e6_connections_without_end);
    RUN(e6_memory_that_vanishes);
    RUN(e6_words_on_the_socket);
    RUN(e4_the_slots_tenant_is_ignored);
    RUN(e6_slots_that_change_while_they_are_read);
    RUN(e5_fences_over_what_they_may_not);
    RUN(e6_answers_nobody_reads);
    serve_folder_remove();
    return 0;
}
