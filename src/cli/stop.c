/* SPDX-License-Identifier: Apache-2.0
 *
 * tidegate stop: ends the broker and returns when it is gone. Running commands keep their tickets and never
 * notice. With waiters it is refused unless forced: they would start the next broker at once.
 */
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>

static const char verb[] = "stop";

/* The broker closes its connections when it ends: that is the event to wait for. */
static int await_end(struct tg_client *c)
{
    json_t *more;
    int err;
    do {
        err = tg_client_recv(c, tg_deadline_ns(TG_CLIENT_START_MS), &more);
        if (!err)
            json_decref(more);
    } while (!err);
    return err == -ECONNRESET ? 0 : err;
}

int tg_verb_stop(int argc, char **argv)
{
    static const struct tg_option options[] = {{'f', "force", false}, {0, NULL, false}};
    struct tg_options o = {.verb = verb, .table = options, .argc = argc, .argv = argv};
    struct tg_client c;
    json_t *reply = NULL;
    bool force = false;
    int option;
    while ((option = tg_next_option(&o)) >= 0)
        force = true;
    if (option == TG_OPTIONS_ERROR)
        return TG_EXIT_USAGE;
    if (o.at < argc)
        return tg_usage_error(verb, "takes no argument, but got %s", tg_shown(argv[o.at]));
    if (!tg_open_client(verb, &c, false))
        return TG_EXIT_FAILED;
    if (tg_client_connect(&c) == -ECONNREFUSED) {
        puts("no broker runs");
        tg_client_done(&c);
        return tg_flushed(verb, TG_EXIT_OK);
    }
    int code = tg_ask(verb, &c, json_pack("{s:s,s:b}", "op", "stop", "force", force), &reply);
    if (code == TG_EXIT_OK) {
        json_decref(reply);
        int err = await_end(&c);
        if (err)
            code = tg_report(verb, &c, err);
    }
    tg_client_done(&c);
    return code;
}
