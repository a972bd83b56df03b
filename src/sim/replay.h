/* SPDX-License-Identifier: Apache-2.0
 *
 * Replays a trace in virtual time through the functions of src/policy: what would this machine have done
 * under that policy? At each instant first the jobs that end give their processors back, then the jobs
 * submitted at it join the queue, then the policy is asked once. It never looks ahead: the policy sees the
 * queue, the running jobs and their requested times. Nothing here prints.
 */
#ifndef TG_SIM_REPLAY_H
#define TG_SIM_REPLAY_H

#include <stddef.h>
#include <stdint.h>

#include <tidegate/easy.h>

#include "sim/swf.h"

enum tg_replay_policy {
    TG_REPLAY_FIFO,     /* strictly in order of arrival */
    TG_REPLAY_EASY,     /* FIFO with EASY backfill in order of arrival */
    TG_REPLAY_TIDEGATE, /* the policy of <tidegate/easy.h> */
};

struct tg_replay_options {
    int64_t procs; /* of the machine, 1 to TG_SWF_MAX_PROCS */
    enum tg_replay_policy policy;
    struct tg_tide_settings tide; /* for TG_REPLAY_TIDEGATE; tg_tide_defaults(1) */
};

/* Slowdown = (wait + run) / run; bounded: a run time below 10 s counts as 10 s, the result is at least 1.
 * Without jobs everything is 0. */
struct tg_replay_result {
    uint64_t jobs;      /* replayed */
    uint64_t skipped;   /* wider than the machine, or without submit time, run time or processors */
    int64_t makespan_s; /* from the first submit to the last end */
    int64_t max_wait_s;
    double avg_wait_s;
    double avg_bsld;
    double utilisation; /* processor seconds used / (procs * makespan) */
};

/* What happened to each job of the trace, for whoever wants to check it. Arrays as long as the trace, the
 * caller's; either may be NULL. */
struct tg_replay_log {
    int64_t *start_s;    /* when it started; -1: skipped */
    int64_t *reserved_s; /* the first reservation or promise it got as the front; -1: none */
};

/* Replays in order of submit time, then job number, then line; a requested time that is missing is the run
 * time. log may be NULL. 0 and *ret; -EINVAL for options out of range, -EOVERFLOW when the times of the
 * trace add up to more than 64 bits hold, -ENOMEM. Thread-safe. */
int tg_replay(const struct tg_swf *trace, const struct tg_replay_options *options,
              struct tg_replay_result *ret, const struct tg_replay_log *log);

/* "fifo", "easy", "tidegate"; -EINVAL for another name. */
int tg_replay_policy_parse(const char *name, enum tg_replay_policy *ret);
const char *tg_replay_policy_name(enum tg_replay_policy policy);

#endif
