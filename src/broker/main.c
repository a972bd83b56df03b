/* SPDX-License-Identifier: Apache-2.0
 *
 * tidegate-broker: options, and the hygiene of a process that inherits nothing of the client that happened to
 * start it (no descriptors, no environment, no session, no directory, no limits, no signal handling), however
 * it was started. The broker itself is tg_broker_run.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/parse.h"
#include "broker/broker.h"
#include "broker/log.h"
#include "proto/paths.h"

#define EXIT_USAGE 2
#define EXIT_LOCKED 3
#define LIVENESS_MS 60000u
#define ADOPT_MS 500u
#define CANCEL_MS 5000u
#define NOFILE_WISH (1 << 18)

static const char USAGE[] =
    "usage: tidegate-broker --runtime-dir DIR --state-dir DIR [options]\n"
    "  --ready-fd N          write one line there: ready, locked SOCKET or error TEXT\n"
    "  --machine-root DIR    read the operating system's files below DIR (for tests)\n"
    "  --liveness-limit SECONDS  give a ticket up when nobody could tell for so long whether its owner "
    "lives\n"
    "                        (default 60)\n"
    "  --adopt-limit MS      a new broker's wait for those who waited at the former one (default 500)\n"
    "  --cancel-limit MS     a cancellation that kills gives up when nobody has died for so long (default "
    "5000),\n"
    "                        or after 12 times that\n"
    "  --idle-exit SECONDS   end after so long without tickets and connections (default 60; 0: never)\n"
    "  --foreground          stay in this session, log to standard error\n"
#ifdef TG_FAULT_ARMS
    "  --fault-point NAME[:N]  be killed there, the N-th time (for tests)\n"
#endif
    ;

struct arguments {
    struct tg_broker_options broker;
    bool foreground;
};

/* What is wrong, for whoever waits at the ready pipe. */
static char refusal[256] = "wrong arguments";

static int usage_error(const char *option, const char *value, const char *rule)
{
    snprintf(refusal, sizeof(refusal), "%s '%.100s': %s", option, value, rule);
    fprintf(stderr, "tidegate-broker: %s '%s': %s\n", option, value, rule);
    return EXIT_USAGE;
}

static int take_option(struct arguments *a, int option, const char *value)
{
    uint64_t n;
    switch (option) {
    case 'r':
        a->broker.runtime_dir = value;
        return value[0] == '/' ? 0 : usage_error("--runtime-dir", value, "must be an absolute path");
    case 's':
        a->broker.state_dir = value;
        return value[0] == '/' ? 0 : usage_error("--state-dir", value, "must be an absolute path");
    case 'm':
        a->broker.machine_root = value;
        return value[0] == '/' ? 0 : usage_error("--machine-root", value, "must be an absolute path");
    case 'f':
        if (tg_parse_u64(value, 3, 1 << 20, &n) || fcntl((int)n, F_GETFD) < 0)
            return usage_error("--ready-fd", value, "must be an open descriptor above 2");
        a->broker.ready_fd = (int)n;
        return 0;
    case 'i':
        if (tg_parse_u64(value, 0, 365 * 86400, &n))
            return usage_error("--idle-exit", value, "must be a number of seconds, at most one year");
        a->broker.idle_exit_ms = n * 1000;
        a->broker.idle_exit_given = true;
        return 0;
    case 'l':
        if (tg_parse_u64(value, 1, 86400, &n))
            return usage_error("--liveness-limit", value, "must be a number of seconds from 1 to 86400");
        a->broker.liveness_ms = n * 1000;
        return 0;
    case 'a':
        if (tg_parse_u64(value, 50, 600000, &n))
            return usage_error("--adopt-limit", value, "must be a number of milliseconds from 50 to 600000");
        a->broker.adopt_ms = n;
        return 0;
    case 'c':
        if (tg_parse_u64(value, 100, 600000, &n))
            return usage_error("--cancel-limit", value,
                               "must be a number of milliseconds from 100 to 600000");
        a->broker.cancel_ms = n;
        return 0;
    case 'F':
        a->foreground = true;
        return 0;
#ifdef TG_FAULT_ARMS
    case 'P':
        return tg_fault_arm(value) == 0 ? 0 : usage_error("--fault-point", value, "must be NAME or NAME:N");
#endif
    case 'V':
        puts("tidegate-broker " TG_VERSION);
        exit(0);
    case 'h':
        fputs(USAGE, stdout);
        exit(0);
    default:
        fputs(USAGE, stderr);
        return EXIT_USAGE;
    }
}

