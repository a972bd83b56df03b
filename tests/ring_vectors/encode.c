/* SPDX-License-Identifier: Apache-2.0
 * Vector calls that make a fresh buffer. A destination of a line is a vector that grows: here it gets room
 * for what the call needs, full of CD behind its content. */
#include "vectors.h"

#include <stdlib.h>

typedef int (*encode_fn)(struct call *call, void *dst, size_t capacity, size_t *ret_bytes);

/* Room that an encoder may need; more than the largest legal one is never given. */
static uint64_t room(int (*byte_len)(uint32_t, uint64_t *), uint32_t n)
{
    uint64_t bytes;
    return n <= TG_MAX_ENCODED_RING_SLOTS && byte_len(n, &bytes) == 0 ? bytes : 0;
}

/* The encoder into a destination that the line gives. */
static void into(struct call *call, uint64_t need, encode_fn encode)
{
    size_t length = 0;
    struct buffer dst = in_bytes(call, "dst", need);
    const size_t before = dst.length;
    const int r = encode(call, dst.bytes, dst.capacity, &length);
    dst.length = r == 0 ? length : before;
    out_result(call, r, json_null());
    out_changed(call, json_incref(json_object_get(call->in, "dst")), &dst);
    buffer_free(&dst);
}

/* The encoder into a buffer of its own. Large ones are told by their length and non-zero bytes. */
static void own(struct call *call, uint64_t need, encode_fn encode, bool large)
{
    size_t length = 0, nonzero = 0;
    unsigned char *block = malloc((size_t)need + call->shift + 1), *bytes = block + call->shift;
    if (!block) {
        call->bad = "out of memory";
        return;
    }
    const int r = encode(call, bytes, (size_t)need, &length);
    for (size_t i = 0; i < length; i++)
        nonzero += bytes[i] != 0;
    out_result(call, r,
               large ? json_pack("{s:o, s:o}", "len", json_u64(length), "nonzero_bytes", json_u64(nonzero))
                     : json_hex(bytes, length));
    free(block);
}

static int control(struct call *call, void *dst, size_t capacity, size_t *ret_bytes)
{
    const bool shutdown = in_bool(call, "shutdown");
    const uint32_t tenants = in_u32(call, "tenant_count"), slots = in_u32(call, "observable_slots");
    return call->free_form ? tg_protocol_encode_control(shutdown, tenants, slots, dst, capacity, ret_bytes)
                           : tg_encode_control(shutdown, tenants, slots, dst, capacity, ret_bytes);
}

static int empty_ring(struct call *call, void *dst, size_t capacity, size_t *ret_bytes)
{
    const uint32_t slots = in_u32(call, "slot_count");
    return call->free_form ? tg_protocol_encode_empty_ring(slots, dst, capacity, ret_bytes)
                           : tg_encode_empty_ring(slots, dst, capacity, ret_bytes);
}

static int debug_log(struct call *call, void *dst, size_t capacity, size_t *ret_bytes)
{
    const uint32_t records = in_u32(call, "record_capacity");
    return call->free_form ? tg_protocol_encode_empty_debug_log(records, dst, capacity, ret_bytes)
                           : tg_encode_empty_debug_log(records, dst, capacity, ret_bytes);
}

static int load_miss(struct call *call, void *dst, size_t capacity, size_t *ret_bytes)
{
    const uint32_t resource = in_u32(call, "resource_id");
    const bool prefetch = in_bool(call, "prefetch");
    return call->free_form ? tg_protocol_encode_load_miss(resource, prefetch, dst, capacity, ret_bytes)
                           : tg_encode_load_miss(resource, prefetch, dst, capacity, ret_bytes);
}

static int work_items(struct call *call, void *dst, size_t capacity, size_t *ret_bytes)
{
    size_t count;
    struct tg_work_item *items = work_items_in(call, &count);
    const uint32_t slots = in_u32(call, "slot_count"), tenant = in_u32(call, "tenant_id");
    int r;
    if (in_has(call, "priority"))
        r = tg_encode_work_items_ring_with_priority(slots, tenant, in_u32(call, "priority"), items, count,
                                                    dst, capacity, ret_bytes);
    else
        r = tg_encode_work_items_ring(slots, tenant, items, count, dst, capacity, ret_bytes);
    free(items);
    return r;
}

