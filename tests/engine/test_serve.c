/* SPDX-License-Identifier: Apache-2.0
 * An engine serves other processes: items arrive, run once, and their results come back. */
#include <sched.h>

#include "engine/internal.h"
#include "serve_test.h"

/* So many, or as many as ENOUGH_NS allow, but a tenth: where others keep the machine busy each item may cost
 * the time of several turns of theirs. */
enum { CLIENTS = 4, ITEMS = 3000, WINDOW = 32 };
#define ENOUGH_NS (10 * SECOND)

static bool enough(uint32_t done, uint32_t most, uint64_t start_ns)
{
    return done >= most || (done >= most / 10 && tg_clock_mono_ns() - start_ns > ENOUGH_NS);
}

/* Keeps a window of items on their way, at all levels, and checks every result. */
static void exact_client(uintptr_t seed)
{
    struct tg_attached *a = attach_now();
    uint64_t items[WINDOW];
    uint32_t values[WINDOW];
    uint64_t state = (uint64_t)seed * 7919 + 1, start = tg_clock_mono_ns();
    uint32_t last = UINT32_MAX;
    for (uint32_t i = 0; last == UINT32_MAX || i < last + WINDOW; i++) {
        if (last == UINT32_MAX && enough(i, ITEMS, start))
            last = i;
        uint32_t k = i % WINDOW;
        if (i >= WINDOW) {
            struct tg_outcome o;
            CHECK_EQ(tg_attached_wait(a, items[k], LIMIT, &o), 0);
            CHECK_EQ(o.value[0], mixed(values[k]));
            CHECK_EQ(o.value[1], 0);
            CHECK_EQ(o.value[2], (i - WINDOW) % TG_PRIORITY_LEVELS);
            CHECK_EQ(o.value[3], 0);
        }
        if (i < last) {
            values[k] = (uint32_t)check_random(&state);
            items[k] = put_mix(a, i % TG_PRIORITY_LEVELS, values[k]);
        }
    }
    tg_attached_detach(a);
}

static void e1_four_clients_are_exact(void)
{
    struct served s;
    pid_t pid[CLIENTS];
    serve_start(&s, test_engine(320, 2), NULL);
    for (uintptr_t i = 0; i < CLIENTS; i++)
        pid[i] = child_start(exact_client, i + 1);
    for (int i = 0; i < CLIENTS; i++)
        child_passed(pid[i]);
    AWAIT(serve_stats(&s).gone == CLIENTS);
    struct tg_serve_stats stats = serve_stats(&s);
    CHECK_EQ(stats.accepted, CLIENTS);
    CHECK_EQ(stats.taken, tg_load_relaxed_u32(&s.runs)); /* and each client has seen all of its own */
    CHECK(stats.taken >= CLIENTS * ITEMS / 10 && stats.taken <= CLIENTS * ITEMS);
    CHECK_EQ(stats.invalid + stats.lost + stats.dropped + stats.refused, 0);
    serve_end(&s);
}

