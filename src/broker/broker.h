/* SPDX-License-Identifier: Apache-2.0
 *
 * The broker as its own rooms see it: one struct, and what each file gives to the others.
 *
 *   loop.c    libuv: timers, signals, when a decision is due, when to end
 *   socket.c  the socket file: bound, watched, bound again
 *   peer.c    connections: frames in, replies out, bounds on both
 *   ops.c     one handler a message; ops_X.c those of their own file (ops.h)
 *   admit.c   the decision: gathers usage, runs the policy's pass, books, replies
 *   busy.c    the load and pressure that a decision sees
 *   growth.c  how far each holder has grown: reservations, peaks
 *   life.c    every transition of a ticket, in memory and store together
 *   ended.c   ends whose rows follow a little later
 *   held.c    who holds by wait-admit, beside the store
 *   words.c   how commands ended that no broker heard of
 *   watch.c   death of owners as events
 *   stopped.c processes that a signal has stopped
 *   look.c    all processes looked at by a thread
 *   survivors.c  what commands leave behind; cancel.c: ending it all (survivors.h)
 *   adopt.c   the start: who of the store's tickets still lives
 *   ends.c    when holders end and waiters start, as far as run times are known
 *   status.c  what a person sees
 *
 * One thread, but for the looks of look.c, which share nothing. A handler changes tickets through life.c,
 * which notes that a decision is due; loop.c runs one decision after all events of an iteration have been
 * handled (A5, S6).
 */
#ifndef TG_BROKER_BROKER_H
#define TG_BROKER_BROKER_H

#include <stdbool.h>
#include <sys/queue.h>
#include <uv.h>
#include <jansson.h>

#include "broker/config.h"
#include "broker/ends.h"
#include "broker/metrics.h"
#include "broker/queue.h"
#include "broker/store.h"
#include "machine/kept.h"
#include "machine/root.h"
#include "proto/frame.h"

struct tg_broker_options {
    const char *runtime_dir;
    const char *state_dir;
    const char *machine_root; /* "" for the real machine */
    int ready_fd;             /* -1: nobody waits for the word */
    uint64_t liveness_ms;     /* how long an owner may live or not, for all anybody knows (L10) */
    uint64_t cancel_ms;       /* how long a cancellation kills although nobody dies */
    uint64_t adopt_ms;        /* how long a new broker waits for those who waited at the former one */
    bool idle_exit_given;
    uint64_t idle_exit_ms;
};

/* One grant of a pass, before it is booked. */
struct tg_grant {
    struct tg_ticket *ticket;
    struct tg_ticket *front; /* the waiter it passes and that is counted, or NULL */
    enum tg_verdict_kind kind;
};

TAILQ_HEAD(tg_ended_list, tg_ended); /* ended.h */

/* A command that ended without a word on how. */
#define TG_RECENT 1024u
struct tg_recent {
    uint64_t ticket;
    uint64_t give_up_ms; /* loop time */
};

struct tg_broker;
struct tg_look;
struct tg_wait;

struct tg_peer {
    struct tg_broker *broker;
    uv_pipe_t pipe;
    struct tg_frames in;
    uid_t uid;
    pid_t pid;
    struct tg_ticket *tickets; /* those whose answer is awaited here */
    struct tg_wait *wait;      /* or the ends of tickets */
    size_t out_bytes;          /* written and not taken by the other side yet */
    uint64_t moved_ms;         /* loop time of the last byte that moved while something was half done */
    bool closing;
    bool closes_when_drained; /* nothing more is read */
    bool reading;
    bool blocked; /* an admit, a wait or a cancel of it has no answer yet: answers keep their order */
    struct tg_ticket *awaits; /* whose cancellation it asked for, or NULL */
    struct tg_peer *awaits_next;
    bool queued; /* has messages left for the next iteration */
    TAILQ_ENTRY(tg_peer) link;
    TAILQ_ENTRY(tg_peer) queue_link;
};
TAILQ_HEAD(tg_peers, tg_peer);

struct tg_broker {
    uv_loop_t loop;
    uv_pipe_t listener;
    uv_signal_t sigterm;
    uv_signal_t sigint;
    uv_prepare_t prepare;
    uv_check_t check;
    uv_idle_t more_work;      /* runs while peers have messages left */
    uv_timer_t recheck_timer; /* somebody waits for load or memory, which change without an event */
    uv_timer_t adopt_timer;
    uv_timer_t store_timer;    /* the store refused: try again */
    uv_timer_t kill_timer;     /* the next step of a cancellation, or survivors to look for again */
    uv_timer_t liveness_timer; /* owners without a pidfd */
    uv_timer_t sweep_timer;    /* peers in the middle of something */
    uv_timer_t checkpoint_timer;
    uv_timer_t idle_timer;
    uv_timer_t stopped_timer; /* who was passed over may have gone on */
    uv_timer_t ended_timer;   /* ends whose row waits; ended.h */
    uv_timer_t outputs_timer; /* detached jobs write, and how much is bounded */
    uv_timer_t waits_timer;   /* ends whose status nobody has told yet */

