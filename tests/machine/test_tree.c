/* SPDX-License-Identifier: Apache-2.0
 * The processes of a ticket (A4; L14, L16, L17, L19, L20): by mark and by descent, on fixtures and on real
 * trees. */
#include <errno.h>
#include <limits.h>
#include <poll.h>

#include "base/clock.h"
#include "machine/child.h"
#include "machine/fixture.h"
#include "machine/proc.h"
#include "machine/tree.h"

#define UUID "11111111-2222-3333-4444-555555555555"
#define OTHER_UUID "99999999-2222-3333-4444-555555555555"

static const struct tg_root machine = {.prefix = ""};

static void put_environ(const struct fixture *f, int pid, const char *text)
{
    char path[64], bytes[65536];
    size_t n = strlen(text) + 1;
    CHECK(n <= sizeof(bytes));
    memcpy(bytes, text, n);
    for (size_t i = 0; i + 1 < n; i++) {
        if (bytes[i] == '|')
            bytes[i] = '\0';
    }
    snprintf(path, sizeof(path), "/proc/%d/environ", pid);
    fixture_put_bytes(f, path, bytes, n);
}

/* One process; marked when mark is not NULL. */
static void put(const struct fixture *f, int pid, int parent, uint64_t start, const char *mark)
{
    char text[256];
    fixture_put_stat(f, pid, "x", 'S', parent, parent, 1, start);
    if (mark) {
        snprintf(text, sizeof(text), "A=b|TIDEGATE_TICKET=%s|Z=", mark);
        put_environ(f, pid, text);
    } else {
        put_environ(f, pid, "A=b|NOT_TIDEGATE_TICKET=7:" UUID "|TIDEGATE_TICKETS=7:" UUID);
    }
}

static struct tg_tree_want wanted(uint64_t id, pid_t owner, uint64_t start, pid_t reaper)
{
    return (struct tg_tree_want){
        .id = id, .uid = getuid(), .owner = owner, .owner_start = start, .reaper = reaper};
}

/* The pids of want i, as text. */
static const char *found(const struct tg_tree *t, size_t want)
{
    static char text[4][512];
    static unsigned next;
    char *out = text[next++ % 4];
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < t->used; i++) {
        if (t->at[i].want == want)
            used += (size_t)snprintf(out + used, 512 - used, "%s%d", used ? " " : "", (int)t->at[i].pid);
    }
    return out;
}

static void check_found(const struct tg_tree *t, size_t want, const char *expected, int line)
{
    if (strcmp(found(t, want), expected) == 0)
        return;
    fprintf(stderr, "line %d: ticket %zu has \"%s\", not \"%s\"\n", line, want, found(t, want), expected);
    exit(1);
}
#define FOUND(t, want, expected) check_found(t, want, expected, __LINE__)

