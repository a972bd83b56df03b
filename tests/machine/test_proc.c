/* SPDX-License-Identifier: Apache-2.0
 * Process identity, death and signals (A4; S2, L1, L5, L7, L8, L13, L14) on real processes and fixtures. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "machine/child.h"
#include "machine/fixture.h"
#include "machine/proc.h"

static const struct tg_root machine = {.prefix = ""};

static void end(pid_t pid)
{
    CHECK(kill(pid, SIGKILL) == 0);
    (void)reap(pid);
}

static bool ends_within(int pidfd, int ms)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    return poll(&p, 1, ms) == 1;
}

static struct tg_owner fixture_owner(pid_t pid, uint64_t start)
{
    struct tg_owner o = {.pid = pid, .start_ticks = start};
    memcpy(o.boot_id, FIXTURE_BOOT, TG_BOOT_ID_BYTES);
    return o;
}

static void boot_id_is_strict(void)
{
    static const char *const bad[] = {
        "",
        "\n",
        "01234567-89ab-cdef-0123-456789abcde\n",
        "01234567-89ab-cdef-0123-456789abcdeff\n",
        "01234567-89ab-cdef-0123-456789abcdef\n\n",
        "01234567-89ab-cdef-0123-456789abcdeg\n",
        "01234567x89ab-cdef-0123-456789abcdef\n",
        "01234567-89ab-cdef-0123-456789abcdef 0123456789012345678901234567890\n"};
    struct fixture f;
    char id[TG_BOOT_ID_BYTES] = "untouched";
    fixture_open(&f);
    CHECK_EQ(tg_boot_id(&f.root, id), -ENOENT);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fixture_put(&f, "/proc/sys/kernel/random/boot_id", bad[i]);
        CHECK_EQ(tg_boot_id(&f.root, id), -EBADMSG);
    }
    CHECK(strcmp(id, "untouched") == 0);
    fixture_put_boot(&f);
    CHECK_EQ(tg_boot_id(&f.root, id), 0);
    CHECK(strcmp(id, FIXTURE_BOOT) == 0);
    fixture_close(&f);
    CHECK_EQ(tg_boot_id(&machine, id), 0);
    CHECK_EQ(strlen(id), 36);
}

static void s2_l7_a_reused_pid_is_somebody_else(void)
{
    struct fixture f;
    fixture_open(&f);
    fixture_put_boot(&f);
    fixture_put_stat(&f, 4242, "sleep", 'S', 1, 4242, 1, 7000);
    struct tg_owner o = fixture_owner(4242, 7000);
    CHECK_EQ(tg_owner_alive(&f.root, &o), TG_ALIVE);
    fixture_put_stat(&f, 4242, "sleep", 'S', 1, 4242, 1, 7001);
    CHECK_EQ(tg_owner_alive(&f.root, &o), TG_DEAD);
    fixture_close(&f);

    pid_t child = spawn(NULL);
    int fd = -1;
    CHECK_EQ(tg_owner_of(&machine, child, &o), 0);
    CHECK_EQ(tg_owner_alive(&machine, &o), TG_ALIVE);
    o.start_ticks++;
    CHECK_EQ(tg_owner_alive(&machine, &o), TG_DEAD);
    CHECK_EQ(tg_owner_pidfd(&machine, &o, &fd), -ESRCH);
    CHECK_EQ(fd, -1);
    end(child);
}

static void l5_another_boot_means_dead(void)
{
    struct fixture f;
    fixture_open(&f);
    fixture_put_boot(&f);
    fixture_put_stat(&f, 77, "job", 'R', 1, 77, 1, 5);
    struct tg_owner o = fixture_owner(77, 5);
    CHECK_EQ(tg_owner_alive(&f.root, &o), TG_ALIVE);
    fixture_put(&f, "/proc/sys/kernel/random/boot_id", "11234567-89ab-cdef-0123-456789abcdef\n");
    CHECK_EQ(tg_owner_alive(&f.root, &o), TG_DEAD);
    memset(o.boot_id, 'f', sizeof o.boot_id); /* a record without its NUL is nobody's */
    CHECK_EQ(tg_owner_alive(&f.root, &o), TG_DEAD);
    fixture_close(&f);
}

