/* SPDX-License-Identifier: Apache-2.0
 *
 * The processes that belong to a ticket (A4): those that carry its mark TIDEGATE_TICKET=ID:UUID in the
 * environment they were executed with, the owner, and whatever descends from one of these. A process whose
 * mark names another ticket of the same store belongs to that one, and so does what descends from it.
 *
 * Reads only; signals go through proc.h. Nothing here reaps (L14). What vanishes while it is read is no
 * error.
 */
#ifndef TG_MACHINE_TREE_H
#define TG_MACHINE_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "machine/root.h"

#define TG_TREE_MARK "TIDEGATE_TICKET" /* name of the variable */

/* A ticket whose processes are looked for. */
struct tg_tree_want {
    uint64_t id;          /* of the mark; above 0 */
    uid_t uid;            /* whose marks count; root's always do */
    pid_t owner;          /* the command; it may have ended */
    uint64_t owner_start; /* nothing that is older belongs */
    pid_t reaper; /* a child subreaper that was the owner's parent, or 0: its younger children belong */
};

struct tg_tree_process {
    pid_t pid;
    pid_t session;
    uint64_t start_ticks;
    size_t want; /* index of the ticket */
    bool stopped;
};

/* Zero-initialise; free with tg_tree_done. */
struct tg_tree {
    struct tg_tree_process *at; /* in order of pid */
    size_t used;
    size_t room;
};

/* Finds the living processes of n tickets in one pass over /proc (repeated, a few times at most, while
 * nothing is found and processes vanish under the eyes). uuid is the store's, of the mark; except (or 0) and
 * what descends from it belongs to nobody. 0 and *ret, which is overwritten; -ENOMEM; -errno when /proc
 * cannot be read. */
int tg_tree_scan(const struct tg_root *root, const char *uuid, const struct tg_tree_want *want, size_t n,
                 pid_t except, struct tg_tree *ret);
void tg_tree_done(struct tg_tree *t);

/* Whether the reaper of an owner that has ended has any other child that lives and is not older: 0: none, so
 * nothing is left of the tree; 1: some; -errno: cannot be told (-ESRCH: the reaper has ended; -ENOENT: this
 * kernel does not list children). Costs a few reads of small files, however many processes there are. */
int tg_tree_any_left(const struct tg_root *root, const struct tg_tree_want *want, pid_t except);

#endif
