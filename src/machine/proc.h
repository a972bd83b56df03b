/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes as the rules see them: an owner is (pid, start time, boot id) (A4), so that a recycled pid is
 * somebody else (S2, L7); a signal goes only to the very process that was recorded (L8, L13).
 */
#ifndef TG_MACHINE_PROC_H
#define TG_MACHINE_PROC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "machine/root.h"

#define TG_BOOT_ID_BYTES 37u /* 36 characters and NUL */

struct tg_owner {
    pid_t pid;
    uint64_t start_ticks; /* field 22 of /proc/PID/stat, clock ticks since boot */
    char boot_id[TG_BOOT_ID_BYTES];
};

enum tg_liveness { TG_ALIVE = 1, TG_DEAD = 0, TG_LIVENESS_UNKNOWN = -1 };

/* This boot's id. 0, or -errno (-EBADMSG: the file does not hold one). */
int tg_boot_id(const struct tg_root *root, char ret[TG_BOOT_ID_BYTES]);

/* The identity of a living process now. 0; -ESRCH: no such process, or it is a zombie; -EINVAL: pid < 1;
 * -errno when /proc cannot be read; -EACCES when it hides the process (hidepid). */
int tg_owner_of(const struct tg_root *root, pid_t pid, struct tg_owner *ret);

/* The same, with its parent and its session at that moment. */
struct tg_kin {
    pid_t parent;
    pid_t session;
};
int tg_owner_and_kin(const struct tg_root *root, pid_t pid, struct tg_owner *ret, struct tg_kin *ret_kin);

/* The same, with a pidfd for exactly that process, which costs one look at /proc less than asking for the one
 * after the other. *ret_fd is -1 where none can be had, or with a fixture: ask tg_owner_pidfd then, which
 * says why. On error nothing is open. */
int tg_owner_open(const struct tg_root *root, pid_t pid, struct tg_owner *ret, struct tg_kin *ret_kin,
                  int *ret_fd);

/* Whether the recorded process still lives: the boot id, the start time and the state all must say so (a
 * zombie is dead). UNKNOWN when /proc cannot be read. Probing never reaps (L14). */
enum tg_liveness tg_owner_alive(const struct tg_root *root, const struct tg_owner *owner);

/* A pidfd for exactly that process: opened, then the start time is checked again. 0 and *ret_fd (close it;
 * it is readable when the process has ended), or -ESRCH (dead, or somebody else), or -errno (-EINVAL
 * or -ENOENT: the number of a thread, not of a process; -ENOSYS: a kernel before 5.3). */
int tg_owner_pidfd(const struct tg_root *root, const struct tg_owner *owner, int *ret_fd);

/* The one place that sends signals. Refuses pid 0, 1, -1, the caller itself and signals out of range with
 * -EINVAL; sends through a pidfd after checking the start time. With group, and when the process leads its
 * process group and that group is not the caller's, the whole group is signalled. 0, -ESRCH, -EPERM, -errno.
 */
int tg_owner_signal(const struct tg_root *root, const struct tg_owner *owner, int sig, bool group);
/* Whether that could be done now: 0, or the same errors. Sends nothing. */
int tg_owner_may_signal(const struct tg_root *root, const struct tg_owner *owner);

/* Forwards a signal to the caller's own direct child that has not been reaped yet (its pid cannot have been
 * reused). Refuses pid <= 1, the caller itself and bad signals with -EINVAL; -ESRCH: no child of ours, or
 * reaped already. Collects nothing, keeps errno, may be called in a signal handler. */
int tg_child_signal(pid_t child, int sig);

/* Whether a signal has stopped it (SIGSTOP, Ctrl-Z; not: a debugger). False too when nobody can tell. */
bool tg_proc_is_stopped(const struct tg_root *root, pid_t pid);

/* The user that owns the process (real uid). 0, -ESRCH, -errno. */
int tg_proc_uid(const struct tg_root *root, pid_t pid, uid_t *ret);

/* Whether ancestor is pid or one of its parents (at most 64 steps up). An unreadable chain says false. */
bool tg_proc_descends(const struct tg_root *root, pid_t pid, pid_t ancestor);

/* Calls visit(ctx, pid) for pid and each of its parents up to (not including) pid 1, at most 64 steps,
 * until visit returns true; returns whether it did. */
bool tg_proc_walk_up(const struct tg_root *root, pid_t pid, bool (*visit)(void *ctx, pid_t pid), void *ctx);

#endif