    struct tg_root root;
    struct tg_kept kept; /* what every decision reads, open */
    char boot_id[TG_BOOT_ID_BYTES];
    char socket_path[108];
    int lock_fd;
    int deaths_fd; /* the pidfds of all owners; watch.c */
    uv_poll_t deaths;
    uv_fs_event_t socket_watch; /* of its directory; socket.c */
    uv_timer_t socket_timer;
    dev_t socket_dev; /* of the file we bound */
    ino_t socket_ino;
    bool socket_bound;
    bool socket_complained;
    bool stopping;
    uint64_t started_ms; /* CLOCK_BOOTTIME */
    uint64_t liveness_ms;
    uint64_t cancel_ms;
    uint64_t adopt_ms;
    unsigned adopt_ticks; /* without anybody coming back; see adopt.c */
    unsigned adopt_ticks_all;

    struct tg_store *store;
    struct tg_store_report store_report;
    struct tg_config config;
    struct tg_queue queue;
    uint64_t next_id;  /* arrival number of the next ticket; the store's, and those not written yet (A1) */
    unsigned cores;    /* size of the machine, as of size_read_ms */
    uint64_t total_mb; /* 0: unknown */
    uint64_t size_read_ms;

    /* Peers. */
    struct tg_peers peers;
    struct tg_peers more; /* with messages left */
    size_t n_peers;
    size_t in_bytes; /* of all peers */
    size_t out_bytes;
    TAILQ_HEAD(, tg_wait) waits;
    struct tg_recent recent[TG_RECENT]; /* a ring of ends whose status may still come; ops_wait.c */
    size_t n_recent;                    /* ever written */
    uv_pipe_t turned_away;              /* a connection that is closed at once: there is no memory for it */
    bool turning_away;
    bool accept_due; /* another one stands in line for that */
    char read_buf[65536];

    /* Decisions. */
    bool pass_due;
    bool holding_back;        /* just started: those who waited come first */
    uint64_t adopted_left;    /* who has not come back yet */
    struct tg_ticket **fresh; /* admits that await their first answer */
    size_t n_fresh;
    size_t fresh_room;
    struct tg_grant *grants;
    size_t grants_room;
    uint64_t pass_no;
    struct tg_ends ends; /* what the last pass knows of them */
    struct tg_pass tail; /* the pass after the last waiter, for the next who queues behind it */
    bool tail_valid;
    uint64_t tail_ms;
    uint64_t recheck_ms; /* present interval */

    /* How busy the processors are; busy.c. */
    struct tg_load_watch load_watch;
    bool load_ended;        /* some job has, since the last reading */
    uint64_t group_read_us; /* of one's own group, at the last reading */
    uint64_t group_used_us;
    uint64_t group_waited_us;

    /* How far the holders have grown; growth.c. */
    uv_timer_t sample_timer;
    bool holder_came; /* since the sampler was last looked at */
    uint64_t sample_ms;
    uint64_t measured_ms;
    uint64_t measure_cost_ns; /* processor time of the last measurement */

    struct tg_metrics metrics;
    uint32_t looks_left; /* of processes, to see whether they are stopped, in the answer that is being made */

    bool any_unasked; /* holders whose command has ended: survivors.c */

    /* The store lags behind. */
    struct tg_ended_list ended;
    size_t n_ended;
    uint64_t ended_due_ms; /* loop time; none of them is due before */
    uint64_t n_dirty;
    bool store_failing;
    uint64_t store_complaint_ms;

    int held_fd; /* held.h; -1: none */

    struct tg_word *words; /* at the start; words.h */
    size_t n_words;

    struct tg_look *look;  /* under way, or NULL */
    uint64_t looks_wanted; /* since the last one was started */

    uint64_t swept_ms;  /* the outputs of ended jobs; 0: not yet */
    uint64_t served_ms; /* when a message or a death was last handled */
};

/* ---- loop.c */

/* Runs a broker until it is told to end or idle. 0 when it has served; -EALREADY: another has the store or
 * socket; other -errno. What happened has been written to the ready descriptor and the log. */
