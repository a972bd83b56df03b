/* SPDX-License-Identifier: Apache-2.0
 *
 * tidegate engine emit: prints the kernel as one self-contained translation unit. Bodies of the user's
 * opcodes are text in files, and input: parsed, checked, and refused with the line and the node. Nothing is
 * compiled or run. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tidegate/compile.h>

#include "cli/cli.h"
#include "cli/engine.h"

#define VERB "engine emit"
#define BODY_BYTES_MAX (4u << 20)
#define ARENA_BYTES (32u << 20) /* room for the largest kernel; pages that are not used cost nothing */

struct emit {
    struct tg_ir ir;
    struct tg_ir_kernel kernel;
    struct tg_ir_opcode opcodes[TG_IR_MAX_OPCODES];
    uint32_t language;
};

/* Reads a body whole; NULL after a complaint. */
static char *body_text(const char *name, size_t *ret_size)
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
        tg_complain(VERB, "cannot read %s: %s", tg_shown(name), strerror(errno));
    else if (size > BODY_BYTES_MAX)
        tg_complain(VERB, "%s is larger than 4 MiB", tg_shown(name));
    if (fd > STDIN_FILENO)
        close(fd);
    if (n < 0 || size > BODY_BYTES_MAX) {
        free(text);
        return NULL;
    }
    *ret_size = size;
    return text;
}

static int add_body(struct emit *e, const char *name)
{
    struct tg_ir_error error;
    size_t size = 0;
    if (e->kernel.opcode_count == TG_IR_MAX_OPCODES)
        return tg_usage_error(VERB, "a kernel has at most %u opcodes of the user", TG_IR_MAX_OPCODES);
    char *text = body_text(name, &size);
    if (!text)
        return TG_EXIT_FAILED;
    struct tg_ir_opcode *to = &e->opcodes[e->kernel.opcode_count];
    int r = tg_ir_parse_opcode(&e->ir, text, size, e->kernel.flags & TG_IR_UNRESTRICTED, to, &error);
    free(text);
    if (r) {
        tg_complain(VERB, "%s, line %" PRIu32 ": %s%s%s", tg_shown(name), error.line, error.path,
                    error.path[0] ? ": " : "", error.text);
        return TG_EXIT_USAGE;
    }
    for (uint32_t i = 0; i < e->kernel.opcode_count; i++)
        if (e->opcodes[i].opcode == to->opcode)
            return tg_usage_error(VERB, "%s: opcode %" PRIu32 " stands in an earlier --body", tg_shown(name),
                                  to->opcode);
    e->kernel.opcode_count++;
    return TG_EXIT_OK;
}

static int print_unit(struct emit *e)
{
    struct tg_ir_error error;
    char *text = NULL;
    size_t bytes = 0;
    e->kernel.opcodes = e->opcodes;
    struct tg_ir_node root = tg_ir_kernel(&e->ir, &e->kernel);
    struct tg_ir_lower_options o = {.language = e->language, .flags = e->kernel.flags & TG_IR_UNRESTRICTED};
    int r = tg_ir_lower(&e->ir, root, &o, &text, &bytes, &error);
    if (r) {
        tg_complain(VERB, "%s%s%s", error.path, error.path[0] ? ": " : "", error.text);
        return r == -ENOMEM ? TG_EXIT_FAILED : TG_EXIT_USAGE;
    }
    fwrite(text, 1, bytes, stdout);
    free(text);
    return tg_flushed(VERB, TG_EXIT_OK);
}

static int emit(struct emit *e, const char *const *bodies, uint32_t count)
{
    void *memory = malloc(ARENA_BYTES);
    if (!memory) {
        tg_complain(VERB, "no memory");
        return TG_EXIT_FAILED;
    }
    int code = TG_EXIT_OK;
    tg_ir_init(&e->ir, memory, ARENA_BYTES);
    for (uint32_t i = 0; i < count && code == TG_EXIT_OK; i++)
        code = add_body(e, bodies[i]);
    if (code == TG_EXIT_OK)
        code = print_unit(e);
    free(memory);
    return code;
}

static bool number(const char *what, const char *text, uint32_t max, uint32_t *ret)
{
    uint64_t value;
    if (!tg_arg_u64(VERB, what, text, 1, max, &value))
        return false;
    *ret = (uint32_t)value;
    return true;
}

int tg_verb_engine_emit(int argc, char **argv)
{
    enum { C, CUDA, SLOTS, STRIDE, BODY, UNRESTRICTED, UNTIL_IDLE };
    static const struct tg_option table[] = {
        [C] = {'c', "c", false},
        [CUDA] = {0, "cuda", false},
        [SLOTS] = {0, "slots", true},
        [STRIDE] = {0, "stride", true},
        [BODY] = {'b', "body", true},
        [UNRESTRICTED] = {0, "unrestricted", false},
        [UNTIL_IDLE] = {0, "until-idle", false},
        {0, NULL, false},
    };
    static struct emit e;
    static const char *bodies[TG_IR_MAX_OPCODES];
    struct tg_options o = {.verb = VERB, .table = table, .argc = argc, .argv = argv};
    uint32_t languages = 0, count = 0;
    int option;
    e = (struct emit){.kernel = {.slots = 4096}};
    while ((option = tg_next_option(&o)) != TG_OPTIONS_END) {
        if (option == TG_OPTIONS_ERROR)
            return TG_EXIT_USAGE;
        if (option == SLOTS && !number("--slots", o.value, TG_MAX_ENCODED_RING_SLOTS, &e.kernel.slots))
            return TG_EXIT_USAGE;
        if (option == STRIDE && !number("--stride", o.value, TG_MAX_ENCODED_RING_SLOTS, &e.kernel.stride))
            return TG_EXIT_USAGE;
        if (option == BODY && count == TG_IR_MAX_OPCODES)
            return tg_usage_error(VERB, "--body may stand %u times", TG_IR_MAX_OPCODES);
        if (option == BODY)
            bodies[count++] = o.value;
        e.kernel.flags |= option == UNRESTRICTED ? TG_IR_UNRESTRICTED
                          : option == UNTIL_IDLE ? TG_IR_UNTIL_IDLE
                                                 : 0;
        languages |= option == C ? 1u : option == CUDA ? 2u : 0u;
    }
    if (o.at < argc)
        return tg_usage_error(VERB, "what is %s? An opcode's body is given as --body FILE",
                              tg_shown(argv[o.at]));
    if (languages != 1 && languages != 2)
        return tg_usage_error(VERB, "which language? Either --c or --cuda");
    e.language = languages == 2 ? TG_IR_CUDA_C : TG_IR_C11;
    return emit(&e, bodies, count);
}
