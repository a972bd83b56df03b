/* SPDX-License-Identifier: Apache-2.0
 *
 * The wire constants and shapes of the resident work queue, for hosts, CPU workers and GPU kernels: this
 * header compiles as C11, C++17 and CUDA and includes nothing but fixed-width integers.
 *
 * What it is: four buffers of little-endian 32-bit words (ring, control, debug log, DFA table) that a host
 * and workers share. A buffer written by any other implementation of this ABI decodes here byte for byte,
 * and the other way round; nothing here may ever change its value.
 * What it is not: no function, no memory order, no policy. The codec is ring.h; the life of a slot in
 * memory that others look at is src/ring/slot.h.
 *
 * The structs below describe a buffer as a little-endian processor sees it at an aligned address. A
 * program that has bytes from elsewhere (a file, a socket, a big-endian host) uses the codec instead.
 *
 * Rules kept: E2 (PRIORITY word and partition table), E4 (tenant table), E5 (fence words), E9 (log).
 */
#ifndef TIDEGATE_ABI_H
#define TIDEGATE_ABI_H

#ifdef __cplusplus
#include <cstddef>
#include <cstdint>
#else
#include <stddef.h>
#include <stdint.h>
#endif

#ifdef __cplusplus
#define TG_STATIC_ASSERT(condition, text) static_assert(condition, text)
#define TG_ALIGNED(bytes) alignas(bytes)
#else
#define TG_STATIC_ASSERT(condition, text) _Static_assert(condition, text)
#define TG_ALIGNED(bytes) _Alignas(bytes)
#endif

/* ---- Ring: N slots of 16 words ---------------------------------------------------------------------- */

#define TG_WORD_BYTES 4u
#define TG_SLOT_WORDS 16u
#define TG_SLOT_BYTES 64u

/* Word indices inside a slot. */
#define TG_SLOT_STATUS_WORD 0u
#define TG_SLOT_OPCODE_WORD 1u
#define TG_SLOT_TENANT_WORD 2u
#define TG_SLOT_PRIORITY_WORD 3u
#define TG_SLOT_ARG0_WORD 4u
#define TG_ARGS_PER_SLOT 12u

/* Values of the STATUS word. Any other value is foreign: no transition starts from it. */
enum tg_slot_status {
    TG_SLOT_EMPTY = 0,     /* free; a publisher may take it */
    TG_SLOT_PUBLISHED = 1, /* payload complete; a worker may claim it */
    TG_SLOT_CLAIMED = 2,   /* one worker runs it */
    TG_SLOT_DONE = 3,      /* results are visible; a publisher may take it again */
    TG_SLOT_WAIT_IO = 4,   /* waits for the host's IO side; cannot be claimed */
    TG_SLOT_YIELD = 5,     /* gave its worker back (a waiting fence); may be claimed again */
    TG_SLOT_REQUEUE = 6,   /* to be run again; may be claimed */
    TG_SLOT_FAULT = 7      /* failed; has no exit but the host's own clearing */
};
#define TG_SLOT_STATUS_COUNT 8u

/* Transitions of the STATUS word; ring.h says from where each is legal. */
enum tg_slot_transition {
    TG_TRANSITION_PUBLISH = 0, /* EMPTY, DONE -> PUBLISHED; publishers only */
    TG_TRANSITION_CLAIM = 1,   /* PUBLISHED, YIELD, REQUEUE -> CLAIMED */
    TG_TRANSITION_DONE = 2,    /* CLAIMED -> DONE */
    TG_TRANSITION_FAULT = 3,   /* PUBLISHED, CLAIMED, WAIT_IO, YIELD, REQUEUE -> FAULT */
    TG_TRANSITION_CANCEL = 4   /* PUBLISHED, WAIT_IO, YIELD, REQUEUE -> EMPTY */
};
#define TG_TRANSITION_COUNT 5u

/* Values of the PRIORITY word, most urgent first. */
enum tg_priority {
    TG_PRIORITY_CRITICAL = 0,
    TG_PRIORITY_HIGH = 1,
    TG_PRIORITY_NORMAL = 2, /* what a publisher without a priority writes */
    TG_PRIORITY_LOW = 3,
    TG_PRIORITY_IDLE = 4
};
#define TG_PRIORITY_LEVELS 5u

