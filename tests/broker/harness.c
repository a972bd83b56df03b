/* SPDX-License-Identifier: Apache-2.0
 * See harness.h. */
#include "harness.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

static char places[256][128];
static unsigned n_places;
static pid_t test_pid;
static pid_t started[64]; /* brokers, ended with the test */
static unsigned n_started;

uint64_t now_ms(void)
{
    return tg_clock_mono_ns() / 1000000;
}

void pause_ms(unsigned ms)
{
    struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&ts, NULL);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void clean_up(void)
{
    if (getpid() != test_pid)
        return;
    for (unsigned i = 0; i < n_started; i++) {
        if (started[i] > 1)
            kill(started[i], SIGKILL);
    }
    for (unsigned i = 0; i < n_places; i++) {
        if (!getenv("TG_TEST_KEEP"))
            nftw(places[i], remove_one, 16, FTW_DEPTH | FTW_PHYS);
    }
}

void place_make(struct place *p)
{
    *p = (struct place){0};
    snprintf(p->dir, sizeof(p->dir), "/tmp/tg-broker-XXXXXX");
    CHECK(mkdtemp(p->dir));
    if (n_places == 0) {
        test_pid = getpid();
        CHECK(atexit(clean_up) == 0);
    }
    CHECK(n_places < sizeof(places) / sizeof(places[0]));
    snprintf(places[n_places++], sizeof(places[0]), "%s", p->dir);
    snprintf(p->runtime, sizeof(p->runtime), "%s/run", p->dir);
    snprintf(p->state, sizeof(p->state), "%s/state", p->dir);
    snprintf(p->socket, sizeof(p->socket), "%s/broker.sock", p->runtime);
    snprintf(p->store, sizeof(p->store), "%s/store.db", p->state);
}

/* In the build folder: the environment names it, or else this program lies in a folder of it. */
static void find_broker(char *ret, size_t size)
{
    char self[400];
    const char *build = getenv("TG_BUILD_DIR");
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    CHECK(n > 0);
    self[n] = '\0';
    char *slash = strrchr(self, '/');
    *slash = '\0';
    if (build)
        snprintf(ret, size, "%s/tidegate-broker", build);
    else
        snprintf(ret, size, "%s/../tidegate-broker", self);
}

