/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel IR: the worker of the resident queue as a small program that can be composed, checked, run by an
 * interpreter under any schedule, and lowered to C11 and CUDA C. It is the executable specification of the
 * engine (rules E1 to E7 of DESIGN.md), and the way to put an opcode of one's own into a kernel.
 *
 *     static uint64_t memory[1 << 16];
 *     struct tg_ir ir;
 *     struct tg_ir_error error;
 *     tg_ir_init(&ir, memory, sizeof(memory));
 *     struct tg_ir_opcode twice = {8, tg_ir_store(&ir, "observable", tg_ir_var(&ir, "a1"),
 *                                        tg_ir_mul(&ir, tg_ir_var(&ir, "a0"), tg_ir_u32(&ir, 2)))};
 *     struct tg_ir_kernel k = {.slots = 4096, .opcodes = &twice, .opcode_count = 1};
 *     struct tg_ir_node kernel = tg_ir_kernel(&ir, &k);
 *     int r = tg_ir_validate(&ir, kernel, 0, &error);
 *
 * Caveats first.
 * - Every value is an unsigned 32-bit word; arithmetic wraps modulo 2^32. No operation is undefined: see the
 *   operators below for division by zero, wide shifts and the rest.
 * - A builder never fails on its own. What cannot be built (a full arena) or must not be (a name of 10 kB)
 *   is remembered, and tg_ir_validate refuses the program and says where. Only a validated program may be
 *   interpreted or lowered.
 * - An index outside its buffer is a fault, also for reads (see tg_ir_call). It never reaches memory.
 * - Nothing here is thread safe: one thread a struct tg_ir, or a lock. A validated program that nobody
 *   changes may be read by any number of threads.
 *
 * Errors are 0 or -errno; struct tg_ir_error has the node's path and the reason in words. ret_ outputs are
 * written only on success. The text form and every node are described in tg_ir(3).
 */
#ifndef TIDEGATE_IR_H
#define TIDEGATE_IR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidegate/abi.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Limits ------------------------------------------------------------------------------------------- */

#define TG_IR_MAX_NAME 63u          /* bytes of a name: a letter or _, then letters, digits, _; not _ alone */
#define TG_IR_MAX_DEPTH 128u        /* nodes within each other, expressions included */
#define TG_IR_MAX_WEIGHT (1u << 20) /* nodes of a program, a shared one counted at each place */
#define TG_IR_MAX_TRIPS (1u << 28)  /* turns that one counted loop may state */
#define TG_IR_MAX_WORK (1ull << 63) /* nodes run by a program at most, per turn of a forever loop */
#define TG_IR_MAX_BUFFERS 16u       /* five of the wire and eleven of the user */
#define TG_IR_MAX_PRIVATE_WORDS 4096u /* words of all private buffers together: they are per lane */
#define TG_IR_MAX_PARAMS 24u          /* parameters of a call */
#define TG_IR_MAX_VARIABLES 1024u     /* visible at one place, those around a call included */
#define TG_IR_MAX_OPCODES 256u        /* user opcodes of a kernel */

/* ---- The arena ---------------------------------------------------------------------------------------- */

/* Handles into an arena: plain numbers, 0 is none. A statement and an expression are different types. */
struct tg_ir_node {
    uint32_t id;
};
struct tg_ir_expr {
    uint32_t id;
};

struct tg_ir_error {
    int code;       /* the -errno that the function returned */
    uint32_t node;  /* its handle, 0: none */
    uint32_t line;  /* of the text, from 1; 0: not from a text */
    char path[256]; /* from the root: "kernel/forever/scan.try/let work"; the middle is cut when too long */
    char text[192]; /* what is wrong, with the value and the rule */
};

struct tg_ir_buffer_row {
    uint32_t name;
    uint32_t words; /* of a private buffer; 0: shared, bound at run time */
};

