/* SPDX-License-Identifier: Apache-2.0
 *
 * Properties of the ring codec over any bytes: readers stay inside the buffer and agree with each other; a
 * rejected call changes no byte; an accepted one changes exactly its slots, to exactly what abi.md says. The
 * expectations are written out here anew and share nothing with the codec. Rules E1, E2, E5, E9.
 *
 * An input is a few bytes that choose the call and its numbers, then the buffer.
 */
#include <stdlib.h>
#include <string.h>

#include <tidegate/ring.h>

#include "input.h"

/* Mostly near what is there, sometimes any 32 bits. */
static uint32_t take_index(struct input *in)
{
    const uint32_t b = take8(in);
    if (b < 240)
        return b % 24;
    return b << 24 | take8(in) << 16 | take8(in) << 8 | take8(in);
}

static uint32_t word_at(const uint8_t *bytes, size_t word)
{
    const uint8_t *b = bytes + word * 4;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/* A copy of the rest of the input, in a block of exactly its size and at a chosen distance from a word
 * boundary; whole slots unless the input says otherwise. */
static uint8_t *take_buffer(struct input *in, size_t shift, bool whole_slots, size_t *ret_size,
                            uint8_t **block)
{
    const size_t size = whole_slots ? in->left / 64 * 64 : in->left;
    *block = malloc(size + shift + 1);
    MUST(*block);
    uint8_t *bytes = *block + shift;
    if (size > 0)
        memcpy(bytes, in->data, size);
    /* Statuses that occur, else hardly any slot could be published. */
    for (size_t slot = 0; whole_slots && slot < size / 64; slot++)
        if (bytes[slot * 64 + 1] & 1)
            memset(bytes + slot * 64, 0, 4), bytes[slot * 64] = in->data[slot * 64 + 2] % 9;
    *ret_size = size;
    return bytes;
}

/* ---- Expectations ------------------------------------------------------------------------------------- */

static bool publishable_opcode(uint32_t op)
{
    if (op <= 7 || op == 0x80000001u || op == 0xFFFEu || op == 0xFFFFFFFFu)
        return true;
    return op < 0x80000000u && (op < 0xFFF0 || op > 0xFFFF);
}

static bool free_slot(const uint8_t *ring, size_t size, uint64_t slot)
{
    if (size % 64 != 0 || slot >= size / 64)
        return false;
    const uint32_t status = word_at(ring, slot * 16);
    return status == 0 || status == 3;
}

static void expect_slot(const uint8_t *slot, uint32_t op, uint32_t tenant, uint32_t priority,
                        const uint32_t *args, size_t count)
{
    MUST(word_at(slot, 0) == 1 && word_at(slot, 1) == op && word_at(slot, 2) == tenant);
    MUST(word_at(slot, 3) == priority);
    for (size_t i = 0; i < 12; i++)
        MUST(word_at(slot, 4 + i) == (i < count ? args[i] : 0));
}

/* All bytes but those of slots [first, first + count) are as before. */
static void expect_rest(const uint8_t *after, const uint8_t *before, size_t size, size_t first, size_t count)
{
    const size_t from = first * 64, to = from + count * 64;
    MUST(size == 0 || memcmp(after, before, from) == 0);
    MUST(size == to || memcmp(after + to, before + to, size - to) == 0);
}

/* ---- Publishers --------------------------------------------------------------------------------------- */

static uint32_t take_opcode(struct input *in)
{
    static const uint32_t some[] = {0,           1,           7,           8,          256,    0xFFEF,
                                    0xFFF0,      0xFFFD,      0xFFFE,      0xFFFF,     65536u, 70000u,
                                    0x7FFFFFFFu, 0x80000000u, 0x80000001u, 0xFFFFFFFFu};
    return some[take8(in) % 16];
}

static void try_publish_slot(struct input *in, uint8_t *ring, size_t size, const uint8_t *before)
{
    uint32_t args[16];
    const uint32_t slot = take_index(in), op = take_opcode(in), priority = take8(in) % 6;
    const size_t count = take8(in) % 15;
    for (size_t i = 0; i < count; i++)
        args[i] = (uint32_t)(i * 0x01020305u) ^ op;
    const bool fits = free_slot(before, size, slot) && count <= 12 && publishable_opcode(op) && priority < 5;
    const int r = tg_publish_slot_with_priority(ring, size, slot, 42, priority, op, args, count);
    MUST(r == (fits ? 0 : TG_QUEUE_FULL));
    if (fits)
        expect_slot(ring + (size_t)slot * 64, op, 42, priority, args, count);
    expect_rest(ring, before, size, fits ? slot : 0, fits ? 1 : 0);
}

static void try_batch(struct input *in, uint8_t *ring, size_t size, const uint8_t *before)
{
    struct tg_batch_item items[6] = {{0}};
    const uint32_t words[13] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}, start = take_index(in);
    const size_t count = take8(in) % 6;
    bool fits = true;
    uint32_t published = 77;
    for (size_t i = 0; i < count; i++) {
        items[i] = (struct tg_batch_item){take_opcode(in), words, take8(in) % 14};
        fits = fits && publishable_opcode(items[i].opcode) && items[i].arg_count <= 12;
    }
    for (size_t i = 0; i <= count; i++)
        fits = fits && free_slot(before, size, (uint64_t)start + i);
    const int r = tg_batch_publish(ring, size, start, 9, items, count, 0xABCD, &published);
    MUST(r == (fits ? 0 : TG_QUEUE_FULL) && published == (fits ? count + 1 : 77));
    for (size_t i = 0; fits && i < count; i++)
        expect_slot(ring + (start + i) * 64, items[i].opcode, 9, 2, words, items[i].arg_count);
    if (fits)
        expect_slot(ring + (start + count) * 64, 7, 9, 2, (const uint32_t[]){(uint32_t)count, 0xABCD}, 2);
    expect_rest(ring, before, size, fits ? start : 0, fits ? count + 1 : 0);
}

