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

/* A directory in place of "/": /proc of the real machine but for the files that are to be missing or wrong.
 */
static void make_machine(const struct place *p, char *ret, size_t size)
{
    static const char *const files[] = {"meminfo", "loadavg"};
    char from[300], to[300], buf[4096];
    snprintf(ret, size, "%s/machine", p->dir);
    CHECK(mkdir(ret, 0700) == 0);
    static const char *const dirs[] = {"proc", "proc/sys", "proc/sys/kernel", "proc/sys/kernel/random"};
    for (size_t i = 0; i < 4; i++) {
        snprintf(to, sizeof(to), "%s/%s", ret, dirs[i]);
        CHECK(mkdir(to, 0700) == 0);
    }
    for (size_t i = 0; i < 2; i++) {
        snprintf(from, sizeof(from), "/proc/%s", files[i]);
        snprintf(to, sizeof(to), "%s/proc/%s", ret, files[i]);
        int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT, 0600);
        ssize_t n = read(in, buf, sizeof(buf));
        CHECK(n > 0 && write(out, buf, (size_t)n) == n);
        close(in);
        close(out);
    }
    snprintf(to, sizeof(to), "%s/proc/sys/kernel/random/boot_id", ret);
    CHECK(symlink("/proc/sys/kernel/random/boot_id", to) == 0);
}

static void show_process(const char *machine, pid_t pid)
{
    char from[64], to[300];
    snprintf(from, sizeof(from), "/proc/%d", (int)pid);
    snprintf(to, sizeof(to), "%s/proc/%d", machine, (int)pid);
    CHECK(symlink(from, to) == 0);
}

static void put_file(const char *dir, const char *name, const char *text)
{
    char path[300], draft[310];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    snprintf(draft, sizeof(draft), "%s.new", path);
    if (!text) {
        CHECK(unlink(path) == 0);
        return;
    }
    FILE *f = fopen(draft, "w");
    CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
    CHECK(rename(draft, path) == 0);
}