/* An arena. The fields belong to the library. */
struct tg_ir {
    unsigned char *memory;
    uint32_t bytes;
    uint32_t node_end;   /* nodes grow upwards from the start */
    uint32_t text_start; /* names and lists grow downwards from the end */
    uint32_t buffer_count;
    uint32_t private_words;
    uint32_t full; /* what did not fit first: kind of a node + 1, or all ones for a name; 0: all did */
    struct tg_ir_buffer_row buffer[TG_IR_MAX_BUFFERS];
    uint32_t names[128];
};

/* Makes an empty arena of this memory, which the caller owns and keeps until the last use of a handle. The
 * library allocates nothing here. A node takes 44 bytes and 4 more for each child of a block; a kernel with
 * all built-in opcodes fits in 256 kB. At most 1 GB of the memory is used. Memory too small for a single node
 * is legal: nothing fits, and tg_ir_validate says so. */
void tg_ir_init(struct tg_ir *ir, void *memory, size_t bytes);

/* How many bytes are in use. */
size_t tg_ir_used(const struct tg_ir *ir);

/* ---- Buffers ------------------------------------------------------------------------------------------ */

/* Word buffers, named in loads and stores. Those of the wire (docs/abi.md) exist in every program:
 *   ring        16 words a slot
 *   control     the control buffer, from word 0
 *   observable  the same memory from control word 160 on: what a user opcode may touch (E6)
 *   log         the debug log, word 0 is its cursor; may be empty
 *   dfa         256 words a state; may be empty; read only
 * They are bound to memory when the program runs; their length is tg_ir_length. */
enum { TG_IR_RING = 0, TG_IR_CONTROL, TG_IR_OBSERVABLE, TG_IR_LOG, TG_IR_DFA, TG_IR_FIRST_USER_BUFFER };

/* Declares a buffer of the user, before the first node that names it. words 0: shared by all lanes and bound
 * to memory at run time, as number TG_IR_FIRST_USER_BUFFER, + 1, ... in the order of declaration. words > 0:
 * private, every lane has that many words of its own, zero at the start. Returns the number, or -1: a name
 * that is not one, or taken; too many buffers; too many private words. Then nodes that name it are refused
 * too. */
int tg_ir_buffer(struct tg_ir *ir, const char *name, uint32_t words);

/* The number of a buffer, -1 when there is none of that name. */
int tg_ir_buffer_find(const struct tg_ir *ir, const char *name);

/* ---- Expressions -------------------------------------------------------------------------------------- */

/* Operators of two operands. Comparisons and logic give 1 or 0; any word but 0 counts as true. */
enum tg_ir_op {
    TG_IR_ADD, /* modulo 2^32, as SUB and MUL */
    TG_IR_SUB,
    TG_IR_MUL,
    TG_IR_DIV, /* x div 0 is 0 */
    TG_IR_REM, /* x rem 0 is 0 */
    TG_IR_MIN,
    TG_IR_MAX,
    TG_IR_BIT_AND,
    TG_IR_BIT_OR,
    TG_IR_BIT_XOR,
    TG_IR_SHL, /* a shift by 32 or more is 0, as SHR */
    TG_IR_SHR,
    TG_IR_EQ,
    TG_IR_NE,
    TG_IR_LT, /* unsigned, as all comparisons */
    TG_IR_LE,
    TG_IR_GT,
    TG_IR_GE,
    TG_IR_AND, /* the right side is evaluated only when the left is true */
    TG_IR_OR,  /* the right side is evaluated only when the left is 0 */
    TG_IR_OP_COUNT
};
enum tg_ir_unary {
    TG_IR_NOT,     /* 1 for 0, else 0 */
    TG_IR_BIT_NOT, /* all bits turned */
    TG_IR_CTZ,     /* number of the lowest set bit; 32 for 0 */
    TG_IR_UNARY_COUNT
};
/* Who runs: lane of lanes in its group, group of groups. All lanes run the same program. */
enum tg_ir_place { TG_IR_LANE, TG_IR_LANES, TG_IR_GROUP, TG_IR_GROUPS, TG_IR_PLACE_COUNT };

