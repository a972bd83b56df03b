/* SPDX-License-Identifier: Apache-2.0
 * See config.h. */
#include "broker/config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "broker/ticket.h"

#define OVERTAKE_BOUND_MAX UINT64_C(1000000)
#define LOAD_MAX UINT64_C(1000000)
#define DEFAULT_MB UINT64_C(1000)
#define PRESSURE_MEMORY 2000u /* a fifth of the time: the machine is shuffling pages, not working */
#define OUTPUT_KEEP 1000u
#define OUTPUT_KEEP_MAX UINT64_C(100000)
#define IDLE_EXIT_MS UINT64_C(60000)
#define DURATION_MAX_MS (UINT64_C(365) * 86400000)

void tg_config_defaults(struct tg_config *ret)
{
    *ret = (struct tg_config){.slots_auto = true,
                              .load = TG_LOAD_GATE_AUTO,
                              .floor_mb = TG_DEFAULT_FLOOR_MB,
                              .backfill_mb = TG_DEFAULT_BACKFILL_MB,
                              .budget_mb = TG_NO_BUDGET,
                              .overtake_bound = TG_DEFAULT_OVERTAKE_BOUND,
                              .default_mb = DEFAULT_MB,
                              .pressure_memory = PRESSURE_MEMORY,
                              .idle_exit_ms = IDLE_EXIT_MS,
                              .output_keep = OUTPUT_KEEP};
}

static int set_slots(struct tg_config *c, const char *value)
{
    uint64_t n = 0;
    bool automatic = strcmp(value, "auto") == 0;
    if (!automatic && tg_parse_u64(value, 0, TG_SLOTS_MAX, &n))
        return -EINVAL;
    c->slots_auto = automatic;
    c->slots = (uint32_t)n;
    return 0;
}

/* Digits, and perhaps a point and one to three digits more, in thousandths. */
static int parse_milli(const char *value, uint64_t *ret)
{
    char whole[16];
    const char *point = strchr(value, '.');
    size_t n = point ? (size_t)(point - value) : strlen(value);
    if (n >= sizeof(whole))
        return -EINVAL;
    memcpy(whole, value, n);
    whole[n] = '\0';
    uint64_t units;
    uint64_t part = 0;
    if (tg_parse_u64(whole, 0, LOAD_MAX, &units))
        return -EINVAL;
    if (point) {
        size_t digits = strlen(point + 1);
        if (digits < 1 || digits > 3 || tg_parse_u64(point + 1, 0, 999, &part))
            return -EINVAL;
        for (; digits < 3; digits++)
            part *= 10;
    }
    *ret = units * 1000 + part;
    return 0;
}

static int set_load(struct tg_config *c, const char *value)
{
    uint64_t milli = 0;
    enum tg_load_gate gate = TG_LOAD_GATE_LIMIT;
    if (strcmp(value, "auto") == 0)
        gate = TG_LOAD_GATE_AUTO;
    else if (strcmp(value, "off") == 0)
        gate = TG_LOAD_GATE_OFF;
    else if (parse_milli(value, &milli) || milli == 0)
        return -EINVAL;
    c->load = gate;
    c->load_limit_milli = milli;
    return 0;
}

static int set_load_least(struct tg_config *c, const char *value)
{
    uint64_t n;
    if (tg_parse_u64(value, 0, TG_SLOTS_MAX, &n))
        return -EINVAL;
    c->load_least = (uint32_t)n;
    return 0;
}

static int set_mb(uint64_t *field, const char *value)
{
    uint64_t mb;
    if (tg_parse_size_mb(value, &mb))
        return -EINVAL;
    *field = mb;
    return 0;
}

static int set_budget(struct tg_config *c, const char *value)
{
    if (strcmp(value, "off") != 0)
        return set_mb(&c->budget_mb, value);
    c->budget_mb = TG_NO_BUDGET;
    return 0;
}

