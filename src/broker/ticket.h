/* SPDX-License-Identifier: Apache-2.0
 *
 * A ticket: one owner's place in the queue or among the holders. Plain data; queue.c orders tickets, store.c
 * keeps the first half of the fields, life.c moves them between states. A ticket that has ended is a row of
 * the history and no struct any more.
 *
 *   (new) -> WAIT <-> PARKED      WAIT -> HOLD -> (ended)      HOLD not acknowledged -> PARKED
 *   WAIT and PARKED -> (ended)    on hold: WAIT or PARKED, and no way to HOLD
 */
#ifndef TG_BROKER_TICKET_H
#define TG_BROKER_TICKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>
#include <tidegate/policy.h>

#include "machine/proc.h"
#include "proto/fields.h"

struct tg_cancel;
struct tg_peer;
struct tg_survivor;
struct tg_watch;
struct tg_line;

/* The numbers stand in the store: never renumber. */
enum tg_ticket_state { TG_WAIT = 1, TG_PARKED = 2, TG_HOLD = 3 };
enum tg_ticket_kind { TG_KIND_RUN = 1, TG_KIND_WAIT_ADMIT = 2 };

/* Arrival numbers stay far from where a counter would wrap; a store that claims more is corrupt. */
#define TG_STORE_ID_MAX (INT64_C(1) << 62)
/* More than were ever given after the newest that is known of a store which lost its end. */
#define TG_STORE_LEAP (UINT64_C(1) << 20)

/* Bounds of what one ticket may carry; the broker refuses (requests) or drops (rows of the store) more. */
#define TG_EST_MAX_MB (UINT64_C(1) << 43)
#define TG_SLOTS_MAX 1000000u
#define TG_TIME_MAX_MS UINT64_C(3153600000000) /* 100 years */
#define TG_TENANT_BYTES 256u
#define TG_CMD_BYTES 1024u
#define TG_CWD_BYTES 4096u
#define TG_KEY_BYTES TG_KEY_MAX_BYTES

/* Where an estimate or a run time comes from. The numbers stand in the store. */
enum tg_source { TG_SOURCE_NONE = 0, TG_SOURCE_STATED = 1, TG_SOURCE_LEARNED = 2, TG_SOURCE_DEFAULT = 3 };
const char *tg_source_name(enum tg_source source);
#define TG_PARENT_BYTES 128u

TAILQ_HEAD(tg_ticket_list, tg_ticket);

/* Whether its processes are to be looked for; look.c. */
enum tg_ticket_look { TG_LOOK_NO, TG_LOOK_WANTED, TG_LOOK_UNDER_WAY };

struct tg_ticket {
    /* Kept in the store. */
    uint64_t id; /* arrival number (A1) */
    struct tg_owner owner;
    uint64_t step; /* which of several of its owner it is, by a number the owner made up; 0: the only one */
    uid_t uid;
    enum tg_ticket_kind kind;
    enum tg_ticket_state state;
    int64_t prio;
    uint64_t est_mb;
    uint32_t slots;
    uint32_t max_conc;
    uint32_t overtaken;
    enum tg_verdict_kind verdict; /* of the grant; TG_QUEUE before it */
    enum tg_source est_source;
    uint64_t time_ms;           /* how long it will run; 0: not known */
    enum tg_source time_source; /* stated with time_ms 0: it is not known, and nobody is to guess */
    bool strict;                /* it takes its place by arrival alone and passes nobody */
    bool acked;                 /* the client has read its HOLD */
    bool cancelled;             /* a running command was told to end */
    bool on_hold;               /* a person keeps it back; its place stays */
    bool detached;              /* it outlives the terminal, its output is kept */
    pid_t session;              /* of the owner, when it asked: who left it has detached on purpose */
    pid_t reaper;               /* its parent, which adopts the orphans of its tree; 0: there is none */
    bool main_ended;            /* the command has ended, processes it started have not (A4) */
    int32_t main_status;        /* its wait status then; -1: not known */
    uint64_t peak_mb;           /* largest resident size of its tree that was seen */
    char *key;                  /* what makes two requests the same thing, or "" */
    char *tenant;               /* owned; valid UTF-8 without control characters, like cmd and cwd */
    char *cmd;
    char *cwd;
    uint64_t asked_boot_ms; /* CLOCK_BOOTTIME, for durations; order never comes from a clock */
    uint64_t asked_wall_ms; /* for showing */
    uint64_t held_boot_ms;  /* 0: not held yet */
    uint64_t held_wall_ms;