static int parse(int argc, char **argv, struct arguments *a)
{
    static const struct option options[] = {{"runtime-dir", required_argument, NULL, 'r'},
                                            {"state-dir", required_argument, NULL, 's'},
                                            {"machine-root", required_argument, NULL, 'm'},
                                            {"ready-fd", required_argument, NULL, 'f'},
                                            {"idle-exit", required_argument, NULL, 'i'},
                                            {"liveness-limit", required_argument, NULL, 'l'},
                                            {"adopt-limit", required_argument, NULL, 'a'},
                                            {"cancel-limit", required_argument, NULL, 'c'},
                                            {"foreground", no_argument, NULL, 'F'},
#ifdef TG_FAULT_ARMS
                                            {"fault-point", required_argument, NULL, 'P'},
#endif
                                            {"version", no_argument, NULL, 'V'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    int option;
    *a = (struct arguments){.broker = {.machine_root = "",
                                       .ready_fd = -1,
                                       .liveness_ms = LIVENESS_MS,
                                       .adopt_ms = ADOPT_MS,
                                       .cancel_ms = CANCEL_MS}};
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        int rc = take_option(a, option, optarg);
        if (rc)
            return rc;
    }
    if (optind != argc || !a->broker.runtime_dir || !a->broker.state_dir) {
        fputs(USAGE, stderr);
        return EXIT_USAGE;
    }
    if (strlen(a->broker.state_dir) + sizeof("/store.db") - 1 > TG_STORE_PATH_BYTES)
        return usage_error("--state-dir", a->broker.state_dir,
                           "is too long for a store (504 bytes with its name)");
    return 0;
}

/* ---- hygiene */

static void close_range_or_loop(unsigned first, unsigned last)
{
    if (first > last || syscall(SYS_close_range, first, last, 0) == 0)
        return;
    struct rlimit limit = {.rlim_cur = 1024};
    getrlimit(RLIMIT_NOFILE, &limit);
    for (unsigned fd = first; fd <= last && fd < limit.rlim_cur; fd++)
        close((int)fd);
}

/* 0 to 2 are open, so that nothing of ours ever gets those numbers; all others but the ready one are closed.
 */
static void clean_descriptors(int ready_fd, bool keep_standard)
{
    int null = open("/dev/null", O_RDWR);
    while (null >= 0 && null <= 2)
        null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd <= 2 && !keep_standard; fd++)
        dup2(null, fd);
    if (ready_fd > 2) {
        close_range_or_loop(3, (unsigned)ready_fd - 1);
        close_range_or_loop((unsigned)ready_fd + 1, ~0u);
        fcntl(ready_fd, F_SETFD, FD_CLOEXEC);
    } else {
        close_range_or_loop(3, ~0u);
    }
}

static void clean_signals(void)
{
    sigset_t none;
    sigemptyset(&none);
    for (int sig = 1; sig < NSIG; sig++) {
        if (sig != SIGKILL && sig != SIGSTOP)
            signal(sig, SIG_DFL);
    }
    signal(SIGPIPE, SIG_IGN); /* a client that went away is an error code */
    signal(SIGXFSZ, SIG_IGN); /* so is a file that may not grow */
    signal(SIGHUP, SIG_IGN);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* A client's own soft limits, affinity or niceness are no reason for the broker to see a smaller machine. */
static void clean_limits(void)
{
    static const __rlimit_resource_t limits[] = {RLIMIT_NOFILE, RLIMIT_FSIZE, RLIMIT_CPU, RLIMIT_AS,
                                                 RLIMIT_DATA};
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        struct rlimit r;
        if (getrlimit(limits[i], &r) == 0 && r.rlim_cur != r.rlim_max) {
            r.rlim_cur = r.rlim_max;
            setrlimit(limits[i], &r);
        }
    }
    /* Two descriptors a waiter: whoever may have more of them takes more. */
    struct rlimit many = {.rlim_cur = NOFILE_WISH, .rlim_max = NOFILE_WISH};
    struct rlimit now;
    if (getrlimit(RLIMIT_NOFILE, &now) == 0 && now.rlim_max < NOFILE_WISH)
        setrlimit(RLIMIT_NOFILE, &many);
    cpu_set_t all;
    memset(&all, 0xff, sizeof(all));
    sched_setaffinity(0, sizeof(all), &all); /* the kernel cuts it to what the cpuset allows */
}

/* A process that leads a group cannot open a session: its child can. */
static void own_session(void)
{
    if (getsid(0) == getpid() || setsid() >= 0)
        return;
    pid_t child = fork();
    if (child > 0)
        _exit(0);
    if (child == 0)
        setsid();
}

static void clean_up_after_parent(const struct arguments *a)
{
    clean_descriptors(a->broker.ready_fd, a->foreground);
    clean_signals();
    clean_limits();
    if (!a->foreground)
        own_session();
    clearenv();
    umask(0077);
    if (chdir("/") != 0)
        tg_log("/: %s", strerror(errno));
}

int main(int argc, char **argv)
{
    struct arguments a;
    int rc = parse(argc, argv, &a);
    if (rc) {
        if (a.broker.ready_fd > 2)
            dprintf(a.broker.ready_fd, "error %s\n", refusal);
        return rc;
    }
    clean_up_after_parent(&a);
    if (!a.foreground) {
        char path[TG_PATH_BYTES];
        char why[512];
        snprintf(path, sizeof(path), "%s/broker.log", a.broker.state_dir);
        if (tg_private_dir(a.broker.state_dir, why, sizeof(why)) == 0)
            tg_log_open(path);
    }
    int err = tg_broker_run(&a.broker);
    return err == 0 ? 0 : err == -EALREADY ? EXIT_LOCKED : 1;
}
