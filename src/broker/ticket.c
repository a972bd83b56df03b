/* SPDX-License-Identifier: Apache-2.0
 * See ticket.h. */
#include "broker/ticket.h"

#include <stdlib.h>
#include <string.h>

struct tg_ticket *tg_ticket_new(const char *tenant, const char *cmd, const char *cwd, const char *key)
{
    struct tg_ticket *t = calloc(1, sizeof(*t));
    if (!t)
        return NULL;
    t->tenant = strdup(tenant);
    t->cmd = strdup(cmd);
    t->cwd = strdup(cwd);
    t->key = strdup(key);
    t->main_status = -1;
    if (!t->tenant || !t->cmd || !t->cwd || !t->key) {
        tg_ticket_free(t);
        return NULL;
    }
    return t;
}

void tg_ticket_free(struct tg_ticket *t)
{
    if (!t)
        return;
    free(t->tenant);
    free(t->cmd);
    free(t->cwd);
    free(t->key);
    free(t);
}

bool tg_ticket_may_become(const struct tg_ticket *t, enum tg_ticket_state state)
{
    switch (state) {
    case TG_WAIT:
        return t->state == TG_PARKED;
    case TG_PARKED:
        return t->state == TG_WAIT || (t->state == TG_HOLD && !t->acked);
    case TG_HOLD:
        return t->state == TG_WAIT && !t->on_hold;
    }
    return false;
}

const char *tg_ticket_kind_name(enum tg_ticket_kind kind)
{
    return kind == TG_KIND_RUN ? "run" : "wait-admit";
}

const char *tg_source_name(enum tg_source source)
{
    static const char *const names[] = {"none", "stated", "learned", "default"};
    return (unsigned)source < sizeof(names) / sizeof(names[0]) ? names[source] : "?";
}

const char *tg_ticket_state_name(enum tg_ticket_state state)
{
    switch (state) {
    case TG_WAIT:
        return "WAIT";
    case TG_PARKED:
        return "PARKED";
    case TG_HOLD:
        return "HOLD";
    }
    return "?";
}

const char *tg_verdict_kind_name(enum tg_verdict_kind kind)
{
    switch (kind) {
    case TG_QUEUE:
        return "queue";
    case TG_GRANT_ORDERED:
        return "ordered";
    case TG_GRANT_BACKFILL:
        return "backfill";
    }
    return "?";
}

struct tg_candidate tg_ticket_candidate(const struct tg_ticket *t)
{
    return (struct tg_candidate){.prio = t->prio,
                                 .seq = t->id,
                                 .est_mb = t->est_mb,
                                 .slots = t->slots,
                                 .max_conc = t->max_conc,
                                 .overtaken = t->overtaken,
                                 .time_ms = t->time_ms,
                                 .strict = t->strict};
}