int tg_broker_run(const struct tg_broker_options *options);
void tg_broker_stop(struct tg_broker *b);
/* Milliseconds of the loop's monotonic clock. */
uint64_t tg_broker_now_ms(struct tg_broker *b);
void tg_broker_arm(struct tg_broker *b, uv_timer_t *timer, uint64_t after_ms);
/* Starts or stops the count-down to the end of an idle broker. */
void tg_broker_mind_idle(struct tg_broker *b);
/* The store refused a write: say so (not too often) and try again in a while. */
void tg_broker_store_failed(struct tg_broker *b);

/* ---- peer.c */

void tg_peer_accept(struct tg_broker *b);
/* Sends a reply and gives up the reference; both arguments may be NULL. */
void tg_peer_reply(struct tg_peer *peer, json_t *reply);
/* The same for a frame that is made already; gives up the memory. */
void tg_peer_send_frame(struct tg_peer *peer, uint8_t *bytes, size_t len);
void tg_peer_close(struct tg_peer *peer);
/* An answer that was held back has been given. */
void tg_peer_unblock(struct tg_peer *peer);
/* The messages left over from earlier iterations: a bounded number of each peer. */
void tg_peers_work(struct tg_broker *b);
/* Closes peers that stay in the middle of a message or do not read; false when nobody is left to mind. */
bool tg_peers_sweep(struct tg_broker *b);
void tg_peer_attach(struct tg_peer *peer, struct tg_ticket *t);
void tg_peer_detach(struct tg_ticket *t);

/* ---- ops.c, ops_admit.c */

/* Handles one message; the answer has been sent, or will be by the next decision. */
void tg_ops_handle(struct tg_broker *b, struct tg_peer *peer, const json_t *message);
void tg_ops_admit(struct tg_broker *b, struct tg_peer *peer, const json_t *message);
/* {"ok":true,"state":"HOLD",...}; verdict NULL: the ticket's own. */
json_t *tg_ops_hold_reply(const struct tg_broker *b, const struct tg_ticket *t, const char *verdict);

/* ---- admit.c */

/* The decision and the first answers that are due. */
void tg_admit_settle(struct tg_broker *b);
/* An admit awaits its answer. -ENOMEM when it cannot be noted. */
int tg_admit_fresh(struct tg_broker *b, struct tg_ticket *t);
/* It has been answered. */
void tg_admit_forget(struct tg_broker *b, struct tg_ticket *t);
/* Why the policy is not asked at all (t NULL: about anybody), as the name of a gate, and in words; NULL when
 * it is asked. */
const char *tg_admit_not_asked(const struct tg_broker *b, const struct tg_ticket *t, const char **ret_text);
/* The gates in force; brings the size of the machine up to date. */
struct tg_gates tg_admit_gates(struct tg_broker *b);
/* What is in use; reads the machine. Reservations as if nobody had grown, unless measured. */
void tg_admit_usage(struct tg_broker *b, const struct tg_gates *gates, bool measured, struct tg_usage *ret);
/* Hands out every waiter in order with the verdict that a decision would give it now, until visit returns
 * false; with each the time at which it can start, if that is known, not with the front alone. Changes
 * nothing; visit must not either. */
void tg_admit_each(struct tg_broker *b, const struct tg_gates *gates, const struct tg_usage *usage,
                   bool (*visit)(void *ctx, struct tg_ticket *t, const struct tg_verdict *v, size_t ahead),
                   void *ctx);
/* Asks the operating system how far each holder has grown, unless that was done just now. */
void tg_admit_measure_if_due(struct tg_broker *b);

/* ---- life.c */

/* Takes a slot; the store has it when 0 is returned, and nothing has changed otherwise. */
int tg_life_grant(struct tg_broker *b, const struct tg_grant *grant);
/* Writes a new ticket. */
int tg_life_save(struct tg_broker *b, struct tg_ticket *t);
/* Ends a ticket on somebody's request: 0, or -errno and nothing has changed. Its waiting client is told text
 * under the code. The ticket is gone after 0. */
int tg_life_end(struct tg_broker *b, struct tg_ticket *t, enum tg_outcome outcome, int64_t status,
                const char *code, const char *text);
