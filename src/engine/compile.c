/* SPDX-License-Identifier: Apache-2.0
 *
 * From nodes to a kernel that runs: the whole loop and the item program are built in the caller's arena,
 * checked, lowered, compiled (compile_cc.c), loaded and looked over; or kept for the interpreter where there
 * is no compiler. It runs nothing (kernel.c).
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/compile_cc.h"
#include "engine/internal.h"
#include "engine/kernel.h"
#include "ir/node.h"

#define ITEM "tg_item"
#define DEFAULT_TIMEOUT_NS UINT64_C(60000000000)
/* Opcodes 0 to 6: what the engine hands over. */
#define BUILT_IN_BODIES TG_OP_BATCH_FENCE

struct message {
    char *text;
    size_t bytes;
};

static int say(struct message *m, int error, const char *what, const char *more)
{
    if (m->bytes)
        snprintf(m->text, m->bytes, "%s%s", what, more);
    return error;
}

static int say_error(struct message *m, int error, const struct tg_ir_error *e)
{
    if (m->bytes)
        snprintf(m->text, m->bytes, "%s%s%s", e->path, e->path[0] ? ": " : "", e->text);
    return error;
}

/* ---- The item program ---------------------------------------------------------------------------------- */

static struct tg_ir_expr item_word(struct tg_ir *ir, uint32_t word)
{
    return tg_ir_load(ir, ITEM, tg_ir_u32(ir, word));
}

/* The value of variable i of tg_ir_body_params. */
static struct tg_ir_expr item_param(struct tg_ir *ir, uint32_t i)
{
    static const uint32_t word[] = {TG_ITEM_WORD(payload.opcode), TG_ITEM_WORD(tenant), TG_ITEM_WORD(level),
                                    TG_ITEM_WORD(slot), TG_ITEM_WORD(from)};
    if (i < TG_ARGS_PER_SLOT)
        return item_word(ir, TG_ITEM_WORD(payload.args) + i);
    if (i - TG_ARGS_PER_SLOT < sizeof(word) / sizeof(word[0]))
        return item_word(ir, word[i - TG_ARGS_PER_SLOT]);
    return tg_ir_eq(ir, item_word(ir, TG_ITEM_WORD(kind)), tg_ir_u32(ir, TG_KIND_PACKED)); /* inner */
}

/* if (opcode == n) { call body; return what it returned } */
static struct tg_ir_node case_of(struct tg_ir *ir, uint32_t opcode, struct tg_ir_node body, bool user)
{
    uint32_t params = user ? TG_IR_USER_PARAMS : TG_IR_BODY_PARAMS;
    struct tg_ir_param param[TG_IR_BODY_PARAMS];
    char label[32];
    for (uint32_t i = 0; i < params; i++)
        param[i] = (struct tg_ir_param){tg_ir_body_params[i], item_param(ir, i)};
    snprintf(label, sizeof(label), "item.%u", opcode);
    struct tg_ir_node run[2] = {tg_ir_call(ir, "ended", label, param, params, body),
                                tg_ir_return(ir, tg_ir_var(ir, "ended"))};
    if (user && run[0].id)
        tg_ir_at(ir, run[0].id)->flags |= TG_IR_F_USER; /* E6 */
    return tg_ir_if(ir, tg_ir_eq(ir, tg_ir_var(ir, "opcode"), tg_ir_u32(ir, opcode)),
                    tg_ir_block(ir, NULL, run, 2), (struct tg_ir_node){0});
}

/* One item of buffer tg_item: its opcode's body, of the user's or of the first built_in. */
static struct tg_ir_node item_program(struct tg_ir *ir, const struct tg_ir_kernel *k, uint32_t built_in,
                                      struct tg_ir_node *nodes)
{
    uint32_t floor = k->flags & TG_IR_UNRESTRICTED ? 0 : TG_CONTROL_OBSERVABLE_BASE;
    size_t n = 0;
    nodes[n++] = tg_ir_let(ir, "opcode", item_word(ir, TG_ITEM_WORD(payload.opcode)));
    for (uint32_t i = 0; i < built_in; i++)
        nodes[n++] = case_of(ir, i, tg_ir_opcode_body(ir, i, floor), false);
    for (uint32_t i = 0; i < k->opcode_count; i++)
        nodes[n++] = case_of(ir, k->opcodes[i].opcode, k->opcodes[i].body, true);
    nodes[n++] = tg_ir_return(ir, tg_ir_u32(ir, TG_IR_FAULT | TG_FAULT_UNKNOWN_OPCODE));
    return tg_ir_block(ir, "item", nodes, n);
}

static int build(struct tg_kernel *t, struct tg_ir *ir, const struct tg_ir_kernel *k, bool device,
                 struct message *m)
{
    if (k->opcode_count > TG_IR_MAX_OPCODES)
        return say(m, -EINVAL, "a kernel has at most 256 opcodes of the user", "");
    int number = tg_ir_buffer_find(ir, ITEM) >= 0 ? -1 : tg_ir_buffer(ir, ITEM, 0);
    if (number < 0)
        return say(m, tg_ir_buffer_find(ir, ITEM) >= 0 ? -EEXIST : -ENOSPC, "cannot declare the buffer " ITEM,
                   ": the name or the last number is taken, or the arena is full");
    t->item_buffer = (uint32_t)number;
    struct tg_ir_node *nodes = calloc(k->opcode_count + BUILT_IN_BODIES + 2u, sizeof(*nodes));
    if (!nodes)
        return say(m, -ENOMEM, "no memory", "");
    /* A device's dispatcher runs the built-in opcodes itself. */
    t->item_root = item_program(ir, k, device ? 0 : BUILT_IN_BODIES, nodes);
    free(nodes);
    t->lane_root = tg_ir_kernel(ir, k);
    t->unrestricted = (k->flags & TG_IR_UNRESTRICTED) != 0;
    t->opcode_count = k->opcode_count;
    t->slots = k->slots;
    for (uint32_t i = 0; i < k->opcode_count; i++) {
        struct tg_ir_error error;
        t->opcodes[i] = k->opcodes[i].opcode;
        uint32_t flags = k->flags & TG_IR_UNRESTRICTED;
        if (!tg_opcode_is_user(k->opcodes[i].opcode))
            return say(m, -EINVAL, "an opcode of the kernel is reserved", "");
        int r = tg_ir_validate_body(ir, k->opcodes[i].body, flags, &error);
        if (r)
            return say_error(m, r, &error);
    }
    return 0;
}

