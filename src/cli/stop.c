/* SPDX-License-Identifier: Apache-2.0
 *
 * tidegate stop: ends the broker and returns when it is gone. Running commands keep their tickets and never
 * notice. With waiters it is refused unless forced: they would start the next broker at once. By force a
 * broker that does not answer is killed.
 */
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>

static const char verb[] = "stop";

int tg_verb_stop(int argc, char **argv)
{
    struct tg_client c;
    bool force;
    int at = tg_only_option(verb, 'f', "force", argc, argv, &force);
    if (at == TG_OPTIONS_ERROR)
        return TG_EXIT_USAGE;
    if (at < argc)
        return tg_usage_error(verb, "takes no argument, but got %s", tg_shown(argv[at]));
    if (!tg_open_client(verb, &c, false))
        return TG_EXIT_FAILED;
    int killed = 0;
    int code = TG_EXIT_OK, err = tg_client_stop_broker(&c, force, &killed);
    if (err == -ECONNREFUSED)
        puts("no broker runs");
    else if (err)
        code = tg_report(verb, &c, err);
    else if (killed)
        tg_complain(verb, "the broker (process %d) did not answer and was killed; nothing is lost", killed);
    tg_client_done(&c);
    return tg_flushed(verb, code);
}
