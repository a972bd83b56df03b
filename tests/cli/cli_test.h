/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of the command in C: a private place for socket and store, running the command with its output
 * caught, bounded in time. Each test program has its own broker and stops it at its end.
 */
#ifndef TG_TESTS_CLI_TEST_H
#define TG_TESTS_CLI_TEST_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "check.h"

struct cli_run {
    int status; /* as of waitpid */
    size_t out_len, err_len;
    char out[65536];
    char err[65536];
};

static char cli_dir[64];
static char cli_command[4096];

/* Makes the private place and points the environment there; 77 when the command is not built. */
static inline void cli_make_place(void)
{
    const char *build = getenv("TG_BUILD_DIR");
    CHECK(build != NULL);
    snprintf(cli_command, sizeof(cli_command), "%s/tidegate-broker", build);
    if (access(cli_command, X_OK) != 0)
        SKIP("%s is not built", cli_command);
    snprintf(cli_command, sizeof(cli_command), "%s/tidegate", build);
    CHECK_EQ(access(cli_command, X_OK), 0);
    snprintf(cli_dir, sizeof(cli_dir), "/tmp/tg-cli-XXXXXX");
    CHECK(mkdtemp(cli_dir) != NULL);
    CHECK_EQ(setenv("HOME", cli_dir, 1), 0);
    CHECK_EQ(setenv("XDG_RUNTIME_DIR", cli_dir, 1), 0);
    CHECK_EQ(setenv("XDG_STATE_HOME", cli_dir, 1), 0);
    unsetenv("TIDEGATE_TICKET");
}

/* For one command, on a machine that others keep busy too. */
#define CLI_PATIENCE_MS 60000

/* Starts a program with standard output and error into two pipes. */
static inline pid_t cli_spawn(const char *const argv[], int out[2], int err[2])
{
    CHECK_EQ(pipe2(out, O_CLOEXEC), 0);
    CHECK_EQ(pipe2(err, O_CLOEXEC), 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        dup2(out[1], STDOUT_FILENO);
        dup2(err[1], STDERR_FILENO);
        execv(argv[0], (char *const *)argv);
        _exit(99);
    }
    close(out[1]);
    close(err[1]);
    return pid;
}

static inline bool cli_drain(int fd, char *to, size_t size, size_t *used)
{
    char spare[4096];
    bool full = *used >= size - 1;
    ssize_t n = read(fd, full ? spare : to + *used, full ? sizeof(spare) : size - 1 - *used);
    if (n > 0 && !full)
        *used += (size_t)n;
    return n > 0;
}

/* Runs argv to its end, at most limit_ms; a longer run is a failure of the test. */
static inline void cli_run(struct cli_run *r, int limit_ms, const char *const argv[])
{
    int out[2], err[2];
    r->out_len = r->err_len = 0;
    pid_t pid = cli_spawn(argv, out, err);
    uint64_t end = tg_clock_mono_ns() + (uint64_t)limit_ms * 1000000;
    struct pollfd p[2] = {{.fd = out[0], .events = POLLIN}, {.fd = err[0], .events = POLLIN}};
    while (p[0].fd >= 0 || p[1].fd >= 0) {
        uint64_t now = tg_clock_mono_ns();
        CHECK(now < end);
        if (poll(p, 2, (int)((end - now) / 1000000) + 1) <= 0)
            continue;
        if (p[0].revents && !cli_drain(p[0].fd, r->out, sizeof(r->out), &r->out_len))
            p[0].fd = -1;
        if (p[1].revents && !cli_drain(p[1].fd, r->err, sizeof(r->err), &r->err_len))
            p[1].fd = -1;
    }
    r->out[r->out_len] = r->err[r->err_len] = '\0';
    close(out[0]);
    close(err[0]);
    CHECK_EQ(waitpid(pid, &r->status, 0), pid);
}

/* The command with some words, NULL at the end. */
#define CLI(r, limit_ms, ...)                                                                                \
    do {                                                                                                     \
        const char *cli_argv[] = {cli_command, __VA_ARGS__, NULL};                                           \
        cli_run(r, limit_ms, cli_argv);                                                                      \
    } while (0)

#define CHECK_EXIT(r, code)                                                                                  \
    do {                                                                                                     \
        if (!WIFEXITED((r)->status) || WEXITSTATUS((r)->status) != (code))                                   \
            fprintf(stderr, "stdout: %s\nstderr: %s\n", (r)->out, (r)->err);                                 \
        CHECK(WIFEXITED((r)->status));                                                                       \
        CHECK_EQ(WEXITSTATUS((r)->status), code);                                                            \
    } while (0)

/* Stops the test's broker and removes its place; at exit, also after a failed check. */
static pid_t cli_main_pid;
static inline void cli_teardown(void)
{
    static struct cli_run r;
    if (getpid() != cli_main_pid)
        return;
    cli_main_pid = 0;
    CLI(&r, CLI_PATIENCE_MS, "stop", "--force");
    const char *const rm[] = {"/bin/rm", "-rf", cli_dir, NULL};
    cli_run(&r, CLI_PATIENCE_MS, rm);
}

static inline void cli_setup(void)
{
    cli_make_place();
    cli_main_pid = getpid();
    CHECK_EQ(atexit(cli_teardown), 0);
}

/* Waits until a condition holds, looking every 2 ms; false after limit_ms. */
#define CLI_UNTIL(cond, limit_ms)                                                                            \
    ({                                                                                                       \
        uint64_t cli_end = tg_clock_mono_ns() + (uint64_t)(limit_ms)*1000000;                                \
        bool cli_ok;                                                                                         \
        while (!(cli_ok = (cond)) && tg_clock_mono_ns() < cli_end)                                           \
            poll(NULL, 0, 2);                                                                                \
        cli_ok;                                                                                              \
    })

#endif
