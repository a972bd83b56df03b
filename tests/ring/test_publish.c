/* SPDX-License-Identifier: Apache-2.0
 * Publishers: which slots, opcodes, priorities and argument counts they take, and that a rejected call
 * changes no byte. Rules E1, E2, E5. */
#include <sys/mman.h>

#include <tidegate/ring.h>

#include "check.h"

enum { SLOTS = 6, BYTES = SLOTS * 64 };

static uint32_t word(const unsigned char *bytes, size_t index)
{
    const unsigned char *b = bytes + index * 4;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/* A ring of publishable slots full of old words. */
static void old_ring(unsigned char *ring)
{
    memset(ring, 0xEE, BYTES);
    for (int slot = 0; slot < SLOTS; slot++) {
        memset(ring + slot * 64, 0, 4);
        ring[slot * 64] = slot % 2 ? TG_SLOT_DONE : TG_SLOT_EMPTY;
    }
}

static void e1_a_written_slot_keeps_no_old_word(void)
{
    for (size_t shift = 0; shift < 4; shift++)
        for (uint32_t count = 0; count <= TG_ARGS_PER_SLOT; count++) {
            unsigned char block[BYTES + 4], *ring = block + shift, before[BYTES];
            uint32_t args[TG_ARGS_PER_SLOT];
            for (uint32_t i = 0; i < TG_ARGS_PER_SLOT; i++)
                args[i] = 0xF0E0D0C0u + i;
            old_ring(ring);
            memcpy(before, ring, BYTES);
            CHECK_EQ(tg_publish_slot(ring, BYTES, 3, 0xDEADBEEF, 300, count ? args : NULL, count), 0);
            const unsigned char *slot = ring + 3 * 64;
            CHECK_EQ(word(slot, 0), TG_SLOT_PUBLISHED);
            CHECK_EQ(word(slot, 1), 300);
            CHECK_EQ(word(slot, 2), 0xDEADBEEFu);
            CHECK_EQ(word(slot, 3), TG_PRIORITY_NORMAL);
            for (uint32_t i = 0; i < TG_ARGS_PER_SLOT; i++)
                CHECK_EQ(word(slot, 4 + i), i < count ? args[i] : 0);
            CHECK(memcmp(ring, before, 3 * 64) == 0);
            CHECK(memcmp(ring + 4 * 64, before + 4 * 64, BYTES - 4 * 64) == 0);
        }
}

static void e2_the_priority_named_is_the_priority_written(void)
{
    for (uint32_t p = 0; p < 8; p++) {
        const bool good = p < TG_PRIORITY_LEVELS;
        unsigned char ring[BYTES], before[BYTES];
        uint32_t n = 0;
        old_ring(ring);
        memcpy(before, ring, BYTES);
        const uint32_t arg = 1;
        const struct tg_work_item item = {300, 1, 2, 3};
        const struct tg_batch_item batch = {300, &arg, 1};
        const struct tg_packed_op op = {9, &arg, 1};
        const int expect = good ? 0 : TG_QUEUE_FULL;
        CHECK_EQ(tg_publish_slot_with_priority(ring, BYTES, 0, 1, p, 300, &arg, 1), expect);
        CHECK_EQ(tg_publish_work_items_with_priority(ring, BYTES, 1, 1, p, &item, 1, &n), expect);
        CHECK_EQ(tg_batch_publish_with_priority(ring, BYTES, 2, 1, p, &batch, 1, 5, &n), expect);
        CHECK_EQ(tg_publish_packed_slot_with_priority(ring, BYTES, 4, 1, p, &op, 1), expect);
        for (int slot = 0; good && slot < 5; slot++)
            CHECK_EQ(word(ring + slot * 64, 3), p);
        CHECK(good || memcmp(ring, before, BYTES) == 0);
        unsigned char fresh[2 * 64];
        CHECK_EQ(tg_encode_work_items_ring_with_priority(2, 1, p, &item, 1, fresh, sizeof fresh, NULL),
                 expect);
        CHECK(!good || word(fresh, 3) == p);
    }
}

static void e1_only_empty_and_done_slots_are_taken(void)
{
    static const uint32_t odd[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 32, 35, 0x100, 0x03000000u, UINT32_MAX};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        unsigned char ring[64], before[64];
        memset(ring, 0x11, sizeof ring);
        for (unsigned b = 0; b < 4; b++)
            ring[b] = (unsigned char)(odd[i] >> 8 * b);
        memcpy(before, ring, sizeof ring);
        const bool good = odd[i] == TG_SLOT_EMPTY || odd[i] == TG_SLOT_DONE;
        CHECK_EQ(tg_publish_slot(ring, sizeof ring, 0, 1, 300, NULL, 0), good ? 0 : TG_QUEUE_FULL);
        CHECK(good || memcmp(ring, before, sizeof ring) == 0);
    }
}

