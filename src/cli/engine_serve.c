/* SPDX-License-Identifier: Apache-2.0
 *
 * tidegate engine serve: an engine of its own for other processes, with the built-in opcodes, until SIGINT or
 * SIGTERM. An application that has opcodes of its own calls tg_engine_serve on its own engine instead
 * (docs/serve.md).
 */
#include "cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidegate/serve.h>

#include "base/parse.h"

static const char verb[] = "engine serve";

#define MAX_TENANT_RULES 256u
#define STOP_NS UINT64_C(10000000000)

struct wishes {
    const char *path;
    struct tg_engine_options engine;
    struct tg_serve_options serve;
    struct tg_serve_rule rules[MAX_TENANT_RULES];
};

/* One part of UID=T[:QUOTA], without its separator. */
static bool part(const char *from, size_t length, uint64_t max, uint32_t *ret)
{
    char text[16];
    uint64_t value;
    if (length >= sizeof(text))
        return false;
    memcpy(text, from, length);
    text[length] = '\0';
    if (tg_parse_u64(text, 0, max, &value) != 0)
        return false;
    *ret = (uint32_t)value;
    return true;
}

static bool parse_rule(const char *text, struct tg_serve_rule *r)
{
    size_t uid = strcspn(text, "=");
    if (text[uid] != '=')
        return false;
    const char *tenant = text + uid + 1;
    size_t length = strcspn(tenant, ":");
    *r = (struct tg_serve_rule){.uid = TG_SERVE_ANY_UID};
    if (!(uid == 3 && strncmp(text, "any", 3) == 0) && !part(text, uid, UINT32_MAX - 1, &r->uid))
        return false;
    if (!part(tenant, length, TG_TENANTS - 1, &r->tenant))
        return false;
    if (tenant[length] == '\0')
        return true;
    const char *quota = tenant + length + 1;
    r->set_quota = 1;
    return part(quota, strlen(quota), UINT32_MAX, &r->quota);
}

static int add_rule(struct wishes *w, const char *text)
{
    if (w->serve.rule_count == MAX_TENANT_RULES)
        return tg_usage_error(verb, "--tenant can be given %u times at most", MAX_TENANT_RULES);
    if (!parse_rule(text, &w->rules[w->serve.rule_count]))
        return tg_usage_error(verb,
                              "--tenant is %s, but must be UID=T or UID=T:QUOTA: a uid or any, a tenant from "
                              "0 to %u, the claims it has",
                              tg_shown(text), TG_TENANTS - 1);
    w->serve.rule_count++;
    return TG_EXIT_OK;
}

static int set_mode(struct wishes *w, const char *text)
{
    uint32_t mode = 0;
    size_t length = strlen(text);
    bool ok = length >= 3 && length <= 4 && strspn(text, "01234567") == length;
    for (const char *c = text; ok && *c; c++)
        mode = mode * 8 + (uint32_t)(*c - '0');
    if (!ok || mode > 0777)
        return tg_usage_error(verb, "--mode is %s, but must be octal, from 000 to 0777", tg_shown(text));
    w->serve.mode = mode;
    return TG_EXIT_OK;
}

static int set_number(const char *what, const char *text, uint64_t min, uint64_t max, uint32_t *ret)
{
    uint64_t value;
    if (!tg_arg_u64(verb, what, text, min, max, &value))
        return TG_EXIT_USAGE;
    *ret = (uint32_t)value;
    return TG_EXIT_OK;
}

enum { SOCKET, SLOTS, WORKERS, TENANT, CLIENTS, CLIENT_SLOTS, MODE };

static const struct tg_option table[] = {
    {0, "socket", true},  {0, "slots", true},        {0, "workers", true}, {0, "tenant", true},
    {0, "clients", true}, {0, "client-slots", true}, {0, "mode", true},    {0, NULL, false},
};

static int take(struct wishes *w, int option, const char *value)
{
    switch (option) {
    case SOCKET:
        w->path = value;
        return TG_EXIT_OK;
    case SLOTS:
        return set_number("--slots", value, TG_PRIORITY_LEVELS, TG_MAX_ENCODED_RING_SLOTS, &w->engine.slots);
    case WORKERS:
        return set_number("--workers", value, 1, 256, &w->engine.workers);
    case TENANT:
        return add_rule(w, value);
    case CLIENTS:
        return set_number("--clients", value, 1, TG_SERVE_MAX_CLIENTS, &w->serve.max_clients);
    case CLIENT_SLOTS:
        if (set_number("--client-slots", value, 1, TG_SERVE_MAX_SLOTS, &w->serve.slots) != TG_EXIT_OK)
            return TG_EXIT_USAGE;
        if ((w->serve.slots & (w->serve.slots - 1)) == 0)
            return TG_EXIT_OK;
        return tg_usage_error(verb, "--client-slots is %s, but must be a power of two up to %u",
                              tg_shown(value), TG_SERVE_MAX_SLOTS);
    default:
        return set_mode(w, value);
    }
}

