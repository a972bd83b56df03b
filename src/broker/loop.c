/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop: timers, signals; when a decision is due; when the broker ends. One iteration handles
 * whatever has happened and then decides once (S6). An idle broker with waiters has no timer running and is
 * not waked at all (A5, P2).
 */
#include "broker/broker.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "broker/busy.h"
#include "broker/ended.h"
#include "broker/growth.h"
#include "broker/lock.h"
#include "broker/log.h"
#include "broker/marks.h"
#include "broker/outputs.h"
#include "broker/socket.h"
#include "broker/waits.h"
#include "broker/held.h"
#include "broker/words.h"
#include "machine/proc.h"
#include "proto/paths.h"

#define STORE_RETRY_MS 1000u
#define COMPLAIN_EVERY_MS 60000u
#define LOG_PAGES_SOFT 1000 /* then the write-ahead log is moved into the file when it suits */
#define LOG_PAGES_HARD 8000
#define CHECKPOINT_AFTER_MS 200u
#define QUIET_MS 50u
#define RECHECK_MAX_MS 1000u
#define RECHECK_FIRST_MS 100u

uint64_t tg_broker_now_ms(struct tg_broker *b)
{
    return uv_now(&b->loop);
}

void tg_broker_store_failed(struct tg_broker *b)
{
    uint64_t now = tg_broker_now_ms(b);
    if (!b->store_failing || now - b->store_complaint_ms > COMPLAIN_EVERY_MS) {
        tg_log("the store refuses: %s", tg_store_why(b->store));
        b->store_complaint_ms = now;
    }
    b->store_failing = true;
    if (!uv_is_active((uv_handle_t *)&b->store_timer))
        tg_broker_arm(b, &b->store_timer, STORE_RETRY_MS);
}

/* ---- timers */

static void on_recheck(uv_timer_t *timer)
{
    struct tg_broker *b = timer->data;
    tg_busy_tick(b);
    b->recheck_ms = b->recheck_ms * 2 < RECHECK_MAX_MS ? b->recheck_ms * 2 : RECHECK_MAX_MS;
    b->pass_due = true;
}

static void on_adopt(uv_timer_t *timer)
{
    tg_adopt_tick(timer->data);
}

static void on_store(uv_timer_t *timer)
{
    struct tg_broker *b = timer->data;
    b->store_failing = false;
    tg_life_retry(b);
}

static void on_kill(uv_timer_t *timer)
{
    tg_survivors_due(timer->data);
}

static void on_liveness(uv_timer_t *timer)
{
    tg_watch_check_unknown(timer->data);
}

static void on_sweep(uv_timer_t *timer)
{
    tg_peers_sweep(timer->data);
}

/* It waits for the disk, a few milliseconds: when nobody is served just then. mind_log has the last word. */
static void on_checkpoint(uv_timer_t *timer)
{
    struct tg_broker *b = timer->data;
    if (tg_broker_now_ms(b) - b->served_ms < QUIET_MS)
        tg_broker_arm(b, &b->checkpoint_timer, CHECKPOINT_AFTER_MS);
    else
        tg_store_checkpoint(b->store);
}

static void on_stopped(uv_timer_t *timer)
{
    tg_stopped_due(timer->data);
}

static void on_outputs(uv_timer_t *timer)
{
    tg_outputs_due(timer->data);
}

static void on_waits(uv_timer_t *timer)
{
    tg_waits_due(timer->data);
}

static void on_ended(uv_timer_t *timer)
{
    struct tg_broker *b = timer->data;
    if (!b->store_failing)
        (void)tg_ended_write(b, false);
}

static void timer_init(struct tg_broker *b, uv_timer_t *timer)
{
    uv_timer_init(&b->loop, timer);
    timer->data = b;
}

