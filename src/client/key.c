/* SPDX-License-Identifier: Apache-2.0
 * See key.h. */
#include "client/key.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"

/* Others may replace at the same time: whoever asks last stays. */
#define ROUNDS_MAX 100

static int too_late(struct tg_client *c, uint64_t ticket)
{
    return tg_client_fail(c, -ETIME, "waited too long for the end of ticket %llu, which has the same key",
                          (unsigned long long)ticket);
}

static int join(struct tg_client *c, uint64_t ticket, uint64_t deadline_ns, struct tg_ended *ret)
{
    struct tg_ended ended;
    int err = tg_client_wait(c, &ticket, 1, deadline_ns, &ended);
    if (err == -ETIMEDOUT)
        return too_late(c, ticket);
    if (err)
        return err;
    if (!ended.known)
        return tg_client_fail(c, -ECANCELED,
                              "ticket %llu, which was joined, ended without an exit status (%s)",
                              (unsigned long long)ticket, ended.outcome);
    *ret = ended;
    return 0;
}

/* Ends the whole of it and returns when it is gone. */
static int end_existing(struct tg_client *c, uint64_t ticket, uint64_t deadline_ns)
{
    json_t *reply = NULL;
    json_t *request = json_pack("{s:s,s:I}", "op", "cancel", "ticket", (json_int_t)ticket);
    int err = request ? tg_client_call_within(c, request, TG_CLIENT_CANCEL_MS, &reply)
                      : tg_client_fail(c, -ENOMEM, "no memory");
    struct tg_ended ended;
    const char *state = "";
    json_decref(request);
    if (!err && tg_field_string(reply, "state", 16, &state) == 0 && strcmp(state, "HOLD") == 0)
        err = tg_client_fail(c, -EBUSY, "ticket %llu, which has the same key, could not be ended",
                             (unsigned long long)ticket);
    json_decref(reply);
    if (!err)
        err = tg_client_wait(c, &ticket, 1, deadline_ns, &ended);
    if (err == -ESRCH) /* it has ended in between */
        return 0;
    return err == -ETIMEDOUT ? too_late(c, ticket) : err;
}

/* What is left of the time, for tg_admit. */
static uint64_t left_ms(uint64_t deadline_ns)
{
    if (deadline_ns == TG_NO_DEADLINE)
        return UINT64_MAX;
    uint64_t now = tg_clock_mono_ns();
    return now >= deadline_ns ? 0 : (deadline_ns - now + 999999) / 1000000;
}

int tg_admit_keyed(struct tg_client *c, const struct tg_admit_ask *admit, const struct tg_keyed_ask *ask,
                   struct tg_admit_answer *ret, struct tg_ended *ret_joined, bool *ret_was_joined)
{
    struct tg_admit_ask now = *admit;
    uint64_t deadline = tg_deadline_ns(admit->wait_ms);
    int err = 0;
    *ret_was_joined = false;
    now.tell_existing = ask->if_exists != TG_IF_EXISTS_REFUSE;
    for (int round = 0; round < ROUNDS_MAX; round++) {
        err = tg_admit(c, &now, ask->waiting, ask->ctx, ret);
        now.asked = false;
        if (err || ret->state != TG_ADMIT_EXISTS)
            return err;
        if (ask->existing)
            ask->existing(ask->ctx, ret, ask->if_exists);
        if (ask->if_exists == TG_IF_EXISTS_JOIN) {
            err = join(c, ret->ticket, deadline, ret_joined);
            *ret_was_joined = err == 0;
            return err;
        }
        err = end_existing(c, ret->ticket, deadline);
        if (err)
            return err;
        now.wait_ms = left_ms(deadline);
    }
    return tg_client_fail(c, -EEXIST, "others start the same thing again and again");
}