static void marks_and_descent_are_followed(void)
{
    struct fixture f;
    struct tg_tree t = {0};
    const struct tg_tree_want want[] = {wanted(7, 100, 50, 99), wanted(8, 200, 60, 0), wanted(9, 300, 70, 0)};
    fixture_open(&f);
    CHECK_EQ(tg_tree_scan(&f.root, UUID, want, 3, 0, &t), -ENOENT);
    fixture_put_boot(&f);
    CHECK_EQ(tg_tree_scan(&f.root, UUID, want, 3, 0, &t), 0);
    CHECK_EQ(t.used, 0);
    put(&f, 99, 1, 40, NULL);               /* the wrapper of 7: not of its tree */
    put(&f, 98, 99, 45, NULL);              /* a child it had before */
    put(&f, 100, 99, 50, NULL);             /* the owner */
    put(&f, 101, 100, 51, "7:" UUID);       /* its child */
    put(&f, 90, 101, 52, NULL);             /* grandchild that cleared its environment; numbers wrapped */
    put(&f, 102, 99, 53, NULL);             /* orphan of the tree, adopted by the wrapper */
    put(&f, 103, 1, 54, "7:" UUID);         /* orphan that init has */
    put(&f, 104, 101, 55, "8:" UUID);       /* launched on its own ticket from inside */
    put(&f, 105, 104, 56, NULL);            /* and its child; but older than the owner of 8 */
    put(&f, 106, 101, 57, "7:" OTHER_UUID); /* some other store's: by descent still 7 */
    put(&f, 107, 101, 57, "0:" UUID);       /* scrubbed: belongs to nobody */
    put(&f, 108, 107, 57, NULL);            /* and its child */
    put(&f, 109, 101, 57, "1234:" UUID);    /* a ticket nobody asks for */
    put(&f, 110, 1, 49, "7:" UUID);         /* older than the owner: a leftover with a forged mark */
    put(&f, 111, 1, 58, "07:" UUID);        /* digits are a number */
    put(&f, 112, 1, 58, "7:" UUID "x");     /* none of these is a mark */
    put(&f, 113, 1, 58, "7: " UUID);        /* */
    put(&f, 114, 1, 58, "-7:" UUID);        /* */
    put(&f, 115, 1, 58, "18446744073709551623:" UUID);
    put(&f, 200, 1, 60, "8:" UUID);
    put(&f, 201, 200, 61, "8:" UUID);
    fixture_put_stat(&f, 202, "z", 'Z', 200, 200, 1, 62); /* has ended */
    fixture_put_stat(&f, 203, "t", 'T', 200, 200, 1, 63);
    put(&f, 300, 1, 71, NULL); /* the owner of 9 has gone, and somebody else has its number */
    put(&f, 301, 300, 72, NULL);
    CHECK_EQ(tg_tree_scan(&f.root, UUID, want, 3, 0, &t), 0);
    FOUND(&t, 0, "90 100 101 102 103 106 111");
    FOUND(&t, 1, "200 201 203");
    FOUND(&t, 2, "");
    for (size_t i = 0; i < t.used; i++)
        CHECK_EQ(t.at[i].stopped, t.at[i].pid == 203);
    /* What is below the exception is nobody's, but a mark of its own counts. */
    CHECK_EQ(tg_tree_scan(&f.root, UUID, want, 1, 101, &t), 0);
    FOUND(&t, 0, "100 102 103 111");
    tg_tree_done(&t);
    fixture_close(&f);
}

static void hostile_files_are_no_members(void)
{
    static char long_value[9000];
    struct fixture f;
    struct tg_tree t = {0};
    const struct tg_tree_want want = wanted(7, 100, 50, 0);
    fixture_open(&f);
    put(&f, 100, 1, 50, NULL);
    memset(long_value, '1', sizeof(long_value) - 1);
    memcpy(long_value, "TIDEGATE_TICKET=", 16);
    fixture_put_stat(&f, 101, "x", 'S', 1, 1, 1, 60);
    put_environ(&f, 101, long_value);
    fixture_put(&f, "/proc/102/stat", "no such line");
    fixture_put_stat(&f, 103, "x", 'S', 1, 1, 1, 60);
    put_environ(&f, 103, "TIDEGATE_TICKET=");
    fixture_put_stat(&f, 104, "x", 'S', 1, 1, 1, 60);
    put_environ(&f, 104, "TIDEGATE_TICKET=8:" UUID "|TIDEGATE_TICKET=7:" UUID); /* getenv finds the first */
    fixture_put_stat(&f, 105, "x", 'S', 106, 1, 1, 60);                         /* a cycle */
    fixture_put_stat(&f, 106, "x", 'S', 105, 1, 1, 60);
    fixture_put_stat(&f, 107, "x", 'S', 107, 1, 1, 60);
    char full[1024];
    CHECK(mkdir(fixture_path(&f, "/proc/108", full), 0700) == 0); /* gone between listing and reading */
    fixture_put(&f, "/proc/0100/stat", "0100 (x) S 1 1 1");
    /* Longer than one piece of the reader, and the name across its edge. */
    char text[40000];
    memset(text, 'x', sizeof(text));
    memcpy(text + 16384 - 5, "|TIDEGATE_TICKET=7:" UUID "|", 57);
    text[sizeof(text) - 1] = '\0';
    text[20000] = '|';
    fixture_put_stat(&f, 109, "x", 'S', 1, 1, 1, 60);
    put_environ(&f, 109, text);
    CHECK_EQ(tg_tree_scan(&f.root, UUID, &want, 1, 0, &t), 0);
    FOUND(&t, 0, "100 109");
    tg_tree_done(&t);
    fixture_close(&f);
}

static void put_children(const struct fixture *f, int pid, const char *text)
{
    char path[80];
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
    fixture_put(f, path, text);
}

