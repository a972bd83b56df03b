/* SPDX-License-Identifier: Apache-2.0
 *
 * A directory that stands in for "/" in the tests: files are put in it by their absolute path. */
#ifndef TG_TESTS_FIXTURE_H
#define TG_TESTS_FIXTURE_H

#include <ftw.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "check.h"
#include "machine/root.h"

struct fixture {
    char dir[256];
    struct tg_root root;
};

static inline void fixture_open(struct fixture *f)
{
    const char *tmp = getenv("TMPDIR");
    int n = snprintf(f->dir, sizeof f->dir, "%s/tidegate-test-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    CHECK(n > 0 && (size_t)n < sizeof f->dir);
    CHECK(mkdtemp(f->dir) != NULL);
    f->root.prefix = f->dir;
}

static inline int fixture_unlink(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static inline void fixture_close(struct fixture *f)
{
    CHECK(nftw(f->dir, fixture_unlink, 16, FTW_DEPTH | FTW_PHYS) == 0);
}

/* Empties the fixture. */
static inline void fixture_clear(struct fixture *f)
{
    fixture_close(f);
    CHECK(mkdir(f->dir, 0700) == 0);
}

/* Where path lies in the fixture; the directories above it are made. */
static inline const char *fixture_path(const struct fixture *f, const char *path, char full[1024])
{
    int n = snprintf(full, 1024, "%s%s", f->dir, path);
    CHECK(n > 0 && n < 1024);
    for (char *p = full + strlen(f->dir) + 1; (p = strchr(p, '/')) != NULL; p++) {
        *p = '\0';
        (void)mkdir(full, 0700);
        *p = '/';
    }
    return full;
}

static inline void fixture_put_bytes(const struct fixture *f, const char *path, const void *bytes, size_t n)
{
    char full[1024];
    FILE *file = fopen(fixture_path(f, path, full), "we");
    CHECK(file != NULL);
    CHECK(fwrite(bytes, 1, n, file) == n);
    CHECK(fclose(file) == 0);
}

static inline void fixture_put(const struct fixture *f, const char *path, const char *text)
{
    fixture_put_bytes(f, path, text, strlen(text));
}

static inline void fixture_drop(const struct fixture *f, const char *path)
{
    char full[1024];
    CHECK(unlink(fixture_path(f, path, full)) == 0);
}

#define FIXTURE_BOOT "01234567-89ab-cdef-0123-456789abcdef"

static inline void fixture_put_boot(const struct fixture *f)
{
    fixture_put(f, "/proc/sys/kernel/random/boot_id", FIXTURE_BOOT "\n");
}

/* /proc/PID/stat as the kernel writes it. */
static inline void fixture_put_stat(const struct fixture *f, int pid, const char *comm, char state,
                                    int parent, int group, int threads, uint64_t start)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int n = snprintf(text, sizeof text,
                     "%d (%s) %c %d %d %d 0 -1 4194560 1 2 3 4 5 6 7 8 20 -5 %d 0 %" PRIu64
                     " 48349184 4159 18446744073709551615 1 1 0 0 0 0 0 4096 1256 0 0 0 17 1 0 0 0 0 0\n",
                     pid, comm, state, parent, group, group, threads, start);
    CHECK(n > 0 && (size_t)n < sizeof text);
    fixture_put(f, path, text);
}

/* /proc/PID/status; rss < 0: no such lines, as in a kernel thread. */
static inline void fixture_put_status(const struct fixture *f, int pid, int parent, long anon_kb,
                                      long shmem_kb)
{
    char path[64], text[1024], rss[256] = "";
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    if (anon_kb >= 0)
        snprintf(
            rss, sizeof rss,
            "VmSwap:\t  777777 kB\nVmRSS:\t  888888 kB\nRssAnon:\t%8ld kB\nRssFile:\t  999999 kB\nRssShmem:"
            "\t%8ld kB\n",
            anon_kb, shmem_kb);
    snprintf(text, sizeof text,
             "Name:\tx\nState:\tS (sleeping)\nPid:\t%d\nPPid:\t%d\nUid:\t1000\t0\t0\t0\n%s", pid, parent,
             rss);
    fixture_put(f, path, text);
}

#endif
