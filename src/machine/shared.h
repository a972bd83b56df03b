/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that a forked process shares with its parent, for this folder: a worker that was forked from a large
 * process has all of it in its own figures, and not a byte of its own (A2: each byte counts once).
 */
#ifndef TG_MACHINE_SHARED_H
#define TG_MACHINE_SHARED_H

#include <stdint.h>
#include <sys/types.h>

/* A process and what it shows as resident, in kB. */
struct tg_shown {
    pid_t pid;
    uint64_t kb;
};

/* The part of a child's memory that is not its parent's, in kB. All of it for one that has executed a program
 * of its own, or where either is small. Else its private pages are counted, which takes time for each page:
 * at most *budget_kb more, and that much less is left afterwards. Beyond the budget, what it has more than
 * its parent: then a tree is taken for smaller than it is, and more of its reservation stays booked. */
uint64_t tg_shared_own_kb(int proc_fd, const struct tg_shown *child, const struct tg_shown *parent,
                          uint64_t *budget_kb);

#endif
