/* SPDX-License-Identifier: Apache-2.0
 *
 * tidegate wait: returns when tickets have ended, those named or all there are (V7), and exits as the first
 * of them, in the order of the arguments, that did not end with 0. Says on standard error how those ended.
 */
#include "cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "client/wait.h"

static const char verb[] = "wait";

struct settings {
    bool all;
    uint64_t wait_ms;
    uint64_t *tickets;
    size_t n;
};

enum { OPT_ALL, OPT_TIMEOUT };

/* 0, or the exit code. */
static int prepare(struct settings *s, int argc, char **argv)
{
    static const struct tg_option options[] = {{'a', "all", false}, {0, "timeout", true}, {0, NULL, false}};
    struct tg_options o = {.verb = verb, .table = options, .argc = argc, .argv = argv};
    int option;
    while ((option = tg_next_option(&o)) >= 0) {
        s->all |= option == OPT_ALL;
        if (option == OPT_TIMEOUT && !tg_arg_duration(verb, "the timeout", o.value, &s->wait_ms))
            return TG_EXIT_USAGE;
    }
    if (option == TG_OPTIONS_ERROR)
        return TG_EXIT_USAGE;
    s->n = (size_t)(argc - o.at);
    if (s->all && s->n > 0)
        return tg_usage_error(verb, "takes either --all or ID..., but got both, %s", tg_shown(argv[o.at]));
    if (!s->all && s->n == 0)
        return tg_usage_error(verb, "needs ID..., one argument or more, or --all");
    s->tickets = calloc(s->n + 1, sizeof(*s->tickets));
    if (!s->tickets) {
        tg_complain(verb, "no memory");
        return TG_EXIT_FAILED;
    }
    for (size_t i = 0; i < s->n; i++) {
        if (!tg_arg_ticket(verb, argv[(size_t)o.at + i], &s->tickets[i]))
            return TG_EXIT_USAGE;
    }
    return TG_EXIT_OK;
}

static int judge(const struct tg_ended *ended, size_t n)
{
    int code = TG_EXIT_OK;
    for (size_t i = 0; i < n; i++) {
        int one = tg_ended_code(&ended[i]);
        if (!ended[i].known && one != TG_EXIT_OK)
            tg_complain(verb, "ticket %" PRIu64 " ended without an exit status (%s)", ended[i].ticket,
                        ended[i].outcome);
        else if (one != TG_EXIT_OK)
            tg_complain(verb, "ticket %" PRIu64 " ended with %d", ended[i].ticket, one);
        if (code == TG_EXIT_OK)
            code = one;
    }
    return code;
}

static int wait_for(struct settings *s, struct tg_client *c)
{
    uint64_t deadline = tg_deadline_ns(s->wait_ms);
    int err = 0;
    if (s->all) {
        free(s->tickets);
        s->tickets = NULL;
        err = tg_client_wait_list(c, &s->tickets, &s->n);
    }
    struct tg_ended *ended = calloc(s->n + 1, sizeof(*ended));
    if (!err && !ended)
        err = tg_client_fail(c, -ENOMEM, "no memory");
    if (!err)
        err = tg_client_wait(c, s->tickets, s->n, deadline, ended);
    int code = TG_EXIT_OK;
    if (err == -ETIMEDOUT && tg_deadline_poll_ms(deadline) == 0) {
        tg_complain(verb, "not all of them have ended in time");
        code = TG_EXIT_WAITED;
    } else if (err) {
        code = tg_report(verb, c, err);
    } else {
        code = judge(ended, s->n);
    }
    free(ended);
    return code;
}

int tg_verb_wait(int argc, char **argv)
{
    struct settings s = {.wait_ms = UINT64_MAX};
    struct tg_client c;
    int code = prepare(&s, argc, argv);
    if (code == TG_EXIT_OK) {
        code = TG_EXIT_FAILED;
        if (tg_open_client(verb, &c, true)) {
            code = wait_for(&s, &c);
            tg_client_done(&c);
        }
    }
    free(s.tickets);
    return code;
}
