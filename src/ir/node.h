/* SPDX-License-Identifier: Apache-2.0
 *
 * How a program lies in its arena: nodes of one size from the bottom, names and lists from the top. For the
 * files of this room: builders write it, everybody else reads it. Not a public header.
 *
 * A node names nodes with lower handles only, so that no program has a cycle; what reads nodes checks that
 * with tg_ir_sound before it follows a handle, because the memory is the caller's. Nodes may be shared.
 */
#ifndef TG_IR_NODE_H
#define TG_IR_NODE_H

#include <string.h>

#include <tidegate/ir.h>

/* What the fields of a node mean; fields not named are 0. */
enum tg_ir_kind {
    TG_IR_K_NONE = 0,
    /* Expressions. */
    TG_IR_K_U32,    /* value */
    TG_IR_K_VAR,    /* name */
    TG_IR_K_LOAD,   /* buffer (name2), a = index */
    TG_IR_K_LENGTH, /* buffer (name2) */
    TG_IR_K_BINARY, /* op = enum tg_ir_op, a, b */
    TG_IR_K_UNARY,  /* op = enum tg_ir_unary, a */
    TG_IR_K_SELECT, /* a = condition, b = yes, c = no */
    TG_IR_K_PLACE,  /* op = enum tg_ir_place */
    /* Statements. */
    TG_IR_K_LET,     /* name, a */
    TG_IR_K_ASSIGN,  /* name, a */
    TG_IR_K_STORE,   /* buffer (name2), a = index, b = value */
    TG_IR_K_ATOMIC,  /* op = enum tg_ir_atomic, order, name = result or 0, buffer (name2), a = index,
                      * b = value or expected, c = desired */
    TG_IR_K_IF,      /* a = condition, b = yes, c = no or 0 */
    TG_IR_K_LOOP,    /* name = counter, a = from, b = to, c = body, value = most */
    TG_IR_K_FOREVER, /* a = body */
    TG_IR_K_BREAK,
    TG_IR_K_BLOCK,  /* name = label or 0, list: value handles */
    TG_IR_K_RETURN, /* a */
    TG_IR_K_PAUSE,
    TG_IR_K_CALL, /* name = result, name2 = label or 0, a = body, list: value pairs of (name, expression) */
    TG_IR_K_REFUSED, /* what a builder of parts was given is wrong: name = the reason in words */
    TG_IR_K_COUNT
};

enum tg_ir_atomic {
    TG_IR_A_LOAD,
    TG_IR_A_STORE,
    TG_IR_A_ADD,
    TG_IR_A_EXCHANGE,
    TG_IR_A_CAS,
    TG_IR_A_AND,
    TG_IR_A_OR,
    TG_IR_A_COUNT
};

/* Marks of what a builder was given and the validator refuses. */
enum {
    TG_IR_F_NAME_LONG = 1u << 0, /* name is its beginning */
    TG_IR_F_NAME_BAD = 1u << 1,  /* not a name, or NULL */
    TG_IR_F_NAME2_LONG = 1u << 2,
    TG_IR_F_NAME2_BAD = 1u << 3,
    TG_IR_F_LIST_LONG = 1u << 4, /* more parameters than a call can have */
    TG_IR_F_USER = 1u << 5,      /* no fault: the body of this call is a user's, with a user's rights (E6) */
};

#define TG_IR_NO_BUFFER 0xFFu

struct tg_ir_data {
    uint8_t kind;
    uint8_t op;
    uint8_t order;
    uint8_t buffer; /* TG_IR_NO_BUFFER: name2 is not declared */
    uint8_t flags;
    uint8_t spare[3];
    uint32_t name;  /* offset of a name, 0: none */
    uint32_t name2; /* likewise */
    uint32_t value;
    uint32_t a, b, c; /* handles, 0: none */
    uint32_t list;    /* offset of words, 0: none */
    uint32_t line;    /* of the text it was read from, or 0 */
    uint32_t reserved;
};
TG_STATIC_ASSERT(sizeof(struct tg_ir_data) == 44, "the header says how large a node is");

