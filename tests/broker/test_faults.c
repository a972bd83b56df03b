/* SPDX-License-Identifier: Apache-2.0
 * What goes wrong around the broker: stores that refuse, machines that cannot be read, clients that die, lie
 * or flood, files left by the dead. Rows S3, S4, L1, L5, L7, L8, L13, L14, R2, U8 of the cases.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "harness.h"

#define NOBODY 65534

/* S3: where the store cannot be written, the broker says so and nobody is admitted. */
static void s3_a_read_only_state_directory_refuses(void)
{
    struct place p;
    place_make(&p);
    CHECK(mkdir(p.state, 0700) == 0);
    if (geteuid() == 0) { /* root writes everywhere: somebody else has to try */
        p.run_as = NOBODY;
        CHECK(chmod(p.dir, 0755) == 0);
        CHECK(mkdir(p.runtime, 0700) == 0 && chown(p.runtime, NOBODY, NOBODY) == 0);
        CHECK(chown(p.state, NOBODY, NOBODY) == 0);
    }
    CHECK(chmod(p.state, 0500) == 0);
    const char *word = place_start(&p);
    if (strncmp(word, "error", 5) != 0)
        fprintf(stderr, "it said: %s\n", word);
    CHECK(strncmp(word, "error ", 6) == 0 && strstr(word, p.state));
    int status;
    CHECK_EQ(waitpid(p.broker, &status, 0), p.broker);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) != 0);
    CHECK(access(p.socket, F_OK) != 0);
}

static void limit_files(pid_t broker, rlim_t bytes)
{
    struct rlimit r = {.rlim_cur = bytes, .rlim_max = RLIM_INFINITY};
    CHECK(prlimit(broker, RLIMIT_FSIZE, &r, NULL) == 0);
}

/* S3, U8: the disk fills up while the broker runs. No grant, a clear error, and it works again. */
static void u8_a_disk_that_fills_up_grants_nothing(void)
{
    struct place p;
    struct client c, w;
    uint64_t ticket;
    place_make(&p);
    place_ready(&p, 1);
    client_open(&c, &p);
    client_open(&w, &p);
    pid_t holder = owner_make(), waiter = owner_make(), late = owner_make();
    CHECK_TEXT(admit(&c, "wait-admit", holder, 0, 10, &ticket), "HOLD");
    client_send(&c, json_pack("{s:s,s:I}", "op", "ack", "ticket", (json_int_t)ticket));
    CHECK_TEXT(admit(&w, "run", waiter, 0, 10, NULL), "WAIT");
    CHECK_EQ(holders_of(&p), 1);
    limit_files(p.broker, 1);
    json_t *m = client_ask(&c, admit_message("run", late, 0, 10, -1));
    CHECK_TEXT(text_at(m, "error.code"), "store");
    CHECK(strstr(text_at(m, "error.text"), p.store));
    json_decref(m);
    m = client_ask(&c, json_pack("{s:s,s:i}", "op", "release", "pid", (int)holder));
    CHECK_TEXT(text_at(m, "error.code"), "store");
    json_decref(m);
    m = client_ask(&c, json_pack("{s:s,s:s,s:s}", "op", "config", "key", "slots", "value", "9"));
    CHECK_TEXT(text_at(m, "error.code"), "store");
    json_decref(m);
    json_t *s = status_of(&p);
    CHECK_EQ(json_array_size(at(s, "holders")), 1);
    CHECK_EQ(json_array_size(at(s, "waiters")), 1);
    CHECK_EQ(number_at(s, "gates.slots.limit"), 1);
    CHECK(json_is_string(at(s, "store.failing")));
    json_decref(s);
    /* The holder dies: it holds nothing any more, but its slot cannot be given yet. */
    owner_kill(holder);
    EVENTUALLY(holders_of(&p) == 0);
    CHECK(client_quiet(&w, 100));
    CHECK_EQ(waiters_of(&p), 1);
    limit_files(p.broker, RLIM_INFINITY);
    CHECK_TEXT(next_state(&w), "HOLD");
    CHECK_TEXT(admit(&c, "run", late, 0, 10, NULL), "WAIT");
    EVENTUALLY(({
        json_t *now = status_of(&p);
        bool well = json_is_null(at(now, "store.failing"));
        json_decref(now);
        well;
    }));
    owner_kill(waiter);
    CHECK_TEXT(next_state(&c), "HOLD");
    owner_kill(late);
    client_close(&c);
    client_close(&w);
    place_stop(&p, SIGTERM);
}

