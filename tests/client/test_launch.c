/* SPDX-License-Identifier: Apache-2.0
 *
 * The C API's tickets against a real broker: many turns of one process, the cap, death, a killed broker,
 * limits and errors, growing. Commands are in test_launch_run.c.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "harness.h"

static struct tg_launch *launch;

/* ---- the cap */

static atomic_int inside, highest, steps_done;

static void *work(void *arg)
{
    (void)arg;
    for (int i = 0; i < 6; i++) {
        struct tg_launch_ticket *t = request_light(launch);
        CHECK_EQ(tg_launch_wait(t, PATIENCE_MS), 0);
        int now = atomic_fetch_add(&inside, 1) + 1;
        int seen = atomic_load(&highest);
        while (now > seen && !atomic_compare_exchange_weak(&highest, &seen, now))
            ;
        poll(NULL, 0, 2);
        atomic_fetch_sub(&inside, 1);
        atomic_fetch_add(&steps_done, 1);
        CHECK_EQ(tg_launch_release(t), 0);
    }
    return NULL;
}

static void a2_threads_of_one_process_keep_the_cap(void)
{
    pthread_t threads[8];
    for (int i = 0; i < 8; i++)
        CHECK(pthread_create(&threads[i], NULL, work, NULL) == 0);
    for (int i = 0; i < 8; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK_EQ(atomic_load(&steps_done), 48);
    CHECK(atomic_load(&highest) >= 1 && atomic_load(&highest) <= 2);
    CHECK_EQ(place_count(launch, "holders"), 0);
    CHECK_EQ(place_count(launch, "waiters"), 0);
}

/* ---- death */

static void take_both(struct tg_launch *l, int ready)
{
    struct tg_launch_ticket *t[3];
    for (int i = 0; i < 3; i++)
        t[i] = request_light(l);
    CHECK_EQ(tg_launch_wait(t[0], PATIENCE_MS), 0);
    CHECK_EQ(tg_launch_wait(t[1], PATIENCE_MS), 0);
    CHECK_EQ(tg_launch_poll(t[2]), -EAGAIN);
    CHECK(write(ready, "", 1) == 1);
    pause();
}

static void a4_kill_9_frees_every_turn_of_the_process(void)
{
    pid_t child = in_child(take_both, launch);
    CHECK_EQ(place_count(launch, "holders"), 2);
    CHECK_EQ(place_count(launch, "waiters"), 1);
    struct tg_launch_ticket *t = request_light(launch);
    CHECK_EQ(tg_launch_wait(t, A_MOMENT_MS), -ETIMEDOUT);
    kill_and_reap(child);
    CHECK_EQ(tg_launch_wait(t, PATIENCE_MS), 0);
    CHECK_EQ(place_count(launch, "holders"), 1);
    CHECK_EQ(place_count(launch, "waiters"), 0);
    CHECK_EQ(tg_launch_release(t), 0);
}

static void release_copy(struct tg_launch *l, int ready)
{
    struct tg_launch_ticket *copy = (struct tg_launch_ticket *)l;
    CHECK_EQ(tg_launch_wait(copy, 0), -EPERM);
    CHECK_EQ(tg_launch_grow(copy, 1), -EPERM);
    CHECK_EQ(tg_launch_release(copy), 0);
    CHECK(write(ready, "", 1) == 1);
    pause();
}

static void a_forked_child_has_no_turn(void)
{
    struct tg_launch_ticket *t = request_light(launch);
    CHECK_EQ(tg_launch_wait(t, PATIENCE_MS), 0);
    kill_and_reap(in_child(release_copy, (struct tg_launch *)t));
    CHECK_EQ(place_count(launch, "holders"), 1);
    CHECK_EQ(tg_launch_release(t), 0);
    CHECK_EQ(place_count(launch, "holders"), 0);
}

/* ---- a broker that dies */

static void a8_a_killed_broker_keeps_turns_and_places(void)
{
    struct tg_launch_ticket *holds[2], *first, *second;
    for (int i = 0; i < 2; i++) {
        holds[i] = request_light(launch);
        CHECK_EQ(tg_launch_wait(holds[i], PATIENCE_MS), 0);
    }
    first = request_light(launch);
    second = request_light(launch);
    uint64_t id = tg_launch_id(first);
    CHECK_EQ(tg_launch_wait(second, A_MOMENT_MS), -ETIMEDOUT);
    place_kill_broker(launch);
    /* The one who came later comes back first: it stays behind. */
    struct pollfd lost = {.fd = tg_launch_fd(second), .events = POLLIN};
    CHECK(poll(&lost, 1, PATIENCE_MS) == 1);
    CHECK_EQ(tg_launch_wait(second, A_MOMENT_MS), -ETIMEDOUT);
    CHECK_EQ(tg_launch_poll(first), -EAGAIN);
    CHECK_EQ(tg_launch_id(first), id);
    CHECK_EQ(place_count(launch, "holders"), 2);
    CHECK_EQ(place_count(launch, "waiters"), 2);
    CHECK_EQ(tg_launch_release(holds[0]), 0);
    CHECK_EQ(tg_launch_wait(first, PATIENCE_MS), 0);
    CHECK_EQ(tg_launch_wait(second, A_MOMENT_MS), -ETIMEDOUT);
    place_kill_broker(launch);
    CHECK_EQ(tg_launch_release(holds[1]), 0); /* told to the next broker */
    CHECK_EQ(tg_launch_wait(second, PATIENCE_MS), 0);
    CHECK_EQ(tg_launch_release(first), 0);
    CHECK_EQ(tg_launch_release(second), 0);
    CHECK_EQ(place_count(launch, "holders"), 0);
}

static void *wait_long(void *ticket)
{
    CHECK_EQ(tg_launch_wait(ticket, PATIENCE_MS), 0);
    return NULL;
}

static void a8_a_blocked_waiter_outlives_its_broker(void)
{
    pthread_t thread;
    struct tg_launch_ticket *holds[2] = {request_light(launch), request_light(launch)};
    CHECK_EQ(tg_launch_wait(holds[0], PATIENCE_MS), 0);
    CHECK_EQ(tg_launch_wait(holds[1], PATIENCE_MS), 0);
    struct tg_launch_ticket *t = request_light(launch);
    CHECK(pthread_create(&thread, NULL, wait_long, t) == 0);
    place_kill_broker(launch);
    CHECK_EQ(tg_launch_release(holds[0]), 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_EQ(tg_launch_release(holds[1]), 0);
    CHECK_EQ(tg_launch_release(t), 0);
}

/* ---- waiting by descriptor, limits */

static bool readable(const struct tg_launch_ticket *t, int ms)
{
    struct pollfd p = {.fd = tg_launch_fd(t), .events = POLLIN};
    return poll(&p, 1, ms) == 1;
}

static void a5_the_descriptor_wakes_when_the_turn_comes(void)
{
    struct tg_launch_ticket *holds[2] = {request_light(launch), request_light(launch)};
    CHECK_EQ(tg_launch_wait(holds[0], PATIENCE_MS), 0);
    CHECK_EQ(tg_launch_wait(holds[1], PATIENCE_MS), 0);
    CHECK(readable(holds[0], 0));
    struct tg_launch_ticket *t = request_light(launch);
    CHECK_EQ(tg_launch_poll(t), -EAGAIN);
    CHECK(!readable(t, 30));
    CHECK(tg_launch_text(t)[0] != '\0');
    CHECK(tg_launch_env(t)[0] == '\0');
    CHECK_EQ(tg_launch_release(holds[0]), 0);
    CHECK(readable(t, PATIENCE_MS));
    while (tg_launch_poll(t) == -EAGAIN)
        CHECK(readable(t, PATIENCE_MS));
    CHECK_EQ(tg_launch_poll(t), 0);
    CHECK(readable(t, 0));
    CHECK(strchr(tg_launch_env(t), ':'));
    CHECK_EQ(tg_launch_release(holds[1]), 0);
    CHECK_EQ(tg_launch_release(t), 0);
}

static void a_waiter_that_is_released_is_gone(void)
{
    struct tg_launch_ticket *holds[2] = {request_light(launch), request_light(launch)};
    CHECK_EQ(tg_launch_wait(holds[1], PATIENCE_MS), 0);
    struct tg_launch_ticket *t = request_light(launch);
    CHECK_EQ(tg_launch_wait(t, 0), -ETIMEDOUT);
    CHECK_EQ(tg_launch_release(t), 0);
    CHECK_EQ(place_count(launch, "waiters"), 0);
    CHECK_EQ(tg_launch_release(holds[0]), 0);
    CHECK_EQ(tg_launch_release(holds[1]), 0);
    CHECK_EQ(tg_launch_release(NULL), 0);
}

/* ---- errors */

static void every_error_has_its_number_and_words(void)
{
    struct tg_launch_options o = light();
    struct tg_launch_ticket *t, *other;
    char *text;
    o.est_mb = UINT64_C(1) << 42;
    CHECK_EQ(tg_launch_request(launch, &o, &t), -EFBIG);
    CHECK(tg_launch_error()[0] != '\0');
    o = light();
    o.key = "";
    CHECK_EQ(tg_launch_request(launch, &o, &t), -EINVAL);
    o.key = "one thing";
    CHECK_EQ(tg_launch_request(launch, &o, &t), 0);
    CHECK_EQ(tg_launch_request(launch, &o, &other), -EEXIST);
    CHECK_EQ(tg_launch_wait(t, PATIENCE_MS), 0);
    CHECK_EQ(tg_launch_release(t), 0);
    o = light();
    o.slots = UINT64_C(1) << 40;
    CHECK_EQ(tg_launch_request(launch, &o, &t), -EINVAL);
    CHECK_EQ(tg_launch_why_json(launch, 0, &text), -EINVAL);
    CHECK_EQ(tg_launch_why_json(launch, INT64_MAX, &text), -ESRCH);
    CHECK_EQ(place_count(launch, "holders"), 0);
}

static void a_cancelled_waiter_is_told(void)
{
    char *text;
    struct tg_launch_ticket *holds[2] = {request_light(launch), request_light(launch)};
    CHECK_EQ(tg_launch_wait(holds[1], PATIENCE_MS), 0);
    struct tg_launch_ticket *t = request_light(launch);
    CHECK_EQ(tg_launch_why_json(launch, tg_launch_id(t), &text), 0);
    CHECK(strstr(text, "\"why\":\"slots\""));
    free(text);
    place_tell("cancel", tg_launch_id(t));
    CHECK_EQ(tg_launch_wait(t, PATIENCE_MS), -ECANCELED);
    CHECK_EQ(tg_launch_poll(t), -ECANCELED);
    CHECK(readable(t, 0));
    CHECK_EQ(tg_launch_release(t), 0);
    place_tell("cancel", tg_launch_id(holds[0])); /* signals nobody: this process has other steps */
    CHECK_EQ(place_count(launch, "holders"), 1);
    CHECK_EQ(tg_launch_release(holds[0]), 0);
    CHECK_EQ(tg_launch_release(holds[1]), 0);
}

static void r7_without_a_broker_there_is_no_turn(void)
{
    struct tg_launch *timid;
    struct tg_launch_ticket *t;
    place_stop_broker();
    CHECK_EQ(tg_launch_open(false, &timid), 0);
    CHECK_EQ(tg_launch_request(timid, NULL, &t), -ECONNREFUSED);
    tg_launch_close(timid);
    tg_launch_close(NULL);
}

/* ---- growing */

static void a2_growing_never_passes_the_budget(void)
{
    struct tg_launch_ticket *t[2], *waits;
    struct tg_launch_options o = light();
    place_set("budget-mb", "100");
    o.est_mb = 40;
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(tg_launch_request(launch, &o, &t[i]), 0);
        CHECK_EQ(tg_launch_wait(t[i], PATIENCE_MS), 0);
    }
    CHECK_EQ(tg_launch_grow(t[0], 61), -EAGAIN);
    CHECK_EQ(tg_launch_grow(t[0], 60), 0);
    CHECK_EQ(tg_launch_grow(t[1], 41), -EAGAIN);
    CHECK_EQ(tg_launch_grow(t[1], 101), -EFBIG);
    CHECK_EQ(tg_launch_grow(t[1], UINT64_MAX), -EINVAL);
    o.slots = 0;
    o.est_mb = 70;
    CHECK_EQ(tg_launch_request(launch, &o, &waits), 0);
    CHECK_EQ(tg_launch_grow(waits, 50), 0);
    CHECK_EQ(tg_launch_wait(waits, A_MOMENT_MS), -ETIMEDOUT);
    CHECK_EQ(tg_launch_grow(t[0], 10), 0); /* what is given back is somebody's at once */
    CHECK_EQ(tg_launch_wait(waits, PATIENCE_MS), 0);
    CHECK_EQ(tg_launch_grow(t[0], 11), -EAGAIN);
    place_kill_broker(launch); /* the next one knows the new sizes */
    CHECK_EQ(tg_launch_grow(t[0], 11), -EAGAIN);
    CHECK_EQ(tg_launch_release(waits), 0);
    CHECK_EQ(tg_launch_grow(t[0], 60), 0);
    CHECK_EQ(tg_launch_grow(t[0], 61), -EAGAIN);
    CHECK_EQ(tg_launch_release(t[0]), 0);
    CHECK_EQ(tg_launch_release(t[1]), 0);
    place_set("budget-mb", "off");
}

static void a6_under_a_ticket_everything_passes(void)
{
    struct tg_launch *inner;
    struct tg_launch_ticket *t[3];
    struct tg_launch_ticket *outer = request_light(launch);
    CHECK_EQ(tg_launch_wait(outer, PATIENCE_MS), 0);
    CHECK(setenv("TIDEGATE_TICKET", tg_launch_env(outer), 1) == 0);
    CHECK_EQ(tg_launch_open(true, &inner), 0);
    for (int i = 0; i < 3; i++) {
        t[i] = request_light(inner);
        CHECK_EQ(tg_launch_poll(t[i]), 0);
        CHECK(tg_launch_nested(t[i]));
        CHECK_EQ(tg_launch_id(t[i]), tg_launch_id(outer));
        CHECK_EQ(tg_launch_grow(t[i], 1), -ENOTSUP);
    }
    for (int i = 0; i < 3; i++)
        CHECK_EQ(tg_launch_release(t[i]), 0);
    CHECK_EQ(place_count(launch, "holders"), 1); /* the outer one is nobody's to give back here */
    CHECK(unsetenv("TIDEGATE_TICKET") == 0);
    tg_launch_close(inner);
    CHECK_EQ(tg_launch_release(outer), 0);
}

int main(void)
{
    launch = place_make();
    place_set("slots", "2");
    RUN(a2_threads_of_one_process_keep_the_cap);
    RUN(a4_kill_9_frees_every_turn_of_the_process);
    RUN(a_forked_child_has_no_turn);
    RUN(a8_a_killed_broker_keeps_turns_and_places);
    RUN(a8_a_blocked_waiter_outlives_its_broker);
    RUN(a5_the_descriptor_wakes_when_the_turn_comes);
    RUN(a_waiter_that_is_released_is_gone);
    RUN(every_error_has_its_number_and_words);
    RUN(a_cancelled_waiter_is_told);
    RUN(a2_growing_never_passes_the_budget);
    RUN(a6_under_a_ticket_everything_passes);
    RUN(r7_without_a_broker_there_is_no_turn);
    tg_launch_close(launch);
    return 0;
}
