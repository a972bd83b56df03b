/* SPDX-License-Identifier: Apache-2.0
 *
 * What outlives the broker: tickets, their history, the configuration, the store's name. One SQLite file
 * with a write-ahead log; this room has all the SQL. Every call is one transaction and has been committed
 * when it returns 0 (A8); after an error the store is as before the call. synchronous=NORMAL: a killed broker
 * loses nothing; a power cut may lose the last transactions, when every holder is dead anyway.
 *
 * The store is opened for this process alone. Rows are input: what breaks a bound of ticket.h is dropped
 * and counted. Not thread-safe.
 */
#ifndef TG_BROKER_STORE_H
#define TG_BROKER_STORE_H

#include "broker/ticket.h"

#define TG_STORE_SCHEMA 2
#define TG_STORE_UUID_BYTES 37u
#define TG_HISTORY_ROWS 100000u /* what is kept of the history */

struct tg_store;

/* How a ticket ended; the text in the history is tg_outcome_name. */
enum tg_outcome {
    TG_OUTCOME_DONE,       /* the wrapper told the status, and the command ended by itself */
    TG_OUTCOME_OWNER_DIED, /* seen by the pidfd; done may still tell the status */
    TG_OUTCOME_RELEASED,
    TG_OUTCOME_CANCELLED,
    TG_OUTCOME_LOST,      /* died while no broker ran */
    TG_OUTCOME_UNKNOWN,   /* nobody could tell for too long whether the owner lives */
    TG_OUTCOME_SIGNALLED, /* like done, but a signal ended it */
    TG_OUTCOME_KILLED,    /* SIGKILL that was not our cancel: why is not known */
    TG_OUTCOME_OOM,       /* SIGKILL while the kernel killed for lack of memory (E10) */
    TG_OUTCOMES,
};
const char *tg_outcome_name(enum tg_outcome outcome);
/* What a wait status says; oom: its wrapper saw that memory had run out. */
enum tg_outcome tg_outcome_of_status(int64_t status, bool oom);

/* What opening found. */
struct tg_store_report {
    char quarantined[512]; /* where a corrupt store was moved to, or "" */
    uint64_t dropped_rows; /* tickets whose rows broke a rule */
    bool unclean;          /* it was not closed: its log had to be replayed */
    uint64_t recognised;   /* running commands that another store granted, found by their marks (marks.h) */
};

/* Opens or makes the store. 0; -EPROTONOSUPPORT: a newer schema (U10); -EBUSY: another process has it;
 * other -errno. On error *why (size bytes) says what and where. A corrupt file is moved aside and a new
 * one made: that is no error, the report says so (U7). */
int tg_store_open(const char *path, struct tg_store **ret, struct tg_store_report *report, char *why,
                  size_t size);
void tg_store_close(struct tg_store *s);

/* The store goes on under another one's name, and with numbers from next_id on (a larger one than any it
 * has). 0 or -errno. */
int tg_store_continue(struct tg_store *s, const char *uuid, uint64_t next_id);

/* Whether the store knows that this ticket has ended (of the oldest: so old that its row is gone). */
bool tg_store_has_ended(struct tg_store *s, uint64_t id);

const char *tg_store_uuid(const struct tg_store *s);
const char *tg_store_path(const struct tg_store *s);
/* The last error as text. */
const char *tg_store_why(const struct tg_store *s);

/* Calls take(ctx, ticket) for every ticket in order of arrival; take owns it. Rows that break a rule are
 * removed and counted in the report. 0 or -errno. */
int tg_store_load(struct tg_store *s, struct tg_store_report *report,
                  void (*take)(void *ctx, struct tg_ticket *t), void *ctx);

/* The first arrival number that was never given (A1), as found when the store was opened. */
uint64_t tg_store_next_id(const struct tg_store *s);

/* Each: 0; -ENOSPC, -EROFS, -EIO, ... when the store refused. */
int tg_store_insert(struct tg_store *s, const struct tg_ticket *t);
int tg_store_update(struct tg_store *s, const struct tg_ticket *t);
/* All of them in one transaction, or none. */
int tg_store_update_all(struct tg_store *s, struct tg_ticket *const *t, size_t n);
/* A grant: t (with its new state) is inserted or updated, and the front it passed (or NULL) updated, in one
 * transaction. */
