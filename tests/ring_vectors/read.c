/* SPDX-License-Identifier: Apache-2.0
 * Vector calls that read a buffer. The readers that fill a vector of the caller's begin with what the line
 * says it held, so that "output kept" and "output emptied" show. */
#include "vectors.h"

#include <stdlib.h>

/* A strict reader of one word, its free form and its soft form. */
struct word_reader {
    int (*strict)(const void *, size_t, uint32_t *);
    int (*free_form)(const void *, size_t, uint32_t *);
    uint32_t (*soft)(const void *, size_t);
};

static void read_word(struct call *call, const struct word_reader *reader, bool soft)
{
    struct buffer control = in_bytes(call, "control", 0);
    uint32_t value = 0;
    int r = 0;
    if (soft)
        value = reader->soft(control.bytes, control.length);
    else
        r = (call->free_form ? reader->free_form : reader->strict)(control.bytes, control.length, &value);
    out_result(call, r, json_u64(value));
    buffer_free(&control);
}

static const struct word_reader done_count = {tg_try_read_done_count, tg_protocol_try_read_done_count,
                                              tg_read_done_count};
static const struct word_reader epoch = {tg_try_read_epoch, tg_protocol_try_read_epoch, tg_read_epoch};

static void read_done_count(struct call *call)
{
    read_word(call, &done_count, true);
}
static void try_read_done_count(struct call *call)
{
    read_word(call, &done_count, false);
}
static void read_epoch(struct call *call)
{
    read_word(call, &epoch, true);
}
static void try_read_epoch(struct call *call)
{
    read_word(call, &epoch, false);
}

static void read_observable(struct call *call)
{
    struct buffer control = in_bytes(call, "control", 0);
    out_ok(call, json_u64(tg_read_observable(control.bytes, control.length, in_u32(call, "index"))));
    buffer_free(&control);
}

static void try_read_observable(struct call *call)
{
    struct buffer control = in_bytes(call, "control", 0);
    const uint32_t index = in_u32(call, "index");
    uint32_t value = 0;
    const int r = call->free_form
                      ? tg_protocol_try_read_observable(control.bytes, control.length, index, &value)
                      : tg_try_read_observable(control.bytes, control.length, index, &value);
    out_result(call, r, json_u64(value));
    buffer_free(&control);
}

/* ---- Metrics ------------------------------------------------------------------------------------------ */

static json_t *metrics_json(const struct tg_metric *entries, size_t count)
{
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(array,
                              json_pack("[o, o]", json_u64(entries[i].opcode), json_u64(entries[i].count)));
    return array;
}

/* What the line's vector holds before the call. */
static size_t metrics_in(struct call *call, struct tg_metric *entries)
{
    const json_t *array = in_array(call, "out");
    size_t count = 0;
    for (; count < json_array_size(array) && count < TG_CONTROL_METRICS_SLOTS; count++) {
        const json_t *pair = json_array_get(array, count);
        if (json_array_size(pair) != 2 || !json_get_u32(json_array_get(pair, 0), &entries[count].opcode) ||
            !json_get_u32(json_array_get(pair, 1), &entries[count].count))
            call->bad = "out";
    }
    if (count < json_array_size(array))
        call->bad = "out: longer than there are metrics";
    return count;
}

static void metrics(struct call *call, bool strict, bool vector)
{
    struct tg_metric entries[TG_CONTROL_METRICS_SLOTS] = {{0}};
    struct buffer control = in_bytes(call, "control", 0);
    size_t count = vector ? metrics_in(call, entries) : 0;
    int r = 0;
    if (!strict)
        count = tg_read_metrics(control.bytes, control.length, entries);
    else if (call->free_form)
        r = tg_protocol_try_read_metrics(control.bytes, control.length, entries, &count);
    else
        r = tg_try_read_metrics(control.bytes, control.length, entries, &count);
    out_result(call, r, vector ? json_null() : metrics_json(entries, count));
    if (vector)
        call->out_after = metrics_json(entries, count);
    buffer_free(&control);
}

static void read_metrics(struct call *call)
{
    metrics(call, false, false);
}
static void try_read_metrics(struct call *call)
{
    metrics(call, true, false);
}
static void read_metrics_into(struct call *call)
{
    metrics(call, false, true);
}
static void try_read_metrics_into(struct call *call)
{
    metrics(call, true, true);
}

/* ---- Debug log ---------------------------------------------------------------------------------------- */

static json_t *records_json(const struct tg_debug_record *records, size_t count)
{
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++) {
        const struct tg_debug_record *r = &records[i];
        json_array_append_new(array,
                              json_pack("{s:o, s:[o, o, o]}", "fmt_id", json_u64(r->fmt_id), "args",
                                        json_u64(r->args[0]), json_u64(r->args[1]), json_u64(r->args[2])));
    }
    return array;
}

