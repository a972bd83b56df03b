/* SPDX-License-Identifier: Apache-2.0
 *
 * tidegate run: waits for a turn, then runs a command and exits as it did. Standard output is the
 * command's alone; while waiting, one line on standard error says who is ahead and why (W13), when that is
 * a terminal or with -v. Everything is checked before anything is enqueued.
 */
#include "cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/parse.h"
#include "client/detach.h"
#include "client/lookup.h"
#include "client/run.h"

static const char verb[] = "run";

struct settings {
    struct tg_run_ask ask;
    char path[TG_PATH_BYTES];
    char cmd[512];
    char cwd[TG_PATH_BYTES];
    bool quiet;
    bool verbose;
    bool waited;
    bool if_exists_given;
    bool detach;
};

enum {
    OPT_PRIO,
    OPT_MEMORY,
    OPT_TENANT,
    OPT_SLOTS,
    OPT_TIME,
    OPT_STRICT,
    OPT_TIMEOUT,
    OPT_KEY,
    OPT_IF_EXISTS,
    OPT_QUIET,
    OPT_VERBOSE,
    OPT_DETACH
};
static const struct tg_option options[] = {
    {'p', "priority", true}, {'m', "memory", true}, {'t', "tenant", true},   {0, "slots", true},
    {0, "time", true},       {0, "strict", false},  {0, "timeout", true},    {'k', "key", true},
    {0, "if-exists", true},  {'q', "quiet", false}, {'v', "verbose", false}, {0, "detach", false},
    {0, NULL, false},
};

static bool read_memory(const char *text, uint64_t *ret)
{
    if (tg_parse_size_mb(text, ret) == 0)
        return true;
    tg_usage_error(
        verb,
        "the memory is %s, but must be a whole number with M, G or T (M when there is none), below "
        "2^63 bytes",
        tg_shown(text));
    return false;
}

/* The same rule as the broker's: a name that can stand in a file name or a metric's label. */
static bool check_tenant(const char *text)
{
    size_t n = strlen(text);
    if (n >= 1 && n <= 64 &&
        strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == n)
        return true;
    tg_usage_error(verb, "the tenant is %s, but must be 1 to 64 letters, digits, '.', '_' or '-'",
                   tg_shown(text));
    return false;
}

static bool check_key(const char *text)
{
    if (text[0] && tg_key_valid(text))
        return true;
    tg_usage_error(verb, "the key is %s, but must be 1 to %u bytes of UTF-8 without control characters",
                   tg_shown(text), TG_KEY_MAX_BYTES);
    return false;
}

static bool read_if_exists(const char *text, enum tg_if_exists *ret)
{
    static const char *const names[] = {"join", "refuse", "replace"};
    for (int i = TG_IF_EXISTS_JOIN; i <= TG_IF_EXISTS_REPLACE; i++) {
        if (strcmp(text, names[i]) == 0) {
            *ret = (enum tg_if_exists)i;
            return true;
        }
    }
    tg_usage_error(verb, "--if-exists is %s, but must be join, refuse or replace", tg_shown(text));
    return false;
}

static bool take_option(struct settings *s, int option, const char *value)
{
    struct tg_admit_ask *a = &s->ask.admit;
    switch (option) {
    case OPT_PRIO:
        return tg_arg_level(verb, value, &a->prio);
    case OPT_MEMORY:
        return read_memory(value, &a->est_mb);
    case OPT_TENANT:
        a->tenant = value;
        return check_tenant(value);
    case OPT_SLOTS:
        return tg_arg_u64(verb, "the number of slots", value, 0, TG_SLOTS_MAX, &a->slots);
    case OPT_TIME:
        return tg_arg_duration(verb, "the time", value, &a->time_ms);
    case OPT_STRICT:
        a->strict = true;
        return true;
    case OPT_TIMEOUT:
        return tg_arg_duration(verb, "the timeout", value, &a->wait_ms);
    case OPT_KEY:
        a->key = value;
        return check_key(value);
    case OPT_IF_EXISTS:
        s->if_exists_given = true;
        return read_if_exists(value, &s->ask.if_exists);
    case OPT_QUIET:
        s->quiet = true;
        return true;
    case OPT_DETACH:
        s->detach = true;
        return true;
    default:
        s->verbose = true;
        return true;
    }
}

/* The command's words in one line, clipped: for showing only. */
static void join_words(char *to, size_t size, char *const *argv)
{
    size_t used = 0;
    for (; *argv && used < size - 1; argv++) {
        size_t n = strnlen(*argv, size - 1 - used);
        memcpy(to + used, *argv, n);
        used += n;
        if (argv[1] && used < size - 1)
            to[used++] = ' ';
    }
    to[used] = '\0';
}

/* Nobody reads any more: that must not end a waiter. */
static void say_unharmed(const char *format, uint64_t ticket, const char *text)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    sigaction(SIGPIPE, &ignore, &before);
    tg_complain(verb, format, ticket, text);
    sigaction(SIGPIPE, &before, NULL);
}