static void e6_outcomes_come_back(void)
{
    struct served s;
    struct tg_outcome o;
    serve_start(&s, test_engine(320, 1), NULL);
    struct tg_attached *a = attach_now();
    CHECK_EQ(tg_attached_slots(a), 64);
    CHECK_EQ(tg_attached_tenant(a), 0);
    /* Built-ins: the word they wrote. */
    const uint32_t base = TG_CONTROL_OBSERVABLE_BASE;
    uint64_t item = put(a, 0, TG_OP_STORE_U32, (uint32_t[]){77, base + 3}, 2);
    CHECK_EQ(tg_attached_wait(a, item, LIMIT, &o), 0);
    CHECK_EQ(o.value[0], 77);
    item = put(a, 0, TG_OP_ATOMIC_ADD, (uint32_t[]){5, base + 3}, 2);
    CHECK_EQ(tg_attached_wait(a, item, LIMIT, &o), 0);
    CHECK_EQ(o.value[0], 82);
    item = put(a, 0, TG_OP_LOAD_U32, (uint32_t[]){base + 3, 9}, 2);
    CHECK_EQ(tg_attached_wait(a, item, LIMIT, &o), 0);
    CHECK_EQ(o.value[0], 82);
    CHECK_EQ(test_word(s.engine, base + 9), 82);
    /* Faults: the reason. */
    item = put(a, 1, 4711, NULL, 0);
    CHECK_EQ(tg_attached_wait(a, item, LIMIT, &o), -EIO);
    CHECK_EQ(o.fault.reason, TG_FAULT_UNKNOWN_OPCODE);
    CHECK_EQ(o.fault.detail, 4711);
    item = put(a, 2, TG_OP_STORE_U32, (uint32_t[]){1, TG_CONTROL_TENANT_MASKS}, 2);
    CHECK_EQ(tg_attached_wait(a, item, LIMIT, &o), -EIO);
    CHECK_EQ(o.fault.reason, TG_FAULT_CONTROL_DENIED);
    item = put(a, 2, TG_OP_SHUTDOWN, NULL, 0);
    CHECK_EQ(tg_attached_wait(a, item, LIMIT, &o), -EIO);
    item = put(a, 3, OP_MIX, (uint32_t[]){1, 0xDEAD}, 2);
    CHECK_EQ(tg_attached_wait(a, item, LIMIT, &o), -EIO);
    CHECK_EQ(o.fault.reason, TG_FAULT_HANDLER);
    CHECK_EQ(o.fault.detail, (uint32_t)-EDOM);
    /* Refused at once. */
    CHECK_EQ(tg_attached_submit(a, 5, TG_OP_NOP, NULL, 0, &item), -EINVAL);
    CHECK_EQ(tg_attached_submit(a, 0, TG_OP_LOAD_MISS, NULL, 0, &item), -EINVAL);
    CHECK_EQ(tg_attached_submit(a, 0, TG_OP_BATCH_FENCE, (uint32_t[]){1}, 1, &item), -EINVAL);
    CHECK_EQ(tg_attached_submit(a, 0, TG_OP_NOP, NULL, 13, &item), -EINVAL);
    CHECK_EQ(tg_attached_poll(a, 1u << 30, NULL), -EINVAL);
    CHECK_EQ(tg_attached_poll(a, 0, NULL), -EINVAL);
    tg_attached_detach(a);
    serve_end(&s);
}

static void e1_calls(void)
{
    struct served s;
    struct tg_outcome o;
    serve_start(&s, test_engine(320, 1), NULL);
    struct tg_attached *a = attach_now();
    uint64_t start = tg_clock_mono_ns();
    for (uint32_t i = 0; !enough(i, 500, start); i++) {
        if (i % 100 == 0)
            pause_ms(2);
        CHECK_EQ(tg_attached_call(a, i % 5, OP_MIX, &i, 1, LIMIT, &o), 0);
        CHECK_EQ(o.value[0], mixed(i));
    }
    CHECK_EQ(tg_attached_call(a, 1, 4711, NULL, 0, LIMIT, &o), -EIO);
    CHECK_EQ(o.fault.reason, TG_FAULT_UNKNOWN_OPCODE);
    CHECK_EQ(tg_attached_call(a, 5, TG_OP_NOP, NULL, 0, LIMIT, &o), -EINVAL);
    CHECK_EQ(tg_attached_call(a, 0, OP_GATE, NULL, 0, 1000000, &o), -ETIMEDOUT);
    for (uint32_t i = 1; i < 64; i++)
        put_mix(a, 2, i);
    CHECK_EQ(tg_attached_call(a, 0, TG_OP_NOP, NULL, 0, LIMIT, &o), -EAGAIN);
    gate_open(&s.gate);
    CHECK_EQ(tg_attached_wait_space(a, LIMIT), 0);
    tg_attached_detach(a);
    serve_end(&s);
}

static void e1_a_full_ring_and_old_items(void)
{
    struct served s;
    uint64_t item, first;
    serve_start(&s, test_engine(640, 1), NULL);
    struct tg_attached *a = attach_now();
    uint64_t gate = put(a, 0, OP_GATE, NULL, 0);
    while (sem_wait(&s.gate.reached) != 0)
        ;
    first = put_mix(a, 2, 0);
    for (uint32_t i = 2; i < 64; i++)
        item = put_mix(a, 2, i);
    CHECK_EQ(tg_attached_submit(a, 0, TG_OP_NOP, NULL, 0, &item), -EAGAIN);
    CHECK_EQ(tg_attached_wait_space(a, 1000000), -ETIMEDOUT);
    CHECK_EQ(tg_attached_poll(a, first, NULL), -EINPROGRESS);
    CHECK_EQ(tg_attached_wait(a, first, 0, NULL), -ETIMEDOUT);
    CHECK_EQ(tg_attached_wait(a, first, 1000000, NULL), -ETIMEDOUT);
    gate_open(&s.gate);
    CHECK_EQ(tg_attached_wait(a, gate, LIMIT, NULL), 0);
    CHECK_EQ(tg_attached_wait(a, item, LIMIT, NULL), 0);
    CHECK_EQ(tg_attached_poll(a, first, NULL), 0);
    for (uint32_t i = 0; i < 64; i++)
        put_mix(a, 0, i);
    CHECK_EQ(tg_attached_poll(a, first, NULL), -ESTALE);
    tg_attached_detach(a);
    serve_end(&s);
}

