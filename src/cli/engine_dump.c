/* SPDX-License-Identifier: Apache-2.0
 *
 * tidegate engine dump: reads a buffer of the wire from a file and shows what it holds. The file is input:
 * its length and every word are checked, nothing in it is followed. Control buffers and debug logs are in
 * engine_dump_control.c. */
#include "cli/engine_dump.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

#define VERB "engine dump"
/* Four times the largest ring. An endless file ends here, and not when memory does. */
#define DUMP_BYTES_MAX (UINT64_C(1) << 28)

void tg_dump_odd(struct tg_dump *d, const char *format, ...)
{
    char text[200];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    if (d->odd++ < 20)
        tg_complain(VERB, "%.200s: %s", d->name, text);
}

/* ---- The ring ----------------------------------------------------------------------------------------- */

static void slot_args(const struct tg_dump *d, size_t slot, uint32_t args[TG_ARGS_PER_SLOT])
{
    for (uint32_t i = 0; i < TG_ARGS_PER_SLOT; i++)
        args[i] = tg_dump_word(d, slot * TG_SLOT_WORDS + TG_SLOT_ARG0_WORD + i);
}

static void print_opcode(uint32_t opcode)
{
    const char *name = tg_cli_opcode_name(opcode);
    if (name)
        printf("%-13s", name);
    else
        printf("%-13" PRIu32, opcode);
}

static void print_packed_text(const uint32_t *args)
{
    struct tg_packed_view v;
    if (tg_packed_decode(args, &v) != 0) {
        printf("  malformed packed payload");
        return;
    }
    for (uint32_t i = 0; i < v.op_count; i++) {
        const char *name = tg_cli_opcode_name(v.op_id[i]);
        if (name)
            printf("  %s(", name);
        else
            printf("  %u(", v.op_id[i]);
        for (uint32_t a = 0; a < v.words[i]; a++)
            printf("%s%" PRIu32, a ? " " : "", args[v.first[i] + a]);
        printf(")");
    }
}

static void print_slot_text(const struct tg_dump *d, size_t slot, uint32_t status, uint32_t opcode)
{
    uint32_t args[TG_ARGS_PER_SLOT], last = 0;
    const char *name = tg_cli_status_name(status);
    slot_args(d, slot, args);
    printf("%8zu  ", slot);
    if (name)
        printf("%-10s", name);
    else
        printf("%-10" PRIu32, status);
    print_opcode(opcode);
    printf(" %6" PRIu32 "  %-8s", tg_dump_word(d, slot * TG_SLOT_WORDS + TG_SLOT_TENANT_WORD),
           tg_cli_level_name(tg_dump_word(d, slot * TG_SLOT_WORDS + TG_SLOT_PRIORITY_WORD)));
    for (uint32_t i = 0; i < TG_ARGS_PER_SLOT; i++)
        last = args[i] ? i + 1 : last;
    for (uint32_t i = 0; i < last && opcode != TG_OP_PACKED_SLOT; i++)
        printf(" %" PRIu32, args[i]);
    if (opcode == TG_OP_PACKED_SLOT)
        print_packed_text(args);
    printf("\n");
}

static void print_list(const uint32_t *words, uint32_t n)
{
    printf("[");
    for (uint32_t i = 0; i < n; i++)
        printf("%s%" PRIu32, i ? ", " : "", words[i]);
    printf("]");
}