/* L1: whoever is killed at whatever stage, the queue moves within a second. */
static void l1_a_killed_client_or_command_never_hangs_the_queue(void)
{
    struct place p;
    struct client c[3];
    pid_t pid[3];
    place_make(&p);
    place_ready(&p, 1);
    for (int i = 0; i < 3; i++) {
        client_open(&c[i], &p);
        pid[i] = owner_make();
        CHECK_TEXT(admit(&c[i], "run", pid[i], 0, 10, NULL), i == 0 ? "HOLD" : "WAIT");
    }
    owner_kill(pid[1]); /* while it waits, its connection still open */
    CHECK_TEXT(next_state(&c[1]), "gone");
    uint64_t begin = now_ms();
    owner_kill(pid[0]); /* while it holds */
    CHECK_TEXT(next_state(&c[2]), "HOLD");
    CHECK(now_ms() - begin < SOON_MS);
    owner_kill(pid[2]); /* granted, not started */
    client_close(&c[2]);
    EVENTUALLY(holders_of(&p) == 0);
    CHECK_EQ(waiters_of(&p), 0);
    client_close(&c[0]);
    client_close(&c[1]);
    place_stop(&p, SIGTERM);
}

/* L5, L7: what a crash or another boot left in the files never stops the next broker. */
static void l5_l7_stale_files_stop_nobody(void)
{
    struct place p;
    char path[300];
    place_make(&p);
    place_ready(&p, 1);
    place_stop(&p, SIGKILL);
    CHECK(access(p.socket, F_OK) == 0); /* left behind */
    snprintf(path, sizeof(path), "%s/broker.lock", p.state);
    FILE *f = fopen(path, "w"); /* names a process that lives and is somebody else */
    CHECK(f && fprintf(f, "%d /nowhere/broker.sock\n", (int)getpid()) > 0 && fclose(f) == 0);
    CHECK_TEXT(place_start(&p), "ready");
    /* A second one is sent to the first. */
    struct place other = p;
    char want[300];
    snprintf(want, sizeof(want), "locked %s", p.socket);
    CHECK_TEXT(place_start(&other), want);
    CHECK_EQ(waitpid(other.broker, NULL, 0), other.broker);
    /* R2: another store, the same socket: refused too, and the first goes on. */
    other = p;
    snprintf(other.state, sizeof(other.state), "%s/state2", p.dir);
    CHECK_TEXT(place_start(&other), want);
    CHECK_EQ(waitpid(other.broker, NULL, 0), other.broker);
    CHECK_EQ(holders_of(&p), 0);
    place_stop(&p, SIGTERM);
    CHECK(access(p.socket, F_OK) != 0);
    /* Something else at the socket's path is not removed. */
    f = fopen(p.socket, "w");
    CHECK(f && fclose(f) == 0);
    CHECK(strncmp(place_start(&p), "error ", 6) == 0);
    CHECK(access(p.socket, F_OK) == 0);
    CHECK_EQ(waitpid(p.broker, NULL, 0), p.broker);
}

/* L8, L14: cancelling signals the very process of the record, or nobody; a cancelled run ends with TERM, and
 * its wrapper still gets the status. */
static void l8_l14_cancel_signals_the_recorded_process_alone(void)
{
    struct place p;
    struct client c;
    uint64_t run, shell;
    place_make(&p);
    place_ready(&p, 3);
    client_open(&c, &p);
    pid_t bystander = owner_make(), worker = owner_make(), sh = owner_make();
    CHECK_TEXT(admit(&c, "run", worker, 0, 1, &run), "HOLD");
    CHECK_TEXT(admit(&c, "wait-admit", sh, 0, 1, &shell), "HOLD");
    client_send(&c, json_pack("{s:s,s:I}", "op", "ack", "ticket", (json_int_t)shell));
    json_t *m = client_ask(&c, json_pack("{s:s,s:I}", "op", "cancel", "ticket", (json_int_t)shell));
    CHECK_TEXT(text_at(m, "state"), "DONE");
    json_decref(m);
    m = client_ask(&c, json_pack("{s:s,s:I}", "op", "cancel", "ticket", (json_int_t)run));
    CHECK_TEXT(text_at(m, "state"), "DONE"); /* told when it has ended, reaped or not */
    json_decref(m);
    int status;
    CHECK_EQ(waitpid(worker, &status, 0), worker); /* the broker has not taken the status */
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    EVENTUALLY(holders_of(&p) == 0);
    CHECK(kill(sh, 0) == 0 && kill(bystander, 0) == 0);
    owner_kill(sh);
    owner_kill(bystander);
    m = client_ask(&c, json_pack("{s:s,s:I}", "op", "cancel", "ticket", (json_int_t)run));
    CHECK_TEXT(text_at(m, "error.code"), "gone");
    json_decref(m);
    client_close(&c);
    place_stop(&p, SIGTERM);
}