/* Another user may not reach the build folder (it may lie below /root): a copy lies in the test's place. */
static void copy_broker(const struct place *p, char *exe, size_t size)
{
    char copy[512];
    struct stat st;
    snprintf(copy, sizeof(copy), "%s/tidegate-broker", p->dir);
    int in = open(exe, O_RDONLY | O_CLOEXEC);
    int out = open(copy, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
    CHECK(in >= 0 && out >= 0 && fstat(in, &st) == 0);
    for (off_t at = 0; at < st.st_size;)
        CHECK(sendfile(out, in, &at, (size_t)(st.st_size - at)) > 0);
    CHECK(fchmod(out, 0755) == 0);
    close(in);
    close(out);
    snprintf(exe, size, "%s", copy);
}

static void become_broker(const struct place *p, const char *exe, int ready_fd)
{
    char fd_text[16];
    const char *argv[20] = {exe, "--runtime-dir", p->runtime, "--state-dir", p->state, "--ready-fd", fd_text};
    size_t n = 7;
    snprintf(fd_text, sizeof(fd_text), "%d", ready_fd);
    if (!p->detached)
        argv[n++] = "--foreground";
    if (p->machine_root) {
        argv[n++] = "--machine-root";
        argv[n++] = p->machine_root;
    }
    if (p->adopt) {
        argv[n++] = "--adopt-limit";
        argv[n++] = p->adopt;
    }
    if (p->cancel) {
        argv[n++] = "--cancel-limit";
        argv[n++] = p->cancel;
    }
    if (p->liveness) {
        argv[n++] = "--liveness-limit";
        argv[n++] = p->liveness;
    }
    if (p->idle_exit) {
        argv[n++] = "--idle-exit";
        argv[n++] = p->idle_exit;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (p->run_as && setuid(p->run_as) != 0)
        _exit(127);
    execv(exe, (char *const *)(uintptr_t)argv);
    perror(exe);
    _exit(127);
}

const char *place_start(struct place *p)
{
    char exe[512];
    int fds[2];
    find_broker(exe, sizeof(exe));
    if (p->run_as)
        copy_broker(p, exe, sizeof(exe));
    CHECK(pipe(fds) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        close(fds[0]);
        become_broker(p, exe, fds[1]);
    }
    close(fds[1]);
    p->broker = pid;
    unsigned free_at = 0;
    while (free_at < n_started && started[free_at] != 0)
        free_at++;
    CHECK(free_at < sizeof(started) / sizeof(started[0]));
    started[free_at] = pid;
    n_started += free_at == n_started;
    struct pollfd poll_fd = {.fd = fds[0], .events = POLLIN};
    size_t used = 0;
    for (;;) {
        CHECK(poll(&poll_fd, 1, 2 * PATIENCE_MS) == 1);
        ssize_t n = read(fds[0], p->word + used, sizeof(p->word) - 1 - used);
        if (n <= 0)
            break;
        used += (size_t)n;
    }
    close(fds[0]);
    p->word[used] = '\0';
    CHECK(used > 0 && p->word[used - 1] == '\n');
    p->word[used - 1] = '\0';
    return p->word;
}

void place_ready(struct place *p, unsigned slots)
{
    char text[16];
    CHECK_TEXT(place_start(p), "ready");
    snprintf(text, sizeof(text), "%u", slots);
    set_config(p, "load", "off");
    set_config(p, "slots", text);
}

int place_stop(struct place *p, int sig)
{
    int status;
    CHECK(p->broker > 1);
    kill(p->broker, sig);
    uint64_t end = now_ms() + PATIENCE_MS;
    pid_t got;
    while ((got = waitpid(p->broker, &status, WNOHANG)) == 0 && now_ms() < end)
        pause_ms(1);
    CHECK_EQ(got, p->broker);
    for (unsigned i = 0; i < n_started; i++) {
        if (started[i] == p->broker)
            started[i] = 0;
    }
    p->broker = 0;
    return status;
}

/* ---- clients */

void client_open(struct client *c, const struct place *p)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    *c = (struct client){.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    c->in.max_bytes = TG_REPLY_MAX_BYTES;
    CHECK(c->fd >= 0);
    CHECK(strlen(p->socket) < sizeof(addr.sun_path));
    memcpy(addr.sun_path, p->socket, strlen(p->socket) + 1);
    CHECK(connect(c->fd, (struct sockaddr *)&addr, sizeof(addr)) == 0);
}

void client_close(struct client *c)
{
    close(c->fd);
    c->fd = -1;
    tg_frames_done(&c->in);
}

void client_send_bytes(struct client *c, const void *bytes, size_t n)
{
    const char *p = bytes;
    while (n > 0) {
        ssize_t sent = send(c->fd, p, n, MSG_NOSIGNAL);
        CHECK(sent > 0);
        p += sent;
        n -= (size_t)sent;
    }
}

void client_send(struct client *c, json_t *message)
{
    uint8_t *bytes;
    size_t n;
    CHECK(message);
    CHECK(tg_frame_encode(message, &bytes, &n) == 0);
    json_decref(message);
    client_send_bytes(c, bytes, n);
    free(bytes);
}

static ssize_t read_more(struct client *c, int ms)
{
    char buf[65536];
    struct pollfd p = {.fd = c->fd, .events = POLLIN};
    if (poll(&p, 1, ms) != 1)
        return -1;
    ssize_t n = recv(c->fd, buf, sizeof(buf), 0);
    if (n > 0)
        CHECK(tg_frames_feed(&c->in, buf, (size_t)n) == 0);
    return n > 0 ? n : 0;
}

json_t *client_recv(struct client *c)
{
    return client_recv_within(c, PATIENCE_MS);
}

json_t *client_recv_within(struct client *c, unsigned ms)
{
    json_t *message;
    uint64_t end = now_ms() + ms;
    int rc;
    while ((rc = tg_frames_next(&c->in, &message)) == 0) {
        uint64_t now = now_ms();
        CHECK(now < end);
        CHECK(read_more(c, (int)(end - now)) > 0);
    }
    CHECK_EQ(rc, 1);
    return message;
}

bool client_quiet(struct client *c, int ms)
{
    return c->in.used == 0 && read_more(c, ms) < 0;
}

bool client_is_closed(struct client *c)
{
    ssize_t n;
    while ((n = read_more(c, PATIENCE_MS)) > 0)
        ;
    return n == 0;
}

json_t *client_ask(struct client *c, json_t *message)
{
    client_send(c, message);
    return client_recv(c);
}

json_t *admit_message(const char *kind, pid_t pid, int64_t prio, int64_t est_mb, int64_t max_conc)
{
    json_t *m = json_pack("{s:s,s:s,s:i,s:I,s:s}", "op", "admit", "kind", kind, "pid", (int)pid, "prio",
                          (json_int_t)prio, "cmd", "a test");
    json_object_set_new(m, "est_mb", est_mb < 0 ? json_null() : json_integer(est_mb));
    json_object_set_new(m, "max_conc", max_conc < 0 ? json_null() : json_integer(max_conc));
    return m;
}

/* The state or the error's code of an answer. */
static const char *state_of(json_t *reply, uint64_t *ret_ticket)
{
    static char text[64];
    if (json_is_true(json_object_get(reply, "ok")))
        snprintf(text, sizeof(text), "%s", text_at(reply, "state"));
    else
        snprintf(text, sizeof(text), "%s", text_at(reply, "error.code"));
    if (ret_ticket && json_object_get(reply, "ticket"))
        *ret_ticket = (uint64_t)number_at(reply, "ticket");
    json_decref(reply);
    return text;
}

const char *admit(struct client *c, const char *kind, pid_t pid, int64_t prio, int64_t est_mb,
                  uint64_t *ret_ticket)
{
    return state_of(client_ask(c, admit_message(kind, pid, prio, est_mb, -1)), ret_ticket);
}

const char *next_state(struct client *c)
{
    return state_of(client_recv(c), NULL);
}

/* ---- looking at answers */

json_t *at(const json_t *m, const char *path)
{
    char part[64];
    const json_t *v = m;
    while (*path) {
        size_t n = strcspn(path, ".");
        CHECK(n < sizeof(part));
        memcpy(part, path, n);
        part[n] = '\0';
        v = json_is_array(v) ? json_array_get(v, (size_t)strtoul(part, NULL, 10)) : json_object_get(v, part);
        if (!v) {
            char *text = json_dumps(m, JSON_COMPACT);
            fprintf(stderr, "no %s in %.2000s\n", part, text ? text : "?");
            exit(1);
        }
        path += n + (path[n] == '.');
    }
    return (json_t *)(uintptr_t)v;
}

const char *text_at(const json_t *m, const char *path)
{
    json_t *v = at(m, path);
    CHECK(json_is_string(v));
    return json_string_value(v);
}

int64_t number_at(const json_t *m, const char *path)
{
    json_t *v = at(m, path);
    CHECK(json_is_integer(v));
    return json_integer_value(v);
}

json_t *status_of(const struct place *p)
{
    struct client c;
    client_open(&c, p);
    json_t *s = client_ask(&c, json_pack("{s:s}", "op", "status"));
    client_close(&c);
    CHECK(json_is_true(json_object_get(s, "ok")));
    return s;
}

static size_t count_of(const struct place *p, const char *list)
{
    json_t *s = status_of(p);
    size_t n = json_array_size(at(s, list));
    json_decref(s);
    return n;
}

size_t holders_of(const struct place *p)
{
    return count_of(p, "holders");
}

size_t waiters_of(const struct place *p)
{
    return count_of(p, "waiters");
}

void tell(const struct place *p, json_t *message)
{
    struct client c;
    client_open(&c, p);
    json_t *reply = client_ask(&c, message);
    if (!json_is_true(json_object_get(reply, "ok"))) {
        fprintf(stderr, "refused: %s\n", text_at(reply, "error.text"));
        exit(1);
    }
    json_decref(reply);
    client_close(&c);
}

void set_config(const struct place *p, const char *key, const char *value)
{
    tell(p, json_pack("{s:s,s:s,s:s}", "op", "config", "key", key, "value", value));
}

size_t descriptors_of(pid_t pid)
{
    char path[64];
    size_t n = 0;
    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    DIR *d = opendir(path);
    CHECK(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

uint64_t rss_kb_of(pid_t pid)
{
    char path[64];
    unsigned long size, resident;
    snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
    FILE *f = fopen(path, "r");
    CHECK(f && fscanf(f, "%lu %lu", &size, &resident) == 2);
    fclose(f);
    return resident * (unsigned long)sysconf(_SC_PAGESIZE) / 1024;
}

int64_t connections_of(const struct place *p)
{
    json_t *s = status_of(p);
    int64_t n = number_at(s, "broker.connections");
    json_decref(s);
    return n;
}

/* ---- owners */

void end_with_parent(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(0);
}

pid_t owner_make(void)
{
    pid_t parent = getpid();
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        end_with_parent(parent);
        syscall(SYS_close_range, 3u, ~0u, 0); /* no copies of the test's connections */
        for (;;)
            pause();
    }
    return pid;
}

pid_t owners_make_many(pid_t *ret, size_t n)
{
    int fds[2];
    CHECK(pipe(fds) == 0);
    pid_t test = getpid();
    pid_t parent = fork();
    CHECK(parent >= 0);
    if (parent == 0) {
        end_with_parent(test);
        for (size_t i = 0; i < n; i++) {
            pid_t pid = owner_make();
            if (write(fds[1], &pid, sizeof(pid)) != sizeof(pid))
                _exit(1);
        }
        for (;;)
            pause();
    }
    close(fds[1]);
    for (size_t i = 0; i < n; i++)
        CHECK(read(fds[0], &ret[i], sizeof(ret[i])) == sizeof(ret[i]));
    close(fds[0]);
    return parent;
}

void owner_kill(pid_t pid)
{
    CHECK(pid > 1);
    kill(pid, SIGKILL);
    CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

pid_t owner_make_wrapped(pid_t *ret_wrapper, bool lingers)
{
    int fds[2];
    pid_t owner = 0;
    CHECK(pipe2(fds, O_CLOEXEC) == 0);
    pid_t wrapper = fork();
    CHECK(wrapper >= 0);
    if (wrapper == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        syscall(SYS_close_range, 3u, (unsigned)fds[1] - 1, 0);
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        owner = owner_make();
        if (write(fds[1], &owner, sizeof(owner)) != sizeof(owner))
            _exit(1);
        syscall(SYS_close_range, 3u, ~0u, 0);
        waitpid(owner, NULL, 0);
        while (lingers)
            pause();
        _exit(0);
    }
    close(fds[1]);
    CHECK(read(fds[0], &owner, sizeof(owner)) == sizeof(owner));
    close(fds[0]);
    *ret_wrapper = wrapper;
    return owner;
}
