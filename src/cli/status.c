/* SPDX-License-Identifier: Apache-2.0
 *
 * tidegate status: who holds, who waits and why, what the gates say, where broker and store are. The first
 * line is the prototype's. With --json standard output is the broker's answer and nothing else (W16). What
 * came from the broker is checked and made printable.
 */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char verb[] = "status";

static uint64_t number(const json_t *object, const char *key)
{
    return tg_number_field(object, key);
}

static const char *text_of(const json_t *object, const char *key)
{
    return tg_shown_field(object, key);
}

static void print_row(const json_t *t, const char *state, const char *time_key)
{
    char prio[24], est[24] = "-", since[32];
    const char *level = json_string_value(json_object_get(t, "level"));
    int64_t n = 0;
    uint64_t mb;
    (void)tg_field_i64(t, "prio", INT64_MIN, INT64_MAX, &n);
    snprintf(prio, sizeof(prio), "%" PRId64, n);
    if (tg_field_u64(t, "est_mb", 0, INT64_MAX, &mb) == 0)
        snprintf(est, sizeof(est), "%" PRIu64 "M", mb);
    tg_format_duration(since, sizeof(since), number(t, time_key));
    printf("%6" PRIu64 "  %-8s %-8s %8s %8s %8" PRIu64 "  %-10s %s\n", number(t, "ticket"), state,
           level && strlen(level) < 16 ? text_of(t, "level") : prio, est, since, number(t, "pid"),
           text_of(t, "tenant"), text_of(t, "cmd"));
}

/* A ticket whose command has ended is held by what that left behind. */
static void print_holder(const json_t *t)
{
    bool ended = json_is_true(json_object_get(t, "main_ended"));
    uint64_t survivors = number(t, "survivors"), let_go = number(t, "let_go");
    print_row(t,
              json_is_true(json_object_get(t, "cancelled")) ? "ending"
              : ended                                       ? "left"
              : json_is_true(json_object_get(t, "stopped")) ? "stopped"
                                                            : "holds",
              "held_ms");
    if (ended)
        printf("        survivors: %" PRIu64 ", processes that its command started and left behind",
               survivors);
    if (ended && let_go > 0)
        printf(" (%" PRIu64 " more have left its session and hold nothing)", let_go);
    if (ended)
        printf("\n");
}

static void print_waiter(const json_t *t)
{
    char state[32] = "parked";
    if (json_is_true(json_object_get(t, "on_hold")))
        snprintf(state, sizeof(state), "on hold");
    else if (strcmp(text_of(t, "state"), "PARKED") != 0)
        snprintf(state, sizeof(state), "#%" PRIu64, number(t, "position"));
    bool passed_over = strcmp(text_of(t, "why"), "stopped") == 0;
    bool stopped = json_is_true(json_object_get(t, "stopped")) && !passed_over;
    if (passed_over)
        snprintf(state, sizeof(state), "stopped");
    print_row(t, state, "waited_ms");
    if (json_is_string(json_object_get(t, "text")))
        printf("        %s%s\n", text_of(t, "text"), stopped ? " (its process is stopped)" : "");
}

static void print_load(const json_t *load)
{
    const json_t *now = json_object_get(load, "now"), *limit = json_object_get(load, "limit");
    if (json_is_number(now))
        printf("load %.2f", json_number_value(now));
    else
        printf("load unknown");
    if (json_is_number(limit))
        printf(" of %.2f", json_number_value(limit));
    else
        printf(" (gate off)");
}

static void print_gates(const json_t *gates)
{
    const json_t *slots = json_object_get(gates, "slots"), *memory = json_object_get(gates, "memory");
    printf("slots %" PRIu64 " of %" PRIu64 ", ", number(slots, "held"), number(slots, "limit"));
    print_load(json_object_get(gates, "load"));
    if (json_is_integer(json_object_get(memory, "available_mb")))
        printf(", memory %" PRIu64 " MB available of %" PRIu64, number(memory, "available_mb"),
               number(memory, "total_mb"));
    else
        printf(", memory unknown");
    printf(" (%" PRIu64 " reserved, floor %" PRIu64 ")", number(memory, "reserved_mb"),
           number(memory, "floor_mb"));
    if (json_is_integer(json_object_get(memory, "budget_mb")))
        printf(", budget %" PRIu64 " of %" PRIu64 " MB", number(memory, "booked_mb"),
               number(memory, "budget_mb"));
    printf(", backfill up to %" PRIu64 " MB\n", number(gates, "backfill_mb"));
    if (json_is_true(json_object_get(gates, "draining")))
        puts("drained: nobody is admitted until tidegate undrain");
}

/* What is wrong with the store, if anything. */
static void print_trouble(const json_t *store)
{
    if (json_is_string(json_object_get(store, "failing")))
        printf("nobody is admitted: the store refuses: %s\n", text_of(store, "failing"));
    if (json_is_string(json_object_get(store, "quarantined")))
        printf("a damaged store was moved to %s\n", text_of(store, "quarantined"));
    if (number(store, "recognised") > 0)
        printf("%" PRIu64 " running commands of a lost store were recognised by their marks\n",
               number(store, "recognised"));
    if (number(store, "dropped_rows") > 0)
        printf("%" PRIu64 " damaged rows of the store were dropped\n", number(store, "dropped_rows"));
}

static void print_human(const json_t *reply)
{
    const json_t *holders = json_object_get(reply, "holders"), *waiters = json_object_get(reply, "waiters");
    const json_t *broker = json_object_get(reply, "broker"), *store = json_object_get(reply, "store");
    size_t i;
    json_t *t;
    printf("%sholders=%zu waiters=%zu\n", tg_line_prefix(), json_array_size(holders),
           json_array_size(waiters));
    if (tg_prototype)
        return;
    print_gates(json_object_get(reply, "gates"));
    if (json_array_size(holders) + json_array_size(waiters) > 0)
        printf("\n%6s  %-8s %-8s %8s %8s %8s  %-10s %s\n", "ID", "STATE", "PRIO", "MEMORY", "SINCE", "PID",
               "TENANT", "COMMAND");
    json_array_foreach(holders, i, t) print_holder(t);
    json_array_foreach(waiters, i, t) print_waiter(t);
    printf("\nbroker %s, pid %" PRIu64 ", on %s\n", text_of(broker, "version"), number(broker, "pid"),
           text_of(broker, "socket"));
    printf("store %s (%s)\n", text_of(store, "path"), text_of(store, "uuid"));
    print_trouble(store);
}

int tg_verb_status(int argc, char **argv)
{
    bool json;
    int at = tg_only_option(verb, 'j', "json", argc, argv, &json);
    if (at == TG_OPTIONS_ERROR)
        return TG_EXIT_USAGE;
    if (at < argc)
        return tg_usage_error(verb, "takes no argument, but got %s", tg_shown(argv[at]));
    return tg_ask_and_show(verb, json_pack("{s:s}", "op", "status"), json, print_human);
}