static void unreadable_is_unknown_never_dead(void)
{
    struct fixture f;
    fixture_open(&f);
    struct tg_owner o = fixture_owner(77, 5), got = {.pid = -7};
    CHECK_EQ(tg_owner_alive(&f.root, &o), TG_LIVENESS_UNKNOWN); /* no /proc at all */
    CHECK_EQ(tg_owner_of(&f.root, 77, &got), -ENOENT);
    fixture_put_boot(&f);
    CHECK_EQ(tg_owner_alive(&f.root, &o), TG_DEAD);
    CHECK_EQ(tg_owner_of(&f.root, 77, &got), -ESRCH);
    fixture_put(&f, "/proc/sys/kernel/random/boot_id", "garbage\n");
    CHECK_EQ(tg_owner_alive(&f.root, &o), TG_LIVENESS_UNKNOWN);
    CHECK_EQ(tg_owner_of(&f.root, 77, &got), -EBADMSG);
    fixture_put_boot(&f);
    fixture_put_bytes(&f, "/proc/77/stat", "77 (a) S 1 \0 3", 14);
    CHECK_EQ(tg_owner_alive(&f.root, &o), TG_LIVENESS_UNKNOWN);
    CHECK_EQ(got.pid, -7);
    fixture_close(&f);
}

static void stat_lines_that_are_not_stat_lines(void)
{
    static const char *const bad[] = {
        "",
        "77",
        "77 (",
        "77 (a)",
        "77 (a) ",
        "77 (a) S",
        "77 (a) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18",                      /* 21 fields */
        "77 (a) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 99999999999999999999", /* 20 digits */
        "77 (a) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 5x",
        "77 (a) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18  5",
        "77 (a) S 4294967297 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 5",
        "78 (a) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 5 6\n",
        "-77 (a) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 5 6\n",
    };
    struct fixture f;
    struct tg_owner o;
    fixture_open(&f);
    fixture_put_boot(&f);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fixture_put(&f, "/proc/77/stat", bad[i]);
        CHECK_EQ(tg_owner_of(&f.root, 77, &o), -EBADMSG);
    }
    fixture_put(&f, "/proc/77/stat", "77 (a) S 1 2 3 4 -5 6 7 8 9 10 11 12 13 14 15 16 17 18 5 6\n");
    CHECK_EQ(tg_owner_of(&f.root, 77, &o), 0);
    CHECK_EQ(o.start_ticks, 5);
    fixture_close(&f);
}

static void hostile_name(void)
{
    prctl(PR_SET_NAME, ") Z 1 1\n(");
}

static void a_name_cannot_forge_the_line(void)
{
    static const char *const names[] = {"a b", ")", "(", "a) Z 0 0 0", "x\ny", ") S 1 2 3 4 5 6 7 8 (", ""};
    struct fixture f;
    struct tg_owner o;
    fixture_open(&f);
    fixture_put_boot(&f);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        fixture_put_stat(&f, 9, names[i], 'S', 3, 9, 1, 123456);
        CHECK_EQ(tg_owner_of(&f.root, 9, &o), 0);
        CHECK_EQ(o.start_ticks, 123456);
    }
    fixture_close(&f);

    pid_t child = spawn(hostile_name);
    CHECK_EQ(tg_owner_of(&machine, child, &o), 0);
    CHECK_EQ(tg_owner_alive(&machine, &o), TG_ALIVE);
    CHECK(tg_proc_descends(&machine, child, getpid()));
    end(child);
}