/* One work item: one cache line. "Publisher" is whoever moves the slot from EMPTY or DONE to PUBLISHED;
 * "worker" is whoever claimed it. Between the two the slot belongs to nobody and must not be written. */
struct tg_slot {
    /* Compared-and-swapped by everybody; a publisher writes it last. Read by everybody, with acquire. */
    TG_ALIGNED(64) uint32_t status;
    uint32_t opcode;   /* written by the publisher; read by the worker */
    uint32_t tenant;   /* written by the publisher; read by the worker (authority, quota) */
    uint32_t priority; /* written by the publisher; read by the worker; agrees with the partition */
    uint32_t args[TG_ARGS_PER_SLOT]; /* written by the publisher, unused ones zero; read by the worker */
};

/* A work item by handles, as planners hand it over: OPCODE = op_handle, ARG0..2 = the other three. */
struct tg_work_item {
    uint32_t op_handle;
    uint32_t input_handle;
    uint32_t output_handle;
    uint32_t param;
};

/* ---- Opcodes ---------------------------------------------------------------------------------------- */

#define TG_OP_NOP 0u                  /* nothing */
#define TG_OP_STORE_U32 1u            /* control[a1] = a0 */
#define TG_OP_ATOMIC_ADD 2u           /* control[a1] += a0 */
#define TG_OP_LOAD_U32 3u             /* control[OBSERVABLE_BASE + a1] = control[a0] */
#define TG_OP_COMPARE_SWAP 4u         /* CAS control[a0] from a1 to a2; old value to [OBSERVABLE_BASE + a0] */
#define TG_OP_MEMCPY 5u               /* control[a1 .. a1 + a2) = control[a0 .. a0 + a2), ascending */
#define TG_OP_DFA_STEP 6u             /* next state = dfa_table[a0 * 256 + a1] */
#define TG_OP_BATCH_FENCE 7u          /* a0 items done: EPOCH += 1, control[OBSERVABLE_BASE] = a1 */
#define TG_OP_LOAD_MISS 0x0000FFFDu   /* a0 = resource id, a1 = prefetch flag; its own encoder only */
#define TG_OP_PRINTF 0x0000FFFEu      /* append {a0 = format id, a1, a2, slot base word} to the debug log */
#define TG_OP_PACKED_SLOT 0x80000001u /* several inner ops in one slot */
#define TG_OP_SHUTDOWN 0xFFFFFFFFu    /* control[SHUTDOWN] = 1 */

/* Reserved: bit 31 set, or in [RESERVED_MIN, RESERVED_MAX], or below FIRST_USER. */
#define TG_OP_SYSTEM_MASK 0x80000000u
#define TG_OP_RESERVED_MIN 0x0000FFF0u
#define TG_OP_RESERVED_MAX 0x0000FFFFu
#define TG_OP_FIRST_USER 8u

/* DFA_STEP's table: one row of next states a state. */
#define TG_DFA_COLUMNS 256u

/* PACKED_SLOT payload, the argument words seen as bytes: [0] = inner ops, [1] = argument words, then two
 * bytes an op {id, word offset of its arguments from the end of the metadata}, padded to a whole word. */
#define TG_PACKED_COUNT_BYTE 0u
#define TG_PACKED_ARG_WORDS_BYTE 1u
#define TG_PACKED_HEADER_BYTES 2u
#define TG_PACKED_OP_BYTES 2u
#define TG_PACKED_MAX_OPS 23u /* ceil((2 + 2 * 23) / 4) = 12 words, all of them metadata */

/* ---- Control buffer: at least 160 words -------------------------------------------------------------- */

#define TG_CONTROL_MIN_WORDS 160u
#define TG_CONTROL_MIN_BYTES 640u

