/* SPDX-License-Identifier: Apache-2.0
 *
 * What the host half (device_*.c) and the device half (dispatch*.h) of an engine whose workers are on a
 * device share: the lines that carry items and commands over the bus, the cells that carry slot numbers back,
 * and the arrays that only the device touches. Plain data; whose code writes what stands at each field.
 *
 * The way of an item
 *   The host writes the slot of the ABI ring (STATUS last) and a line of its level's line ring. The
 * dispatcher, one warp, polls the next expected line of every level and of the command ring with one read; so
 * a poll that finds an item has its payload, and a command is a doorbell that costs no read of its own. It
 * files the item under level and tenant in device memory, decides (levels.h, tenants.h), and runs it or hands
 * it on. The end goes back as STATUS in the ABI ring, and, a batch later, as a slot number in the free cells
 * of the level.
 *
 * Why a line cannot be torn
 *   A line is four quarters of 16 bytes, each with the lap of its position in its first word, stored last
 *   (N1) by the host. A lane reads one quarter with one 16-byte load (N2) and takes it only when the lap is
 * the expected one; a line is taken when all four are. Quarters of different laps are therefore seen, and
 * read again. What is assumed is that an aligned 16-byte load by one lane is one access.
 *
 * Why a line is free when the host writes it again
 *   The ring of a level has at least as many lines as the level may ever have slots in use. Lines are
 *   consumed in order; if the line of position p were not consumed when p + lines is written, more than that
 *   many items would hold a slot of the level.
 *
 * Who owns a slot: its publisher until the line is written, then the dispatcher until the free cell is
 * written. The host never changes STATUS of a slot the dispatcher owns, so no compare-and-swap crosses the
 * bus.
 */
#ifndef TG_ENGINE_DEVICE_H
#define TG_ENGINE_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include <tidegate/abi.h>
#include <tidegate/levels.h>
#include <tidegate/tenants.h>

#include "engine/counts.h"

#define TG_LINE_QUARTERS 4u
#define TG_LINE_LAP 0xFFFu /* low bits of a quarter's first word: lap mod 2^11, and bit 11 set */
#define TG_LINE_VALUE_SHIFT 12u
#define TG_LINE_VALUE_MAX 0xFFFFFu

#define TG_RING_COMMANDS TG_PRIORITY_LEVELS /* the line ring of commands, after those of the levels */
#define TG_LINE_RINGS (TG_PRIORITY_LEVELS + 1u)
#define TG_COMMAND_SHIFT 10u

/* Upper bits of the first word of each quarter. Three argument words follow it: a0..2, a3..5, a6..8, a9..11.
 *   quarter 0: the slot               quarter 1: tenant | TG_LINE_...
 *   quarter 2: the slot of the fence  quarter 3: kind of opcode (counts.h), or the command */
#define TG_LINE_TENANT 0x1Fu
#define TG_LINE_BATCHED (1u << 5) /* a fence counts it */
#define TG_LINE_SAMPLED (1u << 6)
#define TG_LINE_CLASS_SHIFT 8u
#define TG_LINE_CLASS 7u

/* Where the body of an item runs. The host knows it from the opcode. */
enum tg_class {
    TG_CLASS_INLINE = 0, /* by the dispatcher itself: built-in opcodes */
    TG_CLASS_LANE = 1,   /* by a lane of a worker warp, with up to 31 others: opcodes of the device image */
    TG_CLASS_HOST = 2,   /* by a thread of the host: handlers of tg_engine_register */
    TG_CLASS_WARP = 3,   /* by a whole worker warp */
    TG_CLASS_BLOCK = 4,  /* by the four warps of a worker block */
};

struct tg_line {
    TG_ALIGNED(64) uint32_t word[TG_SLOT_WORDS];
};

enum tg_command {
    TG_COMMAND_SYNC = 1, /* publish all counters */
    TG_COMMAND_WORD,     /* control[a0] = a1; value: what it was */
    TG_COMMAND_ADD,      /* control[a0] += a1; value: what it was */
    TG_COMMAND_CANCEL,   /* slot, a0 | a1 << 32: generation */
    TG_COMMAND_DFA,      /* a0 | a1 << 32: table on the device, a2: states */
    TG_COMMAND_ENDED,    /* of class HOST: slot, a0: result, a1..3: fault, a4: flags */
    TG_COMMAND_IO,       /* slot, a0 | a1 << 32: generation, a2: error */
    TG_COMMAND_CREDIT,   /* a0 more threads for class HOST */
    TG_COMMAND_EXECUTE,  /* slot: a built-in opcode, a0..: its arguments */
    TG_COMMAND_DRAIN,    /* finish what may run, hand back the rest, leave */
    TG_COMMAND_BODIES, /* a look for bodies that do not return, as the a0-th with the same; value: how many */
    TG_COMMAND_OPCODE, /* a0: an opcode of the application, a1: its kind, a2: its class */
};

