/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules of both planes as pure functions: no clock, no I/O, no allocation, no state of their own.
 * The broker, the engine, the kernel IR and the simulator call these very functions, so that what is
 * tested here is what decides there. All of them are thread-safe: they touch their arguments alone.
 *
 * This header holds launch admission: the gates (A2, A10), backfill (A3), and the explanation of each
 * verdict (A9). Its neighbours hold who stands before whom (rank.h, A1), reservations by known run times
 * (easy.h), the levels (levels.h, E3), the tenants (tenants.h, E4) and the partitions of a ring
 * (partition.h).
 */
#ifndef TIDEGATE_POLICY_H
#define TIDEGATE_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include <tidegate/easy.h>
#include <tidegate/levels.h>
#include <tidegate/load_gate.h>
#include <tidegate/partition.h>
#include <tidegate/rank.h>
#include <tidegate/tenants.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Defaults of the gates (A2, A3). */
#define TG_DEFAULT_FLOOR_MB UINT64_C(2048)
#define TG_DEFAULT_BACKFILL_MB UINT64_C(6000)
#define TG_DEFAULT_OVERTAKE_BOUND 16u

/* No limit, for max_conc; the load gate switched off, for load_limit_milli. */
#define TG_UNLIMITED UINT32_MAX
#define TG_LOAD_OFF UINT64_MAX
#define TG_NO_BUDGET UINT64_MAX

/* Capacity in force: the broker's configuration (A10). */
struct tg_gates {
    uint32_t slots;             /* cap of the slots of all holders together */
    uint32_t overtake_bound;    /* how often the front may be passed before the gate closes behind it */
    uint64_t load_limit_milli;  /* admit while load < limit, in thousandths; TG_LOAD_OFF: no gate */
    uint64_t floor_mb;          /* memory that is never given away */
    uint64_t backfill_mb;       /* an estimate up to this is small, above it heavy */
    uint64_t budget_mb;         /* cap of the estimates of all holders together; TG_NO_BUDGET: none */
    uint64_t load_margin_milli; /* a closed load gate opens below limit - margin (O14) */
    uint32_t load_least_slots;  /* the load refuses nobody while fewer slots are held; it must be known */
    uint32_t pressure_memory;   /* admit while pressure < limit, see struct tg_usage; 0: no gate */
    uint32_t pressure_cpu;
    bool strict; /* nobody passes anybody: no backfill at all */
};

/* What is in use at the moment of the decision. Telemetry that cannot be read is marked unknown. */
struct tg_usage {
    uint64_t slots_held;
    uint64_t heavy_holders; /* holders whose estimate is above backfill_mb */
    uint64_t reserved_mb;   /* what holders were promised and have not grown into yet */
    uint64_t booked_mb;     /* what holders were promised, grown into or not */
    uint64_t load_milli;    /* grows with each grant by what the job's slots say */
    bool load_closed;       /* the load gate was closed before this decision */
    /* The share of the last 10 s in which somebody stood still for want of it, in hundredths of a percent. */
    uint32_t pressure_memory;
    uint32_t pressure_cpu;
    bool pressure_unknown; /* it is there and cannot be read; where there is none, it is 0 */
    uint64_t mem_available_mb;
    uint64_t mem_total_mb; /* the most that could ever be available; 0: unknown */
    bool load_known;
    bool mem_known;
};

/* One waiter, as the policy sees it. */
struct tg_candidate {
    int64_t prio;       /* larger is more urgent */
    uint64_t seq;       /* arrival, as the store numbered it */
    uint64_t est_mb;    /* memory it will grow to */
    uint32_t slots;     /* slots it takes; 0 is allowed */
    uint32_t max_conc;  /* stricter cap of its own on heavy holders (A10), or TG_UNLIMITED */
    uint32_t overtaken; /* how often it has been passed as the front */
    uint64_t time_ms;   /* how long it will run; 0: not known */
    bool strict;        /* it passes nobody, whatever the gates say of others */
};

enum tg_verdict_kind {
    TG_QUEUE = 0,          /* not now */
    TG_GRANT_ORDERED = 1,  /* its turn has come */
    TG_GRANT_BACKFILL = 2, /* a small job that fills what a waiter ahead of it cannot use */
};

/* Why not (or, with a grant, TG_WHY_NONE). Each names the gate; the numbers stand in the verdict. */
enum tg_why {
    TG_WHY_NONE = 0,
    TG_WHY_SLOTS,  /* need + have (held) would pass limit */
    TG_WHY_MEMORY, /* need est_mb; have = available - reserved - floor, in MB */
    TG_WHY_BUDGET, /* need est_mb; have (booked) + need would pass limit */
    TG_WHY_LOAD,   /* have >= limit, in thousandths; a closed gate opens at limit, and closes at need */
    TG_WHY_MEMORY_UNKNOWN,    /* telemetry cannot be read: refuse (A2) */
    TG_WHY_LOAD_UNKNOWN,      /* likewise */
    TG_WHY_MAX_CONC,          /* its own cap: have = waiters ahead + heavy holders, limit = max_conc */
    TG_WHY_ORDER,             /* a waiter ahead (blocker) comes first and this one is not small */
    TG_WHY_GATE_CLOSED,       /* the front (blocker) has been passed have times, limit = the bound */
    TG_WHY_NEVER_FITS_MEMORY, /* need est_mb, limit = total - floor */
    TG_WHY_NEVER_FITS_SLOTS,  /* need slots, limit = slots of the machine */
    TG_WHY_PRESSURE_MEMORY,   /* have >= limit, in hundredths of a percent; it holds back, it never ends */
    TG_WHY_PRESSURE_CPU,
    TG_WHY_PRESSURE_UNKNOWN,  /* telemetry cannot be read */
    TG_WHY_NEVER_FITS_BUDGET, /* need est_mb, limit = the budget */
    TG_WHY_RESERVED,          /* it would delay the front (blocker), which can start in have ms at the latest;
                               * need = its own run time in ms, 0 when that is not known */
};

