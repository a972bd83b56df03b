/* SPDX-License-Identifier: Apache-2.0
 *
 * tidegate engine: finds the verb below it and calls it. To add one: write its file, declare its function in
 * engine.h, add its line to the table. */
#include "cli/engine.h"

#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

static const struct tg_verb verbs[] = {
    {"run", tg_verb_engine_run,
     "[FILE.jsonl|-] [--slots N] [--workers N] [--tenants N] [--quota N] [--order input|completion]\n"
     "           [--keep-going] [--unrestricted] [--scan] [--pin CPU,...] [--dfa FILE] [--io DIR]\n"
     "           [--backend cpu|cuda|cuda:N] [--sm N] [--body FILE]... [--cuda FILE] [--op "
     "N[:lane|warp|block]]...\n"
     "           [--observables N] [--log-records N] [--spin-us N]\n"
     "           [--summary text|json|none] [--stall DURATION] [--save-ring FILE] [--save-control FILE]\n"
     "           [--save-log FILE]",
     "run work items, one JSON object a line; results as JSON lines"},
    {"bench", tg_verb_engine_bench, "[--seconds S] [--slots N]",
     "measure the engine on this machine in a few seconds; JSON lines"},
    {"dump", tg_verb_engine_dump, "--ring FILE | --control FILE | --log FILE [--json] [--all]",
     "show what a buffer of the wire holds"},
    {"emit", tg_verb_engine_emit,
     "--c | --cuda [--slots N] [--stride W] [--body FILE]... [--unrestricted] [--until-idle]\n"
     "           [--indexed]",
     "print the worker, with opcodes of your own, as one translation unit of C11 or CUDA C"},
    {"serve", tg_verb_engine_serve,
     "--socket PATH [--slots N] [--workers N] [--tenant UID=T[:QUOTA]]... [--clients N]\n"
     "           [--client-slots N] [--mode OCTAL]",
     "an engine that other processes submit to, each through a ring of its own"},
    {"device", tg_verb_engine_device, "",
     "own a GPU for the program that starts this (options.device_process); not for hands"},
    {NULL, NULL, NULL, NULL},
};

static const struct tg_verb *find(const char *name)
{
    for (const struct tg_verb *v = verbs; v->name; v++)
        if (strcmp(v->name, name) == 0)
            return v;
    return NULL;
}

static void list(FILE *to)
{
    fputs("usage: tidegate engine VERB [ARGUMENTS]\n\n", to);
    for (const struct tg_verb *v = verbs; v->name; v++)
        fprintf(to, "  %-6s %s\n", v->name, v->help);
    fputs("\ntidegate engine VERB --help says what a verb takes; tidegate-engine(1) what it means.\n", to);
}

int tg_verb_engine(int argc, char **argv)
{
    if (argc < 2) {
        list(stderr);
        return TG_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
        list(stdout);
        return tg_flushed("engine", TG_EXIT_OK);
    }
    const struct tg_verb *v = find(argv[1]);
    if (!v)
        return tg_usage_error("engine", "there is no verb %s (see tidegate engine --help)",
                              tg_shown(argv[1]));
    if (argc > 2 && strcmp(argv[2], "--help") == 0) {
        printf("usage: tidegate engine %s %s\n%s\n", v->name, v->args, v->help);
        return tg_flushed("engine", TG_EXIT_OK);
    }
    return v->fn(argc - 1, argv + 1);
}