static void try_work_items(struct input *in, uint8_t *ring, size_t size, const uint8_t *before)
{
    struct tg_work_item items[6] = {{0}};
    const uint32_t start = take_index(in);
    const size_t count = take8(in) % 6;
    bool fits = size % 64 == 0 && start <= size / 64;
    uint32_t published = 77;
    for (size_t i = 0; i < count; i++) {
        items[i] = (struct tg_work_item){take_opcode(in), 5, 6, (uint32_t)i};
        fits = fits && publishable_opcode(items[i].op_handle) && free_slot(before, size, (uint64_t)start + i);
    }
    const int r = tg_publish_work_items(ring, size, start, 3, items, count, &published);
    MUST(r == (fits ? 0 : TG_QUEUE_FULL) && published == (fits ? count : 77));
    for (size_t i = 0; fits && i < count; i++)
        expect_slot(ring + (start + i) * 64, items[i].op_handle, 3, 2, (const uint32_t[]){5, 6, (uint32_t)i},
                    3);
    expect_rest(ring, before, size, fits ? start : 0, fits ? count : 0);
}

static void try_packed(struct input *in, uint8_t *ring, size_t size, const uint8_t *before)
{
    struct tg_packed_op ops[26] = {{0}};
    const uint32_t words[4] = {0x11111111u, 0x22222222u, 0x33333333u, 0x44444444u}, slot = take_index(in);
    const size_t count = take8(in) % 26;
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        const uint32_t b = take8(in);
        ops[i] = (struct tg_packed_op){(uint8_t)(b + i), words, b % 5 == 4 ? 4 : b % 3 == 0};
        total += ops[i].arg_count;
    }
    const size_t meta = (2 + 2 * count + 3) / 4;
    const bool fits = meta + total <= 12 && free_slot(before, size, slot);
    MUST(tg_publish_packed_slot(ring, size, slot, 1, ops, count) == (fits ? 0 : TG_QUEUE_FULL));
    expect_rest(ring, before, size, fits ? slot : 0, fits ? 1 : 0);
    if (!fits)
        return;
    const uint8_t *payload = ring + (size_t)slot * 64 + 16;
    MUST(word_at(payload - 16, 1) == 0x80000001u && payload[0] == count && payload[1] == total);
    for (size_t i = 0, at = 0; i < count; at += ops[i++].arg_count) {
        MUST(payload[2 + 2 * i] == ops[i].op_id && payload[3 + 2 * i] == at);
        for (size_t a = 0; a < ops[i].arg_count; a++)
            MUST(word_at(payload, meta + at + a) == words[a]);
    }
}