static int set_idle_exit(struct tg_config *c, const char *value)
{
    uint64_t ms;
    if (tg_parse_duration_ms(value, &ms) || ms > DURATION_MAX_MS)
        return -EINVAL;
    c->idle_exit_ms = ms;
    return 0;
}

static int set_switch(bool *field, const char *value)
{
    bool on = strcmp(value, "on") == 0;
    if (!on && strcmp(value, "off") != 0)
        return -EINVAL;
    *field = on;
    return 0;
}

static int set_strict(struct tg_config *c, const char *value)
{
    return set_switch(&c->strict, value);
}

static int set_ageing(struct tg_config *c, const char *value)
{
    uint64_t ms = 0;
    if (strcmp(value, "off") != 0 && (tg_parse_duration_ms(value, &ms) || ms == 0 || ms > DURATION_MAX_MS))
        return -EINVAL;
    c->ageing_ms = ms;
    return 0;
}

static int set_drain(struct tg_config *c, const char *value)
{
    return set_switch(&c->drain, value);
}

static int set_overtake_bound(struct tg_config *c, const char *value)
{
    uint64_t n;
    if (tg_parse_u64(value, 0, OVERTAKE_BOUND_MAX, &n))
        return -EINVAL;
    c->overtake_bound = (uint32_t)n;
    return 0;
}

static int set_pressure(uint32_t *field, const char *value)
{
    uint64_t milli = 0;
    if (strcmp(value, "off") != 0 &&
        (parse_milli(value, &milli) || milli == 0 || milli > 100000 || milli % 10 != 0))
        return -EINVAL;
    *field = (uint32_t)(milli / 10);
    return 0;
}

static int set_pressure_memory(struct tg_config *c, const char *value)
{
    return set_pressure(&c->pressure_memory, value);
}

static int set_pressure_cpu(struct tg_config *c, const char *value)
{
    return set_pressure(&c->pressure_cpu, value);
}

static int set_zfs_arc(struct tg_config *c, const char *value)
{
    if (strcmp(value, "on") != 0 && strcmp(value, "off") != 0)
        return -EINVAL;
    c->zfs_arc = strcmp(value, "on") == 0;
    return 0;
}

static int set_output_keep(struct tg_config *c, const char *value)
{
    uint64_t n;
    if (tg_parse_u64(value, 0, OUTPUT_KEEP_MAX, &n))
        return -EINVAL;
    c->output_keep = (uint32_t)n;
    return 0;
}

static int set_output_max(struct tg_config *c, const char *value)
{
    uint64_t mb = 0;
    if (strcmp(value, "off") != 0 && (tg_parse_size_mb(value, &mb) || mb == 0 || mb > TG_EST_MAX_MB))
        return -EINVAL;
    c->output_max_mb = mb;
    return 0;
}

static int set_floor(struct tg_config *c, const char *value)
{
    return set_mb(&c->floor_mb, value);
}

static int set_backfill(struct tg_config *c, const char *value)
{
    return set_mb(&c->backfill_mb, value);
}

static int set_default(struct tg_config *c, const char *value)
{
    return set_mb(&c->default_mb, value);
}

static void print_slots(const struct tg_config *c, char *ret, size_t size)
{
    if (c->slots_auto)
        snprintf(ret, size, "auto");
    else
        snprintf(ret, size, "%u", c->slots);
}

static void print_load(const struct tg_config *c, char *ret, size_t size)
{
    if (c->load != TG_LOAD_GATE_LIMIT) {
        snprintf(ret, size, "%s", c->load == TG_LOAD_GATE_OFF ? "off" : "auto");
        return;
    }
    uint64_t part = c->load_limit_milli % 1000;
    if (part == 0)
        snprintf(ret, size, "%" PRIu64, c->load_limit_milli / 1000);
    else
        snprintf(ret, size, "%" PRIu64 ".%03" PRIu64, c->load_limit_milli / 1000, part);
}

static void print_load_least(const struct tg_config *c, char *ret, size_t size)
{
    snprintf(ret, size, "%u", c->load_least);
}

