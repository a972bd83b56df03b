/* SPDX-License-Identifier: Apache-2.0
 *
 * tidegate engine dump, the control buffer and the debug log (docs/abi.md has every word). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/engine_dump.h"

#define VERB "engine dump"

/* The extension words that have a meaning (docs/abi.md). */
static const struct {
    const char *name;
    uint32_t word;
} extensions[] = {
    {"fault_count", 141},        {"fault_slot", 142},           {"fault_reason", 143},
    {"log_dropped", 144},        {"partition_seq", 145},        {"foreign_first_critical", 146},
    {"foreign_first_high", 147}, {"foreign_first_normal", 148}, {"foreign_first_low", 149},
    {"foreign_first_idle", 150},
};

#define EXTENSIONS (sizeof(extensions) / sizeof(extensions[0]))
#define FIRST_UNUSED 151u

static void check_control(struct tg_dump *d)
{
    uint32_t before = 0;
    if (tg_dump_word(d, TG_CONTROL_TENANT_BASE) != TG_CONTROL_TENANT_MASKS)
        tg_dump_odd(d, "word 2 is %" PRIu32 ", but says where the tenant masks are: 3",
                    tg_dump_word(d, TG_CONTROL_TENANT_BASE));
    for (uint32_t t = 0; t < TG_TENANTS; t++) {
        uint32_t mask = tg_dump_word(d, TG_CONTROL_TENANT_MASKS + t);
        if (mask != TG_TENANT_MASK_NONE && mask != TG_TENANT_MASK_ALL)
            tg_dump_odd(
                d, "tenant %" PRIu32 ": mask 0x%08" PRIx32 " is neither 0 nor all ones; it may not run (E4)",
                t, mask);
    }
    for (uint32_t i = 0; i < TG_CONTROL_PRIORITY_OFFSETS_SLOTS; i++) {
        uint32_t offset = tg_dump_word(d, TG_CONTROL_PRIORITY_OFFSETS_BASE + i);
        if ((i == 0 && offset != 0) || offset < before)
            tg_dump_odd(d, "partition border %" PRIu32 " is %" PRIu32 "; they begin at 0 and ascend", i,
                        offset);
        before = offset;
    }
    for (uint32_t w = FIRST_UNUSED; w < TG_CONTROL_OBSERVABLE_BASE; w++)
        if (tg_dump_word(d, w) != 0)
            tg_dump_odd(d, "word %" PRIu32 " is %" PRIu32 ", but unused words are zero", w,
                        tg_dump_word(d, w));
}

/* "name": [..] of n words */
static void list_json(const struct tg_dump *d, const char *name, uint32_t first, uint32_t n)
{
    printf("\"%s\": [", name);
    for (uint32_t i = 0; i < n; i++)
        printf("%s%" PRIu32, i ? ", " : "", tg_dump_word(d, first + i));
    printf("], ");
}

static void control_json(const struct tg_dump *d)
{
    size_t words = d->size / TG_WORD_BYTES;
    printf("{\"buffer\": \"control\", \"words\": %zu, \"shutdown\": %" PRIu32 ", \"done_count\": %" PRIu32
           ", \"epoch\": %" PRIu32 ", \"starvation_counter\": %" PRIu32 ", ",
           words, tg_dump_word(d, TG_CONTROL_SHUTDOWN), tg_dump_word(d, TG_CONTROL_DONE_COUNT),
           tg_dump_word(d, TG_CONTROL_EPOCH), tg_dump_word(d, TG_CONTROL_PRIORITY_STARVATION_COUNTER));
    list_json(d, "tenant_masks", TG_CONTROL_TENANT_MASKS, TG_TENANTS);
    list_json(d, "tenant_quota", TG_CONTROL_TENANT_QUOTA_BASE, TG_CONTROL_TENANT_QUOTA_SLOTS);
    list_json(d, "tenant_claims", TG_CONTROL_TENANT_FAIRNESS_BASE, TG_CONTROL_TENANT_FAIRNESS_SLOTS);
    list_json(d, "executions", TG_CONTROL_METRICS_BASE, TG_CONTROL_METRICS_SLOTS);
    list_json(d, "partition_offsets", TG_CONTROL_PRIORITY_OFFSETS_BASE, TG_CONTROL_PRIORITY_OFFSETS_SLOTS);
    list_json(d, "level_claims", TG_CONTROL_PRIORITY_FAIRNESS_BASE, TG_CONTROL_PRIORITY_FAIRNESS_SLOTS);
    for (size_t i = 0; i < EXTENSIONS; i++)
        printf("\"%s\": %" PRIu32 ", ", extensions[i].name, tg_dump_word(d, extensions[i].word));
    printf("\"observables\": {");
    bool first = true;
    for (size_t w = TG_CONTROL_OBSERVABLE_BASE; w < words; w++) {
        if (tg_dump_word(d, w) == 0 && !d->all)
            continue;
        printf("%s\"%zu\": %" PRIu32, first ? "" : ", ", w - TG_CONTROL_OBSERVABLE_BASE, tg_dump_word(d, w));
        first = false;
    }
    printf("}}\n");
}

