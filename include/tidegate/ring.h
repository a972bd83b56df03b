/* SPDX-License-Identifier: Apache-2.0
 *
 * The codec of the wire ABI: encoders, publishers, readers and slot transitions over plain bytes.
 *
 * What it is for: programs that hold a ring, control or debug-log buffer as bytes (a file, a readback from
 * a GPU, memory shared with another program). Buffers may lie at any address and hosts may have any byte
 * order. Nothing here allocates: the caller owns every buffer and passes its size, and no call keeps a
 * pointer after it returned.
 * What it is not: it does not wait, wake, look for a free slot or choose who runs. The engine does.
 *
 * Caveats first
 *  - A rejected call changes no byte of any buffer and writes no ret_ output. (One exception, kept because
 *    other implementations do the same: tg_try_read_metrics.)
 *  - Functions are pure over their arguments and safe to call from any thread on different buffers. On a
 *    ring that workers look at meanwhile: where a slot lies at a multiple of 4 bytes, publishers read STATUS
 *    with acquire and write it last, with release, and tg_transition_slot_status compares and swaps it; so
 *    one publisher a slot and any number of workers are safe. Two publishers of one slot are not.
 *  - Buffers handed in may hold anything; they are checked, never trusted. Outputs must not overlap inputs.
 *
 * Errors are negative errno values of two classes:
 *    TG_QUEUE_FULL   the thing cannot be published, sized or indexed
 *    TG_BACKEND      the buffer handed in is malformed or too short
 * The tg_protocol_ forms of a call follow the same rules and return finer values instead:
 *    TG_BYTE_LENGTH_OVERFLOW (class TG_QUEUE_FULL), TG_MISALIGNED_BYTE_LENGTH, TG_MISSING_WORD (TG_BACKEND)
 *
 * Words in arguments and results are host integers. Lengths are in bytes unless the name says _words,
 * _slots or _records. Rules kept: E1 and E2 (bytes of publication), E5 (bytes of a fence), E9 (reading).
 */
#ifndef TIDEGATE_RING_H
#define TIDEGATE_RING_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidegate/abi.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TG_QUEUE_FULL (-ENOBUFS)
#define TG_BACKEND (-EBADMSG)
#define TG_BYTE_LENGTH_OVERFLOW (-EOVERFLOW)
#define TG_MISALIGNED_BYTE_LENGTH (-EILSEQ)
#define TG_MISSING_WORD (-ENODATA)

/* The class of a finer error: TG_QUEUE_FULL or TG_BACKEND; any other value is returned as it is. */
int tg_error_class(int error);

/* ---- Opcodes ---------------------------------------------------------------------------------------- */

/* Bit 31 set, or 0xFFF0..0xFFFF, or below 8: not for users. */
bool tg_opcode_is_reserved(uint32_t opcode);
/* 0..7, PACKED_SLOT, PRINTF, SHUTDOWN: has a meaning in the ABI. */
bool tg_opcode_is_builtin(uint32_t opcode);
/* Not reserved: may be registered by a user. */
bool tg_opcode_is_user(uint32_t opcode);
/* Built-in or user: the publishers take it. LOAD_MISS is neither. */
bool tg_opcode_is_publishable(uint32_t opcode);

/* ---- Lengths ---------------------------------------------------------------------------------------- */

/* Bytes of a control buffer with that many observable words, of a ring, of a debug log.
 * Returns 0 and *ret_bytes, or TG_QUEUE_FULL past the wire maxima (TG_MAX_...). */
int tg_control_byte_len(uint32_t observable_slots, uint64_t *ret_bytes);
int tg_ring_byte_len(uint32_t slots, uint64_t *ret_bytes);
int tg_debug_log_byte_len(uint32_t records, uint64_t *ret_bytes);

/* Is this the length of a well-formed buffer? 0 or TG_BACKEND. A ring: a multiple of 64 (0 too). A control
 * buffer: whole words, at least 160. A debug log: exactly the default one's length, 1028. */
int tg_validate_ring_bytes(size_t ring_bytes);
int tg_validate_control_bytes(size_t control_bytes);
int tg_validate_debug_log_bytes(size_t log_bytes);

/* Index in the ring of a word of a slot. TG_QUEUE_FULL (finer: TG_BYTE_LENGTH_OVERFLOW) when word is not
 * below 16 or the index does not fit 32 bits. */
int tg_try_slot_word_index(uint32_t slot, uint32_t word, uint32_t *ret_index);
int tg_protocol_try_slot_word_index(uint32_t slot, uint32_t word, uint32_t *ret_index);

