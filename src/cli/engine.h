/* SPDX-License-Identifier: Apache-2.0
 *
 * What the verbs below `tidegate engine` share: their functions, the names of the wire, and one line of
 * input, decoded. */
#ifndef TG_CLI_ENGINE_H
#define TG_CLI_ENGINE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidegate/engine.h>

/* Verbs below `engine`, one file each; they get argv[0] = their own name. The table is in engine.c. */
int tg_verb_engine_run(int argc, char **argv);
int tg_verb_engine_bench(int argc, char **argv);
int tg_verb_engine_dump(int argc, char **argv);
int tg_verb_engine_emit(int argc, char **argv);
int tg_verb_engine_device(int argc, char **argv);

/* The command's own user opcode: keeps its worker busy for a0 microseconds, at most a second. */
#define TG_CLI_OP_SPIN_US TG_OP_FIRST_USER
#define TG_CLI_SPIN_US_MAX 1000000u

/* ---- engine_names.c ----------------------------------------------------------------------------------- */

/* NULL for an opcode without a name. */
const char *tg_cli_opcode_name(uint32_t opcode);
/* "critical" .. "idle", "?" above 4. */
const char *tg_cli_level_name(uint32_t level);
/* "EMPTY" .. "FAULT", NULL above 7. */
const char *tg_cli_status_name(uint32_t status);
/* Names in either case; false when there is no such one. */
bool tg_cli_opcode_parse(const char *name, uint32_t *ret_opcode);
bool tg_cli_level_parse(const char *name, uint32_t *ret_level);

/* ---- engine_item.c ------------------------------------------------------------------------------------ */

/* One line of input. One item, or the items of a batch that a fence follows. */
struct tg_cli_line {
    bool batch;
    bool load_miss;
    uint32_t tenant, priority;
    uint32_t tag;               /* of a batch */
    uint32_t count;             /* items: 1, or those of the batch, which may be none */
    struct tg_batch_item *item; /* count of them; args point into words */
    uint32_t (*words)[TG_ARGS_PER_SLOT];
    char *id; /* the line's "id" as JSON text, NULL when it has none */
    struct tg_batch_item one;
    uint32_t one_words[1][TG_ARGS_PER_SLOT];
};

#define TG_CLI_WHY_BYTES 256
#define TG_CLI_BATCH_MAX 65536u

/* Decodes a line of len bytes. 0 and *ret, which tg_cli_line_free frees and which must not be moved; -EINVAL
 * and why (what is wrong and what the rule is); -ENOMEM. */
int tg_cli_line_parse(const char *text, size_t len, struct tg_cli_line *ret, char why[TG_CLI_WHY_BYTES]);
void tg_cli_line_free(struct tg_cli_line *line);

#endif
