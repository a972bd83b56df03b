/* SPDX-License-Identifier: Apache-2.0
 *
 * The arena: nodes from the bottom, names and lists from the top of memory that the caller owns. No
 * allocation beside it, and nothing is ever given back. */
#include "ir/node.h"

#define NODE_BYTES ((uint32_t)sizeof(struct tg_ir_data))
#define MAX_BYTES (1u << 30)
#define NAME_FULL 0xFFFFFFFFu

static const char *const wire_names[TG_IR_FIRST_USER_BUFFER] = {"ring", "control", "observable", "log",
                                                                "dfa"};

void tg_ir_init(struct tg_ir *ir, void *memory, size_t bytes)
{
    memset(ir, 0, sizeof(*ir));
    size_t skip = (size_t)(-(uintptr_t)memory & 7u);
    if (memory && bytes > skip) {
        ir->memory = (unsigned char *)memory + skip;
        bytes -= skip;
        ir->bytes = bytes > MAX_BYTES ? MAX_BYTES : (uint32_t)bytes & ~3u;
    }
    ir->text_start = ir->bytes;
    ir->node_end = 1; /* handle 0 is none */
    ir->buffer_count = TG_IR_FIRST_USER_BUFFER;
    if (ir->bytes < NODE_BYTES) {
        ir->bytes = ir->text_start = 0;
        return;
    }
    memset(ir->memory, 0, NODE_BYTES);
    for (uint32_t i = 0; i < TG_IR_FIRST_USER_BUFFER; i++)
        ir->buffer[i].name = tg_ir_intern(ir, wire_names[i], strlen(wire_names[i]));
}

size_t tg_ir_used(const struct tg_ir *ir)
{
    return ir->bytes == 0 ? 0 : (size_t)ir->node_end * NODE_BYTES + (ir->bytes - ir->text_start);
}

uint32_t tg_ir_new(struct tg_ir *ir, enum tg_ir_kind kind)
{
    uint64_t end = ((uint64_t)ir->node_end + 1) * NODE_BYTES;
    if (ir->full || end > ir->text_start) {
        if (!ir->full)
            ir->full = (uint32_t)kind + 1;
        return 0;
    }
    struct tg_ir_data *d = tg_ir_at(ir, ir->node_end);
    memset(d, 0, sizeof(*d));
    d->kind = (uint8_t)kind;
    return ir->node_end++;
}

/* Bytes at the top, 0 when there is no room. */
static uint32_t take(struct tg_ir *ir, size_t size)
{
    uint32_t room = ir->text_start - ir->node_end * NODE_BYTES;
    if (ir->full || ir->bytes == 0 || size > room) {
        if (!ir->full)
            ir->full = NAME_FULL;
        return 0;
    }
    ir->text_start -=
        (uint32_t)((size + 3) & ~(size_t)3) <= room ? (uint32_t)((size + 3) & ~(size_t)3) : room;
    return ir->text_start;
}

uint32_t tg_ir_new_list(struct tg_ir *ir, size_t count)
{
    return count > MAX_BYTES / 4 ? take(ir, MAX_BYTES) : take(ir, count * 4);
}

static uint32_t *bucket(const struct tg_ir *ir, const char *name, size_t size)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)name[i]) * 16777619u;
    return (uint32_t *)&ir->names[(hash ^ hash >> 16) % (sizeof(ir->names) / sizeof(ir->names[0]))];
}

static uint32_t next_of(const struct tg_ir *ir, uint32_t name)
{
    uint32_t next;
    memcpy(&next, ir->memory + name, sizeof(next));
    return next;
}

uint32_t tg_ir_lookup(const struct tg_ir *ir, const char *name, size_t size)
{
    for (uint32_t at = *bucket(ir, name, size); at != 0; at = next_of(ir, at)) {
        const char *text = tg_ir_text(ir, at);
        if (strncmp(text, name, size) == 0 && text[size] == 0)
            return at;
    }
    return 0;
}

uint32_t tg_ir_intern(struct tg_ir *ir, const char *name, size_t size)
{
    uint32_t *head = bucket(ir, name, size);
    uint32_t at = tg_ir_lookup(ir, name, size);
    if (at != 0)
        return at;
    at = take(ir, sizeof(uint32_t) + size + 1);
    if (at == 0)
        return 0;
    memcpy(ir->memory + at, head, sizeof(uint32_t));
    memcpy(ir->memory + at + sizeof(uint32_t), name, size);
    ir->memory[at + sizeof(uint32_t) + size] = 0;
    *head = at;
    return at;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool tg_ir_is_name(const char *name, size_t size)
{
    if (size == 0 || size > TG_IR_MAX_NAME || !is_letter(name[0]))
        return false;
    for (size_t i = 1; i < size; i++)
        if (!is_letter(name[i]) && !(name[i] >= '0' && name[i] <= '9'))
            return false;
    return size > 1 || name[0] != '_'; /* the text form writes _ for no name */
}

bool tg_ir_is_label(const char *label, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (label[i] <= ' ' || label[i] > '~' || strchr("\"()/;", label[i]))
            return false;
    return size > 0 && size <= TG_IR_MAX_NAME && (size > 1 || label[0] != '_');
}

int tg_ir_buffer_find(const struct tg_ir *ir, const char *name)
{
    size_t size = name ? strnlen(name, TG_IR_MAX_NAME + 1) : 0;
    uint32_t at = size <= TG_IR_MAX_NAME ? tg_ir_lookup(ir, name ? name : "", size) : 0;
    for (uint32_t i = 0; at != 0 && i < ir->buffer_count; i++)
        if (ir->buffer[i].name == at)
            return (int)i;
    return -1;
}

int tg_ir_buffer(struct tg_ir *ir, const char *name, uint32_t words)
{
    size_t size = name ? strnlen(name, TG_IR_MAX_NAME + 1) : 0;
    if (!name || !tg_ir_is_name(name, size) || tg_ir_buffer_find(ir, name) >= 0 ||
        ir->buffer_count >= TG_IR_MAX_BUFFERS || words > TG_IR_MAX_PRIVATE_WORDS - ir->private_words)
        return -1;
    uint32_t at = tg_ir_intern(ir, name, size);
    if (at == 0)
        return -1;
    ir->private_words += words;
    ir->buffer[ir->buffer_count] = (struct tg_ir_buffer_row){.name = at, .words = words};
    return (int)ir->buffer_count++;
}