int tg_store_grant(struct tg_store *s, const struct tg_ticket *t, bool insert, const struct tg_ticket *front);
/* An end: the row moves to the history. */
struct tg_store_ending {
    const struct tg_ticket *ticket;
    enum tg_outcome outcome;
    int64_t status;   /* < 0: not known */
    uint64_t boot_ms; /* CLOCK_BOOTTIME of the boot it was granted in; 0: nobody knows when */
    uint64_t wall_ms;
};
/* n of them in one transaction: all or none. */
int tg_store_ends(struct tg_store *s, const struct tg_store_ending *endings, size_t n);
/* One that ends now (but LOST, of which nobody knows when). */
int tg_store_end(struct tg_store *s, const struct tg_ticket *t, enum tg_outcome outcome, int64_t status);
/* What a late word of a command's end met: a row without a status, and its numbers then. */
struct tg_filled {
    bool found;
    uid_t uid; /* whose it was */
    uint64_t est_mb;
    uint64_t peak_mb;
};
/* done for a ticket that has ended already: fills in its status once, and the outcome that follows from it
 * unless it was cancelled, and raises its peak. Of a ticket of by alone, unless that is 0: else -EPERM, *ret
 * says whose it is, and nothing has changed. */
int tg_store_fill_status(struct tg_store *s, uint64_t id, uid_t by, int64_t status, enum tg_outcome outcome,
                         uint64_t peak_mb, struct tg_filled *ret);

/* What the last runs of one user's command (same command, directory and key) used. */
#define TG_LEARN_PEAKS 5u
#define TG_LEARN_TIMES 2u
#define TG_LEARN_ROWS 16u /* of the history are looked at */
struct tg_learned {
    unsigned n_peaks;
    uint64_t peak_mb; /* the largest of the last n_peaks that were measured */
    unsigned n_times;
    uint64_t sum_ms; /* of the last n_times runs that came to their own end */
};
/* One run, and what it adds. */
struct tg_learn_run {
    uint64_t peak_mb; /* 0: not known */
    uint64_t ran_ms;  /* UINT64_MAX: not known */
    enum tg_outcome outcome;
    int64_t status;
};
void tg_learn_run(struct tg_learned *l, const struct tg_learn_run *run);
/* Adds them to what *io has of runs that came later; a call with all 0 asks for the last ones. 0 or -errno,
 * and *io is as before. */
int tg_store_learn(struct tg_store *s, uid_t uid, const char *cmd, const char *cwd, const char *key,
                   struct tg_learned *io);

/* A row of the history. UINT64_MAX: not known. The texts are valid UTF-8 without control characters and
 * belong to the call that hands the row out. */
struct tg_history {
    uint64_t seq; /* in the order of the ends */
    uint64_t id;
    uint64_t pid;
    uint64_t uid;
    enum tg_ticket_kind kind;
    int64_t prio;
    uint64_t est_mb;
    enum tg_source est_source;
    uint64_t slots;
    enum tg_verdict_kind verdict; /* TG_QUEUE: was never admitted */
    uint64_t time_ms;             /* how long it was to run; 0: not known */
    uint64_t peak_mb;             /* 0: not known */
    uint64_t asked_wall_ms;
    uint64_t held_wall_ms; /* 0: was never admitted */
    uint64_t ended_wall_ms;
    uint64_t waited_ms;
    uint64_t ran_ms;
    enum tg_outcome outcome;
    int64_t status; /* as of waitpid; -1: not known */
    bool detached;
    const char *tenant;
    const char *cmd;
    const char *cwd;
    const char *key;
};

/* The rows that ended before row number before_seq (UINT64_MAX: from the last on), newest first, at most
 * limit of them, until take returns false. Rows that break a rule are left out, but *ret_last (the number of
 * the last row that was read; 0 when there are no more) goes on past them. 0 or -errno. */
int tg_store_history_page(struct tg_store *s, uint64_t before_seq, uint32_t limit,
                          bool (*take)(void *ctx, const struct tg_history *row), void *ctx,
                          uint64_t *ret_last);
/* The row of a ticket that has ended: calls take once. 0; -ENOENT: there is none (any more); -errno. */
int tg_store_history_find(struct tg_store *s, uint64_t id,
                          bool (*take)(void *ctx, const struct tg_history *row), void *ctx);

/* The smallest number in the history, or INT64_MAX when that is empty. 0 or -errno. */
int tg_store_oldest(struct tg_store *s, uint64_t *ret);

int tg_store_config_set(struct tg_store *s, const char *key, const char *value);
int tg_store_config_load(struct tg_store *s, void (*take)(void *ctx, const char *key, const char *value),
                         void *ctx);

/* Pages in the write-ahead log, and moving them into the file (it may wait for the disk). */
int tg_store_log_pages(const struct tg_store *s);
void tg_store_checkpoint(struct tg_store *s);

#endif