/* The server looks at a slot whose item is just ending: it must not take it for the next one. In a ring of
 * one slot it always does. */
static void e1_a_slot_is_taken_once(void)
{
    struct served s;
    struct tg_serve_options o;
    serve_options(&o);
    o.slots = 1;
    serve_start(&s, test_engine(320, 1), &o);
    struct tg_attached *a = attach_now();
    uint64_t end = tg_clock_mono_ns() + SECOND / 4;
    uint32_t n = 0;
    for (; tg_clock_mono_ns() < end; n++)
        CHECK_EQ(tg_attached_wait(a, put_mix(a, 2, n), LIMIT, NULL), 0);
    tg_attached_detach(a);
    AWAIT(serve_stats(&s).clients == 0 && serve_stats(&s).leaving == 0);
    CHECK_EQ(tg_load_relaxed_u32(&s.runs), n);
    serve_end(&s);
}

/* E2: what a full level holds up does not hold up what is urgent. */
static void e2_urgent_items_pass_a_full_level(void)
{
    struct served s;
    serve_start(&s, test_engine(40, 1), NULL);
    struct tg_attached *a = attach_now();
    put(a, 0, OP_GATE, NULL, 0);
    while (sem_wait(&s.gate.reached) != 0)
        ;
    uint64_t low = 0;
    for (uint32_t i = 0; i < 30; i++)
        low = put_mix(a, TG_PRIORITY_LOW, i);
    uint64_t urgent = put_mix(a, TG_PRIORITY_CRITICAL, 1);
    gate_open(&s.gate);
    CHECK_EQ(tg_attached_wait(a, urgent, LIMIT, NULL), 0);
    CHECK_EQ(tg_attached_wait(a, low, LIMIT, NULL), 0);
    CHECK_EQ(tg_load_relaxed_u32(&s.runs), 31);
    tg_attached_detach(a);
    serve_end(&s);
}

static uint64_t cpu_ns(void)
{
    return tg_clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
}

/* E10: a server whose clients are silent sleeps, and wakes for the next item; so does a client. */
static void e10_sleepers_wake(void)
{
    struct served s;
    struct tg_serve_options o;
    struct tg_engine_options eo = test_options(320, 1);
    struct tg_attach_options ao;
    struct tg_attached *a;
    serve_options(&o);
    o.spin_us = 0;
    eo.spin_us = 0;
    serve_start(&s, test_open(&eo), &o);
    tg_attach_options_init(&ao);
    ao.spin_us = 0;
    CHECK_EQ(tg_engine_attach(serve_path, &ao, &a), 0);
    for (uint32_t i = 0; i < 200; i++) {
        struct tg_outcome out;
        if (i % 20 == 0)
            pause_ms(2);
        CHECK_EQ(tg_attached_wait(a, put_mix(a, i % 5, i), LIMIT, &out), 0);
        CHECK_EQ(out.value[0], mixed(i));
    }
    struct tg_serve_stats stats = serve_stats(&s);
    CHECK(stats.rings >= 10);
    CHECK(stats.sleeps >= 10);
    AWAIT(serve_stats(&s).sleeps >= stats.rings);
    /* Less than a tenth of a core, with room to spare; and it counts a moment before it sleeps. Once more
     * where others keep it from going to sleep. */
    bool quiet = false;
    for (int i = 0; i < 10 && !quiet; i++) {
        uint64_t before = cpu_ns(), sleeps = serve_stats(&s).sleeps;
        pause_ms(300);
        quiet = cpu_ns() - before < 30 * UINT64_C(1000000) && serve_stats(&s).sleeps <= sleeps + 1;
    }
    CHECK(quiet);
    tg_attached_detach(a);
    serve_end(&s);
}

enum { IN_ORDER = 40, HELPERS = 4 };
struct helper {
    struct served *served;
    uint32_t number;
};

/* Takes items as a worker does that has nothing to do, each helper another one. */
static void *helps(void *helper)
{
    const struct helper *h = helper;
    for (uint64_t taken; (taken = serve_stats(h->served).taken) < IN_ORDER;) {
        if (taken % HELPERS == h->number) /* before the server's thread is awake, mostly */
            tg_serve_help(h->served->engine);
        sched_yield();
    }
    return NULL;
}