    /* Known to this process alone. */
    bool saved;      /* the store has a row of it */
    bool reply_due;  /* its admit has not been answered yet */
    bool stopped;    /* parked since it was stopped when its turn came; a waiter again when it goes on */
    bool adopted;    /* came from the store at the start and has not been asked for again */
    bool dirty;      /* the store's row lags behind (it refused); written again later */
    int64_t ends_ms; /* of a holder: when it should end (CLOCK_BOOTTIME), TG_NEVER when that is not known */
    size_t place;    /* index among the holders, the parked ones or those on hold */
    uint64_t pass_no;
    struct tg_verdict judged;  /* by pass number pass_no */
    uint64_t resident_mb;      /* of its process tree, when last measured */
    uint64_t peak_kept_ms;     /* monotonic; when the store last heard of a new peak */
    bool over_estimate;        /* it used far more than it said, and that was told */
    uint64_t unknown_since_ms; /* monotonic; 0: its death is an event */
    struct tg_watch *watch;
    int64_t level;  /* of a waiter: its priority and what waiting has added to it */
    uint64_t round; /* its turn within the level (rank.h); stays when it leaves, for when it comes back */
    int64_t moves;  /* see turns.c, like line */
    struct tg_line *line;
    TAILQ_ENTRY(tg_ticket) in_line;
    bool main_kept;   /* the store knows that the command has ended and the ticket goes on */
    bool awaits_word; /* the command has ended, its wrapper has not said yet whether anything is left */
    bool unasked;     /* and neither has its reaper been asked */
    bool word_kept;   /* how it ended is in the words too (proto/words.h) */
    bool main_oom;    /* the command was killed for lack of memory, its wrapper says */
    enum tg_ticket_look look;
    struct tg_survivor *survivors; /* processes of its tree, besides the owner, whose death is awaited */
    uint32_t n_survivors;
    uint32_t n_looks;           /* how often those who are left were looked at to see who has detached */
    uint32_t n_let_go;          /* that have left its session, when last looked for */
    bool owner_stopped;         /* the owner was, then */
    uint64_t look_again_ms;     /* monotonic; 0: its survivors need not be looked for before one ends */
    struct tg_cancel *cancel;   /* NULL: no cancellation runs */
    struct tg_peer *peer;       /* who waits for the answer */
    struct tg_ticket *key_next; /* of those whose key has the same hash */
    struct tg_ticket *peer_next;
    struct tg_ticket *peer_prev;
};

/* A zeroed ticket with copies of the four texts; NULL on lack of memory. */
struct tg_ticket *tg_ticket_new(const char *tenant, const char *cmd, const char *cwd, const char *key);
/* Frees it; NULL is allowed. It must be in no queue and have no watch and no peer. */
void tg_ticket_free(struct tg_ticket *t);

/* Whether the picture above has an arrow from the state it is in to that one (O13). */
bool tg_ticket_may_become(const struct tg_ticket *t, enum tg_ticket_state state);

const char *tg_ticket_kind_name(enum tg_ticket_kind kind);
const char *tg_ticket_state_name(enum tg_ticket_state state);
const char *tg_verdict_kind_name(enum tg_verdict_kind kind);

/* The ticket as the policy sees it. */
struct tg_candidate tg_ticket_candidate(const struct tg_ticket *t);

#endif
