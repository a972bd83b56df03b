/* SPDX-License-Identifier: Apache-2.0
 *
 * What the verbs of the command share: the table they stand in, exit codes, options, strict arguments,
 * and how an error becomes a message and an exit code.
 */
#ifndef TG_CLI_CLI_H
#define TG_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/client.h"

/* Exit codes; those of a command that ran are its own, 128 + n when signal n ended it. */
enum {
    TG_EXIT_OK = 0,
    TG_EXIT_TIMEOUT_VERDICT = 1, /* wait-admit: TIMEOUT */
    TG_EXIT_NOT_DONE = 1,        /* engine run: an item did not end DONE */
    TG_EXIT_USAGE = 2,           /* a wrong argument, nothing was enqueued */
    TG_EXIT_NEVER_FITS = 123,
    TG_EXIT_WAITED = 124, /* run: waited too long */
    TG_EXIT_FAILED = 125, /* our own failures: no broker, no store, cancelled */
    TG_EXIT_NOT_EXECUTABLE = 126,
    TG_EXIT_NOT_FOUND = 127,
};

/* A verb gets its own arguments: argv[0] is the verb, argv[argc] NULL. Returns the exit code. */
struct tg_verb {
    const char *name;
    int (*fn)(int argc, char **argv);
    const char *args; /* for the usage line */
    const char *help; /* one line */
};

int tg_verb_run(int argc, char **argv);
int tg_verb_wait_admit(int argc, char **argv);
int tg_verb_release(int argc, char **argv);
int tg_verb_status(int argc, char **argv);
int tg_verb_why(int argc, char **argv);
int tg_verb_wait(int argc, char **argv);
int tg_verb_metrics(int argc, char **argv);
int tg_verb_cancel(int argc, char **argv);
int tg_verb_output(int argc, char **argv);
int tg_verb_prio(int argc, char **argv);
int tg_verb_hold(int argc, char **argv);
int tg_verb_resume(int argc, char **argv);
int tg_verb_drain(int argc, char **argv);
int tg_verb_undrain(int argc, char **argv);
int tg_verb_history(int argc, char **argv);
int tg_verb_config(int argc, char **argv);
int tg_verb_stop(int argc, char **argv);
int tg_verb_replay(int argc, char **argv);
int tg_verb_demo(int argc, char **argv);
int tg_verb_engine(int argc, char **argv); /* engine.c has the table of the verbs below it */
int tg_verb_engine_serve(int argc, char **argv);

/* True when called by the prototype's name, nx_swarm_queue: verdict lines are then the prototype's. */
extern bool tg_prototype;
/* "SWARM-QUEUE " then, else "". */
const char *tg_line_prefix(void);

/* One line on standard error, "tidegate: VERB: ...". What the caller typed is shown by %s of tg_shown. */
void tg_complain(const char *verb, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same, for a wrong argument, with a hint at --help: returns TG_EXIT_USAGE. */
int tg_usage_error(const char *verb, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A caller's text made printable and clipped, in quotes; one of four rotating buffers. */
const char *tg_shown(const char *text);

/* Works out where the broker is; complains and returns false when that cannot be told. */
bool tg_open_client(const char *verb, struct tg_client *c, bool may_start);
/* Sends a request (the reference is taken; NULL: no memory) and reads the answer: TG_EXIT_OK and *ret, or
 * complains and returns the exit code. */
int tg_ask(const char *verb, struct tg_client *c, json_t *request, json_t **ret);
/* Complains with c->text and returns the exit code of a client error. */
int tg_report(const char *verb, const struct tg_client *c, int err);
/* Prints the broker's answer, less its "ok", and nothing else (W16). TG_EXIT_OK, or a complaint. */
int tg_print_json(const char *verb, json_t *reply);
/* All of a verb that shows an answer: opens the client, sends the request (the reference is taken) and prints
 * what comes back, as it is or as show does for people. The exit code. */
int tg_ask_and_show(const char *verb, json_t *request, bool json, void (*show)(const json_t *reply));
/* Flushes standard output: ok, or TG_EXIT_FAILED with a complaint when it could not be written. */
int tg_flushed(const char *verb, int ok);

/* Options stand before the first other argument; "--" ends them. A "-" followed by a digit is an argument,
 * so that negative numbers are. */
struct tg_option {
    char letter;      /* 0: none */
    const char *name; /* without "--" */
    bool takes_value;
};
struct tg_options {
    const char *verb;
    const struct tg_option *table; /* ends with {0, NULL, false} */
    int argc;
    char **argv;
    int at;            /* the next argument; at the end the first that is no option */
    size_t in_cluster; /* inside "-qv" */
    const char *value; /* of the option just returned */
};
#define TG_OPTIONS_END (-1)
#define TG_OPTIONS_ERROR (-2) /* a complaint was made: exit TG_EXIT_USAGE */
/* The index in the table of the next option, or one of the two above. */
int tg_next_option(struct tg_options *o);
/* For a verb with one option, which takes no value: *ret says whether it stands there. The index of the first
 * other argument, or TG_OPTIONS_ERROR. */
int tg_only_option(const char *verb, char letter, const char *name, int argc, char **argv, bool *ret);

/* Strict arguments. Each writes *ret and returns true, or complains (naming the value and the rule). */
bool tg_arg_u64(const char *verb, const char *what, const char *text, uint64_t min, uint64_t max,
                uint64_t *ret);
bool tg_arg_i64(const char *verb, const char *what, const char *text, int64_t min, int64_t max, int64_t *ret);
bool tg_arg_pid(const char *verb, const char *text, int *ret);
bool tg_arg_ticket(const char *verb, const char *text, uint64_t *ret);
/* A whole number with ms, s, m, h or d (seconds when there is none), at most 100 years. */
bool tg_arg_duration(const char *verb, const char *what, const char *text, uint64_t *ret_ms);
/* A level's name or an integer. */
bool tg_arg_level(const char *verb, const char *text, int64_t *ret);

/* For people: "3.2s", "4m05s", "2h30m". */
void tg_format_duration(char *to, size_t size, uint64_t ms);
/* A field of an answer as printable text in one of four rotating buffers; "-" when it is absent. */
const char *tg_shown_field(const json_t *object, const char *key);
/* A field that is a number; 0 when it is absent. */
uint64_t tg_number_field(const json_t *object, const char *key);

#define TG_PRIO_MIN INT32_MIN
#define TG_PRIO_MAX INT32_MAX
#define TG_EST_MB_MAX (UINT64_C(1) << 43) /* every estimate is below 2^63 bytes (N4) */
#define TG_SLOTS_MAX 1000000u
#define TG_WAIT_MS_MAX UINT64_C(3153600000000) /* 100 years */

#endif