static bool abi_publishable(uint32_t op)
{
    const bool builtin = op <= 7 || op == 0x80000001u || op == 0xFFFEu || op == UINT32_MAX;
    const bool reserved = op >= 0x80000000u || (op >= 0xFFF0 && op <= 0xFFFF) || op <= 7;
    return builtin || !reserved;
}

static void e1_exactly_the_publishable_opcodes(void)
{
    static const uint32_t around[] = {0, 8, 0xFFEF, 0xFFFD, 0x10000, 0x7FFFFFFF, 0x80000001u, 0xFFFFFFFEu};
    for (size_t i = 0; i < sizeof around / sizeof *around; i++)
        for (uint32_t d = 0; d < 40; d++) {
            const uint32_t op = around[i] - 20 + d;
            unsigned char ring[64] = {0};
            CHECK(tg_opcode_is_publishable(op) == abi_publishable(op));
            CHECK(tg_opcode_is_user(op) == !tg_opcode_is_reserved(op));
            CHECK(!tg_opcode_is_builtin(op) || tg_opcode_is_reserved(op));
            CHECK_EQ(tg_publish_slot(ring, 64, 0, 1, op, NULL, 0), abi_publishable(op) ? 0 : TG_QUEUE_FULL);
        }
    CHECK(!tg_opcode_is_publishable(TG_OP_LOAD_MISS));
}

/* A fault anywhere in a batch, in the last item or in the fence's slot, and nothing is written. */
static void e5_a_batch_is_all_or_nothing(void)
{
    const uint32_t args[13] = {1, 2, 3};
    for (int fault = 0; fault < 12; fault++) {
        struct tg_batch_item items[4] = {{300, args, 0}, {301, args, 12}, {302, args, 1}, {303, args, 3}};
        unsigned char ring[BYTES], before[BYTES];
        uint32_t n = 4711;
        old_ring(ring);
        if (fault < 4)
            items[fault].opcode = TG_OP_LOAD_MISS;
        else if (fault < 8)
            items[fault - 4].arg_count = 13;
        else
            ring[(fault - 8 + 1) * 64] = TG_SLOT_CLAIMED; /* slots 1 to 4; 4 is the fence's */
        memcpy(before, ring, BYTES);
        CHECK_EQ(tg_batch_publish(ring, BYTES, 0, 1, items, 4, 9, &n), TG_QUEUE_FULL);
        CHECK_EQ(n, 4711);
        CHECK(memcmp(ring, before, BYTES) == 0);
    }
}

static void e5_the_fence_follows_its_items(void)
{
    const uint32_t args[2] = {7, 8};
    const struct tg_batch_item items[2] = {{300, args, 2}, {TG_OP_NOP, NULL, 0}};
    unsigned char ring[BYTES];
    uint32_t n;
    old_ring(ring);
    CHECK_EQ(tg_batch_publish(ring, BYTES, 3, 6, items, 2, 0xFACE, &n), 0);
    CHECK_EQ(n, 3);
    const unsigned char *fence = ring + 5 * 64;
    CHECK_EQ(word(fence, 1), TG_OP_BATCH_FENCE);
    CHECK_EQ(word(fence, 2), 6);
    CHECK_EQ(word(fence, 4), 2);
    CHECK_EQ(word(fence, 5), 0xFACE);
    CHECK_EQ(word(fence, 6), 0);
    old_ring(ring);
    CHECK_EQ(tg_batch_publish(ring, BYTES, 5, 6, NULL, 0, 1, &n), 0); /* a lone fence in the last slot */
    CHECK_EQ(n, 1);
    CHECK_EQ(tg_batch_publish(ring, BYTES, 6, 6, NULL, 0, 1, &n), TG_QUEUE_FULL);
    CHECK_EQ(tg_batch_publish(NULL, 0, 0, 6, NULL, 0, 1, &n), TG_QUEUE_FULL);
}

static void no_items_are_fine_up_to_the_capacity(void)
{
    unsigned char ring[BYTES];
    uint32_t n = 9;
    old_ring(ring);
    CHECK(tg_publish_work_items(ring, BYTES, SLOTS, 1, NULL, 0, &n) == 0 && n == 0);
    CHECK_EQ(tg_publish_work_items(ring, BYTES, SLOTS + 1, 1, NULL, 0, &n), TG_QUEUE_FULL);
    CHECK_EQ(tg_publish_work_items(ring, BYTES - 1, 0, 1, NULL, 0, &n), TG_QUEUE_FULL);
    CHECK(tg_publish_work_items(NULL, 0, 0, 1, NULL, 0, &n) == 0 && n == 0);
}

