/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kernel IR costs before anything is lowered: building and checking the whole kernel (all built-in
 * opcodes), writing and reading it as text, running it in the interpreter, and exploring schedules. Ratios:
 * checking, printing and parsing against building; an interpreted node step against a plain atomic add.
 */
#include <tidegate/ir.h>
#include <tidegate/ring.h>

#include <string.h>

#include "base/atomic.h"
#include "bench.h"

enum { ROUNDS = 200, SLOTS = 64, ITEMS_ROUNDS = 300, ADDS = 20000000 };

static uint64_t memory[1 << 16], memory2[1 << 16];
static char text[1 << 18];
static struct tg_ir ir;
static double took[ROUNDS];

static struct tg_slot ring[SLOTS];
static uint32_t control[TG_CONTROL_MIN_WORDS + 16];

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static struct tg_ir_node kernel(struct tg_ir *at, void *words, size_t bytes, uint32_t slots)
{
    struct tg_ir_kernel k = {.slots = slots, .flags = TG_IR_UNTIL_IDLE};
    tg_ir_init(at, words, bytes);
    return tg_ir_kernel(at, &k);
}

/* Median of one step of making a kernel, in microseconds; < 0: it failed. */
static double measure(int what)
{
    struct tg_ir_node root = kernel(&ir, memory, sizeof(memory), 4096), back;
    size_t size = tg_ir_print(&ir, root, text, sizeof(text));
    for (int i = 0; i < ROUNDS; i++) {
        struct tg_ir copy;
        uint64_t begin = tg_clock_mono_ns();
        int r = 0;
        if (what == 0)
            root = kernel(&ir, memory, sizeof(memory), 4096);
        else if (what == 1)
            r = tg_ir_validate(&ir, root, 0, NULL);
        else if (what == 2)
            r = tg_ir_print(&ir, root, text, sizeof(text)) == size ? 0 : -1;
        else {
            tg_ir_init(&copy, memory2, sizeof(memory2));
            r = tg_ir_parse(&copy, text, size, &back, NULL);
        }
        took[i] = (double)(tg_clock_mono_ns() - begin) / 1e3;
        if (r != 0)
            return -1;
    }
    qsort(took, ROUNDS, sizeof(took[0]), compare);
    return took[ROUNDS / 2];
}

static void publish(uint32_t slots)
{
    for (uint32_t i = 0; i < slots; i++)
        tg_publish_slot_with_priority(ring, sizeof(ring), i, i % 5, i % 5, TG_OP_ATOMIC_ADD,
                                      (const uint32_t[]){1, TG_CONTROL_OBSERVABLE_BASE + i % 16}, 2);
}

static struct tg_ir_machine *machine(uint32_t slots, uint32_t lanes)
{
    struct tg_ir_memory words = {{NULL}, {0}};
    struct tg_ir_machine_options o = {.lanes = lanes, .memory = &words};
    struct tg_ir_machine *m = NULL;
    size_t bytes;
    memset(ring, 0, sizeof(ring));
    tg_encode_control(false, 29, 16, control, sizeof(control), &bytes);
    words.words[TG_IR_RING] = &ring[0].status;
    words.count[TG_IR_RING] = slots * TG_SLOT_WORDS;
    words.words[TG_IR_CONTROL] = control;
    words.count[TG_IR_CONTROL] = TG_CONTROL_MIN_WORDS + 16;
    tg_ir_machine_open(&ir, kernel(&ir, memory, sizeof(memory), slots), &o, &m);
    return m;
}

static double ns_per_add(void)
{
    uint32_t word = 0;
    uint64_t begin = tg_clock_mono_ns();
    for (int i = 0; i < ADDS; i++)
        tg_add_relaxed_u32(&word, 1); /* a floor; nobody reads it */
    return (double)(tg_clock_mono_ns() - begin) / ADDS;
}

static void interpreter(void)
{
    struct tg_ir_machine *m = machine(SLOTS, 2);
    uint64_t begin = tg_clock_mono_ns();
    if (!m)
        return;
    for (int i = 0; i < ITEMS_ROUNDS; i++) {
        publish(SLOTS);
        tg_ir_machine_reset(m);
        tg_ir_machine_run(m, (uint64_t)i, UINT64_MAX);
    }
    double ns = (double)(tg_clock_mono_ns() - begin);
    double steps = (double)tg_ir_machine_steps(m);
    bench_print("ir", "interpreter, node steps", steps / ns * 1e3, "M/s", 1e3 / ns_per_add());
    bench_print("ir", "interpreter, items of a 64-slot ring", ITEMS_ROUNDS * SLOTS / ns * 1e9, "1/s", 0);
    tg_ir_machine_close(m);
}

static void exploration(void)
{
    struct tg_ir_explored found;
    struct tg_ir_machine *m = machine(3, 2);
    if (!m)
        return;
    publish(3);
    uint64_t begin = tg_clock_mono_ns();
    tg_ir_explore(m, NULL, &found);
    double ns = (double)(tg_clock_mono_ns() - begin);
    bench_print("ir", "exploring 2 lanes, 3 slots, all schedules", ns / 1e6, "ms", 0);
    bench_print("ir", "states of it", (double)found.states / ns * 1e9, "1/s", 0);
    tg_ir_machine_close(m);
}

int main(void)
{
    double build_us = measure(0);
    bench_print("ir", "build the kernel", build_us, "us", 0);
    bench_print("ir", "validate it", measure(1), "us", build_us);
    bench_print("ir", "print it", measure(2), "us", build_us);
    bench_print("ir", "parse it", measure(3), "us", build_us);
    interpreter();
    exploration();
    return 0;
}
