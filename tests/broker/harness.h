/* SPDX-License-Identifier: Apache-2.0
 *
 * For the tests of the broker: a real tidegate-broker over a private place, clients that speak frames over
 * its socket, and owners that are real processes. Every wait is bounded; a failure stops the test.
 */
#ifndef TG_TESTS_BROKER_HARNESS_H
#define TG_TESTS_BROKER_HARNESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <jansson.h>

#include "check.h"
#include "proto/frame.h"

#define PATIENCE_MS 120000 /* for what must come, on a machine that others keep busy too */

/* The address sanitizer keeps what was freed: then sizes say nothing. */
#define FREED_MEMORY_IS_KEPT 0
#ifdef __SANITIZE_ADDRESS__
#undef FREED_MEMORY_IS_KEPT
#define FREED_MEMORY_IS_KEPT 1
#endif
#ifdef __has_feature
#if __has_feature(address_sanitizer)
#undef FREED_MEMORY_IS_KEPT
#define FREED_MEMORY_IS_KEPT 1
#endif
#endif

/* Likewise the thread sanitizer, and both end where there is no memory. */
#define SANITIZED FREED_MEMORY_IS_KEPT
#ifdef __SANITIZE_THREAD__
#undef SANITIZED
#define SANITIZED 1
#endif
#ifdef __has_feature
#if __has_feature(thread_sanitizer)
#undef SANITIZED
#define SANITIZED 1
#endif
#endif

struct place {
    char dir[128]; /* below /tmp; removed at the end */
    char runtime[160];
    char state[160];
    char socket[192];
    char store[192];
    pid_t broker;
    const char *machine_root; /* NULL: the real machine */
    uid_t run_as;             /* of the broker; 0: as the test */
    const char *idle_exit;    /* NULL: as it is by default */
    const char *liveness;     /* --liveness-limit, likewise */
    const char *adopt;        /* --adopt-limit, likewise */
    const char *cancel;       /* --cancel-limit, likewise */
    bool detached;            /* without --foreground */
    char word[512];           /* what the broker said when it started */
};

/* A new private place, removed when the test ends. */
void place_make(struct place *p);
/* Starts the broker there and waits for its word; returns the word ("ready", "locked ...", "error ..."). */
const char *place_start(struct place *p);
/* place_start that must be ready, with the load gate off and so many slots. */
void place_ready(struct place *p, unsigned slots);
/* Ends the broker by a signal and waits; its wait status. */
int place_stop(struct place *p, int sig);

struct client {
    int fd;
    struct tg_frames in;
};

void client_open(struct client *c, const struct place *p);
void client_close(struct client *c);
void client_send(struct client *c, json_t *message); /* gives the reference up */
void client_send_bytes(struct client *c, const void *bytes, size_t n);
/* The next answer, within PATIENCE_MS; the caller owns it. */
json_t *client_recv(struct client *c);
json_t *client_recv_within(struct client *c, unsigned ms);
/* Whether nothing comes for so long. */
bool client_quiet(struct client *c, int ms);
/* Whether the broker closes this connection, whatever it sends before. */
bool client_is_closed(struct client *c);
json_t *client_ask(struct client *c, json_t *message);

/* {"op":"admit",...} for a process; est_mb or max_conc below 0: null. */
json_t *admit_message(const char *kind, pid_t pid, int64_t prio, int64_t est_mb, int64_t max_conc);
/* Asks and returns the state of the first answer as text ("HOLD", "WAIT", or an error's code), in a static
 * buffer; *ret_ticket may be NULL. */
const char *admit(struct client *c, const char *kind, pid_t pid, int64_t prio, int64_t est_mb,
                  uint64_t *ret_ticket);
/* The state of the next answer, likewise. */
const char *next_state(struct client *c);

/* Text and number at a path such as "gates.slots.held" or "waiters.0.why"; must be there. */
const char *text_at(const json_t *m, const char *path);
int64_t number_at(const json_t *m, const char *path);
json_t *at(const json_t *m, const char *path);

/* One status, over a connection of its own. */
json_t *status_of(const struct place *p);
size_t holders_of(const struct place *p);
size_t waiters_of(const struct place *p);
/* What the broker has open: entries of its /proc/PID/fd, and connections as it counts them (this one too). */
size_t descriptors_of(pid_t pid);
int64_t connections_of(const struct place *p);
uint64_t rss_kb_of(pid_t pid);
/* One message over a connection of its own, whose answer must be ok. */
void tell(const struct place *p, json_t *message);
void set_config(const struct place *p, const char *key, const char *value);

/* In a forked child: it ends with the test, whatever happens. */
void end_with_parent(pid_t parent);
/* A process that does nothing until it is killed (also when the test ends). */
pid_t owner_make(void);
void owner_kill(pid_t pid);
/* So many of them below one child of the test's, which is returned: its death ends them all. */
pid_t owners_make_many(pid_t *ret, size_t n);
/* The same below a wrapper as tidegate run has one: a child subreaper that reaps it and ends; one that
 * lingers has to be killed. *ret_wrapper is a child of the test's. Ask for it with "reaper": true. */
pid_t owner_make_wrapped(pid_t *ret_wrapper, bool lingers);

/* An event has been seen, not a deadline missed: a bound for machines on which a test may stand still for
 * many seconds, since a dozen others run too. What it tells apart is an event (a millisecond) from a time
 * limit or a poll of minutes, and nothing finer. How fast it is, bench/ says. */
#define SOON_MS 30000u

uint64_t now_ms(void);
/* Waits until an expression holds, at most so many ms. */
#define EVENTUALLY(cond) EVENTUALLY_WITHIN(PATIENCE_MS, cond)
#define EVENTUALLY_WITHIN(ms, cond)                                                                          \
    do {                                                                                                     \
        uint64_t eventually_end = now_ms() + (ms);                                                           \
        while (!(cond)) {                                                                                    \
            if (now_ms() > eventually_end) {                                                                 \
                fprintf(stderr, "%s:%d: %s: not in time: %s\n", __FILE__, __LINE__, __func__, #cond);        \
                exit(1);                                                                                     \
            }                                                                                                \
            pause_ms(2);                                                                                     \
        }                                                                                                    \
    } while (0)
void pause_ms(unsigned ms);

#define CHECK_TEXT(a, b)                                                                                     \
    do {                                                                                                     \
        const char *check_a = (a), *check_b = (b);                                                           \
        if (strcmp(check_a, check_b) != 0) {                                                                 \
            fprintf(stderr, "%s:%d: %s: failed: %s is \"%s\", not \"%s\"\n", __FILE__, __LINE__, __func__,   \
                    #a, check_a, check_b);                                                                   \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

#endif