struct tg_ir_expr tg_ir_u32(struct tg_ir *ir, uint32_t value);
/* The value of a variable: see tg_ir_let for where it is visible. */
struct tg_ir_expr tg_ir_var(struct tg_ir *ir, const char *name);
/* buffer[index], a relaxed atomic load of one word. Operands, and so loads, are evaluated from left to right;
 * another lane may run between two of them. Faults when index is outside. */
struct tg_ir_expr tg_ir_load(struct tg_ir *ir, const char *buffer, struct tg_ir_expr index);
/* The words of a buffer. Does not change while a program runs. */
struct tg_ir_expr tg_ir_length(struct tg_ir *ir, const char *buffer);
struct tg_ir_expr tg_ir_binary(struct tg_ir *ir, enum tg_ir_op op, struct tg_ir_expr a, struct tg_ir_expr b);
struct tg_ir_expr tg_ir_unary(struct tg_ir *ir, enum tg_ir_unary op, struct tg_ir_expr a);
/* yes when condition is not 0, else no; only the one that is chosen is evaluated. */
struct tg_ir_expr tg_ir_select(struct tg_ir *ir, struct tg_ir_expr condition, struct tg_ir_expr yes,
                               struct tg_ir_expr no);
struct tg_ir_expr tg_ir_place(struct tg_ir *ir, enum tg_ir_place place);

#define TG_IR_DEFINE_BINARY(name, op)                                                                        \
    static inline struct tg_ir_expr tg_ir_##name(struct tg_ir *ir, struct tg_ir_expr a, struct tg_ir_expr b) \
    {                                                                                                        \
        return tg_ir_binary(ir, op, a, b);                                                                   \
    }
TG_IR_DEFINE_BINARY(add, TG_IR_ADD)
TG_IR_DEFINE_BINARY(sub, TG_IR_SUB)
TG_IR_DEFINE_BINARY(mul, TG_IR_MUL)
TG_IR_DEFINE_BINARY(div, TG_IR_DIV)
TG_IR_DEFINE_BINARY(rem, TG_IR_REM)
TG_IR_DEFINE_BINARY(min, TG_IR_MIN)
TG_IR_DEFINE_BINARY(max, TG_IR_MAX)
TG_IR_DEFINE_BINARY(bit_and, TG_IR_BIT_AND)
TG_IR_DEFINE_BINARY(bit_or, TG_IR_BIT_OR)
TG_IR_DEFINE_BINARY(bit_xor, TG_IR_BIT_XOR)
TG_IR_DEFINE_BINARY(shl, TG_IR_SHL)
TG_IR_DEFINE_BINARY(shr, TG_IR_SHR)
TG_IR_DEFINE_BINARY(eq, TG_IR_EQ)
TG_IR_DEFINE_BINARY(ne, TG_IR_NE)
TG_IR_DEFINE_BINARY(lt, TG_IR_LT)
TG_IR_DEFINE_BINARY(le, TG_IR_LE)
TG_IR_DEFINE_BINARY(gt, TG_IR_GT)
TG_IR_DEFINE_BINARY(ge, TG_IR_GE)
TG_IR_DEFINE_BINARY(and, TG_IR_AND)
TG_IR_DEFINE_BINARY(or, TG_IR_OR)
#undef TG_IR_DEFINE_BINARY

static inline struct tg_ir_expr tg_ir_not(struct tg_ir *ir, struct tg_ir_expr a)
{
    return tg_ir_unary(ir, TG_IR_NOT, a);
}

/* ---- Statements --------------------------------------------------------------------------------------- */

/* Makes a variable. It is visible from the next statement on to the end of the innermost branch, loop, call
 * or program; a block is no border. A name that is visible already is refused: there is no shadowing. */
