/* SPDX-License-Identifier: Apache-2.0
 *
 * The broker's settings: the gates (A10: capacity is configured here and nowhere else), the default estimate
 * and the time after which an idle broker ends. Values are texts in the store and on the socket; the whole
 * text must be a value (N1 to N5). Pure; no I/O.
 */
#ifndef TG_BROKER_CONFIG_H
#define TG_BROKER_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tidegate/policy.h>

enum tg_load_gate { TG_LOAD_GATE_AUTO, TG_LOAD_GATE_LIMIT, TG_LOAD_GATE_OFF };

struct tg_config {
    bool slots_auto; /* usable cores */
    uint32_t slots;  /* 0: admit nobody, everybody waits */
    enum tg_load_gate load;
    uint64_t load_limit_milli;
    uint32_t load_least; /* so many slots are given whatever the load */
    uint64_t floor_mb;
    uint64_t backfill_mb;
    uint32_t overtake_bound; /* how often the front may be passed (A3) */
    uint64_t budget_mb;      /* of all estimates together; TG_NO_BUDGET: no such gate */
    uint64_t default_mb;
    uint32_t pressure_memory; /* hundredths of a percent; 0: off */
    uint32_t pressure_cpu;
    bool zfs_arc;           /* what ZFS would give back counts as available (M5) */
    uint64_t idle_exit_ms;  /* 0: never */
    uint32_t output_keep;   /* of how many ended detached jobs the output stays */
    uint64_t output_max_mb; /* a detached job's output is cut there; 0: off */
    bool drain;             /* nobody is admitted; everybody keeps his place */
    bool strict;            /* plain FIFO within a priority: no turns of the tenants, no backfill */
    uint64_t ageing_ms;     /* a waiter gains a level each time it has waited so long; 0: never */
};

#define TG_CONFIG_VALUE_BYTES 32u
#define TG_CONFIG_KEYS 17u

/* The name of key 0 .. TG_CONFIG_KEYS - 1, in the order they are shown; NULL past them. */
const char *tg_config_key(unsigned index);

void tg_config_defaults(struct tg_config *ret);

/* Sets one key. 0; -ENOENT: no such key; -EINVAL: not a value of it. On error *why (size bytes) names the
 * value and the rule, and nothing has changed. */
int tg_config_set(struct tg_config *config, const char *key, const char *value, char *why, size_t size);

/* The value of a key as text, in the form tg_config_set takes. 0 or -ENOENT. */
int tg_config_get(const struct tg_config *config, const char *key, char *ret, size_t size);

/* The gates in force on a machine with so many usable cores. */
struct tg_gates tg_config_gates(const struct tg_config *config, unsigned cores);

#endif
