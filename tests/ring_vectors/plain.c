/* SPDX-License-Identifier: Apache-2.0
 * Vector calls without a buffer: constants, lengths, opcode classes, partitions; and the table of them all.
 */
#include "vectors.h"

#include <string.h>

#include <tidegate/partition.h>

/* ---- Constants ---------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    uint64_t value;
} wire[] = {
    {"SLOT_WORDS", TG_SLOT_WORDS},
    {"STATUS_WORD", TG_SLOT_STATUS_WORD},
    {"OPCODE_WORD", TG_SLOT_OPCODE_WORD},
    {"TENANT_WORD", TG_SLOT_TENANT_WORD},
    {"PRIORITY_WORD", TG_SLOT_PRIORITY_WORD},
    {"ARG0_WORD", TG_SLOT_ARG0_WORD},
    {"ARGS_PER_SLOT", TG_ARGS_PER_SLOT},
    {"CONTROL_MIN_WORDS", TG_CONTROL_MIN_WORDS},
    {"MAX_OBSERVABLE_SLOTS", TG_MAX_OBSERVABLE_SLOTS},
    {"MAX_ENCODED_OBSERVABLE_SLOTS", TG_MAX_ENCODED_OBSERVABLE_SLOTS},
    {"MAX_RING_SLOTS", TG_MAX_RING_SLOTS},
    {"MAX_ENCODED_RING_SLOTS", TG_MAX_ENCODED_RING_SLOTS},
    {"MAX_DEBUG_RECORDS", TG_MAX_DEBUG_RECORDS},
    {"MAX_ENCODED_DEBUG_RECORDS", TG_MAX_ENCODED_DEBUG_RECORDS},
    {"control.SHUTDOWN", TG_CONTROL_SHUTDOWN},
    {"control.DONE_COUNT", TG_CONTROL_DONE_COUNT},
    {"control.TENANT_BASE", TG_CONTROL_TENANT_BASE},
    {"control.TENANT_QUOTA_BASE", TG_CONTROL_TENANT_QUOTA_BASE},
    {"control.TENANT_FAIRNESS_BASE", TG_CONTROL_TENANT_FAIRNESS_BASE},
    {"control.TENANT_FAIRNESS_SLOTS", TG_CONTROL_TENANT_FAIRNESS_SLOTS},
    {"control.METRICS_BASE", TG_CONTROL_METRICS_BASE},
    {"control.METRICS_SLOTS", TG_CONTROL_METRICS_SLOTS},
    {"control.EPOCH", TG_CONTROL_EPOCH},
    {"control.PRIORITY_OFFSETS_BASE", TG_CONTROL_PRIORITY_OFFSETS_BASE},
    {"control.PRIORITY_OFFSETS_SLOTS", TG_CONTROL_PRIORITY_OFFSETS_SLOTS},
    {"control.PRIORITY_STARVATION_COUNTER", TG_CONTROL_PRIORITY_STARVATION_COUNTER},
    {"control.PRIORITY_FAIRNESS_BASE", TG_CONTROL_PRIORITY_FAIRNESS_BASE},
    {"control.PRIORITY_FAIRNESS_SLOTS", TG_CONTROL_PRIORITY_FAIRNESS_SLOTS},
    {"control.OBSERVABLE_BASE", TG_CONTROL_OBSERVABLE_BASE},
    {"debug.CURSOR_WORD", TG_DEBUG_CURSOR_WORD},
    {"debug.RECORDS_BASE", TG_DEBUG_RECORDS_BASE},
    {"debug.RECORD_WORDS", TG_DEBUG_RECORD_WORDS},
    {"debug.RECORD_CAPACITY", TG_DEBUG_RECORD_CAPACITY},
    {"debug.BUFFER_WORDS", TG_DEBUG_BUFFER_WORDS},
    {"opcode.NOP", TG_OP_NOP},
    {"opcode.STORE_U32", TG_OP_STORE_U32},
    {"opcode.ATOMIC_ADD", TG_OP_ATOMIC_ADD},
    {"opcode.LOAD_U32", TG_OP_LOAD_U32},
    {"opcode.COMPARE_SWAP", TG_OP_COMPARE_SWAP},
    {"opcode.MEMCPY", TG_OP_MEMCPY},
    {"opcode.DFA_STEP", TG_OP_DFA_STEP},
    {"opcode.BATCH_FENCE", TG_OP_BATCH_FENCE},
    {"opcode.LOAD_MISS", TG_OP_LOAD_MISS},
    {"opcode.PACKED_SLOT", TG_OP_PACKED_SLOT},
    {"opcode.PRINTF", TG_OP_PRINTF},
    {"opcode.SHUTDOWN", TG_OP_SHUTDOWN},
    {"opcode.SYSTEM_MASK", TG_OP_SYSTEM_MASK},
    {"opcode.RESERVED_MAX_RANGE_MIN", TG_OP_RESERVED_MIN},
    {"slot.EMPTY", TG_SLOT_EMPTY},
    {"slot.PUBLISHED", TG_SLOT_PUBLISHED},
    {"slot.CLAIMED", TG_SLOT_CLAIMED},
    {"slot.DONE", TG_SLOT_DONE},
    {"slot.WAIT_IO", TG_SLOT_WAIT_IO},
    {"slot.YIELD", TG_SLOT_YIELD},
    {"slot.REQUEUE", TG_SLOT_REQUEUE},
    {"slot.FAULT", TG_SLOT_FAULT},
    {"slot.PRIORITY_CRITICAL", TG_PRIORITY_CRITICAL},
    {"slot.PRIORITY_HIGH", TG_PRIORITY_HIGH},
    {"slot.PRIORITY_NORMAL", TG_PRIORITY_NORMAL},
    {"slot.PRIORITY_LOW", TG_PRIORITY_LOW},
    {"slot.PRIORITY_IDLE", TG_PRIORITY_IDLE},
    {"scheduler.PRIORITY_LEVELS", TG_PRIORITY_LEVELS},
    {"scheduler.STARVATION_THRESHOLD", TG_STARVATION_THRESHOLD},
    {"scheduler.TENANT_FAIRNESS_THRESHOLD", TG_TENANT_FAIRNESS_THRESHOLD},
};

static void constants(struct call *call)
{
    json_t *all = json_object();
    for (size_t i = 0; i < sizeof wire / sizeof *wire; i++)
        json_object_set_new(all, wire[i].name, json_u64(wire[i].value));
    out_ok(call, all);
}

static void debug_record_capacity(struct call *call)
{
    out_ok(call, json_u64(TG_DEBUG_RECORD_CAPACITY));
}

/* ---- Lengths and indices ------------------------------------------------------------------------------ */