static void l1_a_killed_owner_is_an_event(void)
{
    pid_t child = spawn(NULL);
    struct tg_owner o;
    int fd = -1;
    CHECK_EQ(tg_owner_of(&machine, child, &o), 0);
    CHECK_EQ(tg_owner_pidfd(&machine, &o, &fd), 0);
    CHECK((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    CHECK(!ends_within(fd, 0));
    CHECK(kill(child, SIGKILL) == 0);
    CHECK(ends_within(fd, 1000));
    CHECK_EQ(tg_owner_alive(&machine, &o), TG_DEAD); /* a zombie still */
    close(fd);
    (void)reap(child);
    CHECK_EQ(tg_owner_alive(&machine, &o), TG_DEAD);
    CHECK_EQ(tg_owner_of(&machine, child, &o), -ESRCH);
    CHECK_EQ(tg_owner_pidfd(&machine, &o, &fd), -ESRCH);
}

static void l14_probing_never_reaps(void)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        _exit(7);
    struct tg_owner o;
    siginfo_t info;
    CHECK(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) == 0); /* it has ended, and is not reaped */
    CHECK_EQ(tg_owner_of(&machine, child, &o), -ESRCH);
    CHECK_EQ(tg_boot_id(&machine, o.boot_id), 0);
    o.pid = child;
    o.start_ticks = 1;
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(tg_owner_alive(&machine, &o), TG_DEAD);
        CHECK_EQ(tg_child_signal(child, SIGTERM), 0); /* harmless: there is nobody to hear it */
    }
    CHECK_EQ(WEXITSTATUS(reap(child)), 7);
    CHECK_EQ(tg_child_signal(child, SIGTERM), -ESRCH);
}

static void *sleep_on(void *unused)
{
    (void)unused;
    for (;;)
        pause();
    return NULL;
}

static void a_process_without_its_first_thread_lives(void)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        pthread_t t;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (pthread_create(&t, NULL, sleep_on, NULL))
            _exit(1);
        pthread_exit(NULL);
    }
    /* Until the first thread shows as ended. */
    char path[64], line[1024] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)child);
    for (int i = 0; i < 1000 && !strstr(line, ") Z "); i++) {
        CHECK(tg_root_read(&machine, path, line, sizeof line) > 0);
        poll(NULL, 0, 2);
    }
    CHECK(strstr(line, ") Z ") != NULL);
    struct tg_owner o;
    int fd = -1;
    CHECK_EQ(tg_owner_of(&machine, child, &o), 0);
    CHECK_EQ(tg_owner_alive(&machine, &o), TG_ALIVE);
    CHECK_EQ(tg_owner_pidfd(&machine, &o, &fd), 0);
    CHECK(!ends_within(fd, 0));
    CHECK(kill(child, SIGKILL) == 0);
    CHECK(ends_within(fd, 1000));
    close(fd);
    (void)reap(child);
}

static void l8_a_changed_start_time_gets_no_signal(void)
{
    pid_t child = spawn(NULL);
    struct tg_owner o;
    int status;
    CHECK_EQ(tg_owner_of(&machine, child, &o), 0);
    o.start_ticks--;
    CHECK_EQ(tg_owner_signal(&machine, &o, SIGKILL, false), -ESRCH);
    CHECK_EQ(tg_owner_signal(&machine, &o, SIGKILL, true), -ESRCH);
    o.start_ticks++;
    o.boot_id[0] = o.boot_id[0] == 'a' ? 'b' : 'a';
    CHECK_EQ(tg_owner_signal(&machine, &o, SIGKILL, false), -ESRCH);
    poll(NULL, 0, 50);
    CHECK_EQ(waitpid(child, &status, WNOHANG), 0);
    CHECK_EQ(tg_owner_of(&machine, child, &o), 0);
    CHECK_EQ(tg_owner_signal(&machine, &o, SIGUSR1, false), 0);
    CHECK_EQ(WTERMSIG(reap(child)), SIGUSR1);
    CHECK_EQ(tg_owner_signal(&machine, &o, SIGUSR1, false), -ESRCH);
}

