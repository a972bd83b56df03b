/* SPDX-License-Identifier: Apache-2.0
 * See harness.h. */
#include "harness.h"

#include <errno.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/client.h"

static char place[64];
static pid_t maker;

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *at)
{
    (void)st;
    (void)flag;
    (void)at;
    return remove(path);
}

static void clean_up(void)
{
    if (getpid() != maker)
        return;
    place_stop_broker();
    nftw(place, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

struct tg_launch *place_make(void)
{
    char path[256];
    struct tg_launch *launch;
    snprintf(place, sizeof(place), "/tmp/tg-launch-XXXXXX");
    CHECK(mkdtemp(place));
    snprintf(path, sizeof(path), "%s/run", place);
    CHECK(mkdir(path, 0700) == 0 && setenv("XDG_RUNTIME_DIR", path, 1) == 0);
    snprintf(path, sizeof(path), "%s/state", place);
    CHECK(mkdir(path, 0700) == 0 && setenv("XDG_STATE_HOME", path, 1) == 0);
    CHECK(getenv("TG_BUILD_DIR"));
    snprintf(path, sizeof(path), "%s/tidegate-broker", getenv("TG_BUILD_DIR"));
    CHECK(setenv("TIDEGATE_BROKER", path, 1) == 0 && unsetenv("TIDEGATE_TICKET") == 0);
    maker = getpid();
    CHECK(atexit(clean_up) == 0);
    CHECK_EQ(tg_launch_open(true, &launch), 0);
    place_set("load", "off");
    place_set("floor-mb", "0");
    return launch;
}

void place_stop_broker(void)
{
    struct tg_client c;
    int killed;
    if (tg_client_init(&c, false) == 0)
        (void)tg_client_stop_broker(&c, true, &killed);
    tg_client_done(&c);
}

static void must(json_t *request)
{
    struct tg_client c;
    json_t *reply;
    CHECK(tg_client_init(&c, true) == 0);
    int err = tg_client_call(&c, request, &reply);
    if (err)
        fprintf(stderr, "%s\n", c.text);
    CHECK_EQ(err, 0);
    json_decref(reply);
    json_decref(request);
    tg_client_done(&c);
}

void place_set(const char *key, const char *value)
{
    must(json_pack("{s:s,s:s,s:s}", "op", "config", "key", key, "value", value));
}

void place_tell(const char *op, uint64_t ticket)
{
    must(json_pack("{s:s,s:I}", "op", op, "ticket", (json_int_t)ticket));
}

static json_t *status(struct tg_launch *launch)
{
    char *text;
    CHECK_EQ(tg_launch_status_json(launch, &text), 0);
    json_t *m = json_loads(text, 0, NULL);
    CHECK(m);
    free(text);
    return m;
}

int64_t place_number(struct tg_launch *launch, const char *object, const char *key)
{
    json_t *m = status(launch);
    const json_t *value = json_object_get(json_object_get(m, object), key);
    CHECK(json_is_integer(value));
    int64_t n = json_integer_value(value);
    json_decref(m);
    return n;
}

size_t place_count(struct tg_launch *launch, const char *list)
{
    json_t *m = status(launch);
    CHECK(json_is_array(json_object_get(m, list)));
    size_t n = json_array_size(json_object_get(m, list));
    json_decref(m);
    return n;
}

void place_kill_broker(struct tg_launch *launch)
{
    pid_t pid = (pid_t)place_number(launch, "broker", "pid");
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    CHECK(pid > 1 && fd >= 0 && kill(pid, SIGKILL) == 0);
    struct pollfd gone = {.fd = fd, .events = POLLIN};
    CHECK(poll(&gone, 1, PATIENCE_MS) == 1);
    close(fd);
}

struct tg_launch_options light(void)
{
    struct tg_launch_options o = TG_LAUNCH_OPTIONS;
    o.est_mb = 0;
    return o;
}

struct tg_launch_ticket *request_light(struct tg_launch *launch)
{
    struct tg_launch_options o = light();
    struct tg_launch_ticket *t;
    int err = tg_launch_request(launch, &o, &t);
    if (err)
        fprintf(stderr, "%s\n", tg_launch_error());
    CHECK_EQ(err, 0);
    return t;
}

pid_t in_child(void (*body)(struct tg_launch *launch, int ready), struct tg_launch *launch)
{
    int ends[2];
    char byte;
    CHECK(pipe(ends) == 0);
    pid_t parent = getpid();
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        body(launch, ends[1]);
        _exit(0);
    }
    close(ends[1]);
    CHECK(child > 0 && read(ends[0], &byte, 1) == 1);
    close(ends[0]);
    return child;
}

void kill_and_reap(pid_t pid)
{
    CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
}
