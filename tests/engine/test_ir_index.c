/* SPDX-License-Identifier: Apache-2.0
 * The kernel with an index, compiled, its loop alone on bare buffers: threads as lanes and a thread that
 * publishes into the ring while they run. Each item runs once (E1), each fence after its batch (E5), and the
 * lanes leave when SHUTDOWN is set and all is done (E8). */
#include <pthread.h>
#include <stdlib.h>

#include <tidegate/compile.h>
#include <tidegate/ring.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "check.h"

enum { SLOTS = 96, LANES = 3, ITEMS = 20000, OBSERVABLES = 4 + ITEMS };

static _Alignas(64) struct tg_slot ring[SLOTS];
static uint32_t control[TG_CONTROL_MIN_WORDS + OBSERVABLES];
static uint64_t arena[1 << 17];
static struct tg_kernel *kernel;
static struct tg_ir_index x;
static uint32_t index_buffer;

static void *lane(void *number)
{
    struct tg_kernel_env env = {
        .size = sizeof(env), .lane = (uint32_t)(uintptr_t)number, .lanes = LANES, .groups = 1};
    uint32_t value = 1;
    env.words[TG_IR_RING] = &ring[0].status;
    env.count[TG_IR_RING] = SLOTS * TG_SLOT_WORDS;
    env.words[TG_IR_CONTROL] = control;
    env.count[TG_IR_CONTROL] = sizeof(control) / sizeof(control[0]);
    env.words[index_buffer] = x.words;
    env.count[index_buffer] = (uint32_t)tg_ir_index_words(SLOTS);
    CHECK_EQ(tg_kernel_lane(kernel, &env, &value), 0);
    CHECK_EQ(value, 0);
    return NULL;
}

/* A free slot; the ring goes round. */
static uint32_t free_slot(uint32_t *next)
{
    uint64_t give_up = tg_clock_mono_ns() + UINT64_C(200000000000);
    for (;;) {
        for (uint32_t i = 0; i < SLOTS; i++) {
            uint32_t s = (*next + i) % SLOTS, status = tg_load_acquire_u32(&ring[s].status);
            if (status == TG_SLOT_EMPTY || status == TG_SLOT_DONE) {
                *next = s + 1;
                return s;
            }
        }
        CHECK(tg_clock_mono_ns() < give_up);
        tg_cpu_relax();
    }
}

static void everything_once(void)
{
    static char why[TG_COMPILE_WHY_BYTES];
    struct tg_ir ir;
    pthread_t thread[LANES];
    uint32_t next = 0, fences = 0;
    struct tg_ir_kernel k = {.slots = SLOTS, .flags = TG_IR_INDEXED};
    tg_ir_init(&ir, arena, sizeof(arena));
    int r = tg_engine_compile(&ir, &k, NULL, &kernel, why, sizeof(why));
    if (r)
        fprintf(stderr, "%s\n", why);
    CHECK_EQ(r, 0);
    int at = tg_ir_buffer_find(&ir, TG_IR_INDEX_BUFFER);
    CHECK(at > 0);
    index_buffer = (uint32_t)at;
    CHECK_EQ(tg_encode_control(false, 29, OBSERVABLES, control, sizeof(control), &(size_t){0}), 0);
    for (uint32_t t = 0; t < 29; t++)
        control[TG_CONTROL_TENANT_QUOTA_BASE + t] = TG_TENANT_QUOTA_UNLIMITED;
    x = (struct tg_ir_index){calloc(tg_ir_index_words(SLOTS), sizeof(uint32_t)), ring, SLOTS};
    CHECK(x.words);
    for (uintptr_t i = 0; i < LANES; i++)
        CHECK_EQ(pthread_create(&thread[i], NULL, lane, (void *)i), 0);
    for (uint32_t i = 0; i < ITEMS; i++) {
        uint32_t s = free_slot(&next);
        const uint32_t args[2] = {1, TG_CONTROL_OBSERVABLE_BASE + 4 + i};
        CHECK_EQ(
            tg_publish_slot_with_priority(ring, sizeof(ring), s, i % 29, i % 5, TG_OP_ATOMIC_ADD, args, 2),
            0);
        CHECK_EQ(tg_ir_index_publish(&x, s), 0);
        if (i % 16 == 15) { /* a fence over the slots before it, whatever they hold */
            uint32_t f = free_slot(&next);
            CHECK_EQ(tg_publish_slot_with_priority(ring, sizeof(ring), f, i % 29, i % 3, TG_OP_BATCH_FENCE,
                                                   (const uint32_t[]){f < 8 ? f : 8, i}, 2),
                     0);
            CHECK_EQ(tg_ir_index_publish(&x, f), 0);
            fences++;
        }
    }
    tg_store_release_u32(&control[TG_CONTROL_SHUTDOWN], 1); /* pairs with the kernel's look at it */
    for (uint32_t i = 0; i < LANES; i++)
        CHECK_EQ(pthread_join(thread[i], NULL), 0);
    for (uint32_t i = 0; i < ITEMS; i++)
        CHECK_EQ(control[TG_CONTROL_OBSERVABLE_BASE + 4 + i], 1);
    CHECK_EQ(control[TG_CONTROL_EPOCH], fences);
    CHECK_EQ(control[TG_CONTROL_DONE_COUNT], ITEMS + fences);
    CHECK_EQ(control[TG_CONTROL_FAULT_COUNT], 0);
    fprintf(stderr, "  %s: %u items and %u fences\n",
            tg_kernel_is_compiled(kernel) ? "compiled" : "interpreted", ITEMS, fences);
    CHECK_EQ(tg_kernel_close(kernel), 0);
    free(x.words);
}

int main(void)
{
    RUN(everything_once);
    return 0;
}
