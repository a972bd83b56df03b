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

#define TG_STORE_SCHEMA 1
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
};
const char *tg_outcome_name(enum tg_outcome outcome);
/* What a wait status says; oom: its wrapper saw that memory had run out. */
enum tg_outcome tg_outcome_of_status(int64_t status, bool oom);

/* What opening found. */
struct tg_store_report {
    char quarantined[512]; /* where a corrupt store was moved to, or "" */
    uint64_t dropped_rows; /* tickets whose rows broke a rule */
};

/* Opens or makes the store. 0; -EPROTONOSUPPORT: a newer schema (U10); -EBUSY: another process has it;
 * other -errno. On error *why (size bytes) says what and where. A corrupt file is moved aside and a new
 * one made: that is no error, the report says so (U7). */
int tg_store_open(const char *path, struct tg_store **ret, struct tg_store_report *report, char *why,
                  size_t size);
void tg_store_close(struct tg_store *s);

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
/* A grant: t (with its new state) is inserted or updated, and the front it passed (or NULL) updated, in one
 * transaction. */
int tg_store_grant(struct tg_store *s, const struct tg_ticket *t, bool insert, const struct tg_ticket *front);
/* The end: the row moves to the history. status < 0: not known. */
int tg_store_end(struct tg_store *s, const struct tg_ticket *t, enum tg_outcome outcome, int64_t status);
/* done for a ticket that has ended already: fills in its status once, and the outcome that follows from it
 * unless it was cancelled. *ret_found tells whether there was one to fill in. */
int tg_store_fill_status(struct tg_store *s, uint64_t id, int64_t status, enum tg_outcome outcome,
                         bool *ret_found);

int tg_store_config_set(struct tg_store *s, const char *key, const char *value);
int tg_store_config_load(struct tg_store *s, void (*take)(void *ctx, const char *key, const char *value),
                         void *ctx);

/* Pages in the write-ahead log, and moving them into the file (it may wait for the disk). */
int tg_store_log_pages(const struct tg_store *s);
void tg_store_checkpoint(struct tg_store *s);

#endif