/* A queue of slot numbers in host memory, filled by the device alone; cells as in index.h. */
struct tg_cells {
    uint32_t *cells;
    uint32_t mask, shift;
};

/* Answers and the end, in host memory, written by the device. */
struct tg_answers {
    TG_ALIGNED(64) uint64_t commands; /* how many were carried out; after their results */
    struct {
        int32_t result;
        uint32_t value, fault[3];
    } of[1u << TG_COMMAND_SHIFT];
    TG_ALIGNED(64) uint32_t arrived; /* 1: all blocks came up */
    uint32_t left;                   /* 1 + enum tg_left; the last store of the dispatcher */
    uint64_t consumed[TG_LINE_RINGS];
    uint64_t handed_back, cancelled, log_dropped, outside_faults;
    uint64_t samples[TG_PRIORITY_LEVELS]; /* how many there were */
    uint32_t given_up;                    /* by the host: the blocks did not all come up in time */
    uint64_t born, born_waiting;          /* items that bodies published, and those that wait */
    uint32_t born_left;                   /* 1: of them some wait or run, or it is not known */
};

enum tg_left {
    TG_LEFT_DRAINED = 0,
    TG_LEFT_LIMIT,   /* the time limit of a test build */
    TG_LEFT_OVERRUN, /* a body ran longer than it may */
    TG_LEFT_ABSENT,  /* given up */
};

/* A sampled latency: tenant << 46 | kind << 37 | ns. Each level has a ring of them, so that none loses its
 * samples to another; the latest count. */
#define TG_SAMPLE_SHIFT 12u
#define TG_SAMPLE_NS ((UINT64_C(1) << 37) - 1u)

/* What the device keeps of a slot: STATUS | level << 4 | tenant << 8 | class << 16 | flags. */
#define TG_KEPT_STATUS 0xFu
#define TG_KEPT_LEVEL_SHIFT 4u
#define TG_KEPT_TENANT_SHIFT 8u
#define TG_KEPT_CLASS_SHIFT 13u
#define TG_KEPT_CLASS 7u
#define TG_KEPT_QUEUE (7u << TG_KEPT_LEVEL_SHIFT | 31u << TG_KEPT_TENANT_SHIFT)
#define TG_KEPT_BATCHED (1u << 18)
#define TG_KEPT_SAMPLED (1u << 19)
#define TG_KEPT_KIND_SHIFT 20u     /* 9 bits */
#define TG_KEPT_ORPHAN (1u << 29)  /* a cancelled fence: free when its last item ended */
#define TG_KEPT_HELD (1u << 31)    /* from its line until its free cell */
#define TG_KEPT_COUNTED (1u << 30) /* a fence: its items' number was added to FENCE_LEFT */

#define TG_DEVICE_QUEUES (TG_PRIORITY_LEVELS * TG_TENANTS)

/* Items that bodies publish (device_born.h): a ring in device memory for each shape, level and tenant. */
enum tg_born_shape { TG_BORN_LANE, TG_BORN_WARP, TG_BORN_SHAPES };
#define TG_BORN_PARTS (TG_BORN_SHAPES * TG_PRIORITY_LEVELS) /* of 32 rings: a lane of a warp is a tenant */
#define TG_BORN_RINGS (TG_BORN_PARTS * 32u)
#define TG_BORN_TENANT(ring) ((ring) % 32u)
#define TG_BORN_LEVEL(ring) ((ring) / 32u % TG_PRIORITY_LEVELS)
#define TG_BORN_SHAPE(ring) ((ring) / (32u * TG_PRIORITY_LEVELS))
#define TG_BORN_SHIFT_MOST 20u
struct tg_born {
    TG_ALIGNED(64) uint32_t state; /* free or full, and the lap */
    uint32_t opcode, kind, unused;
    uint32_t args[TG_ARGS_PER_SLOT];
};
/* Opcodes they may have: a hash table of opcode | (TG_BORN_KNOWN | kind | class << 16) << 32; 0: empty. */
#define TG_BORN_OPCODES 1024u
#define TG_BORN_KNOWN (1u << 31)
#define TG_BORN_CLASS_SHIFT 16u