/* ---- Loading ------------------------------------------------------------------------------------------- */

/* dlsym gives data; ISO C wants it copied into a function pointer. */
static tg_kernel_entry entry(void *library, const char *name)
{
    void *at = dlsym(library, name);
    tg_kernel_entry e;
    memcpy(&e, &at, sizeof(e));
    return e;
}

static int look_over(struct tg_kernel *t, struct message *m)
{
    const uint32_t *abi = dlsym(t->library, "tg_kernel_abi");
    t->lane = entry(t->library, "tg_kernel_lane");
    t->item = entry(t->library, "tg_kernel_item");
    if (abi && t->lane && t->item && abi[0] == TG_KERNEL_ABI && abi[1] == sizeof(struct tg_kernel_env))
        return 0;
    return say(m, -EBADMSG, "what the compiler wrote is not this kernel", "");
}

/* 1: there is no compiler to ask, and the message says which was looked for. */
static int load(struct tg_kernel *t, const struct tg_ir *ir, const struct tg_compile_options *o,
                struct message *m)
{
    char *text = NULL;
    size_t bytes = 0;
    struct tg_ir_error error;
    struct tg_ir_lower_options lo = {.language = TG_IR_C11,
                                     .flags = t->unrestricted ? TG_IR_UNRESTRICTED : 0,
                                     .plain = 1u << t->item_buffer,
                                     .item = t->item_root};
    int r = tg_ir_lower(ir, t->lane_root, &lo, &text, &bytes, &error);
    if (r)
        return say_error(m, r, &error);
    if (o->flags & TG_COMPILE_INTERPRET)
        r = say(m, -ENOENT, "no compiler was asked for", "");
    else
        r = tg_cc_load(text, bytes, o->cc, o->timeout_ns ? o->timeout_ns : DEFAULT_TIMEOUT_NS, &t->library,
                       m->text, m->bytes);
    free(text);
    if (r)
        return r == -ENOENT ? 1 : r;
    return look_over(t, m);
}

/* The arena is the caller's: keep a copy. Handles and offsets stay what they are. */
static int keep(struct tg_kernel *t, const struct tg_ir *ir, struct message *m)
{
    char why[256];
    t->ir = *ir;
    t->ir.memory = malloc(ir->bytes);
    if (!t->ir.memory)
        return say(m, -ENOMEM, "no memory", "");
    memcpy(t->ir.memory, ir->memory, ir->bytes);
    snprintf(why, sizeof(why), "%s", m->bytes ? m->text : "");
    say(m, 0, why, "; the kernel is interpreted, many times slower than compiled code");
    return 0;
}

static void discard(struct tg_kernel *t)
{
    if (t->library)
        dlclose(t->library);
    free(t->image);
    free(t->ir.memory);
    free(t);
}

int tg_engine_compile(struct tg_ir *ir, const struct tg_ir_kernel *kernel,
                      const struct tg_compile_options *given, struct tg_kernel **ret_kernel, char *why,
                      size_t why_bytes)
{
    struct tg_compile_options o = {.size = sizeof(o)};
    struct message m = {why, why ? why_bytes : 0};
    say(&m, 0, "", "");
    const uint32_t known = TG_COMPILE_INTERPRET | TG_COMPILE_NO_FALLBACK | TG_COMPILE_DEVICE;
    if (given) {
        if (given->size < offsetof(struct tg_compile_options, device) || given->size > sizeof(o) ||
            (given->flags & ~known) ||
            (given->flags & TG_COMPILE_DEVICE && given->flags & TG_COMPILE_INTERPRET))
            return say(&m, -EINVAL, "the options are not of this library", "");
        memcpy(&o, given, given->size);
    }
    struct tg_kernel *t = calloc(1, sizeof(*t));
    if (!t)
        return say(&m, -ENOMEM, "no memory", "");
    bool device = (o.flags & TG_COMPILE_DEVICE) != 0;
    int r = build(t, ir, kernel, device, &m);
    if (!r && device)
        r = tg_compile_device(t, ir, &o, why, m.bytes);
    else if (!r)
        r = load(t, ir, &o, &m);
    if (r == 1)
        r = o.flags & TG_COMPILE_NO_FALLBACK ? -ENOENT : keep(t, ir, &m);
    if (r) {
        discard(t);
        return r;
    }
    *ret_kernel = t;
    return 0;
}

int tg_kernel_is_compiled(const struct tg_kernel *kernel)
{
    return kernel->lane != NULL || kernel->image != NULL;
}

int tg_kernel_close(struct tg_kernel *kernel)
{
    if (!kernel)
        return 0;
    /* U2 acquire: pairs with U1 in kernel.c. */
    if (tg_load_acquire_u32(&kernel->users) != 0)
        return -EBUSY;
    discard(kernel);
    return 0;
}
