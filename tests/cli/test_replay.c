/* SPDX-License-Identifier: Apache-2.0
 * The verb replay, called as the command calls it: arguments, exit codes, output. */
#include "cli/cli.h"

#include <unistd.h>

#include "check.h"

static char output[4096];

/* Runs the verb with standard output (or error) caught in output; returns the exit code. */
static int verb(int fd, const char *const *words)
{
    char *argv[12];
    int argc = 0;
    for (; words[argc]; argc++) {
        CHECK(argc < 11);
        argv[argc] = strdup(words[argc]);
        CHECK(argv[argc]);
    }
    argv[argc] = NULL;
    FILE *caught = tmpfile();
    CHECK(caught);
    fflush(stdout);
    int kept = dup(fd);
    CHECK(kept >= 0 && dup2(fileno(caught), fd) == fd);
    int rc = tg_verb_replay(argc, argv);
    fflush(stdout);
    CHECK(dup2(kept, fd) == fd);
    close(kept);
    rewind(caught);
    output[fread(output, 1, sizeof(output) - 1, caught)] = '\0';
    fclose(caught);
    for (int k = 0; k < argc; k++)
        free(argv[k]);
    return rc;
}

#define OUT(...) verb(STDOUT_FILENO, (const char *const[]){"replay", __VA_ARGS__, NULL})
#define ERR(...) verb(STDERR_FILENO, (const char *const[]){"replay", __VA_ARGS__, NULL})

static char trace[] = "/tmp/tg-replay-XXXXXX";

static void write_trace(const char *text)
{
    FILE *f = fopen(trace, "w");
    CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static void prints_figures(void)
{
    write_trace("1 0 -1 10 2 -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1\n"
                "2 0 -1 10 9 -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1\n"
                "3 5 -1 20 4 -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1\n");
    CHECK_EQ(OUT(trace, "--procs", "4", "--policy", "easy", "--json"), 0);
    CHECK(strcmp(output,
                 "{\"policy\": \"easy\", \"procs\": 4, \"jobs\": 2, \"skipped\": 1, \"makespan_s\": 30, "
                 "\"avg_wait_s\": 2.5000, \"max_wait_s\": 5, \"avg_bsld\": 1.1250, "
                 "\"utilisation\": 0.83333}\n") == 0);
    CHECK_EQ(OUT("--policy=fifo", "--procs=4", "--", trace), 0);
    CHECK(strstr(output, "policy       fifo\n") && strstr(output, "max_wait_s   5\n"));
    CHECK_EQ(OUT(trace, "--procs", "4"), 0);
    CHECK(strstr(output, "policy       tidegate\n"));
    CHECK_EQ(OUT("--help"), 0);
    CHECK(strstr(output, "usage: tidegate replay"));
}

static void n_wrong_arguments_are_named(void)
{
    CHECK_EQ(ERR(trace), 2);
    CHECK(strstr(output, "--procs N is needed"));
    CHECK_EQ(ERR("--procs", "4"), 2);
    CHECK(strstr(output, "which trace"));
    CHECK_EQ(ERR(trace, "--procs"), 2);
    CHECK(strstr(output, "needs a number"));
    static const char *const bad[] = {"0", "-1", "4x", "", " 4", "1e3", "2147483648"};
    for (size_t k = 0; k < sizeof(bad) / sizeof(bad[0]); k++) {
        CHECK_EQ(ERR(trace, "--procs", bad[k]), 2);
        CHECK(strstr(output, "--procs must be"));
    }
    CHECK_EQ(ERR(trace, "--procs", "4", "--policy", "best"), 2);
    CHECK(strstr(output, "\"best\""));
    CHECK_EQ(ERR(trace, "--procs", "4", "--policy"), 2);
    CHECK_EQ(ERR(trace, "--procs", "4", "--jsonx"), 2);
    CHECK(strstr(output, "unknown option \"--jsonx\""));
    CHECK_EQ(ERR(trace, "--procs", "4", "other"), 2);
    CHECK(strstr(output, "one too many"));
}

static void a_bad_trace_is_named_with_its_line(void)
{
    write_trace("; fine\n1 2 3\n");
    CHECK_EQ(ERR(trace, "--procs", "4"), 125);
    CHECK(strstr(output, trace) && strstr(output, "line 2: fewer than 18 fields"));
    CHECK_EQ(ERR("/nonexistent", "--procs", "4"), 125);
    CHECK(strstr(output, "/nonexistent") && strstr(output, "No such file"));
}

int main(void)
{
    int fd = mkstemp(trace);
    CHECK(fd >= 0);
    close(fd);
    RUN(prints_figures);
    RUN(n_wrong_arguments_are_named);
    RUN(a_bad_trace_is_named_with_its_line);
    unlink(trace);
    return 0;
}