/* A client's items of one level start in its order, whichever threads bring them to the engine. */
static void e2_a_clients_items_start_in_order(void)
{
    if (test_flags)
        return; /* no order within a level */
    struct served s;
    struct tg_serve_options o;
    struct helper helper[HELPERS];
    struct notes n;
    pthread_t thread[HELPERS];
    struct tg_engine *e = test_engine(5120, 2);
    serve_options(&o);
    o.spin_us = 0; /* the server's thread sleeps, so that others may help */
    serve_start(&s, e, &o);
    notes_start(&n, e, IN_ORDER);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(tg_engine_submit(e, 0, TG_PRIORITY_CRITICAL, OP_GATE, NULL, 0, NULL), 0);
    for (int i = 0; i < 2; i++)
        while (sem_wait(&s.gate.reached) != 0)
            ;
    struct tg_attached *a = attach_now();
    for (uint32_t i = 0; i < HELPERS; i++) {
        helper[i] = (struct helper){&s, i};
        CHECK_EQ(pthread_create(&thread[i], NULL, helps, &helper[i]), 0);
    }
    for (uint32_t i = 0; i < IN_ORDER; i++) {
        put(a, TG_PRIORITY_NORMAL, OP_NOTE, &i, 1);
        AWAIT(serve_stats(&s).taken > i);
    }
    for (uint32_t i = 0; i < HELPERS; i++)
        CHECK_EQ(pthread_join(thread[i], NULL), 0);
    gate_open(&s.gate); /* one of the two workers */
    AWAIT(tg_load_acquire_u32(&n.count) == IN_ORDER);
    gate_open(&s.gate);
    CHECK_EQ(tg_engine_settle(e, LIMIT), 0); /* and the last note is written */
    for (uint32_t i = 0; i < IN_ORDER; i++)
        CHECK_EQ(n.note[i] & 0xFFFFu, i);
    tg_attached_detach(a);
    serve_end(&s);
    free(n.note);
}

static struct tg_attached *shared_handle;
static uint32_t thread_items;

static void *thread_client(void *number)
{
    uint64_t start = tg_clock_mono_ns();
    for (uint32_t i = 0; !enough(i, 500, start); i++) {
        struct tg_outcome o;
        uint32_t value = (uint32_t)(uintptr_t)number << 16 | i;
        tg_add_relaxed_u32(&thread_items, 1);
        int r = tg_attached_wait(shared_handle, put_mix(shared_handle, i % 5, value), LIMIT, &o);
        /* The other threads may have gone round the ring before this one looked. */
        CHECK(r == 0 || r == -ESTALE);
        if (r == 0)
            CHECK_EQ(o.value[0], mixed(value));
    }
    return NULL;
}

/* Several threads on one handle, sleeping at once (the client is this process: threads after fork are not
 * what is tested). */
static void e1_threads_share_a_handle(uint32_t spin_us)
{
    struct served s;
    struct tg_attach_options ao;
    pthread_t thread[4];
    serve_start(&s, test_engine(320, 1), NULL);
    tg_attach_options_init(&ao);
    ao.spin_us = spin_us;
    CHECK_EQ(tg_engine_attach(serve_path, &ao, &shared_handle), 0);
    uint64_t start = tg_clock_mono_ns();
    thread_items = 0;
    for (uintptr_t i = 0; i < 4; i++)
        CHECK_EQ(pthread_create(&thread[i], NULL, thread_client, (void *)i), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    fprintf(stderr, "  %u items in %.1f ms\n", thread_items, (double)(tg_clock_mono_ns() - start) / 1e6);
    CHECK_EQ(tg_load_relaxed_u32(&s.runs), thread_items);
    tg_attached_detach(shared_handle);
    serve_end(&s);
}

static void e1_threads_that_spin(void)
{
    e1_threads_share_a_handle(20);
}

static void e10_threads_that_sleep(void)
{
    e1_threads_share_a_handle(0);
}

static void cases(void)
{
    RUN(e1_four_clients_are_exact);
    RUN(e6_outcomes_come_back);
    RUN(e1_calls);
    RUN(e1_a_full_ring_and_old_items);
    RUN(e1_a_slot_is_taken_once);
    RUN(e2_urgent_items_pass_a_full_level);
    RUN(e2_a_clients_items_start_in_order);
    RUN(e10_sleepers_wake);
    RUN(e1_threads_that_spin);
    RUN(e10_threads_that_sleep);
}

int main(int argc, char **argv)
{
    child_main(argc, argv);
    serve_folder_make();
    BOTH_WAYS(cases);
    serve_folder_remove();
    return 0;
}
