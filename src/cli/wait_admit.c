/* SPDX-License-Identifier: Apache-2.0
 *
 * tidegate wait-admit: the prototype's call. Waits for a turn on behalf of a process, prints one verdict and
 * says it with the exit code: 0 GRANT, 1 TIMEOUT (the place is kept, A7), 2 a wrong argument; 123 when the
 * machine could never give that much, 125 when there is no broker or no store: never a GRANT then (S3, R7).
 * The grant is acknowledged before it is printed; one that never got here goes back to the queue.
 */
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "client/admit.h"

static const char verb[] = "wait-admit";

static bool read_arguments(int argc, char **argv, struct tg_admit_ask *ask)
{
    if (argc != 6) {
        tg_usage_error(verb, "needs PID PRIO EST_MB MAX_CONC MAX_WAIT_MS, five arguments, but got %d",
                       argc - 1);
        return false;
    }
    /* 0 MB: takes memory into account no further; 0 ms: one attempt; no callers at once (max_conc 0) is
     * refused, since it could only wait for ever (N5). */
    return tg_arg_pid(verb, argv[1], &ask->pid) &&
           tg_arg_i64(verb, "prio", argv[2], TG_PRIO_MIN, TG_PRIO_MAX, &ask->prio) &&
           tg_arg_u64(verb, "est_mb", argv[3], 0, TG_EST_MB_MAX, &ask->est_mb) &&
           tg_arg_u64(verb, "max_conc", argv[4], 1, UINT32_MAX, &ask->max_conc) &&
           tg_arg_u64(verb, "max_wait_ms", argv[5], 0, TG_WAIT_MS_MAX, &ask->wait_ms);
}

/* Brokers that may be killed one after the other between a grant and its acknowledgement. */
#define ASK_TRIES 20

/* Says that the grant has arrived, and waits for an answer that comes after it: only then has the broker, and
 * so its store, taken it in. A broker killed in between leaves a grant that nobody acknowledged, and its
 * successor gives the place to somebody else (A8: no double grant). 0, -ECONNRESET: ask anew; or an error. */
static int acknowledge(struct tg_client *c, uint64_t ticket)
{
    json_t *ack = json_pack("{s:s,s:I}", "op", "ack", "ticket", (json_int_t)ticket);
    json_t *after = json_pack("{s:s,s:s}", "op", "config", "key", "slots");
    json_t *reply = NULL;
    int err = ack && after ? tg_client_send(c, ack) : tg_client_fail(c, -ENOMEM, "no memory");
    if (!err)
        err = tg_client_send(c, after);
    if (!err)
        err = tg_client_recv(c, tg_deadline_ns(TG_CLIENT_REPLY_MS), &reply);
    json_decref(reply);
    json_decref(after);
    json_decref(ack);
    return err;
}

/* A grant that stands. It is asked for anew, at its old place, when the broker went before it was sure. */
static int admit(struct tg_client *c, const struct tg_admit_ask *ask, struct tg_admit_answer *ret)
{
    int err;
    int tries = 0;
    do {
        err = tg_admit(c, ask, NULL, NULL, ret);
        if (err || ret->state != TG_ADMIT_HOLD || strcmp(ret->verdict, "nested") == 0)
            return err;
        err = acknowledge(c, ret->ticket);
    } while (err == -ECONNRESET && ++tries < ASK_TRIES);
    return err;
}

static int print_verdict(const struct tg_admit_ask *ask, const struct tg_admit_answer *answer)
{
    const char *prefix = tg_line_prefix();
    if (answer->state != TG_ADMIT_HOLD) {
        printf("%sTIMEOUT (still queued; box stayed saturated past max_wait)\n", prefix);
        return tg_flushed(verb, TG_EXIT_TIMEOUT_VERDICT);
    }
    if (strcmp(answer->verdict, "backfill") == 0)
        printf("%s(backfill: small job fills idle capacity while a bigger job waits)\n", prefix);
    if (tg_prototype)
        printf("%sGRANT (admitted; run then: nx_swarm_queue release <pid>)\n", prefix);
    else
        printf("GRANT (admitted; run then: tidegate release %d)\n", (int)ask->pid);
    return tg_flushed(verb, TG_EXIT_OK);
}

int tg_verb_wait_admit(int argc, char **argv)
{
    struct tg_admit_ask ask = {
        .kind = verb, .slots = TG_NOT_STATED, .time_ms = TG_NOT_STATED, .parent = getenv(TG_ENV_TICKET)};
    struct tg_admit_answer answer;
    struct tg_client c;
    char cmd[64];
    if (!read_arguments(argc, argv, &ask))
        return TG_EXIT_USAGE;
    if (!tg_open_client(verb, &c, true))
        return TG_EXIT_FAILED;
    tg_client_name_process(ask.pid, cmd, sizeof(cmd));
    ask.cmd = cmd;
    int err = admit(&c, &ask, &answer);
    tg_fault_point("client.acked");
    if (!err && answer.unanswered)
        tg_complain(verb, "%s", c.text);
    int code = err ? tg_report(verb, &c, err) : print_verdict(&ask, &answer);
    tg_client_done(&c);
    return code;
}
