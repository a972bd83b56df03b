// SPDX-License-Identifier: Apache-2.0
// The fibers of warp.h (x86-64 and aarch64 by hand, because a switch that saves signal masks costs 50 times
// as much).
#include "warp.h"

#include "base/atomic.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <pthread.h>
#include <sched.h>
#include <time.h>

namespace
{

constexpr uint32_t lanes = 32;
constexpr size_t stack_bytes = 64 << 10;

enum Operation : uint32_t { op_ballot = 1, op_shfl, op_match, op_sum, op_sync };

// One switch between warps in so many warp operations of a lane, besides those of idle warps.
constexpr uint64_t operations_a_switch = 48;

struct Block;
struct Warp {
    Block *block;
    uint32_t number;
    void *context[lanes]; // stack pointers of lanes that do not run
    void *stack[lanes];
    bool ended[lanes];
    uint32_t current, live;
    uint32_t phase[lanes];
    // Of this phase and the one before: a lane may be one ahead of another.
    uint32_t value[2][lanes], operation[2][lanes];
    uint64_t paused; // the block's turn at its last pause
};

struct Block {
    Warp *warp[EMULATED_MOST_WARPS]; // those that have not ended
    uint32_t live;
    uint64_t seed, turns, idles;
    void *caller;
    void (*body)(void *, uint32_t, uint32_t);
    void *argument;
};

thread_local Warp *self;

extern "C" void emulated_switch(void **save, void *restore);
extern "C" void emulated_entry(void);
#if defined(__x86_64__)
asm(".text\n.globl emulated_switch\nemulated_switch:\n"
    "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
    "mov %rsp,(%rdi)\nmov %rsi,%rsp\n"
    "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n"
    ".globl emulated_entry\nemulated_entry:\nsub $8,%rsp\ncall emulated_lane\nud2\n");
constexpr size_t saved_words = 6;
#elif defined(__aarch64__)
asm(".text\n.globl emulated_switch\nemulated_switch:\n"
    "sub sp,sp,#160\nstp x19,x20,[sp]\nstp x21,x22,[sp,#16]\nstp x23,x24,[sp,#32]\nstp x25,x26,[sp,#48]\n"
    "stp x27,x28,[sp,#64]\nstp x29,x30,[sp,#80]\nstp d8,d9,[sp,#96]\nstp d10,d11,[sp,#112]\n"
    "stp d12,d13,[sp,#128]\nstp d14,d15,[sp,#144]\nmov x9,sp\nstr x9,[x0]\nmov sp,x1\n"
    "ldp x19,x20,[sp]\nldp x21,x22,[sp,#16]\nldp x23,x24,[sp,#32]\nldp x25,x26,[sp,#48]\n"
    "ldp x27,x28,[sp,#64]\nldp x29,x30,[sp,#80]\nldp d8,d9,[sp,#96]\nldp d10,d11,[sp,#112]\n"
    "ldp d12,d13,[sp,#128]\nldp d14,d15,[sp,#144]\nadd sp,sp,#160\nret\n"
    ".globl emulated_entry\nemulated_entry:\nbl emulated_lane\nbrk #1\n");
#else
#error "no fibers for this processor"
#endif

uint64_t random_of(Block *b)
{
    b->seed ^= b->seed << 13;
    b->seed ^= b->seed >> 7;
    b->seed ^= b->seed << 17;
    return b->seed;
}

// The lane stops here until its warp's turn comes again.
void other_warp(Block *b)
{
    Warp *from = self;
    b->turns++;
    Warp *to = b->warp[random_of(b) % b->live];
    if (to == from)
        return;
    self = to;
    emulated_switch(&from->context[from->current], to->context[to->current]);
}

// The last lane of a warp has ended.
void end_warp(Warp *w)
{
    Block *b = w->block;
    void *nobody;
    uint32_t i = 0;
    while (b->warp[i] != w)
        i++;
    b->warp[i] = b->warp[--b->live];
    if (b->live == 0)
        emulated_switch(&nobody, b->caller);
    self = b->warp[0];
    emulated_switch(&nobody, self->context[self->current]);
}

void go_on(Warp *w)
{
    uint32_t from = w->current;
    uint32_t to = from;
    do
        to = (to + 1) % lanes;
    while (w->ended[to] && to != from);
    if (w->ended[to])
        end_warp(w);
    if (to == from)
        return;
    w->current = to;
    emulated_switch(&w->context[from], w->context[to]);
}

extern "C" void emulated_lane(void)
{
    Warp *w = self;
    w->block->body(w->block->argument, w->number, w->current);
    w->ended[w->current] = true;
    go_on(w);
    abort();
}

// Posts a value and lets the other lanes come here too. Returns the phase's values.
const uint32_t *meet(Operation operation, uint32_t value)
{
    Warp *w = self;
    uint32_t lane = w->current;
    uint32_t phase = w->phase[lane]++ % 2;
    w->value[phase][lane] = value;
    w->operation[phase][lane] = operation;
    if (w->block->live > 1 && random_of(w->block) % operations_a_switch == 0)
        other_warp(w->block);
    go_on(w);
    for (uint32_t i = 0; i < lanes; i++) {
        if (w->operation[phase][i] != operation || w->phase[i] < w->phase[lane]) {
            fprintf(stderr, "lane %u is at warp operation %u, lane %u is not\n", lane, operation, i);
            abort();
        }
    }
    return w->value[phase];
}

} // namespace

