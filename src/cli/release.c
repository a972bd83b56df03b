/* SPDX-License-Identifier: Apache-2.0
 *
 * tidegate release: ends the ticket of a process, whatever its state. Harmless when there is none; a command
 * that has ended and left others behind, who keep its ticket, is pointed out.
 */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdio.h>

static const char verb[] = "release";

int tg_verb_release(int argc, char **argv)
{
    struct tg_client c;
    json_t *reply;
    int pid;
    if (argc != 2)
        return tg_usage_error(verb, "needs PID, one argument, but got %d", argc - 1);
    if (!tg_arg_pid(verb, argv[1], &pid))
        return TG_EXIT_USAGE;
    if (!tg_open_client(verb, &c, true))
        return TG_EXIT_FAILED;
    int code = tg_ask(verb, &c, json_pack("{s:s,s:i}", "op", "release", "pid", pid), &reply);
    if (code == TG_EXIT_OK) {
        uint64_t left;
        if (tg_field_u64(reply, "left", 1, INT64_MAX, &left) == 0)
            tg_complain(verb,
                        "process %d has ended; what it started and left behind keeps ticket %" PRIu64
                        " (tidegate cancel %" PRIu64 " ends that)",
                        pid, left, left);
        json_decref(reply);
        printf("%sreleased\n", tg_line_prefix());
        code = tg_flushed(verb, code);
    }
    tg_client_done(&c);
    return code;
}
