/* SPDX-License-Identifier: Apache-2.0
 * See config.h. */
#include "broker/config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "broker/ticket.h"

#define LOAD_MAX UINT64_C(1000000)
#define DEFAULT_MB UINT64_C(1000)
#define IDLE_EXIT_MS UINT64_C(60000)
#define IDLE_EXIT_MAX_MS (UINT64_C(365) * 86400000)

const char *const tg_config_keys[TG_CONFIG_KEYS] = {"slots",     "load",       "floor-mb", "backfill-mb",
                                                    "budget-mb", "default-mb", "idle-exit"};

void tg_config_defaults(struct tg_config *ret)
{
    *ret = (struct tg_config){.slots_auto = true,
                              .load = TG_LOAD_GATE_AUTO,
                              .floor_mb = TG_DEFAULT_FLOOR_MB,
                              .backfill_mb = TG_DEFAULT_BACKFILL_MB,
                              .budget_mb = TG_NO_BUDGET,
                              .default_mb = DEFAULT_MB,
                              .idle_exit_ms = IDLE_EXIT_MS};
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
    if (tg_parse_duration_ms(value, &ms) || ms > IDLE_EXIT_MAX_MS)
        return -EINVAL;
    c->idle_exit_ms = ms;
    return 0;
}

/* The rule of each key, for the message. */
static const char *const rules[TG_CONFIG_KEYS] = {
    "a number from 0 to 1000000, or auto (the usable cores)",
    "a limit above 0 such as 2 or 1.5 (at most 1000000), auto (the usable cores), or off",
    "a size in MB, or with a suffix M, G or T",
    "a size in MB, or with a suffix M, G or T",
    "a size in MB, or with a suffix M, G or T, for all estimates together, or off",
    "a size in MB, or with a suffix M, G or T",
    "a duration in seconds, or with a suffix ms, s, m, h or d, at most 365 days; 0 is never",
};

static int key_index(const char *key)
{
    for (unsigned i = 0; i < TG_CONFIG_KEYS; i++) {
        if (strcmp(key, tg_config_keys[i]) == 0)
            return (int)i;
    }
    return -1;
}

int tg_config_set(struct tg_config *config, const char *key, const char *value, char *why, size_t size)
{
    int err = -EINVAL;
    int i = key_index(key);
    switch (i) {
    case 0:
        err = set_slots(config, value);
        break;
    case 1:
        err = set_load(config, value);
        break;
    case 2:
        err = set_mb(&config->floor_mb, value);
        break;
    case 3:
        err = set_mb(&config->backfill_mb, value);
        break;
    case 4:
        err = set_budget(config, value);
        break;
    case 5:
        err = set_mb(&config->default_mb, value);
        break;
    case 6:
        err = set_idle_exit(config, value);
        break;
    default:
        snprintf(why, size,
                 "there is no setting '%.60s': the settings are slots, load, floor-mb, backfill-mb, "
                 "budget-mb, default-mb and idle-exit",
                 key);
        return -ENOENT;
    }
    if (err)
        snprintf(why, size, "%s '%.60s': must be %s", key, value, rules[i]);
    return err;
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

int tg_config_get(const struct tg_config *config, const char *key, char *ret, size_t size)
{
    switch (key_index(key)) {
    case 0:
        if (config->slots_auto)
            snprintf(ret, size, "auto");
        else
            snprintf(ret, size, "%u", config->slots);
        return 0;
    case 1:
        print_load(config, ret, size);
        return 0;
    case 2:
        snprintf(ret, size, "%" PRIu64, config->floor_mb);
        return 0;
    case 3:
        snprintf(ret, size, "%" PRIu64, config->backfill_mb);
        return 0;
    case 4:
        if (config->budget_mb == TG_NO_BUDGET)
            snprintf(ret, size, "off");
        else
            snprintf(ret, size, "%" PRIu64, config->budget_mb);
        return 0;
    case 5:
        snprintf(ret, size, "%" PRIu64, config->default_mb);
        return 0;
    case 6:
        if (config->idle_exit_ms % 1000 == 0)
            snprintf(ret, size, "%" PRIu64, config->idle_exit_ms / 1000);
        else
            snprintf(ret, size, "%" PRIu64 "ms", config->idle_exit_ms);
        return 0;
    default:
        return -ENOENT;
    }
}

struct tg_gates tg_config_gates(const struct tg_config *config, unsigned cores)
{
    uint64_t load = config->load == TG_LOAD_GATE_OFF    ? TG_LOAD_OFF
                    : config->load == TG_LOAD_GATE_AUTO ? (uint64_t)cores * 1000
                                                        : config->load_limit_milli;
    return (struct tg_gates){.slots = config->slots_auto ? cores : config->slots,
                             .overtake_bound = TG_DEFAULT_OVERTAKE_BOUND,
                             .load_limit_milli = load,
                             .floor_mb = config->floor_mb,
                             .backfill_mb = config->backfill_mb,
                             .budget_mb = config->budget_mb};
}
