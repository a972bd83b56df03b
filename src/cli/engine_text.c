/* SPDX-License-Identifier: Apache-2.0
 *
 * CUDA C text with opcodes of the user: a file, and input. Which opcodes it has, and by how many lanes each
 * is run, only its author knows, so the options say it. NVRTC compiles the text into the kernel before the
 * engine opens; what it says is printed. */
#include "cli/engine_text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidegate/compile.h>

#include "cli/cli.h"
#include "cli/engine_body.h"

static const struct {
    const char *name;
    enum tg_device_shape shape;
} shapes[] = {{"lane", TG_DEVICE_LANE}, {"warp", TG_DEVICE_WARP}, {"block", TG_DEVICE_BLOCK}};

bool tg_cli_text_has(const struct tg_cli_text *t, uint32_t opcode)
{
    for (uint32_t i = 0; i < t->count; i++)
        if (t->op[i].opcode == opcode)
            return true;
    return false;
}

/* "300", "300:warp" */
bool tg_cli_text_op(const char *verb, struct tg_cli_text *t, const char *value)
{
    char number[24];
    size_t digits = strcspn(value, ":"), shape = 0;
    uint64_t opcode;
    snprintf(number, sizeof(number), "%.*s", digits < sizeof(number) ? (int)digits : 23, value);
    if (!tg_arg_u64(verb, "the opcode of --op", number, 0, UINT32_MAX, &opcode))
        return false;
    const char *wanted = value[digits] ? value + digits + 1 : "lane";
    while (shape < 3 && strcmp(shapes[shape].name, wanted) != 0)
        shape++;
    if (!tg_opcode_is_user((uint32_t)opcode))
        tg_usage_error(verb, "--op %s is an opcode of the wire; those of users are other numbers from %u on",
                       tg_shown(value), TG_OP_FIRST_USER);
    else if (shape == 3)
        tg_usage_error(verb, "--op %s: an opcode is run by a lane, warp or block, as in 300:warp",
                       tg_shown(value));
    else if (tg_cli_text_has(t, (uint32_t)opcode))
        tg_usage_error(verb, "--op names the opcode %" PRIu64 " twice", opcode);
    else if (t->count == TG_TEXT_OPS)
        tg_usage_error(verb, "--op may stand %u times", TG_TEXT_OPS);
    else {
        t->op[t->count].opcode = (uint32_t)opcode;
        t->op[t->count++].shape = shapes[shape].shape;
        return true;
    }
    return false;
}

bool tg_cli_text_check(const char *verb, const struct tg_cli_text *t, bool has_device, bool has_bodies)
{
    if (!t->file && t->count)
        tg_usage_error(verb, "--op names an opcode of --cuda FILE, and there is none");
    else if (t->file && !has_device)
        tg_usage_error(verb, "--cuda is for a GPU: say --backend cuda");
    else if (t->file && has_bodies)
        tg_usage_error(verb, "--cuda and --body exclude each other: the kernel has the opcodes of one");
    else if (t->file && t->count == 0)
        tg_usage_error(verb, "--cuda %s: say with --op N which opcodes it has", tg_shown(t->file));
    else
        return true;
    return false;
}

int tg_cli_text_compile(const char *verb, struct tg_cli_text *t, struct tg_engine_options *o)
{
    static char why[TG_COMPILE_WHY_BYTES];
    struct tg_device_compile_options d = {.size = sizeof(d), .backend = o->backend};
    size_t bytes = 0;
    char *text = tg_body_text(verb, t->file, &bytes);
    if (!text)
        return TG_EXIT_FAILED;
    if (memchr(text, '\0', bytes)) {
        free(text);
        return tg_usage_error(verb, "--cuda %s is no text: it has a byte 0", tg_shown(t->file));
    }
    text[bytes] = '\0';
    int r = tg_device_compile(text, &d, &t->image, &t->image_bytes, why, sizeof(why));
    free(text);
    if (r || why[0])
        tg_complain(verb, "%s%s", r ? "cannot compile the text of --cuda: " : "",
                    why[0] ? why : strerror(-r));
    if (r)
        return r == -EBADMSG || r == -EINVAL || r == -ENOTSUP ? TG_EXIT_USAGE : TG_EXIT_FAILED;
    o->device_image = t->image;
    o->device_image_bytes = t->image_bytes;
    return TG_EXIT_OK;
}

int tg_cli_text_register(const char *verb, const struct tg_cli_text *t, struct tg_engine *engine)
{
    for (uint32_t i = 0; i < t->count; i++) {
        int r = tg_engine_register_device(engine, t->op[i].opcode, t->op[i].shape);
        if (r) {
            tg_complain(verb, "cannot register the opcode %" PRIu32 ": %s", t->op[i].opcode, strerror(-r));
            return TG_EXIT_FAILED;
        }
    }
    return TG_EXIT_OK;
}

void tg_cli_text_free(struct tg_cli_text *t)
{
    free(t->image);
    t->image = NULL;
}