static void print_slot_json(const struct tg_dump *d, size_t slot, uint32_t status, uint32_t opcode)
{
    uint32_t args[TG_ARGS_PER_SLOT];
    const char *name = tg_cli_status_name(status), *op = tg_cli_opcode_name(opcode);
    struct tg_packed_view v;
    slot_args(d, slot, args);
    printf("{\"slot\": %zu, \"status\": %" PRIu32 ", ", slot, status);
    if (name)
        printf("\"status_name\": \"%s\", ", name);
    printf("\"opcode\": %" PRIu32 ", ", opcode);
    if (op)
        printf("\"opcode_name\": \"%s\", ", op);
    printf("\"tenant\": %" PRIu32 ", \"priority\": %" PRIu32 ", \"args\": ",
           tg_dump_word(d, slot * TG_SLOT_WORDS + TG_SLOT_TENANT_WORD),
           tg_dump_word(d, slot * TG_SLOT_WORDS + TG_SLOT_PRIORITY_WORD));
    print_list(args, TG_ARGS_PER_SLOT);
    if (opcode == TG_OP_PACKED_SLOT && tg_packed_decode(args, &v) == 0) {
        printf(", \"packed\": [");
        for (uint32_t i = 0; i < v.op_count; i++) {
            printf("%s{\"op\": %u, \"args\": ", i ? ", " : "", v.op_id[i]);
            print_list(args + v.first[i], v.words[i]);
            printf("}");
        }
        printf("]");
    }
    printf("}\n");
}

static void check_slot(struct tg_dump *d, size_t slot, uint32_t status, uint32_t opcode)
{
    uint32_t tenant = tg_dump_word(d, slot * TG_SLOT_WORDS + TG_SLOT_TENANT_WORD);
    uint32_t priority = tg_dump_word(d, slot * TG_SLOT_WORDS + TG_SLOT_PRIORITY_WORD);
    if (status >= TG_SLOT_STATUS_COUNT)
        tg_dump_odd(d, "slot %zu: status %" PRIu32 " is none of the wire", slot, status);
    if (status == TG_SLOT_EMPTY)
        return;
    if (tenant >= TG_TENANTS)
        tg_dump_odd(d, "slot %zu: tenant %" PRIu32 " is outside the table of 29 (E4)", slot, tenant);
    if (priority >= TG_PRIORITY_LEVELS)
        tg_dump_odd(d, "slot %zu: priority %" PRIu32 " is above 4 (E2)", slot, priority);
    uint32_t args[TG_ARGS_PER_SLOT];
    struct tg_packed_view v;
    slot_args(d, slot, args);
    if (opcode == TG_OP_PACKED_SLOT && tg_packed_decode(args, &v) != 0)
        tg_dump_odd(d, "slot %zu: malformed packed payload", slot);
}

static void print_counts(const struct tg_dump *d, size_t slots, const uint64_t counts[TG_SLOT_STATUS_COUNT])
{
    if (d->json)
        printf("{\"buffer\": \"ring\", \"slots\": %zu, \"counts\": {", slots);
    else
        printf("ring of %zu slots:", slots);
    for (uint32_t s = 0; s < TG_SLOT_STATUS_COUNT; s++) {
        if (d->json)
            printf("%s\"%s\": %" PRIu64, s ? ", " : "", tg_cli_status_name(s), counts[s]);
        else if (counts[s])
            printf(" %" PRIu64 " %s", counts[s], tg_cli_status_name(s));
    }
    printf(d->json ? "}}\n" : "\n");
}

int tg_dump_ring(struct tg_dump *d)
{
    uint64_t counts[TG_SLOT_STATUS_COUNT] = {0};
    size_t slots = d->size / TG_SLOT_BYTES;
    bool titled = false;
    if (tg_validate_ring_bytes(d->size) != 0)
        return tg_usage_error(VERB, "%.200s is no ring: %zu bytes are not a multiple of 64", d->name,
                              d->size);
    for (size_t i = 0; i < slots; i++) {
        uint32_t status = tg_dump_word(d, i * TG_SLOT_WORDS);
        if (status < TG_SLOT_STATUS_COUNT)
            counts[status]++;
    }
    print_counts(d, slots, counts);
    for (size_t i = 0; i < slots; i++) {
        uint32_t status = tg_dump_word(d, i * TG_SLOT_WORDS);
        uint32_t opcode = tg_dump_word(d, i * TG_SLOT_WORDS + TG_SLOT_OPCODE_WORD);
        check_slot(d, i, status, opcode);
        if (status == TG_SLOT_EMPTY && !d->all)
            continue;
        if (d->json) {
            print_slot_json(d, i, status, opcode);
            continue;
        }
        if (!titled)
            printf("%8s  %-10s%-13s %6s  %-8s arguments\n", "slot", "status", "opcode", "tenant", "priority");
        titled = true;
        print_slot_text(d, i, status, opcode);
    }
    return TG_EXIT_OK;
}