void tg_broker_arm(struct tg_broker *b, uv_timer_t *timer, uint64_t after_ms)
{
    const struct {
        uv_timer_t *timer;
        uv_timer_cb cb;
    } all[] = {
        {&b->recheck_timer, on_recheck},       {&b->adopt_timer, on_adopt},
        {&b->store_timer, on_store},           {&b->kill_timer, on_kill},
        {&b->sweep_timer, on_sweep},           {&b->liveness_timer, on_liveness},
        {&b->checkpoint_timer, on_checkpoint}, {&b->waits_timer, on_waits},
        {&b->stopped_timer, on_stopped},       {&b->ended_timer, on_ended},
        {&b->outputs_timer, on_outputs},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (all[i].timer == timer)
            uv_timer_start(timer, all[i].cb, after_ms, 0);
    }
}

/* ---- the end */

static bool is_idle(const struct tg_broker *b)
{
    return b->n_peers == 0 && tg_queue_count(&b->queue) == 0;
}

static bool somebody_knocks(struct tg_broker *b)
{
    uv_os_fd_t fd;
    if (uv_fileno((uv_handle_t *)&b->listener, &fd) != 0)
        return false;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) > 0;
}

static void on_idle(uv_timer_t *timer)
{
    struct tg_broker *b = timer->data;
    if (is_idle(b) && !somebody_knocks(b))
        tg_broker_stop(b);
}

void tg_broker_mind_idle(struct tg_broker *b)
{
    if (b->config.idle_exit_ms > 0 && is_idle(b) && !b->stopping)
        uv_timer_start(&b->idle_timer, on_idle, b->config.idle_exit_ms, 0);
}

void tg_broker_stop(struct tg_broker *b)
{
    if (b->store && !b->store_failing)
        (void)tg_ended_write(b, true);
    b->stopping = true;
    uv_stop(&b->loop);
}

static void on_signal(uv_signal_t *handle, int signum)
{
    (void)signum;
    tg_broker_stop(handle->data);
}

/* ---- one iteration */

static void mind_log(struct tg_broker *b)
{
    int pages = tg_store_log_pages(b->store);
    if (pages >= LOG_PAGES_HARD)
        tg_store_checkpoint(b->store);
    else if (pages >= LOG_PAGES_SOFT && !uv_is_active((uv_handle_t *)&b->checkpoint_timer))
        tg_broker_arm(b, &b->checkpoint_timer, CHECKPOINT_AFTER_MS);
}

/* The decision, and then what it need not wait for. */
static void decide(struct tg_broker *b)
{
    tg_admit_settle(b);
    if (!b->store_failing)
        (void)tg_ended_write(b, false);
}

static void on_check(uv_check_t *check)
{
    struct tg_broker *b = check->data;
    decide(b);
    tg_growth_mind(b);
    mind_log(b);
}

static void on_more_work(uv_idle_t *idle)
{
    (void)idle; /* being active is its work: the loop does not sleep */
}

/* Before the loop may sleep: messages left over, what timers brought up, and whether more is left. */
static void on_prepare(uv_prepare_t *prepare)
{
    struct tg_broker *b = prepare->data;
    tg_peers_work(b);
    tg_look_start(b);
    decide(b);
    tg_growth_mind(b);
    if (TAILQ_EMPTY(&b->more) && !b->pass_due)
        uv_idle_stop(&b->more_work);
    else
        uv_idle_start(&b->more_work, on_more_work);
}

/* ---- start and stop */

static void loop_init(struct tg_broker *b)
{
    uv_loop_init(&b->loop);
    b->loop.data = b;
    tg_socket_init(b);
    uv_timer_t *timers[] = {&b->recheck_timer,  &b->adopt_timer, &b->store_timer,      &b->kill_timer,
                            &b->liveness_timer, &b->sweep_timer, &b->checkpoint_timer, &b->idle_timer,
                            &b->sample_timer,   &b->waits_timer, &b->stopped_timer,    &b->ended_timer,
                            &b->outputs_timer};
    for (size_t i = 0; i < sizeof(timers) / sizeof(timers[0]); i++)
        timer_init(b, timers[i]);
    uv_prepare_init(&b->loop, &b->prepare);
    uv_check_init(&b->loop, &b->check);
    uv_idle_init(&b->loop, &b->more_work);
    uv_signal_init(&b->loop, &b->sigterm);
    uv_signal_init(&b->loop, &b->sigint);
    b->prepare.data = b->check.data = b->more_work.data = b->sigterm.data = b->sigint.data = b;
    uv_prepare_start(&b->prepare, on_prepare);
    uv_check_start(&b->check, on_check);
    uv_signal_start(&b->sigterm, on_signal, SIGTERM);
    uv_signal_start(&b->sigint, on_signal, SIGINT);
}