static void l13_no_signal_to_groups_init_or_oneself(void)
{
    const pid_t refused[] = {0, 1, -1, -2, INT_MIN, getpid(), -getpid(), -getpgrp()};
    const int bad[] = {0, -1, SIGRTMAX + 1, INT_MAX, INT_MIN};
    struct tg_owner o;
    CHECK_EQ(tg_owner_of(&machine, getpid(), &o), 0);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        o.pid = refused[i];
        CHECK_EQ(tg_owner_signal(&machine, &o, SIGKILL, false), -EINVAL);
        CHECK_EQ(tg_owner_signal(&machine, &o, SIGKILL, true), -EINVAL);
        CHECK_EQ(tg_child_signal(refused[i], SIGKILL), -EINVAL);
        if (refused[i] < 1) {
            struct tg_owner other;
            uid_t uid;
            int fd;
            CHECK_EQ(tg_owner_of(&machine, refused[i], &other), -EINVAL);
            CHECK_EQ(tg_owner_alive(&machine, &o), TG_DEAD);
            CHECK_EQ(tg_owner_pidfd(&machine, &o, &fd), -ESRCH);
            CHECK_EQ(tg_proc_uid(&machine, refused[i], &uid), -EINVAL);
            CHECK(!tg_proc_descends(&machine, refused[i], refused[i]));
        }
    }
    CHECK(!tg_proc_descends(&machine, getpid(), 1));
    CHECK(!tg_proc_descends(&machine, getpid(), 0));
    CHECK_EQ(tg_child_signal(getppid(), SIGKILL), getppid() > 1 ? -ESRCH : -EINVAL); /* no child of ours */

    pid_t child = spawn(NULL);
    int status;
    CHECK_EQ(tg_owner_of(&machine, child, &o), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_EQ(tg_owner_signal(&machine, &o, bad[i], false), -EINVAL);
        CHECK_EQ(tg_child_signal(child, bad[i]), -EINVAL);
    }
    CHECK_EQ(waitpid(child, &status, WNOHANG), 0);
    /* The child is in our own group: the group is not signalled (this process would die), it is. */
    CHECK_EQ(getpgid(child), getpgrp());
    CHECK_EQ(tg_owner_signal(&machine, &o, SIGTERM, true), 0);
    CHECK_EQ(WTERMSIG(reap(child)), SIGTERM);

    child = spawn(NULL);
    errno = 1234;
    CHECK_EQ(tg_child_signal(child, SIGTERM), 0);
    CHECK_EQ(errno, 1234);
    CHECK_EQ(WTERMSIG(reap(child)), SIGTERM);
}

static int survivor_pipe[2];

static void lead_a_group(void)
{
    if (setpgid(0, 0))
        _exit(98);
    if (fork() == 0) {
        for (;;)
            pause();
    }
}

static void a_group_that_its_leader_owns_ends_whole(void)
{
    CHECK(pipe2(survivor_pipe, O_CLOEXEC) == 0);
    pid_t child = spawn(lead_a_group);
    close(survivor_pipe[1]); /* held by the child and the grandchild */
    struct tg_owner o;
    CHECK_EQ(tg_owner_of(&machine, child, &o), 0);
    CHECK_EQ(tg_owner_signal(&machine, &o, SIGTERM, true), 0);
    CHECK_EQ(WTERMSIG(reap(child)), SIGTERM);
    struct pollfd p = {.fd = survivor_pipe[0], .events = POLLIN};
    CHECK_EQ(poll(&p, 1, 2000), 1);
    CHECK((p.revents & POLLHUP) != 0);
    close(survivor_pipe[0]);
}

/* The leader of the caller's own group: it alone is signalled, and the caller lives on to say so. */
static int signal_own_leader(pid_t leader)
{
    struct tg_owner o;
    if (getpgrp() != leader || tg_owner_of(&machine, leader, &o))
        return 1;
    return tg_owner_signal(&machine, &o, SIGUSR1, true) == 0 ? 0 : 2;
}

static void l13_own_group_is_not_signalled(void)
{
    int from[2];
    char c = 'x';
    CHECK(pipe2(from, O_CLOEXEC) == 0);
    pid_t leader = fork();
    CHECK(leader >= 0);
    if (leader == 0) {
        if (setpgid(0, 0))
            _exit(98);
        if (fork() == 0) {
            c = (char)('0' + signal_own_leader(getppid()));
            poll(NULL, 0, 20); /* a signal to the group would be here by now */
            _exit(write(from[1], &c, 1) == 1 ? 0 : 1);
        }
        close(from[1]);
        for (;;)
            pause();
    }
    close(from[1]);
    CHECK_EQ(WTERMSIG(reap(leader)), SIGUSR1);
    CHECK_EQ(read(from[0], &c, 1), 1);
    CHECK_EQ(c, '0');
    close(from[0]);
}

