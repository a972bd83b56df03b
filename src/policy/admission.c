/* SPDX-License-Identifier: Apache-2.0
 *
 * Launch admission: A2 gates, A3 backfill by reservation or by the overtaking bound, A10 one capacity. Pure:
 * the caller brings the snapshot and keeps the books. See policy.h for the contract of each function.
 *
 * Why nobody delays a front that has a reservation: easy.c. The reservation is not kept from pass to pass but
 * made anew from the ends of holders; as long as nobody runs longer than it said, that finds the same time or
 * an earlier one. When somebody does, it leaves the timeline: the reservation moves to where the other known
 * ends allow it, or there is none, and the overtaking bound decides, which needs nobody's word.
 */
#include <tidegate/policy.h>

#include <string.h>

#include "base/checked.h"

static enum tg_why refuse(struct tg_verdict *v, enum tg_why why, uint64_t need, uint64_t have, uint64_t limit)
{
    v->why = why;
    v->need = need;
    v->have = have;
    v->limit = limit;
    return why;
}

/* What a load must be below: of a gate that has closed, less than what closed it (O14). */
static uint64_t load_limit(const struct tg_gates *gates, const struct tg_usage *usage)
{
    return usage->load_closed ? tg_sat_sub_u64(gates->load_limit_milli, gates->load_margin_milli)
                              : gates->load_limit_milli;
}

/* slots: of the job; one that takes none would be let in again and again. */
static enum tg_why busy(const struct tg_gates *gates, const struct tg_usage *usage, uint32_t slots,
                        struct tg_verdict *v)
{
    if (gates->load_limit_milli == TG_LOAD_OFF)
        return TG_WHY_NONE;
    uint64_t limit = load_limit(gates, usage);
    if (!usage->load_known)
        return refuse(v, TG_WHY_LOAD_UNKNOWN, 0, 0, limit);
    if (usage->load_milli < limit || (slots > 0 && usage->slots_held < gates->load_least_slots))
        return TG_WHY_NONE;
    uint64_t held = usage->slots_held < UINT64_MAX / 1000 ? usage->slots_held * 1000 : UINT64_MAX;
    v->by_others = tg_sat_sub_u64(usage->load_milli, held) >= limit;
    return refuse(v, TG_WHY_LOAD, gates->load_limit_milli, usage->load_milli, limit);
}

static enum tg_why pressed(const struct tg_gates *gates, const struct tg_usage *usage, struct tg_verdict *v)
{
    if (gates->pressure_memory == 0 && gates->pressure_cpu == 0)
        return TG_WHY_NONE;
    if (usage->pressure_unknown)
        return refuse(v, TG_WHY_PRESSURE_UNKNOWN, 0, 0, 0);
    if (gates->pressure_memory > 0 && usage->pressure_memory >= gates->pressure_memory)
        return refuse(v, TG_WHY_PRESSURE_MEMORY, 0, usage->pressure_memory, gates->pressure_memory);
    if (gates->pressure_cpu > 0 && usage->pressure_cpu >= gates->pressure_cpu)
        return refuse(v, TG_WHY_PRESSURE_CPU, 0, usage->pressure_cpu, gates->pressure_cpu);
    return TG_WHY_NONE;
}

enum tg_why tg_gates_refuse(const struct tg_gates *gates, const struct tg_usage *usage,
                            const struct tg_candidate *job, struct tg_verdict *v)
{
    if (job->slots > tg_sat_sub_u64(gates->slots, usage->slots_held) && job->slots > 0)
        return refuse(v, TG_WHY_SLOTS, job->slots, usage->slots_held, gates->slots);
    if (busy(gates, usage, job->slots, v) != TG_WHY_NONE || pressed(gates, usage, v) != TG_WHY_NONE)
        return v->why;
    if (!usage->mem_known)
        return refuse(v, TG_WHY_MEMORY_UNKNOWN, job->est_mb, 0, 0);
    uint64_t spoken_for = tg_sat_add_u64(usage->reserved_mb, gates->floor_mb);
    uint64_t room = tg_sat_sub_u64(usage->mem_available_mb, spoken_for);
    /* Below the floor even a job without an estimate waits: the floor is for those already running. */
    if (job->est_mb > room || spoken_for > usage->mem_available_mb)
        return refuse(v, TG_WHY_MEMORY, job->est_mb, room, usage->mem_available_mb);
    if (job->est_mb > tg_sat_sub_u64(gates->budget_mb, usage->booked_mb))
        return refuse(v, TG_WHY_BUDGET, job->est_mb, usage->booked_mb, gates->budget_mb);
    return TG_WHY_NONE;
}

