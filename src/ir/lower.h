/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the lowering share: the growing text, the state of a lowering, the two preludes. Not a
 * public header. */
#ifndef TG_IR_LOWER_H
#define TG_IR_LOWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidegate/lower.h>

#include "ir/node.h"

#define TG_TEXT_MAX (64u << 20)

/* ---- lower_text.c ---- */

/* A text that grows. After an error (-ENOMEM, -EFBIG) it takes nothing more. All zero is an empty one. */
struct tg_text {
    char *bytes;
    size_t length, room;
    int error;
};

void tg_text_add(struct tg_text *t, const char *bytes, size_t length);
void tg_text_put(struct tg_text *t, const char *text);
void tg_text_printf(struct tg_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Appends from's text, or takes over its error. */
void tg_text_join(struct tg_text *t, const struct tg_text *from);
void tg_text_free(struct tg_text *t);

/* ---- lower_prelude.c ---- */

/* The fixed text before the functions: types, operators, atomics. */
void tg_lower_prelude(struct tg_text *t, uint32_t language);

/* ---- lower.c, lower_expr.c ---- */

/* A variable of the text: v<number>_<name>. */
struct tg_lower_var {
    uint32_t name;    /* offset in the arena */
    uint32_t number;  /* in the text */
    uint32_t reads;   /* 0 at the end of its scope: said to be unused */
    uint32_t covered; /* index + 1 of the variable of the same name outside of the call; 0: none */
};

struct tg_lower {
    const struct tg_ir *ir;
    uint32_t language;
    uint32_t plain;           /* as in the options */
    bool within;              /* an item program in CUDA C, for another kernel */
    struct tg_text functions; /* those that are whole */
    struct tg_text *body;     /* of the function at work */
    uint32_t indent;
    uint32_t numbers; /* given to variables, temporaries and functions so far */
    uint8_t *height;  /* by handle: nesting of an expression's text; TG_LOWER_IMPURE: it loads */
    /* By handle of a body: the call that it was first written for, and the number of that function. */
    struct tg_lower_call {
        uint32_t node, number;
    } * call;
    uint32_t *bound; /* by name, in words from text_start: index + 1 of its variable */
    struct tg_lower_var *vars;
    uint32_t var_count, var_room;
    uint32_t private_at[TG_IR_MAX_BUFFERS]; /* where a private buffer begins */
    uint32_t private_top;                   /* private words up to the last buffer that was accessed */
};

#define TG_LOWER_IMPURE 0x80u
/* Expressions nest at most so deep in the text; deeper ones become temporaries. Compilers limit brackets. */
#define TG_LOWER_MAX_HEIGHT 12u

/* A new line of the function at work, indented. */
void tg_lower_line(struct tg_lower *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Appends the name of a visible variable to out. */
void tg_lower_name(struct tg_lower *l, uint32_t name, bool read, struct tg_text *out);
/* Appends an expression to out; what must be done before it (loads, checks) becomes lines. */
void tg_lower_expr(struct tg_lower *l, uint32_t id, struct tg_text *out);
/* Appends an operand that may be used more than once: a literal or a name. */
void tg_lower_operand(struct tg_lower *l, uint32_t id, struct tg_text *out);
/* Lines that check the index of an access to a buffer; out gets the address of the word. */
void tg_lower_word(struct tg_lower *l, uint32_t buffer, const char *index, struct tg_text *out);
/* Is a word of the buffer read and written as it is? */
static inline bool tg_lower_is_plain(const struct tg_lower *l, uint32_t buffer)
{
    return l->ir->buffer[buffer].words != 0 || (l->plain >> buffer & 1u) != 0;
}
/* Fills height. */
void tg_lower_heights(struct tg_lower *l);

#endif
