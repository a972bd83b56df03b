/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of the broker on a machine of their own: a directory in place of "/", with real processes shown
 * in it, and owners that take memory when they are told to. */
#ifndef TG_TESTS_BROKER_MACHINE_H
#define TG_TESTS_BROKER_MACHINE_H

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness.h"

/* A directory in place of "/": /proc of the real machine but for the files that are to be missing or wrong.
 */
static inline void make_machine(const struct place *p, char *ret, size_t size)
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

static inline void show_process(const char *machine, pid_t pid)
{
    char from[64], to[300];
    snprintf(from, sizeof(from), "/proc/%d", (int)pid);
    snprintf(to, sizeof(to), "%s/proc/%d", machine, (int)pid);
    CHECK(symlink(from, to) == 0);
}

/* The same process as if it had been started so many clock ticks later: shown anew each time. */
static inline void show_process_started_later(const char *machine, pid_t pid, unsigned long long ticks)
{
    static const char *const same[] = {"status", "statm", "smaps_rollup", "environ", "cmdline", "comm"};
    char dir[300], path[400], text[2048];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "r");
    CHECK(f);
    size_t n = fread(text, 1, sizeof(text) - 1, f);
    fclose(f);
    text[n] = '\0';
    char *start = strrchr(text, ')'); /* field 2; the start is field 22 */
    for (int field = 2; field < 22; field++) {
        CHECK(start);
        start = strchr(start + 1, ' ');
    }
    char *rest;
    CHECK(start);
    unsigned long long real = strtoull(start + 1, &rest, 10);
    snprintf(dir, sizeof(dir), "%s/proc/%d", machine, (int)pid);
    if (mkdir(dir, 0700) == 0) {
        for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
            char to[420];
            snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, same[i]);
            snprintf(to, sizeof(to), "%s/%s", dir, same[i]);
            CHECK(symlink(path, to) == 0);
        }
    }
    snprintf(path, sizeof(path), "%s/stat.new", dir);
    f = fopen(path, "w");
    CHECK(f && fprintf(f, "%.*s %llu%s", (int)(start - text), text, real + ticks, rest) > 0 &&
          fclose(f) == 0);
    char to[420];
    snprintf(to, sizeof(to), "%s/stat", dir);
    CHECK(rename(path, to) == 0);
}

static inline void put_file(const char *dir, const char *name, const char *text)
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

/* An owner that takes megabytes when it is told to by SIGUSR1. */
static size_t grow_bytes;

static inline void on_grow(int sig)
{
    (void)sig;
    void *p =
        mmap(NULL, grow_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (p == MAP_FAILED)
        _exit(1);
}

static inline pid_t growing_owner(size_t mb)
{
    grow_bytes = mb << 20;
    signal(SIGUSR1, on_grow);
    pid_t pid = owner_make();
    signal(SIGUSR1, SIG_DFL);
    return pid;
}

static inline void say_memory(const char *machine, int available_mb)
{
    char text[200];
    snprintf(text, sizeof(text), "MemTotal: 2048000 kB\nMemFree: %d kB\nMemAvailable: %d kB\n",
             available_mb * 1024, available_mb * 1024);
    put_file(machine, "proc/meminfo", text);
}

#endif
