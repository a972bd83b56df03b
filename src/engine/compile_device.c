/* SPDX-License-Identifier: Apache-2.0
 *
 * Bodies of ir.h for the kernel of a GPU: the item program is lowered to CUDA C, put behind the kernel's own
 * text, and compiled (cuda_nvrtc.c) into the image that tg_engine_open starts. It runs nothing.
 *
 * Rule kept: E6. A body sees the observable words, the table of DFA_STEP and its own buffers, each with its
 * length; the text checks every index.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/device.h"
#include "engine/kernel.h"

TG_STATIC_ASSERT(TG_BODY_BUFFERS == TG_IR_MAX_BUFFERS, "the numbers of buffers");

/* Around the lowered unit. */
static const char before[] = "#include <tidegate/device.cuh>\n"
                             "#define TG_WROTE(k, index) \\\n"
                             "    tg_device_wrote((struct tg_device_op *)(k)->context, \\\n"
                             "                    TG_CONTROL_OBSERVABLE_BASE + (index))\n"
                             "namespace tg_lowered {\n";

/* Numbers: words of the item; the buffer of it twice; where its fields are. */
static const char after[] = "\n} // namespace tg_lowered\n"
                            "TG_DEVICE int tg_device_run(struct tg_device_op *op)\n"
                            "{\n"
                            "    const struct tg_device_params *p = tg_params();\n"
                            "    uint32_t item[%u] = {0};\n"
                            "    tg_lowered::tg_kernel_env k;\n"
                            "    for (int i = 0; i < (int)TG_BODY_BUFFERS; i++) {\n"
                            "        k.words[i] = p->bodies->words[i];\n"
                            "        k.count[i] = p->bodies->count[i];\n"
                            "    }\n"
                            "    k.size = sizeof(k);\n"
                            "    k.lane = threadIdx.x;\n"
                            "    k.lanes = blockDim.x;\n"
                            "    k.group = blockIdx.x - 1;\n"
                            "    k.groups = gridDim.x - 1;\n"
                            "    k.private_words = 0;\n"
                            "    k.pause = 0;\n"
                            "    k.context = op;\n"
                            "    k.words[2] = p->control + TG_CONTROL_OBSERVABLE_BASE;\n"
                            "    k.count[2] = p->control_words - TG_CONTROL_OBSERVABLE_BASE;\n"
                            "    k.words[4] = (uint32_t *)tg_device_dfa(&k.count[4]);\n"
                            "    k.words[%u] = item;\n"
                            "    k.count[%u] = sizeof(item) / sizeof(item[0]);\n"
                            "    item[%u] = op->opcode;\n"
                            "    for (int i = 0; i < (int)TG_ARGS_PER_SLOT; i++)\n"
                            "        item[%u + i] = op->args[i];\n"
                            "    item[%u] = op->tenant;\n"
                            "    item[%u] = op->priority;\n"
                            "    item[%u] = op->slot;\n"
                            "    return tg_device_ended(op, tg_lowered::tg_kernel_item(&k));\n"
                            "}\n";

TG_STATIC_ASSERT(TG_IR_OBSERVABLE == 2 && TG_IR_DFA == 4, "as the text above has them");

static char *whole_text(const struct tg_kernel *t, const char *unit, size_t unit_bytes)
{
    size_t room = sizeof(before) + unit_bytes + sizeof(after) + 100;
    char *text = malloc(room);
    if (!text)
        return NULL;
    int n = snprintf(text, room, "%s", before);
    memcpy(text + n, unit, unit_bytes);
    snprintf(text + n + unit_bytes, room - (size_t)n - unit_bytes, after, TG_ITEM_WORDS, t->item_buffer,
             t->item_buffer, TG_ITEM_WORD(payload.opcode), TG_ITEM_WORD(payload.args), TG_ITEM_WORD(tenant),
             TG_ITEM_WORD(level), TG_ITEM_WORD(slot));
    return text;
}

static int say(char *why, size_t why_bytes, int error, const char *what, const char *more)
{
    if (why_bytes)
        snprintf(why, why_bytes, "%s%s%s", what, what[0] && more[0] ? ": " : "", more);
    return error;
}

int tg_compile_device(struct tg_kernel *t, const struct tg_ir *ir, const struct tg_compile_options *o,
                      char *why, size_t why_bytes)
{
    struct tg_ir_error error;
    struct tg_ir_lower_options lo = {
        .language = TG_IR_CUDA_C, .plain = 1u << t->item_buffer, .item = t->item_root};
    char *unit = NULL;
    size_t bytes = 0;
    if (t->unrestricted)
        return say(why, why_bytes, -ENOTSUP, "bodies on a device are never unrestricted", "");
    int r = tg_ir_lower(ir, (struct tg_ir_node){0}, &lo, &unit, &bytes, &error);
    if (r)
        return say(why, why_bytes, r, error.path, error.text);
    char *text = whole_text(t, unit, bytes);
    free(unit);
    if (!text)
        return say(why, why_bytes, -ENOMEM, "no memory", "");
    r = tg_device_compile(text, o->device, &t->image, &t->image_bytes, why, why_bytes);
    free(text);
    return r;
}