/* Word indices. "Host" is the program that opened the queue, "worker" any worker, "program" an opcode. */
#define TG_CONTROL_SHUTDOWN 0u           /* host or opcode SHUTDOWN writes; workers read: non-zero, leave */
#define TG_CONTROL_DONE_COUNT 1u         /* workers add 1 a drained slot; host reads */
#define TG_CONTROL_TENANT_BASE 2u        /* encoder writes the word index of the masks (3); workers read */
#define TG_CONTROL_TENANT_MASKS 3u       /* host writes 0 or all ones a tenant; workers read */
#define TG_CONTROL_TENANT_QUOTA_BASE 32u /* host sets claims left a tenant; workers count down */
#define TG_CONTROL_TENANT_FAIRNESS_BASE 64u   /* workers add 1 a claim at [tenant mod 32] */
#define TG_CONTROL_METRICS_BASE 96u           /* workers add 1 an execution of opcode 0..31; host reads */
#define TG_CONTROL_EPOCH 128u                 /* workers add 1 an executed BATCH_FENCE; host reads */
#define TG_CONTROL_PRIORITY_OFFSETS_BASE 129u /* host writes first slots and the sentinel; workers read */
#define TG_CONTROL_PRIORITY_STARVATION_COUNTER 135u /* workers: consecutive claims at CRITICAL or HIGH */
#define TG_CONTROL_PRIORITY_FAIRNESS_BASE 136u      /* workers add 1 a claim at that priority */
#define TG_CONTROL_EXTENSION_BASE 141u              /* free in the ABI; zero when unused */
#define TG_CONTROL_FAULT_COUNT 141u                 /* extension: workers add 1 a fault */
#define TG_CONTROL_FAULT_SLOT 142u                  /* extension: slot of one of the latest */
#define TG_CONTROL_FAULT_REASON 143u                /* extension: its enum tg_fault_reason */
#define TG_CONTROL_LOG_DROPPED 144u                 /* extension: records that found the log full */
#define TG_CONTROL_LEVELS 151u                      /* extension: kernels' level decision, 6 bits a level */
#define TG_CONTROL_OBSERVABLE_BASE 160u             /* programs write results; host reads */

/* How many words each table has. */
#define TG_CONTROL_TENANT_MASK_SLOTS 29u
#define TG_CONTROL_TENANT_QUOTA_SLOTS 32u
#define TG_CONTROL_TENANT_FAIRNESS_SLOTS 32u
#define TG_CONTROL_METRICS_SLOTS 32u
#define TG_CONTROL_PRIORITY_OFFSETS_SLOTS 6u
#define TG_CONTROL_PRIORITY_FAIRNESS_SLOTS 5u
#define TG_CONTROL_EXTENSION_SLOTS 19u

/* The extension words that this project's engines use (docs/abi.md); the others are zero. */
#define TG_CONTROL_FAULT_COUNT 141u   /* workers add 1 a fault, after the next two words */
#define TG_CONTROL_FAULT_SLOT 142u    /* slot of one of the latest faults */
#define TG_CONTROL_FAULT_REASON 143u  /* its reason: enum tg_fault_reason in engine.h */
#define TG_CONTROL_LOG_DROPPED 144u   /* workers add 1 a record that found the log full */
#define TG_CONTROL_PARTITION_SEQ 145u /* odd while the offsets change */
#define TG_CONTROL_FOREIGN_FIRST                                                                             \
    146u /* five words: 1 + first slot of a priority for foreign hosts; 0: none */

#define TG_TENANT_MASK_NONE 0u         /* not authorised */
#define TG_TENANT_MASK_ALL 0xFFFFFFFFu /* authorised */
#define TG_TENANT_QUOTA_INITIAL 1000000u

/* The fixed part of a control buffer; writers and readers as above. Observable words follow it. */
struct tg_control {
    uint32_t shutdown;
    uint32_t done_count;
    uint32_t tenant_base;
    uint32_t tenant_masks[TG_CONTROL_TENANT_MASK_SLOTS];
    uint32_t tenant_quota[TG_CONTROL_TENANT_QUOTA_SLOTS];
    uint32_t tenant_fairness[TG_CONTROL_TENANT_FAIRNESS_SLOTS];
    uint32_t metrics[TG_CONTROL_METRICS_SLOTS];
    uint32_t epoch;
    uint32_t priority_offsets[TG_CONTROL_PRIORITY_OFFSETS_SLOTS];
    uint32_t priority_starvation;
    uint32_t priority_fairness[TG_CONTROL_PRIORITY_FAIRNESS_SLOTS];
    uint32_t extension[TG_CONTROL_EXTENSION_SLOTS];
};