struct tg_ir_node tg_ir_let(struct tg_ir *ir, const char *name, struct tg_ir_expr value);
/* Changes a variable that is visible. Parameters and loop counters are constant. */
struct tg_ir_node tg_ir_assign(struct tg_ir *ir, const char *name, struct tg_ir_expr value);
/* buffer[index] = value, a relaxed atomic store. index is evaluated first. Faults when it is outside. */
struct tg_ir_node tg_ir_store(struct tg_ir *ir, const char *buffer, struct tg_ir_expr index,
                              struct tg_ir_expr value);

/* Atomic steps on one word of a shared buffer, with their memory order as in C11 (a failed compare-exchange
 * has the acquire part of its order). A load takes relaxed or acquire, a store relaxed or release, the others
 * all four. result names a variable that the node makes, as tg_ir_let does, with the word found before the
 * step; NULL: nobody wants it (not for a load). On a private buffer or dfa: refused, but a load of dfa. */
enum tg_ir_order { TG_IR_RELAXED, TG_IR_ACQUIRE, TG_IR_RELEASE, TG_IR_ACQ_REL, TG_IR_ORDER_COUNT };

struct tg_ir_node tg_ir_atomic_load(struct tg_ir *ir, const char *result, const char *buffer,
                                    struct tg_ir_expr index, enum tg_ir_order order);
struct tg_ir_node tg_ir_atomic_store(struct tg_ir *ir, const char *buffer, struct tg_ir_expr index,
                                     struct tg_ir_expr value, enum tg_ir_order order);
struct tg_ir_node tg_ir_atomic_add(struct tg_ir *ir, const char *result, const char *buffer,
                                   struct tg_ir_expr index, struct tg_ir_expr value, enum tg_ir_order order);
struct tg_ir_node tg_ir_atomic_exchange(struct tg_ir *ir, const char *result, const char *buffer,
                                        struct tg_ir_expr index, struct tg_ir_expr value,
                                        enum tg_ir_order order);
/* The bits that are in value too; those that are in one of them. */
struct tg_ir_node tg_ir_atomic_and(struct tg_ir *ir, const char *result, const char *buffer,
                                   struct tg_ir_expr index, struct tg_ir_expr value, enum tg_ir_order order);
struct tg_ir_node tg_ir_atomic_or(struct tg_ir *ir, const char *result, const char *buffer,
                                  struct tg_ir_expr index, struct tg_ir_expr value, enum tg_ir_order order);
/* Writes desired if the word is expected. It was written exactly when result equals expected. Strong. */
struct tg_ir_node tg_ir_atomic_cas(struct tg_ir *ir, const char *result, const char *buffer,
                                   struct tg_ir_expr index, struct tg_ir_expr expected,
                                   struct tg_ir_expr desired, enum tg_ir_order order);

/* no may be {0}: nothing. Each branch is a scope. */
struct tg_ir_node tg_ir_if(struct tg_ir *ir, struct tg_ir_expr condition, struct tg_ir_node yes,
                           struct tg_ir_node no);
/* counter = from, from + 1, ... while it is below to. Both are evaluated once, at the start. most is a
 * literal: a loop that would turn more often faults (TG_FAULT_OUT_OF_BOUNDS) before its first turn. */
struct tg_ir_node tg_ir_loop(struct tg_ir *ir, const char *counter, struct tg_ir_expr from,
                             struct tg_ir_expr to, uint32_t most, struct tg_ir_node body);
/* Turns until a break or a return. Only legal on the outermost level: within nothing but blocks. */
struct tg_ir_node tg_ir_forever(struct tg_ir *ir, struct tg_ir_node body);
/* Leaves the innermost loop or forever (of the same call). */
struct tg_ir_node tg_ir_break(struct tg_ir *ir);
/* Statements one after the other. label (may be NULL) names it in paths and for tg_ir_without; any
 * printable ASCII but blanks, quotes, parentheses, / and ;, at most TG_IR_MAX_NAME bytes. A node with handle
 * 0 among them is refused. No statements: nothing happens. */
