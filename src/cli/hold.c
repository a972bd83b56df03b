/* SPDX-License-Identifier: Apache-2.0
 *
 * tidegate hold and resume: keeps a waiting ticket back, and lets it go on. It keeps its place and blocks
 * nobody meanwhile. What has been admitted already is refused: nothing is changed then.
 */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int ask(const char *verb, int argc, char **argv, const char *done)
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
    int code = tg_ask(verb, &c, json_pack("{s:s,s:I}", "op", verb, "ticket", (json_int_t)ticket), &reply);
    if (code == TG_EXIT_OK) {
        json_decref(reply);
        printf("ticket %" PRIu64 " %s\n", ticket, done);
        code = tg_flushed(verb, code);
    }
    tg_client_done(&c);
    return code;
}

int tg_verb_hold(int argc, char **argv)
{
    return ask("hold", argc, argv, "is on hold and keeps its place");
}

int tg_verb_resume(int argc, char **argv)
{
    return ask("resume", argc, argv, "waits for its turn");
}