enum tg_why tg_never_fits(const struct tg_gates *gates, const struct tg_usage *usage,
                          const struct tg_candidate *job, struct tg_verdict *v)
{
    /* No slots at all is a pause that somebody will end, not the size of the machine. */
    if (gates->slots > 0 && job->slots > gates->slots)
        return refuse(v, TG_WHY_NEVER_FITS_SLOTS, job->slots, 0, gates->slots);
    uint64_t most = tg_sat_sub_u64(usage->mem_total_mb, gates->floor_mb);
    if (usage->mem_total_mb == 0)
        most = UINT64_MAX;
    if (job->est_mb > gates->budget_mb && gates->budget_mb < most) /* the tighter of the two is named */
        return refuse(v, TG_WHY_NEVER_FITS_BUDGET, job->est_mb, 0, gates->budget_mb);
    if (job->est_mb > most)
        return refuse(v, TG_WHY_NEVER_FITS_MEMORY, job->est_mb, 0, most);
    return TG_WHY_NONE;
}

void tg_pass_begin(struct tg_pass *pass, const struct tg_gates *gates, const struct tg_usage *usage)
{
    memset(pass, 0, sizeof(*pass));
    pass->gates = *gates;
    pass->usage = *usage;
    pass->all_self_limited = true;
}

void tg_pass_times(struct tg_pass *pass, struct tg_timeline *running, int64_t now)
{
    pass->running = running;
    pass->now = now;
}

/* One resource: what is left of limit, or what is used beyond it. */
static void left(uint64_t limit, uint64_t used, uint64_t *free, uint64_t *owed)
{
    *free = tg_sat_sub_u64(limit, used);
    *owed = tg_sat_sub_u64(used, limit);
}

void tg_gates_room(const struct tg_gates *gates, const struct tg_usage *usage, struct tg_amount *free,
                   struct tg_amount *owed)
{
    uint64_t budget_free;
    uint64_t budget_owed;
    left(gates->slots, usage->slots_held, &free->of[TG_RES_SLOTS], &owed->of[TG_RES_SLOTS]);
    left(usage->mem_available_mb, tg_sat_add_u64(usage->reserved_mb, gates->floor_mb),
         &free->of[TG_RES_MEMORY], &owed->of[TG_RES_MEMORY]);
    left(gates->budget_mb, usage->booked_mb, &budget_free, &budget_owed);
    if (budget_free < free->of[TG_RES_MEMORY])
        free->of[TG_RES_MEMORY] = budget_free;
    if (budget_owed > owed->of[TG_RES_MEMORY])
        owed->of[TG_RES_MEMORY] = budget_owed;
}

static struct tg_amount need_of(const struct tg_candidate *w)
{
    return (struct tg_amount){.of = {[TG_RES_SLOTS] = w->slots, [TG_RES_MEMORY] = w->est_mb}};
}

/* TG_NEVER when it is not known, or too long for the clock. */
static int64_t run_of(const struct tg_candidate *w)
{
    return w->time_ms == 0 || w->time_ms > INT64_MAX ? TG_NEVER : (int64_t)w->time_ms;
}

/* A3: the earliest time at which the known ends of holders let the front start. */
static void reserve(struct tg_pass *pass, const struct tg_candidate *w)
{
    struct tg_amount need = need_of(w);
    struct tg_amount free;
    struct tg_amount owed;
    if (pass->front_why != TG_WHY_SLOTS && pass->front_why != TG_WHY_MEMORY &&
        pass->front_why != TG_WHY_BUDGET)
        return; /* nobody's end frees what it waits for */
    if (!pass->running)
        return;
    tg_gates_room(&pass->gates, &pass->usage, &free, &owed);
    tg_amount_add(&need, &owed);
    pass->front_known = tg_easy_reserve(pass->running, &free, &need, pass->now, pass->now, &pass->front) == 0;
}

static bool is_small(const struct tg_pass *pass, const struct tg_candidate *w)
{
    return w->est_mb <= pass->gates.backfill_mb;
}

