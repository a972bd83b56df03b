/* SPDX-License-Identifier: Apache-2.0
 * Vector calls that change a ring: transitions, publishers, and sequences of them. */
#include "vectors.h"

#include <stdlib.h>
#include <string.h>

/* The priority a line names, or NORMAL. */
static uint32_t in_priority(struct call *call)
{
    return in_has(call, "priority") ? in_u32(call, "priority") : (uint32_t)TG_PRIORITY_NORMAL;
}

/* The ring before and after, and the result. */
static void finish(struct call *call, int r, json_t *value, const struct buffer *ring)
{
    out_result(call, r, value);
    out_changed(call, json_incref(json_object_get(call->in, "ring")), ring);
}

static bool transition_named(const char *name, enum tg_slot_transition *ret)
{
    static const char *const names[TG_TRANSITION_COUNT] = {"Publish", "Claim", "Done", "Fault", "Cancel"};
    for (unsigned i = 0; i < TG_TRANSITION_COUNT; i++)
        if (name && strcmp(name, names[i]) == 0) {
            *ret = (enum tg_slot_transition)i;
            return true;
        }
    return false;
}

static void transition(struct call *call, struct buffer *ring)
{
    uint32_t previous = 0;
    enum tg_slot_transition which = TG_TRANSITION_PUBLISH;
    const uint32_t slot = in_u32(call, "slot_idx");
    if (!transition_named(in_string(call, "transition"), &which))
        call->bad = "transition";
    const int r = tg_transition_slot_status(ring->bytes, ring->length, slot, which, &previous);
    finish(call, r, json_u64(previous), ring);
}

static void publish_slot(struct call *call, struct buffer *ring)
{
    size_t count;
    uint32_t *args = words_from_json(call, in_array(call, "args"), &count);
    const uint32_t slot = in_u32(call, "slot_idx"), tenant = in_u32(call, "tenant_id");
    const uint32_t opcode = in_u32(call, "opcode");
    int r;
    if (in_has(call, "priority"))
        r = tg_publish_slot_with_priority(ring->bytes, ring->length, slot, tenant, in_priority(call), opcode,
                                          args, count);
    else
        r = tg_publish_slot(ring->bytes, ring->length, slot, tenant, opcode, args, count);
    finish(call, r, json_null(), ring);
    free(args);
}

struct tg_work_item *work_items_in(struct call *call, size_t *ret_count)
{
    const json_t *array = in_array(call, "items");
    const size_t count = json_array_size(array);
    struct tg_work_item *items = count ? calloc(count, sizeof *items) : NULL;
    for (size_t i = 0; items && i < count; i++) {
        size_t words;
        uint32_t *w = words_from_json(call, json_array_get(array, i), &words);
        if (words == 4)
            items[i] = (struct tg_work_item){w[0], w[1], w[2], w[3]};
        else
            call->bad = "items";
        free(w);
    }
    *ret_count = items ? count : 0;
    return items;
}

static void publish_work_items(struct call *call, struct buffer *ring)
{
    size_t count;
    uint32_t published = 0;
    struct tg_work_item *items = work_items_in(call, &count);
    const uint32_t start = in_u32(call, "start_slot"), tenant = in_u32(call, "tenant_id");
    int r;
    if (in_has(call, "priority"))
        r = tg_publish_work_items_with_priority(ring->bytes, ring->length, start, tenant, in_priority(call),
                                                items, count, &published);
    else
        r = tg_publish_work_items(ring->bytes, ring->length, start, tenant, items, count, &published);
    finish(call, r, json_u64(published), ring);
    free(items);
}

/* Pairs [number, [words]]: batch items and packed ops. */
struct pair {
    uint32_t head;
    uint32_t *words;
    size_t word_count;
};

static struct pair *pairs_in(struct call *call, const char *name, uint32_t max_head, size_t *ret_count)
{
    const json_t *array = in_array(call, name);
    const size_t count = json_array_size(array);
    struct pair *pairs = count ? calloc(count, sizeof *pairs) : NULL;
    for (size_t i = 0; pairs && i < count; i++) {
        const json_t *pair = json_array_get(array, i);
        if (json_array_size(pair) != 2 || !json_get_u32(json_array_get(pair, 0), &pairs[i].head) ||
            pairs[i].head > max_head)
            call->bad = name;
        pairs[i].words = words_from_json(call, json_array_get(pair, 1), &pairs[i].word_count);
    }
    *ret_count = pairs ? count : 0;
    return pairs;
}

static void pairs_free(struct pair *pairs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(pairs[i].words);
    free(pairs);
}