/* The last bad end of a slot as the device writes it; tg_bad_end of internal.h is this. */
#define TG_BAD_CANCELLED TG_SLOT_STATUS_COUNT
struct tg_bad_end {
    uint64_t generation;
    uint32_t status; /* TG_SLOT_FAULT or TG_BAD_CANCELLED; 0: never used */
    uint32_t reason;
    uint32_t detail;
    uint32_t inner_op;
    /* How it and the 63 uses before it ended, bit 0 itself: FAULT, cancelled, or (no bit) DONE. */
    uint64_t faulted, cancelled;
};

/* One message box a worker warp: written by the dispatcher, SEQ last; the warp answers below and says so in
 * the ring of finished tasks. */
#define TG_BLOCK_LANES 128u /* lanes of a block; blocks after the first are workers, 32 lanes each */
#define TG_BLOCK_WARPS (TG_BLOCK_LANES / 32u)
#define TG_TASK_ITEMS 32u
#define TG_TASK_LEAVE 0xFFFFFFFFu
#define TG_ALONE_LAP 0x800u
#define TG_TASK_BLOCK 0x200u /* one item of a whole block: its first warp, which answers, ... */
#define TG_TASK_HELPS 0x300u /* ... and the others */
#define TG_TASK_BORN 0x400u  /* plus how many: items that bodies published; the task is the worker's own */
#define TG_TASK_WORDS 4u     /* observable words an item of a device opcode may write */
/* Of the first word of GRANT: TG_ALONE_LAP and a number as in LINE; ring | count << 9 from bit 12. The second
 * is the first position. */
#define TG_GRANT_COUNT_SHIFT 9u
struct tg_task {
    TG_ALIGNED(128) uint32_t seq; /* rises by one a task; TG_TASK_LEAVE: the end */
    uint32_t count;               /* items; TG_TASK_BLOCK, _HELPS, _BORN */
    /* A third way: items that bodies published, by their place in a ring. */
    TG_ALIGNED(16) uint32_t grant[4];
    uint32_t slot[TG_TASK_ITEMS];
    uint32_t kept[TG_TASK_ITEMS];
    /* The other way to give a task: the line of one item, each quarter with TG_ALONE_LAP and a number that
     * rises by one a task of this kind in its first word, stored at once. The level is the value of
     * quarter 2. */
    TG_ALIGNED(64) uint32_t line[TG_SLOT_WORDS];
    TG_ALIGNED(128) uint32_t result[TG_TASK_ITEMS]; /* enum tg_worked */
    uint32_t detail[TG_TASK_ITEMS];
    uint32_t word[TG_TASK_WORDS][TG_TASK_ITEMS]; /* control words it wrote; TG_NO_WORD: none */
    /* With a limit for bodies: bit i: item i has its answer; TG_ABANDONED. Of a grant bit 0 is for all of it,
     * and after one of which nothing else is to be said its number stands here: SEQ_BORN << TG_OWNER_SHIFT.
     */
    uint64_t owner;
};
#define TG_ABANDONED (UINT64_C(1) << 32)
#define TG_OWNER_SHIFT 33u

/* What the looks for bodies that do not return remember of a worker. The dispatcher's. */
struct tg_watch {
    uint32_t busy, seq, looks;
};

/* A cell of the ring of finished tasks. Low half: slot | worker << 20 | lap; high half: what is kept of the
 * item, with one of these in place of the status. */
#define TG_FINISHED_WORKER_SHIFT 20u
enum tg_finished {
    TG_FINISHED_MANY = 0, /* several items, or parts of a block's: all is in the task */
    TG_FINISHED_ONE,      /* how it ended is in the task */
    TG_FINISHED_TOLD,     /* DONE, and its STATUS is stored; it wrote no words */
    TG_FINISHED_AGAIN,    /* to be run again, likewise */
    TG_FINISHED_BORN,     /* items that bodies published: words and faults of theirs are in the task */
};