static void print_floor(const struct tg_config *c, char *ret, size_t size)
{
    snprintf(ret, size, "%" PRIu64, c->floor_mb);
}

static void print_backfill(const struct tg_config *c, char *ret, size_t size)
{
    snprintf(ret, size, "%" PRIu64, c->backfill_mb);
}

static void print_budget(const struct tg_config *c, char *ret, size_t size)
{
    if (c->budget_mb == TG_NO_BUDGET)
        snprintf(ret, size, "off");
    else
        snprintf(ret, size, "%" PRIu64, c->budget_mb);
}

static void print_default(const struct tg_config *c, char *ret, size_t size)
{
    snprintf(ret, size, "%" PRIu64, c->default_mb);
}

static void print_overtake_bound(const struct tg_config *c, char *ret, size_t size)
{
    snprintf(ret, size, "%u", c->overtake_bound);
}

static void print_pressure(uint32_t limit, char *ret, size_t size)
{
    if (limit == 0)
        snprintf(ret, size, "off");
    else if (limit % 100 == 0)
        snprintf(ret, size, "%u", limit / 100);
    else
        snprintf(ret, size, "%u.%02u", limit / 100, limit % 100);
}

static void print_pressure_memory(const struct tg_config *c, char *ret, size_t size)
{
    print_pressure(c->pressure_memory, ret, size);
}

static void print_pressure_cpu(const struct tg_config *c, char *ret, size_t size)
{
    print_pressure(c->pressure_cpu, ret, size);
}

static void print_zfs_arc(const struct tg_config *c, char *ret, size_t size)
{
    snprintf(ret, size, "%s", c->zfs_arc ? "on" : "off");
}

static void print_drain(const struct tg_config *c, char *ret, size_t size)
{
    snprintf(ret, size, "%s", c->drain ? "on" : "off");
}

static void print_output_keep(const struct tg_config *c, char *ret, size_t size)
{
    snprintf(ret, size, "%u", c->output_keep);
}

static void print_output_max(const struct tg_config *c, char *ret, size_t size)
{
    if (c->output_max_mb == 0)
        snprintf(ret, size, "off");
    else
        snprintf(ret, size, "%" PRIu64, c->output_max_mb);
}

static void print_duration(uint64_t ms, char *ret, size_t size)
{
    if (ms % 1000 == 0)
        snprintf(ret, size, "%" PRIu64, ms / 1000);
    else
        snprintf(ret, size, "%" PRIu64 "ms", ms);
}

static void print_idle_exit(const struct tg_config *c, char *ret, size_t size)
{
    print_duration(c->idle_exit_ms, ret, size);
}

static void print_strict(const struct tg_config *c, char *ret, size_t size)
{
    snprintf(ret, size, "%s", c->strict ? "on" : "off");
}

static void print_ageing(const struct tg_config *c, char *ret, size_t size)
{
    if (c->ageing_ms == 0)
        snprintf(ret, size, "off");
    else
        print_duration(c->ageing_ms, ret, size);
}

#define PRESSURE_RULE "a percentage above 0 and up to 100, with at most two digits behind the point, or off"
#define SIZE_RULE "a size in MB, or with a suffix M, G or T"

