/* SPDX-License-Identifier: Apache-2.0
 * The live slot: legality of every move over all statuses, and threads that publish, claim, yield, fault and
 * cancel at once. Rules E1 (once) and E7 (results before DONE); meant to run under TSan as well. */
#include <pthread.h>
#include <sched.h>

#include <tidegate/ring.h>

#include "check.h"
#include "ring/slot.h"

static void e1_only_legal_moves_succeed(void)
{
    const uint32_t odd[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 31, 32, 33, 0x80000001u, UINT32_MAX};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        struct tg_slot slot = {.status = odd[i]};
        uint32_t from = 99, to;
        const uint32_t s = odd[i];

        bool legal = tg_slot_transition_target(s, TG_TRANSITION_CLAIM, &to);
        CHECK(tg_slot_is_claimable(&slot) == legal);
        CHECK(tg_slot_try_claim(&slot, &from) == legal);
        CHECK_EQ(slot.status, legal ? (uint32_t)TG_SLOT_CLAIMED : s);
        CHECK_EQ(from, legal ? s : 99);

        slot.status = s, from = 99;
        legal = tg_slot_transition_target(s, TG_TRANSITION_FAULT, &to);
        CHECK(tg_slot_try_fault(&slot, &from) == legal);
        CHECK_EQ(slot.status, legal ? (uint32_t)TG_SLOT_FAULT : s);
        CHECK_EQ(from, legal ? s : 99);

        slot.status = s, from = 99;
        legal = tg_slot_transition_target(s, TG_TRANSITION_CANCEL, &to);
        CHECK(tg_slot_try_cancel(&slot, &from) == legal);
        CHECK_EQ(slot.status, legal ? (uint32_t)TG_SLOT_EMPTY : s);
        CHECK_EQ(from, legal ? s : 99);

        slot.status = s;
        CHECK(tg_slot_try_done(&slot) == (s == TG_SLOT_CLAIMED));
        CHECK_EQ(slot.status, s == TG_SLOT_CLAIMED ? (uint32_t)TG_SLOT_DONE : s);

        slot.status = s;
        CHECK(tg_slot_try_hand_back(&slot, TG_SLOT_YIELD) == (s == TG_SLOT_CLAIMED));
        slot.status = s;
        CHECK(tg_slot_try_io_ready(&slot) == (s == TG_SLOT_WAIT_IO));
        slot.status = s;
        CHECK(tg_slot_try_clear_fault(&slot) == (s == TG_SLOT_FAULT));
        slot.status = s;
        CHECK(tg_slot_is_publishable(&slot) == (s == TG_SLOT_EMPTY || s == TG_SLOT_DONE));
    }
}

static void e1_codec_reads_what_the_live_slot_wrote(void)
{
    struct tg_slot slot = {0};
    unsigned char bytes[TG_SLOT_BYTES] = {0};
    const uint32_t args[] = {0xA1B2C3D4u, 5};
    tg_slot_write_payload(&slot, 300, 7, TG_PRIORITY_LOW, args, 2);
    tg_slot_publish(&slot);
    CHECK_EQ(tg_publish_slot_with_priority(bytes, sizeof bytes, 0, 7, TG_PRIORITY_LOW, 300, args, 2), 0);
    CHECK(memcmp(&slot, bytes, sizeof bytes) == 0);
}

/* ---- Threads ------------------------------------------------------------------------------------------- */

enum { PUBLISHERS = 2, WORKERS = 2, SLOTS = 8, ROUNDS = 50000 };

static struct tg_slot ring[PUBLISHERS * SLOTS];
static uint32_t results[PUBLISHERS * SLOTS]; /* plain words on purpose: only STATUS orders them */
static uint64_t executed, stopped, wrong, cancelled, faulted;

/* Publishes ROUNDS items into its own slots, each only after the last life of the slot ended. */
static void *publisher(void *arg)
{
    const uint32_t base = (uint32_t)(uintptr_t)arg * SLOTS;
    uint32_t expected[SLOTS] = {0};
    for (uint32_t n = 0; n < ROUNDS;) {
        for (uint32_t i = 0; i < SLOTS && n < ROUNDS; i++) {
            struct tg_slot *slot = &ring[base + i];
            const uint32_t status = tg_slot_status(slot);
            if (status == TG_SLOT_FAULT)
                tg_slot_try_clear_fault(slot);
            if (status == TG_SLOT_DONE && results[base + i] != expected[i] * 3 + 1)
                tg_add_relaxed_u64(&wrong, 1);
            if (!tg_slot_is_publishable(slot))
                continue;
            expected[i] = n * 2654435761u;
            const uint32_t args[2] = {expected[i], ~expected[i]};
            tg_slot_write_payload(slot, 8, base + i, TG_PRIORITY_NORMAL, args, 2);
            tg_slot_publish(slot);
            n++;
        }
        sched_yield();
    }
    return NULL;
}