static void take_setting(void *ctx, const char *key, const char *value)
{
    struct tg_broker *b = ctx;
    char why[300];
    if (tg_config_set(&b->config, key, value, why, sizeof(why)) != 0)
        tg_log("%s: setting ignored: %s", tg_store_path(b->store), why);
}

/* The word for whoever started us; once. */
static void say(int *fd, const char *word, const char *text)
{
    char line[4400];
    if (*fd < 0)
        return;
    int n = snprintf(line, sizeof(line), "%s%s%s\n", word, text ? " " : "", text ? text : "");
    for (char *p = line; n > 0 && p < line + n - 1; p++) {
        if (*p == '\n')
            *p = ' ';
    }
    if (n > 0 && write(*fd, line, (size_t)n) < 0)
        tg_log("nobody reads our word: %s", strerror(errno));
    close(*fd);
    *fd = -1;
}

static int set_paths(struct tg_broker *b, const struct tg_broker_options *o, char *why, size_t size)
{
    int n = snprintf(b->socket_path, sizeof(b->socket_path), "%s/broker.sock", o->runtime_dir);
    if (n < 0 || (size_t)n >= sizeof(b->socket_path)) {
        snprintf(why, size, "%s/broker.sock is too long for a socket (at most %zu bytes)", o->runtime_dir,
                 sizeof(b->socket_path) - 1);
        return -ENAMETOOLONG;
    }
    int err = tg_private_dir(o->runtime_dir, why, size);
    return err ? err : tg_private_dir(o->state_dir, why, size);
}

static int open_store(struct tg_broker *b, const struct tg_broker_options *o, char *why, size_t size)
{
    char path[TG_PATH_BYTES];
    snprintf(path, sizeof(path), "%s/store.db", o->state_dir);
    int err = tg_store_open(path, &b->store, &b->store_report, why, size);
    if (err)
        return err;
    if (b->store_report.quarantined[0])
        tg_log("%s was corrupt: moved to %s; the queue starts empty", path, b->store_report.quarantined);
    tg_config_defaults(&b->config);
    if (o->idle_exit_given)
        b->config.idle_exit_ms = o->idle_exit_ms;
    err = tg_store_config_load(b->store, take_setting, b);
    if (err)
        snprintf(why, size, "%s", tg_store_why(b->store));
    tg_queue_set_heavy(&b->queue, b->config.backfill_mb);
    tg_queue_set_order(&b->queue, b->config.strict, b->config.ageing_ms);
    b->next_id = tg_store_next_id(b->store);
    return err;
}

/* Lock, store, tickets, socket, in this order. On error *why is set; -EALREADY: other names the socket. */
static int start(struct tg_broker *b, const struct tg_broker_options *o, char *other, char *why, size_t size)
{
    char lock_path[TG_PATH_BYTES];
    int err = set_paths(b, o, why, size);
    if (err)
        return err;
    snprintf(lock_path, sizeof(lock_path), "%s/broker.lock", o->state_dir);
    err = tg_lock_take(lock_path, b->socket_path, &b->lock_fd, other, size);
    if (err) {
        snprintf(why, size, "broker.lock in %.3000s: %s", o->state_dir, strerror(-err));
        return err;
    }
    err = tg_boot_id(&b->root, b->boot_id);
    if (err) {
        snprintf(why, size, "the boot id cannot be read: %s", strerror(-err));
        return err;
    }
    err = tg_watch_init(b);
    if (err) {
        snprintf(why, size, "deaths cannot be watched: %s", strerror(-err));
        return err;
    }
    tg_fault_point("start.locked");
    err = open_store(b, o, why, size);
    if (err)
        return err;
    tg_fault_point("start.opened");
    tg_words_begin(b);
    tg_held_open(b);
    err = tg_adopt(b);
    if (!err)
        err = tg_marks_adopt(b, o->state_dir);
    if (!err)
        tg_words_adopted(b);
    tg_fault_point("start.adopted");
    if (err) {
        snprintf(why, size, "%s", tg_store_why(b->store)[0] ? tg_store_why(b->store) : strerror(-err));
        return err;
    }
    tg_held_sweep(b);
    tg_outputs_sweep(b);
    tg_outputs_mind(b);
    err = tg_socket_open(b);
    tg_fault_point("start.listening");
    if (err)
        snprintf(why, size, "%s: %s", b->socket_path, strerror(-err));
    return err;
}

