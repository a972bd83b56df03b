/* SPDX-License-Identifier: Apache-2.0
 *
 * tidegate cancel: one call for every state (V5). A waiter leaves the queue. The command of a holder gets
 * TERM, with all that it started, and KILL after the grace; the call returns when nobody is left, or says who
 * survived.
 */
#include "cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"

static const char verb[] = "cancel";

#define GRACE_MS 5000u
#define GRACE_MAX_MS UINT64_C(86400000)

static bool read_grace(const char *text, uint64_t *ret)
{
    if (tg_parse_duration_ms(text, ret) == 0 && *ret <= GRACE_MAX_MS)
        return true;
    tg_usage_error(verb,
                   "the grace is %s, but must be a whole number with ms, s, m, h or d (seconds when there is "
                   "none), at most a day",
                   tg_shown(text));
    return false;
}

static bool read_arguments(int argc, char **argv, uint64_t *ret_item, uint64_t *ret_grace_ms)
{
    static const struct tg_option options[] = {{0, "grace", true}, {0, NULL, false}};
    struct tg_options o = {.verb = verb, .table = options, .argc = argc, .argv = argv};
    const char *id = NULL;
    for (;;) {
        int option = tg_next_option(&o);
        if (option == TG_OPTIONS_ERROR || (option == 0 && !read_grace(o.value, ret_grace_ms)))
            return false;
        if (option != TG_OPTIONS_END)
            continue;
        if (o.at >= argc)
            break;
        if (id) {
            tg_usage_error(verb, "takes ID, one argument, but got %s too", tg_shown(argv[o.at]));
            return false;
        }
        id = argv[o.at++];
    }
    if (id)
        return tg_arg_ticket(verb, id, ret_item);
    tg_usage_error(verb, "needs ID, one argument");
    return false;
}

static int show(uint64_t ticket, const json_t *reply)
{
    const json_t *survivors = json_object_get(reply, "survivors");
    char list[400] = "";
    size_t used = 0, i;
    json_t *pid;
    const char *state = json_string_value(json_object_get(reply, "state"));
    if (state && strcmp(state, "DONE") == 0) {
        printf("ticket %" PRIu64 " is cancelled\n", ticket);
        return tg_flushed(verb, TG_EXIT_OK);
    }
    if (json_array_size(survivors) == 0) { /* whoever it saw had been followed by another */
        tg_complain(verb,
                    "ticket %" PRIu64 " is not ended: its processes start others faster than they are killed",
                    ticket);
        return TG_EXIT_FAILED;
    }
    json_array_foreach(survivors, i, pid)
    {
        if (used < sizeof(list) - 24)
            used += (size_t)snprintf(list + used, sizeof(list) - used, " %" JSON_INTEGER_FORMAT,
                                     json_integer_value(pid));
    }
    tg_complain(verb, "ticket %" PRIu64 ": %zu of its processes survived being killed:%s", ticket,
                json_array_size(survivors), list);
    return TG_EXIT_FAILED;
}

int tg_verb_cancel(int argc, char **argv)
{
    struct tg_client c;
    json_t *reply;
    uint64_t ticket, grace_ms = GRACE_MS;
    if (!read_arguments(argc, argv, &ticket, &grace_ms))
        return TG_EXIT_USAGE;
    if (!tg_open_client(verb, &c, true))
        return TG_EXIT_FAILED;
    json_t *request = json_pack("{s:s,s:I,s:I}", "op", "cancel", "ticket", (json_int_t)ticket, "grace_ms",
                                (json_int_t)grace_ms);
    /* When the broker dies in between, the next one goes on with what was begun. */
    int err = request ? tg_client_call_within(&c, request, grace_ms + TG_CLIENT_CANCEL_MS, &reply)
                      : tg_client_fail(&c, -ENOMEM, "no memory");
    json_decref(request);
    int code = err ? tg_report(verb, &c, err) : show(ticket, reply);
    if (!err)
        json_decref(reply);
    tg_client_done(&c);
    return code;
}