static void try_transition(struct input *in, uint8_t *ring, size_t size, const uint8_t *before)
{
    static const char *const legal[5] = {"", "156", "2", "12456", "1456"}; /* by transition: from */
    static const uint32_t to[5] = {1, 2, 3, 7, 0};
    const uint32_t slot = take_index(in), which = take8(in) % 7;
    uint32_t previous = 77, status = UINT32_MAX;
    if (size % 64 == 0 && slot < size / 64)
        status = word_at(before, (size_t)slot * 16);
    const bool fits = which < 5 && status <= 7 && strchr(legal[which], (char)('0' + status)) != NULL;
    const int r = tg_transition_slot_status(ring, size, slot, (enum tg_slot_transition)which, &previous);
    MUST(r == (fits ? 0 : TG_QUEUE_FULL) && previous == (fits ? status : 77));
    if (fits) {
        MUST(word_at(ring, (size_t)slot * 16) == to[which]);
        MUST(memcmp(ring + (size_t)slot * 64 + 4, before + (size_t)slot * 64 + 4, 60) == 0);
    }
    expect_rest(ring, before, size, fits ? slot : 0, fits ? 1 : 0);
}

static void on_ring(struct input *in, uint32_t which, size_t shift, bool whole)
{
    static void (*const calls[])(struct input *, uint8_t *, size_t, const uint8_t *) = {
        try_publish_slot, try_batch, try_work_items, try_packed, try_transition};
    size_t size;
    uint8_t *block;
    struct input numbers = {in->data, in->left < 64 ? in->left : 64};
    in->data += numbers.left;
    in->left -= numbers.left;
    uint8_t *ring = take_buffer(in, shift, whole, &size, &block);
    uint8_t *before = malloc(size + 1);
    MUST(before);
    memcpy(before, ring, size);
    calls[which % 5](&numbers, ring, size, before);
    free(before);
    free(block);
}

/* ---- Readers ------------------------------------------------------------------------------------------ */

static void read_control(const uint8_t *bytes, size_t size, uint32_t index)
{
    uint32_t value = 0, offsets[6];
    struct tg_metric soft[32], strict[32];
    size_t count = 99;
    int r = tg_try_read_done_count(bytes, size, &value);
    MUST(r == (size % 4 == 0 && size >= 8 ? 0 : TG_BACKEND));
    MUST(tg_read_done_count(bytes, size) == (r == 0 ? word_at(bytes, 1) : 0) &&
         (r < 0 || value == word_at(bytes, 1)));
    r = tg_try_read_epoch(bytes, size, &value);
    MUST(r == (size % 4 == 0 && size >= 516 ? 0 : TG_BACKEND));
    MUST(tg_read_epoch(bytes, size) == (r == 0 ? word_at(bytes, 128) : 0));
    r = tg_try_read_observable(bytes, size, index, &value);
    if (index > UINT32_MAX - 160)
        MUST(r == TG_QUEUE_FULL);
    else
        MUST(r == (size % 4 == 0 && (uint64_t)index + 160 < size / 4 ? 0 : TG_BACKEND));
    MUST(tg_read_observable(bytes, size, index) == (r == 0 ? word_at(bytes, 160 + (size_t)index) : 0));
    r = tg_try_read_metrics(bytes, size, strict, &count);
    const size_t n = tg_read_metrics(bytes, size, soft);
    MUST(n <= 32 && r == (size % 4 == 0 && size >= 512 ? 0 : TG_BACKEND));
    MUST(count == (size % 4 != 0 ? 99 : r == 0 ? n : 0));
    for (size_t i = 0; i < n; i++)
        MUST(soft[i].count != 0 && soft[i].count == word_at(bytes, 96 + soft[i].opcode));
    if (tg_try_read_priority_offsets(bytes, size, index, offsets) == 0)
        MUST(offsets[0] == 0 && offsets[0] <= offsets[1] && offsets[4] <= offsets[5] && offsets[5] == index);
}