struct tg_ir_node tg_ir_block(struct tg_ir *ir, const char *label, const struct tg_ir_node *nodes,
                              size_t count);
/* Ends the innermost call with this value; outside of any, ends the lane. */
struct tg_ir_node tg_ir_return(struct tg_ir *ir, struct tg_ir_expr value);
/* There was nothing to do: a good place for a lane to let others go on. No effect on memory. */
struct tg_ir_node tg_ir_pause(struct tg_ir *ir);

/* Runs body as a closed part: it sees its parameters (constant) and nothing else of the surrounding
 * variables. result names a variable made in the surrounding scope: what body returned, 0 when it came to its
 * end, or, when an index in it was outside its buffer or a loop turned too often, TG_IR_FAULT |
 * TG_FAULT_OUT_OF_BOUNDS; what body did before stays done. A fault outside of any call ends the lane with
 * that value. label as in tg_ir_block. */
struct tg_ir_param {
    const char *name;
    struct tg_ir_expr value;
};
struct tg_ir_node tg_ir_call(struct tg_ir *ir, const char *result, const char *label,
                             const struct tg_ir_param *params, size_t param_count, struct tg_ir_node body);

/* What the body of an opcode returns (and what the result of its call is). TG_IR_FAULT | reason makes
 * the item FAULT; the reason that the host reads is enum tg_fault_reason for a built-in body and
 * TG_FAULT_HANDLER for a user's, unless it is TG_FAULT_OUT_OF_BOUNDS. Any other value: FAULT,
 * TG_FAULT_HANDLER. */
#define TG_IR_DONE 0u
#define TG_IR_REQUEUE 1u
#define TG_IR_WAIT_IO 2u
#define TG_IR_YIELD 100u
#define TG_IR_FAULT 0x80000000u

/* ---- The parts of the worker -------------------------------------------------------------------------- */

/* All ones: nothing was found. */
#define TG_IR_NOTHING 0xFFFFFFFFu

/* One look for work over a ring of total_slots slots, and the claim of what was found, as a block. It makes
 * these variables for what follows:
 *   claimed_slot_base   word index of the slot's STATUS in ring, or TG_IR_NOTHING
 *   claimed_priority    its level, or TG_IR_NOTHING
 *   claimed_tenant      its tenant, or TG_IR_NOTHING
 *   claimed_from        the status it was claimed from
 *   claimed_work        bit l: level l had something claimable at the last look; 0: there is nothing to do
 * Rules: E1 (one compare-exchange decides), E2, E3 (levels.h, on the words of control), E4 (mask, quota,
 * turns of 64 / lanes claims), E5 (a fence that still waits is not looked at). It needs tg_ir_worker_buffers.
 * The form with a stride makes the lanes of a group begin at different slots and go on in steps of
 * worker_stride (0 counts as 1), so that they meet less; every lane still looks at every slot. */
struct tg_ir_node tg_priority_scan_body(struct tg_ir *ir, uint32_t total_slots);
struct tg_ir_node tg_priority_scan_body_with_stride(struct tg_ir *ir, uint32_t total_slots,
                                                    uint32_t worker_stride);

/* The same look with an index in the shared buffer TG_IR_INDEX_BUFFER, which it declares if need be: a look
 * costs the same in every ring (E11), some ten loads for each level of a tree of at most four and two for
 * each tenant that waits. Two things differ: only what is marked in the index is found (see struct
 * tg_ir_index), and the slots of a tenant and level take their turns in the order of their numbers, for each
 * lane. */
#define TG_IR_INDEX_BUFFER "worker_index"
struct tg_ir_node tg_priority_scan_body_indexed(struct tg_ir *ir, uint32_t total_slots);

