/* SPDX-License-Identifier: Apache-2.0
 * tg_launch_run against a real broker, from several threads too. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

static struct tg_launch *launch;
static char folder[] = "/tmp/tg-run-XXXXXX";

static int shell(const char *text, const char *arg, uint64_t wait_ms, int *status)
{
    struct tg_launch_options o = light();
    char *argv[] = {(char *)"sh", (char *)"-c", (char *)text, (char *)"sh", (char *)arg, NULL};
    return tg_launch_run(launch, &o, argv, wait_ms, status);
}

static void a_command_runs_and_its_status_comes_back(void)
{
    int status;
    CHECK_EQ(shell("exit 7", "", PATIENCE_MS, &status), 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    CHECK_EQ(shell("kill -TERM $$", "", PATIENCE_MS, &status), 0);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    CHECK_EQ(shell("case $TIDEGATE_TICKET in [1-9]*:*) exit 0;; esac; exit 1", "", PATIENCE_MS, &status), 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK_EQ(place_count(launch, "holders"), 0);
}

static void a_command_that_is_none_is_refused(void)
{
    char *nothing[] = {(char *)"/nonexistent/command", NULL};
    char *directory[] = {(char *)"/tmp", NULL};
    char *empty[] = {NULL};
    int status = -1;
    CHECK_EQ(tg_launch_run(launch, NULL, nothing, 0, &status), -ENOENT);
    CHECK_EQ(tg_launch_run(launch, NULL, directory, 0, &status), -EACCES);
    CHECK_EQ(tg_launch_run(launch, NULL, empty, 0, &status), -EINVAL);
    CHECK_EQ(status, -1);
}

/* Each command makes a file while it runs, and fails when more than two of them are there. */
static void *run_some(void *arg)
{
    static const char text[] = "cd \"$1\" && : >$$ && set -- * && rm $$ && [ $# -le 2 ]";
    (void)arg;
    for (int i = 0; i < 4; i++) {
        int status;
        CHECK_EQ(shell(text, folder, PATIENCE_MS, &status), 0);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    return NULL;
}

static void a2_commands_of_many_threads_keep_the_cap(void)
{
    pthread_t threads[5];
    for (int i = 0; i < 5; i++)
        CHECK(pthread_create(&threads[i], NULL, run_some, NULL) == 0);
    for (int i = 0; i < 5; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK_EQ(place_count(launch, "waiters"), 0);
}

static void a7_who_waits_too_long_gives_up(void)
{
    int status = -1;
    struct tg_launch_ticket *holds[2] = {request_light(launch), request_light(launch)};
    CHECK_EQ(tg_launch_wait(holds[1], PATIENCE_MS), 0);
    CHECK_EQ(shell("exit 0", "", A_MOMENT_MS, &status), -ETIME);
    CHECK_EQ(shell("exit 0", "", 0, &status), -ETIME);
    CHECK_EQ(status, -1);
    CHECK_EQ(tg_launch_release(holds[0]), 0);
    CHECK_EQ(tg_launch_release(holds[1]), 0);
}

/* ---- kill -9 of the program */

static void *run_waiting(void *arg)
{
    int status;
    (void)arg;
    (void)shell("exit 0", "", PATIENCE_MS, &status);
    return NULL;
}

static void run_in_child(struct tg_launch *l, int ready)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, run_waiting, NULL) == 0);
    while (place_count(l, "waiters") == 0)
        sched_yield();
    CHECK(write(ready, "", 1) == 1);
    pause();
}

static void a4_a_command_that_waits_ends_with_the_program(void)
{
    struct tg_launch_ticket *holds[2] = {request_light(launch), request_light(launch)};
    CHECK_EQ(tg_launch_wait(holds[1], PATIENCE_MS), 0);
    pid_t child = in_child(run_in_child, launch);
    kill_and_reap(child);
    for (int i = 0; place_count(launch, "waiters") > 0; i++) {
        CHECK(i < 10000);
        usleep(2000);
    }
    CHECK_EQ(tg_launch_release(holds[0]), 0);
    CHECK_EQ(tg_launch_release(holds[1]), 0);
}

int main(void)
{
    launch = place_make();
    place_set("slots", "2");
    CHECK(mkdtemp(folder));
    RUN(a_command_runs_and_its_status_comes_back);
    RUN(a_command_that_is_none_is_refused);
    RUN(a2_commands_of_many_threads_keep_the_cap);
    RUN(a7_who_waits_too_long_gives_up);
    RUN(a4_a_command_that_waits_ends_with_the_program);
    tg_launch_close(launch);
    CHECK(rmdir(folder) == 0);
    return 0;
}
