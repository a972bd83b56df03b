/* SPDX-License-Identifier: Apache-2.0
 *
 * A build under the gates: small C files, one compiler each, by make with as many jobs as there are cores,
 * and by make with more that lets tidegate say which may run. They take turns; the figure is the median of
 * each. The load gate sees what others on the machine do, too: its case runs when it is asked for, on a
 * machine that is otherwise idle; on a busy one it would wait for the others, as it should. bench_build
 * [FILES [ROUNDS [gates]]]
 */
#include <errno.h>
#include <spawn.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/parse.h"
#include "bench.h"
#include "guard.h"

extern char **environ;

enum { MAX_ROUNDS = 50 };

static char tidegate[4096], place[64], jobs[32], all[32];

static void die(const char *what)
{
    fprintf(stderr, "bench_build: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void run(const char *const argv[])
{
    pid_t pid;
    int status;
    int err = posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)argv, environ);
    if (err) {
        errno = err;
        die(argv[0]);
    }
    if (waitpid(pid, &status, 0) != pid || status != 0) {
        errno = ECHILD;
        die(argv[0]);
    }
}

static void set(const char *key, const char *value)
{
    const char *const argv[] = {tidegate, "config", key, value, NULL};
    run(argv);
}

/* Functions enough to keep a compiler busy for some 50 ms. */
static void write_sources(unsigned files)
{
    char path[128];
    for (unsigned i = 0; i < files; i++) {
        snprintf(path, sizeof(path), "%s/f%u.c", place, i);
        FILE *f = fopen(path, "w");
        if (!f)
            die(path);
        fputs("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n", f);
        for (int k = 0; k < 3; k++)
            fprintf(f,
                    "int f%u_%d(int n, const char *s)\n{\n    int sum = 0;\n    for (int i = 0; i < n; i++)\n"
                    "        sum += (int)strlen(s + i %% 3) * (i ^ %d) - (i & 1 ? sum : %d);\n    return "
                    "sum;\n}\n",
                    i, k, k, k + 1);
        fclose(f);
    }
    snprintf(path, sizeof(path), "%s/Makefile", place);
    FILE *f = fopen(path, "w");
    if (!f)
        die(path);
    fputs("OBJECTS =", f);
    for (unsigned i = 0; i < files; i++)
        fprintf(f, " f%u.o", i);
    fputs("\nall: $(OBJECTS)\n%.o: %.c\n\t@$(UNDER) cc -O2 -c -o $@ $<\nclean:\n\t@rm -f *.o\n", f);
    fclose(f);
}

static uint64_t build(const char *how_many, const char *under)
{
    const char *const make[] = {"make", "-s", "-C", place, how_many, under, "all", NULL};
    const char *const clean[] = {"make", "-s", "-C", place, "clean", NULL};
    uint64_t begin = tg_clock_mono_ns();
    run(make);
    uint64_t took = tg_clock_mono_ns() - begin;
    run(clean);
    return took;
}

static void setup(unsigned files)
{
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (n <= 0)
        die("/proc/self/exe");
    self[n] = '\0';
    const char *above = getenv("TG_BUILD_DIR");
    char *slash = strrchr(self, '/');
    if (above)
        snprintf(tidegate, sizeof(tidegate), "%s/tidegate", above);
    else
        snprintf(tidegate, sizeof(tidegate), "%.*s/../tidegate", (int)(slash - self), self);
    snprintf(place, sizeof(place), "/tmp/tg-build-XXXXXX");
    if (!mkdtemp(place) || setenv("XDG_RUNTIME_DIR", place, 1) || setenv("XDG_STATE_HOME", place, 1) ||
        unsetenv("TIDEGATE_TICKET") || unsetenv("MAKEFLAGS"))
        die(place);
    bench_guard_place(place);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    snprintf(jobs, sizeof(jobs), "-j%ld", cores);
    snprintf(all, sizeof(all), "-j%ld", cores * 8);
    write_sources(files);
}

static void teardown(void)
{
    const char *const stop[] = {tidegate, "stop", "--force", NULL};
    const char *const rm[] = {"rm", "-rf", place, NULL};
    run(stop);
    run(rm);
}

int main(int argc, char **argv)
{
    uint64_t files = 100, rounds = 5;
    static uint64_t took[4][MAX_ROUNDS];
    if ((argc > 1 && tg_parse_u64(argv[1], 1, 10000, &files)) ||
        (argc > 2 && tg_parse_u64(argv[2], 1, MAX_ROUNDS, &rounds))) {
        fprintf(stderr, "usage: bench_build [FILES 1..10000 [ROUNDS 1..%d [gates]]]\n", MAX_ROUNDS);
        return 2;
    }
    bench_guard();
    setup((unsigned)files);
    /* By the environment, for make and sh would both read a path: one with a blank is not this one's. */
    setenv("BENCH_TIDEGATE", tidegate, 1);
    const char *under = "UNDER=\"$$BENCH_TIDEGATE\" run -q -m 100 --";
    bool gates = argc > 3 && strcmp(argv[3], "gates") == 0;
    for (size_t i = 0; i < rounds; i++) {
        took[0][i] = build(jobs, "UNDER=");
        set("load", "off");
        took[1][i] = build(jobs, under);
        took[2][i] = build(all, under);
        set("load", "auto");
        took[3][i] = gates ? build(all, under) : 0;
    }
    static const char *const names[] = {"make -jCORES", "make -jCORES, tidegate run for each, no load gate",
                                        "make -j8xCORES, tidegate run for each, no load gate",
                                        "make -j8xCORES, tidegate run for each, all gates"};
    double floor = 0;
    for (int i = 0; i < 3 + gates; i++) {
        bench_sort(took[i], rounds);
        double ms = (double)bench_quantile(took[i], rounds, 0.5) / 1e6;
        bench_print("build", names[i], ms, "ms", floor);
        if (i == 0)
            floor = ms;
    }
    teardown();
    return 0;
}