/* start + count wraps 32 bits, and counts of items that no ring has; the items are not looked at first. */
static void e1_indices_that_overflow_are_refused(void)
{
    unsigned char ring[BYTES], before[BYTES];
    const struct tg_work_item item = {300, 1, 2, 3};
    const struct tg_batch_item batch = {300, NULL, 0};
    uint32_t n;
    old_ring(ring);
    memcpy(before, ring, BYTES);
    static const uint32_t starts[] = {6, 0x04000000u, 0x0FFFFFFFu, 0x10000000u, 0x80000000u, UINT32_MAX};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        CHECK_EQ(tg_publish_slot(ring, BYTES, starts[i], 1, 300, NULL, 0), TG_QUEUE_FULL);
        CHECK_EQ(tg_publish_work_items(ring, BYTES, starts[i], 1, &item, 1, &n), TG_QUEUE_FULL);
        CHECK_EQ(tg_batch_publish(ring, BYTES, starts[i], 1, &batch, 1, 1, &n), TG_QUEUE_FULL);
        CHECK_EQ(tg_batch_publish(ring, BYTES, starts[i], 1, NULL, 0, 1, &n), TG_QUEUE_FULL);
    }
    CHECK_EQ(tg_batch_publish(ring, BYTES, 0, 1, NULL, SIZE_MAX, 1, &n), TG_QUEUE_FULL);
    CHECK(memcmp(ring, before, BYTES) == 0);
}

/* The last slot a 32-bit word index reaches, in a ring of 16 GiB that is only mapped, and the one behind it.
 */
static void e1_the_last_slot_of_the_largest_ring(void)
{
    const size_t bytes = ((size_t)TG_MAX_RING_SLOTS + 2) * 64;
    unsigned char *ring =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (ring == MAP_FAILED) {
        fprintf(stderr, "  not run: this machine maps no 16 GiB\n");
        return;
    }
    uint32_t previous, n;
    CHECK_EQ(tg_publish_slot(ring, bytes, TG_MAX_RING_SLOTS, 1, 300, NULL, 0), 0);
    CHECK_EQ(tg_transition_slot_status(ring, bytes, TG_MAX_RING_SLOTS, TG_TRANSITION_CLAIM, &previous), 0);
    CHECK_EQ(tg_publish_slot(ring, bytes, TG_MAX_RING_SLOTS + 1, 1, 300, NULL, 0), TG_QUEUE_FULL);
    CHECK_EQ(tg_transition_slot_status(ring, bytes, TG_MAX_RING_SLOTS + 1, TG_TRANSITION_CANCEL, &previous),
             TG_QUEUE_FULL);
    CHECK_EQ(tg_batch_publish(ring, bytes, TG_MAX_RING_SLOTS - 1, 1, NULL, 0, 1, &n), 0);
    CHECK_EQ(tg_batch_publish(ring, bytes, TG_MAX_RING_SLOTS + 1, 1, NULL, 0, 1, &n), TG_QUEUE_FULL);
    munmap(ring, bytes);
}

static void work_items_in_words_are_the_same_bytes(void)
{
    const struct tg_work_item items[2] = {{300, 1, 2, 3}, {TG_OP_SHUTDOWN, 4, 5, UINT32_MAX}};
    unsigned char bytes[3 * 64];
    uint32_t words[3 * 16 + 1];
    size_t n_bytes = 0, n_words = 0;
    memset(bytes, 0xCD, sizeof bytes);
    memset(words, 0xCD, sizeof words);
    CHECK_EQ(tg_encode_work_items_ring(3, 8, items, 2, bytes, sizeof bytes, &n_bytes), 0);
    CHECK_EQ(tg_encode_work_items_ring_words(3, 8, items, 2, words, 49, &n_words), 0);
    CHECK(n_bytes == 192 && n_words == 48 && memcmp(bytes, words, 192) == 0);
    CHECK_EQ(words[48], 0xCDCDCDCDu); /* behind the ring nothing is touched */
    CHECK_EQ(tg_encode_work_items_ring_words(3, 8, items, 2, words, 47, &n_words), TG_BACKEND);
    CHECK_EQ(tg_encode_work_items_ring(1, 8, items, 2, bytes, sizeof bytes, &n_bytes), TG_QUEUE_FULL);
    CHECK_EQ(tg_encode_work_items_ring(3, 8, items, 2, bytes, 191, &n_bytes), TG_BACKEND);
    CHECK(memcmp(bytes, words, 192) == 0);
}

int main(void)
{
    RUN(e1_a_written_slot_keeps_no_old_word);
    RUN(e2_the_priority_named_is_the_priority_written);
    RUN(e1_only_empty_and_done_slots_are_taken);
    RUN(e1_exactly_the_publishable_opcodes);
    RUN(e5_a_batch_is_all_or_nothing);
    RUN(e5_the_fence_follows_its_items);
    RUN(no_items_are_fine_up_to_the_capacity);
    RUN(e1_indices_that_overflow_are_refused);
    RUN(e1_the_last_slot_of_the_largest_ring);
    RUN(work_items_in_words_are_the_same_bytes);
    return 0;
}