/* The index of a ring from the host's side. It is no part of the wire: who publishes says so here too. */
struct tg_ir_index {
    uint32_t *words; /* as many as tg_ir_index_words says, 4-byte aligned; zero, or tg_ir_index_build */
    const struct tg_slot *ring; /* the one that the kernel runs on */
    uint32_t slots;             /* of the ring, as the kernel was built for */
};
/* Words of the index of such a ring: 27.5 kB for 1,024 slots, 28 MB for 1,048,576. 0: there is no such ring.
 */
size_t tg_ir_index_words(uint32_t slots);
/* After the slot has become PUBLISHED, REQUEUE or YIELD by another than the kernel: publishing, IO that came.
 * A slot that is marked and is not claimable does no harm; one that is claimable and not marked waits for
 * ever. All three: -EINVAL, a slot that is none, or nothing bound. Thread safe, beside running lanes too. */
int tg_ir_index_publish(const struct tg_ir_index *index, uint32_t slot);
/* After the host itself made the slot EMPTY or FAULT: fences that wait for it are looked at again. */
int tg_ir_index_over(const struct tg_ir_index *index, uint32_t slot);
/* Makes the index of what the ring holds. Nobody else may be at ring or index. */
int tg_ir_index_build(const struct tg_ir_index *index);

/* Where a lane begins to look in slots [start, end): start + lane mod (end - start); start when there are
 * none. */
struct tg_ir_expr tg_policy_offset_start(struct tg_ir *ir, struct tg_ir_expr start, struct tg_ir_expr end,
                                         struct tg_ir_expr lane);

/* 1 when the tenant may claim: in the table, its mask all ones, its quota not 0 (E4); else 0. */
struct tg_ir_expr tg_check_tenant_fairness(struct tg_ir *ir, struct tg_ir_expr tenant);

/* 1 when a level with work is the one to serve now, given the variables levels (the state of LEVELS, a
 * control word) and work (bit l: level l has something claimable): E2, E3. */
struct tg_ir_expr tg_check_priority_fairness(struct tg_ir *ir, struct tg_ir_expr priority);

/* The body of a built-in opcode (NOP .. BATCH_FENCE, LOAD_MISS, PRINTF, SHUTDOWN), {0} for another. Its
 * variables are the parameters of opcode bodies below, inner as well (1: within a packed slot). floor: the
 * lowest control word it may touch, 160, or 0 for an unrestricted engine (E6). PACKED_SLOT is part of the
 * kernel. */
struct tg_ir_node tg_ir_opcode_body(struct tg_ir *ir, uint32_t opcode, uint32_t floor);

/* A user's opcode. Variables of its body: a0 .. a11 (arguments), opcode, tenant, priority, slot. It
 * may name observable, dfa and the user's own buffers, and other buffers of the wire only with
 * TG_IR_UNRESTRICTED. */
struct tg_ir_opcode {
    uint32_t opcode; /* not reserved; see abi.h */
    struct tg_ir_node body;
};

enum {
    TG_IR_UNRESTRICTED = 1u << 0, /* as TG_ENGINE_UNRESTRICTED */
    TG_IR_UNTIL_IDLE = 1u << 1,   /* a lane leaves when it finds nothing; without, when SHUTDOWN is set too */
    TG_IR_INDEXED = 1u << 2,      /* finds work by the index of struct tg_ir_index; stride is 0 or 1 */
};

struct tg_ir_kernel {
    uint32_t slots;  /* of the ring; 1 .. TG_MAX_ENCODED_RING_SLOTS */
    uint32_t stride; /* 0: tg_priority_scan_body */
    uint32_t rounds; /* looks for work after which a lane leaves; 0: forever */
    uint32_t flags;
    const struct tg_ir_opcode *opcodes; /* read during the call only */
    uint32_t opcode_count;
};

/* The persistent loop: scan, run, finish, for ever. Declares what it needs. A lane returns 0. What is wrong
 * with the options the validator says. The blocks that carry a rule have labels, for tg_ir_without; see
 * tg_ir(3). */
struct tg_ir_node tg_ir_kernel(struct tg_ir *ir, const struct tg_ir_kernel *kernel);