static bool record_from_json(const json_t *json, struct tg_debug_record *ret)
{
    const json_t *args = json_object_get(json, "args");
    if (json_object_size(json) != 2 || json_array_size(args) != 3)
        return false;
    return json_get_u32(json_object_get(json, "fmt_id"), &ret->fmt_id) &&
           json_get_u32(json_array_get(args, 0), &ret->args[0]) &&
           json_get_u32(json_array_get(args, 1), &ret->args[1]) &&
           json_get_u32(json_array_get(args, 2), &ret->args[2]);
}

static void debug_log(struct call *call, bool strict, bool vector)
{
    struct buffer log = in_bytes(call, "debug_log", 0);
    const json_t *given = vector ? in_array(call, "out") : NULL;
    size_t count = json_array_size(given);
    const size_t capacity = count + log.length / (TG_DEBUG_RECORD_WORDS * TG_WORD_BYTES);
    struct tg_debug_record *records = calloc(capacity + 1, sizeof *records);
    if (!records)
        call->bad = "out of memory";
    for (size_t i = 0; records && i < count; i++)
        if (!record_from_json(json_array_get(given, i), &records[i]))
            call->bad = "out";
    int r = 0;
    if (!records)
        count = 0;
    else if (!strict)
        count = tg_read_debug_log(log.bytes, log.length, records, capacity);
    else if (call->free_form)
        r = tg_protocol_try_read_debug_log(log.bytes, log.length, records, capacity, &count);
    else
        r = tg_try_read_debug_log(log.bytes, log.length, records, capacity, &count);
    out_result(call, r, vector ? json_null() : records_json(records, count));
    if (vector)
        call->out_after = records_json(records, count);
    free(records);
    buffer_free(&log);
}

static void read_debug_log(struct call *call)
{
    debug_log(call, false, false);
}
static void try_read_debug_log(struct call *call)
{
    debug_log(call, true, false);
}
static void read_debug_log_into(struct call *call)
{
    debug_log(call, false, true);
}
static void try_read_debug_log_into(struct call *call)
{
    debug_log(call, true, true);
}

/* ---- Ring --------------------------------------------------------------------------------------------- */

static void try_count_done(struct call *call)
{
    struct buffer ring = in_bytes(call, "ring", 0);
    const uint64_t items = in_u64(call, "item_count");
    uint64_t done = 0;
    const int r = call->free_form
                      ? tg_protocol_try_count_done_ring_slots(ring.bytes, ring.length, items, &done)
                      : tg_try_count_done_ring_slots(ring.bytes, ring.length, items, &done);
    out_result(call, r, json_u64(done));
    buffer_free(&ring);
}

static void count_done(struct call *call)
{
    struct buffer ring = in_bytes(call, "ring", 0);
    const uint64_t items = in_u64(call, "item_count");
    uint64_t done;
    const bool there = tg_count_done_ring_slots(ring.bytes, ring.length, items, &done);
    out_ok(call, there ? json_u64(done) : json_null());
    buffer_free(&ring);
}

static void decode_load_miss(struct call *call)
{
    struct buffer ring = in_bytes(call, "ring", 0);
    uint32_t resource;
    bool prefetch;
    if (tg_decode_load_miss(ring.bytes, ring.length, in_u32(call, "slot"), &resource, &prefetch))
        out_ok(call, json_pack("[o, b]", json_u64(resource), prefetch));
    else
        out_ok(call, json_null());
    buffer_free(&ring);
}

const struct call_entry read_calls[] = {
    {"read_done_count", read_done_count, BOTH_FORMS},
    {"try_read_done_count", try_read_done_count, BOTH_FORMS},
    {"read_epoch", read_epoch, BOTH_FORMS},
    {"try_read_epoch", try_read_epoch, BOTH_FORMS},
    {"read_observable", read_observable, BOTH_FORMS},
    {"try_read_observable", try_read_observable, BOTH_FORMS},
    {"read_metrics", read_metrics, BOTH_FORMS},
    {"try_read_metrics", try_read_metrics, BOTH_FORMS},
    {"read_metrics_into", read_metrics_into, BOTH_FORMS},
    {"try_read_metrics_into", try_read_metrics_into, BOTH_FORMS},
    {"read_debug_log", read_debug_log, BOTH_FORMS},
    {"try_read_debug_log", try_read_debug_log, BOTH_FORMS},
    {"read_debug_log_into", read_debug_log_into, BOTH_FORMS},
    {"try_read_debug_log_into", try_read_debug_log_into, BOTH_FORMS},
    {"try_count_done_ring_slots", try_count_done, BOTH_FORMS},
    {"count_done_ring_slots", count_done, BOTH_FORMS},
    {"decode_load_miss", decode_load_miss, BOTH_FORMS},
    {NULL, NULL, 0},
};
