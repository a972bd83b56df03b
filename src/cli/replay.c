/* SPDX-License-Identifier: Apache-2.0
 *
 * tidegate replay: parse, call, print. The work is done in src/sim. It needs no broker.
 */
#include "cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "sim/replay.h"
#include "sim/swf.h"

enum { OK = 0, USAGE = 2, FAILED = 125 };

static const char usage[] =
    "usage: tidegate replay TRACE.swf --procs N [--policy fifo|easy|tidegate] [--json]\n"
    "replays a workload trace (SWF; \"-\": standard input) in virtual time\n";

struct args {
    const char *trace;
    int64_t procs;
    enum tg_replay_policy policy;
    bool json, help;
};

static int wrong(const char *what, const char *value)
{
    fprintf(stderr, "tidegate: replay: %s%s%.200s%s\n", what, value ? " \"" : "", value ? value : "",
            value ? "\"" : "");
    return USAGE;
}

/* The value of --name VALUE or --name=VALUE when argv[*k] is that option; else NULL. *missing: no value. */
static const char *option(const char *name, int argc, char **argv, int *k, bool *missing)
{
    size_t len = strlen(name);
    if (strncmp(argv[*k], name, len) != 0 || (argv[*k][len] != '\0' && argv[*k][len] != '='))
        return NULL;
    if (argv[*k][len] == '=')
        return argv[*k] + len + 1;
    *missing = *k + 1 >= argc;
    return *missing ? "" : argv[++*k];
}

static int parse_option(struct args *a, int argc, char **argv, int *k)
{
    bool missing = false;
    const char *given = argv[*k], *value = option("--procs", argc, argv, k, &missing);
    if (value) {
        if (missing)
            return wrong("--procs needs a number", NULL);
        if (tg_parse_i64(value, 1, TG_SWF_MAX_PROCS, &a->procs) != 0)
            return wrong("--procs must be a whole number from 1 to 2147483647, not", value);
        return OK;
    }
    value = option("--policy", argc, argv, k, &missing);
    if (value) {
        if (missing || tg_replay_policy_parse(value, &a->policy) != 0)
            return wrong("--policy must be fifo, easy or tidegate, not", value);
        return OK;
    }
    if (strcmp(given, "--json") == 0)
        a->json = true;
    else if (strcmp(given, "--help") == 0)
        a->help = true;
    else
        return wrong("unknown option", given);
    return OK;
}

static int parse_args(int argc, char **argv, struct args *a)
{
    bool options = true;
    for (int k = 1; k < argc; k++) {
        if (options && strcmp(argv[k], "--") == 0) {
            options = false;
        } else if (options && argv[k][0] == '-' && argv[k][1] != '\0') {
            int rc = parse_option(a, argc, argv, &k);
            if (rc != OK)
                return rc;
        } else if (a->trace) {
            return wrong("only one trace at a time; one too many:", argv[k]);
        } else {
            a->trace = argv[k];
        }
    }
    if (a->help)
        return OK;
    if (!a->trace)
        return wrong("which trace? (see --help)", NULL);
    return a->procs > 0 ? OK : wrong("--procs N is needed: the processors of the machine", NULL);
}

static void print_json(const struct args *a, const struct tg_replay_result *r)
{
    printf("{\"policy\": \"%s\", \"procs\": %" PRId64 ", \"jobs\": %" PRIu64 ", \"skipped\": %" PRIu64
           ", \"makespan_s\": %" PRId64 ", \"avg_wait_s\": %.4f, \"max_wait_s\": %" PRId64
           ", \"avg_bsld\": %.4f, \"utilisation\": %.5f}\n",
           tg_replay_policy_name(a->policy), a->procs, r->jobs, r->skipped, r->makespan_s, r->avg_wait_s,
           r->max_wait_s, r->avg_bsld, r->utilisation);
}

static void print_text(const struct args *a, const struct tg_replay_result *r)
{
    printf("policy       %s\n", tg_replay_policy_name(a->policy));
    printf("procs        %" PRId64 "\n", a->procs);
    printf("jobs         %" PRIu64 "\n", r->jobs);
    printf("skipped      %" PRIu64 "\n", r->skipped);
    printf("makespan_s   %" PRId64 "\n", r->makespan_s);
    printf("avg_wait_s   %.4f\n", r->avg_wait_s);
    printf("max_wait_s   %" PRId64 "\n", r->max_wait_s);
    printf("avg_bsld     %.4f\n", r->avg_bsld);
    printf("utilisation  %.5f\n", r->utilisation);
}

static int load(const char *path, struct tg_swf *swf)
{
    struct tg_swf_error err;
    int rc = tg_swf_load(path, swf, &err);
    if (rc == 0)
        return OK;
    if (err.line > 0)
        fprintf(stderr, "tidegate: replay: %.200s: line %zu: %s\n", path, err.line, err.what);
    else
        fprintf(stderr, "tidegate: replay: %.200s: %s: %s\n", path, err.what, strerror(-rc));
    return FAILED;
}

int tg_verb_replay(int argc, char **argv)
{
    struct args a = {.policy = TG_REPLAY_TIDEGATE};
    int rc = parse_args(argc, argv, &a);
    if (rc != OK)
        return rc;
    if (a.help)
        return fputs(usage, stdout) == EOF || fflush(stdout) != 0 ? FAILED : OK;
    struct tg_swf swf;
    rc = load(a.trace, &swf);
    if (rc != OK)
        return rc;
    struct tg_replay_options opt = {.procs = a.procs, .policy = a.policy, .tide = tg_tide_defaults(1)};
    struct tg_replay_result result;
    rc = tg_replay(&swf, &opt, &result, NULL);
    tg_swf_free(&swf);
    if (rc != 0) {
        fprintf(stderr, "tidegate: replay: %.200s: cannot be replayed: %s\n", a.trace, strerror(-rc));
        return FAILED;
    }
    if (a.json)
        print_json(&a, &result);
    else
        print_text(&a, &result);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "tidegate: replay: cannot write: %s\n", strerror(errno));
        return FAILED;
    }
    return OK;
}
