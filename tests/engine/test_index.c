/* SPDX-License-Identifier: Apache-2.0
 * The queue of slot numbers: FIFO, over every wrap-around (cells, laps, 2^32 positions), and each number to
 * exactly one consumer. */
#include <pthread.h>

#include "engine/index.h"

#include "check.h"

static void fifo_from(uint64_t start, uint32_t shift)
{
    uint32_t cells = 1u << shift;
    uint32_t *memory = calloc(cells, sizeof(*memory));
    struct tg_index q;
    uint32_t v;
    CHECK(memory);
    tg_index_init(&q, memory, shift, start);
    CHECK(!tg_index_peek(&q, &v));
    uint32_t in = 0, out = 0;
    uint64_t seed = start + shift + 1;
    for (int i = 0; i < 20000; i++) {
        uint32_t room = cells - (in - out);
        uint32_t n = room ? (uint32_t)check_random(&seed) % (room + 1) : 0;
        for (uint32_t k = 0; k < n; k++)
            tg_index_push_mp(&q, in++ & TG_CELL_SLOT);
        CHECK_EQ(tg_index_count(&q), in - out);
        n = (uint32_t)check_random(&seed) % (in - out + 1);
        for (uint32_t k = 0; k < n; k++) {
            CHECK(k % 2 ? tg_index_pop_mc(&q, &v) : tg_index_pop_sc(&q, &v));
            CHECK_EQ(v, out++ & TG_CELL_SLOT);
        }
        CHECK(tg_index_peek(&q, &v) == (in != out));
    }
    free(memory);
}

static void e1_fifo_over_every_wrap(void)
{
    fifo_from(0, 1);
    fifo_from(0, 6);
    /* An even number of laps before 2^32 and before 2^64, so that zeroed cells hold nothing. */
    fifo_from((UINT64_C(1) << 32) - 256, 3);
    fifo_from(UINT64_MAX - 255, 4);
}

static void pop_many_is_all_or_nothing(void)
{
    uint32_t memory[8] = {0}, got[8];
    struct tg_index q;
    tg_index_init(&q, memory, 3, 0);
    for (uint32_t i = 0; i < 5; i++)
        tg_index_push_mp(&q, i);
    CHECK(!tg_index_pop_many_mc(&q, 6, got));
    CHECK_EQ(tg_index_count(&q), 5);
    CHECK(tg_index_pop_many_mc(&q, 5, got));
    for (uint32_t i = 0; i < 5; i++)
        CHECK_EQ(got[i], i);
}

/* Two queues pass 48 numbers round among four threads. A number is owned by one thread at a time. */
enum { NUMBERS = 48, MOVES = 100000 };
static struct tg_index ring[2];
static uint32_t owner[NUMBERS];
static uint64_t moved[NUMBERS];

static void *mover(void *id)
{
    uint32_t me = (uint32_t)(uintptr_t)id;
    uint64_t seed = me + 7;
    for (int i = 0; i < MOVES; i++) {
        uint32_t n, side = (uint32_t)check_random(&seed) % 2;
        if (!tg_index_pop_mc(&ring[side], &n))
            continue;
        CHECK(n < NUMBERS);
        uint32_t nobody = 0;
        CHECK(tg_cas_relaxed_u32(&owner[n], &nobody, me));
        moved[n]++; /* plain on purpose: the queue must order the owners */
        tg_store_relaxed_u32(&owner[n], 0);
        tg_index_push_mp(&ring[check_random(&seed) % 2], n);
    }
    return NULL;
}

static void e1_each_number_has_one_owner(void)
{
    static uint32_t memory[2][64];
    pthread_t thread[4];
    for (int s = 0; s < 2; s++)
        tg_index_init(&ring[s], memory[s], 6, 0);
    for (uint32_t n = 0; n < NUMBERS; n++)
        tg_index_push_mp(&ring[n % 2], n);
    for (uintptr_t i = 0; i < 4; i++)
        CHECK_EQ(pthread_create(&thread[i], NULL, mover, (void *)(i + 1)), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    uint32_t n, seen = 0;
    for (int s = 0; s < 2; s++)
        while (tg_index_pop_mc(&ring[s], &n))
            seen++;
    CHECK_EQ(seen, NUMBERS);
    uint64_t total = 0;
    for (n = 0; n < NUMBERS; n++)
        total += moved[n];
    CHECK(total > MOVES / 20); /* who is preempted in the middle of a push hides what lies behind */
}

int main(void)
{
    RUN(e1_fifo_over_every_wrap);
    RUN(pop_many_is_all_or_nothing);
    RUN(e1_each_number_has_one_owner);
    return 0;
}