/* ---- Encoders ----------------------------------------------------------------------------------------
 * Each makes dst[0 .. *ret_bytes) a fresh buffer; bytes behind it are left alone. dst has room for
 * capacity bytes. ret_bytes may be NULL. Errors: TG_QUEUE_FULL when more than 1,048,576 slots, observable
 * words or records are asked for; TG_BACKEND (finer: TG_MISSING_WORD) when capacity is too small. */

/* A control buffer: SHUTDOWN word, masks for the first min(tenants, 29) tenants, a quota of 1,000,000 for
 * the first min(tenants, 32). Priority offsets stay zero until they are written by their own call. */
int tg_encode_control(bool shutdown, uint32_t tenants, uint32_t observable_slots, void *dst, size_t capacity,
                      size_t *ret_bytes);
int tg_protocol_encode_control(bool shutdown, uint32_t tenants, uint32_t observable_slots, void *dst,
                               size_t capacity, size_t *ret_bytes);

/* A ring of EMPTY slots. */
int tg_encode_empty_ring(uint32_t slots, void *dst, size_t capacity, size_t *ret_bytes);
int tg_protocol_encode_empty_ring(uint32_t slots, void *dst, size_t capacity, size_t *ret_bytes);

/* A debug log with its cursor at 0. */
int tg_encode_empty_debug_log(uint32_t records, void *dst, size_t capacity, size_t *ret_bytes);
int tg_protocol_encode_empty_debug_log(uint32_t records, void *dst, size_t capacity, size_t *ret_bytes);

/* A ring whose first slots hold the items, PUBLISHED, the others EMPTY. Further errors, all TG_QUEUE_FULL
 * and in this order: more items than slots, an opcode that cannot be published. The priority-less forms
 * write NORMAL. The words form lays down the same bytes in word storage. */
int tg_encode_work_items_ring(uint32_t slots, uint32_t tenant, const struct tg_work_item *items,
                              size_t item_count, void *dst, size_t capacity, size_t *ret_bytes);
int tg_encode_work_items_ring_with_priority(uint32_t slots, uint32_t tenant, uint32_t priority,
                                            const struct tg_work_item *items, size_t item_count, void *dst,
                                            size_t capacity, size_t *ret_bytes);
int tg_encode_work_items_ring_words(uint32_t slots, uint32_t tenant, const struct tg_work_item *items,
                                    size_t item_count, uint32_t *dst, size_t capacity_words,
                                    size_t *ret_words);
int tg_encode_work_items_ring_words_with_priority(uint32_t slots, uint32_t tenant, uint32_t priority,
                                                  const struct tg_work_item *items, size_t item_count,
                                                  uint32_t *dst, size_t capacity_words, size_t *ret_words);

/* One slot: PUBLISHED, LOAD_MISS, tenant 0, priority 0, ARG0 = resource, ARG1 = prefetch (0 or 1). */
int tg_encode_load_miss(uint32_t resource, bool prefetch, void *dst, size_t capacity, size_t *ret_bytes);
int tg_protocol_encode_load_miss(uint32_t resource, bool prefetch, void *dst, size_t capacity,
                                 size_t *ret_bytes);

/* Does that slot hold a LOAD_MISS? true and both results; false for another opcode or missing words. Its
 * STATUS is not looked at. */
bool tg_decode_load_miss(const void *ring, size_t ring_bytes, uint32_t slot, uint32_t *ret_resource,
                         bool *ret_prefetch);

/* ---- Publishers --------------------------------------------------------------------------------------
 * Each writes words 1..3 (opcode, tenant, priority), zeroes words 4..15, writes the arguments, and STATUS =
 * PUBLISHED last. The priority-less forms write NORMAL. A slot can be published when its STATUS is exactly
 * EMPTY or DONE. Every failure is TG_QUEUE_FULL: ring length not a multiple of 64, a slot out of range or not
 * publishable, more than 12 argument words, an opcode that is not publishable, a priority above IDLE. Every
 * slot a call will write is checked before its first write. */

int tg_publish_slot(void *ring, size_t ring_bytes, uint32_t slot, uint32_t tenant, uint32_t opcode,
                    const uint32_t *args, size_t arg_count);
int tg_publish_slot_with_priority(void *ring, size_t ring_bytes, uint32_t slot, uint32_t tenant,
                                  uint32_t priority, uint32_t opcode, const uint32_t *args, size_t arg_count);