/* The same for what has happened already, whatever the store says. */
void tg_life_ended(struct tg_broker *b, struct tg_ticket *t, enum tg_outcome outcome, const char *text);
/* A waiter, or a grant nobody heard of, gives up for now (A7). 0, or -errno and nothing has changed. */
int tg_life_park(struct tg_broker *b, struct tg_ticket *t);
/* The same after the fact: the client is gone. */
void tg_life_parked(struct tg_broker *b, struct tg_ticket *t);
/* The same for n of them, in one transaction. */
void tg_life_parked_all(struct tg_broker *b, struct tg_ticket *const *list, size_t n);
/* Who was passed over, being stopped, is a waiter again. */
void tg_life_unpark(struct tg_broker *b, struct tg_ticket *t);
/* Writes the ticket as it is; a refusal is made good later. */
void tg_life_touch(struct tg_broker *b, struct tg_ticket *t);
/* The client that waited for this ticket has gone. */
void tg_life_client_gone(struct tg_broker *b, struct tg_ticket *t);
/* It has been asked for again (or has ended): the start waits for one less. */
void tg_life_came_back(struct tg_broker *b, struct tg_ticket *t);
/* Tries again what the store refused. */
void tg_life_retry(struct tg_broker *b);
/* Frees a ticket that is in no queue: watch, peer, memory. */
void tg_life_free(struct tg_broker *b, struct tg_ticket *t);

/* ---- watch.c */

/* Before the first watch. 0 or -errno. The descriptor is closed by who ends the loop. */
int tg_watch_init(struct tg_broker *b);
/* Makes the owner's death an event. 0; -ESRCH: it is dead. Without a descriptor (EMFILE, ...) the owner is
 * asked for at intervals instead, which status shows, and 0 is returned. */
int tg_watch_start(struct tg_broker *b, struct tg_ticket *t);
/* The same with a pidfd of the owner, which is taken over; always 0. */
int tg_watch_take(struct tg_broker *b, struct tg_ticket *t, int fd);
void tg_watch_stop(struct tg_ticket *t);
/* Whether the owner has ended although the event has not been handled yet. */
bool tg_watch_is_dead(struct tg_broker *b, const struct tg_ticket *t);
void tg_watch_check_unknown(struct tg_broker *b);

/* ---- stopped.c */

/* Before a grant: when who waits for it is stopped, it is parked until it goes on, and true is returned. */
bool tg_stopped_passed_over(struct tg_broker *b, struct tg_ticket *t);
/* A grant waits for its acknowledgement. */
void tg_stopped_await_ack(struct tg_broker *b);
/* Whether the process of a ticket is stopped; reads /proc. */
bool tg_stopped_is(const struct tg_broker *b, const struct tg_ticket *t);
void tg_stopped_due(struct tg_broker *b);

/* ---- survivors.c */

/* The owner has ended. The ticket of a run goes on while processes that it started and that stayed in its
 * session do (A4); else it ends here. left: what its wrapper says, 0 none, 1 some, -1 nothing. */
void tg_survivors_main_ended(struct tg_broker *b, struct tg_ticket *t, int left);
/* Watches none of them any more. */
void tg_survivors_drop(struct tg_ticket *t);
void tg_survivors_due(struct tg_broker *b);
/* Before the loop sleeps: starts the look that has been asked for. */
void tg_look_start(struct tg_broker *b);

/* ---- cancel.c */

/* Ends the process tree of a run that holds: TERM now, KILL after the grace, until nobody is left; the ticket
 * ends then. Again: the shorter grace counts. 0: it is under way; -EPERM, -ENOMEM, ...: nothing was begun. */
int tg_cancel_start(struct tg_broker *b, struct tg_ticket *t, uint64_t grace_ms);
/* This peer is answered when the cancellation that is under way is over. */
void tg_cancel_await(struct tg_peer *peer, struct tg_ticket *t);
void tg_cancel_peer_gone(struct tg_peer *peer);
/* The ticket ends: answers whoever awaits that. Nothing when no cancellation runs. */
void tg_cancel_over(struct tg_ticket *t);

/* ---- adopt.c */

int tg_adopt(struct tg_broker *b);
/* Everybody had the time to come back: park who did not, and begin to decide. */
void tg_adopt_tick(struct tg_broker *b);

/* ---- status.c */

/* Of so many tickets an answer says whether their processes are stopped. */
#define TG_STATUS_LOOKS 256u
/* A ticket, and the gates, as status shows them. */
json_t *tg_status_ticket(struct tg_broker *b, const struct tg_ticket *t, uint64_t now_ms);
json_t *tg_status_gates(struct tg_broker *b, const struct tg_gates *g, const struct tg_usage *u);
/* The answer to status as a whole frame, in memory that the caller frees. 0 or -errno. */
int tg_status_frame(struct tg_broker *b, uint8_t **ret_bytes, size_t *ret_len);

#endif
