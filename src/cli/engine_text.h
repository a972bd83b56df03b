/* SPDX-License-Identifier: Apache-2.0
 * CUDA C text with opcodes of the user for the GPU's kernel (engine run --cuda FILE --op N[:SHAPE]). */
#ifndef TG_CLI_ENGINE_TEXT_H
#define TG_CLI_ENGINE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidegate/engine.h>

#define TG_TEXT_OPS 256u

struct tg_cli_text {
    const char *file; /* NULL: no text */
    uint32_t count;
    struct {
        uint32_t opcode;
        enum tg_device_shape shape;
    } op[TG_TEXT_OPS];
    void *image;
    size_t image_bytes;
};

/* One more --op; false after a complaint. */
bool tg_cli_text_op(const char *verb, struct tg_cli_text *t, const char *value);
/* Do the options fit each other? False after a complaint. */
bool tg_cli_text_check(const char *verb, const struct tg_cli_text *t, bool has_device, bool has_bodies);
/* Compiles the text for the device into the image of the options. An exit code; what is wrong was said. */
int tg_cli_text_compile(const char *verb, struct tg_cli_text *t, struct tg_engine_options *o);
/* Names the opcodes to the engine. As tg_cli_text_compile. */
int tg_cli_text_register(const char *verb, const struct tg_cli_text *t, struct tg_engine *engine);
bool tg_cli_text_has(const struct tg_cli_text *t, uint32_t opcode);
void tg_cli_text_free(struct tg_cli_text *t);

#endif
