/* SPDX-License-Identifier: Apache-2.0
 *
 * tidegate config: shows all settings, shows one, or sets one. The broker knows the keys and checks the
 * values, keeps them in its store, and they are in force at once.
 */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>

static const char verb[] = "config";

/* "KEY VALUE" a line; with a key asked for, its value alone. */
static void print_settings(const json_t *config, const char *asked)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)config, key, value)
    {
        const char *text = json_string_value(value);
        char *shown = tg_display_text(text ? text : "?", 1000);
        if (asked)
            printf("%s\n", shown ? shown : "?");
        else
            printf("%s %s\n", key, shown ? shown : "?");
        free(shown);
    }
}

int tg_verb_config(int argc, char **argv)
{
    struct tg_client c;
    json_t *reply;
    if (argc > 3)
        return tg_usage_error(verb, "takes KEY and VALUE, at most two arguments, but got %d", argc - 1);
    const char *key = argc > 1 ? argv[1] : NULL, *value = argc > 2 ? argv[2] : NULL;
    json_t *request = json_pack("{s:s,s:s*,s:s*}", "op", "config", "key", key, "value", value);
    if (!request)
        return tg_usage_error(verb, "the key is %s and the value %s, but both must be UTF-8",
                              tg_shown(key ? key : ""), tg_shown(value ? value : ""));
    if (!tg_open_client(verb, &c, true)) {
        json_decref(request);
        return TG_EXIT_FAILED;
    }
    int code = tg_ask(verb, &c, request, &reply);
    if (code == TG_EXIT_OK) {
        if (!value)
            print_settings(json_object_get(reply, "config"), key);
        json_decref(reply);
        code = tg_flushed(verb, code);
    }
    tg_client_done(&c);
    return code;
}