/* L14: asked as often as one likes, nothing is reaped; what cannot be told is never "nothing". */
static void whether_anything_is_left_below_the_reaper(void)
{
    struct fixture f;
    struct tg_tree_want w = wanted(7, 100, 50, 0);
    fixture_open(&f);
    CHECK_EQ(tg_tree_any_left(&f.root, &w, 0), -ESRCH); /* no reaper */
    w.reaper = 99;
    CHECK_EQ(tg_tree_any_left(&f.root, &w, 0), -ENOENT);
    put(&f, 99, 1, 40, NULL);
    CHECK_EQ(tg_tree_any_left(&f.root, &w, 0), -ENOENT);
    put_children(&f, 99, "100 ");
    CHECK_EQ(tg_tree_any_left(&f.root, &w, 0), 0);
    put_children(&f, 99, "");
    CHECK_EQ(tg_tree_any_left(&f.root, &w, 0), 0);
    put(&f, 98, 99, 45, NULL);
    put(&f, 101, 99, 51, NULL);
    fixture_put_stat(&f, 102, "x", 'Z', 99, 99, 1, 52);
    put_children(&f, 99, "98 100 102 103 ");
    CHECK_EQ(tg_tree_any_left(&f.root, &w, 0), 0); /* older, the owner, ended, gone */
    put_children(&f, 99, "98 100 101");
    CHECK_EQ(tg_tree_any_left(&f.root, &w, 0), 1);
    CHECK_EQ(tg_tree_any_left(&f.root, &w, 101), 0);
    put_children(&f, 99, "100 nonsense");
    CHECK_EQ(tg_tree_any_left(&f.root, &w, 0), -EBADMSG);
    char many[8192];
    for (size_t i = 0; i + 4 < sizeof(many); i += 4)
        memcpy(many + i, "103 ", 5);
    put_children(&f, 99, many);
    CHECK_EQ(tg_tree_any_left(&f.root, &w, 0), 1);
    put_children(&f, 99, "");
    put(&f, 99, 1, 51, NULL); /* somebody else has the reaper's number */
    CHECK_EQ(tg_tree_any_left(&f.root, &w, 0), -ESRCH);
    fixture_drop(&f, "/proc/99/stat");
    CHECK_EQ(tg_tree_any_left(&f.root, &w, 0), -ESRCH);
    fixture_close(&f);
}

/* ---- real processes */

/* A store that nobody else on this machine has marks of: two of this test may run at once. */
static char store[37];

static void name_the_store(void)
{
    FILE *f = fopen("/proc/sys/kernel/random/uuid", "re");
    CHECK(f && fscanf(f, "%36s", store) == 1);
    fclose(f);
}

static int ready_pipe[2];

static void say_ready(void)
{
    if (write(ready_pipe[1], "r", 1) != 1)
        _exit(99);
}

static void await_ready(int n)
{
    char c;
    for (int i = 0; i < n; i++)
        CHECK(read(ready_pipe[0], &c, 1) == 1);
}

static void be_marked_and_sleep(const char *mark)
{
    char text[128];
    snprintf(text, sizeof(text), "TIDEGATE_TICKET=%s", mark);
    char *argv[] = {(char *)"sh", (char *)"-c", (char *)"echo; exec sleep 300", NULL};
    char *env[] = {(char *)"PATH=/bin:/usr/bin", text, NULL};
    dup2(ready_pipe[1], 1);
    execve("/bin/sh", argv, env);
    _exit(98);
}

static void end_all(const struct tg_tree *t)
{
    for (size_t i = 0; i < t->used; i++) {
        struct tg_owner o;
        if (tg_owner_of(&machine, t->at[i].pid, &o) == 0 && o.start_ticks == t->at[i].start_ticks)
            tg_owner_signal(&machine, &o, SIGKILL, false);
    }
}

/* One that is just executing its sleep has no mark for a moment; a pass that found others stands. */
static void scan_until(const struct tg_tree_want *w, size_t used, struct tg_tree *t)
{
    CHECK_EQ(tg_tree_scan(&machine, store, w, 1, 0, t), 0);
    for (int i = 0; t->used != used && i < 60000; i++) {
        poll(NULL, 0, 1);
        CHECK_EQ(tg_tree_scan(&machine, store, w, 1, 0, t), 0);
    }
    CHECK_EQ(t->used, used);
}

