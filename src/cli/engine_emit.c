/* SPDX-License-Identifier: Apache-2.0
 *
 * tidegate engine emit: prints the kernel as one self-contained translation unit. Bodies of the user's
 * opcodes are text in files, and input: parsed, checked, and refused with the line and the node. Nothing is
 * compiled or run. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <tidegate/compile.h>

#include "cli/cli.h"
#include "cli/engine.h"
#include "cli/engine_body.h"

#define VERB "engine emit"

struct emit {
    struct tg_bodies bodies;
    uint32_t language;
};

static int print_unit(struct emit *e)
{
    struct tg_ir_error error;
    char *text = NULL;
    size_t bytes = 0;
    struct tg_bodies *b = &e->bodies;
    struct tg_ir_node root = tg_ir_kernel(&b->ir, &b->kernel);
    struct tg_ir_lower_options o = {.language = e->language, .flags = b->kernel.flags & TG_IR_UNRESTRICTED};
    int r = tg_ir_lower(&b->ir, root, &o, &text, &bytes, &error);
    if (r) {
        tg_complain(VERB, "%s%s%s", error.path, error.path[0] ? ": " : "", error.text);
        return r == -ENOMEM ? TG_EXIT_FAILED : TG_EXIT_USAGE;
    }
    fwrite(text, 1, bytes, stdout);
    free(text);
    return tg_flushed(VERB, TG_EXIT_OK);
}

static int emit(struct emit *e)
{
    int code = tg_bodies_read(VERB, &e->bodies);
    if (code == TG_EXIT_OK)
        code = print_unit(e);
    tg_bodies_free(&e->bodies);
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
    enum { C, CUDA, SLOTS, STRIDE, BODY, UNRESTRICTED, UNTIL_IDLE, INDEXED };
    static const struct tg_option table[] = {
        [C] = {'c', "c", false},
        [CUDA] = {0, "cuda", false},
        [SLOTS] = {0, "slots", true},
        [STRIDE] = {0, "stride", true},
        [BODY] = {'b', "body", true},
        [UNRESTRICTED] = {0, "unrestricted", false},
        [UNTIL_IDLE] = {0, "until-idle", false},
        [INDEXED] = {0, "indexed", false},
        {0, NULL, false},
    };
    static struct emit e;
    struct tg_ir_kernel *kernel = &e.bodies.kernel;
    struct tg_options o = {.verb = VERB, .table = table, .argc = argc, .argv = argv};
    uint32_t languages = 0;
    int option;
    e = (struct emit){.bodies.kernel.slots = 4096};
    while ((option = tg_next_option(&o)) != TG_OPTIONS_END) {
        if (option == TG_OPTIONS_ERROR)
            return TG_EXIT_USAGE;
        if (option == SLOTS && !number("--slots", o.value, TG_MAX_ENCODED_RING_SLOTS, &kernel->slots))
            return TG_EXIT_USAGE;
        if (option == STRIDE && !number("--stride", o.value, TG_MAX_ENCODED_RING_SLOTS, &kernel->stride))
            return TG_EXIT_USAGE;
        if (option == BODY && !tg_bodies_name(VERB, &e.bodies, o.value))
            return TG_EXIT_USAGE;
        kernel->flags |= option == UNRESTRICTED ? TG_IR_UNRESTRICTED
                         : option == UNTIL_IDLE ? TG_IR_UNTIL_IDLE
                         : option == INDEXED    ? TG_IR_INDEXED
                                                : 0;
        languages |= option == C ? 1u : option == CUDA ? 2u : 0u;
    }
    if (o.at < argc)
        return tg_usage_error(VERB, "what is %s? An opcode's body is given as --body FILE",
                              tg_shown(argv[o.at]));
    if (languages != 1 && languages != 2)
        return tg_usage_error(VERB, "which language? Either --c or --cuda");
    e.language = languages == 2 ? TG_IR_CUDA_C : TG_IR_C11;
    return emit(&e);
}