/* It stays in the queue; the first such waiter is the front that the overtaking bound protects. */
static struct tg_verdict stays(struct tg_pass *pass, const struct tg_candidate *w, struct tg_verdict v)
{
    v.kind = TG_QUEUE;
    v.overtakes = false;
    pass->ahead++;
    if (v.why != TG_WHY_MAX_CONC)
        pass->all_self_limited = false;
    if (!pass->has_front) {
        pass->has_front = true;
        pass->front_seq = w->seq;
        pass->front_slots = w->slots;
        pass->front_max_conc = w->max_conc;
        pass->front_est_mb = w->est_mb;
        pass->front_overtaken = w->overtaken;
        pass->front_why = v.why;
        reserve(pass, w);
        v.start_known = pass->front_known;
        v.start_in_ms = pass->front_known ? (uint64_t)(pass->front.start - pass->now) : 0;
    }
    return v;
}

/* What the grant means for the time at which the front starts, or for one who becomes the front later. */
static void book_time(struct tg_pass *pass, const struct tg_candidate *w)
{
    struct tg_amount need = need_of(w);
    int64_t run = run_of(w);
    int64_t end;
    if (pass->front_known)
        tg_easy_book(&pass->front, pass->now, &need, run);
    else if (!pass->has_front && pass->running && run != TG_NEVER && tg_add_i64(pass->now, run, &end))
        (void)tg_timeline_add(pass->running, end, w->seq, &need); /* full: its end is not known */
}

static struct tg_verdict granted(struct tg_pass *pass, const struct tg_candidate *w,
                                 enum tg_verdict_kind kind, bool overtakes)
{
    struct tg_verdict v = {.kind = kind, .overtakes = overtakes};
    pass->usage.slots_held += w->slots;
    pass->usage.reserved_mb = tg_sat_add_u64(pass->usage.reserved_mb, w->est_mb);
    pass->usage.booked_mb = tg_sat_add_u64(pass->usage.booked_mb, w->est_mb);
    pass->usage.load_milli = tg_sat_add_u64(pass->usage.load_milli, (uint64_t)w->slots * 1000);
    pass->usage.load_closed = false; /* it opened; now it closes at its limit */
    if (!is_small(pass, w))
        pass->usage.heavy_holders++;
    if (overtakes)
        pass->front_overtaken++;
    book_time(pass, w);
    return v;
}

/* A3: being blocked on one resource never blocks those who do not need it. */
static bool needs_nothing_of_the_front(const struct tg_pass *pass, const struct tg_candidate *w)
{
    struct tg_amount free;
    struct tg_amount owed;
    /* Another heavy holder could be one more than the front accepts beside it (A10). */
    if (!is_small(pass, w) && pass->front_max_conc != TG_UNLIMITED &&
        tg_sat_add_u64(pass->usage.heavy_holders, 1) >= pass->front_max_conc)
        return false;
    tg_gates_room(&pass->gates, &pass->usage, &free, &owed);
    switch (pass->front_why) {
    case TG_WHY_MEMORY:
    case TG_WHY_BUDGET:
        return w->est_mb == 0 && tg_sat_sub_u64(free.of[TG_RES_SLOTS], w->slots) >= pass->front_slots;
    case TG_WHY_SLOTS:
        return w->slots == 0 &&
               (w->est_mb == 0 || tg_sat_sub_u64(free.of[TG_RES_MEMORY], w->est_mb) >= pass->front_est_mb);
    default:
        return false;
    }
}

/* It stays because of the front. */
static struct tg_verdict behind_front(struct tg_pass *pass, const struct tg_candidate *w, enum tg_why why,
                                      uint64_t need, uint64_t have, uint64_t limit)
{
    struct tg_verdict v = {.blocker = pass->front_seq};
    refuse(&v, why, need, have, limit);
    return stays(pass, w, v);
}

/* It has room, and somebody ahead of it has not: whether it may go first (A3). in_order: those ahead are held
 * back by caps of their own alone. */
