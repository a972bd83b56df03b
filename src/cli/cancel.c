/* SPDX-License-Identifier: Apache-2.0
 *
 * tidegate cancel: one call for every state (V5). A waiter leaves the queue; the command of a holder gets
 * TERM and, five seconds later, KILL, and its ticket ends when it does.
 */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char verb[] = "cancel";

int tg_verb_cancel(int argc, char **argv)
{
    struct tg_client c;
    json_t *reply;
    uint64_t ticket;
    if (argc != 2)
        return tg_usage_error(verb, "needs ID, one argument, but got %d", argc - 1);
    if (!tg_arg_ticket(verb, argv[1], &ticket))
        return TG_EXIT_USAGE;
    if (!tg_open_client(verb, &c, true))
        return TG_EXIT_FAILED;
    int code = tg_ask(verb, &c, json_pack("{s:s,s:I}", "op", "cancel", "ticket", (json_int_t)ticket), &reply);
    if (code == TG_EXIT_OK) {
        const char *state = "";
        (void)tg_field_string(reply, "state", 16, &state);
        printf("ticket %" PRIu64 " %s\n", ticket,
               strcmp(state, "HOLD") == 0 ? "is told to end (TERM, then KILL after 5 s)" : "is cancelled");
        code = tg_flushed(verb, code);
        json_decref(reply);
    }
    tg_client_done(&c);
    return code;
}