/* ---- Scheduler constants ------------------------------------------------------------------------------ */

#define TG_STARVATION_THRESHOLD 16u
#define TG_TENANT_FAIRNESS_THRESHOLD 64u

/* ---- Faults ---------------------------------------------------------------------------------------------
 */

/* Why an item is FAULT: what a worker of this project writes to the extension word FAULT_REASON
 * (docs/abi.md). */
enum tg_fault_reason {
    TG_FAULT_NONE = 0,
    TG_FAULT_UNKNOWN_OPCODE = 1, /* detail: the opcode */
    TG_FAULT_OUT_OF_BOUNDS = 2,  /* detail: the control word */
    TG_FAULT_CONTROL_DENIED = 3, /* a word below OBSERVABLE_BASE, or SHUTDOWN; detail: the word */
    TG_FAULT_HANDLER = 4,        /* detail: what the handler returned, as two's complement */
    TG_FAULT_TENANT = 5,         /* tenant id outside the table; detail: the id */
    TG_FAULT_PRIORITY = 6,       /* priority above 4; detail: it */
    TG_FAULT_PACKED = 7,         /* malformed packed slot; detail: the inner op */
    TG_FAULT_NO_DFA = 8,         /* no table registered */
    TG_FAULT_DFA = 9,            /* state or symbol outside the table; detail: it */
    TG_FAULT_FENCE = 10,         /* a fence over slots that do not exist; detail: its a0 */
    TG_FAULT_IO = 11,            /* the IO side failed; detail: its error, as two's complement */
    TG_FAULT_TAMPERED = 12,      /* the slot's tenant changed after publication; detail: the new one */
    TG_FAULT_WORKER_DIED = 13,   /* the handler ended its thread */
    TG_FAULT_REFUSED = 14,       /* a client's item that the server did not take; detail: errno */
    TG_FAULT_DEVICE = 15,        /* the device died while the item ran */
    TG_FAULT_TIMEOUT = 16,       /* a body on a device ran longer than it may, and the engine ended for it */
};

/* ---- Debug log ----------------------------------------------------------------------------------------- */

#define TG_DEBUG_CURSOR_WORD 0u /* workers add; host reads: words already written, the cursor not counted */
#define TG_DEBUG_RECORDS_BASE 1u
#define TG_DEBUG_RECORD_WORDS 4u
#define TG_DEBUG_RECORD_CAPACITY 64u /* default capacity, in records */
#define TG_DEBUG_BUFFER_WORDS 257u   /* 1 + 4 * 64 */

/* One record; the worker that reserved its words writes it, the host reads it. */
struct tg_debug_record {
    uint32_t fmt_id;
    uint32_t args[3];
};

/* ---- Maxima -------------------------------------------------------------------------------------------- */

/* What 32-bit word indices can address. */
#define TG_MAX_RING_SLOTS 268435455u        /* (2^32 - 1) / 16 */
#define TG_MAX_OBSERVABLE_SLOTS 4294967135u /* 2^32 - 1 - 160 */
#define TG_MAX_DEBUG_RECORDS 1073741823u    /* (2^32 - 1) / 4 */
/* Where the encoders stop. */
#define TG_MAX_ENCODED_RING_SLOTS 1048576u
#define TG_MAX_ENCODED_OBSERVABLE_SLOTS 1048576u
#define TG_MAX_ENCODED_DEBUG_RECORDS 1048576u

/* ---- The layout, asserted ------------------------------------------------------------------------------ */