/* "none" past the maxima is null. */
static void byte_len(struct call *call, int (*fn)(uint32_t, uint64_t *))
{
    uint64_t bytes;
    const int r = fn(in_u32(call, "n"), &bytes);
    if (r == 0 || r == TG_QUEUE_FULL)
        out_ok(call, r == 0 ? json_u64(bytes) : json_null());
    else
        out_err(call, r);
}

static void control_byte_len(struct call *call)
{
    byte_len(call, tg_control_byte_len);
}
static void ring_byte_len(struct call *call)
{
    byte_len(call, tg_ring_byte_len);
}
static void debug_log_byte_len(struct call *call)
{
    byte_len(call, tg_debug_log_byte_len);
}

static void validate(struct call *call, int (*fn)(size_t))
{
    const uint64_t length = in_u64(call, "len");
    if (length > SIZE_MAX)
        call->bad = "len";
    out_result(call, fn((size_t)length), json_null());
}

static void validate_ring_bytes(struct call *call)
{
    validate(call, tg_validate_ring_bytes);
}
static void validate_control_bytes(struct call *call)
{
    validate(call, tg_validate_control_bytes);
}
static void validate_debug_log_bytes(struct call *call)
{
    validate(call, tg_validate_debug_log_bytes);
}

static void try_slot_word_index(struct call *call)
{
    const uint32_t slot = in_u32(call, "slot"), word = in_u32(call, "word");
    uint32_t index = 0;
    const int r = call->free_form ? tg_protocol_try_slot_word_index(slot, word, &index)
                                  : tg_try_slot_word_index(slot, word, &index);
    out_result(call, r, json_u64(index));
}