static inline struct tg_ir_data *tg_ir_at(const struct tg_ir *ir, uint32_t id)
{
    return (struct tg_ir_data *)(void *)(ir->memory + (size_t)id * sizeof(struct tg_ir_data));
}

/* Is this the handle of a node? */
static inline bool tg_ir_sound(const struct tg_ir *ir, uint32_t id)
{
    return id != 0 && id < ir->node_end && tg_ir_at(ir, id)->kind > TG_IR_K_NONE &&
           tg_ir_at(ir, id)->kind < TG_IR_K_COUNT;
}

/* The characters of a name; "" for 0 and for what is none. */
static inline const char *tg_ir_text(const struct tg_ir *ir, uint32_t name)
{
    if (name < ir->text_start || name >= ir->bytes || ir->bytes - name <= sizeof(uint32_t))
        return "";
    const char *text = (const char *)ir->memory + name + sizeof(uint32_t);
    return memchr(text, 0, ir->bytes - name - sizeof(uint32_t)) ? text : "";
}

/* Are there as many words at a list's offset? */
static inline bool tg_ir_list_sound(const struct tg_ir *ir, uint32_t list, uint64_t words)
{
    return words == 0 || (list >= ir->text_start && list % 4 == 0 && list < ir->bytes &&
                          words <= (ir->bytes - list) / sizeof(uint32_t));
}

static inline const uint32_t *tg_ir_list(const struct tg_ir *ir, const struct tg_ir_data *d)
{
    return (const uint32_t *)(const void *)(ir->memory + d->list);
}

static inline bool tg_ir_is_expr(uint32_t kind)
{
    return kind >= TG_IR_K_U32 && kind <= TG_IR_K_PLACE;
}

static inline bool tg_ir_is_user_opcode(uint32_t opcode)
{
    return opcode >= TG_OP_FIRST_USER && !(opcode & TG_OP_SYSTEM_MASK) &&
           !(opcode >= TG_OP_RESERVED_MIN && opcode <= TG_OP_RESERVED_MAX);
}

/* ---- arena.c ---- */
/* A new node of this kind, zeroed; 0 when the arena is full. */
uint32_t tg_ir_new(struct tg_ir *ir, enum tg_ir_kind kind);
/* The offset of a name of size bytes, 0 when the arena is full. Equal names have equal offsets. */
uint32_t tg_ir_intern(struct tg_ir *ir, const char *name, size_t size);
/* The offset of a name that is there already, else 0. */
uint32_t tg_ir_lookup(const struct tg_ir *ir, const char *name, size_t size);
/* Room for count words in the arena's list part; 0 when it is full. */
uint32_t tg_ir_new_list(struct tg_ir *ir, size_t count);
bool tg_ir_is_name(const char *name, size_t size);
bool tg_ir_is_label(const char *label, size_t size);

/* ---- build.c ---- */
/* A block of the handles in a list of the arena. */
struct tg_ir_node tg_ir_block_of(struct tg_ir *ir, const char *label, uint32_t list, size_t count);

/* ---- path.c ---- */
/* The kind and what the node names, as in a path: "let x", "store control". */
void tg_ir_describe(const struct tg_ir *ir, uint32_t id, char *out, size_t size);
/* Fills error (may be NULL): nodes from the root to the one that is wrong. Returns code. */
int tg_ir_refuse(const struct tg_ir *ir, struct tg_ir_error *error, int code, const uint32_t *path,
                 size_t depth, const char *format, ...) __attribute__((format(printf, 6, 7)));

extern const char *const tg_ir_op_names[TG_IR_OP_COUNT];
extern const char *const tg_ir_unary_names[TG_IR_UNARY_COUNT];
extern const char *const tg_ir_place_names[TG_IR_PLACE_COUNT];
extern const char *const tg_ir_order_names[TG_IR_ORDER_COUNT];
extern const char *const tg_ir_atomic_names[TG_IR_A_COUNT];
/* Variables of the body of an opcode, in the order in which a kernel's call gives them. */
#define TG_IR_BODY_PARAMS 18u
extern const char *const tg_ir_body_params[TG_IR_BODY_PARAMS];
#define TG_IR_USER_PARAMS 16u /* the first of them a user's body sees */

#endif
