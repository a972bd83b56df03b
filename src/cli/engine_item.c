/* SPDX-License-Identifier: Apache-2.0
 *
 * One line of `tidegate engine run`, decoded (docs/engine-cli.md has the format). Input is checked as far as
 * it can be told before it runs: what a line cannot mean is refused with the rule; what an item does when it
 * runs (bounds, unknown opcodes) is for the engine, which faults it (E6). */
#include "cli/engine.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

static int refuse(char *why, const char *format, ...) __attribute__((format(printf, 2, 3)));

static int refuse(char *why, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    vsnprintf(why, TG_CLI_WHY_BYTES, format, ap);
    va_end(ap);
    return -EINVAL;
}

/* What stands there, for a message: a number as it is, else its type. */
static const char *given(const json_t *value, char buffer[32])
{
    static const char *const types[] = {"an object",          "a list", "a string", "a whole number",
                                        "not a whole number", "true",   "false",    "null"};
    if (json_is_integer(value))
        snprintf(buffer, 32, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else
        snprintf(buffer, 32, "%s", value ? types[json_typeof(value)] : "missing");
    return buffer;
}

/* A whole number in [0, max]. */
static int take_word(const json_t *value, const char *what, uint32_t max, const char *rule, uint32_t *ret,
                     char *why)
{
    char buffer[32];
    if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) > max)
        return refuse(why, "%s is %s, but must be a whole number from 0 to %" PRIu32 "%s", what,
                      given(value, buffer), max, rule);
    *ret = (uint32_t)json_integer_value(value);
    return 0;
}

static int take_level(const json_t *value, uint32_t *ret, char *why)
{
    if (json_is_string(value) && tg_cli_level_parse(json_string_value(value), ret))
        return 0;
    if (json_is_string(value))
        return refuse(why, "\"priority\" is %s, but must be critical, high, normal, low, idle or 0 to 4 (E2)",
                      tg_shown(json_string_value(value)));
    return take_word(value, "\"priority\"", TG_PRIORITY_IDLE, ", 0 the most urgent, or a level's name (E2)",
                     ret, why);
}

static int take_opcode(const json_t *value, uint32_t *ret, char *why)
{
    if (!json_is_string(value))
        return take_word(value, "\"op\"", UINT32_MAX, " or an opcode's name", ret, why);
    if (tg_cli_opcode_parse(json_string_value(value), ret))
        return 0;
    return refuse(why, "there is no opcode %s (docs/abi.md names them)", tg_shown(json_string_value(value)));
}

static int take_args(const json_t *list, const char *what, uint32_t max, uint32_t *words, size_t *ret_count,
                     char *why)
{
    *ret_count = 0;
    if (!list)
        return 0;
    if (!json_is_array(list))
        return refuse(why, "%s must be a list of whole numbers", what);
    size_t n = json_array_size(list);
    if (n > max)
        return refuse(why, "%s has %zu words; a slot holds %" PRIu32, what, n, max);
    for (size_t i = 0; i < n; i++) {
        char name[32];
        snprintf(name, sizeof(name), "argument %zu", i);
        int r = take_word(json_array_get(list, i), name, UINT32_MAX, "", &words[i], why);
        if (r)
            return r;
    }
    *ret_count = n;
    return 0;
}

/* Every key must be one of the names; a typing error is not to be ignored. */
static int only_keys(json_t *object, const char *const *names, const char *what, char *why)
{
    const char *key;
    json_t *value;
    if (!json_is_object(object))
        return refuse(why, "%s must be a JSON object", what);
    json_object_foreach(object, key, value)
    {
        size_t i = 0;
        while (names[i] && strcmp(names[i], key) != 0)
            i++;
        if (!names[i])
            return refuse(why, "%s does not know the key %s", what, tg_shown(key));
    }
    return 0;
}

/* {"packed": [{"op": ..., "args": [...]}, ...]}: the payload of a packed slot. */
static int take_packed(const json_t *list, struct tg_batch_item *item, uint32_t *words, char *why)
{
    static const char *const keys[] = {"op", "args", NULL};
    struct tg_packed_op ops[TG_PACKED_MAX_OPS];
    uint32_t args[TG_PACKED_MAX_OPS][TG_ARGS_PER_SLOT];
    if (!json_is_array(list) || json_array_size(list) > TG_PACKED_MAX_OPS)
        return refuse(why, "\"packed\" must be a list of at most %u operations", TG_PACKED_MAX_OPS);
    size_t n = json_array_size(list);
    for (size_t i = 0; i < n; i++) {
        json_t *op = json_array_get(list, i);
        uint32_t opcode;
        int r = only_keys(op, keys, "an inner operation", why);
        if (r)
            return r;
        r = take_opcode(json_object_get(op, "op"), &opcode, why);
        if (!r && opcode > UINT8_MAX)
            r = refuse(why, "inner operation %zu has opcode %" PRIu32 "; a packed one is at most 255", i,
                       opcode);
        if (!r)
            r = take_args(json_object_get(op, "args"), "\"args\" of an inner operation", TG_ARGS_PER_SLOT,
                          args[i], &ops[i].arg_count, why);
        if (r)
            return r;
        ops[i].op_id = (uint8_t)opcode;
        ops[i].args = args[i];
    }
    if (tg_packed_encode(ops, n, words) != 0)
        return refuse(why,
                      "the packed operations do not fit: 2 + 2 x operations bytes, rounded up to words, and "
                      "all arguments must fit %u words",
                      TG_ARGS_PER_SLOT);
    *item = (struct tg_batch_item){TG_OP_PACKED_SLOT, words, TG_ARGS_PER_SLOT};
    return 0;
}