/* Items into consecutive slots from start. No items: fine when start <= capacity. *ret_published = items. */
int tg_publish_work_items(void *ring, size_t ring_bytes, uint32_t start, uint32_t tenant,
                          const struct tg_work_item *items, size_t item_count, uint32_t *ret_published);
int tg_publish_work_items_with_priority(void *ring, size_t ring_bytes, uint32_t start, uint32_t tenant,
                                        uint32_t priority, const struct tg_work_item *items,
                                        size_t item_count, uint32_t *ret_published);

/* One item of a batch. args is only read, and only during the call. */
struct tg_batch_item {
    uint32_t opcode;
    const uint32_t *args; /* may be NULL when arg_count is 0 */
    size_t arg_count;     /* words, at most 12 */
};

/* Items into consecutive slots from start, then a BATCH_FENCE with ARG0 = item_count, ARG1 = tag. No items:
 * a lone fence. *ret_published = item_count + 1. */
int tg_batch_publish(void *ring, size_t ring_bytes, uint32_t start, uint32_t tenant,
                     const struct tg_batch_item *items, size_t item_count, uint32_t tag,
                     uint32_t *ret_published);
int tg_batch_publish_with_priority(void *ring, size_t ring_bytes, uint32_t start, uint32_t tenant,
                                   uint32_t priority, const struct tg_batch_item *items, size_t item_count,
                                   uint32_t tag, uint32_t *ret_published);

/* One inner operation of a packed slot. */
struct tg_packed_op {
    uint8_t op_id;
    const uint32_t *args; /* may be NULL when arg_count is 0 */
    size_t arg_count;     /* words */
};

/* Several inner operations in one slot. m = ceil((2 + 2 n) / 4) words of metadata, and m plus all argument
 * words at most 12; so n is at most 23. 0 operations are legal. */
int tg_publish_packed_slot(void *ring, size_t ring_bytes, uint32_t slot, uint32_t tenant,
                           const struct tg_packed_op *ops, size_t op_count);
int tg_publish_packed_slot_with_priority(void *ring, size_t ring_bytes, uint32_t slot, uint32_t tenant,
                                         uint32_t priority, const struct tg_packed_op *ops, size_t op_count);

/* The payload alone: the 12 argument words of a packed slot. TG_QUEUE_FULL when it does not fit. */
int tg_packed_encode(const struct tg_packed_op *ops, size_t op_count, uint32_t ret_args[TG_ARGS_PER_SLOT]);

/* A decoded packed payload. Operation i has args[first[i] .. first[i] + words[i]) of the slot's arguments:
 * from its own offset to the next operation's, the last one's to the end of what was packed. */
struct tg_packed_view {
    uint32_t op_count;
    uint8_t op_id[TG_PACKED_MAX_OPS];
    uint8_t first[TG_PACKED_MAX_OPS];
    uint8_t words[TG_PACKED_MAX_OPS];
};

/* Reads a packed payload. TG_BACKEND when it does not fit 12 words, or offsets descend or leave the packed
 * words; the worker that claimed such a slot ends it with FAULT. */
int tg_packed_decode(const uint32_t args[TG_ARGS_PER_SLOT], struct tg_packed_view *ret_view);

/* ---- Slot transitions --------------------------------------------------------------------------------- */

/* From where a transition is legal, and to where it leads. False for an illegal one; statuses above 7 match
 * nothing and FAULT has no exit. */
bool tg_slot_transition_target(uint32_t status, enum tg_slot_transition transition, uint32_t *ret_to);

/* Moves one slot and returns what STATUS was; only word 0 changes. Every failure is TG_QUEUE_FULL: PUBLISH (a
 * publisher writes the payload first), a malformed ring, a slot out of range, an illegal transition. */
int tg_transition_slot_status(void *ring, size_t ring_bytes, uint32_t slot,
                              enum tg_slot_transition transition, uint32_t *ret_previous);

/* DONE slots among the first item_count. 0 for none asked, before any check. Then, in this order:
 * TG_BACKEND for a length that is not whole words, TG_QUEUE_FULL when 64 * item_count overflows 64 bits,
 * TG_BACKEND when those slots are not all there. */
int tg_try_count_done_ring_slots(const void *ring, size_t ring_bytes, uint64_t item_count,
                                 uint64_t *ret_done);
int tg_protocol_try_count_done_ring_slots(const void *ring, size_t ring_bytes, uint64_t item_count,
                                          uint64_t *ret_done);
/* The soft form: false for no slots asked and for slots that are not all there; whole words are not
 * required. */