/* L19, L20: a daemon that forked twice and opened a session is found by its mark, in its session; a child
 * with an empty environment by descent. */
static void l19_l20_a_real_tree_is_found_whole(void)
{
    struct tg_owner o;
    struct tg_kin kin;
    struct tg_tree t = {0};
    char mark[64];
    snprintf(mark, sizeof(mark), "7:%s", store);
    CHECK(pipe2(ready_pipe, O_CLOEXEC) == 0);
    pid_t owner = fork();
    if (owner == 0) {
        pid_t daemon = fork();
        if (daemon == 0) {
            setsid();
            if (fork() == 0)
                be_marked_and_sleep(mark);
            _exit(0);
        }
        waitpid(daemon, NULL, 0);
        if (fork() == 0) { /* not executed: the environment is this test's */
            say_ready();
            sleep(300); /* an end of its own, should the test fail */
            _exit(0);
        }
        be_marked_and_sleep(mark);
    }
    await_ready(3);
    CHECK_EQ(tg_owner_and_kin(&machine, owner, &o, &kin), 0);
    CHECK_EQ(kin.parent, getpid());
    CHECK_EQ(kin.session, getsid(0));
    struct tg_tree_want w = wanted(7, owner, o.start_ticks, 0);
    uint64_t begin = tg_clock_mono_ns();
    CHECK_EQ(tg_tree_scan(&machine, store, &w, 1, 0, &t), 0);
    fprintf(stderr, "  one scan: %" PRIu64 " us\n", (tg_clock_mono_ns() - begin) / 1000);
    scan_until(&w, 3, &t);
    size_t gone = 0;
    for (size_t i = 0; i < t.used; i++)
        gone += t.at[i].session != kin.session;
    CHECK_EQ(gone, 1);
    /* The owner dies: by their marks and what descends, the daemon is found; the child without a mark is not,
     * since nobody adopted it. */
    CHECK(kill(owner, SIGSTOP) == 0);
    CHECK_EQ(waitpid(owner, NULL, WUNTRACED), owner);
    scan_until(&w, 3, &t);
    for (size_t i = 0; i < t.used; i++)
        CHECK_EQ(t.at[i].stopped, t.at[i].pid == owner);
    end_all(&t);
    reap(owner);
    scan_until(&w, 0, &t);
    tg_tree_done(&t);
    close(ready_pipe[0]);
    close(ready_pipe[1]);
}

/* What the quick look says is true while children come and go. */
static void a_real_reaper_is_asked(void)
{
    struct tg_owner o;
    CHECK(pipe2(ready_pipe, O_CLOEXEC) == 0);
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    for (int round = 0; round < 100; round++) {
        pid_t owner = fork();
        if (owner == 0) {
            if (round % 2 && fork() == 0) { /* outlives it */
                say_ready();
                sleep(300);
                _exit(0);
            }
            say_ready();
            pause();
            _exit(0);
        }
        await_ready(1 + round % 2);
        CHECK_EQ(tg_owner_of(&machine, owner, &o), 0);
        struct tg_tree_want w = wanted(7, owner, o.start_ticks, getpid());
        CHECK(kill(owner, SIGKILL) == 0);
        siginfo_t info;
        CHECK(waitid(P_PID, (id_t)owner, &info, WEXITED | WNOWAIT) == 0);
        CHECK_EQ(tg_tree_any_left(&machine, &w, 0), round % 2); /* not reaped yet */
        reap(owner);
        CHECK_EQ(tg_tree_any_left(&machine, &w, 0), round % 2);
        if (round % 2) {
            struct tg_tree t = {0};
            CHECK_EQ(tg_tree_scan(&machine, store, &w, 1, 0, &t), 0);
            CHECK_EQ(t.used, 1); /* by descent alone: it has no mark */
            end_all(&t);
            reap(t.at[0].pid);
            tg_tree_done(&t);
        }
    }
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 0) == 0);
    close(ready_pipe[0]);
    close(ready_pipe[1]);
}

int main(void)
{
    name_the_store();
    RUN(marks_and_descent_are_followed);
    RUN(hostile_files_are_no_members);
    RUN(whether_anything_is_left_below_the_reaper);
    RUN(l19_l20_a_real_tree_is_found_whole);
    RUN(a_real_reaper_is_asked);
    return 0;
}