/* "op" and "args", or "packed", of a line or of an item in a batch. */
static int take_item(json_t *object, struct tg_batch_item *item, uint32_t *words, char *why)
{
    const json_t *packed = json_object_get(object, "packed");
    const json_t *op = json_object_get(object, "op");
    if ((packed != NULL) == (op != NULL))
        return refuse(why, "an item has either \"op\" or \"packed\"");
    if (packed && json_object_get(object, "args"))
        return refuse(why, "\"args\" stand in the operations of \"packed\"");
    if (packed)
        return take_packed(packed, item, words, why);
    uint32_t opcode;
    int r = take_opcode(op, &opcode, why);
    if (!r)
        r = take_args(json_object_get(object, "args"), "\"args\"", TG_ARGS_PER_SLOT, words, &item->arg_count,
                      why);
    if (r)
        return r;
    item->opcode = opcode;
    item->args = words;
    if (opcode == TG_OP_BATCH_FENCE && item->arg_count > 0 && words[0] != 0)
        return refuse(why, "a fence over items is written {\"batch\": [...], \"tag\": N} (E5)");
    return 0;
}

static int check_publishable(const struct tg_batch_item *item, char *why)
{
    if (tg_opcode_is_publishable(item->opcode))
        return 0;
    if (item->opcode == TG_OP_LOAD_MISS)
        return refuse(why, "LOAD_MISS cannot stand in a batch");
    return refuse(why,
                  "opcode %" PRIu32 " is reserved: user opcodes are 8 to 2147483647 except 65520 to "
                  "65535",
                  item->opcode);
}

static int take_batch(const json_t *list, struct tg_cli_line *line, char *why)
{
    static const char *const keys[] = {"op", "args", "packed", NULL};
    if (!json_is_array(list) || json_array_size(list) > TG_CLI_BATCH_MAX)
        return refuse(why, "\"batch\" must be a list of at most %u items", TG_CLI_BATCH_MAX);
    size_t n = json_array_size(list);
    line->item = calloc(n + 1, sizeof(*line->item));
    line->words = calloc(n + 1, sizeof(*line->words));
    if (!line->item || !line->words)
        return -ENOMEM;
    line->batch = true;
    line->count = (uint32_t)n;
    for (size_t i = 0; i < n; i++) {
        int r = only_keys(json_array_get(list, i), keys, "an item of a batch", why);
        if (!r)
            r = take_item(json_array_get(list, i), &line->item[i], line->words[i], why);
        if (!r)
            r = check_publishable(&line->item[i], why);
        if (r)
            return r;
    }
    return 0;
}

static int take_single(json_t *object, struct tg_cli_line *line, char *why)
{
    line->item = &line->one;
    line->words = line->one_words;
    line->count = 1;
    if (json_object_get(object, "tag"))
        return refuse(why, "\"tag\" belongs to a \"batch\"");
    int r = take_item(object, &line->one, line->one_words[0], why);
    if (r)
        return r;
    line->load_miss = line->one.opcode == TG_OP_LOAD_MISS;
    if (!line->load_miss)
        return check_publishable(&line->one, why);
    if (json_object_get(object, "tenant") && line->tenant != 0)
        return refuse(why, "LOAD_MISS always asks as tenant 0");
    if (json_object_get(object, "priority") && line->priority != TG_PRIORITY_CRITICAL)
        return refuse(why, "LOAD_MISS is always critical");
    line->tenant = 0;
    line->priority = TG_PRIORITY_CRITICAL;
    if (line->one.arg_count < 1 || line->one.arg_count > 2)
        return refuse(why, "LOAD_MISS takes a resource and, if wanted, a prefetch flag");
    return 0;
}

static int take_line(json_t *object, struct tg_cli_line *line, char *why)
{
    static const char *const keys[] = {"id",     "tenant", "priority", "op", "args",
                                       "packed", "batch",  "tag",      NULL};
    int r = only_keys(object, keys, "a line", why);
    if (r)
        return r;
    const json_t *value = json_object_get(object, "id");
    if (value && !(line->id = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT)))
        return -ENOMEM;
    line->priority = TG_PRIORITY_NORMAL;
    value = json_object_get(object, "tenant");
    if (value)
        r = take_word(value, "\"tenant\"", TG_TENANTS - 1, " (E4: the table has 29)", &line->tenant, why);
    value = json_object_get(object, "priority");
    if (!r && value)
        r = take_level(value, &line->priority, why);
    value = json_object_get(object, "batch");
    if (r)
        return r;
    if (!value)
        return take_single(object, line, why);
    if (json_object_get(object, "op") || json_object_get(object, "packed") || json_object_get(object, "args"))
        return refuse(why, "a line has either \"batch\" or one item");
    r = take_batch(value, line, why);
    value = json_object_get(object, "tag");
    return r || !value ? r : take_word(value, "\"tag\"", UINT32_MAX, "", &line->tag, why);
}

int tg_cli_line_parse(const char *text, size_t len, struct tg_cli_line *line, char why[TG_CLI_WHY_BYTES])
{
    json_error_t error;
    memset(line, 0, sizeof(*line));
    json_t *object = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
    if (!object)
        return refuse(why, "not JSON: %s", error.text);
    int r = take_line(object, line, why);
    json_decref(object);
    if (r)
        tg_cli_line_free(line);
    return r;
}

void tg_cli_line_free(struct tg_cli_line *line)
{
    if (!line)
        return;
    if (line->batch || line->item != &line->one) {
        free(line->item);
        free(line->words);
    }
    free(line->id);
    memset(line, 0, sizeof(*line));
}