/* S4: what cannot be read refuses. */
static void s4_missing_telemetry_admits_nobody(void)
{
    struct place p;
    struct client c;
    char machine[200];
    place_make(&p);
    make_machine(&p, machine, sizeof(machine));
    p.machine_root = machine;
    put_file(machine, "proc/loadavg", "0.10 0.20 0.30 1/100 1234\n");
    place_ready(&p, 2);
    set_config(&p, "load", "2");
    client_open(&c, &p);
    pid_t a = owner_make();
    show_process(machine, a);
    CHECK_TEXT(admit(&c, "run", a, 0, 10, NULL), "HOLD");
    owner_kill(a);
    EVENTUALLY(holders_of(&p) == 0);
    static const char *const hidden[][3] = {{"proc/loadavg", NULL, "load-unknown"},
                                            {"proc/loadavg", "garbage\n", "load-unknown"},
                                            {"proc/meminfo", NULL, "memory-unknown"},
                                            {"proc/meminfo", "MemTotal: many kB\n", "memory-unknown"}};
    char good[4096] = "";
    for (size_t i = 0; i < 4; i++) {
        char path[300];
        snprintf(path, sizeof(path), "%s/%s", machine, hidden[i][0]);
        FILE *f = fopen(path, "r");
        CHECK(f);
        size_t n = fread(good, 1, sizeof(good) - 1, f);
        good[n] = '\0';
        fclose(f);
        put_file(machine, hidden[i][0], hidden[i][1]);
        pid_t b = owner_make();
        show_process(machine, b);
        json_t *m = client_ask(&c, admit_message("run", b, 0, 10, -1));
        CHECK_TEXT(text_at(m, "state"), "WAIT");
        CHECK_TEXT(text_at(m, "why"), hidden[i][2]);
        json_decref(m);
        CHECK(client_quiet(&c, 150));
        put_file(machine, hidden[i][0], good);
        CHECK_TEXT(next_state(&c), "HOLD"); /* no event tells: the re-check does */
        owner_kill(b);
        EVENTUALLY(holders_of(&p) == 0);
    }
    client_close(&c);
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
    CHECK(now_ms() - begin < 1000);
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

/* L13: numbers that would mean "everybody" or the broker are refused everywhere; N1 on the socket. */
static void l13_numbers_that_are_no_owner_are_refused(void)
{
    static const char *const bad[] = {
        "{\"op\":\"admit\",\"kind\":\"run\",\"pid\":0,\"prio\":0}",
        "{\"op\":\"admit\",\"kind\":\"run\",\"pid\":1,\"prio\":0}",
        "{\"op\":\"admit\",\"kind\":\"run\",\"pid\":-1,\"prio\":0}",
        "{\"op\":\"admit\",\"kind\":\"run\",\"pid\":4294967297,\"prio\":0}",
        "{\"op\":\"admit\",\"kind\":\"run\",\"pid\":\"7\",\"prio\":0}",
        "{\"op\":\"admit\",\"kind\":\"run\",\"pid\":7.5,\"prio\":0}",
        "{\"op\":\"admit\",\"kind\":\"run\",\"prio\":0}",
        "{\"op\":\"admit\",\"kind\":\"walk\",\"pid\":PID,\"prio\":0}",
        "{\"op\":\"admit\",\"kind\":\"run\",\"pid\":PID}",
        "{\"op\":\"admit\",\"kind\":\"run\",\"pid\":PID,\"prio\":\"high\"}",
        "{\"op\":\"admit\",\"kind\":\"run\",\"pid\":PID,\"prio\":0,\"est_mb\":-1}",
        "{\"op\":\"admit\",\"kind\":\"run\",\"pid\":PID,\"prio\":0,\"est_mb\":9223372036854775807}",
        "{\"op\":\"admit\",\"kind\":\"run\",\"pid\":PID,\"prio\":0,\"max_conc\":0}",
        "{\"op\":\"admit\",\"kind\":\"run\",\"pid\":PID,\"prio\":0,\"max_conc\":4294967296}",
        "{\"op\":\"admit\",\"kind\":\"run\",\"pid\":PID,\"prio\":0,\"slots\":-1}",
        "{\"op\":\"admit\",\"kind\":\"run\",\"pid\":PID,\"prio\":0,\"slots\":1000001}",
        "{\"op\":\"admit\",\"kind\":\"run\",\"pid\":PID,\"prio\":0,\"tenant\":\"\"}",
        "{\"op\":\"admit\",\"kind\":\"run\",\"pid\":PID,\"prio\":0,\"cmd\":[]}",
        "{\"op\":\"admit\",\"kind\":\"run\",\"pid\":PID,\"prio\":0,\"parent\":7}",
        "{\"op\":\"admit\",\"kind\":\"run\",\"pid\":PID,\"prio\":0,\"ticket\":\"1\"}",
        "{\"op\":\"release\",\"pid\":0}",
        "{\"op\":\"release\",\"pid\":-1}",
        "{\"op\":\"release\",\"pid\":1}",
        "{\"op\":\"release\"}",
        "{\"op\":\"done\",\"ticket\":1}",
        "{\"op\":\"done\",\"ticket\":0,\"status\":0}",
        "{\"op\":\"done\",\"ticket\":1,\"status\":-1}",
        "{\"op\":\"cancel\",\"ticket\":\"all\"}",
        "{\"op\":\"prio\",\"ticket\":1}",
        "{\"op\":\"config\",\"key\":\"slots\",\"value\":\"-1\"}",
        "{\"op\":\"config\",\"key\":\"slots\",\"value\":2}",
        "{\"op\":\"config\",\"key\":\"nothing\"}",
        "{\"op\":\"config\",\"value\":\"2\"}",
        "{\"op\":\"stop\",\"force\":1}",
        "{\"op\":7}",
        "{\"op\":\"fly\"}",
        "{}"};
    struct place p;
    struct client c;
    char text[512];
    place_make(&p);
    place_ready(&p, 1);
    client_open(&c, &p);
    for (int round = 0; round < 2; round++) {
        pid_t pid = round == 0 ? owner_make() : p.broker; /* the broker itself is nobody's owner either */
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
            const char *mark = strstr(bad[i], "PID");
            if (mark)
                snprintf(text, sizeof(text), "%.*s%d%s", (int)(mark - bad[i]), bad[i], (int)pid, mark + 3);
            else
                snprintf(text, sizeof(text), "%s", bad[i]);
            json_t *m = client_ask(&c, json_loads(text, 0, NULL));
            if (json_is_true(json_object_get(m, "ok")) || strcmp(text_at(m, "error.code"), "usage") != 0) {
                fprintf(stderr, "not refused: %s\n", text);
                exit(1);
            }
            json_decref(m);
        }
        if (round == 0)
            owner_kill(pid);
    }
    CHECK_TEXT(admit(&c, "run", p.broker, 0, 1, NULL), "usage");
    json_t *s = status_of(&p);
    CHECK_EQ(json_array_size(at(s, "waiters")) + json_array_size(at(s, "holders")), 0);
    json_decref(s);
    client_close(&c);
    place_stop(&p, SIGTERM);
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
    CHECK_TEXT(text_at(m, "state"), "HOLD");
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

/* U1: another user's process is nobody's to name, and another user does not get in at all. */
static void u1_other_users_are_kept_out(void)
{
    struct place p;
    if (geteuid() != 0) {
        fprintf(stderr, "  (skipped: it takes root to be two users)\n");
        return;
    }
    place_make(&p);
    p.run_as = NOBODY;
    CHECK(chmod(p.dir, 0755) == 0 && chown(p.dir, NOBODY, NOBODY) == 0);
    place_ready(&p, 2); /* root may always */
    pid_t roots = owner_make();
    pid_t user = fork();
    CHECK(user >= 0);
    if (user == 0) {
        struct client c;
        CHECK(setuid(NOBODY) == 0);
        client_open(&c, &p);
        CHECK_TEXT(admit(&c, "wait-admit", roots, 0, 1, NULL), "usage");
        CHECK_TEXT(admit(&c, "run", getpid(), 0, 1, NULL), "HOLD");
        _exit(0);
    }
    int status;
    CHECK_EQ(waitpid(user, &status, 0), user);
    CHECK_EQ(status, 0);
    /* Even one whom the file modes would let in. */
    CHECK(chmod(p.runtime, 0755) == 0 && chmod(p.socket, 0666) == 0);
    user = fork();
    CHECK(user >= 0);
    if (user == 0) {
        struct client c;
        CHECK(setuid(NOBODY - 1) == 0);
        client_open(&c, &p);
        json_t *m = client_recv(&c);
        CHECK_TEXT(text_at(m, "error.code"), "denied");
        CHECK(client_is_closed(&c));
        _exit(0);
    }
    CHECK_EQ(waitpid(user, &status, 0), user);
    CHECK_EQ(status, 0);
    owner_kill(roots);
    CHECK_EQ(place_stop(&p, SIGTERM), 0);
}

static void an_idle_broker_ends(void)
{
    struct place p;
    struct client c;
    place_make(&p);
    p.idle_exit = "0";
    place_ready(&p, 1);
    set_config(&p, "idle-exit", "200ms");
    client_open(&c, &p);
    tell(&p, json_pack("{s:s}", "op", "status"));
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
    CHECK(now_ms() - begin < 2000);
    CHECK(access(p.socket, F_OK) != 0);
}

int main(void)
{
    RUN(s3_a_read_only_state_directory_refuses);
    RUN(u8_a_disk_that_fills_up_grants_nothing);
    RUN(s4_missing_telemetry_admits_nobody);
    RUN(l1_a_killed_client_or_command_never_hangs_the_queue);
    RUN(l5_l7_stale_files_stop_nobody);
    RUN(l13_numbers_that_are_no_owner_are_refused);
    RUN(l8_l14_cancel_signals_the_recorded_process_alone);
    RUN(it_inherits_nothing);
    RUN(l10_out_of_descriptors_it_asks_instead);
    RUN(u1_other_users_are_kept_out);
    RUN(an_idle_broker_ends);
    return 0;
}