/* ---- Checking ----------------------------------------------------------------------------------------- */

/* Checks a program. flags: 0 or TG_IR_UNRESTRICTED. error may be NULL. Takes time linear in the program.
 *   -ENOSPC        the arena was too small for a node
 *   -EINVAL        handle 0 or of another kind; an operator, order, label or name that is none; break outside
 * of a loop; forever within something; a store to dfa; assignment to a constant -ENOENT        a variable
 * that is not visible; a buffer that is not declared -EEXIST        a name that is visible already; a
 * parameter twice -ENAMETOOLONG  a name of more than TG_IR_MAX_NAME bytes -ELOOP         nested deeper than
 * TG_IR_MAX_DEPTH -E2BIG         more than TG_IR_MAX_WEIGHT nodes, a loop of more than TG_IR_MAX_TRIPS turns,
 * loops within loops of more than TG_IR_MAX_WORK nodes, more than TG_IR_MAX_PARAMS parameters or
 *                  TG_IR_MAX_VARIABLES variables
 *   -EACCES        a buffer that this body may not name (E6) */
int tg_ir_validate(const struct tg_ir *ir, struct tg_ir_node root, uint32_t flags, struct tg_ir_error *error);

/* The same for the body of a user's opcode. */
int tg_ir_validate_body(const struct tg_ir *ir, struct tg_ir_node body, uint32_t flags,
                        struct tg_ir_error *error);

/* A copy of the program in which the blocks of that label do nothing: for tests of what a rule hangs on. {0}
 * when there is none, or the arena is full. */
struct tg_ir_node tg_ir_without(struct tg_ir *ir, struct tg_ir_node root, const char *label);

/* ---- Text --------------------------------------------------------------------------------------------- */

/* Prints a program as text into out, like snprintf: returns the bytes of the whole text without the final 0,
 * also when they do not fit. The program is validated, or came from tg_ir_parse. Declarations of the user's
 * buffers come first. */
size_t tg_ir_print(const struct tg_ir *ir, struct tg_ir_node root, char *out, size_t size);

/* Reads a program: buffers, then one statement. Everything that tg_ir_print writes is read back as an
 * equal program. -EINVAL and the codes of tg_ir_validate that need no surroundings, with line and path. The
 * text is not modified and need not end with 0. What was built stays in the arena. */
int tg_ir_parse(struct tg_ir *ir, const char *text, size_t bytes, struct tg_ir_node *ret_root,
                struct tg_ir_error *error);

/* Reads buffers and then one user opcode, (opcode NUMBER STATEMENT...), and validates it as a body: errors of
 * tg_ir_parse and tg_ir_validate_body; -EINVAL: the number is reserved. */
int tg_ir_parse_opcode(struct tg_ir *ir, const char *text, size_t bytes, uint32_t flags,
                       struct tg_ir_opcode *ret_opcode, struct tg_ir_error *error);

/* ---- Interpreter -------------------------------------------------------------------------------------- */

struct tg_ir_machine;

/* Memory of the shared buffers by number; observable is made of control. Missing: words NULL, count 0.
 * Aligned to 4; the caller owns it; nobody else may write it while a machine runs, unless the
 * machine is concurrent. */
struct tg_ir_memory {
    uint32_t *words[TG_IR_MAX_BUFFERS];
    uint32_t count[TG_IR_MAX_BUFFERS];
};

/* A shared step of a lane, as an observer sees it: after it was done. */
struct tg_ir_step {
    uint32_t lane;   /* over all groups */
    uint32_t node;   /* the load, store or atomic */
    uint32_t buffer; /* observable is control */
    uint32_t index;
    uint32_t order; /* enum tg_ir_order of an atomic; relaxed for a load or store */
    uint32_t before, after;
    bool read; /* it was looked at too: a load, add, exchange or compare-exchange */
    bool wrote;
};
/* Returns 0, or a negative value that ends the run or exploration with it. */
typedef int (*tg_ir_observer)(void *context, const struct tg_ir_step *step);

