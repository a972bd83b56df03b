/* SPDX-License-Identifier: Apache-2.0
 * See learn.h. */
#include "broker/learn.h"

#include "base/checked.h"
#include "broker/broker.h"
#include "broker/ended.h"

#define MARGIN_LEAST_MB 64u

uint64_t tg_learned_est_mb(uint64_t peak_mb)
{
    uint64_t margin = peak_mb / 5 + (peak_mb % 5 != 0);
    if (margin < MARGIN_LEAST_MB)
        margin = MARGIN_LEAST_MB;
    uint64_t est = tg_sat_add_u64(peak_mb, margin);
    return est < TG_EST_MAX_MB ? est : TG_EST_MAX_MB;
}

void tg_learn(struct tg_broker *b, uid_t uid, const char *cmd, const char *cwd, const char *key,
              struct tg_estimate *e)
{
    struct tg_learned learned = {0};
    bool wants_est = e->est_source != TG_SOURCE_STATED;
    bool wants_time = e->time_source != TG_SOURCE_STATED;
    if ((!wants_est && !wants_time) || !cmd[0])
        return;
    tg_ended_learn(b, uid, cmd, cwd, key, &learned);
    if (tg_store_learn(b->store, uid, cmd, cwd, key, &learned) != 0)
        return;
    if (wants_est && learned.n_peaks > 0) {
        e->est_mb = tg_learned_est_mb(learned.peak_mb);
        e->est_source = TG_SOURCE_LEARNED;
    }
    if (wants_time && learned.n_times > 0) {
        uint64_t mean = learned.sum_ms / learned.n_times;
        e->time_ms = mean > 0 ? mean : 1;
        e->time_source = TG_SOURCE_LEARNED;
    }
}