static void opcode_class(struct call *call)
{
    const uint32_t op = in_u32(call, "opcode");
    out_ok(call, json_pack("{s:b, s:b, s:b, s:b}", "is_system", tg_opcode_is_reserved(op), "is_builtin",
                           tg_opcode_is_builtin(op), "user_ok", tg_opcode_is_user(op), "publish_ok",
                           tg_opcode_is_publishable(op)));
}

/* ---- Partitions --------------------------------------------------------------------------------------- */

static json_t *offsets_json(const uint32_t offsets[TG_CONTROL_PRIORITY_OFFSETS_SLOTS])
{
    json_t *array = json_array();
    for (size_t i = 0; i < TG_CONTROL_PRIORITY_OFFSETS_SLOTS; i++)
        json_array_append_new(array, json_u64(offsets[i]));
    return array;
}

static void default_offsets(struct call *call)
{
    uint32_t offsets[TG_CONTROL_PRIORITY_OFFSETS_SLOTS];
    tg_partition_default_offsets(in_u32(call, "total_slots"), offsets);
    out_ok(call, offsets_json(offsets));
}

static void write_default_offsets(struct call *call)
{
    struct buffer control = in_bytes(call, "control", 0);
    const uint32_t total = in_u32(call, "total_slots");
    const int r = tg_write_default_priority_offsets(control.bytes, control.length, total);
    out_result(call, r, json_null());
    out_changed(call, json_incref(json_object_get(call->in, "control")), &control);
    buffer_free(&control);
}

static void partition(struct call *call, uint32_t (*fn)(uint32_t, uint32_t))
{
    const uint32_t slots = in_u32(call, "partition_slots"), width = in_u32(call, "worker_width");
    out_ok(call, json_u64(fn(slots, width)));
}

static void probe_count(struct call *call)
{
    partition(call, tg_partition_probe_count);
}
static void active_lanes(struct call *call)
{
    partition(call, tg_partition_active_lanes);
}
static void probe_budget(struct call *call)
{
    partition(call, tg_partition_probe_budget);
}

static const struct call_entry plain_calls[] = {
    {"constants", constants, CLASS_FORM},
    {"debug_record_capacity", debug_record_capacity, CLASS_FORM},
    {"control_byte_len", control_byte_len, BOTH_FORMS},
    {"ring_byte_len", ring_byte_len, BOTH_FORMS},
    {"debug_log_byte_len", debug_log_byte_len, BOTH_FORMS},
    {"validate_ring_bytes", validate_ring_bytes, CLASS_FORM},
    {"validate_control_bytes", validate_control_bytes, CLASS_FORM},
    {"validate_debug_log_bytes", validate_debug_log_bytes, CLASS_FORM},
    {"try_slot_word_index", try_slot_word_index, BOTH_FORMS},
    {"opcode_class", opcode_class, BOTH_FORMS},
    {"default_priority_offsets_array", default_offsets, CLASS_FORM},
    {"write_default_priority_offsets", write_default_offsets, CLASS_FORM},
    {"priority_partition_probe_count", probe_count, CLASS_FORM},
    {"priority_partition_active_lane_count", active_lanes, CLASS_FORM},
    {"priority_partition_probe_budget", probe_budget, CLASS_FORM},
    {NULL, NULL, 0},
};

/* ---- The table ---------------------------------------------------------------------------------------- */

call_fn call_find(const char *name, bool *ret_free_form)
{
    static const char prefix[] = "protocol::";
    const struct call_entry *const tables[] = {publish_calls, encode_calls, read_calls, plain_calls};
    const bool free_form = strncmp(name, prefix, sizeof prefix - 1) == 0;
    if (free_form)
        name += sizeof prefix - 1;
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const struct call_entry *e = tables[t]; e->name; e++)
            if (strcmp(e->name, name) == 0 && (!free_form || e->forms == BOTH_FORMS)) {
                *ret_free_form = free_form;
                return e->fn;
            }
    return NULL;
}