static void close_handle(uv_handle_t *handle, void *ctx)
{
    (void)ctx;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

/* Every descriptor of the loop, and the memory behind it. */
static void close_loop(struct tg_broker *b)
{
    struct tg_peer *peer;
    while ((peer = TAILQ_FIRST(&b->peers)) != NULL) {
        while (peer->tickets)
            tg_peer_detach(peer->tickets);
        tg_peer_close(peer);
    }
    const struct tg_queue *q = &b->queue;
    struct tg_ticket **lists[] = {q->waiters, q->holders, q->parked, q->aside};
    const size_t n[] = {q->n_waiters, q->n_holders, q->n_parked, q->n_aside};
    for (size_t i = 0; i < sizeof(n) / sizeof(n[0]); i++) {
        for (size_t j = 0; j < n[i]; j++) {
            tg_watch_stop(lists[i][j]);
            tg_survivors_drop(lists[i][j]);
            tg_cancel_over(lists[i][j]);
        }
    }
    uv_walk(&b->loop, close_handle, NULL);
    uv_run(&b->loop, UV_RUN_DEFAULT);
    uv_loop_close(&b->loop);
}

/* Nothing is written to the store here: stopping is a crash that cleans up its memory. Clients see the end of
 * their connections last: whoever sees it finds the store free and may start the next broker. */
static void tear_down(struct tg_broker *b)
{
    b->stopping = true;
    tg_socket_remove(b);
    tg_store_close(b->store);
    b->store = NULL;
    if (b->lock_fd >= 0)
        close(b->lock_fd);
    close_loop(b);
    if (b->deaths_fd >= 0)
        close(b->deaths_fd);
    tg_held_close(b);
    tg_ended_drop(b);
    tg_queue_done(&b->queue);
    free(b->fresh);
    free(b->grants);
    tg_ends_done(&b->ends);
    tg_kept_done(&b->kept);
    free(b->words);
}

int tg_broker_run(const struct tg_broker_options *options)
{
    char other[TG_PATH_BYTES] = "";
    char why[TG_PATH_BYTES] = "";
    int ready_fd = options->ready_fd;
    struct tg_broker *b = calloc(1, sizeof(*b));
    if (!b)
        return -ENOMEM;
    b->root = (struct tg_root){.prefix = options->machine_root, .kept = &b->kept};
    b->held_fd = -1;
    b->liveness_ms = options->liveness_ms;
    b->cancel_ms = options->cancel_ms;
    b->adopt_ms = options->adopt_ms;
    b->lock_fd = -1;
    b->deaths_fd = -1;
    b->recheck_ms = RECHECK_FIRST_MS;
    b->started_ms = tg_clock_boot_ms();
    TAILQ_INIT(&b->peers);
    TAILQ_INIT(&b->more);
    TAILQ_INIT(&b->ended);
    TAILQ_INIT(&b->waits);
    loop_init(b);
    int err = start(b, options, other, why, sizeof(why));
    if (err == -EALREADY) {
        say(&ready_fd, "locked", other[0] ? other : b->socket_path);
    } else if (err) {
        tg_log("%s", why);
        say(&ready_fd, "error", why);
    } else {
        say(&ready_fd, "ready", NULL);
        b->pass_due = true;
        tg_broker_mind_idle(b);
        uv_run(&b->loop, UV_RUN_DEFAULT);
    }
    tear_down(b);
    free(b);
    return err;
}