/* The settings in the order they are shown; rule is what the message of a refusal says. */
static const struct setting {
    const char *key;
    const char *rule;
    int (*set)(struct tg_config *c, const char *value);
    void (*print)(const struct tg_config *c, char *ret, size_t size);
} settings[TG_CONFIG_KEYS] = {
    {"slots", "a number from 0 to 1000000, or auto (the usable cores)", set_slots, print_slots},
    {"load", "a limit above 0 such as 2 or 1.5 (at most 1000000), auto (the usable cores), or off", set_load,
     print_load},
    {"load-least", "a number from 0 to 1000000, of slots that are given whatever the load", set_load_least,
     print_load_least},
    {"floor-mb", SIZE_RULE, set_floor, print_floor},
    {"backfill-mb", SIZE_RULE, set_backfill, print_backfill},
    {"budget-mb", SIZE_RULE ", for all estimates together, or off", set_budget, print_budget},
    {"default-mb", SIZE_RULE, set_default, print_default},
    {"overtake-bound", "a number from 0 (the front is never passed) to 1000000", set_overtake_bound,
     print_overtake_bound},
    {"pressure-memory", PRESSURE_RULE, set_pressure_memory, print_pressure_memory},
    {"pressure-cpu", PRESSURE_RULE, set_pressure_cpu, print_pressure_cpu},
    {"zfs-arc", "on or off", set_zfs_arc, print_zfs_arc},
    {"idle-exit", "a duration in seconds, or with a suffix ms, s, m, h or d, at most 365 days; 0 is never",
     set_idle_exit, print_idle_exit},
    {"output-keep", "a number from 0 to 100000, of ended detached jobs whose output stays", set_output_keep,
     print_output_keep},
    {"output-max-mb", "a size in MB above 0, or with a suffix M, G or T, or off", set_output_max,
     print_output_max},
    {"strict", "on (plain FIFO within a priority: no turns of the tenants, nobody passes) or off", set_strict,
     print_strict},
    {"ageing",
     "a duration in seconds, or with a suffix ms, s, m, h or d, at most 365 days, for each of which a waiter "
     "gains a level; or off",
     set_ageing, print_ageing},
    {"drain", "on (nobody is admitted, running commands go on) or off", set_drain, print_drain},
};

const char *tg_config_key(unsigned index)
{
    return index < TG_CONFIG_KEYS ? settings[index].key : NULL;
}

static const struct setting *find(const char *key)
{
    for (unsigned i = 0; i < TG_CONFIG_KEYS; i++) {
        if (strcmp(key, settings[i].key) == 0)
            return &settings[i];
    }
    return NULL;
}

static void list_keys(char *ret, size_t size)
{
    size_t used = 0;
    for (unsigned i = 0; i < TG_CONFIG_KEYS && used < size; i++) {
        const char *lead = i == 0 ? "" : i + 1 == TG_CONFIG_KEYS ? " and " : ", ";
        used += (size_t)snprintf(ret + used, size - used, "%s%s", lead, settings[i].key);
    }
}

int tg_config_set(struct tg_config *config, const char *key, const char *value, char *why, size_t size)
{
    const struct setting *s = find(key);
    if (!s) {
        char keys[256];
        list_keys(keys, sizeof(keys));
        snprintf(why, size, "there is no setting '%.60s': the settings are %s", key, keys);
        return -ENOENT;
    }
    int err = s->set(config, value);
    if (err)
        snprintf(why, size, "%s '%.60s': must be %s", key, value, s->rule);
    return err;
}

int tg_config_get(const struct tg_config *config, const char *key, char *ret, size_t size)
{
    const struct setting *s = find(key);
    if (!s)
        return -ENOENT;
    s->print(config, ret, size);
    return 0;
}

struct tg_gates tg_config_gates(const struct tg_config *config, unsigned cores)
{
    uint64_t load = config->load == TG_LOAD_GATE_OFF    ? TG_LOAD_OFF
                    : config->load == TG_LOAD_GATE_AUTO ? (uint64_t)cores * 1000
                                                        : config->load_limit_milli;
    return (struct tg_gates){.slots = config->slots_auto ? cores : config->slots,
                             .overtake_bound = config->overtake_bound,
                             .load_limit_milli = load,
                             .floor_mb = config->floor_mb,
                             .backfill_mb = config->backfill_mb,
                             .budget_mb = config->budget_mb,
                             .load_margin_milli = load == TG_LOAD_OFF ? 0 : tg_load_margin(load),
                             .load_least_slots = config->load_least,
                             .pressure_memory = config->pressure_memory,
                             .pressure_cpu = config->pressure_cpu,
                             .strict = config->strict};
}