static void read_log(const uint8_t *bytes, size_t size)
{
    struct tg_debug_record soft[300], strict[300];
    size_t count = 999;
    const size_t n = tg_read_debug_log(bytes, size, soft, 300);
    const int r = tg_try_read_debug_log(bytes, size, strict, 300, &count);
    const size_t room = size / 4 > 0 ? size / 4 - 1 : 0;
    const uint64_t cursor = size >= 4 ? word_at(bytes, 0) : 0;
    MUST(n == (cursor < room ? cursor : room) / 4);
    MUST(r == (size % 4 == 0 && size >= 4 && cursor <= room && cursor % 4 == 0 ? 0 : TG_BACKEND));
    MUST(count == (r == 0 ? n : 999));
    for (size_t i = 0; i < n && i < 300; i++)
        MUST(soft[i].fmt_id == word_at(bytes, 1 + 4 * i) && soft[i].args[2] == word_at(bytes, 4 + 4 * i));
    MUST(r < 0 || n == 0 || memcmp(soft, strict, n * sizeof *soft) == 0);
}

static void read_ring(const uint8_t *bytes, size_t size, uint32_t index)
{
    uint32_t resource;
    bool prefetch;
    uint64_t done, soft;
    const int r = tg_try_count_done_ring_slots(bytes, size, index, &done);
    const bool there = tg_count_done_ring_slots(bytes, size, index, &soft);
    MUST(there == (index > 0 && (uint64_t)index * 64 <= size));
    MUST(r == (index == 0 || (size % 4 == 0 && there) ? 0 : TG_BACKEND));
    MUST(r < 0 || !there || (done == soft && done <= index));
    if (tg_decode_load_miss(bytes, size, index, &resource, &prefetch)) {
        MUST((uint64_t)index * 64 + 24 <= size && word_at(bytes, (size_t)index * 16 + 1) == 0xFFFDu);
        MUST(resource == word_at(bytes, (size_t)index * 16 + 4));
    }
}

/* Whatever decodes lies inside the arguments. */
static void decode_packed(const uint8_t *bytes, size_t size)
{
    uint32_t args[12] = {0};
    struct tg_packed_view view;
    memcpy(args, bytes, size < sizeof args ? size : sizeof args);
    if (tg_packed_decode(args, &view) < 0)
        return;
    MUST(view.op_count <= 23);
    for (uint32_t i = 0; i < view.op_count; i++)
        MUST(view.first[i] >= 1 && view.first[i] + view.words[i] <= 12);
}

static void on_reader(struct input *in, size_t shift)
{
    size_t size;
    uint8_t *block;
    const uint32_t index = take_index(in);
    uint8_t *bytes = take_buffer(in, shift, false, &size, &block);
    read_control(bytes, size, index);
    read_log(bytes, size);
    read_ring(bytes, size, index);
    decode_packed(bytes, size);
    free(block);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct input in = {data, size};
    const uint32_t how = take8(&in), which = take8(&in);
    if (how & 1)
        on_ring(&in, which, how >> 1 & 3, how & 8 ? (how & 16) != 0 : true);
    else
        on_reader(&in, how >> 1 & 3);
    return 0;
}
