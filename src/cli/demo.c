/* SPDX-License-Identifier: Apache-2.0
 *
 * `tidegate demo [DIR]`: real files through both planes, the second on a GPU too where there is one, and
 * checks of what the rules promise. It uses a private broker and store in a directory of its own, so that it
 * neither disturbs nor needs one that runs. Exit 0: every check held; 1: one did not, or a plane could not
 * run; 2: bad usage.
 */
#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/parse.h"
#include "cli/cli.h"
#include "cli/demo_launch.h"
#include "cli/gpu.h"
#include "client/tool.h"

#define DEFAULT_DIR "/usr/share"

enum { FILES_MAX = 16000, BYTES_MAX = 64 << 20 };

static volatile sig_atomic_t interrupted;

static void on_signal(int sig)
{
    interrupted = sig;
}

bool tg_demo_interrupted(void)
{
    return interrupted != 0;
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)st;
    (void)kind;
    (void)where;
    return remove(path) != 0 && errno != ENOENT ? -1 : 0;
}

static int make_private_place(struct tg_demo *demo)
{
    char run[160], state[160];
    const char *tmp = getenv("TMPDIR");
    /* A socket's path is short: a long TMPDIR will not do. */
    snprintf(demo->dir, sizeof(demo->dir), "%s/tidegate-demo-XXXXXX", tmp && strlen(tmp) < 40 ? tmp : "/tmp");
    if (!mkdtemp(demo->dir))
        return -errno;
    snprintf(run, sizeof(run), "%s/run", demo->dir);
    snprintf(state, sizeof(state), "%s/state", demo->dir);
    if (mkdir(run, 0700) < 0 || mkdir(state, 0700) < 0 || setenv("XDG_RUNTIME_DIR", run, 1) < 0 ||
        setenv("XDG_STATE_HOME", state, 1) < 0 || setenv("LC_ALL", "C", 1) < 0)
        return -errno;
    unsetenv("TIDEGATE_TICKET"); /* the demo's jobs queue, also when the demo itself runs under a ticket */
    return 0;
}

static void leave_private_place(struct tg_demo *demo)
{
    static char stop[] = "stop", force[] = "--force";
    char *argv[] = {(char *)demo->exe, stop, force, NULL};
    tg_tool_run(argv, 5000, NULL);
    nftw(demo->dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static int run_planes(struct tg_demo *demo)
{
    int err = tg_demo_launch(demo);
    if (err) {
        fprintf(stderr, "tidegate demo: launch plane: %s\n", strerror(-err));
        return err;
    }
    if (tg_demo_interrupted())
        return -EINTR;
    err = tg_demo_items(demo);
    if (err)
        fprintf(stderr, "tidegate demo: work-item plane: %s\n", strerror(-err));
    if (err || tg_demo_interrupted())
        return err ? err : -EINTR;
    err = tg_demo_gpu(demo);
    if (err)
        fprintf(stderr, "tidegate demo: work-item plane on the GPU: %s\n", strerror(-err));
    return err;
}

static int run_demo(const char *dir)
{
    static char exe[4096];
    struct tg_demo demo = {.exe = exe, .tty = isatty(1)};
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
    if (n <= 0) {
        fprintf(stderr, "tidegate demo: cannot find my own program: %s\n", strerror(errno));
        return 1;
    }
    int err = tg_demo_files_read(dir, FILES_MAX, BYTES_MAX, &demo.files);
    if (err) {
        fprintf(stderr, "tidegate demo: '%s': %s\n", dir,
                err == -ENODATA ? "no readable file with content there" : strerror(-err));
        return err == -ENOMEM ? 1 : 2;
    }
    struct sigaction sa = {.sa_handler = on_signal};
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGTERM, &sa, NULL);
    sigaction(SIGHUP, &sa, NULL);
    uint64_t began = tg_clock_mono_ns();
    printf("tidegate demo: %zu files, %.1f MB, from %s\n\n", demo.files.count,
           (double)demo.files.total_bytes / 1e6, dir);
    err = make_private_place(&demo);
    if (err)
        fprintf(stderr, "tidegate demo: no private directory: %s\n", strerror(-err));
    else
        err = run_planes(&demo);
    leave_private_place(&demo);
    tg_demo_files_done(&demo.files);
    if (err)
        return 1;
    double took = (double)(tg_clock_mono_ns() - began) / 1e9;
    if (demo.failed)
        printf("\n%u checks FAILED, %.1f s\n", demo.failed, took);
    else
        printf("\nevery check held, %.1f s\n", took);
    return demo.failed ? 1 : 0;
}

int tg_verb_demo(int argc, char **argv)
{
    uint64_t job;
    if (argc >= 4 && strncmp(argv[1], "--record=", 9) == 0 && tg_parse_u64(argv[1] + 9, 0, 999, &job) == 0)
        return tg_demo_record((unsigned)job, argv[2], argv + 3);
    if (argc > 2 || (argc == 2 && argv[1][0] == '-' && argv[1][1] != '\0'))
        return tg_usage_error("demo", "takes one folder, DIR, but got %s", tg_shown(argv[argc - 1]));
    if (tg_gpu_seems_here())
        tg_gpu_become(); /* or goes on without the GPU */
    return run_demo(argc == 2 ? argv[1] : DEFAULT_DIR);
}
