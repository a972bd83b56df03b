/* SPDX-License-Identifier: Apache-2.0
 * Options and strict arguments; see cli.h. Rows N1 to N5: the whole text is the value, or it is refused
 * by name. */
#include "cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"

static int unknown(const struct tg_options *o, const char *shown)
{
    tg_usage_error(o->verb, "there is no option %s (see tidegate %s --help)", shown, o->verb);
    return TG_OPTIONS_ERROR;
}

static int found(struct tg_options *o, size_t i, const char *attached, const char *shown)
{
    o->value = attached;
    if (!o->table[i].takes_value) {
        if (attached) {
            tg_usage_error(o->verb, "the option %s takes no value", shown);
            return TG_OPTIONS_ERROR;
        }
        return (int)i;
    }
    if (!o->value && o->at < o->argc)
        o->value = o->argv[o->at++];
    if (!o->value) {
        tg_usage_error(o->verb, "the option %s needs a value", shown);
        return TG_OPTIONS_ERROR;
    }
    return (int)i;
}

static int long_option(struct tg_options *o, const char *word)
{
    const char *name = word + 2;
    size_t n = strcspn(name, "=");
    for (size_t i = 0; o->table[i].name; i++) {
        if (strlen(o->table[i].name) == n && strncmp(o->table[i].name, name, n) == 0)
            return found(o, i, name[n] == '=' ? name + n + 1 : NULL, tg_shown(word));
    }
    return unknown(o, tg_shown(word));
}

/* "-v", "-qv", "-p4" or "-p 4". */
static int short_option(struct tg_options *o, const char *word)
{
    char shown[3] = {'-', word[o->in_cluster], '\0'};
    size_t i = 0;
    while (o->table[i].name && o->table[i].letter != shown[1])
        i++;
    if (!o->table[i].name)
        return unknown(o, tg_shown(shown));
    const char *rest = word + o->in_cluster + 1;
    if (!o->table[i].takes_value && *rest) {
        o->in_cluster++;
        return found(o, i, NULL, tg_shown(shown));
    }
    o->in_cluster = 0;
    o->at++;
    return found(o, i, *rest ? rest : NULL, tg_shown(shown));
}

int tg_next_option(struct tg_options *o)
{
    if (o->at == 0)
        o->at = 1;
    if (o->at >= o->argc)
        return TG_OPTIONS_END;
    const char *word = o->argv[o->at];
    if (o->in_cluster > 0)
        return short_option(o, word);
    if (word[0] != '-' || word[1] == '\0' || (word[1] >= '0' && word[1] <= '9'))
        return TG_OPTIONS_END;
    if (word[1] != '-') {
        o->in_cluster = 1;
        return short_option(o, word);
    }
    o->at++;
    return word[2] == '\0' ? TG_OPTIONS_END : long_option(o, word);
}

int tg_only_option(const char *verb, char letter, const char *name, int argc, char **argv, bool *ret)
{
    const struct tg_option table[] = {{letter, name, false}, {0, NULL, false}};
    struct tg_options o = {.verb = verb, .table = table, .argc = argc, .argv = argv};
    int option;
    *ret = false;
    while ((option = tg_next_option(&o)) >= 0)
        *ret = true;
    return option == TG_OPTIONS_ERROR ? option : o.at;
}

bool tg_arg_i64(const char *verb, const char *what, const char *text, int64_t min, int64_t max, int64_t *ret)
{
    if (tg_parse_i64(text, min, max, ret) == 0)
        return true;
    tg_usage_error(verb, "%s is %s, but must be a whole number from %" PRId64 " to %" PRId64, what,
                   tg_shown(text), min, max);
    return false;
}

bool tg_arg_u64(const char *verb, const char *what, const char *text, uint64_t min, uint64_t max,
                uint64_t *ret)
{
    if (tg_parse_u64(text, min, max, ret) == 0)
        return true;
    tg_usage_error(verb, "%s is %s, but must be a whole number from %" PRIu64 " to %" PRIu64, what,
                   tg_shown(text), min, max);
    return false;
}

/* 2^22 is the largest pid that Linux can be set to use; 0, 1 and -1 never are an owner (L13). */
bool tg_arg_pid(const char *verb, const char *text, int *ret)
{
    uint64_t pid;
    if (!tg_arg_u64(verb, "the pid", text, 2, UINT64_C(1) << 22, &pid))
        return false;
    *ret = (int)pid;
    return true;
}

bool tg_arg_duration(const char *verb, const char *what, const char *text, uint64_t *ret_ms)
{
    uint64_t ms;
    if (tg_parse_duration_ms(text, &ms) == 0 && ms <= TG_WAIT_MS_MAX) {
        *ret_ms = ms;
        return true;
    }
    tg_usage_error(
        verb,
        "%s is %s, but must be a whole number with ms, s, m, h or d (seconds when there is none), at "
        "most 100 years",
        what, tg_shown(text));
    return false;
}

bool tg_arg_ticket(const char *verb, const char *text, uint64_t *ret)
{
    return tg_arg_u64(verb, "the ticket", text, 1, INT64_MAX, ret);
}

bool tg_arg_level(const char *verb, const char *text, int64_t *ret)
{
    static const char *const names[] = {"idle", "low", "normal", "high", "critical"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(text, names[i]) == 0) {
            *ret = (int64_t)i;
            return true;
        }
    }
    if (tg_parse_i64(text, TG_PRIO_MIN, TG_PRIO_MAX, ret) == 0)
        return true;
    tg_usage_error(verb,
                   "the priority is %s, but must be critical, high, normal, low, idle (4 to 0) or a whole "
                   "number from %d to %d",
                   tg_shown(text), TG_PRIO_MIN, TG_PRIO_MAX);
    return false;
}