/* ---- The verb ----------------------------------------------------------------------------------------- */

/* Reads a file whole. 0, or -errno; -EFBIG above DUMP_BYTES_MAX. */
static int slurp(const char *name, uint8_t **ret, size_t *ret_size)
{
    int fd = strcmp(name, "-") == 0 ? STDIN_FILENO : open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    uint8_t *bytes = NULL;
    size_t size = 0, room = 0;
    int error = 0;
    for (;;) {
        if (size == room) {
            room = room ? room * 2 : 65536;
            uint8_t *more = room <= DUMP_BYTES_MAX ? realloc(bytes, room) : NULL;
            if (!more) {
                error = room <= DUMP_BYTES_MAX ? -ENOMEM : -EFBIG;
                break;
            }
            bytes = more;
        }
        ssize_t n = read(fd, bytes + size, room - size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            error = -errno;
        if (n <= 0)
            break;
        size += (size_t)n;
    }
    if (fd != STDIN_FILENO)
        close(fd);
    if (error) {
        free(bytes);
        return error;
    }
    *ret = bytes;
    *ret_size = size;
    return 0;
}

static int show(const char *name, int (*fn)(struct tg_dump *), bool json, bool all, bool *odd)
{
    uint8_t *bytes = NULL;
    size_t size = 0;
    int error = slurp(name, &bytes, &size);
    if (error) {
        tg_complain(VERB, "cannot read %.200s: %s", name, strerror(-error));
        return TG_EXIT_FAILED;
    }
    struct tg_dump d = {.name = name, .bytes = bytes, .size = size, .json = json, .all = all};
    int code = fn(&d);
    if (d.odd > 20)
        tg_complain(VERB, "%.200s: and %" PRIu64 " more like these", name, d.odd - 20);
    *odd |= d.odd != 0;
    free(bytes);
    return code;
}

int tg_verb_engine_dump(int argc, char **argv)
{
    enum { RING, CONTROL, LOG, JSON, ALL };
    static const struct tg_option table[] = {
        [RING] = {'r', "ring", true},  [CONTROL] = {'c', "control", true}, [LOG] = {'l', "log", true},
        [JSON] = {'j', "json", false}, [ALL] = {'a', "all", false},        {0, NULL, false},
    };
    static int (*const shows[])(struct tg_dump *) = {tg_dump_ring, tg_dump_control, tg_dump_log};
    struct tg_options o = {.verb = VERB, .table = table, .argc = argc, .argv = argv};
    const char *files[3] = {NULL, NULL, NULL};
    bool json = false, all = false, odd = false;
    int option, code = TG_EXIT_OK;
    while ((option = tg_next_option(&o)) != TG_OPTIONS_END) {
        if (option == TG_OPTIONS_ERROR)
            return TG_EXIT_USAGE;
        if (option <= LOG)
            files[option] = o.value;
        json |= option == JSON;
        all |= option == ALL;
    }
    if (o.at < argc)
        return tg_usage_error(VERB, "what is %s? Say --ring, --control or --log before it",
                              tg_shown(argv[o.at]));
    if (!files[RING] && !files[CONTROL] && !files[LOG])
        return tg_usage_error(VERB, "which buffer? --ring FILE, --control FILE or --log FILE");
    uint32_t inputs = 0;
    for (int i = RING; i <= LOG; i++)
        inputs += files[i] && strcmp(files[i], "-") == 0 ? 1u : 0u;
    if (inputs > 1)
        return tg_usage_error(VERB, "standard input ('-') holds one buffer, not %u", inputs);
    for (int i = RING; i <= LOG && code == TG_EXIT_OK; i++)
        if (files[i])
            code = show(files[i], shows[i], json, all, &odd);
    code = tg_flushed(VERB, code);
    return code == TG_EXIT_OK && odd ? TG_EXIT_NOT_DONE : code;
}
