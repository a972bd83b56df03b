/* SPDX-License-Identifier: Apache-2.0
 *
 * tidegate why: what keeps a ticket waiting (V2): the gate and its numbers, who is ahead, who holds what it
 * waits for, and when it is expected to start, where that is known. The broker's decision says so; this
 * prints.
 */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char verb[] = "why";

static const char *level_of(const json_t *t)
{
    static char text[24];
    int64_t n = 0;
    if (json_is_string(json_object_get(t, "level")))
        return tg_shown_field(t, "level");
    (void)tg_field_i64(t, "prio", INT64_MIN, INT64_MAX, &n);
    snprintf(text, sizeof(text), "%" PRId64, n);
    return text;
}

static void print_job(const json_t *job)
{
    char waited[32];
    uint64_t ms;
    tg_format_duration(waited, sizeof(waited), tg_number_field(job, "waited_ms"));
    printf("  %s\n", tg_shown_field(job, "cmd"));
    printf("  priority %s, estimate %" PRIu64 " MB (%s), slots %" PRIu64 ", tenant %s, pid %" PRIu64
           ", waited %s\n",
           level_of(job), tg_number_field(job, "est_mb"), tg_shown_field(job, "estimate"),
           tg_number_field(job, "slots"), tg_shown_field(job, "tenant"), tg_number_field(job, "pid"), waited);
    if (tg_field_u64(job, "expected_start_ms", 0, INT64_MAX, &ms) == 0) {
        tg_format_duration(waited, sizeof(waited), ms);
        printf("  expected to start in %s, as far as run times are known\n", waited);
    }
}

static void print_blocker(const json_t *reply)
{
    const json_t *blocker = json_object_get(reply, "blocker");
    if (json_is_object(blocker))
        printf("ticket %" PRIu64 ", which comes first, %s\n  %s\n", tg_number_field(blocker, "ticket"),
               tg_shown_field(blocker, "text"), tg_shown_field(blocker, "cmd"));
}

static void print_more(uint64_t all, size_t shown)
{
    if (all > shown)
        printf("  and %" PRIu64 " more\n", all - shown);
}

static void print_ahead(const json_t *reply)
{
    const json_t *list = json_object_get(reply, "ahead_tickets");
    size_t i;
    json_t *t;
    if (json_array_size(list) == 0)
        return;
    puts("ahead of it:");
    json_array_foreach((json_t *)list, i, t) printf(
        "  %" PRIu64 "  %s, %" PRIu64 " MB, slots %" PRIu64 "  %s\n", tg_number_field(t, "ticket"),
        level_of(t), tg_number_field(t, "est_mb"), tg_number_field(t, "slots"), tg_shown_field(t, "cmd"));
    print_more(tg_number_field(reply, "ahead"), json_array_size(list));
}

static void print_holders(const json_t *reply)
{
    const json_t *list = json_object_get(reply, "holders");
    char held[32];
    size_t i;
    json_t *t;
    if (json_array_size(list) == 0)
        return;
    puts("held by:");
    json_array_foreach((json_t *)list, i, t)
    {
        tg_format_duration(held, sizeof(held), tg_number_field(t, "held_ms"));
        printf("  %" PRIu64 "  slots %" PRIu64 ", %" PRIu64 " MB (%" PRIu64 " in use), for %s, pid %" PRIu64
               "  %s\n",
               tg_number_field(t, "ticket"), tg_number_field(t, "slots"), tg_number_field(t, "est_mb"),
               tg_number_field(t, "resident_mb"), held, tg_number_field(t, "pid"), tg_shown_field(t, "cmd"));
    }
    print_more(tg_number_field(reply, "n_holders"), json_array_size(list));
}

static void print_human(const json_t *reply)
{
    printf("ticket %" PRIu64 " %s\n", tg_number_field(reply, "ticket"), tg_shown_field(reply, "text"));
    const json_t *job = json_object_get(reply, "job");
    if (json_is_object(job))
        print_job(job);
    print_blocker(reply);
    print_ahead(reply);
    print_holders(reply);
}

int tg_verb_why(int argc, char **argv)
{
    uint64_t ticket;
    bool json;
    int at = tg_only_option(verb, 'j', "json", argc, argv, &json);
    if (at == TG_OPTIONS_ERROR)
        return TG_EXIT_USAGE;
    if (argc - at != 1)
        return tg_usage_error(verb, "needs ID, one argument, but got %d", argc - at);
    if (!tg_arg_ticket(verb, argv[at], &ticket))
        return TG_EXIT_USAGE;
    return tg_ask_and_show(verb, json_pack("{s:s,s:I}", "op", verb, "ticket", (json_int_t)ticket), json,
                           print_human);
}
