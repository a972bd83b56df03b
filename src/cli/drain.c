/* SPDX-License-Identifier: Apache-2.0
 *
 * tidegate drain and undrain: nobody is admitted any more until undrain; running commands go on, and
 * everybody who waits keeps the place. It is a setting of the broker, kept in its store like the others.
 */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdio.h>

static int set_drain(const char *verb, int argc, char **argv, const char *value)
{
    struct tg_client c;
    json_t *reply;
    if (argc > 1)
        return tg_usage_error(verb, "takes no argument, but got %s", tg_shown(argv[1]));
    if (!tg_open_client(verb, &c, true))
        return TG_EXIT_FAILED;
    json_t *request = json_pack("{s:s,s:s,s:s}", "op", "config", "key", "drain", "value", value);
    int code = tg_ask(verb, &c, request, &reply);
    if (code == TG_EXIT_OK)
        json_decref(reply);
    tg_client_done(&c);
    return code;
}

int tg_verb_drain(int argc, char **argv)
{
    return set_drain("drain", argc, argv, "on");
}

int tg_verb_undrain(int argc, char **argv)
{
    return set_drain("undrain", argc, argv, "off");
}
