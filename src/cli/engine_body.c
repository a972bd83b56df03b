/* SPDX-License-Identifier: Apache-2.0
 *
 * Bodies of the user's opcodes (--body FILE): text in files, and input: read, parsed, checked, and refused
 * with the line and the node. engine emit prints them within a kernel; engine run compiles them. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tidegate/compile.h>

#include "cli/cli.h"
#include "cli/engine_body.h"

#define BODY_BYTES_MAX (4u << 20)
#define ARENA_BYTES (32u << 20) /* room for the largest kernel; pages that are not used cost nothing */

char *tg_body_text(const char *verb, const char *name, size_t *ret_size)
{
    int fd = strcmp(name, "-") == 0 ? STDIN_FILENO : open(name, O_RDONLY | O_CLOEXEC);
    char *text = fd < 0 ? NULL : malloc(BODY_BYTES_MAX + 1);
    size_t size = 0;
    ssize_t n = fd < 0 || !text ? -1 : 1;
    while (n > 0 && size <= BODY_BYTES_MAX) {
        n = read(fd, text + size, BODY_BYTES_MAX + 1 - size);
        if (n < 0 && errno == EINTR)
            n = 1;
        else if (n > 0)
            size += (size_t)n;
    }
    if (n < 0)
        tg_complain(verb, "cannot read %s: %s", tg_shown(name), strerror(errno));
    else if (size > BODY_BYTES_MAX)
        tg_complain(verb, "%s is larger than 4 MiB", tg_shown(name));
    if (fd > STDIN_FILENO)
        close(fd);
    if (n < 0 || size > BODY_BYTES_MAX) {
        free(text);
        return NULL;
    }
    *ret_size = size;
    return text;
}

static int add(const char *verb, struct tg_bodies *b, const char *name)
{
    struct tg_ir_error error;
    size_t size = 0;
    if (b->kernel.opcode_count == TG_IR_MAX_OPCODES)
        return tg_usage_error(verb, "a kernel has at most %u opcodes of the user", TG_IR_MAX_OPCODES);
    char *text = tg_body_text(verb, name, &size);
    if (!text)
        return TG_EXIT_FAILED;
    struct tg_ir_opcode *to = &b->opcodes[b->kernel.opcode_count];
    int r = tg_ir_parse_opcode(&b->ir, text, size, b->kernel.flags & TG_IR_UNRESTRICTED, to, &error);
    free(text);
    if (r) {
        tg_complain(verb, "%s, line %" PRIu32 ": %s%s%s", tg_shown(name), error.line, error.path,
                    error.path[0] ? ": " : "", error.text);
        return TG_EXIT_USAGE;
    }
    for (uint32_t i = 0; i < b->kernel.opcode_count; i++)
        if (b->opcodes[i].opcode == to->opcode)
            return tg_usage_error(verb, "%s: opcode %" PRIu32 " stands in an earlier --body", tg_shown(name),
                                  to->opcode);
    b->kernel.opcode_count++;
    return TG_EXIT_OK;
}

bool tg_bodies_name(const char *verb, struct tg_bodies *b, const char *name)
{
    if (b->named == TG_IR_MAX_OPCODES) {
        tg_usage_error(verb, "--body may stand %u times", TG_IR_MAX_OPCODES);
        return false;
    }
    b->name[b->named++] = name;
    return true;
}

int tg_bodies_read(const char *verb, struct tg_bodies *b)
{
    int code = TG_EXIT_OK;
    b->memory = malloc(ARENA_BYTES);
    if (!b->memory) {
        tg_complain(verb, "no memory");
        return TG_EXIT_FAILED;
    }
    tg_ir_init(&b->ir, b->memory, ARENA_BYTES);
    b->kernel.opcodes = b->opcodes;
    for (uint32_t i = 0; i < b->named && code == TG_EXIT_OK; i++)
        code = add(verb, b, b->name[i]);
    return code;
}

int tg_bodies_compile(const char *verb, struct tg_bodies *b, const char *device, struct tg_kernel **ret)
{
    static char why[TG_COMPILE_WHY_BYTES];
    struct tg_device_compile_options d = {.size = sizeof(d), .backend = device};
    struct tg_compile_options o = {
        .size = sizeof(o), .flags = device ? TG_COMPILE_DEVICE : 0, .device = device ? &d : NULL};
    int r = tg_engine_compile(&b->ir, &b->kernel, &o, ret, why, sizeof(why));
    if (r || why[0])
        tg_complain(verb, "%s%s", r ? "cannot compile the bodies: " : "", why[0] ? why : strerror(-r));
    if (r == -ENODEV)
        return TG_EXIT_FAILED;
    return r == 0                                           ? TG_EXIT_OK
           : r == -EINVAL || r == -ENOTSUP || r == -EBADMSG ? TG_EXIT_USAGE
                                                            : TG_EXIT_FAILED;
}

bool tg_bodies_have(const struct tg_bodies *b, uint32_t opcode)
{
    for (uint32_t i = 0; i < b->kernel.opcode_count; i++)
        if (b->opcodes[i].opcode == opcode)
            return true;
    return false;
}

void tg_bodies_free(struct tg_bodies *b)
{
    free(b->memory);
    b->memory = NULL;
}
