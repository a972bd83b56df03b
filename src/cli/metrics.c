/* SPDX-License-Identifier: Apache-2.0
 *
 * tidegate metrics: the broker's counters and gauges in the Prometheus text format (V4), for a collector that
 * reads a program's output or a file that this wrote.
 */
#include "cli/cli.h"

#include <stdio.h>

static const char verb[] = "metrics";

int tg_verb_metrics(int argc, char **argv)
{
    struct tg_client c;
    json_t *reply;
    const char *text = "";
    if (argc > 1)
        return tg_usage_error(verb, "takes no argument, but got %s", tg_shown(argv[1]));
    if (!tg_open_client(verb, &c, true))
        return TG_EXIT_FAILED;
    int code = tg_ask(verb, &c, json_pack("{s:s}", "op", verb), &reply);
    if (code == TG_EXIT_OK) {
        (void)tg_field_string(reply, "text", TG_REQUEST_MAX_BYTES, &text);
        fputs(text, stdout);
        code = tg_flushed(verb, code);
        json_decref(reply);
    }
    tg_client_done(&c);
    return code;
}
