/* SPDX-License-Identifier: Apache-2.0
 *
 * A copy of a program with the blocks of one label emptied: what a test takes out to see that a rule hangs on
 * it. Only the way to those blocks is copied; all else is shared with the original. */
#include "ir/node.h"

struct copy {
    struct tg_ir *ir;
    uint32_t label;
    uint32_t found;
};

static uint32_t node(struct copy *c, uint32_t id);

/* The same node with other children. */
static uint32_t with(struct copy *c, const struct tg_ir_data *d)
{
    uint32_t copy = tg_ir_new(c->ir, (enum tg_ir_kind)d->kind);
    if (copy != 0)
        *tg_ir_at(c->ir, copy) = *d;
    return copy;
}

static uint32_t block(struct copy *c, uint32_t id, struct tg_ir_data d)
{
    uint32_t list = 0;
    if (d.name == c->label) {
        c->found++;
        d.value = d.list = 0;
        return with(c, &d);
    }
    for (uint32_t i = 0; i < d.value; i++) {
        uint32_t old = tg_ir_list(c->ir, &d)[i];
        uint32_t child = node(c, old);
        if (child == old)
            continue;
        if (list == 0) {
            list = tg_ir_new_list(c->ir, d.value);
            if (list == 0)
                return 0;
            memcpy(c->ir->memory + list, c->ir->memory + d.list, d.value * sizeof(uint32_t));
        }
        memcpy(c->ir->memory + list + i * sizeof(uint32_t), &child, sizeof(child));
    }
    if (list == 0)
        return id;
    d.list = list;
    return with(c, &d);
}

/* The node, or its copy when something below it has changed. */
static uint32_t node(struct copy *c, uint32_t id)
{
    if (id == 0)
        return 0;
    struct tg_ir_data d = *tg_ir_at(c->ir, id);
    uint32_t *child[2] = {NULL, NULL};
    switch (d.kind) {
    case TG_IR_K_BLOCK:
        return block(c, id, d);
    case TG_IR_K_IF:
        child[0] = &d.b;
        child[1] = &d.c;
        break;
    case TG_IR_K_LOOP:
        child[0] = &d.c;
        break;
    case TG_IR_K_FOREVER:
    case TG_IR_K_CALL:
        child[0] = &d.a;
        break;
    default:
        return id;
    }
    bool changed = false;
    for (uint32_t i = 0; i < 2 && child[i]; i++) {
        uint32_t now = node(c, *child[i]);
        changed |= now != *child[i];
        *child[i] = now;
    }
    return changed ? with(c, &d) : id;
}

struct tg_ir_node tg_ir_without(struct tg_ir *ir, struct tg_ir_node root, const char *label)
{
    struct copy c = {.ir = ir, .label = label ? tg_ir_lookup(ir, label, strlen(label)) : 0};
    struct tg_ir_node none = {0};
    /* Not a program, not walked: its depth is not known. */
    if (c.label == 0 || tg_ir_validate(ir, root, TG_IR_UNRESTRICTED, NULL) != 0)
        return none;
    uint32_t id = node(&c, root.id);
    if (c.found == 0 || ir->full)
        return none;
    return (struct tg_ir_node){id};
}