static int work_items_words(struct call *call, void *dst, size_t capacity, size_t *ret_bytes)
{
    size_t count, words = 0;
    struct tg_work_item *items = work_items_in(call, &count);
    const uint32_t slots = in_u32(call, "slot_count"), tenant = in_u32(call, "tenant_id");
    int r;
    if (in_has(call, "priority"))
        r = tg_encode_work_items_ring_words_with_priority(slots, tenant, in_u32(call, "priority"), items,
                                                          count, dst, capacity / TG_WORD_BYTES, &words);
    else
        r = tg_encode_work_items_ring_words(slots, tenant, items, count, dst, capacity / TG_WORD_BYTES,
                                            &words);
    *ret_bytes = words * TG_WORD_BYTES;
    free(items);
    return r;
}

/* A number that decides the room; the encoder reads it again, so it counts once. */
static uint32_t peek(struct call *call, const char *name)
{
    uint32_t value = 0;
    if (!json_get_u32(json_object_get(call->in, name), &value))
        call->bad = name;
    return value;
}

static uint64_t control_room(struct call *call)
{
    return room(tg_control_byte_len, peek(call, "observable_slots"));
}

static uint64_t ring_room(struct call *call)
{
    return room(tg_ring_byte_len, peek(call, "slot_count"));
}

static uint64_t log_room(struct call *call)
{
    return room(tg_debug_log_byte_len, peek(call, "record_capacity"));
}

static void encode_control(struct call *call)
{
    own(call, control_room(call), control, false);
}
static void encode_control_large(struct call *call)
{
    own(call, control_room(call), control, true);
}
static void encode_control_into(struct call *call)
{
    into(call, control_room(call), control);
}
static void encode_ring(struct call *call)
{
    own(call, ring_room(call), empty_ring, false);
}
static void encode_ring_large(struct call *call)
{
    own(call, ring_room(call), empty_ring, true);
}
static void encode_ring_into(struct call *call)
{
    into(call, ring_room(call), empty_ring);
}
static void encode_log(struct call *call)
{
    own(call, log_room(call), debug_log, false);
}
static void encode_log_large(struct call *call)
{
    own(call, log_room(call), debug_log, true);
}
static void encode_log_into(struct call *call)
{
    into(call, log_room(call), debug_log);
}
static void encode_load_miss(struct call *call)
{
    own(call, TG_SLOT_BYTES, load_miss, false);
}
static void encode_load_miss_into(struct call *call)
{
    into(call, TG_SLOT_BYTES, load_miss);
}
static void encode_items_into(struct call *call)
{
    into(call, ring_room(call), work_items);
}

static void encode_items_words_into(struct call *call)
{
    const char *dst = json_string_value(json_object_get(call->in, "dst"));
    if (dst && json_string_length(json_object_get(call->in, "dst")) % (2 * TG_WORD_BYTES) != 0)
        call->bad = "dst: not whole words";
    call->shift = 0; /* words lie where words may lie */
    into(call, ring_room(call), work_items_words);
}

const struct call_entry encode_calls[] = {
    {"encode_control", encode_control, BOTH_FORMS},
    {"try_encode_control", encode_control, BOTH_FORMS},
    {"encode_control_large", encode_control_large, BOTH_FORMS},
    {"try_encode_control_into", encode_control_into, BOTH_FORMS},
    {"encode_empty_ring", encode_ring, BOTH_FORMS},
    {"try_encode_empty_ring", encode_ring, BOTH_FORMS},
    {"encode_empty_ring_large", encode_ring_large, BOTH_FORMS},
    {"try_encode_empty_ring_into", encode_ring_into, BOTH_FORMS},
    {"encode_empty_debug_log", encode_log, BOTH_FORMS},
    {"try_encode_empty_debug_log", encode_log, BOTH_FORMS},
    {"encode_empty_debug_log_large", encode_log_large, BOTH_FORMS},
    {"try_encode_empty_debug_log_into", encode_log_into, BOTH_FORMS},
    {"encode_load_miss", encode_load_miss, BOTH_FORMS},
    {"try_encode_load_miss", encode_load_miss, BOTH_FORMS},
    {"try_encode_load_miss_into", encode_load_miss_into, BOTH_FORMS},
    {"encode_work_items_ring_into", encode_items_into, CLASS_FORM},
    {"encode_work_items_ring_words_into", encode_items_words_into, CLASS_FORM},
    {NULL, NULL, 0},
};
