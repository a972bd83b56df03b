/* SPDX-License-Identifier: Apache-2.0
 *
 * tidegate prio: another priority for a ticket; the order changes at once (O11).
 */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char verb[] = "prio";

int tg_verb_prio(int argc, char **argv)
{
    struct tg_client c;
    json_t *reply;
    uint64_t ticket;
    int64_t prio;
    if (argc != 3)
        return tg_usage_error(verb, "needs ID LEVEL, two arguments, but got %d", argc - 1);
    if (!tg_arg_ticket(verb, argv[1], &ticket) || !tg_arg_level(verb, argv[2], &prio))
        return TG_EXIT_USAGE;
    if (!tg_open_client(verb, &c, true))
        return TG_EXIT_FAILED;
    json_t *request =
        json_pack("{s:s,s:I,s:I}", "op", "prio", "ticket", (json_int_t)ticket, "prio", (json_int_t)prio);
    int code = tg_ask(verb, &c, request, &reply);
    if (code == TG_EXIT_OK) {
        const char *state = "";
        (void)tg_field_string(reply, "state", 16, &state);
        bool late = strcmp(state, "HOLD") == 0;
        json_decref(reply);
        printf("ticket %" PRIu64 " has priority %" PRId64 "%s\n", ticket, prio,
               late ? " (it has been admitted already: no effect on the order)" : "");
        code = tg_flushed(verb, code);
    }
    tg_client_done(&c);
    return code;
}