/* One look at a slot: claims it, checks the payload, and ends its life or hands it back. */
static void work_on(uint32_t index, uint32_t round)
{
    struct tg_slot *slot = &ring[index];
    struct tg_slot_payload payload;
    uint32_t from;
    if (!tg_slot_try_claim(slot, &from))
        return;
    tg_slot_read_payload(slot, &payload);
    if (payload.args[1] != ~payload.args[0] || payload.tenant != index || payload.args[2] != 0)
        tg_add_relaxed_u64(&wrong, 1);
    if (from == TG_SLOT_PUBLISHED && round % 7 == 0) {
        if (!tg_slot_try_hand_back(slot, TG_SLOT_YIELD))
            tg_add_relaxed_u64(&wrong, 1);
        return;
    }
    results[index] = payload.args[0] * 3 + 1;
    tg_add_relaxed_u64(&executed, 1);
    if (!tg_slot_try_done(slot))
        tg_add_relaxed_u64(&wrong, 1);
}

static void *worker(void *arg)
{
    uint32_t round = (uint32_t)(uintptr_t)arg;
    while (!tg_load_acquire_u64(&stopped)) {
        for (uint32_t i = 0; i < PUBLISHERS * SLOTS; i++)
            work_on(i, round++);
        sched_yield();
    }
    return NULL;
}

/* Cancels and faults what is not claimed. */
static void *meddler(void *arg)
{
    (void)arg;
    for (uint32_t n = 0; !tg_load_acquire_u64(&stopped); n++) {
        struct tg_slot *slot = &ring[n * 7 % (PUBLISHERS * SLOTS)];
        uint32_t from;
        if (tg_slot_try_cancel(slot, &from))
            tg_add_relaxed_u64(&cancelled, 1);
        if (tg_slot_is_claimable(slot) && tg_slot_try_move(slot, TG_FROM_CLAIM, TG_SLOT_FAULT, &from))
            tg_add_relaxed_u64(&faulted, 1);
        sched_yield();
    }
    return NULL;
}

/* Everybody at once, to the end; nothing is lost or doubled. */
static void publish_and_meddle(void)
{
    pthread_t threads[PUBLISHERS + WORKERS + 1];
    for (uintptr_t i = 0; i < PUBLISHERS; i++)
        CHECK(pthread_create(&threads[i], NULL, publisher, (void *)i) == 0);
    for (uintptr_t i = 0; i < WORKERS; i++)
        CHECK(pthread_create(&threads[PUBLISHERS + i], NULL, worker, (void *)i) == 0);
    CHECK(pthread_create(&threads[PUBLISHERS + WORKERS], NULL, meddler, NULL) == 0);
    for (size_t i = 0; i < PUBLISHERS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    tg_store_release_u64(&stopped, 1);
    for (size_t i = PUBLISHERS; i < PUBLISHERS + WORKERS + 1; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    for (uint32_t i = 0; i < PUBLISHERS * SLOTS; i++)
        for (uint32_t round = 1; tg_slot_is_claimable(&ring[i]); round = 1)
            work_on(i, round); /* what was still published when the workers left */
    CHECK_EQ(wrong, 0);
    CHECK_EQ(executed + cancelled + faulted, (uint64_t)PUBLISHERS * ROUNDS);
}

static void e1_each_publication_ends_exactly_once(void)
{
    /* A crowded machine may not run the meddler beside the others: then once more. */
    for (int tries = 0; tries < 50; tries++) {
        executed = cancelled = faulted = stopped = 0;
        memset(ring, 0, sizeof(ring));
        publish_and_meddle();
        if (executed > 0 && cancelled + faulted > 0)
            break;
    }
    CHECK(executed > 0 && cancelled + faulted > 0);
}

/* ---- Several claimers neck and neck ----------------------------------------------------------------------
 */

enum { CLAIMERS = 2, SWEPT = 1024, SWEEPS = 2000 };

static struct tg_slot swept[SWEPT];
static pthread_barrier_t gate;

/* Sweeps the published slots in the same order as the other: the one behind skips faster than the one ahead
 * claims, so both arrive at each slot together. */
static void *sweeper(void *arg)
{
    uint64_t *claims = arg;
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        pthread_barrier_wait(&gate); /* all published */
        for (size_t i = 0; i < SWEPT; i++) {
            uint32_t from;
            *claims += tg_slot_try_claim(&swept[i], &from);
        }
        pthread_barrier_wait(&gate); /* all claimed */
    }
    return NULL;
}

static void e1_one_of_many_claimers_wins(void)
{
    pthread_t threads[CLAIMERS];
    uint64_t claims[CLAIMERS] = {0};
    CHECK(pthread_barrier_init(&gate, NULL, CLAIMERS + 1) == 0);
    for (size_t i = 0; i < CLAIMERS; i++)
        CHECK(pthread_create(&threads[i], NULL, sweeper, &claims[i]) == 0);
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        for (size_t i = 0; i < SWEPT; i++)
            tg_slot_publish(&swept[i]);
        pthread_barrier_wait(&gate);
        pthread_barrier_wait(&gate);
        for (size_t i = 0; i < SWEPT; i++)
            CHECK(tg_slot_try_done(&swept[i]));
    }
    for (size_t i = 0; i < CLAIMERS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    pthread_barrier_destroy(&gate);
    CHECK_EQ(claims[0] + claims[1], (uint64_t)SWEPT * SWEEPS);
}

int main(void)
{
    RUN(e1_only_legal_moves_succeed);
    RUN(e1_codec_reads_what_the_live_slot_wrote);
    RUN(e1_each_publication_ends_exactly_once);
    RUN(e1_one_of_many_claimers_wins);
    return 0;
}
