/* SPDX-License-Identifier: Apache-2.0
 * tidegate engine serve as a process: it serves until it is told to stop, says what it did, and refuses wrong
 * arguments by name. */
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tidegate/attach.h>

#include "check.h"
#include "cli/cli.h"

#define LIMIT UINT64_C(20000000000)

static char folder[] = "/tmp/tg-cli-serve-XXXXXX";
static char path[64];

/* Runs the verb in a process; both its outputs go to the pipe. */
static pid_t start(const char *const *argv, int *ret_out)
{
    int ends[2], argc = 0;
    while (argv[argc])
        argc++;
    CHECK(pipe(ends) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(ends[1], 1);
        dup2(ends[1], 2);
        close(ends[0]);
        close(ends[1]);
        int code = tg_verb_engine_serve(argc, (char **)(uintptr_t)argv);
        fflush(NULL);
        _exit(code);
    }
    close(ends[1]);
    *ret_out = ends[0];
    return pid;
}

/* What came until a newline (or the end). */
static void line_of(int fd, char *line, size_t size)
{
    size_t n = 0;
    while (n + 1 < size && read(fd, line + n, 1) == 1 && line[n] != '\n')
        n++;
    line[n] = '\0';
}

static int exit_of(pid_t pid)
{
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void e8_serves_until_told_to_stop(void)
{
    const char *const argv[] = {"serve", "--socket", path,      "--slots",   "320", "--workers",
                                "1",     "--tenant", "any=6:5", "--clients", "4",   "--client-slots",
                                "32",    "--mode",   "600",     NULL};
    char line[256], expected[256];
    struct tg_attached *a;
    struct stat st;
    uint64_t item[7];
    int out;
    pid_t pid = start(argv, &out);
    line_of(out, line, sizeof(line));
    snprintf(expected, sizeof(expected), "serving %s: 320 slots, 1 workers, up to 4 clients", path);
    CHECK(strcmp(line, expected) == 0);
    CHECK(lstat(path, &st) == 0 && (st.st_mode & 0777) == 0600);
    CHECK_EQ(tg_engine_attach(path, NULL, &a), 0);
    CHECK_EQ(tg_attached_tenant(a), 6);
    CHECK_EQ(tg_attached_slots(a), 32);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(tg_attached_submit(a, 2, i == 4 ? 99 : TG_OP_NOP, NULL, 0, &item[i]), 0);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(tg_attached_wait(a, item[i], LIMIT, NULL), i == 4 ? -EIO : 0);
    CHECK_EQ(tg_attached_submit(a, 2, TG_OP_NOP, NULL, 0, &item[5]), 0); /* above its quota */
    CHECK_EQ(tg_attached_wait(a, item[5], 20000000, NULL), -ETIMEDOUT);
    CHECK(kill(pid, SIGTERM) == 0);
    CHECK_EQ(tg_attached_wait(a, item[5], LIMIT, NULL), -ECANCELED);
    line_of(out, line, sizeof(line));
    CHECK(strcmp(line, "served 1 clients (0 refused, 0 dropped): 4 done, 1 faulted, 1 cancelled") == 0);
    CHECK_EQ(exit_of(pid), 0);
    CHECK(lstat(path, &st) != 0);
    tg_attached_detach(a);
    close(out);
}

static void refused(const char *const *argv, int code, const char *says)
{
    char line[512];
    int out;
    pid_t pid = start(argv, &out);
    line_of(out, line, sizeof(line));
    CHECK_EQ(exit_of(pid), code);
    if (!strstr(line, says))
        fprintf(stderr, "it said: %s\n", line);
    CHECK(strstr(line, says));
    close(out);
}

static void n1_wrong_arguments_are_refused_by_name(void)
{
    static const char *const tenants[] = {
        "", "5", "x=1", "5=29", "5=1:", "5=1:x", "=1", "5=", "4294967296=1"};
    refused((const char *const[]){"serve", NULL}, TG_EXIT_USAGE, "needs --socket");
    refused((const char *const[]){"serve", "--socket", path, "x", NULL}, TG_EXIT_USAGE, "'x'");
    refused((const char *const[]){"serve", "--socket", path, "--slots", "4", NULL}, TG_EXIT_USAGE, "--slots");
    refused((const char *const[]){"serve", "--socket", path, "--client-slots", "48", NULL}, TG_EXIT_USAGE,
            "power of two");
    refused((const char *const[]){"serve", "--socket", path, "--mode", "1777", NULL}, TG_EXIT_USAGE, "octal");
    for (size_t i = 0; i < sizeof(tenants) / sizeof(tenants[0]); i++)
        refused((const char *const[]){"serve", "--socket", path, "--tenant", tenants[i], NULL}, TG_EXIT_USAGE,
                "--tenant is");
    refused((const char *const[]){"serve", "--socket", path, "--tenant", "1=2:5", "--tenant", "2=2:6", NULL},
            TG_EXIT_FAILED, "different quotas");
    refused((const char *const[]){"serve", "--socket", "/no/such/folder/x", NULL}, TG_EXIT_FAILED,
            "No such file");
}

int main(void)
{
    CHECK(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/engine", folder);
    RUN(e8_serves_until_told_to_stop);
    RUN(n1_wrong_arguments_are_refused_by_name);
    CHECK(rmdir(folder) == 0);
    return 0;
}