static void a_fixture_decides_whom_a_signal_may_reach(void)
{
    struct fixture f;
    int status;
    pid_t child = spawn(NULL);
    fixture_open(&f);
    fixture_put_boot(&f);
    fixture_put_stat(&f, child, "x", 'S', 1, child, 1, 50);
    struct tg_owner o = fixture_owner(child, 51);
    CHECK_EQ(tg_owner_signal(&f.root, &o, SIGKILL, false), -ESRCH);
    CHECK_EQ(waitpid(child, &status, WNOHANG), 0);
    o.start_ticks = 50;
    CHECK_EQ(tg_owner_signal(&f.root, &o, SIGKILL, false), 0);
    CHECK_EQ(WTERMSIG(reap(child)), SIGKILL);
    fixture_close(&f);
}

static void become_nobody(void)
{
    if (setresuid(65534, 65533, 65533))
        _exit(97);
}

static void the_real_uid_is_read(void)
{
    struct fixture f;
    uid_t uid = 5;
    fixture_open(&f);
    CHECK_EQ(tg_proc_uid(&f.root, 12, &uid), -ENOENT);
    fixture_put_boot(&f);
    CHECK_EQ(tg_proc_uid(&f.root, 12, &uid), -ESRCH);
    fixture_put(&f, "/proc/12/status", "Name:\tUid:\t0\nPid:\t12\n");
    CHECK_EQ(tg_proc_uid(&f.root, 12, &uid), -EBADMSG);
    fixture_put(&f, "/proc/12/status", "Uid:\t4294967296\t0\t0\t0\n");
    CHECK_EQ(tg_proc_uid(&f.root, 12, &uid), -EBADMSG);
    fixture_put(&f, "/proc/12/status", "Uid:\t-1\t0\t0\t0\n");
    CHECK_EQ(tg_proc_uid(&f.root, 12, &uid), -EBADMSG);
    CHECK_EQ(uid, 5);
    fixture_put_status(&f, 12, 1, 1, 1);
    CHECK_EQ(tg_proc_uid(&f.root, 12, &uid), 0);
    CHECK_EQ(uid, 1000);
    fixture_close(&f);
    CHECK_EQ(tg_proc_uid(&machine, getpid(), &uid), 0);
    CHECK_EQ(uid, getuid());
    if (getuid() != 0) {
        fprintf(stderr, "SKIPPED: the part with another user needs root\n");
        return;
    }
    pid_t child = spawn(become_nobody);
    CHECK_EQ(tg_proc_uid(&machine, child, &uid), 0);
    CHECK_EQ(uid, 65534);
    end(child);
}

struct visits {
    pid_t seen[128];
    size_t n;
};

static bool note(void *ctx, pid_t pid)
{
    struct visits *v = ctx;
    CHECK(v->n < 128);
    v->seen[v->n++] = pid;
    return false;
}