static struct tg_verdict pass_by(struct tg_pass *pass, const struct tg_candidate *w, bool in_order)
{
    enum tg_verdict_kind kind = in_order ? TG_GRANT_ORDERED : TG_GRANT_BACKFILL;
    bool free_of_it = needs_nothing_of_the_front(pass, w);
    if (pass->gates.strict || w->strict || (!in_order && !free_of_it && !is_small(pass, w)))
        return behind_front(pass, w, TG_WHY_ORDER, 0, 0, 0);
    if (pass->front_known) {
        struct tg_amount need = need_of(w);
        int64_t run = run_of(w);
        if (tg_easy_may_pass(&pass->front, pass->now, &need, run) != TG_EASY_NO)
            return granted(pass, w, kind, false);
        return behind_front(pass, w, TG_WHY_RESERVED, run == TG_NEVER ? 0 : w->time_ms,
                            (uint64_t)(pass->front.start - pass->now), 0);
    }
    if (free_of_it)
        return granted(pass, w, TG_GRANT_BACKFILL, false);
    if (pass->front_overtaken >= pass->gates.overtake_bound)
        return behind_front(pass, w, TG_WHY_GATE_CLOSED, 0, pass->front_overtaken,
                            pass->gates.overtake_bound);
    return granted(pass, w, kind, true);
}

struct tg_verdict tg_pass_next(struct tg_pass *pass, const struct tg_candidate *w)
{
    struct tg_verdict v = {.kind = TG_QUEUE};
    if (tg_never_fits(&pass->gates, &pass->usage, w, &v) != TG_WHY_NONE)
        return v;

    uint64_t counted = tg_sat_add_u64(pass->ahead, pass->usage.heavy_holders);
    bool own_cap_allows = w->max_conc == TG_UNLIMITED || counted < w->max_conc;
    bool nobody_stuck = !pass->has_front || pass->all_self_limited;

    if (nobody_stuck && !own_cap_allows && !is_small(pass, w)) {
        refuse(&v, TG_WHY_MAX_CONC, 0, counted, w->max_conc);
        return stays(pass, w, v);
    }
    if (!nobody_stuck && !is_small(pass, w) && !needs_nothing_of_the_front(pass, w))
        return behind_front(pass, w, TG_WHY_ORDER, 0, 0, 0);
    if (tg_gates_refuse(&pass->gates, &pass->usage, w, &v) != TG_WHY_NONE)
        return stays(pass, w, v);
    if (pass->has_front)
        return pass_by(pass, w, own_cap_allows && nobody_stuck);
    return granted(pass, w, own_cap_allows ? TG_GRANT_ORDERED : TG_GRANT_BACKFILL, false);
}

bool tg_pass_exhausted(const struct tg_pass *pass, bool zero_slot_waiters)
{
    const struct tg_gates *g = &pass->gates;
    const struct tg_usage *u = &pass->usage;
    struct tg_verdict v = {0};
    if (busy(g, u, 1, &v) != TG_WHY_NONE || pressed(g, u, &v) != TG_WHY_NONE)
        return true;
    if (g->strict && pass->has_front)
        return true;
    if (!u->mem_known || tg_sat_add_u64(u->reserved_mb, g->floor_mb) > u->mem_available_mb)
        return true;
    return !zero_slot_waiters && u->slots_held >= g->slots;
}

const char *tg_why_name(enum tg_why why)
{
    switch (why) {
    case TG_WHY_NONE:
        return "none";
    case TG_WHY_SLOTS:
        return "slots";
    case TG_WHY_MEMORY:
        return "memory";
    case TG_WHY_BUDGET:
        return "budget";
    case TG_WHY_LOAD:
        return "load";
    case TG_WHY_MEMORY_UNKNOWN:
        return "memory-unknown";
    case TG_WHY_LOAD_UNKNOWN:
        return "load-unknown";
    case TG_WHY_MAX_CONC:
        return "max-conc";
    case TG_WHY_ORDER:
        return "order";
    case TG_WHY_GATE_CLOSED:
        return "gate-closed";
    case TG_WHY_NEVER_FITS_MEMORY:
        return "never-fits-memory";
    case TG_WHY_NEVER_FITS_SLOTS:
        return "never-fits-slots";
    case TG_WHY_RESERVED:
        return "reserved";
    case TG_WHY_PRESSURE_MEMORY:
        return "pressure-memory";
    case TG_WHY_PRESSURE_CPU:
        return "pressure-cpu";
    case TG_WHY_PRESSURE_UNKNOWN:
        return "pressure-unknown";
    case TG_WHY_NEVER_FITS_BUDGET:
        return "never-fits-budget";
    }
    return "unknown";
}