TG_STATIC_ASSERT(sizeof(struct tg_slot) == TG_SLOT_BYTES, "a slot is one 64-byte cache line");
TG_STATIC_ASSERT(offsetof(struct tg_slot, status) == TG_SLOT_STATUS_WORD * 4, "STATUS is word 0");
TG_STATIC_ASSERT(offsetof(struct tg_slot, opcode) == TG_SLOT_OPCODE_WORD * 4, "OPCODE is word 1");
TG_STATIC_ASSERT(offsetof(struct tg_slot, tenant) == TG_SLOT_TENANT_WORD * 4, "TENANT is word 2");
TG_STATIC_ASSERT(offsetof(struct tg_slot, priority) == TG_SLOT_PRIORITY_WORD * 4, "PRIORITY is word 3");
TG_STATIC_ASSERT(offsetof(struct tg_slot, args) == TG_SLOT_ARG0_WORD * 4, "ARG0 is word 4");
TG_STATIC_ASSERT(TG_SLOT_ARG0_WORD + TG_ARGS_PER_SLOT == TG_SLOT_WORDS, "the arguments end the slot");
TG_STATIC_ASSERT(TG_SLOT_WORDS *TG_WORD_BYTES == TG_SLOT_BYTES, "16 words are 64 bytes");
TG_STATIC_ASSERT(sizeof(struct tg_work_item) == 16, "a work item is four words");
TG_STATIC_ASSERT(sizeof(struct tg_debug_record) == TG_DEBUG_RECORD_WORDS * 4, "a record is four words");
TG_STATIC_ASSERT(TG_DEBUG_BUFFER_WORDS ==
                     TG_DEBUG_RECORDS_BASE + TG_DEBUG_RECORD_WORDS * TG_DEBUG_RECORD_CAPACITY,
                 "the default debug log is 257 words");

#define TG_CONTROL_AT(field, word) (offsetof(struct tg_control, field) == (word)*4u)
TG_STATIC_ASSERT(sizeof(struct tg_control) == TG_CONTROL_MIN_BYTES, "the fixed part is 160 words");
TG_STATIC_ASSERT(TG_CONTROL_AT(shutdown, TG_CONTROL_SHUTDOWN), "SHUTDOWN is word 0");
TG_STATIC_ASSERT(TG_CONTROL_AT(done_count, TG_CONTROL_DONE_COUNT), "DONE_COUNT is word 1");
TG_STATIC_ASSERT(TG_CONTROL_AT(tenant_base, TG_CONTROL_TENANT_BASE), "TENANT_BASE is word 2");
TG_STATIC_ASSERT(TG_CONTROL_AT(tenant_masks, TG_CONTROL_TENANT_MASKS), "masks start at word 3");
TG_STATIC_ASSERT(TG_CONTROL_AT(tenant_quota, TG_CONTROL_TENANT_QUOTA_BASE), "quotas start at word 32");
TG_STATIC_ASSERT(TG_CONTROL_AT(tenant_fairness, TG_CONTROL_TENANT_FAIRNESS_BASE), "fairness at word 64");
TG_STATIC_ASSERT(TG_CONTROL_AT(metrics, TG_CONTROL_METRICS_BASE), "metrics start at word 96");
TG_STATIC_ASSERT(TG_CONTROL_AT(epoch, TG_CONTROL_EPOCH), "EPOCH is word 128");
TG_STATIC_ASSERT(TG_CONTROL_AT(priority_offsets, TG_CONTROL_PRIORITY_OFFSETS_BASE), "offsets at word 129");
TG_STATIC_ASSERT(TG_CONTROL_AT(priority_starvation, TG_CONTROL_PRIORITY_STARVATION_COUNTER), "word 135");
TG_STATIC_ASSERT(TG_CONTROL_AT(priority_fairness, TG_CONTROL_PRIORITY_FAIRNESS_BASE), "word 136");
TG_STATIC_ASSERT(TG_CONTROL_AT(extension, TG_CONTROL_EXTENSION_BASE), "extension words start at 141");
TG_STATIC_ASSERT(TG_CONTROL_FAULT_COUNT == TG_CONTROL_EXTENSION_BASE, "the extension's first word is used");
TG_STATIC_ASSERT(TG_CONTROL_OBSERVABLE_BASE == TG_CONTROL_MIN_WORDS, "observables follow the fixed part");
#undef TG_CONTROL_AT

TG_STATIC_ASSERT(TG_MAX_RING_SLOTS == 0xFFFFFFFFu / TG_SLOT_WORDS, "slots a word index can address");
TG_STATIC_ASSERT(TG_MAX_OBSERVABLE_SLOTS == 0xFFFFFFFFu - TG_CONTROL_MIN_WORDS, "observables likewise");
TG_STATIC_ASSERT(TG_MAX_DEBUG_RECORDS == 0xFFFFFFFFu / TG_DEBUG_RECORD_WORDS, "records likewise");

#endif