#define TG_NO_WORD 0xFFFFFFFFu
#define TG_ALL_WORDS 0xFFFFFFFEu /* all observable ones */
/* How an item of a worker ended; with it, whether it wrote control words, and the reason of a fault or 0. */
#define TG_WORKED_WROTE (1u << 7)
#define TG_WORKED_REASON_SHIFT 8u
#define TG_INNER_OPCODES 256u     /* of packed slots */
#define TG_WORKED_INNER_SHIFT 16u /* of a packed slot that faulted: which operation */
enum tg_worked {
    TG_WORKED_TOLD = 0, /* DONE, and its STATUS is written */
    TG_WORKED_DONE,     /* DONE; the dispatcher writes its words and its STATUS */
    TG_WORKED_REQUEUE,
    TG_WORKED_FAULT,   /* detail: what the body returned */
    TG_WORKED_UNKNOWN, /* the image has no such opcode */
};

/* The words that bodies of ir.h run on, by the numbers of their buffers (TG_IR_MAX_BUFFERS); those of the
 * wire are not here. */
#define TG_BODY_BUFFERS 16u
struct tg_bodies {
    uint32_t *words[TG_BODY_BUFFERS];
    uint32_t count[TG_BODY_BUFFERS];
};

/* What the kernel is started with. Pointers are valid on the device; those of host memory on both sides. */
struct tg_device_params {
    uint32_t slots, control_words, control_floor, log_words;
    uint32_t queue_mask, queue_shift; /* cells of each of the device's queues */
    uint32_t workers;                 /* worker warps */
    uint32_t free_batch;    /* slots that ended before their free cells are written, if work goes on */
    uint32_t poll_pause_ns; /* cap of the idle dispatcher's pause */
    uint64_t limit_ns;      /* 0: none; else the dispatcher leaves after it (tests) */
    /* Host memory. */
    struct tg_slot *ring;
    const struct tg_line *lines[TG_LINE_RINGS];
    uint32_t line_shift[TG_LINE_RINGS];
    struct tg_cells free[TG_PRIORITY_LEVELS], calls, io;
    uint64_t *samples;
    struct tg_answers *answers;
    struct tg_counts *host_counts;
    uint32_t *mirror; /* the control buffer that the host reads */
    uint32_t *log;
    struct tg_bad_end *host_bad;
    /* Device memory, zero at the start except control. */
    struct tg_line *items; /* the line of each slot's last publication */
    uint32_t *kept;
    uint64_t *generation;
    uint64_t *stamp;
    int32_t *fence_left; /* items that have ended count down; the fence adds their number */
    struct tg_bad_end *bad;
    uint64_t *cells; /* TG_DEVICE_QUEUES times queue_mask + 1 */
    uint32_t *control;
    struct tg_counts *counts;
    struct tg_task *tasks;
    const uint32_t *opcode_of; /* of each kind that the image runs; host memory, read by workers */
    uint64_t *finished;        /* ring of finished tasks, filled by workers; more cells than workers */
    uint64_t *finished_tail;
    uint32_t *arrivals;     /* blocks of workers that came up */
    uint64_t *dfa;          /* the table of DFA_STEP, for workers */
    struct tg_watch *watch; /* one a worker; NULL: bodies have no limit */
    const struct tg_bodies *bodies;
    const uint32_t *inner_kind; /* kinds of the opcodes below 256 that packed slots may have; host memory */
    uint32_t blocks;            /* how many there are */
    uint32_t finished_shift;
    /* Items that bodies publish; BORN is NULL where they cannot. */
    struct tg_born *born; /* TG_BORN_RINGS times 1 << BORN_SHIFT */
    uint32_t born_shift;
    uint32_t homes_shift; /* of HOMES, which has more cells than there are workers */
    uint32_t *born_tail;  /* of each ring: positions taken */
    uint32_t *born_used;  /* of each ring: items that wait or run; may be too high for a moment */
    uint32_t *homes;      /* workers that have done a grant, and nothing else is to be said of it */
    uint32_t *homes_tail;
    uint64_t *born_count;          /* how many were published */
    struct tg_counts *born_counts; /* of these items, by all workers */
    uint64_t *born_opcodes;
};

TG_HD static inline uint32_t tg_line_lap(uint64_t position, uint32_t shift)
{
    return ((uint32_t)(position >> shift) & 0x7FFu) | 0x800u;
}

#endif