static void show_waiting(void *ctx, const struct tg_admit_answer *now)
{
    struct settings *s = ctx;
    if (s->quiet || !(s->verbose || isatty(STDERR_FILENO)))
        return;
    s->waited = true;
    say_unharmed("ticket %" PRIu64 " %s", now->ticket, now->text);
}

static void show_granted(void *ctx, const struct tg_admit_answer *answer)
{
    struct settings *s = ctx;
    if (s->waited && !s->quiet)
        say_unharmed("ticket %" PRIu64 " starts (%s)", answer->ticket, answer->verdict);
}

static void show_note(void *ctx, uint64_t ticket, const char *text)
{
    const struct settings *s = ctx;
    if (!s->quiet)
        say_unharmed("ticket %" PRIu64 ": %s", ticket, text);
}

/* Always said, unless -q: who joins sees no output of the command. */
static void show_existing(void *ctx, const struct tg_admit_answer *answer, enum tg_if_exists then)
{
    const struct settings *s = ctx;
    if (s->quiet)
        return;
    if (then == TG_IF_EXISTS_REPLACE)
        say_unharmed("ticket %" PRIu64 " with this key %s: it is ended first", answer->ticket,
                     answer->existing_runs ? "runs already" : "waits already");
    else
        say_unharmed("ticket %" PRIu64 " with this key %s: joined, its output is not repeated here",
                     answer->ticket, answer->existing_runs ? "runs already" : "waits already");
}

/* Reads the arguments and finds the command. 0, or the exit code. */
static int prepare(struct settings *s, int argc, char **argv)
{
    struct tg_options o = {.verb = verb, .table = options, .argc = argc, .argv = argv};
    int option;
    while ((option = tg_next_option(&o)) >= 0) {
        if (!take_option(s, option, o.value))
            return TG_EXIT_USAGE;
    }
    if (option == TG_OPTIONS_ERROR)
        return TG_EXIT_USAGE;
    if (s->quiet && s->verbose)
        return tg_usage_error(verb, "-q and -v exclude each other: say nothing, or why it waits");
    if (s->if_exists_given && !s->ask.admit.key)
        return tg_usage_error(verb, "--if-exists says what to do about a --key: give one");
    if (o.at >= argc)
        return tg_usage_error(verb, "there is no command (see tidegate run --help)");
    s->ask.argv = argv + o.at;
    s->ask.path = s->path;
    int err = tg_lookup_command(s->ask.argv[0], s->path, sizeof(s->path));
    if (err) {
        tg_complain(verb, "%s %s", tg_shown(s->ask.argv[0]),
                    err == -EACCES ? "is not executable" : "is not found");
        return err == -EACCES ? TG_EXIT_NOT_EXECUTABLE : TG_EXIT_NOT_FOUND;
    }
    join_words(s->cmd, sizeof(s->cmd), s->ask.argv);
    s->ask.admit.cmd = s->cmd;
    s->ask.admit.cwd = getcwd(s->cwd, sizeof(s->cwd));
    s->ask.admit.parent = getenv(TG_ENV_TICKET);
    return 0;
}

static int exit_code(const struct tg_client *c, int err, bool exec_failed)
{
    int code = tg_report(verb, c, err);
    if (exec_failed)
        return err == -ENOENT || err == -ENOTDIR ? TG_EXIT_NOT_FOUND : TG_EXIT_NOT_EXECUTABLE;
    return err == -ETIME ? TG_EXIT_WAITED : code;
}

/* Prints the ticket's number and leaves the job alone. */
static int detach(struct tg_client *c, struct tg_run_ask *ask)
{
    uint64_t ticket;
    ask->waiting = NULL;
    ask->granted = NULL;
    int err = tg_client_detach(c, ask, &ticket);
    if (err)
        return exit_code(c, err, false);
    printf("%" PRIu64 "\n", ticket);
    return tg_flushed(verb, TG_EXIT_OK);
}

int tg_verb_run(int argc, char **argv)
{
    static struct settings s = {.ask = {.admit = {.prio = 2,
                                                  .est_mb = TG_NOT_STATED,
                                                  .max_conc = TG_NOT_STATED,
                                                  .slots = TG_NOT_STATED,
                                                  .time_ms = TG_NOT_STATED,
                                                  .wait_ms = UINT64_MAX},
                                        .alone = true,
                                        .waiting = show_waiting,
                                        .existing = show_existing,
                                        .granted = show_granted,
                                        .noted = show_note,
                                        .ctx = &s}};
    static struct tg_client c;
    int code = prepare(&s, argc, argv);
    if (code)
        return code;
    if (!tg_open_client(verb, &c, true))
        return TG_EXIT_FAILED;
    if (s.detach) {
        code = detach(&c, &s.ask);
        tg_client_done(&c);
        return code;
    }
    int status = 0;
    struct tg_run_end end;
    int err = tg_client_run(&c, &s.ask, &status, &end);
    if (!err && end.oom)
        tg_complain(verb,
                    "ticket %" PRIu64 ": OOM-killed (the kernel killed it, most likely, for lack of memory)",
                    end.ticket);
    if (err)
        code = exit_code(&c, err, end.exec_failed);
    else
        code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    tg_client_done(&c);
    return code;
}