static Warp *new_warp(Block *b, uint32_t number)
{
    Warp *w = static_cast<Warp *>(calloc(1, sizeof(Warp)));
    w->block = b;
    w->number = number;
    for (uint32_t i = 0; i < lanes; i++) {
        w->stack[i] = aligned_alloc(64, stack_bytes);
        char *top = static_cast<char *>(w->stack[i]) + stack_bytes - 64;
#if defined(__x86_64__)
        void **sp = reinterpret_cast<void **>(top);
        *--sp = nullptr;
        *--sp = reinterpret_cast<void *>(&emulated_entry);
        sp -= saved_words;
        memset(sp, 0, saved_words * sizeof(void *));
#else
        void **sp = reinterpret_cast<void **>(top - 160);
        memset(sp, 0, 160);
        sp[11] = reinterpret_cast<void *>(&emulated_entry); // x30
#endif
        w->context[i] = sp;
    }
    return w;
}

void emulated_block_run(uint32_t warps, void (*body)(void *, uint32_t, uint32_t), void *argument,
                        uint64_t seed)
{
    Block b = {};
    Warp *all[EMULATED_MOST_WARPS] = {};
    b.body = body;
    b.argument = argument;
    b.seed = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
    b.live = warps;
    for (uint32_t i = 0; i < warps; i++)
        b.warp[i] = all[i] = new_warp(&b, i);
    self = all[0];
    emulated_switch(&b.caller, self->context[0]);
    self = nullptr;
    for (uint32_t i = 0; i < warps; i++) {
        for (uint32_t k = 0; k < lanes; k++)
            free(all[i]->stack[k]);
        free(all[i]);
    }
}

struct emulated_block {
    pthread_barrier_t barrier;
    uint32_t any[2]; // by turns, so that a warp may be one ahead
};

static thread_local emulated_block *block_of_this;
static thread_local uint32_t block_turn;

emulated_block *emulated_block_new(void)
{
    auto *b = static_cast<emulated_block *>(calloc(1, sizeof(emulated_block)));
    pthread_barrier_init(&b->barrier, nullptr, 4);
    return b;
}

void emulated_block_free(emulated_block *b)
{
    pthread_barrier_destroy(&b->barrier);
    free(b);
}

void emulated_block_join(emulated_block *b)
{
    block_of_this = b;
}

// Lane 0 goes for its warp: says, waits for the other three, reads, and waits again before the word is
// cleared.
bool tg_block_any(bool value)
{
    uint32_t mask = tg_warp_ballot(value);
    uint32_t any = 0;
    if (self->current == 0) {
        emulated_block *b = block_of_this;
        uint32_t *word = &b->any[block_turn++ % 2];
        if (mask)
            tg_store_relaxed_u32(word, 1u);
        pthread_barrier_wait(&b->barrier);
        any = tg_load_relaxed_u32(word);
        if (pthread_barrier_wait(&b->barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
            tg_store_relaxed_u32(word, 0u);
    }
    return tg_warp_shfl(any, 0) != 0;
}

uint32_t tg_warp_ballot(bool value)
{
    const uint32_t *v = meet(op_ballot, value);
    uint32_t mask = 0;
    for (uint32_t i = 0; i < lanes; i++)
        mask |= (v[i] ? 1u : 0u) << i;
    return mask;
}

uint32_t tg_warp_shfl(uint32_t value, uint32_t lane)
{
    return meet(op_shfl, value)[lane % lanes];
}

uint32_t tg_warp_match(uint32_t value)
{
    const uint32_t *v = meet(op_match, value);
    uint32_t mask = 0;
    for (uint32_t i = 0; i < lanes; i++)
        mask |= (v[i] == value ? 1u : 0u) << i;
    return mask;
}

uint32_t tg_warp_sum(uint32_t value)
{
    const uint32_t *v = meet(op_sum, value);
    uint32_t sum = 0;
    for (uint32_t i = 0; i < lanes; i++)
        sum += v[i];
    return sum;
}

void tg_warp_sync(void)
{
    meet(op_sync, 0);
}

void tg_shared_or(uint32_t *word, uint32_t bits)
{
    *word |= bits; // one thread
}

void tg_quarter_store(uint32_t *to, const uint32_t v[4])
{
    memcpy(to, v, 16);
}

uint64_t tg_device_ns(void)
{
    timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return static_cast<uint64_t>(ts.tv_sec) * 1000000000u + static_cast<uint64_t>(ts.tv_nsec);
}

uint32_t tg_device_ticks(void)
{
    static thread_local uint32_t ticks;
    return ticks += 1000; // nobody waits for them
}

void tg_quarter_load(uint32_t v[4], const uint32_t *from)
{
    memcpy(v, from, 16);
}

void tg_warp_idle(void)
{
    Block *b = self->block;
    if (self->current != 0)
        return;
    // A turn of each warp is much work here and a yield may be long on a busy machine.
    if (b->live == 1 || ++b->idles % 16 == 0)
        sched_yield();
    other_warp(b);
}

void tg_device_pause(uint32_t ns)
{
    if (self && self->current != 0)
        return;
    if (self && self->block->live > 1) {
        // The thread pauses when all its warps did, one after the other.
        Block *b = self->block;
        self->paused = b->turns;
        for (uint32_t i = 0; i < b->live; i++)
            if (b->turns - b->warp[i]->paused > 16)
                return;
    }
    // Idle warps are threads that want a core: most of the time they sleep.
    static thread_local uint32_t pauses;
    if (ns < 300 && ++pauses % 4 != 0) {
        sched_yield();
        return;
    }
    timespec ts = {0, ns < 300 ? 20000 : 50000};
    nanosleep(&ts, nullptr);
}