static void walking_up_is_bounded_and_not_fooled(void)
{
    struct fixture f;
    struct visits v = {.n = 0};
    fixture_open(&f);
    fixture_put_boot(&f);
    for (int pid = 2; pid <= 101; pid++)
        fixture_put_stat(&f, pid, "chain", 'S', pid - 1, pid, 1, (uint64_t)pid);
    CHECK(!tg_proc_walk_up(&f.root, 10, note, &v)); /* 10 down to 2, and never 1 */
    CHECK_EQ(v.n, 9);
    CHECK_EQ(v.seen[8], 2);
    v.n = 0;
    CHECK(!tg_proc_walk_up(&f.root, 101, note, &v));
    CHECK_EQ(v.n, 64);
    CHECK(tg_proc_descends(&f.root, 10, 10));
    CHECK(tg_proc_descends(&f.root, 10, 2));
    CHECK(!tg_proc_descends(&f.root, 10, 1));
    CHECK(!tg_proc_descends(&f.root, 10, 11));
    CHECK(!tg_proc_descends(&f.root, 101, 2)); /* too far up */
    fixture_drop(&f, "/proc/5/stat");
    CHECK(!tg_proc_descends(&f.root, 10, 4)); /* the chain cannot be read through */
    CHECK(tg_proc_descends(&f.root, 10, 6));
    fixture_put_stat(&f, 5, "young", 'S', 4, 5, 1, 99);
    CHECK(!tg_proc_descends(&f.root, 10, 5)); /* younger than its child: the number was reused */
    fixture_put_stat(&f, 20, "loop", 'S', 21, 20, 1, 7);
    fixture_put_stat(&f, 21, "loop", 'S', 20, 21, 1, 7);
    v.n = 0;
    CHECK(!tg_proc_walk_up(&f.root, 20, note, &v));
    CHECK_EQ(v.n, 64);
    fixture_close(&f);
    CHECK(tg_proc_descends(&machine, getpid(), getpid()));
    pid_t child = spawn(NULL);
    CHECK(tg_proc_descends(&machine, child, getpid()));
    CHECK(!tg_proc_descends(&machine, getpid(), child));
    end(child);
    CHECK(!tg_proc_descends(&machine, child, getpid()));
}

static void processes_that_vanish_meanwhile(void)
{
    for (int i = 0; i < 200; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0)
            _exit(0);
        struct tg_owner o;
        int fd = -1;
        int err = tg_owner_of(&machine, child, &o);
        CHECK(err == 0 || err == -ESRCH);
        if (err == 0) {
            err = tg_owner_pidfd(&machine, &o, &fd);
            CHECK(err == 0 || err == -ESRCH);
            if (err == 0)
                close(fd);
        }
        (void)reap(child);
        if (fd >= 0)
            CHECK_EQ(tg_owner_alive(&machine, &o), TG_DEAD);
    }
}

/* In a mount namespace of its own, with a /proc that hides other users' processes. */
static int hidden_proc(pid_t other)
{
    struct tg_owner o;
    if (tg_owner_of(&machine, other, &o))
        return 1;
    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("proc", "/proc", "proc", 0, "hidepid=2") || setresgid(65534, 65534, 65534) ||
        setresuid(65534, 65534, 65534))
        return 77;
    if (access("/proc/self/stat", R_OK))
        return 77;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)other);
    if (access(path, R_OK) == 0)
        return 77;
    if (tg_owner_alive(&machine, &o) != TG_LIVENESS_UNKNOWN)
        return 2;
    uid_t uid;
    return tg_proc_uid(&machine, other, &uid) == -EACCES ? 0 : 3;
}

static void a_hidden_process_is_not_a_dead_one(void)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        _exit(getuid() == 0 ? hidden_proc(getppid()) : 77);
    int code = WEXITSTATUS(reap(child));
    if (code == 77)
        fprintf(stderr, "SKIPPED: a /proc with hidepid cannot be mounted here\n");
    else
        CHECK_EQ(code, 0);
}

int main(void)
{
    RUN(boot_id_is_strict);
    RUN(s2_l7_a_reused_pid_is_somebody_else);
    RUN(l5_another_boot_means_dead);
    RUN(unreadable_is_unknown_never_dead);
    RUN(stat_lines_that_are_not_stat_lines);
    RUN(a_name_cannot_forge_the_line);
    RUN(l1_a_killed_owner_is_an_event);
    RUN(l14_probing_never_reaps);
    RUN(a_process_without_its_first_thread_lives);
    RUN(l8_a_changed_start_time_gets_no_signal);
    RUN(l13_no_signal_to_groups_init_or_oneself);
    RUN(a_group_that_its_leader_owns_ends_whole);
    RUN(l13_own_group_is_not_signalled);
    RUN(a_fixture_decides_whom_a_signal_may_reach);
    RUN(the_real_uid_is_read);
    RUN(walking_up_is_bounded_and_not_fooled);
    RUN(processes_that_vanish_meanwhile);
    RUN(a_hidden_process_is_not_a_dead_one);
    return 0;
}