static void batch_publish(struct call *call, struct buffer *ring)
{
    size_t count;
    uint32_t published = 0;
    struct pair *pairs = pairs_in(call, "items", UINT32_MAX, &count);
    struct tg_batch_item *items = calloc(count + 1, sizeof *items);
    for (size_t i = 0; items && i < count; i++)
        items[i] = (struct tg_batch_item){pairs[i].head, pairs[i].words, pairs[i].word_count};
    const uint32_t start = in_u32(call, "start_slot"), tenant = in_u32(call, "tenant_id");
    const uint32_t tag = in_u32(call, "batch_tag");
    int r;
    if (in_has(call, "priority"))
        r = tg_batch_publish_with_priority(ring->bytes, ring->length, start, tenant, in_priority(call), items,
                                           count, tag, &published);
    else
        r = tg_batch_publish(ring->bytes, ring->length, start, tenant, items, count, tag, &published);
    finish(call, r, json_u64(published), ring);
    free(items);
    pairs_free(pairs, count);
}

static void publish_packed_slot(struct call *call, struct buffer *ring)
{
    size_t count;
    struct pair *pairs = pairs_in(call, "ops", UINT8_MAX, &count);
    struct tg_packed_op *ops = calloc(count + 1, sizeof *ops);
    for (size_t i = 0; ops && i < count; i++)
        ops[i] = (struct tg_packed_op){(uint8_t)pairs[i].head, pairs[i].words, pairs[i].word_count};
    const uint32_t slot = in_u32(call, "slot_idx"), tenant = in_u32(call, "tenant_id");
    int r;
    if (in_has(call, "priority"))
        r = tg_publish_packed_slot_with_priority(ring->bytes, ring->length, slot, tenant, in_priority(call),
                                                 ops, count);
    else
        r = tg_publish_packed_slot(ring->bytes, ring->length, slot, tenant, ops, count);
    finish(call, r, json_null(), ring);
    free(ops);
    pairs_free(pairs, count);
}

static const struct {
    const char *name;
    void (*fn)(struct call *, struct buffer *ring);
} on_ring[] = {
    {"transition_slot_status", transition},       {"publish_slot", publish_slot},
    {"publish_work_items", publish_work_items},   {"batch_publish", batch_publish},
    {"publish_packed_slot", publish_packed_slot}, {"publish_packed_descriptors", publish_packed_slot},
};

/* One ring call by name; false for an unknown one. */
static bool run_on_ring(struct call *call, const char *name, struct buffer *ring)
{
    for (size_t i = 0; name && i < sizeof on_ring / sizeof *on_ring; i++)
        if (strcmp(on_ring[i].name, name) == 0) {
            on_ring[i].fn(call, ring);
            return true;
        }
    return false;
}

static void single(struct call *call)
{
    struct buffer ring = in_bytes(call, "ring", 0);
    run_on_ring(call, json_string_value(json_object_get(call->line, "fn")), &ring);
    buffer_free(&ring);
}

/* One step of a sequence: {"out": .., "bytes_after": ..}, or NULL when the step makes no sense. */
static json_t *run_step(struct call *whole, json_t *step, struct buffer *ring)
{
    struct call call = {.in = json_object_get(step, "in"), .line = step, .shift = whole->shift};
    json_t *result = NULL;
    if (json_object_size(step) != 2 || !json_is_object(call.in) ||
        !run_on_ring(&call, json_string_value(json_object_get(step, "fn")), ring))
        whole->bad = "steps: a step that is not {fn, in} of a ring call";
    else if (call.bad || call.fields_used != json_object_size(call.in))
        whole->bad = "steps: inputs that do not fit the function";
    else
        result = json_pack("{s:O, s:O}", "out", call.out, "bytes_after", call.bytes_after);
    call_clear(&call);
    return result;
}

static void sequence(struct call *call)
{
    struct buffer ring = in_bytes(call, "ring", 0);
    json_t *results = json_array();
    (void)in_u64(call, "seq"); /* a label */
    json_t *steps = in_array(call, "steps");
    for (size_t i = 0; i < json_array_size(steps) && !call->bad; i++) {
        json_t *result = run_step(call, json_array_get(steps, i), &ring);
        if (result)
            json_array_append_new(results, result);
    }
    out_ok(call, results);
    buffer_free(&ring);
}

const struct call_entry publish_calls[] = {
    {"transition_slot_status", single, CLASS_FORM},
    {"publish_slot", single, CLASS_FORM},
    {"publish_work_items", single, CLASS_FORM},
    {"batch_publish", single, CLASS_FORM},
    {"publish_packed_slot", single, CLASS_FORM},
    {"publish_packed_descriptors", single, CLASS_FORM},
    {"sequence", sequence, CLASS_FORM},
    {NULL, NULL, 0},
};