struct tg_ir_machine_options {
    uint32_t lanes;  /* a group; 0 counts as 1 */
    uint32_t groups; /* 0 counts as 1; lanes * groups <= 1024 */
    const struct tg_ir_memory *memory;
    tg_ir_observer observer; /* may be NULL */
    void *context;
    bool concurrent; /* others are at the words meanwhile: each shared step is one atomic operation (acq_rel)
                      */
};

/* Prepares a program that tg_ir_validate accepted. The arena may change or go afterwards. Allocates.
 * -EINVAL: not valid, or lanes; -ENOMEM. */
int tg_ir_machine_open(const struct tg_ir *ir, struct tg_ir_node root,
                       const struct tg_ir_machine_options *options, struct tg_ir_machine **ret_machine);
void tg_ir_machine_close(struct tg_ir_machine *machine);

/* All lanes back to the start, private buffers zero. Shared memory stays. */
void tg_ir_machine_reset(struct tg_ir_machine *machine);

/* Runs one lane up to and including its next shared step, a pause, or its end. Returns 1 when it goes on, 0
 * when it has ended (again on every later call); else what the observer returned. */
int tg_ir_machine_step(struct tg_ir_machine *machine, uint32_t lane);

/* Runs until all lanes ended, each shared step by a lane that the seed chooses. 0; -ETIME after max_steps
 * shared steps and pauses; what the observer returned. */
int tg_ir_machine_run(struct tg_ir_machine *machine, uint64_t seed, uint64_t max_steps);

/* What an ended lane returned; -EBUSY when it has not ended. */
int tg_ir_machine_value(const struct tg_ir_machine *machine, uint32_t lane, uint32_t *ret_value);

/* Node steps (instructions) run since open. */
uint64_t tg_ir_machine_steps(const struct tg_ir_machine *machine);

/* ---- Exploration -------------------------------------------------------------------------------------- */

struct tg_ir_word {
    uint32_t buffer;
    uint32_t index;
};

struct tg_ir_explore_options {
    uint64_t max_states; /* 0: 10,000,000 */
    /* Called in every different state in which all lanes have ended; memory is as it is then. Returns 0, or a
     * negative value that ends the exploration with it. May be NULL. */
    int (*at_end)(void *context);
    void *context;
    /* Words whose order among all others the observer wants to see, though no lane does. */
    const struct tg_ir_word *watched;
    uint32_t watched_count;
};
struct tg_ir_explored {
    uint64_t states;    /* different states, at the places where lanes can be switched */
    uint64_t steps;     /* shared steps run */
    uint64_t ends;      /* different final states */
    uint32_t restarts;  /* how often a word turned out to be shared that seemed not to be */
    bool complete;      /* every interleaving was covered */
    char schedule[512]; /* the run that a check refused, lanes and how many switched steps: "0*12 1*3 ..." */
};

/* Runs every interleaving of the shared steps of all lanes (at most 30), from the present memory with all
 * lanes at their start. A state that was met before is not explored again. It is memory and lanes, so an
 * observer may keep what it must remember in a user buffer that no node names. Lanes are switched only at
 * steps that do not commute with what the other lanes ever do: loads of words that nobody else writes, and
 * counts that nobody else reads, are run at once, so an observer sees those in one order only (see watched).
 * Which words these are is found out on the way. A lane at a pause goes on when another lane changed a word
 * since its last pause, or when all lanes that are left are at one. Loads and stores are sequentially
 * consistent. 0: all explored, or max_states reached (complete is false); what a check returned: then memory
 * is as the check saw it. Else memory is restored. -EINVAL: too many lanes; -ENOMEM. ret is written in all
 * cases. */
int tg_ir_explore(struct tg_ir_machine *machine, const struct tg_ir_explore_options *options,
                  struct tg_ir_explored *ret);

#ifdef __cplusplus
}
#endif

#endif
