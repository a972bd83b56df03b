/* SPDX-License-Identifier: Apache-2.0
 * What `replay --policy easy` says holds for live jobs: the pass that decides in the broker (policy.h), fed
 * with a workload whose run times are all known, starts every job when the replay does. */
#include <tidegate/policy.h>

#include "check.h"
#include "sim/replay.h"
#include "workload.h"

enum { JOBS = 1500, PROCS = 256 };

static struct tg_swf_job job[JOBS];
static int64_t expect[JOBS], start[JOBS], end[JOBS];

static int64_t requested(int k)
{
    return job[k].request_s > job[k].run_s ? job[k].request_s : job[k].run_s;
}

/* One decision of the broker at this time, in ms. */
static void decide(int64_t now)
{
    static struct tg_release room[JOBS];
    struct tg_timeline running = {.entry = room, .cap = JOBS};
    struct tg_gates gates = {.slots = PROCS,
                             .overtake_bound = TG_DEFAULT_OVERTAKE_BOUND,
                             .load_limit_milli = TG_LOAD_OFF,
                             .backfill_mb = TG_DEFAULT_BACKFILL_MB,
                             .budget_mb = TG_NO_BUDGET};
    struct tg_usage usage = {.mem_known = true, .mem_available_mb = 1, .mem_total_mb = 1};
    struct tg_pass pass;
    for (int k = 0; k < JOBS; k++) {
        struct tg_amount a = {.of = {(uint64_t)job[k].procs, 0}};
        if (start[k] < 0 || end[k] <= now)
            continue;
        usage.slots_held += a.of[0];
        CHECK_EQ(tg_timeline_add(&running, (start[k] + requested(k)) * 1000, (uint64_t)k, &a), 0);
    }
    tg_pass_begin(&pass, &gates, &usage);
    tg_pass_times(&pass, &running, now * 1000);
    for (int k = 0; k < JOBS && job[k].submit_s <= now; k++) {
        struct tg_candidate c = {.seq = (uint64_t)k + 1,
                                 .slots = (uint32_t)job[k].procs,
                                 .max_conc = TG_UNLIMITED,
                                 .time_ms = (uint64_t)requested(k) * 1000};
        if (start[k] >= 0 || tg_pass_next(&pass, &c).kind == TG_QUEUE)
            continue;
        start[k] = now;
        end[k] = now + job[k].run_s;
    }
}

static void check_workload(int64_t load, int exact, uint64_t seed)
{
    struct tg_swf swf = {job, JOBS};
    struct tg_replay_options opt = {.procs = PROCS, .policy = TG_REPLAY_EASY, .tide = tg_tide_defaults(1)};
    struct tg_replay_log log = {.start_s = expect};
    struct tg_replay_result r;
    workload_make(job, JOBS, PROCS, load, exact, seed);
    CHECK_EQ(tg_replay(&swf, &opt, &r, &log), 0);
    CHECK_EQ(r.jobs, JOBS);
    for (int k = 0; k < JOBS; k++)
        start[k] = end[k] = -1;
    for (int64_t now = 0; now >= 0;) { /* at every submit and every end */
        decide(now);
        int64_t next = -1;
        for (int k = 0; k < JOBS; k++) {
            int64_t t = start[k] >= 0 ? end[k] : job[k].submit_s;
            if (t > now && (next < 0 || t < next))
                next = t;
        }
        now = next;
    }
    for (int k = 0; k < JOBS; k++)
        CHECK_EQ(start[k], expect[k]);
}

static void a3_the_live_decision_is_what_replay_calls_easy(void)
{
    check_workload(75, 1, 1);
    check_workload(105, 1, 2);
    check_workload(90, 0, 3);
    check_workload(105, 0, 4);
}

int main(void)
{
    RUN(a3_the_live_decision_is_what_replay_calls_easy);
    return 0;
}