/* The broker inherits nothing, and its files are nobody else's. */
static void it_inherits_nothing(void)
{
    struct place p;
    char path[300], text[4096];
    struct stat st;
    place_make(&p);
    p.detached = true;
    snprintf(path, sizeof(path), "%s/stray", p.dir);
    int stray = open(path, O_RDWR | O_CREAT, 0600); /* no CLOEXEC: meant to be inherited */
    CHECK(stray >= 0);
    mode_t old = umask(0);
    place_ready(&p, 1);
    umask(old);
    close(stray);
    CHECK(stat(p.socket, &st) == 0 && (st.st_mode & 0777) == 0600);
    CHECK(stat(p.store, &st) == 0 && (st.st_mode & 0777) == 0600);
    CHECK(stat(p.runtime, &st) == 0 && (st.st_mode & 0777) == 0700);
    CHECK(stat(p.state, &st) == 0 && (st.st_mode & 0777) == 0700);
    CHECK_EQ(getsid(p.broker), p.broker);
    char dir[64];
    snprintf(dir, sizeof(dir), "/proc/%d/fd", (int)p.broker);
    DIR *d = opendir(dir);
    CHECK(d);
    unsigned standard = 0;
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        ssize_t n = readlinkat(dirfd(d), e->d_name, text, sizeof(text) - 1);
        if (n <= 0)
            continue;
        text[n] = '\0';
        CHECK(strcmp(text, path) != 0);
        standard += strtoul(e->d_name, NULL, 10) <= 2 && strcmp(text, "/dev/null") == 0;
    }
    closedir(d);
    CHECK_EQ(standard, 3);
    snprintf(dir, sizeof(dir), "/proc/%d/cwd", (int)p.broker);
    CHECK(readlink(dir, text, sizeof(text) - 1) == 1 && text[0] == '/');
    CHECK_EQ(place_stop(&p, SIGTERM), 0);
}

/* L10: without a descriptor for the owner's death, it is asked for instead, which status shows; connections
 * beyond what there is are turned away and the broker serves on. */
static void l10_out_of_descriptors_it_asks_instead(void)
{
    struct place p;
    struct client c, extra[8];
    place_make(&p);
    place_ready(&p, 1);
    client_open(&c, &p);
    json_decref(client_ask(&c, json_pack("{s:s}", "op", "status")));
    pid_t a = owner_make();
    struct rlimit few = {.rlim_cur = 3, .rlim_max = 4096};
    const char *state;
    do { /* until one descriptor is left: enough to read files one by one, too few for a pidfd as well */
        few.rlim_cur++;
        CHECK(prlimit(p.broker, RLIMIT_NOFILE, &few, NULL) == 0);
        state = admit(&c, "run", a, 0, 1, NULL);
    } while (strcmp(state, "usage") == 0);
    CHECK_TEXT(state, "HOLD");
    json_t *s = client_ask(&c, json_pack("{s:s}", "op", "status"));
    CHECK_TEXT(text_at(s, "holders.0.liveness"), "unknown");
    json_decref(s);
    for (int i = 0; i < 8; i++)
        client_open(&extra[i], &p); /* one fits, the others are turned away */
    CHECK(client_is_closed(&extra[7]));
    owner_kill(a);
    EVENTUALLY(({
        s = client_ask(&c, json_pack("{s:s}", "op", "status"));
        bool gone = json_array_size(at(s, "holders")) == 0;
        json_decref(s);
        gone;
    }));
    few.rlim_cur = 1024;
    CHECK(prlimit(p.broker, RLIMIT_NOFILE, &few, NULL) == 0);
    for (int i = 0; i < 8; i++)
        client_close(&extra[i]);
    pid_t b = owner_make();
    CHECK_TEXT(admit(&c, "run", b, 0, 1, NULL), "HOLD");
    s = client_ask(&c, json_pack("{s:s}", "op", "status"));
    CHECK_TEXT(text_at(s, "holders.0.liveness"), "known");
    json_decref(s);
    owner_kill(b);
    client_close(&c);
    CHECK_EQ(place_stop(&p, SIGTERM), 0);
}

static void an_idle_broker_ends(void)
{
    struct place p;
    struct client c;
    place_make(&p);
    p.idle_exit = "0";
    place_ready(&p, 1);
    client_open(&c, &p); /* before it may end */
    set_config(&p, "idle-exit", "200ms");
    pause_ms(350);
    CHECK_EQ(waitpid(p.broker, NULL, WNOHANG), 0); /* a connection keeps it */
    pid_t owner = owner_make();
    CHECK_TEXT(admit(&c, "run", owner, 0, 1, NULL), "HOLD");
    client_close(&c);
    pause_ms(350);
    CHECK_EQ(waitpid(p.broker, NULL, WNOHANG), 0); /* so does a ticket */
    owner_kill(owner);
    uint64_t begin = now_ms();
    int status;
    CHECK_EQ(waitpid(p.broker, &status, 0), p.broker);
    CHECK_EQ(status, 0);
    CHECK(now_ms() - begin < SOON_MS);
    CHECK(access(p.socket, F_OK) != 0);
}

int main(void)
{
    RUN(s3_a_read_only_state_directory_refuses);
    RUN(u8_a_disk_that_fills_up_grants_nothing);
    RUN(l1_a_killed_client_or_command_never_hangs_the_queue);
    RUN(l5_l7_stale_files_stop_nobody);
    RUN(l8_l14_cancel_signals_the_recorded_process_alone);
    RUN(it_inherits_nothing);
    RUN(l10_out_of_descriptors_it_asks_instead);
    RUN(an_idle_broker_ends);
    return 0;
}
