/* SPDX-License-Identifier: Apache-2.0
 * Bodies of the user's opcodes (--body FILE), for engine emit and engine run. */
#ifndef TG_CLI_ENGINE_BODY_H
#define TG_CLI_ENGINE_BODY_H

#include <stdbool.h>

#include <tidegate/compile.h>

struct tg_bodies {
    struct tg_ir ir;
    void *memory;
    struct tg_ir_kernel kernel; /* what is wanted of it besides the bodies, set by the caller */
    struct tg_ir_opcode opcodes[TG_IR_MAX_OPCODES];
    const char *name[TG_IR_MAX_OPCODES];
    uint32_t named;
};

/* Reads a file ("-": standard input) of at most 4 MiB whole, with room for one byte more; NULL after a
 * complaint. To be freed with free(). */
char *tg_body_text(const char *verb, const char *name, size_t *ret_size);
/* One more --body; false after a complaint. */
bool tg_bodies_name(const char *verb, struct tg_bodies *b, const char *name);
/* Reads all of them into ir and kernel. An exit code; what is wrong was said. Free also after an error. */
int tg_bodies_read(const char *verb, struct tg_bodies *b);
/* Compiles them for CPU workers (device NULL) or for that device. As tg_bodies_read. */
int tg_bodies_compile(const char *verb, struct tg_bodies *b, const char *device, struct tg_kernel **ret);
bool tg_bodies_have(const struct tg_bodies *b, uint32_t opcode);
void tg_bodies_free(struct tg_bodies *b);

#endif
