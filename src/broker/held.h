/* SPDX-License-Identifier: Apache-2.0
 *
 * Who holds by wait-admit, beside the store: held/ID, one small file each, made with the grant and removed
 * when the ticket stops holding. A process gets no mark from wait-admit, so when the store is lost these
 * files alone tell that it holds (marks.c asks). They are worth nothing else: the store is what counts.
 *
 * A file is input: it is taken when it is what this program would have written, byte for byte, and its
 * process still lives (pid, start time, boot). A broker that is killed between the end of a ticket and the
 * removal leaves one too many; the next removes it, unless the store is lost just then: `tidegate release
 * PID` ends such a holder.
 */
#ifndef TG_BROKER_HELD_H
#define TG_BROKER_HELD_H

#include "broker/broker.h"

struct tg_held {
    uint64_t id;
    char uuid[TG_STORE_UUID_BYTES]; /* of the store that granted it */
    struct tg_owner owner;
    uint64_t step;
    uid_t uid;
    uint64_t est_mb;
    uint32_t slots;
    int64_t prio;
};

/* Opens the folder beside the store, or makes it. Without one nothing is kept, and the log says so. */
void tg_held_open(struct tg_broker *b);
void tg_held_close(struct tg_broker *b);

/* The ticket holds now, or holds something else than before. Nothing happens for one that is not of
 * wait-admit. */
void tg_held_write(struct tg_broker *b, const struct tg_ticket *t);
/* It holds no longer. Likewise. */
void tg_held_gone(struct tg_broker *b, const struct tg_ticket *t);

/* All that are there, of whatever store and boot; to be freed. 0 or -ENOMEM. */
int tg_held_read(struct tg_broker *b, struct tg_held **ret, size_t *ret_n);
/* The start is over: files of nobody who holds go, and those of former programs' holders come. */
void tg_held_sweep(struct tg_broker *b);

#endif