struct tg_verdict {
    enum tg_verdict_kind kind;
    enum tg_why why;
    bool overtakes;       /* the grant passed the front: count it (tg_pass.front_seq names whom) */
    bool by_others;       /* of LOAD: what holders take cannot explain it, others keep the machine busy */
    bool start_known;     /* of the front: the time at which it can start is known */
    uint64_t start_in_ms; /* how far that time lies ahead */
    uint64_t need;        /* numbers of the gate, see enum tg_why */
    uint64_t have;
    uint64_t limit;
    uint64_t blocker; /* seq of the waiter in the way, for ORDER, GATE_CLOSED and RESERVED */
};

/* A2, for one job alone: TG_WHY_NONE when it fits the gates beside what is in use, else the gate that
 * refuses and its numbers in *v (need, have, limit). */
enum tg_why tg_gates_refuse(const struct tg_gates *gates, const struct tg_usage *usage,
                            const struct tg_candidate *job, struct tg_verdict *v);

/* Whether the job could never start on this machine, however empty: TG_WHY_NONE, or NEVER_FITS_*. */
enum tg_why tg_never_fits(const struct tg_gates *gates, const struct tg_usage *usage,
                          const struct tg_candidate *job, struct tg_verdict *v);

/* What is free for one more job as an amount, slots and memory (the tighter of the memory gate and the
 * budget: a job that ends gives its estimate back to both). When more is in use than the gates allow now,
 * free is 0 and owed what must be given back first. */
void tg_gates_room(const struct tg_gates *gates, const struct tg_usage *usage, struct tg_amount *free,
                   struct tg_amount *owed);

/* One decision over the whole queue. Waiters are fed in rank order (parked and held ones left out); each
 * gets its verdict at once, and a grant is booked before the next is looked at, so two grants of one pass
 * never see the same free room (S6). */
struct tg_pass {
    struct tg_gates gates;
    struct tg_usage usage; /* grows with each grant */
    uint64_t ahead;        /* waiters seen so far that stay in the queue */
    uint64_t front_seq;    /* the first of them that a resource (or its own cap) holds back */
    uint32_t front_slots;
    uint32_t front_max_conc;
    uint32_t front_overtaken;
    uint64_t front_est_mb;
    enum tg_why front_why;
    bool has_front;
    bool all_self_limited;       /* every waiter ahead is held back by its own max_conc alone */
    bool front_known;            /* the front has a reservation: EASY decides who may pass it */
    struct tg_reservation front; /* that one */
    struct tg_timeline *running; /* see tg_pass_times; not looked at any more once there is a front */
    int64_t now;
};

/* Starts a pass over a queue. Without tg_pass_times no run time is looked at: the overtaking bound decides.
 */
void tg_pass_begin(struct tg_pass *pass, const struct tg_gates *gates, const struct tg_usage *usage);

/* Tells the pass when holders end: running has those whose end is known and not past (ms on the clock of now;
 * the amounts are slots and estimates). A holder that is not in it, or has run longer than it said and was
 * left out for that, ends at a time that nobody knows. The caller keeps running until the pass has a front;
 * the pass adds its own grants there (when it is full, their ends count as unknown). */
void tg_pass_times(struct tg_pass *pass, struct tg_timeline *running, int64_t now);

/* The verdict on the next waiter in rank order.
 *
 * - The front, or one behind waiters that only their own max_conc holds back, is granted in order when
 *   (waiters ahead + heavy holders) < max_conc and the gates have room.
 * - The front that lacks slots or memory gets a reservation when the known ends of holders free what it
 *   needs: verdict.start_in_ms. A small one (estimate up to backfill_mb) may then pass, in any number, when
 * it ends by that time or fits beside the front at it; nobody else passes, also not one of unknown run time.
 * - Without a reservation one that needs nothing of what the front lacks, and leaves the front what it needs
 *   of the rest, passes freely and is not counted, whatever its size. Another small one may pass while the
 *   front has been passed less than overtake_bound times.
 * - Under strict (of the gates or its own) it passes nobody.
 * - One that can never fit blocks nobody.
 * The caller adds the overtaking (verdict.overtakes) to the front it keeps in its store. */
struct tg_verdict tg_pass_next(struct tg_pass *pass, const struct tg_candidate *waiter);

/* True when no waiter whatever could still be granted in this pass: stop feeding. zero_slot_waiters tells
 * whether any waiter takes no slots. */
bool tg_pass_exhausted(const struct tg_pass *pass, bool zero_slot_waiters);

/* The reason as a short English phrase ("memory", "slots", ...), never NULL. */
const char *tg_why_name(enum tg_why why);

#ifdef __cplusplus
}
#endif
#endif