static int parse(int argc, char **argv, struct wishes *w)
{
    struct tg_options o = {.verb = verb, .table = table, .argc = argc, .argv = argv};
    int option, code;
    tg_engine_options_init(&w->engine);
    tg_serve_options_init(&w->serve);
    w->path = NULL;
    w->serve.rules = w->rules;
    while ((option = tg_next_option(&o)) >= 0)
        if ((code = take(w, option, o.value)) != TG_EXIT_OK)
            return code;
    if (option == TG_OPTIONS_ERROR)
        return TG_EXIT_USAGE;
    if (o.at < argc)
        return tg_usage_error(verb, "takes options only, but got %s", tg_shown(argv[o.at]));
    if (!w->path || !*w->path)
        return tg_usage_error(verb, "needs --socket PATH");
    return TG_EXIT_OK;
}

static int until_signalled(struct tg_engine *engine, struct tg_server *server, const struct wishes *w,
                           const sigset_t *signals)
{
    struct tg_engine_stats stats;
    struct tg_serve_stats served;
    int signal;
    tg_engine_stats(engine, &stats);
    printf("serving %s: %" PRIu32 " slots, %" PRIu32 " workers, up to %" PRIu32 " clients\n", w->path,
           w->engine.slots, stats.workers, w->serve.max_clients);
    int code = tg_flushed(verb, TG_EXIT_OK);
    while (code == TG_EXIT_OK && sigwait(signals, &signal) != 0)
        ;
    tg_server_stats(server, &served);
    int err = tg_server_stop(server, STOP_NS);
    if (err) {
        /* Its threads use the engine; ending the process is the way to end them. */
        tg_complain(verb, "an item still runs after %d s: leaving it behind", (int)(STOP_NS / 1000000000));
        return TG_EXIT_FAILED;
    }
    if (code != TG_EXIT_OK)
        return code; /* the output is gone, and that was said */
    tg_engine_stats(engine, &stats);
    printf("served %" PRIu64 " clients (%" PRIu64 " refused, %" PRIu64 " dropped): %" PRIu64 " done, %" PRIu64
           " faulted, %" PRIu64 " cancelled\n",
           served.accepted, served.refused, served.dropped, stats.done, stats.faults + served.invalid,
           stats.cancelled);
    return tg_flushed(verb, code);
}

static int serve(struct wishes *w, const sigset_t *signals)
{
    struct tg_engine *engine;
    struct tg_server *server;
    int err = tg_engine_open(&w->engine, &engine);
    if (err) {
        tg_complain(verb, "cannot open an engine: %s", strerror(-err));
        return TG_EXIT_FAILED;
    }
    err = tg_engine_serve(engine, w->path, &w->serve, &server);
    int code = TG_EXIT_FAILED;
    if (err == -EADDRINUSE)
        tg_complain(verb, "%s is served already, or is no socket", tg_shown(w->path));
    else if (err == -EINVAL)
        tg_complain(verb, "two --tenant give one tenant different quotas");
    else if (err)
        tg_complain(verb, "cannot serve at %s: %s", tg_shown(w->path), strerror(-err));
    else
        code = until_signalled(engine, server, w, signals);
    if (tg_engine_close(engine, STOP_NS, NULL) != 0)
        code = TG_EXIT_FAILED;
    return code;
}

int tg_verb_engine_serve(int argc, char **argv)
{
    sigset_t signals;
    struct wishes *w = malloc(sizeof(*w));
    if (!w) {
        tg_complain(verb, "out of memory");
        return TG_EXIT_FAILED;
    }
    int code = parse(argc, argv, w);
    if (code == TG_EXIT_OK) {
        /* Blocked before there are threads, so that this thread alone takes them. */
        sigemptyset(&signals);
        sigaddset(&signals, SIGINT);
        sigaddset(&signals, SIGTERM);
        int err = pthread_sigmask(SIG_BLOCK, &signals, NULL);
        if (err)
            tg_complain(verb, "cannot block signals: %s", strerror(err));
        code = err ? TG_EXIT_FAILED : serve(w, &signals);
    }
    free(w);
    return code;
}
