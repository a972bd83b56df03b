/* SPDX-License-Identifier: Apache-2.0
 *
 * The command: finds the verb and calls it. To add one: write its file, declare its function in cli.h, add
 * its line to the table.
 */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "cli/gpu.h"

static const struct tg_verb verbs[] = {
    {"run", tg_verb_run,
     "[-p LEVEL] [-m SIZE] [-t TENANT] [--slots N] [--time DUR] [--strict] [--timeout DUR] [--key K "
     "[--if-exists "
     "join|refuse|replace]] [--detach] [-q|-v] -- CMD...",
     "wait for a turn, then run a command; exits as it did"},
    {"output", tg_verb_output, "ID [-f]", "what a command run with --detach has written"},
    {"wait-admit", tg_verb_wait_admit, "PID PRIO EST_MB MAX_CONC MAX_WAIT_MS",
     "wait for a turn on behalf of a process (0 GRANT, 1 TIMEOUT)"},
    {"release", tg_verb_release, "PID", "give back what wait-admit got for a process"},
    {"status", tg_verb_status, "[--json]", "who holds, who waits and why"},
    {"why", tg_verb_why, "[--json] ID", "what keeps a ticket waiting: the gate, its numbers, who holds"},
    {"wait", tg_verb_wait, "[--timeout DUR] ID... | --all",
     "return when tickets have ended; exits as the first that did not end with 0"},
    {"cancel", tg_verb_cancel, "ID [--grace DUR]",
     "take a ticket out of the queue, or end its command and all that it started"},
    {"prio", tg_verb_prio, "ID LEVEL", "give a waiting ticket another priority"},
    {"hold", tg_verb_hold, "ID", "keep a waiting ticket back; it keeps its place and blocks nobody"},
    {"resume", tg_verb_resume, "ID", "let a ticket that is on hold wait for its turn again"},
    {"drain", tg_verb_drain, "", "admit nobody any more; running commands go on"},
    {"undrain", tg_verb_undrain, "", "admit again"},
    {"history", tg_verb_history, "[--json|--swf] [--limit N] [--since DUR]",
     "what has ended, newest last; --swf as a trace for replay"},
    {"metrics", tg_verb_metrics, "", "counters and gauges in the Prometheus text format"},
    {"config", tg_verb_config, "[KEY [VALUE]]", "show or set slots, load, floor-mb, backfill-mb, ..."},
    {"stop", tg_verb_stop, "[--force]", "end the broker; running commands go on"},
    {"replay", tg_verb_replay, "TRACE.swf --procs N [--policy fifo|easy|tidegate] [--json]",
     "run a recorded workload in virtual time through the same rules"},
    {"engine", tg_verb_engine, "run|bench|dump|emit|serve [ARGUMENTS]",
     "the resident engine: run work items, measure it, look into its buffers"},
    {"demo", tg_verb_demo, "[DIR]", "real files through both planes, with checks of what the rules promise"},
    {NULL, NULL, NULL, NULL},
};

static void print_usage(FILE *to)
{
    fputs("usage: tidegate VERB [ARGUMENTS]\n\n", to);
    for (const struct tg_verb *v = verbs; v->name; v++)
        fprintf(to, "  %-11s %s\n", v->name, v->help);
    fputs("\ntidegate VERB --help says what a verb takes; tidegate --version which version this is.\n"
          "Levels: critical 4, high 3, normal 2, low 1, idle 0, or any whole number, higher first.\n"
          "Exit codes: 2 wrong argument, 123 can never fit, 124 waited too long, 125 failure of tidegate's\n"
          "own, 126 not executable, 127 not found; else those of the command, 128 + n for signal n.\n",
          to);
}

static int print_verb_help(const struct tg_verb *v)
{
    printf("usage: tidegate %s%s%s\n%s\n", v->name, v->args[0] ? " " : "", v->args, v->help);
    return tg_flushed(v->name, TG_EXIT_OK);
}

static const struct tg_verb *find_verb(const char *name)
{
    for (const struct tg_verb *v = verbs; v->name; v++) {
        if (strcmp(v->name, name) == 0)
            return v;
    }
    return NULL;
}

static int help(int argc, char **argv)
{
    const struct tg_verb *v = argc > 2 ? find_verb(argv[2]) : NULL;
    if (argc > 2 && !v)
        return tg_usage_error(NULL, "there is no verb %s (see tidegate --help)", tg_shown(argv[2]));
    if (v)
        return print_verb_help(v);
    print_usage(stdout);
    return tg_flushed("help", TG_EXIT_OK);
}

int main(int argc, char **argv)
{
    const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
    tg_prototype = argc > 0 && strcmp(slash ? slash + 1 : argv[0], "nx_swarm_queue") == 0;
    tg_command_line = argv;
#ifdef TG_STATIC_CLI
    tg_static_command = true;
#endif
    json_object_seed(1); /* else the first object reads /dev/urandom; our answers come from our own broker */
    if (argc < 2) {
        print_usage(stderr);
        return TG_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        puts("tidegate " TG_VERSION);
        return tg_flushed("--version", TG_EXIT_OK);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0)
        return help(argc, argv);
    const struct tg_verb *v = find_verb(argv[1]);
    if (!v)
        return tg_usage_error(NULL, "there is no verb %s (see tidegate --help)", tg_shown(argv[1]));
#ifdef TG_FAULT_ARMS
    if (tg_fault_arm(getenv(TG_ENV_FAULT_POINT)))
        return tg_usage_error(NULL, TG_ENV_FAULT_POINT " must be NAME or NAME:N");
#endif
    bool has_verbs = v->fn == tg_verb_engine; /* and says itself which */
    if (argc > 2 && strcmp(argv[2], "--help") == 0 && !has_verbs)
        return print_verb_help(v);
    return v->fn(argc - 1, argv + 1);
}
