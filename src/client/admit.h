/* SPDX-License-Identifier: Apache-2.0
 *
 * Asking for a turn and waiting for it. A waiter sleeps on its connection until the broker's answer comes
 * (A5); when the broker dies it goes to the next one and keeps its place (A8); when its time is up it is
 * parked (A7). Nothing but the broker's own HOLD is ever a grant (R7, S3).
 */
#ifndef TG_CLIENT_ADMIT_H
#define TG_CLIENT_ADMIT_H

#include <sys/types.h>

#include "client/client.h"

#define TG_ENV_TICKET "TIDEGATE_TICKET"      /* a command that runs under a ticket finds it there (A6) */
#define TG_ENV_GRANTED "TIDEGATE_GRANTED_NS" /* and here when it was granted, CLOCK_BOOTTIME ns */
#define TG_TICKET_ENV_BYTES 96u

/* What is asked; NULL and the UINT64_MAX values mean "not stated". The texts are borrowed and may hold any
 * bytes; what is not UTF-8 is sent in a readable form. */
#define TG_NOT_STATED UINT64_MAX
struct tg_admit_ask {
    const char *kind; /* "run" or "wait-admit" */
    pid_t pid;        /* who will own the ticket */
    uint64_t step;    /* which of several of its tickets, a random number below 2^63; 0: its only one */
    int64_t prio;     /* larger is more urgent */
    uint64_t est_mb;  /* memory it will grow to, MB */
    uint64_t max_conc;
    uint64_t slots;
    uint64_t time_ms; /* how long it will run; 0: that is not known, and the broker is not to guess */
    bool strict;      /* its place is that of its arrival, and it passes nobody */
    const char *tenant;
    const char *cmd;    /* to show, any length */
    const char *cwd;    /* to show */
    const char *key;    /* what makes two requests the same thing (V8); see tg_key_valid */
    bool tell_existing; /* with that key in use: EXISTS is the answer, not -EEXIST */
    const char *parent; /* the value of TG_ENV_TICKET, which is checked; a malformed one is left out */
    bool reaper;        /* the parent of pid is a child subreaper and does nothing else */
    bool detached;      /* passes under nobody's ticket */
    bool asked;         /* this very message has been sent on c's connection: only its answer is awaited */
    uint64_t wait_ms;   /* how long to wait; 0: take the first answer; UINT64_MAX: as long as it takes */
};

enum tg_admit_state { TG_ADMIT_WAIT = 1, TG_ADMIT_HOLD, TG_ADMIT_PARKED, TG_ADMIT_EXISTS };

struct tg_admit_answer {
    enum tg_admit_state state;
    uint64_t ticket;
    uint64_t ahead;                /* WAIT: how many come first */
    bool unanswered;               /* PARKED: the broker never said so; c->text names it */
    bool existing_runs;            /* EXISTS: it has been admitted; ticket is its own */
    char verdict[16];              /* HOLD: "ordered", "backfill", "nested", "already" */
    char env[TG_TICKET_ENV_BYTES]; /* HOLD: the value for TG_ENV_TICKET */
    uint64_t granted_boot_ns;      /* HOLD: when the broker decided; 0: it did not say */
    char text[512];                /* WAIT: why, in words, printable */
};

/* Asks, and waits until HOLD, or until wait_ms have passed (then the ticket is parked, and *ret says
 * PARKED), or EXISTS. A broker that does not answer (a stopped one) is waited for no longer than that, but
 * for a second at least (with wait_ms 0, one attempt, five): PARKED and unanswered. waiting (NULL: nobody
 * cares) is called for each WAIT that comes. 0 and *ret, or an error of client.h; after an error nothing was
 * granted. Blocks; bounded when wait_ms is. */
int tg_admit(struct tg_client *c, const struct tg_admit_ask *ask,
             void (*waiting)(void *ctx, const struct tg_admit_answer *now), void *ctx,
             struct tg_admit_answer *ret);

/* The request as a message (NULL on lack of memory), and what an answer to it says: 0, or -EPROTO. */
json_t *tg_admit_message(const struct tg_admit_ask *ask);
int tg_admit_read(struct tg_client *c, const json_t *message, struct tg_admit_answer *ret);

/* Whether a text has the form ID:STORE-UUID of TG_ENV_TICKET. */
bool tg_ticket_env_valid(const char *text);

#endif
