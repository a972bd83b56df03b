/* SPDX-License-Identifier: Apache-2.0
 *
 * tidegate output: what a detached job has written so far, byte for byte; with -f also what it will write. It
 * reads a file and asks no broker.
 */
#include "cli/cli.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "client/output.h"

static const char verb[] = "output";

/* "-f" may stand before the ID or behind it. */
static bool read_arguments(int argc, char **argv, uint64_t *ret_item, bool *ret_follow)
{
    static const struct tg_option options[] = {{'f', "follow", false}, {0, NULL, false}};
    struct tg_options o = {.verb = verb, .table = options, .argc = argc, .argv = argv};
    const char *id = NULL;
    for (;;) {
        int option = tg_next_option(&o);
        if (option == TG_OPTIONS_ERROR)
            return false;
        if (option != TG_OPTIONS_END) {
            *ret_follow = true;
        } else if (o.at >= argc) {
            break;
        } else if (id) {
            tg_usage_error(verb, "takes ID, one argument, but got %s too", tg_shown(argv[o.at]));
            return false;
        } else {
            id = argv[o.at++];
        }
    }
    if (id)
        return tg_arg_ticket(verb, id, ret_item);
    tg_usage_error(verb, "needs ID, one argument");
    return false;
}

int tg_verb_output(int argc, char **argv)
{
    struct tg_client c;
    uint64_t ticket;
    bool follows = false;
    if (!read_arguments(argc, argv, &ticket, &follows))
        return TG_EXIT_USAGE;
    if (!tg_open_client(verb, &c, false))
        return TG_EXIT_FAILED;
    int fd = tg_output_open(&c, ticket);
    int code = fd < 0 ? tg_report(verb, &c, fd) : TG_EXIT_OK;
    int err = fd < 0 ? 0 : follows ? tg_output_follow(fd, STDOUT_FILENO) : tg_output_copy(fd, STDOUT_FILENO);
    if (err && err != -EPIPE) { /* who stopped reading has had enough */
        tg_complain(verb, "cannot copy the output: %s", strerror(-err));
        code = TG_EXIT_FAILED;
    }
    if (fd >= 0)
        close(fd);
    tg_client_done(&c);
    return code;
}