bool tg_count_done_ring_slots(const void *ring, size_t ring_bytes, uint64_t item_count, uint64_t *ret_done);

/* ---- Control buffer: readers --------------------------------------------------------------------------
 * Strict forms: whole words, and the word is there; else TG_BACKEND (finer: TG_MISALIGNED_BYTE_LENGTH, then
 * TG_MISSING_WORD). Soft forms give 0 instead. */

int tg_try_read_done_count(const void *control, size_t control_bytes, uint32_t *ret_count);
int tg_protocol_try_read_done_count(const void *control, size_t control_bytes, uint32_t *ret_count);
uint32_t tg_read_done_count(const void *control, size_t control_bytes);

int tg_try_read_epoch(const void *control, size_t control_bytes, uint32_t *ret_epoch);
int tg_protocol_try_read_epoch(const void *control, size_t control_bytes, uint32_t *ret_epoch);
uint32_t tg_read_epoch(const void *control, size_t control_bytes);

/* Before the above: an index whose word does not fit 32 bits is TG_QUEUE_FULL (TG_BYTE_LENGTH_OVERFLOW). */
int tg_try_read_observable(const void *control, size_t control_bytes, uint32_t index, uint32_t *ret_value);
int tg_protocol_try_read_observable(const void *control, size_t control_bytes, uint32_t index,
                                    uint32_t *ret_value);
uint32_t tg_read_observable(const void *control, size_t control_bytes, uint32_t index);

/* Executions of one opcode; opcodes that never ran are not listed. */
struct tg_metric {
    uint32_t opcode; /* 0..31 */
    uint32_t count;  /* not 0 */
};

/* The strict form wants whole words and all 32 metric words. A misaligned buffer leaves *count alone; a
 * buffer that ends too early sets *count to 0. The entries are written on success only. */
int tg_try_read_metrics(const void *control, size_t control_bytes,
                        struct tg_metric entries[TG_CONTROL_METRICS_SLOTS], size_t *count);
int tg_protocol_try_read_metrics(const void *control, size_t control_bytes,
                                 struct tg_metric entries[TG_CONTROL_METRICS_SLOTS], size_t *count);
/* The soft form reads the whole words that are there, and returns how many entries it wrote. */
size_t tg_read_metrics(const void *control, size_t control_bytes,
                       struct tg_metric entries[TG_CONTROL_METRICS_SLOTS]);

/* ---- Control buffer: partition table ------------------------------------------------------------------ */

/* Writes words 129..134 for total slots: a fifth each, the remainder to NORMAL. A buffer that is misaligned
 * or too short is TG_QUEUE_FULL. */
int tg_write_default_priority_offsets(void *control, size_t control_bytes, uint32_t total_slots);

/* Writes a partition table of the caller's: offsets[0] is 0, none descends, offsets[5] is the slot count and
 * at most TG_MAX_RING_SLOTS; else, or when the buffer is misaligned or too short, TG_QUEUE_FULL. */
int tg_write_priority_offsets(void *control, size_t control_bytes,
                              const uint32_t offsets[TG_CONTROL_PRIORITY_OFFSETS_SLOTS]);

/* Reads the partition table of a ring of total_slots. TG_BACKEND when words are missing, the first offset
 * is not 0, offsets descend, or the last is not total_slots. (An unwritten table of zeros is refused for
 * any ring that has slots.) */
int tg_try_read_priority_offsets(const void *control, size_t control_bytes, uint32_t total_slots,
                                 uint32_t ret_offsets[TG_CONTROL_PRIORITY_OFFSETS_SLOTS]);

/* ---- Debug log ---------------------------------------------------------------------------------------- */

/* Every record up to the cursor, oldest first. TG_BACKEND for a length that is not whole words, no cursor
 * word, a cursor past the capacity or inside a record, or more records than records has room for; records
 * and *ret_count are left alone then. */
int tg_try_read_debug_log(const void *log, size_t log_bytes, struct tg_debug_record *records, size_t capacity,
                          size_t *ret_count);
int tg_protocol_try_read_debug_log(const void *log, size_t log_bytes, struct tg_debug_record *records,
                                   size_t capacity, size_t *ret_count);
/* The soft form never fails: it returns how many whole records lie before the cursor and inside the buffer,
 * and writes the first capacity of them. With capacity 0 records may be NULL. */
size_t tg_read_debug_log(const void *log, size_t log_bytes, struct tg_debug_record *records, size_t capacity);

#ifdef __cplusplus
}
#endif

#endif