static void tenants_text(const struct tg_dump *d)
{
    printf("tenant   may run  quota        claims\n");
    for (uint32_t t = 0; t < TG_TENANTS; t++) {
        uint32_t mask = tg_dump_word(d, TG_CONTROL_TENANT_MASKS + t);
        uint32_t quota = tg_dump_word(d, TG_CONTROL_TENANT_QUOTA_BASE + t);
        uint32_t claims = tg_dump_word(d, TG_CONTROL_TENANT_FAIRNESS_BASE + t);
        if (!d->all && claims == 0 && (mask == 0 || quota == TG_TENANT_QUOTA_UNLIMITED))
            continue;
        printf("%6" PRIu32 "   %-7s  ", t, mask == TG_TENANT_MASK_ALL ? "yes" : mask == 0 ? "no" : "odd");
        if (quota == TG_TENANT_QUOTA_UNLIMITED)
            printf("%-11s", "unlimited");
        else
            printf("%-11" PRIu32, quota);
        printf("  %" PRIu32 "\n", claims);
    }
}

static void control_text(const struct tg_dump *d)
{
    size_t words = d->size / TG_WORD_BYTES;
    printf("control buffer of %zu words, %zu observable\n", words, words - TG_CONTROL_OBSERVABLE_BASE);
    printf("shutdown %" PRIu32 ", done %" PRIu32 ", epoch %" PRIu32
           ", claims in a row at critical or high %" PRIu32 "\n",
           tg_dump_word(d, TG_CONTROL_SHUTDOWN), tg_dump_word(d, TG_CONTROL_DONE_COUNT),
           tg_dump_word(d, TG_CONTROL_EPOCH), tg_dump_word(d, TG_CONTROL_PRIORITY_STARVATION_COUNTER));
    printf("level     first slot  claims\n");
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
        printf("%-8s  %10" PRIu32 "  %" PRIu32 "\n", tg_cli_level_name(l),
               tg_dump_word(d, TG_CONTROL_PRIORITY_OFFSETS_BASE + l),
               tg_dump_word(d, TG_CONTROL_PRIORITY_FAIRNESS_BASE + l));
    printf("%-8s  %10" PRIu32 "\n", "slots",
           tg_dump_word(d, TG_CONTROL_PRIORITY_OFFSETS_BASE + TG_PRIORITY_LEVELS));
    tenants_text(d);
    printf("executions\n");
    for (uint32_t op = 0; op < TG_CONTROL_METRICS_SLOTS; op++) {
        uint32_t n = tg_dump_word(d, TG_CONTROL_METRICS_BASE + op);
        const char *name = tg_cli_opcode_name(op);
        if (n != 0)
            printf("  %2" PRIu32 " %-13s %" PRIu32 "\n", op, name ? name : "", n);
    }
    for (size_t i = 0; i < EXTENSIONS; i++)
        if (d->all || tg_dump_word(d, extensions[i].word) != 0)
            printf("%s %" PRIu32 "\n", extensions[i].name, tg_dump_word(d, extensions[i].word));
    for (size_t w = TG_CONTROL_OBSERVABLE_BASE; w < words; w++)
        if (d->all || tg_dump_word(d, w) != 0)
            printf("observable %zu: %" PRIu32 "\n", w - TG_CONTROL_OBSERVABLE_BASE, tg_dump_word(d, w));
}

int tg_dump_control(struct tg_dump *d)
{
    if (tg_validate_control_bytes(d->size) != 0)
        return tg_usage_error(VERB,
                              "%.200s is no control buffer: %zu bytes are not whole words, or fewer than 640",
                              d->name, d->size);
    check_control(d);
    if (d->json)
        control_json(d);
    else
        control_text(d);
    return TG_EXIT_OK;
}

int tg_dump_log(struct tg_dump *d)
{
    size_t room = d->size / (TG_WORD_BYTES * TG_DEBUG_RECORD_WORDS) + 1, count;
    struct tg_debug_record *records = calloc(room, sizeof(*records));
    if (!records)
        return tg_complain(VERB, "no memory"), TG_EXIT_FAILED;
    if (tg_try_read_debug_log(d->bytes, d->size, records, room, &count) != 0) {
        free(records);
        if (d->size < TG_WORD_BYTES || d->size % TG_WORD_BYTES != 0)
            return tg_usage_error(VERB, "%.200s is no debug log: %zu bytes are not whole words with a cursor",
                                  d->name, d->size);
        return tg_usage_error(VERB,
                              "%.200s is no debug log: its cursor, %" PRIu32
                              ", is past its %zu words or inside a record of 4",
                              d->name, tg_dump_word(d, 0), d->size / TG_WORD_BYTES - 1);
    }
    if (d->json)
        printf("{\"buffer\": \"log\", \"capacity\": %zu, \"records\": %zu}\n", room - 1, count);
    else
        printf("debug log: %zu of %zu records\n%8s  %10s  %10s  %10s  %10s\n", count, room - 1, "record",
               "format", "arg", "arg", "arg");
    for (size_t i = 0; i < count; i++) {
        const struct tg_debug_record *r = &records[i];
        if (d->json)
            printf("{\"record\": %zu, \"format\": %" PRIu32 ", \"args\": [%" PRIu32 ", %" PRIu32 ", %" PRIu32
                   "]}\n",
                   i, r->fmt_id, r->args[0], r->args[1], r->args[2]);
        else
            printf("%8zu  %10" PRIu32 "  %10" PRIu32 "  %10" PRIu32 "  %10" PRIu32 "\n", i, r->fmt_id,
                   r->args[0], r->args[1], r->args[2]);
    }
    free(records);
    return TG_EXIT_OK;
}
